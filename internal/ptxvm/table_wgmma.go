package ptxvm

import (
	"fmt"
	"slices"
	"strings"

	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxmath"
)

// This file implements wgmma: products of matrices that four warps ask for together and that go on while the kernel
// does (PTX ISA 9.7.15). A warp has 16 of the 64 rows of the result, which depend on nothing that the other three hold,
// so every warp computes its own. It does so when somebody waits for the product, as late as a device may: what looks
// at a register of the result too early sees what was there before.

var wgmmaRows = []row{
	{syntax: "wgmma .fence .sync .aligned", build: wgmmaFence},
	{syntax: "wgmma .commit_group .sync .aligned", build: wgmmaCommit},
	{syntax: "wgmma .wait_group .sync .aligned", build: wgmmaWait},
	{syntax: "wgmma .mma_async .sync .aligned $m64k16 .f32|.f16 .f16 .f16", build: wgmma},
	{syntax: "wgmma .mma_async .sync .aligned $m64k16 .f32 .bf16 .bf16", build: wgmma},
	{syntax: "wgmma .mma_async .sync .aligned $m64k8 .f32 .tf32 .tf32", build: wgmma},
	{syntax: "wgmma .mma_async .sync .aligned $m64k32 .f32|.f16 .e4m3|.e5m2 .e4m3|.e5m2", build: wgmma},
	{syntax: "wgmma .mma_async .sync .aligned $m64k32i [.satfinite] .s32 .s8|.u8 .s8|.u8", build: wgmma},
	{syntax: "wgmma .mma_async .sync .aligned $m64k32i .s32 .s8|.u8 .s8|.u8 .satfinite", build: wgmma},
}

// wgmmaShapes are the shapes of one depth: n is a multiple of 8 up to 256, for integers above 32 one of 16.
func wgmmaShapes(k int, integers bool) string {
	var names []string
	for n := 8; n <= wgmmaColumns; n += 8 {
		if !integers || n <= 32 || n%16 == 0 {
			names = append(names, fmt.Sprintf(".m64n%dk%d", n, k))
		}
	}
	return strings.Join(names, "|")
}

const (
	wgmmaColumns = 256 // the largest n
	wgmmaDepth   = 32  // the largest k; always 32 bytes
	groupWarps   = 4   // warps of a warpgroup
	pieceBytes   = 16  // matrices in shared memory are made of pieces of this size
)

// wgmmaUse is what an instruction multiplies: the rows of one warp by n columns.
type wgmmaUse struct {
	product      // a is empty where A lies in shared memory
	descA, descB ref
	transA       bool // elements along m, not along k, are neighbours
	transB       bool
	negate       bool // one factor, but not both, is multiplied by -1
	scale        ref  // false: the old result does not count
	scaleFlip    bool
}

// issued is a product that was asked for.
type issued struct {
	use    *wgmmaUse
	in     *ins
	a, b   []uint32 // addresses of pieces; a is empty where A lies in registers
	scaleD bool
}

// products are those of a warp that are under way.
type products struct {
	open   []*issued   // since the last commit
	groups [][]*issued // the oldest first
}

// aligned makes an instruction that all lanes of a warp execute together.
func (b *builder) aligned() {
	b.out.kind, b.out.c = together, b.constant(class32, uint64(allLanes))
	b.prog.products = b.prog.products || b.in.Op == "wgmma"
}

func wgmmaFence(b *builder) {
	b.aligned()
	b.out.run = func(w *warp, in *ins) {
		if w.inStep(in, step{}) && w.shadow != nil {
			w.shadow.fence()
		}
	}
}

func wgmmaCommit(b *builder) {
	b.aligned()
	b.out.run = func(w *warp, in *ins) {
		if w.inStep(in, step{}) {
			if w.crowded(len(w.products.groups)) {
				return
			}
			w.products.groups = append(w.products.groups, w.products.open)
			w.products.open = nil
		}
	}
}

func wgmmaWait(b *builder) {
	if b.arg(0).Kind != ptx.IntArg || b.arg(0).Value > 1<<20 {
		b.fail(b.in.Pos, "", "%s needs a small number", b.in.Mnemonic())
		return
	}
	b.aligned()
	left := int(b.arg(0).Value)
	b.out.run = func(w *warp, in *ins) {
		if !w.inStep(in, step{}) {
			return
		}
		q := &w.products
		for len(q.groups) > left {
			for _, op := range q.groups[0] {
				w.multiply(op)
				w.shadow.multiplied(op)
			}
			q.groups = q.groups[1:]
		}
		w.shadow.underWay(w)
	}
}

func wgmma(b *builder) {
	u := &wgmmaUse{product: product{m: mmaRowsMost, satfinite: b.in.Has("satfinite")}, descA: noRef}
	mods := slices.DeleteFunc(slices.Clone(b.in.Mods), func(m string) bool { return m == "satfinite" })
	if _, err := fmt.Sscanf(mods[3], "m64n%dk%d", &u.n, &u.k); err != nil {
		b.fail(b.in.Pos, "", "shape %s is not executed here", mods[3])
		return
	}
	u.result, u.typeA, u.typeB = mods[4], mods[5], mods[6]
	u.inA, u.inB = mmaInputs[u.typeA], mmaInputs[u.typeB]
	u.core = ptxmath.NewCore(ptxmath.Hopper, u.inA, true)
	args := b.in.Args
	inRegisters := len(args) > 1 && args[1].Kind == ptx.VectorArg
	immediates := 2 // -1 or 1 for A and for B, then whether they lie across
	switch {
	case u.result == "s32":
		immediates = 0
	case elementBits(u.typeA) == 16 && inRegisters:
		immediates = 3
	case elementBits(u.typeA) == 16:
		immediates = 4
	}
	b.args(4 + immediates)
	if b.err != nil {
		return
	}
	elements := u.m * u.n / warpSize
	if u.result == "f16" {
		elements /= 2
	}
	u.d = b.matrix(&args[0], "b32", elements, true)
	if inRegisters {
		u.a = b.matrix(&args[1], "b32", 4, false)
	} else {
		u.descA = b.srcOf(&args[1], "b64")
	}
	u.descB, u.scale, u.scaleFlip = b.srcOf(&args[2], "b64"), b.srcOf(&args[3], "pred"), args[3].Not
	u.immediates(b, args[4:])
	b.aligned()
	b.out.run = func(w *warp, in *ins) { w.ask64(in, u) }
	b.out.flow = func(x *warpShadow, w *warp, _ *ins) { x.products(w, u) }
	b.out.wgmma = u
}

// immediates reads the constants behind scale-d.
func (u *wgmmaUse) immediates(b *builder, args []ptx.Operand) {
	for i := range args {
		o, v := &args[i], int64(args[i].Value)
		switch {
		case o.Kind == ptx.IntArg && i < 2 && (v == 1 || v == -1):
			u.negate = u.negate != (v < 0)
		case o.Kind == ptx.IntArg && i >= 2 && (v == 0 || v == 1):
			if i == 2 && u.descA != noRef {
				u.transA = v == 1
			} else {
				u.transB = v == 1
			}
		default:
			b.fail(o.Pos, "", "%s is not executed here with %s", b.in.Mnemonic(), o)
		}
	}
}

// placement is where a matrix lies in shared memory: what its descriptor says (PTX ISA 9.7.15.5.1).
type placement struct {
	start, lead, stride uint64
	base                uint64
	row                 uint64 // bytes of a row of the swizzle pattern; pieceBytes where there is none
}

func readDescriptor(d uint64) placement {
	field := func(at int) uint64 { return d >> at & (1<<14 - 1) << 4 }
	return placement{field(0), field(16), field(32), d >> 49 & 7, [4]uint64{pieceBytes, 128, 64, 32}[d>>62]}
}

// pieces lists the addresses of a matrix. With elements along k as neighbours it is two pieces a row, else sixteen a
// group of eight rows, one for each k. Rows are those of A or columns of B, from first on.
func (p placement) pieces(first, rows int, across bool) []uint32 {
	list := make([]uint32, 0, 2*rows)
	perRow := p.row / pieceBytes
	for r := uint64(first); r < uint64(first+rows); {
		if !across {
			for piece := range uint64(2) {
				at := r/8*p.stride + r%8*p.row
				if perRow == 1 {
					at += piece * p.lead
				} else {
					at += piece * pieceBytes
				}
				list = append(list, p.place(at))
			}
			r++
			continue
		}
		for k := range uint64(16) {
			at := k % 8 * p.row
			if group := r / 8; perRow == 1 {
				at += group*p.stride + k/8*p.lead
			} else {
				at += group%perRow*pieceBytes + group/perRow*p.lead + k/8*p.stride
			}
			list = append(list, p.place(at))
		}
		r += 8
	}
	return list
}

// place is an address of the pattern. Which piece of a row comes first changes from one 128 bytes to the next.
func (p placement) place(at uint64) uint32 {
	at = (p.start + at) & (1<<18 - 1)
	return uint32(at ^ (at>>7-p.base)&(p.row/pieceBytes-1)*pieceBytes)
}

var sharedPiece = &access{space: sharedSpace, size: pieceBytes, typ: "b8"}

// ask64 begins a product: its operands are noted, and read when somebody waits.
func (w *warp) ask64(in *ins, u *wgmmaUse) {
	op := &issued{use: u, in: in, scaleD: w.get(u.scale, 0) != 0 != u.scaleFlip}
	s := step{b: w.get(u.descB, 0), scale: op.scaleD}
	if u.descA != noRef {
		s.a = w.get(u.descA, 0)
	}
	for lane := range warpSize {
		same := w.get(u.descB, lane) == s.b && (u.descA == noRef || w.get(u.descA, lane) == s.a) &&
			w.get(u.scale, lane) != 0 != u.scaleFlip == s.scale
		if !same {
			w.stop(in, lane, BarrierDivergence, "lanes 0 and %d of a warp have different descriptors or scale-d", lane)
			return
		}
	}
	if !w.inStep(in, s) {
		return
	}
	if u.descA != noRef {
		op.a = readDescriptor(s.a).pieces(w.index%groupWarps*u.m, u.m, u.transA)
	}
	op.b = readDescriptor(s.b).pieces(0, u.n, u.transB)
	for _, list := range [][]uint32{op.a, op.b} {
		for i, at := range list {
			w.reach(in, sharedPiece, i%warpSize, uint64(at), pieceBytes, false)
		}
	}
	if w.crowded(len(w.products.open)) {
		return
	}
	w.products.open = append(w.products.open, op)
	w.shadow.asked(w, op)
}

// gather places the elements of a matrix in shared memory, where eight of its rows are 16 pieces. What lies outside is
// zero; that was reported.
func (w *warp) gather(dst, list []uint32, size int, across bool, to strides) {
	shared := w.cta.shared
	per := pieceBytes / size
	for i, at := range list {
		first, step := i/2*to.perRow+i%2*per*to.perK, to.perK
		if across {
			first, step = i/16*8*to.perRow+i%16*to.perK, to.perRow
		}
		for e := range per {
			bits := uint32(0)
			if from := int(at) + e*size; from+size <= len(shared) {
				bits = uint32(getBytes(shared[from:], size))
			}
			dst[first+e*step] = bits
		}
	}
}

// multiply computes a product, eight columns after the other.
func (w *warp) multiply(op *issued) {
	u := op.use
	size := elementBits(u.typeA) / 8
	var rawA [mmaRowsMost * wgmmaDepth]uint32
	var rawB [ptxmath.Width * wgmmaDepth]uint32
	a, b := rawA[:u.m*u.k], rawB[:ptxmath.Width*u.k]
	byRows := strides{perRow: u.k, perK: 1}
	if u.descA == noRef {
		u.spread(a, w, u.a, u.typeA, u.m, byRows)
	} else {
		w.gather(a, op.a, size, u.transA, byRows)
	}
	if u.negate {
		for i := range a {
			a[i] ^= 1 << (8*size - 1)
		}
	}
	var rows ptxmath.Rows
	var columns ptxmath.Columns
	if u.result == "s32" {
		extend(a, u.typeA)
	} else {
		u.core.Rows(&rows, u.inA, a, u.k)
	}
	for group := range u.n / ptxmath.Width {
		var t strip
		if op.scaleD {
			u.resultsIn(&t, w, u.d, group)
		}
		w.gather(b, op.b[16*group:16*group+16], size, u.transB, byColumns)
		if u.result == "s32" {
			extend(b, u.typeB)
			u.addIntegers(&t, a, b)
		} else {
			u.core.Columns(&columns, u.inB, b)
			u.addFloats(&t, &rows, &columns)
		}
		u.resultsOut(&t, w, u.d, group)
	}
}

// step is an instruction that all warps of a warpgroup execute, with the operands that must be the same.
type step struct {
	in    *ins
	warp  int
	a, b  uint64
	scale bool
}

// warpgroup is four warps: what some of them have executed and others have not yet.
type warpgroup struct {
	steps []step
	first int             // number of steps[0]
	done  [groupWarps]int // how many each warp has executed
}

// inStep compares an instruction with what the other warps of the group executed at its place, and reports whether it
// can be executed.
func (w *warp) inStep(in *ins, s step) bool {
	s.in, s.warp = in, w.index
	at := w.index % groupWarps
	first := w.index - at
	switch {
	case w.mask != allLanes:
		w.stop(in, firstLane(w.mask), BadMask, "lanes %#08x execute it, but it needs all 32 of each of four warps", w.mask)
	case first+groupWarps > len(w.cta.warps):
		w.stop(in, 0, BarrierDivergence, "it needs four warps, and the block ends after %d of warps %d to %d",
			len(w.cta.warps)-first, first, first+groupWarps-1)
	default:
		g := &w.cta.groups[w.index/groupWarps]
		n := g.done[at] - g.first
		if n == len(g.steps) {
			g.steps = append(g.steps, s)
		}
		if other := &g.steps[n]; other.in != in {
			w.stop(in, 0, BarrierDivergence, "warp %d executes %s (%s) instead; all warps of a warpgroup must execute the "+
				"same", other.warp, other.in.src.Mnemonic(), w.cta.grid.prog.spot(other.in))
			break
		} else if other.a != s.a || other.b != s.b || other.scale != s.scale {
			w.stop(in, 0, BarrierDivergence, "warp %d of the warpgroup has different descriptors or scale-d", other.warp)
			break
		}
		g.done[at]++
		if lowest := slices.Min(g.done[:]); lowest > g.first {
			g.steps, g.first = g.steps[lowest-g.first:], lowest
		}
		return true
	}
	return false
}

// ended reports what some warps of a warpgroup executed and others never did, when the last of them ends.
func (c *cta) ended(w *warp) {
	if len(c.groups) == 0 {
		return
	}
	first := w.index / groupWarps * groupWarps
	for _, x := range c.warps[first:min(first+groupWarps, len(c.warps))] {
		if x.alive != 0 {
			return
		}
	}
	g := &c.groups[w.index/groupWarps]
	if len(g.steps) == 0 {
		return
	}
	s := &g.steps[0]
	missing := first + slices.Index(g.done[:], g.first)
	c.warps[s.warp].stop(s.in, 0, BarrierDivergence, "warp %d of the warpgroup ends without it; all four must execute "+
		"it", missing)
}

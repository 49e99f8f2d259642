package ptxvm

import (
	"fmt"
	"math/bits"
	"slices"

	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxmath"
)

// This file implements wmma: loads, stores and products of matrices whose place in registers PTX leaves open (PTX ISA
// 9.7.14.4). Here the elements lie in the order of rows, for B of columns, as many in a register as fit into it, lane
// after lane, then in the next register. What is left of the registers is zero.

var wmmaRows = []row{
	{syntax: "wmma .load .a|.b .sync .aligned .row|.col $wmma [$memory] .f16|.bf16|.s8|.u8", build: wmmaLoad},
	{syntax: "wmma .load .a|.b .sync .aligned .row|.col .m16n16k8 [$memory] .tf32", build: wmmaLoad},
	{syntax: "wmma .load .a|.b .sync .aligned .row|.col .m8n8k4 [$memory] .f64", build: wmmaLoad},
	{syntax: "wmma .load .a .sync .aligned .row .m8n8k32 [$memory] .s4|.u4", build: wmmaLoad},
	{syntax: "wmma .load .b .sync .aligned .col .m8n8k32 [$memory] .s4|.u4", build: wmmaLoad},
	{syntax: "wmma .load .a .sync .aligned .row .m8n8k128 [$memory] .b1", build: wmmaLoad},
	{syntax: "wmma .load .b .sync .aligned .col .m8n8k128 [$memory] .b1", build: wmmaLoad},
	{syntax: "wmma .load .c .sync .aligned .row|.col $wmma [$memory] .f16|.f32|.s32", build: wmmaLoad},
	{syntax: "wmma .load .c .sync .aligned .row|.col .m16n16k8 [$memory] .f32", build: wmmaLoad},
	{syntax: "wmma .load .c .sync .aligned .row|.col .m8n8k4 [$memory] .f64", build: wmmaLoad},
	{syntax: "wmma .load .c .sync .aligned .row|.col .m8n8k32|.m8n8k128 [$memory] .s32", build: wmmaLoad},
	{syntax: "wmma .store .d .sync .aligned .row|.col $wmma [$memory] .f16|.f32|.s32", build: wmmaStore},
	{syntax: "wmma .store .d .sync .aligned .row|.col .m16n16k8 [$memory] .f32", build: wmmaStore},
	{syntax: "wmma .store .d .sync .aligned .row|.col .m8n8k4 [$memory] .f64", build: wmmaStore},
	{syntax: "wmma .store .d .sync .aligned .row|.col .m8n8k32|.m8n8k128 [$memory] .s32", build: wmmaStore},
	{syntax: "wmma .mma .sync .aligned .row|.col .row|.col $wmma .f16|.f32 .f16|.f32", build: wmma},
	{syntax: "wmma .mma .sync .aligned .row|.col .row|.col $wmma .f32 .bf16 .bf16 .f32", build: wmma},
	{syntax: "wmma .mma .sync .aligned .row|.col .row|.col .m16n16k8 .f32 .tf32 .tf32 .f32", build: wmma},
	{syntax: "wmma .mma .sync .aligned .row|.col .row|.col .m8n8k4 [.rn] .f64 .f64 .f64 .f64", build: wmma},
	{syntax: "wmma .mma .sync .aligned .row|.col .row|.col $wmma .s32 .s8 .s8 .s32 [.satfinite]", build: wmma},
	{syntax: "wmma .mma .sync .aligned .row|.col .row|.col $wmma .s32 .u8 .u8 .s32 [.satfinite]", build: wmma},
	{syntax: "wmma .mma .sync .aligned .row .col .m8n8k32 .s32 .s4 .s4 .s32 [.satfinite]", build: wmma},
	{syntax: "wmma .mma .sync .aligned .row .col .m8n8k32 .s32 .u4 .u4 .s32 [.satfinite]", build: wmma},
	{syntax: "wmma .mma .xor|.and .popc .sync .aligned .row .col .m8n8k128 .s32 .b1 .b1 .s32", build: wmma},
}

// fragment is a matrix in the registers of a warp. B is kept column by column, so its rows here are its columns.
type fragment struct {
	rows, cols int
	bits       int // of an element
	refs       []ref
}

// largest sizes of the shapes above
const (
	wmmaRowsMost = 32
	wmmaDepth    = 128
)

// per is how many elements a register holds.
func (f *fragment) per() int { return max(32/f.bits, 1) }

// at is where an element lies: the register, the lane, and the bits to skip.
func (f *fragment) at(row, col int) (reg, lane, shift int) {
	e := row*f.cols + col
	word := e / f.per()
	return word / warpSize, word % warpSize, e % f.per() * f.bits
}

// element is the bits of an element.
func (f *fragment) element(w *warp, row, col int) uint64 {
	reg, lane, shift := f.at(row, col)
	v := w.get(f.refs[reg], lane) >> shift
	if f.bits == 64 {
		return v
	}
	return v & (1<<f.bits - 1)
}

// fragment reads the registers of a matrix: which one of a, b, c, d, of which shape and type.
func (b *builder) fragment(o *ptx.Operand, which, shape, typ string) *fragment {
	var m, n, k int
	if _, err := fmt.Sscanf(shape, "m%dn%dk%d", &m, &n, &k); err != nil {
		b.fail(b.in.Pos, "", "shape %s is not executed here", shape)
		return nil
	}
	f := &fragment{rows: m, cols: n, bits: elementBits(typ)}
	switch which {
	case "a":
		f.cols = k
	case "b":
		f.rows, f.cols = n, k
	}
	want := f.rows * f.cols / f.per() / warpSize
	if typ == "f16" && (which == "a" || which == "b") {
		want = 8 // for all shapes
	}
	word := "b32"
	if f.bits == 64 {
		word = "b64"
	}
	f.refs = b.matrix(o, word, want, which == "d" || b.in.Has("load"))
	return f
}

// walk is how a fragment lies in memory: the access of each unit, which is an element, or a register full of them where
// they are smaller than a byte.
type walk struct {
	*fragment
	typ    string
	across bool // neighbours in memory are in different rows of the fragment
	unit   int  // elements
	size   int  // bytes of a unit
	stride ref  // in elements; noRef for none between rows
}

func (b *builder) walk(registers, address *ptx.Operand) *walk {
	mods := b.in.Mods
	which, layout := mods[1], mods[4]
	v := &walk{typ: mods[len(mods)-1], unit: 1, stride: noRef}
	if v.fragment = b.fragment(registers, which, mods[5], v.typ); b.err != nil {
		return nil
	}
	v.across = layout == "col" != (which == "b")
	if v.bits < 8 {
		v.unit = v.per()
	}
	v.size = v.bits * v.unit / 8
	if len(b.in.Args) == 3 {
		v.stride = b.src(2, "u32")
	}
	b.aligned()
	b.out.mem = b.memoryIn(address, b.spaceMod(), "b8")
	return v
}

// each visits the units of a fragment with the lane that accesses them and their memory.
func (v *walk) each(w *warp, in *ins, write bool, visit func(reg, lane, shift int, data []byte)) {
	for row := range v.rows {
		for col := 0; col < v.cols; col += v.unit {
			reg, lane, shift := v.at(row, col)
			major, minor, stride := row, col, v.cols
			if v.across {
				major, minor, stride = col, row, v.rows
			}
			if v.stride != noRef {
				stride = int(int32(w.get(v.stride, lane)))
			}
			at := in.mem.at(w, lane) + uint64((major*stride+minor)*v.bits/8)
			known := w.shadow.noted()
			visit(reg, lane, shift, w.reach(in, in.mem, lane, at, v.size, write))
			w.shadow.madeBy(known, row%8*4+col/2%4)
		}
	}
}

// noted is how many accesses of the current instruction are noted.
func (x *warpShadow) noted() int {
	if x == nil {
		return 0
	}
	return len(x.touches)
}

// madeBy says which lane has made the accesses from one on, as the check for races is to see it. PTX leaves open which
// one it is. Loops in which each lane has every 32nd element would always meet the elements of their own lane here;
// tensor cores distribute them as the fragments of mma are (PTX ISA 9.7.14.5): a row to four lanes, two elements each.
func (x *warpShadow) madeBy(from, lane int) {
	for i := from; i < x.noted(); i++ {
		x.touches[i].lane = lane
	}
}

func wmmaLoad(b *builder) {
	v := b.walk(b.arg(0), b.arg(1))
	if b.err != nil {
		return
	}
	b.out.run = func(w *warp, in *ins) {
		if !w.whole32(in) {
			return
		}
		values, undefined := make([]lanes64, len(v.refs)), make([]uint32, len(v.refs))
		v.each(w, in, false, func(reg, lane, shift int, data []byte) {
			values[reg][lane] |= getBytes(data, v.size) << shift
			if w.shadow.lastUndefined() {
				undefined[reg] |= 1 << lane
			}
		})
		for i, r := range v.refs {
			for lane := range warpSize {
				w.set(r, lane, values[i][lane])
			}
			w.shadow.define(w, r, ^undefined[i])
		}
	}
	b.out.flow = func(*warpShadow, *warp, *ins) {} // run has done it
}

func wmmaStore(b *builder) {
	v := b.walk(b.arg(1), b.arg(0))
	if b.err != nil {
		return
	}
	b.out.run = func(w *warp, in *ins) {
		if !w.whole32(in) {
			return
		}
		v.each(w, in, true, func(reg, lane, shift int, data []byte) {
			putBytes(data, w.get(v.refs[reg], lane)>>shift, v.size)
			w.shadow.lastStored(w, in, v.refs[reg])
		})
	}
	b.out.flow = func(*warpShadow, *warp, *ins) {}
}

// whole32 reports whether all lanes of the warp are there.
func (w *warp) whole32(in *ins) bool {
	if w.mask == allLanes {
		return true
	}
	w.stop(in, firstLane(w.mask), BadMask, "lanes %#08x execute it, but it needs all 32 of a warp", w.mask)
	return false
}

// wmmaUse is what wmma.mma multiplies.
type wmmaUse struct {
	d, a, b, c   *fragment
	typeA        string
	typeC, typeD string
	satfinite    bool
	and          bool // of single bits; else xor
	core         ptxmath.Core
}

func wmma(b *builder) {
	u := &wmmaUse{satfinite: b.in.Has("satfinite"), and: b.in.Has("and")}
	mods := slices.DeleteFunc(slices.Clone(b.in.Mods), func(m string) bool {
		return slices.Contains([]string{"satfinite", "rn", "and", "xor", "popc"}, m)
	})
	shape := mods[5]
	u.typeD, u.typeC, u.typeA = mods[6], mods[len(mods)-1], "f16"
	if len(mods) > 8 {
		u.typeA = mods[7]
	}
	b.args(4)
	if b.err != nil {
		return
	}
	u.core = ptxmath.NewCore(b.tensorCores(), mmaInputs[u.typeA], false)
	if u.typeA == "tf32" {
		u.core.Block = 4 // measured: ptxas makes two products of depth 4 of it, also for Hopper
	}
	args := b.in.Args
	u.d, u.a = b.fragment(&args[0], "d", shape, u.typeD), b.fragment(&args[1], "a", shape, u.typeA)
	u.b, u.c = b.fragment(&args[2], "b", shape, u.typeA), b.fragment(&args[3], "c", shape, u.typeC)
	b.aligned()
	b.out.run = func(w *warp, in *ins) {
		if w.whole32(in) {
			u.run(w)
		}
	}
	b.out.flow = u.flow
}

// run multiplies; D is written at the end, since its registers may be those of an operand.
func (u *wmmaUse) run(w *warp) {
	var dot func(row, col int) uint64
	switch u.typeA {
	case "f64":
		dot = u.doubles(w)
	case "b1", "s4", "u4", "s8", "u8":
		dot = u.integers(w)
	default:
		dot = u.floats(w)
	}
	values := make([]lanes64, len(u.d.refs))
	for row := range u.d.rows {
		for col := range u.d.cols {
			reg, lane, shift := u.d.at(row, col)
			values[reg][lane] |= dot(row, col) << shift
		}
	}
	for i, r := range u.d.refs {
		for lane := range warpSize {
			w.set(r, lane, values[i][lane])
		}
	}
}

// floats computes all elements before D is written.
func (u *wmmaUse) floats(w *warp) func(row, col int) uint64 {
	var raw [wmmaRowsMost * mmaRowsMost]uint32
	var rows ptxmath.Rows
	var columns ptxmath.Columns
	var d [wmmaRowsMost][wmmaRowsMost / ptxmath.Width][ptxmath.Width]uint32
	in, depth := mmaInputs[u.typeA], u.a.cols
	for row := range u.a.rows {
		for k := range depth {
			raw[row*depth+k] = uint32(u.a.element(w, row, k))
		}
	}
	u.core.Rows(&rows, in, raw[:u.a.rows*depth], depth)
	for first := 0; first < u.b.rows; first += ptxmath.Width {
		for k := range depth {
			for i := range ptxmath.Width {
				raw[k*ptxmath.Width+i] = uint32(u.b.element(w, first+i, k))
			}
		}
		u.core.Columns(&columns, in, raw[:depth*ptxmath.Width])
		for row := range u.a.rows {
			u.add(&d[row][first/ptxmath.Width], w, row, first, &rows, &columns)
		}
	}
	return func(row, col int) uint64 { return uint64(d[row][col/ptxmath.Width][col%ptxmath.Width]) }
}

// add computes eight neighbours of D, from the given column on.
func (u *wmmaUse) add(d *[ptxmath.Width]uint32, w *warp, row, first int, a *ptxmath.Rows, b *ptxmath.Columns) {
	for i := range d {
		d[i] = uint32(u.c.element(w, row, first+i))
		if u.typeC == "f16" && u.typeD != "f16" {
			d[i] = ptxmath.F16ToF32(uint16(d[i]))
		}
	}
	if u.typeC == "f16" && u.typeD == "f16" {
		u.core.F16(d, a, row, b)
		return
	}
	u.core.F32(d, a, row, b)
	for i, v := range d {
		if u.typeD == "f16" {
			d[i] = uint32(ptxmath.F32ToF16(v))
		}
	}
}

func (u *wmmaUse) integers(w *warp) func(row, col int) uint64 {
	var a, b [wmmaRowsMost][wmmaDepth]int64
	for k := range u.a.cols {
		for row := range u.a.rows {
			a[row][k] = number(u.a.element(w, row, k), u.typeA)
		}
		for col := range u.b.rows {
			b[col][k] = number(u.b.element(w, col, k), u.typeA)
		}
	}
	return func(row, col int) uint64 {
		sum := int64(0)
		for k := range u.a.cols {
			x, y := a[row][k], b[col][k]
			switch {
			case u.typeA != "b1" || u.and:
				sum += x * y
			default:
				sum += int64(bits.OnesCount64(uint64(x ^ y)))
			}
		}
		return uint64(uint32(ptxmath.DotEnd(int32(u.c.element(w, row, col)), sum, u.satfinite)))
	}
}

func (u *wmmaUse) doubles(w *warp) func(row, col int) uint64 {
	return func(row, col int) uint64 {
		var a, b [mmaDepth]uint64
		for k := range u.a.cols {
			a[k], b[k] = u.a.element(w, row, k), u.b.element(w, col, k)
		}
		return ptxmath.DotF64(u.c.element(w, row, col), a[:u.a.cols], b[:u.a.cols])
	}
}

// flow says which lanes of D are defined.
func (u *wmmaUse) flow(x *warpShadow, w *warp, _ *ins) {
	rows := x.fragmentRows(w, u.a)
	cols := x.fragmentRows(w, u.b)
	masks := make([]uint32, len(u.d.refs))
	for i := range masks {
		masks[i] = allLanes
	}
	for row := range u.d.rows {
		for col := range u.d.cols {
			reg, lane, _ := u.c.at(row, col)
			known := x.of(w, u.c.refs[reg])>>lane&1 != 0
			if reg, lane, _ = u.d.at(row, col); !known || !rows[row] || !cols[col] {
				masks[reg] &^= 1 << lane
			}
		}
	}
	for i, r := range u.d.refs {
		x.define(w, r, masks[i])
	}
}

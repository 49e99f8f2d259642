package ptxvm

import (
	"fmt"
	"strconv"
	"strings"

	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxmath"
)

// This file implements mma.sync: the product of two small matrices that the lanes of a warp hold together, added to a
// third one. How elements lie in registers is the same for all shapes (PTX ISA 9.7.14.5): a register of A or B holds as
// many neighbours along k as fit into it.

var mmaRows = []row{
	{syntax: "mma .sync .aligned .m16n8k8|.m16n8k16 .row .col .f32 .f16 .f16 .f32", build: mma},
	{syntax: "mma .sync .aligned .m16n8k8|.m16n8k16 .row .col .f16 .f16 .f16 .f16", build: mma},
	{syntax: "mma .sync .aligned .m16n8k8|.m16n8k16 .row .col .f32 .bf16 .bf16 .f32", build: mma},
	{syntax: "mma .sync .aligned .m16n8k4|.m16n8k8 .row .col .f32 .tf32 .tf32 .f32", build: mma},
	{syntax: "mma .sync .aligned .m16n8k32 .row .col .f32 .e4m3|.e5m2 .e4m3|.e5m2 .f32", build: mma},
	{syntax: "mma .sync .aligned .m16n8k32 .row .col .f16 .e4m3|.e5m2 .e4m3|.e5m2 .f16", build: mma},
	{syntax: "mma .sync .aligned .m8n8k16|.m16n8k16|.m16n8k32 .row .col [.satfinite] .s32 .s8|.u8 .s8|.u8 .s32",
		build: mma},
	{syntax: "mma .sync .aligned .m8n8k32|.m16n8k32|.m16n8k64 .row .col [.satfinite] .s32 .s4|.u4 .s4|.u4 .s32",
		build: mma},
	{syntax: "mma .sync .aligned .m8n8k4|.m16n8k4|.m16n8k8|.m16n8k16 .row .col .f64 .f64 .f64 .f64", build: mma},
}

// product is what an mma instruction multiplies. Its registers are those of D, A, B and C in this order.
type product struct {
	m, n, k    int
	typeA      string
	typeB      string
	result     string // type of C and D
	d, a, b, c []ref
	satfinite  bool
	core       ptxmath.Core
	inA, inB   ptxmath.Input
	quick      bool // tile is a way to multiply without taking registers apart
	tile       ptxmath.WarpTile
}

// elementBits is the size of an element of A or B.
func elementBits(typ string) int {
	switch typ {
	case "b1":
		return 1
	case "s4", "u4":
		return 4
	case "s8", "u8", "e4m3", "e5m2":
		return 8
	case "f16", "bf16":
		return 16
	case "f64":
		return 64
	}
	return 32
}

// mmaInputs are the floating-point formats of elements.
var mmaInputs = map[string]ptxmath.Input{"f16": ptxmath.InF16, "bf16": ptxmath.InBF16, "tf32": ptxmath.InTF32,
	"e4m3": ptxmath.InE4M3, "e5m2": ptxmath.InE5M2}

func mma(b *builder) {
	p := &product{satfinite: b.in.Has("satfinite")}
	mods := b.in.Mods
	if _, err := fmt.Sscanf(mods[2], "m%dn%dk%d", &p.m, &p.n, &p.k); err != nil {
		b.fail(b.in.Pos, "", "shape %s is not executed here", mods[2])
		return
	}
	last := len(mods) - 1
	p.result, p.typeA, p.typeB = mods[last-3], mods[last-2], mods[last-1]
	p.inA, p.inB = mmaInputs[p.typeA], mmaInputs[p.typeB]
	p.core = ptxmath.NewCore(b.tensorCores(), p.inA, false)
	if p.result == "f32" && p.m == mmaRowsMost && p.inA == p.inB {
		p.tile, p.quick = p.core.WarpTile(p.inA, p.k)
	}
	word, result := "b32", "b32"
	if p.result == "f64" {
		word, result = "b64", "b64"
	}
	perResult := 1
	if p.result == "f16" {
		perResult = 2
	}
	p.d = b.matrix(b.arg(0), result, p.m*p.n/warpSize/perResult, true)
	p.a = b.matrix(b.arg(1), word, p.m*p.k*elementBits(p.typeA)/warpSize/(8*typeBytes(word)), false)
	p.b = b.matrix(b.arg(2), word, p.n*p.k*elementBits(p.typeB)/warpSize/(8*typeBytes(word)), false)
	p.c = b.matrix(b.arg(3), result, p.m*p.n/warpSize/perResult, false)
	b.out.kind, b.out.c = together, b.constant(class32, uint64(allLanes))
	b.out.run, b.out.flow = func(w *warp, _ *ins) { p.run(w) }, p.flow
}

// tensorCores is the kind of tensor cores of the module's target.
func (l *lowering) tensorCores() ptxmath.Arch {
	digits := strings.TrimRight(strings.TrimPrefix(l.file.Targets[0], "sm_"), "af")
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil || n >= 90:
		return ptxmath.Hopper
	case n >= 75:
		return ptxmath.Ampere
	}
	return ptxmath.Volta
}

// matrix reads the registers of a matrix.
func (b *builder) matrix(o *ptx.Operand, typ string, want int, dst bool) []ref {
	list := o.List
	if o.Kind != ptx.VectorArg {
		list = []ptx.Operand{*o}
	}
	if len(list) != want {
		b.fail(o.Pos, "", "%s needs %d registers here, not %d", b.in.Mnemonic(), want, len(list))
		return nil
	}
	var refs []ref
	for i := range list {
		if dst {
			refs = append(refs, b.dstOf(&list[i], typ))
		} else {
			refs = append(refs, b.srcOf(&list[i], typ))
		}
	}
	return refs
}

// largest sizes of the shapes above
const (
	mmaRowsMost = 16
	mmaDepth    = 64
)

// each visits the elements of A (m rows) or B (n rows; it lies column by column): which row, which k, and their bits.
func (p *product) each(w *warp, refs []ref, typ string, rows int, visit func(row, k int, bits uint64)) {
	size := elementBits(typ)
	per := max(32/size, 1)
	for i, r := range refs {
		row, base := 0, 4*per*i
		if rows == mmaRowsMost {
			row, base = 8*(i%2), 4*per*(i/2)
		}
		for lane := range warpSize {
			v := w.get(r, lane)
			for j := range per {
				bits := v >> (size * j)
				if size < 64 {
					bits &= 1<<size - 1
				}
				visit(row+lane/4, base+lane%4*per+j, bits)
			}
		}
	}
}

// run multiplies. All operands are read before D is written, since registers may be the same.
func (p *product) run(w *warp) {
	switch {
	case p.result == "f64":
		p.doubles(w)
	case p.result == "s32":
		p.integers(w)
	default:
		p.floats(w)
	}
}

// results visits the elements of C and D: the register, the bits to skip in it, the lane, row and column.
func (p *product) results(visit func(reg, shift, lane, row, col int)) {
	per := 1
	if p.result == "f16" {
		per = 2
	}
	for i := range p.d {
		for j := range per {
			at := i*per + j // c0, c1: columns of one row; c2, c3: eight rows below; then eight columns to the right
			for lane := range warpSize {
				visit(i, 16*j, lane, lane/4+8*(at/2%2), at/4*8+lane%4*2+at%2)
			}
		}
	}
}

// strides say where the elements of a matrix go: element (row, k) to row·perRow + k·perK.
type strides struct{ perRow, perK int }

// byColumns places B: the elements of its eight columns with the same k are neighbours.
var byColumns = strides{perRow: 1, perK: ptxmath.Width}

// spread places the elements of A or B that fit into registers of 32 bits; see [product.each].
func (p *product) spread(dst []uint32, w *warp, refs []ref, typ string, rows int, to strides) {
	size := elementBits(typ)
	per := 32 / size
	mask := uint32(1<<size - 1)
	for i, r := range refs {
		row, base := 0, 4*per*i
		if rows == mmaRowsMost {
			row, base = 8*(i%2), 4*per*(i/2)
		}
		for lane, v := range w.r32[r.index()] {
			at := (row+lane/4)*to.perRow + (base+lane%4*per)*to.perK
			for range per {
				dst[at] = v & mask
				v >>= size
				at += to.perK
			}
		}
	}
}

// strip is rows of C or D, eight columns of each.
type strip [mmaRowsMost][ptxmath.Width]uint32

// resultsIn takes the elements of C from registers; group counts groups of eight columns, to the right.
func (p *product) resultsIn(t *strip, w *warp, refs []ref, group int) {
	if p.result == "f16" {
		for i, r := range refs[2*group : 2*group+2] {
			for lane, v := range w.r32[r.index()] {
				at := t[8*i+lane/4][lane%4*2:][:2]
				at[0], at[1] = v&0xffff, v>>16
			}
		}
		return
	}
	n := p.m * ptxmath.Width / warpSize
	for i, r := range refs[n*group : n*group+n] {
		for lane, v := range w.r32[r.index()] {
			t[8*(i/2)+lane/4][lane%4*2+i%2] = v
		}
	}
}

// resultsOut writes the elements of D to registers.
func (p *product) resultsOut(t *strip, w *warp, refs []ref, group int) {
	if p.result == "f16" {
		for i, r := range refs[2*group : 2*group+2] {
			d := &w.r32[r.index()]
			for lane := range d {
				at := t[8*i+lane/4][lane%4*2:][:2]
				d[lane] = at[0] | at[1]<<16
			}
		}
		return
	}
	n := p.m * ptxmath.Width / warpSize
	for i, r := range refs[n*group : n*group+n] {
		d := &w.r32[r.index()]
		for lane := range d {
			d[lane] = t[8*(i/2)+lane/4][lane%4*2+i%2]
		}
	}
}

// addFloats adds the products of rows of A and eight columns of B.
func (p *product) addFloats(t *strip, a *ptxmath.Rows, b *ptxmath.Columns) {
	for row := range p.m {
		if p.result == "f16" {
			p.core.F16(&t[row], a, row, b)
		} else {
			p.core.F32(&t[row], a, row, b)
		}
	}
}

// inRegisters multiplies where the elements are. It reports false where that cannot be done, or not for these elements.
func (p *product) inRegisters(w *warp) bool {
	if !p.quick {
		return false
	}
	tile := p.tile
	for i := range p.a {
		tile.A[i] = &w.r32[p.a[i].index()]
	}
	for i := range p.b {
		tile.B[i] = &w.r32[p.b[i].index()]
	}
	for i := range p.c {
		tile.C[i], tile.D[i] = &w.r32[p.c[i].index()], &w.r32[p.d[i].index()]
	}
	return tile.Add()
}

func (p *product) floats(w *warp) {
	if p.inRegisters(w) {
		return
	}
	var rawA [mmaRowsMost * ptxmath.Depth]uint32
	var rawB [ptxmath.Width * ptxmath.Depth]uint32
	var a ptxmath.Rows
	var b ptxmath.Columns
	var t strip
	p.spread(rawA[:p.m*p.k], w, p.a, p.typeA, p.m, strides{perRow: p.k, perK: 1})
	p.spread(rawB[:p.n*p.k], w, p.b, p.typeB, p.n, byColumns)
	p.core.Rows(&a, p.inA, rawA[:p.m*p.k], p.k)
	p.core.Columns(&b, p.inB, rawB[:p.n*p.k])
	p.resultsIn(&t, w, p.c, 0)
	p.addFloats(&t, &a, &b)
	p.resultsOut(&t, w, p.d, 0)
}

// number is the value of an integer element.
func number(bits uint64, typ string) int64 {
	n := 64 - elementBits(typ)
	if isSigned(typ) {
		return int64(bits<<n) >> n
	}
	return int64(bits)
}

// extend gives signed elements their signs.
func extend(x []uint32, typ string) {
	if n := 32 - elementBits(typ); isSigned(typ) {
		for i, v := range x {
			x[i] = uint32(int32(v<<n) >> n)
		}
	}
}

func (p *product) integers(w *warp) {
	var a [mmaRowsMost * mmaDepth]uint32
	var b [ptxmath.Width * mmaDepth]uint32
	var t strip
	p.spread(a[:p.m*p.k], w, p.a, p.typeA, p.m, strides{perRow: p.k, perK: 1})
	p.spread(b[:p.n*p.k], w, p.b, p.typeB, p.n, byColumns)
	extend(a[:p.m*p.k], p.typeA)
	extend(b[:p.n*p.k], p.typeB)
	p.resultsIn(&t, w, p.c, 0)
	p.addIntegers(&t, a[:p.m*p.k], b[:p.n*p.k])
	p.resultsOut(&t, w, p.d, 0)
}

// addIntegers adds the products of rows of A and eight columns of B. Sums of products are far from 2^31.
func (p *product) addIntegers(t *strip, a, b []uint32) {
	for row := range p.m {
		var sum [ptxmath.Width]uint32
		for k, x := range a[row*p.k : (row+1)*p.k] {
			y := (*[ptxmath.Width]uint32)(b[k*ptxmath.Width:])
			sum[0] += x * y[0]
			sum[1] += x * y[1]
			sum[2] += x * y[2]
			sum[3] += x * y[3]
			sum[4] += x * y[4]
			sum[5] += x * y[5]
			sum[6] += x * y[6]
			sum[7] += x * y[7]
		}
		for i, c := range t[row] {
			t[row][i] = uint32(ptxmath.DotEnd(int32(c), int64(int32(sum[i])), p.satfinite))
		}
	}
}

func (p *product) doubles(w *warp) {
	var a, b [mmaRowsMost][mmaDepth]uint64
	p.each(w, p.a, p.typeA, p.m, func(row, k int, bits uint64) { a[row][k] = bits })
	p.each(w, p.b, p.typeB, p.n, func(row, k int, bits uint64) { b[row][k] = bits })
	var out [4]lanes64
	p.results(func(reg, _, lane, row, col int) {
		out[reg][lane] = ptxmath.DotF64(w.get(p.c[reg], lane), a[row][:p.k], b[col][:p.k])
	})
	for i, r := range p.d {
		w.r64[r.index()] = out[i]
	}
}

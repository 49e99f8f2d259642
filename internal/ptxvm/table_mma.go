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

func (p *product) floats(w *warp) {
	var a, b [mmaRowsMost][mmaDepth]ptxmath.Elem
	p.each(w, p.a, p.typeA, p.m, func(row, k int, bits uint64) { a[row][k] = p.inA.Decode(uint32(bits)) })
	p.each(w, p.b, p.typeB, p.n, func(row, k int, bits uint64) { b[row][k] = p.inB.Decode(uint32(bits)) })
	var out [4]lanes32
	p.results(func(reg, shift, lane, row, col int) {
		c := uint32(w.get(p.c[reg], lane))
		if p.result == "f16" {
			d := p.core.F16(uint16(c>>shift), a[row][:p.k], b[col][:p.k])
			out[reg][lane] |= uint32(d) << shift
			return
		}
		out[reg][lane] = p.core.F32(c, a[row][:p.k], b[col][:p.k])
	})
	for i, r := range p.d {
		w.r32[r.index()] = out[i]
	}
}

// number is the value of an integer element.
func number(bits uint64, typ string) int64 {
	n := 64 - elementBits(typ)
	if isSigned(typ) {
		return int64(bits<<n) >> n
	}
	return int64(bits)
}

func (p *product) integers(w *warp) {
	var a, b [mmaRowsMost][mmaDepth]int64
	p.each(w, p.a, p.typeA, p.m, func(row, k int, bits uint64) { a[row][k] = number(bits, p.typeA) })
	p.each(w, p.b, p.typeB, p.n, func(row, k int, bits uint64) { b[row][k] = number(bits, p.typeB) })
	var out [4]lanes32
	p.results(func(reg, _, lane, row, col int) {
		sum := int64(0)
		for k := range p.k {
			sum += a[row][k] * b[col][k]
		}
		out[reg][lane] = uint32(ptxmath.DotEnd(int32(w.get(p.c[reg], lane)), sum, p.satfinite))
	})
	for i, r := range p.d {
		w.r32[r.index()] = out[i]
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

package ptxvm

import "math/bits"

// This file implements the instructions that kernels spend their time with, by loops over all lanes. Where not all of
// them are active, the loop computes all the same, and the results of the active lanes are kept: no function here
// fails, whatever the others hold.

// to32 is where a loop puts its results, and keep32 takes over those of the active lanes.
func (w *warp) to32(r ref) *lanes32 {
	if w.mask == allLanes {
		return &w.r32[r.index()]
	}
	return &w.scratch32
}

func (w *warp) keep32(r ref) {
	if w.mask != allLanes {
		d := &w.r32[r.index()]
		fast.select32(d, &w.scratch32, d, w.mask)
	}
}

func (w *warp) to64(r ref) *lanes64 {
	if w.mask == allLanes {
		return &w.r64[r.index()]
	}
	return &w.scratch64
}

func (w *warp) keep64(r ref) {
	if w.mask != allLanes {
		d := &w.r64[r.index()]
		fast.select64(d, &w.scratch64, d, w.mask)
	}
}

// runUnary32, runBinary32 and runTernary32 are for functions without a loop of their own, on registers of 32 bits.
func runUnary32(w *warp, in *ins) {
	d, a, f := &w.r32[in.d.index()], &w.r32[in.a.index()], in.f1
	if w.mask == allLanes {
		for i := range d {
			d[i] = uint32(f(uint64(a[i])))
		}
		return
	}
	for m := w.mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		d[i] = uint32(f(uint64(a[i])))
	}
}

func runBinary32(w *warp, in *ins) {
	d, a, b, f := &w.r32[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()], in.f2
	if w.mask == allLanes {
		for i := range d {
			d[i] = uint32(f(uint64(a[i]), uint64(b[i])))
		}
		return
	}
	for m := w.mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		d[i] = uint32(f(uint64(a[i]), uint64(b[i])))
	}
}

func runTernary32(w *warp, in *ins) {
	d, a, b, c := &w.r32[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r32[in.c.index()]
	f := in.f3
	if w.mask == allLanes {
		for i := range d {
			d[i] = uint32(f(uint64(a[i]), uint64(b[i]), uint64(c[i])))
		}
		return
	}
	for m := w.mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		d[i] = uint32(f(uint64(a[i]), uint64(b[i]), uint64(c[i])))
	}
}

func runFast32(w *warp, in *ins) {
	in.fast32(w.to32(in.d), &w.r32[in.a.index()], &w.r32[in.b.index()])
	w.keep32(in.d)
}

func runFast64(w *warp, in *ins) {
	in.fast64(w.to64(in.d), &w.r64[in.a.index()], &w.r64[in.b.index()])
	w.keep64(in.d)
}

func runShl64(w *warp, in *ins) {
	fast.shl64(w.to64(in.d), &w.r64[in.a.index()], &w.r32[in.b.index()])
	w.keep64(in.d)
}

func runMulWide(w *warp, in *ins) {
	fast.mulWide(w.to64(in.d), &w.r32[in.a.index()], &w.r32[in.b.index()])
	w.keep64(in.d)
}

func runMulWideSigned(w *warp, in *ins) {
	fast.mulWideSigned(w.to64(in.d), &w.r32[in.a.index()], &w.r32[in.b.index()])
	w.keep64(in.d)
}

func runMadWide(w *warp, in *ins) {
	fast.madWide(w.to64(in.d), &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r64[in.c.index()])
	w.keep64(in.d)
}

func runMadWideSigned(w *warp, in *ins) {
	fast.madWideSigned(w.to64(in.d), &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r64[in.c.index()])
	w.keep64(in.d)
}

func runMad32(w *warp, in *ins) {
	fast.mad32(w.to32(in.d), &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r32[in.c.index()])
	w.keep32(in.d)
}

func runMad64(w *warp, in *ins) {
	d, a, b, c := w.to64(in.d), &w.r64[in.a.index()], &w.r64[in.b.index()], &w.r64[in.c.index()]
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
	w.keep64(in.d)
}

func runSelp32(w *warp, in *ins) {
	fast.select32(w.to32(in.d), &w.r32[in.a.index()], &w.r32[in.b.index()], w.p[in.c.index()])
	w.keep32(in.d)
}

func runSelp64(w *warp, in *ins) {
	fast.select64(w.to64(in.d), &w.r64[in.a.index()], &w.r64[in.b.index()], w.p[in.c.index()])
	w.keep64(in.d)
}

func runMove32(w *warp, in *ins) {
	d, a := &w.r32[in.d.index()], &w.r32[in.a.index()]
	if w.mask == allLanes {
		*d = *a
		return
	}
	fast.select32(d, a, d, w.mask)
}

func runMove64(w *warp, in *ins) {
	d, a := &w.r64[in.d.index()], &w.r64[in.a.index()]
	if w.mask == allLanes {
		*d = *a
		return
	}
	fast.select64(d, a, d, w.mask)
}

func runFma32(w *warp, in *ins) {
	fast.fmaFloat(w.to32(in.d), &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r32[in.c.index()])
	w.keep32(in.d)
}

func runSignExtend(w *warp, in *ins) {
	fast.signExtend(w.to64(in.d), &w.r32[in.a.index()])
	w.keep64(in.d)
}

func runZeroExtend(w *warp, in *ins) {
	fast.zeroExtend(w.to64(in.d), &w.r32[in.a.index()])
	w.keep64(in.d)
}

func runTruncate(w *warp, in *ins) {
	fast.truncate(w.to32(in.d), &w.r64[in.a.index()])
	w.keep32(in.d)
}

func runFloatOfSigned(w *warp, in *ins) {
	fast.floatOfSigned(w.to32(in.d), &w.r32[in.a.index()])
	w.keep32(in.d)
}

func runFastSetp(w *warp, in *ins) {
	yes := in.fastSetp(&w.r32[in.a.index()], &w.r32[in.b.index()])
	d := &w.p[in.d.index()]
	*d = *d&^w.mask | yes&w.mask
}

// runPredicates combines the bits of two predicates.
func runPredicates(w *warp, in *ins) {
	x := uint32(in.f2(uint64(w.p[in.a.index()]), uint64(w.p[in.b.index()])))
	d := &w.p[in.d.index()]
	*d = *d&^w.mask | x&w.mask
}

// fastCompare is a comparison of 32 lanes, nil where there is none.
func fastCompare(cmp, typ string) func(a, b *lanes32) uint32 {
	greater, equal := fast.greater32, fast.equal32
	switch typ {
	case "f32":
		return fastCompareFloat(cmp)
	case "u32":
		greater = fast.above32
	case "s32", "b32":
	default:
		return nil
	}
	switch cmp {
	case "eq":
		return equal
	case "ne":
		return func(a, b *lanes32) uint32 { return ^equal(a, b) }
	case "gt", "hi":
		return greater
	case "lt", "lo":
		return func(a, b *lanes32) uint32 { return greater(b, a) }
	case "le", "ls":
		return func(a, b *lanes32) uint32 { return ^greater(a, b) }
	}
	return func(a, b *lanes32) uint32 { return ^greater(b, a) } // ge, hs
}

// fastCompareFloat has comparisons of floats: those that end in u are true where an operand is NaN.
func fastCompareFloat(cmp string) func(a, b *lanes32) uint32 {
	less, lessEqual, equal, nan := fast.lessFloat, fast.lessEqualFloat, fast.equalFloat, fast.unordered
	switch cmp {
	case "lt":
		return less
	case "le":
		return lessEqual
	case "gt":
		return func(a, b *lanes32) uint32 { return less(b, a) }
	case "ge":
		return func(a, b *lanes32) uint32 { return lessEqual(b, a) }
	case "eq":
		return equal
	case "ne":
		return func(a, b *lanes32) uint32 { return ^(equal(a, b) | nan(a, b)) }
	case "ltu":
		return func(a, b *lanes32) uint32 { return ^lessEqual(b, a) }
	case "leu":
		return func(a, b *lanes32) uint32 { return ^less(b, a) }
	case "gtu":
		return func(a, b *lanes32) uint32 { return ^lessEqual(a, b) }
	case "geu":
		return func(a, b *lanes32) uint32 { return ^less(a, b) }
	case "equ":
		return func(a, b *lanes32) uint32 { return equal(a, b) | nan(a, b) }
	case "neu":
		return func(a, b *lanes32) uint32 { return ^equal(a, b) }
	case "nan":
		return nan
	}
	return func(a, b *lanes32) uint32 { return ^nan(a, b) } // num
}

// fastFloat are instructions on f32 without modifiers.
var fastFloat = map[string]func(d, a, b *lanes32){"add": fast.addFloat, "sub": fast.subFloat, "mul": fast.mulFloat,
	"div": fast.divFloat, "min": fast.minFloat, "max": fast.maxFloat}

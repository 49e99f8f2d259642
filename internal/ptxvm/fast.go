package ptxvm

import (
	"math"

	"gpuemu/internal/ptxmath"
)

// This file implements the instructions that kernels spend their time with, for warps whose lanes are all active. Each
// does what the function of its row does lane by lane; a test compares them.

func fastAdd32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func fastSub32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func fastMul32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func fastAnd32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func fastOr32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func fastXor32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func fastShl32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

func fastShr32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] >> b[i]
	}
}

func fastShrSigned32(d, a, b *lanes32) {
	for i := range d {
		d[i] = uint32(int32(a[i]) >> b[i])
	}
}

func fastMin32(d, a, b *lanes32) {
	for i := range d {
		d[i] = uint32(min(int32(a[i]), int32(b[i])))
	}
}

func fastMax32(d, a, b *lanes32) {
	for i := range d {
		d[i] = uint32(max(int32(a[i]), int32(b[i])))
	}
}

func fastAdd64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func fastSub64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func fastMul64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func fastAnd64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func fastOr64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func fastXor64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

// runUnary32, runBinary32 and runTernary32 are for functions without a loop of their own, on registers of 32 bits.
func runUnary32(w *warp, in *ins) {
	if w.mask != allLanes {
		runUnary(w, in)
		return
	}
	d, a, f := &w.r32[in.d.index()], &w.r32[in.a.index()], in.f1
	for i := range d {
		d[i] = uint32(f(uint64(a[i])))
	}
}

func runBinary32(w *warp, in *ins) {
	if w.mask != allLanes {
		runBinary(w, in)
		return
	}
	d, a, b, f := &w.r32[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()], in.f2
	for i := range d {
		d[i] = uint32(f(uint64(a[i]), uint64(b[i])))
	}
}

func runTernary32(w *warp, in *ins) {
	if w.mask != allLanes {
		runTernary(w, in)
		return
	}
	d, a, b, c := &w.r32[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r32[in.c.index()]
	f := in.f3
	for i := range d {
		d[i] = uint32(f(uint64(a[i]), uint64(b[i]), uint64(c[i])))
	}
}

func runFast32(w *warp, in *ins) {
	if w.mask == allLanes {
		in.fast32(&w.r32[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()])
		return
	}
	runBinary(w, in)
}

func runFast64(w *warp, in *ins) {
	if w.mask == allLanes {
		in.fast64(&w.r64[in.d.index()], &w.r64[in.a.index()], &w.r64[in.b.index()])
		return
	}
	runBinary(w, in)
}

func runShl64(w *warp, in *ins) {
	if w.mask != allLanes {
		runBinary(w, in)
		return
	}
	d, a, b := &w.r64[in.d.index()], &w.r64[in.a.index()], &w.r32[in.b.index()]
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

func runMulWide(w *warp, in *ins) {
	if w.mask != allLanes {
		runBinary(w, in)
		return
	}
	d, a, b := &w.r64[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()]
	for i := range d {
		d[i] = uint64(a[i]) * uint64(b[i])
	}
}

func runMulWideSigned(w *warp, in *ins) {
	if w.mask != allLanes {
		runBinary(w, in)
		return
	}
	d, a, b := &w.r64[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()]
	for i := range d {
		d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
	}
}

func runMadWide(w *warp, in *ins) {
	if w.mask != allLanes {
		runTernary(w, in)
		return
	}
	d, a, b, c := &w.r64[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r64[in.c.index()]
	for i := range d {
		d[i] = uint64(a[i])*uint64(b[i]) + c[i]
	}
}

func runMadWideSigned(w *warp, in *ins) {
	if w.mask != allLanes {
		runTernary(w, in)
		return
	}
	d, a, b, c := &w.r64[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r64[in.c.index()]
	for i := range d {
		d[i] = uint64(int64(int32(a[i]))*int64(int32(b[i]))) + c[i]
	}
}

func runMad32(w *warp, in *ins) {
	if w.mask != allLanes {
		runTernary(w, in)
		return
	}
	d, a, b, c := &w.r32[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r32[in.c.index()]
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
}

func runMad64(w *warp, in *ins) {
	if w.mask != allLanes {
		runTernary(w, in)
		return
	}
	d, a, b, c := &w.r64[in.d.index()], &w.r64[in.a.index()], &w.r64[in.b.index()], &w.r64[in.c.index()]
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
}

func runSelp32(w *warp, in *ins) {
	if w.mask != allLanes {
		runTernary(w, in)
		return
	}
	d, a, b, p := &w.r32[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()], w.p[in.c.index()]
	for i := range d {
		x := b[i]
		if p>>i&1 != 0 {
			x = a[i]
		}
		d[i] = x
	}
}

func runSelp64(w *warp, in *ins) {
	if w.mask != allLanes {
		runTernary(w, in)
		return
	}
	d, a, b, p := &w.r64[in.d.index()], &w.r64[in.a.index()], &w.r64[in.b.index()], w.p[in.c.index()]
	for i := range d {
		x := b[i]
		if p>>i&1 != 0 {
			x = a[i]
		}
		d[i] = x
	}
}

func runMove32(w *warp, in *ins) {
	if w.mask != allLanes {
		runUnary(w, in)
		return
	}
	w.r32[in.d.index()] = w.r32[in.a.index()]
}

func runMove64(w *warp, in *ins) {
	if w.mask != allLanes {
		runUnary(w, in)
		return
	}
	w.r64[in.d.index()] = w.r64[in.a.index()]
}

func runFastSetp(w *warp, in *ins) {
	yes := in.fastSetp(&w.r32[in.a.index()], &w.r32[in.b.index()])
	d := &w.p[in.d.index()]
	*d = *d&^w.mask | yes&w.mask
}

// fastCompare is a comparison of 32 lanes, nil where there is none.
func fastCompare(cmp, typ string) func(a, b *lanes32) uint32 {
	if typ == "f32" {
		return fastCompareFloat(cmp)
	}
	switch cmp + "." + typ {
	case "lt.s32":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if int32(a[i]) < int32(b[i]) {
					m |= 1 << i
				}
			}
			return m
		}
	case "le.s32":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if int32(a[i]) <= int32(b[i]) {
					m |= 1 << i
				}
			}
			return m
		}
	case "gt.s32":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if int32(a[i]) > int32(b[i]) {
					m |= 1 << i
				}
			}
			return m
		}
	case "ge.s32":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if int32(a[i]) >= int32(b[i]) {
					m |= 1 << i
				}
			}
			return m
		}
	case "lt.u32", "lo.u32":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if a[i] < b[i] {
					m |= 1 << i
				}
			}
			return m
		}
	case "gt.u32", "hi.u32":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if a[i] > b[i] {
					m |= 1 << i
				}
			}
			return m
		}
	case "eq.s32", "eq.b32", "eq.u32":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if a[i] == b[i] {
					m |= 1 << i
				}
			}
			return m
		}
	case "ne.s32", "ne.b32", "ne.u32":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if a[i] != b[i] {
					m |= 1 << i
				}
			}
			return m
		}
	}
	return nil
}

func fastCompareFloat(cmp string) func(a, b *lanes32) uint32 {
	switch cmp {
	case "lt":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if math.Float32frombits(a[i]) < math.Float32frombits(b[i]) {
					m |= 1 << i
				}
			}
			return m
		}
	case "gt":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if math.Float32frombits(a[i]) > math.Float32frombits(b[i]) {
					m |= 1 << i
				}
			}
			return m
		}
	case "eq":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if math.Float32frombits(a[i]) == math.Float32frombits(b[i]) {
					m |= 1 << i
				}
			}
			return m
		}
	case "neu":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if math.Float32frombits(a[i]) != math.Float32frombits(b[i]) {
					m |= 1 << i
				}
			}
			return m
		}
	case "leu":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if !(math.Float32frombits(a[i]) > math.Float32frombits(b[i])) {
					m |= 1 << i
				}
			}
			return m
		}
	case "geu":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if !(math.Float32frombits(a[i]) < math.Float32frombits(b[i])) {
					m |= 1 << i
				}
			}
			return m
		}
	}
	return nil
}

// fastFloat are instructions on f32 without modifiers.
var fastFloat = map[string]func(d, a, b *lanes32){"add": fastFAdd, "sub": fastFSub, "mul": fastFMul, "min": fastFMin,
	"max": fastFMax}

func fastFAdd(d, a, b *lanes32) {
	for i := range d {
		d[i] = ptxmath.AddRN32(a[i], b[i])
	}
}

func fastFSub(d, a, b *lanes32) {
	for i := range d {
		d[i] = ptxmath.SubRN32(a[i], b[i])
	}
}

func fastFMul(d, a, b *lanes32) {
	for i := range d {
		d[i] = ptxmath.MulRN32(a[i], b[i])
	}
}

// fastFMax and fastFMin are for what differs and is not NaN; the rest is rare.
func fastFMax(d, a, b *lanes32) {
	for i := range d {
		x, y := math.Float32frombits(a[i]), math.Float32frombits(b[i])
		switch {
		case x > y:
			d[i] = a[i]
		case x < y:
			d[i] = b[i]
		default:
			d[i] = ptxmath.Max32(a[i], b[i], ptxmath.Sel{})
		}
	}
}

func fastFMin(d, a, b *lanes32) {
	for i := range d {
		x, y := math.Float32frombits(a[i]), math.Float32frombits(b[i])
		switch {
		case x < y:
			d[i] = a[i]
		case x > y:
			d[i] = b[i]
		default:
			d[i] = ptxmath.Min32(a[i], b[i], ptxmath.Sel{})
		}
	}
}

func runFma32(w *warp, in *ins) {
	if w.mask != allLanes {
		runTernary(w, in)
		return
	}
	d, a, b, c := &w.r32[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()], &w.r32[in.c.index()]
	for i := range d { // as ptxmath.FmaRN32, which leaves a few numbers to a slower way
		x, y := float64(math.Float32frombits(a[i])), float64(math.Float32frombits(b[i]))
		s := x*y + float64(math.Float32frombits(c[i]))
		if math.Float64bits(s)&(1<<29-1) != 1<<28 && (s >= 0x1p-126 || s <= -0x1p-126) {
			d[i] = math.Float32bits(float32(s))
		} else {
			d[i] = ptxmath.FmaRN32(a[i], b[i], c[i])
		}
	}
}

func runSignExtend(w *warp, in *ins) {
	if w.mask != allLanes {
		runUnary(w, in)
		return
	}
	d, a := &w.r64[in.d.index()], &w.r32[in.a.index()]
	for i := range d {
		d[i] = uint64(int32(a[i]))
	}
}

func runZeroExtend(w *warp, in *ins) {
	if w.mask != allLanes {
		runUnary(w, in)
		return
	}
	d, a := &w.r64[in.d.index()], &w.r32[in.a.index()]
	for i := range d {
		d[i] = uint64(a[i])
	}
}

func runTruncate(w *warp, in *ins) {
	if w.mask != allLanes {
		runUnary(w, in)
		return
	}
	d, a := &w.r32[in.d.index()], &w.r64[in.a.index()]
	for i := range d {
		d[i] = uint32(a[i])
	}
}

func runFloatOfSigned(w *warp, in *ins) {
	if w.mask != allLanes {
		runUnary(w, in)
		return
	}
	d, a := &w.r32[in.d.index()], &w.r32[in.a.index()]
	for i := range d {
		d[i] = math.Float32bits(float32(int32(a[i])))
	}
}

package ptxvm

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

func runMulWide(w *warp, in *ins) {
	if w.mask != allLanes {
		runBinary(w, in)
		return
	}
	d, a, b := &w.r64[in.d.index()], &w.r32[in.a.index()], &w.r32[in.b.index()]
	for i := range d {
		d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
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
	case "ge.s32":
		return func(a, b *lanes32) (m uint32) {
			for i := range a {
				if int32(a[i]) >= int32(b[i]) {
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

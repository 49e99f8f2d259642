// This file implements rotary position embedding.

package honest

// rope rotates pairs: (i, i+D/2), or (2i, 2i+1) if interleaved.
func rope(e *eval) {
	a, _ := e.in("input", 4)
	cos, _ := e.in("cos", 2)
	sin, ok := e.in("sin", 2)
	if !ok {
		return
	}
	s, h, d := a.Shape[1], a.Shape[2], a.Shape[3]
	half := d / 2
	if d%2 != 0 || len(cos.X) != s*half || len(sin.X) != s*half {
		e.fail("inputs have shapes %s, %s and %s", a.Shape, cos.Shape, sin.Shape)
		return
	}
	out := e.out("output", len(a.X))
	if len(out) == 0 {
		return
	}
	step, apart := 1, half
	if e.flag("interleaved", false) {
		step, apart = 2, 1
	}
	e.shifted = s > 1
	for i := 0; i < len(out); i += d {
		pos := i / d / h % s
		if e.fault == OffByOne {
			pos = (pos + 1) % s
		}
		for j := range half {
			c, sn := cos.X[pos*half+j], sin.X[pos*half+j]
			p := i + j*step
			x, y := a.X[p], a.X[p+apart]
			out[p] = e.MulAdd(x, c, -e.Mul(y, sn))
			if e.alt(AltPad) { // the other product is the fused one
				out[p+apart] = e.MulAdd(x, sn, e.Mul(y, c))
			} else {
				out[p+apart] = e.MulAdd(y, c, e.Mul(x, sn))
			}
		}
	}
}

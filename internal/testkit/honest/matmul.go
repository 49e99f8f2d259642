// This file implements the matrix products.

package honest

// transpose returns b (k×n) as n rows of k in scratch memory.
func (e *eval) transpose(slot int, b []float64, k, n int) []float64 {
	t := e.scratch(slot, k*n)
	for i := range k {
		for j, v := range b[i*n : (i+1)*n] {
			t[j*k+i] = v
		}
	}
	return t
}

// product sets out (m×n) to a·b.
func (e *eval) product(out, a, b []float64, m, n, k int) {
	t := e.transpose(6, b, k, n)
	for i := range m {
		row := a[i*k : (i+1)*k]
		for j := range n {
			out[i*n+j] = e.Dot(row, t[j*k:(j+1)*k], true)
		}
	}
}

// pair returns the two operands of a product of rank 2 and its sizes.
func (e *eval) pair() (a, b []float64, m, n, k int, ok bool) {
	x, _ := e.in("a", 2)
	y, ok := e.in("b", 2)
	if !ok {
		return nil, nil, 0, 0, 0, false
	}
	m, k, n = x.Shape[0], x.Shape[1], y.Shape[1]
	if y.Shape[0] != k {
		e.fail("inputs have shapes %s and %s", x.Shape, y.Shape)
		return nil, nil, 0, 0, 0, false
	}
	return x.X, y.X, m, n, k, true
}

func matmul(e *eval) {
	a, b, m, n, k, ok := e.pair()
	if out := e.out("output", m*n); ok && out != nil {
		e.product(out, a, b, m, n, k)
	}
}

func batchedMatmul(e *eval) {
	a, _ := e.in("a", 3)
	b, ok := e.in("b", 3)
	if !ok {
		return
	}
	m, k, n := a.Shape[1], a.Shape[2], b.Shape[2]
	if a.Shape[0] != b.Shape[0] || b.Shape[1] != k {
		e.fail("inputs have shapes %s and %s", a.Shape, b.Shape)
		return
	}
	out := e.out("output", a.Shape[0]*m*n)
	if out == nil {
		return
	}
	for i := range a.Shape[0] {
		e.product(out[i*m*n:(i+1)*m*n], a.X[i*m*k:(i+1)*m*k], b.X[i*k*n:(i+1)*k*n], m, n, k)
	}
}

// matmulBiasAct adds the bias as convolutions do.
func matmulBiasAct(e *eval) {
	a, b, m, n, k, ok := e.pair()
	bias := e.vector("bias", n)
	out := e.out("output", m*n)
	if !ok || out == nil {
		return
	}
	act := e.text("act", "none")
	t := e.transpose(6, b, k, n)
	for i := range out {
		row, col := a[i/n*k:(i/n+1)*k], t[i%n*k:(i%n+1)*k]
		out[i] = e.activate(act, e.biased(row, col, bias[i%n]))
	}
}

func (e *eval) activate(act string, x float64) float64 {
	switch act {
	case "none":
		return x
	case "relu":
		return e.relu(x)
	case "gelu":
		return e.gelu(x)
	case "gelu_tanh":
		return e.geluTanh(x)
	case "silu":
		return e.silu(x)
	}
	e.fail("unknown activation %q", act)
	return x
}

// int8Matmul accumulates exactly in integers and scales the sum, rounded to A, row scale first, column scale first
// (AltPad) or by the product of both (AltFold).
func int8Matmul(e *eval) {
	a, b, m, n, k, ok := e.pair()
	sa, sb := e.vector("scale_a", m), e.vector("scale_b", n)
	out := e.out("output", m*n)
	if !ok || out == nil {
		return
	}
	t := e.transpose(6, b, k, n)
	for i := range out {
		s := e.Const(e.dotInt(a[i/n*k:(i/n+1)*k], t[i%n*k:(i%n+1)*k]))
		x, y := sa[i/n], sb[i%n]
		switch {
		case e.alt(AltFold):
			out[i] = e.Mul(s, e.Mul(x, y))
		case e.alt(AltPad):
			out[i] = e.Mul(e.Mul(s, y), x)
		default:
			out[i] = e.Mul(e.Mul(s, x), y)
		}
	}
}

func (e *eval) dotInt(x, y []float64) float64 {
	if e.fault != NoFault {
		x, y = e.faulty(1, x), e.faulty(2, y)
	}
	s := 0.0
	for i, v := range x {
		s += float64(v * y[i]) // exact: integers far below 2^53
		if e.fault == NarrowAcc {
			s = e.Cast(s, e.accT)
		}
	}
	return s
}

func fp8Matmul(e *eval) {
	a, b, m, n, k, ok := e.pair()
	sa, sb := e.vector("scale_a", 1), e.vector("scale_b", 1)
	out := e.out("output", m*n)
	if !ok || out == nil {
		return
	}
	fast := e.flag("fast_accum", false)
	t := e.transpose(6, b, k, n)
	for i := range out {
		s := e.dotFP8(a[i/n*k:(i/n+1)*k], t[i%n*k:(i%n+1)*k], fast)
		out[i] = e.Mul(e.Mul(s, sa[0]), sb[0])
	}
}

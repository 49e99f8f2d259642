// This file implements the normalisations.

package honest

// affine is one element of a normalisation: (x-mean)·rstd·w+b.
type affine struct{ mean, rstd, w, b float64 }

// apply normalises x. Folded (AltFold) it is x·(rstd·w)+(b-mean·rstd·w), in the other order (AltPad)
// ((x-mean)·w)·rstd+b. round: the style may round the normalised x.
func (e *eval) apply(x float64, p affine, round bool) float64 {
	if e.alt(AltFold) {
		scale := e.Mul(p.rstd, p.w)
		return e.MulAdd(x, scale, e.MulAdd(-p.mean, scale, p.b))
	}
	d := e.Sub(x, p.mean)
	if e.alt(AltPad) {
		return e.MulAdd(e.Mul(d, p.w), p.rstd, p.b)
	}
	n := e.Mul(d, p.rstd)
	if round {
		n = e.round(n)
	}
	return e.MulAdd(n, p.w, p.b)
}

// stats returns the mean of x and 1/sqrt(var+eps).
func (e *eval) stats(x []float64, eps float64) (mean, rstd float64) {
	mean, m2 := e.moments(x)
	return mean, e.Rsqrt(e.Add(e.mean(m2, len(x)), eps))
}

func (e *eval) eps(def float64) float64 { return e.Const(e.float("eps", def) * e.k) }

// vector returns an input of rank 1 with n elements.
func (e *eval) vector(name string, n int) []float64 {
	a, ok := e.in(name, 1)
	if ok && a.Shape[0] != n {
		e.fail("input %q has shape %s, want [%d]", name, a.Shape, n)
	}
	return a.X
}

func layernorm(e *eval) {
	a, ok := e.in("input", 3)
	if !ok {
		return
	}
	h := a.Shape[2]
	w, b := e.vector("weight", h), e.vector("bias", h)
	out, eps := e.out("output", len(a.X)), e.eps(1e-5)
	for i := 0; i < len(out); i += h {
		row := a.X[i : i+h]
		p := affine{}
		p.mean, p.rstd = e.stats(row, eps)
		for j, x := range row {
			p.w, p.b = w[j], b[j]
			out[i+j] = e.apply(x, p, true)
		}
	}
}

// scaled is x·rstd·w: (x·rstd)·w, folded (AltFold) x·(rstd·w), in the other order (AltPad) (x·w)·rstd.
func (e *eval) scaled(x, rstd, w float64) float64 {
	switch {
	case e.alt(AltFold):
		return e.Mul(x, e.Mul(rstd, w))
	case e.alt(AltPad):
		return e.Mul(e.Mul(x, w), rstd)
	}
	return e.Mul(e.round(e.Mul(x, rstd)), w)
}

func rmsnorm(e *eval) {
	a, ok := e.in("input", 3)
	if !ok {
		return
	}
	h := a.Shape[2]
	w := e.vector("weight", h)
	out, eps := e.out("output", len(a.X)), e.eps(1e-6)
	for i := 0; i < len(out); i += h {
		row := a.X[i : i+h]
		rstd := e.Rsqrt(e.Add(e.mean(e.Dot(row, row, false), h), eps))
		for j, x := range row {
			out[i+j] = e.scaled(x, rstd, w[j])
		}
	}
}

func groupnorm(e *eval) {
	a, ok := e.in("input", 3)
	if !ok {
		return
	}
	c, l, groups := a.Shape[1], a.Shape[2], e.int("groups", 1)
	if groups < 1 || c%groups != 0 {
		e.fail("%d channels in %d groups", c, groups)
		return
	}
	w, b := e.vector("weight", c), e.vector("bias", c)
	out, eps := e.out("output", len(a.X)), e.eps(1e-5)
	size := c / groups * l
	for i := 0; i < len(out); i += size {
		part := a.X[i : i+size]
		p := affine{}
		p.mean, p.rstd = e.stats(part, eps)
		for j, x := range part {
			ch := (i + j) / l % c
			p.w, p.b = w[ch], b[ch]
			out[i+j] = e.apply(x, p, false)
		}
	}
}

// l2norm is x/max(sqrt(sum of squares), eps).
func l2norm(e *eval) {
	a, ok := e.in("input", 3)
	if !ok {
		return
	}
	h := a.Shape[2]
	out, eps := e.out("output", len(a.X)), e.eps(1e-12)
	for i := 0; i < len(out); i += h {
		row := a.X[i : i+h]
		d := e.Max(e.Sqrt(e.Dot(row, row, false)), eps)
		for j, x := range row {
			out[i+j] = e.Div(x, d)
		}
	}
}

func batchnorm(e *eval) {
	a, ok := e.in("input", 3)
	if !ok {
		return
	}
	c, l := a.Shape[1], a.Shape[2]
	mean, variance := e.vector("mean", c), e.vector("var", c)
	w, b := e.vector("weight", c), e.vector("bias", c)
	out, eps := e.out("output", len(a.X)), e.eps(1e-5)
	for i := 0; i < len(out); i += l {
		ch := i / l % c
		p := affine{mean: mean[ch], rstd: e.Rsqrt(e.Add(variance[ch], eps)), w: w[ch], b: b[ch]}
		for j, x := range a.X[i : i+l] {
			out[i+j] = e.apply(x, p, false)
		}
	}
}

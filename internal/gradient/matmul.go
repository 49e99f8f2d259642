// This file implements the gradients of matrix products and attention.

package gradient

import (
	"math"

	"gpuemu/internal/diag"
	"gpuemu/internal/gemm"
	"gpuemu/internal/oracle"
)

// A matrix holds values and errors apart, as package gemm takes them.
type matrix struct {
	v, e       []float64
	rows, cols int
}

func newMatrix(rows, cols int) matrix {
	return matrix{make([]float64, rows*cols), make([]float64, rows*cols), rows, cols}
}

func matrixOf(x []val, rows, cols int) matrix {
	m := newMatrix(rows, cols)
	for i, v := range x {
		m.v[i], m.e[i] = v.v, v.e
	}
	return m
}

func (m *matrix) at(i int) val { return val{m.v[i], m.e[i]} }

func (m *matrix) set(i int, x val) { m.v[i], m.e[i] = x.v, x.e }

// exact reports whether the values have no errors.
func (m *matrix) exact() bool {
	for _, e := range m.e {
		if e != 0 {
			return false
		}
	}
	return true
}

// turned is the transpose.
func (m *matrix) turned() matrix {
	t := newMatrix(m.cols, m.rows)
	for i := range m.rows {
		for j := range m.cols {
			t.v[j*m.rows+i], t.e[j*m.rows+i] = m.v[i*m.cols+j], m.e[i*m.cols+j]
		}
	}
	return t
}

func magnitudes(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Abs(v)
	}
	return out
}

// times returns a·b: sums in the accumulation type, the result rounded to the framework's.
func (c *call) times(a, b matrix) matrix {
	m, n, k := a.rows, b.cols, a.cols
	out, size := newMatrix(m, n), make([]float64, m*n)
	gemm.MulAbs(out.v, size, a.v, b.v, m, n, k, gemm.Options{})
	inherit := func(x, y []float64) {
		part := make([]float64, m*n)
		gemm.Mul(part, x, y, m, n, k, gemm.Options{})
		for i, e := range part {
			out.e[i] += e
		}
	}
	if !b.exact() {
		inherit(magnitudes(a.v), b.e)
	}
	if !a.exact() {
		inherit(a.e, magnitudes(b.v))
	}
	for i := range out.v {
		e := out.e[i] + float64(c.acc.r*float64((depth(k)+1)*size[i]))
		if size[i] != 0 {
			e += float64(c.acc.tiny * float64(k))
		}
		if !(size[i] < c.acc.limit) {
			e = math.Inf(1)
		}
		out.set(i, c.work.rounded(out.v[i], e))
	}
	return out
}

// put copies a matrix into part of a gradient.
func (m *matrix) put(out []val) {
	for i := range m.v {
		out[i] = m.at(i)
	}
}

// matmulBack: da = g·bᵀ, db = aᵀ·g, for each of a batch.
func matmulBack(c *call) error {
	m, n, k := c.dim("M"), c.dim("N"), c.dim("K")
	batch := 1
	if b, ok := c.dims["B"]; ok {
		batch = b
	}
	for i := range batch {
		c.productBack(row(c.in["a"], i, m*k), row(c.in["b"], i, k*n), row(c.g["output"], i, m*n),
			row(c.out["a"], i, m*k), row(c.out["b"], i, k*n))
	}
	return nil
}

func (c *call) productBack(a, b, g, da, db []val) {
	m, n, k := c.dim("M"), c.dim("N"), c.dim("K")
	am, bm, gm := matrixOf(a, m, k), matrixOf(b, k, n), matrixOf(g, m, n)
	left, right := c.times(gm, bm.turned()), c.times(am.turned(), gm)
	left.put(da)
	right.put(db)
}

func matmulBiasActBack(c *call) error {
	m, n, k := c.dim("M"), c.dim("N"), c.dim("K")
	a, b, bias, g := c.in["a"], c.in["b"], c.in["bias"], c.g["output"]
	inner := make([]val, m*n)
	act := c.attrs.Str("act")
	z := c.times(matrixOf(a, m, k), matrixOf(b, k, n))
	sums := make([]sum, n)
	for i := range inner {
		inner[i] = g[i]
		if act != "none" {
			inner[i] = c.work.mul(g[i], c.activate(act, c.work.add(z.at(i), bias[i%n])))
		}
		sums[i%n].add(inner[i])
	}
	c.productBack(a, b, inner, c.out["a"], c.out["b"])
	for i := range sums {
		c.out["bias"][i] = c.kept(sums[i].total(c.acc))
	}
	return nil
}

// maxScores bounds the scores of one head: a dozen matrices of that size are held, 1 GiB in all.
const maxScores = 1 << 23

// A head is one attention problem: queries m×d, keys and values n×d. Row i sees the keys of visible(i).
type head struct {
	q, k, v, g matrix
	visible    func(i int) (lo, hi int)
	scale      float64
}

// weigh returns the probabilities of all rows, from scores in the framework's type. A row that sees no key has none,
// and whether its gradient is zero or NaN is a matter of convention.
func (c *call) weigh(h *head) (p matrix, blind []bool) {
	scores := c.times(h.q, h.k.turned())
	m, n := h.q.rows, h.k.rows
	p, blind = newMatrix(m, n), make([]bool, m)
	for i := range m {
		lo, hi := h.visible(i)
		if lo >= hi {
			blind[i] = true
			continue
		}
		x := make([]val, hi-lo)
		for j := range x {
			x[j] = c.work.times(scores.at(i*n+lo+j), h.scale)
		}
		for j, w := range c.probabilities(x).p {
			p.set(i*n+lo+j, c.kept(w))
		}
	}
	return p, blind
}

// back returns the gradients of one head: dV = PᵀG; dP = G·Vᵀ; dS = P(dP - Σ_j P·dP), the sum also as Σ G·O over the
// row of the output; dQ = scale·dS·K; dK = scale·dSᵀ·Q.
func (c *call) back(h *head) (dq, dk, dv matrix) {
	p, blind := c.weigh(h)
	m, n := p.rows, p.cols
	o, dp := c.times(p, h.v), c.times(h.g, h.v.turned())
	ds := newMatrix(m, n)
	for i := range m {
		var byKeys, byOutput sum
		for j := range n {
			byKeys.add(c.acc.mul(p.at(i*n+j), dp.at(i*n+j)))
		}
		for j := range h.v.cols {
			byOutput.add(c.acc.mul(h.g.at(i*h.v.cols+j), o.at(i*h.v.cols+j)))
		}
		mean, other := byKeys.total(c.acc), byOutput.total(c.acc)
		mean = c.kept(val{mean.v, mean.e + other.e})
		lo, hi := h.visible(i)
		for j := lo; j < hi; j++ {
			d := c.work.mul(p.at(i*n+j), c.work.sub(dp.at(i*n+j), mean))
			ds.set(i*n+j, c.work.times(d, h.scale))
		}
	}
	turned := ds.turned()
	pt := p.turned()
	dq, dk, dv = c.times(ds, h.k), c.times(turned, h.q), c.times(pt, h.g)
	openBlind(blind, dq, dk, dv)
	return dq, dk, dv
}

// openBlind leaves open what a row without keys may spoil: the NaN that some make of it reaches every key.
func openBlind(blind []bool, dq, dk, dv matrix) {
	spoilt := false
	for i, b := range blind {
		if !b {
			continue
		}
		spoilt = true
		for j := range dq.cols {
			dq.e[i*dq.cols+j] = math.Inf(1)
		}
	}
	if spoilt {
		for _, m := range []matrix{dk, dv} {
			for i := range m.e {
				m.e[i] = math.Inf(1)
			}
		}
	}
}

// heads runs all heads and adds up the gradients of keys and values that several heads share.
func (c *call) heads(m int, visible func(b int) func(i int) (lo, hi int)) error {
	n, d, hq, hkv := c.dim("N"), c.dim("D"), c.dim("HQ"), c.dim("HKV")
	if m*n > maxScores {
		return diag.Errorf(TooLarge, "use shorter sequences",
			"the gradient of attention with %d by %d scores a head is beyond the limit of %d scores", m, n, maxScores)
	}
	scale := c.attrs.Float("scale")
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(d))
	}
	kSums, vSums := make([]sum, len(c.out["k"])), make([]sum, len(c.out["v"]))
	for bh := range c.dim("B") * hq {
		kv := bh/hq*hkv + bh%hq*hkv/hq
		h := head{
			q: matrixOf(row(c.in["q"], bh, m*d), m, d), k: matrixOf(row(c.in["k"], kv, n*d), n, d),
			v: matrixOf(row(c.in["v"], kv, n*d), n, d), g: matrixOf(row(c.g["output"], bh, m*d), m, d),
			visible: visible(bh / hq), scale: scale,
		}
		dq, dk, dv := c.back(&h)
		dq.put(row(c.out["q"], bh, m*d))
		for i := range n * d {
			kSums[kv*n*d+i].add(dk.at(i))
			vSums[kv*n*d+i].add(dv.at(i))
		}
	}
	c.store("k", kSums, c.acc)
	c.store("v", vSums, c.acc)
	return nil
}

func attentionBack(c *call) error {
	m, n := c.dim("M"), c.dim("N")
	visible := oracle.VisibleKeys(c.attrs, m, n)
	return c.heads(m, func(int) func(int) (int, int) { return visible })
}

func decodeAttentionBack(c *call) error {
	return c.heads(1, func(b int) func(int) (int, int) {
		return func(int) (int, int) { return 0, c.index["kv_len"][b] }
	})
}

// This file implements the error of attention rows whose weights are uncertain but whose result is not.

package oracle

import (
	"math"

	"gpuemu/internal/gemm"
)

// wideWeights is the relative error of a sum of weights from which on rows are worth a second look.
const wideWeights = 0x1p-6

// rowWeights holds what the rows of a head were weighed with.
type rowWeights struct {
	p      matrix    // weights and their errors, m×n
	own    []float64 // the part of the errors that the product with v has alone: casts and roundings of rescaled sums
	totals []num     // sums of the weights
	least  []float64 // no implementation holds a sum below
	skip   []bool    // rows that are done
}

// wide reports whether some row has uncertain weights.
func (r *rowWeights) wide() bool {
	for i, t := range r.totals {
		if !r.skip[i] && t.e > float64(wideWeights*t.v) {
			return true
		}
	}
	return false
}

// narrowed returns, for every element, a bound that takes weights as the same in the product and in their sum.
//
// Large scores are known to a few units of their own, so a weight may be off by any factor, and a bound that adds the
// errors of product and sum says nothing, even where one key has all the weight and the result is its value. With
// weights p(1+ε), an exact result o and Σp(v-o) = 0,
//
//	o' - o = (Σ p·ε·(v-o) + ρ - o·τ) / Σp(1+ε),
//
// where ρ are the errors that the product has alone and τ those of the sum. |v-o| <= |v-c| + |c-o| for any c: here the
// value of the key with the largest weight, which leaves nothing of the error of that weight.
func (c *call) narrowed(h *head, r *rowWeights, values matrix) []float64 {
	shape := dotShape{m: h.m, n: h.d, k: h.n, tensorCore: c.tensorCore()}
	plain := c.dots(matrix{v: r.p.v}, values, shape)
	magnitude := magnitudes(values.v, values.e)
	common := make([]float64, len(r.p.e))
	for i, e := range r.p.e {
		common[i] = math.Max(0, e-r.own[i])
	}
	both, alone := make([]float64, h.m*h.d), make([]float64, h.m*h.d)
	gemm.Mul(both, common, magnitude, h.m, h.d, h.n, gemm.Options{})
	gemm.Mul(alone, r.own, magnitude, h.m, h.d, h.n, gemm.Options{})
	onS, onT := c.dotRounding(h.n, shape.tensorCore)
	out := make([]float64, h.m*h.d)
	parallel(h.m, 8*h.d+h.n, func(first, last int) {
		for i := first; i < last; i++ {
			if r.skip[i] {
				continue
			}
			top, sum := 0, 0.0
			for j, e := range common[i*h.n : (i+1)*h.n] {
				sum += e
				if r.p.v[i*h.n+j] > r.p.v[i*h.n+top] {
					top = j
				}
			}
			ofTop, low := common[i*h.n+top], math.Max(r.totals[i].v-r.totals[i].e, r.least[i])
			for x := i * h.d; x < (i+1)*h.d; x++ {
				at := values.v[top*h.d+x%h.d]
				o := plain.v[x] / r.totals[i].v
				about := both[x] - float64(ofTop*abs(at)) + float64(abs(at)*(sum-ofTop)) + float64(sum*abs(at-o))
				about = math.Min(math.Max(about, 0), both[x]+float64(sum*abs(o)))
				product := plain.e[x] + alone[x] + float64((onS+onT)*(both[x]+alone[x]))
				e := (about + product + float64(abs(o)*math.Max(0, r.totals[i].e-sum))) / low
				out[x] = c.rounded(o, e, c.quot).e
			}
		}
	})
	return out
}

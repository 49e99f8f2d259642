// This file implements sums and products of many terms evaluated in any order.

package oracle

import "math"

// A sum gathers terms that an implementation may add in any order and any tree.
//
// Bound: a tree of n-1 additions makes an error of at most u·Σ|partial sums| (Higham §4.2). Every partial sum is a
// sum of some subset of the terms, so it lies between -neg and pos, where pos and neg are the sums of the positive
// and of the negative parts; n-1 additions therefore cost at most (n-1)·u·max(pos, neg), whatever the order, and
// 1/(1-nu) covers the higher orders. For data of mixed signs this is half of the usual γ·Σ|t|.
// Overflow: no partial sum can exceed pos or fall below -neg; both infinities at once can meet as NaN.
type sum struct {
	n           int
	v, pos, neg float64
	e           float64
	may, must   classes // classes some term may have; classes some term is certain to have
	some        bool    // some term is certainly not finite
}

// add adds one term.
func (s *sum) add(t num) {
	s.n++
	s.v += t.v
	if t.clean() {
		s.e += t.e
		if t.v >= 0 {
			s.pos += t.v + t.e
			s.neg += t.e
		} else {
			s.neg += t.e - t.v
			s.pos += t.e
		}
		return
	}
	c := t.w | classOf(t.v)
	s.may |= c
	if t.w == 0 {
		s.must |= c
	}
	if c&clsFinite == 0 {
		s.some = true
	}
	if t.v-t.v == 0 {
		s.e += t.e
		s.pos += math.Max(t.v, 0) + t.e
		s.neg += math.Max(-t.v, 0) + t.e
	}
}

// addExact adds exact terms, all finite, as add does one by one. It takes no branch on their signs.
func (s *sum) addExact(x []float64) {
	v, pos, neg := s.v, s.pos, s.neg
	for _, t := range x {
		bits := math.Float64bits(t)
		below := uint64(int64(bits) >> 63) // all ones for negative terms
		v += t
		pos += math.Float64frombits(bits &^ below)
		neg += math.Float64frombits(bits & below &^ (1 << 63))
	}
	s.n += len(x)
	s.v, s.pos, s.neg = v, pos, neg
}

// gamma returns n·u/(1-n·u), the growth of n roundings (Higham, Lemma 3.1).
func (m *arith) gamma(n int) float64 {
	if m.accU > 0 {
		return m.narrowGamma(n)
	}
	g := float64(float64(n) * m.u)
	if g >= 0.5 {
		return 2 * g
	}
	return g / (1 - g)
}

// total returns the sum of the terms.
func (s *sum) total(m *arith) num {
	if s.n == 0 {
		return num{}
	}
	if s.must&clsNaN != 0 || s.must&(clsPosInf|clsNegInf) == clsPosInf|clsNegInf {
		return num{v: math.NaN()}
	}
	v := s.v
	top := math.Max(s.pos, s.neg)
	possible := s.may
	if s.pos >= m.limit {
		possible |= clsPosInf
	}
	if s.neg >= m.limit {
		possible |= clsNegInf
	}
	if possible&clsPosInf != 0 && possible&clsNegInf != 0 {
		possible |= clsNaN
	}
	if !s.some {
		possible |= clsFinite
	}
	if s.must&clsPosInf != 0 { // +Inf plus anything is +Inf or NaN
		possible &^= clsNegInf | clsFinite
	}
	if s.must&clsNegInf != 0 {
		possible &^= clsPosInf | clsFinite
	}
	if v-v != 0 {
		if s.may == 0 {
			possible |= clsFinite | clsNaN // fp64 itself overflowed: the exact sum is finite
		}
		return num{v: v, w: possible &^ classOf(v)}
	}
	e := s.e + float64(m.gamma(s.n-1)*top) + float64(float64(s.n)*m.tiny)
	return m.stored(num{v: v, e: e, w: possible &^ clsFinite})
}

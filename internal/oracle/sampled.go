// This file implements the slow path of num: operations on values that may be infinite, NaN or zero.

package oracle

import "math"

// maxRepresentatives is the most values representatives returns: v, both ends, two zeros, five unknown finite
// values, two infinities, NaN.
const maxRepresentatives = 13

// representatives appends values that stand for everything a may be: the exact value, the ends of its interval,
// the zeros inside it, and one value for each further class. Every function this is used for is monotone in each
// argument on either side of zero, so its extremes and its special cases lie among these.
func representatives(buf []float64, a num) []float64 {
	buf = append(buf, a.v)
	if a.v-a.v == 0 && a.e > 0 {
		lo, hi := a.v-a.e, a.v+a.e
		buf = append(buf, lo, hi)
		if lo < 0 && hi > 0 {
			buf = append(buf, 0, math.Copysign(0, -1))
		} else if lo == 0 || hi == 0 {
			buf = append(buf, math.Copysign(0, a.v)) // a flushed value keeps its sign
		}
	}
	if a.w&clsFinite != 0 {
		buf = append(buf, -noBound, -1, 0, 1, noBound)
	}
	if a.w&clsPosInf != 0 {
		buf = append(buf, math.Inf(1))
	}
	if a.w&clsNegInf != 0 {
		buf = append(buf, math.Inf(-1))
	}
	if a.w&clsNaN != 0 {
		buf = append(buf, math.NaN())
	}
	return buf
}

// spread gathers the results f has on representatives.
type spread struct {
	v, e float64
	w    classes
}

func (s *spread) take(m *arith, r float64) {
	c := classOf(r)
	s.w |= c
	if c != clsFinite {
		return
	}
	if s.v-s.v == 0 {
		s.e = max(s.e, math.Abs(r-s.v))
	}
	if r >= m.over {
		s.w |= clsPosInf
	}
	if r <= -m.over {
		s.w |= clsNegInf
	}
}

func (s *spread) result(m *arith, rel float64) num {
	n := num{v: s.v}
	if s.v-s.v == 0 {
		if s.v == 0 && s.e == 0 && s.w == clsFinite {
			return n // what an infinity or an exact zero makes zero is zero for everyone
		}
		if s.e-s.e != 0 {
			s.e = noBound // an interval wider than fp64: no statement about the value
		}
		n = m.rounded(s.v, s.e, rel)
	}
	n.w |= s.w
	n.w &^= classOf(s.v)
	return n
}

// sampled applies f, of relative error rel, to values at least one of which is or may be special. lost says that
// the exact result is finite although fp64 overflowed, which leaves every class open.
func (m *arith) sampled(f func(x, y float64) float64, a, b num, rel float64, lost bool) num {
	s := spread{v: f(a.v, b.v)}
	var bufA, bufB [maxRepresentatives]float64
	ra, rb := representatives(bufA[:0], a), representatives(bufB[:0], b)
	for _, x := range ra {
		for _, y := range rb {
			s.take(m, f(x, y))
		}
	}
	if lost {
		s.w |= clsFinite | clsPosInf | clsNegInf
	}
	return s.result(m, rel)
}

// sampled1 is sampled for functions of one argument.
func (m *arith) sampled1(f func(x float64) float64, a num, rel float64) num {
	s := spread{v: f(a.v)}
	var buf [maxRepresentatives]float64
	for _, x := range representatives(buf[:0], a) {
		s.take(m, f(x))
	}
	return s.result(m, rel)
}

// This file implements sums and products of many terms evaluated in any order.

package oracle

import "math"

// A sum gathers terms that an implementation may add in any order and any tree.
//
// Bound: a tree of n-1 additions makes an error of at most u·Σ|partial sums| (Higham §4.2). A partial sum of k terms
// lies between -neg and pos, where pos and neg are the sums of the positive and of the negative parts, and within k
// times the largest term: its magnitude is at most M_k = min(max(pos, neg), k·peak). The k-th largest partial sum of a
// tree has at most n-k+1 terms, so the error is at most u·Σ M_k, k = 2..n, whatever the order; 1/(1-nu) covers the
// higher orders.
//
// Long sums: this is reached only if all roundings push the same way as hard as they can. Roundings of partial sums up
// to a magnitude that depends on the terms (see variety) count as independent with mean zero (Higham and Mary, A new
// approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019): together they cost at most
// longSum·u·√ΣM_k². Those of larger partial sums add up, and so do those of terms that repeat a few values.
// Overflow: no partial sum can exceed pos or fall below -neg; both infinities at once can meet as NaN.
type sum struct {
	n           int
	v, pos, neg float64
	peak        float64 // largest magnitude of a term, its error included
	e           float64
	may, must   classes // classes some term may have; classes some term is certain to have
	some        bool    // some term is certainly not finite
	variety     variety
	grain       float64 // of variety, for up to twice as many terms as judged
	alike       float64 // of variety, too
	judged      int
}

// longSum is how many times u·√ΣM_k² the error of a long sum may reach. Roundings that are spread evenly between their
// limits have a deviation of u/√3, so this is 6.9 standard deviations, one sum in 10^11; and because u is their limit
// at the lower end of a binade only, real ones have 0.72 of that, and it is 9.6.
const longSum = 4

// add adds one term.
func (s *sum) add(t num) {
	s.variety.see(s.n, t.v)
	s.n++
	s.v += t.v
	if a := abs(t.v) + t.e; a > s.peak && a-a == 0 {
		s.peak = a
	}
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

// addExact adds exact terms, all finite and none larger than largest, as add does one by one. It takes no branch on
// their signs.
func (s *sum) addExact(x []float64, largest float64) {
	s.variety.seeAll(s.n, x)
	s.peak = math.Max(s.peak, largest)
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
	e := s.e + m.treeError(s.n, s.limits(m, top)) + float64(float64(s.n)*m.tiny)
	return m.stored(num{v: v, e: e, w: possible &^ clsFinite})
}

// independent returns the magnitude of partial sums up to which roundings are independent.
func (s *sum) independent(m *arith, top float64) float64 {
	if s.n < longTerms {
		return 0
	}
	if s.judged == 0 || s.n >= 2*s.judged { // a running sum asks at every term
		if s.judged > 0 {
			top *= 2
		}
		s.grain, s.alike, s.judged = s.variety.grain(m.u, top), s.variety.alike(), s.n
	}
	return s.grain
}

// limits returns the magnitudes of a sum whose partial sums reach up to top.
func (s *sum) limits(m *arith, top float64) limits {
	grain := s.independent(m, top)
	return limits{top, s.peak, grain, s.alike, s.variety.chainError(m.u)}
}

// longTerms is a number of terms below which longSum·√n is not less than n.
const longTerms = 32

// likelyChain: a chain whose error times this exceeds the bound for independent roundings, 2.4 of its deviations, has
// roundings that agree for a reason that the sample does not show.
const likelyChain = 4

// limits are what is known of the magnitudes in a sum: of its partial sums, of its terms, up to where roundings of
// partial sums are independent, and the share of terms for which they are not, because they are alike.
// Chain is the error of one chain of additions.
type limits struct{ top, peak, grain, alike, chain float64 }

// treeError bounds what the roundings of a sum of n terms add up to.
func (m *arith) treeError(n int, l limits) float64 {
	if n < 2 || l.top == 0 {
		return 0
	}
	if m.accU > 0 {
		return float64(m.gamma(n-1) * l.top)
	}
	count := float64(n)
	worst := linearSum(count, l.top, l.peak)
	if l.grain > 0 && worst <= math.MaxFloat64 { // else there is nothing to compare: products with zero would be NaN
		long := float64(longSum * rootSum(count, l.top, l.peak))
		if float64(likelyChain*l.chain) > float64(float64(m.gamma(n)/count)*long) {
			return float64(float64(m.gamma(n)/count) * worst)
		}
		if m.common {
			long = 0
		}
		long += float64(l.alike * linearSum(count, l.top, l.peak))
		if l.grain < l.top {
			long += linearSum(count, l.top, l.peak) - linearSum(math.Floor(l.grain/l.peak), l.grain, l.peak)
		}
		worst = math.Min(worst, long)
	}
	return float64(float64(m.gamma(n)/count) * worst)
}

// linearSum returns Σ min(top, k·peak) for k = 2..n.
func linearSum(n, top, peak float64) float64 {
	k := limited(n, top, peak)
	return math.Max(0, float64(peak*(float64(float64(k*(k+1))/2)-1))) + float64(math.Max(0, n-k)*top)
}

// rootSum returns √Σ min(top, k·peak)² for k = 2..n.
func rootSum(n, top, peak float64) float64 {
	k, ratio := limited(n, top, peak), top/peak
	squares := float64(float64(float64(k*(k+1))*(float64(2*k)+1))/6) - 1
	return float64(peak * math.Sqrt(squares+float64((n-k)*float64(ratio*ratio))))
}

// limited returns the last k of 1..n for which k·peak is the lesser limit.
func limited(n, top, peak float64) float64 { return math.Max(1, math.Min(n, math.Floor(top/peak))) }

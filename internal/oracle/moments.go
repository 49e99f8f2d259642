// This file implements mean and variance of a row.

package oracle

import "math"

// deviations holds the mean of a row and the sum of squares about it. Low is what is left of the exact mean below the
// last bit of its value: beside a mean of 10^8 times the deviations, float64 alone would lose half of their digits.
type deviations struct {
	mean, square num
	low          float64
}

// deviationsRow returns mean and Σ(x-μ)², by two passes or by Welford's updates, in lanes or not. Below X is the
// largest magnitude, r = √(Σx²/n), d = x-μ.
//
// Mean: a sum and a division, or running means M_k = M_(k-1) + δ_k/k. There an error ρ_k made at step k is damped by
// k/n, and |ρ_k| <= u|M_k| with |M_k| <= X and k|M_k| <= √k·‖x‖ (Cauchy). Added up that is u·min(X·n/2, (2/3)·n·r),
// or, as roundings of a long sum (see sum), longSum·u·min(X·√(n/3), r·√(n/2)); the roundings of δ_k and its quotient
// add (u+quot)/n·Σ|δ_k| <= 3(u+quot)·r, merging partial results the rest of 20u·r.
//
// Squares, two passes: with a mean off by ε each computed deviation is d-ε, so Σ(d-ε)² = Σd² + nε² because Σd = 0; on
// top come the rounding of each difference and square (3u) and of the sum.
//
// Squares, Welford: Σδ_k(x_k-M_k) with running means off by ε_k = Σ_(j<=k) (j/k)·ρ_j is off by 2·Σδ_k·ε_k, and because
// δ_k/k = M_k - M_(k-1) that is 2·Σ_j ρ_j·j·(μ - M_(j-1)): each rounding of a running mean counts with P_j, the sum of
// the first j deviations, which is never more than Σ|d|/2. So the roundings add up to 2·u·X·n·Σ|d|/2, or, as those of a
// long sum, to 2·longSum·u·X·√ΣP_j²: the latter in the order of the row and of lanes over it, and not below √(n·Σd²)/2,
// which is more than random orders have. A mean that is off by ε everywhere costs nε² as above; quotients and squares
// are covered by 40u.
//
// Mean and squares are themselves computed in twice the precision, so u has no share of the oracle's own roundings.
func (m *arith) deviationsRow(x []float64) deviations {
	own := *m
	own.u -= ownRoundoff
	return own.deviations(x)
}

func (m *arith) deviations(x []float64) deviations {
	n := float64(len(x))
	mu, low, y := m.centre(x)
	if !mu.clean() {
		var s sum
		for _, v := range x {
			d := m.sub(m.input(v), mu)
			s.add(m.mul(d, d))
		}
		out := deviations{mean: mu, square: s.total(m)}
		if len(x) == 1 {
			out.square.w |= clsFinite &^ classOf(out.square.v) // Welford's first deviation is zero, whatever the value
		}
		return out
	}
	var sq twice
	var squares variety
	var all, flushed, apart, far float64
	for i, v := range x {
		d := (v - mu.v) - low
		sq.add(float64(d * d))
		squares.see(i, float64(d*d))
		all += float64(v * v)
		apart += abs(d)
		far = math.Max(far, abs(d))
		if v != 0 && abs(v) < m.flush {
			flushed += float64(2*float64(abs(v)*abs(d))) + float64(v*v)
		}
	}
	largest, rms, square := extentOf(x).largest(), math.Sqrt(all/n), sq.value()
	// Running means round independently while the updates of the last ones are not all lost beside their spacing, nor all
	// of one size, as on a ramp.
	moving := float64(float64(n*m.u)*largest) <= math.Min(math.Sqrt(square/n), unevenness(x))
	varied := moving && len(x) >= longTerms && y.steady(m.u, largest)
	off := math.Max(mu.e, m.runningMean(len(x), largest, rms, varied)+m.tiny)
	offset := float64(n * float64(off*off))
	if !m.common || !varied {
		mu.e = off
	}
	top := square + offset
	e := offset + float64(m.gamma(m.squaring())*top) + flushed + float64(2*float64(n*m.tiny)) +
		m.treeError(len(x), limits{top, float64((far + off) * (far + off)), squares.grain(m.u, top),
			squares.alike(), squares.chainError(m.u)})
	prefixes := float64(n * (apart / 2))
	if varied {
		long := math.Max(math.Sqrt(float64(n*square))/2, rootPrefixes(x, mu.v, low))
		prefixes = math.Min(prefixes, float64(longSum*long))
		if m.common {
			prefixes = 0
		}
	}
	e += float64(2 * float64(float64(m.gamma(len(x))/n)*float64(largest*prefixes)))
	out := deviations{mean: mu, square: num{v: square, e: e}, low: low}
	if square-square != 0 || all-all != 0 || e-e != 0 {
		out.square = num{v: 0, w: clsPosInf | clsNaN} // fp64 itself overflowed
		return out
	}
	wide := m.widest(x, mu)
	if square+e >= m.limit || float64(wide*float64(wide*n)) >= m.limit {
		// Merging with an empty part multiplies a squared difference of means by a count of zero: Inf·0.
		out.square.w = clsPosInf | clsNaN
	}
	if wide >= m.limit { // a difference from a running mean may itself overflow
		out.mean.w = clsPosInf | clsNegInf | clsNaN
	}
	out.square = m.storedSquares(out.square, x, mu)
	return out
}

// unevenness returns how far the values of a row are from steps of one size. For independent values that is their
// standard deviation.
func unevenness(x []float64) float64 {
	if len(x) < longTerms {
		return 0
	}
	steps := float64(len(x) - 1)
	slope := (x[len(x)-1] - x[0]) / steps
	squares := 0.0
	for i, v := range x[1:] {
		d := (v - x[i]) - slope
		squares += float64(d * d)
	}
	return math.Sqrt(squares / float64(2*steps))
}

// squaring is how many roundings a squared deviation has: a difference, a square and, in Welford's updates, quotients.
// What all of them have in common is an approximate quotient.
func (m *arith) squaring() int {
	if m.common {
		return 8
	}
	return 43
}

// centre returns the mean of a row, what is left of it below the last bit of its value, and a sample of the terms.
func (m *arith) centre(x []float64) (mu num, low float64, y variety) {
	var s sum
	var exactly twice
	ext := extentOf(x)
	plain := ext.finite && ext.least >= m.flush
	if plain {
		s.addExact(x, ext.largest())
	}
	for _, v := range x {
		exactly.add(v)
		if !plain {
			s.add(m.input(v))
		}
	}
	mu = m.mean(s.total(m), len(x))
	if mu.clean() {
		v, rest := exactly.over(float64(len(x)))
		mu.e += abs(v - mu.v)
		mu.v, low = v, rest
	}
	return mu, low, s.variety
}

// runningMean bounds the error of a mean of n values by Welford's updates; see deviationsRow.
func (m *arith) runningMean(n int, largest, rms float64, varied bool) float64 {
	count := float64(n)
	steps := math.Min(float64(largest*(count/2)), float64(rms*float64(count*(2.0/3))))
	if varied {
		long := math.Min(float64(largest*math.Sqrt(count/3)), float64(rms*math.Sqrt(count/2)))
		steps = math.Min(steps, float64(longSum*long))
	}
	return float64(float64(m.gamma(n)/count)*steps) + float64((float64(3*(m.u+m.quot))+float64(20*m.u))*rms)
}

// laneStrides are the numbers of lanes whose running means are looked at: one thread, a warp, blocks of threads.
var laneStrides = [...]int{1, 32, 256}

// rootPrefixes returns √ΣP², P the sums of deviations of the beginnings of a row, or of the lanes that share it.
func rootPrefixes(x []float64, mean, low float64) float64 {
	most := 0.0
	for _, stride := range laneStrides {
		if stride >= len(x) {
			break
		}
		p, squares := 0.0, 0.0
		for lane := range stride {
			for i := lane; i < len(x); i += stride {
				p += (x[i] - mean) - low
				squares += float64(p * p)
			}
		}
		most = math.Max(most, squares)
	}
	return math.Sqrt(most)
}

// widest returns the largest magnitude that a difference from a running mean of finite values may reach.
func (m *arith) widest(x []float64, mu num) float64 {
	return float64(2*extentOf(x).largest()) + mu.e
}

// This file implements what a running maximum costs: rescaling the sum of exponentials whenever it rises.

package oracle

import "math"

// laneMerges is how often the sums of lanes are merged at the end: a warp's, then those of the warps of a block.
const laneMerges = 5

// rescaling bounds the error of Σexp(x-max) under a running maximum beyond that of its terms and additions. Each time
// the maximum rises, what was summed up to there is multiplied by an exponential: one exponential and two roundings;
// the errors of the arguments telescope to that of the term. Which values raise the maximum is counted in the order
// of the row, from its end, and in lanes that share it. T are the exponentials, s their sum.
func (m *arith) rescaling(x []float64, t func(i int) float64, s float64) float64 {
	if len(x) < 2 {
		return 0
	}
	most := 0.0
	for _, stride := range laneStrides {
		if stride >= len(x) {
			break
		}
		rescaled := 0.0
		for lane := range stride {
			rescaled += risingSum(x, t, lane, stride)
		}
		most = math.Max(most, rescaled)
	}
	most = math.Max(most, risingSum(x, t, len(x)-1, -1))
	merged := float64(s * math.Min(laneMerges, float64(len(x)-1)))
	return float64((m.expRel + float64(2*m.u)) * (most + merged))
}

// risingSum returns the sum of what was summed at each rise of the running maximum, over every stride-th element.
func risingSum(x []float64, t func(i int) float64, first, stride int) float64 {
	top, s, rescaled := math.Inf(-1), 0.0, 0.0
	for i := first; i >= 0 && i < len(x); i += stride {
		if x[i] > top {
			top = x[i]
			rescaled += s
		}
		s += t(i)
	}
	return rescaled
}

// This file implements functions of whole slices. Their results are those of the scalar functions, bit for bit.

package libm

import "math"

// ExpSlice sets dst[i] = Exp(src[i]) for every i < len(src). dst has at least that length and may be src.
func ExpSlice(dst, src []float64) {
	dst = dst[:len(src)]
	for i := 0; i < len(src); {
		i += expGroups(dst[i:], src[i:])
		for last := min(i+lanes, len(src)); i < last; i++ { // a group with a rare argument, or the rest
			dst[i] = Exp(src[i])
		}
	}
}

// Exp2Slice sets dst[i] = Exp2(src[i]) for every i < len(src). dst has at least that length and may be src.
func Exp2Slice(dst, src []float64) {
	dst = dst[:len(src)]
	for i := 0; i < len(src); {
		i += exp2Groups(dst[i:], src[i:])
		for last := min(i+lanes, len(src)); i < last; i++ {
			dst[i] = Exp2(src[i])
		}
	}
}

// LogSlice sets dst[i] = Log(src[i]) for every i < len(src). dst has at least that length and may be src.
func LogSlice(dst, src []float64) {
	dst = dst[:len(src)]
	for i := 0; i < len(src); {
		i += logGroups(dst[i:], src[i:])
		for last := min(i+lanes, len(src)); i < last; i++ {
			dst[i] = Log(src[i])
		}
	}
}

// SincosSlice sets sin[i], cos[i] = Sincos(src[i]) for every i < len(src). Both have at least that length, and one of
// them may be src.
func SincosSlice(sin, cos, src []float64) {
	sin, cos = sin[:len(src)], cos[:len(src)]
	for i := 0; i < len(src); {
		i += sincosGroups(sin[i:], cos[i:], src[i:])
		for last := min(i+lanes, len(src)); i < last; i++ {
			sin[i], cos[i] = Sincos(src[i])
		}
	}
}

// TanhSlice sets dst[i] = Tanh(src[i]) for every i < len(src). dst has at least that length and may be src.
func TanhSlice(dst, src []float64) {
	dst = dst[:len(src)]
	for i := 0; i < len(src); {
		i += tanhGroups(dst[i:], src[i:])
		for last := min(i+lanes, len(src)); i < last; i++ {
			dst[i] = Tanh(src[i])
		}
	}
}

// LeastUniform stands in for a first uniform of 0 in BoxMuller, whose logarithm would be infinite.
const LeastUniform = 1e-300

// BoxMuller takes pairs u, v of numbers in [0, 1) to √(-2·Log(u))·Cos(2πv) and √(-2·Log(u))·Sin(2πv), in place. An odd
// last element stays.
func BoxMuller(vals []float64) {
	for i := 0; i+2 <= len(vals); {
		i += boxMullerGroups(vals[i:])
		for last := min(i+2*lanes, len(vals)&^1); i < last; i += 2 {
			radius := math.Sqrt(-2 * Log(max(vals[i], LeastUniform)))
			sin, cos := Sincos(2 * math.Pi * vals[i+1])
			vals[i], vals[i+1] = radius*cos, radius*sin
		}
	}
}

// lanes is how many elements the assembly takes at a time.
const lanes = 4

// This file implements functions of whole slices. Their results are those of the scalar functions, bit for bit.

package libm

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

// lanes is how many elements the assembly takes at a time.
const lanes = 4

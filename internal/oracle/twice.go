// This file implements sums in twice the precision of float64, for values that cancel.

package oracle

import "math"

// A twice is a running sum in two float64: what it holds is hi+lo, with an error of about n·2^-106 of the sum of
// magnitudes (Neumaier's sum; Ogita, Rump and Oishi, Accurate sum and dot product, 2005, algorithm 4.4).
type twice struct{ hi, lo float64 }

// add adds one term.
func (t *twice) add(x float64) {
	s, e := twoSum(t.hi, x)
	t.hi = s
	t.lo += e
}

// value returns the sum rounded to float64; what is not finite stays as plain addition gives it.
func (t *twice) value() float64 {
	if t.lo-t.lo != 0 {
		return t.hi
	}
	return t.hi + t.lo
}

// over returns the sum divided by n, as a value and what is left below its last bit.
func (t *twice) over(n float64) (q, rest float64) {
	hi, lo := twoSum(t.hi, t.lo)
	q = hi / n
	// The remainder of a correctly rounded quotient is a float64; FMA gives it without rounding.
	return q, (math.FMA(-q, n, hi) + lo) / n
}

// twoSum returns a+b rounded and the error of that rounding (Knuth).
func twoSum(a, b float64) (s, e float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

package rng

import (
	"math"

	"gpuemu/internal/libm"
)

// leastUniform stands in for a first uniform of 0, whose logarithm would be infinite.
const leastUniform = 1e-300

// pair draws two independent standard normal variates with the method of Box and Muller. The values come from
// internal/libm, so they are the same on every CPU; another math library may differ in the last place.
func (r *RNG) pair() (cosine, sine float64) {
	u1, u2 := r.Float64(), r.Float64()
	radius := math.Sqrt(-2 * libm.Log(max(u1, leastUniform)))
	sin, cos := libm.Sincos(2 * math.Pi * u2)
	return radius * cos, radius * sin
}

// Normal returns a standard normal variate. Variates come in pairs: every other call returns the second one of the
// pair that the call before has drawn, whatever else was drawn in between.
func (r *RNG) Normal() float64 {
	if r.haveSine {
		r.haveSine = false
		return r.sine
	}
	cosine, sine := r.pair()
	r.sine, r.haveSine = sine, true
	return cosine
}

// FillNormal sets dst to standard normal variates. It begins with a new pair, and an odd length drops the second
// variate of the last one, so what it returns depends on the state of the stream alone; Normal's second variate is
// dropped as well.
func (r *RNG) FillNormal(dst []float64) {
	r.haveSine = false
	for ; len(dst) >= 2; dst = dst[2:] {
		dst[0], dst[1] = r.pair()
	}
	if len(dst) == 1 {
		dst[0], _ = r.pair()
	}
}

package rng

import "gpuemu/internal/libm"

// pair draws two independent standard normal variates with the method of Box and Muller. The values come from
// internal/libm, so they are the same on every CPU; another math library may differ in the last place.
func (r *RNG) pair() (cosine, sine float64) {
	pair := [2]float64{r.Float64(), r.Float64()}
	Normals(pair[:])
	return pair[0], pair[1]
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
	even := dst[:len(dst)&^1]
	r.FillFloat64(even)
	Normals(even)
	if len(even) < len(dst) {
		dst[len(even)], _ = r.pair()
	}
}

// Normals takes pairs of uniform variates, as Float64 returns them, to the pairs of normal variates that Normal makes
// of them, in place. It draws nothing, so several goroutines can do it for parts of a tensor. An odd last element
// stays.
func Normals(vals []float64) { libm.BoxMuller(vals) }

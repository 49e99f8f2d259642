// This file implements the value distributions.

package gen

import (
	"math"
	"math/bits"
	"slices"

	"gpuemu/internal/rng"
)

// unit turns 64 random bits into a multiple of 2^-53 in [0,1). Its low 11 bits are free for another choice.
func unit(u uint64) float64 { return float64(float64(u>>11) * 0x1p-53) }

// balanced maps [0,1) to [-1,1), exactly. The conversion keeps a caller's product from being fused into the sum.
func balanced(u float64) float64 {
	v := float64(u)
	return v + v - 1
}

// sign returns x or -x, by one random bit.
func sign(bit uint64, x float64) float64 {
	if bit&1 != 0 {
		return -x
	}
	return x
}

func uniform(s *source) fillFunc {
	return func(dst []float64, _ int) { s.r.FillFloat64(dst) }
}

// stretch takes U[0,1) to the usual range.
func stretch(s *source, vals []float64) {
	if s.usual {
		for i, u := range vals {
			vals[i] = balanced(u) * usualHalf
		}
		return
	}
	half, mid := s.half, s.mid
	if !s.d.IsFloat() {
		half += 0.5 // rounding to integers then gives both ends the probability of the others
	}
	for i, u := range vals {
		vals[i] = float64(balanced(u)*half) + mid
	}
}

// normal draws what RNG.FillNormal does, two uniforms for two values, and leaves the rest to boxMuller.
func normal(s *source) fillFunc {
	return func(dst []float64, _ int) { s.r.FillFloat64(dst) }
}

// boxMuller takes pairs of U[0,1) to pairs of standard normal values, as the specification of RNG v1 says.
func boxMuller(s *source, vals []float64) {
	vals = vals[:len(vals)&^1]
	rng.Normals(vals)
	if !s.usual {
		for i, x := range vals {
			vals[i] = float64(x*(s.half/3)) + s.mid
		}
	}
}

// boundary draws from a table of values, each an exact value of the dtype. Operands that are all near the limits would
// leave nothing but overflow, on which no contract decides. So moderate values stand in the table several times, and
// half of the tensors hold the largest ones and subnormals in some slices of one axis only (whole sequences, heads,
// channels, columns). Nearly half hold none of them, and one tensor in sixteen has them everywhere.
func boundary(s *source) fillFunc {
	all := s.boundaryTable()
	limit := nextUp(s.d, math.Ldexp(1, s.prec))
	moderate := slices.DeleteFunc(slices.Clone(all), func(x float64) bool {
		return math.Abs(x) > limit || x != 0 && math.Abs(x) < s.tiny
	})
	extreme := s.someSlices()
	switch u := s.r.Uint64() & 15; {
	case u == 0:
		extreme = everywhere
	case u <= 7:
		all = moderate
	}
	return func(dst []float64, row int) {
		lo, hi := extreme.of(row, len(dst))
		for i := range dst {
			table := moderate
			if i >= lo && i < hi {
				table = all
			}
			dst[i] = table[s.r.Uint64()%uint64(len(table))]
		}
	}
}

// slab is a range of indices lo..hi-1 along one axis of a tensor.
type slab struct {
	lo, hi int
	size   int // of the axis
	rows   int // how many rows (along the last axis) have the same index; 0: the axis is the last one
}

var everywhere = slab{hi: 1, size: 1, rows: 1}

// of returns the part of a row of n elements that lies in the slab.
func (b slab) of(row, n int) (lo, hi int) {
	if b.rows == 0 {
		return b.lo, b.hi
	}
	if i := row / b.rows % b.size; i < b.lo || i >= b.hi {
		return 0, 0
	}
	return 0, n
}

// someSlices draws at most half of the slices along an axis of more than one, mostly the first such axis: that is the
// one along which most operators do the same again.
func (s *source) someSlices() slab {
	var axes []int
	for i, n := range s.shape {
		if n > 1 {
			axes = append(axes, i)
		}
	}
	u := s.r.Uint64()
	if len(axes) == 0 {
		return everywhere
	}
	axis := axes[0]
	if u&3 == 0 {
		axis = axes[u>>2%uint64(len(axes))]
	}
	b := slab{size: s.shape[axis]}
	if axis < len(s.shape)-1 {
		b.rows = s.shape[axis+1 : len(s.shape)-1].Elems()
	}
	count := 1 + s.r.Intn(b.size/2)
	b.lo = s.r.Intn(b.size - count + 1)
	b.hi = b.lo + count
	return b
}

// slice returns the rows of a slice along the first axis; 0: there is one slice.
func (s *source) slice() int {
	if len(s.shape) < 2 || s.shape[0] < 2 {
		return 0
	}
	return s.shape[1 : len(s.shape)-1].Elems()
}

func (l *limits) boundaryTable() []float64 {
	var table []float64
	add := func(times int, x float64) {
		if math.IsInf(x, 0) || x != x || l.d.Float64(l.d.Bits(x)) != x {
			return
		}
		for range times {
			table = append(table, x)
			if l.d.IsSigned() {
				table = append(table, -x)
			}
		}
	}
	around := func(times int, x float64) {
		add(times, x)
		if x > 0 && x <= l.hi {
			add(times, -nextUp(l.d, -x))
			add(times, nextUp(l.d, x))
		}
	}
	for range 8 {
		add(1, 0)
		around(1, 1)
	}
	for k := -4; k <= 4; k++ {
		around(2, math.Ldexp(1, k))
	}
	around(2, math.Ldexp(1, l.prec))   // where the spacing reaches 1
	around(1, math.Ldexp(1, l.prec-1)) // and one half
	around(2, l.d.MaxFinite())
	around(2, l.tiny)
	around(2, l.sub)
	for _, x := range []float64{l.lo, l.hi} { // the ends of the domain
		if l.lo != -l.d.MaxFinite() || l.hi != l.d.MaxFinite() {
			table = append(table, x, x, x, x)
		}
	}
	top := math.Ilogb(l.d.MaxFinite())
	for k := max(math.Ilogb(l.sub), -top); k <= top; k += max(top/16, 1) {
		add(1, math.Ldexp(1, k))
	}
	return table
}

// nonFinite is what adversarial and nan_injected inject.
func nonFinite(k uint64) float64 {
	switch k % 3 {
	case 0:
		return math.NaN()
	case 1:
		return math.Inf(1)
	}
	return math.Inf(-1)
}

// adversarial has five buckets of equal share over the tensor. The published one mixes them element by element, so
// that every long row holds a NaN and every reduction gives NaN whatever the kernel does; here non-finite values have
// 2/5 of every other row (by a draw) and none of the rest, and the four finite buckets share what is left.
func adversarial(s *source) fillFunc {
	top := min(1000, s.d.MaxFinite())
	return func(dst []float64, _ int) {
		spread := s.nonFinite && s.r.Bool(0.5)
		for i := range dst {
			u := s.r.Uint64()
			k := u & 0x7ff
			if spread {
				if k < 0x7ff*2/5 {
					dst[i] = nonFinite(u >> 11)
					continue
				}
				k = u >> 11
			}
			dst[i] = s.finiteBucket(k, u>>13, top)
		}
	}
}

func (s *source) finiteBucket(k, u uint64, top float64) float64 {
	switch k % 4 {
	case 0:
		return sign(u, 0)
	case 1:
		if u>>1&1 != 0 { // a subnormal, or the smallest normal and what is beside it
			return sign(u, s.sub*float64(1+u>>2%8))
		}
		return sign(u, s.tiny*(0.5+float64(1.5*unit(u<<13))))
	case 2:
		return sign(u, s.d.MaxFinite()/10)
	}
	return balanced(unit(u<<13)) * top
}

// nanInjected replaces a tenth of every other row (by a draw), hence 5 % of all, for the reason given at adversarial.
func nanInjected(s *source) fillFunc {
	fill := uniform(s)
	return func(dst []float64, row int) {
		fill(dst, row)
		stretch(s, dst)
		if !s.r.Bool(0.5) {
			return
		}
		for i := range dst {
			if u := s.r.Uint64(); u%10 == 0 {
				if dst[i] = 0; u>>32&3 != 0 && s.nonFinite {
					dst[i] = nonFinite(u >> 40)
				}
			}
		}
	}
}

// masked gives a quarter of the rows (by a draw) a run of -Inf of any length at one end; one value stays finite.
func masked(s *source) fillFunc {
	fill := uniform(s)
	return func(dst []float64, row int) {
		fill(dst, row)
		stretch(s, dst)
		u := s.r.Uint64()
		if !s.nonFinite || u&3 != 0 || len(dst) < 2 {
			return
		}
		k := 1 + int(u>>3%uint64(len(dst)-1))
		run := dst[:k]
		if u&4 != 0 {
			run = dst[k:]
		}
		for i := range run {
			run[i] = math.Inf(-1)
		}
	}
}

// offset draws a mean of ±2^k, with k up to where the dtype can still tell values a few units apart, and adds U[-1,1).
//
// Most tensors have one mean for all rows: a statistic over several rows (groupnorm) would be dominated by the
// differences of their means otherwise, and nothing would cancel. Its k lies about half the precision. There the square
// of the mean has few digits left for the spread, so that E[x²]-E[x]² is wrong, but the errors of honest sums are still
// small beside it; the window does not depend on the length of the sums. Rows deviate from it by up to 1/2048, so that
// their sums differ, and the sign alternates along the first axis: activations are flat far below 0.
//
// Inputs that get such values often keep k to that window in all tensors, and below it in long rows: beyond it, one
// chain of additions loses the mean (in float32 for narrower types), and nothing would be left to judge.
func offset(s *source) fillFunc {
	kMin, kMax := 3, min(s.prec-2, 22, math.Ilogb(s.d.MaxFinite())-2)
	shared := s.r.Bool(0.7)
	common := s.r.Uint64()
	if shared {
		kMax = min(s.prec-2, max(s.prec/2, 9), 26, math.Ilogb(s.d.MaxFinite())-2)
		kMin = max(kMin, kMax-4)
	}
	if slices.Contains(s.often, "offset") {
		const singlePrec = 24
		kMax = min(kMax, max(s.prec/2-1, 9), max(kMin, max(s.prec, singlePrec)-2-bits.Len(uint(s.n))))
		if s.n == 1 { // nothing deviates from the mean, and 1/√eps makes much of its rounding
			kMin, kMax = 0, 0
		}
	}
	slice := s.slice()
	return func(dst []float64, row int) {
		u := s.r.Uint64()
		own := balanced(unit(u))
		if shared {
			u = common
		}
		mean := sign(u, math.Ldexp(1+unit(u), kMin+int(u>>1&0xff)%max(kMax-kMin+1, 1)))
		if shared {
			mean += float64(mean * float64(own*0x1p-11))
		}
		if shared && slice > 0 {
			mean = sign(uint64(row/slice), math.Abs(mean))
		}
		spread := 1.0
		if !s.usual && s.d.IsFloat() {
			mean, spread = s.mid+sign(u, float64(0.9*s.half)), s.half/20
		}
		if !s.d.IsSigned() {
			mean = math.Abs(mean)
		}
		for i := range dst {
			dst[i] = float64(balanced(s.r.Float64())*spread) + mean
		}
	}
}

// epsRoots are the square roots of 1e-5, 1e-6, ..., 1e-12, to which variances are compared, and 1e-8, 1e-10 and 1e-12
// themselves, to which norms (l2norm) and maxima (scales of quantisation) are; the norm of a long row is
// √n times as large, so a smaller one is there, too.
var epsRoots = [...]float64{
	3.1622776601683795e-3, 1e-3, 3.1622776601683795e-4, 1e-4, 3.1622776601683795e-5, 1e-5, 3.1622776601683795e-6, 1e-6,
	1e-8, 1e-10, 1e-12, 1e-14,
}

// nearEps draws the root mean square of each row and values uniform in ±√3 times it. Formats that do not reach so
// low get rows of their smallest subnormals.
//
// Where the first axis has several slices, the first, third and so on have rows of root mean square 1. Operators that
// are smooth at 0 (softmax, logsumexp, tanh) give nearly the same for all rows near 0, and what passes there may be a
// constant. Whole slices, because statistics over several rows (groupnorm) would be those of the largest.
func nearEps(s *source) fillFunc {
	const sqrt3 = 1.7320508075688772
	slice := s.slice()
	return func(dst []float64, row int) {
		width := max(epsRoots[s.r.Uint64()%uint64(len(epsRoots))]*sqrt3, 2*s.sub)
		if slice > 0 && row/slice%2 == 0 {
			width = sqrt3
		}
		for i := range dst {
			dst[i] = balanced(s.r.Float64()) * width
		}
	}
}

// risingMax makes rows that rise by span along the last axis, in steps of varying size, on top of a rise by grow
// along the axis before it: where that axis is the one a kernel loops over (the keys of attention), its scores rise
// with it, too.
func risingMax(s *source) fillFunc {
	u := s.r.Uint64()
	span := []float64{0.1, 0.4, 1}[u%3]
	if s.prec < 5 {
		span = max(span, 0.4) // an 8-bit format would not see a smaller rise
	}
	grow := []float64{0, 0.2, 0.8}[u>>8%3]
	step := span / float64(max(s.n, 1))
	// Only differences matter to a maximum, but activations are flat far below 0: one tensor in eight begins there.
	low := []float64{-0.9, -0.3, -0.2, -0.1, -0.1, 0, 0, 0.1}[u>>16&7]
	return func(dst []float64, row int) {
		start := low + float64(grow*float64(row%s.inner)/float64(max(s.inner-1, 1)))
		start += float64(0.05 * s.r.Float64()) // rows differ in their sums
		steep := float64(step * (0.75 + float64(s.r.Float64()/2)))
		for j := range dst {
			t := start + float64((float64(j)+float64(s.r.Float64()))*steep)
			dst[j] = float64(t*s.half) + s.mid
		}
	}
}

// cancelling puts v at place j and -v at the mirrored place; one or two places in the middle hold U[-1,1), which is
// the sum of the row. Half of the rows have all large terms of the first half positive, so that partial sums grow.
//
// The large terms are kept below 2^22/n² (2^51/n² for float64): the errors of a conforming sum of n such terms may add
// up to n² times a rounding, and with larger terms they would exceed what is left of the sum.
func cancelling(s *source) fillFunc {
	most := math.Ldexp(1, max(min(s.prec, 53), 24)-2) / float64(max(s.n, 1)) / float64(max(s.n, 1))
	return func(dst []float64, _ int) {
		u := s.r.Uint64()
		large := min(math.Ldexp(1, 6+int(u>>1&0xff)%8), s.d.MaxFinite()/4, max(most, 4))
		small, mid := 1.0, 0.0
		if !s.usual {
			large, small, mid = s.half, s.half/64, s.mid
			if !s.d.IsFloat() {
				mid = math.Trunc(mid) // -0.5 for signed integers, whose pairs cancel about 0
			}
		}
		n := len(dst)
		pairs := max(n-1, 0) / 2
		for j := range pairs {
			w := s.r.Uint64()
			v := float64((0.5 + float64(unit(w)/2)) * large)
			if u&1 != 0 {
				v = sign(w, v)
			}
			v = s.d.Float64(s.d.Bits(v)) // rounded before it is mirrored, so that it cancels exactly
			dst[j], dst[n-1-j] = mid+v, mid-v
		}
		for j := pairs; j < n-pairs; j++ {
			dst[j] = float64(balanced(s.r.Float64())*small) + mid
		}
	}
}

// oneSided draws a magnitude and a sign for the tensor, and values within a quarter of it. Products of 8 to 64 such
// values reach the limits that kernels take for minus infinity; larger ones would only make the scores uncertain.
func oneSided(s *source) fillFunc {
	u := s.r.Uint64()
	middle := sign(u, [...]float64{32, 48, 64, 96}[u>>1&3])
	if middle = math.Max(-s.d.MaxFinite()/2, math.Min(s.d.MaxFinite()/2, middle)); !s.usual {
		middle = s.mid + sign(u, float64(s.half/2))
	}
	return func(dst []float64, _ int) {
		for i := range dst {
			dst[i] = float64(middle * (1 + float64(balanced(s.r.Float64())/4)))
		}
	}
}

// tieLevels are exact in every float format and, but for the halves, in every integer format.
var tieLevels = [8]float64{-2, -1, -0.5, 0, 0.5, 1, 2, 3}

// ties takes two to four levels per row, one in eight rows a single one.
func ties(s *source) fillFunc {
	return func(dst []float64, _ int) {
		u := s.r.Uint64()
		count := 2 + u>>3%3
		if u&7 == 0 {
			count = 1
		}
		var levels [4]float64
		for k := range levels {
			levels[k] = s.tieLevel(u >> (8 + 8*k))
		}
		for i := range dst {
			dst[i] = levels[s.r.Uint64()%count]
		}
	}
}

func (s *source) tieLevel(u uint64) float64 {
	x := tieLevels[u%uint64(len(tieLevels))]
	if !s.usual && s.d.IsFloat() {
		return s.d.Float64(s.d.Bits(float64(x/4*s.half) + s.mid))
	}
	return x
}

// oneHot sets one place per row, the first or last in half of the rows, to 1 or, in a quarter of the rows, U[-10,10).
func oneHot(s *source) fillFunc {
	return func(dst []float64, _ int) {
		clear(dst)
		if len(dst) == 0 {
			return
		}
		u := s.r.Uint64()
		at := int(u >> 8 % uint64(len(dst)))
		switch u & 3 {
		case 0:
			at = 0
		case 1:
			at = len(dst) - 1
		}
		v := 1.0
		if u>>2&3 == 0 {
			v = float64(balanced(s.r.Float64())*s.half) + s.mid
		}
		dst[at] = v
	}
}

// sparse sets one element in sixteen to a normal value and one zero in sixteen to -0.
func sparse(s *source) fillFunc {
	return func(dst []float64, _ int) {
		for i := range dst {
			switch u := s.r.Uint64(); {
			case u&15 == 0:
				dst[i] = s.r.Normal() * (s.half / usualHalf)
			case u>>4&15 == 0:
				dst[i] = math.Copysign(0, -1)
			default:
				dst[i] = 0
			}
		}
	}
}

// This file implements the sweep of the full pass in Go: errors, sums and maxima of a chunk. The assembly gives the
// same bits.

package compare

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// sweepState holds sums and maxima over the accepted elements of a chunk. Element i counts in lane i%8 of a sum, so
// that the assembly and the Go code add in the same order. The assembly knows the layout up to maxULP32.
type sweepState struct {
	sumAbs   [8]float64
	sumRel   [8]float64
	relCount [8]uint64 // elements that are accepted and have a relative error
	sumULP   [8]uint64
	maxAbs   [4]float64
	maxRel   [4]float64
	maxRatio [4]float64
	maxWant  [4]float64
	maxULP32 [8]uint32
	carryULP uint64 // in units of 2^64
	maxULP   uint64
}

// accept enters element i with error d.
func (s *sweepState) accept(i int, d, want, bound float64) {
	s.sumAbs[i%8] += d
	s.maxAbs[0] = max2(s.maxAbs[0], d)
	a := math.Abs(want)
	s.maxWant[0] = max2(s.maxWant[0], a)
	if a != 0 {
		r := d / a
		if r > math.MaxFloat64 {
			r = math.MaxFloat64
		}
		s.sumRel[i%8] += r
		s.relCount[i%8]++
		s.maxRel[0] = max2(s.maxRel[0], r)
	}
	if d >= s.maxRatio[0]*bound && d > 0 { // see quickState.accept
		s.maxRatio[0] = max2(s.maxRatio[0], ratio(d, bound))
	}
}

// max2 is max for numbers of which neither is NaN; the builtin takes care of NaN and is slower.
func max2(x, y float64) float64 {
	if y > x {
		return y
	}
	return x
}

// sweep64 is the sweep of elements as float64, without ULP distances. A marked element is odd.
func sweep64(got, want, bound []float64, marked []bool, diff []float64, s *sweepState, odd []uint64) {
	clear(odd)
	want, bound, diff = want[:len(got)], bound[:len(got)], diff[:len(got)]
	for i, g := range got {
		w, b := want[i], bound[i]
		d := math.Abs(g - w)
		if d <= b && d <= math.MaxFloat64 && (marked == nil || !marked[i]) {
			s.accept(i, d, w, b)
		} else {
			odd[i/64] |= 1 << (i % 64)
			d = 0
		}
		diff[i] = d
	}
}

// sweepULP adds the ULP distances of the elements that sweep64 accepted.
func (f *fullPass) sweepULP(got []byte, c *chunk, s *sweepState, odd []uint64) {
	ulp := f.ulp[:len(c.want)]
	f.p.ulps(ulp, got, c.want, f.scratch)
	for k, word := range odd {
		for ; word != 0; word &= word - 1 {
			ulp[64*k+bits.TrailingZeros64(word)] = 0
		}
	}
	var sum, carry, most uint64
	for _, u := range ulp {
		sum, carry = bits.Add64(sum, u, 0)
		s.carryULP += carry
		most = max(most, u)
	}
	s.sumULP[0], s.maxULP = sum, most
}

// sweep32Go is the sweep of a float32 output, with ULP distances.
func sweep32Go(got []byte, want, bound, diff []float64, s *sweepState, odd []uint64) {
	clear(odd)
	bound, diff = bound[:len(want)], diff[:len(want)]
	for i, w := range want {
		b := bound[i]
		raw := binary.LittleEndian.Uint32(got[4*i:])
		d := math.Abs(float64(math.Float32frombits(raw)) - w)
		if d <= b && d <= math.MaxFloat64 {
			s.accept(i, d, w, b)
			u := distance64(ordered32(raw), roundOrdered32(w))
			s.sumULP[i%8] += u
			s.maxULP32[0] = max(s.maxULP32[0], uint32(u))
		} else {
			odd[i/64] |= 1 << (i % 64)
			d = 0
		}
		diff[i] = d
	}
}

// This file implements the kernels of Quick in Go. The assembly gives the same bits.

package compare

import (
	"encoding/binary"
	"math"
)

// accept enters an accepted element with error d into lane 0 of the maxima. A quotient is only formed when it may be a
// new maximum: d/a > m implies d > m*a, and since d is a float64 it is then not below the rounded product.
func (s *quickState) accept(d, want, bound float64) {
	if !(d > 0) {
		return
	}
	s.maxAbs[0] = max(s.maxAbs[0], d)
	a := math.Abs(want)
	if d >= s.maxRel[0]*a && a != 0 {
		s.maxRel[0] = max(s.maxRel[0], maxFloat(d/a))
	}
	if d >= s.maxRatio[0]*bound {
		s.maxRatio[0] = max(s.maxRatio[0], maxFloat(d/bound))
	}
}

// quick64 is the kernel for elements as float64; the ULP distances are the caller's. A marked element is odd.
func quick64(got, want, bound []float64, marked []bool, s *quickState, odd []uint64) {
	clear(odd)
	want, bound = want[:len(got)], bound[:len(got)]
	for i, g := range got {
		w, b := want[i], bound[i]
		d := math.Abs(g - w)
		if d <= b && d <= math.MaxFloat64 && (marked == nil || !marked[i]) {
			s.accept(d, w, b)
		} else {
			odd[i/64] |= 1 << (i % 64)
		}
	}
}

// quick32x64Go is the kernel for a float32 output against float64 values and bounds.
func quick32x64Go(got []byte, want, bound []float64, s *quickState, odd []uint64) {
	clear(odd)
	bound = bound[:len(want)]
	for i, w := range want {
		b := bound[i]
		raw := binary.LittleEndian.Uint32(got[4*i:])
		d := math.Abs(float64(math.Float32frombits(raw)) - w)
		if d <= b && d <= math.MaxFloat64 {
			s.accept(d, w, b)
			u := distance64(ordered32(raw), roundOrdered32(w))
			s.maxULP[0] = max(s.maxULP[0], uint32(u))
		} else {
			odd[i/64] |= 1 << (i % 64)
		}
	}
}

// quick32x32Go is the kernel for a float32 output against float32 values with a tolerance.
func quick32x32Go(got, want []byte, s *quickState, odd []uint64) {
	clear(odd)
	atol, rtol := s.atol[0], s.rtol[0]
	for i := range len(want) / 4 {
		raw, wantRaw := binary.LittleEndian.Uint32(got[4*i:]), binary.LittleEndian.Uint32(want[4*i:])
		w := float64(math.Float32frombits(wantRaw))
		b := atol + float64(rtol*math.Abs(w))
		d := math.Abs(float64(math.Float32frombits(raw)) - w)
		if d <= b && d <= math.MaxFloat64 {
			s.accept(d, w, b)
			u := distance64(ordered32(raw), ordered32(wantRaw))
			s.maxULP[0] = max(s.maxULP[0], uint32(u))
		} else {
			odd[i/64] |= 1 << (i % 64)
		}
	}
}

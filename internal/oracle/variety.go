// This file implements variety: how far the roundings of a sum may count as independent.

package oracle

import (
	"math"
	"math/bits"
)

// A variety is an evenly spaced sample of the terms of a sum in their order. It says up to which partial sums the
// roundings of additions are independent. Three things make them agree instead:
//
//   - Terms that repeat a few values: S + x is rounded the same way for every S of a binade if x is the same.
//   - Terms that differ by less than the spacing of the partial sums: 10000 ± 1 is always rounded down beside 10^9.
//     Neighbors count, too: along a slow ramp roundings agree for a while.
//   - Terms below half the spacing: they are lost, and all with their own sign.
//   - Terms with few digits below the spacing: the squares of odd numbers are 1 more than multiples of 8.
//
// The sample has every (mask+1)-th term that is not zero; when it is full, every second one of it is dropped.
type variety struct {
	mask, taken int
	sample      [sampleTerms]float64
	gap         [sampleTerms]float64 // distance of each from the term before it in the sum
	last        float64              // term
	// One chain over the terms as a kernel adds them: in float32, with the exact sum of the same terms, and in float64,
	// with what its additions have lost.
	single      float32
	singleExact float64
	double      float64
	doubleLost  float64
}

const (
	// sampleTerms: half as many are looked at in the least case, and have a value of one term in seven three times but
	// for one row in 500.
	sampleTerms  = 128
	fewTerms     = 32
	sameTimes    = 3 // from here on, equal terms of a sample are no coincidence
	recentValues = 8 // a row of ties has up to four levels
	// spacingSpread is the least spread of terms, over u times a partial sum, that makes roundings independent. The
	// spacing is at most 2u times the sum; normal terms whose deviation is 0.6 of it fall evenly between its multiples
	// but for 2·exp(-2π²·0.6²) = 0.2 %.
	spacingSpread = 1.2
	// fewDigits: terms that are multiples of a step leave so many different remainders beside the spacing at least.
	fewDigits = 64
)

// see takes term i, counted from 0.
func (y *variety) see(i int, x float64) {
	if i&y.mask == 0 {
		y.take(x, y.last)
	}
	y.last = x
	f := float32(x)
	y.single += f
	y.singleExact += float64(f)
	s, e := twoSum(y.double, x)
	y.double = s
	y.doubleLost += e
}

// seeAll is see for the terms from i on.
func (y *variety) seeAll(i int, x []float64) {
	for at := (i+y.mask)&^y.mask - i; at < len(x); at = (i + at) | y.mask + 1 - i {
		before := y.last
		if at > 0 {
			before = x[at-1]
		}
		y.take(x[at], before)
	}
	if len(x) > 0 {
		y.last = x[len(x)-1]
	}
	single, singleExact, double, lost := y.single, y.singleExact, y.double, y.doubleLost
	for _, t := range x {
		f := float32(t)
		single += f
		singleExact += float64(f)
		s, e := twoSum(double, t)
		double = s
		lost += e
	}
	y.single, y.singleExact, y.double, y.doubleLost = single, singleExact, double, lost
}

// chainError returns the error that one chain of additions in the order of the terms really makes in the type of u.
// Terms whose remainders beside the spacing agree, such as multiples of 1/4 and a constant, are as varied as others in
// a sample, but not here. Where the chain overflows it is infinite.
func (y *variety) chainError(u float64) float64 {
	e := math.Abs(y.doubleLost)
	if u > 0x1p-40 {
		e = math.Abs(float64(y.single) - y.singleExact)
	}
	if e-e != 0 {
		return math.Inf(1)
	}
	return e
}

func (y *variety) take(x, before float64) {
	if x == 0 {
		return
	}
	y.sample[y.taken], y.gap[y.taken] = x, abs(x-before)
	if y.taken++; y.taken < sampleTerms {
		return
	}
	for i := range sampleTerms / 2 {
		y.sample[i], y.gap[i] = y.sample[2*i+1], y.gap[2*i+1]
	}
	y.mask, y.taken = 2*y.mask+1, sampleTerms/2
}

// few appends to part an evenly spaced part of the sample or of its gaps, fewTerms at most, unless the sample has no
// more: looking at them costs less than adding a row of the length from which it matters.
func (y *variety) few(part []float64, of *[sampleTerms]float64) []float64 {
	step := (y.taken + fewTerms - 1) / fewTerms
	if step < 2 {
		return of[:y.taken]
	}
	for i := step - 1; i < y.taken; i += step {
		part = append(part, of[i])
	}
	return part
}

// grain returns the magnitude up to which roundings of partial sums are independent, at most top; 0: none are.
func (y *variety) grain(u, top float64) float64 { return y.independent(u, top, fewDigits) }

// steady reports whether the roundings of running means of the terms are independent. What is added to a mean is a
// quotient and has all its digits, however few the terms have.
func (y *variety) steady(u, largest float64) bool { return y.independent(u, largest, 0) == largest }

// independent is grain, for terms of which a step below spacing/digits is fine enough.
func (y *variety) independent(u, top, digits float64) float64 {
	var buf, bufGaps [fewTerms]float64
	terms, gaps := y.few(buf[:0], &y.sample), y.few(bufGaps[:0], &y.gap)
	if len(terms) < recentValues || repeats(terms) {
		return 0
	}
	for range 40 {
		near, smooth, small, coarse := 0, 0, 0, 0
		spacing := float64(2 * float64(u*top))
		for i, x := range terms {
			if step := lowestBit(x); step < spacing && float64(digits*step) > spacing {
				coarse++
			}
			if abs(x) < spacing {
				small++
			}
			if gaps[i] < float64(spacingSpread*float64(u*top)) {
				smooth++
			}
			if i > 0 && abs(x-terms[i-1]) < float64(spacingSpread*float64(u*top)) {
				near++
			}
		}
		if 2*max(near, smooth) < len(terms) && 10*small <= len(terms) && 4*coarse <= len(terms) {
			return top
		}
		top /= 2
	}
	return 0
}

// repeats reports whether more than a quarter of the sample repeats one of the last few different values.
func repeats(terms []float64) bool {
	var recent [recentValues]float64
	known, repeated := 0, 0
	for _, x := range terms {
		found := false
		for _, r := range recent {
			found = found || r == x
		}
		if found {
			repeated++
			continue
		}
		recent[known%recentValues] = x
		known++
	}
	return 4*repeated > len(terms)
}

// alike bounds the share of terms that have one of a few values, whose roundings agree although those of the others do
// not: values that the sample has three times, as a clipped or padded row has. Values of 16 bits occur twice by chance.
func (y *variety) alike() float64 {
	type value struct{ at, times uint8 }
	if y.mask == 0 {
		return 0 // of few terms even a quarter costs less than longSum
	}
	var table [2 * sampleTerms]value // open addressing, at most half full
	often := 0
	for i, x := range y.sample[:y.taken] {
		slot := math.Float64bits(x) * 0x9E3779B97F4A7C15 >> 56
		for table[slot].times > 0 && y.sample[table[slot].at] != x {
			slot = (slot + 1) % uint64(len(table))
		}
		v := &table[slot]
		if v.times == 0 {
			v.at = uint8(i)
		}
		switch v.times++; {
		case v.times == sameTimes:
			often += sameTimes
		case v.times > sameTimes:
			often++
		}
	}
	if often == 0 {
		return 0
	}
	return math.Min(1, (float64(often)+float64(3*math.Sqrt(float64(often))))/float64(y.taken))
}

// lowestBit returns the largest power of two of which x is a multiple; x is finite and not zero.
func lowestBit(x float64) float64 {
	frac, exp := math.Frexp(x)
	digits := uint64(math.Abs(frac) * 0x1p53)
	return math.Ldexp(1, exp-53+bits.TrailingZeros64(digits))
}

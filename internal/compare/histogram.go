// This file implements percentiles without sorting: counts of errors by exponent and leading significand bits.

package compare

import "math"

const (
	subBits = 8 // buckets per power of two: 256, each at most 1/256 wide relative to its lower edge
	subMask = 1<<subBits - 1
	// firstPages is how many pages there is room for at first: rounding errors of ordinary values spread over some forty
	// powers of two.
	firstPages = 48
)

// histogram counts float64s that are not negative by their exponent and the first subBits bits of the significand. The
// bits of such floats order like the floats, so that a bucket is a range of them. A page of 256 buckets is made when
// its exponent first occurs: errors spread over few powers of two, the whole range would be 2 MiB.
//
// Counting is the same in any order and for any division of the work, hence so are the percentiles.
type histogram struct {
	page   *pageTable
	spread [2]int   // the least exponent with a page, and the one behind the largest
	counts []uint32 // pages of buckets, the first one unused; an element count fits, since MaxElems is 2^31
	total  int
}

// pageTable has the numbers of pages by exponent; 0: none yet.
type pageTable [2048]uint16

func (h *histogram) add(x float64) {
	key := math.Float64bits(x)
	page := uint(h.page[key>>52&(1<<11-1)])
	if page == 0 {
		page = h.grow(key)
	}
	h.counts[page<<subBits|uint(key>>(52-subBits))&subMask]++
	h.total++
}

// addAll adds many numbers. Where an output is exact they are zeros, each of which would wait for the count of the one
// before it.
func (h *histogram) addAll(xs []float64) {
	zeros := 0
	for zeros < len(xs) && math.Float64bits(xs[zeros]) == 0 {
		zeros++
	}
	if zeros > 0 {
		page := uint(h.page[0])
		if page == 0 {
			page = h.grow(0)
		}
		h.counts[page<<subBits] += uint32(zeros)
	}
	counts := h.counts
	for _, x := range xs[zeros:] {
		key := math.Float64bits(x)
		page := uint(h.page[key>>52&(1<<11-1)])
		if page == 0 {
			page = h.grow(key)
			counts = h.counts
		}
		counts[page<<subBits|uint(key>>(52-subBits))&subMask]++
	}
	h.total += len(xs)
}

// forgetZeros takes n zeros out again.
func (h *histogram) forgetZeros(n int) {
	if n > 0 {
		h.counts[uint(h.page[0])<<subBits] -= uint32(n)
		h.total -= n
	}
}

// grow makes the page of a float with the bits key.
func (h *histogram) grow(key uint64) uint {
	if cap(h.counts) == 0 {
		h.counts = make([]uint32, 0, firstPages<<subBits)
	}
	if len(h.counts) == 0 {
		h.counts = h.counts[:1<<subBits]
	}
	page := len(h.counts) >> subBits
	h.counts = append(h.counts, make([]uint32, 1<<subBits)...) // clears the page
	e := int(key >> 52)
	h.page[e] = uint16(page)
	if page == 1 {
		h.spread = [2]int{e, e + 1}
	}
	h.spread = [2]int{min(h.spread[0], e), max(h.spread[1], e+1)}
	return uint(page)
}

// merge adds the counts of o.
func (h *histogram) merge(o *histogram) {
	for e := o.spread[0]; e < o.spread[1]; e++ {
		p := o.page[e]
		if p == 0 {
			continue
		}
		q := uint(h.page[e])
		if q == 0 {
			q = h.grow(uint64(e) << 52)
		}
		for s, n := range o.counts[int(p)<<subBits : (int(p)+1)<<subBits] {
			h.counts[int(q)<<subBits+s] += n
		}
	}
	h.total += o.total
}

// quantiles returns, for each q in rising order, the lower edge of the bucket that holds sorted[round(q*(n-1))]; zeros
// for no elements.
func (h *histogram) quantiles(qs ...float64) []float64 {
	out := make([]float64, len(qs))
	if h.total == 0 {
		return out
	}
	next, below := 0, 0 // below: elements in lower buckets
	rank := rankIndex(qs[0], h.total)
	for e := h.spread[0]; e < h.spread[1]; e++ {
		p := h.page[e]
		if p == 0 {
			continue
		}
		for s, n := range h.counts[int(p)<<subBits : (int(p)+1)<<subBits] {
			for below += int(n); rank < below; {
				out[next] = math.Float64frombits(uint64(e)<<52 | uint64(s)<<(52-subBits))
				if next++; next == len(qs) {
					return out
				}
				rank = rankIndex(qs[next], h.total)
			}
		}
	}
	panic("compare: internal error: rank beyond the histogram")
}

// sum is a compensated sum (Neumaier, ZAMM 54, 1974).
type sum struct{ s, c float64 }

func (a *sum) add(x float64) {
	t := a.s + x
	if math.Abs(a.s) >= math.Abs(x) {
		a.c += (a.s - t) + x
	} else {
		a.c += (x - t) + a.s
	}
	a.s = t
}

// value returns the sum, saturated: beyond float64 the compensation means nothing.
func (a *sum) value() float64 {
	if a.s > math.MaxFloat64 {
		return math.MaxFloat64
	}
	return maxFloat(a.s + a.c)
}

// mean returns the sum divided by n, or 0 for no elements.
func (a *sum) mean(n int) float64 {
	if n == 0 {
		return 0
	}
	return a.value() / float64(n)
}

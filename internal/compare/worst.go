// This file implements the lists of worst elements.

package compare

import (
	"math"
	"slices"
)

// entry is a candidate for a list of worst elements.
type entry struct {
	value float64
	at    int
	wrong bool
}

// before is the order of a list: wrong elements first, then larger errors, then lower positions. It is a total order
// on positions, so that the best of all workers' lists is the list of the whole, however the work was divided.
func (e entry) before(o entry) bool {
	switch {
	case e.wrong != o.wrong:
		return e.wrong
	case e.value != o.value:
		return e.value > o.value
	}
	return e.at < o.at
}

// top keeps the first few entries in the order above. An entry that does not exceed the limit of its kind cannot get
// in, provided that entries come with rising positions; the limits make that one comparison in the inner loop.
type top struct {
	size       int
	list       []entry
	limit      float64 // for accepted elements
	limitWrong float64
}

func newTop(size int) top { return top{size: size} } // most comparisons have nothing to list

// offer takes an entry whose value exceeds the limit of its kind.
func (t *top) offer(e entry) {
	at, _ := slices.BinarySearchFunc(t.list, e, func(x, y entry) int {
		if x.before(y) {
			return -1
		}
		return 1
	})
	t.list = slices.Insert(t.list, at, e)
	if len(t.list) > t.size {
		t.list = t.list[:t.size]
	}
	if len(t.list) < t.size {
		return
	}
	switch last := t.list[t.size-1]; {
	case last.wrong:
		t.limit, t.limitWrong = math.Inf(1), last.value
	default:
		t.limit = last.value
	}
}

// offerQuotients offers the accepted elements of a chunk at lo by quotient(diff, |div|), which is at most their
// quotient correctly rounded. Few divisions are needed: diff < limit·|div| as rounded implies the same for the exact
// product, diff being a float64 itself, and then the rounded quotient cannot exceed the limit, for the same reason.
func (t *top) offerQuotients(diff, div []float64, lo int, quotient func(d, div float64) float64) {
	for i, x := range div[:len(diff)] {
		d := diff[i]
		if d < t.limit*math.Abs(x) || d == 0 {
			continue
		}
		if q := quotient(d, x); q > t.limit {
			t.offer(entry{q, lo + i, false})
		}
	}
}

// merge joins two lists.
func (t *top) merge(o *top) {
	for _, e := range o.list {
		t.offer(e)
	}
}

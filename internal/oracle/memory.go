// This file implements memory of expected values that is used again.

package oracle

import (
	"sync"

	"gpuemu/internal/compare"
)

// maxReused bounds the arrays that are kept: what is larger is rare, and kept memory is nobody else's.
const maxReused = 1 << 21 // elements, 16 MiB

// arrays are those of expected values that were released. To get and clear new memory takes longer than to clear what
// is in a cache.
var arrays sync.Pool

// array returns n elements, which are zeros or, where the caller sets them all, anything.
func array(n int, setsAll bool) []float64 {
	if a, _ := arrays.Get().(*[]float64); a != nil && cap(*a) >= n {
		out := (*a)[:n]
		if !setsAll {
			clear(out)
		}
		return out
	}
	return make([]float64, n)
}

// Release gives the memory of values and bounds that Evaluate returned back, which nobody may use any more. They need
// not be released.
func Release(w *compare.Want) {
	for _, a := range []*[]float64{&w.Value, &w.Bound} {
		if own := *a; cap(own) > 0 && cap(own) <= maxReused {
			arrays.Put(&own)
		}
		*a = nil // a second call, or a use that should not be, finds nothing
	}
}

// This file implements the diagnosis: the driver, the facts all patterns start from, and their order.

package compare

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"gpuemu/internal/tensor"
)

// The kinds of findings. Causes are reported before places.
const (
	FindUnwritten  = "unwritten"    // poison, zeros or one constant where values should be
	FindFlushed    = "flushed"      // zeros where subnormal values should be
	FindNonFinite  = "non-finite"   // NaN or Inf appear, spread or vanish
	FindTransposed = "swapped-axes" // the output is the wanted one with two axes exchanged
	FindShift      = "shift"        // off by one along an axis
	FindSign       = "sign"         // right magnitude, wrong sign
	FindScale      = "scale"        // a common factor
	FindOffset     = "offset"       // a common difference
	FindRowScale   = "row-scale"    // a factor per row
	FindRowOffset  = "row-offset"   // a difference per row
	FindTail       = "tail-of-tile" // only in the last, partial tile
	FindEdge       = "edge"         // only the first or last element or slice
	FindGroup      = "group"        // only some indexes of an axis, or every g-th
)

const (
	// chance is the probability below which a set of positions is not taken for a coincidence, after correction for the
	// number of hypotheses that were tried.
	chance = 1e-4
	// clearly is how many times its tolerance an error must be to speak for or against an explanation.
	clearly = 8
	// minClear is how many elements must clearly speak for an explanation in values.
	minClear = 4
	// maxAxis is the longest axis along which wrong elements are counted by index.
	maxAxis = 1 << 24
)

// facts are what the patterns start from.
type facts struct {
	p      *plan
	wrong  bitmap
	shape  tensor.Shape
	n, m   int     // elements, wrong elements
	counts *Counts // by kind
	byAxis [][]int // wrong elements by index of each axis; nil for axes of size 1 and very long ones
	first  int     // first and last wrong position
	last   int
}

// diagnose names the patterns that explain all wrong elements. Each pattern must account for every wrong element and
// contradict no right one: no diagnosis is better than a wrong one. What is said is true of the data at hand; what it
// suggests is in brackets.
func diagnose(p *plan, wrong bitmap, rep *Report) []Finding {
	f := gather(p, wrong, rep)
	var out []Finding
	add := func(kind, format string, args ...any) {
		out = append(out, Finding{Kind: kind, Sentence: fmt.Sprintf(format, args...)})
	}
	f.unwritten(add)
	f.nonFinite(add)
	// Index outputs are not numbers to calculate with; and where classes differ, values do not explain it.
	if len(out) == 0 && p.want.Ties == nil && f.counts.Of[BeyondBound] == f.m && f.m >= minClear {
		// These explain all elements at once; where the wrong ones lie is then no news.
		if f.transposed(add) || f.shifted(add) || f.valued(add) {
			return out
		}
		f.byRows(add)
		f.signFlipped(add)
	}
	f.placed(add)
	return out
}

// report is how a pattern says what it found.
type report func(kind, format string, args ...any)

func gather(p *plan, wrong bitmap, rep *Report) *facts {
	f := &facts{p: p, wrong: wrong, shape: p.want.Shape, n: p.n, m: rep.Counts.Mismatched, counts: &rep.Counts}
	f.byAxis = make([][]int, len(f.shape))
	for k, d := range f.shape {
		if d > 1 && d <= maxAxis {
			f.byAxis[k] = make([]int, d)
		}
	}
	f.first = -1
	// Runs of wrong elements within a row share all indexes but the last; the row is unravelled once.
	cols := 1
	if len(f.shape) > 0 {
		cols = f.shape[len(f.shape)-1]
	}
	row, inRow := -1, 0
	flush := func() {
		at := row
		for k := len(f.shape) - 2; k >= 0 && inRow > 0; k-- {
			if f.byAxis[k] != nil {
				f.byAxis[k][at%f.shape[k]] += inRow
			}
			at /= f.shape[k]
		}
		inRow = 0
	}
	f.eachWrong(func(i int) bool {
		if f.first < 0 {
			f.first = i
		}
		f.last = i
		if r := i / cols; r != row {
			flush()
			row = r
		}
		inRow++
		if k := len(f.shape) - 1; k >= 0 && f.byAxis[k] != nil {
			f.byAxis[k][i%cols]++
		}
		return true
	})
	flush()
	return f
}

// eachWrong calls do for the position of every wrong element, rising, until it returns false, and returns what do
// returned last.
func (f *facts) eachWrong(do func(i int) bool) bool {
	for s, words := range f.wrong {
		for k, word := range words {
			for ; word != 0; word &= word - 1 {
				if !do(s*segmentElems + 64*k + bits.TrailingZeros64(word)) {
					return false
				}
			}
		}
	}
	return true
}

// got, want and bound return one element as float64. Diagnosis reads elements one by one: most hypotheses fall at once.
func (f *facts) got(i int) float64 {
	d := f.p.d
	return d.Float64(d.Load(f.p.got[i*d.Size():]))
}

func (f *facts) want(i int) float64 {
	var w float64
	if t := f.p.want.Exact; t != nil {
		w = t.DType.Float64(t.DType.Load(f.p.stored[i*t.DType.Size():]))
	} else {
		w = f.p.wantFloat(i)
	}
	if f.p.want.Saturating {
		w = max(f.p.minFinite(), min(f.p.maxFinite, w))
	}
	return w
}

func (f *facts) bound(i int) float64 {
	var b float64
	switch {
	case f.p.regime != Bound:
		b = f.p.tolerance(i, f.want(i))
	case f.p.want.Bound != nil:
		b = f.p.want.Bound[i]
	}
	if f.p.wantULP {
		b += f.p.opt.WantDType.HalfULP(f.want(i))
	}
	return b
}

// usable reports whether element i is a finite pair that the contract determines.
func (f *facts) usable(i int) bool {
	if f.p.want.Undetermined != nil && f.p.want.Undetermined[i] {
		return false
	}
	return math.Abs(f.got(i)) <= math.MaxFloat64 && math.Abs(f.want(i)) <= math.MaxFloat64
}

// slack is the rounding of the output dtype at x, twice: what an explanation may miss besides the bound.
func (f *facts) slack(x float64) float64 { return 2 * f.p.d.HalfULP(x) }

// axisName names an axis as people do: the last is columns, the one before it rows.
func (f *facts) axisName(k int) string {
	switch len(f.shape) - k {
	case 1:
		if len(f.shape) == 1 {
			return "elements"
		}
		return "columns"
	case 2:
		return "rows"
	}
	return fmt.Sprintf("indexes of axis %d", k)
}

// errors returns "the only error" or "all n errors" with the verb that follows.
func (f *facts) errors(one, many string) string {
	if f.m == 1 {
		return "the only error " + one
	}
	return fmt.Sprintf("all %d errors %s", f.m, many)
}

// span returns "3" or "3..7".
func span(lo, hi int) string {
	if lo == hi {
		return strconv.Itoa(lo)
	}
	return fmt.Sprintf("%d..%d", lo, hi)
}

// tuple returns an index as [0,3,17].
func tuple(idx []int) string {
	s := make([]string, len(idx))
	for i, x := range idx {
		s[i] = strconv.Itoa(x)
	}
	return "[" + strings.Join(s, ",") + "]"
}

// factor prints a ratio with the digits that matter.
func factor(k float64) string {
	if a := math.Abs(k); a >= 0.01 && a < 1000 {
		return strconv.FormatFloat(k, 'f', 3, 64)
	}
	return strconv.FormatFloat(k, 'g', 4, 64)
}

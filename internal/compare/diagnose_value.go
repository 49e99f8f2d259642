// This file implements the diagnosis of signs, factors and offsets.

package compare

import (
	"fmt"
	"math"
)

// valued recognises values that follow from the wanted ones by one rule for the whole output.
func (f *facts) valued(add report) bool {
	if !f.varied() {
		return false // with one wanted value throughout, a factor and an offset cannot be told apart
	}
	all := line{0, f.n}
	if k, ok := f.fitScale(all); ok {
		add(FindScale, "every %s is scaled by %s (%d of %d elements are wrong)", f.unit(), factor(k), f.m, f.n)
		return true
	}
	if c, ok := f.fitOffset(all); ok {
		add(FindOffset, "every %s is off by %s (%d of %d elements are wrong)", f.unit(), shortSigned(c), f.m, f.n)
		return true
	}
	return false
}

// unit is what a rule for the whole output is said of.
func (f *facts) unit() string {
	if len(f.shape) < 2 {
		return "element"
	}
	return "row"
}

func shortSigned(x float64) string { return fmt.Sprintf("%+.4g", x) }

// signFlipped recognises wrong elements with the right magnitude. Right elements may be anything.
func (f *facts) signFlipped(add report) {
	clear := 0
	ok := f.eachWrong(func(i int) bool {
		g, w := f.got(i), f.want(i)
		tol := f.bound(i) + f.slack(w)
		if math.Abs(w) >= clearly*tol {
			clear++
		}
		return math.Abs(g+w) <= tol
	})
	if ok && clear >= minClear {
		add(FindSign, "%s of the right magnitude and the wrong sign", f.errors("is", "are"))
	}
}

// varied reports whether two wrong elements want clearly different magnitudes.
func (f *facts) varied() bool {
	low, high := math.Inf(1), 0.0
	f.eachWrong(func(i int) bool {
		a := math.Abs(f.want(i))
		low, high = min(low, a), max(high, a)
		return high <= 1.01*low
	})
	return high > 1.01*low
}

// strange leaves out factors that other patterns explain: nothing, the sign, and the identity.
func strange(k float64) bool {
	return math.Abs(k) > 1e-6 && math.Abs(k+1) > 1e-6 && math.Abs(k-1) > 1e-6
}

// line is a range of positions.
type line struct{ lo, hi int }

// fitSample is among how many wrong elements the one to fit a rule to is chosen; the rule is checked on all.
const fitSample = 4096

// fitScale finds k with got = k*want for all elements of a range. It is taken from a large wanted value, whose quotient
// is the most accurate; its own uncertainty widens what is allowed elsewhere.
func (f *facts) fitScale(r line) (k float64, ok bool) {
	best := -1
	for i, seen := r.lo, 0; i < r.hi && seen < fitSample; i++ {
		if !f.wrong.has(i) {
			continue
		}
		seen++
		if best < 0 || math.Abs(f.want(i)) > math.Abs(f.want(best)) {
			best = i
		}
	}
	if best < 0 || f.want(best) == 0 {
		return 0, false
	}
	w := f.want(best)
	k = f.got(best) / w
	if !strange(k) {
		return 0, false
	}
	spread := (float64(max(1, math.Abs(k))*f.bound(best)) + f.slack(f.got(best))) / math.Abs(w)
	return k, f.holds(r, func(i int) (expect, tol float64) {
		w := f.want(i)
		return float64(k * w), float64(max(1, math.Abs(k))*f.bound(i)) + float64(spread*math.Abs(w))
	})
}

// fitOffset finds c with got = want + c for all elements of a range. It is taken from the wrong element with the
// smallest values, whose rounding is the least.
func (f *facts) fitOffset(r line) (c float64, ok bool) {
	best, least := -1, math.Inf(1)
	for i, seen := r.lo, 0; i < r.hi && seen < fitSample; i++ {
		if !f.wrong.has(i) {
			continue
		}
		seen++
		if s := f.bound(i) + f.slack(math.Abs(f.got(i))+math.Abs(f.want(i))); best < 0 || s < least {
			best, least = i, s
		}
	}
	if best < 0 {
		return 0, false
	}
	c = f.got(best) - f.want(best)
	return c, f.holds(r, func(i int) (expect, tol float64) {
		return f.want(i) + c, f.bound(i) + least
	})
}

// holds checks a rule on all usable elements of a range: none may contradict it, and minClear wrong ones must clearly
// need it. A right element contradicts it like a wrong one: a factor of 2 makes everything wrong but zero.
func (f *facts) holds(r line, rule func(i int) (expect, tol float64)) bool {
	clear := 0
	for i := r.lo; i < r.hi; i++ {
		if !f.usable(i) {
			continue
		}
		g := f.got(i)
		expect, tol := rule(i)
		tol += f.slack(expect)
		if !(math.Abs(g-expect) <= tol) {
			return false
		}
		if f.wrong.has(i) && math.Abs(g-f.want(i)) >= clearly*tol {
			clear++
		}
	}
	return clear >= minClear
}

// byRows tries one factor, then one offset per row that holds a wrong element. All such rows must follow, and there
// must be at least two.
func (f *facts) byRows(add report) {
	if len(f.shape) < 2 {
		return
	}
	cols := f.shape[len(f.shape)-1]
	for _, try := range []struct {
		kind, what string
		fit        func(line) (float64, bool)
		print      func(float64) string
	}{
		{FindRowScale, "scaled by its own factor", f.fitScale, factor},
		{FindRowOffset, "off by its own constant", f.fitOffset, shortSigned},
	} {
		rows, last := 0, -1
		low, high := math.Inf(1), math.Inf(-1)
		ok := f.eachWrong(func(i int) bool {
			r := i / cols
			if r == last {
				return true
			}
			last = r
			k, ok := try.fit(line{r * cols, (r + 1) * cols})
			rows++
			low, high = min(low, k), max(high, k)
			return ok
		})
		if !ok || rows < 2 {
			continue
		}
		total := f.n / cols
		if high-low <= 1e-3*math.Abs(high) {
			add(try.kind, "each of %d wrong rows (of %d) is %s: %s", rows, total, sameFor(try.kind), try.print(high))
		} else {
			add(try.kind, "each of %d wrong rows (of %d) is %s, %s to %s", rows, total, try.what,
				try.print(low), try.print(high))
		}
		return
	}
}

func sameFor(kind string) string {
	if kind == FindRowScale {
		return "scaled by the same factor"
	}
	return "off by the same constant"
}

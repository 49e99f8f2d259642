// This file implements the diagnosis of elements that were never written and of non-finite values that spread.

package compare

import (
	"fmt"
	"math"
	"slices"

	"gpuemu/internal/tensor"
)

// unwritten recognises wrong elements that all hold a poison pattern, all are zero, or all hold one other value.
func (f *facts) unwritten(add report) {
	d := f.p.d
	poison := f.p.opt.Poison
	if poison == nil {
		poison = []uint64{tensor.Poison(d)}
	}
	size := d.Size()
	value := d.Load(f.p.got[f.first*size:])
	var seen, same, poisoned, zeros int
	low, high := math.Inf(1), math.Inf(-1)
	f.eachWrong(func(i int) bool {
		b := d.Load(f.p.got[i*size:])
		seen++
		if b == value {
			same++
		}
		if slices.Contains(poison, b) {
			poisoned++
		}
		if d.Float64(b) == 0 {
			zeros++
		}
		if w := f.want(i); w == w {
			low, high = min(low, w), max(high, w)
		}
		return same == seen || poisoned == seen || zeros == seen
	})
	switch {
	case poisoned == f.m && f.m == f.n:
		add(FindUnwritten, "output never written: all %d elements hold the poison pattern %#x", f.n, value)
	case poisoned == f.m && f.convincingPoison():
		add(FindUnwritten, "%s the poison pattern %#x%s (never written)", f.errors("holds", "hold"), value, f.run())
	// low <= high: a number is wanted somewhere
	case zeros == f.m && low <= high && max(-low, high) < d.SmallestNormal() && d.IsFloat():
		add(FindFlushed, "%s zero where a subnormal value is wanted (flushed to zero)", f.errors("is", "are"))
	case zeros == f.m && f.m == f.n && f.n > 1:
		add(FindUnwritten, "the whole output is zero: all %d elements (never written, or nothing computed)", f.n)
	case zeros == f.m && f.m >= minClear:
		add(FindUnwritten, "%s exactly zero%s (not written, or skipped)", f.errors("is", "are"), f.run())
	case same == f.m && f.m >= minClear && low < high && math.Abs(d.Float64(value)) <= math.MaxFloat64:
		add(FindUnwritten, "%s the same value %s where %s to %s are wanted%s (constant fill)", f.errors("holds", "hold"),
			formatFloat(d.Float64(value)), shortFloat(low), shortFloat(high), f.run())
	}
}

// convincingPoison keeps a short integer that happens to look like poison from being called so: one byte pattern of 256
// is nothing, and a NaN of 8 bits is just a NaN.
func (f *facts) convincingPoison() bool {
	if f.p.opt.Poison != nil {
		return f.p.d.Size() > 1 || f.m >= minClear
	}
	return f.p.d.Size() > 1 && f.m >= 2 || f.p.d.Size() >= 4
}

// run describes where wrong elements lie when they form one run in memory order.
func (f *facts) run() string {
	if f.m > 1 && f.m < f.n && f.m == f.last-f.first+1 {
		return fmt.Sprintf(", one run from %s to %s", tuple(f.shape.Unravel(f.first)), tuple(f.shape.Unravel(f.last)))
	}
	return ""
}

// nonFinite recognises failures that are all of one class of non-finite value, and whether they fill slices.
func (f *facts) nonFinite(add report) {
	c := f.counts
	var what string
	switch f.m {
	case c.Of[UnexpectedNaN]:
		what = "NaN where a number is wanted"
	case c.Of[UnexpectedInf]:
		what = "infinite where a finite value is wanted"
	case c.Of[UnexpectedNaN] + c.Of[UnexpectedInf]:
		what = fmt.Sprintf("not finite where numbers are wanted (%d NaN, %d Inf)", c.Of[UnexpectedNaN], c.Of[UnexpectedInf])
	case c.Of[MissingNaN]:
		what = "numbers where NaN is wanted (NaN swallowed)"
	case c.Of[MissingInf]:
		what = "finite where an infinity is wanted"
	case c.Of[OppositeInf]:
		what = "infinite with the wrong sign"
	case c.Of[Forbidden]:
		what = "not finite, which the options forbid"
	default:
		return
	}
	if f.m == 1 {
		add(FindNonFinite, "the only error, at %s, is of class: %s", tuple(f.shape.Unravel(f.first)), what)
		return
	}
	add(FindNonFinite, "all %d errors are %s%s", f.m, what, f.filled())
}

// filled says that non-finite values spread over whole slices: along the last axis for a row-wise operation.
func (f *facts) filled() string {
	for k := len(f.shape) - 1; k >= 0; k-- {
		// Lines along axis k that hold a wrong element hold nothing else.
		if f.shape[k] < 2 {
			continue
		}
		if lines, ok := f.fullLines(k); ok && lines*f.shape[k] == f.m {
			all := f.n / f.shape[k]
			return fmt.Sprintf(", filling %d of %d lines along axis %d completely", lines, all, k)
		}
	}
	return ""
}

// fullLines counts the lines along axis k with wrong elements, if each of them is wrong from end to end. An element
// that is non-finite in both outputs counts as part of the line.
func (f *facts) fullLines(k int) (lines int, ok bool) {
	stride := 1
	for _, d := range f.shape[k+1:] {
		stride *= d
	}
	ok = f.eachWrong(func(i int) bool {
		at := i / stride % f.shape[k]
		if at == 0 {
			lines++
			return true
		}
		return f.wrong.has(i - stride) // together with the count of lines this leaves no gaps
	})
	return lines, ok
}

func shortFloat(x float64) string { return fmt.Sprintf("%.4g", x) }

// This file implements the reductions over the last axis and the prefix sum.

package honest

import (
	"math"

	"gpuemu/internal/dtype"
)

// rowwise makes an op of a function from a row to a number.
func rowwise(f func(e *eval, row []float64) float64) func(*eval) {
	return func(e *eval) {
		read := e.in
		if e.call.Op == "argmax" {
			read = e.raw
		}
		a, ok := read("input", 3)
		if !ok {
			return
		}
		h := a.Shape[2]
		out := e.out("output", a.Shape[0]*a.Shape[1])
		for i := range out {
			out[i] = f(e, a.X[i*h:(i+1)*h])
		}
	}
}

// maprows makes an op of a function from a row to a row.
func maprows(f func(e *eval, dst, row []float64)) func(*eval) {
	return func(e *eval) {
		a, ok := e.in("input", 3)
		out := e.out("output", len(a.X))
		if !ok || len(out) == 0 {
			return
		}
		h := a.Shape[2]
		for i := 0; i < len(out); i += h {
			f(e, out[i:i+h], a.X[i:i+h])
		}
	}
}

func (e *eval) sumRow(x []float64) float64  { return e.Sum(x) }
func (e *eval) meanRow(x []float64) float64 { return e.mean(e.Sum(x), len(x)) }
func (e *eval) maxRow(x []float64) float64  { return e.reduceMax(x) }

// greater reports whether x ranks above y: NaN is greater than every number.
func (m *Machine) greater(x, y float64) bool {
	if m.fault == SwallowNaN {
		return x > y || y != y && x == x
	}
	return x > y || x != x && y == y
}

// argmaxRow returns the first or, in reversed order, the last of tied indices. Comparisons may flush subnormals
// (setp.ftz), which makes ties of them; not where the first index is asked for.
func (e *eval) argmaxRow(x []float64) float64 {
	first := e.text("ties", "any") == "first"
	keep, skip := e.dropped(len(x))
	at, best := -1, 0.0
	for i, v := range x[:keep] {
		if e.ftz && !first && e.t != dtype.Float64 {
			v = float64(flush(float32(v)))
		}
		switch {
		case i == skip:
			continue
		case at < 0, e.greater(v, best), e.style.Order == Reversed && !first && !e.greater(best, v):
			at, best = i, v
		}
	}
	return float64(max(at, 0))
}

// varRow divides by H-correction. Nothing is left to divide by for one element and correction 1: NaN, whatever the
// numerator.
func (e *eval) varRow(x []float64) float64 {
	n := len(x) - e.int("correction", 0)
	if n <= 0 {
		return math.NaN()
	}
	_, m2 := e.moments(x)
	return e.mean(m2, n)
}

// cumsumRow is the prefix sum: one chain, Hillis and Steele's doubling (Pairwise), scans of 32 with a carry (Blocked),
// or every prefix of a chunk added from its end (Reversed).
func (e *eval) cumsumRow(dst, x []float64) {
	if e.fault == DropTerm || e.fault == SkipTile {
		keep, skip := e.dropped(len(x))
		y := e.scratch(6, len(x))
		clear(y)
		copy(y, x[:keep])
		if skip >= 0 {
			y[skip] = 0
		}
		x = y
	}
	switch e.style.Order {
	case Pairwise:
		e.scanDoubling(dst, x)
	case Blocked:
		carry := 0.0
		for i := 0; i < len(x); i += lanes {
			j := min(i+lanes, len(x))
			e.scanDoubling(dst[i:j], x[i:j])
			if i > 0 {
				for k := i; k < j; k++ {
					dst[k] = e.acc(carry, dst[k])
				}
			}
			carry = dst[j-1]
		}
	case Reversed:
		const chunk = 64
		for i := range x {
			s := 0.0
			for j := i; j >= i/chunk*chunk; j-- {
				s = e.acc(s, x[j])
			}
			if i >= chunk {
				s = e.acc(s, dst[i/chunk*chunk-1])
			}
			dst[i] = s
		}
	default:
		s := 0.0
		for i, v := range x {
			s = e.acc(s, v)
			dst[i] = s
		}
	}
}

// scanDoubling adds to each element the one 1, 2, 4, ... places before it.
func (e *eval) scanDoubling(dst, x []float64) {
	copy(dst, x)
	for d := 1; d < len(x); d *= 2 {
		for i := len(x) - 1; i >= d; i-- {
			dst[i] = e.acc(dst[i-d], dst[i])
		}
	}
}

// This file implements the diagnosis of swapped axes and of shifts by one.

package compare

import "math"

// explained checks one explanation: element i of the output should be element from(i) of what is wanted. It must hold
// for every element that has a source (from(i) >= 0), within the bound of the source, and at least minClear elements
// that are wrong must clearly speak for it.
func (f *facts) explained(from func(i int) int) bool {
	clear := 0
	for i := range f.n {
		j := from(i)
		if j < 0 || !f.usable(i) {
			continue
		}
		if !f.usable(j) {
			return false
		}
		g, w := f.got(i), f.want(j)
		tol := f.bound(j) + f.slack(w)
		if !(math.Abs(g-w) <= tol) {
			return false
		}
		if f.wrong.has(i) && math.Abs(g-f.want(i)) >= clearly*tol {
			clear++
		}
	}
	return clear >= minClear
}

// transposed recognises an output that is the wanted one with two axes exchanged in memory: written in the order of the
// exchanged axes, or read in it. For two axes of the same size the two are the same.
func (f *facts) transposed(add report) bool {
	for a := len(f.shape) - 2; a >= 0; a-- {
		for b := len(f.shape) - 1; b > a; b-- {
			if f.shape[a] < 2 || f.shape[b] < 2 {
				continue
			}
			for _, exchanged := range []bool{false, true} {
				if f.explained(f.exchange(a, b, exchanged)) {
					add(FindTransposed, "the output is the wanted one with axes %d and %d exchanged%s", a, b, f.square(a, b))
					return true
				}
			}
		}
	}
	return false
}

func (f *facts) square(a, b int) string {
	if f.shape[a] == f.shape[b] {
		return ""
	}
	return " in memory"
}

// exchange returns the source of element i when the output's memory holds the wanted tensor with axes a and b exchanged
// (or, inverted, when the wanted memory was read as if it were exchanged).
func (f *facts) exchange(a, b int, inverted bool) func(i int) int {
	rank := len(f.shape)
	// dims is the shape as which position i is read, strides those under which its indexes are put together again.
	dims, other := make([]int, rank), make([]int, rank)
	for k := range dims {
		dims[k], other[k] = f.shape[k], f.shape[k]
	}
	dims[a], dims[b] = f.shape[b], f.shape[a]
	if inverted {
		dims, other = other, dims
	}
	strides := make([]int, rank)
	s := 1
	for k := rank - 1; k >= 0; k-- {
		strides[k] = s
		s *= other[k]
	}
	strides[a], strides[b] = strides[b], strides[a]
	return func(i int) int {
		at := 0
		for k := rank - 1; k >= 0; k-- {
			at += i % dims[k] * strides[k]
			i /= dims[k]
		}
		return at
	}
}

// shifted recognises an output that is off by one along an axis. Elements at the end, which have no source, are free.
func (f *facts) shifted(add report) bool {
	stride := 1
	for k := len(f.shape) - 1; k >= 0; k-- {
		d := f.shape[k]
		for _, by := range []int{1, -1} {
			if d < 3 {
				continue
			}
			ok := f.explained(func(i int) int {
				at := i/stride%d - by
				if at < 0 || at >= d {
					return -1
				}
				return i - by*stride
			})
			if ok {
				add(FindShift, "the output is shifted by %+d along axis %d: element i holds what element i%+d should", by, k, -by)
				return true
			}
		}
		stride *= d
	}
	return false
}

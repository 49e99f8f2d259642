// This file implements the ops that select or scatter by index.

package honest

import "slices"

// at returns an index in [0,n), with OffByOne the next one.
func (e *eval) at(x float64, n int) int {
	i := int(x)
	if i < 0 || i >= n {
		e.fail("index %d is not in [0,%d)", i, n)
		return 0
	}
	if e.fault == OffByOne {
		e.shifted = n > 1
		i = (i + 1) % n
	}
	return i
}

func embedding(e *eval) {
	table, _ := e.raw("table", 2)
	index, ok := e.in("index", 1)
	if !ok {
		return
	}
	v, d := table.Shape[0], table.Shape[1]
	out := e.out("output", len(index.X)*d)
	for r, x := range index.X {
		if i := e.at(x, v); e.err == nil {
			copy(out[r*d:(r+1)*d], table.X[i*d:(i+1)*d])
		}
	}
}

func gather(e *eval) {
	a, _ := e.raw("input", 2)
	index, ok := e.in("index", 2)
	if !ok {
		return
	}
	c, k := a.Shape[1], index.Shape[1]
	out := e.out("output", len(index.X))
	for i := range out {
		if j := e.at(index.X[i], c); e.err == nil {
			out[i] = a.X[i/k*c+j]
		}
	}
}

// scatterAdd adds the rows of src that go to one row of the input, in the machine's order. Rows that get nothing are
// copied.
func scatterAdd(e *eval) {
	a, _ := e.in("input", 2)
	index, _ := e.in("index", 1)
	src, ok := e.in("src", 2)
	if !ok {
		return
	}
	v, d := a.Shape[0], a.Shape[1]
	if len(src.X) != len(index.X)*d {
		e.fail("inputs have shapes %s, %s and %s", a.Shape, index.Shape, src.Shape)
		return
	}
	out := e.out("output", len(a.X))
	if e.err != nil {
		return
	}
	copy(out, a.X)
	// start[i]..start[i+1] are the places in order of the rows of src that go to row i.
	start, order := make([]int, v+2), make([]int, len(index.X))
	for _, x := range index.X {
		start[e.at(x, v)+2]++
	}
	for i := 2; i < len(start); i++ {
		start[i] += start[i-1]
	}
	for r, x := range index.X {
		i := e.at(x, v) + 1
		order[start[i]] = r
		start[i]++
	}
	for i := range v {
		rows := order[start[i]:start[i+1]]
		if len(rows) == 0 {
			continue
		}
		terms := e.scratch(6, len(rows)+1)
		for j := range d {
			terms[0] = a.X[i*d+j]
			for n, r := range rows {
				terms[n+1] = src.X[r*d+j]
			}
			out[i*d+j] = e.Sum(terms)
		}
	}
}

// topK sorts by value, NaN first; equal values by index, in reversed order by falling index.
func topK(e *eval) {
	a, ok := e.raw("input", 2)
	if !ok {
		return
	}
	rows, n, k := a.Shape[0], a.Shape[1], e.int("k", 1)
	if k < 0 || k > n {
		e.fail("k is %d, with %d columns", k, n)
		return
	}
	values, indices := e.out("values", rows*k), e.out("indices", rows*k)
	if e.err != nil {
		return
	}
	for r := range rows {
		row := a.X[r*n : (r+1)*n]
		for j, i := range e.rank(row, k) {
			values[r*k+j], indices[r*k+j] = row[i], float64(i)
		}
	}
}

// rank returns the indices of the k greatest values of x, greatest first. A fault leaves terms out; there are never
// fewer than k.
func (e *eval) rank(x []float64, k int) []int {
	keep, skip := e.dropped(len(x))
	order := make([]int, 0, len(x))
	for i := range x[:keep] {
		if i != skip {
			order = append(order, i)
		}
	}
	for i := 0; len(order) < k; i++ {
		if !slices.Contains(order, i) {
			order = append(order, i)
		}
	}
	reversed := e.style.Order == Reversed
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case e.greater(x[i], x[j]):
			return -1
		case e.greater(x[j], x[i]):
			return 1
		case reversed:
			return j - i
		}
		return i - j
	})
	return order[:k]
}

package invariant

import (
	"bytes"
	"fmt"

	"gpuemu/internal/tensor"
)

// This file implements the invariants of batches: what the rows of an output owe to the other rows.

// Rows is the output of another run, on some rows of the inputs or on all of them in another order.
type Rows struct {
	// Permuted: all rows in another order; else a part of them, in order.
	Permuted bool
	Dim      string // name of the batch dimension
	Axis     int    // its axis in the output
	From     []int  // row i of the other run is row From[i] of the first
	Output   *tensor.Tensor
}

// checkBatch is batch_invariant.
func checkBatch(_ Invariant, c *Context) Result { return checkRows(c, false) }

// checkPermutation is permutation_equivariant.
func checkPermutation(_ Invariant, c *Context) Result { return checkRows(c, true) }

func checkRows(c *Context, permuted bool) Result {
	if c.Output == nil {
		return notApplicable("there is no output")
	}
	compared := false
	for i := range c.Rows {
		if c.Rows[i].Permuted != permuted {
			continue
		}
		compared = true
		if r := c.Rows[i].compare(c.Output); r.Outcome != Holds {
			return r
		}
	}
	switch {
	case compared:
		return holds()
	case c.NoRows != "":
		return notApplicable("%s", c.NoRows)
	}
	return notApplicable("there is no run of other rows to compare with")
}

// compare compares each row of the other run with the same row of the first, bit for bit. NaN equals NaN: its payload
// is no result.
func (r *Rows) compare(first *tensor.Tensor) Result {
	want, err := first.Rows(r.Axis, r.From)
	switch {
	case err != nil:
		return notApplicable("the output has no rows along %s: %v", r.Dim, err)
	case want.DType != r.Output.DType || !want.Shape.Equal(r.Output.Shape):
		return violated(nil, "the output of %s is %s %s, want %s %s", r.batch(), r.Output.DType, r.Output.Shape,
			want.DType, want.Shape)
	}
	x, y := want.Bytes(), r.Output.Bytes()
	if bytes.Equal(x, y) {
		return holds()
	}
	size, at, n := want.DType.Size(), -1, 0
	for i := range want.Elems() {
		p, q := want.DType.Load(x[i*size:]), want.DType.Load(y[i*size:])
		if p == q || isNaN(want.DType.Float64(p)) && isNaN(want.DType.Float64(q)) {
			continue
		}
		if n++; at < 0 {
			at = i
		}
	}
	if n == 0 {
		return holds()
	}
	here := want.Shape.Unravel(at)
	index := append([]int(nil), here...)
	index[r.Axis] = r.From[here[r.Axis]]
	return violated(index, "row %d of %s depends on the rows beside it: %d of %d elements of %s differ, the first at %v: "+
		"%s in the batch of %d, %s in it", index[r.Axis], r.Dim, n, want.Elems(), r.batch(), index, show(first, index),
		first.Shape[r.Axis], show(r.Output, here))
}

// batch describes the other run.
func (r *Rows) batch() string {
	switch {
	case r.Permuted:
		return fmt.Sprintf("the same rows in the order %s", list(r.From))
	case len(r.From) == 1:
		return fmt.Sprintf("row %d alone", r.From[0])
	}
	return fmt.Sprintf("a batch of rows %d to %d", r.From[0], r.From[len(r.From)-1])
}

// list writes the first few numbers.
func list(rows []int) string {
	const most = 8
	if len(rows) > most {
		text := fmt.Sprint(rows[:most])
		return text[:len(text)-1] + " …]"
	}
	return fmt.Sprint(rows)
}

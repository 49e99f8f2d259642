package tensor

import (
	"fmt"
	"slices"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// TestRows: rows of every axis, order and layout are those of the tensor; contiguous tensors stay contiguous, others
// keep their strides; the original does not change.
func TestRows(t *testing.T) {
	shape := MustShape(3, 4, 5)
	for _, l := range Layouts() {
		if !l.Supports(shape) {
			continue
		}
		x, err := Allocate(dtype.Int16, shape, l, LayoutParams{})
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float64, shape.Elems())
		for i := range values {
			values[i] = float64(i)
		}
		x.SetFloat64s(values)
		before := slices.Clone(x.Data)
		for axis := range shape {
			for _, rows := range [][]int{{0}, {2}, {1, 0}, {2, 0, 1}, {}} {
				got, err := x.Rows(axis, rows)
				if err != nil {
					t.Fatalf("%s: Rows(%d, %v): %v", l, axis, rows, err)
				}
				if got.Shape[axis] != len(rows) || x.IsContiguous() && !got.IsContiguous() ||
					!x.IsContiguous() && !slices.Equal(got.Strides, x.Strides) {
					t.Errorf("%s: Rows(%d, %v) has shape %s, strides %v", l, axis, rows, got.Shape, got.Strides)
				}
				for i := range got.Elems() {
					here := got.Shape.Unravel(i)
					there := slices.Clone(here)
					there[axis] = rows[here[axis]]
					if got.At(here...) != x.At(there...) {
						t.Fatalf("%s: Rows(%d, %v) has %v at %v, want %v", l, axis, rows, got.At(here...), here, x.At(there...))
					}
				}
			}
		}
		if !slices.Equal(before, x.Data) {
			t.Errorf("%s: Rows changes the tensor", l)
		}
		for _, bad := range []struct {
			axis int
			rows []int
		}{{3, nil}, {-1, nil}, {0, []int{3}}, {1, []int{-1}}} {
			if _, err := x.Rows(bad.axis, bad.rows); diag.CodeOf(err) != BadView {
				t.Errorf("%s: Rows(%s) = %v, want code %s", l, fmt.Sprint(bad), err, BadView)
			}
		}
	}
}

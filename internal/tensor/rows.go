// This file implements the choice of rows along an axis.

package tensor

import (
	"slices"

	"gpuemu/internal/diag"
)

// Rows returns a copy of t with the given rows along an axis, in that order. A contiguous tensor stays contiguous; any
// other keeps its strides and its offset, so that code which is told strides takes the same way through it.
func (t *Tensor) Rows(axis int, rows []int) (*Tensor, error) {
	if axis < 0 || axis >= len(t.Shape) {
		return nil, diag.Errorf(BadView, "", "rows along axis %d of a tensor of rank %d", axis, len(t.Shape))
	}
	shape := slices.Clone(t.Shape)
	shape[axis] = len(rows)
	inner := t.DType.Size()
	for _, n := range t.Shape[axis+1:] {
		inner *= n
	}
	whole := inner * t.Shape[axis]
	raw := t.Bytes()
	out := make([]byte, 0, shape.Elems()*t.DType.Size())
	for begin := 0; begin < len(raw); begin += whole {
		for _, r := range rows {
			if r < 0 || r >= t.Shape[axis] {
				return nil, diag.Errorf(BadView, "", "row %d along axis %d of a tensor of shape %s", r, axis, t.Shape)
			}
			out = append(out, raw[begin+r*inner:begin+(r+1)*inner]...)
		}
	}
	if t.IsContiguous() {
		return FromBytes(t.DType, shape, out)
	}
	view, err := FromStorage(t.DType, shape, slices.Clone(t.Strides), t.Offset, slices.Clone(t.Data))
	if err != nil {
		return nil, err
	}
	view.SetBytes(out)
	return view, nil
}

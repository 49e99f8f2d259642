package tensor

// This file implements views: tensors that share the storage of another one.

import (
	"gpuemu/internal/diag"
)

// view returns a tensor over the same storage.
func (t *Tensor) view(s Shape, strides []int, offset int) *Tensor {
	return &Tensor{DType: t.DType, Shape: s, Strides: strides, Offset: offset, Data: t.Data}
}

// Transpose returns the view whose axis i is axis perm[i] of t. Without arguments all axes are reversed.
func (t *Tensor) Transpose(perm ...int) (*Tensor, error) {
	rank := len(t.Shape)
	if len(perm) == 0 {
		perm = make([]int, rank)
		for i := range perm {
			perm[i] = rank - 1 - i
		}
	}
	if err := checkPerm(perm, rank); err != nil {
		return nil, err
	}
	s, strides := make(Shape, rank), make([]int, rank)
	for i, a := range perm {
		s[i], strides[i] = t.Shape[a], t.Strides[a]
	}
	return t.view(s, strides, t.Offset), nil
}

// checkPerm reports an error unless perm holds each of 0 to rank-1 once.
func checkPerm(perm []int, rank int) error {
	ok := len(perm) == rank
	seen := make([]bool, rank)
	for _, a := range perm {
		if a < 0 || a >= rank || seen[a] {
			ok = false
			break
		}
		seen[a] = true
	}
	if !ok {
		return diag.Errorf(BadView, "name every axis once", "%s is not a permutation of %d axes",
			formatDims(perm), rank)
	}
	return nil
}

// Slice returns the view of the indices lo, lo+step, lo+2*step ... along one axis: those below hi when step is
// positive, those above hi when it is negative, so that Slice(axis, n-1, -1, -1) reverses an axis of size n.
// Indices do not wrap: 0 <= lo <= hi <= n, or n > lo >= hi >= -1 for a negative step.
func (t *Tensor) Slice(axis, lo, hi, step int) (*Tensor, error) {
	if axis < 0 || axis >= len(t.Shape) {
		return nil, diag.Errorf(BadView, "name an axis of the shape", "axis %d is outside shape %s", axis, t.Shape)
	}
	n := t.Shape[axis]
	var count int
	switch {
	case step > 0 && 0 <= lo && lo <= hi && hi <= n:
		if lo < hi {
			count = (hi-lo-1)/step + 1
		}
	case step < 0 && n > lo && lo >= hi && hi >= -1:
		if lo > hi {
			count = (lo-hi-1)/-step + 1 // also right where -step overflows: the quotient is 0
		}
	case step == 0:
		return nil, diag.Errorf(BadView, "use a step of 1 or more, or -1 or less", "step of a slice is 0")
	default:
		return nil, diag.Errorf(BadView, "indices do not wrap around; a negative step runs from lo down to above hi",
			"slice %d to %d step %d is outside axis %d of size %d", lo, hi, step, axis, n)
	}
	s, strides := append(Shape{}, t.Shape...), append([]int{}, t.Strides...)
	s[axis] = count
	strides[axis] *= step
	offset := t.Offset
	if s.Elems() > 0 { // an empty view keeps an offset that lies in the storage
		offset += lo * t.Strides[axis]
	}
	return t.view(s, strides, offset), nil
}

// Expand returns the view of shape s in which axes of size 1 are repeated with stride 0 and axes are added in
// front, as NumPy and PyTorch broadcast.
func (t *Tensor) Expand(s Shape) (*Tensor, error) {
	if err := t.checkTarget(s); err != nil {
		return nil, err
	}
	extra := len(s) - len(t.Shape)
	if extra < 0 {
		return nil, diag.Errorf(BadView, "give at least as many dimensions",
			"shape %s does not expand to shape %s of lower rank", t.Shape, s)
	}
	strides := make([]int, len(s))
	for i, d := range t.Shape {
		switch want := s[extra+i]; {
		case d == want:
			strides[extra+i] = t.Strides[i]
		case d != 1:
			return nil, diag.Errorf(BadView, "only dimensions of size 1 expand",
				"shape %s does not expand to shape %s: dimension %d is %d, want 1 or %d", t.Shape, s, i, d, want)
		}
	}
	return t.view(append(Shape{}, s...), strides, t.Offset), nil
}

// checkTarget checks a shape handed to a view.
func (t *Tensor) checkTarget(s Shape) error {
	if _, err := ParseShape(s); err != nil {
		return err
	}
	return s.CheckBytes(t.DType)
}

// Reshape returns a view of shape s with the elements in the same logical order. It never copies: where the
// strides do not allow a view the error has code ReshapeCopies, and Contiguous().Reshape does it with a copy.
func (t *Tensor) Reshape(s Shape) (*Tensor, error) {
	if err := t.checkTarget(s); err != nil {
		return nil, err
	}
	if s.Elems() != t.Elems() {
		return nil, diag.Errorf(BadView, "keep the number of elements",
			"shape %s of %d elements does not reshape to %s of %d", t.Shape, t.Elems(), s, s.Elems())
	}
	strides := s.Strides()
	if t.Elems() > 1 && !reshapeStrides(strides, s, t) {
		return nil, diag.Errorf(ReshapeCopies, "make it contiguous first",
			"shape %s with strides %s does not reshape to %s without a copy", t.Shape, formatDims(t.Strides), s)
	}
	return t.view(append(Shape{}, s...), strides, t.Offset), nil
}

// reshapeStrides sets strides for viewing t as shape s and reports whether that is possible. Axes of t that
// follow each other without a gap form runs; each run must be covered by whole axes of s. Both shapes have the
// same number of elements, and more than one.
func reshapeStrides(strides []int, s Shape, t *Tensor) bool {
	runs := coalesce(t.Shape, t.Strides, t.Strides, 1)
	k := len(s) - 1
	for r := len(runs) - 1; r >= 0; r-- {
		n := 1
		for k >= 0 && n < runs[r].n {
			strides[k] = n * runs[r].src
			n *= s[k]
			k--
		}
		if n != runs[r].n {
			return false
		}
	}
	return true
}

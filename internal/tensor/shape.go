package tensor

// This file implements shapes: the limits of what may come from outside, and row-major strides.

import (
	"slices"
	"strconv"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

const (
	// MaxRank is the largest number of dimensions. Operators of the catalogue need five at most; kernels and
	// frameworks pass shapes in small fixed arrays, where eight is the usual room.
	MaxRank = 8
	// MaxElems is the largest number of elements of a tensor: what a signed 32-bit index can just not address,
	// so that kernels with 32-bit indices can still be tested at their limit.
	MaxElems = 1 << 31
	// MaxBytes is the largest storage of one tensor in bytes (8 GiB), gaps included.
	MaxBytes = 1 << 33
)

// Shape is the size of a tensor along each axis, outermost first. The empty shape is a scalar with one element;
// a dimension of 0 makes an empty tensor. A Shape from outside comes from ParseShape and nowhere else.
type Shape []int

// ParseShape makes a Shape from dimensions that come from outside. It is the one place where they are checked:
// at most MaxRank dimensions, none negative, and at most MaxElems elements. A dimension of 0 counts as 1 for the
// last rule, so that the strides of an empty tensor cannot overflow either. The error names the dimension.
func ParseShape[T int | int64](dims []T) (Shape, error) {
	if len(dims) > MaxRank {
		return nil, diag.Errorf(ShapeRank, "merge dimensions before testing",
			"shape has %d dimensions, the limit is %d", len(dims), MaxRank)
	}
	s := make(Shape, len(dims))
	elems := int64(1)
	for i, d := range dims {
		if d < 0 {
			return nil, diag.Errorf(ShapeDim, "a dimension is 0 or more",
				"dimension %d of shape %s is negative: %d", i, formatDims(dims), d)
		}
		if n := max(int64(d), 1); n > MaxElems/elems {
			return nil, diag.Errorf(ShapeLimit, "use a smaller shape",
				"dimension %d of shape %s is %d: the shape passes the limit of %d elements",
				i, formatDims(dims), d, int64(MaxElems))
		} else {
			elems *= n
		}
		s[i] = int(d)
	}
	return s, nil
}

// MustShape is ParseShape for literals in code; it panics where ParseShape fails.
func MustShape(dims ...int) Shape {
	s, err := ParseShape(dims)
	if err != nil {
		panic("tensor: internal error: MustShape: " + err.Error())
	}
	return s
}

// Elems returns the number of elements: 1 for a scalar, 0 when any dimension is 0.
func (s Shape) Elems() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Equal reports whether both shapes have the same dimensions.
func (s Shape) Equal(o Shape) bool { return slices.Equal(s, o) }

// String returns the shape as in [4,16,257]; a scalar is [].
func (s Shape) String() string { return formatDims(s) }

// Strides returns the row-major strides in elements. Dimensions of 0 count as 1, as in NumPy and PyTorch.
func (s Shape) Strides() []int {
	st := make([]int, len(s))
	n := 1
	for i := len(s) - 1; i >= 0; i-- {
		st[i] = n
		n *= max(s[i], 1)
	}
	return st
}

// Unravel returns the index tuple of position i in row-major order. The shape has no dimension of 0.
func (s Shape) Unravel(i int) []int {
	idx := make([]int, len(s))
	for k := len(s) - 1; k >= 0; k-- {
		idx[k] = i % s[k]
		i /= s[k]
	}
	return idx
}

// CheckBytes reports an error when a dense tensor of this shape and dtype is larger than MaxBytes, or the dtype
// is not a real one. FromBytes, FromStorage and Allocate check it themselves; New does not return an error.
func (s Shape) CheckBytes(d dtype.DType) error {
	if !knownDType(d) {
		return diag.Errorf(BadDType, "name one of the supported dtypes", "dtype is not set")
	}
	if int64(s.Elems()) > MaxBytes/int64(d.Size()) {
		return diag.Errorf(ByteLimit, "use a smaller shape or a narrower dtype",
			"shape %s of %s needs more than the limit of %d bytes", s, d, int64(MaxBytes))
	}
	return nil
}

// knownDType reports whether d has a size, so that a zero or made-up dtype is an error and not a division by zero.
func knownDType(d dtype.DType) bool { return d >= dtype.Float64 && d <= dtype.Bool }

func formatDims[T int | int64](dims []T) string {
	b := []byte{'['}
	for i, d := range dims {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(d), 10)
	}
	return string(append(b, ']'))
}

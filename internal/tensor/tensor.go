// Package tensor holds n-dimensional arrays of any dtype in any strided layout, with views that do not copy and
// the two file formats tensors travel in (safetensors and .npy).
//
// The package moves bytes and counts elements; it does no arithmetic on values. The main type is Tensor. Shapes
// and containers from outside are checked once, in ParseShape, FromBytes, FromStorage, ParseSafetensors and
// ParseNPY; behind these every element that shape, strides and offset can reach lies inside Data.
package tensor

// This file implements the tensor itself: construction, bounds, and access to its values in logical order.

import (
	"fmt"
	"math/bits"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// Tensor is a view of a storage: element (i0, i1, ...) lies at element Offset + i0*Strides[0] + i1*Strides[1] ...
// of Data, little-endian. Strides are in elements and may be 0 (one element seen many times) or negative.
// Views share Data. A Tensor is not safe for use by several goroutines while one of them writes.
type Tensor struct {
	DType   dtype.DType
	Shape   Shape
	Strides []int
	Offset  int
	Data    []byte
}

// New returns a dense tensor of zeros. The shape is one that was checked; New panics when shape and dtype need
// more than MaxBytes, so a caller whose shape comes from outside asks Shape.CheckBytes first or uses Allocate.
func New(d dtype.DType, s Shape) *Tensor {
	if err := s.CheckBytes(d); err != nil {
		panic("tensor: internal error: New: " + err.Error())
	}
	return dense(d, s, make([]byte, s.Elems()*d.Size()))
}

func dense(d dtype.DType, s Shape, data []byte) *Tensor {
	return &Tensor{DType: d, Shape: append(Shape{}, s...), Strides: s.Strides(), Data: data}
}

// FromBytes returns a dense tensor over data, which it keeps. The length must match shape and dtype exactly.
func FromBytes(d dtype.DType, s Shape, data []byte) (*Tensor, error) {
	if _, err := ParseShape(s); err != nil {
		return nil, err
	}
	if err := s.CheckBytes(d); err != nil {
		return nil, err
	}
	if want := s.Elems() * d.Size(); len(data) != want {
		return nil, diag.Errorf(DataLength, "check shape and dtype against the data",
			"%s of shape %s needs %d bytes, got %d", d, s, want, len(data))
	}
	return dense(d, s, data), nil
}

// FromStorage returns a tensor with the given strides and offset (in elements) over data, which it keeps. It
// proves that every element lies inside data; an empty tensor reaches none, and only its offset is checked.
func FromStorage(d dtype.DType, s Shape, strides []int, offset int, data []byte) (*Tensor, error) {
	if _, err := ParseShape(s); err != nil {
		return nil, err
	}
	if err := s.CheckBytes(d); err != nil {
		return nil, err
	}
	if int64(len(data)) > MaxBytes {
		return nil, diag.Errorf(ByteLimit, "pass only the storage of this tensor",
			"storage has %d bytes, the limit is %d", len(data), int64(MaxBytes))
	}
	if len(data)%d.Size() != 0 {
		return nil, diag.Errorf(DataLength, "pass whole elements",
			"storage of %d bytes is not a multiple of the %d bytes of %s", len(data), d.Size(), d)
	}
	if len(strides) != len(s) {
		return nil, diag.Errorf(StorageBounds, "give one stride per dimension",
			"shape %s has %d dimensions, got %d strides", s, len(s), len(strides))
	}
	if err := checkBounds(s, strides, offset, len(data)/d.Size()); err != nil {
		return nil, err
	}
	return &Tensor{DType: d, Shape: append(Shape{}, s...), Strides: append([]int{}, strides...),
		Offset: offset, Data: data}, nil
}

// checkBounds proves that every element of the view lies in [0, n). Lowest and highest reachable index are
// followed axis by axis; as both only move outwards, they can be checked after each step, and what passes is
// below MaxBytes, so that only the product stride*(dim-1) can overflow. It is formed in 128 bits.
func checkBounds(s Shape, strides []int, offset, n int) error {
	if offset < 0 || offset > n {
		return diag.Errorf(StorageBounds, "check offset and storage length",
			"offset %d is outside the storage of %d elements", offset, n)
	}
	if s.Elems() == 0 {
		return nil
	}
	if offset == n {
		return diag.Errorf(StorageBounds, "check offset and storage length",
			"offset %d is outside the storage of %d elements", offset, n)
	}
	lo, hi := uint64(offset), uint64(offset)
	for i, d := range s {
		st := strides[i]
		mag := uint64(st)
		if st < 0 {
			mag = -mag
		}
		over, reach := bits.Mul64(mag, uint64(d-1))
		switch {
		case st < 0 && (over != 0 || reach > lo):
			return diag.Errorf(StorageBounds, "check strides and offset",
				"dimension %d (size %d, stride %d) reaches in front of the storage", i, d, st)
		case st < 0:
			lo -= reach
		case over != 0 || reach >= uint64(n)-hi:
			return diag.Errorf(StorageBounds, "check strides, offset and storage length",
				"dimension %d (size %d, stride %d) reaches past the storage of %d elements", i, d, st, n)
		default:
			hi += reach
		}
	}
	return nil
}

// FromFloat64s returns a dense tensor of vals rounded to d. It panics when the number of values is not that of
// the shape.
func FromFloat64s(d dtype.DType, s Shape, vals []float64) *Tensor {
	t := New(d, s)
	t.SetFloat64s(vals)
	return t
}

// Elems returns the number of elements of the view.
func (t *Tensor) Elems() int { return t.Shape.Elems() }

// IsContiguous reports whether the elements lie in row-major order without gaps, wherever in Data they begin.
// Strides of dimensions of size 1 do not matter; an empty tensor is contiguous.
func (t *Tensor) IsContiguous() bool {
	n := 1
	for i := len(t.Shape) - 1; i >= 0; i-- {
		switch d := t.Shape[i]; {
		case d == 0:
			return true
		case d > 1 && t.Strides[i] != n:
			return t.Elems() == 0
		default:
			n *= d
		}
	}
	return true
}

// Contiguous returns t itself when it is contiguous, else a dense copy.
func (t *Tensor) Contiguous() *Tensor {
	if t.IsContiguous() {
		return t
	}
	return dense(t.DType, t.Shape, t.Bytes())
}

// Clone returns a dense copy that shares nothing with t.
func (t *Tensor) Clone() *Tensor {
	return dense(t.DType, t.Shape, append([]byte{}, t.Bytes()...))
}

// Bytes returns the elements in logical row-major order. The slice aliases Data when t is contiguous.
func (t *Tensor) Bytes() []byte {
	size := t.DType.Size()
	n := t.Elems() * size
	if n == 0 {
		return []byte{}
	}
	if t.IsContiguous() {
		lo := t.Offset * size
		return t.Data[lo : lo+n : lo+n]
	}
	out := make([]byte, n)
	copyStrided(side{out, 0, t.Shape.Strides()}, side{t.Data, t.Offset, t.Strides}, t.Shape, size)
	return out
}

// SetBytes writes elements given in logical row-major order into the storage; gaps stay as they are. Along an
// axis of stride 0 only slice 0 is written: the storage has room for one, and the others then read as equal to
// it. Where other strides make elements share storage, one of them wins and it is not said which.
// It panics when the length is not that of shape and dtype.
func (t *Tensor) SetBytes(logical []byte) {
	size := t.DType.Size()
	if len(logical) != t.Elems()*size {
		panic(fmt.Sprintf("tensor: internal error: SetBytes of %d bytes on %s of shape %s",
			len(logical), t.DType, t.Shape))
	}
	if len(logical) == 0 {
		return
	}
	if t.IsContiguous() {
		copy(t.Data[t.Offset*size:], logical)
		return
	}
	copyStrided(side{t.Data, t.Offset, t.Strides}, side{logical, 0, t.Shape.Strides()}, t.distinct(), size)
}

// distinct returns the shape with every axis of stride 0 cut to its slice 0, which holds all there is. The
// tensor is not empty.
func (t *Tensor) distinct() Shape {
	s := append(Shape{}, t.Shape...)
	for i, st := range t.Strides {
		if st == 0 {
			s[i] = 1
		}
	}
	return s
}

// Float64s returns the elements in logical row-major order as float64: exact but for 64-bit integers, which
// are rounded to nearest.
func (t *Tensor) Float64s() []float64 {
	out := make([]float64, t.Elems())
	dtype.Decode(out, t.DType, t.Bytes())
	return out
}

// SetFloat64s rounds vals to the dtype (dtype.Encode) and writes them as SetBytes does.
func (t *Tensor) SetFloat64s(vals []float64) {
	if len(vals) != t.Elems() {
		panic(fmt.Sprintf("tensor: internal error: %d values for shape %s", len(vals), t.Shape))
	}
	if t.IsContiguous() {
		dtype.Encode(t.Bytes(), t.DType, vals)
		return
	}
	b := make([]byte, len(vals)*t.DType.Size())
	dtype.Encode(b, t.DType, vals)
	t.SetBytes(b)
}

// Index returns the element index into Data of the element at idx. Like a slice index it panics when idx does
// not fit the shape.
func (t *Tensor) Index(idx ...int) int {
	if len(idx) != len(t.Shape) {
		panic(fmt.Sprintf("tensor: index %v has %d dimensions, shape %s", idx, len(idx), t.Shape))
	}
	at := t.Offset
	for i, x := range idx {
		if x < 0 || x >= t.Shape[i] {
			panic(fmt.Sprintf("tensor: index %v out of range for shape %s", idx, t.Shape))
		}
		at += x * t.Strides[i]
	}
	return at
}

// Bits returns the bit pattern of one element; it panics as Index does.
func (t *Tensor) Bits(idx ...int) uint64 {
	return t.DType.Load(t.Data[t.Index(idx...)*t.DType.Size():])
}

// At returns one element as float64; it panics as Index does. For bulk work use Float64s.
func (t *Tensor) At(idx ...int) float64 { return t.DType.Float64(t.Bits(idx...)) }

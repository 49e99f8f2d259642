package tensor

import (
	"encoding/binary"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// This file implements layouts: ways in which a tensor of a given shape can lie in its storage.

// Layout names a family of strides. The zero value means "not set".
type Layout uint8

// The layouts, as a framework hands them to a kernel.
const (
	LayoutInvalid Layout = iota
	Contiguous           // row-major, no gaps, offset 0
	Strided              // every (Gap+1)-th index of a larger base along Axis: x[::2]
	Transposed           // row-major storage of the permuted shape: x.mT
	ChannelsLast         // N, spatial..., C in storage for a shape N, C, spatial...
	Broadcast            // stride 0 along Axis: x.expand
	Sliced               // a range of a larger base along Axis, with Lead indices before it: x[1:]
)

var layoutNames = [...]string{"invalid", "contiguous", "strided", "transposed", "channels_last", "broadcast", "sliced"}

// Layouts returns every layout, Contiguous first.
func Layouts() []Layout {
	return []Layout{Contiguous, Strided, Transposed, ChannelsLast, Broadcast, Sliced}
}

// ParseLayout returns the layout of that name, as String prints it.
func ParseLayout(name string) (Layout, error) {
	for l, n := range layoutNames {
		if n == name && Layout(l) != LayoutInvalid {
			return Layout(l), nil
		}
	}
	return LayoutInvalid, diag.Errorf(BadLayout,
		"use contiguous, strided, transposed, channels_last, broadcast or sliced", "unknown layout %q", name)
}

// String returns the name of the layout; "invalid" when it is not set.
func (l Layout) String() string {
	if int(l) < len(layoutNames) {
		return layoutNames[l]
	}
	return layoutNames[LayoutInvalid]
}

// Supports reports whether the layout exists for the shape: ChannelsLast needs rank 3 to 5, Transposed rank 2,
// Strided, Broadcast and Sliced need an axis. Allocate succeeds for what it accepts, byte limit apart.
func (l Layout) Supports(s Shape) bool {
	switch l {
	case Contiguous:
		return true
	case Strided, Broadcast, Sliced:
		return len(s) >= 1
	case Transposed:
		return len(s) >= 2
	case ChannelsLast:
		return len(s) >= 3 && len(s) <= 5
	}
	return false
}

// LayoutParams are the free choices of a layout. The zero value is the smallest choice that makes the layout
// what its name says.
type LayoutParams struct {
	Gap  int // Strided: unused indices after each used one along Axis; 0 means 1
	Lead int // unused elements before the first one; Sliced: unused indices of the base along Axis, 0 means 1
	Tail int // unused elements after the last one; Sliced: unused indices of the base along Axis
	Axis int // Strided, Broadcast, Sliced: the axis; negative values count from the end, -1 is the last
	// Perm is for Transposed: axis i of the storage, outermost first, is axis Perm[i] of the tensor. Nil swaps the
	// last two axes.
	Perm []int
}

// Poison returns the bit pattern that fills gaps, lead and tail of a storage: a quiet NaN with a payload that
// is easy to recognise in a dump for floats, bytes of 0xA5 for integers and bool. A kernel that ignores strides
// or offset reads it and shows it.
func Poison(d dtype.DType) uint64 {
	switch d {
	case dtype.Float64:
		return 0x7ffca5a5a5a5a5a5
	case dtype.Float32:
		return 0x7fe5a5a5
	case dtype.Float16:
		return 0x7ea5
	case dtype.BFloat16:
		return 0x7fe5
	case dtype.Float8E4M3FN, dtype.Float8E5M2:
		return 0x7f // E4M3FN has no other NaN but its negative
	}
	return 0xa5a5a5a5a5a5a5a5 >> (64 - 8*d.Size())
}

// Allocate returns a tensor of the shape whose storage really has the layout. Elements are zero; every storage
// element that no index reaches holds Poison. A Contiguous tensor has no such element and takes no parameters.
func Allocate(d dtype.DType, s Shape, l Layout, p LayoutParams) (*Tensor, error) {
	_, view, err := AllocateFill(d, s, l, p)
	return view, err
}

// AllocateFill is Allocate for a caller that fills the tensor: it returns the tensor to write and the view to
// hand on. Both are the same but for Broadcast, where fill has size 1 along the broadcast axis (0 when the axis
// is empty) and view is fill expanded: writing fill gives each distinct element once.
func AllocateFill(d dtype.DType, s Shape, l Layout, p LayoutParams) (fill, view *Tensor, err error) {
	if _, err := parseInts(s); err != nil {
		return nil, nil, err
	}
	if err := s.CheckBytes(d); err != nil {
		return nil, nil, err
	}
	if !l.Supports(s) {
		return nil, nil, diag.Errorf(LayoutUnsupported, "use layout contiguous for this shape",
			"layout %s does not exist for shape %s of rank %d", l, s, len(s))
	}
	if l != Contiguous {
		return nil, nil, diag.Errorf(LayoutUnsupported, "use layout contiguous", "layout %s is not there yet", l)
	}
	t := New(d, s)
	return t, t, nil
}

// fillPoison fills b with the poison of d.
func fillPoison(b []byte, d dtype.DType) {
	size := d.Size()
	if len(b) < size {
		return
	}
	var one [8]byte
	binary.LittleEndian.PutUint64(one[:], Poison(d))
	n := copy(b, one[:size])
	for n < len(b) {
		n += copy(b[n:], b[:n]) // doubling keeps this at memory speed
	}
}

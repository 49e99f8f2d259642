package tensor

// This file implements layouts: ways in which a tensor of a given shape can lie in its storage.

import (
	"encoding/binary"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

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
// is empty) and view is fill expanded, so that writing fill gives each distinct element once.
func AllocateFill(d dtype.DType, s Shape, l Layout, p LayoutParams) (fill, view *Tensor, err error) {
	if _, err := ParseShape(s); err != nil {
		return nil, nil, err
	}
	if err := s.CheckBytes(d); err != nil {
		return nil, nil, err
	}
	if !l.Supports(s) {
		return nil, nil, diag.Errorf(LayoutUnsupported, "use layout contiguous for this shape",
			"layout %s does not exist for shape %s of rank %d", l, s, len(s))
	}
	if err := p.check(l, len(s)); err != nil {
		return nil, nil, err
	}
	fillShape := s
	if l == Broadcast {
		fillShape = append(Shape{}, s...)
		fillShape[p.axis(len(s))] = min(1, s[p.axis(len(s))])
	}
	g, err := p.place(fillShape, l)
	if err != nil {
		return nil, nil, err
	}
	if g.elems > MaxBytes/int64(d.Size()) {
		return nil, nil, diag.Errorf(ByteLimit, "use a smaller shape, gap, lead or tail",
			"the storage of %s of shape %s in layout %s needs more than the limit of %d bytes",
			d, s, l, int64(MaxBytes))
	}
	fill = &Tensor{DType: d, Shape: append(Shape{}, fillShape...), Strides: g.strides, Offset: g.offset,
		Data: make([]byte, int(g.elems)*d.Size())}
	if g.elems != int64(fill.Elems()) {
		fillPoison(fill.Data, d)
		fill.zero()
	}
	if l != Broadcast {
		return fill, fill, nil
	}
	view, err = fill.Expand(s)
	return fill, view, err
}

// geometry is where a layout puts the elements of a shape, in elements of a storage of elems elements.
type geometry struct {
	strides []int
	offset  int
	elems   int64
}

// check reports parameters out of range. The upper limit keeps all later sums and products far inside 64 bits.
func (p LayoutParams) check(l Layout, rank int) error {
	for _, f := range []struct {
		name  string
		value int
	}{{"gap", p.Gap}, {"lead", p.Lead}, {"tail", p.Tail}} {
		if f.value < 0 || f.value >= MaxElems {
			return diag.Errorf(LayoutParam, "use a small positive number",
				"%s %d of layout %s is outside 0 to %d", f.name, f.value, l, int64(MaxElems)-1)
		}
	}
	if rank > 0 && (p.Axis < -rank || p.Axis >= rank) {
		return diag.Errorf(LayoutParam, "name an axis of the shape",
			"axis %d of layout %s is outside %d to %d", p.Axis, l, -rank, rank-1)
	}
	if l == Transposed && p.Perm != nil {
		return checkPerm(p.Perm, rank)
	}
	return nil
}

// axis returns Axis counted from the front.
func (p LayoutParams) axis(rank int) int {
	if p.Axis < 0 {
		return p.Axis + rank
	}
	return p.Axis
}

// place computes the geometry; p has been checked.
func (p LayoutParams) place(s Shape, l Layout) (geometry, error) {
	base := append(Shape{}, s...)
	lead, tail := p.Lead, p.Tail
	switch l {
	case Contiguous:
		return geometry{strides: s.Strides(), elems: int64(s.Elems())}, nil
	case Broadcast:
		return geometry{s.Strides(), lead, int64(lead) + int64(s.Elems()) + int64(tail)}, nil
	case Transposed, ChannelsLast:
		return geometry{permuted(s, p.perm(l, len(s))), lead, int64(lead) + int64(s.Elems()) + int64(tail)}, nil
	}
	a := p.axis(len(s))
	step := 1
	if l == Strided {
		step = max(p.Gap, 1) + 1
		base[a] *= step
	} else {
		lead = max(lead, 1)
		base[a] += lead + tail
	}
	if _, err := ParseShape(base); err != nil {
		return geometry{}, diag.Errorf(ShapeLimit, "use a smaller shape, gap, lead or tail",
			"layout %s of shape %s needs a base of shape %s, past the limit of %d elements", l, s, base, int64(MaxElems))
	}
	st := base.Strides()
	if l == Strided {
		st[a] *= step
		return geometry{st, lead, int64(lead) + int64(base.Elems()) + int64(tail)}, nil
	}
	// With another dimension of 0 the base is empty, and so is what can be skipped.
	return geometry{st, min(lead*st[a], base.Elems()), int64(base.Elems())}, nil
}

// perm returns the axes in storage order, outermost first.
func (p LayoutParams) perm(l Layout, rank int) []int {
	if l == Transposed && p.Perm != nil {
		return p.Perm
	}
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = i
	}
	if l == Transposed {
		perm[rank-1], perm[rank-2] = rank-2, rank-1
		return perm
	}
	copy(perm[1:], perm[2:]) // channels_last: axis 1, the channels, moves to the end
	perm[rank-1] = 1
	return perm
}

// permuted returns the strides of a shape stored densely in the axis order perm.
func permuted(s Shape, perm []int) []int {
	stored := make(Shape, len(s))
	for i, a := range perm {
		stored[i] = s[a]
	}
	strides := make([]int, len(s))
	for i, st := range stored.Strides() {
		strides[perm[i]] = st
	}
	return strides
}

// zero sets every element, and nothing between them, to zero bits.
func (t *Tensor) zero() {
	if t.Elems() == 0 {
		return
	}
	var none [8]byte
	copyStrided(side{t.Data, t.Offset, t.Strides}, side{none[:], 0, make([]int, len(t.Shape))},
		t.distinct(), t.DType.Size())
}

// fillPoison fills b with the poison of d.
func fillPoison(b []byte, d dtype.DType) {
	if len(b) == 0 {
		return
	}
	var one [8]byte
	binary.LittleEndian.PutUint64(one[:], Poison(d))
	repeat(b, one[:d.Size()])
}

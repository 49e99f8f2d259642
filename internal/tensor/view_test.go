package tensor

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// counting returns an int32 tensor with the values 0, 1, 2 ...
func counting(s Shape) *Tensor {
	vals := make([]float64, s.Elems())
	for i := range vals {
		vals[i] = float64(i)
	}
	return FromFloat64s(dtype.Int32, s, vals)
}

func TestTranspose(t *testing.T) {
	x := counting(MustShape(2, 3, 4))
	for _, perm := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}} {
		y, err := x.Transpose(perm...)
		if err != nil {
			t.Fatal(err)
		}
		for n := range y.Elems() {
			idx := unravel(y.Shape, n)
			src := make([]int, 3)
			for i, a := range perm {
				src[a] = idx[i]
			}
			if got, want := y.At(idx...), x.At(src...); got != want {
				t.Errorf("Transpose(%v).At(%v) = %v, want %v", perm, idx, got, want)
			}
		}
		if &y.Data[0] != &x.Data[0] {
			t.Errorf("Transpose(%v) copies", perm)
		}
	}
	y, err := x.Transpose()
	if err != nil || !y.Shape.Equal(Shape{4, 3, 2}) {
		t.Errorf("Transpose() = %v, %v, want [4,3,2]", y.Shape, err)
	}
	if s, err := New(dtype.Int8, MustShape()).Transpose(); err != nil || s.Elems() != 1 {
		t.Errorf("Transpose() of a scalar = %v", err)
	}
	for _, perm := range [][]int{{0, 1}, {0, 1, 1}, {0, 1, 3}, {-1, 0, 1}, {0, 1, 2, 3}} {
		_, err := x.Transpose(perm...)
		checkError(t, "Transpose", err, formatDims(perm)+" is not a permutation of 3 axes [tensor-view]",
			"name every axis once")
	}
}

func TestSlice(t *testing.T) {
	x := counting(MustShape(5))
	for _, tt := range []struct {
		lo, hi, step int
		want         []float64
	}{
		{0, 5, 1, []float64{0, 1, 2, 3, 4}},
		{1, 4, 2, []float64{1, 3}},
		{0, 5, 5, []float64{0}},
		{0, 5, math.MaxInt, []float64{0}},
		{4, -1, -1, []float64{4, 3, 2, 1, 0}},
		{4, -1, -2, []float64{4, 2, 0}},
		{3, 0, -2, []float64{3, 1}},
		{4, 0, -4, []float64{4}},
		{3, -1, math.MinInt, []float64{3}},
		{2, 2, 1, []float64{}},
		{5, 5, 1, []float64{}},
		{2, 2, -1, []float64{}},
		{-1, -1, -1, []float64{}},
	} {
		y, err := x.Slice(0, tt.lo, tt.hi, tt.step)
		if err != nil || !equalFloats(y.Float64s(), tt.want) {
			t.Errorf("Slice(%d, %d, %d) = %v, %v, want %v", tt.lo, tt.hi, tt.step, y, err, tt.want)
		}
	}
	const hint = "indices do not wrap around; a negative step runs from lo down to above hi"
	for _, tt := range []struct {
		axis, lo, hi, step int
		want, hint         string
	}{
		{1, 0, 1, 1, "axis 1 is outside shape [5] [tensor-view]", "name an axis of the shape"},
		{-1, 0, 1, 1, "axis -1 is outside shape [5] [tensor-view]", "name an axis of the shape"},
		{0, 0, 5, 0, "step of a slice is 0 [tensor-view]", "use a step of 1 or more, or -1 or less"},
		{0, 0, 6, 1, "slice 0 to 6 step 1 is outside axis 0 of size 5 [tensor-view]", hint},
		{0, 3, 2, 1, "slice 3 to 2 step 1 is outside axis 0 of size 5 [tensor-view]", hint},
		{0, -1, 2, 1, "slice -1 to 2 step 1 is outside axis 0 of size 5 [tensor-view]", hint},
		{0, 5, 0, -1, "slice 5 to 0 step -1 is outside axis 0 of size 5 [tensor-view]", hint},
		{0, 4, -2, -1, "slice 4 to -2 step -1 is outside axis 0 of size 5 [tensor-view]", hint},
	} {
		_, err := x.Slice(tt.axis, tt.lo, tt.hi, tt.step)
		checkError(t, "Slice", err, tt.want, tt.hint)
	}
}

func TestExpand(t *testing.T) {
	x := counting(MustShape(3, 1))
	for _, tt := range []struct {
		to      Shape
		strides []int
	}{
		{Shape{3, 1}, []int{1, 1}},
		{Shape{3, 4}, []int{1, 0}},
		{Shape{2, 3, 4}, []int{0, 1, 0}},
		{Shape{3, 0}, []int{1, 0}},
	} {
		y, err := x.Expand(tt.to)
		if err != nil || !slices.Equal(y.Strides, tt.strides) || !y.Shape.Equal(tt.to) {
			t.Fatalf("Expand(%v) = %v, %v, want strides %v", tt.to, y, err, tt.strides)
		}
		if got, want := y.Bytes(), naiveBytes(y); !bytes.Equal(got, want) {
			t.Errorf("Expand(%v).Bytes() = %x, want %x", tt.to, got, want)
		}
	}
	for _, tt := range []struct {
		to         Shape
		want, hint string
	}{
		{Shape{3}, "shape [3,1] does not expand to shape [3] of lower rank [tensor-view]",
			"give at least as many dimensions"},
		{Shape{4, 2}, "shape [3,1] does not expand to shape [4,2]: dimension 0 is 3, want 1 or 4 [tensor-view]",
			"only dimensions of size 1 expand"},
		{Shape{3, -1}, "dimension 1 of shape [3,-1] is negative: -1 [tensor-shape-dim]", "a dimension is 0 or more"},
		{Shape{3, 1 << 31}, "dimension 1 of shape [3,2147483648] is 2147483648: the shape passes the limit of" +
			" 2147483648 elements [tensor-shape-limit]", "use a smaller shape"},
	} {
		_, err := x.Expand(tt.to)
		checkError(t, "Expand("+tt.to.String()+")", err, tt.want, tt.hint)
	}
}

func TestReshape(t *testing.T) {
	base := counting(MustShape(4, 6, 10))
	view := func(x *Tensor, err error) *Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, tt := range []struct {
		name string
		x    *Tensor
		to   Shape
		ok   bool
	}{
		{"dense", base, Shape{240}, true},
		{"split", base, Shape{2, 2, 3, 2, 5, 2}, true},
		{"ones", base, Shape{1, 4, 1, 60, 1}, true},
		{"row gaps keep rows", view(base.Slice(2, 1, 9, 1)), Shape{24, 8}, true},
		{"row gaps split rows", view(base.Slice(2, 1, 9, 1)), Shape{2, 12, 4, 2}, true},
		{"row gaps merge rows", view(base.Slice(2, 1, 9, 1)), Shape{192}, false},
		{"transposed", view(base.Transpose()), Shape{240}, false},
		{"transposed split", view(base.Transpose()), Shape{5, 2, 6, 4}, true},
		{"reversed", view(base.Slice(2, 9, -1, -1)), Shape{24, 5, 2}, true},
		{"all reversed", view(view(counting(MustShape(6)).Slice(0, 5, -1, -1)).Reshape(MustShape(2, 3))), Shape{3, 2}, true},
		{"broadcast", view(counting(MustShape(1, 3)).Expand(MustShape(4, 3))), Shape{2, 2, 3}, true},
		{"broadcast merged", view(counting(MustShape(1, 3)).Expand(MustShape(4, 3))), Shape{12}, false},
		{"scalar", counting(MustShape()), Shape{1, 1}, true},
		{"to scalar", counting(MustShape(1)), Shape{}, true},
		{"empty", counting(MustShape(0, 3)), Shape{7, 0}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y, err := tt.x.Reshape(tt.to)
			if (err == nil) != tt.ok {
				t.Fatalf("Reshape(%v to %v) = %v, want ok: %v", tt.x.Shape, tt.to, err, tt.ok)
			}
			if err != nil {
				if got := diag.CodeOf(err); got != ReshapeCopies {
					t.Errorf("code = %s, want %s", got, ReshapeCopies)
				}
				return
			}
			if !y.Shape.Equal(tt.to) || !bytes.Equal(naiveBytes(y), naiveBytes(tt.x)) {
				t.Errorf("Reshape(%v to %v) changes the order of elements", tt.x.Shape, tt.to)
			}
		})
	}
	_, err := base.Reshape(MustShape(7))
	checkError(t, "Reshape", err, "shape [4,6,10] of 240 elements does not reshape to [7] of 7 [tensor-view]",
		"keep the number of elements")
	_, err = view(counting(MustShape(2, 3)).Transpose()).Reshape(MustShape(6))
	checkError(t, "Reshape", err, "shape [3,2] with strides [1,3] does not reshape to [6] without a copy"+
		" [tensor-reshape-copies]", "make it contiguous first")
	if _, err = base.Reshape(Shape{-240}); diag.CodeOf(err) != ShapeDim {
		t.Errorf("Reshape([-240]) = %v, want code %s", err, ShapeDim)
	}
}

// TestViewChains applies random views and compares every element with the naive reading, which FromStorage has
// allowed; then writes through the view and reads the same back.
func TestViewChains(t *testing.T) {
	r := newRand(4)
	for range 3000 {
		d := dtype.All()[r.IntN(len(dtype.All()))]
		x := New(d, randomShape(r, 0, 4))
		if x.Elems() > 1<<13 {
			continue
		}
		copy(x.Data, randomBytes(r, len(x.Data)))
		for range 1 + r.IntN(4) {
			y, err := x, error(nil)
			switch r.IntN(4) {
			case 0:
				y, err = x.Transpose(r.Perm(len(x.Shape))...)
			case 1:
				if len(x.Shape) > 0 {
					a := r.IntN(len(x.Shape))
					n := x.Shape[a]
					lo := r.IntN(n + 1)
					if hi := lo + r.IntN(n-lo+1); r.IntN(2) == 0 {
						y, err = x.Slice(a, lo, hi, 1+r.IntN(3))
					} else {
						y, err = x.Slice(a, hi-1, lo-1, -1-r.IntN(3))
					}
				}
			case 2:
				if len(x.Shape) < 5 {
					y, err = x.Expand(append(Shape{1 + r.IntN(3)}, x.Shape...))
				}
			case 3:
				flat := Shape{x.Elems()}
				if y, err = x.Reshape(flat); diag.CodeOf(err) == ReshapeCopies {
					y, err = x, nil
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			x = y
		}
		if _, err := FromStorage(d, x.Shape, x.Strides, x.Offset, x.Data); err != nil {
			t.Fatalf("view %v, strides %v, offset %d leaves its storage: %v", x.Shape, x.Strides, x.Offset, err)
		}
		want := naiveBytes(x)
		if got := x.Bytes(); !bytes.Equal(got, want) {
			t.Fatalf("Bytes() of %v, strides %v = %x, want %x", x.Shape, x.Strides, got, want)
		}
		x.SetBytes(want)
		if got := x.Bytes(); !bytes.Equal(got, want) {
			t.Fatalf("Bytes() of %v, strides %v after SetBytes = %x, want %x", x.Shape, x.Strides, got, want)
		}
	}
}

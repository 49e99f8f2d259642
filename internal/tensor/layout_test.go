package tensor

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
)

func TestLayoutNames(t *testing.T) {
	for _, l := range Layouts() {
		got, err := ParseLayout(l.String())
		if err != nil || got != l {
			t.Errorf("ParseLayout(%q) = %v, %v, want %v", l.String(), got, err, l)
		}
	}
	if got := Layout(99).String() + " " + LayoutInvalid.String(); got != "invalid invalid" {
		t.Errorf("names of unset layouts = %q, want invalid", got)
	}
	for _, name := range []string{"", "invalid", "Strided", "strided "} {
		_, err := ParseLayout(name)
		checkError(t, "ParseLayout", err, "unknown layout \""+name+"\" [tensor-layout]",
			"use contiguous, strided, transposed, channels_last, broadcast or sliced")
	}
}

func TestSupports(t *testing.T) {
	ranks := map[Layout]string{ // ranks 0 to 6
		LayoutInvalid: "-------", Contiguous: "+++++++", Strided: "-++++++", Transposed: "--+++++",
		ChannelsLast: "---+++-", Broadcast: "-++++++", Sliced: "-++++++",
	}
	for l, want := range ranks {
		for rank := range 7 {
			s := make(Shape, rank)
			for i := range s {
				s[i] = 2
			}
			if got := l.Supports(s); got != (want[rank] == '+') {
				t.Errorf("%v.Supports(%v) = %v", l, s, got)
			}
			if _, err := Allocate(dtype.Int8, s, l, LayoutParams{}); (err == nil) != l.Supports(s) {
				t.Errorf("Allocate(%v, %v) = %v, Supports = %v", s, l, err, l.Supports(s))
			}
		}
	}
}

// TestAllocateKnown states the geometry of each layout for shapes one can check by hand.
func TestAllocateKnown(t *testing.T) {
	for _, tt := range []struct {
		name    string
		s       Shape
		l       Layout
		p       LayoutParams
		strides []int
		offset  int
		elems   int
	}{
		{"contiguous", Shape{2, 3}, Contiguous, LayoutParams{}, []int{3, 1}, 0, 6},
		{"contiguous takes no parameters", Shape{2, 3}, Contiguous, LayoutParams{Gap: 1, Lead: 2, Tail: 3}, []int{3, 1},
			0, 6},
		{"strided rows", Shape{2, 3}, Strided, LayoutParams{}, []int{6, 1}, 0, 12},
		{"strided columns", Shape{2, 3}, Strided, LayoutParams{Axis: -1, Gap: 2, Lead: 5, Tail: 7}, []int{9, 3}, 5, 30},
		{"transposed", Shape{2, 3, 5}, Transposed, LayoutParams{}, []int{15, 1, 3}, 0, 30},
		{"transposed by perm", Shape{2, 3, 5}, Transposed, LayoutParams{Perm: []int{2, 0, 1}, Lead: 1}, []int{3, 1, 6}, 1,
			31},
		{"channels last 1d", Shape{2, 3, 5}, ChannelsLast, LayoutParams{}, []int{15, 1, 3}, 0, 30},
		{"channels last 2d", Shape{2, 3, 4, 5}, ChannelsLast, LayoutParams{Tail: 2}, []int{60, 1, 15, 3}, 0, 122},
		{"channels last 3d", Shape{2, 3, 4, 5, 6}, ChannelsLast, LayoutParams{}, []int{360, 1, 90, 18, 3}, 0, 720},
		{"broadcast rows", Shape{2, 3}, Broadcast, LayoutParams{}, []int{0, 1}, 0, 3},
		{"broadcast columns", Shape{2, 3}, Broadcast, LayoutParams{Axis: 1, Lead: 2, Tail: 1}, []int{1, 0}, 2, 5},
		{"sliced rows", Shape{2, 3}, Sliced, LayoutParams{}, []int{3, 1}, 3, 9},
		{"sliced columns", Shape{2, 3}, Sliced, LayoutParams{Axis: 1, Lead: 2, Tail: 4}, []int{9, 1}, 2, 18},
		{"sliced empty", Shape{2, 0}, Sliced, LayoutParams{}, []int{1, 1}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := Allocate(dtype.Float16, tt.s, tt.l, tt.p)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(x.Strides, tt.strides) || x.Offset != tt.offset || len(x.Data) != 2*tt.elems {
				t.Errorf("Allocate(%v, %v) = strides %v, offset %d, %d elements, want %v, %d, %d",
					tt.s, tt.l, x.Strides, x.Offset, len(x.Data)/2, tt.strides, tt.offset, tt.elems)
			}
		})
	}
}

// randomParams draws parameters that are valid for the rank.
func randomParams(r *rand.Rand, rank int) LayoutParams {
	p := LayoutParams{Gap: r.IntN(4), Lead: r.IntN(4), Tail: r.IntN(4)}
	if rank > 0 {
		p.Axis = r.IntN(2*rank) - rank
	}
	if r.IntN(2) == 0 {
		p.Perm = r.Perm(rank)
	}
	return p
}

// TestLayoutRoundTrip: what is written in logical order is read in logical order, for every dtype and layout; the
// elements lie where the strides say, and nothing else in the storage changes.
func TestLayoutRoundTrip(t *testing.T) {
	r := newRand(2)
	for _, d := range dtype.All() {
		for _, l := range Layouts() {
			for range 60 {
				s := randomShape(r, 0, 5)
				if !l.Supports(s) || s.Elems() > 1<<14 {
					continue
				}
				checkRoundTrip(t, r, d, s, l, randomParams(r, len(s)))
			}
		}
	}
}

func checkRoundTrip(t *testing.T, r *rand.Rand, d dtype.DType, s Shape, l Layout, p LayoutParams) {
	t.Helper()
	fill, view, err := AllocateFill(d, s, l, p)
	if err != nil {
		t.Fatalf("AllocateFill(%v, %v, %v, %+v) = %v", d, s, l, p, err)
	}
	if _, err := FromStorage(d, s, view.Strides, view.Offset, view.Data); err != nil {
		t.Fatalf("AllocateFill(%v, %v, %v, %+v) leaves its storage: %v", d, s, l, p, err)
	}
	if got := naiveBytes(view); !bytes.Equal(got, make([]byte, len(got))) {
		t.Fatalf("AllocateFill(%v, %v, %v, %+v) is not zero", d, s, l, p)
	}
	logical := randomBytes(r, fill.Elems()*d.Size())
	fill.SetBytes(logical)
	if got := fill.Bytes(); !bytes.Equal(got, logical) {
		t.Fatalf("%v %v %v %+v: Bytes() after SetBytes(%x) = %x", d, s, l, p, logical, got)
	}
	if got, want := view.Bytes(), naiveBytes(view); !bytes.Equal(got, want) {
		t.Fatalf("%v %v %v %+v: Bytes() = %x, want %x", d, s, l, p, got, want)
	}
	if l != Broadcast && fill != view {
		t.Errorf("AllocateFill(%v) returns two tensors", l)
	}
	used := make([]bool, len(fill.Data)/d.Size())
	for n := range fill.Elems() {
		used[fill.Index(unravel(fill.Shape, n)...)] = true
	}
	for i, u := range used {
		if got := d.Load(fill.Data[i*d.Size():]); !u && got != Poison(d) {
			t.Fatalf("%v %v %v %+v: unused element %d = %#x, want poison %#x", d, s, l, p, i, got, Poison(d))
		}
	}
}

// TestLargePlanes runs the tiled copy over edges of the tiles, in both directions.
func TestLargePlanes(t *testing.T) {
	r := newRand(3)
	for _, s := range []Shape{{63, 65}, {64, 128}, {130, 70}, {3, 65, 129}, {2, 70, 9, 11}} {
		for _, d := range []dtype.DType{dtype.Uint8, dtype.Float16, dtype.Float32, dtype.Float64} {
			for _, l := range Layouts() {
				if l.Supports(s) {
					checkRoundTrip(t, r, d, s, l, LayoutParams{Axis: -1})
					checkRoundTrip(t, r, d, s, l, LayoutParams{Perm: r.Perm(len(s)), Lead: 3})
				}
			}
		}
	}
}

func TestPoison(t *testing.T) {
	want := map[dtype.DType]uint64{
		dtype.Float64: 0x7ffca5a5a5a5a5a5, dtype.Float32: 0x7fe5a5a5, dtype.Float16: 0x7ea5, dtype.BFloat16: 0x7fe5,
		dtype.Float8E4M3FN: 0x7f, dtype.Float8E5M2: 0x7f, dtype.Int8: 0xa5, dtype.Uint8: 0xa5, dtype.Bool: 0xa5,
		dtype.Int16: 0xa5a5, dtype.Uint16: 0xa5a5, dtype.Int32: 0xa5a5a5a5, dtype.Uint32: 0xa5a5a5a5,
		dtype.Int64: 0xa5a5a5a5a5a5a5a5, dtype.Uint64: 0xa5a5a5a5a5a5a5a5,
	}
	for _, d := range dtype.All() {
		if got := Poison(d); got != want[d] {
			t.Errorf("Poison(%v) = %#x, want %#x", d, got, want[d])
		}
		if d.IsFloat() && !math.IsNaN(d.Float64(Poison(d))) {
			t.Errorf("Poison(%v) is not a NaN", d)
		}
	}
}

// TestBroadcastFill: the caller writes each distinct element once, and the view repeats it.
func TestBroadcastFill(t *testing.T) {
	fill, view, err := AllocateFill(dtype.Float32, MustShape(2, 3), Broadcast, LayoutParams{Axis: 0, Lead: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !fill.Shape.Equal(Shape{1, 3}) || !view.Shape.Equal(Shape{2, 3}) {
		t.Fatalf("shapes = %v, %v, want [1,3], [2,3]", fill.Shape, view.Shape)
	}
	fill.SetFloat64s([]float64{1, 2, 3})
	if got, want := view.Float64s(), []float64{1, 2, 3, 1, 2, 3}; !equalFloats(got, want) {
		t.Errorf("view = %v, want %v", got, want)
	}
	view.SetFloat64s([]float64{4, 5, 6, 7, 8, 9}) // slice 0 is what counts
	if got, want := view.Float64s(), []float64{4, 5, 6, 4, 5, 6}; !equalFloats(got, want) {
		t.Errorf("view after SetFloat64s = %v, want %v", got, want)
	}
	fill, view, err = AllocateFill(dtype.Float32, MustShape(0, 3), Broadcast, LayoutParams{})
	if err != nil || !fill.Shape.Equal(Shape{0, 3}) || view.Elems() != 0 {
		t.Errorf("empty broadcast: fill %v, view %v, %v", fill.Shape, view.Shape, err)
	}
}

func TestAllocateErrors(t *testing.T) {
	const small = "use a small positive number"
	const smaller = "use a smaller shape, gap, lead or tail"
	for _, tt := range []struct {
		d          dtype.DType
		s          Shape
		l          Layout
		p          LayoutParams
		want, hint string
	}{
		{dtype.Int8, Shape{2, 2}, ChannelsLast, LayoutParams{}, "layout channels_last does not exist for shape [2,2] of" +
			" rank 2 [tensor-layout-unsupported]", "use layout contiguous for this shape"},
		{dtype.Int8, Shape{2}, LayoutInvalid, LayoutParams{}, "layout invalid does not exist for shape [2] of rank 1" +
			" [tensor-layout-unsupported]", "use layout contiguous for this shape"},
		{dtype.Int8, Shape{2}, Strided, LayoutParams{Gap: -1}, "gap -1 of layout strided is outside 0 to 2147483647" +
			" [tensor-layout-param]", small},
		{dtype.Int8, Shape{2}, Sliced, LayoutParams{Lead: math.MaxInt}, "lead 9223372036854775807 of layout sliced is" +
			" outside 0 to 2147483647 [tensor-layout-param]", small},
		{dtype.Int8, Shape{2}, Sliced, LayoutParams{Tail: 1 << 31}, "tail 2147483648 of layout sliced is outside 0 to" +
			" 2147483647 [tensor-layout-param]", small},
		{dtype.Int8, Shape{2}, Sliced, LayoutParams{Axis: 1}, "axis 1 of layout sliced is outside -1 to 0" +
			" [tensor-layout-param]", "name an axis of the shape"},
		{dtype.Int8, Shape{2}, Sliced, LayoutParams{Axis: -2}, "axis -2 of layout sliced is outside -1 to 0" +
			" [tensor-layout-param]", "name an axis of the shape"},
		{dtype.Int8, Shape{2, 2}, Transposed, LayoutParams{Perm: []int{0, 0}}, "[0,0] is not a permutation of 2 axes" +
			" [tensor-view]", "name every axis once"},
		{dtype.Int8, Shape{MaxElems}, Strided, LayoutParams{}, "layout strided of shape [2147483648] needs a base of" +
			" shape [4294967296], past the limit of 2147483648 elements [tensor-shape-limit]", smaller},
		{dtype.Float64, Shape{1 << 30}, Transposed, LayoutParams{}, "layout transposed does not exist for shape" +
			" [1073741824] of rank 1 [tensor-layout-unsupported]", "use layout contiguous for this shape"},
		{dtype.Float64, Shape{1 << 30, 1}, Transposed, LayoutParams{Tail: 1}, "the storage of float64 of shape" +
			" [1073741824,1] in layout transposed needs more than the limit of 8589934592 bytes [tensor-byte-limit]", smaller},
		{dtype.Float64, Shape{MaxElems}, Contiguous, LayoutParams{}, "shape [2147483648] of float64 needs more than the" +
			" limit of 8589934592 bytes [tensor-byte-limit]", "use a smaller shape or a narrower dtype"},
		{dtype.Invalid, Shape{1}, Contiguous, LayoutParams{}, "dtype is not set [tensor-dtype]",
			"name one of the supported dtypes"},
		{dtype.Int8, Shape{1, -1}, Contiguous, LayoutParams{}, "dimension 1 of shape [1,-1] is negative: -1" +
			" [tensor-shape-dim]", "a dimension is 0 or more"},
	} {
		x, err := Allocate(tt.d, tt.s, tt.l, tt.p)
		checkError(t, "Allocate("+tt.s.String()+", "+tt.l.String()+")", err, tt.want, tt.hint)
		if x != nil {
			t.Errorf("Allocate(%v, %v) = a tensor and an error", tt.s, tt.l)
		}
	}
}

func BenchmarkBytes(b *testing.B) {
	for _, l := range Layouts() {
		x, err := Allocate(dtype.Float32, MustShape(8, 64, 128, 128), l, LayoutParams{Axis: -1})
		if err != nil {
			b.Fatal(err)
		}
		dst := make([]byte, x.Elems()*4)
		b.Run(l.String(), func(b *testing.B) {
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				copyStrided(side{dst, 0, x.Shape.Strides()}, side{x.Data, x.Offset, x.Strides}, x.Shape, 4)
			}
		})
		b.Run(l.String()+"/set", func(b *testing.B) {
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				x.SetBytes(dst)
			}
		})
	}
}

package tensor

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// newRand gives every test its own fixed stream.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x7e4502)) }

// randomShape has rank lo to hi and small dimensions; 0 and 1 are frequent.
func randomShape(r *rand.Rand, lo, hi int) Shape {
	s := make(Shape, lo+r.IntN(hi-lo+1))
	for i := range s {
		switch r.IntN(8) {
		case 0:
			s[i] = 1
		case 1:
			if r.IntN(4) == 0 {
				s[i] = 0
			} else {
				s[i] = 70 // longer than a tile
			}
		default:
			s[i] = 1 + r.IntN(6)
		}
	}
	return s
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// unravel gives the indices of the n-th element in row-major order.
func unravel(s Shape, n int) []int {
	idx := make([]int, len(s))
	for i := len(s) - 1; i >= 0; i-- {
		idx[i] = n % s[i]
		n /= s[i]
	}
	return idx
}

// naiveBytes gathers the elements one by one from the definition of strides.
func naiveBytes(t *Tensor) []byte {
	size := t.DType.Size()
	out := []byte{}
	for n := range t.Shape.Elems() {
		at := t.Offset
		for i, x := range unravel(t.Shape, n) {
			at += x * t.Strides[i]
		}
		out = append(out, t.Data[at*size:at*size+size]...)
	}
	return out
}

// checkError compares text and hint of a diag error; want includes the code.
func checkError(t *testing.T, call string, err error, want, hint string) {
	t.Helper()
	var e *diag.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s = %v, want a *diag.Error %q", call, err, want)
	}
	if err.Error() != want {
		t.Errorf("%s =\n     %s\nwant %s", call, err, want)
	}
	if e.Hint != hint {
		t.Errorf("%s: hint = %q, want %q", call, e.Hint, hint)
	}
}

func TestParseShape(t *testing.T) {
	for _, tt := range []struct {
		dims []int64
		want string
	}{
		{nil, "[]"},
		{[]int64{0}, "[0]"},
		{[]int64{4, 16, 257}, "[4,16,257]"},
		{[]int64{1, 1, 1, 1, 1, 1, 1, 1}, "[1,1,1,1,1,1,1,1]"},
		{[]int64{MaxElems}, "[2147483648]"},
		{[]int64{1 << 15, 1 << 16}, "[32768,65536]"},
		{[]int64{0, MaxElems, 1}, "[0,2147483648,1]"},
	} {
		got, err := ParseShape(tt.dims)
		if err != nil || got.String() != tt.want {
			t.Errorf("ParseShape(%v) = %v, %v, want %s", tt.dims, got, err, tt.want)
		}
	}
	for _, tt := range []struct {
		dims       []int64
		want, hint string
	}{
		{make([]int64, 9), "shape has 9 dimensions, the limit is 8 [tensor-shape-rank]", "merge dimensions before testing"},
		{[]int64{2, -3}, "dimension 1 of shape [2,-3] is negative: -3 [tensor-shape-dim]", "a dimension is 0 or more"},
		{[]int64{0, math.MinInt64}, "dimension 1 of shape [0,-9223372036854775808] is negative: -9223372036854775808" +
			" [tensor-shape-dim]", "a dimension is 0 or more"},
		{[]int64{MaxElems + 1}, "dimension 0 of shape [2147483649] is 2147483649: the shape passes the limit of" +
			" 2147483648 elements [tensor-shape-limit]", "use a smaller shape"},
		{[]int64{3, 1 << 16, 1 << 15}, "dimension 2 of shape [3,65536,32768] is 32768: the shape passes the limit of" +
			" 2147483648 elements [tensor-shape-limit]", "use a smaller shape"},
		{[]int64{1 << 31, 1 << 31, 1 << 2}, "dimension 1 of shape [2147483648,2147483648,4] is 2147483648: the shape" +
			" passes the limit of 2147483648 elements [tensor-shape-limit]", "use a smaller shape"},
		{[]int64{0, math.MaxInt64}, "dimension 1 of shape [0,9223372036854775807] is 9223372036854775807: the shape" +
			" passes the limit of 2147483648 elements [tensor-shape-limit]", "use a smaller shape"},
	} {
		got, err := ParseShape(tt.dims)
		checkError(t, "ParseShape("+formatDims(tt.dims)+")", err, tt.want, tt.hint)
		if got != nil {
			t.Errorf("ParseShape(%v) = %v with an error, want nil", tt.dims, got)
		}
	}
}

func TestShape(t *testing.T) {
	for _, tt := range []struct {
		shape   Shape
		elems   int
		strides string
	}{
		{Shape{}, 1, "[]"},
		{Shape{5}, 5, "[1]"},
		{Shape{2, 3, 4}, 24, "[12,4,1]"},
		{Shape{2, 0, 4}, 0, "[4,4,1]"},
	} {
		if got := tt.shape.Elems(); got != tt.elems {
			t.Errorf("%v.Elems() = %d, want %d", tt.shape, got, tt.elems)
		}
		if got := formatDims(tt.shape.Strides()); got != tt.strides {
			t.Errorf("%v.Strides() = %s, want %s", tt.shape, got, tt.strides)
		}
	}
	if a := MustShape(2, 3); !a.Equal(Shape{2, 3}) || a.Equal(Shape{3, 2}) || a.Equal(Shape{2}) {
		t.Errorf("%v.Equal is wrong", a)
	}
}

func TestShapeUnravel(t *testing.T) {
	for _, s := range []Shape{{}, {5}, {2, 3, 4}, {3, 1, 2, 2}} {
		strides := s.Strides()
		for i := range s.Elems() {
			at, within := 0, true
			idx := s.Unravel(i)
			for k, x := range idx {
				at += x * strides[k]
				within = within && 0 <= x && x < s[k]
			}
			if at != i || !within || len(idx) != len(s) {
				t.Errorf("%v.Unravel(%d) = %v, the index of position %d", s, i, idx, at)
			}
		}
	}
}

// mustPanic runs f and reports the absence of a panic.
func mustPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", name)
		}
	}()
	f()
}

func TestMisusePanics(t *testing.T) {
	x := New(dtype.Float32, MustShape(2, 3))
	mustPanic(t, "MustShape(-1)", func() { MustShape(-1) })
	mustPanic(t, "New of 16 GiB", func() { New(dtype.Float64, MustShape(MaxElems)) })
	mustPanic(t, "New(Invalid)", func() { New(dtype.Invalid, MustShape(1)) })
	mustPanic(t, "SetBytes of 23 bytes", func() { x.SetBytes(make([]byte, 23)) })
	mustPanic(t, "SetFloat64s of 5 values", func() { x.SetFloat64s(make([]float64, 5)) })
	mustPanic(t, "FromFloat64s of 1 value", func() { FromFloat64s(dtype.Int8, MustShape(2), []float64{1}) })
	mustPanic(t, "At(0)", func() { x.At(0) })
	mustPanic(t, "At(2, 0)", func() { x.At(2, 0) })
	mustPanic(t, "At(0, -1)", func() { x.At(0, -1) })
}

func TestFromBytes(t *testing.T) {
	x, err := FromBytes(dtype.Int16, MustShape(2, 2), []byte{1, 0, 2, 0, 0xff, 0xff, 4, 0})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := x.Float64s(), []float64{1, 2, -1, 4}; !equalFloats(got, want) {
		t.Errorf("Float64s() = %v, want %v", got, want)
	}
	if x.At(1, 0) != -1 || x.Bits(1, 0) != 0xffff || x.Index(1, 0) != 2 {
		t.Errorf("At, Bits, Index (1, 0) = %v, %#x, %d, want -1, 0xffff, 2", x.At(1, 0), x.Bits(1, 0), x.Index(1, 0))
	}
	for _, tt := range []struct {
		d          dtype.DType
		s          Shape
		n          int
		want, hint string
	}{
		{dtype.Float32, Shape{2, 3}, 23, "float32 of shape [2,3] needs 24 bytes, got 23 [tensor-data-length]",
			"check shape and dtype against the data"},
		{dtype.Float32, Shape{0}, 4, "float32 of shape [0] needs 0 bytes, got 4 [tensor-data-length]",
			"check shape and dtype against the data"},
		{dtype.Float32, Shape{}, 0, "float32 of shape [] needs 4 bytes, got 0 [tensor-data-length]",
			"check shape and dtype against the data"},
		{dtype.Invalid, Shape{2}, 2, "dtype is not set [tensor-dtype]", "name one of the supported dtypes"},
		{200, Shape{2}, 2, "dtype is not set [tensor-dtype]", "name one of the supported dtypes"},
		{dtype.Int8, Shape{-2}, 2, "dimension 0 of shape [-2] is negative: -2 [tensor-shape-dim]",
			"a dimension is 0 or more"},
		{dtype.Float64, Shape{1<<30 + 1}, 8, "shape [1073741825] of float64 needs more than the limit of 8589934592" +
			" bytes [tensor-byte-limit]", "use a smaller shape or a narrower dtype"},
	} {
		_, err := FromBytes(tt.d, tt.s, make([]byte, tt.n))
		checkError(t, "FromBytes("+tt.s.String()+")", err, tt.want, tt.hint)
	}
}

func equalFloats(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && (a[i] == a[i] || b[i] == b[i]) {
			return false
		}
	}
	return true
}

func TestFromStorageErrors(t *testing.T) {
	const offsetHint = "check offset and storage length"
	const pastHint = "check strides, offset and storage length"
	if _, err := FromStorage(dtype.Invalid, Shape{1}, []int{1}, 0, []byte{0}); diag.CodeOf(err) != BadDType {
		t.Errorf("FromStorage(Invalid) = %v, want code %s", err, BadDType)
	}
	for _, tt := range []struct {
		s          Shape
		strides    []int
		offset, n  int
		want, hint string
	}{
		{Shape{2, -1}, []int{1, 1}, 0, 8, "dimension 1 of shape [2,-1] is negative: -1 [tensor-shape-dim]",
			"a dimension is 0 or more"},
		{Shape{2}, []int{1, 1}, 0, 8, "shape [2] has 1 dimensions, got 2 strides [tensor-storage-bounds]",
			"give one stride per dimension"},
		{Shape{2}, []int{1}, 0, 7, "storage of 7 bytes is not a multiple of the 4 bytes of float32 [tensor-data-length]",
			"pass whole elements"},
		{Shape{2}, []int{1}, -1, 8, "offset -1 is outside the storage of 2 elements [tensor-storage-bounds]", offsetHint},
		{Shape{1}, []int{1}, 2, 8, "offset 2 is outside the storage of 2 elements [tensor-storage-bounds]", offsetHint},
		{Shape{0}, []int{1}, 3, 8, "offset 3 is outside the storage of 2 elements [tensor-storage-bounds]", offsetHint},
		{Shape{3}, []int{1}, 0, 8, "dimension 0 (size 3, stride 1) reaches past the storage of 2 elements" +
			" [tensor-storage-bounds]", pastHint},
		{Shape{2, 2}, []int{-1, 1}, 0, 16, "dimension 0 (size 2, stride -1) reaches in front of the storage" +
			" [tensor-storage-bounds]", "check strides and offset"},
		{Shape{3}, []int{math.MinInt}, 1, 16, "dimension 0 (size 3, stride -9223372036854775808) reaches in front of" +
			" the storage [tensor-storage-bounds]", "check strides and offset"},
		{Shape{5}, []int{1 << 62}, 0, 16, "dimension 0 (size 5, stride 4611686018427387904) reaches past the storage of 4" +
			" elements [tensor-storage-bounds]", pastHint}, // 4 * 1<<62 is 0 in 64 bits
		{Shape{3, 3}, []int{1, 1 << 62}, 1, 16, "dimension 1 (size 3, stride 4611686018427387904) reaches" +
			" past the storage of 4 elements [tensor-storage-bounds]", pastHint},
	} {
		_, err := FromStorage(dtype.Float32, tt.s, tt.strides, tt.offset, make([]byte, tt.n))
		checkError(t, "FromStorage("+tt.s.String()+", "+formatDims(tt.strides)+")", err, tt.want, tt.hint)
	}
}

// TestFromStorageBounds compares the bounds proof with exact arithmetic on random and extreme strides.
func TestFromStorageBounds(t *testing.T) {
	r := newRand(1)
	extremes := []int{math.MinInt, math.MaxInt, 1 << 62, -1 << 62, 1 << 32, -1 << 32, 1 << 31}
	accepted := 0
	for range 20000 {
		s := make(Shape, r.IntN(4))
		strides := make([]int, len(s))
		for i := range s {
			s[i] = r.IntN(4)
			if r.IntN(3) > 0 {
				s[i]++
			}
			if r.IntN(12) == 0 {
				s[i] = 5 // 1<<62 * 4 is 0 in 64 bits
			}
			strides[i] = r.IntN(9) - 4
			if r.IntN(12) == 0 {
				strides[i] = extremes[r.IntN(len(extremes))]
			}
		}
		n, offset := r.IntN(20), r.IntN(22)-1
		lo, hi := big.NewInt(int64(offset)), big.NewInt(int64(offset))
		for i, d := range s {
			reach := new(big.Int).Mul(big.NewInt(int64(strides[i])), big.NewInt(int64(d-1)))
			if reach.Sign() < 0 {
				lo.Add(lo, reach)
			} else {
				hi.Add(hi, reach)
			}
		}
		want := lo.Sign() >= 0 && hi.Cmp(big.NewInt(int64(n))) < 0
		if s.Elems() == 0 {
			want = offset >= 0 && offset <= n
		}
		x, err := FromStorage(dtype.Uint16, s, strides, offset, randomBytes(r, 2*n))
		if (err == nil) != want {
			t.Fatalf("FromStorage(%v, strides %v, offset %d, %d elements) = %v, want ok: %v", s, strides, offset, n, err, want)
		}
		if err != nil {
			continue
		}
		accepted++
		if got, want := x.Bytes(), naiveBytes(x); !bytes.Equal(got, want) {
			t.Fatalf("Bytes() of %v, strides %v, offset %d = %x, want %x", s, strides, offset, got, want)
		}
	}
	if accepted < 3000 {
		t.Errorf("only %d random storages were accepted: the test shows little", accepted)
	}
}

func TestIsContiguous(t *testing.T) {
	for _, tt := range []struct {
		s       Shape
		strides []int
		want    bool
	}{
		{Shape{}, []int{}, true},
		{Shape{2, 3}, []int{3, 1}, true},
		{Shape{2, 3}, []int{1, 2}, false},
		{Shape{2, 3}, []int{4, 1}, false},
		{Shape{1, 3}, []int{7, 1}, true},
		{Shape{2, 1}, []int{1, 9}, true},
		{Shape{2, 0}, []int{5, 5}, true},
		{Shape{0, 2}, []int{5, 5}, true},
		{Shape{3}, []int{0}, false},
		{Shape{3}, []int{-1}, false},
	} {
		x, err := FromStorage(dtype.Int8, tt.s, tt.strides, 2, make([]byte, 16))
		if err != nil {
			t.Fatal(err)
		}
		if got := x.IsContiguous(); got != tt.want {
			t.Errorf("IsContiguous(%v, strides %v) = %v, want %v", tt.s, tt.strides, got, tt.want)
		}
		if c := x.Contiguous(); (c == x) != tt.want || !c.IsContiguous() || !bytes.Equal(c.Bytes(), naiveBytes(x)) {
			t.Errorf("Contiguous(%v, strides %v) is wrong", tt.s, tt.strides)
		}
		c := x.Clone()
		c.SetBytes(bytes.Repeat([]byte{9}, c.Elems()))
		if !bytes.Equal(x.Data, make([]byte, 16)) {
			t.Errorf("Clone(%v, strides %v) shares storage", tt.s, tt.strides)
		}
	}
}

func TestBytesAliases(t *testing.T) {
	x := New(dtype.Uint8, MustShape(4, 2))
	v, err := x.Slice(0, 1, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	v.Bytes()[0] = 7
	if x.At(1, 0) != 7 {
		t.Error("Bytes of a contiguous view does not alias Data")
	}
	if cap(v.Bytes()) != 4 {
		t.Errorf("cap(Bytes()) = %d, want 4: an append would write behind the view", cap(v.Bytes()))
	}
}

func TestFloat64sRoundTrip(t *testing.T) {
	want := []float64{0, 1, 2, 3, 4, 5}
	for _, d := range dtype.All() {
		if d == dtype.Bool {
			continue
		}
		for _, l := range []Layout{Contiguous, Strided, Transposed, Sliced} {
			x, err := Allocate(d, MustShape(2, 3), l, LayoutParams{Axis: 1})
			if err != nil {
				t.Fatal(err)
			}
			x.SetFloat64s(want)
			if got := x.Float64s(); !equalFloats(got, want) {
				t.Errorf("%v %v: Float64s() = %v, want %v", d, l, got, want)
			}
			if got := x.At(1, 2); got != 5 {
				t.Errorf("%v %v: At(1, 2) = %v, want 5", d, l, got)
			}
		}
	}
	if got := FromFloat64s(dtype.Bool, MustShape(3), []float64{0, 2, 1}).Bytes(); !bytes.Equal(got, []byte{0, 1, 1}) {
		t.Errorf("bool from 0, 2, 1 = %v, want [0 1 1]", got)
	}
}

func TestScalarAndEmpty(t *testing.T) {
	s := New(dtype.Float32, MustShape())
	s.SetFloat64s([]float64{1.5})
	if s.At() != 1.5 || len(s.Bytes()) != 4 || !s.IsContiguous() {
		t.Errorf("scalar = %v, %d bytes", s.At(), len(s.Bytes()))
	}
	for _, shape := range []Shape{{0}, {3, 0}, {0, 3}, {2, 0, 4}} {
		e := New(dtype.Float32, shape)
		e.SetBytes(nil)
		e.SetFloat64s(nil)
		if b, f := e.Bytes(), e.Float64s(); b == nil || f == nil || len(b)+len(f) != 0 {
			t.Errorf("empty %v: Bytes() = %v, Float64s() = %v, want empty and not nil", shape, b, f)
		}
	}
}

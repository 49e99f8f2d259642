package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// checkParsed proves the promise of the package on a tensor from outside: all elements inside Data, aligned, and
// the fast reading equal to the naive one.
func checkParsed(t *testing.T, x *Tensor) {
	t.Helper()
	if _, err := FromStorage(x.DType, x.Shape, x.Strides, x.Offset, x.Data); err != nil {
		t.Fatalf("parsed tensor %v %v leaves its storage: %v", x.DType, x.Shape, err)
	}
	if b := alignedTo(x.DType.Size(), x.Data); len(b) > 0 && &b[0] != &x.Data[0] {
		t.Fatalf("data of %v %v is not aligned", x.DType, x.Shape)
	}
	if x.Elems() < 1<<16 && !bytes.Equal(x.Bytes(), naiveBytes(x)) {
		t.Fatalf("Bytes() of %v %v differs from the naive reading", x.DType, x.Shape)
	}
	if len(x.Float64s()) != x.Elems() {
		t.Fatalf("Float64s() of %v has %d values", x.Shape, len(x.Float64s()))
	}
}

// checkUserError: whatever is refused is refused with a code and a hint.
func checkUserError(t *testing.T, err error) {
	t.Helper()
	var e *diag.Error
	if !errors.As(err, &e) || e.Code == "" || e.Hint == "" || len(err.Error()) > 2000 {
		t.Fatalf("error without code or hint, or too long: %v", err)
	}
}

func FuzzParseSafetensors(f *testing.F) {
	for _, h := range []struct{ header, data string }{
		{`{}`, ""},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "\x00\x00\x80\x3f"},
		{`{"__metadata__":{"k":"v"},"b":{"dtype":"I8","shape":[0,2],"data_offsets":[2,2]},"a":{"dtype":"BF16","shape":[],` +
			`"data_offsets":[0,2]}}  `, "\x80\x3f"},
		{`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F64","shape":[1],"data_offsets":[3,11]}}`,
			"abc12345678"},
		{`{"a":{"dtype":"F8_E4M3","shape":[2147483648],"data_offsets":[0,9223372036854775807]}}`, ""},
		{`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "abc"},
	} {
		f.Add(safetensorsFile(h.header, h.data))
	}
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ts, meta, err := ParseSafetensors(b)
		if err != nil {
			checkUserError(t, err)
			return
		}
		for _, x := range ts {
			checkParsed(t, x.Tensor)
		}
		var buf bytes.Buffer
		if err := WriteSafetensors(&buf, ts, meta); err != nil {
			t.Fatalf("what was read is not written: %v", err)
		}
		back, _, err := ParseSafetensors(buf.Bytes())
		if err != nil || len(back) != len(ts) {
			t.Fatalf("what was written is not read: %d tensors, %v, want %d", len(back), err, len(ts))
		}
		for i, x := range back {
			y := ts[i]
			if x.Name != y.Name || x.Tensor.DType != y.Tensor.DType || !x.Tensor.Shape.Equal(y.Tensor.Shape) ||
				!bytes.Equal(x.Tensor.Bytes(), y.Tensor.Bytes()) {
				t.Fatalf("tensor %q does not come back", y.Name)
			}
		}
	})
}

func FuzzParseNPY(f *testing.F) {
	for _, h := range []struct {
		major        byte
		header, data string
	}{
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", "12345678"},
		{2, "{'descr': '>f8', 'fortran_order': True, 'shape': (1, 2), }\n", "1234567812345678"},
		{3, "{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", "1"},
		{1, `{"shape":(0,-3),"fortran_order":True,"descr":"<V2"}` + "\n", ""},
		{1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (99999999999999999999,), }\n", ""},
	} {
		f.Add(npyFile(h.major, h.header, h.data))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := ParseNPY(b)
		if err != nil {
			checkUserError(t, err)
			return
		}
		checkParsed(t, x)
		var buf bytes.Buffer
		if err := WriteNPY(&buf, x); err != nil {
			t.Fatalf("what was read is not written: %v", err)
		}
		back, err := ParseNPY(buf.Bytes())
		if err != nil || back.DType != x.DType || !back.Shape.Equal(x.Shape) || !bytes.Equal(back.Bytes(), x.Bytes()) {
			t.Fatalf("%v %v does not come back: %v", x.DType, x.Shape, err)
		}
	})
}

// FuzzParseShape reads dimensions of 8 bytes each and compares the limits with exact arithmetic.
func FuzzParseShape(f *testing.F) {
	for _, dims := range [][]int64{{}, {0}, {-1}, {4, 16, 257}, {MaxElems, 1}, {1 << 16, 1 << 16}, {0, math.MaxInt64},
		{math.MinInt64}, {1 << 32, 1 << 32}, {1, 1, 1, 1, 1, 1, 1, 1, 1}} {
		b := []byte{}
		for _, d := range dims {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var dims []int64
		want := len(b)/8 <= MaxRank
		elems := big.NewInt(1)
		for ; len(b) >= 8; b = b[8:] {
			d := int64(binary.LittleEndian.Uint64(b))
			dims = append(dims, d)
			want = want && d >= 0
			elems.Mul(elems, big.NewInt(max(d, 1)))
		}
		want = want && elems.Cmp(big.NewInt(MaxElems)) <= 0
		s, err := ParseShape(dims)
		if (err == nil) != want {
			t.Fatalf("ParseShape(%v) = %v, want ok: %v", dims, err, want)
		}
		if err != nil {
			checkUserError(t, err)
			return
		}
		exact := big.NewInt(1)
		for i, st := range s.Strides() {
			if st < 1 || st > MaxElems {
				t.Errorf("%v.Strides()[%d] = %d", s, i, st)
			}
			exact.Mul(exact, big.NewInt(int64(s[i])))
		}
		if got := s.Elems(); exact.Cmp(big.NewInt(int64(got))) != 0 {
			t.Errorf("%v.Elems() = %d, want %v", s, got, exact)
		}
		if got, want := s.CheckBytes(dtype.Float64) == nil, s.Elems() <= MaxBytes/8; got != want {
			t.Errorf("%v.CheckBytes(float64) accepts: %v, want %v", s, got, want)
		}
	})
}

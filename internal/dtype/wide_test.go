package dtype_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/dtype"
)

// This file implements the tests of float32, float64, the integers and Bool. The reference for rounding is math/big.

// TestFloat32Boundaries rounds float64s at, and next to, the points halfway between neighbouring float32s.
func TestFloat32Boundaries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	check := func(x float64) {
		t.Helper()
		nearest, _ := new(big.Rat).SetFloat64(math.Abs(x)).Float32() // to nearest even, overflow to infinity
		want := uint64(math.Float32bits(nearest))
		saturated := min(want, 0x7f7fffff)
		if math.Signbit(x) {
			want, saturated = want|1<<31, saturated|1<<31
		}
		var b [4]byte
		dtype.Encode(b[:], dtype.Float32, []float64{x})
		if got := dtype.Float32.Bits(x); got != want || dtype.Float32.Load(b[:]) != want {
			t.Errorf("Bits(%x) = %08x, Encode = %08x, want %08x", x, got, dtype.Float32.Load(b[:]), want)
		}
		if got := dtype.Float32.BitsSaturating(x); got != saturated {
			t.Errorf("BitsSaturating(%x) = %08x, want %08x", x, got, saturated)
		}
		if got := math.Float32bits(dtype.Float64.Float32(math.Float64bits(x))); uint64(got) != want {
			t.Errorf("Float64.Float32(%x) = %08x, want %08x", x, got, want)
		}
	}
	codes := []uint32{0, 1, 2, 0x7fffff, 0x800000, 0x7f7ffffe, 0x7f7fffff}
	for range 20000 {
		codes = append(codes, r.Uint32N(0x7f800000), r.Uint32N(0x1000000))
	}
	for _, code := range codes {
		mid := (float64(math.Float32frombits(code)) + float64(math.Float32frombits(code+1))) / 2
		if code == 0x7f7fffff {
			mid = dtype.Float32.OverflowThreshold()
		}
		for _, x := range []float64{mid, math.Nextafter(mid, 0), math.Nextafter(mid, math.Inf(1))} {
			check(x)
			check(-x)
		}
	}
}

// TestWideFloatCodes: bits of the own format pass unchanged, float32 to float64 is exact, NaNs follow the rule.
func TestWideFloatCodes(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 100000 {
		u := r.Uint64()
		if got := dtype.Float64.Bits(dtype.Float64.Float64(u)); got != u {
			t.Fatalf("Float64.Bits(Float64(%016x)) = %016x", u, got)
		}
		b := uint32(u)
		if got := dtype.Float32.BitsFloat32(dtype.Float32.Float32(u)); got != uint64(b) {
			t.Fatalf("Float32.BitsFloat32(Float32(%08x)) = %08x", b, got)
		}
		want := uint64(b)
		if dtype.Float32.IsNaN(uint64(b)) {
			want |= 1 << 22
		}
		if got := dtype.Float32.Bits(dtype.Float32.Float64(u)); got != want {
			t.Fatalf("Float32.Bits(Float64(%08x)) = %08x, want %08x", b, got, want)
		}
	}
	for _, tt := range []struct {
		in32 uint32
		in64 uint64 // what the float32 becomes
	}{
		{0x7fc00000, 0x7ff8000000000000}, {0xffc00000, 0xfff8000000000000},
		{0x7f800001, 0x7ff8000020000000}, {0xffbfffff, 0xffffffffe0000000},
		{0x7f800000, 0x7ff0000000000000}, {0x80000000, 0x8000000000000000},
		{0x00000001, 0x36a0000000000000}, {0x807fffff, 0xb80fffffc0000000},
	} {
		if got := math.Float64bits(dtype.Float32.Float64(uint64(tt.in32))); got != tt.in64 {
			t.Errorf("Float32.Float64(%08x) = %016x, want %016x", tt.in32, got, tt.in64)
		}
		if got := dtype.Float64.BitsFloat32(math.Float32frombits(tt.in32)); got != tt.in64 {
			t.Errorf("Float64.BitsFloat32(%08x) = %016x, want %016x", tt.in32, got, tt.in64)
		}
	}
	// Payload bits that do not fit are dropped, and the quiet bit keeps it a NaN.
	for in, want := range map[uint64]uint64{0x7ff0000000000001: 0x7fc00000, 0xfff7ffffffffffff: 0xffffffff} {
		if got := dtype.Float32.Bits(math.Float64frombits(in)); got != want {
			t.Errorf("Float32.Bits(%016x) = %08x, want %08x", in, got, want)
		}
		if got := dtype.Float32.BitsSaturating(math.Float64frombits(in)); got != want {
			t.Errorf("Float32.BitsSaturating(%016x) = %08x, want %08x", in, got, want)
		}
	}
	for x, want := range map[float64]float64{math.Inf(1): math.MaxFloat64, math.Inf(-1): -math.MaxFloat64, -1.5: -1.5} {
		if err := sameBits(math.Float64frombits(dtype.Float64.BitsSaturating(x)), want); err != nil {
			t.Errorf("Float64.BitsSaturating(%v) = %v", x, err)
		}
	}
}

var integers = []dtype.DType{dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64,
	dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64}

// intRange returns the least and the largest value of an integer format.
func intRange(d dtype.DType) (lo, hi *big.Int) {
	one, bits := big.NewInt(1), uint(8*d.Size())
	if d.IsSigned() {
		hi = new(big.Int).Lsh(one, bits-1)
		return new(big.Int).Neg(hi), hi.Sub(hi, one)
	}
	hi = new(big.Int).Lsh(one, bits)
	return new(big.Int), hi.Sub(hi, one)
}

// wantInt rounds x to nearest even and saturates; NaN is 0.
func wantInt(d dtype.DType, x float64) uint64 {
	lo, hi := intRange(d)
	v := new(big.Int)
	switch {
	case math.IsInf(x, 1):
		v = hi
	case math.IsInf(x, -1):
		v = lo
	case !math.IsNaN(x):
		// floor(x + 1/2), less one when that was a tie that went to an odd number.
		twice := new(big.Rat).Mul(new(big.Rat).SetFloat64(x), big.NewRat(2, 1))
		sum := new(big.Rat).Add(twice, big.NewRat(1, 1))
		den := new(big.Int).Lsh(sum.Denom(), 1)
		rem := new(big.Int)
		v.DivMod(sum.Num(), den, rem)
		if rem.Sign() == 0 && v.Bit(0) == 1 {
			v.Sub(v, big.NewInt(1))
		}
	}
	if v.Cmp(lo) < 0 {
		v = lo
	}
	if v.Cmp(hi) > 0 {
		v = hi
	}
	mod := new(big.Int).Lsh(big.NewInt(1), uint(8*d.Size()))
	return new(big.Int).Mod(v, mod).Uint64()
}

func TestEncodeIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	base := []float64{0, 0.5, 1, 1.5, 2.5, 3.5, 1e300, 0x1p52, 0x1p52 + 1, 0x1p53, 0x1p-1074, math.Inf(1)}
	for _, d := range integers {
		limit, _ := new(big.Float).SetInt(func() *big.Int { _, hi := intRange(d); return hi }()).Float64()
		for _, off := range []float64{-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2} {
			base = append(base, limit+off)
		}
	}
	xs := []float64{math.NaN(), -math.NaN(), math.Float64frombits(0x7ff00000ffffffff)}
	for _, x := range base {
		for _, y := range []float64{x, math.Nextafter(x, 0), math.Nextafter(x, math.Inf(1))} {
			xs = append(xs, y, -y)
		}
	}
	for range 5000 {
		x := math.Ldexp(r.Float64()*2-1, r.IntN(70))
		xs = append(xs, x, math.Trunc(x)+0.5)
	}
	for _, d := range integers {
		t.Run(d.String(), func(t *testing.T) {
			bulk, sat := make([]byte, len(xs)*d.Size()), make([]byte, len(xs)*d.Size())
			dtype.Encode(bulk, d, xs)
			dtype.EncodeSaturating(sat, d, xs)
			for i, x := range xs {
				want := wantInt(d, x)
				if got := d.Bits(x); got != want {
					t.Errorf("Bits(%v) = %#x, want %#x", x, got, want)
				}
				if got := d.BitsSaturating(x); got != want {
					t.Errorf("BitsSaturating(%v) = %#x, want %#x", x, got, want)
				}
				if got := d.Load(bulk[i*d.Size():]); got != want {
					t.Errorf("Encode of %v = %#x, want %#x", x, got, want)
				}
				if got := d.Load(sat[i*d.Size():]); got != want {
					t.Errorf("EncodeSaturating of %v = %#x, want %#x", x, got, want)
				}
				x32 := float32(x)
				if got, want := d.BitsFloat32(x32), wantInt(d, float64(x32)); got != want {
					t.Errorf("BitsFloat32(%v) = %#x, want %#x", x32, got, want)
				}
			}
		})
	}
}

// TestDecodeIntegers: exact up to 32 bits; 64 bits round once, to float64 and to float32.
func TestDecodeIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	codes := []uint64{0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
		1<<53 + 1, 1<<53 + 3, 1<<63 - 1, 1 << 63, 1<<63 + 1024, 1<<63 + 1025, 1<<64 - 1,
		// to float32 through float64 these round twice: up to a tie, then to even
		1<<62 + 1<<38 + 1, 1<<62 + 3<<38 - 1, 1<<63 + 1<<39 + 1, 1<<63 + 3<<39 - 1}
	for range 20000 {
		codes = append(codes, r.Uint64(), r.Uint64()>>r.IntN(64))
	}
	for _, d := range integers {
		t.Run(d.String(), func(t *testing.T) {
			src := make([]byte, len(codes)*d.Size())
			for i, code := range codes {
				d.Store(src[i*d.Size():], code)
			}
			bulk, bulk32 := make([]float64, len(codes)), make([]float32, len(codes))
			dtype.Decode(bulk, d, src)
			dtype.DecodeFloat32(bulk32, d, src)
			for i, code := range codes {
				value := new(big.Int).SetUint64(code & (1<<(8*d.Size()) - 1))
				if _, hi := intRange(d); value.Cmp(hi) > 0 {
					value.Sub(value, new(big.Int).Lsh(big.NewInt(1), uint(8*d.Size())))
				}
				want, _ := new(big.Rat).SetInt(value).Float64()
				want32, _ := new(big.Rat).SetInt(value).Float32()
				if got := d.Float64(code); got != want || bulk[i] != want {
					t.Errorf("Float64(%#x) = %v, Decode = %v, want %v", code, got, bulk[i], want)
				}
				if got := d.Float32(code); got != want32 || bulk32[i] != want32 {
					t.Errorf("Float32(%#x) = %v, DecodeFloat32 = %v, want %v", code, got, bulk32[i], want32)
				}
			}
		})
	}
}

func TestBool(t *testing.T) {
	for code := range 256 {
		want := 1.0
		if code == 0 {
			want = 0
		}
		var bulk [1]float64
		dtype.Decode(bulk[:], dtype.Bool, []byte{byte(code)})
		if got := dtype.Bool.Float64(uint64(code)); got != want || bulk[0] != want {
			t.Errorf("Float64(%d) = %v, Decode = %v, want %v", code, got, bulk[0], want)
		}
	}
	negZero := math.Copysign(0, -1)
	for _, tt := range []struct {
		x    float64
		want uint64
	}{{0, 0}, {negZero, 0}, {1, 1}, {-2, 1}, {0.25, 1}, {0x1p-1074, 1}, {math.NaN(), 1}, {math.Inf(-1), 1}} {
		var b [1]byte
		dtype.Encode(b[:], dtype.Bool, []float64{tt.x})
		if got := dtype.Bool.Bits(tt.x); got != tt.want || uint64(b[0]) != tt.want {
			t.Errorf("Bits(%v) = %d, Encode = %d, want %d", tt.x, got, b[0], tt.want)
		}
	}
}

// TestBulkLengths: loops that take several elements at a time agree with single conversions at every length.
func TestBulkLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, d := range dtype.All() {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 255, 256, 257, 1023, 1024, 1025} {
			size := d.Size()
			src := make([]byte, n*size)
			for i := range src {
				src[i] = byte(r.Uint32())
			}
			got, got32 := make([]float64, n), make([]float32, n)
			dtype.Decode(got, d, src)
			dtype.DecodeFloat32(got32, d, src)
			enc, sat, enc32 := make([]byte, n*size), make([]byte, n*size), make([]byte, n*size)
			dtype.Encode(enc, d, got)
			dtype.EncodeSaturating(sat, d, got)
			dtype.EncodeFloat32(enc32, d, got32)
			for i := range n {
				code := d.Load(src[i*size:])
				if err := sameBits(got[i], d.Float64(code)); err != nil {
					t.Errorf("Decode(%v, %d elements)[%d] = %v", d, n, i, err)
				}
				if g, w := math.Float32bits(got32[i]), math.Float32bits(d.Float32(code)); g != w {
					t.Errorf("DecodeFloat32(%v, %d elements)[%d] = %08x, want %08x", d, n, i, g, w)
				}
				if g, w := d.Load(enc[i*size:]), d.Bits(got[i]); g != w {
					t.Errorf("Encode(%v, %d elements)[%d] = %#x, want %#x", d, n, i, g, w)
				}
				if g, w := d.Load(sat[i*size:]), d.BitsSaturating(got[i]); g != w {
					t.Errorf("EncodeSaturating(%v, %d elements)[%d] = %#x, want %#x", d, n, i, g, w)
				}
				if g, w := d.Load(enc32[i*size:]), d.BitsFloat32(got32[i]); g != w {
					t.Errorf("EncodeFloat32(%v, %d elements)[%d] = %#x, want %#x", d, n, i, g, w)
				}
			}
		}
	}
}

// TestBulkLengthMismatch: a buffer that does not hold exactly the elements is a broken invariant.
func TestBulkLengthMismatch(t *testing.T) {
	f64, f32, b := make([]float64, 3), make([]float32, 3), make([]byte, 5)
	for name, f := range map[string]func(){
		"Decode: 3 elements of float16 in 5 bytes":            func() { dtype.Decode(f64, dtype.Float16, b) },
		"DecodeFloat32: 3 elements of int8 in 5 bytes":        func() { dtype.DecodeFloat32(f32, dtype.Int8, b) },
		"Encode: 3 elements of float16 in 5 bytes":            func() { dtype.Encode(b, dtype.Float16, f64) },
		"EncodeSaturating: 3 elements of bfloat16 in 5 bytes": func() { dtype.EncodeSaturating(b, dtype.BFloat16, f64) },
		"EncodeFloat32: 3 elements of bool in 5 bytes":        func() { dtype.EncodeFloat32(b, dtype.Bool, f32) },
		"Decode: 0 elements of invalid in 0 bytes":            func() { dtype.Decode(nil, dtype.Invalid, nil) },
		"Encode: 0 elements of dtype(99) in 0 bytes":          func() { dtype.Encode(nil, dtype.DType(99), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got, want := fmt.Sprint(recover()), "dtype: internal error: "+name; got != want {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			f()
		})
	}
}

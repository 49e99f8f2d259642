package dtype_test

import (
	"encoding/binary"
	"math"
	"testing"

	"gpuemu/internal/dtype"
)

// FuzzParse: a name is either refused or prints as a name of the same format.
func FuzzParse(f *testing.F) {
	for _, d := range dtype.All() {
		f.Add(d.String())
	}
	f.Add("bf16")
	f.Add("")
	f.Fuzz(func(t *testing.T, name string) {
		d, err := dtype.Parse(name)
		if (err == nil) == (d == dtype.Invalid) {
			t.Fatalf("Parse(%q) = %v, %v: a format and an error, or neither", name, d, err)
		}
		if err != nil {
			return
		}
		if back, err := dtype.Parse(d.String()); back != d || err != nil {
			t.Errorf("Parse(%q) = %v, %v, want %v", d.String(), back, err, d)
		}
	})
}

// FuzzEncodeDecode: whatever the bits, all ways to convert agree, a decoded value encodes to itself, and no value of
// the format is nearer to a number than the one it is encoded to.
func FuzzEncodeDecode(f *testing.F) {
	for d := range dtype.All() {
		for _, x := range []float64{0, 1, -464, 65520, 0x1p-10, math.Inf(-1), math.NaN(), 127.5} {
			f.Add(uint8(d), math.Float64bits(x))
		}
	}
	f.Fuzz(func(t *testing.T, format uint8, bits uint64) {
		d := dtype.All()[int(format)%len(dtype.All())]
		x := math.Float64frombits(bits)
		size := d.Size()
		one, many := make([]byte, size), make([]byte, 5*size)
		dtype.Encode(one, d, []float64{x})
		dtype.Encode(many, d, []float64{x, 0, x, 1, x})
		code := d.Bits(x)
		for _, b := range [][]byte{one, many, many[2*size:], many[4*size:]} {
			if got := d.Load(b); got != code {
				t.Errorf("Encode(%v, %v) = %#x, want %#x", d, x, got, code)
			}
		}
		v := d.Float64(code)
		if d != dtype.Int64 && d != dtype.Uint64 && d.Bits(v) != code {
			t.Errorf("%v.Bits(Float64(%#x)) = %#x", d, code, d.Bits(v))
		}
		decoded := make([]float64, 1)
		dtype.Decode(decoded, d, one)
		if err := sameBits(decoded[0], v); err != nil {
			t.Errorf("Decode(%v, %#x) = %v", d, code, err)
		}
		if math.IsNaN(x) {
			if d.IsFloat() && !d.IsNaN(code) {
				t.Errorf("%v.Bits(%v) = %#x, want a NaN", d, x, code)
			}
			return
		}
		if d.IsFloat() && math.Abs(x) < d.OverflowThreshold() {
			for _, near := range []uint64{code + 1, code - 1} {
				if w := d.Float64(near); math.Abs(x-w) < math.Abs(x-v) {
					t.Errorf("%v.Bits(%v) means %v, but %v is nearer", d, x, v, w)
				}
			}
		}
		x32 := math.Float32frombits(binary.LittleEndian.Uint32(binary.LittleEndian.AppendUint64(nil, bits)))
		dtype.EncodeFloat32(one, d, []float32{x32})
		if got, want := d.Load(one), d.BitsFloat32(x32); got != want {
			t.Errorf("EncodeFloat32(%v, %v) = %#x, want %#x", d, x32, got, want)
		}
	})
}

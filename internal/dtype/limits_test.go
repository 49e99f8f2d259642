package dtype_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
)

// This file implements the tests of names, limits, spacings and distances.

func TestLimits(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		d                                            dtype.DType
		size                                         int
		max, overflow, normal, subnormal, unitRounds float64
	}{
		{dtype.Float64, 8, math.MaxFloat64, inf, 0x1p-1022, 0x1p-1074, 0x1p-53},
		{dtype.Float32, 4, math.MaxFloat32, 0x1.ffffffp127, 0x1p-126, 0x1p-149, 0x1p-24},
		{dtype.Float16, 2, 65504, 65520, 0x1p-14, 0x1p-24, 0x1p-11},
		{dtype.BFloat16, 2, 0x1.fep127, 0x1.ffp127, 0x1p-126, 0x1p-133, 0x1p-8},
		{dtype.Float8E4M3FN, 1, 448, 464, 0x1p-6, 0x1p-9, 0x1p-4},
		{dtype.Float8E5M2, 1, 57344, 61440, 0x1p-14, 0x1p-16, 0x1p-3},
		{dtype.Int8, 1, 127, 127.5, 1, 1, 0},
		{dtype.Int16, 2, 32767, 32767.5, 1, 1, 0},
		{dtype.Int32, 4, 2147483647, 2147483647.5, 1, 1, 0},
		{dtype.Int64, 8, 0x1p63 - 1024, 0x1p63, 1, 1, 0},
		{dtype.Uint8, 1, 255, 255.5, 1, 1, 0},
		{dtype.Uint16, 2, 65535, 65535.5, 1, 1, 0},
		{dtype.Uint32, 4, 4294967295, 4294967295.5, 1, 1, 0},
		{dtype.Uint64, 8, 0x1p64 - 2048, 0x1p64, 1, 1, 0},
		{dtype.Bool, 1, 1, inf, 1, 1, 0},
		{dtype.Invalid, 0, 0, inf, 0, 0, 0},
	} {
		t.Run(tt.d.String(), func(t *testing.T) {
			check := func(name string, got, want float64) {
				t.Helper()
				if got != want {
					t.Errorf("%s() = %v, want %v", name, got, want)
				}
			}
			check("Size", float64(tt.d.Size()), float64(tt.size))
			check("MaxFinite", tt.d.MaxFinite(), tt.max)
			check("OverflowThreshold", tt.d.OverflowThreshold(), tt.overflow)
			check("SmallestNormal", tt.d.SmallestNormal(), tt.normal)
			check("SmallestSubnormal", tt.d.SmallestSubnormal(), tt.subnormal)
			check("UnitRoundoff", tt.d.UnitRoundoff(), tt.unitRounds)
			if tt.d != dtype.Invalid {
				check("Float64(Bits(MaxFinite))", tt.d.Float64(tt.d.Bits(tt.max)), tt.max)
				check("Float64(Bits(SmallestSubnormal))", tt.d.Float64(tt.d.Bits(tt.subnormal)), tt.subnormal)
			}
		})
	}
}

// TestOverflowThreshold: below it Bits stays finite, above it does not, and on it only e4m3fn does (it ties to even).
func TestOverflowThreshold(t *testing.T) {
	for _, d := range dtype.Floats()[1:] {
		limit := d.OverflowThreshold()
		if refs, ok := refFormats[d]; ok {
			if table := tableOf(t, d); limit != table.mids[table.last] {
				t.Errorf("%v: OverflowThreshold() = %v, want %v (%+v)", d, limit, table.mids[table.last], refs)
			}
		}
		for _, tt := range []struct {
			x    float64
			want bool
		}{
			{math.Nextafter(limit, 0), true},
			{limit, d == dtype.Float8E4M3FN},
			{math.Nextafter(limit, math.Inf(1)), false},
		} {
			for _, x := range []float64{tt.x, -tt.x} {
				v := d.Float64(d.Bits(x))
				if got := !math.IsInf(v, 0) && !math.IsNaN(v); got != tt.want {
					t.Errorf("%v: Bits(%v) is finite = %v, want %v", d, x, got, tt.want)
				}
				if got := d.Float64(d.BitsSaturating(x)); got != math.Copysign(d.MaxFinite(), x) {
					t.Errorf("%v: BitsSaturating(%v) = %v, want %v", d, x, got, math.Copysign(d.MaxFinite(), x))
				}
			}
		}
	}
}

// TestHalfULPSpacing: at each value, half the way to the next; between two values, that of the lower one.
func TestHalfULPSpacing(t *testing.T) {
	for _, d := range narrowFloats {
		table := tableOf(t, d)
		for i, mid := range table.mids {
			gap := new(big.Int).Sub(table.values[i+1], table.values[i])
			want := toFloat64(t, gap.Rsh(gap, 1))
			below := math.Nextafter(toFloat64(t, table.values[i+1]), 0)
			for _, x := range []float64{toFloat64(t, table.values[i]), mid, -mid, below} {
				if got := d.HalfULP(x); got != want {
					t.Fatalf("%v.HalfULP(%v) = %v, want %v", d, x, got, want)
				}
			}
		}
	}
	for _, tt := range []struct {
		d       dtype.DType
		x, want float64
	}{
		{dtype.Float64, 1, 0x1p-53}, {dtype.Float64, math.Nextafter(1, 0), 0x1p-54}, {dtype.Float64, -2, 0x1p-52},
		{dtype.Float64, math.MaxFloat64, 0x1p970}, {dtype.Float64, 0, 0x1p-1074}, {dtype.Float64, 0x1p-1074, 0x1p-1074},
		{dtype.Float64, 0x1p-1022, 0x1p-1074}, {dtype.Float64, 0x1p-1021, 0x1p-1074},
		{dtype.Float64, 0x1p-1020, 0x1p-1073}, {dtype.Float64, 0x1p-970, 0x1p-1023},
		{dtype.Float64, 0x1p-969, 0x1p-1022},
		{dtype.Float32, 1, 0x1p-24}, {dtype.Float32, 0, 0x1p-150}, {dtype.Float32, 0x1p-126, 0x1p-150},
		{dtype.Float32, 0x1p-125, 0x1p-149}, {dtype.Float32, math.MaxFloat32, 0x1p103},
		{dtype.Float16, 1e6, 256}, {dtype.Float8E4M3FN, 500, 16}, {dtype.Float8E4M3FN, 512, 32},
		{dtype.Float16, math.Inf(1), 0}, {dtype.Float16, math.NaN(), 0}, {dtype.Int8, math.Inf(-1), 0},
		{dtype.Int8, 3, 0.5}, {dtype.Uint64, 0x1p60, 0.5}, {dtype.Bool, 1, 0}, {dtype.Invalid, 1, 0},
	} {
		if got := tt.d.HalfULP(tt.x); got != tt.want {
			t.Errorf("%v.HalfULP(%v) = %v, want %v", tt.d, tt.x, got, tt.want)
		}
	}
}

// TestHalfULPBounds: rounding a value never errs by more than HalfULP, and HalfULP never falls.
func TestHalfULPBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, d := range dtype.Floats()[1:] {
		xs := make([]float64, 50000)
		for i := range xs {
			lo, hi := math.Ilogb(d.SmallestSubnormal())-3, math.Ilogb(d.MaxFinite())
			xs[i] = math.Ldexp(1+r.Float64(), lo+r.IntN(hi-lo+1))
		}
		slices.Sort(xs)
		last := 0.0
		for _, x := range xs {
			half := d.HalfULP(x)
			if half < last {
				t.Fatalf("%v.HalfULP(%v) = %v, less than %v below it", d, x, half, last)
			}
			last = half
			if v := d.Float64(d.Bits(x)); x < d.OverflowThreshold() && math.Abs(v-x) > half {
				t.Fatalf("%v: Bits(%v) means %v, an error of more than %v", d, x, v, half)
			}
		}
	}
}

func TestULPDistanceAllPairs(t *testing.T) {
	for _, d := range []dtype.DType{dtype.Float8E4M3FN, dtype.Float8E5M2, dtype.Int8, dtype.Uint8, dtype.Bool} {
		// rank is the place of a value among all values of the format.
		var values []float64
		for code := range uint64(256) {
			if v := d.Float64(code); v == v {
				values = append(values, v)
			}
		}
		slices.Sort(values)
		values = slices.Compact(values) // -0 and +0 are one value
		rank := func(code uint64) int { i, _ := slices.BinarySearch(values, d.Float64(code)); return i }
		for a := range uint64(256) {
			for b := range uint64(256) {
				want := uint64(max(rank(a), rank(b)) - min(rank(a), rank(b)))
				switch nanA, nanB := d.IsNaN(a), d.IsNaN(b); {
				case nanA && nanB:
					want = 0
				case nanA || nanB:
					want = math.MaxUint64
				}
				if got := d.ULPDistance(a, b); got != want {
					t.Fatalf("%v.ULPDistance(%#x, %#x) = %d, want %d", d, a, b, got, want)
				}
			}
		}
	}
}

func TestULPDistance(t *testing.T) {
	const far = math.MaxUint64
	for _, tt := range []struct {
		d          dtype.DType
		a, b, want uint64
	}{
		{dtype.Float64, 0x8000000000000000, 0, 0},
		{dtype.Float64, 0x8000000000000001, 1, 2},
		{dtype.Float64, 0x3ff0000000000000, 0x3ff0000000000003, 3},
		{dtype.Float64, 0xfff0000000000000, 0x7ff0000000000000, 2 * 0x7ff0000000000000},
		{dtype.Float64, 0x7fefffffffffffff, 0x7ff0000000000000, 1},
		{dtype.Float64, 0x7ff8000000000000, 0xfff0000000000001, 0},
		{dtype.Float64, 0x7ff8000000000000, 0x7ff0000000000000, far},
		{dtype.Float32, 0x80000001, 0x00000002, 3},
		{dtype.Float32, 0x7f800000, 0x7f800001, far},
		{dtype.Float32, 0xffffffff, 0x7f800001, 0},
		{dtype.Float16, 0x3c00, 0x3bff, 1},
		{dtype.Float16, 0xfc00, 0x7c00, 0xf800},
		{dtype.Float16, 0x7c01, 0x7c00, far},
		{dtype.BFloat16, 0x3f80, 0xbf80, 0x7f00},
		{dtype.Int16, 0x8000, 0x7fff, 0xffff},
		{dtype.Int32, 0xffffffff, 1, 2},
		{dtype.Int64, 1 << 63, 1<<63 - 1, math.MaxUint64},
		{dtype.Uint16, 0, 0xffff, 0xffff},
		{dtype.Uint64, 5, 1<<64 - 1, 1<<64 - 6},
		{dtype.Bool, 2, 1, 0},
		{dtype.Invalid, 2, 1, 0},
	} {
		if got := tt.d.ULPDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("%v.ULPDistance(%#x, %#x) = %d, want %d", tt.d, tt.a, tt.b, got, tt.want)
		}
		if got := tt.d.ULPDistance(tt.b, tt.a); got != tt.want {
			t.Errorf("%v.ULPDistance(%#x, %#x) = %d, want %d", tt.d, tt.b, tt.a, got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	names := map[dtype.DType]string{
		dtype.Float64: "float64 f64 double", dtype.Float32: "float32 f32 float", dtype.Float16: "float16 f16 half",
		dtype.BFloat16: "bfloat16 bf16", dtype.Float8E4M3FN: "float8_e4m3fn float8_e4m3 e4m3fn e4m3",
		dtype.Float8E5M2: "float8_e5m2 e5m2", dtype.Int8: "int8 i8", dtype.Int16: "int16 i16",
		dtype.Int32: "int32 i32", dtype.Int64: "int64 i64", dtype.Uint8: "uint8 u8", dtype.Uint16: "uint16 u16",
		dtype.Uint32: "uint32 u32", dtype.Uint64: "uint64 u64", dtype.Bool: "bool",
	}
	if len(names) != len(dtype.All()) {
		t.Fatalf("All() has %d formats, want %d", len(dtype.All()), len(names))
	}
	for i, d := range dtype.All() {
		if d != dtype.DType(i+1) {
			t.Errorf("All()[%d] = %d, want %d", i, d, i+1)
		}
		for j, name := range strings.Fields(names[d]) {
			if got, err := dtype.Parse(name); got != d || err != nil {
				t.Errorf("Parse(%q) = %v, %v, want %v", name, got, err, d)
			}
			if j == 0 && d.String() != name {
				t.Errorf("DType(%d).String() = %q, want %q", d, d.String(), name)
			}
		}
		text, err := d.MarshalText()
		var back dtype.DType
		if err2 := back.UnmarshalText(text); err != nil || err2 != nil || back != d {
			t.Errorf("UnmarshalText(MarshalText(%v)) = %v, %v, %v", d, back, err, err2)
		}
	}
	for _, name := range []string{"", "invalid", "Float32", "fp32", "float128", " f32", "f8", "dtype(99)"} {
		d, err := dtype.Parse(name)
		if d != dtype.Invalid || err == nil || err.Error() != fmt.Sprintf("unknown dtype %q", name) {
			t.Errorf("Parse(%q) = %v, %v, want invalid and an error that quotes it", name, d, err)
		}
		if err := new(dtype.DType).UnmarshalText([]byte(name)); err == nil {
			t.Errorf("UnmarshalText(%q) = nil, want an error", name)
		}
	}
	const hint = "use one of float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, " +
		"int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool"
	if got := (&dtype.NameError{}).Hint(); got != hint {
		t.Errorf("Hint() = %q, want %q", got, hint)
	}
	for _, d := range []dtype.DType{dtype.Invalid, 99} {
		if text, err := d.MarshalText(); err == nil {
			t.Errorf("DType(%d).MarshalText() = %q, want an error", d, text)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		set  string
		is   func(dtype.DType) bool
		want []dtype.DType
	}{
		{"IsFloat", dtype.DType.IsFloat, dtype.Floats()},
		{"IsInteger", dtype.DType.IsInteger, integers},
		{"IsSigned", dtype.DType.IsSigned, append(dtype.Floats(), integers[:4]...)},
	} {
		for d := range dtype.DType(100) {
			if got, want := tt.is(d), slices.Contains(tt.want, d); got != want {
				t.Errorf("%v.%s() = %v, want %v", d, tt.set, got, want)
			}
		}
	}
	for _, d := range []dtype.DType{dtype.Invalid, 99} {
		b := []byte{1}
		d.Store(b, 7)
		if v := d.Float64(1); d.Size() != 0 || d.Bits(1) != 0 || d.Load(b) != 0 || b[0] != 1 || v == v || d.IsNaN(1) {
			t.Errorf("DType(%d) is not inert", d)
		}
	}
}

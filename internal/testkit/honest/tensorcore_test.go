package honest

import (
	"math"
	"math/big"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/rng"
)

// dotCase is a dot product computed by hand for each generation.
type dotCase struct {
	name                  string
	t                     dtype.DType
	c                     float64
	x, y                  []float64
	volta, ampere, hopper float64
}

func TestTensorCoreByHand(t *testing.T) {
	e := 0x1p-12
	for _, tt := range []dotCase{
		{
			// One ulp below the last place: truncated at once (F=23), or kept in the sum and truncated in the result.
			"1+2^-24", dtype.Float16, 0, []float64{1, e}, []float64{1, e}, 1, 1, 1,
		},
		{
			// Two halves of the last place: only F>=24 sees them.
			"1+2·2^-24", dtype.Float16, 0, []float64{1, e, e}, []float64{1, e, e}, 1, 1 + 0x1p-23, 1 + 0x1p-23,
		},
		{
			// Three quarters of it, and one more: only F=25.
			"1+4·2^-25", dtype.Float16, 0, []float64{1, e, e, e, e}, []float64{1, e / 2, e / 2, e / 2, e / 2},
			1, 1, 1 + 0x1p-23,
		},
		{
			// 1.5·1.5 = 2.25 counts with exponent 0, not 1: two terms of 2^-23 survive F=23.
			"product not normalised", dtype.Float16, 0, []float64{1.5, 2 * e, 2 * e}, []float64{1.5, e, e},
			2.25 + 0x1p-22, 2.25 + 0x1p-22, 2.25 + 0x1p-22,
		},
		{
			// Cancellation: what is left of 1 beside 2^24 (FTTN's test).
			"2^24+1-2^24", dtype.Float16, 0, []float64{4096, 1, -4096}, []float64{4096, 1, 4096}, 0, 1, 1,
		},
		{
			"2^25+1-2^25", dtype.Float16, 0, []float64{4096, 1, -4096}, []float64{8192, 1, 8192}, 0, 0, 1,
		},
		{
			// Towards zero on both sides.
			"-1-2^-24-2^-25", dtype.Float16, 0, []float64{-1, -e, -e}, []float64{1, e, e / 2}, -1, -1, -1,
		},
		{
			// The accumulator is a term like the others.
			"c=2^24", dtype.Float16, 0x1p24, []float64{1, 1}, []float64{1, 1}, 0x1p24, 0x1p24 + 2, 0x1p24 + 2,
		},
		{
			// A float16 subnormal has exponent -14: 2^-24·1 counts with -14, so the unit is 2^-37, 2^-38 or 2^-39.
			"subnormal operand", dtype.Float16, 0, []float64{0x1p-24, 0x1p-14}, []float64{1, 0x1p-24},
			0x1p-24, 0x1p-24 + 0x1p-38, 0x1p-24 + 0x1p-38,
		},
		{
			// In bfloat16 the products 2^200 do not overflow inside a block; the 1 is lost.
			"2^200-2^200+1", dtype.BFloat16, 0, []float64{0x1p100, -0x1p100, 1}, []float64{0x1p100, 0x1p100, 1}, 0, 0, 0,
		},
		{
			"overflow", dtype.BFloat16, 0, []float64{0x1p127, 1}, []float64{2, 1}, inf, inf, inf,
		},
		{
			// Nothing below 2^-149 is left: the accumulator's zero has exponent -126.
			"2^-160", dtype.BFloat16, 0, []float64{0x1p-80}, []float64{0x1p-80}, 0, 0, 0,
		},
		{"inf", dtype.Float16, 0, []float64{inf, 1}, []float64{1, 1}, inf, inf, inf},
		{"fp8", dtype.Float8E4M3FN, 0, []float64{448, 0x1p-9}, []float64{448, 0x1p-6}, 200704, 200704, 200704},
	} {
		for tc, want := range map[TC]float64{Volta: tt.volta, Ampere: tt.ampere, Hopper: tt.hopper} {
			m := New(dtype.Float32, Style{TensorCore: tc}, 1)
			m.setCase(tt.t, false)
			if got := m.DotFrom(tt.c, tt.x, tt.y, true); got != want {
				t.Errorf("%s on core %d = %v, want %v", tt.name, tc, got, want)
			}
		}
	}
	for _, x := range [][]float64{{inf, 0}, {inf, -inf}, {math.NaN(), 1}} {
		m := New(dtype.Float32, Style{TensorCore: Ampere}, 1)
		m.setCase(dtype.Float16, false)
		if got := m.Dot(x, []float64{1, x[0]}, true); x[1] != 1 && got == got {
			t.Errorf("dot(%v, [1 %v]) = %v, want NaN", x, x[0], got)
		}
	}
}

// TestBlocks: the same terms, more of them than a block has.
func TestBlocks(t *testing.T) {
	// 1, then many products 2^-24: inside a block with the 1 they are below F=23 but not F=24; each later block
	// starts from the truncated accumulator.
	n := 33
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i], y[i] = 0x1p-12, 0x1p-12
	}
	x[0], y[0] = 1, 1
	for _, tt := range []struct {
		tc   TC
		want float64
	}{
		{Volta, 1}, // always below the unit 2^-23 of an accumulator 1
		// Blocks of 8: 1+7·2^-24 -> 1+3·2^-23; then +8·2^-24 = 4·2^-23 three times; then one term, truncated away.
		{Ampere, 1 + (3+4+4+4)*0x1p-23},
		// Blocks of 16: 15 terms -> 7·2^-23, 16 -> 8·2^-23, one.
		{Hopper, 1 + (7+8)*0x1p-23},
	} {
		m := New(dtype.Float32, Style{TensorCore: tt.tc}, 1)
		m.setCase(dtype.Float16, false)
		if got := m.Dot(x, y, true); got != tt.want {
			t.Errorf("core %d: 1 + 32·2^-24 = 1 + %v·2^-23, want 1 + %v·2^-23", tt.tc, (got-1)*0x1p23, (tt.want-1)*0x1p23)
		}
	}
}

func TestFP8Accumulation(t *testing.T) {
	// 1 and 255 terms of 2^-14. Hopper keeps 13 fractional bits: beside the 1 nothing is left of them in blocks of 32.
	n := 256
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i], y[i] = 0x1p-7, 0x1p-7
	}
	x[0], y[0] = 1, 1
	m := New(dtype.Float32, Style{TensorCore: Hopper}, 1)
	m.setCase(dtype.Float8E4M3FN, false)
	if got := m.dotFP8(x, y, true); got != 1 {
		t.Errorf("fast accumulation: %v, want 1", got)
	}
	// Promotion after 128 terms: the second 128 terms add up to 2^-7 by themselves.
	if got, want := m.dotFP8(x, y, false), 1+0x1p-7; got != want {
		t.Errorf("accumulation with promotion: %v, want %v", got, want)
	}
	m = New(dtype.Float32, Style{TensorCore: Ampere}, 1)
	m.setCase(dtype.Float8E4M3FN, false)
	if got, want := m.dotFP8(x, y, true), 1+255*0x1p-14; got != want {
		t.Errorf("24 fractional bits: %v, want %v", got, want)
	}
}

// TestTensorCoreAgainstIntegers compares blocks with the same rule in big integers.
func TestTensorCoreAgainstIntegers(t *testing.T) {
	r := rng.New(17)
	for _, d := range []dtype.DType{dtype.Float16, dtype.BFloat16, dtype.Float8E4M3FN, dtype.Float8E5M2} {
		for _, tc := range []TC{Volta, Ampere, Hopper} {
			m := New(dtype.Float32, Style{TensorCore: tc}, 1)
			m.setCase(d, false)
			core := m.coreOf()
			x, y := make([]float64, core.block), make([]float64, core.block)
			for range 400 {
				for i := range x {
					x[i], y[i] = drawNarrow(r, d), drawNarrow(r, d)
				}
				c := float64(float32(r.Normal() * math.Exp2(float64(r.Intn(40)-20))))
				if got, want := core.fuse(c, x, y), fuseBig(core, c, x, y); got != want {
					t.Fatalf("%s on core %d: fuse(%v, %v, %v) = %v, want %v", d, tc, c, x, y, got, want)
				}
			}
		}
	}
}

// drawNarrow returns a finite value of d of any size, zero now and then.
func drawNarrow(r *rng.RNG, d dtype.DType) float64 {
	if r.Bool(0.05) {
		return 0
	}
	for {
		v := d.Float64(r.Uint64() & (1<<(8*d.Size()) - 1))
		if d == dtype.BFloat16 && math.Abs(v) > 0x1p60 {
			continue
		}
		if v-v == 0 {
			return v
		}
	}
}

// fuseBig is one block in exact arithmetic: terms are integers in units of 2^-400.
func fuseBig(k core, c float64, x, y []float64) float64 {
	const unit = 400
	toInt := func(p float64) *big.Int {
		f := new(big.Float).SetPrec(2000).SetFloat64(p)
		i, _ := f.SetMantExp(f, unit).Int(nil)
		return i
	}
	_, ec := math.Frexp(c)
	top := max(ec-1, emin32)
	for i := range x {
		if x[i]*y[i] != 0 {
			_, ea := math.Frexp(x[i])
			_, eb := math.Frexp(y[i])
			top = max(top, max(ea-1, k.emin)+max(eb-1, k.emin))
		}
	}
	drop := uint(unit + top - k.frac)
	sum := new(big.Int)
	term := func(p float64) {
		v := toInt(p)
		sign := v.Sign()
		v.Abs(v).Rsh(v, drop).Lsh(v, drop)
		if sign < 0 {
			v.Neg(v)
		}
		sum.Add(sum, v)
	}
	term(c)
	for i := range x {
		term(x[i] * y[i])
	}
	f := new(big.Float).SetPrec(24).SetMode(big.ToZero).SetInt(sum)
	if v, _ := new(big.Float).SetMantExp(f, -unit).Float64(); math.Abs(v) >= minNormal32 || v == 0 {
		return v
	}
	sign := sum.Sign()
	sum.Abs(sum).Rsh(sum, unit-149)
	v, _ := new(big.Float).SetInt(sum).Float64()
	return float64(sign) * math.Ldexp(v, -149)
}

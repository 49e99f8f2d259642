package honest

import (
	"math"
	"math/big"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/rng"
	"gpuemu/internal/testkit/bigmath"
)

var inf = math.Inf(1)

// drawFloat32 returns numbers of all kinds: near each other in size, far apart, subnormal, powers of two.
func drawFloat32(r *rng.RNG) float32 {
	u := uint32(r.Uint64())
	switch r.Intn(4) {
	case 0:
		u = u&0x807fffff | uint32(120+r.Intn(16))<<23
	case 1:
		u &= 0x80ffffff // subnormal or just above
	case 2:
		u = u & 0xff800007 // few significant bits, so that sums land on ties
	}
	if u>>23&0xff == 0xff {
		u &^= 1 << 23
	}
	return math.Float32frombits(u)
}

// round32 is the float32 nearest to a rational number.
func round32(x *big.Rat) float32 {
	f, _ := x.Float32()
	return f
}

func rat(x float32) *big.Rat { return new(big.Rat).SetFloat64(float64(x)) }

func TestArithmeticIsCorrectlyRounded(t *testing.T) {
	m := New(dtype.Float32, Style{FMA: true}, 1)
	r := rng.New(1)
	for range 60000 {
		a, b, c := drawFloat32(r), drawFloat32(r), drawFloat32(r)
		if r.Bool(0.3) {
			c = -a * b // cancellation
		}
		x, y, z := float64(a), float64(b), float64(c)
		if c-c != 0 || b == 0 {
			continue
		}
		prod := new(big.Rat).Mul(rat(a), rat(b))
		for _, tt := range []struct {
			name string
			got  float64
			want *big.Rat
		}{
			{"Add", m.Add(x, y), new(big.Rat).Add(rat(a), rat(b))},
			{"Sub", m.Sub(x, y), new(big.Rat).Sub(rat(a), rat(b))},
			{"Mul", m.Mul(x, y), prod},
			{"Div", m.Div(x, y), new(big.Rat).Quo(rat(a), rat(b))},
			{"FMA", m.FMA(x, y, z), new(big.Rat).Add(prod, rat(c))},
		} {
			if want := round32(tt.want); float32(tt.got) != want || float64(want) != tt.got {
				t.Fatalf("%s(%g, %g, %g) = %g, want %g", tt.name, x, y, z, tt.got, want)
			}
		}
	}
	// Through float64 this rounds twice (house style, example 6).
	if got, want := m.FMA(24929, 673*0x1p-24, 0x1p-60), float64(math.Float32frombits(0x3f800001)); got != want {
		t.Errorf("FMA(24929, 673·2^-24, 2^-60) = %v, want %v", got, want)
	}
	// A subnormal result whose float64 sum lies on the middle of two float32: 2^-149·(1/2 + 2^-60), rounded up.
	if got, want := m.FMA(0x1p-75, 0x1p-75, 0x1p-149), 0x1p-148; got != want {
		t.Errorf("FMA(2^-75, 2^-75, 2^-149) = %v, want %v", got, want)
	}
	if got, want := m.FMA(0x1.000002p-75, 0x1p-75, 0), 0x1p-149; got != want {
		t.Errorf("FMA(1.000002·2^-75, 2^-75, 0) = %v, want %v", got, want)
	}
}

func TestMulAdd(t *testing.T) {
	x := 1 + 0x1p-12 // its square, 1+2^-11+2^-24, is a tie in float32
	fused := New(dtype.Float32, Style{FMA: true}, 1).MulAdd(x, x, -1)
	parts := New(dtype.Float32, Style{}, 1).MulAdd(x, x, -1)
	if fused != 0x1p-11+0x1p-24 || parts != 0x1p-11 {
		t.Errorf("MulAdd(1+2^-12, 1+2^-12, -1) = %v fused, %v in parts, want %v and %v", fused, parts, 0x1p-11+0x1p-24,
			0x1p-11)
	}
}

func TestFlushToZero(t *testing.T) {
	m := New(dtype.Float32, Style{FTZ: true}, 1)
	keep := New(dtype.Float32, Style{}, 1)
	tiny, low := 0x1p-130, 0x1p-126
	for _, tt := range []struct {
		name            string
		flushed, kept   float64
		wantFlush, want float64
	}{
		{"subnormal operand", m.Add(tiny, 1), keep.Add(tiny, 1), 1, 1},
		{"subnormal operand times 2^20", m.Mul(tiny, 0x1p20), keep.Mul(tiny, 0x1p20), 0, 0x1p-110},
		{"subnormal result", m.Sub(low*1.5, low), keep.Sub(low*1.5, low), 0, low / 2},
		{"smallest normal stays", m.Mul(low, 1), keep.Mul(low, 1), low, low},
		{"fma", m.FMA(tiny, 0x1p20, tiny), keep.FMA(tiny, 0x1p20, tiny), 0, 0x1p-110 + 0x1p-130},
		{"division by a subnormal", m.Div(1, tiny), keep.Div(0x1p-10, tiny), inf, 0x1p120},
		{"maximum", m.Max(tiny, 0), keep.Max(tiny, 0), 0, tiny},
		{"exp", m.Exp(-90), keep.Exp(-90), 0, float64(float32(math.Exp(-90)))},
		{"log", m.Log(tiny), keep.Log(tiny), -inf, float64(float32(-130 * math.Ln2))},
		{"rsqrt", m.Rsqrt(tiny), keep.Rsqrt(tiny), inf, 0x1p65},
		{"sum", m.Sum([]float64{tiny, tiny, low}), keep.Sum([]float64{tiny, tiny, low}), low, low + 2*tiny},
	} {
		if tt.flushed != tt.wantFlush || tt.kept != tt.want {
			t.Errorf("%s: %v flushed and %v kept, want %v and %v", tt.name, tt.flushed, tt.kept, tt.wantFlush, tt.want)
		}
	}
	if got := m.Mul(-tiny, 1); got != 0 || !math.Signbit(got) {
		t.Errorf("Mul(-2^-130, 1) = %v, want -0", got)
	}
}

// function is an approximate function, its exact value and its documented bound: steps from the correctly rounded
// result, or a distance from the exact one.
type function struct {
	name  string
	call  func(m *Machine, x float64) float64
	exact func(b *bigmath.Math, x *big.Float) *big.Float
	steps int
	slack func(x, exact float64) float64
	args  func(r *rng.RNG) float64
}

func functions() []function {
	pos := func(r *rng.RNG) float64 { return math.Abs(float64(drawFloat32(r) + 0x1p-149)) }
	small := func(r *rng.RNG) float64 { return float64(float32(8 * r.Normal())) }
	rel := func(bound float64) func(x, exact float64) float64 {
		return func(_, exact float64) float64 { return bound * math.Abs(exact) }
	}
	one := func(b *bigmath.Math) *big.Float { return b.FromFloat64(1) }
	return []function{
		{"Exp2", (*Machine).Exp2, (*bigmath.Math).Exp2, ex2ULP, nil, func(r *rng.RNG) float64 {
			return float64(float32(40 * r.Normal()))
		}},
		{"Rcp", (*Machine).Rcp, func(b *bigmath.Math, x *big.Float) *big.Float {
			return new(big.Float).SetPrec(200).Quo(one(b), x)
		}, rcpULP, nil, pos},
		{"Div", func(m *Machine, x float64) float64 { return m.Div(3, x) }, func(b *bigmath.Math, x *big.Float) *big.Float {
			return new(big.Float).SetPrec(200).Quo(b.FromFloat64(3), x)
		}, divULP, nil, pos},
		{"Erf", (*Machine).Erf, (*bigmath.Math).Erf, elemULP, nil, small},
		{"Expm1", (*Machine).Expm1, (*bigmath.Math).Expm1, elemULP, nil, small},
		{"Log1p", (*Machine).Log1p, (*bigmath.Math).Log1p, elemULP, nil, pos},
		{"Sqrt", (*Machine).Sqrt, (*bigmath.Math).Sqrt, 0, rel(0x1p-23), pos},
		{"Rsqrt", (*Machine).Rsqrt, func(b *bigmath.Math, x *big.Float) *big.Float {
			return new(big.Float).SetPrec(200).Quo(one(b), b.Sqrt(x))
		}, 0, rel(math.Exp2(-22.9)), pos},
		{"Tanh", (*Machine).Tanh, (*bigmath.Math).Tanh, 0, rel(0x1p-11), small},
		{"Lg2", (*Machine).Lg2, (*bigmath.Math).Log2, 0, func(x, exact float64) float64 {
			if x > 0.5 && x < 2 {
				return 0x1p-22
			}
			return 0x1p-22 * math.Abs(exact)
		}, pos},
	}
}

func TestApproximationsKeepTheirBounds(t *testing.T) {
	b := bigmath.New(120)
	for _, f := range functions() {
		for _, a := range []Approx{Exact, High, Low, Random} {
			m := New(dtype.Float32, Style{Approx: a}, 7)
			r := rng.New(3)
			reached := 0.0
			for range 1500 {
				x := f.args(r)
				big1 := f.exact(b, b.FromFloat64(x))
				exact, _ := big1.Float64()
				nearest, _ := big1.Float32()
				got := f.call(m, x)
				if math.Abs(exact) > maxFloat32 || exact == 0 {
					continue
				}
				var err float64
				if f.slack == nil {
					err = float64(dtype.Float32.ULPDistance(dtype.Float32.Bits(got), uint64(math.Float32bits(nearest)))) /
						float64(f.steps)
				} else {
					if float32(got) != nearest {
						err = math.Abs(got-exact) / f.slack(x, exact)
					}
				}
				if limit := 1 + 1e-12; !(err <= limit) || a == Exact && f.slack == nil && err != 0 {
					t.Fatalf("%s(%g) = %g in style %d, exact %g: %g of the bound", f.name, x, got, a, exact, err)
				}
				reached = max(reached, err)
			}
			if a != Exact && reached < 0.5 {
				t.Errorf("%s in style %d reaches %g of its bound, want more than half", f.name, a, reached)
			}
		}
	}
}

func TestIEEEIsCorrectlyRounded(t *testing.T) {
	r := rng.New(5)
	m := New(dtype.Float32, Style{Approx: High, FTZ: true, TensorCore: Ampere, Variant: AltDiv | AltFold}, 1)
	m.setCase(dtype.Float16, true)
	for range 20000 {
		a, b := drawFloat32(r), drawFloat32(r)
		if b == 0 {
			continue
		}
		if got := m.Div(float64(a), float64(b)); got != float64(a/b) {
			t.Fatalf("Div(%g, %g) = %g, want %g", a, b, got, a/b)
		}
		s := float32(math.Abs(float64(a)))
		if got, want := m.Sqrt(float64(s)), math.Sqrt(float64(s)); got != float64(float32(want)) {
			t.Fatalf("Sqrt(%g) = %g, want %g", s, got, want)
		}
	}
	if got := m.Mul(0x1p-130, 1); got != 0x1p-130 {
		t.Errorf("Mul(2^-130, 1) = %v, want 2^-130", got)
	}
	if m.tc != NoTC {
		t.Error("math=ieee uses a tensor core")
	}
	if got, want := m.Tanh(0.5), step(float32(math.Tanh(0.5)), 2); got != float64(want) {
		t.Errorf("Tanh(0.5) = %v, want %v", got, want)
	}
}

func TestSpecialValues(t *testing.T) {
	nan := math.NaN()
	for _, s := range Styles() {
		m := New(dtype.Float32, s, 1)
		for _, tt := range []struct {
			name      string
			got, want float64
		}{
			{"Exp2(0)", m.Exp2(0), 1},
			{"Exp(0)", m.Exp(0), 1},
			{"Exp(-Inf)", m.Exp(-inf), 0},
			{"Exp(Inf)", m.Exp(inf), inf},
			{"Exp(-200)", m.Exp(-200), 0},
			{"Log(0)", m.Log(0), -inf},
			{"Log(-1)", m.Log(-1), nan},
			{"Log(Inf)", m.Log(inf), inf},
			{"Rcp(0)", m.Rcp(0), inf},
			{"Rcp(-Inf)", m.Rcp(-inf), 0},
			{"Rsqrt(0)", m.Rsqrt(0), inf},
			{"Rsqrt(-0)", m.Rsqrt(math.Copysign(0, -1)), -inf},
			{"Rsqrt(-1)", m.Rsqrt(-1), nan},
			{"Rsqrt(Inf)", m.Rsqrt(inf), 0},
			{"Sqrt(0)", m.Sqrt(0), 0},
			{"Sqrt(-1)", m.Sqrt(-1), nan},
			{"Sqrt(Inf)", m.Sqrt(inf), inf},
			{"Div(1, Inf)", m.Div(1, inf), 0},
			{"Div(Inf, Inf)", m.Div(inf, inf), nan},
			{"Div(0, 0)", m.Div(0, 0), nan},
			{"Div(NaN, 2)", m.Div(nan, 2), nan},
			{"Erf(-Inf)", m.Erf(-inf), -1},
			{"Erf(NaN)", m.Erf(nan), nan},
			{"Tanh(NaN)", m.Tanh(nan), nan},
			{"Max(NaN, 1)", m.Max(nan, 1), nan},
			{"Max(1, NaN)", m.Max(1, nan), nan},
			{"Expm1(-Inf)", m.Expm1(-inf), -1},
		} {
			same := tt.got == tt.want || tt.got != tt.got && tt.want != tt.want
			if !same && !(tt.name == "Expm1(-Inf)" && math.Abs(tt.got+1) < 1e-6) {
				t.Errorf("%s: %s = %v, want %v", s.Name, tt.name, tt.got, tt.want)
			}
		}
		// Beyond 2^126 the reciprocal is subnormal: div.approx and flushed reciprocals give 0.
		if got := m.Div(0x1p120, 0x1p127); got != 0 && !(math.Abs(got-0x1p-7) <= 0x1p-7*0x1p-20) {
			t.Errorf("%s: Div(2^120, 2^127) = %v, want 0 or 2^-7", s.Name, got)
		}
	}
	m := New(dtype.Float32, Style{Approx: High, FTZ: true}, 1)
	if got := m.Div(inf, 0x1p127); got == got {
		t.Errorf("div.approx(Inf, 2^127) = %v, want NaN", got)
	}
	if got := m.Div(0x1p120, 0x1p127); got != 0 {
		t.Errorf("div.approx(2^120, 2^127) = %v, want 0", got)
	}
}

func TestFloat64HasNoApproximations(t *testing.T) {
	m := New(dtype.Float64, Style{Approx: High, FTZ: true, TensorCore: Hopper, Variant: AltDiv}, 1)
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"Div(1, 3)", m.Div(1, 3), 1.0 / 3},
		{"Rsqrt(3)", m.Rsqrt(3), 1 / math.Sqrt(3)},
		{"Mul(2^-140, 1)", m.Mul(0x1p-140, 1), 0x1p-140},
		{"Cast(1+2^-30, float64)", m.Cast(1+0x1p-30, dtype.Float64), 1 + 0x1p-30},
		{"FMA", m.FMA(1+0x1p-52, 1+0x1p-52, -1), math.FMA(1+0x1p-52, 1+0x1p-52, -1)},
	} {
		if tt.got != tt.want {
			t.Errorf("%s = %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	if got, want := m.Exp(1), math.E; !(got > want-1e-15 && got <= want+2e-15) {
		t.Errorf("Exp(1) = %v, want e or a little more", got)
	}
}

func TestOrdersOfSummation(t *testing.T) {
	// In float32 1e8 has ulp 8 and swallows every 1: the order decides how many survive.
	x := make([]float64, 65)
	for i := range x {
		x[i] = 1
	}
	x[0] = 1e8
	for _, tt := range []struct {
		order Order
		want  float64
	}{
		{Sequential, 1e8}, {Reversed, 1e8 + 64},
		{Blocked, 1e8 + 56}, // by hand: lane 0 stays, then +2 and +4 are lost (a tie to even), +8, +16, +32
		{Pairwise, 1e8 + 56},
	} {
		got := New(dtype.Float32, Style{Order: tt.order}, 1).Sum(x)
		if got != tt.want {
			t.Errorf("sum in order %d = %v, want %v", tt.order, got, tt.want)
		}
	}
	ones := make([]float64, 65)
	for i := range ones {
		ones[i] = 1
	}
	for _, n := range []int{0, 1, 2, 3, 31, 32, 33, 65} {
		for _, s := range Styles() {
			m := New(dtype.Float32, s, 1)
			if got := m.Sum(ones[:n]); got != float64(n) {
				t.Errorf("%s: sum of %d ones = %v", s.Name, n, got)
			}
			if got := m.DotFrom(2, ones[:n], ones[:n], true); got != float64(n+2) {
				t.Errorf("%s: 2 + dot of %d ones = %v", s.Name, n, got)
			}
		}
	}
}

func TestWelfordAgreesWithTwoPasses(t *testing.T) {
	r := rng.New(11)
	for _, offset := range []float64{0, 100} {
		for _, n := range []int{1, 2, 5, 31, 64, 257} {
			x := make([]float64, n)
			for i := range x {
				x[i] = float64(float32(offset + r.Normal()))
			}
			mean0, m0 := New(dtype.Float64, Style{}, 1).moments(x)
			for _, s := range Styles() {
				for _, alt := range []int{0, AltMain} {
					s.Variant = s.Variant&^AltMain | alt
					mean, m2 := New(dtype.Float32, s, 1).moments(x)
					if !(math.Abs(mean-mean0) <= 1e-5*(1+offset) && math.Abs(m2-m0) <= 1e-4*(m0+1)) {
						t.Errorf("%s, variant %d, n=%d: moments = %v, %v, want %v, %v", s.Name, s.Variant, n, mean, m2,
							mean0, m0)
					}
				}
			}
		}
	}
}

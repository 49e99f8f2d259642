package bigmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// digits are known decimal expansions (Abramowitz and Stegun; DLMF; OEIS), cut, not rounded.
var digits = []struct {
	name string
	got  func(m *Math) *big.Float
	want string
}{
	{"pi", (*Math).Pi, "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899"},
	{"ln2", (*Math).Ln2, "0.69314718055994530941723212145817656807550013436025525412068000949339362196969471"},
	{"exp(1)", func(m *Math) *big.Float { return m.Exp(m.FromFloat64(1)) },
		"2.71828182845904523536028747135266249775724709369995957496696762772407663035354759"},
	{"expm1(1)", func(m *Math) *big.Float { return m.Expm1(m.FromFloat64(1)) },
		"1.71828182845904523536028747135266249775724709369995957496696762772407663035354759"},
	{"log(10)", func(m *Math) *big.Float { return m.Log(m.FromFloat64(10)) },
		"2.30258509299404568401799145468436420760110148862877297603332790096757260967735248"},
	{"log2(10)", func(m *Math) *big.Float { return m.Log2(m.FromFloat64(10)) },
		"3.32192809488736234787031942948939017586483139302458061205475639581593477660862521"},
	{"sin(1)", func(m *Math) *big.Float { return m.Sin(m.FromFloat64(1)) },
		"0.84147098480789650665250232163029899962256306079837106567275170999191040439123966"},
	{"cos(1)", func(m *Math) *big.Float { return m.Cos(m.FromFloat64(1)) },
		"0.54030230586813971740093660744297660373231042061792222767009725538110039477447176"},
	{"tanh(1)", func(m *Math) *big.Float { return m.Tanh(m.FromFloat64(1)) },
		"0.76159415595576488811945828260479359041276859725793655159681050012195324457663848"},
	{"erf(1)", func(m *Math) *big.Float { return m.Erf(m.FromFloat64(1)) },
		"0.84270079294971486934122063508260925929606699796630290845993789783471725409601084"},
	{"erfc(1)", func(m *Math) *big.Float { return m.Erfc(m.FromFloat64(1)) },
		"0.15729920705028513065877936491739074070393300203369709154006210216528274590398915"},
	{"sqrt(2)", func(m *Math) *big.Float { return m.Sqrt(m.FromFloat64(2)) },
		"1.41421356237309504880168872420969807856967187537694807317667973799073247846210703"},
	{"2^(1/2)", func(m *Math) *big.Float { return m.Pow(m.FromFloat64(2), m.FromFloat64(0.5)) },
		"1.41421356237309504880168872420969807856967187537694807317667973799073247846210703"},
	{"exp2(1/2)", func(m *Math) *big.Float { return m.Exp2(m.FromFloat64(0.5)) },
		"1.41421356237309504880168872420969807856967187537694807317667973799073247846210703"},
	{"log1p(1)", func(m *Math) *big.Float { return m.Log1p(m.FromFloat64(1)) },
		"0.69314718055994530941723212145817656807550013436025525412068000949339362196969471"},
}

func TestKnownDigits(t *testing.T) {
	const bits = 240
	m := New(bits)
	for _, d := range digits {
		t.Run(d.name, func(t *testing.T) {
			want, _, err := big.ParseFloat(d.want, 10, 2*bits, big.ToNearestEven)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.got(m); !agree(got, want, bits-1) {
				t.Errorf("%s = %.80f, want %.80f", d.name, got, want)
			}
		})
	}
}

// agree reports whether got and want differ by less than 2^-bits, relatively.
func agree(got, want *big.Float, bits int) bool {
	diff := newFloat(2*got.Prec()).Sub(got, want)
	return diff.Sign() == 0 || exponent(diff) <= exponent(want)-bits
}

type unary struct {
	name string
	f    func(m *Math, x *big.Float) *big.Float
	draw func(r *rand.Rand) float64
	std  func(x float64) float64
	ulps float64 // how far the standard library may be off
}

func symmetric(maxExp float64) func(r *rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		return math.Copysign(math.Exp2(r.Float64()*(maxExp+70)-70), r.Float64()-0.5)
	}
}

func positive(r *rand.Rand) float64 { return math.Exp(r.NormFloat64() * 10) }

var unaries = []unary{
	{"Exp", (*Math).Exp, symmetric(9.4), math.Exp, 2},
	{"Exp2", (*Math).Exp2, symmetric(9.9), math.Exp2, 2},
	{"Expm1", (*Math).Expm1, symmetric(9.4), math.Expm1, 2},
	{"Log", (*Math).Log, positive, math.Log, 2},
	{"Log2", (*Math).Log2, positive, math.Log2, 1e6}, // math.Log2 is absolutely, not relatively, accurate near 1
	{"Log1p", (*Math).Log1p, func(r *rand.Rand) float64 { return max(symmetric(100)(r), -1+r.Float64()) }, math.Log1p, 2},
	{"Tanh", (*Math).Tanh, symmetric(8), math.Tanh, 3},
	{"Erf", (*Math).Erf, symmetric(4), math.Erf, 2},
	{"Erfc", (*Math).Erfc, symmetric(4.6), math.Erfc, 3},
	{"Sin", (*Math).Sin, symmetric(10), math.Sin, 4e9}, // math.Sin drops bits near multiples of π
	{"Cos", (*Math).Cos, symmetric(10), math.Cos, 4e9},
	{"Sqrt", (*Math).Sqrt, positive, math.Sqrt, 0.5},
}

// TestPrecisions compares each function with itself at twice the precision, where guard bits, numbers of terms and
// depths of fractions all differ, and (to catch a wrong identity) loosely with the standard library.
func TestPrecisions(t *testing.T) {
	const bits, rounds = 150, 300
	m, more := New(bits), New(2*bits+7)
	for _, u := range unaries {
		t.Run(u.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for range rounds {
				x := u.draw(r)
				got, want := u.f(m, m.FromFloat64(x)), u.f(more, more.FromFloat64(x))
				if !agree(got, want, bits-1) {
					t.Fatalf("%s(%v) = %v, want %v", u.name, x, got, want)
				}
				if e := ULPError(u.std(x), got); e > u.ulps && math.Abs(u.std(x)) > 1e-300 {
					t.Fatalf("%s(%v) = %v, but the standard library has %v", u.name, x, got, u.std(x))
				}
			}
		})
	}
}

// TestErfcFraction compares the continued fraction with 1 - erf, which shares nothing with it but e^(-x²).
func TestErfcFraction(t *testing.T) {
	const bits = 200
	m, more := New(bits), New(1500)
	for _, x := range []float64{5, 5.25, 6, 7.5, 10, 15.125, 20, 27.2} {
		want := newFloat(1500).Sub(fromInt(1, 1500), more.erf(more.FromFloat64(x), 1500))
		if got := m.Erfc(m.FromFloat64(x)); !agree(got, want, bits-1) {
			t.Errorf("Erfc(%v) = %.60g, want %.60g", x, got, want)
		}
	}
}

// TestHardReductions: arguments that almost are multiples of π/2 (the second is the closest of all float64 numbers).
func TestHardReductions(t *testing.T) {
	m, more := New(150), New(1400)
	for _, x := range []float64{math.Pi, 6381956970095103 * 0x1p797, math.MaxFloat64, 0x1p1023, -1e22} {
		for _, f := range []func(*Math, *big.Float) *big.Float{(*Math).Sin, (*Math).Cos} {
			got, want := f(m, m.FromFloat64(x)), f(more, more.FromFloat64(x))
			if !agree(got, want, 149) {
				t.Errorf("circular(%v) = %v, want %v", x, got, want)
			}
		}
	}
	if e := exponent(m.Cos(m.FromFloat64(6381956970095103 * 0x1p797))); e != -60 {
		t.Errorf("exponent of cos(6381956970095103·2^797) = %d, want -60", e)
	}
}

func TestULPError(t *testing.T) {
	exact := func(s string) *big.Float {
		f, _, err := big.ParseFloat(s, 0, 200, big.ToNearestEven)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, c := range []struct {
		got   float64
		exact string
		want  float64
	}{
		{1, "1", 0},
		{1, "0x1.00000000000008p0", 0.5},
		{1, "0x1.ffffffffffffe8p-1", 1.5},
		{0, "0x1p-1075", 0.5},
		{-0x1p-1074, "0x1p-1074", 2},
		{math.Inf(1), "0x1p1025", 0},
		{math.Inf(1), "0x1.fffffffffffff8p1023", 0.5},
		{math.MaxFloat64, "0x1.fffffffffffff8p1023", 0.5},
		{math.MaxFloat64, "0x1p1024", 1},
		{math.Inf(-1), "0x1.fffffffffffff8p1023", 0x1p54 - 0.5},
		{math.NaN(), "1", math.Inf(1)},
		{1, "0", math.Inf(1)},
	} {
		if got := ULPError(c.got, exact(c.exact)); got != c.want {
			t.Errorf("ULPError(%v, %s) = %v, want %v", c.got, c.exact, got, c.want)
		}
	}
	if got := RelErr(1.25, exact("1")); got != 0.25 {
		t.Errorf("RelErr(1.25, 1) = %v, want 0.25", got)
	}
	if got := RelErr(-3, exact("0")); got != 3 {
		t.Errorf("RelErr(-3, 0) = %v, want 3", got)
	}
}

func BenchmarkUnary(b *testing.B) {
	m := New(200)
	for _, u := range unaries {
		b.Run(u.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				u.f(m, m.FromFloat64(u.draw(r)))
			}
		})
	}
}

package oracle

import (
	"math"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/libm"
)

// holder is one permitted float32 implementation following a computation: it holds a value at each step.
type holder struct {
	r     *rand.Rand
	flush bool
	edge  float64 // -1, 0 or 1: where in its bound an approximation lands
}

// settle rounds an exact result to float32 after a relative perturbation of at most rel.
func (h *holder) settle(x, rel float64) float64 {
	y := float32(x * (1 + h.edge*rel))
	if h.flush && math.Abs(float64(y)) < flushFloat {
		return math.Copysign(0, x)
	}
	return float64(y)
}

func (h *holder) read(x float64) float64 {
	if h.flush && math.Abs(x) < flushFloat {
		return math.Copysign(0, x)
	}
	return x
}

// holds reports whether an implementation may hold x where the oracle says a.
func holds(a num, x float64) bool {
	if c := classOf(x); c != clsFinite || a.v-a.v != 0 {
		return c == classOf(a.v) || c&a.w != 0
	}
	return math.Abs(x-a.v) <= a.e
}

// TestNumCoversImplementations follows random computations by implementations that land on the edges of what the
// contract permits; at every step the oracle's interval must hold what they hold.
func TestNumCoversImplementations(t *testing.T) {
	m := newArith(dtype.Float32, "gpu")
	const ulp = 0x1p-23
	type step struct {
		name  string
		exact func(x, y float64) float64
		rel   float64
		num   func(a, b num) num
	}
	steps := []step{
		{"add", func(x, y float64) float64 { return x + y }, 0, m.add},
		{"sub", func(x, y float64) float64 { return x - y }, 0, m.sub},
		{"mul", func(x, y float64) float64 { return x * y }, 0, m.mul},
		{"div", func(x, y float64) float64 { return x / y }, 1.5 * ulp, m.div},
		{"exp", func(x, _ float64) float64 { return math.Exp(x) }, 1.5 * ulp, func(a, _ num) num { return m.exp(a) }},
		{"tanh", func(x, _ float64) float64 { return math.Tanh(x) }, 0x1p-11, func(a, _ num) num { return m.tanh(a) }},
		{"erf", func(x, _ float64) float64 { return math.Erf(x) }, ulp, func(a, _ num) num { return m.erf(a) }},
		{"max", math.Max, 0, m.max2},
	}
	specials := []float64{
		0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat32, 0x1p-126, 0x1p-149, 1,
	}
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() float64 {
		switch k := r.IntN(10); {
		case k == 0:
			return specials[r.IntN(len(specials))]
		case k < 4:
			return float64(float32(math.Ldexp(r.Float64()*2-1, r.IntN(250)-125)))
		}
		return float64(float32(r.NormFloat64() * 4))
	}
	for range 200_000 {
		h := holder{r: r, flush: r.IntN(2) == 0, edge: float64(r.IntN(3) - 1)}
		x, y := draw(), draw()
		a, b := m.input(x), m.input(y)
		x, y = h.read(x), h.read(y)
		for range 4 {
			s := steps[r.IntN(len(steps))]
			rel := s.rel
			if math.IsInf(x, 0) {
				rel = 0 // special cases of approximations are exact
			}
			z := h.settle(s.exact(x, y), rel)
			c := s.num(a, b)
			if !holds(c, z) {
				t.Fatalf("%s(%v in %+v, %v in %+v) = %v, want a value in %+v (flush %v, edge %v)",
					s.name, x, a, y, b, z, c, h.flush, h.edge)
			}
			if r.IntN(2) == 0 {
				a, x = c, z
			} else {
				b, y = c, z
			}
		}
	}
}

func TestNumStatesWhatIsCertain(t *testing.T) {
	m := newArith(dtype.Float32, "gpu")
	inf, nan := math.Inf(1), math.NaN()
	tests := []struct {
		name string
		got  num
		want num
	}{
		{"nan is nan for everyone", m.add(exact(nan), m.mul(exact(3e38), exact(3e38))), exact(nan)},
		{"inf minus inf", m.sub(exact(inf), exact(inf)), exact(nan)},
		{"inf times zero", m.mul(exact(inf), exact(0)), exact(nan)},
		{"exp of -inf is zero", m.exp(exact(-inf)), exact(0)},
		{"tanh of inf is one", m.tanh(exact(inf)), exact(1)},
		{"one over inf is zero", m.div(exact(1), exact(inf)), exact(0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			same := tt.got.v == tt.want.v || tt.got.v != tt.got.v && tt.want.v != tt.want.v
			if !same || tt.got.e != tt.want.e || tt.got.w != tt.want.w {
				t.Errorf("got %+v, want %+v", tt.got, tt.want)
			}
		})
	}
	if s := m.sigmoid(exact(-200)); s.w != 0 || s.v < 0 || s.v+s.e > 1e-37 {
		t.Errorf("sigmoid(-200) = %+v: an overflowing exponential gives a certain zero", s)
	}
	if o := m.mul(exact(3e38), exact(2)); o.w != clsPosInf {
		t.Errorf("3e38·2 = %+v, want +Inf open", o)
	}
}

// TestSumCoversAnyOrder adds random terms in float32 in several orders.
func TestSumCoversAnyOrder(t *testing.T) {
	m := newArith(dtype.Float32, "ieee")
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		n := 1 + r.IntN(300)
		x := make([]float64, n)
		for i := range x {
			switch r.IntN(3) {
			case 0:
				x[i] = float64(float32(0.1))
			case 1:
				x[i] = float64(float32(math.Ldexp(r.NormFloat64(), r.IntN(40)-20)))
			default:
				x[i] = -x[r.IntN(i+1)]
			}
		}
		got := m.sumRow(x)
		for order := range 3 {
			if s := sumIn(x, order); !holds(got, s) {
				t.Fatalf("sum of %d terms in order %d = %v, want a value in %+v", n, order, s, got)
			}
		}
	}
}

func sumIn(x []float64, order int) float64 {
	if order == 2 && len(x) > 2 {
		return float64(float32(sumIn(x[:len(x)/2], 2)) + float32(sumIn(x[len(x)/2:], 2)))
	}
	var s float32
	for i := range x {
		if order == 1 {
			i = len(x) - 1 - i
		}
		s += float32(x[i])
	}
	return float64(s)
}

// TestShortcuts compares what operations say of NaN and of vanishing exponentials with what samples give.
func TestShortcuts(t *testing.T) {
	same := func(a, b num) bool {
		return (a.v == b.v || a.v != a.v && b.v != b.v) && a.e == b.e && a.w == b.w && math.Signbit(a.v) == math.Signbit(b.v)
	}
	r := rand.New(rand.NewPCG(3, 1))
	values := []float64{0, math.Copysign(0, -1), 1, -3, 1e-40, -1e-310, 1e38, -math.MaxFloat64, math.Inf(1), math.Inf(-1),
		math.NaN(), -745, -747, -1400, -1e5, -3e37}
	sets := []classes{0, 0, 0, 0, clsNaN, clsPosInf, clsNegInf | clsFinite, clsFinite | clsPosInf | clsNegInf | clsNaN}
	draw := func() num {
		a := num{v: values[r.IntN(len(values))], w: sets[r.IntN(len(sets))]}
		if a.v-a.v == 0 {
			a.e = []float64{0, 1e-42, 0.5, 1, 650, 660, 1e4, 1e30, noBound}[r.IntN(9)]
		}
		return a
	}
	nan, zero := 0, 0
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float64} {
		m := newArith(d, "gpu")
		for range 20000 {
			a, b := draw(), draw()
			if a.isNaN() || b.isNaN() {
				nan++
				plus := m.sampled(func(x, y float64) float64 { return x + y }, a, b, m.u, false)
				times := m.sampled(func(x, y float64) float64 { return x * y }, a, b, m.u, false)
				by := m.sampled(func(x, y float64) float64 { return x / y }, a, b, m.quot, false)
				if got := []num{m.add(a, b), m.mul(a, b), m.div(a, b)}; !same(got[0], plus) || !same(got[1], times) ||
					!same(got[2], by) {
					t.Fatalf("%v and %v give %v, want %v", a, b, got, []num{plus, times, by})
				}
			}
			wide := a.e + float64((math.Abs(a.v)+a.e)*m.expArg)
			if a.w == 0 && a.v-a.v == 0 && wide < 600 {
				continue // the ordinary way
			}
			if a.w == 0 && a.v+a.e < expZero {
				zero++
			}
			long := a
			if wide-wide == 0 && wide > a.e {
				long.e = wide
			}
			if got, want := m.exp(a), m.sampled1(libm.Exp, long, m.expRel); !same(got, want) {
				t.Fatalf("exp of %v is %v, want %v", a, got, want)
			}
		}
	}
	if nan == 0 || zero == 0 {
		t.Errorf("%d NaN, %d vanishing exponentials: want some of both", nan, zero)
	}
}

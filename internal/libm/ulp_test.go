// This file implements the measurement of errors against arbitrary-precision arithmetic.

package libm_test

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"gpuemu/internal/libm"
	"gpuemu/internal/testkit/bigmath"
)

// function is a function of the package with its exact counterpart, its documented error and where to look.
type function struct {
	name  string
	f     func(x float64) float64
	exact func(m *bigmath.Math, x *big.Float) *big.Float
	ulps  float64
	areas []area
	extra []float64 // single points; their neighbours are tried, too
}

// area is an interval of arguments. Arguments are drawn evenly, or with even logarithms if the interval is log.
type area struct {
	lo, hi float64
	log    bool
	both   bool // negative arguments, too
}

func (a area) draw(r *rand.Rand) float64 {
	var x float64
	if a.log {
		l, h := math.Float64bits(a.lo), math.Float64bits(a.hi)
		x = math.Float64frombits(l + r.Uint64N(h-l+1))
	} else {
		x = a.lo + r.Float64()*(a.hi-a.lo)
	}
	if a.both && r.Uint64()&1 != 0 {
		return -x
	}
	return x
}

func even(lo, hi float64) area       { return area{lo: lo, hi: hi} }
func evenBoth(lo, hi float64) area   { return area{lo: lo, hi: hi, both: true} }
func spread(lo, hi float64) area     { return area{lo: lo, hi: hi, log: true} }
func spreadBoth(lo, hi float64) area { return area{lo: lo, hi: hi, log: true, both: true} }

const subnormal = 0x1p-1074

var functions = []function{
	{"Exp", libm.Exp, (*bigmath.Math).Exp, 0.51,
		[]area{even(-745.2, 709.8), spreadBoth(subnormal, 700), even(-1, 1), even(-745.14, -708),
			even(709, 709.79)},
		[]float64{0x1p-54, 0x1p-53, 512, -512, 709.782712893384, -745.1332191019412, -708.3964185322641, math.Ln2 / 256}},
	{"Exp2", libm.Exp2, (*bigmath.Math).Exp2, 0.51,
		[]area{even(-1075, 1024), spreadBoth(subnormal, 1024), even(-1, 1), even(-1075, -1021)},
		[]float64{0x1p-54, 0x1p-53, 512, -512, 1024, -1022, -1074, -1075, 1.0 / 256, 10, -10}},
	{"Expm1", libm.Expm1, (*bigmath.Math).Expm1, 0.62,
		[]area{even(-50, 50), spreadBoth(subnormal, 709), spreadBoth(0x1p-60, 0x1p-3), even(-1, 1),
			evenBoth(0.05, 0.08), even(40, 710)},
		[]float64{0x1p-54, 0x1p-4, -0x1p-4, 40, -40, 709.782712893384, math.Ln2, -math.Ln2}},
	{"Log", libm.Log, (*bigmath.Math).Log, 0.51,
		[]area{spread(subnormal, math.MaxFloat64), even(0.5, 2), even(0.98, 1.02),
			even(1-0x1p-20, 1+0x1p-20), spread(subnormal, 0x1p-1022), even(0.70, 0.72),
			even(1.40, 1.43)},
		[]float64{1, 1 - 0x1p-10, 1 + 0x1p-9, math.Sqrt2, math.Sqrt2 / 2, 0x1p-1022, math.MaxFloat64, math.E}},
	{"Log2", libm.Log2, (*bigmath.Math).Log2, 0.51,
		[]area{spread(subnormal, math.MaxFloat64), even(0.5, 2), even(0.98, 1.02),
			even(1-0x1p-20, 1+0x1p-20), spread(subnormal, 0x1p-1022)},
		[]float64{1, 1 - 0x1p-10, 1 + 0x1p-9, math.Sqrt2, math.Sqrt2 / 2, 0x1p-1022, math.MaxFloat64, 8, subnormal,
			0x1p1023}},
	{"Log1p", libm.Log1p, (*bigmath.Math).Log1p, 0.52,
		[]area{spread(subnormal, math.MaxFloat64), even(-1+0x1p-53, 1), spreadBoth(0x1p-60, 0.9),
			spreadBoth(0x1p-11, 0x1p-7), spread(1, 1e20), even(-0.51, -0.28), even(0.39, 0.45)},
		[]float64{-1 + 0x1p-53, 0x1p-54, 0x1p-9, -0x1p-9, 1, 0x1p53, 0x1p54, math.MaxFloat64}},
	{"Tanh", libm.Tanh, (*bigmath.Math).Tanh, 0.57,
		[]area{evenBoth(0, 20), spreadBoth(subnormal, 100), spreadBoth(0x1p-30, 1), evenBoth(0.2, 0.7)},
		[]float64{0x1p-28, 0.25, 0.5, 19.06, 20, 710}},
	{"Erf", libm.Erf, (*bigmath.Math).Erf, 0.66,
		[]area{evenBoth(0, 6), spreadBoth(subnormal, 30), spreadBoth(0x1p-30, 1), evenBoth(0.3, 0.7),
			spreadBoth(subnormal, 0x1p-980)},
		[]float64{0x1p-1000, 0x1p-28, 0.5, 0.53125, 6, 5.93}},
	{"Erfc", libm.Erfc, (*bigmath.Math).Erfc, 0.62,
		[]area{even(-6.5, 6.5), even(0.5, 27.3), spreadBoth(subnormal, 28), even(26.5, 27.3),
			even(0.4, 1.1)},
		[]float64{0.5, -0.5, 1, 2, 4, 8, 16, 6, -6, 26.543258454247985, 27.226, 28, 0x1p-54}},
	{"Sin", libm.Sin, (*bigmath.Math).Sin, 0.54, circularAreas, circularPoints()},
	{"Cos", libm.Cos, (*bigmath.Math).Cos, 0.54, circularAreas, circularPoints()},
}

var circularAreas = []area{
	even(-10, 10), spreadBoth(subnormal, 1e10), even(0, math.Pi*2), evenBoth(0.7, 0.9),
	evenBoth(0, 0x1p20), spreadBoth(0x1p19, 0x1p24), spreadBoth(0x1p20, math.MaxFloat64), evenBoth(0, math.Pi/4),
}

// circularPoints are multiples of π/2 and numbers that are known to come close to one.
func circularPoints() []float64 {
	points := []float64{0x1p-30, math.Pi / 4, 0x1p20, 6381956970095103 * 0x1p797, math.MaxFloat64, 1e22}
	for n := 1; n < 400; n++ {
		points = append(points, float64(n)*(math.Pi/2))
	}
	for n := 512.0; n < 0x1p60; n *= 1.37 {
		points = append(points, math.Floor(n)*(math.Pi/2))
	}
	return points
}

// inDomain reports whether the function has a real value at x.
func (fn function) inDomain(x float64) bool {
	switch fn.name {
	case "Log", "Log2":
		return x > 0 && x <= math.MaxFloat64
	case "Log1p":
		return x > -1 && x <= math.MaxFloat64
	}
	return math.Abs(x) <= math.MaxFloat64
}

// arguments returns about n arguments of the function.
func (fn function) arguments(n int) []float64 {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	var xs []float64
	for _, x := range fn.extra {
		up, down := x, x
		for range 4 {
			xs = append(xs, up, down)
			up, down = math.Nextafter(up, math.Inf(1)), math.Nextafter(down, math.Inf(-1))
		}
	}
	for len(xs) < n {
		for _, a := range fn.areas {
			xs = append(xs, a.draw(r))
		}
	}
	return slices.DeleteFunc(xs, func(x float64) bool { return !fn.inDomain(x) })
}

var soak = flag.Int("soak", 0, "how many arguments TestErrors tries per function")

// rounds is how many arguments are tried per function.
func rounds() int {
	switch {
	case *soak > 0:
		return *soak
	case testing.Short():
		return 4000
	}
	return 20000
}

func TestErrors(t *testing.T) {
	for _, fn := range functions {
		t.Run(fn.name, func(t *testing.T) {
			t.Parallel()
			m := bigmath.New(160)
			worst, at := 0.0, 0.0
			for _, x := range fn.arguments(rounds()) {
				if e := bigmath.ULPError(fn.f(x), fn.exact(m, m.FromFloat64(x))); e > worst {
					worst, at = e, x
				}
			}
			t.Logf("largest error %.4f ulp, at %x = %v", worst, at, at)
			if worst > fn.ulps {
				exact := fn.exact(m, m.FromFloat64(at))
				t.Errorf("%s(%x) = %x, want %s: %.4f ulp, documented are %v", fn.name, at, fn.f(at),
					exact.Text('p', 20), worst, fn.ulps)
			}
			if fn.ulps > libm.MaxErrULP {
				t.Errorf("documented error of %s is %v, want at most %v", fn.name, fn.ulps, libm.MaxErrULP)
			}
		})
	}
}

// powArguments returns about n pairs whose power is a number, or just not.
func powArguments(n int) (xs, ys []float64) {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	pair := func(x, y float64) { xs, ys = append(xs, x), append(ys, y) }
	limits := even(-746, 710)
	bases := []area{
		spread(subnormal, math.MaxFloat64), even(0.5, 2), even(1-0x1p-9, 1+0x1p-9),
		even(1-0x1p-40, 1+0x1p-40), spread(subnormal, 0x1p-1022),
	}
	for len(xs) < n {
		for _, a := range bases {
			x := a.draw(r)
			if l := math.Log(x); l != 0 {
				pair(x, limits.draw(r)/l)       // any result
				pair(x, (r.Float64()*4-748)/l)  // a subnormal result
				pair(x, (r.Float64()-0.5)*10/l) // a result near 1
			}
		}
		pair(math.Floor(r.Float64()*1000), math.Floor(r.Float64()*100))
		pair(r.Float64()*100, math.Floor(r.Float64()*20)-10)
		pair(r.Float64()*100, math.Floor(r.Float64()*20)/2)
	}
	return xs, ys
}

// powULP is the documented error of Pow.
const powULP = 0.52

func TestPowErrors(t *testing.T) {
	t.Parallel()
	m := bigmath.New(160)
	worst, wx, wy := 0.0, 0.0, 0.0
	xs, ys := powArguments(rounds())
	for i, x := range xs {
		if x == 0 {
			continue // TestSpecials
		}
		if e := bigmath.ULPError(libm.Pow(x, ys[i]), m.Pow(m.FromFloat64(x), m.FromFloat64(ys[i]))); e > worst {
			worst, wx, wy = e, x, ys[i]
		}
	}
	t.Logf("largest error %.4f ulp, at (%x, %x) = (%v, %v)", worst, wx, wy, wx, wy)
	if worst > powULP {
		t.Errorf("Pow(%x, %x) = %x: %.4f ulp, documented are %v", wx, wy, libm.Pow(wx, wy), worst, powULP)
	}
}

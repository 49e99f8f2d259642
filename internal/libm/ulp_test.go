// This file implements the measurement of errors against arbitrary-precision arithmetic.

package libm_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
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

const subnormal = 0x1p-1074

var functions = []function{
	{"Exp", libm.Exp, (*bigmath.Math).Exp, 0.51,
		[]area{{-745.2, 709.8, false, false}, {subnormal, 700, true, true}, {-1, 1, false, false}, {-745.14, -708, false, false},
			{709, 709.79, false, false}},
		[]float64{0x1p-54, 0x1p-53, 512, -512, 709.782712893384, -745.1332191019412, -708.3964185322641, math.Ln2 / 256}},
	{"Exp2", libm.Exp2, (*bigmath.Math).Exp2, 0.51,
		[]area{{-1075, 1024, false, false}, {subnormal, 1024, true, true}, {-1, 1, false, false}, {-1075, -1021, false, false}},
		[]float64{0x1p-54, 0x1p-53, 512, -512, 1024, -1022, -1074, -1075, 1.0 / 256, 10, -10}},
	{"Expm1", libm.Expm1, (*bigmath.Math).Expm1, 0.6,
		[]area{{-50, 50, false, false}, {subnormal, 709, true, true}, {0x1p-60, 0x1p-3, true, true}, {-1, 1, false, false},
			{0.05, 0.08, false, true}, {40, 710, false, false}},
		[]float64{0x1p-54, 0x1p-4, -0x1p-4, 40, -40, 709.782712893384, math.Ln2, -math.Ln2}},
	{"Log", libm.Log, (*bigmath.Math).Log, 0.51,
		[]area{{subnormal, math.MaxFloat64, true, false}, {0.5, 2, false, false}, {0.98, 1.02, false, false},
			{1 - 0x1p-20, 1 + 0x1p-20, false, false}, {subnormal, 0x1p-1022, true, false}, {0.70, 0.72, false, false},
			{1.40, 1.43, false, false}},
		[]float64{1, 1 - 0x1p-10, 1 + 0x1p-9, math.Sqrt2, math.Sqrt2 / 2, 0x1p-1022, math.MaxFloat64, math.E}},
	{"Log2", libm.Log2, (*bigmath.Math).Log2, 0.51,
		[]area{{subnormal, math.MaxFloat64, true, false}, {0.5, 2, false, false}, {0.98, 1.02, false, false},
			{1 - 0x1p-20, 1 + 0x1p-20, false, false}, {subnormal, 0x1p-1022, true, false}},
		[]float64{1, 1 - 0x1p-10, 1 + 0x1p-9, math.Sqrt2, math.Sqrt2 / 2, 0x1p-1022, math.MaxFloat64, 8, 0x1p-1074, 0x1p1023}},
	{"Log1p", libm.Log1p, (*bigmath.Math).Log1p, 0.51,
		[]area{{subnormal, math.MaxFloat64, true, false}, {-1 + 0x1p-53, 1, false, false}, {0x1p-60, 0.9, true, true},
			{0x1p-11, 0x1p-7, true, true}, {1, 1e20, true, false}, {-0.51, -0.28, false, false}, {0.39, 0.45, false, false}},
		[]float64{-1 + 0x1p-53, 0x1p-54, 0x1p-9, -0x1p-9, 1, 0x1p53, 0x1p54, math.MaxFloat64}},
	{"Tanh", libm.Tanh, (*bigmath.Math).Tanh, 0.75,
		[]area{{0, 20, false, true}, {subnormal, 100, true, true}, {0x1p-30, 1, true, true}, {0.5, 0.7, false, true}},
		[]float64{0x1p-28, 0.5625, 19.06, 20, 710}},
	{"Erf", libm.Erf, (*bigmath.Math).Erf, 0.7,
		[]area{{0, 6, false, true}, {subnormal, 30, true, true}, {0x1p-30, 1, true, true}, {0.3, 0.7, false, true},
			{subnormal, 0x1p-980, true, true}},
		[]float64{0x1p-1000, 0x1p-28, 0.5, 0.53125, 6, 5.93}},
	{"Erfc", libm.Erfc, (*bigmath.Math).Erfc, 0.6,
		[]area{{-6.5, 6.5, false, false}, {0.5, 27.3, false, false}, {subnormal, 28, true, true}, {26.5, 27.3, false, false},
			{0.4, 1.1, false, false}},
		[]float64{0.5, -0.5, 1, 2, 4, 8, 16, 6, -6, 26.543258454247985, 27.226, 28, 0x1p-54}},
	{"Sin", libm.Sin, (*bigmath.Math).Sin, 0.8, circularAreas, circularPoints()},
	{"Cos", libm.Cos, (*bigmath.Math).Cos, 0.8, circularAreas, circularPoints()},
}

var circularAreas = []area{
	{-10, 10, false, false}, {subnormal, 1e10, true, true}, {0, math.Pi * 2, false, false}, {0.7, 0.9, false, true},
	{0, 0x1p20, false, true}, {0x1p19, 0x1p24, true, true}, {0x1p20, math.MaxFloat64, true, true}, {0, math.Pi / 4, false, true},
}

// circularPoints are multiples of π/2 and numbers that are known to come close to one.
func circularPoints() []float64 {
	points := []float64{0x1p-30, math.Pi / 4, 0x1p20, 6381956970095103 * 0x1p797, math.MaxFloat64, 1e22, 0x1.6ac5b262ca1ffp+849}
	for n := 1; n < 400; n++ {
		points = append(points, float64(n)*(math.Pi/2))
	}
	for n := 512.0; n < 0x1p60; n *= 1.37 {
		points = append(points, math.Floor(n)*(math.Pi/2))
	}
	return points
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
	return xs
}

// rounds is how many arguments are tried per function.
func rounds() int {
	if testing.Short() {
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
				exact := limited(fn, m, x)
				if exact == nil {
					continue
				}
				if e := bigmath.ULPError(fn.f(x), exact); e > worst {
					worst, at = e, x
				}
			}
			t.Logf("largest error %.4f ulp, at %x = %v", worst, at, at)
			if worst > fn.ulps {
				exact := limited(fn, m, at)
				t.Errorf("%s(%x) = %x, want %s: %.4f ulp, documented are %v", fn.name, at, fn.f(at),
					exact.Text('p', 20), worst, fn.ulps)
			}
			if fn.ulps > libm.MaxErrULP {
				t.Errorf("documented error of %s is %v, want at most %v", fn.name, fn.ulps, libm.MaxErrULP)
			}
		})
	}
}

// limited returns the exact value, nil where it is not a real number.
func limited(fn function, m *bigmath.Math, x float64) *big.Float {
	switch {
	case fn.name[:3] == "Log" && fn.name != "Log1p" && x <= 0, fn.name == "Log1p" && x <= -1:
		return nil
	case math.IsInf(x, 0):
		return nil
	}
	return fn.exact(m, m.FromFloat64(x))
}

var _ = fmt.Sprint

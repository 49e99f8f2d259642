// This file implements the measurement of the errors of activations and of sums of exponentials.

package libm_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/libm"
	"gpuemu/internal/testkit/bigmath"
)

func bigOf(m *bigmath.Math, x float64) *big.Float { return m.FromFloat64(x) }

func bigNew() *big.Float { return new(big.Float).SetPrec(320) }

// bigSigmoidOf is x/(1 + e^-w).
func bigSigmoidOf(m *bigmath.Math, x, w *big.Float) *big.Float {
	d := bigNew().Add(bigOf(m, 1), m.Exp(bigNew().Neg(w)))
	return bigNew().Quo(x, d)
}

func bigGelu(m *bigmath.Math, x *big.Float) *big.Float {
	z := bigNew().Quo(x, bigNew().Sqrt(bigOf(m, 2)))
	y := bigNew().Mul(x, m.Erfc(z.Neg(z)))
	return y.SetMantExp(y, -1)
}

func bigGeluTanh(m *bigmath.Math, x *big.Float) *big.Float {
	cube := bigNew().Mul(bigNew().Mul(x, x), x)
	cube.Mul(cube, bigNew().Quo(bigOf(m, 44715), bigOf(m, 1e6)))
	root := bigNew().Sqrt(bigNew().Quo(bigOf(m, 8), m.Pi()))
	return bigSigmoidOf(m, x, bigNew().Mul(root, cube.Add(cube, x)))
}

func bigSoftplus(beta float64) func(m *bigmath.Math, x *big.Float) *big.Float {
	return func(m *bigmath.Math, x *big.Float) *big.Float {
		return bigNew().Quo(m.Log1p(m.Exp(bigNew().Mul(bigOf(m, beta), x))), bigOf(m, beta))
	}
}

// activations are measured like the functions of [TestErrors]. Their areas reach from where the result is x to where
// it is subnormal.
func activations() []function {
	all := []function{
		{"SiLU", libm.SiLU,
			func(m *bigmath.Math, x *big.Float) *big.Float { return bigSigmoidOf(m, x, x) }, libm.MaxActivationULP,
			[]area{even(-760, 720), even(-10, 10), even(-752, -700), spreadBoth(subnormal, 700)},
			[]float64{-700, -708.4, -745.2, -751.8, 709.8}},
		{"Gelu", libm.Gelu, bigGelu, libm.MaxActivationULP,
			[]area{even(-39.5, 40), even(-10, 10), even(-38.7, -37), spreadBoth(subnormal, 39)},
			[]float64{-37.5, -38.5, -26.5, -0.5, -1, 8}},
		{"GeluTanh", libm.GeluTanh, bigGeluTanh, libm.MaxActivationULP,
			[]area{even(-22.5, 25), even(-10, 10), even(-21.7, -20.8), spreadBoth(subnormal, 22)},
			[]float64{-22, 22, -21.1, -5, -0.5, 1}},
	}
	for _, beta := range []float64{1, 2, 0.3, 1e-3, 77.7} {
		beta := beta
		all = append(all, function{"Softplus", func(x float64) float64 { return libm.Softplus(x, beta) },
			bigSoftplus(beta), libm.MaxActivationULP,
			[]area{even(-760/beta, 800/beta), even(-10/beta, 10/beta), even(-750/beta, -690/beta),
				spreadBoth(subnormal, 700/beta)},
			[]float64{-700 / beta, 0, 800 / beta}})
	}
	return all
}

func TestActivationErrors(t *testing.T) {
	for _, fn := range activations() {
		t.Run(fn.name, func(t *testing.T) {
			t.Parallel()
			m := bigmath.New(160)
			worst, at := 0.0, 0.0
			for _, x := range fn.arguments(rounds() / 4) {
				if e := bigmath.ULPError(fn.f(x), fn.exact(m, m.FromFloat64(x))); e > worst {
					worst, at = e, x
				}
			}
			t.Logf("largest error %.3f ulp, at %v", worst, at)
			if worst > fn.ulps {
				t.Errorf("%s(%v) = %v, want %s: %.2f ulp, documented are %v", fn.name, at, fn.f(at),
					fn.exact(m, m.FromFloat64(at)).Text('p', 20), worst, fn.ulps)
			}
		})
	}
}

// TestActivationLimits: at the infinities and beyond, the limits.
func TestActivationLimits(t *testing.T) {
	inf := math.Inf(1)
	softplus := func(x float64) float64 { return libm.Softplus(x, 0.3) }
	for name, f := range map[string]func(float64) float64{
		"SiLU": libm.SiLU, "Gelu": libm.Gelu, "GeluTanh": libm.GeluTanh, "Softplus": softplus,
	} {
		for _, x := range []float64{1e6, 1e200, math.MaxFloat64, inf} {
			if got := f(x); got != x {
				t.Errorf("%s(%v) = %v, want %v", name, x, got, x)
			}
			if got := f(-x); got != 0 {
				t.Errorf("%s(%v) = %v, want 0", name, -x, got)
			}
		}
		if got := f(math.NaN()); got == got {
			t.Errorf("%s(NaN) = %v, want NaN", name, got)
		}
	}
}

// TestExpSumLess1 makes sums next to 1: n numbers near -log n.
func TestExpSumLess1(t *testing.T) {
	m, r := bigmath.New(208), rand.New(rand.NewPCG(3, 4))
	worst := 0.0
	for i := range 600 {
		n := 1 + r.IntN(30)
		xs := make([]float64, n)
		for j := range xs {
			xs[j] = -math.Log(float64(n)) // the sum is 1 but for roundings
			switch {
			case i%3 == 0 && j > 0:
				xs[j] = -r.Float64() * 120
			case i%3 == 1:
				xs[j] -= r.Float64() * math.Ldexp(1, -r.IntN(40))
			}
		}
		sum := bigOf(m, -1)
		for _, x := range xs {
			sum.Add(sum, m.Exp(bigOf(m, x)))
		}
		got := bigOf(m, libm.ExpSumLess1(xs))
		half := bigNew().SetMantExp(sum, -53)
		err, _ := got.Sub(got, sum).Abs(got).Float64()
		rounding, _ := half.Abs(half).Float64()
		if e := (err - rounding) / float64(n); e > worst {
			worst = e
		}
	}
	t.Logf("largest error of a term 2^%.1f", math.Log2(worst))
	if worst > 0x1p-100 {
		t.Errorf("the error of a term is %g, documented are 2^-100", worst)
	}
}

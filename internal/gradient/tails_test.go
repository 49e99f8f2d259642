package gradient

import (
	"math"
	"math/big"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/testkit/bigmath"
)

// TestSlopesKeepTheirDigits: far out, slopes are as accurate relative to themselves as anywhere; the written formulas
// lose them in 1 - s, 1 - t² and 1 + erf. (1e-11: the arguments of exponentials of 700 are rounded to 1e-13.)
func TestSlopesKeepTheirDigits(t *testing.T) {
	m := bigmath.New(200)
	num := func(x float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(x) }
	mul := func(xs ...*big.Float) *big.Float {
		y := num(1)
		for _, x := range xs {
			y.Mul(y, x)
		}
		return y
	}
	add := func(x, y *big.Float) *big.Float { return num(0).Add(x, y) }
	quo := func(x, y *big.Float) *big.Float { return num(0).Quo(x, y) }
	gate := func(w *big.Float) *big.Float { return quo(num(1), add(num(1), m.Exp(mul(num(-1), w)))) } // the sigmoid
	bump := func(w *big.Float) *big.Float { return mul(gate(w), gate(mul(num(-1), w))) }
	cubic := quo(num(44715), num(1e6))
	root := num(0).Sqrt(quo(num(8), m.Pi()))
	exact := map[string]func(x *big.Float) *big.Float{
		"sigmoid": bump,
		"tanh":    func(x *big.Float) *big.Float { return mul(num(4), bump(mul(num(2), x))) },
		"gelu": func(x *big.Float) *big.Float {
			cdf := mul(num(0.5), m.Erfc(quo(x, mul(num(-1), num(0).Sqrt(num(2))))))
			pdf := quo(m.Exp(mul(num(-0.5), x, x)), num(0).Sqrt(mul(num(2), m.Pi())))
			return add(cdf, mul(x, pdf))
		},
		"gelu_tanh": func(x *big.Float) *big.Float {
			w := mul(root, add(x, mul(cubic, x, x, x)))
			inner := mul(root, add(num(1), mul(num(3), cubic, x, x)))
			return add(gate(w), mul(x, bump(w), inner))
		},
	}
	slopes := map[string]func(c *call, x val) val{
		"sigmoid": sigmoidSlope, "tanh": tanhSlope, "gelu": geluSlope, "gelu_tanh": geluTanhSlope,
	}
	ends := map[string]float64{"sigmoid": 700, "tanh": 350, "gelu": 37, "gelu_tanh": 20}
	c := &call{}
	c.work, c.acc = precs(dtype.Float64)
	for name, slope := range slopes {
		for i := -60; i <= 60; i++ {
			x := ends[name] * float64(i) / 60 * 0.993
			want := exact[name](num(x))
			if e := bigmath.RelErr(slope(c, val{v: x}).v, want); !(e < 1e-11) {
				t.Errorf("slope of %s at %v is %v, want %s: relative error %.2g", name, x, slope(c, val{v: x}).v,
					want.Text('g', 20), e)
				break
			}
		}
		if v := slope(c, val{v: math.SmallestNonzeroFloat64}).v; math.Abs(v-slope(c, val{}).v) > 1e-15 {
			t.Errorf("slope of %s next to zero is %v, want %v", name, v, slope(c, val{}).v)
		}
	}
}

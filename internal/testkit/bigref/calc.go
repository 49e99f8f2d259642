package bigref

// This file implements the arithmetic: math/big with a record of the largest value that came up.

import (
	"math"
	"math/big"
	"sync"

	"gpuemu/internal/testkit/bigmath"
)

// Precisions in bits: of sums and products, which are cheap, and of elementary functions. The wide one makes sums of
// float32 data of any magnitude exact, and those of float64 data unless 2^250 stands beside 1.
const (
	widePrec = 320
	funcPrec = 208
)

// farExponent is where the argument of an exponential is cut off: e to this power is 2^11818, so far beyond all formats
// that no factor brings it back.
const farExponent = 1 << 13

// shared makes the tables of the elementary functions, once; they are never changed afterwards.
var shared = sync.OnceValue(func() *bigmath.Math { return bigmath.New(funcPrec) })

// calc computes and records. Its results are new numbers; its arguments are left alone.
type calc struct {
	funcs *bigmath.Math
	peak  int
}

func exponentOf(x float64) int {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return math.MinInt32
	}
	_, e := math.Frexp(x)
	return e
}

func wide() *big.Float { return new(big.Float).SetPrec(widePrec) }

// note records the magnitude of an intermediate value.
func (c *calc) note(x *big.Float) *big.Float {
	if x.Sign() != 0 {
		c.peak = max(c.peak, x.MantExp(nil))
	}
	return x
}

func num(x float64) *big.Float { return wide().SetFloat64(x) }

func integer(n int) *big.Float { return wide().SetInt64(int64(n)) }

func (c *calc) add(x, y *big.Float) *big.Float { return c.note(wide().Add(x, y)) }
func (c *calc) sub(x, y *big.Float) *big.Float { return c.note(wide().Sub(x, y)) }
func (c *calc) mul(x, y *big.Float) *big.Float { return c.note(wide().Mul(x, y)) }
func (c *calc) quo(x, y *big.Float) *big.Float { return c.note(wide().Quo(x, y)) }
func (c *calc) sqrt(x *big.Float) *big.Float   { return c.note(wide().Sqrt(x)) }

func neg(x *big.Float) *big.Float  { return wide().Neg(x) }
func abs(x *big.Float) *big.Float  { return wide().Abs(x) }
func zero() *big.Float             { return wide() }
func one() *big.Float              { return num(1) }
func half(x *big.Float) *big.Float { return wide().SetMantExp(x, -1) }

func larger(x, y *big.Float) *big.Float {
	if x.Cmp(y) >= 0 {
		return x
	}
	return y
}

// near cuts an exponent off at ±farExponent.
func near(x *big.Float) *big.Float {
	if abs(x).Cmp(integer(farExponent)) > 0 {
		return integer(farExponent * x.Sign())
	}
	return x
}

func (c *calc) exp(x *big.Float) *big.Float   { return c.note(c.funcs.Exp(near(x))) }
func (c *calc) expm1(x *big.Float) *big.Float { return c.note(c.funcs.Expm1(near(x))) }
func (c *calc) log(x *big.Float) *big.Float   { return c.note(c.funcs.Log(x)) }
func (c *calc) log1p(x *big.Float) *big.Float { return c.note(c.funcs.Log1p(x)) }
func (c *calc) tanh(x *big.Float) *big.Float  { return c.note(c.funcs.Tanh(x)) }
func (c *calc) erfc(x *big.Float) *big.Float  { return c.note(c.funcs.Erfc(x)) }

// total is a sum and the sum of the magnitudes of its terms.
type total struct{ value, scale *big.Float }

func (c *calc) total() *total { return &total{zero(), zero()} }

func (c *calc) accumulate(t *total, term *big.Float) {
	t.value = c.add(t.value, term)
	t.scale = wide().Add(t.scale, abs(term))
}

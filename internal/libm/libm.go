// Package libm will hold fp64 elementary functions that give the same bits on every CPU.
//
// The bodies below only fix the signatures; the bits are not final before the package has vectors.
package libm

import "math"

// MaxErrULP bounds the error of every function of the package, in units in the last place.
const MaxErrULP = 1.0

// Exp returns e**x.
func Exp(x float64) float64 { return math.Exp(x) }

// Exp2 returns 2**x.
func Exp2(x float64) float64 { return math.Exp2(x) }

// Expm1 returns e**x - 1.
func Expm1(x float64) float64 { return math.Expm1(x) }

// Log returns the natural logarithm of x.
func Log(x float64) float64 { return math.Log(x) }

// Log2 returns the binary logarithm of x.
func Log2(x float64) float64 { return math.Log2(x) }

// Log1p returns the natural logarithm of 1 + x.
func Log1p(x float64) float64 { return math.Log1p(x) }

// Tanh returns the hyperbolic tangent of x.
func Tanh(x float64) float64 { return math.Tanh(x) }

// Erf returns the error function of x.
func Erf(x float64) float64 { return math.Erf(x) }

// Erfc returns the complementary error function of x.
func Erfc(x float64) float64 { return math.Erfc(x) }

// Sin returns the sine of x radians.
func Sin(x float64) float64 { return math.Sin(x) }

// Cos returns the cosine of x radians.
func Cos(x float64) float64 { return math.Cos(x) }

// Sincos returns Sin(x), Cos(x).
func Sincos(x float64) (sin, cos float64) { return math.Sincos(x) }

// Pow returns x**y.
func Pow(x, y float64) float64 { return math.Pow(x, y) }

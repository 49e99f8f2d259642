// Package libm has the elementary functions of float64 with the same result bits on every CPU.
//
// The functions of package math differ in their last bits between machines: some are assembly on some architectures,
// and the compiler may fuse the products and sums of the others. Here everything is built from single operations that
// IEEE 754 defines to the last bit, every product that feeds a sum is rounded explicitly (see [mad]), and no function
// calls math.FMA, which is slow where the hardware lacks it. The results are therefore a property of this package. They
// are frozen in testdata/vectors/libm: generated cases and reference values depend on them, so a change of a single bit
// is a new version of the vectors.
//
// The usual plan is: an exact reduction of the argument, a table value in two parts (about 53 and 53 bits) and a short
// polynomial for the small rest, so that only the last addition rounds noticeably. P. T. P. Tang described it for exp
// and log (ACM TOMS 15 (1989) 144, 16 (1990) 378). Tables and coefficients are made by the generator in gen.
//
// Errors in units in the last place, as the tests measure them and assert them with a little room:
//
//	Exp, Exp2     0.51       Sin, Cos    0.54       Expm1    0.62
//	Log, Log2     0.51       Pow         0.52       Erfc     0.62
//	Log1p         0.52       Tanh        0.57       Erf      0.66
//
// SiLU, Gelu, GeluTanh and Softplus are made of these and stay within [MaxActivationULP] on the whole line, subnormal
// results included.
//
// Special values are those of C99 Annex F. A NaN result is always the NaN of math.NaN, whatever its argument was.
package libm

//go:generate go test ./gen -run ^TestTables$ -count=1 -update
//go:generate go test . -run ^TestPythonTables$ -count=1 -update-python

// MaxErrULP bounds the error of every elementary function of the package, in units in the last place.
const MaxErrULP = 1.0

// mad returns x·y + z with both operations rounded. The conversion forbids the compiler to fuse them (Go spec,
// floating-point operators).
func mad(x, y, z float64) float64 { return float64(x*y) + z }

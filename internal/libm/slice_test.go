// This file implements the tests of the slice functions: the bits of the scalar ones, whatever stands beside them.

package libm_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/libm"
)

// sliceArguments are arguments of every kind, rare ones strewn among ordinary ones.
func sliceArguments(n int) []float64 {
	special := []float64{
		0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), subnormal, 0x1p-1022, -subnormal,
		math.MaxFloat64, -math.MaxFloat64, 0x1p-54, -0x1p-54, math.Nextafter(0x1p-54, 0), math.Nextafter(-0x1p-54, 0),
		20, -20, 0.25, -0.25, 0x1p-28, -0x1p-28, math.Nextafter(0x1p-28, 0),
		512, -512, math.Nextafter(512, 0), math.Nextafter(-512, 0), 0x1p-30, 0x1p20, math.Pi / 2, math.Pi, 1e-300,
		math.Nextafter(1, 0), math.Nextafter(1, 2), 709.9, -745.2, -708.5,
	}
	r := rand.New(rand.NewPCG(5, 6))
	areas := []area{
		evenBoth(0, 20), even(0, 1), even(0, 2*math.Pi), evenBoth(0, 600), spreadBoth(0x1p-70, 0x1p25),
		spreadBoth(subnormal, math.MaxFloat64),
	}
	xs := make([]float64, n)
	for i := range xs {
		switch i / 64 % 8 {
		case 0: // many rare ones
			xs[i] = special[r.IntN(len(special))]
		case 1, 2:
			xs[i] = areas[0].draw(r)
			if r.IntN(16) == 0 {
				xs[i] = special[r.IntN(len(special))]
			}
		default:
			xs[i] = areas[r.IntN(len(areas))].draw(r)
		}
	}
	return xs
}

func TestSlicesHaveTheBitsOfTheScalars(t *testing.T) {
	xs := sliceArguments(1 << 18)
	a, b := make([]float64, len(xs)), make([]float64, len(xs))
	check := func(name string, f func(float64) float64, got []float64) {
		t.Helper()
		for i, x := range xs {
			if want := f(x); math.Float64bits(got[i]) != math.Float64bits(want) {
				t.Fatalf("%s(%x) = %x in a slice, want %x", name, x, got[i], want)
			}
		}
	}
	libm.ExpSlice(a, xs)
	check("Exp", libm.Exp, a)
	libm.Exp2Slice(a, xs)
	check("Exp2", libm.Exp2, a)
	libm.LogSlice(a, xs)
	check("Log", libm.Log, a)
	libm.TanhSlice(a, xs)
	check("Tanh", libm.Tanh, a)
	libm.SincosSlice(a, b, xs)
	check("Sin", libm.Sin, a)
	check("Cos", libm.Cos, b)
}

// TestSlicesOfAnyLength: in place, and nothing beyond the end is touched.
func TestSlicesOfAnyLength(t *testing.T) {
	xs := sliceArguments(1 << 10)
	for n := range 40 {
		for name, f := range map[string]struct {
			slice  func(dst, src []float64)
			scalar func(float64) float64
		}{
			"Exp":  {libm.ExpSlice, libm.Exp},
			"Exp2": {libm.Exp2Slice, libm.Exp2},
			"Log":  {libm.LogSlice, libm.Log},
			"Tanh": {libm.TanhSlice, libm.Tanh},
			"Sin":  {func(dst, src []float64) { libm.SincosSlice(dst, make([]float64, len(src)), src) }, libm.Sin},
			"Cos":  {func(dst, src []float64) { libm.SincosSlice(make([]float64, len(src)), dst, src) }, libm.Cos},
		} {
			src := xs[100+n : 100+2*n]
			dst := append(append([]float64(nil), src...), 42)
			f.slice(dst, dst[:n])
			for i, x := range src {
				if want := f.scalar(x); math.Float64bits(dst[i]) != math.Float64bits(want) {
					t.Errorf("%s, length %d: element %d of %x = %x, want %x", name, n, i, x, dst[i], want)
				}
			}
			if dst[n] != 42 {
				t.Errorf("%s, length %d: wrote beyond the end", name, n)
			}
		}
	}
}

// TestBoxMuller: the bits of the formula, for pairs in every lane and pairs that take the scalar way beside others.
func TestBoxMuller(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	rare := []float64{0, 0x1p-53, 0.25, 0.5, 0.75, 1 - 0x1p-53, 1e-310}
	for n := range 70 {
		for range 200 {
			vals := make([]float64, n)
			for i := range vals {
				if vals[i] = r.Float64(); r.IntN(30) == 0 {
					vals[i] = rare[r.IntN(len(rare))]
				}
			}
			got := append([]float64(nil), vals...)
			libm.BoxMuller(got)
			for i := 0; i+2 <= n; i += 2 {
				radius := math.Sqrt(-2 * libm.Log(max(vals[i], libm.LeastUniform)))
				sin, cos := libm.Sincos(2 * math.Pi * vals[i+1])
				if want := [2]float64{radius * cos, radius * sin}; got[i] != want[0] || got[i+1] != want[1] {
					t.Fatalf("BoxMuller(%x, %x) = %x, want %x", vals[i], vals[i+1], got[i:i+2], want)
				}
			}
			if n%2 == 1 && got[n-1] != vals[n-1] {
				t.Fatalf("length %d: the odd element changed", n)
			}
		}
	}
}

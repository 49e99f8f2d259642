// This file implements the benchmarks.

package libm_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/libm"
)

var sink float64

// BenchmarkFunctions gives the time per call over a block of independent arguments in each area of use.
func BenchmarkFunctions(b *testing.B) {
	for _, c := range []struct {
		name   string
		f      func(float64) float64
		lo, hi float64
	}{
		{"Exp", libm.Exp, -20, 20},
		{"Exp/math", math.Exp, -20, 20},
		{"Exp2", libm.Exp2, -20, 20},
		{"Expm1", libm.Expm1, -3, 3},
		{"Expm1/small", libm.Expm1, -0.06, 0.06},
		{"Log", libm.Log, 0, 20},
		{"Log/math", math.Log, 0, 20},
		{"Log2", libm.Log2, 0, 20},
		{"Log1p", libm.Log1p, -0.5, 2},
		{"Tanh", libm.Tanh, -3, 3},
		{"Tanh/small", libm.Tanh, -0.5, 0.5},
		{"Erf", libm.Erf, -3, 3},
		{"Erf/math", math.Erf, -3, 3},
		{"Erfc", libm.Erfc, -3, 3},
		{"Erfc/large", libm.Erfc, 1, 20},
		{"Sin", libm.Sin, -10, 10},
		{"Sin/math", math.Sin, -10, 10},
		{"Cos", libm.Cos, -10, 10},
		{"Cos/huge", libm.Cos, -1e300, 1e300},
		{"Pow", func(x float64) float64 { return libm.Pow(x, 2.4) }, 0, 20},
		{"Pow/math", func(x float64) float64 { return math.Pow(x, 2.4) }, 0, 20},
	} {
		b.Run(c.name, func(b *testing.B) {
			xs := block(c.lo, c.hi)
			i, s := 0, 0.0
			for b.Loop() {
				s += c.f(xs[i%len(xs)])
				i++
			}
			sink = s
		})
	}
}

func block(lo, hi float64) []float64 {
	r := rand.New(rand.NewPCG(3, 4))
	xs := make([]float64, 1<<14)
	for i := range xs {
		xs[i] = lo + r.Float64()*(hi-lo)
	}
	return xs
}

func BenchmarkSlices(b *testing.B) {
	for name, f := range map[string]func(dst, src []float64){
		"Exp": libm.ExpSlice, "Log": libm.LogSlice, "Tanh": libm.TanhSlice,
		"Sincos":    func(dst, src []float64) { libm.SincosSlice(dst, dst, src) },
		"BoxMuller": func(dst, src []float64) { copy(dst, src); libm.BoxMuller(dst) },
	} {
		b.Run(name, func(b *testing.B) {
			src := block(0, 1)[:1024]
			dst := make([]float64, len(src))
			for b.Loop() {
				f(dst, src)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(src)), "ns/elem")
		})
	}
}

func BenchmarkSincos(b *testing.B) {
	xs := block(0, 2*math.Pi)
	i := 0
	for b.Loop() {
		s, c := libm.Sincos(xs[i%len(xs)])
		sink = s + c
		i++
	}
}

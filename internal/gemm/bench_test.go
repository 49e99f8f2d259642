package gemm

import (
	"fmt"
	"testing"
)

// BenchmarkMul times the shapes that take different paths; bench/speed compares some of them with numpy.
func BenchmarkMul(b *testing.B) {
	sizes := [][3]int{
		{4, 4, 4}, {13, 13, 13}, {16, 16, 16}, {64, 64, 64}, {128, 128, 128}, {512, 512, 512}, {1024, 1024, 1024},
		{1, 1024, 1024}, {1024, 1, 1024}, {4, 1024, 1024}, {16, 1024, 1024}, {1024, 16, 1024}, {1024, 1024, 16},
	}
	for _, size := range sizes {
		m, n, k := size[0], size[1], size[2]
		src := source(1)
		x, y := src.fill(make([]float64, m*k), 0), src.fill(make([]float64, k*n), 0)
		c, s := make([]float64, m*n), make([]float64, m*n)
		modes := []struct {
			name string
			call func()
		}{
			{"plain", func() { Mul(c, x, y, m, n, k, Options{}) }},
			{"trans", func() { Mul(c, x, y, m, n, k, Options{TransB: true}) }},
			{"abs", func() { MulAbs(c, s, x, y, m, n, k, Options{}) }},
		}
		for _, mode := range modes {
			b.Run(fmt.Sprintf("%dx%dx%d/%s", m, n, k, mode.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					mode.call()
				}
				steps := float64(m) * float64(n) * float64(k) * float64(b.N)
				b.ReportMetric(2*steps/b.Elapsed().Seconds()/1e9, "GF/s")
			})
		}
	}
}

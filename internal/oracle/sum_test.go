package oracle

import (
	"math"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/rng"
)

// sumFamilies are rows whose sums round in different ways: at random, always the same way, and in patterns.
var sumFamilies = map[string]func(i, n int, r *rng.RNG) float64{
	"uniform":     func(_, _ int, r *rng.RNG) float64 { return float64(20*r.Float64()) - 10 },
	"positive":    func(_, _ int, r *rng.RNG) float64 { return r.Float64() },
	"offset":      func(_, _ int, r *rng.RNG) float64 { return 1e4 + r.Normal() },
	"constant":    func(int, int, *rng.RNG) float64 { return 0.1 },
	"two values":  func(i, _ int, _ *rng.RNG) float64 { return []float64{0.1, 0.7}[i%2] },
	"four values": func(i, _ int, _ *rng.RNG) float64 { return []float64{0.1, 0.7, 1.3, 2.9}[i*7%4] },
	"mostly one": func(i, _ int, r *rng.RNG) float64 {
		if i%5 == 0 {
			return r.Float64()
		}
		return 0.3
	},
	"one in six": func(i, _ int, r *rng.RNG) float64 { // 3.0029 is always rounded down beside 10^4
		if i*7%6 == 0 {
			return 3.0029
		}
		return 3 + r.Normal()
	},
	"slow ramp": func(i, n int, r *rng.RNG) float64 { return float64(i)/float64(n) - 0.7 + float64(1e-6*r.Normal()) },
	"ramp squares": func(i, n int, r *rng.RNG) float64 {
		x := float64(i)/float64(n) - 0.5
		return float64(x*x) + float64(1e-9*r.Normal())
	},
	"heavy tail": func(_, _ int, r *rng.RNG) float64 { return math.Exp(6 * r.Normal()) },
	"rising":     func(i, n int, _ *rng.RNG) float64 { return float64(i+1) / float64(n) },
	"falling":    func(i, n int, _ *rng.RNG) float64 { return float64(n-i) / float64(n) },
	"harmonic":   func(i, _ int, _ *rng.RNG) float64 { return 1 / float64(i+1) },
	"geometric":  func(i, n int, _ *rng.RNG) float64 { return math.Pow(0.5, float64(24*i)/float64(n)) },
	"waves":      func(i, _ int, _ *rng.RNG) float64 { return math.Sin(float64(i) / 10) },
	"one large": func(i, _ int, r *rng.RNG) float64 {
		if i == 0 {
			return 1e6
		}
		return r.Float64()
	},
	"squares": func(_, _ int, r *rng.RNG) float64 {
		x := dtype.BFloat16.Float64(dtype.BFloat16.Bits(72 + float64(48*r.Float64())))
		return float64(x * x)
	},
	"bfloat16": func(_, _ int, r *rng.RNG) float64 {
		return dtype.BFloat16.Float64(dtype.BFloat16.Bits(float64(20*r.Float64()) - 10))
	},
}

// float32Sums returns the sum of x in the orders that kernels take.
func float32Sums(x []float64) map[string]float64 {
	chain := func(x []float64, lo, hi, step int) float32 {
		var s float32
		for i := lo; i >= 0 && i < hi; i += step {
			s += float32(x[i])
		}
		return s
	}
	var pairs func(x []float64) float32
	pairs = func(x []float64) float32 {
		if len(x) == 1 {
			return float32(x[0])
		}
		return pairs(x[:len(x)/2]) + pairs(x[len(x)/2:])
	}
	lanes := func(n int) float64 {
		part := make([]float64, n)
		for i := range part {
			part[i] = float64(chain(x, i, len(x), n))
		}
		return float64(pairs(part))
	}
	largestFirst := slices.Clone(x)
	slices.SortFunc(largestFirst, func(a, b float64) int { return int(math.Copysign(1, abs(b)-abs(a))) })
	return map[string]float64{
		"sequential": float64(chain(x, 0, len(x), 1)), "reversed": float64(chain(x, len(x)-1, len(x), -1)),
		"pairwise": float64(pairs(x)), "8 lanes": lanes(8), "32 lanes": lanes(32), "256 lanes": lanes(256),
		"largest first": float64(chain(largestFirst, 0, len(x), 1)),
	}
}

// TestLongSums holds the bound of long sums, which counts roundings as independent, to sums of all kinds.
func TestLongSums(t *testing.T) {
	m := newArith(dtype.Float32, "gpu")
	for name, f := range sumFamilies {
		for _, n := range []int{300, 1024, 4096, 65537} {
			r := rng.New(uint64(n))
			x := make([]float64, n)
			for i := range x {
				x[i] = float64(float32(f(i, n, r)))
			}
			got := m.sumRow(x)
			for order, s := range float32Sums(x) {
				if e := math.Abs(s - got.v); e > got.e {
					t.Errorf("%s, %d terms, %s: error %g is %.2f of the bound %g", name, n, order, e, e/got.e, got.e)
				}
			}
			if worst := float64(float64(n) * float64(m.u*math.Max(got.v, 0))); name == "positive" && got.e > worst/4 {
				t.Errorf("%d positive terms: bound %g, want at most a quarter of n·u·Σx = %g", n, got.e, worst)
			}
		}
	}
}

// TestVariety: a sample sees that most terms repeat a few values, wherever they stand, one by one or all at once.
func TestVariety(t *testing.T) {
	narrow := map[string]bool{"constant": true, "two values": true, "four values": true, "mostly one": true}
	for name, f := range sumFamilies {
		for _, n := range []int{64, 1025, 65537} {
			r := rng.New(uint64(n))
			var one, all variety
			x := make([]float64, n)
			for i := range x {
				x[i] = f(i, n, r)
				one.see(i, x[i])
			}
			all.seeAll(0, x[:n/3])
			all.seeAll(n/3, x[n/3:])
			if one != all {
				t.Errorf("%s, %d terms: one by one %+v, all at once %+v", name, n, one, all)
			}
			if got := repeats(one.few(nil, &one.sample)); got != narrow[name] {
				t.Errorf("%s, %d terms: repeats = %v, want %v (%+v)", name, n, got, narrow[name], one)
			}
		}
	}
}

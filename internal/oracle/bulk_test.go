package oracle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// drawNum returns an ordinary num of one of several kinds; rarely one at the edge of what is ordinary.
func drawNum(r *rand.Rand, wild bool) num {
	x := num{v: r.NormFloat64()}
	switch k := r.IntN(16); {
	case k == 0:
		x.v = 0
	case k == 1:
		x.v = math.Copysign(0, -1)
	case k == 2:
		x.v = math.Ldexp(x.v, r.IntN(240)-120)
	case k == 3 && wild:
		x.v = math.Ldexp(x.v, r.IntN(2040)-1020)
	case k == 4 && wild:
		x.v = []float64{math.Inf(1), math.NaN(), math.MaxFloat64, math.MaxFloat32, 0x1p126, noBound, 5e-324}[r.IntN(7)]
	case k == 5:
		x.v = float64(r.IntN(5) - 2)
	}
	switch k := r.IntN(8); {
	case k < 3:
		x.e = math.Abs(x.v) * 0x1p-24 * r.Float64()
	case k == 3:
		x.e = math.Ldexp(r.Float64(), -r.IntN(160))
	case k == 4 && wild:
		x.e = math.Ldexp(r.Float64(), r.IntN(2000)-1000)
	}
	if x.v-x.v != 0 {
		x.e = 0
	}
	return x
}

// TestBulkIsNum: a run is refused, or has the bits of the operations of num, all of them ordinary.
func TestBulkIsNum(t *testing.T) {
	ops := map[string]struct {
		bulk func(m *arith, dst, a, b bulk) bool
		num  func(m *arith, a, b num) num
	}{
		"add": {(*arith).addAll, (*arith).add},
		"sub": {(*arith).subAll, (*arith).sub},
		"mul": {(*arith).mulAll, (*arith).mul},
		"div": {
			func(m *arith, dst, a, b bulk) bool { return m.divLeastAll(dst, a, b, 0.5) },
			func(m *arith, a, b num) num { return m.divLeast(a, b, 0.5) },
		},
		"div0": {
			func(m *arith, dst, a, b bulk) bool { return m.divLeastAll(dst, a, b, 0) },
			func(m *arith, a, b num) num { return m.divLeast(a, b, 0) },
		},
		"exp": {
			func(m *arith, dst, a, _ bulk) bool { return m.expAll(dst, a) },
			func(m *arith, a, _ num) num { return m.exp(a) },
		},
		"capped exp": {
			func(m *arith, dst, a, _ bulk) bool {
				ok := m.expAll(dst, a)
				m.capAll(dst, 1)
				return ok
			},
			func(m *arith, a, _ num) num { return capped(m.exp(a), 1) },
		},
	}
	r := rand.New(rand.NewPCG(7, 8))
	for name, op := range ops {
		accepted := 0
		for range 20_000 {
			m := newArith([]dtype.DType{dtype.Float32, dtype.Float64}[r.IntN(2)], []string{"gpu", "ieee"}[r.IntN(2)])
			n, wild := bulkLanes*(1+r.IntN(3)), r.IntN(4) == 0
			dst, a, b := newBulk(n), newBulk(n), newBulk(n)
			if r.IntN(4) == 0 {
				b = newBulk(bulkLanes)
			}
			for i := range a.v {
				x := drawNum(r, wild)
				a.v[i], a.e[i] = x.v, x.e
			}
			x := drawNum(r, wild)
			for i := range b.v {
				if len(b.v) == n {
					x = drawNum(r, wild)
				}
				b.v[i], b.e[i] = x.v, x.e
			}
			if !op.bulk(&m, dst, a, b) {
				continue
			}
			accepted++
			for i := range dst.v {
				got, want := dst.at(i), op.num(&m, a.at(i), b.at(i))
				if math.Float64bits(got.v) != math.Float64bits(want.v) ||
					math.Float64bits(got.e) != math.Float64bits(want.e) || want.w != 0 {
					t.Fatalf("%s(%x, %x) = %x in a run, want %x", name, a.at(i), b.at(i), got, want)
				}
			}
		}
		if accepted < 1000 {
			t.Errorf("%s: only %d of 20000 runs were ordinary", name, accepted)
		}
	}
}

func TestExtent(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, -5e-324, 1e300}
	for range 5000 {
		x := make([]float64, r.IntN(20))
		want := extent{min: math.Inf(1), max: math.Inf(-1), least: math.Inf(1), finite: true}
		for i := range x {
			x[i] = r.NormFloat64()
			if r.IntN(10) == 0 {
				x[i] = special[r.IntN(len(special))]
			}
			if v := x[i]; v == v {
				want.min, want.max = min(want.min, v), max(want.max, v)
				if v != 0 {
					want.least = min(want.least, math.Abs(v))
				}
			}
			want.finite = want.finite && x[i]-x[i] == 0
		}
		if got := extentOf(x); got != want {
			t.Fatalf("extentOf(%v) = %+v, want %+v", x, got, want)
		}
	}
}

// TestRunsOfActivations: a run is refused or has the bits of the activation of each element.
func TestRunsOfActivations(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for name, op := range map[string]struct {
		all func(r *run, x bulk) (bulk, bool)
		num func(m *arith, x num) num
	}{
		"sigmoid":   {(*run).sigmoidAll, (*arith).sigmoid},
		"silu":      {(*run).siluAll, (*arith).silu},
		"gelu_tanh": {(*run).geluTanhAll, (*arith).geluTanh},
		"tanh": {
			func(r *run, x bulk) (bulk, bool) { y := r.tmp[0].of(len(x.v)); return y, r.tanhAll(y, x) }, (*arith).tanh,
		},
	} {
		accepted := 0
		for range 4000 {
			d := []dtype.DType{dtype.Float32, dtype.Float64}[r.IntN(2)]
			c := newRun(&call{T: d, arith: newArith(d, []string{"gpu", "ieee"}[r.IntN(2)])})
			x := make([]float64, 1+r.IntN(30))
			scale := math.Ldexp(1, r.IntN(12)-5)
			for i := range x {
				if x[i] = r.NormFloat64() * scale; r.IntN(40) == 0 {
					x[i] = drawNum(r, true).v
				}
			}
			if ext := extentOf(x); !ext.finite || ext.least < c.flush {
				continue
			}
			in := c.x.of(len(x))
			in.fill(x)
			got, ok := op.all(c, in)
			if !ok {
				continue
			}
			accepted++
			for i, v := range x {
				want := op.num(&c.arith, c.input(v))
				if g := got.at(i); math.Float64bits(g.v) != math.Float64bits(want.v) ||
					math.Float64bits(g.e) != math.Float64bits(want.e) || want.w != 0 {
					t.Fatalf("%s(%x) = %x in a run, want %x", name, v, g, want)
				}
			}
		}
		if accepted < 1000 {
			t.Errorf("%s: only %d of 4000 runs were ordinary", name, accepted)
		}
	}
}

func TestRunsOfExactTerms(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for range 2000 {
		x := make([]float64, r.IntN(40))
		var got, want sum
		for i := range x {
			if x[i] = drawNum(r, true).v; x[i]-x[i] != 0 {
				x[i] = math.Copysign(0, -1)
			}
			want.add(exact(x[i]))
		}
		// As text: a chain in float32 that overflows both ways is NaN, which does not equal itself.
		if got.addExact(x, extentOf(x).largest()); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Fatalf("addExact(%x) = %+v, want %+v", x, got, want)
		}
	}
}

// TestRunsOfLogSoftmax: a row of ordinary scores has the bits that the operations of num give.
func TestRunsOfLogSoftmax(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for range 500 {
		d := []dtype.DType{dtype.Float32, dtype.Float64}[r.IntN(2)]
		c := &call{T: d, arith: newArith(d, []string{"gpu", "ieee"}[r.IntN(2)])}
		x := make([]float64, 1+r.IntN(60))
		for i := range x {
			x[i] = r.NormFloat64() * math.Ldexp(1, r.IntN(9)-3)
		}
		out := newResult(d, tensor.Shape{len(x)}, d, false, false)
		c.logSoftmaxRow(out, 0, x, newRowScratch(len(x)))
		terms := make([]num, len(x))
		top, total := c.expSum(x, terms)
		l := c.logOfSum(x, top, total, values(make([]float64, len(x)), terms))
		for i, v := range x {
			want := c.sub(c.sub(c.input(v), top), l)
			if math.Float64bits(out.Value[i]) != math.Float64bits(want.v) ||
				math.Float64bits(out.Bound[i]) != math.Float64bits(want.e) {
				t.Fatalf("log_softmax(%x)[%d] = %x ± %x in a run, want %x", x, i, out.Value[i], out.Bound[i], want)
			}
		}
	}
}

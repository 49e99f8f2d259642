package compare

import (
	"math"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

func floats(t *testing.T, d dtype.DType, values ...float64) *tensor.Tensor {
	t.Helper()
	out := tensor.New(d, tensor.Shape{len(values)})
	out.SetFloat64s(values)
	return out
}

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

func TestSpreadOfEvaluations(t *testing.T) {
	f32 := func(values ...float64) *tensor.Tensor { return floats(t, dtype.Float32, values...) }
	f64 := func(values ...float64) *tensor.Tensor { return floats(t, dtype.Float64, values...) }
	const u = 0x1p-24
	for _, c := range []struct {
		name   string
		e      Evaluations
		bound  []float64
		marked []bool
	}{
		{"evaluations that agree add nothing", Evaluations{Native: f32(1, 2), Exact: f64(1, 2),
			Working: []*tensor.Tensor{f32(1, 2), f32(1, 2)}}, []float64{0, 0}, []bool{false, false}},
		{"roundings of the result add nothing", Evaluations{Native: f32(1), Exact: f64(1 + 0.4*u),
			Working: []*tensor.Tensor{f32(1 + 2*u), f32(1)}}, []float64{0}, []bool{false}},
		{"the native evaluation counts once", Evaluations{Native: f64(3), Exact: f64(1)},
			[]float64{2 - 3*dtype.Float64.HalfULP(1)}, []bool{false}},
		{"the root mean square of the others counts by the factor", Evaluations{Native: f64(0), Exact: f64(0),
			Working: []*tensor.Tensor{f64(3), f64(-4)}}, []float64{SpreadFactor * math.Sqrt(12.5)}, []bool{false}},
		{"overflow in the working precision", Evaluations{Native: f64(1, 1, inf, nan), Exact: f64(1, 1, inf, nan),
			Working: []*tensor.Tensor{f64(1, nan, inf, nan), f64(inf, 1, 5, nan)}},
			[]float64{0, 0, 0, 0}, []bool{true, true, true, false}},
		{"overflow of the native evaluation", Evaluations{Native: floats(t, dtype.Float16, inf, 2), Exact: f64(1e6, 2)},
			[]float64{0, 0}, []bool{true, false}},
		{"storage counts by its overflows alone", Evaluations{Native: f64(1, 1, inf), Exact: f64(1, 1, inf),
			Storage: []*tensor.Tensor{f64(7, nan, 1)}}, []float64{0, 0, 0}, []bool{false, true, false}},
		{"NaN of finite inputs is a result", Evaluations{Native: f64(nan)}, []float64{0}, []bool{false}},
		{"NaN of other inputs is none", Evaluations{Native: f64(nan, inf, 1), NonFinite: true}, []float64{0, 0, 0},
			[]bool{true, false, false}},
		{"what depends on a NaN", Evaluations{Native: f64(0, 1, 2), NonFinite: true,
			Replaced: []*tensor.Tensor{f64(0, 1, 2), f64(0.5, 1, nan)}}, []float64{0, 0, 0}, []bool{true, false, true}},
		{"a spread of any size is a number", Evaluations{Native: f64(0), Exact: f64(0),
			Working: []*tensor.Tensor{f64(math.MaxFloat64)}}, []float64{math.MaxFloat64}, []bool{false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &Want{DType: dtype.Float32, Shape: c.e.Native.Shape, Stored: c.e.Want()}
			c.e.Judge(w, Tolerance{1e-5, 1e-5})
			if !slices.Equal(w.Undetermined, c.marked) {
				t.Errorf("undetermined %v, want %v", w.Undetermined, c.marked)
			}
			for i, b := range w.Bound {
				if math.Abs(b-c.bound[i]) > 1e-12*c.bound[i] {
					t.Errorf("bound %v, want %v", w.Bound, c.bound)
				}
			}
		})
	}
}

func TestSpreadOfIntegers(t *testing.T) {
	ints := func(values ...float64) *tensor.Tensor { return floats(t, dtype.Int64, values...) }
	e := Evaluations{Native: ints(1, 2, 3), Exact: ints(1, 2, 3), Working: []*tensor.Tensor{ints(1, 2, 3), ints(1, 7, 3)}}
	w := &Want{DType: dtype.Int64, Shape: e.Native.Shape, Exact: e.Want(), Undetermined: []bool{true, false, false}}
	e.Judge(w, Tolerance{})
	if want := []bool{true, true, false}; !slices.Equal(w.Undetermined, want) || w.Bound != nil {
		t.Errorf("undetermined %v, bound %v, want %v and none", w.Undetermined, w.Bound, want)
	}
}

// In the regime Spread an element has the fixed tolerance and its spread: never less than the fixed one, with all ways
// to compare.
func TestSpreadRegime(t *testing.T) {
	const n = 3 * chunkElems / 2
	tol := Tolerance{1e-3, 1e-3}
	for _, stored := range []dtype.DType{dtype.Float32, dtype.Float64} {
		want, got := make([]float64, n), make([]float64, n)
		spread := make([]float64, n)
		for i := range want {
			want[i] = float64(i%7) - 3
			got[i] = want[i] + 0.9*tol.At(want[i])
			if i%5 == 0 {
				spread[i] = 2
				got[i] = want[i] + 1.9
			}
		}
		w := &Want{DType: dtype.Float32, Shape: tensor.Shape{n}, Stored: floats(t, stored, want...), Bound: spread}
		opt := DefaultOptions()
		opt.Regime, opt.Tol = Spread, tol
		check := func(wrong int) {
			t.Helper()
			out := floats(t, dtype.Float32, got...)
			for name, compare := range map[string]func(*tensor.Tensor, *Want, Options) (*Report, error){
				"Compare": Compare, "Quick": Quick,
			} {
				rep, err := compare(out, w, opt)
				if err != nil || rep.Counts.Mismatched != wrong || rep.Regime != Spread || rep.Tol != tol {
					t.Errorf("%s: %+v, %v; want %d wrong", name, rep, err, wrong)
				}
			}
		}
		check(0)
		got[1], got[5], got[chunkElems+1] = want[1]+1.9, want[5]+2.1, want[chunkElems+1]+1.9
		check(3)
		w.Bound = nil // not evaluated yet: the fixed tolerance alone
		got[1], got[5], got[chunkElems+1] = want[1], want[5], want[chunkElems+1]
		check((n+4)/5 - 1)
	}
}

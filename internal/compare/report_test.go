package compare

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

func ExampleReport_Text() {
	shape := tensor.MustShape(2, 4)
	got := tensor.FromFloat64s(dtype.Float32, shape, []float64{1, 2, 3.5, 4, 5, 6, 7, math.NaN()})
	want := &Want{DType: dtype.Float32, Shape: shape, Value: []float64{1, 2, 3, 4, 5, 6, 7, 8}}
	rep, _ := Compare(got, want, DefaultOptions())
	fmt.Print(rep.Text(false))
	// Output:
	// fail: fixed tolerance, atol 1e-05, rtol 1e-05
	// 2 of 8 elements wrong (25 %), float32 [2,4]
	// worst absolute   0.5 at [0,2]: got 3.5, want 3, bound 4e-05
	// worst relative   0.166667 at [0,2]: got 3.5, want 3, bound 4e-05
	// worst ULP        2097152 at [0,2]: got 3.5, want 3, bound 4e-05
	// worst error/bound 12500 at [0,2]: got 3.5, want 3, bound 4e-05
	// class            unexpected NaN at [1,3]: got NaN, want 8, bound 9e-05
	// classes: 1 unexpected NaN
	// absolute error: max 0.5, mean 0.07143, p50 0, p90 0, p99 0.5
	// relative error: max 0.1667, mean 0.02381; ULP: max 2097152, mean 2.996e+05; error/bound: max 1.25e+04
}

func TestTextOrder(t *testing.T) {
	shape := tensor.MustShape(50)
	want := make([]float64, 50)
	got := make([]float64, 50)
	for i := range want {
		want[i] = float64(i + 1)
		got[i] = 2 * want[i]
	}
	rep, err := Compare(tensor.FromFloat64s(dtype.Float32, shape, got),
		&Want{DType: dtype.Float32, Shape: shape, Value: want}, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	text := rep.Text(true)
	last := -1
	for _, part := range []string{"fail: ", "50 of 50 elements wrong (100 %)", "worst absolute", "worst relative",
		"worst ULP", "absolute error: max 50", "diagnosis: every element is scaled by 2.000", "(. none, 1-9 tenths, @ all)"} {
		at := strings.Index(text, part)
		if at <= last {
			t.Errorf("Text: %q at %d, want it after %d in\n%s", part, at, last, text)
		}
		last = at
	}
}

func TestMisfit(t *testing.T) {
	want := &Want{DType: dtype.Float32, Shape: tensor.MustShape(2, 3), Value: make([]float64, 6)}
	for _, c := range []struct {
		got    *tensor.Tensor
		reason string
	}{
		{tensor.New(dtype.Float16, tensor.MustShape(2, 3)), "output has dtype float16, want float32"},
		{tensor.New(dtype.Float32, tensor.MustShape(2, 2)), "output has shape [2,2], want [2,3]"},
		{tensor.New(dtype.Float32, tensor.MustShape(6)), "output has shape [6], want [2,3]"},
		{tensor.New(dtype.Float32, tensor.MustShape(3, 2)), "output has shape [3,2], want [2,3]"},
		{tensor.New(dtype.Int32, tensor.MustShape(3)), "output is int32 [3], want float32 [2,3]"},
	} {
		for name, f := range entryPoints() {
			rep, err := f(c.got, want, DefaultOptions())
			if err != nil || rep.Verdict != Error || rep.Reason != c.reason {
				t.Errorf("%s = %+v, %v, want error with reason %q", name, rep, err, c.reason)
			}
			if got := rep.Text(true); got != "error: "+c.reason+"\n" {
				t.Errorf("Text = %q", got)
			}
		}
	}
}

// TestOtherTypes: an output may have any of the permitted types, and is read as what it is.
func TestOtherTypes(t *testing.T) {
	shape := tensor.MustShape(2)
	value := func(also ...dtype.DType) *Want {
		return &Want{DType: dtype.Int64, Also: also, Shape: shape, Value: []float64{7, 300}}
	}
	exact := value(dtype.Int32, dtype.Uint8)
	exact.Value, exact.Exact = nil, tensor.FromFloat64s(dtype.Int64, shape, []float64{7, 300})
	for _, c := range []struct {
		want   *Want
		got    dtype.DType
		values []float64
		v      Verdict
		reason string
	}{
		{value(dtype.Int32), dtype.Int64, []float64{7, 300}, Pass, ""},
		{value(dtype.Int32), dtype.Int32, []float64{7, 300}, Pass, ""},
		{value(dtype.Int32), dtype.Int32, []float64{7, 301}, Fail, ""},
		{value(dtype.Int32), dtype.Int64, []float64{8, 300}, Fail, ""},
		{value(dtype.Int32), dtype.Float32, []float64{7, 300}, Error, "output has dtype float32, want int64 or int32"},
		{value(), dtype.Int32, []float64{7, 300}, Error, "output has dtype int32, want int64"},
		{exact, dtype.Int32, []float64{7, 300}, Pass, ""},
		{exact, dtype.Int32, []float64{7, -300}, Fail, ""},
	} {
		for name, f := range entryPoints() {
			rep, err := f(tensor.FromFloat64s(c.got, shape, c.values), c.want, DefaultOptions())
			if err != nil || rep.Verdict != c.v || rep.Reason != c.reason {
				t.Errorf("%s(%s %v) = %+v, %v, want %s %q", name, c.got, c.values, rep, err, c.v, c.reason)
			}
			if rep.Verdict != Error && rep.DType != c.got {
				t.Errorf("%s(%s): reported as %s", name, c.got, rep.DType)
			}
		}
	}
	if _, err := Compare(tensor.New(dtype.Int64, shape), value(dtype.Float32), DefaultOptions()); err == nil {
		t.Error("a float type beside an integer type is taken")
	}
}

// TestScalar: one number may be wrapped in one axis, not more, and not the other way around.
func TestScalar(t *testing.T) {
	scalar := &Want{DType: dtype.Float32, Shape: tensor.MustShape(), Value: []float64{2}}
	vector := &Want{DType: dtype.Float32, Shape: tensor.MustShape(1), Value: []float64{2}}
	for _, c := range []struct {
		shape tensor.Shape
		value float64
		want  *Want
		v     Verdict
	}{
		{tensor.MustShape(), 2, scalar, Pass}, {tensor.MustShape(1), 2, scalar, Pass},
		{tensor.MustShape(1), 3, scalar, Fail}, {tensor.MustShape(1, 1), 2, scalar, Error},
		{tensor.MustShape(), 2, vector, Error}, {tensor.MustShape(2), 2, scalar, Error},
	} {
		x := make([]float64, c.shape.Elems())
		for i := range x {
			x[i] = c.value
		}
		for name, f := range entryPoints() {
			rep, err := f(tensor.FromFloat64s(dtype.Float32, c.shape, x), c.want, DefaultOptions())
			if err != nil || rep.Verdict != c.v {
				t.Errorf("%s(%s, want %s) = %+v, %v, want %s", name, c.shape, c.want.Shape, rep, err, c.v)
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	for _, d := range dtype.All() {
		for _, dims := range [][]int{{0}, {3, 0, 2}} {
			s := tensor.MustShape(dims...)
			rep, err := Compare(tensor.New(d, s), &Want{DType: d, Shape: s}, DefaultOptions())
			if err != nil || rep.Verdict != Pass || rep.Counts.Total != 0 {
				t.Errorf("Compare of empty %v %v = %+v, %v, want pass", d, s, rep, err)
			}
			quick, err := Quick(tensor.New(d, s), &Want{DType: d, Shape: s, Value: []float64{}}, DefaultOptions())
			if err != nil || quick.Verdict != Pass {
				t.Errorf("Quick of empty %v %v = %+v, %v, want pass", d, s, quick, err)
			}
		}
		scalar := tensor.MustShape()
		rep, err := Compare(tensor.New(d, scalar), &Want{DType: d, Shape: scalar, Value: []float64{1}}, DefaultOptions())
		if err != nil || rep.Verdict != Fail || rep.Counts.Mismatched != 1 || rep.Map.Text() == "" {
			t.Errorf("Compare of a scalar %v = %+v, %v, want fail", d, rep, err)
		}
	}
}

func TestVerdictZero(t *testing.T) {
	var v Verdict
	if v == Pass || v.String() != "undecided" {
		t.Errorf("zero Verdict = %v, want undecided", v)
	}
	s := tensor.MustShape(3)
	w := &Want{DType: dtype.Float32, Shape: s, Value: []float64{1, 2, 3}, Undetermined: []bool{true, true, true}}
	rep, err := Compare(tensor.New(dtype.Float32, s), w, DefaultOptions())
	if err != nil || rep.Verdict != Undecided || rep.Counts.Undetermined != 3 {
		t.Errorf("Compare with all undetermined = %+v, %v, want undecided", rep, err)
	}
}

// entryPoints are the two functions that answer the same question.
func entryPoints() map[string]func(*tensor.Tensor, *Want, Options) (*Report, error) {
	return map[string]func(*tensor.Tensor, *Want, Options) (*Report, error){"Compare": Compare, "Quick": Quick}
}

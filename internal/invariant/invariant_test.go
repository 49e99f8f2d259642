package invariant

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

func floats(d dtype.DType, dims []int, vals ...float64) *tensor.Tensor {
	return tensor.FromFloat64s(d, tensor.MustShape(dims...), vals)
}

// want is a reference for an output of dtype d.
func want(d dtype.DType, dims []int, vals ...float64) *compare.Want {
	return &compare.Want{DType: d, Shape: tensor.MustShape(dims...), Value: vals}
}

func mustCheck(t *testing.T, text string, c *Context) Result {
	t.Helper()
	r, err := Check(text, c)
	if err != nil {
		t.Fatalf("Check(%q) = %v", text, err)
	}
	return r
}

var nan, inf = math.NaN(), math.Inf(1)

func TestElements(t *testing.T) {
	negZero := math.Copysign(0, -1)
	for _, c := range []struct {
		name    string
		vals    []float64
		outcome Outcome
		index   int
		says    string
	}{
		{"non_negative", []float64{0, negZero, 1, inf}, Holds, 0, ""},
		{"non_negative", []float64{0, 1, -1e-3, -2}, Violated, 2, "2 of 4 elements are not >= 0, the first at [2]: -0.00"},
		{"non_negative", []float64{nan, 1, 2, 3}, Violated, 0, "1 of 4"},
		{"finite", []float64{1, -2, 3, 4}, Holds, 0, ""},
		{"finite", []float64{1, -2, inf, nan}, Violated, 2, "2 of 4 elements are not finite"},
		{"no_nan", []float64{1, -2, inf, -inf}, Holds, 0, ""},
		{"no_nan", []float64{1, nan, inf, 1}, Violated, 1, "1 of 4 elements are NaN"},
		{"no_inf", []float64{1, nan, 2, 1}, Holds, 0, ""},
		{"no_inf", []float64{1, nan, 2, -inf}, Violated, 3, "1 of 4 elements are infinite"},
		{"bounded(-1,2)", []float64{-1, 2, 0, 1}, Holds, 0, ""},
		{"bounded(-1,2)", []float64{-1, 2.5, 0, nan}, Violated, 1,
			"2 of 4 elements are out of bounds, the first at [1]: 2.5"},
		{"bounded(0,inf)", []float64{0, inf, 5, 1}, Holds, 0, ""},
		{"bounded(-inf,1)", []float64{-inf, 1, 0, 2}, Violated, 3, "1 of 4"},
	} {
		for _, d := range []dtype.DType{dtype.Float64, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float8E5M2} {
			r := mustCheck(t, c.name, &Context{Output: floats(d, []int{4}, c.vals...)})
			if r.Outcome != c.outcome || !strings.Contains(r.Sentence, c.says) ||
				c.outcome == Violated && (len(r.Index) != 1 || r.Index[0] != c.index) {
				t.Errorf("%v: Check(%q, %v) = %+v, want %v at %d, %q", d, c.name, c.vals, r, c.outcome, c.index, c.says)
			}
		}
	}
}

func TestIntegerElements(t *testing.T) {
	for _, d := range dtype.All() {
		if d.IsFloat() {
			continue
		}
		out := floats(d, []int{3}, 0, 1, 1)
		for _, name := range []string{"finite", "no_nan", "no_inf", "non_negative", "bounded(0,1)", "monotonic(0)"} {
			if r := mustCheck(t, name, &Context{Output: out}); r.Outcome != Holds {
				t.Errorf("%v: Check(%q) = %+v, want holds", d, name, r)
			}
		}
		if d.IsSigned() {
			neg := floats(d, []int{3}, 0, 1, -1)
			for _, name := range []string{"non_negative", "bounded(0,1)", "monotonic(0)"} {
				if r := mustCheck(t, name, &Context{Output: neg}); r.Outcome != Violated || r.Index[0] != 2 {
					t.Errorf("%v: Check(%q, -1) = %+v, want violated at 2", d, name, r)
				}
			}
		}
	}
}

// TestWideIntegers checks limits and orders that float64 would blur.
func TestWideIntegers(t *testing.T) {
	for _, c := range []struct {
		d       dtype.DType
		bits    []uint64
		name    string
		outcome Outcome
	}{
		{dtype.Int64, []uint64{1<<53 + 1}, "bounded(0,9007199254740992)", Violated},
		{dtype.Int64, []uint64{1 << 53}, "bounded(0,9007199254740992)", Holds},
		{dtype.Int64, []uint64{math.MaxUint64}, "bounded(-1,0)", Holds},
		{dtype.Int64, []uint64{math.MaxUint64}, "bounded(-0.5,0)", Violated},
		{dtype.Int64, []uint64{2}, "bounded(0,2.5)", Holds},
		{dtype.Int64, []uint64{3}, "bounded(0,2.5)", Violated},
		{dtype.Int64, []uint64{1<<63 - 1}, "bounded(0,1e30)", Holds},
		{dtype.Int64, []uint64{1 << 63}, "bounded(-1e30,0)", Holds},
		{dtype.Uint64, []uint64{math.MaxUint64}, "bounded(0,18446744073709551615)", Holds}, // parsed as 2^64
		{dtype.Uint64, []uint64{math.MaxUint64}, "bounded(0,18446744073709549568)", Violated},
		{dtype.Uint64, []uint64{0}, "bounded(-5,0)", Holds},
		{dtype.Uint64, []uint64{1 << 63, 1<<63 + 1}, "monotonic", Holds},
		{dtype.Uint64, []uint64{1<<63 + 1, 1 << 63}, "monotonic", Violated},
		{dtype.Int64, []uint64{1<<53 + 1, 1 << 53}, "monotonic", Violated},
		{dtype.Int64, []uint64{1<<53 + 1, 1 << 53}, "monotonic(0,down)", Holds},
	} {
		out := tensor.New(c.d, tensor.MustShape(len(c.bits)))
		for i, b := range c.bits {
			c.d.Store(out.Data[8*i:], b)
		}
		if r := mustCheck(t, c.name, &Context{Output: out}); r.Outcome != c.outcome {
			t.Errorf("%v %v: Check(%q) = %+v, want %v", c.d, c.bits, c.name, r, c.outcome)
		}
	}
}

// TestBoundedRoundsLimits: 0.1 is not a float16, and the nearest one lies above it.
func TestBoundedRoundsLimits(t *testing.T) {
	d := dtype.BFloat16
	out := floats(d, []int{1}, 0.1)
	if out.At(0) <= 0.1 {
		t.Fatalf("bfloat16(0.1) = %v, want it above 0.1", out.At(0))
	}
	if r := mustCheck(t, "bounded(0,0.1)", &Context{Output: out}); r.Outcome != Holds {
		t.Errorf("Check = %+v, want holds", r)
	}
	next := tensor.New(d, tensor.MustShape(1))
	d.Store(next.Data, out.Bits(0)+1)
	if r := mustCheck(t, "bounded(0,0.1)", &Context{Output: next}); r.Outcome != Violated {
		t.Errorf("Check of the next value = %+v, want violated", r)
	}
}

func TestNotApplicable(t *testing.T) {
	d := dtype.Float32
	for _, c := range []struct {
		name string
		out  []float64
		want []float64
	}{
		{"finite", []float64{1, nan}, []float64{1, nan}},
		{"finite", []float64{1, 2}, []float64{1, inf}}, // the case breaks it, whatever the kernel does
		{"no_nan", []float64{nan, 2}, []float64{nan, 2}},
		{"no_inf", []float64{inf, 2}, []float64{-inf, 2}},
		{"non_negative", []float64{-1, 2}, []float64{-1, 2}},
		{"normalized", []float64{0.5, 0.6}, []float64{0.5, 0.6}},
		{"bounded(0,1)", []float64{0, 2}, []float64{0, 2}},
		{"monotonic", []float64{2, 1}, []float64{2, 1}},
	} {
		r := mustCheck(t, c.name, &Context{Output: floats(d, []int{2}, c.out...), Want: want(d, []int{2}, c.want...)})
		if r.Outcome != NotApplicable || !strings.Contains(r.Sentence, "the reference's own output violates it") {
			t.Errorf("Check(%q) = %+v, want not applicable", c.name, r)
		}
	}
	// The reference keeps it, the output does not.
	r := mustCheck(t, "finite", &Context{Output: floats(d, []int{2}, 1, nan), Want: want(d, []int{2}, 1, 2)})
	if r.Outcome != Violated {
		t.Errorf("Check = %+v, want violated", r)
	}
	stored := &compare.Want{DType: d, Shape: tensor.MustShape(2), Stored: floats(dtype.Float16, []int{2}, 1, nan)}
	r = mustCheck(t, "finite", &Context{Output: floats(d, []int{2}, 1, nan), Want: stored})
	if r.Outcome != NotApplicable {
		t.Errorf("Check with a stored reference = %+v, want not applicable", r)
	}
	exact := &compare.Want{DType: dtype.Int8, Shape: tensor.MustShape(2), Exact: floats(dtype.Int64, []int{2}, 1, -1)}
	r = mustCheck(t, "non_negative", &Context{Output: floats(dtype.Int8, []int{2}, 1, -1), Want: exact})
	if r.Outcome != NotApplicable {
		t.Errorf("Check with an exact reference = %+v, want not applicable", r)
	}
	for _, a := range All() {
		text := a.Name
		if text == "bounded" {
			text = "bounded(0,1)"
		}
		if r := mustCheck(t, text, &Context{}); r.Outcome != NotApplicable || r.Sentence == "" {
			t.Errorf("Check(%q) of nothing = %+v, want not applicable with a reason", text, r)
		}
	}
}

// TestNormalized runs honest softmax implementations of every float dtype, and dishonest ones.
func TestNormalized(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, d := range dtype.Floats() {
		for _, n := range []int{1, 2, 7, 64, 1000, 20000} {
			if sumTolerance(d, n) >= 1 {
				continue
			}
			row := make([]float64, n)
			exact := make([]float64, n)
			softmax32(r, row, exact)
			if d == dtype.Float64 {
				copy(row, exact)
			}
			shape := []int{1, n}
			c := &Context{Output: floats(d, shape, row...), Want: want(d, shape, exact...)}
			if res := mustCheck(t, "normalized", c); res.Outcome != Holds {
				t.Errorf("%v, n=%d: honest softmax: %+v, want holds", d, n, res)
			}
			scale := 1 + 3*sumTolerance(d, n)
			for i := range row {
				row[i] *= scale
			}
			// Rounding may hide a factor where all values are coarse; where the sum shows it, it must be found.
			out := floats(d, shape, row...)
			res := mustCheck(t, "normalized", &Context{Output: out, Want: c.Want})
			if off := math.Abs(total(out.Float64s()) - 1); (off > sumTolerance(d, n)) != (res.Outcome == Violated) {
				t.Errorf("%v, n=%d: scaled softmax, off by %v: %+v", d, n, off, res)
			}
		}
	}
	r2 := mustCheck(t, "normalized", &Context{Output: floats(dtype.Float32, []int{2, 2}, 0.5, 0.5, 0.5, 0.6)})
	if r2.Outcome != Violated || r2.Index[0] != 1 || !strings.Contains(r2.Sentence, "1 of 2 rows do not sum to 1") {
		t.Errorf("Check = %+v, want row 1", r2)
	}
	for _, c := range []struct {
		out  *tensor.Tensor
		what Outcome
	}{
		{floats(dtype.Int32, []int{2, 3}, 0, 1, 0, 1, 0, 0), Holds},
		{floats(dtype.Int32, []int{1, 3}, 0, 1, 1), Violated},
		{floats(dtype.Bool, []int{1, 2}, 0, 1), Holds},
		{floats(dtype.Float32, []int{1, 2}, nan, 1), Violated},
		{floats(dtype.Float32, []int{1, 2}, inf, -inf), Violated},
		{floats(dtype.Float32, []int{3, 0}), NotApplicable},
		{floats(dtype.Float32, nil, 1), NotApplicable},
		{tensor.New(dtype.Float8E4M3FN, tensor.MustShape(1, 5000)), NotApplicable},
	} {
		if r := mustCheck(t, "normalized", &Context{Output: c.out}); r.Outcome != c.what {
			t.Errorf("Check(normalized) of %v %v = %+v, want %v", c.out.DType, c.out.Shape, r, c.what)
		}
	}
}

// TestClearlyOne: the plain sum accepts nothing that the exact one refuses, however close to the limit and whatever
// cancels, and it accepts what is plainly right.
func TestClearlyOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 20000 {
		n := 1 + r.IntN(300)
		tol := math.Ldexp(1, -1-r.IntN(50))
		vals := make([]float64, n)
		for i := range vals {
			vals[i] = math.Ldexp(r.Float64()-0.5, r.IntN(60)-30)
		}
		vals[r.IntN(n)] += 1 + tol*(float64(r.IntN(3)-1)+0x1p-20*r.NormFloat64()) - total(vals)
		if clearlyOne(vals, tol) {
			accepted++
			if s := total(vals); !(math.Abs(s-1) <= tol) {
				t.Errorf("clearlyOne accepts %d elements with the sum 1%+.17g, tolerance %v", n, s-1, tol)
			}
		}
	}
	if accepted < 1000 {
		t.Errorf("clearlyOne accepts %d of 20000 rows, of which a third are right", accepted)
	}
	for _, vals := range [][]float64{{nan}, {inf}, {inf, -inf}, {math.MaxFloat64, math.MaxFloat64, -math.MaxFloat64}} {
		if clearlyOne(vals, 1) {
			t.Errorf("clearlyOne(%v) = true", vals)
		}
	}
	if !clearlyOne([]float64{0.25, 0.25, 0.25, 0.125, 0.125}, 0x1p-20) {
		t.Error("clearlyOne does not see a sum of 1")
	}
}

// softmax32 computes a softmax exactly and in float32, there sequentially and with numerators computed twice, each time
// with an error of up to 4 units in the last place.
func softmax32(r *rand.Rand, row, exact []float64) {
	var s float32
	var sum float64
	for i := range row {
		x := r.Float64() * 10
		exact[i] = math.Exp(x - 10)
		sum += exact[i]
		s += float32(exact[i] * (1 + 0x1p-22*r.Float64()))
	}
	for i := range row {
		exact[i] /= sum
		row[i] = float64(float32(exact[i]*sum*(1-0x1p-22*r.Float64())) / s)
	}
}

func TestSymmetric(t *testing.T) {
	d := dtype.Float32
	bound := want(d, []int{2, 2}, 1, 2, 2, 1)
	bound.Bound = []float64{0, 0.1, 0.1, 0}
	for _, c := range []struct {
		name string
		c    *Context
		what Outcome
	}{
		{"symmetric", &Context{Output: floats(d, []int{2, 2}, 1, 2, 2, 1)}, Holds},
		{"differs", &Context{Output: floats(d, []int{2, 2}, 1, 2, 2.1, 1)}, Violated},
		{"rounding", &Context{Output: floats(d, []int{2, 2}, 1, 2, 2.00001, 1)}, Holds},
		{"within bounds", &Context{Output: floats(d, []int{2, 2}, 1, 2, 2.15, 1), Want: bound}, Holds},
		{"beyond bounds", &Context{Output: floats(d, []int{2, 2}, 1, 2, 2.25, 1), Want: bound}, Violated},
		{"batch", &Context{Output: floats(d, []int{2, 2, 2}, 1, 2, 2, 1, 1, 5, 6, 1)}, Violated},
		{"nan pair", &Context{Output: floats(d, []int{2, 2}, 1, nan, nan, 1)}, Holds},
		{"nan alone", &Context{Output: floats(d, []int{2, 2}, 1, nan, 2, 1)}, Violated},
		{"inf pair", &Context{Output: floats(d, []int{2, 2}, 1, inf, inf, 1)}, Holds},
		{"inf of two signs", &Context{Output: floats(d, []int{2, 2}, 1, inf, -inf, 1)}, Violated},
		{"zeros", &Context{Output: floats(d, []int{2, 2}, 1, 0, math.Copysign(0, -1), 1)}, Holds},
		{"not square", &Context{Output: floats(d, []int{1, 2}, 1, 2)}, NotApplicable},
		{"rank 1", &Context{Output: floats(d, []int{2}, 1, 2)}, NotApplicable},
		{"integers", &Context{Output: floats(dtype.Int64, []int{2, 2}, 1, 7, 7, 1)}, Holds},
		{"integers differ", &Context{Output: floats(dtype.Int64, []int{2, 2}, 1, 7, 8, 1)}, Violated},
		{"reference is not", &Context{Output: floats(d, []int{2, 2}, 1, 2, 3, 1), Want: want(d, []int{2, 2}, 1, 2, 3, 1)},
			NotApplicable},
	} {
		if r := mustCheck(t, "symmetric", c.c); r.Outcome != c.what {
			t.Errorf("%s: %+v, want %v", c.name, r, c.what)
		}
	}
	r := mustCheck(t, "symmetric", &Context{Output: floats(d, []int{2, 2, 2}, 1, 2, 2, 1, 1, 5, 6, 1)})
	if got, says := r.Sentence, "1 pairs differ, the first at [1 0 1]: 5, but 6 at [1 1 0]"; got != says {
		t.Errorf("Sentence = %q, want %q", got, says)
	}
}

func TestMonotonic(t *testing.T) {
	d := dtype.Float32
	bound := want(d, []int{3}, 1, 2, 3)
	bound.Bound = []float64{0.1, 0.1, 0.1}
	for _, c := range []struct {
		text string
		c    *Context
		what Outcome
	}{
		{"monotonic", &Context{Output: floats(d, []int{3}, 1, 1, 2)}, Holds},
		{"monotonic", &Context{Output: floats(d, []int{3}, -inf, 1, inf)}, Holds},
		{"monotonic", &Context{Output: floats(d, []int{3}, 1, 2, 1.5)}, Violated},
		{"monotonic", &Context{Output: floats(d, []int{3}, 1, nan, 2)}, Violated},
		{"monotonic(0,down)", &Context{Output: floats(d, []int{3}, 3, 2, 2)}, Holds},
		{"monotonic(0,up)", &Context{Output: floats(d, []int{3}, 3, 2, 2)}, Violated},
		{"monotonic", &Context{Output: floats(d, []int{3}, 2, 1.9, 3), Want: bound}, Holds},
		{"monotonic", &Context{Output: floats(d, []int{3}, 2, 1.7, 3), Want: bound}, Violated},
		{"monotonic(0)", &Context{Output: floats(d, []int{2, 2}, 1, 9, 2, 9)}, Holds},
		{"monotonic(1)", &Context{Output: floats(d, []int{2, 2}, 1, 9, 2, 9)}, Holds},
		{"monotonic(0)", &Context{Output: floats(d, []int{2, 2}, 1, 9, 2, 8)}, Violated},
		{"monotonic(1)", &Context{Output: floats(d, []int{2, 2}, 9, 1, 2, 9)}, Violated},
		{"monotonic(2)", &Context{Output: floats(d, []int{2, 2}, 1, 9, 2, 9)}, NotApplicable},
		{"monotonic(-3)", &Context{Output: floats(d, []int{2, 2}, 1, 9, 2, 9)}, NotApplicable},
		{"monotonic(0)", &Context{Output: floats(dtype.Bool, []int{2}, 1, 0)}, Violated},
	} {
		if r := mustCheck(t, c.text, c.c); r.Outcome != c.what {
			t.Errorf("Check(%q) of %v = %+v, want %v", c.text, c.c.Output.Float64s(), r, c.what)
		}
	}
}

func TestMemory(t *testing.T) {
	d := dtype.Float32
	a := floats(d, []int{2, 2}, 1, 2, 3, 4)
	for _, c := range []struct {
		text string
		c    *Context
		what Outcome
		says string
	}{
		{"shape_preserved", &Context{Output: a, Want: want(d, []int{2, 2}, 1, 2, 3, 4)}, Holds, ""},
		{"shape_preserved", &Context{Output: a, Want: want(d, []int{4}, 1, 2, 3, 4)}, Violated,
			"the output has shape [2,2], the reference's [4]"},
		{"deterministic", &Context{Output: a, Again: floats(d, []int{2, 2}, 1, 2, 3, 4)}, Holds, ""},
		{"deterministic", &Context{Output: a, Again: floats(d, []int{2, 2}, 1, 2, 3.5, 4)}, Violated,
			"1 of 4 elements differ between two runs of the same inputs, the first at [1 0]: 3 (0x40400000) and 3.5"},
		{"deterministic", &Context{Output: a, Again: floats(d, []int{4}, 1, 2, 3, 4)}, Violated, "float32 [2,2] in one run"},
		{"deterministic", &Context{Output: floats(d, []int{1}, 0), Again: floats(d, []int{1}, math.Copysign(0, -1))},
			Violated, "0x80000000"},
		{"inputs_unchanged", &Context{Inputs: []Region{{"x", []byte{1, 2}, []byte{1, 2}}}}, Holds, ""},
		{"inputs_unchanged", &Context{Inputs: []Region{{"x", []byte{1, 2}, []byte{1, 2}},
			{"y", []byte{1, 2, 3}, []byte{1, 9, 8}}}}, Violated,
			`input "y" was changed: 2 of 3 bytes, the first at byte 1: 0x02 became 0x09`},
		{"no_overrun", &Context{Zones: []Region{{"behind output", []byte{1}, []byte{1}}}}, Holds, ""},
		{"no_overrun", &Context{Zones: []Region{{"behind output", []byte{1}, []byte{0}}}}, Violated,
			`the red zone "behind output" was overwritten: 1 of 1 bytes, the first at byte 0: 0x01 became 0x00`},
	} {
		r := mustCheck(t, c.text, c.c)
		if r.Outcome != c.what || !strings.Contains(r.Sentence, c.says) {
			t.Errorf("Check(%q) = %+v, want %v, %q", c.text, r, c.what, c.says)
		}
	}
}

func TestWritten(t *testing.T) {
	for _, d := range dtype.All() {
		poison := tensor.Poison(d)
		other := poison ^ 1
		shape := []int{4}
		fresh := func(p uint64, written ...int) *tensor.Tensor {
			out := tensor.New(d, tensor.MustShape(4))
			for i := range 4 {
				d.Store(out.Data[i*d.Size():], p)
			}
			for _, i := range written {
				d.Store(out.Data[i*d.Size():], d.Bits(1))
			}
			return out
		}
		wanted := want(d, shape, 1, 1, 1, 1)
		for _, c := range []struct {
			name string
			c    *Context
			what Outcome
			says string
		}{
			{"all", &Context{Output: fresh(poison, 0, 1, 2, 3), Poison: &poison, Want: wanted}, Holds, ""},
			{"some", &Context{Output: fresh(poison, 0, 3), Poison: &poison, Want: wanted}, Violated,
				"2 of 4 elements were never written, the first at [1]"},
			{"none", &Context{Output: fresh(poison), Poison: &poison, Want: wanted}, Violated, "the output was never written"},
			{"no poison", &Context{Output: fresh(poison), Want: wanted}, NotApplicable, ""},
			{"other poison", &Context{Output: fresh(poison), Poison: &other}, Holds, ""},
			{"twice", &Context{Output: fresh(poison, 0, 1, 3), Again: fresh(other, 0, 1, 3),
				Poison: &poison, PoisonAgain: &other}, Violated, "1 of 4"},
			{"written with the pattern", &Context{Output: fresh(poison, 0, 1, 3), Again: fresh(poison, 0, 1, 3),
				Poison: &poison, PoisonAgain: &other}, Holds, ""},
		} {
			if d == dtype.Bool && c.name == "written with the pattern" {
				continue
			}
			if r := mustCheck(t, "fully_written", c.c); r.Outcome != c.what || !strings.Contains(r.Sentence, c.says) {
				t.Errorf("%v, %s: %+v, want %v %q", d, c.name, r, c.what, c.says)
			}
		}
		// A reference that wants just this value: one run cannot tell.
		if d != dtype.Bool {
			w := want(d, shape, 1, 1, 1, 1)
			w.Value[2] = d.Float64(poison)
			if d.Size() == 8 && d.IsInteger() {
				w.Value, w.Exact = nil, fresh(poison, 0, 1, 3)
			}
			c := &Context{Output: fresh(poison, 0, 1, 3), Poison: &poison, Want: w}
			if r := mustCheck(t, "fully_written", c); r.Outcome != Holds {
				t.Errorf("%v, wanted poison: %+v, want holds", d, r)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, canonical string }{
		{"finite", "finite"}, {" bounded( -1 , 2.5 ) ", "bounded(-1,2.5)"}, {"bounded(-inf,inf)", "bounded(-Inf,+Inf)"},
		{"monotonic", "monotonic(-1)"}, {"monotonic(2,down)", "monotonic(2,down)"}, {"monotonic(0,up)", "monotonic(0)"},
	} {
		iv, err := Parse(c.text)
		if err != nil || iv.String() != c.canonical {
			t.Errorf("Parse(%q) = %v, %v, want %q", c.text, iv, err, c.canonical)
		}
		if again, err := Parse(iv.String()); err != nil || again != iv {
			t.Errorf("Parse(%q) = %v, %v, want %v", iv.String(), again, err, iv)
		}
	}
	for _, c := range []struct {
		text, says, hint string
		code             diag.Code
	}{
		{"non-negative", `unknown invariant "non-negative"`, "did you mean non_negative?", UnknownName},
		{"finit", `unknown invariant "finit"`, "did you mean finite?", UnknownName},
		{"", `unknown invariant ""`, "use one of shape_preserved, non_negative", UnknownName},
		{"quantum", `unknown invariant "quantum"`, "use one of", UnknownName},
		{"bounded", "two limits are needed", "write bounded(lo,hi)", BadParameters},
		{"bounded(1)", "two limits are needed", "", BadParameters},
		{"bounded(2,1)", "the lower one first", "", BadParameters},
		{"bounded(nan,1)", "the lower one first", "", BadParameters},
		{"bounded(a,b)", "not two numbers", "", BadParameters},
		{"bounded(1,2", "the bracket is not closed", "", BadParameters},
		{"monotonic(x)", "the axis is not a small integer", "", BadParameters},
		{"monotonic(9)", "the axis is not a small integer", "", BadParameters},
		{"monotonic(0,sideways)", "neither up nor down", "", BadParameters},
		{"monotonic(0,up,1)", "too many parameters", "", BadParameters},
		{"finite(1)", "it takes no parameters", "write finite", BadParameters},
	} {
		_, err := Parse(c.text)
		if diag.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(diag.HintOf(err), c.hint) {
			t.Errorf("Parse(%q) = %v (hint %q), want %s %q (hint %q)", c.text, err, diag.HintOf(err), c.code, c.says, c.hint)
		}
	}
}

func TestBadContext(t *testing.T) {
	short := &tensor.Tensor{DType: dtype.Float32, Shape: tensor.Shape{2}, Strides: []int{1}, Data: make([]byte, 4)}
	for name, c := range map[string]*Context{
		"nil":     nil,
		"output":  {Output: short},
		"again":   {Again: short},
		"regions": {Inputs: []Region{{"x", []byte{1}, nil}}},
	} {
		if _, err := Check("finite", c); diag.CodeOf(err) != BadContext {
			t.Errorf("%s: Check = %v, want %s", name, err, BadContext)
		}
	}
	if _, err := (Invariant{Name: "nothing"}).Check(&Context{}); diag.CodeOf(err) != UnknownName {
		t.Errorf("Check of an unknown invariant = %v", err)
	}
	if _, err := (Invariant{Name: "bounded", Lo: 1}).Check(&Context{}); diag.CodeOf(err) != BadParameters {
		t.Errorf("Check of bounded(1,0) = %v", err)
	}
}

// FuzzCheck checks that no invariant text and no bytes make a check panic, and that the outcome is never Undecided.
func FuzzCheck(f *testing.F) {
	f.Add("finite", uint8(1), []byte{0, 0, 0x80, 0x7f}, uint8(1))
	f.Add("bounded(0,1)", uint8(9), []byte{1, 2, 3, 4, 5, 6, 7, 8}, uint8(2))
	f.Add("monotonic(-1,down)", uint8(4), []byte{1, 2, 3, 4}, uint8(2))
	f.Fuzz(func(t *testing.T, text string, kind uint8, data []byte, cols uint8) {
		d := dtype.All()[int(kind)%len(dtype.All())]
		n := len(data) / d.Size()
		c := max(1, int(cols))
		shape := tensor.MustShape(n/c, c)
		out, err := tensor.FromBytes(d, shape, data[:shape.Elems()*d.Size()])
		if err != nil {
			t.Fatal(err)
		}
		poison := tensor.Poison(d)
		ctx := &Context{Output: out, Again: out, Poison: &poison, Inputs: []Region{{"x", data, data}},
			Want: &compare.Want{DType: d, Shape: shape, Value: make([]float64, shape.Elems())}}
		for _, c := range []*Context{ctx, {Output: out}} {
			r, err := Check(text, c)
			if err == nil && (r.Outcome == Undecided || r.Outcome != Holds && r.Sentence == "") {
				t.Errorf("Check(%q) = %+v", text, r)
			}
			if err != nil && diag.CodeOf(err) == "" {
				t.Errorf("Check(%q) = %v without a code", text, err)
			}
		}
	})
}

package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
)

// naiveVacuity makes each garbage output whole and asks Compare about every element alone.
func naiveVacuity(t *testing.T, w *Want, opt Options) Vacuity {
	t.Helper()
	n := w.Shape.Elems()
	near := tensor.New(w.DType, w.Shape)
	encode := dtype.Encode
	if w.Saturating {
		encode = dtype.EncodeSaturating
	}
	encode(near.Data, w.DType, w.Value)
	values := near.Float64s()
	clean := slices.Clone(values)
	sum, count := 0.0, 0
	for i, x := range w.Value {
		if math.Abs(x) <= math.MaxFloat64 && !w.Undetermined[i] {
			sum, count = sum+x/float64(n), count+1
		}
	}
	mean := sum * float64(n) / float64(max(count, 1))
	mean = max(-w.DType.MaxFinite(), min(w.DType.MaxFinite(), mean))
	row := 1
	if len(w.Shape) > 1 {
		row = w.Shape[len(w.Shape)-1]
	}
	out := Vacuity{}
	vacuous := map[int]bool{}
	for g := Zeros; g < garbageKinds; g++ {
		for i := range values {
			pair := i / row / 2
			other := i
			if (pair+1)*2*row <= n {
				other = pair*2*row + (i-pair*2*row+row)%(2*row)
			}
			switch {
			case g == Zeros:
				values[i] = 0
			case g == Constant:
				values[i] = mean
			case g == SwappedRows, pair == 0:
				values[i] = clean[other]
			default:
				values[i] = clean[i]
			}
		}
		garbage := tensor.New(w.DType, w.Shape)
		dtype.Encode(garbage.Data, w.DType, values)
		differ, accepted := 0, 0
		for i := range n {
			size := w.DType.Size()
			one := &Want{DType: w.DType, Shape: tensor.Shape{1}, Value: w.Value[i : i+1], Saturating: w.Saturating}
			if w.Bound != nil {
				one.Bound = w.Bound[i : i+1]
			}
			got, err := tensor.FromBytes(w.DType, one.Shape, garbage.Data[i*size:(i+1)*size])
			if err != nil {
				t.Fatal(err)
			}
			a, b := w.DType.Load(got.Data), w.DType.Load(near.Data[i*size:])
			if w.Undetermined[i] || w.DType.ULPDistance(a, b) <= 1 && math.IsInf(w.DType.Float64(a), 0) ==
				math.IsInf(w.DType.Float64(b), 0) {
				continue
			}
			differ++
			rep, err := Compare(got, one, opt)
			if err != nil {
				t.Fatal(err)
			}
			if rep.Verdict == Pass {
				accepted++
				vacuous[i] = true
			}
		}
		if differ > 0 && accepted == differ && out.Passed == NoGarbage {
			out.Passed, out.Differing = g, differ
		}
	}
	for i := range n {
		if !w.Undetermined[i] {
			out.Determined++
		}
	}
	out.Elements = len(vacuous)
	out.Mostly = w.Bound != nil && opt.Regime != Fixed && 2*out.Elements > out.Determined
	return out
}

// randomWant draws values, bounds and marks that are vacuous in some places and not in others.
func randomWant(r *rng.RNG, d dtype.DType) *Want {
	shapes := []tensor.Shape{{1}, {7}, {2, 3}, {5, 4}, {3, 1}, {2, 4, 5}, {4, 300}, {1, 9}, {300, 2}, {2, 2100}, {}}
	shape := shapes[r.Intn(len(shapes))]
	n := shape.Elems()
	w := &Want{DType: d, Shape: shape, Value: make([]float64, n), Bound: make([]float64, n), Undetermined: make([]bool, n)}
	wide := math.Ldexp(1, r.Intn(24)-20)
	special := r.Intn(4)
	for i := range w.Value {
		w.Value[i] = math.Ldexp(r.Float64()-0.5, r.Intn(4))
		if d.IsInteger() {
			w.Value[i] = math.Floor(w.Value[i] * 20)
		}
		w.Bound[i] = math.Abs(wide * r.Float64())
		if special == 0 && len(shape) == 3 { // pairs of rows are alike, and different from one another
			w.Value[i], w.Bound[i] = float64(8*(1+i/10))+r.Float64(), 3
		}
		w.Undetermined[i] = special == 1 && r.Intn(5) == 0
		if special == 2 && d.IsFloat() && r.Intn(50) == 0 {
			w.Value[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), d.MaxFinite(), 2 * d.MaxFinite(), 0}[r.Intn(6)]
		}
	}
	w.Saturating = special == 3
	return w
}

// TestVacuityIsWhatGarbageGets compares the one pass with the naive way, over all dtypes, regimes and options.
func TestVacuityIsWhatGarbageGets(t *testing.T) {
	testkit.ValuesOnly(t)
	found := map[string]int{}
	for _, d := range []dtype.DType{dtype.Float64, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float8E4M3FN,
		dtype.Float8E5M2, dtype.Int8, dtype.Int32} {
		for i := range 60 {
			r := rng.New(uint64(i)).Derive(d.String())
			w := randomWant(r, d)
			opt := DefaultOptions()
			opt.Workers = 1
			switch i % 5 {
			case 1:
				opt.Regime, opt.Tol = Fixed, Tolerance{Abs: math.Ldexp(1, r.Intn(12)-10), Rel: math.Ldexp(1, -3-r.Intn(9))}
			case 2:
				opt.CheckNaN, opt.CheckInf = false, false
			case 3:
				opt.WantDType = dtype.Float16
			case 4:
				opt.NonFinite = Forbid
			}
			if w.Shape.Elems() > 1000 && i%15 > 2 {
				continue // the naive way takes its time
			}
			want := naiveVacuity(t, w, opt)
			got, err := MeasureVacuity(w, opt)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Fatalf("%s %v, draw %d, options %d: MeasureVacuity = %+v, want %+v", d, w.Shape, i, i%5, got, want)
			}
			found[got.Passed.String()]++
			found[fmt.Sprint("mostly ", got.Mostly)]++
		}
	}
	for g := NoGarbage; g < garbageKinds; g++ {
		if found[g.String()] == 0 {
			t.Errorf("no draw in which %q passes: the test is empty there", g)
		}
	}
	if found["mostly true"] == 0 || found["mostly false"] == 0 {
		t.Errorf("vacuous elements: %v", found)
	}
}

func TestVacuityInWords(t *testing.T) {
	row := []float64{1, 2, 3, 4}
	for _, c := range []struct {
		name  string
		value []float64
		bound float64
		tol   *Tolerance
		want  string
	}{
		{"exact", row, 0, nil, ""},
		{"sharp", row, 1e-6, nil, ""},
		{"wide", row, 5, nil, "zeros would have passed too: all 4 elements that differ from the wanted values lie within " +
			"the tolerance"},
		{"nearly constant", []float64{10, 10.5, 11, 11}, 0.7, nil,
			"the mean of the wanted values everywhere would have passed too: all 4 elements that differ from the wanted " +
				"values lie within the tolerance"},
		{"most elements", []float64{0.1, 0.2, 5, 0.3}, 0.5, nil,
			"3 of 4 determined elements would accept zeros, the mean or a neighboring row too"},
		{"most elements under a tolerance", []float64{0.1, 0.2, 5, 0.3}, 0, &Tolerance{Abs: 0.5}, ""},
		{"zeros are right", []float64{0, 0, 0, 0}, 1, nil, ""},
	} {
		w := &Want{DType: dtype.Float32, Shape: tensor.Shape{2, 2}, Value: c.value}
		w.Bound = slices.Repeat([]float64{c.bound}, 4)
		opt := DefaultOptions()
		if c.tol != nil {
			opt.Regime, opt.Tol = Fixed, *c.tol
		}
		v, err := MeasureVacuity(w, opt)
		if err != nil || v.String() != c.want || v.Vacuous() != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", c.name, v, err, c.want)
		}
	}
}

// TestVacuityOfIndexes: an index that is as good is a right answer; one that is only let through is not.
func TestVacuityOfIndexes(t *testing.T) {
	want := func(slack float64, score ...float64) *Want {
		return &Want{DType: dtype.Int64, Shape: tensor.Shape{2, 1}, Value: []float64{2, 1}, Ties: &Ties{Rows: 2, K: 1, N: 3,
			Score: score, Slack: slices.Repeat([]float64{slack}, 6), Distinct: true, Ordered: true}}
	}
	for _, c := range []struct {
		name string
		w    *Want
		want Garbage
	}{
		{"clear", want(0.1, 1, 2, 3, 1, 3, 2), NoGarbage},
		{"within the slack", want(5, 1, 2, 3, 1, 3, 2), Zeros},
		{"equal scores", want(5, 3, 3, 3, 3, 3, 3), NoGarbage},
		{"rows alike", want(0.6, 0, 2, 3, 0, 3, 2), Constant}, // index 2 (the mean of 2 and 1, rounded to even) in both
	} {
		v, err := MeasureVacuity(c.w, DefaultOptions())
		if err != nil || v.Passed != c.want {
			t.Errorf("%s: %+v, %v, want %s", c.name, v, err, c.want)
		}
	}
	exact := want(0, 3, 3, 3, 3, 3, 3)
	exact.Ties.Slack = nil
	if v, err := MeasureVacuity(exact, DefaultOptions()); err != nil || v.Vacuous() || v.Determined != 2 {
		t.Errorf("exact scores: %+v, %v", v, err)
	}
}

func TestVacuityRefusesBadQuestions(t *testing.T) {
	w := &Want{DType: dtype.Float32, Shape: tensor.Shape{2}, Value: []float64{1, 2}, Bound: []float64{1, math.NaN()}}
	if _, err := MeasureVacuity(w, DefaultOptions()); err == nil || !strings.Contains(err.Error(), "bound") {
		t.Errorf("a bound of NaN: %v", err)
	}
	if _, err := MeasureVacuity(nil, DefaultOptions()); err == nil {
		t.Error("nothing wanted is accepted")
	}
}

func BenchmarkVacuity(b *testing.B) {
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float16} {
		const n = 1 << 18
		r := rng.New(7)
		w := &Want{DType: d, Shape: tensor.Shape{n / 512, 512}, Value: make([]float64, n), Bound: make([]float64, n)}
		for i := range w.Value {
			w.Value[i] = r.Normal()
			w.Bound[i] = 4 * d.UnitRoundoff() * math.Abs(w.Value[i])
		}
		got := tensor.New(d, w.Shape)
		dtype.Encode(got.Data, d, w.Value)
		opt := DefaultOptions()
		opt.Workers, opt.WrongOnly = 1, true
		b.Run("compare/"+d.String(), func(b *testing.B) {
			b.SetBytes(8 * n)
			for b.Loop() {
				if _, err := Compare(got, w, opt); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("vacuity/"+d.String(), func(b *testing.B) {
			b.SetBytes(8 * n)
			for b.Loop() {
				if _, err := MeasureVacuity(w, opt); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// planted is an output with a defect.
type planted struct {
	name  string
	dtype dtype.DType // default float32
	shape tensor.Shape
	tiles []int
	// plant changes got, which holds the wanted values in row-major order, and may change want.
	plant func(r *rand.Rand, got, want []float64)
	kinds []string // expected findings, in order
	says  string   // part of the first sentence
}

func at(s tensor.Shape, idx ...int) int {
	p := 0
	for k, i := range idx {
		p = p*s[k] + i
	}
	return p
}

func each(s tensor.Shape, do func(i int, idx []int)) {
	for i := range s.Elems() {
		do(i, s.Unravel(i))
	}
}

func plantedCases() []planted {
	return slices.Concat(plantedPlaces(), plantedValues(), plantedFills())
}

// plantedPlaces are errors confined to some places.
func plantedPlaces() []planted {
	mat := tensor.MustShape(1023, 1025)
	small := tensor.MustShape(6, 20)
	heads := tensor.MustShape(2, 8, 16, 24)
	return []planted{
		{name: "tail column", shape: mat, kinds: []string{FindTail},
			says: "all 1023 errors lie in columns 1024..1024 (last partial tile of 1024)",
			plant: func(r *rand.Rand, got, want []float64) {
				for row := range 1023 {
					got[at(mat, row, 1024)] += 1 + r.Float64()
				}
			}},
		{name: "tail of 32", shape: tensor.MustShape(40, 50), kinds: []string{FindTail},
			says: "in columns 48..49 (last partial tile of 16)",
			plant: func(r *rand.Rand, got, want []float64) {
				for row := range 40 {
					got[row*50+48] += 1 + r.Float64()
					got[row*50+49] -= 1 + r.Float64()
				}
			}},
		{name: "named tile", shape: tensor.MustShape(40, 50), tiles: []int{7, 12}, kinds: []string{FindTail},
			says: "columns 48..49 (last partial tile of 12)",
			plant: func(r *rand.Rand, got, want []float64) {
				for row := range 40 {
					got[row*50+48+row%2] += 1 + r.Float64()
				}
			}},
		{name: "tail rows", shape: tensor.MustShape(130, 8), kinds: []string{FindTail},
			says: "in rows 128..129 (last partial tile of 128)",
			plant: func(r *rand.Rand, got, want []float64) {
				for i := 128 * 8; i < 130*8; i++ {
					got[i] += 1 + r.Float64()
				}
			}},
		{name: "first element", shape: small, kinds: []string{FindEdge},
			says:  "the only error is in the first element of 120",
			plant: func(_ *rand.Rand, got, _ []float64) { got[0]++ }},
		{name: "last element", shape: small, kinds: []string{FindEdge}, says: "the only error is in the last element of 120",
			plant: func(_ *rand.Rand, got, _ []float64) { got[119]++ }},
		{name: "last row", shape: small, kinds: []string{FindEdge}, says: "all 20 errors lie in the last of 6 rows",
			plant: func(r *rand.Rand, got, _ []float64) {
				for i := 100; i < 120; i++ {
					got[i] += 1 + r.Float64()
				}
			}},
		{name: "first column", shape: tensor.MustShape(50, 32), kinds: []string{FindEdge},
			says: "all 50 errors lie in the first of 32 columns",
			plant: func(r *rand.Rand, got, _ []float64) {
				for i := 0; i < 1600; i += 32 {
					got[i] += 1 + r.Float64()
				}
			}},
		{name: "one head", shape: heads, kinds: []string{FindGroup}, says: "lie in indexes of axis 1 3 of 8",
			plant: func(r *rand.Rand, got, _ []float64) {
				each(heads, func(i int, x []int) {
					if x[1] == 3 {
						got[i] += 1 + r.Float64()
					}
				})
			}},
		{name: "two heads", shape: heads, kinds: []string{FindGroup}, says: "in 2 of 8 indexes of axis 1: 3, 6",
			plant: func(r *rand.Rand, got, _ []float64) {
				each(heads, func(i int, x []int) {
					if x[1] == 3 || x[1] == 6 {
						got[i] += 1 + r.Float64()
					}
				})
			}},
		{name: "every 4th head", shape: tensor.MustShape(2, 12, 16, 24), kinds: []string{FindGroup},
			says: "in every 4th of 12 indexes of axis 1, from 1 on",
			plant: func(r *rand.Rand, got, _ []float64) {
				each(tensor.MustShape(2, 12, 16, 24), func(i int, x []int) {
					if x[1]%4 == 1 {
						got[i] += 1 + r.Float64()
					}
				})
			}},
	}
}

// plantedValues are outputs that follow from the wanted ones by a rule.
func plantedValues() []planted {
	small := tensor.MustShape(6, 20)
	return []planted{
		{name: "scale", shape: small, kinds: []string{FindScale}, says: "every row is scaled by 2.000",
			plant: func(_ *rand.Rand, got, _ []float64) {
				for i := range got {
					got[i] *= 2
				}
			}},
		{name: "scale with zeros", shape: small, kinds: []string{FindScale}, says: "scaled by 0.125",
			plant: func(_ *rand.Rand, got, want []float64) {
				for i := range got {
					if i%3 == 0 {
						want[i] = 0
					}
					got[i] = want[i] / 8
				}
			}},
		{name: "row scale", shape: small, kinds: []string{FindRowScale}, says: "scaled by its own factor, 1.500 to 4.000",
			plant: func(_ *rand.Rand, got, _ []float64) {
				for i := range got {
					got[i] *= 1.5 + float64(i/20)/2
				}
			}},
		{name: "offset", shape: small, kinds: []string{FindOffset}, says: "every row is off by -0.5",
			plant: func(_ *rand.Rand, got, _ []float64) {
				for i := range got {
					got[i] -= 0.5
				}
			}},
		{name: "row offset", shape: small, kinds: []string{FindRowOffset}, says: "off by its own constant, +1 to +6",
			plant: func(_ *rand.Rand, got, _ []float64) {
				for i := range got {
					got[i] += float64(i/20 + 1)
				}
			}},
		{name: "transposed square", shape: tensor.MustShape(3, 12, 12), kinds: []string{FindTransposed},
			says: "with axes 1 and 2 exchanged",
			plant: func(_ *rand.Rand, got, want []float64) {
				s := tensor.MustShape(3, 12, 12)
				each(s, func(i int, x []int) { got[i] = want[at(s, x[0], x[2], x[1])] })
			}},
		{name: "transposed in memory", shape: tensor.MustShape(3, 5, 12), kinds: []string{FindTransposed},
			says: "axes 1 and 2 exchanged in memory",
			plant: func(_ *rand.Rand, got, want []float64) {
				s := tensor.MustShape(3, 5, 12)
				each(s, func(i int, x []int) { got[x[0]*60+x[2]*5+x[1]] = want[i] })
			}},
		{name: "read transposed", shape: tensor.MustShape(5, 12), kinds: []string{FindTransposed},
			says: "axes 0 and 1 exchanged in memory",
			plant: func(_ *rand.Rand, got, want []float64) {
				s := tensor.MustShape(5, 12)
				each(s, func(i int, x []int) { got[i] = want[x[1]*5+x[0]] })
			}},
		{name: "shifted", shape: small, kinds: []string{FindShift}, says: "shifted by +1 along axis 1",
			plant: func(_ *rand.Rand, got, want []float64) {
				for i := range got {
					if i%20 > 0 {
						got[i] = want[i-1]
					} else {
						got[i] = 77
					}
				}
			}},
		{name: "shifted up", shape: small, kinds: []string{FindShift}, says: "shifted by -1 along axis 0",
			plant: func(_ *rand.Rand, got, want []float64) {
				for i := range 100 {
					got[i] = want[i+20]
				}
			}},
		{name: "sign", shape: small, kinds: []string{FindSign}, says: "all 120 errors are of the right magnitude",
			plant: func(_ *rand.Rand, got, _ []float64) {
				for i := range got {
					got[i] = -got[i]
				}
			}},
	}
}

// plantedFills are elements that were not written, and non-finite ones.
func plantedFills() []planted {
	small := tensor.MustShape(6, 20)
	return []planted{
		{name: "zeros at the end", shape: tensor.MustShape(4096), kinds: []string{FindUnwritten, FindGroup},
			says:  "all 96 errors are exactly zero, one run from [4000] to [4095]",
			plant: func(_ *rand.Rand, got, _ []float64) { clear(got[4000:]) }},
		{name: "all zero", shape: small, kinds: []string{FindUnwritten}, says: "the whole output is zero",
			plant: func(_ *rand.Rand, got, _ []float64) { clear(got) }},
		{name: "constant fill", shape: small, kinds: []string{FindUnwritten}, says: "hold the same value 7",
			plant: func(_ *rand.Rand, got, _ []float64) {
				for i := range got {
					got[i] = 7
				}
			}},
		{name: "poison", shape: small, kinds: []string{FindUnwritten, FindNonFinite}, says: "output never written",
			plant: func(_ *rand.Rand, got, _ []float64) {
				for i := range got {
					got[i] = poisonMark
				}
			}},
		{name: "poison tail", shape: tensor.MustShape(40, 17), kinds: []string{FindUnwritten, FindNonFinite, FindTail},
			says: "all 40 errors hold the poison pattern 0x7fe5a5a5 (never written)",
			plant: func(_ *rand.Rand, got, _ []float64) {
				for r := range 40 {
					got[r*17+16] = poisonMark
				}
			}},
		{name: "integer poison", dtype: dtype.Int32, shape: small, kinds: []string{FindUnwritten},
			says:  "poison pattern 0xa5a5a5a5",
			plant: func(_ *rand.Rand, got, _ []float64) { fill(got, poisonMark) }},
		{name: "flushed", shape: small, kinds: []string{FindFlushed}, says: "all 120 errors are zero where a subnormal",
			plant: func(_ *rand.Rand, got, want []float64) {
				for i := range got {
					got[i], want[i] = 0, float64(i+1)*0x1p-140
				}
			}},
		{name: "zero for NaN", shape: small, kinds: []string{FindUnwritten, FindNonFinite, FindGroup},
			says: "exactly zero",
			plant: func(_ *rand.Rand, got, want []float64) {
				fill(got[:40], 0)
				fill(want[:40], math.NaN())
			}},
		{name: "nan spread", shape: tensor.MustShape(64, 20), kinds: []string{FindNonFinite, FindGroup},
			says: "all 40 errors are NaN where a number is wanted, filling 2 of 64 lines along axis 1 completely",
			plant: func(_ *rand.Rand, got, _ []float64) {
				fill(got[60:80], math.NaN())
				fill(got[200:220], math.NaN())
			}},
		{name: "nan swallowed", shape: small, kinds: []string{FindNonFinite}, says: "NaN swallowed",
			plant: func(_ *rand.Rand, got, want []float64) {
				for i := 0; i < 120; i += 7 {
					want[i] = math.NaN()
				}
			}},
	}
}

// poisonMark stands for the poison pattern in a planted output.
const poisonMark = -123456789

func fill(x []float64, v float64) {
	for i := range x {
		x[i] = v
	}
}

// diagnoseOutput compares an output of got values with the wanted ones.
func diagnoseOutput(t *testing.T, d dtype.DType, shape tensor.Shape, got, want []float64, tiles []int) *Report {
	t.Helper()
	out := tensor.FromFloat64s(d, shape, got)
	raw := out.Bytes()
	for i, g := range got {
		if g == poisonMark {
			d.Store(raw[i*d.Size():], tensor.Poison(d))
		}
	}
	bound := make([]float64, len(want))
	for i, w := range want {
		bound[i] = 2 * d.HalfULP(w)
		if d.IsInteger() {
			bound[i] = 0
		}
	}
	if d == dtype.Float32 && math.Abs(want[0]) < 1e-38 {
		clear(bound)
	}
	opt := DefaultOptions()
	opt.Tiles = tiles
	rep, err := Compare(out, &Want{DType: d, Shape: shape, Value: want, Bound: bound}, opt)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func wantedValues(r *rand.Rand, d dtype.DType, n int) []float64 {
	want := make([]float64, n)
	for i := range want {
		want[i] = normal(r)
		if d.IsInteger() {
			want[i] = float64(r.IntN(1000))
		}
	}
	return want
}

func TestDiagnose(t *testing.T) {
	for _, c := range plantedCases() {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 7))
			d := c.dtype
			if d == dtype.Invalid {
				d = dtype.Float32
			}
			want := wantedValues(r, d, c.shape.Elems())
			got := slices.Clone(want)
			c.plant(r, got, want)
			rep := diagnoseOutput(t, d, c.shape, got, want, c.tiles)
			var kinds []string
			for _, f := range rep.Findings {
				kinds = append(kinds, f.Kind)
			}
			if !slices.Equal(kinds, c.kinds) {
				t.Errorf("findings = %q, want kinds %q", rep.Findings, c.kinds)
			}
			if len(rep.Findings) > 0 && !strings.Contains(rep.Findings[0].Sentence, c.says) {
				t.Errorf("sentence = %q, want it to contain %q", rep.Findings[0].Sentence, c.says)
			}
		})
	}
}

// TestDiagnoseNothing checks that errors without a pattern get no diagnosis.
func TestDiagnoseNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	shapes := []tensor.Shape{tensor.MustShape(100), tensor.MustShape(7, 33), tensor.MustShape(16, 16),
		tensor.MustShape(3, 5, 8), tensor.MustShape(2, 8, 17, 9), tensor.MustShape(1, 1, 65)}
	for c := range 1200 {
		shape := shapes[c%len(shapes)]
		n := shape.Elems()
		d := []dtype.DType{dtype.Float32, dtype.Float16, dtype.Int32}[c/len(shapes)%3]
		want := wantedValues(r, d, n)
		got := slices.Clone(want)
		// Few or many wrong elements, strewn, small or large, and sometimes unrelated values everywhere.
		switch mode := r.IntN(4); mode {
		case 0, 1:
			wrong := 1 + r.IntN(4)
			if mode == 1 {
				wrong = n/2 + r.IntN(n/3)
			}
			for range wrong {
				i := 1 + r.IntN(n-2)
				got[i] = math.Round(got[i]) + float64(r.IntN(100)+1)*(1+r.Float64())
			}
		case 2:
			for i := range got {
				got[i] = 100 * normal(r)
			}
		case 3:
			for i := range got {
				got[i] += float64(r.IntN(9) - 4)
			}
		}
		rep := diagnoseOutput(t, d, shape, got, want, nil)
		if len(rep.Findings) > 0 {
			t.Errorf("case %d, %v: findings = %q, want none", c, shape, rep.Findings)
		}
	}
}

// TestDiagnoseLooksAtRightElements plants rules that hold for the wrong elements but not for all.
func TestDiagnoseLooksAtRightElements(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	shape := tensor.MustShape(30, 40)
	want := wantedValues(r, dtype.Float32, shape.Elems())
	for _, c := range []struct {
		name string
		rule func(w float64) float64
	}{
		{"scale", func(w float64) float64 { return 2 * w }},
		{"offset", func(w float64) float64 { return w + 3 }},
	} {
		got := slices.Clone(want)
		for i := range got {
			if r.IntN(2) == 0 {
				got[i] = c.rule(got[i])
			}
		}
		if rep := diagnoseOutput(t, dtype.Float32, shape, got, want, nil); len(rep.Findings) > 0 {
			t.Errorf("%s of half the elements: findings = %q, want none", c.name, rep.Findings)
		}
	}
}

func TestDiagnoseIndexes(t *testing.T) {
	// An index output with errors in one row only: places are named, values are not calculated with.
	const rows, n = 32, 10
	want := make([]float64, rows)
	got := make([]float64, rows)
	score := make([]float64, rows*n)
	for r := range rows {
		want[r], got[r] = float64(r%n), float64(r%n)
		score[r*n+r%n] = 1
	}
	for r := range rows {
		got[r] = float64((r + 1) % n)
	}
	shape := tensor.MustShape(rows)
	rep, err := Compare(tensor.FromFloat64s(dtype.Int64, shape, got), &Want{DType: dtype.Int64, Shape: shape, Value: want,
		Ties: &Ties{Rows: rows, K: 1, N: n, Score: score}}, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if rep.Verdict != Fail || len(rep.Findings) != 0 {
		t.Errorf("Compare = %v %q, want fail without findings", rep.Verdict, rep.Findings)
	}
}

func ExampleErrorMap_Text() {
	shape := tensor.MustShape(8, 40)
	got := tensor.New(dtype.Float32, shape)
	want := make([]float64, 320)
	for r := range 8 {
		for c := 32; c < 40; c++ {
			want[r*40+c] = 1
		}
	}
	want[3] = 1
	rep, _ := Compare(got, &Want{DType: dtype.Float32, Shape: shape, Value: want}, DefaultOptions())
	fmt.Print(rep.Map.Text())
	// Output:
	// wrong elements over the last two dimensions [8,40] (. none, 1-9 tenths, @ all)
	// ...@............................@@@@@@@@
	// ................................@@@@@@@@
	// ................................@@@@@@@@
	// ................................@@@@@@@@
	// ................................@@@@@@@@
	// ................................@@@@@@@@
	// ................................@@@@@@@@
	// ................................@@@@@@@@
}

// TestDiagnoseLooseTolerance: under a tolerance far above all values every rule fits, so none may be named.
func TestDiagnoseLooseTolerance(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	shape := tensor.MustShape(12, 12)
	want := wantedValues(r, dtype.Float32, shape.Elems())
	for i := range want {
		want[i] *= 1e-3
	}
	got := slices.Clone(want)
	for i := 5; i < 144; i += 17 {
		got[i] = 1.5 + r.Float64()
	}
	opt := DefaultOptions()
	opt.Regime, opt.Tol = Fixed, Tolerance{Abs: 1}
	rep, err := Compare(tensor.FromFloat64s(dtype.Float32, shape, got),
		&Want{DType: dtype.Float32, Shape: shape, Value: want}, opt)
	if err != nil || rep.Verdict != Fail || len(rep.Findings) > 0 {
		t.Errorf("Compare = %v %q, %v, want fail without findings", rep.Verdict, rep.Findings, err)
	}
}

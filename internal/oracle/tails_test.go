// This file implements the tests of values in the tails of functions, and of limits at the infinities.

package oracle_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/bigmath"
	"gpuemu/internal/testkit/bigref"
	"gpuemu/internal/testkit/honest"
)

// tailULP is how many units in the last place of float64 a value may be off, in the tails as anywhere.
const tailULP = 4

// tailCase is one call of an operator on chosen numbers.
type tailCase struct {
	op     string
	d      dtype.DType
	attrs  map[string]string
	inputs map[string]*tensor.Tensor
}

// trial evaluates the case.
func (c tailCase) trial(t *testing.T) *trial {
	t.Helper()
	op, ok := oracle.Lookup(c.op)
	if !ok {
		t.Fatalf("no operator %s", c.op)
	}
	attrs, err := op.Schema.ResolveAttrs(c.attrs)
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{op: op, inputs: c.inputs, attrs: attrs}
	tr.c.DType = c.d
	if tr.want, err = oracle.Evaluate(op, c.inputs, attrs, c.d); err != nil {
		t.Fatal(err)
	}
	return tr
}

// of makes a tensor [1, rows, n] of rows of numbers.
func of(d dtype.DType, rows ...[]float64) *tensor.Tensor {
	var all []float64
	for _, r := range rows {
		all = append(all, r...)
	}
	return tensor.FromFloat64s(d, tensor.Shape{1, len(rows), len(rows[0])}, all)
}

// line is a grid over the whole line: even steps where functions bend and where they underflow in float64 or float32,
// and powers of two from the subnormals to the largest that d has.
func line(d dtype.DType) []float64 {
	var xs []float64
	for x := -24.0; x <= 24; x += 0.0917 {
		xs = append(xs, x)
	}
	for x := -770.0; x <= 770; x += 2.03 {
		xs = append(xs, x)
	}
	for x := -40.0; x <= -36; x += 0.0137 {
		xs = append(xs, x)
	}
	for x := 0x1.6p-1074; x < d.MaxFinite()/2; x *= 97 {
		xs = append(xs, x, -x)
	}
	return xs
}

// elementCases are the operators on single elements. Gates have a factor that is exact.
func elementCases(d dtype.DType) []tailCase {
	x := of(d, line(d))
	up := make([]float64, x.Shape.Elems())
	for i := range up {
		up[i] = math.Ldexp(1, i%3-1)
	}
	var cases []tailCase
	for _, name := range []string{"gelu", "gelu_tanh", "silu", "sigmoid", "tanh"} {
		cases = append(cases, tailCase{name, d, nil, map[string]*tensor.Tensor{"input": x}})
	}
	for _, name := range []string{"swiglu", "geglu"} {
		cases = append(cases, tailCase{name, d, nil, map[string]*tensor.Tensor{"gate": x, "up": of(d, up)}})
	}
	for _, alpha := range []string{"1", "0.3"} {
		cases = append(cases, tailCase{"elu", d, map[string]string{"alpha": alpha}, map[string]*tensor.Tensor{"input": x}})
	}
	for _, beta := range []string{"1", "2", "0.3", "7.7"} {
		for _, threshold := range []string{"20", "1000"} {
			cases = append(cases, tailCase{"softplus", d, map[string]string{"beta": beta, "threshold": threshold},
				map[string]*tensor.Tensor{"input": x}})
		}
	}
	return cases
}

// scoreRows are rows of n scores: with a dominating element, next to the sum 1, ordinary, and far apart.
func scoreRows(n int, r *rand.Rand) [][]float64 {
	rows := make([][]float64, 0, 24)
	for k := range 24 {
		row := make([]float64, n)
		gap, offset := float64(4*k), math.Ldexp(1, k)-1
		for i := range row {
			switch k % 4 {
			case 0: // all others lie gap and more below the first
				row[i] = offset - gap*8 - r.Float64()
			case 1:
				row[i] = -math.Log(float64(n)) - r.Float64()*math.Ldexp(1, -k)
			case 2:
				row[i] = r.NormFloat64() * gap
			case 3:
				row[i] = r.NormFloat64()*math.Ldexp(1, -k) + r.Float64()*math.Ldexp(1, 8-k)
			}
		}
		if k%4 == 0 {
			row[r.IntN(n)] = offset
		}
		rows = append(rows, row)
	}
	return rows
}

func rowCases(d dtype.DType) []tailCase {
	r := rand.New(rand.NewPCG(21, 22))
	var cases []tailCase
	for _, n := range []int{1, 2, 3, 17, 300} {
		rows := scoreRows(n, r)
		x := of(d, rows...)
		in := map[string]*tensor.Tensor{"input": x}
		cases = append(cases, tailCase{"log_softmax", d, nil, in}, tailCase{"logsumexp", d, nil, in})
		logits := tensor.FromFloat64s(d, tensor.Shape{len(rows), n}, x.Float64s())
		target := make([]float64, len(rows))
		for i, row := range rows {
			for j, v := range row { // of half of the rows the greatest, whose loss is next to 0
				if i%8 < 4 && v > row[int(target[i])] || i%8 >= 4 && j == i%n {
					target[i] = float64(j)
				}
			}
		}
		for _, smoothing := range []string{"0", "0.1"} {
			cases = append(cases, tailCase{"cross_entropy", d, map[string]string{"label_smoothing": smoothing},
				map[string]*tensor.Tensor{
					"logits": logits, "target": tensor.FromFloat64s(dtype.Int64, tensor.Shape{len(rows)}, target),
				}})
		}
	}
	return cases
}

// TestWantKeepsItsDigits: the value of an element is right to a few units in the last place of float64 wherever the
// function can be evaluated, however small the result is beside the terms of its formula.
func TestWantKeepsItsDigits(t *testing.T) {
	testkit.ValuesOnly(t)
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float64, dtype.BFloat16} {
		worst := map[string]float64{}
		for _, c := range append(elementCases(d), rowCases(d)...) {
			tr := c.trial(t)
			w := tr.want["output"]
			arrays := map[string]bigref.Array{}
			for name, in := range c.inputs {
				arrays[name] = bigref.Array{Shape: in.Shape, X: in.Float64s(), Wide: d == dtype.Float64}
			}
			exact, err := bigref.Run(c.op, arrays, tr.attrs, map[string]tensor.Shape{"output": w.Shape})
			if err != nil {
				t.Fatal(err)
			}
			for i, big := range exact["output"].Big {
				e := bigmath.ULPError(w.Value[i], big)
				worst[c.op] = max(worst[c.op], e)
				if e > tailULP {
					t.Errorf("%s %s %v: value %d is %v, want %s: %.3g ulp", c.op, d, c.attrs, i, w.Value[i],
						text(exact["output"], i), e)
					break
				}
			}
		}
		t.Log(d, maps.Collect(maps.All(worst)))
	}
}

// styleTrials runs a case in all fixed styles of conforming arithmetic and expects no alarm.
func styleTrials(t *testing.T, tr *trial) {
	t.Helper()
	for i, style := range honest.Styles() {
		got, err := tr.run(style, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		j, err := tr.judge(got)
		if err != nil {
			t.Fatal(err)
		}
		if j.bad != nil {
			t.Errorf("%s %s %v, style %+v: %s", tr.op.Name, tr.c.DType, tr.attrs, style, brief(j.bad))
			return
		}
	}
}

// TestConformingImplementationsInTheTails: the bound still covers the written formulas, which cancel there.
func TestConformingImplementationsInTheTails(t *testing.T) {
	testkit.ValuesOnly(t)
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float64, dtype.BFloat16, dtype.Float16} {
		for _, c := range append(elementCases(d), rowCases(d)...) {
			for _, contract := range []string{"gpu", "ieee"} {
				attrs := map[string]string{"math": contract}
				maps.Copy(attrs, c.attrs)
				styleTrials(t, tailCase{c.op, d, attrs, c.inputs}.trial(t))
			}
		}
	}
}

// described says what the contract decides for one element.
func described(w *compare.Want, i int) string {
	if w.Undetermined != nil && w.Undetermined[i] {
		return "open"
	}
	return fmt.Sprint(w.Value[i] + 0) // -0 is 0
}

// TestLimitsOfActivations: where the formula multiplies an infinity by zero the contract does not decide; everywhere
// else an infinite input has the limit of the function.
func TestLimitsOfActivations(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		op          string
		attrs       map[string]string
		minus, plus string
	}{
		{"gelu", nil, "open", "+Inf"}, {"gelu_tanh", nil, "open", "+Inf"}, {"silu", nil, "open", "+Inf"},
		{"sigmoid", nil, "0", "1"}, {"tanh", nil, "-1", "1"}, {"exp", nil, "0", "+Inf"},
		{"elu", map[string]string{"alpha": "0.5"}, "-0.5", "+Inf"}, {"softplus", nil, "0", "+Inf"},
		{"softplus", map[string]string{"beta": "0.3", "threshold": "1000"}, "0", "+Inf"},
	} {
		for _, d := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64} {
			for _, contract := range []string{"gpu", "ieee"} {
				attrs := map[string]string{"math": contract}
				maps.Copy(attrs, c.attrs)
				tr := tailCase{c.op, d, attrs, map[string]*tensor.Tensor{"input": of(d, []float64{-inf, inf})}}.trial(t)
				w := tr.want["output"]
				if got := described(w, 0) + " " + described(w, 1); got != c.minus+" "+c.plus {
					t.Errorf("%s %s %v of the infinities: %s, want %s %s", c.op, d, attrs, got, c.minus, c.plus)
				}
				styleTrials(t, tr)
			}
		}
	}
}

// TestLimitsOfGates: a gate of -Inf is 0 or NaN, so that only an up that makes NaN of both decides.
func TestLimitsOfGates(t *testing.T) {
	inf := math.Inf(1)
	up := []float64{0, 2, -3, inf, -inf, math.NaN()}
	want := []string{"open", "open", "open", "NaN", "NaN", "NaN"}
	gate := []float64{-inf, -inf, -inf, -inf, -inf, -inf}
	for _, op := range []string{"swiglu", "geglu"} {
		for _, d := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64} {
			tr := tailCase{op, d, nil, map[string]*tensor.Tensor{"gate": of(d, gate), "up": of(d, up)}}.trial(t)
			for i := range up {
				if got := described(tr.want["output"], i); got != want[i] {
					t.Errorf("%s %s of -Inf and %v: %s, want %s", op, d, up[i], got, want[i])
				}
			}
			styleTrials(t, tr)
		}
	}
}

// TestSoftplusBelowALargeThreshold: the value is x where exp(βx) overflows, and the contract lets an implementation
// overflow there; below, above the threshold, and in float64 it decides.
func TestSoftplusBelowALargeThreshold(t *testing.T) {
	xs := []float64{80, 90, 500, 800, 1200}
	for _, c := range []struct {
		d               dtype.DType
		beta, threshold string
		want            string
	}{
		{dtype.Float32, "1", "20", "80 90 500 800 1200"},
		{dtype.Float32, "1", "1000", "80 open open open 1200"},
		{dtype.Float32, "2", "1000", "open open open 800 1200"}, // 500 is on the threshold
		{dtype.Float32, "1", "1e30", "80 open open open open"},
		{dtype.BFloat16, "1", "1000", "80 open open open 1200"},
		{dtype.Float64, "1", "1000", "80 90 500 open 1200"},
		{dtype.Float64, "0.5", "1e300", "80 90 500 800 1200"},
		{dtype.Float32, "1e38", "20", "80 90 500 800 1200"}, // βx overflows itself, beyond the threshold
	} {
		attrs := map[string]string{"beta": c.beta, "threshold": c.threshold}
		tr := tailCase{"softplus", c.d, attrs, map[string]*tensor.Tensor{"input": of(c.d, xs)}}.trial(t)
		w, got := tr.want["output"], ""
		for i, x := range xs {
			if i > 0 {
				got += " "
			}
			got += described(w, i)
			if w.Value[i] != tr.inputs["input"].Float64s()[i] {
				t.Errorf("softplus %s %v of %v has the value %v, want x", c.d, attrs, x, w.Value[i])
			}
		}
		if got != c.want {
			t.Errorf("softplus %s %v: %s, want %s", c.d, attrs, got, c.want)
		}
		styleTrials(t, tr)
	}
}

// TestRowsWithInfiniteScores: all operators of the softmax family leave the same rows open.
func TestRowsWithInfiniteScores(t *testing.T) {
	testkit.ValuesOnly(t)
	inf, nan := math.Inf(1), math.NaN()
	rows := [][]float64{{1, inf, 2}, {1, -inf, inf}, {inf, inf, inf}, {-inf, -inf, -inf}, {1, nan, inf}, {nan, -inf, -inf},
		{1, -inf, 2}}
	want := []string{"open", "open", "open", "open", "NaN", "NaN", "decided"}
	for _, op := range []string{"softmax", "log_softmax", "logsumexp", "cross_entropy"} {
		for _, d := range []dtype.DType{dtype.Float32, dtype.BFloat16, dtype.Float64} {
			in := map[string]*tensor.Tensor{"input": of(d, rows...)}
			if op == "cross_entropy" {
				in = map[string]*tensor.Tensor{
					"logits": tensor.FromFloat64s(d, tensor.Shape{len(rows), 3}, in["input"].Float64s()),
					"target": tensor.New(dtype.Int64, tensor.Shape{len(rows)}),
				}
			}
			tr := tailCase{op, d, nil, in}.trial(t)
			w := tr.want["output"]
			width := len(w.Value) / len(rows)
			for i := range w.Value {
				got := described(w, i)
				if got != "open" && got != "NaN" {
					got = "decided"
				}
				if got != want[i/width] {
					t.Errorf("%s %s of %v: element %d is %s, want %s", op, d, rows[i/width], i%width, got, want[i/width])
				}
			}
			styleTrials(t, tr)
		}
	}
}

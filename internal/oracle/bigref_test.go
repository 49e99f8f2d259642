// This file implements the test of every reference against a second, naive one in arbitrary precision.

package oracle_test

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/testkit/bigref"
)

// bigMaster is the seed of all cases; another one tests other cases.
const bigMaster = 0x6269_6772_6566

var (
	bigValues = []string{
		"uniform", "normal", "boundary", "offset", "cancelling", "near_eps", "ties", "one_hot", "rising_max", "adversarial",
	}
	bigShapes = []string{"default", "boundary", "tile_aware"}
	bigSizes  = []int{64, 130, 300}
)

// rounds is how many cases there are for each operator, dtype and distribution, unless more are asked for.
const rounds = 3

// soak returns how many rounds to run: [rounds], as often as GPUEMU_SOAK says.
func soak(t *testing.T) int { return testkit.Soak(t, 1) * rounds }

func TestBigrefHasEveryOp(t *testing.T) {
	have := bigref.Ops()
	for _, name := range oracle.Names() {
		if !slices.Contains(have, name) {
			t.Errorf("operator %s has no second reference in testkit/bigref", name)
		}
	}
	for _, name := range have {
		if op, ok := oracle.Lookup(name); !ok || op.Name != name {
			t.Errorf("testkit/bigref computes %s, which is not in the catalogue", name)
		}
	}
}

func TestAgainstBigref(t *testing.T) {
	testkit.ValuesOnly(t)
	n := soak(t)
	for _, op := range oracle.Ops() {
		t.Run(op.Name, func(t *testing.T) {
			t.Parallel()
			c := &bigCheck{op: op}
			for i := range n {
				for j, d := range op.Schema.AllowedDTypes() {
					for k, values := range bigValues {
						c.run(t, d, values, i, i+j+k)
					}
				}
			}
			c.report(t)
		})
	}
}

// TestNonFiniteAgainstBigref puts NaN and infinities into one input after the other.
func TestNonFiniteAgainstBigref(t *testing.T) {
	testkit.ValuesOnly(t)
	n := soak(t)
	for _, op := range oracle.Ops() {
		if !bigref.Selects(op.Name) && !bigref.Classifies(op.Name) {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			t.Parallel()
			c := &bigCheck{op: op}
			for i := range 2 * n {
				for j, d := range op.Schema.AllowedDTypes() {
					for k := range op.Schema.Inputs {
						c.runNonFinite(t, d, k, i, i+j+k)
					}
				}
			}
			c.report(t)
		})
	}
}

// runNonFinite makes a case of usual numbers, puts others into one input and checks the classes of the results.
func (c *bigCheck) runNonFinite(t *testing.T, d dtype.DType, input, i, turn int) {
	t.Helper()
	in := &c.op.Schema.Inputs[input]
	elem, err := in.ElemType(d, c.op.Schema.DefaultAttrs())
	if err != nil {
		t.Fatal(err)
	}
	if !elem.IsFloat() || in.Domain.Finite {
		return
	}
	cs, inputs := c.make(t, d, "normal", i, turn)
	values := inputs[in.Name].Float64s()
	r := rng.New(cs.Seed).Derive("not finite")
	if len(values) > 0 {
		for range 1 + r.Intn(1+r.Intn(1+len(values)/4)) {
			special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1)}
			values[r.Intn(len(values))] = special[r.Intn(len(special))]
		}
	}
	inputs[in.Name] = tensor.FromFloat64s(elem, inputs[in.Name].Shape, values)
	check := c.check
	if !bigref.Selects(c.op.Name) {
		check = c.checkClasses
	}
	c.note(t, cs.String()+" with others in "+in.Name, check(cs, inputs))
}

func (c *bigCheck) checkClasses(cs opspec.Case, inputs map[string]*tensor.Tensor) []string {
	want, err := oracle.Evaluate(c.op, inputs, cs.AttrMap(), cs.DType)
	if err != nil {
		return []string{err.Error()}
	}
	arrays := map[string]bigref.Array{}
	for name, in := range inputs {
		arrays[name] = bigref.Array{Shape: in.Shape, X: in.Float64s(), Wide: in.DType == dtype.Float64}
	}
	w := want["output"]
	classes, err := bigref.Classify(c.op.Name, arrays, cs.AttrMap(), w.Shape)
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	for i, class := range classes {
		c.elems++
		got := bigref.ClassOf(w.Value[i])
		if got != bigref.Finite {
			c.special++
		}
		if w.Undetermined != nil && w.Undetermined[i] {
			c.undetermined++
			got = bigref.Undecided
		}
		if class != bigref.Unstated && class != got {
			faults = append(faults, fmt.Sprintf("output[%d]: value %v, %v, want %v", i, w.Value[i], got, class))
		}
	}
	return faults
}

// bigCheck compares one operator's references and counts what it saw.
type bigCheck struct {
	op                                      *oracle.Op
	elems, undetermined, unbounded, special int
	cases, faults                           int
	worst                                   float64 // largest error over its limit
}

// maxFaults is how many faulty cases of one operator are printed.
const maxFaults = 12

func (c *bigCheck) report(t *testing.T) {
	t.Logf("%d cases, %d elements, %d not finite, %d without a bound, %d undetermined, worst error/limit %.3g",
		c.cases, c.elems, c.special, c.unbounded, c.undetermined, c.worst)
	if c.faults > maxFaults {
		t.Errorf("%d more cases are wrong", c.faults-maxFaults)
	}
}

// run makes and checks one case.
func (c *bigCheck) run(t *testing.T, d dtype.DType, values string, i, turn int) {
	t.Helper()
	cs, inputs := c.make(t, d, values, i, turn)
	c.note(t, cs.String(), c.check(cs, inputs))
}

// make makes a case with finite inputs.
func (c *bigCheck) make(
	t *testing.T, d dtype.DType, values string, i, turn int,
) (opspec.Case, map[string]*tensor.Tensor) {
	t.Helper()
	r := rng.New(bigMaster).Derive(c.op.Name + "/" + d.String() + "/" + values + "/" + strconv.Itoa(i))
	fixed := opspec.Attrs{}
	for _, a := range c.op.Schema.Attrs { // those that a generator leaves at their defaults
		if a.Fixed && !a.Quiet { // values do not depend on compute, and its wider bounds have tests of their own
			fixed[a.Name] = a.Values[r.Intn(len(a.Values))]
		}
	}
	stream, err := gen.Cases(c.op.Schema, gen.Strategy{
		Shapes: bigShapes[turn%len(bigShapes)], Values: values, DTypes: []dtype.DType{d},
		MaxElems: bigSizes[r.Intn(len(bigSizes))], FiniteOnly: true, Attrs: fixed,
	}, r.Uint64())
	if err != nil {
		t.Fatal(err)
	}
	cs, err := stream.Case(i)
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := gen.Inputs(c.op.Schema, cs)
	if err != nil {
		t.Fatal(err)
	}
	return cs, inputs
}

// note counts a case and prints its faults.
func (c *bigCheck) note(t *testing.T, cs string, faults []string) {
	t.Helper()
	c.cases++
	if len(faults) > 0 {
		c.faults++
		if c.faults <= maxFaults {
			t.Errorf("%s\n  %d faults, first: %s", cs, len(faults), faults[0])
		}
	}
}

// check computes one case both ways and says where the results differ.
func (c *bigCheck) check(cs opspec.Case, inputs map[string]*tensor.Tensor) []string {
	_, shapes, err := c.op.Schema.Resolve(cs.DimMap(), cs.AttrMap())
	if err != nil {
		return []string{err.Error()}
	}
	want, err := oracle.Evaluate(c.op, inputs, cs.AttrMap(), cs.DType)
	if err != nil {
		return []string{err.Error()}
	}
	arrays := map[string]bigref.Array{}
	for name, in := range inputs {
		arrays[name] = bigref.Array{Shape: in.Shape, X: in.Float64s(), Wide: in.DType == dtype.Float64}
	}
	exact, err := bigref.Run(c.op.Name, arrays, cs.AttrMap(), shapes)
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	for i := range c.op.Schema.Outputs {
		out := &c.op.Schema.Outputs[i]
		w, r := want[out.Name], exact[out.Name]
		if w == nil {
			return []string{"no output " + out.Name}
		}
		d, err := out.ElemType(cs.DType, cs.AttrMap())
		if err != nil {
			return []string{err.Error()}
		}
		if w.DType != d || !w.Shape.Equal(r.Shape) {
			return []string{fmt.Sprintf("%s is %v%v, want %v%v", out.Name, w.DType, w.Shape, d, r.Shape)}
		}
		var fs []string
		switch {
		case w.Ties != nil:
			fs = c.checkIndexes(w, r, cs, arrays)
		case w.Value == nil:
			fs = []string{"no values"}
		default:
			fs = c.checkValues(w, r, cs.DType)
		}
		for _, f := range fs {
			faults = append(faults, out.Name+f)
		}
	}
	return faults
}

// checkValues compares numbers and, where it finds none wrong, asks the judge about the correctly rounded results.
func (c *bigCheck) checkValues(w *compare.Want, r *bigref.Result, d dtype.DType) []string {
	var faults []string
	for i := range r.F {
		if f := c.checkValue(w, r, i, d); f != "" {
			faults = append(faults, fmt.Sprintf("[%d]: %s", i, f))
		}
	}
	if faults != nil {
		return faults
	}
	got := tensor.New(w.DType, r.Shape)
	size := w.DType.Size()
	for i := range r.F {
		x := r.F[i]
		if r.Big != nil && r.Big[i] != nil {
			x = oddFloat64(r.Big[i], w.DType)
		}
		bits := w.DType.Bits(x)
		if w.Saturating {
			bits = w.DType.BitsSaturating(x)
		}
		w.DType.Store(got.Data[i*size:], bits)
	}
	return refused(w, got)
}

// refused says what the judge has against the right result.
func refused(w *compare.Want, got *tensor.Tensor) []string {
	report, err := compare.Compare(got, w, compare.DefaultOptions())
	if err != nil {
		return []string{": " + err.Error()}
	}
	if report.Counts.Mismatched == 0 && report.Verdict != compare.Error {
		return nil
	}
	text := ": the correctly rounded result is refused: " + report.Reason
	for _, e := range append(report.Worst.Class, report.Worst.Ratio...) {
		if e.Wrong {
			text += fmt.Sprintf(" %v: %v, got %v, want %v, bound %g;", e.Index, e.Kind, e.Got, e.Want, e.Bound)
		}
	}
	return []string{text}
}

// oddFloat64 rounds x to float64 so that rounding again to the narrower d gives what one rounding would: towards zero,
// with the last bit set if anything was lost.
func oddFloat64(x *big.Float, d dtype.DType) float64 {
	if d == dtype.Float64 {
		f, _ := x.Float64()
		return f
	}
	cut := new(big.Float).SetMode(big.ToZero).SetPrec(53).Set(x)
	f, _ := cut.Float64()
	if cut.Cmp(x) != 0 && f != 0 && !math.IsInf(f, 0) {
		f = math.Float64frombits(math.Float64bits(f) | 1)
	}
	return f
}

// calm reports whether all intermediate values were small enough for no result to be left undetermined or without a
// bound: squares of them are far from an overflow of the arithmetic, and they themselves from one of the type of the
// case d, which some intermediate values may be rounded to. The errors of large scores grow exponentially in attention.
func (c *bigCheck) calm(r *bigref.Result, d dtype.DType) bool {
	switch {
	case d == dtype.Float16:
		return r.Peak < 14
	case c.op.Family == "attention" && d == dtype.Float64:
		return r.Peak < 60
	case c.op.Family == "attention":
		return r.Peak < 24
	case d == dtype.Float64:
		return r.Peak < 500
	}
	return r.Peak < 60
}

// steepSingle is the exponent from which on reciprocals are subnormal in float32, with few digits.
const steepSingle = 120

// checkValue compares one element; "" means that all is well.
func (c *bigCheck) checkValue(w *compare.Want, r *bigref.Result, i int, d dtype.DType) string {
	c.elems++
	calm := c.calm(r, d)
	open := r.Open != nil && r.Open[i]
	value, bound := w.Value[i], 0.0
	if w.Bound != nil {
		bound = w.Bound[i]
	}
	if w.Undetermined != nil && w.Undetermined[i] {
		c.undetermined++
		if edge := r.Edge != nil && r.Edge[i]; !open && !edge && calm {
			return fmt.Sprintf("undetermined, value %v; the exact value is %s", value, text(r, i))
		}
		return ""
	}
	if open {
		return fmt.Sprintf("value %v, want it undetermined", value)
	}
	if math.IsInf(bound, 1) {
		c.unbounded++
		if calm {
			return fmt.Sprintf("bound +Inf, value %v; the exact value is %s", value, text(r, i))
		}
		return ""
	}
	if r.Big == nil || r.Big[i] == nil {
		if value != r.F[i] && !(math.IsNaN(value) && math.IsNaN(r.F[i])) {
			return fmt.Sprintf("value %v, want %v", value, r.F[i])
		}
		return ""
	}
	nearest, _ := r.Big[i].Float64()
	if math.IsNaN(value) || math.IsInf(value, 0) || math.IsInf(nearest, 0) {
		c.special++
		if value != nearest {
			return fmt.Sprintf("value %v, want %s", value, text(r, i))
		}
		return ""
	}
	err := new(big.Float).SetPrec(200).SetFloat64(value)
	err.Sub(err, r.Big[i]).Abs(err)
	if err.Sign() == 0 {
		return ""
	}
	if w.DType.IsInteger() {
		return checkRounded(err, r, i, value, bound)
	}
	limit := c.limit(w, r, i, d == dtype.Float64)
	ratio, _ := new(big.Float).Quo(err, limit).Float64()
	c.worst = max(c.worst, ratio)
	if err.Cmp(limit) > 0 {
		return fmt.Sprintf("value %v, want %s: error %.3g, limit %.3g, bound %.3g",
			value, text(r, i), err, limit, bound)
	}
	return ""
}

// limit is the largest error of a reference. It computes in float64. Where that is the arithmetic of the
// implementations, too, it may use half of the bound; otherwise its errors are far inside of it, or those of a few
// operations on the result or on the terms it is the sum of.
func (c *bigCheck) limit(w *compare.Want, r *bigref.Result, i int, double bool) *big.Float {
	limit := new(big.Float).SetPrec(200).SetFloat64(w.Bound[i])
	if double {
		limit.SetMantExp(limit, -1)
		return limit.Add(limit, new(big.Float).SetMantExp(big.NewFloat(1), -1075)) // half of the smallest subnormal
	}
	limit.SetMantExp(limit, -20)
	other := new(big.Float).SetPrec(200).Abs(r.Big[i])
	other.SetMantExp(other, -50)
	if r.Scale != nil {
		scale := new(big.Float).SetMantExp(r.Scale[i], -45)
		other.Add(other, scale)
	}
	tiny := w.DType.SmallestSubnormal() / 8 // becomes zero in the output, whatever else happens to it
	other.Add(other, big.NewFloat(max(tiny, math.SmallestNonzeroFloat64)))
	if other.Cmp(limit) > 0 {
		return other
	}
	return limit
}

// checkRounded compares an integer with the quotient it was rounded from. With bound 0 no implementation may come to
// another integer, so the quotient is not within a rounding of the middle between two; otherwise it is near there.
func checkRounded(err *big.Float, r *bigref.Result, i int, value, bound float64) string {
	e, _ := err.Float64()
	const least, most = 0x1p-25, 0x1p-20 // of 127: a fraction of one rounding in float32, and a dozen of them
	switch {
	case value != math.Trunc(value):
		return fmt.Sprintf("value %v, want an integer", value)
	case e > 0.5+least:
		return fmt.Sprintf("value %v, want %s rounded", value, text(r, i))
	case bound == 0 && e > 0.5-least*math.Abs(value):
		return fmt.Sprintf("value %v with bound 0, want bound 1 at %s", value, text(r, i))
	case r.Peak < steepSingle && bound != 0 && (bound != 1 || e < 0.5-most*(math.Abs(value)+1)):
		return fmt.Sprintf("value %v with bound %v, want bound 0 at %s", value, bound, text(r, i))
	}
	return ""
}

func text(r *bigref.Result, i int) string {
	if r.Big == nil || r.Big[i] == nil {
		return fmt.Sprint(r.F[i])
	}
	if e := r.Big[i].MantExp(nil); e < -1100 || e > 1100 {
		return r.Big[i].Text('p', 20) // decimal digits of such a number take minutes
	}
	return r.Big[i].Text('g', 25)
}

// checkIndexes compares indexes by what they point at, and the scores and slacks that say which others are right.
func (c *bigCheck) checkIndexes(
	w *compare.Want, r *bigref.Result, cs opspec.Case, arrays map[string]bigref.Array,
) []string {
	in := arrays[c.op.Schema.Inputs[0].Name]
	n, ties := in.Shape[len(in.Shape)-1], w.Ties
	if ties.N != n || ties.Rows*ties.N != len(in.X) || ties.Rows*ties.K != len(r.F) || len(w.Value) != len(r.F) {
		return []string{fmt.Sprintf(": %d rows of %d, ties for %d rows of %d in %d",
			len(r.F)/max(ties.K, 1), n, ties.Rows, ties.K, ties.N)}
	}
	var faults []string
	for i := range r.F {
		c.elems++
		row, index := i/ties.K*n, int(w.Value[i])
		switch {
		case w.Undetermined != nil && w.Undetermined[i]:
			c.undetermined++
			if c.calm(r, cs.DType) {
				faults = append(faults, fmt.Sprintf("[%d]: undetermined", i))
			}
		case index < 0 || index >= n:
			faults = append(faults, fmt.Sprintf("[%d]: index %d, want one below %d", i, index, n))
		case !same(in.X[row+index], in.X[row+int(r.F[i])]):
			faults = append(faults, fmt.Sprintf("[%d]: index %d of %v, want %d of %v",
				i, index, in.X[row+index], int(r.F[i]), in.X[row+int(r.F[i])]))
		}
	}
	for row := range ties.Rows {
		faults = append(faults, c.checkScores(ties, row, in.X[row*n:(row+1)*n], cs.DType == dtype.Float64)...)
	}
	if faults == nil {
		faults = refused(w, tensor.FromFloat64s(w.DType, r.Shape, r.F))
	}
	return faults
}

// same reports whether x and y are one number or both NaN.
func same(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) }

// checkScores compares the scores of one row: the inputs themselves or, for routing, their softmax.
func (c *bigCheck) checkScores(ties *compare.Ties, row int, xs []float64, double bool) []string {
	var exact []*big.Float
	if !bigref.Selects(c.op.Name) {
		exact = bigref.Probabilities(xs)
	}
	var faults []string
	for i, x := range xs {
		at := row*ties.N + i
		score, slack := ties.Score[at], 0.0
		if ties.Slack != nil {
			slack = ties.Slack[at]
		}
		switch {
		case exact == nil && (!same(score, x) || slack > 0x1p-126):
			faults = append(faults, fmt.Sprintf(": score %d of row %d is %v with slack %v, want %v", i, row, score, slack, x))
		case exact != nil:
			p := &bigref.Result{Big: exact}
			w := &compare.Want{DType: dtype.Float32, Bound: ties.Slack[row*ties.N:]}
			err := new(big.Float).SetPrec(200).SetFloat64(score)
			if err.Sub(err, exact[i]).Abs(err).Cmp(c.limit(w, p, i, double)) > 0 {
				faults = append(faults, fmt.Sprintf(": score %d of row %d is %v with slack %v, want %s",
					i, row, score, slack, text(p, i)))
			}
		}
	}
	return faults
}

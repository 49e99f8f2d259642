// Package invariant checks properties of an output that need no reference: that it is finite, sums to 1, was written
// everywhere, is the same twice, and left its surroundings alone.
//
// It does not compare values with wanted ones (package compare does). The main entry point is Check. An invariant is a
// name with parameters, as in a configuration file: "finite", "bounded(-1,1)". A value invariant that the reference's
// own output violates on the same case is not applicable: then the case, not the kernel, breaks it.
package invariant

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// Outcome is what a check found.
type Outcome uint8

const (
	// Undecided: nothing was checked.
	Undecided Outcome = iota
	// Holds: the property is true of the output.
	Holds
	// Violated: it is not, and Result says where.
	Violated
	// NotApplicable: it cannot be asked of this case.
	NotApplicable
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case Undecided:
		return "undecided"
	case Holds:
		return "holds"
	case Violated:
		return "violated"
	case NotApplicable:
		return "not applicable"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Result is what one invariant says of one case.
type Result struct {
	Invariant Invariant
	Outcome   Outcome
	// Sentence says what was found where; it is empty when the invariant holds.
	Sentence string
	// Index is the first element that violates it, nil where it is not about elements.
	Index []int
}

// Region is a piece of memory that must not change: an input, or a red zone beside a buffer.
type Region struct {
	Name          string
	Before, After []byte
}

// Context is the case to be checked. Only Output is needed by all invariants that look at values; what else is missing
// makes the invariants that need it not applicable. What it points to must not change from one check to the next.
type Context struct {
	Output *tensor.Tensor
	// Behind is how many axes stand behind that of the rows of Output; 0: it is the last.
	Behind int
	// Again is the output of a second run on the same inputs.
	Again *tensor.Tensor
	// Rows are outputs of runs on other batches, and NoRows says why there are none.
	Rows   []Rows
	NoRows string
	// Want is what the reference gives; its bounds are allowed for where honest rounding can break a property.
	Want *compare.Want
	// Inputs are the storages of the inputs before and after the run.
	Inputs []Region
	// Zones are the red zones around all buffers before and after the run.
	Zones []Region
	// Poison is the bit pattern that every element of the output held before the run, and PoisonAgain the one before the
	// second run; nil: the output was not poisoned.
	Poison, PoisonAgain *uint64

	values []float64 // where the output is a reference in float64, its elements; Output has no Data then
	looks  *looks    // at Output, once something needed them
	ref    *Context  // of Want, once something needed it
}

// Invariant is a property with its parameters.
type Invariant struct {
	Name   string
	Lo, Hi float64 // bounded
	Axis   int     // monotonic; negative counts from the end
	Down   bool    // monotonic: not rising instead of not falling
}

// Doc describes an invariant.
type Doc struct {
	Name string
	Form string // how it is written, with its parameters
	Doc  string
}

// kind is a known invariant. value: it looks at values, and the reference can violate it too.
type kind struct {
	Doc
	value bool
	check func(iv Invariant, c *Context) Result
}

func kindList() []kind {
	return []kind{
		{Doc{"shape_preserved", "shape_preserved", "the output has exactly the shape of the reference's output"}, false,
			checkShape},
		{Doc{"non_negative", "non_negative", "all elements are >= 0; NaN is not"}, true, checkElements},
		{Doc{"finite", "finite", "no element is NaN or infinite"}, true, checkElements},
		{Doc{"no_nan", "no_nan", "no element is NaN"}, true, checkElements},
		{Doc{"no_inf", "no_inf", "no element is infinite"}, true, checkElements},
		{Doc{"symmetric", "symmetric", "each matrix of the last two dimensions equals its transpose, " +
			"within the bounds of the reference or the default tolerance"}, true, checkSymmetric},
		{Doc{"normalized", "normalized", "elements sum to 1 along the last axis, or that of the attribute axis, " +
			"within the rounding of its length"}, true,
			checkNormalized},
		{Doc{"bounded", "bounded(lo,hi)", "all elements lie in [lo, hi], the limits rounded to the dtype; NaN does not"},
			true, checkElements},
		{Doc{"monotonic", "monotonic(axis) or monotonic(axis,down)", "elements do not fall (rise) along an axis, " +
			"within the bounds of the reference"}, true, checkMonotonic},
		{Doc{"deterministic", "deterministic", "two runs on the same inputs give the same bytes"}, false, checkDeterministic},
		{Doc{"batch_invariant", "batch_invariant", "a row of the batch gives the same bits alone, in half of the batch and " +
			"in all of it; NaN equals NaN. The candidate runs up to twice more for each batch dimension"}, false, checkBatch},
		{Doc{"permutation_equivariant", "permutation_equivariant", "the rows of the batch in another order give the same " +
			"bits in that order; NaN equals NaN. The candidate runs once more for each batch dimension"}, false,
			checkPermutation},
		{Doc{"inputs_unchanged", "inputs_unchanged", "no byte of an input's storage changes"}, false, checkInputs},
		{Doc{"fully_written", "fully_written", "no element still holds the poison it held before the run"}, false,
			checkWritten},
		{Doc{"no_overrun", "no_overrun", "the red zones around all buffers are as before"}, false, checkZones},
	}
}

// All returns the documentation of all invariants.
func All() []Doc {
	var docs []Doc
	for _, k := range kindList() {
		docs = append(docs, k.Doc)
	}
	return docs
}

// Parse reads an invariant as it stands in a configuration: a name, and parameters in brackets where it takes some.
func Parse(text string) (Invariant, error) {
	name, args := strings.TrimSpace(text), []string(nil)
	if open := strings.IndexByte(name, '('); open >= 0 {
		if !strings.HasSuffix(name, ")") {
			return Invariant{}, diag.Errorf(BadParameters, "", "invariant %q: the bracket is not closed", text)
		}
		args = strings.Split(name[open+1:len(name)-1], ",")
		name = strings.TrimSpace(name[:open])
	}
	k := lookup(name)
	if k == nil {
		return Invariant{}, diag.Errorf(UnknownName, unknownHint(name), "unknown invariant %q", name)
	}
	iv := Invariant{Name: name}
	bad := func(what string) (Invariant, error) {
		return Invariant{}, diag.Errorf(BadParameters, "write "+k.Form, "invariant %q: %s", text, what)
	}
	switch name {
	case "bounded":
		if len(args) != 2 {
			return bad("two limits are needed")
		}
		var errs [2]error
		iv.Lo, errs[0] = strconv.ParseFloat(strings.TrimSpace(args[0]), 64)
		iv.Hi, errs[1] = strconv.ParseFloat(strings.TrimSpace(args[1]), 64)
		if errs[0] != nil || errs[1] != nil || !(iv.Lo <= iv.Hi) {
			return bad("the limits are not two numbers, the lower one first")
		}
	case "monotonic":
		return parseMonotonic(iv, args, bad)
	default:
		if args != nil {
			return bad("it takes no parameters")
		}
	}
	return iv, nil
}

func parseMonotonic(iv Invariant, args []string, bad func(string) (Invariant, error)) (Invariant, error) {
	iv.Axis = -1
	if len(args) > 2 {
		return bad("too many parameters")
	}
	if len(args) > 0 {
		axis, err := strconv.Atoi(strings.TrimSpace(args[0]))
		if err != nil || axis < -tensor.MaxRank || axis >= tensor.MaxRank {
			return bad("the axis is not a small integer")
		}
		iv.Axis = axis
	}
	if len(args) == 2 {
		switch strings.TrimSpace(args[1]) {
		case "down":
			iv.Down = true
		case "up":
		default:
			return bad("the direction is neither up nor down")
		}
	}
	return iv, nil
}

// String returns the text that Parse reads.
func (iv Invariant) String() string {
	switch iv.Name {
	case "bounded":
		return fmt.Sprintf("bounded(%v,%v)", iv.Lo, iv.Hi)
	case "monotonic":
		if iv.Down {
			return fmt.Sprintf("monotonic(%d,down)", iv.Axis)
		}
		return fmt.Sprintf("monotonic(%d)", iv.Axis)
	}
	return iv.Name
}

func lookup(name string) *kind {
	for _, k := range kindList() {
		if k.Name == name {
			return &k
		}
	}
	return nil
}

// Check parses an invariant and checks it. An error means that the question is wrong, not the output.
func Check(text string, c *Context) (Result, error) {
	iv, err := Parse(text)
	if err != nil {
		return Result{}, err
	}
	return iv.Check(c)
}

// Check checks the invariant on a case.
func (iv Invariant) Check(c *Context) (Result, error) {
	k := lookup(iv.Name)
	if k == nil {
		return Result{}, diag.Errorf(UnknownName, unknownHint(iv.Name), "unknown invariant %q", iv.Name)
	}
	if iv.Name == "bounded" && !(iv.Lo <= iv.Hi) {
		return Result{}, diag.Errorf(BadParameters, "write "+k.Form, "bounded: lower limit %v, upper limit %v", iv.Lo, iv.Hi)
	}
	if err := c.check(); err != nil {
		return Result{}, err
	}
	if k.value && c.Want != nil && c.Output != nil {
		if ref := reference(c); ref != nil {
			if own := k.check(iv, ref); own.Outcome == Violated {
				return Result{Invariant: iv, Outcome: NotApplicable, Index: own.Index,
					Sentence: "the reference's own output violates it: " + own.Sentence}, nil
			}
		}
	}
	r := k.check(iv, c)
	r.Invariant = iv
	return r, nil
}

// check proves that every element can be read.
func (c *Context) check() error {
	if c == nil {
		return diag.Errorf(BadContext, "", "there is nothing to check")
	}
	for _, t := range []struct {
		name   string
		tensor *tensor.Tensor
	}{{"output", c.Output}, {"second output", c.Again}} {
		if t.tensor == nil {
			continue
		}
		if _, err := tensor.FromStorage(t.tensor.DType, t.tensor.Shape, t.tensor.Strides, t.tensor.Offset,
			t.tensor.Data); err != nil {
			return diag.Errorf(BadContext, "", "%s: %w", t.name, err)
		}
	}
	for _, list := range [][]Region{c.Inputs, c.Zones} {
		for _, r := range list {
			if len(r.Before) != len(r.After) {
				return diag.Errorf(BadContext, "", "%q had %d bytes before the run and %d after", r.Name, len(r.Before),
					len(r.After))
			}
		}
	}
	return nil
}

// reference returns a context whose output is the reference's own, or nil when there are no values of the right number.
// Float references stay in float64: what they are rounded to is the kernel's business.
func reference(c *Context) *Context {
	w := c.Want
	if c.ref != nil && c.ref.Want == w {
		return c.ref
	}
	ref := &Context{Want: w, Behind: c.Behind}
	switch {
	case w.Exact != nil:
		ref.Output = w.Exact
	case w.Stored != nil:
		ref.Output = w.Stored
	case len(w.Value) == w.Shape.Elems():
		ref.Output, ref.values = &tensor.Tensor{DType: dtype.Float64, Shape: w.Shape}, w.Value
	default:
		return nil
	}
	c.ref = ref
	return ref
}

func holds() Result { return Result{Outcome: Holds} }

func violated(index []int, format string, args ...any) Result {
	return Result{Outcome: Violated, Index: index, Sentence: fmt.Sprintf(format, args...)}
}

func notApplicable(format string, args ...any) Result {
	return Result{Outcome: NotApplicable, Sentence: fmt.Sprintf(format, args...)}
}

// unknownHint names the nearest known invariants, or all of them.
func unknownHint(name string) string {
	var names []string
	for _, k := range kindList() {
		names = append(names, k.Name)
	}
	return diag.Suggest(name, names, "use one of "+strings.Join(names, ", "))
}

// isNaN and isInf spare a call in the loops below.
func isNaN(x float64) bool { return x != x }

func isInf(x float64) bool { return math.Abs(x) > math.MaxFloat64 }

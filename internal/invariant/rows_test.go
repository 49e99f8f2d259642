package invariant

import (
	"math"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// TestRows: each row of another run is compared with the same row of the first, bit for bit but for NaN.
func TestRows(t *testing.T) {
	nan := math.NaN()
	whole := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(3, 2), []float64{1, 2, 3, nan, 0, 6})
	run := func(permuted bool, from []int, values ...float64) Rows {
		return Rows{Permuted: permuted, Dim: "B", From: from,
			Output: tensor.FromFloat64s(dtype.Float32, tensor.MustShape(len(values)/2, 2), values)}
	}
	otherNaN := run(false, []int{1}, 3, 0)
	dtype.Float32.Store(otherNaN.Output.Data[4:], 0xffc00001)
	for _, c := range []struct {
		name    string
		what    string
		rows    []Rows
		outcome Outcome
		text    string
	}{
		{"alone", "batch_invariant", []Rows{run(false, []int{1}, 3, nan)}, Holds, ""},
		{"another NaN", "batch_invariant", []Rows{otherNaN}, Holds, ""},
		{"half", "batch_invariant", []Rows{run(false, []int{0, 1}, 1, 2, 3, nan)}, Holds, ""},
		{"other bits", "batch_invariant", []Rows{run(false, []int{0}, 1, 2), run(false, []int{2}, 0, 6.5)}, Violated,
			"row 2 of B depends on the rows beside it: 1 of 2 elements of row 2 alone differ, the first at [2 1]: " +
				"6 (0x40c00000) in the batch of 3, 6.5 (0x40d00000) in it"},
		{"sign of zero", "batch_invariant", []Rows{run(false, []int{2}, math.Copysign(0, -1), 6)}, Violated, "[2 0]"},
		{"NaN gone", "batch_invariant", []Rows{run(false, []int{0, 1}, 1, 2, 3, 4)}, Violated, "a batch of rows 0 to 1"},
		{"shape", "batch_invariant", []Rows{run(false, []int{0, 1}, 1, 2)}, Violated, "is float32 [1,2], want float32 [2,2]"},
		{"order", "permutation_equivariant", []Rows{run(true, []int{2, 0, 1}, 0, 6, 1, 2, 3, nan)}, Holds, ""},
		{"other order", "permutation_equivariant", []Rows{run(true, []int{2, 0, 1}, 1, 2, 0, 6, 3, nan)}, Violated,
			"the same rows in the order [2 0 1]"},
		{"not asked", "permutation_equivariant", []Rows{run(false, []int{2}, 9, 9)}, NotApplicable, "no run of other rows"},
		{"none", "batch_invariant", nil, NotApplicable, "no run of other rows"},
	} {
		r, err := Check(c.what, &Context{Output: whole, Rows: c.rows})
		if err != nil || r.Outcome != c.outcome || !strings.Contains(r.Sentence, c.text) {
			t.Errorf("%s: %v %q, %v, want %v %q", c.name, r.Outcome, r.Sentence, err, c.outcome, c.text)
		}
	}
	r, err := Check("batch_invariant", &Context{Output: whole, NoRows: "the case has one row"})
	if err != nil || r.Outcome != NotApplicable || r.Sentence != "the case has one row" {
		t.Errorf("without rows: %+v, %v", r, err)
	}
	columns := Rows{Dim: "S", Axis: 1, From: []int{1}, Output: tensor.FromFloat64s(dtype.Float32, tensor.MustShape(3, 1),
		[]float64{2, nan, 7})}
	if r, _ = Check("batch_invariant", &Context{Output: whole, Rows: []Rows{columns}}); r.Outcome != Violated ||
		r.Index[0] != 2 || r.Index[1] != 1 {
		t.Errorf("along axis 1: %+v", r)
	}
	if _, err = Parse("batch_invarant"); !strings.Contains(diag.HintOf(err), "batch_invariant") {
		t.Errorf("a misspelt name: %v", err)
	}
}

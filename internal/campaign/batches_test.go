package campaign

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

const batchesPy = `
import numpy as np

def in_order(a, b):
    acc = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        acc += a[:, k:k + 1] * b[k]
    return acc

def matmul(inputs):  # one order of the sum, whatever the batch
    return in_order(inputs["a"], inputs["b"])

def matmul_split(inputs):  # two partial sums where there are few rows
    a, b = inputs["a"], inputs["b"]
    if a.shape[0] > 2:
        return in_order(a, b)
    half = a.shape[1] // 2
    return in_order(a[:, :half], b[:half]) + in_order(a[:, half:], b[half:])

def matmul_last(inputs):  # the last row in another order: its result depends on its place
    a, b = inputs["a"], inputs["b"]
    y = in_order(a, b)
    y[-1:] = in_order(a[-1:, ::-1], b[::-1])
    return y

def matmul_raises(inputs):
    if inputs["a"].shape[0] == 1:
        raise ValueError("one row is no batch")
    return matmul(inputs)

def double(inputs, scale=2.0):
    x = inputs["x"]
    if x.shape[1] > 2:
        return x * np.float32(2)
    return np.nextafter(x * np.float32(2), np.float32(np.inf))

def reference(inputs):
    return inputs["x"].astype(np.float64) * 2
`

// batchOps are ops with one invariant each. Bounds are wide enough for every order of a sum, so values alone pass.
func batchOps(invariants ...string) string {
	var text strings.Builder
	text.WriteString(head)
	for _, candidate := range []string{"matmul", "matmul_split", "matmul_last", "matmul_raises"} {
		for _, name := range invariants {
			fmt.Fprintf(&text, "\n[[ops]]\nname = \"%s.%s\"\nschema = \"matmul\"\ncandidate = \"batches.py:%s\"\n"+
				"invariants = [%q]\n", candidate, name, candidate, name)
		}
	}
	return text.String()
}

// TestBatchInvariants: a candidate whose rows depend on the size of the batch or on their place is found though its
// values are within the bound, and one whose rows do not passes.
func TestBatchInvariants(t *testing.T) {
	tr := newTrial(t, batchOps(batchInvariant, permutationEquivariant))
	tr.write("batches.py", batchesPy)
	_, results := tr.run(KindFuzz, Options{Seed: seed(4), Iterations: 4,
		Dims: map[string][]int{"M": {5, 8}, "K": {33, 64}, "N": {7}}})
	want := map[string]verdict.Reason{
		"matmul." + batchInvariant: "", "matmul." + permutationEquivariant: "",
		"matmul_split." + batchInvariant: verdict.Invariant, "matmul_split." + permutationEquivariant: "",
		"matmul_last." + batchInvariant: verdict.Invariant, "matmul_last." + permutationEquivariant: verdict.Invariant,
		"matmul_raises." + batchInvariant: verdict.Raised, "matmul_raises." + permutationEquivariant: "",
	}
	if len(results) != 4*len(want) {
		t.Fatalf("%d results", len(results))
	}
	for i := range results {
		r := &results[i]
		if r.Reason != want[r.Op] || r.Verdict.Failed() != (want[r.Op] != "") {
			t.Errorf("%s: %s (%s) %s, want reason %q", r.Case, r.Verdict, r.Reason, r.Message, want[r.Op])
		}
		switch r.Reason {
		case "":
			if len(r.Invariants) != 1 || r.Invariants[0].Outcome != "holds" {
				t.Errorf("%s: invariants %+v", r.Case, r.Invariants)
			}
		case verdict.Invariant:
			if !strings.Contains(r.Message, "of M depends on the rows beside it") || !strings.Contains(r.Message, "0x") {
				t.Errorf("message %q", r.Message)
			}
			c, err := tr.Reproduce(t.Context(), tr.project, Target{Op: r.Op, Case: r.Case})
			if err != nil || !c.StillFails() || c.Result.Reason != verdict.Invariant {
				t.Errorf("Reproduce = %+v, %v", c, err)
			}
		case verdict.Raised:
			if !strings.HasPrefix(r.Message, "on 1 of ") {
				t.Errorf("message %q", r.Message)
			}
		}
	}
}

// TestBatchOfOwnSchema: a schema of the user's marks its batch dimension, which need not be the first; where none is
// marked, the invariant is refused before anything runs.
func TestBatchOfOwnSchema(t *testing.T) {
	const text = head + `
[[ops]]
name = "double"
candidate = "batches.py:double"
reference = "batches.py:reference"
invariants = ["batch_invariant"]
tolerances = { float32 = { atol = 1e-3, rtol = 1e-3 } }
[ops.schema]
dims = [{ name = "H", candidates = [3, 8] }, { name = "B", candidates = [4, 6]%s }]
inputs = [{ name = "x", dims = ["H", "B"] }]
output = { name = "y", dims = ["H", "B"] }
`
	tr := newTrial(t, fmt.Sprintf(text, ", batch = true"))
	tr.write("batches.py", batchesPy)
	_, results := tr.run(KindFuzz, Options{Seed: seed(4), Iterations: 6})
	for i := range results {
		if r := &results[i]; r.Reason != verdict.Invariant {
			t.Errorf("%s: %s (%s) %s", r.Case, r.Verdict, r.Reason, r.Message)
		}
	}
	tr = newTrial(t, fmt.Sprintf(text, ""))
	_, err := tr.Prepare(context.Background(), Request{Kind: KindTest, Project: tr.project})
	if diag.CodeOf(err) != NoBatch || !strings.Contains(diag.HintOf(err), "batch = true") {
		t.Errorf("without a batch dimension: %v", err)
	}
	tr = newTrial(t, head+"\n[[ops]]\nname = \"loss\"\nschema = \"cross_entropy\"\ncandidate = \"ops.py:softmax\"\n"+
		"attributes = { reduction = \"mean\" }\ninvariants = [\"permutation_equivariant\"]\n")
	_, err = tr.Prepare(context.Background(), Request{Kind: KindTest, Project: tr.project})
	if diag.CodeOf(err) != NoBatch {
		t.Errorf("an output without dimensions: %v", err)
	}
}

// TestBatchEmulated: kernels are run on other batches, too.
func TestBatchEmulated(t *testing.T) {
	tr := newEmulated(t, strings.Replace(kernelOp("softmax", "softmax", ""), "[ops.kernel]",
		"invariants = [\"batch_invariant\", \"permutation_equivariant\"]\n[ops.kernel]", 1))
	_, results := tr.run(KindFuzz, Options{Seed: seed(2), Iterations: 3,
		Dims: map[string][]int{"B": {2, 3}, "S": {3}, "H": {5, 33}}})
	for i := range results {
		r := &results[i]
		if r.Verdict != verdict.Pass || len(r.Invariants) != 2 || r.Invariants[0].Outcome != "holds" ||
			r.Invariants[1].Outcome != "holds" {
			t.Errorf("%s: %s (%s) %s %+v", r.Case, r.Verdict, r.Reason, r.Message, r.Invariants)
		}
	}
	if len(results) != 3 {
		t.Errorf("%d results", len(results))
	}
}

// TestBatchOnClient: what a client executed once says nothing of other batches, and is no pass.
func TestBatchOnClient(t *testing.T) {
	tr := newTrial(t, head+"\n[[ops]]\nname = \"softmax\"\nexecution_mode = \"client_side\"\n"+
		"invariants = [\"batch_invariant\"]\n")
	ones := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(2, 1, 1), []float64{1, 1}) // softmax of one element is 1
	res := tr.submit(Submission{Op: "softmax", Seed: 1, Inputs: []tensor.Named{{Name: "input", Tensor: ones}},
		Outputs: []tensor.Named{{Name: "output", Tensor: ones}}})
	if res.Verdict != verdict.NotRun || res.Reason != verdict.Unsupported || !strings.Contains(res.Hint, "candidate = ") {
		t.Errorf("%s (%s) %s, hint %q", res.Verdict, res.Reason, res.Message, res.Hint)
	}
}

// TestBatchChoice: which rows are run is a function of the case, no row keeps its place in a permutation, and
// dimensions of one row are left out.
func TestBatchChoice(t *testing.T) {
	s := &subject{invariants: []string{batchInvariant, permutationEquivariant}, schema: &opspec.Schema{
		Dims: []opspec.Dim{{Name: "B", Batch: true}, {Name: "S", Batch: true}, {Name: "H"}}}}
	for i := range uint64(50) {
		c := opspec.Case{Seed: i, Dims: []opspec.DimValue{{Name: "B", Value: 1}, {Name: "S", Value: 2 + int(i%7)},
			{Name: "H", Value: 9}}}
		list := s.batches(c)
		if fmt.Sprint(list) != fmt.Sprint(s.batches(c)) {
			t.Errorf("case %d has two choices", i)
		}
		kinds := 0
		for _, b := range list {
			if b.dim != "S" || slices.Max(b.rows) >= 2+int(i%7) {
				t.Errorf("case %d: %+v", i, b)
			}
			if !b.permuted {
				continue
			}
			kinds++
			for at, row := range b.rows {
				if at == row {
					t.Errorf("case %d: row %d keeps its place in %v", i, row, b.rows)
				}
			}
		}
		if kinds != 1 || len(list) < 2 {
			t.Errorf("case %d: %d batches, %d permuted", i, len(list), kinds)
		}
	}
}

// TestBatchUnchecked: a run whose cases all have one row says that nothing was checked.
func TestBatchUnchecked(t *testing.T) {
	tr := newTrial(t, batchOps(batchInvariant))
	tr.write("batches.py", batchesPy)
	for _, m := range []int{1, 4} {
		sum, _ := tr.run(KindFuzz, Options{Seed: seed(4), Iterations: 6, Ops: []string{"matmul." + batchInvariant},
			Dims: map[string][]int{"M": {m}, "K": {5}, "N": {3}}})
		said := slices.ContainsFunc(sum.Health, func(c verdict.HealthCheck) bool {
			return c.Check == HealthUnchecked && strings.Contains(c.Message, "batch_invariant was checked in none of 6 cases")
		})
		if said != (m == 1) {
			t.Errorf("M = %d: health %+v", m, sum.Health)
		}
	}
}

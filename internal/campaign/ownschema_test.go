package campaign

import (
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// ownSchema gives sizes that the catalogue does not draw, and names of dimensions that it does not have.
const ownSchema = `{"name": "NAME", "dims": [{"name": "rows", "candidates": [3]}, {"name": "n", "candidates": [11]}],
	"inputs": [{"name": "input", "dims": ["rows", "n"]}], "output": {"name": "output", "dims": ["rows", "n"]}}`

// handedOwn hands out a case of ownSchema for an op.
func handedOwn(t *testing.T, tr *trial, op string) (*opspec.Schema, opspec.Case, *tensor.Tensor) {
	t.Helper()
	schema, err := opspec.ParseSchema([]byte(strings.Replace(ownSchema, "NAME", op, 1)))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := tr.HandOut(t.Context(), tr.project, HandOut{Op: op, Schema: schema,
		Options: Options{Seed: seed(4), Values: "normal"}})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close(false)
	c, inputs, err := batch.Case(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return schema, c, inputs["input"].Clone()
}

// A case of a schema of the client's keeps its text, which replays with the schema alone and an empty store.
func TestOwnSchemaKeepsItsText(t *testing.T) {
	for _, tt := range []struct{ op, reference string }{{"mine", ""}, {"softmax", "builtin:softmax"}} {
		t.Run(tt.op, func(t *testing.T) {
			tr, elsewhere := newTrial(t, head), newTrial(t, head)
			schema, c, input := handedOwn(t, tr, tt.op)
			wrong := tensor.New(c.DType, input.Shape)
			sub := Submission{Op: tt.op, Case: c.String(), Schema: schema,
				Outputs: []tensor.Named{{Name: "output", Tensor: wrong}}}
			if tt.reference == "" {
				sub.Expected = []tensor.Named{{Name: "output", Tensor: input}}
			}
			res, err := tr.Submit(t.Context(), tr.project, sub)
			if err != nil || res.Verdict != verdict.Fail || res.Case != c.String() || res.Schema != verdict.ClientSide ||
				res.Inputs == "" || res.Seed != verdict.Seed(c.Seed) {
				t.Fatalf("Submit = %+v, %v", res, err)
			}
			if tt.reference != "" && res.Reference != tt.reference {
				t.Errorf("the reference is %q", res.Reference)
			}
			l, err := tr.Locate(t.Context(), tr.project, Target{Case: c.String()})
			if err != nil || string(l.Inputs["input"].Bytes()) != string(input.Bytes()) {
				t.Errorf("Locate in the store: %v", err)
			}
			_, err = elsewhere.Locate(t.Context(), elsewhere.project, Target{Case: c.String()})
			if err == nil || !strings.Contains(diag.HintOf(err), "replay(CASE, run_op, op_schema=op_schema") {
				t.Errorf("Locate without the store: %v, hint %q", err, diag.HintOf(err))
			}
			batch, err := elsewhere.HandOut(t.Context(), elsewhere.project, HandOut{Op: tt.op, Schema: schema, Case: c.String()})
			if err != nil {
				t.Fatal(err)
			}
			defer batch.Close(false)
			_, again, err := batch.Case(t.Context(), 0)
			if err != nil || string(again["input"].Bytes()) != string(input.Bytes()) {
				t.Errorf("with the schema: %v", err)
			}
		})
	}
}

// A text that the schema would not have given is refused.
func TestOwnSchemaRefusesOtherCases(t *testing.T) {
	tr := newTrial(t, head)
	schema, c, input := handedOwn(t, tr, "mine")
	out := []tensor.Named{{Name: "output", Tensor: input}}
	for name, text := range map[string]string{
		"other sizes": strings.ReplaceAll(strings.ReplaceAll(c.String(), "n:11", "n:12"), "[3,11]", "[3,13]"),
		"other op":    strings.Replace(c.String(), "mine", "yours", 1),
		"no case":     "mine",
	} {
		sub := Submission{Op: "mine", Case: text, Schema: schema, Outputs: out, Expected: out}
		if res, err := tr.Submit(t.Context(), tr.project, sub); err == nil {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

package campaign

import (
	"context"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/verdict"
)

// TestDTypesOfAnOp: what runs are the dtypes that the op's configuration or the request names, and no others in their
// place.
func TestDTypesOfAnOp(t *testing.T) {
	const ints = `
[[ops]]
name = "ints"
candidate = "ops.py:double"
reference = "ops.py:double"
input_names = ["x"]
dtypes = ["int32", "uint8"]
`
	tr := newTrial(t, head+ints+op("softmax", "softmax", ""))
	for _, c := range []struct {
		op   string
		o    Options
		want string
	}{
		{"ints", Options{}, "int32,uint8"},
		{"ints", Options{Quick: true}, "int32"},
		{"ints", Options{Quick: true, DTypes: []dtype.DType{dtype.Int64}}, "int64"},
		{"softmax", Options{Quick: true}, "float32"},
	} {
		c.o.Ops = []string{c.op}
		sum, results := tr.run(KindTest, c.o)
		var got []string
		for i := range results {
			if d := results[i].DType; !slices.Contains(got, d) {
				got = append(got, d)
			}
		}
		if slices.Sort(got); strings.Join(got, ",") != c.want || sum.Passed != sum.Total {
			t.Errorf("%s %+v: dtypes %v, %d of %d passed, want %s", c.op, c.o, got, sum.Passed, sum.Total, c.want)
		}
	}
	_, err := tr.Prepare(context.Background(), Request{Kind: KindTest, Project: tr.project,
		Options: Options{Ops: []string{"softmax"}, DTypes: []dtype.DType{dtype.Int32}}})
	if diag.CodeOf(err) != gen.NoDType {
		t.Errorf("softmax in int32: %v, want code %s", err, gen.NoDType)
	}
}

// TestNaNInReference: a NaN that is wanted and not given is a failure, and its result can be stored.
func TestNaNInReference(t *testing.T) {
	tr := newTrial(t, head+op("double", "double", "reference = \"nan.py:nan\"\ninput_names = [\"x\"]"))
	tr.write("nan.py", "import numpy as np\ndef nan(inputs):\n    return np.full(inputs['x'].shape, np.nan)\n")
	sum, results := tr.run(KindTest, Options{Quick: true})
	if sum.Failed != sum.Total || sum.Total == 0 || len(results) != sum.Total {
		t.Fatalf("%d of %d cases failed, %d stored", sum.Failed, sum.Total, len(results))
	}
	for i := range results {
		if r := &results[i]; r.Verdict != verdict.Fail || !strings.Contains(r.Message, "want NaN") {
			t.Errorf("%s: %s: %s", r.Case, r.Verdict, r.Message)
		}
	}
}

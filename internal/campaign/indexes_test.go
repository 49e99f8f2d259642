package campaign

import (
	"fmt"
	"strings"
	"testing"

	"gpuemu/internal/verdict"
)

const indexesPy = `
import numpy as np

def argmax(d, shift=0):
    return lambda inputs: (inputs["input"].astype(np.float64).argmax(axis=-1) + shift).astype(d)

def topk(d, shift=0):
    def run(inputs, k):
        x = inputs["input"]
        at = np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[:, :k]
        return np.take_along_axis(x, at, axis=-1), (at + shift).astype(d)
    return run

def moe(d, shift=0):
    def run(inputs, k, renormalize):
        x = inputs["logits"].astype(np.float64)
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        p = e / e.sum(axis=-1, keepdims=True)
        at = np.argsort(-p, axis=-1, kind="stable")[:, :k]
        w = np.take_along_axis(p, at, axis=-1)
        if renormalize:
            w = w / w.sum(axis=-1, keepdims=True)
        return w.astype(inputs["logits"].dtype), (at + shift).astype(d)
    return run

for d in ("int32", "int64", "int16", "uint32", "float32"):
    for f in (argmax, topk, moe):
        globals()[f.__name__ + "_" + d] = f(d)
        globals()[f.__name__ + "_" + d + "_off"] = f(d, 1)
`

// TestIndexTypes: int32 and int64 indexes are both correct, with the catalogue's schema and with one of the user's;
// indexes of other types are errors, and incorrect ones fail in either type.
func TestIndexTypes(t *testing.T) {
	type candidate struct {
		function string
		want     verdict.Verdict
	}
	var text strings.Builder
	text.WriteString(head)
	var all []candidate
	add := func(function, schema, more string, want verdict.Verdict) {
		fmt.Fprintf(&text, "\n[[ops]]\nname = \"%s%d\"\ncandidate = \"indexes.py:%s\"\n%s\n%s",
			function, len(all), function, schema, more)
		all = append(all, candidate{fmt.Sprintf("%s%d", function, len(all)), want})
	}
	for function, schema := range map[string]string{"argmax": "argmax", "topk": "topk", "moe": "moe_routing"} {
		schema = fmt.Sprintf("schema = %q", schema)
		for d, want := range map[string]verdict.Verdict{"int32": verdict.Pass, "int64": verdict.Pass,
			"int16": verdict.Error, "uint32": verdict.Error, "float32": verdict.Error} {
			add(function+"_"+d, schema, "", want)
		}
		add(function+"_int32_off", schema, "", verdict.Fail)
		add(function+"_int64_off", schema, "", verdict.Fail)
	}
	const own = `[ops.schema]
dims = [{ name = "B", candidates = [2] }, { name = "S", candidates = [3] }, { name = "H", candidates = [17, 64] }]
inputs = [{ name = "input", dims = ["B", "S", "H"] }]
output = { name = "at", dims = ["B", "S"], dtype = "int32"%s }
`
	const catalogue = `reference = "builtin:argmax"`
	add("argmax_int32", catalogue, fmt.Sprintf(own, ""), verdict.Pass)
	add("argmax_int64", catalogue, fmt.Sprintf(own, ""), verdict.Error)
	add("argmax_int64", catalogue, fmt.Sprintf(own, `, also_dtypes = ["int64"]`), verdict.Pass)
	const users = `reference = "indexes.py:argmax_int64"`
	add("argmax_int32", users, fmt.Sprintf(own, ""), verdict.Pass)
	add("argmax_int64", users, fmt.Sprintf(own, ""), verdict.Error)
	add("argmax_int64", users, fmt.Sprintf(own, `, also_dtypes = ["int64"]`), verdict.Pass)
	tr := newTrial(t, text.String())
	tr.write("indexes.py", indexesPy)
	_, results := tr.run(KindFuzz, Options{Seed: seed(3), Iterations: 3})
	if len(results) != 3*len(all) {
		t.Fatalf("%d results of %d ops", len(results), len(all))
	}
	for _, c := range all {
		for i := range results {
			r := &results[i]
			if r.Op != c.function {
				continue
			}
			if r.Verdict != c.want || r.Verdict == verdict.Error && r.Reason != verdict.WrongDType {
				t.Errorf("%s: %s (%s) %s, want %s", c.function, r.Verdict, r.Reason, r.Message, c.want)
			}
		}
	}
}

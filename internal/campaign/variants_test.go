package campaign

import (
	"fmt"
	"strings"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

const variantsPy = `
import numpy as np

def rows(inputs, ignore_index, label_smoothing):
    x, t = inputs["logits"].astype(np.float64), inputs["target"]
    m = x.max(axis=-1, keepdims=True)
    logp = x - m - np.log(np.exp(x - m).sum(axis=-1, keepdims=True))
    kept = t != ignore_index
    loss = np.zeros(len(t))
    for r in np.flatnonzero(kept):
        loss[r] = -(1 - label_smoothing) * logp[r, t[r]] - label_smoothing * logp[r].mean()
    return loss, kept

def mean(inputs, ignore_index, label_smoothing):  # a numpy scalar, of shape []
    loss, kept = rows(inputs, ignore_index, label_smoothing)
    return np.float32(loss.sum() / kept.sum() if kept.any() else np.nan)

def total(inputs, ignore_index, label_smoothing):  # shape [1], as a kernel that stores through a pointer has it
    return np.float32([rows(inputs, ignore_index, label_smoothing)[0].sum()])

def mean_of_all(inputs, ignore_index, label_smoothing):  # ignored rows count, too
    return np.float32(rows(inputs, ignore_index, label_smoothing)[0].mean() if len(inputs["target"]) else np.nan)

def each(inputs, ignore_index, label_smoothing):
    return rows(inputs, ignore_index, label_smoothing)[0].astype(np.float32)

def int8(inputs):
    acc = inputs["a"].astype(np.int64) @ inputs["b"].astype(np.int64)
    scales = inputs["scale_a"][:, None] * inputs["scale_b"][None, :]
    return acc.astype(np.float32) * scales

def int8_half(inputs):
    with np.errstate(over="ignore"):
        return int8(inputs).astype(np.float16)

def quantize(inputs, qdtype):
    q = np.rint(inputs["input"] / inputs["scale"]) + inputs["zero_point"]
    lim = np.iinfo(qdtype)
    return np.clip(q, lim.min, lim.max).astype(qdtype)

def quantize_wraps(inputs, qdtype):
    q = np.rint(inputs["input"] / inputs["scale"]) + inputs["zero_point"]
    return np.clip(q, -1e9, 1e9).astype(np.int64).astype(qdtype)
`

// TestVariants: attributes choose shapes and types of outputs, with candidates that keep to them and others.
func TestVariants(t *testing.T) {
	type candidate struct {
		function, schema, attrs, dtypes string
		want                            verdict.Verdict // of the worst case
		reason                          verdict.Reason
	}
	list := []candidate{
		{"mean", "cross_entropy", `reduction = "mean"`, "float32", verdict.Pass, ""},
		{"total", "cross_entropy", `reduction = "sum"`, "float32", verdict.Pass, ""},
		{"each", "cross_entropy", "", "float32", verdict.Pass, ""},
		{"mean_of_all", "cross_entropy", `reduction = "mean", ignore_index = 0`, "float32", verdict.Fail, verdict.Mismatch},
		{"mean", "cross_entropy", `reduction = "sum"`, "float32", verdict.Fail, verdict.Mismatch},
		{"each", "cross_entropy", `reduction = "sum"`, "float32", verdict.Error, verdict.WrongShape},
		{"mean", "cross_entropy", "", "float32", verdict.Error, verdict.WrongShape},
		{"int8", "int8_matmul", "", "float32", verdict.Pass, ""},
		{"int8_half", "int8_matmul", "", "float16", verdict.Pass, ""},
		{"int8_half", "int8_matmul", "", "float32", verdict.Error, verdict.WrongDType},
		{"int8", "int8_matmul", "", "float16", verdict.Error, verdict.WrongDType},
		{"quantize", "quantize_static_tensor", "", "float32", verdict.Pass, ""},
		{"quantize", "quantize_static_tensor", `qdtype = "uint8"`, "float32", verdict.Pass, ""},
		{"quantize_wraps", "quantize_per_tensor", `qdtype = "uint8"`, "float32", verdict.Fail, verdict.Mismatch},
	}
	var text strings.Builder
	text.WriteString(head)
	for i, c := range list {
		fmt.Fprintf(&text, "\n[[ops]]\nname = \"%s%d\"\ncandidate = \"variants.py:%s\"\nschema = %q\ndtypes = [%q]\n",
			c.function, i, c.function, c.schema, c.dtypes)
		if c.attrs != "" {
			fmt.Fprintf(&text, "attributes = { %s }\n", c.attrs)
		}
	}
	tr := newTrial(t, text.String())
	tr.write("variants.py", variantsPy)
	_, results := tr.run(KindFuzz, Options{Seed: seed(11), Iterations: 8})
	for i, c := range list {
		worst, reason, n := verdict.Pass, verdict.Reason(""), 0
		for k := range results {
			r := &results[k]
			if r.Op != fmt.Sprintf("%s%d", c.function, i) {
				continue
			}
			n++
			if r.Verdict.Failed() && worst == verdict.Pass {
				worst, reason = r.Verdict, r.Reason
			}
			if r.Verdict == verdict.NotRun {
				t.Errorf("%s: %s (%s)", r.Case, r.Message, r.Reason)
			}
		}
		if worst != c.want || reason != c.reason || n != 8 {
			t.Errorf("%+v: %s (%s) in %d cases", c, worst, reason, n)
		}
	}
}

// TestGivenDType: a client says which type the output of a case has where no input has it.
func TestGivenDType(t *testing.T) {
	tr := newTrial(t, head)
	scale := tensor.Named{Tensor: tensor.FromFloat64s(dtype.Float32, tensor.MustShape(1), []float64{1})}
	inputs := []tensor.Named{
		{Name: "a", Tensor: tensor.FromFloat64s(dtype.Int8, tensor.MustShape(1, 2), []float64{3, 4})},
		{Name: "b", Tensor: tensor.FromFloat64s(dtype.Int8, tensor.MustShape(2, 1), []float64{5, 6})},
		{Name: "scale_a", Tensor: scale.Tensor}, {Name: "scale_b", Tensor: scale.Tensor},
	}
	for _, c := range []struct {
		asked, got dtype.DType
		want       verdict.Verdict
	}{
		{dtype.Invalid, dtype.Float16, verdict.Pass}, // that of the output
		{dtype.Float16, dtype.Float16, verdict.Pass},
		{dtype.BFloat16, dtype.BFloat16, verdict.Pass},
		{dtype.Float32, dtype.Float16, verdict.Error},
		{dtype.Float16, dtype.Float32, verdict.Error},
	} {
		res := tr.submit(Submission{Op: "int8_matmul", DType: c.asked, Seed: 1, Inputs: inputs, Outputs: []tensor.Named{
			{Name: "output", Tensor: tensor.FromFloat64s(c.got, tensor.MustShape(1, 1), []float64{39})}}})
		if res.Verdict != c.want {
			t.Errorf("asked for %s, got %s: %s %s, want %s", c.asked, c.got, res.Verdict, res.Message, c.want)
		}
	}
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(1, 1, 2), []float64{3, 4})
	_, err := tr.Submit(t.Context(), tr.project, Submission{Op: "relu", DType: dtype.Float16, Seed: 1,
		Inputs: []tensor.Named{{Name: "input", Tensor: x}}, Outputs: []tensor.Named{{Name: "output", Tensor: x}}})
	if err == nil || !strings.Contains(err.Error(), `input "input" is float32, not float16`) {
		t.Errorf("float32 inputs of a float16 case: %v", err)
	}
}

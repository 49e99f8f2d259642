package campaign

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// spreadOp is a kernel of testdata/spread with a reference beside it.
type spreadOp struct{ kernel, reference string }

// conforming and faulty are the controls and the bugs of the public corpus of 26 kernels, in numpy.
var (
	conforming = []spreadOp{{"softmax", "softmax"}, {"softmax_block", "softmax"}, {"layernorm", "layernorm"},
		{"rmsnorm", "rmsnorm"}, {"l2norm", "l2norm"}, {"matmul", "matmul"}, {"matmul_loop", "matmul"}, {"gelu", "gelu"},
		{"silu", "silu"}, {"sigmoid", "sigmoid"}, {"tanh", "tanh"}, {"elu", "elu"}, {"relu", "relu"},
		{"leaky_relu", "leaky_relu"}, {"attention", "attention"}, {"flash_attention", "attention"}}
	faulty = []spreadOp{{"softmax_tail", "softmax"}, {"softmax_padding", "softmax"}, {"rmsnorm_no_root", "rmsnorm"},
		{"l2norm_no_root", "l2norm"}, {"matmul_last", "matmul"}, {"gelu_no_half", "gelu"}, {"silu_twice", "silu"},
		{"leaky_relu_steep", "leaky_relu"}, {"attention_unscaled", "attention"}, {"flash_attention_stale", "attention"}}
)

// config is the op in gpuemu.toml, with a schema of its own and nothing said of values or tolerances.
func (o spreadOp) config(style, more string) string {
	dims := `{ name = "B", candidates = [1, 2, 8] }, { name = "S", candidates = [1, 7, 128] },
		{ name = "H", candidates = [2, 3, 256, 1025] }`
	inputs, output := `{ name = "input", dims = ["B", "S", "H"] }`, `["B", "S", "H"]`
	types := `"float32", "float16"`
	switch o.reference {
	case "matmul":
		types = `"float32"`
		dims = `{ name = "M", candidates = [1, 2, 7, 128] }, { name = "K", candidates = [1, 3, 16, 127, 256] },
			{ name = "N", candidates = [1, 2, 15, 64] }`
		inputs, output = `{ name = "a", dims = ["M", "K"] }, { name = "b", dims = ["K", "N"] }`, `["M", "N"]`
	case "attention":
		dims = `{ name = "M", candidates = [1, 2, 8] }, { name = "N", candidates = [1, 3, 16, 64, 128, 256] },
			{ name = "D", candidates = [8, 16, 64] }`
		inputs, output = `{ name = "q", dims = ["M", "D"] }, { name = "k", dims = ["N", "D"] },
			{ name = "v", dims = ["N", "D"] }`, `["M", "D"]`
	}
	oneLine := strings.NewReplacer("\n", " ", "\t", "")
	return fmt.Sprintf("\n[[ops]]\nname = \"my_%s\"\ncandidate = \"kernels.py:%[1]s\"\n"+
		"reference = \"references.py:%s%s\"\ndtypes = [%s]\n%s\n[ops.schema]\nname = \"my_%[1]s\"\n"+
		"dims = [%[6]s]\ninputs = [%[7]s]\noutputs = [{ name = \"out\", dims = %[8]s }]\n",
		o.kernel, style, o.reference, types, more, oneLine.Replace(dims), oneLine.Replace(inputs), output)
}

// spreadTrial is a project with the kernels and references of testdata/spread.
func spreadTrial(t *testing.T, config string) *trial {
	t.Helper()
	tr := newTrial(t, "[project]\nname = \"spread\"\n"+config)
	for _, name := range []string{"kernels.py", "references.py"} {
		text, err := os.ReadFile(filepath.Join("testdata", "spread", name))
		if err != nil {
			t.Fatal(err)
		}
		tr.write(name, string(text))
	}
	return tr
}

// Without a contract and with the default values no conforming kernel is accused, and every bug is found: with
// references computed in float64, and with references in the type of their inputs.
func TestSpreadAccusesBugsAlone(t *testing.T) {
	testkit.ValuesOnly(t)
	for style, cases := range map[string]int{"": 100, "eager_": 40} {
		if testing.Short() {
			cases = 10
		}
		t.Run("conforming/"+style, func(t *testing.T) {
			config := ""
			for _, o := range conforming {
				config += o.config(style, "")
			}
			sum, results := spreadTrial(t, config).run(KindFuzz, Options{Seed: seed(1), Iterations: cases})
			if sum.Total != len(conforming)*cases || sum.NotRun > 0 {
				t.Fatalf("summary %+v", sum.Counts)
			}
			for _, r := range results {
				if r.Verdict.Failed() {
					t.Errorf("%s: %s", r.Case, r.Message)
				} else if r.Outputs[0].Regime != "spread" {
					t.Fatalf("%s: regime %s", r.Case, r.Outputs[0].Regime)
				}
			}
			for _, op := range sum.Ops { // an element that is undetermined hides nothing as long as most are judged
				if !testing.Short() && op.Passed < op.Total*4/5 { // a few cases have no share
					t.Errorf("%s: %d of %d cases pass", op.Op, op.Passed, op.Total)
				}
			}
		})
		for _, o := range faulty {
			t.Run(o.kernel+"/"+style, func(t *testing.T) {
				sum, results := spreadTrial(t, o.config(style, "")).run(KindFuzz,
					Options{Seed: seed(1), Iterations: 100, FailFast: true, Parallel: 1})
				if sum.Failed == 0 || results[len(results)-1].Reason != verdict.Mismatch {
					t.Errorf("not found: %+v", sum.Counts)
				}
			})
		}
	}
}

// The fixed tolerances do accuse conforming kernels, and stay what they were for those who ask for them.
func TestFixedTolerancesAccuse(t *testing.T) {
	for _, more := range []string{`tolerance = "fixed"`, "tolerances = { float32 = 1e-5, float16 = 1e-2 }"} {
		sum, results := spreadTrial(t, spreadOp{"layernorm", "layernorm"}.config("", more)).run(KindFuzz,
			Options{Seed: seed(1), Iterations: 100, FailFast: true})
		if sum.Failed == 0 || results[0].Outputs[0].Regime != "fixed" {
			t.Errorf("%s: %+v, regime %s", more, sum.Counts, results[0].Outputs[0].Regime)
		}
	}
}

// References that numpy's working precision does not reach, that refuse float64, or that reply in float32 whatever they
// get: each conforming kernel passes, and the same kernel with 1 % too much does not.
func TestSpreadOfOtherReferences(t *testing.T) {
	const py = `
import numpy as np
np.seterr(all="ignore")

def difference(x):
    return x[:, :1] * x[:, 1:2] - x[:, 2:3]

def kernel(inputs):
    x = inputs["x"]
    y = difference(x.astype(np.float32))
    return y.astype(x.dtype)

def wrong(inputs):
    return (kernel(inputs) * np.float32(1.01)).astype(inputs["x"].dtype)

def lists(inputs):
    return np.array([[a * b - c] for a, b, c in inputs["x"].tolist()]).reshape(-1, 1)

def refuses(inputs):
    if inputs["x"].dtype == np.float64:
        raise TypeError("no float64 here")
    return difference(inputs["x"])

def narrow(inputs):
    return difference(inputs["x"].astype(np.float32))
`
	for _, reference := range []string{"lists", "refuses", "narrow"} {
		for _, kernel := range []string{"kernel", "wrong"} {
			t.Run(reference+"/"+kernel, func(t *testing.T) {
				tr := newTrial(t, fmt.Sprintf("[project]\nname = \"other\"\n[[ops]]\nname = \"difference\"\n"+
					"candidate = \"other.py:%s\"\nreference = \"other.py:%s\"\ndtypes = [\"float32\"]\n[ops.schema]\n"+
					"name = \"difference\"\ndims = [{ name = \"R\", candidates = [4, 64] }, { name = \"C\", candidates = [3] }, "+
					"{ name = \"E\", candidates = [1] }]\ninputs = [{ name = \"x\", dims = [\"R\", \"C\"] }]\n"+
					"outputs = [{ name = \"out\", dims = [\"R\", \"E\"] }]\n", kernel, reference))
				tr.write("other.py", py)
				sum, results := tr.run(KindFuzz, Options{Seed: seed(4), Iterations: 60})
				i := slices.IndexFunc(results, func(r verdict.Result) bool { return r.Verdict.Failed() })
				if kernel == "kernel" && i >= 0 {
					t.Errorf("accused: %s: %s", results[i].Case, results[i].Message)
				}
				if kernel == "wrong" && sum.Failed < 10 || sum.NotRun > 0 {
					t.Errorf("summary %+v", sum.Counts)
				}
			})
		}
	}
}

// The order of the rules: what is asked for, what is configured, what is known, then the spread.
func TestSpreadInTheOrderOfRules(t *testing.T) {
	tol := map[dtype.DType]compare.Tolerance{dtype.Float32: {Abs: 1, Rel: 1}}
	for _, c := range []struct {
		name     string
		rules    rules
		hasBound bool
		want     compare.Regime
	}{
		{"nothing is known", rules{spread: true}, false, compare.Spread},
		{"no reference to evaluate", rules{}, false, compare.Fixed},
		{"tolerances", rules{spread: true, tolerances: tol}, false, compare.Fixed},
		{"a bound", rules{spread: true}, true, compare.Bound},
		{"a calibration", rules{spread: true, calibrated: tol}, false, compare.Calibrated},
		{"asked for", rules{spread: true, regime: compare.Spread, calibrated: tol}, true, compare.Spread},
	} {
		opt, err := c.rules.options(dtype.Float32, dtype.Float32, c.hasBound)
		if err != nil || opt.Regime != c.want {
			t.Errorf("%s: regime %s, %v; want %s", c.name, opt.Regime, err, c.want)
		}
	}
	none := rules{regime: compare.Spread}
	if _, err := none.options(dtype.Float32, dtype.Float32, true); diag.CodeOf(err) != NoSpread {
		t.Errorf("without a reference: %v, want %s", err, NoSpread)
	}
}

// Outputs that a client computed are judged in the same way, by the reference that the engine runs; expected values of
// the client's own cannot be evaluated again.
func TestSpreadOfSubmissions(t *testing.T) {
	tr := newTrial(t, "[project]\nname = \"client\"\n[[ops]]\nname = \"centered\"\nreference = \"own.py:centered\"\n"+
		"dtypes = [\"float32\"]\nvalues = \"offset\"\nlayouts = [\"contiguous\"]\ninput_names = [\"x\"]\n")
	tr.write("own.py", "import numpy as np\ndef centered(inputs):\n    x = inputs['x'].astype(np.float64)\n"+
		"    return x - x.mean(axis=-1, keepdims=True)\n")
	batch, err := tr.HandOut(t.Context(), tr.project, HandOut{Op: "centered", Options: Options{Seed: seed(1)}})
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close(false)
	widened := 0
	for i := range 6 {
		c, inputs, err := batch.Case(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		x := inputs["x"]
		kernel, wrong := centered(x, 0), centered(x, 0.01)
		res := tr.submit(Submission{Op: "centered", Case: c.String(), Outputs: kernel})
		if res.Verdict.Failed() || res.Outputs[0].Regime != "spread" {
			t.Errorf("%s: %s %s", c, res.Verdict, res.Message)
		}
		if res.Outputs[0].MaxAbs > res.Outputs[0].ATol+res.Outputs[0].RTol*res.Outputs[0].MaxWant {
			widened++
		}
		if res := tr.submit(Submission{Op: "centered", Case: c.String(), Outputs: wrong}); res.Verdict != verdict.Fail {
			t.Errorf("%s, 1 %% off: %s", c, res.Verdict)
		}
		res = tr.submit(Submission{Op: "centered", Case: c.String(), Outputs: kernel, Expected: kernel})
		if res.Verdict != verdict.Pass || res.Outputs[0].Regime != "fixed" {
			t.Errorf("%s, expected by the client: %s, regime %s", c, res.Verdict, res.Outputs[0].Regime)
		}
	}
	if widened == 0 {
		t.Error("no case needed the spread")
	}
}

// centered subtracts the mean of each row, summed term by term in float32, and adds a part of |x|.
func centered(x *tensor.Tensor, part float32) []tensor.Named {
	values := x.Float64s()
	n := x.Shape[len(x.Shape)-1]
	for row := 0; row < len(values); row += n {
		sum := float32(0)
		for _, v := range values[row : row+n] {
			sum += float32(v)
		}
		mean := sum / float32(n)
		for i := row; i < row+n; i++ {
			v := float32(values[i])
			values[i] = float64(float32(v-mean) + float32(part*max(v, -v)))
		}
	}
	return []tensor.Named{{Name: "output", Tensor: tensor.FromFloat64s(x.DType, x.Shape, values)}}
}

// A report says by what it was judged, once per op.
func TestSpreadIsReported(t *testing.T) {
	sum, _ := spreadTrial(t, spreadOp{"relu", "relu"}.config("", "")).run(KindFuzz, Options{Seed: seed(1), Iterations: 5})
	want := "5 of 5 cases are judged by the reference's own spread: no bound of the op is known"
	if !slices.ContainsFunc(sum.Health, func(h verdict.HealthCheck) bool {
		return h.Check == HealthSpread && h.Op == "my_relu" && h.Message == want
	}) {
		t.Errorf("health %+v", sum.Health)
	}
}

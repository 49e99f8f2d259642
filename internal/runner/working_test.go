//go:build unix

package runner

import (
	"math"
	"slices"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// workingCall is a call in the working precision.
func workingCall(x *tensor.Tensor, widest dtype.DType, seed uint64) *Call {
	call := callOf(x)
	call.Reference, call.Outputs = true, nil
	call.Working = &Working{Widest: widest, Seed: seed}
	return call
}

// A reference that casts to float64 computes in the working precision all the same, however it says so.
func TestWorkingPrecisionKeepsWidth(t *testing.T) {
	for _, body := range []string{
		"return x.astype(np.float64) + 1",
		"return x.astype('float64').sum(axis=-1, keepdims=True) - x",
		"return np.asarray(x, dtype=np.float64) * 3",
		"return np.array(x, np.float64) * 3",
		"return np.sqrt(np.float64(2)) * x",
		"y = np.empty_like(x); y[...] = x; y += np.ones(3); return y",
		"return np.where(x > 0, x.astype(np.float64), 0.0) / 3",
		"return np.concatenate([x.astype(np.float64), x]) - 1e-3",
		"return (x.astype(np.float64) @ np.ones((3, 3))).mean(axis=0)",
		"return np.einsum('i,j->ij', x.astype(np.float64), x)",
		"return x.astype(np.float64).dot(np.eye(3))",
		"return np.dot(x.astype(np.float64), np.eye(3))",
		"return np.linalg.norm(x.astype(np.float64)) * x",
		"return np.cumsum(x.astype(np.float64))",
		"return np.exp(x.astype(np.float64)).var()",
	} {
		t.Run(body, func(t *testing.T) {
			r := function(t, "import numpy as np\ndef f(inputs):\n    x = inputs['x']\n    "+body+"\n", Spec{})
			x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(3), []float64{0.1, 1.7, -2.3})
			exact := mustRun(t, r, callOf(tensor.FromFloat64s(dtype.Float64, x.Shape, x.Float64s()))).Outputs[0].Tensor
			differ := map[float64]bool{}
			for seed := range uint64(4) {
				got := mustRun(t, r, workingCall(x, dtype.Float32, seed)).Outputs[0].Tensor
				if got.DType != dtype.Float32 {
					t.Fatalf("the reply is %s, want float32", got.DType)
				}
				for i, v := range got.Float64s() {
					if want := exact.Float64s()[i]; math.Abs(v-want) > 1e-5*(1+math.Abs(want)) {
						t.Errorf("seed %d: element %d is %v, want about %v", seed, i, v, want)
					}
				}
				differ[got.Float64s()[0]] = true
			}
			if len(differ) < 2 {
				t.Error("four seeds gave the same value: nothing was rounded at random")
			}
			again := mustRun(t, r, callOf(tensor.FromFloat64s(dtype.Float64, x.Shape, x.Float64s()))).Outputs[0].Tensor
			if !slices.Equal(again.Bytes(), exact.Bytes()) {
				t.Error("a call after those in the working precision gives something else")
			}
		})
	}
}

// What does not round is exact, and the same seed gives the same values.
func TestWorkingPrecisionIsExactWhereNothingRounds(t *testing.T) {
	const py = "import numpy as np\ndef f(inputs):\n    x = inputs['x']\n    return "
	r := function(t, py+"np.maximum(-x.astype(np.float64), 0.0)\n", Spec{})
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(3), []float64{-0.1, 1.7, -3e38})
	wantFloats(t, mustRun(t, r, workingCall(x, dtype.Float32, 1)), -x.Float64s()[0], 0, -x.Float64s()[2])
	r = function(t, py+"np.exp(x)\n", Spec{})
	first := mustRun(t, r, workingCall(x, dtype.Float32, 5)).Outputs[0].Tensor
	if again := mustRun(t, r, workingCall(x, dtype.Float32, 5)).Outputs[0].Tensor; !slices.Equal(first.Data, again.Data) {
		t.Errorf("the same seed gave %v and %v", first.Float64s(), again.Float64s())
	}
}

// Overflow of sums and products stays visible, whatever comes after; that of exp and an infinity among the inputs are
// no overflow.
func TestWorkingPrecisionOverflow(t *testing.T) {
	for _, c := range []struct {
		body   string
		d      dtype.DType
		values []float64
		nan    bool
	}{
		{"return 1.0 / (x * x)", dtype.Float32, []float64{1e30, 1e30}, true},
		{"return 1.0 / (x * x)", dtype.Float32, []float64{1e10, 1e10}, false},
		{"return 1.0 / (x * x)", dtype.Float16, []float64{300, 300}, true},
		{"return 1.0 / (x * x)", dtype.Float16, []float64{200, 200}, false},
		{"return 1.0 / (x * x)", dtype.BFloat16, []float64{1e30, 1e30}, true},
		{"return np.minimum(x.sum(axis=-1, keepdims=True), 1) + 0 * x", dtype.Float16, []float64{4e4, 4e4}, true},
		{"return np.exp(-x.sum(axis=-1, keepdims=True)) + 0 * x", dtype.Float32, []float64{3e38, -3e38}, true},
		{"return np.exp(-(x @ x)) + 0 * x", dtype.Float32, []float64{3e25, 3e25}, true},
		{"return 1.0 / (1.0 + np.exp(-x))", dtype.Float32, []float64{-1e4, -1e4}, false},
		{"return 1.0 / (x * x)", dtype.Float32, []float64{math.Inf(1), math.Inf(-1)}, false},
		{"return np.exp(-x.sum(axis=-1, keepdims=True)) + x", dtype.Float32, []float64{math.Inf(1), 1}, false},
	} {
		const py = "import numpy as np\ndef f(inputs):\n    x = inputs['x'].astype(np.float64)\n    "
		r := function(t, py+c.body+"\n", Spec{})
		x := tensor.FromFloat64s(c.d, tensor.MustShape(2), c.values)
		for i, v := range mustRun(t, r, workingCall(x, c.d, 3)).Outputs[0].Tensor.Float64s() {
			if math.IsNaN(v) != c.nan {
				t.Errorf("%s of %v in %s: element %d is %v, NaN wanted: %v", c.body, c.values, c.d, i, v, c.nan)
			}
		}
	}
}

// What cannot be evaluated in the working precision says so, and nothing is wrong with it.
func TestWorkingPrecisionRefused(t *testing.T) {
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(2), []float64{1, 2})
	leaves := function(t, "import numpy as np\ndef f(inputs):\n    return [v * 2 for v in inputs['x'].tolist()]\n", Spec{})
	fails(t, leaves, workingCall(x, dtype.Float32, 1), verdict.Unsupported, "does not compute with numpy's operations")
	wantFloats(t, mustRun(t, leaves, callOf(x)), 2, 4)
	program := newRunner(t, Spec{Target: "worker:true"})
	fails(t, program, workingCall(x, dtype.Float32, 1), verdict.Unsupported, "working precision")
	raises := function(t, "def f(inputs):\n    raise ValueError('no')\n", Spec{})
	fails(t, raises, workingCall(x, dtype.Float32, 1), verdict.Raised, "ValueError: no")
}

// Scripts are evaluated in the working precision by the fork server, and by nothing else.
func TestWorkingPrecisionOfScripts(t *testing.T) {
	const source = documented + "json.dump(encode_tensor(x.astype(np.float64) / 3), sys.stdout)\n"
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(2), []float64{1, 2})
	both(t, source, Spec{}, func(t *testing.T, r Runner) {
		if !r.(*scriptRunner).fork.Load() {
			fails(t, r, workingCall(x, dtype.Float32, 1), verdict.Unsupported, "working precision")
			return
		}
		differ := map[float64]bool{}
		for seed := range uint64(8) {
			got := mustRun(t, r, workingCall(x, dtype.Float32, seed)).Outputs[0].Tensor
			if differ[got.Float64s()[0]] = true; got.DType != dtype.Float32 {
				t.Fatalf("the reply is %s, want float32", got.DType)
			}
		}
		if len(differ) < 2 {
			t.Errorf("eight seeds gave %v", differ)
		}
		wantFloats(t, mustRun(t, r, callOf(x)), 1./3, 2./3)
	})
	ignores := script(t, documented+"json.dump(encode_tensor(np.ones(2)), sys.stdout)\n", Spec{})
	if reply, err := ignores.Run(t.Context(), workingCall(x, dtype.Float32, 1)); err == nil {
		t.Errorf("a script that does not compute with its inputs replied %v in the working precision", reply)
	}
}

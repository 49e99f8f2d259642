//go:build unix

package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

func TestWorkerCalls(t *testing.T) {
	r := function(t, `
import numpy as np
def f(inputs, scale=1.0, *, flag=False):
    print("called with", scale, type(scale).__name__, flag)
    return inputs["x"] * np.float32(scale)
`, Spec{})
	call := small(t)
	call.Attrs = opspec.Attrs{"scale": 2.0, "flag": true, "unknown": int64(3)}
	reply := mustRun(t, r, call)
	wantFloats(t, reply, 2, 4, 6)
	if got, want := reply.Stderr, "called with 2.0 float True\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if reply.Time <= 0 || reply.Time > 20*time.Second {
		t.Errorf("Time = %v", reply.Time)
	}
	if reply.Modified == nil || len(reply.Modified) > 0 {
		t.Errorf("Modified = %#v, want none", reply.Modified)
	}
	wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3) // what was printed before is not in the next reply
}

func TestWorkerReturns(t *testing.T) {
	for _, tt := range []struct{ name, body, outputs, want string }{
		{"array", "return x", "", "output"},
		{"named otherwise", "return {'z': x}", "y", "output"},
		{"dict", "return {'b': x, 'a': x}", "a b", "b a"},
		{"tuple", "return x, x + 1", "a b", "a b"},
		{"list", "return [x, x]", "a b", "a b"},
		{"tuple without schema", "return x, x", "", "output0 output1"},
		{"tuple of one", "return x,", "", "output"},
		{"scalar", "return np.float32(1)", "y", "output"},
		{"one of two", "return {'a': x}", "a b", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := function(t, "import numpy as np\ndef f(inputs):\n    x = inputs['x']\n    "+tt.body+"\n", Spec{})
			call := small(t)
			call.Outputs = nil
			for _, name := range strings.Fields(tt.outputs) {
				call.Outputs = append(call.Outputs, Output{Name: name, DType: dtype.Float32})
			}
			var names []string
			for _, o := range mustRun(t, r, call).Outputs {
				names = append(names, o.Name)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("outputs are %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWorkerAttributes(t *testing.T) {
	r := function(t, `
import numpy as np
def f(inputs, **kw):
    print(sorted((k, repr(v)) for k, v in kw.items()))
    return inputs["x"]
`, Spec{})
	call := small(t)
	call.Attrs = opspec.Attrs{"i": int64(-3), "f": 1.0, "inf": math.Inf(1), "nan": math.NaN(), "minf": math.Inf(-1),
		"tiny": 5e-324, "b": false, "s": "ä\"\\\n<", "list": []any{int64(1), 2.0, "x"}}
	want := `[('b', 'False'), ('f', '1.0'), ('i', '-3'), ('inf', 'inf'), ('list', "[1, 2.0, 'x']"), ('minf', '-inf'), ` +
		`('nan', 'nan'), ('s', '\'ä"\\\\\\n<\''), ('tiny', '5e-324')]` + "\n"
	if got := mustRun(t, r, call).Stderr; got != want {
		t.Errorf("attributes are\n%swant\n%s", got, want)
	}
}

// Attributes for other readers than the worker are JSON by the book, with the same types.
func TestAttrsJSON(t *testing.T) {
	got := string(AttrsJSON(opspec.Attrs{"i": int64(-3), "f": 1.0, "inf": math.Inf(1), "nan": math.NaN(), "b": false,
		"list": []any{int64(1), math.Inf(-1), map[string]any{"x": 2.0}}}))
	const want = `{"b":false,"f":1.0,"i":-3,"inf":1e999,"list":[1,-1e999,{"x":2.0}],"nan":null}`
	if got != want || !json.Valid([]byte(got)) {
		t.Errorf("AttrsJSON = %s, want %s", got, want)
	}
}

// TestWorkerDTypes: every bit pattern of every type survives, in and out, NaNs included.
func TestWorkerDTypes(t *testing.T) {
	for _, raw := range []bool{false, true} {
		r := function(t, `
def f(inputs):
    x = inputs["x"]
    print(x.dtype)
    return x.copy()
`, Spec{Raw: raw})
		for _, d := range dtype.All() {
			x := tensorOf(t, d, 3, 257)
			reply := mustRun(t, r, callOf(x))
			y := reply.Outputs[0].Tensor
			if y.DType != d || !y.Shape.Equal(x.Shape) || !bytes.Equal(y.Data, x.Data) {
				t.Errorf("raw %v: %s %s came back as %s %s, bytes equal: %v",
					raw, d, x.Shape, y.DType, y.Shape, bytes.Equal(y.Data, x.Data))
			}
			if got, want := strings.TrimSpace(reply.Stderr), sentDType(d, raw).String(); got != want {
				t.Errorf("raw %v: %s arrives as %s, want %s", raw, d, got, want)
			}
		}
	}
}

// TestWorkerLayouts: strides and offsets arrive as they are, and the values with them.
func TestWorkerLayouts(t *testing.T) {
	r := function(t, `
import numpy as np
def f(inputs):
    x = inputs["x"]
    print([s // x.itemsize for s in x.strides], x.shape)
    return x
`, Spec{})
	shape := tensor.MustShape(2, 3, 4, 5)
	var views []*tensor.Tensor
	for _, l := range tensor.Layouts() {
		x, err := tensor.Allocate(dtype.Float32, shape, l, tensor.LayoutParams{})
		if err != nil {
			t.Fatal(err)
		}
		vals := make([]float64, shape.Elems())
		for i := range vals {
			vals[i] = float64(i)
		}
		x.SetFloat64s(vals)
		views = append(views, x)
	}
	reversed, err := tensorOf(t, dtype.Int16, 4, 6).Slice(0, 3, -1, -2)
	if err != nil {
		t.Fatal(err)
	}
	backwards, err := tensorOf(t, dtype.BFloat16, 7).Slice(0, 6, -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	expanded, err := tensorOf(t, dtype.Float64, 1, 3).Expand(tensor.MustShape(4, 3))
	if err != nil {
		t.Fatal(err)
	}
	empty, err := tensorOf(t, dtype.Float32, 4, 3).Slice(0, 4, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	views = append(views, reversed, backwards, expanded, empty, tensorOf(t, dtype.Float32),
		tensorOf(t, dtype.Float32, 0, 3), tensorOf(t, dtype.Float16, 3, 0), tensorOf(t, dtype.Uint8, 1))
	for _, x := range views {
		reply := mustRun(t, r, callOf(x))
		y := reply.Outputs[0].Tensor
		if !y.Shape.Equal(x.Shape) || !bytes.Equal(y.Bytes(), x.Bytes()) {
			t.Errorf("strides %v of shape %s: values differ, got shape %s", x.Strides, x.Shape, y.Shape)
		}
		text := strings.NewReplacer(", ", ",", ",)", "]", "(", "[", ")", "]").Replace(strings.TrimSpace(reply.Stderr))
		if want := tensor.Shape(x.Strides).String() + " " + x.Shape.String(); x.Elems() > 0 && text != want {
			t.Errorf("the function saw %q, want %q", text, want)
		}
	}
}

func TestWorkerSeesModification(t *testing.T) {
	r := function(t, `
def f(inputs):
    inputs["b"][0] = 77
    inputs["x"] = None
    return inputs["a"].base.view("f4")[:0] + 1
`, Spec{})
	call := small(t)
	call.Inputs = []tensor.Named{{Name: "a", Tensor: tensorOf(t, dtype.Float32, 3)},
		{Name: "b", Tensor: tensorOf(t, dtype.Float32, 1<<20)}, {Name: "c", Tensor: tensorOf(t, dtype.Int8, 5)}}
	before := bytes.Clone(call.Inputs[1].Tensor.Data)
	for range 2 {
		reply := mustRun(t, r, call)
		if got := strings.Join(reply.Modified, " "); got != "b" {
			t.Errorf("Modified = %q, want b", got)
		}
	}
	if !bytes.Equal(before, call.Inputs[1].Tensor.Data) {
		t.Error("the caller's tensor was modified")
	}
}

// TestWorkerKeepsNothing: an array that the function keeps is not changed by the next call.
func TestWorkerKeepsNothing(t *testing.T) {
	r := function(t, `
kept = []
def f(inputs):
    kept.append(inputs["x"])
    return kept[0]
`, Spec{})
	wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3)
	other := callOf(tensor.FromFloat64s(dtype.Float32, tensor.MustShape(3), []float64{7, 8, 9}))
	wantFloats(t, mustRun(t, r, other), 1, 2, 3)
}

// TestRelease: memory that was given back is used again, and what was not given back stays as it is. A module that
// the candidate imports is read anew by the next process, also where it was edited within a second and has the same
// size: cached bytecode would be that of before.
func TestWorkerReadsModulesAnew(t *testing.T) {
	dir := t.TempDir()
	stamp := time.Unix(1_700_000_000, 0)
	for _, want := range []float64{2, 3} {
		file(t, dir, "helper.py", fmt.Sprintf("FACTOR = %v\n", want), 0o600)
		if err := os.Chtimes(filepath.Join(dir, "helper.py"), stamp, stamp); err != nil {
			t.Fatal(err)
		}
		r := function(t, "import numpy as np\nfrom helper import FACTOR\n"+
			"def f(inputs):\n    return inputs['x'] * np.float32(FACTOR)\n", Spec{Dir: dir})
		wantFloats(t, mustRun(t, r, small(t)), want, 2*want, 3*want)
	}
}

func TestRelease(t *testing.T) {
	r := function(t, `
def f(inputs, n=1, add=0.0):
    return inputs["x"][:n] + inputs["x"].dtype.type(add)
`, Spec{})
	run := func(n int, add float64) *Reply {
		call := small(t)
		call.Attrs, call.Outputs = opspec.Attrs{"n": int64(n), "add": add}, nil
		return mustRun(t, r, call)
	}
	kept := run(3, 0)
	for n := range 12 {
		reply := run(1+n%3, float64(n)) // other sizes in the same memory
		wantFloats(t, reply, []float64{1 + float64(n), 2 + float64(n), 3 + float64(n)}[:1+n%3]...)
		reply.Release()
		reply.Release()
		if reply.Outputs != nil {
			t.Fatal("a released reply has outputs")
		}
	}
	wantFloats(t, kept, 1, 2, 3)
}

func TestWorkerFailures(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		reason       verdict.Reason
		parts        []string
		alive        bool // the worker serves the next call
	}{
		{"raises", "def f(inputs):\n    print('before')\n    raise ValueError('no')", verdict.Raised,
			[]string{"candidate.py:f raised ValueError: no", "before\nTraceback", "line 3, in f"}, true},
		{"exit", "import sys\ndef f(inputs): sys.exit(3)", verdict.Raised, []string{"called sys.exit(3)"}, true},
		{"hard exit", "import os\ndef f(inputs):\n    print('bye')\n    os._exit(4)", verdict.Raised,
			[]string{"exited with status 4", "bye"}, false},
		{"hard exit 0", "import os\ndef f(inputs): os._exit(0)", verdict.Raised,
			[]string{"exited with status 0 instead of replying"}, false},
		{"segfault", "import ctypes\ndef f(inputs): ctypes.string_at(0)", verdict.Crashed,
			[]string{"SIGSEGV (segmentation fault)", "candidate.py\", line 2 in f"}, false},
		{"abort", "import os\ndef f(inputs): os.abort()", verdict.Crashed, []string{"SIGABRT"}, false},
		{"killed", "import os\ndef f(inputs): os.kill(os.getpid(), 9)", verdict.Killed,
			[]string{"candidate.py:f was ended by SIGKILL (killed), which gpuemu did not send",
				"look for code that ends its own process"}, false},
		{"terminated", "import os, time\ndef f(inputs):\n    os.kill(os.getpid(), 15)\n    time.sleep(9)", verdict.Killed,
			[]string{"SIGTERM"}, false},
		{"none", "def f(inputs): pass", verdict.BadReply, []string{"returned None as output"}, true},
		{"text", "def f(inputs): return 'x'", verdict.BadReply, []string{"returned output of type str (no number)"}, true},
		{"complex", "def f(inputs): return inputs['x'] * 1j", verdict.WrongDType, []string{"complex64"}, true},
		{"ragged", "def f(inputs): return [[1], [1, 2]]", verdict.BadReply, []string{"which is no array"}, true},
		{"two", "def f(inputs): return 1, 2", verdict.WrongOutputs, []string{"a tuple of 2, want 1 outputs"}, true},
		{"no module", "def f(inputs):\n    import nowhere.at_all", verdict.MissingPackage,
			[]string{"needs the package nowhere", "with the key python"}, true},
		{"no module at import", "import nowhere\ndef f(inputs): pass", verdict.MissingPackage,
			[]string{"importing candidate.py needs the package nowhere"}, true},
		{"raises at import", "1/0", verdict.Raised, []string{"importing candidate.py raised ZeroDivisionError"}, true},
		{"syntax", "def f(:", verdict.Raised, []string{"raised SyntaxError: invalid syntax (candidate.py, line 1)"}, true},
		{"advice", "def f(inputs): raise RuntimeError('device-side assert triggered\\nCompile with `X` to see more.')",
			verdict.Raised, []string{"candidate.py:f raised RuntimeError: device-side assert triggered\n"}, true},
		{"announced", "def f(inputs): raise ValueError('at 1:2:\\n x = y\\n     ^\\nNameError: y')", verdict.Raised,
			[]string{"candidate.py:f raised ValueError: at 1:2: NameError: y\n"}, true},
		{"no framework", "import sys\nsys.modules['torch'] = None\nimport torch\ndef f(inputs): pass", verdict.MissingPackage,
			[]string{"needs the package torch", "-m pip install torch, or choose another interpreter with the key"}, true},
		{"no function", "def g(inputs): pass", verdict.NotStarted, []string{"has no function f", "it has g"}, true},
		{"exit at import", "import os\nos._exit(3)", verdict.Raised,
			[]string{"importing candidate.py:f exited with status 3"}, false},
		{"needs more", "def f(inputs, axis): pass", verdict.Raised, []string{"missing 1 required positional argument"}, true},
		{"closes the replies", "import os, time\ndef f(inputs):\n    os.close(4)\n    time.sleep(20)", verdict.BadReply,
			[]string{"closed file 4 or 3 instead of replying"}, false},
		{"garbage", "import os\ndef f(inputs): os.write(4, b'\\x02\\x00\\x00\\x00no')", verdict.BadReply,
			[]string{"header is not JSON", "worker-v1.md"}, false},
		{"huge header", "import os\ndef f(inputs): os.write(4, b'\\xff' * 8)", verdict.BadReply,
			[]string{"over the limit"}, false},
		{"other id", "import os\ndef f(inputs): os.write(4, b'\\x16\\x00\\x00\\x00{\"ok\": true, \"id\": 99}')",
			verdict.BadReply, []string{"reply has id 99, want 2"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := function(t, tt.source, Spec{})
			for range 2 {
				fails(t, r, small(t), tt.reason, tt.parts...)
				if idle := len(r.(*workerRunner).pool.idle); (idle == 1) != tt.alive {
					t.Errorf("%d workers are idle, want one: %v", idle, tt.alive)
				}
			}
		})
	}
}

func TestWorkerRestarts(t *testing.T) {
	r := function(t, `
import os
def f(inputs):
    if inputs["x"][0] == 1:
        os.abort()
    return inputs["x"]
`, Spec{})
	good := callOf(tensor.FromFloat64s(dtype.Float32, tensor.MustShape(1), []float64{5}))
	for range 3 {
		fails(t, r, small(t), verdict.Crashed)
		wantFloats(t, mustRun(t, r, good), 5)
	}
}

// TestWorkerGivesUpStarting: a file that hangs when imported costs three time-outs, not one per case.
func TestWorkerGivesUpStarting(t *testing.T) {
	r := function(t, "import time\ntime.sleep(60)", Spec{Limits: Limits{Timeout: 200 * time.Millisecond}})
	r.(*workerRunner).loadTimeout = 100 * time.Millisecond
	for range maxLoadFailures {
		fails(t, r, small(t), verdict.TimedOut, "importing candidate.py:f did not reply within 200ms")
	}
	start := time.Now()
	for range 100 {
		fails(t, r, small(t), verdict.TimedOut)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("100 calls took %v", took)
	}
}

func TestWorkerLimits(t *testing.T) {
	t.Run("hang", func(t *testing.T) {
		t.Parallel()
		r := function(t, "import time\ndef f(inputs):\n    print('asleep')\n    time.sleep(60)",
			Spec{Limits: Limits{Timeout: 300 * time.Millisecond}})
		within(t, 60*time.Second, func() {
			fails(t, r, small(t), verdict.TimedOut, "candidate.py:f did not reply within 300ms", "asleep", "raise timeout")
		})
	})
	t.Run("output", func(t *testing.T) {
		t.Parallel()
		r := function(t, "import numpy as np\ndef f(inputs): return np.zeros(1 << 20, np.float32)",
			Spec{Limits: Limits{Output: 1 << 20}})
		fails(t, r, small(t), verdict.OutputLimit, "the limit is 1048576")
		fails(t, r, small(t), verdict.OutputLimit)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		source := "import numpy as np\ndef f(inputs): return np.ones(1 << 40, np.uint8)"
		env := []string{"OPENBLAS_NUM_THREADS=1"}
		fails(t, function(t, source, Spec{Env: env, Limits: Limits{Memory: 2 << 30},
			cgroups: &cgroups{}}), small(t), verdict.MemoryLimit,
			"ran out of memory", "the limit is 2GiB")
		fails(t, function(t, source, Spec{Env: env}), small(t), verdict.Raised, "ran out of memory")
	})
	t.Run("prints", func(t *testing.T) {
		t.Parallel()
		r := function(t, `
import sys
def f(inputs):
    for i in range(200):
        sys.stdout.write("out" * 100000)
        sys.stderr.write("err" * 100000)
    print("the end")
    return inputs["x"]
`, Spec{Limits: Limits{Stderr: 1000}})
		reply := mustRun(t, r, small(t))
		if len(reply.Stderr) > 1100 || !strings.HasSuffix(reply.Stderr, "the end\n") ||
			!strings.Contains(reply.Stderr, "bytes before this are not kept") {
			t.Errorf("printed %d bytes: %.80q", len(reply.Stderr), reply.Stderr)
		}
	})
}

func TestWorkerWithoutPackages(t *testing.T) {
	bare := bareVenv(t)
	r := function(t, "def f(inputs): return inputs['x']", Spec{Python: bare})
	fails(t, r, small(t), verdict.MissingPackage, "has no numpy", bare+" -m pip install numpy")
	// A broken file is an error all the same.
	fails(t, function(t, "def (", Spec{Python: bare}), small(t), verdict.Raised,
		"importing candidate.py raised SyntaxError: invalid syntax (candidate.py, line 1)")

	// A package of that name which cannot be imported stands for one that is not installed.
	hidden := t.TempDir()
	file(t, hidden, "ml_dtypes.py", "raise ImportError('not here')", 0o600)
	source := "def f(inputs): return inputs['x']"
	r = function(t, source, Spec{Env: []string{"PYTHONPATH=" + hidden}})
	fails(t, r, callOf(tensorOf(t, dtype.BFloat16, 3)), verdict.MissingPackage, "bfloat16 arrays need ml_dtypes",
		"pip install ml_dtypes for this interpreter, or set raw = true")
	wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3)
	r = function(t, source, Spec{Env: []string{"PYTHONPATH=" + hidden}, Raw: true})
	if d := mustRun(t, r, callOf(tensorOf(t, dtype.BFloat16, 3))).Outputs[0].Tensor.DType; d != dtype.BFloat16 {
		t.Errorf("a raw output is %s, want bfloat16", d)
	}
}

// TestWorkerEnvironment: where user code runs, and what it can and cannot see.
func TestWorkerEnvironment(t *testing.T) {
	dir := t.TempDir()
	file(t, dir, "json.py", "raise SystemExit('the json of the project was imported')", 0o600)
	file(t, dir, "neighbour.py", "value = 42", 0o600)
	r := function(t, `
import os, sys, neighbour
def f(inputs):
    print(os.getcwd() == os.path.realpath(os.path.dirname(__file__)), neighbour.value, os.environ["MARK"],
          sys.path[0] == os.path.dirname(__file__), sys.stdin.read() == "", any("worker-" in p for p in sys.path))
    os.write(1, b"direct\n")
    return inputs["x"]
`, Spec{Dir: dir, Env: []string{"MARK=set"}})
	if got, want := mustRun(t, r, small(t)).Stderr, "True 42 set True True False\ndirect\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestWorkerForks(t *testing.T) {
	r := function(t, `
import os
def f(inputs):
    pid = os.fork()      # the child returns, too
    if pid:
        os.waitpid(pid, 0)
    return inputs["x"] + (pid == 0)
`, Spec{})
	for range 3 {
		wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3)
	}
}

//go:build unix

package runner

import (
	"bytes"
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

// documented is the script of the documentation: what people have.
const documented = `
import json, base64, sys
import numpy as np

def decode_tensor(encoded):
    data = base64.b64decode(encoded["data"])
    return np.frombuffer(data, dtype=np.dtype(encoded["dtype"])).reshape(encoded["shape"])

def encode_tensor(arr):
    return {
        "data": base64.b64encode(arr.tobytes()).decode("ascii"),
        "dtype": str(arr.dtype),
        "shape": list(arr.shape),
    }

request = json.loads(sys.stdin.read())
x = decode_tensor(request["inputs"]["x"])
`

func TestScripts(t *testing.T) {
	source := documented + `
print(request["op_name"], request["op"], request["kwargs"], request["seed"], request["dtype"], request["case"],
      request["inputs"]["x"]["strides"], sys.argv, __name__, sys.path[0] == sys.argv[0].rpartition("/")[0],
      file=sys.stderr)
json.dump({"outputs": {"result": encode_tensor(x * 2)}}, sys.stdout)
`
	both(t, source, Spec{}, func(t *testing.T, r Runner) {
		path := r.(*scriptRunner).script
		x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(2, 3), []float64{1, 2, 3, 4, 5, 6})
		transposed, err := x.Transpose()
		if err != nil {
			t.Fatal(err)
		}
		call := callOf(transposed)
		call.Attrs = opspec.Attrs{"eps": 1.0, "axis": int64(-1)}
		for range 3 {
			reply := mustRun(t, r, call)
			wantFloats(t, reply, 2, 8, 4, 10, 6, 12)
			want := "op op {'axis': -1, 'eps': 1.0} 7 float32 op seed=7 [2, 1] ['" + path + "'] __main__ True\n"
			if reply.Stderr != want {
				t.Errorf("stderr is %q, want %q", reply.Stderr, want)
			}
			if reply.Modified != nil {
				t.Errorf("Modified = %v, want nil", reply.Modified)
			}
		}
	})
}

func TestScriptReplies(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		reason       verdict.Reason
		parts        []string
	}{
		{"bare tensor", "print(json.dumps(encode_tensor(x)))", "", nil},
		{"float64", "json.dump(encode_tensor(x.astype('float64')), sys.stdout)", "", nil},
		{"printed before", "print('hello'); json.dump(encode_tensor(x), sys.stdout)", verdict.BadReply,
			[]string{`does not begin with the JSON of a reply: "hello\n{`, "print to standard error"}},
		{"printed after", "json.dump(encode_tensor(x), sys.stdout); print('bye')", verdict.BadReply,
			[]string{`goes on after the reply: "bye"`}},
		{"nothing", "pass", verdict.BadReply, []string{"wrote nothing to standard output"}},
		{"cut", "sys.stdout.write(json.dumps(encode_tensor(x))[:-9])", verdict.BadReply, []string{"ends in the middle"}},
		{"no outputs", "print('{}')", verdict.BadReply, []string{"the reply has no outputs"}},
		{"bad base64", "e = encode_tensor(x); e['data'] = e['data'][:-1]; print(json.dumps(e))", verdict.BadReply,
			[]string{`output "output": data of 15 characters is not base64`}},
		{"too short", "e = encode_tensor(x); e['shape'] = [4]; print(json.dumps(e))", verdict.BadReply,
			[]string{`output "output"`, "[4]", "12"}},
		{"no shape", "e = encode_tensor(x); del e['shape']; print(json.dumps(e))", verdict.BadReply, []string{"no shape"}},
		{"no dtype", "e = encode_tensor(x); del e['dtype']; print(json.dumps(e))", verdict.BadReply, []string{"no dtype"}},
		{"no data", "print(json.dumps({'outputs': {'y': {'shape': [1], 'dtype': 'int8'}}}))", verdict.BadReply,
			[]string{"no data"}},
		{"null", "print(json.dumps({'outputs': {'y': None}}))", verdict.BadReply, []string{"it is null"}},
		{"dtype", "print(json.dumps(encode_tensor(x * 1j)))", verdict.BadReply, []string{`"complex64"`}},
		{"negative", "e = encode_tensor(x); e['shape'] = [-3]; print(json.dumps(e))", verdict.BadReply, []string{"-3"}},
		{"raises", "raise ValueError('no')", verdict.Raised,
			[]string{"exited with status 1: ValueError: no", "Traceback (most recent call last):\n  File"}},
		{"advice", "raise RuntimeError('device-side assert triggered\\nCompile with `X` to see more.')", verdict.Raised,
			[]string{"exited with status 1: RuntimeError: device-side assert triggered\n"}},
		{"status", "sys.exit(3)", verdict.Raised, []string{"the script exited with status 3"}},
		{"text status", "sys.exit('reason')", verdict.Raised, []string{"exited with status 1: reason"}},
		{"crash", "import os; os.abort()", verdict.Crashed, []string{"the script crashed: SIGABRT"}},
		{"killed", "import os; os.kill(os.getpid(), 9)", verdict.Killed,
			[]string{"ended by SIGKILL (killed), which gpuemu did not send"}},
		{"package", "import nowhere.at_all", verdict.MissingPackage, []string{"No module named 'nowhere'", "install it for"}},
		{"syntax", "def f(:", verdict.Raised, []string{"SyntaxError"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			both(t, documented+tt.source, Spec{}, func(t *testing.T, r Runner) {
				if tt.reason == "" {
					wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3)
					return
				}
				for range 2 {
					f := fails(t, r, small(t), tt.reason, tt.parts...)
					if strings.Contains(f.Stderr, "worker-") {
						t.Errorf("frames of ours are shown:\n%s", f.Stderr)
					}
				}
			})
		})
	}
}

// TestScriptWithoutMLDTypes: a script that does not know the type of its input is told what to do.
func TestScriptWithoutMLDTypes(t *testing.T) {
	const reply = "json.dump(encode_tensor(x), sys.stdout)"
	bf16 := callOf(tensorOf(t, dtype.BFloat16, 3))
	const hint = "import ml_dtypes in the script, which gives numpy the type bfloat16; or set raw = true of the op"
	both(t, documented+reply, Spec{}, func(t *testing.T, r Runner) { fails(t, r, bf16, verdict.Raised, hint) })
	both(t, "import ml_dtypes\n"+documented+reply, Spec{}, func(t *testing.T, r Runner) { mustRun(t, r, bf16) })
	both(t, documented+reply, Spec{Raw: true}, func(t *testing.T, r Runner) { mustRun(t, r, bf16) })
	other := script(t, documented+"raise ValueError('bfloat16')", Spec{})
	if f := fails(t, other, small(t), verdict.Raised); f.Hint != "" {
		t.Errorf("a float32 case has the hint %q", f.Hint)
	}
}

func TestScriptDTypes(t *testing.T) {
	r := script(t, `
import json, sys
request = json.load(sys.stdin)
x = request["inputs"]["x"]
print(x["dtype"], file=sys.stderr)
json.dump({"outputs": {"y": x}}, sys.stdout)
`, Spec{})
	for _, d := range dtype.All() {
		x := tensorOf(t, d, 3, 5)
		reply := mustRun(t, r, callOf(x))
		if y := reply.Outputs[0].Tensor; y.DType != d || !bytes.Equal(y.Data, x.Data) || !y.Shape.Equal(x.Shape) {
			t.Errorf("%s came back as %s %s", d, y.DType, y.Shape)
		}
		if got := strings.TrimSpace(reply.Stderr); got != d.String() {
			t.Errorf("%s was sent as %s", d, got)
		}
	}
}

// TestScriptLifeIsItsOwn: what a script may expect of an interpreter of its own, in a forked one as well.
func TestScriptLifeIsItsOwn(t *testing.T) {
	source := documented + `
import atexit, threading, time, os
def late():
    time.sleep(0.05)
    print("thread", file=sys.stderr)
atexit.register(lambda: print("atexit", file=sys.stderr))
json.dump(encode_tensor(np.random.rand(3)), sys.stdout)
print(os.getpid() == os.getpgid(0), "seen" in sys.modules, file=sys.stderr)
sys.modules["seen"] = sys
threading.Thread(target=late).start()
`
	both(t, source, Spec{}, func(t *testing.T, r Runner) {
		first := mustRun(t, r, small(t))
		second := mustRun(t, r, small(t))
		if want := "True False\nthread\natexit\n"; first.Stderr != want || second.Stderr != want {
			t.Errorf("printed %q and %q, want %q", first.Stderr, second.Stderr, want)
		}
		if bytes.Equal(first.Outputs[0].Tensor.Data, second.Outputs[0].Tensor.Data) {
			t.Error("two processes have the same random numbers")
		}
	})
}

func TestScriptEdited(t *testing.T) {
	dir := t.TempDir()
	r := script(t, documented+"json.dump(encode_tensor(x + 1), sys.stdout)", Spec{Dir: dir})
	wantFloats(t, mustRun(t, r, small(t)), 2, 3, 4)
	path := filepath.Join(dir, "script.py")
	file(t, dir, "script.py", documented+"json.dump(encode_tensor(x + 5), sys.stdout)", 0o600)
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	wantFloats(t, mustRun(t, r, small(t)), 6, 7, 8)
}

// TestScriptWithoutNumpy: no fork server, but the script runs.
func TestScriptWithoutNumpy(t *testing.T) {
	r := script(t, `
import json, sys
json.dump({"outputs": {"y": json.load(sys.stdin)["inputs"]["x"]}}, sys.stdout)
`, Spec{Python: bareVenv(t)})
	wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3)
	if r.(*scriptRunner).fork.Load() {
		t.Error("the fork server is used without numpy")
	}
	fails(t, script(t, "", Spec{Python: "/nowhere/python"}), small(t), verdict.NotStarted,
		"/nowhere/python cannot be started")
}

func TestExecutables(t *testing.T) {
	dir := t.TempDir()
	file(t, dir, "sh", "#!/bin/sh\ncat >/dev/null\necho '{\"shape\":[1],\"dtype\":\"int8\",\"data\":\"BQ==\"}'\n", 0o700)
	wantFloats(t, mustRun(t, newRunner(t, Spec{Dir: dir, Target: "sh"}), small(t)), 5)
	file(t, dir, "py", "#!/usr/bin/env python3\n"+documented+"json.dump(encode_tensor(x), sys.stdout)", 0o600)
	r := newRunner(t, Spec{Dir: dir, Target: "py"})
	wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3)
	if !r.(*scriptRunner).fork.Load() {
		t.Error("a script with Python in its first line runs without the fork server")
	}
}

func TestScriptLimits(t *testing.T) {
	short := Limits{Timeout: 1500 * time.Millisecond}
	for _, tt := range []struct {
		name, source string
		limits       Limits
		reason       verdict.Reason
		parts        []string
	}{
		{"hang before reading", "import time; print('up', file=__import__('sys').stderr, flush=True); time.sleep(60)", short,
			verdict.TimedOut, []string{"the script did not reply within 1.5s", "up"}},
		{"hang after reading", documented + "import time; time.sleep(60)", short, verdict.TimedOut, nil},
		{"hang after the reply", documented + "json.dump(encode_tensor(x), sys.stdout)\nsys.stdout.close()\n" +
			"import os, time; os.close(1); time.sleep(60)", short, verdict.TimedOut, nil},
		{"stopped", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", short, verdict.TimedOut, nil},
		{"ignores signals", "import signal, time\nfor s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)\n" +
			"time.sleep(60)", short, verdict.TimedOut, nil},
		{"endless output", "import sys\nwhile True: sys.stdout.write('x' * 1000000)", Limits{Output: 1 << 24},
			verdict.OutputLimit, []string{"more than 16777216 bytes"}},
		{"endless stderr", "import sys\nwhile True: sys.stderr.write('x' * 1000000)", short, verdict.TimedOut,
			[]string{"bytes before this are not kept"}},
		{"memory", documented + "np.ones(1 << 40, np.uint8)", Limits{Memory: 2 << 30}, verdict.MemoryLimit,
			[]string{"the limit is 2GiB"}},
		{"plain memory", documented + "bytearray(1 << 40)", Limits{Memory: 2 << 30}, verdict.MemoryLimit, nil},
		{"memory without a limit", documented + "bytearray(1 << 50)", Limits{}, verdict.Raised, []string{"MemoryError"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := Spec{Limits: tt.limits, Env: []string{"OPENBLAS_NUM_THREADS=1"}, cgroups: &cgroups{}}
			both(t, tt.source, spec, func(t *testing.T, r Runner) {
				call := small(t)
				if tt.name == "hang before reading" {
					call = callOf(tensorOf(t, dtype.Float32, 1<<20)) // more than a pipe holds
				}
				within(t, 60*time.Second, func() {
					fails(t, r, call, tt.reason, tt.parts...)
					fails(t, r, call, tt.reason, tt.parts...)
				})
			})
		})
	}
}

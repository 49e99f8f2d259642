//go:build unix

package runner

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// python is the interpreter of the tests, which has numpy and ml_dtypes. Without it nothing here is tested: that is a
// failure, not a skip.
func python(t testing.TB) string {
	t.Helper()
	path := os.Getenv("GPUEMU_TEST_PYTHON")
	if path == "" {
		path = filepath.Join(testkit.Root(t), ".cache", "venv", "bin", "python")
	}
	if !isExecutable(path) {
		t.Fatalf("there is no %s: run make setup, or set GPUEMU_TEST_PYTHON to a Python with numpy and ml_dtypes", path)
	}
	return path
}

// file writes a file of the project and returns the project's directory.
func file(t testing.TB, dir, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// newRunner returns a runner in a fresh project that is closed at the end of the test.
func newRunner(t testing.TB, spec Spec) Runner {
	t.Helper()
	if spec.Dir == "" {
		spec.Dir = t.TempDir()
	}
	if spec.RunDir == "" {
		spec.RunDir = t.TempDir()
	}
	if spec.Python == "" {
		spec.Python = python(t)
	}
	r, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// function returns a runner of f in a file with that source.
func function(t testing.TB, source string, spec Spec) Runner {
	t.Helper()
	if spec.Dir == "" {
		spec.Dir = t.TempDir()
	}
	file(t, spec.Dir, "candidate.py", source, 0o600)
	spec.Target = "candidate.py:f"
	return newRunner(t, spec)
}

// script returns a runner of a Python script with that source.
func script(t testing.TB, source string, spec Spec) Runner {
	t.Helper()
	if spec.Dir == "" {
		spec.Dir = t.TempDir()
	}
	file(t, spec.Dir, "script.py", source, 0o600)
	spec.Target = "script.py"
	return newRunner(t, spec)
}

// both runs a test with the fork server and with plain processes.
func both(t *testing.T, source string, spec Spec, test func(t *testing.T, r Runner)) {
	t.Helper()
	for _, fork := range []bool{true, false} {
		name := "fork"
		if !fork {
			name = "plain"
		}
		t.Run(name, func(t *testing.T) {
			r := script(t, source, spec)
			r.(*scriptRunner).fork.Store(fork)
			test(t, r)
			if got := r.(*scriptRunner).fork.Load(); got != fork {
				t.Errorf("the fork server is used: %v, want %v", got, fork)
			}
		})
	}
}

func tensorOf(t testing.TB, d dtype.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	x := tensor.New(d, tensor.MustShape(shape...))
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range x.Data {
		x.Data[i] = byte(rnd.Uint32())
		if d == dtype.Bool {
			x.Data[i] &= 1
		}
	}
	return x
}

// callOf is a call with one input x and one output of the same type.
func callOf(x *tensor.Tensor) *Call {
	return &Call{Op: "op", Case: "op seed=7", Seed: 7, DType: x.DType, Inputs: []tensor.Named{{Name: "x", Tensor: x}},
		Outputs: []Output{{Name: "y", DType: x.DType, Shape: x.Shape}}}
}

func small(t testing.TB) *Call {
	return callOf(tensor.FromFloat64s(dtype.Float32, tensor.MustShape(3), []float64{1, 2, 3}))
}

func mustRun(t testing.TB, r Runner, call *Call) *Reply {
	t.Helper()
	reply, err := r.Run(t.Context(), call)
	if err != nil {
		var f *Failure
		if errors.As(err, &f) {
			t.Fatalf("Run: %s: %s (hint %q)\n%s", f.Reason, f.Msg, f.Hint, f.Stderr)
		}
		t.Fatalf("Run: %v", err)
	}
	return reply
}

// fails runs a call that must fail with the reason, and parts of message, hint and stderr.
func fails(t testing.TB, r Runner, call *Call, reason verdict.Reason, parts ...string) *Failure {
	t.Helper()
	reply, err := r.Run(t.Context(), call)
	var f *Failure
	if !errors.As(err, &f) {
		t.Fatalf("Run = %+v, %v, want a failure with reason %s", reply, err, reason)
	}
	if f.Reason != reason {
		t.Errorf("reason is %s, want %s (%s)", f.Reason, reason, f.Msg)
	}
	for _, part := range parts {
		if text := f.Msg + "\n" + f.Hint + "\n" + f.Stderr; !strings.Contains(text, part) {
			t.Errorf("failure has no %q:\n%s", part, text)
		}
	}
	return f
}

// within fails the test if it takes longer: for hangs.
func within(t testing.TB, limit time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("not done after %v", limit)
	}
}

// wantFloats compares the single output.
func wantFloats(t testing.TB, reply *Reply, want ...float64) {
	t.Helper()
	if len(reply.Outputs) != 1 || reply.Outputs[0].Name != "output" {
		t.Fatalf("outputs are %v, want one named output", reply.Outputs)
	}
	got := reply.Outputs[0].Tensor.Float64s()
	if len(got) != len(want) {
		t.Fatalf("output has %d elements, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("output[%d] = %v, want %v", i, got[i], want[i])
		}
	}
}

// bareVenv returns an interpreter without any package.
func bareVenv(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command(python(t), "-m", "venv", "--without-pip", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("python -m venv: %v\n%s", err, out)
	}
	return filepath.Join(dir, "bin", "python")
}

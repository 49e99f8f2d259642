//go:build unix

package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	file(t, dir, "data.txt", "no script", 0o600)
	for _, tt := range []struct {
		target, msg, hint string
		code              diag.Code
	}{
		{"missing.py:f", "there is no file " + dir + "/missing.py", "relative to gpuemu.toml", TargetMissing},
		{"missing.py", "there is no file", "relative to gpuemu.toml", TargetMissing},
		{"bultin:softmax", "there is no file", "worker:COMMAND or builtin:NAME", TargetMissing},
		{"", "a candidate or reference is empty", "file.py:function", TargetSyntax},
		{".", "is not a file", "name a file", TargetMissing},
		{"data.txt", "neither a Python file nor executable", "chmod +x " + dir + "/data.txt", TargetNotExec},
		{"builtin:softmx", `the catalogue has no operator "softmx"`, "softmax", BuiltinUnknown},
		{"worker:", "not a command", "worker:./kernels/serve --fast", TargetSyntax},
		{"worker:'open", "not a command", "", TargetSyntax},
		{"worker:./nowhere --x", `there is no program "./nowhere"`, "build it", TargetMissing},
		{"worker:no-such-program-anywhere", "there is no program", "", TargetMissing},
	} {
		r, err := New(Spec{Target: tt.target, Dir: dir})
		if r != nil || diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.msg) ||
			!strings.Contains(diag.HintOf(err), tt.hint) {
			t.Errorf("New(%q) = %v (hint %q), want %s: %s (hint %q)", tt.target, err, diag.HintOf(err), tt.code, tt.msg, tt.hint)
		}
	}
}

func TestSplitCommand(t *testing.T) {
	for line, want := range map[string][]string{
		"a b  c":              {"a", "b", "c"},
		` 'a b' "c \"d" e\ f`: {"a b", `c "d`, "e f"},
		`a '' ""`:             {"a", "", ""},
		`a'b'c`:               {"abc"},
	} {
		if got, err := splitCommand(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("splitCommand(%q) = %q, %v, want %q", line, got, err, want)
		}
	}
}

func TestFindPython(t *testing.T) {
	dir, venv, bin := t.TempDir(), t.TempDir(), t.TempDir()
	program := func(parts ...string) string {
		path := filepath.Join(parts...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		file(t, filepath.Dir(path), filepath.Base(path), "#!/bin/sh\n", 0o700)
		return path
	}
	own, onPath := program(dir, "own", "python"), program(bin, "python3")
	program(bin, "python3.12")
	env := map[string]string{"PATH": "relative::" + bin}
	find := func(explicit ...string) (string, error) {
		return FindPython(explicit, func(name string) string { return env[name] }, dir)
	}
	check := func(want string, explicit ...string) {
		t.Helper()
		if got, err := find(explicit...); err != nil || got != want {
			t.Errorf("FindPython(%q) = %q, %v, want %q", explicit, got, err, want)
		}
	}
	check(onPath)
	dotVenv := program(dir, ".venv", "bin", "python")
	check(dotVenv)
	env["VIRTUAL_ENV"] = venv
	check(dotVenv) // one that has no interpreter is passed over
	active := program(venv, "bin", "python")
	check(active)
	env["GPUEMU_PYTHON"] = "python3.12"
	check(filepath.Join(bin, "python3.12"))
	check(own, "", "own/python")
	check(own, own, "python3")
	env["GPUEMU_PYTHON"] = "/nowhere"
	for _, tt := range []struct {
		explicit  []string
		msg, hint string
	}{
		{nil, `GPUEMU_PYTHON names "/nowhere"`, "set GPUEMU_PYTHON"},
		{[]string{"no/python", "python3"}, `the key python names "no/python"`, "correct the key python"},
	} {
		_, err := find(tt.explicit...)
		if diag.CodeOf(err) != PythonMissing || !strings.Contains(err.Error(), tt.msg) ||
			!strings.Contains(diag.HintOf(err), tt.hint) {
			t.Errorf("FindPython(%q) = %v (hint %q)", tt.explicit, err, diag.HintOf(err))
		}
	}
	_, err := FindPython(nil, func(string) string { return "" }, bin)
	if diag.CodeOf(err) != PythonMissing || !strings.Contains(diag.HintOf(err), "install Python 3.9") {
		t.Errorf("FindPython without anything = %v", err)
	}
}

func TestBuiltin(t *testing.T) {
	r, err := New(Spec{Target: "builtin:softmax"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	x := tensor.FromFloat64s(dtype.Float16, tensor.MustShape(1, 1, 2), []float64{0, 1})
	call := callOf(x)
	call.Attrs = opspec.Attrs{"block": int64(128)} // not the operator's business
	candidate := mustRun(t, r, call).Outputs[0]
	call.Reference = true
	reference := mustRun(t, r, call).Outputs[0]
	if candidate.Name != "output" || candidate.Tensor.DType != dtype.Float16 || reference.Tensor.DType != dtype.Float64 {
		t.Errorf("candidate is %s %s, reference %s", candidate.Name, candidate.Tensor.DType, reference.Tensor.DType)
	}
	const want = 0.7310585786300049 // 1/(1+exp(-1))
	if got := reference.Tensor.Float64s()[1]; got < want-1e-15 || got > want+1e-15 {
		t.Errorf("reference is %v, want %v", got, want)
	}
	if got, once := candidate.Tensor.Bits(0, 0, 1), dtype.Float16.Bits(want); got != once {
		t.Errorf("candidate is %#x, want %#x", got, once)
	}
	call.Inputs = append(call.Inputs, call.Inputs[0])
	fails(t, r, call, verdict.Unsupported, "builtin:softmax takes input, got x, x")
	call = callOf(tensorOf(t, dtype.Int32, 2))
	fails(t, r, call, verdict.Unsupported, "int32")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Run(ctx, call); !errors.Is(err, context.Canceled) {
		t.Errorf("Run with a dead context = %v", err)
	}
}

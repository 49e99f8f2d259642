//go:build unix

package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/emulation"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// standIn is what emulated_triton needs of Triton: the places where it puts its own functions.
var standIn = map[string]string{
	"__init__.py":          "from . import knobs\n",
	"knobs.py":             "class runtime:\n    interpret = False\n",
	"backends/__init__.py": "",
	"backends/compiler.py": "class GPUTarget:\n    def __init__(self, *args): pass\n",
	"compiler/__init__.py": "",
	"compiler/compiler.py": "class CompiledKernel:\n    _init_handles = None\n",
	"runtime/__init__.py":  "",
	"runtime/driver.py":    "_active = None\ndef set_active(driver): pass\n",
	"runtime/autotuner.py": "class Autotuner:\n    run = None\n",
	"runtime/jit.py":       "class JITFunction:\n    run = None\n",
}

// launching is a function that launches a kernel of one parameter, as a kernel of Triton does once it is compiled.
const launching = `
import types
import numpy as np
from gpuemu import _triton

meta = types.SimpleNamespace(shared=0, num_warps=2)

def f(inputs):
    y = np.zeros_like(inputs["x"])
    kernel = types.SimpleNamespace(
        name="copy", asm={"ptx": "the text"}, metadata=meta,
        src=types.SimpleNamespace(signature={"y": "*fp32", "n": "i32"}))
    _triton._active[-1].launch(kernel, (3, 1, 1), (y, 5))
    return y
`

// falling is that with a function g of the user's own, which does without the kernel where its launch fails.
const falling = launching + `
g = f
def f(inputs):
    try:
        return g(inputs)
    except Exception:
        return np.zeros_like(inputs["x"])
`

// clusters launches a kernel that is executed, and then one with clusters, which is not even sent.
const clusters = falling + `
h = f
def f(inputs):
    h(inputs)
    meta.num_ctas = 2
    try:
        return g(inputs) if fall_back is None else h(inputs)
    finally:
        del meta.num_ctas
`

// recorder is an emulator that answers with what it is told to.
type recorder struct {
	header map[string]any
	doc    emulation.Document
	err    error
	fill   byte // what it writes
	once   bool // whether only the first launch of a function is refused
}

func (e *recorder) Launch(_ context.Context, header, image []byte) (*emulation.Document, []tensor.Named, error) {
	e.header = nil
	if err := json.Unmarshal(header, &e.header); err != nil {
		return nil, nil, err
	}
	tensors, _, err := tensor.ParseSafetensors(image)
	if err = cmp.Or(err, e.err); err != nil {
		return nil, nil, err
	}
	for _, t := range tensors {
		for i := range t.Tensor.Data {
			t.Tensor.Data[i] = e.fill
		}
	}
	doc := e.doc
	if e.once {
		e.doc = passed()
	}
	return &doc, tensors, nil
}

// emulated is a function whose launches e executes. Triton is a stand-in.
func emulated(t *testing.T, source string, e Emulator) Runner {
	t.Helper()
	dir := t.TempDir()
	for name, text := range standIn {
		path := filepath.Join(dir, "triton", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return function(t, source, Spec{Emulator: e, Env: []string{"PYTHONPATH=" + dir}})
}

// passed is the document of a launch in which nothing was found.
func passed() emulation.Document {
	d := emulation.Document{Kernel: "copy", PTX: "copy.ptx", Checks: []string{}}
	d.Conclude()
	return d
}

// TestLaunchesAreEmulated: a launch goes to the emulator, and what the kernel wrote is what the function returns.
func TestLaunchesAreEmulated(t *testing.T) {
	e := &recorder{doc: passed(), fill: 0x3f}
	r := emulated(t, launching, e)
	for range 2 {
		reply := mustRun(t, r, small(t))
		if got := reply.Outputs[0].Tensor.Data; string(got) != strings.Repeat("\x3f", len(got)) {
			t.Errorf("the output has the bytes %x", got)
		}
		if len(reply.Findings) != 0 || len(reply.Modified) != 0 {
			t.Errorf("findings %v, modified %v, want none", reply.Findings, reply.Modified)
		}
	}
	if e.header["ptx"] != "the text" || e.header["entry"] != "copy" || len(e.header["args"].([]any)) != 4 {
		t.Errorf("the launch is %v", e.header)
	}
}

// TestLaunchesWithFindings: what the emulator finds belongs to the case, whatever the function makes of it.
func TestLaunchesWithFindings(t *testing.T) {
	e := &recorder{doc: passed()}
	e.doc.Findings = []emulation.Finding{{Class: "oob_write", Message: "writes 4 bytes behind y", PTXLine: 7, Count: 1,
		Instruction: "st.global.f32", InlinedAt: []emulation.Place{}, Operands: []emulation.Operand{}}}
	e.doc.Conclude()
	reply := mustRun(t, emulated(t, launching, e), small(t))
	if len(reply.Findings) != 1 || reply.Findings[0].Kind != "oob_write" ||
		!strings.Contains(reply.Findings[0].Sentence, "copy.ptx:7: block 0,0,0, thread 0,0,0: writes 4 bytes behind y") {
		t.Errorf("findings are %+v", reply.Findings)
	}
}

// TestLaunchesNotExecuted: where nothing ran, nothing passes, and what is missing is named.
func TestLaunchesNotExecuted(t *testing.T) {
	refused := passed()
	refused.Error = &emulation.Refusal{Code: "ptxvm-unsupported", Message: "tex is not executed", Hint: "leave it out"}
	refused.Conclude()
	endless := passed()
	endless.Error = &emulation.Refusal{Code: string(ptxvm.Budget), Message: "copy executed 9 instructions"}
	endless.Conclude()
	for _, tt := range []struct {
		name, source string
		e            *recorder
		reason       verdict.Reason
		says         []string
	}{
		{"refused", launching, &recorder{doc: refused}, verdict.Unsupported, []string{"tex is not executed", "leave it out"}},
		{"ill-formed", launching, &recorder{err: diag.Errorf("some-code", "a hint", "no such launch")}, verdict.Unsupported,
			[]string{"no such launch", "a hint"}},
		{"refused, and then done without", falling, &recorder{doc: refused}, verdict.Unsupported,
			[]string{"tex is not executed", "leave it out"}},
		{"ill-formed, and then done without", falling,
			&recorder{err: diag.Errorf("some-code", "a hint", "no such launch")}, verdict.Unsupported,
			[]string{"no such launch", "a hint"}},
		{"endless, and then done without", falling, &recorder{doc: endless}, verdict.OverBudget,
			[]string{"copy executed 9 instructions"}},
		{"not sent", "fall_back = None\n" + clusters, &recorder{doc: passed()}, verdict.Unsupported,
			[]string{"copy has num_ctas=2", "clusters are not executed here"}},
		{"not sent, and then done without", "fall_back = 1\n" + clusters, &recorder{doc: passed()}, verdict.Unsupported,
			[]string{"copy has num_ctas=2", "clusters are not executed here"}},
		{"refused, then another executed", falling + "h = f\ndef f(inputs):\n    h(inputs)\n    return g(inputs)",
			&recorder{doc: refused, once: true}, verdict.Unsupported, []string{"tex is not executed", "leave it out"}},
		{"no launch", "def f(inputs): return inputs['x']", &recorder{}, verdict.Unsupported,
			[]string{"candidate.py:f launched no Triton kernel", `leave execution_mode = "emulate" out`}},
		{"it raises", "def f(inputs): raise ValueError('no')", &recorder{}, verdict.Raised, []string{"ValueError: no"}},
		{"syntax", "def f(:", &recorder{}, verdict.Raised, []string{"SyntaxError: invalid syntax (candidate.py, line 1)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := emulated(t, tt.source, tt.e)
			first := tt.e.doc
			for range 2 {
				tt.e.doc = first
				fails(t, r, small(t), tt.reason, tt.says...)
			}
		})
	}
}

// TestLaunchesWithoutTriton: the package that is missing is named with the command that installs it.
func TestLaunchesWithoutTriton(t *testing.T) {
	dir := t.TempDir()
	source := "import sys\nsys.modules['triton'] = None\n"
	if err := os.WriteFile(filepath.Join(dir, "sitecustomize.py"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	r := function(t, launching, Spec{Emulator: &recorder{}, Env: []string{"PYTHONPATH=" + dir}})
	fails(t, r, small(t), verdict.MissingPackage, "candidate.py:f needs the package triton", "-m pip install triton, or")
	// A broken file is an error all the same.
	r = function(t, "import triton\ndef (", Spec{Emulator: &recorder{}, Env: []string{"PYTHONPATH=" + dir}})
	fails(t, r, small(t), verdict.Raised,
		"importing candidate.py raised SyntaxError: invalid syntax (candidate.py, line 2)")
}

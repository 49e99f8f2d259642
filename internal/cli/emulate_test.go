package cli

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/command"
	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/emulation"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// TestEmulateSoftmax: compiled kernels of two compilers give what the oracle allows, with arguments from files.
func TestEmulateSoftmax(t *testing.T) {
	const rows, cols = 3, 1000
	values := make([]float64, rows*cols)
	for i := range values {
		values[i] = float64(i*7919%1000)/100 - 5
	}
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(1, rows, cols), values)
	dir := t.TempDir()
	npy, in := filepath.Join(dir, "x.npy"), filepath.Join(dir, "in.safetensors")
	if err := tensor.SaveNPY(t.Context(), npy, x); err != nil {
		t.Fatal(err)
	}
	if err := tensor.SaveSafetensors(t.Context(), in, []tensor.Named{{Name: "q", Tensor: x}}, nil); err != nil {
		t.Fatal(err)
	}
	op, _ := oracle.Lookup("softmax")
	wants, err := oracle.Evaluate(op, map[string]*tensor.Tensor{"input": x}, op.Schema.DefaultAttrs(), dtype.Float32)
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"clang": {"clang19/softmax.ptx", "--entry", "softmax_block", "--block", "256", "--arg", "in:" + npy,
			"--arg", "y=out:f32[1,3,1000]", "--arg", "i32:1000"},
		"triton": {"triton36/softmax-sm80.ptx", "--block", "128", "--shared", "64", "--arg", "in:" + in,
			"--arg", "y=out:f32[1,3,1000]", "--arg", "i32:1000", "--arg", "i32:1000", "--arg", "u64:0", "--arg", "u64:0"},
	} {
		out := filepath.Join(dir, name)
		args[0] = "../../testdata/ptx/" + args[0]
		code, stdout, stderr := run(t, noEnv, append([]string{"emulate", "--grid", "3", "-o", out}, args...)...)
		if code != command.ExitOK || stderr != "" {
			t.Fatalf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
		file, err := tensor.OpenSafetensors(filepath.Join(out, "outputs.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		y, ok := file.Lookup("y")
		if !ok {
			t.Fatalf("%s: the outputs have no y", name)
		}
		r, err := compare.Compare(y, wants["output"], compare.Options{})
		if err != nil || r.Verdict != compare.Pass {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		file.Close()
	}
}

// TestEmulateNames: a C++ kernel may be named as in its source, unless that names several.
func TestEmulateNames(t *testing.T) {
	const ptx = ".version 8.0\n.target sm_80\n.address_size 64\n" +
		".visible .entry _Z3oneIfEvv()\n{\n\tret;\n}\n.visible .entry _Z3twoIfEvv()\n{\n\tret;\n}\n" +
		".visible .entry _Z3twoIdEvv()\n{\n\tret;\n}\n"
	path := filepath.Join(t.TempDir(), "names.ptx")
	if err := os.WriteFile(path, []byte(ptx), 0o600); err != nil {
		t.Fatal(err)
	}
	for entry, want := range map[string]int{"one": command.ExitOK, "_Z3oneIfEvv": command.ExitOK,
		"_Z3twoIdEvv": command.ExitOK, "two": command.ExitUsage, "three": command.ExitUsage, "": command.ExitUsage} {
		code, stdout, stderr := run(t, noEnv, "emulate", path, "--grid", "1", "--block", "1", "--entry", entry)
		if code != want {
			t.Errorf("--entry %q exits with %d, want %d\n%s%s", entry, code, want, stdout, stderr)
		}
	}
}

// TestEmulateInterrupted: Ctrl-C ends a kernel that does not end itself.
func TestEmulateInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endless.ptx")
	const ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f()\n{\nagain:\n\tbra again;\n}\n"
	if err := os.WriteFile(path, []byte(ptx), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	code := Main(Env{Args: []string{"emulate", path, "--grid", "1", "--block", "1", "-o", filepath.Join(t.TempDir(), "x")},
		Stdout: &out, Stderr: &errs, Getenv: noEnv, Interrupt: func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 10*time.Millisecond)
		}})
	if code != command.ExitNotRun || out.String() != "" || !strings.Contains(errs.String(), "[cli-interrupted]") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out.String(), errs.String())
	}
}

// TestEmulationText: what people read has nothing in it that steers a terminal, and every number there is.
func TestEmulationText(t *testing.T) {
	d := emulation.Document{Kernel: "k\x1b[2J", PTX: "k.ptx", Line: 3, Target: "sm_90", Grid: [3]int{1, 2, 3},
		Block: [3]int{4, 5, 6}, DynamicShared: 7, Checks: []string{"bounds"}, Instructions: 8, Seconds: 90.26,
		Schedules: 3, Printed: "one\ntwo\x1b[2J\nthree", Dropped: 4, Findings: []emulation.Finding{
			{Class: "race", Message: "both", PTXLine: 9, Source: "k.cu", Line: 5, Count: 2, Instruction: "ret;",
				InlinedAt: []emulation.Place{{Source: "k.cu", Line: 6}},
				Operands:  []emulation.Operand{{Register: "%r1", Value: "0x2a"}, {Register: "%p1", Value: "0x0"}}},
			{Class: "unwritten", Message: "none", PTXLine: 1, Count: 7, InlinedAt: []emulation.Place{},
				Operands: []emulation.Operand{}}}}
	d.Expected = []emulation.Comparison{{Name: "y", Tensor: "float32[2]", Rule: "equal bits", Elements: 2, Wrong: 1,
		Worst: &emulation.Worst{Index: []int{1}, Got: "1", Want: "2", ULP: "8388608", Abs: "1"}}, {Name: "z"}}
	d.Conclude()
	var b strings.Builder
	term := newTerminal(Env{Stdout: &b, Stderr: &b})
	printEmulation(term, &d)
	if err := term.flush(); err != nil {
		t.Fatal(err)
	}
	const want = `k\x1b[2J (sm_90, k.ptx:3): grid 1,2,3, block 4,5,6, 7 bytes of dynamic shared memory
  8 instructions of warps in 3 orders in 90.3 s; checks: bounds
  printf: one
  printf: two\x1b[2J
  printf: three
  race: k.ptx:9 (k.cu:5, inlined at k.cu:6): block 0,0,0, thread 0,0,0: both (2 times)
    ret; (%r1 = 0x2a, %p1 = 0x0)
  unwritten: k.ptx:1: none
  and 4 findings elsewhere
  y float32[2]: WRONG: 1 of 2 elements (equal bits); worst at [1]: got 1, want 2 (8388608 ulp, 1)
  z : as expected ()
FAILED: 6 findings, 1 output of 2 not as expected
`
	if b.String() != want {
		t.Errorf("text is\n%s\nwant\n%s", b.String(), want)
	}
	text, err := json.Marshal(&d)
	if err != nil || !strings.Contains(string(text), `"outputs":[]`) || strings.Contains(string(text), "null") {
		t.Errorf("JSON is %s, %v, want no null", text, err)
	}
}

// TestDrawn: every dtype and every distribution gives values, in a number that fits the shape.
func TestDrawn(t *testing.T) {
	for _, d := range dtype.All() {
		for _, values := range distributionNames() {
			for _, shape := range []tensor.Shape{{}, {0}, {5}, {3, 4}} {
				b, err := drawn("x", d, shape, values, math.MaxUint64)
				if err != nil || len(b) != shape.Elems()*d.Size() {
					t.Errorf("drawn(%s%s, %s) has %d bytes: %v", d, shape, values, len(b), err)
				}
			}
		}
	}
}

func TestIsFileName(t *testing.T) {
	for name, want := range map[string]bool{"y": true, "x.grad": true, "": false, ".": false, "..": false, "../y": false,
		"a/b": false, `a\b`: false, "c:d": false, ".hidden": false, "a\nb": false, strings.Repeat("y", 201): false} {
		if got := isFileName(name); got != want {
			t.Errorf("isFileName(%q) = %v, want %v", name, got, want)
		}
	}
}

package ptxvm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
)

// This file implements tests of single instructions, in kernels of one block.

// runText executes the body of a kernel with parameters x and y, addresses of memory that is in %rd1 and %rd2. The
// thread is in %r1, and shared memory of 4 KiB is called s.
func runText(t *testing.T, body string, threads int, x, y []byte) *Result {
	t.Helper()
	return runModule(t, "", body, threads, x, y)
}

// runModule is runText with declarations in front of the kernel.
func runModule(t *testing.T, module, body string, threads int, x, y []byte) *Result {
	t.Helper()
	p, err := loadModule(t, module, body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(&Launch{Grid: line(1), Block: line(threads), MaxSteps: 1 << 22,
		Args: []Arg{{Name: "x", Buffer: x}, {Name: "y", Buffer: y}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func loadModule(t *testing.T, module, body string) (*Program, error) {
	t.Helper()
	text := fmt.Sprintf(`.version 8.6
.target sm_90a
.address_size 64
.shared .align 128 .b8 s[4096];
%s
.entry k(.param .u64 x, .param .u64 y) {
	.reg .pred %%p<20>;
	.reg .b16 %%h<20>;
	.reg .b32 %%r<40>;
	.reg .b64 %%rd<40>;
	ld.param.u64 %%rd1, [x];
	ld.param.u64 %%rd2, [y];
	mov.u32 %%r1, %%tid.x;
	%s
	ret;
}`, module, strings.ReplaceAll(body, "\n", "\n\t"))
	f, err := ptx.Parse("test.ptx", text)
	if err != nil {
		t.Fatal(err)
	}
	return Load(f, "k")
}

// silent fails if a launch had findings.
func silent(t *testing.T, r *Result) {
	t.Helper()
	for _, f := range r.Findings {
		t.Errorf("%s: %s at %v: %s", f.Class, f.Message, f.Thread, f.Instr.Mnemonic())
	}
}

func equal(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n%x, want\n%x", what, got, want)
	}
}

// unused is memory that a kernel does not use.
func unused() []byte { return make([]byte, 16) }

package ptxvm

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// This file implements tests of the memory of launches.

// TestBudget: what is reserved, what is left, and what is given back.
func TestBudget(t *testing.T) {
	b := &budget{limit: 100}
	for _, step := range []struct {
		n    int64
		what purpose
		ok   bool
	}{{60, forTensors, true}, {41, forChecks, false}, {40, forChecks, true}, {1, forBlocks, false}} {
		if ok := b.reserve(step.n, step.what); ok != step.ok {
			t.Errorf("reserve(%d, %s) = %v, want %v", step.n, purposeNames[step.what], ok, step.ok)
		}
	}
	if b.release(40, forChecks); b.left() != 40 || b.peak.Load() != 100 || b.used[forChecks].Load() != 0 {
		t.Errorf("%d bytes are left, at most %d were used, %d by checks", b.left(), b.peak.Load(), b.used[forChecks].Load())
	}
}

// declaring is a kernel with declarations in front of it and in it.
func declaring(t *testing.T, target, module, body string) *Program {
	t.Helper()
	f, err := ptx.Parse("k.ptx", ".version 8.0\n.target "+target+"\n.address_size 64\n"+module+
		".visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n"+body+"\nret;\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(f, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBeyond: a launch that asks for more than a GPU of the target has is a finding, and nothing is executed; what
// other kernels of the module use does not count.
func TestBeyond(t *testing.T) {
	const store = "ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], 1;"
	for _, tt := range []struct {
		name, target, module, body string
		dynamic                    int
		says                       string // "": the launch is executed
	}{
		{"static", "sm_90", ".shared .b8 s[49153];", "mov.u32 %r1, s;", 0,
			"k has 49153 bytes of static shared memory; the limit is 49152"},
		{"static of 500 MB", "sm_90", ".shared .b8 s[500000000];", "mov.u32 %r1, s;", 0, "k has 500000000 bytes"},
		{"just fits", "sm_90", ".shared .b8 s[49152];", "mov.u32 %r1, s;", 0, ""},
		{"of another kernel", "sm_90", ".shared .b8 s[500000000];", "", 0, ""},
		{"dynamic", "sm_75", ".extern .shared .b8 s[];", "mov.u32 %r1, s;", 65537,
			"a block needs 65537 bytes of shared memory (0 static, 65537 dynamic); the limit on sm_75 is 65536"},
		{"dynamic fits", "sm_75", ".extern .shared .b8 s[];", "mov.u32 %r1, s;", 65536, ""},
		{"both", "sm_86", ".shared .b8 s[1024];", "mov.u32 %r1, s;", 100353,
			"a block needs 101377 bytes of shared memory (1024 static, 100353 dynamic); the limit on sm_86 is 101376"},
		{"both fit", "sm_86", ".shared .b8 s[1024];", "mov.u32 %r1, s;", 100352, ""},
		{"a newer one", "sm_90a", ".shared .b8 s[1024];", "mov.u32 %r1, s;", 100353, ""},
		{"an older one", "sm_60", "", "", 49153, "the limit on sm_60 is 49152"},
		{"local", "sm_90", "", ".local .b8 l[524289]; mov.u32 %r1, l;", 0,
			"a thread needs 524289 bytes of local memory; the limit is 524288"},
	} {
		p := declaring(t, tt.target, tt.module, tt.body+store)
		l := &Launch{Grid: line(1), Block: line(1), DynamicShared: tt.dynamic, Args: []Arg{{Buffer: make([]byte, 4)}}}
		r, err := p.Run(l)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		ran := l.Args[0].Buffer[0] == 1
		if says := list(r); ran == (tt.says != "") || !strings.Contains(says, tt.says) || tt.says == "" && says != "" ||
			tt.says != "" && r.Findings[0].Class != ResourceLimit {
			t.Errorf("%s: executed %v, %q, want %q", tt.name, ran, says, tt.says)
		}
	}
}

// TestOutOfMemory: modules and launches that need more memory than there is are refused before it is allocated, with
// what they need, the limit, and how to raise it.
func TestOutOfMemory(t *testing.T) {
	many, used := "", ""
	for i := range 8 {
		many += fmt.Sprintf(".global .b8 g%d[2147483640];\n", i)
		used += fmt.Sprintf("mov.u64 %%rd1, g%d;\n", i)
	}
	for _, tt := range []struct {
		name, module, body string
		block              int
		limit              int64
		says               string
	}{
		{"variables", many, used, 1, 0, "variables of the module 16.0 GiB); the limit is 4.0 GiB"},
		{"threads", "", ".local .b8 l[524288]; mov.u32 %r1, l;", 1024, 512 << 20, "the limit is 512.0 MiB"},
		{"tensors", "", "", 1, 2, "k needs at least 4 bytes of memory (tensors 4 bytes); the limit is 2 bytes"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := declaring(t, "sm_90", tt.module, tt.body)
		_, err := p.Run(&Launch{Grid: line(1), Block: line(tt.block), MaxMemory: tt.limit,
			Args: []Arg{{Buffer: make([]byte, 4)}}})
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", tt.name, n)
		}
		if diag.CodeOf(err) != MemoryLimit || !strings.Contains(err.Error(), tt.says) ||
			!strings.Contains(diag.HintOf(err), "--memory") {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
}

// TestMemoryOfStates: what checks record grows with the bytes that are touched, not with the size of buffers.
func TestMemoryOfStates(t *testing.T) {
	p := loadText(t, kernelText("st.global.u32 [%rd12], %r2;"))
	l := textLaunch(2, 32)
	l.Args[1].Buffer = make([]byte, 256<<20)
	l.MaxMemory = 2*256<<20 + 4<<20 // the buffer and a copy of it, and what two blocks need
	if _, err := p.Run(l); err != nil {
		t.Error(err)
	}
}

// TestStatesOfBytes: checks record at most four bytes for each that a kernel touches: in place, from one tensor to
// another, or where two blocks read the same.
func TestStatesOfBytes(t *testing.T) {
	const blocks, size = 2048, 4 * 32 * 2048
	for _, tt := range []struct {
		name, body string
		x, y       Role
		states     float64 // bytes for each of a buffer
	}{
		{"in place", "ld.global.u32 %r20, [%rd12]; add.s32 %r20, %r20, 1; st.global.u32 [%rd12], %r20;", In, InOut, 4},
		{"to another one", "ld.global.u32 %r20, [%rd11]; add.s32 %r20, %r20, 1; st.global.u32 [%rd12], %r20;", In, Out, 2.2},
		{"to another one, without roles", "ld.global.u32 %r20, [%rd11]; add.s32 %r20, %r20, 1;" +
			"st.global.u32 [%rd12], %r20;", InOut, InOut, 4},
		{"read by two", "xor.b32 %r5, %r3, 32; mul.wide.u32 %rd20, %r5, 4; add.s64 %rd20, %rd1, %rd20;" +
			"ld.global.u32 %r20, [%rd20]; ld.global.u32 %r21, [%rd11]; add.s32 %r20, %r20, %r21;" +
			"st.global.u32 [%rd12], %r20;", InOut, Out, 6.2}, // of both buffers together: 4 and 2
	} {
		l := textLaunch(blocks, 32)
		l.Args[0].Buffer, l.Args[0].Role = words(blocks*32), tt.x
		l.Args[1].Buffer, l.Args[1].Role = words(blocks*32), tt.y
		l.Workers = 1
		l.apart = true // also under Go's race detector: these blocks do not race
		r, err := loadText(t, kernelText(tt.body)).run(l, order{first: true})
		if err != nil || len(r.Findings) > 0 {
			t.Fatal(err, list(r))
		}
		if states := float64(r.kept) / size; states > tt.states+0.1 || states < 1 {
			t.Errorf("%s: %.2f bytes for each byte of a tensor, want %v", tt.name, states, tt.states)
		}
	}
}

// TestProgramInBudget: a long kernel counts as memory of its launches, and is refused before it is made where there is
// not enough for it. Its code is made in one piece.
func TestProgramInBudget(t *testing.T) {
	f, err := ptx.Parse("k.ptx", kernelText(strings.Repeat("add.s32 %r10, %r10, %r2;\n", 10000)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = LoadWithin(f, "k", Numerics{}, 1<<20)
	if diag.CodeOf(err) != MemoryLimit || !strings.Contains(err.Error(), "the program") {
		t.Errorf("loaded within 1 MiB: %v, want %s because of the program", err, MemoryLimit)
	}
	p, err := LoadWithin(f, "k", Numerics{}, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.code); cap(p.code) > n+n/8 {
		t.Errorf("%d instructions have room for %d", n, cap(p.code))
	}
	l := textLaunch(1, 32)
	l.MaxMemory = 1 << 20
	if _, err := p.Run(l); diag.CodeOf(err) != MemoryLimit {
		t.Errorf("run within 1 MiB: %v, want %s", err, MemoryLimit)
	}
}

// TestUnusedVariables: variables of the module that a kernel does not name take no memory, however large they are.
// Those that initial values of others point to are there.
func TestUnusedVariables(t *testing.T) {
	p := declaring(t, "sm_90", ".global .b8 unused[3221225472];\n.global .b32 seven = 7;\n"+
		".global .b64 there = generic(seven);\n.const .b32 also[4];\n",
		"ld.global.u64 %rd2, [there]; ld.u32 %r1, [%rd2]; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r1;")
	if len(p.variables) != 2 {
		t.Errorf("%d variables, want 2: %v", len(p.variables), p.variables)
	}
	l := &Launch{Grid: line(1), Block: line(1), Args: []Arg{{Buffer: make([]byte, 4)}}, MaxMemory: 1 << 20}
	silent(t, run(t, p, l))
	equal(t, "output", l.Args[0].Buffer, word(7))
}

// TestMemoryOfACopy: with all checks, a launch that touches all of its tensors takes at most four times their bytes,
// the tensors among them. Beside that the program and the blocks of both workers take some 100 KiB, whatever its size.
func TestMemoryOfACopy(t *testing.T) {
	const elements = 1 << 20
	p := loadText(t, kernelText("ld.global.u32 %r20, [%rd11]; st.global.u32 [%rd12], %r20;"))
	l := textLaunch(elements/256, 256)
	l.Args[0].Buffer, l.Args[0].Role = words(elements), In
	l.Args[1].Buffer, l.Args[1].Role, l.Args[1].Uninitialised = make([]byte, 4*elements), Out, true
	l.Workers, l.MaxMemory = 2, 4*2*4*elements+1<<20
	silent(t, run(t, p, l))
	equal(t, "output", l.Args[1].Buffer[:256], l.Args[0].Buffer[:256])
}

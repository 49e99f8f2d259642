package ptxvm

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/ptx"
)

// loadBody loads a kernel whose parameters are x and y, two addresses, from its body.
func loadBody(t testing.TB, body string) *Program {
	t.Helper()
	const head = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y)\n{\n" +
		".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .pred %p<3>;\n.shared .align 16 .b8 s[8192];\n" +
		"ld.param.u64 %rd1, [x];\nld.param.u64 %rd2, [y];\nmov.u32 %r1, %tid.x;\n"
	f, err := ptx.Parse("k.ptx", head+body+"\nret;\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(f, "k")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFullWarpIsChecked: a load of neighbouring words by a full warp is looked at like any other.
func TestFullWarpIsChecked(t *testing.T) {
	p := loadBody(t, `mul.wide.u32 %rd3, %r1, 4;
		add.s64 %rd4, %rd1, %rd3;
		add.s64 %rd5, %rd2, %rd3;
		ld.global.u32 %r2, [%rd4];
		st.global.u32 [%rd5], %r2;`)
	for _, uninit := range []bool{false, true} {
		r, err := p.Run(&Launch{Grid: line(1), Block: line(32), Args: []Arg{
			{Name: "x", Buffer: make([]byte, 128), Role: In, Uninitialised: uninit, Element: 4},
			{Name: "y", Buffer: make([]byte, 128), Role: Out, Uninitialised: true, Element: 4}}})
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Class == Uninitialised })
		if found != uninit {
			t.Errorf("uninitialised = %v: findings %+v", uninit, r.Findings)
		}
	}
}

// TestTraffic: sectors and passes of accesses that can be counted by hand.
func TestTraffic(t *testing.T) {
	for _, tt := range []struct {
		name, body     string
		global, shared Traffic
	}{
		{name: "a row of words", body: `mul.wide.u32 %rd3, %r1, 4;
			add.s64 %rd4, %rd1, %rd3;
			ld.global.u32 %r2, [%rd4];`, global: Traffic{1, 128, 4, 4}},
		{name: "a row of bytes", body: `cvt.u64.u32 %rd3, %r1;
			add.s64 %rd4, %rd1, %rd3;
			ld.global.u8 %r2, [%rd4];`, global: Traffic{1, 32, 1, 1}},
		{name: "a column", body: `mul.wide.u32 %rd3, %r1, 128;
			add.s64 %rd4, %rd1, %rd3;
			st.global.u32 [%rd4], %r1;`, global: Traffic{1, 128, 32, 4}},
		{name: "one word for all", body: `ld.global.u32 %r2, [%rd1];`, global: Traffic{1, 128, 1, 1}},
		{name: "a row that begins within a sector", body: `mul.wide.u32 %rd3, %r1, 4;
			add.s64 %rd4, %rd1, %rd3;
			ld.global.u32 %r2, [%rd4+16];`, global: Traffic{1, 128, 5, 4}},
		{name: "banks in order", body: `shl.b32 %r2, %r1, 2;
			st.shared.u32 [%r2], %r1;`, shared: Traffic{1, 128, 1, 1}},
		{name: "every second bank", body: `shl.b32 %r2, %r1, 3;
			st.shared.u32 [%r2], %r1;`, shared: Traffic{1, 128, 2, 1}},
		{name: "one bank", body: `shl.b32 %r2, %r1, 7;
			st.shared.u32 [%r2], %r1;`, shared: Traffic{1, 128, 32, 1}},
		{name: "one word of one bank", body: `st.shared.u32 [s], %r1;`, shared: Traffic{1, 128, 1, 1}},
		{name: "16 bytes a thread", body: `shl.b32 %r2, %r1, 4;
			st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};`, shared: Traffic{1, 512, 4, 4}},
	} {
		p := loadBody(t, tt.body)
		r, err := p.Run(&Launch{Grid: line(1), Block: line(32), Checks: NoChecks, Counters: true,
			Args: []Arg{{Name: "x", Buffer: make([]byte, 8192)}, {Name: "y", Buffer: make([]byte, 8)}}})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if r.Counters.Global != tt.global || r.Counters.Shared != tt.shared {
			t.Errorf("%s: global %+v, shared %+v, want %+v and %+v", tt.name, r.Counters.Global, r.Counters.Shared, tt.global,
				tt.shared)
		}
	}
}

// TestCounters: instructions, branches and barriers, the same for any number of workers.
func TestCounters(t *testing.T) {
	p := loadBody(t, `setp.lt.u32 %p1, %r1, 8;
		@%p1 bra low;
		add.u32 %r2, %r1, 1;
	low:
		bar.sync 0;
		setp.lt.u32 %p2, %r1, 99;
		@%p2 bra done;
		add.u32 %r2, %r1, 2;
	done:
		@%p1 add.u32 %r2, %r1, 3;`)
	var first *Counters
	for _, workers := range []int{1, 4} {
		r, err := p.Run(&Launch{Grid: line(8), Block: line(32), Checks: NoChecks, Counters: true, Workers: workers,
			apart: true, Args: []Arg{{Name: "x", Buffer: make([]byte, 8)}, {Name: "y", Buffer: make([]byte, 8)}}})
		if err != nil {
			t.Fatal(err)
		}
		c := r.Counters
		if first == nil {
			first = c
		}
		if !reflect.DeepEqual(c, first) {
			t.Errorf("%d workers: %+v, want %+v", workers, c, first)
		}
		i := slices.IndexFunc(c.Mix, func(m Mnemonic) bool { return m.Name == "add.u32" })
		if i < 0 || c.Mix[i] != (Mnemonic{"add.u32", 16, 8 * (24 + 8)}) {
			t.Errorf("mix is %+v, want 16 add.u32 of 256 threads", c.Mix)
		}
		if c.Branches != 16 || c.Divergent != 8 || c.Barriers != 8 || c.Warps != r.Steps {
			t.Errorf("%+v, want 16 branches, 8 of them divergent, 8 barriers and %d instructions", c, r.Steps)
		}
	}
}

// TestTrace: every instruction in its order, with the lanes that execute it.
func TestTrace(t *testing.T) {
	p := loadBody(t, `setp.lt.u32 %p1, %r1, 4;
		@%p1 add.u32 %r2, %r1, 1;`)
	var got []string
	_, err := p.Run(&Launch{Grid: line(2), Block: line(8), Trace: func(s Step) {
		got = append(got, fmt.Sprintf("%d %#x %s", s.Block.X, s.Active, s.Instr.Op))
	}, Args: []Arg{{Name: "x", Buffer: make([]byte, 8)}, {Name: "y", Buffer: make([]byte, 8)}}})
	if err != nil {
		t.Fatal(err)
	}
	const block = "%d 0xff ld|%[1]d 0xff ld|%[1]d 0xff mov|%[1]d 0xff setp|%[1]d 0xf add|%[1]d 0xff ret"
	if want := fmt.Sprintf(block, 0) + "|" + fmt.Sprintf(block, 1); strings.Join(got, "|") != want {
		t.Errorf("trace is\n%s\nwant\n%s", strings.Join(got, "|"), want)
	}
}

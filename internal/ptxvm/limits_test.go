package ptxvm

import (
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// This file implements tests of what random programs have found, and of limits.

// TestFromFuzzing: programs that made the emulator panic or go on for ever.
func TestFromFuzzing(t *testing.T) {
	for _, c := range []struct {
		body  string
		class Class // of the only finding, "" for none
	}{
		// A branch to the next instruction, where lanes part without going different ways.
		{"setp.lt.u32 %p1, %r2, 7; @%p1 bra next; next: st.global.u32 [%rd4], %r2;", ""},
		// The time is read for an instruction that lanes execute together.
		{"shfl.sync.idx.b32 %r5, %r2, %clock, 31, -1; shfl.sync.bfly.b32 %r5, %r2, 1, 31, -1;", ""},
		// A copy that is larger than all memory.
		{"cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 0x3f800000; cp.async.bulk.commit_group;", OutOfBoundsRead},
	} {
		l := textLaunch(1, 32)
		l.Checks = CheckBounds | CheckBarrier
		r := run(t, loadText(t, kernelText("mad.wide.u32 %rd4, %r2, 4, %rd2; "+c.body)), l)
		if len(r.Findings) > 1 || len(r.Findings) == 1 != (c.class != "") || c.class != "" && r.Findings[0].Class != c.class {
			t.Errorf("%s: %v, want %q", c.body, r.Findings, c.class)
		}
	}
	for _, body := range []string{"bar.red.and.pred %p1, %p2;", "shfl.sync.idx.b32 %r5, %r2, 1, 31;"} {
		if _, err := loadModule(t, "", body); diag.CodeOf(err) != Unsupported || !strings.Contains(err.Error(), "operands") {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := loadModule(t, "", "call (%r5);"); diag.CodeOf(err) != Unsupported {
		t.Errorf("a call of nothing: %v", err)
	}
}

// TestUnderWay: a kernel that asks for copies without end is ended before they fill memory.
func TestUnderWay(t *testing.T) {
	for _, body := range []string{
		"again: cp.async.ca.shared.global [s], [%rd1], 4; bra again;",
		"again: cp.async.commit_group; bra again;",
		"again: cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 16; bra again;",
	} {
		l := textLaunch(1, 1)
		l.Checks, l.MaxSteps = NoChecks, 10*maxUnderWay
		if _, err := loadText(t, kernelText(body)).Run(l); diag.CodeOf(err) != MemoryLimit {
			t.Errorf("%s: %v, want %s", body, err, MemoryLimit)
		}
	}
}

// TestMemoryOfChecks: what the check for races keeps of accesses counts, and what is not touched does not.
func TestMemoryOfChecks(t *testing.T) {
	p := loadText(t, kernelText("mov.u32 %r5, 0; again: mad.wide.u32 %rd4, %r5, 4, %rd2; st.global.u32 [%rd4], %r5; "+
		"add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra again;"))
	const size = 1 << 20
	for _, c := range []struct {
		words  int
		checks Checks
		want   diag.Code
	}{{size / 4, AllChecks, MemoryLimit}, {size / 4, NoChecks, ""}, {100, AllChecks, ""}} {
		l := textLaunch(1, 1)
		l.Args[1].Buffer, l.Args[3].Value = make([]byte, size), word(c.words)
		l.Checks, l.MaxMemory = c.checks, 2*size+size/2 // the buffer, a copy of it, and some
		if _, err := p.Run(l); diag.CodeOf(err) != c.want {
			t.Errorf("%d words with checks %b: %v, want %q", c.words, c.checks, err, c.want)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// results are three builds: one without findings, one accused in one of its two launches, one that does not compile.
func results() map[string][]outcome {
	clean := outcome{build: build{Version: "3.6.0", Suite: "rows", Kernel: "softmax", Build: "softmax.sm_80"}, Count: 2,
		Silent: 2}
	blocks := build{Version: "3.6.0", Suite: "rows", Kernel: "matmul_blocks", Build: "matmul_blocks.sm_80"}
	accused := outcome{build: blocks, Count: 2, Silent: 1, Findings: []string{"a", "b"},
		Classes: []string{"race", "race"}, Wrong: []string{"out"}}
	failed := outcome{build: build{Version: "3.2.0", Suite: "rows", Kernel: "flip", Build: "flip.sm_80",
		Error: "at 8:28: def flip ^ module triton.language has no attribute flip, " +
			"module triton.language has no attribute flip"}}
	return map[string][]outcome{"3.2.0": {failed}, "3.6.0": {clean, accused}}
}

// TestRecord: the page has the sums of versions and of sources, the note on each alarm, and what does not compile.
func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.md")
	if err := writeRecord(path, []string{"3.2.0", "3.6.0"}, results()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 3.2.0 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 0 |\n",
		"| 3.6.0 | 2 | 2 | 0 | 4 | 3 | 1 | 0 | 1 |\n",
		"| all | 2 | 2 | 1 | 4 | 3 | 1 | 0 | 1 |\n",
		"| rows.py | 2 | 2 | 1 | 4 | 3 | 1 | 0 | 1 |\n",
		"| matmul_blocks | race, wrong output | 3.6.0 | 1 | compiler | ",
		"| flip | 3.2.0 | 1 | module triton.language has no attribute flip, |\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the record has no %q:\n%s", want, text)
		}
	}
}

// TestUnreadAlarm: the record is an error where findings.toml has nothing about an alarm.
func TestUnreadAlarm(t *testing.T) {
	list := results()
	list["3.6.0"][1].Kernel = "unheard_of"
	err := writeRecord(filepath.Join(t.TempDir(), "record.md"), []string{"3.2.0", "3.6.0"}, list)
	if err == nil || !strings.Contains(err.Error(), "unheard_of: race, wrong output: findings.toml has nothing about it") {
		t.Errorf("writeRecord = %v, want an error about unheard_of", err)
	}
}

// TestRefusals: a launch that is not executed is named by its instruction, and is no launch with findings.
func TestRefusals(t *testing.T) {
	o := outcome{Count: 2, Silent: 1,
		Refused: []string{"ptxvm-unsupported: k.ptx:6:2: tex.1d.v4 is not executed here (k.py:3)"}}
	if what, launches := alarms(&o); what != "not executed: `tex.1d.v4`" || launches != 1 {
		t.Errorf("alarms = %q, %d", what, launches)
	}
	var s sums
	s.add(&o)
	if s.accused() != 0 || s.refused != 1 {
		t.Errorf("%d launches with findings, %d refused, want 0 and 1", s.accused(), s.refused)
	}
}

// TestLastError: of an error of the compiler the record has what is wrong.
func TestLastError(t *testing.T) {
	for text, want := range map[string]string{
		"at 3:1: def f(x) ^ no gather": "no gather",
		"PTX codegen error: ptxas /tmp/a.ptx, line 86; error : Feature 'x' ... sm_80 /tmp/a.ptx": "ptxas: Feature 'x'",
	} {
		if got := lastError(text); got != want {
			t.Errorf("lastError(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestBuildsMissing: a version that nothing was compiled by is an error.
func TestBuildsMissing(t *testing.T) {
	if _, err := readBuilds(t.TempDir(), "3.6.0"); err == nil || !strings.Contains(err.Error(), "make triton-versions") {
		t.Errorf("readBuilds = %v, want what to do", err)
	}
}

// TestNotes: every note of findings.toml is complete, and none stands for all kernels.
func TestNotes(t *testing.T) {
	notes, err := readNotes(findingsText)
	if err != nil || len(notes) == 0 {
		t.Fatalf("readNotes = %d notes, %v", len(notes), err)
	}
	for name, n := range notes {
		if !slices.Contains([]string{"kernel", "compiler", "emulator", "not executed"}, n.Verdict) {
			t.Errorf("%s: verdict %q", name, n.Verdict)
		}
	}
	if _, err := readNotes([]byte("[[note]]\nkernel = 'k'\nverdict = 'kernel'\n")); err == nil {
		t.Error("a note without a reason is taken")
	}
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestJudge: the rate counts CPU time, and a target below the floor fails.
func TestJudge(t *testing.T) {
	const log = "fuzz: elapsed: 0s, gathering baseline coverage: 2/2 completed\n" +
		"fuzz: elapsed: 3s, execs: 900 (300/sec)\nfuzz: elapsed: 6s, execs: 2000 (366/sec), new interesting: 1\nPASS\n"
	for _, tt := range []struct {
		name, log string
		cpu       time.Duration
		floor     float64
		ok        bool
		line      string
	}{
		{"above the floor", log, 2 * time.Second, 500, true, "ok  : 2000 executions in 2.00 s of CPU, 1000 per second"},
		{"no floor", log, time.Hour, 0, true, "ok  : 2000 executions in 3600.00 s of CPU, 1 per second"},
		{"below the floor", log, 10 * time.Second, 500, false, "FAIL: 2000 executions in 10.00 s of CPU, 200 per second, " +
			"the floor is 500: make the target faster or replace it"},
		{"no log", "PASS\n", time.Second, 500, false, "FAIL: the log has no number of executions"},
	} {
		ok, line := judge([]byte(tt.log), tt.cpu, tt.floor)
		if ok != tt.ok || line != tt.line {
			t.Errorf("%s: %v, %q, want %v, %q", tt.name, ok, line, tt.ok, tt.line)
		}
	}
}

// TestRun runs the targets of a small module: one that passes and one that fails, and both with a floor that nothing
// reaches.
func TestRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a module")
	for name, text := range map[string]string{
		"go.mod": "module gpuemu\n\ngo 1.26\n",
		"p.go":   "package p\n",
		"p_test.go": `package p
import "testing"
func FuzzFast(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) {}) }
func FuzzWrong(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) { t.Error("wrong") }) }
`,
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var log bytes.Buffer
	for _, tt := range []struct {
		floor   float64
		err     string
		results []string
	}{
		{0, "1 of 2 targets failed", []string{
			"ok   gpuemu FuzzFast: 20 executions in ", "FAIL gpuemu FuzzWrong: exit status 1\n", "2 fuzz targets, 1 failed\n"}},
		{1e12, "2 of 2 targets failed", []string{"FAIL gpuemu FuzzFast: 20 executions in ", "2 fuzz targets, 2 failed\n"}},
	} {
		var out bytes.Buffer
		err := (&run{limit: "20x", floor: tt.floor, out: &out, err: &log}).all(t.Context())
		if err == nil || err.Error() != tt.err {
			t.Errorf("floor %g: the run ends with %v, want %s", tt.floor, err, tt.err)
		}
		for _, want := range tt.results {
			if !strings.Contains("\n"+out.String(), "\n"+want) {
				t.Errorf("floor %g: no %q in\n%s", tt.floor, want, out.String())
			}
		}
	}
	if !strings.Contains(log.String(), "wrong") {
		t.Errorf("the log of the target that fails is not there:\n%s", log.String())
	}
}

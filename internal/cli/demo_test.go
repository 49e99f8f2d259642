package cli

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"gpuemu/internal/command"
	"gpuemu/internal/demo"
	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
)

// demoRows are a right kernel, a wrong one, a false alarm, a miss and one that could not be judged.
func demoRows() []demo.Row {
	fail := &demo.Failure{Short: "float32 B=1 H=33", Seed: 7, DiagnosisOfFirst: true,
		Diagnosis: "all 12 errors lie in column 32 of 33, which is the first of the last tile: its mask is off by " +
			"one element"}
	small := &demo.Failure{Short: "float32 B=1 H=1", Diagnosis: "1 of 1 elements are wrong"}
	return []demo.Row{
		{Entry: demo.Entry{ID: "sum_rows", What: "sum of a row, one warp a row, with shuffles"},
			Allclose: demo.Allclose{Accepts: true}, Verdict: verdict.Pass, Cases: 12},
		{Entry: demo.Entry{ID: "max_rows", What: "maximum of a row"}, Verdict: verdict.Fail, Cases: 3, Fail: small},
		{Entry: demo.Entry{ID: "real.a_kernel_with_a_long_name_1", What: "last tile is skipped", Ref: "a/b#1", Broken: true},
			Allclose: demo.Allclose{Accepts: true}, Verdict: verdict.Fail, Cases: 2, Fail: fail},
		{Entry: demo.Entry{ID: "sum_rows.x.1", What: "one element too many", Broken: true}, Verdict: verdict.Pass,
			Cases: 100},
		{Entry: demo.Entry{ID: "sum_rows.x.2", What: "hangs", Broken: true}, Verdict: verdict.NotRun, Cases: 1,
			Message: "the emulator stopped sum_rows after 30s"},
	}
}

func printDemo(width int, color bool) string {
	var b bytes.Buffer
	term := newTerminal(Env{Stdout: &b, Stderr: &bytes.Buffer{}})
	term.outColor = color
	d := &demonstration{term: term, width: width}
	d.head(5)
	rows := demoRows()
	for i := range rows {
		d.row(&rows[i])
	}
	d.foot(&demo.Document{Kernels: rows, Seconds: 1.25, Summary: demo.Summary{Sound: 2, Broken: 3, Cases: 118,
		AllcloseAccepts: 1, Found: 1, FalseAlarms: 1, NotRun: 1}})
	term.flush()
	return b.String()
}

func TestDemoNarrow(t *testing.T) {
	const want = `5 compiled kernels on the CPU, and what two ways of testing say of them:
  allclose  one shape of powers of two, normal values, atol = rtol = 0.01
  gpuemu    generated cases, bounds of honest errors, every memory access checked

correct kernel            allclose  gpuemu           what it does
sum_rows                  accepts   ok in 12 cases   sum of a row, one warp a r…
max_rows                  rejects   FAIL at case 3
    maximum of a row
    smallest case float32 B=1 H=1: 1 of 1 elements are wrong

broken kernel             allclose  gpuemu
real.a_kernel_with_a_long_name_1 accepts   FAIL at case 2
    last tile is skipped (a/b#1)
    smallest case float32 B=1 H=33; in case 2 all 12 errors lie in column 32 of
    33, which is the first of the last tile: its mask is off by one element
sum_rows.x.1              rejects   ok in 100 cases
    one element too many
sum_rows.x.2              rejects   not run
    hangs
    the emulator stopped sum_rows after 30s

accepted by allclose though wrong: 1 of 3
found by gpuemu:                   1 of 3
false alarms:                      1 of 2 (118 cases of all kernels in 1.2 s)
not judged:                        1

next: gpuemu demo --keep DIR   leaves the project, for reproduce and minimize
      gpuemu init              makes a project of your own kernels
`
	if got := printDemo(80, false); got != want {
		t.Errorf("80 columns:\n%s\nwant\n%s", got, want)
	}
	for _, line := range strings.Split(printDemo(60, false), "\n")[4:] {
		if n := len([]rune(line)); n > 60 && !strings.Contains(line, "emu") && !strings.Contains(line, "false") {
			t.Errorf("a line of %d characters on 60 columns: %q", n, line)
		}
	}
	// Without a terminal nothing is cut off.
	if got := printDemo(0, false); strings.Contains(got, "…") ||
		!strings.Contains(got, "one warp a row, with shuffles\n") ||
		!strings.Contains(got, "first of the last tile: its mask is off by one element\n") {
		t.Errorf("without a terminal:\n%s", got)
	}
}

func TestDemoWide(t *testing.T) {
	got := printDemo(180, false)
	for _, want := range []string{
		"sum_rows                  sum of a row, one warp a row, with shuffles   accepts   ok in 12 cases\n",
		"broken kernel             what is wrong                                 allclose  gpuemu           smallest",
		"accepts   FAIL at case 2   float32 B=1 H=33                      in case 2 all 12 errors lie in column 32 o…\n",
		"not run                                                the emulator stopped sum_rows after 30s\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("180 columns have no %q:\n%s", want, got)
		}
	}
	for _, line := range strings.Split(got, "\n") {
		if n := len([]rune(line)); n > 180 {
			t.Errorf("a line of %d characters on 180 columns: %q", n, line)
		}
	}
}

// TestTitlesFit: what is wrong with a kernel that the demo shows is never cut off.
func TestTitlesFit(t *testing.T) {
	shown := 0
	for _, e := range demo.All() {
		if !e.Shown || !e.Broken {
			continue
		}
		shown++
		if n := len([]rune(e.What)); n > whatColumn-2 {
			t.Errorf("%s: %q has %d characters, want at most %d", e.ID, e.What, n, whatColumn-2)
		}
	}
	if shown == 0 {
		t.Error("the demo shows no bug")
	}
}

func TestDemoColours(t *testing.T) {
	got := printDemo(80, true)
	for _, want := range []string{
		"sum_rows                  \x1b[32maccepts   \x1b[0m\x1b[32mok in 12 cases",
		"\x1b[31mrejects   \x1b[0m\x1b[31mFAIL at case 3", // a false alarm of both
		"\x1b[31maccepts   \x1b[0m\x1b[32mFAIL at case 2",
		"\x1b[32mrejects   \x1b[0m\x1b[31mok in 100 cases",
		"\x1b[31mnot run",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q:\n%q", want, got)
		}
	}
}

func TestColumns(t *testing.T) {
	env := func(text string) func(string) string {
		return func(name string) string {
			if name != "COLUMNS" {
				return ""
			}
			return text
		}
	}
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, tt := range []struct {
		w    any
		text string
		want int
	}{{&bytes.Buffer{}, "", 0}, {file, "", 0}, {file, "132", 132}, {file, "-3", 0}, {file, "wide", 0}} {
		if got := columns(tt.w, env(tt.text)); got != tt.want {
			t.Errorf("columns(%T, %q) = %d, want %d", tt.w, tt.text, got, tt.want)
		}
	}
}

// TestDemoStatus: a missed bug is not hidden by a right kernel that could not be judged.
func TestDemoStatus(t *testing.T) {
	sound := func(v verdict.Verdict) demo.Row { return demo.Row{Verdict: v} }
	broken := func(v verdict.Verdict) demo.Row { return demo.Row{Entry: demo.Entry{Broken: true}, Verdict: v} }
	for name, tt := range map[string]struct {
		rows    []demo.Row
		summary demo.Summary
		want    int
	}{
		"as expected": {[]demo.Row{sound(verdict.Pass), broken(verdict.Fail)}, demo.Summary{Sound: 1, Broken: 1, Found: 1},
			0},
		"false alarm": {[]demo.Row{sound(verdict.Fail)}, demo.Summary{Sound: 1, FalseAlarms: 1}, command.ExitFailed},
		"missed": {[]demo.Row{sound(verdict.NotRun), broken(verdict.Pass)}, demo.Summary{Sound: 1, Broken: 1, NotRun: 1},
			command.ExitFailed},
		"not judged": {[]demo.Row{broken(verdict.NotRun)}, demo.Summary{Broken: 1, NotRun: 1}, command.ExitNotRun},
	} {
		got := 0
		var status *command.Status
		if errors.As(demoStatus(&demo.Document{Kernels: tt.rows, Summary: tt.summary}), &status) {
			got = status.Code
		}
		if got != tt.want {
			t.Errorf("%s: exit code %d, want %d", name, got, tt.want)
		}
	}
}

// TestFileFault: a full disk has a code; what has one keeps it, and an interruption is none.
func TestFileFault(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "ptx/k.ptx", Err: syscall.ENOSPC}
	for _, tt := range []struct {
		err  error
		want diag.Code
	}{{full, WriteFailed}, {diag.Errorf(Usage, "", "x: %w", full), Usage}, {context.Canceled, ""}} {
		got := fileFault(tt.err)
		if diag.CodeOf(got) != tt.want || !errors.Is(got, tt.err) {
			t.Errorf("fileFault(%v) = %v, want code %q", tt.err, got, tt.want)
		}
	}
}

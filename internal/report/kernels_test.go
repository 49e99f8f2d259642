package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"gpuemu/internal/artifact"
	"gpuemu/internal/diag"
	"gpuemu/internal/inspect"
	"gpuemu/internal/verdict"
)

// withLint is a document of one passing case whose compiled kernels were looked at.
func withLint(t *testing.T) *Document {
	t.Helper()
	doc := lintDocument(t)
	text, err := json.Marshal(doc.Short())
	if err != nil {
		t.Fatal(err)
	}
	d := documentOf(passing(0, "a", "float32", 1e-8))
	d.Summary.Lint = &verdict.Lint{Kernels: doc.Total, Errors: doc.Errors, Notes: doc.Notes, Unread: len(doc.Unread),
		Report: text}
	d.Artifacts = doc.Snapshot()
	return d
}

// TestReportWithLint: every format tells what is wrong with a kernel, and JSON comes back as it was.
func TestReportWithLint(t *testing.T) {
	d := withLint(t)
	src := d.Source()
	if src.ExitCode() != 1 || src.Conclusion() != "FAILED: 3 errors in compiled kernels" {
		t.Errorf("exit code %d, %q", src.ExitCode(), src.Conclusion())
	}
	var text, junit, out bytes.Buffer
	for _, err := range []error{Text(&text, src, TextOptions{}), JUnit(&junit, src), JSON(&out, src)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"compiled kernels: FAILED: 3 errors in 1 of 1 kernel, 1 noted, 1 not looked at\n",
		"16 bytes of local memory", "not looked at: gone: ", "net/k:k  sm_80  ptx "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	if fault := junitFault(junit.Bytes()); fault != "" {
		t.Error(fault)
	}
	for _, want := range []string{`<testsuite name="lint" tests="2" failures="1" errors="1" skipped="0"`,
		`<testcase name="net/k (k) sm_80" classname="gpuemu.lint"`, `type="artifact-unreadable"`} {
		if !strings.Contains(junit.String(), want) {
			t.Errorf("the XML lacks %q:\n%s", want, junit.String())
		}
	}
	back, err := Read(&out, "x.json")
	if err != nil {
		t.Fatal(err)
	}
	if back.Summary.Lint.Errors != 3 || len(back.Artifacts.Kernels) != 1 || len(back.Artifacts.Texts) != 1 {
		t.Errorf("read back: %+v, %+v", back.Summary.Lint, back.Artifacts)
	}
	merged, err := Merge([]*Document{back})
	if err != nil || merged.Summary.Lint == nil || merged.Artifacts == nil || merged.Summary.ExitCode() != 1 {
		t.Errorf("Merge: %+v, %v", merged, err)
	}
}

// TestReportWithoutDetails: counts alone are a line; unread kernels alone make the run not green.
func TestReportWithoutDetails(t *testing.T) {
	d := withLint(t)
	d.Summary.Lint.Report, d.Summary.Lint.Errors, d.Artifacts = nil, 0, nil
	src := d.Source()
	var text bytes.Buffer
	if err := Text(&text, src, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "compiled kernels: 1 looked at, 0 errors, 1 noted, 1 not looked at; ") ||
		!strings.HasSuffix(text.String(), "not green: 1 of 2 compiled kernels could not be looked at\n") {
		t.Error(text.String())
	}
	d.Summary.Lint.Report = json.RawMessage(`{"kernels": 7}`)
	src = d.Source()
	if err := Text(&text, src, TextOptions{}); diag.CodeOf(err) != Inconsistent {
		t.Errorf("Text of damaged details: %v", err)
	}
	if err := JUnit(&text, src); diag.CodeOf(err) != Inconsistent {
		t.Errorf("JUnit of damaged details: %v", err)
	}
}

// TestReadRefusesArtifacts: kernels of a newer form, or without what they are known by, are no baseline.
func TestReadRefusesArtifacts(t *testing.T) {
	var out bytes.Buffer
	if err := JSON(&out, withLint(t).Source()); err != nil {
		t.Fatal(err)
	}
	for old, bad := range map[string]string{`"gpuemu_artifacts": 1`: `"gpuemu_artifacts": 2`,
		`"kernel": "k",
          "arch": "sm_80",
          "sources"`: `"kernel": "",
          "arch": "sm_80",
          "sources"`} {
		if !strings.Contains(out.String(), old) {
			t.Fatalf("the report lacks %q", old)
		}
		_, err := Read(strings.NewReader(strings.Replace(out.String(), old, bad, 1)), "x.json")
		if diag.CodeOf(err) != inspect.BadSnapshot {
			t.Errorf("Read with %q: %v", bad, err)
		}
	}
}

// kernelComparison has one kernel of each fate.
func kernelComparison() *Comparison {
	figure := artifact.FigureChange{Name: "registers", Old: 40, New: 52, Delta: 12, Origin: artifact.FromCubin,
		Regression: true}
	return &Comparison{Name: "v1", Artifacts: &inspect.Comparison{Common: 2, Changed: 2, Regressed: 1, New: 1, Vanished: 1,
		Threshold: 0.1, Kernels: []inspect.Change{
			{Name: "worse", Change: artifact.Change{Kernel: "w", Arch: "sm_90", Status: artifact.Changed, Regression: true,
				Figures: []artifact.FigureChange{figure}, Unmatched: []string{"spill_stores"}}},
			{Name: "other", Change: artifact.Change{Kernel: "other", Status: artifact.Changed}, Code: &inspect.CodeChange{
				Rank: "constants", Omitted: 3, Changes: []inspect.CodeEdit{
					{Message: "first", New: &inspect.CodeSpot{File: "k.ptx", Line: 9, SourceFile: "k.cu", SourceLine: 2}},
					{Message: "second", Old: &inspect.CodeSpot{File: "old.ptx", Line: 4}}, {Message: "third"}, {Message: "fourth"}}}},
			{Name: "fresh", Change: artifact.Change{Kernel: "fresh", Status: artifact.New}},
			{Name: "gone", Change: artifact.Change{Kernel: "gone", Status: artifact.Vanished}},
			{Name: "odd", Change: artifact.Change{Kernel: "odd", Status: artifact.Same},
				Code: &inspect.CodeChange{Failed: "\x1bbroken"}},
		}}}
}

func TestArtifactLines(t *testing.T) {
	c := kernelComparison()
	want := `baseline "v1": it has no cases
kernels: 1 regression, 2 of 2 in common changed, 1 new, 1 vanished (threshold 10 %)
regression: worse (w): registers 40 -> 52 (+12, cubin) is worse, spill stores cannot be compared
changed: other: code: other constants
  k.ptx:9 (k.cu:2): first
  old.ptx:4: second
  third
  and 4 other changes
new: fresh is not in the baseline
vanished: gone is in the baseline and not here
note: the code of odd was not compared: \x1bbroken
`
	if got := ComparisonText(c, false); got != want {
		t.Errorf("ComparisonText:\n%s\nwant:\n%s", got, want)
	}
	if got := ComparisonText(c, true); !strings.Contains(got, "  fourth\n  and 3 other changes\n") {
		t.Errorf("ComparisonText, verbose:\n%s", got)
	}
	if c.Worse() != 1 || c.NothingInCommon() {
		t.Errorf("Worse() = %d, NothingInCommon() = %v", c.Worse(), c.NothingInCommon())
	}
	c.Cases = 3
	if !c.NothingInCommon() {
		t.Error("no case of three in common is nothing in common")
	}
}

func TestComparisonJUnit(t *testing.T) {
	c := kernelComparison()
	c.Unread = []string{"lost: no such file"}
	for _, tt := range []struct {
		fail bool
		want string
	}{{true, `tests="7" failures="1" errors="1"`}, {false, `tests="7" failures="0" errors="1"`}} {
		var b bytes.Buffer
		if err := ComparisonJUnit(&b, c, tt.fail); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), tt.want) {
			t.Errorf("fail %v: no %q in\n%s", tt.fail, tt.want, b.String())
		}
		if fault := junitFault(b.Bytes()); fault != "" {
			t.Error(fault)
		}
	}
}

// TestKernelsOfOneEntryInJUnit: readers of JUnit know a case by its name alone, so each kernel has its own; what
// changed is told also where it fails nothing.
func TestKernelsOfOneEntryInJUnit(t *testing.T) {
	c := kernelComparison()
	c.Artifacts.Kernels = append(c.Artifacts.Kernels,
		inspect.Change{Name: "worse", Change: artifact.Change{Kernel: "v", Arch: "sm_90", Status: artifact.Vanished}})
	var b bytes.Buffer
	if err := ComparisonJUnit(&b, c, false); err != nil {
		t.Fatal(err)
	}
	if fault := junitFault(b.Bytes()); fault != "" {
		t.Error(fault)
	}
	for _, want := range []string{`name="kernel worse (w) sm_90"`, `name="kernel worse (v) sm_90"`,
		`message="worse (v) is in the baseline and not here"`, `name="kernel other"`, "code: other constants",
		"k.ptx:9 (k.cu:2): first", "fourth", "fresh is not in the baseline", "the code of odd was not compared"} {
		if strings.Count(b.String(), want) != 1 {
			t.Errorf("no %q, or more than one, in\n%s", want, b.String())
		}
	}
	doc := lintDocument(t)
	other := doc.Kernels[0]
	other.Kernel = "l"
	doc.Kernels = append(doc.Kernels, other)
	if cases := lintCases(doc); cases[0].name != "net/k (k) sm_80" || cases[1].name != "net/k (l) sm_80" {
		t.Errorf("cases of lint are called %q and %q", cases[0].name, cases[1].name)
	}
}

// TestNotesPassInJUnit: a note fails nothing, in no format.
func TestNotesPassInJUnit(t *testing.T) {
	doc := lintDocument(t)
	k := &doc.Kernels[0]
	k.Violations = k.Violations[:1]
	if k.Violations[0].Severity != artifact.Note {
		t.Fatalf("the first violation is %+v", k.Violations[0])
	}
	if cases := lintCases(doc); cases[0].fault != "" || cases[0].body != nil || cases[1].fault != "error" {
		t.Errorf("lintCases = %+v", cases)
	}
}

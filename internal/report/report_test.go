package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gpuemu/internal/diag"
	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// evil is what a kernel may print: terminal commands, XML, direction marks, bytes that are no UTF-8.
const evil = "\x1b[2J\x07 ]]></system-out><x a='\"&\u202e\u009b31m\x00\xff\ufffe"

type writer func(io.Writer, Source) error

func text(opt TextOptions) writer {
	return func(w io.Writer, s Source) error { return Text(w, s, opt) }
}

func written(t *testing.T, write writer, s Source) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	for name, write := range map[string]writer{
		"text": text(TextOptions{}), "verbose": text(TextOptions{Verbose: true}), "narrow": text(TextOptions{Width: 60}),
		"color": text(TextOptions{Color: true}), "json": JSON, "junit": JUnit,
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Golden(t, "testdata/everything."+name, written(t, write, everything("").Source()))
		})
	}
	for name, d := range map[string]*Document{"nothing": documentOf(),
		"green": documentOf(passing(0, "softmax", "float32", 1e-8))} {
		testkit.Golden(t, "testdata/"+name+".text", written(t, text(TextOptions{}), d.Source()))
		testkit.Golden(t, "testdata/"+name+".junit", written(t, JUnit, d.Source()))
	}
}

// TestNothingSteersATerminal: whatever a kernel prints, the report has no control characters but its own newlines.
func TestNothingSteersATerminal(t *testing.T) {
	for name, write := range map[string]writer{
		"text": text(TextOptions{}), "verbose": text(TextOptions{Verbose: true, Width: 40}), "json": JSON, "junit": JUnit,
	} {
		out := written(t, write, everything(evil).Source())
		if !utf8.Valid(out) {
			t.Errorf("%s: the output is not UTF-8", name)
		}
		for i, r := range string(out) {
			if r != '\n' && unicode.IsControl(r) || name != "json" && r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%s: %U stands in the output: %q", name, r, out[max(0, i-20):i+10])
				break
			}
		}
		if name != "json" && !bytes.Contains(out, []byte(`\x1b[2J`)) {
			t.Errorf("%s: an escape character is not shown as \\x1b", name)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for _, d := range []*Document{everything(""), documentOf(), documentOf(passing(0, "softmax", "float32", 0))} {
		first := written(t, JSON, d.Source())
		got, err := Read(bytes.NewReader(first), "results.json")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, d) {
			t.Errorf("Read(JSON(d)) = %+v, want %+v", got, d)
		}
		if again := written(t, JSON, got.Source()); !bytes.Equal(again, first) {
			t.Errorf("JSON(Read(x)) differs from x")
		}
		whole, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var streamed, plain bytes.Buffer
		if err := errors.Join(json.Compact(&streamed, first), json.Compact(&plain, whole)); err != nil {
			t.Fatal(err)
		}
		if streamed.String() != strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(plain.String()) {
			t.Errorf("the streamed form is not that of Document:\n%s\n%s", &streamed, &plain)
		}
	}
}

// TestOddNumbers: one infinite error must not cost the report.
func TestOddNumbers(t *testing.T) {
	r := passing(0, "softmax", "float32", 0)
	r.Outputs[0].MaxRatio = math.Inf(1)
	out := written(t, JSON, documentOf(r).Source())
	got, err := Read(bytes.NewReader(out), "x")
	if err != nil {
		t.Fatal(err)
	}
	if got.Results[0].Outputs[0].MaxRatio != math.MaxFloat64 || got.Summary.Ops[0].MaxRatio != math.MaxFloat64 {
		t.Errorf("an infinite error is read back as %+v", got)
	}
}

func TestReadRefuses(t *testing.T) {
	good := string(written(t, JSON, everything("").Source()))
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the report has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for _, c := range []struct {
		name, text string
		code       diag.Code
		part       string
	}{
		{"empty", "", NotAReport, "is empty"},
		{"no JSON", "PASSED\n", NotAReport, "invalid character"},
		{"prose in front", "running …\n" + good, NotAReport, "invalid character"},
		{"array", "[]", NotAReport, "want {"},
		{"other JSON", `{"a": 1}`, NotAReport, `no "gpuemu_report"`},
		{"cut", good[:len(good)/2], NotAReport, "ends in the middle"},
		{"cut at the end", strings.TrimSpace(good)[:len(good)-3], NotAReport, "ends in the middle"},
		{"two reports", good + good, NotAReport, "follows"},
		{"garbage behind", good + "x", NotAReport, "invalid character"},
		{"UTF-16", "\xff\xfe{\x00", NotAReport, "UTF-16"},
		{"version 2", replace(`"gpuemu_report": 1`, `"gpuemu_report": 2`), BadVersion, "format 2"},
		{"version text", replace(`"gpuemu_report": 1`, `"gpuemu_report": "1"`), NotAReport, "string"},
		{"no results", replace(`"results"`, `"result"`), NotAReport, `no "results"`},
		{"results null", `{"gpuemu_report":1,"summary":{},"results":null}`, NotAReport, "want ["},
		{"twice", replace(`"version"`, `"summary"`), NotAReport, ""},
		{"key twice", replace(`"version": "1.2.3"`, `"notes": ["x"]`), NotAReport, "twice"},
		{"verdict", replace(`"verdict":"pass"`, `"verdict":"passed"`), BadResult, "result 1: unknown verdict"},
		{"flipped verdict", replace(`"verdict":"fail"`, `"verdict":"pass"`), Inconsistent, "not those of the summary"},
		{"negative index", replace(`"index":1,`, `"index":-1,`), BadResult, "result 2: index -1"},
		{"no op", replace(`"op":"softmax","dtype"`, `"op":"","dtype"`), BadResult, "names no op"},
		{"other op", replace(`"op":"softmax","dtype"`, `"op":"relu","dtype"`), Inconsistent, `of op "relu"`},
		{"too many wrong", replace(`"mismatched":3`, `"mismatched":3000`), BadResult, "3000 wrong of 1024"},
		{"huge number", replace(`"max_abs":0.5`, `"max_abs":1e999`), BadResult, "1e999"},
		{"bad seed", replace(`"seed":"1001"`, `"seed":"-1"`), BadResult, "seed"},
		{"negative duration", replace(`"duration_ns":1500000`, `"duration_ns":-1`), BadResult, "negative"},
		{"deep", `{"x":` + strings.Repeat("[", 20000), NotAReport, "depth"},
	} {
		doc, err := Read(strings.NewReader(c.text), "old.json")
		if doc != nil || diag.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.part) ||
			!strings.HasPrefix(err.Error(), "old.json: ") {
			t.Errorf("%s: Read = %v, %v, want code %s and %q", c.name, doc != nil, err, c.code, c.part)
		}
	}
	if _, err := Read(strings.NewReader("\xef\xbb\xbf"+good), "bom.json"); err != nil {
		t.Errorf("a byte order mark: %v", err)
	}
	later := replace(`"version"`, `"later": {"a": [1]}, "version"`)
	if _, err := Read(strings.NewReader(later), "later.json"); err != nil {
		t.Errorf("a key of a later version: %v", err)
	}
}

func TestReadLimits(t *testing.T) {
	good := string(written(t, JSON, everything("").Source()))
	for _, c := range []struct {
		max limits
		ok  bool
	}{
		{limits{int64(len(good)), 7}, true}, {limits{int64(len(good)) - 1, 7}, false}, {limits{10, 7}, false},
		{limits{int64(len(good)), 6}, false},
	} {
		_, err := read(strings.NewReader(good), "big.json", c.max)
		if (err == nil) != c.ok || err != nil && diag.CodeOf(err) != TooLarge {
			t.Errorf("read with %+v: %v, want success: %v", c.max, err, c.ok)
		}
	}
	long := strings.Replace(good, `"candidate":"`, `"candidate":"`+strings.Repeat("x", maxResultBytes), 1)
	if _, err := Read(strings.NewReader(long), "big.json"); diag.CodeOf(err) != TooLarge {
		t.Errorf("a result of %d bytes: %v", maxResultBytes, err)
	}
	many := strings.Replace(good, `"outputs":[`, `"outputs":[`+strings.Repeat("{},", maxOutputs), 1)
	if _, err := Read(strings.NewReader(many), "big.json"); diag.CodeOf(err) != BadResult {
		t.Errorf("%d outputs: %v", maxOutputs, err)
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadFile(filepath.Join(dir, "none.json")); !errors.Is(err, os.ErrNotExist) ||
		diag.CodeOf(err) != Unreadable || strings.Count(err.Error(), "none.json") != 1 {
		t.Errorf("ReadFile of nothing: %v", err)
	}
	if _, err := ReadFile(dir); diag.CodeOf(err) != Unreadable {
		t.Errorf("ReadFile of a directory: %v", err)
	}
	path := filepath.Join(dir, "r.json")
	if err := os.WriteFile(path, written(t, JSON, everything("").Source()), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := ReadFile(path); err != nil || d.Name != path || len(d.Results) != 7 {
		t.Errorf("ReadFile = %+v, %v", d, err)
	}
}

// TestSourceMustAgree: a summary that says something else than the results is refused by every writer.
func TestSourceMustAgree(t *testing.T) {
	for name, write := range map[string]writer{"text": text(TextOptions{}), "json": JSON, "junit": JUnit} {
		s := everything("").Source()
		s.Summary.Passed, s.Summary.Failed = s.Summary.Passed+1, s.Summary.Failed-1
		var b bytes.Buffer
		if err := write(&b, s); diag.CodeOf(err) != Inconsistent {
			t.Errorf("%s: %v, want code %s", name, err, Inconsistent)
		}
		if name == "json" && json.Valid(b.Bytes()) {
			t.Error("what JSON left behind after an error is a valid report")
		}
	}
	// Results that change between two passes must not give attributes of other results.
	s, pass := everything("").Source(), 0
	each := s.Each
	s.Each = func(yield func(*verdict.Result) error) error {
		pass++
		n := 0
		return each(func(r *verdict.Result) error {
			if n++; pass > 1 && n == 3 {
				return nil
			}
			return yield(r)
		})
	}
	if err := JUnit(io.Discard, s); diag.CodeOf(err) != Inconsistent {
		t.Errorf("JUnit of changing results: %v, want code %s", err, Inconsistent)
	}
}

// failingWriter fails after some bytes: a full disk is reported by every writer.
type failingWriter struct{ left int }

func (f *failingWriter) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestWriteErrors(t *testing.T) {
	boom := errors.New("boom")
	for name, write := range map[string]writer{"text": text(TextOptions{}), "json": JSON, "junit": JUnit} {
		if err := write(&failingWriter{100}, everything("").Source()); err == nil {
			t.Errorf("%s: a full disk is not reported", name)
		}
		s := everything("").Source()
		s.Each = func(func(*verdict.Result) error) error { return boom }
		if err := write(io.Discard, s); !errors.Is(err, boom) {
			t.Errorf("%s: error of the results: %v", name, err)
		}
	}
}

func TestConclusion(t *testing.T) {
	regressed := documentOf(passing(0, "a", "float32", 0)).Source()
	regressed.Summary.Regressions = 2
	uncommon := documentOf(passing(0, "a", "float32", 0)).Source()
	uncommon.Baseline = &Comparison{Name: "main", Cases: 3}
	skipped := documentOf(passing(0, "a", "float32", 0)).Source()
	skipped.Baseline = NoBaseline("b.json", "there is no such file")
	cut := documentOf(passing(0, "a", "float32", 0)).Source()
	cut.Summary.Planned, cut.Summary.Stopped = 5, "time-limit"
	limited := documentOf(passing(0, "a", "float32", 0)).Source()
	limited.Summary.Complete, limited.Summary.PlannedTotal, limited.Summary.Stopped = false, 1000, "time-limit"
	for _, c := range []struct {
		s    Source
		code int
		want string
	}{
		{limited, 0, "passed: 1 of 1 cases; time-limit ended it, 1000 cases were asked for"},
		{documentOf(passing(0, "a", "float32", 0)).Source(), 0, "passed: 1 of 1 cases"},
		{everything("").Source(), 1, "FAILED: 2 of 7 cases failed (1 with an error), 2 passed, 2 not run, 1 undecided; " +
			"2 regressions against baseline \"main\""},
		{regressed, 1, "FAILED: 2 regressions against the baseline"},
		{documentOf().Source(), 3, "not green: nothing ran"},
		{documentOf(notRun(0, "a", "float32")).Source(), 3, "not green: 1 of 1 cases were not run, 0 passed"},
		{documentOf(undecided(0, "a", "float32")).Source(), 3,
			"not green: 1 of 1 cases of a are undecided, more than 10 %"},
		{cut, 3, "not green: 1 of 5 planned cases were finished (time-limit)"},
		{uncommon, 3, `not green: no case in common with baseline "main"`},
		{skipped, 0, "passed: 1 of 1 cases"},
	} {
		if got := c.s.Conclusion(); got != c.want || c.s.ExitCode() != c.code {
			t.Errorf("Conclusion() = %q (%d), want %q (%d)", got, c.s.ExitCode(), c.want, c.code)
		}
	}
}

// The command names the case by its text: a seed means something only where the case is stored.
func TestReplay(t *testing.T) {
	text := caseText("softmax", "float32", 17, 3)
	for _, c := range []struct{ text, want string }{
		{text, "gpuemu reproduce '" + text + "'"},
		{"it's", `gpuemu reproduce 'it'\''s'`},
		{"", ""},
	} {
		if got := Replay(&verdict.Result{Op: "a", Case: c.text, Seed: 3, Verdict: verdict.Fail}); got != c.want {
			t.Errorf("Replay of %q = %q, want %q", c.text, got, c.want)
		}
	}
}

func TestFailuresAreLimited(t *testing.T) {
	var results []verdict.Result
	for i := range 30 {
		results = append(results, wrong(i, []string{"a", "b"}[i%2], "float32", ""))
	}
	s := documentOf(results...).Source()
	out := string(written(t, text(TextOptions{}), s))
	if n := strings.Count(out, "replay: "); n != 30 {
		t.Errorf("%d replay commands, want one per failure", n)
	}
	if n := strings.Count(out, "\nFAIL "); n != 2*maxFailures {
		t.Errorf("%d failures shown in full, want %d", n, 2*maxFailures)
	}
	if !strings.Contains(out, "12 more of a failed; -v shows them all\n") || strings.Count(out, "..@@") != 1 {
		t.Errorf("the rest is not counted, or there is more than one map:\n%s", out)
	}
	out = string(written(t, text(TextOptions{Verbose: true}), s))
	if n := strings.Count(out, "replay: "); n != 30 || strings.Count(out, "..@@") != 30 {
		t.Errorf("%d failures shown with Verbose, want 30 with a map each", n)
	}
}

// TestMemoryStaysFlat writes 10^5 results in all forms and looks at the heap while it does.
func TestMemoryStaysFlat(t *testing.T) {
	testkit.ValuesOnly(t)
	const n = 100_000
	template := [...]verdict.Result{passing(0, "softmax", "float32", 1e-8), wrong(1, "softmax", "float32", ""),
		notRun(2, "softmax", "float32")}
	var tally verdict.Tally
	var peak uint64
	s := Source{Each: func(yield func(*verdict.Result) error) error {
		for i := range n {
			r := template[i%3]
			r.Index, r.Seed = i, verdict.Seed(i+1)
			r.Case = caseText("softmax", "float32", 5, uint64(i+1))
			r.Message = r.Case // every message another one
			if i%20_000 == 19_999 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
			if err := yield(&r); err != nil {
				return err
			}
		}
		return nil
	}}
	if err := s.Each(func(r *verdict.Result) error { tally.Add(r); return nil }); err != nil {
		t.Fatal(err)
	}
	s.Summary = verdict.Summary{Kind: "fuzz", Planned: n, Counts: tally.Counts(), Ops: tally.Ops()}
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for name, write := range map[string]writer{"text": text(TextOptions{}), "json": JSON, "junit": JUnit,
		"coverage": func(w io.Writer, s Source) error {
			_, err := Cover(profiles(s.Each), nil)
			return err
		}} {
		peak = 0
		if err := write(io.Discard, s); err != nil {
			t.Fatal(err)
		}
		// Of 33,334 failures nothing is remembered but what a screen takes.
		if grown := int64(peak) - int64(before.HeapAlloc); grown > 12<<20 {
			t.Errorf("%s: the heap grew by %d MB over %d results", name, grown>>20, n)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"gpuemu_report":1,"version":"","summary":{"ops":[]},"results":[]}`))
	// Small ones: the fuzzing engine spends its time on making large ones smaller.
	for _, r := range []verdict.Result{passing(0, "a", "float32", 1), notRun(0, "a", "float32"),
		wrong(0, "a", "int8", "")} {
		var b bytes.Buffer
		if err := JSON(&b, documentOf(r).Source()); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Read(bytes.NewReader(data), "fuzz.json")
		if err != nil {
			if diag.CodeOf(err) == "" {
				t.Fatalf("error without a code: %v", err)
			}
			return
		}
		first := written(t, JSON, doc.Source())
		again, err := Read(bytes.NewReader(first), "fuzz.json")
		if err != nil {
			t.Fatalf("what was written is not read: %v\n%s", err, first)
		}
		if second := written(t, JSON, again.Source()); !bytes.Equal(first, second) {
			t.Fatalf("written twice differently:\n%s\n%s", first, second)
		}
		for _, out := range [][]byte{written(t, text(TextOptions{Verbose: true, Width: 30}), doc.Source()),
			written(t, JUnit, doc.Source())} {
			for _, r := range string(out) {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Fatalf("%U in %q", r, out)
				}
			}
		}
		if fault := junitFault(written(t, JUnit, doc.Source())); fault != "" {
			t.Fatal(fault)
		}
		if _, err := Compare(doc, doc.Source(), 0.1); err != nil {
			t.Fatal(err)
		}
		if merged, err := Merge([]*Document{doc}); err == nil && merged.Summary.Counts != doc.Summary.Counts {
			t.Logf("duplicates were merged: %+v", merged.Summary.Counts)
		}
	})
}

// TestNotRunIsGrouped: equal messages stand once, and ten thousand different ones do not fill the screen.
func TestNotRunIsGrouped(t *testing.T) {
	var results []verdict.Result
	for i := range 1000 {
		r := notRun(i, "a", "float32")
		if i%2 == 0 {
			r.Message = r.Case
		}
		results = append(results, r)
	}
	for _, opt := range []TextOptions{{}, {Verbose: true}} {
		out := string(written(t, text(opt), documentOf(results...).Source()))
		if !strings.Contains(out, "     500 × missing_package: ml_dtypes is not installed\n") ||
			strings.Count(out, "pip install") != 1 || strings.Count(out, "\n") > maxGroups+15 {
			t.Errorf("%+v: %s", opt, out)
		}
	}
}

// TestRightOutputsAreNotShown: of several outputs a failure shows those that are wrong.
func TestRightOutputsAreNotShown(t *testing.T) {
	r := wrong(0, "a", "float32", "")
	good := passing(0, "a", "float32", 0).Outputs[0]
	good.Name = "fine"
	r.Outputs = append(r.Outputs, good)
	for verbose, want := range map[bool]int{false: 0, true: 1} {
		if got := strings.Count(strings.Join(failureLines(&r, true, verbose), "\n"), "output fine"); got != want {
			t.Errorf("verbose %v: the right output is shown %d times, want %d", verbose, got, want)
		}
	}
}

// Where 0 is wanted there is no relative error, the largest number stands for an infinity, and a violated invariant is
// one sentence.
func TestFailureSaysThingsOnce(t *testing.T) {
	zero := &verdict.Result{Verdict: verdict.Fail, Reason: verdict.Mismatch, Message: "1 of 2 elements are wrong",
		Outputs: []verdict.Output{{Name: "y", DType: "float32", Shape: []int{2}, Regime: "bound", Elements: 2, Mismatched: 1,
			MaxAbs: 3, MaxRatio: math.MaxFloat64,
			Worst: []verdict.Element{{Index: []int{1}, Kind: "beyond its bound", Got: "3", Want: "0", Abs: 3, ULP: 7}}}}}
	got := CaseText(zero, TextOptions{})
	if !strings.Contains(got, "worst error absolute 3, ULP 7 at [1]") {
		t.Errorf("want no worst relative error:\n%s", got)
	}
	if !strings.Contains(got, "error/bound max Inf") {
		t.Errorf("want error/bound max Inf:\n%s", got)
	}
	broken := &verdict.Result{Verdict: verdict.Fail, Reason: verdict.Invariant,
		Message: `output "y": inputs_unchanged does not hold: the candidate wrote to x`,
		Invariants: []verdict.Invariance{{Output: "y", Name: "inputs_unchanged", Outcome: "violated",
			Sentence: "the candidate wrote to x"}}}
	if got := CaseText(broken, TextOptions{}); strings.Count(got, "wrote to x") != 1 {
		t.Errorf("want the sentence once:\n%s", got)
	}
	zero.Reason, zero.Message = verdict.NotFullyWritten, "y was not written at [1]; 1 of 2 elements are wrong"
	zero.Findings = []verdict.Finding{{Kind: "not_fully_written", Name: "y\x1b[31m", Sentence: "y was not written at [1]"},
		{Kind: "overrun", Sentence: "wrote behind y\x1b[2J"}}
	zero.Invariants = []verdict.Invariance{{Output: "y", Name: "fully_written", Outcome: "violated",
		Sentence: "was not written at [1]"}}
	got = CaseText(zero, TextOptions{})
	if strings.Count(got, "was not written at [1]") != 1 || strings.ContainsRune(got, 0x1b) ||
		!strings.Contains(got, "finding not_fully_written of y") ||
		!strings.Contains(got, "finding overrun: wrote behind y") ||
		strings.Index(got, "finding") > strings.Index(got, "1 of 2 elements wrong") {
		t.Errorf("want both findings once, before the elements:\n%s", got)
	}
}

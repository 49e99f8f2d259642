package receipt

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/diag"
)

func report(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "reports", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// outcomesOf is a report in lines "id outcome reason".
func outcomesOf(r *Results) string {
	var b strings.Builder
	for _, t := range r.Tests {
		b.WriteString(t.ID + " " + t.Outcome)
		if t.Reason != "" {
			b.WriteString(" (" + t.Reason + ")")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestFromJUnitDialects: reports that the runners wrote themselves (pytest 9, ctest 3.25, googletest 1.12), or that
// follow their sources (gotestsum, Catch2 3).
func TestFromJUnitDialects(t *testing.T) {
	for name, want := range map[string]string{
		"pytest.xml": `test_x::test_ok passed
test_x::test_p[a\x1b] passed
test_x::test_p[\xe9] passed
test_x::test_fail failed (assert 1 == 2)
test_x::test_setup error (failed on setup with "RuntimeError: cuda init")
test_x::test_teardown error (failed on teardown with "RuntimeError: late")
test_x::test_both error (failed on teardown with "RuntimeError: late")
test_x::test_skip skipped (no gpu)
test_x::test_xf xfailed (known)
test_x::test_xp passed
test_x.TestC::test_m passed
`,
		"ctest.xml": `ok passed
bad failed
missing error (Unable to find executable)
skip skipped (SKIP_RETURN_CODE=77)
dis skipped (disabled)
slow failed
willfail passed
crash failed
skipre skipped (SKIP_REGULAR_EXPRESSION_MATCHED)
`,
		"googletest.xml": `Suite::Ok passed
Suite::Bad failed (t.cc:3)
Suite::Skip skipped (t.cc:4)
Suite::DISABLED_Off skipped (suppressed)
Suite::Throw failed (unknown file)
I/P::X/0 passed
I/P::X/1 passed
`,
		"gotestsum.xml": `m/a::TestOK passed
m/a::TestFail failed (Failed)
m/a::TestOK/bad skipped (=== RUN   TestOK/bad)
TestMain failed (Failed)
`,
		"catch2.xml": `kernels.global::relu/positive passed
kernels.global::relu/negative failed (relu(-1) == 0)
kernels.global::throws error (unexpected)
kernels.global::no gpu skipped (SKIPPED)
kernels.global::may fail, does xfailed (TEST_CASE tagged with !mayfail)
kernels.global::may fail, does not xpassed (TEST_CASE tagged with !mayfail)
`,
	} {
		r, err := FromJUnit(report(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := outcomesOf(r); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		r.SetTimes(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC))
		if err := r.Check(); err != nil || r.ExitStatus != 1 || !r.Finished || r.Runner.Name != "junit" ||
			r.EndedAt != "2026-11-15T12:00:00Z" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestFromJUnitRefuses(t *testing.T) {
	const head, foot = `<testsuites><testsuite name="s">`, `</testsuite></testsuites>`
	for name, tt := range map[string]struct {
		text string
		code diag.Code
	}{
		"empty":               {"", ImportSyntax},
		"not XML":             {"{}", ImportSyntax},
		"another root":        {"<html></html>", ImportSyntax},
		"cut short":           {head + `<testcase name="a"/>`, ImportSyntax},
		"no test":             {head + foot, ImportEmpty},
		"test without a name": {head + `<testcase classname="c"/>` + foot, ImportSyntax},
		"failures not shown":  {`<testsuite failures="3"><testcase name="a"/></testsuite>`, ImportSyntax},
		"errors not shown": {`<testsuites errors="1"><testsuite><testcase name="a"/></testsuite></testsuites>`,
			ImportSyntax},
		"count that is none": {`<testsuite failures="x"><testcase name="a"/></testsuite>`, ImportSyntax},
		"time that is none":  {head + `<testcase name="a" time="NaN"/>` + foot, ImportSyntax},
		"document type":      {`<!DOCTYPE x [<!ENTITY a "b">]>` + head + `<testcase name="a"/>` + foot, ImportSyntax},
		"entity":             {head + `<testcase name="&a;"/>` + foot, ImportSyntax},
		"other encoding": {`<?xml version="1.0" encoding="UTF-16"?>` + head + `<testcase name="a"/>` + foot,
			ImportSyntax},
		"not UTF-8":            {head + "<testcase name=\"\xff\"/>" + foot, ImportSyntax},
		"control character":    {head + "<testcase name=\"\x1b\"/>" + foot, ImportSyntax},
		"deep":                 {strings.Repeat("<testsuite>", 100000), TooDeep},
		"deep in a test":       {head + `<testcase name="a">` + strings.Repeat("<x>", 100000), ImportSyntax},
		"text behind the root": {head + `<testcase name="a"/>` + foot + "<x/>", ImportSyntax},
		"long name":            {head + `<testcase name="` + strings.Repeat("x", maxID+1) + `"/>` + foot, BadValue},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := FromJUnit([]byte(tt.text))
			if diag.CodeOf(err) != tt.code {
				t.Errorf("FromJUnit = %+v, %v, want %s", r, err, tt.code)
			}
		})
	}
	if _, err := FromJUnit(make([]byte, 100<<20)); diag.CodeOf(err) != TooLarge {
		t.Errorf("100 MiB: %v", err)
	}
}

// TestFromJUnitSuspicion: what is not plainly good is not good.
func TestFromJUnitSuspicion(t *testing.T) {
	for text, want := range map[string]string{
		`<testcase name="a"/><testcase name="a"><failure/></testcase>`: Failed,
		`<testcase name="a"><failure/></testcase><testcase name="a"/>`: Failed,
		`<testcase name="a"><skipped/><failure/></testcase>`:           Failed,
		`<testcase name="a"><skipped/><error/></testcase>`:             Errored,
		`<testcase name="a" status="exploded"/>`:                       Errored,
		`<testcase name="a" status="run" result="interrupted"/>`:       Errored,
		`<testcase name="a" status="fail"/>`:                           Failed,
		`<testcase name="a" status="notrun"/>`:                         Errored,
		`<testcase name="a"><skipped type="pytest.xfail"/></testcase>`: XFailed,
		`<testcase name="a" time="1,234.5"/>`:                          Passed,
		`<testsuite name="inner"><testcase name="a"/></testsuite>`:     Passed,
		`<testcase name="a"/><error message="crash"/>`:                 Passed, // and an error of the suite, below
	} {
		r, err := FromJUnit([]byte(`<testsuites><testsuite name="s">` + text + `</testsuite></testsuites>`))
		if err != nil || r.Tests[0].Outcome != want {
			t.Errorf("%s: %+v, %v, want %s", text, r, err, want)
			continue
		}
		if strings.Contains(text, "crash") && (len(r.Tests) != 2 || r.Tests[1].Outcome != Errored || r.Tests[1].ID != "s" ||
			r.ExitStatus != 1) {
			t.Errorf("an error of the suite: %+v", r.Tests)
		}
	}
}

func TestFromGoTest(t *testing.T) {
	r, err := FromGoTest(bytes.NewReader(report(t, "go-test.json")))
	if err != nil {
		t.Fatal(err)
	}
	want := `m/a::TestOK/sub passed
m/a::TestOK/bad skipped
m/a::TestOK passed
m/a::TestFail failed
m/b::TestPanic failed
m/b::TestPar error (did not finish)
m/c error (did not build)
`
	if got := outcomesOf(r); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if err := r.Check(); err != nil || r.ExitStatus != 1 || !r.Finished || r.StartedAt != "2026-11-15T20:26:09Z" {
		t.Errorf("%+v, %v", r, err)
	}
}

// goEvents joins events of one package.
func goEvents(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		action, rest, _ := strings.Cut(e, " ")
		b.WriteString(`{"Action":"` + action + `","Package":"p"` + rest + "}\n")
	}
	return b.String()
}

func TestFromGoTestEnds(t *testing.T) {
	const test = ` ,"Test":"T"`
	for name, tt := range map[string]struct {
		text, want string
		finished   bool
	}{
		"passed":     {goEvents("start", "run"+test, "pass"+test, "pass"), "p::T passed\n", true},
		"time limit": {goEvents("start", "run"+test, "fail"), "p::T error (did not finish)\n", true},
		"killed": {goEvents("start", "run"+test),
			"p::T error (did not finish)\np error (the package did not finish)\n", false},
		"killed between": {goEvents("start", "run"+test, "pass"+test),
			"p::T passed\np error (the package did not finish)\n", false},
		"TestMain failed": {goEvents("start", "run"+test, "pass"+test, "fail"),
			"p::T passed\np error (the package failed)\n", true},
		"failed once of 2": {goEvents("run"+test, "fail"+test, "run"+test, "pass"+test, "fail"), "p::T failed\n", true},
		"failed last of 2": {goEvents("run"+test, "pass"+test, "run"+test, "fail"+test, "fail"), "p::T failed\n", true},
		"second run open":  {goEvents("run"+test, "pass"+test, "run"+test, "fail"), "p::T error (did not finish)\n", true},
	} {
		r, err := FromGoTest(strings.NewReader(tt.text))
		if err != nil || outcomesOf(r) != tt.want || r.Finished != tt.finished {
			t.Errorf("%s: %+v, %v, want %s", name, r, err, tt.want)
		}
	}
}

func TestFromGoTestRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		code diag.Code
	}{
		"empty":            {"", ImportEmpty},
		"no test files":    {goEvents("start", "skip"), ImportEmpty},
		"text of a build":  {"# m/c\n", ImportSyntax},
		"no package":       {`{"Action":"run","Test":"T"}`, ImportSyntax},
		"unknown action":   {goEvents("explode"), ImportSyntax},
		"Action a number":  {`{"Action":1,"Package":"p"}`, ImportSyntax},
		"two actions":      {`{"Action":"fail","Action":"pass","Package":"p","Test":"T"}`, ImportSyntax},
		"time of nowhere":  {`{"Action":"pass","Package":"p","Time":"yesterday"}`, ImportSyntax},
		"negative seconds": {`{"Action":"pass","Package":"p","Elapsed":-1}`, ImportSyntax},
		"a list":           {"[]", ImportSyntax},
		"from the cache": {goEvents(`run ,"Test":"T"`, `pass ,"Test":"T"`, `output ,"Output":"ok  \tp\t(cached)\n"`,
			"pass"), BadValue},
	} {
		r, err := FromGoTest(strings.NewReader(tt.text))
		if diag.CodeOf(err) != tt.code {
			t.Errorf("%s: %+v, %v, want %s", name, r, err, tt.code)
		}
	}
	if _, err := FromGoTest(bytes.NewReader(make([]byte, 100<<20))); diag.CodeOf(err) != TooLarge {
		t.Errorf("100 MiB: %v", err)
	}
}

// TestSetTimes: a report may say what it likes about seconds.
func TestSetTimes(t *testing.T) {
	r := &Results{Tests: []Test{{Seconds: 0.2}, {Seconds: 0.9}}}
	r.SetTimes(time.Date(2026, 11, 15, 12, 0, 0, 999, time.FixedZone("x", 3600)))
	if r.StartedAt != "2026-11-15T10:59:58Z" || r.EndedAt != "2026-11-15T11:00:00Z" {
		t.Errorf("%s to %s", r.StartedAt, r.EndedAt)
	}
	r.Tests[0].Seconds = 1e300
	r.SetTimes(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC))
	if _, _, err := checkTimes(r.StartedAt, r.EndedAt); err != nil {
		t.Error(err)
	}
}

func FuzzFromJUnit(f *testing.F) {
	files, err := filepath.Glob("testdata/reports/*.xml")
	if err != nil || len(files) == 0 {
		f.Fatal("no reports", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkImport(t, func() (*Results, error) { return FromJUnit(b) }) })
}

func FuzzFromGoTest(f *testing.F) {
	f.Add(report(f, "go-test.json"))
	f.Add([]byte(goEvents(`run ,"Test":"T"`, "fail")))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkImport(t, func() (*Results,
			error) {
			return FromGoTest(bytes.NewReader(b))
		})
	})
}

// checkImport: what is imported is a valid result file, and a failure shows in the exit status.
func checkImport(t *testing.T, read func() (*Results, error)) {
	r, err := read()
	if err != nil {
		if diag.CodeOf(err) == "" {
			t.Errorf("an error without a code: %v", err)
		}
		return
	}
	r.SetTimes(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC))
	if err := r.Check(); err != nil {
		t.Errorf("the imported results are not valid: %v", err)
	}
	for _, test := range r.Tests {
		if (test.Outcome == Failed || test.Outcome == Errored) && r.ExitStatus == 0 {
			t.Errorf("%q %s, and the exit status is 0", test.ID, test.Outcome)
		}
	}
}

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/artifact"
	"gpuemu/internal/inspect"
	"gpuemu/internal/pattern"
	"gpuemu/internal/testkit"
)

// lintPTX has a line of a source, local memory and an instruction that is forbidden below.
const lintPTX = `.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
	.local .align 4 .b8 depot[16];
	.reg .f32 %f<4>;
	.loc 1 7 3
	div.rn.f32 %f3, %f1, %f2;
	div.full.f32 %f3, %f1, %f2;
	ret;
}
.file 1 "src/k with space.cu"
`

// lintDocument is what lint finds in lintPTX, and a file that is not there.
func lintDocument(t *testing.T) *inspect.Document {
	t.Helper()
	p := artifact.DefaultPolicy()
	div, err := pattern.Parse("div.*")
	if err != nil {
		t.Fatal(err)
	}
	p.Forbidden = []pattern.Pattern{div}
	text := lintPTX
	doc, err := inspect.Looker{}.Look(context.Background(), []inspect.Target{
		{Name: "net/k", Text: &text, Policy: p}, {Name: "gone", Files: []string{"no such.ptx"}, Dir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	doc.Version = "1.2.3"
	return doc
}

// sarifOf writes a document as SARIF and reads it back without our types.
func sarifOf(t *testing.T, doc *inspect.Document, opt SARIFOptions) map[string]any {
	t.Helper()
	var b bytes.Buffer
	if err := SARIF(&b, doc, opt); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// at walks into a JSON value; what is not there fails the test.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for i, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			if v = m[step]; v == nil {
				t.Fatalf("there is no %v", path[:i+1])
			}
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				t.Fatalf("there is no %v", path[:i+1])
			}
			v = l[step]
		}
	}
	return v
}

// TestSARIF holds the file to what GitHub demands: version, rules with descriptions and help, and results each with a
// message, a rule that exists, a level, a physical location whose URI is relative and percent-encoded, a line from 1,
// and a fingerprint (docs.github.com, "SARIF support for code scanning").
func TestSARIF(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "sub")
	if err := os.MkdirAll(filepath.Join(dir, "src"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "src", "k with space.cu"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log := sarifOf(t, lintDocument(t), SARIFOptions{Version: "1.2.3", Dir: dir, Root: root})
	if v, s := at(t, log, "version"), at(t, log, "$schema"); v != "2.1.0" || !strings.Contains(s.(string), "sarif-2.1.0") {
		t.Errorf("version %v, schema %v", v, s)
	}
	run := at(t, log, "runs", 0)
	if name := at(t, run, "tool", "driver", "name"); name != "gpuemu" {
		t.Errorf("tool is %v", name)
	}
	rules := at(t, run, "tool", "driver", "rules").([]any)
	if len(rules) != len(artifact.ViolationKinds()) {
		t.Errorf("%d rules, want one per kind", len(rules))
	}
	for _, r := range rules {
		id := at(t, r, "id").(string)
		for _, field := range []string{"shortDescription", "fullDescription", "help"} {
			if text := at(t, r, field, "text").(string); len(text) < 20 || len(text) > 1024 {
				t.Errorf("rule %s: %s is %q", id, field, text)
			}
		}
		if len(at(t, r, "properties", "tags").([]any)) > 20 || at(t, r, "defaultConfiguration", "level") != "error" {
			t.Errorf("rule %s has wrong tags or level", id)
		}
	}
	results := at(t, run, "results").([]any)
	levels, prints, uris := map[any]int{}, map[any]bool{}, map[string]int{}
	for i, r := range results {
		checkSARIFResult(t, rules, i, r)
		levels[at(t, r, "level")]++
		prints[at(t, r, "partialFingerprints", "primaryLocationLineHash")] = true
		uris[at(t, r, "locations", 0, "physicalLocation", "artifactLocation", "uri").(string)]++
	}
	// Local memory and two mnemonics of div are facts; spills are not known.
	if levels["error"] != 3 || levels["note"] != 1 || len(results) != 4 || len(prints) != 4 {
		t.Errorf("levels %v, %d results, %d fingerprints", levels, len(results), len(prints))
	}
	if uris["sub/src/k%20with%20space.cu"] != 4 {
		t.Errorf("URIs are %v", uris)
	}
	compiled := at(t, results[0], "relatedLocations", 0, "physicalLocation", "artifactLocation", "uri")
	if compiled != "sub/net/k.ptx" {
		t.Errorf("the compiled code is %v", compiled)
	}
	call := at(t, run, "invocations", 0)
	if at(t, call, "executionSuccessful") != false {
		t.Error("a file that is not there is no success")
	}
	note := at(t, call, "toolExecutionNotifications", 0)
	if text := at(t, note, "message", "text").(string); !strings.Contains(text, "no such file") {
		t.Errorf("notification is %q", text)
	}
}

func checkSARIFResult(t *testing.T, rules []any, i int, r any) {
	t.Helper()
	id := at(t, r, "ruleId")
	if rule := rules[int(at(t, r, "ruleIndex").(float64))]; at(t, rule, "id") != id {
		t.Errorf("result %d: rule %v is not at its index", i, id)
	}
	if text := at(t, r, "message", "text").(string); !strings.HasPrefix(text, "k: ") {
		t.Errorf("result %d: message %q", i, text)
	}
	for _, loc := range at(t, r, "locations").([]any) {
		uri := at(t, loc, "physicalLocation", "artifactLocation", "uri").(string)
		u, err := url.Parse(uri)
		if err != nil || u.IsAbs() || strings.HasPrefix(uri, "/") || strings.Contains(uri, "..") {
			t.Errorf("result %d: URI %q is not relative (%v)", i, uri, err)
		}
		if base := at(t, loc, "physicalLocation", "artifactLocation", "uriBaseId"); base != "%SRCROOT%" {
			t.Errorf("result %d: base %v", i, base)
		}
		if line := at(t, loc, "physicalLocation", "region", "startLine").(float64); line < 1 {
			t.Errorf("result %d: line %v", i, line)
		}
	}
}

// TestSARIFMovedLines: an alert is the same one after its line has moved, and another kernel's is another one.
func TestSARIFMovedLines(t *testing.T) {
	prints := func(change func(*inspect.Document)) string {
		doc := lintDocument(t)
		change(doc)
		var all []string
		dir := t.TempDir()
		for _, r := range at(t, sarifOf(t, doc, SARIFOptions{Dir: dir, Root: dir}), "runs", 0, "results").([]any) {
			all = append(all, at(t, r, "partialFingerprints", "primaryLocationLineHash").(string))
		}
		return strings.Join(all, " ")
	}
	before := prints(func(*inspect.Document) {})
	if got := prints(func(d *inspect.Document) { d.Kernels[0].Violations[1].Line += 10 }); got != before {
		t.Errorf("moved: %s, want %s", got, before)
	}
	if got := prints(func(d *inspect.Document) { d.Kernels[0].Name = "other" }); got == before {
		t.Error("another kernel has the same fingerprints")
	}
}

// TestSARIFWithoutLine: a cubin has no lines, and GitHub refuses a result without one.
func TestSARIFWithoutLine(t *testing.T) {
	doc := lintDocument(t)
	for i := range doc.Kernels[0].Violations {
		doc.Kernels[0].Violations[i].Place = artifact.Place{}
	}
	for _, r := range at(t, sarifOf(t, doc, SARIFOptions{Dir: "/x", Root: "/x"}), "runs", 0, "results").([]any) {
		if line := at(t, r, "locations", 0, "physicalLocation", "region", "startLine"); line != 1.0 {
			t.Errorf("line %v, want 1", line)
		}
	}
}

// TestSARIFLimit: GitHub refuses a file with more results than its limit.
func TestSARIFLimit(t *testing.T) {
	testkit.ValuesOnly(t)
	doc := lintDocument(t)
	v := doc.Kernels[0].Violations[0]
	for range maxSARIFResults {
		doc.Kernels[0].Violations = append(doc.Kernels[0].Violations, v)
	}
	run := at(t, sarifOf(t, doc, SARIFOptions{Dir: "/x", Root: "/x"}), "runs", 0)
	if n := len(at(t, run, "results").([]any)); n != maxSARIFResults {
		t.Errorf("%d results", n)
	}
	list := at(t, run, "invocations", 0, "toolExecutionNotifications").([]any)
	const want = "4 more results are left out: at most 25000 are allowed"
	if text := at(t, list[len(list)-1], "message", "text"); text != want {
		t.Errorf("notification is %q", text)
	}
}

// TestSARIFOutside: a file outside of the repository has an absolute reference.
func TestSARIFOutside(t *testing.T) {
	opt := SARIFOptions{Dir: "/repo/sub", Root: "/repo"}
	for path, want := range map[string]sarifArtifact{
		"/repo/a.ptx":      {"a.ptx", sourceRoot},
		"/repo/sub/x y":    {"sub/x%20y", sourceRoot},
		"/repo/a:b.ptx":    {"./a:b.ptx", sourceRoot},
		"/elsewhere/k.ptx": {"file:///elsewhere/k.ptx", ""},
	} {
		if got := opt.uri(path); got != want {
			t.Errorf("uri(%q) = %v, want %v", path, got, want)
		}
	}
}

func TestLintText(t *testing.T) {
	var b bytes.Buffer
	if err := LintText(&b, lintDocument(t), TextOptions{Verbose: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"net/k (entry k, sm_80, net/k.ptx:4)\n", "  PTX: local 16 B, shared 0 B, instructions 3; ",
		"  error: net/k.ptx:4 (src/k with space.cu:7): 16 bytes of local memory per thread",
		"  error: net/k.ptx:9 (src/k with space.cu:7): div.rn.f32 matches the forbidden pattern \"div.*\"\n",
		"  note: net/k.ptx:4 (src/k with space.cu:7): bytes of spill", "    fix: give a cubin", "  PTX: 3 instructions (",
		"not looked at: gone: open no such.ptx: no such file or directory\n  hint: check the path\n",
		"\nFAILED: 3 errors in 1 of 1 kernel, 1 noted, 1 not looked at\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, b.String())
		}
	}
	doc := lintDocument(t)
	doc.Kernels[0].Violations[0].Message = "\x1b[31mred"
	b.Reset()
	if err := LintText(&b, doc, TextOptions{}); err != nil || strings.Contains(b.String(), "\x1b") {
		t.Errorf("LintText passes on an escape: %q, %v", b.String(), err)
	}
}

// TestFigureOrigins: a figure is shown whatever it comes from.
func TestFigureOrigins(t *testing.T) {
	for origin, want := range map[artifact.Origin]string{
		artifact.FromCubin: "cubin: spills 720 B; ", artifact.FromPtxas: "ptxas: spills 720 B; ",
		artifact.FromSASS: "SASS: spills 720 B; ", artifact.Declared: "PTX: spills 720 B; ",
		artifact.Estimated: "estimated from PTX: spills 720 B; ",
	} {
		m := &artifact.Metrics{SpillStores: &artifact.Figure{Value: 344, Origin: origin},
			SpillLoads: &artifact.Figure{Value: 376, Origin: origin}}
		if got := figureText(m); got != want+"not known: registers, stack, local, shared, instructions" {
			t.Errorf("figures of origin %s are shown as %q", origin, got)
		}
	}
}

func TestLintConclusion(t *testing.T) {
	for want, d := range map[string]inspect.Document{
		"passed: 1 kernel":                   {Counts: inspect.Counts{Total: 1, Passed: 1}},
		"passed: 2 kernels, 3 noted":         {Counts: inspect.Counts{Total: 2, Passed: 2, Notes: 3}},
		"FAILED: 1 error in 1 of 2 kernels":  {Counts: inspect.Counts{Total: 2, Passed: 1, Errors: 1}},
		"not green: no kernel was looked at": {},
		"not green: 1 of 2 passed, 1 not looked at": {Counts: inspect.Counts{Total: 1, Passed: 1},
			Unread: make([]inspect.Unread, 1)},
	} {
		if got := LintConclusion(&d); got != want {
			t.Errorf("LintConclusion = %q, want %q", got, want)
		}
	}
}

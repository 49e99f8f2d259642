package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/verdict"
)

// TestRunSARIF: one result for what is wrong at one line, at the source where it is known; values that are wrong as
// well and failures without a place are at the configuration; what was not run makes the run no success.
func TestRunSARIF(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kernels/k.cu", "kernels/k.ptx", "gpuemu.toml"} {
		if err := os.MkdirAll(filepath.Join(dir, "kernels"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pass, fail := verdict.Pass, verdict.Fail
	site := &verdict.Site{Source: "k.cu", Line: 7, PTX: "kernels/k.ptx", PTXLine: 40}
	race := &verdict.Site{PTX: "kernels/k.ptx", PTXLine: 41}
	lost := &verdict.Site{PTX: "PTX of gone.cu", PTXLine: 42}
	compiled := &verdict.Site{Source: "k.cu", Line: 8, PTX: "PTX of kernels/k.cu", PTXLine: 43}
	finding := func(kind string, at *verdict.Site) verdict.Finding {
		return verdict.Finding{Kind: kind, Sentence: kind + " there", Site: at}
	}
	results := []verdict.Result{
		{Op: "k", Seed: 1, Case: "k seed=1", Verdict: fail, Reason: "oob_write", Numeric: &pass, Hint: "look",
			Findings: []verdict.Finding{finding("oob_write", site), finding("race", race)}},
		{Op: "k", Seed: 2, Verdict: fail, Reason: "oob_write", Numeric: &fail, Message: "oob_write there; 3 of 4 wrong",
			Findings: []verdict.Finding{finding("oob_write", site)}},
		{Op: "k", Seed: 3, Verdict: fail, Reason: "uninit", Numeric: &pass,
			Findings: []verdict.Finding{finding("uninit", lost), finding("trap", compiled)}},
		{Op: "other", Seed: 4, Verdict: verdict.Error, Reason: verdict.Raised, Message: "f raised ValueError"},
		{Op: "good", Seed: 5, Verdict: pass},
		{Op: "strange", Seed: 6, Verdict: verdict.NotRun, Message: "not executed here"},
		{Op: "strange", Seed: 7, Verdict: verdict.NotRun, Message: "not executed here"},
	}
	write := func(results []verdict.Result) *sarifRun {
		src := Source{Version: "v1", Each: Slice(results)}
		for i := range results {
			src.Summary.Counts.Add(results[i].Verdict)
		}
		src.Summary.Planned = len(results)
		var b bytes.Buffer
		opt := SARIFOptions{Dir: dir, Root: dir, Config: filepath.Join(dir, "gpuemu.toml")}
		if err := RunSARIF(&b, src, opt); err != nil {
			t.Fatal(err)
		}
		var log sarifLog
		if err := json.Unmarshal(b.Bytes(), &log); err != nil || len(log.Runs) != 1 {
			t.Fatalf("%v\n%s", err, b.String())
		}
		return &log.Runs[0]
	}
	run := write(results)
	var got []string
	for _, r := range run.Results {
		at := r.Locations[0].Physical
		got = append(got, fmt.Sprintf("%s %s:%d related %d", r.RuleID, at.Artifact.URI, at.Region.StartLine, len(r.Related)))
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("rule %d is not %s", r.RuleIndex, r.RuleID)
		}
	}
	want := []string{"gpuemu/oob_write kernels/k.cu:7 related 1", "gpuemu/race kernels/k.ptx:41 related 0",
		"gpuemu/mismatch gpuemu.toml:1 related 0", "gpuemu/uninit gpuemu.toml:1 related 0",
		"gpuemu/trap kernels/k.cu:8 related 0",
		"gpuemu/raised gpuemu.toml:1 related 0"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("results\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if text := run.Results[0].Message.Text; text !=
		"k: oob_write there. Case: k seed=1. Replay: gpuemu reproduce 'k seed=1' (the first of 2 cases)" {
		t.Errorf("message %q", text)
	}
	if text := run.Results[2].Message.Text; !strings.Contains(text, "3 of 4 wrong") || strings.Contains(text, "cases)") {
		t.Errorf("message %q", text)
	}
	if rule := run.Tool.Driver.Rules[0]; rule.Help.Text != "look" || rule.Name != "OobWrite" ||
		rule.Short.Text != "A kernel writes where it has no memory" {
		t.Errorf("rule %+v", rule)
	}
	if call := run.Invocations[0]; !call.Successful || len(call.Notifications) != 1 ||
		call.Notifications[0].Message.Text != "strange was not run: not executed here" {
		t.Errorf("invocation %+v", call)
	}
	if call := write(results[4:]).Invocations[0]; call.Successful {
		t.Error("a run with cases that were not run is called a success")
	}
}

package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/challenge"
	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/fingerprint"
	"gpuemu/internal/policy"
	"gpuemu/internal/receipt"
)

// TestLines: no line that is printed begins with a command of a CI system, and none has one in its midst.
func TestLines(t *testing.T) {
	const hostile = "::error::x\n::error::y ##[error]z \u2003"
	var out, err bytes.Buffer
	term := newTerminal(Env{Name: "gpu-proof", Stdout: &out, Stderr: &err})
	term.print("%s", hostile)
	term.print("  %s", hostile)
	term.print("\u2003%s", hostile)
	term.mark(green, "ok", "%s", hostile)
	term.hint(hostile)
	term.note("%s", hostile)
	term.note("  %s", hostile)
	term.fail(diag.Errorf(Usage, hostile, "%s", hostile))
	if e := term.printJSON(map[string]string{hostile: hostile}); e != nil {
		t.Fatal(e)
	}
	if e := term.out.Flush(); e != nil {
		t.Fatal(e)
	}
	for text := range strings.Lines(out.String() + err.String()) {
		if strings.HasPrefix(strings.TrimSpace(text), "::") || strings.Contains(text, "##") {
			t.Errorf("the line %q has a command", text)
		}
	}
	var back map[string]string
	text := out.String()
	if e := json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &back); e != nil || back[hostile] != hostile {
		t.Errorf("printJSON reads back as %q, %v", back, e)
	}
}

// TestSummaryIsBounded: GitHub refuses a step summary of more than 1 MiB.
func TestSummaryIsBounded(t *testing.T) {
	v := &verdict{Receipt: "r", Verdict: "refused"}
	for range 100000 {
		v.Refusals = append(v.Refusals, finding{Code: "skipped", Message: strings.Repeat("x", 50)})
	}
	if text := summaryText(v); len(text) > 2*maxSummary || !strings.Contains(text, "and more") {
		t.Errorf("the summary has %d bytes", len(text))
	}
}

func TestConcerned(t *testing.T) {
	p := &receipt.Predicate{Run: receipt.Run{Root: "python"}, Tests: []receipt.Test{
		{ID: "tests/test_a.py::test_1"}, {ID: "tests/test_a.py::test_2"}, {ID: "tests/gpu/test_b.py::Class::test_3"}}}
	for _, tt := range []struct {
		name    string
		changes []string
		want    []int
	}{
		{"nothing", nil, nil},
		{"a test file", []string{"python/tests/test_a.py"}, []int{0, 1}},
		{"another test file", []string{"python/tests/gpu/test_b.py"}, []int{2}},
		{"a file of that name elsewhere", []string{"tests/test_a.py"}, []int{0, 1, 2}},
		{"a conftest of some", []string{"python/tests/gpu/conftest.py"}, []int{2}},
		{"a conftest of all", []string{"python/tests/conftest.py"}, []int{0, 1, 2}},
		{"a conftest at the top", []string{"conftest.py"}, []int{0, 1, 2}},
		{"code", []string{"src/kernel.cu", "python/tests/test_a.py"}, []int{0, 1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var changes []change
			for _, path := range tt.changes {
				changes = append(changes, change{path, "content"})
			}
			var want []string
			for _, i := range tt.want {
				want = append(want, p.Tests[i].ID)
			}
			if got := concerned(p, changes); !slices.Equal(got, want) {
				t.Errorf("concerned(%q) = %q, want %q", tt.changes, got, want)
			}
		})
	}
}

// TestPolicyText: what policy init writes is a policy, says what was asked for, and names every key.
func TestPolicyText(t *testing.T) {
	text := policyText(policyFlags{signers: []string{"alice", `b"ob`}, scope: []string{"lib"},
		outputs: []string{"build/x.so"}, threshold: 2, requireGPU: true})
	rules, err := policy.Parse("p.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rules.Signers, []string{"alice", `b"ob`}) || !slices.Equal(rules.Scope, []string{"lib"}) ||
		!slices.Equal(rules.Outputs, []string{"build/x.so"}) || rules.Threshold != 2 || !rules.RequireGPU {
		t.Errorf("Parse(policyText) = %+v", rules)
	}
	for _, k := range policy.Keys() {
		if !strings.Contains(text, "\n"+k.Name+": ") && !strings.Contains(text, "\n#"+k.Name+":") {
			t.Errorf("the key %s is not there", k.Name)
		}
	}
}

// TestPanic: a fault of ours is not a usage error.
func TestPanic(t *testing.T) {
	var out, err bytes.Buffer
	status := Main(Env{Args: []string{"version"}, Stdout: &out, Stderr: &err,
		Getenv: func(string) string { panic("oops") }})
	if status != command.ExitNotRun || !strings.Contains(err.String(), "internal error: oops") {
		t.Errorf("Main = %d, %q", status, err.String())
	}
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// TestWriteFile: a receipt appears whole, may be read by all, and leaves nothing beside it; a link stays a link.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "gpu-proof.json"), filepath.Join(dir, "link.json")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		if err := writeFile(path, []byte(path)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != path {
			t.Errorf("the file has %q (%v), want %q", got, err, path)
		}
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil { // less the umask
		t.Fatal(err)
	}
	if got, want := modeOf(t, file), modeOf(t, plain); got != want {
		t.Errorf("the file has mode %v, want %v", got, want)
	}
	if err := errors.Join(os.Chmod(file, 0o640), writeFile(file, nil)); err != nil {
		t.Fatal(err)
	}
	if got := modeOf(t, file); got != 0o640 {
		t.Errorf("the file that was there has mode %v, want 0640", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the directory has %v (%v), want the file and the link", entries, err)
	}
	if err := writeFile(dir, nil); err == nil {
		t.Error("a directory is written to")
	}
	if err := writeFile(filepath.Join(dir, "no", "x"), nil); err == nil {
		t.Error("a file in a directory that is not there is written")
	}
}

// TestOutput: a build output is the one that was tested, or it is not here.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	repo, err := fingerprint.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "k.ptx"), []byte("kernel"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("kernel"), 0o600), os.Symlink(secret, filepath.Join(dir, "out")),
		exec.Command("mkfifo", filepath.Join(dir, "pipe")).Run()); err != nil {
		t.Fatal(err)
	}
	v := &verifier{repo: repo}
	if b, err := v.output(receipt.Output{Path: "k.ptx", SHA256: digestOf([]byte("kernel"))}); string(b) != "kernel" {
		t.Errorf("output = %q, %v", b, err)
	}
	for _, o := range []receipt.Output{{Path: "k.ptx", SHA256: digestOf(nil)}, {Path: "gone.ptx", SHA256: digestOf(nil)},
		{Path: "out", SHA256: digestOf([]byte("kernel"))}, {Path: "pipe", SHA256: digestOf(nil)},
		{Path: secret, SHA256: digestOf([]byte("kernel"))}} {
		if b, err := v.output(o); !errors.Is(err, challenge.ErrNotHere) {
			t.Errorf("output(%+v) = %q, %v, want ErrNotHere", o, b, err)
		}
	}
}

// TestRecheckTime: a receipt whose challenges take too long is neither accepted nor waited for.
func TestRecheckTime(t *testing.T) {
	v := &verifier{term: newTerminal(Env{}), rules: &policy.Rules{}, limit: 1}
	r := &receipt.Receipt{Predicate: receipt.Predicate{Challenges: make([]receipt.Challenge, 2)}}
	code := strings.Repeat("ab", 32)
	r.Predicate.Code.Digest = code
	for i := range r.Predicate.Challenges {
		c, err := challenge.Make(t.Context(), challenge.Request{Code: code, Op: "relu", DType: "float32", Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		r.Predicate.Challenges[i] = *c
	}
	out := newVerdict("r", r, &policy.Report{})
	if err := v.recheck(t.Context(), out, false); err != nil {
		t.Fatal(err)
	}
	if out.conclude(); out.ExitCode != command.ExitNotRun || len(out.Unknown) != 1 ||
		!strings.HasPrefix(out.Unknown[0].Message, "2 of 2 challenges were not computed again within") {
		t.Errorf("recheck = %+v, exit code %d", out.Unknown, out.ExitCode)
	}
}

// TestStripSecrets: reasons are texts of tests and of reports that others wrote.
func TestStripSecrets(t *testing.T) {
	token := "ghp_" + strings.Repeat("a1", 18)
	r := &receipt.Results{Arguments: []string{"--token=" + token}, Tests: []receipt.Test{
		{Reason: "no access to https://bot:" + token + "@example.org/x with " + token}, {Reason: "no GPU"}}}
	stripSecrets(r)
	if text := r.Arguments[0] + r.Tests[0].Reason; strings.Contains(text, token) || r.Tests[1].Reason != "no GPU" {
		t.Errorf("stripSecrets leaves %q and %+v", r.Arguments, r.Tests)
	}
}

// TestRebuilt: a library that was built again between the run and the signature is told.
func TestRebuilt(t *testing.T) {
	dir := t.TempDir()
	ended := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)
	outputs := []fingerprint.Output{{Path: "gone.so"}}
	for name, age := range map[string]time.Duration{"old.so": -time.Hour, "same.so": 900 * time.Millisecond,
		"new.so": 2 * time.Second} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, ended, ended.Add(age))); err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, fingerprint.Output{Path: name})
	}
	if got := rebuilt(dir, outputs, ended.Format(receipt.TimeForm)); !slices.Equal(got, []string{"new.so"}) {
		t.Errorf("rebuilt = %q, want new.so alone", got)
	}
}

// Command receipts measures how long gpu-proof takes over a large repository: thousands of files, thousands of tests.
// Each row is the whole program, from its start to its end, on a warm cache of the file system.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gpuemu/bench/machine"
	"gpuemu/internal/receipt"
)

// The size of the repository, and the goal of the issue that asked for it.
const (
	files   = 20000
	tests   = 5000
	perFile = 10 // tests of a test file
	goal    = 2 * time.Second
	rounds  = 5
)

func main() {
	program := flag.String("program", "", "gpu-proof to measure")
	out := flag.String("o", "", "also write the record to this file")
	flag.Parse()
	if err := run(*program, *out); err != nil {
		fmt.Fprintln(os.Stderr, "receipts:", err)
		os.Exit(1)
	}
}

// row is one measurement.
type row struct {
	name string
	goal time.Duration // 0: none
	dir  string
	args []string
	best time.Duration
}

func run(program, out string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gpu-proof-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	facts := []machine.Fact{machine.Processor(), version(program, "version"), version("git", "--version"),
		{Name: "method", Value: fmt.Sprintf("best of %d runs of the program, files in %s", rounds, os.TempDir())},
		machine.Load(), machine.Date()}
	machine.Print(os.Stdout, facts)
	s := &scene{program, dir}
	if err := s.prepare(); err != nil {
		return err
	}
	rows := s.rows()
	for i := range rows {
		if err := rows[i].measure(program); err != nil {
			return err
		}
		fmt.Println(strings.Join(rows[i].cells(), "  "))
	}
	if out == "" {
		return nil
	}
	var b bytes.Buffer
	record(&b, facts, rows)
	return os.WriteFile(out, b.Bytes(), 0o644)
}

func version(program string, arg string) machine.Fact {
	text, err := exec.Command(program, arg).Output()
	if err != nil {
		return machine.Fact{Name: filepath.Base(program), Value: "unknown"}
	}
	return machine.Fact{Name: filepath.Base(program), Value: strings.TrimSpace(string(text))}
}

// scene is the repository and its surroundings.
type scene struct{ program, dir string }

func (s *scene) repo() string    { return filepath.Join(s.dir, "repo") }
func (s *scene) shallow() string { return filepath.Join(s.dir, "shallow") }

// do runs a program in a directory.
func (s *scene) do(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
	}
	return nil
}

// prepare makes the repository, a key, the result file and a signed receipt in it.
func (s *scene) prepare() error {
	if err := s.write(); err != nil {
		return err
	}
	for _, c := range [][]string{
		{"git", "init", "-q", "-b", "main"}, {"git", "add", "."}, {"git", "commit", "-q", "-m", "first"},
		{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "../key"},
	} {
		if err := s.do(s.repo(), c[0], c[1:]...); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(s.dir, "keys"), 0o700); err != nil {
		return err
	}
	pub, err := os.ReadFile(filepath.Join(s.dir, "key.pub"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "keys", "alice.keys"), pub, 0o600); err != nil {
		return err
	}
	if err := s.results(); err != nil {
		return err
	}
	for _, c := range [][]string{
		append([]string{s.program}, s.sign()...), {"git", "add", "."}, {"git", "commit", "-q", "-m", "receipt"},
		{"git", "clone", "-q", "--depth", "1", "file://" + s.repo(), s.shallow()},
	} {
		if err := s.do(s.repo(), c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}

func testFile(i int) string { return fmt.Sprintf("tests/part%d/test_%d.py", i%20, i) }

// write makes the files: tests, and sources of a kilobyte or so each.
func (s *scene) write() error {
	for i := range files {
		name := fmt.Sprintf("src/part%d/sub%d/module_%d.py", i%40, i%7, i)
		if i < tests/perFile {
			name = testFile(i)
		}
		path := filepath.Join(s.repo(), filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		text := fmt.Sprintf("# module %d\n%s", i, strings.Repeat(fmt.Sprintf("value = %d\n", i), 20+i%100))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// results writes the result file.
func (s *scene) results() error {
	cmd := exec.Command(s.program, "snapshot")
	cmd.Dir = s.repo()
	digest, err := cmd.Output()
	if err != nil {
		return err
	}
	code := strings.TrimSpace(string(digest))
	now := time.Now().UTC()
	r := receipt.Results{Format: receipt.ResultsFormat, Runner: receipt.Runner{Name: "pytest", Version: "9.2.0"},
		Mode: "local", Root: ".", StartedAt: now.Add(-time.Hour).Format(receipt.TimeForm),
		EndedAt: now.Format(receipt.TimeForm), Arguments: []string{}, Finished: true,
		Code: receipt.ResultsCode{Scope: []string{"src", "tests"}, Exclude: []string{"gpu-proof.json"}, Outputs: []string{},
			Start: code, End: code},
		Deselected: []string{}, Devices: []receipt.Device{}, Challenges: []receipt.Challenge{}}
	for i := range tests {
		id := fmt.Sprintf("%s::test_%d", testFile(i/perFile), i%perFile)
		r.Collected = append(r.Collected, id)
		r.Tests = append(r.Tests, receipt.Test{ID: id, Outcome: receipt.Passed, Phase: "call", Seconds: 0.25,
			Checks: []receipt.Check{{Name: "output", Outcome: receipt.Passed, Metadata: map[string]any{"kernel": id}}}})
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "results.json"), b, 0o600)
}

func (s *scene) sign() []string {
	return []string{"sign", "--results", "../results.json", "--key", "../key", "--signer", "alice"}
}

func (s *scene) rows() []row {
	verify := []string{"verify", "--receipt", "gpu-proof.json", "--signer", "alice", "--keys-dir", "../keys"}
	return []row{
		{name: "verify, in a whole clone", goal: goal, dir: s.repo(), args: verify},
		{name: "verify, in a clone of one commit", goal: goal, dir: s.shallow(), args: verify},
		{name: "explain, in a whole clone", dir: s.repo(), args: append([]string{"explain"}, verify[1:]...)},
		{name: "snapshot of the working tree", dir: s.repo(), args: []string{"snapshot"}},
		{name: "sign", dir: s.repo(), args: append(s.sign(), "--out", "../other.json")},
	}
}

func (r *row) measure(program string) error {
	r.best = time.Hour
	for range rounds {
		cmd := exec.Command(program, r.args...)
		cmd.Dir = r.dir
		begin := time.Now()
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", r.name, err, text)
		}
		r.best = min(r.best, time.Since(begin))
	}
	return nil
}

func (r *row) cells() []string {
	want, verdict := "none", ""
	if r.goal > 0 {
		want, verdict = "≤ "+r.goal.String(), "ok"
		if r.best > r.goal {
			verdict = fmt.Sprintf("short by %.0f %%", 100*(r.best.Seconds()/r.goal.Seconds()-1))
		}
	}
	return []string{r.name, fmt.Sprintf("%.2f s", r.best.Seconds()), want, verdict}
}

// record writes the page of docs/evidence.
func record(w io.Writer, facts []machine.Fact, rows []row) {
	fmt.Fprintf(w, "# Receipts\n\nWritten by `make bench BENCHFLAGS=\"receipts -o docs/evidence/receipts.md\"`: "+
		"gpu-proof over a repository of\n%d files in the scope, with a receipt of %d tests. Each row is the whole "+
		"program, Git's own work included.\n\n", files, tests)
	machine.Markdown(w, facts)
	fmt.Fprintln(w, "\n| row | time | goal |  |\n|---|---|---|---|")
	for i := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(rows[i].cells(), " | "))
	}
}

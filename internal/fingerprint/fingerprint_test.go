package fingerprint

import (
	"context"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clone is a repository of a test, made and changed with plain git.
type clone struct {
	t   testing.TB
	dir string
}

// newClone makes an empty repository.
func newClone(t testing.TB, args ...string) *clone {
	t.Helper()
	c := &clone{t, filepath.Join(t.TempDir(), "repo")}
	runGit(t, "", append(append([]string{"init", "-q", "-b", "main"}, args...), c.dir)...)
	return c
}

// runGit runs git as a user would, but without anybody's configuration and with a fixed author.
func runGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z", "GIT_ALLOW_PROTOCOL=file",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c *clone) git(args ...string) string { c.t.Helper(); return runGit(c.t, c.dir, args...) }

// gitWith runs git with another PATH.
func (c *clone) gitWith(path string, args ...string) {
	c.t.Helper()
	old := os.Getenv("PATH")
	os.Setenv("PATH", path)
	defer os.Setenv("PATH", old)
	c.git(args...)
}

// indexInfo feeds update-index --index-info.
func (c *clone) indexInfo(lines string) {
	c.t.Helper()
	cmd := exec.Command("git", "update-index", "--index-info")
	cmd.Dir, cmd.Stdin = c.dir, strings.NewReader(lines)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("git update-index: %v\n%s", err, out)
	}
}

func sum(content string) [32]byte { return sha256.Sum256([]byte(content)) }

// write writes files: pairs of name and content.
func (c *clone) write(pairs ...string) {
	c.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		p := filepath.Join(c.dir, pairs[i])
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(pairs[i+1]), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
}

// commit adds everything, ignored files excepted, and commits it.
func (c *clone) commit() string {
	c.t.Helper()
	c.git("add", "-A")
	c.git("commit", "-q", "--no-verify", "-m", "m")
	return c.git("rev-parse", "HEAD")
}

func (c *clone) open() *Repo {
	c.t.Helper()
	r, err := Open(context.Background(), c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func scope(t testing.TB, paths ...string) Scope {
	t.Helper()
	s, err := ParseScope(paths)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// diff lists what is different between two manifests.
func diff(then, now *Manifest) []Change {
	return diffEntries(then.Entries, now.Entries, func(then, now Entry) bool { return then.digest() == now.digest() })
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestWorkingTreeIsTheCommit: what was hashed before the commit has the digest of the commit.
func TestWorkingTreeIsTheCommit(t *testing.T) {
	c := newClone(t)
	c.write("src/a.py", "1\n", "src/b.py", "2\n", "tests/t.py", "3\n", "other", "4\n", ".gitignore", "*.so\n")
	c.commit()
	c.write("src/a.py", "changed\n", "src/new.py", "new\n", "src/x.so", "built", "gpu-proof.json", "{}")
	if err := os.Remove(filepath.Join(c.dir, "src/b.py")); err != nil {
		t.Fatal(err)
	}
	r, s := c.open(), scope(t, "src", "tests")
	o := Options{Exclude: []string{"gpu-proof.json"}, Outputs: []string{"src/x.so"}}
	wt := must[*Manifest](t)(r.WorkingTree(s, o))
	old := must[*Manifest](t)(r.AtCommit("HEAD", s, o))
	if wt.Digest() == old.Digest() {
		t.Error("the digest did not change with the files")
	}
	dirty := must[[]string](t)(r.Dirty(s, o))
	if got, want := strings.Join(dirty, " "), "src/a.py src/b.py src/new.py"; got != want {
		t.Errorf("Dirty = %s, want %s", got, want)
	}
	c.commit()
	now := must[*Manifest](t)(r.AtCommit("HEAD", s, o))
	if wt.Digest() != now.Digest() {
		t.Errorf("working tree:\n%scommit:\n%s", wt.Canonical(), now.Canonical())
	}
	if len(wt.Outputs) != 1 || wt.Outputs[0].Size != 5 {
		t.Errorf("Outputs = %+v, want src/x.so of 5 bytes", wt.Outputs)
	}
	if dirty := must[[]string](t)(r.Dirty(All(), o)); len(dirty) != 0 {
		t.Errorf("Dirty after the commit = %q", dirty)
	}
}

package fingerprint

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpuemu/internal/diag"
)

// same checks that the working tree has the digest that its commit then has.
func (c *clone) same(s Scope) {
	c.t.Helper()
	before := c.files(s)
	c.commit()
	if after := c.atHead(s); before.Digest() != after.Digest() {
		c.t.Errorf("working tree\n%scommit\n%s", before.Canonical(), after.Canonical())
	}
	if dirty := must[[]string](c.t)(c.open().Dirty(s, Options{})); len(dirty) > 0 {
		c.t.Errorf("Dirty after the commit = %q", dirty)
	}
}

// TestStartAndEndDiffer: row A9. A file saved during a run shows, also when it is committed before the end.
func TestStartAndEndDiffer(t *testing.T) {
	c := newClone(t)
	c.write("src/a.py", "1\n", "tests/t.py", "t\n")
	c.commit()
	s := scope(t, "src", "tests")
	start := c.files(s)
	c.write("src/a.py", "2\n")
	c.commit()
	end := c.files(s)
	if start.Digest() == end.Digest() || fmt.Sprint(diff(start, end)) != "[{src/a.py content}]" {
		t.Errorf("changes during the run: %v, want src/a.py", diff(start, end))
	}
}

// TestHiddenFiles: row A11. Rules of one machine hide nothing; what .gitignore hides is listed.
func TestHiddenFiles(t *testing.T) {
	c := newClone(t)
	c.write(".gitignore", "ignored.py\nbuild/\n*.so\n__pycache__/\n", "tests/t.py", "1\n")
	c.commit()
	clean := c.files(scope(t, "tests")).Digest()
	c.write(".git/info/exclude", "conftest.py\n", "tests/conftest.py", "cheat\n")
	excludes := filepath.Join(t.TempDir(), "excludes")
	if err := os.WriteFile(excludes, []byte("sitecustomize.py\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.git("config", "core.excludesFile", excludes)
	c.write("tests/sitecustomize.py", "cheat\n")
	r := c.open()
	m := must[*Manifest](t)(r.WorkingTree(scope(t, "tests"), Options{}))
	if m.Digest() == clean {
		t.Error("files hidden by rules of this machine did not change the digest")
	}
	want := []string{"tests/conftest.py", "tests/sitecustomize.py"}
	if dirty := must[[]string](t)(r.Dirty(scope(t, "tests"), Options{})); !slices.Equal(dirty, want) {
		t.Errorf("Dirty = %q, want %q", dirty, want)
	}
	c.remove("tests/conftest.py")
	c.remove("tests/sitecustomize.py")
	c.write("tests/ignored.py", "cheat\n", "tests/x.so", "built", "tests/y.so", "built", "tests/build/z.py", "",
		"tests/__pycache__/t.pyc", "")
	m = must[*Manifest](t)(r.WorkingTree(scope(t, "tests"), Options{Outputs: []string{"tests/x.so"}}))
	if got, want := fmt.Sprint(m.Ignored),
		"[tests/__pycache__/ tests/build/ tests/ignored.py tests/x.so tests/y.so]"; got != want {
		t.Errorf("Ignored = %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(m.HiddenCode()), "[tests/ignored.py tests/y.so]"; got != want {
		t.Errorf("HiddenCode = %s, want %s", got, want)
	}
	if m.Digest() != clean {
		t.Error("ignored files and outputs changed the digest of the sources")
	}
}

// TestHiddenChanges: bits of the index that hide a change from git do not hide it here.
func TestHiddenChanges(t *testing.T) {
	for _, flag := range []string{"--assume-unchanged", "--skip-worktree"} {
		t.Run(flag, func(t *testing.T) {
			c := newClone(t)
			c.write("src/a.py", "1\n", "src/b.py", "2\n")
			c.commit()
			c.git("update-index", flag, "src/a.py")
			c.write("src/a.py", "cheat\n")
			if out := c.git("status", "--porcelain"); out != "" {
				t.Fatalf("git status sees the change: %s", out)
			}
			if dirty := must[[]string](t)(c.open().Dirty(All(), Options{})); !slices.Equal(dirty, []string{"src/a.py"}) {
				t.Errorf("Dirty = %q, want src/a.py", dirty)
			}
			if got := c.files(scope(t, "src")).Entries; len(got) != 2 || got[0].SHA256 != sum("cheat\n") {
				t.Errorf("entries %+v, want src/a.py as it lies there", got)
			}
		})
	}
	t.Run("ignored link", func(t *testing.T) { // the folder's files are gone, and nothing came in their place
		c := newClone(t)
		c.write("src/deep/x", "1\n", "src/a", "1\n", "lib/x", "cheat\n")
		c.commit()
		c.write(".gitignore", "deep\n")
		c.remove("src/deep")
		c.link("../lib", "src/deep")
		if dirty := must[[]string](t)(c.open().Dirty(scope(t, "src"), Options{})); !slices.Equal(dirty,
			[]string{"src/deep/x"}) {
			t.Errorf("Dirty = %q, want src/deep/x", dirty)
		}
	})
}

func TestSparseCheckout(t *testing.T) {
	c := newClone(t)
	c.write("src/a.py", "1\n", "docs/b", "2\n", "tests/t.py", "3\n")
	c.commit()
	for _, args := range [][]string{{"set", "--no-cone", "src"}, {"set", "--cone", "--sparse-index", "src"}} {
		c.git(append([]string{"sparse-checkout"}, args...)...)
		if _, err := os.Stat(filepath.Join(c.dir, "docs")); err == nil {
			t.Fatal("docs is checked out: not sparse")
		}
		if got, want := c.files(All()).Digest(), c.atHead(All()).Digest(); got != want {
			t.Errorf("sparse %v: digest %s, want %s", args, got, want)
		}
		if dirty := must[[]string](t)(c.open().Dirty(All(), Options{})); len(dirty) != 0 {
			t.Errorf("sparse %v: Dirty = %q", args, dirty)
		}
	}
}

// TestLineEndings: conversions of line endings are those of the commit, also where the user's configuration has them.
func TestLineEndings(t *testing.T) {
	t.Run("attributes", func(t *testing.T) {
		c := newClone(t)
		c.write(".gitattributes", "*.txt text eol=crlf\n*.u16 text working-tree-encoding=UTF-16LE eol=lf\n")
		c.commit()
		c.write("src/a.txt", "1\r\n2\r\n", "src/b.bin", "1\r\n", "src/c.u16", "a\x00\n\x00")
		c.same(scope(t, "src"))
	})
	t.Run("user", func(t *testing.T) {
		c := newClone(t)
		c.write("src/old.txt", "1\r\n")
		c.commit()
		global := filepath.Join(t.TempDir(), "gitconfig")
		if err := os.WriteFile(global, []byte("[core]\n\tautocrlf = input\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GIT_CONFIG_GLOBAL", global)
		c.write("src/old.txt", "1\r\n2\r\n", "src/new.txt", "1\r\n")
		before := c.files(scope(t, "src"))
		c.git("-c", "core.autocrlf=input", "add", "-A")
		c.git("commit", "-q", "-m", "m")
		if after := c.atHead(scope(t, "src")); before.Digest() != after.Digest() {
			t.Errorf("working tree\n%scommit\n%s", before.Canonical(), after.Canonical())
		}
	})
}

// TestLargeFiles: files of Git LFS count as the pointer that a commit has, without running its filter.
func TestLargeFiles(t *testing.T) {
	c := newClone(t)
	pointer := func(content string) string {
		return fmt.Sprintf("%soid sha256:%x\nsize %d\n", lfsPointer, sum(content), len(content))
	}
	c.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n", "src/a.bin", pointer("large"),
		"src/b.bin", pointer("pointer kept"), "src/c.txt", "1\n")
	c.commit()
	s := scope(t, "src")
	want := c.atHead(s)
	c.git("config", "filter.lfs.clean", "false")
	c.git("config", "filter.lfs.process", "false")
	c.git("config", "filter.lfs.required", "true")
	c.write("src/a.bin", "large") // what a checkout with the filter leaves there
	if got := c.files(s); got.Digest() != want.Digest() {
		t.Errorf("smudged\n%swant\n%s", got.Canonical(), want.Canonical())
	}
	if dirty := must[[]string](t)(c.open().Dirty(All(), Options{})); len(dirty) != 0 {
		t.Errorf("Dirty of smudged files = %q", dirty)
	}
	c.write("src/a.bin", "changed", "src/new.bin", "new", "src/empty.bin", "")
	got := c.files(s)
	for name, want := range map[string]string{"src/a.bin": pointer("changed"), "src/new.bin": pointer("new"),
		"src/empty.bin": "",
		"src/b.bin":     pointer("pointer kept")} {
		i := slices.IndexFunc(got.Entries, func(e Entry) bool { return e.Path == name })
		if i < 0 || got.Entries[i].SHA256 != sum(want) {
			t.Errorf("%s does not count as its pointer:\n%s", name, got.Canonical())
		}
	}
}

func TestSubmodules(t *testing.T) {
	lib := newClone(t)
	lib.write("x", "1\n", ".gitignore", "*.o\n")
	first := lib.commit()
	c := newClone(t)
	c.write("src/a.py", "1\n")
	c.git("submodule", "--quiet", "add", lib.dir, "src/lib")
	c.same(All())
	s := scope(t, "src")
	pinned := c.atHead(s)
	if i := slices.IndexFunc(pinned.Entries, func(e Entry) bool { return e.Kind == Gitlink }); i < 0 ||
		pinned.Entries[i].Commit != first || pinned.Entries[i].Mode != "160000" {
		t.Errorf("no submodule at %s in\n%s", first, pinned.Canonical())
	}
	// A clone without the submodule's files, as CI has it.
	bare := &clone{t, filepath.Join(t.TempDir(), "clone")}
	runGit(t, "", "clone", "-q", c.dir, bare.dir)
	if got := bare.files(s).Digest(); got != pinned.Digest() {
		t.Errorf("not checked out: digest %s, want %s", got, pinned.Digest())
	}
	bare.write("src/lib/x", "of nobody knows where\n")
	if _, err := bare.open().WorkingTree(s, Options{}); diag.CodeOf(err) != Incomplete {
		t.Errorf("files in the folder of a submodule that is not checked out: %v, want code %s", err, Incomplete)
	}
	sub := &clone{t, filepath.Join(c.dir, "src", "lib")}
	for name, change := range map[string]func(){
		"changed":   func() { sub.write("x", "2\n") },
		"untracked": func() { sub.write("y", "2\n") },
		"staged":    func() { sub.write("y", "2\n"); sub.git("add", "y"); sub.remove("y") },
	} {
		change()
		if name != "staged" { // the file itself is gone again: what lies there is the commit
			if _, err := c.open().WorkingTree(s, Options{}); diag.CodeOf(err) != Incomplete {
				t.Errorf("%s inside the submodule: %v, want code %s", name, err, Incomplete)
			}
			if got := must[[]string](t)(c.open().Dirty(s, Options{})); !slices.Equal(got, []string{"src/lib"}) {
				t.Errorf("%s inside the submodule: Dirty = %q, want src/lib", name, got)
			}
		}
		sub.git("reset", "-q", "--hard")
		sub.git("clean", "-fdq")
	}
	sub.write("z.o", "ignored")
	if got := c.files(s).Digest(); got != pinned.Digest() {
		t.Error("an ignored file of the submodule changed the digest")
	}
	sub.write("x", "3\n")
	sub.commit()
	if got := diff(pinned, c.files(s)); fmt.Sprint(got) != "[{src/lib content}]" {
		t.Errorf("another commit of the submodule: %v, want src/lib", got)
	}
	c.same(s)
}

// TestWhatCannotBeCounted: an entry that is there and cannot be part of a commit is an error, never left out.
func TestWhatCannotBeCounted(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(c *clone)
		want   string
	}{
		{"nested repository", func(c *clone) { runGit(c.t, c.dir, "init", "-q", "src/nested"); c.write("src/nested/x", "") },
			"repository of its own"},
		{"pipe for a file", func(c *clone) { c.remove("src/a"); mkfifo(c, "src/a") }, "src/a"},
		{"unmerged", func(c *clone) {
			id := c.git("rev-parse", "HEAD:src/a")
			c.git("rm", "-q", "--cached", "src/a")
			c.indexInfo("100644 " + id + " 1\tsrc/a\n100644 " + id + " 2\tsrc/a\n")
		}, "src/a is not merged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClone(t)
			c.write("src/a", "1\n", "src/b", "2\n")
			c.commit()
			tt.change(c)
			_, err := c.open().WorkingTree(scope(t, "src"), Options{})
			if diag.CodeOf(err) != Incomplete || !strings.Contains(err.Error(), tt.want) || diag.HintOf(err) == "" {
				t.Errorf("WorkingTree: %v, want code %s with %q", err, Incomplete, tt.want)
			}
			if _, err := c.open().Dirty(scope(t, "src"), Options{}); diag.CodeOf(err) != Incomplete {
				t.Errorf("Dirty: %v, want code %s", err, Incomplete)
			}
		})
	}
}

// TestUnreadable needs a user whom modes of files hold back.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every file")
	}
	c := newClone(t)
	c.write("src/a", "1\n", "src/b", "2\n")
	c.commit()
	c.write("src/b", "3\n")
	c.chmod("src/b", 0)
	if _, err := c.open().WorkingTree(scope(t, "src"), Options{}); diag.CodeOf(err) != Incomplete {
		t.Errorf("WorkingTree: %v, want code %s", err, Incomplete)
	}
}

// TestNothingIsWritten: neither the repository nor its index changes.
func TestNothingIsWritten(t *testing.T) {
	c := newClone(t)
	c.write("src/a", "1\n", "src/b", "2\n")
	c.commit()
	c.write("src/a", "changed\n", "src/new", "new\n")
	snapshot := func() string {
		var b bytes.Buffer
		err := filepath.WalkDir(c.dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			fmt.Fprintln(&b, p, info.Size(), info.ModTime().UnixNano())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	before := snapshot()
	t.Setenv("TMPDIR", t.TempDir())
	c.files(scope(t, "src"))
	must[[]string](t)(c.open().Dirty(All(), Options{}))
	must[*LegacyDigest](t)(c.open().LegacyWorkingTree(nil))
	if after := snapshot(); after != before {
		t.Errorf("the repository changed:\n%s\n%s", before, after)
	}
	if left := must[[]os.DirEntry](t)(os.ReadDir(os.Getenv("TMPDIR"))); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

// TestTemporaryFolder: a copy of the index among the files would be one of them.
func TestTemporaryFolder(t *testing.T) {
	c := newClone(t)
	c.write("src/a", "1\n", "tmp/x", "")
	c.commit()
	c.link("tmp", "linked")
	for _, dir := range []string{"tmp", "linked"} {
		t.Setenv("TMPDIR", filepath.Join(c.dir, dir))
		if _, err := c.open().WorkingTree(scope(t, "src"), Options{}); diag.CodeOf(err) != Incomplete {
			t.Errorf("WorkingTree with TMPDIR in the tree: %v, want code %s", err, Incomplete)
		}
	}
	if left := must[[]os.DirEntry](t)(os.ReadDir(filepath.Join(c.dir, "tmp"))); len(left) != 1 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func TestOutputs(t *testing.T) {
	c := newClone(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("1234"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.write("build/k.cubin", "code", "build/sub/x.so", "lib")
	c.link("k.cubin", "build/latest")
	c.link(filepath.Join(outside, "secret"), "build/escape")
	c.link(outside, "build/folder")
	c.link("../../../../../../../../etc/passwd", "build/up")
	mkfifo(c, "build/pipe")
	r := c.open()
	got := must[[]Output](t)(r.Outputs([]string{"build/latest", "build/k.cubin", "./build/k.cubin", "build/sub/x.so"}))
	want := []Output{{"build/k.cubin", sum("code"), 4}, {"build/latest", sum("code"), 4}, {"build/sub/x.so",
		sum("lib"), 3}}
	if !slices.Equal(got, want) {
		t.Errorf("Outputs = %+v, want %+v", got, want)
	}
	for name, code := range map[string]diag.Code{"build/none": BadOutput, "build": BadOutput, "build/escape": BadOutput,
		"build/folder/secret": BadOutput, "build/up": BadOutput, "build/pipe": BadOutput, "../x": BadScope,
		"/etc/passwd": BadScope,
		"":            BadScope, ".git/config": BadScope} {
		if _, err := r.Outputs([]string{name}); diag.CodeOf(err) != code {
			t.Errorf("Outputs(%q): %v, want code %s", name, err, code)
		} else if strings.Contains(err.Error(), "1234") {
			t.Errorf("Outputs(%q): %v has the content of the file", name, err)
		}
	}
}

func mkfifo(c *clone, name string) {
	c.t.Helper()
	if err := syscall.Mkfifo(filepath.Join(c.dir, name), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// TestYoungIndex: a file changed in the same moment as the index was written has the times and the size that the
// index knows. Git tells such files by the index file's own time, which the copy must therefore keep.
func TestYoungIndex(t *testing.T) {
	c := newClone(t)
	for i := range 10 {
		c.write("src/a", fmt.Sprint("old", i))
		c.git("add", "-A")
		c.write("src/a", fmt.Sprint("new", i))
		m := c.files(scope(t, "src"))
		if m.Entries[0].SHA256 != sum(fmt.Sprint("new", i)) {
			t.Fatalf("round %d: the change was not seen", i)
		}
	}
}

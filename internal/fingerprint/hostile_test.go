package fingerprint

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// evilConfig is a configuration that tries to run a program wherever Git allows one to be named.
func evilConfig(program, hooks string) string {
	return fmt.Sprintf(`
[core]
	fsmonitor = %[1]s
	hooksPath = %[2]s
	pager = %[1]s
	editor = %[1]s
	askPass = %[1]s
	sshCommand = %[1]s
	gitProxy = %[1]s
	alternateRefsCommand = %[1]s
[filter "evil"]
	clean = %[1]s clean
	smudge = %[1]s smudge
	process = %[1]s process
	required = true
[filter "odd=name.x"]
	clean = %[1]s clean
	required = true
[diff]
	external = %[1]s
[diff "evil"]
	textconv = %[1]s
	command = %[1]s
[merge "evil"]
	driver = %[1]s
[alias]
	ls-tree = "!%[1]s"
	config = "!%[1]s"
[pager]
	config = %[1]s
	ls-tree = %[1]s
	rev-parse = %[1]s
[credential]
	helper = "!%[1]s"
[uploadpack]
	packObjectsHook = %[1]s
[gpg]
	program = %[1]s
[trailer "x"]
	command = %[1]s
[remote "origin"]
	url = evil::%[1]s
	promisor = true
	partialclonefilter = blob:none
	uploadpack = %[1]s
	vcs = evil
[submodule]
	recurse = true
[submodule "sub"]
	update = "!%[1]s"
`, program, hooks)
}

// oldGit is the line of a script that calls itself an old version, which must be told the user's files.
const oldGit = "[ \"$2\" = version ] && echo git version 2.34.1 && exit 0\n"

// hostile makes a repository whose configuration, attributes and hooks all run a program that leaves a mark.
func hostile(t *testing.T, old bool) (c *clone, mark string) {
	t.Helper()
	c = newClone(t)
	c.write("src/a.py", "1\n", "src/odd.x", "2\n", ".gitattributes",
		"* filter=evil diff=evil merge=evil\n*.x filter=odd=name.x\n")
	c.commit()
	c.write("src/b.py", "2\n")
	c.commit()
	dir := t.TempDir()
	mark = filepath.Join(dir, "mark")
	program := filepath.Join(dir, "evil.sh")
	script := "#!/bin/sh\necho \"$0 $*\" >> " + mark + "\nexit 0\n"
	hooks := filepath.Join(dir, "hooks")
	if err := os.Mkdir(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	files := []string{program, filepath.Join(dir, "git-remote-evil")}
	for _, hook := range []string{"post-index-change", "pre-commit", "post-checkout", "reference-transaction",
		"fsmonitor-watchman", "pre-auto-gc", "post-commit"} {
		files = append(files, filepath.Join(hooks, hook), filepath.Join(c.dir, ".git", "hooks", hook))
	}
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	included := filepath.Join(dir, "included")
	config := evilConfig(program, hooks)
	if err := os.WriteFile(included, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(c.dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n"+
		"[includeIf \"gitdir:**\"]\n\tpath = %s\n%s", included, config)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	global := filepath.Join(dir, "global")
	if err := os.WriteFile(global, []byte(config+"[safe]\n\tdirectory = *\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if old {
		real := must[string](t)(exec.LookPath("git"))
		script := "#!/bin/sh\n" + oldGit + "exec " + real + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": global, "GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere", "GIT_EXTERNAL_DIFF": program,
		"GIT_PAGER": program, "GIT_SSH_COMMAND": program, "GIT_ASKPASS": program, "GIT_EDITOR": program,
		"GIT_PROXY_COMMAND": program, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor",
		"GIT_CONFIG_VALUE_0": program, "GIT_OBJECT_DIRECTORY": "/nowhere", "GIT_WORK_TREE": "/nowhere",
	} {
		t.Setenv(name, value)
	}
	return c, mark
}

// TestNothingIsExecuted: nothing that this package does runs a program of the repository's or the configuration's
// choice; nor with a version of git that is told the user's files.
func TestNothingIsExecuted(t *testing.T) {
	t.Run("git", func(t *testing.T) { nothingIsExecuted(t, false) })
	t.Run("old git", func(t *testing.T) { nothingIsExecuted(t, true) })
}

func nothingIsExecuted(t *testing.T, old bool) {
	c, mark := hostile(t, old)
	missing := strings.Repeat("1", 40)
	c.write("src/a.py", "changed\n", "src/odd.x", "changed\n")
	r := c.open()
	if old != (r.git.trusts && r.git.version.before(trustingGit)) {
		t.Fatalf("git %v, trusts %v: not the version that was meant", r.git.version, r.git.trusts)
	}
	s, o, v2 := scope(t, "src"), Options{}, V2Paths{Included: []string{"src"}}
	calls := map[string]func() error{
		"Head":              func() error { _, err := r.Head(); return err },
		"Remote":            func() error { r.Remote(); return nil },
		"AtCommit":          func() error { _, err := r.AtCommit("HEAD", s, o); return err },
		"HasCommit":         func() error { _, err := r.HasCommit(missing); return err },
		"ReadFile":          func() error { _, err := r.ReadFile("HEAD", "src/a.py", 100); return err },
		"CompareCommits":    func() error { _, err := r.CompareCommits("HEAD", "main", s, o); return err },
		"Legacy":            func() error { _, err := r.Legacy("HEAD", []string{"src"}); return err },
		"LegacyWorkingTree": func() error { _, err := r.LegacyWorkingTree([]string{"src"}); return err },
		"ManifestV2":        func() error { _, _, err := r.ManifestV2("HEAD", v2); return err },
		"IsAncestor": func() error {
			h, err := r.Head()
			if err == nil {
				_, err = r.IsAncestor(h.ID, h.ID)
			}
			return err
		},
		"missing blob": func() error {
			if err := r.readBlobs([]string{missing}, nil, nil); diag.CodeOf(err) != NoObject {
				return fmt.Errorf("error %v, want code %s", err, NoObject)
			}
			return nil
		},
		"WorkingTree": func() error {
			if _, err := r.WorkingTree(s, o); diag.CodeOf(err) != Incomplete || !strings.Contains(err.Error(), "filter") {
				return fmt.Errorf("error %v, want code %s", err, Incomplete)
			}
			return nil
		},
		"Dirty": func() error {
			if _, err := r.Dirty(s, o); diag.CodeOf(err) != Incomplete {
				return fmt.Errorf("error %v, want code %s", err, Incomplete)
			}
			return nil
		},
	}
	for name, f := range calls {
		if err := f(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if ran, err := os.ReadFile(mark); err == nil {
			t.Errorf("%s: programs were run: %s", name, ran)
			os.Remove(mark)
		}
	}
	// The same repository with plain git, which does run them: the test above can fail.
	for file, what := range map[string][]string{"a.py": {"evil.sh 2", "evil.sh process"}, "odd.x": {"evil.sh clean"}} {
		cmd := exec.Command("git", "add", "src/"+file)
		cmd.Dir, cmd.Env = c.dir, []string{"PATH=" + os.Getenv("PATH")}
		out, _ := cmd.CombinedOutput() // it may well fail: the programs do not do what they should
		ran, _ := os.ReadFile(mark)
		for _, what := range what {
			if !strings.Contains(string(ran), what) {
				t.Errorf("git add did not run %q: the repository is not hostile: %s %s", what, ran, out)
			}
		}
	}
}

// TestDubiousOwnership: row A10. A repository of another user cannot be told anything about; it is never fine.
func TestDubiousOwnership(t *testing.T) {
	c := newClone(t)
	c.write("src/a", "1")
	c.commit()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	wrapper := "#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec " + real + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", bin+string(os.PathListSeparator)+path)
	_, err = Open(context.Background(), c.dir)
	if diag.CodeOf(err) != Ownership || !CannotTell(err) || !strings.Contains(diag.HintOf(err), "safe.directory") {
		t.Errorf("Open of another user's repository: %v (hint %q), want code %s", err, diag.HintOf(err), Ownership)
	}
	// What the repository says of itself does not count, what the user says does.
	c.gitWith(path, "config", "safe.directory", "*")
	if _, err = Open(context.Background(), c.dir); diag.CodeOf(err) != Ownership {
		t.Errorf("Open with safe.directory in the repository's own configuration: %v, want code %s", err, Ownership)
	}
	global := filepath.Join(bin, "gitconfig")
	if err := os.WriteFile(global, []byte("[safe]\n\tdirectory = "+c.dir+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", global)
	// An old version does not take our word for it: without its count it does not see our settings at all.
	old := strings.Replace(wrapper, "\n", "\n"+oldGit+"unset GIT_CONFIG_COUNT\n", 1)
	for _, script := range []string{wrapper, old} {
		if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		r, err := Open(context.Background(), c.dir)
		if err != nil {
			t.Fatalf("Open with safe.directory of the user: %v", err)
		}
		if _, err := r.AtCommit("HEAD", scope(t, "src"), Options{}); err != nil {
			t.Errorf("AtCommit with safe.directory of the user: %v", err)
		}
	}
}

// TestGitMissing: no git, or one that does not know how to be hardened, is "cannot tell".
func TestGitMissing(t *testing.T) {
	c := newClone(t)
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	_, err := Open(context.Background(), c.dir)
	if diag.CodeOf(err) != GitMissing || !CannotTell(err) {
		t.Errorf("without git: %v, want code %s", err, GitMissing)
	}
	for version, old := range map[string]bool{
		"git version 2.31.9": true, "git version 1.8.3.1": true, "gut": true, "git version x.y": true,
		"git version 2.32.0": false, "git version 3.0": false,
	} {
		script := "#!/bin/sh\n[ \"$2\" = version ] && echo '" + version + "' && exit 0\nexit 7\n"
		if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		want := GitFailed
		if old {
			want = GitMissing
		}
		if _, err := Open(context.Background(), c.dir); diag.CodeOf(err) != want || !CannotTell(err) {
			t.Errorf("with %s: %v, want code %s", version, err, want)
		}
	}
}

// TestSettings: of the configuration only what is harmless gets through, and filters come back switched off.
func TestSettings(t *testing.T) {
	in := "global\x00safe.directory\n/a\x00local\x00safe.directory\n*\x00worktree\x00safe.directory\n*\x00" +
		"local\x00core.autocrlf\nInput\x00local\x00core.eol\n!evil\x00local\x00filter.a.b=c.clean\nevil\nx\x00" +
		"local\x00core.autocrlf\x00"
	got, filters, err := parseSettings([]byte(in))
	want := []setting{{"safe.directory", "/a"}, {"core.autocrlf", "input"}, {"core.autocrlf", "true"},
		{"filter.a.b=c.clean", ""}, {"filter.a.b=c.smudge", ""}, {"filter.a.b=c.process", ""},
		{"filter.a.b=c.required", "false"}}
	if err != nil || !slices.Equal(got, want) || !filters["a.b=c"] || len(filters) != 1 {
		t.Errorf("parseSettings = %q, %v, %v, want %q", got, filters, err, want)
	}
	if _, _, err := parseSettings([]byte("global\x00")); diag.CodeOf(err) != GitFailed {
		t.Errorf("parseSettings of half a pair: %v, want code %s", err, GitFailed)
	}
}

// TestContextEnds: a cancelled context ends git, and nothing is told.
func TestContextEnds(t *testing.T) {
	c := newClone(t)
	c.write("a", "1")
	c.commit()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := Open(ctx, c.dir)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := r.AtCommit("HEAD", All(), Options{}); !CannotTell(err) {
		t.Errorf("AtCommit after the end: %v, want an error that cannot tell", err)
	}
}

// TestEmbeddedBare: a pull request can hold the files of a bare repository; verifying in its folder must not find it.
func TestEmbeddedBare(t *testing.T) {
	outer := newClone(t)
	outer.write("a", "1")
	outer.commit()
	inner := filepath.Join(outer.dir, "pkg")
	runGit(t, "", "clone", "-q", "--bare", outer.dir, inner)
	if _, err := Open(context.Background(), inner); diag.CodeOf(err) != NoRepo {
		t.Errorf("Open of a bare repository inside another one: %v, want code %s", err, NoRepo)
	}
}

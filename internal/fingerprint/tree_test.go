package fingerprint

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/testkit"
)

// link makes a symbolic link.
func (c *clone) link(target, name string) {
	c.t.Helper()
	p := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Symlink(target, p); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clone) chmod(name string, mode os.FileMode) {
	c.t.Helper()
	if err := os.Chmod(filepath.Join(c.dir, name), mode); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clone) remove(name string) {
	c.t.Helper()
	if err := os.RemoveAll(filepath.Join(c.dir, name)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clone) atHead(s Scope) *Manifest {
	c.t.Helper()
	return must[*Manifest](c.t)(c.open().AtCommit("HEAD", s, Options{}))
}

func (c *clone) files(s Scope) *Manifest {
	c.t.Helper()
	return must[*Manifest](c.t)(c.open().WorkingTree(s, Options{}))
}

// TestManifestVector freezes the canonical text: a changed line is a new version of the format.
func TestManifestVector(t *testing.T) {
	type entry struct {
		Path   string `json:"path"` // hex: a path may have any bytes
		Kind   string `json:"kind"`
		Mode   string `json:"mode"`
		Digest string `json:"digest"`
	}
	type vector struct {
		Name      string   `json:"name"`
		Scope     []string `json:"scope"`
		Exclude   []string `json:"exclude"`
		Entries   []entry  `json:"entries"`
		Canonical []string `json:"canonical"`
		Digest    string   `json:"digest"`
	}
	testkit.Each(t, "fingerprint/manifest-v1.json", func(t *testing.T, v vector) {
		m := &Manifest{Scope: scope(t, v.Scope...), Exclude: v.Exclude}
		for _, e := range v.Entries {
			path := must[[]byte](t)(hex.DecodeString(e.Path))
			got := Entry{Path: string(path), Kind: Kind(e.Kind), Mode: e.Mode}
			if got.Kind == Gitlink {
				got.Commit = e.Digest
			} else {
				got.SHA256 = [32]byte(must[[]byte](t)(hex.DecodeString(e.Digest)))
			}
			m.Entries = append(m.Entries, got)
		}
		if got, want := string(m.Canonical()), strings.Join(v.Canonical, "\n")+"\n"; got != want {
			t.Errorf("Canonical() =\n%swant\n%s", got, want)
		}
		if got := m.Digest(); got != v.Digest {
			t.Errorf("Digest() = %s, want %s", got, v.Digest)
		}
	})
}

// hostileNames are names that end lines, look like options or patterns, or are no text at all.
var hostileNames = []string{"new\nline", `quo"te`, "non\xffutf8", "-leading", ":!magic", "tab\t", " lead", "trail ",
	"back\\slash", "*.glob", "[x]", "%41", "A", "ü", "\U0001f680", "\x01", "a b", "file 100644 0 x", "\xed\xa0\x80"}

// TestHostileNames: row A8. Every name is counted, in the working tree as in the commit.
func TestHostileNames(t *testing.T) {
	c := newClone(t)
	for i, name := range hostileNames {
		c.write("src/"+name, fmt.Sprint(i))
	}
	s := scope(t, "src")
	before := c.files(s)
	c.commit()
	after := c.atHead(s)
	if before.Digest() != after.Digest() || len(after.Entries) != len(hostileNames) {
		t.Errorf("%d entries of %d names; working tree\n%scommit\n%s", len(after.Entries), len(hostileNames),
			before.Canonical(), after.Canonical())
	}
	if got := bytes.Count(after.Canonical(), []byte("\n")); got != len(hostileNames)+2 {
		t.Errorf("the canonical text has %d lines, want %d: a name made one", got, len(hostileNames)+2)
	}
	var want []string
	for _, name := range hostileNames[:len(hostileNames)-1] {
		c.write("src/"+name, "changed")
		want = append(want, "src/"+name)
	}
	slices.Sort(want)
	if dirty := must[[]string](t)(c.open().Dirty(s, Options{})); !slices.Equal(dirty, want) {
		t.Errorf("Dirty after changes = %q, want %q", dirty, want)
	}
}

// TestEveryChangeCounts: row A8. Content, mode, kind and target of every entry are in the digest.
func TestEveryChangeCounts(t *testing.T) {
	set := func(t *testing.T) *clone {
		c := newClone(t)
		c.write("src/a.py", "1\n", "src/run.sh", "2\n", "src/empty", "", "lib/x", "3\n", "tests/t.py", "4\n",
			"src/deep/x", "5\n", "src/deep/er/x", "6\n")
		c.link("a.py", "src/to-file")
		c.link("../lib", "src/to-folder")
		c.link("nowhere", "src/dangling")
		c.link("/etc/passwd", "src/outside")
		c.chmod("src/run.sh", 0o755)
		c.commit()
		return c
	}
	for _, tt := range []struct {
		name   string
		change func(c *clone)
		want   string
	}{
		{"content", func(c *clone) { c.write("src/a.py", "1 \n") }, "src/a.py content"},
		{"of an empty file", func(c *clone) { c.write("src/empty", "\n") }, "src/empty content"},
		{"exec bit off", func(c *clone) { c.chmod("src/run.sh", 0o644) }, "src/run.sh mode"},
		{"exec bit on", func(c *clone) { c.chmod("src/a.py", 0o755) }, "src/a.py mode"},
		{"target", func(c *clone) { c.remove("src/to-file"); c.link("run.sh", "src/to-file") }, "src/to-file content"},
		{"target of a folder", func(c *clone) { c.remove("src/to-folder"); c.link("../tests", "src/to-folder") },
			"src/to-folder content"},
		{"dangling", func(c *clone) { c.remove("src/dangling"); c.link("elsewhere", "src/dangling") },
			"src/dangling content"},
		{"file for a link", func(c *clone) { c.remove("src/to-file"); c.write("src/to-file", "a.py") }, "src/to-file kind"},
		{"removed", func(c *clone) { c.remove("src/empty") }, "src/empty removed"},
		{"added", func(c *clone) { c.write("tests/new", "") }, "tests/new added"},
		{"folder for a file", func(c *clone) { c.remove("src/a.py"); c.write("src/a.py/x", "1\n") },
			"src/a.py removed,src/a.py/x added"},
		{"link for a folder", func(c *clone) { c.remove("src/deep"); c.link("../lib", "src/deep") },
			"src/deep added,src/deep/er/x removed,src/deep/x removed"},
		{"outside the scope", func(c *clone) { c.write("lib/x", "changed") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, s := set(t), scope(t, "src", "tests")
			r := c.open()
			was := must[Commit](t)(r.Head()).ID
			then := must[*Manifest](t)(r.AtCommit(was, s, Options{}))
			tt.change(c)
			now := must[*Manifest](t)(r.WorkingTree(s, Options{}))
			c.commit()
			head := must[*Manifest](t)(r.AtCommit("HEAD", s, Options{}))
			var diffs []string
			for i, changes := range [][]Change{diff(then, now), diff(then, head),
				must[[]Change](t)(r.CompareCommits(was, "HEAD", s, Options{}))} {
				var lines []string
				for _, ch := range changes {
					lines = append(lines, ch.Path+" "+ch.What)
				}
				if diffs = append(diffs, strings.Join(lines, ",")); diffs[i] != tt.want {
					t.Errorf("changes %d: %q, want %q", i, diffs[i], tt.want)
				}
			}
			if (then.Digest() != now.Digest()) != (tt.want != "") {
				t.Errorf("digest changed: %v, want %v", then.Digest() != now.Digest(), tt.want != "")
			}
		})
	}
}

func TestLinksOutside(t *testing.T) {
	c := newClone(t)
	c.write("src/a", "1", "lib/x", "1")
	for name, target := range map[string]string{"in": "a", "up": "../src/a", "lib": "../lib/x", "abs": "/etc/passwd",
		"out": "../../x", "self": ".."} {
		c.link(target, "src/"+name)
	}
	c.commit()
	if got, want := fmt.Sprint(c.atHead(scope(t, "src")).LinksOutside()),
		"[src/abs src/lib src/out src/self]"; got != want {
		t.Errorf("LinksOutside = %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(c.atHead(All()).LinksOutside()), "[src/abs src/out]"; got != want {
		t.Errorf("LinksOutside of everything = %s, want %s", got, want)
	}
}

// TestSameContentSameDigest: row A17. The digest is of the content, whichever way it came.
func TestSameContentSameDigest(t *testing.T) {
	s := scope(t, "src", "tests")
	c := newClone(t)
	c.write("src/a.py", "1\n", "tests/t.py", "t\n", "README", "r\n")
	c.commit()
	c.git("checkout", "-q", "-b", "pull")
	c.write("src/b.py", "2\n")
	c.chmod("src/b.py", 0o755)
	c.link("a.py", "src/link")
	c.commit()
	c.write("src/a.py", "3\n")
	tested := c.files(s).Digest()
	c.commit()
	c.git("checkout", "-q", "main")
	c.write("README", "moved on\n")
	c.commit()

	check := func(name, dir, rev string) {
		t.Helper()
		r := must[*Repo](t)(Open(context.Background(), dir))
		m := must[*Manifest](t)(r.AtCommit(rev, s, Options{}))
		if got := m.Digest(); got != tested {
			t.Errorf("%s: digest %s, want %s\n%s", name, got, tested, m.Canonical())
		}
	}
	check("the branch", c.dir, "pull")
	c.git("checkout", "-q", "-b", "merge", "main")
	c.git("merge", "-q", "--no-ff", "-m", "m", "pull")
	c.git("update-ref", "refs/pull/1/merge", "HEAD")
	check("merge ref", c.dir, "refs/pull/1/merge")
	c.git("checkout", "-q", "-b", "squash", "main")
	c.git("merge", "-q", "--squash", "pull")
	c.git("commit", "-q", "-m", "squashed")
	check("squash", c.dir, "HEAD")
	c.git("checkout", "-q", "-b", "rebased", "pull")
	c.git("rebase", "-q", "main")
	check("rebase", c.dir, "HEAD")
	dir := t.TempDir()
	runGit(t, "", "clone", "-q", "--depth", "1", "-b", "squash", "file://"+c.dir, filepath.Join(dir, "shallow"))
	check("shallow clone", filepath.Join(dir, "shallow"), "HEAD")
	shallow := must[*Repo](t)(Open(context.Background(), filepath.Join(dir, "shallow")))
	if has := must[bool](t)(shallow.HasCommit(c.git("rev-parse", "pull"))); has {
		t.Error("the shallow clone has the commit that was tested: it proves nothing")
	}
	if _, err := shallow.AtCommit(c.git("rev-parse", "pull"), s, Options{}); diag.CodeOf(err) != NoCommit {
		t.Errorf("AtCommit of a commit that is not there: %v, want code %s", err, NoCommit)
	}
	runGit(t, "", "clone", "-q", "--bare", "-b", "squash", c.dir, filepath.Join(dir, "bare"))
	check("bare", filepath.Join(dir, "bare"), "HEAD")
	c.git("worktree", "add", "-q", filepath.Join(dir, "tree"), "squash~0")
	check("worktree", filepath.Join(dir, "tree"), "HEAD")
	tree := must[*Repo](t)(Open(context.Background(), filepath.Join(dir, "tree", "src")))
	if got := must[*Manifest](t)(tree.WorkingTree(s, Options{})).Digest(); got != tested {
		t.Errorf("files of a worktree, opened in a folder: digest %s, want %s", got, tested)
	}
	c.git("pack-refs", "--all")
	c.git("gc", "-q")
	check("packed", c.dir, "pull")

	long := newClone(t, "--object-format=sha256")
	long.write("src/a.py", "3\n", "src/b.py", "2\n", "tests/t.py", "t\n")
	long.chmod("src/b.py", 0o755)
	long.link("a.py", "src/link")
	if got := long.files(s).Digest(); got != tested {
		t.Errorf("files of a SHA-256 repository: digest %s, want %s", got, tested)
	}
	if id := long.commit(); len(id) != 64 || !IsCommitID(id) {
		t.Errorf("commit id %s, want 64 digits", id)
	}
	check("SHA-256 repository", long.dir, "HEAD")
}

// TestPartialClone: objects that were never fetched are not fetched now, and without them nothing can be told.
func TestPartialClone(t *testing.T) {
	c := newClone(t)
	c.write("src/a.py", "1\n", "tests/t.py", "t\n")
	c.commit()
	c.git("config", "uploadpack.allowFilter", "true")
	dir := filepath.Join(t.TempDir(), "partial")
	runGit(t, "", "clone", "-q", "--filter=blob:none", "--no-checkout", "file://"+c.dir, dir)
	r := must[*Repo](t)(Open(context.Background(), dir))
	if _, err := r.AtCommit("HEAD", scope(t, "src"), Options{}); diag.CodeOf(err) != NoObject || !CannotTell(err) {
		t.Errorf("AtCommit without the blobs: %v, want code %s", err, NoObject)
	}
	runGit(t, dir, "checkout", "-q", "HEAD", "--", "src") // fetches what it checks out
	got := must[*Manifest](t)(r.AtCommit("HEAD", scope(t, "src"), Options{}))
	if want := c.atHead(scope(t, "src")); got.Digest() != want.Digest() {
		t.Errorf("AtCommit with the blobs of the scope:\n%swant\n%s", got.Canonical(), want.Canonical())
	}
}

// TestEmptyScope: rows A7 and B3. A scope with nothing in it is an error wherever it comes from.
func TestEmptyScope(t *testing.T) {
	c := newClone(t)
	c.write("src/a", "1", "gpu-proof.json", "{}", "real/a", "1")
	c.link("real", "linked")
	if _, err := c.open().AtCommit("HEAD", All(), Options{}); diag.CodeOf(err) != NoCommit {
		t.Errorf("AtCommit before the first commit: %v, want code %s", err, NoCommit)
	}
	if got := must[[]string](t)(c.open().Dirty(scope(t, "src"), Options{})); !slices.Equal(got, []string{"src/a"}) {
		t.Errorf("Dirty before the first commit = %q, want src/a", got)
	}
	c.commit()
	r := c.open()
	for _, tt := range []struct {
		name    string
		scope   Scope
		exclude []string
		want    diag.Code
	}{
		{"zero scope", Scope{}, nil, EmptyScope},
		{"missing folder", scope(t, "src", "tests"), nil, EmptyScope},
		{"all of it excluded", scope(t, "src", "gpu-proof.json"), []string{"gpu-proof.json"}, EmptyScope},
		{"other case", scope(t, "SRC"), nil, EmptyScope},
		{"start of a name", scope(t, "sr"), nil, EmptyScope},
		{"link as a scope", scope(t, "linked"), nil, BadScope},
		{"through a link", scope(t, "linked/a"), nil, EmptyScope},
		{"bad exclusion", scope(t, "src"), []string{":!x"}, BadScope},
	} {
		o := Options{Exclude: tt.exclude}
		_, err := r.AtCommit("HEAD", tt.scope, o)
		if diag.CodeOf(err) != tt.want || CannotTell(err) {
			t.Errorf("%s: AtCommit: %v, want code %s", tt.name, err, tt.want)
		}
		if _, err := r.WorkingTree(tt.scope, o); err == nil || CannotTell(err) {
			t.Errorf("%s: WorkingTree: %v, want a refusal", tt.name, err)
		}
	}
	with := must[*Manifest](t)(r.AtCommit("HEAD", All(), Options{}))
	without := must[*Manifest](t)(r.AtCommit("HEAD", All(), Options{Exclude: []string{"gpu-proof.json"}}))
	if len(with.Entries) != len(without.Entries)+1 {
		t.Errorf("excluding the receipt left out %d entries, want 1", len(with.Entries)-len(without.Entries))
	}
}

// TestRevisions: row B5. A text of a receipt that names a moving commit is not taken for one.
func TestRevisions(t *testing.T) {
	c := newClone(t)
	c.write("a", "1")
	id := c.commit()
	c.git("tag", "-a", "-m", "t", "v1")
	r := c.open()
	for _, rev := range []string{"", "HEAD", "main", id[:12], strings.ToUpper(id), id + "^", " " + id, id + "\n", "null"} {
		if IsCommitID(rev) {
			t.Errorf("IsCommitID(%q) = true", rev)
		}
		if _, err := r.HasCommit(rev); diag.CodeOf(err) != BadRevision {
			t.Errorf("HasCommit(%q): %v, want code %s", rev, err, BadRevision)
		}
		if _, err := r.IsAncestor(rev, id); diag.CodeOf(err) != BadRevision {
			t.Errorf("IsAncestor(%q): %v, want code %s", rev, err, BadRevision)
		}
	}
	for _, rev := range []string{"--all", "-h", "HEAD~1", "HEAD^{tree}", "a..b", ":/m", "HEAD:a", "@{-1}", "x y",
		"ü", "", "*"} {
		if _, err := r.Resolve(rev); diag.CodeOf(err) != BadRevision {
			t.Errorf("Resolve(%q): %v, want code %s", rev, err, BadRevision)
		}
	}
	for _, rev := range []string{"HEAD", "main", "refs/heads/main", "v1", id} {
		if got, err := r.Resolve(rev); got != id {
			t.Errorf("Resolve(%q) = %q, %v, want %s", rev, got, err, id)
		}
	}
	blob := c.git("rev-parse", "HEAD:a")
	for _, rev := range []string{"nowhere", strings.Repeat("0", 40), blob} {
		if _, err := r.Resolve(rev); diag.CodeOf(err) != NoCommit {
			t.Errorf("Resolve(%q): %v, want code %s", rev, err, NoCommit)
		}
	}
	for id, want := range map[string]bool{id: true, blob: false, strings.Repeat("0", 40): false,
		strings.Repeat("0", 64): false} {
		if got, err := r.HasCommit(id); got != want || err != nil {
			t.Errorf("HasCommit(%s) = %v, %v, want %v", id, got, err, want)
		}
	}
	c.write("a", "2")
	next := c.commit()
	for _, tt := range []struct {
		then, now string
		want      bool
	}{{id, next, true}, {next, id, false}, {id, id, true}} {
		if got, err := r.IsAncestor(tt.then, tt.now); got != tt.want || err != nil {
			t.Errorf("IsAncestor(%s, %s) = %v, %v, want %v", tt.then, tt.now, got, err, tt.want)
		}
	}
	if h := must[Commit](t)(r.Head()); h.ID != next || h.Branch != "main" || h.Tree != c.git("rev-parse", "HEAD^{tree}") {
		t.Errorf("Head() = %+v", h)
	}
	c.git("checkout", "-q", "--detach")
	if h := must[Commit](t)(r.Head()); h.Branch != "" {
		t.Errorf("Head().Branch = %q when detached, want none", h.Branch)
	}
}

// TestSeveralRefs: a name that several refs have is refused. Git prefers a tag, which people may push who may not push
// to the branch that a policy is read from.
func TestSeveralRefs(t *testing.T) {
	c := newClone(t)
	c.write("a", "1")
	base := c.commit()
	c.git("update-ref", "refs/remotes/origin/main", base)
	c.write("a", "2")
	c.commit()
	r := c.open()
	c.git("tag", "origin/main/v1") // below the name, and none of it
	if got, err := r.Resolve("origin/main"); got != base {
		t.Errorf("Resolve(origin/main) = %q, %v, want %s", got, err, base)
	}
	c.git("tag", "-d", "origin/main/v1")
	for _, shadow := range []string{"refs/tags/origin/main", "refs/heads/origin/main", "refs/origin/main"} {
		c.git("update-ref", shadow, "HEAD")
		if got, err := r.Resolve("origin/main"); diag.CodeOf(err) != BadRevision || !strings.Contains(err.Error(), shadow) {
			t.Errorf("Resolve(origin/main) beside %s = %q, %v, want code %s", shadow, got, err, BadRevision)
		}
		if _, err := r.Resolve("origin/main"); !strings.HasSuffix(diag.HintOf(err), " refs/remotes/origin/main") {
			t.Errorf("Resolve(origin/main) beside %s: the hint is %q", shadow, diag.HintOf(err))
		}
		if got, err := r.Resolve("refs/remotes/origin/main"); got != base {
			t.Errorf("Resolve(refs/remotes/origin/main) = %q, %v, want %s", got, err, base)
		}
		c.git("update-ref", "-d", shadow)
	}
}

func TestReadFileAtCommit(t *testing.T) {
	c := newClone(t)
	c.write("policy.yml", "scope: [src]\n", "d/x", "y")
	c.link("policy.yml", "link")
	c.commit()
	c.write("policy.yml", "scope: []\n")
	r := c.open()
	if got, err := r.ReadFile("main", "policy.yml", 100); string(got) != "scope: [src]\n" {
		t.Errorf("ReadFile = %q, %v, want the committed text", got, err)
	}
	for name, want := range map[string]diag.Code{"link": Incomplete, "nowhere": EmptyScope, "d": EmptyScope,
		"../x": BadScope} {
		if _, err := r.ReadFile("main", name, 100); diag.CodeOf(err) != want {
			t.Errorf("ReadFile(%q): %v, want code %s", name, err, want)
		}
	}
	if _, err := r.ReadFile("main", "policy.yml", 5); diag.CodeOf(err) != Limit {
		t.Errorf("ReadFile of a large file: %v, want code %s", err, Limit)
	}
}

func TestOpenRefuses(t *testing.T) {
	empty := t.TempDir()
	c := newClone(t)
	for name, dir := range map[string]string{"no repository": empty, "no folder": filepath.Join(empty, "x"),
		"git's own folder": filepath.Join(c.dir, ".git", "objects")} {
		if _, err := Open(context.Background(), dir); diag.CodeOf(err) != NoRepo || !CannotTell(err) {
			t.Errorf("Open of %s: %v, want code %s", name, err, NoRepo)
		}
	}
}

// TestUnreadableHead: row A10. Where HEAD, its commit or its tree cannot be read, there is an error and no manifest.
func TestUnreadableHead(t *testing.T) {
	for name, damage := range map[string]func(c *clone){
		"garbage":        func(c *clone) { c.write(".git/HEAD", "garbage\n") },
		"no such branch": func(c *clone) { c.write(".git/HEAD", "ref: refs/heads/none\n") },
		"no such commit": func(c *clone) { c.write(".git/HEAD", strings.Repeat("1", 40)+"\n") },
		"no commit":      func(c *clone) { c.removeObject("HEAD") },
		"no tree":        func(c *clone) { c.removeObject("HEAD^{tree}") },
		"no blob":        func(c *clone) { c.removeObject("HEAD:src/a") },
	} {
		c := newClone(t)
		c.write("src/a", "1\n")
		c.commit()
		damage(c)
		r, err := Open(context.Background(), c.dir)
		if err == nil {
			var m *Manifest
			if m, err = r.AtCommit("HEAD", scope(t, "src"), Options{}); m != nil && err != nil {
				t.Errorf("%s: a manifest beside the error %v", name, err)
			}
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// removeObject takes a loose object away.
func (c *clone) removeObject(rev string) {
	id := c.git("rev-parse", rev)
	c.remove(filepath.Join(".git", "objects", id[:2], id[2:]))
}

// TestOddFolder: the repository itself lies in a folder with an odd name.
func TestOddFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a:b \"c\"\nd\\é")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("this file system does not take the name: %v", err)
	}
	runGit(t, dir, "init", "-q", "-b", "main")
	c := &clone{t, dir}
	c.write("src/a", "1\n")
	c.commit()
	c.write("src/a", "2\n")
	now := c.files(scope(t, "src"))
	c.commit()
	if got := c.atHead(scope(t, "src")); got.Digest() != now.Digest() {
		t.Errorf("working tree\n%scommit\n%s", now.Canonical(), got.Canonical())
	}
}

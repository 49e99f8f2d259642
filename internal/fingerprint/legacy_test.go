package fingerprint

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/testkit"
)

// ownRepo clones the repository of the original's vectors.
func ownRepo(t testing.TB, branch string) *Repo {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "own")
	runGit(t, "", "clone", "-q", "-b", branch, testkit.VectorPath(t, "gpu-proof/repo-own.bundle"), dir)
	return must[*Repo](t)(Open(context.Background(), dir))
}

// Constants of the vectors' MANIFEST.json.
const (
	emptyDigest = "aae5a71db7cd42382ef749f87ca847684d9d4a517cc8235f53ea31bd492c3577"
	ownDigest   = "3e8944c6501f52f89407fc372b386c35d62adff13cb802454923463d90b2454c"
)

func TestLegacyVector(t *testing.T) {
	r := ownRepo(t, "main")
	want := must[[]byte](t)(os.ReadFile(testkit.VectorPath(t, "gpu-proof/canonical/own-fingerprint.preimage.json")))
	for _, from := range []struct {
		name string
		d    *LegacyDigest
	}{
		{"commit", must[*LegacyDigest](t)(r.Legacy("HEAD", []string{"src", "tests"}))},
		{"working tree", must[*LegacyDigest](t)(r.LegacyWorkingTree([]string{"tests", "src"}))},
	} {
		got := from.d.Match(ownDigest)
		if got == nil || got.Name != "plain" || got.Files != 16 {
			t.Errorf("%s: the vector's digest is not among %+v", from.name, from.d)
		} else if !bytes.Equal(got.Preimage, want) {
			t.Errorf("%s: preimage\n%s\nwant\n%s", from.name, got.Preimage, want)
		}
	}
	if d := must[*LegacyDigest](t)(r.Legacy("HEAD", nil)); d.Readings[0].Files <= 16 {
		t.Errorf("no paths: %d files, want all", d.Readings[0].Files)
	}
	if sum := fmt.Sprintf("%x", sum(string(legacyPreimage(nil)))); sum != emptyDigest {
		t.Errorf("digest of no files = %s, want %s", sum, emptyDigest)
	}
}

// TestLegacyScope: rows A7, B3 and B4. What the original took for a scope is refused before git or a file sees it.
func TestLegacyScope(t *testing.T) {
	r := ownRepo(t, "main")
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("1234"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		paths []string
		want  diag.Code
	}{
		{[]string{".", ":!src/pkg/ops.py"}, BadScope},
		{[]string{"--format=x"}, BadScope},
		{[]string{"/dev"}, BadScope},
		{[]string{outside}, BadScope},
		{[]string{"../" + filepath.Base(outside)}, BadScope},
		{[]string{"nowhere"}, EmptyScope},
		{[]string{""}, BadScope},
	} {
		for name, f := range map[string]func() error{
			"commit":        func() error { _, err := r.Legacy("HEAD", tt.paths); return err },
			"working tree":  func() error { _, err := r.LegacyWorkingTree(tt.paths); return err },
			"v2":            func() error { _, _, err := r.ManifestV2("HEAD", V2Paths{Included: tt.paths}); return err },
			"v2, exclusion": func() error { return excludeV2(r, tt.paths) },
		} {
			if name == "v2, exclusion" && tt.want == EmptyScope {
				continue // excluding what is not there does no harm
			}
			if err := f(); diag.CodeOf(err) != tt.want || CannotTell(err) {
				t.Errorf("%s of %q: %v, want code %s", name, tt.paths, err, tt.want)
			}
		}
	}
}

func excludeV2(r *Repo, paths []string) error {
	_, _, err := r.ManifestV2("HEAD", V2Paths{Included: []string{"src"}, Excluded: paths})
	return err
}

// TestLegacyHiddenEdits: row A8. The branch hidden-edits has another content with the same old digest; the gaps name
// all of it, and the comparison of the commits finds it.
func TestLegacyHiddenEdits(t *testing.T) {
	r := ownRepo(t, "hidden-edits")
	s := scope(t, "src", "tests")
	reading := must[*LegacyDigest](t)(r.Legacy("HEAD", s.Paths())).Match(ownDigest)
	if reading == nil {
		t.Fatal("the branch has another digest: it hides nothing")
	}
	changes := must[[]Change](t)(r.CompareCommits("origin/main", "HEAD", s, Options{}))
	if len(changes) == 0 {
		t.Error("CompareCommits finds nothing")
	}
	for _, c := range changes {
		covered := !slices.ContainsFunc(reading.Gaps, func(g LegacyGap) bool { return g.Path == c.Path })
		if covered && c.What != "mode" { // an executable that is none now: no list of what is there can tell
			t.Errorf("%s (%s) changed and is no gap of the digest", c.Path, c.What)
		}
	}
	then := must[*Manifest](t)(r.AtCommit("origin/main", s, Options{}))
	now := must[*Manifest](t)(r.AtCommit("HEAD", s, Options{}))
	if then.Digest() == now.Digest() {
		t.Error("our digest does not see the edits")
	}
}

// TestLegacyOutside: row B6. What changed outside the scope is for the policy; ours sees it with a wider scope.
func TestLegacyOutside(t *testing.T) {
	r := ownRepo(t, "outside-changed")
	s := scope(t, "src", "tests")
	if got := must[[]Change](t)(r.CompareCommits("origin/main", "HEAD", s, Options{})); len(got) != 0 {
		t.Errorf("changes inside the scope: %v", got)
	}
	if got := must[[]Change](t)(r.CompareCommits("origin/main", "HEAD", All(), Options{})); len(got) == 0 {
		t.Error("no changes outside the scope")
	}
}

// oddRepo has a name and a link of every kind.
func oddRepo(t *testing.T) *clone {
	t.Helper()
	c := newClone(t)
	for i, name := range hostileNames {
		c.write("src/"+name, fmt.Sprint(i))
	}
	c.write("lib/far", "far\n", "src/dir/near", "near\n", "src/run", "run\n")
	c.chmod("src/run", 0o755)
	for name, target := range map[string]string{"to-file": "dir/near", "to-far": "../lib/far", "to-folder": "dir",
		"dangling": "nowhere", "outside": "/etc/hostname", "above": "../../../x", "loop": "loop", "chain": "l-to-file",
		"through": "l-to-folder/near", "root": "/run", "slash": "run/", "dot": "./dir/../run", "up": "dir/../../src/run"} {
		c.link(target, "src/l-"+name)
	}
	return c
}

// TestLegacyOriginal has the digests that the original 0.1.0 gives for oddRepo, and that the rules of 0.4 give.
func TestLegacyOriginal(t *testing.T) {
	c := oddRepo(t)
	c.remove("src/l-outside") // the original hashes what it leads to, on whatever machine
	c.commit()
	r := c.open()
	want := map[string]string{
		"plain": "6fed3272a4376ffb8cd239c6b3415199deff7400b216ef6b56b939c80f7746c1",
		"all":   "3e5086fef504e8342a23409b02aeae554586cc1d4fc3b0789b1f2aac6f86f1a0",
	}
	for from, d := range map[string]*LegacyDigest{
		"commit":       must[*LegacyDigest](t)(r.Legacy("HEAD", []string{"src"})),
		"working tree": must[*LegacyDigest](t)(r.LegacyWorkingTree([]string{"src"})),
	} {
		for _, reading := range d.Readings {
			if reading.Name != "unquoted" && reading.Digest != want[reading.Name] { // a name that is no UTF-8 ends 0.1.0 then
				t.Errorf("%s, %s: digest %s, want %s\n%s", from, reading.Name, reading.Digest, want[reading.Name],
					reading.Preimage)
			}
		}
	}
	const v2 = "53f4a1a5605652c814510583a52b35262fab48fdad441ac4153c61be5fa0c9fc"
	p := V2Paths{Included: []string{"."}, Excluded: []string{"lib/far"}}
	if got, n, err := r.ManifestV2("HEAD", p); got != v2 || err != nil {
		t.Errorf("ManifestV2 = %s of %d, %v, want %s", got, n, err, v2)
	}
}

// TestLegacyGaps: every entry that the old digest does not pin down is named, and why.
func TestLegacyGaps(t *testing.T) {
	c := newClone(t)
	c.write("src/a", "1", "src/ü", "2", "src/q\"", "3", "src/run", "4")
	c.chmod("src/run", 0o755)
	c.link("a", "src/link")
	c.git("init", "-q", "src/sub")
	sub := &clone{t, filepath.Join(c.dir, "src/sub")}
	sub.write("x", "1")
	sub.commit()
	c.commit()
	d := must[*LegacyDigest](t)(c.open().Legacy("HEAD", []string{"src"}))
	want := map[string]string{
		"plain":    `[{src/link link} {src/q" name} {src/run mode} {src/sub gitlink} {src/ü name}]`,
		"unquoted": `[{src/link link} {src/q" name} {src/run mode} {src/sub gitlink}]`,
		"all":      `[{src/link link} {src/run mode} {src/sub gitlink}]`,
	}
	digests := map[string]string{ // of the original 0.1.0, with core.quotePath true and false
		"plain":    "ee1c46aedfc96d57f30e19747d763ce3a5ffb38083c15151847919d7f337c9c2",
		"unquoted": "6ad5506aaad6e5bf3b0d6646a04ea5601d0a1645b92c3cae629ad8a80b1b67f4",
	}
	for _, r := range d.Readings {
		if got := fmt.Sprint(r.Gaps); got != want[r.Name] {
			t.Errorf("%s: gaps %s, want %s", r.Name, got, want[r.Name])
		}
		if want := digests[r.Name]; want != "" && r.Digest != want {
			t.Errorf("%s: digest %s, want %s\n%s", r.Name, r.Digest, want, r.Preimage)
		}
	}
}

// TestLegacyStaysInside: row B4. A link out of the repository, a pipe, a device are never read.
func TestLegacyStaysInside(t *testing.T) {
	c := oddRepo(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("1234"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.link(filepath.Join(outside, "secret"), "src/secret")
	c.link("/dev/zero", "src/zero")
	c.link(outside, "src/out")
	c.commit()
	mkfifo(c, "pipe")
	c.link("../pipe", "src/pipe")
	c.git("add", "src/pipe")
	secret := fmt.Sprintf("%x", sum("1234"))
	for from, d := range map[string]*LegacyDigest{
		"commit":       must[*LegacyDigest](t)(c.open().Legacy("HEAD", nil)),
		"working tree": must[*LegacyDigest](t)(c.open().LegacyWorkingTree(nil)),
	} {
		for _, r := range d.Readings {
			if strings.Contains(string(r.Preimage), secret) || strings.Contains(string(r.Preimage), "src/zero") ||
				strings.Contains(string(r.Preimage), "src/pipe") {
				t.Errorf("%s, %s: the digest has something from outside: %s", from, r.Name, r.Preimage)
			}
		}
	}
	p := V2Paths{Included: []string{"src"}, Extra: []string{"src/out/secret"}}
	if _, _, err := c.open().ManifestV2("HEAD", p); diag.CodeOf(err) != BadOutput {
		t.Errorf("ManifestV2 with an extra path through a link: %v, want code %s", err, BadOutput)
	}
}

// TestManifestV2Extra: extra files, links and folders, beside what Git knows.
func TestManifestV2Extra(t *testing.T) {
	c := newClone(t)
	c.write("src/a", "1", ".gitignore", "build/\n", "build/x.so", "x", "build/sub/y.so", "y", "build/skip", "s")
	c.link("x.so", "build/link")
	c.link("/dev/null", "build/far")
	c.commit()
	r := c.open()
	const want = "6af93b629d5a3da6f8c2a28cfff9aaba42f1bbc161125ad6c4df3136f387bb34"
	p := V2Paths{Included: []string{"src"}, Extra: []string{"build", "src/a", "build/x.so"},
		Excluded: []string{"build/skip"}}
	if got, n, err := r.ManifestV2("HEAD", p); got != want || n != 5 || err != nil {
		t.Errorf("ManifestV2 = %s of %d, %v, want %s of 5", got, n, err, want)
	}
	p.Extra = append(p.Extra, "./build/", "build/sub", "build")
	if got, _, err := r.ManifestV2("HEAD", p); got != want {
		t.Errorf("ManifestV2 with paths twice = %s, %v, want %s", got, err, want)
	}
	// Each path may be a walk through the whole tree, and a receipt may name a million.
	if got := must[[]string](t)(extraRoots(p.Extra)); !slices.Equal(got, []string{"build", "src/a"}) {
		t.Errorf("extraRoots(%q) = %q, want each folder once", p.Extra, got)
	}
	many := V2Paths{Included: p.Included, Extra: slices.Repeat([]string{"."}, maxScopePaths+1)}
	if got, _, err := r.ManifestV2("HEAD", many); diag.CodeOf(err) != BadScope {
		t.Errorf("ManifestV2 of %d extra paths = %s, %v, want code %s", len(many.Extra), got, err, BadScope)
	}
	p.Included = nil
	if _, n, err := r.ManifestV2("HEAD", p); n != 5 || err != nil {
		t.Errorf("ManifestV2 of extra paths alone: %d files, %v, want 5", n, err)
	}
	for _, bad := range []V2Paths{{}, {Extra: []string{"none"}}, {Included: []string{"src"},
		Excluded: []string{"src/a"}}} {
		if got, _, err := r.ManifestV2("HEAD", bad); err == nil {
			t.Errorf("ManifestV2(%+v) = %s, want an error", bad, got)
		}
	}
}

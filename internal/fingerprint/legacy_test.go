package fingerprint

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
)

const vectors = "../../testdata/vectors/gpu-proof"

// ownRepo clones the original's test repository.
func ownRepo(t testing.TB, branch string) *Repo {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "own")
	bundle, err := filepath.Abs(filepath.Join(vectors, "repo-own.bundle"))
	if err != nil {
		t.Fatal(err)
	}
	runGit(t, "", "clone", "-q", "-b", branch, bundle, dir)
	r, err := Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLegacyVector(t *testing.T) {
	r := ownRepo(t, "main")
	want, err := os.ReadFile(filepath.Join(vectors, "canonical", "own-fingerprint.preimage.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []struct {
		name string
		d    *LegacyDigest
	}{
		{"commit", must[*LegacyDigest](t)(r.Legacy("HEAD", []string{"src", "tests"}))},
		{"working tree", must[*LegacyDigest](t)(r.LegacyWorkingTree([]string{"tests", "src"}))},
	} {
		got := from.d.Match("3e8944c6501f52f89407fc372b386c35d62adff13cb802454923463d90b2454c")
		if got == nil || got.Name != "plain" || got.Files != 16 {
			t.Errorf("%s: the vector's digest is not among %+v", from.name, from.d)
		} else if !bytes.Equal(got.Preimage, want) {
			t.Errorf("%s: preimage\n%s\nwant\n%s", from.name, got.Preimage, want)
		}
	}
}

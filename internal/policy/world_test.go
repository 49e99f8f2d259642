package policy

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuemu/internal/fingerprint"
	"gpuemu/internal/forge"
	"gpuemu/internal/receipt"
	"gpuemu/internal/sshsig"
)

// world is a repository with a few files, two people with keys, and a folder that has their public parts.
type world struct {
	dir, keys  string
	repo       *fingerprint.Repo
	head       fingerprint.Commit
	digest     string
	files      int
	alice, bob sshsig.Signer
}

const worldRemote = "https://github.com/alice/kernels.git"

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newKey makes a key in a file and registers it as name's in the folder of keys.
func newKey(t testing.TB, keys, name string) sshsig.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := sshsig.FileSigner(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, keys, name+".keys", signer.PublicKey().String()+"\n")
	return signer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), keys: t.TempDir()}
	w.alice, w.bob = newKey(t, w.keys, "alice"), newKey(t, w.keys, "bob")
	git(t, w.dir, "init", "-q", "-b", "main")
	write(t, w.dir, "src/k.py", "def k(x):\n    return 2 * x\n")
	write(t, w.dir, "tests/test_k.py", "def test_k(): pass\n")
	write(t, w.dir, "conftest.py", "\n")
	write(t, w.dir, ".gitignore", "build/\n")
	git(t, w.dir, "remote", "add", "origin", worldRemote)
	w.commit(t, "first")
	return w
}

// commit commits everything and looks at the tree again.
func (w *world) commit(t testing.TB, message string) {
	t.Helper()
	git(t, w.dir, "add", "-A")
	git(t, w.dir, "commit", "-q", "-m", message)
	w.reopen(t)
}

func (w *world) reopen(t testing.TB) {
	t.Helper()
	w.repo = openRepo(t, w.dir)
	var err error
	if w.head, err = w.repo.Head(); err != nil {
		t.Fatal(err)
	}
	scope, err := fingerprint.ParseScope([]string{"src", "tests"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := w.repo.AtCommit("HEAD", scope, fingerprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.digest, w.files = m.Digest(), len(m.Entries)
}

// worldClock is when receipts of the world are looked at: an hour after the run.
var worldClock = time.Date(2026, 11, 15, 11, 2, 0, 0, time.UTC)

// draft is a receipt before it is sealed.
type draft struct {
	results *receipt.Results
	facts   receipt.Facts
	after   func(*receipt.Statement) // what the first two do not reach
	signers []sshsig.Signer
}

// draft is a good receipt of alice's: one test, nothing to complain about.
func (w *world) draft() *draft {
	const id = "tests/test_k.py::test_k"
	return &draft{
		results: &receipt.Results{Format: receipt.ResultsFormat, Runner: receipt.Runner{Name: "pytest", Version: "9.2.0",
			Language: "Python 3.11.7"},
			Mode: "local", Root: ".", StartedAt: "2026-11-15T10:00:00Z", EndedAt: "2026-11-15T10:01:00Z", Finished: true,
			Code:      receipt.ResultsCode{Start: w.digest, End: w.digest},
			Collected: []string{id}, Tests: []receipt.Test{{ID: id, Outcome: receipt.Passed, Phase: "call", Seconds: 1}}},
		facts: receipt.Facts{Tool: "test", SignedAt: time.Date(2026, 11, 15, 10, 2, 0, 0, time.UTC),
			Signer: &receipt.Signer{Principal: "alice", KeyFingerprint: w.alice.PublicKey().Fingerprint()},
			Repo:   receipt.Repo{Remote: worldRemote, Commit: w.head.ID, Tree: w.head.Tree, Branch: "main"},
			Code:   receipt.Code{Scope: []string{"src", "tests"}, Digest: w.digest, Files: w.files},
			Environment: receipt.Environment{Platform: "linux/amd64",
				GPUs: []receipt.GPU{{Index: "0", UUID: "GPU-1", Name: "NVIDIA H200"}}}},
		signers: []sshsig.Signer{w.alice},
	}
}

func (d *draft) seal(t testing.TB) []byte {
	t.Helper()
	s := receipt.NewStatement(d.results, d.facts)
	if d.after != nil {
		d.after(s)
	}
	b, err := s.Seal(d.signers...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// schema1 is the draft as the original's first schema, as a document to be changed and signed anew.
func (w *world) schema1(t testing.TB, d *draft) map[string]any {
	t.Helper()
	legacy, err := w.repo.Legacy("HEAD", []string{"src", "tests"})
	if err != nil {
		t.Fatal(err)
	}
	s := receipt.NewStatement(d.results, d.facts)
	b, err := receipt.WriteSchema1(s, receipt.Schema1{Digest: legacy.Readings[0].Digest,
		Files: legacy.Readings[0].Files}, w.alice)
	if err != nil {
		t.Fatal(err)
	}
	v, err := receipt.DecodeStrict(b, receipt.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

// schema3 is the draft as the original's third schema.
func (w *world) schema3(t testing.TB, d *draft) map[string]any {
	t.Helper()
	doc := w.schema1(t, d)
	paths := fingerprint.V2Paths{Included: []string{"."}, Excluded: []string{"gpu-proof.json"}}
	digest, count, err := w.repo.ManifestV2("HEAD", paths)
	if err != nil {
		t.Fatal(err)
	}
	number, err := json.Marshal(count)
	if err != nil {
		t.Fatal(err)
	}
	doc["schema_version"] = "3"
	doc["fingerprint"] = map[string]any{"algorithm": "sha256-manifest-v2", "included_paths": []any{"."},
		"extra_paths":    []any{},
		"excluded_paths": []any{"gpu-proof.json"}, "file_count": json.Number(number), "digest": digest}
	session := doc["session"].(map[string]any)
	session["outcome"], session["pytest_args"] = "passed", []any{"tests"}
	for _, test := range doc["tests"].([]any) {
		test.(map[string]any)["phase"] = "call"
	}
	doc["environment"].(map[string]any)["gpu_info"] = map[string]any{"cuda_visible_devices": nil, "devices": []any{
		map[string]any{"index": "0", "uuid": "GPU-1", "name": "NVIDIA H200", "driver_version": "1", "memory": "141 GB",
			"compute_capability": "9.0"}}}
	doc["signer"] = map[string]any{"github_user": "alice", "algorithm": "ed25519", "backend": "ssh-local",
		"key_fingerprint": w.alice.PublicKey().Fingerprint()}
	doc["signature"] = map[string]any{}
	return doc
}

// signRaw signs a document of the original's anew, and returns the file.
func signRaw(t testing.TB, doc map[string]any, signer sshsig.Signer) []byte {
	t.Helper()
	signed := maps.Clone(doc)
	delete(signed, "signature")
	payload, err := receipt.PythonCanonical(signed)
	if err != nil {
		t.Fatal(err)
	}
	if block, ok := doc["signature"].(map[string]any); ok {
		value, _, err := signer.SignRaw(payload)
		if err != nil {
			t.Fatal(err)
		}
		block["value"] = base64.StdEncoding.EncodeToString(value)
	}
	b, err := receipt.PythonCanonical(doc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// check verifies a file in the world.
func (w *world) check(t testing.TB, file []byte, rules *Rules) *Report {
	t.Helper()
	r, err := receipt.Parse("gpu-proof.json", file)
	if err != nil {
		return Malformed(err)
	}
	if err := rules.Validate(); err != nil {
		t.Fatal(err)
	}
	return Check(context.Background(), Inputs{Receipt: r, Repo: w.repo, Rules: rules, Keys: forge.Folder(w.keys),
		Now: worldClock})
}

// aliceMay are the least rules: alice may sign, and the rest is default.
func aliceMay() *Rules { return &Rules{Signers: []string{"alice"}} }

// wantOnly fails unless the report refuses for exactly these reasons.
func wantOnly(t testing.TB, got *Report, want ...Reason) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(codes(got.Refusals), want) || len(got.Unreachable) > 0 || got.Accepted != (len(want) == 0) {
		t.Errorf("accepted: %v, refusals %+v, unreachable %+v, want the reasons %q alone", got.Accepted, got.Refusals,
			got.Unreachable, want)
	}
}

// wantWarning fails unless the report accepts, and warns of it.
func wantWarning(t testing.TB, got *Report, want Reason) {
	t.Helper()
	wantOnly(t, got)
	if !slices.Contains(codes(got.Warnings), want) {
		t.Errorf("warnings %+v, want %s", got.Warnings, want)
	}
}

// at follows a path of keys and indices in a document.
func at(t testing.TB, doc any, path ...any) map[string]any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			doc = doc.(map[string]any)[p]
		case int:
			doc = doc.([]any)[p]
		}
	}
	return doc.(map[string]any)
}

func lines(list ...string) string { return strings.Join(list, "\n") + "\n" }

// manifest is the digest of a scope at HEAD, and how many files it has.
func (w *world) manifest(paths, exclude []string) (string, int) {
	scope, err := fingerprint.ParseScope(paths)
	if err != nil {
		panic(err)
	}
	m, err := w.repo.AtCommit("HEAD", scope, fingerprint.Options{Exclude: exclude})
	if err != nil {
		panic(err)
	}
	return m.Digest(), len(m.Entries)
}

func (w *world) manifestV2(t testing.TB, exclude string) (string, int) {
	t.Helper()
	digest, files, err := w.repo.ManifestV2("HEAD", fingerprint.V2Paths{Included: []string{"."},
		Excluded: []string{exclude}})
	if err != nil {
		t.Fatal(err)
	}
	return digest, files
}

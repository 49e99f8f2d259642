package receipt

import (
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/sshsig"
	"gpuemu/internal/testkit"
)

// TestLegacyVectors: every receipt of the original's is read; what it says is kept.
func TestLegacyVectors(t *testing.T) {
	files, err := filepath.Glob(testkit.VectorPath(t, "gpu-proof/receipts/*.json"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d receipts, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		r := testReceipt(t, vectorFile(t, "receipts/"+name))
		if r.Format != "1" || r.Legacy == nil || len(r.Weaknesses) == 0 || len(r.Predicate.Tests) == 0 {
			t.Errorf("%s: %+v", name, r)
		}
		signed := name != "own-unsigned.json"
		if (len(r.Signatures) == 1) != signed || (r.Predicate.Signer != nil) != signed {
			t.Errorf("%s: %d signatures, signer %+v", name, len(r.Signatures), r.Predicate.Signer)
		}
		if signed {
			raw := r.Signatures[0].Raw
			keys, _ := sshsig.ParsePublicKeys("k", vectorFile(t, "keys/"+raw.Signer+".keys"))
			if err := sshsig.VerifyRaw(keys[0], raw.Algorithm, r.Payload, raw.Value); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	r := testReceipt(t, vectorFile(t, "receipts/own-ed25519.json"))
	if want := vectorFile(t, "canonical/own-ed25519.signed-bytes"); string(r.Payload) != string(want) {
		t.Errorf("the signed bytes are %q, want %q", r.Payload, want)
	}
	if !r.Legacy.NonFinite || r.Legacy.Fingerprint.FileCount != 16 || r.Predicate.Repo.Branch != "main" {
		t.Errorf("%+v", r.Legacy)
	}
	files2 := r.Extract()
	if string(files2["payload.bin"]) != string(r.Payload) || len(files2["signature.raw"]) != 64 {
		t.Errorf("Extract: %q", files2)
	}
	gpu := testReceipt(t, vectorFile(t, "receipts/own-gpuinfo-faked.json")).Predicate.Environment.GPUs
	if want := []GPU{{Name: "NVIDIA Fake 9000", Driver: "999.01", Memory: "81559 MiB"}}; !slices.Equal(gpu, want) {
		t.Errorf("GPUs %+v, want %+v", gpu, want)
	}
	if _, err := r.AddSignature(newSigner(t)); diag.CodeOf(err) != Unfit {
		t.Errorf("a second signature on schema 1: %v", err)
	}
}

// schema3 is a receipt of the original's 0.4 with a shard, merged of two runs.
const schema3 = `{"schema_version": "3", "mode": "ci-gpu",
 "repo": {"remote_url": null, "github_username": "u", "commit_sha": "c", "branch": null, "dirty": false},
 "fingerprint": {"algorithm": "sha256-manifest-v2", "included_paths": ["."], "extra_paths": ["x"],
  "excluded_paths": ["gpu-proof.json"], "file_count": 2, "digest": "d"},
 "session": {"started_at": "s", "ended_at": "e", "outcome": "passed", "node_ids": ["t"], "pytest_args": [["a"], ["b",
	"c"]],
  "shards": [{"source": "s.json", "node_count": 1, "started_at": "s", "ended_at": "e", "signer": null}]},
 "tests": [{"node_id": "t", "outcome": "error", "phase": "setup", "duration_s": 0.1, "checks": []}],
 "environment": {"python_version": "3.12", "platform": "Linux-6", "pytest_version": "9", "plugin_version": "0.4.0",
  "gpu_info": {"devices": [{"index": "0", "uuid": "GPU-1", "name": "H200", "driver_version": "1", "memory": "141 GB",
   "compute_capability": "9.0"}, {"index": null, "uuid": null, "name": null, "driver_version": null, "memory": null,
   "compute_capability": null}], "cuda_visible_devices": "0"}},
 "shards": [{"name": "core", "fingerprint": {"algorithm": "sha256-manifest-v2", "included_paths": ["src"],
	"extra_paths": [],
  "excluded_paths": [], "file_count": 1, "digest": "d"}, "node_ids": ["t"], "environment": {"python_version": "3.12",
  "platform": "Linux-6", "pytest_version": "9", "plugin_version": "0.4.0", "gpu_info": null}, "started_at": "s",
  "ended_at": "e", "carried": {"from": "old.json", "original_commit_sha": "o", "original_ended_at": "e",
	"original_signer": "u"}}],
 "signer": {"github_user": "u", "algorithm": "ed25519", "backend": "ssh-local", "key_fingerprint": "SHA256:k"},
 "signature": {"value": "AAAA"}}`

func TestSchema3(t *testing.T) {
	r := testReceipt(t, []byte(schema3))
	p := r.Predicate
	if r.Format != "3" || p.Mode != "ci-gpu" || !slices.Equal(p.Run.Arguments, []string{"a", "b", "c"}) ||
		p.Tests[0].Outcome != Errored || p.Tests[0].Phase != "setup" || len(p.Environment.GPUs) != 2 ||
		*p.Environment.CUDAVisibleDevices != "0" || p.Environment.GPUs[0].ComputeCapability != "9.0" {
		t.Errorf("%+v", p)
	}
	raw := r.Signatures[0].Raw
	if !raw.Bound || raw.Signer != "u" || raw.Algorithm != "ed25519" || p.Signer.KeyFingerprint != "SHA256:k" {
		t.Errorf("%+v, %+v", raw, p.Signer)
	}
	if s := r.Legacy.Shards[0]; s.Name != "core" || *s.Carried.EndedAt != "e" || r.Legacy.Outcome != "passed" {
		t.Errorf("%+v", s)
	}
	if strings.Contains(string(r.Payload), "AAAA") || !strings.Contains(string(r.Payload), `"signer":{`) {
		t.Errorf("signed bytes %s", r.Payload)
	}
}

func TestLegacyRefuses(t *testing.T) {
	one := vectorFile(t, "receipts/own-ed25519.json")
	for _, tt := range []struct {
		change
		of []byte
	}{
		{change{"number for the schema", json.Number("1"), WrongType, at("schema_version")}, one},
		{change{"schema 4", "4", UnknownFormat, at("schema_version")}, one},
		{change{"unknown field", "x", UnknownField, at("surprise")}, one},
		{change{"unsigned field", "x", UnknownField, at("signature", "approved_by")}, one},
		{change{"field of schema 3", map[string]any{"github_user": "u", "algorithm": "a", "backend": "b",
			"key_fingerprint": "k"},
			UnknownField, at("signer")}, one},
		{change{"outcome of schema 3", "error", BadValue, at("tests", 0, "outcome")}, one},
		{change{"session outcome", "passed", UnknownField, at("session", "outcome")}, one},
		{change{"shards in schema 1", []any{}, UnknownField, at("shards")}, one},
		{change{"no signer", deleted, MissingField, at("signature", "signer")}, one},
		{change{"no algorithm", deleted, MissingField, at("signature", "algorithm")}, one},
		{change{"no signature", deleted, MissingField, at("signature")}, one},
		{change{"signature of junk", "AA AA", BadValue, at("signature", "value")}, one},
		{change{"signature as a list", []any{}, WrongType, at("signature")}, one},
		{change{"test without a name", deleted, MissingField, at("tests", 0, "node_id")}, one},
		{change{"test with an empty name", "", BadValue, at("tests", 0, "node_id")}, one},
		{change{"test twice", "tests/test_ops.py::test_double", BadValue, at("tests", 1, "node_id")}, one},
		{change{"NaN outside of metadata", json.Number("NaN"), NotFinite, at("tests", 0, "duration_s")}, one},
		{change{"NaN beside metadata", json.Number("NaN"), NotFinite, at("environment", "metadata")}, one},
		{change{"large outside of metadata", json.Number("1e999"), NotFinite, at("fingerprint", "file_count")}, one},
		{change{"GPU as a list", []any{"x"}, WrongType, at("environment", "gpu_info")}, one},
		{change{"GPU as in schema 3", map[string]any{"devices": []any{}}, MissingField, at("environment", "gpu_info")}, one},
		{change{"paths null", nil, WrongType, at("fingerprint", "included_paths")}, one},
		{change{"signature with more than a value", "ed25519", UnknownField, at("signature", "algorithm")}, []byte(schema3)},
		{change{"signer beside the value", "u", UnknownField, at("signature", "signer")}, []byte(schema3)},
		{change{"many shards", slices.Repeat(at(decoded(t, []byte(schema3)).(map[string]any)["shards"].([]any)[0]),
			maxShards+1), TooLarge, at("shards")}, []byte(schema3)},
		{change{"no signer in schema 3", deleted, MissingField, at("signer")}, []byte(schema3)},
		{change{"no outcome", deleted, MissingField, at("session", "outcome")}, []byte(schema3)},
		{change{"no arguments", deleted, MissingField, at("session", "pytest_args")}, []byte(schema3)},
		{change{"argument that is no text", []any{json.Number("1")}, WrongType, at("session", "pytest_args")},
			[]byte(schema3)},
		{change{"NaN in metadata of schema 3", []any{map[string]any{"name": "c", "outcome": "passed",
			"metadata": map[string]any{"x": json.Number("NaN")}}}, NotFinite, at("tests", 0, "checks")}, []byte(schema3)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := encoded(t, edit(t, decoded(t, tt.of), tt.value, tt.path...))
			if r, err := Parse("x.json", b); diag.CodeOf(err) != tt.code {
				t.Errorf("Parse = %+v, %v, want %s", r, err, tt.code)
			}
		})
	}
}

// TestPublishedExample: the receipt of the original's README, which lacks two fields of the real ones.
func TestPublishedExample(t *testing.T) {
	doc := edit(t, decoded(t, vectorFile(t, "receipts/own-gpuinfo-faked.json")), deleted, "environment", "plugin_version")
	r := testReceipt(t, encoded(t, edit(t, doc, deleted, "environment", "gpu_info", "memory")))
	if r.Predicate.Environment.GPUs[0].Memory != "" {
		t.Errorf("%+v", r.Predicate.Environment)
	}
}

// TestWriteSchema1: what we write as schema 1 is read again, says the same, and is signed over the original's bytes.
func TestWriteSchema1(t *testing.T) {
	alice := newSigner(t)
	s := testStatement(t, alice)
	s.Predicate.Tests = append(s.Predicate.Tests, Test{ID: "é\u2028😀", Outcome: XFailed, Seconds: 0.00004999},
		Test{ID: "e", Outcome: Errored, Seconds: 3})
	b, err := WriteSchema1(s, Schema1{Digest: testDigest, Files: 7}, alice)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(string(b), func(r rune) bool { return r > 0x7e }) || !strings.HasPrefix(string(b),
		"{\n  \"environment\": {\n") {
		t.Errorf("not ASCII as Python indents it: %s", b)
	}
	r := testReceipt(t, b)
	raw := r.Signatures[0].Raw
	if err := sshsig.VerifyRaw(alice.PublicKey(), raw.Algorithm, r.Payload, raw.Value); err != nil {
		t.Error(err)
	}
	p := r.Predicate
	if raw.Signer != "alice" || r.Legacy.GitHubUsername != "alice" || p.Code.Files != 7 || p.Code.Digest != testDigest ||
		p.Tests[1].Outcome != Skipped || p.Tests[2].Outcome != Failed || p.Environment.GPUs[0].Name != "NVIDIA H200" {
		t.Errorf("%+v", p)
	}
	for _, want := range []string{`"duration_s": 3.0`, `"duration_s": 0.0`, `"duration_s": 1.23`,
		`"python_version": "3.11.7"`, `"big": 18446744073709551616`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	s = testStatement(t, nil)
	if b, err = WriteSchema1(s, Schema1{Digest: testDigest, Files: 7}, nil); err != nil || len(testReceipt(t,
		b).Signatures) != 0 {
		t.Errorf("unsigned: %s, %v", b, err)
	}
	for name, spoil := range map[string]func(*Predicate){
		"rerun": func(p *Predicate) { p.Tests[0].Reruns = 1 }, "xpass": func(p *Predicate) { p.Tests[0].Outcome = XPassed },
		"unfinished":  func(p *Predicate) { p.Run.Finished = false },
		"exit status": func(p *Predicate) { p.Run.ExitStatus = 2 },
	} {
		s := testStatement(t, alice)
		spoil(&s.Predicate)
		if _, err := WriteSchema1(s, Schema1{Digest: testDigest}, alice); diag.CodeOf(err) != Unfit {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBase64Form(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "AAAA": true, "AA==": true, "AB==": false, "AA=": false,
		"AAAA\n":   false,
		"A\r\nAAA": false, "AA A": false, "AA-_": false, "AAAA====": false} {
		got, err := decodeBase64(text)
		if (err == nil) != ok {
			t.Errorf("decodeBase64(%q) = %q, %v, want ok: %v", text, got, err, ok)
		}
		if err == nil && base64.StdEncoding.EncodeToString(got) != text {
			t.Errorf("decodeBase64(%q) has another spelling", text)
		}
	}
}

package receipt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuemu/internal/diag"
	"gpuemu/internal/sshsig"
	"gpuemu/internal/testkit"
)

// newSigner makes a key of its own for a test.
func newSigner(t testing.TB) sshsig.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
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
	return signer
}

var testDigest = strings.Repeat("ab", 32)

// testResults is the result file of docs/receipts.md.
const testResults = `{"format": "gpu-proof-results/1",
 "runner": {"name": "pytest", "version": "9.2.0", "plugin": "0.2.0", "language": "Python 3.11.7"},
 "mode": "local", "root": ".", "started_at": "2026-11-15T10:00:00Z", "ended_at": "2026-11-15T10:01:30Z",
 "arguments": ["tests"], "exit_status": 0, "finished": true,
 "code": {"scope": ["src", "tests"], "exclude": ["gpu-proof.json"], "outputs": [],
  "start": "DIGEST", "end": "DIGEST"},
 "collected": ["tests/test_relu.py::test_relu", "tests/test_relu.py::test_slow"],
 "deselected": ["tests/test_relu.py::test_slow"],
 "outside": {"passed": 3, "failed": 0, "errors": 0, "skipped": 0},
 "tests": [{"id": "tests/test_relu.py::test_relu", "outcome": "passed", "phase": "call", "seconds": 1.23, "reruns": 0,
            "reason": "", "checks": [{"name": "relu", "outcome": "passed",
	"metadata": {"big": 18446744073709551616}}]}],
 "devices": [{"framework": "torch", "name": "NVIDIA H200", "uuid": "GPU-1"}],
 "challenges": [{"op": "softmax", "attributes": {}, "dtype": "float32", "values": "mixed", "seed": "1234", "count": 1,
  "nonce": "", "kernel": {"ptx": "k.ptx", "entry": "softmax", "grid": ["1"], "block": ["32"], "args": ["input"]},
  "cases": [{"index": 0, "case": "softmax …", "inputs": "x", "outputs": {"output": {"dtype": "float32", "shape": [1],
   "sha256": "y", "data": "AAAAAA=="}}}]}]}`

func readTestResults(t testing.TB) *Results {
	t.Helper()
	r, err := ReadResults("results.json", []byte(strings.ReplaceAll(testResults, "DIGEST", testDigest)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// testStatement is a statement of alice's about testResults.
func testStatement(t testing.TB, signer sshsig.Signer) *Statement {
	t.Helper()
	visible := "0"
	f := Facts{Tool: "gpu-proof test", SignedAt: time.Date(2026, 11, 15, 10, 2, 0, 0, time.UTC), Nonce: "n",
		Repo: Repo{Remote: "https://example.org/a/b", Commit: strings.Repeat("c", 40), Tree: strings.Repeat("d", 40),
			Branch: "main"},
		Code:    Code{Scope: []string{"src", "tests"}, Exclude: []string{"gpu-proof.json"}, Digest: testDigest, Files: 3},
		Outputs: []Output{{Path: "build/k.so", SHA256: testDigest}},
		Environment: Environment{Platform: "linux/amd64", GPUs: []GPU{{Name: "NVIDIA H200", UUID: "GPU-1"}},
			CUDAVisibleDevices: &visible},
	}
	if signer != nil {
		f.Signer = &Signer{Principal: "alice", KeyFingerprint: signer.PublicKey().Fingerprint()}
	}
	return NewStatement(readTestResults(t), f)
}

func TestSealAndParse(t *testing.T) {
	alice, bob := newSigner(t), newSigner(t)
	s := testStatement(t, alice)
	file, err := s.Seal(alice)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse("gpu-proof.json", file)
	if err != nil {
		t.Fatal(err)
	}
	if r.Format != Format || !reflect.DeepEqual(r.Predicate, s.Predicate) || r.Legacy != nil || len(r.Signatures) != 1 {
		t.Errorf("Parse(Seal(s)) = %+v, want %+v", r, s.Predicate)
	}
	sig, err := sshsig.Parse(r.Signatures[0].SSHSIG)
	if err != nil {
		t.Fatal(err)
	}
	if err := sig.Verify(Namespace, r.Payload); err != nil {
		t.Error(err)
	}
	if err := sig.Verify("git", r.Payload); err == nil {
		t.Error("the signature verifies in another namespace")
	}
	if _, err := r.AddSignature(alice); diag.CodeOf(err) != Unfit {
		t.Errorf("a second signature of the same key: %v", err)
	}
	two, err := r.AddSignature(bob)
	if err != nil {
		t.Fatal(err)
	}
	r2, err := Parse("gpu-proof.json", two)
	if err != nil || len(r2.Signatures) != 2 || !bytes.Equal(r2.Payload, r.Payload) || r2.Digest() != r.Digest() {
		t.Errorf("AddSignature changes more than the signatures: %v", err)
	}
	files := r2.Extract()
	if len(files) != 3 || !bytes.Equal(files["payload.json"], r.Payload) ||
		!bytes.HasPrefix(files["payload-2.sig"], []byte("-----BEGIN SSH SIGNATURE-----")) {
		t.Errorf("Extract = %q", files)
	}
}

func TestSealRefuses(t *testing.T) {
	alice, bob := newSigner(t), newSigner(t)
	if _, err := testStatement(t, alice).Seal(bob); diag.CodeOf(err) != Unfit {
		t.Errorf("another key than the one named: %v", err)
	}
	if _, err := testStatement(t, alice).Seal(); diag.CodeOf(err) != Unfit {
		t.Errorf("a signer named and no key: %v", err)
	}
	if _, err := testStatement(t, nil).Seal(alice); diag.CodeOf(err) != Unfit {
		t.Errorf("no signer named and a key: %v", err)
	}
	file, err := testStatement(t, nil).Seal()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse("x", file)
	if err != nil || len(r.Signatures) != 0 || r.Predicate.Signer != nil {
		t.Errorf("unsigned: %+v, %v", r, err)
	}
	if _, err := r.AddSignature(alice); diag.CodeOf(err) != Unfit {
		t.Errorf("a signature on an unsigned receipt: %v", err)
	}
	s := testStatement(t, alice)
	s.Predicate.Tests[0].Reason = "\xff"
	if _, err := s.Seal(alice); diag.CodeOf(err) != Encoding {
		t.Errorf("text that is not UTF-8: %v", err)
	}
	s = testStatement(t, alice)
	s.Predicate.Outputs[0].SHA256 = strings.Repeat("cd", 32)
	if _, err := s.Seal(alice); diag.CodeOf(err) != BadValue {
		t.Errorf("subject and predicate differ: %v", err)
	}
	// An output is hashed where it lies, once; a thousand are enough.
	s = testStatement(t, alice)
	s.Predicate.Outputs = append(s.Predicate.Outputs, s.Predicate.Outputs[0])
	if _, err := wrap(s.Predicate).Seal(alice); diag.CodeOf(err) != BadValue {
		t.Errorf("an output twice: %v", err)
	}
	s.Predicate.Outputs, s.Predicate.Parts = nil, make([]Part, maxParts+1)
	if _, err := wrap(s.Predicate).Seal(alice); diag.CodeOf(err) != TooLarge {
		t.Errorf("%d parts: %v", len(s.Predicate.Parts), err)
	}
	s.Predicate.Parts = nil
	for i := range maxOutputs + 1 {
		s.Predicate.Outputs = append(s.Predicate.Outputs, Output{"build/" + strconv.Itoa(i), strings.Repeat("cd", 32)})
	}
	if _, err := wrap(s.Predicate).Seal(alice); diag.CodeOf(err) != TooLarge {
		t.Errorf("%d outputs: %v", len(s.Predicate.Outputs), err)
	}
}

// edit changes one place of a JSON document: path has keys and indices.
func edit(t testing.TB, doc any, value any, path ...any) any {
	t.Helper()
	if len(path) == 0 {
		return value
	}
	switch doc := doc.(type) {
	case map[string]any:
		key := path[0].(string)
		if value == any(deleted) && len(path) == 1 {
			delete(doc, key)
			return doc
		}
		doc[key] = edit(t, doc[key], value, path[1:]...)
	case []any:
		i := path[0].(int)
		doc[i] = edit(t, doc[i], value, path[1:]...)
	default:
		t.Fatalf("path %v leads to %T", path, doc)
	}
	return doc
}

type deletedMark struct{}

var deleted = deletedMark{}

// decoded reads JSON for editing.
func decoded(t testing.TB, b []byte) any {
	t.Helper()
	v, err := DecodeStrict(b, Limits{NonFinite: true})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := PythonCanonical(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// change is one change and what comes of it.
type change struct {
	name  string
	value any
	code  diag.Code
	path  []any
}

func at(path ...any) []any { return path }

func TestReadResultsRefuses(t *testing.T) {
	doc := []byte(strings.ReplaceAll(testResults, "DIGEST", testDigest))
	for _, tt := range []change{
		{"another format", "gpu-proof-results/2", UnknownFormat, at("format")},
		{"no format", deleted, UnknownFormat, at("format")},
		{"unknown field", "x", UnknownField, at("surprise")},
		{"field in another case", "x", UnknownField, at("Mode")},
		{"unknown field of a test", "x", UnknownField, at("tests", 0, "Outcome")},
		{"missing field", deleted, MissingField, at("finished")},
		{"missing outcome", deleted, MissingField, at("tests", 0, "outcome")},
		{"missing id", deleted, MissingField, at("tests", 0, "id")},
		{"null", nil, WrongType, at("tests", 0, "outcome")},
		{"null list", nil, WrongType, at("tests")},
		{"text for a truth", "true", WrongType, at("finished")},
		{"fraction for a count", json.Number("0.5"), WrongType, at("exit_status")},
		{"list for text", []any{}, WrongType, at("mode")},
		{"unknown mode", "banana", BadValue, at("mode")},
		{"unknown outcome", "ok", BadValue, at("tests", 0, "outcome")},
		{"unknown outcome of a check", "skipped", BadValue, at("tests", 0, "checks", 0, "outcome")},
		{"empty id", "", BadValue, at("tests", 0, "id")},
		{"long id", strings.Repeat("x", maxID+1), BadValue, at("tests", 0, "id")},
		{"not collected", []any{"tests/test_relu.py::test_slow"}, BadValue, at("collected")},
		{"collected twice", []any{"a", "a"}, BadValue, at("collected")},
		{"run and deselected", []any{"tests/test_relu.py::test_relu"}, BadValue, at("deselected")},
		{"deselected, not collected", []any{"y"}, BadValue, at("deselected")},
		{"date in another spelling", "2026-11-15T10:00:00+00:00", BadValue, at("started_at")},
		{"date with a fraction", "2026-11-15T10:00:00.5Z", BadValue, at("ended_at")},
		{"no date", "", BadValue, at("ended_at")},
		{"no digest", "abc", BadValue, at("code", "start")},
		{"root outside", "../x", BadValue, at("root")},
		{"absolute root", "/x", BadValue, at("root")},
		{"negative count", json.Number("-1"), BadValue, at("outside", "failed")},
		{"count that overflows", json.Number("9223372036854775807"), BadValue, at("outside", "errors")},
		{"negative time", json.Number("-1"), BadValue, at("tests", 0, "seconds")},
		{"infinite time", json.Number("1e999"), NotFinite, at("tests", 0, "seconds")},
		{"base64 with junk", "AA!AAAA==", BadValue, at("challenges", 0, "cases", 0, "outputs", "output", "data")},
		{"base64 with a line break", "AAAA\nAA==", BadValue, at("challenges", 0, "cases", 0, "outputs", "output", "data")},
		{"base64 with spare bits", "AAAAAB==", BadValue, at("challenges", 0, "cases", 0, "outputs", "output", "data")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := encoded(t, edit(t, decoded(t, doc), tt.value, tt.path...))
			if tt.code == NotFinite { // Python writes Infinity
				b = bytes.Replace(b, []byte("Infinity"), []byte("1e999"), 1)
			}
			r, err := ReadResults("r.json", b)
			if diag.CodeOf(err) != tt.code || !strings.HasPrefix(err.Error(), "r.json") {
				t.Errorf("ReadResults = %+v, %v, want %s", r, err, tt.code)
			}
		})
	}
	if _, err := ReadResults("r", encoded(t, edit(t, decoded(t, doc), "x",
		"Mode"))); diag.HintOf(err) != "did you mean mode?" {
		t.Errorf("the hint for Mode is %q", diag.HintOf(err))
	}
}

// TestMessagesEscape: what comes from a file cannot write control characters to a terminal or a log.
func TestMessagesEscape(t *testing.T) {
	const hostile = "\x1b[31m\n::error::x\u202e"
	doc := []byte(strings.ReplaceAll(testResults, "DIGEST", testDigest))
	for _, path := range [][]any{{"mode"}, {"root"}, {hostile}, {"started_at"}, {"tests", 0, "outcome"}, {"collected", 0},
		{"format"}, {"exit_status"}, {"code", "start"}, {"challenges", 0, "attributes", hostile}} {
		_, err := ReadResults("r.json", encoded(t, edit(t, decoded(t, doc), any(hostile), path...)))
		if err == nil {
			if len(path) == 4 {
				continue // attributes take any text
			}
			t.Errorf("%q: no error", path)
			continue
		}
		if s := err.Error() + diag.HintOf(err); strings.ContainsAny(s, "\x1b\n\u202e") {
			t.Errorf("%q: the message is %q", path, s)
		}
	}
}

// reseal puts an edited payload into an envelope, unsigned: Parse does not look at signatures.
func reseal(t testing.TB, payload []byte) []byte {
	t.Helper()
	return encoded(t, map[string]any{"payloadType": PayloadType, "payload": base64.StdEncoding.EncodeToString(payload),
		"signatures": []any{}})
}

func TestParseRefuses(t *testing.T) {
	alice := newSigner(t)
	file, err := testStatement(t, alice).Seal(alice)
	if err != nil {
		t.Fatal(err)
	}
	payload := testReceipt(t, file).Payload
	for _, tt := range []change{
		{"statement of another version", "https://in-toto.io/Statement/v0.1", UnknownFormat, at("_type")},
		{"another predicate", "https://slsa.dev/provenance/v1", UnknownFormat, at("predicateType")},
		{"another version", "gpu-proof/2", UnknownFormat, at("predicate", "format")},
		{"unknown field", "x", UnknownField, at("predicate", "approved_by")},
		{"unknown field of the statement", "x", UnknownField, at("x")},
		{"missing nonce", deleted, MissingField, at("predicate", "nonce")},
		{"missing signer", deleted, MissingField, at("predicate", "signer")},
		{"GPUs of another type", true, WrongType, at("predicate", "environment", "gpus")},
		{"digest in capitals", strings.ToUpper(testDigest), BadValue, at("subject", 0, "digest", "gpuProofManifestV1")},
		{"subject of other code", strings.Repeat("0", 64), BadValue, at("subject", 0, "digest", "gpuProofManifestV1")},
		{"subject more", "x", BadValue, at("subject", 0, "digest", "sha1")},
		{"another algorithm", "crc32", BadValue, at("predicate", "code", "algorithm")},
		{"start without end", "", BadValue, at("predicate", "code", "end")},
		{"signer with a line break", "alice\nbob", BadValue, at("predicate", "signer", "principal")},
		{"no fingerprint", "SHA256:victim", BadValue, at("predicate", "signer", "key_fingerprint")},
		{"unknown outcome", "PASSED", BadValue, at("predicate", "tests", 0, "outcome")},
		{"test without a name", "", BadValue, at("predicate", "tests", 0, "id")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := encoded(t, edit(t, decoded(t, payload), tt.value, tt.path...))
			if _, err := Parse("x.json", reseal(t, b)); diag.CodeOf(err) != tt.code {
				t.Errorf("Parse = %v, want %s", err, tt.code)
			}
		})
	}
	for _, tt := range []change{
		{"another payload type", "text/plain", UnknownFormat, at("payloadType")},
		{"payload with junk", "e30\n=", BadValue, at("payload")},
		{"payload is no JSON", "e30x", Syntax, at("payload")},
		{"unknown field", "x", UnknownField, at("keyid")},
		{"unknown field of a signature", "x", UnknownField, at("signatures", 0, "keyid")},
		{"no signatures", deleted, MissingField, at("signatures")},
		{"signatures null", nil, WrongType, at("signatures")},
	} {
		t.Run("envelope, "+tt.name, func(t *testing.T) {
			if _, err := Parse("x.json", encoded(t, edit(t, decoded(t, file), tt.value,
				tt.path...))); diag.CodeOf(err) != tt.code {
				t.Errorf("Parse = %v, want %s", err, tt.code)
			}
		})
	}
	for text, code := range map[string]diag.Code{
		"[]": WrongType, "{}": UnknownFormat, `{"format":"gpu-proof-results/1"}`: UnknownFormat,
		`{"schema_version":1}`:   WrongType,
		`{"schema_version":"4"}`: UnknownFormat,
	} {
		if _, err := Parse("x", []byte(text)); diag.CodeOf(err) != code {
			t.Errorf("Parse(%s) = %v, want %s", text, err, code)
		}
	}
}

func testReceipt(t testing.TB, file []byte) *Receipt {
	t.Helper()
	r, err := Parse("test.json", file)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"receipts/*.json", "attacks/*.json"} {
		files, err := filepath.Glob(testkit.VectorPath(f, "gpu-proof/"+pattern))
		if err != nil || len(files) == 0 {
			f.Fatal("no vectors", err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	signer := newSigner(f)
	file, err := testStatement(f, signer).Seal(signer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse("x", b)
		if err == nil && (len(r.Payload) == 0 || r.Format == "") {
			t.Errorf("Parse(%q) = %+v", b, r)
		}
		if err != nil && diag.CodeOf(err) == "" {
			t.Errorf("Parse(%q): an error without a code: %v", b, err)
		}
	})
}

func FuzzResults(f *testing.F) {
	f.Add([]byte(strings.ReplaceAll(testResults, "DIGEST", testDigest)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ReadResults("x", b); err == nil {
			again, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			r2, err := ReadResults("x", again)
			if err != nil || !reflect.DeepEqual(r, r2) {
				t.Errorf("%+v is written and read as %+v, %v", r, r2, err)
			}
		}
	})
}

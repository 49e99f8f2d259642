package policy

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/challenge"
	"gpuemu/internal/escape"
	"gpuemu/internal/forge"
	"gpuemu/internal/receipt"
	"gpuemu/internal/sshsig"
)

// defect is a good receipt with one thing wrong: exactly one reason comes of it.
type defect struct {
	name   string
	reason Reason
	draft  func(w *world, d *draft)     // changes to our format
	rules  func(w *world, r *Rules)     // changes to the rules
	file   func(b []byte) []byte        // changes to the sealed file
	doc1   func(doc map[string]any)     // changes to schema 1, signed anew; unsigned parts, too
	doc3   func(doc map[string]any)     // the same for schema 3
	cause  func(t *testing.T, w *world) // changes to the world
}

func test(d *draft) *receipt.Test { return &d.results.Tests[0] }

// ownDefects are defects of our format.
var ownDefects = []defect{
	{name: "not JSON", reason: MalformedFile, file: func(b []byte) []byte { return b[:len(b)/2] }},
	{name: "byte order mark", reason: NotUTF8, file: func(b []byte) []byte {
		return append([]byte("\xef\xbb\xbf"),
			b...)
	}},
	{name: "key twice", reason: DuplicateField, file: func(b []byte) []byte {
		return bytes.Replace(b, []byte("{"), []byte(`{"payloadType":"application/vnd.in-toto+json",`), 1)
	}},
	{name: "100 MB", reason: TooLarge, file: func(b []byte) []byte {
		return append(b, bytes.Repeat([]byte(" "),
			100<<20)...)
	}},
	{name: "deep", reason: TooLarge, file: func([]byte) []byte { return bytes.Repeat([]byte(`{"x":`), 100000) }},
	{name: "unknown field", reason: UnknownField, file: func(b []byte) []byte {
		return bytes.Replace(b, []byte("{"),
			[]byte(`{"approved_by":"x",`), 1)
	}},
	{name: "missing field", reason: MissingField,
		file: func([]byte) []byte { return []byte(`{"payloadType":"application/vnd.in-toto+json"}`) }},
	{name: "wrong type", reason: WrongFieldType, file: func(b []byte) []byte {
		return bytes.Replace(b, []byte(`"payloadType": "application/vnd.in-toto+json"`), []byte(`"payloadType": 1`), 1)
	}},
	{name: "payload is no base64", reason: BadField, file: func(b []byte) []byte {
		return bytes.Replace(b,
			[]byte(`"payload": "`), []byte(`"payload": "!`), 1)
	}},
	{name: "another payload", reason: UnknownFormat, file: func(b []byte) []byte {
		return bytes.Replace(b,
			[]byte("in-toto"), []byte("others"), 1)
	}},
	{name: "our format is not enough", reason: WeakFormat, doc3: func(map[string]any) {}, rules: func(_ *world, r *Rules) {
		r.MinSchema, r.Scope = OwnSchema, []string{"."}
	}},

	{name: "unsigned", reason: Unsigned, draft: func(_ *world, d *draft) { d.facts.Signer, d.signers = nil, nil }},
	{name: "nobody named", reason: NoAllowList, rules: func(_ *world, r *Rules) { r.Signers = nil }},
	{name: "payload changed after signing", reason: BadSignature, file: func(b []byte) []byte {
		return rewritePayload(b, `"nonce":""`, `"nonce":"x"`)
	}},
	{name: "signature is no signature", reason: BadSignature, file: func(b []byte) []byte {
		return bytes.Replace(b, []byte("BEGIN SSH SIGNATURE"), []byte("BEGIN SSH_SIGNATURE"), 1)
	}},
	{name: "signed twice by the same key", reason: BadSignature, file: func(b []byte) []byte {
		i, j := bytes.Index(b, []byte("  {")), bytes.LastIndex(b, []byte("}\n ]"))
		return slices.Concat(b[:i], b[i:j+1], []byte(","), b[i:j+1], b[j+1:])
	}},
	{name: "another purpose", reason: WrongNamespace, draft: func(w *world,
		d *draft) {
		d.signers = []sshsig.Signer{otherPurpose{w.alice}}
	}},
	{name: "a stranger", reason: SignerNotAllowed, rules: func(_ *world, r *Rules) { r.Signers = []string{"bob"} }},
	{name: "somebody else's name", reason: SignerNotAllowed, draft: func(_ *world,
		d *draft) {
		d.facts.Signer.Principal = "bob"
	},
		rules: func(_ *world, r *Rules) { r.Signers = []string{"alice", "bob"} }},
	{name: "not among the allowed signers", reason: SignerNotAllowed, rules: func(w *world, r *Rules) {
		r.Signers, r.AllowedSigners = nil, allowed("alice "+w.bob.PublicKey().String())
	}},
	{name: "allowed for something else", reason: SignerNotAllowed, rules: func(w *world, r *Rules) {
		r.Signers, r.AllowedSigners = nil, allowed(`alice namespaces="git" `+w.alice.PublicKey().String())
	}},
	{name: "allowed until yesterday", reason: SignerNotAllowed, rules: func(w *world, r *Rules) {
		r.Signers, r.AllowedSigners = nil, allowed(`alice valid-before="20261114Z" `+w.alice.PublicKey().String())
	}},
	{name: "allowed by another name", reason: SignerNotAllowed, rules: func(w *world, r *Rules) {
		r.Signers, r.AllowedSigners = nil, allowed("carol "+w.alice.PublicKey().String())
	}},
	{name: "name that is a path", reason: SignerName, draft: func(_ *world,
		d *draft) {
		d.facts.Signer.Principal = "alice/repo/raw"
	},
		rules: func(_ *world, r *Rules) { r.Signers = []string{"alice/repo/raw"} }},
	{name: "unknown", reason: SignerName, draft: func(_ *world, d *draft) { d.facts.Signer.Principal = "unknown" },
		rules: func(_ *world, r *Rules) { r.Signers = []string{"unknown"} }},
	{name: "no such account", reason: NoKeys, draft: func(_ *world, d *draft) { d.facts.Signer.Principal = "nobody-here" },
		rules: func(_ *world, r *Rules) { r.Signers = []string{"nobody-here"} }},
	{name: "another key named", reason: SignerMismatch, draft: func(w *world, d *draft) {
		d.facts.Signer.KeyFingerprint = w.bob.PublicKey().Fingerprint()
		d.signers = []sshsig.Signer{claims{w.alice, w.bob.PublicKey()}}
	}},
	{name: "key not pinned", reason: KeyNotAllowed, rules: func(w *world,
		r *Rules) {
		r.KeyFingerprints = []string{w.bob.PublicKey().Fingerprint()}
	}},
	{name: "no security key", reason: NoSecurityKey, rules: func(_ *world, r *Rules) { r.RequireTouch = true }},
	{name: "one of two", reason: Threshold, rules: func(_ *world, r *Rules) {
		r.Signers, r.Threshold = []string{"alice",
			"bob"}, 2
	}},

	{name: "scope with magic", reason: ScopeMalformed, draft: func(_ *world,
		d *draft) {
		d.facts.Code.Scope = []string{"src", "tests", ":!src/k.py"}
	}},
	{name: "scope outside", reason: ScopeMalformed, draft: func(_ *world,
		d *draft) {
		d.facts.Code.Scope = []string{"../secret"}
	}},
	{name: "scope with an option", reason: ScopeMalformed, draft: func(_ *world,
		d *draft) {
		d.facts.Code.Scope = []string{"--format=x"}
	}},
	{name: "no scope", reason: ScopeMalformed, draft: func(_ *world, d *draft) { d.facts.Code.Scope = nil }},
	{name: "narrow scope", reason: ScopeMismatch, draft: func(w *world, d *draft) { w.rescope(d, []string{"tests"}) }},
	{name: "wide scope", reason: ScopeMismatch, draft: func(w *world, d *draft) { w.rescope(d, []string{"."}) }},
	{name: "kernel left out", reason: Excluded, draft: func(w *world, d *draft) {
		w.rescope(d, []string{"src", "tests"},
			"src/k.py")
	}},
	{name: "scope that names nothing", reason: EmptyScope, draft: func(_ *world,
		d *draft) {
		d.facts.Code.Scope = []string{"src", "tset"}
	},
		rules: func(_ *world, r *Rules) { r.Scope = []string{"src", "tset"} }},
	{name: "other code", reason: CodeChanged, draft: func(_ *world, d *draft) {
		other := strings.Repeat("ab", 32)
		d.facts.Code.Digest, d.results.Code.Start, d.results.Code.End = other, other, other
	}},
	{name: "other count", reason: FileCount, draft: func(_ *world, d *draft) { d.facts.Code.Files++ }},
	{name: "saved during the run", reason: ChangedDuringRun, draft: func(_ *world,
		d *draft) {
		d.results.Code.Start = strings.Repeat("ab", 32)
	}},
	{name: "nobody watched", reason: NotWatched, draft: func(_ *world, d *draft) {
		d.results.Code.Start,
			d.results.Code.End = "", ""
	},
		rules: func(_ *world, r *Rules) { r.RequireWatched = true }},
	{name: "commit HEAD", reason: BadCommit, draft: func(_ *world, d *draft) { d.facts.Repo.Commit = "HEAD" }},
	{name: "short commit", reason: BadCommit, draft: func(_ *world,
		d *draft) {
		d.facts.Repo.Commit = d.facts.Repo.Commit[:12]
	}},
	{name: "commit of nowhere", reason: NotAncestor, draft: func(_ *world,
		d *draft) {
		d.facts.Repo.Commit = strings.Repeat("1", 40)
	},
		rules: func(_ *world, r *Rules) { r.RequireAncestor = true }},
	{name: "outside unknown", reason: OutsideChanged, draft: func(_ *world,
		d *draft) {
		d.facts.Repo.Commit = strings.Repeat("1", 40)
	},
		rules: func(_ *world, r *Rules) { r.RefuseOutsideChanges = true }},
	{name: "dirty", reason: Dirty, draft: func(_ *world, d *draft) { d.facts.Repo.Dirty = true }},
	{name: "another repository", reason: WrongRepository, draft: func(_ *world,
		d *draft) {
		d.facts.Repo.Remote = "git@github.com:other/other.git"
	}},
	{name: "another host", reason: WrongRepository, draft: func(_ *world,
		d *draft) {
		d.facts.Repo.Remote = "https://gitlab.com/alice/kernels"
	}},
	{name: "a fork that the policy does not name", reason: WrongRepository, draft: func(_ *world,
		d *draft) {
		d.facts.Repo.Remote = "https://github.com/bob/kernels"
	},
		rules: func(_ *world, r *Rules) { r.Repositories = []string{"github.com/alice/kernels"} }},
	{name: "output not recorded", reason: OutputMissing, rules: func(_ *world,
		r *Rules) {
		r.Outputs = []string{"build/k.so"}
	}},
	{name: "output path outside", reason: ScopeMalformed, draft: func(_ *world, d *draft) {
		d.facts.Outputs = []receipt.Output{{Path: "../k.so", SHA256: strings.Repeat("ab", 32)}}
	}},

	{name: "unknown mode", reason: WrongMode, draft: func(_ *world, d *draft) { d.results.Mode = "banana" }},
	{name: "another mode", reason: WrongMode, rules: func(_ *world, r *Rules) { r.Mode = "ci-gpu" }},
	{name: "interrupted", reason: Unfinished, draft: func(_ *world, d *draft) { d.results.Finished = false }},
	{name: "exit status", reason: ExitStatus, draft: func(_ *world, d *draft) { d.results.ExitStatus = 2 }},
	{name: "no tests", reason: NoTests, draft: func(_ *world, d *draft) {
		d.results.Tests, d.results.Collected = nil,
			nil
	}},
	{name: "failed", reason: TestFailed, draft: func(_ *world,
		d *draft) {
		test(d).Outcome = receipt.Failed
		d.results.ExitStatus = 1
	}},
	{name: "error", reason: TestFailed, draft: func(_ *world, d *draft) {
		test(d).Outcome,
			test(d).Phase = receipt.Errored, "teardown"
	}},
	{name: "check swallowed", reason: CheckFailed, draft: func(_ *world, d *draft) {
		test(d).Checks = []receipt.Check{{Name: "relu", Outcome: receipt.Failed}}
	}},
	{name: "skipped", reason: Skipped, draft: withSecond(receipt.Skipped)},
	{name: "skipped, not the expected one", reason: Skipped, draft: withThird(receipt.Skipped, receipt.Skipped),
		rules: func(_ *world, r *Rules) {
			r.ExpectedSkips = []string{"tests/test_k.py::test_2"}
		}},
	{name: "expected skip ran", reason: StaleSkip, rules: func(_ *world,
		r *Rules) {
		r.ExpectedSkips = []string{"tests/test_k.py::test_k"}
	}},
	{name: "all skipped", reason: NothingRan, draft: func(_ *world, d *draft) { test(d).Outcome = receipt.Skipped },
		rules: func(_ *world, r *Rules) { r.AllowSkipped = true }},
	{name: "all skipped, as expected", reason: NothingRan, draft: func(_ *world,
		d *draft) {
		test(d).Outcome = receipt.Skipped
	},
		rules: func(_ *world, r *Rules) { r.ExpectedSkips = []string{"tests/test_k.py::test_k"} }},
	{name: "xfail", reason: ExpectedFailure, draft: withSecond(receipt.XFailed)},
	{name: "xpass", reason: ExpectedFailure, draft: withSecond(receipt.XPassed)},
	{name: "rerun", reason: Rerun, draft: func(_ *world, d *draft) { test(d).Reruns = 1 }},
	{name: "collected and not run", reason: NotRun, draft: func(_ *world,
		d *draft) {
		d.results.Collected = append(d.results.Collected, "tests/test_k.py::test_2")
	}},
	{name: "run and not collected", reason: IDsMismatch, draft: func(_ *world, d *draft) { d.results.Collected = nil }},
	{name: "collected twice", reason: IDsMismatch, draft: func(_ *world,
		d *draft) {
		d.results.Collected = append(d.results.Collected, d.results.Collected[0])
	}},
	{name: "run and deselected", reason: IDsMismatch, draft: func(_ *world,
		d *draft) {
		d.results.Deselected = d.results.Collected
	}},
	{name: "deselected", reason: Deselected, draft: deselectSecond},
	{name: "failures outside", reason: OutsideFailures, draft: func(_ *world,
		d *draft) {
		d.results.Outside.Failed = 1
		d.results.ExitStatus = 1
	}},
	{name: "required test missing", reason: RequiredMissing, rules: func(_ *world,
		r *Rules) {
		r.RequiredTests = []string{"tests/test_k.py::test_2"}
	}},
	{name: "required test deselected", reason: RequiredMissing, draft: deselectSecond, rules: func(_ *world,
		r *Rules) {
		r.RequiredTests = []string{"tests/test_k.py::test_2"}
	}},
	{name: "required test skipped", reason: RequiredSkipped, draft: withSecond(receipt.Skipped), rules: func(_ *world,
		r *Rules) {
		r.RequiredTests, r.AllowSkipped = []string{"tests/test_k.py::test_2"}, true
	}},
	{name: "required test failed as expected", reason: RequiredSkipped, draft: withSecond(receipt.XFailed), rules: func(
		_ *world, r *Rules) {
		r.RequiredTests, r.AllowXFail = []string{"tests/test_k.py::test_2"}, true
	}},
	{name: "required test skipped, and no skips allowed", reason: Skipped, draft: withSecond(receipt.Skipped),
		rules: func(_ *world, r *Rules) { r.RequiredTests = []string{"tests/test_k.py::test_2"} }},
	{name: "file of a test missing", reason: TestFileMissing, draft: func(_ *world, d *draft) {
		test(d).ID, d.results.Collected = "tests/a.py::ran", []string{"tests/a.py::ran"}
	}},
	{name: "ids begin elsewhere", reason: TestFileMissing, draft: func(_ *world, d *draft) { d.results.Root = "sub" }},

	{name: "no GPU", reason: NoGPU, draft: func(_ *world, d *draft) { d.facts.Environment.GPUs = nil },
		rules: func(_ *world, r *Rules) { r.RequireGPU = true }},
	{name: "GPU hidden", reason: NoGPU, draft: func(_ *world,
		d *draft) {
		d.facts.Environment.CUDAVisibleDevices = new(string)
	},
		rules: func(_ *world, r *Rules) { r.RequireGPU = true }},
	{name: "another GPU", reason: WrongGPU, rules: func(_ *world, r *Rules) { r.GPUModels = []string{"*H100*"} }},
	{name: "another device was used", reason: WrongGPU, draft: func(_ *world, d *draft) {
		d.results.Devices = []receipt.Device{{Framework: "torch", Name: "NVIDIA T4"}}
	}, rules: func(_ *world, r *Rules) { r.GPUModels = []string{"*H200*"} }},
	{name: "date that is none", reason: BadTime, draft: func(_ *world, d *draft) { d.results.EndedAt = "whenever" }},
	{name: "date in another spelling", reason: BadTime, draft: func(_ *world,
		d *draft) {
		d.results.StartedAt = "2026-11-15T10:00:00+00:00"
	}},
	{name: "ended before it began", reason: BadTime, draft: func(_ *world,
		d *draft) {
		d.results.StartedAt = "2026-11-15T10:01:01Z"
	}},
	{name: "signed before it ended", reason: BadTime, draft: func(_ *world,
		d *draft) {
		d.results.EndedAt = "2026-11-15T10:02:01Z"
	}},
	{name: "in six minutes", reason: InFuture, draft: func(_ *world, d *draft) {
		d.results.EndedAt, d.facts.SignedAt = "2026-11-15T11:08:00Z", worldClock.Add(6*60e9)
	}},
	{name: "in the year 9999", reason: InFuture, draft: func(_ *world, d *draft) {
		d.results.EndedAt, d.facts.SignedAt = "9999-01-01T00:00:00Z", worldClock.AddDate(7973, 0, 0)
	}},
	{name: "older than 30 days", reason: TooOld, draft: func(_ *world, d *draft) {
		d.results.StartedAt, d.results.EndedAt = "2026-10-16T11:01:00Z", "2026-10-16T11:01:59Z"
	}},
	{name: "an hour old, 0 days allowed", reason: TooOld, rules: func(_ *world, r *Rules) { r.MaxAgeDays = new(int) }},
	{name: "old part", reason: TooOld, draft: func(_ *world, d *draft) {
		d.after = func(s *receipt.Statement) {
			s.Predicate.Parts = []receipt.Part{{SHA256: strings.Repeat("ab", 32), Format: receipt.Format,
				Signer:    s.Predicate.Signer,
				StartedAt: "2026-10-01T10:00:00Z", EndedAt: "2026-10-01T10:00:00Z", Tests: 1}}
		}
	}},
	{name: "another nonce", reason: WrongNonce, draft: func(_ *world, d *draft) { d.facts.Nonce = "old" },
		rules: func(_ *world, r *Rules) { r.Nonce = "new" }},
	{name: "no challenge", reason: NoChallenge, rules: func(_ *world, r *Rules) { r.RequireChallenge = true }},
	{name: "no challenge of that operator", reason: NoChallenge, draft: withChallenge(false), rules: func(_ *world,
		r *Rules) {
		r.RequireChallenge, r.ChallengeOps = true, []string{"matmul"}
	}},
	{name: "challenge without cases", reason: NoChallenge, draft: func(w *world, d *draft) {
		withChallenge(false)(w, d)
		d.results.Challenges[0].Cases = []receipt.ChallengeCase{}
	}, rules: func(_ *world, r *Rules) { r.RequireChallenge, r.ChallengeOps = true, []string{"softmax"} }},
	{name: "challenge with a nonce of the signer's", reason: WrongNonce, draft: func(w *world, d *draft) {
		withChallenge(false)(w, d)
		ch := &d.results.Challenges[0]
		ch.Nonce, ch.Seed = "ground", fmt.Sprint(challenge.Seed(w.digest, "ground", ch.Op, ch.DType))
	}, rules: func(_ *world, r *Rules) { r.RequireChallenge = true }},
	{name: "chosen seed", reason: ChallengeSeed, draft: withChallenge(true)},
	{name: "challenge of one case", reason: WeakChallenge, draft: withChallenge(false), rules: func(_ *world, r *Rules) {
		r.RequireChallenge, r.ChallengeCases = true, 2
	}},
	{name: "challenge of chosen values", reason: WeakChallenge, draft: withChallenge(false), rules: func(_ *world,
		r *Rules) {
		r.RequireChallenge, r.ChallengeValues = true, []string{"adversarial"}
	}},
}

// legacyDefects are defects of the original's schemas.
var legacyDefects = []defect{
	{name: "NaN outside of metadata", reason: NotFinite,
		doc1: func(doc map[string]any) { doc["tests"].([]any)[0].(map[string]any)["duration_s"] = json.Number("NaN") }},
	{name: "another backend", reason: AlgorithmMismatch,
		doc1: func(doc map[string]any) { doc["signature"].(map[string]any)["backend"] = "none" }},
	{name: "another algorithm named", reason: AlgorithmMismatch,
		doc1: func(doc map[string]any) { doc["signature"].(map[string]any)["algorithm"] = "rsa-pss-sha256" }},
	{name: "another key named", reason: SignerMismatch,
		doc1: func(doc map[string]any) { doc["signature"].(map[string]any)["key_fingerprint"] = "SHA256:victim" }},
	{name: "another name in the signed part", reason: SignerMismatch,
		doc1: func(doc map[string]any) { doc["repo"].(map[string]any)["github_username"] = "bob" }},
	{name: "unsigned fields", reason: UnknownField,
		doc1: func(doc map[string]any) { doc["signature"].(map[string]any)["approved_by"] = "x" }},
	{name: "signature {}", reason: MissingField,
		doc1: func(doc map[string]any) { doc["signature"] = nil; doc["signature"] = map[string]any{"signer": "alice"} }},
	{name: "signature null", reason: Unsigned, doc1: func(doc map[string]any) { doc["signature"] = nil }},
	{name: "fingerprint algorithm", reason: UnknownAlgorithm,
		doc1: func(doc map[string]any) { doc["fingerprint"].(map[string]any)["algorithm"] = "crc32" }},
	{name: "digest", reason: CodeChanged,
		doc1: func(doc map[string]any) { doc["fingerprint"].(map[string]any)["digest"] = strings.Repeat("0", 64) }},
	{name: "count", reason: FileCount,
		doc1: func(doc map[string]any) { doc["fingerprint"].(map[string]any)["file_count"] = json.Number("999999") }},
	{name: "scope null", reason: WrongFieldType,
		doc1: func(doc map[string]any) { doc["fingerprint"].(map[string]any)["included_paths"] = nil }},
	{name: "scope missing", reason: MissingField,
		doc1: func(doc map[string]any) { delete(doc["fingerprint"].(map[string]any), "included_paths") }},
	{name: "scope with magic", reason: ScopeMalformed, doc1: func(doc map[string]any) {
		doc["fingerprint"].(map[string]any)["included_paths"] = []any{"src", "tests", ":!src/k.py"}
	}},
	{name: "commit HEAD", reason: BadCommit,
		doc1: func(doc map[string]any) { doc["repo"].(map[string]any)["commit_sha"] = "HEAD" }},
	{name: "commit null", reason: BadCommit,
		doc1: func(doc map[string]any) { doc["repo"].(map[string]any)["commit_sha"] = nil }},
	{name: "dirty", reason: Dirty, doc1: func(doc map[string]any) { doc["repo"].(map[string]any)["dirty"] = true }},
	{name: "test without a name", reason: MissingField,
		doc1: func(doc map[string]any) { delete(doc["tests"].([]any)[0].(map[string]any), "node_id") }},
	{name: "node_ids", reason: IDsMismatch,
		doc1: func(doc map[string]any) { doc["session"].(map[string]any)["node_ids"] = []any{"tests/a.py::every"} }},
	{name: "GPU of another type", reason: WrongFieldType,
		doc1: func(doc map[string]any) { doc["environment"].(map[string]any)["gpu_info"] = []any{"x"} }},
	{name: "mode", reason: WrongMode, doc1: func(doc map[string]any) { doc["mode"] = "banana" }},
	{name: "date", reason: BadTime,
		doc1: func(doc map[string]any) { doc["session"].(map[string]any)["ended_at"] = "whenever" }},
	{name: "started in 2099", reason: BadTime,
		doc1: func(doc map[string]any) { doc["session"].(map[string]any)["started_at"] = "2099-01-01T00:00:00Z" }},
	{name: "400 days", reason: TooOld, doc1: func(doc map[string]any) {
		s := doc["session"].(map[string]any)
		s["started_at"], s["ended_at"] = "2025-10-11T01:27:19Z", "2025-10-11T01:27:19Z"
	}},
	{name: "touch", reason: NoSecurityKey, doc1: func(map[string]any) {}, rules: func(_ *world,
		r *Rules) {
		r.RequireTouch = true
	}},
	{name: "nonce", reason: WrongNonce, doc1: func(map[string]any) {}, rules: func(_ *world, r *Rules) { r.Nonce = "n" }},
	{name: "repository", reason: WrongRepository,
		doc1: func(doc map[string]any) {
			doc["repo"].(map[string]any)["remote_url"] = "git@github.com:other/other.git"
		}},
	{name: "check swallowed", reason: CheckFailed, doc1: func(doc map[string]any) {
		doc["tests"].([]any)[0].(map[string]any)["checks"] = []any{map[string]any{"name": "x", "outcome": "failed",
			"metadata": map[string]any{}}}
	}},
	{name: "commit not here, mode not covered", reason: Uncovered,
		doc1: func(doc map[string]any) { doc["repo"].(map[string]any)["commit_sha"] = strings.Repeat("1", 40) },
		cause: func(t *testing.T, w *world) {
			git(t, w.dir, "update-index", "--chmod=+x", "src/k.py")
			git(t, w.dir, "commit", "-q", "-m", "mode")
			git(t, w.dir, "reset", "-q", "--hard")
			w.reopen(t)
		}},

	{name: "session failed", reason: ExitStatus,
		doc3: func(doc map[string]any) { doc["session"].(map[string]any)["outcome"] = "failed" }},
	{name: "infinity in metadata", reason: NotFinite, doc3: func(doc map[string]any) {
		doc["tests"].([]any)[0].(map[string]any)["checks"] = []any{map[string]any{"name": "x", "outcome": "passed",
			"metadata": map[string]any{"x": json.Number("Infinity")}}}
	}},
	{name: "old algorithm", reason: UnknownAlgorithm,
		doc3: func(doc map[string]any) { doc["fingerprint"].(map[string]any)["algorithm"] = "sha256" }},
	{name: "kernel left out", reason: Excluded, doc3: func(doc map[string]any) {
		doc["fingerprint"].(map[string]any)["excluded_paths"] = []any{"src/k.py"}
	}, rules: func(_ *world, _ *Rules) {}},
	{name: "extra paths", reason: ScopeMismatch, doc3: func(map[string]any) {}, rules: func(_ *world,
		r *Rules) {
		r.Extra = []string{"build/x"}
	}},
	{name: "signer without a field", reason: MissingField, doc3: func(doc map[string]any) { delete(doc, "signer") }},
	{name: "carried shard", reason: Carried, doc3: func(doc map[string]any) {
		withShard(doc, map[string]any{"from": "x", "original_ended_at": "2026-11-14T00:00:00Z"})
	}},
	{name: "shard of other tests", reason: ShardMismatch, doc3: func(doc map[string]any) {
		withShard(doc,
			nil)["node_ids"] = []any{"x"}
	}},
	{name: "shards that the policy does not name", reason: ShardMismatch, doc3: func(doc map[string]any) {
		withShard(doc,
			nil)
	},
		rules: func(_ *world, r *Rules) { r.Shards = map[string]ShardScope{"core": {}, "more": {}} }},
	{name: "shard of other paths", reason: ShardMismatch, doc3: func(doc map[string]any) { withShard(doc, nil) },
		rules: func(_ *world, r *Rules) { r.Shards = map[string]ShardScope{"core": {Paths: []string{"src"}}} }},
}

func withShard(doc map[string]any, carried any) map[string]any {
	shard := map[string]any{"name": "core", "fingerprint": doc["fingerprint"],
		"node_ids": doc["session"].(map[string]any)["node_ids"], "carried": carried}
	doc["shards"] = []any{shard}
	return shard
}

// otherPurpose signs for another namespace than it is asked to.
type otherPurpose struct{ sshsig.Signer }

func (o otherPurpose) Sign(_ string, message []byte) ([]byte, error) {
	return o.Signer.Sign("git", message)
}

// claims says it is another key than it is.
type claims struct {
	sshsig.Signer
	key sshsig.PublicKey
}

func (c claims) PublicKey() sshsig.PublicKey { return c.key }

func allowed(text string) *sshsig.AllowedSigners {
	a, err := sshsig.ParseAllowedSigners("allowed_signers", []byte(text+"\n"))
	if err != nil || len(a.Faults) > 0 {
		panic(fmt.Sprint(err, a.Faults))
	}
	return a
}

// rewritePayload changes the payload and leaves the signatures.
func rewritePayload(b []byte, old, text string) []byte {
	var e map[string]any
	if err := json.Unmarshal(b, &e); err != nil {
		panic(err)
	}
	payload, err := base64.StdEncoding.DecodeString(e["payload"].(string))
	if err != nil || !bytes.Contains(payload, []byte(old)) {
		panic(fmt.Sprintf("%v: no %s in %s", err, old, payload))
	}
	e["payload"] = base64.StdEncoding.EncodeToString(bytes.Replace(payload, []byte(old), []byte(text), 1))
	out, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return out
}

// rescope signs for another scope, with the right digest of it.
func (w *world) rescope(d *draft, paths []string, exclude ...string) {
	digest, files := w.manifest(paths, exclude)
	d.facts.Code = receipt.Code{Scope: paths, Exclude: exclude, Digest: digest, Files: files}
	d.results.Code.Start, d.results.Code.End = digest, digest
}

func withSecond(outcome string) func(*world, *draft) { return withThird(outcome, "") }

// withThird adds one or two tests with these outcomes.
func withThird(list ...string) func(*world, *draft) {
	return func(_ *world, d *draft) {
		for i, outcome := range list {
			if outcome != "" {
				id := fmt.Sprintf("tests/test_k.py::test_%d", i+2)
				d.results.Collected = append(d.results.Collected, id)
				d.results.Tests = append(d.results.Tests, receipt.Test{ID: id, Outcome: outcome})
			}
		}
	}
}

func deselectSecond(_ *world, d *draft) {
	d.results.Collected = append(d.results.Collected, "tests/test_k.py::test_2")
	d.results.Deselected = []string{"tests/test_k.py::test_2"}
}

func withChallenge(chosen bool) func(*world, *draft) {
	return func(w *world, d *draft) {
		seed := challenge.Seed(w.digest, "", "softmax", "float32")
		if chosen {
			seed++
		}
		d.results.Challenges = []receipt.Challenge{{Op: "softmax", Attributes: map[string]string{}, DType: "float32",
			Values: "mixed",
			Seed:   fmt.Sprint(seed), Count: 1, Cases: []receipt.ChallengeCase{{Outputs: map[string]receipt.ChallengeOutput{}}}}}
	}
}

// TestDefects: each defect alone gives its reason, and no other.
func TestDefects(t *testing.T) {
	shared := newWorld(t)
	write(t, shared.dir, "src/more.py", "\n")
	shared.commit(t, "more")
	for _, tt := range slices.Concat(ownDefects, legacyDefects) {
		t.Run(tt.name, func(t *testing.T) {
			w := shared
			if tt.cause != nil {
				w = newWorld(t)
				tt.cause(t, w)
			}
			got := tt.report(t, w)
			wantOnly(t, got, tt.reason)
			for _, r := range got.Refusals {
				if r.Message == "" || escape.Text(r.Message+r.Hint) != r.Message+r.Hint {
					t.Errorf("message %q, hint %q", r.Message, r.Hint)
				}
			}
		})
	}
}

// report makes the receipt with its defect and checks it.
func (tt *defect) report(t *testing.T, w *world) *Report {
	rules, d := aliceMay(), w.draft()
	if tt.draft != nil {
		tt.draft(w, d)
	}
	var file []byte
	switch {
	case tt.doc1 != nil:
		doc := w.schema1(t, d)
		tt.doc1(doc)
		rules.MinSchema = 1
		file = signRaw(t, doc, w.alice)
	case tt.doc3 != nil:
		doc := w.schema3(t, d)
		tt.doc3(doc)
		if tt.reason == Excluded { // the digest is right, only not of everything
			f := doc["fingerprint"].(map[string]any)
			digest, files := w.manifestV2(t, "src/k.py")
			f["digest"], f["file_count"] = digest, json.Number(fmt.Sprint(files))
		}
		rules.Scope = []string{"."}
		file = signRaw(t, doc, w.alice)
	default:
		file = d.seal(t)
	}
	if tt.file != nil {
		file = tt.file(file)
	}
	if tt.rules != nil {
		tt.rules(w, rules)
	}
	return w.check(t, file, rules)
}

// TestNoDefect: without its defect each kind of receipt is accepted, so that TestDefects sees the defects alone.
func TestNoDefect(t *testing.T) {
	w := newWorld(t)
	for name, d := range map[string]defect{"our format": {}, "schema 1": {doc1: func(map[string]any) {}},
		"schema 3":              {doc3: func(map[string]any) {}},
		"schema 3 with a shard": {doc3: func(doc map[string]any) { withShard(doc, nil) }}} {
		t.Run(name, func(t *testing.T) { wantOnly(t, d.report(t, w)) })
	}
}

// elsewhere are reasons that other tests assert: they need more than one receipt and one tree.
var elsewhere = map[Reason]string{
	KeysUnreachable: "TestUnreachable", RepoUnreadable: "TestRowA10", HiddenChange: "TestRowA8",
	OutputChanged:    "TestRowA8Outputs",
	TestOutsideScope: "TestTestsOutsideScope", NoTouch: "TestNoTouch",
}

// TestEveryReason: every reason is asserted somewhere, alone.
func TestEveryReason(t *testing.T) {
	asserted := map[Reason]bool{}
	for _, tt := range slices.Concat(ownDefects, legacyDefects) {
		asserted[tt.reason] = true
	}
	var source []byte
	for _, file := range []string{"rows_test.go", "defects_test.go", "check_test.go"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, b...)
	}
	for reason, name := range elsewhere {
		asserted[reason] = true
		if !bytes.Contains(source, []byte("\nfunc "+name+"(t *testing.T)")) {
			t.Errorf("%s: there is no %s", reason, name)
		}
	}
	declared := reasons(t)
	for _, r := range declared {
		if !asserted[Reason(r.code)] {
			t.Errorf("%s is asserted nowhere", r.code)
		}
	}
	if len(declared) != len(asserted) {
		t.Errorf("%d reasons are declared, %d asserted: %v", len(declared), len(asserted), slices.Sorted(maps.Keys(asserted)))
	}
}

// reasonDoc is a declared reason with its sentence.
type reasonDoc struct{ group, name, code, doc string }

// reasons reads reasons.go.
func reasons(t testing.TB) []reasonDoc {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var list []reasonDoc
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			code := strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)
			list = append(list, reasonDoc{strings.TrimSpace(gen.Doc.Text()), v.Names[0].Name, code,
				strings.Join(strings.Fields(v.Doc.Text()), " ")})
		}
	}
	return list
}

// failing is a source of keys that has an error for everybody.
type failing struct{ err error }

func (f failing) Keys(context.Context, string) ([]sshsig.PublicKey, error) { return nil, f.err }

// TestUnreachable: a forge that cannot be asked is neither a pass nor a refusal.
func TestUnreachable(t *testing.T) {
	w := newWorld(t)
	d := w.draft()
	for name, file := range map[string][]byte{"our format": d.seal(t), "schema 1": signRaw(t, w.schema1(t, d), w.alice)} {
		r, err := receipt.Parse(name, file)
		if err != nil {
			t.Fatal(err)
		}
		in := Inputs{Receipt: r, Repo: w.repo, Rules: &Rules{Signers: []string{"alice"}, MinSchema: 1}, Now: worldClock,
			Keys: failing{fmt.Errorf("503: %w", forge.ErrUnreachable)}}
		for _, source := range []forge.Source{in.Keys, nil} {
			in.Keys = source
			got := Check(context.Background(), in)
			if got.Accepted || len(got.Refusals) > 0 || !slices.Equal(codes(got.Unreachable), []Reason{KeysUnreachable}) {
				t.Errorf("%s: %+v", name, got)
			}
		}
		in.Keys = failing{errors.New("no such user")}
		wantOnly(t, Check(context.Background(), in), NoKeys)
	}
}

package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/forge"
	"gpuemu/internal/receipt"
	"gpuemu/internal/sshsig"
)

// The rows of the security review of the original, as far as formats and rules close them; docs/receipts-security.md
// has all of them. Each test is named after its row.

// with seals a draft with changes and checks it by rules with changes; nil means none.
func (w *world) with(t testing.TB, change func(*draft), rule func(*Rules)) *Report {
	t.Helper()
	d, r := w.draft(), aliceMay()
	if change != nil {
		change(d)
	}
	if rule != nil {
		rule(r)
	}
	return w.check(t, d.seal(t), r)
}

// TestRowA1: a test whose set-up failed is an error, or missing; both are refused.
func TestRowA1(t *testing.T) {
	w := newWorld(t)
	wantOnly(t, w.with(t, func(d *draft) { test(d).Outcome, test(d).Phase = receipt.Errored, "setup" }, nil), TestFailed)
	wantOnly(t, w.with(t, func(d *draft) {
		d.results.Collected = append(d.results.Collected,
			"tests/test_k.py::test_2")
	}, nil), NotRun)
}

// TestRowA2: a failure in teardown is an error of the test.
func TestRowA2(t *testing.T) {
	got := newWorld(t).with(t, func(d *draft) { test(d).Outcome, test(d).Phase = receipt.Errored, "teardown" }, nil)
	wantOnly(t, got, TestFailed)
}

// TestRowA3: a run that was cut short, or ended badly for another reason than its tests, is refused.
func TestRowA3(t *testing.T) {
	w := newWorld(t)
	wantOnly(t, w.with(t, func(d *draft) { d.results.Finished = false; d.results.ExitStatus = 2 }, nil), Unfinished,
		ExitStatus)
	for _, status := range []int{1, 2, 3, 4, 5, -9} {
		wantOnly(t, w.with(t, func(d *draft) { d.results.ExitStatus = status }, nil), ExitStatus)
	}
	outside := func(d *draft) { d.results.Outside.Errors, d.results.ExitStatus = 1, 1 }
	wantOnly(t, w.with(t, outside, nil), OutsideFailures)
	wantWarning(t, w.with(t, outside, func(r *Rules) { r.AllowOutsideFailures = true }), OutsideFailures)
}

// TestRowA4: a smaller selection is no smaller proof: required tests are named, and deselection is told.
func TestRowA4(t *testing.T) {
	w := newWorld(t)
	required := func(r *Rules) { r.RequiredTests = []string{"tests/test_k.py::test_k", "tests/test_k.py::test_2"} }
	wantOnly(t, w.with(t, nil, required), RequiredMissing)
	wantOnly(t, w.with(t, func(d *draft) { deselectSecond(w, d) }, nil), Deselected)
	wantOnly(t, w.with(t, func(d *draft) { deselectSecond(w, d) }, required), RequiredMissing)
	wantWarning(t, w.with(t, func(d *draft) { deselectSecond(w, d) }, func(r *Rules) { r.AllowDeselected = true }),
		Deselected)
	wantOnly(t, w.with(t, func(d *draft) { deselectSecond(w, d) },
		func(r *Rules) { r.RequiredTests = []string{"tests/test_k.py::test_k"} }))
	wantOnly(t, w.with(t, func(d *draft) { withSecond(receipt.Passed)(w, d) }, required))

	rules, err := Parse("policy.yaml", []byte("signers: [alice]\nrequired_test_manifest: gpu-tests.txt\n"))
	if err != nil {
		t.Fatal(err)
	}
	list := lines("# the tests that need a GPU", "", "tests/test_k.py::test_k", " tests/test_k.py::test_2 ")
	if err := rules.LoadFiles(func(name string) ([]byte, error) { return []byte(list), nil }); err != nil {
		t.Fatal(err)
	}
	wantOnly(t, w.check(t, w.draft().seal(t), rules), RequiredMissing)
}

// TestRowA5: a skip is recorded, and refused unless it is expected.
func TestRowA5(t *testing.T) {
	w := newWorld(t)
	skip := func(d *draft) { withSecond(receipt.Skipped)(w, d) }
	wantOnly(t, w.with(t, skip, nil), Skipped)
	wantWarning(t, w.with(t, skip, func(r *Rules) { r.AllowSkipped = true }), Skipped)
	wantOnly(t, w.with(t, skip, func(r *Rules) { r.ExpectedSkips = []string{"tests/test_k.py::test_2"} }))
	wantOnly(t, w.with(t, nil, func(r *Rules) { r.ExpectedSkips = []string{} }))
	wantOnly(t, w.with(t, func(d *draft) {
		d.results.Collected = append(d.results.Collected,
			"tests/test_k.py::test_2")
	}, nil), NotRun)
}

// TestRowA6: one worker's subset of the collected tests is refused.
func TestRowA6(t *testing.T) {
	got := newWorld(t).with(t, func(d *draft) {
		for i := range 8 {
			d.results.Collected = append(d.results.Collected, fmt.Sprintf("tests/test_k.py::test_k[%d]", i))
		}
	}, nil)
	wantOnly(t, got, NotRun)
}

// TestRowA7: a fingerprint of nothing is refused, in all formats.
func TestRowA7(t *testing.T) {
	w := newWorld(t)
	nothing := func(d *draft) { d.facts.Code.Scope = []string{"nothing"} }
	wantOnly(t, w.with(t, nothing, func(r *Rules) { r.Scope = []string{"nothing"} }), EmptyScope)
	const empty = "aae5a71db7cd42382ef749f87ca847684d9d4a517cc8235f53ea31bd492c3577" // of {"files":{}}
	doc := w.schema1(t, w.draft())
	doc["fingerprint"] = map[string]any{"algorithm": "sha256", "included_paths": []any{"nothing"},
		"file_count": json.Number("0"), "digest": empty}
	wantOnly(t, w.check(t, signRaw(t, doc, w.alice), &Rules{Signers: []string{"alice"}, MinSchema: 1,
		Scope: []string{"nothing"}}), EmptyScope)
}

// TestRowA8: what the original's digest does not see is compared entry by entry where the tested commit is here, and
// refused where it is not; our own digest sees it.
func TestRowA8(t *testing.T) {
	rules := func() *Rules { return &Rules{Signers: []string{"golden-ed25519"}, MinSchema: 1} }
	hidden := openRepo(t, vectorClone(t, "hidden-edits"))
	wantOnly(t, checkVector(t, "receipts/own-ed25519.json", hidden, rules()), HiddenChange)
	shallow := vectorClone(t, "main", "--single-branch")
	git(t, shallow, "checkout", "-q", "--orphan", "squashed")
	git(t, shallow, "commit", "-q", "-m", "squashed")
	git(t, shallow, "branch", "-q", "-D", "main")
	git(t, shallow, "remote", "remove", "origin")
	git(t, shallow, "reflog", "expire", "--expire=now", "--all")
	git(t, shallow, "gc", "-q", "--prune=now")
	repo := openRepo(t, shallow)
	wantOnly(t, checkVector(t, "receipts/own-ed25519.json", repo, rules()), Uncovered)
	allow := rules()
	allow.AllowUncovered = true
	wantWarning(t, checkVector(t, "receipts/own-ed25519.json", repo, allow), Uncovered)

	w := newWorld(t)
	git(t, w.dir, "checkout", "-q", "-b", "base")
	for name, change := range map[string]func(){
		"mode":          func() { git(t, w.dir, "update-index", "--chmod=+x", "src/k.py") },
		"link":          func() { link(t, w.dir, "k.py", "src/link"); git(t, w.dir, "add", "-A") },
		"name":          func() { write(t, w.dir, "src/naïve.py", ""); git(t, w.dir, "add", "-A") },
		"quoted name":   func() { write(t, w.dir, `src/quo"te.py`, ""); git(t, w.dir, "add", "-A") },
		"submodule pin": func() { git(t, w.dir, "update-index", "--add", "--cacheinfo", "160000,"+w.head.ID+",src/sub") },
	} {
		git(t, w.dir, "checkout", "-q", "-f", "base")
		w.reopen(t)
		file := w.draft().seal(t)
		change()
		git(t, w.dir, "commit", "-q", "-m", name)
		w.reopen(t)
		if got := w.check(t, file, aliceMay()); len(got.Refusals) != 1 || got.Refusals[0].Code != CodeChanged {
			t.Errorf("%s: %+v, want code_changed", name, got.Refusals)
		}
		git(t, w.dir, "reset", "-q", "--hard", "HEAD~1")
		git(t, w.dir, "clean", "-q", "-f", "-d")
	}
}

func link(t testing.TB, dir, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
		t.Fatal(err)
	}
}

// TestRowA8Outputs: an ignored build output can be demanded, is in the signed part, and is compared where it lies.
func TestRowA8Outputs(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, "build/k.so", "machine code")
	outputs, err := w.repo.Outputs([]string{"build/k.so"})
	if err != nil {
		t.Fatal(err)
	}
	record := func(d *draft) {
		d.facts.Outputs = []receipt.Output{{Path: "build/k.so", SHA256: fmt.Sprintf("%x", outputs[0].SHA256)}}
	}
	demand := func(r *Rules) { r.Outputs = []string{"build/k.so"} }
	wantOnly(t, w.with(t, record, demand))
	wantOnly(t, w.with(t, nil, demand), OutputMissing)
	write(t, w.dir, "build/k.so", "other machine code")
	wantOnly(t, w.with(t, record, demand), OutputChanged)
	if err := os.RemoveAll(filepath.Join(w.dir, "build")); err != nil {
		t.Fatal(err)
	}
	wantOnly(t, w.with(t, record, demand)) // CI has not built it
}

// TestRowA9: the code was hashed when the run began and when it ended; both must be what is signed.
func TestRowA9(t *testing.T) {
	w := newWorld(t)
	other := strings.Repeat("ab", 32)
	wantOnly(t, w.with(t, func(d *draft) { d.results.Code.Start = other }, nil), ChangedDuringRun)
	wantOnly(t, w.with(t, func(d *draft) { d.results.Code.End = other }, nil), ChangedDuringRun)
	unwatched := func(d *draft) { d.results.Code.Start, d.results.Code.End = "", "" }
	wantWarning(t, w.with(t, unwatched, nil), NotWatched)
	wantOnly(t, w.with(t, unwatched, func(r *Rules) { r.RequireWatched = true }), NotWatched)
}

// TestRowA10: where Git does not answer nothing is accepted.
func TestRowA10(t *testing.T) {
	w := newWorld(t)
	file := w.draft().seal(t)
	legacy := signRaw(t, w.schema1(t, w.draft()), w.alice)
	if err := os.RemoveAll(filepath.Join(w.dir, ".git", "objects")); err != nil {
		t.Fatal(err)
	}
	for _, f := range [][]byte{file, legacy} {
		got := w.check(t, f, &Rules{Signers: []string{"alice"}, MinSchema: 1})
		if got.Accepted || len(got.Unreachable)+len(got.Refusals) == 0 {
			t.Errorf("accepted %v: %+v", got.Accepted, got)
		}
		for _, r := range append(got.Unreachable, got.Refusals...) {
			if r.Code != RepoUnreadable {
				t.Errorf("%+v, want repo_unreadable", r)
			}
		}
	}
	r, err := receipt.Parse("x", file)
	if err != nil {
		t.Fatal(err)
	}
	got := Check(context.Background(), Inputs{Receipt: r, Rules: aliceMay(), Keys: forge.Folder(w.keys), Now: worldClock})
	if got.Accepted || len(got.Refusals) > 0 || len(got.Unreachable) != 1 || got.Unreachable[0].Code != RepoUnreadable {
		t.Errorf("without a repository: %+v", got)
	}
}

// TestRowA11: a dirty tree is refused unless the policy allows it, and then it is said.
func TestRowA11(t *testing.T) {
	w := newWorld(t)
	dirty := func(d *draft) { d.facts.Repo.Dirty = true }
	wantOnly(t, w.with(t, dirty, nil), Dirty)
	wantWarning(t, w.with(t, dirty, func(r *Rules) { r.AllowDirty = true }), Dirty)
}

// TestRowA14: a failed check inside a passed test is refused.
func TestRowA14(t *testing.T) {
	w := newWorld(t)
	for _, outcome := range []string{receipt.Failed, receipt.Errored} {
		for _, of := range []string{receipt.Passed, receipt.XPassed} {
			got := w.with(t, func(d *draft) {
				test(d).Outcome, test(d).Checks = of, []receipt.Check{{Name: "relu", Outcome: outcome}}
			}, func(r *Rules) { r.AllowXFail = true })
			wantOnly(t, got, CheckFailed)
		}
	}
}

// TestRowA16: a policy that cannot be read, or has a key that nobody knows, is an error, never "no policy".
func TestRowA16(t *testing.T) {
	for text, code := range map[string]diag.Code{
		"require_gpu: true\nmax_age_day: 3\n": UnknownKey, "require_gpu: [": Syntax, "require_gpu: maybe\n": WrongType,
		"max_age_days: 3\nmax_age_days: 99999\n": DuplicateKey, "- require_gpu\n": WrongType,
	} {
		if r, err := Parse("policy.yaml", []byte(text)); diag.CodeOf(err) != code {
			t.Errorf("Parse(%q) = %+v, %v, want %s", text, r, err, code)
		}
	}
}

// TestRowA17: content is bound, not history: squashed, rebased, shallow and merged clones verify.
func TestRowA17(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, "src/k.py", "def k(x):\n    return x + x\n")
	w.commit(t, "second")
	own := w.draft().seal(t)
	legacy := signRaw(t, w.schema1(t, w.draft()), w.alice)
	write(t, w.dir, "gpu-proof.json", string(own))
	w.commit(t, "receipt")
	origin := w.dir
	clone := func(flags ...string) string {
		dir := filepath.Join(t.TempDir(), "clone")
		git(t, t.TempDir(), append(append([]string{"clone", "-q"}, flags...), "file://"+origin, dir)...)
		return dir
	}
	squash := func(dir string) string {
		git(t, dir, "checkout", "-q", "--orphan", "squashed")
		git(t, dir, "commit", "-q", "-m", "all in one")
		return dir
	}
	merged := clone()
	git(t, merged, "checkout", "-q", "-b", "side", "HEAD~2")
	write(t, merged, "README.md", "text\n")
	git(t, merged, "add", "-A")
	git(t, merged, "commit", "-q", "-m", "base moves on")
	git(t, merged, "merge", "-q", "-m", "merge", "main")
	for name, dir := range map[string]string{"whole": clone(), "shallow": clone("--depth", "1"),
		"squashed":          squash(clone()),
		"squashed, shallow": squash(clone("--depth", "1")), "merge": merged} {
		w.dir = dir
		w.reopen(t)
		git(t, dir, "remote", "set-url", "origin", worldRemote)
		for format, file := range map[string][]byte{"our format": own, "schema 1": legacy} {
			if got := w.check(t, file, &Rules{Signers: []string{"alice"}, MinSchema: 1}); !got.Accepted {
				t.Errorf("%s, %s: %+v %+v", name, format, got.Refusals, got.Unreachable)
			}
		}
	}
}

// TestRowB1: who may sign is never the receipt's choice, and who did is under the signature.
func TestRowB1(t *testing.T) {
	w := newWorld(t)
	wantOnly(t, w.with(t, nil, func(r *Rules) { r.Signers = nil }), NoAllowList)
	wantOnly(t, w.with(t, nil, func(r *Rules) { r.Signers = []string{"bob"} }), SignerNotAllowed)
	doc := w.schema1(t, w.draft())
	at(t, doc, "signature")["signer"] = "bob" // bob may sign; the signature is still alice's
	wantOnly(t, w.check(t, signRaw(t, doc, w.alice), &Rules{Signers: []string{"bob"}, MinSchema: 1}), SignerMismatch,
		BadSignature)
}

// asked notes who was asked for.
type asked struct {
	forge.Source
	names []string
}

func (a *asked) Keys(ctx context.Context, user string) ([]sshsig.PublicKey, error) {
	a.names = append(a.names, user)
	return a.Source.Keys(ctx, user)
}

// TestRowB2: a name that is none is refused before anybody is asked.
func TestRowB2(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"x.keys#@torvalds", "owner/repo/raw/main/y", "torvalds/../alice", "a b", "a\u202eb",
		"..", "a?b", "%61lice"} {
		doc := w.schema1(t, w.draft())
		at(t, doc, "signature")["signer"], at(t, doc, "repo")["github_username"] = name, name
		r, err := receipt.Parse("x", signRaw(t, doc, w.alice))
		if err != nil {
			t.Fatal(err)
		}
		source := &asked{Source: forge.Folder(w.keys)}
		for _, rules := range []*Rules{{Signers: []string{"alice"}, MinSchema: 1}, {Signers: []string{name}, MinSchema: 1},
			{KeyFingerprints: []string{w.alice.PublicKey().Fingerprint()}, MinSchema: 1}} {
			got := Check(context.Background(), Inputs{Receipt: r, Repo: w.repo, Rules: rules, Keys: source, Now: worldClock})
			if len(got.Refusals) != 1 || got.Refusals[0].Code != SignerName && got.Refusals[0].Code != SignerNotAllowed {
				t.Errorf("%q: %+v", name, got.Refusals)
			}
		}
		if len(source.names) > 0 {
			t.Errorf("%q was asked for", source.names)
		}
	}
}

// TestRowB3: the scope is the policy's choice.
func TestRowB3(t *testing.T) {
	w := newWorld(t)
	for _, scope := range [][]string{{":!src/k.py"}, {"src", "tests", ":!src/k.py"}, {"--format=x"}, {"src/*.py"}, {""},
		{"src\n"}, {":(top)src"}, nil} {
		wantOnly(t, w.with(t, func(d *draft) { d.facts.Code.Scope = scope }, nil), ScopeMalformed)
	}
	wantOnly(t, w.with(t, func(d *draft) { w.rescope(d, []string{"src"}) }, nil), ScopeMismatch)
	wantOnly(t, w.with(t, func(d *draft) { w.rescope(d, []string{"src"}) }, func(r *Rules) { r.Scope = []string{"src"} }))
	doc := w.schema1(t, w.draft())
	delete(at(t, doc, "fingerprint"), "included_paths")
	wantOnly(t, w.check(t, signRaw(t, doc, w.alice), &Rules{Signers: []string{"alice"}, MinSchema: 1}), MissingField)
}

// TestRowB4: nothing outside of the repository is read, and no digest of anything is printed.
func TestRowB4(t *testing.T) {
	w := newWorld(t)
	secret := filepath.Join(filepath.Dir(w.dir), "secret")
	write(t, filepath.Dir(w.dir), "secret", "1234")
	for _, p := range []string{"../secret", secret, "/dev", "src/../../secret"} {
		got := w.with(t, func(d *draft) { d.facts.Code.Scope = []string{p} }, nil)
		wantOnly(t, got, ScopeMalformed)
		doc := w.schema1(t, w.draft())
		at(t, doc, "fingerprint")["included_paths"] = []any{p}
		wantOnly(t, w.check(t, signRaw(t, doc, w.alice), &Rules{Signers: []string{"alice"}, MinSchema: 1}), ScopeMalformed)
	}
	got := w.with(t, func(d *draft) {
		other := strings.Repeat("00", 32)
		d.facts.Code.Digest, d.results.Code.Start, d.results.Code.End = other, other, other
	}, nil)
	wantOnly(t, got, CodeChanged)
	if strings.Contains(got.Refusals[0].Message, w.digest[:8]) {
		t.Errorf("the message shows the digest: %q", got.Refusals[0].Message)
	}
}

// TestRowB5: a commit is an id, not a revision.
func TestRowB5(t *testing.T) {
	w := newWorld(t)
	for _, commit := range []string{"HEAD", "main", "", "HEAD~0", strings.ToUpper(w.head.ID), w.head.ID[:39], "--all",
		w.head.ID + "\n"} {
		if commit == "" { // our own format does not even take it
			doc := w.schema1(t, w.draft())
			at(t, doc, "repo")["commit_sha"] = nil
			wantOnly(t, w.check(t, signRaw(t, doc, w.alice), &Rules{Signers: []string{"alice"}, MinSchema: 1}), BadCommit)
			continue
		}
		wantOnly(t, w.with(t, func(d *draft) { d.facts.Repo.Commit = commit }, nil), BadCommit)
	}
}

// TestRowB6: changes outside of the scope are told, and refused where the policy says so or covers them.
func TestRowB6(t *testing.T) {
	w := newWorld(t)
	file := w.draft().seal(t)
	all := w.draft()
	w.rescope(all, []string{"."})
	whole := all.seal(t)
	write(t, w.dir, "conftest.py", "raise SystemExit(0)\n")
	w.commit(t, "conftest")
	wantWarning(t, w.check(t, file, aliceMay()), OutsideChanged)
	wantOnly(t, w.check(t, file, &Rules{Signers: []string{"alice"}, RefuseOutsideChanges: true}), OutsideChanged)
	wantOnly(t, w.check(t, whole, &Rules{Signers: []string{"alice"}, Scope: []string{"."}}), CodeChanged)
}

// TestRowB7: times have one spelling, lie in order and not in the future, and an age is counted to the second.
func TestRowB7(t *testing.T) {
	w := newWorld(t)
	for _, s := range []string{"whenever", "", "2001-01-01T00:00:00+00:00", "2026-11-15 10:01:00Z",
		"2026-11-15T10:01:00.0Z",
		"2026-11-15T10:01:00z", "2026-02-30T10:01:00Z", "2026-11-15T10:01:60Z", "20261115T100100Z"} {
		wantOnly(t, w.with(t, func(d *draft) { d.results.EndedAt = s }, nil), BadTime)
		wantOnly(t, w.with(t, func(d *draft) { d.results.StartedAt = s }, nil), BadTime)
	}
	ended := func(ago time.Duration) func(*draft) {
		return func(d *draft) {
			at := worldClock.Add(-ago)
			d.results.StartedAt, d.results.EndedAt, d.facts.SignedAt = at.Format(receipt.TimeForm),
				at.Format(receipt.TimeForm), at
		}
	}
	days := func(n int) func(*Rules) { return func(r *Rules) { r.MaxAgeDays = &n } }
	const day = 24 * time.Hour
	wantOnly(t, w.with(t, ended(0), days(0)))
	wantOnly(t, w.with(t, ended(23*time.Hour), days(0)), TooOld)
	wantOnly(t, w.with(t, ended(time.Second), days(0)), TooOld)
	wantOnly(t, w.with(t, ended(day), days(1)))
	wantOnly(t, w.with(t, ended(day+time.Second), days(1)), TooOld)
	wantOnly(t, w.with(t, ended(30*day), nil))
	wantOnly(t, w.with(t, ended(30*day+time.Second), nil), TooOld)
	wantOnly(t, w.with(t, ended(-futureSlack), nil))
	wantOnly(t, w.with(t, ended(-futureSlack-time.Second), nil), InFuture)
}

// TestRowB8: nothing in the tree under test changes the rules.
func TestRowB8(t *testing.T) {
	w := newWorld(t)
	write(t, w.dir, "pyproject.toml",
		"[tool.gpu_proof]\nmax_age_days = 99999\nexpected_skips = ['tests/test_k.py::test_2']\n")
	write(t, w.dir, "gpu-proof-policy.yaml", "allow_dirty: true\nmax_age_days: 99999\n")
	w.commit(t, "policy")
	wantOnly(t, w.with(t, func(d *draft) {
		d.facts.Repo.Dirty = true
		d.results.StartedAt, d.results.EndedAt = "2025-11-15T10:00:00Z", "2025-11-15T10:00:00Z"
		withSecond(receipt.Skipped)(w, d)
	}, nil), Dirty, TooOld, Skipped)
}

// TestRowB9: what a receipt claims is checked.
func TestRowB9(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		path   []any
		key    string
		value  any
		reason Reason
	}{
		"mode":        {nil, "mode", "banana", WrongMode},
		"algorithm":   {[]any{"signature"}, "algorithm", "none", AlgorithmMismatch},
		"fingerprint": {[]any{"fingerprint"}, "algorithm", "crc32", UnknownAlgorithm},
		"file_count":  {[]any{"fingerprint"}, "file_count", json.Number("3"), FileCount},
		"node_ids":    {[]any{"session"}, "node_ids", []any{"tests/a.py::every"}, IDsMismatch},
		"remote_url":  {[]any{"repo"}, "remote_url", "git@github.com:other/other.git", WrongRepository},
	} {
		doc := w.schema1(t, w.draft())
		at(t, doc, tt.path...)[tt.key] = tt.value
		got := w.check(t, signRaw(t, doc, w.alice), &Rules{Signers: []string{"alice"}, MinSchema: 1})
		if len(got.Refusals) != 1 || got.Refusals[0].Code != tt.reason {
			t.Errorf("%s: %+v, want %s alone", name, got.Refusals, tt.reason)
		}
	}
	wantOnly(t, w.with(t, func(d *draft) {
		test(d).ID, d.results.Collected = "tests/nowhere.py::test", []string{"tests/nowhere.py::test"}
	}, nil), TestFileMissing)
}

// TestRowB10: where nothing ran nothing is proven, whatever is allowed.
func TestRowB10(t *testing.T) {
	w := newWorld(t)
	for _, outcome := range []string{receipt.Skipped, receipt.XFailed} {
		got := w.with(t, func(d *draft) { test(d).Outcome = outcome }, func(r *Rules) {
			r.AllowSkipped, r.AllowXFail = true,
				true
		})
		wantOnly(t, got, NothingRan)
	}
}

// TestRowB11: only a signature of exactly null is unsigned, and only if that is allowed.
func TestRowB11(t *testing.T) {
	w := newWorld(t)
	for _, tt := range map[string]struct {
		signature any
		reasons   []Reason
	}{
		"null": {nil, nil}, "{}": {map[string]any{}, []Reason{MissingField}}, `""`: {"", []Reason{WrongFieldType}},
		"0": {json.Number("0"), []Reason{WrongFieldType}}, "false": {false, []Reason{WrongFieldType}}, "[]": {[]any{},
			[]Reason{WrongFieldType}},
	} {
		doc := w.schema1(t, w.draft())
		doc["signature"] = tt.signature
		b, err := receipt.PythonCanonical(doc)
		if err != nil {
			t.Fatal(err)
		}
		got := w.check(t, b, &Rules{Signers: []string{"alice"}, MinSchema: 1, AllowUnsigned: true})
		wantOnly(t, got, tt.reasons...)
	}
	strip := func(d *draft) { d.facts.Signer, d.signers = nil, nil }
	wantOnly(t, w.with(t, strip, nil), Unsigned)
	wantWarning(t, w.with(t, strip, func(r *Rules) { r.AllowUnsigned = true }), Unsigned)
	var e map[string]any // taken off a signed receipt, the signature leaves its name behind
	if err := json.Unmarshal(w.draft().seal(t), &e); err != nil {
		t.Fatal(err)
	}
	e["signatures"] = []any{}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	wantOnly(t, w.check(t, b, &Rules{Signers: []string{"alice"}, AllowUnsigned: true}), SignerMismatch)
}

// TestRowB12: a key twice, at any depth, in the file or in the payload, is refused.
func TestRowB12(t *testing.T) {
	w := newWorld(t)
	legacy := signRaw(t, w.schema1(t, w.draft()), w.alice)
	for _, b := range [][]byte{
		bytes.Replace(legacy, []byte("{"), []byte(`{"tests":[],`), 1),
		bytes.Replace(legacy, []byte(`"outcome":"passed"`), []byte(`"outcome":"failed","outcome":"passed"`), 1),
		bytes.Replace(legacy, []byte(`"outcome":"passed"`), []byte(`"\u006futcome":"failed","outcome":"passed"`), 1),
		rewritePayload(w.draft().seal(t), `"outcome":"passed"`, `"outcome":"failed","outcome":"passed"`),
	} {
		wantOnly(t, w.check(t, b, &Rules{Signers: []string{"alice"}, MinSchema: 1}), DuplicateField)
	}
}

// TestRowB13: nothing that a receipt says reaches a terminal or a log as a command.
func TestRowB13(t *testing.T) {
	const hostile = "x\n::error::y\r\x1b[31m\u202e\u0085\u2028"
	w := newWorld(t)
	for name, change := range map[string]func(doc map[string]any){
		"signer": func(doc map[string]any) {
			at(t, doc, "signature")["signer"], at(t, doc, "repo")["github_username"] = hostile, hostile
		},
		"fingerprint": func(doc map[string]any) { at(t, doc, "signature")["key_fingerprint"] = hostile },
		"algorithm":   func(doc map[string]any) { at(t, doc, "fingerprint")["algorithm"] = hostile },
		"scope":       func(doc map[string]any) { at(t, doc, "fingerprint")["included_paths"] = []any{hostile} },
		"mode":        func(doc map[string]any) { doc["mode"] = hostile },
		"commit":      func(doc map[string]any) { at(t, doc, "repo")["commit_sha"] = hostile },
		"remote":      func(doc map[string]any) { at(t, doc, "repo")["remote_url"] = "https://github.com/o/" + hostile },
		"date":        func(doc map[string]any) { at(t, doc, "session")["ended_at"] = hostile },
		"field":       func(doc map[string]any) { doc[hostile] = hostile },
		"schema":      func(doc map[string]any) { doc["schema_version"] = hostile },
		"test": func(doc map[string]any) {
			at(t, doc, "tests", 0)["node_id"], at(t, doc, "session")["node_ids"] = hostile, []any{hostile}
		},
	} {
		doc := w.schema1(t, w.draft())
		change(doc)
		got := w.check(t, signRaw(t, doc, w.alice), &Rules{Signers: []string{"alice"}, MinSchema: 1})
		if len(got.Refusals) == 0 {
			t.Errorf("%s: not refused", name)
		}
		for _, r := range append(append(got.Refusals, got.Warnings...), got.Unreachable...) {
			if escape.Text(r.Message+r.Hint) != r.Message+r.Hint {
				t.Errorf("%s: message %q, hint %q", name, r.Message, r.Hint)
			}
		}
		for _, n := range got.Notes {
			if escape.Text(n) != n {
				t.Errorf("%s: note %q", name, n)
			}
		}
	}
}

// TestRowB14: what was signed cannot be changed by whoever has the result file, and the result file has no key.
func TestRowB14(t *testing.T) {
	w := newWorld(t)
	d := w.draft()
	test(d).Outcome, d.results.ExitStatus = receipt.Failed, 1
	file := rewritePayload(d.seal(t), `"outcome":"failed"`, `"outcome":"passed"`)
	got := w.check(t, rewritePayload(file, `"exit_status":1`, `"exit_status":0`), aliceMay())
	wantOnly(t, got, BadSignature)
}

// TestRowB15: the word for a signer whose name was not known is nobody's name.
func TestRowB15(t *testing.T) {
	w := newWorld(t)
	write(t, w.keys, "unknown.keys", w.alice.PublicKey().String()+"\n")
	wantOnly(t, w.with(t, func(d *draft) { d.facts.Signer.Principal = "unknown" },
		func(r *Rules) { r.Signers = []string{"unknown"} }), SignerName)
}

// TestRowB16: a signature for another purpose is none for receipts.
func TestRowB16(t *testing.T) {
	w := newWorld(t)
	wantOnly(t, w.with(t, func(d *draft) { d.signers = []sshsig.Signer{otherPurpose{w.alice}} }, nil), WrongNamespace)
}

// TestRowB17: the algorithm that a receipt names is that of the key.
func TestRowB17(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"none", "", "ecdsa-sha256", "rsa-pss-sha256", "ED25519"} {
		doc := w.schema1(t, w.draft())
		at(t, doc, "signature")["algorithm"] = name
		wantOnly(t, w.check(t, signRaw(t, doc, w.alice), &Rules{Signers: []string{"alice"}, MinSchema: 1}), AlgorithmMismatch)
	}
}

// TestRowB18: keys may come from a file, with the times in which they count; a key that expired still vouches for what
// it signed before.
func TestRowB18(t *testing.T) {
	w := newWorld(t)
	for options, want := range map[string][]Reason{
		"":                               nil,
		`valid-before="20261115110000Z"`: nil, // run until 10:01, signed at 10:02, looked at at 11:02
		`valid-before="20261115100130Z"`: {SignerNotAllowed},
		`valid-before="20261115100000Z"`: {SignerNotAllowed},
		`valid-after="20261115100130Z"`:  nil,
		`valid-after="20261115103000Z"`:  {SignerNotAllowed},
		`namespaces="gpu-proof@gpuemu"`:  nil,
		`namespaces="file"`:              {SignerNotAllowed},
	} {
		rules := func(r *Rules) {
			r.Signers, r.AllowedSigners = nil, allowed("alice "+options+" "+w.alice.PublicKey().String())
		}
		t.Run(options, func(t *testing.T) { wantOnly(t, w.with(t, nil, rules), want...) })
	}
}

// TestRowB20: a receipt is for one repository, and for one run where a nonce was issued.
func TestRowB20(t *testing.T) {
	w := newWorld(t)
	wantOnly(t, w.with(t, func(d *draft) { d.facts.Nonce = "n-2" }, func(r *Rules) { r.Nonce = "n-2" }))
	wantOnly(t, w.with(t, func(d *draft) { d.facts.Nonce = "n-1" }, func(r *Rules) { r.Nonce = "n-2" }), WrongNonce)
	wantOnly(t, w.with(t, nil, func(r *Rules) { r.Nonce = "n-2" }), WrongNonce)
	elsewhere := func(d *draft) { d.facts.Repo.Remote = "git@github.com:mallory/kernels.git" }
	wantWarning(t, w.with(t, elsewhere, nil), WrongRepository)
	wantOnly(t, w.with(t, elsewhere, func(r *Rules) { r.Repositories = []string{"github.com/alice/kernels"} }),
		WrongRepository)
}

// TestRowB21: what a receipt says about GPUs is asked for by model, and a device that was hidden is none.
func TestRowB21(t *testing.T) {
	w := newWorld(t)
	wantOnly(t, w.with(t, nil, func(r *Rules) { r.RequireGPU, r.GPUModels = true, []string{"NVIDIA H*"} }))
	wantOnly(t, w.with(t, nil, func(r *Rules) { r.GPUModels = []string{"NVIDIA A100*", "*B200"} }), WrongGPU)
	wantOnly(t, w.with(t, func(d *draft) { d.facts.Environment.GPUs = nil },
		func(r *Rules) { r.GPUModels = []string{"*"} }), NoGPU)
}

// TestTestsOutsideScope: tests whose files the scope does not cover are told.
func TestTestsOutsideScope(t *testing.T) {
	w := newWorld(t)
	got := w.with(t, func(d *draft) { w.rescope(d, []string{"src"}) }, func(r *Rules) { r.Scope = []string{"src"} })
	wantWarning(t, got, TestOutsideScope)
}

// TestNoTouch: the vectors' signature of a security key that nobody touched.
func TestNoTouch(t *testing.T) {
	b, err := os.ReadFile(vectorPath(t, "sshsig/sk-ed25519-no-touch.sshsig"))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := sshsig.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	message, err := os.ReadFile(vectorPath(t, "sshsig/message.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if got := signatureReason(sig.Verify(sig.Namespace, message)); got != NoTouch {
		t.Errorf("reason %s, want no_touch", got)
	}
}

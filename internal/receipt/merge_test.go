package receipt

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/sshsig"
)

// part is a sealed receipt with changes.
func part(t testing.TB, signer sshsig.Signer, change func(*Predicate)) *Receipt {
	t.Helper()
	s := testStatement(t, signer)
	if change != nil {
		change(&s.Predicate)
	}
	b, err := s.Seal(signer)
	if err != nil {
		t.Fatal(err)
	}
	return testReceipt(t, b)
}

func TestMerge(t *testing.T) {
	alice, bob := newSigner(t), newSigner(t)
	const relu, slow = "tests/test_relu.py::test_relu", "tests/test_relu.py::test_slow"
	first := part(t, alice, nil) // ran relu, deselected slow
	second := part(t, bob, func(p *Predicate) {
		p.Tests[0].ID = slow
		p.Deselected = []string{relu}
		p.Run.StartedAt, p.Run.EndedAt = "2026-11-14T10:00:00Z", "2026-11-14T11:00:00Z"
		p.Environment.GPUs = append(p.Environment.GPUs, GPU{Name: "NVIDIA H100"})
		p.Repo.Dirty = true
		p.Challenges = []Challenge{}
	})
	third := part(t, bob, func(p *Predicate) { p.Tests[0].Reruns, p.Outside.Failed, p.Run.ExitStatus = 1, 2, 1 })
	s, err := Merge([]*Receipt{first, second, third})
	if err != nil {
		t.Fatal(err)
	}
	p := s.Predicate
	if len(p.Tests) != 2 || p.Tests[0].ID != relu || p.Tests[0].Reruns != 1 || p.Tests[1].ID != slow {
		t.Errorf("tests %+v", p.Tests)
	}
	if len(p.Deselected) != 0 || !slices.Equal(p.Collected, []string{relu, slow}) {
		t.Errorf("collected %v, deselected %v", p.Collected, p.Deselected)
	}
	if p.Run.StartedAt != "2026-11-14T10:00:00Z" || p.Run.EndedAt != "2026-11-15T10:01:30Z" || p.Run.ExitStatus != 1 ||
		!p.Run.Finished {
		t.Errorf("run %+v", p.Run)
	}
	if len(p.Environment.GPUs) != 2 || len(p.Devices) != 1 || p.Outside.Failed != 2 || p.Outside.Passed != 9 ||
		!p.Repo.Dirty {
		t.Errorf("%+v", p)
	}
	if want := len(first.Predicate.Challenges) + len(third.Predicate.Challenges); want == 0 || len(p.Challenges) != want {
		t.Errorf("%d challenges, want those of all parts, %d", len(p.Challenges), want)
	}
	if len(p.Parts) != 3 || p.Parts[0].SHA256 != first.Digest() || p.Parts[1].EndedAt != "2026-11-14T11:00:00Z" ||
		p.Parts[1].Signer.KeyFingerprint != bob.PublicKey().Fingerprint() || p.Signer != nil {
		t.Errorf("parts %+v, signer %+v", p.Parts, p.Signer)
	}
	s.Predicate.Signer = &Signer{Principal: "alice", KeyFingerprint: alice.PublicKey().Fingerprint()}
	s.Predicate.SignedAt = time.Now().UTC().Format(TimeForm)
	b, err := s.Seal(alice)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Merge([]*Receipt{testReceipt(t, b), first})
	if err != nil || len(again.Predicate.Parts) != 5 {
		t.Errorf("a merged receipt is not merged again: %v", err)
	}
}

func TestMergeRefuses(t *testing.T) {
	alice := newSigner(t)
	first := part(t, alice, nil)
	for name, change := range map[string]func(*Predicate){
		"outcome": func(p *Predicate) { p.Tests[0].Outcome = Failed },
		"mode":    func(p *Predicate) { p.Mode = "ci-gpu" },
		"nonce":   func(p *Predicate) { p.Nonce = "m" },
		"scope":   func(p *Predicate) { p.Code.Scope = []string{"."} },
		"exclude": func(p *Predicate) { p.Code.Exclude = []string{"src/k.cu"} },
		"remote":  func(p *Predicate) { p.Repo.Remote = "https://example.org/c/d" },
		"root":    func(p *Predicate) { p.Run.Root = "sub" },
		"changed": func(p *Predicate) { p.Code.Start = strings.Repeat("cd", 32) },
		"runner":  func(p *Predicate) { p.Run.Runner.Version = "1" },
	} {
		if _, err := Merge([]*Receipt{first, part(t, alice, change)}); diag.CodeOf(err) != MergeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := testStatement(t, alice)
	s.Predicate.Code.Digest = strings.Repeat("cd", 32)
	other := wrap(s.Predicate)
	b, err := other.Seal(alice)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Merge([]*Receipt{first, testReceipt(t, b)}); diag.CodeOf(err) != MergeConflict {
		t.Errorf("other code: %v", err)
	}
	if _, err := Merge([]*Receipt{first}); diag.CodeOf(err) != MergeConflict {
		t.Errorf("one receipt: %v", err)
	}
	if _, err := Merge([]*Receipt{first, testReceipt(t, vectorFile(t,
		"receipts/own-ed25519.json"))}); diag.CodeOf(err) != MergeConflict {
		t.Errorf("schema 1: %v", err)
	}
	unwatched, err := Merge([]*Receipt{first, part(t, alice, func(p *Predicate) { p.Code.Start, p.Code.End = "", "" })})
	if err != nil || unwatched.Predicate.Code.Start != "" {
		t.Errorf("a part that nobody watched makes a merged run watched: %v", err)
	}
}

func TestSummary(t *testing.T) {
	got := Summary([]Test{{Outcome: Skipped}, {Outcome: Passed}, {Outcome: Passed}, {Outcome: "\n"}})
	if want := `2 passed, 1 skipped, 1 "\n"`; got != want {
		t.Errorf("Summary = %q, want %q", got, want)
	}
	if got := Summary(nil); got != "no tests" {
		t.Errorf("Summary(nil) = %q", got)
	}
}

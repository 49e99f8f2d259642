package proof

import (
	"fmt"
	"strings"
	"time"

	"gpuemu/internal/fingerprint"
	"gpuemu/internal/receipt"
	"gpuemu/internal/sshsig"
)

// This file implements what a receipt says, in words: before it is signed, and when it is inspected.

// signatureInfo is one signature, whose key is not known to be anybody's.
type signatureInfo struct {
	Key       string `json:"key"` // fingerprint
	Type      string `json:"type"`
	Algorithm string `json:"algorithm,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Hardware  bool   `json:"hardware,omitempty"`
	Touched   bool   `json:"touched,omitempty"`
	Claims    string `json:"claims,omitempty"` // the name beside a raw signature
	Fault     string `json:"fault,omitempty"`  // why it is not good, or cannot be told without the key
}

// signatures checks each signature with the key that stands in it. That says nothing about whose key it is.
func signatures(r *receipt.Receipt) []signatureInfo {
	out := []signatureInfo{}
	for _, s := range r.Signatures {
		if s.Raw != nil {
			out = append(out, signatureInfo{Key: s.Raw.KeyFingerprint, Type: "raw", Algorithm: s.Raw.Algorithm,
				Claims: s.Raw.Signer})
			continue
		}
		sig, err := sshsig.Parse(s.SSHSIG)
		if err != nil {
			out = append(out, signatureInfo{Fault: err.Error()})
			continue
		}
		info := signatureInfo{Key: sig.Key.Fingerprint(), Type: sig.Key.Type(), Algorithm: sig.Algorithm,
			Namespace: sig.Namespace, Hardware: sig.Hardware, Touched: sig.UserPresent}
		if err := sig.Verify(receipt.Namespace, r.Payload); err != nil {
			info.Fault = err.Error()
		}
		out = append(out, info)
	}
	return out
}

// environment is the machine in the form of receipts.
func environment(e fingerprint.Environment) receipt.Environment {
	out := receipt.Environment{Platform: e.Platform, CUDAVisibleDevices: e.VisibleDevices}
	for _, g := range e.GPUs {
		out.GPUs = append(out.GPUs, receipt.GPU{Index: g.Index, UUID: g.UUID, Name: g.Name, Driver: g.Driver,
			Memory: g.Memory, ComputeCapability: g.ComputeCapability})
	}
	return out
}

// showStatement says what a receipt says. It goes to standard error: standard output is for the result.
func showStatement(t *terminal, p *receipt.Predicate) {
	for _, line := range statementLines(p) {
		t.note("  %-9s %s", line[0], line[1])
	}
}

// statementLines are what a receipt says, each with a word in front.
func statementLines(p *receipt.Predicate) [][2]string {
	var out [][2]string
	add := func(word, format string, args ...any) {
		out = append(out, [2]string{word, fmt.Sprintf(format, args...)})
	}
	state := "clean"
	if p.Repo.Dirty {
		state = "with changes that are not committed"
	}
	add("code", "%s, %d files of %s", short(p.Code.Digest), p.Code.Files, strings.Join(p.Code.Scope, ", "))
	add("commit", "%s %s, %s", short(p.Repo.Commit), p.Repo.Branch, state)
	if p.Repo.Remote != "" {
		add("origin", "%s", p.Repo.Remote)
	}
	for _, o := range p.Outputs {
		add("output", "%s %s", short(o.SHA256), o.Path)
	}
	add("tests", "%s", receipt.Summary(p.Tests))
	if n := len(p.Deselected); n > 0 {
		add("left out", "%d of the %d tests that were collected", n, len(p.Collected))
	}
	add("run", "%s%s, mode %s, %s, %s", p.Run.Runner.Name, blank(p.Run.Runner.Version), p.Mode, p.Run.EndedAt,
		lasted(p.Run))
	for _, c := range p.Challenges {
		add("challenge", "%s %s, %d cases, seed %s", c.Op, c.DType, len(c.Cases), c.Seed)
	}
	for _, part := range p.Parts {
		add("part", "%s of %d tests, %s", short(part.SHA256), part.Tests, part.EndedAt)
	}
	gpus := "no GPU"
	if len(p.Environment.GPUs) > 0 {
		var names []string
		for _, g := range p.Environment.GPUs {
			names = append(names, g.Name)
		}
		gpus = strings.Join(names, ", ")
	}
	add("machine", "%s, %s", p.Environment.Platform, gpus)
	if p.Nonce != "" {
		add("nonce", "%s", p.Nonce)
	}
	if p.Signer != nil {
		add("signer", "%s, key %s", p.Signer.Principal, p.Signer.KeyFingerprint)
	} else {
		add("signer", "nobody: UNSIGNED")
	}
	return out
}

func blank(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// short is the beginning of a digest.
func short(digest string) string { return digest[:min(12, len(digest))] }

// lasted is how long a run took, where its times can be read.
func lasted(r receipt.Run) string {
	from, err1 := receipt.ParseTime(r.StartedAt)
	to, err2 := receipt.ParseTime(r.EndedAt)
	if err1 != nil || err2 != nil {
		return "of unknown length"
	}
	return to.Sub(from).Round(time.Second).String()
}

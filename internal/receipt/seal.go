package receipt

// This file implements the writing of receipts: our envelope, and the original's first schema.

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/sshsig"
)

// Seal signs s and returns the file. The first signer is the one that s names; without signers, and with none named,
// the receipt is unsigned. Each signature covers the bytes of the payload as they are stored.
func (s *Statement) Seal(signers ...sshsig.Signer) ([]byte, error) {
	named := s.Predicate.Signer
	switch {
	case len(signers) == 0 && named != nil:
		return nil, diag.Errorf(Unfit, "", "the statement names the signer %q, and there is no key", named.Principal)
	case len(signers) > 0 && named == nil:
		return nil, diag.Errorf(Unfit, "", "the statement names no signer, and is to be signed")
	}
	payload, err := s.payload()
	if err != nil {
		return nil, err
	}
	e := envelope{PayloadType: PayloadType, Payload: payload, Signatures: []envelopeSignature{}}
	for i, signer := range signers {
		if got := signer.PublicKey().Fingerprint(); i == 0 && got != named.KeyFingerprint {
			return nil, diag.Errorf(Unfit, "", "the statement names the key %s, the key at hand is %s", named.KeyFingerprint,
				got)
		}
		if err := e.sign(signer); err != nil {
			return nil, err
		}
	}
	return e.marshal()
}

// sign adds a signature over the stored payload.
func (e *envelope) sign(signer sshsig.Signer) error {
	armoured, err := signer.Sign(Namespace, e.Payload)
	if err != nil {
		return err
	}
	e.Signatures = append(e.Signatures, envelopeSignature{SSHSIG: string(armoured)})
	return nil
}

// AddSignature returns the file of r with one more signature over the same bytes: the second of two pairs of eyes. A
// key signs once.
func (r *Receipt) AddSignature(signer sshsig.Signer) ([]byte, error) {
	if r.Legacy != nil {
		return nil, diag.Errorf(Unfit, "sign the results again in the format statement",
			"a receipt of schema %s has room for one signature", r.Format)
	}
	if r.Predicate.Signer == nil {
		return nil, diag.Errorf(Unfit, "sign the results themselves", "the receipt is unsigned, and says so")
	}
	e := envelope{PayloadType: PayloadType, Payload: r.Payload}
	for _, s := range r.Signatures {
		sig, err := sshsig.Parse(s.SSHSIG)
		if err != nil {
			return nil, fmt.Errorf("%s: a signature that is already there: %w", r.File, err)
		}
		if sig.Key.Fingerprint() == signer.PublicKey().Fingerprint() {
			return nil, diag.Errorf(Unfit, "", "the key %s has signed already", sig.Key.Fingerprint())
		}
		e.Signatures = append(e.Signatures, envelopeSignature{SSHSIG: string(s.SSHSIG)})
	}
	if err := e.sign(signer); err != nil {
		return nil, err
	}
	return e.marshal()
}

// Extract returns the signed bytes and the signatures as files for other tools, by name: payload.json and
// payload-N.sig for ssh-keygen -Y verify, or payload.bin and signature.raw of the original's.
func (r *Receipt) Extract() map[string][]byte {
	files := map[string][]byte{}
	if r.Legacy != nil {
		files["payload.bin"] = r.Payload
		for _, s := range r.Signatures {
			files["signature.raw"] = s.Raw.Value
		}
		return files
	}
	files["payload.json"] = r.Payload
	for i, s := range r.Signatures {
		files["payload-"+strconv.Itoa(i+1)+".sig"] = s.SSHSIG
	}
	return files
}

// Schema1 is what the original's first schema needs and a statement does not have: its own digest of the code
// (fingerprint.LegacyDigest) over the paths of the scope.
type Schema1 struct {
	Digest string
	Files  int
}

// WriteSchema1 writes what s says as the original's first schema, signed by signer, or unsigned where signer is nil.
// What that schema cannot say is refused rather than left out, where it would make the receipt look better: reruns,
// passes against expectation, runs that did not finish. What only narrows what is said (challenges, outputs) is left
// out.
func WriteSchema1(s *Statement, fp Schema1, signer sshsig.Signer) ([]byte, error) {
	p := &s.Predicate
	if err := fitsSchema1(p); err != nil {
		return nil, err
	}
	ids, tests := []any{}, []any{}
	for _, t := range p.Tests {
		checks := []any{}
		for _, c := range t.Checks {
			checks = append(checks, map[string]any{"name": c.Name, "outcome": c.Outcome, "metadata": object(c.Metadata)})
		}
		// The original rounds to four decimals; the text has a point, so that Python reads a float.
		seconds := json.Number(pythonRepr(math.Round(t.Seconds*1e4) / 1e4))
		tests = append(tests, map[string]any{"node_id": t.ID, "outcome": schema1Outcomes[t.Outcome], "duration_s": seconds,
			"checks": checks})
		ids = append(ids, t.ID)
	}
	var user any
	if p.Signer != nil {
		user = p.Signer.Principal
	}
	doc := map[string]any{
		"schema_version": "1", "mode": p.Mode,
		"repo": map[string]any{"remote_url": nullable(p.Repo.Remote), "github_username": user,
			"commit_sha": nullable(p.Repo.Commit), "branch": nullable(p.Repo.Branch), "dirty": p.Repo.Dirty},
		"fingerprint": map[string]any{"algorithm": "sha256",
			"included_paths": texts(slices.Sorted(slices.Values(p.Code.Scope))),
			"file_count":     json.Number(strconv.Itoa(fp.Files)), "digest": fp.Digest},
		"session":     map[string]any{"started_at": p.Run.StartedAt, "ended_at": p.Run.EndedAt, "node_ids": ids},
		"tests":       tests,
		"environment": schema1Environment(p),
	}
	payload, err := PythonCanonical(doc)
	if err != nil {
		return nil, err
	}
	doc["signature"] = nil
	if signer != nil {
		value, algorithm, err := signer.SignRaw(payload)
		if err != nil {
			return nil, err
		}
		doc["signature"] = map[string]any{"algorithm": algorithm, "backend": "ssh-local", "signer": user,
			"key_fingerprint": signer.PublicKey().Fingerprint(), "value": base64.StdEncoding.EncodeToString(value)}
	}
	b, err := pythonIndented(doc)
	if err != nil {
		return nil, err
	}
	_, err = Parse("receipt", b) // what we would refuse is not written
	return b, err
}

// schema1Outcomes are the outcomes of the original's first schema: it calls an error a failure and an expected failure
// a skip, and has no word for a test that passed against expectation.
var schema1Outcomes = map[string]string{Passed: Passed, Failed: Failed, Errored: Failed, Skipped: Skipped,
	XFailed: Skipped}

// fitsSchema1 refuses what would look better in the original's first schema than it is.
func fitsSchema1(p *Predicate) error {
	const hint = "write our own format: --format statement"
	if !p.Run.Finished || p.Run.ExitStatus != 0 {
		return diag.Errorf(Unfit, hint, "schema 1 cannot say that the run did not finish, or ended with exit status %d",
			p.Run.ExitStatus)
	}
	for _, t := range p.Tests {
		if t.Reruns > 0 || schema1Outcomes[t.Outcome] == "" {
			return diag.Errorf(Unfit, hint, "schema 1 cannot say that %q had the outcome %s after %d reruns", shorten(t.ID),
				t.Outcome, t.Reruns)
		}
	}
	return nil
}

// schema1Environment: the original knows one GPU.
func schema1Environment(p *Predicate) map[string]any {
	var gpu any
	if g := p.Environment.GPUs; len(g) > 0 {
		gpu = map[string]any{"name": g[0].Name, "driver_version": g[0].Driver, "memory": g[0].Memory}
	}
	return map[string]any{"python_version": strings.TrimPrefix(p.Run.Runner.Language, "Python "),
		"platform":       p.Environment.Platform,
		"pytest_version": p.Run.Runner.Version, "plugin_version": p.Run.Runner.Plugin, "gpu_info": gpu}
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func texts(list []string) []any {
	out := []any{}
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

func object(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

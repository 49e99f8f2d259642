package receipt

// This file implements the readers of the original's receipts, schemas "1", "2" and "3".

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuemu/internal/diag"
)

// Legacy is what only the original's receipts say.
type Legacy struct {
	GitHubUsername string            // repo.github_username; "": null
	Fingerprint    LegacyFingerprint // algorithm "sha256" or "sha256-manifest-v2"
	Outcome        string            // session.outcome of schema 3, "passed" or "failed"
	Shards         []LegacyShard
	NonFinite      bool // NaN or an infinity in the metadata of schema 1 or 2
}

// LegacyFingerprint is the original's digest of the code. The scope is the signer's choice.
type LegacyFingerprint struct {
	Algorithm     string   `json:"algorithm"`
	IncludedPaths []string `json:"included_paths"`
	ExtraPaths    []string `json:"extra_paths,omitempty"`
	ExcludedPaths []string `json:"excluded_paths,omitempty"`
	FileCount     int      `json:"file_count"`
	Digest        string   `json:"digest"`
}

// LegacyShard is a part of a merged receipt of the original's, with a fingerprint of its own.
type LegacyShard struct {
	Name        string             `json:"name"`
	Fingerprint LegacyFingerprint  `json:"fingerprint"`
	NodeIDs     []string           `json:"node_ids"`
	Carried     *LegacyCarried     `json:"carried"`
	Environment *legacyEnvironment `json:"environment,omitempty"`
	StartedAt   string             `json:"started_at,omitempty"`
	EndedAt     string             `json:"ended_at,omitempty"`
}

// LegacyCarried says that a shard was taken over from an older receipt.
type LegacyCarried struct {
	From      string  `json:"from,omitempty"`
	CommitSHA *string `json:"original_commit_sha,omitempty"`
	EndedAt   *string `json:"original_ended_at,omitempty"`
	Signer    *string `json:"original_signer,omitempty"`
}

// maxShards bounds the shards of a receipt: for each the code is hashed once more. The largest known has 8.
const maxShards = 100

// legacyReceipt has the fields of all three schemas.
type legacyReceipt struct {
	SchemaVersion string            `json:"schema_version"`
	Mode          string            `json:"mode"`
	Repo          legacyRepo        `json:"repo"`
	Fingerprint   LegacyFingerprint `json:"fingerprint"`
	Session       legacySession     `json:"session"`
	Tests         []legacyTest      `json:"tests"`
	Environment   legacyEnvironment `json:"environment"`
	Shards        []LegacyShard     `json:"shards,omitempty"`
	Signer        *legacySigner     `json:"signer,omitempty"`
	Signature     *legacySignature  `json:"signature"`
}

type legacyRepo struct {
	RemoteURL      *string `json:"remote_url"`
	GitHubUsername *string `json:"github_username"`
	CommitSHA      *string `json:"commit_sha"`
	Branch         *string `json:"branch"`
	Dirty          bool    `json:"dirty"`
}

type legacySession struct {
	StartedAt  string               `json:"started_at"`
	EndedAt    string               `json:"ended_at"`
	Outcome    string               `json:"outcome,omitempty"`
	NodeIDs    []string             `json:"node_ids"`
	PytestArgs []any                `json:"pytest_args,omitempty"` // texts, or lists of texts after a merge
	Shards     []legacySessionShard `json:"shards,omitempty"`
}

type legacySessionShard struct {
	Source    string  `json:"source"`
	NodeCount int     `json:"node_count"`
	StartedAt *string `json:"started_at"`
	EndedAt   *string `json:"ended_at"`
	Signer    *string `json:"signer"`
}

type legacyTest struct {
	NodeID    string  `json:"node_id"`
	Outcome   string  `json:"outcome"`
	Phase     string  `json:"phase,omitempty"`
	DurationS float64 `json:"duration_s"`
	Checks    []Check `json:"checks"`
}

type legacyEnvironment struct {
	PythonVersion string `json:"python_version"`
	Platform      string `json:"platform"`
	PytestVersion string `json:"pytest_version"`
	PluginVersion string `json:"plugin_version,omitempty"` // absent in the published example
	GPUInfo       any    `json:"gpu_info"`
}

// legacyGPU is gpu_info of schemas 1 and 2, legacyGPUs that of schema 3.
type legacyGPU struct {
	Name          string `json:"name"`
	DriverVersion string `json:"driver_version,omitempty"`
	Memory        string `json:"memory,omitempty"`
}

type legacyGPUs struct {
	Devices []struct {
		Index             *string `json:"index"`
		UUID              *string `json:"uuid"`
		Name              *string `json:"name"`
		DriverVersion     *string `json:"driver_version"`
		Memory            *string `json:"memory"`
		ComputeCapability *string `json:"compute_capability"`
	} `json:"devices"`
	CUDAVisibleDevices *string `json:"cuda_visible_devices"`
}

// legacySigner stands inside the signed part of schema 3.
type legacySigner struct {
	GitHubUser     string `json:"github_user"`
	Algorithm      string `json:"algorithm"`
	Backend        string `json:"backend"`
	KeyFingerprint string `json:"key_fingerprint"`
}

// legacySignature: schema 3 has the value alone; in schemas 1 and 2 nothing of it is signed.
type legacySignature struct {
	Algorithm      *string `json:"algorithm,omitempty"`
	Backend        *string `json:"backend,omitempty"`
	Signer         *string `json:"signer,omitempty"`
	KeyFingerprint *string `json:"key_fingerprint,omitempty"`
	Value          []byte  `json:"value"`
}

// Weaknesses of the original's schemas, in words.
var legacyWeaknesses = []string{
	"the signature has no namespace: it is one over plain JSON with a login key",
	"the code was hashed at the end of the run, inside the test process, and nothing ties it to the start",
	"nothing says which tests were collected, or how the session ended",
}

// parseLegacy reads a receipt of the original's. v is the whole file.
func parseLegacy(v map[string]any) (*Receipt, error) {
	schema, ok := v["schema_version"].(string)
	if !ok {
		return nil, wrongType("schema_version", v["schema_version"], "a string")
	}
	if !slices.Contains([]string{"1", "2", "3"}, schema) {
		return nil, diag.Errorf(UnknownFormat, "", "schema_version is %q; 1, 2 and 3 are known", shorten(schema))
	}
	nonFinite, err := checkFinite(v, schema)
	if err != nil {
		return nil, err
	}
	var l legacyReceipt
	if err := assign("", any(v), &l); err != nil {
		return nil, err
	}
	if err := l.checkSchema(v); err != nil {
		return nil, err
	}
	if len(l.Shards) > maxShards {
		return nil, diag.Errorf(TooLarge, "", "%d shards, at most %d are read", len(l.Shards), maxShards)
	}
	signed := maps.Clone(v)
	delete(signed, "signature")
	payload, err := PythonCanonical(signed)
	if err != nil {
		return nil, err
	}
	p, err := l.predicate()
	if err != nil {
		return nil, err
	}
	if err := checkTests(p.Tests); err != nil {
		return nil, err
	}
	r := &Receipt{Format: schema, Predicate: *p, Payload: payload, Weaknesses: legacyWeaknesses,
		Legacy: &Legacy{GitHubUsername: text(l.Repo.GitHubUsername), Fingerprint: l.Fingerprint, Outcome: l.Session.Outcome,
			Shards: l.Shards, NonFinite: nonFinite}}
	if l.Signer != nil {
		r.Predicate.Signer = &Signer{Principal: l.Signer.GitHubUser, KeyFingerprint: l.Signer.KeyFingerprint}
	}
	if s := l.Signature; s != nil {
		raw := &RawSignature{Algorithm: text(s.Algorithm), Backend: text(s.Backend), Signer: text(s.Signer),
			KeyFingerprint: text(s.KeyFingerprint), Value: s.Value}
		if l.Signer != nil {
			raw = &RawSignature{Algorithm: l.Signer.Algorithm, Backend: l.Signer.Backend, Signer: l.Signer.GitHubUser,
				KeyFingerprint: l.Signer.KeyFingerprint, Value: s.Value, Bound: true}
		}
		r.Signatures = []Signature{{Raw: raw}}
		r.Predicate.Signer = &Signer{Principal: raw.Signer, KeyFingerprint: raw.KeyFingerprint}
	}
	return r, nil
}

// text is what a nullable field says; null is "".
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// checkSchema: fields that came with a later schema do not stand in an earlier one, and those that a schema has always
// written are there.
func (l *legacyReceipt) checkSchema(v map[string]any) error {
	session, _ := v["session"].(map[string]any)
	has := map[string]bool{"signer": v["signer"] != nil, "shards": v["shards"] != nil,
		"session.outcome": session["outcome"] != nil, "session.pytest_args": session["pytest_args"] != nil,
		"signature.signer": l.Signature != nil && l.Signature.Signer != nil}
	unknown, missing := []string{"signer", "session.outcome", "session.pytest_args"}, []string{}
	switch {
	case l.SchemaVersion == "3":
		unknown, missing = []string{"signature.signer"}, []string{"session.outcome", "session.pytest_args"}
		if l.Signature != nil {
			missing = append(missing, "signer")
		}
	case l.SchemaVersion == "1":
		unknown = append(unknown, "shards")
		fallthrough
	default:
		if l.Signature != nil {
			missing = append(missing, "signature.signer")
		}
	}
	for _, name := range unknown {
		if has[name] {
			return diag.Errorf(UnknownField, "", "schema %s has no field %s", l.SchemaVersion, name)
		}
	}
	for _, name := range missing {
		if !has[name] {
			return diag.Errorf(MissingField, "", "schema %s has a field %s", l.SchemaVersion, name)
		}
	}
	if s := l.Signature; s != nil && l.SchemaVersion == "3" && (s.Algorithm != nil || s.Backend != nil ||
		s.KeyFingerprint != nil) {
		return diag.Errorf(UnknownField, "", "the signature of schema 3 has the field value alone")
	}
	if s := l.Signature; s != nil && l.SchemaVersion != "3" && (s.Algorithm == nil || s.Backend == nil ||
		s.KeyFingerprint == nil) {
		return diag.Errorf(MissingField, "", "signature has the fields algorithm, backend, key_fingerprint, signer and value")
	}
	return nil
}

// predicate says in our words what the receipt says.
func (l *legacyReceipt) predicate() (*Predicate, error) {
	gpus, visible, err := l.Environment.gpus(l.SchemaVersion)
	if err != nil {
		return nil, err
	}
	arguments := []string{}
	for i, a := range l.Session.PytestArgs {
		list, ok := a.([]any)
		if !ok {
			list = []any{a}
		}
		for _, a := range list {
			s, ok := a.(string)
			if !ok {
				return nil, wrongType(fmt.Sprintf("session.pytest_args[%d]", i), a, "a string")
			}
			arguments = append(arguments, s)
		}
	}
	p := &Predicate{
		Mode: l.Mode, Collected: l.Session.NodeIDs,
		Repo: Repo{Remote: text(l.Repo.RemoteURL), Commit: text(l.Repo.CommitSHA), Branch: text(l.Repo.Branch),
			Dirty: l.Repo.Dirty},
		Code: Code{Algorithm: l.Fingerprint.Algorithm, Scope: l.Fingerprint.IncludedPaths,
			Exclude: l.Fingerprint.ExcludedPaths,
			Digest:  l.Fingerprint.Digest, Files: l.Fingerprint.FileCount},
		Run: Run{Runner: Runner{Name: "pytest", Version: l.Environment.PytestVersion, Plugin: l.Environment.PluginVersion,
			Language: "Python " + l.Environment.PythonVersion}, Root: ".", StartedAt: l.Session.StartedAt,
			EndedAt: l.Session.EndedAt, Arguments: arguments},
		Environment: Environment{Platform: l.Environment.Platform, GPUs: gpus, CUDAVisibleDevices: visible},
	}
	for i, t := range l.Tests {
		allowed := []string{Passed, Failed, Skipped}
		if l.SchemaVersion == "3" {
			allowed = append(allowed, Errored)
		}
		if !slices.Contains(allowed, t.Outcome) {
			return nil, badValue(fmt.Sprintf("tests[%d].outcome", i), t.Outcome, "one of "+strings.Join(allowed, ", "))
		}
		p.Tests = append(p.Tests, Test{ID: t.NodeID, Outcome: t.Outcome, Phase: t.Phase, Seconds: t.DurationS,
			Checks: t.Checks})
	}
	return p, nil
}

// gpus reads gpu_info, whose form depends on the schema.
func (e *legacyEnvironment) gpus(schema string) ([]GPU, *string, error) {
	if e.GPUInfo == nil {
		return nil, nil, nil
	}
	if schema != "3" {
		var g legacyGPU
		err := assign("environment.gpu_info", e.GPUInfo, &g)
		return []GPU{{Name: g.Name, Driver: g.DriverVersion, Memory: g.Memory}}, nil, err
	}
	var g legacyGPUs
	if err := assign("environment.gpu_info", e.GPUInfo, &g); err != nil {
		return nil, nil, err
	}
	var list []GPU
	for _, d := range g.Devices {
		list = append(list, GPU{Index: text(d.Index), UUID: text(d.UUID), Name: text(d.Name), Driver: text(d.DriverVersion),
			Memory: text(d.Memory), ComputeCapability: text(d.ComputeCapability)})
	}
	return list, g.CUDAVisibleDevices, nil
}

// checkFinite finds NaN and infinities. Schemas 1 and 2 could have them in metadata, where nobody computes with them;
// anywhere else, and in schema 3, they are refused.
func checkFinite(v map[string]any, schema string) (found bool, err error) {
	var walk func(path string, v any, metadata bool) error
	walk = func(path string, v any, metadata bool) error {
		switch v := v.(type) {
		case json.Number:
			if !isNonFinite(v) {
				return nil
			}
			if found = true; !metadata {
				return diag.Errorf(NotFinite, "", "%s is %s", path, shorten(string(v)))
			}
		case []any:
			for i, item := range v {
				if err := walk(fmt.Sprintf("%s[%d]", path, i), item, metadata); err != nil {
					return err
				}
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				inside := metadata || schema != "3" && key == "metadata" && strings.HasPrefix(path, "tests[")
				if err := walk(pathOf(path, key), v[key], inside); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err = walk("", v, false)
	return found, err
}

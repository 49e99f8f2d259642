package receipt

// This file implements the statement: what the signer says about a run, in the form of in-toto.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gpuemu/internal/diag"
)

// Names of our format.
const (
	// Format is the version of our receipts, and of the predicate inside.
	Format = "gpu-proof/1"
	// Namespace is the domain of our SSH signatures: one that was made for anything else is none of ours.
	Namespace = "gpu-proof@gpuemu"
	// PayloadType is that of in-toto statements.
	PayloadType = "application/vnd.in-toto+json"
	// StatementType is the version of in-toto's statement.
	StatementType = "https://in-toto.io/Statement/v1"
	// PredicateType names what the statement says.
	PredicateType = "https://gpuemu.dev/gpu-proof/v1"
	// ManifestAlgorithm is how the digest of the code is made (package fingerprint).
	ManifestAlgorithm = "gpu-proof-manifest/1"
)

// Statement is an in-toto Statement v1 with our predicate.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is what a statement is about: the code first, then each build output. It repeats what the predicate says, for
// readers that know in-toto and not us; Check sees to it that both say the same.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// Predicate is what a receipt says. Everything in it is signed.
type Predicate struct {
	Format      string      `json:"format"`
	Tool        string      `json:"tool"`   // what wrote it, with its version
	Signer      *Signer     `json:"signer"` // null: unsigned
	SignedAt    string      `json:"signed_at"`
	Mode        string      `json:"mode"`
	Nonce       string      `json:"nonce"`
	Repo        Repo        `json:"repo"`
	Code        Code        `json:"code"`
	Outputs     []Output    `json:"outputs"`
	Run         Run         `json:"run"`
	Collected   []string    `json:"collected"`
	Deselected  []string    `json:"deselected"`
	Outside     Outside     `json:"outside"`
	Tests       []Test      `json:"tests"`
	Devices     []Device    `json:"devices"`
	Environment Environment `json:"environment"`
	Challenges  []Challenge `json:"challenges"`
	Parts       []Part      `json:"parts,omitempty"` // of a merged receipt
}

// Signer is who signs, said under the signature: a verifier holds it against the key that the signature verified with.
type Signer struct {
	Principal      string `json:"principal"`
	KeyFingerprint string `json:"key_fingerprint"` // "SHA256:…"
}

// Repo is where the code comes from. The commit is information: content is bound by Code.
type Repo struct {
	Remote string `json:"remote"` // without credentials; "": none
	Commit string `json:"commit"` // 40 or 64 hexadecimal digits
	Tree   string `json:"tree"`
	Branch string `json:"branch"`
	Dirty  bool   `json:"dirty"`
}

// Code is which code was tested.
type Code struct {
	Algorithm string   `json:"algorithm"`
	Scope     []string `json:"scope"`
	Exclude   []string `json:"exclude"`
	Digest    string   `json:"digest"`
	Files     int      `json:"files"`
	Start     string   `json:"start"` // digest when the run began; "": nobody looked
	End       string   `json:"end"`   // and when it ended
}

// Output is a build output that Git ignores: the binary under test.
type Output struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Run is how the tests were run.
type Run struct {
	Runner     Runner   `json:"runner"`
	Root       string   `json:"root"`
	StartedAt  string   `json:"started_at"`
	EndedAt    string   `json:"ended_at"`
	Arguments  []string `json:"arguments"`
	ExitStatus int      `json:"exit_status"`
	Finished   bool     `json:"finished"`
}

// Environment is the machine as the signing process saw it.
type Environment struct {
	Platform           string  `json:"platform"`
	GPUs               []GPU   `json:"gpus"`
	CUDAVisibleDevices *string `json:"cuda_visible_devices,omitempty"`
}

// GPU is one device of the machine.
type GPU struct {
	Index             string `json:"index,omitempty"`
	UUID              string `json:"uuid,omitempty"`
	Name              string `json:"name"`
	Driver            string `json:"driver,omitempty"`
	Memory            string `json:"memory,omitempty"`
	ComputeCapability string `json:"compute_capability,omitempty"`
}

// Part is one of the receipts that a merged one was made of. Its signatures were verified by the one who merged.
type Part struct {
	SHA256    string  `json:"sha256"` // of the signed bytes
	Format    string  `json:"format"`
	Signer    *Signer `json:"signer"`
	StartedAt string  `json:"started_at"`
	EndedAt   string  `json:"ended_at"`
	Tests     int     `json:"tests"`
}

// Facts are what the signing process found out by itself.
type Facts struct {
	Tool        string
	Signer      *Signer // nil: unsigned
	SignedAt    time.Time
	Nonce       string
	Repo        Repo
	Code        Code // Start and End are those of the results
	Outputs     []Output
	Environment Environment
}

// NewStatement joins what a run wrote down with what the signing process found.
func NewStatement(r *Results, f Facts) *Statement {
	f.Code.Algorithm = ManifestAlgorithm
	f.Code.Start, f.Code.End = r.Code.Start, r.Code.End
	return wrap(Predicate{
		Format: Format, Tool: f.Tool, Signer: f.Signer, SignedAt: f.SignedAt.UTC().Format(TimeForm), Mode: r.Mode,
		Nonce: f.Nonce, Repo: f.Repo, Code: f.Code, Outputs: f.Outputs,
		Run: Run{Runner: r.Runner, Root: r.Root, StartedAt: r.StartedAt, EndedAt: r.EndedAt, Arguments: r.Arguments,
			ExitStatus: r.ExitStatus, Finished: r.Finished},
		Collected: r.Collected, Deselected: r.Deselected, Outside: r.Outside, Tests: r.Tests, Devices: r.Devices,
		Environment: f.Environment, Challenges: r.Challenges,
	})
}

// wrap puts a statement around a predicate. Lists that are nil become empty: null is not a list.
func wrap(p Predicate) *Statement {
	for _, list := range []*[]string{&p.Code.Scope, &p.Code.Exclude, &p.Run.Arguments, &p.Collected, &p.Deselected} {
		*list = append([]string{}, *list...)
	}
	p.Outputs = append([]Output{}, p.Outputs...)
	p.Tests = append([]Test{}, p.Tests...)
	p.Devices = append([]Device{}, p.Devices...)
	p.Environment.GPUs = append([]GPU{}, p.Environment.GPUs...)
	p.Challenges = append([]Challenge{}, p.Challenges...)
	for i, t := range p.Tests {
		p.Tests[i].Checks = slices.Clone(t.Checks)
		for k, c := range t.Checks {
			if c.Metadata == nil {
				p.Tests[i].Checks[k].Metadata = map[string]any{}
			}
		}
	}
	return &Statement{Type: StatementType, Subject: subjects(&p), PredicateType: PredicateType, Predicate: p}
}

// subjects are the code and the outputs of p as in-toto names things.
func subjects(p *Predicate) []Subject {
	list := []Subject{{Name: "code", Digest: map[string]string{
		"gitCommit": p.Repo.Commit, "gitTree": p.Repo.Tree, "gpuProofManifestV1": p.Code.Digest}}}
	for _, o := range p.Outputs {
		list = append(list, Subject{Name: o.Path, Digest: map[string]string{"sha256": o.SHA256}})
	}
	return list
}

// payload is the text of s that is signed.
func (s *Statement) payload() ([]byte, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if bad := notUTF8(reflect.ValueOf(s)); bad != "" {
		return nil, diag.Errorf(Encoding, "rename what is called so", "%q is not UTF-8, and JSON has nothing else", bad)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("receipt: %w", err)
	}
	// What a reader would refuse is not written: metadata may be nested too deep, for one.
	if _, err := ParseStatement(b.Bytes()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// notUTF8 returns the first text in v that is not UTF-8, or "": encoding/json would change it in silence.
func notUTF8(v reflect.Value) string {
	bad := ""
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); !utf8.ValidString(s) {
			bad = s
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			bad = notUTF8(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			bad = firstOf(bad, notUTF8(v.Field(i)))
		}
	case reflect.Slice:
		for i := range v.Len() {
			bad = firstOf(bad, notUTF8(v.Index(i)))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			bad = firstOf(bad, notUTF8(it.Key()), notUTF8(it.Value()))
		}
	}
	return bad
}

// ParseStatement reads the payload of an envelope.
func ParseStatement(b []byte) (*Statement, error) {
	v, err := DecodeStrict(b, Limits{})
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, wrongType("", v, "an object")
	}
	for _, f := range []struct{ name, want string }{{"_type", StatementType}, {"predicateType", PredicateType}} {
		if object[f.name] != f.want {
			return nil, diag.Errorf(UnknownFormat, "", "%s of the payload is %q, want %q", f.name,
				shorten(fmt.Sprint(object[f.name])), f.want)
		}
	}
	if predicate, ok := object["predicate"].(map[string]any); ok {
		if err := checkFormat(predicate, Format); err != nil {
			return nil, err
		}
	}
	var s Statement
	if err := assign("", v, &s); err != nil {
		return nil, err
	}
	return &s, s.Check()
}

// maxOutputs bounds the build outputs of a receipt, as package fingerprint does when it hashes them: a verifier that
// has the files reads each.
const maxOutputs = 1000

// maxParts bounds the receipts that one was merged of: each is held against the list of those who may sign.
const maxParts = 1000

var fingerprintForm = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)

// Check reports the first value of s that is not allowed. It does not judge what s says.
func (s *Statement) Check() error {
	p := &s.Predicate
	if !slices.EqualFunc(s.Subject, subjects(p), equalSubjects) {
		return diag.Errorf(BadValue, "", "subject does not name the code and the outputs of the predicate")
	}
	if err := checkSigner("predicate.signer", p.Signer); err != nil {
		return err
	}
	if p.Code.Algorithm != ManifestAlgorithm {
		return badValue("predicate.code.algorithm", p.Code.Algorithm, ManifestAlgorithm)
	}
	type named struct{ path, digest string }
	digests := []named{{"predicate.code.digest", p.Code.Digest}}
	if p.Code.Start != "" || p.Code.End != "" {
		digests = append(digests, named{"predicate.code.start", p.Code.Start},
			named{"predicate.code.end", p.Code.End})
	}
	if len(p.Outputs) > maxOutputs {
		return diag.Errorf(TooLarge, "", "%d outputs, at most %d are read", len(p.Outputs), maxOutputs)
	}
	if len(p.Parts) > maxParts {
		return diag.Errorf(TooLarge, "", "%d parts, at most %d are read", len(p.Parts), maxParts)
	}
	paths := map[string]bool{}
	for i, o := range p.Outputs {
		if paths[o.Path] {
			return badValue(fmt.Sprintf("predicate.outputs[%d].path", i), o.Path, "every path once")
		}
		paths[o.Path] = true
		digests = append(digests, named{fmt.Sprintf("predicate.outputs[%d].sha256", i), o.SHA256})
	}
	for i, part := range p.Parts {
		digests = append(digests, named{fmt.Sprintf("predicate.parts[%d].sha256", i), part.SHA256})
		if err := checkSigner(fmt.Sprintf("predicate.parts[%d].signer", i), part.Signer); err != nil {
			return err
		}
	}
	for _, d := range digests {
		if !isDigest(d.digest) {
			return badValue(d.path, d.digest, "64 hexadecimal digits in lower case")
		}
	}
	if err := checkRoot(p.Run.Root); err != nil {
		return err
	}
	if err := checkOutside(p.Outside); err != nil {
		return err
	}
	return checkTests(p.Tests)
}

func equalSubjects(x, y Subject) bool {
	if x.Name != y.Name || len(x.Digest) != len(y.Digest) {
		return false
	}
	for name, digest := range x.Digest {
		if y.Digest[name] != digest || digest == "" {
			return false
		}
	}
	return true
}

func checkSigner(path string, s *Signer) error {
	if s == nil {
		return nil
	}
	if s.Principal == "" || len(s.Principal) > 256 || hasControl(s.Principal) ||
		strings.TrimSpace(s.Principal) != s.Principal {
		return badValue(path+".principal", s.Principal, "a name")
	}
	if !fingerprintForm.MatchString(s.KeyFingerprint) {
		return badValue(path+".key_fingerprint", s.KeyFingerprint, `"SHA256:" and 43 characters of base64`)
	}
	return nil
}

// Package receipt holds the formats of receipts: the result file of a test run, the statement about it, the envelope
// with its signatures, and the three schemas of the original pytest-gpu-proof.
//
// It reads and writes, strictly: a file that two readers could understand in two ways is refused. It believes nothing
// and judges nothing; who may sign, and what a receipt must say, is the business of package policy. The main type is
// Receipt, one form for all formats, which keeps the signed bytes as they are: a signature covers them, never a second
// encoding of what was read. The original signs Python's canonical JSON of the file's content; for its receipts, and
// only for those, the signed bytes are made anew.
package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"gpuemu/internal/diag"
)

// Receipt is a receipt of any format that was read, and not yet believed.
type Receipt struct {
	File      string // name for messages
	Format    string // Format ("gpu-proof/1"), or the original's schema "1", "2" or "3"
	Predicate Predicate
	// Payload are the bytes that are signed.
	Payload    []byte
	Signatures []Signature // none: unsigned
	Legacy     *Legacy     // of the original's schemas only
	Weaknesses []string    // of the format, in words
}

// Signature is one signature of a receipt: exactly one of the two is set.
type Signature struct {
	SSHSIG []byte        // armoured, in our format
	Raw    *RawSignature // in the original's
}

// RawSignature is the original's signature and what stands beside it.
type RawSignature struct {
	Algorithm, Backend, Signer, KeyFingerprint string
	Value                                      []byte
	Bound                                      bool // schema 3: the four texts are signed
}

// envelope is the file of our format.
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     []byte              `json:"payload"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	SSHSIG string `json:"sshsig"`
}

// maxSignatures bounds the signatures of one receipt: each costs a verification.
const maxSignatures = 32

// Parse reads a receipt of any format. file is its name for messages.
func Parse(file string, b []byte) (*Receipt, error) {
	r, err := parse(b)
	if err != nil {
		return nil, atFile(file, err)
	}
	r.File = file
	return r, nil
}

func parse(b []byte) (*Receipt, error) {
	// The original's first schemas may hold a bare NaN in metadata; parseLegacy and parseEnvelope see to the rest.
	v, err := DecodeStrict(b, Limits{NonFinite: true})
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, wrongType("", v, "an object")
	}
	_, legacy := object["schema_version"]
	_, ours := object["payloadType"]
	switch {
	case ours:
		return parseEnvelope(object)
	case legacy:
		return parseLegacy(object)
	case object["format"] == ResultsFormat:
		return nil, diag.Errorf(UnknownFormat, "sign it first: gpu-proof sign --results FILE",
			"this is a result file, not a receipt")
	}
	return nil, diag.Errorf(UnknownFormat, "", "this is no receipt: it has neither payloadType nor schema_version")
}

func parseEnvelope(v map[string]any) (*Receipt, error) {
	var e envelope
	if err := assign("", any(v), &e); err != nil {
		return nil, err
	}
	if e.PayloadType != PayloadType {
		return nil, diag.Errorf(UnknownFormat, "", "payloadType is %q, want %q", shorten(e.PayloadType), PayloadType)
	}
	if len(e.Signatures) > maxSignatures {
		return nil, diag.Errorf(TooLarge, "", "%d signatures, at most %d are read", len(e.Signatures), maxSignatures)
	}
	s, err := ParseStatement(e.Payload)
	if err != nil {
		return nil, inPayload(err)
	}
	r := &Receipt{Format: Format, Predicate: s.Predicate, Payload: e.Payload}
	for _, sig := range e.Signatures {
		r.Signatures = append(r.Signatures, Signature{SSHSIG: []byte(sig.SSHSIG)})
	}
	return r, nil
}

// inPayload says that an error's line and column are those of the payload, not of the file around it.
func inPayload(err error) error {
	if e, ok := err.(*diag.Error); ok {
		e.Msg = "payload: " + e.Msg
	}
	return err
}

// Digest is the SHA-256 of the signed bytes in hexadecimal digits: the name of a receipt in merged ones and in reports.
func (r *Receipt) Digest() string {
	sum := sha256.Sum256(r.Payload)
	return hex.EncodeToString(sum[:])
}

// marshal is the text of an envelope.
func (e *envelope) marshal() ([]byte, error) {
	b, err := json.MarshalIndent(e, "", " ")
	return append(b, '\n'), err
}

// Package sshsig makes and checks signatures by SSH keys.
//
// A signature of ours is an SSHSIG (OpenSSH's PROTOCOL.sshsig): over the exact bytes of a message, under a namespace,
// so that a signature made for one purpose is worth nothing for another. Beside it stand the raw signatures that
// receipts of pytest-gpu-proof carry. Keys come from files, from ssh-agent and from FIDO security keys; who may sign
// for which name, purpose and time is said by a file of allowed signers (ssh-keygen(1), ALLOWED SIGNERS).
//
// The package decides whether a signature is good and whose key made it. Who is trusted is the caller's business.
//
// A PublicKey is always one of a supported kind and strong enough; a Signature that Parse returned has not been
// verified. Verify is stricter than ssh-keygen -Y verify: a security key must have been touched, RSA keys have at
// least 2048 bits, and every part of a signature has one encoding only.
package sshsig

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	format "github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gpuemu/internal/diag"
)

const (
	beginLine = "-----BEGIN SSH SIGNATURE-----"
	endLine   = "-----END SSH SIGNATURE-----"
	// armourColumns is the width of ssh-keygen's lines: signatures by the same key are then equal byte for byte.
	armourColumns = 70
	// maxArmoured limits the text of a signature: the largest RSA key of OpenSSH (16384 bits) needs under 8 KiB.
	maxArmoured = 64 << 10
	// maxNamespace limits a namespace, which is a short name.
	maxNamespace = 256
)

// Flags of a security key's signature (FIDO CTAP2, authenticator data).
const (
	flagUserPresent  = 0x01
	flagUserVerified = 0x04
)

// Signature is a parsed SSHSIG. What it says is believed only after Verify.
type Signature struct {
	Key       PublicKey
	Namespace string
	Hash      string // "sha256" or "sha512": how the message was hashed
	Algorithm string // of the signature, as SSH names it: "ssh-ed25519", "rsa-sha2-512"
	// Hardware says that the key is that of a security key; only then the other two mean something: somebody touched
	// it, and it also asked for a PIN or a finger.
	Hardware, UserPresent, UserVerified bool

	parsed *format.Signature
}

// Parse reads an armoured signature. It refuses everything but the one encoding of a signature by a usable key.
func Parse(armoured []byte) (*Signature, error) {
	blob, err := dearmour(armoured)
	if err != nil {
		return nil, err
	}
	return parseBlob(blob)
}

// parseBlob reads the binary form. The key is looked at first: its kind decides what the rest may be.
func parseBlob(blob []byte) (*Signature, error) {
	var head struct {
		Magic     [6]byte
		Version   uint32
		PublicKey []byte
		Rest      []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(blob, &head); err != nil || string(head.Magic[:]) != "SSHSIG" {
		return nil, badSignature("it does not start with SSHSIG, a version and a key")
	}
	if head.Version != 1 {
		return nil, badSignature(fmt.Sprintf("its version is %d, want 1", head.Version))
	}
	key, bad := newPublicKey(head.PublicKey)
	if bad != nil {
		return nil, bad
	}
	parsed, err := format.ParseSignature(blob)
	if err != nil {
		return nil, badSignature(strings.TrimPrefix(err.Error(), "ssh: "))
	}
	// Marshal leaves the reserved field empty, as the format wants it, and writes no trailing bytes.
	if !bytes.Equal(parsed.Marshal(), blob) {
		return nil, badSignature("it is not in its canonical encoding, or has bytes behind its end")
	}
	if err := checkNamespace(parsed.Namespace); err != nil {
		return nil, err
	}
	s := &Signature{Key: key, Namespace: parsed.Namespace, Hash: parsed.HashAlgorithm.String(),
		Algorithm: parsed.Signature.Format, Hardware: key.Hardware(), parsed: parsed}
	if err := s.checkEncoding(); err != nil {
		return nil, err
	}
	return s, nil
}

// checkEncoding refuses other encodings of the same signature, and reads the flags of a security key. The algorithm
// must be the key's own; for RSA, one of the two with SHA-2.
func (s *Signature) checkEncoding() error {
	sig := s.parsed.Signature
	algorithms := []string{s.Key.Type()}
	if s.Key.Type() == ssh.KeyAlgoRSA {
		algorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	if sig.Format != algorithms[0] && sig.Format != algorithms[len(algorithms)-1] {
		return diag.Errorf(Algorithm, "", "the signature algorithm is %q, want %s for a key of type %s",
			clip(sig.Format), strings.Join(algorithms, " or "), s.Key.Type())
	}
	if s.Hardware {
		var touch struct {
			Flags   byte
			Counter uint32
		}
		if err := ssh.Unmarshal(sig.Rest, &touch); err != nil {
			return badSignature("it has no flags and counter of a security key")
		}
		s.UserPresent, s.UserVerified = touch.Flags&flagUserPresent != 0, touch.Flags&flagUserVerified != 0
	} else if len(sig.Rest) != 0 {
		return badSignature("it has bytes behind its end")
	}
	switch s.Key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519:
		if len(sig.Blob) != 64 {
			return badSignature(fmt.Sprintf("an Ed25519 signature has 64 bytes, this one %d", len(sig.Blob)))
		}
	case ssh.KeyAlgoRSA:
		if want := (s.Key.Bits() + 7) / 8; len(sig.Blob) != want {
			return badSignature(fmt.Sprintf("an RSA signature by this key has %d bytes, this one %d", want, len(sig.Blob)))
		}
	default:
		if _, _, err := parseECDSA(sig.Blob); err != nil {
			return err
		}
	}
	return nil
}

// parseECDSA reads the two numbers of an ECDSA signature: positive, each in its shortest form.
func parseECDSA(blob []byte) (r, s *big.Int, err error) {
	var numbers struct{ R, S *big.Int }
	if err := ssh.Unmarshal(blob, &numbers); err != nil || numbers.R.Sign() <= 0 || numbers.S.Sign() <= 0 ||
		!bytes.Equal(ssh.Marshal(numbers), blob) {
		return nil, nil, badSignature("its ECDSA numbers are malformed")
	}
	return numbers.R, numbers.S, nil
}

// Verify checks that the key of the signature signed message under namespace, and, for a security key, that somebody
// touched it. It says nothing about whose key that is.
func (s *Signature) Verify(namespace string, message []byte) error {
	if s.Namespace != namespace {
		return diag.Errorf(Namespace, "sign again, for this purpose", "the signature was made for the namespace %q, want %q",
			clip(s.Namespace), namespace)
	}
	if s.Hardware && !s.UserPresent {
		return diag.Errorf(NoTouch, "sign again and touch the key; do not use keys made with no-touch-required",
			"the security key %s signed without being touched", s.Key.Fingerprint())
	}
	err := format.Verify(bytes.NewReader(message), s.parsed, s.Key.key, s.parsed.HashAlgorithm, namespace)
	if err != nil {
		return diag.Errorf(Mismatch, "the signed bytes or the signature were changed after signing",
			"the signature by %s does not fit these bytes", describe(s.Key))
	}
	return nil
}

// seal makes an armoured signature with a key of package ssh, and checks it before it leaves: an agent may answer
// with another algorithm, or sign without a touch.
func seal(signer ssh.Signer, namespace string, message []byte) ([]byte, error) {
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	made, err := format.Sign(bytes.NewReader(message), signer, format.HashSHA512, namespace)
	if err != nil {
		return nil, err
	}
	s, err := parseBlob(made.Marshal())
	if err != nil {
		return nil, err
	}
	if err := s.Verify(namespace, message); err != nil {
		return nil, err
	}
	return armour(made.Marshal()), nil
}

func checkNamespace(namespace string) error {
	if namespace == "" || len(namespace) > maxNamespace || !utf8.ValidString(namespace) ||
		strings.ContainsFunc(namespace, func(r rune) bool { return !strconv.IsGraphic(r) }) {
		return badSignature(fmt.Sprintf("its namespace %q is empty, too long or not printable", clip(namespace)))
	}
	return nil
}

func badSignature(what string) error {
	return diag.Errorf(BadSignature, "signatures are made by gpu-proof sign or ssh-keygen -Y sign",
		"this is no SSH signature: %s", what)
}

// armour writes a signature as ssh-keygen does.
func armour(blob []byte) []byte {
	text := base64.StdEncoding.EncodeToString(blob)
	var b bytes.Buffer
	b.WriteString(beginLine + "\n")
	for len(text) > 0 {
		n := min(armourColumns, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString(endLine + "\n")
	return b.Bytes()
}

// dearmour reads the text between the two marker lines. Line ends may be those of DOS, and lines may have any width;
// nothing may stand before or behind.
func dearmour(b []byte) ([]byte, error) {
	if len(b) > maxArmoured {
		return nil, badSignature(fmt.Sprintf("it has %d bytes, more than the %d that are read", len(b), maxArmoured))
	}
	text, found := strings.CutPrefix(string(b), beginLine)
	if !found {
		return nil, badSignature("it does not start with " + beginLine)
	}
	body, behind, found := strings.Cut(text, "\n"+endLine)
	if !found {
		return nil, badSignature("it does not end with " + endLine)
	}
	if strings.Trim(behind, " \t\r\n") != "" {
		return nil, badSignature("there is text behind its end")
	}
	body = strings.NewReplacer("\r", "", "\n", "", " ", "", "\t", "").Replace(body)
	blob, err := decodeBase64(body)
	if err != nil {
		return nil, badSignature("what stands between its marker lines is not base64")
	}
	return blob, nil
}

// This file implements the tests of signatures that were tampered with, and of the vectors.

package sshsig

import (
	"bytes"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	format "github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gpuemu/internal/diag"
)

const vectors = "../../testdata/vectors/gpu-proof"

func readVector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sealAnyway signs without the checks that seal makes.
func sealAnyway(t testing.TB, signer ssh.Signer, message []byte) []byte {
	t.Helper()
	made, err := format.Sign(bytes.NewReader(message), signer, format.HashSHA512, testNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return armour(made.Marshal())
}

// TestVectors: the signatures that OpenSSH 9.2 made, or found good, and who may make them.
func TestVectors(t *testing.T) {
	message := readVector(t, "sshsig/message.bin")
	allowed, err := ParseAllowedSigners("allowed_signers", readVector(t, "sshsig/allowed_signers"))
	if err != nil || len(allowed.Faults) > 0 {
		t.Fatal(err, allowed.Faults)
	}
	expired, err := ParseAllowedSigners("allowed_signers.expired", readVector(t, "sshsig/allowed_signers.expired"))
	if err != nil || len(expired.Faults) > 0 {
		t.Fatal(err, expired.Faults)
	}
	for _, tt := range []struct {
		file, principal string
		code            diag.Code
	}{
		{"ed25519", "ed25519@example", ""},
		{"ecdsa-p256", "ecdsa-p256@example", ""},
		{"rsa-3072", "rsa-3072@example", ""},
		{"sk-ed25519-up", "sk-ed25519-up@example", ""},
		{"sk-ed25519-no-touch", "sk-ed25519-no-touch@example", NoTouch},
	} {
		t.Run(tt.file, func(t *testing.T) {
			s, err := Parse(readVector(t, "sshsig/"+tt.file+".sshsig"))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Verify(testNamespace, message); diag.CodeOf(err) != tt.code {
				t.Errorf("Verify = %v, want code %q", err, tt.code)
			}
			now := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
			if got, err := allowed.Find(s.Key, testNamespace, now); got != tt.principal || err != nil {
				t.Errorf("Find = %q, %v, want %q", got, err, tt.principal)
			}
			if _, err := expired.Find(s.Key, testNamespace, now); diag.CodeOf(err) != NotAllowed {
				t.Errorf("Find in the expired file = %v, want %s", err, NotAllowed)
			}
			then := time.Date(2019, 6, 1, 0, 0, 0, 0, time.UTC)
			if err := expired.Permits(tt.principal, s.Key, testNamespace, then); err != nil {
				t.Errorf("Permits while it was valid = %v", err)
			}
			if !accepts(t, s.Key, readVector(t, "sshsig/"+tt.file+".sshsig"), message) {
				t.Error("ssh-keygen refuses the vector")
			}
		})
	}
}

// sigParts are the fields of a signature, for tests that change one of them.
type sigParts struct {
	Magic     [6]byte
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// TestTampered: every change to a signature is refused, also those that leave the same numbers in another encoding.
func TestTampered(t *testing.T) {
	message := []byte("a message")
	p256, ed, rsaKey := newKey(t, "p256"), newKey(t, "ed25519"), newKey(t, "rsa")
	for _, tt := range []struct {
		name   string
		key    ssh.Signer
		change func(p *sigParts, sig *ssh.Signature)
		code   diag.Code
	}{
		{"nothing", sshSigner(t, ed), func(*sigParts, *ssh.Signature) {}, ""},
		{"nothing, ECDSA", sshSigner(t, p256), func(*sigParts, *ssh.Signature) {}, ""},
		{"magic", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) { p.Magic[0] = 'X' }, BadSignature},
		{"version", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) { p.Version = 2 }, BadSignature},
		{"namespace", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) { p.Namespace = "git" }, Namespace},
		{"no namespace", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) { p.Namespace = "" }, BadSignature},
		{"reserved", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) { p.Reserved = "x" }, BadSignature},
		{"hash", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) { p.Hash = "sha256" }, Mismatch},
		{"SHA-1", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) { p.Hash = "sha1" }, BadSignature},
		{"a bit", sshSigner(t, ed), func(_ *sigParts, s *ssh.Signature) { s.Blob[7] ^= 1 }, Mismatch},
		{"a byte more", sshSigner(t, ed), func(_ *sigParts, s *ssh.Signature) { s.Rest = []byte{0} }, BadSignature},
		{"a longer signature", sshSigner(t, ed), func(_ *sigParts, s *ssh.Signature) { s.Blob = append(s.Blob, 0) },
			BadSignature},
		{"another algorithm", sshSigner(t, ed), func(_ *sigParts, s *ssh.Signature) { s.Format = ssh.KeyAlgoSKED25519 },
			Algorithm},
		{"webauthn", sshSigner(t, p256), func(_ *sigParts, s *ssh.Signature) {
			s.Format = "webauthn-" + ssh.KeyAlgoSKECDSA256
		}, Algorithm},
		{"RSA with SHA-1", sshSigner(t, rsaKey), func(_ *sigParts, s *ssh.Signature) { s.Format = "ssh-rsa" }, BadSignature},
		{"RSA without its first byte", sshSigner(t, rsaKey), func(_ *sigParts, s *ssh.Signature) { s.Blob = s.Blob[1:] },
			BadSignature},
		{"ECDSA with a leading zero", sshSigner(t, p256), func(_ *sigParts, s *ssh.Signature) {
			var n struct{ R, S []byte }
			if err := ssh.Unmarshal(s.Blob, &n); err != nil {
				t.Fatal(err)
			}
			n.R = append([]byte{0}, n.R...)
			s.Blob = ssh.Marshal(n)
		}, BadSignature},
		{"ECDSA negative", sshSigner(t, p256), func(_ *sigParts, s *ssh.Signature) {
			s.Blob = ssh.Marshal(struct{ R, S *big.Int }{big.NewInt(-5), big.NewInt(5)})
		}, BadSignature},
		{"ECDSA zero", sshSigner(t, p256), func(_ *sigParts, s *ssh.Signature) {
			s.Blob = ssh.Marshal(struct{ R, S *big.Int }{new(big.Int), new(big.Int)})
		}, BadSignature},
		{"a touch more", &softSecurityKey{ed, 1, 7}, func(_ *sigParts, s *ssh.Signature) { s.Rest = append(s.Rest, 1) },
			BadSignature},
		{"a touch that was not", &softSecurityKey{ed, 0, 7}, func(_ *sigParts, s *ssh.Signature) { s.Rest[0] = 1 }, Mismatch},
		{"another counter", &softSecurityKey{ed, 1, 7}, func(_ *sigParts, s *ssh.Signature) { s.Rest[4]++ }, Mismatch},
		{"no flags", &softSecurityKey{ed, 1, 7}, func(_ *sigParts, s *ssh.Signature) { s.Rest = nil }, BadSignature},
		{"another key", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) {
			p.PublicKey = sshPublic(t, newKey(t, "ed25519")).Marshal()
		}, Mismatch},
		{"a weak key", sshSigner(t, rsaKey), func(p *sigParts, _ *ssh.Signature) {
			p.PublicKey = sshPublic(t, newKey(t, "rsa1024")).Marshal()
		}, WeakKey},
		{"DSA", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) {
			p.PublicKey = ssh.Marshal(struct{ T string }{"ssh-dss"})
		}, WeakKey},
		{"a certificate", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) {
			p.PublicKey = ssh.Marshal(struct{ T string }{ssh.CertAlgoED25519v01})
		}, UnsupportedKey},
		{"an unknown key", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) {
			p.PublicKey = ssh.Marshal(struct{ T string }{"ssh-mldsa-44"})
		}, UnsupportedKey},
		{"another encoding of the key", sshSigner(t, rsaKey), func(p *sigParts, _ *ssh.Signature) {
			p.PublicKey = zeroBeforeModulus(t, p.PublicKey)
		}, BadKey},
		{"bytes behind the key", sshSigner(t, ed), func(p *sigParts, _ *ssh.Signature) {
			p.PublicKey = append(p.PublicKey, 0)
		}, BadKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blob, _ := pem.Decode(sealAnyway(t, tt.key, message))
			var parts sigParts
			var sig ssh.Signature
			if err := ssh.Unmarshal(blob.Bytes, &parts); err != nil {
				t.Fatal(err)
			}
			if err := ssh.Unmarshal(parts.Signature, &sig); err != nil {
				t.Fatal(err)
			}
			tt.change(&parts, &sig)
			parts.Signature = ssh.Marshal(sig)
			s, err := Parse(armour(ssh.Marshal(parts)))
			if err == nil {
				err = s.Verify(testNamespace, message)
			}
			if diag.CodeOf(err) != tt.code {
				t.Errorf("got %v, want code %q", err, tt.code)
			}
		})
	}
}

// zeroBeforeModulus is another encoding of the same RSA key.
func zeroBeforeModulus(t *testing.T, blob []byte) []byte {
	t.Helper()
	var k struct {
		Type string
		E, N []byte
	}
	if err := ssh.Unmarshal(blob, &k); err != nil {
		t.Fatal(err)
	}
	k.N = append([]byte{0}, k.N...)
	return ssh.Marshal(k)
}

// TestArmour: the text around a signature has one meaning.
func TestArmour(t *testing.T) {
	good := string(readVector(t, "sshsig/ed25519.sshsig"))
	lines := strings.Split(strings.TrimSpace(good), "\n")
	body := strings.Join(lines[1:len(lines)-1], "\n")
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"as it is", good, true},
		{"DOS line ends", strings.ReplaceAll(good, "\n", "\r\n"), true},
		{"no last newline", strings.TrimSpace(good), true},
		{"one line", beginLine + "\n" + strings.ReplaceAll(body, "\n", "") + "\n" + endLine, true},
		{"empty", "", false},
		{"text before", "x\n" + good, false},
		{"text behind", good + "x", false},
		{"two signatures", good + good, false},
		{"a PEM header", strings.Replace(good, "\n", "\nKey: value\n\n", 1), false},
		{"no end", strings.TrimSuffix(good, endLine+"\n"), false},
		{"another end", strings.Replace(good, "END SSH", "END PGP", 1), false},
		{"junk in the base64", strings.Replace(good, "U1NI", "U1N*I", 1), false},
		{"bytes behind the signature", beginLine + "\n" + strings.TrimRight(body, "=") + "AAAA\n" + endLine, false},
		{"too large", good + strings.Repeat(" ", maxArmoured), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			if (err == nil) != tt.ok || err != nil && diag.CodeOf(err) != BadSignature {
				t.Errorf("Parse = %v, want accepted: %v", err, tt.ok)
			}
		})
	}
	blob, err := dearmour([]byte(good))
	if err != nil || string(armour(blob)) != good {
		t.Errorf("armour of OpenSSH's bytes = %q, want %q", armour(blob), good)
	}
}

// TestNamespaceOfSign: row B16. A signature is always for a purpose.
func TestNamespaceOfSign(t *testing.T) {
	s := signerOf(t, newKey(t, "ed25519"))
	for _, namespace := range []string{"", "a\nb", strings.Repeat("n", maxNamespace+1)} {
		if _, err := s.Sign(namespace, nil); diag.CodeOf(err) != BadSignature {
			t.Errorf("Sign(%q) = %v, want %s", namespace, err, BadSignature)
		}
	}
	armoured, err := s.Sign("file", []byte("m"))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := Parse(armoured)
	if err != nil {
		t.Fatal(err)
	}
	if err := sig.Verify("gpu-proof@gpuemu", []byte("m")); diag.CodeOf(err) != Namespace {
		t.Errorf("Verify for another purpose = %v, want %s", err, Namespace)
	}
	// The bytes under an SSHSIG are no receipt, and those of a receipt no SSHSIG: a raw signature does not pass as one.
	raw, algorithm, err := s.SignRaw([]byte("m"))
	if err != nil || VerifyRaw(s.PublicKey(), algorithm, []byte("m"), raw) != nil {
		t.Fatal(err)
	}
	if bytes.Equal(raw, sig.parsed.Signature.Blob) {
		t.Error("the raw signature equals the one under a namespace")
	}
}

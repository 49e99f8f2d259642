// This file implements the tests of the raw signatures of pytest-gpu-proof's receipts.

package sshsig

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// signatureMember is the member "signature" of a compact receipt. Its values have no braces.
var signatureMember = regexp.MustCompile(`"signature":({[^{}]*}|null),?`)

// signedBytes are the bytes that the original signed, from a receipt as it writes one: sorted and ASCII already, so
// that only blanks and the signature have to go. It is a second way to them, beside package receipt's.
func signedBytes(t *testing.T, file []byte) (signed []byte, signature map[string]string) {
	t.Helper()
	var compact strings.Builder
	quoted := false
	for i, c := range file {
		if c == '"' && (i == 0 || file[i-1] != '\\' || i > 1 && file[i-2] == '\\') {
			quoted = !quoted
		}
		if quoted || c != ' ' && c != '\n' {
			compact.WriteByte(c)
		}
	}
	text := compact.String()
	found := signatureMember.FindStringSubmatch(text)
	if found == nil {
		t.Fatal("the receipt has no signature")
	}
	if err := json.Unmarshal([]byte(found[1]), &signature); err != nil {
		t.Fatal(err)
	}
	return []byte(strings.Replace(text, found[0], "", 1)), signature
}

// TestRawVectors: every signed receipt that the original made verifies with the key of its signer, and with no other.
func TestRawVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vectors, "receipts", "*.json"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d receipts, %v", len(files), err)
	}
	if got, _ := signedBytes(t, readVector(t, "receipts/own-ed25519.json")); string(got) !=
		string(readVector(t, "canonical/own-ed25519.signed-bytes")) {
		t.Fatalf("the test's canonical bytes are %s", got)
	}
	other := signerOf(t, newKey(t, "ed25519")).PublicKey()
	signedOnes := 0
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			message, s := signedBytes(t, readVector(t, "receipts/"+filepath.Base(file)))
			if s == nil {
				return
			}
			signedOnes++
			keys, unusable := ParsePublicKeys(s["signer"], readVector(t, "keys/"+s["signer"]+".keys"))
			if len(keys) != 1 || len(unusable) != 0 {
				t.Fatalf("%d keys, %v", len(keys), unusable)
			}
			sig, err := ParseRaw(s["value"])
			if err != nil {
				t.Fatal(err)
			}
			if err := VerifyRaw(keys[0], s["algorithm"], message, sig); err != nil {
				t.Errorf("VerifyRaw = %v", err)
			}
			if keys[0].Fingerprint() != s["key_fingerprint"] {
				t.Errorf("Fingerprint() = %s, want %s", keys[0].Fingerprint(), s["key_fingerprint"])
			}
			if err := VerifyRaw(keys[0], s["algorithm"], append(message, ' '), sig); diag.CodeOf(err) != Mismatch {
				t.Errorf("VerifyRaw of other bytes = %v, want %s", err, Mismatch)
			}
			if err := VerifyRaw(other, RawEd25519, message, sig); diag.CodeOf(err) != Mismatch {
				t.Errorf("VerifyRaw with another key = %v, want %s", err, Mismatch)
			}
		})
	}
	if signedOnes < 10 {
		t.Errorf("%d signed receipts, want at least 10", signedOnes)
	}
}

// TestRawRoundTrip: what we sign raw with each kind of key, we verify, under the name of its own algorithm only.
func TestRawRoundTrip(t *testing.T) {
	message := []byte(`{"schema_version":"1"}`)
	for _, tt := range []struct{ kind, algorithm string }{
		{"ed25519", RawEd25519}, {"p256", RawECDSA}, {"p384", RawECDSA}, {"p521", RawECDSA}, {"rsa", RawRSA},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			signer := signerOf(t, newKey(t, tt.kind))
			sig, algorithm, err := signer.SignRaw(message)
			if err != nil || algorithm != tt.algorithm {
				t.Fatalf("SignRaw: %s, %v, want %s", algorithm, err, tt.algorithm)
			}
			for _, name := range []string{RawEd25519, RawECDSA, RawRSA, "", "none", "ED25519"} {
				want := Algorithm
				if name == tt.algorithm {
					want = ""
				}
				if err := VerifyRaw(signer.PublicKey(), name, message, sig); diag.CodeOf(err) != want {
					t.Errorf("VerifyRaw(%q) = %v, want code %q", name, err, want)
				}
			}
			for _, bad := range [][]byte{nil, sig[1:], append(sig, 0), append([]byte{0}, sig...)} {
				if err := VerifyRaw(signer.PublicKey(), algorithm, message, bad); diag.CodeOf(err) != Mismatch {
					t.Errorf("VerifyRaw of %d bytes = %v, want %s", len(bad), err, Mismatch)
				}
			}
		})
	}
	if err := VerifyRaw(PublicKey{}, RawEd25519, message, nil); diag.CodeOf(err) != BadKey {
		t.Errorf("VerifyRaw without a key = %v, want %s", err, BadKey)
	}
}

// TestRawSalt: the original makes and demands the longest salt: 222 bytes with 2048 bits (spec of the format).
func TestRawSalt(t *testing.T) {
	key, message := newKey(t, "rsa").(*rsa.PrivateKey), []byte("m")
	digest := sha256.Sum256(message)
	for _, salt := range []int{1, 32, 221, 222} {
		sig, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, digest[:], &rsa.PSSOptions{SaltLength: salt})
		if err != nil {
			t.Fatal(err)
		}
		want := Mismatch
		if salt == 222 {
			want = ""
		}
		if err := VerifyRaw(signerOf(t, key).PublicKey(), RawRSA, message, sig); diag.CodeOf(err) != want {
			t.Errorf("salt of %d bytes: %v, want code %q", salt, err, want)
		}
	}
	sig, _, err := signerOf(t, key).SignRaw(message)
	if err != nil {
		t.Fatal(err)
	}
	if err := rsa.VerifyPSS(&key.PublicKey, crypto.SHA256, digest[:], sig, &rsa.PSSOptions{SaltLength: 222}); err != nil {
		t.Errorf("our signature with a salt of 222 bytes: %v", err)
	}
	for bits, want := range map[int]int{2048: 222, 3072: 350, 4096: 478, 2049: 222, 2050: 223} {
		pub := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), uint(bits-1))}
		if got := pssOptions(pub).SaltLength; got != want {
			t.Errorf("the salt for %d bits has %d bytes, want %d", bits, got, want)
		}
	}
}

// TestParseRaw: one signature has one spelling. The original drops what is not base64 (its vector b64-junk).
func TestParseRaw(t *testing.T) {
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{"AAAA", true}, {"AA==", true}, {"", false}, {"AA", false}, {"AA=", false}, {"AAAA\n", false}, {"AA AA", false},
		{"AA*AA", false}, {"AAA_", false}, {"AB==", false}, {"AAAA====", false}, {strings.Repeat("AAAA", 1025), false},
	} {
		if _, err := ParseRaw(tt.text); (err == nil) != tt.ok || err != nil && diag.CodeOf(err) != BadSignature {
			t.Errorf("ParseRaw(%.20q) = %v, want accepted: %v", tt.text, err, tt.ok)
		}
	}
}

// This file implements the raw signatures of pytest-gpu-proof's receipts (schemas 1 to 3): over bytes without a
// namespace, by the key's own primitive. They are weaker than SSHSIG, because nothing says what was signed for, and are
// made and read for compatibility alone.

package sshsig

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/asn1"
	"errors"
	"math/big"

	"gpuemu/internal/diag"
)

// The names of the raw algorithms, as receipts spell them.
const (
	RawEd25519 = "ed25519"
	RawECDSA   = "ecdsa-sha256"   // SHA-256 on every curve; ASN.1 DER
	RawRSA     = "rsa-pss-sha256" // MGF1 with SHA-256, salt of maximal length
)

// maxRaw limits the text of a raw signature: that of an RSA key of 16384 bits has 2732 characters.
const maxRaw = 4096

// ParseRaw decodes the value of a raw signature: padded standard base64 and nothing else. The original skips
// characters that are not base64, so that one signature has many spellings; that is not done here.
func ParseRaw(value string) ([]byte, error) {
	if value == "" || len(value) > maxRaw {
		return nil, diag.Errorf(BadSignature, "", "the signature has %d characters, want 1 to %d", len(value), maxRaw)
	}
	sig, err := decodeBase64(value)
	if err != nil {
		return nil, diag.Errorf(BadSignature, "sign again: the signature's text was changed after signing",
			"the signature is not base64 in its one form: %w", err)
	}
	return sig, nil
}

// RawAlgorithm returns the name of the key's raw algorithm; "" for the keys of security keys, which have none.
func (k PublicKey) RawAlgorithm() string {
	if k.Hardware() {
		return ""
	}
	switch cryptoKey(k.key).(type) {
	case ed25519.PublicKey:
		return RawEd25519
	case *ecdsa.PublicKey:
		return RawECDSA
	case *rsa.PublicKey:
		return RawRSA
	}
	return ""
}

// VerifyRaw checks a raw signature. The algorithm is the one the receipt names; it must be that of the key. Security
// keys never make raw signatures: one that looks as if it were by such a key was made by somebody who copied its
// private part, or was never touched.
func VerifyRaw(key PublicKey, algorithm string, message, sig []byte) error {
	if key.IsZero() {
		return diag.Errorf(BadKey, "", "there is no key to check the signature with")
	}
	want := key.RawAlgorithm()
	if want == "" {
		return diag.Errorf(UnsupportedRaw, "sign a receipt of the current format",
			"keys of type %s make no raw signatures", key.Type())
	}
	if algorithm != want {
		return diag.Errorf(Algorithm, "", "the receipt says the algorithm is %q, the key of type %s has %q",
			clip(algorithm), key.Type(), want)
	}
	if !fitsRaw(cryptoKey(key.key), message, sig) {
		return diag.Errorf(Mismatch, "the signed bytes or the signature were changed after signing",
			"the signature is not by %s over these bytes", describe(key))
	}
	return nil
}

func fitsRaw(pub crypto.PublicKey, message, sig []byte) bool {
	digest := sha256.Sum256(message)
	switch pub := pub.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(pub, message, sig)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(pub, digest[:], sig)
	case *rsa.PublicKey:
		return rsa.VerifyPSS(pub, crypto.SHA256, digest[:], sig, pssOptions(pub)) == nil
	}
	return false
}

// pssOptions asks for the salt that the original makes and demands: as long as it can be (RFC 8017, 9.1.1: the encoded
// message has ceil((bits-1)/8) bytes, of which the hash takes 32 and two are fixed).
func pssOptions(pub *rsa.PublicKey) *rsa.PSSOptions {
	return &rsa.PSSOptions{SaltLength: (pub.N.BitLen()-1+7)/8 - sha256.Size - 2, Hash: crypto.SHA256}
}

// signRaw signs with a private key that is at hand.
func signRaw(signer crypto.Signer, message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	switch pub := signer.Public().(type) {
	case ed25519.PublicKey:
		return signer.Sign(rand.Reader, message, crypto.Hash(0))
	case *rsa.PublicKey:
		return signer.Sign(rand.Reader, digest[:], pssOptions(pub))
	case *ecdsa.PublicKey:
		return signer.Sign(rand.Reader, digest[:], crypto.SHA256)
	}
	return nil, errors.New("the key has no raw signature")
}

// derECDSA writes an ECDSA signature as receipts have it, ASN.1 DER, from the form that SSH has.
func derECDSA(blob []byte) ([]byte, error) {
	r, s, err := parseECDSA(blob)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(struct{ R, S *big.Int }{r, s})
}

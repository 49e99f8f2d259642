// This file implements public keys: their lines, which kinds of them are used, and why others are not.

package sshsig

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
)

const (
	// minRSABits is what NIST SP 800-131A and OpenSSH's own RequiredRSASize take for the least RSA key of today.
	minRSABits = 2048
	// maxKeyFile limits a list of public keys and a private key file: a forge's largest accounts have some hundred
	// keys of under 1 KiB each.
	maxKeyFile = 1 << 20
	// maxKeys limits the keys of one list: each of them may have to be tried on a raw signature.
	maxKeys = 1000
)

// PublicKey is a usable public key: of a supported kind and strong enough. The zero value is no key.
type PublicKey struct {
	// Comment is what follows the key on its line, without control characters. Nothing vouches for it.
	Comment string
	// Origin says where the key was found, for messages: "authentication key", "signing key". It may be empty.
	Origin string

	key ssh.PublicKey
}

// IsZero reports whether k is no key.
func (k PublicKey) IsZero() bool { return k.key == nil }

// Type returns the key's type as OpenSSH names it, for example "ssh-ed25519".
func (k PublicKey) Type() string {
	if k.key == nil {
		return ""
	}
	return k.key.Type()
}

// Bits returns the size of an RSA key, and 0 for the others, whose type says it.
func (k PublicKey) Bits() int {
	if pub, ok := cryptoKey(k.key).(*rsa.PublicKey); ok {
		return pub.N.BitLen()
	}
	return 0
}

// Hardware reports whether the key lives in a FIDO security key.
func (k PublicKey) Hardware() bool { return isSecurityKey(k.Type()) }

// Fingerprint returns "SHA256:" and the unpadded base64 of the SHA-256 of the key, as ssh-keygen -l prints it.
func (k PublicKey) Fingerprint() string {
	if k.key == nil {
		return ""
	}
	return ssh.FingerprintSHA256(k.key)
}

// String returns the key as a line of authorized_keys, without comment and newline.
func (k PublicKey) String() string {
	if k.key == nil {
		return ""
	}
	return k.key.Type() + " " + base64.StdEncoding.EncodeToString(k.key.Marshal())
}

// Equal reports whether both are the same key, whatever their comments and origins.
func (k PublicKey) Equal(other PublicKey) bool {
	return k.key != nil && other.key != nil && bytes.Equal(k.key.Marshal(), other.key.Marshal())
}

// ParsePublicKeys reads the lines of a USER.keys or .pub file: keys with an optional comment. The lines that cannot
// be used are named in unusable, each with its place, and are not among the keys. A key that stands there twice is
// returned once.
func ParsePublicKeys(file string, b []byte) (keys []PublicKey, unusable []error) {
	if len(b) > maxKeyFile {
		return nil, []error{diag.Errorf(BadKeyFile, "a list of keys has one line a key",
			"the list has %d bytes, more than the %d that are read", len(b), maxKeyFile).At(diag.Pos{File: file})}
	}
	seen := map[string]bool{}
	number := 0
	for line := range bytes.Lines(b) {
		number++
		text := strings.Trim(string(line), " \t\r\n")
		if text == "" || text[0] == '#' {
			continue
		}
		pos := diag.Pos{File: file, Line: number}
		key, err := parseKeyLine(text)
		switch {
		case err != nil:
			unusable = append(unusable, err.At(pos))
		case seen[key.String()]:
		case len(keys) == maxKeys:
			unusable = append(unusable, diag.Errorf(BadKeyFile, "remove the keys that nobody uses",
				"the list has more than %d keys; this and the following ones are not used", maxKeys).At(pos))
			return keys, unusable
		default:
			seen[key.String()] = true
			keys = append(keys, key)
		}
	}
	return keys, unusable
}

// ParsePublicKey reads one line: a type, base64, an optional comment. Options before the key are not allowed.
func ParsePublicKey(line string) (PublicKey, error) {
	key, err := parseKeyLine(strings.Trim(line, " \t\r\n"))
	if err != nil {
		return PublicKey{}, err
	}
	return key, nil
}

// parseKeyLine reads "type base64 comment".
func parseKeyLine(text string) (PublicKey, *diag.Error) {
	typ, rest := cutBlank(text)
	encoded, comment := cutBlank(rest)
	if encoded == "" {
		return PublicKey{}, diag.Errorf(BadKey, "a key has a type, base64 and perhaps a comment",
			"%q is not a public key", clip(text))
	}
	if err := checkType(typ); err != nil {
		return PublicKey{}, err
	}
	blob, err := decodeBase64(encoded)
	if err != nil {
		return PublicKey{}, diag.Errorf(BadKey, "copy the whole line of the .pub file", "the %s key is not base64", typ)
	}
	key, bad := newPublicKey(blob)
	if bad != nil {
		return PublicKey{}, bad
	}
	if key.Type() != typ {
		return PublicKey{}, diag.Errorf(BadKey, "copy the whole line of the .pub file",
			"the line says %s, the key in it is of type %s", typ, key.Type())
	}
	key.Comment = escape.Text(comment)
	return key, nil
}

// newPublicKey makes a key of its wire form, and refuses what is not supported, too weak, or not in its one encoding.
func newPublicKey(blob []byte) (PublicKey, *diag.Error) {
	var head struct {
		Type string
		Rest []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(blob, &head); err != nil {
		return PublicKey{}, diag.Errorf(BadKey, "copy the whole line of the .pub file", "the key is cut short")
	}
	if err := checkType(head.Type); err != nil {
		return PublicKey{}, err
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return PublicKey{}, diag.Errorf(BadKey, "copy the whole line of the .pub file",
			"the %s key is malformed: %s", head.Type, strings.TrimPrefix(err.Error(), "ssh: "))
	}
	return usableKey(key, blob)
}

// usableKey checks the strength of a parsed key and that blob is its one encoding. A second encoding of a key would
// have a second fingerprint, and could stand for the key where fingerprints are compared.
func usableKey(key ssh.PublicKey, blob []byte) (PublicKey, *diag.Error) {
	if err := checkType(key.Type()); err != nil {
		return PublicKey{}, err
	}
	if !bytes.Equal(key.Marshal(), blob) {
		return PublicKey{}, diag.Errorf(BadKey, "make the key's line anew with ssh-keygen -y",
			"the %s key is not in its canonical encoding", key.Type())
	}
	if pub, ok := cryptoKey(key).(*rsa.PublicKey); ok {
		if bits := pub.N.BitLen(); bits < minRSABits {
			return PublicKey{}, diag.Errorf(WeakKey, "make a new key: ssh-keygen -t ed25519",
				"the RSA key %s has %d bits, fewer than the %d that are needed", ssh.FingerprintSHA256(key), bits,
				minRSABits)
		}
	}
	return PublicKey{key: key}, nil
}

// checkType refuses, by name, the types of keys that are not used.
func checkType(typ string) *diag.Error {
	const renew = "make a new key: ssh-keygen -t ed25519"
	switch typ {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA,
		ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return nil
	case "ssh-dss":
		return diag.Errorf(WeakKey, renew, "DSA keys (ssh-dss) are too weak")
	}
	if strings.Contains(typ, "-cert-v") {
		return diag.Errorf(UnsupportedKey, "use the plain key instead of its certificate",
			"%q is a certificate, and certificates are not supported", clip(typ))
	}
	return diag.Errorf(UnsupportedKey,
		"supported are ed25519, ECDSA P-256, P-384 and P-521, RSA of at least 2048 bits and their sk- forms",
		"%q is not a supported type of key", clip(typ))
}

func isSecurityKey(typ string) bool {
	return typ == ssh.KeyAlgoSKED25519 || typ == ssh.KeyAlgoSKECDSA256
}

// cryptoKey returns the key inside, for the packages under crypto; nil when there is none.
func cryptoKey(key ssh.PublicKey) crypto.PublicKey {
	if k, ok := key.(ssh.CryptoPublicKey); ok {
		return k.CryptoPublicKey()
	}
	return nil
}

// cutBlank cuts a line at its first run of blanks and tabs.
func cutBlank(s string) (first, rest string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

// decodeBase64 decodes padded standard base64 in its one form: no line ends, no junk, no stray bits at the end. The
// decoder of the standard library skips line ends, so they are refused here.
func decodeBase64(s string) ([]byte, error) {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return nil, base64.CorruptInputError(i)
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}

// clip shortens text from outside for a message that quotes it.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// describe names a key in a message.
func describe(k PublicKey) string {
	if k.Comment == "" {
		return fmt.Sprintf("%s %s", k.Type(), k.Fingerprint())
	}
	return fmt.Sprintf("%s %s (%s)", k.Type(), k.Fingerprint(), clip(k.Comment))
}

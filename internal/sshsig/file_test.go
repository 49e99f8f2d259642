// This file implements the tests of key files and of the search for one.

package sshsig

import (
	"bytes"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"gpuemu/internal/diag"
)

// TestKeyFormats: the forms in which ssh-keygen writes private keys, with and without a passphrase, give the same key.
func TestKeyFormats(t *testing.T) {
	for _, tt := range []struct {
		name, typ, passphrase string
		more                  []string
		code                  diag.Code
	}{
		{"OpenSSH with passphrase", "ed25519", "secret", []string{"-a", "1"}, ""},
		{"OpenSSH, ECDSA with passphrase", "ecdsa", "secret", []string{"-a", "1"}, ""},
		{"PEM, RSA", "rsa", "", []string{"-m", "PEM"}, ""},
		{"PEM, RSA with passphrase", "rsa", "secret", []string{"-m", "PEM"}, ""},
		{"PEM, ECDSA", "ecdsa", "", []string{"-m", "PEM"}, ""},
		{"PEM, ECDSA with passphrase", "ecdsa", "secret", []string{"-m", "PEM"}, ""},
		{"PKCS8, ECDSA", "ecdsa", "", []string{"-m", "PKCS8"}, ""},
		{"PKCS8, RSA", "rsa", "", []string{"-m", "PKCS8"}, ""},
		{"PKCS8 with passphrase", "ecdsa", "secret", []string{"-m", "PKCS8"}, BadKeyFile},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "key")
			bits := ""
			if tt.typ == "rsa" {
				bits = "2048"
			}
			makeKey(t, path, tt.typ, bits, tt.passphrase, tt.more...)
			asked := 0
			secret := []byte(tt.passphrase)
			signer, err := FileSigner(path, func(prompt string) ([]byte, error) {
				asked++
				if !strings.Contains(prompt, path) {
					t.Errorf("the prompt is %q, want the path in it", prompt)
				}
				return secret, nil
			})
			if diag.CodeOf(err) != tt.code {
				t.Fatalf("FileSigner = %v, want code %q", err, tt.code)
			}
			if err != nil {
				return
			}
			if want := len(tt.passphrase); asked != min(want, 1) || !bytes.Equal(secret, make([]byte, want)) {
				t.Errorf("asked %d times, and the passphrase is left as %q", asked, secret)
			}
			public, err := os.ReadFile(path + ".pub")
			if err != nil {
				t.Fatal(err)
			}
			if key, err := ParsePublicKey(string(public)); err != nil || !key.Equal(signer.PublicKey()) {
				t.Errorf("the key is %s, that of the .pub file %s (%v)", signer.PublicKey(), key, err)
			}
			armoured, err := signer.Sign(testNamespace, []byte("m"))
			if err != nil || !accepts(t, signer.PublicKey(), armoured, []byte("m")) {
				t.Errorf("Sign = %v, or ssh-keygen refuses it", err)
			}
		})
	}
}

// writePrivate writes a key in OpenSSH's format.
func writePrivate(t *testing.T, path, kind, passphrase string) {
	t.Helper()
	var block *pem.Block
	var err error
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(newKey(t, kind), kind)
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(newKey(t, kind), kind, []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, pem.EncodeToMemory(block))
}

// TestKeyFileFaults: what cannot be used says why, and what to do.
func TestKeyFileFaults(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	writePrivate(t, path("good"), "ed25519", "")
	writePrivate(t, path("locked"), "ed25519", "right")
	writePrivate(t, path("weak"), "rsa1024", "")
	writePrivate(t, path("weak-locked"), "rsa1024", "right")
	writePrivate(t, path("open"), "ed25519", "")
	if err := os.Chmod(path("open"), 0o644); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path("text"), []byte("hello"))
	writeFile(t, path("public"), []byte(signerOf(t, newKey(t, "ed25519")).PublicKey().String()+" me\n"))
	writeFile(t, path("alone.pub"), []byte(signerOf(t, newKey(t, "ed25519")).PublicKey().String()+" me\n"))
	writeFile(t, path("good.pub"), []byte(signerOf(t, newKey(t, "ed25519")).PublicKey().String()+" me\n"))
	writeFile(t, path("empty.pub"), nil)
	writeFile(t, path("dsa.pub"), []byte("ssh-dss AAAA me\n"))
	writeFile(t, path("cut"), []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"))
	writeFile(t, path("cert"), []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	writeFile(t, path("large"), make([]byte, maxKeyFile+1))
	handle := (&softSecurityKey{newKey(t, "ed25519"), 1, 0}).PublicKey()
	writeFile(t, path("handle"), pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY",
		Bytes: append([]byte("openssh-key-v1\x00"), ssh.Marshal(struct {
			Cipher, KDF, Options string
			Keys                 uint32
			Public               []byte
			Private              string
		}{"none", "none", "", 1, handle.Marshal(), "x"})...)}))
	say := func(text string, err error) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(text), err }
	}
	for _, tt := range []struct {
		file, text string
		ask        func(string) ([]byte, error)
		code       diag.Code
	}{
		{"missing", "no such key file", nil, NoKey},
		{"open", "can be read by others (mode 0644)", nil, KeyPermissions},
		{"locked", "no terminal", nil, Passphrase},
		{"locked", "passphrase is wrong", say("wrong", nil), Passphrase},
		{"locked", "no terminal here", say("", errors.New("no terminal here")), Passphrase},
		{"weak", "1024 bits", nil, WeakKey},
		{"weak-locked", "1024 bits", nil, WeakKey}, // before anybody is asked
		{"text", "neither in OpenSSH's", nil, BadKeyFile},
		{"public", "this is the public key ssh-ed25519", nil, BadKeyFile},
		{"alone.pub", "SSH_AUTH_SOCK is not set", nil, NoKey},
		{"good.pub", "not the public part of good beside it", nil, BadKeyFile},
		{"empty.pub", "0 public keys", nil, BadKeyFile},
		{"dsa.pub", "DSA", nil, WeakKey},
		{"cut", "not a usable key file", nil, BadKeyFile},
		{"cert", "not a usable key file", nil, BadKeyFile},
		{"large", "larger than", nil, BadKeyFile},
		{"handle", "through ssh-agent only", nil, UnsupportedKey},
		{".", "not a regular file", nil, BadKeyFile},
	} {
		t.Run(tt.file, func(t *testing.T) {
			_, err := FileSigner(path(tt.file), tt.ask)
			if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("FileSigner = %v, want %s with %q", err, tt.code, tt.text)
			}
			if err != nil && !strings.HasPrefix(err.Error(), dir) && tt.file != "alone.pub" {
				t.Errorf("FileSigner = %v, want the path in front", err)
			}
		})
	}
	if _, err := FileSigner(path("good"), nil); err != nil {
		t.Errorf("FileSigner of a good key = %v", err)
	}
}

// TestPassphraseAgain: a mistyped passphrase is asked for again, and not for ever.
func TestPassphraseAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locked")
	writePrivate(t, path, "ed25519", "right")
	for _, tt := range []struct {
		answers []string
		asked   int
		code    diag.Code
	}{
		{[]string{"right"}, 1, ""},
		{[]string{"wrong", "", "right"}, 3, ""},
		{[]string{"wrong", "wrong", "wrong", "right"}, 3, Passphrase},
	} {
		var prompts []string
		_, err := FileSigner(path, func(prompt string) ([]byte, error) {
			prompts = append(prompts, prompt)
			return []byte(tt.answers[len(prompts)-1]), nil
		})
		if diag.CodeOf(err) != tt.code || len(prompts) != tt.asked || prompts[0] != "Passphrase for "+path {
			t.Errorf("FileSigner with the answers %q = %v after %q, want %q after %d", tt.answers, err, prompts, tt.code,
				tt.asked)
		}
	}
}

// TestDefaultSigner: row A12. The key people have is found; that there is none is an error.
func TestDefaultSigner(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	check := func(name, configured, want string) {
		t.Helper()
		s, err := DefaultSigner(home, configured, nil)
		if err != nil {
			t.Errorf("%s: DefaultSigner = %v", name, err)
		} else if got := s.PublicKey().Type(); got != want {
			t.Errorf("%s: DefaultSigner has a key of type %s, want %s", name, got, want)
		}
	}
	for _, configured := range []string{"", "0xDEADBEEF", "~/nowhere"} {
		_, err := DefaultSigner(home, configured, nil)
		if diag.CodeOf(err) != NoKey || strings.Count(err.Error(), string(NoKey)) != 1 {
			t.Errorf("DefaultSigner(%q) without any key = %v, want %s", configured, err, NoKey)
		}
	}
	if _, err := DefaultSigner(home, "key::ssh-ed25519 AAAA", nil); diag.CodeOf(err) != BadKey {
		t.Errorf("DefaultSigner of a key that is none = %v, want %s", err, BadKey)
	}
	t.Chdir(home)
	writePrivate(t, filepath.Join(".ssh", "id_ecdsa"), "p256", "")
	if _, err := DefaultSigner("", "", nil); diag.CodeOf(err) != NoKey {
		t.Errorf("DefaultSigner without a home directory = %v, want %s", err, NoKey)
	}
	if err := os.Remove(filepath.Join(".ssh", "id_ecdsa")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSH_AUTH_SOCK", agentOf(t, "p521"))
	check("the agent's only key", "", ssh.KeyAlgoECDSA521)
	writePrivate(t, filepath.Join(home, ".ssh", "id_rsa"), "rsa", "")
	check("id_rsa", "0xDEADBEEF", ssh.KeyAlgoRSA)
	writePrivate(t, filepath.Join(home, ".ssh", "id_ed25519"), "ed25519", "")
	check("id_ed25519", "", ssh.KeyAlgoED25519)
	writePrivate(t, filepath.Join(home, "mine"), "p256", "")
	check("user.signingKey", "~/mine", ssh.KeyAlgoECDSA256)

	key := newKey(t, "p384")
	both := []ssh.Signer{sshSigner(t, key), sshSigner(t, newKey(t, "p256"))}
	t.Setenv("SSH_AUTH_SOCK", serveAgent(t, &testAgent{signers: both}))
	line := signerOf(t, key).PublicKey().String()
	check("user.signingKey with the key itself", "key::"+line+" me@example", ssh.KeyAlgoECDSA384)
	check("user.signingKey with the key itself, old form", line, ssh.KeyAlgoECDSA384)
	// A locked file whose key the agent has asks for nothing.
	writeFile(t, filepath.Join(home, ".ssh", "id_ed25519.pub"), []byte(line+"\n"))
	check("the agent before the file", "", ssh.KeyAlgoECDSA384)
}

// TestPublicKeys: lists of keys as forges serve them. Row B17: weak and unknown kinds are named, not used.
func TestPublicKeys(t *testing.T) {
	line := func(kind string) string { return signerOf(t, newKey(t, kind)).PublicKey().String() }
	ed, p256, rsaLine := line("ed25519"), line("p256"), line("rsa")
	weak := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(sshPublic(t, newKey(t, "rsa1024")))))
	sk := strings.TrimSpace(string(ssh.MarshalAuthorizedKey((&softSecurityKey{newKey(t, "ed25519"), 1, 0}).PublicKey())))
	list := strings.Join([]string{"# a comment", "", ed + " me@home\x1b[31m\u202e", ed, weak, "ssh-dss AAAA",
		"ssh-ed25519-cert-v01@openssh.com AAAA", p256, "no-pty " + p256, "  " + rsaLine + "\r", sk, "ssh-ed25519",
		"ssh-rsa " + strings.Fields(ed)[1], "ssh-ed25519 " + strings.Fields(ed)[1] + "!", "ssh-ed25519 AAAA",
		"<!DOCTYPE html>", strings.Repeat("x", 500)}, "\n")
	keys, unusable := ParsePublicKeys("u.keys", []byte(list))
	var types []string
	for _, k := range keys {
		types = append(types, k.Type())
	}
	const wantTypes = "ssh-ed25519 ecdsa-sha2-nistp256 ssh-rsa sk-ssh-ed25519@openssh.com"
	if got := strings.Join(types, " "); got != wantTypes {
		t.Errorf("the keys are %s, want %s", got, wantTypes)
	}
	if want := `me@home\x1b[31m\u202e`; keys[0].Comment != want {
		t.Errorf("the comment is %q, want %q", keys[0].Comment, want)
	}
	var got []string
	for _, err := range unusable {
		got = append(got, strings.Fields(err.Error())[0]+" "+string(diag.CodeOf(err)))
		if len(err.Error()) > 250 || diag.HintOf(err) == "" {
			t.Errorf("%v (hint %q): too long, or without a next step", err, diag.HintOf(err))
		}
	}
	want := []string{"u.keys:5: sshsig-weak-key", "u.keys:6: sshsig-weak-key", "u.keys:7: sshsig-unsupported-key",
		"u.keys:9: sshsig-unsupported-key", "u.keys:12: sshsig-bad-key", "u.keys:13: sshsig-bad-key",
		"u.keys:14: sshsig-bad-key", "u.keys:15: sshsig-bad-key", "u.keys:16: sshsig-unsupported-key",
		"u.keys:17: sshsig-bad-key"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("unusable are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if keys, unusable := ParsePublicKeys("u.keys", make([]byte, maxKeyFile+1)); keys != nil || len(unusable) != 1 {
		t.Errorf("a list of more than 1 MiB gives %d keys and %d errors, want 0 and 1", len(keys), len(unusable))
	}
	if (PublicKey{}).Equal(PublicKey{}) || !(PublicKey{}).IsZero() || (PublicKey{}).Fingerprint() != "" {
		t.Error("the zero PublicKey is a key")
	}
}

// This file implements the fuzz targets: whatever the bytes, no panic, and what is accepted keeps its promises.

package sshsig

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// FuzzSignature: a signature that is accepted has one encoding, up to the lines of its armour; and none verifies over a
// message nobody signed.
func FuzzSignature(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(vectors, "sshsig", "*.sshsig"))
	if err != nil || len(files) == 0 {
		f.Fatal(err, len(files))
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		block, _ := pem.Decode(b)
		f.Add(block.Bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse(b)
		if err != nil {
			b = armour(b) // the binary form, so that the fuzzer need not learn base64
			if s, err = Parse(b); err != nil {
				return
			}
		}
		again := armour(s.parsed.Marshal())
		if want := strings.Join(strings.Fields(string(b)), ""); strings.Join(strings.Fields(string(again)), "") != want {
			t.Errorf("the signature reads back as %s, want %s", again, b)
		}
		if s.Verify(s.Namespace, []byte("nobody signed this")) == nil {
			t.Error("a forged signature verifies")
		}
		if s.Key.IsZero() || s.Key.Type() == ssh.KeyAlgoRSA && s.Key.Bits() < minRSABits {
			t.Errorf("the key is %s of %d bits", s.Key, s.Key.Bits())
		}
	})
}

// FuzzAllowedSigners: a file never allows a key that does not stand in it, and messages stay on lines of their own.
func FuzzAllowedSigners(f *testing.F) {
	for _, name := range []string{"allowed_signers", "allowed_signers.expired"} {
		f.Add(readVector(f, "sshsig/"+name))
	}
	f.Add([]byte("\"a b\" valid-after=\"20200101\",namespaces=\"x\\\"\",cert-authority ssh-ed25519 AAAA\r\n# x\n*,!x y\n"))
	stranger := signerOf(f, newKey(f, "ed25519")).PublicKey()
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAllowedSigners("f", b)
		if err != nil {
			return
		}
		if err := a.Permits("me", stranger, testNamespace, time.Unix(1e9, 0)); err == nil {
			t.Error("a key that is not in the file is allowed")
		}
		for _, fault := range a.Faults {
			if strings.ContainsFunc(fault.Error(), func(r rune) bool { return r < ' ' }) {
				t.Errorf("the fault %q has control characters", fault)
			}
		}
		for _, l := range a.lines {
			if !bytes.Contains(b, []byte(strings.Fields(l.key.String())[1])) {
				t.Errorf("the key %s is not in the file", l.key)
			}
			names, err := a.Find(l.key, testNamespace, time.Unix(1e9, 0))
			if err == nil && names == "" {
				t.Error("Find allows a key for nobody")
			}
		}
	})
}

// FuzzPublicKeys: keys read from a list read back the same, and every line counts once.
func FuzzPublicKeys(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(vectors, "keys", "*.keys"))
	if err != nil || len(files) == 0 {
		f.Fatal(err, len(files))
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("ssh-dss AAAA\nsk-ssh-ed25519@openssh.com AAAA\n# x\n\n<html>"))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, unusable := ParsePublicKeys("f", b)
		if len(keys)+len(unusable) > bytes.Count(b, []byte("\n"))+1 {
			t.Errorf("%d keys and %d errors of %d lines", len(keys), len(unusable), bytes.Count(b, []byte("\n"))+1)
		}
		for _, k := range keys {
			again, err := ParsePublicKey(k.String())
			if err != nil || !again.Equal(k) || again.Fingerprint() != k.Fingerprint() {
				t.Errorf("%s reads back as %s, %v", k, again, err)
			}
			if strings.ContainsFunc(k.Comment, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("the comment %q has control characters", k.Comment)
			}
		}
		for _, err := range unusable {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("the message %q has control characters", err)
			}
		}
	})
}

// This file implements the comparison with ssh-keygen and ssh-agent, both ways, for every kind of key.

package sshsig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const testNamespace = "gpu-proof-test"

// kinds are the keys that ssh-keygen makes without hardware.
var kinds = []struct{ name, typ, bits string }{
	{"ed25519", "ed25519", ""},
	{"ecdsa-p256", "ecdsa", "256"},
	{"ecdsa-p384", "ecdsa", "384"},
	{"ecdsa-p521", "ecdsa", "521"},
	{"rsa-2048", "rsa", "2048"},
	{"rsa-3072", "rsa", "3072"},
}

// needSSH fails where a program of OpenSSH is missing: without it nothing is known about interoperation. Only -short
// does without.
func needSSH(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil && testing.Short() {
		t.Skipf("%s is not installed, and -short does without", program)
	}
	if err != nil {
		t.Fatalf("%s is not installed; the comparison with OpenSSH needs it: apt-get install openssh-client", program)
	}
	return path
}

// sshKeygen runs ssh-keygen and returns its output.
func sshKeygen(t *testing.T, stdin []byte, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(needSSH(t, "ssh-keygen"), args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("ssh-keygen: %v", err)
	}
	return string(out), err
}

// makeKey makes a private key file with ssh-keygen.
func makeKey(t *testing.T, path, typ, bits, passphrase string, more ...string) {
	t.Helper()
	args := []string{"-q", "-t", typ, "-N", passphrase, "-C", filepath.Base(path), "-f", path}
	if bits != "" {
		args = append(args, "-b", bits)
	}
	if out, err := sshKeygen(t, nil, append(args, more...)...); err != nil {
		t.Fatalf("ssh-keygen -t %s: %v\n%s", typ, err, out)
	}
}

func writeFile(t *testing.T, path string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// accepts reports whether ssh-keygen -Y verify takes the signature for signer under the test's namespace.
func accepts(t *testing.T, key PublicKey, armoured, message []byte) bool {
	t.Helper()
	dir := t.TempDir()
	sig := writeFile(t, filepath.Join(dir, "m.sig"), armoured)
	allowed := writeFile(t, filepath.Join(dir, "allowed"), fmt.Appendf(nil, "me@example %s\n", key))
	out, err := sshKeygen(t, message, "-Y", "verify", "-f", allowed, "-I", "me@example", "-n", testNamespace, "-s", sig)
	if (err == nil) != strings.HasPrefix(out, "Good ") {
		t.Fatalf("ssh-keygen -Y verify: %v, and prints %q", err, out)
	}
	novalidate, novalidateErr := sshKeygen(t, message, "-Y", "check-novalidate", "-n", testNamespace, "-s", sig)
	if (err == nil) != (novalidateErr == nil) {
		t.Fatalf("ssh-keygen -Y check-novalidate: %v, %q, want as verify", novalidateErr, novalidate)
	}
	return err == nil
}

// TestInteropFiles: what we sign with a key file, ssh-keygen verifies, and what it signs, we verify. Where signatures
// are deterministic they are equal byte for byte.
func TestInteropFiles(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			dir, message := t.TempDir(), []byte("a message\nof two lines\n")
			path := filepath.Join(dir, "key")
			makeKey(t, path, kind.typ, kind.bits, "")
			signer, err := FileSigner(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := signer.Sign(testNamespace, message)
			if err != nil {
				t.Fatal(err)
			}
			if !accepts(t, signer.PublicKey(), ours, message) {
				t.Error("ssh-keygen refuses our signature")
			}
			if accepts(t, signer.PublicKey(), ours, append(message, 'x')) {
				t.Error("ssh-keygen accepts our signature over other bytes")
			}
			for _, hash := range []string{"sha512", "sha256"} {
				file := writeFile(t, filepath.Join(dir, "message-"+hash), message)
				out, err := sshKeygen(t, nil, "-Y", "sign", "-f", path, "-n", testNamespace, "-O", "hashalg="+hash, file)
				if err != nil {
					t.Fatalf("ssh-keygen -Y sign: %v\n%s", err, out)
				}
				theirs, err := os.ReadFile(file + ".sig")
				if err != nil {
					t.Fatal(err)
				}
				s, err := Parse(theirs)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Verify(testNamespace, message); err != nil || s.Hash != hash || !s.Key.Equal(signer.PublicKey()) {
					t.Errorf("Verify of ssh-keygen's signature = %v, hash %s, want none and %s", err, s.Hash, hash)
				}
				if deterministic := kind.typ != "ecdsa"; deterministic && hash == "sha512" && !bytes.Equal(ours, theirs) {
					t.Errorf("our signature is\n%s\nthat of ssh-keygen\n%s", ours, theirs)
				}
			}
			raw, algorithm, err := signer.SignRaw(message)
			if err != nil || VerifyRaw(signer.PublicKey(), algorithm, message, raw) != nil {
				t.Errorf("SignRaw with the file's key: %v", err)
			}
			out, err := sshKeygen(t, nil, "-l", "-f", path+".pub")
			if err != nil || !strings.Contains(out, " "+signer.PublicKey().Fingerprint()+" ") {
				t.Errorf("Fingerprint() = %s, ssh-keygen -l says %s", signer.PublicKey().Fingerprint(), out)
			}
		})
	}
}

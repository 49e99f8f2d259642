// This file implements the tests of agents: real ones, and such as refuse, hang and lie.

package sshsig

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuemu/internal/diag"
)

// startAgent starts OpenSSH's ssh-agent and returns its socket.
func startAgent(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(needSSH(t, "ssh-agent"), "-D", "-a", socket)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(dir)
	})
	// It prints how to reach it once it listens.
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("ssh-agent: %v", err)
	}
	return socket
}

func sshAdd(t *testing.T, socket string, args ...string) {
	t.Helper()
	cmd := exec.Command(needSSH(t, "ssh-add"), args...)
	cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ssh-add %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestInteropAgent: signatures through OpenSSH's agent are good for ssh-keygen, and equal those of the key's file where
// they are deterministic. The key is chosen by .pub file, fingerprint and comment.
func TestInteropAgent(t *testing.T) {
	socket, dir, message := startAgent(t), t.TempDir(), []byte("a message")
	t.Setenv("SSH_AUTH_SOCK", socket)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			path := filepath.Join(dir, kind.name)
			makeKey(t, path, kind.typ, kind.bits, "")
			file, err := FileSigner(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := file.Sign(testNamespace, message)
			if err != nil {
				t.Fatal(err)
			}
			sshAdd(t, socket, "-q", path)
			if err := os.Remove(path); err != nil { // from here on only the agent can sign
				t.Fatal(err)
			}
			byPub, err := FileSigner(path+".pub", nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, wanted := range []string{file.PublicKey().Fingerprint(), kind.name, path + ".pub"} {
				s, err := AgentSigner(socket, wanted)
				if err != nil || !s.PublicKey().Equal(file.PublicKey()) {
					t.Errorf("AgentSigner(%q) = %v", wanted, err)
				}
			}
			got, err := byPub.Sign(testNamespace, message)
			if err != nil {
				t.Fatal(err)
			}
			if !accepts(t, byPub.PublicKey(), got, message) {
				t.Error("ssh-keygen refuses the agent's signature")
			}
			if kind.typ != "ecdsa" && !bytes.Equal(got, want) {
				t.Errorf("the agent's signature is\n%s\nthe file's\n%s", got, want)
			}
			// The other way round: what ssh-keygen signs through the agent, we verify.
			signed := writeFile(t, filepath.Join(dir, "message"), message)
			if out, err := sshKeygen(t, nil, "-Y", "sign", "-f", path+".pub", "-n", testNamespace, signed); err != nil {
				t.Fatalf("ssh-keygen -Y sign through the agent: %v\n%s", err, out)
			}
			theirs, err := os.ReadFile(signed + ".sig")
			if err != nil {
				t.Fatal(err)
			}
			if s, err := Parse(theirs); err != nil || s.Verify(testNamespace, message) != nil {
				t.Errorf("ssh-keygen's signature through the agent: %v", err)
			}
			if err := os.Remove(signed + ".sig"); err != nil {
				t.Fatal(err)
			}
			sig, algorithm, err := byPub.SignRaw(message)
			switch kind.name {
			case "ed25519", "ecdsa-p256":
				if err != nil || VerifyRaw(file.PublicKey(), algorithm, message, sig) != nil {
					t.Errorf("SignRaw through the agent: %v, %s", err, algorithm)
				}
			default:
				if diag.CodeOf(err) != UnsupportedRaw {
					t.Errorf("SignRaw through the agent: %v, want %s", err, UnsupportedRaw)
				}
			}
		})
	}
}

// TestSecurityKeys: signatures by security keys through an agent, of both kinds, are good for ssh-keygen, and for us
// only when somebody touched the key. Row B17: they never pass as raw signatures.
func TestSecurityKeys(t *testing.T) {
	message := []byte("a message")
	for _, kind := range []string{"ed25519", "p256"} {
		for _, flags := range []byte{0, flagUserPresent, flagUserPresent | flagUserVerified, flagUserVerified} {
			t.Run(kind+"/"+string('0'+rune(flags)), func(t *testing.T) {
				soft := &softSecurityKey{newKey(t, kind), flags, 7}
				signer, err := AgentSigner(serveAgent(t, &testAgent{signers: []ssh.Signer{soft}}), "")
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := signer.SignRaw(message); diag.CodeOf(err) != UnsupportedRaw {
					t.Errorf("SignRaw = %v, want %s", err, UnsupportedRaw)
				}
				armoured, err := signer.Sign(testNamespace, message)
				if flags&flagUserPresent == 0 {
					if diag.CodeOf(err) != NoTouch {
						t.Errorf("Sign without a touch = %v, want %s", err, NoTouch)
					}
					armoured = sealAnyway(t, soft, message)
				} else if err != nil {
					t.Fatal(err)
				}
				// Whatever the flags, ssh-keygen is content: it is the touch that we check besides.
				if !accepts(t, signer.PublicKey(), armoured, message) {
					t.Error("ssh-keygen refuses the signature")
				}
				s, err := Parse(armoured)
				if err != nil {
					t.Fatal(err)
				}
				if !s.Hardware || s.UserPresent != (flags&1 != 0) || s.UserVerified != (flags&4 != 0) {
					t.Errorf("flags %d read as %+v", flags, s)
				}
				want := diag.Code("")
				if flags&flagUserPresent == 0 {
					want = NoTouch
				}
				if err := s.Verify(testNamespace, message); diag.CodeOf(err) != want {
					t.Errorf("Verify = %v, want code %q", err, want)
				}
				if err := s.Verify(testNamespace, []byte("other")); err == nil {
					t.Error("Verify accepts other bytes")
				}
				for _, algorithm := range []string{RawEd25519, RawECDSA, RawRSA} {
					raw, err := signRaw(soft.key, message)
					if err != nil {
						t.Fatal(err)
					}
					if err := VerifyRaw(signer.PublicKey(), algorithm, message, raw); diag.CodeOf(err) != UnsupportedRaw {
						t.Errorf("VerifyRaw(%s) of a security key's = %v, want %s", algorithm, err, UnsupportedRaw)
					}
				}
			})
		}
	}
}

// agentOf starts an agent of software with keys.
func agentOf(t *testing.T, kinds ...string) string {
	t.Helper()
	a := &testAgent{}
	for _, k := range kinds {
		a.signers = append(a.signers, sshSigner(t, newKey(t, k)))
		a.comments = append(a.comments, k)
	}
	return serveAgent(t, a)
}

// answer reads a request, which is one length and one byte, and answers with text.
func answer(text string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, 5)); err == nil {
			io.WriteString(c, text)
		}
	}
}

// TestAgentFaults: everything that may be wrong with an agent has its own code, and a next step.
func TestAgentFaults(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct {
		name, socket, wanted string
		code                 diag.Code
		text                 string
	}{
		{"no agent", "", "", NoKey, "SSH_AUTH_SOCK is not set"},
		{"no socket", missing, "", Agent, "cannot be reached"},
		{"no key", agentOf(t), "", NoKey, "ssh-agent has no key"},
		{"several keys", agentOf(t, "ed25519", "p256"), "", SeveralKeys, "2 keys that could be meant: ssh-ed25519 SHA256:"},
		{"another key", agentOf(t, "ed25519"), "SHA256:x", NoKey, `no key "SHA256:x"; it has ssh-ed25519`},
		{"same comment", agentOf(t, "ed25519", "ed25519"), "ed25519", SeveralKeys, "2 keys"},
		{"weak key", agentOf(t, "rsa1024"), "", NoKey, "1024 bits"},
		{"no such .pub", "", missing + ".pub", NoKey, "no such key file"},
		{"breaks off", serve(t, func(net.Conn) {}), "", Agent, "broke off"},
		{"babbles", serve(t, answer("\x00\x00\x00\x02\x0c\x00")), "", Agent, "refused"},
		{"claims 4 GiB", serve(t, answer("\xff\xff\xff\xff\x0c")), "", Agent, "refused"},
		{"claims many keys", serve(t, answer("\x00\x00\x00\x05\x0c\xff\xff\xff\xff")), "", Agent, "refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := AgentSigner(tt.socket, tt.wanted)
			if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) || diag.HintOf(err) == "" {
				t.Errorf("AgentSigner = %v (hint %q), want %s with %q", err, diag.HintOf(err), tt.code, tt.text)
			}
		})
	}
	// A weak key beside a good one is no reason to ask which.
	if _, err := AgentSigner(agentOf(t, "rsa1024", "ed25519"), ""); err != nil {
		t.Errorf("AgentSigner with a weak and a good key = %v, want none", err)
	}
}

// TestAgentHangs: an agent that never answers does not hang the signer, neither when listing nor when signing.
func TestAgentHangs(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	silent := serve(t, func(net.Conn) { <-release })
	_, err := agentClient{silent, 20 * time.Millisecond, time.Minute}.choose("")
	if diag.CodeOf(err) != Agent || !strings.Contains(err.Error(), "did not answer within 20ms") {
		t.Errorf("listing = %v, want %s", err, Agent)
	}
	slow := serveAgent(t, &testAgent{signers: []ssh.Signer{sshSigner(t, newKey(t, "ed25519"))},
		sign: func(ssh.PublicKey, []byte) (*ssh.Signature, error) { <-release; return nil, errors.New("late") }})
	s, err := agentClient{slow, time.Minute, 20 * time.Millisecond}.choose("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Sign(testNamespace, nil); diag.CodeOf(err) != Agent || !strings.Contains(err.Error(), "did not answer") {
		t.Errorf("signing = %v, want %s", err, Agent)
	}
}

// TestAgentLies: what an agent returns is checked before it becomes a signature.
func TestAgentLies(t *testing.T) {
	other := sshSigner(t, newKey(t, "ed25519"))
	rsaSigner := sshSigner(t, newKey(t, "rsa"))
	for _, tt := range []struct {
		name string
		key  ssh.Signer
		sign func(ssh.PublicKey, []byte) (*ssh.Signature, error)
		code diag.Code
	}{
		{"refuses", other, func(ssh.PublicKey, []byte) (*ssh.Signature, error) { return nil, errors.New("no") }, Agent},
		{"signs with another key", other, func(_ ssh.PublicKey, data []byte) (*ssh.Signature, error) {
			return sshSigner(t, newKey(t, "ed25519")).Sign(nil, data)
		}, Mismatch},
		{"signs something else", other, func(_ ssh.PublicKey, data []byte) (*ssh.Signature, error) {
			return other.Sign(nil, append(data, 0))
		}, Mismatch},
		{"uses SHA-1", rsaSigner, func(_ ssh.PublicKey, data []byte) (*ssh.Signature, error) {
			return rsaSigner.(ssh.AlgorithmSigner).SignWithAlgorithm(nil, data, ssh.KeyAlgoRSA)
		}, BadSignature},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := AgentSigner(serveAgent(t, &testAgent{signers: []ssh.Signer{tt.key}, sign: tt.sign}), "")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Sign(testNamespace, []byte("m")); diag.CodeOf(err) != tt.code || got != nil {
				t.Errorf("Sign = %q, %v, want %s", got, err, tt.code)
			}
		})
	}
}

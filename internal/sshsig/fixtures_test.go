// This file implements keys and agents of software for the tests: security keys that can be told not to be touched, and
// agents that refuse, hang and lie.

package sshsig

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// newKey makes a private key: ed25519, p256, p384, p521, rsa or rsa1024. RSA keys are made once a run.
func newKey(t testing.TB, kind string) crypto.Signer {
	t.Helper()
	key, err := func() (crypto.Signer, error) {
		switch kind {
		case "ed25519":
			_, key, err := ed25519.GenerateKey(rand.Reader)
			return key, err
		case "p256":
			return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		case "p384":
			return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		case "p521":
			return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
		case "rsa":
			return rsaKey()
		case "rsa1024":
			return weakRSAKey()
		}
		return nil, errors.New("no such kind of key: " + kind)
	}()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// rsaKey and weakRSAKey are RSA keys of 2048 and of 1024 bits.
var (
	rsaKey     = sync.OnceValues(func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) })
	weakRSAKey = sync.OnceValues(func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 1024) })
)

// sshPublic is a key's public part for package ssh.
func sshPublic(t testing.TB, key crypto.Signer) ssh.PublicKey {
	t.Helper()
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// signerOf is a Signer as FileSigner makes it.
func signerOf(t testing.TB, key crypto.Signer) Signer {
	t.Helper()
	s, err := newFileSigner("test", key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// softSecurityKey is a security key made of software (OpenSSH's PROTOCOL.u2f): it signs SHA256(application), flags,
// counter and SHA256(data).
type softSecurityKey struct {
	key     crypto.Signer // ed25519 or P-256
	flags   byte
	counter uint32
}

const softApplication = "ssh:"

func (k *softSecurityKey) PublicKey() ssh.PublicKey {
	var blob []byte
	switch pub := k.key.Public().(type) {
	case ed25519.PublicKey:
		blob = ssh.Marshal(struct {
			Type string
			Key  []byte
			App  string
		}{ssh.KeyAlgoSKED25519, pub, softApplication})
	case *ecdsa.PublicKey:
		point, err := pub.Bytes()
		if err != nil {
			panic(err)
		}
		blob = ssh.Marshal(struct {
			Type, Curve string
			Point       []byte
			App         string
		}{ssh.KeyAlgoSKECDSA256, "nistp256", point, softApplication})
	}
	public, err := ssh.ParsePublicKey(blob)
	if err != nil {
		panic(err)
	}
	return public
}

func (k *softSecurityKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	app, message := sha256.Sum256([]byte(softApplication)), sha256.Sum256(data)
	rest := binary.BigEndian.AppendUint32([]byte{k.flags}, k.counter)
	signed := append(append(app[:], rest...), message[:]...)
	sig := &ssh.Signature{Format: k.PublicKey().Type(), Rest: rest}
	switch key := k.key.(type) {
	case ed25519.PrivateKey:
		sig.Blob = ed25519.Sign(key, signed)
	case *ecdsa.PrivateKey:
		digest := sha256.Sum256(signed)
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		if err != nil {
			return nil, err
		}
		sig.Blob = ssh.Marshal(struct{ R, S *big.Int }{r, s})
	}
	return sig, nil
}

// testAgent is an agent with the keys of signers. The function sign, where set, answers instead of them.
type testAgent struct {
	agent.ExtendedAgent // what is not used stays nil
	signers             []ssh.Signer
	comments            []string
	sign                func(key ssh.PublicKey, data []byte) (*ssh.Signature, error)
}

func (a *testAgent) List() ([]*agent.Key, error) {
	var keys []*agent.Key
	for i, s := range a.signers {
		k := &agent.Key{Format: s.PublicKey().Type(), Blob: s.PublicKey().Marshal(), Comment: "key"}
		if i < len(a.comments) {
			k.Comment = a.comments[i]
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func (a *testAgent) SignWithFlags(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (*ssh.Signature, error) {
	if a.sign != nil {
		return a.sign(key, data)
	}
	for _, s := range a.signers {
		if string(s.PublicKey().Marshal()) != string(key.Marshal()) {
			continue
		}
		if rsaSigner, ok := s.(ssh.AlgorithmSigner); ok && flags == agent.SignatureFlagRsaSha512 {
			return rsaSigner.SignWithAlgorithm(rand.Reader, data, ssh.KeyAlgoRSASHA512)
		}
		return s.Sign(rand.Reader, data)
	}
	return nil, errors.New("no such key")
}

// serve answers connections to a socket until the test ends, and returns the socket's path. The goroutines, one a
// connection, touch nothing but what handle is given.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // t.TempDir may be longer than the 108 bytes a socket's path may have
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
		os.RemoveAll(dir)
	})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				handle(conn)
			})
		}
	})
	return socket
}

// serveAgent starts an agent of software and returns its socket.
func serveAgent(t *testing.T, a *testAgent) string {
	t.Helper()
	return serve(t, func(conn net.Conn) {
		if err := agent.ServeAgent(a, conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			t.Logf("the test's agent: %v", err)
		}
	})
}

// sshSigner is a key as package ssh knows signers.
func sshSigner(t testing.TB, key crypto.Signer) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// This file implements signing through ssh-agent.

package sshsig

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
)

const (
	// listTimeout is how long an agent may take to say which keys it has: it answers from memory.
	listTimeout = 10 * time.Second
	// signTimeout is how long an agent may take to sign: somebody may have to find and touch a security key, type a PIN
	// or confirm a dialogue.
	signTimeout = 2 * time.Minute
)

// agentClient talks to the agent behind a socket, one connection a request, so that a request that hangs leaves
// nothing behind.
type agentClient struct {
	socket     string
	list, sign time.Duration // timeouts
}

// agentSigner signs with one key of an agent.
type agentSigner struct {
	client agentClient
	public PublicKey
}

// AgentSigner chooses a key of the agent behind socket (the value of SSH_AUTH_SOCK): by fingerprint, by comment, by
// .pub file, or its only usable one when wanted is empty.
func AgentSigner(socket, wanted string) (Signer, error) {
	return agentClient{socket, listTimeout, signTimeout}.choose(wanted)
}

func (c agentClient) choose(wanted string) (Signer, error) {
	if strings.HasSuffix(wanted, ".pub") {
		b, err := readKeyFile(wanted)
		if err != nil {
			return nil, err
		}
		keys, unusable := ParsePublicKeys(wanted, b)
		if len(unusable) > 0 {
			return nil, unusable[0]
		}
		if len(keys) != 1 {
			return nil, diag.Errorf(BadKeyFile, "", "the file has %d public keys, want 1", len(keys)).
				At(diag.Pos{File: wanted})
		}
		wanted = keys[0].Fingerprint()
	}
	keys, unusable, err := c.keys()
	if err != nil {
		return nil, err
	}
	var matching []PublicKey
	for _, k := range keys {
		if wanted == "" || k.Fingerprint() == wanted || k.Comment == wanted {
			matching = append(matching, k)
		}
	}
	switch {
	case len(matching) == 1:
		return &agentSigner{c, matching[0]}, nil
	case len(matching) > 1:
		return nil, diag.Errorf(SeveralKeys, "name one of them by its fingerprint or its .pub file",
			"ssh-agent has %d keys that could be meant: %s", len(matching), describeAll(matching))
	case wanted != "" && len(keys) > 0:
		return nil, diag.Errorf(NoKey, "load it with ssh-add, or name one of those",
			"ssh-agent has no key %q; it has %s", clip(wanted), describeAll(keys))
	case len(unusable) > 0:
		return nil, diag.Errorf(NoKey, "make a new key (ssh-keygen -t ed25519) and load it with ssh-add",
			"ssh-agent has no usable key: %s", joinErrors(unusable))
	}
	return nil, diag.Errorf(NoKey, "load one: ssh-add ~/.ssh/id_ed25519", "ssh-agent has no key")
}

// keys asks the agent for its keys, in its order.
func (c agentClient) keys() (keys []PublicKey, unusable []error, err error) {
	listed, err := ask(c.socket, c.list, func(a agent.ExtendedAgent) ([]*agent.Key, error) { return a.List() })
	if err != nil {
		return nil, nil, err
	}
	for _, k := range listed {
		key, bad := newPublicKey(k.Blob)
		if bad != nil {
			unusable = append(unusable, bad)
			continue
		}
		key.Comment = escape.Text(k.Comment)
		keys = append(keys, key)
	}
	return keys, unusable, nil
}

// ask makes one request to an agent and translates what may go wrong.
func ask[T any](socket string, limit time.Duration, request func(agent.ExtendedAgent) (T, error)) (T, error) {
	var none T
	if socket == "" {
		return none, diag.Errorf(NoKey, "start one with eval $(ssh-agent), then ssh-add; or name a private key file",
			"there is no ssh-agent: SSH_AUTH_SOCK is not set")
	}
	conn, err := net.DialTimeout("unix", socket, limit)
	if isTimeout(err) {
		return none, lateAgent(socket, limit)
	}
	if err != nil {
		var op *net.OpError
		cause := err
		if errors.As(err, &op) {
			cause = op.Err
		}
		return none, diag.Errorf(Agent, "check SSH_AUTH_SOCK, and that ssh-add -l works",
			"ssh-agent at %q cannot be reached: %w", socket, cause)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return none, diag.Errorf(Agent, "", "ssh-agent at %q: %w", socket, err)
	}
	noted := &notedConn{conn: conn}
	answer, err := request(agent.NewClient(noted))
	if err == nil {
		return answer, nil
	}
	switch {
	case isTimeout(noted.err):
		return none, lateAgent(socket, limit)
	case noted.err != nil:
		return none, diag.Errorf(Agent, "check that ssh-add -l works", "ssh-agent at %q broke off its answer", socket)
	}
	return none, diag.Errorf(Agent,
		"check that ssh-add -l shows the key; it may be locked, or want a confirmation or a touch",
		"ssh-agent refused: %s", escape.Text(strings.TrimPrefix(err.Error(), "agent: ")))
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func lateAgent(socket string, limit time.Duration) error {
	return diag.Errorf(Agent, "touch the key or confirm in time, and check that ssh-add -l answers",
		"ssh-agent at %q did not answer within %v", socket, limit)
}

// notedConn remembers what went wrong with a connection: package agent keeps the text of such an error only. It has no
// method Close, so that the client starts no goroutines for requests at the same time, of which there are none.
type notedConn struct {
	conn net.Conn
	err  error
}

func (c *notedConn) Read(b []byte) (int, error) {
	n, err := c.conn.Read(b)
	if err != nil {
		c.err = err
	}
	return n, err
}

func (c *notedConn) Write(b []byte) (int, error) {
	n, err := c.conn.Write(b)
	if err != nil {
		c.err = err
	}
	return n, err
}

func (s *agentSigner) PublicKey() PublicKey { return s.public }

func (s *agentSigner) Sign(namespace string, message []byte) ([]byte, error) {
	return seal(agentKey{s}, namespace, message)
}

// SignRaw signs raw where an agent can: it has no RSA-PSS, and on the larger curves no SHA-256.
func (s *agentSigner) SignRaw(message []byte) ([]byte, string, error) {
	switch s.public.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256:
	default:
		return nil, "", diag.Errorf(UnsupportedRaw, "give the private key's file, or use an Ed25519 key",
			"ssh-agent cannot make the raw signature that a receipt of schema 1 has for a key of type %s", s.public.Type())
	}
	sig, err := agentKey{s}.Sign(rand.Reader, message)
	if err != nil {
		return nil, "", err
	}
	raw, algorithm := sig.Blob, s.public.RawAlgorithm()
	if s.public.Type() == ssh.KeyAlgoECDSA256 {
		if raw, err = derECDSA(sig.Blob); err != nil {
			return nil, "", err
		}
	}
	return raw, algorithm, VerifyRaw(s.public, algorithm, message, raw)
}

// agentKey is an agent's key as package ssh knows signers.
type agentKey struct{ s *agentSigner }

func (k agentKey) PublicKey() ssh.PublicKey { return k.s.public.key }

func (k agentKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) { return k.request(data, 0) }

func (k agentKey) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if algorithm != ssh.KeyAlgoRSASHA512 {
		return nil, fmt.Errorf("no flag of ssh-agent asks for %q", algorithm)
	}
	return k.request(data, agent.SignatureFlagRsaSha512)
}

func (k agentKey) request(data []byte, flags agent.SignatureFlags) (*ssh.Signature, error) {
	return ask(k.s.client.socket, k.s.client.sign, func(a agent.ExtendedAgent) (*ssh.Signature, error) {
		return a.SignWithFlags(k.s.public.key, data, flags)
	})
}

// joinErrors puts several errors on one line.
func joinErrors(errs []error) string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

// describeAll names keys in a message.
func describeAll(keys []PublicKey) string {
	const most = 10
	var names []string
	for i, k := range keys {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(keys)-most))
			break
		}
		names = append(names, describe(k))
	}
	return strings.Join(names, ", ")
}

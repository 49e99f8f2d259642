// This file implements signing with a key file.

package sshsig

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"gpuemu/internal/diag"
)

// Signer signs with one key.
type Signer interface {
	PublicKey() PublicKey
	// Sign returns an armoured SSHSIG over message under namespace.
	Sign(namespace string, message []byte) (armoured []byte, err error)
	// SignRaw returns a raw signature as the original's receipts have it, and the name of its algorithm.
	SignRaw(message []byte) (sig []byte, algorithm string, err error)
}

// AskPassphrase asks for a passphrase; the prompt names the key. The answer is overwritten after use.
type AskPassphrase func(prompt string) ([]byte, error)

// passphraseTries is how often a passphrase is asked for, as ssh does: behind a mistyped one may lie hours of tests.
const passphraseTries = 3

// fileSigner signs with a private key in memory.
type fileSigner struct {
	public PublicKey
	key    crypto.Signer
	signer ssh.Signer
}

// FileSigner opens a private key file, in OpenSSH's format or PEM. A path that ends with .pub means that key of the
// agent of SSH_AUTH_SOCK, or else the private key file beside it. Without a passphrase function, keys that need one are
// refused.
func FileSigner(path string, passphrase func(prompt string) ([]byte, error)) (Signer, error) {
	b, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".pub") {
		return pubSigner(path, b, passphrase)
	}
	pos := diag.Pos{File: path}
	block, rest := pem.Decode(b)
	if block == nil || len(bytes.TrimSpace(rest)) != 0 {
		if key, bad := parseKeyLine(strings.TrimSpace(string(b))); bad == nil {
			return nil, diag.Errorf(BadKeyFile, "give the private key's file, or rename it to *.pub to use the agent's key",
				"this is the public key %s, not a private one", describe(key)).At(pos)
		}
		return nil, badKeyFile(path, "it is neither in OpenSSH's private key format nor PEM")
	}
	if err := checkOpenSSHHeader(block); err != nil {
		return nil, err.At(pos)
	}
	raw, err := parsePrivate(path, b, block, passphrase)
	if err != nil {
		return nil, err
	}
	return newFileSigner(path, raw)
}

// newFileSigner makes a signer of what the parsers return.
func newFileSigner(path string, raw any) (Signer, error) {
	pos := diag.Pos{File: path}
	signer, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		return nil, badKeyFile(path, strings.TrimPrefix(err.Error(), "ssh: "))
	}
	public, bad := usableKey(signer.PublicKey(), signer.PublicKey().Marshal())
	if bad != nil {
		return nil, bad.At(pos)
	}
	key, ok := raw.(crypto.Signer)
	if !ok {
		return nil, badKeyFile(path, "a key of type "+public.Type()+" cannot sign")
	}
	return &fileSigner{public: public, key: key, signer: signer}, nil
}

func (s *fileSigner) PublicKey() PublicKey { return s.public }

func (s *fileSigner) Sign(namespace string, message []byte) ([]byte, error) {
	return seal(s.signer, namespace, message)
}

func (s *fileSigner) SignRaw(message []byte) ([]byte, string, error) {
	sig, err := signRaw(s.key, message)
	if err != nil {
		return nil, "", err
	}
	return sig, s.public.RawAlgorithm(), VerifyRaw(s.public, s.public.RawAlgorithm(), message, sig)
}

// readKeyFile reads a key file and checks, for a private one, that nobody else could have read it.
func readKeyFile(path string) ([]byte, error) {
	pos := diag.Pos{File: path}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, diag.Errorf(NoKey, "name an existing key file, or make a key: ssh-keygen -t ed25519",
			"there is no such key file").At(pos)
	}
	if err != nil {
		return nil, badKeyFile(path, pathCause(err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, badKeyFile(path, pathCause(err))
	case !info.Mode().IsRegular():
		return nil, badKeyFile(path, "it is not a regular file")
	case info.Size() > maxKeyFile:
		return nil, badKeyFile(path, "it is larger than 1 MiB")
	}
	// ssh looks at files of its own user only: another owner's file is readable for a reason, for example in a container.
	if uid, known := ownerOf(info); known && uid == os.Getuid() && info.Mode().Perm()&0o077 != 0 &&
		!strings.HasSuffix(path, ".pub") {
		return nil, diag.Errorf(KeyPermissions, "chmod 600 "+path,
			"the private key can be read by others (mode %04o)", info.Mode().Perm()).At(pos)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, badKeyFile(path, pathCause(err))
	}
	return b, nil
}

// pathCause is an error of package os without the path, which the message already has.
func pathCause(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}

func badKeyFile(path, what string) error {
	return diag.Errorf(BadKeyFile, "give a private key made by ssh-keygen, for example ~/.ssh/id_ed25519",
		"this is not a usable key file: %s", what).At(diag.Pos{File: path})
}

// checkOpenSSHHeader looks at the public part, which OpenSSH's format has in clear: what cannot be used is refused
// before anybody is asked for a passphrase.
func checkOpenSSHHeader(block *pem.Block) *diag.Error {
	rest, ok := bytes.CutPrefix(block.Bytes, []byte("openssh-key-v1\x00"))
	if block.Type != "OPENSSH PRIVATE KEY" || !ok {
		return nil
	}
	var head struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public               []byte
		Rest                 []byte `ssh:"rest"`
	}
	if ssh.Unmarshal(rest, &head) != nil {
		return nil // the parser of the whole says what is wrong
	}
	key, err := newPublicKey(head.Public)
	if err != nil {
		return err
	}
	if key.Hardware() {
		return diag.Errorf(UnsupportedKey, "load it with ssh-add and give its .pub file",
			"%s is the handle of a security key, which signs through ssh-agent only", describe(key))
	}
	return nil
}

// parsePrivate decodes a private key, with its passphrase where it has one.
func parsePrivate(path string, b []byte, block *pem.Block, passphrase AskPassphrase) (any, error) {
	pos := diag.Pos{File: path}
	if block.Type == "ENCRYPTED PRIVATE KEY" {
		return nil, diag.Errorf(BadKeyFile, "ssh-keygen -p -f "+path+" writes it in OpenSSH's format",
			"encrypted PKCS #8 keys are not supported").At(pos)
	}
	raw, err := ssh.ParseRawPrivateKey(b)
	var missing *ssh.PassphraseMissingError
	if !errors.As(err, &missing) {
		if err != nil {
			return nil, badKeyFile(path, strings.TrimPrefix(err.Error(), "ssh: "))
		}
		return raw, nil
	}
	if passphrase == nil {
		return nil, diag.Errorf(Passphrase, "load the key into ssh-agent with ssh-add and give its .pub file",
			"the key has a passphrase, and there is no terminal to ask for it").At(pos)
	}
	for range passphraseTries {
		raw, err = askAndParse(path, b, passphrase)
		if !errors.Is(err, x509.IncorrectPasswordError) {
			return raw, err
		}
	}
	return nil, diag.Errorf(Passphrase, "load the key into ssh-agent with ssh-add and give its .pub file",
		"the passphrase is wrong").At(pos)
}

// askAndParse asks for the passphrase once. x509.IncorrectPasswordError means that it was another one.
func askAndParse(path string, b []byte, passphrase AskPassphrase) (any, error) {
	secret, err := passphrase("Passphrase for " + path)
	if err != nil {
		return nil, diag.Errorf(Passphrase, "load the key into ssh-agent with ssh-add and give its .pub file",
			"the key has a passphrase, which could not be asked for: %w", err).At(diag.Pos{File: path})
	}
	defer clear(secret)
	if len(secret) == 0 {
		return nil, x509.IncorrectPasswordError // package ssh would blame the key
	}
	raw, err := ssh.ParseRawPrivateKeyWithPassphrase(b, secret)
	if err != nil && !errors.Is(err, x509.IncorrectPasswordError) {
		return nil, badKeyFile(path, strings.TrimPrefix(err.Error(), "ssh: "))
	}
	return raw, err
}

// pubSigner finds the private part of a .pub file: in the agent, or beside it.
func pubSigner(path string, b []byte, passphrase AskPassphrase) (Signer, error) {
	keys, unusable := ParsePublicKeys(path, b)
	if len(unusable) > 0 {
		return nil, unusable[0]
	}
	if len(keys) != 1 {
		return nil, diag.Errorf(BadKeyFile, "", "the file has %d public keys, want 1", len(keys)).At(diag.Pos{File: path})
	}
	signer, err := AgentSigner(os.Getenv("SSH_AUTH_SOCK"), keys[0].Fingerprint())
	if err == nil {
		return signer, nil
	}
	private := strings.TrimSuffix(path, ".pub")
	if _, statErr := os.Stat(private); statErr != nil || keys[0].Hardware() {
		return nil, err
	}
	signer, fileErr := FileSigner(private, passphrase)
	if fileErr != nil {
		return nil, fileErr
	}
	if !signer.PublicKey().Equal(keys[0]) {
		return nil, diag.Errorf(BadKeyFile, "write the public key anew: ssh-keygen -y -f "+private+" > "+path,
			"it is not the public part of %s beside it", filepath.Base(private)).At(diag.Pos{File: path})
	}
	return signer, nil
}

// This file implements the search for the key that a person signs with already.

package sshsig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"gpuemu/internal/diag"
)

// defaultKeys are the names of private keys in ~/.ssh, in the order in which they are tried: the original's, and after
// them the handles of security keys.
var defaultKeys = []string{"id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk"}

// DefaultSigner finds the key to sign with where nobody named one: Git's user.signingKey (configured, which may be
// empty), then the usual files in home/.ssh, then the only key of the agent. That there is none is an error, never a
// reason to sign nothing.
func DefaultSigner(home, configured string, passphrase func(prompt string) ([]byte, error)) (Signer, error) {
	literal, isLiteral := strings.CutPrefix(configured, "key::")
	switch key, bad := parseKeyLine(literal); {
	case bad == nil:
		return AgentSigner(os.Getenv("SSH_AUTH_SOCK"), key.Fingerprint())
	case isLiteral:
		return nil, bad
	}
	if rest, ok := strings.CutPrefix(configured, "~/"); ok {
		configured = filepath.Join(home, rest)
	}
	// A value that names no file is the name of a GPG key, which says nothing about SSH.
	if configured != "" && isFile(configured) {
		return FileSigner(configured, passphrase)
	}
	for _, name := range defaultKeys {
		if home == "" {
			break // files of the working directory are nobody's keys
		}
		path := filepath.Join(home, ".ssh", name)
		switch {
		case isFile(path + ".pub"):
			return FileSigner(path+".pub", passphrase) // the agent's, where it has it: no passphrase is asked for
		case isFile(path):
			return FileSigner(path, passphrase)
		}
	}
	signer, err := AgentSigner(os.Getenv("SSH_AUTH_SOCK"), "")
	if none := (*diag.Error)(nil); errors.As(err, &none) && none.Code == NoKey {
		return nil, diag.Errorf(NoKey, "make one with ssh-keygen -t ed25519, load one with ssh-add, or name its file",
			"there is no key to sign with: neither Git's user.signingKey, nor one of %s in %s, nor one in ssh-agent (%s)",
			strings.Join(defaultKeys, ", "), filepath.Join(home, ".ssh"), none.Msg)
	}
	return signer, err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

package proof

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/receipt"
	"gpuemu/internal/sshsig"
)

// This file implements who signs: the key, the name beside it, and the question before.

// keyFlags say who signs.
type keyFlags struct {
	key, signer, githubUser string
	unsigned, yes           bool
}

func (k *keyFlags) register(f *pflag.FlagSet) {
	f.StringVar(&k.key, "key", "", "private key `FILE`, a .pub file or a fingerprint of the agent's, or the word agent\n"+
		"(default: Git's user.signingKey, ~/.ssh/id_ed25519, id_ecdsa, id_rsa, the agent)")
	f.StringVar(&k.signer, "signer", "", "`NAME` of the signer, as verifiers know it (default: Git's github.user, else\n"+
		"user.email)")
	f.StringVar(&k.githubUser, "github-user", "", "`NAME` of the signer at GitHub: the same as --signer")
	f.BoolVar(&k.unsigned, "unsigned", false, "write a receipt without a signature, which verifiers refuse")
	f.BoolVar(&k.yes, "yes", false, "do not ask before signing")
}

// check refuses flags that contradict each other.
func (k *keyFlags) check() error {
	switch {
	case k.signer != "" && k.githubUser != "" && k.signer != k.githubUser:
		return diag.Errorf(Usage, "give one of them", "--signer and --github-user are different names")
	case k.unsigned && (k.key != "" || k.signer != "" || k.githubUser != ""):
		return diag.Errorf(Usage, "", "--unsigned takes no key and no name")
	}
	if k.signer == "" {
		k.signer = k.githubUser
	}
	return nil
}

// open finds the key. It is opened before any work is done, and used at its end.
func (k *keyFlags) open(ctx context.Context, env Env, dir string) (sshsig.Signer, error) {
	ask := func(prompt string) ([]byte, error) { return askPassphrase(env, prompt) }
	socket := env.Getenv("SSH_AUTH_SOCK")
	switch {
	case k.key == "agent":
		return sshsig.AgentSigner(socket, "")
	case strings.HasPrefix(k.key, "SHA256:"):
		return sshsig.AgentSigner(socket, k.key)
	case strings.HasPrefix(k.key, "key::"):
		return sshsig.DefaultSigner("", k.key, ask)
	case k.key != "":
		return sshsig.FileSigner(expand(env, k.key), ask)
	}
	return sshsig.DefaultSigner(env.Getenv("HOME"), gitConfig(ctx, dir, "user.signingKey"), ask)
}

// newSigner opens the key and finds the name.
func (k *keyFlags) newSigner(ctx context.Context, env Env, dir string) (sshsig.Signer, *receipt.Signer, error) {
	name, err := k.name(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	key, err := k.open(ctx, env, dir)
	if err != nil {
		return nil, nil, err
	}
	return key, &receipt.Signer{Principal: name, KeyFingerprint: key.PublicKey().Fingerprint()}, nil
}

// expand puts the home directory for ~, which a shell does not do behind "=".
func expand(env Env, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && env.Getenv("HOME") != "" {
		return env.Getenv("HOME") + "/" + rest
	}
	return path
}

// name is who the signer says they are. It is no secret and proves nothing: a verifier knows whose key it was.
func (k *keyFlags) name(ctx context.Context, dir string) (string, error) {
	for _, name := range []string{k.signer, gitConfig(ctx, dir, "github.user"), gitConfig(ctx, dir, "user.email")} {
		if name != "" {
			return name, nil
		}
	}
	return "", diag.Errorf(Usage, "give --signer NAME, or set it once: git config --global github.user NAME",
		"the signer has no name")
}

// gitConfig is a value of the user's configuration, "" where there is none. Reading it executes nothing.
func gitConfig(ctx context.Context, dir, key string) string {
	cmd := exec.CommandContext(ctx, "git", "config", "--get", key)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(out), "\n")
}

// askPassphrase asks on the terminal, without showing the answer.
func askPassphrase(env Env, prompt string) ([]byte, error) {
	in, ok := env.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, errors.New("there is no terminal to ask on")
	}
	fmt.Fprint(env.Stderr, escape.Text(prompt)+": ")
	defer fmt.Fprintln(env.Stderr)
	return term.ReadPassword(int(in.Fd()))
}

// confirm asks whether to go on, where somebody is there to be asked. Elsewhere the command itself is the answer.
func (k *keyFlags) confirm(env Env, question string) error {
	in, ok := env.Stdin.(*os.File)
	if k.yes || !ok || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	fmt.Fprintf(env.Stderr, "%s [y/N] ", escape.Text(question))
	line, err := bufio.NewReader(io.LimitReader(in, 100)).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err == nil && (answer == "y" || answer == "yes") {
		return nil
	}
	return refused(diag.Errorf(NotSigned, "", "nothing was signed"))
}

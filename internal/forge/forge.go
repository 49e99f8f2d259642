// Package forge says who has which SSH keys: by the lists that forges publish over HTTPS (USER.keys), or by a folder
// of such files.
//
// It asks each time anew and keeps nothing: keys that were removed are gone at once. It does not say whether an account
// is trusted, nor since when it has a key; files of allowed signers (package sshsig) can do both and need no network.
// Names are checked before anything is asked, so that a name is never a path, a query or a host.
package forge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/sshsig"
)

const (
	// maxName is the longest name of an account on any of the forges; maxGitHubName is GitHub's.
	maxName       = 64
	maxGitHubName = 39
	// maxList limits a list of keys: accounts with hundreds of keys stay under 100 KiB.
	maxList = 1 << 20
)

var (
	// ErrUnreachable is in the chain of an error after which nothing is known: the verdict is "cannot tell".
	ErrUnreachable = errors.New("the forge could not be asked")
	// ErrNoUser is in the chain of an error that says for certain that nobody has that name.
	ErrNoUser = errors.New("no such user")
)

// Source finds the keys of an account.
type Source interface {
	// Keys returns the usable keys of an account. Keys and an error that is ErrUnreachable may come together: a forge
	// gave one list and not the other. A signature by one of the keys is then good; that none of them made it says
	// nothing.
	Keys(ctx context.Context, user string) ([]sshsig.PublicKey, error)
}

// CheckName refuses what cannot be the name of an account: anything but letters, digits, -, _ and single dots inside,
// and names that stand for nobody. GitHub's names are held to GitHub's own rules besides when it is asked.
func CheckName(user string) error {
	bad := func(what string) error {
		return diag.Errorf(BadName, "give the account's name as it stands in the address of its page",
			"%q is not the name of an account: %s", clip(user), what)
	}
	switch {
	case user == "":
		return bad("it is empty")
	case len(user) > maxName:
		return bad(fmt.Sprintf("it has %d characters, more than %d", len(user), maxName))
	case strings.EqualFold(user, "unknown"):
		// The original writes this word where it knows no name, and somebody may have an account of that name.
		return bad("it stands for a signer whose name was not known")
	}
	for i, c := range []byte(user) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
		case c == '-' && i > 0:
		case c == '.' && i > 0 && i < len(user)-1 && user[i+1] != '.':
		default:
			return bad("it may have letters, digits, - and _, and dots inside")
		}
	}
	return nil
}

// folder is a folder of key lists.
type folder struct{ dir string }

// Folder returns the keys in the files DIR/NAME.keys, for verifying without a network.
func Folder(dir string) Source { return folder{dir} }

func (f folder) Keys(_ context.Context, user string) ([]sshsig.PublicKey, error) {
	if err := CheckName(user); err != nil {
		return nil, err
	}
	path := filepath.Join(f.dir, user+".keys")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(f.dir); err != nil {
			return nil, diag.Errorf(Unreachable, "give the folder that has the files NAME.keys",
				"the folder of keys cannot be read: %w: %w", ErrUnreachable, err)
		}
		return nil, diag.Errorf(NoUser, "save the account's list of keys there",
			"there is no file %s: %w", path, ErrNoUser)
	}
	if err != nil {
		return nil, diag.Errorf(Unreachable, "check the file's permissions", "%w: %w", ErrUnreachable, err)
	}
	defer file.Close()
	b, err := readLimited(file)
	if err != nil {
		return nil, diag.Errorf(Unreachable, "check the file", "%s: %w: %w", path, ErrUnreachable, err)
	}
	keys, unusable := sshsig.ParsePublicKeys(path, b)
	return keys, noneLeft(user, keys, unusable)
}

// noneLeft is the error of an account without a usable key, nil where there is one.
func noneLeft(user string, keys []sshsig.PublicKey, unusable []error) error {
	switch {
	case len(keys) > 0:
		return nil
	case len(unusable) > 0:
		more := ""
		if len(unusable) > 1 {
			more = fmt.Sprintf(" (and %d more)", len(unusable)-1)
		}
		return diag.Errorf(NoKeys, "the owner of the account adds the public key that signed", "%s has no usable key: %w%s",
			user, unusable[0], more)
	}
	return diag.Errorf(NoKeys, "the owner of the account adds the public key that signed", "%s has no keys", user)
}

// readLimited reads a list of keys to its end.
func readLimited(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxList+1))
	if err == nil && len(b) > maxList {
		err = fmt.Errorf("the list of keys has more than %d bytes", maxList)
	}
	return b, err
}

// clip shortens text from outside for a message that quotes it.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// This file implements finding and opening gpuemu.toml, and refusing what others have put there.

package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gpuemu/internal/diag"
)

// FileName is the name of the configuration of a project.
const FileName = "gpuemu.toml"

// MaxBytes limits a configuration; one op needs a few hundred bytes.
const MaxBytes = 1 << 20

// Find returns the gpuemu.toml that applies in a directory: that of the directory itself or, inside a repository or the
// home directory, the nearest one above it, up to and including the repository's root or the home directory. Higher up
// nobody looks: a file that somebody put into /tmp must not choose what is executed.
func Find(dir, home string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", diag.Errorf(Unreadable, "", "the working directory: %w", err)
	}
	top := searchTop(dir, home)
	for d := dir; ; d = filepath.Dir(d) {
		path := filepath.Join(d, FileName)
		switch _, err := os.Lstat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", diag.Errorf(Unreadable, "look at the permissions of the directory", "%w", err)
		}
		if d == top {
			break
		}
	}
	where := dir
	if top != dir {
		where += " nor above it up to " + top
	}
	return "", diag.Errorf(NotFound, "gpuemu init writes one; --config FILE names another", "there is no %s in %s",
		FileName, where)
}

// Applying returns the gpuemu.toml that a caller means: the file at a path or, where a directory is named, the one that
// applies there. It is the one rule of all clients: a command gives its working directory, a request what its client
// sends. That a directory has none is the error NotFound; a file that cannot be read is reported by Load.
func Applying(path, home string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return filepath.Clean(path), nil
	}
	return Find(path, home)
}

// searchTop returns the last directory to look at: the nearest one upwards that is the root of a repository or the home
// directory; dir itself if there is none.
func searchTop(dir, home string) string {
	var homeInfo os.FileInfo
	if home != "" && filepath.Dir(home) != home { // users of services have "/" as home: that would be everything
		homeInfo, _ = os.Stat(home) // no home, no bound
	}
	for d := dir; ; {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil { // a file in worktrees and submodules
			return d
		}
		if info, err := os.Stat(d); err == nil && homeInfo != nil && os.SameFile(info, homeInfo) {
			return d
		}
		up := filepath.Dir(d)
		if up == d {
			return dir
		}
		d = up
	}
}

// Load reads a configuration. A file, or a link to one, that belongs to another user is refused.
func Load(path string) (*Config, error) {
	data, err := read(path, os.Geteuid())
	if err != nil {
		return nil, err
	}
	return parsed(path, data)
}

// parsed is Parse with a directory that does not depend on where the process is.
func parsed(path string, data []byte) (*Config, error) {
	c, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, diag.Errorf(Unreadable, "", "the working directory: %w", err)
	}
	return c, nil
}

// read returns the content of a file that belongs to the user.
func read(path string, uid int) ([]byte, error) {
	at := diag.Pos{File: path}
	unreadable := func(err error) error {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err // the path stands in front already
		}
		code, hint := Unreadable, "look at the permissions of the file"
		if errors.Is(err, fs.ErrNotExist) {
			code, hint = NotFound, "gpuemu init writes one"
		}
		return diag.Errorf(code, hint, "%w", err).At(at)
	}
	link, err := os.Lstat(path)
	if err != nil {
		return nil, unreadable(err)
	}
	if err := checkOwner(at, link, uid); err != nil {
		return nil, err
	}
	// O_NONBLOCK: opening a pipe that nobody writes to must fail below and not hang here.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(err)
	}
	if !info.Mode().IsRegular() {
		return nil, diag.Errorf(Unreadable, "give the path of a "+FileName, "it is no regular file").At(at)
	}
	if err := checkOwner(at, info, uid); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

// checkOwner refuses what belongs to another user: running ops executes what the file names.
func checkOwner(at diag.Pos, info os.FileInfo, uid int) error {
	owner, known := ownerOf(info)
	if !known || owner == uid {
		return nil
	}
	what := "it"
	if info.Mode()&os.ModeSymlink != 0 {
		what = "the link"
	}
	return diag.Errorf(ForeignOwner, "if you trust it, copy it or change its owner: its ops run with your rights",
		"%s belongs to another user (%d, you are %d)", what, owner, uid).At(at)
}

// Parse reads a configuration from its bytes. The path is for messages and for Dir. The error is a *diag.Error or,
// where more than one thing is wrong, *Faults.
func Parse(path string, data []byte) (*Config, error) {
	if len(data) > MaxBytes {
		return nil, diag.Errorf(Limit, "split the project", "more than the limit of %d bytes", MaxBytes).
			At(diag.Pos{File: path})
	}
	root, err := parseTree(path, data)
	if err != nil {
		return nil, err
	}
	c := Default()
	r := &reader{path: path, data: data}
	r.table(root, documentKeys(c, &aliases{}))
	if err := r.err(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	c.Path, c.Dir, c.Digest = path, filepath.Dir(path), hex.EncodeToString(sum[:])
	return c, nil
}

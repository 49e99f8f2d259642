package project

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"gpuemu/internal/atomicfile"
	"gpuemu/internal/diag"
)

// This file implements writing a project without harm to what is there.

// Write writes the files into dir, which is created where it is missing. Everything is looked at before anything is
// written: without force a file that exists is in the way; with it, plain files are replaced, each as a whole, and
// nothing else is. Nothing is ever written outside dir, whatever links lie in it.
func Write(dir string, files []File, force bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return writeError(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return writeError(err)
	}
	defer root.Close()
	var taken []string
	for _, f := range files {
		exists, err := look(root, dir, f.Path)
		if err != nil {
			return err
		}
		if exists {
			taken = append(taken, f.Path)
		}
	}
	if len(taken) > 0 && !force {
		return diag.Errorf(InTheWay, "--force replaces them; -t DIR writes elsewhere", "%s already has %s", dir,
			strings.Join(taken, ", "))
	}
	return replace(root, files)
}

// look reports whether a file exists, and refuses places that must not be written to.
func look(root *os.Root, dir, name string) (bool, error) {
	if parent := path.Dir(name); parent != "." {
		switch info, err := root.Stat(filepath.FromSlash(parent)); {
		case errors.Is(err, fs.ErrNotExist) && !isLink(root, parent):
		case err != nil:
			return false, diag.Errorf(Outside, "take the link away, or choose another directory with -t",
				"%s in %s: %w", parent, dir, cause(err))
		case !info.IsDir():
			return false, diag.Errorf(Outside, "move it away, or choose another directory with -t",
				"%s in %s is not a directory", parent, dir)
		}
	}
	switch info, err := root.Lstat(filepath.FromSlash(name)); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, diag.Errorf(Outside, "look at the permissions of the directory", "%s in %s: %w", name, dir, cause(err))
	case !info.Mode().IsRegular():
		return false, diag.Errorf(Outside, "move it away, or choose another directory with -t",
			"%s in %s is a %s, not a plain file", name, dir, kindOf(info.Mode()))
	}
	return true, nil
}

// isLink reports whether name, or a directory above it, is a link: one that leads nowhere does not exist for Stat.
func isLink(root *os.Root, name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if info, err := root.Lstat(filepath.FromSlash(name)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "link"
	case mode.IsDir():
		return "directory"
	}
	return "special file"
}

// replace writes all files under other names first, so that a full disk leaves the old ones, then renames them.
func replace(root *os.Root, files []File) error {
	var staged []*atomicfile.Staged
	defer func() {
		for _, s := range staged {
			s.Discard()
		}
	}()
	for _, f := range files {
		name := filepath.FromSlash(f.Path)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return writeError(err)
		}
		s, err := atomicfile.Stage(root, name, 0o644, func(w io.Writer) error {
			_, err := w.Write(f.Content)
			return err
		})
		if err != nil {
			return writeError(err)
		}
		staged = append(staged, s)
	}
	for _, s := range staged {
		if err := s.Commit(); err != nil {
			return writeError(err)
		}
	}
	return nil
}

func writeError(err error) error {
	hint := "look at the permissions of the directory"
	if !errors.Is(err, fs.ErrPermission) {
		hint = "choose another directory with -t"
	}
	return diag.Errorf(WriteFailed, hint, "%w", err)
}

// cause is the error without operation and path, which the message names already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

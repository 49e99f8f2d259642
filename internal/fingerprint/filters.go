package fingerprint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements files that go through a filter on their way into a commit. A filter is a program of the user's
// choice and is never run here. An unchanged file counts as its blob, so its filter does not matter; for a changed
// one the result of Git LFS is known without it, and any other filter is an error.

// lfsPointer is the start of the file that Git LFS commits in place of a large one (its specification, "The
// Pointer").
const lfsPointer = "version https://git-lfs.github.com/spec/v1\n"

// maxLFSPointer is below what Git LFS itself takes for a pointer.
const maxLFSPointer = 1024

// unfilter puts the result of filters into the copy of the index: now is the index after all files were added, as
// they are, and then the one before. It reports whether the copy changed.
func (s *staging) unfilter(scope Scope, then, now []indexEntry) (bool, error) {
	if len(s.repo.git.filters) == 0 {
		return false, nil
	}
	ids := make(map[string]string, len(then))
	for _, e := range then {
		ids[e.Path] = e.id
	}
	var changed []string
	for _, e := range now {
		if e.Kind == File && scope.Contains(e.Path) && ids[e.Path] != e.id {
			changed = append(changed, e.Path)
		}
	}
	if len(changed) == 0 {
		return false, nil
	}
	out, err := s.run(nulList(changed), "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return false, err
	}
	fields := splitNUL(out) // path, "filter", value, …
	if len(fields) != 3*len(changed) {
		return false, diag.Errorf(GitFailed, "", "git check-attr: %d fields for %d files", len(fields), len(changed))
	}
	modes := make(map[string]string, len(now))
	for _, e := range now {
		modes[e.Path] = e.Mode
	}
	var info bytes.Buffer
	for i, path := range changed {
		driver := fields[3*i+2]
		if fields[3*i] != path {
			return false, diag.Errorf(GitFailed, "", "git check-attr: answer for another file than %s", Escape(path))
		}
		switch {
		case !s.repo.git.filters[driver]: // none is configured, so a commit would take the file as it is
		case driver == "lfs":
			id, err := s.addPointer(path)
			if err != nil {
				return false, err
			}
			if id != "" {
				fmt.Fprintf(&info, "%s %s\t%s\x00", modes[path], id, path)
			}
		default:
			return false, diag.Errorf(Incomplete, "commit it first; if it is unchanged, git status tells Git so",
				"%s is changed and goes through the filter %s, which is not run here", Escape(path), shortQuote(driver))
		}
	}
	if info.Len() == 0 {
		return false, nil
	}
	_, err = s.run(info.Bytes(), "update-index", "-z", "--index-info")
	return true, err
}

// addPointer stores the pointer of a large file and returns its id, "" where the file is committed as it is: an empty
// one, or one that is a pointer already.
func (s *staging) addPointer(path string) (string, error) {
	root, err := os.OpenRoot(s.repo.dir)
	if err != nil {
		return "", diag.Errorf(Incomplete, "", "%w", err)
	}
	defer root.Close()
	o, err := hashOutput(root, path)
	if err != nil {
		return "", err
	}
	if o.Size == 0 {
		return "", nil
	}
	if o.Size < maxLFSPointer {
		text, err := root.ReadFile(filepath.FromSlash(path))
		if err != nil {
			return "", diag.Errorf(Incomplete, "", "%s: %w", Escape(path), err)
		}
		if bytes.HasPrefix(text, []byte(lfsPointer)) {
			return "", nil
		}
	}
	pointer := fmt.Appendf(nil, "%soid sha256:%x\nsize %d\n", lfsPointer, o.SHA256, o.Size)
	id, err := s.run(pointer, "hash-object", "-w", "--stdin", "--no-filters")
	return strings.TrimSpace(string(id)), err
}

// nulList writes paths as git's -z --stdin takes them.
func nulList(paths []string) []byte { return []byte(strings.Join(paths, "\x00") + "\x00") }

package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements "sha256-manifest-v2", the digest of the original's version 0.4 (schema 3): a JSON object of
// names, kinds, modes and digests. Like the older digest it is computed of a commit, or of the working tree.

// V2Paths is what a manifest of the original's version 0.4 is about.
type V2Paths struct {
	Included []string // folders and files of the repository
	Extra    []string // files, links and folders that Git need not know; read from the working tree
	Excluded []string // exact paths left out
}

// ManifestV2 returns the digest of a commit, and of how many files it is.
func (r *Repo) ManifestV2(rev string, p V2Paths) (digest string, count int, err error) {
	files := map[string]string{}
	if len(p.Included) > 0 {
		s, err := ParseScope(p.Included)
		if err != nil {
			return "", 0, err
		}
		m, err := r.AtCommit(rev, s, Options{Exclude: p.Excluded})
		if err != nil {
			return "", 0, err
		}
		addV2(files, m.Entries)
	}
	return r.finishV2(files, p)
}

// addV2 adds entries under their names.
func addV2(files map[string]string, entries []Entry) {
	for _, e := range entries {
		if e.Kind == Gitlink {
			files[e.Path] = fmt.Sprintf(`{"commit":"%s","kind":"gitlink","mode":"160000"}`, e.Commit)
			continue
		}
		files[e.Path] = fmt.Sprintf(`{"kind":"%s","mode":"%s","sha256":"%x"}`, e.Kind, e.Mode, e.SHA256[:])
	}
}

// finishV2 adds the extra paths and hashes it all.
func (r *Repo) finishV2(files map[string]string, p V2Paths) (digest string, count int, err error) {
	if err := r.addExtra(files, p); err != nil {
		return "", 0, err
	}
	if len(files) == 0 {
		return "", 0, diag.Errorf(EmptyScope, "", "the fingerprint has no files")
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sortPython(names)
	b := []byte(`{"files":{`)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(appendPython(b, name), ':'), files[name]...)
	}
	sum := sha256.Sum256(append(b, "}}"...))
	return hex.EncodeToString(sum[:]), len(files), nil
}

// addExtra adds what the extra paths name, unless it is there already. Folders are walked without following links.
func (r *Repo) addExtra(files map[string]string, p V2Paths) error {
	if len(p.Extra) == 0 {
		return nil
	}
	if r.bare {
		return diag.Errorf(NoRepo, "name a clone with files", "a bare repository has no extra files")
	}
	excluded, err := Options{Exclude: p.Excluded}.exclude()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return diag.Errorf(BadOutput, "", "%w", err)
	}
	defer root.Close()
	extras, err := extraRoots(p.Extra)
	if err != nil {
		return err
	}
	for _, extra := range extras {
		err = fs.WalkDir(root.FS(), extra, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			_, there := files[name]
			if _, out := slices.BinarySearch(excluded, name); there || out {
				return nil
			}
			if len(files) >= maxEntries {
				return diag.Errorf(Limit, "", "more than %d files", maxEntries)
			}
			text, err := extraEntry(root, name, d.Type())
			if text != "" {
				files[name] = text
			}
			return err
		})
		if err != nil && diag.CodeOf(err) == "" {
			err = diag.Errorf(BadOutput, "build it first, and name a place inside the repository", "extra path %s: %w",
				Escape(extra), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// extraRoots are the extra paths without those that lie in others: how often the same folder is named is the signer's
// choice, and it is walked once.
func extraRoots(paths []string) ([]string, error) {
	if len(paths) > maxScopePaths {
		return nil, diag.Errorf(BadScope, "name the folder that holds them", "%d extra paths, limit %d", len(paths),
			maxScopePaths)
	}
	var clean []string
	for _, raw := range paths {
		p, err := cleanPath("extra", raw)
		if err != nil {
			return nil, err
		}
		clean = append(clean, p)
	}
	slices.Sort(clean)
	clean = slices.Compact(clean)
	return slices.DeleteFunc(slices.Clone(clean), func(p string) bool {
		return slices.ContainsFunc(clean, func(other string) bool { return other != p && within(other, p) })
	}), nil
}

// extraEntry describes one extra file or link, "" for what is neither.
func extraEntry(root *os.Root, name string, mode fs.FileMode) (string, error) {
	switch {
	case mode&fs.ModeSymlink != 0:
		target, err := root.Readlink(filepath.FromSlash(name))
		if err != nil {
			return "", err
		}
		return fmt.Sprintf(`{"kind":"extra-symlink","sha256":"%x"}`, sha256.Sum256([]byte(target))), nil
	case mode.IsRegular():
		o, err := hashOutput(root, strings.TrimPrefix(name, "./"))
		if err != nil {
			return "", err
		}
		return fmt.Sprintf(`{"kind":"extra-file","sha256":"%x"}`, o.SHA256), nil
	}
	return "", nil
}

// Package fingerprint says what was tested: the entries of a Git tree inside a scope with their digest, and the
// machine they ran on.
//
// Its main type is Manifest: every file, symbolic link and submodule of a scope, each with its mode and the SHA-256
// of its content, either of a commit (AtCommit) or of the files that lie there (WorkingTree). The same content has
// the same digest, whichever commit it came in by: squashed, rebased, merged, or cloned without history.
//
// Git itself is run as a program, with everything switched off that would run another: hooks, filters, monitors,
// helpers, lazy fetches. What cannot be counted (unreadable, unmerged, empty) is an error, never left out.
//
// It does not decide whether a fingerprint is good enough: that is package policy. It starts no goroutine.
package fingerprint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Kind is what an entry is.
type Kind string

const (
	File    Kind = "file"    // a regular file
	Symlink Kind = "symlink" // a symbolic link: its content is the text of its target, which is not followed
	Gitlink Kind = "gitlink" // a submodule: only its commit counts
)

// Entry is one path of a tree.
type Entry struct {
	Path   string   // from the top of the repository, with "/"; any bytes but NUL
	Kind   Kind     //
	Mode   string   // Git's: 100644, 100755, 120000, 160000
	SHA256 [32]byte // of the content (file) or of the target's text (symlink)
	Commit string   // of a gitlink: 40 or 64 hex digits
	Target string   // of a symlink: its text
}

// digest is the hex text that stands for the entry's content.
func (e Entry) digest() string {
	if e.Kind == Gitlink {
		return e.Commit
	}
	return hex.EncodeToString(e.SHA256[:])
}

// Output is a build output that Git ignores, named by the user.
type Output struct {
	Path   string
	SHA256 [32]byte
	Size   int64
}

// Manifest is all that was found in a scope.
type Manifest struct {
	Scope   Scope
	Exclude []string // exact paths left out (the receipt itself); sorted
	Entries []Entry  // sorted by the bytes of their paths; at least one

	// Of a working tree only, and not part of the digest:
	Outputs []Output // the build outputs of Options, sorted
	Ignored []string // what .gitignore files hide in the scope, sorted; a folder wholly ignored ends in "/"
}

// manifestHeader is the first line of the canonical text: another form needs another version.
const manifestHeader = "gpu-proof manifest v1\n"

// Canonical returns the text whose SHA-256 is the digest. It has one line for the version, one for each path of the
// scope and of the exclusions, one for each entry; docs/receipts.md has the grammar. Bytes of paths outside
// "!" to "~", and "%" itself, are written %XX, so that no name can look like another line.
func (m *Manifest) Canonical() []byte {
	b := []byte(manifestHeader)
	for _, p := range m.Scope.paths {
		b = fmt.Appendf(b, "scope %s\n", Escape(p))
	}
	for _, p := range m.Exclude {
		b = fmt.Appendf(b, "exclude %s\n", Escape(p))
	}
	for _, e := range m.Entries {
		b = fmt.Appendf(b, "%s %s %s %s\n", e.Kind, e.Mode, e.digest(), Escape(e.Path))
	}
	return b
}

// Digest is the hex SHA-256 of the canonical text.
func (m *Manifest) Digest() string {
	sum := sha256.Sum256(m.Canonical())
	return hex.EncodeToString(sum[:])
}

// LinksOutside returns the symbolic links whose target is not in the scope: what lies there was part of the run,
// perhaps, but is not part of the digest. Targets are followed as text, link by link only where the scope has the
// link.
func (m *Manifest) LinksOutside() []string {
	var outside []string
	for _, e := range m.Entries {
		if e.Kind != Symlink {
			continue
		}
		to := path.Join(path.Dir(e.Path), e.Target)
		if path.IsAbs(e.Target) || !m.Scope.Contains(to) {
			outside = append(outside, e.Path)
		}
	}
	return outside
}

// hiddenSuffixes are the endings of files that a test run loads by itself: an ignored one is not in the digest and
// can still decide the outcome (a conftest.py that Git ignores, the compiled extension itself).
var hiddenSuffixes = []string{".py", ".pyd", ".pth", ".so", ".dll", ".dylib", ".cu", ".cuh", ".cubin", ".fatbin",
	".ptx", ".hsaco"}

// HiddenCode returns the ignored files that look like code and are not named as outputs.
func (m *Manifest) HiddenCode() []string {
	named := map[string]bool{}
	for _, o := range m.Outputs {
		named[o.Path] = true
	}
	var hidden []string
	for _, p := range m.Ignored {
		if !named[p] && slices.Contains(hiddenSuffixes, strings.ToLower(path.Ext(p))) {
			hidden = append(hidden, p)
		}
	}
	return hidden
}

// Change is one difference between two trees: of several at one path the gravest.
type Change struct {
	Path string
	What string // added, removed, content, mode, kind
}

// diffEntries lists what is different now, by path. It walks two sorted lists; same says whether two entries of one
// path and kind have the same content.
func diffEntries(then, now []Entry, same func(then, now Entry) bool) []Change {
	var changes []Change
	i, j := 0, 0
	for i < len(then) || j < len(now) {
		var order int
		switch {
		case i == len(then):
			order = 1
		case j == len(now):
			order = -1
		default:
			order = cmp.Compare(then[i].Path, now[j].Path)
		}
		switch {
		case order < 0:
			changes = append(changes, Change{then[i].Path, "removed"})
			i++
		case order > 0:
			changes = append(changes, Change{now[j].Path, "added"})
			j++
		default:
			if what := difference(then[i], now[j], same); what != "" {
				changes = append(changes, Change{now[j].Path, what})
			}
			i++
			j++
		}
	}
	return changes
}

// difference says how two entries of one path differ, "" if they do not.
func difference(then, now Entry, same func(then, now Entry) bool) string {
	switch {
	case then.Kind != now.Kind:
		return "kind"
	case !same(then, now):
		return "content"
	case then.Mode != now.Mode:
		return "mode"
	}
	return ""
}

// Escape writes a path as the canonical text does: bytes outside "!" to "~", and "%", as %XX. The result is safe to
// print, and different paths give different texts.
func Escape(p string) string {
	clean := true
	for i := 0; i < len(p) && clean; i++ {
		clean = plainByte(p[i])
	}
	if clean {
		return p
	}
	b := make([]byte, 0, len(p)+8)
	for i := 0; i < len(p); i++ {
		if plainByte(p[i]) {
			b = append(b, p[i])
		} else {
			b = fmt.Appendf(b, "%%%02X", p[i])
		}
	}
	return string(b)
}

func plainByte(c byte) bool { return c > ' ' && c < 0x7f && c != '%' }

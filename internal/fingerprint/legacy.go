package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gpuemu/internal/diag"
)

// This file implements the original's digest "sha256" (its schemas 1 and 2): a JSON object of names and digests of
// file contents, made by following links and leaving out whatever did not open.
//
// It is computed of a commit's objects, links being followed inside the tree only, because that is what a verifier
// judges; the original read the working tree, and LegacyWorkingTree does so too, but never leaves the repository.

// LegacyReading is the digest under one reading of the rule. The original left out names that Git quotes; which names
// those are depended on the signer's configuration, and its version 0.4 quotes none.
type LegacyReading struct {
	Name     string // plain, unquoted, all
	Digest   string // hex
	Preimage []byte // the hashed text
	Files    int
	Gaps     []LegacyGap // entries of the scope that the digest does not pin down
}

// LegacyGap is an entry that could change without a change of the digest.
type LegacyGap struct {
	Path string
	Why  GapReason
}

// GapReason says what the original's digest does not see.
type GapReason string

const (
	GapName    GapReason = "name"    // the name was quoted, and the file left out
	GapLink    GapReason = "link"    // a symbolic link: its target's content counts, or nothing at all
	GapGitlink GapReason = "gitlink" // a submodule: left out
	GapMode    GapReason = "mode"    // an executable: the mode does not count; nor does a bit that was lost, unseen
)

// LegacyDigest is the original's digest in its readings.
type LegacyDigest struct{ Readings []LegacyReading }

// Match returns the reading that gives the digest, nil if none does.
func (d *LegacyDigest) Match(digest string) *LegacyReading {
	for i := range d.Readings {
		if d.Readings[i].Digest == digest {
			return &d.Readings[i]
		}
	}
	return nil
}

// readings are the three rules for names, strictest first: which names the digest has.
var readings = []struct {
	name string
	has  func(path string) bool
}{
	{"plain", func(p string) bool { return !quoted(p, true) }},
	{"unquoted", func(p string) bool { return !quoted(p, false) }},
	{"all", func(string) bool { return true }},
}

// quoted reports whether git ls-files without -z puts a name into quotes; nonASCII is core.quotePath.
func quoted(p string, nonASCII bool) bool {
	for i := 0; i < len(p); i++ {
		if c := p[i]; c < ' ' || c == '"' || c == '\\' || c == 0x7f || nonASCII && c >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// legacyScope reads the original's included_paths: plain paths as ours, and an empty list for everything.
func legacyScope(paths []string) (Scope, error) {
	if len(paths) == 0 {
		return All(), nil
	}
	return ParseScope(paths)
}

// Legacy computes the original's digest of a commit. paths are the original's included_paths; an empty list means
// every tracked file, as it did there.
func (r *Repo) Legacy(rev string, paths []string) (*LegacyDigest, error) {
	scope, err := legacyScope(paths)
	if err != nil {
		return nil, err
	}
	commit, err := r.Resolve(rev)
	if err != nil {
		return nil, err
	}
	all, err := r.listTree(commit)
	if err != nil {
		return nil, err
	}
	t, err := r.linkTree(all)
	if err != nil {
		return nil, err
	}
	// What counts is what the scope's entries lead to, which may lie outside the scope.
	content := map[string][32]byte{}
	var needed []objectEntry
	for _, e := range all {
		to, ok := t.follow(e.Path)
		if _, known := content[to]; ok && !known && scope.Contains(e.Path) && t.entries[to].Kind == File {
			content[to] = [32]byte{}
			needed = append(needed, t.entries[to])
		}
	}
	m := &Manifest{}
	if err := r.hash(m, needed, nil); err != nil {
		return nil, err
	}
	for _, e := range m.Entries {
		content[e.Path] = e.SHA256
	}
	return legacyDigest(all, scope, "at "+rev, func(e Entry) ([32]byte, bool, error) {
		to, _ := t.follow(e.Path)
		sum, ok := content[to]
		return sum, ok, nil
	})
}

// legacyDigest makes the readings of the entries of a scope; content gives what the original would have read, false
// where it left the entry out.
func legacyDigest(entries []objectEntry, scope Scope, where string,
	content func(Entry) (sum [32]byte, ok bool, err error)) (*LegacyDigest, error) {
	d := &LegacyDigest{}
	sums := map[string][32]byte{}
	var inScope []Entry
	for _, e := range entries {
		if !scope.Contains(e.Path) {
			continue
		}
		inScope = append(inScope, e.Entry)
		sum, ok, err := content(e.Entry)
		if err != nil {
			return nil, err
		}
		if ok {
			sums[e.Path] = sum
		}
	}
	for _, reading := range readings {
		lr := LegacyReading{Name: reading.name}
		files := map[string][32]byte{}
		for _, e := range inScope {
			if sum, ok := sums[e.Path]; ok && reading.has(e.Path) {
				files[e.Path] = sum
			}
			if why := legacyGap(e, reading.has(e.Path)); why != "" {
				lr.Gaps = append(lr.Gaps, LegacyGap{e.Path, why})
			}
		}
		if lr.Files = len(files); lr.Files == 0 {
			return nil, diag.Errorf(EmptyScope, "", "the paths %s name no file %s that the original's digest has",
				shortQuote(scope.String()), where)
		}
		// Each reading has the names of the one before it and perhaps more: as many are the same.
		if n := len(d.Readings); n > 0 && d.Readings[n-1].Files == lr.Files {
			lr.Preimage, lr.Digest = d.Readings[n-1].Preimage, d.Readings[n-1].Digest
		} else {
			lr.Preimage = legacyPreimage(files)
			sum := sha256.Sum256(lr.Preimage)
			lr.Digest = hex.EncodeToString(sum[:])
		}
		d.Readings = append(d.Readings, lr)
	}
	return d, nil
}

// legacyGap says what of an entry the digest does not see, "" if nothing is missing.
func legacyGap(e Entry, named bool) GapReason {
	switch {
	case e.Kind == Gitlink:
		return GapGitlink
	case e.Kind == Symlink:
		return GapLink
	case !named:
		return GapName
	case e.Mode == "100755":
		return GapMode
	}
	return ""
}

// legacyPreimage writes {"files":{name:hex,…}} as Python's json.dumps does, sorted and compact.
func legacyPreimage(files map[string][32]byte) []byte {
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
		sum := files[name]
		b = fmt.Appendf(appendPython(b, name), `:"%x"`, sum[:])
	}
	return append(b, "}}"...)
}

// sortPython sorts names as Python sorts them after decoding: by code point, a byte that is not UTF-8 being U+DC00 +
// b.
func sortPython(names []string) {
	slices.SortFunc(names, func(x, y string) int {
		if utf8.ValidString(x) && utf8.ValidString(y) {
			return strings.Compare(x, y) // bytes of UTF-8 are in the order of code points
		}
		return slices.Compare(pythonRunes(x), pythonRunes(y))
	})
}

// pythonRunes decodes a name as Python does a file name: UTF-8 with "surrogateescape" (PEP 383).
func pythonRunes(s string) []rune {
	runes := make([]rune, 0, len(s))
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		if c == utf8.RuneError && n == 1 {
			c = 0xdc00 + rune(s[0])
		}
		runes = append(runes, c)
		s = s[n:]
	}
	return runes
}

// appendPython appends a name as a JSON string of Python's json.dumps: ASCII only.
func appendPython(b []byte, name string) []byte {
	b = append(b, '"')
	for _, c := range pythonRunes(name) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case strings.ContainsRune("\n\r\t\b\f", c):
			b = append(b, '\\', "nrtbf"[strings.IndexRune("\n\r\t\b\f", c)])
		case c >= ' ' && c < 0x7f:
			b = append(b, byte(c))
		case c >= 0x10000:
			c -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return append(b, '"')
}

// maxLinks is how many links one path may lead through, as in Linux.
const maxLinks = 40

// linkTree follows symbolic links inside a tree of objects.
type linkTree struct{ entries map[string]objectEntry }

// linkTree makes the tree of all entries, and reads the targets of its links.
func (r *Repo) linkTree(all []objectEntry) (*linkTree, error) {
	t := &linkTree{entries: make(map[string]objectEntry, len(all))}
	var links []objectEntry
	for _, e := range all {
		t.entries[e.Path] = e
		if e.Kind == Symlink {
			links = append(links, e)
		}
	}
	m := &Manifest{}
	if err := r.hash(m, links, nil); err != nil {
		return nil, err
	}
	for i, e := range m.Entries {
		t.entries[e.Path] = objectEntry{e, links[i].id}
	}
	return t, nil
}

// follow returns the entry that a path leads to, false if it leads to a folder, to nothing, or out of the tree.
func (t *linkTree) follow(p string) (string, bool) {
	rest, at := strings.Split(p, "/"), ""
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at == "" {
				return "", false
			}
			if at = path.Dir(at); at == "." {
				at = ""
			}
			continue
		}
		here := path.Join(at, name)
		e, ok := t.entries[here]
		switch {
		case ok && e.Kind == Symlink:
			if links++; links > maxLinks || path.IsAbs(e.Target) || e.Target == "" {
				return "", false
			}
			rest = append(strings.Split(e.Target, "/"), rest...)
		case ok:
			if len(rest) > 0 {
				return "", false // a file where a folder should be; "x/" and "x/." are such too
			}
			return here, true
		default:
			at = here // a folder, or nothing: the next name will tell
		}
	}
	return "", false
}

// LegacyWorkingTree computes the original's digest of the working tree: the tracked files as they lie there. It is
// for writing a receipt that the original accepts. What is not a regular file inside the repository is left out.
func (r *Repo) LegacyWorkingTree(paths []string) (*LegacyDigest, error) {
	scope, err := legacyScope(paths)
	if err != nil {
		return nil, err
	}
	st, err := r.stage()
	if err != nil {
		return nil, err
	}
	defer st.close()
	tracked, err := st.list()
	if err != nil {
		return nil, err
	}
	entries := make([]objectEntry, len(tracked))
	for i, e := range tracked {
		entries[i] = e.objectEntry
	}
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, diag.Errorf(Incomplete, "", "%w", err)
	}
	defer root.Close()
	return legacyDigest(entries, scope, "in the working tree", func(e Entry) ([32]byte, bool, error) {
		return readLegacy(root, e.Path)
	})
}

// readLegacy hashes a file as the original does, through links, but never leaves root and opens no pipe or device. A
// file that is there and cannot be read is an error: the original left it out.
func readLegacy(root *os.Root, p string) (sum [32]byte, ok bool, err error) {
	name := filepath.FromSlash(p)
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return sum, false, nil
	}
	f, err := root.Open(name)
	if err == nil {
		defer f.Close()
		h := sha256.New()
		if _, err = io.Copy(h, f); err == nil {
			return [32]byte(h.Sum(nil)), true, nil
		}
	}
	return sum, false, diag.Errorf(Incomplete, "make every file of the scope readable", "%s: %w", Escape(p), err)
}

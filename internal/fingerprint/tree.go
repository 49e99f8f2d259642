package fingerprint

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements manifests of commits: the list of a tree, and the digests of its blobs.

// Limits of what is hashed. They stop a hostile repository, not a large one.
const (
	maxEntries = 2_000_000
	maxTarget  = 4096 // bytes of a symbolic link's text; PATH_MAX of Linux
)

// Options are the particulars of a manifest.
type Options struct {
	Exclude []string // exact paths that are left out: the receipt itself
	Outputs []string // of a working tree: ignored build outputs, hashed one by one
}

// exclude checks the exclusions and sorts them.
func (o Options) exclude() ([]string, error) {
	var clean []string
	for _, p := range o.Exclude {
		c, err := cleanPath("excluded", p)
		if err != nil {
			return nil, err
		}
		clean = append(clean, c)
	}
	slices.Sort(clean)
	return slices.Compact(clean), nil
}

// objectEntry is an entry with the id of its object: all that Git's own lists have.
type objectEntry struct {
	Entry
	id string
}

// AtCommit returns the manifest of a commit: HEAD, a full commit id or a plain ref. Only objects are read; no file of
// the working tree and no filter has a say.
func (r *Repo) AtCommit(rev string, s Scope, o Options) (*Manifest, error) {
	commit, err := r.Resolve(rev)
	if err != nil {
		return nil, err
	}
	entries, err := r.listTree(commit)
	if err != nil {
		return nil, err
	}
	m, found, err := selectEntries(entries, s, o, "at "+rev)
	if err != nil {
		return nil, err
	}
	if err := r.hash(m, found, nil); err != nil {
		return nil, err
	}
	return m, nil
}

// CompareCommits lists the entries of the scope that differ between two commits: blob, mode, link or submodule. It
// compares object ids, and so takes no longer for large files.
func (r *Repo) CompareCommits(then, now string, s Scope, o Options) ([]Change, error) {
	var lists [2][]objectEntry
	for i, rev := range []string{then, now} {
		commit, err := r.Resolve(rev)
		if err != nil {
			return nil, err
		}
		all, err := r.listTree(commit)
		if err != nil {
			return nil, err
		}
		exclude, err := o.exclude()
		if err != nil {
			return nil, err
		}
		for _, e := range all {
			if _, out := slices.BinarySearch(exclude, e.Path); !out && s.Contains(e.Path) {
				lists[i] = append(lists[i], e)
			}
		}
	}
	return diffObjects(lists[0], lists[1]), nil
}

// Names returns the paths of all entries of a commit, sorted by their bytes.
func (r *Repo) Names(rev string) ([]string, error) {
	commit, err := r.Resolve(rev)
	if err != nil {
		return nil, err
	}
	all, err := r.listTree(commit)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Path
	}
	slices.Sort(names)
	return names, nil
}

// diffObjects compares two sorted lists by object ids.
func diffObjects(then, now []objectEntry) []Change {
	ids := [2]map[string]string{}
	var entries [2][]Entry
	for i, list := range [][]objectEntry{then, now} {
		ids[i] = make(map[string]string, len(list))
		for _, e := range list {
			ids[i][e.Path] = e.id
			entries[i] = append(entries[i], e.Entry)
		}
	}
	return diffEntries(entries[0], entries[1], func(then, now Entry) bool { return ids[0][then.Path] == ids[1][now.Path] })
}

// selectEntries takes the entries of the scope out of all. Every path of the scope must name something: a scope that
// has come to be empty would prove nothing and look the same.
func selectEntries(all []objectEntry, s Scope, o Options, where string) (*Manifest, []objectEntry, error) {
	if len(s.paths) == 0 {
		return nil, nil, diag.Errorf(EmptyScope, "", "the scope has no paths")
	}
	exclude, err := o.exclude()
	if err != nil {
		return nil, nil, err
	}
	m := &Manifest{Scope: s, Exclude: exclude}
	var found []objectEntry
	used := make([]bool, len(s.paths))
	for _, e := range all {
		if _, out := slices.BinarySearch(exclude, e.Path); out || !s.Contains(e.Path) {
			continue
		}
		for i, p := range s.paths {
			used[i] = used[i] || within(p, e.Path)
			if e.Kind == Symlink && e.Path == p {
				return nil, nil, diag.Errorf(BadScope, "name the folder or file that it leads to",
					"scope path %s is a symbolic link %s: what it leads to would not be counted", Escape(p), where)
			}
		}
		found = append(found, e)
	}
	for i, p := range s.paths {
		if !used[i] {
			return nil, nil, diag.Errorf(EmptyScope,
				"name the folders of the code: --path, or --gpu-proof-fingerprint-paths of pytest, and scope in the policy",
				"scope path %s names no file %s", Escape(p), where)
		}
	}
	return m, found, nil
}

// listTree lists all of a commit's tree, sorted by path.
func (r *Repo) listTree(commit string) ([]objectEntry, error) {
	out, err := r.run("ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	return parseTree(out, r.idLen)
}

// parseTree reads the answer of ls-tree -r -z: mode SP type SP id TAB path NUL.
func parseTree(out []byte, idLen int) ([]objectEntry, error) {
	var entries []objectEntry
	for len(out) > 0 {
		line, rest, ok := bytes.Cut(out, []byte{0})
		if !ok {
			return nil, diag.Errorf(GitFailed, "", "git ls-tree: the answer ends inside an entry")
		}
		out = rest
		meta, path, ok := strings.Cut(string(line), "\t")
		fields := strings.Split(meta, " ")
		if !ok || len(fields) != 3 || path == "" {
			return nil, diag.Errorf(GitFailed, "", "git ls-tree: entry %s cannot be read", shortQuote(string(line)))
		}
		e, err := newEntry(path, fields[0], fields[2], idLen)
		if err != nil {
			return nil, err
		}
		if entries = append(entries, e); len(entries) > maxEntries {
			return nil, diag.Errorf(Limit, "", "the tree has more than %d entries", maxEntries)
		}
	}
	return sortedEntries(entries)
}

// newEntry makes an entry of Git's mode and id.
func newEntry(path, mode, id string, idLen int) (objectEntry, error) {
	e := objectEntry{Entry: Entry{Path: path, Mode: mode}, id: id}
	switch mode {
	case "100644", "100755":
		e.Kind = File
	case "100664": // of very old versions of Git, which reads it as 100644
		e.Kind, e.Mode = File, "100644"
	case "120000":
		e.Kind = Symlink
	case "160000":
		e.Kind, e.Commit = Gitlink, id
	default:
		return e, diag.Errorf(Incomplete, "", "%s has the unknown mode %s", Escape(path), shortQuote(mode))
	}
	if len(id) != idLen || !IsCommitID(id) {
		return e, diag.Errorf(GitFailed, "", "%s has the object id %s", Escape(path), shortQuote(id))
	}
	if path == "" || path[0] == '/' || strings.IndexByte(path, 0) >= 0 {
		return e, diag.Errorf(Incomplete, "", "a tree has the path %s", shortQuote(path))
	}
	return e, nil
}

// sortedEntries sorts by path. Git sorts a folder as if its name ended in "/", and a broken tree may have a name
// twice.
func sortedEntries(entries []objectEntry) ([]objectEntry, error) {
	slices.SortFunc(entries, func(x, y objectEntry) int { return strings.Compare(x.Path, y.Path) })
	for i := 1; i < len(entries); i++ {
		if entries[i].Path == entries[i-1].Path {
			return nil, diag.Errorf(Incomplete, "run git fsck", "the tree has the path %s twice", Escape(entries[i].Path))
		}
	}
	return entries, nil
}

// hash fills m's entries with the digests of the objects. env says where temporary objects are.
func (r *Repo) hash(m *Manifest, found []objectEntry, env []string) error {
	m.Entries = make([]Entry, len(found))
	of := map[string][]int{} // which entries have an object
	var ids []string
	for i, e := range found {
		m.Entries[i] = e.Entry
		if e.Kind == Gitlink {
			continue
		}
		if of[e.id] == nil {
			ids = append(ids, e.id)
		}
		of[e.id] = append(of[e.id], i)
	}
	return r.readBlobs(ids, env, func(i int, size int64, body bodyReader) error {
		sum, target, err := hashBlob(size, body)
		if err != nil {
			return err
		}
		for _, at := range of[ids[i]] {
			e := &m.Entries[at]
			e.SHA256 = sum
			if e.Kind == Symlink {
				if size > maxTarget {
					return diag.Errorf(Incomplete, "", "symbolic link %s has a target of %d bytes", Escape(e.Path), size)
				}
				e.Target = target
			}
		}
		return nil
	})
}

// hashBlob returns the digest of a blob and, where it may be a link's text, the text.
func hashBlob(size int64, body bodyReader) (sum [32]byte, target string, err error) {
	h := sha256.New()
	if size <= maxTarget {
		text, err := body.all(size)
		if err != nil {
			return sum, "", err
		}
		h.Write(text)
		target = string(text)
	} else if _, err := io.Copy(h, body); err != nil {
		return sum, "", err
	}
	return [32]byte(h.Sum(nil)), target, nil
}

// bodyReader reads the content of one object.
type bodyReader struct{ io.Reader }

// all reads it whole.
func (b bodyReader) all(size int64) ([]byte, error) {
	text := make([]byte, size)
	_, err := io.ReadFull(b, text)
	return text, err
}

// missingHint is the next step where an object is missing.
const missingHint = "fetch it: a partial clone does not have all objects, and nothing is fetched here"

// readBlobs gives the content of objects to use, in the order of ids, from one run of git. use may read less than
// all.
func (r *Repo) readBlobs(ids, env []string, use func(i int, size int64, body bodyReader) error) error {
	if len(ids) == 0 {
		return nil
	}
	pipe, wait, err := r.git.start(call{dir: r.dir, args: []string{"cat-file", "--batch", "--buffer"}, env: env,
		stdin: strings.NewReader(strings.Join(ids, "\n") + "\n")})
	if err != nil {
		return err
	}
	err = readBatch(bufio.NewReaderSize(pipe, 1<<18), ids, use)
	if gitErr := wait(); gitErr != nil && (err == nil || diag.CodeOf(err) == "") {
		if diag.CodeOf(gitErr) == GitFailed { // the cause of a stream that ended early
			return diag.Errorf(NoObject, missingHint, "objects cannot be read: %w", gitErr)
		}
		return gitErr
	}
	return err
}

// readBatch reads the answer of cat-file --batch: id SP type SP size LF content LF.
func readBatch(in *bufio.Reader, ids []string, use func(i int, size int64, body bodyReader) error) error {
	for i, id := range ids {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("git cat-file: object %s: %w", id, err)
		}
		fields := strings.Fields(string(line))
		if len(fields) != 3 || fields[0] != id || fields[1] != "blob" {
			return diag.Errorf(NoObject, missingHint,
				"object %s is not in this clone, or is no file: git says %s", id, shortQuote(string(line)))
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || size < 0 {
			return diag.Errorf(GitFailed, "", "git cat-file: object %s has the size %s", id, shortQuote(fields[2]))
		}
		body := &io.LimitedReader{R: in, N: size}
		if err := use(i, size, bodyReader{body}); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, body); err != nil || body.N != 0 {
			return fmt.Errorf("git cat-file: object %s ends early", id)
		}
		if end, err := in.ReadByte(); err != nil || end != '\n' {
			return fmt.Errorf("git cat-file: object %s has no end", id)
		}
	}
	return nil
}

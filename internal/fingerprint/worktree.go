package fingerprint

import (
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements manifests of working trees. Git itself says what a commit of everything that lies there would
// hold: a copy of the index takes all files of the scope, new objects go to a temporary folder, and the entries of
// that copy are the manifest. So the digest is the one the commit will have, line endings and modes included, and
// nothing in the repository is written.

// maxSubmoduleDepth bounds submodules of submodules.
const maxSubmoduleDepth = 8

// staging is a copy of the index, and the folder of new objects.
type staging struct {
	repo *Repo
	dir  string
	env  []string
}

// stage makes the copy. close removes it.
func (r *Repo) stage() (*staging, error) {
	if r.bare {
		return nil, diag.Errorf(NoRepo, "name a clone with files", "%s is a bare repository", shortQuote(r.dir))
	}
	var paths [2]string
	for i, name := range []string{"index", "objects"} {
		out, err := r.run("rev-parse", "--git-path", name)
		if err != nil {
			return nil, err
		}
		p := filepath.FromSlash(strings.TrimSuffix(string(out), "\n"))
		if !filepath.IsAbs(p) {
			p = filepath.Join(r.dir, p)
		}
		paths[i] = p
	}
	dir, err := os.MkdirTemp("", "gpu-proof-")
	if err != nil {
		return nil, diag.Errorf(Incomplete, "make the temporary folder writable", "%w", err)
	}
	if real, err := filepath.EvalSymlinks(dir); err != nil || insideDir(r.dir, real) {
		os.RemoveAll(dir)
		return nil, diag.Errorf(Incomplete, "set TMPDIR to a folder outside the repository",
			"the temporary folder lies in the working tree")
	}
	s := &staging{repo: r, dir: dir, env: []string{
		"GIT_INDEX_FILE=" + filepath.Join(dir, "index"),
		"GIT_OBJECT_DIRECTORY=" + filepath.Join(dir, "objects"),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quoteAlternate(paths[1]),
	}}
	err = os.Mkdir(filepath.Join(dir, "objects"), 0o700)
	if err == nil {
		err = copyFile(paths[0], filepath.Join(dir, "index"))
	}
	if err != nil {
		s.close()
		return nil, diag.Errorf(Incomplete, "", "the index cannot be read: %w", err)
	}
	return s, nil
}

// insideDir reports whether a path without links lies in the folder dir.
func insideDir(dir, p string) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return true
	}
	rel, err := filepath.Rel(real, p)
	return err == nil && filepath.IsLocal(rel)
}

func (s *staging) close() { os.RemoveAll(s.dir) }

// quoteAlternate writes a path so that a list separator in it does not end it (gitenv: C-style quotes).
func quoteAlternate(p string) string {
	if !strings.ContainsAny(p, ":;\"\n\\") || filepath.Separator == '\\' {
		return p
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(p) + `"`
}

// copyFile copies a file. A missing one is an index without entries: nothing was added yet.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	// A file as young as the index may have changed since; git compares such files with their blobs, and tells them
	// by the index file's own time.
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// run runs git on the copy.
func (s *staging) run(stdin []byte, args ...string) ([]byte, error) {
	return s.repo.git.run(call{dir: s.repo.dir, args: args, stdin: bytes.NewReader(stdin), env: s.env})
}

// indexEntry is one line of ls-files -s -v.
type indexEntry struct {
	objectEntry
	assumed bool // "assume unchanged" is set: git would not look at the file
	skipped bool // of a sparse checkout: the file need not be there
}

// list lists the index.
func (s *staging) list() ([]indexEntry, error) {
	out, err := s.run(nil, "ls-files", "-s", "-v", "-z")
	if err != nil {
		return nil, err
	}
	return parseIndex(out, s.repo.idLen)
}

// parseIndex reads the answer of ls-files -s -v -z: tag SP mode SP id SP stage TAB path NUL.
func parseIndex(out []byte, idLen int) ([]indexEntry, error) {
	var entries []indexEntry
	for len(out) > 0 {
		line, rest, ok := bytes.Cut(out, []byte{0})
		if !ok {
			return nil, diag.Errorf(GitFailed, "", "git ls-files: the answer ends inside an entry")
		}
		out = rest
		meta, path, ok := strings.Cut(string(line), "\t")
		fields := strings.Split(meta, " ")
		if !ok || len(fields) != 4 || len(fields[0]) != 1 {
			return nil, diag.Errorf(GitFailed, "", "git ls-files: entry %s cannot be read", shortQuote(string(line)))
		}
		if fields[3] != "0" {
			return nil, diag.Errorf(Incomplete, "finish the merge, and commit", "%s is not merged", Escape(path))
		}
		e, err := newEntry(path, fields[1], fields[2], idLen)
		if err != nil {
			return nil, err
		}
		tag := fields[0]
		entries = append(entries, indexEntry{e, tag == strings.ToLower(tag), strings.EqualFold(tag, "s")})
		if len(entries) > maxEntries {
			return nil, diag.Errorf(Limit, "", "the index has more than %d entries", maxEntries)
		}
	}
	return entries, nil
}

// addAll puts into the copy what lies in the scope: tracked files as they are now, and untracked ones that no
// .gitignore hides. Rules of .git/info/exclude and of the user do not count, because no other clone has them.
func (s *staging) addAll(scope Scope) ([]objectEntry, error) {
	tracked, err := s.list()
	if err != nil {
		return nil, err
	}
	var paths, assumed, skipped, gone []string
	folders := linkedFolders{top: s.repo.dir, linked: map[string]bool{".": false}}
	for _, e := range tracked {
		if !scope.Contains(e.Path) {
			continue
		}
		if folders.linksAbove(e.Path) {
			gone = append(gone, e.Path) // its folder is a link now: git has no path through a link
			continue
		}
		if e.skipped {
			if _, err := os.Lstat(filepath.Join(s.repo.dir, filepath.FromSlash(e.Path))); err != nil {
				continue // not checked out: the commit's own entry counts
			}
			skipped = append(skipped, e.Path)
		}
		if e.assumed {
			assumed = append(assumed, e.Path)
		}
		paths = append(paths, e.Path)
	}
	untracked, err := s.others(scope)
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		flags []string
		paths []string
	}{
		{[]string{"--no-assume-unchanged"}, assumed},
		{[]string{"--no-skip-worktree"}, skipped},
		{[]string{"--force-remove"}, gone},
		{[]string{"--add", "--remove", "--replace"}, append(paths, untracked...)},
	} {
		if len(step.paths) == 0 {
			continue
		}
		args := append(append([]string{"update-index"}, step.flags...), "-z", "--stdin")
		if _, err := s.run(nulList(step.paths), args...); err != nil {
			return nil, incomplete(err)
		}
	}
	now, err := s.list()
	if err != nil {
		return nil, err
	}
	if changed, err := s.unfilter(scope, tracked, now); err != nil {
		return nil, err
	} else if changed {
		if now, err = s.list(); err != nil {
			return nil, err
		}
	}
	entries := make([]objectEntry, len(now))
	for i, e := range now {
		entries[i] = e.objectEntry
	}
	return sortedEntries(entries)
}

// linkedFolders finds the folders of a working tree that are symbolic links, each looked at once.
type linkedFolders struct {
	top    string
	linked map[string]bool
}

// linksAbove reports whether a folder that p lies in is a link.
func (f linkedFolders) linksAbove(p string) bool {
	dir := path.Dir(p)
	linked, known := f.linked[dir]
	if !known {
		info, err := os.Lstat(filepath.Join(f.top, filepath.FromSlash(dir)))
		linked = f.linksAbove(dir) || err == nil && info.Mode()&os.ModeSymlink != 0
		f.linked[dir] = linked
	}
	return linked
}

// incomplete gives git's complaint about a file (unreadable, beyond a link) its own code.
func incomplete(err error) error {
	if diag.CodeOf(err) != GitFailed {
		return err
	}
	return diag.Errorf(Incomplete, "make every file of the scope readable, or narrow the scope",
		"a file cannot be counted: %w", err)
}

// others lists the untracked files of the scope.
func (s *staging) others(scope Scope) ([]string, error) {
	out, err := s.run(nil, append([]string{"ls-files", "-o", "-z", "--exclude-per-directory=.gitignore", "--"},
		scope.paths...)...)
	if err != nil {
		return nil, incomplete(err)
	}
	paths := splitNUL(out)
	for _, p := range paths {
		if strings.HasSuffix(p, "/") {
			return nil, diag.Errorf(Incomplete, "add it as a submodule, ignore it in .gitignore, or narrow the scope",
				"%s is a repository of its own that this one does not know", Escape(p))
		}
	}
	return paths, nil
}

// ignored lists what .gitignore files hide in the scope; folders wholly ignored are one line.
func (s *staging) ignored(scope Scope) ([]string, error) {
	out, err := s.run(nil, append([]string{"ls-files", "-o", "-i", "-z", "--directory",
		"--exclude-per-directory=.gitignore", "--"}, scope.paths...)...)
	if err != nil {
		return nil, err
	}
	paths := splitNUL(out)
	slices.Sort(paths)
	return paths, nil
}

func splitNUL(out []byte) []string {
	text := strings.TrimSuffix(string(out), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

// WorkingTree returns the manifest of what lies in the working tree: the digest is that of the commit that would take
// all of it. It is an error if something cannot be part of such a commit.
func (r *Repo) WorkingTree(s Scope, o Options) (*Manifest, error) {
	st, err := r.stage()
	if err != nil {
		return nil, err
	}
	defer st.close()
	entries, err := st.addAll(s)
	if err != nil {
		return nil, err
	}
	m, found, err := selectEntries(entries, s, o, "in the working tree")
	if err != nil {
		return nil, err
	}
	if err := r.cleanSubmodules(found); err != nil {
		return nil, err
	}
	if err := r.hash(m, found, st.env); err != nil {
		return nil, err
	}
	if m.Ignored, err = st.ignored(s); err != nil {
		return nil, err
	}
	if m.Outputs, err = r.Outputs(o.Outputs); err != nil {
		return nil, err
	}
	return m, nil
}

// Dirty lists the paths of the scope that differ from HEAD: changed, staged, untracked, or a submodule with changes
// of its own. In a repository without a commit all of it is.
func (r *Repo) Dirty(s Scope, o Options) ([]string, error) {
	exclude, err := o.exclude()
	if err != nil {
		return nil, err
	}
	return r.dirty(s, exclude, 0)
}

func (r *Repo) dirty(s Scope, exclude []string, depth int) ([]string, error) {
	st, err := r.stage()
	if err != nil {
		return nil, err
	}
	defer st.close()
	now, err := st.addAll(s)
	if err != nil {
		return nil, err
	}
	var then []objectEntry
	head, err := r.Resolve("HEAD")
	if err == nil {
		then, err = r.listTree(head)
	}
	if err != nil && diag.CodeOf(err) != NoCommit {
		return nil, err
	}
	var paths []string
	for _, c := range diffObjects(then, now) {
		paths = append(paths, c.Path)
	}
	for _, e := range now {
		if e.Kind != Gitlink || !s.Contains(e.Path) {
			continue
		}
		changed, err := r.submoduleChanges(e.Path, depth)
		if err != nil {
			return nil, err
		}
		if len(changed) > 0 {
			paths = append(paths, e.Path)
		}
	}
	paths = slices.DeleteFunc(paths, func(p string) bool {
		_, out := slices.BinarySearch(exclude, p)
		return out || !s.Contains(p)
	})
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// cleanSubmodules refuses submodules whose files are not those of their commit.
func (r *Repo) cleanSubmodules(found []objectEntry) error {
	for _, e := range found {
		if e.Kind != Gitlink {
			continue
		}
		changed, err := r.submoduleChanges(e.Path, 0)
		if err != nil {
			return err
		}
		if len(changed) > 0 {
			return diag.Errorf(Incomplete, "commit inside the submodule, or ignore the file there",
				"submodule %s has changes that its commit does not hold: %s", Escape(e.Path), Escape(changed[0]))
		}
	}
	return nil
}

// submoduleChanges lists what differs inside a submodule from the commit it is at, nothing if it is not checked out. Of
// files in the folder of one that is not, Git says nothing: nobody could tell which code that is.
func (r *Repo) submoduleChanges(path string, depth int) ([]string, error) {
	if depth >= maxSubmoduleDepth {
		return nil, diag.Errorf(Limit, "", "submodules more than %d deep at %s", maxSubmoduleDepth, Escape(path))
	}
	dir := filepath.Join(r.dir, filepath.FromSlash(path))
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
		if files, err := os.ReadDir(dir); err == nil && len(files) > 0 {
			return nil, diag.Errorf(Incomplete, "run git submodule update --init, or empty the folder",
				"submodule %s is not checked out, and there are files in its folder: %s", Escape(path),
				Escape(files[0].Name()))
		}
		return nil, nil
	}
	sub, err := Open(r.git.ctx, dir)
	if err != nil {
		return nil, err
	}
	if !samePath(sub.dir, dir) {
		return nil, diag.Errorf(Incomplete, "run git submodule update --init", "submodule %s is not a repository",
			Escape(path))
	}
	return sub.dirty(All(), nil, depth+1)
}

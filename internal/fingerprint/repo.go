package fingerprint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements repositories: finding one, its HEAD and its remote, files and commits of it.

// Repo is a Git repository. It is not safe for use by several goroutines.
type Repo struct {
	git    *git
	dir    string // where git is run: the top of the working tree, or the folder of a bare repository
	gitDir string
	bare   bool
	idLen  int // hex digits of an object id: 40, or 64 with SHA-256
}

// Commit is where HEAD is.
type Commit struct {
	ID     string // 40 or 64 hex digits
	Tree   string
	Branch string // "" when HEAD is not on a branch, as in most CI
}

// Open finds the repository that dir lies in. The context bounds all that is done with the repository later.
func Open(ctx context.Context, dir string) (*Repo, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, diag.Errorf(NoRepo, "", "%s: %w", shortQuote(dir), err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return nil, diag.Errorf(NoRepo, "name a folder of a Git repository", "%s is not a folder", shortQuote(dir))
	}
	g, err := findGit(ctx)
	if err != nil {
		return nil, err
	}
	if err := g.userSettings(abs); err != nil {
		return nil, err
	}
	out, err := g.run(call{dir: abs, args: []string{"rev-parse", "--is-bare-repository", "--show-object-format",
		"--is-inside-work-tree", "--absolute-git-dir"}})
	if err != nil {
		var status exitStatus
		if diag.CodeOf(err) == GitFailed && errors.As(err, &status) {
			return nil, diag.Errorf(NoRepo, "run it inside the clone, or name the clone's folder",
				"%s is not in a Git repository: %w", shortQuote(dir), err)
		}
		return nil, err
	}
	lines := strings.SplitN(strings.TrimSuffix(string(out), "\n"), "\n", 4) // the last may have any character
	if len(lines) != 4 {
		return nil, diag.Errorf(GitFailed, "", "git rev-parse: %d lines, want 4", len(lines))
	}
	r := &Repo{git: g, dir: abs, gitDir: lines[3], bare: lines[0] == "true"}
	switch lines[1] {
	case "sha1":
		r.idLen = 40
	case "sha256":
		r.idLen = 64
	default:
		return nil, diag.Errorf(GitFailed, "", "objects of the unknown format %s", shortQuote(lines[1]))
	}
	if r.bare {
		r.dir = r.gitDir
		if err := r.standsAlone(); err != nil {
			return nil, err
		}
		return r, nil
	}
	if lines[2] != "true" {
		return nil, diag.Errorf(NoRepo, "name a folder of the working tree", "%s is not in a working tree", shortQuote(dir))
	}
	top, err := g.run(call{dir: abs, args: []string{"rev-parse", "--show-toplevel"}})
	if err != nil {
		return nil, err
	}
	r.dir = filepath.FromSlash(strings.TrimSuffix(string(top), "\n"))
	return r, nil
}

// standsAlone refuses a bare repository that lies in another repository: its files may be part of the tree under
// test, put there so that they are found before the real one.
func (r *Repo) standsAlone() error {
	_, err := r.git.run(call{dir: filepath.Dir(r.gitDir), args: []string{"rev-parse", "--absolute-git-dir"}})
	var status exitStatus
	if err != nil && diag.CodeOf(err) == GitFailed && errors.As(err, &status) {
		return nil
	}
	return diag.Errorf(NoRepo, "name the folder of the outer repository",
		"%s is a bare repository inside another repository", shortQuote(r.gitDir))
}

// Top is the folder of the working tree, "" for a bare repository.
func (r *Repo) Top() string {
	if r.bare {
		return ""
	}
	return r.dir
}

// run runs git at the top.
func (r *Repo) run(args ...string) ([]byte, error) { return r.git.run(call{dir: r.dir, args: args}) }

// Head returns the commit that is checked out.
func (r *Repo) Head() (Commit, error) {
	id, err := r.Resolve("HEAD")
	if err != nil {
		return Commit{}, err
	}
	tree, err := r.tree(id)
	if err != nil {
		return Commit{}, err
	}
	c := Commit{ID: id, Tree: tree}
	out, err := r.run("symbolic-ref", "-q", "HEAD")
	var status exitStatus
	switch {
	case err == nil:
		c.Branch = strings.TrimPrefix(strings.TrimSpace(string(out)), "refs/heads/")
	case errors.As(err, &status) && status == 1: // detached
	default:
		return Commit{}, err
	}
	return c, nil
}

// IsCommitID reports whether s is a full commit id: 40 or 64 lower-case hex digits. A receipt that has anything else
// ("HEAD", a branch, a short id) names a commit of the verifier's choice.
func IsCommitID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// checkRevision lets HEAD, full commit ids and plain names of refs through: no option, no path, no operator.
func checkRevision(rev string) error {
	plain := func(c rune) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("/._-+", c)
	}
	if rev == "" || len(rev) > maxPathLength || strings.HasPrefix(rev, "-") || strings.Contains(rev, "..") ||
		strings.ContainsFunc(rev, func(c rune) bool { return !plain(c) }) {
		return diag.Errorf(BadRevision, "give HEAD, a full commit id, or a plain ref such as origin/main",
			"%s is no revision", shortQuote(rev))
	}
	return nil
}

// Resolve returns the id of the commit that rev names: HEAD, a full commit id, or a plain ref.
func (r *Repo) Resolve(rev string) (string, error) {
	if err := checkRevision(rev); err != nil {
		return "", err
	}
	if err := r.oneRef(rev); err != nil {
		return "", err
	}
	return r.peel(rev, "commit")
}

// oneRef refuses a short name that several refs have. Git would take a tag before a branch of a remote, so that whoever
// may push a tag "origin/main" would say what stands on the base branch, its policy included.
func (r *Repo) oneRef(rev string) error {
	if rev == "HEAD" || r.isID(rev) || strings.HasPrefix(rev, "refs/") {
		return nil
	}
	full := []string{"refs/" + rev, "refs/tags/" + rev, "refs/heads/" + rev, "refs/remotes/" + rev}
	out, err := r.run(append([]string{"for-each-ref", "--format=%(refname)"}, full...)...)
	if err != nil {
		return err
	}
	there := strings.Fields(string(out)) // also what lies below a name
	found := slices.DeleteFunc(full, func(ref string) bool { return !slices.Contains(there, ref) })
	if len(found) > 1 {
		// The last in Git's order is what the name meant before somebody added another: a branch of a remote.
		return diag.Errorf(BadRevision, "take the others away, or give it in full, such as "+found[len(found)-1],
			"%s names several refs: %s", shortQuote(rev), strings.Join(found, ", "))
	}
	return nil
}

// tree returns the tree of a commit.
func (r *Repo) tree(commit string) (string, error) { return r.peel(commit, "tree") }

// peel asks for the object of a kind that rev names. Git says the same for "no such ref", "no such commit here" and
// "not yet a commit": all are NoCommit.
func (r *Repo) peel(rev, kind string) (string, error) {
	out, err := r.run("rev-parse", "--verify", "--quiet", rev+"^{"+kind+"}")
	var status exitStatus
	if errors.As(err, &status) && diag.CodeOf(err) == GitFailed && (status == 1 || status == 128) {
		return "", diag.Errorf(NoCommit, "fetch it (a shallow clone has no history), or commit first",
			"there is no %s %s in this repository", kind, shortQuote(rev))
	}
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(out))
	if !r.isID(id) {
		return "", diag.Errorf(GitFailed, "", "git rev-parse: %s is no object id", shortQuote(id))
	}
	return id, nil
}

// isID reports whether s is an object id of this repository.
func (r *Repo) isID(s string) bool { return len(s) == r.idLen && IsCommitID(s) }

// HasCommit reports whether the clone has the commit with its tree. A shallow clone often has not; that is no error.
func (r *Repo) HasCommit(id string) (bool, error) {
	if !IsCommitID(id) {
		return false, diag.Errorf(BadRevision, "give all 40 or 64 hex digits", "%s is no commit id", shortQuote(id))
	}
	if len(id) != r.idLen {
		return false, nil
	}
	out, err := r.git.run(call{dir: r.dir, args: []string{"cat-file", "--batch-check"},
		stdin: strings.NewReader(id + "^{tree}\n")})
	if err != nil {
		return false, err
	}
	fields := strings.Fields(string(out))
	return len(fields) == 3 && fields[1] == "tree", nil
}

// IsAncestor reports whether the commit then is an ancestor of the commit now, or the same.
func (r *Repo) IsAncestor(then, now string) (bool, error) {
	if !r.isID(then) || !r.isID(now) {
		return false, diag.Errorf(BadRevision, "give all 40 or 64 hex digits", "%s, %s: no commit ids of this repository",
			shortQuote(then), shortQuote(now))
	}
	_, err := r.run("merge-base", "--is-ancestor", then, now)
	var status exitStatus
	if errors.As(err, &status) && status == 1 {
		return false, nil
	}
	return err == nil, err
}

// Remote is the URL of origin without credentials, query and fragment, "" if there is none.
func (r *Repo) Remote() string {
	out, err := r.run("config", "-z", "--get", "remote.origin.url")
	if err != nil {
		return "" // the URL is for people to read; nothing is decided by it alone
	}
	return StripURL(strings.TrimSuffix(string(out), "\x00"))
}

// ReadFile returns a file as it is in a commit: a policy of the base branch, for instance. Symbolic links are not
// followed.
func (r *Repo) ReadFile(rev, name string, limit int64) ([]byte, error) {
	name, err := cleanPath("file", name)
	if err != nil {
		return nil, err
	}
	id, err := r.Resolve(rev)
	if err != nil {
		return nil, err
	}
	entries, err := r.listTree(id)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Path != name {
			continue
		}
		if e.Kind != File {
			return nil, diag.Errorf(Incomplete, "", "%s at %s is a %s, not a file", Escape(name), rev, e.Kind)
		}
		var content []byte
		err := r.readBlobs([]string{e.id}, nil, func(_ int, size int64, body bodyReader) error {
			if size > limit {
				return diag.Errorf(Limit, "", "%s at %s has %d bytes, limit %d", Escape(name), rev, size, limit)
			}
			content, err = body.all(size)
			return err
		})
		return content, err
	}
	return nil, diag.Errorf(EmptyScope, "", "there is no file %s at %s", Escape(name), rev)
}

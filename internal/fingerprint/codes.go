package fingerprint

import (
	"errors"

	"gpuemu/internal/diag"
)

// This file implements the stable error codes of the package. A code is never reused for another meaning.

const (
	GitMissing  diag.Code = "fingerprint-git-missing"  // there is no git program, or it is too old to be run safely
	GitFailed   diag.Code = "fingerprint-git-failed"   // git gave an error, or an answer that cannot be read
	NoRepo      diag.Code = "fingerprint-no-repo"      // a folder is not part of a Git repository, or has no working tree
	Ownership   diag.Code = "fingerprint-ownership"    // git does not read a repository that belongs to somebody else
	NoObject    diag.Code = "fingerprint-no-object"    // a file's content is not in this clone: a partial one, or broken
	NoCommit    diag.Code = "fingerprint-no-commit"    // a commit is not in this clone, or there is no commit yet
	BadRevision diag.Code = "fingerprint-bad-revision" // a text is neither HEAD, nor a full commit id, nor a plain ref
	BadScope    diag.Code = "fingerprint-bad-scope"    // a path of a scope, an exclusion or an output is not a plain one
	EmptyScope  diag.Code = "fingerprint-empty-scope"  // a scope has no path, or one of its paths names nothing
	Incomplete  diag.Code = "fingerprint-incomplete"   // an entry cannot be counted: unreadable, unmerged, unclean
	BadOutput   diag.Code = "fingerprint-bad-output"   // a build output is missing, no regular file, or outside
	Limit       diag.Code = "fingerprint-limit"        // more entries, bytes or time than is allowed
)

// CannotTell reports whether err says nothing about the repository's content: git could not be asked, or did not
// answer. Any other error of this package is a fault of what was looked at, and a reason to refuse it.
func CannotTell(err error) bool {
	var e *diag.Error
	if !errors.As(err, &e) {
		return err != nil
	}
	switch e.Code {
	case GitMissing, GitFailed, NoRepo, NoObject, Ownership, Limit:
		return true
	}
	return false
}

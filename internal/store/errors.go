package store

// This file implements what the errors of SQLite and of the file system mean for a user.

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"

	"gpuemu/internal/diag"
	"gpuemu/internal/pagesum"
)

// The primary result codes of SQLite that are told apart (https://sqlite.org/rescode.html).
const (
	codePerm     = 3
	codeBusy     = 5
	codeLocked   = 6
	codeReadOnly = 8
	codeIOErr    = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeAuth     = 23
	codeNotADB   = 26
)

// resultCode returns the primary result code of SQLite in err's chain, 0 if there is none.
func resultCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// changed reports whether a page of the database or of its log is not as it was written.
func changed(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == pagesum.DataError
}

func isBusy(err error) bool {
	code := resultCode(err)
	return code == codeBusy || code == codeLocked
}

// fault says what err means: where, what was being done, and what to do next. Errors that say so themselves, and those
// of a context that ended, are returned as they are.
func (s *Store) fault(what string, err error) error {
	var known *diag.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	tell := func(code diag.Code, hint, msg string) error {
		return diag.Errorf(code, hint, "%s: %s: %s: %w", s.file(), what, msg, err)
	}
	if changed(err) {
		return tell(Damaged, s.moveAway(), "the checksum of a page does not match: the database is damaged")
	}
	switch resultCode(err) {
	case codeCorrupt, codeNotADB:
		return tell(Damaged, s.moveAway(), "the database is damaged")
	case codeFull:
		return tell(Full, fullHint, "no room left")
	case codeReadOnly, codePerm, codeAuth:
		return tell(ReadOnly, s.permissionHint(), "cannot be written to")
	case codeBusy, codeLocked:
		return tell(Locked, "look for a gpuemu that hangs, end it, and run the command again with --resume",
			fmt.Sprintf("another process kept the database locked for more than %v", busyTimeout))
	case codeCantOpen:
		return tell(OpenFailed, s.permissionHint(), "cannot be opened")
	case codeIOErr:
		return tell(IOFailed, "check the disk and its quota; what was finished before is kept, and --resume continues",
			"the system failed to read or write")
	}
	if errors.Is(err, sql.ErrConnDone) || err.Error() == "sql: database is closed" {
		return tell(Closed, "", "used after Close")
	}
	return tell(Internal, "this is a fault of gpuemu: please report it", "refused")
}

const fullHint = "make room on the disk or set GPUEMU_HOME to another one; what was finished before is kept, and " +
	"--resume continues"

// moveAway is the remedy for a damaged database.
func (s *Store) moveAway() string {
	return fmt.Sprintf("move %s, and the files -wal and -shm beside it, away: gpuemu keeps going with a new one; "+
		"results in it are lost", s.file())
}

func (s *Store) permissionHint() string {
	return fmt.Sprintf("check owner and permissions of %s, or set GPUEMU_HOME to a directory of your own", s.dir)
}

// openError is the error of a directory or file that cannot be opened or made.
func openError(path string, err error) error {
	return fileFault(OpenFailed, path, "open", err)
}

// fileFault is fault for files that SQLite has nothing to do with. code is for what has no code of its own.
func fileFault(code diag.Code, path, what string, err error) error {
	hint := "check the path and its permissions, or set GPUEMU_HOME to another directory"
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		code, hint = Full, fullHint
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		code = ReadOnly
	case errors.Is(err, fs.ErrNotExist):
		hint = "it is made by the first command that stores something, such as gpuemu test"
	}
	return diag.Errorf(code, hint, "%s: %s: %w", path, what, err)
}

package store

// This file implements stores that are only read: by choice, or where the directory or the disk takes nothing more.

import (
	"context"
	"errors"
	"os"

	"gpuemu/internal/diag"
)

// way is how a store that is not written to is opened.
type way uint8

const (
	shared     way = iota // with the locks and the files that SQLite shares with writers
	unchanging            // without locks: nobody can write, and there is no log
	alone                 // with the log, by one connection that keeps its index of the log in memory
)

// OpenReadable opens a store like Open and, where it cannot be written to, read-only. Whatever would write then returns
// the error for which it is read-only.
func OpenReadable(ctx context.Context, dir string, opt Options) (*Store, error) {
	s, cause := Open(ctx, dir, opt)
	if cause == nil || opt.ReadOnly || !Unwritable(cause) {
		return s, cause
	}
	opt.ReadOnly = true
	s, err := Open(ctx, dir, opt)
	switch {
	case diag.CodeOf(err) == Lost || diag.CodeOf(err) == Damaged:
		return nil, err
	case err != nil:
		return nil, cause
	}
	s.cause = cause
	return s, nil
}

// Unwritable reports whether an error says that the store cannot be written to, or that the disk is full.
func Unwritable(err error) bool {
	switch diag.CodeOf(err) {
	case ReadOnly, Full, IOFailed, OpenFailed:
		return true
	}
	return false
}

// Unwritable returns the error for which a store of OpenReadable is read-only, nil where it is not.
func (s *Store) Unwritable() error { return s.cause }

// readOnly is the error of what would write to a store that is opened read-only.
func (s *Store) readOnly(what string) error {
	if s.cause != nil {
		return s.cause
	}
	return diag.Errorf(ReadOnly, "open it without the read-only option", "%s: %s: opened read-only", s.file(), what)
}

// openReadOnly opens a store that is not written to, in the first way that works.
func (s *Store) openReadOnly(ctx context.Context) error {
	info, err := os.Stat(s.file() + "-wal")
	log := err == nil && info.Size() > 0
	ways := []way{shared, alone}
	switch {
	case !log && s.unwritable():
		ways = []way{unchanging}
	case !log:
		ways = []way{shared, unchanging}
	}
	var first error
	for _, s.way = range ways {
		most := readers
		if s.way == alone {
			most = 1
		}
		if err = s.connect(most); err == nil {
			err = s.checkVersion(ctx)
		}
		if err == nil {
			return s.checkCommits(ctx)
		}
		if first == nil {
			first = err
		}
		if !Unwritable(err) {
			return err
		}
		if s.r != nil {
			_ = s.r.Close() // nothing was written
			s.r = nil
		}
	}
	return first
}

// unwritable reports whether no file can be made in the directory, so that there can be no writer either.
func (s *Store) unwritable() bool {
	f, err := os.CreateTemp(s.dir, ".probe-*")
	if err != nil {
		return true
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) != nil
}

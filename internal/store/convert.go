package store

// This file implements the conversion of databases that were made before pages had checksums, up to version 4.

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuemu/internal/atomicfile"
	"gpuemu/internal/diag"
	"gpuemu/internal/pagesum"
)

const (
	// convertDir is where the new database is made, in the directory of the store. It is gone when the new one is in
	// place; what a killed process leaves of it the next conversion removes.
	convertDir = "converting"
	// convertRows is how many rows are copied in one transaction, which the cache has to hold: packs are some 100 KiB.
	convertRows = 256
	// convertWait is how long an older gpuemu may keep the old database open: a command ends soon, a daemon does not.
	convertWait = 5 * time.Second
	// convertPoll is how often is looked whether that or another conversion is over.
	convertPoll = 20 * time.Millisecond
)

// checkForm refuses a file that has no checksums, which SQLite could read without seeing what was changed. One that was
// made before there were any is converted.
func (s *Store) checkForm(ctx context.Context) error {
	first, err := pagesum.First(s.file())
	switch {
	case err != nil:
		return openError(s.file(), err)
	case pagesum.Sealed(first):
		return nil
	case !pagesum.Unsealed(first):
		return diag.Errorf(Damaged, s.moveAway(), "%s: open: the database is damaged: its first bytes are not those of a "+
			"database of gpuemu with checksums", s.file())
	case s.opt.ReadOnly:
		return diag.Errorf(Unconverted, "run any gpuemu command that writes, such as gpuemu test, to convert it",
			"%s: written by an older gpuemu, without checksums: it cannot be read before it is converted", s.file())
	}
	err = s.convert(ctx)
	switch diag.CodeOf(err) {
	case Newer:
		return err
	case Damaged:
		if diag.HintOf(err) == "" { // a record that cannot be read
			err = diag.Errorf(Damaged, s.moveAway(), "%s: convert: %w", s.file(), err)
		}
		return err
	}
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return diag.Errorf(Unconverted, diag.HintOf(err), "%s: written by an older gpuemu, without checksums, and cannot be "+
		"converted: %w", s.file(), err)
}

// convert replaces a database without checksums by one that has them, with the same rows and the newest schema.
//
// The directory is locked, so that one process does it; others wait and find it done. The old database is locked as a
// whole from before the first row is read until the new one has its name, so that nothing is added to it meanwhile, and
// its write-ahead log is copied into it first. A process that is killed leaves the old database, complete, or the new
// one. An older gpuemu that comes later finds a newer version and says so.
func (s *Store) convert(ctx context.Context) error {
	unlock, err := s.lockDir(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if first, err := pagesum.First(s.file()); err != nil || pagesum.Sealed(first) {
		return err // another process was faster
	}
	if err := s.removeLeftovers(); err != nil {
		return err
	}
	old, err := s.seize(ctx)
	if err != nil {
		return err
	}
	defer old.Close() // and with it the lock
	s.at("seized")
	have, err := s.version(ctx, old)
	if err != nil {
		return err
	}
	made := &Store{dir: filepath.Join(s.dir, convertDir), opt: s.opt}
	err = made.copyOf(ctx, old, have)
	if err = errors.Join(err, made.Close()); err != nil {
		return errors.Join(s.fault("convert", err), os.RemoveAll(made.dir))
	}
	s.at("copied")
	err = atomicfile.Replace(s.file(), 0o600, func(w io.Writer) error {
		f, err := os.Open(made.file())
		if err != nil {
			return err
		}
		_, err = io.Copy(w, f)
		return errors.Join(err, f.Close(), os.RemoveAll(made.dir))
	})
	if err != nil {
		return fileFault(IOFailed, s.file(), "convert", err)
	}
	s.at("replaced")
	return nil
}

// at tells a test how far a conversion is.
func (s *Store) at(stage string) {
	if s.opt.converting != nil {
		s.opt.converting(stage)
	}
}

// lockDir waits until no other process converts the store.
func (s *Store) lockDir(ctx context.Context) (unlock func(), err error) {
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, openError(s.dir, err)
	}
	for {
		got, err := flock(dir, syscall.LOCK_EX)
		if err == nil && got {
			return func() { _ = dir.Close() }, nil
		}
		if err == nil {
			err = sleep(ctx, convertPoll)
		} else {
			err = fileFault(IOFailed, s.dir, "lock", err)
		}
		if err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// removeLeftovers removes what a conversion left that was killed: the new database, and the copy of it that was to get
// the name.
func (s *Store) removeLeftovers() error {
	err := os.RemoveAll(filepath.Join(s.dir, convertDir))
	files, failed := os.ReadDir(s.dir)
	err = errors.Join(err, failed)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), atomicfile.Prefix) {
			err = errors.Join(err, remove(filepath.Join(s.dir, f.Name())))
		}
	}
	if err != nil {
		return fileFault(IOFailed, s.dir, "convert", err)
	}
	return nil
}

// seize opens the old database, copies its log into it and locks it. Others can neither read nor write it until the
// connection is closed.
func (s *Store) seize(ctx context.Context) (*sql.DB, error) {
	q := url.Values{"mode": {"rw"}, "_pragma": {"cache_spill(0)"}} // package pagesum asks for it
	q.Add("_pragma", "busy_timeout("+strconv.FormatInt(s.opt.convertWait.Milliseconds(), 10)+")")
	db, err := sql.Open("sqlite", s.address(q))
	if err != nil {
		return nil, s.fault("convert", err)
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1) // the lock is that of this one
	if _, err = s.version(ctx, db); err == nil {
		err = s.lockOld(ctx, db)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (s *Store) lockOld(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "PRAGMA main.locking_mode = EXCLUSIVE")
	for deadline := time.Now().Add(s.opt.convertWait); err == nil; err = sleep(ctx, convertPoll) {
		// A database leaves its log when nobody else has it open. SQLite does not wait for that.
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA main.journal_mode = DELETE").Scan(&mode)
		if err == nil && mode == "delete" {
			break
		}
		if err != nil && !isBusy(err) {
			return s.fault("convert", err)
		}
		if time.Now().After(deadline) {
			return diag.Errorf(Locked, "end the older gpuemu, such as its daemon, and run the command again",
				"%s: another process has it open", s.file())
		}
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "BEGIN EXCLUSIVE; COMMIT")
	}
	if err == nil { // of the change of mode, which is done: it would be left beside the new database
		err = remove(s.file() + "-journal")
	}
	if err != nil {
		return s.fault("convert", err)
	}
	return nil
}

// copyOf makes the database with the rows of an old one, which is of a version, and brings it to the newest form.
func (s *Store) copyOf(ctx context.Context, old *sql.DB, version int) error {
	err := s.create()
	if err != nil {
		return err
	}
	if s.w, err = sql.Open("sqlite", s.dsn(false)); err != nil {
		return s.fault("convert", err)
	}
	s.w.SetMaxOpenConns(1)
	if err := s.connect(1); err != nil {
		return err
	}
	if err := s.enterWAL(ctx); err != nil {
		return err
	}
	if err := s.migrateTo(ctx, version); err != nil {
		return err
	}
	if err := s.copyTables(ctx, old); err != nil {
		return err // as SQLite says it: the fault may be one of the old database
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	var busy int
	if err := s.w.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, new(int), new(int)); err != nil {
		return s.fault("convert", err)
	}
	if busy != 0 {
		return diag.Errorf(Internal, "this is a fault of gpuemu: please report it", "%s: convert: somebody else has it open",
			s.file())
	}
	return nil
}

// copyTables copies the rows of all tables, some at a time.
func (s *Store) copyTables(ctx context.Context, old *sql.DB) error {
	tables, err := s.names(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
		ORDER BY rowid`)
	if err != nil {
		return err
	}
	address := s.address(url.Values{"mode": {"rw"}, "vfs": {pagesum.Name}})
	if _, err := old.ExecContext(ctx, "ATTACH $1 AS made", address); err != nil {
		return err
	}
	if _, err := old.ExecContext(ctx, "PRAGMA made.synchronous = OFF"); err != nil { // atomicfile writes it to the disk
		return err
	}
	for _, table := range tables {
		if err := copyTable(ctx, old, table); err != nil {
			return err
		}
	}
	_, err = old.ExecContext(ctx, "DETACH made")
	return err
}

// copyTable copies the rows of a table in the order of their ids, which may be negative.
func copyTable(ctx context.Context, old *sql.DB, table string) error {
	where, args := "", []any{convertRows}
	for {
		res, err := old.ExecContext(ctx, fmt.Sprintf(`INSERT OR REPLACE INTO made.%[1]s SELECT * FROM main.%[1]s %[2]s
			ORDER BY rowid LIMIT $1`, table, where), args...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		var last int64
		if err := old.QueryRowContext(ctx, fmt.Sprintf(`SELECT max(rowid) FROM (SELECT rowid FROM main.%s %s
			ORDER BY rowid LIMIT $1)`, table, where), args...).Scan(&last); err != nil {
			return err
		}
		where, args = "WHERE rowid > $2", []any{convertRows, last}
	}
}

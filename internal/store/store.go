// Package store keeps campaigns, results, inputs, baselines and calibrations on disk.
//
// It does not know how a result comes about, and it never changes one. The main types are Store and Writer. Rows lie
// in one SQLite database, tensors in content-addressed safetensors files beside it; see docs/formats/store.md.
// What was committed survives the death of the process, and several processes may use one directory at once: each has
// one connection that writes and a few that read.
package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/pagesum"
)

const (
	// fileName is the database in the directory of the store; SQLite adds -wal and -shm while it is open.
	fileName = "gpuemu.db"
	// blobDir is the directory of tensor files in the directory of the store.
	blobDir = "blobs"

	// busyTimeout is how long a write waits for another process. Groups take milliseconds, a pruning batch under a
	// second, a quick check of a large database several: whoever holds the lock for longer is stuck.
	busyTimeout = 30 * time.Second
	// readers is how many reads may go on at once.
	readers = 4
	// cacheKiB is the page cache of the writing connection. The index by seed is random, and its pages are read again and
	// again; the system has them, too: with 32 MiB, which take 64, an insert into 400,000 results is no faster.
	cacheKiB = 4 << 10
	// manyChanges is how many rows one transaction changes before its connection gives its page cache back. The driver
	// builds SQLite with one budget for the caches of a process: pages that a large transaction wrote fill it, and stay,
	// and the connections that read then keep no page for longer than they use it.
	manyChanges = 1000
	// checkpointPages is when the write-ahead log is copied into the database: 32 MiB. Rarer is faster, and longer to
	// recover.
	checkpointPages = 8000
)

const (
	// DefaultBlobBudget is how many bytes of tensors are kept.
	DefaultBlobBudget = 2 << 30
	// DefaultRowBudget is how many results are kept: one or two GiB of them.
	DefaultRowBudget = 1_000_000
)

// Options are the free choices of Open. The zero value is what the product uses.
type Options struct {
	BlobBudget int64 // bytes of tensor files that Prune leaves; 0 means DefaultBlobBudget
	RowBudget  int64 // results that Prune leaves; 0 means DefaultRowBudget
	Now        func() time.Time
	ReadOnly   bool // creates nothing, migrates nothing; every write is an error

	checkpoint  int                // pages; 0 means checkpointPages. Tests make checkpoints frequent
	convertWait time.Duration      // 0 means convertWait. Tests do not wait
	converting  func(stage string) // called by a conversion
}

// Store is an open store. It is safe for concurrent use. It has no goroutines; its Writers have one each.
type Store struct {
	dir  string
	opt  Options
	w, r *sql.DB // w has one connection, and is nil when the store is read-only

	way   way   // how a read-only store is opened
	cause error // why it is read-only though that was not asked for

	changes atomic.Int64 // of the connection that writes, so far

	mu   sync.Mutex
	lock *os.File // guarded by mu: says that this process runs its campaigns; nil until it begins one
}

// Open opens the store in dir. Directory (mode 0700) and database (0600) are created where they are missing, and the
// database is brought to the newest form. A damaged database is an error, never replaced.
func Open(ctx context.Context, dir string, opt Options) (*Store, error) {
	if opt.BlobBudget == 0 {
		opt.BlobBudget = DefaultBlobBudget
	}
	if opt.RowBudget == 0 {
		opt.RowBudget = DefaultRowBudget
	}
	if opt.checkpoint == 0 {
		opt.checkpoint = checkpointPages
	}
	if opt.convertWait == 0 {
		opt.convertWait = convertWait
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, openError(dir, err)
	}
	s := &Store{dir: abs, opt: opt}
	if err := s.open(ctx); err != nil {
		_ = s.Close() // the first error is the one to tell
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if s.opt.ReadOnly {
		if _, err := os.Stat(s.file()); err != nil {
			return openError(s.file(), err)
		}
	} else if err := s.create(); err != nil {
		return err
	}
	err := pagesum.Register()
	if err == nil {
		err = s.checkForm(ctx)
	}
	if err != nil {
		return err
	}
	if s.opt.ReadOnly {
		return s.openReadOnly(ctx)
	}
	if err := s.connect(readers); err != nil {
		return err
	}
	if s.w, err = sql.Open("sqlite", s.dsn(false)); err != nil {
		return s.fault("open", err)
	}
	s.w.SetMaxOpenConns(1)
	if err := s.enterWAL(ctx); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	return s.checkCommits(ctx)
}

// connect opens the connections that read, at most so many.
func (s *Store) connect(most int) error {
	var err error
	if s.r, err = sql.Open("sqlite", s.dsn(true)); err != nil {
		return s.fault("open", err)
	}
	s.r.SetMaxOpenConns(most)
	s.r.SetMaxIdleConns(most)
	return nil
}

// create makes the directories and an empty database file. An existing file is not opened: closing it would drop the
// locks that SQLite holds on it in this process (POSIX locks belong to the process, not to the descriptor).
func (s *Store) create() error {
	if err := os.MkdirAll(filepath.Join(s.dir, blobDir), 0o700); err != nil {
		return openError(s.dir, err)
	}
	if _, err := os.Stat(s.file()); err == nil {
		return nil
	}
	f, err := os.CreateTemp(s.dir, ".new-*.db") // mode 0600; SQLite gives -wal and -shm the same
	if err != nil {
		return openError(s.dir, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(pagesum.Empty())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return openError(f.Name(), err)
	}
	err = os.Link(f.Name(), s.file())
	if err == nil || errors.Is(err, fs.ErrExist) { // another process was faster, and its file stays
		return nil
	}
	if err := os.Rename(f.Name(), s.file()); err != nil { // a file system without links
		return openError(s.file(), err)
	}
	return nil
}

// enterWAL switches a new database to the write-ahead log. SQLite does not wait for other processes here.
func (s *Store) enterWAL(ctx context.Context) error {
	for deadline := time.Now().Add(busyTimeout); ; {
		var mode string
		err := s.w.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return diag.Errorf(OpenFailed, "put GPUEMU_HOME on a local file system",
				"%s: the write-ahead log cannot be used, the journal mode stays %q", s.file(), mode)
		case !isBusy(err) || time.Now().After(deadline):
			return s.fault("open", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Close releases the store. Writers must be closed before.
func (s *Store) Close() error {
	errs := []error{s.disown()}
	for _, db := range []*sql.DB{s.r, s.w} { // the last connection cleans up the log, so it is the one that may write
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return s.fault("close", err)
	}
	return nil
}

// Dir returns the directory of the store.
func (s *Store) Dir() string { return s.dir }

// file is the path of the database.
func (s *Store) file() string { return filepath.Join(s.dir, fileName) }

// dsn is the address of the database for the driver, with the settings of a connection.
func (s *Store) dsn(reader bool) string {
	q := url.Values{}
	pragma := func(text string) { q.Add("_pragma", text) }
	pragma("busy_timeout(" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) + ")")
	if reader {
		pragma("query_only(1)")
	} else {
		pragma("synchronous(2)") // FULL: a commit is on disk when it returns
		pragma("foreign_keys(1)")
		pragma("cache_size(-" + strconv.Itoa(cacheKiB) + ")")
		pragma("cache_spill(0)") // package pagesum asks for it
		pragma("wal_autocheckpoint(" + strconv.Itoa(s.opt.checkpoint) + ")")
		q.Set("_txlock", "immediate")
	}
	switch {
	case !s.opt.ReadOnly:
		q.Set("mode", "rw") // create has made it
	case s.way == alone:
		q.Set("mode", "rw")
		pragma("locking_mode(exclusive)")
	case s.way == unchanging:
		q.Set("immutable", "1")
		fallthrough
	default:
		q.Set("mode", "ro")
	}
	q.Set("vfs", pagesum.Name)
	return s.address(q)
}

// address is the database as the driver and ATTACH take it.
func (s *Store) address(q url.Values) string {
	path := (&url.URL{Path: filepath.ToSlash(s.file())}).EscapedPath()
	if filepath.VolumeName(s.file()) != "" {
		path = "/" + path
	}
	return "file://" + path + "?" + q.Encode()
}

// update runs fn in one transaction, which is on disk when update returns nil, and counts it. what is for errors:
// "create campaign".
func (s *Store) update(ctx context.Context, what string, fn func(tx *sql.Tx) error) error {
	var name string
	var number int64
	err := s.transaction(ctx, what, func(tx *sql.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return tx.QueryRowContext(context.WithoutCancel(ctx), `UPDATE commits SET number = number + 1
			RETURNING name, number`).Scan(&name, &number)
	})
	if err == nil {
		s.promise(name, number)
	}
	return err
}

// transaction is update without counting.
func (s *Store) transaction(ctx context.Context, what string, fn func(tx *sql.Tx) error) error {
	if s.opt.ReadOnly {
		return s.readOnly(what)
	}
	tx, err := s.w.BeginTx(ctx, nil)
	if err != nil {
		return s.fault(what, err)
	}
	var changes int64
	if err = fn(tx); err == nil {
		err = tx.QueryRowContext(context.WithoutCancel(ctx), "SELECT total_changes()").Scan(&changes)
	}
	if err != nil {
		_ = tx.Rollback() // fn's error is the cause
		return s.fault(what, err)
	}
	changed := changes - s.changes.Swap(changes)
	if err := tx.Commit(); err != nil {
		return s.fault(what, err)
	}
	if changed > manyChanges {
		_, _ = s.w.ExecContext(context.WithoutCancel(ctx), "PRAGMA shrink_memory") // without it reads are slower
	}
	return nil
}

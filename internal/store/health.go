package store

// This file implements what the store says about itself.

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"gpuemu/internal/diag"
)

// Usage is how much the store holds.
type Usage struct {
	Schema    int // version of the database
	Campaigns int
	Results   int
	Failures  int   // results that failed
	Database  int64 // bytes
	Log       int64 // bytes of the write-ahead log
	Tensors   int   // files
	Blobs     int64 // their bytes
}

// Usage counts.
func (s *Store) Usage(ctx context.Context) (Usage, error) {
	var u Usage
	err := s.r.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM campaigns WHERE state <> 'standing'),
		(SELECT count(*) FROM results) + (SELECT coalesce(sum(count), 0) FROM packs),
		(SELECT count(*) FROM results WHERE failed = 1)`).Scan(&u.Schema, &u.Campaigns, &u.Results, &u.Failures)
	if err != nil {
		return u, s.fault("count", err)
	}
	for path, size := range map[string]*int64{s.file(): &u.Database, s.file() + "-wal": &u.Log} {
		if info, err := os.Stat(path); err == nil { // there is a log only while somebody writes
			*size = info.Size()
		}
	}
	return u, s.blobs(func(_ string, info fs.FileInfo) error {
		u.Tensors++
		u.Blobs += info.Size()
		return nil
	})
}

// HealthLine is one remark on the store.
type HealthLine struct {
	Name  string
	Value string
	OK    bool
	Fix   string // what to do; "" when OK
}

// logLimit is the size of the write-ahead log from which something keeps it from being copied into the database.
const logLimit = 512 << 20

// Health checks the database (PRAGMA quick_check, which reads all of it) and says how much is stored. What is wrong
// with the store is a line, not an error.
func (s *Store) Health(ctx context.Context) ([]HealthLine, error) {
	lines := []HealthLine{{Name: "store", Value: s.file(), OK: true}, s.integrity(ctx)}
	u, err := s.Usage(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return append(lines, HealthLine{Name: "contents", Value: err.Error(), Fix: diag.HintOf(err)}), nil
	}
	losses, err := s.Losses(ctx, time.Time{})
	if err != nil {
		return append(lines, HealthLine{Name: "lost commits", Value: err.Error(), Fix: diag.HintOf(err)}), nil
	}
	for _, l := range losses {
		lines = append(lines, HealthLine{Name: "lost commits", OK: true, Value: fmt.Sprintf("%d, found %s: the write-ahead "+
			"log was damaged in a crash", l.Commits, l.Found.Format(time.DateTime))})
	}
	log := HealthLine{Name: "write-ahead log", Value: mebibytes(u.Log), OK: u.Log < logLimit}
	if !log.OK {
		log.Fix = "a process keeps an old state open: end the gpuemu processes that hang"
	}
	return append(lines,
		HealthLine{Name: "schema", Value: fmt.Sprintf("version %d of %d", u.Schema, SchemaVersion), OK: true},
		HealthLine{Name: "size", Value: mebibytes(u.Database), OK: true}, log,
		HealthLine{Name: "campaigns", Value: fmt.Sprint(u.Campaigns), OK: true},
		HealthLine{Name: "results", Value: fmt.Sprintf("%d, %d of them failed; at most %d are kept", u.Results, u.Failures,
			s.opt.RowBudget), OK: true},
		HealthLine{Name: "tensors", Value: fmt.Sprintf("%d files, %s; at most %s are kept", u.Tensors, mebibytes(u.Blobs),
			mebibytes(s.opt.BlobBudget)), OK: true}), nil
}

// integrity runs SQLite's own check.
func (s *Store) integrity(ctx context.Context) HealthLine {
	faults, err := s.names(ctx, "PRAGMA quick_check(5)")
	switch {
	case err != nil:
		return HealthLine{Name: "integrity", Value: err.Error(), Fix: diag.HintOf(err)}
	case len(faults) == 1 && faults[0] == "ok":
		return HealthLine{Name: "integrity", Value: "ok", OK: true}
	}
	return HealthLine{Name: "integrity", Value: "damaged: " + strings.Join(faults, "; "), Fix: s.moveAway()}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

package store

// This file implements the record of commits beside the database. After a crash SQLite reads its log up to the first
// frame that is damaged, and what was committed behind it is gone without an error. The record says how much there was.

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"gpuemu/internal/diag"
)

// commitsName is the record in the directory of the store: one line of fixed length with the name of the database, the
// number of its commits and a checksum. It is written after each commit and not synced: what the system loses of it in
// a power failure is the newest, and an older number promises less.
const commitsName = "gpuemu.commits"

// recordForm is the part of the line that its checksum is of, recordSize the length of the line.
const (
	recordForm = "commits %16s %020d"
	recordSize = 8 + 16 + 1 + 20 + 1 + 8 + 1
)

// record makes the line of a record.
func record(name string, number int64) string {
	line := fmt.Sprintf(recordForm, name, number)
	return fmt.Sprintf("%s %08x\n", line, crc32.ChecksumIEEE([]byte(line)))
}

// parseRecord reads a line back. One that is damaged says nothing.
func parseRecord(line string) (name string, number int64, ok bool) {
	if len(line) != recordSize {
		return "", 0, false
	}
	if n, err := fmt.Sscanf(line, "commits %s %d", &name, &number); n != 2 || err != nil {
		return "", 0, false
	}
	return name, number, record(name, number) == line
}

// promise writes the number of commits beside the database. That it cannot is no fault of the commit, which is done.
func (s *Store) promise(name string, number int64) {
	f, err := os.OpenFile(filepath.Join(s.dir, commitsName), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteAt([]byte(record(name, number)), 0)
	_ = f.Close()
}

// promised reads the record; name is "" where there is none that can be read, which then says nothing.
func (s *Store) promised() (name string, number int64) {
	b, err := os.ReadFile(filepath.Join(s.dir, commitsName))
	if err != nil {
		return "", 0
	}
	if name, number, ok := parseRecord(string(b)); ok {
		return name, number
	}
	return "", 0
}

// missing returns how many commits of a record the database does not have.
func missing(ctx context.Context, q querier, name string, number int64) (int64, error) {
	var have int64
	err := q.QueryRowContext(ctx, `SELECT number FROM commits WHERE name = $1`, name).Scan(&have)
	if errors.Is(err, sql.ErrNoRows) { // another database was here before
		return 0, nil
	}
	return max(number-have, 0), err
}

// checkCommits returns an error where commits are gone. The first who may write notes it, so that the next Open
// succeeds, and Losses remembers.
func (s *Store) checkCommits(ctx context.Context) error {
	name, number := s.promised()
	if name == "" {
		return nil
	}
	lost, err := missing(ctx, s.r, name, number)
	if err != nil {
		return s.fault("open", err)
	}
	if lost > 0 && !s.opt.ReadOnly {
		if lost, err = s.acknowledge(ctx, name, number); err != nil {
			return err
		}
	}
	if lost == 0 {
		return nil
	}
	return diag.Errorf(Lost, "what was stored before is kept: run the command again; --resume repeats what is missing of "+
		"a campaign", "%s: the last %d commits before a crash are lost: the write-ahead log is damaged", s.file(), lost)
}

// acknowledge notes lost commits and returns how many they are, 0 where another process was faster.
func (s *Store) acknowledge(ctx context.Context, name string, number int64) (lost int64, err error) {
	err = s.update(ctx, "open", func(tx *sql.Tx) (err error) {
		if lost, err = missing(ctx, tx, name, number); err != nil || lost == 0 {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO losses (found, commits) VALUES ($1, $2)`, nanos(s.opt.Now()),
			lost); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE commits SET number = $1`, number)
		return err
	})
	return lost, err
}

// Loss are commits that were lost in a crash.
type Loss struct {
	Found   time.Time
	Commits int
}

// Losses returns what was lost since a time, the newest last.
func (s *Store) Losses(ctx context.Context, since time.Time) ([]Loss, error) {
	var list []Loss
	err := s.each(ctx, "read losses", `SELECT found, commits FROM losses WHERE found >= $1 ORDER BY found`,
		[]any{nanos(since)}, func(rows *sql.Rows) error {
			var l Loss
			var found int64
			err := rows.Scan(&found, &l.Commits)
			l.Found = fromNanos(found)
			list = append(list, l)
			return err
		})
	return list, err
}

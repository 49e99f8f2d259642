package store

// This file implements the writing of results in groups.

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
)

const (
	// groupSize and groupDelay bound a group: what a killed process loses, and what one wait for the disk is shared by.
	groupSize  = 256
	groupDelay = 50 * time.Millisecond
	// MaxIndex is the largest index of a case in its campaign: at a thousand cases a second, a month.
	MaxIndex = 1<<31 - 1
)

// Writer stores the results of one campaign in groups. It is safe for concurrent use.
//
// It has one goroutine, run, which owns the open group and ends with Close. Add hands it rows over the queue, which
// blocks when the disk is slower than the workers. The first error is kept: afterwards nothing is stored any more, and
// every call returns it.
type Writer struct {
	s        *Store
	campaign string
	queue    chan entry
	done     chan struct{} // closed when run has ended

	mu     sync.RWMutex // held for reading while something is put into the queue
	closed bool         // guarded by mu

	failed chan struct{} // closed once err is set
	err    error         // written by run before failed is closed
}

// entry is a row, or a request to commit what came before it: flushed is closed when that is done.
type entry struct {
	row     *row
	flushed chan struct{}
}

// Writer returns a writer for a campaign that exists. Close it before the store.
func (s *Store) Writer(campaignID string) *Writer {
	w := &Writer{s: s, campaign: campaignID, queue: make(chan entry, groupSize), done: make(chan struct{}),
		failed: make(chan struct{})}
	go w.run()
	return w
}

// Add accepts a result into the open group. It is stored when the group is full, after 50 ms, or with Flush. A second
// result with the same index is ignored.
func (w *Writer) Add(ctx context.Context, r *verdict.Result) error {
	row, err := w.s.newRow(r)
	if err != nil {
		return err
	}
	return w.put(ctx, entry{row: row})
}

// Flush returns when everything added before is stored for good.
func (w *Writer) Flush(ctx context.Context) error {
	e := entry{flushed: make(chan struct{})}
	if err := w.put(ctx, e); err != nil {
		return err
	}
	select {
	case <-e.flushed:
		return w.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close stores what is left and ends the writer. A second Close only returns the writer's error again.
func (w *Writer) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	<-w.done
	return w.failure()
}

func (w *Writer) put(ctx context.Context, e entry) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if err := w.failure(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.closed {
		return diag.Errorf(Closed, "", "%s: campaign %s: result added after Close", w.s.file(), w.campaign)
	}
	select {
	case w.queue <- e:
		return nil
	case <-w.failed:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failure returns the error that ended the writer, if one has.
func (w *Writer) failure() error {
	select {
	case <-w.failed:
		return w.err
	default:
		return nil
	}
}

func (w *Writer) run() {
	defer close(w.done)
	group := make([]*row, 0, groupSize)
	var due <-chan time.Time // when the open group has to be committed; nil while it is empty
	commit := func() {
		if len(group) > 0 && w.failure() == nil {
			if w.err = w.s.insert(context.Background(), w.campaign, group); w.err != nil {
				close(w.failed)
			}
		}
		clear(group)
		group, due = group[:0], nil
	}
	for {
		select {
		case e, open := <-w.queue:
			switch {
			case !open:
				commit()
				return
			case e.flushed != nil:
				commit()
				close(e.flushed)
				continue
			}
			if len(group) == 0 {
				due = time.After(groupDelay)
			}
			if group = append(group, e.row); len(group) == groupSize {
				commit()
			}
		case <-due:
			commit()
		}
	}
}

// insert stores rows in one transaction.
func (s *Store) insert(ctx context.Context, campaign string, rows []*row) error {
	return s.update(ctx, "store results", func(tx *sql.Tx) error {
		var id int64
		err := tx.QueryRowContext(ctx, "SELECT id FROM campaigns WHERE name = $1", campaign).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return s.noCampaign(campaign)
		}
		if err != nil {
			return err
		}
		return insertRows(ctx, tx, id, rows)
	})
}

func insertRows(ctx context.Context, tx *sql.Tx, campaign int64, rows []*row) error {
	stmt, err := tx.PrepareContext(ctx, `INSERT INTO results
		(campaign, idx, op, dtype, seed, verdict, failed, max_abs, finished, inputs, body)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (campaign, idx) DO NOTHING`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	// For a statement whose context may end the driver starts a goroutine, which takes longer than to insert a row. The
	// end of ctx is seen between rows.
	endless := context.WithoutCancel(ctx)
	profiles := make([]profile, 0, len(rows))
	verdicts := make([]judged, 0, len(rows))
	for _, r := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		res, err := stmt.ExecContext(endless, campaign, r.index, r.op, r.dtype, r.seed, r.verdict, r.failed, r.maxAbs,
			r.finished, r.inputs, r.body)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		if n == 0 { // there is one of that index
			continue
		}
		id, err := res.LastInsertId()
		if err != nil {
			return err
		}
		profiles = append(profiles, profile{id, r.profile})
		r.judged.result = id
		verdicts = append(verdicts, r.judged)
	}
	if err := addProfiles(endless, tx, campaign, profiles); err != nil {
		return err
	}
	return noteCases(endless, tx, campaign, verdicts)
}

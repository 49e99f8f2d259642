package store

// This file implements results: their rows, and finding them again.

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
)

// row is a result as the database holds it.
type row struct {
	index        int
	op, dtype    string
	seed         int64
	verdict      string
	failed       bool
	maxAbs       sql.NullFloat64
	finished     int64
	inputs, body string
	profile      verdict.Profile
	judged       judged
}

// newRow encodes a result. A result without a time gets the time of now.
func (s *Store) newRow(r *verdict.Result) (*row, error) {
	if r.Index < 0 || r.Index > MaxIndex {
		return nil, diag.Errorf(BadRecord, "", "result of op %q has index %d, want 0 to %d", r.Op, r.Index, MaxIndex)
	}
	timed := *r
	if timed.Time.IsZero() {
		timed.Time = s.opt.Now()
	}
	timed.Time = timed.Time.UTC()
	body, err := marshal(&timed)
	if err != nil {
		return nil, fmt.Errorf("result %d of op %q: %w", r.Index, r.Op, err)
	}
	maxAbs, p := r.MaxAbs(), timed.Profile()
	return &row{index: r.Index, op: r.Op, dtype: r.DType, seed: int64(r.Seed), verdict: r.Verdict.String(),
		failed: r.Verdict.Failed(), maxAbs: sql.NullFloat64{Float64: maxAbs, Valid: !math.IsNaN(maxAbs)},
		finished: nanos(timed.Time), inputs: r.Inputs, body: body, profile: p, judged: judgedBy(r, &p)}, nil
}

func marshal(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", diag.Errorf(Internal, "this is a fault of gpuemu: please report it", "encode %T: %w", v, err)
	}
	return string(b), nil
}

func unmarshal(text string, v any) error {
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return diag.Errorf(Damaged, "", "decode %T: %w", v, err)
	}
	return nil
}

// pageSize is how many results are read at once. Between pages no read transaction is open, so that a slow reader does
// not keep the write-ahead log from shrinking.
const pageSize = 256

// Results calls yield for every result of a campaign in the order of its index, and stops with its error. Memory does
// not grow with their number.
func (s *Store) Results(ctx context.Context, id string, yield func(*verdict.Result) error) error {
	var campaign int64
	err := s.r.QueryRowContext(ctx, "SELECT id FROM campaigns WHERE name = $1", id).Scan(&campaign)
	if errors.Is(err, sql.ErrNoRows) {
		return s.noCampaign(id)
	}
	if err != nil {
		return s.fault("read results", err)
	}
	for found, err := range merged(byIndex, s.rowsOf(ctx, campaign), s.packsOf(ctx, campaign)) {
		if err != nil {
			return err
		}
		if err := yield(&found.Result); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf gives the single rows of a campaign by their index.
func (s *Store) rowsOf(ctx context.Context, campaign int64) found {
	return func(yield func(*Found, error) bool) {
		for next := 0; ; {
			page, err := s.page(ctx, `SELECT '', '', id, finished, body FROM results
				WHERE campaign = $1 AND idx >= $2 ORDER BY idx LIMIT $3`, campaign, next, pageSize)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				next = page[i].Index + 1
				if !yield(&page[i], nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}

// Found is a result with the campaign it belongs to.
type Found struct {
	Campaign   string
	ConfigPath string
	verdict.Result

	id, finished int64 // where the next page begins
}

// page runs a query for campaign, config path, ID, time and body.
func (s *Store) page(ctx context.Context, query string, args ...any) ([]Found, error) {
	rows, err := s.r.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, s.fault("read results", err)
	}
	defer rows.Close()
	var page []Found
	for rows.Next() {
		var f Found
		var body string
		if err := rows.Scan(&f.Campaign, &f.ConfigPath, &f.id, &f.finished, &body); err != nil {
			return nil, s.fault("read results", err)
		}
		if err := unmarshal(body, &f.Result); err != nil {
			return nil, s.fault("read results", err)
		}
		page = append(page, f)
	}
	if err := rows.Err(); err != nil {
		return nil, s.fault("read results", err)
	}
	return page, nil
}

// Filter selects results. Empty fields select all.
type Filter struct {
	Op         string
	Since      time.Time
	Limit      int // 0: no limit
	FailedOnly bool
	Campaign   string
	Project    string
	ConfigPath string
	Seed       *verdict.Seed
}

// where returns the condition on results r and their campaigns c.
func (f *Filter) where() (string, []any) {
	var conds []string
	var args []any
	add := func(cond string, value any) {
		args = append(args, value)
		conds = append(conds, fmt.Sprintf(cond, len(args)))
	}
	if f.FailedOnly {
		conds = append(conds, "r.failed = 1") // a literal: a partial index is used for nothing else
	}
	if f.Op != "" {
		add("r.op = $%d", f.Op)
	}
	if !f.Since.IsZero() {
		add("r.finished >= $%d", nanos(f.Since))
	}
	switch {
	case f.Campaign != "" && f.FailedOnly:
		add("r.campaign = (SELECT id FROM campaigns WHERE name = $%d)", f.Campaign)
	case f.Campaign != "":
		add("c.name = $%d", f.Campaign) // not by (campaign, idx), which would sort the whole campaign for each page
	}
	if f.Project != "" {
		add("c.project = $%d", f.Project)
	}
	if f.ConfigPath != "" {
		add("c.config_path = $%d", f.ConfigPath)
	}
	if f.Seed != nil {
		add("r.seed = $%d", int64(*f.Seed))
	}
	if conds == nil {
		return "1", nil
	}
	return strings.Join(conds, " AND "), args
}

// query returns the statement for one page of results, newest first, that are older than the last one seen.
func (f *Filter) query(last *Found, limit int) (string, []any) {
	where, args := f.where()
	if last != nil {
		where += fmt.Sprintf(" AND (r.finished, r.id) < ($%d, $%d)", len(args)+1, len(args)+2)
		args = append(args, last.finished, last.id)
	}
	// CROSS JOIN keeps SQLite from going through the campaigns first.
	return fmt.Sprintf(`SELECT c.name, c.config_path, r.id, r.finished, r.body
		FROM results r CROSS JOIN campaigns c ON c.id = r.campaign
		WHERE %s ORDER BY r.finished DESC, r.id DESC LIMIT %d`, where, limit), args
}

// Find calls yield for the results that the filter selects, newest first, and stops with its error. Memory does not
// grow with their number.
func (s *Store) Find(ctx context.Context, f Filter, yield func(*Found) error) error {
	seen := 0
	for found, err := range merged(newestFirst, s.findRows(ctx, &f), s.findPacked(ctx, &f)) {
		if err != nil {
			return err
		}
		if err := yield(found); err != nil {
			return err
		}
		if seen++; seen == f.Limit {
			break
		}
	}
	return nil
}

// findRows gives the single rows that the filter selects, newest first.
func (s *Store) findRows(ctx context.Context, f *Filter) found {
	return func(yield func(*Found, error) bool) {
		var last *Found
		for seen := 0; f.Limit <= 0 || seen < f.Limit; {
			limit := pageSize
			if f.Limit > 0 {
				limit = min(limit, f.Limit-seen)
			}
			query, args := f.query(last, limit)
			page, err := s.page(ctx, query, args...)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
			}
			if len(page) < limit {
				return
			}
			seen, last = seen+len(page), &page[len(page)-1]
		}
	}
}

// List returns the results that the filter selects, newest first. It never loads tensors.
func (s *Store) List(ctx context.Context, f Filter) ([]verdict.Result, error) {
	var list []verdict.Result
	err := s.Find(ctx, f, func(found *Found) error {
		list = append(list, found.Result)
		return nil
	})
	return list, err
}

// maxBySeed is how many results of one seed are looked at: each run of a campaign with the same master seed adds one.
const maxBySeed = 1000

// BySeed returns the results with that seed, those that failed first, newest first. op "" means any.
func (s *Store) BySeed(ctx context.Context, seed uint64, op string) ([]Found, error) {
	bits := verdict.Seed(seed)
	var failing, other []Found
	err := s.Find(ctx, Filter{Seed: &bits, Op: op, Limit: maxBySeed}, func(f *Found) error {
		if f.Verdict.Failed() {
			failing = append(failing, *f)
		} else {
			other = append(other, *f)
		}
		return nil
	})
	return append(failing, other...), err
}

// Loose is a result that belongs to no campaign: one that a client computed, a shrunk case.
type Loose struct {
	Result     *verdict.Result
	ConfigPath string
}

// AddResult stores one such result. See AddResults.
func (s *Store) AddResult(ctx context.Context, r *verdict.Result, configPath string) error {
	return s.AddResults(ctx, []Loose{{r, configPath}})
}

// AddResults stores results that belong to no campaign, all of them or none. Each goes to a standing campaign for its
// kind and configuration file, made when first needed, and gets the next free index there, which is also written to the
// result. They are stored for good when AddResults returns.
func (s *Store) AddResults(ctx context.Context, list []Loose) error {
	if len(list) == 0 {
		return nil
	}
	return s.update(ctx, "store results", func(tx *sql.Tx) error {
		campaigns := map[string]*standing{}
		for _, l := range list {
			key := standingKind(l.Result) + "\x00" + l.ConfigPath
			to := campaigns[key]
			if to == nil {
				var err error
				if to, err = s.standing(ctx, tx, standingKind(l.Result), l.ConfigPath); err != nil {
					return err
				}
				campaigns[key] = to
			}
			l.Result.Index = to.next
			to.next++
			encoded, err := s.newRow(l.Result)
			if err != nil {
				return err
			}
			if packable(standingKind(l.Result), l.Result) {
				to.passed = append(to.passed, encoded)
			} else {
				to.rows = append(to.rows, encoded)
			}
		}
		for _, to := range campaigns {
			rest, err := insertPacks(ctx, tx, to.id, to.passed)
			if err != nil {
				return err
			}
			single := append(to.rows, rest...)
			slices.SortFunc(single, func(a, b *row) int { return cmp.Compare(a.index, b.index) })
			if err := insertRows(ctx, tx, to.id, single); err != nil {
				return err
			}
		}
		return nil
	})
}

// standing is a standing campaign with what is to be added.
type standing struct {
	id   int64
	next int // free index
	rows []*row
	// passed may be stored as packs.
	passed []*row
}

// standing finds a standing campaign, or makes it.
func (s *Store) standing(ctx context.Context, tx *sql.Tx, kind, configPath string) (*standing, error) {
	c := &Campaign{Kind: kind, ConfigPath: configPath, State: Standing, Started: s.opt.Now().UTC()}
	digest := sha256.Sum256([]byte(configPath))
	c.ID = c.Kind + "-" + hex.EncodeToString(digest[:4])
	out := &standing{}
	find := func() error {
		return tx.QueryRowContext(ctx, `SELECT id, 1 + max(
			(SELECT coalesce(max(idx), -1) FROM results WHERE campaign = campaigns.id),
			(SELECT coalesce(max(last), -1) FROM packs WHERE campaign = campaigns.id))
			FROM campaigns WHERE name = $1`, c.ID).Scan(&out.id, &out.next)
	}
	err := find()
	if errors.Is(err, sql.ErrNoRows) { // as good as always it is there
		if _, err := insertCampaign(ctx, tx, c); err != nil {
			return nil, err
		}
		err = find()
	}
	return out, err
}

// standingKind says which standing campaign a result goes to.
func standingKind(r *verdict.Result) string {
	switch {
	case r.ShrunkFrom != nil:
		return "shrunk"
	case r.ByClient():
		return "client"
	}
	return "single"
}

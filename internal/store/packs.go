package store

// This file implements packs: results that passed and came together are one row. Readers see them as any others.

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strings"

	"gpuemu/internal/verdict"
)

// minPack is how many results make a pack: below it, single rows cost less than a reader that has to look into one.
const minPack = 8

// packable reports whether a result may be in a pack: one that nobody looks for by its failure or its tensors.
func packable(kind string, r *verdict.Result) bool {
	return kind == "client" && r.Verdict == verdict.Pass && r.Inputs == ""
}

// insertPacks stores results, which are in the order of their indexes, as packs, one for each op. What is too little
// for a pack is returned.
func insertPacks(ctx context.Context, tx *sql.Tx, campaign int64, rows []*row) (rest []*row, err error) {
	byOp := map[string][]*row{}
	var ops []string
	for _, r := range rows {
		if byOp[r.op] == nil {
			ops = append(ops, r.op)
		}
		byOp[r.op] = append(byOp[r.op], r)
	}
	for _, op := range ops {
		list := byOp[op]
		if len(list) < minPack {
			rest = append(rest, list...)
			continue
		}
		newest := list[0].finished
		var seeds []byte
		var body strings.Builder
		body.Grow(len(list) * (len(list[0].body) + 32))
		for i, r := range list {
			newest = max(newest, r.finished)
			seeds = binary.BigEndian.AppendUint64(seeds, uint64(r.seed))
			body.WriteByte("[,"[min(i, 1)])
			body.WriteString(r.body)
		}
		body.WriteByte(']')
		pack := sql.NullInt64{Valid: true}
		err := tx.QueryRowContext(ctx, `INSERT INTO packs (campaign, op, first, last, count, newest, seeds, body)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id`, campaign, op, list[0].index, list[len(list)-1].index,
			len(list), newest, seeds, body.String()).Scan(&pack.Int64)
		if err != nil {
			return nil, err
		}
		profiles, verdicts := make([]profile, len(list)), make([]judged, len(list))
		for i, r := range list {
			verdicts[i] = r.judged
			profiles[i] = profile{row: int64(i), Profile: r.profile}
		}
		if err := insertProfiles(ctx, tx, campaign, pack, profiles); err != nil {
			return nil, err
		}
		if err := noteCases(ctx, tx, campaign, verdicts); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// pack is a row of packs.
type pack struct {
	id, first, newest int64
	results           []Found
}

// readPack runs a query for campaign, config path, ID, first index, newest time and body of one pack. It is nil where
// there is none.
func (s *Store) readPack(ctx context.Context, query string, args ...any) (*pack, error) {
	var p pack
	var campaign, configPath, body string
	err := s.r.QueryRowContext(ctx, query, args...).Scan(&campaign, &configPath, &p.id, &p.first, &p.newest, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	var results []verdict.Result
	if err == nil {
		err = unmarshal(body, &results)
	}
	if err != nil {
		return nil, s.fault("read results", err)
	}
	for i := range results {
		p.results = append(p.results, Found{Campaign: campaign, ConfigPath: configPath, Result: results[i],
			finished: nanos(results[i].Time)})
	}
	return &p, nil
}

// found are results in some order, ended by an error.
type found = iter.Seq2[*Found, error]

// byIndex and newestFirst are the orders of results. Of two that finished at one moment the later index is first.
func byIndex(a, b *Found) int { return cmp.Compare(a.Index, b.Index) }

func newestFirst(a, b *Found) int {
	return cmp.Or(cmp.Compare(b.finished, a.finished), cmp.Compare(b.Index, a.Index))
}

// packed gives the results of packs in an order. next returns the pack behind one, or the first, in the order of their
// first results; least returns a result that is in front of all of a pack.
func packed(
	order func(a, b *Found) int, next func(last *pack) (*pack, error), least func(*pack) *Found, keep func(*Found) bool,
) found {
	return func(yield func(*Found, error) bool) {
		var waiting []Found // in order; those of packs that overlap
		p, err := next(nil)
		for {
			// A result may be given when no pack that is not open has one in front of it.
			for err == nil && p != nil && (len(waiting) == 0 || order(least(p), &waiting[0]) <= 0) {
				for i := range p.results {
					if keep(&p.results[i]) {
						waiting = append(waiting, p.results[i])
					}
				}
				slices.SortFunc(waiting, func(a, b Found) int { return order(&a, &b) })
				p, err = next(p)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if len(waiting) == 0 || !yield(&waiting[0], nil) {
				return
			}
			waiting = waiting[1:]
		}
	}
}

// packsOf gives the packed results of a campaign by their index.
func (s *Store) packsOf(ctx context.Context, campaign int64) found {
	return packed(byIndex, func(last *pack) (*pack, error) {
		first, id := int64(-1), int64(0)
		if last != nil {
			first, id = last.first, last.id
		}
		return s.readPack(ctx, `SELECT '', '', id, first, newest, body FROM packs
			WHERE campaign = $1 AND (first, id) > ($2, $3) ORDER BY first, id LIMIT 1`, campaign, first, id)
	}, func(p *pack) *Found {
		return &Found{Result: verdict.Result{Index: int(p.first)}}
	}, func(*Found) bool { return true })
}

// findPacked gives the packed results that the filter selects, newest first.
func (s *Store) findPacked(ctx context.Context, f *Filter) found {
	if f.FailedOnly {
		return func(func(*Found, error) bool) {}
	}
	return packed(newestFirst, func(last *pack) (*pack, error) {
		query, args := f.packQuery(last)
		return s.readPack(ctx, query, args...)
	}, func(p *pack) *Found {
		return &Found{finished: p.newest, Result: verdict.Result{Index: MaxIndex}}
	}, func(r *Found) bool {
		return (f.Seed == nil || r.Seed == *f.Seed) && (f.Since.IsZero() || r.finished >= nanos(f.Since))
	})
}

// packQuery returns the statement for the pack behind one that may hold results of the filter.
func (f *Filter) packQuery(last *pack) (string, []any) {
	var conds []string
	var args []any
	add := func(cond string, values ...any) {
		conds, args = append(conds, cond), append(args, values...)
	}
	if f.Op != "" {
		add("p.op = ?", f.Op)
	}
	if !f.Since.IsZero() {
		add("p.newest >= ?", nanos(f.Since))
	}
	if f.Campaign != "" {
		add("c.name = ?", f.Campaign)
	}
	if f.Project != "" {
		add("c.project = ?", f.Project)
	}
	if f.ConfigPath != "" {
		add("c.config_path = ?", f.ConfigPath)
	}
	if f.Seed != nil { // the bytes of two seeds may have it as well: the results decide
		add("instr(p.seeds, ?)", binary.BigEndian.AppendUint64(nil, uint64(*f.Seed)))
	}
	if last != nil {
		add("(p.newest, p.id) < (?, ?)", last.newest, last.id)
	}
	where := "1"
	if conds != nil {
		where = strings.Join(conds, " AND ")
	}
	return `SELECT c.name, c.config_path, p.id, p.first, p.newest, p.body
		FROM packs p CROSS JOIN campaigns c ON c.id = p.campaign
		WHERE ` + where + ` ORDER BY p.newest DESC, p.id DESC LIMIT 1`, args
}

// merged gives the results of two sources that have the same order, in that order.
func merged(order func(a, b *Found) int, a, b found) found {
	return func(yield func(*Found, error) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		other, err, more := next()
		before := func(x *Found) bool { // gives what is in front of x; nil: everything
			for more && (err != nil || x == nil || order(other, x) < 0) {
				if !yield(other, err) || err != nil {
					return false
				}
				other, err, more = next()
			}
			return true
		}
		for x, fault := range a {
			if fault != nil {
				yield(nil, fault)
				return
			}
			if !before(x) || !yield(x, nil) {
				return
			}
		}
		before(nil)
	}
}

// deletePacks deletes packs, oldest first, of which all results are older than before, until limit of them or more are
// gone. It returns how many that were.
func (s *Store) deletePacks(ctx context.Context, before int64, limit int) (n int, err error) {
	err = s.update(ctx, "prune", func(tx *sql.Tx) error {
		n = 0
		for n < limit {
			var id, campaign int64
			var count int
			err := tx.QueryRowContext(ctx, `SELECT id, campaign, count FROM packs WHERE newest < $1
				ORDER BY newest LIMIT 1`, before).Scan(&id, &campaign, &count)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM packs WHERE id = $1`, id); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM profiles WHERE pack = $1`, id); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `UPDATE campaigns SET pruned = pruned + $1 WHERE id = $2`, count,
				campaign); err != nil {
				return err
			}
			n += count
		}
		return nil
	})
	return n, err
}

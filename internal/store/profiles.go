package store

// This file implements profiles: what counts and coverage need of results, stored with them and apart from them.

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"gpuemu/internal/verdict"
)

const (
	// profileGroup is how many profiles make a row at most.
	profileGroup = 256
	// profileAppend is up to how many a row is written again with more: fewer make more rows to read, and with more
	// whoever stores one result at a time waits for the others.
	profileAppend = 32
)

// addProfiles stores the profiles of rows that have just been stored.
func addProfiles(ctx context.Context, tx *sql.Tx, campaign int64, list []profile) error {
	if 0 < len(list) && len(list) < profileAppend {
		var id int64
		var body []byte
		err := tx.QueryRowContext(ctx, `SELECT id, body FROM profiles WHERE id = (SELECT id FROM profiles
			WHERE campaign = $1 AND pack IS NULL ORDER BY last DESC LIMIT 1) AND count < $2`, campaign,
			profileAppend).Scan(&id, &body)
		if err == nil {
			before, err := copyProfiles(body)
			if err != nil {
				return err
			}
			return writeProfiles(ctx, tx, id, append(before, list...))
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	for group := range slices.Chunk(list, profileGroup) {
		if err := insertProfiles(ctx, tx, campaign, sql.NullInt64{}, group); err != nil {
			return err
		}
	}
	return nil
}

// copyProfiles decodes profiles that are kept.
func copyProfiles(body []byte) ([]profile, error) {
	var list []profile
	err := decodeProfiles(body, func(p *profile) error {
		c := *p
		c.Sizes, c.Dims = slices.Clone(p.Sizes), slices.Clone(p.Dims)
		list = append(list, c)
		return nil
	})
	return list, err
}

// insertProfiles stores a row of profiles.
func insertProfiles(ctx context.Context, tx *sql.Tx, campaign int64, pack sql.NullInt64, list []profile) error {
	var id int64
	err := tx.QueryRowContext(ctx, `INSERT INTO profiles (campaign, pack, first, last, count, newest, body)
		VALUES ($1, $2, 0, 0, 0, 0, '') RETURNING id`, campaign, pack).Scan(&id)
	if err != nil {
		return err
	}
	return writeProfiles(ctx, tx, id, list)
}

// writeProfiles replaces what a row of profiles holds; one without profiles is deleted.
func writeProfiles(ctx context.Context, tx *sql.Tx, id int64, list []profile) error {
	if len(list) == 0 {
		_, err := tx.ExecContext(ctx, `DELETE FROM profiles WHERE id = $1`, id)
		return err
	}
	newest := nanos(list[0].Time)
	for i := range list {
		newest = max(newest, nanos(list[i].Time))
	}
	_, err := tx.ExecContext(ctx, `UPDATE profiles SET first = $1, last = $2, count = $3, newest = $4, body = $5
		WHERE id = $6`, list[0].row, list[len(list)-1].row, len(list), newest, encodeProfiles(list), id)
	return err
}

// dropProfiles deletes the profiles of results of a campaign that are deleted, given by their ids in order.
func dropProfiles(ctx context.Context, tx *sql.Tx, campaign int64, ids []int64) error {
	type group struct {
		id   int64
		body []byte
	}
	var groups []group
	rows, err := tx.QueryContext(ctx, `SELECT id, body FROM profiles WHERE campaign = $1 AND pack IS NULL AND last >= $2
		AND first <= $3`, campaign, ids[0], ids[len(ids)-1])
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var g group
		if err := rows.Scan(&g.id, &g.body); err != nil {
			return err
		}
		groups = append(groups, g)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, g := range groups {
		list, err := copyProfiles(g.body)
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(list, func(p profile) bool {
			_, gone := slices.BinarySearch(ids, p.row)
			return gone
		})
		if err := writeProfiles(ctx, tx, g.id, left); err != nil {
			return err
		}
	}
	return nil
}

// profileAll stores the profiles of all results, of a database that had none.
func profileAll(ctx context.Context, tx *sql.Tx) error {
	for after := int64(0); ; {
		page, err := readStored(ctx, tx, `SELECT id, campaign, body FROM results WHERE id > $1 ORDER BY id LIMIT $2`, after,
			profileGroup)
		if err != nil || len(page) == 0 {
			if err != nil {
				return err
			}
			break
		}
		lists := map[int64][]profile{}
		for _, r := range page {
			var res verdict.Result
			if err := unmarshal(r.body, &res); err != nil {
				return err
			}
			lists[r.campaign] = append(lists[r.campaign], profile{r.id, res.Profile()})
			after = r.id
		}
		for campaign, list := range lists {
			if err := addProfiles(ctx, tx, campaign, list); err != nil {
				return err
			}
		}
	}
	for after := int64(0); ; {
		page, err := readStored(ctx, tx, `SELECT id, campaign, body FROM packs WHERE id > $1 ORDER BY id LIMIT $2`, after, 16)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			var results []verdict.Result
			if err := unmarshal(r.body, &results); err != nil {
				return err
			}
			list := make([]profile, len(results))
			for i := range results {
				list[i] = profile{int64(i), results[i].Profile()}
			}
			if err := insertProfiles(ctx, tx, r.campaign, sql.NullInt64{Int64: r.id, Valid: true}, list); err != nil {
				return err
			}
			after = r.id
		}
	}
}

// storedBody is a row of results or packs.
type storedBody struct {
	id, campaign int64
	body         string
}

// readStored runs a query for id, campaign and body of the rows after one, at most so many.
func readStored(ctx context.Context, tx *sql.Tx, query string, after int64, most int) (list []storedBody, err error) {
	rows, err := tx.QueryContext(ctx, query, after, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r storedBody
		if err := rows.Scan(&r.id, &r.campaign, &r.body); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// readProfiles calls yield for all profiles, with their campaigns, and stops with its error.
func readProfiles(ctx context.Context, tx *sql.Tx, yield func(campaign int64, p *profile) error) error {
	rows, err := tx.QueryContext(ctx, `SELECT campaign, body FROM profiles`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var campaign int64
		var body sql.RawBytes
		if err := rows.Scan(&campaign, &body); err != nil {
			return err
		}
		if err := decodeProfiles(body, func(p *profile) error { return yield(campaign, p) }); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Profiled is a profile with where its result is.
type Profiled struct {
	Campaign string
	*verdict.Profile

	row    int64
	packed bool
}

// Place is where the result of a profile lies, to read it with Placed.
type Place struct{ row, finished int64 }

// Place returns where the result lies; ok is false for one in a pack, which has passed.
func (p *Profiled) Place() (place Place, ok bool) { return Place{p.row, nanos(p.Time)}, !p.packed }

// Profiles calls yield for the profiles of results that the filter selects by Project, ConfigPath and Since, roughly
// the newest first, and stops with its error. What yield is given is valid during the call only.
func (s *Store) Profiles(ctx context.Context, f Filter, yield func(*Profiled) error) error {
	conds, args := []string{"p.newest >= ?"}, []any{nanos(f.Since)}
	for _, c := range []struct{ column, value string }{{"c.config_path", f.ConfigPath}, {"c.project", f.Project}} {
		if c.value != "" {
			conds, args = append(conds, c.column+" = ?"), append(args, c.value)
		}
	}
	var body sql.RawBytes
	found := Profiled{}
	since := nanos(f.Since)
	return s.each(ctx, "read results", `SELECT c.name, p.pack IS NOT NULL, p.body FROM profiles p
		CROSS JOIN campaigns c ON c.id = p.campaign WHERE `+strings.Join(conds, " AND ")+`
		ORDER BY p.newest DESC`, args, func(rows *sql.Rows) error {
		if err := rows.Scan(&found.Campaign, &found.packed, &body); err != nil {
			return err
		}
		return decodeProfiles(body, func(p *profile) error {
			if nanos(p.Time) < since {
				return nil
			}
			found.Profile, found.row = &p.Profile, p.row
			return yield(&found)
		})
	})
}

// Placed calls yield for the results at places that are in the order of Newest, and stops with its error. Those that
// were pruned since are left out.
func (s *Store) Placed(ctx context.Context, places []Place, yield func(*verdict.Result) error) error {
	for group := range slices.Chunk(places, pageSize) {
		rows := make([]int64, len(group))
		for i, p := range group {
			rows[i] = p.row
		}
		list, err := marshal(rows)
		if err != nil {
			return err
		}
		page, err := s.page(ctx, `SELECT '', '', id, finished, body FROM results
			WHERE id IN (SELECT value FROM json_each($1))`, list)
		if err != nil {
			return err
		}
		slices.SortFunc(page, func(x, y Found) int { return Place{x.id, x.finished}.Newest(Place{y.id, y.finished}) })
		for i := range page {
			if err := yield(&page[i].Result); err != nil {
				return err
			}
		}
	}
	return nil
}

// Newest orders places: the newest first.
func (p Place) Newest(q Place) int {
	switch {
	case p.finished != q.finished && p.finished > q.finished, p.finished == q.finished && p.row > q.row:
		return -1
	case p == q:
		return 0
	}
	return 1
}

package store

// This file implements which failures are open: for each case that ever failed, when it failed and when it passed last.
// A failure is fixed when the newest verdict on its case is pass. Undecided and not run are no verdicts here.
//
// A minimized case, which no run comes back to, goes with the case that it was made of, which is known by op and seed.

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
)

// judged is a verdict on a case: what a result says of whether its failures are open.
type judged struct {
	key, origin int64 // see the table failing
	shrunk      bool
	pass, fail  bool
	finished    int64
	result      int64 // id of the row; 0 in packs, which have passed
}

// judgedBy gives what a result says. p is its profile.
func judgedBy(r *verdict.Result, p *verdict.Profile) judged {
	seed := r.Seed
	if r.ShrunkFrom != nil {
		seed = *r.ShrunkFrom
	}
	j := judgedProfile(p)
	j.origin = hashOf(p.ByClient(), []byte(r.Op), binary.BigEndian.AppendUint64(nil, uint64(seed)))
	return j
}

// judgedProfile gives what a profile says, which knows no seed.
func judgedProfile(p *verdict.Profile) judged {
	return judged{key: hashOf(p.ByClient(), binary.BigEndian.AppendUint64(nil, p.Key)), shrunk: p.Shrunk,
		pass: p.Verdict == verdict.Pass, fail: p.Verdict.Failed(), finished: nanos(p.Time)}
}

// hashOf is the FNV-1a hash of the side and of parts, as SQLite holds it.
func hashOf(byClient bool, parts ...[]byte) int64 {
	h := fnv.New64a()
	h.Write([]byte{0})
	if byClient {
		h.Write([]byte{1})
	}
	for _, p := range parts {
		h.Write(p)
		h.Write([]byte{0})
	}
	return int64(h.Sum64())
}

// noteCases notes verdicts that were stored in a campaign. What counts is when a case was finished, not the order in
// which results are stored, except that a case that never failed is not remembered.
func noteCases(ctx context.Context, tx *sql.Tx, campaign int64, list []judged) error {
	passed, origins := map[int64]int64{}, map[int64]int64{}
	for i := range list {
		j := &list[i]
		switch {
		case j.pass:
			passed[j.key] = max(passed[j.key], j.finished)
			if !j.shrunk {
				origins[j.origin] = max(origins[j.origin], j.finished)
			}
		case j.fail:
			if err := noteFailure(ctx, tx, campaign, j); err != nil {
				return err
			}
		}
	}
	for column, times := range map[string]map[int64]int64{"key": passed, "origin": origins} {
		if len(times) == 0 {
			continue
		}
		pairs := make([][2]int64, 0, len(times))
		for key, at := range times {
			pairs = append(pairs, [2]int64{key, at})
		}
		text, err := marshal(pairs)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, strings.ReplaceAll(`UPDATE failing SET passed = max(passed, v.at)
			FROM (SELECT value ->> 0 AS key, value ->> 1 AS at FROM json_each($1)) v
			WHERE failing.COLUMN = v.key AND failing.config = (SELECT config_path FROM campaigns WHERE id = $2)`,
			"COLUMN", column), text, campaign); err != nil {
			return err
		}
	}
	return nil
}

// noteFailure notes a failure, which also reopens what was made of its case.
func noteFailure(ctx context.Context, tx *sql.Tx, campaign int64, j *judged) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO failing (key, config, result, finished, failed, passed, origin)
		VALUES ($1, (SELECT config_path FROM campaigns WHERE id = $2), $3, $4, $4, 0, $5)
		ON CONFLICT (key, config) DO UPDATE SET result = excluded.result, finished = excluded.finished,
		failed = max(failed, excluded.failed) WHERE excluded.finished >= finished`, j.key, campaign, j.result, j.finished,
		sql.NullInt64{Int64: j.origin, Valid: j.shrunk})
	if err == nil && !j.shrunk {
		_, err = tx.ExecContext(ctx, `UPDATE failing SET failed = max(failed, $1) WHERE origin = $2
			AND config = (SELECT config_path FROM campaigns WHERE id = $3)`, j.finished, j.origin, campaign)
	}
	return err
}

// forgetFailures forgets cases whose newest failure was deleted; ids is a list in JSON.
func forgetFailures(ctx context.Context, tx *sql.Tx, ids string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM failing WHERE result IN (SELECT value FROM json_each($1))`, ids)
	return err
}

// noteAll notes the verdicts of a database that has profiles and no table of failing cases. It reads the failures, and
// of what passed the profiles.
func noteAll(ctx context.Context, tx *sql.Tx) error {
	type place struct{ campaign, key int64 }
	failing := map[int64]bool{}
	for after := int64(0); ; {
		page, err := readStored(ctx, tx, `SELECT id, campaign, body FROM results WHERE failed = 1 AND id > $1 ORDER BY id
			LIMIT $2`, after, profileGroup)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			var res verdict.Result
			if err := unmarshal(r.body, &res); err != nil {
				return err
			}
			p := res.Profile()
			j := judgedBy(&res, &p)
			j.result, after = r.id, r.id
			failing[j.key] = true
			if err := noteCases(ctx, tx, r.campaign, []judged{j}); err != nil {
				return err
			}
			if err := noteOrigin(ctx, tx, r.campaign, &res, &j); err != nil {
				return err
			}
		}
	}
	passed := map[place]int64{}
	err := readProfiles(ctx, tx, func(campaign int64, p *profile) error {
		if j := judgedProfile(&p.Profile); j.pass && failing[j.key] {
			at := place{campaign, j.key}
			passed[at] = max(passed[at], j.finished)
		}
		return nil
	})
	for at, finished := range passed {
		if err == nil { // as a minimized case: its seed is not known, and noteOrigin has looked for what it would say
			err = noteCases(ctx, tx, at.campaign, []judged{{key: at.key, pass: true, shrunk: true, finished: finished}})
		}
	}
	return err
}

// noteOrigin looks for the newest verdicts on the case that a minimized one was made of.
func noteOrigin(ctx context.Context, tx *sql.Tx, campaign int64, r *verdict.Result, j *judged) error {
	if !j.shrunk {
		return nil
	}
	_, err := tx.ExecContext(ctx, `UPDATE failing SET failed = max(failing.failed, v.failed),
			passed = max(failing.passed, v.passed)
		FROM (SELECT coalesce(max(r.finished) FILTER (WHERE r.failed = 1), 0) AS failed,
			coalesce(max(r.finished) FILTER (WHERE r.verdict = 'pass'), 0) AS passed
			FROM results r JOIN campaigns c ON c.id = r.campaign WHERE r.seed = $1 AND r.op = $2 AND c.kind <> 'shrunk'
			AND c.config_path = (SELECT config_path FROM campaigns WHERE id = $3)
			AND (coalesce(r.body ->> '$.candidate', '') = $4) = $5) v
		WHERE failing.key = $6 AND failing.config = (SELECT config_path FROM campaigns WHERE id = $3)`, int64(*r.ShrunkFrom),
		r.Op, campaign, verdict.ClientSide, r.Candidate == verdict.ClientSide, j.key)
	return err
}

// OpenFailures calls yield with the JSON of the newest failure of each case whose newest verdict is not pass, newest
// first, and stops with its error. The filter has a limit and selects by Op, Since and ConfigPath.
func (s *Store) OpenFailures(ctx context.Context, f Filter, yield func(json.RawMessage) error) error {
	conds, args := []string{"f.failed > f.passed", "f.finished >= ?"}, []any{nanos(f.Since)}
	for _, c := range []struct{ column, value string }{{"f.config", f.ConfigPath}, {"r.op", f.Op}} {
		if c.value != "" {
			conds, args = append(conds, c.column+" = ?"), append(args, c.value)
		}
	}
	return s.each(ctx, "read failures", `SELECT r.body FROM failing f CROSS JOIN results r ON r.id = f.result
		WHERE `+strings.Join(conds, " AND ")+` ORDER BY f.finished DESC, f.result DESC LIMIT ?`, append(args, f.Limit),
		func(rows *sql.Rows) error {
			var body []byte
			if err := rows.Scan(&body); err != nil {
				return err
			}
			return yield(body)
		})
}

// MarkedFailures calls yield with the JSON of each failure that the filter selects, newest first, and with whether it
// is fixed, and stops with its error. The filter has a limit.
func (s *Store) MarkedFailures(
	ctx context.Context, f Filter, yield func(text json.RawMessage, fixed bool) error,
) error {
	var texts []json.RawMessage
	var keys []int64
	var configs []string
	err := s.failureTexts(ctx, f, func(text json.RawMessage, config string) error {
		r, err := verdict.CaseOf(text)
		if err != nil {
			return diag.Errorf(Damaged, "", "decode a failure: %w", err)
		}
		p := verdict.Profile{Candidate: r.Candidate, Key: r.CaseHash()}
		texts, keys, configs = append(texts, text), append(keys, judgedProfile(&p).key), append(configs, config)
		return nil
	})
	if err != nil {
		return err
	}
	asked, err := marshal(keys)
	if err != nil {
		return err
	}
	type place struct {
		key    int64
		config string
	}
	fixed := map[place]bool{}
	err = s.each(ctx, "read failures", `SELECT key, config FROM failing WHERE failed <= passed
		AND key IN (SELECT value FROM json_each($1))`, []any{asked}, func(rows *sql.Rows) error {
		var at place
		err := rows.Scan(&at.key, &at.config)
		fixed[at] = true
		return err
	})
	for i, text := range texts {
		if err == nil {
			err = yield(text, fixed[place{keys[i], configs[i]}])
		}
	}
	return err
}

package store

// This file implements campaigns: who ran what, and how far it came.

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
)

// The states of a campaign.
const (
	Running     = "running"     // or its process died; Interrupt finds out
	Finished    = "finished"    // all planned cases are done
	Stopped     = "stopped"     // ended early on purpose: fail-fast, time limit
	Interrupted = "interrupted" // ended before its time; --resume continues it
	Standing    = "standing"    // collects results that belong to no campaign; see AddResult
)

// Campaign is one run over a list of cases, as the store knows it.
type Campaign struct {
	ID           string // short, sortable by the time of creation, never the same twice: 20261115-abc123
	Kind         string // test, fuzz, ci, …
	Project      string
	ConfigPath   string
	ConfigDigest string
	CodeDigest   string
	Seed         verdict.Seed // master seed
	Request      json.RawMessage
	Planned      int
	Shard        string
	State        string
	Started      time.Time
	Finished     time.Time // zero while it runs
	Summary      *verdict.Summary
	PID          int
	MaxInputs    int64 // bytes of tensors that are kept when the campaign begins; 0: those of the options; not stored
	Pruned       int   // results that Prune took away: what Results gives is not all then

	owner string // which store runs it; see RunByOther
}

// CampaignFilter selects campaigns. Empty fields select all, except that standing campaigns have to be asked for.
type CampaignFilter struct {
	State, ConfigPath, Kind string
	Limit                   int // 0: no limit
}

const campaignColumns = `name, kind, project, config_path, config_digest, code_digest, seed, request, planned, shard,
	state, started, finished, summary, pid, pruned, owner`

// CreateCampaign stores a new campaign. It fills in what is not set: ID, State (running), Started (now) and PID (this
// process). A store over its budget is pruned first.
func (s *Store) CreateCampaign(ctx context.Context, c *Campaign) error {
	if c.State == "" {
		c.State = Running
	}
	if c.Started.IsZero() {
		c.Started = s.opt.Now().UTC()
	}
	if c.PID == 0 {
		c.PID = os.Getpid()
	}
	if !s.opt.ReadOnly {
		if _, err := s.prune(ctx, cmp.Or(c.MaxInputs, s.opt.BlobBudget)); err != nil {
			return err
		}
		if c.State == Running && c.PID == os.Getpid() {
			var err error
			if c.owner, err = s.own(); err != nil {
				return err
			}
		}
	}
	return s.update(ctx, "create campaign", func(tx *sql.Tx) error {
		if c.ID != "" {
			ok, err := insertCampaign(ctx, tx, c)
			if err == nil && !ok {
				err = diag.Errorf(CampaignTaken, "leave the ID out to get a new one",
					"%s: a campaign %q exists already", s.file(), c.ID)
			}
			return err
		}
		const attempts = 100 // two random characters for campaigns of the same tenth of a second
		for range attempts {
			c.ID = newID(c.Started)
			if ok, err := insertCampaign(ctx, tx, c); ok || err != nil {
				return err
			}
		}
		c.ID = ""
		return diag.Errorf(CampaignTaken, "try again", "%s: found no free campaign ID", s.file())
	})
}

// insertCampaign reports whether the ID was free.
func insertCampaign(ctx context.Context, tx *sql.Tx, c *Campaign) (bool, error) {
	summary, err := summaryText(c.Summary)
	if err != nil {
		return false, err
	}
	res, err := tx.ExecContext(ctx, `INSERT INTO campaigns (`+campaignColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) ON CONFLICT (name) DO NOTHING`,
		c.ID, c.Kind, c.Project, c.ConfigPath, c.ConfigDigest, c.CodeDigest, int64(c.Seed), string(c.Request), c.Planned,
		c.Shard, c.State, nanos(c.Started), nanos(c.Finished), summary, c.PID, c.Pruned, c.owner)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// newID returns date, tenth of a second of the day (four characters) and chance (two characters).
func newID(t time.Time) string {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz" // Crockford's base 32: sorted, and no i, l, o, u to misread
	t = t.UTC()
	tenths := ((t.Hour()*60+t.Minute())*60+t.Second())*10 + t.Nanosecond()/1e8
	var chance [2]byte
	_, _ = rand.Read(chance[:]) // never fails
	var b [6]byte
	for i := range 4 {
		b[3-i] = digits[tenths>>(5*i)&31]
	}
	b[4], b[5] = digits[chance[0]&31], digits[chance[1]&31]
	return t.Format("20060102-") + string(b[:])
}

// FinishCampaign stores how a campaign ended. The context must outlive the interruption that it may be reporting.
func (s *Store) FinishCampaign(ctx context.Context, id, state string, sum *verdict.Summary) error {
	summary, err := summaryText(sum)
	if err != nil {
		return err
	}
	return s.update(ctx, "finish campaign "+id, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE campaigns SET state = $1, finished = $2, summary = $3 WHERE name = $4`,
			state, nanos(s.opt.Now()), summary, id)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return s.noCampaign(id)
	})
}

// Resume takes over a campaign: its state becomes running, its process this one. A campaign that another store is
// running is left alone.
func (s *Store) Resume(ctx context.Context, id string) (*Campaign, error) {
	owner := ""
	if !s.opt.ReadOnly {
		var err error
		if owner, err = s.own(); err != nil {
			return nil, err
		}
	}
	var c *Campaign
	err := s.update(ctx, "resume campaign "+id, func(tx *sql.Tx) (err error) {
		if c, err = s.campaign(ctx, tx, id); err != nil {
			return err
		}
		other, err := s.RunByOther(c)
		if err != nil {
			return err
		}
		if other {
			return diag.Errorf(CampaignTaken, "wait until it ends, or end it",
				"%s: campaign %s is running in process %d", s.file(), id, c.PID)
		}
		c.State, c.PID, c.Finished, c.Summary, c.owner = Running, os.Getpid(), time.Time{}, nil, owner
		_, err = tx.ExecContext(ctx, `UPDATE campaigns SET state = $1, pid = $2, owner = $3, finished = 0, summary = ''
			WHERE name = $4`, c.State, c.PID, c.owner, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Interrupt marks as interrupted the running campaigns whose process is gone and returns their IDs.
func (s *Store) Interrupt(ctx context.Context) ([]string, error) {
	running, err := s.Campaigns(ctx, CampaignFilter{State: Running})
	if err != nil {
		return nil, err
	}
	var gone []string
	for _, c := range running {
		if other, err := s.RunByOther(&c); other || s.owns(&c) || err != nil {
			if err != nil {
				return gone, err
			}
			continue
		}
		err := s.update(ctx, "interrupt campaign "+c.ID, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE campaigns SET state = $1, finished = $2
				WHERE name = $3 AND state = $4 AND owner = $5`, Interrupted, nanos(s.opt.Now()), c.ID, Running, c.owner)
			return err
		})
		if err != nil {
			return gone, err
		}
		gone = append(gone, c.ID)
	}
	return gone, nil
}

// Campaign returns the campaign of that ID; the error has code NotFound where there is none.
func (s *Store) Campaign(ctx context.Context, id string) (*Campaign, error) {
	c, err := s.campaign(ctx, s.r, id)
	if err != nil {
		return nil, s.fault("read campaign", err)
	}
	return c, nil
}

// querier is a connection or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (s *Store) campaign(ctx context.Context, q querier, id string) (*Campaign, error) {
	c := new(Campaign)
	err := scanCampaign(q.QueryRowContext(ctx, `SELECT `+campaignColumns+` FROM campaigns WHERE name = $1`, id), c)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, s.noCampaign(id)
	}
	return c, err
}

// Campaigns returns campaigns, those that started last first.
func (s *Store) Campaigns(ctx context.Context, f CampaignFilter) ([]Campaign, error) {
	where, args := []string{"state <> '" + Standing + "'"}, []any{}
	if f.State == Standing {
		where[0] = "1"
	}
	for _, cond := range []struct{ column, value string }{
		{"state", f.State}, {"config_path", f.ConfigPath}, {"kind", f.Kind},
	} {
		if cond.value != "" {
			args = append(args, cond.value)
			where = append(where, fmt.Sprintf("%s = $%d", cond.column, len(args)))
		}
	}
	query := `SELECT ` + campaignColumns + ` FROM campaigns WHERE ` + strings.Join(where, " AND ") +
		` ORDER BY started DESC, id DESC`
	if f.Limit > 0 {
		query += fmt.Sprintf(" LIMIT %d", f.Limit)
	}
	rows, err := s.r.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, s.fault("list campaigns", err)
	}
	defer rows.Close()
	var list []Campaign
	for rows.Next() {
		var c Campaign
		if err := scanCampaign(rows, &c); err != nil {
			return nil, s.fault("list campaigns", err)
		}
		list = append(list, c)
	}
	if err := rows.Err(); err != nil {
		return nil, s.fault("list campaigns", err)
	}
	return list, nil
}

func scanCampaign(row interface{ Scan(dest ...any) error }, c *Campaign) error {
	var seed, started, finished int64
	var request, summary string
	err := row.Scan(&c.ID, &c.Kind, &c.Project, &c.ConfigPath, &c.ConfigDigest, &c.CodeDigest, &seed, &request,
		&c.Planned, &c.Shard, &c.State, &started, &finished, &summary, &c.PID, &c.Pruned, &c.owner)
	if err != nil {
		return err
	}
	c.Seed, c.Started, c.Finished = verdict.Seed(seed), fromNanos(started), fromNanos(finished)
	if request != "" {
		c.Request = json.RawMessage(request)
	}
	if summary == "" {
		return nil
	}
	c.Summary = new(verdict.Summary)
	return unmarshal(summary, c.Summary)
}

func (s *Store) noCampaign(id string) error {
	return diag.Errorf(NotFound, "every report names its campaign in the first lines; without a name the newest is taken",
		"%s: no campaign %q", s.file(), id)
}

func summaryText(sum *verdict.Summary) (string, error) {
	if sum == nil {
		return "", nil
	}
	return marshal(sum)
}

// nanos is a time as the database holds it.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// Stored counts the results of a campaign that are stored, and those of them that failed.
func (s *Store) Stored(ctx context.Context, id string) (all, failed int, err error) {
	err = s.r.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM results WHERE campaign = c.id) +
		(SELECT coalesce(sum(count), 0) FROM packs WHERE campaign = c.id),
		(SELECT count(*) FROM results WHERE campaign = c.id AND failed = 1)
		FROM campaigns c WHERE c.name = $1`, id).Scan(&all, &failed)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, s.noCampaign(id)
	}
	return all, failed, s.faultOrNil("count", err)
}

// FinishedIndexes returns which cases of a campaign are finished, and how many.
func (s *Store) FinishedIndexes(ctx context.Context, id string) (done func(i int) bool, count int, err error) {
	if _, err := s.Campaign(ctx, id); err != nil {
		return nil, 0, err
	}
	rows, err := s.r.QueryContext(ctx, `SELECT idx FROM results
		WHERE campaign = (SELECT id FROM campaigns WHERE name = $1) ORDER BY idx`, id)
	if err != nil {
		return nil, 0, s.fault("read campaign", err)
	}
	defer rows.Close()
	var bits []uint64 // one bit per index: a million finished cases are 122 KiB
	for rows.Next() {
		var i int
		if err := rows.Scan(&i); err != nil {
			return nil, 0, s.fault("read campaign", err)
		}
		if need := i/64 + 1; need > len(bits) {
			bits = slices.Grow(bits, need-len(bits))[:need]
		}
		bits[i/64] |= 1 << (i % 64)
		count++
	}
	if err := rows.Err(); err != nil {
		return nil, 0, s.fault("read campaign", err)
	}
	return func(i int) bool { return i >= 0 && i/64 < len(bits) && bits[i/64]>>(i%64)&1 == 1 }, count, nil
}

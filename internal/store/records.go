package store

// This file implements what is stored besides campaigns and tensors: baselines, calibrations, metrics of artifacts and
// configurations of the published fuzzer. Each is a JSON text under a name; storing it again replaces it.

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	"gpuemu/internal/diag"
)

// Baseline is a report that later runs are compared with.
type Baseline struct {
	Tag, Project string
	Body         json.RawMessage // the report; nil where there is none
	Artifacts    json.RawMessage // metrics of artifacts; nil where there are none
	Saved        time.Time
}

// SaveBaseline stores a baseline under its tag. A tag belongs to a project.
func (s *Store) SaveBaseline(ctx context.Context, tag, project string, body, artifacts json.RawMessage) error {
	if err := errors.Join(checkName("tag", tag), checkJSON("baseline "+tag, body)); err != nil {
		return err
	}
	if artifacts != nil {
		if err := checkJSON("artifacts of baseline "+tag, artifacts); err != nil {
			return err
		}
	}
	return s.replace(ctx, "save baseline "+tag, `INSERT OR REPLACE INTO baselines (tag, project, body, artifacts, saved)
		VALUES ($1, $2, $3, $4, $5)`, tag, project, string(body), string(artifacts), nanos(s.opt.Now()))
}

// SaveBaselineReport stores the report of a baseline and leaves the artifacts of that tag as they are.
func (s *Store) SaveBaselineReport(ctx context.Context, tag, project string, body json.RawMessage) error {
	if err := errors.Join(checkName("tag", tag), checkJSON("baseline "+tag, body)); err != nil {
		return err
	}
	return s.replace(ctx, "save baseline "+tag, `INSERT INTO baselines (tag, project, body, artifacts, saved)
		VALUES ($1, $2, $3, '', $4) ON CONFLICT DO UPDATE SET body = excluded.body, saved = excluded.saved`,
		tag, project, string(body), nanos(s.opt.Now()))
}

// SaveBaselineArtifacts stores the artifacts of a baseline and leaves the report of that tag as it is. A tag that is
// new has no report then.
func (s *Store) SaveBaselineArtifacts(ctx context.Context, tag, project string, artifacts json.RawMessage) error {
	if err := errors.Join(checkName("tag", tag), checkJSON("artifacts of baseline "+tag, artifacts)); err != nil {
		return err
	}
	return s.replace(ctx, "save baseline "+tag, `INSERT INTO baselines (tag, project, body, artifacts, saved)
		VALUES ($1, $2, '', $3, $4) ON CONFLICT DO UPDATE SET artifacts = excluded.artifacts, saved = excluded.saved`,
		tag, project, string(artifacts), nanos(s.opt.Now()))
}

// Baseline returns the baseline of that tag. Where there is none, the error has code NotFound and names the known tags.
func (s *Store) Baseline(ctx context.Context, tag, project string) (*Baseline, error) {
	b := &Baseline{Tag: tag, Project: project}
	found, err := s.lookup(ctx, "read baseline "+tag, &b.Saved, []any{(*text)(&b.Body), (*text)(&b.Artifacts)},
		`SELECT saved, body, artifacts FROM baselines WHERE tag = $1 AND project = $2`, tag, project)
	if err != nil {
		return nil, err
	}
	if found {
		return b, nil
	}
	known, err := s.names(ctx, `SELECT tag FROM baselines WHERE project = $1 ORDER BY saved DESC, tag`, project)
	if err != nil {
		return nil, err
	}
	otherwise := "store one with: gpuemu baseline " + tag
	if len(known) == 0 {
		return nil, diag.Errorf(NotFound, otherwise, "no baseline %q: project %q has none", tag, project)
	}
	return nil, diag.Errorf(NotFound, diag.Suggest(tag, known, otherwise), "no baseline %q: project %q has %s", tag,
		project, strings.Join(known, ", "))
}

// Baselines returns all baselines without their bodies, newest first.
func (s *Store) Baselines(ctx context.Context) ([]Baseline, error) {
	var list []Baseline
	err := s.each(ctx, "list baselines", `SELECT tag, project, saved FROM baselines ORDER BY saved DESC, tag`, nil,
		func(rows *sql.Rows) error {
			var b Baseline
			var saved int64
			err := rows.Scan(&b.Tag, &b.Project, &saved)
			b.Saved = fromNanos(saved)
			list = append(list, b)
			return err
		})
	return list, err
}

// Calibration is a tolerance fitted to correct kernels.
type Calibration struct {
	Project, Op, DType string
	ATol, RTol         float64
	Body               json.RawMessage // how it came about; nil where that is not kept
	Saved              time.Time
}

// SaveCalibration stores a calibration for its project, op and dtype.
func (s *Store) SaveCalibration(ctx context.Context, c Calibration) error {
	if err := errors.Join(checkName("op", c.Op), checkName("dtype", c.DType)); err != nil {
		return err
	}
	for _, tol := range []float64{c.ATol, c.RTol} {
		if !(tol >= 0) || math.IsInf(tol, 0) {
			return diag.Errorf(BadRecord, "", "calibration of %s %s: the tolerance %v is negative or not finite", c.Op,
				c.DType, tol)
		}
	}
	if c.Body != nil {
		if err := checkJSON("calibration of "+c.Op, c.Body); err != nil {
			return err
		}
	}
	return s.replace(ctx, "save calibration", `INSERT OR REPLACE INTO calibrations
		(project, op, dtype, atol, rtol, body, saved) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		c.Project, c.Op, c.DType, c.ATol, c.RTol, string(c.Body), nanos(s.opt.Now()))
}

// Calibrations returns the calibrations of an op, by dtype.
func (s *Store) Calibrations(ctx context.Context, project, op string) ([]Calibration, error) {
	var list []Calibration
	err := s.each(ctx, "read calibrations", `SELECT dtype, saved, atol, rtol, body FROM calibrations
		WHERE project = $1 AND op = $2 ORDER BY dtype`, []any{project, op}, func(rows *sql.Rows) error {
		c := Calibration{Project: project, Op: op}
		var saved int64
		if err := rows.Scan(&c.DType, &saved, &c.ATol, &c.RTol, (*text)(&c.Body)); err != nil {
			return err
		}
		c.Saved = fromNanos(saved)
		list = append(list, c)
		return nil
	})
	return list, err
}

// Artifact is what is known of a compiled kernel.
type Artifact struct {
	Project, Kernel string
	Body            json.RawMessage
	Saved           time.Time
}

// PutArtifact stores the metrics of a kernel.
func (s *Store) PutArtifact(ctx context.Context, project, kernel string, body json.RawMessage) error {
	if err := errors.Join(checkName("kernel", kernel), checkJSON("artifact "+kernel, body)); err != nil {
		return err
	}
	return s.replace(ctx, "save artifact", `INSERT OR REPLACE INTO artifacts (project, kernel, body, saved)
		VALUES ($1, $2, $3, $4)`, project, kernel, string(body), nanos(s.opt.Now()))
}

// Artifact returns the metrics of a kernel, and whether there are any.
func (s *Store) Artifact(ctx context.Context, project, kernel string) (*Artifact, bool, error) {
	a := &Artifact{Project: project, Kernel: kernel}
	found, err := s.lookup(ctx, "read artifact", &a.Saved, []any{(*text)(&a.Body)},
		`SELECT saved, body FROM artifacts WHERE project = $1 AND kernel = $2`, project, kernel)
	if !found {
		return nil, false, err
	}
	return a, true, nil
}

// Artifacts returns the metrics of all kernels of a project, sorted by name.
func (s *Store) Artifacts(ctx context.Context, project string) ([]Artifact, error) {
	var list []Artifact
	err := s.each(ctx, "list artifacts", `SELECT kernel, saved, body FROM artifacts WHERE project = $1 ORDER BY kernel`,
		[]any{project}, func(rows *sql.Rows) error {
			a := Artifact{Project: project}
			var saved int64
			err := rows.Scan(&a.Kernel, &saved, (*text)(&a.Body))
			a.Saved = fromNanos(saved)
			list = append(list, a)
			return err
		})
	return list, err
}

// SaveFuzzConfig stores a configuration of the published fuzzer under its master seed.
func (s *Store) SaveFuzzConfig(ctx context.Context, seed uint64, body json.RawMessage) error {
	if err := checkJSON("fuzz configuration", body); err != nil {
		return err
	}
	return s.replace(ctx, "save fuzz configuration", `INSERT OR REPLACE INTO fuzz_configs (seed, body, saved)
		VALUES ($1, $2, $3)`, int64(seed), string(body), nanos(s.opt.Now()))
}

// FuzzConfig returns the configuration with that master seed, and whether there is one.
func (s *Store) FuzzConfig(ctx context.Context, seed uint64) (json.RawMessage, bool, error) {
	var body json.RawMessage
	var saved time.Time
	found, err := s.lookup(ctx, "read fuzz configuration", &saved, []any{(*text)(&body)},
		`SELECT saved, body FROM fuzz_configs WHERE seed = $1`, int64(seed))
	return body, found, err
}

// text scans a JSON text; "" is nil.
type text json.RawMessage

// Scan implements sql.Scanner.
func (t *text) Scan(src any) error {
	switch src := src.(type) {
	case string:
		*t = text(src)
	case []byte:
		*t = append(text{}, src...)
	default:
		return errors.New("not a text")
	}
	if len(*t) == 0 {
		*t = nil
	}
	return nil
}

func checkJSON(what string, body json.RawMessage) error {
	if !json.Valid(body) {
		return diag.Errorf(BadRecord, "", "%s: the text to be stored is not JSON", what)
	}
	return nil
}

func checkName(what, name string) error {
	if name == "" {
		return diag.Errorf(BadRecord, "give it a name", "the %s is empty", what)
	}
	return nil
}

// replace runs one writing statement.
func (s *Store) replace(ctx context.Context, what, query string, args ...any) error {
	return s.update(ctx, what, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

// lookup reads one row, whose first column is the time it was saved, and reports whether there is one.
func (s *Store) lookup(ctx context.Context, what string, saved *time.Time, dest []any, query string,
	args ...any) (bool, error) {
	var ns int64
	err := s.r.QueryRowContext(ctx, query, args...).Scan(append([]any{&ns}, dest...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, s.fault(what, err)
	}
	*saved = fromNanos(ns)
	return true, nil
}

// each calls scan for every row.
func (s *Store) each(ctx context.Context, what, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := s.r.QueryContext(ctx, query, args...)
	if err != nil {
		return s.fault(what, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return s.fault(what, err)
		}
	}
	if err := rows.Err(); err != nil {
		return s.fault(what, err)
	}
	return nil
}

// names runs a query for one column of text.
func (s *Store) names(ctx context.Context, query string, args ...any) ([]string, error) {
	var names []string
	err := s.each(ctx, "list names", query, args, func(rows *sql.Rows) error {
		names = append(names, "")
		return rows.Scan(&names[len(names)-1])
	})
	return names, err
}

package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/verdict"
)

// verdictOn is a result of case n, minute after the first.
func verdictOn(n int, v verdict.Verdict, minute int, candidate string) *verdict.Result {
	r := result(n)
	r.Verdict, r.Candidate, r.Time = v, candidate, start.Add(time.Duration(minute)*time.Minute)
	return r
}

// states lists the failures of a store as "N at MINUTE", newest first: those that are open, and all with the mark of
// those that are fixed.
func states(t *testing.T, s *Store, f Filter) (open, marked string) {
	t.Helper()
	ctx := context.Background()
	f.Limit = 100
	text := func(raw json.RawMessage) string {
		var r verdict.Result
		ok(t, json.Unmarshal(raw, &r))
		name, _, _ := strings.Cut(r.Case[strings.Index(r.Case, "seed=")+5:], " ")
		if r.ShrunkFrom != nil {
			name += "s"
		}
		return fmt.Sprintf("%s at %d", name, int(r.Time.Sub(start).Minutes()))
	}
	var left, all []string
	ok(t, s.OpenFailures(ctx, f, func(raw json.RawMessage) error {
		left = append(left, text(raw))
		return nil
	}))
	ok(t, s.MarkedFailures(ctx, f, func(raw json.RawMessage, fixed bool) error {
		all = append(all, text(raw)+map[bool]string{true: " fixed"}[fixed])
		return nil
	}))
	return strings.Join(left, ", "), strings.Join(all, ", ")
}

// TestOpenFailures: the newest verdict on a case decides. Verdicts of clients and of the engine, and those of two
// projects, are independent.
func TestOpenFailures(t *testing.T) {
	const pass, fail = verdict.Pass, verdict.Fail
	seed := result(1).Seed
	small := verdictOn(7, fail, 3, "k")
	small.ShrunkFrom = &seed
	for name, c := range map[string]struct {
		results      []*verdict.Result
		open, marked string
	}{
		"fails": {[]*verdict.Result{verdictOn(1, fail, 1, "k")}, "1 at 1", "1 at 1"},
		"fails twice": {[]*verdict.Result{verdictOn(1, fail, 1, "k"), verdictOn(1, fail, 2, "k")}, "1 at 2",
			"1 at 2, 1 at 1"},
		"fixed": {[]*verdict.Result{verdictOn(1, fail, 1, "k"), verdictOn(1, pass, 2, "k")}, "", "1 at 1 fixed"},
		"fails again": {[]*verdict.Result{verdictOn(1, fail, 1, "k"), verdictOn(1, pass, 2, "k"),
			verdictOn(1, verdict.Error, 3, "k")}, "1 at 3", "1 at 3, 1 at 1"},
		"passed before": {[]*verdict.Result{verdictOn(1, pass, 1, "k"), verdictOn(1, fail, 2, "k")}, "1 at 2", "1 at 2"},
		"not run, undecided": {[]*verdict.Result{verdictOn(1, fail, 1, "k"), verdictOn(1, verdict.NotRun, 2, "k"),
			verdictOn(1, verdict.Undecided, 3, "k")}, "1 at 1", "1 at 1"},
		"another case": {[]*verdict.Result{verdictOn(1, fail, 1, "k"), verdictOn(2, pass, 2, "k")}, "1 at 1", "1 at 1"},
		"renamed":      {[]*verdict.Result{verdictOn(1, fail, 1, "k"), verdictOn(1, pass, 2, "l")}, "", "1 at 1 fixed"},
		"client, then engine": {[]*verdict.Result{verdictOn(1, fail, 1, "client"), verdictOn(1, pass, 2, "k")}, "1 at 1",
			"1 at 1"},
		"engine, then client": {[]*verdict.Result{verdictOn(1, fail, 1, "k"), verdictOn(1, pass, 2, "client")}, "1 at 1",
			"1 at 1"},
		"minimized": {[]*verdict.Result{verdictOn(1, fail, 1, "k"), small}, "7s at 3, 1 at 1", "7s at 3, 1 at 1"},
		"minimized, fixed": {[]*verdict.Result{verdictOn(1, fail, 1, "k"), small, verdictOn(1, pass, 4, "k")}, "",
			"7s at 3 fixed, 1 at 1 fixed"},
		"minimized, fails again": {[]*verdict.Result{verdictOn(1, fail, 1, "k"), small, verdictOn(1, pass, 4, "k"),
			verdictOn(1, fail, 5, "k")}, "1 at 5, 7s at 3", "1 at 5, 7s at 3, 1 at 1"},
	} {
		s := open(t, Options{})
		for _, r := range c.results {
			ok(t, s.AddResult(context.Background(), r, "c"))
			of := *r
			of.Verdict = pass
			ok(t, s.AddResult(context.Background(), &of, "another project"))
		}
		if left, marked := states(t, s, Filter{ConfigPath: "c"}); left != c.open || marked != c.marked {
			t.Errorf("%s: open %q, marked %q, want %q, %q", name, left, marked, c.open, c.marked)
		}
	}
}

// TestOpenFailuresOfPacksAndPruning: what passed in a pack counts; what was deleted is not listed.
func TestOpenFailuresOfPacksAndPruning(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	var failing, passing []Loose
	for i := range 20 {
		failing = append(failing, Loose{verdictOn(i, verdict.Fail, i, "client"), "c"})
		if i < 10 {
			passing = append(passing, Loose{verdictOn(i, verdict.Pass, 100, "client"), "c"})
			passing[i].Result.Op = "softmax"
		}
		failing[i].Result.Op = "softmax"
	}
	ok(t, s.AddResults(ctx, failing))
	ok(t, s.AddResults(ctx, passing))
	if u, err := s.Usage(ctx); err != nil || u.Results != 30 {
		t.Fatalf("Usage = %+v, %v", u, err)
	}
	left, _ := states(t, s, Filter{Op: "softmax", Since: start.Add(15 * time.Minute)})
	if want := "19 at 19, 18 at 18, 17 at 17, 16 at 16, 15 at 15"; left != want {
		t.Errorf("open: %q, want %q", left, want)
	}
	if left, _ = states(t, s, Filter{Op: "matmul"}); left != "" {
		t.Errorf("open failures of another op: %q", left)
	}
	if n, err := s.ClearFailures(ctx, "c", ""); err != nil || n != 20 {
		t.Fatalf("ClearFailures = %d, %v", n, err)
	}
	var rows int
	ok(t, s.r.QueryRow("SELECT count(*) FROM failing").Scan(&rows))
	if left, marked := states(t, s, Filter{}); left+marked != "" || rows != 0 {
		t.Errorf("after clear: open %q, all %q, %d cases", left, marked, rows)
	}
}

// TestMigratedFailures: a database of before has the same open failures after it was brought up to date.
func TestMigratedFailures(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	seed := result(1).Seed
	small := verdictOn(7, verdict.Fail, 3, "k")
	small.ShrunkFrom = &seed
	for _, r := range []*verdict.Result{verdictOn(1, verdict.Fail, 1, "k"), verdictOn(2, verdict.Fail, 2, "k"), small,
		verdictOn(3, verdict.Fail, 3, "k"), verdictOn(1, verdict.Pass, 4, "k"), verdictOn(2, verdict.Pass, 4, "client"),
		verdictOn(4, verdict.Fail, 4, "client")} {
		ok(t, s.AddResult(ctx, r, "c"))
	}
	var packed []Loose
	for range minPack {
		packed = append(packed, Loose{verdictOn(4, verdict.Pass, 5, "client"), "c"})
	}
	ok(t, s.AddResults(ctx, packed))
	wantOpen, wantMarked := states(t, s, Filter{})
	if wantOpen != "3 at 3, 2 at 2" {
		t.Fatalf("open: %q", wantOpen)
	}
	for _, statement := range []string{"DROP TABLE failing", "PRAGMA user_version = 6"} {
		_, err := s.w.Exec(statement)
		ok(t, err)
	}
	ok(t, s.migrate(ctx))
	if left, marked := states(t, s, Filter{}); left != wantOpen || marked != wantMarked {
		t.Errorf("migrated: open %q, marked %q, want %q, %q", left, marked, wantOpen, wantMarked)
	}
}

// TestFailingQueriesUseIndexes: to list open failures takes as long with many others, fixed or not, as without, and a
// result that is stored looks at no other case.
func TestFailingQueriesUseIndexes(t *testing.T) {
	s := open(t, Options{})
	const noted = `UPDATE failing SET passed = max(passed, v.at) FROM (SELECT value ->> 0 AS key, value ->> 1 AS at
		FROM json_each('[]')) v WHERE failing.%s = v.key AND failing.config = (SELECT config_path FROM campaigns)`
	for _, tt := range []struct{ index, query string }{
		{"failing_open", `SELECT r.body FROM failing f CROSS JOIN results r ON r.id = f.result WHERE f.failed > f.passed
			AND f.finished >= 0 ORDER BY f.finished DESC, f.result DESC LIMIT 20`},
		{"sqlite_autoindex_failing_1", fmt.Sprintf(noted, "key")},
		{"failing_by_origin", fmt.Sprintf(noted, "origin")},
		{"failing_by_origin", "UPDATE failing SET failed = max(failed, 3) WHERE origin = 1 AND config = 'c'"},
		{"failing_by_result", "DELETE FROM failing WHERE result IN (SELECT value FROM json_each('[]'))"},
	} {
		if plan := explain(t, s, tt.query); !strings.Contains(plan, tt.index) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s:\n%s\nwant index %s and no sorting", tt.query, plan, tt.index)
		}
	}
}

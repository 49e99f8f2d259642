package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/verdict"
)

func TestListFilters(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	first := campaign(t, s, Campaign{Project: "p"})
	second := campaign(t, s, Campaign{Project: "q"})
	fill(t, s, first, 0, 400)
	fill(t, s, second, 400, 1000)
	seed := result(123).Seed
	for _, tt := range []struct {
		name string
		f    Filter
		keep func(i int) bool
	}{
		{"all", Filter{}, func(int) bool { return true }},
		{"op", Filter{Op: "matmul"}, func(i int) bool { return i%3 == 1 }},
		{"failed", Filter{FailedOnly: true}, func(i int) bool { return i%10 == 0 }},
		{"failed op", Filter{FailedOnly: true, Op: "softmax"}, func(i int) bool { return i%30 == 0 }},
		{"since", Filter{Since: result(900).Time}, func(i int) bool { return i >= 900 }},
		{"campaign", Filter{Campaign: first}, func(i int) bool { return i < 400 }},
		{"project", Filter{Project: "q", FailedOnly: true}, func(i int) bool { return i >= 400 && i%10 == 0 }},
		{"seed", Filter{Seed: &seed}, func(i int) bool { return i == 123 }},
		{"no campaign", Filter{Campaign: "x"}, func(int) bool { return false }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want []int
			for i := 999; i >= 0; i-- {
				if tt.keep(i) {
					want = append(want, i)
				}
			}
			for _, limit := range []int{0, 1, 300} {
				tt.f.Limit = limit
				list, err := s.List(ctx, tt.f)
				ok(t, err)
				var got []int
				for _, r := range list {
					got = append(got, r.Index)
				}
				want := want
				if limit > 0 {
					want = want[:min(limit, len(want))]
				}
				if !slices.Equal(got, want) {
					t.Errorf("List(%+v) = %v, want %v", tt.f, got, want)
				}
			}
		})
	}
}

func TestListKeepsResultsOfOneInstantApart(t *testing.T) {
	s := open(t, Options{Now: func() time.Time { return start }})
	w := s.Writer(campaign(t, s, Campaign{}))
	for i := range 3 * pageSize {
		r := result(i)
		r.Time = time.Time{} // now
		ok(t, w.Add(context.Background(), r))
	}
	ok(t, w.Close())
	list, err := s.List(context.Background(), Filter{})
	ok(t, err)
	seen := map[int]bool{}
	for _, r := range list {
		seen[r.Index] = r.Time.Equal(start)
	}
	if len(list) != 3*pageSize || len(seen) != len(list) || !seen[5] {
		t.Errorf("List gave %d results with %d indexes, want %d", len(list), len(seen), 3*pageSize)
	}
}

func TestBySeedNewestFailingFirst(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	const seed = 1<<64 - 12345 // beyond int64 and beyond what a double holds
	add := func(op string, v verdict.Verdict, minute int, config string) {
		r := result(1)
		r.Op, r.Seed, r.Verdict, r.Time = op, seed, v, start.Add(time.Duration(minute)*time.Minute)
		ok(t, s.AddResult(ctx, r, config))
	}
	add("softmax", verdict.Fail, 1, "a")
	add("matmul", verdict.Error, 2, "b")
	add("softmax", verdict.Pass, 3, "a")
	add("softmax", verdict.NotRun, 4, "c")
	near := result(2)
	near.Seed = seed + 1
	ok(t, s.AddResult(ctx, near, "a"))
	for op, want := range map[string]string{
		"": "error b, fail a, not_run c, pass a", "softmax": "fail a, not_run c, pass a", "gelu": "",
	} {
		found, err := s.BySeed(ctx, seed, op)
		ok(t, err)
		var got []string
		for _, f := range found {
			got = append(got, f.Verdict.String()+" "+f.ConfigPath)
			if f.Seed != seed || !strings.HasPrefix(f.Campaign, "single-") {
				t.Errorf("found %+v", f)
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("BySeed(%q) = %s, want %s", op, text, want)
		}
	}
}

// Results that are added together are stored together, in their order, or not at all.
func TestAddResultsAllOrNone(t *testing.T) {
	s := open(t, Options{})
	ctx := context.Background()
	var list []Loose
	for i := range 6 {
		r := result(i)
		r.Candidate = "client"
		list = append(list, Loose{r, []string{"a", "b"}[i%2]})
	}
	ok(t, s.AddResults(ctx, list))
	for i, l := range list {
		if l.Result.Index != i/2 {
			t.Errorf("result %d got index %d, want %d", i, l.Result.Index, i/2)
		}
	}
	bad := result(9)
	bad.Outputs = []verdict.Output{{MaxAbs: math.NaN()}} // JSON has no word for it
	if err := s.AddResults(ctx, []Loose{{result(7), "a"}, {bad, "a"}}); err == nil {
		t.Error("a result that cannot be encoded was stored")
	}
	ok(t, s.AddResults(ctx, nil))
	found, err := s.List(ctx, Filter{})
	if err != nil || len(found) != 6 {
		t.Errorf("%d results are stored, want 6: %v", len(found), err)
	}
}

func TestAddResultGivesFreshIndexes(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	from := verdict.Seed(9)
	for want := range 3 {
		r := result(77)
		r.ShrunkFrom = &from
		if ok(t, s.AddResult(ctx, r, "c")); r.Index != want {
			t.Errorf("index %d, want %d", r.Index, want)
		}
	}
	r := result(77)
	r.Candidate = "client"
	if ok(t, s.AddResult(ctx, r, "c")); r.Index != 0 {
		t.Errorf("index of the first client's result = %d, want 0", r.Index)
	}
	list, err := s.Campaigns(ctx, CampaignFilter{State: Standing})
	ok(t, err)
	var kinds []string
	for _, c := range list {
		kinds = append(kinds, c.Kind)
	}
	if slices.Sort(kinds); !slices.Equal(kinds, []string{"client", "shrunk"}) {
		t.Errorf("standing campaigns %q", kinds)
	}
}

// TestQueriesUseIndexes: a list of the newest twenty of a million results must not look at all of them.
func TestQueriesUseIndexes(t *testing.T) {
	s := open(t, Options{})
	seed := verdict.Seed(1)
	since := start
	page := &Found{id: 1, finished: 2}
	for _, tt := range []struct {
		f     Filter
		index string
	}{
		{Filter{}, "results_by_time"},
		{Filter{Since: since}, "results_by_time"},
		{Filter{Op: "x"}, "results_by_op"},
		{Filter{Op: "x", Since: since}, "results_by_op"},
		{Filter{Seed: &seed}, "results_by_seed"},
		{Filter{Seed: &seed, Op: "x"}, "results_by_seed"},
		{Filter{FailedOnly: true}, "failures_by_time"},
		{Filter{FailedOnly: true, Since: since, Project: "p"}, "failures_by_time"},
		{Filter{Campaign: "c"}, "results_by_time"},
		{Filter{FailedOnly: true, Campaign: "c"}, "failures_by_campaign"},
		{Filter{FailedOnly: true, Campaign: "c", Since: since}, "failures_by_campaign"},
		{Filter{FailedOnly: true, Op: "x"}, "failures_by_op"},
		{Filter{FailedOnly: true, Op: "x", Since: since}, "failures_by_op"},
	} {
		for _, last := range []*Found{nil, page} {
			query, args := tt.f.query(last, 20)
			plan := explain(t, s, query, args...)
			if !strings.Contains(plan, tt.index) || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%+v after %v:\n%s\nwant index %s and no sorting", tt.f, last, plan, tt.index)
			}
		}
	}
	for index, f := range map[string]Filter{
		"packs_by_time": {Since: since, Seed: &seed}, "packs_by_op": {Op: "x", Since: since},
	} {
		for _, last := range []*pack{nil, {}} {
			query, args := f.packQuery(last)
			if plan := explain(t, s, query, args...); !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%+v after %v:\n%s\nwant index %s and no sorting", f, last, plan, index)
			}
		}
	}
	for query, index := range map[string]string{
		"SELECT sum(count) FROM packs":                                                        "packs_by_count",
		"SELECT max(last) FROM packs WHERE campaign = 1":                                      "packs_by_last",
		"SELECT body FROM results WHERE campaign = 1 AND idx >= 5 ORDER BY idx LIMIT 10":      "sqlite_autoindex_results_1",
		"SELECT max(failed), max(finished) FROM results WHERE inputs = 'k' AND inputs <> ''":  "results_by_inputs",
		"SELECT id FROM results WHERE failed = 0 AND finished >= 0 ORDER BY finished LIMIT 9": "results_by_time",
	} {
		if plan := explain(t, s, query); !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s:\n%s\nwant index %s and no sorting", query, plan, index)
		}
	}
}

func explain(t *testing.T, s *Store, query string, args ...any) string {
	t.Helper()
	rows, err := s.r.Query("EXPLAIN QUERY PLAN "+query, args...)
	ok(t, err)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		ok(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	ok(t, rows.Err())
	return strings.Join(plan, "\n")
}

func TestReadingManyResultsTakesLittleMemory(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	id := campaign(t, s, Campaign{})
	n := 30_000
	if testing.Short() {
		n = 5_000
	}
	fill(t, s, id, 0, n)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, read := range map[string]func(look func()) error{
		"Results": func(look func()) error {
			return s.Results(ctx, id, func(*verdict.Result) error { look(); return nil })
		},
		"Find": func(look func()) error { return s.Find(ctx, Filter{}, func(*Found) error { look(); return nil }) },
	} {
		before, seen := heap(), 0
		ok(t, read(func() {
			if seen++; seen%(n/5) == 0 {
				if now := heap(); now > before+4<<20 { // a page of results is 0.3 MiB, all of them 30
					t.Errorf("%s: after %d results the heap has grown from %d to %d bytes", name, seen, before, now)
				}
			}
		}))
		if seen != n {
			t.Errorf("%s gave %d results, want %d", name, seen, n)
		}
	}
}

// BenchmarkAdd is the way of a result from Add to the disk. -benchtime=1000000x fills a store with a million.
func BenchmarkAdd(b *testing.B) {
	s := open(b, Options{})
	id := campaign(b, s, Campaign{})
	w := s.Writer(id)
	made := make([]*verdict.Result, 1000)
	for i := range made {
		made[i] = result(i)
	}
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		r := *made[i%len(made)]
		r.Index = i
		r.Seed = verdict.Seed(uint64(i) * 0x9e3779b97f4a7c15)
		r.Time = start.Add(time.Duration(i) * time.Millisecond)
		ok(b, w.Add(ctx, &r))
	}
	ok(b, w.Close())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "results/s")
	b.StopTimer()
	u, err := s.Usage(ctx)
	ok(b, err)
	b.ReportMetric(float64(u.Database+u.Log)/float64(b.N), "disk-B/result")
	if b.N < 100_000 {
		return
	}
	for name, f := range map[string]Filter{
		"newest 20": {Limit: 20}, "newest 20 failures of an op": {Limit: 20, Op: "softmax", FailedOnly: true},
		"seed": {Seed: &made[0].Seed},
	} {
		begin := time.Now()
		_, err := s.List(ctx, f)
		ok(b, err)
		b.Logf("%s: %v", name, time.Since(begin))
	}
	begin := time.Now()
	ok(b, s.Results(ctx, id, func(*verdict.Result) error { return nil }))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.Logf("all results: %v, heap of the system: %d MiB, %s", time.Since(begin), m.HeapSys>>20, fmt.Sprintf("%+v", u))
}

// BenchmarkOpen is what every command pays.
func BenchmarkOpen(b *testing.B) {
	s := open(b, Options{})
	fill(b, s, campaign(b, s, Campaign{}), 0, 1000)
	for b.Loop() {
		again, err := Open(context.Background(), s.Dir(), Options{})
		ok(b, err)
		ok(b, again.Close())
	}
}

// TestFailureTexts: they are the failures that List parses.
func TestFailureTexts(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var list []Loose
	for i := range 30 {
		list = append(list, Loose{ConfigPath: "/p", Result: &verdict.Result{Op: "relu", DType: "float32",
			Verdict: []verdict.Verdict{verdict.Fail, verdict.Pass}[i%2], Seed: verdict.Seed(i), Message: "a < b"}})
	}
	if err := s.AddResults(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	filter := Filter{FailedOnly: true, ConfigPath: "/p", Limit: 10}
	want, err := s.List(t.Context(), filter)
	if err != nil || len(want) != filter.Limit {
		t.Fatalf("%d failures, %v", len(want), err)
	}
	n := 0
	err = s.FailureTexts(t.Context(), filter, func(text json.RawMessage) error {
		expected, err := json.Marshal(&want[n])
		if err != nil || string(text) != string(expected) {
			t.Errorf("failure %d: %s, want %s, %v", n, text, expected, err)
		}
		n++
		return nil
	})
	if err != nil || n != len(want) {
		t.Errorf("%d texts, %v, want %d", n, err, len(want))
	}
}

package store

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/verdict"
)

// counted is the tally of profiles, and the results of those that are not in packs, newest first.
func counted(t *testing.T, s *Store, f Filter) (*verdict.Tally, []int) {
	t.Helper()
	ctx := context.Background()
	var tally verdict.Tally
	var places []Place
	ok(t, s.Profiles(ctx, f, func(p *Profiled) error {
		p.Count(&tally)
		if place, single := p.Place(); single {
			places = append(places, place)
		}
		return nil
	}))
	slices.SortFunc(places, Place.Newest)
	var indexes []int
	ok(t, s.Placed(ctx, places, func(r *verdict.Result) error {
		indexes = append(indexes, r.Index)
		return nil
	}))
	return &tally, indexes
}

// wantSame checks that profiles count what results do.
func wantSame(t *testing.T, s *Store, f Filter) {
	t.Helper()
	var want verdict.Tally
	ok(t, s.Find(context.Background(), f, func(r *Found) error { want.Add(&r.Result); return nil }))
	got, _ := counted(t, s, f)
	gotOps, wantOps := got.Ops(), want.Ops()
	for _, ops := range [][]verdict.OpSummary{gotOps, wantOps} {
		for i := range ops {
			ops[i].Candidate = "" // of an op with several it is the one that came last
		}
	}
	if got.Counts() != want.Counts() || !reflect.DeepEqual(gotOps, wantOps) {
		t.Errorf("%+v: profiles count\n%+v %+v\nresults\n%+v %+v", f, got.Counts(), gotOps, want.Counts(), wantOps)
	}
}

// TestProfilesCountWhatResultsDo: through groups of any size, second deliveries, packs and pruning.
func TestProfilesCountWhatResultsDo(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	one, two := campaign(t, s, Campaign{ConfigPath: "c"}), campaign(t, s, Campaign{ConfigPath: "d"})
	for from, step := 0, 1; from < 900; step = step*3 + 1 {
		for _, id := range []string{one, two} {
			fill(t, s, id, from, from+step)
		}
		from += step
	}
	fill(t, s, one, 0, 300) // again
	var loose []Loose
	for i := range 500 {
		r := result(i)
		r.Candidate = "client"
		loose = append(loose, Loose{r, "c"})
	}
	ok(t, s.AddResults(ctx, loose))
	filters := []Filter{{}, {Since: result(333).Time}, {ConfigPath: "c"}, {ConfigPath: "d", Since: result(100).Time},
		{ConfigPath: "e"}}
	for _, f := range filters {
		wantSame(t, s, f)
	}
	_, indexes := counted(t, s, Filter{ConfigPath: "d"})
	if len(indexes) == 0 || !slices.IsSortedFunc(indexes, func(x, y int) int { return y - x }) {
		t.Errorf("results by place: %d, newest first: want all", len(indexes))
	}
	for _, id := range []string{one, two} {
		ok(t, s.FinishCampaign(ctx, id, Finished, nil))
	}
	for _, budget := range []int64{2000, 1000, 200} {
		s.opt.RowBudget = budget
		_, err := s.Prune(ctx)
		ok(t, err)
		for _, f := range filters {
			wantSame(t, s, f)
		}
	}
}

func TestProfilesRoundTrip(t *testing.T) {
	r := result(7)
	r.Case = "softmax dtype=float32 dims=B:4,N:17 in=x:float32[4,17]:strided:normal seed=3 gen=1"
	r.Time = start
	full := r.Profile()
	full.Lean.Units, full.Lean.Above, full.Halves.Below = 5, 4, 3
	full.Vacuous, full.Readable = true, true
	full.Layouts, full.Values, full.Sizes = []string{"contiguous", "strided"}, []string{"normal"}, []int{4, 17, 0}
	small := verdict.Result{Time: start.Add(-time.Hour)}
	list := []profile{{row: 9, Profile: full}, {row: 12, Profile: small.Profile()}}
	body := encodeProfiles(list)
	got, err := copyProfiles(body)
	ok(t, err)
	for i := range got {
		if len(got[i].Sizes) == 0 {
			got[i].Sizes, got[i].Dims = nil, got[i].Dims[:len(got[i].Dims):len(got[i].Dims)]
		}
		if len(got[i].Dims) == 0 {
			got[i].Dims = nil
		}
		if len(list[i].Dims) == 0 {
			list[i].Dims = nil
		}
	}
	if !reflect.DeepEqual(got, list) {
		t.Errorf("decoded\n%+v\nwant\n%+v", got, list)
	}
	for cut := range body {
		if _, err := copyProfiles(body[:cut]); err == nil {
			t.Errorf("the first %d of %d bytes are decoded without an error", cut, len(body))
		}
	}
}

// TestProfileQueriesUseIndexes: neither a result that is stored nor one that is pruned looks at the profiles of others.
func TestProfileQueriesUseIndexes(t *testing.T) {
	s := open(t, Options{})
	for _, tt := range []struct{ index, query string }{
		{"profiles_by_campaign",
			"SELECT id FROM profiles WHERE campaign = 1 AND pack IS NULL ORDER BY last DESC LIMIT 1"},
		{"profiles_by_campaign",
			"SELECT body FROM profiles WHERE campaign = 1 AND pack IS NULL AND last >= 1 AND first <= 2"},
		{"profiles_by_pack", "DELETE FROM profiles WHERE pack = 1"},
		{"profiles_by_time", `SELECT p.body FROM profiles p CROSS JOIN campaigns c ON c.id = p.campaign
			WHERE p.newest >= 5 ORDER BY p.newest DESC`},
	} {
		if plan := explain(t, s, tt.query); !strings.Contains(plan, tt.index) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s:\n%s\nwant index %s and no sorting", tt.query, plan, tt.index)
		}
	}
}

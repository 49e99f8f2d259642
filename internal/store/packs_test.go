package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"gpuemu/internal/verdict"
)

// ofClient makes up a result that a client sent.
func ofClient(i int) *verdict.Result {
	r := result(i)
	r.Candidate = "client"
	return r
}

// packedStore fills a store with groups of results of clients, of a campaign and of single cases, with times that do
// not rise with their indexes. It returns the store and what is in it.
func packedStore(t *testing.T) (*Store, []Found) {
	t.Helper()
	ctx := context.Background()
	s := open(t, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	var all []Found
	n := 0
	for range 40 {
		var list []Loose
		for range 1 + random.IntN(60) {
			r := ofClient(n)
			r.Op = []string{"softmax", "softmax", "softmax", "matmul"}[random.IntN(4)]
			// Groups overlap in time, and no two results have the same one.
			r.Time = start.Add(time.Duration(n*10+random.IntN(700))*time.Microsecond + time.Duration(n))
			if random.IntN(20) == 0 {
				r.Candidate = "kernel.py:f"
			}
			if random.IntN(30) == 0 {
				r.Inputs = fmt.Sprintf("key%d", n)
			}
			if random.IntN(9) == 0 && n > 0 {
				r.Seed = all[random.IntN(len(all))].Seed // seeds occur several times
			}
			l := Loose{r, []string{"a.toml", "b.toml", "b.toml", "b.toml"}[random.IntN(4)]}
			list = append(list, l)
			n++
			all = append(all, Found{ConfigPath: l.ConfigPath, Result: *r})
		}
		ok(t, s.AddResults(ctx, list))
		for i, l := range list {
			f := &all[len(all)-len(list)+i]
			f.Index = l.Result.Index
			f.Campaign = standingName(t, s, standingKind(l.Result), l.ConfigPath)
			f.finished = nanos(l.Result.Time)
		}
	}
	id := campaign(t, s, Campaign{Project: "p", ConfigPath: "a.toml"})
	fill(t, s, id, 0, 50)
	for i := range 50 {
		all = append(all, Found{Campaign: id, ConfigPath: "a.toml", Result: *result(i), finished: nanos(result(i).Time)})
	}
	var packs, rows int
	ok(t, s.r.QueryRow("SELECT (SELECT count(*) FROM packs), (SELECT count(*) FROM results)").Scan(&packs, &rows))
	if packs < 30 || rows < 200 || rows > len(all)/2 {
		t.Fatalf("%d packs and %d rows for %d results", packs, rows, len(all))
	}
	return s, all
}

// standingName finds the name of a standing campaign.
func standingName(t *testing.T, s *Store, kind, path string) string {
	t.Helper()
	list, err := s.Campaigns(context.Background(), CampaignFilter{State: Standing, Kind: kind, ConfigPath: path})
	ok(t, err)
	if len(list) != 1 {
		t.Fatalf("%d standing campaigns of %s in %s", len(list), kind, path)
	}
	return list[0].ID
}

// Readers see packed results as if each had a row: with every filter, in the same order, each one once.
func TestPacksAreRead(t *testing.T) {
	ctx := context.Background()
	s, all := packedStore(t)
	slices.SortFunc(all, func(a, b Found) int { return newestFirst(&a, &b) })
	client := standingName(t, s, "client", "b.toml")
	seed := packedSeed(t, s)
	none := verdict.Seed(4711)
	for name, f := range map[string]Filter{
		"all": {}, "limit": {Limit: 333}, "op": {Op: "matmul"}, "op, limit": {Op: "matmul", Limit: 7},
		"since": {Since: all[len(all)/3].Time}, "failed": {FailedOnly: true}, "failed, limit": {FailedOnly: true, Limit: 3},
		"campaign": {Campaign: client}, "project": {Project: "p"}, "seed": {Seed: &seed}, "no such seed": {Seed: &none},
		"op, seed": {Op: "matmul", Seed: &seed}, "no such op": {Op: "conv"}, "no such campaign": {Campaign: "x"},
		"all of them": {Op: "softmax", Since: all[len(all)/2].Time, Campaign: client, Limit: 20},
	} {
		var want []Found
		for _, r := range all {
			if (f.Op == "" || r.Op == f.Op) && (f.Since.IsZero() || !r.Time.Before(f.Since)) &&
				(!f.FailedOnly || r.Verdict.Failed()) && (f.Campaign == "" || r.Campaign == f.Campaign) &&
				(f.Project == "" || r.Candidate == "kernel.py:softmax") && (f.Seed == nil || r.Seed == *f.Seed) &&
				(f.Limit == 0 || len(want) < f.Limit) {
				want = append(want, r)
			}
		}
		var got []Found
		ok(t, s.Find(ctx, f, func(r *Found) error {
			r.id = 0 // of a row
			got = append(got, *r)
			return nil
		}))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d results, want %d; the first that differs is %d", name, len(got), len(want),
				firstDifference(got, want))
		}
	}
	bySeed, err := s.BySeed(ctx, uint64(seed), "")
	if err != nil || len(bySeed) == 0 || bySeed[0].Seed != seed {
		t.Errorf("BySeed = %+v, %v", bySeed, err)
	}
	for _, name := range []string{client, standingName(t, s, "single", "a.toml")} {
		var want []verdict.Result
		for _, r := range all {
			if r.Campaign == name {
				want = append(want, r.Result)
			}
		}
		slices.SortFunc(want, func(a, b verdict.Result) int { return a.Index - b.Index })
		var got []verdict.Result
		ok(t, s.Results(ctx, name, func(r *verdict.Result) error { got = append(got, *r); return nil }))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s has %d results, want %d", name, len(got), len(want))
		}
	}
	failures, tensors := 0, 0
	for _, r := range all {
		if r.Verdict.Failed() {
			failures++
		}
		if r.Inputs != "" {
			tensors++
		}
	}
	var named int // by rows: pruning looks there for those that are still wanted
	ok(t, s.r.QueryRow("SELECT count(*) FROM results WHERE inputs <> ''").Scan(&named))
	if named != tensors {
		t.Errorf("%d rows name tensors, want %d", named, tensors)
	}
	if u, err := s.Usage(ctx); err != nil || u.Results != len(all) || u.Failures != failures {
		t.Errorf("Usage = %+v, %v, want %d results, %d failures", u, err, len(all), failures)
	}
}

// packedSeed is the seed of a result in the middle of a pack.
func packedSeed(t *testing.T, s *Store) verdict.Seed {
	t.Helper()
	var seeds []byte
	ok(t, s.r.QueryRow("SELECT seeds FROM packs WHERE count > 10 ORDER BY id LIMIT 1 OFFSET 5").Scan(&seeds))
	return verdict.Seed(binary.BigEndian.Uint64(seeds[40:]))
}

func firstDifference(a, b []Found) int {
	for i := range min(len(a), len(b)) {
		if !reflect.DeepEqual(a[i], b[i]) {
			return i
		}
	}
	return min(len(a), len(b))
}

// Reading ends with the error of whoever reads, and with that of a pack that cannot be read.
func TestPacksEndWithAnError(t *testing.T) {
	ctx := context.Background()
	s, _ := packedStore(t)
	stop := fmt.Errorf("enough")
	seen := 0
	if err := s.Find(ctx, Filter{}, func(*Found) error {
		if seen++; seen == 100 {
			return stop
		}
		return nil
	}); err != stop || seen != 100 {
		t.Errorf("Find gave %d results and %v", seen, err)
	}
	_, err := s.w.Exec("UPDATE packs SET body = '[{' WHERE id = 5")
	ok(t, err)
	if err := s.Find(ctx, Filter{}, func(*Found) error { return nil }); err == nil {
		t.Error("a damaged pack was read")
	}
}

// Pruning takes packs and rows of what passed in the order of their age, and counts what is in packs.
func TestPacksArePruned(t *testing.T) {
	ctx := context.Background()
	s, all := packedStore(t)
	s.opt.RowBudget = 600
	failed := 0
	for _, r := range all {
		if r.Verdict.Failed() {
			failed++
		}
	}
	rep, err := s.Prune(ctx)
	ok(t, err)
	left, err := s.List(ctx, Filter{})
	ok(t, err)
	if len(left)+rep.Passing != len(all) || rep.Failing != 0 || len(left) > 540 || len(left) < 540-60 {
		t.Errorf("Prune = %+v, %d of %d results are left", rep, len(left), len(all))
	}
	pruned := 0
	for _, state := range []string{Standing, Running} {
		list, err := s.Campaigns(ctx, CampaignFilter{State: state})
		ok(t, err)
		for _, c := range list {
			pruned += c.Pruned
		}
	}
	if pruned != rep.Passing {
		t.Errorf("campaigns lost %d results, the report has %d", pruned, rep.Passing)
	}
	// What passed and is left is newer than what is gone, but for the results that share a pack.
	slices.SortFunc(all, func(a, b Found) int { return newestFirst(&a, &b) })
	kept := map[string]bool{}
	for _, r := range left {
		kept[r.Case] = true
	}
	passed := 0
	for i, r := range all {
		if !kept[r.Case] && passed < len(left)-failed-2*60 {
			t.Fatalf("result %d of %d, the newest first, is gone", i, len(all))
		}
		if !r.Verdict.Failed() {
			passed++
		}
	}
}

// Next indexes are free, whatever was stored in which way before.
func TestIndexesBehindPacks(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	next := 0
	for _, size := range []int{20, 3, 1, 40, 2, 9} {
		var list []Loose
		for i := range size {
			r := ofClient(3*i + 1) // one op
			if i%2 == 1 {
				r.Op = "matmul" // two packs that overlap
			}
			list = append(list, Loose{r, ""})
		}
		ok(t, s.AddResults(ctx, list))
		for _, l := range list {
			if l.Result.Index != next {
				t.Fatalf("of %d results one has index %d, want %d", size, l.Result.Index, next)
			}
			next++
		}
	}
	at := 0
	ok(t, s.Results(ctx, standingName(t, s, "client", ""), func(r *verdict.Result) error {
		if r.Index != at {
			t.Errorf("result %d has index %d", at, r.Index)
		}
		at++
		return nil
	}))
	if at != next {
		t.Errorf("%d results, want %d", at, next)
	}
}

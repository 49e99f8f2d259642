package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/verdict"
)

// open opens a store in a new directory, or in the one given.
func open(t testing.TB, opt Options, dir ...string) *Store {
	t.Helper()
	if dir == nil {
		dir = []string{filepath.Join(t.TempDir(), "home dir?#%41", "db")} // characters that mean something in a URI
	}
	s, err := Open(context.Background(), dir[0], opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ok ends the test on an error.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\nhint: %s", err, diag.HintOf(err))
	}
}

// wantCode checks that err is an error for the user, of that code and with a hint.
func wantCode(t *testing.T, err error, code diag.Code) {
	t.Helper()
	if diag.CodeOf(err) != code || diag.HintOf(err) == "" {
		t.Fatalf("error = %v (hint %q), want code %s and a hint", err, diag.HintOf(err), code)
	}
}

// campaign creates a campaign and returns its ID.
func campaign(t testing.TB, s *Store, c Campaign) string {
	t.Helper()
	ok(t, s.CreateCampaign(context.Background(), &c))
	return c.ID
}

// start is the time of the first made-up result.
var start = time.Date(2026, 11, 15, 12, 0, 0, 123456789, time.UTC)

// result makes up result number i; one in ten fails.
func result(i int) *verdict.Result {
	r := &verdict.Result{
		Index: i, Op: []string{"softmax", "matmul", "layernorm"}[i%3], DType: "float32",
		Case: fmt.Sprintf("softmax x=f32[4,16,%d] seed=%d gen=1", i, i), Seed: verdict.Seed(uint64(i)*0x9e3779b97f4a7c15 + 1),
		Verdict: verdict.Pass, Candidate: "kernel.py:softmax", Reference: "builtin:softmax",
		Outputs: []verdict.Output{{Name: "output", DType: "float32", Shape: []int{4, 16, i}, Regime: "bound",
			Elements: 64 * i, MaxAbs: 1e-6 * float64(i), MaxULP: 1<<63 + uint64(i)}},
		Time: start.Add(time.Duration(i) * time.Millisecond), Duration: 12345,
	}
	if i%10 == 0 {
		r.Verdict, r.Reason, r.Message = verdict.Fail, verdict.Mismatch, "3 of 64 elements differ"
		r.Outputs[0].Worst = []verdict.Element{{Index: []int{1, 2}, Kind: "finite", Got: "1", Want: "2", Bound: 1e-6}}
	}
	return r
}

// fill adds results from..to-1 and flushes.
func fill(t testing.TB, s *Store, id string, from, to int) {
	t.Helper()
	w := s.Writer(id)
	for i := from; i < to; i++ {
		ok(t, w.Add(context.Background(), result(i)))
	}
	ok(t, w.Close())
}

// stored returns the indexes of a campaign's results, in the order of Results.
func stored(t testing.TB, s *Store, id string) []int {
	t.Helper()
	var got []int
	ok(t, s.Results(context.Background(), id, func(r *verdict.Result) error {
		got = append(got, r.Index)
		return nil
	}))
	return got
}

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home", "db")
	s := open(t, Options{}, dir)
	fill(t, s, campaign(t, s, Campaign{}), 0, 10)
	for name, want := range map[string]os.FileMode{
		"": 0o700, blobDir: 0o700, fileName: 0o600, fileName + "-wal": 0o600, fileName + "-shm": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		ok(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %q = %o, want %o", name, got, want)
		}
	}
}

func TestCampaignRoundTrip(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{Now: func() time.Time { return start }})
	want := Campaign{Kind: "ci", Project: "p", ConfigPath: "p/gpuemu.toml", ConfigDigest: "d", CodeDigest: "e",
		Seed: 1<<63 + 5, Request: json.RawMessage(`{"quick":true}`), Planned: 7, Shard: "1/2"}
	ok(t, s.CreateCampaign(ctx, &want))
	if want.State != Running || want.PID != os.Getpid() || !want.Started.Equal(start) || len(want.ID) != 15 {
		t.Errorf("CreateCampaign filled in %+v", want)
	}
	got, err := s.Campaign(ctx, want.ID)
	ok(t, err)
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("Campaign = %+v, want %+v", *got, want)
	}
	want.State, want.Finished = Stopped, start
	want.Summary = &verdict.Summary{Campaign: want.ID, Seed: want.Seed, Planned: 7,
		Counts: verdict.Counts{Total: 3, Passed: 3}}
	ok(t, s.FinishCampaign(ctx, want.ID, Stopped, want.Summary))
	if got, err = s.Campaign(ctx, want.ID); err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("Campaign after FinishCampaign = %+v, %v, want %+v", *got, err, want)
	}
	_, err = s.Campaign(ctx, "20261115-zzzzzz")
	wantCode(t, err, NotFound)
	wantCode(t, s.FinishCampaign(ctx, "20261115-zzzzzz", Finished, nil), NotFound)
	wantCode(t, s.CreateCampaign(ctx, &Campaign{ID: want.ID}), CampaignTaken)
	wantCode(t, s.Results(ctx, "nowhere", nil), NotFound)
}

func TestCampaignsFilter(t *testing.T) {
	ctx := context.Background()
	now := start
	s := open(t, Options{Now: func() time.Time { now = now.Add(time.Minute); return now }})
	var ids []string
	for _, c := range []Campaign{
		{Kind: "test", ConfigPath: "x"}, {Kind: "fuzz", ConfigPath: "x"}, {Kind: "test", ConfigPath: "y"},
	} {
		ids = append(ids, campaign(t, s, c))
	}
	ok(t, s.FinishCampaign(ctx, ids[2], Finished, nil))
	ok(t, s.AddResult(ctx, result(1), "x"))
	if !slices.IsSorted(ids) {
		t.Errorf("IDs %q are not sorted by time", ids)
	}
	for _, tt := range []struct {
		f    CampaignFilter
		want []string
	}{
		{CampaignFilter{}, []string{ids[2], ids[1], ids[0]}},
		{CampaignFilter{Kind: "test"}, []string{ids[2], ids[0]}},
		{CampaignFilter{ConfigPath: "x", Limit: 1}, []string{ids[1]}},
		{CampaignFilter{State: Running}, []string{ids[1], ids[0]}},
		{CampaignFilter{State: Standing}, []string{"single-2d711642"}},
	} {
		list, err := s.Campaigns(ctx, tt.f)
		ok(t, err)
		var got []string
		for _, c := range list {
			got = append(got, c.ID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("Campaigns(%+v) = %q, want %q", tt.f, got, tt.want)
		}
	}
}

func TestIDsAreUniqueInOneInstant(t *testing.T) {
	s := open(t, Options{Now: func() time.Time { return start }})
	seen := map[string]bool{}
	for range 200 {
		seen[campaign(t, s, Campaign{})] = true
	}
	if len(seen) != 200 {
		t.Errorf("200 campaigns got %d IDs", len(seen))
	}
}

// TestResume: who runs a campaign is known by a lock. Both stores are of this process: its number says nothing, as in a
// container, where each process is number 1, or after the number was given to another.
func TestResume(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	other, err := Open(ctx, s.Dir(), Options{})
	ok(t, err)
	id := campaign(t, other, Campaign{})
	_, err = s.Resume(ctx, id)
	wantCode(t, err, CampaignTaken)
	if gone, err := s.Interrupt(ctx); err != nil || gone != nil {
		t.Errorf("Interrupt while the process lives = %q, %v", gone, err)
	}
	if gone, err := other.Interrupt(ctx); err != nil || gone != nil {
		t.Errorf("Interrupt by the one who runs it = %q, %v", gone, err)
	}
	ok(t, other.Close())
	gone, err := s.Interrupt(ctx)
	if ok(t, err); !slices.Equal(gone, []string{id}) {
		t.Errorf("Interrupt = %q, want %q", gone, id)
	}
	c, err := s.Campaign(ctx, id)
	if ok(t, err); c.State != Interrupted {
		t.Errorf("state after Interrupt = %q", c.State)
	}
	for range 2 { // the second time it is its own
		c, err = s.Resume(ctx, id)
		if ok(t, err); c.State != Running || c.PID != os.Getpid() {
			t.Errorf("Resume = %+v", c)
		}
	}
	_, err = s.Resume(ctx, "nowhere")
	wantCode(t, err, NotFound)
}

func TestResultsRoundTripInOrder(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	id := campaign(t, s, Campaign{})
	w := s.Writer(id)
	const n = 700 // several groups and pages
	var wg sync.WaitGroup
	for part := range 4 {
		wg.Go(func() {
			for i := n - 1; i >= 0; i-- { // backwards, and every index by two of the goroutines
				if i%2 == part%2 {
					if err := w.Add(ctx, result(i)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	ok(t, w.Flush(ctx))
	next := 0
	ok(t, s.Results(ctx, id, func(r *verdict.Result) error {
		if want := result(next); !reflect.DeepEqual(r, want) {
			t.Errorf("result %d = %+v, want %+v", next, r, want)
		}
		next++
		return nil
	}))
	if next != n {
		t.Errorf("Results gave %d results, want %d", next, n)
	}
	done, count, err := s.FinishedIndexes(ctx, id)
	ok(t, err)
	if count != n || !done(0) || !done(n-1) || done(n) || done(-1) {
		t.Errorf("FinishedIndexes: count %d, done(0, n-1, n, -1) = %v %v %v %v", count, done(0), done(n-1), done(n), done(-1))
	}
	stop := errors.New("stop")
	if err := s.Results(ctx, id, func(*verdict.Result) error { return stop }); err != stop {
		t.Errorf("Results = %v, want the error of yield", err)
	}
	ok(t, w.Close())
	ok(t, w.Close())
	wantClosed := w.Add(ctx, result(n))
	if diag.CodeOf(wantClosed) != Closed {
		t.Errorf("Add after Close = %v, want code %s", wantClosed, Closed)
	}
}

func TestFirstResultOfAnIndexStays(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	id := campaign(t, s, Campaign{})
	fill(t, s, id, 3, 4)
	second := result(3)
	second.Op = "other"
	w := s.Writer(id)
	ok(t, w.Add(ctx, second))
	ok(t, w.Add(ctx, second))
	ok(t, w.Close())
	list, err := s.List(ctx, Filter{})
	ok(t, err)
	if len(list) != 1 || list[0].Op == "other" {
		t.Errorf("List = %+v, want the first result alone", list)
	}
}

// TestBadResultIsRefusedAlone: what cannot be stored does not end the writer.
func TestBadResultIsRefusedAlone(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	id := campaign(t, s, Campaign{})
	w := s.Writer(id)
	for _, spoil := range []func(r *verdict.Result){
		func(r *verdict.Result) { r.Index = -1 },
		func(r *verdict.Result) { r.Index = MaxIndex + 1 },
	} {
		bad := result(1)
		spoil(bad)
		if err := w.Add(ctx, bad); diag.CodeOf(err) != BadRecord {
			t.Errorf("Add = %v, want code %s", err, BadRecord)
		}
	}
	ok(t, w.Add(ctx, result(2)))
	ok(t, w.Close())
	if got := stored(t, s, id); !slices.Equal(got, []int{2}) {
		t.Errorf("stored %v, want 2 alone", got)
	}
	lost := s.Writer("20261115-zzzzzz")
	ok(t, lost.Add(ctx, result(1)))
	wantCode(t, lost.Close(), NotFound)
}

func TestReaderSeesWhatAWriterOfAnotherStoreCommits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, Options{}, dir)
	id := campaign(t, s, Campaign{})
	other := open(t, Options{ReadOnly: true}, dir)
	fill(t, s, id, 0, 5)
	if got := stored(t, other, id); len(got) != 5 {
		t.Errorf("%d results seen, want 5", len(got))
	}
	wantCode(t, other.CreateCampaign(context.Background(), &Campaign{}), ReadOnly)
}

func TestWritersAtOnce(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	var wg sync.WaitGroup
	for range 4 {
		id := campaign(t, s, Campaign{})
		wg.Go(func() {
			w := s.Writer(id)
			for i := range 600 {
				if err := w.Add(ctx, result(i)); err != nil {
					t.Error(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if _, n, err := s.FinishedIndexes(ctx, id); n != 600 || err != nil {
				t.Errorf("FinishedIndexes: %d, %v, want 600", n, err)
			}
		})
	}
	wg.Wait()
}

// TestAddHoldsBack: while the disk is slow, Add blocks instead of collecting results in memory; its context ends it.
func TestAddHoldsBack(t *testing.T) {
	s := open(t, Options{})
	id := campaign(t, s, Campaign{})
	tx, err := s.w.Begin() // nobody else writes
	ok(t, err)
	w := s.Writer(id)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	added := 0
	for ; added < 4*groupSize; added++ {
		if added == 2*groupSize {
			time.AfterFunc(groupDelay, cancel) // by now, or a little later, the queue is full
		}
		if err := w.Add(ctx, result(added)); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			break
		}
	}
	if added > 2*groupSize+1 {
		t.Errorf("%d results were accepted, want at most a group and a queue", added)
	}
	ok(t, tx.Rollback())
	ok(t, w.Close())
	if got := stored(t, s, id); len(got) != added {
		t.Errorf("%d results are stored, %d were accepted", len(got), added)
	}
}

func TestGroupIsCommittedWithoutFlush(t *testing.T) {
	s := open(t, Options{})
	id := campaign(t, s, Campaign{})
	w := s.Writer(id)
	defer w.Close()
	ok(t, w.Add(context.Background(), result(0)))
	for deadline := time.Now().Add(10 * time.Second); len(stored(t, s, id)) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("a result is not stored 10 s after Add")
		}
		runtime.Gosched()
	}
}

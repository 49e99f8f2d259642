//go:build unix

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// This file implements the test that no flipped bit of a store is read back as something else.

// answers is everything that a store says, by question: a text, or the code of an error.
func answers(dir string, opt Options) map[string]string {
	ctx := context.Background()
	out := map[string]string{}
	say := func(question string, answer any, err error) {
		var known *diag.Error
		switch {
		case errors.As(err, &known):
			out[question] = "error " + string(known.Code)
		case err != nil:
			out[question] = "an error without a code: " + err.Error()
		default:
			text, err := json.Marshal(answer)
			out[question] = fmt.Sprint(string(text), err)
		}
	}
	s, err := Open(ctx, dir, opt)
	if err != nil {
		say("open", nil, err)
		return out
	}
	defer s.Close()
	list := func(question string, f Filter) {
		var all []Found
		err := s.Find(ctx, f, func(r *Found) error { all = append(all, *r); return nil })
		say(question, all, err)
		for i := range all {
			if key := all[i].Inputs; key != "" {
				say("tensors "+key, nil, loads(s, key))
			}
		}
	}
	usage, err := s.Usage(ctx)
	say("usage", []int{usage.Campaigns, usage.Results, usage.Failures, usage.Tensors}, err)
	campaigns, err := s.Campaigns(ctx, CampaignFilter{})
	say("campaigns", campaigns, err)
	standing, err := s.Campaigns(ctx, CampaignFilter{State: Standing})
	say("standing", standing, err)
	for _, id := range []string{"one", "two", "client-2e7d2c03"} {
		c, err := s.Campaign(ctx, id)
		say("campaign "+id, c, err)
		var all []verdict.Result
		err = s.Results(ctx, id, func(r *verdict.Result) error { all = append(all, *r); return nil })
		say("results of "+id, all, err)
		_, n, err := s.FinishedIndexes(ctx, id)
		say("finished of "+id, n, err)
		list("found of "+id, Filter{Campaign: id})
		list("failures of "+id, Filter{Campaign: id, FailedOnly: true})
	}
	list("all", Filter{})
	list("failures", Filter{FailedOnly: true})
	list("failures of softmax", Filter{FailedOnly: true, Op: "softmax"})
	list("softmax", Filter{Op: "softmax", Since: result(50).Time})
	seed := result(60).Seed
	list("by seed", Filter{Seed: &seed})
	list("packed", Filter{ConfigPath: "c"})
	var packs int
	for _, id := range []string{"", "client-2e7d2c03"} {
		err = s.r.QueryRowContext(ctx, `SELECT coalesce(sum(p.count), 0) FROM packs p JOIN campaigns c ON c.id = p.campaign
			WHERE $1 IN ('', c.name)`, id).Scan(&packs)
		say("packs of "+id, packs, s.faultOrNil("count", err))
	}
	for _, f := range []Filter{{}, {ConfigPath: "c"}} {
		var profiles []string
		err = s.Profiles(ctx, f, func(p *Profiled) error {
			place, single := p.Place()
			profiles = append(profiles, fmt.Sprintf("%s %+v %v %v", p.Campaign, *p.Profile, place, single))
			return nil
		})
		say("profiles of "+f.ConfigPath, profiles, err)
	}
	losses, err := s.Losses(ctx, time.Time{})
	say("losses", losses, err)
	var open, marked []string
	err = s.OpenFailures(ctx, Filter{Limit: 1000}, func(text json.RawMessage) error {
		open = append(open, string(text))
		return nil
	})
	say("open failures", open, err)
	err = s.MarkedFailures(ctx, Filter{Limit: 1000}, func(text json.RawMessage, fixed bool) error {
		marked = append(marked, fmt.Sprint(fixed, string(text)))
		return nil
	})
	say("marked failures", marked, err)
	b, err := s.Baseline(ctx, "main", "p")
	say("baseline", b, err)
	known, err := s.Baselines(ctx)
	say("baselines", known, err)
	calibrations, err := s.Calibrations(ctx, "p", "softmax")
	say("calibrations", calibrations, err)
	artifacts, err := s.Artifacts(ctx, "p")
	say("artifacts", artifacts, err)
	fuzz, _, err := s.FuzzConfig(ctx, 7)
	say("fuzz configuration", fuzz, err)
	return out
}

// loads reads the tensors of a key.
func loads(s *Store, key string) error {
	f, err := s.LoadTensors(context.Background(), key)
	if err == nil {
		err = f.Close()
	}
	return err
}

// fillAll stores something of every kind. The last results are written at the end: they are those of the log.
func fillAll(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(64), make([]float64, 64))
	key, err := s.SaveTensors(ctx, []tensor.Named{{Name: "x", Tensor: x}}, nil)
	ok(t, err)
	campaign(t, s, Campaign{ID: "one", Project: "p", Planned: 100})
	fill(t, s, "one", 0, 99)
	w := s.Writer("one")
	r := result(99)
	r.Verdict, r.Inputs = verdict.Fail, key
	ok(t, w.Add(ctx, r))
	ok(t, w.Close())
	ok(t, s.FinishCampaign(ctx, "one", Finished, &verdict.Summary{Planned: 100, Counts: verdict.Counts{Total: 100}}))
	var loose []Loose
	for i := range 100 {
		r := result(i)
		r.Candidate = "client"
		loose = append(loose, Loose{r, "c"})
	}
	ok(t, s.AddResults(ctx, loose))
	ok(t, s.SaveBaseline(ctx, "main", "p", json.RawMessage(`{"ops":[1,2,3]}`), nil))
	ok(t, s.SaveCalibration(ctx, Calibration{Project: "p", Op: "softmax", DType: "float32", ATol: 1e-3, RTol: 1e-5}))
	ok(t, s.PutArtifact(ctx, "p", "kernel", json.RawMessage(`{"registers":40}`)))
	ok(t, s.SaveFuzzConfig(ctx, 7, json.RawMessage(`{"iterations":9}`)))
	campaign(t, s, Campaign{ID: "two", Project: "p", Planned: 200})
	fill(t, s, "two", 100, 200)
}

// image are the files of a directory by their path in it.
func image(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	ok(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			files[name], err = os.ReadFile(path)
		}
		return err
	}))
	return files
}

// lay writes the files of an image into a new directory.
func lay(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	ok(t, os.RemoveAll(dir))
	for name, b := range files {
		path := filepath.Join(dir, name)
		ok(t, os.MkdirAll(filepath.Dir(path), 0o700))
		ok(t, os.WriteFile(path, b, 0o600))
	}
}

// flips is how many bits the test below flips: GPUEMU_SOAK, or a sample.
func flips(t *testing.T) int { return testkit.Soak(t, 45) }

// TestFlippedBits: whatever bit of the database, its log, the tensors or the record of commits is flipped, the store
// says what it said before, or returns an error with a code.
func TestFlippedBits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, Options{checkpoint: 1 << 30}, dir)
	fillAll(t, s)
	ok(t, checkpoint(s))
	ok(t, s.FinishCampaign(context.Background(), "two", Interrupted, nil))
	campaign(t, s, Campaign{ID: "three"})
	fill(t, s, "two", 200, 300)
	crashed := image(t, dir) // with a log that nobody has copied
	delete(crashed, fileName+"-shm")
	copyDir := filepath.Join(t.TempDir(), "copy")
	lay(t, copyDir, crashed)
	want := answers(copyDir, Options{})
	closed := image(t, copyDir)
	for _, question := range slices.Sorted(maps.Keys(want)) {
		if len(want[question]) < 6 || want[question][:5] == "error" {
			t.Fatalf("undamaged: %s: %s", question, want[question])
		}
	}
	r := rand.New(rand.NewPCG(3, 5))
	changed, named := 0, map[string]int{}
	for i := range flips(t) {
		files := []map[string][]byte{closed, crashed, crashed}[i%3]
		var names []string
		for name, b := range files {
			if len(b) > 0 {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		name := names[r.IntN(len(names))]
		if i%2 == 0 { // most of the bits are there
			name = fileName
		}
		bit := r.IntN(8 * len(files[name]))
		lay(t, copyDir, files)
		var other *Store
		if i%3 == 2 { // another process has it open, and the log is not recovered
			other = open(t, Options{checkpoint: 1 << 30}, copyDir)
		}
		overwrite(t, filepath.Join(copyDir, name), int64(bit/8), []byte{files[name][bit/8] ^ 1<<(bit%8)})
		got := answers(copyDir, Options{ReadOnly: i%12 >= 9})
		if other != nil {
			_ = other.w.Close() // it may copy the log, and see what is damaged
			_ = other.r.Close()
		}
		for question, answer := range got {
			if code, isError := strings.CutPrefix(answer, "error "); isError {
				named[code]++
			} else if answer != want[question] {
				changed++
				t.Errorf("flip %d, bit %d of %s: %s:\n%.300s\nwant\n%.300s", i, bit, name, question, answer, want[question])
			}
		}
	}
	t.Logf("%d flips: %d answers changed, errors %v", flips(t), changed, named)
}

// checkpoint copies the log into the database.
func checkpoint(s *Store) error {
	_, err := s.w.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// TestLostCommitsAreReported: a log that is cut off, or damaged in its first frame, loses commits, and Open says how
// many; the next one goes on with what is left.
func TestLostCommitsAreReported(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, Options{checkpoint: 1 << 30}, dir)
	campaign(t, s, Campaign{ID: "one", Planned: 30})
	fill(t, s, "one", 0, 10)
	ok(t, checkpoint(s))
	fill(t, s, "one", 10, 20)
	fill(t, s, "one", 20, 30)
	files := image(t, dir)
	delete(files, fileName+"-shm")
	for name, damage := range map[string]func([]byte) []byte{
		"flipped": func(log []byte) []byte { log[100] ^= 1; return log },
		"cut off": func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			copyDir := filepath.Join(t.TempDir(), "copy")
			damaged := maps.Clone(files)
			damaged[fileName+"-wal"] = damage(slices.Clone(damaged[fileName+"-wal"]))
			lay(t, copyDir, damaged)
			for _, readOnly := range []bool{true, false} {
				_, err := Open(ctx, copyDir, Options{ReadOnly: readOnly, Now: func() time.Time { return start }})
				wantCode(t, err, Lost)
				want := filepath.Join(copyDir, fileName) +
					": the last 2 commits before a crash are lost: the write-ahead log is damaged [store-lost]"
				if err.Error() != want {
					t.Errorf("error %q, want %q", err, want)
				}
			}
			again := open(t, Options{}, copyDir)
			if got := stored(t, again, "one"); len(got) != 10 {
				t.Errorf("%d results, want the 10 that were not in the log", len(got))
			}
			losses, err := again.Losses(ctx, start)
			if ok(t, err); len(losses) != 1 || losses[0] != (Loss{Found: start, Commits: 2}) {
				t.Errorf("Losses = %+v", losses)
			}
			lines, err := again.Health(ctx)
			ok(t, err)
			line := HealthLine{Name: "lost commits", OK: true,
				Value: "2, found 2026-11-15 12:00:00: the write-ahead log was damaged in a crash"}
			if !slices.Contains(lines, line) {
				t.Errorf("Health = %+v, want %+v in it", lines, line)
			}
		})
	}
}

// TestRecordOfAnotherDatabase: a damaged database is moved away as its error says, and the record of its commits stays.
func TestRecordOfAnotherDatabase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	visit(t, dir, func(s *Store) { fill(t, s, campaign(t, s, Campaign{}), 0, 10) })
	ok(t, os.Rename(filepath.Join(dir, fileName), filepath.Join(dir, "away.db")))
	visit(t, dir, func(s *Store) { fill(t, s, campaign(t, s, Campaign{}), 0, 1) })
	for _, line := range []string{"", "commits", "commits 0123456789abcdef 00000000000000000007 00000000\n"} {
		ok(t, os.WriteFile(filepath.Join(dir, commitsName), []byte(line), 0o600))
		visit(t, dir, func(*Store) {})
	}
}

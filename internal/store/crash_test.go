//go:build unix

package store

// This file implements the tests with several processes: the test binary runs itself as a child that writes.

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// childEnv makes the test binary a child: "what directory campaign", where what is a key of children.
const childEnv = "GPUEMU_STORE_CHILD"

// children are what a child may do. A child says on its standard output what it was promised.
var children = map[string]func(dir, campaign string) error{
	"endless": endless,
	"some":    some,
	"limited": limited,
	"reads":   reads,
}

func TestMain(m *testing.M) {
	what := os.Getenv(childEnv)
	if what == "" {
		os.Exit(m.Run())
	}
	if err := children[what](os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err, "hint:", diag.HintOf(err))
		os.Exit(1)
	}
}

// child starts a child.
func child(t *testing.T, what, dir, campaign string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir, campaign)
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

// endless continues a campaign until it is killed, and says what it has flushed and which tensors it has saved.
func endless(dir, campaign string) error {
	ctx := context.Background()
	s, err := Open(ctx, dir, Options{checkpoint: 20}) // frequent, so that some kills meet a checkpoint
	if err != nil {
		return err
	}
	_, next, err := s.FinishedIndexes(ctx, campaign)
	if err != nil {
		return err
	}
	w := s.Writer(campaign)
	for chance := rand.New(rand.NewPCG(uint64(next), 1)); ; {
		for range 1 + chance.IntN(400) {
			if err := w.Add(ctx, result(next)); err != nil {
				return err
			}
			next++
		}
		if err := w.Flush(ctx); err != nil {
			return err
		}
		x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(2), []float64{float64(next), 1})
		key, err := s.SaveTensors(ctx, []tensor.Named{{Name: "x", Tensor: x}}, nil)
		if err != nil {
			return err
		}
		fmt.Println(next, key)
	}
}

func TestKilledProcessLosesNothingFlushed(t *testing.T) {
	ctx := context.Background()
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	dir := filepath.Join(t.TempDir(), "db")
	var id string
	visit(t, dir, func(s *Store) { id = campaign(t, s, Campaign{}) })
	chance := rand.New(rand.NewPCG(1, 2))
	promised, total := 0, 0
	for round := range rounds {
		cmd, out := child(t, "endless", dir, id)
		for range chance.IntN(6) { // sometimes none: killed while opening
			if !out.Scan() {
				t.Fatalf("round %d: the child ended by itself", round)
			}
			n, key, _ := strings.Cut(out.Text(), " ")
			var err error
			promised, err = strconv.Atoi(n)
			ok(t, err)
			if chance.IntN(2) == 0 {
				visit(t, dir, func(s *Store) {
					f, err := s.LoadTensors(ctx, key)
					ok(t, err)
					ok(t, f.Close())
				})
			}
		}
		ok(t, cmd.Process.Kill())
		promised = max(promised, lastPromise(out))
		if err := cmd.Wait(); err == nil {
			t.Fatalf("round %d: the child was not killed", round)
		}
		visit(t, dir, func(s *Store) {
			faults, err := s.names(ctx, "PRAGMA integrity_check")
			if ok(t, err); !slices.Equal(faults, []string{"ok"}) {
				t.Fatalf("round %d: integrity_check = %q", round, faults)
			}
			got := stored(t, s, id)
			for i, index := range got {
				if i != index {
					t.Fatalf("round %d: result %d is missing, and %d is there: a group is stored in part", round, i, index)
				}
			}
			if total = len(got); total < promised {
				t.Errorf("round %d: %d results are stored, and %d were flushed", round, total, promised)
			}
		})
	}
	t.Logf("%d kills, %d results stored, %d of them flushed", rounds, total, promised)
}

// visit opens the store for f alone: between visits nobody but a child has it open, so that the next one has to recover
// what a killed child left.
func visit(t *testing.T, dir string, f func(s *Store)) {
	t.Helper()
	s, err := Open(context.Background(), dir, Options{})
	ok(t, err)
	defer func() { ok(t, s.Close()) }()
	f(s)
}

// lastPromise is the number in the last complete line that an endless child said before its end.
func lastPromise(out *bufio.Scanner) int {
	promised := 0
	for out.Scan() {
		if n, key, found := strings.Cut(out.Text(), " "); found && keyForm.MatchString(key) {
			promised, _ = strconv.Atoi(n)
		}
	}
	return promised
}

// someResults is how many results a child "some" writes.
const someResults = 1500

// some creates a campaign of that ID in a store that may not exist yet, and writes results with many small commits.
func some(dir, campaign string) error {
	ctx := context.Background()
	s, err := Open(ctx, dir, Options{checkpoint: 20})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.CreateCampaign(ctx, &Campaign{ID: campaign}); err != nil {
		return err
	}
	w := s.Writer(campaign)
	for i := range someResults {
		if err := w.Add(ctx, result(i)); err != nil {
			return err
		}
		if i%10 == 0 {
			if err := w.Flush(ctx); err != nil {
				return err
			}
		}
		if i%100 == 0 {
			r := result(i)
			r.ShrunkFrom = &r.Seed
			if err := s.AddResult(ctx, r, "same"); err != nil { // all processes into the same standing campaign
				return err
			}
		}
	}
	return w.Close()
}

func TestProcessesShareAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "db") // they create it all at once
	names := []string{"one", "two", "three"}
	var cmds []*exec.Cmd
	for _, name := range names {
		cmd, _ := child(t, "some", dir, name)
		cmds = append(cmds, cmd)
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %s: %v", names[i], err)
		}
	}
	s := open(t, Options{}, dir)
	for _, name := range names {
		if got := len(stored(t, s, name)); got != someResults {
			t.Errorf("campaign %s has %d results, want %d", name, got, someResults)
		}
	}
	standing, err := s.Campaigns(context.Background(), CampaignFilter{State: Standing})
	ok(t, err)
	if want := len(names) * someResults / 100; len(standing) != 1 || len(stored(t, s, standing[0].ID)) != want {
		t.Errorf("standing campaigns = %+v, want one with %d results", standing, want)
	}
}

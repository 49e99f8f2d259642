// This file implements rows: what is measured, against what, with which goal.

package main

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// A Row is one line of the table: our way of doing something against another way, timed in turns.
type Row struct {
	Name string
	Goal Goal
	Work float64 // of one repetition, in billions of Unit; 0: only times are printed
	Unit string
	Note string // what the two sides do, for the page; rows that share one stand next to each other
	Why  string // the reason that the page gives where the row is short of its goal
	// Setup makes the inputs and returns both sides.
	Setup func(b *Bench) (ours, theirs Side, err error)
}

// A Side does the work of a row reps times and says how long that took.
type Side func(reps int) (time.Duration, error)

// A Goal is the limit of one ratio; at most one field is set. The zero Goal: the ratio is printed for information.
type Goal struct {
	Speed float64 // our speed is at least this part of theirs
	Cost  float64 // our time is at most this many times theirs
}

// ratio returns the number the goal limits, and whether it is kept.
func (g Goal) ratio(ours, theirs time.Duration) (float64, bool) {
	if g.Cost != 0 {
		r := ours.Seconds() / theirs.Seconds()
		return r, r <= g.Cost
	}
	r := theirs.Seconds() / ours.Seconds()
	return r, r >= g.Speed
}

// shortfall returns by how much a ratio misses the goal, in percent of the goal.
func (g Goal) shortfall(ratio float64) float64 {
	if g.Cost != 0 {
		return 100 * (ratio/g.Cost - 1)
	}
	return 100 * (1 - ratio/g.Speed)
}

// String returns the goal as the table shows it: the speed relative to theirs, or the time.
func (g Goal) String() string {
	switch {
	case g == Goal{}:
		return "none"
	case g.Cost != 0:
		return fmt.Sprintf("time ≤ %.4g×", g.Cost)
	}
	return fmt.Sprintf("speed ≥ %.4g×", g.Speed)
}

// A Result is a row with its times, each the best of all rounds for one repetition.
type Result struct {
	Row          *Row
	Ours, Theirs time.Duration
	Spread       float64 // the larger of both sides' median/best: how noisy the machine was
}

// timeOf makes a Side of a Go function.
func timeOf(f func()) Side {
	return func(reps int) (time.Duration, error) {
		start := time.Now()
		for range reps {
			f()
		}
		return time.Since(start), nil
	}
}

// onCores makes a Side that runs with that many cores for Go; what the row's name says, whatever the machine has.
func onCores(n int, side Side) Side {
	return func(reps int) (time.Duration, error) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
		return side(reps)
	}
}

// agree returns an error if both sides of a row did not compute the same thing: their times would say nothing.
func agree(what string, got, want, relative float64) error {
	if math.Abs(got-want) <= float64(relative*math.Abs(want)) {
		return nil
	}
	return fmt.Errorf("%s: our result %v, theirs %v: not the same work", what, got, want)
}

// sampler takes samples of one side, each of enough repetitions for the clock and against short disturbances.
type sampler struct {
	side    Side
	reps    int
	samples []time.Duration
}

// warmUp runs the side until one sample takes at least a sample's time, and notes how many repetitions that needs.
func (s *sampler) warmUp(sample time.Duration) error {
	for s.reps = 1; ; {
		took, err := s.side(s.reps)
		if err != nil {
			return err
		}
		if took >= sample || s.reps >= 1<<24 {
			return nil
		}
		grow := 1.2 * sample.Seconds() / max(took.Seconds(), 1e-7)
		s.reps = int(math.Ceil(float64(s.reps) * min(max(grow, 1.3), 100)))
	}
}

func (s *sampler) take() error {
	took, err := s.side(s.reps)
	s.samples = append(s.samples, took/time.Duration(s.reps))
	return err
}

// best returns the fastest sample and how much slower the median was.
func (s *sampler) best() (time.Duration, float64) {
	slices.SortFunc(s.samples, cmp.Compare[time.Duration])
	best := max(s.samples[0], 1)
	return best, float64(s.samples[len(s.samples)/2]) / float64(best)
}

// measure times both sides in turns: what else the machine does in a while then disturbs both.
func (b *Bench) measure(row *Row) (Result, error) {
	defer b.release()
	res := Result{Row: row}
	ours, theirs, err := row.Setup(b)
	if err != nil {
		return res, err
	}
	sides := [2]*sampler{{side: ours}, {side: theirs}}
	for _, s := range sides {
		if err := s.warmUp(b.sample); err != nil {
			return res, err
		}
	}
	for range b.rounds {
		for _, s := range sides {
			// OpenBLAS keeps its threads spinning after a call (2^28 ticks of the clock, 100 ms measured). Without a
			// rest our two threads get one core, and the table shows half our speed with hardly any noise.
			time.Sleep(b.pause)
			if err := s.take(); err != nil {
				return res, err
			}
		}
	}
	var spread [2]float64
	res.Ours, spread[0] = sides[0].best()
	res.Theirs, spread[1] = sides[1].best()
	res.Spread = max(spread[0], spread[1])
	return res, nil
}

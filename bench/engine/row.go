// This file implements rows: what is measured, against what, with which goal.

package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// row is one line of the table.
type row struct {
	name    string
	goal    goal
	note    string // what is done, for the page; rows that share one stand next to each other
	why     string // the reason that the page gives where the row is short of its goal
	measure func(b *bench) (*result, error)
}

// goal limits the figure of a row. The zero goal: the figure is for information.
type goal struct {
	atLeast, atMost float64 // at most one of them is set
}

// result is a row with what was measured.
type result struct {
	row          *row
	ours, theirs string
	figure       float64 // what the goal limits
	unit         string  // of the figure: "×", " ms", " %", " GB/s"
	noise        float64 // how much slower than the best sample the median was, on the noisier side
}

func (g goal) kept(x float64) bool {
	return !(g.atMost != 0 && x > g.atMost) && x >= g.atLeast
}

// text returns the goal as the table shows it.
func (g goal) text(unit string) string {
	switch {
	case g.atMost != 0:
		return fmt.Sprintf("≤ %v%s", g.atMost, unit)
	case g.atLeast != 0:
		return fmt.Sprintf("≥ %v%s", g.atLeast, unit)
	}
	return "none"
}

func (r *result) met() bool { return r.row.goal.kept(r.figure) }

// verdict says whether the goal is met, or by how much it is missed.
func (r *result) verdict() string {
	switch g := r.row.goal; {
	case g == goal{}:
		return ""
	case r.met():
		return "ok"
	case g.atMost != 0:
		return fmt.Sprintf("short by %.0f %%", 100*(r.figure/g.atMost-1))
	default:
		return fmt.Sprintf("short by %.0f %%", 100*(1-r.figure/g.atLeast))
	}
}

// number prints three digits, and all digits before the point.
func number(x float64) string {
	switch {
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// short prints a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return number(d.Seconds()) + " s"
	case d >= time.Millisecond:
		return number(d.Seconds()*1e3) + " ms"
	}
	return number(d.Seconds()*1e6) + " µs"
}

// series are the samples of one side.
type series []time.Duration

func (s series) best() time.Duration { return max(slices.Min(s), 1) }

func (s series) median() time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

func (s series) noise() float64 { return float64(s.median())/float64(s.best()) - 1 }

// turns takes samples of all sides, one after the other, so that what else the machine does disturbs all of them.
func (b *bench) turns(sides ...func() (time.Duration, error)) ([]series, error) {
	out := make([]series, len(sides))
	for range b.rounds {
		for i, side := range sides {
			took, err := side()
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], took)
		}
	}
	return out, nil
}

// times is the figure of two sides: how many times as fast ours is.
func times(ours, theirs series) *result {
	return &result{figure: float64(theirs.best()) / float64(ours.best()), unit: "×",
		noise: max(ours.noise(), theirs.noise())}
}

// rate prints a time for a case and the cases in a second.
func rate(d time.Duration) string {
	return fmt.Sprintf("%s (%s/s)", short(d), number(1/d.Seconds()))
}

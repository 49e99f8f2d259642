// This file implements the rows of short commands.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func startRows() []row {
	return []row{
		{name: "gpuemu version, from start to end", goal: goal{atMost: 30},
			note: "A process that prints one line; the best of many.",
			measure: func(b *bench) (*result, error) {
				return b.timed(b.dir, 6, 1e3, " ms", "version")
			}},
		{name: "gpuemu ci --quick on examples/numpy", goal: goal{atMost: 5},
			note: "From start to end, in a new home.",
			measure: func(b *bench) (*result, error) {
				return b.timed(filepath.Join(b.root, "examples", "numpy"), 1, 1, " s", "ci", "--quick")
			}},
	}
}

// timed runs a command some times per round and gives the best time, in the unit of which there are perSecond.
func (b *bench) timed(dir string, times int, perSecond float64, unit string, args ...string) (*result, error) {
	var list series
	for range b.rounds * times {
		home, err := b.home()
		if err != nil {
			return nil, err
		}
		cmd := b.command(home, dir, args...)
		start := time.Now()
		text, err := cmd.CombinedOutput()
		list = append(list, time.Since(start))
		if err != nil {
			return nil, fmt.Errorf("%v: %w\n%s", args, err, text)
		}
		if err := os.RemoveAll(home); err != nil {
			return nil, err
		}
	}
	best := list.best()
	return &result{ours: short(best), figure: best.Seconds() * perSecond, unit: unit, noise: list.noise()}, nil
}

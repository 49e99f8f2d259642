// This file implements the rows against a loop written by hand in numpy.

package main

import (
	_ "embed"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

//go:embed loop.py
var loopSource string

func loopRows() []row {
	const note = "Ours: gpuemu fuzz from its start to its end: candidate in workers, the catalogue's reference with " +
		"a bound for every element, full statistics, four invariants, store. Theirs: standard_normal, candidate, " +
		"reference in float64 and allclose in one Python process, whose start is not counted; numpy uses one core for " +
		"them. The candidate is the same numpy code."
	const why = "Ours also finds the error bound of every element, five kinds of errors with percentiles, and the " +
		"invariants; the parts are rows of speed.md. "
	return []row{
		{name: "fuzz softmax [4,16,257] float32, bound and invariants, over a numpy loop", goal: goal{atLeast: 1}, note: note,
			why: why + "About 0.1 ms of a case is the way to the worker and back, which the loop does not have.",
			measure: func(b *bench) (*result, error) {
				return b.overLoop("bound", 6000, smallShape)
			}},
		{name: "fuzz softmax [8,128,1025] float32, bound and invariants, over a numpy loop", goal: goal{atLeast: 1},
			note: note, why: why,
			measure: func(b *bench) (*result, error) {
				return b.overLoop("bound_large", 150, largeShape)
			}},
	}
}

func (b *bench) overLoop(op string, cases int, shape []int) (*result, error) {
	args := []string{"-c", loopSource, strconv.Itoa(cases)}
	for _, n := range shape {
		args = append(args, strconv.Itoa(n))
	}
	theirs := func() (time.Duration, error) {
		text, err := exec.Command(b.python, args...).Output()
		if err != nil {
			return 0, fmt.Errorf("loop.py: %w", err)
		}
		seconds, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		return time.Duration(seconds / float64(cases) * float64(time.Second)), err
	}
	var cpu time.Duration
	s, err := b.turns(b.perCase(op, cases, &cpu), theirs)
	if err != nil {
		return nil, err
	}
	res := times(s[0], s[1])
	res.ours, res.theirs = withCPU(s[0].best(), cpu), rate(s[1].best())
	return res, nil
}

// This file implements the rows of whole cases: generate, refer, compare.

package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
)

// loopRows are whole cases against the loop one would write by hand in numpy: draw inputs, compute the reference in
// float64, compare the candidate's output. The candidate's own time is in neither side. The softmax rows on all cores
// are a goal of the design; one core is for information.
func loopRows() []Row {
	cores := runtime.GOMAXPROCS(0)
	var rows []Row
	for _, r := range []struct {
		op    string
		shape [3]int
		goal  float64
	}{
		{"softmax", [3]int{4, 16, 257}, 1},
		{"softmax", [3]int{8, 128, 1025}, 1},
		{"layernorm", [3]int{4, 16, 257}, 0},
		{"layernorm", [3]int{8, 128, 1025}, 0},
		{"gelu_tanh", [3]int{4, 16, 257}, 0},
		{"gelu_tanh", [3]int{8, 128, 1025}, 0},
	} {
		rows = append(rows, loop(r.op, r.shape, cores, r.goal))
		if cores > 1 {
			rows = append(rows, loop(r.op, r.shape, 1, 0))
		}
	}
	return rows
}

func loop(name string, shape [3]int, cores int, goal float64) Row {
	setup := func(b *Bench) (Side, Side, error) {
		op, c, err := caseOf(name, "normal", map[string]int{"B": shape[0], "S": shape[1], "H": shape[2]})
		if err != nil {
			return nil, nil, err
		}
		l, err := newWhole(op, c)
		if err != nil {
			return nil, nil, err
		}
		theirs, check, err := b.Numpy(1, "whole_case", map[string]any{"op": name, "shape": shape})
		if err != nil {
			return nil, nil, err
		}
		return onCores(cores, l.time(cores)), theirs, agree("candidates accepted", 1, check, 0)
	}
	return Row{
		Name:  fmt.Sprintf("whole case %s %v float32, %s", name, tensor.Shape(shape[:]), coresName(cores)),
		Goal:  Goal{Speed: goal},
		Work:  float64(shape[0]*shape[1]*shape[2]) / 1e9,
		Unit:  "elem",
		Setup: setup,
		Note: "Ours: gen.Inputs, oracle.Evaluate (value and bound) and compare.Compare (full statistics) of a prepared " +
			"output, cases spread over the cores. numpy, which uses one core: standard_normal, reference in float64, " +
			"allclose. The candidate's own time is in neither.",
		Why: "Of about 21 ns an element and core inputs take 8 (Box and Muller's method, which RNG v1 prescribes, and a " +
			"stream that has an order), the reference 9 (four at a time, with an error bound through every operation) and " +
			"the comparison 3 to 5.",
	}
}

// whole is one case with the output of an honest candidate: the exact values, rounded.
type whole struct {
	op    *oracle.Op
	c     opspec.Case
	attrs opspec.Attrs
	got   *tensor.Tensor
}

func newWhole(op *oracle.Op, c opspec.Case) (*whole, error) {
	l := &whole{op: op, c: c, attrs: c.AttrMap()}
	in, err := gen.Inputs(op.Schema, c)
	if err != nil {
		return nil, err
	}
	wants, err := oracle.Evaluate(op, in, l.attrs, dtype.Float32)
	if err != nil {
		return nil, err
	}
	want := wants["output"]
	l.got = tensor.FromFloat64s(want.DType, want.Shape, want.Value)
	return l, l.once()
}

func (l *whole) once() error {
	in, err := gen.Inputs(l.op.Schema, l.c)
	if err != nil {
		return err
	}
	wants, err := oracle.Evaluate(l.op, in, l.attrs, dtype.Float32)
	if err != nil {
		return err
	}
	rep, err := compare.Compare(l.got, wants["output"], compare.DefaultOptions())
	if err != nil {
		return err
	}
	if rep.Verdict != compare.Pass {
		return fmt.Errorf("verdict %v, want pass", rep.Verdict)
	}
	return nil
}

// time spreads cases over the cores, as a campaign does.
func (l *whole) time(cores int) Side {
	return func(reps int) (time.Duration, error) {
		var left atomic.Int64
		left.Store(int64(reps))
		errs := make([]error, cores)
		var workers sync.WaitGroup
		start := time.Now()
		for k := range errs {
			workers.Go(func() {
				for errs[k] == nil && left.Add(-1) >= 0 {
					errs[k] = l.once()
				}
			})
		}
		workers.Wait()
		return time.Since(start), errors.Join(errs...)
	}
}

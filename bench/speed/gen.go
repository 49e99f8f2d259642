// This file implements the rows of the generators.

package main

import (
	"fmt"
	"runtime"

	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
)

// genRows are the inputs of one case against numpy's generator. They have no goal of their own: the whole loops have.
func genRows() []Row {
	var rows []Row
	for _, values := range []string{"uniform", "normal"} {
		rows = append(rows, inputs(values, 1))
		if cores := runtime.GOMAXPROCS(0); cores > 1 {
			rows = append(rows, inputs(values, cores))
		}
	}
	return rows
}

func coresName(n int) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%d cores", n)
}

func inputs(values string, cores int) Row {
	const n = 1 << 20
	setup := func(b *Bench) (Side, Side, error) {
		op, c, err := caseOf("relu", values, map[string]int{"B": 1, "S": 1 << 10, "H": n >> 10})
		if err != nil {
			return nil, nil, err
		}
		if _, err := gen.Inputs(op.Schema, c); err != nil {
			return nil, nil, err
		}
		theirs, _, err := b.Numpy(1, "generate", map[string]any{"values": values, "n": n})
		return onCores(cores, timeOf(func() { _, _ = gen.Inputs(op.Schema, c) })), theirs, err
	}
	return Row{
		Name: fmt.Sprintf("generate float32 %s 2^20, %s", values, coresName(cores)), Work: n / 1e9, Unit: "elem",
		Setup: setup,
		Note: "gen.Inputs with its checks, its derived seeds and a stream that is the same on every CPU, against " +
			"default_rng, whose streams may change with its version.",
	}
}

// caseOf returns an op of the catalogue and a case of it in float32.
func caseOf(name, values string, dims map[string]int) (*oracle.Op, opspec.Case, error) {
	op, ok := oracle.Lookup(name)
	if !ok {
		return nil, opspec.Case{}, fmt.Errorf("no op %s", name)
	}
	c, err := newCase(op, dtype.Float32, values, dims)
	return op, c, err
}

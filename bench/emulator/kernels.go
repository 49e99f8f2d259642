// This file implements the kernels that are measured: fixtures as clang 19 wrote them, and their inputs.

package main

import (
	"encoding/binary"
	"fmt"
	"math"

	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxvm"
)

// kernel is a launch that is measured again and again.
type kernel struct {
	name        string
	file, entry string
	grid, block ptxvm.Dim
	args        []ptxvm.Arg
	most        float64 // ms with two workers and without checks that it may take; 0 for no goal
	twin        string  // entry of a sound kernel that does the same; empty where it is sound itself

	program *ptxvm.Program
	threads uint64 // instructions of threads
}

// numbers are n numbers between -2 and 2 in an irregular order.
func numbers(n int) []float32 {
	list := make([]float32, n)
	state := uint32(1)
	for i := range list {
		state = state*1664525 + 1013904223 // Numerical Recipes, "quick and dirty"
		list[i] = float32(int32(state)) / (1 << 30)
	}
	return list
}

// in is an input of n f32, halves one of n bf16; out is an output of n f32.
func in(n int) ptxvm.Arg {
	var b []byte
	for _, x := range numbers(n) {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return ptxvm.Arg{Name: "input", Buffer: b, Role: ptxvm.In, Element: 4}
}

func halves(n int) ptxvm.Arg {
	var b []byte
	for _, x := range numbers(n) {
		b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(x)>>16))
	}
	return ptxvm.Arg{Name: "input", Buffer: b, Role: ptxvm.In, Element: 2}
}

func out(n int) ptxvm.Arg {
	return ptxvm.Arg{Name: "output", Buffer: make([]byte, 4*n), Role: ptxvm.Out, Uninitialised: true, Element: 4}
}

// sum is n f32 that a kernel adds to.
func sum(n int) ptxvm.Arg {
	return ptxvm.Arg{Name: "sum", Buffer: make([]byte, 4*n), Role: ptxvm.InOut, Element: 4}
}

func i32(n int) ptxvm.Arg { return ptxvm.Arg{Value: binary.LittleEndian.AppendUint32(nil, uint32(n))} }

func f32(x float32) ptxvm.Arg {
	return ptxvm.Arg{Value: binary.LittleEndian.AppendUint32(nil, math.Float32bits(x))}
}

func dim(x, y int) ptxvm.Dim { return ptxvm.Dim{X: x, Y: y, Z: 1} }

// kernels are everything that is measured. Goals in ms are those of the specification of the emulator, on two cores.
func kernels() ([]*kernel, error) {
	const n, rows, cols, large, length = 256, 128, 1000, 1 << 20, 512
	square := []ptxvm.Arg{in(n * n), in(n * n), out(n * n), i32(n), i32(n), i32(n)}
	list := []*kernel{
		{name: "softmax 128×1000", file: "softmax", entry: "softmax_block", grid: dim(rows, 1), block: dim(256, 1),
			args: []ptxvm.Arg{in(rows * cols), out(rows * cols), i32(cols)}, most: 30},
		{name: "layernorm 128×1000", file: "norm", entry: "layernorm", grid: dim(rows, 1), block: dim(256, 1),
			args: []ptxvm.Arg{in(rows * cols), in(cols), in(cols), out(rows * cols), i32(cols), f32(1e-5)}},
		{name: "matmul 256³, naive", file: "matmul", entry: "matmul_naive", grid: dim(n/16, n/16), block: dim(16, 16),
			args: square},
		{name: "matmul 256³, tiles of 16×16", file: "matmul", entry: "matmul_tile16", grid: dim(n/16, n/16),
			block: dim(16, 16), args: square},
		{name: "matmul 256³, tiles of 64×64", file: "matmul", entry: "matmul_tile64", grid: dim(n/64, n/64),
			block: dim(256, 1), args: []ptxvm.Arg{in(n * n), in(n * n), out(n * n), i32(n), i32(n)}, most: 120},
		{name: "matmul 256³, mma.sync", file: "mma", entry: "mma_pipeline", grid: dim(n/32, n/16), block: dim(32, 1),
			args: []ptxvm.Arg{halves(n * n), halves(n * n), out(n * n), i32(n), i32(n)}},
		{name: "GELU of 1 Mi elements", file: "elementwise", entry: "gelu", grid: dim(large/256, 1), block: dim(256, 1),
			args: []ptxvm.Arg{in(large), out(large), i32(large)}},
		{name: "max of 1 Mi elements, atomics", file: "reduce", entry: "max_abs", grid: dim(large/256, 1),
			block: dim(256, 1), args: []ptxvm.Arg{in(large), sum(1), i32(large)}},
		{name: "sum of 1 Mi elements, one order", file: "reduce", entry: "sum_shuffle", grid: dim(128, 1),
			block: dim(256, 1), args: []ptxvm.Arg{in(large), sum(1), i32(large)}},
		{name: "attention 512×32, online", file: "attention", entry: "attention_online", grid: dim(length/64, 1),
			block: dim(64, 1), args: []ptxvm.Arg{in(length * 32), in(length * 32), in(length * 32), out(length * 32),
				i32(length), f32(0.125)}},
	}
	list = append(list, synchronizing()...)
	for _, k := range list {
		if err := k.load(); err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return list, nil
}

// races is the file of kernels that synchronize by memory, and of those that race.
const races = "bench/emulator/races.ptx"

// synchronizing are the kernels of races.
func synchronizing() (list []*kernel) {
	sums := func(name, entry string, blocks, threads int, twin string) {
		list = append(list, &kernel{name: name, file: races, entry: entry, grid: dim(blocks, 1), block: dim(threads, 1),
			args: []ptxvm.Arg{sum(2)}, twin: twin})
	}
	sums("acq_rel additions to one word", "add_acq_rel", 4, 256, "")
	sums("fences and additions to one word", "add_fence", 4, 256, "")
	sums("a lock for each of 64 lanes", "lock_lanes", 1, 64, "")
	sums("a chain of 512 blocks", "chain_blocks", 512, 64, "")
	tiles := func(name, entry, twin string) {
		list = append(list, &kernel{name: name, file: races, entry: entry, grid: dim(8, 1), block: dim(256, 1),
			args: []ptxvm.Arg{in(1 << 11), out(1 << 11)}, twin: twin})
	}
	tiles("tiles", "tile", "")
	tiles("tiles, first barrier missing", "tile_no_first", "tile")
	tiles("tiles, second barrier missing", "tile_no_second", "tile")
	tiles("tiles, both barriers missing", "tile_no_barrier", "tile")
	sums("relaxed additions to one word", "add_atomic", 4, 256, "")
	sums("additions that race", "add_racy", 4, 256, "add_atomic")
	sums("maxima of one word", "max_atomic", 4, 256, "")
	sums("stores that race", "store_racy", 4, 256, "max_atomic")
	return list
}

// load reads the kernel and counts its instructions, with all checks: what is measured is to be sound, or to race.
func (k *kernel) load() error {
	name := k.file
	if name != races {
		name = "testdata/ptx/clang19/" + k.file + ".ptx"
	}
	f, err := ptx.ReadFile(name)
	if err != nil {
		return err
	}
	if k.program, err = ptxvm.Load(f, k.entry); err != nil {
		return err
	}
	l := k.launch(setting{workers: 2})
	l.Counters = true
	r, err := k.program.Run(l)
	if err != nil {
		return err
	}
	for i := range r.Findings {
		if k.twin == "" {
			return fmt.Errorf("it has a finding: %s", &r.Findings[i])
		}
	}
	if k.twin != "" && len(r.Findings) == 0 {
		return fmt.Errorf("it has no finding")
	}
	k.threads = r.Counters.Threads
	return nil
}

func (k *kernel) launch(s setting) *ptxvm.Launch {
	return &ptxvm.Launch{Grid: k.grid, Block: k.block, Args: k.args, Checks: s.checks, Workers: s.workers}
}

package main

// This file implements the shapes of the baselines: what a harness runs an operator on, scaled down to what the
// emulator does in milliseconds and to what the kernels of the corpus take.

import (
	"maps"
	"math"
	"slices"

	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
)

// sizes are dimensions by name. An operator takes those that it has.
type sizes map[string]int

// regular is one shape for each family of operators: powers of two, as benchmarks have them.
var regular = map[string]sizes{
	"activation": {"B": 2, "S": 64, "H": 1024},
	"binary":     {"B": 2, "S": 64, "H": 1024},
	"reduce":     {"B": 2, "S": 64, "H": 1024},
	"softmax":    {"B": 2, "S": 64, "H": 1024},
	"norm":       {"B": 2, "S": 64, "H": 1024, "N": 2, "C": 64, "L": 256},
	"matmul":     {"B": 2, "M": 128, "K": 128, "N": 128},
	"attention":  {"B": 1, "HQ": 2, "HKV": 2, "M": 128, "N": 128, "D": 64, "S": 64, "H": 4},
	"loss":       {"R": 64, "C": 512},
	"index":      {"V": 512, "D": 64, "R": 64, "C": 256, "K": 32, "N": 256, "E": 64},
	"conv":       {"B": 2, "CI": 8, "CO": 8, "C": 8, "L": 64, "H": 16, "W": 16, "KH": 3, "KW": 3},
	"pool":       {"B": 2, "C": 8, "H": 32, "W": 32},
	"quant":      {"R": 64, "C": 256},
}

// Sizes of single operators that are not those of their family.
var regularOf = map[string]sizes{
	"gqa_attention":    {"HQ": 4, "HKV": 2},
	"decode_attention": {"B": 2, "HQ": 4, "HKV": 2},
}

// serving are sizes as a server meets them: any number of rows and of keys, widths of models.
var serving = map[string][]sizes{
	"rows": {{"B": 1, "S": 1, "H": 1024}, {"B": 1, "S": 7, "H": 1024}, {"B": 1, "S": 33, "H": 512},
		{"B": 4, "S": 16, "H": 256}},
	"matmul": {{"M": 1}, {"M": 7}, {"M": 35}, {"M": 128}},
	"attention": {{"B": 1, "M": 1, "N": 17, "S": 1}, {"B": 2, "M": 1, "N": 100, "S": 33},
		{"B": 1, "M": 7, "N": 71, "S": 7}, {"B": 1, "M": 64, "N": 64, "S": 64}},
	"loss":  {{"R": 1}, {"R": 7}, {"R": 33}, {"R": 64}},
	"index": {{"R": 1}, {"R": 7}, {"R": 33}, {"R": 64}},
	"quant": {{"R": 1}, {"R": 7}, {"R": 33}, {"R": 64}},
	"conv":  {{"B": 1}, {"B": 2}, {"B": 3}},
	"pool":  {{"B": 1}, {"B": 2}, {"B": 3}},
}

// listed are sizes as the lists of GPU MODE have them: pmpp_v2/vectoradd_py (127, 128, 129, 256, 512), vectorsum_py
// and prefixsum_py (1023, 1024, 1025), matmul_py (multiples of 16), conv2d_py (even sizes, kernels of 4), princeton/
// cross_entropy_py (multiples of 8).
var listed = map[string][]sizes{
	"activation": {{"H": 127}, {"H": 128}, {"H": 129}, {"H": 256}, {"H": 512}},
	"binary":     {{"H": 127}, {"H": 128}, {"H": 129}, {"H": 256}, {"H": 512}},
	"rows":       {{"H": 1023, "L": 255}, {"H": 1024, "L": 256}, {"H": 1025, "L": 257}},
	"matmul": {{"M": 64, "K": 64, "N": 64}, {"M": 128, "K": 128, "N": 128}, {"M": 32, "K": 32, "N": 128},
		{"M": 64, "K": 256, "N": 64}},
	"attention": {{"M": 64, "N": 64}, {"M": 16, "N": 128, "S": 16}, {"M": 128, "N": 128, "D": 32}},
	"loss":      {{"C": 256}, {"C": 504}, {"C": 1000}},
	"index":     {{}, {"R": 128, "V": 256, "N": 128, "E": 128}},
	"conv": {{"B": 1, "KH": 4, "KW": 4}, {"B": 2, "KH": 4, "KW": 4},
		{"B": 1, "H": 32, "W": 32, "L": 32, "KH": 4, "KW": 4}},
	"pool":  {{}, {"H": 16, "W": 16}},
	"quant": {{"C": 64}, {"C": 128}, {"C": 256}},
}

// small are sizes as PyTorch's OpInfo samples have them (its S is 5, its M is 10, its L is 20).
var small = map[string][]sizes{
	"rows": {{"B": 5, "S": 5, "H": 5, "N": 5, "C": 10, "L": 5}, {"B": 1, "S": 1, "H": 20, "N": 1, "C": 10, "L": 20},
		{"B": 5, "S": 10, "H": 5, "N": 5, "C": 20, "L": 10}, {"B": 1, "S": 1, "H": 1, "N": 1, "C": 10, "L": 1}},
	"matmul": {{"B": 5, "M": 5, "K": 10, "N": 5}, {"B": 1, "M": 10, "K": 20, "N": 5}, {"B": 1, "M": 1, "K": 5, "N": 10}},
	"attention": {{"B": 2, "M": 5, "N": 5, "D": 20, "S": 5, "H": 3}, {"B": 1, "M": 5, "N": 10, "D": 10, "S": 10, "H": 5},
		{"B": 2, "M": 10, "N": 3, "D": 5, "S": 3, "H": 2}},
	"loss": {{"R": 5, "C": 10}, {"R": 5, "C": 5}, {"R": 1, "C": 20}},
	"index": {{"V": 10, "D": 5, "R": 5, "C": 10, "K": 5, "N": 10, "E": 10},
		{"V": 20, "D": 10, "R": 10, "C": 20, "K": 10, "N": 20, "E": 20}},
	"conv": {{"B": 1, "CI": 3, "CO": 6, "C": 3, "H": 7, "W": 7, "L": 7, "KH": 3, "KW": 3},
		{"B": 2, "CI": 4, "CO": 4, "C": 4, "H": 5, "W": 5, "L": 10, "KH": 3, "KW": 2}},
	"pool":  {{"B": 1, "C": 3, "H": 10, "W": 10}, {"B": 2, "C": 5, "H": 5, "W": 7}},
	"quant": {{"R": 5, "C": 10}, {"R": 10, "C": 20}, {"R": 1, "C": 5}},
}

// oneShape is the regular shape.
func oneShape(op *oracle.Op) []shape { return variants(op, nil) }

// benchmarked are sizes of KernelBench's problems that are not powers of two, as its level 1 has them: activations and
// softmax on 4096 × 393216, which is 3 · 2^17 (19 to 32), matrices of 8205 × 2949 by 2949 × 5921 beside regular ones (8
// of 1 to 18), l2norm on rows of 65535 (39), reductions of 128 × 4096 × 4095 over the 4096 (47 to 53).
var benchmarked = map[string][]sizes{
	"activation": {{"H": 768}},
	"softmax":    {{"H": 768}},
	"matmul":     {{}, {"M": 77, "K": 133, "N": 97}},
	"l2norm":     {{"H": 1023}},
	"reduce":     {{"S": 63}},
}

// kernelBenchShape is the regular shape, or what KernelBench has in its place.
func kernelBenchShape(op *oracle.Op) []shape {
	if list, ok := benchmarked[op.Name]; ok {
		return variants(op, list)
	}
	return variants(op, benchmarked[op.Family])
}

// twoByTwo are the regular shape, with half the rows, with half the columns, and with both.
func twoByTwo(op *oracle.Op) []shape {
	rows := []string{"B", "S", "R", "M"}
	var list []sizes
	for _, half := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		size := sizes{}
		for name, n := range regularFor(op) {
			column := 1
			if slices.Contains(rows, name) {
				column = 0
			}
			if half[column] && n >= 4 { // windows of convolutions and numbers of heads stay
				size[name] = n / 2
			}
		}
		list = append(list, size)
	}
	return variants(op, list)
}

func servingShapes(op *oracle.Op) []shape { return variants(op, ofFamily(serving, op)) }
func listedShapes(op *oracle.Op) []shape  { return variants(op, ofFamily(listed, op)) }

// smallShapes are small ones; convolutions and pooling get other strides and padding as well, as OpInfo has them.
func smallShapes(op *oracle.Op) []shape {
	list := variants(op, ofFamily(small, op))
	if op.Family == "conv" || op.Family == "pool" {
		for _, s := range slices.Clone(list) {
			s.attrs = opspec.Attrs{"stride": int64(2), "padding": int64(1)}
			list = append(list, s)
		}
	}
	return list
}

// ofFamily are the entries of an operator's family, else those of rows, which most families are about.
func ofFamily(table map[string][]sizes, op *oracle.Op) []sizes {
	if list, ok := table[op.Family]; ok {
		return list
	}
	return table["rows"]
}

// regularFor is the regular shape of an operator.
func regularFor(op *oracle.Op) sizes {
	all := maps.Clone(regular[op.Family])
	maps.Copy(all, regularOf[op.Name])
	return all
}

// variants are the regular shape with some sizes changed, each the nearest that the operator takes. Without changes
// it is the regular shape alone.
func variants(op *oracle.Op, changes []sizes) (list []shape) {
	if len(changes) == 0 {
		changes = []sizes{nil}
	}
	for _, change := range changes {
		all := regularFor(op)
		maps.Copy(all, change)
		dims := map[string]int{}
		for i := range op.Schema.Dims {
			d := &op.Schema.Dims[i]
			if n, ok := all[d.Name]; ok && !d.Derived() {
				dims[d.Name] = fitted(d, n)
			} else if !d.Derived() {
				dims[d.Name] = 1
			}
		}
		list = append(list, shape{dims: dims})
	}
	return list
}

// fitted is a size that the kernels take: the largest power of two up to the largest size of a dimension where a
// harness has more.
func fitted(d *opspec.Dim, n int) int {
	if most := largest(d); n > most {
		n = 1 << int(math.Log2(float64(most)))
	}
	return n
}

// largest is the largest size of a dimension that kernels are written for.
func largest(d *opspec.Dim) int {
	if d.Max > 0 {
		return d.Max
	}
	list, _ := d.Sizes()
	return slices.Max(list)
}

// nearest is a shape that the operator takes: the given one, else the nearest one, by the ratio of sizes, with one
// size changed, else with two.
func (s *subject) nearest(sh shape) (shape, bool) {
	attrs := s.allAttrs(sh.attrs)
	legal := func(dims map[string]int) bool {
		_, err := s.program.Derive(dims, attrs)
		return err == nil
	}
	if legal(sh.dims) {
		return sh, true
	}
	moves := s.moves(sh)
	var best map[string]int
	cost := math.Inf(1)
	for i, m := range moves {
		for _, other := range moves[i:] { // a move with itself is one size changed
			c := m.cost
			if other != m {
				c += other.cost
			}
			dims := maps.Clone(sh.dims)
			dims[m.dim], dims[other.dim] = m.size, other.size
			if c < cost && legal(dims) {
				best, cost = dims, c
			}
		}
	}
	return shape{dims: best, attrs: sh.attrs}, best != nil
}

// move is another size of a dimension; cost is how far it is off, in powers of two.
type move struct {
	dim  string
	size int
	cost float64
}

func (s *subject) moves(sh shape) (list []move) {
	for i := range s.entry.Schema.Dims {
		d := &s.entry.Schema.Dims[i]
		n, free := sh.dims[d.Name]
		if !free || n == 0 {
			continue
		}
		sizes, _ := d.Sizes()
		for _, size := range append(slices.Clone(sizes), n-1, n+1, n/2, 2*n) {
			if size >= max(1, d.Min) && size <= largest(d) && size != n {
				list = append(list, move{d.Name, size, math.Abs(math.Log2(float64(size) / float64(n)))})
			}
		}
	}
	return list
}

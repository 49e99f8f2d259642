// This file implements operators that move data by indexes.

package oracle

import (
	"math"
	"sort"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
)

// checkIndexes refuses indexes outside [lo, hi).
func checkIndexes(name string, idx []float64, lo, hi int) error {
	for i, v := range idx {
		if v < float64(lo) || v >= float64(hi) {
			return diag.Errorf(IndexRange, "", "input %q element %d is %g, outside [%d, %d)", name, i, v, lo, hi)
		}
	}
	return nil
}

func (c *call) embedding() error {
	table, idx, out := c.data("table"), c.data("index"), c.out("output")
	d := c.dim("D")
	if err := checkIndexes("index", idx, 0, c.dim("V")); err != nil {
		return err
	}
	for r, i := range idx {
		copy(out.Value[r*d:(r+1)*d], table[int(i)*d:(int(i)+1)*d])
	}
	return nil
}

func (c *call) gather() error {
	x, idx, out := c.data("input"), c.data("index"), c.out("output")
	k, w := c.dim("K"), c.dim("C")
	if err := checkIndexes("index", idx, 0, w); err != nil {
		return err
	}
	for i, j := range idx {
		out.setExact(i, x[i/k*w+int(j)])
	}
	return nil
}

// scatterAdd: each output is a sum, in any order, of the element there and of those that name it.
func (c *call) scatterAdd() error {
	x, idx, src, out := c.data("input"), c.data("index"), c.data("src"), c.out("output")
	d := c.dim("D")
	if err := checkIndexes("index", idx, 0, c.dim("V")); err != nil {
		return err
	}
	sums := make([]sum, len(x))
	for i, v := range x {
		sums[i].add(c.input(v))
	}
	for r, i := range idx {
		for j := range d {
			sums[int(i)*d+j].add(c.input(src[r*d+j]))
		}
	}
	out.Several = make([]bool, len(sums))
	for i := range sums {
		out.Several[i] = sums[i].n > 2
		if sums[i].n == 1 {
			out.set(i, c.input(x[i])) // nothing was added, so nothing was rounded
			continue
		}
		out.set(i, sums[i].total(&c.arith))
	}
	return nil
}

// ranked returns the indexes of x from greatest to least, equal values in order; NaN is the greatest.
func ranked(x []float64) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool {
		p, q := x[order[a]], x[order[b]]
		return p > q || p != p && q == q
	})
	return order
}

func (c *call) topk() error {
	x, values, indices := c.data("input"), c.out("values"), c.out("indices")
	n, k := c.dim("N"), c.attrs.Int("k")
	rows := c.dim("R")
	parallel(rows, 64*n, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := x[r*n : (r+1)*n]
			for j, i := range ranked(row)[:k] {
				values.set(r*k+j, c.input(row[i]))
				indices.setExact(r*k+j, float64(i))
			}
		}
	})
	indices.Ties = &compare.Ties{
		Rows: rows, K: k, N: n, Score: x, Slack: c.inputs(x).e, Distinct: true, Ordered: true,
	}
	return nil
}

// moeRouting: the j-th largest of values that are each off by at most e is off by at most the largest e, so one bound
// serves the whole row, and experts closer than their errors may change places.
func (c *call) moeRouting() error {
	x, weightsOut, indices := c.data("logits"), c.out("weights"), c.out("indices")
	n, k, rows := c.dim("E"), c.attrs.Int("k"), c.dim("R")
	renormalize := c.attrs.Bool("renormalize")
	score, slack := make([]float64, len(x)), make([]float64, len(x))
	parallel(rows, 128*n, func(lo, hi int) {
		terms := make([]num, n)
		for r := lo; r < hi; r++ {
			row := x[r*n : (r+1)*n]
			_, total := c.expSum(row, terms)
			worst := 0.0
			var w classes
			for i := range row {
				p := c.divLeast(terms[i], total, leastExpSum)
				score[r*n+i], slack[r*n+i] = p.v, p.e
				worst = math.Max(worst, p.e)
				w |= p.w
			}
			var chosen sum
			order := ranked(row)[:k]
			top := make([]num, k)
			for j, i := range order {
				top[j] = num{v: score[r*n+i], e: worst, w: w}
				chosen.add(top[j])
				indices.setExact(r*k+j, float64(i))
			}
			for j := range order {
				if renormalize {
					top[j] = c.div(top[j], chosen.total(&c.arith))
				}
				weightsOut.set(r*k+j, top[j])
			}
			if !allFinite(row) {
				weightsOut.markRow(r*k, (r+1)*k)
				indices.markRow(r*k, (r+1)*k)
			}
		}
	})
	indices.Ties = &compare.Ties{Rows: rows, K: k, N: n, Score: score, Slack: slack, Distinct: true, Ordered: true}
	return nil
}

func indexOps() []*Op {
	index := func(below string, dims ...string) opspec.Input {
		return opspec.Input{
			Name: "index", Dims: dims, DType: "int64", Role: opspec.RoleIndex, Domain: opspec.Domain{Below: below},
		}
	}
	dim := func(name string, empty bool, candidates ...int) opspec.Dim {
		return opspec.Dim{Name: name, Candidates: candidates, Empty: empty, Min: min(1, candidates[0]), Tile: 64}
	}
	reduced := func(d opspec.Dim) opspec.Dim {
		d.Reduced = true
		return d
	}
	k := func(values ...any) opspec.Attr {
		return opspec.Attr{Name: "k", Kind: opspec.Int, Values: values, Doc: "how many to take"}
	}
	indices := func(d, also string) opspec.Output {
		return opspec.Output{Name: "indices", Dims: []string{"R", "k"}, DType: d, AlsoDTypes: []string{also}}
	}
	return []*Op{
		{
			Name: "embedding", Family: "index", Doc: "rows of the table named by index", Contract: "exact copy",
			Schema: &opspec.Schema{
				Dims: []opspec.Dim{
					dim("V", false, 1, 5, 100, 513), dim("D", false, 1, 7, 64, 129), dim("R", true, 1, 3, 64, 200),
				},
				DTypes:  plainFloats(),
				Inputs:  []opspec.Input{{Name: "table", Dims: []string{"V", "D"}, Role: opspec.RoleWeight}, index("V", "R")},
				Outputs: []opspec.Output{{Name: "output", Dims: []string{"R", "D"}}},
			},
			ref: (*call).embedding,
		},
		{
			Name: "gather", Family: "index", Doc: "out[i,j] = input[i, index[i,j]]", Contract: "exact copy",
			Schema: &opspec.Schema{
				Dims:    []opspec.Dim{dim("R", true, 1, 3, 64), dim("C", false, 1, 7, 64, 257), dim("K", false, 1, 5, 33)},
				DTypes:  plainFloats(),
				Inputs:  []opspec.Input{{Name: "input", Dims: []string{"R", "C"}}, index("C", "R", "K")},
				Outputs: []opspec.Output{{Name: "output", Dims: []string{"R", "K"}}},
			},
			ref: (*call).gather,
		},
		{
			Name: "scatter_add", Aliases: []string{"index_add"}, Family: "index",
			Doc:      "input with src[r] added to row index[r]",
			Contract: "float32 accumulation (float64 for float64) in any order, one rounding to the output type",
			Schema: &opspec.Schema{
				Dims: []opspec.Dim{dim("V", false, 1, 5, 64), dim("D", false, 1, 7, 64),
					reduced(dim("R", true, 1, 3, 64, 300))},
				DTypes: plainFloats(),
				Inputs: []opspec.Input{
					{Name: "input", Dims: []string{"V", "D"}}, index("V", "R"), {Name: "src", Dims: []string{"R", "D"}},
				},
				Outputs: []opspec.Output{{Name: "output", Dims: []string{"V", "D"}}},
			},
			ref: (*call).scatterAdd, once: true,
		},
		{
			Name: "topk", Family: "index",
			Doc:      "the k greatest of each row, descending, and their indexes; NaN is the greatest",
			Contract: "exact; equal values in any order; subnormals kept or flushed; int64 or int32 indexes",
			Schema: &opspec.Schema{
				Dims:   []opspec.Dim{dim("R", true, 1, 3, 64), reduced(dim("N", false, 8, 17, 64, 257))},
				DTypes: plainFloats(), Relations: []string{"k >= 1", "k <= N"}, Attrs: []opspec.Attr{k(1, 2, 8)},
				Inputs: []opspec.Input{{Name: "input", Dims: []string{"R", "N"}}},
				Outputs: []opspec.Output{
					{Name: "values", Dims: []string{"R", "k"}}, indices("int64", "int32"),
				},
			},
			ref: (*call).topk,
		},
		{
			Name: "moe_routing", Family: "index", Doc: "softmax over experts, then the k greatest and their indexes",
			Contract: "softmax as there; experts whose probabilities differ by less than their errors in any order; " +
				"rows with a non-finite logit undetermined; int32 or int64 indexes",
			Schema: &opspec.Schema{
				Dims:   []opspec.Dim{dim("R", true, 1, 3, 64), dim("E", false, 8, 16, 60, 128)},
				DTypes: plainFloats(), Relations: []string{"k >= 1", "k <= E"},
				Attrs: []opspec.Attr{
					k(2, 1, 8),
					{Name: "renormalize", Kind: opspec.Bool, Values: []any{false, true}, Doc: "weights of a row sum to one"},
				},
				Inputs: []opspec.Input{{Name: "logits", Dims: []string{"R", "E"}, // whose weights shall not all be 0 or alike
					Rare: []string{"boundary", "cancelling", "near_eps"}}},
				Outputs: []opspec.Output{
					{Name: "weights", Dims: []string{"R", "k"}}, indices("int32", "int64"),
				},
			},
			ref: (*call).moeRouting,
		},
	}
}

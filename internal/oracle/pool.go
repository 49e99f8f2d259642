// This file implements pooling.

package oracle

import (
	"math"

	"gpuemu/internal/opspec"
)

// pool calls f with the elements of every window, in order; windows are cut at the border.
func (c *call) pool(f func(window []float64, size int) num) {
	x, out := c.data("input"), c.out("output")
	h, w, oh, ow := c.dim("H"), c.dim("W"), c.dim("OH"), c.dim("OW")
	k, stride, pad := c.attrs.Int("kernel"), c.attrs.Int("stride"), c.attrs.Int("padding")
	parallel(len(out.Value), 16*k*k, func(lo, hi int) {
		window := make([]float64, 0, min(k, h)*min(k, w))
		for i := lo; i < hi; i++ {
			plane := x[i/(oh*ow)*h*w:]
			y0, x0 := i/ow%oh*stride-pad, i%ow*stride-pad
			window = window[:0]
			for y := max(0, y0); y < min(h, y0+k); y++ {
				window = append(window, plane[y*w+max(0, x0):y*w+min(w, x0+k)]...)
			}
			out.set(i, f(window, k*k))
		}
	})
}

func poolOps() []*Op {
	op := func(
		name, doc, contract string, f func(c *call, window []float64, size int) num, attrs ...opspec.Attr,
	) *Op {
		return &Op{
			Name: name, Family: "pool", Doc: doc, Contract: contract,
			Schema: &opspec.Schema{
				Dims: []opspec.Dim{
					{Name: "B", Candidates: []int{1, 2}, Empty: true},
					{Name: "C", Candidates: []int{1, 3, 8}, Min: 1},
					{Name: "H", Candidates: []int{4, 8, 15, 33}, Min: 1, Tile: 16},
					{Name: "W", Candidates: []int{4, 9, 16, 31}, Min: 1, Tile: 16},
					{Name: "OH", Expr: "(H+2*padding-kernel)/stride+1"},
					{Name: "OW", Expr: "(W+2*padding-kernel)/stride+1"},
				},
				Relations: []string{
					"kernel >= 1", "kernel <= 65536", "stride >= 1", "padding >= 0", "padding*2 <= kernel", "H+2*padding >= kernel",
					"W+2*padding >= kernel",
				},
				DTypes: plainFloats(),
				Attrs: append([]opspec.Attr{
					{Name: "kernel", Kind: opspec.Int, Values: []any{2, 3}, Doc: "size of the window"},
					{Name: "stride", Kind: opspec.Int, Values: []any{2, 1, 3}, Doc: "step of the window"},
					{Name: "padding", Kind: opspec.Int, Values: []any{0, 1}, Doc: "border added on each side"},
				}, attrs...),
				Inputs:  []opspec.Input{{Name: "input", Dims: []string{"B", "C", "H", "W"}}},
				Outputs: []opspec.Output{{Name: "output", Dims: []string{"B", "C", "OH", "OW"}}},
			},
			ref: func(c *call) error {
				c.pool(func(window []float64, size int) num { return f(c, window, size) })
				return nil
			},
		}
	}
	return []*Op{
		op("max_pool2d", "maximum of each window; NaN propagates", selection,
			func(c *call, window []float64, _ int) num {
				if len(window) == 0 {
					return exact(math.Inf(-1)) // a window wholly in the border
				}
				return c.maxRow(window)
			}),
		op("avg_pool2d",
			"sum of each window over kernel squared, the border counted as zeros, or over its elements inside the image",
			"float32 accumulation (float64 for float64) in any order; division or product by the reciprocal",
			func(c *call, window []float64, size int) num {
				if !c.attrs.Bool("count_include_pad") {
					size = len(window) // not 0: no window lies in the border, which is at most half of it
				}
				return c.mean(c.sumRow(window), size)
			},
			opspec.Attr{
				Name: "count_include_pad", Kind: opspec.Bool, Values: []any{true, false}, Fixed: true,
				Doc: "divide by kernel squared everywhere; false: by the number of elements inside the image",
			}),
	}
}

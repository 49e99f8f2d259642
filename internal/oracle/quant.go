// This file implements quantisation and its inverse.

package oracle

import (
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
)

// leastAbsmax keeps the scale of an all-zero block away from zero.
const leastAbsmax = 1e-10

// A granularity says which elements share a scale: blocks of a row-major tensor of rows of width w.
type granularity struct {
	name, doc string
	scaleDims []string
	attrs     []opspec.Attr
	relations []string
	// block returns the number of the block that element i belongs to.
	block func(c *call, i int) int
}

func granularities() []granularity {
	group := opspec.Attr{
		Name: "group", Kind: opspec.Int, Values: []any{32, 64, 128}, Doc: "elements of a row that share a scale",
	}
	return []granularity{
		{"tensor", "one scale for all", []string{"1"}, nil, nil, func(*call, int) int { return 0 }},
		{"row", "a scale a row", []string{"R"}, nil, nil, func(c *call, i int) int { return i / c.dim("C") }},
		{
			"group", "a scale for each group of a row, the last one possibly shorter", []string{"R", "(C+group-1)/group"},
			[]opspec.Attr{group}, []string{"group >= 1"},
			func(c *call, i int) int {
				w, g := c.dim("C"), c.attrs.Int("group")
				return i/w*((w+g-1)/g) + i%w/g
			},
		},
	}
}

// scales returns max(absmax, 1e-10)/top for each block, as a division or a product by 1/top, and stores them.
func (c *call) scales(g granularity, x []float64, top float64) []num {
	out := c.out("scale")
	peak := make([]float64, len(out.Value))
	for i, v := range x {
		b := g.block(c, i)
		peak[b] = math.Max(peak[b], abs(v))
	}
	s := make([]num, len(peak))
	for b, p := range peak {
		m := c.max2(c.input(p), c.constant(leastAbsmax))
		s[b] = either(c.div(m, exact(top)), c.scale(m, 1/top))
		out.set(b, s[b])
		// A kernel divides by the scale it keeps or by the one it stores, which is a float32.
		s[b].e += dtype.Float32.HalfULP(abs(s[b].v) + s[b].e)
	}
	return s
}

// quotient returns x/s, by division or by the rounded reciprocal.
func (c *call) quotient(x, s num) num { return either(c.div(x, s), c.mul(x, c.div(exact(1), s))) }

// quantize: the rounded quotient is exact unless the quotient lies within its own error of a tie, where both
// neighbours are right.
func (c *call) quantize(g granularity) error {
	const top = 127
	x, q := c.data("input"), c.out("q")
	s := c.scales(g, x, top)
	parallel(len(x), 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			y := c.quotient(c.input(x[i]), s[g.block(c, i)])
			if !y.clean() {
				q.mark(i)
				continue
			}
			q.Value[i] = math.Max(-top, math.Min(top, math.RoundToEven(y.v)))
			if math.Abs(math.Abs(y.v-math.Trunc(y.v))-0.5) <= y.e {
				q.Bound[i] = math.Max(1, math.Floor(y.e+0.5)) // a narrow type may miss by more than one
			}
		}
	})
	return nil
}

func (c *call) quantizeFP8(g granularity) error {
	x, q := c.data("input"), c.out("q")
	s := c.scales(g, x, dtype.Float8E4M3FN.MaxFinite())
	parallel(len(x), 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			q.set(i, c.quotient(c.input(x[i]), s[g.block(c, i)]))
		}
	})
	return nil
}

// maxQuotient is the magnitude from which on a rounded quotient does not fit the int32 that kernels convert it to.
const maxQuotient = 1 << 31

// quantizeStatic: round(x/s)+z within the range of q. Next to a tie both neighbors are correct; the zero point may be
// added in the accumulation type before the quotient is rounded, which moves ties by the rounding of that sum.
func (c *call) quantizeStatic(g granularity) error {
	x, s, z, q := c.data("input"), c.data("scale"), c.data("zero_point"), c.out("q")
	low, high := q.DType.Float64(q.DType.Bits(math.Inf(-1))), q.DType.Float64(q.DType.Bits(math.Inf(1)))
	clamp := func(v float64) float64 { return math.Max(low, math.Min(high, v)) }
	parallel(len(x), 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			b := g.block(c, i)
			y := c.quotient(c.input(x[i]), c.input(s[b]))
			q.Value[i] = clamp(math.RoundToEven(y.v) + z[b])
			if !y.clean() || abs(y.v)+y.e >= maxQuotient {
				q.mark(i)
				continue
			}
			e := math.Max(y.e, c.add(y, exact(z[b])).e)
			// The candidates are the integers next to y within its error; beyond the range all of them are its limit.
			q.Bound[i] = math.Max(
				abs(clamp(math.Floor(y.v+0.5+e)+z[b])-q.Value[i]), abs(clamp(math.Ceil(y.v-0.5-e)+z[b])-q.Value[i]))
		}
	})
	return nil
}

func (c *call) dequantizeAffine(g granularity) error {
	q, s, z, out := c.data("q"), c.data("scale"), c.data("zero_point"), c.out("output")
	parallel(len(q), 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			b := g.block(c, i)
			out.set(i, c.mul(exact(q[i]-z[b]), c.input(s[b])))
		}
	})
	return nil
}

func (c *call) dequantize(g granularity) error {
	q, s, out := c.data("q"), c.data("scale"), c.out("output")
	parallel(len(q), 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			out.set(i, c.mul(exact(q[i]), c.input(s[g.block(c, i)])))
		}
	})
	return nil
}

func quantOps() []*Op {
	const contract = "scale and quotient in float32 (float64 for float64), by division or reciprocal; "
	dims := func() []opspec.Dim {
		return []opspec.Dim{
			{Name: "R", Candidates: []int{1, 3, 16, 64}, Min: 1},
			{Name: "C", Candidates: []int{1, 31, 64, 128, 200, 257}, Min: 1, Tile: 128, Reduced: true},
		}
	}
	rc := func() []string { return []string{"R", "C"} }
	quantize := func(name, doc, d, contract string, g granularity, ref func(c *call, g granularity) error) *Op {
		return &Op{
			Name: name, Family: "quant", Doc: doc, Contract: contract,
			Schema: &opspec.Schema{
				Dims: dims(), DTypes: plainFloats(), Attrs: g.attrs, Relations: g.relations,
				Inputs: []opspec.Input{{Name: "input", Dims: rc(), Domain: opspec.Domain{Finite: true}}},
				Outputs: []opspec.Output{
					{Name: "q", Dims: rc(), DType: d, Saturate: true}, {Name: "scale", Dims: g.scaleDims, DType: "float32"},
				},
			},
			ref: func(c *call) error { return ref(c, g) },
		}
	}
	var ops []*Op
	all := granularities()
	for _, g := range all {
		ops = append(ops, quantize("quantize_"+g.name, "round(x / scale) to int8, scale = max(absmax, 1e-10)/127, "+g.doc,
			"int8", contract+"either neighbour next to a tie", g, (*call).quantize))
	}
	ops = append(ops, quantize("quantize_fp8_row",
		"x / scale to float8_e4m3fn, scale = max(absmax, 1e-10)/448, "+all[1].doc,
		"float8_e4m3fn", contract+"saturating conversion", all[1], (*call).quantizeFP8))
	for _, g := range all {
		ops = append(ops, &Op{
			Name: "dequantize_" + g.name, Family: "quant", Doc: "q scale, " + g.doc,
			Contract: "one product in float32 (float64 for float64), one rounding to the output type",
			Schema: &opspec.Schema{
				Dims: dims(), DTypes: plainFloats(), Attrs: g.attrs, Relations: g.relations,
				Inputs: []opspec.Input{
					{Name: "q", Dims: rc(), DType: "int8"},
					{
						Name: "scale", Dims: g.scaleDims, DType: "float32", Role: opspec.RoleScale,
						Domain: opspec.Domain{Finite: true},
					},
				},
				Outputs: []opspec.Output{{Name: "output", Dims: rc()}},
			},
			ref: func(c *call) error { return c.dequantize(g) },
		})
	}
	return append(ops, affineOps(dims, rc)...)
}

// affineOps are the operators whose scale and zero point are given, with a scale a tensor and a scale a row.
func affineOps(dims func() []opspec.Dim, rc func() []string) []*Op {
	qdtype := opspec.Attr{
		Name: "qdtype", Kind: opspec.String, Values: []any{"int8", "uint8"}, Fixed: true, Doc: "type of q and of zero_point",
	}
	const quantized = opspec.AttrDType + "qdtype"
	alias := map[string]string{"tensor": "_per_tensor", "row": "_per_channel"}
	var ops []*Op
	for _, g := range granularities()[:2] {
		params := []opspec.Input{
			{
				Name: "scale", Dims: g.scaleDims, DType: "float32", Role: opspec.RoleScale, Domain: opspec.Domain{Finite: true},
			},
			{Name: "zero_point", Dims: g.scaleDims, DType: quantized},
		}
		ops = append(ops, &Op{
			Name: "quantize_static_" + g.name, Aliases: []string{"quantize" + alias[g.name]}, Family: "quant",
			Doc: "round(x / scale) + zero_point within the range of qdtype, " + g.doc,
			Contract: "quotient in float32 (float64 for float64), by division or reciprocal; zero point added before or " +
				"after rounding; either neighbor next to a tie; quotients from 2^31 on undetermined",
			Schema: &opspec.Schema{
				Dims: dims(), DTypes: plainFloats(), Attrs: []opspec.Attr{qdtype},
				Inputs:  append([]opspec.Input{{Name: "input", Dims: rc(), Domain: opspec.Domain{Finite: true}}}, params...),
				Outputs: []opspec.Output{{Name: "q", Dims: rc(), DType: quantized, Saturate: true}},
			},
			ref: func(c *call) error { return c.quantizeStatic(g) },
		}, &Op{
			Name: "dequantize_affine_" + g.name, Aliases: []string{"dequantize" + alias[g.name]}, Family: "quant",
			Doc: "(q - zero_point) scale, " + g.doc,
			Contract: "exact difference of integers, one product in float32 (float64 for float64), one rounding to the " +
				"output type",
			Schema: &opspec.Schema{
				Dims: dims(), DTypes: plainFloats(), Attrs: []opspec.Attr{qdtype},
				Inputs:  append([]opspec.Input{{Name: "q", Dims: rc(), DType: quantized}}, params...),
				Outputs: []opspec.Output{{Name: "output", Dims: rc()}},
			},
			ref: func(c *call) error { return c.dequantizeAffine(g) },
		})
	}
	return ops
}

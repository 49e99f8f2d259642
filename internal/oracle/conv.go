// This file implements convolutions.

package oracle

import (
	"slices"

	"gpuemu/internal/opspec"
)

// A conv is a two-dimensional convolution; one dimension is the case h = kh = 1.
type conv struct {
	ci, h, w        int // input channels (of a group) and size
	co, kh, kw      int // output channels (of a group) and taps
	oh, ow          int
	stride          int
	padH, padW, dil int
	block           int // output positions computed at once
}

// blockElems is how many elements of an intermediate matrix are held at once, and leastBlock its fewest rows.
// Padding and long sequences make such matrices far larger than the tensors they come from.
const (
	blockElems = 1 << 20
	leastBlock = 16
)

// blockRows returns how many rows of a matrix of that width are computed at once.
func blockRows(width int) int { return max(leastBlock, blockElems/max(1, width)) }

func (g *conv) taps() int { return g.ci * g.kh * g.kw }

// tap returns the offset in the input of tap t at output o, and whether it lies inside.
func (g *conv) tap(o, t int) (int, bool) {
	ch, y, x := t/(g.kh*g.kw), t/g.kw%g.kh, t%g.kw
	iy := o/g.ow*g.stride + y*g.dil - g.padH
	ix := o%g.ow*g.stride + x*g.dil - g.padW
	return (ch*g.h+iy)*g.w + ix, iy >= 0 && iy < g.h && ix >= 0 && ix < g.w
}

// columns fills cols with the input as a matrix: a row for each output position from first on, its taps in order, zero
// outside.
func (g *conv) columns(cols, x []float64, first int) {
	k := g.taps()
	for i := range cols {
		cols[i] = 0
		if at, ok := g.tap(first+i/k, i%k); ok {
			cols[i] = x[at]
		}
	}
}

// convolve fills out[at:] with weight * x + bias for one image and one group. The sum is a dot product of all taps;
// taps outside the image add exact zeros.
func (c *call) convolve(out *result, at int, g *conv, x, weight, bias []float64) {
	n, k := g.oh*g.ow, g.taps()
	shape := dotShape{m: g.co, k: k, transB: true, tensorCore: c.tensorCore(), bias: largest(finitePart(bias))}
	filters := c.inputs(weight)
	skip := (g.padH > 0 || g.padW > 0) && !allFinite(weight)
	buf := make([]float64, min(n, g.block)*k)
	for first := 0; first < n; first += g.block {
		shape.n = min(g.block, n-first)
		cols := buf[:shape.n*k]
		g.columns(cols, x, first)
		p := c.dots(filters, c.inputs(cols), shape)
		for i := range p.v {
			ch, o := i/shape.n, first+i%shape.n
			y := p.at(i)
			if skip {
				y = c.padded(y, g, x, weight[ch*k:(ch+1)*k], o)
			}
			out.set(at+ch*n+o, p.biased(&c.arith, i, c.cast(y), c.input(bias[ch]), shape))
		}
	}
}

// padded returns an output of a filter with non-finite weights: taps outside may be left out, or multiplied by zero,
// which makes NaN.
func (c *call) padded(whole num, g *conv, x, filter []float64, o int) num {
	var s sum
	meets := false
	for t, w := range filter {
		at, ok := g.tap(o, t)
		if ok {
			s.add(c.mul(c.operand(c.input(x[at])), c.operand(c.input(w))))
		} else {
			meets = meets || w-w != 0
		}
	}
	if !meets {
		return whole
	}
	y := s.total(&c.arith)
	if y.v == y.v {
		y.w |= clsNaN
	}
	return y
}

// convAll runs a convolution over the batch and, for depthwise ones, over groups of one input channel.
func (c *call) convAll(g conv, images, groups int) error {
	x, weight, bias, out := c.data("input"), c.data("weight"), c.data("bias"), c.out("output")
	in, filters, result := g.ci*g.h*g.w, g.co*g.taps(), g.co*g.oh*g.ow
	g.block = blockRows(max(g.taps(), g.co))
	parallel(images*groups, 32*result*g.taps(), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k := i % groups
			c.convolve(out, i*result, &g, x[i*in:(i+1)*in], weight[k*filters:(k+1)*filters], bias[k*g.co:(k+1)*g.co])
		}
	})
	return nil
}

func (c *call) conv1d() error {
	g := conv{
		ci: c.dim("CI"), h: 1, w: c.dim("L"), co: c.dim("CO"), kh: 1, kw: c.dim("KW"), oh: 1, ow: c.dim("LO"),
		stride: c.attrs.Int("stride"), padW: c.attrs.Int("padding"), dil: c.attrs.Int("dilation"),
	}
	return c.convAll(g, c.dim("B"), 1)
}

func (c *call) conv2d() error {
	return c.convAll(c.conv2dShape(c.dim("CI"), c.dim("CO")), c.dim("B"), 1)
}

func (c *call) depthwiseConv2d() error {
	return c.convAll(c.conv2dShape(1, c.attrs.Int("multiplier")), c.dim("B"), c.dim("C"))
}

func (c *call) conv2dShape(ci, co int) conv {
	pad := c.attrs.Int("padding")
	return conv{
		ci: ci, h: c.dim("H"), w: c.dim("W"), co: co, kh: c.dim("KH"), kw: c.dim("KW"), oh: c.dim("OH"), ow: c.dim("OW"),
		stride: c.attrs.Int("stride"), padH: pad, padW: pad, dil: c.attrs.Int("dilation"),
	}
}

// slidingDim returns the derived size of an axis of size in under taps k.
func slidingDim(out, in, k string) opspec.Dim {
	return opspec.Dim{Name: out, Expr: "(" + in + "+2*padding-dilation*(" + k + "-1)-1)/stride+1"}
}

// slidingFits is the relation that leaves at least one position.
func slidingFits(in, k string) string { return in + "+2*padding >= dilation*(" + k + "-1)+1" }

func convOps() []*Op {
	const contract = "float32 accumulation (float64 for float64) in any order, tensor cores for 16-bit inputs; no " +
		"Winograd or FFT transforms; the sum may be rounded to the output type before the bias; taps outside the image " +
		"skipped or multiplied by zero"
	attrs := []opspec.Attr{
		{Name: "stride", Kind: opspec.Int, Values: []any{1, 2, 3}, Doc: "step of the window"},
		{Name: "padding", Kind: opspec.Int, Values: []any{0, 1, 2}, Doc: "zeros added on each side"},
		{Name: "dilation", Kind: opspec.Int, Values: []any{1, 2}, Doc: "distance of the taps"},
	}
	positive := []string{"stride >= 1", "padding >= 0", "dilation >= 1"}
	dim := func(name string, candidates ...int) opspec.Dim {
		return opspec.Dim{Name: name, Candidates: candidates, Min: 1, Max: 64}
	}
	batch := opspec.Dim{Name: "B", Candidates: []int{1, 2}, Max: 8, Empty: true}
	image := []opspec.Dim{dim("H", 5, 8, 16, 17), dim("W", 5, 9, 16, 19, 64), dim("KH", 1, 3, 5), dim("KW", 1, 3, 2)}
	sliding := []opspec.Dim{slidingDim("OH", "H", "KH"), slidingDim("OW", "W", "KW")}
	fits := append([]string{slidingFits("H", "KH"), slidingFits("W", "KW")}, positive...)
	op := func(name, doc string, s *opspec.Schema, ref func(c *call) error) *Op {
		s.Attrs, s.DTypes = append(slices.Clone(attrs), s.Attrs...), plainFloats()
		return &Op{Name: name, Family: "conv", Doc: doc, Contract: contract, Schema: s, ref: ref}
	}
	in := func(name string, role opspec.Role, dims ...string) opspec.Input {
		return opspec.Input{Name: name, Dims: dims, Role: role}
	}
	out := func(dims ...string) []opspec.Output { return []opspec.Output{{Name: "output", Dims: dims}} }
	join := func(parts ...[]opspec.Dim) (all []opspec.Dim) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	return []*Op{
		op("conv1d", "cross-correlation over one axis plus bias", &opspec.Schema{
			Dims: []opspec.Dim{
				batch, dim("CI", 1, 3, 16), dim("L", 8, 16, 33, 64), dim("CO", 1, 4, 17), dim("KW", 1, 3, 5),
				slidingDim("LO", "L", "KW"),
			},
			Relations: append([]string{slidingFits("L", "KW")}, positive...),
			Inputs: []opspec.Input{
				in("input", opspec.RoleData, "B", "CI", "L"), in("weight", opspec.RoleWeight, "CO", "CI", "KW"),
				in("bias", opspec.RoleWeight, "CO"),
			},
			Outputs: out("B", "CO", "LO"),
		}, (*call).conv1d),
		op("conv2d", "cross-correlation over two axes plus bias", &opspec.Schema{
			Dims:      join([]opspec.Dim{batch, dim("CI", 1, 3, 8)}, image, []opspec.Dim{dim("CO", 1, 4, 9)}, sliding),
			Relations: fits,
			Inputs: []opspec.Input{
				in("input", opspec.RoleData, "B", "CI", "H", "W"), in("weight", opspec.RoleWeight, "CO", "CI", "KH", "KW"),
				in("bias", opspec.RoleWeight, "CO"),
			},
			Outputs: out("B", "CO", "OH", "OW"),
		}, (*call).conv2d),
		op("depthwise_conv2d", "cross-correlation over two axes plus bias, each channel on its own; multiplier filters a "+
			"channel, those of a channel side by side", &opspec.Schema{
			Dims:      join([]opspec.Dim{batch, dim("C", 1, 3, 8)}, image, sliding),
			Relations: append([]string{"multiplier >= 1"}, fits...),
			Attrs: []opspec.Attr{{
				Name: "multiplier", Kind: opspec.Int, Values: []any{1, 2, 3}, Fixed: true, Doc: "output channels per input channel",
			}},
			Inputs: []opspec.Input{
				in("input", opspec.RoleData, "B", "C", "H", "W"),
				in("weight", opspec.RoleWeight, "C*multiplier", "1", "KH", "KW"), in("bias", opspec.RoleWeight, "C*multiplier"),
			},
			Outputs: out("B", "C*multiplier", "OH", "OW"),
		}, (*call).depthwiseConv2d),
	}
}

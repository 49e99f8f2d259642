// This file implements the normalisations.

package oracle

import (
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
)

// affine applies weight and bias to a normalised value, which an implementation may have rounded to the type of
// the case before.
func (c *call) affine(x, w, b num) num { return c.add(c.mul(c.cast(x), w), b) }

// folded returns y = (x-μ)·s + b as x·s + (b - μ·s), the form with one multiply-add per element.
//
// An implementation takes the same s in both products, so its error counts once, with x-μ, and so does that of μ; what
// is relative to |x·s| and |μ·s| is only the roundings of the two products and of the difference:
//
//	|ŷ - y| <= |x-μ|·e(s) + (e(x)+e(μ))·(|s|+e(s)) + e(b) + u·(|x·s| + 2|μ·s| + |b| + |y|), all magnitudes with errors.
//
// Where something is or may become infinite, the operations are followed one by one: they have the classes.
func (c *call) folded(y float64, x, mean, s, b num) num {
	if x.w|mean.w|s.w|b.w == 0 && c.store == dtype.Invalid {
		if e := c.foldedError(y, x, mean, s, b); e < noBound {
			return num{v: y, e: e}
		}
	}
	return c.add(c.mul(x, s), c.sub(b, c.mul(mean, s)))
}

// foldedError returns the error of folded for finite values; noBound or more where a product may overflow.
func (m *arith) foldedError(y float64, x, mean, s, b num) float64 {
	scale := abs(s.v) + s.e
	products := float64((abs(x.v)+x.e)*scale) + float64(2*float64((abs(mean.v)+mean.e)*scale))
	all := products + abs(b.v) + b.e
	e := float64(abs(x.v-mean.v)*s.e) + float64((x.e+mean.e)*scale) + b.e
	e += float64(m.u*float64((1+float64(4*m.u))*(all+abs(y)+e))) + float64(4*m.tiny)
	if !(float64(2*(all+e)) < m.limit) {
		return math.Inf(1)
	}
	return e
}

// either returns a value that may have been computed in two ways.
func either(a, b num) num {
	if a.v-a.v != 0 {
		a.w |= b.w | classOf(b.v)&^classOf(a.v)
		return a
	}
	a.w |= b.w | classOf(b.v)&^clsFinite
	if b.v-b.v == 0 {
		a.e = math.Max(a.e, b.e+abs(a.v-b.v))
	}
	return a
}

// normalised returns (x-μ)·rstd·w+b in any association, or folded. Low is the part of μ below the last bit of mean.
func (c *call) normalised(x, mean num, low float64, rstd, w, b num) num {
	d := c.sub(x, mean)
	d.v -= low
	plain := c.affine(c.mul(d, rstd), w, b)
	late := c.add(c.mul(c.mul(d, w), rstd), b)
	return either(either(plain, late), c.folded(plain.v, x, mean, c.mul(rstd, w), b))
}

// invStd returns 1/√(variance+eps). No implementation holds a negative variance, so the sum is not below eps.
func (c *call) invStd(variance num) num {
	eps := c.attrs.Float("eps")
	return c.rsqrtLeast(c.add(variance, c.constant(eps)), float64(eps*(1-float64(4*c.u))))
}

// moments are what a row is normalised with.
type moments struct {
	mean, rstd num
	low        float64 // part of the exact mean below the last bit of its value
}

// standardise fills out[at:at+len(x)] with (x-μ)·rstd·w+b. wb gives weight and bias of element i. Where the contract
// says so the moments may have been rounded to the type of the case.
func (c *call) standardise(out *result, at int, x []float64, wb func(i int) (w, b num)) {
	d := c.deviationsRow(x)
	variance := c.mean(d.square, len(x))
	mean, rstd := d.mean, c.invStd(variance)
	if c.attrs.Str("moments") == "output" {
		mean, rstd = c.cast(mean), c.cast(rstd)
	}
	c.normalise(out, at, x, moments{mean, rstd, d.low}, wb)
}

func (c *call) layernorm() error {
	w, b, out := c.data("weight"), c.data("bias"), c.out("output")
	width := c.dim("H")
	out.Unit = width
	c.rows("input", width, func(r int, x []float64) {
		c.standardise(out, r*width, x, func(i int) (num, num) { return c.input(w[i]), c.input(b[i]) })
	})
	return nil
}

func (c *call) groupnorm() error {
	w, b, x, out := c.data("weight"), c.data("bias"), c.data("input"), c.out("output")
	length, groups := c.dim("L"), c.attrs.Int("groups")
	channels := c.dim("C") / groups
	width := channels * length
	if width == 0 {
		return nil
	}
	out.Unit = width
	parallel(len(x)/width, 64*width, func(lo, hi int) {
		for g := lo; g < hi; g++ {
			first := g % groups * channels
			c.standardise(out, g*width, x[g*width:(g+1)*width], func(i int) (num, num) {
				ch := first + i/length
				return c.input(w[ch]), c.input(b[ch])
			})
		}
	})
	return nil
}

func (c *call) batchnorm() error {
	x, out := c.data("input"), c.out("output")
	mean, variance, w, b := c.data("mean"), c.data("var"), c.data("weight"), c.data("bias")
	length, channels := c.dim("L"), c.dim("C")
	parallel(channels, 64*len(x)/max(1, channels), func(lo, hi int) {
		for ch := lo; ch < hi; ch++ {
			mu, bias, weight := c.input(mean[ch]), c.input(b[ch]), c.input(w[ch])
			rstd := c.invStd(c.input(variance[ch]))
			for at := ch * length; at < len(x); at += channels * length {
				for i := at; i < at+length; i++ {
					out.set(i, c.normalised(c.input(x[i]), mu, 0, rstd, weight, bias))
				}
			}
		}
	})
	return nil
}

// squares returns Σx², a plain sum of squares: each term has one rounding, the sum any order.
func (m *arith) squares(x []float64) num {
	var s sum
	for _, v := range x {
		in := m.input(v)
		s.add(m.mul(in, in))
	}
	return s.total(m)
}

// scaled returns x·rstd·w in any association.
func (c *call) scaled(x, rstd, w num) num {
	plain := c.mul(c.cast(c.mul(x, rstd)), w)
	return either(plain, either(c.mul(x, c.mul(rstd, w)), c.mul(c.mul(x, w), rstd)))
}

func (c *call) rmsnorm() error {
	w, out, width := c.data("weight"), c.out("output"), c.dim("H")
	out.Unit = width
	c.rows("input", width, func(r int, x []float64) {
		rstd := c.invStd(c.mean(c.squares(x), width))
		for i, v := range x {
			out.set(r*width+i, c.scaled(c.input(v), rstd, c.input(w[i])))
		}
	})
	return nil
}

func (c *call) l2norm() error {
	out, width := c.out("output"), c.dim("H")
	out.Unit = width
	eps := c.constant(c.attrs.Float("eps"))
	c.rows("input", width, func(r int, x []float64) {
		norm := c.max2(c.sqrt(c.squares(x)), eps)
		for i, v := range x {
			out.set(r*width+i, c.divLeast(c.input(v), norm, eps.v-float64(2*eps.e)))
		}
	})
	return nil
}

// centred is an input whose mean is subtracted: what a variance loses shows on rows far from zero alone.
func centred(name string, dims ...string) opspec.Input {
	return opspec.Input{Name: name, Dims: dims, Often: []string{"offset"}}
}

func normOps() []*Op {
	const squares = "plain sum of squares in float32 (float64 for float64), any order"
	const moments = "mean and variance by two passes or Welford's updates in float32 (float64 for float64), any order; " +
		"in any association or folded to x s + t; "
	const cast = "the normalised value may be rounded to the output type before the weight"
	weight := func(name string, dims ...string) opspec.Input {
		return opspec.Input{Name: name, Dims: dims, Role: opspec.RoleWeight}
	}
	channelDims := func() []opspec.Dim {
		return []opspec.Dim{
			{Name: "N", Candidates: []int{1, 2, 5}, Empty: true},
			{Name: "C", Candidates: []int{4, 8, 12, 32, 64}, Min: 1},
			{Name: "L", Candidates: []int{1, 9, 64, 257}, Min: 1, Tile: 128, Reduced: true},
		}
	}
	ncl := func() []string { return []string{"N", "C", "L"} }
	output := func(dims []string) []opspec.Output { return []opspec.Output{{Name: "output", Dims: dims}} }
	bshInput := opspec.Input{Name: "input", Dims: bsh()}
	wide := bshDims() // a row of one element is its sign times the weight, whatever the kernel divides by
	wide[2].Candidates = append([]int{2}, wide[2].Candidates[1:]...)
	variance := weight("var", "C")
	variance.Domain = opspec.Domain{Min: 0, Max: math.Inf(1), Finite: true}
	return []*Op{
		{
			Name: "layernorm", Aliases: []string{"layer_norm"}, Family: "norm",
			Doc: "(x - mean) / sqrt(var + eps) weight + bias over the last axis, biased variance", Contract: moments + cast,
			Schema: &opspec.Schema{
				Dims: bshDims(), DTypes: plainFloats(), Outputs: output(bsh()),
				Attrs:  []opspec.Attr{floatAttr("eps", "added to the variance", 1e-5)},
				Inputs: []opspec.Input{centred("input", bsh()...), weight("weight", "H"), weight("bias", "H")},
			},
			ref: (*call).layernorm,
		},
		{
			Name: "rmsnorm", Aliases: []string{"rms_norm"}, Family: "norm",
			Doc:      "x / sqrt(mean(x^2) + eps) weight over the last axis",
			Contract: squares + "; in any association; " + cast,
			Schema: &opspec.Schema{
				Dims: wide, DTypes: plainFloats(), Outputs: output(bsh()),
				Attrs:  []opspec.Attr{floatAttr("eps", "added to the mean square", 1e-6, 1e-5)},
				Inputs: []opspec.Input{bshInput, weight("weight", "H")},
			},
			ref: (*call).rmsnorm,
		},
		{
			Name: "groupnorm", Aliases: []string{"group_norm"}, Family: "norm",
			Doc:      "(x - mean) / sqrt(var + eps) weight + bias, moments over each group of channels",
			Contract: moments + cast,
			Schema: &opspec.Schema{
				Dims: channelDims(), DTypes: plainFloats(), Outputs: output(ncl()),
				Relations: []string{"groups >= 1", "C % groups == 0"},
				Attrs: []opspec.Attr{
					{Name: "groups", Kind: opspec.Int, Values: []any{2, 1, 4}, Doc: "number of groups of channels"},
					floatAttr("eps", "added to the variance", 1e-5),
					{
						Name: "moments", Kind: opspec.String, Values: []any{"output", "acc"}, Fixed: true,
						Doc: "output: mean and 1/std may be rounded to the type of the case, as PyTorch's kernel keeps them; acc: not",
					},
				},
				Inputs: []opspec.Input{centred("input", ncl()...), weight("weight", "C"), weight("bias", "C")},
			},
			ref: (*call).groupnorm,
		},
		{
			Name: "l2norm", Aliases: []string{"l2_normalize"}, Family: "norm",
			Doc:      "x / max(sqrt(sum(x^2)), eps) over the last axis",
			Contract: squares + "; one rounding to the output type",
			Schema:   rowwise([]opspec.Attr{floatAttr("eps", "least norm", 1e-12)}, output(bsh())...),
			ref:      (*call).l2norm,
		},
		{
			Name: "batchnorm", Aliases: []string{"batch_norm"}, Family: "norm",
			Doc:      "(x - mean) / sqrt(var + eps) weight + bias with given moments (inference)",
			Contract: "float32 arithmetic (float64 for float64), in any association or folded to x s + t; " + cast,
			Schema: &opspec.Schema{
				Dims: channelDims(), DTypes: plainFloats(), Outputs: output(ncl()),
				Attrs: []opspec.Attr{floatAttr("eps", "added to the variance", 1e-5)},
				Inputs: []opspec.Input{
					{Name: "input", Dims: ncl()}, weight("mean", "C"), variance, weight("weight", "C"), weight("bias", "C"),
				},
			},
			ref: (*call).batchnorm,
		},
	}
}

// This file implements the gradients of operators that move data: by indexes, or by windows.

package gradient

// embeddingBack adds the gradients of all rows that were taken from a row of the table. Kernels with atomics add in
// the framework's own type.
func embeddingBack(c *call) error {
	d := c.dim("D")
	sums := make([]sum, len(c.out["table"]))
	for r, at := range c.index["index"] {
		for i, v := range row(c.g["output"], r, d) {
			sums[at*d+i].add(v)
		}
	}
	c.store("table", sums, c.work)
	return nil
}

// store ends the sums of one input.
func (c *call) store(name string, sums []sum, p prec) {
	for i := range sums {
		x := sums[i].total(p)
		if sums[i].n > 1 {
			x = c.kept(x)
		}
		c.out[name][i] = x
	}
}

func gatherBack(c *call) error {
	k, w := c.dim("K"), c.dim("C")
	sums := make([]sum, len(c.out["input"]))
	for i, at := range c.index["index"] {
		sums[i/k*w+at].add(c.g["output"][i])
	}
	c.store("input", sums, c.work)
	return nil
}

func scatterAddBack(c *call) error {
	d := c.dim("D")
	copy(c.out["input"], c.g["output"])
	for r, at := range c.index["index"] {
		copy(row(c.out["src"], r, d), row(c.g["output"], at, d))
	}
	return nil
}

// window is a convolution or pooling of one image and one group of channels; one dimension is the case h = kh = 1.
type window struct {
	ci, h, w        int
	co, kh, kw      int
	oh, ow          int
	stride          int
	padH, padW, dil int
}

// taps is how many inputs one output is made of.
func (g *window) taps() int { return g.ci * g.kh * g.kw }

// tap returns the offset in the input of tap t at output o, and whether it lies inside.
func (g *window) tap(o, t int) (int, bool) {
	ch, y, x := t/(g.kh*g.kw), t/g.kw%g.kh, t%g.kw
	iy := o/g.ow*g.stride + y*g.dil - g.padH
	ix := o%g.ow*g.stride + x*g.dil - g.padW
	return (ch*g.h+iy)*g.w + ix, iy >= 0 && iy < g.h && ix >= 0 && ix < g.w
}

// convBack: input and weight are sums over all places where they met, the bias over all outputs.
func (c *call) convBack(s *window, images, groups int) error {
	x, weight, g := c.in["input"], c.in["weight"], c.g["output"]
	dx, dw, db := make([]sum, len(x)), make([]sum, len(weight)), make([]sum, len(c.in["bias"]))
	k, n, in := s.taps(), s.oh*s.ow, s.ci*s.h*s.w
	for i := range images * groups {
		group := i % groups
		for ch := range s.co {
			filter, at := (group*s.co+ch)*k, (i*s.co+ch)*n
			for o, v := range g[at : at+n] {
				db[group*s.co+ch].add(v)
				for t := range k {
					if p, ok := s.tap(o, t); ok {
						dx[i*in+p].add(c.acc.mul(v, weight[filter+t]))
						dw[filter+t].add(c.acc.mul(v, x[i*in+p]))
					}
				}
			}
		}
	}
	c.store("input", dx, c.acc)
	c.store("weight", dw, c.acc)
	c.store("bias", db, c.acc)
	for _, name := range []string{"input", "weight"} { // a single product is rounded, too
		for i, v := range c.out[name] {
			c.out[name][i] = c.kept(v)
		}
	}
	return nil
}

func conv1dBack(c *call) error {
	s := window{
		ci: c.dim("CI"), h: 1, w: c.dim("L"), co: c.dim("CO"), kh: 1, kw: c.dim("KW"), oh: 1, ow: c.dim("LO"),
		stride: c.attrs.Int("stride"), padW: c.attrs.Int("padding"), dil: c.attrs.Int("dilation"),
	}
	return c.convBack(&s, c.dim("B"), 1)
}

func (c *call) window2d(ci, co int) window {
	pad := c.attrs.Int("padding")
	return window{
		ci: ci, h: c.dim("H"), w: c.dim("W"), co: co, kh: c.dim("KH"), kw: c.dim("KW"), oh: c.dim("OH"), ow: c.dim("OW"),
		stride: c.attrs.Int("stride"), padH: pad, padW: pad, dil: c.attrs.Int("dilation"),
	}
}

func conv2dBack(c *call) error {
	s := c.window2d(c.dim("CI"), c.dim("CO"))
	return c.convBack(&s, c.dim("B"), 1)
}

func depthwiseConv2dBack(c *call) error {
	s := c.window2d(1, c.attrs.Int("multiplier"))
	return c.convBack(&s, c.dim("B"), c.dim("C"))
}

// avgPoolBack gives each element of a window its share of the gradient: 1/kernel², or 1 over the number of elements
// inside the image. Kernels add the few shares in the framework's own type.
func avgPoolBack(c *call) error {
	kernel := c.attrs.Int("kernel")
	s := c.window2d(1, 1)
	s.kh, s.kw, s.dil = kernel, kernel, 1
	sums := make([]sum, len(c.in["input"]))
	n := s.oh * s.ow
	for i, v := range c.g["output"] {
		size := 0
		for t := range s.taps() {
			if _, ok := s.tap(i%n, t); ok || c.attrs.Bool("count_include_pad") {
				size++
			}
		}
		share := val{v: float64(size)}
		for t := range s.taps() {
			if p, ok := s.tap(i%n, t); ok {
				sums[i/n*s.h*s.w+p].add(c.work.div(v, share))
			}
		}
	}
	c.store("input", sums, c.work)
	return nil
}

// This file implements the convolutions as sums over the taps of a window.

package honest

// window is the geometry of a convolution: one axis of size 1 for conv1d.
type window struct {
	h, w, kh, kw            int
	strideH, strideW        int
	padH, padW, dilH, dilW  int
	outH, outW              int
	channels, groupChannels int // of the input; of the input that one output channel reads
}

// taps returns the input offsets of the window at (y, x) inside one group's channels, -1 where it lies in the padding.
func (g *window) taps(dst []int, y, x int) []int {
	dst = dst[:0]
	for c := range g.groupChannels {
		for i := range g.kh {
			for j := range g.kw {
				r, s := y*g.strideH-g.padH+i*g.dilH, x*g.strideW-g.padW+j*g.dilW
				at := -1
				if r >= 0 && r < g.h && s >= 0 && s < g.w {
					at = (c*g.h+r)*g.w + s
				}
				dst = append(dst, at)
			}
		}
	}
	return dst
}

// convolve computes all outputs. Taps in the padding are skipped, or multiplied as zeros (AltPad).
func (e *eval) convolve(a, weight, bias []float64, batch, co int, g window) {
	out := e.out("output", batch*co*g.outH*g.outW)
	if len(out) == 0 {
		return
	}
	size := g.groupChannels * g.kh * g.kw
	perGroup := co / (g.channels / g.groupChannels) // output channels that read the same input channels
	patch, used := e.scratch(6, size), e.scratch(7, size)
	idx := make([]int, 0, size)
	plane := g.outH * g.outW
	for p := range plane {
		idx = g.taps(idx, p/g.outW, p%g.outW)
		for b := range batch {
			for o := range co {
				group := o / perGroup
				x := a[(b*g.channels+group*g.groupChannels)*g.h*g.w:]
				w := weight[o*size : (o+1)*size]
				n := 0
				for t, at := range idx {
					switch {
					case at >= 0:
						patch[n], used[n] = x[at], w[t]
						n++
					case e.alt(AltPad):
						patch[n], used[n] = 0, w[t]
						n++
					}
				}
				out[(b*co+o)*plane+p] = e.biased(patch[:n], used[:n], bias[o])
			}
		}
	}
}

// biased is bias + x·w, with the bias as the start of the accumulator (AltFold) or added last, where the sum may have
// been rounded to the type of the case.
func (e *eval) biased(x, w []float64, bias float64) float64 {
	if e.alt(AltFold) {
		return e.DotFrom(bias, x, w, true)
	}
	return e.Add(e.round(e.Dot(x, w, true)), bias)
}

// geometry completes g from the attributes, which hold for both axes, and the output's shape.
func (e *eval) geometry(g window) (window, bool) {
	spec := e.call.Outputs["output"]
	if len(spec.Shape) != 4 && len(spec.Shape) != 3 {
		e.fail("output has shape %s", spec.Shape)
		return g, false
	}
	s, p, d := e.int("stride", 1), e.int("padding", 0), e.int("dilation", 1)
	g.strideW, g.padW, g.dilW = s, p, d
	g.outW = spec.Shape[len(spec.Shape)-1]
	g.strideH, g.dilH, g.outH = 1, 1, 1
	if len(spec.Shape) == 4 {
		g.strideH, g.padH, g.dilH, g.outH = s, p, d, spec.Shape[2]
	}
	return g, e.err == nil
}

func conv1d(e *eval) {
	a, _ := e.in("input", 3)
	w, ok := e.in("weight", 3)
	if !ok {
		return
	}
	co := w.Shape[0]
	bias := e.vector("bias", co)
	g, ok := e.geometry(window{h: 1, w: a.Shape[2], kh: 1, kw: w.Shape[2], channels: a.Shape[1],
		groupChannels: w.Shape[1]})
	if ok {
		e.convolve(a.X, w.X, bias, a.Shape[0], co, g)
	}
}

func conv2d(e *eval) {
	a, _ := e.in("input", 4)
	w, ok := e.in("weight", 4)
	if !ok {
		return
	}
	co := w.Shape[0]
	bias := e.vector("bias", co)
	g, ok := e.geometry(window{h: a.Shape[2], w: a.Shape[3], kh: w.Shape[2], kw: w.Shape[3], channels: a.Shape[1],
		groupChannels: w.Shape[1]})
	if ok {
		e.convolve(a.X, w.X, bias, a.Shape[0], co, g)
	}
}

// depthwiseConv2d is a convolution with one group per channel: its weight has one input channel.
func depthwiseConv2d(e *eval) { conv2d(e) }

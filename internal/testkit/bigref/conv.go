package bigref

// This file implements convolutions (cross-correlations) and pooling.

// window2d is how a filter moves over an image of height×width.
type window2d struct{ height, width, stride, padding, dilation int }

// place returns where tap (y, x) of the filter at output (i, j) reads, and whether that is inside the image.
func (w window2d) place(i, j, y, x int) (at int, inside bool) {
	r := i*w.stride - w.padding + y*w.dilation
	c := j*w.stride - w.padding + x*w.dilation
	return r*w.width + c, r >= 0 && r < w.height && c >= 0 && c < w.width
}

func (t *task) conv1d() {
	out := t.summed("output")
	in, weight, bias := t.in["input"], t.in["weight"], t.in["bias"].X
	channels, length := in.Shape[1], in.Shape[2]
	filters, taps := weight.Shape[0], weight.Shape[2]
	span := out.Shape[2]
	stride, padding, dilation := t.attrs.Int("stride"), t.attrs.Int("padding"), t.attrs.Int("dilation")
	for b := range in.Shape[0] {
		for f := range filters {
			for l := range span {
				sum := t.total()
				t.accumulate(sum, num(bias[f]))
				for c := range channels {
					for k := range taps {
						at := l*stride - padding + k*dilation
						if at < 0 || at >= length {
							continue
						}
						x, w := in.X[(b*channels+c)*length+at], weight.X[(f*channels+c)*taps+k]
						t.accumulate(sum, t.mul(num(x), num(w)))
					}
				}
				i := (b*filters+f)*span + l
				out.Big[i], out.Scale[i] = sum.value, sum.scale
			}
		}
	}
}

// filter2d adds to sum one channel of an image, seen through one filter of kh×kw at output (i, j).
func (t *task) filter2d(sum *total, image, filter []float64, w window2d, kh, kw, i, j int) {
	for y := range kh {
		for x := range kw {
			if at, inside := w.place(i, j, y, x); inside {
				t.accumulate(sum, t.mul(num(image[at]), num(filter[y*kw+x])))
			}
		}
	}
}

func (t *task) window(height, width int) window2d {
	return window2d{height, width, t.attrs.Int("stride"), t.attrs.Int("padding"), t.attrs.Int("dilation")}
}

func (t *task) conv2d() {
	out := t.summed("output")
	in, weight, bias := t.in["input"], t.in["weight"], t.in["bias"].X
	channels, height, width := in.Shape[1], in.Shape[2], in.Shape[3]
	filters, kh, kw := weight.Shape[0], weight.Shape[2], weight.Shape[3]
	oh, ow := out.Shape[2], out.Shape[3]
	w := t.window(height, width)
	for b := range in.Shape[0] {
		for f := range filters {
			for i := range oh {
				for j := range ow {
					sum := t.total()
					t.accumulate(sum, num(bias[f]))
					for c := range channels {
						image := in.X[(b*channels+c)*height*width:]
						t.filter2d(sum, image, weight.X[(f*channels+c)*kh*kw:], w, kh, kw, i, j)
					}
					at := ((b*filters+f)*oh+i)*ow + j
					out.Big[at], out.Scale[at] = sum.value, sum.scale
				}
			}
		}
	}
}

func (t *task) depthwiseConv2d() {
	out := t.summed("output")
	in, weight, bias := t.in["input"], t.in["weight"], t.in["bias"].X
	channels, height, width := in.Shape[1], in.Shape[2], in.Shape[3]
	filters, kh, kw := weight.Shape[0], weight.Shape[2], weight.Shape[3]
	oh, ow := out.Shape[2], out.Shape[3]
	w := t.window(height, width)
	for b := range in.Shape[0] {
		for f := range filters {
			channel := f / t.attrs.Int("multiplier")
			for i := range oh {
				for j := range ow {
					sum := t.total()
					t.accumulate(sum, num(bias[f]))
					image := in.X[(b*channels+channel)*height*width:]
					t.filter2d(sum, image, weight.X[f*kh*kw:], w, kh, kw, i, j)
					at := ((b*filters+f)*oh+i)*ow + j
					out.Big[at], out.Scale[at] = sum.value, sum.scale
				}
			}
		}
	}
}

// pooled calls visit with each output element and the elements of its window that are inside the image.
func (t *task) pooled(out *Result, visit func(at int, window []float64)) {
	in := t.in["input"]
	height, width := in.Shape[2], in.Shape[3]
	oh, ow := out.Shape[2], out.Shape[3]
	kernel := t.attrs.Int("kernel")
	w := window2d{height, width, t.attrs.Int("stride"), t.attrs.Int("padding"), 1}
	for plane := range in.Shape[0] * in.Shape[1] {
		for i := range oh {
			for j := range ow {
				var members []float64
				for y := range kernel {
					for x := range kernel {
						if at, inside := w.place(i, j, y, x); inside {
							members = append(members, in.X[plane*height*width+at])
						}
					}
				}
				visit((plane*oh+i)*ow+j, members)
			}
		}
	}
}

func (t *task) maxPool2d() {
	out := t.selected("output")
	t.pooled(out, func(at int, window []float64) { out.F[at] = window[greatest(window)] })
}

func (t *task) avgPool2d() {
	out := t.summed("output")
	kernel := t.attrs.Int("kernel")
	t.pooled(out, func(at int, window []float64) {
		sum := t.totalOf(numbers(window))
		size := kernel * kernel
		if !t.attrs.Bool("count_include_pad") {
			size = len(window)
		}
		out.Big[at], out.Scale[at] = t.quo(sum.value, integer(size)), t.quo(sum.scale, integer(size))
	})
}

package subtle

// This file implements products, convolutions and pooling.

import (
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// dotWay is a way to compute dot products. The zero value adds products in float32, first term first.
type dotWay struct {
	narrow bool // blocks of 64 products are added in the dtype of the case
	tf32   bool // operands are rounded to 10 fractional bits
	round  rounding
}

// dot is the sum of x(i)·y(i).
func (w dotWay) dot(c *Call, n int, x, y func(i int) float32) float32 {
	return reduction{narrow: w.narrow}.sum(n, c.DType, func(i int) float32 {
		if w.tf32 {
			return tf32(x(i)) * tf32(y(i))
		}
		return x(i) * y(i)
	})
}

// tf32 rounds to 10 fractional bits, ties away from zero, as cvt.rna.tf32 does.
func tf32(x float32) float32 {
	if x-x != 0 {
		return x
	}
	return math.Float32frombits((math.Float32bits(x) + 1<<12) &^ (1<<13 - 1))
}

// product appends a·b.
func (w dotWay) product(c *Call, out, a, b []float32, m, k, n int) []float32 {
	for i := range m {
		for j := range n {
			out = append(out, w.dot(c, k, func(t int) float32 { return a[i*k+t] }, func(t int) float32 { return b[t*n+j] }))
		}
	}
	return out
}

func matmul(w dotWay) Kernel {
	return func(c *Call) {
		a, shape := c.in("a")
		b, right := c.in("b")
		c.put("output", w.product(c, nil, a, b, shape[0], shape[1], right[1]), w.round)
	}
}

func batchedMatmul(w dotWay) Kernel {
	return func(c *Call) {
		a, shape := c.in("a")
		b, right := c.in("b")
		m, k, n := shape[1], shape[2], right[2]
		var out []float32
		for i := range shape[0] {
			out = w.product(c, out, a[i*m*k:(i+1)*m*k], b[i*k*n:(i+1)*k*n], m, k, n)
		}
		c.put("output", out, w.round)
	}
}

// int8Matmul sums exactly; narrowed: the sum passes through bfloat16 before it is scaled.
func int8Matmul(narrowed bool) Kernel {
	return func(c *Call) {
		a, shape := c.in("a")
		b, right := c.in("b")
		sa, _ := c.in("scale_a")
		sb, _ := c.in("scale_b")
		m, k, n := shape[0], shape[1], right[1]
		var out []float32
		for i := range m {
			for j := range n {
				s := 0
				for t := range k {
					s += int(a[i*k+t]) * int(b[t*n+j])
				}
				x := float32(s)
				if narrowed {
					x = narrow(x, dtype.BFloat16)
				}
				out = append(out, x*sa[i]*sb[j])
			}
		}
		c.put("output", out, nearest)
	}
}

// convolution computes conv1d and conv2d.
func convolution(w dotWay) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		weight, ws := c.in("weight")
		bias, _ := c.in("bias")
		out := c.outputs["output"].Shape
		if len(shape) == 3 { // one axis: the other has size 1
			shape = tensor.Shape{shape[0], shape[1], 1, shape[2]}
			ws = tensor.Shape{ws[0], ws[1], 1, ws[2]}
			out = tensor.Shape{out[0], out[1], 1, out[2]}
		}
		g := geometry{shape: shape, kernel: ws, one: ws[2] == 1 && shape[2] == 1,
			stride: c.int("stride"), padding: c.int("padding"), dilation: c.int("dilation")}
		res := make([]float32, out.Elems())
		var taps, at []int
		for i := range res {
			o := i / (out[2] * out[3]) % out[1]
			taps, at = g.window(taps[:0], at[:0], i/(out[1]*out[2]*out[3]), i/out[3]%out[2], i%out[3])
			sum := w.dot(c, len(taps), func(t int) float32 { return x[at[t]] },
				func(t int) float32 { return weight[o*ws[1]*ws[2]*ws[3]+taps[t]] })
			res[i] = sum + bias[o]
		}
		c.put("output", res, nearest)
	}
}

// geometry is that of a convolution over two axes; one: over the second alone.
type geometry struct {
	shape, kernel             tensor.Shape
	one                       bool
	stride, padding, dilation int
}

// window appends the taps inside the image and where they read.
func (g *geometry) window(taps, at []int, b, y, x int) ([]int, []int) {
	top, left := y*g.stride-g.padding, x*g.stride-g.padding
	if g.one {
		top = 0
	}
	kh, kw, h, w := g.kernel[2], g.kernel[3], g.shape[2], g.shape[3]
	for ch := range g.kernel[1] {
		for i := range kh {
			for j := range kw {
				r, s := top+i*g.dilation, left+j*g.dilation
				if r >= 0 && r < h && s >= 0 && s < w {
					taps = append(taps, (ch*kh+i)*kw+j)
					at = append(at, ((b*g.shape[1]+ch)*h+r)*w+s)
				}
			}
		}
	}
	return taps, at
}

// avgPool divides by the size of the window; inside: by the number of its elements inside the image.
func avgPool(inside bool) Kernel {
	return func(c *Call) {
		pool(c, func(window []float32) float32 {
			n := c.int("kernel") * c.int("kernel")
			if inside {
				n = len(window)
			}
			s := float32(0)
			for _, v := range window {
				s += v
			}
			return s / float32(n)
		})
	}
}

// maxPool begins with the given value where the window has padding.
func maxPool(floor float32) Kernel {
	return func(c *Call) {
		pool(c, func(window []float32) float32 {
			top := maxOf(window)
			if len(window) < c.int("kernel")*c.int("kernel") {
				top = larger(top, floor)
			}
			return top
		})
	}
}

// pool calls f with the elements of each window that lie inside the image.
func pool(c *Call, f func(window []float32) float32) {
	x, shape := c.in("input")
	out := c.outputs["output"].Shape
	kernel, stride, padding := c.int("kernel"), c.int("stride"), c.int("padding")
	res := make([]float32, out.Elems())
	for i := range res {
		top, left := i/out[3]%out[2]*stride-padding, i%out[3]*stride-padding
		plane := x[i/(out[2]*out[3])*shape[2]*shape[3]:]
		var window []float32
		for r := max(top, 0); r < min(top+kernel, shape[2]); r++ {
			for s := max(left, 0); s < min(left+kernel, shape[3]); s++ {
				window = append(window, plane[r*shape[3]+s])
			}
		}
		res[i] = f(window)
	}
	c.put("output", res, nearest)
}

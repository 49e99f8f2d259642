package subtle

// This file implements the elementwise ops.

import "math"

// unary makes an op of a function of one number.
func unary(f func(c *Call, x float32) float32) Kernel {
	return func(c *Call) {
		x, _ := c.in("input")
		for i, v := range x {
			x[i] = f(c, v)
		}
		c.put("output", x, nearest)
	}
}

// binary makes an op of a function of two numbers.
func binary(first, second string, round rounding, f func(x, y float32) float32) Kernel {
	return func(c *Call) {
		x, _ := c.in(first)
		y, _ := c.in(second)
		for i, v := range x {
			x[i] = f(v, y[i])
		}
		c.put("output", x, round)
	}
}

func add(round rounding) Kernel {
	return binary("a", "b", round, func(x, y float32) float32 { return x + y })
}

func mul(round rounding) Kernel {
	return binary("a", "b", round, func(x, y float32) float32 { return x * y })
}

func geluErf(x float32) float32 { return 0.5 * x * (1 + erf(x*float32(1/math.Sqrt2))) }

func geluTanh(x float32) float32 {
	return 0.5 * x * (1 + tanh(float32(math.Sqrt(2/math.Pi))*(x+0.044715*x*x*x)))
}

// gelu makes an op of one of the two.
func gelu(f func(float32) float32) Kernel {
	return unary(func(_ *Call, x float32) float32 { return f(x) })
}

func geglu(f func(float32) float32) Kernel {
	return binary("gate", "up", nearest, func(x, y float32) float32 { return f(x) * y })
}

// expTerms is exp by reduction to [-ln(2)/2, ln(2)/2] and Taylor's polynomial of the given degree.
func expTerms(degree int) Kernel {
	return unary(func(_ *Call, x float32) float32 {
		if x != x || x > 100 || x < -110 {
			return exp(x)
		}
		k := math.RoundToEven(float64(x) * math.Log2E)
		r := float32(float64(x) - k*math.Ln2)
		p := float32(1)
		for n := degree; n > 0; n-- {
			p = 1 + p*r/float32(n)
		}
		return float32(math.Ldexp(float64(p), int(k)))
	})
}

// rsqrt is the integer trick with Newton's iterations.
func rsqrt(iterations int) Kernel {
	return unary(func(_ *Call, x float32) float32 {
		if !(x >= 0x1p-126) || isInf(x) {
			return 1 / sqrt(x)
		}
		y := math.Float32frombits(0x5f3759df - math.Float32bits(x)>>1)
		for range iterations {
			y *= 1.5 - 0.5*x*y*y
		}
		return y
	})
}

// leakyReLU multiplies by alpha, or by alpha rounded to the dtype of the case.
func leakyReLU(rounded bool) Kernel {
	return unary(func(c *Call, x float32) float32 {
		alpha := c.float("alpha")
		if rounded {
			alpha = narrow(alpha, c.DType)
		}
		if x >= 0 {
			return x
		}
		return alpha * x
	})
}

// silu is x/(1+exp(-x)); clamped: exp(-x) is held below 1e4, which keeps it finite in float16.
func silu(clamped bool) Kernel {
	return unary(func(_ *Call, x float32) float32 {
		e := exp(-x)
		if clamped && e > 1e4 {
			e = 1e4
		}
		return x / (1 + e)
	})
}

// rope rotates pairs; swapped: pairs of the second half of a head have their elements exchanged.
func rope(swapped bool) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		cos, _ := c.in("cos")
		sin, _ := c.in("sin")
		s, h, d := shape[1], shape[2], shape[3]
		half, step, apart := d/2, 1, d/2
		if c.Attrs.Bool("interleaved") {
			step, apart = 2, 1
		}
		out := make([]float32, len(x))
		for i := 0; i < len(x); i += d {
			pos := i / d / h % s
			for j := range half {
				cs, sn := cos[pos*half+j], sin[pos*half+j]
				p, q := i+j*step, i+j*step+apart
				if swapped && j >= (half+1)/2 {
					p, q = q, p
				}
				out[p] = x[p]*cs - x[q]*sn
				out[q] = x[q]*cs + x[p]*sn
			}
		}
		c.put("output", out, nearest)
	}
}

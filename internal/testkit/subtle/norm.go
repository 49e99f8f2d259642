package subtle

// This file implements the normalizations.

// normWay is a way to normalize. The zero value conforms.
type normWay struct {
	spread
	epsFactor  float32 // of eps; 0: 1
	epsOutside bool    // eps is added to the root, not under it
}

// rstd is 1/sqrt(v+eps).
func (w normWay) rstd(c *Call, v float32) float32 {
	eps := c.float("eps")
	if w.epsFactor != 0 {
		eps *= w.epsFactor
	}
	if w.epsOutside {
		return 1 / (sqrt(v) + eps)
	}
	return 1 / sqrt(v+eps)
}

func layernorm(w normWay) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		weight, _ := c.in("weight")
		bias, _ := c.in("bias")
		out := make([]float32, len(x))
		rows(x, shape, func(at int, row []float32) {
			mu, m2 := w.moments(row)
			s := w.rstd(c, m2/float32(w.size(len(row))-w.correction))
			for j, v := range row {
				out[at+j] = (v-mu)*s*weight[j] + bias[j]
			}
		})
		c.put("output", out, nearest)
	}
}

func groupnorm(w normWay) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		weight, _ := c.in("weight")
		bias, _ := c.in("bias")
		channels, l := shape[1], shape[2]
		size := channels / c.int("groups") * l
		out := make([]float32, len(x))
		for i := 0; size > 0 && i < len(x); i += size {
			mu, m2 := w.moments(x[i : i+size])
			s := w.rstd(c, m2/float32(size-w.correction))
			for j := i; j < i+size; j++ {
				ch := j / l % channels
				out[j] = (x[j]-mu)*s*weight[ch] + bias[ch]
			}
		}
		c.put("output", out, nearest)
	}
}

func batchnorm(w normWay) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		mu, _ := c.in("mean")
		v, _ := c.in("var")
		weight, _ := c.in("weight")
		bias, _ := c.in("bias")
		out := make([]float32, len(x))
		for i := range x {
			ch := i / shape[2] % shape[1]
			out[i] = (x[i]-mu[ch])*w.rstd(c, v[ch])*weight[ch] + bias[ch]
		}
		c.put("output", out, nearest)
	}
}

// squares is the sum of squares of a row.
func squares(r reduction, c *Call, row []float32) float32 {
	return r.sum(len(row), c.DType, func(i int) float32 { return row[i] * row[i] })
}

func rmsnorm(w normWay, r reduction) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		weight, _ := c.in("weight")
		out := make([]float32, len(x))
		rows(x, shape, func(at int, row []float32) {
			s := w.rstd(c, squares(r, c, row)/float32(len(row)))
			for j, v := range row {
				out[at+j] = v * s * weight[j]
			}
		})
		c.put("output", out, nearest)
	}
}

// l2norm divides by max(norm, eps), or by norm + eps.
func l2norm(w normWay) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		eps := c.float("eps")
		if w.epsFactor != 0 {
			eps *= w.epsFactor
		}
		out := make([]float32, len(x))
		rows(x, shape, func(at int, row []float32) {
			norm := sqrt(squares(reduction{}, c, row))
			d := larger(norm, eps)
			if w.epsOutside {
				d = norm + eps
			}
			for j, v := range row {
				out[at+j] = v / d
			}
		})
		c.put("output", out, nearest)
	}
}

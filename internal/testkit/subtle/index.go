package subtle

// This file implements the ops that look up, scatter and quantize.

import "math"

// embedding copies rows; short: the last row of the table is taken for the one before it.
func embedding(short bool) Kernel {
	return func(c *Call) {
		table, shape := c.in("table")
		index, _ := c.in("index")
		v, d := shape[0], shape[1]
		var out []float32
		for _, x := range index {
			i := int(x)
			if short && i == v-1 && v > 1 {
				i--
			}
			out = append(out, table[i*d:(i+1)*d]...)
		}
		c.put("output", out, nearest)
	}
}

// gather picks elements of rows; wrapped: the column of the last element of a row is taken for the first.
func gather(wrapped bool) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		index, picked := c.in("index")
		out := make([]float32, len(index))
		for i := range out {
			j := int(index[i])
			if wrapped && j == shape[1]-1 {
				j = 0
			}
			out[i] = x[i/picked[1]*shape[1]+j]
		}
		c.put("output", out, nearest)
	}
}

// scatterAdd adds rows; lost: the last row that goes to a place where another one went before is lost.
func scatterAdd(lost bool, round rounding) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		index, _ := c.in("index")
		src, _ := c.in("src")
		skip := -1
		seen := map[float32]bool{}
		for r, i := range index {
			if lost && seen[i] {
				skip = r
			}
			seen[i] = true
		}
		d := shape[1]
		for r, i := range index {
			for j := 0; j < d && r != skip; j++ {
				x[int(i)*d+j] += src[r*d+j]
			}
		}
		c.put("output", x, round)
	}
}

// quantizeRow has a scale a row, the largest magnitude over limit.
func quantizeRow(limit float32) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		var scales []float32
		q := make([]float32, len(x))
		rows(x, shape, func(at int, row []float32) {
			top := float32(1e-10)
			for _, v := range row {
				top = larger(float32(math.Abs(float64(v))), top)
			}
			scale := top / limit
			scales = append(scales, scale)
			for j, v := range row {
				q[at+j] = float32(min(max(math.RoundToEven(float64(v/scale)), -127), 127))
			}
		})
		c.put("q", q, nearest)
		c.put("scale", scales, nearest)
	}
}

// dequantizeRow multiplies by the scale of the row; rounded: the scale is rounded to the dtype of the case first.
func dequantizeRow(rounded bool) Kernel {
	return func(c *Call) {
		q, shape := c.in("q")
		scale, _ := c.in("scale")
		for i := range q {
			s := scale[i/shape[1]]
			if rounded {
				s = narrow(s, c.DType)
			}
			q[i] *= s
		}
		c.put("output", q, nearest)
	}
}

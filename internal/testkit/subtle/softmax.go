package subtle

// This file implements what is made of sums of exponentials.

import "math"

// softmaxWay is a way to compute a softmax. The zero value takes two passes.
type softmaxWay struct {
	extra    float32 // is added to the denominator
	tile     int     // online over tiles of this many terms; 0: two passes
	forget   bool    // online: the last tile does not rescale the sum
	merge    int     // two passes: the sum is halved where a tile of this many terms is merged; 0: not
	limit    int     // two passes: terms past this one are not in the sum; 0: none
	round    rounding
	noMax    bool // the maximum is not subtracted
	logFirst bool // log_softmax as the logarithm of the softmax
}

// denominator returns the maximum of a row and the sum of exp(x-max).
func (w softmaxWay) denominator(c *Call, row []float32) (top, total float32) {
	if w.tile > 0 {
		return w.online(row)
	}
	if top = maxOf(row); w.noMax {
		top = 0
	}
	total = reduction{limit: w.limit, merge: w.merge}.sum(len(row), c.DType,
		func(i int) float32 { return exp(row[i] - top) })
	return top, total + w.extra
}

func (w softmaxWay) online(row []float32) (top, total float32) {
	top = float32(math.Inf(-1))
	for i := 0; i < len(row); i += w.tile {
		part := row[i:min(i+w.tile, len(row))]
		next := larger(maxOf(part), top)
		if isNegInf(next) {
			continue
		}
		if last := i+w.tile >= len(row); next != top && !(w.forget && last) {
			total *= exp(top - next)
		}
		top = next
		for _, v := range part {
			total += exp(v - top)
		}
	}
	if isNegInf(top) {
		total = float32(math.NaN())
	}
	return top, total + w.extra
}

func softmax(w softmaxWay) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		out := make([]float32, len(x))
		rows(x, shape, func(at int, row []float32) {
			top, total := w.denominator(c, row)
			for j, v := range row {
				out[at+j] = exp(v-top) / total
			}
		})
		c.put("output", out, w.round)
	}
}

func logSoftmax(w softmaxWay) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		out := make([]float32, len(x))
		rows(x, shape, func(at int, row []float32) {
			top, total := w.denominator(c, row)
			for j, v := range row {
				if w.logFirst {
					out[at+j] = log(exp(v-top) / total)
				} else {
					out[at+j] = (v - top) - log(total)
				}
			}
		})
		c.put("output", out, nearest)
	}
}

func logSumExp(w softmaxWay) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		var out []float32
		rows(x, shape, func(_ int, row []float32) {
			if top, total := w.denominator(c, row); isNegInf(top) {
				out = append(out, top)
			} else {
				out = append(out, top+log(total))
			}
		})
		c.put("output", out, nearest)
	}
}

// crossEntropy has one loss a row; others: the smoothed part is spread over the other classes alone.
func crossEntropy(others bool) Kernel {
	return func(c *Call) {
		x, shape := c.in("logits")
		target, _ := c.in("target")
		smooth := c.float("label_smoothing")
		out := make([]float32, shape[0])
		n := shape[1]
		for r, t := range target {
			if int(t) == c.int("ignore_index") {
				continue
			}
			row := x[r*n : (r+1)*n]
			top, total := softmaxWay{}.denominator(c, row)
			l := top + log(total)
			loss := l - row[int(t)]
			if smooth != 0 {
				all := reduction{}.sum(n, c.DType, func(i int) float32 { return row[i] })
				spread := l - all/float32(n)
				if others && n > 1 {
					spread = l - (all-row[int(t)])/float32(n-1)
				}
				loss = (1-smooth)*loss + smooth*spread
			}
			out[r] = loss
		}
		c.put("output", out, nearest)
	}
}

// moeRouting takes the k most likely experts; extra is added to the sum that weights are divided by.
func moeRouting(extra float32) Kernel {
	return func(c *Call) {
		x, shape := c.in("logits")
		k := c.int("k")
		var weights, indices []float32
		rows(x, shape, func(_ int, row []float32) {
			top, total := softmaxWay{}.denominator(c, row)
			taken := make([]bool, len(row))
			at := len(weights)
			chosen := float32(0)
			for range k {
				best := -1
				for i, v := range row {
					if !taken[i] && (best < 0 || ranksAbove(v, row[best])) {
						best = i
					}
				}
				taken[best] = true
				p := exp(row[best]-top) / total
				chosen += p
				weights, indices = append(weights, p), append(indices, float32(best))
			}
			if c.Attrs.Bool("renormalize") {
				for j := at; j < len(weights); j++ {
					weights[j] /= chosen + extra
				}
			}
		})
		c.put("weights", weights, nearest)
		c.put("indices", indices, nearest)
	}
}

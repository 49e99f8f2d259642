package subtle

// This file implements reductions over the last axis.

import (
	"math"
	"slices"

	"gpuemu/internal/dtype"
)

// laneSums are the sums of the lanes that share a row, as the threads of a warp do.
type laneSums [32]float32

// total adds the lanes as shuffles within a warp do.
func (l laneSums) total() float32 {
	for h := len(l) / 2; h > 0; h /= 2 {
		for i := range h {
			l[i] += l[i+h]
		}
	}
	return l[0]
}

// reduction is a way to add the terms of a row. The zero value adds in float32, in lanes.
type reduction struct {
	narrow bool // blocks of 64 terms are added in the dtype of the case, the blocks in float32
	limit  int  // terms past this one are ignored; 0: none
	merge  int  // the carry is scaled by 1/2 each time a tile of this many terms is merged; 0: not
}

const narrowBlock = 64

// sum adds f(i) for i in 0..n-1.
func (r reduction) sum(n int, d dtype.DType, f func(i int) float32) float32 {
	if r.limit > 0 {
		n = min(n, r.limit)
	}
	if r.narrow {
		return narrowSum(n, d, f)
	}
	var lanes laneSums
	for i := range n {
		if r.merge > 0 && i > 0 && i%r.merge == 0 {
			for k := range lanes {
				lanes[k] *= 0.5
			}
		}
		lanes[i%len(lanes)] += f(i)
	}
	return lanes.total()
}

func narrowSum(n int, d dtype.DType, f func(i int) float32) float32 {
	total := float32(0)
	for i := 0; i < n; i += narrowBlock {
		part := float32(0)
		for j := i; j < min(i+narrowBlock, n); j++ {
			part = narrow(part+f(j), d)
		}
		total += part
	}
	return total
}

// rowSum makes an op of a sum over each row and what becomes of it.
func rowSum(r reduction, round rounding, after func(sum float32, n int) float32) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		var out []float32
		rows(x, shape, func(_ int, row []float32) {
			s := r.sum(len(row), c.DType, func(i int) float32 { return row[i] })
			out = append(out, after(s, len(row)))
		})
		c.put("output", out, round)
	}
}

func sum(r reduction) Kernel {
	return rowSum(r, nearest, func(s float32, _ int) float32 { return s })
}

func mean(r reduction) Kernel {
	return rowSum(r, nearest, func(s float32, n int) float32 { return s / float32(n) })
}

// spread is a way to compute a variance. The zero value takes two passes.
type spread struct {
	onePass    bool // mean of squares minus square of the mean
	bf16Mean   bool // the mean is rounded to bfloat16
	correction int  // is added to that of the op
	limit      int  // elements past this one are ignored; 0: none
}

// moments returns the mean and the sum of squared deviations of n values.
func (s spread) moments(x []float32) (mu, m2 float32) {
	if s.limit > 0 {
		x = x[:min(len(x), s.limit)]
	}
	var total, squares, deviations laneSums
	for i, v := range x {
		total[i%len(total)] += v
		squares[i%len(squares)] += v * v
	}
	n := float32(len(x))
	mu = total.total() / n
	if s.onePass {
		return mu, (squares.total()/n - mu*mu) * n
	}
	if s.bf16Mean {
		mu = narrow(mu, dtype.BFloat16)
	}
	for i, v := range x {
		deviations[i%len(deviations)] += (v - mu) * (v - mu)
	}
	return mu, deviations.total()
}

// size is the number of values that moments looks at.
func (s spread) size(n int) int {
	if s.limit > 0 {
		return min(n, s.limit)
	}
	return n
}

func variance(s spread) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		var out []float32
		rows(x, shape, func(_ int, row []float32) {
			n := s.size(len(row)) - max(0, c.int("correction")+s.correction)
			if n <= 0 {
				out = append(out, float32(math.NaN()))
				return
			}
			_, m2 := s.moments(row)
			out = append(out, m2/float32(n))
		})
		c.put("output", out, nearest)
	}
}

// rowMax is the maximum of each row; careless is fmax, which prefers numbers to NaN.
func rowMax(careless bool) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		var out []float32
		rows(x, shape, func(_ int, row []float32) {
			top := row[0]
			for _, v := range row[1:] {
				switch {
				case careless && top != top:
					top = v
				case careless && v != v:
				default:
					top = larger(v, top)
				}
			}
			out = append(out, top)
		})
		c.put("output", out, nearest)
	}
}

// ranksAbove reports whether x ranks before y: NaN is the greatest.
func ranksAbove(x, y float32) bool { return x > y || x != x && y == y }

// argmax returns the first of tied indices, or the last.
func argmax(last bool) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		var out []float32
		rows(x, shape, func(_ int, row []float32) {
			at := 0
			for i, v := range row {
				if ranksAbove(v, row[at]) || last && !ranksAbove(row[at], v) {
					at = i
				}
			}
			out = append(out, float32(at))
		})
		c.put("output", out, nearest)
	}
}

// cumsum scans blocks of 1,024 with a carry; lost: the carry of the block before the last one is missing.
func cumsum(lost bool) Kernel {
	const block = 1024
	return func(c *Call) {
		x, shape := c.in("input")
		out := make([]float32, len(x))
		rows(x, shape, func(at int, row []float32) {
			carry := float32(0)
			for i := 0; i < len(row); i += block {
				part := carry
				if lost {
					part = 0
				}
				for j := i; j < min(i+block, len(row)); j++ {
					part += row[j]
					out[at+j] = part
				}
				carry = part
			}
		})
		c.put("output", out, nearest)
	}
}

// topk sorts by value; unsorted: the last two of the k are swapped.
func topk(unsorted bool) Kernel {
	return func(c *Call) {
		x, shape := c.in("input")
		k := c.int("k")
		var values, indices []float32
		rows(x, shape, func(_ int, row []float32) {
			order := make([]int, len(row))
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(i, j int) int {
				switch {
				case ranksAbove(row[i], row[j]):
					return -1
				case ranksAbove(row[j], row[i]):
					return 1
				}
				return 0
			})
			if unsorted && k >= 2 {
				order[k-1], order[k-2] = order[k-2], order[k-1]
			}
			for _, i := range order[:k] {
				values, indices = append(values, row[i]), append(indices, float32(i))
			}
		})
		c.put("values", values, nearest)
		c.put("indices", indices, nearest)
	}
}

// This file implements the decoding of inputs, and buffers that evaluations share one after another.

package oracle

import (
	"math/bits"
	"sync"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// leastShared is the size from which a buffer is worth keeping: 8 KiB.
const leastShared = 1 << 10

// spare holds buffers that no evaluation uses, by the binary logarithm of their length. New memory would have to be
// cleared first, and decoding sets every element anyway.
var spare [64]sync.Pool

// borrow returns a buffer of n elements that hold anything.
func borrow(n int) []float64 {
	if p, ok := spare[bits.Len(uint(n))].Get().(*[]float64); ok && cap(*p) >= n {
		return (*p)[:n]
	}
	return make([]float64, n)
}

// giveBack ends the use of a buffer.
func giveBack(x []float64) {
	if len(x) >= leastShared {
		spare[bits.Len(uint(len(x)))].Put(&x)
	}
}

// decoded returns the elements of t in row-major order.
func decoded(t *tensor.Tensor) []float64 {
	n := t.Elems()
	x := borrow(n)
	raw, size := t.Bytes(), t.DType.Size()
	parallel(n, 1, func(lo, hi int) { dtype.Decode(x[lo:hi], t.DType, raw[lo*size:hi*size]) })
	return x
}

// release gives the inputs' buffers to later evaluations. What stands in ties is kept: it belongs to the caller now.
func (c *call) release() {
	for _, out := range c.outs {
		if out.Ties != nil {
			return
		}
	}
	for _, in := range c.in {
		giveBack(in.x)
	}
	c.in = nil
}

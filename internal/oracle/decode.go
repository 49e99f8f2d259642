// This file implements the decoding of inputs, into buffers that evaluations share one after another.

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

// decoded returns the elements of t in row-major order.
func decoded(t *tensor.Tensor) []float64 {
	n := t.Elems()
	var x []float64
	if p, ok := spare[bits.Len(uint(n))].Get().(*[]float64); ok && cap(*p) >= n {
		x = (*p)[:n]
	} else {
		x = make([]float64, n)
	}
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
		if x := in.x; len(x) >= leastShared {
			spare[bits.Len(uint(len(x)))].Put(&x)
		}
	}
	c.in = nil
}

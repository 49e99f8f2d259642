package gemm

// This file implements the product for few rows of a: b is read once, in order and without packing.

import "math"

const (
	fewRows   = 3  // rows of c; with more, tiles win
	rowCols   = 4  // rowAVX2 does multiples of this many columns
	rowSteps  = 16 // rows of b read side by side: few enough for the prefetchers, enough to keep c's traffic small
	dotsCols  = 8  // dotsAVX2 does this many columns
	dotsSteps = 8  // and multiples of this many steps
)

// rowBlock computes blk for a b that is not transposed.
func (s *scratch) rowBlock(p *problem, blk block) {
	r := &s.r
	r.bRow = p.ldb
	for p0 := 0; p0 < p.k; p0 += rowSteps {
		r.k = min(rowSteps, p.k-p0)
		r.flags = chainFlags(p0, r.k, p.k)
		for i := blk.i0; i < blk.i1; i++ {
			a, b := p.a[i*p.lda+p0:], p.b[p0*p.ldb+blk.j0:]
			r.run(p.c[i*p.ldc+blk.j0:], a, b, blk.j1-blk.j0, maskAll)
			if p.s != nil {
				r.run(p.s[i*p.ldc+blk.j0:], a, b, blk.j1-blk.j0, maskSign)
			}
		}
	}
}

// run calls the row kernel for n columns of c.
func (r *row) run(c, a, b []float64, n int, mask uint64) {
	r.a, r.mask = a, mask
	whole := 0
	if r.vector {
		whole = n / rowCols * rowCols
		r.c, r.b, r.n = c, b, whole
		if whole > 0 {
			rowAVX2(r)
		}
	}
	if whole < n {
		r.c, r.b, r.n = c[whole:], b[whole:], n-whole
		rowGo(r)
	}
}

// dotsBlock computes blk for a transposed b of at least dotsSteps columns: rows of b are read along the chains.
func (s *scratch) dotsBlock(p *problem, blk block) {
	r := &s.r
	r.bRow, r.k = p.ldb, p.k/dotsSteps*dotsSteps
	j := blk.j0
	for ; j+dotsCols <= blk.j1; j += dotsCols {
		for i := blk.i0; i < blk.i1; i++ {
			r.a, r.b = p.a[i*p.lda:], p.b[j*p.ldb:]
			r.dots(p.c[i*p.ldc+j:][:dotsCols], p.k, maskAll)
			if p.s != nil {
				r.dots(p.s[i*p.ldc+j:][:dotsCols], p.k, maskSign)
			}
		}
	}
	if j < blk.j1 {
		s.tileBlock(p, block{i0: blk.i0, i1: blk.i1, j0: j, j1: blk.j1})
	}
}

// dots sets dotsCols elements of c: the whole steps in assembly, the last few and the end of the chains here.
func (r *row) dots(c []float64, k int, mask uint64) {
	r.c, r.mask = c, mask
	dotsAVX2(r)
	for j, acc := range c {
		b := r.b[j*r.bRow:]
		for q := r.k; q < k; q++ {
			x, y := math.Float64bits(r.a[q])&mask, math.Float64bits(b[q])&mask
			acc = math.FMA(math.Float64frombits(x), math.Float64frombits(y), acc)
		}
		c[j] = canonical(acc)
	}
}

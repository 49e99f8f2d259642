package gemm

// This file implements what the two kernels compute, in portable Go; the assembly must give the same bits.

import "math"

// Size of a tile. Twelve of the sixteen AVX2 registers hold its sums, three a row of b, one an element of a.
const (
	tileRows = 4
	tileCols = 12
)

// Flags of a kernel call.
const (
	flagFirst = 1 << iota // the chains start here, at +0; otherwise they go on from c
	flagLast              // the chains end here: NaNs become canonical
)

// A tile is one call of the tile kernel: for each of 4×12 elements, k steps of the chain
//
//	c[i,j] = fma(a[i,p], b[p,j], c[i,j])   p = 0..k-1
//
// where c[i,j] is c[i*ldc+j], a[i,p] is a[i*aRow+p*aCol] and b[p,j] is b[p*bRow+j]. The two strides of a let one
// kernel read packed panels (1, tileRows) and matrices in place (lda, 1). k is positive.
type tile struct {
	c, a, b                  []float64
	ldc, aRow, aCol, bRow, k int
	flags                    int
}

// A row is one call of the row kernel: for n columns, k steps of the chain of one row of c with the sign bits cleared
// from a and b where mask says so. k is positive.
type row struct {
	c, a, b    []float64
	n, k, bRow int
	mask       uint64
	flags      int
	vector     bool // run the assembly
}

// Masks of a row.
const (
	maskAll  uint64 = 1<<64 - 1 // the product
	maskSign uint64 = 1<<63 - 1 // the product of magnitudes
)

// canonical returns x, or math.NaN() for any NaN. Which operand's payload and sign survive an operation, and the sign
// of a NaN from inf-inf, differ between processors and between forms of the same instruction (IEEE 754 clause 6.2.3
// leaves them open), so no NaN but this one is ever stored.
func canonical(x float64) float64 {
	if x != x {
		return math.NaN()
	}
	return x
}

// tileGo is the tile kernel in Go. Four columns at a time: sixteen sums are what the compilers keep in registers.
func tileGo(t *tile) {
	for j := 0; j < tileCols; j += 4 {
		tileGo4(t, t.c[j:], t.b[j:])
	}
}

func tileGo4(t *tile, c, b []float64) {
	var c00, c01, c02, c03, c10, c11, c12, c13, c20, c21, c22, c23, c30, c31, c32, c33 float64
	r0, r1, r2, r3 := c[0:4:4], c[t.ldc:t.ldc+4], c[2*t.ldc:2*t.ldc+4], c[3*t.ldc:3*t.ldc+4]
	if t.flags&flagFirst == 0 {
		c00, c01, c02, c03 = r0[0], r0[1], r0[2], r0[3]
		c10, c11, c12, c13 = r1[0], r1[1], r1[2], r1[3]
		c20, c21, c22, c23 = r2[0], r2[1], r2[2], r2[3]
		c30, c31, c32, c33 = r3[0], r3[1], r3[2], r3[3]
	}
	a, ia, ib := t.a, 0, 0
	for range t.k {
		b0, b1, b2, b3 := b[ib], b[ib+1], b[ib+2], b[ib+3]
		x := a[ia]
		c00, c01 = math.FMA(x, b0, c00), math.FMA(x, b1, c01)
		c02, c03 = math.FMA(x, b2, c02), math.FMA(x, b3, c03)
		x = a[ia+t.aRow]
		c10, c11 = math.FMA(x, b0, c10), math.FMA(x, b1, c11)
		c12, c13 = math.FMA(x, b2, c12), math.FMA(x, b3, c13)
		x = a[ia+2*t.aRow]
		c20, c21 = math.FMA(x, b0, c20), math.FMA(x, b1, c21)
		c22, c23 = math.FMA(x, b2, c22), math.FMA(x, b3, c23)
		x = a[ia+3*t.aRow]
		c30, c31 = math.FMA(x, b0, c30), math.FMA(x, b1, c31)
		c32, c33 = math.FMA(x, b2, c32), math.FMA(x, b3, c33)
		ia += t.aCol
		ib += t.bRow
	}
	r0[0], r0[1], r0[2], r0[3] = c00, c01, c02, c03
	r1[0], r1[1], r1[2], r1[3] = c10, c11, c12, c13
	r2[0], r2[1], r2[2], r2[3] = c20, c21, c22, c23
	r3[0], r3[1], r3[2], r3[3] = c30, c31, c32, c33
	if t.flags&flagLast != 0 {
		for _, r := range [tileRows][]float64{r0, r1, r2, r3} {
			for j, x := range r[:4] {
				r[j] = canonical(x)
			}
		}
	}
}

// rowGo is the row kernel in Go.
func rowGo(r *row) {
	c := r.c[:r.n]
	if r.flags&flagFirst != 0 {
		clear(c)
	}
	for p, x := range r.a[:r.k] {
		x = math.Float64frombits(math.Float64bits(x) & r.mask)
		for j, y := range r.b[p*r.bRow:][:r.n] {
			c[j] = math.FMA(x, math.Float64frombits(math.Float64bits(y)&r.mask), c[j])
		}
	}
	if r.flags&flagLast != 0 {
		for j, x := range c {
			c[j] = canonical(x)
		}
	}
}

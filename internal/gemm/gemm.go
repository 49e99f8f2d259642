// Package gemm multiplies float64 matrices for the oracle, fast and with one defined result.
//
// Every element of a product is the chain
//
//	acc = +0; for p = 0..k-1: acc = fma(a[i,p], b[p,j], acc)
//
// with one rounding (to nearest, ties to even) per step, and math.NaN() if the end of the chain is any NaN. So
// the bits of a result depend on the inputs alone: not on blocking, number of threads, processor or build.
// Infinities, subnormals and signed zeros follow IEEE 754 through the chain. The error of an element is at most
// k·u/(1-k·u)·Σ|a·b| with u = 2^-53 (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section
// 3.1: a fused step rounds no more often).
//
// It is not a BLAS: there is no alpha, beta or general transposition, and reordering sums, the usual way to more
// speed in narrow cases, is what it must not do.
package gemm

// This file implements the entry points, their argument checks and the choice of a method.

import (
	"fmt"
	"runtime"
)

// Options of a product. The zero value means dense row-major matrices and as many threads as GOMAXPROCS.
type Options struct {
	LDA, LDB, LDC int  // elements from one row to the next, 0: dense; MulAbs uses LDC for both results
	TransB        bool // b is stored as n rows of k elements
	Threads       int  // at most this many goroutines, 0: GOMAXPROCS
}

// Mul sets c = a·b for row-major a (m×k), b (k×n, or n×k with TransB) and c (m×n), as the package comment defines
// it. c may not overlap a or b. Wrong sizes are errors of the calling code and panic.
func Mul(c, a, b []float64, m, n, k int, opt Options) {
	newProblem(c, nil, a, b, m, n, k, opt).solve(opt.Threads, haveAVX2())
}

// MulAbs sets c = a·b as Mul does and s = |a|·|b|, the same chain on magnitudes: what an error bound of c is made
// of. It packs the inputs once for both. c and s may not overlap each other or the inputs.
func MulAbs(c, s, a, b []float64, m, n, k int, opt Options) {
	if s == nil {
		s = []float64{} // nil means "not wanted" inside the package
	}
	newProblem(c, s, a, b, m, n, k, opt).solve(opt.Threads, haveAVX2())
}

// A problem is one product with all defaults resolved.
type problem struct {
	c, s, a, b    []float64 // s nil: not wanted
	m, n, k       int
	lda, ldb, ldc int
	transB        bool
	vector        bool // run the assembly
}

// newProblem resolves the defaults and checks every size, so that the kernels need not.
func newProblem(c, s, a, b []float64, m, n, k int, opt Options) problem {
	if m < 0 || n < 0 || k < 0 || opt.Threads < 0 {
		panic(fmt.Sprintf("gemm: internal error: negative size: m=%d n=%d k=%d threads=%d", m, n, k, opt.Threads))
	}
	bRows, bCols := k, n
	if opt.TransB {
		bRows, bCols = n, k
	}
	p := problem{c: c, s: s, a: a, b: b, m: m, n: n, k: k, transB: opt.TransB}
	p.lda = checked("a", len(a), m, k, opt.LDA)
	p.ldb = checked("b", len(b), bRows, bCols, opt.LDB)
	p.ldc = checked("c", len(c), m, n, opt.LDC)
	if s != nil {
		checked("s", len(s), m, n, opt.LDC)
	}
	return p
}

// checked returns the row stride of a rows×cols matrix and panics if have elements cannot hold it.
func checked(name string, have, rows, cols, ld int) int {
	if ld == 0 {
		ld = cols
	}
	if ld < cols {
		panic(fmt.Sprintf("gemm: internal error: row stride of %s is %d, want at least %d", name, ld, cols))
	}
	// (rows-1)*ld + cols <= have, without overflow.
	if rows > 0 && cols > 0 && (have < cols || (rows > 1 && (have-cols)/(rows-1) < ld)) {
		panic(fmt.Sprintf("gemm: internal error: %s has %d elements, too few for %d rows of %d at stride %d",
			name, have, rows, cols, ld))
	}
	return ld
}

// minWork is how many chain steps are worth a goroutine: some 20 µs, several times what waking one costs.
const minWork = 1 << 19

// solve computes p with at most threads goroutines.
func (p problem) solve(threads int, vector bool) {
	if p.m == 0 || p.n == 0 {
		return
	}
	if p.k == 0 {
		for i := range p.m {
			clear(p.c[i*p.ldc:][:p.n])
			if p.s != nil {
				clear(p.s[i*p.ldc:][:p.n])
			}
		}
		return
	}
	p.vector = vector
	p = p.turned()
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	work := float64(float64(p.m) * float64(p.n) * float64(p.k)) // as floats: it may exceed an int
	if most := 1 + float64(work/minWork); float64(threads) > most {
		threads = int(most)
	}
	j := newJob(p, threads)
	j.run(threads)
	j.release()
}

// turned returns a matrix-vector product as the vector-matrix product of the transposes: the same chains, since
// fma is symmetric in its factors, but the twelve columns of a tile then hold twelve results instead of one.
func (p problem) turned() problem {
	if p.n != 1 || p.m == 1 || p.ldc != 1 || (!p.transB && p.ldb != 1 && p.k > 1) {
		return p
	}
	p.a, p.b = p.b, p.a
	p.m, p.n = 1, p.m
	p.lda, p.ldb, p.ldc = p.k, p.lda, p.n
	p.transB = true
	return p
}

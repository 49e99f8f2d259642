// This file implements the contract attribute compute: results rounded to a narrow type, operands rounded to TF32.

package oracle

import (
	"math"

	"gpuemu/internal/dtype"
)

// setCompute widens the arithmetic to what the attribute compute permits for cases of type t.
//
// storage, 16-bit types: every result (of an operation, of a function, of a whole sum or dot product) may be rounded to
// t and overflow there; sums still accumulate in float32 inside.
// tf32, float32: see operandErrors of matrices in dotsInto. Tensor cores compute such products whatever math says, so
// their truncated sums are permitted too.
func (m *arith) setCompute(t dtype.DType, compute string) {
	switch {
	case compute == "storage" && (t == dtype.Float16 || t == dtype.BFloat16):
		m.store, m.over = t, math.Min(m.limit, t.OverflowThreshold())
	case compute == "tf32" && t == dtype.Float32:
		m.tf32, m.narrow = true, 3
	}
}

// stored returns a result that may have been rounded to the storage type, or become infinite there.
func (m *arith) stored(x num) num {
	if m.store == dtype.Invalid || x.v-x.v != 0 || x.isZero() {
		return x
	}
	if x.v+x.e >= m.over {
		x.w |= clsPosInf
	}
	if x.v-x.e <= -m.over {
		x.w |= clsNegInf
	}
	x.e += m.store.HalfULP(min(abs(x.v)+x.e, m.store.MaxFinite()))
	return x
}

// storedLeast returns what a quantity that is at least x in float32 may be after it was rounded to the storage type.
func (m *arith) storedLeast(x float64) float64 {
	if m.store == dtype.Invalid || x <= 0 {
		return x
	}
	return math.Max(0, x-float64(2*m.store.HalfULP(x)))
}

// storedProduct is stored for every element of a product.
func (m *arith) storedProduct(p *product) {
	if m.store == dtype.Invalid {
		return
	}
	for i := range p.v {
		x := m.stored(p.at(i))
		p.e[i] = x.e
		if x.w != 0 {
			p.mark(i, x.w)
		}
	}
}

// storedSquares is stored for a sum of squared deviations of x from mu: each deviation and each square may have been
// rounded, too. Rounding a mean that is off by mu.e was charged before.
func (m *arith) storedSquares(square num, x []float64, mu num) num {
	if m.store == dtype.Invalid || square.v-square.v != 0 {
		return square
	}
	u, least, n := m.store.UnitRoundoff(), m.store.HalfULP(0), float64(len(x))
	widest := 0.0
	for _, v := range x {
		widest = math.Max(widest, abs(v-mu.v)+mu.e)
	}
	all := square.v + square.e
	square.e += float64(all*float64(3*u*(1+float64(2*u)))) + float64(least*(n+float64(3*math.Sqrt(float64(n*all)))))
	if float64(widest*float64(widest*(1+float64(4*u)))) >= m.over {
		square.w |= clsPosInf
	}
	return m.stored(square)
}

// tf32Over is the magnitude from which on rounding to nearest in TF32 gives an infinity.
const tf32Over = (2 - 0x1p-11) * 0x1p127

// tf32Error bounds the error of x after truncation or rounding to the 10 explicit mantissa bits of TF32. Truncation is
// the worse of the two. A value that is itself uncertain by e may lose up to 2^-10 of its magnitude.
func tf32Error(x, e float64) float64 {
	if x-x != 0 {
		return 0
	}
	if e == 0 && abs(x) >= flushFloat && abs(x) <= math.MaxFloat32 {
		const lost = 1<<(52-10) - 1
		return abs(x - math.Float64frombits(math.Float64bits(x)&^lost))
	}
	return math.Max(float64(0x1p-10*(abs(x)+e)), 0x1p-136) // half the spacing of subnormal values, doubled
}

// operand returns a factor of a product that the contract lets tensor cores read in TF32.
func (m *arith) operand(x num) num {
	if !m.tf32 || x.v-x.v != 0 {
		return x
	}
	if abs(x.v)+x.e >= tf32Over {
		x.w |= clsPosInf | clsNegInf
	}
	if !x.isZero() {
		x.e += tf32Error(x.v, x.e)
	}
	return x
}

// operands is operand for a matrix; the infinities that rounding may make are left to tf32Overflow.
func (m *arith) operands(a matrix) matrix {
	if !m.tf32 {
		return a
	}
	e := make([]float64, len(a.v))
	for i, x := range a.v {
		if a.e != nil {
			e[i] = a.e[i]
		}
		if x != 0 || e[i] != 0 {
			e[i] += tf32Error(x, e[i])
		}
	}
	return matrix{a.v, e}
}

// tf32Overflow leaves everything open where an operand may have become infinite when it was rounded to TF32.
func (m *arith) tf32Overflow(p *product, a, b matrix, s dotShape) {
	if !m.tf32 {
		return
	}
	rows, cols := make([]bool, s.m), make([]bool, s.n)
	any := false
	for i, v := range a.v {
		if v-v == 0 && abs(v) >= tf32Over {
			rows[i/s.k], any = true, true
		}
	}
	for i, v := range b.v {
		if v-v == 0 && abs(v) >= tf32Over {
			at := i % s.n
			if s.transB {
				at = i / s.k
			}
			cols[at], any = true, true
		}
	}
	if !any {
		return
	}
	for i := range p.v {
		if (rows[i/s.n] || cols[i%s.n]) && p.v[i] == p.v[i] {
			p.mark(i, clsFinite|clsPosInf|clsNegInf|clsNaN)
		}
	}
}

// narrowGamma is gamma for sums that accumulate in a type of unit roundoff accU. The worst case, n·u, says nothing
// about sums as long as they are in practice. Roundings to nearest have no common sign, so that n of them add up like
// √n (u/√3 each); the factor is well above what sums of ordinary values show. It serves to recognize such sums, never
// to accept them.
func (m *arith) narrowGamma(n int) float64 {
	return float64(m.accU * (3 + float64(1.5*math.Sqrt(float64(max(n, 0))))))
}

// This file implements matrices of dot products, the hot part of every product-like reference.

package oracle

import (
	"math"

	"gpuemu/internal/gemm"
)

// A matrix is an operand of a matrix product: values and, where they are not exact, their errors.
type matrix struct {
	v []float64
	e []float64 // nil: exact
}

// A product is a matrix of dot products.
type product struct {
	v, e     []float64
	w        []classes // nil: all clean
	pos, neg []float64 // limits of the partial sums on either side; nil: far from overflow
}

func (p *product) at(i int) num {
	n := num{v: p.v[i], e: p.e[i]}
	if p.w != nil {
		n.w = p.w[i]
	}
	return n
}

// dotShape says how to read the operands of a product: a is m×k, b is k×n, or n×k where transposed.
type dotShape struct {
	m, n, k int
	transB  bool
	// tensorCore is the smallest normal value of the operands' type where they are narrow enough for tensor cores; 0: not.
	tensorCore float64
	// bias is the largest magnitude that may be added to the sum, before or after its terms.
	bias float64
}

// inputs returns plain inputs as an operand: exact but for subnormals, which may be read as zero.
func (m *arith) inputs(x []float64) matrix {
	if !hasBelow(x, m.flush) {
		return matrix{v: x}
	}
	e := make([]float64, len(x))
	for i, v := range x {
		if abs(v) < m.flush {
			e[i] = abs(v)
		}
	}
	return matrix{x, e}
}

// dotRounding returns the factors of S = Σ|a||b| and of T = (S+|v|)/2, which bounds every partial sum, in the error
// of a dot product of k terms: k roundings of products (charged on S) and k-1 of sums (charged on T; see sum).
// Products of narrow operands are exact in float32, but a tensor core cuts every term of a block of K to F bits
// below the largest and truncates the sum: with the widest (Volta: K=4, F=23) a block costs (4+1)·2u+2u, so
// ceil(k/4)·12u <= (3k+9)u in all.
func (m *arith) dotRounding(k int, tensorCore float64) (onS, onT float64) {
	onS, onT = float64((m.u+m.accU)*(1+m.gamma(k))), m.gamma(k-1)
	if tensorCore > 0 && m.narrow > 0 {
		onT = math.Max(onT, m.gamma(int(m.narrow)*k+9))
	}
	return onS, onT
}

// biased adds a bias to element i, a dot product of k terms, cast before where the contract lets it be rounded. It may
// also have been the first term of the sum, where every partial sum carries it.
func (p *product) biased(m *arith, i int, x, bias num, s dotShape) num {
	if x.v-x.v != 0 || bias.v-bias.v != 0 {
		y := m.add(x, bias)
		if p.pos != nil && math.IsInf(y.v, 0) && m.partial(p.pos[i]+abs(bias.v), p.neg[i]+abs(bias.v)) != 0 {
			y.w |= clsNaN // the infinity may meet a partial sum that overflowed the other way
		}
		return y
	}
	_, onT := m.dotRounding(s.k+1, s.tensorCore)
	x.e += float64(onT * abs(bias.v))
	y := m.add(x, bias)
	if p.pos != nil {
		y.w |= m.partial(p.pos[i]+math.Max(bias.v, 0), p.neg[i]+math.Max(-bias.v, 0))
	}
	return y
}

// partial returns what sums may become whose partial sums reach up to pos and down to -neg.
func (m *arith) partial(pos, neg float64) classes {
	var w classes
	if pos >= m.limit {
		w |= clsPosInf
	}
	if neg >= m.limit {
		w |= clsNegInf
	}
	if w == clsPosInf|clsNegInf {
		w |= clsNaN
	}
	return w
}

// dots returns a·b with error bounds.
//
// Value and S = |a|·|b| are two products of the same cost. Errors of the operands add ae·|b| + |a|·be + ae·be.
// Non-finite operands: the value follows IEEE in any order (an infinity of each sign, or 0·Inf, is NaN for
// everyone); S is taken over the finite ones, to see whether a permitted partial sum may overflow beside them.
func (m *arith) dots(a, b matrix, s dotShape) product {
	p := product{v: make([]float64, s.m*s.n), e: make([]float64, s.m*s.n)}
	m.dotsInto(&p, a, b, s)
	return p
}

// dotsInto is dots with given places for values and errors.
func (m *arith) dotsInto(p *product, a, b matrix, s dotShape) {
	a, b = m.operands(a), m.operands(b)
	opt := gemm.Options{TransB: s.transB}
	ea, eb := extentOfAll(a.v), extentOfAll(b.v)
	var sp *specials
	if ea.finite && eb.finite {
		gemm.MulAbs(p.v, p.e, a.v, b.v, s.m, s.n, s.k, opt)
	} else {
		sp = m.specials(a, b, s)
		gemm.Mul(p.v, a.v, b.v, s.m, s.n, s.k, opt)
		a, b = matrix{finitePart(a.v), a.e}, matrix{finitePart(b.v), b.e}
		ea, eb = extentOfAll(a.v), extentOfAll(b.v)
		t := make([]float64, len(p.v))
		gemm.MulAbs(t, p.e, a.v, b.v, s.m, s.n, s.k, opt)
	}
	extra := operandErrors(a, b, s)
	var raised []float64
	if m.narrow > 0 && math.Min(ea.least, eb.least) < s.tensorCore {
		raised = raisedDots(a.v, b.v, s)
	}
	onS, onT := m.dotRounding(s.k, s.tensorCore)
	bound := dotBound{under: float64(float64(2*s.k) * m.tiny), onS: onS, onT: onT, limit: m.limit}
	parallel(len(p.v), 4, func(lo, hi int) {
		if extra != nil || raised != nil {
			bound.withOperands(p, extra, raised, lo, hi)
			return
		}
		bound.plain(p.v[lo:hi], p.e[lo:hi])
	})
	if top := float64(float64(s.k)*float64(ea.largest()*eb.largest())) + s.bias; !(top < m.limit/2) {
		m.overflows(p, a, b, extra, s)
	}
	m.tf32Overflow(p, a, b, s)
	m.storedProduct(p)
	if sp != nil {
		sp.apply(p, s)
	}
}

// A dotBound makes the error of a dot product from v and S.
type dotBound struct {
	under    float64 // of all operations that may underflow
	onS, onT float64 // see dotRounding
	limit    float64 // of the accumulation type
}

// plain replaces each S in e by the error of the element in v.
func (b *dotBound) plain(v, e []float64) {
	e = e[:len(v)]
	for i := 0; i < len(v); {
		i += b.groups(v[i:], e[i:])
		for last := min(i+bulkLanes, len(v)); i < last; i++ { // a group with something special, or the rest
			e[i] = b.of(v[i], e[i], 0, 0)
		}
	}
}

// withOperands is plain with errors of operands and with what raised subnormal operands add; either may be nil.
func (b *dotBound) withOperands(p *product, extra, raised []float64, lo, hi int) {
	for i := lo; i < hi; i++ {
		var x, r float64
		if extra != nil {
			x = float64(extra[i] * (1 + b.onS + b.onT))
		}
		if raised != nil {
			r = float64(b.onT * raised[i])
		}
		p.e[i] = b.of(p.v[i], p.e[i], x, r)
	}
}

// of returns the error of one element.
func (b *dotBound) of(v, S, extra, raised float64) float64 {
	if v-v != 0 {
		return 0
	}
	under := b.under + extra + raised
	e := under + float64(b.onS*S) + float64(b.onT*(float64(S/2)+float64(abs(v)/2)))
	if S+under >= b.limit {
		e = math.Min(e, noBound)
	}
	return e
}

// raisedDots returns |a|·|b| with subnormal operands taken as the smallest normal value, where there are any. A tensor
// core does not normalise them: their products carry the exponent of the smallest normal value and set by it how many
// bits of all terms survive.
func raisedDots(a, b []float64, s dotShape) []float64 {
	t := make([]float64, s.m*s.n)
	gemm.Mul(t, atLeast(a, s.tensorCore), atLeast(b, s.tensorCore), s.m, s.n, s.k, gemm.Options{TransB: s.transB})
	return t
}

// hasBelow reports whether x holds a value that is not zero and smaller than least in magnitude.
func hasBelow(x []float64, least float64) bool { return least > 0 && extentOfAll(x).least < least }

// atLeast returns |x| with nothing but zeros below least.
func atLeast(x []float64, least float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		if v != 0 && v-v == 0 {
			out[i] = math.Max(abs(v), least)
		}
	}
	return out
}

// overflows marks the elements whose partial sums may leave the range of the accumulation type. Only operands near the
// end of the range come that far, and for them S is computed again: dots keeps the errors in its place.
func (m *arith) overflows(p *product, a, b matrix, extra []float64, s dotShape) {
	p.pos, p.neg = make([]float64, len(p.v)), make([]float64, len(p.v))
	S, t := make([]float64, len(p.v)), make([]float64, len(p.v))
	gemm.MulAbs(t, S, a.v, b.v, s.m, s.n, s.k, gemm.Options{TransB: s.transB})
	for i, v := range t {
		if v-v != 0 {
			p.mark(i, clsFinite|clsPosInf|clsNegInf|clsNaN) // fp64 itself overflowed
			continue
		}
		x := p.e[i]
		if extra != nil {
			x += extra[i]
		}
		halfS, halfV := float64(S[i]/2), float64(v/2)
		p.pos[i], p.neg[i] = halfS+halfV+x, halfS-halfV+x
		w := m.partial(p.pos[i], p.neg[i])
		if math.IsInf(p.v[i], 0) && w != 0 {
			w = clsNaN // beside an infinite operand an overflow can only make NaN
		}
		if w != 0 && p.v[i] == p.v[i] {
			p.mark(i, w)
		}
	}
}

func (p *product) mark(i int, w classes) {
	if p.w == nil {
		p.w = make([]classes, len(p.v))
	}
	p.w[i] |= w &^ classOf(p.v[i])
}

// operandErrors returns what the errors of the operands add: ae·|b| + |a|·be + ae·be. Nil: nothing.
func operandErrors(a, b matrix, s dotShape) []float64 {
	if a.e == nil && b.e == nil {
		return nil
	}
	sum := make([]float64, s.m*s.n)
	t := make([]float64, s.m*s.n)
	accumulate := func(x, y []float64) {
		gemm.Mul(t, x, y, s.m, s.n, s.k, gemm.Options{TransB: s.transB})
		for i, v := range t {
			sum[i] += v
		}
	}
	if a.e != nil {
		accumulate(a.e, magnitudes(b.v, b.e))
	}
	if b.e != nil {
		accumulate(magnitudes(a.v, nil), b.e)
	}
	return sum
}

// magnitudes returns |v| + e.
func magnitudes(v, e []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = abs(x)
		if e != nil {
			out[i] += e[i]
		}
	}
	return out
}

func largest(x []float64) float64 {
	top := 0.0
	for _, v := range x {
		top = math.Max(top, abs(v))
	}
	return top
}

func finitePart(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		if v-v == 0 {
			out[i] = v
		}
	}
	return out
}

// specials says which rows of a and columns of b hold NaN or infinities.
type specials struct {
	rowNaN, colNaN []bool
	doubt          []float64 // positive where an infinity meets a factor that may be read as zero; nil: nowhere
}

// specials looks at operands of which some are not finite.
func (m *arith) specials(a, b matrix, s dotShape) *specials {
	sp := &specials{rowNaN: make([]bool, s.m), colNaN: make([]bool, s.n)}
	for i, v := range a.v {
		if v != v {
			sp.rowNaN[i/s.k] = true
		}
	}
	for i, v := range b.v {
		if v != v {
			if s.transB {
				sp.colNaN[i/s.k] = true
			} else {
				sp.colNaN[i%s.n] = true
			}
		}
	}
	if a.e == nil && b.e == nil {
		return sp
	}
	sp.doubt = make([]float64, s.m*s.n)
	t := make([]float64, s.m*s.n)
	opt := gemm.Options{TransB: s.transB}
	gemm.Mul(sp.doubt, infinities(a.v), doubtfulZeros(b), s.m, s.n, s.k, opt)
	gemm.Mul(t, doubtfulZeros(a), infinities(b.v), s.m, s.n, s.k, opt)
	for i, v := range t {
		sp.doubt[i] += v
	}
	return sp
}

// apply settles the classes: a NaN operand is NaN for everyone; an infinity times a doubtful zero is open.
func (sp *specials) apply(p *product, s dotShape) {
	for i := range s.m {
		for j := range s.n {
			at := i*s.n + j
			switch {
			case sp.rowNaN[i] || sp.colNaN[j]:
				p.v[at], p.e[at] = math.NaN(), 0
				if p.w != nil {
					p.w[at] = 0
				}
			case sp.doubt != nil && sp.doubt[at] > 0:
				p.mark(at, clsFinite|clsPosInf|clsNegInf|clsNaN)
			}
		}
	}
}

func allFinite(x []float64) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// infinities returns 1 for each infinity and 0 elsewhere.
func infinities(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		if math.IsInf(v, 0) {
			out[i] = 1
		}
	}
	return out
}

// doubtfulZeros returns 1 for each element that is or may be read as zero but is not certain to be.
func doubtfulZeros(a matrix) []float64 {
	out := make([]float64, len(a.v))
	for i, v := range a.v {
		if a.e != nil && a.e[i] > 0 && a.e[i] >= abs(v) {
			out[i] = 1
		}
	}
	return out
}

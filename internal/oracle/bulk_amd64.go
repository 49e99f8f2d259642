//go:build !purego

// This file implements the choice of kernels on amd64.

package oracle

import (
	"math"

	"golang.org/x/sys/cpu"

	"gpuemu/internal/dtype"
)

// bulkCall holds the operands of one kernel. The assembly knows the layout.
type bulkCall struct {
	v, e, av, ae, bv, be *float64
	aStep, bStep         int // bytes from one group to the next
	n                    int
	rel, growth, top     float64 // of rounded: relative error, 1 + rel, and what the result stays below
	normal, tiny         float64
	sign                 uint64  // add: flips b
	least, most          float64 // div: of the divisor; exp: expArg and the limit of the argument's error; cap: the cap
}

// newBulkCall fills in what all kernels need.
func (m *arith) newBulkCall(dst, a, b bulk, rel float64) bulkCall {
	c := bulkCall{
		v: &dst.v[0], e: &dst.e[0], av: &a.v[0], ae: &a.e[0], bv: &b.v[0], be: &b.e[0],
		aStep: a.step(len(dst.v)), bStep: b.step(len(dst.v)), n: len(dst.v),
		rel: rel, growth: 1 + rel, top: math.Min(m.limit, noBound), normal: m.normal, tiny: m.tiny,
	}
	_ = dst.e[c.n-1]
	return c
}

// step returns how far the groups of a run of n elements are apart.
func (b bulk) step(n int) int {
	if len(b.v) == bulkLanes {
		_ = b.e[bulkLanes-1]
		return 0
	}
	_, _ = b.v[n-1], b.e[n-1]
	return 8 * bulkLanes
}

func (m *arith) addFast(dst, a, b bulk, sign uint64) (ok, done bool) {
	if !cpu.X86.HasAVX2 || m.store != dtype.Invalid {
		return false, false
	}
	c := m.newBulkCall(dst, a, b, m.u)
	c.sign = sign
	return addAVX2(&c), true
}

func (m *arith) mulFast(dst, a, b bulk) (ok, done bool) {
	if !cpu.X86.HasAVX2 || m.store != dtype.Invalid {
		return false, false
	}
	c := m.newBulkCall(dst, a, b, m.u)
	return mulAVX2(&c), true
}

func (m *arith) divFast(dst, a, b bulk, least float64) (ok, done bool) {
	if !cpu.X86.HasAVX2 || m.store != dtype.Invalid {
		return false, false
	}
	c := m.newBulkCall(dst, a, b, m.quot)
	c.least, c.most = least, math.Min(m.hugeDiv, noBound)
	return divAVX2(&c), true
}

func (m *arith) expFast(dst, a bulk) (ok, done bool) {
	if !cpu.X86.HasAVX2 || m.store != dtype.Invalid {
		return false, false
	}
	c := m.newBulkCall(dst, a, a, m.expRel)
	c.least, c.most = m.expArg, 0x1p-10 // from there on expError needs Expm1
	return expAVX2(&c), true
}

func capFast(a bulk, top float64) bool {
	if !cpu.X86.HasAVX2 {
		return false
	}
	c := bulkCall{v: &a.v[0], e: &a.e[:len(a.v)][0], n: len(a.v), least: top}
	capAVX2(&c)
	return true
}

func extentFast(x []float64, r *extent) int {
	n := len(x) &^ (bulkLanes - 1)
	if n == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	var s extentState
	extentAVX2(&x[0], n, &s)
	for i := range bulkLanes {
		r.min, r.max, r.least = math.Min(r.min, s.min[i]), math.Max(r.max, s.max[i]), math.Min(r.least, s.least[i])
		r.finite = r.finite && s.odd[i] == 0
	}
	return n
}

// groups replaces S by the error in the first groups of e, and returns how many elements those are. It ends before the
// first group that is not finite or near overflow.
func (b *dotBound) groups(v, e []float64) int {
	if n := len(v) &^ (bulkLanes - 1); n > 0 && cpu.X86.HasAVX2 {
		return dotBoundAVX2(b, &v[0], &e[:n][0], n)
	}
	return 0
}

// extentState is what extentAVX2 finds in each lane; odd is not zero where an element is not finite.
type extentState struct {
	min, max, least [bulkLanes]float64
	odd             [bulkLanes]uint64
}

// The kernels report whether all results are ordinary.

//go:noescape
func addAVX2(c *bulkCall) bool

//go:noescape
func mulAVX2(c *bulkCall) bool

//go:noescape
func divAVX2(c *bulkCall) bool

// expAVX2 finds the errors of exponentials that are in v.
//
//go:noescape
func expAVX2(c *bulkCall) bool

//go:noescape
func capAVX2(c *bulkCall)

// extentAVX2 looks at n elements, a multiple of bulkLanes.
//
//go:noescape
func extentAVX2(x *float64, n int, s *extentState)

// dotBoundAVX2 is plain for groups in which v is finite and S far from overflow.
//
//go:noescape
func dotBoundAVX2(b *dotBound, v, e *float64, n int) int

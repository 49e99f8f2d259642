// This file implements reductions: sums, dot products and maxima in every order, and the faults planted in them.

package honest

import "math"

const (
	lanes    = 32 // threads of a warp
	skipTile = 16 // terms that SkipTile forgets
)

// dropped returns which terms of a reduction of n terms are computed: the first keep ones without the one at skip
// (-1: none).
func (m *Machine) dropped(n int) (keep, skip int) {
	switch {
	case n == 0:
		return 0, -1
	case m.fault == DropTerm:
		return n, n / 2
	case m.fault == SkipTile:
		if n%skipTile == 0 {
			return n - skipTile, -1
		}
		return n - n%skipTile, -1
	}
	return n, -1
}

// faulty returns the terms of x that a machine with a fault adds; x itself without one. slot is scratch memory.
func (m *Machine) faulty(slot int, x []float64) []float64 {
	keep, skip := m.dropped(len(x))
	x = x[:keep]
	if skip < 0 {
		return x
	}
	out := m.scratch(slot, len(x)-1)
	copy(out, x[:skip])
	copy(out[skip:], x[skip+1:])
	return out
}

// acc adds a term to an accumulator.
func (m *Machine) acc(sum, x float64) float64 {
	m.inner++ // a running sum is no result
	r := m.Add(sum, x)
	m.inner--
	if m.fault == NarrowAcc {
		r = m.Cast(r, m.accT)
	}
	return r
}

// accMul adds a product to an accumulator.
func (m *Machine) accMul(x, y, sum float64) float64 {
	m.inner++
	r := m.MulAdd(x, y, sum)
	m.inner--
	if m.fault == NarrowAcc {
		r = m.Cast(r, m.accT)
	}
	return r
}

// Sum returns the sum of x in the machine's order, 0 if there is nothing to add.
func (m *Machine) Sum(x []float64) float64 {
	if m.composite() {
		return m.whole(func() float64 { return m.Sum(x) })
	}
	if m.fault != NoFault {
		x = m.faulty(0, x)
	}
	switch m.style.Order {
	case Pairwise:
		return m.sumPairs(x)
	case Blocked:
		return m.sumLanes(x)
	case Reversed:
		s := 0.0
		for i := len(x) - 1; i >= 0; i-- {
			s = m.acc(s, x[i])
		}
		return s
	}
	if !m.f64 && !m.ftz && m.fault != NarrowAcc {
		var s float32
		for _, v := range x {
			s += float32(v)
		}
		return float64(s)
	}
	s := 0.0
	for _, v := range x {
		s = m.acc(s, v)
	}
	return s
}

func (m *Machine) sumPairs(x []float64) float64 {
	switch len(x) {
	case 0:
		return 0
	case 1:
		return x[0]
	case 2:
		return m.acc(x[0], x[1])
	}
	h := len(x) / 2
	return m.acc(m.sumPairs(x[:h]), m.sumPairs(x[h:]))
}

func (m *Machine) sumLanes(x []float64) float64 {
	var lane [lanes]float64
	for i, v := range x {
		lane[i%lanes] = m.acc(lane[i%lanes], v)
	}
	return m.sumTree(&lane)
}

// sumTree adds the lanes as shuffles within a warp do.
func (m *Machine) sumTree(lane *[lanes]float64) float64 {
	for h := lanes / 2; h > 0; h /= 2 {
		for i := range h {
			lane[i] = m.acc(lane[i], lane[i+h])
		}
	}
	return lane[0]
}

// Dot returns the sum of x[i]*y[i]. narrow says that both are values of the case's dtype, so that a tensor core may
// do it.
func (m *Machine) Dot(x, y []float64, narrow bool) float64 {
	if m.composite() {
		return m.whole(func() float64 { return m.DotFrom(0, x, y, narrow) })
	}
	return m.DotFrom(0, x, y, narrow)
}

// DotFrom returns c plus the sum of x[i]*y[i], which is a running sum: Dot stores it.
func (m *Machine) DotFrom(c float64, x, y []float64, narrow bool) float64 {
	m.inner++
	defer func() { m.inner-- }()
	if m.fault != NoFault {
		x, y = m.faulty(1, x), m.faulty(2, y)
	}
	if narrow && m.tf32 != NoTF32 {
		x, y = m.allTF32(12, x), m.allTF32(13, y)
	}
	if narrow && m.tc != NoTC && m.fault != NarrowAcc {
		return m.tensorDot(c, x, y)
	}
	y = y[:len(x)]
	switch m.style.Order {
	case Pairwise:
		return m.start(c, m.dotPairs(x, y))
	case Blocked:
		var lane [lanes]float64
		for i, v := range x {
			lane[i%lanes] = m.accMul(v, y[i], lane[i%lanes])
		}
		return m.start(c, m.sumTree(&lane))
	case Reversed:
		for i := len(x) - 1; i >= 0; i-- {
			c = m.accMul(x[i], y[i], c)
		}
		return c
	}
	if !m.f64 && !m.ftz && m.fault != NarrowAcc {
		return float64(m.dotChain(float32(c), x, y))
	}
	for i, v := range x {
		c = m.accMul(v, y[i], c)
	}
	return c
}

// start adds what the accumulator started from.
func (m *Machine) start(c, sum float64) float64 {
	if c == 0 {
		return sum
	}
	return m.acc(c, sum)
}

// dotChain is the plain loop in float32.
func (m *Machine) dotChain(c float32, x, y []float64) float32 {
	if m.fma {
		for i, v := range x {
			c = fma32(float32(v), float32(y[i]), c)
		}
		return c
	}
	for i, v := range x {
		c += float32(float32(v) * float32(y[i]))
	}
	return c
}

func (m *Machine) dotPairs(x, y []float64) float64 {
	switch len(x) {
	case 0:
		return 0
	case 1:
		return m.Mul(x[0], y[0])
	case 2:
		return m.accMul(x[1], y[1], m.Mul(x[0], y[0]))
	}
	h := len(x) / 2
	return m.acc(m.dotPairs(x[:h], y[:h]), m.dotPairs(x[h:], y[h:]))
}

// RowMax returns the maximum, -Inf of nothing. It is never faulty in which terms it reads: softmax does not depend
// on them.
func (m *Machine) RowMax(x []float64) float64 {
	r := math.Inf(-1)
	for _, v := range x {
		r = m.Max(r, v)
	}
	return r
}

// reduceMax is RowMax where the maximum is itself the result, with the faults of a reduction.
func (m *Machine) reduceMax(x []float64) float64 {
	if m.fault != NoFault {
		x = m.faulty(0, x)
	}
	return m.RowMax(x)
}

// mean returns the mean of n values whose sum is given.
func (m *Machine) mean(sum float64, n int) float64 { return m.Div(sum, m.count(n)) }

// count is a number of elements, which no implementation rounds to a narrow type.
func (m *Machine) count(n int) float64 {
	if m.f64 {
		return float64(n) * m.k
	}
	return float64(float32(float64(n) * m.k))
}

// moments returns the mean of x and the sum of squared distances from it: in two passes, or by Welford's method
// (AltMain) with Chan's rule for joining parts.
func (m *Machine) moments(x []float64) (mean, m2 float64) {
	if m.alt(AltMain) {
		if m.fault != NoFault {
			x = m.faulty(0, x)
		}
		m.inner++
		w := m.welford(x)
		m.inner--
		return m.keep(w.mean), m.keep(w.m2)
	}
	mean = m.mean(m.Sum(x), len(x))
	d := m.scratch(3, len(x))
	for i, v := range x {
		d[i] = m.Sub(v, mean)
	}
	return mean, m.Dot(d, d, false)
}

// partial is Welford's state after n values.
type partial struct{ n, mean, m2 float64 }

// push takes one more value. The first one is the mean as it stands, x/1, and x·(x-x) is NaN if it is infinite.
func (m *Machine) push(p *partial, x float64) {
	if p.n++; p.n == 1 {
		p.mean, p.m2 = x, m.Mul(x, m.Sub(x, x))
		return
	}
	delta := m.Sub(x, p.mean)
	p.mean = m.acc(p.mean, m.Div(delta, p.n))
	p.m2 = m.accMul(delta, m.Sub(x, p.mean), p.m2)
}

// join merges two parts (Chan, Golub and LeVeque, 1983).
func (m *Machine) join(p, q partial) partial {
	switch {
	case q.n == 0:
		return p
	case p.n == 0:
		return q
	}
	n := p.n + q.n
	delta := m.Sub(q.mean, p.mean)
	share := m.Div(q.n, n)
	return partial{
		n:    n,
		mean: m.accMul(delta, share, p.mean),
		m2:   m.accMul(m.Mul(delta, delta), m.Mul(p.n, share), m.acc(p.m2, q.m2)),
	}
}

func (m *Machine) welford(x []float64) partial {
	switch m.style.Order {
	case Pairwise:
		if len(x) <= 4 {
			break
		}
		h := len(x) / 2
		return m.join(m.welford(x[:h]), m.welford(x[h:]))
	case Blocked:
		var lane [lanes]partial
		for i, v := range x {
			m.push(&lane[i%lanes], v)
		}
		for h := lanes / 2; h > 0; h /= 2 {
			for i := range h {
				lane[i] = m.join(lane[i], lane[i+h])
			}
		}
		return lane[0]
	case Reversed:
		var p partial
		for i := len(x) - 1; i >= 0; i-- {
			m.push(&p, x[i])
		}
		return p
	}
	var p partial
	for _, v := range x {
		m.push(&p, v)
	}
	return p
}

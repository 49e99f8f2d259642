// This file implements vacuity: whether a comparison could have told the expected values from garbage.

package compare

import (
	"fmt"
	"math"

	"gpuemu/internal/dtype"
)

// Garbage is a kind of output that no kernel computes on purpose, made from the expected values alone.
type Garbage uint8

const (
	// NoGarbage is the zero value.
	NoGarbage Garbage = iota
	// Zeros is 0 everywhere: an output that was never written.
	Zeros
	// Constant is the mean of the finite determined values everywhere, rounded to the dtype of the output.
	Constant
	// SwappedRows exchanges rows 2i and 2i+1. A row lies along the last axis; all other axes together count rows.
	SwappedRows
	// SwappedPair exchanges the first two rows alone.
	SwappedPair

	garbageKinds
)

// String returns the garbage in words that fit "... would have passed too".
func (g Garbage) String() string {
	names := [garbageKinds]string{"nothing", "zeros", "the mean of the wanted values everywhere",
		"wanted values with neighboring rows swapped", "wanted values with the first two rows swapped"}
	if g >= garbageKinds {
		return fmt.Sprintf("Garbage(%d)", uint8(g))
	}
	return names[g]
}

// Vacuity says how much of a comparison garbage would have passed.
//
// Garbage really differs from an expected value when the two are more than one unit in the last place of the output
// dtype apart, or of different classes (finite, NaN, an infinity). An element is vacuous if some garbage really differs
// there and is accepted all the same. Elements on which the contract does not decide are left out.
type Vacuity struct {
	Determined int // elements on which the contract decides
	Elements   int // of these, the vacuous ones
	// Passed is the first kind of garbage that differs somewhere and that the comparison accepts as a whole.
	Passed Garbage
	// Differing is the number of elements in which that garbage differs.
	Differing int
	// Mostly says that more than half of the elements are vacuous under bounds, which claim to be right for each of
	// them. A tolerance is set for the values that count: below its absolute part it is blind by intention.
	Mostly bool
}

// Vacuous reports whether a pass says nothing: some garbage would have got it as well, or most elements accept some.
func (v Vacuity) Vacuous() bool { return v.Passed != NoGarbage || v.Mostly }

// String says what garbage the comparison would accept, with counts; "" where it is not vacuous.
func (v Vacuity) String() string {
	switch {
	case v.Passed != NoGarbage:
		return fmt.Sprintf("%s would have passed too: all %d elements that differ from the wanted values lie within the "+
			"tolerance", v.Passed, v.Differing)
	case v.Mostly:
		return fmt.Sprintf("%d of %d determined elements would accept zeros, the mean or a neighboring row too", v.Elements,
			v.Determined)
	}
	return ""
}

// MeasureVacuity applies the acceptance rule of Compare with the same arguments to garbage instead of an output.
//
// An exact output is never vacuous. An index is judged by the scores: one that is as good as the wanted one is a right
// answer and no garbage, one that is worse and accepted for the errors of the scores is vacuous.
func MeasureVacuity(want *Want, opt Options) (Vacuity, error) {
	p, err := wantPlan(want, nil, opt)
	if err != nil {
		return Vacuity{}, err
	}
	if want.Ties != nil {
		return p.tieVacuity()
	}
	m := &vacuityPass{p: p, rows: newRows(want)}
	m.count.Determined = p.n
	for _, u := range want.Undetermined {
		if u {
			m.count.Determined--
		}
	}
	if p.exact() {
		return m.count, nil
	}
	if m.rows.paired == 0 { // there is nothing to swap
		m.refused[SwappedRows], m.refused[SwappedPair] = true, true
	}
	m.mean = p.meanWanted()
	m.unit, m.sub = p.d.UnitRoundoff(), p.d.SmallestSubnormal()
	if !p.d.IsFloat() {
		m.unit, m.sub = 0, 1 // half of one is the error of rounding to an integer
	}
	if err := m.run(); err != nil {
		return Vacuity{}, err
	}
	for g := Zeros; g < garbageKinds; g++ {
		if m.differ[g] > 0 && !m.refused[g] {
			m.count.Passed, m.count.Differing = g, m.differ[g]
			break
		}
	}
	m.count.Mostly = p.regime == Bound && 2*m.count.Elements > m.count.Determined
	return m.count, nil
}

// exact reports whether nothing but the wanted value itself is accepted anywhere.
func (p *plan) exact() bool {
	if p.wantULP && p.d.IsFloat() {
		return false
	}
	return p.regime == Bound && p.want.Bound == nil || p.regime != Bound && p.tol == Tolerance{}
}

// meanWanted returns the mean of the finite determined values as the output dtype has it.
func (p *plan) meanWanted() float64 {
	mean := p.meanOf(1)
	if math.IsInf(mean, 0) || mean != mean { // the sum overflows, the sum of smaller terms does not
		mean = p.meanOf(1 / float64(p.n))
	}
	mean = max(p.minFinite(), min(p.maxFinite, mean))
	return p.d.Float64(p.d.Bits(mean))
}

// meanOf sums the values times scale, a chunk at a time.
func (p *plan) meanOf(scale float64) float64 {
	buf := newBuffers(p.n)
	var exact sum
	total, count := 0.0, 0
	for lo := 0; lo < p.n; lo += chunkElems {
		n := min(chunkElems, p.n-lo)
		want, marks := buf.loadWant(p, lo, n), p.marks(lo, n)
		if p.d == dtype.Float64 { // the mean of equal values is that value, to the last digit
			count += sumExactly(&exact, want, marks, scale)
			continue
		}
		sum, terms := sumOf(want, scale), n
		if marks != nil || !(math.Abs(sum) <= math.MaxFloat64) {
			sum, terms = sumFinite(want, marks, scale)
		}
		total += sum
		count += terms
	}
	if count == 0 {
		return 0
	}
	return (total + exact.value()) / (float64(count) * scale)
}

// sumExactly adds the finite determined values to a compensated sum and returns how many they are.
func sumExactly(s *sum, want []float64, marks []bool, scale float64) (terms int) {
	for i, w := range want {
		if math.Abs(w) <= math.MaxFloat64 && (marks == nil || !marks[i]) {
			s.add(float64(w * scale))
			terms++
		}
	}
	return terms
}

// sumOf adds four sums at a time: one would wait for each addition.
func sumOf(want []float64, scale float64) float64 {
	var s0, s1, s2, s3 float64
	for len(want) >= 4 {
		s0 += float64(want[0] * scale)
		s1 += float64(want[1] * scale)
		s2 += float64(want[2] * scale)
		s3 += float64(want[3] * scale)
		want = want[4:]
	}
	for _, w := range want {
		s0 += float64(w * scale)
	}
	return s0 + s1 + (s2 + s3)
}

func sumFinite(want []float64, marks []bool, scale float64) (sum float64, terms int) {
	for i, w := range want {
		if math.Abs(w) <= math.MaxFloat64 && (marks == nil || !marks[i]) {
			sum += float64(w * scale)
			terms++
		}
	}
	return sum, terms
}

// rows is the order of rows: how long one is and how many there are in pairs.
type rows struct{ length, paired int }

// newRows takes the elements of an output of one axis for rows of one element.
func newRows(w *Want) rows {
	r := rows{length: 1}
	if len(w.Shape) > 1 {
		r.length = max(w.Shape[len(w.Shape)-1], 1)
	}
	r.paired = w.Shape.Elems() / r.length &^ 1
	return r
}

// partner returns the element that a swap of rows puts into place i, i itself in a last row without a partner.
func (r rows) partner(i int) int {
	switch row := i / r.length; {
	case row >= r.paired:
		return i
	case row&1 == 0:
		return i + r.length
	}
	return i - r.length
}

// vacuityPass goes over the expected values once. Almost every element refuses all garbage by far, which takes a few
// subtractions to see; only the others are rounded to the dtype and judged.
type vacuityPass struct {
	p         *plan
	rows      rows
	mean      float64
	unit, sub float64 // rounding x moves it by at most unit*|x| + sub
	buf       *buffers
	other     *buffers
	differ    [garbageKinds]int
	refused   [garbageKinds]bool // some element where it really differs is wrong
	count     Vacuity
}

func (m *vacuityPass) run() error {
	m.buf, m.other = newBuffers(m.p.n), newBuffers(m.p.n)
	for lo := 0; lo < m.p.n; {
		n := m.stretch(lo)
		c := chunk{lo: lo}
		m.buf.loadExpected(m.p, &c, n)
		c.undetermined = m.p.marks(lo, n)
		swapped := c.want
		if at := m.rows.partner(lo); at != lo {
			swapped = m.swapped(at, n)
		}
		if err := m.chunk(&c, swapped); err != nil {
			return err
		}
		lo += n
	}
	return nil
}

// shortRow is the length of rows up to which several are taken together, in pairs.
const shortRow = 128

// stretch returns how many elements from lo on are taken together: short rows in pairs, as many as a chunk holds, a
// part of a longer row, or what has no partner.
func (m *vacuityPass) stretch(lo int) int {
	most := min(chunkElems, m.p.n-lo)
	end := m.rows.paired * m.rows.length
	switch {
	case lo >= end:
		return most
	case m.rows.length <= shortRow:
		return min(most/(2*m.rows.length)*2*m.rows.length, end-lo)
	}
	return min(most, m.rows.length-lo%m.rows.length)
}

// swapped reads what a swap puts into n places; at is the partner of the first of them.
func (m *vacuityPass) swapped(at, n int) []float64 {
	l := m.rows.length
	c := chunk{lo: at}
	if l > shortRow {
		m.other.loadExpected(m.p, &c, n)
		return c.want
	}
	c.lo -= l
	m.other.loadExpected(m.p, &c, n)
	out := m.other.use(&m.other.got, n)
	for i := 0; i < n; i += 2 * l {
		copy(out[i:i+l], c.want[i+l:i+2*l])
		copy(out[i+l:i+2*l], c.want[i:i+l])
	}
	return out
}

// chunk looks at the elements of one chunk: at all of them until each kind of garbage is refused somewhere, then at
// those that may accept some.
func (m *vacuityPass) chunk(c *chunk, swapped []float64) error {
	first := 2 * m.rows.length // elements below it are in the first pair of rows
	if m.rows.paired == 0 {
		first = 0
	}
	for i := 0; i < len(c.want); i++ {
		settled := m.refused[Zeros] && m.refused[Constant] && m.refused[SwappedRows]
		if settled && (c.lo+i >= first || m.refused[SwappedPair]) {
			if i += m.near(c.want[i:], swapped[i:], c.bound[i:]); i == len(c.want) {
				break
			}
		}
		if c.undetermined != nil && c.undetermined[i] {
			continue
		}
		if err := m.judge(c, i, swapped[i], c.lo+i < first); err != nil {
			return err
		}
	}
	return nil
}

// near returns the place of the first element for which some garbage may lie within the bound, else their number. A
// distance of NaN is near.
func (m *vacuityPass) near(want, swapped, bound []float64) int {
	constant, unit, sub, most := m.mean, m.unit, m.sub, m.p.maxFinite
	swapped, bound = swapped[:len(want)], bound[:len(want)]
	for i, w := range want {
		other := math.Abs(swapped[i])
		reach := bound[i] + (float64(unit*other) + sub)
		far := math.Abs(w) > reach && math.Abs(constant-w) > reach && math.Abs(swapped[i]-w) > reach && other <= most
		if !far {
			return i
		}
	}
	return len(want)
}

// judge puts every kind of garbage into one element.
func (m *vacuityPass) judge(c *chunk, i int, other float64, first bool) error {
	w, vacuous := c.want[i], false
	rounded := m.p.d.Float64(m.p.d.Bits(other))
	for g := Zeros; g < garbageKinds; g++ {
		got := [garbageKinds]float64{Constant: m.mean, SwappedRows: rounded, SwappedPair: rounded}[g]
		if g == SwappedPair && !first || !reallyDiffers(m.p.d, got, w) {
			continue
		}
		m.differ[g]++
		k, ok := m.p.judge(got, w, c.bound[i], false)
		if !ok {
			return m.p.badBound(c.lo+i, c.bound[i])
		}
		if wrong, _ := m.p.wrong(k); wrong {
			m.refused[g] = true
			continue
		}
		vacuous = true
	}
	if vacuous {
		m.count.Elements++
	}
	return nil
}

// reallyDiffers reports whether got, a value of d, is more than one step of d away from want, or of another class.
func reallyDiffers(d dtype.DType, got, want float64) bool {
	bits := d.Bits(want)
	near := d.Float64(bits)
	switch {
	case got == near || got != got && near != near:
		return false
	case math.Abs(got) <= math.MaxFloat64 && math.Abs(near) <= math.MaxFloat64:
		return d.ULPDistance(d.Bits(got), bits) > 1
	}
	return true
}

// tieVacuity judges garbage indexes. With exact scores an accepted index is a right answer.
func (p *plan) tieVacuity() (Vacuity, error) {
	t := p.want.Ties
	v := Vacuity{Determined: p.n}
	for _, u := range p.want.Undetermined {
		if u {
			v.Determined--
		}
	}
	if t.Slack == nil || p.n == 0 {
		return v, nil
	}
	vacuous := make([]bool, p.n)
	for g := Zeros; g < garbageKinds; g++ {
		own := *p
		own.got = p.tieGarbage(g)
		differ, refused, err := own.tieKinds(vacuous)
		if err != nil {
			return v, err
		}
		if differ > 0 && !refused && v.Passed == NoGarbage {
			v.Passed, v.Differing = g, differ
		}
	}
	for _, is := range vacuous {
		if is {
			v.Elements++
		}
	}
	v.Mostly = 2*v.Elements > v.Determined
	return v, nil
}

// tieKinds judges the garbage in p.got and marks its vacuous elements.
func (p *plan) tieKinds(vacuous []bool) (differ int, refused bool, err error) {
	t := p.want.Ties
	row := &tieRow{t: t, got: make([]int, t.K), want: make([]int, t.K), kinds: make([]Kind, t.K),
		errs: make([]tieError, t.K), taken: make([]int, t.N)}
	for r := range t.Rows {
		row.number, row.score = r, t.Score[r*t.N:(r+1)*t.N]
		row.slack = t.Slack[r*t.N : (r+1)*t.N]
		if err := row.judgeAll(p); err != nil {
			return 0, false, err
		}
		for j, k := range row.kinds {
			at := r*t.K + j
			if p.want.Undetermined != nil && p.want.Undetermined[at] {
				continue
			}
			wrong, _ := p.wrong(k)
			switch {
			case wrong:
				differ, refused = differ+1, true
			case row.got[j] != row.want[j] && row.score[row.got[j]] != row.score[row.want[j]]:
				differ++
				vacuous[at] = true
			}
		}
	}
	return differ, refused, nil
}

// tieGarbage returns the bytes of an output of garbage indexes.
func (p *plan) tieGarbage(g Garbage) []byte {
	size, rows := p.d.Size(), newRows(p.want)
	wanted := make([]float64, p.n)
	buf := newBuffers(p.n)
	for lo := 0; lo < p.n; lo += chunkElems {
		n := min(chunkElems, p.n-lo)
		copy(wanted[lo:], buf.loadWant(p, lo, n))
	}
	out := make([]float64, p.n)
	switch g {
	case Constant:
		mean := p.meanWanted()
		for i := range out {
			out[i] = mean
		}
	case SwappedRows, SwappedPair:
		for i := range out {
			out[i] = wanted[i]
			if g == SwappedRows || i < 2*rows.length {
				out[i] = wanted[rows.partner(i)]
			}
		}
	}
	raw := make([]byte, size*p.n)
	dtype.Encode(raw, p.d, out)
	return raw
}

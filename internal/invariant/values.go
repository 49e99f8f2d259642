package invariant

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// chunk is how many elements are widened at a time.
const chunk = 2048

// elements reads an output as float64 in row-major order, a piece at a time.
type elements struct {
	d    dtype.DType
	raw  []byte
	buf  []float64
	vals []float64 // what is float64 already: nothing is read then
}

// bytes returns the elements as they lie in row-major order.
func (c *Context) bytes() []byte {
	if c.values != nil {
		return tensor.FromFloat64s(dtype.Float64, c.Output.Shape, c.values).Data
	}
	return c.Output.Bytes()
}

// at returns the element at position i of bytes in row-major order.
func at(d dtype.DType, raw []byte, i int) float64 { return d.Float64(d.Load(raw[i*d.Size():])) }

// elements prepares pieces of at most that many elements.
func (c *Context) elements(most int) *elements {
	if c.values != nil {
		return &elements{vals: c.values}
	}
	return &elements{d: c.Output.DType, raw: c.Output.Bytes(), buf: make([]float64, most)}
}

// read returns n elements from position lo. They are valid until the next read.
func (e *elements) read(lo, n int) []float64 {
	if e.vals != nil {
		return e.vals[lo : lo+n]
	}
	size := e.d.Size()
	dtype.Decode(e.buf[:n], e.d, e.raw[lo*size:(lo+n)*size])
	return e.buf[:n]
}

// looks are what one pass over an output answers for several invariants.
type looks struct {
	of     *tensor.Tensor
	finite bool // no element is NaN or infinite
	signed bool // some element has its sign bit set
}

// look passes over a float output, unless that was done before.
func (c *Context) look() *looks {
	if c.looks != nil && c.looks.of == c.Output {
		return c.looks
	}
	n := c.Output.Shape.Elems()
	all := c.elements(min(n, chunk))
	var zero float64 // x - x is 0 for finite numbers and NaN for others
	var bits uint64
	for lo := 0; lo < n; lo += chunk {
		vals := all.read(lo, min(chunk, n-lo))
		var z0, z1, z2, z3 float64
		for ; len(vals) >= 4; vals = vals[4:] {
			z0, z1 = z0+(vals[0]-vals[0]), z1+(vals[1]-vals[1])
			z2, z3 = z2+(vals[2]-vals[2]), z3+(vals[3]-vals[3])
			bits |= math.Float64bits(vals[0]) | math.Float64bits(vals[1]) | math.Float64bits(vals[2]) | math.Float64bits(vals[3])
		}
		for _, x := range vals {
			z0 += x - x
			bits |= math.Float64bits(x)
		}
		zero += z0 + z1 + z2 + z3
	}
	c.looks = &looks{of: c.Output, finite: zero == 0, signed: bits>>63 != 0}
	return c.looks
}

// search returns the position of the first element that is bad, its value, and how many there are: position -1 where
// there is none. first returns where in a piece the first bad element stands, or -1.
func (c *Context) search(first func(vals []float64) int) (position int, value float64, count int) {
	n := c.Output.Shape.Elems()
	all := c.elements(min(n, chunk))
	position = -1
	for lo := 0; lo < n; lo += chunk {
		vals := all.read(lo, min(chunk, n-lo))
		for skip := 0; ; count++ {
			i := first(vals[skip:])
			if i < 0 {
				break
			}
			if skip += i + 1; position < 0 {
				position, value = lo+skip-1, vals[skip-1]
			}
		}
	}
	return position, value, count
}

// checkElements checks the invariants that look at one element at a time.
func checkElements(iv Invariant, c *Context) Result {
	t := c.Output
	if t == nil {
		return notApplicable("there is no output")
	}
	if iv.Name == "bounded" && t.DType.Size() == 8 && t.DType.IsInteger() {
		return checkWideBounds(iv, t)
	}
	if !t.DType.IsFloat() && iv.Name != "non_negative" && iv.Name != "bounded" {
		return holds() // integers and bool have neither NaN nor infinities
	}
	if t.DType.IsFloat() && iv.Name != "bounded" {
		if l := c.look(); l.finite && !(l.signed && iv.Name == "non_negative") {
			return holds()
		}
	}
	first, what := elementRule(iv, t.DType)
	position, value, count := c.search(first)
	if position < 0 {
		return holds()
	}
	idx := t.Shape.Unravel(position)
	return violated(idx, "%d of %d elements %s, the first at %v: %v", count, t.Shape.Elems(), what, idx, value)
}

// elementRule returns what finds the first bad element, and how to say it. Each rule has a loop of its own: a call for
// each element would take longer than the rule. The limits of bounded are rounded to the dtype: a wanted value within
// the limits is rounded to one within the rounded limits.
func elementRule(iv Invariant, d dtype.DType) (first func(vals []float64) int, what string) {
	switch iv.Name {
	case "non_negative":
		return func(vals []float64) int {
			for i, x := range vals {
				if !(x >= 0) {
					return i
				}
			}
			return -1
		}, "are not >= 0"
	case "finite":
		return func(vals []float64) int {
			for i, x := range vals {
				if !(math.Abs(x) <= math.MaxFloat64) {
					return i
				}
			}
			return -1
		}, "are not finite"
	case "no_nan":
		return func(vals []float64) int { return slices.IndexFunc(vals, isNaN) }, "are NaN"
	case "no_inf":
		return func(vals []float64) int { return slices.IndexFunc(vals, isInf) }, "are infinite"
	}
	lo, hi := iv.Lo, iv.Hi
	if d.IsFloat() {
		lo, hi = d.Float64(d.BitsSaturating(lo)), d.Float64(d.BitsSaturating(hi))
		if math.IsInf(iv.Lo, -1) {
			lo = iv.Lo
		}
		if math.IsInf(iv.Hi, 1) {
			hi = iv.Hi
		}
	}
	return func(vals []float64) int {
		for i, x := range vals {
			if !(lo <= x && x <= hi) {
				return i
			}
		}
		return -1
	}, "are out of bounds"
}

// checkWideBounds is bounded for 64-bit integers, which float64 would round across a limit.
func checkWideBounds(iv Invariant, t *tensor.Tensor) Result {
	raw := t.Bytes()
	below := func(b uint64) bool { return compareWide(t.DType, b, iv.Lo) < 0 }
	above := func(b uint64) bool { return compareWide(t.DType, b, iv.Hi) > 0 }
	first, n := -1, 0
	for i := range t.Shape.Elems() {
		b := binary.LittleEndian.Uint64(raw[8*i:])
		if below(b) || above(b) {
			n++
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return holds()
	}
	idx := t.Shape.Unravel(first)
	return violated(idx, "%d of %d elements are out of bounds, the first at %v: %v", n, t.Shape.Elems(), idx, t.At(idx...))
}

// compareWide compares a 64-bit integer with a float64 exactly.
func compareWide(d dtype.DType, b uint64, x float64) int {
	top, low := 0x1p64, 0.0
	if d == dtype.Int64 {
		top, low = 0x1p63, -0x1p63
	}
	switch {
	case x >= top:
		return -1
	case x < low:
		return 1
	}
	// The integer part of x is now a value of the type, and its fraction, if any, lies above it.
	floor := math.Floor(x)
	var sign int
	if d == dtype.Int64 {
		sign = cmp.Compare(int64(b), int64(floor))
	} else {
		sign = cmp.Compare(b, uint64(floor))
	}
	if sign == 0 && floor != x {
		return -1
	}
	return sign
}

// bounds returns the error bound of the reference at position i, 0 where there is none.
func (c *Context) bound(i int) float64 {
	if c.Want == nil || len(c.Want.Bound) == 0 || i >= len(c.Want.Bound) || !(c.Want.Bound[i] >= 0) {
		return 0
	}
	return c.Want.Bound[i]
}

// rowsLast returns the context with the axis of the rows last in the output.
func (c *Context) rowsLast() (*Context, error) {
	if c.Behind == 0 || c.Output == nil {
		return c, nil
	}
	rank := len(c.Output.Shape)
	at := rank - 1 - c.Behind
	if at < 0 {
		return nil, fmt.Errorf("%d axes behind that of the rows of an output of shape %s", c.Behind, c.Output.Shape)
	}
	var perm []int
	for i := range rank {
		if i != at {
			perm = append(perm, i)
		}
	}
	whole := c.Output
	if c.values != nil { // of the reference: the tensor has no bytes
		whole = tensor.FromFloat64s(dtype.Float64, whole.Shape, c.values)
	}
	view, err := whole.Transpose(append(perm, at)...)
	if err != nil {
		return nil, err
	}
	moved := *c
	moved.Behind, moved.Output, moved.values = 0, view.Contiguous(), nil
	return &moved, nil
}

// checkNormalized checks sums along the axis of the rows. See sumTolerance for how far they may be from 1.
func checkNormalized(_ Invariant, c *Context) Result {
	switch {
	case c.Output == nil:
		return notApplicable("there is no output")
	case len(c.Output.Shape) == 0:
		return notApplicable("a scalar has no last axis")
	}
	c, err := c.rowsLast()
	if err != nil {
		return notApplicable("%v", err)
	}
	t := c.Output
	n := t.Shape[len(t.Shape)-1]
	if n == 0 {
		return notApplicable("the last axis is empty")
	}
	d := t.DType
	if c.Want != nil {
		d = c.Want.DType // of the reference's own output, which is wider, nothing more is asked than of the kernel's
	}
	tol := sumTolerance(d, n)
	if tol >= 1 {
		return notApplicable("a sum of %d elements of %s may be off by rounding alone as much as %.3g", n, d, tol)
	}
	rows := t.Shape.Elems() / n
	all := c.elements(n)
	first, wrong := -1, 0
	var firstSum float64
	for r := range rows {
		vals := all.read(r*n, n)
		if clearlyOne(vals, tol) {
			continue
		}
		if s := total(vals); !(math.Abs(s-1) <= tol) {
			wrong++
			if first < 0 {
				first, firstSum = r, s
			}
		}
	}
	if first < 0 {
		return holds()
	}
	idx := t.Shape[:len(t.Shape)-1].Unravel(first)
	return violated(idx, "%d of %d rows do not sum to 1, the first at %v sums to %.9g, allowed is 1±%.3g", wrong, rows,
		idx, firstSum, tol)
}

// clearlyOne reports whether a plain sum shows already that total is within tol of 1: the errors of a plain sum of n
// elements are at most n units of the sum of magnitudes (Higham, section 4.2), as is that of the magnitudes themselves,
// and those of total are smaller still. False says nothing.
func clearlyOne(vals []float64, tol float64) bool {
	n := float64(len(vals))
	var s0, s1, s2, s3, m0, m1, m2, m3 float64 // one chain of additions would wait for itself
	for ; len(vals) >= 4; vals = vals[4:] {
		s0, m0 = s0+vals[0], m0+math.Abs(vals[0])
		s1, m1 = s1+vals[1], m1+math.Abs(vals[1])
		s2, m2 = s2+vals[2], m2+math.Abs(vals[2])
		s3, m3 = s3+vals[3], m3+math.Abs(vals[3])
	}
	for _, x := range vals {
		s0, m0 = s0+x, m0+math.Abs(x)
	}
	s, m := s0+s1+s2+s3, m0+m1+m2+m3
	return math.Abs(s-1)+float64(4*(n+4)*0x1p-53*m) <= tol
}

// total adds in pairs of a sum and its compensation (Neumaier), so that its own error is below all tolerances.
func total(vals []float64) float64 {
	var s, c float64
	for _, x := range vals {
		t := s + x
		if math.Abs(s) >= math.Abs(x) {
			c += (s - t) + x
		} else {
			c += (x - t) + s
		}
		s = t
	}
	if isInf(s) || isNaN(s) {
		return s
	}
	return s + c
}

// sumTolerance bounds |sum - 1| for n outputs of dtype d that an honest kernel normalised.
//
// With e_i the numerators as computed and S their computed sum, each output is e_i/S with an error of the division or
// of an approximate reciprocal and a product, at most 4 u_a relative, and is rounded to d: u relative, or half the
// subnormal spacing h where it underflows. In any order of summation S = (sum of e_i)(1 + t) with |t| <= (n-1) u_a to
// first order (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2), since all e_i are positive.
// Numerators that are computed a second time may differ by their own error: for exp as ex2(x log2 e) that is 4 u_a plus
// |x| u_a with x the distance to the maximum, and the sum of p|x| over the distribution p = exp(x)/S is at most log n,
// below n. Together u + (2n + 8) u_a + n h; u_a is that of float32, of float64 for float64 outputs. Doubled, to cover
// the terms of second order and a rescaled sum of blocks. Integers and bool are exact.
func sumTolerance(d dtype.DType, n int) float64 {
	if !d.IsFloat() {
		return 0
	}
	acc := dtype.Float32
	if d == dtype.Float64 {
		acc = dtype.Float64
	}
	nf := float64(n)
	return 2 * (d.UnitRoundoff() + float64((float64(2*nf)+8)*acc.UnitRoundoff()) + float64(nf*d.HalfULP(0)))
}

// checkSymmetric compares each matrix of the last two dimensions with its transpose. The two elements of a pair may be
// computed in different orders, so each may err by its bound; without bounds the default tolerance of the dtype holds.
func checkSymmetric(_ Invariant, c *Context) Result {
	t := c.Output
	switch {
	case t == nil:
		return notApplicable("there is no output")
	case len(t.Shape) < 2 || t.Shape[len(t.Shape)-1] != t.Shape[len(t.Shape)-2]:
		return notApplicable("the shape %s has no square matrices", t.Shape)
	}
	n := t.Shape[len(t.Shape)-1]
	tol := compare.DefaultTolerance(t.DType)
	if c.Want != nil {
		tol = compare.DefaultTolerance(c.Want.DType)
	}
	raw, d, size := c.bytes(), t.DType, t.DType.Size()
	first, wrong := -1, 0
	for i := range t.Shape.Elems() {
		row, col := i/n%n, i%n
		if row >= col {
			continue
		}
		j := i - row*n - col + col*n + row
		x, y := d.Load(raw[i*size:]), d.Load(raw[j*size:])
		if x == y {
			continue
		}
		allowed := max(tol.At(d.Float64(x)), tol.At(d.Float64(y)))
		if c.Want != nil && c.Want.Bound != nil {
			allowed = c.bound(i) + c.bound(j)
		}
		if !alike(d, x, y, allowed) {
			wrong++
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return holds()
	}
	row, col := first/n%n, first%n
	mirror := first - row*n - col + col*n + row
	idx := t.Shape.Unravel(first)
	return violated(idx, "%d pairs differ, the first at %v: %v, but %v at %v", wrong, idx, at(d, raw, first),
		at(d, raw, mirror), t.Shape.Unravel(mirror))
}

// alike reports whether two elements that are not the same bits may stand for the same value.
func alike(d dtype.DType, x, y uint64, allowed float64) bool {
	if !d.IsFloat() {
		return d == dtype.Bool && (x != 0) == (y != 0) || float64(d.ULPDistance(x, y)) <= allowed
	}
	fx, fy := d.Float64(x), d.Float64(y)
	if isNaN(fx) || isNaN(fy) || isInf(fx) || isInf(fy) {
		return fx == fy || isNaN(fx) && isNaN(fy)
	}
	return math.Abs(fx-fy) <= allowed
}

// checkMonotonic checks that elements do not fall along an axis (or do not rise). A parallel scan may break the order
// of neighbours by rounding; each may err by its bound.
func checkMonotonic(iv Invariant, c *Context) Result {
	t := c.Output
	if t == nil {
		return notApplicable("there is no output")
	}
	axis := iv.Axis
	if axis < 0 {
		axis += len(t.Shape)
	}
	if axis < 0 || axis >= len(t.Shape) {
		return notApplicable("the shape %s has no axis %d", t.Shape, iv.Axis)
	}
	stride := 1
	for _, s := range t.Shape[axis+1:] {
		stride *= s
	}
	raw, d, size := c.bytes(), t.DType, t.DType.Size()
	first, wrong := -1, 0
	for i := range t.Shape.Elems() {
		if i/stride%t.Shape[axis] == 0 {
			continue
		}
		j := i - stride
		low, high := d.Load(raw[j*size:]), d.Load(raw[i*size:])
		if iv.Down {
			low, high = high, low
		}
		if !ordered(d, low, high, c.bound(i)+c.bound(j)) {
			wrong++
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return holds()
	}
	idx := t.Shape.Unravel(first)
	word := "falls"
	if iv.Down {
		word = "rises"
	}
	return violated(idx, "the output %s along axis %d at %d places, the first at %v: %v after %v", word, axis, wrong, idx,
		at(d, raw, first), at(d, raw, first-stride))
}

// ordered reports whether low <= high within slack; NaN is not ordered. Integers are compared as integers.
func ordered(d dtype.DType, low, high uint64, slack float64) bool {
	if d.IsFloat() {
		x, y := d.Float64(low), d.Float64(high)
		return x <= y || x-y <= slack && !isInf(x) && !isInf(y)
	}
	if d == dtype.Bool {
		return low == 0 || high != 0
	}
	if d.IsSigned() {
		shift := 64 - 8*d.Size()
		if int64(low<<shift) <= int64(high<<shift) {
			return true
		}
	} else if low <= high {
		return true
	}
	return float64(d.ULPDistance(low, high)) <= slack
}

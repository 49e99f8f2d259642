// This file implements the sums of tensor cores element by element, and the comparison of tiles with them.

package ptxmath

import (
	"math"
	"testing"

	"gpuemu/internal/testkit/recorded"
)

// slowF32 is one element of D in f32: c plus the products of a and b, which have the same length.
func (t Core) slowF32(c uint32, a, b []Elem) uint32 {
	if t.Converted {
		var x, y [2 * blockMost]Elem
		n := slowRegroup(&x, &y, a, b)
		s := t.sum32(0, x[:n], y[:n])
		return AddRN32(c, t.sum32(s, x[blockMost:blockMost+n], y[blockMost:blockMost+n]))
	}
	for len(a) > t.Block {
		c = t.sum32(c, a[:t.Block], b[:t.Block])
		a, b = a[t.Block:], b[t.Block:]
	}
	return t.sum32(c, a, b)
}

// slowF16 is one element of D in f16.
func (t Core) slowF16(c uint16, a, b []Elem) uint16 {
	if t.Converted {
		var x, y [2 * blockMost]Elem
		n := slowRegroup(&x, &y, a, b)
		s := t.sum16(0, x[:n], y[:n])
		return AddF16(c, t.sum16(s, x[blockMost:blockMost+n], y[blockMost:blockMost+n]), Mode{})
	}
	for len(a) > t.Block {
		c = t.sum16(c, a[:t.Block], b[:t.Block])
		a, b = a[t.Block:], b[t.Block:]
	}
	return t.sum16(c, a, b)
}

// blockMost is half of the products of m16n8k32.
const blockMost = 16

// slowRegroup sorts at most 32 products for [Core.Converted]: n of each group, the second from blockMost on.
func slowRegroup(x, y *[2 * blockMost]Elem, a, b []Elem) (n int) {
	for k := range a {
		at := k>>2<<1 | k&1 | k&2<<3 // bit 1 chooses the group
		x[at], y[at] = a[k].asF16(), b[k].asF16()
	}
	return len(a) / 2
}

// sum32 is T with c and the result in f32.
func (t Core) sum32(c uint32, a, b []Elem) uint32 {
	e := Elem{sig: int32(c & (1<<23 - 1)), exp: int32(c>>23&255) - 127}
	switch field := c >> 23 & 255; {
	case field == 255 && e.sig != 0:
		e.exp = nanExp
	case field == 255:
		e = Elem{sig: 1, exp: farUp}
	case field != 0:
		e.sig |= 1 << 23
	case e.sig == 0:
		e.exp = farDown
	default:
		e.exp++
	}
	if c&sign32 != 0 {
		e.sig = -e.sig
	}
	top, s := t.total(e, 23, a, b)
	switch {
	case top == nanExp:
		return NaN32
	case top == farUp:
		return inf32 | uint32(s>>63)&sign32
	case s == 0:
		return 0
	}
	return cut32(s, top-t.Fraction, t.Cut)
}

// sum16 is T with c and the result in f16, which is rounded to nearest.
func (t Core) sum16(c uint16, a, b []Elem) uint16 {
	top, s := t.total(InF16.Decode(uint32(c)), 10, a, b)
	switch {
	case top == nanExp:
		return NaN16
	case top == farUp:
		return 0x7c00 | uint16(s>>63)&sign16
	}
	// At most 33 terms of at most Fraction+3 bits: the sum is exact in float64.
	d := uint16(fmtF16.narrow(math.Ldexp(float64(s), top-t.Fraction), RN))
	if d == sign16 {
		return 0 // a negative sum too small for f16: zeros are always positive
	}
	return d
}

// total adds the terms cut to Fraction bits below the largest exponent, which it returns: the sum is
// s·2^(top-Fraction). c has the given number of fraction bits. If the sum is not a number top is nanExp, if it is
// infinite farUp, with s of its sign.
func (t Core) total(c Elem, fraction int, a, b []Elem) (top int, s int64) {
	b = b[:len(a)]
	most := c.exp
	for i := range a {
		most = max(most, a[i].exp+b[i].exp)
	}
	if most >= farUp/2 {
		return slowNotFinite(c, a, b)
	}
	s = cut(int64(c.sig), t.Fraction-fraction, most-c.exp)
	for i := range a {
		s += cut(int64(a[i].sig)*int64(b[i].sig), t.Fraction-20, most-a[i].exp-b[i].exp)
	}
	return int(most), s
}

// slowNotFinite is total with an infinity or NaN among the terms.
func slowNotFinite(c Elem, a, b []Elem) (top int, s int64) {
	nan := c.exp == nanExp
	plus, minus := c.exp == farUp && c.sig > 0, c.exp == farUp && c.sig < 0
	for i := range a {
		x, y := a[i], b[i]
		if x.exp < farUp && y.exp < farUp {
			continue
		}
		nan = nan || x.exp == nanExp || y.exp == nanExp || x.sig == 0 || y.sig == 0
		negative := (x.sig < 0) != (y.sig < 0)
		plus, minus = plus || !negative, minus || negative
	}
	switch {
	case nan || plus && minus:
		return nanExp, 0
	case minus:
		return farUp, -1
	}
	return farUp, 1
}

// tileCase makes tiles that are hard in one way each.
type tileCase struct {
	core     Core
	inA, inB Input
	depth    int
	kind     int // of tiles
	state    uint64
	a, b     []uint32
	c        [Width]uint32
	elemA    []Elem
	column   [Width][]Elem
}

func (x *tileCase) next() uint64 {
	x.state++
	return recorded.Mix(x.state)
}

// draw is an element of a format with the given fields.
func (x *tileCase) draw(fraction, exponent uint) uint32 {
	r := x.next()
	field, bias := uint64(0), uint64(1)<<(exponent-1)-1
	m := r & (1<<fraction - 1)
	switch x.kind {
	case 0: // any bits: all exponents, now and then infinities and NaN
		field = r >> 32 & (1<<exponent - 1)
	case 1: // one exponent: nothing is cut
		field = bias
	case 2: // as many bits as there can be, of one sign: the largest sums
		return uint32(bias<<fraction | (1<<fraction - 1))
	case 3: // exponents that differ a little, and zeros
		field = bias + r>>32%8
		if r>>40&3 == 0 {
			return uint32(r >> 42 & 1 << (fraction + exponent))
		}
	case 4: // exponents that differ as much as is kept
		field = min(bias+r>>32%32, 1<<exponent-2)
	case 5: // small and subnormal numbers
		field = r >> 32 % 2
	case 6: // the largest finite ones: sums overflow
		field = 1<<exponent - 2 - r>>32%2
	case 7: // some infinities among ordinary numbers
		if field = bias; r>>32%16 == 0 {
			field, m = 1<<exponent-1, 0
		}
	case 8: // subnormal numbers in A: what is cut depends on whether they were made normal
		if field = 0; len(x.elemA) == x.depth {
			field = r >> 32 % (1<<exponent - 1)
		}
	}
	return uint32(r>>63<<(fraction+exponent) | field<<fraction | m)
}

const tileKinds = 9

// fill draws a row of A, eight columns of B and as many of C.
func (x *tileCase) fill() {
	element := func(l layout) uint32 {
		v := x.draw(uint(l.fraction), uint(l.exponent)) << l.drop
		return v | uint32(x.next())&(1<<l.drop-1) // what is dropped
	}
	x.a, x.b, x.elemA = x.a[:0], x.b[:0], x.elemA[:0]
	for range x.depth {
		v := element(layouts[x.inA])
		x.a, x.elemA = append(x.a, v), append(x.elemA, x.inA.Decode(v))
	}
	for i := range x.column {
		x.column[i] = x.column[i][:0]
	}
	for i := range x.depth * Width {
		v := element(layouts[x.inB])
		x.b = append(x.b, v)
		x.column[i%Width] = append(x.column[i%Width], x.inB.Decode(v))
	}
}

// check compares a row of D, in f32 and in f16, with its elements one by one.
func (x *tileCase) check(t *testing.T) {
	var rows Rows
	var columns Columns
	x.core.Rows(&rows, x.inA, x.a, x.depth)
	x.core.Columns(&columns, x.inB, x.b)
	for i := range x.c {
		x.c[i] = x.draw(23, 8)
	}
	d := x.c
	x.core.F32(&d, &rows, 0, &columns)
	for i, c := range x.c {
		if want := x.core.slowF32(c, x.elemA, x.column[i]); d[i] != want {
			t.Fatalf("%+v, format %d, kind %d, column %d of %#x · %#x + %#x: %#x, want %#x", x.core, x.inA, x.kind, i, x.a,
				x.b, c, d[i], want)
		}
	}
	for i := range x.c {
		x.c[i] = x.draw(10, 5)
	}
	d = x.c
	x.core.F16(&d, &rows, 0, &columns)
	for i, c := range x.c {
		if want := x.core.slowF16(uint16(c), x.elemA, x.column[i]); d[i] != uint32(want) {
			t.Fatalf("%+v, format %d to f16, kind %d, column %d of %#x · %#x + %#x: %#x, want %#x", x.core, x.inA, x.kind, i,
				x.a, x.b, c, d[i], want)
		}
	}
}

// TestTiles compares rows of tiles with sums of one element, for every core, with the loops of this processor and with
// those of every processor.
func TestTiles(t *testing.T) {
	depths := []int{InF16: 16, InBF16: 16, InTF32: 8, InE4M3: 32, InE5M2: 32}
	for _, portable := range []bool{false, true} {
		if portable {
			withoutAVX2(t)
		}
		for i := range recorded.Soak(4000) {
			in := Input(i % len(depths))
			x := tileCase{state: uint64(i) << 20, inA: in, inB: in, kind: i / len(depths) % tileKinds}
			seed := x.next()
			x.core, x.depth = NewCore(Arch(seed%3), in, seed>>8&1 != 0), depths[in]
			if in == InE4M3 && seed>>24&1 != 0 {
				x.inB = InE5M2
			}
			if seed>>16&1 != 0 && !x.core.Converted { // the shorter shapes
				x.depth /= 2
			}
			x.fill()
			x.check(t)
		}
	}
}

// TestDecode compares elements that are decoded together with those decoded alone.
func TestDecode(t *testing.T) {
	for in := range InE5M2 + 1 {
		l := layouts[in]
		var x []uint32
		for v := range uint32(1) << (l.fraction + l.exponent + 1) {
			x = append(x, v<<l.drop)
		}
		sig, exp := make([]int32, len(x)), make([]int32, len(x))
		in.decode(sig, exp, x)
		for i, v := range x {
			if want := in.Decode(v); (Elem{sig: sig[i], exp: exp[i]}) != want {
				t.Fatalf("format %d: %#x is (%d, %d), want %+v", in, v, sig[i], exp[i], want)
			}
		}
	}
}

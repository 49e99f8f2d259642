package ptxmath

import (
	"math"
	"math/bits"
)

// This file implements the sums of tensor.go for tiles: the elements of A and B are decoded once, and eight neighbours
// in a row of D are computed together.

// Sizes of tiles. Deeper instructions have integers, which are not decoded here.
const (
	Depth = 32 // the most products of an element: fp8
	Width = 8  // columns that are computed together
	Most  = 32 // the most rows: wmma.m32n8k16
)

// Rows are decoded rows of A, one after the other.
type Rows struct {
	depth    int // products of an element
	sig, exp [Most * Depth]int32
}

// Columns are eight decoded columns of B: element (k, column) is at k·Width + column.
type Columns struct {
	sig, exp [Depth * Width]int32
}

// layout says where the fields of a format lie. Exponent fields from 1 to normal belong to normal numbers with ten
// fraction bits after a shift by up; the others are rare enough for [Input.Decode].
type layout struct {
	drop, fraction, exponent, up uint8 // bits
	normal                       uint32
	bias                         int32
}

var layouts = [...]layout{
	InF16:  {fraction: 10, exponent: 5, normal: 30, bias: 15},
	InBF16: {fraction: 7, exponent: 8, up: 3, normal: 254, bias: 127},
	InTF32: {drop: 13, fraction: 10, exponent: 8, normal: 254, bias: 127},
	InE4M3: {fraction: 3, exponent: 4, up: 7, normal: 14, bias: 7}, // the largest exponent has a NaN
	InE5M2: {fraction: 2, exponent: 5, up: 8, normal: 30, bias: 15},
}

// decode decodes elements, which have nothing but zeros in unused bits.
func (f Input) decode(sig, exp []int32, x []uint32) {
	sig, exp = sig[:len(x)], exp[:len(x)]
	l := layouts[f]
	one, mask := uint32(1)<<(l.fraction&31), uint32(1)<<(l.exponent&31)-1
	for i, v := range x {
		v >>= l.drop & 31
		field := v >> (l.fraction & 31)
		sign := -int32(field >> (l.exponent & 31))
		field &= mask
		if field-1 >= l.normal {
			e := f.Decode(x[i])
			sig[i], exp[i] = e.sig, e.exp
			continue
		}
		s := int32((v&(one-1) | one) << (l.up & 31))
		sig[i], exp[i] = s^sign-sign, int32(field)-l.bias
	}
}

// Rows decodes rows of A, each with depth elements; x is row by row.
func (t *Core) Rows(r *Rows, in Input, x []uint32, depth int) {
	r.depth = depth
	if t.Converted {
		in.convert(r.sig[:], r.exp[:], x, depth, 1)
		return
	}
	in.decode(r.sig[:], r.exp[:], x)
}

// Columns decodes eight columns of B; x[k·Width] is the first of the elements with the same k.
func (t *Core) Columns(c *Columns, in Input, x []uint32) {
	if t.Converted {
		in.convert(c.sig[:], c.exp[:], x, len(x)/Width, Width)
		return
	}
	in.decode(c.sig[:], c.exp[:], x)
}

// converted has the elements of e4m3 and e5m2 as f16.
var converted = func() (all [2][256]Elem) {
	for x := range uint32(256) {
		all[0][x], all[1][x] = InE4M3.Decode(x).asF16(), InE5M2.Decode(x).asF16()
	}
	return all
}()

// convert decodes elements for [Core.Converted]: those of the first sum come first. Each k has width of them.
func (f Input) convert(sig, exp []int32, x []uint32, depth, width int) {
	values := &converted[f-InE4M3]
	for first := 0; first < len(x); first += depth * width {
		for k := range depth {
			at := k>>2<<1 | k&1
			if k&2 != 0 {
				at += depth / 2
			}
			s, e := sig[first+at*width:][:width], exp[first+at*width:][:width]
			for i, v := range x[first+k*width:][:width] {
				s[i], e[i] = values[v&255].sig, values[v&255].exp
			}
		}
	}
}

// F32 adds the products of a row of A and of eight columns of B to d, in f32.
func (t *Core) F32(d *[Width]uint32, a *Rows, row int, b *Columns) {
	if !t.Converted {
		for k := 0; k < a.depth; k += t.Block {
			t.sums32(d, terms{a, b, row, k, min(t.Block, a.depth-k)})
		}
		return
	}
	var s [Width]uint32
	half := a.depth / 2
	t.sums32(&s, terms{a, b, row, 0, half})
	t.sums32(&s, terms{a, b, row, half, half})
	for i := range d {
		d[i] = AddRN32(d[i], s[i])
	}
}

// F16 adds the products of a row of A and of eight columns of B to d, in f16.
func (t *Core) F16(d *[Width]uint32, a *Rows, row int, b *Columns) {
	if !t.Converted {
		for k := 0; k < a.depth; k += t.Block {
			t.sums16(d, terms{a, b, row, k, min(t.Block, a.depth-k)})
		}
		return
	}
	var s [Width]uint32
	half := a.depth / 2
	t.sums16(&s, terms{a, b, row, 0, half})
	t.sums16(&s, terms{a, b, row, half, half})
	for i := range d {
		d[i] = uint32(AddF16(uint16(d[i]), uint16(s[i]), Mode{}))
	}
}

// terms are the products of one sum, for eight columns: n of them, from k on.
type terms struct {
	a         *Rows
	b         *Columns
	row, k, n int
}

// sums32 is T for eight columns, with c and the result in f32.
func (t *Core) sums32(d *[Width]uint32, x terms) {
	var c [Width]Elem
	var top, sum [Width]int32
	for i, v := range d {
		c[i] = decode32(v)
		top[i] = c[i].exp
	}
	t.add(&sum, &top, x)
	keep := ^uint32(1<<(23-t.Cut) - 1)
	for i := range d {
		if top[i] >= farUp/2 {
			d[i] = special32.notFinite(c[i], x, i)
			continue
		}
		s := int64(sum[i]) + cut(int64(c[i].sig), t.Fraction-23, top[i]-c[i].exp)
		sign := s >> 63
		m := uint64((s ^ sign) - sign)
		n := bits.Len64(m)
		e := int(top[i]) - t.Fraction + n - 1 // of the number
		switch {
		case m == 0:
			d[i] = 0
		case e >= -126 && e <= 127:
			q := uint32(m<<(64-n)>>40) & keep // the leading bit and 23 below it
			d[i] = uint32(sign)&sign32 | (q + uint32(e+126)<<23)
		default:
			d[i] = cut32(s, int(top[i])-t.Fraction, t.Cut)
		}
	}
}

// decode32 decodes an f32, whose significand has 23 fraction bits.
func decode32(v uint32) Elem {
	e := Elem{sig: int32(v & (1<<23 - 1)), exp: int32(v>>23&255) - 127}
	switch {
	case e.exp == 128 && e.sig != 0:
		e.exp = nanExp
	case e.exp == 128:
		e = Elem{sig: 1, exp: farUp}
	case e.exp != -127:
		e.sig |= 1 << 23
	case e.sig == 0:
		e.exp = farDown
	default:
		e.exp++
	}
	sign := int32(v) >> 31
	e.sig = e.sig ^ sign - sign
	return e
}

// sums16 is T for eight columns, with c and the result in f16, which is rounded to nearest.
func (t *Core) sums16(d *[Width]uint32, x terms) {
	var c [Width]Elem
	var top, sum [Width]int32
	for i, v := range d {
		c[i] = InF16.Decode(v)
		top[i] = c[i].exp
	}
	t.add(&sum, &top, x)
	for i := range d {
		if top[i] >= farUp/2 {
			d[i] = special16.notFinite(c[i], x, i)
			continue
		}
		s := int64(sum[i]) + cut(int64(c[i].sig), t.Fraction-10, top[i]-c[i].exp)
		d[i] = 0
		if s == 0 {
			continue
		}
		// The sum has at most 32 bits, and its exponent is one of products or of f16: exact in float64.
		unit := math.Float64frombits(uint64(1023+int(top[i])-t.Fraction) << 52)
		if v := uint16(fmtF16.narrow(float64(s)*unit, RN)); v != sign16 { // zeros are always positive
			d[i] = uint32(v)
		}
	}
}

// add adds products. At the beginning top has the exponents of c, at the end the largest ones; the sums of products are
// sum·2^(top-Fraction). 16 products that are not shifted to the right have less than 31 bits together, and longer sums
// are those of cores that keep fewer bits, so 32 bits suffice until c is added. Where top says that something is not
// finite, sum says nothing.
func (t *Core) add(sum, top *[Width]int32, x terms) {
	first := x.row*x.a.depth + x.k
	sigA, expA := x.a.sig[first:first+x.n], x.a.exp[first:first+x.n]
	sigB, expB := x.b.sig[x.k*Width:(x.k+x.n)*Width], x.b.exp[x.k*Width:(x.k+x.n)*Width]
	addProducts(sum, top, sigA, expA, sigB, expB, max(t.Fraction-20, 0), max(20-t.Fraction, 0))
}

// addGo is [Core.add] for every processor. Products have 20 fraction bits; up and down bring them to those of the core.
func addGo(sum, top *[Width]int32, sigA, expA, sigB, expB []int32, up, down int) {
	for k, e := range expA {
		for i, f := range (*[Width]int32)(expB[k*Width:]) {
			top[i] = max(top[i], e+f)
		}
	}
	expA = expA[:len(sigA)]
	for k, x := range sigA {
		e := expA[k] - int32(down)
		f := (*[Width]int32)(expB[k*Width:])
		for i, y := range (*[Width]int32)(sigB[k*Width:]) {
			v := x * y
			sign := v >> 31
			m := uint32(v^sign-sign) << (up & 31) >> uint32(top[i]-e-f[i])
			sum[i] += int32(m) ^ sign - sign
		}
	}
}

// special has the results that are not finite, by format.
type special struct{ nan, plus, minus uint32 }

var (
	special32 = special{nan: NaN32, plus: inf32, minus: inf32 | sign32}
	special16 = special{nan: uint32(NaN16), plus: 0x7c00, minus: 0xfc00}
)

// notFinite is T with an infinity or NaN among the terms: c, and the products of a column.
func (s *special) notFinite(c Elem, t terms, column int) uint32 {
	nan := c.exp == nanExp
	plus, minus := c.exp == farUp && c.sig > 0, c.exp == farUp && c.sig < 0
	for k := t.k; k < t.k+t.n; k++ {
		i, j := t.row*t.a.depth+k, k*Width+column
		x, y := Elem{t.a.sig[i], t.a.exp[i]}, Elem{t.b.sig[j], t.b.exp[j]}
		if x.exp < farUp && y.exp < farUp {
			continue
		}
		nan = nan || x.exp == nanExp || y.exp == nanExp || x.sig == 0 || y.sig == 0
		negative := (x.sig < 0) != (y.sig < 0)
		plus, minus = plus || !negative, minus || negative
	}
	switch {
	case nan || plus && minus:
		return s.nan
	case minus:
		return s.minus
	}
	return s.plus
}

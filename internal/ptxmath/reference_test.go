// This file implements the independent reference: exact rationals, then one rounding.

package ptxmath

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/testkit/recorded"
)

// refFormat is a format of the reference: precision and exponent range of its normal numbers.
type refFormat struct {
	prec, emin, emax int
	finite           bool // no infinities: overflow gives the largest number
}

var refFormats = map[string]refFormat{
	"f16": {11, -14, 15, false}, "bf16": {8, -126, 127, false}, "f32": {24, -126, 127, false},
	"f64": {53, -1022, 1023, false}, "tf32": {11, -126, 127, false}, "e4m3": {4, -6, 8, true}, "e5m2": {3, -14, 15, true},
}

func (f refFormat) width() int { return f.prec + bitLen(f.emax-f.emin+1) }

func bitLen(n int) int { return len(strconv.FormatInt(int64(n), 2)) }

// refNumber is a number of the reference: NaN, an infinity, or a rational with a sign (of zero, too).
type refNumber struct {
	nan, inf, negative bool
	v                  *big.Rat
}

func power(e int) *big.Rat {
	n := new(big.Int).Lsh(big.NewInt(1), uint(max(e, -e)))
	if e >= 0 {
		return new(big.Rat).SetInt(n)
	}
	return new(big.Rat).SetFrac(big.NewInt(1), n)
}

// decode reads the bits of a number.
func (f refFormat) decode(bits uint64) refNumber {
	w := uint(f.width())
	n := refNumber{negative: bits>>(w-1)&1 != 0}
	fraction := bits & (1<<(f.prec-1) - 1)
	field := int(bits >> (f.prec - 1) & (1<<(w-uint(f.prec)) - 1))
	top := 1<<(w-uint(f.prec)) - 1
	switch {
	case f.finite && f.prec == 4: // e4m3 uses the last exponent for numbers
		n.nan = bits&0x7f == 0x7f
	case field == top:
		n.nan, n.inf = fraction != 0, fraction == 0
	}
	if n.nan || n.inf {
		return n
	}
	e := f.emin
	if field > 0 {
		fraction |= 1 << (f.prec - 1)
		e = f.emin + field - 1
	}
	n.v = new(big.Rat).Mul(new(big.Rat).SetInt(new(big.Int).SetUint64(fraction)), power(e-f.prec+1))
	if n.negative {
		n.v.Neg(n.v)
	}
	return n
}

// exponent is the largest e with 2^e <= |v|.
func exponent(v *big.Rat) int {
	a := new(big.Rat).Abs(v)
	e := a.Num().BitLen() - a.Denom().BitLen()
	if a.Cmp(power(e)) < 0 {
		e--
	}
	return e
}

// roundRat is |v| in units of 2^unit, rounded in the mode of a number of v's sign.
func roundRat(v *big.Rat, unit int, mode string) *big.Int {
	a := new(big.Rat).Abs(v)
	a.Mul(a, power(-unit))
	q, rest := new(big.Int).QuoRem(a.Num(), a.Denom(), new(big.Int))
	half := new(big.Int).Lsh(rest, 1).Cmp(a.Denom())
	up := false
	switch mode {
	case "rn":
		up = half > 0 || half == 0 && q.Bit(0) == 1
	case "rna":
		up = half >= 0
	case "rm":
		up = rest.Sign() != 0 && v.Sign() < 0
	case "rp":
		up = rest.Sign() != 0 && v.Sign() > 0
	}
	if up {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// encode rounds n once; with ftz a result that is below the normal numbers at full precision becomes zero.
func (f refFormat) encode(n refNumber, mode string, ftz bool) uint64 {
	w := uint(f.width())
	sign := uint64(0)
	if n.negative {
		sign = 1 << (w - 1)
	}
	inf := uint64(f.emax-f.emin+2) << (f.prec - 1)
	largest := inf - 1
	if f.finite && f.prec == 4 {
		inf, largest = 0x7f, 0x7e
	}
	switch {
	case n.inf && f.finite:
		return sign | largest
	case n.inf:
		return sign | inf
	case n.v.Sign() == 0:
		return sign
	}
	e := exponent(n.v)
	if ftz && e < f.emin {
		q := roundRat(n.v, e-f.prec+1, mode)
		if q.BitLen()+e-f.prec < f.emin {
			return sign
		}
	}
	unit := max(e, f.emin) - f.prec + 1
	q := roundRat(n.v, unit, mode)
	bits := uint64(unit-(f.emin-f.prec+1))<<(f.prec-1) + q.Uint64()
	if bits >= inf {
		bits = inf
		if f.finite || mode == "rz" || mode == "rm" && !n.negative || mode == "rp" && n.negative {
			bits = largest
		}
	}
	return sign | bits
}

// refInvalid is the result of an operation that has none.
var refInvalid = refNumber{nan: true}

func refMul(a, b refNumber) refNumber {
	n := refNumber{negative: a.negative != b.negative}
	switch {
	case a.inf || b.inf:
		n.inf = true
		if a.v != nil && a.v.Sign() == 0 || b.v != nil && b.v.Sign() == 0 {
			return refInvalid
		}
	default:
		n.v = new(big.Rat).Mul(a.v, b.v)
	}
	return n
}

func refAdd(a, b refNumber, mode string) refNumber {
	switch {
	case a.inf && b.inf && a.negative != b.negative:
		return refInvalid
	case a.inf:
		return a
	case b.inf:
		return b
	}
	n := refNumber{v: new(big.Rat).Add(a.v, b.v)}
	switch {
	case n.v.Sign() != 0:
		n.negative = n.v.Sign() < 0
	case a.negative == b.negative:
		n.negative = a.negative
	default:
		n.negative = mode == "rm"
	}
	return n
}

func refDiv(a, b refNumber) refNumber {
	n := refNumber{negative: a.negative != b.negative}
	switch {
	case a.inf && b.inf || !a.inf && !b.inf && a.v.Sign() == 0 && b.v.Sign() == 0:
		return refInvalid
	case a.inf || !b.inf && b.v.Sign() == 0:
		n.inf = true
	case b.inf:
		n.v = new(big.Rat)
	default:
		n.v = new(big.Rat).Quo(a.v, b.v)
	}
	return n
}

// refSqrt is exact for squares and has 300 bits else, more than enough to know on which side of every middle it lies.
func refSqrt(a refNumber) refNumber {
	switch {
	case a.v != nil && a.v.Sign() == 0 || a.inf && !a.negative:
		return a
	case a.negative:
		return refInvalid
	}
	x := new(big.Float).SetPrec(300).SetRat(a.v) // a float has at most 53 bits: exact
	v, _ := x.Sqrt(x).Rat(nil)
	return refNumber{v: v}
}

// refCase is one exact float instruction of the record, for the reference.
type refCase struct {
	p        parsed
	mode     string
	src, dst refFormat
	integer  string // the integer type of a conversion
}

// newRefCase is false if the form is not for the reference.
func newRefCase(name string) (c refCase, ok bool) {
	c.p = parse(name)
	c.mode = "rn"
	for _, w := range c.p.words {
		if m := strings.TrimSuffix(w, "i"); slices.Contains([]string{"rn", "rz", "rm", "rp", "rna"}, m) {
			c.mode = m
		}
	}
	t := c.p.last(1)
	if c.p.op == "cvt" {
		d := c.p.last(2)
		_, floatS := refFormats[t]
		_, floatD := refFormats[d]
		c.src, c.dst = refFormats[t], refFormats[d]
		switch {
		case floatS && !floatD && slices.Contains(typeNames, d):
			c.integer = d
		case floatD && !floatS && slices.Contains(typeNames, t):
			c.integer = t
		case !floatS || !floatD:
			return c, false
		}
		return c, true
	}
	c.src = refFormats[t]
	c.dst = c.src
	return c, c.src.prec > 0 && slices.Contains([]string{"add", "sub", "mul", "fma", "div", "rcp", "sqrt"}, c.p.op) &&
		!c.p.has("oob")
}

// eval is the result, false where an operand or the result is NaN.
func (c refCase) eval(o *[4]uint64, arity int) (uint64, bool) {
	if c.p.op == "cvt" {
		return c.convert(o[0])
	}
	var n [3]refNumber
	for i := range arity {
		n[i] = c.src.decode(o[i])
		if n[i].nan {
			return 0, false
		}
		n[i] = c.flush(n[i])
	}
	var d refNumber
	switch c.p.op {
	case "add":
		d = refAdd(n[0], n[1], c.mode)
	case "sub":
		b := n[1]
		b.negative = !b.negative
		if b.v != nil {
			b.v = new(big.Rat).Neg(b.v)
		}
		d = refAdd(n[0], b, c.mode)
	case "mul":
		d = refMul(n[0], n[1])
	case "fma":
		if d = refMul(n[0], n[1]); !d.nan {
			d = refAdd(d, n[2], c.mode)
		}
	case "div":
		d = refDiv(n[0], n[1])
	case "rcp":
		d = refDiv(refNumber{v: big.NewRat(1, 1)}, n[0])
	case "sqrt":
		d = refSqrt(n[0])
	}
	if d.nan {
		return 0, false
	}
	return c.dst.encode(c.clamp(d), c.mode, c.p.mode.FTZ), true
}

// flush is .ftz on an operand.
func (c refCase) flush(n refNumber) refNumber {
	if c.p.mode.FTZ && n.v != nil && n.v.Sign() != 0 && exponent(n.v) < c.src.emin {
		n.v = new(big.Rat)
	}
	return n
}

// clamp is .sat and .relu.
func (c refCase) clamp(n refNumber) refNumber {
	one := big.NewRat(1, 1)
	switch {
	case (c.p.mode.Sat || c.p.mode.Relu) && n.negative:
		return refNumber{v: new(big.Rat)}
	case c.p.mode.Sat && (n.inf || n.v.Cmp(one) > 0):
		return refNumber{v: one}
	}
	return n
}

// convert is cvt.
func (c refCase) convert(x uint64) (uint64, bool) {
	if c.integer != "" && c.src.prec == 0 { // from an integer
		v := refInteger(c.integer, x)
		n := refNumber{negative: v.Sign() < 0, v: new(big.Rat).SetInt(v)}
		return c.dst.encode(c.clamp(n), c.mode, false), true
	}
	n := c.src.decode(x)
	if n.nan {
		return 0, false
	}
	if c.p.last(1) == "f32" && c.p.last(2) != "f16" { // elsewhere .ftz does nothing to the source
		n = c.flush(n)
	}
	if c.integer != "" {
		return c.toInteger(n), true
	}
	if c.p.mode.Integral && !n.inf {
		q := roundRat(n.v, 0, c.mode)
		if n.v = new(big.Rat).SetInt(q); n.negative {
			n.v.Neg(n.v)
		}
	}
	dst := c.dst
	dst.finite = c.p.mode.SatFinite
	d := dst.encode(c.clamp(n), c.mode, c.p.mode.FTZ && c.p.last(2) == "f32")
	if c.p.last(2) == "tf32" {
		d <<= 13
	}
	return d, true
}

func refInteger(kind string, x uint64) *big.Int {
	n, err := strconv.Atoi(kind[1:])
	if err != nil {
		panic(err)
	}
	v := new(big.Int).SetUint64(x & recorded.Low(uint(n)))
	if kind[0] == 's' && v.Bit(n-1) == 1 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(n)))
	}
	return v
}

// toInteger rounds and clamps; the result has 64 bits.
func (c refCase) toInteger(n refNumber) uint64 {
	bits, err := strconv.Atoi(c.integer[1:])
	if err != nil {
		panic(err)
	}
	lo, hi := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(bits))
	if c.integer[0] == 's' {
		hi.Rsh(hi, 1)
		lo.Neg(hi)
	}
	hi.Sub(hi, big.NewInt(1))
	v := hi
	switch {
	case n.inf && n.negative:
		v = lo
	case !n.inf:
		v = roundRat(n.v, 0, c.mode)
		if n.negative {
			v.Neg(v)
		}
		if v.Cmp(lo) < 0 {
			v = lo
		} else if v.Cmp(hi) > 0 {
			v = hi
		}
	}
	if v.Sign() < 0 {
		return -new(big.Int).Neg(v).Uint64()
	}
	return v.Uint64()
}

// referenceTuples is how many random tuples of each form go to the reference without GPUEMU_SOAK.
const referenceTuples = 300

// TestReference compares every exact float instruction with the reference: on the edge grid and on random operands.
// With GPUEMU_SOAK a 16-bit operand takes every value, one of two with all edge values of the other.
func TestReference(t *testing.T) {
	forms := 0
	for i := range recorded.Load(t).Forms {
		if _, ok := newRefCase(recorded.Load(t).Forms[i].Name); ok && recorded.Load(t).Forms[i].Sample == nil {
			forms++
		}
	}
	if forms < 600 {
		t.Errorf("%d forms go to the reference, too few", forms)
	}
	eachForm(t, func(t *testing.T, r *recorded.Record, form *recorded.Form) {
		c, ok := newRefCase(form.Name)
		if !ok || form.Sample != nil {
			return
		}
		m, eval := recorded.NewMaker(r, form), evaluator(form.Name)
		mask := recorded.Low(recorded.Classes[form.Result].Width)
		faults := 0
		check := func(o *[4]uint64) {
			want, ok := c.eval(o, len(m.Class))
			if got := eval(o) & mask; ok && got != want&mask {
				if faults++; faults <= 8 {
					t.Errorf("%#x gives %#x, the reference %#x", o[:len(m.Class)], got, want&mask)
				}
			}
		}
		m.Grid(r, check)
		var o [4]uint64
		total, stride := recorded.Soak(referenceTuples), uint64(1)
		if m.Class[0].Width == 16 && len(m.Class) == 1 {
			total = 1 << 16
			if !recorded.Soaking() {
				total, stride = total/61, 61
			}
		}
		for i := range uint64(total) {
			m.Tuple(&o, i*stride)
			check(&o)
		}
		if m.Class[0].Width != 16 || len(m.Class) != 2 || !recorded.Soaking() {
			return
		}
		for x := range uint64(1 << 16) {
			for _, y := range m.Edges[1] {
				check(&[4]uint64{x, y})
				check(&[4]uint64{y, x})
			}
		}
	})
}

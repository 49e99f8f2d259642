// This file implements the reference of the integer instructions: big integers, and bits one by one.

package ptxmath

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuemu/internal/testkit/recorded"
)

// bigResult reduces v to a register of 64 bits.
func bigResult(v *big.Int) uint64 {
	return new(big.Int).And(v, new(big.Int).SetUint64(1<<64-1)).Uint64()
}

// refIntEval is the result of an integer instruction, false if it is not for the reference or has no defined value.
func refIntEval(p parsed, o *[4]uint64) (uint64, bool) {
	kind := p.last(1)
	if !slices.Contains(typeNames[:F16], kind) || p.has("cc") || p.op == "madc" || p.has("pack") {
		return 0, false
	}
	n, err := strconv.Atoi(kind[1:])
	if err != nil {
		return 0, false
	}
	signed := kind[0] == 's'
	a, b, c := refInteger(kind, o[0]), refInteger(kind, o[1]), refInteger(kind, o[2])
	v := new(big.Int)
	switch p.op {
	case "add":
		v.Add(a, b)
	case "sub":
		v.Sub(a, b)
	case "mul", "mad":
		if v.Mul(a, b); p.has("hi") {
			v.Rsh(v, uint(n))
		}
		if p.has("wide") {
			c = new(big.Int).SetUint64(o[2])
		}
	case "mul24", "mad24":
		v.Mul(refInteger(kind[:1]+"24", o[0]), refInteger(kind[:1]+"24", o[1]))
		if p.has("hi") {
			v.Rsh(v, 16)
		}
	case "div", "rem":
		if b.Sign() == 0 {
			return 0, false
		}
		q, r := new(big.Int).QuoRem(a, b, new(big.Int))
		if v = q; p.op == "rem" {
			v = r
		}
	case "sad":
		v.Add(c, v.Abs(v.Sub(a, b)))
	case "min", "max":
		if v = b; (a.Cmp(b) < 0) == (p.op == "min") {
			v = a
		}
		if p.mode.Relu && v.Sign() < 0 {
			v = new(big.Int)
		}
	case "abs":
		v.Abs(a)
	case "neg":
		v.Neg(a)
	case "shr":
		v.Rsh(a, uint(min(o[1], 64)))
	case "bfe":
		return refField(o, n, signed), true
	case "dp4a", "dp2a":
		return refDot(p, o), true
	case "cvt":
		v = refInteger(kind, o[0])
		kind = p.last(2)
		if !slices.Contains(typeNames[:F16], kind) {
			return 0, false
		}
	default:
		return 0, false
	}
	if strings.HasPrefix(p.op, "mad") {
		v.Add(v, c)
	}
	if p.mode.Sat {
		v = refClamp(kind, v)
	}
	if p.op == "cvt" {
		v = refInteger(kind, bigResult(v))
	}
	return bigResult(v), true
}

// refClamp is .sat on integers.
func refClamp(kind string, v *big.Int) *big.Int {
	c := refCase{integer: kind}
	d := c.toInteger(refNumber{negative: v.Sign() < 0, v: new(big.Rat).SetInt(v)})
	return refInteger(kind, d)
}

// refField is bfe as the manual writes it: bit by bit. Only 32-bit fields take the low byte of position and length.
func refField(o *[4]uint64, n int, signed bool) uint64 {
	pos, length := o[1], o[2]
	if n == 32 {
		pos, length = pos&255, length&255
	}
	bit := func(i uint64) uint64 { return o[0] >> min(i, 63) & 1 }
	fill := uint64(0)
	if signed && length > 0 {
		fill = bit(min(pos+length-1, uint64(n-1)))
	}
	var d uint64
	for i := range uint64(n) {
		x := fill
		if i < length && pos+i < uint64(n) {
			x = bit(pos + i)
		}
		d |= x << i
	}
	return d
}

// refDot is dp4a and dp2a: sums of products of fields.
func refDot(p parsed, o *[4]uint64) uint64 {
	widthA, from := 8, 0
	kindA := p.words[0]
	if p.op == "dp2a" {
		widthA, kindA = 16, p.words[1]
		if p.has("hi") {
			from = 16
		}
	}
	sum := int64(o[2])
	for i := range 32 / widthA {
		x := refInteger(kindA[:1]+strconv.Itoa(widthA), o[0]>>(i*widthA))
		y := refInteger(p.last(1)[:1]+"8", o[1]>>(from+8*i))
		sum += x.Int64() * y.Int64()
	}
	return uint64(sum)
}

// TestIntegerReference compares the integer instructions with the reference on edges and random operands.
func TestIntegerReference(t *testing.T) {
	forms := 0
	for _, form := range recorded.Load(t).Forms {
		if _, ok := refIntEval(parse(form.Name), &[4]uint64{1, 1, 1}); ok {
			forms++
		}
	}
	if forms < 180 {
		t.Errorf("%d forms go to the reference, too few", forms)
	}
	eachForm(t, func(t *testing.T, r *recorded.Record, form *recorded.Form) {
		p := parse(form.Name)
		if _, ok := refIntEval(p, &[4]uint64{1, 1, 1}); !ok {
			return
		}
		m, eval := recorded.NewMaker(r, form), evaluator(form.Name)
		mask := recorded.Low(recorded.Classes[form.Result].Width)
		faults := 0
		check := func(o *[4]uint64) {
			want, ok := refIntEval(p, o)
			if got := eval(o) & mask; ok && got != want&mask {
				if faults++; faults <= 8 {
					t.Errorf("%#x gives %#x, the reference %#x", o[:len(m.Class)], got, want&mask)
				}
			}
		}
		m.Grid(r, check)
		var o [4]uint64
		total := recorded.Soak(referenceTuples)
		if m.Class[0].Width == 16 && len(m.Class) == 1 {
			total = 1 << 16
		}
		for i := range uint64(total) {
			m.Tuple(&o, i)
			check(&o)
		}
	})
}

// This file implements the tests of tensor cores against rationals, for the architectures that are not measured, too.

package ptxmath

import (
	"math/big"
	"testing"

	"gpuemu/internal/testkit/recorded"
)

// refExponent is the exponent field of a number of a format, as a power of two: subnormal numbers have that of the
// smallest normal one.
func refExponent(f refFormat, n refNumber) int { return max(exponent(n.v), f.emin) }

// refSum is T: the terms cut below the largest exponent, their sum cut or rounded to the format of d.
func refSum(core Core, c uint64, formatC refFormat, a, b []uint64, in refFormat) uint64 {
	type term struct {
		v *big.Rat
		e int
	}
	var terms []term
	add := func(v *big.Rat, e int) {
		if v.Sign() != 0 {
			terms = append(terms, term{v, e})
		}
	}
	if n := formatC.decode(c); n.v.Sign() != 0 {
		add(n.v, refExponent(formatC, n))
	}
	for i := range a {
		x, y := in.decode(a[i]), in.decode(b[i])
		if x.v.Sign() != 0 && y.v.Sign() != 0 {
			add(new(big.Rat).Mul(x.v, y.v), refExponent(in, x)+refExponent(in, y))
		}
	}
	top := -1 << 30
	for _, t := range terms {
		top = max(top, t.e)
	}
	sum := new(big.Rat)
	for _, t := range terms {
		unit := top - core.Fraction
		cut := new(big.Rat).Mul(new(big.Rat).SetInt(roundRat(t.v, unit, "rz")), power(unit))
		if t.v.Sign() < 0 {
			cut.Neg(cut)
		}
		sum.Add(sum, cut)
	}
	if sum.Sign() == 0 {
		return 0
	}
	n := refNumber{negative: sum.Sign() < 0, v: sum}
	if formatC.prec == 11 {
		return formatC.encode(n, "rn", false)
	}
	d := formatC.encode(n, "rz", false) &^ (1<<(23-core.Cut) - 1)
	if d&0x7fffffff == 0x7f7fffff && exponent(sum) > 127 {
		d++ // too large for f32 is infinite, although everything is cut
	}
	return d
}

// TestCores compares the sums of every architecture with the rationals.
func TestCores(t *testing.T) {
	names := []string{"f16", "bf16", "tf32", "e4m3", "e5m2"}
	for arch := range Hopper + 1 {
		for in := range InE5M2 + 1 {
			for _, wgmma := range []bool{false, true} {
				core := NewCore(arch, in, wgmma)
				if core.Converted { // the sums are those of f16
					continue
				}
				f := refFormats[names[in]]
				for i := range uint64(400) {
					testCore(t, core, in, f, i)
				}
			}
		}
	}
}

// testCore checks one sum of random numbers with a random spread of exponents, with c and the result in f32 and f16.
func testCore(t *testing.T, core Core, in Input, f refFormat, seed uint64) {
	var rawA, rawB []uint64
	var a, b []uint32
	draw := func(f refFormat, x uint64) uint64 {
		ebits := uint(f.width() - f.prec)
		spread := uint64(1) << min(seed%6, uint64(ebits)-2)
		bias := uint64(1)<<(ebits-1) - 1
		field := bias + recorded.Mix(x)>>32%spread - spread/2
		return x&1<<(f.width()-1) | field<<(f.prec-1) | x&(1<<(f.prec-1)-1)
	}
	for i := range uint64(core.Block) {
		x, y := draw(f, recorded.Mix(seed*1000+i)), draw(f, recorded.Mix(seed*1000+i+500))
		rawA, rawB = append(rawA, x), append(rawB, y)
		if in == InTF32 {
			x, y = x<<13|recorded.Mix(x)&0x1fff, y<<13 // the low bits do not count
		}
		a = append(a, uint32(x))
		for range Width {
			b = append(b, uint32(y))
		}
	}
	var rows Rows
	var columns Columns
	core.Rows(&rows, in, a, core.Block)
	core.Columns(&columns, in, b)
	c := draw(refFormats["f32"], recorded.Mix(seed+7))
	var d [Width]uint32
	at := seed % Width
	d[at] = uint32(c)
	core.F32(&d, &rows, 0, &columns)
	if want := refSum(core, c, refFormats["f32"], rawA, rawB, f); uint64(d[at]) != want {
		t.Fatalf("%+v, format %d: %#x + %#x · %#x is %#x, want %#x", core, in, c, rawA, rawB, d[at], want)
	}
	c = draw(refFormats["f16"], recorded.Mix(seed+8))
	d[at] = uint32(c)
	core.F16(&d, &rows, 0, &columns)
	want := refSum(core, c, refFormats["f16"], rawA, rawB, f)
	if uint64(d[at]) != want && want != sign16 {
		t.Fatalf("%+v, format %d to f16: %#x + %#x · %#x is %#x, want %#x", core, in, c, rawA, rawB, d[at], want)
	}
}

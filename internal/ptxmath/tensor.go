package ptxmath

import "math/bits"

// This file implements what the sums of products of tensor cores are: the results of mma, wmma and wgmma. tile.go adds.
//
// A sum T(c, a1·b1, ..., ak·bk) of floats is neither rounded product by product nor exact. The products are exact and
// not normalised; the largest exponent among them and c is taken; every term is cut, towards zero, to a number of
// fraction bits below that exponent; the rest is an exact sum of integers, cut to f32 or rounded to f16. How many bits
// are kept, and how many products one sum takes, differs between architectures (MMA-Sim, arXiv 2511.10909). The Hopper
// rows are measured: see TestRecordedProducts.

// Arch is an architecture with tensor cores of its own kind.
type Arch uint8

// The architectures. Volta and Ampere (with Turing and Ada) follow the literature, not a measurement.
const (
	Volta  Arch = iota
	Ampere      // and Turing, Ada
	Hopper      // and Blackwell, where it has the same instructions
)

// Input is a format of the elements of A and B.
type Input uint8

// The floating-point formats of A and B. Integers are exact and have functions of their own.
const (
	InF16 Input = iota
	InBF16
	InTF32 // 32 bits, of which the low 13 are ignored
	InE4M3
	InE5M2
)

// Elem is a decoded element of A or B: sig·2^(exp-10).
type Elem struct {
	sig, exp int32
}

// Exponents that no product of numbers reaches. A product with an infinity or NaN is at least farUp/2 even if the other
// factor is zero.
const (
	farUp   = 1 << 20
	farDown = -(1 << 19)
	nanExp  = farUp + 1
)

// Decode reads one element, in the low bits.
func (f Input) Decode(x uint32) Elem {
	switch f {
	case InF16:
		return decodeFloat(x>>15&1, x>>10&31, x&0x3ff, 31, 15, 0)
	case InBF16:
		return decodeFloat(x>>15&1, x>>7&255, x&0x7f, 255, 127, 3)
	case InTF32:
		return decodeFloat(x>>31, x>>23&255, x>>13&0x3ff, 255, 127, 0)
	case InE4M3:
		if x&0x7f == 0x7f {
			return Elem{sig: 1, exp: nanExp}
		}
		return decodeFloat(x>>7&1, x>>3&15, x&7, 16, 7, 7) // no exponent is special
	}
	return decodeFloat(x>>7&1, x>>2&31, x&3, 31, 15, 8)
}

// decodeFloat decodes fields; up brings the fraction to ten bits.
func decodeFloat(sign, field, fraction, special uint32, bias int32, up uint) Elem {
	e := Elem{sig: int32(fraction << up), exp: int32(field) - bias}
	switch {
	case field == special && fraction != 0:
		e.exp = nanExp
	case field == special:
		e = Elem{sig: 1 << 10, exp: farUp}
	case field != 0:
		e.sig |= 1 << 10
	case fraction == 0:
		e.exp = farDown
	default:
		e.exp++
	}
	if sign != 0 {
		e.sig = -e.sig
	}
	return e
}

// Core is how one kind of tensor core adds. The zero value adds nothing; [NewCore] gives the known kinds.
type Core struct {
	Fraction int // bits kept below the largest exponent
	Block    int // products in one sum; longer ones are a chain
	Cut      int // fraction bits of an f32 result: 23, or 13 for the fp8 products of Ada and of Hopper's wgmma
	// Converted is set for the fp8 products of mma.sync on Hopper, which has none of its own: ptxas makes f16 of the
	// elements. Of every four products the first two go to one sum without c, the others to a second one that takes the
	// first as its c; c itself is added last, by an ordinary addition.
	Converted bool
}

// NewCore is the core that an instruction uses. wgmma tells wgmma from mma.sync.
func NewCore(arch Arch, in Input, wgmma bool) Core {
	fp8 := in == InE4M3 || in == InE5M2
	switch {
	case arch == Volta:
		return Core{Fraction: 23, Block: 4, Cut: 23}
	case arch == Ampere && fp8:
		return Core{Fraction: 13, Block: 16, Cut: 13}
	case arch == Ampere && in == InTF32:
		return Core{Fraction: 24, Block: 4, Cut: 23}
	case arch == Ampere:
		return Core{Fraction: 24, Block: 8, Cut: 23}
	case fp8 && wgmma:
		return Core{Fraction: 13, Block: 32, Cut: 13}
	case fp8:
		return Core{Fraction: 25, Block: 16, Cut: 23, Converted: true}
	}
	return Core{Fraction: 25, Block: 16, Cut: 23}
}

// asF16 is the element converted to f16, where the subnormal numbers of e4m3 are normal. That changes no value, but the
// exponents that decide what is cut.
func (e Elem) asF16() Elem {
	if e.sig == 0 || e.exp >= farUp {
		return e
	}
	n := min(int32(11-bits.Len32(uint32(max(e.sig, -e.sig)))), e.exp+14)
	return Elem{sig: e.sig << n, exp: e.exp - n}
}

// cut is v·2^(up-down), cut towards zero; down is not negative.
func cut(v int64, up int, down int32) int64 {
	sign := v >> 63
	m := uint64((v ^ sign) - sign)
	if up >= 0 {
		m <<= uint(up)
	} else {
		m >>= uint(-up)
	}
	return (int64(m>>(uint(min(down, 63))&63)) ^ sign) - sign
}

// cut32 is the f32 of s·2^exp, cut towards zero to the given fraction bits. What is too large becomes an infinity.
func cut32(s int64, exp, fraction int) uint32 {
	var sign uint32
	if s < 0 {
		sign, s = sign32, -s
	}
	e := exp + bits.Len64(uint64(s)) - 1 // of the number
	if e > 127 {
		return sign | inf32
	}
	q := uint32(cut(s, exp-max(e-23, -149), 0)) &^ (1<<(23-fraction) - 1)
	switch {
	case e >= -126:
		q += uint32(e+126) << 23
	case q == 0:
		return 0 // zeros are always positive
	}
	return sign | q
}

// DotF64 is one element of D in f64: fused multiply-adds in the order of the products.
func DotF64(c uint64, a, b []uint64) uint64 {
	b = b[:len(a)]
	for i := range a {
		c = FmaRN64(a[i], b[i], c)
	}
	return c
}

// DotEnd adds c to the exact sum of integer products: modulo 2^32, or clamped with .satfinite.
func DotEnd(c int32, sum int64, satfinite bool) int32 {
	if satfinite {
		return sat32(int64(c) + sum)
	}
	return c + int32(sum)
}

package ptxmath

import (
	"math"
	"math/bits"
)

// This file implements the integer instructions whose corners differ from Go's operators. Shifts do not: PTX clamps the
// amount as Go does.

// integer is what div and rem take.
type integer interface {
	uint16 | uint32 | uint64 | int16 | int32 | int64
}

// Div is div. By zero it gives all ones; the smallest number divided by -1 wraps.
func Div[T integer](a, b T) T {
	if b == 0 {
		return ^T(0)
	}
	return a / b
}

// Rem is rem. By zero it gives all ones.
func Rem[T integer](a, b T) T {
	if b == 0 {
		return ^T(0)
	}
	return a % b
}

// MulHiU32 is mul.hi.u32.
func MulHiU32(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) }

// MulHiS32 is mul.hi.s32.
func MulHiS32(a, b int32) int32 { return int32(int64(a) * int64(b) >> 32) }

// MulHiU64 is mul.hi.u64.
func MulHiU64(a, b uint64) uint64 {
	hi, _ := bits.Mul64(a, b)
	return hi
}

// MulHiS64 is mul.hi.s64: what a negative operand counts too much is taken off.
func MulHiS64(a, b int64) int64 {
	hi, _ := bits.Mul64(uint64(a), uint64(b))
	return int64(hi) - a>>63&b - b>>63&a
}

// sat32 clamps to the range of s32.
func sat32(v int64) int32 { return int32(max(-1<<31, min(v, 1<<31-1))) }

// AddSat is add.sat.s32.
func AddSat(a, b int32) int32 { return sat32(int64(a) + int64(b)) }

// SubSat is sub.sat.s32.
func SubSat(a, b int32) int32 { return sat32(int64(a) - int64(b)) }

// MadHiSat is mad.hi.sat.s32.
func MadHiSat(a, b, c int32) int32 { return sat32(int64(MulHiS32(a, b)) + int64(c)) }

// low24 sign-extends the low 24 bits.
func low24(a int32) int64 { return int64(a << 8 >> 8) }

// Mul24LoU32 is mul24.lo.u32: the low 32 bits of the 48-bit product of the low 24 bits.
func Mul24LoU32(a, b uint32) uint32 { return (a & 0xffffff) * (b & 0xffffff) }

// Mul24HiU32 is mul24.hi.u32: bits 16 to 47 of the product.
func Mul24HiU32(a, b uint32) uint32 { return uint32(uint64(a&0xffffff) * uint64(b&0xffffff) >> 16) }

// Mul24LoS32 is mul24.lo.s32.
func Mul24LoS32(a, b int32) int32 { return int32(low24(a) * low24(b)) }

// Mul24HiS32 is mul24.hi.s32.
func Mul24HiS32(a, b int32) int32 { return int32(low24(a) * low24(b) >> 16) }

// Mad24HiSat is mad24.hi.sat.s32.
func Mad24HiSat(a, b, c int32) int32 { return sat32(int64(Mul24HiS32(a, b)) + int64(c)) }

// SadU64 is sad.u64: c + |a - b|. The narrower ones are its low bits.
func SadU64(a, b, c uint64) uint64 { return c + max(a, b) - min(a, b) }

// SadS64 is sad.s64.
func SadS64(a, b int64, c uint64) uint64 { return c + uint64(max(a, b)) - uint64(min(a, b)) }

// Bfe64 is bfe.u64 and bfe.s64: length bits of a from start on. Beyond the register there are zeros, or copies of the
// sign bit. The manual takes the low byte of start and length; the hardware does so for 32 bits only.
func Bfe64(a uint64, start, length uint32, signed bool) uint64 {
	return field(a, start, length, signed, 64)
}

// Bfe32 is bfe.u32 and bfe.s32: of start and length the low byte counts.
func Bfe32(a, start, length uint32, signed bool) uint32 {
	return uint32(field(uint64(a), start&255, length&255, signed, 32))
}

func field(a uint64, start, length uint32, signed bool, width uint32) uint64 {
	if length == 0 {
		return 0
	}
	last := uint32(min(uint64(start)+uint64(length), uint64(width))) - 1
	fill := uint64(0)
	if signed && a>>last&1 != 0 {
		fill = ^uint64(0)
	}
	if start > last {
		return fill
	}
	n := last - start + 1
	return a>>start&^(^uint64(0)<<n) | fill<<n
}

// Bfi64 is bfi.b64: the low bits of a put into b from start on, as many as length says. As for bfe, the hardware does
// not confine itself to the low byte of start and length.
func Bfi64(a, b uint64, start, length uint32) uint64 {
	mask := (uint64(1)<<length - 1) << start // a shift by the width or more leaves nothing
	return b&^mask | a<<start&mask
}

// Bfi32 is bfi.b32.
func Bfi32(a, b, start, length uint32) uint32 {
	start, length = start&255, length&255
	mask := (uint32(1)<<length - 1) << start
	return b&^mask | a<<start&mask
}

// Bfind64 is bfind.u64 and bfind.s64: the place of the first bit that is not a copy of the sign, all ones if there is
// none; with shiftAmount the shift that brings it to the top.
func Bfind64(a uint64, signed, shiftAmount bool) uint32 {
	if signed && a>>63 != 0 {
		a = ^a
	}
	if a == 0 {
		return ^uint32(0)
	}
	n := uint32(bits.LeadingZeros64(a))
	if shiftAmount {
		return n
	}
	return 63 - n
}

// Bfind32 is bfind.u32 and bfind.s32.
func Bfind32(a uint32, signed, shiftAmount bool) uint32 {
	if signed && a>>31 != 0 {
		a = ^a
	}
	if a == 0 {
		return ^uint32(0)
	}
	n := uint32(bits.LeadingZeros32(a))
	if shiftAmount {
		return n
	}
	return 31 - n
}

// Fns is fns.b32: the place of the bit set offset bits from base on, upwards for a positive offset, downwards for a
// negative one; offset 0 asks for base itself. All ones if there is none.
func Fns(mask, base uint32, offset int32) uint32 {
	const none = ^uint32(0)
	switch {
	case base > 31:
		return none
	case offset == math.MinInt32: // seen on the hardware, whatever mask and base are
		return 0
	case offset == 0:
		if mask>>base&1 != 0 {
			return base
		}
		return none
	case offset > 0:
		mask &= ^uint32(0) << base
		for ; mask != 0; mask &= mask - 1 {
			if offset--; offset == 0 {
				return uint32(bits.TrailingZeros32(mask))
			}
		}
		return none
	}
	mask &= ^uint32(0) >> (31 - base)
	for mask != 0 {
		top := uint32(31 - bits.LeadingZeros32(mask))
		if offset++; offset == 0 {
			return top
		}
		mask &^= 1 << top
	}
	return none
}

// Dp4a is dp4a: c plus the products of the four bytes.
func Dp4a(a, b, c uint32, signedA, signedB bool) uint32 {
	for i := 0; i < 32; i += 8 {
		c += extend8(a>>i, signedA) * extend8(b>>i, signedB)
	}
	return c
}

// Dp2a is dp2a: c plus the products of the halves of a and the two low (or high) bytes of b.
func Dp2a(a, b, c uint32, signedA, signedB, high bool) uint32 {
	if high {
		b >>= 16
	}
	return c + extend16(a, signedA)*extend8(b, signedB) + extend16(a>>16, signedA)*extend8(b>>8, signedB)
}

func extend8(a uint32, signed bool) uint32 {
	if signed {
		return uint32(int8(a))
	}
	return a & 0xff
}

func extend16(a uint32, signed bool) uint32 {
	if signed {
		return uint32(int16(a))
	}
	return a & 0xffff
}

// Szext is szext: the low n bits of a extended to the register. n is clamped to 32, or taken modulo 32.
func Szext(a, n uint32, signed, wrap bool) uint32 {
	if wrap {
		n &= 31
	}
	switch {
	case n >= 32:
		return a
	case n == 0:
		return 0
	case signed:
		return uint32(int32(a<<(32-n)) >> (32 - n))
	}
	return a & (1<<n - 1)
}

// Bmsk is bmsk.b32: n ones from bit start on. Both are clamped to 32, or taken modulo 32.
func Bmsk(start, n uint32, wrap bool) uint32 {
	if wrap {
		start, n = start&31, n&31
	}
	return (uint32(1)<<n - 1) << start
}

// Lop3 is lop3.b32: bit by bit, the bit of lut that the bits of a, b and c number.
func Lop3(a, b, c uint32, lut uint8) uint32 {
	d := uint32(0)
	for i := range 8 {
		if lut>>i&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if i&4 == 0 {
			x = ^x
		}
		if i&2 == 0 {
			y = ^y
		}
		if i&1 == 0 {
			z = ^z
		}
		d |= x & y & z
	}
	return d
}

// ShfL is shf.l.b32: the high half of b:a shifted left by c, clamped to 32 or modulo 32.
func ShfL(a, b, c uint32, wrap bool) uint32 {
	if wrap {
		c &= 31
	}
	return uint32((uint64(b)<<32 | uint64(a)) << min(c, 32) >> 32)
}

// ShfR is shf.r.b32: the low half of b:a shifted right by c.
func ShfR(a, b, c uint32, wrap bool) uint32 {
	if wrap {
		c &= 31
	}
	return uint32((uint64(b)<<32 | uint64(a)) >> min(c, 32))
}

// Permute is a mode of prmt.
type Permute uint8

// The modes of prmt.b32.
const (
	Index Permute = iota // each nibble of the selector names a byte, its top bit asks for the sign instead
	F4E                  // four bytes forward from the selector on
	B4E                  // four bytes backward
	RC8                  // one byte four times
	ECL                  // edge clamp left
	ECR                  // edge clamp right
	RC16                 // one half twice
)

// Prmt is prmt.b32.
func Prmt(a, b, c uint32, mode Permute) uint32 {
	v := uint64(b)<<32 | uint64(a)
	if mode == Index {
		var d uint32
		for i := 0; i < 32; i += 8 {
			sel := c >> (i / 2)
			x := uint32(v>>(8*(sel&7))) & 0xff
			if sel&8 != 0 {
				x = uint32(int8(x)>>7) & 0xff
			}
			d |= x << i
		}
		return d
	}
	var d uint32
	s := c & 3
	for i := range uint32(4) {
		var from uint32
		switch mode {
		case F4E:
			from = s + i
		case B4E:
			from = (s - i) & 7
		case RC8:
			from = s
		case ECL:
			from = max(i, s)
		case ECR:
			from = min(i, s)
		default:
			from = s&1*2 + i&1
		}
		d |= uint32(v>>(8*from)) & 0xff << (8 * i)
	}
	return d
}

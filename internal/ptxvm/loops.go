package ptxvm

import (
	"encoding/binary"
	"math"

	"gpuemu/internal/ptxmath"
)

// This file implements the loops over 32 lanes that kernels spend their time with. Each does what the function of its
// row does lane by lane. These here are the reference; loops_amd64.s and loops_memory_amd64.s have the same for
// processors with AVX2 and FMA, and a test compares the two bit by bit.

// loops are the loops of a processor. Results may be written to the registers of operands.
type loops struct {
	add32, sub32, mul32, and32, or32, xor32, shl32, shr32, shrSigned32, min32, max32 func(d, a, b *lanes32)
	addFloat, subFloat, mulFloat, divFloat, minFloat, maxFloat                       func(d, a, b *lanes32)
	fmaFloat, mad32                                                                  func(d, a, b, c *lanes32)
	add64, sub64, mul64, and64, or64, xor64                                          func(d, a, b *lanes64)
	shl64                                                                            func(d, a *lanes64, b *lanes32)
	mulWide, mulWideSigned                                                           func(d *lanes64, a, b *lanes32)

	madWide, madWideSigned func(d *lanes64, a, b *lanes32, c *lanes64)

	signExtend, zeroExtend func(d *lanes64, a *lanes32)
	truncate               func(d *lanes32, a *lanes64)
	floatOfSigned          func(d, a *lanes32)

	// select32 and select64 give a where p is set, and else b.
	select32 func(d, a, b *lanes32, p uint32)
	select64 func(d, a, b *lanes64, p uint32)

	// Comparisons give one bit a lane. Those of floats are false where an operand is NaN, but for unordered.
	equal32, greater32, above32                      func(a, b *lanes32) uint32 // above: of unsigned numbers
	equalFloat, lessFloat, lessEqualFloat, unordered func(a, b *lanes32) uint32

	// offsets fills in how far addresses lie behind start, and says what they are like together. Those outside are
	// above most, or have a bit of odd.
	offsets func(at, base *lanes64, start, most, odd uint64) layout
	// distinct leaves out lanes with the offset of the lane before, and all of the second half if it has the offsets of
	// the first. What is left has every offset at least once.
	distinct func(at *lanes64) uint32
	// load and store move one word of 4 bytes a lane, the lowest lane first; all offsets lie in the data.
	load  func(d *lanes32, data []byte, at *lanes64, like layout)
	store func(data []byte, at *lanes64, s *lanes32, like layout)
}

// layout is what the addresses of a warp are like.
type layout uint32

const (
	outside layout = 1 << iota // not all of them can be accessed
	uniform                    // they are the same
	side                       // side by side, in steps of 4 bytes
)

// fast has the best loops of this processor.
var fast = bestLoops()

// goLoops are those of every processor.
var goLoops = loops{
	add32: fastAdd32, sub32: fastSub32, mul32: fastMul32, and32: fastAnd32, or32: fastOr32, xor32: fastXor32,
	shl32: fastShl32, shr32: fastShr32, shrSigned32: fastShrSigned32, min32: fastMin32, max32: fastMax32,
	addFloat: fastFAdd, subFloat: fastFSub, mulFloat: fastFMul, divFloat: fastFDiv, minFloat: fastFMin,
	maxFloat: fastFMax, fmaFloat: fastFma, mad32: fastMad32,
	add64: fastAdd64, sub64: fastSub64, mul64: fastMul64, and64: fastAnd64, or64: fastOr64, xor64: fastXor64,
	shl64: fastShl64, mulWide: fastMulWide, mulWideSigned: fastMulWideSigned, madWide: fastMadWide,
	madWideSigned: fastMadWideSigned, signExtend: fastSignExtend, zeroExtend: fastZeroExtend, truncate: fastTruncate,
	floatOfSigned: fastFloatOfSigned, select32: fastSelect32, select64: fastSelect64,
	equal32: fastEqual32, greater32: fastGreater32, above32: fastAbove32, equalFloat: fastEqualFloat,
	lessFloat: fastLessFloat, lessEqualFloat: fastLessEqualFloat, unordered: fastUnordered,
	offsets: fastOffsets, distinct: fastDistinct, load: fastLoad, store: fastStore,
}

func fastAdd32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func fastSub32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func fastMul32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func fastAnd32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func fastOr32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func fastXor32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func fastShl32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

func fastShr32(d, a, b *lanes32) {
	for i := range d {
		d[i] = a[i] >> b[i]
	}
}

func fastShrSigned32(d, a, b *lanes32) {
	for i := range d {
		d[i] = uint32(int32(a[i]) >> b[i])
	}
}

func fastMin32(d, a, b *lanes32) {
	for i := range d {
		d[i] = uint32(min(int32(a[i]), int32(b[i])))
	}
}

func fastMax32(d, a, b *lanes32) {
	for i := range d {
		d[i] = uint32(max(int32(a[i]), int32(b[i])))
	}
}

func fastAdd64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func fastSub64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func fastMul64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func fastAnd64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func fastOr64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func fastXor64(d, a, b *lanes64) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func fastShl64(d, a *lanes64, b *lanes32) {
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

func fastMulWide(d *lanes64, a, b *lanes32) {
	for i := range d {
		d[i] = uint64(a[i]) * uint64(b[i])
	}
}

func fastMulWideSigned(d *lanes64, a, b *lanes32) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
	}
}

func fastMadWide(d *lanes64, a, b *lanes32, c *lanes64) {
	for i := range d {
		d[i] = uint64(a[i])*uint64(b[i]) + c[i]
	}
}

func fastMadWideSigned(d *lanes64, a, b *lanes32, c *lanes64) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i]))*int64(int32(b[i]))) + c[i]
	}
}

func fastMad32(d, a, b, c *lanes32) {
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
}

func fastSignExtend(d *lanes64, a *lanes32) {
	for i := range d {
		d[i] = uint64(int32(a[i]))
	}
}

func fastZeroExtend(d *lanes64, a *lanes32) {
	for i := range d {
		d[i] = uint64(a[i])
	}
}

func fastTruncate(d *lanes32, a *lanes64) {
	for i := range d {
		d[i] = uint32(a[i])
	}
}

func fastFloatOfSigned(d, a *lanes32) {
	for i := range d {
		d[i] = math.Float32bits(float32(int32(a[i])))
	}
}

func fastSelect32(d, a, b *lanes32, p uint32) {
	for i := range d {
		x := b[i]
		if p>>i&1 != 0 {
			x = a[i]
		}
		d[i] = x
	}
}

func fastSelect64(d, a, b *lanes64, p uint32) {
	for i := range d {
		x := b[i]
		if p>>i&1 != 0 {
			x = a[i]
		}
		d[i] = x
	}
}

func fastEqual32(a, b *lanes32) (m uint32) {
	for i := range a {
		if a[i] == b[i] {
			m |= 1 << i
		}
	}
	return m
}

func fastGreater32(a, b *lanes32) (m uint32) {
	for i := range a {
		if int32(a[i]) > int32(b[i]) {
			m |= 1 << i
		}
	}
	return m
}

func fastAbove32(a, b *lanes32) (m uint32) {
	for i := range a {
		if a[i] > b[i] {
			m |= 1 << i
		}
	}
	return m
}

func fastEqualFloat(a, b *lanes32) (m uint32) {
	for i := range a {
		if math.Float32frombits(a[i]) == math.Float32frombits(b[i]) {
			m |= 1 << i
		}
	}
	return m
}

func fastLessFloat(a, b *lanes32) (m uint32) {
	for i := range a {
		if math.Float32frombits(a[i]) < math.Float32frombits(b[i]) {
			m |= 1 << i
		}
	}
	return m
}

func fastLessEqualFloat(a, b *lanes32) (m uint32) {
	for i := range a {
		if math.Float32frombits(a[i]) <= math.Float32frombits(b[i]) {
			m |= 1 << i
		}
	}
	return m
}

func fastUnordered(a, b *lanes32) (m uint32) {
	for i := range a {
		if a[i]<<1 > 0xff000000 || b[i]<<1 > 0xff000000 {
			m |= 1 << i
		}
	}
	return m
}

func fastOffsets(at, base *lanes64, start, most, odd uint64) layout {
	first := base[0] - start
	var bits, far uint64
	like := uniform | side
	for i, x := range base {
		x -= start
		at[i] = x
		bits |= x
		far = max(far, x)
		if x != first {
			like &^= uniform
		}
		if x != first+4*uint64(i) {
			like &^= side
		}
	}
	if bits&odd != 0 || far > most {
		like |= outside
	}
	return like
}

func fastDistinct(at *lanes64) uint32 {
	lanes := uint32(1)
	for i := 1; i < warpSize; i++ {
		if at[i] != at[i-1] {
			lanes |= 1 << i
		}
	}
	for i := range warpSize / 2 {
		if at[i] != at[i+warpSize/2] {
			return lanes
		}
	}
	return lanes & 0xffff
}

func fastLoad(d *lanes32, data []byte, at *lanes64, _ layout) {
	for i := range d {
		d[i] = binary.LittleEndian.Uint32(data[at[i]:])
	}
}

func fastStore(data []byte, at *lanes64, s *lanes32, _ layout) {
	for i := range s {
		binary.LittleEndian.PutUint32(data[at[i]:], s[i])
	}
}

func fastFAdd(d, a, b *lanes32) {
	for i := range d {
		d[i] = ptxmath.AddRN32(a[i], b[i])
	}
}

func fastFSub(d, a, b *lanes32) {
	for i := range d {
		d[i] = ptxmath.SubRN32(a[i], b[i])
	}
}

func fastFMul(d, a, b *lanes32) {
	for i := range d {
		d[i] = ptxmath.MulRN32(a[i], b[i])
	}
}

// fastFMax and fastFMin are for what differs and is not NaN; the rest is rare.
func fastFMax(d, a, b *lanes32) {
	for i := range d {
		x, y := math.Float32frombits(a[i]), math.Float32frombits(b[i])
		switch {
		case x > y:
			d[i] = a[i]
		case x < y:
			d[i] = b[i]
		default:
			d[i] = ptxmath.Max32(a[i], b[i], ptxmath.Sel{})
		}
	}
}

func fastFMin(d, a, b *lanes32) {
	for i := range d {
		x, y := math.Float32frombits(a[i]), math.Float32frombits(b[i])
		switch {
		case x < y:
			d[i] = a[i]
		case x > y:
			d[i] = b[i]
		default:
			d[i] = ptxmath.Min32(a[i], b[i], ptxmath.Sel{})
		}
	}
}

func fastFDiv(d, a, b *lanes32) {
	for i := range d {
		d[i] = ptxmath.Div32(a[i], b[i], ptxmath.Mode{})
	}
}

func fastFma(d, a, b, c *lanes32) {
	for i := range d { // as ptxmath.FmaRN32, which leaves a few numbers to a slower way
		x, y := float64(math.Float32frombits(a[i])), float64(math.Float32frombits(b[i]))
		s := x*y + float64(math.Float32frombits(c[i]))
		if math.Float64bits(s)&(1<<29-1) != 1<<28 && (s >= 0x1p-126 || s <= -0x1p-126) {
			d[i] = math.Float32bits(float32(s))
		} else {
			d[i] = ptxmath.FmaRN32(a[i], b[i], c[i])
		}
	}
}

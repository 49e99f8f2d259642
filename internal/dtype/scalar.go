package dtype

// This file implements the conversions of one element, loads and stores, and the distance in units in the last place.

import (
	"encoding/binary"
	"math"
)

const (
	signMask64  = 1 << 63
	infBits64   = 0x7ff << 52
	quietBit64  = 1 << 51
	manBits64   = 52
	expBias64   = 1023
	wideIntBits = 64
)

// Float64 returns the value of a bit pattern; bits above the element's size are ignored.
func (d DType) Float64(bits uint64) float64 {
	switch d {
	case Float64:
		return math.Float64frombits(bits)
	case Float32:
		return widen32(uint32(bits))
	case Float16:
		return widen16(uint16(bits))
	case BFloat16:
		return widen32(uint32(uint16(bits)) << 16)
	case Float8E4M3FN:
		return widenE4M3(uint8(bits))
	case Float8E5M2:
		return widen16(uint16(uint8(bits)) << 8)
	case Int8:
		return float64(int8(bits))
	case Int16:
		return float64(int16(bits))
	case Int32:
		return float64(int32(bits))
	case Int64:
		return float64(int64(bits))
	case Uint8:
		return float64(uint8(bits))
	case Uint16:
		return float64(uint16(bits))
	case Uint32:
		return float64(uint32(bits))
	case Uint64:
		return float64(bits)
	case Bool:
		return float64(truth(uint8(bits) != 0))
	}
	return math.NaN()
}

// widen32 is float64(float32) with the NaN rule spelled out, since CPUs differ there.
func widen32(b uint32) float64 {
	v := float64(math.Float32frombits(b))
	if v != v {
		v = math.Float64frombits(uint64(b>>31)<<63 | infBits64 | quietBit64 | uint64(b&0x7fffff)<<29)
	}
	return v
}

// widen16 moves the fields of a binary16 to those of a float64. Subnormals get the exponent of the smallest normal
// and lose its hidden bit by an exact subtraction.
func widen16(h uint16) float64 {
	sign := uint64(h>>15) << 63
	u := uint64(h&0x7fff) << 42
	switch {
	case u-1<<52 < 30<<52: // exponent field 1…30
		return math.Float64frombits(sign | (u + (expBias64-15)<<52))
	case u < 1<<52:
		v := math.Float64frombits(u+(expBias64-14)<<52) - 0x1p-14
		return math.Float64frombits(sign | math.Float64bits(v))
	case u == 31<<52:
		return math.Float64frombits(sign | infBits64)
	}
	return math.Float64frombits(sign | infBits64 | quietBit64 | u)
}

func widenE4M3(b uint8) float64 {
	sign := uint64(b>>7) << 63
	u := uint64(b&0x7f) << 49
	switch {
	case b&0x7f == 0x7f:
		return math.Float64frombits(sign | infBits64 | quietBit64)
	case u < 1<<52:
		v := math.Float64frombits(u+(expBias64-6)<<52) - 0x1p-6
		return math.Float64frombits(sign | math.Float64bits(v))
	}
	return math.Float64frombits(sign | (u + (expBias64-7)<<52))
}

// Bits returns the bit pattern of x rounded to d, to nearest, ties to even. Floats overflow to an infinity, which
// Float8E4M3FN does not have: there it is the NaN of that sign. Integers saturate and take NaN to 0; Bool is x != 0.
func (d DType) Bits(x float64) uint64 {
	switch d.kind() {
	case kindFloat:
		switch d {
		case Float64:
			return math.Float64bits(x)
		case Float32:
			return uint64(narrow32(x))
		}
		return formats[d].narrow(x)
	case kindInt:
		return d.saturateInt(x)
	case kindUint:
		return d.saturateUint(x)
	case kindBool:
		return uint64(truth(x != 0))
	}
	return 0
}

// truth is the byte of a Bool.
func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// BitsSaturating is Bits, except that floats beyond the range, infinities included, become the largest finite value
// of their sign. NaN stays NaN.
func (d DType) BitsSaturating(x float64) uint64 {
	if d.kind() != kindFloat {
		return d.Bits(x)
	}
	f := &formats[d]
	if limit := f.maxFinite; x > limit {
		return f.maxBits
	} else if x < -limit {
		return f.signBit | f.maxBits
	}
	return d.Bits(x)
}

// narrow32 is float32(float64) with the NaN rule spelled out.
func narrow32(x float64) uint32 {
	if x != x {
		u := math.Float64bits(x)
		return uint32(u>>63)<<31 | 0x7fc00000 | uint32(u>>29)&0x7fffff
	}
	return math.Float32bits(float32(x))
}

// narrow rounds x to a format with at most 16 bits. In the normal range the significand's low bits are rounded away
// in integer arithmetic, where a carry runs into the exponent as it should. Below it, adding a power of two whose
// last place is the subnormal spacing makes the float64 addition round at the right place.
func (f *floatFormat) narrow(x float64) uint64 {
	u := math.Float64bits(x)
	a := u &^ signMask64
	drop := manBits64 - f.manBits
	sign := (u >> 63) * f.signBit
	switch {
	case a > infBits64:
		return sign | f.nanBits | (a>>drop)&(1<<f.manBits-1)
	case a < uint64(expBias64+f.minExp)<<52:
		magic := uint64(expBias64+f.minExp+int(drop)) << 52
		return sign | (math.Float64bits(math.Float64frombits(a)+math.Float64frombits(magic)) - magic)
	}
	a -= uint64(expBias64+f.minExp-1) << 52
	a = (a + (1<<(drop-1) - 1) + a>>drop&1) >> drop
	return sign | min(a, f.infBits)
}

// saturateInt rounds x to a signed integer of d's size.
func (d DType) saturateInt(x float64) uint64 {
	x = math.RoundToEven(x)
	mask := uint64(math.MaxUint64) >> (wideIntBits - 8*d.Size())
	limit := float64(mask>>1 + 1)
	switch {
	case x >= limit:
		return mask >> 1
	case x < -limit:
		return mask>>1 + 1
	case x != x:
		return 0
	}
	return uint64(int64(x)) & mask
}

// saturateUint rounds x to an unsigned integer of d's size.
func (d DType) saturateUint(x float64) uint64 {
	x = math.RoundToEven(x)
	mask := uint64(math.MaxUint64) >> (wideIntBits - 8*d.Size())
	switch {
	case !(x > 0): // negative, zero or NaN
		return 0
	case x >= float64(mask): // for 64 bits float64(mask) is 2^64, one above the largest value
		return mask
	}
	return uint64(x)
}

// Load returns the bit pattern of the first element in b, little-endian.
func (d DType) Load(b []byte) uint64 {
	switch d.Size() {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	case 8:
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Store writes a bit pattern as the first element of b, little-endian.
func (d DType) Store(b []byte, bits uint64) {
	switch d.Size() {
	case 1:
		b[0] = byte(bits)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(bits))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(bits))
	case 8:
		binary.LittleEndian.PutUint64(b, bits)
	}
}

// IsNaN reports whether the bit pattern is a NaN of d.
func (d DType) IsNaN(bits uint64) bool {
	if d.kind() != kindFloat {
		return false
	}
	f := &formats[d]
	magnitude := bits & (f.signBit - 1)
	if d == Float8E4M3FN {
		return magnitude == f.nanBits
	}
	return magnitude > f.infBits
}

// ULPDistance returns the number of steps from one value of d to the other along all its values, infinities
// included. The two zeros are one value and all NaNs are one value; from a NaN to a number it is MaxUint64. For
// integers it is the absolute difference, for Bool 0 or 1.
func (d DType) ULPDistance(a, b uint64) uint64 {
	switch d.kind() {
	case kindFloat:
		nanA, nanB := d.IsNaN(a), d.IsNaN(b)
		switch {
		case nanA && nanB:
			return 0
		case nanA || nanB:
			return math.MaxUint64
		}
		signBit := formats[d].signBit
		magA, magB := a&(signBit-1), b&(signBit-1)
		if (a^b)&signBit != 0 {
			return magA + magB
		}
		return max(magA, magB) - min(magA, magB)
	case kindInt:
		shift := wideIntBits - 8*d.Size()
		x, y := int64(a<<shift)>>shift, int64(b<<shift)>>shift
		return uint64(max(x, y)) - uint64(min(x, y))
	case kindUint:
		mask := uint64(math.MaxUint64) >> (wideIntBits - 8*d.Size())
		a, b = a&mask, b&mask
		return max(a, b) - min(a, b)
	case kindBool:
		if (uint8(a) != 0) != (uint8(b) != 0) {
			return 1
		}
	}
	return 0
}

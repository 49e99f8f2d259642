package dtype

// This file implements the conversions whose other side is float32. They round once from their source: float32 to a
// narrow format does not matter (a float32 is a float64), but float64 or a 64-bit integer to float32 does.

import (
	"encoding/binary"
	"math"
)

const (
	signMask32 = 1 << 31
	manBits32  = 23
	expBias32  = 127
)

// Float32 returns the value of a bit pattern rounded once to float32. It is exact for the floats of at most 32 bits
// and the integers of at most 16.
func (d DType) Float32(bits uint64) float32 {
	switch d {
	case Float32:
		return math.Float32frombits(uint32(bits))
	case Int64:
		return float32(int64(bits)) // through float64 it would round twice
	case Uint64:
		return float32(bits)
	}
	return math.Float32frombits(narrow32(d.Float64(bits)))
}

// BitsFloat32 is Bits for a float32.
func (d DType) BitsFloat32(x float32) uint64 {
	if d == Float32 {
		return uint64(math.Float32bits(x))
	}
	return d.Bits(widen32(math.Float32bits(x)))
}

// DecodeFloat32 sets dst to the elements in src as Float32 does. The length of src must be len(dst)*d.Size().
func DecodeFloat32(dst []float32, d DType, src []byte) {
	checkLen("DecodeFloat32", d, len(dst), len(src))
	switch d {
	case Float64:
		for i := range dst {
			dst[i] = math.Float32frombits(narrow32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))))
		}
	case Float32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case Float16:
		decode16Single(dst, src)
	case BFloat16:
		for i := range dst {
			b := uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16
			if b&^signMask32 > 0x7f800000 {
				b |= 1 << 22
			}
			dst[i] = math.Float32frombits(b)
		}
	case Float8E4M3FN, Float8E5M2:
		decode8(dst, src, d.Float32)
	default:
		size := d.Size()
		for i := range dst {
			dst[i] = d.Float32(d.Load(src[i*size:]))
		}
	}
}

// decode16Single is decode16 with the field positions of float32.
func decode16Single(dst []float32, src []byte) {
	const (
		fields = 1<<31 | 0x7fff<<13
		rebias = (expBias32 - 15) << manBits32
	)
	for len(dst) >= 4 && len(src) >= 8 {
		w := binary.LittleEndian.Uint64(src)
		if allNormal16(w) {
			dst[0] = math.Float32frombits(uint32(int32(uint32(w)<<16)>>3)&fields + rebias)
			dst[1] = math.Float32frombits(uint32(int32(uint32(w))>>3)&fields + rebias)
			dst[2] = math.Float32frombits(uint32(int32(uint32(w>>16))>>3)&fields + rebias)
			dst[3] = math.Float32frombits(uint32(int32(uint32(w>>32))>>3)&fields + rebias)
		} else {
			dst[0] = Float16.Float32(w & 0xffff)
			dst[1] = Float16.Float32(w >> 16 & 0xffff)
			dst[2] = Float16.Float32(w >> 32 & 0xffff)
			dst[3] = Float16.Float32(w >> 48)
		}
		dst, src = dst[4:], src[8:]
	}
	for i := range dst {
		dst[i] = Float16.Float32(uint64(binary.LittleEndian.Uint16(src[2*i:])))
	}
}

// EncodeFloat32 is Encode for float32 sources. The length of dst must be len(src)*d.Size().
func EncodeFloat32(dst []byte, d DType, src []float32) {
	checkLen("EncodeFloat32", d, len(src), len(dst))
	switch d {
	case Float32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	case Float16:
		encode16Single(dst, src)
	case BFloat16:
		for i, x := range src {
			u := math.Float32bits(x)
			h := (u + 0x7fff + u>>16&1) >> 16 // subnormals and overflow included: the exponent field is the same
			if x != x {
				h = u>>16 | 1<<6
			}
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(h))
		}
	default:
		var wide [256]float64 // on the stack
		for size := d.Size(); len(src) > 0; {
			n := min(len(wide), len(src))
			for i, x := range src[:n] {
				wide[i] = widen32(math.Float32bits(x))
			}
			Encode(dst[:n*size], d, wide[:n])
			dst, src = dst[n*size:], src[n:]
		}
	}
}

// encode16Single rounds float32 to binary16 as floatFormat.narrow does, with the common case in line.
func encode16Single(dst []byte, src []float32) {
	const (
		drop = manBits32 - 10
		lo   = (expBias32 - 14) << manBits32
		span = (expBias32+16)<<manBits32 - 1<<(drop-1) - lo // up to 65520
		bias = lo - 1<<manBits32 - (1<<(drop-1) - 1)
	)
	f := &formats[Float16]
	for i, x := range src {
		u := math.Float32bits(x)
		a := u &^ signMask32
		h := u>>31<<15 | (a-bias+a>>drop&1)>>drop
		if a-lo >= span {
			h = uint32(f.narrow(widen32(u)))
		}
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(h))
	}
}

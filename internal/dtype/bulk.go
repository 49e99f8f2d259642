package dtype

// This file implements the bulk conversions between little-endian bytes and float64. Each is its scalar counterpart
// in a loop with the common case in line; the tests compare the two on every code.

import (
	"encoding/binary"
	"fmt"
	"math"
)

// tableFrom is the number of 8-bit elements from which a table of all 256 values pays for itself. It is built on the
// stack of the call: 256 conversions cost less than a package variable that has to be guarded.
const tableFrom = 1024

// checkLen panics unless n elements of d take exactly size bytes. Callers have validated lengths against shapes long
// before; converting what happens to fit would hide a truncated buffer.
func checkLen(op string, d DType, n, size int) {
	if d == Invalid || d >= numDTypes || n*d.Size() != size {
		panic(fmt.Sprintf("dtype: internal error: %s: %d elements of %v in %d bytes", op, n, d, size))
	}
}

// Decode sets dst to the values of the elements in src, whose length must be len(dst)*d.Size().
func Decode(dst []float64, d DType, src []byte) {
	checkLen("Decode", d, len(dst), len(src))
	switch d {
	case Float64:
		decode64(dst, src)
	case Float32:
		decode32(dst, src)
	case Float16:
		decode16(dst, src)
	case BFloat16:
		for i := range dst {
			dst[i] = widen32(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case Float8E4M3FN, Float8E5M2:
		decode8(dst, src, d.Float64)
	default:
		decodeInts(dst, d, src)
	}
}

// decode64 and decode32 take four elements at a time, where no kernel has: one check of the bounds for them.
func decode64(dst []float64, src []byte) {
	for len(dst) >= 4 && len(src) >= 32 {
		dst[0] = math.Float64frombits(binary.LittleEndian.Uint64(src))
		dst[1] = math.Float64frombits(binary.LittleEndian.Uint64(src[8:]))
		dst[2] = math.Float64frombits(binary.LittleEndian.Uint64(src[16:]))
		dst[3] = math.Float64frombits(binary.LittleEndian.Uint64(src[24:]))
		dst, src = dst[4:], src[32:]
	}
	for i := range dst {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
	}
}

func decode32(dst []float64, src []byte) {
	n := widenAll(dst, src)
	dst, src = dst[n:], src[4*n:]
	for len(dst) >= 4 && len(src) >= 16 {
		dst[0] = widen32(binary.LittleEndian.Uint32(src))
		dst[1] = widen32(binary.LittleEndian.Uint32(src[4:]))
		dst[2] = widen32(binary.LittleEndian.Uint32(src[8:]))
		dst[3] = widen32(binary.LittleEndian.Uint32(src[12:]))
		dst, src = dst[4:], src[16:]
	}
	for i := range dst {
		dst[i] = widen32(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// decode16 takes four elements from each load. When none of the four has the lowest or the highest exponent, they are
// normal numbers: the fields move six places up, under the sign, and the exponent gets the difference of the biases.
func decode16(dst []float64, src []byte) {
	const (
		fields = 1<<63 | 0x7fff<<42
		rebias = (expBias64 - 15) << 52
	)
	for len(dst) >= 4 && len(src) >= 8 {
		w := binary.LittleEndian.Uint64(src)
		if allNormal16(w) {
			dst[0] = math.Float64frombits(uint64(int64(w<<48)>>6)&fields + rebias)
			dst[1] = math.Float64frombits(uint64(int64(w<<32)>>6)&fields + rebias)
			dst[2] = math.Float64frombits(uint64(int64(w<<16)>>6)&fields + rebias)
			dst[3] = math.Float64frombits(uint64(int64(w)>>6)&fields + rebias)
		} else {
			dst[0] = widen16(uint16(w))
			dst[1] = widen16(uint16(w >> 16))
			dst[2] = widen16(uint16(w >> 32))
			dst[3] = widen16(uint16(w >> 48))
		}
		dst, src = dst[4:], src[8:]
	}
	for i := range dst {
		dst[i] = widen16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// allNormal16 reports whether all four binary16 elements of w are normal numbers. Adding one to the exponents leaves
// their upper four bits zero for 0 and 31 alone; adding 15 to those four bits carries unless they are zero. No sum
// leaves its 16-bit lane.
func allNormal16(w uint64) bool {
	const lanes = 0x0001_0001_0001_0001
	upper := (w&(0x7c00*lanes) + 0x0400*lanes) & (0x7800 * lanes)
	return (upper+0x7800*lanes)&(0x8000*lanes) == 0x8000*lanes
}

func decode8[T float32 | float64](dst []T, src []byte, widen func(bits uint64) T) {
	if len(src) < tableFrom {
		for i, b := range src {
			dst[i] = widen(uint64(b))
		}
		return
	}
	var table [256]T
	for i := range table {
		table[i] = widen(uint64(i))
	}
	dst = dst[:len(src)]
	for i, b := range src {
		dst[i] = table[b]
	}
}

func decodeInts(dst []float64, d DType, src []byte) {
	switch d {
	case Int8:
		for i := range dst {
			dst[i] = float64(int8(src[i]))
		}
	case Int16:
		for i := range dst {
			dst[i] = float64(int16(binary.LittleEndian.Uint16(src[2*i:])))
		}
	case Int32:
		for i := range dst {
			dst[i] = float64(int32(binary.LittleEndian.Uint32(src[4*i:])))
		}
	case Int64:
		for i := range dst {
			dst[i] = float64(int64(binary.LittleEndian.Uint64(src[8*i:])))
		}
	case Uint8:
		for i := range dst {
			dst[i] = float64(src[i])
		}
	case Uint16:
		for i := range dst {
			dst[i] = float64(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case Uint32:
		for i := range dst {
			dst[i] = float64(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case Uint64:
		for i := range dst {
			dst[i] = float64(binary.LittleEndian.Uint64(src[8*i:]))
		}
	case Bool:
		for i := range dst {
			dst[i] = float64(truth(src[i] != 0))
		}
	}
}

// Encode sets dst to the elements nearest to src, as Bits rounds. The length of dst must be len(src)*d.Size().
func Encode(dst []byte, d DType, src []float64) {
	checkLen("Encode", d, len(src), len(dst))
	switch d {
	case Float64:
		encode64(dst, src)
	case Float32:
		encode32(dst, src)
	case Float16, BFloat16:
		encode16(dst, d, src)
	case Float8E4M3FN, Float8E5M2:
		encode8(dst, d, src)
	case Int64, Uint64:
		for i, x := range src {
			binary.LittleEndian.PutUint64(dst[8*i:], d.Bits(x))
		}
	case Bool:
		for i, x := range src {
			dst[i] = truth(x != 0)
		}
	default:
		encodeInts(dst, d, src)
	}
}

// encode64 and encode32 take four elements at a time, as decode64 does.
func encode64(dst []byte, src []float64) {
	for len(src) >= 4 && len(dst) >= 32 {
		binary.LittleEndian.PutUint64(dst, math.Float64bits(src[0]))
		binary.LittleEndian.PutUint64(dst[8:], math.Float64bits(src[1]))
		binary.LittleEndian.PutUint64(dst[16:], math.Float64bits(src[2]))
		binary.LittleEndian.PutUint64(dst[24:], math.Float64bits(src[3]))
		dst, src = dst[32:], src[4:]
	}
	for i, x := range src {
		binary.LittleEndian.PutUint64(dst[8*i:], math.Float64bits(x))
	}
}

func encode32(dst []byte, src []float64) {
	n := narrowAll(dst, src)
	dst, src = dst[4*n:], src[n:]
	for len(src) >= 4 && len(dst) >= 16 {
		binary.LittleEndian.PutUint32(dst, narrow32(src[0]))
		binary.LittleEndian.PutUint32(dst[4:], narrow32(src[1]))
		binary.LittleEndian.PutUint32(dst[8:], narrow32(src[2]))
		binary.LittleEndian.PutUint32(dst[12:], narrow32(src[3]))
		dst, src = dst[16:], src[4:]
	}
	for i, x := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], narrow32(x))
	}
}

// EncodeSaturating is Encode with BitsSaturating: no float overflows to an infinity or a NaN.
func EncodeSaturating(dst []byte, d DType, src []float64) {
	checkLen("EncodeSaturating", d, len(src), len(dst))
	if !d.IsFloat() {
		Encode(dst, d, src)
		return
	}
	const block = 256 // clamped copies stay on the stack
	var clamped [block]float64
	limit := d.MaxFinite()
	for len(src) > 0 {
		n := min(block, len(src))
		for i, x := range src[:n] {
			if x > limit {
				x = limit
			}
			if x < -limit {
				x = -limit
			}
			clamped[i] = x
		}
		Encode(dst[:n*d.Size()], d, clamped[:n])
		dst, src = dst[n*d.Size():], src[n:]
	}
}

// rounder holds what narrow computes from the format alone.
type rounder struct {
	lo, span uint64 // float64 magnitudes lo…lo+span-1 are normal in the format and stay finite
	bias     uint64 // what rebiasing subtracts from the exponent, less the rounding constant
	drop     uint   // significand bits to round away
}

func (d DType) rounder() rounder {
	f := &formats[d]
	drop := manBits64 - f.manBits
	lo := uint64(expBias64+f.minExp) << manBits64
	return rounder{
		lo:   lo,
		span: math.Float64bits(f.overflow) - lo,
		bias: lo - 1<<manBits64 - (1<<(drop-1) - 1),
		drop: drop,
	}
}

func encode16(dst []byte, d DType, src []float64) {
	f, r := &formats[d], d.rounder()
	lo, span, bias, drop := r.lo, r.span, r.bias, r.drop&63
	for i, x := range src {
		u := math.Float64bits(x)
		a := u &^ signMask64
		h := u>>63<<15 | (a-bias+a>>drop&1)>>drop
		if a-lo >= span {
			h = f.narrow(x)
		}
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(h))
	}
}

func encode8(dst []byte, d DType, src []float64) {
	f, r := &formats[d], d.rounder()
	lo, span, bias, drop := r.lo, r.span, r.bias, r.drop&63
	dst = dst[:len(src)]
	for i, x := range src {
		u := math.Float64bits(x)
		a := u &^ signMask64
		h := u>>63<<7 | (a-bias+a>>drop&1)>>drop
		if a-lo >= span {
			h = f.narrow(x)
		}
		dst[i] = byte(h)
	}
}

// encodeInts serves the integers of at most 32 bits. Adding 1.5·2^52 to a clamped value rounds it to an integer, to
// nearest and ties to even, and leaves its two's complement in the low bits of the sum.
func encodeInts(dst []byte, d DType, src []float64) {
	const magic = 0x1.8p52
	hi, lo := d.MaxFinite(), 0.0
	if d.IsSigned() {
		lo = -hi - 1
	}
	size := d.Size()
	for i, x := range src {
		u := math.Float64bits(min(max(x, lo), hi) + magic)
		if x != x {
			u = 0
		}
		switch size {
		case 1:
			dst[i] = byte(u)
		case 2:
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(u))
		default:
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(u))
		}
	}
}

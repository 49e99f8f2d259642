// This file implements distances in units in the last place of the output dtype, a chunk at a time.

package compare

import (
	"encoding/binary"
	"math"
	"math/bits"

	"gpuemu/internal/dtype"
)

// ulps sets dst[i] to the number of values of dtype d between got and want rounded to d. Values beyond the range of d
// count as its largest finite value, also for formats whose overflow is NaN. Elements that are not finite on both sides
// get a meaningless distance; the caller leaves them out.
func (p *plan) ulps(dst []uint64, got []byte, want []float64, scratch []byte) {
	switch p.d {
	case dtype.Float32:
		for i, w := range want[:len(dst)] {
			dst[i] = distance64(ordered32(binary.LittleEndian.Uint32(got[4*i:])), roundOrdered32(w))
		}
	case dtype.Float64:
		for i, w := range want[:len(dst)] {
			dst[i] = distance64(ordered64(binary.LittleEndian.Uint64(got[8*i:])), ordered64(math.Float64bits(w)))
		}
	case dtype.Float16, dtype.BFloat16:
		p.round(scratch, want)
		for i := range dst {
			g, r := binary.LittleEndian.Uint16(got[2*i:]), binary.LittleEndian.Uint16(scratch[2*i:])
			dst[i] = distance64(ordered16(g), ordered16(r))
		}
	case dtype.Float8E4M3FN, dtype.Float8E5M2:
		p.round(scratch, want)
		for i := range dst {
			dst[i] = distance64(ordered16(uint16(got[i])<<8), ordered16(uint16(scratch[i])<<8)) >> 8
		}
	default:
		size := p.d.Size()
		for i, w := range want[:len(dst)] {
			dst[i] = p.d.ULPDistance(p.d.Load(got[i*size:]), p.d.Bits(w))
		}
	}
}

// round encodes the wanted values, clamped, into scratch.
func (p *plan) round(scratch []byte, want []float64) {
	var buf [256]float64
	lim, size := p.maxFinite, p.d.Size()
	for lo := 0; lo < len(want); lo += len(buf) {
		n := min(len(buf), len(want)-lo)
		for i, w := range want[lo : lo+n] {
			buf[i] = max(-lim, min(lim, w))
		}
		dtype.Encode(scratch[lo*size:(lo+n)*size], p.d, buf[:n])
	}
}

// ordered16 and its kin map bit patterns to integers in the order of the values, both zeros to 0.
func ordered16(b uint16) int64 {
	m := int64(b & 0x7fff)
	s := -int64(b >> 15)
	return (m ^ s) - s
}

func ordered32(b uint32) int64 {
	m := int64(b & 0x7fffffff)
	s := -int64(b >> 31)
	return (m ^ s) - s
}

func ordered64(b uint64) int64 {
	m := int64(b &^ (1 << 63))
	s := -int64(b >> 63)
	return (m ^ s) - s
}

// roundOrdered32 is ordered32 of w rounded to float32 and kept finite.
func roundOrdered32(w float64) int64 {
	b := math.Float32bits(float32(w))
	m := int64(min(b&0x7fffffff, 0x7f7fffff))
	s := -int64(b >> 31)
	return (m ^ s) - s
}

// distance64 is |x - y|, which always fits a uint64. It does not branch: signs of errors cannot be predicted.
func distance64(x, y int64) uint64 {
	const flip = 1 << 63 // maps signed order to unsigned order
	d, less := bits.Sub64(uint64(x)^flip, uint64(y)^flip, 0)
	s := -less
	return (d ^ s) - s
}

package dtype

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// TestGroups compares the kernels with the scalar functions, bit for bit: on any bits, on NaN of all kinds, on ties and
// on what overflows or becomes subnormal, at every place of a group.
func TestGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 9))
	ends := []uint64{0, 1, 0x380fffffffffffff, 0x3690000000000000, 0x3690000000000001, 0x36a0000010000000, infBits64,
		infBits64 | 1, infBits64 | quietBit64 | 1<<29, 0x47efffffefffffff, 0x47effffff0000000, 0x3ff0000010000000}
	const n = 4096 + groupRest
	wide, narrow := make([]float64, n), make([]byte, 4*n)
	for round := range 50 {
		for i := range wide {
			u := r.Uint64()
			switch i % 3 {
			case 0:
				u = ends[r.IntN(len(ends))] | u&signMask64
			case 1: // near the range of float32
				u = u&^(0x7ff<<52) | uint64(expBias64-160+r.IntN(320))<<52
			}
			wide[i] = math.Float64frombits(u)
		}
		at := round % 8 // the kernels need no alignment
		Encode(narrow[4*at:], Float32, wide[at:])
		for i, x := range wide[at:] {
			if got, want := binary.LittleEndian.Uint32(narrow[4*(at+i):]), narrow32(x); got != want {
				t.Fatalf("element %d: float32 of %#x is %#x, want %#x", i, math.Float64bits(x), got, want)
			}
		}
		for i := range narrow {
			narrow[i] = byte(r.Uint32())
		}
		for i := 0; i < n; i += 5 {
			narrow[4*i+3] |= 0x7f
			narrow[4*i+2] |= 0x80 // NaN or an infinity
		}
		Decode(wide[at:], Float32, narrow[4*at:])
		for i, x := range wide[at:] {
			b := binary.LittleEndian.Uint32(narrow[4*(at+i):])
			if got, want := math.Float64bits(x), math.Float64bits(widen32(b)); got != want {
				t.Fatalf("element %d: float64 of %#x is %#x, want %#x", i, b, got, want)
			}
		}
	}
}

// groupRest makes a length that is no multiple of a group.
const groupRest = 5

package ptxmath

// This file implements the most frequent product of matrices: m16n8k8 and m16n8k16 of f16 or bf16 with sums in f32,
// straight from the registers of a warp. The sums are those of tile.go; only what is not finite, or no normal number in
// the end, is left to it.

// Lanes are a register of all threads of a warp.
type Lanes = [32]uint32

// WarpTile is such a product. [Core.WarpTile] fills in how to add; registers are those of PTX ISA 9.7.14.5.
type WarpTile struct { // warptile_amd64.s knows where the fields are
	A    [4]*Lanes // of which k = 8 has two
	B    [2]*Lanes // of which k = 8 has one
	C, D [4]*Lanes

	groups   int // of eight products, 1 or 2; each has two registers of A and one of B
	perBlock int // groups in one sum

	// The format of A and B, as in [layout].
	fieldMask, fractionMask uint32
	one                     uint32 // the leading bit
	bias, none              int32  // none is the exponent of zero
	fraction                int32  // bits kept below the largest exponent
	fractionBits            uint64
	upA, upB, upC           uint64 // what brings A, B and C to the fraction bits of the sum
}

// WarpTile is the product of depth k, without registers; false where there is no quick way.
func (t *Core) WarpTile(in Input, k int) (WarpTile, bool) {
	quick := (in == InF16 || in == InBF16) && (k == 8 || k == 16) && t.Fraction >= 23 && t.Block%8 == 0 && t.Block <= 16
	if !quick || t.Cut != 23 || t.Converted {
		return WarpTile{}, false
	}
	l := layouts[in]
	return WarpTile{
		groups: k / 8, perBlock: min(t.Block, k) / 8, fieldMask: l.normal + 1, fractionMask: 1<<l.fraction - 1,
		one: 1 << l.fraction, bias: l.bias, none: farDown, fraction: int32(t.Fraction),
		fractionBits: uint64(l.fraction), upA: uint64(l.up) + uint64(t.Fraction-20), upB: uint64(l.up),
		upC: uint64(t.Fraction - 23),
	}, true
}

// Add sets D to A·B + C. It reports false, and leaves D as it is, where an element of A, B or C is not finite, or a sum
// is too large or too small for a normal f32 but not zero.
func (x *WarpTile) Add() bool { return addWarpTile(x) }

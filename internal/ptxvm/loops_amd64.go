//go:build !purego

package ptxvm

import (
	"encoding/binary"

	"golang.org/x/sys/cpu"
)

// This file implements the choice of loops on amd64.

// bestLoops has assembly where the processor has AVX2 and FMA and the system saves their registers.
func bestLoops() *loops {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return &goLoops
	}
	return &avxLoops
}

var avxLoops = loops{
	add32: add32AVX2, sub32: sub32AVX2, mul32: mul32AVX2, and32: and32AVX2, or32: or32AVX2, xor32: xor32AVX2,
	shl32: shl32AVX2, shr32: shr32AVX2, shrSigned32: shrSigned32AVX2, min32: min32AVX2, max32: max32AVX2,
	addFloat: addFloatAVX2, subFloat: subFloatAVX2, mulFloat: mulFloatAVX2, divFloat: divFloatAVX2,
	minFloat: minFloatAVX2, maxFloat: maxFloatAVX2, fmaFloat: fmaFloatAVX2, mad32: mad32AVX2,
	add64: add64AVX2, sub64: sub64AVX2, mul64: fastMul64, and64: and64AVX2, or64: or64AVX2, xor64: xor64AVX2,
	shl64: shl64AVX2, mulWide: mulWideAVX2, mulWideSigned: mulWideSignedAVX2, madWide: madWideAVX2,
	madWideSigned: madWideSignedAVX2, signExtend: signExtendAVX2, zeroExtend: zeroExtendAVX2, truncate: truncateAVX2,
	floatOfSigned: floatOfSignedAVX2, select32: select32AVX2, select64: select64AVX2,
	equal32: equal32AVX2, greater32: greater32AVX2, above32: above32AVX2, equalFloat: equalFloatAVX2,
	lessFloat: lessFloatAVX2, lessEqualFloat: lessEqualFloatAVX2, unordered: unorderedAVX2,
	offsets: offsetsAVX2, distinct: distinctAVX2, load: loadAMD64, store: storeAMD64,
}

func loadAMD64(d *lanes32, data []byte, at *lanes64, like layout) {
	switch {
	case like&side != 0:
		copyInAVX2(d, &data[at[0]:][:4*warpSize][0])
	case like&uniform != 0:
		fillAVX2(d, binary.LittleEndian.Uint32(data[at[0]:]))
	default:
		gatherAMD64(d, at, &data[0])
	}
}

func storeAMD64(data []byte, at *lanes64, s *lanes32, like layout) {
	if like&side != 0 {
		copyOutAVX2(&data[at[0]:][:4*warpSize][0], s)
		return
	}
	scatterAMD64(&data[0], at, s)
}

//go:noescape
func add32AVX2(d, a, b *lanes32)

//go:noescape
func sub32AVX2(d, a, b *lanes32)

//go:noescape
func mul32AVX2(d, a, b *lanes32)

//go:noescape
func and32AVX2(d, a, b *lanes32)

//go:noescape
func or32AVX2(d, a, b *lanes32)

//go:noescape
func xor32AVX2(d, a, b *lanes32)

//go:noescape
func shl32AVX2(d, a, b *lanes32)

//go:noescape
func shr32AVX2(d, a, b *lanes32)

//go:noescape
func shrSigned32AVX2(d, a, b *lanes32)

//go:noescape
func min32AVX2(d, a, b *lanes32)

//go:noescape
func max32AVX2(d, a, b *lanes32)

//go:noescape
func addFloatAVX2(d, a, b *lanes32)

//go:noescape
func subFloatAVX2(d, a, b *lanes32)

//go:noescape
func mulFloatAVX2(d, a, b *lanes32)

//go:noescape
func divFloatAVX2(d, a, b *lanes32)

//go:noescape
func maxFloatAVX2(d, a, b *lanes32)

//go:noescape
func minFloatAVX2(d, a, b *lanes32)

//go:noescape
func fmaFloatAVX2(d, a, b, c *lanes32)

//go:noescape
func mad32AVX2(d, a, b, c *lanes32)

//go:noescape
func add64AVX2(d, a, b *lanes64)

//go:noescape
func sub64AVX2(d, a, b *lanes64)

//go:noescape
func and64AVX2(d, a, b *lanes64)

//go:noescape
func or64AVX2(d, a, b *lanes64)

//go:noescape
func xor64AVX2(d, a, b *lanes64)

//go:noescape
func shl64AVX2(d, a *lanes64, b *lanes32)

//go:noescape
func mulWideAVX2(d *lanes64, a, b *lanes32)

//go:noescape
func mulWideSignedAVX2(d *lanes64, a, b *lanes32)

//go:noescape
func madWideAVX2(d *lanes64, a, b *lanes32, c *lanes64)

//go:noescape
func madWideSignedAVX2(d *lanes64, a, b *lanes32, c *lanes64)

//go:noescape
func signExtendAVX2(d *lanes64, a *lanes32)

//go:noescape
func zeroExtendAVX2(d *lanes64, a *lanes32)

//go:noescape
func truncateAVX2(d *lanes32, a *lanes64)

//go:noescape
func floatOfSignedAVX2(d, a *lanes32)

//go:noescape
func select32AVX2(d, a, b *lanes32, p uint32)

//go:noescape
func select64AVX2(d, a, b *lanes64, p uint32)

//go:noescape
func lessFloatAVX2(a, b *lanes32) uint32

//go:noescape
func lessEqualFloatAVX2(a, b *lanes32) uint32

//go:noescape
func equalFloatAVX2(a, b *lanes32) uint32

//go:noescape
func unorderedAVX2(a, b *lanes32) uint32

//go:noescape
func equal32AVX2(a, b *lanes32) uint32

//go:noescape
func greater32AVX2(a, b *lanes32) uint32

//go:noescape
func above32AVX2(a, b *lanes32) uint32

//go:noescape
func offsetsAVX2(at, base *lanes64, start, most, odd uint64) layout

//go:noescape
func distinctAVX2(a *lanes64) uint32

//go:noescape
func copyInAVX2(d *lanes32, a *byte)

//go:noescape
func copyOutAVX2(d *byte, a *lanes32)

//go:noescape
func fillAVX2(d *lanes32, v uint32)

//go:noescape
func gatherAMD64(d *lanes32, a *lanes64, data *byte)

//go:noescape
func scatterAMD64(data *byte, a *lanes64, s *lanes32)

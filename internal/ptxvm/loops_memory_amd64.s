//go:build !purego

// This file implements the loops of loops.go that look at offsets of lanes, load and store.

#include "textflag.h"

// Where the words of four neighbours lie, and how far the next four are.
DATA near4<>+0(SB)/8, $0
DATA near4<>+8(SB)/8, $4
DATA near4<>+16(SB)/8, $8
DATA near4<>+24(SB)/8, $12
GLOBL near4<>(SB), RODATA|NOPTR, $32

DATA sixteen<>+0(SB)/8, $16
GLOBL sixteen<>(SB), RODATA|NOPTR, $8

// Four offsets: whether they lie within limits, are all the same, or follow each other in steps of four bytes.
// Y8 start, Y9 the greatest offset, Y10 the first one, Y11 the neighbours of the first one; Y12 collects bits that must
// not be set in the sign, Y13 all bits of offsets, Y14 sameness, Y15 neighbourhood.
#define OFFSETS(at) \
	VMOVDQU at(SI), Y0 \
	VPSUBQ Y8, Y0, Y0 \
	VMOVDQU Y0, at(DI) \
	VPOR Y0, Y13, Y13 \
	VPSUBQ Y0, Y9, Y1 \
	VPOR Y1, Y12, Y12 \
	VPCMPEQQ Y0, Y10, Y2 \
	VPAND Y2, Y14, Y14 \
	VPCMPEQQ Y0, Y11, Y3 \
	VPAND Y3, Y15, Y15 \
	VPADDQ Y7, Y11, Y11

// func offsetsAVX2(at, base *lanes64, start, most, odd uint64) layout
TEXT ·offsetsAVX2(SB), NOSPLIT, $0-44
	MOVQ at+0(FP), DI
	MOVQ base+8(FP), SI
	VPBROADCASTQ start+16(FP), Y8
	VPBROADCASTQ most+24(FP), Y9
	VPBROADCASTQ (SI), Y10
	VPSUBQ Y8, Y10, Y10
	VPADDQ near4<>(SB), Y10, Y11
	VPBROADCASTQ sixteen<>(SB), Y7
	VPXOR Y12, Y12, Y12
	VPXOR Y13, Y13, Y13
	VPCMPEQD Y14, Y14, Y14
	VPCMPEQD Y15, Y15, Y15
	OFFSETS(0)
	OFFSETS(32)
	OFFSETS(64)
	OFFSETS(96)
	OFFSETS(128)
	OFFSETS(160)
	OFFSETS(192)
	OFFSETS(224)
	VPBROADCASTQ odd+32(FP), Y6
	VPOR Y13, Y12, Y12
	VMOVMSKPD Y12, AX
	XORL BX, BX
	VPTEST Y6, Y13
	SETNE BX
	ORL BX, AX
	NEGL AX             // carry: one of them is outside or not aligned
	SBBL AX, AX
	ANDL $1, AX
	VMOVMSKPD Y14, CX
	VMOVMSKPD Y15, DX
	XORL BX, BX
	CMPL CX, $15
	SETEQ BX
	LEAL (AX)(BX*2), AX
	XORL BX, BX
	CMPL DX, $15
	SETEQ BX
	LEAL (AX)(BX*4), AX
	MOVL AX, ret+40(FP)
	VZEROUPPER
	RET

// Four lanes that have the offset of the one before.
#define AGAIN(at, n, to) \
	VMOVDQU at(SI), Y0 \
	VPCMPEQQ at-8(SI), Y0, Y0 \
	VMOVMSKPD Y0, to \
	SHLL $n, to \
	ORL to, AX

// Four lanes of both halves that have different offsets.
#define HALVES(at) \
	VMOVDQU at(SI), Y0 \
	VPXOR at+128(SI), Y0, Y0 \
	VPOR Y0, Y1, Y1

// func distinctAVX2(a *lanes64) uint32
TEXT ·distinctAVX2(SB), NOSPLIT, $0-12
	MOVQ a+0(FP), SI
	VPXOR Y1, Y1, Y1
	HALVES(0)
	HALVES(32)
	HALVES(64)
	HALVES(96)
	VMOVDQU 8(SI), Y0
	VPCMPEQQ (SI), Y0, Y0
	VMOVMSKPD Y0, AX
	SHLL $1, AX
	AGAIN(40, 5, BX)
	AGAIN(72, 9, CX)
	AGAIN(104, 13, DX)
	AGAIN(136, 17, BX)
	AGAIN(168, 21, CX)
	AGAIN(200, 25, DX)
	VMOVDQU 224(SI), Y0      // the last three, and one once more
	VPCMPEQQ 216(SI), Y0, Y0
	VMOVMSKPD Y0, BX
	SHLL $28, BX
	ORL BX, AX
	NOTL AX
	MOVL AX, BX
	ANDL $0xffff, BX
	VPTEST Y1, Y1
	CMOVLEQ BX, AX
	MOVL AX, ret+8(FP)
	VZEROUPPER
	RET

// func copyInAVX2(d *lanes32, a *byte)
TEXT ·copyInAVX2(SB), NOSPLIT, $0-16
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	VMOVDQU 0(SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VMOVDQU Y0, 0(DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	VZEROUPPER
	RET

// func copyOutAVX2(d *byte, a *lanes32)
TEXT ·copyOutAVX2(SB), NOSPLIT, $0-16
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	VMOVDQU 0(SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VMOVDQU Y0, 0(DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	VZEROUPPER
	RET

// func fillAVX2(d *lanes32, v uint32)
TEXT ·fillAVX2(SB), NOSPLIT, $0-12
	MOVQ d+0(FP), DI
	MOVL v+8(FP), AX
	VMOVD AX, X0
	VPBROADCASTD X0, Y0
	VMOVDQU Y0, 0(DI)
	VMOVDQU Y0, 32(DI)
	VMOVDQU Y0, 64(DI)
	VMOVDQU Y0, 96(DI)
	VZEROUPPER
	RET

#define GATHER(q, w) \
	MOVQ q(SI), AX \
	MOVQ q+8(SI), BX \
	MOVQ q+16(SI), CX \
	MOVQ q+24(SI), R8 \
	MOVL (DX)(AX*1), AX \
	MOVL (DX)(BX*1), BX \
	MOVL (DX)(CX*1), CX \
	MOVL (DX)(R8*1), R8 \
	MOVL AX, w(DI) \
	MOVL BX, w+4(DI) \
	MOVL CX, w+8(DI) \
	MOVL R8, w+12(DI)

// func gatherAMD64(d *lanes32, a *lanes64, data *byte)
TEXT ·gatherAMD64(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ data+16(FP), DX
	GATHER(0, 0)
	GATHER(32, 16)
	GATHER(64, 32)
	GATHER(96, 48)
	GATHER(128, 64)
	GATHER(160, 80)
	GATHER(192, 96)
	GATHER(224, 112)
	RET

#define SCATTER(q, w) \
	MOVQ q(SI), AX \
	MOVQ q+8(SI), BX \
	MOVQ q+16(SI), CX \
	MOVQ q+24(SI), R8 \
	MOVL w(DX), R9 \
	MOVL w+4(DX), R10 \
	MOVL w+8(DX), R11 \
	MOVL w+12(DX), R12 \
	MOVL R9, (DI)(AX*1) \
	MOVL R10, (DI)(BX*1) \
	MOVL R11, (DI)(CX*1) \
	MOVL R12, (DI)(R8*1)

// func scatterAMD64(data *byte, a *lanes64, s *lanes32)
TEXT ·scatterAMD64(SB), NOSPLIT, $0-24
	MOVQ data+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ s+16(FP), DX
	SCATTER(0, 0)
	SCATTER(32, 16)
	SCATTER(64, 32)
	SCATTER(96, 48)
	SCATTER(128, 64)
	SCATTER(160, 80)
	SCATTER(192, 96)
	SCATTER(224, 112)
	RET

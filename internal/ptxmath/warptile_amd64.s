//go:build !purego

// This file implements products of matrices from the registers of a warp with AVX2. Lane l of a register of A has two
// neighbours along k of row l/4, and l%4 decides which k; lane l of one of B has the same of column l/4. A register of
// eight numbers here is a row of eight columns, in the order 0 2 4 6 1 3 5 7: the even ones are four lanes of one
// register of C, the odd ones those of the next.

#include "textflag.h"

// Fields of WarpTile, in bytes.
#define tileA 0
#define tileB 32
#define tileC 48
#define tileD 80
#define tileGroups 112
#define tilePerBlock 120
#define tileFieldMask 128
#define tileFractionMask 132
#define tileOne 136
#define tileBias 140
#define tileNone 144
#define tileFraction 148
#define tileFractionBits 152
#define tileUpA 160
#define tileUpB 168
#define tileUpC 176

// Memory of the function, from SI on, in bytes. A: 4 registers of 2 halves of 32 lanes. B: 2 groups of 2 halves of 4
// times 8 columns. Sums: 16 rows of 8 columns.
#define sigA 0
#define expA 1024
#define sigB 2048
#define expB 2560
#define sums 3072

// DECODE makes of the elements in the low halves of Y0 significands in Y1, with sign and shifted by up, and exponents
// in Y2. Y15 collects what is not finite. Constants: Y8 field mask, Y9 fraction mask, Y10 leading bit, Y11 bias, Y12
// exponent of zero, Y13 zero, X14 fraction bits.
#define DECODE(up) \
	VPSRLD X14, Y0, Y2; \
	VPAND Y8, Y2, Y2; \
	VPCMPEQD Y8, Y2, Y3; \
	VPOR Y3, Y15, Y15; \
	VPAND Y9, Y0, Y1; \
	VPCMPEQD Y13, Y2, Y3; \
	VPANDN Y10, Y3, Y4; \
	VPOR Y4, Y1, Y1; \
	VPSUBD Y11, Y2, Y2; \
	VPSUBD Y3, Y2, Y2; \
	VPCMPEQD Y13, Y1, Y3; \
	VPBLENDVB Y3, Y12, Y2, Y2; \
	VPSLLD up, Y1, Y1; \
	VPSLLD $16, Y0, Y4; \
	VPSIGND Y4, Y1, Y1

// DECODE_A decodes eight lanes of A at R8 to R9, DECODE_B eight columns of B, which lie where sums do later, to R9.
#define DECODE_A(at) \
	VMOVDQU at(R8), Y0; \
	DECODE(X6); \
	VMOVDQU Y1, (sigA+at)(R9); \
	VMOVDQU Y2, (expA+at)(R9); \
	VMOVDQU at(R8), Y0; \
	VPSRLD $16, Y0, Y0; \
	DECODE(X6); \
	VMOVDQU Y1, (sigA+128+at)(R9); \
	VMOVDQU Y2, (expA+128+at)(R9)

#define DECODE_B(at) \
	VMOVDQU (sums+at)(SI), Y0; \
	DECODE(X7); \
	VMOVDQU Y1, (sigB+at)(R9); \
	VMOVDQU Y2, (expB+at)(R9); \
	VMOVDQU (sums+at)(SI), Y0; \
	VPSRLD $16, Y0, Y0; \
	DECODE(X7); \
	VMOVDQU Y1, (sigB+128+at)(R9); \
	VMOVDQU Y2, (expB+128+at)(R9)

// TOP makes Y11 the largest exponent so far, ADD adds a product to Y10. R8 is where the row of A is, R9 the group of B.
#define TOP(a, b) \
	VPBROADCASTD (expA+a)(R8), Y0; \
	VPADDD (expB+b)(R9), Y0, Y0; \
	VPMAXSD Y0, Y11, Y11

#define ADD(a, b) \
	VPBROADCASTD (expA+a)(R8), Y0; \
	VPADDD (expB+b)(R9), Y0, Y0; \
	VPSUBD Y0, Y11, Y0; \
	VPBROADCASTD (sigA+a)(R8), Y1; \
	VPMULLD (sigB+b)(R9), Y1, Y1; \
	VPABSD Y1, Y2; \
	VPSRLVD Y0, Y2, Y2; \
	VPSIGND Y1, Y2, Y2; \
	VPADDD Y2, Y10, Y10

// func addWarpTileAVX2(x *WarpTile) bool
TEXT ·addWarpTileAVX2(SB), 0, $3584-9
	MOVQ x+0(FP), DI
	LEAQ memory-3584(SP), SI
	MOVB $0, ret+8(FP)

	VPBROADCASTD tileFieldMask(DI), Y8
	VPBROADCASTD tileFractionMask(DI), Y9
	VPBROADCASTD tileOne(DI), Y10
	VPBROADCASTD tileBias(DI), Y11
	VPBROADCASTD tileNone(DI), Y12
	VPXOR Y13, Y13, Y13
	VMOVQ tileFractionBits(DI), X14
	VMOVQ tileUpA(DI), X6
	VMOVQ tileUpB(DI), X7
	VPXOR Y15, Y15, Y15

	MOVQ tileGroups(DI), CX
	ADDQ CX, CX
	LEAQ tileA(DI), DX
	MOVQ SI, R9
decodeA:
	MOVQ (DX), R8
	DECODE_A(0)
	DECODE_A(32)
	DECODE_A(64)
	DECODE_A(96)
	ADDQ $8, DX
	ADDQ $256, R9
	DECQ CX
	JNZ decodeA

	// Columns of B: 8 times 4 numbers become 4 times 8.
	MOVQ tileGroups(DI), CX
	LEAQ tileB(DI), DX
	MOVQ SI, R9
decodeB:
	MOVQ (DX), R8
	VMOVDQU (R8), Y0
	VMOVDQU 32(R8), Y1
	VMOVDQU 64(R8), Y2
	VMOVDQU 96(R8), Y3
	VPUNPCKLDQ Y1, Y0, Y4
	VPUNPCKHDQ Y1, Y0, Y5
	VPUNPCKLDQ Y3, Y2, Y0
	VPUNPCKHDQ Y3, Y2, Y1
	VPUNPCKLQDQ Y0, Y4, Y2
	VPUNPCKHQDQ Y0, Y4, Y3
	VMOVDQU Y2, (sums+0)(SI)
	VMOVDQU Y3, (sums+32)(SI)
	VPUNPCKLQDQ Y1, Y5, Y2
	VPUNPCKHQDQ Y1, Y5, Y3
	VMOVDQU Y2, (sums+64)(SI)
	VMOVDQU Y3, (sums+96)(SI)
	DECODE_B(0)
	DECODE_B(32)
	DECODE_B(64)
	DECODE_B(96)
	ADDQ $8, DX
	ADDQ $256, R9
	DECQ CX
	JNZ decodeB
	VPTEST Y15, Y15
	JNZ unusual

	MOVL $255, AX
	VMOVD AX, X4
	VPBROADCASTD X4, Y4
	MOVL $127, AX
	VMOVD AX, X5
	VPBROADCASTD X5, Y5
	MOVL $0x800000, AX
	VMOVD AX, X6
	VPBROADCASTD X6, Y6
	VPXOR Y7, Y7, Y7
	VPBROADCASTD tileFraction(DI), Y8
	VMOVDQA Y12, Y9

	LEAQ sums(SI), R13
	LEAQ tileC(DI), BX
	MOVQ SI, R14 // rows of A
half:
	XORQ DX, DX
row:
	MOVQ (BX), R8
	VMOVDQU (R8)(DX*1), X14
	MOVQ 8(BX), R8
	VINSERTI128 $1, (R8)(DX*1), Y14, Y14
	LEAQ (R14)(DX*1), R8
	MOVQ SI, R9
	MOVQ tileGroups(DI), R12
block:
	// c: significand in Y13, exponent in Y12.
	VPSRLD $23, Y14, Y12
	VPAND Y4, Y12, Y12
	VPCMPEQD Y4, Y12, Y0
	VPOR Y0, Y15, Y15
	VPSLLD $9, Y14, Y13
	VPSRLD $9, Y13, Y13
	VPCMPEQD Y7, Y12, Y0
	VPANDN Y6, Y0, Y1
	VPOR Y1, Y13, Y13
	VPSUBD Y5, Y12, Y12
	VPSUBD Y0, Y12, Y12
	VPCMPEQD Y7, Y13, Y0
	VPBLENDVB Y0, Y9, Y12, Y12

	VMOVDQA Y12, Y11
	MOVQ R8, R10
	MOVQ R9, R11
	MOVQ tilePerBlock(DI), CX
tops:
	TOP(0, 0)
	TOP(4, 32)
	TOP(8, 64)
	TOP(12, 96)
	TOP(128, 128)
	TOP(132, 160)
	TOP(136, 192)
	TOP(140, 224)
	ADDQ $512, R8
	ADDQ $256, R9
	DECQ CX
	JNZ tops

	MOVQ R10, R8
	MOVQ R11, R9
	MOVQ tilePerBlock(DI), CX
	VPXOR Y10, Y10, Y10
products:
	ADD(0, 0)
	ADD(4, 32)
	ADD(8, 64)
	ADD(12, 96)
	ADD(128, 128)
	ADD(132, 160)
	ADD(136, 192)
	ADD(140, 224)
	ADDQ $512, R8
	ADDQ $256, R9
	DECQ CX
	JNZ products

	// c is cut as well, gets its sign, and is added. Sums beyond 32 bits are unusual.
	VMOVQ tileUpC(DI), X3
	VPSLLD X3, Y13, Y13
	VPSUBD Y12, Y11, Y12
	VPSRLVD Y12, Y13, Y13
	VPSIGND Y14, Y13, Y13
	VPADDD Y13, Y10, Y0
	VPXOR Y0, Y10, Y1
	VPXOR Y0, Y13, Y2
	VPAND Y1, Y2, Y1
	VPOR Y1, Y15, Y15

	// The magnitude becomes a float of 24 bits. The conversion rounds to nearest: with the bit behind the last one it
	// keeps cleared, and that is a one in magnitude>>24, it cuts. 2^31, which needs c, becomes negative, and with the
	// least exponent that c can have too large below.
	VPABSD Y0, Y1
	VPCMPEQD Y7, Y1, Y13 // zero
	VPSRLD $24, Y1, Y2
	VPANDN Y1, Y2, Y1
	VCVTDQ2PS Y1, Y1

	// 2^(top-fraction) times that; what leaves the exponents of normal numbers and is not zero is unusual.
	VPSUBD Y8, Y11, Y11
	VPSRLD $23, Y1, Y2
	VPADDD Y11, Y2, Y2
	VPCMPGTD Y7, Y2, Y3
	VPCMPGTD Y2, Y4, Y2
	VPAND Y2, Y3, Y2
	VPOR Y13, Y2, Y2
	VPCMPEQD Y7, Y2, Y2
	VPOR Y2, Y15, Y15
	VPSLLD $23, Y11, Y11
	VPADDD Y11, Y1, Y1
	VPSRLD $31, Y0, Y0
	VPSLLD $31, Y0, Y0
	VPOR Y0, Y1, Y1
	VPANDN Y1, Y13, Y14

	SUBQ tilePerBlock(DI), R12
	JNZ block

	VMOVDQU Y14, (R13)
	ADDQ $32, R13
	ADDQ $16, DX
	CMPQ DX, $128
	JLT row

	ADDQ $16, BX
	ADDQ $256, R14
	LEAQ (tileC+32)(DI), AX
	CMPQ BX, AX
	JLT half

	VMOVMSKPS Y15, AX
	TESTL AX, AX
	JNZ unusual

	// All of C is read: D may be the same registers.
	LEAQ sums(SI), R13
	LEAQ tileD(DI), BX
	MOVQ $2, CX
store:
	MOVQ (BX), R8
	MOVQ 8(BX), R9
	XORQ DX, DX
rows:
	VMOVDQU (R13), Y0
	VMOVDQU X0, (R8)(DX*1)
	VEXTRACTI128 $1, Y0, (R9)(DX*1)
	ADDQ $32, R13
	ADDQ $16, DX
	CMPQ DX, $128
	JLT rows
	ADDQ $16, BX
	DECQ CX
	JNZ store
	MOVB $1, ret+8(FP)
unusual:
	VZEROUPPER
	RET

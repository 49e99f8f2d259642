//go:build !purego

// This file implements the sums of products of tile.go with AVX2: eight columns are one register.

#include "textflag.h"

// func addAVX2(sum, top *[Width]int32, sigA, expA, sigB, expB *int32, n, up, down int)
TEXT ·addAVX2(SB), NOSPLIT, $0-72
	MOVQ sum+0(FP), DI
	MOVQ top+8(FP), SI
	MOVQ sigA+16(FP), R8
	MOVQ expA+24(FP), R9
	MOVQ sigB+32(FP), R10
	MOVQ expB+40(FP), R11
	MOVQ n+48(FP), CX
	VMOVQ up+56(FP), X6
	VPBROADCASTD down+64(FP), Y7

	// The largest exponents.
	VMOVDQU (SI), Y5
	XORQ AX, AX
	MOVQ R11, DX
tops:
	VPBROADCASTD (R9)(AX*4), Y0
	VPADDD (DX), Y0, Y0
	VPMAXSD Y0, Y5, Y5
	ADDQ $32, DX
	INCQ AX
	CMPQ AX, CX
	JLT tops
	VMOVDQU Y5, (SI)

	// Magnitudes are shifted, where counts of 32 and more leave nothing, and get their signs back.
	VPADDD Y7, Y5, Y5
	VPXOR Y4, Y4, Y4
	XORQ AX, AX
sums:
	VPBROADCASTD (R9)(AX*4), Y0
	VPADDD (R11), Y0, Y0
	VPSUBD Y0, Y5, Y0
	VPBROADCASTD (R8)(AX*4), Y1
	VPMULLD (R10), Y1, Y1
	VPABSD Y1, Y2
	VPSLLD X6, Y2, Y2
	VPSRLVD Y0, Y2, Y2
	VPSIGND Y1, Y2, Y2
	VPADDD Y2, Y4, Y4
	ADDQ $32, R10
	ADDQ $32, R11
	INCQ AX
	CMPQ AX, CX
	JLT sums
	VMOVDQU Y4, (DI)
	VZEROUPPER
	RET

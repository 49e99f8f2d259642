//go:build !purego

// This file implements the operations of bulk.go for AVX2, four nums at a time, operation by operation as num.go has
// them: no operation is fused, so every lane has the bits of the scalar code.

#include "go_asm.h"
#include "textflag.h"

// Registers of all kernels: DI, SI results; R8, R9 a; R10, R11 b; R12, R13 steps of a and b; CX elements left.
// Y15 |x| mask, Y14 rel, Y13 1 + rel, Y12 top, Y11 normal, Y10 tiny, Y9 lanes that were ordinary so far, Y8 zero.
#define LOAD \
	MOVQ c+0(FP), AX                              \
	MOVQ bulkCall_v(AX), DI                       \
	MOVQ bulkCall_e(AX), SI                       \
	MOVQ bulkCall_av(AX), R8                      \
	MOVQ bulkCall_ae(AX), R9                      \
	MOVQ bulkCall_bv(AX), R10                     \
	MOVQ bulkCall_be(AX), R11                     \
	MOVQ bulkCall_aStep(AX), R12                  \
	MOVQ bulkCall_bStep(AX), R13                  \
	MOVQ bulkCall_n(AX), CX                       \
	VBROADCASTSD bulkCall_rel(AX), Y14            \
	VBROADCASTSD bulkCall_growth(AX), Y13         \
	VBROADCASTSD bulkCall_top(AX), Y12            \
	VBROADCASTSD bulkCall_normal(AX), Y11         \
	VBROADCASTSD bulkCall_tiny(AX), Y10           \
	VPCMPEQD Y9, Y9, Y9                           \
	VPSRLQ $1, Y9, Y15                            \
	VXORPD Y8, Y8, Y8

#define NEXT(LOOP) \
	VMOVUPD Y0, (DI) \
	VMOVUPD Y1, (SI) \
	ADDQ $32, DI     \
	ADDQ $32, SI     \
	ADDQ R12, R8     \
	ADDQ R12, R9     \
	ADDQ R13, R10    \
	ADDQ R13, R11    \
	SUBQ $4, CX      \
	JGT LOOP

#define DONE \
	VMOVMSKPD Y9, AX  \
	CMPL AX, $15      \
	SETEQ ret+8(FP)   \
	VZEROUPPER        \
	RET

// ROUND1 and ROUND2 are rounded, of v in Y0 with accumulated error in Y1. Between them Y2 is the mask of the lanes that
// may underflow, and Y3 is |v| + e. Clobbers Y4.
#define ROUND1 \
	VANDPD Y15, Y0, Y2         \
	VADDPD Y1, Y2, Y3          \
	VMULPD Y14, Y3, Y4         \
	VADDPD Y4, Y1, Y1          \
	VMULPD Y13, Y3, Y4         \
	VCMPPD $0x11, Y12, Y4, Y4  \
	VANDPD Y4, Y9, Y9          \
	VSUBPD Y1, Y2, Y2          \
	VCMPPD $0x11, Y11, Y2, Y2

#define ROUND2 \
	VANDPD Y10, Y2, Y2         \
	VADDPD Y2, Y1, Y1

// func addAVX2(c *bulkCall) bool
// An exact zero, |v| + e = 0, stays one.
TEXT ·addAVX2(SB), NOSPLIT, $0-9
	LOAD
	VBROADCASTSD bulkCall_sign(AX), Y7
addloop:
	VMOVUPD (R10), Y5
	VXORPD Y7, Y5, Y5
	VADDPD (R8), Y5, Y0
	VMOVUPD (R9), Y1
	VADDPD (R11), Y1, Y1
	ROUND1
	VCMPPD $0x04, Y8, Y3, Y3
	VANDPD Y3, Y2, Y2
	ROUND2
	NEXT(addloop)
	DONE

// func mulAVX2(c *bulkCall) bool
// A product with an exact zero is one.
TEXT ·mulAVX2(SB), NOSPLIT, $0-9
	LOAD
mulloop:
	VMOVUPD (R8), Y5
	VMOVUPD (R10), Y6
	VMULPD Y6, Y5, Y0
	VANDPD Y15, Y5, Y5         // |a|
	VANDPD Y15, Y6, Y6         // |b|
	VMOVUPD (R9), Y2
	VMOVUPD (R11), Y3
	VADDPD Y2, Y5, Y7
	VCMPPD $0x04, Y8, Y7, Y7   // a is no exact zero
	VADDPD Y3, Y6, Y4
	VCMPPD $0x04, Y8, Y4, Y4
	VANDPD Y4, Y7, Y7
	VMULPD Y3, Y5, Y5          // |a|·be
	VMULPD Y2, Y6, Y6          // |b|·ae
	VADDPD Y6, Y5, Y1
	VMULPD Y3, Y2, Y2
	VADDPD Y2, Y1, Y1
	ROUND1
	VANDPD Y7, Y2, Y2
	ROUND2
	NEXT(mulloop)
	DONE

// func divAVX2(c *bulkCall) bool
// An exact zero stays one. The divisor stays away from zero and from where its reciprocal may be flushed.
TEXT ·divAVX2(SB), NOSPLIT, $0-9
	LOAD
divloop:
	VMOVUPD (R8), Y5
	VMOVUPD (R10), Y6
	VDIVPD Y6, Y5, Y0
	VANDPD Y15, Y6, Y6
	VMOVUPD (R11), Y3          // be
	VADDPD Y3, Y6, Y4
	VBROADCASTSD bulkCall_most(AX), Y7
	VCMPPD $0x11, Y7, Y4, Y4   // |b| + be < most
	VANDPD Y4, Y9, Y9
	VSUBPD Y3, Y6, Y6
	VBROADCASTSD bulkCall_least(AX), Y7
	VMAXPD Y7, Y6, Y6          // low
	VCMPPD $0x1e, Y8, Y6, Y4
	VANDPD Y4, Y9, Y9
	VMOVUPD (R9), Y1           // ae
	VANDPD Y15, Y5, Y5
	VADDPD Y1, Y5, Y5
	VCMPPD $0x04, Y8, Y5, Y5   // a is no exact zero
	VANDPD Y15, Y0, Y4
	VMULPD Y3, Y4, Y4
	VADDPD Y4, Y1, Y1
	VDIVPD Y6, Y1, Y1
	ROUND1
	VANDPD Y5, Y2, Y2
	ROUND2
	NEXT(divloop)
	DONE

// func expAVX2(c *bulkCall) bool
TEXT ·expAVX2(SB), NOSPLIT, $0-9
	LOAD
	VBROADCASTSD bulkCall_least(AX), Y7
	VBROADCASTSD bulkCall_most(AX), Y6
	VPSLLQ $54, Y9, Y5
	VPSRLQ $2, Y5, Y5          // 1
exploop:
	VMOVUPD (DI), Y0
	VANDPD (R8), Y15, Y2
	VMOVUPD (R9), Y1
	VADDPD Y1, Y2, Y2
	VMULPD Y7, Y2, Y2
	VADDPD Y2, Y1, Y1          // d
	VCMPPD $0x11, Y6, Y1, Y4
	VANDPD Y4, Y9, Y9
	VADDPD Y5, Y1, Y2
	VMULPD Y2, Y1, Y1          // d·(1 + d)
	VMULPD Y1, Y0, Y1
	ROUND1
	ROUND2
	NEXT(exploop)
	DONE

// func capAVX2(c *bulkCall)
TEXT ·capAVX2(SB), NOSPLIT, $0-8
	MOVQ c+0(FP), AX
	MOVQ bulkCall_v(AX), DI
	MOVQ bulkCall_e(AX), SI
	MOVQ bulkCall_n(AX), CX
	VBROADCASTSD bulkCall_least(AX), Y7
	VXORPD Y8, Y8, Y8
caploop:
	VMOVUPD (DI), Y0
	VMOVUPD (SI), Y1
	VADDPD Y1, Y0, Y2
	VMINPD Y7, Y2, Y2
	VSUBPD Y0, Y2, Y2          // min(v+e, top) - v
	VSUBPD Y1, Y0, Y3
	VMAXPD Y8, Y3, Y3
	VSUBPD Y3, Y0, Y3          // v - max(v-e, 0)
	VMAXPD Y3, Y2, Y2
	VMAXPD Y8, Y2, Y2
	VMOVUPD Y2, (SI)
	ADDQ $32, DI
	ADDQ $32, SI
	SUBQ $4, CX
	JGT caploop
	VZEROUPPER
	RET

// func extentAVX2(x *float64, n int, s *extentState)
// Minima and maxima have the accumulator as the operand that a NaN in the other one leaves; zeros are made NaN for
// the least magnitude.
TEXT ·extentAVX2(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ s+16(FP), DI
	VPCMPEQD Y15, Y15, Y15
	VPSLLQ $53, Y15, Y1
	VPSRLQ $1, Y1, Y1          // +Inf: min
	VMOVAPD Y1, Y3             // least
	VPSLLQ $52, Y15, Y2        // -Inf: max
	VPSRLQ $1, Y15, Y15
	VXORPD Y4, Y4, Y4          // odd
	VXORPD Y8, Y8, Y8
extentloop:
	VMOVUPD (SI), Y0
	VMINPD Y1, Y0, Y1
	VMAXPD Y2, Y0, Y2
	VSUBPD Y0, Y0, Y5
	VORPD Y5, Y4, Y4
	VCMPPD $0x00, Y8, Y0, Y5
	VANDPD Y15, Y0, Y0
	VORPD Y5, Y0, Y0
	VMINPD Y3, Y0, Y3
	ADDQ $32, SI
	SUBQ $4, CX
	JGT extentloop
	VMOVUPD Y1, extentState_min(DI)
	VMOVUPD Y2, extentState_max(DI)
	VMOVUPD Y3, extentState_least(DI)
	VMOVUPD Y4, extentState_odd(DI)
	VZEROUPPER
	RET

// func dotBoundAVX2(b *dotBound, v, e *float64, n int) int
TEXT ·dotBoundAVX2(SB), NOSPLIT, $0-40
	MOVQ b+0(FP), AX
	MOVQ v+8(FP), SI
	MOVQ e+16(FP), DI
	MOVQ n+24(FP), CX
	XORQ BX, BX
	VPCMPEQD Y15, Y15, Y15
	VPSLLQ $55, Y15, Y14
	VPSRLQ $2, Y14, Y14        // 1/2
	VPSRLQ $1, Y15, Y15        // |x| mask
	VBROADCASTSD dotBound_under(AX), Y13
	VBROADCASTSD dotBound_onS(AX), Y12
	VBROADCASTSD dotBound_onT(AX), Y11
	VBROADCASTSD dotBound_limit(AX), Y10
boundloop:
	VANDPD (SI)(BX*8), Y15, Y0
	VMOVUPD (DI)(BX*8), Y1
	VADDPD Y13, Y1, Y2
	VCMPPD $0x11, Y10, Y2, Y2  // S + under < limit
	VCMPPD $0x11, Y10, Y0, Y3  // |v| < limit
	VANDPD Y3, Y2, Y2
	VMOVMSKPD Y2, AX
	CMPL AX, $15
	JNE boundend
	VMULPD Y14, Y1, Y2
	VMULPD Y14, Y0, Y0
	VADDPD Y0, Y2, Y2
	VMULPD Y11, Y2, Y2
	VMULPD Y12, Y1, Y1
	VADDPD Y1, Y13, Y1
	VADDPD Y2, Y1, Y1
	VMOVUPD Y1, (DI)(BX*8)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT boundloop
boundend:
	VZEROUPPER
	MOVQ BX, ret+32(FP)
	RET

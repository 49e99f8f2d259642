//go:build !purego

// This file implements Exp, Exp2, Log and Sincos for AVX2, four arguments at a time, operation by operation as the Go
// code has them: no operation is fused, so every lane has the bits of the scalar function. A group in which some
// argument takes another path of the scalar function ends the loop.
//
// Table entries are fetched by scalar loads: the indices go through the stack. R12 points to the constants of exp and
// log, R13 to the bit patterns of log, SI to the constants of sincos, each four times.

#include "textflag.h"

#define expInvLn2N 0(R12)
#define expShift 32(R12)
#define expLn2HiN 64(R12)
#define expLn2LoN 96(R12)
#define expC0 128(R12)
#define expC1 160(R12)
#define expC2 192(R12)
#define half 224(R12)
#define expLimit 256(R12)

#define exp2N 0(R12)
#define exp2InvN 64(R12)
#define exp2C0 96(R12)
#define exp2C1 128(R12)
#define exp2C2 160(R12)
#define exp2C3 192(R12)
#define exp2C4 224(R12)

#define logLn2Hi 0(R12)
#define logLn2Lo 32(R12)
#define logC0 64(R12)
#define logC1 96(R12)
#define logC2 128(R12)
#define logC3 160(R12)
#define minusHalf 192(R12)
#define one 224(R12)
#define exponentBias 256(R12)

#define logOff 0(R13)
#define exponents 32(R13)
#define logLowBits 64(R13)
#define exponentSign 96(R13)
#define integer 128(R13)
#define leastNormal 160(R13)
#define infinity 192(R13)

#define twoOverPi 0(SI)
#define piHalf1 32(SI)
#define piHalf2 64(SI)
#define piHalf3 96(SI)
#define thirtyTwo 128(SI)
#define thirtySecond 160(SI)
#define sinC0 192(SI)
#define sinC1 224(SI)
#define sinC2 256(SI)
#define cosC0 288(SI)
#define cosC1 320(SI)
#define circleHalf 352(SI)
#define tinyAngle 384(SI)
#define largeAngle 416(SI)
#define smallRest 448(SI)
#define circleShift 480(SI)
#define leastUniform 512(SI)
#define minusTwo 544(SI)
#define fullCircle 576(SI)

#define tanhC0 0(R13)
#define tanhC1 32(R13)
#define tanhC2 64(R13)
#define tanhC3 96(R13)
#define tanhC4 128(R13)
#define tanhC5 160(R13)
#define tanhC6 192(R13)
#define tanhC7 224(R13)
#define tanhSmall 256(R13)
#define tanhTiny 288(R13)
#define tanhLimit 320(R13)
#define tanhOne 352(R13)
#define tanhTwo 384(R13)
#define tanhIndex 416(R13)
#define tanhBias 448(R13)
#define tanhHigh 480(R13)

// LOG takes x in Y0 to its logarithm in Y4. It clobbers Y0 to Y7. In the order of the code: off; z; k; inv, ln and lnLo
// (Y3, Y6, Y5); zh, rh, rl, r (Y3); s, hi (Y4), lo (Y2); r², p.
#define LOG(END) \
	VCMPPD $0x1d, leastNormal, Y0, Y1 \
	VCMPPD $0x11, infinity, Y0, Y2 \
	VANDPD Y2, Y1, Y1 \
	VMOVMSKPD Y1, AX \
	CMPL AX, $15 \
	JNE END \
	VPSUBQ logOff, Y0, Y1 \
	VPSRLQ $44, Y1, Y2 \
	VMOVDQU Y2, tmp-32(SP) \
	VPAND exponents, Y1, Y2 \
	VPSUBQ Y2, Y0, Y0 \
	VPSRLQ $52, Y1, Y1 \
	VPXOR exponentSign, Y1, Y1 \
	VPOR integer, Y1, Y1 \
	VSUBPD exponentBias, Y1, Y1 \
	LEAQ ·logTable(SB), DX \
	MOVBLZX tmp-32(SP), R8 \
	MOVBLZX tmp-24(SP), R9 \
	MOVBLZX tmp-16(SP), R10 \
	MOVBLZX tmp-8(SP), R11 \
	LEAQ (R8)(R8*4), R8 \
	LEAQ (R9)(R9*4), R9 \
	LEAQ (R10)(R10*4), R10 \
	LEAQ (R11)(R11*4), R11 \
	VMOVUPD (DX)(R8*8), X3 \
	VMOVUPD (DX)(R9*8), X4 \
	VMOVSD 16(DX)(R8*8), X5 \
	VMOVSD 16(DX)(R10*8), X6 \
	VINSERTF128 $1, (DX)(R10*8), Y3, Y3 \
	VINSERTF128 $1, (DX)(R11*8), Y4, Y4 \
	VMOVHPD 16(DX)(R9*8), X5, X5 \
	VMOVHPD 16(DX)(R11*8), X6, X6 \
	VINSERTF128 $1, X6, Y5, Y5 \
	VUNPCKHPD Y4, Y3, Y6 \
	VUNPCKLPD Y4, Y3, Y3 \
	VMOVUPD logLowBits, Y2 \
	VANDNPD Y0, Y2, Y2 \
	VSUBPD Y2, Y0, Y0 \
	VMULPD Y3, Y2, Y2 \
	VSUBPD one, Y2, Y2 \
	VMULPD Y3, Y0, Y0 \
	VADDPD Y0, Y2, Y3 \
	VSUBPD Y3, Y2, Y2 \
	VADDPD Y2, Y0, Y0 \
	VMULPD logLn2Hi, Y1, Y2 \
	VADDPD Y6, Y2, Y2 \
	VMULPD logLn2Lo, Y1, Y1 \
	VADDPD Y5, Y1, Y1 \
	VADDPD Y1, Y0, Y0 \
	VADDPD Y3, Y2, Y4 \
	VSUBPD Y4, Y2, Y2 \
	VADDPD Y3, Y2, Y2 \
	VADDPD Y0, Y2, Y2 \
	VMULPD Y3, Y3, Y5 \
	VMULPD logC2, Y3, Y6 \
	VADDPD logC1, Y6, Y6 \
	VMULPD logC3, Y5, Y7 \
	VADDPD Y7, Y6, Y6 \
	VMULPD Y6, Y5, Y6 \
	VMULPD logC0, Y3, Y7 \
	VADDPD minusHalf, Y7, Y7 \
	VADDPD Y6, Y7, Y7 \
	VMULPD Y7, Y5, Y5 \
	VADDPD Y5, Y2, Y2 \
	VADDPD Y2, Y4, Y4

// SINCOS takes x in Y0 to its sine in Y3 and its cosine in Y4. Y15 is the |x| mask, Y14 the sign bit; all others are
// clobbered. In the order of the code: n in the low bits of Y13; t; w, a, b, the rest hi (Y1) and lo (Y4); its sign
// (Y12), a and da; d (Y0) and the table's sin, sinLo, cos, cosLo, cosLess1 (Y5, Y10, Y7, Y11, Y9); sd (Y3) and cd (Y4);
// the sum for the sine (Y1) and for the cosine (Y4); their exchange where n is odd, and their signs.
#define SINCOS(END) \
	VANDPD Y15, Y0, Y1 \
	VCMPPD $0x1e, tinyAngle, Y1, Y2 \
	VCMPPD $0x11, largeAngle, Y1, Y1 \
	VANDPD Y2, Y1, Y1 \
	VMULPD twoOverPi, Y0, Y2 \
	VADDPD circleShift, Y2, Y13 \
	VSUBPD circleShift, Y13, Y2 \
	VMULPD piHalf1, Y2, Y3 \
	VSUBPD Y3, Y0, Y0 \
	VANDPD Y15, Y0, Y3 \
	VCMPPD $0x1e, smallRest, Y3, Y3 \
	VANDPD Y3, Y1, Y1 \
	VMOVMSKPD Y1, AX \
	CMPL AX, $15 \
	JNE END \
	VMULPD piHalf2, Y2, Y3 \
	VSUBPD Y3, Y0, Y4 \
	VSUBPD Y4, Y0, Y0 \
	VSUBPD Y3, Y0, Y0 \
	VMULPD piHalf3, Y2, Y2 \
	VSUBPD Y2, Y0, Y0 \
	VADDPD Y0, Y4, Y1 \
	VSUBPD Y1, Y4, Y4 \
	VADDPD Y0, Y4, Y4 \
	VANDPD Y14, Y1, Y12 \
	VANDPD Y15, Y1, Y1 \
	VXORPD Y12, Y4, Y2 \
	VMULPD thirtyTwo, Y1, Y3 \
	VADDPD circleShift, Y3, Y3 \
	VMOVUPD Y3, tmp-32(SP) \
	VSUBPD circleShift, Y3, Y3 \
	VMULPD thirtySecond, Y3, Y3 \
	VSUBPD Y3, Y1, Y0 \
	LEAQ ·circleTable(SB), DX \
	MOVBLZX tmp-32(SP), R8 \
	MOVBLZX tmp-24(SP), R9 \
	MOVBLZX tmp-16(SP), R10 \
	MOVBLZX tmp-8(SP), R11 \
	ANDL $31, R8 \
	ANDL $31, R9 \
	ANDL $31, R10 \
	ANDL $31, R11 \
	LEAQ (R8)(R8*4), R8 \
	LEAQ (R9)(R9*4), R9 \
	LEAQ (R10)(R10*4), R10 \
	LEAQ (R11)(R11*4), R11 \
	VMOVUPD (DX)(R8*8), X5 \
	VMOVUPD (DX)(R9*8), X6 \
	VMOVUPD 16(DX)(R8*8), X7 \
	VMOVUPD 16(DX)(R9*8), X8 \
	VMOVSD 32(DX)(R8*8), X9 \
	VMOVSD 32(DX)(R10*8), X10 \
	VINSERTF128 $1, (DX)(R10*8), Y5, Y5 \
	VINSERTF128 $1, (DX)(R11*8), Y6, Y6 \
	VINSERTF128 $1, 16(DX)(R10*8), Y7, Y7 \
	VINSERTF128 $1, 16(DX)(R11*8), Y8, Y8 \
	VMOVHPD 32(DX)(R9*8), X9, X9 \
	VMOVHPD 32(DX)(R11*8), X10, X10 \
	VINSERTF128 $1, X10, Y9, Y9 \
	VUNPCKHPD Y6, Y5, Y10 \
	VUNPCKLPD Y6, Y5, Y5 \
	VUNPCKHPD Y8, Y7, Y11 \
	VUNPCKLPD Y8, Y7, Y7 \
	VMULPD Y0, Y0, Y1 \
	VMULPD sinC1, Y1, Y3 \
	VADDPD sinC0, Y3, Y3 \
	VMULPD Y1, Y1, Y4 \
	VMULPD sinC2, Y4, Y4 \
	VADDPD Y4, Y3, Y3 \
	VMULPD Y1, Y0, Y4 \
	VMULPD Y3, Y4, Y3 \
	VMULPD cosC1, Y1, Y4 \
	VADDPD cosC0, Y4, Y4 \
	VMULPD Y4, Y1, Y4 \
	VADDPD circleHalf, Y4, Y4 \
	VMULPD Y4, Y1, Y4 \
	VMULPD Y4, Y5, Y1 \
	VMULPD Y3, Y7, Y6 \
	VADDPD Y6, Y1, Y1 \
	VADDPD Y2, Y0, Y6 \
	VMULPD Y6, Y9, Y6 \
	VADDPD Y1, Y6, Y6 \
	VADDPD Y2, Y10, Y10 \
	VADDPD Y6, Y10, Y10 \
	VADDPD Y0, Y5, Y1 \
	VSUBPD Y1, Y5, Y6 \
	VADDPD Y0, Y6, Y6 \
	VADDPD Y10, Y6, Y6 \
	VADDPD Y6, Y1, Y1 \
	VMULPD Y4, Y7, Y4 \
	VADDPD Y4, Y11, Y4 \
	VADDPD Y3, Y2, Y2 \
	VADDPD Y2, Y0, Y2 \
	VMULPD Y2, Y5, Y2 \
	VSUBPD Y2, Y4, Y4 \
	VADDPD Y4, Y7, Y4 \
	VXORPD Y12, Y1, Y1 \
	VPSLLQ $63, Y13, Y2 \
	VBLENDVPD Y2, Y4, Y1, Y3 \
	VBLENDVPD Y2, Y1, Y4, Y4 \
	VPSLLQ $62, Y13, Y5 \
	VPXOR Y2, Y5, Y6 \
	VANDPD Y14, Y5, Y5 \
	VANDPD Y14, Y6, Y6 \
	VXORPD Y5, Y3, Y3 \
	VXORPD Y6, Y4, Y4

// func expAVX2(dst, src *float64, n int, k *[9][lanes]float64) int
TEXT ·expAVX2(SB), NOSPLIT, $32-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), R12
	LEAQ ·expTable(SB), DX
	XORQ BX, BX
	VPCMPEQD Y15, Y15, Y15
	VPSRLQ $1, Y15, Y15         // |x| mask
	VMOVUPD expShift, Y14
	VMOVUPD expInvLn2N, Y13
	VMOVUPD expLn2HiN, Y12
	VMOVUPD expLn2LoN, Y11
	VMOVUPD expC0, Y10
	VMOVUPD expC1, Y9
	VMOVUPD expC2, Y8
	VMOVUPD half, Y7
exploop:
	VMOVUPD (SI)(BX*8), Y0
	VANDPD Y15, Y0, Y1
	VCMPPD $0x11, expLimit, Y1, Y1 // |x| < 512, false for NaN
	VMOVMSKPD Y1, AX
	CMPL AX, $15
	JNE expend
	VMULPD Y13, Y0, Y1
	VADDPD Y14, Y1, Y1          // z, and k in its bits
	VMOVUPD Y1, tmp-32(SP)
	VSUBPD Y14, Y1, Y2
	VMULPD Y12, Y2, Y3
	VSUBPD Y3, Y0, Y0
	VMULPD Y11, Y2, Y3
	VSUBPD Y3, Y0, Y0           // r
	MOVBLZX tmp-32(SP), R8
	MOVBLZX tmp-24(SP), R9
	MOVBLZX tmp-16(SP), R10
	MOVBLZX tmp-8(SP), R11
	ANDL $127, R8
	ANDL $127, R9
	ANDL $127, R10
	ANDL $127, R11
	SHLL $4, R8
	SHLL $4, R9
	SHLL $4, R10
	SHLL $4, R11
	VMOVUPD (DX)(R8*1), X4
	VMOVUPD (DX)(R9*1), X5
	VINSERTF128 $1, (DX)(R10*1), Y4, Y4
	VINSERTF128 $1, (DX)(R11*1), Y5, Y5
	VUNPCKLPD Y5, Y4, Y6        // tail
	VUNPCKHPD Y5, Y4, Y4        // scale
	VPSLLQ $45, Y1, Y1
	VPADDQ Y1, Y4, Y4           // s
	VMULPD Y0, Y0, Y1           // r2
	VMULPD Y10, Y0, Y2
	VADDPD Y7, Y2, Y2
	VMULPD Y2, Y1, Y2
	VMULPD Y8, Y0, Y3
	VADDPD Y9, Y3, Y3
	VMULPD Y1, Y1, Y1
	VMULPD Y3, Y1, Y1
	VADDPD Y1, Y2, Y2           // p
	VADDPD Y0, Y6, Y6
	VADDPD Y2, Y6, Y6
	VMULPD Y6, Y4, Y6
	VADDPD Y4, Y6, Y6
	VMOVUPD Y6, (DI)(BX*8)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT exploop
expend:
	VZEROUPPER
	MOVQ BX, ret+32(FP)
	RET

// func exp2AVX2(dst, src *float64, n int, k *[9][lanes]float64) int
TEXT ·exp2AVX2(SB), NOSPLIT, $32-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), R12
	LEAQ ·expTable(SB), DX
	XORQ BX, BX
	VPCMPEQD Y15, Y15, Y15
	VPSRLQ $1, Y15, Y15         // |x| mask
	VMOVUPD expShift, Y14
	VMOVUPD exp2N, Y13
	VMOVUPD exp2InvN, Y12
	VMOVUPD exp2C0, Y11
	VMOVUPD exp2C1, Y10
	VMOVUPD exp2C2, Y9
	VMOVUPD exp2C3, Y8
	VMOVUPD exp2C4, Y7
exp2loop:
	VMOVUPD (SI)(BX*8), Y0
	VANDPD Y15, Y0, Y1
	VCMPPD $0x11, expLimit, Y1, Y1 // |x| < 512, false for NaN
	VMOVMSKPD Y1, AX
	CMPL AX, $15
	JNE exp2end
	VMULPD Y13, Y0, Y1
	VADDPD Y14, Y1, Y1          // z, and k in its bits
	VMOVUPD Y1, tmp-32(SP)
	VSUBPD Y14, Y1, Y2
	VMULPD Y12, Y2, Y2
	VSUBPD Y2, Y0, Y0           // r
	MOVBLZX tmp-32(SP), R8
	MOVBLZX tmp-24(SP), R9
	MOVBLZX tmp-16(SP), R10
	MOVBLZX tmp-8(SP), R11
	ANDL $127, R8
	ANDL $127, R9
	ANDL $127, R10
	ANDL $127, R11
	SHLL $4, R8
	SHLL $4, R9
	SHLL $4, R10
	SHLL $4, R11
	VMOVUPD (DX)(R8*1), X4
	VMOVUPD (DX)(R9*1), X5
	VINSERTF128 $1, (DX)(R10*1), Y4, Y4
	VINSERTF128 $1, (DX)(R11*1), Y5, Y5
	VUNPCKLPD Y5, Y4, Y6        // tail
	VUNPCKHPD Y5, Y4, Y4        // scale
	VPSLLQ $45, Y1, Y1
	VPADDQ Y1, Y4, Y4           // s
	VMULPD Y0, Y0, Y1           // r2
	VMULPD Y7, Y0, Y2
	VADDPD Y8, Y2, Y2
	VMULPD Y2, Y1, Y2
	VMULPD Y9, Y0, Y3
	VADDPD Y10, Y3, Y3
	VADDPD Y2, Y3, Y3
	VMULPD Y3, Y1, Y3
	VMULPD Y11, Y0, Y0
	VADDPD Y3, Y0, Y0
	VADDPD Y6, Y0, Y0           // p
	VMULPD Y0, Y4, Y0
	VADDPD Y4, Y0, Y0
	VMOVUPD Y0, (DI)(BX*8)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT exp2loop
exp2end:
	VZEROUPPER
	MOVQ BX, ret+32(FP)
	RET

// func logAVX2(dst, src *float64, n int, k *[9][lanes]float64, w *[7][lanes]uint64) int
TEXT ·logAVX2(SB), NOSPLIT, $32-48
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), R12
	MOVQ w+32(FP), R13
	XORQ BX, BX
logloop:
	VMOVUPD (SI)(BX*8), Y0
	LOG(logend)
	VMOVUPD Y4, (DI)(BX*8)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT logloop
logend:
	VZEROUPPER
	MOVQ BX, ret+40(FP)
	RET

// func sincosAVX2(sin, cos, src *float64, n int, k *[19][lanes]float64) int
TEXT ·sincosAVX2(SB), NOSPLIT, $32-48
	MOVQ sin+0(FP), DI
	MOVQ cos+8(FP), R13
	MOVQ src+16(FP), R12
	MOVQ n+24(FP), CX
	MOVQ k+32(FP), SI
	XORQ BX, BX
	VPCMPEQD Y15, Y15, Y15
	VPSLLQ $63, Y15, Y14        // sign bit
	VPSRLQ $1, Y15, Y15         // |x| mask
sincosloop:
	VMOVUPD (R12)(BX*8), Y0
	SINCOS(sincosend)
	VMOVUPD Y3, (DI)(BX*8)
	VMOVUPD Y4, (R13)(BX*8)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT sincosloop
sincosend:
	VZEROUPPER
	MOVQ BX, ret+40(FP)
	RET

// func boxMullerAVX2(vals *float64, n int, k *[9][lanes]float64, w *[7][lanes]uint64, c *[19][lanes]float64) int
// The pairs of one round lie in lanes 0, 2, 1, 3: that is how unpacking leaves them, and it takes them back.
TEXT ·boxMullerAVX2(SB), NOSPLIT, $64-48
	MOVQ vals+0(FP), DI
	MOVQ n+8(FP), CX
	MOVQ k+16(FP), R12
	MOVQ w+24(FP), R13
	MOVQ c+32(FP), SI
	XORQ BX, BX
	VPCMPEQD Y15, Y15, Y15
	VPSLLQ $63, Y15, Y14
	VPSRLQ $1, Y15, Y15
pairloop:
	VMOVUPD (DI)(BX*8), Y1
	VMOVUPD 32(DI)(BX*8), Y2
	VUNPCKLPD Y2, Y1, Y0
	VMAXPD leastUniform, Y0, Y0
	LOG(pairend)
	VMULPD minusTwo, Y4, Y4
	VSQRTPD Y4, Y4
	VMOVUPD Y4, radius-64(SP)
	VMOVUPD (DI)(BX*8), Y1
	VMOVUPD 32(DI)(BX*8), Y2
	VUNPCKHPD Y2, Y1, Y0
	VMULPD fullCircle, Y0, Y0
	SINCOS(pairend)
	VMULPD radius-64(SP), Y3, Y3
	VMULPD radius-64(SP), Y4, Y4
	VUNPCKLPD Y3, Y4, Y0
	VUNPCKHPD Y3, Y4, Y1
	VMOVUPD Y0, (DI)(BX*8)
	VMOVUPD Y1, 32(DI)(BX*8)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT pairloop
pairend:
	VZEROUPPER
	MOVQ BX, ret+40(FP)
	RET

// func tanhAVX2(dst, src *float64, n int, k *[9][lanes]float64, t *tanhLanes) int
// Both ways of Tanh are computed for all lanes.
TEXT ·tanhAVX2(SB), NOSPLIT, $32-48
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), R12
	MOVQ t+32(FP), R13
	LEAQ ·expTable(SB), DX
	XORQ BX, BX
	VPCMPEQD Y15, Y15, Y15
	VPSRLQ $1, Y15, Y15         // |x| mask
tanhloop:
	VMOVUPD (SI)(BX*8), Y14     // x
	VANDPD Y15, Y14, Y13        // a
	VCMPPD $0x11, tanhLimit, Y13, Y0
	VMOVMSKPD Y0, AX
	CMPL AX, $15
	JNE tanhend
	VADDPD Y13, Y13, Y0         // 2a
	VMULPD expInvLn2N, Y0, Y1
	VADDPD expShift, Y1, Y1     // z, and n in its bits
	VMOVUPD Y1, tmp-32(SP)
	VSUBPD expShift, Y1, Y2
	VMULPD expLn2HiN, Y2, Y3
	VSUBPD Y3, Y0, Y0
	VMULPD expLn2LoN, Y2, Y3
	VSUBPD Y3, Y0, Y0           // r
	MOVBLZX tmp-32(SP), R8
	MOVBLZX tmp-24(SP), R9
	MOVBLZX tmp-16(SP), R10
	MOVBLZX tmp-8(SP), R11
	ANDL $127, R8
	ANDL $127, R9
	ANDL $127, R10
	ANDL $127, R11
	SHLL $4, R8
	SHLL $4, R9
	SHLL $4, R10
	SHLL $4, R11
	VMOVUPD (DX)(R8*1), X4
	VMOVUPD (DX)(R9*1), X5
	VINSERTF128 $1, (DX)(R10*1), Y4, Y4
	VINSERTF128 $1, (DX)(R11*1), Y5, Y5
	VUNPCKLPD Y5, Y4, Y6        // tail
	VUNPCKHPD Y5, Y4, Y4        // scale
	VPAND tanhIndex, Y1, Y2
	VPSLLQ $45, Y2, Y2
	VPADDQ Y2, Y4, Y4           // hi
	VPSRLQ $7, Y1, Y1
	VPSLLQ $52, Y1, Y1
	VPADDQ tanhBias, Y1, Y7     // 2^k
	VMULPD Y0, Y0, Y1           // r2
	VMULPD expC0, Y0, Y2
	VADDPD half, Y2, Y2
	VMULPD Y2, Y1, Y2
	VMULPD expC2, Y0, Y3
	VADDPD expC1, Y3, Y3
	VMULPD Y1, Y1, Y1
	VMULPD Y3, Y1, Y1
	VADDPD Y1, Y2, Y2           // p
	VADDPD Y0, Y6, Y6
	VADDPD Y2, Y6, Y6
	VMULPD Y6, Y4, Y6           // lo
	VMULPD Y7, Y4, Y4           // hi·2^k
	VMULPD Y7, Y6, Y6           // lo·2^k
	VMOVUPD tanhOne, Y12
	VMOVUPD tanhTwo, Y11
	VADDPD Y12, Y4, Y0          // b
	VSUBPD Y0, Y4, Y1
	VADDPD Y12, Y1, Y1
	VADDPD Y1, Y6, Y6           // lo
	VADDPD Y6, Y0, Y1           // d
	VSUBPD Y1, Y0, Y2
	VADDPD Y6, Y2, Y2           // dl
	VDIVPD Y1, Y11, Y3          // q
	VANDPD tanhHigh, Y3, Y4     // qh
	VANDPD tanhHigh, Y1, Y5     // dh
	VMULPD Y5, Y4, Y6
	VSUBPD Y6, Y11, Y6
	VSUBPD Y5, Y1, Y7
	VMULPD Y7, Y4, Y7
	VSUBPD Y7, Y6, Y6
	VSUBPD Y4, Y3, Y7
	VMULPD Y1, Y7, Y7
	VSUBPD Y7, Y6, Y6
	VMULPD Y2, Y3, Y7
	VSUBPD Y7, Y6, Y6           // lack
	VMULPD half, Y3, Y7
	VMULPD Y7, Y6, Y6           // ql
	VSUBPD Y3, Y12, Y0          // y
	VSUBPD Y0, Y12, Y1
	VSUBPD Y3, Y1, Y1
	VSUBPD Y6, Y1, Y1
	VADDPD Y1, Y0, Y10
	VANDPD Y15, Y10, Y10
	VANDNPD Y14, Y15, Y1
	VORPD Y1, Y10, Y10          // with the sign of x
	VMULPD Y14, Y14, Y0         // t
	VMULPD Y0, Y0, Y1           // t2
	VMULPD Y1, Y1, Y2           // t4
	VMULPD tanhC1, Y0, Y3
	VADDPD tanhC0, Y3, Y3
	VMULPD tanhC3, Y0, Y4
	VADDPD tanhC2, Y4, Y4
	VMULPD Y4, Y1, Y4
	VADDPD Y4, Y3, Y3
	VMULPD tanhC7, Y0, Y4
	VADDPD tanhC6, Y4, Y4
	VMULPD Y4, Y1, Y4
	VMULPD tanhC5, Y0, Y5
	VADDPD tanhC4, Y5, Y5
	VADDPD Y4, Y5, Y5
	VMULPD Y5, Y2, Y5
	VADDPD Y5, Y3, Y3           // p
	VMULPD Y0, Y14, Y4
	VMULPD Y3, Y4, Y4
	VADDPD Y4, Y14, Y4
	VCMPPD $0x12, tanhSmall, Y13, Y0
	VBLENDVPD Y0, Y4, Y10, Y10
	VCMPPD $0x11, tanhTiny, Y13, Y0
	VBLENDVPD Y0, Y14, Y10, Y10
	VMOVUPD Y10, (DI)(BX*8)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT tanhloop
tanhend:
	VZEROUPPER
	MOVQ BX, ret+40(FP)
	RET

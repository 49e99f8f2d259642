//go:build !purego

// This file implements sweep32Go for AVX2: 8 elements a round, as two halves of 4 float64 lanes.

#include "textflag.h"

DATA abs4<>+0(SB)/8, $0x7fffffffffffffff
DATA abs4<>+8(SB)/8, $0x7fffffffffffffff
DATA abs4<>+16(SB)/8, $0x7fffffffffffffff
DATA abs4<>+24(SB)/8, $0x7fffffffffffffff
GLOBL abs4<>(SB), RODATA|NOPTR, $32
DATA max4<>+0(SB)/8, $0x7fefffffffffffff
DATA max4<>+8(SB)/8, $0x7fefffffffffffff
DATA max4<>+16(SB)/8, $0x7fefffffffffffff
DATA max4<>+24(SB)/8, $0x7fefffffffffffff
GLOBL max4<>(SB), RODATA|NOPTR, $32
DATA mag8<>+0(SB)/8, $0x7fffffff7fffffff
DATA mag8<>+8(SB)/8, $0x7fffffff7fffffff
DATA mag8<>+16(SB)/8, $0x7fffffff7fffffff
DATA mag8<>+24(SB)/8, $0x7fffffff7fffffff
GLOBL mag8<>(SB), RODATA|NOPTR, $32
DATA top8<>+0(SB)/8, $0x7f7fffff7f7fffff
DATA top8<>+8(SB)/8, $0x7f7fffff7f7fffff
DATA top8<>+16(SB)/8, $0x7f7fffff7f7fffff
DATA top8<>+24(SB)/8, $0x7f7fffff7f7fffff
GLOBL top8<>(SB), RODATA|NOPTR, $32

// One half. in: Y0 g, Y1 w, Y2 b; out: OK its mask. Sums are added in SA (absolute) and SR (relative), counts in the
// memory at N. Y9 maxAbs, Y8 maxRel, Y7 maxRatio, Y6 maxWant. Clobbers Y0 to Y3.
// The bound is clamped with itself as the second operand of VMINPD, so that a NaN stays one and nothing is accepted.
// Quotients of masked lanes may be NaN; the second operand of VMINPD turns them into numbers before they are masked.
#define SWEEP(OK, SA, SR, N, OUT) \
	VSUBPD Y1, Y0, Y0          \
	VANDPD abs4<>(SB), Y0, Y0  \
	VANDPD abs4<>(SB), Y1, Y1  \
	VMOVUPD max4<>(SB), Y3     \
	VMINPD Y2, Y3, Y3          \
	VCMPPD $0x12, Y3, Y0, OK   \
	VANDPD OK, Y0, Y0          \
	VANDPD OK, Y1, Y1          \
	VMOVUPD Y0, OUT            \
	VADDPD Y0, SA, SA          \
	VMAXPD Y0, Y9, Y9          \
	VMAXPD Y1, Y6, Y6          \
	VDIVPD Y2, Y0, Y2          \
	VMINPD max4<>(SB), Y2, Y2  \
	VXORPD Y3, Y3, Y3          \
	VCMPPD $0x1e, Y3, Y0, Y3   \
	VANDPD Y3, Y2, Y2          \
	VMAXPD Y2, Y7, Y7          \
	VDIVPD Y1, Y0, Y2          \
	VMINPD max4<>(SB), Y2, Y2  \
	VXORPD Y3, Y3, Y3          \
	VCMPPD $0x1e, Y3, Y1, Y3   \
	VANDPD Y3, Y2, Y2          \
	VADDPD Y2, SR, SR          \
	VMAXPD Y2, Y8, Y8          \
	VMOVDQU N, Y2              \
	VPSUBQ Y3, Y2, Y2          \
	VMOVDQU Y2, N

// func sweep32AVX2(got *byte, want, bound, diff *float64, n int, s *sweepState, odd *uint64)
// Y15, Y14 sums of absolute errors, Y13, Y12 of relative ones, Y11 maxULP
TEXT ·sweep32AVX2(SB), NOSPLIT, $0-56
	MOVQ got+0(FP), SI
	MOVQ want+8(FP), DI
	MOVQ bound+16(FP), DX
	MOVQ diff+24(FP), BX
	MOVQ n+32(FP), CX
	MOVQ s+40(FP), R8
	MOVQ odd+48(FP), R9
	VMOVUPD 0(R8), Y15
	VMOVUPD 32(R8), Y14
	VMOVUPD 64(R8), Y13
	VMOVUPD 96(R8), Y12
	VMOVUPD 256(R8), Y9
	VMOVUPD 288(R8), Y8
	VMOVUPD 320(R8), Y7
	VMOVUPD 352(R8), Y6
	VMOVDQU 384(R8), Y11

loop:
	VCVTPS2PD 0(SI), Y0
	VMOVUPD 0(DI), Y1
	VMOVUPD 0(DX), Y2
	SWEEP(Y5, Y15, Y13, 128(R8), 0(BX))
	VCVTPS2PD 16(SI), Y0
	VMOVUPD 32(DI), Y1
	VMOVUPD 32(DX), Y2
	SWEEP(Y4, Y14, Y12, 160(R8), 32(BX))

	// the masks of both halves as one of 8 lanes of 32 bits
	VSHUFPS $0x88, Y4, Y5, Y0
	VPERMQ $0xd8, Y0, Y0
	VMOVMSKPS Y0, AX
	XORL $0xff, AX
	MOVB AX, (R9)

	// ULP distances: see kernel_amd64.s
	VMOVDQU 0(SI), Y1
	VCVTPD2PSY 0(DI), X2
	VCVTPD2PSY 32(DI), X3
	VINSERTI128 $1, X3, Y2, Y2
	VPAND mag8<>(SB), Y2, Y3
	VPMINUD top8<>(SB), Y3, Y3
	VPSIGND Y2, Y3, Y3
	VPAND mag8<>(SB), Y1, Y4
	VPSIGND Y1, Y4, Y4
	VPMAXSD Y3, Y4, Y5
	VPMINSD Y3, Y4, Y2
	VPSUBD Y2, Y5, Y5
	VPAND Y0, Y5, Y5
	VPMAXUD Y5, Y11, Y11
	VPMOVZXDQ X5, Y2
	VPADDQ 192(R8), Y2, Y2
	VMOVDQU Y2, 192(R8)
	VEXTRACTI128 $1, Y5, X5
	VPMOVZXDQ X5, Y2
	VPADDQ 224(R8), Y2, Y2
	VMOVDQU Y2, 224(R8)

	ADDQ $32, SI
	ADDQ $64, DI
	ADDQ $64, DX
	ADDQ $64, BX
	INCQ R9
	SUBQ $8, CX
	JNZ loop

	VMOVUPD Y15, 0(R8)
	VMOVUPD Y14, 32(R8)
	VMOVUPD Y13, 64(R8)
	VMOVUPD Y12, 96(R8)
	VMOVUPD Y9, 256(R8)
	VMOVUPD Y8, 288(R8)
	VMOVUPD Y7, 320(R8)
	VMOVUPD Y6, 352(R8)
	VMOVDQU Y11, 384(R8)
	VZEROUPPER
	RET

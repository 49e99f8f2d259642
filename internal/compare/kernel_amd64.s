//go:build !purego

// This file implements the kernels of kernel.go for AVX2: 8 elements a round, as two halves of 4 float64 lanes.
//
// Per half, with g, w and b the output, the wanted value and the bound:
//	d  = |g - w|
//	ok = d <= min(MaxFloat64, b)      false when d or b is NaN: VMINPD gives its second operand b then
//	d &= ok                           an element that is not ok counts nowhere here
//	maxAbs = max(maxAbs, d)
// A quotient may be a new maximum only where d >= max(fl(m*x), tiny), m being the lane's maximum (see accept); the tiny
// keeps out lanes with d = 0, and a NaN product becomes it. Division happens behind a branch that is seldom taken.
// ULP distances are those of bit patterns mapped to integers in the order of the values: the magnitude with the sign of
// the number. There is no fused operation.

#include "textflag.h"

DATA absMask<>+0(SB)/8, $0x7fffffffffffffff
GLOBL absMask<>(SB), RODATA|NOPTR, $8
DATA maxFinite<>+0(SB)/8, $0x7fefffffffffffff
GLOBL maxFinite<>(SB), RODATA|NOPTR, $8
DATA tiny<>+0(SB)/8, $0x0000000000000001
GLOBL tiny<>(SB), RODATA|NOPTR, $8
DATA magMask<>+0(SB)/8, $0x7fffffff7fffffff
DATA magMask<>+8(SB)/8, $0x7fffffff7fffffff
DATA magMask<>+16(SB)/8, $0x7fffffff7fffffff
DATA magMask<>+24(SB)/8, $0x7fffffff7fffffff
GLOBL magMask<>(SB), RODATA|NOPTR, $32
DATA maxFinite32<>+0(SB)/8, $0x7f7fffff7f7fffff
DATA maxFinite32<>+8(SB)/8, $0x7f7fffff7f7fffff
DATA maxFinite32<>+16(SB)/8, $0x7f7fffff7f7fffff
DATA maxFinite32<>+24(SB)/8, $0x7f7fffff7f7fffff
GLOBL maxFinite32<>(SB), RODATA|NOPTR, $32

// Y15 |x| mask, Y14 MaxFloat64, Y13 tiny, Y12 maxAbs, Y11 maxRel, Y10 maxRatio, Y9 maxULP
#define LOADSTATE \
	VBROADCASTSD absMask<>(SB), Y15   \
	VBROADCASTSD maxFinite<>(SB), Y14 \
	VBROADCASTSD tiny<>(SB), Y13      \
	VMOVUPD 0(R8), Y12                \
	VMOVUPD 32(R8), Y11               \
	VMOVUPD 64(R8), Y10               \
	VMOVDQU 96(R8), Y9

#define STORESTATE \
	VMOVUPD Y12, 0(R8)  \
	VMOVUPD Y11, 32(R8) \
	VMOVUPD Y10, 64(R8) \
	VMOVDQU Y9, 96(R8)  \
	VZEROUPPER

// in: Y0 g, Y1 w, Y2 b; out: Y0 d where ok, Y1 |w|, OK the mask, Y5 and Y6 where a quotient must be formed, AX whether
#define HALF(OK) \
	VMINPD Y2, Y14, Y3          \
	VCMPPD $0x12, Y3, Y0, OK    \
	VANDPD OK, Y0, Y0           \
	VMAXPD Y0, Y12, Y12         \
	VMULPD Y1, Y11, Y5          \
	VMULPD Y2, Y10, Y6          \
	VMAXPD Y13, Y5, Y5          \
	VMAXPD Y13, Y6, Y6          \
	VCMPPD $0x1d, Y5, Y0, Y5    \
	VCMPPD $0x1d, Y6, Y0, Y6    \
	VORPD Y5, Y6, Y7            \
	VMOVMSKPD Y7, AX

// the new maxima of a half; a quotient by w = 0 does not count
#define QUOTIENTS \
	VDIVPD Y1, Y0, Y3        \
	VMINPD Y14, Y3, Y3       \
	VANDPD Y5, Y3, Y3        \
	VXORPD Y7, Y7, Y7        \
	VCMPPD $0x04, Y7, Y1, Y7 \
	VANDPD Y7, Y3, Y3        \
	VMAXPD Y3, Y11, Y11      \
	VDIVPD Y2, Y0, Y3        \
	VMINPD Y14, Y3, Y3       \
	VANDPD Y6, Y3, Y3        \
	VMAXPD Y3, Y10, Y10

// in: Y8 and Y4 the masks of the halves; out: Y0 one mask of 8 lanes of 32 bits; stores the byte of odd elements
#define PACK \
	VSHUFPS $0x88, Y4, Y8, Y0 \
	VPERMQ $0xd8, Y0, Y0      \
	VMOVMSKPS Y0, AX          \
	XORL $0xff, AX            \
	MOVB AX, (R9)

// in: Y1 bits of got, Y2 bits of want, Y3 magnitude of want
#define ULPS \
	VPSIGND Y2, Y3, Y3             \
	VPAND magMask<>(SB), Y1, Y4    \
	VPSIGND Y1, Y4, Y4             \
	VPMAXSD Y3, Y4, Y5             \
	VPMINSD Y3, Y4, Y6             \
	VPSUBD Y6, Y5, Y5              \
	VPAND Y0, Y5, Y5               \
	VPMAXUD Y5, Y9, Y9

// func quick32x64AVX2(got *byte, want, bound *float64, n int, s *quickState, odd *uint64)
TEXT ·quick32x64AVX2(SB), NOSPLIT, $0-48
	MOVQ got+0(FP), SI
	MOVQ want+8(FP), DI
	MOVQ bound+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ s+32(FP), R8
	MOVQ odd+40(FP), R9
	LOADSTATE

loop64:
	VCVTPS2PD 0(SI), Y0
	VMOVUPD 0(DI), Y1
	VMOVUPD 0(DX), Y2
	VSUBPD Y1, Y0, Y0
	VANDPD Y15, Y0, Y0
	VANDPD Y15, Y1, Y1
	HALF(Y8)
	TESTL AX, AX
	JNZ quotients64a

half64b:
	VCVTPS2PD 16(SI), Y0
	VMOVUPD 32(DI), Y1
	VMOVUPD 32(DX), Y2
	VSUBPD Y1, Y0, Y0
	VANDPD Y15, Y0, Y0
	VANDPD Y15, Y1, Y1
	HALF(Y4)
	TESTL AX, AX
	JNZ quotients64b

ulps64:
	PACK
	VMOVDQU 0(SI), Y1
	VCVTPD2PSY 0(DI), X2
	VCVTPD2PSY 32(DI), X3
	VINSERTI128 $1, X3, Y2, Y2
	VPAND magMask<>(SB), Y2, Y3
	VPMINUD maxFinite32<>(SB), Y3, Y3
	ULPS
	ADDQ $32, SI
	ADDQ $64, DI
	ADDQ $64, DX
	INCQ R9
	SUBQ $8, CX
	JNZ loop64
	STORESTATE
	RET

quotients64a:
	QUOTIENTS
	JMP half64b

quotients64b:
	QUOTIENTS
	JMP ulps64

// The kernel for two float32 buffers first looks at 8 elements in float32 and takes the exact way, in float64, only
// when that cannot rule out that something happens: an element that is not accepted, or a new maximum. It can when
//	S*|g - w| <= min(A + R*|w|, M*|w|, D)
// with R, A, M and D a little below S*maxRatio*rtol, S*maxRatio*atol, S*maxRel and S*maxAbs (maxRatio is at most 1, so
// that the first term is not above S times the bound). "A little" is 2^-17, "a rounding" is 2^-24, and at most four of
// them meet here. S = 2^40 keeps underflow away: |g - w| is 0 or at least 2^-149, hence a product that underflows is
// below S*|g - w|. NaN and Inf in g or w make the comparison false. Elements without an error stay on the fast way.
// The maxima of ULP distances have no such bound and are taken on both ways.

DATA scale<>+0(SB)/4, $0x53800000 // 2^40
GLOBL scale<>(SB), RODATA|NOPTR, $4
DATA scaleDown<>+0(SB)/8, $0x426ffff000000000 // 2^40 * (1 - 2^-17)
GLOBL scaleDown<>(SB), RODATA|NOPTR, $8
DATA maxFloat32<>+0(SB)/8, $0x47efffffe0000000
GLOBL maxFloat32<>(SB), RODATA|NOPTR, $8
DATA normal<>+0(SB)/8, $0x39b0000000000000 // 2^-100: below it a product is taken as 0, lest it round up as a subnormal
GLOBL normal<>(SB), RODATA|NOPTR, $8

// in: Y0 four float64 maxima; out: DST eight float32, the four twice, scaled and a little lower; clobbers Y1
#define LOWER(DST, XDST) \
	VBROADCASTSD scaleDown<>(SB), Y1  \
	VMULPD Y1, Y0, Y0                 \
	VBROADCASTSD maxFloat32<>(SB), Y1 \
	VMINPD Y1, Y0, Y0                 \
	VBROADCASTSD normal<>(SB), Y1     \
	VCMPPD $0x1d, Y1, Y0, Y1          \
	VANDPD Y1, Y0, Y0                 \
	VCVTPD2PSY Y0, XDST               \
	VINSERTF128 $1, XDST, DST, DST

// the limits of the fast way from the maxima; R10 points to 4*32 bytes of them: A, R, M, D
#define LIMITS \
	VMULPD 128(R8), Y10, Y0 \
	LOWER(Y2, X2)           \
	VMOVUPS Y2, 0(R10)      \
	VMULPD 160(R8), Y10, Y0 \
	LOWER(Y2, X2)           \
	VMOVUPS Y2, 32(R10)     \
	VMOVAPD Y11, Y0         \
	LOWER(Y2, X2)           \
	VMOVUPS Y2, 64(R10)     \
	VMOVAPD Y12, Y0         \
	LOWER(Y2, X2)           \
	VMOVUPS Y2, 96(R10)

// func quick32x32AVX2(got, want *byte, n int, s *quickState, odd *uint64)
TEXT ·quick32x32AVX2(SB), NOSPLIT, $128-40
	MOVQ got+0(FP), SI
	MOVQ want+8(FP), DI
	MOVQ n+16(FP), CX
	MOVQ s+24(FP), R8
	MOVQ odd+32(FP), R9
	MOVQ SP, R10
	LOADSTATE
	LIMITS
	JMP entry32

	// Y15 magnitude mask, Y14 S, Y13 A, Y8 R, Y7 M, Y6 D, Y9 maxULP; Y10 to Y12 as everywhere
fast32:
	VMOVUPS (SI), Y0
	VMOVUPS (DI), Y1
	VSUBPS Y1, Y0, Y2
	VANDPS Y15, Y2, Y2
	VANDPS Y15, Y1, Y3
	VMULPS Y14, Y2, Y2
	VMULPS Y8, Y3, Y4
	VADDPS Y13, Y4, Y4
	VMULPS Y7, Y3, Y5
	VMINPS Y5, Y4, Y4
	VMINPS Y6, Y4, Y4
	VCMPPS $0x16, Y4, Y2, Y5
	VMOVMSKPS Y5, AX
	TESTL AX, AX
	JNZ exact32
	MOVB $0, (R9)
	VPSIGND Y1, Y3, Y3
	VPAND Y15, Y0, Y4
	VPSIGND Y0, Y4, Y4
	VPMAXSD Y3, Y4, Y5
	VPMINSD Y3, Y4, Y2
	VPSUBD Y2, Y5, Y5
	VPMAXUD Y5, Y9, Y9
	ADDQ $32, SI
	ADDQ $32, DI
	INCQ R9
	SUBQ $8, CX
	JNZ fast32
	STORESTATE
	RET

exact32:
	VBROADCASTSD absMask<>(SB), Y15
	VBROADCASTSD maxFinite<>(SB), Y14
	VBROADCASTSD tiny<>(SB), Y13
	VCVTPS2PD 0(SI), Y0
	VCVTPS2PD 0(DI), Y1
	VSUBPD Y1, Y0, Y0
	VANDPD Y15, Y0, Y0
	VANDPD Y15, Y1, Y1
	VMULPD 160(R8), Y1, Y2
	VADDPD 128(R8), Y2, Y2
	HALF(Y8)
	TESTL AX, AX
	JNZ quotients32a

half32b:
	VCVTPS2PD 16(SI), Y0
	VCVTPS2PD 16(DI), Y1
	VSUBPD Y1, Y0, Y0
	VANDPD Y15, Y0, Y0
	VANDPD Y15, Y1, Y1
	VMULPD 160(R8), Y1, Y2
	VADDPD 128(R8), Y2, Y2
	HALF(Y4)
	TESTL AX, AX
	JNZ quotients32b

ulps32:
	PACK
	VMOVDQU 0(SI), Y1
	VMOVDQU 0(DI), Y2
	VPAND magMask<>(SB), Y2, Y3
	ULPS
	LIMITS
	ADDQ $32, SI
	ADDQ $32, DI
	INCQ R9
	SUBQ $8, CX
	JZ done32

entry32:
	VMOVDQU magMask<>(SB), Y15
	VBROADCASTSS scale<>(SB), Y14
	VMOVUPS 0(R10), Y13
	VMOVUPS 32(R10), Y8
	VMOVUPS 64(R10), Y7
	VMOVUPS 96(R10), Y6
	JMP fast32

done32:
	STORESTATE
	RET

quotients32a:
	QUOTIENTS
	JMP half32b

quotients32b:
	QUOTIENTS
	JMP ulps32

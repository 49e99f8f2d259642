//go:build !purego

// Conversions between float32 and float64, eight elements a round, with what every amd64 has (SSE2). The CPU's rule
// for NaN is that of widen32 and narrow32: quiet, sign and leading bits of the payload kept.

#include "textflag.h"

// func widenGroups(dst *float64, src *byte, n int)
TEXT ·widenGroups(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
widenloop:
	CVTPS2PD 0(SI), X0
	CVTPS2PD 8(SI), X1
	CVTPS2PD 16(SI), X2
	CVTPS2PD 24(SI), X3
	MOVUPD X0, 0(DI)
	MOVUPD X1, 16(DI)
	MOVUPD X2, 32(DI)
	MOVUPD X3, 48(DI)
	ADDQ $32, SI
	ADDQ $64, DI
	SUBQ $8, CX
	JGT widenloop
	RET

// func narrowGroups(dst *byte, src *float64, n int)
TEXT ·narrowGroups(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
narrowloop:
	MOVUPD 0(SI), X0
	MOVUPD 16(SI), X1
	MOVUPD 32(SI), X2
	MOVUPD 48(SI), X3
	CVTPD2PS X0, X0
	CVTPD2PS X1, X1
	CVTPD2PS X2, X2
	CVTPD2PS X3, X3
	UNPCKLPD X1, X0
	UNPCKLPD X3, X2
	MOVUPS X0, 0(DI)
	MOVUPS X2, 16(DI)
	ADDQ $64, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JGT narrowloop
	RET

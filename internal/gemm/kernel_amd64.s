//go:build !purego

// This file implements the tile and row kernels with AVX2 and FMA; kernel.go says what they compute.

#include "go_asm.h"
#include "textflag.h"

// The bits of math.NaN(): every NaN a kernel stores is this one.
DATA canonicalNaN<>+0(SB)/8, $0x7ff8000000000001
GLOBL canonicalNaN<>(SB), RODATA|NOPTR, $8

// One step of the chain for a 4×12 tile: Y0..Y11 += a[0..3] ⊗ b[0..11].
// AX a, R8 its row stride, R9 three row strides, R10 its column stride; BX b, R11 its row stride (all in bytes).
#define TILESTEP \
	VMOVUPD (BX), Y12            \
	VMOVUPD 32(BX), Y13          \
	VMOVUPD 64(BX), Y14          \
	VBROADCASTSD (AX), Y15       \
	VFMADD231PD Y12, Y15, Y0     \
	VFMADD231PD Y13, Y15, Y1     \
	VFMADD231PD Y14, Y15, Y2     \
	VBROADCASTSD (AX)(R8*1), Y15 \
	VFMADD231PD Y12, Y15, Y3     \
	VFMADD231PD Y13, Y15, Y4     \
	VFMADD231PD Y14, Y15, Y5     \
	VBROADCASTSD (AX)(R8*2), Y15 \
	VFMADD231PD Y12, Y15, Y6     \
	VFMADD231PD Y13, Y15, Y7     \
	VFMADD231PD Y14, Y15, Y8     \
	VBROADCASTSD (AX)(R9*1), Y15 \
	VFMADD231PD Y12, Y15, Y9     \
	VFMADD231PD Y13, Y15, Y10    \
	VFMADD231PD Y14, Y15, Y11    \
	ADDQ R10, AX                 \
	ADDQ R11, BX

// Replaces the NaNs of acc by nan, which has canonicalNaN in all lanes; Y12 is scratch. Predicate 3: unordered.
#define CANONICAL(acc, nan) \
	VCMPPD $3, acc, acc, Y12 \
	VBLENDVPD Y12, nan, acc, acc

// func tileAVX2(t *tile)
TEXT ·tileAVX2(SB), NOSPLIT, $0-8
	MOVQ t+0(FP), DX
	MOVQ tile_c(DX), DI
	MOVQ tile_ldc(DX), SI
	MOVQ tile_a(DX), AX
	MOVQ tile_aRow(DX), R8
	MOVQ tile_aCol(DX), R10
	MOVQ tile_b(DX), BX
	MOVQ tile_bRow(DX), R11
	MOVQ tile_k(DX), CX
	MOVQ tile_flags(DX), DX // the last use of t
	SHLQ $3, SI
	SHLQ $3, R8
	SHLQ $3, R10
	SHLQ $3, R11
	LEAQ (R8)(R8*2), R9
	LEAQ (SI)(SI*2), R12

	TESTQ $const_flagFirst, DX
	JZ   load
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7
	VXORPD Y8, Y8, Y8
	VXORPD Y9, Y9, Y9
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11
	JMP  started

load:
	VMOVUPD (DI), Y0
	VMOVUPD 32(DI), Y1
	VMOVUPD 64(DI), Y2
	VMOVUPD (DI)(SI*1), Y3
	VMOVUPD 32(DI)(SI*1), Y4
	VMOVUPD 64(DI)(SI*1), Y5
	VMOVUPD (DI)(SI*2), Y6
	VMOVUPD 32(DI)(SI*2), Y7
	VMOVUPD 64(DI)(SI*2), Y8
	VMOVUPD (DI)(R12*1), Y9
	VMOVUPD 32(DI)(R12*1), Y10
	VMOVUPD 64(DI)(R12*1), Y11

started: // the next tile of the same panel begins four rows below
	LEAQ (DI)(SI*4), R13
	PREFETCHT0 (R13)
	PREFETCHT0 95(R13)
	PREFETCHT0 (R13)(SI*1)
	PREFETCHT0 95(R13)(SI*1)
	PREFETCHT0 (R13)(SI*2)
	PREFETCHT0 95(R13)(SI*2)
	PREFETCHT0 (R13)(R12*1)
	PREFETCHT0 95(R13)(R12*1)
	SUBQ $4, CX
	JL   rest

steps4:
	TILESTEP
	TILESTEP
	TILESTEP
	TILESTEP
	SUBQ $4, CX
	JGE  steps4

rest:
	ADDQ $4, CX
	JZ   finish

steps1:
	TILESTEP
	DECQ CX
	JNZ  steps1

finish:
	TESTQ $const_flagLast, DX
	JZ   store
	VBROADCASTSD canonicalNaN<>(SB), Y15
	CANONICAL(Y0, Y15)
	CANONICAL(Y1, Y15)
	CANONICAL(Y2, Y15)
	CANONICAL(Y3, Y15)
	CANONICAL(Y4, Y15)
	CANONICAL(Y5, Y15)
	CANONICAL(Y6, Y15)
	CANONICAL(Y7, Y15)
	CANONICAL(Y8, Y15)
	CANONICAL(Y9, Y15)
	CANONICAL(Y10, Y15)
	CANONICAL(Y11, Y15)

store:
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, (DI)(SI*1)
	VMOVUPD Y4, 32(DI)(SI*1)
	VMOVUPD Y5, 64(DI)(SI*1)
	VMOVUPD Y6, (DI)(SI*2)
	VMOVUPD Y7, 32(DI)(SI*2)
	VMOVUPD Y8, 64(DI)(SI*2)
	VMOVUPD Y9, (DI)(R12*1)
	VMOVUPD Y10, 32(DI)(R12*1)
	VMOVUPD Y11, 64(DI)(R12*1)
	VZEROUPPER
	RET

// One step of the chain for four columns: acc += a[p]·b[p, off..off+3]; Y15 the mask, Y14 a[p] in all lanes.
#define ROWSTEP(off, acc) \
	VANDPD off(DX), Y15, Y13 \
	VFMADD231PD Y13, Y14, acc

// func rowAVX2(r *row)
TEXT ·rowAVX2(SB), NOSPLIT, $0-8
	MOVQ r+0(FP), R8
	MOVQ row_c(R8), DI
	MOVQ row_n(R8), SI
	MOVQ row_b(R8), BX
	MOVQ row_bRow(R8), R11
	MOVQ row_flags(R8), R9
	VBROADCASTSD row_mask(R8), Y15
	SHLQ $3, R11
	SUBQ $32, SI
	JL   narrow

wide: // 32 columns at a time: eight accumulators hide the latency of the chain
	MOVQ row_a(R8), AX
	MOVQ row_k(R8), CX
	MOVQ BX, DX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7
	TESTQ $const_flagFirst, R9
	JNZ  widestep
	VMOVUPD (DI), Y0
	VMOVUPD 32(DI), Y1
	VMOVUPD 64(DI), Y2
	VMOVUPD 96(DI), Y3
	VMOVUPD 128(DI), Y4
	VMOVUPD 160(DI), Y5
	VMOVUPD 192(DI), Y6
	VMOVUPD 224(DI), Y7

widestep:
	VBROADCASTSD (AX), Y14
	VANDPD Y14, Y15, Y14
	ROWSTEP(0, Y0)
	ROWSTEP(32, Y1)
	ROWSTEP(64, Y2)
	ROWSTEP(96, Y3)
	ROWSTEP(128, Y4)
	ROWSTEP(160, Y5)
	ROWSTEP(192, Y6)
	ROWSTEP(224, Y7)
	ADDQ $8, AX
	ADDQ R11, DX
	DECQ CX
	JNZ  widestep

	TESTQ $const_flagLast, R9
	JZ   widestore
	VBROADCASTSD canonicalNaN<>(SB), Y14
	CANONICAL(Y0, Y14)
	CANONICAL(Y1, Y14)
	CANONICAL(Y2, Y14)
	CANONICAL(Y3, Y14)
	CANONICAL(Y4, Y14)
	CANONICAL(Y5, Y14)
	CANONICAL(Y6, Y14)
	CANONICAL(Y7, Y14)

widestore:
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	VMOVUPD Y4, 128(DI)
	VMOVUPD Y5, 160(DI)
	VMOVUPD Y6, 192(DI)
	VMOVUPD Y7, 224(DI)
	ADDQ $256, DI
	ADDQ $256, BX
	SUBQ $32, SI
	JGE  wide

narrow: // then four at a time; neighbouring groups overlap in the core
	ADDQ $32, SI
	JZ   done

four:
	MOVQ row_a(R8), AX
	MOVQ row_k(R8), CX
	MOVQ BX, DX
	VXORPD Y0, Y0, Y0
	TESTQ $const_flagFirst, R9
	JNZ  fourstep
	VMOVUPD (DI), Y0

fourstep:
	VBROADCASTSD (AX), Y14
	VANDPD Y14, Y15, Y14
	ROWSTEP(0, Y0)
	ADDQ $8, AX
	ADDQ R11, DX
	DECQ CX
	JNZ  fourstep

	TESTQ $const_flagLast, R9
	JZ   fourstore
	VBROADCASTSD canonicalNaN<>(SB), Y14
	CANONICAL(Y0, Y14)

fourstore:
	VMOVUPD Y0, (DI)
	ADDQ $32, DI
	ADDQ $32, BX
	SUBQ $4, SI
	JNZ  four

done:
	VZEROUPPER
	RET

// func copyAVX2(m *mover)
TEXT ·copyAVX2(SB), NOSPLIT, $0-8
	MOVQ m+0(FP), R8
	MOVQ mover_dst(R8), DI
	MOVQ mover_src(R8), SI
	MOVQ mover_stride(R8), R11
	MOVQ mover_n(R8), CX
	VBROADCASTSD mover_mask(R8), Y15
	SHLQ $3, R11
	LEAQ (SI)(R11*8), R9

copyrow:
	PREFETCHT0 (R9)
	PREFETCHT0 64(R9)
	VANDPD (SI), Y15, Y0
	VANDPD 32(SI), Y15, Y1
	VANDPD 64(SI), Y15, Y2
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	ADDQ R11, SI
	ADDQ R11, R9
	ADDQ $96, DI
	DECQ CX
	JNZ  copyrow
	VZEROUPPER
	RET

// func turnAVX2(m *mover)
TEXT ·turnAVX2(SB), NOSPLIT, $0-8
	MOVQ m+0(FP), R8
	MOVQ mover_dst(R8), DI
	MOVQ mover_step(R8), R10
	MOVQ mover_src(R8), SI
	MOVQ mover_stride(R8), R11
	MOVQ mover_n(R8), CX
	SHLQ $3, R10
	SHLQ $3, R11
	LEAQ (R11)(R11*2), R12
	LEAQ (R10)(R10*2), R13

turn4: // four rows by four: halves of rows 0|2 and 1|3 side by side, then interleaved
	VMOVUPD (SI), X0
	VMOVUPD (SI)(R11*1), X1
	VMOVUPD 16(SI), X2
	VMOVUPD 16(SI)(R11*1), X3
	VINSERTF128 $1, (SI)(R11*2), Y0, Y0
	VINSERTF128 $1, (SI)(R12*1), Y1, Y1
	VINSERTF128 $1, 16(SI)(R11*2), Y2, Y2
	VINSERTF128 $1, 16(SI)(R12*1), Y3, Y3
	VUNPCKLPD Y1, Y0, Y4
	VUNPCKHPD Y1, Y0, Y5
	VUNPCKLPD Y3, Y2, Y6
	VUNPCKHPD Y3, Y2, Y7
	VMOVUPD Y4, (DI)
	VMOVUPD Y5, (DI)(R10*1)
	VMOVUPD Y6, (DI)(R10*2)
	VMOVUPD Y7, (DI)(R13*1)
	ADDQ $32, SI
	LEAQ (DI)(R10*4), DI
	SUBQ $4, CX
	JNZ  turn4
	VZEROUPPER
	RET

// Two steps of the chains of four rows of b at (R14): acc += a[off/8..off/8+1]·b. The 16-byte halves of rows 0|2
// and 1|3 are put side by side and interleaved, which makes columns of them. R11 row stride, R12 three strides,
// Y15 the mask.
#define DOTSTEP2(off, acc) \
	VMOVUPD off(R14), X4                      \
	VMOVUPD off(R14)(R11*1), X5               \
	VINSERTF128 $1, off(R14)(R11*2), Y4, Y4   \
	VINSERTF128 $1, off(R14)(R12*1), Y5, Y5   \
	VBROADCASTSD off(AX), Y6                  \
	VBROADCASTSD (off+8)(AX), Y7              \
	VUNPCKLPD Y5, Y4, Y8                      \
	VUNPCKHPD Y5, Y4, Y9                      \
	VANDPD Y6, Y15, Y6                        \
	VANDPD Y7, Y15, Y7                        \
	VANDPD Y8, Y15, Y8                        \
	VANDPD Y9, Y15, Y9                        \
	VFMADD231PD Y8, Y6, acc                   \
	VFMADD231PD Y9, Y7, acc

// Eight steps, a cache line of each row. With eight rows at a time the lines fit the ways of one cache set, where
// they all fall when the stride is a power of two.
#define DOTSTEP8(acc) \
	DOTSTEP2(0, acc)  \
	DOTSTEP2(16, acc) \
	DOTSTEP2(32, acc) \
	DOTSTEP2(48, acc)

// func dotsAVX2(r *row)
TEXT ·dotsAVX2(SB), NOSPLIT, $0-8
	MOVQ r+0(FP), R8
	MOVQ row_c(R8), DI
	MOVQ row_a(R8), AX
	MOVQ row_b(R8), BX
	MOVQ row_bRow(R8), R11
	MOVQ row_k(R8), CX
	VBROADCASTSD row_mask(R8), Y15
	SHLQ $3, R11
	LEAQ (R11)(R11*2), R12
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1

dots8:
	MOVQ BX, R14
	DOTSTEP8(Y0)
	LEAQ (R14)(R11*4), R14
	DOTSTEP8(Y1)
	ADDQ $64, AX
	ADDQ $64, BX
	SUBQ $8, CX
	JNZ  dots8

	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VZEROUPPER
	RET

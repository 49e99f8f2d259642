//go:build !purego

package gemm

// This file implements the choice of kernels on amd64.

import "golang.org/x/sys/cpu"

// haveAVX2 reports whether the assembly may run: the processor has AVX2 and FMA and the system saves their registers.
func haveAVX2() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA }

// tileAVX2 is tileGo with AVX2 and FMA.
//
//go:noescape
func tileAVX2(t *tile)

// rowAVX2 is rowGo with AVX2 and FMA; n is a positive multiple of four.
//
//go:noescape
func rowAVX2(r *row)

// copyAVX2 is copyGo with AVX2.
//
//go:noescape
func copyAVX2(m *mover)

// turnAVX2 is turnGo with AVX2; n is a positive multiple of four.
//
//go:noescape
func turnAVX2(m *mover)

// dotsAVX2 does, for eight rows of a transposed b, all k steps of the chains of one row of c, without flags: they
// start at +0 and end as they are. k is a positive multiple of eight.
//
//go:noescape
func dotsAVX2(r *row)

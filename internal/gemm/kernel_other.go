//go:build !amd64 || purego

package gemm

// This file implements the choice of kernels where there is no assembly.

// haveAVX2 reports that there are only the kernels in Go.
func haveAVX2() bool { return false }

func tileAVX2(*tile) { panic("gemm: internal error: no assembly in this build") }

func rowAVX2(*row) { panic("gemm: internal error: no assembly in this build") }

func copyAVX2(*mover) { panic("gemm: internal error: no assembly in this build") }

func turnAVX2(*mover) { panic("gemm: internal error: no assembly in this build") }

func dotsAVX2(*row) { panic("gemm: internal error: no assembly in this build") }

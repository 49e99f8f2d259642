//go:build !amd64 || purego

// This file implements the choice of kernels where there is no assembly: the scalar functions do everything.

package libm

func expGroups(dst, src []float64) int         { return 0 }
func exp2Groups(dst, src []float64) int        { return 0 }
func logGroups(dst, src []float64) int         { return 0 }
func sincosGroups(sin, cos, src []float64) int { return 0 }
func boxMullerGroups(vals []float64) int       { return 0 }
func tanhGroups(dst, src []float64) int        { return 0 }

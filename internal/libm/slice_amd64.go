//go:build !purego

// This file implements the choice of kernels on amd64.

package libm

import (
	"math"

	"golang.org/x/sys/cpu"
)

// expGroups sets the elements of the first groups of four of dst, and returns how many elements those are. It ends
// before the first group with an argument that Exp treats apart.
func expGroups(dst, src []float64) int {
	if n := len(src) &^ (lanes - 1); n > 0 && cpu.X86.HasAVX2 {
		return expAVX2(&dst[:n][0], &src[0], n, &expQuads)
	}
	return 0
}

// exp2Groups is expGroups for Exp2.
func exp2Groups(dst, src []float64) int {
	if n := len(src) &^ (lanes - 1); n > 0 && cpu.X86.HasAVX2 {
		return exp2AVX2(&dst[:n][0], &src[0], n, &exp2Quads)
	}
	return 0
}

// logGroups is expGroups for Log.
func logGroups(dst, src []float64) int {
	if n := len(src) &^ (lanes - 1); n > 0 && cpu.X86.HasAVX2 {
		return logAVX2(&dst[:n][0], &src[0], n, &logQuads, &logWords)
	}
	return 0
}

// sincosGroups is expGroups for Sincos.
func sincosGroups(sin, cos, src []float64) int {
	if n := len(src) &^ (lanes - 1); n > 0 && cpu.X86.HasAVX2 {
		return sincosAVX2(&sin[:n][0], &cos[:n][0], &src[0], n, &circleQuads)
	}
	return 0
}

// tanhGroups is expGroups for Tanh.
func tanhGroups(dst, src []float64) int {
	if n := len(src) &^ (lanes - 1); n > 0 && cpu.X86.HasAVX2 {
		return tanhAVX2(&dst[:n][0], &src[0], n, &expQuads, &tanhQuads)
	}
	return 0
}

// boxMullerGroups is expGroups for BoxMuller, with groups of four pairs.
func boxMullerGroups(vals []float64) int {
	if n := len(vals) &^ (2*lanes - 1); n > 0 && cpu.X86.HasAVX2 {
		return boxMullerAVX2(&vals[0], n, &logQuads, &logWords, &circleQuads)
	}
	return 0
}

//go:noescape
func expAVX2(dst, src *float64, n int, k *[9][lanes]float64) int

//go:noescape
func exp2AVX2(dst, src *float64, n int, k *[9][lanes]float64) int

//go:noescape
func logAVX2(dst, src *float64, n int, k *[9][lanes]float64, w *[7][lanes]uint64) int

//go:noescape
func sincosAVX2(sin, cos, src *float64, n int, k *[19][lanes]float64) int

//go:noescape
func tanhAVX2(dst, src *float64, n int, k *[9][lanes]float64, t *tanhLanes) int

//go:noescape
func boxMullerAVX2(vals *float64, n int, k *[9][lanes]float64, w *[7][lanes]uint64, c *[19][lanes]float64) int

// The constants of the assembly, once for each lane. Its macros name them by their place here.
var expQuads = [...][lanes]float64{
	{expInvLn2N, expInvLn2N, expInvLn2N, expInvLn2N},
	{expShift, expShift, expShift, expShift},
	{expLn2HiN, expLn2HiN, expLn2HiN, expLn2HiN},
	{expLn2LoN, expLn2LoN, expLn2LoN, expLn2LoN},
	{expC0, expC0, expC0, expC0},
	{expC1, expC1, expC1, expC1},
	{expC2, expC2, expC2, expC2},
	{0.5, 0.5, 0.5, 0.5},
	{512, 512, 512, 512},
}

var exp2Quads = [...][lanes]float64{
	{128, 128, 128, 128},
	{expShift, expShift, expShift, expShift},
	{1.0 / 128, 1.0 / 128, 1.0 / 128, 1.0 / 128},
	{exp2C0, exp2C0, exp2C0, exp2C0},
	{exp2C1, exp2C1, exp2C1, exp2C1},
	{exp2C2, exp2C2, exp2C2, exp2C2},
	{exp2C3, exp2C3, exp2C3, exp2C3},
	{exp2C4, exp2C4, exp2C4, exp2C4},
	{512, 512, 512, 512},
}

var logQuads = [...][lanes]float64{
	{logLn2Hi, logLn2Hi, logLn2Hi, logLn2Hi},
	{logLn2Lo, logLn2Lo, logLn2Lo, logLn2Lo},
	{logC0, logC0, logC0, logC0},
	{logC1, logC1, logC1, logC1},
	{logC2, logC2, logC2, logC2},
	{logC3, logC3, logC3, logC3},
	{-0.5, -0.5, -0.5, -0.5},
	{1, 1, 1, 1},
	{0x1p52 + 2048, 0x1p52 + 2048, 0x1p52 + 2048, 0x1p52 + 2048},
}

var logWords = [...][lanes]uint64{
	{logOff, logOff, logOff, logOff},
	{0xfff << 52, 0xfff << 52, 0xfff << 52, 0xfff << 52},
	{logLowBits, logLowBits, logLowBits, logLowBits},
	{2048, 2048, 2048, 2048},
	{0x433 << 52, 0x433 << 52, 0x433 << 52, 0x433 << 52}, // 2^52: its low bits hold an integer
	{logLeastNormal, logLeastNormal, logLeastNormal, logLeastNormal},
	{logInf, logInf, logInf, logInf},
}

var circleQuads = [...][lanes]float64{
	{twoOverPi, twoOverPi, twoOverPi, twoOverPi},
	{piHalf1, piHalf1, piHalf1, piHalf1},
	{piHalf2, piHalf2, piHalf2, piHalf2},
	{piHalf3, piHalf3, piHalf3, piHalf3},
	{32, 32, 32, 32},
	{1.0 / 32, 1.0 / 32, 1.0 / 32, 1.0 / 32},
	{sinC0, sinC0, sinC0, sinC0},
	{sinC1, sinC1, sinC1, sinC1},
	{sinC2, sinC2, sinC2, sinC2},
	{cosC0, cosC0, cosC0, cosC0},
	{cosC1, cosC1, cosC1, cosC1},
	{-0.5, -0.5, -0.5, -0.5},
	{tinyAngle, tinyAngle, tinyAngle, tinyAngle},
	{0x1p20, 0x1p20, 0x1p20, 0x1p20},
	{0x1p-12, 0x1p-12, 0x1p-12, 0x1p-12},
	{expShift, expShift, expShift, expShift},
	{LeastUniform, LeastUniform, LeastUniform, LeastUniform},
	{-2, -2, -2, -2},
	{2 * math.Pi, 2 * math.Pi, 2 * math.Pi, 2 * math.Pi},
}

// tanhLanes are the constants of Tanh beside those of Exp.
type tanhLanes struct {
	numbers [13][lanes]float64
	words   [3][lanes]uint64
}

var tanhQuads = tanhLanes{
	numbers: [...][lanes]float64{
		{tanhC0, tanhC0, tanhC0, tanhC0},
		{tanhC1, tanhC1, tanhC1, tanhC1},
		{tanhC2, tanhC2, tanhC2, tanhC2},
		{tanhC3, tanhC3, tanhC3, tanhC3},
		{tanhC4, tanhC4, tanhC4, tanhC4},
		{tanhC5, tanhC5, tanhC5, tanhC5},
		{tanhC6, tanhC6, tanhC6, tanhC6},
		{tanhC7, tanhC7, tanhC7, tanhC7},
		{tanhSmall, tanhSmall, tanhSmall, tanhSmall},
		{0x1p-28, 0x1p-28, 0x1p-28, 0x1p-28},
		{20, 20, 20, 20},
		{1, 1, 1, 1},
		{2, 2, 2, 2},
	},
	words: [...][lanes]uint64{
		{127, 127, 127, 127},
		{1023 << 52, 1023 << 52, 1023 << 52, 1023 << 52},
		{^uint64(halfBits), ^uint64(halfBits), ^uint64(halfBits), ^uint64(halfBits)},
	},
}

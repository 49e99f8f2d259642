//go:build race

package ptxvm

// This file implements the question whether Go's race detector is on: it would report the races of kernels as ours.

const raceDetector = true

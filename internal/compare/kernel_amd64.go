//go:build !purego

// This file implements the choice of kernels on amd64.

package compare

import "golang.org/x/sys/cpu"

// quickLanes is how many elements one round of the assembly takes.
const quickLanes = 8

// quick32x64 is quick32x64Go; the assembly takes whole rounds, the rest is done in Go.
func quick32x64(got []byte, want, bound []float64, s *quickState, odd []uint64) {
	n := len(want) &^ (quickLanes - 1)
	if !cpu.X86.HasAVX2 || n == 0 {
		quick32x64Go(got, want, bound, s, odd)
		return
	}
	_, _, _ = got[4*len(want)-1], bound[len(want)-1], odd[(len(want)-1)/64]
	odd[len(odd)-1] = 0
	quick32x64AVX2(&got[0], &want[0], &bound[0], n, s, &odd[0])
	if n < len(want) {
		var rest [1]uint64
		quick32x64Go(got[4*n:], want[n:], bound[n:], s, rest[:])
		odd[n/64] |= rest[0] << (n % 64)
	}
}

// quick32x32 is quick32x32Go; the assembly takes whole rounds, the rest is done in Go.
func quick32x32(got, want []byte, s *quickState, odd []uint64) {
	n := len(want) / 4 &^ (quickLanes - 1)
	if !cpu.X86.HasAVX2 || n == 0 {
		quick32x32Go(got, want, s, odd)
		return
	}
	_, _ = got[len(want)-1], odd[(len(want)/4-1)/64]
	odd[len(odd)-1] = 0
	quick32x32AVX2(&got[0], &want[0], n, s, &odd[0])
	if 4*n < len(want) {
		var rest [1]uint64
		quick32x32Go(got[4*n:], want[4*n:], s, rest[:])
		odd[n/64] |= rest[0] << (n % 64)
	}
}

// sweep32 is sweep32Go; the assembly takes whole rounds, the rest is done in Go.
func sweep32(got []byte, want, bound, diff []float64, s *sweepState, odd []uint64) {
	n := len(want) &^ (quickLanes - 1)
	if !cpu.X86.HasAVX2 || n == 0 {
		sweep32Go(got, want, bound, diff, s, odd)
		return
	}
	_, _, _ = got[4*len(want)-1], bound[len(want)-1], odd[(len(want)-1)/64]
	_ = diff[len(want)-1]
	odd[len(odd)-1] = 0
	sweep32AVX2(&got[0], &want[0], &bound[0], &diff[0], n, s, &odd[0])
	if n < len(want) {
		var rest [1]uint64
		sweep32Go(got[4*n:], want[n:], bound[n:], diff[n:], s, rest[:])
		odd[n/64] |= rest[0] << (n % 64)
	}
}

// sweep32AVX2 sweeps n elements, a multiple of quickLanes, and writes n/8 bytes to odd.
//
//go:noescape
func sweep32AVX2(got *byte, want, bound, diff *float64, n int, s *sweepState, odd *uint64)

// quick32x64AVX2 compares n elements, a multiple of quickLanes, and writes n/8 bytes to odd.
//
//go:noescape
func quick32x64AVX2(got *byte, want, bound *float64, n int, s *quickState, odd *uint64)

// quick32x32AVX2 compares n elements, a multiple of quickLanes, and writes n/8 bytes to odd.
//
//go:noescape
func quick32x32AVX2(got, want *byte, n int, s *quickState, odd *uint64)

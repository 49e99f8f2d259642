//go:build !amd64 || purego

// This file implements the choice of kernels where there is no assembly.

package compare

func quick32x64(got []byte, want, bound []float64, s *quickState, odd []uint64) {
	quick32x64Go(got, want, bound, s, odd)
}

func quick32x32(got, want []byte, s *quickState, odd []uint64) {
	quick32x32Go(got, want, s, odd)
}

func sweep32(got []byte, want, bound, diff []float64, s *sweepState, odd []uint64) {
	sweep32Go(got, want, bound, diff, s, odd)
}

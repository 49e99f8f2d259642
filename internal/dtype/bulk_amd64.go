//go:build !purego

package dtype

// This file implements the choice of kernels on amd64.

// groupElems is how many elements the assembly takes at a time.
const groupElems = 8

// widenAll sets the elements of the first groups of dst to those of float32 in src, and returns how many those are.
func widenAll(dst []float64, src []byte) int {
	n := len(dst) &^ (groupElems - 1)
	if n > 0 {
		_ = src[4*n-1]
		widenGroups(&dst[0], &src[0], n)
	}
	return n
}

// narrowAll sets the elements of the first groups of dst, as float32, to those of src, and returns how many those are.
func narrowAll(dst []byte, src []float64) int {
	n := len(src) &^ (groupElems - 1)
	if n > 0 {
		_ = dst[4*n-1]
		narrowGroups(&dst[0], &src[0], n)
	}
	return n
}

// widenGroups converts n elements, a multiple of groupElems that is not 0.
//
//go:noescape
func widenGroups(dst *float64, src *byte, n int)

// narrowGroups converts n elements, a multiple of groupElems that is not 0.
//
//go:noescape
func narrowGroups(dst *byte, src *float64, n int)

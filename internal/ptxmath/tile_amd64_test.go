//go:build !purego

package ptxmath

import "testing"

// withoutAVX2 makes tiles use the loops of every processor until the test ends.
func withoutAVX2(t *testing.T) {
	kept := hasAVX2
	hasAVX2 = false
	t.Cleanup(func() { hasAVX2 = kept })
}

// quickTiles reports whether this processor has products of its own for registers of a warp.
func quickTiles() bool { return hasAVX2 }

//go:build !amd64 || purego

package ptxmath

import "testing"

// withoutAVX2 has nothing to do: these are the loops of every processor.
func withoutAVX2(*testing.T) {}

// quickTiles reports whether this processor has products of its own for registers of a warp.
func quickTiles() bool { return false }

// This file implements skipping under the race detector.

//go:build race

package testkit

import "testing"

// RaceDetector reports whether the race detector is on.
const RaceDetector = true

// ValuesOnly skips t under the race detector, which makes it ten times as slow. It is for tests of what is computed or
// stored, where another test of the package, which is not skipped, runs the same code in several goroutines.
func ValuesOnly(t testing.TB) {
	t.Helper()
	t.Skip("about values, not goroutines: make unit runs it")
}

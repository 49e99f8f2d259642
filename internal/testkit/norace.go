// This file implements running everything without the race detector.

//go:build !race

package testkit

import "testing"

// RaceDetector reports whether the race detector is on.
const RaceDetector = false

// ValuesOnly does nothing without the race detector; see race.go.
func ValuesOnly(testing.TB) {}

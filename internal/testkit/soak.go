package testkit

import (
	"os"
	"strconv"
	"testing"
)

// This file implements how much a soak does.

// Soak is how many inputs, cases or rounds GPUEMU_SOAK asks for (make soak and its like), else quick.
func Soak(t testing.TB, quick int) int {
	t.Helper()
	text := os.Getenv("GPUEMU_SOAK")
	if text == "" {
		return quick
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("GPUEMU_SOAK is %q, want a number of at least 1", text)
	}
	return n
}

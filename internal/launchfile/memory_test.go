package launchfile

import (
	"testing"

	"gpuemu/internal/diag"
)

// TestParseMemory: amounts of memory with all units, and what is none.
func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "4096": 4096, "7B": 7, "2k": 2048, "3 MiB": 3 << 20,
		"512M": 512 << 20, "6GiB": 6 << 30, "6gb": 6 << 30} {
		if got, err := ParseMemory(text); got != want || err != nil {
			t.Errorf("ParseMemory(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "0", "-1", "1.5GiB", "1TiB", "9999999999GiB", "1 2", "6Gi"} {
		if got, err := ParseMemory(text); diag.CodeOf(err) != BadSize {
			t.Errorf("ParseMemory(%q) = %d, %v, want %s", text, got, err, BadSize)
		}
	}
}

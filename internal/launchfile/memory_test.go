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

// TestFormatMemory: what is written is read as the same amount, or as one that differs by less than a thousandth.
func TestFormatMemory(t *testing.T) {
	for bytes, want := range map[int64]string{1: "1B", 1000: "1000B", 1024: "1KiB", 1500: "1500B", 600 << 20: "600MiB",
		6 << 30: "6GiB", 12638363648: "12052MiB", 1<<40 + 1: "1024GiB"} {
		got := FormatMemory(bytes)
		back, err := ParseMemory(got)
		if got != want || err != nil || back > bytes || bytes-back > bytes/1000 {
			t.Errorf("FormatMemory(%d) = %q, read as %d, %v, want %q", bytes, got, back, err, want)
		}
	}
}

package launchfile

import (
	"math"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements amounts of memory as people write them.

// memoryUnits are the units of amounts of memory, in bytes. KB and the like are the same as KiB: nobody means 10⁹ bytes
// of memory.
var memoryUnits = map[string]int64{"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20,
	"mb": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30}

// ParseMemory reads an amount of memory such as 6GiB, 512M or 1073741824, and returns bytes.
func ParseMemory(text string) (int64, error) {
	digits := strings.TrimRight(text, "BKMGbkmgi ")
	unit, known := memoryUnits[strings.ToLower(strings.TrimSpace(text[len(digits):]))]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 1 || n > math.MaxInt64/unit {
		return 0, diag.Errorf(BadSize, "write 6GiB, 512MiB or a number of bytes", "%q is no amount of memory", text)
	}
	return n * unit, nil
}

// FormatMemory writes an amount of memory as ParseMemory reads it, in the largest unit that leaves a whole number of
// three digits or more.
func FormatMemory(bytes int64) string {
	unit := 0
	names := []string{"B", "KiB", "MiB", "GiB"}
	for unit < len(names)-1 && (bytes >= 1000<<10 || bytes >= 1<<10 && bytes%(1<<10) == 0) {
		bytes >>= 10
		unit++
	}
	return strconv.FormatInt(bytes, 10) + names[unit]
}

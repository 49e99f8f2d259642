package emulation

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"
)

// machineMemory is how much memory the process may use, in bytes: what the machine has, less what a container or a
// resource limit takes away. 0 where it is not known.
func machineMemory() int64 {
	least := int64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if n, _ := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); n == 1 {
			least = kib << 10
		}
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil { // "max" is no number
			least = min(least, n)
		}
	}
	for _, resource := range []int{syscall.RLIMIT_AS, syscall.RLIMIT_DATA} {
		var limit syscall.Rlimit
		if syscall.Getrlimit(resource, &limit) == nil && limit.Cur < uint64(least) {
			least = int64(limit.Cur)
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

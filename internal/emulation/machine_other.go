//go:build !linux

package emulation

// machineMemory is how much memory the process may use, in bytes: not known here.
func machineMemory() int64 { return 0 }

//go:build !amd64 || purego

package ptxvm

// bestLoops has the loops that every processor can execute.
func bestLoops() *loops { return &goLoops }

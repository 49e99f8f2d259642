package tensor

// This file implements reading a file through a memory map.

import (
	"fmt"
	"os"
	"syscall"
)

// mapFile returns the content of a regular file and a function that releases it. The map is private and writable:
// a write to a tensor copies its page instead of ending the program, and never reaches the file.
func mapFile(path string) ([]byte, func() error, error) {
	// O_NONBLOCK: opening a pipe that nobody writes to must fail below and not hang here.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // the map stays valid
	size, err := statRegular(f)
	if err != nil {
		return nil, nil, err
	}
	if size == 0 {
		return nil, func() error { return nil }, nil // the system maps no empty range
	}
	if int64(int(size)) != size {
		return nil, nil, fmt.Errorf("%s: %d bytes do not fit in the address space", path, size)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, nil, &os.PathError{Op: "mmap", Path: path, Err: err}
	}
	return b, func() error { return syscall.Munmap(b) }, nil
}

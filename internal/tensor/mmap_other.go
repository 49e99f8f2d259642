//go:build !unix || aix || solaris || illumos

package tensor

// This file implements reading a file where no memory map is at hand.

import (
	"fmt"
	"io"
	"os"
)

// maxReadFile is the largest file that is read into memory: a tensor of the largest size and a full header.
const maxReadFile = MaxBytes + MaxSafetensorsHeader + 8

// mapFile returns the content of a regular file and a function that releases it.
func mapFile(path string) ([]byte, func() error, error) {
	// Asked by name first: opening a pipe that nobody writes to would wait.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, nil, errNotRegular(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	size, err := statRegular(f)
	if err != nil {
		return nil, nil, err
	}
	if size > maxReadFile {
		return nil, nil, fmt.Errorf("%s: %d bytes are over the limit of %d", path, size, int64(maxReadFile))
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, nil, err
	}
	return b, func() error { return nil }, nil
}

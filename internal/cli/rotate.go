package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// This file implements the daemon's log file, which is rotated by size.

// Sizes of the log: what a person may want to look at, and no more than 20 MiB of a user's disk.
const (
	maxLogBytes = 5 << 20
	maxLogFiles = 4
)

// rotating is a log file that is renamed to FILE.1 when it is full; older ones move on and the oldest is removed.
type rotating struct {
	mu    sync.Mutex
	path  string
	limit int64
	keep  int // files in all
	file  *os.File
	size  int64
}

func openRotating(path string, limit int64, keep int) (*rotating, error) {
	r := &rotating{path: path, limit: limit, keep: keep}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return r, r.open()
}

func (r *rotating) open() error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	r.file, r.size = f, info.Size()
	return nil
}

// Write appends p, after rotating where it would not fit. A record is never split over two files.
func (r *rotating) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size > 0 && r.size+int64(len(p)) > r.limit {
		if err := r.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := r.file.Write(p)
	r.size += int64(n)
	return n, err
}

func (r *rotating) rotate() error {
	if err := r.file.Close(); err != nil {
		return err
	}
	for i := r.keep - 1; i >= 1; i-- {
		from := r.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", r.path, i-1)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", r.path, i)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return r.open()
}

// Close closes the file.
func (r *rotating) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}

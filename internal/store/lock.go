package store

// This file implements locks of files.

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file until it is closed or the process ends.
func lockFile(f *os.File) error {
	_, err := flock(f, syscall.LOCK_EX)
	return err
}

// locked reports whether a process holds the lock of a file.
func locked(f *os.File) (bool, error) {
	got, err := flock(f, syscall.LOCK_SH) // shared, so that two who ask do not see each other
	return !got, err
}

// flock asks for a lock without waiting and reports whether it got it.
func flock(f *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return err == nil, err
		}
	}
}

package store

// This file implements who runs a campaign. A process that runs one holds a lock on a file of its own, whose name is
// in the campaign: the system takes the lock away when the process ends, however it does. The number of a process would
// not do: another process may have it by now, and in a container each is number 1.

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// ownerDir is the directory of the locked files in the directory of the store.
const ownerDir = "owners"

// ownerForm is the form of their names.
var ownerForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// own returns the name of the store as the owner of campaigns. Its file is made and locked when it is first asked for.
func (s *Store) own() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		return filepath.Base(s.lock.Name()), nil
	}
	dir := filepath.Join(s.dir, ownerDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fileFault(IOFailed, dir, "lock", err)
	}
	var chance [8]byte
	_, _ = rand.Read(chance[:]) // never fails
	path := filepath.Join(dir, hex.EncodeToString(chance[:]))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", fileFault(IOFailed, path, "lock", err)
	}
	if err := lockFile(f); err != nil {
		return "", errors.Join(fileFault(IOFailed, path, "lock", err), f.Close())
	}
	s.lock = f
	return filepath.Base(path), nil
}

// disown gives the lock up.
func (s *Store) disown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	path := s.lock.Name()
	err := errors.Join(s.lock.Close(), remove(path))
	s.lock = nil
	return err
}

// owns reports whether the owner of a campaign is this store.
func (s *Store) owns(c *Campaign) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock != nil && c.owner == filepath.Base(s.lock.Name())
}

// RunByOther reports whether another store, of this process or another, is running the campaign.
func (s *Store) RunByOther(c *Campaign) (bool, error) {
	if c.State != Running || s.owns(c) || !ownerForm.MatchString(c.owner) {
		return false, nil
	}
	path := filepath.Join(s.dir, ownerDir, c.owner)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fileFault(IOFailed, path, "look at the lock", err)
	}
	defer f.Close()
	running, err := locked(f)
	if err != nil {
		return false, fileFault(IOFailed, path, "look at the lock", err)
	}
	if !running && !s.opt.ReadOnly {
		_ = remove(path) // nobody else will have this name; what stays does no harm
	}
	return running, nil
}

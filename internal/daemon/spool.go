// This file implements what is written completely before any of it is sent.

package daemon

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// spoolMemory is how much of a spool is kept in memory, so that reports of usual size need no disk.
const spoolMemory = 4 << 20

// spool keeps what is written to it, in memory and, beyond spoolMemory, in a file without a name.
type spool struct {
	dir    string
	memory bytes.Buffer
	file   *os.File // nil as long as memory is enough
	size   int64
}

// Write implements io.Writer.
func (s *spool) Write(b []byte) (int, error) {
	if s.file == nil && s.memory.Len()+len(b) <= spoolMemory {
		s.size += int64(len(b))
		return s.memory.Write(b)
	}
	if s.file == nil {
		if err := s.toFile(); err != nil {
			return 0, fmt.Errorf("spool: %w", err)
		}
	}
	n, err := s.file.Write(b)
	s.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("spool: %w", err)
	}
	return n, nil
}

// toFile moves what is in memory to a file.
func (s *spool) toFile() error {
	f, err := os.CreateTemp(s.dir, "spool-*")
	if err != nil {
		return err
	}
	s.file = f
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	_, err = f.Write(s.memory.Bytes())
	s.memory = bytes.Buffer{}
	return err
}

// reader reads what was written, from its beginning. It may be called again.
func (s *spool) reader() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.memory.Bytes())
	}
	return io.NewSectionReader(s.file, 0, s.size)
}

// close releases the file.
func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close() // nobody reads it any more
	}
}

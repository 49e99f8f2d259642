//go:build unix

package runner

// This file implements capture: the last bytes of what a process prints.

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// maxDrain is how much drain reads at most: far more than a pipe holds, so that it ends although the process goes on.
const maxDrain = 1 << 20

// capture reads a pipe until its end and keeps the tail. One goroutine reads; drain reads too, for the caller that must
// know what was printed up to now. Both read under mu, so that the bytes stay in order.
type capture struct {
	file *os.File
	conn syscall.RawConn
	keep int
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	scratch []byte // guarded by mu, as all below
	buf     []byte // at most 2*keep bytes
	dropped int64  // bytes before those in buf
}

// newCapture starts reading f, which it owns.
func newCapture(f *os.File, keep int) (*capture, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &capture{file: f, conn: conn, keep: keep, done: make(chan struct{}), scratch: make([]byte, 16<<10)}
	go c.loop()
	return c, nil
}

func (c *capture) loop() {
	defer close(c.done)
	for {
		end := false
		err := c.conn.Read(func(fd uintptr) bool {
			n, again := c.read(fd)
			end = n <= 0 && !again
			return !again
		})
		if err != nil || end {
			return
		}
	}
}

// read reads once; again says that there is nothing now.
func (c *capture) read(fd uintptr) (n int, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		n, err := syscall.Read(int(fd), c.scratch)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return 0, true
		}
		if n > 0 {
			c.add(c.scratch[:n])
		}
		return n, false
	}
}

func (c *capture) add(b []byte) {
	c.buf = append(c.buf, b...)
	if extra := len(c.buf) - c.keep; len(c.buf) > 2*c.keep {
		c.buf = append(c.buf[:0], c.buf[extra:]...)
		c.dropped += int64(extra)
	}
}

// drain reads what is in the pipe now.
func (c *capture) drain() {
	_ = c.conn.Control(func(fd uintptr) { // fails when closed: then all was read
		for total := 0; total < maxDrain; {
			n, again := c.read(fd)
			if again || n <= 0 {
				return
			}
			total += n
		}
	})
}

// reset forgets what was printed.
func (c *capture) reset() {
	c.drain()
	c.mu.Lock()
	c.buf, c.dropped = c.buf[:0], 0
	c.mu.Unlock()
}

// text returns the tail of what was printed since reset.
func (c *capture) text() string {
	c.drain()
	c.mu.Lock()
	defer c.mu.Unlock()
	tail, dropped := c.buf, c.dropped
	if extra := len(tail) - c.keep; extra > 0 {
		tail, dropped = tail[extra:], dropped+int64(extra)
	}
	text := strings.ToValidUTF8(string(tail), "\uFFFD")
	if dropped > 0 {
		text = fmt.Sprintf("... (%d bytes before this are not kept)\n%s", dropped, text)
	}
	return text
}

// close ends the reading and waits for the goroutine.
func (c *capture) close() {
	c.file.Close()
	<-c.done
}

// This file implements parts, in which cases go out and outputs come in: the length of a JSON header, the header, the
// length of a safetensors image, the image.

package daemon

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"gpuemu/internal/diag"
	"gpuemu/internal/tensor"
)

const (
	// maxTensors is the largest image of one request: as much as one tensor may have.
	maxTensors = tensor.MaxBytes
	// usualRoom is how many bytes requests may hold at once where nobody knows what the machine has.
	usualRoom = 2 * maxTensors
	// eagerImage is how much of an image is allocated before any of it has arrived. What is larger grows with what
	// arrives, so that a length that lies costs nothing.
	eagerImage = 64 << 20
	// eagerHeader is the same for headers, of which most have some hundred bytes.
	eagerHeader = 64 << 10
)

// counter counts bytes.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// writePart writes a header and its image.
func writePart(w io.Writer, header any, tensors []tensor.Named) error {
	head, _, err := partHead(header, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	return tensor.WriteSafetensors(w, tensors, nil)
}

// partHead returns what stands before the image of a part, and the length of the image, which is counted and not kept.
func partHead(header any, tensors []tensor.Named) (head []byte, image int64, err error) {
	text, err := marshal(header)
	if err != nil {
		return nil, 0, err
	}
	var size counter
	if err := tensor.WriteSafetensors(&size, tensors, nil); err != nil {
		return nil, 0, err
	}
	head = append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
	return binary.LittleEndian.AppendUint64(head, uint64(size.n)), size.n, nil
}

// readHeader reads the header of a part; nil means the end.
func readHeader(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	switch {
	case n == 0:
		return nil, nil
	case n > maxJSON:
		return nil, diag.Errorf(TooLarge, "", "a header has %d bytes, at most %d are allowed", n, maxJSON)
	}
	return readGrowing(r, make([]byte, min(n, eagerHeader)), int(n))
}

// readImage reads the image of a part. admit is asked before anything is allocated.
func readImage(r io.Reader, admit func(n int64) error) ([]byte, error) {
	var size [8]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > maxTensors {
		return nil, diag.Errorf(TooLarge, "use smaller tensors", "an image has %d bytes, at most %d are allowed", n,
			uint64(maxTensors))
	}
	if err := admit(int64(n)); err != nil {
		return nil, err
	}
	return readGrowing(r, newImage(min(int(n), eagerImage)), int(n))
}

// readGrowing reads n bytes into a buffer that grows with what has arrived.
func readGrowing(r io.Reader, buf []byte, n int) ([]byte, error) {
	for got := 0; ; {
		if _, err := io.ReadFull(r, buf[got:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if got = len(buf); got == n {
			return buf, nil
		}
		grown := make([]byte, min(n, 4*got))
		copy(grown, buf)
		buf = grown
	}
}

// images is memory of images that are done with. To get and clear new memory takes longer than to read into it.
var images sync.Pool

// maxPooled bounds what is kept of one image.
const maxPooled = 16 << 20

// newImage returns memory for an image, with anything in it.
func newImage(n int) []byte {
	if n == 0 {
		return nil
	}
	if b, _ := images.Get().(*[]byte); b != nil && cap(*b) >= n {
		return (*b)[:n]
	}
	return make([]byte, n)
}

// freeImage gives the memory of an image back, which nobody may use any more.
func freeImage(b []byte) {
	if cap(b) > 0 && cap(b) <= maxPooled {
		images.Put(&b)
	}
}

// room is how many bytes requests may hold at once: what launches on the CPU may, half of what the process may use.
func (s *Server) room() int64 {
	if n := s.engine.Pool.Total(); n > 0 {
		return n
	}
	return usualRoom
}

// hold counts the bytes that requests hold, before they are allocated; drop must be called with the same number.
func (s *Server) hold(n int64) error {
	room := s.room()
	if n > room {
		return diag.Errorf(TooLarge, "use smaller tensors, or a larger machine",
			"the request needs %d bytes of memory, all requests together may use %d on this machine", n, room)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held > room-n {
		return diag.Errorf(Busy, "try again when others are done",
			"the request needs %d bytes of memory, others use %d of %d", n, s.held, room)
	}
	s.held += n
	return nil
}

// lend is hold with a function that drops, once.
func (s *Server) lend(n int64) (release func(), err error) {
	if err := s.hold(n); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { s.drop(n) }), nil
}

func (s *Server) drop(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= n
}

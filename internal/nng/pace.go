package nng

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// Patience is how long a peer may send nothing in the middle of a message. Local peers never stop; one on another
	// machine that waits for longer has lost its network.
	Patience = 30 * time.Second
	// MinRate is how many bytes a second a peer has to send in the long run: slower than any network that a kernel's
	// tensors are sent over, and faster than a peer that wants to hold a connection.
	MinRate = 16 << 10
)

// ErrTooSlow means that a peer began a message and does not go on with it.
var ErrTooSlow = errors.New("the peer is too slow")

// Pace limits how long the rest of a message may take: a peer has a time to spend, each byte earns some, and it never
// has more than the Pace began with. An upload of any size takes as long as it takes while it moves; one that stops, or
// trickles, ends. Time that the reader does not wait costs nothing. It is not safe for concurrent use.
type Pace struct {
	most, left time.Duration
	deadline   func(time.Time) error
}

// NewPace begins a message. deadline sets the read deadline of the connection, the zero time for none.
func NewPace(patience time.Duration, deadline func(time.Time) error) *Pace {
	return &Pace{most: patience, left: patience, deadline: deadline}
}

// Read reads once from r, within the time that is left. The deadline stays set. The error of a peer that is late is
// ErrTooSlow.
func (p *Pace) Read(r io.Reader, b []byte) (int, error) {
	start := time.Now()
	if err := p.deadline(start.Add(p.left)); err != nil {
		return 0, err
	}
	n, err := r.Read(b)
	p.left += time.Duration(n)*(time.Second/MinRate) - time.Since(start)
	p.left = min(max(p.left, 0), p.most)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: less than %d bytes a second, or none for %v", ErrTooSlow, MinRate, p.most)
	}
	return n, err
}

// End clears the deadline at the end of a message.
func (p *Pace) End() error { return p.deadline(time.Time{}) }

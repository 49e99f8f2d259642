package nng

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A peer that stops in the middle of a message, or trickles, loses its connection. One that moves may take for ever,
// and between two messages nobody hurries it.
func TestPace(t *testing.T) {
	const patience = 10 * time.Second
	opt := Options{Patience: patience}
	same := func(_ context.Context, body []byte) []byte { return body }
	length := binary.BigEndian.AppendUint64([]byte{frameMessage}, uint64(len(id1)+4*MinRate))
	message := string(length) + id1 + strings.Repeat("x", 4*MinRate)
	synctest.Test(t, func(t *testing.T) {
		p := start(t, same, opt)
		p.send(message[:3])
		time.Sleep(patience + time.Second)
		p.end(ErrTooSlow) // half a head

		p = start(t, same, opt)
		began := time.Now()
		for i := 0; ; i++ {
			if _, err := p.Write([]byte(message[i : i+1])); err != nil {
				break // a byte a second
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 2*patience {
			t.Errorf("a peer that trickles was served for %v, want about %v", took, patience)
		}
		p.end(ErrTooSlow)

		p = start(t, same, opt)
		time.Sleep(time.Hour) // between messages
		for part := []byte(message); len(part) > 0; part = part[min(len(part), MinRate):] {
			p.send(string(part[:min(len(part), MinRate)]))
			time.Sleep(900 * time.Millisecond)
		}
		p.expect(message)
		p.end(nil)
	})
}

// A message that does not fit is refused by its length, with an answer, before it is read.
func TestAdmit(t *testing.T) {
	full := errors.New("full")
	var asked, released atomic.Int64
	opt := Options{
		Admit: func(n int64) (func(), error) {
			if n > 1<<20 {
				return nil, full
			}
			asked.Add(n)
			return func() { released.Add(n) }, nil
		},
		Refuse: func(err error) []byte { return []byte(err.Error()) },
	}
	p := start(t, func(context.Context, []byte) []byte { return []byte("ok") }, opt)
	p.send(frame(id1, "x"))
	p.expect(frame(id1, "ok"))
	p.send(frame(id1, "x")) // again: answered from memory
	p.expect(frame(id1, "ok"))
	huge := append([]byte{frameMessage}, binary.BigEndian.AppendUint64(nil, 1<<29)...)
	p.send(string(huge) + id2 + "the beginning of half a gigabyte that never comes, which is more than a header has")
	p.expect(frame(id2, "full"))
	p.end(full)
	if asked.Load() != 10 || released.Load() != 10 {
		t.Errorf("%d bytes were admitted and %d released, want 10 of both", asked.Load(), released.Load())
	}
}

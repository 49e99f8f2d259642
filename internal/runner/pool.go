package runner

// This file implements pool: a fixed number of slots, each with a process that is started when first needed.

import (
	"context"
	"errors"
	"sync"
)

// errClosed is what Run returns after Close.
var errClosed = errors.New("the runner is closed")

// resident is a process that serves one call after the other.
type resident interface {
	alive() bool
	close() // ends the process and waits for its end
}

// pool hands out residents. At most one caller has a slot; the slot used last is handed out first, so that no more
// processes are started than are needed at once.
type pool[T resident] struct {
	tokens chan struct{} // one per caller at work

	mu      sync.Mutex
	closed  bool      // guarded by mu, as all below
	idle    []T       // waiting for a caller
	busy    map[int]T // by ticket
	ticket  int
	working sync.WaitGroup
}

func newPool[T resident](slots int) *pool[T] {
	return &pool[T]{tokens: make(chan struct{}, max(slots, 1)), busy: map[int]T{}}
}

// lease is the right to use one slot.
type lease[T resident] struct {
	pool   *pool[T]
	ticket int
	has    bool
	res    T
}

// acquire waits for a free slot. The lease has a resident that is alive, or none.
func (p *pool[T]) acquire(ctx context.Context) (*lease[T], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case p.tokens <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		<-p.tokens
		return nil, errClosed
	}
	p.ticket++
	l := &lease[T]{pool: p, ticket: p.ticket}
	p.working.Add(1)
	var dead []T
	for len(p.idle) > 0 && !l.has {
		last := len(p.idle) - 1
		if r := p.idle[last]; r.alive() {
			l.res, l.has = r, true
			p.busy[l.ticket] = r
		} else {
			dead = append(dead, r)
		}
		p.idle = p.idle[:last]
	}
	p.mu.Unlock()
	for _, r := range dead {
		r.close()
	}
	return l, nil
}

// set gives the slot a new resident. It is ended at once where the pool is closed meanwhile.
func (l *lease[T]) set(r T) error {
	l.pool.mu.Lock()
	closed := l.pool.closed
	if !closed {
		l.res, l.has = r, true
		l.pool.busy[l.ticket] = r
	}
	l.pool.mu.Unlock()
	if closed {
		r.close()
		return errClosed
	}
	return nil
}

// drop ends the resident.
func (l *lease[T]) drop() {
	if !l.has {
		return
	}
	l.pool.mu.Lock()
	delete(l.pool.busy, l.ticket)
	l.pool.mu.Unlock()
	l.res.close()
	l.has = false
}

// release gives the slot back.
func (l *lease[T]) release() {
	p := l.pool
	p.mu.Lock()
	delete(p.busy, l.ticket)
	end := false
	if l.has {
		if end = p.closed || !l.res.alive(); !end {
			p.idle = append(p.idle, l.res)
		}
	}
	p.mu.Unlock()
	if end {
		l.res.close()
	}
	p.working.Done()
	<-p.tokens
}

// isClosed reports whether close was called.
func (p *pool[T]) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// close ends all residents and waits for the callers at work: until they notice that their resident is gone (endBusy),
// or until whoever closes has made them stop by other means.
func (p *pool[T]) close(endBusy bool) {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	busy := make([]T, 0, len(p.busy))
	for _, r := range p.busy {
		busy = append(busy, r)
	}
	p.mu.Unlock()
	for _, r := range idle {
		r.close()
	}
	if endBusy {
		for _, r := range busy {
			r.close()
		}
	}
	p.working.Wait()
}

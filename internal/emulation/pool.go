package emulation

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptxvm"
)

// This file implements the memory that launches of one process share.

// Pool is the memory for all launches of a process, in bytes. A launch begins when there is room for the most that it
// can need, in the order of requests: launches at the same time cannot use up the machine together. A nil Pool has no
// limit. It is safe for concurrent use.
type Pool struct {
	total int64
	free  func()                      // gives memory back
	later func(time.Duration, func()) // calls a function after some time

	mu      sync.Mutex
	used    int64     // guarded by mu
	garbage int64     // guarded by mu: bytes that large launches have left since memory was last given back
	due     bool      // guarded by mu: memory is about to be given back
	waiting []*waiter // guarded by mu: the oldest first
}

// A process keeps what it has once had until it collects garbage, which one that does nothing does not do, and for some
// time after. So when large launches have ended and none has begun for a while, memory is given back to the system.
// Small ones, thousands of which may come one after the other, do not pay for that: a collection takes a millisecond
// and more.
const (
	largeLaunch = 32 << 20
	quiet       = 300 * time.Millisecond
)

// waiter is a launch that waits for memory.
type waiter struct {
	bytes int64
	ready chan struct{} // closed when the memory is its own
}

// HalfOfMemory is half of what the process may use, in bytes; 0 where that is not known. It is what launches have
// together, and what a candidate has, where nothing else is configured: the other half is for the rest of the machine.
func HalfOfMemory() int64 { return machineMemory() / 2 }

// NewPool returns a pool of some bytes; 0 or less: HalfOfMemory, and no limit where that is not known.
func NewPool(total int64) *Pool {
	if total <= 0 {
		total = HalfOfMemory()
	}
	if total <= 0 {
		return nil
	}
	return &Pool{total: total, free: freeMemory,
		later: func(d time.Duration, f func()) { time.AfterFunc(d, f) }}
}

// Total is how many bytes the pool has; 0: no limit.
func (p *Pool) Total() int64 {
	if p == nil {
		return 0
	}
	return p.total
}

// freeMemory gives memory back. What sync.Pool keeps is garbage in the second collection only.
func freeMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}

// limit is the budget of a launch that asks for one: an error where the pool is smaller. A launch that asks for none
// gets no more than the pool has.
func (p *Pool) limit(asked int64) (int64, error) {
	switch {
	case p == nil:
		return asked, nil
	case asked > p.total:
		return 0, diag.Errorf(ptxvm.MemoryLimit, "use smaller shapes, or a larger machine",
			"a memory limit of %d bytes is asked for; launches on this machine have %d together", asked, p.total)
	case asked == 0:
		return min(ptxvm.UsualMemory, p.total), nil
	}
	return asked, nil
}

// acquire waits until n bytes are free and takes them.
func (p *Pool) acquire(ctx context.Context, n int64) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	if len(p.waiting) == 0 && p.used+n <= p.total {
		p.used += n
		p.mu.Unlock()
		return nil
	}
	w := &waiter{n, make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	select {
	case <-w.ready: // both happened
		p.used -= n
	default:
		for i := range p.waiting {
			if p.waiting[i] == w {
				p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
				break
			}
		}
	}
	p.wake()
	p.mu.Unlock()
	return context.Cause(ctx)
}

// release gives bytes back.
func (p *Pool) release(n int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.used -= n
	p.wake()
	if n >= largeLaunch {
		p.garbage += n
	}
	if p.used == 0 && p.garbage > 0 && !p.due {
		p.due = true
		p.later(quiet, p.giveBack)
	}
	p.mu.Unlock()
}

// giveBack gives memory back to the system unless a launch runs: its end is the next occasion.
func (p *Pool) giveBack() {
	p.mu.Lock()
	p.due = false
	idle := p.used == 0
	if idle {
		p.garbage = 0
	}
	p.mu.Unlock()
	if idle {
		p.free()
	}
}

// wake lets those begin that wait and for whom there is room. p.mu is held.
func (p *Pool) wake() {
	for len(p.waiting) > 0 && p.used+p.waiting[0].bytes <= p.total {
		w := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.used += w.bytes
		close(w.ready)
	}
}

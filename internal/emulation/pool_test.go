package emulation

import (
	"context"
	"errors"
	"testing"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptxvm"
)

// TestPool: launches begin in order when there is room, one that is given up leaves its place, and what is more than
// there is is refused.
func TestPool(t *testing.T) {
	p := NewPool(100)
	if _, err := p.limit(101); diag.CodeOf(err) != ptxvm.MemoryLimit {
		t.Errorf("limit(101) of 100: %v", err)
	}
	if n, err := p.limit(0); n != 100 || err != nil {
		t.Errorf("limit(0) = %d, %v, want 100", n, err)
	}
	if n, err := (*Pool)(nil).limit(7); n != 7 || err != nil {
		t.Errorf("limit(7) of no pool = %d, %v", n, err)
	}
	if err := p.acquire(t.Context(), 60); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	given, second, third := make(chan error), make(chan error), make(chan error)
	waiters := func(n int) {
		for {
			p.mu.Lock()
			there := len(p.waiting)
			p.mu.Unlock()
			if there == n {
				return
			}
		}
	}
	go func() { given <- p.acquire(ctx, 100) }()
	waiters(1)
	go func() { second <- p.acquire(t.Context(), 40) }() // it would fit, but came later
	waiters(2)
	go func() { third <- p.acquire(t.Context(), 50) }()
	waiters(3)
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	p.release(60)
	if err := <-third; err != nil {
		t.Error(err)
	}
	p.release(40)
	p.release(50)
	if p.used != 0 || len(p.waiting) != 0 {
		t.Errorf("%d bytes are used, %d launches wait", p.used, len(p.waiting))
	}
}

// TestGiveBack: memory is given back once after large launches, when none runs; small ones do not ask for it.
func TestGiveBack(t *testing.T) {
	p := NewPool(1 << 30)
	var due []func()
	freed := 0
	p.later = func(_ time.Duration, f func()) { due = append(due, f) }
	p.free = func() { freed++ }
	launch := func(n int64) func() {
		if err := p.acquire(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		return func() { p.release(n) }
	}
	launch(largeLaunch - 1)()
	if len(due) != 0 {
		t.Error("a small launch gives memory back")
	}
	one, two := launch(largeLaunch), launch(1)
	one()
	if len(due) != 0 {
		t.Error("memory is given back while a launch runs")
	}
	two()
	launch(largeLaunch)()
	if len(due) != 1 {
		t.Fatalf("memory is to be given back %d times, want once", len(due))
	}
	end := launch(1)
	due[0]()
	if freed != 0 {
		t.Error("memory is given back while another launch runs")
	}
	end()
	if len(due) != 2 {
		t.Fatalf("%d occasions, want 2", len(due))
	}
	if due[1](); freed != 1 || p.garbage != 0 {
		t.Errorf("memory was given back %d times, want once", freed)
	}
}

package campaign

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
)

// TestKeeper: what comes while something is being stored is stored together, and each request has its own outcome.
func TestKeeper(t *testing.T) {
	const requests = 250
	var k keeper
	var calls []int // rows of each
	bad := errors.New("bad")
	entered, release := make(chan struct{}), make(chan struct{})
	put := func(rows []store.Loose) error {
		if len(calls) == 0 {
			close(entered)
			<-release
		}
		calls = append(calls, len(rows))
		if slices.ContainsFunc(rows, func(l store.Loose) bool { return l.Result.Index == 7 }) {
			return bad
		}
		return nil
	}
	outcomes := make([]error, requests)
	var all sync.WaitGroup
	ask := func(i int) {
		all.Go(func() { outcomes[i] = k.add([]store.Loose{{Result: &verdict.Result{Index: i}}}, put) })
	}
	ask(0)
	<-entered
	for i := 1; i < requests; i++ {
		ask(i)
	}
	for waiting := 0; waiting < requests-1; runtime.Gosched() {
		k.mu.Lock()
		waiting = len(k.waiting)
		k.mu.Unlock()
	}
	close(release)
	all.Wait()
	// One alone, all others together, and because of the bad one each of them by itself.
	if len(calls) != requests+1 || calls[0] != 1 || calls[1] != requests-1 || slices.Max(calls[2:]) != 1 {
		t.Errorf("calls with %v rows", calls)
	}
	for i, err := range outcomes {
		if (i == 7) != (err != nil) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	ask(0)
	all.Wait()
	if n := len(calls); n != requests+2 || calls[n-1] != 1 {
		t.Errorf("a later request: %d calls, the last with %d rows", n, calls[n-1])
	}
}

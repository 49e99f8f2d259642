package campaign

import (
	"context"
	"sync"

	"gpuemu/internal/store"
)

// This file implements how results of clients are stored: those of several requests together. A transaction waits for
// the disk once, whatever it holds, and there is one at a time: with hundreds of clients, each would wait for the disk
// as often as there are others.

// keeper stores results. Its goroutine runs while there is something to store.
type keeper struct {
	mu      sync.Mutex
	working bool       // guarded by mu, as all below
	waiting []*keeping // the oldest first
}

// keeping is what one request stores.
type keeping struct {
	rows []store.Loose
	done chan error // has room for the outcome
}

// add stores rows with f, for good when it returns: all of them or none. What other requests add meanwhile is stored
// in one call with what comes next. It does not end early: the results belong to f until then.
func (k *keeper) add(rows []store.Loose, f func([]store.Loose) error) error {
	own := &keeping{rows: rows, done: make(chan error, 1)}
	k.mu.Lock()
	k.waiting = append(k.waiting, own)
	if !k.working {
		k.working = true
		go k.work(f)
	}
	k.mu.Unlock()
	return <-own.done
}

// work stores what waits until nothing does.
func (k *keeper) work(f func([]store.Loose) error) {
	for {
		k.mu.Lock()
		batch := k.waiting
		k.waiting = nil
		k.working = len(batch) > 0
		k.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		var all []store.Loose
		for _, one := range batch {
			all = append(all, one.rows...)
		}
		err := f(all)
		for _, one := range batch {
			if err != nil && len(batch) > 1 { // nothing of the batch is stored, and one of them may be why
				one.done <- f(one.rows)
				continue
			}
			one.done <- err
		}
	}
}

// Keep stores what is to be stored, all of it in one transaction.
func (e *Engine) Keep(ctx context.Context, list []*Judged) error {
	var rows []store.Loose
	for _, r := range list {
		if r != nil && r.keep {
			rows = append(rows, store.Loose{Result: r.Result, ConfigPath: r.path})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.keeper.add(rows, func(rows []store.Loose) error {
		return e.Store.AddResults(context.WithoutCancel(ctx), rows) // those of others do not end with this request
	})
}

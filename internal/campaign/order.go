package campaign

import (
	"context"
	"maps"
	"slices"
	"sync"

	"gpuemu/internal/verdict"
)

// This file implements the order of results: they come from the workers in any order and leave by position.

// order hands results on in the order of their positions and keeps workers from running too far ahead.
type order struct {
	mu      sync.Mutex
	moved   *sync.Cond // head moved, or the order stopped
	head    int        // position to be handed on next
	waiting map[int]*verdict.Result
	emit    func(*verdict.Result) error // called with mu held
	stopped error                       // first error of emit: nothing is handed on after it
}

func newOrder(emit func(*verdict.Result) error) *order {
	o := &order{waiting: map[int]*verdict.Result{}, emit: emit}
	o.moved = sync.NewCond(&o.mu)
	return o
}

// wait blocks until position is within the window. It returns false when the order stopped or the context ended.
func (o *order) wait(ctx context.Context, position int) bool {
	stop := context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.moved.Broadcast()
	})
	defer stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for position >= o.head+window && o.stopped == nil && ctx.Err() == nil {
		o.moved.Wait()
	}
	return o.stopped == nil && ctx.Err() == nil
}

// put takes a result in. The error is the first that emit returned: after it nothing more is handed on.
func (o *order) put(position int, res *verdict.Result) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting[position] = res
	for o.stopped == nil {
		next, ok := o.waiting[o.head]
		if !ok {
			break
		}
		delete(o.waiting, o.head)
		o.head++
		o.stopped = o.emit(next)
		o.moved.Broadcast()
	}
	return o.stopped
}

// flush hands on, in their order, the results that wait for one that will not come: the run was ended, and its workers
// are gone. The error is the first that emit returned, now or before.
func (o *order) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, position := range slices.Sorted(maps.Keys(o.waiting)) {
		if o.stopped != nil {
			break
		}
		o.stopped = o.emit(o.waiting[position])
	}
	clear(o.waiting)
	return o.stopped
}

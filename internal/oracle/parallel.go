// This file implements the loops over independent elements and rows.

package oracle

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// parallelWork is the least number of elementary steps worth a goroutine; below it a start costs more than it saves.
const parallelWork = 1 << 14

// parallel calls f on ranges that together cover [0, n), each element costing about work steps. Elements must be
// independent: then the result does not depend on how they are split.
func parallel(n, work int, f func(lo, hi int)) {
	workers := min(runtime.GOMAXPROCS(0), max(1, n*max(work, 1)/parallelWork))
	if workers <= 1 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	chunk := max(1, n/(workers*4)) // four ranges a worker even out rows of different cost
	next := make(chan int, (n+chunk-1)/chunk)
	for lo := 0; lo < n; lo += chunk {
		next <- lo
	}
	close(next)
	var fault atomic.Value // a panic of ours reaches the caller, who may be a server that goes on
	serve := func() {
		defer func() {
			if r := recover(); r != nil {
				fault.CompareAndSwap(nil, fmt.Sprintf("%v\n%s", r, debug.Stack()))
			}
		}()
		for lo := range next {
			f(lo, min(n, lo+chunk))
		}
	}
	for range workers - 1 {
		wg.Go(serve)
	}
	serve() // where other cores have work of their own, all of it
	wg.Wait()
	if r := fault.Load(); r != nil {
		panic(r)
	}
}

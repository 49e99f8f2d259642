package oracle

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// Every element is visited once, whether one goroutine has the work or several.
func TestParallelCovers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, n := range []int{0, 1, 3, 7, 64, 1001} {
		for _, work := range []int{0, 1, parallelWork} {
			visits := make([]atomic.Int32, n)
			parallel(n, work, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					visits[i].Add(1)
				}
			})
			for i := range visits {
				if got := visits[i].Load(); got != 1 {
					t.Fatalf("parallel(%d, %d): element %d was visited %d times, want 1", n, work, i, got)
				}
			}
		}
	}
}

// A panic reaches the caller, whoever had it, and not before the others have ended.
func TestParallelPanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var inside atomic.Int32
	for bad := range 16 {
		said := func() (said string) {
			defer func() {
				said = fmt.Sprint(recover())
				if n := inside.Load(); n != 0 {
					t.Errorf("element %d: %d goroutines are still at work", bad, n)
				}
			}()
			parallel(16, parallelWork, func(lo, hi int) {
				inside.Add(1)
				defer inside.Add(-1)
				if lo <= bad && bad < hi {
					panic("broken reference")
				}
				for range 100 {
					runtime.Gosched() // the others overtake it
				}
			})
			return ""
		}()
		if !strings.HasPrefix(said, "broken reference\n") {
			t.Errorf("element %d: the caller got %q", bad, said)
		}
	}
}

package daemon

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gpuemu/internal/dtype"
)

// BenchmarkEmulate launches a small kernel through the socket, again and again, one client or several at a time. The
// metric of one client is the median.
func BenchmarkEmulate(b *testing.B) {
	for _, clients := range []int{1, 4} {
		b.Run(fmt.Sprintf("%d clients", clients), func(b *testing.B) {
			c := newFixture(b).listening(b)
			x := floats("x", dtype.Float32, 1, 2, 3)
			once := func() time.Duration {
				start := time.Now()
				if doc, _, err := emulated(b.Context(), b, c, launchOf("3"), x); err != nil || doc.Status != "passed" {
					b.Errorf("%+v, %v", doc, err)
				}
				return time.Since(start)
			}
			once()
			var took []time.Duration
			for b.Loop() {
				if clients == 1 {
					took = append(took, once())
					continue
				}
				var all sync.WaitGroup
				for range clients {
					all.Go(func() { once() })
				}
				all.Wait()
			}
			if clients == 1 {
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-µs")
			}
		})
	}
}

package policy

import (
	"context"
	"fmt"
	"testing"

	"gpuemu/internal/forge"
	"gpuemu/internal/receipt"
)

// BenchmarkCheck: 5,000 tests over 20,000 files.
func BenchmarkCheck(b *testing.B) {
	w := newWorld(b)
	for i := range 20000 {
		write(b, w.dir, fmt.Sprintf("src/d%d/f%d.py", i%100, i), fmt.Sprintf("x = %d\n", i))
	}
	w.commit(b, "many")
	d := w.draft()
	for i := range 5000 {
		id := fmt.Sprintf("tests/test_k.py::test_many[%d]", i)
		d.results.Collected = append(d.results.Collected, id)
		d.results.Tests = append(d.results.Tests, receipt.Test{ID: id, Outcome: receipt.Passed, Seconds: 0.1})
	}
	file := d.seal(b)
	for b.Loop() {
		r, err := receipt.Parse("x", file)
		if err != nil {
			b.Fatal(err)
		}
		if got := Check(context.Background(), Inputs{Receipt: r, Repo: w.repo, Rules: aliceMay(),
			Keys: forge.Folder(w.keys), Now: worldClock}); !got.Accepted {
			b.Fatal(got.Refusals)
		}
	}
}

package ptx

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuemu/internal/testkit"
)

// mutant is a text with a few changes: bytes and lines that go, come twice, change places or come from elsewhere.
func mutant(r *rand.Rand, src string, parts []string) string {
	const strange = " \n\"'.:;,[]{}()<>@!%$_-+/*#\x00\xff0"
	text := []byte(src)
	for range 1 + r.IntN(4) {
		if len(text) == 0 {
			break
		}
		at := r.IntN(len(text))
		end := min(len(text), at+1+r.IntN(1<<r.IntN(8)))
		other := parts[r.IntN(len(parts))]
		switch r.IntN(8) {
		case 0:
			text[at] ^= 1 << r.IntN(8)
		case 1:
			text[at] = strange[r.IntN(len(strange))]
		case 2:
			text = slices.Delete(text, at, end)
		case 3:
			text = slices.Insert(text, at, text[at:end]...)
		case 4:
			text = slices.Insert(text, at, []byte(other)...)
		case 5:
			text = slices.Replace(text, at, end, []byte(other)...)
		case 6:
			text = text[:at]
		case 7:
			text = slices.Insert(text, at, []byte(strings.Repeat(other[:1], 1+r.IntN(300)))...)
		}
	}
	return string(text)
}

// lines of all fixtures, and some words that fixtures do not have.
func pieces(files map[string]string) []string {
	set := map[string]bool{".version 8.0\n": true, "@@DWARF x\n": true, ".b8 9999999999999999999999": true, "/*": true,
		"%r<2147483647>": true, "1<<63": true, "0d7FF0000000000000": true, ".section .x {": true, "::": true}
	for _, src := range files {
		for line := range strings.Lines(src) {
			set[line] = true
		}
	}
	list := make([]string, 0, len(set))
	for line := range set {
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

// TestMutatedModules: whatever the text, the parser and the printer end, soon, without a panic, and with memory in
// proportion to the text. GPUEMU_SOAK=10000000 is what make soak-parsers runs.
func TestMutatedModules(t *testing.T) {
	const largest = 6 << 10 // bytes: the limit keeps ten million inputs within minutes
	files := fixtures(t)
	var sources []string
	for _, src := range files {
		if len(src) <= largest {
			sources = append(sources, src)
		}
	}
	slices.Sort(sources)
	parts := pieces(files)
	total := testkit.Soak(t, 5000)
	workers := runtime.GOMAXPROCS(0)
	var valid, worst atomic.Int64
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for i := w; i < total; i += workers {
				text := mutant(r, sources[r.IntN(len(sources))], parts)
				start := time.Now()
				f, err := Parse("m.ptx", text)
				if err == nil {
					valid.Add(1)
					if _, err := Parse("m.ptx", f.String()); err != nil {
						t.Errorf("what is printed does not parse: %v\n%s", err, text)
					}
				}
				if took := int64(time.Since(start)); took > worst.Load() {
					worst.Store(took)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
	group.Wait()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t.Logf("%d mutants of %d files, %d parse; the slowest took %v, the heap has %d MB", total, len(sources), valid.Load(),
		time.Duration(worst.Load()).Round(time.Millisecond), mem.HeapSys>>20)
	if limit := 2 * time.Second; time.Duration(worst.Load()) > limit { // a text of 6 kB takes 0.1 ms
		t.Errorf("a mutant took %v", time.Duration(worst.Load()))
	}
	if mem.HeapSys > 1<<30 {
		t.Errorf("the heap has grown to %d MB", mem.HeapSys>>20)
	}
}

package ptxvm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gpuemu/internal/diag"
)

// TestStateBytes keeps the size by which memory is counted.
func TestStateBytes(t *testing.T) {
	if size := reflect.TypeFor[markColumn]().Size(); size != columnBytes {
		t.Errorf("a column has %d bytes, not %d", size, columnBytes)
	}
}

// TestApart proves that with all checks the number of workers cannot be seen, whether blocks are apart or not: in
// memory, in findings and how often they were made, in the number of instructions.
func TestApart(t *testing.T) {
	programs, between := 600, 0
	if testing.Short() {
		programs = 60
	}
	for seed := range uint64(programs) {
		text := accessProgram(seed)
		p := loadText(t, text)
		var want [][]byte
		var said string
		for _, workers := range []int{1, 2, 3} {
			l := accessLaunch()
			l.Workers, l.dealt = workers, seed%2 == 0 // else whoever is free takes the next block
			got, says := outcome(t, p, l)
			if workers == 1 {
				want, said = got, says
			}
			if !reflect.DeepEqual(got, want) || says != said {
				t.Fatalf("seed %d: %d workers leave something else:\n%s\none:\n%s\n%s", seed, workers, says, said, text)
			}
		}
		g, err := p.newGrid(accessLaunch(), order{})
		if err != nil {
			t.Fatal(err)
		}
		g.apart = true
		if workers := g.execute(1); g.wrong.Load() || g.overlap(workers) {
			between++
		}
	}
	if between == 0 || between == programs {
		t.Errorf("%d programs of %d have races between blocks", between, programs)
	}
}

// TestApartRuns proves for sound kernels that blocks are apart, for racing ones that they are not, and that memory is
// then as it was before.
func TestApartRuns(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		role Role // of x
		done bool
	}{
		"own elements":         {"ld.global.u32 %r10, [%rd11]; st.global.u32 [%rd12], %r10;", In, true},
		"one element for all":  {"ld.global.u32 %r10, [%rd1]; st.global.u32 [%rd12], %r10;", InOut, true},
		"atomic operations":    {"red.global.add.u32 [%rd1], 1;", InOut, true},
		"tickets":              {"atom.global.add.u32 %r10, [%rd2], 1; st.global.u32 [%rd13], %r10;", In, true},
		"tickets of an input":  {"atom.global.add.u32 %r10, [%rd1], 1; st.global.u32 [%rd13], %r10;", In, false},
		"an input is written":  {"st.global.u32 [%rd11], %r2;", In, false},
		"an input is added to": {"red.global.add.u32 [%rd11], %r2;", In, false},
		"next element":         {"st.global.u32 [%rd12], %r2; ld.global.u32 %r10, [%rd12+128];", InOut, false},
		"atomic and plain":     {"ld.global.u32 %r10, [%rd1]; red.global.add.u32 [%rd1], 1;", InOut, false},
	} {
		for _, workers := range []int{1, 2} {
			l := textLaunch(2, 32)
			l.Workers, l.Args[0].Role = workers, c.role
			l.apart = c.done // racing blocks are nothing for the race detector
			before := fmt.Sprint(l.Args[0].Buffer, l.Args[1].Buffer)
			r, done, err := loadText(t, kernelText(c.body)).runApart(l, order{})
			if err != nil || done != (c.done && (l.apart || !raceDetector)) {
				t.Errorf("%s, %d workers: done %v, %v", name, workers, done, err)
			}
			if done && len(r.Findings) > 0 {
				t.Errorf("%s, %d workers: %s", name, workers, list(r))
			}
			if same := before == fmt.Sprint(l.Args[0].Buffer, l.Args[1].Buffer); !done && !same {
				t.Errorf("%s, %d workers: memory was changed", name, workers)
			}
		}
	}
}

// TestApartEndless proves that threads which wait for ever are found with any number of workers. How often they go
// round before may differ.
func TestApartEndless(t *testing.T) {
	p := loadText(t, kernelText("WAIT: ld.global.u32 %r10, [%rd1]; setp.ne.u32 %p1, %r10, 99999; @%p1 bra WAIT;"))
	var said string
	for _, workers := range []int{1, 2} {
		l := textLaunch(2, 32)
		l.Workers, l.MaxSteps = workers, 1<<22
		says := list(run(t, p, l))
		if workers == 1 {
			said = says
		}
		if says != said || !strings.Contains(says, "deadlock") {
			t.Errorf("%d workers: %s, one: %s", workers, says, said)
		}
	}
}

// TestRaceMemory proves that the states of the check for races are part of what is counted.
func TestRaceMemory(t *testing.T) {
	p := loadText(t, kernelText("st.global.u32 [%rd12], %r2;"))
	l := textLaunch(2, 32)
	g, err := p.newGrid(l, order{})
	if err != nil {
		t.Fatal(err)
	}
	l.MaxMemory = int64(len(l.Args[0].Buffer)+len(l.Args[1].Buffer)) + g.blockBytes() + 1000
	if _, err := p.Run(l); diag.CodeOf(err) != MemoryLimit || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("with all checks: %v", err)
	}
	l.Checks = NoChecks
	if _, err := p.Run(l); err != nil {
		t.Errorf("without checks: %v", err)
	}
}

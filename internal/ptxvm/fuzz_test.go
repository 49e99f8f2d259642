package ptxvm

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	atomics "sync/atomic"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
	"gpuemu/internal/testkit/recorded"
)

// This file implements fuzzing of the emulator: whatever a program is, it is refused or runs within its limits.

// fuzzLimits are those of a fuzzed launch.
type fuzzLimits struct {
	steps  uint64
	memory int64
	grid   int   // blocks in the first direction; the second has one or two
	blocks []int // threads
}

var (
	randomLimits = fuzzLimits{3000, 8 << 20, 2, []int{1, 31, 32, 33, 64}}
	// The detection of races takes 0.1 s for 300 atomics of 256 threads, and mutation keeps such a program.
	fuzzedLimits = fuzzLimits{200, 1 << 20, 1, []int{1, 31, 32, 33}}
)

// fuzzRun loads and executes every kernel of a text. It reports whether one was executed; what it must not do is panic,
// go on for ever, or pass a limit.
func fuzzRun(t testing.TB, text string, r *rand.Rand, limits fuzzLimits) bool {
	f, err := ptx.Parse("fuzz.ptx", text)
	if err != nil {
		return false
	}
	executed := false
	for _, k := range f.Kernels() {
		n := Numerics{Approx: Edge(r.IntN(3)), Contract: r.IntN(4) == 0}
		p, err := LoadWith(f, k.Name, n)
		if err != nil {
			ours(t, err)
			continue
		}
		l := &Launch{Grid: Dim{1 + r.IntN(limits.grid), 1 + r.IntN(2), 1},
			Block:         Dim{limits.blocks[r.IntN(len(limits.blocks))], 1, 1},
			DynamicShared: 256 * r.IntN(2), MaxSteps: limits.steps, MaxMemory: limits.memory, Workers: 1 + r.IntN(2),
			Schedules: 1 + r.IntN(8)/7*2, Counters: r.IntN(8) == 0}
		if r.IntN(4) == 0 {
			l.Checks = Checks(1 + r.IntN(1<<6))
		}
		if raceDetector { // it would tell the races of the kernel as ours
			l.Workers = 1
		}
		for _, param := range p.Params {
			l.Args = append(l.Args, randomArg(r, param))
		}
		res, err := p.Run(l)
		if err != nil {
			ours(t, err)
			continue
		}
		executed = true
		if most := limits.steps * uint64(max(l.Schedules, 1)); res.Steps > most {
			t.Fatalf("%d instructions were executed, %d are allowed:\n%s", res.Steps, most, text)
		}
	}
	return executed
}

// randomArg is an argument for a parameter.
func randomArg(r *rand.Rand, param Param) Arg {
	if param.Size == 8 && r.IntN(8) > 0 {
		b := make([]byte, 4*r.IntN(400))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return Arg{Name: param.Name, Buffer: append([]byte{}, b...), Role: []Role{In, Out, InOut}[r.IntN(3)],
			Uninitialised: r.IntN(2) == 0, Element: 4}
	}
	v := make([]byte, param.Size)
	if param.Size > 0 {
		v[0] = byte(r.IntN(64))
	}
	return Arg{Name: param.Name, Value: v}
}

// ours fails for an error that is not one of ours.
func ours(t testing.TB, err error) {
	var e *diag.Error
	if !errors.As(err, &e) {
		t.Fatalf("an error without a code: %v", err)
	}
}

// fixtureTexts are compiled kernels that are changed at random, small ones.
func fixtureTexts(t testing.TB) (list [][]byte) {
	files, err := filepath.Glob("../../testdata/ptx/*/*.ptx")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) < 40<<10 {
			list = append(list, text)
		}
	}
	if len(list) < 100 {
		t.Fatalf("%d kernels to change, far too few", len(list))
	}
	return list
}

// mutated is a text with some of its lines removed, repeated, exchanged or with another number.
func mutated(r *rand.Rand, text []byte) string {
	lines := bytes.Split(text, []byte("\n"))
	for range 1 + r.IntN(4) {
		i, j := r.IntN(len(lines)), r.IntN(len(lines))
		switch r.IntN(5) {
		case 0:
			lines[i] = nil
		case 1:
			lines[i] = lines[j]
		case 2:
			lines[i], lines[j] = lines[j], lines[i]
		case 3:
			lines[i] = append(append([]byte{}, lines[i]...), lines[j]...)
		default:
			lines[i] = digits(r, lines[i])
		}
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// digits changes one digit of a line.
func digits(r *rand.Rand, line []byte) []byte {
	out := append([]byte{}, line...)
	for range 8 {
		if len(out) == 0 {
			break
		}
		if i := r.IntN(len(out)); out[i] >= '0' && out[i] <= '9' {
			out[i] = byte('0' + r.IntN(10))
			break
		}
	}
	return out
}

// fuzzOnce executes the program of a seed: one in four is a compiled kernel that was changed.
func fuzzOnce(t testing.TB, seed uint64, fixtures [][]byte, pool []string) bool {
	r := rand.New(rand.NewPCG(seed, 1))
	text := ""
	if r.IntN(4) == 0 {
		text = mutated(r, fixtures[r.IntN(len(fixtures))])
	} else {
		text = randomProgram(r, pool)
	}
	defer func() {
		if e := recover(); e != nil {
			stack := make([]byte, 4096)
			t.Fatalf("seed %d: panic: %v\n%s\n%s", seed, e, stack[:runtime.Stack(stack, false)], text)
		}
	}()
	return fuzzRun(t, text, r, randomLimits)
}

// fuzzPrograms is how many programs are executed without GPUEMU_SOAK, of so many statements.
const (
	fuzzPrograms   = 2000
	fuzzStatements = 20000
)

// TestRandomPrograms executes random programs and changed kernels: none panics, none passes a limit.
func TestRandomPrograms(t *testing.T) {
	usual := fuzzPrograms
	if testing.Short() {
		usual /= 8
	}
	n := recorded.Soak(usual)
	first := uint64(0)
	if text := os.Getenv("GPUEMU_SEED"); text != "" { // one program again
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n = v, 1
	}
	fixtures, pool := fixtureTexts(t), statements(rand.New(rand.NewPCG(1, 2)), fuzzStatements)
	var wait sync.WaitGroup
	var next, executed atomics.Int64
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(n) || t.Failed() {
					return
				}
				if fuzzOnce(t, first+uint64(i), fixtures, pool) {
					executed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d programs, %d of them executed", n, executed.Load())
	if n >= fuzzPrograms && executed.Load() < int64(n)/5 {
		t.Errorf("%d of %d programs were executed, too few to find anything", executed.Load(), n)
	}
}

// maxFuzzed is the longest text that FuzzRun executes: long ones are mostly parsed.
const maxFuzzed = 8 << 10

// FuzzRun executes any text.
func FuzzRun(f *testing.F) {
	pool := statements(rand.New(rand.NewPCG(1, 2)), fuzzStatements/10)
	for seed := range uint64(20) {
		f.Add(randomProgram(rand.New(rand.NewPCG(seed, 1)), pool), seed)
	}
	for i, text := range fixtureTexts(f) {
		if i%4 == 0 && len(text) <= maxFuzzed {
			f.Add(string(text), uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) > maxFuzzed {
			return
		}
		fuzzRun(t, text, rand.New(rand.NewPCG(seed, 1)), fuzzedLimits)
	})
}

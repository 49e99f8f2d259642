// Command emulator measures how fast the emulator executes compiled kernels: thread-instructions per second with one
// worker and with two, and what each check costs.
//
// Settings of a kernel take turns, and the best sample of each counts. Checks are compared by processor time, which a
// busy machine changes less than the clock.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpuemu/bench/machine"
	"gpuemu/internal/ptxvm"
)

// setting is a way to run a kernel.
type setting struct {
	name    string // of the checks
	checks  ptxvm.Checks
	workers int
}

// settings are all of them; the first two are without checks, the last one has all.
var settings = []setting{
	{"none", ptxvm.NoChecks, 1}, {"none", ptxvm.NoChecks, 2}, {"bounds", ptxvm.CheckBounds, 2},
	{"barrier", ptxvm.CheckBarrier, 2}, {"async", ptxvm.CheckAsync, 2}, {"uninit", ptxvm.CheckUninit, 2},
	{"race", ptxvm.CheckRace, 2}, {"all", ptxvm.AllChecks, 2},
}

const one, two = 0, 1 // settings without checks, by workers

// result has the best times of a kernel, by setting, and all times without checks.
type result struct {
	kernel    *kernel
	wall, cpu []time.Duration
	all       []time.Duration
}

// cpuTime is how long this process has had a processor.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func measure(list []*kernel, samples int) ([]*result, error) {
	var results []*result
	for _, k := range list {
		results = append(results, &result{kernel: k, wall: make([]time.Duration, len(settings)),
			cpu: make([]time.Duration, len(settings))})
	}
	for range samples {
		for _, r := range results {
			for i, s := range settings {
				if err := r.sample(i, s); err != nil {
					return nil, fmt.Errorf("%s: %w", r.kernel.name, err)
				}
			}
		}
	}
	return results, nil
}

// sampleTime is how long a sample takes at least: the processor time of a shorter one is not known well enough.
const sampleTime = 50 * time.Millisecond

// sample takes the mean of as many launches as a sample needs.
func (r *result) sample(i int, s setting) error {
	var n time.Duration
	start, before := time.Now(), cpuTime()
	for time.Since(start) < sampleTime {
		if _, err := r.kernel.program.Run(r.kernel.launch(s)); err != nil {
			return err
		}
		n++
	}
	wall, cpu := time.Since(start)/n, (cpuTime()-before)/n
	if i == two {
		r.all = append(r.all, wall)
	}
	if r.wall[i] == 0 || wall < r.wall[i] {
		r.wall[i] = wall
	}
	if r.cpu[i] == 0 || cpu < r.cpu[i] {
		r.cpu[i] = cpu
	}
	return nil
}

// rate is millions of thread-instructions per second.
func (r *result) rate(i int) float64 { return float64(r.kernel.threads) / 1e6 / r.wall[i].Seconds() }

// cost is processor time as a multiple of that without checks.
func (r *result) cost(i int) float64 { return float64(r.cpu[i]) / float64(r.cpu[two]) }

// noise is how much slower than the best the median was.
func (r *result) noise() float64 {
	slices.Sort(r.all)
	return float64(r.all[len(r.all)/2])/float64(r.wall[two]) - 1
}

// The goals of the design: thread-instructions per second with two workers and without checks, in millions, and how
// much slower all checks may be.
const (
	leastRate = 800
	mostCost  = 3

	mostOfTwin = 3 // times the processor time of a sound kernel that one with a race may take
)

func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "short"
}

func write(w io.Writer, results []*result, samples int) {
	fmt.Fprint(w, "# Speed of the emulator\n\n"+
		"Written by `make bench BENCHFLAGS=\"emulator -o docs/evidence/emulator-speed.md\"`: kernels as clang 19 compiles\n"+
		"them, instructions of threads whose guard is true, loading not included. Settings take turns, the best sample of\n"+
		"each counts; noise is how much slower than the best the median was. Checks are compared with no check by\n"+
		"processor time, with two workers. Blocks of the sum run in one order: it adds floats with atomic operations.\n\n")
	machine.Markdown(w, []machine.Fact{machine.Processor(), machine.Load(), machine.Date(),
		{Name: "method", Value: fmt.Sprintf("best of %d samples of 50 ms or more", samples)}})
	fmt.Fprintf(w, "\n## Without checks\n\nGoals: at least %d million thread-instructions a second with two workers; "+
		"softmax in 30 ms, matmul with\ntiles of 64×64 in 120 ms.\n\n", leastRate)
	fmt.Fprint(w, "| kernel | million instructions | one worker, M/s | per CPU second | two workers, M/s | goal | growth "+
		"| ms | goal | noise |\n|---|---:|---:|---:|---:|---|---:|---:|---|---:|\n")
	for _, r := range results {
		ms, goal := 1e3*r.wall[two].Seconds(), ""
		if r.kernel.most > 0 {
			goal = verdict(ms <= r.kernel.most)
		}
		fmt.Fprintf(w, "| %s | %.1f | %.0f | %.0f | %.0f | %s | %.2f× | %.1f | %s | %.0f %% |\n", r.kernel.name,
			float64(r.kernel.threads)/1e6, r.rate(one), float64(r.kernel.threads)/1e6/r.cpu[one].Seconds(), r.rate(two),
			verdict(r.rate(two) >= leastRate), r.rate(two)/r.rate(one), ms, goal, 100*r.noise())
	}
	last := len(settings) - 1
	fmt.Fprintf(w, "\n## With checks\n\nGoal: all of them cost at most %d times the time without.\n\n| kernel |", mostCost)
	for _, s := range settings[two+1:] {
		fmt.Fprintf(w, " %s |", s.name)
	}
	fmt.Fprintf(w, " goal | all, M/s |\n|---|%s---|---:|\n", strings.Repeat("---:|", len(settings)-two-1))
	for _, r := range results {
		fmt.Fprintf(w, "| %s |", r.kernel.name)
		for i := two + 1; i < len(settings); i++ {
			fmt.Fprintf(w, " %.2f× |", r.cost(i))
		}
		fmt.Fprintf(w, " %s | %.0f |\n", verdict(r.cost(last) <= mostCost), r.rate(last))
	}
	fmt.Fprintf(w, "\n## Kernels with races\n\nProcessor time with all checks, the report included. Goal: at most "+
		"%d times that of a sound kernel that does\nthe same.\n\n| kernel | ms | sound twin, ms | ratio | goal |\n"+
		"|---|---:|---:|---:|---|\n", mostOfTwin)
	for _, r := range results {
		for _, twin := range results {
			if r.kernel.twin == twin.kernel.entry {
				ratio := float64(r.cpu[last]) / float64(twin.cpu[last])
				fmt.Fprintf(w, "| %s | %.1f | %.1f | %.2f× | %s |\n", r.kernel.name, 1e3*r.cpu[last].Seconds(),
					1e3*twin.cpu[last].Seconds(), ratio, verdict(ratio <= mostOfTwin))
			}
		}
	}
}

func run() error {
	output := flag.String("o", "", "file to write the record to")
	samples := flag.Int("samples", 10, "samples of each kernel and setting")
	only := flag.String("kernel", "", "measure only kernels whose names have this in them")
	flag.Parse()
	if flag.NArg() > 0 || *samples < 1 {
		return fmt.Errorf("usage: emulator [-o FILE] [-samples N] [-kernel NAME], not %s", strings.Join(os.Args[1:], " "))
	}
	list, err := kernels()
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(k *kernel) bool { return !strings.Contains(k.name, *only) })
	results, err := measure(list, *samples)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	write(&text, results, *samples)
	if _, err := os.Stdout.Write(text.Bytes()); err != nil || *output == "" {
		return err
	}
	return os.WriteFile(*output, text.Bytes(), 0o644)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "emulator:", err)
		os.Exit(1)
	}
}

// Command fuzz runs every fuzz target of the module, one worker per target and as many packages at a time as there are
// cores. Targets are found, not listed, so that none is forgotten. It prints executions and CPU time of each target.
//
// With -floor a target fails that executes fewer inputs per second of CPU. CPU time is that of the fuzzing processes,
// not of the clock, and with a limit in executions (2000x) every target gets its inputs however busy the machine is.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	floor := flag.Float64("floor", 0, "least `executions` per second of CPU; 0: no floor")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: fuzz [-floor N] LIMIT\nLIMIT is that of each target: 30s or 2000x")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &run{limit: flag.Arg(0), floor: *floor, out: os.Stdout, err: os.Stderr}
	if err := r.all(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// run is one run over all targets.
type run struct {
	limit string  // -test.fuzztime
	floor float64 // executions per second of CPU
	work  string  // a directory for test binaries
	cache string  // holds the inputs found, a folder per package

	mu            sync.Mutex // guards the fields below
	out, err      io.Writer
	found, failed int
}

// all runs the targets of all packages.
func (r *run) all(ctx context.Context) error {
	var err error
	if r.work, err = os.MkdirTemp("", "gpuemu-fuzz"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if r.cache, err = inputs(ctx, r.limit, r.work); err != nil {
		return err
	}
	packages, targets, err := find(ctx)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	queue := make(chan pkg)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for p := range queue {
				r.pkg(ctx, p)
			}
		})
	}
	for _, p := range packages {
		queue <- p
	}
	close(queue)
	group.Wait()
	fmt.Fprintf(r.out, "%d fuzz targets, %d failed\n", r.found, r.failed)
	switch {
	case r.found != targets:
		return fmt.Errorf("%d targets ran, the sources have %d", r.found, targets)
	case r.failed > 0:
		return fmt.Errorf("%d of %d targets failed", r.failed, r.found)
	}
	return nil
}

// inputs returns where the inputs that targets find are kept: where go test -fuzz keeps them, for the next run. A run
// with a limit in executions has none of earlier runs: executing them again would use up the limit.
func inputs(ctx context.Context, limit, work string) (string, error) {
	if strings.HasSuffix(limit, "x") {
		return filepath.Join(work, "inputs"), nil
	}
	out, err := exec.CommandContext(ctx, goCommand(), "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOCACHE: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "fuzz"), nil
}

// pkg is a package with fuzz targets.
type pkg struct{ path, dir string }

// declared counts the targets of a file.
func declared(file *ast.File) int {
	n := 0
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
			n++
		}
	}
	return n
}

// find returns the packages that have targets and how many targets their sources declare. Only these packages are
// built: with instrumentation each takes seconds to link.
func find(ctx context.Context) (packages []pkg, targets int, err error) {
	const format = "{{.ImportPath}}\t{{.Dir}}\t{{range .TestGoFiles}}{{.}}/{{end}}{{range .XTestGoFiles}}{{.}}/{{end}}"
	out, err := exec.CommandContext(ctx, goCommand(), "list", "-f", format, "./...").Output()
	if err != nil {
		return nil, 0, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) < 3 {
			continue // no tests
		}
		before := targets
		for _, name := range strings.FieldsFunc(fields[2], func(c rune) bool { return c == '/' }) {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(fields[1], name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, 0, err
			}
			targets += declared(file)
		}
		if targets > before {
			packages = append(packages, pkg{fields[0], fields[1]})
		}
	}
	if targets == 0 {
		return nil, 0, errors.New("no fuzz target was found: the module has some, so the search is broken")
	}
	return packages, targets, nil
}

func goCommand() string {
	if name := os.Getenv("GO"); name != "" {
		return name
	}
	return "go"
}

// pkg builds the tests of a package once and runs each of its targets.
func (r *run) pkg(ctx context.Context, p pkg) {
	binary := filepath.Join(r.work, strings.ReplaceAll(p.path, "/", "_"))
	build := exec.CommandContext(ctx, goCommand(), "test", "-c", "-fuzz=.", "-o", binary, ".")
	build.Dir = p.dir
	if out, err := build.CombinedOutput(); err != nil {
		r.report(false, fmt.Sprintf("FAIL %s: no test binary: %v", p.path, err), out)
		return
	}
	defer os.Remove(binary)
	list := exec.CommandContext(ctx, binary, "-test.list", "^Fuzz")
	list.Dir = p.dir
	names, err := list.Output()
	if err != nil {
		r.report(false, fmt.Sprintf("FAIL %s: no list of targets: %v", p.path, err), names)
		return
	}
	for _, name := range strings.Fields(string(names)) {
		r.target(ctx, p, binary, name)
	}
}

// report writes the result of one target, and its log when it failed.
func (r *run) report(ok bool, line string, log []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found++
	if !ok {
		r.failed++
		r.err.Write(log)
	}
	fmt.Fprintln(r.out, line)
}

// tries is how often a target runs whose only failure was the engine's own.
const tries = 3

// target runs one target.
func (r *run) target(ctx context.Context, p pkg, binary, name string) {
	title := strings.TrimPrefix(p.path, "gpuemu/internal/") + " " + name
	for try := 1; ; try++ {
		// Without a limit the engine takes up to a minute to shorten each input that is new to it; a short run would do
		// nothing else.
		cmd := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.fuzz", "^"+name+"$", "-test.fuzztime", r.limit,
			"-test.fuzzminimizetime", "100x", "-test.parallel", "1", "-test.fuzzcachedir", filepath.Join(r.cache, p.path))
		cmd.Dir = p.dir
		log, err := cmd.CombinedOutput()
		// The fuzzing engine itself sometimes reports its own deadline as a failure of the target
		// (golang.org/issue/56238). That has no failing input; a real find has one and is never retried.
		if err != nil && try < tries && bytes.Contains(log, []byte("context deadline exceeded")) &&
			!bytes.Contains(log, []byte("Failing input")) {
			continue
		}
		if err != nil {
			r.report(false, fmt.Sprintf("FAIL %s: %v", title, err), log)
			return
		}
		ok, line := judge(log, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), r.floor)
		r.report(ok, line[:4]+" "+title+line[4:], log)
		return
	}
}

var executions = regexp.MustCompile(`execs: ([0-9]+)`)

// judge reads how many inputs a target executed. CPU time contains that of the worker, which the coordinator waits for.
func judge(log []byte, cpu time.Duration, floor float64) (ok bool, line string) {
	all := executions.FindAllSubmatch(log, -1)
	if len(all) == 0 {
		return false, "FAIL: the log has no number of executions"
	}
	n, err := strconv.ParseUint(string(all[len(all)-1][1]), 10, 64)
	if err != nil {
		return false, "FAIL: " + err.Error()
	}
	rate := float64(n) / max(cpu.Seconds(), 1e-3)
	line = fmt.Sprintf(": %d executions in %.2f s of CPU, %.0f per second", n, cpu.Seconds(), rate)
	if rate < floor {
		return false, "FAIL" + line + fmt.Sprintf(", the floor is %g: make the target faster or replace it", floor)
	}
	return true, "ok  " + line
}

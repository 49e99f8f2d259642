package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gpuemu/internal/dtype"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gpuemu": main,
		"gpuemu-other": func() {
			version = "9.9.9-other"
			main()
		},
		"tensors":  printTensors,
		"tensor":   makeTensors,
		"raw":      makeRaw,
		"junit":    countJUnit,
		"seeds":    listSeeds,
		"first":    withFirstLine,
		"replays":  runReplays,
		"until":    runUntil,
		"isjson":   checkJSON,
		"same":     compareReports,
		"peak":     limitMemory,
		"owner":    asOwner,
		"harmless": checkHarmless,
	})
}

// TestScripts runs testdata/script/*.txt: one file per behaviour; stdout, stderr and exit code are asserted there.
// Commands beside gpuemu:
//
//	gpuemu-other ...               is gpuemu of another version
//	exits CODE gpuemu ...          runs a command that must exit with exactly CODE
//	tensors FILE                   prints name, dtype, shape and values of a safetensors file
//	tensor FILE NAME=DTYPE[SHAPE]  writes a safetensors file of values 0, 1, 2, ...
//	raw FILE DTYPE VALUE...        writes a file of raw little-endian values
//	junit FILE                     checks a JUnit file and prints its counts
//	seeds REPORT FILE              writes the seeds of the failed cases of a JSON report, one per line
//	first FILE PROGRAM ARGS...     runs a program with the first line of FILE as its last argument
//	replays FILE HOME              runs each command that a text report names, with the store in HOME
//	until PROGRAM ARGS...          runs a program again and again until it succeeds, for 30 s at most
//	isjson FILE...                 checks that each file is one JSON value and nothing else
//	same REPORT REPORT             checks that two JSON reports have the same cases with the same results
//	harmless DIR MARK              checks that no file steers a terminal or a CI system; all NAME.shows have MARK in them
//	peak MIB PROGRAM ARGS...       runs a program, which may not use more than MIB of memory
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: false,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GPUEMU_HOME", filepath.Join(env.WorkDir, ".home"))
			env.Setenv("GPUEMU_PYTHON", testkit.Python(t))
			env.Setenv("GPUEMU_SEED", "1")                               // no test depends on the draw of a day
			env.Setenv("BIN", filepath.SplitList(env.Getenv("PATH"))[0]) // where our own commands are, and nothing else
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "tmpfs": // whether a small file system can be made, in a name space of its own
				return exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", t.TempDir()).Run() == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// TestStartsQuickly: start-up is paid by every command, so nothing may be worked out before it is needed. It looks at
// the CPU time of the best of some runs, not at the clock on the wall: a busy machine must not fail it.
func TestStartsQuickly(t *testing.T) {
	const limit = 30 * time.Millisecond
	best := time.Hour
	for range 10 {
		cmd := exec.Command("gpuemu", "version")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		best = min(best, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	if best > limit {
		t.Errorf("gpuemu version takes %v of CPU time, want at most %v", best, limit)
	}
}

// TestInterrupt: Ctrl-C, or a terminal that is closed, while files are written ends the program with 3 and leaves none
// that is half written.
func TestInterrupt(t *testing.T) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) { interrupt(t, s) })
	}
}

func interrupt(t *testing.T, s os.Signal) {
	if signal.Ignored(s) {
		t.Skip("the tests run under nohup, and so does the program")
	}
	dir := t.TempDir()
	var stderr strings.Builder
	cmd := exec.Command("gpuemu", "cases", "--op", "matmul", "--count", "1000000", "-o", dir)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := os.Stat(filepath.Join(dir, "1.safetensors")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	var status *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &status) || status.ExitCode() != 3 {
		t.Errorf("gpuemu cases ends with %v, want exit status 3", err)
	}
	if !strings.HasPrefix(stderr.String(), "gpuemu: interrupted: the inputs of ") {
		t.Errorf("stderr is %q", stderr.String())
	}
	if rest, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(rest) > 0 {
		t.Errorf("left behind: %q (%v)", rest, err)
	}
}

// exits runs a program and asserts its exit code, which "!" alone does not do.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s exits with %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// printTensors prints a safetensors file.
func printTensors() {
	file, err := tensor.OpenSafetensors(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer file.Close()
	for key, value := range file.Metadata {
		fmt.Printf("%s: %s\n", key, value)
	}
	for _, n := range file.Tensors {
		values := n.Tensor.Float64s()
		const most = 12
		fmt.Printf("%s %s%s %v\n", n.Name, n.Tensor.DType, n.Tensor.Shape, values[:min(most, len(values))])
	}
}

// makeRaw writes raw values, as launch files name them.
func makeRaw() {
	d, err := dtype.Parse(os.Args[2])
	if err != nil {
		panic(err)
	}
	var data []byte
	for _, text := range os.Args[3:] {
		b, err := launchfile.Scalar(d, text)
		if err != nil {
			panic(err)
		}
		data = append(data, b...)
	}
	if err := os.MkdirAll(filepath.Dir(os.Args[1]), 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Args[1], data, 0o600); err != nil {
		panic(err)
	}
}

// makeTensors writes a safetensors file from descriptions such as input=float32[2,3].
func makeTensors() {
	var named []tensor.Named
	for _, arg := range os.Args[2:] {
		name, rest, _ := strings.Cut(arg, "=")
		typeName, dims, _ := strings.Cut(strings.TrimSuffix(rest, "]"), "[")
		d, err := dtype.Parse(typeName)
		if err != nil {
			panic(err)
		}
		shape := tensor.Shape{}
		for word := range strings.SplitSeq(dims, ",") {
			var n int
			if _, err := fmt.Sscan(word, &n); err != nil {
				panic(err)
			}
			shape = append(shape, n)
		}
		values := make([]float64, shape.Elems())
		for i := range values {
			values[i] = float64(i)
		}
		named = append(named, tensor.Named{Name: name, Tensor: tensor.FromFloat64s(d, shape, values)})
	}
	f, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	if err := tensor.WriteSafetensors(f, named, nil); err != nil {
		panic(err)
	}
	if err := f.Close(); err != nil {
		panic(err)
	}
}

// This file implements our side: the program, run as a user runs it.

package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

//go:embed project
var projectFiles embed.FS

// prepare makes the scratch directory with the project in it.
func (b *bench) prepare() error {
	for _, path := range []*string{&b.root, &b.program, &b.python} {
		if !strings.ContainsRune(*path, filepath.Separator) && path == &b.python {
			continue // looked for on PATH
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	dir, err := os.MkdirTemp("", "gpuemu-bench-")
	if err != nil {
		return err
	}
	b.dir, b.project = dir, filepath.Join(dir, "project")
	files, err := fs.Sub(projectFiles, "project")
	if err != nil {
		return err
	}
	return os.CopyFS(b.project, files)
}

// home makes an empty GPUEMU_HOME.
func (b *bench) home() (string, error) {
	b.homes++
	dir := filepath.Join(b.dir, "home"+strconv.Itoa(b.homes))
	return dir, os.Mkdir(dir, 0o700)
}

// command prepares the program with a home and nothing else of the environment of whoever runs the bench.
func (b *bench) command(home, dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(b.program, args...)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GPUEMU_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "GPUEMU_HOME="+home, "GPUEMU_PYTHON="+b.python)
	return cmd
}

// sample is one run of a campaign.
type sample struct {
	cases     int
	wall, cpu time.Duration
	peak      int64 // bytes of memory of the program itself, at its peak
	report    *report
}

// report is what the rows need of the report in JSON.
type report struct {
	Summary struct {
		Total, Passed int
		Complete      bool
	}
	Results []struct {
		Case      string
		Time      time.Time
		Candidate time.Duration `json:"candidate_ns"`
		Reference time.Duration `json:"reference_ns"`
	}
}

// user is the time that the user's two functions took, all cases together.
func (r *report) user() time.Duration {
	var sum time.Duration
	for i := range r.Results {
		sum += r.Results[i].Candidate + r.Results[i].Reference
	}
	return sum
}

// fuzz runs a campaign of an op of the project in a new home, from the start of the program to its end. All cases must
// pass: the time of a run that finds something says nothing here.
func (b *bench) fuzz(op string, cases int, wantReport bool) (*sample, error) {
	home, err := b.home()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	args := []string{"fuzz", "--op", op, "--iterations", strconv.Itoa(cases), "--seed", "1"}
	file := filepath.Join(home, "report.json")
	if wantReport {
		args = append(args, "--format", "json", "--output", file)
	}
	cmd := b.command(home, b.project, args...)
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	peak := watchMemory(cmd.Process.Pid)
	err = cmd.Wait()
	s := &sample{cases: cases, wall: time.Since(start), peak: peak()}
	if err != nil {
		return nil, fmt.Errorf("gpuemu %s: %w\n%s", strings.Join(args, " "), err, printed.Bytes())
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // its reaped children included
	if !wantReport {
		return s, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s.report = new(report)
	if err := json.Unmarshal(text, s.report); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r := s.report; r.Summary.Passed != cases || len(r.Results) != cases {
		return nil, fmt.Errorf("%s: %d of %d cases passed", op, r.Summary.Passed, cases)
	}
	return s, nil
}

// memoryPoll is how often the peak is read. The kernel keeps it: only growth in the last moments is missed.
const memoryPoll = 20 * time.Millisecond

// watchMemory follows the peak of a process's resident memory until the returned function is called. 0: not known.
func watchMemory(pid int) func() int64 {
	file := fmt.Sprintf("/proc/%d/status", pid)
	stop, peak := make(chan struct{}), make(chan int64, 1)
	go func() {
		var last int64
		tick := time.NewTicker(memoryPoll)
		defer tick.Stop()
		for {
			if kib := statusKiB(file, "VmHWM:"); kib > 0 {
				last = kib << 10
			}
			select {
			case <-stop:
				peak <- last
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 { close(stop); return <-peak }
}

func statusKiB(file, key string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == key {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n
		}
	}
	return 0
}

// perCase makes a side of a campaign; cpu gets the least that a case of a sample took of the processors.
func (b *bench) perCase(op string, cases int, cpu *time.Duration) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		s, err := b.fuzz(op, cases, false)
		if err != nil {
			return 0, err
		}
		if each := s.cpu / time.Duration(cases); *cpu == 0 || each < *cpu {
			*cpu = each
		}
		return s.wall / time.Duration(cases), nil
	}
}

func withCPU(d, cpu time.Duration) string { return rate(d) + ", CPU " + short(cpu) }

// cores is how many cases run at a time.
func cores() int { return runtime.GOMAXPROCS(0) }

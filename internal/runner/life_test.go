//go:build unix

package runner

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// left is what a test must not leave behind: open files, goroutines and children of this process.
type left struct {
	files, goroutines int
	children          string
}

func leftNow(t testing.TB) left {
	t.Helper()
	fds, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	var children []string
	tasks, _ := filepath.Glob("/proc/self/task/*/children") // Linux only; elsewhere files and goroutines must do
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err == nil && len(bytes.TrimSpace(b)) > 0 {
			children = append(children, strings.Fields(string(b))...)
		}
	}
	slices.Sort(children)
	return left{len(fds), runtime.NumGoroutine(), strings.Join(children, " ")}
}

// leavesNothing runs f and compares. What ends asynchronously gets some time.
func leavesNothing(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	before := leftNow(t)
	t.Run("work", f) // its cleanups close the runners
	var after left
	for range 200 {
		if after = leftNow(t); after.files <= before.files && after.goroutines <= before.goroutines &&
			after.children == before.children {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("left behind: %+v, before: %+v\n%s", after, before, stacks[:runtime.Stack(stacks, true)])
}

// gone reports whether no process has that number any more, waiting a little for init to reap it.
func gone(pid int) bool {
	for range 200 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && bytes.Contains(b, []byte(") Z ")) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// pids are the numbers that user code has printed.
func pids(t *testing.T, text string) []int {
	t.Helper()
	var out []int
	for _, field := range strings.Fields(text) {
		if n, err := strconv.Atoi(field); err == nil && n > 1 {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no pid in %q", text)
	}
	return out
}

func TestNothingIsLeftBehind(t *testing.T) {
	limits := Limits{Timeout: 300 * time.Millisecond}
	leavesNothing(t, func(t *testing.T) {
		for _, source := range []string{"def f(inputs): return inputs['x']", "def f(inputs): 1/0",
			"import os\ndef f(inputs): os.abort()", "import time\ndef f(inputs): time.sleep(60)", "import nowhere"} {
			r := function(t, source, Spec{Limits: limits, Slots: 2})
			for range 2 {
				_, _ = r.Run(t.Context(), small(t)) // whatever comes of it
			}
		}
		for _, tail := range []string{"json.dump(encode_tensor(x), sys.stdout)", "1/0", "import time; time.sleep(60)"} {
			both(t, documented+tail, Spec{Limits: limits, Slots: 2}, func(t *testing.T, r Runner) {
				for range 2 {
					_, _ = r.Run(t.Context(), small(t))
				}
			})
		}
		_, _ = newRunner(t, Spec{Target: "worker:true"}).Run(t.Context(), small(t))
		_, _ = function(t, "", Spec{Python: "/nowhere"}).Run(t.Context(), small(t))
		newRunner(t, Spec{Target: "builtin:relu"})
	})
}

// TestGrandchildrenAreKilled: children that hold the pipes open neither hang nor outlive the call.
func TestGrandchildrenAreKilled(t *testing.T) {
	grandchild := "import os, time, sys\npid = os.fork()\nif pid == 0:\n    time.sleep(60)\n    os._exit(0)\n" +
		"print(pid, file=sys.stderr, flush=True)\n"
	reply := "json.dump(encode_tensor(x), sys.stdout)\n"
	for _, tt := range []struct {
		name, source string
		reason       verdict.Reason
	}{
		{"after the reply", documented + reply + grandchild, ""},
		{"after a time-out", grandchild + "time.sleep(60)", verdict.TimedOut},
		{"after a crash", grandchild + "os.abort()", verdict.Crashed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // most of the time is waiting
			limits := Limits{}
			if tt.reason == verdict.TimedOut {
				limits.Timeout = 2 * time.Second // enough to print the pid on a busy machine
			}
			both(t, tt.source, Spec{Limits: limits}, func(t *testing.T, r Runner) {
				within(t, 60*time.Second, func() {
					text := ""
					if tt.reason == "" {
						text = mustRun(t, r, small(t)).Stderr
					} else {
						text = fails(t, r, small(t), tt.reason).Stderr
					}
					for _, pid := range pids(t, text) {
						if !gone(pid) {
							t.Errorf("process %d is still there", pid)
						}
					}
				})
			})
		})
	}
	t.Run("worker", func(t *testing.T) {
		t.Parallel()
		r := function(t, "def f(inputs):\n    "+strings.ReplaceAll(grandchild, "\n", "\n    ")+"time.sleep(60)",
			Spec{Limits: Limits{Timeout: 2 * time.Second}})
		for _, pid := range pids(t, fails(t, r, small(t), verdict.TimedOut).Stderr) {
			if !gone(pid) {
				t.Errorf("process %d is still there", pid)
			}
		}
	})
}

// TestEscapedProcessesAreKilled: children that start a session of their own, also as daemons do (their parent ends,
// their environment is empty), are gone when the call is over, and do not hang it.
func TestEscapedProcessesAreKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing but Linux finds processes that left their group")
	}
	escape := map[string]string{
		"session": "import os, sys, time\npid = os.fork()\nif pid == 0:\n    os.setsid()\n    time.sleep(60)\n" +
			"    os._exit(0)\nprint(pid, file=sys.stderr, flush=True)\n",
		"daemon": "import os, sys, time\npid = os.fork()\nif pid == 0:\n    os.setsid()\n    pid = os.fork()\n" +
			"    if pid == 0:\n        os.execve(sys.executable, ['python', '-c', 'import time; time.sleep(60)'], {})\n" +
			"    print(pid, file=sys.stderr, flush=True)\n    os._exit(0)\nos.waitpid(pid, 0)\n",
	}
	end := map[verdict.Reason]string{"": "json.dump(encode_tensor(x), sys.stdout)", verdict.TimedOut: "time.sleep(60)",
		verdict.Raised: "os._exit(7)"}
	limits := func(reason verdict.Reason) Limits {
		if reason == verdict.TimedOut {
			return Limits{Timeout: 2 * time.Second} // enough to print the pid on a busy machine
		}
		return Limits{}
	}
	run := func(t *testing.T, r Runner, reason verdict.Reason) {
		within(t, 60*time.Second, func() {
			text := ""
			if reason == "" {
				text = mustRun(t, r, small(t)).Stderr
			} else {
				text = fails(t, r, small(t), reason).Stderr
			}
			for _, pid := range pids(t, text) {
				if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) { // reaped, too
					t.Errorf("process %d is still there: %v", pid, err)
				}
			}
		})
	}
	for name, source := range escape {
		for reason, last := range end {
			t.Run(name+" "+string(reason), func(t *testing.T) {
				t.Parallel() // most of the time is waiting
				both(t, documented+source+last, Spec{Limits: limits(reason)}, func(t *testing.T, r Runner) {
					run(t, r, reason)
				})
				if reason == "" {
					return // a worker may have helpers from one call to the next
				}
				body := strings.ReplaceAll(source+last, "\n", "\n    ")
				run(t, function(t, "def f(inputs):\n    "+body, Spec{Limits: limits(reason)}), reason)
			})
		}
	}
	t.Run("close", func(t *testing.T) {
		body := strings.ReplaceAll(escape["daemon"], "\n", "\n    ")
		r := function(t, "def f(inputs):\n    "+body+"return inputs['x']", Spec{})
		text := mustRun(t, r, small(t)).Stderr
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids(t, text) {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d outlives its runner: %v", pid, err)
			}
		}
	})
}

// escapingProgram is a shell script that forks at once, before its parent has had time for anything. A descendant of
// the fork starts a session of its own and prints its pid, its limit in pages and its oom_score_adj.
const escapingProgram = `#!/bin/sh
said=$("$PYTHON" -c '
import os, resource, time
if os.fork() == 0:
    os.setsid()
    limit, score = resource.getrlimit(resource.RLIMIT_DATA)[1] >> 12, open("/proc/self/oom_score_adj").read()
    print(os.getpid(), limit, score, end="", flush=True)
    os.dup2(2, 1)  # the shell waits for the end of what is printed
    time.sleep(600)
')
echo "$said" >&2
exit 7
`

// TestEscapedChildrenOfPrograms: what a program forks first of all has the limits of its family, and is gone when the
// call is over, also where many run at once.
func TestEscapedChildrenOfPrograms(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing but Linux limits processes and finds those that left their group")
	}
	const slots, memory = 8, 1 << 30
	dir := t.TempDir()
	file(t, dir, "escape.sh", escapingProgram, 0o700)
	r := newRunner(t, Spec{Dir: dir, Target: "./escape.sh", Slots: slots, Env: []string{"PYTHON=" + python(t)},
		Limits: Limits{Memory: memory}, cgroups: &cgroups{}})
	var wg sync.WaitGroup
	for range 4 * slots {
		wg.Go(func() {
			_, err := r.Run(t.Context(), small(t))
			var f *Failure
			if !errors.As(err, &f) || f.Reason != verdict.Raised {
				t.Errorf("Run = %v, want a failure with reason %s", err, verdict.Raised)
				return
			}
			var pid, limit, score int
			if _, err := fmt.Sscan(f.Stderr, &pid, &limit, &score); err != nil {
				t.Errorf("%q: %v", f.Stderr, err)
				return
			}
			if limit != memory>>12 || score != 1000 {
				t.Errorf("a child has a limit of %d pages and oom_score_adj %d, want %d and 1000", limit, score, memory>>12)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) { // reaped, too
				t.Errorf("process %d is still there: %v", pid, err)
			}
		})
	}
	wg.Wait()
}

// TestFamiliesAreApart: the end of one runner's process leaves the helpers of another alone, and children that no
// runner has started.
func TestFamiliesAreApart(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing but Linux finds processes that left their group")
	}
	own := exec.Command("sleep", "60")
	own.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = own.Process.Kill()
		_ = own.Wait() // killed
	}()
	helper := function(t, "import os, sys, time\ndef f(inputs):\n    pid = os.fork()\n    if pid == 0:\n"+
		"        os.setsid()\n        pid = os.fork()\n        if pid == 0: time.sleep(60)\n"+
		"        print(pid, file=sys.stderr, flush=True)\n        os._exit(0)\n    os.waitpid(pid, 0)\n"+
		"    return inputs['x']", Spec{})
	living := append(pids(t, mustRun(t, helper, small(t)).Stderr), own.Process.Pid)
	other := function(t, "def f(inputs): return inputs['x']", Spec{})
	mustRun(t, other, small(t))
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range living {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(b, []byte(") Z ")) {
			t.Errorf("process %d is gone: %q, %v", pid, b, err)
		}
	}
}

func TestForkBomb(t *testing.T) {
	source := "import os\nfor _ in range(5):\n    os.fork()\nimport time\ntime.sleep(60)"
	both(t, source, Spec{Limits: Limits{Timeout: 500 * time.Millisecond}}, func(t *testing.T, r Runner) {
		within(t, 60*time.Second, func() { fails(t, r, small(t), verdict.TimedOut) })
	})
}

// TestKilledFromOutside: a worker and a fork server that somebody kills are started again.
func TestKilledFromOutside(t *testing.T) {
	t.Run("idle worker", func(t *testing.T) {
		r := function(t, "def f(inputs): return inputs['x']", Spec{})
		mustRun(t, r, small(t))
		for range 2 {
			w := r.(*workerRunner).pool.idle[0]
			killGroup(w.proc.pid)
			<-w.proc.done
			wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3)
		}
	})
	t.Run("idle server", func(t *testing.T) {
		r := script(t, documented+"json.dump(encode_tensor(x), sys.stdout)", Spec{})
		mustRun(t, r, small(t))
		s := r.(*scriptRunner).pool.idle[0]
		killGroup(s.proc.pid)
		<-s.proc.done
		wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3)
	})
	t.Run("server at work", func(t *testing.T) {
		r := script(t, documented+"import os, time\nprint(os.getpid(), file=sys.stderr, flush=True)\n"+
			"os.kill(os.getppid(), 9)\ntime.sleep(60)", Spec{})
		within(t, 60*time.Second, func() {
			f := fails(t, r, small(t), verdict.Killed)
			for _, pid := range pids(t, f.Stderr) {
				if !gone(pid) {
					t.Errorf("process %d is still there", pid)
				}
			}
		})
	})
}

// TestServerEndsByItself: a server that fails before it has started the script is no failure of the script.
func TestServerEndsByItself(t *testing.T) {
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	sink, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	proc, err := start(&Spec{}, command{argv: []string{"/bin/sh", "-c", "head -c 4 <&3; exit 3"}, stdout: sink,
		stderr: sink, extra: []*os.File{theirs}})
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	s := &forkServer{proc: proc, conn: ours, reader: bufio.NewReader(ours)}
	defer s.close()
	_, err = s.fork("nothing.py", nil, time.Now().Add(30*time.Second), nil)
	var f *Failure
	if !errors.As(err, &f) || f.Reason != verdict.WorkerLost ||
		!strings.Contains(f.Msg, "exited with status 3 before it started the script") {
		t.Errorf("fork = %v, want %s", err, verdict.WorkerLost)
	}
}

// TestCancelledStartsDoNotCount: a runner outlives requests that were called off while it started.
func TestCancelledStartsDoNotCount(t *testing.T) {
	r := function(t, "import os, time\nif os.path.exists('slow'): time.sleep(60)\n"+
		"def f(inputs): return inputs['x']", Spec{})
	slow := filepath.Join(r.(*workerRunner).spec.Dir, "slow")
	file(t, filepath.Dir(slow), "slow", "", 0o600)
	for range maxLoadFailures + 1 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := r.Run(ctx, small(t)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run = %v, want %v", err, context.DeadlineExceeded)
		}
		cancel()
	}
	if err := os.Remove(slow); err != nil {
		t.Fatal(err)
	}
	wantFloats(t, mustRun(t, r, small(t)), 1, 2, 3)
}

// TestLostStartsAreTriedAgain: more often than starts that fail by themselves, but not for ever.
func TestLostStartsAreTriedAgain(t *testing.T) {
	r := &workerRunner{}
	for i := range maxLostStarts {
		if f := r.knownFailure(); f != nil {
			t.Fatalf("after %d lost starts: %v", i, f)
		}
		r.note(&Failure{Reason: verdict.WorkerLost})
	}
	if r.knownFailure() == nil {
		t.Error("lost starts are tried for ever")
	}
	r.note(nil)
	if f := r.knownFailure(); f != nil {
		t.Errorf("after a good start: %v", f)
	}
}

func TestCancel(t *testing.T) {
	for name, r := range map[string]Runner{
		"function": function(t, "import time\ndef f(inputs): time.sleep(60)", Spec{}),
		"import":   function(t, "import time\ntime.sleep(60)", Spec{}),
		"script":   script(t, "import time; time.sleep(60)", Spec{}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			start := time.Now()
			if _, err := r.Run(ctx, small(t)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Run = %v, want %v", err, context.DeadlineExceeded)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("Run took %v", took)
			}
			if _, err := r.Run(ctx, small(t)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Run with a dead context = %v", err)
			}
		})
	}
}

func TestCloseEndsCalls(t *testing.T) {
	for name, r := range map[string]Runner{
		"function": function(t, "import time\ndef f(inputs): time.sleep(60)", Spec{}),
		"script":   script(t, "import time; time.sleep(60)", Spec{}),
	} {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			started := make(chan struct{}, 3)
			for range 3 { // one at work, two in the queue
				wg.Go(func() {
					started <- struct{}{}
					if _, err := r.Run(t.Context(), small(t)); !errors.Is(err, errClosed) {
						t.Errorf("Run = %v, want %v", err, errClosed)
					}
				})
			}
			for range 3 {
				<-started
			}
			time.Sleep(300 * time.Millisecond) // most of the time a process is up by then; the test holds either way
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
			if _, err := r.Run(t.Context(), small(t)); !errors.Is(err, errClosed) {
				t.Errorf("Run after Close = %v, want %v", err, errClosed)
			}
		})
	}
}

// TestConcurrentCalls: many callers on few slots each get their own answer.
func TestConcurrentCalls(t *testing.T) {
	for name, r := range map[string]Runner{
		"function": function(t, "def f(inputs): return inputs['x'] * 2", Spec{Slots: 3}),
		"script":   script(t, documented+"json.dump(encode_tensor(x * 2), sys.stdout)", Spec{Slots: 3}),
	} {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for j := range 10 {
						v := float64(100*i + j)
						x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(2), []float64{v, -v})
						reply, err := r.Run(t.Context(), callOf(x))
						if err != nil {
							t.Errorf("Run: %v", err)
							return
						}
						wantFloats(t, reply, 2*v, -2*v)
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestLargeImages: tensors beyond what is kept, then small ones again.
func TestLargeImages(t *testing.T) {
	if testing.Short() {
		t.Skip("needs half a GiB")
	}
	r := function(t, "def f(inputs): return inputs['x']", Spec{})
	for _, n := range []int{4, keptImage/4 + 1000, 5, keptImage/4 + 2000, 6} {
		x := tensorOf(t, dtype.Float32, n)
		reply := mustRun(t, r, callOf(x))
		if !bytes.Equal(reply.Outputs[0].Tensor.Data, x.Data) {
			t.Errorf("%d elements came back otherwise", n)
		}
	}
}

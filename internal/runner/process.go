//go:build unix

package runner

// This file implements processes: started as leaders of their own group, ended with all of it, and reaped.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpuemu/internal/verdict"
)

// exitGrace is how long pipes of a process that has ended are still read. Its group is dead then, so that their end
// comes at once, unless a child has left the group and keeps them open.
const exitGrace = 200 * time.Millisecond

// exitState is how a process ended.
type exitState struct {
	code   int            // exit status
	signal syscall.Signal // 0: it exited
	memory bool           // the kernel ended processes of the family because they had more memory than allowed
	watch  bool           // we did, for the same reason
	oom    bool           // the kernel ended some process of the machine for want of memory while this one lived
}

// execution is a running process, ours or one of the fork server.
type execution interface {
	kill()                 // ends the whole group; does nothing where it is gone
	exited() chan struct{} // closed when the process and its group are gone
	state() exitState      // valid then
}

// process is a child of ours. One goroutine waits for its end.
type process struct {
	cmd  *exec.Cmd
	pid  int
	done chan struct{}

	mu     sync.Mutex
	reaped bool // guarded by mu; the pid may belong to somebody else from then on

	end    exitState // set before done is closed
	family *family
}

// command is what start starts.
type command struct {
	argv           []string
	stdin          *os.File // nil: /dev/null
	stdout, stderr *os.File
	extra          []*os.File // file 3 and following
	outlivesUs     bool       // it ends by itself when we are gone
}

// start starts a process as the leader of a new group. It is in its family, with the limits of that, before its program
// executes the first instruction.
func start(spec *Spec, c command) (*process, error) {
	p := &process{done: make(chan struct{}), family: newFamily(spec.cgroups, spec.Limits.Memory)}
	cmd, err := startAdopted(func() *exec.Cmd { return c.exec(spec) },
		func(pid int) { p.family.adopt(pid, spec.Limits.ofData()) })
	if err != nil {
		p.family.close()
		return nil, err
	}
	p.cmd, p.pid = cmd, cmd.Process.Pid
	if spec.Limits.Watch {
		p.family.watch(spec.Limits.Memory, p.kill)
	}
	go p.wait()
	return p, nil
}

// exec is the command for package os/exec.
func (c *command) exec(spec *Spec) *exec.Cmd {
	cmd := &exec.Cmd{
		Path: c.argv[0], Args: c.argv, Dir: spec.Dir, Env: append(spec.environment(), spec.Env...),
		ExtraFiles: c.extra, SysProcAttr: processAttributes(!c.outlivesUs),
	}
	if c.stdin != nil {
		cmd.Stdin = c.stdin
	}
	cmd.Stdout, cmd.Stderr = c.stdout, c.stderr
	return cmd
}

// wait waits for the end of the process and ends what is left of its group and of its family. Where the system allows,
// the group is ended while the process is still a zombie: its number is not free then, and the signal can hit nobody
// else.
func (p *process) wait() {
	held := awaitZombie(p.pid)
	if !held {
		_ = p.cmd.Wait() // the state is read below
	}
	p.mu.Lock()
	killGroup(p.pid)
	if held {
		p.family.reap(p.cmd.Wait)
	}
	p.reaped = true
	p.mu.Unlock()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		p.end.signal = ws.Signal()
		p.end.memory, p.end.oom, p.end.watch = p.family.overMemory(), p.family.machineOOM(), p.family.overWatch()
	} else {
		p.end.code = p.cmd.ProcessState.ExitCode()
	}
	p.family.close()
	close(p.done)
}

func (p *process) exited() chan struct{} { return p.done }
func (p *process) state() exitState      { return p.end }

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		killGroup(p.pid)
	}
}

// killGroup ends a process group. That it does not exist any more is no error.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// isDone reports whether ex has ended.
func isDone(ex execution) bool {
	select {
	case <-ex.exited():
		return true
	default:
		return false
	}
}

// failure says what an end that we did not cause means for the case. who is "the script" or "the worker".
func (s exitState) failure(who string, limits Limits) *Failure {
	name := signalName(s.signal)
	switch {
	case s.memory:
		return overMemory(who+" was ended by the kernel ("+name+"): it needed more memory than allowed", limits)
	case s.watch:
		return overMemory(who+" was ended by gpuemu: its processes use more memory than allowed", limits)
	case s.signal == syscall.SIGKILL && s.oom:
		return &Failure{Reason: verdict.WorkerLost,
			Msg:  fmt.Sprintf("%s was killed (%s) while the kernel ended processes for want of memory", who, name),
			Hint: "run fewer at once (--parallel) or smaller cases"}
	case s.signal == syscall.SIGKILL || s.signal == syscall.SIGTERM:
		return &Failure{Reason: verdict.Killed,
			Msg: fmt.Sprintf("%s was ended by %s, which gpuemu did not send", who, name),
			Hint: "look for code that ends its own process; if there is none, for what ends processes here, such as a " +
				"job scheduler"}
	case s.signal != 0:
		return &Failure{Reason: verdict.Crashed, Msg: fmt.Sprintf("%s crashed: %s", who, name)}
	case s.code == 0:
		return &Failure{Reason: verdict.Raised, Msg: who + " exited with status 0 instead of replying"}
	default:
		return &Failure{Reason: verdict.Raised, Msg: fmt.Sprintf("%s exited with status %d", who, s.code)}
	}
}

// signalName is "SIGSEGV (segmentation fault)".
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name + " (" + s.String() + ")"
	}
	return s.String()
}

// timedOut is the failure of a call that took too long.
func timedOut(who string, limit time.Duration) *Failure {
	return &Failure{Reason: verdict.TimedOut, Msg: fmt.Sprintf("%s did not reply within %v", who, limit),
		Hint: "raise timeout of the op if it needs longer"}
}

// notStarted is the failure to start a program. A machine that is out of processes or files is named as such.
func notStarted(program string, err error) *Failure {
	hint := "check the path and its permissions"
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE):
		hint = "this machine is out of processes, memory or open files: run fewer at once (--parallel)"
	case errors.Is(err, syscall.ENOEXEC):
		hint = "give the script a first line such as #!/usr/bin/env python3"
	}
	return &Failure{Reason: verdict.NotStarted, Msg: fmt.Sprintf("%s cannot be started: %v", program, err), Hint: hint}
}

// pipe returns a pipe whose end for the child blocks, as programs expect, and whose end for us can have deadlines.
func pipe(childReads bool) (ours, child *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	ours, child = r, w
	if childReads {
		ours, child = w, r
	}
	if err := syscall.SetNonblock(int(child.Fd()), false); err != nil {
		r.Close()
		w.Close()
		return nil, nil, err
	}
	return ours, child, nil
}

// isBrokenPipe reports whether a write failed because nobody reads.
func isBrokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

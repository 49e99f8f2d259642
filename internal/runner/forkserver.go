//go:build unix

package runner

// This file implements the client of the fork server, which is worker.py in its second mode.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpuemu/internal/verdict"
)

// serverTimeout is the time for a fork server to start and import numpy.
const serverTimeout = 60 * time.Second

// serverGrace is the time for a fork server to end by itself, its script first. It needs milliseconds.
const serverGrace = time.Second

// errNotForked says that the server could not start a script; a plain process may.
var errNotForked = errors.New("the fork server could not fork")

// forkServer is one server process. It runs one script at a time.
type forkServer struct {
	proc    *process
	conn    *net.UnixConn
	reader  *bufio.Reader
	printed *capture
	once    sync.Once
}

// serverReply is what the server sends.
type serverReply struct {
	OK      bool   `json:"ok"`
	Version int    `json:"version"`
	PID     int    `json:"pid"`
	Exit    int    `json:"exit"`
	Signal  int    `json:"signal"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// startServer gives the lease a fork server. Where there can be none (no numpy, an old Python, no fork), scripts run as
// plain processes from then on, and nothing is said: they work just as well, only slower.
func (r *scriptRunner) startServer(ctx context.Context, l *lease[*forkServer]) error {
	s, err := r.spawnServer()
	if err != nil {
		var f *Failure
		if errors.As(err, &f) {
			r.fork.Store(false) // the plain process will say what is wrong with the interpreter
			return nil
		}
		return err
	}
	if err := l.set(s); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, s.proc.kill)
	reply, err := s.receive(time.Now().Add(serverTimeout))
	if !stop() {
		l.drop()
		return context.Cause(ctx)
	}
	if err != nil || !reply.OK || reply.Version != protocolVersion {
		if s.proc.killedFromOutside() {
			err = s.lost(r.spec.Limits)
		} else {
			err = nil
			r.fork.Store(false)
		}
		l.drop()
		return err
	}
	return nil
}

// killedFromOutside reports whether the process was ended by somebody else: that is no reason to do without it.
func (p *process) killedFromOutside() bool {
	return isDone(p) && (p.state().signal == syscall.SIGKILL || p.state().signal == syscall.SIGTERM)
}

func (r *scriptRunner) spawnServer() (*forkServer, error) {
	source, err := r.files.worker()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	printed, childOut, err := pipe(false)
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer childOut.Close()
	argv := []string{r.argv[0], source, "serve"}
	proc, err := start(&r.spec, command{argv: argv, stdout: childOut, stderr: childOut, extra: []*os.File{theirs},
		outlivesUs: true})
	if err != nil {
		ours.Close()
		printed.Close()
		return nil, notStarted(argv[0], err)
	}
	s := &forkServer{proc: proc, conn: ours, reader: bufio.NewReader(ours)}
	if s.printed, err = newCapture(printed, r.spec.Limits.Stderr); err != nil {
		printed.Close()
		s.close()
		return nil, err
	}
	return s, nil
}

// socketPair returns a connected pair: a connection for us, a file for the child.
func socketPair() (*net.UnixConn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "fork server")
	file := os.NewFile(uintptr(fds[0]), "fork server")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

func (s *forkServer) alive() bool { return !isDone(s.proc) }

// end waits for the end of a server whose socket is closed. It is given a moment to end the script it runs, if any.
func (s *forkServer) end() {
	timer := time.NewTimer(serverGrace)
	defer timer.Stop()
	select {
	case <-s.proc.done:
	case <-timer.C:
		s.proc.kill()
		<-s.proc.done
	}
}

func (s *forkServer) close() {
	s.once.Do(func() {
		s.conn.Close()
		s.end()
		if s.printed != nil {
			s.printed.close()
		}
	})
}

func (s *forkServer) receive(deadline time.Time) (*serverReply, error) {
	if err := s.conn.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	b, err := readFrame(s.reader, maxHeader)
	if err != nil {
		return nil, err
	}
	var reply serverReply
	if err := json.Unmarshal(b, &reply); err != nil {
		return nil, fmt.Errorf("reply of the fork server: %w", err)
	}
	return &reply, nil
}

// fork starts a script with the given standard files.
func (s *forkServer) fork(
	script string, working *Working, deadline time.Time, files []*os.File,
) (execution, error) {
	header := appendString([]byte(`{"script":`), script)
	header = append(appendWorking(header, working), '}')
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	if err := s.conn.SetWriteDeadline(deadline); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotForked, err)
	}
	if _, _, err := s.conn.WriteMsgUnix(frame(header), unix.UnixRights(fds...), nil); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotForked, err)
	}
	reply, err := s.receive(deadline)
	switch {
	case err != nil && isPipeEnd(err):
		s.end()
		return nil, s.lost(Limits{})
	case err != nil:
		return nil, err
	case !reply.OK || reply.PID <= 1:
		return nil, fmt.Errorf("%w: %s", errNotForked, reply.Message)
	}
	f := &forked{pid: reply.PID, done: make(chan struct{})}
	go f.wait(s)
	return f, nil
}

// lost is the failure of a call whose server ended before it had started the script. Whatever ended it, the script did
// not: it begins after the server has said its pid.
func (s *forkServer) lost(limits Limits) *Failure {
	f := s.proc.state().failure("the fork server", limits)
	f.Reason, f.Msg = verdict.WorkerLost, f.Msg+" before it started the script"
	return f
}

// forked is a child of the fork server. Its server keeps it as a zombie until the next request, so that its pid and
// group cannot be somebody else's while this value is in use.
type forked struct {
	pid  int
	done chan struct{}
	end  exitState
}

// wait waits for the server's word, and ends what left the script's group.
func (f *forked) wait(s *forkServer) {
	defer close(f.done)
	reply, err := s.receive(time.Time{})
	if err != nil || !reply.OK {
		killGroup(f.pid) // the server is gone: nobody else ends its child
		s.proc.kill()
		<-s.proc.done
		f.end = s.proc.state()
		f.end.signal, f.end.code = syscall.SIGKILL, 0 // whatever the server's end was
		return
	}
	s.proc.family.sweep()
	f.end = exitState{code: reply.Exit, signal: syscall.Signal(reply.Signal)}
	if f.end.signal != 0 {
		f.end.memory, f.end.oom = s.proc.family.overMemory(), s.proc.family.machineOOM()
	}
}

// kill ends the script's group. Once the server has reported the end it has done so itself, and may reap the pid soon.
func (f *forked) kill() {
	if !isDone(f) {
		killGroup(f.pid)
	}
}

func (f *forked) exited() chan struct{} { return f.done }
func (f *forked) state() exitState      { return f.end }

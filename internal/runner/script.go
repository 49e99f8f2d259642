//go:build unix

package runner

// This file implements one-shot scripts: a process per case, forked by the fork server or started afresh.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"gpuemu/internal/dtype"
	"gpuemu/internal/verdict"
)

// firstRead is the buffer for a reply before its size is known.
const firstRead = 64 << 10

// scriptRunner runs scripts.
type scriptRunner struct {
	spec   Spec
	script string   // absolute path
	argv   []string // of a plain process
	fork   atomic.Bool
	files  *runFiles
	pool   *pool[*forkServer]

	closing context.Context
	stop    context.CancelFunc
}

func (r *scriptRunner) Close() error {
	r.stop()
	r.pool.close(false)
	return r.files.remove()
}

func (r *scriptRunner) Run(ctx context.Context, call *Call) (*Reply, error) {
	l, err := r.pool.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer l.release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.closing, func() { cancel(errClosed) })()
	if r.fork.Load() && !l.has {
		if err := r.startServer(ctx, l); err != nil {
			return nil, causeOf(ctx, err)
		}
	}
	if call.Working != nil && !l.has {
		return nil, noWorking("a script that is not run by the fork server")
	}
	reply, err := r.run(ctx, l, call)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return reply, nil
}

// causeOf is err, unless the context ended before: then whatever came of that is not the candidate's doing.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// run executes one script.
func (r *scriptRunner) run(ctx context.Context, l *lease[*forkServer], call *Call) (*Reply, error) {
	begin := time.Now()
	deadline := begin.Add(r.spec.Limits.Timeout)
	stdin, err := requestFile(r.files.dir, scriptRequest(call, r.spec.Raw))
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	stdout, childOut, err := pipe(false)
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	defer childOut.Close()
	printed, childErr, err := pipe(false)
	if err != nil {
		return nil, err
	}
	defer childErr.Close()
	capture, err := newCapture(printed, r.spec.Limits.Stderr)
	if err != nil {
		printed.Close()
		return nil, err
	}
	defer capture.close()

	ex, err := r.execute(l, call.Working, deadline, []*os.File{stdin, childOut, childErr})
	if err != nil {
		return nil, err
	}
	childOut.Close()
	childErr.Close()
	text, err := r.collect(ctx, ex, stdout, deadline, replyLimit(call, r.spec.Limits.Output))
	if err == nil {
		err = r.exitFailure(call, ex.state(), capture)
	}
	reply := &Reply{Time: time.Since(begin)}
	if err == nil {
		reply.Outputs, err = parseScriptReply(text, call)
	}
	if l.has && !l.res.alive() {
		l.drop()
	}
	var f *Failure
	if errors.As(err, &f) {
		f.Stderr = capture.text()
	}
	if err != nil {
		return nil, err
	}
	reply.Outputs = nameOutputs(call, r.spec.Raw, reply.Outputs)
	reply.Stderr = capture.text()
	return reply, nil
}

// requestFile returns a file at whose beginning the request stands. A file, not a pipe: writing it never waits for the
// script, which may not read at all.
func requestFile(dir string, request []byte) (*os.File, error) {
	f, err := newImage(dir)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(request, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// execute starts the script: as a child of the fork server if there is one, else as a process of its own.
func (r *scriptRunner) execute(
	l *lease[*forkServer], working *Working, deadline time.Time, files []*os.File,
) (execution, error) {
	if l.has {
		ex, err := l.res.fork(r.script, working, deadline, files)
		switch {
		case err == nil:
			return ex, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			l.drop()
			return nil, timedOut("the fork server", r.spec.Limits.Timeout)
		case errors.Is(err, errNotForked):
			l.drop() // no harm done: the script was not started
			if working != nil {
				return nil, noWorking("a script that is not run by the fork server")
			}
		default:
			if isDone(l.res.proc) && !l.res.proc.killedFromOutside() {
				r.fork.Store(false) // it ends by itself: the next try is a plain process
			}
			l.drop()
			return nil, err
		}
	}
	p, err := start(&r.spec, command{argv: r.argv, stdin: files[0], stdout: files[1], stderr: files[2]})
	if err != nil {
		return nil, notStarted(r.argv[0], err)
	}
	return p, nil
}

// collect reads standard output until its end and waits for the end of the script. All of its group is gone when it
// returns.
func (r *scriptRunner) collect(
	ctx context.Context, ex execution, stdout *os.File, deadline time.Time, limit int64,
) ([]byte, error) {
	defer context.AfterFunc(ctx, ex.kill)()
	if err := stdout.SetReadDeadline(deadline); err != nil {
		ex.kill()
		<-ex.exited()
		return nil, err
	}
	watched := make(chan struct{})
	go func() { // a child that left the group may keep the pipe open
		defer close(watched)
		<-ex.exited()
		_ = stdout.SetReadDeadline(time.Now().Add(exitGrace)) // fails when closed
	}()
	text, err := readAtMost(stdout, limit)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) && isDone(ex) {
		err = nil
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		select {
		case <-ex.exited():
		case <-timer.C:
			err = timedOut("the script", r.spec.Limits.Timeout)
		}
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = timedOut("the script", r.spec.Limits.Timeout)
	}
	ex.kill()
	<-watched
	return text, err
}

// replyLimit is how much a script may write for this call: what its outputs take in float64 and base64 (11 bytes per
// element) three times over, and room for whatever else. A script that floods its output is stopped long before it
// fills the memory. Where the outputs are not declared, the inputs say how much is usual.
func replyLimit(call *Call, limit int64) int64 {
	const room, perElement = 64 << 20, 32
	var elems int64
	for i := range call.Outputs {
		elems += int64(call.Outputs[i].Shape.Elems())
	}
	for _, in := range call.Inputs {
		elems += int64(in.Tensor.Elems())
	}
	return min(limit, room+perElement*elems)
}

// readAtMost reads to the end, or to the limit.
func readAtMost(f io.Reader, limit int64) ([]byte, error) {
	b := make([]byte, 0, min(firstRead, limit+1))
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return nil, &Failure{Reason: verdict.OutputLimit,
				Msg:  fmt.Sprintf("the script wrote more than %d bytes to standard output", limit),
				Hint: "standard output is for the reply alone"}
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
	}
}

// exceptionLine is the line of what a script printed that says how it ended: that of an exception begins with its name
// and may be followed by more lines, of advice mostly. Without a traceback it is the last line.
func exceptionLine(printed string) string {
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i] != "Traceback (most recent call last):" {
			continue
		}
		for _, line := range lines[i+1:] {
			if line != "" && !strings.HasPrefix(line, " ") {
				return line
			}
		}
	}
	return lines[len(lines)-1]
}

// exitFailure says what the end of a script means; nil for exit status 0. An interpreter ends an exception with status
// 1 and its name behind the traceback: the one interface there is to tell a missing package from a wrong result.
func (r *scriptRunner) exitFailure(call *Call, s exitState, printed *capture) error {
	if s.signal == 0 && s.code == 0 {
		return nil
	}
	f := s.failure("the script", r.spec.Limits)
	if f.Reason == verdict.MemoryLimit {
		return f
	}
	text := strings.TrimSpace(printed.text())
	last := exceptionLine(text)
	switch {
	case s.signal != 0:
		return f.withMemory(r.spec.Limits, text)
	case last != "" && len(last) <= headShown:
		f.Msg += ": " + last
	}
	kind, detail, _ := strings.Cut(last, ":")
	switch {
	case s.code == 1 && kind == "ModuleNotFoundError":
		f.Reason = verdict.MissingPackage
		f.Msg = "the script needs a package that is not installed:" + detail
		f.Hint = fmt.Sprintf("install it for %s, or choose another interpreter with the key python", r.argv[0])
	default:
		f.Hint = missingFormat(call, r.spec.Raw, last)
		return f.withMemory(r.spec.Limits, last)
	}
	return f
}

// missingFormat is what to do about an exception over a number format that numpy has from ml_dtypes alone; "" where the
// call has none or the exception does not name it.
func missingFormat(call *Call, raw bool, exception string) string {
	formats := make([]dtype.DType, 0, len(call.Inputs)+len(call.Outputs))
	for _, in := range call.Inputs {
		formats = append(formats, in.Tensor.DType)
	}
	for _, out := range call.Outputs {
		formats = append(formats, out.DType)
	}
	for _, d := range formats {
		if !raw && sentDType(d, true) != d && strings.Contains(exception, d.String()) {
			return fmt.Sprintf("import ml_dtypes in the script, which gives numpy the type %s; or set raw = true of the op to "+
				"get unsigned integers", d)
		}
	}
	return ""
}

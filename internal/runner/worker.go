//go:build unix

package runner

// This file implements workers: processes that serve one call after the other by the worker protocol.

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

//go:embed working.py
var workingSource []byte

//go:embed worker.py
var workerSource []byte

const (
	// minLoadTimeout is the least time for starting a worker and importing the user's file: torch alone may take 20 s
	// from a cold disk. It is no part of a call, so that a short timeout does not fail the first case.
	minLoadTimeout = 60 * time.Second
	// maxLoadFailures is how often starting is tried in vain (a crash or a time-out while importing) before the runner
	// gives the same answer without trying: a campaign has thousands of cases.
	maxLoadFailures = 3
	// maxLostStarts is the same for starts that somebody else ended: no fault of the code, and likely over soon, but a
	// machine without the memory for an import should not be asked for it thousands of times.
	maxLostStarts = 20
	// keptImage is the size above which an image is emptied after the call, so that one large case does not hold
	// memory for good.
	keptImage = 64 << 20
	// closedReplies is how long a worker that closed its end of the replies may take to end.
	closedReplies = time.Second
)

// workerRunner runs functions and worker programs.
type workerRunner struct {
	spec           Spec
	argv           []string
	file, function string // "" for a program
	who            string
	loadTimeout    time.Duration
	files          *runFiles
	pool           *pool[*worker]

	mu       sync.Mutex
	failures int      // starts in vain in a row; guarded by mu
	verdict  *Failure // the last of them
}

// worker is one process. Only the holder of its lease uses it; close may come from anywhere.
type worker struct {
	proc              *process
	requests, replies *os.File
	reader            *bufio.Reader
	input, output     *os.File
	printed           *capture
	lastID            uint64
	launches          launches // of the call that is executed
	refused           *Failure // why it cannot serve any call, if so: its answer to the load request
	once              sync.Once
}

func (r *workerRunner) Close() error {
	r.pool.close(true)
	return r.files.remove()
}

func (r *workerRunner) Run(ctx context.Context, call *Call) (*Reply, error) {
	if call.Working != nil && r.file == "" {
		return nil, noWorking(r.who)
	}
	l, err := r.pool.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer l.release()
	if !l.has {
		if f := r.knownFailure(); f != nil {
			return nil, f
		}
		err := r.start(ctx, l)
		if err != nil {
			err = r.cause(ctx, err)
		}
		r.note(err)
		if err != nil {
			return nil, err
		}
	}
	if f := l.res.refused; f != nil {
		again := *f // the caller may add to it
		return nil, &again
	}
	reply, keep, err := r.call(ctx, l.res, call)
	if !keep {
		l.drop()
	}
	if err != nil {
		return nil, r.cause(ctx, err)
	}
	return reply, nil
}

// noWorking is the failure of a call that cannot be evaluated in the working precision.
func noWorking(who string) *Failure {
	return &Failure{Reason: verdict.Unsupported, Msg: who + " cannot be evaluated in the working precision"}
}

// cause returns what really ended a call: the end of a process may be our own doing.
func (r *workerRunner) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.pool.isClosed() {
		return errClosed
	}
	return err
}

func (r *workerRunner) knownFailure() *Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := maxLoadFailures
	if r.verdict != nil && r.verdict.Lost() {
		limit = maxLostStarts
	}
	if r.failures < limit {
		return nil
	}
	again := *r.verdict
	return &again
}

// note counts starts in vain. One that the worker itself explains does not count: it is cheap, the worker lives on. Nor
// does one that the caller called off, which says nothing of the next.
func (r *workerRunner) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var f *Failure
	switch {
	case err == nil:
		r.failures = 0
	case errors.As(err, &f):
		r.failures++
		own := *f // the caller may add to it
		r.verdict = &own
	}
}

// start starts a worker and has it load the user's file. The lease has the worker if the error is nil.
func (r *workerRunner) start(ctx context.Context, l *lease[*worker]) error {
	w, err := r.spawn()
	if err != nil {
		return err
	}
	if err := l.set(w); err != nil {
		return err
	}
	limit := max(r.loadTimeout, r.spec.Limits.Timeout)
	w.lastID++
	library, err := r.library()
	if err != nil {
		return err
	}
	h, err := r.exchange(ctx, w, loadHeader(w.lastID, r.file, r.function, library), limit, "importing "+r.who)
	switch {
	case err != nil:
	case !h.OK:
		w.refused = h.failure(r.spec.Limits)
		w.refused.Stderr = w.printed.text() + w.refused.Stderr
	case h.Version != protocolVersion:
		err = &Failure{Reason: verdict.NotStarted, Hint: "build the worker for this version of gpuemu",
			Msg: fmt.Sprintf("%s speaks version %d of the protocol, want %d", r.who, h.Version, protocolVersion)}
	}
	if err != nil {
		l.drop()
	}
	return err
}

func (r *workerRunner) spawn() (*worker, error) {
	argv := r.argv
	if r.file != "" {
		source, err := r.files.worker()
		if err != nil {
			return nil, err
		}
		argv = []string{argv[0], "-u", source, "call"}
	}
	w := &worker{}
	var child []*os.File
	defer func() {
		for _, f := range child {
			f.Close()
		}
	}()
	var printed *os.File
	for _, end := range []struct {
		ours   **os.File
		writes bool
	}{{&w.requests, true}, {&w.replies, false}, {&printed, false}} {
		ours, theirs, err := pipe(end.writes)
		if err != nil {
			w.closeFiles()
			return nil, err
		}
		*end.ours = ours
		child = append(child, theirs)
	}
	for _, image := range []**os.File{&w.input, &w.output} {
		f, err := newImage(r.files.dir)
		if err != nil {
			printed.Close()
			w.closeFiles()
			return nil, err
		}
		*image = f
	}
	proc, err := start(&r.spec, command{argv: argv, stdout: child[2], stderr: child[2],
		extra: []*os.File{child[0], child[1], w.input, w.output}})
	if err != nil {
		printed.Close()
		w.closeFiles()
		return nil, notStarted(argv[0], err)
	}
	w.proc = proc
	w.reader = bufio.NewReader(w.replies)
	if w.printed, err = newCapture(printed, r.spec.Limits.Stderr); err != nil {
		printed.Close()
		w.close()
		return nil, err
	}
	go w.watch()
	return w, nil
}

// watch lets a reader of replies go when the process has ended but a child of it keeps the pipe open.
func (w *worker) watch() {
	<-w.proc.done
	_ = w.replies.SetReadDeadline(time.Now().Add(exitGrace)) // fails when closed
}

func (w *worker) alive() bool { return !isDone(w.proc) }

func (w *worker) close() {
	w.once.Do(func() {
		w.proc.kill()
		<-w.proc.done
		w.closeFiles()
		if w.printed != nil {
			w.printed.close()
		}
	})
}

func (w *worker) closeFiles() {
	for _, f := range []*os.File{w.requests, w.replies, w.input, w.output} {
		if f != nil {
			f.Close()
		}
	}
}

// call has one call executed. keep says that the worker can serve the next one.
func (r *workerRunner) call(ctx context.Context, w *worker, call *Call) (_ *Reply, keep bool, err error) {
	begin := time.Now()
	ranges, size, err := writeImage(w.input, call, r.spec.Raw)
	if err != nil {
		return nil, true, err
	}
	w.lastID++
	header := callHeader(w.lastID, call, r.spec.Raw, ranges, r.spec.Limits.Output)
	h, err := r.exchange(ctx, w, header, r.spec.Limits.Timeout, r.who)
	if err != nil {
		return nil, false, err
	}
	if size > keptImage {
		if err := w.input.Truncate(0); err != nil {
			return nil, false, err
		}
	}
	if !h.OK {
		f := w.launches.failure(h.failure(r.spec.Limits))
		f.Stderr = w.printed.text() + f.Stderr
		return nil, true, f
	}
	outputs, image, err := readImage(w.output, h.Image, r.spec.Limits.Output)
	if err != nil {
		return nil, false, r.withPrints(w, err)
	}
	if f := w.launches.missing(r, outputs); f != nil {
		return nil, true, r.withPrints(w, f)
	}
	if h.Image > keptImage {
		if err := w.output.Truncate(0); err != nil {
			return nil, false, err
		}
	}
	reply := &Reply{Outputs: nameOutputs(call, r.spec.Raw, outputs), Stderr: w.printed.text(),
		Time: h.time(time.Since(begin)), Modified: h.Modified, Findings: w.launches.findings, Dropped: w.launches.dropped,
		image: image}
	return reply, true, nil
}

// withPrints adds what was printed to a failure.
func (r *workerRunner) withPrints(w *worker, err error) error {
	var f *Failure
	if errors.As(err, &f) {
		f.Stderr = w.printed.text()
		if f.Reason == verdict.Crashed {
			return f.withMemory(r.spec.Limits, f.Stderr)
		}
	}
	return err
}

// exchange sends a request and reads its reply. After an error the worker is in an unknown state.
func (r *workerRunner) exchange(
	ctx context.Context, w *worker, header []byte, limit time.Duration, who string,
) (*replyHeader, error) {
	w.printed.reset()
	w.launches = launches{}
	stop := context.AfterFunc(ctx, w.proc.kill)
	defer stop()
	deadline := time.Now().Add(limit)
	if err := errors.Join(w.requests.SetWriteDeadline(deadline), w.replies.SetReadDeadline(deadline)); err != nil {
		return nil, err
	}
	if isDone(w.proc) { // after the deadlines: watch sets its own later than that
		return nil, r.withPrints(w, w.proc.state().failure(who, r.spec.Limits))
	}
	for {
		_, err := w.requests.Write(frame(header))
		var b []byte
		if err == nil {
			b, err = readFrame(w.reader, maxHeader)
		}
		if err != nil {
			return nil, r.withPrints(w, r.lost(w, err, limit, who))
		}
		h, err := parseReplyHeader(b)
		switch {
		case err != nil:
		case h.ID != w.lastID:
			err = fmt.Errorf("reply has id %d, want %d", h.ID, w.lastID)
		case h.Launch != nil && r.spec.Emulator == nil:
			err = errors.New("a launch is no reply")
		case h.Launch == nil:
			return h, nil
		default:
			if header, err = r.launch(ctx, w, h, deadline); err != nil {
				return nil, r.withPrints(w, err)
			}
			continue
		}
		return nil, r.withPrints(w, &Failure{Reason: verdict.BadReply, Msg: fmt.Sprintf("%s: %v", who, err),
			Hint: "see docs/formats/worker-v1.md"})
	}
}

// lost says why no reply came.
func (r *workerRunner) lost(w *worker, err error, limit time.Duration, who string) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && !isDone(w.proc) {
		w.proc.kill()
		<-w.proc.done
		return timedOut(who, limit)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) && !isPipeEnd(err) && !errors.Is(err, os.ErrClosed) {
		return &Failure{Reason: verdict.BadReply, Msg: fmt.Sprintf("%s: %v", who, err)}
	}
	select {
	case <-w.proc.done:
		return w.proc.state().failure(who, r.spec.Limits)
	case <-time.After(closedReplies):
		return &Failure{Reason: verdict.BadReply, Msg: who + " closed file 4 or 3 instead of replying"}
	}
}

// writeImage writes the storages of the inputs as a safetensors image. Wider types come first, so that all are aligned.
func writeImage(f *os.File, call *Call, raw bool) ([]imageRange, int64, error) {
	order := make([]int, len(call.Inputs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return call.Inputs[j].Tensor.DType.Size() - call.Inputs[i].Tensor.DType.Size()
	})
	flat := make([]tensor.Named, len(order))
	total := int64(0)
	for k, i := range order {
		in := call.Inputs[i]
		d := sentDType(in.Tensor.DType, raw)
		t, err := tensor.FromBytes(d, tensor.Shape{len(in.Tensor.Data) / d.Size()}, in.Tensor.Data)
		if err != nil {
			return nil, 0, &Failure{Reason: verdict.Unsupported, Msg: fmt.Sprintf("input %q: %v", in.Name, err)}
		}
		flat[k] = tensor.Named{Name: in.Name, Tensor: t}
		total += int64(len(in.Tensor.Data))
	}
	w := io.NewOffsetWriter(f, 0)
	if err := tensor.WriteSafetensors(w, flat, nil); err != nil {
		return nil, 0, err
	}
	end, err := w.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, 0, err
	}
	ranges := make([]imageRange, len(order))
	at := end - total
	for k, i := range order {
		n := int64(len(flat[k].Tensor.Data))
		ranges[i] = imageRange{at, at + n}
		at += n
	}
	return ranges, end, nil
}

// readImage reads the outputs of a reply, and returns the memory they lie in.
func readImage(f io.ReaderAt, size, limit int64) ([]tensor.Named, []byte, error) {
	b, err := imageBytes(f, size, limit)
	if err != nil {
		return nil, nil, err
	}
	outputs, _, err := tensor.ParseSafetensors(b)
	if err != nil {
		return nil, nil, badImage(err)
	}
	return outputs, b, nil
}

// imageBytes reads an image that the worker wrote.
func imageBytes(f io.ReaderAt, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, &Failure{Reason: verdict.OutputLimit,
			Msg: fmt.Sprintf("the outputs have %d bytes, the limit is %d", size, limit)}
	}
	if info, ok := f.(*os.File); ok { // before memory is allocated for it
		if st, err := info.Stat(); err == nil && st.Size() < size {
			return nil, badImage(fmt.Errorf("it has %d bytes, the header says %d", st.Size(), size))
		}
	}
	b := imageBuffer(size)
	if n, err := f.ReadAt(b, 0); int64(n) < size {
		return nil, badImage(fmt.Errorf("%d of %d bytes read: %w", n, size, err))
	}
	return b, nil
}

func badImage(err error) *Failure {
	return &Failure{Reason: verdict.BadReply, Msg: fmt.Sprintf("the output image is not usable: %v", err)}
}

// isPipeEnd reports whether the other side of a pipe is gone.
func isPipeEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isBrokenPipe(err)
}

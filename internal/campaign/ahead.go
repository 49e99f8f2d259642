package campaign

import (
	"container/list"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/opspec"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
)

// This file implements expected values ahead of time: while a client runs its kernel on a case that was handed out, the
// engine computes what will be wanted. It saves time and decides nothing: what is not there, or no longer there, is
// computed when the outputs come in, by the same function.

const (
	// maxAhead is how many bytes of inputs and expected values wait for outputs: hundreds of cases of ordinary size.
	maxAhead = 256 << 20
	// maxReady is how many bytes of expected values wait for outputs: what a cache of one core holds. What else is handed
	// out is computed when there is room, or when its outputs come in: values that went to memory and back take longer.
	maxReady = 2 << 20
	// maxAheadCases is 64 batches of 64.
	maxAheadCases = 4096
	// aheadIdle is how long a case waits: a client that takes longer has better things to wait for than this.
	aheadIdle = 60 * time.Second
	// maxAheadWorkers bounds the goroutines; submissions and hand-outs want the cores as well.
	maxAheadWorkers = 4
)

// ahead holds the cases that were handed out and not submitted. Its goroutines end when there is nothing to compute.
type ahead struct {
	mu      sync.Mutex
	closed  bool                      // guarded by mu, as all below
	waiting map[caseKey]*list.Element // of order
	order   list.List                 // of *prospect, the first handed out in front
	queue   list.List                 // of *prospect, those not begun
	bytes   int64                     // of inputs and expected values
	ready   int64                     // of expected values alone
	workers int
	expire  *time.Timer
	ended   sync.WaitGroup // workers
}

// prospect is a case whose expected values are being computed. Its state is guarded by ahead.mu.
type prospect struct {
	key    caseKey
	lease  *lease
	cas    opspec.Case
	inputs map[string]*tensor.Tensor
	bytes  int64 // of inputs
	values int64 // bytes of expected values, once they are counted
	handed time.Time
	state  prospectState
	place  *list.Element // of queue, while it is queued
	done   chan struct{} // closed when what follows is set
	outcome
}

type prospectState uint8

const (
	queued prospectState = iota
	begun
	dropped // taken or dropped before it was begun
)

// outcome is what executor.want returned.
type outcome struct {
	wants   []expected
	took    time.Duration
	failure *runner.Failure
	err     error
}

// lease keeps a session open for the cases of a batch.
type lease struct {
	*session
	ctx    context.Context // ends when the batch is given up
	cancel context.CancelFunc

	mu      sync.Mutex
	users   int // guarded by mu
	release func()
}

func (l *lease) add() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
}

func (l *lease) leave() {
	l.mu.Lock()
	l.users--
	last := l.users == 0
	l.mu.Unlock()
	if last {
		l.cancel()
		l.release()
	}
}

// put lets the expected values of a case be computed. The oldest cases make room.
func (a *ahead) put(p *prospect) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.bytes > maxAhead/4 || a.closed {
		return
	}
	if a.waiting == nil {
		a.waiting = map[caseKey]*list.Element{}
	}
	if old, ok := a.waiting[p.key]; ok { // handed out again
		a.remove(old)
	}
	p.lease.add()
	p.handed = time.Now()
	a.waiting[p.key] = a.order.PushBack(p)
	p.place = a.queue.PushBack(p)
	a.bytes += p.bytes
	a.makeRoom()
	if a.expire == nil {
		a.expire = time.AfterFunc(aheadIdle, a.sweep)
	}
	a.hire()
}

// hire starts a worker where there is something for one to do. The caller holds the lock.
func (a *ahead) hire() {
	if a.queue.Len() > 0 && a.ready < maxReady && a.workers < min(runtime.GOMAXPROCS(0), maxAheadWorkers) {
		a.workers++
		a.ended.Go(a.work)
	}
}

// makeRoom forgets the oldest cases where there are too many. The caller holds the lock.
func (a *ahead) makeRoom() {
	for (a.bytes > maxAhead || a.order.Len() > maxAheadCases) && a.order.Len() > 1 {
		a.remove(a.order.Front())
	}
}

// remove forgets a case. The caller holds the lock.
func (a *ahead) remove(e *list.Element) {
	p := e.Value.(*prospect)
	a.order.Remove(e)
	delete(a.waiting, p.key)
	a.bytes, a.ready = a.bytes-p.bytes-p.values, a.ready-p.values
	if p.state == queued {
		p.state = dropped
		a.queue.Remove(p.place)
		p.lease.leave()
	}
}

// sweep forgets cases that have waited for too long.
func (a *ahead) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for e := a.order.Front(); e != nil; e = a.order.Front() {
		left := aheadIdle - time.Since(e.Value.(*prospect).handed)
		if left > 0 {
			a.expire = time.AfterFunc(left, a.sweep)
			return
		}
		a.remove(e)
	}
	a.expire = nil
}

// work computes until nothing is left to do, or enough is ready.
func (a *ahead) work() {
	a.mu.Lock()
	for a.queue.Len() > 0 && a.ready < maxReady {
		p := a.queue.Remove(a.queue.Front()).(*prospect)
		p.state = begun
		a.mu.Unlock()
		p.outcome = p.lease.expect(p.lease.ctx, p.cas, p.inputs)
		p.lease.leave()
		close(p.done)
		a.mu.Lock()
		if e, ok := a.waiting[p.key]; ok && e.Value == p {
			p.values = p.outcome.size()
			a.bytes, a.ready = a.bytes+p.values, a.ready+p.values
			a.makeRoom()
		}
	}
	a.workers--
	a.mu.Unlock()
}

// take returns the case of that key, which nobody else gets, or nil. Its inputs are there; whether its expected values
// are is for outcomeOf to say.
func (a *ahead) take(key caseKey) *prospect {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.waiting[key]
	if !ok {
		return nil
	}
	a.remove(e)
	a.hire() // there may be room for the values of another
	return e.Value.(*prospect)
}

// ready waits for a computation that has begun. It is false where none has, or where it was given up.
func (p *prospect) ready(ctx context.Context) (*outcome, bool) {
	if p.state == dropped { // by take: nobody changes it any more
		return nil, false
	}
	select {
	case <-p.done:
		return &p.outcome, p.err == nil
	case <-ctx.Done():
		return nil, false
	}
}

// drop forgets the cases of a batch that was given up.
func (a *ahead) drop(l *lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for e := a.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*prospect).lease == l {
			a.remove(e)
		}
		e = next
	}
	l.cancel()
}

// close forgets everything and waits for what is being computed.
func (a *ahead) close() {
	a.mu.Lock()
	a.closed = true
	if a.expire != nil {
		a.expire.Stop()
	}
	for e := a.order.Front(); e != nil; e = a.order.Front() {
		e.Value.(*prospect).lease.cancel()
		a.remove(e)
	}
	a.mu.Unlock()
	a.ended.Wait()
}

// expect computes what the outputs of a case are compared with. A panic is an error: the submission meets it again, and
// answers for it.
func (s *session) expect(ctx context.Context, c opspec.Case, inputs map[string]*tensor.Tensor) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			out = outcome{err: fmt.Errorf("%v\n%s", p, debug.Stack())}
		}
	}()
	out.wants, out.took, out.failure, out.err = s.executor.want(ctx, s.subject, c, inputs)
	return out
}

// size is how many bytes the expected values have.
func (o *outcome) size() int64 {
	n := int64(0)
	for i := range o.wants {
		n += wantBytes(o.wants[i].want)
	}
	return n
}

func wantBytes(w *compare.Want) int64 {
	n := 8*(len(w.Value)+len(w.Bound)) + len(w.Undetermined)
	if w.Ties != nil {
		n += 8 * (len(w.Ties.Score) + len(w.Ties.Slack))
	}
	for _, t := range []*tensor.Tensor{w.Exact, w.Stored} {
		if t != nil {
			n += len(t.Data)
		}
	}
	return int64(n)
}

// prepare lets the expected values of a case that was handed out be computed. It has to be one of the op's own schema,
// as those of the stream are.
func (b *Batch) prepare(c opspec.Case, inputs map[string]*tensor.Tensor) {
	if b.lease == nil || commonValues(c) == valuesStored {
		return
	}
	if b.stream == nil && b.lease.subject.schemaOf(c) != b.lease.subject.schema {
		return
	}
	if n, err := b.subject.bytes(c); err != nil || n > maxAhead/4/judged {
		return // its expected values would take more than what is there for all
	}
	p := &prospect{key: b.lease.caseKey(c.String()), lease: b.lease, cas: c, inputs: inputs, done: make(chan struct{})}
	for _, t := range inputs {
		p.bytes += int64(len(t.Data))
	}
	b.engine.ahead.put(p)
}

// caseKey is what a case is found by: everything that its expected values depend on.
type caseKey struct{ session, digest, text string }

func (s *session) caseKey(text string) caseKey { return caseKey{s.key, s.digest, text} }

// Close ends the batch. The cases of one that was given up, with the connection that asked for it, are forgotten.
func (b *Batch) Close(givenUp bool) {
	b.release()
	if b.lease == nil {
		return
	}
	if givenUp {
		b.engine.ahead.drop(b.lease)
	}
	b.lease.leave()
}

// open makes the op of a batch ready for computing ahead. Where that fails nothing is computed: the submission says
// why.
func (b *Batch) open(ctx context.Context, p Project, op string) {
	sess, release, err := b.engine.session(ctx, p, op)
	if err != nil {
		return
	}
	if sess.subject.reference == "" {
		release()
		return
	}
	b.lease = &lease{session: sess, users: 1, release: release}
	b.lease.ctx, b.lease.cancel = context.WithCancel(context.Background())
}

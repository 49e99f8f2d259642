package campaign

import (
	"context"
	"sync"
	"time"

	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements sessions: one op ready to be executed or judged, kept between requests that come one case at a
// time.

// sessionIdle is how long the processes of an op wait for the next request: long enough for a client that runs its
// kernel in between, short enough not to keep interpreters of finished work.
const sessionIdle = 60 * time.Second

// maxSessions bounds the processes kept.
const maxSessions = 8

// sessions are the ops in use. Guarded by mu.
type sessions struct {
	mu   sync.Mutex
	open map[string]*session
}

// session is one op with its runners.
type session struct {
	subject  *subject
	executor *executor
	key      string    // of the op in sessions.open
	digest   string    // of configuration and code
	users    int       // guarded by sessions.mu, as all below
	since    time.Time // without use
	idle     *time.Timer
}

// session returns the op ready for use; release must be called when done. A changed configuration or code file gets
// new processes.
func (e *Engine) session(ctx context.Context, p Project, op string) (*session, func(), error) {
	s, err := resolveSubject(p.Config, op)
	if err != nil {
		return nil, nil, err
	}
	if err := e.loadCalibrations(ctx, p, []*subject{s}); err != nil {
		return nil, nil, err
	}
	key := p.path() + "\x00" + op
	probe := &executor{engine: e, project: p}
	if _, builtin := builtinName(s.reference); !builtin || s.candidate != "" { // else nothing is executed
		key += "\x00" + probe.python(s) + "\x00" + p.environment()
	}
	digest := probe.codeDigest([]*subject{s}) + probe.surroundings(s)
	if p.Config != nil {
		digest += p.Config.Digest
	}
	e.sessions.mu.Lock()
	defer e.sessions.mu.Unlock()
	old := e.sessions.open[key]
	if old != nil && old.digest == digest {
		if old.idle != nil {
			old.idle.Stop()
		}
		old.users++
		// Each user has a subject of its own: a calibration may have been stored since, and others are judging by theirs.
		own := &session{subject: s, executor: old.executor, key: key, digest: digest}
		giveBack := old.executor.lend(s, old.subject)
		return own, func() { giveBack(); e.release(key, old) }, nil
	}
	x, err := e.newExecutor(p, []*subject{s}, 1, forJudging)
	if err != nil {
		return nil, nil, err
	}
	fresh := &session{subject: s, executor: x, key: key, digest: digest, users: 1}
	if e.sessions.open == nil {
		e.sessions.open = map[string]*session{}
	}
	switch {
	case old != nil && old.users == 0:
		old.close()
	case old == nil && len(e.sessions.open) >= maxSessions:
		e.evict()
	}
	if old != nil || len(e.sessions.open) < maxSessions {
		e.sessions.open[key] = fresh // whoever still uses the old one closes it
	}
	return fresh, func() { e.release(key, fresh) }, nil
}

// evict ends the session that has been without use for longest, if there is one. The caller holds the lock.
func (e *Engine) evict() {
	oldest := ""
	for key, s := range e.sessions.open {
		if s.users == 0 && (oldest == "" || s.since.Before(e.sessions.open[oldest].since)) {
			oldest = key
		}
	}
	if oldest != "" {
		e.sessions.open[oldest].close()
		delete(e.sessions.open, oldest)
	}
}

// close ends the processes of a session that nobody uses.
func (s *session) close() {
	if s.idle != nil {
		s.idle.Stop()
	}
	s.executor.close()
}

// release ends the use of a session. One that is not kept is closed at once, others after a while without use.
func (e *Engine) release(key string, s *session) {
	e.sessions.mu.Lock()
	defer e.sessions.mu.Unlock()
	s.users--
	switch {
	case s.users > 0:
	case e.sessions.open[key] != s:
		s.executor.close()
	default:
		s.since = time.Now()
		s.idle = time.AfterFunc(sessionIdle, func() {
			e.sessions.mu.Lock()
			defer e.sessions.mu.Unlock()
			if s.users == 0 && e.sessions.open[key] == s {
				delete(e.sessions.open, key)
				s.executor.close()
			}
		})
	}
}

// Close ends the processes of all sessions. No request may be running.
func (e *Engine) Close() {
	e.ahead.close()
	e.sessions.mu.Lock()
	defer e.sessions.mu.Unlock()
	for key, s := range e.sessions.open {
		s.close()
		delete(e.sessions.open, key)
	}
}

// run executes a case of the session and judges it.
func (s *session) run(
	ctx context.Context, schema *opspec.Schema, c opspec.Case, inputs map[string]*tensor.Tensor,
) (*verdict.Result, error) {
	sub := s.subject.with(schema)
	res := &verdict.Result{DType: c.DType.String(), Case: c.String(), Seed: verdict.Seed(c.Seed)}
	sub.stamp(res)
	start := time.Now()
	if b := s.subject.blocked; b != nil {
		res.Verdict, res.Reason, res.Message, res.Hint = verdict.NotRun, b.reason, b.msg, b.hint
	} else {
		defer s.executor.lend(sub, s.subject)()
		if err := s.executor.attempt(ctx, sub, c, inputs, res); err != nil {
			return nil, err
		}
	}
	res.Duration, res.Time = time.Since(start), s.executor.engine.Now()
	return res, nil
}

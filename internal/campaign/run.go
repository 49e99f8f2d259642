package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
)

// This file implements a campaign: preparation, the workers, the order of results, and how it ends.

// Request is what a campaign is asked to do.
type Request struct {
	Kind    string // test, fuzz or ci
	Project Project
	Options Options
	// Lint is what was found in the compiled kernels of the project, for the summary; nil where none was looked at.
	Lint *verdict.Lint
	// Resume continues an interrupted campaign: its identifier, or "" for the newest one that fits. Nil: a new one.
	Resume *string
	// Conclude is called with the summary when all that was run is stored, and before the summary is; nil: nothing is to
	// be added. Until it returns the campaign counts as running. Its error is that of Execute.
	Conclude func(ctx context.Context, sum *verdict.Summary) error
}

// Event is news of a running campaign.
type Event struct {
	Counts  verdict.Counts
	Planned int
	// Result is the case just finished.
	Result *verdict.Result
}

// Run is one prepared campaign.
type Run struct {
	ID      string
	Seed    uint64
	Planned int // cases of this shard
	// Resumed is the number of cases that were finished before.
	Resumed int

	engine   *Engine
	request  Request
	plan     *plan
	subjects []*subject
	executor *executor
	done     func(index int) bool
	tally    verdict.Tally
	health   health
	started  time.Time
}

// window is how far workers may run ahead of the oldest unfinished case. Results are handed on in the order of their
// indexes, so that a run with fail-fast ends at the same case whatever the parallelism; the window keeps what waits
// small.
const window = 256

// Prepare checks everything that can be wrong before the first case runs, and records the campaign.
func (e *Engine) Prepare(ctx context.Context, req Request) (*Run, error) {
	p, subjects, err := newPlan(req.Kind, req.Project.Config, &req.Options)
	if err != nil {
		return nil, err
	}
	if p.total == 0 && req.Lint == nil {
		return nil, diag.Errorf(NothingToRun,
			"add [[ops]] to gpuemu.toml, or name an operator of the catalogue with --op", "there is nothing to run")
	}
	if err := e.loadCalibrations(ctx, req.Project, subjects); err != nil {
		return nil, err
	}
	if err := checkRules(p, &req.Options); err != nil {
		return nil, err
	}
	x, err := e.newExecutor(req.Project, subjects, req.Options.workers(), forRunning)
	if err != nil {
		return nil, err
	}
	r := &Run{
		Seed: p.seed, Planned: req.Options.Shard.count(p.total),
		engine: e, request: req, plan: p, subjects: subjects, executor: x, done: func(int) bool { return false },
	}
	for _, sub := range subjects {
		if sizes := cappedSizes(sub.schema); sizes != "" {
			r.health.cap(sub.name, sizes)
		}
	}
	if err := r.record(ctx); err != nil {
		x.close()
		return nil, err
	}
	return r, nil
}

// checkRules notes every dtype that a case may have, and finds regimes that cannot be applied before anything runs.
func checkRules(p *plan, o *Options) error {
	for i := range p.segments {
		seg := &p.segments[i]
		if seg.subject.blocked != nil || len(seg.streams) == 0 {
			continue
		}
		types := []dtype.DType{seg.dtype}
		if seg.dtype == dtype.Invalid {
			types = seg.subject.types(o.DTypes, len(o.DTypes) > 0)
		}
		for _, d := range types {
			if _, err := seg.subject.rules.options(d, d, seg.subject.entry != nil); err != nil {
				return fmt.Errorf("op %q: %w", seg.subject.name, err)
			}
			if !slices.Contains(seg.subject.planned, d) {
				seg.subject.planned = append(seg.subject.planned, d)
			}
		}
	}
	return nil
}

func (o *Options) workers() int {
	if o.Parallel > 0 {
		return o.Parallel
	}
	return runtime.GOMAXPROCS(0)
}

// identity is what must be equal for a campaign to be continued: everything that decides which cases there are and
// what judges them.
type identity struct {
	Kind       string
	Ops        []string
	Quick      bool
	Seed       verdict.Seed
	Iterations int
	FailFast   bool
	Shard      string
	Values     string
	Shapes     string
	DTypes     []string
	Layouts    []string
	Ranks      []int `json:",omitempty"`
	Gen        int
}

func (r *Run) identity() json.RawMessage {
	o := &r.request.Options
	id := identity{Kind: r.request.Kind, Ops: o.Ops, Quick: o.Quick, Seed: verdict.Seed(r.Seed), Iterations: o.Iterations,
		FailFast: o.FailFast, Shard: o.Shard.String(), Values: o.Values, Shapes: o.Shapes, Gen: opspec.GenVersion,
		Ranks: o.Ranks}
	for _, d := range o.DTypes {
		id.DTypes = append(id.DTypes, d.String())
	}
	for _, l := range o.Layouts {
		id.Layouts = append(id.Layouts, l.String())
	}
	b, err := json.Marshal(id)
	if err != nil {
		panic("campaign: internal error: " + err.Error()) // plain strings and numbers always marshal
	}
	return b
}

// record creates the campaign in the store, or finds the one to continue.
func (r *Run) record(ctx context.Context) error {
	r.started = r.engine.Now()
	c := &store.Campaign{
		Kind: r.request.Kind, Project: r.request.Project.name(), ConfigPath: r.request.Project.path(),
		CodeDigest: r.executor.codeDigest(r.subjects), Seed: verdict.Seed(r.Seed), Request: r.identity(),
		Planned: r.Planned, Shard: r.request.Options.Shard.String(), State: store.Running, Started: r.started,
	}
	if cfg := r.request.Project.Config; cfg != nil {
		c.ConfigDigest, c.MaxInputs = cfg.Digest, int64(cfg.Store.MaxInputs)<<20
	}
	if r.request.Resume != nil {
		return r.resume(ctx, c)
	}
	if err := r.engine.Store.CreateCampaign(ctx, c); err != nil {
		return err
	}
	r.ID = c.ID
	return nil
}

// resume finds the campaign to continue, takes it over and reads what of it is finished.
func (r *Run) resume(ctx context.Context, now *store.Campaign) error {
	before, err := r.interrupted(ctx, *r.request.Resume, now)
	if err != nil {
		return err
	}
	refuse := func(what string) error {
		return diag.Errorf(NotResumable, "start a new run without --resume",
			"campaign %s cannot be continued: %s changed since it was started", before.ID, what)
	}
	switch {
	case before.ConfigDigest != now.ConfigDigest:
		return refuse("the configuration")
	case before.CodeDigest != now.CodeDigest:
		return refuse("a candidate or reference")
	case string(before.Request) != string(now.Request):
		return refuse("the options")
	}
	// Taken over before its results are read: from here on no other process adds to them.
	if _, err := r.engine.Store.Resume(ctx, before.ID); err != nil {
		return err
	}
	r.ID, r.started = before.ID, before.Started
	if err := r.finishedBefore(ctx); err != nil {
		// Whoever tries next must not be told that this process is at it.
		_ = r.engine.Store.FinishCampaign(context.WithoutCancel(ctx), r.ID, store.Interrupted, before.Summary)
		return err
	}
	return nil
}

// finishedBefore reads what is finished of the campaign to be continued.
func (r *Run) finishedBefore(ctx context.Context) error {
	done, n, err := r.engine.Store.FinishedIndexes(ctx, r.ID)
	if err != nil {
		return err
	}
	r.done, r.Resumed = done, n
	return r.engine.Store.Results(ctx, r.ID, func(res *verdict.Result) error {
		r.tally.Add(res)
		r.health.add(res)
		return nil
	})
}

// interrupted returns the campaign of that identifier, or the newest unfinished one of the same configuration, kind
// and options. One that is being run is left alone.
func (r *Run) interrupted(ctx context.Context, id string, now *store.Campaign) (*store.Campaign, error) {
	if id != "" {
		c, err := r.engine.Store.Campaign(ctx, id)
		if err != nil {
			return nil, err
		}
		switch {
		case c.State == store.Standing:
			return nil, diag.Errorf(NotResumable, "name one that test, fuzz or ci started",
				"campaign %s collects results that belong to no campaign", id)
		case c.State == store.Finished:
			return nil, diag.Errorf(NotResumable, "gpuemu report shows its results", "campaign %s is finished", id)
		}
		runs, err := r.engine.runs(c)
		if err == nil && runs {
			err = beingRun(c)
		}
		return c, err
	}
	list, err := r.engine.Store.Campaigns(ctx, store.CampaignFilter{ConfigPath: now.ConfigPath, Kind: now.Kind})
	if err != nil {
		return nil, err
	}
	var busy *store.Campaign
	for i := range list {
		c := &list[i]
		if c.State == store.Finished || c.Seed != now.Seed || string(c.Request) != string(now.Request) {
			continue
		}
		runs, err := r.engine.runs(c)
		if err != nil {
			return nil, err
		}
		if !runs {
			return c, nil
		}
		busy = c
	}
	if busy != nil {
		return nil, beingRun(busy)
	}
	return nil, diag.Errorf(NotResumable,
		"start a new run without --resume; with another seed or options give the campaign's name",
		"there is no interrupted %s campaign with these options to continue", now.Kind)
}

// Execute runs the campaign. Results so far are kept whatever happens; the summary says whether it is complete. The
// error is one of the store. observe is called in the order of the cases, from one goroutine at a time; nil is
// allowed.
func (r *Run) Execute(ctx context.Context, observe func(Event)) (*verdict.Summary, error) {
	defer r.executor.close()
	if !r.engine.begin(r.ID) {
		return nil, beingRun(&store.Campaign{ID: r.ID, PID: os.Getpid()})
	}
	defer r.engine.end(r.ID)
	if observe == nil {
		observe = func(Event) {}
	}
	runCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if limit := r.request.Options.TimeLimit; limit > 0 {
		timer := time.AfterFunc(limit, func() { cancel(errTimeLimit) })
		defer timer.Stop()
	}
	writer := r.engine.Store.Writer(r.ID)
	err := r.work(runCtx, cancel, writer, observe)
	if closeErr := writer.Close(); err == nil {
		err = closeErr
	}
	sum := r.summary(context.Cause(runCtx))
	sum.Complete = sum.Complete && err == nil // all that was executed is counted, but not all of it may be stored
	state := store.Finished
	if !sum.Complete {
		state = store.Interrupted
	}
	if sum.Stopped == StoppedFailFast {
		state = store.Finished
	}
	if r.request.Conclude != nil && err == nil {
		err = r.request.Conclude(ctx, sum)
	}
	// The campaign's own context may be cancelled; how it ended is recorded all the same.
	if finishErr := r.engine.Store.FinishCampaign(context.WithoutCancel(ctx), r.ID, state, sum); err == nil {
		err = finishErr
	}
	return sum, err
}

// Why a campaign ends before its last case.
var (
	errTimeLimit = errors.New("time limit")
	errFailFast  = errors.New("fail fast")
)

const (
	StoppedFailFast  = "fail-fast"
	stoppedTime      = "time-limit"
	stoppedCancelled = "cancelled"
)

// work runs the cases. Goroutines: the workers, each of which takes the next index and puts its result into the order;
// whoever completes the order's head hands results on under its lock.
func (r *Run) work(ctx context.Context, cancel context.CancelCauseFunc, w *store.Writer, observe func(Event)) error {
	indexes := r.indexes(ctx)
	out := newOrder(func(res *verdict.Result) error {
		if err := w.Add(context.WithoutCancel(ctx), res); err != nil {
			return err
		}
		r.tally.Add(res)
		r.health.add(res)
		observe(Event{Counts: r.tally.Counts(), Planned: r.Planned, Result: res})
		if r.request.Options.FailFast && res.Verdict.Failed() {
			return errFailFast
		}
		return nil
	})
	var wg sync.WaitGroup
	for range r.request.Options.workers() {
		wg.Go(func() {
			for t := range indexes {
				if !out.wait(ctx, t.position) {
					return
				}
				res, err := r.executor.execute(ctx, r.plan.at(t.index))
				if err != nil {
					return // cancelled: the case runs again on resume
				}
				if err := out.put(t.position, res); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	// A run that is ended from outside keeps what is finished behind a case that is not.
	if err := out.flush(); !errors.Is(err, errFailFast) {
		return err
	}
	cancel(errFailFast)
	return nil
}

// task is a case to run: its index in the plan and its position among those to run now.
type task struct{ position, index int }

// indexes sends what is to be run until the context ends.
func (r *Run) indexes(ctx context.Context) <-chan task {
	ch := make(chan task)
	go func() {
		defer close(ch)
		position := 0
		for i := range r.plan.total {
			if !r.request.Options.Shard.has(i) || r.done(i) {
				continue
			}
			select {
			case ch <- task{position, i}:
				position++
			case <-ctx.Done():
				return
			}
		}
	}()
	return ch
}

// summary counts what is finished and says why it is not more.
func (r *Run) summary(cause error) *verdict.Summary {
	s := &verdict.Summary{
		Campaign: r.ID, Kind: r.request.Kind, Project: r.request.Project.name(), Seed: verdict.Seed(r.Seed),
		Planned: r.Planned, Started: r.started, Duration: r.engine.Now().Sub(r.started),
		Counts: r.tally.Counts(), Ops: r.tally.Ops(), Shard: r.request.Options.Shard.String(), PlannedTotal: r.plan.total,
		Lint: r.request.Lint,
	}
	s.Complete = s.Total == r.Planned
	if !s.Complete {
		switch {
		case errors.Is(cause, errFailFast):
			s.Stopped = StoppedFailFast
		case errors.Is(cause, errTimeLimit):
			s.Stopped = stoppedTime
			if r.request.Kind == KindFuzz && s.Total > 0 {
				s.Planned = s.Total // as many as fit is what a time limit asks for
			}
		default:
			s.Stopped = stoppedCancelled
		}
	}
	s.Health = r.health.checks(r.silenced())
	return s
}

// silenced are the health checks that the configuration does not want to hear of.
func (r *Run) silenced() []string {
	if cfg := r.request.Project.Config; cfg != nil {
		return cfg.Validation.Silence
	}
	return nil
}

package main

// This file implements the study as a list of tasks: which subjects a run is about, who works on them, and how records
// come out in the order of the list whatever the number of workers.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"gpuemu/bench/detection/record"
	"gpuemu/internal/campaign"
	"gpuemu/internal/config"
	"gpuemu/internal/corpus"
	"gpuemu/internal/dtype"
	"gpuemu/internal/store"
)

// study is one run over the corpus.
type study struct {
	arch    string
	dir     string // scratch
	cases   int    // of a campaign
	samples int    // of a comparison with the base
	seeds   []uint64
	full    bool // campaigns go on after the first failing case

	kernels []corpus.Kernel
	mutants []corpus.Mutant // those of the run

	mu           sync.Mutex // guards the maps
	subjects     map[string]*subject
	calibrations map[string]*calibration // by base kernel and number format
}

// task is one record to be made.
type task struct {
	id, setting string
	do          func(ctx context.Context, w *worker) (*record.Record, error)
}

// worker does tasks, one at a time. Its engine has a store of its own: stores have one writer.
type worker struct {
	study  *study
	engine *campaign.Engine
}

// choose takes the kernels and mutants whose ids match. Mutants of held-out operators take part only where they are
// asked for.
func (st *study) choose(kernels []corpus.Kernel, mutants []corpus.Mutant, only *regexp.Regexp, heldOut bool) error {
	for _, k := range kernels {
		if only.MatchString(k.Name) {
			st.kernels = append(st.kernels, k)
		}
	}
	for _, m := range mutants {
		if only.MatchString(m.ID) && (heldOut || !m.HeldOut) {
			st.mutants = append(st.mutants, m)
		}
	}
	if len(st.kernels)+len(st.mutants) == 0 {
		return fmt.Errorf("-only %q: the corpus has no such kernel or mutant", only)
	}
	return nil
}

// baseOf is the base kernel of a mutant, and of a base kernel itself.
func (st *study) baseOf(id string) string {
	if i := slices.IndexFunc(st.mutants, func(m corpus.Mutant) bool { return m.ID == id }); i >= 0 {
		return st.mutants[i].Kernel
	}
	return id
}

// ids are those of kernels and mutants, as a run takes them.
func (st *study) ids(kernels, mutants bool) (list []string) {
	if kernels {
		for i := range st.kernels {
			list = append(list, st.kernels[i].Name)
		}
	}
	if mutants {
		for i := range st.mutants {
			list = append(list, st.mutants[i].ID)
		}
	}
	return list
}

// subject is a kernel or mutant with a project of its own, written when it is first asked for. Several workers share
// it and none changes it.
func (st *study) subject(id string) (*subject, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.subjects[id]; s != nil {
		return s, nil
	}
	dir := filepath.Join(st.dir, "projects", id)
	if err := corpus.WriteProject(dir, st.arch, id); err != nil {
		return nil, err
	}
	cfg, err := config.Load(filepath.Join(dir, config.FileName))
	if err != nil {
		return nil, err
	}
	s, err := newSubject(cfg)
	if err != nil {
		return nil, err
	}
	st.subjects[id] = s
	return s, nil
}

// tasks of a run, by its name.
func (st *study) tasks(run string) (list []task, err error) {
	add := func(id, setting string, do job) {
		list = append(list, task{id, setting, func(ctx context.Context, w *worker) (*record.Record, error) {
			s, err := st.subject(id)
			if err != nil {
				return nil, err
			}
			start := time.Now()
			rec, err := do(ctx, w, s)
			if rec != nil {
				rec.Run, rec.Setting = run, setting
				if rec.Seconds == 0 {
					rec.Seconds = seconds(time.Since(start))
				}
			}
			return rec, err
		}})
	}
	switch run {
	case record.FalseAlarms:
		for _, k := range st.kernels {
			for _, values := range []string{"mixed", "adversarial"} {
				for _, d := range k.DTypes {
					add(k.Name, values, st.falseAlarms(values, d))
				}
			}
		}
	case record.Ours:
		for _, id := range st.ids(false, true) {
			for _, seed := range st.seeds {
				add(id, "", st.ours(seed))
			}
		}
	case record.Strategies:
		for _, id := range st.ids(true, true) {
			for i := range strategies {
				for _, seed := range st.seeds {
					add(id, strategies[i].name, st.strategy(&strategies[i], seed))
				}
			}
		}
	case record.Regimes:
		for _, id := range st.ids(true, true) {
			for i := range regimes {
				for _, seed := range st.seeds {
					add(id, regimes[i].name, st.regime(&regimes[i], seed))
				}
			}
		}
	case record.Baselines:
		for _, id := range st.ids(true, true) {
			for i := range baselines {
				add(id, baselines[i].name, func(ctx context.Context, _ *worker, s *subject) (*record.Record, error) {
					return baselines[i].run(ctx, s)
				})
			}
		}
	case record.Equivalence:
		for _, id := range st.ids(false, true) {
			add(id, "", func(ctx context.Context, _ *worker, s *subject) (*record.Record, error) {
				base, err := st.subject(st.baseOf(id))
				if err != nil {
					return nil, err
				}
				return compareBits(ctx, base, s, st.samples, st.seeds[0])
			})
		}
	default:
		return nil, fmt.Errorf("there is no run %q", run)
	}
	return list, nil
}

// job is what a task does with its subject.
type job func(ctx context.Context, w *worker, s *subject) (*record.Record, error)

// falseAlarms runs a base kernel, which is right: every failing case is a false alarm.
func (st *study) falseAlarms(values string, d dtype.DType) job {
	return func(ctx context.Context, w *worker, s *subject) (*record.Record, error) {
		rec, err := w.fuzz(ctx, s.config, campaign.Options{Seed: &st.seeds[0], Iterations: st.cases, Values: values,
			DTypes: []dtype.DType{d}}, untilEnd)
		if rec != nil {
			rec.DType = d.String()
		}
		return rec, err
	}
}

// ours runs a mutant as gpuemu fuzz does by default.
func (st *study) ours(seed uint64) job {
	end := untilFirst
	if st.full {
		end = untilEnd
	}
	return func(ctx context.Context, w *worker, s *subject) (*record.Record, error) {
		return w.fuzz(ctx, s.config, campaign.Options{Seed: &seed, Iterations: st.cases}, end)
	}
}

// end is when campaigns of runs strategies and regimes end: that of a mutant when it is found by its values, that of a
// base kernel with the last case, because the share of its cases that fail is a figure as well.
func (st *study) end(id string) until {
	if st.full || st.baseOf(id) == id {
		return untilEnd
	}
	return untilValues
}

func (st *study) strategy(way *strategy, seed uint64) job {
	return func(ctx context.Context, w *worker, s *subject) (*record.Record, error) {
		o, ok := way.options(s)
		if !ok {
			return &record.Record{ID: s.id, Seed: fmt.Sprint(seed), Message: "not compiled for " + way.dtype.String()}, nil
		}
		o.Seed, o.Iterations = &seed, st.cases
		return w.fuzz(ctx, s.config, o, st.end(s.id))
	}
}

func (st *study) regime(way *regime, seed uint64) job {
	return func(ctx context.Context, w *worker, s *subject) (*record.Record, error) {
		cfg := *s.config
		cfg.Ops = slices.Clone(cfg.Ops)
		if err := way.apply(ctx, w, s, &cfg.Ops[0]); err != nil {
			return nil, err
		}
		return w.fuzz(ctx, &cfg, campaign.Options{Seed: &seed, Iterations: st.cases, Values: way.values}, st.end(s.id))
	}
}

// work does the tasks with so many workers and hands records on in the order of the tasks, from the caller's goroutine.
// A task that goes wrong is reported to failed and leaves no record. It ends early when ctx does. Goroutines: the
// workers, one that gives them tasks, one that waits for their end.
func (st *study) work(
	ctx context.Context, list []task, workers int, done func(i int, rec *record.Record), failed func(i int, err error),
) error {
	type result struct {
		i   int
		rec *record.Record
		err error
	}
	var pool []*worker
	for n := range workers {
		w, closeWorker, err := st.newWorker(ctx, n)
		if err != nil {
			return err
		}
		defer closeWorker()
		pool = append(pool, w)
	}
	next, results := make(chan int), make(chan result)
	var all sync.WaitGroup
	for _, w := range pool {
		all.Go(func() {
			for i := range next {
				rec, err := list[i].do(ctx, w)
				results <- result{i, rec, err}
			}
		})
	}
	go func() {
		defer close(next)
		for i := range list {
			select {
			case next <- i:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return
			}
		}
	}()
	go func() { all.Wait(); close(results) }()
	waiting, head := map[int]result{}, 0
	for r := range results {
		waiting[r.i] = r
		for got, ok := waiting[head]; ok; got, ok = waiting[head] {
			delete(waiting, head)
			switch {
			case got.err == nil:
				done(head, got.rec)
			case !errors.Is(got.err, context.Canceled):
				failed(head, got.err)
			}
			head++
		}
	}
	return nil
}

// newWorker opens an engine.
func (st *study) newWorker(ctx context.Context, n int) (*worker, func(), error) {
	dir := filepath.Join(st.dir, fmt.Sprintf("worker%d", n))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	db, err := store.Open(ctx, filepath.Join(dir, "db"), store.Options{})
	if err != nil {
		return nil, nil, err
	}
	e := &campaign.Engine{Store: db, RunDir: dir, Now: time.Now}
	return &worker{st, e}, func() { e.Close(); _ = db.Close() }, nil // a scratch store: nothing of it is needed
}

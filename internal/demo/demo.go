// Package demo shows what gpuemu is for on the kernels of package corpus: each is judged by the check that most
// kernels get, one shape and allclose, and by a campaign, on the CPU and without anything else installed.
//
// It judges nothing itself: campaigns do, as they would for any project. It prints nothing. The main function is Run;
// its Document is the same for every number of workers, seconds apart.
package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/config"
	"gpuemu/internal/corpus"
	"gpuemu/internal/store"
	"gpuemu/internal/verdict"
)

// This file implements the run: a project of kernels, and rows as they are finished.

// Format is the version of the JSON form of a Document.
const Format = 1

// Limits of a row. They are counts, not times: what is shown does not depend on the machine.
const (
	// Seed is the master seed of all campaigns.
	Seed = 1
	// soundCases are how many cases a right kernel gets here; the study has 200 for each number format and strategy.
	soundCases = 12
	// brokenCases are how many cases a wrong kernel gets until one of them fails.
	brokenCases = campaign.DefaultIterations
	// shrinkRuns are how many executions the smallest failing case may cost.
	shrinkRuns = campaign.DefaultMinimiseIters
)

// Options of Run.
type Options struct {
	Dir     string // where the project and its results are written
	IDs     []string
	Workers int // rows at once; 0: one per processor
	Now     func() time.Time
	// Progress is told of every case and row; calls come from one goroutine at a time. nil is allowed.
	Progress func(Progress)
}

// Progress is how far a run has come. Rows are finished in their order.
type Progress struct {
	Row         *Row // the one that is finished now; nil: one more case is
	Done, Total int  // rows
	Cases       int
}

// Document is what came out.
type Document struct {
	Format  int     `json:"gpuemu_demo"`
	Version string  `json:"version,omitempty"` // of gpuemu
	Seed    string  `json:"seed"`
	Kernels []Row   `json:"kernels"`
	Summary Summary `json:"summary"`
	Seconds float64 `json:"seconds"`
}

// Summary counts rows.
type Summary struct {
	Sound  int `json:"sound"`
	Broken int `json:"broken"`
	Cases  int `json:"cases"` // executed in campaigns
	// AllcloseAccepts are broken kernels that one shape and allclose accept, Found those that a campaign finds,
	// FalseAlarms the sound ones that it accuses, and NotRun those that could not be judged.
	AllcloseAccepts int `json:"allclose_accepts"`
	Found           int `json:"found"`
	FalseAlarms     int `json:"false_alarms"`
	NotRun          int `json:"not_run"`
}

// AsExpected reports whether every kernel was judged, and as the corpus says.
func (s *Summary) AsExpected() bool {
	return s.Found == s.Broken && s.FalseAlarms == 0 && s.NotRun == 0
}

// Row is one kernel.
type Row struct {
	Entry
	Allclose Allclose        `json:"allclose"`
	Verdict  verdict.Verdict `json:"verdict"` // of the campaign
	Cases    int             `json:"cases"`   // until the first that fails
	Fail     *Failure        `json:"fail,omitempty"`
	// Message is why there is no verdict.
	Message string  `json:"message,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Failure is the first failing case of a row and the smallest one that fails in the same way.
type Failure struct {
	Reason    verdict.Reason `json:"reason"`
	Case      string         `json:"case"`
	Seed      verdict.Seed   `json:"seed"`
	Message   string         `json:"message"`
	Diagnosis string         `json:"diagnosis"`
	// DiagnosisOfFirst: the diagnosis counts the errors of the first failing case; else it is about the smallest.
	DiagnosisOfFirst bool   `json:"diagnosis_of_first"`
	Smallest         string `json:"smallest"` // the text of that case
	// SmallestSeed replays it in the project's own store: its values may be none that a seed gives.
	SmallestSeed verdict.Seed `json:"smallest_seed"`
	Short        string       `json:"short"` // the smallest case in a few words
}

// run is one run.
type run struct {
	opt     Options
	engine  *campaign.Engine
	project campaign.Project
	rows    []Row

	mu    sync.Mutex
	ended []bool // guarded by mu, as all below
	next  int    // the first row that has not been told of
	cases int
}

// Run writes a project of the kernels and judges each of them. The error is one of the directory, the corpus or ctx:
// a kernel that cannot be judged is a row that says so.
func Run(ctx context.Context, opt Options) (*Document, error) {
	begin := opt.Now()
	if err := corpus.WriteProject(opt.Dir, corpus.MutantArch, opt.IDs...); err != nil {
		return nil, err
	}
	cfg, err := config.Load(filepath.Join(opt.Dir, config.FileName))
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, filepath.Join(Home(opt.Dir), "db"), store.Options{Now: opt.Now})
	if err != nil {
		return nil, err
	}
	r := &run{opt: opt, project: campaign.Project{Config: cfg},
		engine: &campaign.Engine{Store: st, RunDir: opt.Dir, Now: opt.Now}}
	defer st.Close()
	defer r.engine.Close()
	entries := map[string]Entry{}
	for _, e := range All() {
		entries[e.ID] = e
	}
	for _, id := range opt.IDs {
		r.rows = append(r.rows, Row{Entry: entries[id]})
	}
	r.ended = make([]bool, len(r.rows))
	if err := r.all(ctx); err != nil {
		return nil, err
	}
	doc := &Document{Format: Format, Seed: fmt.Sprint(Seed), Kernels: r.rows, Seconds: opt.Now().Sub(begin).Seconds()}
	for i := range r.rows {
		doc.Summary.add(&r.rows[i])
	}
	return doc, nil
}

// Home is where the results of a project in dir are kept: GPUEMU_HOME of commands that are to know them.
func Home(dir string) string { return filepath.Join(dir, "home") }

// all judges the rows. Goroutines: one per worker, each of which takes the next row; r.mu guards what they share. The
// first error ends all of them.
func (r *run) all(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := r.opt.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	indexes := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range indexes {
				if err := r.one(ctx, &r.rows[i]); err != nil {
					cancel(err)
					return
				}
				r.finished(i)
			}
		})
	}
	for i := range r.rows {
		select {
		case indexes <- i:
		case <-ctx.Done():
		}
	}
	close(indexes)
	wg.Wait()
	return context.Cause(ctx)
}

// finished tells of rows in their order.
func (r *run) finished(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[i] = true
	for r.next < len(r.rows) && r.ended[r.next] {
		r.next++
		r.tell(&r.rows[r.next-1])
	}
}

// oneCase tells of a case that was executed.
func (r *run) oneCase() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cases++
	r.tell(nil)
}

// tell reports progress; the caller holds the lock.
func (r *run) tell(row *Row) {
	if r.opt.Progress != nil {
		r.opt.Progress(Progress{Row: row, Done: r.next, Total: len(r.rows), Cases: r.cases})
	}
}

func (s *Summary) add(r *Row) {
	s.Cases += r.Cases
	failed := r.Verdict.Failed()
	switch {
	case r.Verdict != verdict.Pass && !failed:
		s.NotRun++
	case !r.Broken && failed:
		s.FalseAlarms++
	case r.Broken && failed:
		s.Found++
	}
	if !r.Broken {
		s.Sound++
		return
	}
	s.Broken++
	if r.Allclose.Accepts {
		s.AllcloseAccepts++
	}
}

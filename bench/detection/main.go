// Detection is the study of what finds wrong kernels: it executes every base kernel and mutant of the corpus on the
// emulator, judged by the product (false-alarms, ours, strategies, regimes), by the rules of other harnesses
// (baselines), or beside its base bit by bit (equivalence). It writes records (package record) and makes no tables.
//
// The corpus is embedded: the program runs anywhere, with nothing beside it. Interrupted, it keeps the records so far.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpuemu/bench/detection/record"
	"gpuemu/bench/machine"
	"gpuemu/internal/atomicfile"
	"gpuemu/internal/corpus"
)

// runs are what can be asked for.
var runs = []string{record.FalseAlarms, record.Ours, record.Strategies, record.Regimes, record.Baselines,
	record.Equivalence}

// request is what the command line says.
type request struct {
	run, only, output, commit string
	cases, samples, seeds     int
	seed                      uint64
	workers                   int
	heldOut, full             bool
}

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "detection:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string, messages io.Writer) (*request, error) {
	usage := fmt.Errorf("usage: detection RUN [flags], where RUN is one of %s", strings.Join(runs, ", "))
	if len(args) == 0 || !slices.Contains(runs, args[0]) {
		return nil, usage
	}
	r := &request{run: args[0]}
	f := flag.NewFlagSet("detection "+r.run, flag.ContinueOnError)
	f.SetOutput(messages)
	cases := 100
	if r.run == record.FalseAlarms {
		cases = 200
	}
	f.IntVar(&r.cases, "cases", cases, "cases of a campaign")
	f.IntVar(&r.samples, "samples", 2000, "samples of a comparison with the base")
	f.Uint64Var(&r.seed, "seed", 1, "master seed")
	f.IntVar(&r.seeds, "seeds", 1, "master seeds, the first of which is -seed")
	f.BoolVar(&r.full, "full", false, "go on after the first failing case")
	f.BoolVar(&r.heldOut, "held-out", false, "mutants of held-out operators as well")
	f.StringVar(&r.only, "only", "", "only kernels and mutants whose ids match this regular expression")
	f.IntVar(&r.workers, "j", runtime.GOMAXPROCS(0), "subjects at a time")
	f.StringVar(&r.output, "o", "", "file of the records; default: bench/detection/records/RUN.jsonl.gz")
	f.StringVar(&r.commit, "commit", "", "what the program was built from; default: what it says itself")
	if err := f.Parse(args[1:]); err != nil {
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("arguments %q: %w", f.Args(), usage)
	case r.cases < 1 || r.samples < 1 || r.seeds < 1 || r.workers < 1:
		return nil, errors.New("-cases, -samples, -seeds and -j are at least 1")
	}
	if r.output == "" {
		r.output = filepath.Join("bench", "detection", "records", r.run+".jsonl.gz")
	}
	if r.commit == "" {
		r.commit = builtFrom()
	}
	return r, nil
}

// command is the command line that repeats a run, without what is of this machine alone.
func (r *request) command() string {
	text := "detection " + r.run
	if r.run == record.Equivalence {
		text += fmt.Sprintf(" -samples %d", r.samples)
	} else if r.run != record.Baselines {
		text += fmt.Sprintf(" -cases %d", r.cases)
	}
	if r.run != record.Baselines {
		text += fmt.Sprintf(" -seed %d", r.seed)
	}
	if r.seeds > 1 {
		text += fmt.Sprintf(" -seeds %d", r.seeds)
	}
	if r.full {
		text += " -full"
	}
	if r.heldOut {
		text += " -held-out"
	}
	if r.only != "" {
		text += fmt.Sprintf(" -only %q", r.only)
	}
	return text
}

// builtFrom is the commit that the program was built from, as the Go tool notes it.
func builtFrom() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	commit, changed := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	return commit + changed
}

func run(args []string, messages io.Writer) error {
	r, err := parse(args, messages)
	if err != nil {
		return err
	}
	only, err := regexp.Compile(r.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	st := &study{arch: corpus.MutantArch, cases: r.cases, samples: r.samples, full: r.full,
		subjects: map[string]*subject{}, calibrations: map[string]*calibration{}}
	for i := range r.seeds {
		st.seeds = append(st.seeds, r.seed+uint64(i))
	}
	if err := st.choose(corpus.Kernels(), corpus.Mutants(), only, r.heldOut); err != nil {
		return err
	}
	list, err := st.tasks(r.run)
	if err != nil {
		return err
	}
	if st.dir, err = os.MkdirTemp("", "detection"); err != nil {
		return err
	}
	defer os.RemoveAll(st.dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return r.execute(ctx, st, list, messages)
}

// saveEvery is how often the records so far are written: a machine may be taken away.
const saveEvery = 30 * time.Second

// execute does the tasks and writes the records.
func (r *request) execute(ctx context.Context, st *study, list []task, messages io.Writer) error {
	head := record.Header{Command: r.command(), Commit: r.commit, Machine: machine.Processor().Value,
		Date: machine.Date().Value, HeldOut: r.heldOut}
	if r.run != record.Baselines && r.run != record.Equivalence {
		head.Budget = r.cases
	}
	if err := os.MkdirAll(filepath.Dir(r.output), 0o777); err != nil {
		return err
	}
	var records []*record.Record
	var fault, saving error // the first of each
	faults := 0
	start, saved := time.Now(), time.Now()
	save := func() error { // a file that is not whole says so: it may be the last
		h := head
		if len(records) < len(list) {
			h.Note = fmt.Sprintf("%d of %d records", len(records), len(list))
		}
		return write(r.output, h, records)
	}
	err := st.work(ctx, list, r.workers, func(i int, rec *record.Record) {
		records = append(records, rec)
		fmt.Fprintf(messages, "%4d/%d %s\n", i+1, len(list), line(rec))
		if time.Since(saved) > saveEvery && saving == nil {
			saving, saved = save(), time.Now()
		}
	}, func(i int, err error) {
		fmt.Fprintf(messages, "%4d/%d %s %s: NOT DONE: %v\n", i+1, len(list), list[i].id, list[i].setting, err)
		if faults++; fault == nil {
			fault = err
		}
	})
	if fault != nil {
		fault = fmt.Errorf("%d of %d records could not be made, the first because of: %w", faults, len(list), fault)
	}
	fmt.Fprintf(messages, "%s: %d of %d records in %s with %d workers\n", r.command(), len(records), len(list),
		time.Since(start).Round(100*time.Millisecond), r.workers)
	return errors.Join(err, saving, fault, save(), ctx.Err())
}

// line is a record for people.
func line(rec *record.Record) string {
	text := rec.ID
	for _, part := range []string{rec.Setting, rec.DType} {
		if part != "" {
			text += " " + part
		}
	}
	switch {
	case rec.First > 0:
		text += fmt.Sprintf(": fails at %d: %s", rec.First, rec.Reason)
		if len(rec.Findings) > 0 {
			text += " (" + strings.Join(rec.Findings, ", ") + ")"
		}
	default:
		text += fmt.Sprintf(": none of %d fails", rec.Cases)
	}
	if rec.NotRun > 0 {
		text += fmt.Sprintf(", %d not run: %s", rec.NotRun, rec.Message)
	}
	return text + fmt.Sprintf(" %.2f s", rec.Seconds)
}

// write writes a file of records, whole or not at all.
func write(name string, head record.Header, records []*record.Record) error {
	return atomicfile.Replace(name, 0o666, func(text io.Writer) error {
		w, err := record.NewWriter(text, head)
		if err != nil {
			return err
		}
		for _, rec := range records {
			if err := w.Write(rec); err != nil {
				return err
			}
		}
		return w.Close()
	})
}

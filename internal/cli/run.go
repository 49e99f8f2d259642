package cli

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// This file implements what test, fuzz and ci share: the flags that choose cases, the run with its progress, the
// reports.

// runFlags are the flags that choose the cases of a run.
type runFlags struct {
	ops                    []string
	seed                   seed
	values, shapes         string
	dtypes, layouts, shard string
	ranks                  string
	parallel               int
	timeLimit              time.Duration
	failFast               bool
	quick, thorough        bool
	iterations             int
	resume                 string
	baseline               string
	failOnRegression       bool
	kernels                bool // compiled kernels are looked at, too
	artifacts              bool // reports in JSON have them
	out                    outputs
}

// registerCommon adds the flags that all three commands have.
func (f *runFlags) registerCommon(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.IntVar(&f.parallel, "parallel", 0, "`N` cases at a time (0: one per CPU)")
	fl.StringVar(&f.shard, "shard", "", "run part `I/N` of the cases; gpuemu merge joins the reports")
	fl.DurationVar(&f.timeLimit, "time-limit", 0, "stop after this `DURATION`, for example 90s or 10m")
	fl.BoolVar(&f.failFast, "fail-fast", false, "stop at the first failing case")
	fl.StringVar(&f.values, "values", "", "`NAME` of a value distribution (default: the configuration's, else mixed)")
	fl.StringVar(&f.shapes, "shapes", "", "`NAME` of a shape strategy (default: the configuration's, else default)")
	fl.StringVar(&f.dtypes, "dtypes", "", "`LIST` of dtypes, separated by commas (default: the configuration's)")
	fl.StringVar(&f.layouts, "layouts", "", "`LIST` of layouts, separated by commas (default: the configuration's)")
	fl.StringVar(&f.ranks, "ranks", "", ranksUsage)
	fl.StringVar(&f.resume, "resume", "", "continue an interrupted campaign: its `ID`, or nothing for the newest")
	fl.Lookup("resume").NoOptDefVal = newestCampaign
	completeWith(cmd, "values", distributionNames)
	completeWith(cmd, "shapes", strategyNames)
	completeWith(cmd, "dtypes", allDTypes)
	completeWith(cmd, "layouts", layoutNames)
}

// newestCampaign is what --resume without a value means. A campaign's identifier never has a space.
const newestCampaign = "the newest"

// args takes the identifier of --resume ID as a word of its own, too, which pflag does not: its value is optional.
func (f *runFlags) args(cmd *cobra.Command, args []string) error {
	if f.resume == newestCampaign && len(args) == 1 {
		f.resume = args[0]
		return nil
	}
	return codes.NoArgs(cmd, args)
}

// registerOps adds --op, with or without a short form.
func (f *runFlags) registerOps(cmd *cobra.Command, short string) {
	cmd.Flags().StringArrayVarP(&f.ops, "op", short, nil,
		"`NAME` of an op of the configuration or the catalogue; may be repeated")
	completeWith(cmd, "op", oracle.Names)
}

// request makes the request of a run. The seed is drawn for fuzz where none is given.
func (f *runFlags) request(cmd *cobra.Command, e *engine, kind string) (*wire.RunRequest, error) {
	if cmd.Flags().Changed("time-limit") && f.timeLimit <= 0 {
		return nil, diag.Errorf(Usage, "give a time above 0, or leave it out", "--time-limit is %s", f.timeLimit)
	}
	req := &wire.RunRequest{
		Config: e.project.path, Dir: e.dir, Python: e.project.python, Env: e.project.env, Kind: kind, Attached: true,
		Ops: f.ops, Quick: f.quick, Thorough: f.thorough, Iterations: f.iterations, FailFast: f.failFast,
		TimeLimitSeconds: f.timeLimit.Seconds(), Parallel: f.parallel, Shard: f.shard,
		Values: f.values, Shapes: f.shapes,
		Baseline: f.baseline, FailOnRegression: f.failOnRegression, // an unknown one is refused before anything runs
	}
	dtypes, err := splitList("dtypes", f.dtypes, dtype.Parse)
	if err != nil {
		return nil, err
	}
	for _, d := range dtypes {
		req.DTypes = append(req.DTypes, d.String())
	}
	layouts, err := splitList("layouts", f.layouts, tensor.ParseLayout)
	if err != nil {
		return nil, err
	}
	for _, l := range layouts {
		req.Layouts = append(req.Layouts, l.String())
	}
	if req.Ranks, err = splitList("ranks", f.ranks, parseRank); err != nil {
		return nil, err
	}
	switch {
	case cmd.Flags().Changed("seed"):
		s := wire.Seed(f.seed)
		req.Seed = &s
	case kind == "fuzz" && f.resume == "":
		s, err := defaultSeed(e.env)
		if err != nil {
			return nil, err
		}
		req.Seed = &s
	}
	if f.resume != "" {
		id := f.resume
		if id == newestCampaign {
			id = ""
		}
		req.Resume = &id
	}
	return req, nil
}

// defaultSeed returns the master seed of a run that names none: GPUEMU_SEED where it is set, for runs that can be
// repeated, else one drawn from the system.
func defaultSeed(env Env) (wire.Seed, error) {
	if text := env.Getenv("GPUEMU_SEED"); text != "" {
		s, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, diag.Errorf(Usage, "set GPUEMU_SEED to a whole number from 0 to 2^64-1, or unset it",
				"GPUEMU_SEED=%q is no seed", text)
		}
		return wire.Seed(s), nil
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("no random numbers from the system: %w", err)
	}
	return wire.Seed(binary.LittleEndian.Uint64(b[:])), nil
}

// runCampaign runs and reports; before, where given, is done first. The error carries the exit code that the summary
// deserves.
func runCampaign(
	cmd *cobra.Command, env Env, term *terminal, f *runFlags, before func(context.Context, *engine) error,
) error {
	kind := cmd.Name()
	outs, err := f.out.pairs()
	if err != nil {
		return err
	}
	ctx, stop := env.interruptible()
	defer stop()
	e, err := open(ctx, env, term, kind != "fuzz" || len(f.ops) == 0)
	if err != nil {
		return err
	}
	defer e.close()
	req, err := f.request(cmd, e, kind)
	if err != nil {
		return err
	}
	if kind == "fuzz" && req.Seed != nil {
		term.note("seed %d", uint64(*req.Seed))
	}
	if before != nil {
		if err := before(ctx, e); err != nil {
			return err
		}
	}
	bar := term.progress(kind)
	sum, err := e.client.Run(ctx, req, func(ev *wire.Event) { showEvent(term, bar, ev) })
	bar.clear()
	if err != nil {
		return err
	}
	if sum.Stopped == "cancelled" {
		term.note("interrupted after %d of %d cases; the same command with --resume=%s continues it", sum.Total, sum.Planned,
			sum.Campaign)
	}
	// The reports of an interrupted run are still worth having.
	status := sum.ExitCode()
	for _, out := range outs {
		exit, err := e.report(context.WithoutCancel(ctx), out, sum.Campaign, f)
		if err != nil {
			return err
		}
		status = worseExit(status, exit)
	}
	return exitWith(status)
}

// showEvent draws progress and prints failures as they come.
func showEvent(term *terminal, bar *progress, ev *wire.Event) {
	note := ""
	if ev.Failed > 0 {
		note = fmt.Sprintf("%d failed", ev.Failed)
	}
	if ev.Type == wire.EventFailure {
		var r verdict.Result
		if err := json.Unmarshal(ev.Result, &r); err == nil && term.interactive() {
			bar.clear()
			term.note("%s: %s %s seed %d", r.Verdict, r.Op, r.DType, uint64(r.Seed))
		}
	}
	bar.update(ev.Done, ev.Planned, note)
}

// report writes one report of a campaign and returns the exit code it deserves.
func (e *engine) report(ctx context.Context, out reportOutput, campaign string, f *runFlags) (int, error) {
	exit := command.ExitOK
	err := out.write(e.term, func(w io.Writer) (err error) {
		exit, err = e.client.Report(ctx, &wire.ReportRequest{
			Config: e.project.path, Env: e.project.env, Dir: e.dir, Format: out.format, Campaign: campaign,
			Baseline: f.baseline, FailOnRegression: f.failOnRegression,
			IncludeLint:      f.kernels && len(f.ops) == 0,
			IncludeArtifacts: f.artifacts && out.format == "json", // a baseline file needs them
			Color:            out.file == "" && e.term.outColor, Verbose: e.term.verbose,
		}, w)
		return err
	})
	return exit, err
}

// worseExit: 1 before 3 before 0; 2 cannot come up once a run has started.
func worseExit(a, b int) int {
	for _, code := range []int{command.ExitUsage, command.ExitFailed, command.ExitNotRun} {
		if a == code || b == code {
			return code
		}
	}
	return command.ExitOK
}

// exitWith is the error of a command whose output has said it all: nothing more is printed.
func exitWith(status int) error {
	if status == command.ExitOK {
		return nil
	}
	return &command.Status{Code: status}
}

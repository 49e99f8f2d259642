package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/daemon"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/report"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// This file implements the commands reproduce and minimize.

func reproduceCommand(term *terminal, env Env) *cobra.Command {
	var op, export string
	cmd := &cobra.Command{
		Use:   "reproduce SEED|CASE",
		Short: "Run one case again and say whether it still fails",
		Long: "Makes the inputs of a case anew, runs reference and candidate, and compares. The case is named by the seed\n" +
			"of a stored one, or by its canonical text, which needs no store. -v shows the worst elements, the error map\n" +
			"and the inputs. Exit code 1: it still fails.",
		Example: "  gpuemu reproduce 'softmax dtype=float32 dims=B:2,S:3,H:70 attrs=math:gpu " +
			"in=input:float32[2,3,70]:contiguous:normal seed=9 gen=1'\n" +
			"  gpuemu reproduce 8837462910 --export repro.py",
		Args: oneArg("the seed or the text of a case"),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := env.interruptible()
			defer stop()
			if err := exportable(export); err != nil {
				return err
			}
			e, err := open(ctx, env, term, false)
			if err != nil {
				return err
			}
			defer e.close()
			return reproduce(ctx, e, args[0], op, export)
		},
	}
	cmd.Flags().StringVar(&op, "op", "", "`NAME` of the op, where several have a case of that seed")
	cmd.Flags().StringVar(&export, "export", "",
		"write a stand-alone reproducer to this `FILE.py`, or the inputs to FILE.safetensors")
	completeWith(cmd, "op", oracle.Names)
	return cmd
}

// oneArg asks for exactly one argument.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return diag.Errorf(Usage, cmd.CommandPath()+" --help shows its use", "%s is missing", what)
		case len(args) > 1:
			return diag.Errorf(Usage, "put a case's text in quotes", "unexpected argument %q", args[1])
		}
		return nil
	}
}

// caseArg tells a seed from the text of a case.
func caseArg(text string) (seed *wire.Seed, caseText string, err error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		s := wire.Seed(n)
		return &s, "", nil
	}
	if _, err := opspec.ParseCase(text); err != nil {
		if !strings.ContainsRune(text, ' ') {
			return nil, "", diag.Errorf(Usage,
				"a seed is an integer from 0 to 2^64-1; a case is its whole line of text, in quotes",
				"%q is neither a seed nor the text of a case", text)
		}
		return nil, "", err
	}
	return nil, text, nil
}

func reproduce(ctx context.Context, e *engine, target, op, export string) error {
	seed, text, err := caseArg(target)
	if err != nil {
		return err
	}
	reply, err := e.client.Reproduce(ctx, &wire.ReproduceRequest{
		Config: e.project.path, Python: e.project.python, Env: e.project.env, Seed: seed, Case: text, Op: op})
	if err != nil {
		return err
	}
	e.printReplay(reply)
	if export != "" {
		if err := e.export(ctx, reply, export); err != nil {
			return err
		}
	}
	switch {
	case reply.Result == nil:
		return exitWith(command.ExitNotRun)
	case reply.Result.Verdict.Failed():
		return exitWith(command.ExitFailed)
	case reply.Result.Verdict.String() != "pass":
		return exitWith(command.ExitNotRun)
	}
	return nil
}

// replayLine is a replay in one line.
func replayLine(r *daemon.ReproduceReply) string {
	switch {
	case r.Result == nil:
		return "replayed: the op runs on the client's side and cannot be executed here"
	case r.StillFails:
		return "replayed: still fails: " + escape.Text(r.Result.Message)
	case failsNoMore(r):
		return fmt.Sprintf("replayed: does not fail any more (%s)", r.Result.Verdict)
	}
	return fmt.Sprintf("replayed: %s", r.Result.Verdict)
}

// failsNoMore reports whether a case that failed was executed and did not. One that is not run says nothing.
func failsNoMore(r *daemon.ReproduceReply) bool {
	return r.Stored != nil && r.Stored.Verdict.Failed() && r.Result != nil && !r.StillFails &&
		r.Result.Verdict != verdict.NotRun
}

// printReplay prints the outcome for people.
func (e *engine) printReplay(r *daemon.ReproduceReply) {
	e.term.print("case: " + r.Case)
	shown := r.Result
	switch {
	case shown == nil && r.Stored == nil:
		e.term.print("not executed: the op runs on the client's side, and no result of this case is stored here")
	case shown == nil:
		e.term.print("not executed: the op runs on the client's side; its stored result is")
		shown = r.Stored
	}
	if shown != nil {
		text := report.CaseText(shown, report.TextOptions{Verbose: e.term.verbose, Color: e.term.outColor})
		e.term.print(strings.TrimRight(text, "\n"))
	}
	e.term.print(replayLine(r))
	if r.Result == nil {
		if shown == nil {
			shown = &verdict.Result{Case: r.Case}
		}
		e.term.print("to run its kernel: " + report.ReplayInPython(shown))
	}
	if failsNoMore(r) {
		e.term.note("it failed when it was stored: since then something was changed, or the result is not the same each " +
			"time,\nwhich invariants = [\"deterministic\"] of the op finds")
	}
	for _, other := range r.Others {
		e.term.note("another stored case has the same seed (--op or its text chooses it): %s", other)
	}
}

// exportable reports a file that export cannot write; nothing is executed for it.
func exportable(path string) error {
	if path == "" || strings.HasSuffix(path, ".safetensors") || strings.HasSuffix(path, ".py") {
		return nil
	}
	return diag.Errorf(Usage, "end it in .py or .safetensors", "--export %q: unknown kind of file", path)
}

// export writes a reproducer.
func (e *engine) export(ctx context.Context, r *daemon.ReproduceReply, path string) error {
	if err := exportable(path); err != nil {
		return err
	}
	out, err := outputPath(path, "")
	if err != nil {
		return err
	}
	req := &wire.TensorsRequest{Config: e.project.path, Case: r.Case}
	if r.Stored != nil {
		req.Seed = (*wire.Seed)(&r.Stored.Seed)
	}
	if strings.HasSuffix(path, ".safetensors") {
		return reportOutput{file: out}.write(e.term, func(w io.Writer) error { return e.client.Tensors(ctx, req, w) })
	}
	var data strings.Builder
	if err := e.client.Tensors(ctx, req, &data); err != nil {
		return err
	}
	return reportOutput{file: out}.write(e.term, func(w io.Writer) error {
		return writeReproducer(w, r, []byte(data.String()))
	})
}

func minimizeCommand(term *terminal, env Env) *cobra.Command {
	var chosen seed
	req := wire.MinimizeRequest{}
	strategy := newChoice("all", "binary-search-dims", "binary-search-values")
	cmd := &cobra.Command{
		Use:   "minimize SEED|CASE",
		Short: "Find the smallest case that fails in the same way",
		Long: "Shrinks a failing case: dimensions, then attributes, layout and distribution, then single values. The case\n" +
			"is named by the seed of a stored one, or by its text, which needs no store. It runs the candidate each time\n" +
			"and keeps only what fails in the same way: the same dtype, reason and diagnosis. --any-dtype and\n" +
			"--any-failure lift that; the smaller case may then show another bug. The result is stored under its own seed.",
		Example: "  gpuemu minimize 8837462910\n  gpuemu minimize --op matmul --seed 98765 --strategy binary-search-dims",
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("seed") {
				return codes.NoArgs(cmd, args)
			}
			return oneArg("the seed or the text of a case")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Seed = wire.Seed(chosen)
			if !cmd.Flags().Changed("seed") {
				seed, text, err := caseArg(args[0])
				if err != nil {
					return err
				}
				if req.Case = text; seed != nil {
					req.Seed = *seed
				}
			}
			ctx, stop := env.interruptible()
			defer stop()
			e, err := open(ctx, env, term, false)
			if err != nil {
				return err
			}
			defer e.close()
			bar := term.progress("minimize")
			req.Config, req.Python, req.Env, req.Strategy = e.project.path, e.project.python, e.project.env, strategy.value
			reply, err := e.client.Minimize(ctx, &req, func(done, budget int) { bar.update(done, budget, "") })
			bar.clear()
			if err != nil {
				if ctx.Err() != nil {
					return command.NotRun(diag.Errorf(Interrupted, "", "interrupted: nothing was stored"))
				}
				return err
			}
			e.printMinimized(reply)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.Op, "op", "", "`NAME` of the op, where several have a case of that seed")
	f.Var(&chosen, "seed", "seed of the case, instead of the argument")
	f.IntVar(&req.MaxIters, "max-iters", 100, "run the candidate at most `N` times")
	f.BoolVar(&req.AnyDType, "any-dtype", false, "try simpler dtypes, too")
	f.BoolVar(&req.AnyFailure, "any-failure", false, "accept cases that fail in another way")
	strategy.register(cmd, "strategy", "what to shrink")
	completeWith(cmd, "op", oracle.Names)
	return cmd
}

func (e *engine) printMinimized(r *daemon.MinimizeReply) {
	e.term.print("original:  " + r.Original.Case)
	e.term.print("  " + escape.Text(r.Original.Message))
	e.term.print("minimized: " + r.Minimized.Case)
	e.term.print("  " + escape.Text(r.Minimized.Message))
	e.term.print(fmt.Sprintf("ran the candidate %d times", r.Executed))
	e.term.print("replay: " + report.ReplayCase(r.Case))
	switch {
	case r.Portable == "":
		e.term.print("The inputs are in this store alone; reproduce --export writes them to a file.")
	case r.Portable != r.Case: // single values were made simpler, which no text says
		e.term.print("replay without this store: " + report.ReplayCase(r.Portable))
	}
}

// writeReproducer writes a Python program that has the inputs in it and needs numpy alone.
func writeReproducer(w io.Writer, r *daemon.ReproduceReply, data []byte) error {
	text, err := reproducerText(r, data)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, text); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

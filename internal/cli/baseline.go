package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/report"
	"gpuemu/internal/wire"
)

// This file implements the commands baseline and diff.

func baselineCommand(term *terminal, env Env) *cobra.Command {
	var campaign string
	cmd := &cobra.Command{
		Use:   "baseline TAG",
		Short: "Keep the latest results under a tag",
		Long: "Stores the results of the newest complete test or ci run of the project under TAG, and the compiled\n" +
			"kernels as they are now, with their PTX, for gpuemu diff and gpuemu ci --baseline. A tag that exists is\n" +
			"replaced.",
		Example: "  gpuemu test && gpuemu baseline v1.2",
		Args:    oneArg("the tag"),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := env.interruptible()
			defer stop()
			e, err := open(ctx, env, term, false)
			if err != nil {
				return err
			}
			defer e.close()
			if escape.Text(args[0]) != args[0] {
				return diag.Errorf(Usage, "use letters, digits, dots and dashes", "the tag %q cannot be printed", args[0])
			}
			req := &wire.BaselineRequest{Config: e.project.path, Env: e.project.env, Tag: args[0],
				Campaign: campaign}
			reply, err := e.client.SaveBaseline(ctx, req)
			if err != nil {
				return err
			}
			line := fmt.Sprintf("baseline %s: %d results", reply.Tag, reply.Results)
			if reply.Campaign != "" {
				line += " of campaign " + reply.Campaign
			}
			if reply.Artifacts > 0 {
				line += fmt.Sprintf(", %d compiled kernel", reply.Artifacts)
			}
			if reply.Artifacts > 1 {
				line += "s"
			}
			term.print(line)
			for _, text := range reply.Unread {
				term.note("not looked at: %s", text)
			}
			if len(reply.Unread) > 0 {
				return exitWith(command.ExitNotRun)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&campaign, "campaign", "",
		"take the results of the campaign `ID` (default: the newest complete one)")
	return cmd
}

func diffCommand(term *terminal, env Env) *cobra.Command {
	var baseline string
	var fail bool
	format := newChoice("text", "json", "junit")
	cmd := &cobra.Command{
		Use:   "diff --baseline TAG|FILE",
		Short: "Compare the latest results and the compiled kernels with a baseline",
		Long: "Compares the newest complete test or ci run with a baseline, and the compiled kernels as they are now with\n" +
			"those of the baseline: their figures, and what changed in the code when names and registers do not count.\n" +
			"-v lists every change.\n\n" +
			"Exit codes: 1 with --fail-on-regression if something is worse, 3 if there was nothing to compare or a kernel\n" +
			"could not be read, else 0.",
		Example: "  gpuemu diff --baseline v1.2 --fail-on-regression",
		Args:    codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if baseline == "" {
				return diag.Errorf(Usage, "give --baseline TAG or FILE.json", "there is no baseline to compare with")
			}
			ctx, stop := env.interruptible()
			defer stop()
			e, err := open(ctx, env, term, false)
			if err != nil {
				return err
			}
			defer e.close()
			return e.diff(ctx, baseline, fail, format.value)
		},
	}
	cmd.Flags().StringVar(&baseline, "baseline", "", "the `TAG|FILE` to compare with")
	cmd.Flags().BoolVar(&fail, "fail-on-regression", false, "exit with 1 if something is worse")
	format.register(cmd, "format", "output format")
	return cmd
}

func (e *engine) diff(ctx context.Context, baseline string, fail bool, format string) error {
	c, err := e.client.Diff(ctx, &wire.DiffRequest{Config: e.project.path, Env: e.project.env, Dir: e.dir,
		Baseline: baseline})
	if err != nil {
		return err
	}
	switch format {
	case "json":
		err = e.term.printJSON(c)
	case "junit":
		err = report.ComparisonJUnit(e.term.out, c, fail)
	default:
		e.term.print(strings.TrimRight(report.ComparisonText(c, e.term.verbose), "\n"))
	}
	switch {
	case err != nil:
		return err
	case c.Worse() > 0 && fail:
		return exitWith(command.ExitFailed)
	case c.NothingInCommon() || c.Skipped != "" || len(c.Unread) > 0:
		return exitWith(command.ExitNotRun)
	}
	return nil
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/diag"
	"gpuemu/internal/report"
	"gpuemu/internal/wire"
)

// This file implements the commands baseline and diff.

func baselineCommand(term *terminal, env Env) *cobra.Command {
	var campaign string
	cmd := &cobra.Command{
		Use:   "baseline TAG",
		Short: "Keep the latest results under a tag",
		Long: "Stores the results of the newest complete test or ci run of the project under TAG, for gpuemu diff and\n" +
			"gpuemu ci --baseline. A tag that exists is replaced.",
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
			if printable(args[0]) != args[0] {
				return diag.Errorf(Usage, "use letters, digits, dots and dashes", "the tag %q cannot be printed", args[0])
			}
			req := &wire.BaselineRequest{Config: e.project.path, Tag: args[0], Campaign: campaign}
			reply, err := e.client.SaveBaseline(ctx, req)
			if err != nil {
				return err
			}
			term.print(fmt.Sprintf("baseline %s: %d results of campaign %s", reply.Tag, reply.Results, reply.Campaign))
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
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:     "diff --baseline TAG|FILE",
		Short:   "Compare the latest results with a baseline",
		Example: "  gpuemu diff --baseline v1.2 --fail-on-regression",
		Args:    noArgs,
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
			return e.diff(ctx, baseline, fail, format.value == "json")
		},
	}
	cmd.Flags().StringVar(&baseline, "baseline", "", "the `TAG|FILE` to compare with")
	cmd.Flags().BoolVar(&fail, "fail-on-regression", false, "exit with 1 if something is worse")
	format.register(cmd, "format", "output format")
	return cmd
}

func (e *engine) diff(ctx context.Context, baseline string, fail, asJSON bool) error {
	c, err := e.client.Diff(ctx, &wire.DiffRequest{Config: e.project.path, Dir: e.dir, Baseline: baseline})
	if err != nil {
		return err
	}
	if asJSON {
		if err := e.term.printJSON(c); err != nil {
			return err
		}
	} else {
		e.term.print(strings.TrimRight(report.ComparisonText(c), "\n"))
	}
	switch {
	case c.Common == 0:
		return exitWith(exitNotRun)
	case c.Regressed > 0 && fail:
		return exitWith(exitFailed)
	}
	return nil
}

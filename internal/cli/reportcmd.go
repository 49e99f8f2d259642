package cli

import (
	"io"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
	"gpuemu/internal/report"
	"gpuemu/internal/wire"
)

// This file implements the commands report, coverage and merge: they read results and execute nothing.

// newestReported is the value of --campaign that means the newest one. No campaign has it as its identifier.
const newestReported = "latest"

func reportCommand(term *terminal, env Env) *cobra.Command {
	var out outputs
	var campaign string
	var since float64
	var lint, artifacts bool
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report stored results",
		Long: "Makes a report of what is stored; nothing is executed. It has the latest verdict on each case of the\n" +
			"project, whichever campaign or client it came from; --campaign reports one campaign alone. Exit codes are\n" +
			"those of a run: 1 if a latest verdict is a failure, 3 if something was not run or there is nothing to report.",
		Example: "  gpuemu report --format junit -o results.xml --since-hours 24\n  gpuemu report --campaign latest",
		Args:    codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := checkHours(since); err != nil {
				return err
			}
			if campaign != "" && since > 0 {
				return diag.Errorf(Usage, "give one of them", "--campaign and --since-hours contradict each other")
			}
			outs, err := out.pairs()
			if err != nil {
				return err
			}
			ctx, stop := env.interruptible()
			defer stop()
			e, err := open(ctx, env, term, false)
			if err != nil {
				return err
			}
			defer e.close()
			status, named := command.ExitOK, campaign
			if named == newestReported {
				named = "" // what the engine takes for the newest
			}
			for _, o := range outs {
				err := o.write(term, func(w io.Writer) error {
					exit, err := e.client.Report(ctx, &wire.ReportRequest{Config: e.project.path, Env: e.project.env, Dir: e.dir,
						Format: o.format, Campaign: named, SinceHours: since, All: campaign == "",
						IncludeLint: lint, IncludeArtifacts: artifacts,
						Color: o.file == "" && term.outColor, Verbose: term.verbose}, w)
					status = worseExit(status, exit)
					return err
				})
				if err != nil {
					return err
				}
			}
			return exitWith(status)
		},
	}
	f := cmd.Flags()
	f.StringVar(&campaign, "campaign", "", "report the campaign `ID` alone, or the latest")
	f.Float64Var(&since, "since-hours", 0, "report the latest verdicts of the last `N` hours")
	f.BoolVar(&lint, "include-lint", false, "add the results of gpuemu lint")
	f.BoolVar(&artifacts, "include-artifacts", false, "add metrics of compiled kernels")
	out.register(cmd, "o", "text", "json", "junit", "sarif")
	return cmd
}

func coverageCommand(term *terminal, env Env) *cobra.Command {
	var out outputs
	cmd := &cobra.Command{
		Use:   "coverage",
		Short: "Show which ops, dtypes, shapes and layouts were exercised",
		Args:  codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			outs, err := out.pairs()
			if err != nil {
				return err
			}
			ctx, stop := env.interruptible()
			defer stop()
			e, err := open(ctx, env, term, true)
			if err != nil {
				return err
			}
			defer e.close()
			for _, o := range outs {
				err := o.write(term, func(w io.Writer) error { return e.client.Coverage(ctx, e.project.path, o.format, w) })
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	out.register(cmd, "o", "text", "json", "codecov")
	return cmd
}

func mergeCommand(term *terminal) *cobra.Command {
	var out outputs
	cmd := &cobra.Command{
		Use:   "merge FILE...",
		Short: "Join the JSON reports of --shard runs into one",
		Long: "Joins reports that were written with --shard I/N and --format json, checks that they are parts of one\n" +
			"campaign, and exits as the whole campaign would have.",
		Example: "  gpuemu merge part1.json part2.json --format junit -o results.xml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return diag.Errorf(Usage, "name the JSON reports of all parts", "there is nothing to merge")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			outs, err := out.pairs()
			if err != nil {
				return err
			}
			var docs []*report.Document
			for _, path := range args {
				doc, err := report.ReadFile(path)
				if err != nil {
					return err
				}
				docs = append(docs, doc)
			}
			doc, err := report.Merge(docs)
			if err != nil {
				return err
			}
			for _, o := range outs {
				err := o.write(term, func(w io.Writer) error {
					return report.Write(w, o.format, doc.Source(), report.TextOptions{Color: o.file == "" && term.outColor,
						Verbose: term.verbose})
				})
				if err != nil {
					return err
				}
			}
			merged := doc.Source()
			return exitWith(merged.ExitCode())
		},
	}
	out.register(cmd, "o", "text", "json", "junit")
	return cmd
}

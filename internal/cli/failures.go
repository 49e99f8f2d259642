package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gpuemu/internal/diag"
	"gpuemu/internal/escape"
	"gpuemu/internal/oracle"
	"gpuemu/internal/report"
	"gpuemu/internal/verdict"
	"gpuemu/internal/wire"
)

// This file implements the command failures.

func failuresCommand(term *terminal, env Env) *cobra.Command {
	var all bool
	req := wire.FailuresRequest{}
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "failures",
		Short: "List open failures, the newest first",
		Long: "Lists the failures of the project, or those of all projects where there is no gpuemu.toml: of each failing\n" +
			"case the newest failure, unless the same case passed later. --all lists every stored failure and marks the\n" +
			"fixed ones.",
		Example: "  gpuemu failures --op softmax --since-hours 24\n  gpuemu failures clear --op softmax",
		Args:    codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if req.Limit < 1 {
				return diag.Errorf(Usage, "give 1 or more", "--limit is %d", req.Limit)
			}
			if err := checkHours(req.SinceHours); err != nil {
				return err
			}
			ctx, stop := env.interruptible()
			defer stop()
			e, err := open(ctx, env, term, false)
			if err != nil {
				return err
			}
			defer e.close()
			req.Config, req.Env, req.Open, req.Marked = e.project.path, e.project.env, !all, all
			req.Brief = format.value == "text" // a line each: outputs are nine tenths of a result
			list, fixed, err := e.client.MarkedFailures(ctx, &req)
			if err != nil {
				return err
			}
			if format.value == "json" {
				doc := map[string]any{"failures": list}
				if all {
					doc["fixed"] = append([]int{}, fixed...) // positions in the list; a list, never null
				}
				return term.printJSON(doc)
			}
			printFailures(term, list, fixed, all)
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVarP(&req.Limit, "limit", "l", 20, "at most `N` failures")
	f.StringVar(&req.Op, "op", "", "only those of the op `NAME`")
	f.Float64Var(&req.SinceHours, "since-hours", 0, "only those of the last `N` hours")
	f.BoolVar(&all, "all", false, "every stored failure, those that are fixed, too")
	format.register(cmd, "format", "output format")
	cmd.AddCommand(clearCommand(term, env))
	return cmd
}

// printFailures prints failures with the command that repeats each.
func printFailures(term *terminal, list []verdict.Result, fixed []int, all bool) {
	switch {
	case len(list) == 0 && all:
		term.print("no failures are stored")
	case len(list) == 0:
		term.print("no failures are open; --all lists those that are fixed")
	}
	for i := range list {
		r := &list[i]
		state := ""
		if slices.Contains(fixed, i) {
			state = ", fixed"
		}
		term.print(fmt.Sprintf("%s %s %s, %s%s: %s", r.Verdict, escape.Text(r.Op), escape.Text(r.DType),
			ago(time.Since(r.Time)), state, escape.Text(shorten(r.Message, 100))))
		term.print("  replay: " + report.Replay(r))
		if note := report.StoreNote(r); note != "" {
			term.print("  " + note)
		}
	}
}

func clearCommand(term *terminal, env Env) *cobra.Command {
	var op string
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Forget the stored failures of the project",
		Long: "Deletes the failures of the project from the store, so that neither failures nor report shows them.\n" +
			"Without a gpuemu.toml it deletes those that belong to no project.",
		Example: "  gpuemu failures clear\n  gpuemu failures clear --op softmax",
		Args:    codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := env.interruptible()
			defer stop()
			e, err := open(ctx, env, term, false)
			if err != nil {
				return err
			}
			defer e.close()
			n, err := e.client.ClearFailures(ctx, &wire.ClearRequest{Config: e.project.path, Env: e.project.env, Op: op})
			if err != nil {
				return err
			}
			term.print("cleared " + plural(n, "failure"))
			return nil
		},
	}
	cmd.Flags().StringVar(&op, "op", "", "only those of the op `NAME`")
	completeWith(cmd, "op", oracle.Names)
	return cmd
}

// checkHours reports a time span that cannot be looked back over. JSON could not even carry some of them.
func checkHours(since float64) error {
	const most = 1e6 // more than a century
	if !(since >= 0 && since <= most) {
		return diag.Errorf(Usage, fmt.Sprintf("give the number of hours to look back, at most %g", most),
			"--since-hours is %g", since)
	}
	return nil
}

// ago is a time span in one unit.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}

// shorten cuts text at n characters.
func shorten(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

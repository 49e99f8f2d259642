package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuemu/internal/diag"
	"gpuemu/internal/wire"
)

// This file implements the command failures.

func failuresCommand(term *terminal, env Env) *cobra.Command {
	var op string
	var limit int
	var since float64
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:     "failures",
		Short:   "List stored failures, the newest first",
		Long:    "Lists the failures of the project, or those of all projects where there is no gpuemu.toml.",
		Example: "  gpuemu failures --op softmax --since-hours 24",
		Args:    codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case limit < 1:
				return diag.Errorf(Usage, "give 1 or more", "--limit is %d", limit)
			}
			if err := checkHours(since); err != nil {
				return err
			}
			ctx, stop := env.interruptible()
			defer stop()
			e, err := open(ctx, env, term, false)
			if err != nil {
				return err
			}
			defer e.close()
			list, err := e.client.Failures(ctx, &wire.FailuresRequest{Config: e.project.path, Op: op, Limit: limit,
				SinceHours: since})
			if err != nil {
				return err
			}
			if format.value == "json" {
				return term.printJSON(map[string]any{"failures": list})
			}
			if len(list) == 0 {
				term.print("no failures are stored")
				return nil
			}
			rows := [][]string{{"SEED", "WHEN", "VERDICT", "OP", "DTYPE", "WHAT"}}
			for _, r := range list {
				rows = append(rows, []string{strconv.FormatUint(uint64(r.Seed), 10), ago(time.Since(r.Time)), r.Verdict.String(),
					r.Op, r.DType, printable(shorten(r.Message, 100))})
			}
			term.printTable("", rows)
			term.print("replay: gpuemu reproduce SEED")
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVarP(&limit, "limit", "l", 20, "at most `N` failures")
	f.StringVar(&op, "op", "", "only those of the op `NAME`")
	f.Float64Var(&since, "since-hours", 0, "only those of the last `N` hours")
	format.register(cmd, "format", "output format")
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

// printable replaces control characters: messages may come from the user's code, and a terminal obeys some of them.
func printable(text string) string {
	out := []rune(text)
	for i, r := range out {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			out[i] = ' '
		}
	}
	return string(out)
}

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/diag"
	"gpuemu/internal/oracle"
	"gpuemu/internal/wire"
)

// This file implements the command calibrate.

func calibrateCommand(term *terminal, env Env) *cobra.Command {
	var op, dtypeName string
	var iterations int
	var write bool
	chosen := seed(1)
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "calibrate --op NAME",
		Short: "Fit a tolerance to a kernel that is known to be right",
		Long: "Runs the op's candidate, which must be right, fits an absolute tolerance of 1.5 times the 95th percentile\n" +
			"of its errors to one half of the cases, and counts false alarms on the other half. The tolerance is stored\n" +
			"and used where the op has no bound and no tolerance of its own; --write puts it into gpuemu.toml.",
		Example: "  gpuemu calibrate --op my_op --dtype float16 --iterations 200 --write",
		Args:    codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if op == "" {
				return diag.Errorf(Usage, "give --op NAME", "there is no op to calibrate")
			}
			ctx, stop := env.interruptible()
			defer stop()
			e, err := open(ctx, env, term, true)
			if err != nil {
				return err
			}
			defer e.close()
			s := wire.Seed(chosen)
			bar := term.progress("calibrate")
			req := &wire.CalibrateRequest{Config: e.project.path, Python: e.project.python, Env: e.project.env, Op: op,
				DType:      dtypeName,
				Iterations: iterations, Seed: &s, Write: write}
			reply, err := e.client.Calibrate(ctx, req, func(done, total int) { bar.update(done, total, "") })
			bar.clear()
			if err != nil {
				return err
			}
			if format.value == "json" {
				return term.printJSON(reply)
			}
			for _, c := range reply.Calibrations {
				term.print(calibrationText(&c))
			}
			if reply.Written != "" {
				term.note("wrote %s", reply.Written)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&op, "op", "", "`NAME` of the op")
	f.StringVar(&dtypeName, "dtype", "", "`NAME` of a dtype (default: all that are configured)")
	f.IntVar(&iterations, "iterations", 100, "`N` cases per dtype")
	f.Var(&chosen, "seed", "master seed, 0 to 2^64-1")
	f.BoolVar(&write, "write", false, "put the tolerances into gpuemu.toml")
	format.register(cmd, "format", "output format")
	completeWith(cmd, "op", oracle.Names)
	completeWith(cmd, "dtype", allDTypes)
	return cmd
}

// calibrationText says what was fitted, how often it is wrong about held-out cases, and what it lets pass there.
func calibrationText(c *wire.Calibration) string {
	lines := []string{fmt.Sprintf(
		"%s %s: atol %.3g, rtol %.3g, fitted to %d cases; %d false alarms in %d held-out cases (%.1f %%)",
		c.Op, c.DType, c.ATol, c.RTol, c.Fitted, c.FalseAlarms, c.HeldOut, 100*c.FalseAlarmRate)}
	for _, m := range c.Misses {
		where := "everywhere"
		if m.Below != nil {
			where = fmt.Sprintf("where |want| <= %.3g", *m.Below)
		}
		lines = append(lines, fmt.Sprintf("  misses an error of %s %s: %.2g %% of the values", m.Error, where, 100*m.Share))
	}
	return strings.Join(lines, "\n")
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"gpuemu/internal/diag"
	"gpuemu/internal/wire"
)

// This file implements the commands test, fuzz and ci, which differ in the cases they choose.

func testCommand(term *terminal, env Env) *cobra.Command {
	f := &runFlags{kernels: true}
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Run all configured ops and kernels",
		Long: "Runs every op of gpuemu.toml on its quick cases and then on extended ones, for every configured dtype. The\n" +
			"same configuration and seed give the same cases, and --quick a subset of them. With --seed S, if S is the seed\n" +
			"of a stored case, that case is replayed first. Without --op the compiled kernels ([[kernels]]) are held to\n" +
			"their limits, too, as gpuemu lint does.",
		Example: "  gpuemu test\n  gpuemu test --quick --format junit -o results.xml\n" +
			"  gpuemu test --op softmax --seed 98765",
		Args: f.args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick && f.thorough {
				return diag.Errorf(Usage, "give one of them", "--quick and --thorough contradict each other")
			}
			var before func(context.Context, *engine) error
			if cmd.Flags().Changed("seed") {
				before = func(ctx context.Context, e *engine) error { return replayFirst(ctx, e, uint64(f.seed), f.ops) }
			}
			return runCampaign(cmd, env, term, f, before)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.quick, "quick", false, "only the quick cases: default shapes, float32")
	fl.BoolVar(&f.thorough, "thorough", false, "quick and extended cases (the default)")
	fl.Var(&f.seed, "seed", "master seed, or the seed of a stored case to replay first")
	f.registerOps(cmd, "")
	f.registerCommon(cmd)
	f.out.register(cmd, "o", "text", "json", "junit", "sarif")
	return cmd
}

// replayFirst replays the stored case of that seed, if there is one: the FAQ promises it.
func replayFirst(ctx context.Context, e *engine, seed uint64, ops []string) error {
	s := wire.Seed(seed)
	req := &wire.ReproduceRequest{Config: e.project.path, Python: e.project.python, Env: e.project.env, Seed: &s}
	if len(ops) == 1 {
		req.Op = ops[0]
	}
	reply, err := e.client.Reproduce(ctx, req)
	if err != nil {
		e.term.detail("seed %d is not that of a stored case: %v", seed, err)
		return nil
	}
	e.term.note("%s", replayLine(reply))
	return nil
}

func fuzzCommand(term *terminal, env Env) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "fuzz [-o NAME] [-i N]",
		Short: "Run many cases of one op or of all",
		Long: "Runs N cases per op: shapes, dtypes, layouts and values drawn from the master seed. Without --seed one is\n" +
			"drawn and printed first. The cases are those that gpuemu cases prints for the same arguments. An op that is\n" +
			"not in gpuemu.toml is looked up in the catalogue.\n\n" +
			"Value distributions: " + wrapped(distributionNames()) + ".\n" +
			"Shape strategies: " + wrapped(strategyNames()) + ".\n" +
			"Layouts: " + wrapped(layoutNames()) + ".",
		Example: "  gpuemu fuzz --op softmax --iterations 1000\n" +
			"  gpuemu fuzz -o matmul --values adversarial --time-limit 10m",
		Args: f.args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.iterations < 1 {
				return diag.Errorf(Usage, "give 1 or more", "--iterations is %d", f.iterations)
			}
			return runCampaign(cmd, env, term, f, nil)
		},
	}
	fl := cmd.Flags()
	fl.IntVarP(&f.iterations, "iterations", "i", 100, "`N` cases per op")
	fl.Var(&f.seed, "seed", "master seed, 0 to 2^64-1 (default: GPUEMU_SEED, else drawn and printed)")
	f.registerOps(cmd, "o")
	f.registerCommon(cmd)
	f.out.register(cmd, "", "text", "json", "junit", "sarif")
	return cmd
}

func ciCommand(term *terminal, env Env) *cobra.Command {
	f := &runFlags{kernels: true, artifacts: true}
	cmd := &cobra.Command{
		Use:   "ci",
		Short: "Run all configured ops, compare with a baseline, write reports",
		Long: "Runs what test runs, for use in a pipeline: several reports in one run, comparison with a baseline (a tag,\n" +
			"or a JSON report of an earlier run), and an exit code that is 0 only if everything ran and was right.",
		Example: "  gpuemu ci --quick --format junit --output results.xml\n" +
			"  gpuemu ci --format json --output baseline.json\n" +
			"  gpuemu ci --baseline baseline.json --fail-on-regression",
		Args: f.args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.failOnRegression && f.baseline == "" {
				return diag.Errorf(Usage, "give --baseline TAG or FILE.json", "--fail-on-regression needs a baseline")
			}
			return runCampaign(cmd, env, term, f, nil)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.quick, "quick", false, "only the quick cases: default shapes, float32")
	fl.Var(&f.seed, "seed", "master seed, 0 to 2^64-1 (default: the configuration's, else 1)")
	fl.StringVar(&f.baseline, "baseline", "", "compare with this `TAG|FILE`")
	fl.BoolVar(&f.failOnRegression, "fail-on-regression", false, "exit with 1 if something is worse than the baseline")
	f.registerOps(cmd, "")
	f.registerCommon(cmd)
	f.out.register(cmd, "o", "text", "json", "junit", "sarif")
	return cmd
}

package cli

import (
	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/proof"
)

// This file implements the command proof: gpu-proof, for those who have gpuemu alone.

func proofCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "proof COMMAND ...",
		Short: "Sign and verify receipts of GPU tests: all commands of gpu-proof",
		Long:  "gpuemu proof COMMAND is gpu-proof COMMAND; gpuemu proof --help lists its commands.",
		// Its commands have flags of their own, --help among them.
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			status := proof.Main(proof.Env{Name: "gpuemu proof", Args: args, Stdin: env.Stdin, Stdout: env.Stdout,
				Stderr: env.Stderr, Getenv: env.Getenv, Version: env.Version, Interrupt: env.Interrupt})
			if status == command.ExitOK {
				return nil
			}
			return &command.Status{Code: status, Err: nil} // proof has said what is wrong
		},
	}
}

package cli

import (
	"github.com/spf13/cobra"

	"gpuemu/internal/diag"
)

// This file implements the command completion.

func completionCommand(term *terminal) *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a completion script for a shell",
		Example:   "  source <(gpuemu completion bash)",
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return diag.Errorf(Usage, "use gpuemu completion bash, zsh or fish", "completion takes the name of one shell")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(term.out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(term.out)
			case "fish":
				return cmd.Root().GenFishCompletion(term.out, true)
			}
			return diag.Errorf(Usage, diag.Suggest(args[0], shells, "use bash, zsh or fish"), "unknown shell %q", args[0])
		},
	}
}

package cli

import (
	"github.com/spf13/cobra"

	"gpuemu/internal/command"
)

// This file implements the command version.

func versionCommand(term *terminal, linked string) *cobra.Command {
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of gpuemu",
		Args:  codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info := command.ReadVersion(linked)
			if format.value == "json" {
				return term.printJSON(info)
			}
			term.print(info.Line("gpuemu"))
			return nil
		},
	}
	format.register(cmd, "format", "output format")
	return cmd
}

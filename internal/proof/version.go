package proof

import (
	"github.com/spf13/cobra"

	"gpuemu/internal/command"
)

// This file implements the command version.

func versionCommand(env Env, term *terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of gpu-proof",
		Args:  codes.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info := command.ReadVersion(env.Version)
			if asJSON {
				return term.printJSON(info)
			}
			term.print("%s", info.Line("gpu-proof"))
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON document")
	return cmd
}

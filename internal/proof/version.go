package proof

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// This file implements the command version.

// versionInfo is what version prints; the JSON form is its encoding.
type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// readVersion is what the linker was told, else what the go command recorded, else "unknown".
func readVersion(linked string) versionInfo {
	if linked == "" {
		linked = "unknown"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			linked = info.Main.Version
		}
	}
	return versionInfo{linked, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// String is the line of version and of --version.
func (v versionInfo) String() string {
	return fmt.Sprintf("gpu-proof %s (%s, %s)", v.Version, v.Go, v.Platform)
}

func versionCommand(env Env, term *terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of gpu-proof",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			info := readVersion(env.Version)
			if asJSON {
				return term.printJSON(info)
			}
			term.print("%s", info)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON document")
	return cmd
}

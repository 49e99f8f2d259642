package cli

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

func readVersion(linked string) versionInfo {
	return versionInfo{programVersion(linked), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// String is the line of version and of --version.
func (v versionInfo) String() string {
	return fmt.Sprintf("gpuemu %s (%s, %s)", v.Version, v.Go, v.Platform)
}

func versionCommand(term *terminal, linked string) *cobra.Command {
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of gpuemu",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			info := readVersion(linked)
			if format.value == "json" {
				return term.printJSON(info)
			}
			term.print(info.String())
			return nil
		},
	}
	format.register(cmd, "format", "output format")
	return cmd
}

// programVersion is what the linker was told, else what the go command recorded, else "unknown".
func programVersion(linked string) string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/proof"
)

// This file implements the reference page of all commands, docs/cli.md.

// Reference returns the help of every command as one page of Markdown. It is made from what --help prints, so that the
// two cannot differ.
func Reference() string {
	env := Env{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }, Version: "unknown"}
	top := root(env, newTerminal(env))
	var b strings.Builder
	b.WriteString("# Commands\n\nMade from the program's own help by `make generate`. Flags may be written with `-` or " +
		"`_`.\n\nEvery command also takes:\n\n```\n")
	b.WriteString(strings.TrimRight(top.PersistentFlags().FlagUsages(), "\n") + "\n```\n")
	describe(&b, top)
	receipts := proof.Commands()
	b.WriteString("\n# Commands of gpu-proof\n\n" + receipts.Long + "\n")
	describe(&b, receipts)
	return b.String()
}

// describe writes the sections of the subcommands of cmd.
func describe(b *strings.Builder, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\n%s.\n", c.CommandPath(), c.Short)
		if c.Long != "" {
			fmt.Fprintf(b, "\n```\n%s\n```\n", strings.TrimRight(c.Long, "\n"))
		}
		if c.Runnable() && !c.HasSubCommands() {
			fmt.Fprintf(b, "\nUse: `%s`\n", c.UseLine())
		}
		if c.Example != "" {
			fmt.Fprintf(b, "\n```\n%s\n```\n", c.Example)
		}
		if flags := c.LocalFlags().FlagUsages(); flags != "" {
			fmt.Fprintf(b, "\n```\n%s\n```\n", strings.TrimRight(flags, "\n"))
		}
		describe(b, c)
	}
}

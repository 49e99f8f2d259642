// Package command holds what the two programs, gpuemu and gpu-proof, have in common as commands: exit codes, what is
// said of commands, arguments and flags that are wrong, help, and the version.
//
// It knows no command. Main type: Codes, the error codes of the program that uses it.
package command

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuemu/internal/diag"
)

// Codes are a program's codes of wrong usage.
type Codes struct{ Usage, UnknownCommand diag.Code }

// Root sets up the command of a program: it only has subcommands, and what goes wrong is said by the caller.
func (c Codes) Root(cmd *cobra.Command, args []string, version string) {
	c.Group(cmd)
	cmd.SilenceErrors, cmd.SilenceUsage, cmd.DisableAutoGenTag = true, true, true
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetArgs(args)
	cmd.SetGlobalNormalizationFunc(dashes)
	cmd.SetFlagErrorFunc(c.FlagError)
	cmd.SetHelpCommand(c.Help())
	cmd.Version = version
	cmd.SetVersionTemplate("{{.Version}}\n")
}

// Group makes a command that only has subcommands refuse everything else.
func (c Codes) Group(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return diag.Errorf(c.Usage, listsCommands(cmd), "no command given")
		}
		return c.Unknown(cmd, args[0])
	}
	cmd.RunE = func(*cobra.Command, []string) error { return nil } // never reached: Args refuses everything
}

// Execute runs a program. cobra prints help before it looks at the names of commands: with --help, one that does not
// exist would be a success.
func Execute(program *cobra.Command) error {
	var unknown error
	help := program.HelpFunc()
	program.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if names := cmd.Flags().Args(); cmd.HasSubCommands() && len(names) > 0 {
			unknown = cmd.ValidateArgs(names)
		}
		if unknown == nil {
			help(cmd, args)
		}
	})
	return cmp.Or(program.Execute(), unknown)
}

func listsCommands(cmd *cobra.Command) string {
	return cmd.CommandPath() + " --help lists the commands"
}

// Unknown is the error for a command that parent does not have.
func (c Codes) Unknown(parent *cobra.Command, name string) error {
	var names []string
	for _, sub := range parent.Commands() {
		names = append(names, sub.Name())
	}
	return diag.Errorf(c.UnknownCommand, diag.Suggest(name, names, listsCommands(parent)), "unknown command %q", name)
}

// Help replaces cobra's, which answers an unknown name with the help of the program and success.
func (c Codes) Help() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return c.Unknown(cmd.Root(), args[len(args)-len(rest)])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// NoArgs refuses positional arguments.
func (c Codes) NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return diag.Errorf(c.Usage, cmd.CommandPath()+" --help shows its use", "unexpected argument %q", args[0])
	}
	return nil
}

// FlagError turns what pflag says of a flag into an error with a next step.
func (c Codes) FlagError(cmd *cobra.Command, err error) error {
	help := cmd.CommandPath() + " --help lists the flags"
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case !cmd.HasParent() && cmd.Flags().NArg() > 0:
		return c.Unknown(cmd, cmd.Flags().Arg(0)) // the flag is not the fault, it belongs to a misspelt command
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := "--" + unknown.GetSpecifiedName()
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		return diag.Errorf(c.Usage, diag.Suggest(name, known, help), "unknown flag %q", name)
	case errors.As(err, &invalid):
		cause := invalid.Unwrap()
		var number *strconv.NumError // its own text names a function of Go
		if errors.As(cause, &number) {
			cause = fmt.Errorf("%q: %w", number.Num, number.Err)
		}
		return diag.Errorf(c.Usage, help, "--%s: %w", invalid.GetFlag().Name, cause)
	}
	return diag.Errorf(c.Usage, help, "%w", err)
}

// dashes makes --since_hours and --since-hours the same flag.
func dashes(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// Version is what the command version prints; the JSON form is its encoding.
type Version struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ReadVersion takes what the linker was told, else what the go command recorded, else "unknown".
func ReadVersion(linked string) Version {
	if linked == "" {
		linked = "unknown"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			linked = info.Main.Version
		}
	}
	return Version{linked, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// Line is that of version and of --version.
func (v Version) Line(program string) string {
	return fmt.Sprintf("%s %s (%s, %s)", program, v.Version, v.Go, v.Platform)
}

// Package proof is the command line of gpu-proof: arguments in, text and an exit code out. What a receipt is, whether
// it is believed and who may sign it is decided by the packages below; the commands read files, ask for keys, and say
// what was found.
//
// There is one file per subcommand, and all printing is in terminal.go. The main function is Main; the world it may
// touch comes in as an Env, so that tests run it in process, and gpuemu proof is the same thing under another name.
// Exit codes are those of every command of gpuemu:
//
//	0  all that was asked for was done, and what was to be verified is accepted
//	1  a receipt was refused, or what was to be signed must not be
//	2  nothing could start because of the arguments, the files they name or the configuration
//	3  something asked for was not done: a forge or Git could not be asked, a challenge could not be checked
package proof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuemu/internal/diag"
)

// This file implements the root command and the way from an error to an exit code.

// Exit codes.
const (
	exitOK      = 0
	exitRefused = 1
	exitUsage   = 2
	exitNotRun  = 3
)

// Env is what the command line may touch besides files.
type Env struct {
	Name           string   // what the program is called in messages: gpu-proof, or gpuemu proof
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Version        string // set by the linker; "" in a plain go build
	// Interrupt returns a context that ends when the user asks the program to stop. nil: nobody asks.
	Interrupt func() (context.Context, context.CancelFunc)
	// Now is the clock; nil: that of the system. Transport carries requests to forges; nil: the network.
	Now       func() time.Time
	Transport http.RoundTripper
}

func (e Env) now() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now()
}

// context returns a context that ends with the first request to stop; a second ends the program at once.
func (e Env) context() (context.Context, context.CancelFunc) {
	if e.Interrupt == nil {
		return context.WithCancel(context.Background())
	}
	ctx, stop := e.Interrupt()
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Main runs one command and returns its exit code.
func Main(env Env) (code int) {
	if env.Name == "" {
		env.Name = "gpu-proof"
	}
	term := newTerminal(env)
	defer func() {
		// A fault of ours must not look like a usage error (a bare panic exits with 2, too).
		if p := recover(); p != nil {
			for text := range strings.Lines(string(debug.Stack())) {
				term.note("%s", strings.TrimSuffix(text, "\n"))
			}
			term.fail(diag.Errorf(Internal, "this is a bug in gpu-proof: please report it with the text above",
				"internal error: %v", p))
			code = exitNotRun
		}
	}()
	err := root(env, term).Execute()
	if errors.Is(err, context.Canceled) && diag.CodeOf(err) == "" {
		err = notRun(diag.Errorf(Interrupted, "", "interrupted before it was done"))
	}
	if flushErr := term.out.Flush(); err == nil && flushErr != nil {
		err = notRun(diag.Errorf(WriteFailed, "", "standard output: %w", flushErr))
	}
	var s *statusError
	if said := errors.As(err, &s) && s.err == nil; err != nil && !said {
		term.fail(err)
	}
	return exitCode(err)
}

// statusError is an error with an exit code other than exitUsage. Without err the command's output has said it all.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return "exit status " + strconv.Itoa(e.status)
	}
	return e.err.Error()
}
func (e *statusError) Unwrap() error { return e.err }

// notRun marks an error that came up after the work had started: what was asked for was not done.
func notRun(err error) error { return &statusError{exitNotRun, err} }

// refused marks an error that is an answer: no.
func refused(err error) error { return &statusError{exitRefused, err} }

// exitCode: an error without a status of its own kept the command from starting.
func exitCode(err error) int {
	var s *statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &s):
		return s.status
	}
	return exitUsage
}

// root builds the command tree. It does no other work: start-up counts.
func root(env Env, term *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "gpu-proof",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: env.Name},
		Short:       "Signed receipts of GPU tests, and their verification without a GPU",
		Long: "gpu-proof signs what a test run found, on which code and which GPU, and verifies such receipts on\n" +
			"machines that have no GPU: who signed, what was tested, whether the code is still the same.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	group(cmd)
	cmd.SetArgs(env.Args)
	cmd.SetOut(term.out)
	cmd.SetErr(term.err)
	cmd.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	cmd.SetFlagErrorFunc(flagError)
	cmd.SetHelpCommand(helpCommand())
	cmd.Version = readVersion(env.Version).String()
	cmd.SetVersionTemplate("{{.Version}}\n")
	flags := cmd.PersistentFlags()
	flags.BoolVarP(&term.verbose, "verbose", "v", false, "say more on standard error")
	flags.BoolVar(&term.noColor, "no-color", false, "no colours (also: NO_COLOR or GPUEMU_NO_COLOR)")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		term.configure(env.Getenv)
		return nil
	}
	cmd.AddCommand(challengeCommand(env, term), explainCommand(env, term), inspectCommand(env, term),
		mergeCommand(env, term), policyCommand(env, term), signCommand(env, term), snapshotCommand(env, term),
		verifyCommand(env, term), versionCommand(env, term))
	return cmd
}

// Commands returns the command tree, for the page that describes it.
func Commands() *cobra.Command {
	env := Env{Name: "gpu-proof", Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}
	return root(env, newTerminal(env))
}

// group makes a command that only has subcommands refuse everything else.
func group(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return diag.Errorf(Usage, cmd.CommandPath()+" --help lists the commands", "no command given")
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.RunE = func(*cobra.Command, []string) error { return nil } // never reached: Args refuses everything
}

// unknownCommand is the error for a command that parent does not have.
func unknownCommand(parent *cobra.Command, name string) error {
	var names []string
	for _, c := range parent.Commands() {
		names = append(names, c.Name())
	}
	return diag.Errorf(UnknownCommand, diag.Suggest(name, names, parent.CommandPath()+" --help lists the commands"),
		"unknown command %q", name)
}

// helpCommand replaces cobra's, which answers an unknown name with the help of the root and success.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd.Root(), args[len(args)-len(rest)])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// noArgs refuses positional arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return diag.Errorf(Usage, cmd.CommandPath()+" --help shows its use", "unexpected argument %q", args[0])
	}
	return nil
}

// flagError turns what pflag says of a flag into an error with a next step.
func flagError(cmd *cobra.Command, err error) error {
	help := cmd.CommandPath() + " --help lists the flags"
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := "--" + unknown.GetSpecifiedName()
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		return diag.Errorf(Usage, diag.Suggest(name, known, help), "unknown flag %q", name)
	case errors.As(err, &invalid):
		cause := invalid.Unwrap()
		var number *strconv.NumError // its own text names a function of Go
		if errors.As(cause, &number) {
			cause = fmt.Errorf("%q: %w", number.Num, number.Err)
		}
		return diag.Errorf(Usage, help, "--%s: %w", invalid.GetFlag().Name, cause)
	}
	return diag.Errorf(Usage, help, "%w", err)
}

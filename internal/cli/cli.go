// Package cli is the command line of gpuemu: arguments in, text and an exit code out. It computes nothing itself;
// every subcommand parses its flags, calls the packages below, and prints what they returned.
//
// There is one file per subcommand, and all printing is in terminal.go. The main function is Main; the world it may
// touch comes in as an Env, so that tests run it in process. Exit codes are those of every command of gpuemu:
//
//	0  all that was asked for was done
//	1  something was compared and is wrong
//	2  nothing could start because of the arguments, the files they name or the configuration
//	3  something asked for was not done (also: our own fault)
package cli

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"gpuemu/internal/campaign"
	"gpuemu/internal/command"
	"gpuemu/internal/daemon"
	"gpuemu/internal/diag"
	"gpuemu/internal/store"
)

// This file implements the root command, its global flags and the way from an error to an exit code.

// codes are what wrong usage is called.
var codes = command.Codes{Usage: Usage, UnknownCommand: UnknownCommand}

// Env is what the command line may touch besides files.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        []string // what requests carry is taken from, NAME=value; nil: requests carry none
	Version        string   // set by the linker; "" in a plain go build
	// Interrupt returns a context that ends when the user asks the program to stop. A command calls it only where it
	// would leave something behind otherwise, and looks at the context then. nil: nobody asks.
	Interrupt func() (context.Context, context.CancelFunc)
}

// interruptible returns a context that ends with the first request to stop; a second ends the program at once.
func (e Env) interruptible() (context.Context, context.CancelFunc) {
	if e.Interrupt == nil {
		return context.WithCancel(context.Background())
	}
	ctx, stop := e.Interrupt()
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// untilEOF returns a world in which the program is also asked to stop when its standard input ends. The goroutine that
// reads it ends with the program.
func (e Env) untilEOF() Env {
	outer := e
	e.Interrupt = func() (context.Context, context.CancelFunc) {
		ctx, stop := outer.interruptible()
		go func() {
			_, _ = io.Copy(io.Discard, outer.Stdin) // however it ends
			stop()
		}()
		return ctx, stop
	}
	return e
}

// Main runs one command and returns its exit code.
func Main(env Env) (code int) {
	term := newTerminal(env)
	defer func() {
		// A fault of ours must not look like a usage error (a bare panic exits with 2, too).
		if p := recover(); p != nil {
			term.fail(diag.Errorf(Internal, "this is a bug in gpuemu: please report it with the text above",
				"internal error: %v\n%s", p, debug.Stack()))
			code = command.ExitNotRun
		}
	}()
	err := command.Execute(root(env, term))
	if errors.Is(err, context.Canceled) && diag.CodeOf(err) == "" {
		err = command.NotRun(diag.Errorf(Interrupted, "", "interrupted before it was done"))
	}
	if flushErr := term.flush(); err == nil && flushErr != nil {
		err = stdoutError(flushErr)
	}
	if err != nil && !command.Said(err) {
		term.fail(err)
	}
	return exitCode(err)
}

// exitCode: an error without a status of its own kept the command from starting, unless its code says otherwise.
func exitCode(err error) int {
	var s *command.Status
	if !errors.As(err, &s) && isNotRun(diag.CodeOf(err)) {
		return command.ExitNotRun
	}
	return command.ExitCode(err)
}

// isNotRun reports whether an error is neither of the arguments nor of the configuration: the daemon, the store or the
// executed code kept the work from being done.
func isNotRun(code diag.Code) bool {
	switch code {
	case store.NotFound, // an unknown tag or campaign was asked for
		daemon.BadRequest, daemon.BadSocket, daemon.BadHome, daemon.BadListener, daemon.AlreadyRunning:
		return false
	case campaign.NotExecutable, campaign.NotFailing, campaign.TooFewSamples:
		return true
	}
	return strings.HasPrefix(string(code), "store-") || strings.HasPrefix(string(code), "daemon-")
}

// root builds the command tree. It does no other work: start-up counts.
func root(env Env, term *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gpuemu",
		Short: "Decides whether a GPU kernel is right over its whole input domain",
		Long: "gpuemu generates cases from an operator's schema and a seed, and knows the fp64 answer of each together\n" +
			"with the largest error an honest implementation can make.",
	}
	codes.Root(cmd, env.Args, command.ReadVersion(env.Version).Line("gpuemu"))
	cmd.SetOut(term.out)
	cmd.SetErr(term.err)
	flags := cmd.PersistentFlags()
	flags.BoolVarP(&term.verbose, "verbose", "v", false, "say more on standard error")
	flags.StringVar(&term.config, "config", "", "project `FILE` (default: gpuemu.toml here or above; also: GPUEMU_CONFIG)")
	flags.BoolVar(&term.noColor, "no-color", false, "no colours (also: NO_COLOR or GPUEMU_NO_COLOR)")
	flags.BoolVar(&term.jsonLog, "json-log", false, "messages on standard error as JSON, one object per line")
	flags.BoolVar(&term.noDaemon, "no-daemon", false,
		"ask no daemon: the engine of this command does the work (also: GPUEMU_NO_DAEMON)")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		if err := term.configure(env.Getenv); err != nil || !flags.Changed("config") {
			return err
		}
		return checkConfig("--config", term.config)
	}

	cmd.AddCommand(doctorCommand(term, env), initCommand(term, env), artifactsCommand(term, env), lintCommand(term, env))
	cmd.AddCommand(baselineCommand(term, env), calibrateCommand(term, env), casesCommand(term, env), ciCommand(term, env),
		completionCommand(term), coverageCommand(term, env), daemonCommand(term, env), debugCommand(term, env),
		demoCommand(term, env), diffCommand(term, env), emulateCommand(term, env), failuresCommand(term, env),
		fuzzCommand(term, env), judgeCommand(term, env), mergeCommand(term), minimizeCommand(term, env),
		opsCommand(term, env),
		oracleCommand(term, env), proofCommand(env), reportCommand(term, env), reproduceCommand(term, env),
		statusCommand(term, env), testCommand(term, env),
		versionCommand(term, env.Version))
	return cmd
}

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
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuemu/internal/command"
	"gpuemu/internal/diag"
)

// This file implements the root command and the way from an error to an exit code.

// codes are what wrong usage is called.
var codes = command.Codes{Usage: Usage, UnknownCommand: UnknownCommand}

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
			code = command.ExitNotRun
		}
	}()
	err := command.Execute(root(env, term))
	if errors.Is(err, context.Canceled) && diag.CodeOf(err) == "" {
		err = command.NotRun(diag.Errorf(Interrupted, "", "interrupted before it was done"))
	}
	if flushErr := term.out.Flush(); err == nil && flushErr != nil {
		err = command.NotRun(diag.Errorf(WriteFailed, "", "standard output: %w", flushErr))
	}
	if err != nil && !command.Said(err) {
		term.fail(err)
	}
	return command.ExitCode(err)
}

// refused marks an error that is an answer: no.
func refused(err error) error { return &command.Status{Code: command.ExitFailed, Err: err} }

// root builds the command tree. It does no other work: start-up counts.
func root(env Env, term *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "gpu-proof",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: env.Name},
		Short:       "Signed receipts of GPU tests, and their verification without a GPU",
		Long: "gpu-proof signs what a test run found, on which code and which GPU, and verifies such receipts on\n" +
			"machines that have no GPU: who signed, what was tested, whether the code is still the same.",
	}
	codes.Root(cmd, env.Args, command.ReadVersion(env.Version).Line("gpu-proof"))
	cmd.SetOut(term.out)
	cmd.SetErr(term.err)
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

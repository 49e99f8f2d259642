package command

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"gpuemu/internal/diag"
)

var codes = Codes{Usage: "test-usage", UnknownCommand: "test-unknown-command"}

// program has one command with one flag.
func program(args ...string) *cobra.Command {
	root := &cobra.Command{Use: "program"}
	codes.Root(root, args, "program 1")
	sub := &cobra.Command{Use: "verify", Args: codes.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	sub.Flags().Int("max-age", 0, "")
	root.AddCommand(sub)
	return root
}

func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, message, hint string }{
		{"", "no command given", "program --help lists the commands"},
		{"verfy", `unknown command "verfy"`, "did you mean verify?"},
		{"verfy --max", `unknown command "verfy"`, "did you mean verify?"},
		{"verfy --help", `unknown command "verfy"`, "did you mean verify?"},
		{"verfy -h", `unknown command "verfy"`, "did you mean verify?"},
		{"--help verfy", `unknown command "verfy"`, "did you mean verify?"},
		{"--help", "", ""},
		{"verify --help", "", ""},
		{"help verfy", `unknown command "verfy"`, "did you mean verify?"},
		{"verify x", `unexpected argument "x"`, "program verify --help shows its use"},
		{"verify --max-agee 1", `unknown flag "--max-agee"`, "did you mean --max-age?"},
		{"verify --max_age y", `--max-age: "y": invalid syntax`, "program verify --help lists the flags"},
		{"verify --max_age 1", "", ""},
	} {
		err := Execute(program(strings.Fields(c.args)...))
		if c.message == "" {
			if err != nil {
				t.Errorf("%q = %v, want success", c.args, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.message) || diag.HintOf(err) != c.hint {
			t.Errorf("%q = %v, hint %q, want %s, hint %q", c.args, err, diag.HintOf(err), c.message, c.hint)
		}
	}
}

func TestExitCode(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		err  error
		code int
		said bool
	}{
		{nil, ExitOK, false},
		{cause, ExitUsage, false},
		{NotRun(cause), ExitNotRun, false},
		{fmt.Errorf("outer: %w", NotRun(cause)), ExitNotRun, false},
		{&Status{Code: ExitFailed}, ExitFailed, true},
	} {
		if got, said := ExitCode(c.err), Said(c.err); got != c.code || said != c.said {
			t.Errorf("ExitCode, Said of %v = %d, %v, want %d, %v", c.err, got, said, c.code, c.said)
		}
	}
	if err := NotRun(cause); !errors.Is(err, cause) || err.Error() != "cause" {
		t.Errorf("NotRun hides its cause: %v", err)
	}
	if got := (&Status{Code: 1}).Error(); got != "exit status 1" {
		t.Errorf("a status without an error = %q", got)
	}
}

func TestVersion(t *testing.T) {
	if v := ReadVersion("1.2"); v.Version != "1.2" || !strings.HasPrefix(v.Line("program"), "program 1.2 (go") {
		t.Errorf("ReadVersion = %+v, %s", v, v.Line("program"))
	}
	if v := ReadVersion(""); v.Version == "" {
		t.Error("a program without a version does not say so")
	}
}

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gpuemu/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gpu-proof": main,
		"gpuemu": func() {
			os.Exit(cli.Main(cli.Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
				Getenv: os.Getenv}))
		},
	})
}

// TestScripts runs testdata/script/*.txt: one file per behaviour; stdout, stderr and exit code are asserted there.
// Commands beside gpu-proof and gpuemu:
//
//	exits CODE gpu-proof ...  runs a command that must exit with exactly CODE
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Cmds:               map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a program and asserts its exit code, which "!" alone does not do.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s exits with %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

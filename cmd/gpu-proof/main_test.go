package main

import (
	"fmt"
	"os"
	"path/filepath"
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
		"mkrepo":  makeRepo,
		"results": writeResults,
		"edit":    editFile,
		"resign":  signAgain,
		"relu":    runReLU,
		"agent":   withAgent,
		"literal": withLiteral,
		"allowed": allowSigner,
		"strip":   stripSignatures,
		"graft":   graftSignatures,
		"only":    keepTests,
		"kernel":  nameKernel,
		"flip":    flipOutput,
		"make":    makeHostile,
		"isjson":  checkJSON,
	})
}

// TestScripts runs testdata/script/*.txt: one file per behaviour; stdout, stderr and exit code are asserted there.
// Commands beside gpu-proof and gpuemu:
//
//	exits CODE gpu-proof ...     runs a command that must exit with exactly CODE
//	mkrepo DIR                   makes a Git repository with src/, tests/ and one commit
//	results FILE [CHALLENGE]     writes the result file of a green run over the repository here
//	edit FILE OLD NEW            replaces a text in a file; it must be there
//	resign FILE KEY OLD NEW      replaces a text in the payload of a receipt, and signs it again
//	relu IN OUT [WRONG]          computes what a GPU would, for the cases in IN; WRONG is a factor for negative inputs
//	agent KEY PROGRAM ARGS...    runs a program beside an ssh-agent that has that key
//	literal PUB PROGRAM ARGS...  runs a program with the public key in PUB as its last argument, as key::…
//	allowed NAME PUB FILE        writes a file of allowed signers with one line
//	strip FILE                   takes the signatures away from a receipt
//	graft FILE FROM              puts the signatures of FROM under the payload of FILE
//	only FILE ID...              leaves these tests in a result file
//	kernel FILE PTX ENTRY OUT    writes a challenge that names a kernel
//	flip FILE KEY [digest]       changes a recorded output of a receipt, and signs it again
//	make FILE KIND               writes a file that is no receipt: deep, large, latin1, empty
//	snapshot NAME                puts the digest of the code into a variable of the script
//	isjson FILE...               checks that each file is one JSON value and nothing else
func TestScripts(t *testing.T) {
	vectors, err := filepath.Abs("../../testdata/vectors/gpu-proof")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("VECTORS", vectors)
			// Nothing of the machine's own configuration, and no question, ever.
			for _, name := range []string{"SSH_AUTH_SOCK", "GITHUB_STEP_SUMMARY", "XDG_CONFIG_HOME"} {
				env.Setenv(name, "")
			}
			env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			env.Setenv("GIT_AUTHOR_NAME", "a")
			env.Setenv("GIT_AUTHOR_EMAIL", "a@example.org")
			env.Setenv("GIT_COMMITTER_NAME", "a")
			env.Setenv("GIT_COMMITTER_EMAIL", "a@example.org")
			return os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "snapshot": snapshot},
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

// snapshot puts the digest of the code into a variable.
func snapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: snapshot NAME")
	}
	ts.Check(ts.Exec("gpu-proof", "snapshot"))
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

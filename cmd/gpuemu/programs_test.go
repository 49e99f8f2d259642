package main

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuemu/internal/report"
	"gpuemu/internal/verdict"
)

// What the scripts need beside gpuemu itself.

// junitFile is the usual schema (that of Jenkins and of the report actions), as far as we write it.
type junitFile struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    *int         `xml:"tests,attr"`
	Failures *int         `xml:"failures,attr"`
	Errors   *int         `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
	Rest     []anyElement `xml:",any"`
}

type junitSuite struct {
	Name     *string     `xml:"name,attr"`
	Tests    *int        `xml:"tests,attr"`
	Failures *int        `xml:"failures,attr"`
	Errors   *int        `xml:"errors,attr"`
	Skipped  *int        `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      *string      `xml:"name,attr"`
	ClassName *string      `xml:"classname,attr"`
	Failures  []anyElement `xml:"failure"`
	Errors    []anyElement `xml:"error"`
	Skipped   []anyElement `xml:"skipped"`
}

type anyElement struct {
	XMLName xml.Name
}

// countJUnit checks that the counts of a file are those of its elements and prints them.
func countJUnit() {
	b, err := os.ReadFile(os.Args[1])
	fail(err)
	var f junitFile
	fail(xml.Unmarshal(b, &f))
	if len(f.Rest) > 0 {
		fail(fmt.Errorf("unknown element %s", f.Rest[0].XMLName.Local))
	}
	tests, failures, errs, skipped := 0, 0, 0, 0
	for _, s := range f.Suites {
		if s.Name == nil || s.Tests == nil || s.Failures == nil || s.Errors == nil {
			fail(errors.New("a testsuite lacks an attribute"))
		}
		n, bad, wrong, skip := 0, 0, 0, 0
		for _, c := range s.Cases {
			if c.Name == nil || c.ClassName == nil {
				fail(errors.New("a testcase lacks name or classname"))
			}
			n, bad, wrong, skip = n+1, bad+len(c.Failures), wrong+len(c.Errors), skip+len(c.Skipped)
		}
		if n != *s.Tests || bad != *s.Failures || wrong != *s.Errors || s.Skipped != nil && skip != *s.Skipped {
			fail(fmt.Errorf("testsuite %s: its counts are not those of its cases", *s.Name))
		}
		tests, failures, errs, skipped = tests+n, failures+bad, errs+wrong, skipped+skip
	}
	if f.Tests == nil || *f.Tests != tests || f.Failures != nil && *f.Failures != failures {
		fail(errors.New("the counts of testsuites are not those of its suites"))
	}
	fmt.Printf("tests=%d failures=%d errors=%d skipped=%d\n", tests, failures, errs, skipped)
}

// listSeeds writes the seeds of failed cases.
func listSeeds() {
	doc, err := report.ReadFile(os.Args[1])
	fail(err)
	var b strings.Builder
	for i := range doc.Results {
		if doc.Results[i].Verdict.Failed() {
			fmt.Fprintln(&b, uint64(doc.Results[i].Seed))
		}
	}
	fail(os.WriteFile(os.Args[2], []byte(b.String()), 0o600))
}

// withFirstLine runs a program with the first line of a file as its last argument.
func withFirstLine() {
	b, err := os.ReadFile(os.Args[1])
	fail(err)
	line, _, _ := strings.Cut(string(b), "\n")
	pass(os.Args[2], append(os.Args[3:], line)...)
}

// runReplays runs the commands behind "replay: " in a shell, as people do who copy them. Each must still fail.
func runReplays() {
	text, err := os.ReadFile(os.Args[1])
	fail(err)
	n := 0
	for line := range strings.Lines(string(text)) {
		_, command, found := strings.Cut(strings.TrimSpace(line), "replay: ")
		if !found {
			continue
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Env = append(os.Environ(), "GPUEMU_HOME="+os.Args[2])
		out, err := cmd.Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "replayed: still fails") {
			fail(fmt.Errorf("%s: %v\n%s", command, err, out))
		}
		n++
	}
	fmt.Printf("%d commands\n", n)
}

// pass runs a program in our place; where it fails, we end with its exit code.
func pass(name string, args ...string) *os.ProcessState {
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	fail(err)
	return cmd.ProcessState
}

// runUntil runs a program until it succeeds.
func runUntil() {
	for range 1500 {
		if exec.Command(os.Args[1], os.Args[2:]...).Run() == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	fail(fmt.Errorf("%s does not succeed", strings.Join(os.Args[1:], " ")))
}

// checkJSON checks that files have one JSON value each.
func checkJSON() {
	for _, path := range os.Args[1:] {
		b, err := os.ReadFile(path)
		fail(err)
		if !json.Valid(b) {
			fail(fmt.Errorf("%s is not JSON: %.200s", path, b))
		}
	}
}

// compareReports compares two reports but for times and names of campaigns.
func compareReports() {
	var docs [2]*report.Document
	for i := range docs {
		doc, err := report.ReadFile(os.Args[1+i])
		fail(err)
		slices.SortFunc(doc.Results, func(a, b verdict.Result) int { return cmp.Compare(a.Index, b.Index) })
		docs[i] = doc
	}
	got, want := docs[0], docs[1]
	if got.Summary.Counts != want.Summary.Counts || len(got.Results) != len(want.Results) || len(got.Results) == 0 {
		fail(fmt.Errorf("counts differ: %+v and %+v", got.Summary.Counts, want.Summary.Counts))
	}
	for i := range got.Results {
		if a, b := bare(got.Results[i]), bare(want.Results[i]); a != b {
			fail(fmt.Errorf("case %d differs:\n%s\n%s", i, a, b))
		}
	}
}

// limitMemory runs a program and looks at how much memory it had at most.
func limitMemory() {
	limit, err := strconv.Atoi(os.Args[1])
	fail(err)
	state := pass(os.Args[2], os.Args[3:]...)
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		fail(errors.New("the system does not tell how much memory it was"))
	}
	if mib := usage.Maxrss >> 10; mib > int64(limit) {
		fail(fmt.Errorf("used %d MiB, want at most %d", mib, limit))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

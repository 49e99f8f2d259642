package receipt

// This file implements the result file: what a test run wrote down, unsigned.

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gpuemu/internal/diag"
)

// ResultsFormat names the version of the result file.
const ResultsFormat = "gpu-proof-results/1"

// Outcomes of a test. What is neither run to its end nor skipped on purpose is an error.
const (
	Passed  = "passed"
	Failed  = "failed"
	Errored = "error" // setup, teardown, a crash, a time limit, or never finished
	Skipped = "skipped"
	XFailed = "xfailed" // failed, and was expected to
	XPassed = "xpassed" // passed, and was expected to fail
)

var outcomes = []string{Passed, Failed, Errored, Skipped, XFailed, XPassed}

// Modes of a run: on somebody's machine, or on a CI runner that has a GPU.
var modes = []string{"local", "ci-gpu"}

// TimeForm is the one spelling of a time in receipts and result files: UTC, whole seconds.
const TimeForm = "2006-01-02T15:04:05Z"

// Results is a result file.
type Results struct {
	Format     string      `json:"format"`
	Runner     Runner      `json:"runner"`
	Mode       string      `json:"mode"`
	Root       string      `json:"root"` // where ids begin, relative to the top of the repository
	StartedAt  string      `json:"started_at"`
	EndedAt    string      `json:"ended_at"`
	Arguments  []string    `json:"arguments"`
	ExitStatus int         `json:"exit_status"`
	Finished   bool        `json:"finished"` // false: interrupted, or stopped at the first failure
	Code       ResultsCode `json:"code"`
	Collected  []string    `json:"collected"`  // for the proof, before -k and the like
	Deselected []string    `json:"deselected"` // by -k and the like
	Outside    Outside     `json:"outside"`
	Tests      []Test      `json:"tests"`
	Devices    []Device    `json:"devices"`
	Challenges []Challenge `json:"challenges"`
}

// Runner is what ran the tests.
type Runner struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Plugin   string `json:"plugin,omitempty"`
	Language string `json:"language,omitempty"`
}

// ResultsCode is which code was there when the run began and ended: digests of gpu-proof snapshot, "" where the runner
// took none.
type ResultsCode struct {
	Scope   []string `json:"scope"`
	Exclude []string `json:"exclude"`
	Outputs []string `json:"outputs"`
	Start   string   `json:"start"`
	End     string   `json:"end"`
}

// Outside counts the tests of the run that are not part of the proof.
type Outside struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Errors  int `json:"errors"`
	Skipped int `json:"skipped"`
}

// Test is one test and how it went.
type Test struct {
	ID      string  `json:"id"`
	Outcome string  `json:"outcome"`
	Phase   string  `json:"phase,omitempty"` // setup, call, teardown; of the outcome
	Seconds float64 `json:"seconds"`
	Reruns  int     `json:"reruns,omitempty"` // how often it was run again after a failure
	Reason  string  `json:"reason,omitempty"` // of a skip or an expected failure
	Checks  []Check `json:"checks,omitempty"`
}

// Check is one comparison inside a test.
type Check struct {
	Name     string         `json:"name"`
	Outcome  string         `json:"outcome"` // passed, failed, error
	Metadata map[string]any `json:"metadata"`
}

// Device is what a framework said it ran on.
type Device struct {
	Framework string `json:"framework"`
	Name      string `json:"name"`
	UUID      string `json:"uuid,omitempty"`
}

// ReadResults reads a result file. file is its name for messages.
func ReadResults(file string, b []byte) (*Results, error) {
	v, err := DecodeStrict(b, Limits{})
	if err != nil {
		return nil, atFile(file, err)
	}
	if err := checkFormat(v, ResultsFormat); err != nil {
		return nil, atFile(file, err)
	}
	var r Results
	if err := assign("", v, &r); err != nil {
		return nil, atFile(file, err)
	}
	if err := r.Check(); err != nil {
		return nil, atFile(file, err)
	}
	return &r, nil
}

// checkFormat looks at the field format alone, so that another version is told from a broken file.
func checkFormat(v any, want string) error {
	object, ok := v.(map[string]any)
	if !ok {
		return wrongType("", v, "an object")
	}
	got, ok := object["format"].(string)
	if !ok {
		return diag.Errorf(UnknownFormat, "", "there is no field %q with the text %q", "format", want)
	}
	if got != want {
		return diag.Errorf(UnknownFormat, "use a gpu-proof that is as new as what wrote the file",
			"the format is %q, %q is read", shorten(got), want)
	}
	return nil
}

// atFile puts the name of the file into an error of this package.
func atFile(file string, err error) error {
	e, ok := err.(*diag.Error)
	if !ok {
		return fmt.Errorf("%s: %w", file, err)
	}
	e.Pos.File = file
	return e
}

// Check reports the first value of r that is not allowed. It does not judge the run: failed tests are fine here.
func (r *Results) Check() error {
	if !slices.Contains(modes, r.Mode) {
		return badValue("mode", r.Mode, "one of "+strings.Join(modes, ", "))
	}
	if _, _, err := checkTimes(r.StartedAt, r.EndedAt); err != nil {
		return err
	}
	for _, d := range []struct{ path, digest string }{{"code.start", r.Code.Start}, {"code.end", r.Code.End}} {
		if d.digest != "" && !isDigest(d.digest) {
			return badValue(d.path, d.digest, "64 hexadecimal digits")
		}
	}
	if err := checkRoot(r.Root); err != nil {
		return err
	}
	if err := checkOutside(r.Outside); err != nil {
		return err
	}
	if err := checkTests(r.Tests); err != nil {
		return err
	}
	return checkLists(r.Tests, r.Collected, r.Deselected)
}

// badValue is the error for a value that is not allowed.
func badValue(path, got, want string) error {
	return diag.Errorf(BadValue, "", "%s is %q, want %s", path, shorten(got), want)
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// isDigest reports whether s is a SHA-256 in lower-case hexadecimal digits.
func isDigest(s string) bool { return digestForm.MatchString(s) }

// ParseTime reads a time in TimeForm, and in no other of the many spellings of ISO 8601.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(TimeForm, s)
	if err != nil || t.Format(TimeForm) != s {
		return time.Time{}, fmt.Errorf("%q is not a time of the form 2026-11-15T10:00:00Z", shorten(s))
	}
	return t, nil
}

// checkTimes reads the two times of a run.
func checkTimes(startedAt, endedAt string) (started, ended time.Time, err error) {
	if started, err = ParseTime(startedAt); err != nil {
		return started, ended, diag.Errorf(BadValue, "", "started_at: %w", err)
	}
	if ended, err = ParseTime(endedAt); err != nil {
		return started, ended, diag.Errorf(BadValue, "", "ended_at: %w", err)
	}
	return started, ended, nil
}

// checkRoot: where ids begin is a folder inside the repository.
func checkRoot(root string) error {
	if root == "" || strings.HasPrefix(root, "/") || strings.Contains(root, "\\") || hasControl(root) ||
		slices.Contains(strings.Split(root, "/"), "..") {
		return badValue("root", root, `a folder relative to the top of the repository, "." for the top`)
	}
	return nil
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

// maxOutside keeps sums of counts within their type: one that overflows would say that nothing failed.
const maxOutside = 1 << 40

func checkOutside(o Outside) error {
	for _, n := range []int{o.Passed, o.Failed, o.Errors, o.Skipped} {
		if n < 0 || n > maxOutside {
			return badValue("outside", fmt.Sprint(n), "a count")
		}
	}
	return nil
}

// maxID bounds the length of a test's id in bytes. pytest puts parameters into ids, and those can be long.
const maxID = 4096

func checkID(path, id string) error {
	if id == "" || len(id) > maxID {
		return badValue(path, id, fmt.Sprintf("a name of 1 to %d bytes", maxID))
	}
	return nil
}

func checkTests(tests []Test) error {
	seen := map[string]bool{}
	for i, t := range tests {
		path := fmt.Sprintf("tests[%d]", i)
		if err := checkID(path+".id", t.ID); err != nil {
			return err
		}
		if seen[t.ID] {
			return diag.Errorf(BadValue, "every test has one entry", "%s.id: %q has another entry before", path, shorten(t.ID))
		}
		seen[t.ID] = true
		if !slices.Contains(outcomes, t.Outcome) {
			return badValue(path+".outcome", t.Outcome, "one of "+strings.Join(outcomes, ", "))
		}
		if t.Seconds < 0 || t.Reruns < 0 {
			return badValue(path, fmt.Sprint(t.Seconds, " s, ", t.Reruns, " reruns"), "no negative number")
		}
		for k, c := range t.Checks {
			if !slices.Contains([]string{Passed, Failed, Errored}, c.Outcome) {
				return badValue(fmt.Sprintf("%s.checks[%d].outcome", path, k), c.Outcome, "passed, failed or error")
			}
		}
	}
	return nil
}

// checkLists: every test was collected, ids stand there once, and what was deselected was not run.
func checkLists(tests []Test, collected, deselected []string) error {
	inCollected, inDeselected := map[string]bool{}, map[string]bool{}
	for _, l := range []struct {
		name string
		ids  []string
		seen map[string]bool
	}{{"collected", collected, inCollected}, {"deselected", deselected, inDeselected}} {
		for i, id := range l.ids {
			path := fmt.Sprintf("%s[%d]", l.name, i)
			if err := checkID(path, id); err != nil {
				return err
			}
			if l.seen[id] {
				return badValue(path, id, "every id once")
			}
			l.seen[id] = true
		}
	}
	for i, t := range tests {
		if !inCollected[t.ID] {
			return badValue(fmt.Sprintf("tests[%d].id", i), t.ID, "an id of the list collected")
		}
		if inDeselected[t.ID] {
			return badValue(fmt.Sprintf("tests[%d].id", i), t.ID, "no id of the list deselected")
		}
	}
	for i, id := range deselected {
		if !inCollected[id] {
			return badValue(fmt.Sprintf("deselected[%d]", i), id, "an id of the list collected")
		}
	}
	return nil
}

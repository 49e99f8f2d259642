package receipt

// This file implements the importer of JUnit XML.

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpuemu/internal/diag"
)

// FromJUnit reads a report in JUnit XML, in the dialects of pytest, gotestsum, ctest, googletest and Catch2. The id of
// a test is its class, else its file, then "::" and its name. Times are left to SetTimes: those of ctest and googletest
// have no zone, and gotestsum's is when it wrote the report.
//
// A format without a standard is read with suspicion: what is neither plainly passed nor plainly skipped is an error, a
// test with two entries is as bad as the worse one, and a suite that counts failures and shows none is refused.
func FromJUnit(b []byte) (*Results, error) {
	if len(b) > maxBytes {
		return nil, diag.Errorf(TooLarge, "", "%d bytes, at most %d are read", len(b), maxBytes)
	}
	j := &junit{dec: xml.NewDecoder(bytes.NewReader(b))}
	j.dec.Strict = true
	if err := j.read(); err != nil {
		var syntax *xml.SyntaxError
		if _, ours := err.(*diag.Error); ours {
			return nil, err
		}
		if errors.As(err, &syntax) {
			err = errors.New(syntax.Msg)
		}
		line, col := j.dec.InputPos()
		return nil, diag.Errorf(ImportSyntax, "the report is cut short, or not JUnit XML", "%q", err.Error()).
			At(diag.Pos{Line: line, Col: col})
	}
	return j.results("junit", true)
}

// junit reads a report token by token: a report of a million tests is not held as a tree.
type junit struct {
	gathered
	dec    *xml.Decoder
	suites []junitSuite // open ones, the innermost last
	counts bool         // the root was seen
}

// junitSuite is what a suite says about itself, and what was seen inside.
type junitSuite struct {
	name         string
	said, showed int // failures and errors
}

// maxSuites bounds how deep suites nest.
const maxSuites = 32

func (j *junit) read() error {
	for {
		tok, err := j.dec.Token()
		if err == io.EOF && len(j.suites) == 0 && j.counts {
			return nil
		}
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			err = j.start(tok)
		case xml.EndElement:
			err = j.endSuite()
		case xml.Directive:
			return errors.New("a document type definition: no test runner writes one")
		}
		if err != nil {
			return err
		}
	}
}

// start handles an element outside of test cases.
func (j *junit) start(e xml.StartElement) error {
	name := e.Name.Local
	if len(j.suites) == 0 && name != "testsuites" && name != "testsuite" {
		return fmt.Errorf("the root is <%s>, want <testsuites> or <testsuite>", shorten(name))
	}
	if len(j.suites) >= maxSuites {
		return diag.Errorf(TooDeep, "", "suites nested deeper than %d levels", maxSuites)
	}
	switch name {
	case "testsuites", "testsuite":
		j.counts = true
		s := junitSuite{name: attribute(e, "name")}
		for _, count := range []string{"failures", "errors"} {
			if text := attribute(e, count); text != "" {
				n, err := strconv.Atoi(text)
				if err != nil || n < 0 {
					return fmt.Errorf("suite %q: %s is %q, want a count", shorten(s.name), count, shorten(text))
				}
				s.said += min(n, 1) // Catch2 counts assertions here: more than none is all it says
			}
		}
		j.suites = append(j.suites, s)
		return nil
	case "testcase":
		return j.testcase(e)
	case "failure", "error": // of a suite: its set-up, or a crash
		top := &j.suites[len(j.suites)-1]
		top.showed++
		j.add(Test{ID: orUnnamed(top.name), Outcome: Errored, Reason: junitText(attribute(e, "message"))})
	}
	return j.dec.Skip()
}

func (j *junit) endSuite() error {
	top := j.suites[len(j.suites)-1]
	j.suites = j.suites[:len(j.suites)-1]
	if top.said > 0 && top.showed == 0 {
		return fmt.Errorf("suite %q counts failures or errors and shows none: the report is not complete", shorten(top.name))
	}
	if len(j.suites) > 0 {
		j.suites[len(j.suites)-1].showed += top.showed
	}
	return nil
}

// junitCase is a test case with what stands inside.
type junitCase struct {
	Failures []junitMessage `xml:"failure"`
	Errors   []junitMessage `xml:"error"`
	Skipped  []junitMessage `xml:"skipped"`
	Disabled []junitMessage `xml:"disabled"`
	Rerun    []junitMessage `xml:"rerunFailure"`
	Flaky    []junitMessage `xml:"flakyFailure"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

func (j *junit) testcase(e xml.StartElement) error {
	var c junitCase
	if err := j.dec.DecodeElement(&c, &e); err != nil {
		return err
	}
	name := attribute(e, "name")
	if name == "" {
		return errors.New("a test case without a name")
	}
	id := name
	// ctest gives a test's name as its class, too.
	if group := firstOf(attribute(e, "classname"), attribute(e, "file")); group != "" && group != name {
		id = group + "::" + name
	}
	seconds := 0.0
	if text := attribute(e, "time"); text != "" {
		var err error
		if seconds, err = strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64); err != nil || !(seconds >= 0) ||
			seconds > 1e9 {
			return fmt.Errorf("test case %q: time is %q, want seconds", shorten(id), shorten(text))
		}
	}
	t := Test{ID: id, Seconds: seconds, Reruns: len(c.Rerun) + len(c.Flaky)}
	t.Outcome, t.Reason = c.outcome(attribute(e, "status"), attribute(e, "result"))
	if len(c.Failures)+len(c.Errors) > 0 {
		j.suites[len(j.suites)-1].showed++
	}
	j.add(t)
	return nil
}

// outcome judges a test case by its children, and by the attributes status (ctest, googletest, Catch2) and result
// (googletest).
func (c *junitCase) outcome(status, result string) (outcome, reason string) {
	skipped := append(c.Skipped, c.Disabled...)
	first := func(list []junitMessage) string { return junitText(firstOf(list[0].Message, list[0].Text)) }
	mayFail := len(skipped) > 0 && strings.Contains(skipped[0].Message, "!mayfail") // Catch2 shows the failure beside it
	switch {
	case len(c.Errors) > 0:
		return Errored, first(c.Errors)
	case len(c.Failures) > 0 && !mayFail:
		return Failed, first(c.Failures)
	case mayFail && len(c.Failures) > 0:
		return XFailed, first(skipped)
	case mayFail:
		return XPassed, first(skipped)
	case status == "fail" || status == "failed":
		return Failed, "status " + status
	case len(skipped) > 0 && skipped[0].Type == "pytest.xfail":
		return XFailed, first(skipped)
	case status == "notrun" && result == "" && (len(skipped) == 0 || !deliberate(skipped[0].Message)):
		reason := "not run" // ctest: the program is missing, a fixture failed, the set-up failed
		if len(skipped) > 0 {
			reason = first(skipped)
		}
		return Errored, reason
	case len(skipped) > 0:
		return Skipped, first(skipped)
	case status == "disabled" || status == "notrun" || status == "skipped" || result == "skipped" ||
		result == "suppressed":
		return Skipped, junitText(firstOf(result, status))
	case status != "" && status != "run" && status != "passed" && status != "completed" || result != "" &&
		result != "completed":
		return Errored, junitText("status " + status + " " + result)
	}
	return Passed, ""
}

// deliberate reports whether ctest left a test out because somebody said so: SKIP_RETURN_CODE,
// SKIP_REGULAR_EXPRESSION, DISABLED.
func deliberate(message string) bool {
	return strings.HasPrefix(message, "SKIP_") || strings.EqualFold(message, "disabled")
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// firstOf returns the first text that is not empty.
func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func orUnnamed(name string) string { return firstOf(name, "(unnamed suite)") }

// junitText is the first line of a message, cut to what a receipt needs.
func junitText(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	const most = 200
	if len(s) > most {
		s = s[:most]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}

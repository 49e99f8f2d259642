package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"gpuemu/internal/verdict"
)

// element is one element of the XML.
type element struct {
	name     string
	attrs    map[string]string
	children []*element
	text     string
}

// junitRules is the schema of Jenkins' xunit plug-in (junit-10.xsd, which follows Surefire's) as a table: the
// attributes an element must and may have, and its children.
var junitRules = map[string]struct {
	must, may, children []string
	text                bool
}{
	"testsuites": {nil, []string{"name", "time", "tests", "failures", "errors"}, []string{"testsuite"}, false},
	"testsuite": {[]string{"name", "tests", "failures", "errors"}, []string{"group", "time", "skipped", "timestamp",
		"hostname", "id", "package", "file", "log", "url", "version"},
		[]string{"properties", "testcase", "system-out", "system-err"}, false},
	"properties": {nil, nil, []string{"property"}, false},
	"property":   {[]string{"name", "value"}, nil, nil, false},
	"testcase": {[]string{"name"}, []string{"time", "classname", "group"},
		[]string{"skipped", "error", "failure", "system-out", "system-err"}, false},
	"failure":    {nil, []string{"type", "message"}, nil, true},
	"error":      {nil, []string{"type", "message"}, nil, true},
	"skipped":    {nil, []string{"type", "message"}, nil, true},
	"system-out": {nil, nil, nil, true},
}

var surefireTime = regexp.MustCompile(`^[0-9]+\.[0-9]{3}$`)

// junitFault says what is wrong with a JUnit file, "" if nothing is: the schema, and the counts in the attributes.
func junitFault(out []byte) string {
	root, err := parseXML(out)
	if err != nil {
		return err.Error()
	}
	if root.name != "testsuites" {
		return "the root is " + root.name
	}
	if fault := schemaFault(root); fault != "" {
		return fault
	}
	total := map[string]int{}
	for _, suite := range root.children {
		n := map[string]int{}
		for _, c := range suite.children {
			if c.name != "testcase" {
				continue
			}
			n["tests"]++
			for _, outcome := range c.children {
				switch outcome.name {
				case "failure", "error":
					n[outcome.name+"s"]++
				case "skipped":
					n["skipped"]++
				}
			}
		}
		for _, key := range []string{"tests", "failures", "errors", "skipped"} {
			if suite.attrs[key] != strconv.Itoa(n[key]) {
				return fmt.Sprintf("suite %q says %s=%s and has %d", suite.attrs["name"], key, suite.attrs[key], n[key])
			}
			total[key] += n[key]
		}
	}
	for _, key := range []string{"tests", "failures", "errors"} {
		if root.attrs[key] != strconv.Itoa(total[key]) {
			return fmt.Sprintf("the root says %s=%s and has %d", key, root.attrs[key], total[key])
		}
	}
	return ""
}

func schemaFault(e *element) string {
	rule, ok := junitRules[e.name]
	if !ok {
		return "unknown element " + e.name
	}
	for _, name := range rule.must {
		if _, ok := e.attrs[name]; !ok {
			return e.name + " has no " + name
		}
	}
	for name, value := range e.attrs {
		if !slices.Contains(rule.must, name) && !slices.Contains(rule.may, name) {
			return e.name + " may not have " + name
		}
		if name == "time" && !surefireTime.MatchString(value) {
			return "time " + value
		}
	}
	if !rule.text && strings.TrimSpace(e.text) != "" {
		return e.name + " has text: " + e.text
	}
	outcomes := 0
	for _, c := range e.children {
		if !slices.Contains(rule.children, c.name) {
			return e.name + " may not hold " + c.name
		}
		if c.name == "failure" || c.name == "error" || c.name == "skipped" {
			outcomes++
		}
		if fault := schemaFault(c); fault != "" {
			return fault
		}
	}
	if outcomes > 1 {
		return fmt.Sprintf("testcase %q has %d outcomes", e.attrs["name"], outcomes)
	}
	return ""
}

// parseXML reads strictly. encoding/xml refuses characters that XML 1.0 does not allow.
func parseXML(out []byte) (*element, error) {
	if !utf8.Valid(out) {
		return nil, errors.New("not UTF-8")
	}
	dec := xml.NewDecoder(bytes.NewReader(out))
	var stack []*element
	var root *element
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch x := token.(type) {
		case xml.StartElement:
			e := &element{name: x.Name.Local, attrs: map[string]string{}}
			for _, a := range x.Attr {
				if _, twice := e.attrs[a.Name.Local]; twice {
					return nil, fmt.Errorf("attribute %s stands twice", a.Name.Local)
				}
				e.attrs[a.Name.Local] = a.Value
			}
			if len(stack) > 0 {
				top := stack[len(stack)-1]
				top.children = append(top.children, e)
			} else if root != nil {
				return nil, errors.New("two roots")
			} else {
				root = e
			}
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if len(stack) > 0 {
				stack[len(stack)-1].text += string(x)
			}
		}
	}
	if root == nil {
		return nil, errors.New("no root")
	}
	return root, nil
}

func TestJUnitKeepsTheSchema(t *testing.T) {
	mixed := documentOf(passing(0, "a", "float32", 0), wrong(1, "b", "float32", ""), passing(2, "a", "float32", 0),
		raised(3, "b", "float16", ""), notRun(4, "c", "float32"), wrong(5, "a", "float32", ""))
	uncommon := documentOf(passing(0, "a", "float32", 0))
	uncommon.Baseline = &Comparison{Name: "main", Cases: 3}
	missing := documentOf(passing(0, "a", "float32", 0))
	missing.Baseline = NoBaseline("b.json", "there is no such file")
	tolerated := documentOf(passing(0, "a", "float32", 1e-3)) // regressions that are not to fail the run
	tolerated.Baseline = compared(t, documentOf(passing(0, "a", "float32", 1e-4)), tolerated, 0.1)
	kernel := documentOf(verdict.Result{Op: "k", Verdict: verdict.NotRun, Reason: verdict.Unsupported})
	for name, d := range map[string]*Document{"everything": everything(""), "evil": everything(evil), "mixed": mixed,
		"nothing": documentOf(), "green": documentOf(passing(0, "a", "float32", 0)), "uncommon": uncommon, "missing": missing,
		"tolerated": tolerated,
		"kernel":    kernel} {
		out := written(t, JUnit, d.Source())
		if fault := junitFault(out); fault != "" {
			t.Errorf("%s: %s\n%s", name, fault, out)
		}
		// A reader of JUnit alone must not see green where the exit code says otherwise.
		red := strings.Contains(string(out), "<failure") || strings.Contains(string(out), "<error")
		if s := d.Source(); red != (s.ExitCode() != 0) {
			t.Errorf("%s: exit code %d, and the JUnit report is red: %v", name, s.ExitCode(), red)
		}
	}
}

// TestJUnitOneSuitePerOp: also where the results of ops are mixed.
func TestJUnitOneSuitePerOp(t *testing.T) {
	d := documentOf(passing(0, "a", "float32", 0), passing(1, "b", "float32", 0), passing(2, "a", "float32", 0))
	root, err := parseXML(written(t, JUnit, d.Source()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range root.children {
		names = append(names, s.attrs["name"]+" "+s.attrs["tests"])
	}
	if got := strings.Join(names, ","); got != "a 2,b 1" {
		t.Errorf("suites %s, want a 2,b 1", got)
	}
}

// TestJUnitFaultSeesFaults makes sure that the check above can fail at all.
func TestJUnitFaultSeesFaults(t *testing.T) {
	good := string(written(t, JUnit, everything("").Source()))
	for _, r := range [][2]string{
		{`tests="3"`, `tests="4"`}, {`<properties>`, `<properties>text`}, {`classname=`, `class=`}, {`</testsuites>`, ``},
		{`<skipped `, `<ignored `}, {`time="0.002"`, `time="2ms"`}, {`<testcase name=`, `<testcase title=`},
		{`replay:`, "\x1b"}, {`errors="1"`, `errors="0"`},
	} {
		bad := strings.Replace(good, r[0], r[1], 1)
		if bad == good {
			t.Errorf("the report has no %q", r[0])
		}
		if junitFault([]byte(bad)) == "" {
			t.Errorf("%q for %q is not found", r[1], r[0])
		}
	}
}

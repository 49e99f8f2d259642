package receipt

// This file implements the importer of go test -json.

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"time"

	"gpuemu/internal/diag"
)

// FromGoTest reads the events of go test -json (go doc test2json). The id of a test is its package, "::" and its name;
// subtests are tests of their own. What began and did not end is an error: a panic, a time limit, a process that was
// killed. So is a package that fails for no test's sake, under the package's name: it did not build, or TestMain
// failed. A test that ran several times (-count) is as bad as its worst run.
func FromGoTest(r io.Reader) (*Results, error) {
	g := &goTest{packages: map[string]*goPackage{}, running: map[[2]string]bool{}}
	in := bufio.NewReaderSize(io.LimitReader(r, maxBytes+1), 1<<16)
	for n, total := 1, 0; ; n++ {
		line, err := in.ReadBytes('\n')
		if total += len(line); total > maxBytes {
			return nil, diag.Errorf(TooLarge, "", "more than %d bytes", maxBytes)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			if err := g.line(text); err != nil {
				if e, ok := err.(*diag.Error); ok {
					e.Pos.Line = n
				}
				return nil, err
			}
		}
		if err == io.EOF {
			return g.finish()
		}
		if err != nil {
			return nil, err
		}
	}
}

// goTest is a stream of events on its way.
type goTest struct {
	gathered
	order       []string
	packages    map[string]*goPackage
	running     map[[2]string]bool // package and test, begun and not ended
	started     []([2]string)      // in order of their beginning
	first, last time.Time
}

type goPackage struct {
	failed, ended, showed bool // showed: one of its tests failed
	reason                string
}

// goEvent has the fields of an event that matter; others may come with later versions of Go.
type goEvent struct {
	action, pkg, test, output, build string
	elapsed                          float64
}

// line takes in one event.
func (g *goTest) line(text []byte) error {
	v, err := DecodeStrict(text, Limits{})
	object, ok := v.(map[string]any)
	if err != nil || !ok {
		return diag.Errorf(ImportSyntax, "write the standard output of go test -json alone into the file",
			"%q is not an event of go test -json", shorten(string(text)))
	}
	var e goEvent
	for _, f := range []struct {
		name string
		to   *string
	}{{"Action", &e.action}, {"Package", &e.pkg}, {"Test", &e.test}, {"Output", &e.output}, {"FailedBuild", &e.build}} {
		if value, ok := object[f.name]; ok {
			if *f.to, ok = value.(string); !ok {
				return diag.Errorf(ImportSyntax, "", "%s of an event is not text", f.name)
			}
		}
	}
	if value, ok := object["Elapsed"]; ok {
		if err := assign("Elapsed", value, &e.elapsed); err != nil || e.elapsed < 0 {
			return diag.Errorf(ImportSyntax, "", "Elapsed of an event is not a number of seconds")
		}
	}
	if stamp, ok := object["Time"].(string); ok {
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			return diag.Errorf(ImportSyntax, "", "Time of an event is %q", shorten(stamp))
		}
		if g.first.IsZero() || at.Before(g.first) {
			g.first = at // packages run side by side, and their events are not quite in order
		}
		if at.After(g.last) {
			g.last = at
		}
	}
	return g.event(e)
}

func (g *goTest) event(e goEvent) error {
	switch e.action {
	case "build-output", "build-fail", "attr", "artifacts", "pause", "cont", "bench":
		return nil // the package's own event says that it failed
	case "start", "run", "output", "pass", "fail", "skip":
	default:
		return diag.Errorf(ImportSyntax, "use a gpu-proof that knows this version of Go",
			"an event with the unknown action %q",
			shorten(e.action))
	}
	if e.pkg == "" {
		return diag.Errorf(ImportSyntax, "", "an event without its package")
	}
	p := g.packages[e.pkg]
	if p == nil {
		p = &goPackage{}
		g.packages[e.pkg] = p
		g.order = append(g.order, e.pkg)
	}
	if e.test == "" {
		return p.event(e)
	}
	key := [2]string{e.pkg, e.test}
	t := Test{ID: e.pkg + "::" + e.test, Seconds: e.elapsed}
	switch e.action {
	case "run":
		g.running[key] = true
		g.started = append(g.started, key)
		return nil
	case "pass":
		t.Outcome = Passed
	case "skip":
		t.Outcome = Skipped
	case "fail":
		t.Outcome, p.showed = Failed, true
	default:
		return nil
	}
	delete(g.running, key)
	g.add(t)
	return nil
}

// event takes in what is said of the package as a whole.
func (p *goPackage) event(e goEvent) error {
	switch e.action {
	case "output":
		if strings.HasSuffix(strings.TrimSpace(e.output), "\t(cached)") {
			return diag.Errorf(BadValue, "go test -count=1 runs them",
				"the results of %q come from the cache: its tests were not run", shorten(e.pkg))
		}
	case "pass", "skip":
		p.ended = true
	case "fail":
		p.ended, p.failed = true, true
		if p.reason = "the package failed"; e.build != "" {
			p.reason = "did not build"
		}
	}
	return nil
}

// finish adds what did not end.
func (g *goTest) finish() (*Results, error) {
	finished := true
	for _, key := range g.started {
		if g.running[key] {
			delete(g.running, key)
			g.packages[key[0]].showed = true
			g.add(Test{ID: key[0] + "::" + key[1], Outcome: Errored, Reason: "did not finish"})
		}
	}
	for _, name := range g.order {
		p := g.packages[name]
		if !p.ended {
			finished = false
			g.add(Test{ID: name, Outcome: Errored, Reason: "the package did not finish"})
		} else if p.failed && !p.showed {
			g.add(Test{ID: name, Outcome: Errored, Reason: p.reason})
		}
	}
	r, err := g.results("go test", finished)
	if err != nil {
		return nil, err
	}
	if !g.first.IsZero() {
		r.StartedAt, r.EndedAt = g.first.UTC().Format(TimeForm), g.last.UTC().Format(TimeForm)
	}
	return r, nil
}

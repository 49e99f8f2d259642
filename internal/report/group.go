// This file implements groups of failures: which of them look like one bug.

package report

import (
	"fmt"
	"slices"
	"strings"

	"gpuemu/internal/escape"
	"gpuemu/internal/opspec"
	"gpuemu/internal/verdict"
)

// maxBugs is how many groups are told apart: more are no help to anybody. The failures beyond are in the last one.
const maxBugs = 64

// Groups groups failures by op, kind and pattern. It visits the results once, and its memory does not grow with them.
//
// A pattern is stated only if it holds for every case that fails in a way and for no passing case of the op and its
// dtypes; cases that fail in another way speak neither for nor against it. Wrong values are one way first, whatever
// their diagnosis, which differs with the size of a case, and a way for each cause that the diagnosis names where that
// has no pattern. A pattern that holds for all dtypes that fail so makes one group of them; else each dtype is looked
// at alone.
func Groups(each func(yield func(*verdict.Result) error) error) ([]verdict.Group, error) {
	g := &grouper{byOp: map[string]*opFailures{}}
	if err := each(g.add); err != nil {
		return nil, err
	}
	return g.finish(), nil
}

// grouper is the state of one Groups.
type grouper struct {
	byOp  map[string]*opFailures
	ops   []*opFailures
	order int
}

// opFailures is what is known of one op.
type opFailures struct {
	op     string
	dtypes []*dtypeFailures
}

type dtypeFailures struct {
	dtype   string
	passing traits // of cases with elements
	empty   int    // passing cases without
	kinds   []*kindFailures
}

// kindFailures are the failures of one kind.
type kindFailures struct {
	kind   verdict.Kind
	cases  int
	traits traits // of those whose text can be read
	first  string
	order  int // when the first came
}

func (g *grouper) add(r *verdict.Result) error {
	failed := r.Verdict.Failed()
	if !failed && r.Verdict != verdict.Pass {
		return nil
	}
	op := g.byOp[r.Op]
	if op == nil {
		op = &opFailures{op: r.Op}
		g.byOp[r.Op] = op
		g.ops = append(g.ops, op)
	}
	d := op.of(r.DType)
	c, err := opspec.ParseCase(r.Case)
	switch {
	case failed:
		g.order++
		k := d.failed(r, g.order)
		if err == nil {
			k.traits.add(&c, true)
		}
	case !computes(r):
		d.empty++
	case err == nil:
		d.passing.add(&c, false)
	}
	return nil
}

// computes reports whether an output has elements. A case without any passes whatever its sizes, and so speaks neither
// for nor against a pattern.
func computes(r *verdict.Result) bool {
	return slices.ContainsFunc(r.Outputs, func(o verdict.Output) bool { return o.Elements > 0 })
}

func (o *opFailures) of(dtype string) *dtypeFailures {
	for _, d := range o.dtypes {
		if d.dtype == dtype {
			return d
		}
	}
	d := &dtypeFailures{dtype: dtype}
	o.dtypes = append(o.dtypes, d)
	return d
}

// failed counts a failure of a kind.
func (d *dtypeFailures) failed(r *verdict.Result, order int) *kindFailures {
	kind := r.Kind()
	for _, k := range d.kinds {
		if k.kind == kind {
			k.cases++
			return k
		}
	}
	if n := len(d.kinds); n == maxBugs {
		d.kinds[n-1].cases++
		return d.kinds[n-1]
	}
	k := &kindFailures{kind: kind, cases: 1, first: r.Case, order: order}
	d.kinds = append(d.kinds, k)
	return k
}

// bug is a group that is being made.
type bug struct {
	verdict.Group
	order int
	key   string
}

func (g *grouper) finish() []verdict.Group {
	var bugs []*bug
	for _, op := range g.ops {
		bugs = append(bugs, op.bugs()...)
	}
	slices.SortStableFunc(bugs, func(x, y *bug) int { return x.order - y.order })
	var out []verdict.Group
	for _, b := range bugs {
		out = append(out, b.Group)
	}
	return out
}

// bugs groups the failures of one op.
func (o *opFailures) bugs() []*bug {
	failing := slices.DeleteFunc(slices.Clone(o.dtypes), func(d *dtypeFailures) bool { return len(d.kinds) == 0 })
	sole := soleCauses(failing)
	var bugs []*bug
	for _, d := range failing {
		for _, k := range d.kinds {
			pattern := patternOf(failing, d, k)
			key := groupKey(k.kind, pattern, sole)
			at := slices.IndexFunc(bugs, func(b *bug) bool { return b.key == key })
			if at < 0 && len(bugs) == maxBugs {
				at = maxBugs - 1
			}
			if at < 0 {
				at = len(bugs)
				bugs = append(bugs, &bug{Group: verdict.Group{Op: o.op, Pattern: pattern, First: k.first}, order: k.order,
					key: key})
			}
			bugs[at].take(d, k)
		}
	}
	return bugs
}

// patternOf is the pattern of the failures of a kind: of the widest set of failures that has one, "" where none does.
func patternOf(failing []*dtypeFailures, d *dtypeFailures, k *kindFailures) string {
	way := func(kind verdict.Kind) verdict.Kind {
		if kind.Cause = ""; kind.Reason == verdict.NonFinite {
			kind.Reason = verdict.Mismatch // what is read behind a tensor may be a number or not
		}
		return kind
	}
	alike := func(other verdict.Kind) bool { return way(other) == way(k.kind) }
	same := func(other verdict.Kind) bool { return other == k.kind }
	own := []*dtypeFailures{d}
	for _, set := range []struct {
		dtypes []*dtypeFailures
		has    func(verdict.Kind) bool
	}{{failing, alike}, {own, alike}, {failing, same}, {own, same}} {
		var all traits
		for _, x := range set.dtypes {
			fails := false
			for _, other := range x.kinds {
				if set.has(other.kind) {
					fails = true
					all.merge(&other.traits)
				}
			}
			if fails {
				all.merge(&x.passing)
			}
		}
		if pattern := all.pattern(); pattern != "" {
			return pattern
		}
	}
	return ""
}

// take adds failures of one kind.
func (b *bug) take(d *dtypeFailures, k *kindFailures) {
	if k.order < b.order {
		b.order, b.First = k.order, k.first
	}
	if !slices.Contains(b.DTypes, d.dtype) {
		b.DTypes = append(b.DTypes, d.dtype)
		b.Passed += d.passing.passed
		b.PassedEmpty += d.empty
	}
	if kind := k.kind.String(); !slices.Contains(b.Kinds, kind) {
		b.Kinds = append(b.Kinds, kind)
	}
	b.Cases += k.cases
	b.Tested += k.traits.failed
}

// soleCauses gives for each reason the one cause that diagnoses name, where there is only one: failures of few
// elements, of which no cause is known, then have the same.
func soleCauses(dtypes []*dtypeFailures) map[verdict.Reason]string {
	out := map[verdict.Reason]string{}
	for _, d := range dtypes {
		for _, k := range d.kinds {
			was, known := out[k.kind.Reason]
			switch {
			case k.kind.Cause == "":
			case !known:
				out[k.kind.Reason] = k.kind.Cause
			case was != k.kind.Cause:
				out[k.kind.Reason] = ""
			}
		}
	}
	return out
}

// groupKey is what the failures of one group have in common.
func groupKey(kind verdict.Kind, pattern string, sole map[verdict.Reason]string) string {
	reason := kind.Reason
	switch {
	case pattern != "":
		kind.Cause = ""
		if reason == verdict.NonFinite {
			reason = verdict.Mismatch // what is read behind a tensor may be a number or not
		}
	case kind.Cause == "":
		kind.Cause = sole[reason]
	}
	return strings.Join([]string{string(reason), kind.What, kind.Cause, pattern}, "\x00")
}

// groupLines say what the failures of a group have in common, which of them is shown, and why that one was not made
// smaller.
func groupLines(g *verdict.Group, shown string) []string {
	var lines []string
	if g.Pattern != "" {
		passing := "that pass"
		if g.PassedEmpty > 0 {
			passing = "that pass and have elements"
		}
		lines = append(lines, fmt.Sprintf("%s fails when %s: so it is in all %d cases that fail like this and in none of "+
			"the %d %s", g.Op, g.Pattern, g.Tested, g.Passed, passing))
	}
	if g.Cases > 1 {
		lines = append(lines, fmt.Sprintf("%s of %d cases that fail alike (%s)", shown, g.Cases,
			strings.Join(g.DTypes, ", ")))
	}
	if g.Unminimized != "" {
		lines = append(lines, "not minimized: "+g.Unminimized)
	}
	for i, line := range lines {
		lines[i] = escape.Text(line)
	}
	return lines
}

// smallestLines are what a report that lists every case says of the group of one: what the group has in common, and how
// to replay its smallest case.
func smallestLines(g *verdict.Group) []string {
	if g == nil {
		return nil
	}
	lines := groupLines(g, "one")
	if g.Minimal != nil {
		lines = append(lines, "replay of the smallest: "+Replay(g.Minimal))
	}
	return lines
}

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
// A pattern is stated only if it holds for every failing and no passing case of an op and its dtypes. One that holds
// for all dtypes that fail makes one group of them; else each dtype is looked at alone. Wrong values with a pattern are
// one bug, whatever their diagnosis, which differs with the size of a case; without one they are told apart by the
// cause that the diagnosis names.
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
	dtype  string
	traits traits
	kinds  []*kindFailures
}

// kindFailures are the failures of one kind.
type kindFailures struct {
	kind  verdict.Kind
	cases int
	first string
	order int // when the first came
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
	if c, err := opspec.ParseCase(r.Case); err == nil && (failed || computes(r)) {
		d.traits.add(&c, failed)
	}
	if failed {
		g.order++
		d.failed(r, g.order)
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

func (d *dtypeFailures) failed(r *verdict.Result, order int) {
	kind := r.Kind()
	for _, k := range d.kinds {
		if k.kind == kind {
			k.cases++
			return
		}
	}
	if n := len(d.kinds); n == maxBugs {
		d.kinds[n-1].cases++
		return
	}
	d.kinds = append(d.kinds, &kindFailures{kind: kind, cases: 1, first: r.Case, order: order})
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
	var all traits
	for _, d := range failing {
		all.merge(&d.traits)
	}
	common := all.pattern()
	var bugs []*bug
	for _, d := range failing {
		pattern := common
		if pattern == "" {
			pattern = d.traits.pattern()
		}
		sole := soleCauses(failing)
		for _, k := range d.kinds {
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

// take adds failures of one kind.
func (b *bug) take(d *dtypeFailures, k *kindFailures) {
	if k.order < b.order {
		b.order, b.First = k.order, k.first
	}
	if !slices.Contains(b.DTypes, d.dtype) {
		b.DTypes = append(b.DTypes, d.dtype)
		b.Passed += d.traits.passed
	}
	if kind := k.kind.String(); !slices.Contains(b.Kinds, kind) {
		b.Kinds = append(b.Kinds, kind)
	}
	b.Cases += k.cases
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
		lines = append(lines, fmt.Sprintf("%s fails when %s: so it is in all %d failing cases and in none of the %d "+
			"that pass", g.Op, g.Pattern, g.Cases, g.Passed))
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

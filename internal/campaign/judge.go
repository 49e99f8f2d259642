package campaign

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/invariant"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the judgement: outputs and expected values in, a Result out. Nothing here executes anything.

// expected is what one output is compared with.
type expected struct {
	name string
	want *compare.Want
	// replied is the type in which a user's reference replied; Invalid: the catalogue's own float64.
	replied dtype.DType
	// common gives the errors that implementations may have in common; nil where want is a user's.
	common  func() ([]float64, error)
	spread  bool   // want.Bound is the spread of the reference, not the bound of the catalogue
	release func() // gives the memory of want back; nil: it is left to the collector
}

// observed is what is known of an execution beside its outputs.
type observed struct {
	inputs map[string]*tensor.Tensor // what the outputs were computed from; nil: no diagnosis by other contracts
	// confirm runs further cases to tell whether an alternative holds for the candidate; nil: it cannot be run here.
	confirm  func(alternative string) evidence
	modified []string          // inputs that the candidate wrote to; nil: not known
	second   []tensor.Named    // outputs of a second execution; nil: there was none
	batches  []batch           // executions on other batches
	findings []verdict.Finding // of a client or of the emulator
	dropped  int               // findings that are not in the list
}

// again returns the output of the second execution that stands for the one of that name and place.
func (o observed) again(name string, i int) *tensor.Tensor { return outputNamed(o.second, name, i) }

// outputNamed returns the output of that name, or the only one.
func outputNamed(list []tensor.Named, name string, i int) *tensor.Tensor {
	for _, n := range list {
		if n.Name == name {
			return n.Tensor
		}
	}
	if i == 0 && len(list) == 1 {
		return list[0].Tensor
	}
	return nil
}

// judge fills in the verdict of res from the outputs of the candidate.
func (s *subject) judge(
	res *verdict.Result, c opspec.Case, got []tensor.Named, wants []expected, run observed,
) error {
	matched, msg := matchOutputs(got, wants)
	if msg != "" {
		res.Verdict, res.Reason, res.Message = verdict.Error, verdict.WrongOutputs, msg
		res.Hint = "return an array, a tuple in the order of the outputs, or a dict by their names"
		s.conclude(res, run, false)
		return nil
	}
	decided, explained, vacuous := false, false, ""
	var found *compare.Finding
	for i, w := range wants {
		bounded := (w.want.Bound != nil || w.want.Ties != nil) && !w.spread
		opt, err := s.rules.options(w.want.DType, c.DType, bounded)
		if err != nil {
			return err
		}
		opt.Tiles = s.tiles()
		if w.replied != dtype.Invalid && w.replied != dtype.Float64 && w.replied.IsFloat() {
			opt.WantDType = w.replied
		}
		opt.Workers, opt.WrongOnly = s.workers, true // nothing but wrong elements is shown
		rep, err := compare.Compare(matched[i], w.want, opt)
		if err != nil {
			return fmt.Errorf("output %q: %w", w.name, err)
		}
		if rep.Verdict == compare.Fail && rep.Regime == compare.Bound && len(run.modified) == 0 {
			if !explained { // one sentence for all outputs
				found, explained = s.explain(c, &run, matched, wants, rep.Stats.MaxRatio), true
			}
			if found != nil {
				rep.Findings = slices.Insert(rep.Findings, 0, *found)
			}
		}
		out := outputOf(w.name, rep)
		out.Constant = constant(matched[i])
		if rep.Verdict == compare.Pass && rep.Regime == compare.Bound {
			if err := leaning(&out, matched[i], w); err != nil {
				return fmt.Errorf("output %q: %w", w.name, err)
			}
		}
		if vacuous, err = measureVacuity(vacuous, &out, w.want, opt, rep); err != nil {
			return err
		}
		res.Outputs = append(res.Outputs, out)
		take(res, w, matched[i].DType, rep)
		takeBias(res, &out)
		decided = decided || rep.Verdict != compare.Undecided
		if rep.Verdict == compare.Error {
			continue // properties of something that is no output say nothing
		}
		again := run.again(w.name, i)
		if again != nil {
			if run.findings, err = compareRuns(run.findings, w.name, matched[i], again); err != nil {
				return err
			}
		}
		ctx := &invariant.Context{Output: matched[i], Again: again, Want: w.want}
		ctx.Behind = s.behindRows(c, len(matched[i].Shape))
		ctx.Rows, ctx.NoRows = s.rowsOf(c, run, w.name, i)
		if err := s.checkInvariants(res, w, ctx, run.modified); err != nil {
			return err
		}
	}
	s.conclude(res, run, decided && vacuous == "")
	settle(res, decided, vacuous, "the contract of the operator decides on none of the elements")
	*res = *res.Saturated() // where a NaN is wanted the tolerance is one, too; the store has no word for it
	return nil
}

// measureVacuity notes how much of an output that passed its comparison garbage would have passed. It returns the
// sentence on the first output of the case for which it would have passed as a whole or in most elements; found is that
// of an earlier output.
func measureVacuity(
	found string, out *verdict.Output, want *compare.Want, opt compare.Options, rep *compare.Report,
) (string, error) {
	if rep.Verdict != compare.Pass {
		return found, nil // wrong elements stand, whatever else would be accepted
	}
	v, err := compare.MeasureVacuity(want, opt)
	if err != nil {
		return "", fmt.Errorf("output %q: %w", out.Name, err)
	}
	out.Vacuous = v.Elements
	if found == "" && v.Vacuous() {
		found = fmt.Sprintf("output %q: %s", out.Name, v)
	}
	return found, nil
}

// vacuousHint says what to change about a case that garbage would have passed.
const vacuousHint = "test other values or shapes; under a fixed tolerance, use one that is small beside the values"

// settle turns a case in which nothing is wrong into a pass, unless no element was decided on or garbage would have
// passed as well.
func settle(res *verdict.Result, decided bool, vacuous, open string) {
	switch {
	case res.Verdict != verdict.Undecided: // failed
	case !decided:
		res.Reason, res.Message = verdict.AllUndetermined, open
	case vacuous != "":
		res.Reason, res.Message, res.Hint = verdict.Vacuous, vacuous, vacuousHint
	default:
		res.Verdict, res.Reason = verdict.Pass, ""
	}
}

// take lets one comparison decide on the case. What is worse stands: error before fail before pass.
func take(res *verdict.Result, w expected, got dtype.DType, rep *compare.Report) {
	switch {
	case rep.Verdict == compare.Error && res.Verdict != verdict.Error:
		res.Verdict, res.Reason = verdict.Error, verdict.WrongShape
		if got != w.want.TypeOf(got) {
			res.Reason = verdict.WrongDType
		}
		res.Message = fmt.Sprintf("output %q: %s", w.name, rep.Reason)
	case rep.Verdict == compare.Fail && !res.Verdict.Failed():
		res.Verdict, res.Reason = verdict.Fail, verdict.Mismatch
		if rep.Counts.Of[compare.BeyondBound]+rep.Counts.Of[compare.OutOfRange]+rep.Counts.Of[compare.Duplicate] == 0 {
			res.Reason = verdict.NonFinite
		}
		res.Message = mismatchMessage(w.name, rep)
	}
}

// leaning adds what the test for a common sign counts on an accepted output.
func leaning(out *verdict.Output, got *tensor.Tensor, w expected) error {
	if w.common == nil {
		return nil
	}
	lean, err := compare.LeanOf(got, w.want, w.common)
	if err != nil {
		return err
	}
	if lean.Units > 0 {
		out.Lean = &lean
	}
	if halves := compare.Halves(got, w.want); halves.Units > 0 {
		out.Halves = &halves
	}
	return nil
}

// takeBias fails a case whose errors have a common sign. A campaign is tested as a whole, too: see verdict.Bias.
func takeBias(res *verdict.Result, out *verdict.Output) {
	for _, b := range []struct {
		kind string
		lean *compare.Lean
	}{{verdict.BiasLean, out.Lean}, {verdict.BiasHalves, out.Halves}} {
		if b.lean == nil || !b.lean.Biased() || res.Verdict.Failed() {
			continue
		}
		found := verdict.Bias{DType: out.DType, Kind: b.kind, Lean: *b.lean}
		res.Verdict, res.Reason = verdict.Fail, verdict.Biased
		res.Message = fmt.Sprintf("output %q: %s", out.Name, found.Sentence())
	}
}

// mismatchMessage is the failure in one sentence: how many elements, the worst of them, the diagnosis.
func mismatchMessage(name string, rep *compare.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "output %q: %d of %d elements are wrong", name, rep.Counts.Mismatched, rep.Counts.Total)
	if w := worst(rep); w != nil {
		fmt.Fprintf(&b, "; worst at %s: got %s, want %s", indexText(w.Index), w.GotText, w.WantText)
		if w.Kind == compare.BeyondBound {
			fmt.Fprintf(&b, " within %.3g", w.Bound)
		}
	}
	if len(rep.Findings) > 0 {
		b.WriteString("; " + rep.Findings[0].Sentence)
	}
	return b.String()
}

func indexText(index []int) string {
	return strings.ReplaceAll(fmt.Sprint(index), " ", ",")
}

// worst returns the element to show first.
func worst(rep *compare.Report) *compare.Element {
	for _, list := range [][]compare.Element{rep.Worst.Class, rep.Worst.Ratio, rep.Worst.Abs} {
		for i := range list {
			if list[i].Wrong {
				return &list[i]
			}
		}
	}
	return nil
}

// checkInvariants adds what the op's invariants say of one output.
func (s *subject) checkInvariants(
	res *verdict.Result, w expected, ctx *invariant.Context, modified []string,
) error {
	for _, text := range s.invariants {
		r, err := invariant.Check(text, ctx)
		if err != nil {
			return fmt.Errorf("invariant %q of output %q: %w", text, w.name, err)
		}
		switch {
		case r.Invariant.Name != "inputs_unchanged" || modified == nil:
		case len(modified) > 0:
			r.Outcome, r.Sentence = invariant.Violated, "the candidate wrote to "+strings.Join(modified, ", ")
		default:
			r.Outcome, r.Sentence = invariant.Holds, ""
		}
		res.Invariants = append(res.Invariants, verdict.Invariance{
			Output: w.name, Name: r.Invariant.String(), Outcome: r.Outcome.String(), Sentence: r.Sentence,
		})
		finding := r.Invariant.Name == "deterministic" || r.Invariant.Name == "inputs_unchanged" && s.guardInputs
		if r.Outcome == invariant.Violated && !res.Verdict.Failed() && !finding { // a finding says it, see conclude
			res.Verdict, res.Reason = verdict.Fail, verdict.Invariant
			res.Message = fmt.Sprintf("output %q: %s does not hold: %s", w.name, r.Invariant, r.Sentence)
		}
	}
	return nil
}

// behindRows is how many axes of an output of that rank stand behind the one that the attribute axis says.
func (s *subject) behindRows(c opspec.Case, rank int) int {
	if s.schema.Ranks.Axis == "" {
		return 0
	}
	axis := s.allAttrs(c).Int(opspec.AxisAttr)
	if axis < 0 {
		return -1 - axis
	}
	return max(rank-1-axis, 0)
}

// matchOutputs pairs outputs by name. One output matches one expectation under any name. The message says what is
// wrong.
func matchOutputs(got []tensor.Named, wants []expected) ([]*tensor.Tensor, string) {
	if len(got) == 1 && len(wants) == 1 {
		return []*tensor.Tensor{got[0].Tensor}, ""
	}
	out := make([]*tensor.Tensor, len(wants))
	var names []string
	for i, w := range wants {
		names = append(names, w.name)
		for _, g := range got {
			if g.Name == w.name {
				out[i] = g.Tensor
			}
		}
	}
	var have []string
	for _, g := range got {
		have = append(have, g.Name)
	}
	if len(got) != len(wants) || slices.Contains(out, nil) {
		return nil, fmt.Sprintf("returned the outputs %q, want %q", have, names)
	}
	return out, ""
}

// tiles are the tile sizes of the schema, for the diagnosis.
func (s *subject) tiles() []int {
	var out []int
	for i := range s.schema.Dims {
		if t := s.schema.Dims[i].Tile; t > 1 && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	for t := 16; t <= 1024; t *= 2 { // what compare tries by itself where no tile is known
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// constant reports whether an output of more than one element has one value everywhere.
func constant(t *tensor.Tensor) bool {
	if t.Elems() < 2 {
		return false
	}
	b, size := t.Bytes(), t.DType.Size()
	return bytes.Equal(b[size:], b[:len(b)-size])
}

// outputOf is the stored form of a comparison.
func outputOf(name string, rep *compare.Report) verdict.Output {
	out := verdict.Output{
		Name: name, DType: rep.DType.String(), Shape: slices.Clone(rep.Shape), Regime: rep.Regime.String(),
		ATol: rep.Tol.Abs, RTol: rep.Tol.Rel,
		Elements: rep.Counts.Total, Mismatched: rep.Counts.Mismatched, Undetermined: rep.Counts.Undetermined,
		Ignored: rep.Counts.Ignored,
		MaxAbs:  rep.Stats.MaxAbs, MeanAbs: rep.Stats.MeanAbs,
		P50Abs: rep.Stats.P50Abs, P90Abs: rep.Stats.P90Abs, P99Abs: rep.Stats.P99Abs,
		MaxRel: rep.Stats.MaxRel, MeanRel: rep.Stats.MeanRel, MaxULP: rep.Stats.MaxULP, MeanULP: rep.Stats.MeanULP,
		MaxRatio: rep.Stats.MaxRatio, MaxWant: rep.Stats.MaxWant,
	}
	out.Errors = rep.Errors
	if out.Shape == nil {
		out.Shape = []int{}
	}
	for k, n := range rep.Counts.Of {
		if kind := compare.Kind(k); n > 0 && kind != compare.Accepted && kind != compare.KindUnset {
			if out.Kinds == nil {
				out.Kinds = map[string]int{}
			}
			out.Kinds[kind.String()] = n
		}
	}
	if rep.Verdict != compare.Fail {
		return out
	}
	seen := map[string]bool{}
	for _, list := range [][]compare.Element{rep.Worst.Class, rep.Worst.Ratio, rep.Worst.Abs} {
		for i := range list {
			if e := &list[i]; e.Wrong && !seen[fmt.Sprint(e.Index)] {
				seen[fmt.Sprint(e.Index)] = true
				out.Worst = append(out.Worst, elementOf(e))
			}
		}
	}
	if rep.Map != nil {
		out.Map = rep.Map.Text()
	}
	for _, f := range rep.Findings {
		out.Diagnosis = append(out.Diagnosis, verdict.Finding{Kind: f.Kind, Sentence: f.Sentence})
	}
	return out
}

func elementOf(e *compare.Element) verdict.Element {
	index := slices.Clone(e.Index)
	if index == nil {
		index = []int{}
	}
	return verdict.Element{Index: index, Kind: e.Kind.String(), Got: e.GotText, Want: e.WantText,
		Bound: e.Bound, Abs: e.Abs, Rel: e.Rel, ULP: e.ULP}
}

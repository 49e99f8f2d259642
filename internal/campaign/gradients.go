package campaign

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gradient"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the judgement of tensors that belong to no execution: gradients of a framework's backward pass,
// and two tensors that a client wants compared.

// Gradients is what a framework's backward pass gave.
type Gradients struct {
	Op string
	// Case is the text of a handed-out case. Without it the inputs are those of the client.
	Case   string
	Inputs []tensor.Named
	Attrs  map[string]string // attributes, as text
	// Outputs are the gradients that the backward pass began with, by output; one alone may have any name.
	Outputs []tensor.Named
	// Grads are the gradients it ended with, by input: any of those that have one.
	Grads     []tensor.Named
	Tolerance *compare.Tolerance // nil: the bound of honest code
	Store     Stored             // failures are stored at most
}

// gradPrefix stands before the name of an input where its gradient is meant.
const gradPrefix = "grad/"

// CheckGradients judges gradients against those of the catalogue's reference in float64, and stores what fails.
func (e *Engine) CheckGradients(ctx context.Context, p Project, g Gradients) (*verdict.Result, error) {
	if len(g.Grads) == 0 {
		return nil, diag.Errorf(BadOptions, "send the gradient of an input", "there is no gradient to judge")
	}
	for _, t := range g.Grads {
		if !t.Tensor.DType.IsFloat() {
			return nil, diag.Errorf(BadOptions, "send floats", "the gradient of %q is %s", t.Name, t.Tensor.DType)
		}
	}
	if g.Tolerance != nil {
		if err := g.Tolerance.Check("tolerance"); err != nil {
			return nil, err
		}
	}
	sess, release, err := e.session(ctx, p, g.Op)
	if err != nil {
		return nil, err
	}
	defer release()
	j := e.NewJudging()
	defer j.Close()
	sub := &Submission{Op: g.Op, Case: g.Case, Inputs: g.Inputs, Attrs: g.Attrs}
	in, err := j.situation(ctx, sess, sub)
	if err != nil {
		return nil, err
	}
	defer in.release()
	s := in.session.subject.with(in.schema)
	if s.entry == nil {
		return nil, diag.Errorf(NoBound, "name an operator of the catalogue (gpuemu ops), or configure one as its reference",
			"op %q is not of the catalogue: there is no reference to differentiate", s.name)
	}
	start := time.Now()
	want, how, err := s.gradients(ctx, in, &g)
	if err != nil {
		return nil, err
	}
	res := &verdict.Result{DType: in.cas.DType.String(), Case: in.cas.String(), Seed: verdict.Seed(in.cas.Seed)}
	s.stamp(res)
	res.Candidate, res.Reference = verdict.ClientSide, strings.TrimSpace("builtin:"+s.entry.Name+" gradient "+how)
	res.ReferenceTime = time.Since(start)
	if err := judgeGradients(res, want, &g, s.workers); err != nil {
		return nil, err
	}
	res.Duration, res.Time = time.Since(start), e.Now()
	if !res.Verdict.Failed() || g.Store == StoreNone {
		return res, nil
	}
	res.Hint = "run the backward pass again: what is stored has the inputs, not the gradients"
	return res, e.keep(ctx, p, in.cas, in.inputs, res)
}

// gradients returns the wanted gradients by the names that the client gave.
func (s *subject) gradients(
	ctx context.Context, in *situation, g *Gradients,
) (map[string]*gradient.Gradient, string, error) {
	entryName := func(name string) string {
		if own, ok := s.names[name]; ok {
			return own
		}
		if len(s.entry.Schema.Inputs) == 1 && len(g.Grads) == 1 {
			return s.entry.Schema.Inputs[0].Name // a single input matches under any name
		}
		return name
	}
	given := map[string]*tensor.Tensor{}
	for name, t := range in.inputs {
		if own, ok := s.names[name]; ok {
			name = own
		}
		given[name] = t
	}
	p := gradient.Problem{Op: s.entry, Inputs: given, Attrs: s.entryAttrs(in.cas), DType: in.cas.DType,
		Work: in.cas.DType, Outputs: map[string]*tensor.Tensor{}}
	for _, t := range g.Grads {
		p.Wanted = append(p.Wanted, entryName(t.Name))
		if t.Tensor.DType.UnitRoundoff() > p.Work.UnitRoundoff() {
			p.Work = t.Tensor.DType // who returns the gradient in a narrower type may have computed in it
		}
	}
	for _, t := range g.Outputs {
		p.Outputs[s.gradOutput(t, p.Attrs, len(g.Outputs))] = t.Tensor
	}
	all, how, err := gradient.Of(ctx, p)
	if err != nil {
		return nil, "", err
	}
	out := map[string]*gradient.Gradient{}
	for _, t := range g.Grads {
		out[t.Name] = all[entryName(t.Name)]
	}
	return out, how, nil
}

// gradOutput returns the catalogue's name of an output.
func (s *subject) gradOutput(t tensor.Named, attrs opspec.Attrs, given int) string {
	outputs := s.entry.Schema.Outputs
	at := slices.IndexFunc(outputs, func(o opspec.Output) bool { return o.Name == t.Name })
	if at < 0 { // the op's own schema may call it otherwise
		at = slices.IndexFunc(s.schema.Outputs, func(o opspec.Output) bool { return o.Name == t.Name })
	}
	if at < 0 && given == 1 {
		at = slices.IndexFunc(outputs, func(o opspec.Output) bool {
			d, err := o.ElemType(dtype.Float32, attrs)
			return err == nil && d.IsFloat()
		})
	}
	if at < 0 || at >= len(outputs) {
		return t.Name // refused by name, with those there are
	}
	return outputs[at].Name
}

func judgeGradients(res *verdict.Result, wants map[string]*gradient.Gradient, g *Gradients, workers int) error {
	decided, vacuous := false, ""
	for _, t := range g.Grads {
		w := expected{name: gradPrefix + t.Name, want: wants[t.Name].Want(t.Tensor.DType)}
		opt := compare.DefaultOptions()
		opt.Workers, opt.Regime = workers, compare.Bound
		if g.Tolerance != nil {
			opt.Regime, opt.Tol = compare.Fixed, *g.Tolerance
		}
		rep, err := compare.Compare(t.Tensor, w.want, opt)
		if err != nil {
			return fmt.Errorf("gradient %q: %w", t.Name, err)
		}
		out := outputOf(w.name, rep)
		if vacuous, err = measureVacuity(vacuous, &out, w.want, opt, rep); err != nil {
			return err
		}
		res.Outputs = append(res.Outputs, out)
		take(res, w, t.Tensor.DType, rep)
		decided = decided || rep.Verdict != compare.Undecided
	}
	settle(res, decided, vacuous, "none of the elements has a gradient that all would agree on")
	*res = *res.Saturated()
	return nil
}

// CompareTensors compares tensors by name with a fixed tolerance, nil for the default of dtype d, Invalid for that of
// each tensor. The result has no case and is not stored. No operator is judged: the tolerance is the caller's own
// statement, so what else it would accept does not count.
func CompareTensors(
	got, want []tensor.Named, tol *compare.Tolerance, d dtype.DType, bins bool,
) (*verdict.Result, error) {
	res := &verdict.Result{}
	var wants []expected
	for _, t := range want {
		wants = append(wants, expected{name: t.Name, want: &compare.Want{}})
	}
	matched, msg := matchOutputs(got, wants)
	if msg != "" || len(wants) == 0 {
		return nil, diag.Errorf(BadOptions, "send as many tensors of the same names", "got has %q, want has %q", names(got),
			names(want))
	}
	if tol != nil {
		if err := tol.Check("tolerance"); err != nil {
			return nil, err
		}
	}
	for i, t := range matched {
		e := wants[i]
		ref := want[i].Tensor
		e.want.DType, e.want.Shape = t.DType, ref.Shape
		switch {
		case t.DType.IsFloat() && ref.DType.IsFloat():
			e.want.Stored = ref
		case !t.DType.IsFloat() && !ref.DType.IsFloat():
			e.want.Exact, e.want.DType = ref, ref.DType
		default:
			e.want.Value = ref.Float64s()
		}
		opt := compare.DefaultOptions()
		opt.Regime, opt.Tol, opt.Errors = compare.Fixed, compare.DefaultTolerance(t.DType), bins
		if d != dtype.Invalid && t.DType.IsFloat() {
			opt.Tol = compare.DefaultTolerance(d)
		}
		if tol != nil {
			opt.Tol = *tol
		}
		rep, err := compare.Compare(t, e.want, opt)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", e.name, err)
		}
		res.Outputs = append(res.Outputs, outputOf(e.name, rep))
		take(res, e, t.DType, rep)
	}
	settle(res, true, "", "")
	return res.Saturated(), nil
}

func names(list []tensor.Named) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].Name
	}
	return out
}

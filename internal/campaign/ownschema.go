package campaign

import (
	"context"
	"errors"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements cases of a schema that only a client has. Their text and that schema give the inputs, on any
// machine. An op that the engine knows by that name judges them as it judges given tensors.

// ownCase is a case as the client's schema made it.
type ownCase struct {
	opspec.Case
	schema *opspec.Schema
}

// ofOwnSchema finds the case of a submission that has a schema.
func (in *situation) ofOwnSchema(sub *Submission) error {
	c, err := opspec.ParseCase(sub.Case)
	if err != nil {
		return err
	}
	if err := ofOp(c, in.session.subject.name); err != nil {
		return err
	}
	if err := gen.Check(sub.Schema, c); err != nil {
		return err
	}
	in.own, in.text = &ownCase{c, sub.Schema}, sub.Case
	if !sub.needsReference() {
		in.schema, in.cas, _, err = in.session.subject.adopt(c, nil)
		return err
	}
	if in.session, in.release, err = in.session.withKwargs(attrTexts(c)); err != nil {
		return err
	}
	if in.schema, in.cas, _, err = in.session.subject.adopt(c, nil); err == nil {
		err = in.hold(sub)
	}
	var made map[string]*tensor.Tensor
	if err == nil {
		made, err = gen.Inputs(sub.Schema, c)
	}
	if err == nil {
		_, _, in.inputs, err = in.session.subject.adopt(c, made)
	}
	if err != nil {
		in.release()
	}
	return err
}

// keepInputs stores the inputs of a result that did not pass, where its text alone does not give them.
func (in *situation) keepInputs(ctx context.Context, e *Engine, res *verdict.Result) error {
	if in.own == nil {
		return e.keepInputs(ctx, in.cas, in.inputs, res)
	}
	if res.Verdict == verdict.Pass {
		return nil
	}
	release, err := e.hold(in.session.subject.with(in.own.schema), in.own.Case, 1)
	if err != nil {
		return err
	}
	defer release()
	inputs, err := gen.Inputs(in.own.schema, in.own.Case)
	if err == nil {
		res.Inputs, err = e.saveInputs(ctx, in.own.Case, inputs)
	}
	return err
}

// locateOwn makes the inputs of a stored case of a schema of the client's: the store has them.
func (e *Engine) locateOwn(ctx context.Context, s *subject, l *Located) error {
	var err error
	if l.schema, l.run, _, err = s.adopt(l.Case, nil); err != nil {
		return err
	}
	if err := e.holdFor(ctx, s.with(l.schema), l.run, judged); err != nil {
		return err
	}
	stored, err := e.storedInputs(ctx, l.Case, l.Stored.Inputs)
	if err != nil {
		return inPython(err, l.Case)
	}
	_, l.run, l.Inputs, err = s.adopt(l.Case, stored)
	l.run = withStoredValues(l.run, l.run.Seed)
	for i := range l.run.Inputs {
		l.run.Inputs[i].Layout = tensor.Contiguous // as they are stored
	}
	return err
}

// adopt makes of a case of another schema the one that the subject knows with these tensors. Without them it gives the
// case alone.
func (s *subject) adopt(c opspec.Case, made map[string]*tensor.Tensor) (
	*opspec.Schema, opspec.Case, map[string]*tensor.Tensor, error,
) {
	sub := Submission{DType: c.DType, Attrs: attrTexts(c), Seed: c.Seed}
	for _, in := range c.Inputs {
		t := made[in.Name]
		if t == nil {
			t = &tensor.Tensor{DType: in.DType, Shape: in.Shape}
		}
		sub.Inputs = append(sub.Inputs, tensor.Named{Name: in.Name, Tensor: t})
	}
	schema, own, inputs, err := s.given(&sub)
	if err != nil {
		return nil, own, nil, err
	}
	for i := range own.Inputs {
		at := slices.IndexFunc(c.Inputs, func(in opspec.CaseInput) bool { return in.Name == own.Inputs[i].Name })
		at = max(at, 0) // a single input, which has the name of the op's
		own.Inputs[i].Layout, own.Inputs[i].Values = c.Inputs[at].Layout, c.Inputs[at].Values
	}
	return schema, own, inputs, nil
}

// attrTexts are the attributes of a case as a client would send them.
func attrTexts(c opspec.Case) map[string]string {
	texts := map[string]string{}
	for _, a := range c.Attrs {
		texts[a.Name] = opspec.AttrText(a.Value)
	}
	return texts
}

// ofClients reports whether a stored result is on a case that the engine cannot make by itself: its inputs were given,
// or belong to a schema of the client's.
func ofClients(c opspec.Case, stored *verdict.Result) bool {
	return commonValues(c) == valuesStored || stored != nil && stored.Schema == verdict.ClientSide
}

// inPython adds to an error about a case that was not found in the store how its client makes it again.
func inPython(err error, c opspec.Case) error {
	var e *diag.Error
	if commonValues(c) == valuesStored || !errors.As(err, &e) ||
		!slices.Contains([]diag.Code{UnknownOp, gen.CaseMismatch, opspec.DimInvalid, UnknownCase}, e.Code) {
		return err
	}
	own := *e
	own.Hint = "a case of a Python client's own op_schema is made again in Python, with the arguments of its fuzz run: " +
		"gpuemu.Client().replay(CASE, run_op, op_schema=op_schema, reference=reference)"
	if e.Hint != "" {
		own.Hint += "; else " + e.Hint
	}
	return &own
}

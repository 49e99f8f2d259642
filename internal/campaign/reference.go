package campaign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements expected values: the catalogue's own, or those of a user's reference, held to the catalogue's
// bound where there is one.

// want computes what the outputs of a case are compared with. A non-nil Failure says why there is nothing to compare
// with: it is never a verdict on the candidate.
func (x *executor) want(
	ctx context.Context, s *subject, c opspec.Case, inputs map[string]*tensor.Tensor,
) ([]expected, time.Duration, *runner.Failure, error) {
	var catalogue []expected
	if s.entry != nil {
		start := time.Now()
		wants, err := s.evaluate(c, inputs)
		elapsed := time.Since(start)
		if err != nil {
			return nil, elapsed, &runner.Failure{Reason: verdict.ReferenceFailed,
				Msg: "the catalogue's reference: " + err.Error()}, nil
		}
		if _, builtin := builtinName(s.reference); builtin {
			for i, w := range wants {
				wants[i].release = func() { oracle.Release(w.want) }
			}
			return wants, elapsed, nil, nil
		}
		catalogue = wants
	}
	reply, err := invoke(ctx, x.reference(s), s.call(c, inputs, true))
	if err != nil {
		if f := new(runner.Failure); errors.As(err, &f) {
			return nil, 0, referenceFailure(f), nil
		}
		return nil, 0, nil, err
	}
	wants, failure := s.fromReply(c, reply.Outputs, catalogue)
	if failure != nil {
		failure.Stderr = reply.Stderr
	}
	for i := range wants {
		wants[i].release = reply.Release
	}
	return wants, reply.Time, failure, nil
}

// referenceFailure turns whatever a reference did into "nothing to compare with", unless it could not even be run.
func referenceFailure(f *runner.Failure) *runner.Failure {
	out := *f
	out.Msg = "the reference: " + f.Msg
	switch f.Reason {
	case verdict.MissingPackage, verdict.NotStarted, verdict.WorkerLost, verdict.Unsupported:
	default:
		out.Reason = verdict.ReferenceFailed
	}
	return &out
}

// evaluate runs the catalogue's reference of the subject.
func (s *subject) evaluate(c opspec.Case, inputs map[string]*tensor.Tensor) ([]expected, error) {
	return s.evaluateWith(c, inputs, oracle.Evaluate)
}

// evaluateWith is evaluate by another contract of the entry; no expectations where it does not exist for the case.
func (s *subject) evaluateWith(
	c opspec.Case, inputs map[string]*tensor.Tensor,
	evaluate func(*oracle.Op, map[string]*tensor.Tensor, opspec.Attrs, dtype.DType) (map[string]*compare.Want, error),
) ([]expected, error) {
	given := make(map[string]*tensor.Tensor, len(inputs))
	for name, t := range inputs {
		if own, ok := s.names[name]; ok {
			name = own
		}
		given[name] = t
	}
	wants, err := evaluate(s.entry, given, s.entryAttrs(c), c.DType)
	if err != nil || wants == nil {
		return nil, err
	}
	out := make([]expected, 0, len(wants))
	for i := range s.entry.Schema.Outputs {
		name := s.entry.Schema.Outputs[i].Name
		out = append(out, expected{name: name, want: wants[name], common: func() ([]float64, error) {
			common, err := oracle.Common(s.entry, given, s.entryAttrs(c), c.DType)
			return common[name], err
		}})
	}
	return out, s.declared(c, out)
}

// declared gives the catalogue's outputs the names of the op's own schema, which are those a candidate is asked for. A
// schema that declares other outputs than the catalogue computes is nothing to judge a candidate by.
func (s *subject) declared(c opspec.Case, wants []expected) error {
	if s.schema == s.entry.Schema {
		return nil // they have them
	}
	shapes, types, err := s.outputs(c)
	if err != nil || len(shapes) == 0 {
		return err
	}
	if len(shapes) != len(wants) {
		return fmt.Errorf("%s has %d outputs, the op's schema declares %d", s.entry.Name, len(wants), len(shapes))
	}
	for i, w := range wants {
		name := s.schema.Outputs[i].Name
		if !w.want.Shape.Equal(shapes[i]) || w.want.TypeOf(types[i]) != types[i] {
			return fmt.Errorf("%s gives output %q as %s %s, the op's schema declares %s %s", s.entry.Name, name,
				w.want.DType, w.want.Shape, types[i], shapes[i])
		}
		wants[i].name, w.want.DType, w.want.Also = name, types[i], s.schema.Outputs[i].Alternatives()
	}
	return nil
}

// entryAttrs are the attributes the catalogue entry takes: those of the case, defaults elsewhere.
func (s *subject) entryAttrs(c opspec.Case) opspec.Attrs {
	attrs := s.entry.Schema.DefaultAttrs()
	for _, a := range c.Attrs {
		if _, ok := attrs[a.Name]; ok {
			attrs[a.Name] = a.Value
		}
	}
	return attrs
}

// fromReply makes expectations of a reference's reply. Values are the reference's; bounds and marks are the
// catalogue's.
func (s *subject) fromReply(c opspec.Case, got []tensor.Named, catalogue []expected) ([]expected, *runner.Failure) {
	failed := func(format string, args ...any) *runner.Failure {
		return &runner.Failure{Reason: verdict.ReferenceFailed, Msg: "the reference " + fmt.Sprintf(format, args...)}
	}
	if len(got) == 0 {
		return nil, failed("returned no output")
	}
	shapes, types, err := s.outputs(c)
	if err != nil {
		return nil, failed("has no declared outputs: %v", err)
	}
	if len(shapes) == 0 { // no schema of outputs: the reference decides
		var out []expected
		for _, g := range got {
			out = append(out, replied(g.Name, g.Tensor, freeType(c.DType, g.Tensor.DType)))
		}
		return out, nil
	}
	var out []expected
	wants := make([]expected, len(shapes))
	for i, o := range s.schema.Outputs {
		wants[i].name = o.Name
	}
	matched, msg := matchOutputs(got, wants)
	if msg != "" {
		return nil, failed("%s", msg)
	}
	for i, t := range matched {
		if !t.Shape.Equal(shapes[i]) {
			return nil, failed("returned output %q of shape %s, want %s", wants[i].name, t.Shape, shapes[i])
		}
		if t.DType.IsFloat() != types[i].IsFloat() && !t.DType.IsFloat() {
			return nil, failed("returned output %q of type %s, want %s or float64", wants[i].name, t.DType, types[i])
		}
		e := replied(wants[i].name, t, types[i])
		e.want.Also = s.schema.Outputs[i].Alternatives()
		if len(catalogue) == len(matched) {
			if f := agree(e, t, catalogue[i].want); f != nil {
				return nil, f
			}
			e.want.Bound, e.want.Undetermined = catalogue[i].want.Bound, catalogue[i].want.Undetermined
			if s.rules.regime == compare.Spread { // asked for instead of the bound
				e.want.Bound = nil
			}
			e.want.Ties, e.want.Saturating = catalogue[i].want.Ties, catalogue[i].want.Saturating
		}
		out = append(out, e)
	}
	return out, nil
}

// freeType is the type a candidate must return where no schema says it: that of the case for floating-point results (a
// reference may well reply in float64), else that of the reference.
func freeType(caseType, replied dtype.DType) dtype.DType {
	if caseType.IsFloat() && replied.IsFloat() {
		return caseType
	}
	return replied
}

// replied makes an expectation of a tensor.
func replied(name string, t *tensor.Tensor, d dtype.DType) expected {
	w := &compare.Want{DType: d, Shape: t.Shape}
	switch {
	case t.DType.IsFloat():
		w.Stored = t // read in place: float64s of it would be the largest array of the case
	case d.IsFloat():
		w.Value = t.Float64s()
	default:
		w.Exact = t
	}
	return expected{name: name, want: w, replied: t.DType}
}

// agree checks a user's reference against the catalogue: outside the bound of every honest implementation one of the
// two computes something else, and no verdict could be trusted. It judges the reply as a candidate's that was rounded
// to the output type: the bound has room for that rounding, and half an ulp of a narrower reply is added.
func agree(e expected, t *tensor.Tensor, catalogue *compare.Want) *runner.Failure {
	opt := compare.DefaultOptions()
	opt.Workers = 1
	if t.DType.IsFloat() && t.DType != dtype.Float64 && t.DType != catalogue.DType {
		opt.WantDType = t.DType
	}
	t = converted(t, catalogue)
	rep, err := compare.Quick(t, catalogue, opt)
	if err == nil && rep.Verdict == compare.Fail {
		rep, err = compare.Compare(t, catalogue, opt) // only the message needs all that
	}
	switch {
	case err != nil:
		return &runner.Failure{Reason: verdict.Internal,
			Msg: "fault of gpuemu: the reference cannot be checked: " + err.Error()}
	case rep.Verdict == compare.Pass || rep.Verdict == compare.Undecided:
		return nil
	}
	return &runner.Failure{
		Reason: verdict.ReferenceDiffers,
		Msg:    "reference disagrees with the catalogue: " + mismatchMessage(e.name, rep),
		Hint: "mend the reference, or give the op a schema of its own ([ops.schema]) or another name " +
			"if it is not the catalogue's operator",
	}
}

// converted returns t in the type of what is wanted.
func converted(t *tensor.Tensor, w *compare.Want) *tensor.Tensor {
	if t.DType == w.DType {
		return t
	}
	encode := dtype.Encode
	if w.Saturating {
		encode = dtype.EncodeSaturating
	}
	out, raw := tensor.New(w.DType, t.Shape), t.Bytes()
	from, to := t.DType.Size(), w.DType.Size()
	buf := make([]float64, min(t.Elems(), 2048)) // within a first-level cache
	for lo, n := 0, 0; lo < t.Elems(); lo += n {
		n = min(len(buf), t.Elems()-lo)
		dtype.Decode(buf[:n], t.DType, raw[lo*from:(lo+n)*from])
		encode(out.Data[lo*to:(lo+n)*to], w.DType, buf[:n])
	}
	return out
}

// outputs returns shapes and types of the declared outputs; none where the schema has no outputs.
func (s *subject) outputs(c opspec.Case) ([]tensor.Shape, []dtype.DType, error) {
	if len(s.schema.Outputs) == 0 {
		return nil, nil, nil
	}
	program, err := s.program()
	if err != nil {
		return nil, nil, err
	}
	attrs := s.allAttrs(c)
	_, shapes, err := program.Shapes(&c, attrs)
	if err != nil {
		return nil, nil, err
	}
	var outShapes []tensor.Shape
	var types []dtype.DType
	for i := range s.schema.Outputs {
		o := &s.schema.Outputs[i]
		d, err := o.ElemType(c.DType, attrs)
		if err != nil {
			return nil, nil, err
		}
		outShapes, types = append(outShapes, shapes[o.Name]), append(types, d)
	}
	return outShapes, types, nil
}

// allAttrs are the attributes of a case, those that its text leaves out at their defaults: older versions of an
// operator have fewer.
func (s *subject) allAttrs(c opspec.Case) opspec.Attrs {
	attrs := s.schema.DefaultAttrs()
	for _, a := range c.Attrs {
		attrs[a.Name] = a.Value
	}
	return attrs
}

// program is the schema ready to resolve. That of the catalogue is compiled once, which takes longer than to resolve.
func (s *subject) program() (*opspec.Program, error) {
	if s.entry != nil && s.schema == s.entry.Schema {
		return s.entry.Program()
	}
	return s.schema.Compile()
}

// call is what a runner is given for a case.
func (s *subject) call(c opspec.Case, inputs map[string]*tensor.Tensor, reference bool) *runner.Call {
	call := &runner.Call{Op: s.name, Case: c.String(), Seed: c.Seed, DType: c.DType, Dims: c.Dims, Reference: reference}
	for _, in := range c.Inputs { // schema order
		call.Inputs = append(call.Inputs, tensor.Named{Name: in.Name, Tensor: inputs[in.Name]})
	}
	call.Attrs, call.Outputs = s.asked(c)
	return call
}

// asked is what a candidate is given and asked for beside its inputs: attributes, and outputs where the schema says
// them.
func (s *subject) asked(c opspec.Case) (opspec.Attrs, []runner.Output) {
	attrs := make(opspec.Attrs, len(s.kwargs)+len(c.Attrs))
	maps.Copy(attrs, s.kwargs)
	for _, a := range c.Attrs {
		attrs[a.Name] = a.Value
	}
	var list []runner.Output
	if shapes, types, err := s.outputs(c); err == nil {
		for i := range shapes {
			list = append(list, runner.Output{Name: s.schema.Outputs[i].Name, DType: types[i], Shape: shapes[i]})
		}
	}
	return attrs, list
}

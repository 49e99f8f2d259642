package campaign

import (
	"context"
	"errors"
	"math"
	"slices"

	"gpuemu/internal/compare"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the judgement of ops whose contract the engine does not know: by the spread of the user's own
// reference. A candidate that keeps the fixed tolerance passes, as it always did, and nothing more is computed. Only
// before a candidate is accused the reference is evaluated again: in float64, in the working precision with random
// rounding, in the type of the inputs, and with numbers in place of NaNs. See compare.Evaluations for what follows.

// spreadRuns is how many random evaluations there are: enough for a mean square that is rarely far too small, few
// enough for references that take a second.
const spreadRuns = 6

// trialOf is what a case is decided by: inputs, outputs, and what they are compared with.
type trialOf struct {
	cas    opspec.Case
	inputs map[string]*tensor.Tensor
	got    []tensor.Named
	wants  []expected
	run    observed
}

// decide judges the outputs of a case. What fails in the regime spread is judged again by the spread of the reference.
// The error is that of a cancelled context.
func (x *executor) decide(ctx context.Context, s *subject, t trialOf, res *verdict.Result) error {
	before := *res
	if err := s.judge(res, t.cas, t.got, t.wants, t.run); err != nil {
		internalFault(res, err)
		return nil
	}
	if !accusedBySpread(res) {
		return nil
	}
	wants, err := x.spread(ctx, s, t)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		internalFault(res, err)
		return nil
	}
	*res = before
	if err := s.judge(res, t.cas, t.got, wants, t.run); err != nil {
		internalFault(res, err)
	}
	return nil
}

// accusedBySpread reports whether values of an output in the regime spread failed the case.
func accusedBySpread(res *verdict.Result) bool {
	if res.Verdict != verdict.Fail {
		return false
	}
	for i := range res.Outputs {
		if o := &res.Outputs[i]; o.Regime == compare.Spread.String() && o.Mismatched > 0 {
			return true
		}
	}
	return false
}

// spread evaluates the reference of a case again and returns what its outputs are compared with then.
func (x *executor) spread(ctx context.Context, s *subject, t trialOf) ([]expected, error) {
	e := &evaluator{x: x, ctx: ctx, subject: s, trial: t, lists: make([]compare.Evaluations, len(t.wants))}
	for i, w := range t.wants {
		e.lists[i].Native = w.tensor()
	}
	if err := e.all(); err != nil {
		return nil, err
	}
	out := make([]expected, len(t.wants))
	for i, w := range t.wants {
		list := &e.lists[i]
		out[i] = replied(w.name, list.Want(), w.want.DType)
		out[i].spread = true
		out[i].want.Undetermined, out[i].want.Ties = w.want.Undetermined, w.want.Ties
		out[i].want.Saturating = w.want.Saturating
		opt, err := s.rules.options(w.want.DType, t.cas.DType, false)
		if err != nil {
			return nil, err
		}
		list.Judge(out[i].want, opt.Tol)
	}
	return out, nil
}

// tensor is what the reference replied.
func (w *expected) tensor() *tensor.Tensor {
	switch {
	case w.want.Stored != nil:
		return w.want.Stored
	case w.want.Exact != nil:
		return w.want.Exact
	}
	t := tensor.New(dtype.Float64, w.want.Shape)
	dtype.Encode(t.Data, dtype.Float64, w.want.Value)
	return t
}

// evaluator evaluates the reference of one case again and again.
type evaluator struct {
	x       *executor
	ctx     context.Context
	subject *subject
	trial   trialOf
	lists   []compare.Evaluations // one for each output
	moving  bool                  // the reference cannot be evaluated in the working precision
}

// all makes every evaluation. One that the reference does not take (it refuses float64, it is no numpy) is left out.
func (e *evaluator) all() error {
	inputs := e.trial.inputs
	wide := converting(inputs, dtype.Float64)
	exact, err := e.call(wide, nil)
	if err != nil {
		return err
	}
	if exact == nil {
		wide = inputs
	}
	for i, t := range exact {
		e.lists[i].Exact = t
	}
	if err := e.working(); err != nil {
		return err
	}
	nonFinite := exceeds(inputs, math.MaxFloat64)
	for i := range e.lists {
		e.lists[i].NonFinite = nonFinite
	}
	limit := e.limit()
	if !exceeds(inputs, limit) {
		return nil
	}
	for _, number := range []float64{1, -1} { // of both signs: an op that drops one of them depends on the other
		got, err := e.call(replacing(wide, limit, number), nil)
		if err != nil {
			return err
		}
		for i, t := range got {
			e.lists[i].Replaced = append(e.lists[i].Replaced, t)
		}
	}
	return nil
}

// limit is the size above which inputs are replaced: NaNs alone, unless overflow in the working precision cannot be
// seen. Then numbers whose square overflows are replaced as well.
func (e *evaluator) limit() float64 {
	if !e.moving {
		return math.Inf(1)
	}
	if d := e.trial.cas.DType; d.IsFloat() {
		return math.Sqrt(d.MaxFinite())
	}
	return math.Sqrt(dtype.Float32.MaxFinite())
}

// working evaluates in the working precision: float32, or float64 where the inputs are. A reference that cannot be
// evaluated so gets inputs that are moved by a unit in the last place.
func (e *evaluator) working() error {
	widest := dtype.Float32
	for _, t := range e.trial.inputs {
		if t.DType == dtype.Float64 {
			widest = dtype.Float64
		}
	}
	for k := range uint64(spreadRuns) {
		seed := e.trial.cas.Seed + k
		var got []*tensor.Tensor
		var err error
		if !e.moving {
			if got, err = e.call(e.trial.inputs, &runner.Working{Widest: widest, Seed: seed}); err != nil {
				return err
			}
			e.moving = got == nil
		}
		if e.moving {
			if got, err = e.call(moved(converting(e.trial.inputs, widest), seed), nil); err != nil {
				return err
			}
		}
		for i, t := range got {
			e.lists[i].Working = append(e.lists[i].Working, t)
		}
	}
	if d := e.trial.cas.DType; !e.moving && (d == dtype.Float16 || d == dtype.BFloat16) {
		got, err := e.call(e.trial.inputs, &runner.Working{Widest: d, Seed: e.trial.cas.Seed})
		if err != nil {
			return err
		}
		for i, t := range got {
			e.lists[i].Storage = append(e.lists[i].Storage, t)
		}
	}
	return nil
}

// call evaluates the reference once. Nil: it failed, or replied with other outputs than before. The error is that of a
// cancelled context or a fault of ours.
func (e *evaluator) call(inputs map[string]*tensor.Tensor, w *runner.Working) ([]*tensor.Tensor, error) {
	call := e.subject.call(e.trial.cas, inputs, true)
	call.Working = w
	reply, err := invoke(e.ctx, e.x.reference(e.subject), call)
	if f := new(runner.Failure); errors.As(err, &f) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	got, msg := matchOutputs(reply.Outputs, e.trial.wants)
	if msg != "" {
		return nil, nil
	}
	for i, t := range got {
		if native := e.lists[i].Native; !t.Shape.Equal(native.Shape) || t.DType.IsFloat() != native.DType.IsFloat() {
			return nil, nil
		}
	}
	return got, nil
}

// converting returns the inputs with floats in another type.
func converting(inputs map[string]*tensor.Tensor, d dtype.DType) map[string]*tensor.Tensor {
	return mapFloats(inputs, func(_ string, t *tensor.Tensor) *tensor.Tensor {
		return inType(t.Float64s(), t.Shape, d)
	})
}

func inType(values []float64, shape tensor.Shape, d dtype.DType) *tensor.Tensor {
	out := tensor.New(d, shape)
	dtype.Encode(out.Data, d, values)
	return out
}

// replacing returns the inputs with a number in place of each NaN and of all that exceeds the limit.
func replacing(inputs map[string]*tensor.Tensor, limit, number float64) map[string]*tensor.Tensor {
	return mapFloats(inputs, func(_ string, t *tensor.Tensor) *tensor.Tensor {
		values := t.Float64s()
		for i, v := range values {
			if !(math.Abs(v) <= limit) {
				values[i] = number
			}
		}
		return inType(values, t.Shape, t.DType)
	})
}

// moved returns the inputs with every finite number other than zero one unit in the last place up, down, or as it is.
func moved(inputs map[string]*tensor.Tensor, seed uint64) map[string]*tensor.Tensor {
	root := rng.New(seed)
	return mapFloats(inputs, func(name string, t *tensor.Tensor) *tensor.Tensor {
		r := root.Derive(name)
		values := t.Float64s()
		for i, v := range values {
			step := float64(r.Intn(3)) - 1
			if m := v + float64(step*2*t.DType.HalfULP(v)); math.Abs(m) <= t.DType.MaxFinite() && v != 0 {
				values[i] = m
			}
		}
		return inType(values, t.Shape, t.DType)
	})
}

// mapFloats returns the inputs with f applied to those that hold floats.
func mapFloats(
	inputs map[string]*tensor.Tensor, f func(name string, t *tensor.Tensor) *tensor.Tensor,
) map[string]*tensor.Tensor {
	out := make(map[string]*tensor.Tensor, len(inputs))
	for name, t := range inputs {
		if out[name] = t; t.DType.IsFloat() {
			out[name] = f(name, t)
		}
	}
	return out
}

// exceeds reports whether the inputs have a NaN or something above the limit.
func exceeds(inputs map[string]*tensor.Tensor, limit float64) bool {
	for _, t := range inputs {
		if t.DType.IsFloat() && slices.ContainsFunc(t.Float64s(), func(v float64) bool { return !(math.Abs(v) <= limit) }) {
			return true
		}
	}
	return false
}

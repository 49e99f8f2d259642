package campaign

import (
	"bytes"
	"context"
	"fmt"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/shrink"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements minimisation: the smallest case that fails in the same way, stored under a seed of its own.

// Strategies of minimisation.
const (
	MinimiseDims   = "binary-search-dims"
	MinimiseValues = "binary-search-values"
	MinimiseAll    = "all"
)

// MinimiseStrategies lists the strategies, the default first.
func MinimiseStrategies() []string { return []string{MinimiseAll, MinimiseDims, MinimiseValues} }

// DefaultMinimiseIters is the documented number of executions; MaxMinimiseIters bounds what can be asked for.
const (
	DefaultMinimiseIters = 100
	MaxMinimiseIters     = 100_000
)

// MinimiseRequest says what to shrink and how.
type MinimiseRequest struct {
	Target   Target
	Strategy string // "": MinimiseAll
	MaxIters int    // executions of the candidate; 0: DefaultMinimiseIters
	// AnyDType lets the dtype change, AnyFailure the kind of the failure: each may lead to another bug.
	AnyDType, AnyFailure bool
	// TextOnly looks for a case that its text describes whole, so that it replays without a store. Nothing is stored.
	TextOnly bool
	// Progress is called after each execution; nil is allowed.
	Progress func(done, budget int)
}

// Minimised is the outcome.
type Minimised struct {
	Original *verdict.Result // as it fails now
	Result   *verdict.Result // of the smallest case
	Case     opspec.Case
	Inputs   map[string]*tensor.Tensor
	// Portable is the text of the smallest case that fails in the same way and whose inputs follow from its text; "" where
	// the inputs of the original were given.
	Portable  string
	Executed  int
	Unchanged bool // nothing smaller fails
}

// Minimise shrinks a failing case: dimensions, attributes, layout and distribution, then single values. Dtype and kind
// of the failure stay, unless asked otherwise. It executes the candidate each time. The result has a seed derived from
// the original's and replays by it.
func (e *Engine) Minimise(ctx context.Context, p Project, req MinimiseRequest) (*Minimised, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	l, err := e.Locate(ctx, p, req.Target)
	if err != nil {
		return nil, err
	}
	sess, release, err := e.session(ctx, p, l.Case.Op)
	if err != nil {
		return nil, err
	}
	defer release()
	if b := sess.subject.blocked; b != nil {
		return nil, diag.Errorf(NotExecutable, b.hint, "op %q cannot be executed here: %s", l.Case.Op, b.msg)
	}
	m := &minimiser{engine: e, session: sess, schema: l.schema, MinimiseRequest: req}
	original, err := m.execute(ctx, l.run, l.Inputs)
	if err != nil {
		return nil, err
	}
	if !original.Verdict.Failed() {
		return nil, diag.Errorf(NotFailing, "gpuemu reproduce shows what it does now",
			"the case does not fail now: its verdict is %s", original.Verdict)
	}
	m.kind = original.Kind()
	best, inputs := l.run, l.Inputs
	if req.Strategy != MinimiseValues {
		best, inputs = m.cases(ctx, best, inputs)
	}
	if req.Strategy != MinimiseDims && !req.TextOnly {
		inputs = m.values(ctx, best, inputs)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := &Minimised{Original: original, Unchanged: best.String() == l.run.String() && equalInputs(inputs, l.Inputs)}
	if commonValues(best) != valuesStored {
		out.Portable = best.String()
	}
	out.Case, out.Inputs = best, inputs
	if !req.TextOnly {
		out.Case, out.Inputs = m.seeded(ctx, rng.DeriveSeed(l.Case.Seed, "minimized"), best, inputs)
	}
	return out, m.finish(ctx, p, l, out)
}

func (r *MinimiseRequest) check() error {
	if r.Strategy == "" {
		r.Strategy = MinimiseAll
	}
	if r.MaxIters == 0 {
		r.MaxIters = DefaultMinimiseIters
	}
	known := false
	for _, name := range MinimiseStrategies() {
		known = known || name == r.Strategy
	}
	switch {
	case !known:
		return diag.Errorf(BadOptions, diag.Suggest(r.Strategy, MinimiseStrategies(), "use all"),
			"unknown strategy %q", r.Strategy)
	case r.MaxIters < 1 || r.MaxIters > MaxMinimiseIters:
		return diag.Errorf(BadOptions, fmt.Sprintf("use 1 to %d", MaxMinimiseIters), "%d iterations asked for", r.MaxIters)
	}
	return nil
}

// minimiser is one minimisation.
type minimiser struct {
	engine  *Engine
	session *session
	schema  *opspec.Schema
	MinimiseRequest
	kind     verdict.Kind
	executed int
}

func (m *minimiser) execute(
	ctx context.Context, c opspec.Case, inputs map[string]*tensor.Tensor,
) (*verdict.Result, error) {
	m.executed++
	res, err := m.session.run(ctx, m.schema, c, inputs)
	if m.Progress != nil {
		m.Progress(m.executed, m.MaxIters)
	}
	return res, err
}

// fails executes a candidate case and says whether it fails in the same way.
func (m *minimiser) fails(ctx context.Context, c opspec.Case, inputs map[string]*tensor.Tensor) bool {
	if ctx.Err() != nil {
		return false
	}
	res, err := m.execute(ctx, c, inputs)
	return err == nil && m.same(res)
}

// same reports whether a result is the failure that is to be kept.
func (m *minimiser) same(r *verdict.Result) bool {
	return r.Verdict.Failed() && (m.AnyFailure || r.Kind().Like(m.kind))
}

// left is what remains of the budget.
func (m *minimiser) left() int { return max(m.MaxIters-m.executed, 0) }

// cases shrinks the case itself. Cases with stored values cannot be resized: their values are not a function of a
// seed.
func (m *minimiser) cases(
	ctx context.Context, c opspec.Case, inputs map[string]*tensor.Tensor,
) (opspec.Case, map[string]*tensor.Tensor) {
	start := c
	if commonValues(c) == valuesStored {
		start = m.regenerable(ctx, c)
		if commonValues(start) == valuesStored {
			return c, inputs
		}
	}
	opt := shrink.Options{Budget: m.left(), DimsOnly: m.Strategy == MinimiseDims, AnyDType: m.AnyDType}
	best, _ := shrink.Case(m.schema, start, opt, func(c opspec.Case) bool {
		in, err := m.engine.inputsOf(ctx, m.schema, c, "")
		return err == nil && m.fails(ctx, c, in)
	})
	if best.String() == c.String() {
		return c, inputs
	}
	in, err := m.engine.inputsOf(ctx, m.schema, best, "")
	if err != nil { // the search made its inputs before
		return c, inputs
	}
	return best, in
}

// regenerable tries the case with values drawn from its seed instead of those given. The cause may then be another one:
// given values can look like a pattern, as 0, 1, 2, … with 1 added look like a shift. From here on it stays.
func (m *minimiser) regenerable(ctx context.Context, c opspec.Case) opspec.Case {
	for _, values := range []string{"normal", "uniform", "adversarial"} {
		if m.left() == 0 {
			break
		}
		other := c
		other.Inputs = append([]opspec.CaseInput(nil), c.Inputs...)
		for i := range other.Inputs {
			other.Inputs[i].Values = values
		}
		in, err := m.engine.inputsOf(ctx, m.schema, other, "")
		if err != nil || ctx.Err() != nil {
			continue
		}
		res, err := m.execute(ctx, other, in)
		if err != nil {
			continue
		}
		kind := res.Kind()
		kind.Cause = m.kind.Cause
		if kind == m.kind || m.same(res) {
			m.kind = res.Kind()
			return other
		}
	}
	return c
}

// values simplifies the elements of the inputs.
func (m *minimiser) values(
	ctx context.Context, c opspec.Case, inputs map[string]*tensor.Tensor,
) map[string]*tensor.Tensor {
	stored := withStoredValues(c, c.Seed)
	out, _ := shrink.Values(m.schema, c, inputs, m.left(), func(in map[string]*tensor.Tensor) bool {
		return m.fails(ctx, stored, in)
	})
	return out
}

// withStoredValues is the case whose inputs are those in the store.
func withStoredValues(c opspec.Case, seed uint64) opspec.Case {
	c.Inputs = append([]opspec.CaseInput(nil), c.Inputs...)
	for i := range c.Inputs {
		c.Inputs[i].Values = valuesStored
	}
	c.Seed = seed
	return c
}

// seeded gives the smallest case a seed of its own. Values that the original seed does not give any more, and a seed
// under which the same case does not fail, make it a case with stored inputs.
func (m *minimiser) seeded(
	ctx context.Context, seed uint64, best opspec.Case, inputs map[string]*tensor.Tensor,
) (opspec.Case, map[string]*tensor.Tensor) {
	if m.left() > 0 && sameInputs(ctx, m, best, inputs) && commonValues(best) != valuesStored {
		reseeded := best
		reseeded.Seed = seed
		if in, err := m.engine.inputsOf(ctx, m.schema, reseeded, ""); err == nil && m.fails(ctx, reseeded, in) {
			return reseeded, in
		}
	}
	return withStoredValues(best, seed), inputs
}

// finish executes the smallest case once more and stores what comes out.
func (m *minimiser) finish(ctx context.Context, p Project, l *Located, out *Minimised) error {
	res, err := m.execute(ctx, out.Case, out.Inputs)
	if err != nil {
		return err
	}
	if !m.same(res) {
		return diag.Errorf(NotFailing,
			"gpuemu reproduce runs the case again; invariants = [\"deterministic\"] finds such candidates",
			"the candidate is not deterministic: the smallest case failed, and is %s when it is run again",
			res.Verdict)
	}
	from := verdict.Seed(l.Case.Seed)
	res.ShrunkFrom = &from
	out.Result, out.Executed = res, m.executed
	if m.TextOnly {
		return nil
	}
	return m.engine.keep(ctx, p, out.Case, out.Inputs, res)
}

// sameInputs reports whether the values are still those the case's text gives.
func sameInputs(ctx context.Context, m *minimiser, c opspec.Case, inputs map[string]*tensor.Tensor) bool {
	given, err := m.engine.inputsOf(ctx, m.schema, c, "")
	return err == nil && equalInputs(given, inputs)
}

// equalInputs reports whether the inputs have the same values.
func equalInputs(x, y map[string]*tensor.Tensor) bool {
	for name, t := range x {
		if y[name] == nil || !bytes.Equal(t.Bytes(), y[name].Bytes()) {
			return false
		}
	}
	return len(x) == len(y)
}

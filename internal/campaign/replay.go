package campaign

import (
	"context"
	"fmt"
	"strconv"

	"gpuemu/internal/diag"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements replay: a stored case, or the text of one, is executed again.

// Target names a case: by its canonical text, or by the seed of a stored one, which an op may narrow down.
type Target struct {
	Case string
	Seed uint64
	Op   string
}

// ParseTarget reads a seed or the text of a case.
func ParseTarget(text, op string) (Target, error) {
	if seed, err := strconv.ParseUint(text, 10, 64); err == nil {
		return Target{Seed: seed, Op: op}, nil
	}
	c, err := opspec.ParseCase(text)
	if err != nil {
		return Target{}, err
	}
	return Target{Case: text, Op: c.Op}, nil
}

// Located is a case that was found.
type Located struct {
	Case   opspec.Case
	Stored *verdict.Result // nil for one that was given as text and never ran
	// Others are the texts of other stored cases with the same seed.
	Others     []string
	ConfigPath string // of the campaign that stored it
	Inputs     map[string]*tensor.Tensor
	schema     *opspec.Schema
	run        opspec.Case // what is executed: Case, or what the op knows of a case of another schema
}

// Replay is what came out of executing a case again.
type Replay struct {
	Located
	// Result is nil where the case cannot be executed here.
	Result *verdict.Result
}

// StillFails reports whether the candidate failed again.
func (r *Replay) StillFails() bool { return r.Result != nil && r.Result.Verdict.Failed() }

// Locate finds a case and makes its inputs. It executes nothing. The memory is that of ctx.
func (e *Engine) Locate(ctx context.Context, p Project, t Target) (*Located, error) {
	l, err := e.find(ctx, t)
	if err != nil {
		return nil, err
	}
	s, err := resolveSubject(p.Config, l.Case.Op)
	if l.Stored != nil && ofClients(l.Case, l.Stored) && diag.CodeOf(err) == UnknownOp {
		s, err = freeSubject(p.Config, l.Case.Op), nil
	}
	if err != nil {
		return nil, inPython(err, l.Case)
	}
	l.run = l.Case
	if l.Stored != nil && l.Stored.Schema == verdict.ClientSide {
		return l, e.locateOwn(ctx, s, l)
	}
	l.schema = s.schemaOf(l.Case)
	if err := e.holdFor(ctx, s.with(l.schema), l.Case, judged); err != nil {
		return nil, err
	}
	key := ""
	if l.Stored != nil {
		key = l.Stored.Inputs
	}
	if l.Inputs, err = e.inputsOf(ctx, l.schema, l.Case, key); err != nil {
		return nil, inPython(err, l.Case)
	}
	return l, nil
}

// find looks the target up: the newest failing case of that seed, else the newest.
func (e *Engine) find(ctx context.Context, t Target) (*Located, error) {
	if t.Case != "" {
		c, err := opspec.ParseCase(t.Case)
		if err != nil {
			return nil, err
		}
		l := &Located{Case: c}
		found, err := e.Store.BySeed(ctx, c.Seed, c.Op)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if found[i].Case == t.Case {
				l.Stored, l.ConfigPath = &found[i].Result, found[i].ConfigPath
				break
			}
		}
		return l, nil
	}
	found, err := e.Store.BySeed(ctx, t.Seed, t.Op)
	if err != nil {
		return nil, err
	}
	for i := range found {
		c, err := opspec.ParseCase(found[i].Case)
		if err != nil {
			continue // a case of another version of the text
		}
		l := &Located{Case: c, Stored: &found[i].Result, ConfigPath: found[i].ConfigPath}
		seen := map[string]bool{found[i].Case: true}
		for _, other := range found[i+1:] {
			if !seen[other.Case] {
				seen[other.Case] = true
				l.Others = append(l.Others, other.Case)
			}
		}
		return l, nil
	}
	of := ""
	if t.Op != "" {
		of = fmt.Sprintf(" of op %q", t.Op)
	}
	return nil, diag.Errorf(UnknownCase, "give the case's text instead of its seed, in quotes: every report prints it, "+
		"and it needs no store; gpuemu failures lists what is stored here",
		"there is no stored case%s with seed %d", of, t.Seed)
}

// Reproduce executes a case again and stores nothing. Where the candidate runs on a client the Replay has no Result.
func (e *Engine) Reproduce(ctx context.Context, p Project, t Target) (*Replay, error) {
	l, err := e.Locate(ctx, p, t)
	if err != nil {
		return nil, err
	}
	r := &Replay{Located: *l}
	sess, release, err := e.session(ctx, p, l.Case.Op)
	if diag.CodeOf(err) == UnknownOp {
		return r, nil // located, and unknown: a client's
	}
	if err != nil {
		return nil, err
	}
	defer release()
	if b := sess.subject.blocked; b != nil && b.reason == verdict.NoCandidate {
		return r, nil
	}
	r.Result, err = sess.run(ctx, l.schema, l.run, l.Inputs)
	if err == nil && l.Stored != nil {
		r.Result.Inputs, r.Result.ShrunkFrom = l.Stored.Inputs, l.Stored.ShrunkFrom
		r.Result.Case, r.Result.Schema = l.Stored.Case, l.Stored.Schema
	}
	return r, err
}

// keep stores a result outside a campaign, with its inputs where the text alone does not give them.
func (e *Engine) keep(
	ctx context.Context, p Project, c opspec.Case, inputs map[string]*tensor.Tensor, res *verdict.Result,
) error {
	if err := e.keepInputs(ctx, c, inputs, res); err != nil {
		return err
	}
	return e.Store.AddResult(ctx, res, p.path())
}

// keepInputs stores the inputs of a result that did not pass, where the text alone does not give them.
func (e *Engine) keepInputs(
	ctx context.Context, c opspec.Case, inputs map[string]*tensor.Tensor, res *verdict.Result,
) error {
	if commonValues(c) != valuesStored || res.Inputs != "" || res.Verdict == verdict.Pass || inputs == nil {
		return nil
	}
	key, err := e.saveInputs(ctx, c, inputs)
	if err == nil {
		res.Inputs = key
	}
	return err
}

// saveInputs stores the inputs of a case.
func (e *Engine) saveInputs(ctx context.Context, c opspec.Case, inputs map[string]*tensor.Tensor) (string, error) {
	var list []tensor.Named
	for _, in := range c.Inputs {
		list = append(list, tensor.Named{Name: in.Name, Tensor: inputs[in.Name]})
	}
	return e.Store.SaveTensors(ctx, list, map[string]string{"case": c.String()})
}

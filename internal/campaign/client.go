package campaign

import (
	"context"
	"encoding/json"
	"fmt"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements work with clients that execute kernels themselves: cases are handed out, outputs are submitted.

// HandOut describes the cases a client asks for.
type HandOut struct {
	Op      string
	Schema  *opspec.Schema // nil: that of the op
	Options Options        // Seed, Values, Shapes, DTypes and Layouts count
}

// Batch is an endless sequence of cases for a client.
type Batch struct {
	schema *opspec.Schema
	stream *gen.Stream
	Seed   uint64
}

// HandOut prepares cases for a client. They are those of a fuzz campaign with the same options.
func (e *Engine) HandOut(p Project, h HandOut) (*Batch, error) {
	s, err := resolveSubject(p.Config, h.Op)
	if err != nil && h.Schema == nil {
		return nil, err
	}
	if err != nil {
		s = &subject{name: h.Op}
	}
	if h.Schema != nil {
		if err := h.Schema.Validate(); err != nil {
			return nil, err
		}
		s.schema = h.Schema
	}
	seed := masterSeed(p.Config, &h.Options)
	stream, err := newStream(s, s.strategy(&h.Options), seed)
	if err != nil {
		return nil, err
	}
	return &Batch{schema: s.schema, stream: stream, Seed: seed}, nil
}

// Case returns case i and its inputs.
func (b *Batch) Case(i int) (opspec.Case, map[string]*tensor.Tensor, error) {
	c, err := b.stream.Case(i)
	if err != nil {
		return c, nil, err
	}
	inputs, err := gen.Inputs(b.schema, c)
	return c, inputs, err
}

// Submission is what a client computed.
type Submission struct {
	Op string
	// Case is the text of a handed-out case. Without it the inputs are those of the client.
	Case   string
	Inputs []tensor.Named
	Attrs  map[string]string // attributes and kwargs of given inputs, as text
	Seed   uint64
	// Outputs in any order, or one of any name.
	Outputs []tensor.Named
}

// Submit judges what a client computed, and stores the result.
func (e *Engine) Submit(ctx context.Context, p Project, sub Submission) (*verdict.Result, error) {
	sess, release, err := e.session(ctx, p, sub.Op)
	if err != nil {
		return nil, err
	}
	defer release()
	var c opspec.Case
	var schema *opspec.Schema
	var inputs map[string]*tensor.Tensor
	if sub.Case != "" {
		if c, err = opspec.ParseCase(sub.Case); err != nil {
			return nil, err
		}
		schema = sess.subject.schemaOf(c)
		if inputs, err = e.inputsOf(ctx, schema, c, ""); err != nil {
			return nil, err
		}
	} else if schema, c, inputs, err = sess.subject.given(sub); err != nil {
		return nil, err
	}
	res, err := sess.judgeOutputs(ctx, schema, c, inputs, sub.Outputs)
	if err != nil {
		return nil, err
	}
	return res, e.keep(ctx, p, c, inputs, res)
}

// given makes the case of inputs that a client sent.
func (s *subject) given(sub Submission) (*opspec.Schema, opspec.Case, map[string]*tensor.Tensor, error) {
	var c opspec.Case
	if len(sub.Inputs) == 0 {
		return nil, c, nil, diag.Errorf(BadOptions, "send the inputs, or the text of the case", "there are no inputs")
	}
	attrs := opspec.Attrs{}
	for name, text := range sub.Attrs {
		if attr, ok := s.schema.Attr(name); ok {
			resolved, err := s.schema.ResolveAttrs(map[string]string{name: text})
			if err != nil {
				return nil, c, nil, fmt.Errorf("attribute %q: %w", name, err)
			}
			attrs[attr.Name] = resolved[attr.Name]
		}
	}
	list := s.ordered(sub.Inputs)
	schema, c := s.caseOfTensors(list, valuesStored, s.typeOf(list, sub.Outputs), attrs, sub.Seed)
	inputs := map[string]*tensor.Tensor{}
	for _, in := range list {
		inputs[in.Name] = in.Tensor
	}
	return schema, c, inputs, nil
}

// ordered returns the inputs in the order of the schema, those it does not know at the end. A single input of another
// name gets the schema's.
func (s *subject) ordered(inputs []tensor.Named) []tensor.Named {
	if len(inputs) == 1 && len(s.schema.Inputs) == 1 {
		return []tensor.Named{{Name: s.schema.Inputs[0].Name, Tensor: inputs[0].Tensor}}
	}
	var out []tensor.Named
	taken := map[string]bool{}
	for i := range s.schema.Inputs {
		for _, in := range inputs {
			if in.Name == s.schema.Inputs[i].Name && !taken[in.Name] {
				out, taken[in.Name] = append(out, in), true
			}
		}
	}
	for _, in := range inputs {
		if !taken[in.Name] {
			out, taken[in.Name] = append(out, in), true
		}
	}
	return out
}

// typeOf is the dtype of a case with given tensors: that of the first input that follows the case's type, else of the
// output.
func (s *subject) typeOf(inputs, outputs []tensor.Named) dtype.DType {
	for _, in := range inputs {
		if spec, ok := s.schema.Input(in.Name); ok && spec.DType == "" {
			return in.Tensor.DType
		}
	}
	for _, out := range outputs {
		return out.Tensor.DType
	}
	return inputs[0].Tensor.DType
}

// FuzzSummary is what a run with a configuration of the published fuzzer found.
type FuzzSummary struct {
	Seed     uint64
	Counts   verdict.Counts
	Failures []verdict.Result
}

// maxKeptFailures bounds the failures that FuzzPublished returns; all of them are stored.
const maxKeptFailures = 1000

// FuzzPublished runs cases of the published fuzzer, bit for bit its own, and stores failures.
func (e *Engine) FuzzPublished(
	ctx context.Context, p Project, op string, fc gen.FuzzConfig, master uint64, iterations int, failFast bool,
	raw json.RawMessage,
) (*FuzzSummary, error) {
	if iterations < 0 || iterations > MaxCases {
		return nil, diag.Errorf(BadOptions, fmt.Sprintf("use at most %d", MaxCases), "%d iterations asked for", iterations)
	}
	sess, release, err := e.session(ctx, p, op)
	if err != nil {
		return nil, err
	}
	defer release()
	if raw != nil {
		if err := e.Store.SaveFuzzConfig(ctx, master, raw); err != nil {
			return nil, err
		}
	}
	out := &FuzzSummary{Seed: master}
	for i := range iterations {
		fz, err := fc.Case(master, i)
		if err != nil {
			return nil, err
		}
		list, err := tensorsOf(fz)
		if err != nil {
			return nil, err
		}
		if len(list) == 1 { // of several, each keeps its place: the published fuzzer draws by position
			list = sess.subject.ordered(list)
		}
		schema, c := sess.subject.caseOfTensors(list, valuesPublished, fz.DType, sess.subject.attrs, fz.Seed)
		inputs := map[string]*tensor.Tensor{}
		for _, in := range list {
			inputs[in.Name] = in.Tensor
		}
		res, err := sess.run(ctx, schema, c, inputs)
		if err != nil {
			return nil, err
		}
		out.Counts.Add(res.Verdict)
		if res.Verdict == verdict.Pass {
			continue
		}
		if err := e.keep(ctx, p, c, inputs, res); err != nil {
			return nil, err
		}
		if len(out.Failures) < maxKeptFailures {
			out.Failures = append(out.Failures, *res)
		}
		if failFast && res.Verdict.Failed() {
			break
		}
	}
	return out, nil
}

// InputNames returns the names of an op's inputs, as its schema orders them.
func (e *Engine) InputNames(p Project, op string) ([]string, error) {
	s, err := resolveSubject(p.Config, op)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range s.schema.Inputs {
		names = append(names, s.schema.Inputs[i].Name)
	}
	return names, nil
}

func tensorsOf(fz *gen.FuzzCase) ([]tensor.Named, error) {
	var out []tensor.Named
	for i := range fz.Inputs {
		t, err := fz.Inputs[i].Tensor(fz.DType)
		if err != nil {
			return nil, err
		}
		out = append(out, tensor.Named{Name: fz.Inputs[i].Name, Tensor: t})
	}
	return out, nil
}

package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

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
		if c.Op != sess.subject.name {
			return nil, diag.Errorf(BadOptions, "send the case to the op it was handed out for",
				"the case is one of op %q, not of %q", c.Op, sess.subject.name)
		}
		schema = sess.subject.schemaOf(c)
		if inputs, err = e.inputsOf(ctx, schema, c, ""); err != nil {
			return nil, err
		}
	} else {
		own, giveBack, err := sess.withKwargs(sub.Attrs)
		if err != nil {
			return nil, err
		}
		defer giveBack()
		sess = own
		if schema, c, inputs, err = sess.subject.given(sub); err != nil {
			return nil, err
		}
	}
	res, err := sess.judgeOutputs(ctx, schema, c, inputs, sub.Outputs)
	if err != nil {
		return nil, err
	}
	return res, e.keep(ctx, p, c, inputs, res)
}

// withKwargs returns the session with what is given beside the attributes of the schema, as text, passed on to the
// reference. The catalogue's own references take nothing but attributes: a name they do not know would be ignored.
// The result's function must be called when done.
func (s *session) withKwargs(given map[string]string) (*session, func(), error) {
	extra := opspec.Attrs{}
	for name, text := range given {
		if _, ok := s.subject.schema.Attr(name); !ok {
			extra[name] = text
		}
	}
	if len(extra) == 0 {
		return s, func() {}, nil
	}
	if _, builtin := builtinName(s.subject.reference); builtin {
		var known []string
		for i := range s.subject.schema.Attrs {
			known = append(known, s.subject.schema.Attrs[i].Name)
		}
		name := slices.Min(slices.Collect(maps.Keys(extra)))
		return nil, nil, diag.Errorf(UnknownAttr, diag.Suggest(name, known, "gpuemu ops NAME lists the attributes"),
			"%s has no attribute %q", s.subject.reference, name)
	}
	sub := *s.subject
	sub.kwargs = opspec.Attrs{}
	maps.Copy(sub.kwargs, s.subject.kwargs)
	maps.Copy(sub.kwargs, extra)
	return &session{subject: &sub, executor: s.executor}, s.executor.lend(&sub, s.subject), nil
}

// given makes the case of inputs that a client sent.
func (s *subject) given(sub Submission) (*opspec.Schema, opspec.Case, map[string]*tensor.Tensor, error) {
	var c opspec.Case
	if len(sub.Inputs) == 0 {
		return nil, c, nil, diag.Errorf(BadOptions, "send the inputs, or the text of the case", "there are no inputs")
	}
	attrs := opspec.Attrs{}
	maps.Copy(attrs, s.attrs) // what the configuration fixes, unless the client says otherwise
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

// PublishedRun is a run of the published fuzzer.
type PublishedRun struct {
	Op         string
	Config     gen.FuzzConfig
	Seed       uint64 // master seed
	Iterations int
	FailFast   bool            // end at the first case that does not pass
	Raw        json.RawMessage // the configuration as it came, to be stored; nil: it is not
}

// FuzzSummary is what a run of the published fuzzer found.
type FuzzSummary struct {
	Seed     uint64
	Counts   verdict.Counts
	Failures []verdict.Result // what did not pass, the first maxKeptFailures
}

const (
	// maxKeptFailures bounds the failures that FuzzPublished returns; all of them are stored.
	maxKeptFailures = 1000
	// MaxPublishedBytes is the largest case of the published fuzzer that is made, all inputs together: several times
	// what its default options give, and small enough for a machine that also holds the expected values in float64.
	MaxPublishedBytes = 1 << 30
)

// CheckPublished refuses a configuration that allows a case of more than MaxPublishedBytes.
func CheckPublished(fc gen.FuzzConfig) error {
	elems := 0.0 // a float does not overflow, and nothing near the limit is rounded
	product := func(lists ...[]int) float64 {
		p := 1.0
		for _, list := range lists {
			p *= float64(slices.Max(append([]int{0}, list...)))
		}
		return p
	}
	inputs := max(len(fc.Inputs), 1)
	if fc.Schema == nil {
		elems = product(fc.Shapes.BatchSizes, fc.Shapes.SeqLengths, fc.Shapes.HiddenDims)
		for _, edge := range fc.Shapes.EdgeCases {
			p := 1.0
			for _, n := range edge {
				p *= float64(n)
			}
			elems = max(elems, p)
		}
	} else {
		sizes := func(names []string) float64 {
			p := 1.0
			for _, name := range names {
				if d, ok := fc.Schema.Dim(name); ok && len(d.Candidates) > 0 {
					p *= product(d.Candidates)
				}
			}
			return p
		}
		for i := range fc.Schema.Inputs {
			elems = max(elems, sizes(fc.Schema.Inputs[i].Dims))
		}
		for i := range fc.Schema.Outputs {
			elems = max(elems, sizes(fc.Schema.Outputs[i].Dims))
		}
	}
	size := 0
	for _, d := range fc.DTypes {
		size = max(size, d.Size())
	}
	if bytes := elems * float64(inputs) * float64(size); bytes > MaxPublishedBytes {
		return diag.Errorf(BadOptions, "use smaller sizes or a narrower dtype",
			"these options allow a case with %.0f bytes of inputs, the limit is %d", bytes, MaxPublishedBytes)
	}
	return nil
}

// FuzzPublished runs cases of the published fuzzer, bit for bit its own, and stores those that do not pass.
func (e *Engine) FuzzPublished(ctx context.Context, p Project, run PublishedRun) (*FuzzSummary, error) {
	if run.Iterations < 0 || run.Iterations > MaxCases {
		return nil, diag.Errorf(BadOptions, fmt.Sprintf("use at most %d", MaxCases), "%d iterations asked for",
			run.Iterations)
	}
	if err := CheckPublished(run.Config); err != nil {
		return nil, err
	}
	sess, release, err := e.session(ctx, p, run.Op)
	if err != nil {
		return nil, err
	}
	defer release()
	if run.Raw != nil {
		if err := e.Store.SaveFuzzConfig(ctx, run.Seed, run.Raw); err != nil {
			return nil, err
		}
	}
	out := &FuzzSummary{Seed: run.Seed}
	for i := range run.Iterations {
		res, err := sess.published(ctx, p, run, i)
		if err != nil {
			return nil, err
		}
		out.Counts.Add(res.Verdict)
		if res.Verdict == verdict.Pass {
			continue
		}
		if len(out.Failures) < maxKeptFailures {
			out.Failures = append(out.Failures, *res)
		}
		if run.FailFast {
			break
		}
	}
	return out, nil
}

// published makes, runs and judges one case of the published fuzzer, and stores it unless it passes.
func (s *session) published(ctx context.Context, p Project, run PublishedRun, i int) (*verdict.Result, error) {
	fz, err := run.Config.Case(run.Seed, i)
	if err != nil {
		return nil, err
	}
	list, err := tensorsOf(fz)
	if err != nil {
		return nil, err
	}
	if len(list) == 1 { // of several, each keeps its place: the published fuzzer draws by position
		list = s.subject.ordered(list)
	}
	schema, c := s.subject.caseOfTensors(list, valuesPublished, fz.DType, s.subject.attrs, fz.Seed)
	inputs := map[string]*tensor.Tensor{}
	for _, in := range list {
		inputs[in.Name] = in.Tensor
	}
	res, err := s.run(ctx, schema, c, inputs)
	if err != nil || res.Verdict == verdict.Pass {
		return res, err
	}
	return res, s.executor.engine.keep(ctx, p, c, inputs, res)
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

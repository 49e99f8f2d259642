package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"gpuemu/internal/diag"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements cases for clients that execute kernels themselves, and the runs of the published fuzzer.

// HandOut describes the cases a client asks for.
type HandOut struct {
	Op      string            // "" with Case: that of the case
	Schema  *opspec.Schema    // nil: that of the op
	Attrs   map[string]string // attributes that are not drawn, as text
	Case    string            // canonical text: the batch has this case alone
	Options Options           // Seed, Values, Shapes, DTypes and Layouts count
}

// Batch is an endless sequence of cases for a client, or one case.
type Batch struct {
	engine  *Engine
	subject *subject
	stream  *gen.Stream
	one     *opspec.Case
	held    func() // gives back the memory of the last case; nil: there is none
	lease   *lease // of the session that expected values are computed with ahead of time; nil: they are not
	Seed    uint64
}

// HandOut prepares cases for a client. They are those of a fuzz campaign with the same options. Close must be called
// when the client has them.
func (e *Engine) HandOut(ctx context.Context, p Project, h HandOut) (*Batch, error) {
	b, err := e.newBatch(p, h)
	if err == nil && h.Schema == nil { // a schema of the client's is not that of the op, which judges
		b.open(ctx, p, b.subject.name)
	}
	return b, err
}

func (e *Engine) newBatch(p Project, h HandOut) (*Batch, error) {
	b := &Batch{engine: e, Seed: masterSeed(p.Config, &h.Options)}
	if h.Case != "" {
		c, err := opspec.ParseCase(h.Case)
		if err != nil {
			return nil, err
		}
		if b.one = &c; h.Op == "" {
			h.Op = c.Op
		}
		if err := ofOp(c, h.Op); err != nil {
			return nil, err
		}
	}
	s, err := resolveSubject(p.Config, h.Op)
	if b.one != nil {
		s, err = subjectOf(p.Config, *b.one)
	}
	if diag.CodeOf(err) == UnknownOp && h.Schema != nil {
		s, err = schemaSubject(p.Config, h.Op, h.Schema), nil
	}
	if err != nil && b.one != nil {
		err = inPython(err, *b.one)
	}
	if err != nil {
		return nil, err
	}
	if h.Schema != nil {
		if err := h.Schema.Validate(); err != nil {
			return nil, err
		}
		s.schema = h.Schema
	}
	b.subject = s
	if b.one != nil {
		b.subject = s.with(s.schemaOf(*b.one))
		return b, nil
	}
	if err := s.fix(h.Attrs); err != nil {
		return nil, err
	}
	b.stream, err = newStream(s, s.strategy(&h.Options), b.Seed)
	return b, err
}

// ofOp refuses a case of another op.
func ofOp(c opspec.Case, op string) error {
	if c.Op == op {
		return nil
	}
	return diag.Errorf(BadOptions, "send the case to the op it was handed out for",
		"the case is one of op %q, not of %q", c.Op, op)
}

// fix sets attributes, given as text, that are then not drawn.
func (s *subject) fix(given map[string]string) error {
	if len(given) == 0 {
		return nil
	}
	attrs := opspec.Attrs{}
	maps.Copy(attrs, s.attrs)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := s.schema.Attr(name); !ok {
			return s.unknownAttr(name)
		}
		resolved, err := s.schema.ResolveAttrs(map[string]string{name: given[name]})
		if err != nil {
			return fmt.Errorf("attribute %q: %w", name, err)
		}
		attrs[name] = resolved[name]
	}
	s.attrs = attrs
	return nil
}

func (s *subject) unknownAttr(name string) error {
	var known []string
	for i := range s.schema.Attrs {
		known = append(known, s.schema.Attrs[i].Name)
	}
	return diag.Errorf(UnknownAttr, diag.Suggest(name, known, "gpuemu ops NAME lists the attributes"),
		"%s has no attribute %q", first(s.reference, s.name), name)
}

// Case returns case i and its inputs. They are valid until the next call, or Close.
func (b *Batch) Case(ctx context.Context, i int) (opspec.Case, map[string]*tensor.Tensor, error) {
	if b.one != nil {
		if err := b.hold(*b.one); err != nil {
			return *b.one, nil, err
		}
		inputs, err := b.engine.inputsOfText(ctx, b.subject.schema, *b.one)
		if err == nil {
			b.prepare(*b.one, inputs)
		}
		return *b.one, inputs, inPython(err, *b.one)
	}
	c, err := b.stream.Case(i)
	if err != nil {
		return c, nil, err
	}
	if err := b.hold(c); err != nil {
		return c, nil, err
	}
	inputs, err := b.stream.Inputs(c)
	if err == nil {
		b.prepare(c, inputs)
	}
	return c, inputs, err
}

// hold asks for the memory of a case, and gives back that of the one before.
func (b *Batch) hold(c opspec.Case) (err error) {
	b.release()
	b.held, err = b.engine.hold(b.subject, c, 1)
	return err
}

func (b *Batch) release() {
	if b.held != nil {
		b.held()
		b.held = nil
	}
}

// inputsOfText returns the inputs of a case of which only the text is known: stored ones are looked up by it.
func (e *Engine) inputsOfText(ctx context.Context, s *opspec.Schema, c opspec.Case) (map[string]*tensor.Tensor, error) {
	key := ""
	if commonValues(c) == valuesStored {
		l, err := e.find(ctx, Target{Case: c.String(), Op: c.Op})
		if err != nil {
			return nil, err
		}
		if l.Stored != nil {
			key = l.Stored.Inputs
		}
	}
	return e.inputsOf(ctx, s, c, key)
}

// Asked returns what a candidate is given and asked for beside its inputs: attributes, and outputs where the schema
// says them.
func (b *Batch) Asked(c opspec.Case) (opspec.Attrs, []runner.Output) { return b.subject.asked(c) }

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
	release, err := s.executor.engine.hold(s.subject.with(schema), c, judged)
	if err != nil {
		return nil, err
	}
	defer release()
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

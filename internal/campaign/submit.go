package campaign

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the judgement of what clients executed.

// Submission is what a client computed, or what went wrong instead.
type Submission struct {
	Op string
	// Case is the text of a handed-out case. Without it the inputs are those of the client.
	Case string
	// Schema is the client's own that Case was handed out for; nil: that of the op.
	Schema *opspec.Schema
	Inputs []tensor.Named
	// DType is that of the case of given inputs. Invalid: that of the inputs, or of the output where all of them have
	// types of their own.
	DType dtype.DType
	Attrs map[string]string // attributes and kwargs of given inputs, as text
	Seed  uint64
	// Outputs in any order, or one of any name. Again are those of a second execution; nil: there was none.
	Outputs, Again []tensor.Named
	// Expected are reference values of the client, instead of the op's reference.
	Expected []tensor.Named
	// Tolerance is used instead of the rules of the op; nil: these, or the fixed ones of the dtype with Expected.
	Tolerance *compare.Tolerance
	Failure   *runner.Failure // instead of outputs
	Findings  []verdict.Finding
	Time      time.Duration // that the candidate took
	Store     Stored
}

// Stored says which results of clients are stored.
type Stored uint8

// What is stored: everything, what did not pass, nothing.
const (
	StoreAll Stored = iota
	StoreFailures
	StoreNone
)

// clientFailures are the reasons that a client may give for having no outputs: those of the worker protocol, and what
// the engine sees of its own processes itself.
var clientFailures = []verdict.Reason{
	verdict.Raised, verdict.Crashed, verdict.TimedOut, verdict.MemoryLimit, verdict.OutputLimit, verdict.BadReply,
	verdict.WrongOutputs, verdict.WrongShape, verdict.WrongDType, verdict.NotStarted, verdict.MissingPackage,
	verdict.Unsupported, verdict.WorkerLost,
}

// maxFindings is how many findings one case may have: a few for each tensor.
const maxFindings = 256

// check refuses what contradicts itself.
func (s *Submission) check() error {
	bad := func(hint, format string, args ...any) error { return diag.Errorf(BadOptions, hint, format, args...) }
	switch f := s.Failure; {
	case f == nil && len(s.Outputs) == 0:
		return bad("name outputs outputs/NAME, or send a failure", "there are no outputs")
	case f == nil:
	case len(s.Outputs)+len(s.Again)+len(s.Expected) > 0:
		return bad("send one of them", "there are a failure and outputs")
	case !slices.Contains(clientFailures, f.Reason):
		return bad(fmt.Sprintf("use one of %q", clientFailures), "%q is no reason for a failure", f.Reason)
	case blame(f.Reason) == verdict.NotRun && len(s.Findings) > 0:
		return bad("send one of them", "there are findings on a case that was not run (%s)", f.Reason)
	}
	if len(s.Findings) > maxFindings {
		return bad("one for each kind and tensor is enough", "there are %d findings, at most %d are allowed",
			len(s.Findings), maxFindings)
	}
	for _, f := range s.Findings {
		switch {
		case !slices.Contains(verdict.FindingReasons(), verdict.Reason(f.Kind)):
			return bad(fmt.Sprintf("use one of %q", verdict.FindingReasons()), "there is no finding of kind %q", f.Kind)
		case f.Sentence == "":
			return bad("say what was seen, and where", "a finding of kind %s has no sentence", f.Kind)
		}
	}
	for _, t := range s.Again {
		if !slices.ContainsFunc(s.Outputs, func(o tensor.Named) bool { return o.Name == t.Name }) {
			return bad("name it as the output of the first execution", "output %q is in the second execution alone", t.Name)
		}
	}
	if t := s.Tolerance; t != nil && !(t.Abs >= 0 && t.Rel >= 0 && t.Abs <= maxTolerance && t.Rel <= maxTolerance) {
		return bad(fmt.Sprintf("use 0 to %g", float64(maxTolerance)), "tolerance is atol %g, rtol %g", t.Abs, t.Rel)
	}
	if s.Time < 0 {
		return bad("send nanoseconds, or nothing", "the candidate took %d ns", s.Time)
	}
	return nil
}

// maxTolerance is the largest tolerance: with more every number is right, and infinities would be.
const maxTolerance = 1e300

// needsReference reports whether expected values have to be computed.
func (s *Submission) needsReference() bool { return s.Failure == nil && len(s.Expected) == 0 }

// Judging judges submissions that belong together: an op is made ready once for all of them. It is safe for concurrent
// use; Close must be called when done.
type Judging struct {
	engine *Engine

	mu   sync.Mutex
	open map[[4]string]*opened // by configuration, interpreter, environment, op; guarded by mu
}

// opened is a session in use by a Judging.
type opened struct {
	*session
	release func()
}

// NewJudging begins the judgement of submissions.
func (e *Engine) NewJudging() *Judging { return &Judging{engine: e, open: map[[4]string]*opened{}} }

// Close gives back what was made ready.
func (j *Judging) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, s := range j.open {
		s.release()
		delete(j.open, key)
	}
}

// session makes an op ready, once. One that nobody knows can be judged where it needs no reference.
func (j *Judging) session(ctx context.Context, p Project, sub *Submission) (*session, error) {
	key := [4]string{p.path(), p.Python, p.environment(), sub.Op}
	j.mu.Lock()
	defer j.mu.Unlock()
	if s, ok := j.open[key]; ok {
		return s.session, nil
	}
	s, release, err := j.engine.session(ctx, p, sub.Op)
	if diag.CodeOf(err) == UnknownOp && !sub.needsReference() {
		return &session{subject: freeSubject(p.Config, sub.Op), executor: &executor{engine: j.engine, project: p}}, nil
	}
	if err != nil {
		return nil, err
	}
	j.open[key] = &opened{s, release}
	return s, nil
}

// freeSubject is an op of which nothing but the name is known.
func freeSubject(cfg *config.Config, name string) *subject {
	return schemaSubject(cfg, name, &opspec.Schema{Name: name})
}

// subjectOf is the subject of the op of a case, or a free subject where nobody knows the op of a case whose inputs are
// stored: a client has judged it by values of its own.
func subjectOf(cfg *config.Config, c opspec.Case) (*subject, error) {
	s, err := resolveSubject(cfg, c.Op)
	if diag.CodeOf(err) == UnknownOp && commonValues(c) == valuesStored {
		return freeSubject(cfg, c.Op), nil
	}
	return s, err
}

// Judged is a result that is not stored yet.
type Judged struct {
	Result *verdict.Result
	path   string // of the configuration
	keep   bool
}

// Judge judges what a client computed.
func (j *Judging) Judge(ctx context.Context, p Project, sub *Submission) (*Judged, error) {
	if err := sub.check(); err != nil {
		return nil, err
	}
	sess, err := j.session(ctx, p, sub)
	if err != nil {
		return nil, err
	}
	in, err := j.situation(ctx, sess, sub)
	if err != nil {
		return nil, err
	}
	defer in.release()
	res, err := in.session.judgeSubmission(ctx, in, sub)
	if err != nil {
		return nil, err
	}
	if sub.Case != "" && res.Verdict != verdict.Pass && commonValues(in.cas) == valuesStored {
		l, err := j.engine.find(ctx, Target{Case: sub.Case, Op: sub.Op})
		if err != nil {
			return nil, err
		}
		if l.Stored != nil { // the inputs are where they were
			res.Inputs = l.Stored.Inputs
		}
	}
	out := &Judged{res, p.path(), sub.Store == StoreAll || sub.Store == StoreFailures && res.Verdict != verdict.Pass}
	if out.keep {
		err = in.keepInputs(ctx, j.engine, res)
	}
	return out, err
}

// Submit judges what a client computed, and stores the result.
func (e *Engine) Submit(ctx context.Context, p Project, sub Submission) (*verdict.Result, error) {
	j := e.NewJudging()
	defer j.Close()
	res, err := j.Judge(ctx, p, &sub)
	if err != nil {
		return nil, err
	}
	return res.Result, e.Keep(ctx, []*Judged{res})
}

// situation is a case that is to be judged.
type situation struct {
	session *session
	schema  *opspec.Schema
	cas     opspec.Case
	text    string                    // of cas; "": not known
	inputs  map[string]*tensor.Tensor // nil where nobody needs them
	ahead   *prospect                 // of a case that was handed out; nil: nothing was computed ahead
	own     *ownCase                  // nil unless the case is of a schema of the client's
	release func()
}

// situation finds the case of a submission.
func (j *Judging) situation(ctx context.Context, sess *session, sub *Submission) (*situation, error) {
	in := &situation{session: sess, release: func() {}}
	var err error
	if sub.Case != "" && sub.Schema != nil {
		return in, in.ofOwnSchema(sub)
	}
	if sub.Case == "" {
		if sub.needsReference() {
			if in.session, in.release, err = sess.withKwargs(sub.Attrs); err != nil {
				return nil, err
			}
		}
		in.schema, in.cas, in.inputs, err = in.session.subject.given(sub)
		if err == nil {
			err = in.hold(sub)
		}
		if err != nil {
			in.release()
		}
		return in, err
	}
	// Whether or not it is used: nobody else will ask for it. Most texts are those that were handed out, and what they
	// say is known then.
	if in.ahead = j.engine.ahead.take(sess.caseKey(sub.Case)); in.ahead != nil {
		in.cas, in.text, in.schema = in.ahead.cas, sub.Case, sess.subject.schema // see prepare
	} else if err := j.parse(in, sub.Case); err != nil {
		return nil, err
	}
	if !sub.needsReference() {
		return in, nil
	}
	if err := in.hold(sub); err != nil {
		return nil, err
	}
	if in.ahead != nil {
		in.inputs = in.ahead.inputs
		return in, nil
	}
	if in.inputs, err = j.engine.inputsOfText(ctx, in.schema, in.cas); err != nil {
		in.release()
	}
	return in, err
}

// hold asks for the memory of the case, where it is judged against a reference.
func (in *situation) hold(sub *Submission) error {
	if !sub.needsReference() {
		return nil
	}
	give, err := in.session.executor.engine.hold(in.session.subject.with(in.schema), in.cas, judged)
	if err != nil {
		return err
	}
	before := in.release
	in.release = func() { give(); before() }
	return nil
}

// parse reads the text of a case, which may be written in another way than it was handed out.
func (j *Judging) parse(in *situation, text string) error {
	var err error
	if in.cas, err = opspec.ParseCase(text); err != nil {
		return err
	}
	if err := ofOp(in.cas, in.session.subject.name); err != nil {
		return err
	}
	in.schema = in.session.subject.schemaOf(in.cas)
	in.ahead = j.engine.ahead.take(in.session.caseKey(in.cas.String()))
	return nil
}

// judgeSubmission judges what a client reports of a case. A panic is our own fault and no verdict.
func (s *session) judgeSubmission(ctx context.Context, in *situation, sub *Submission) (_ *verdict.Result, err error) {
	c := in.cas
	subj := s.subject.with(in.schema).judgedBy(sub, c.DType)
	defer s.executor.lend(subj, s.subject)()
	if in.text == "" {
		in.text = c.String()
	}
	res := &verdict.Result{DType: c.DType.String(), Case: in.text, Seed: verdict.Seed(c.Seed)}
	subj.stamp(res)
	res.Candidate, res.CandidateTime = verdict.ClientSide, sub.Time
	if len(sub.Expected) > 0 {
		res.Reference = verdict.ClientSide
	}
	if in.own != nil {
		res.Schema = verdict.ClientSide
	}
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			internalFault(res, fmt.Errorf("%v\n%s", p, debug.Stack()))
		}
		res.Duration, res.Time = time.Since(start), s.executor.engine.Now()
	}()
	run := observed{inputs: in.inputs, findings: sub.Findings, second: sub.Again}
	if f := sub.Failure; f != nil {
		res.Verdict, res.Reason, res.Message, res.Hint, res.Stderr = blame(f.Reason), f.Reason, f.Msg, f.Hint, f.Stderr
		subj.conclude(res, run, false)
		return res, nil
	}
	wants, failure, err := s.wanted(ctx, subj, in, sub, res)
	switch {
	case err != nil:
		return nil, fmt.Errorf("op %q: %w", subj.name, err)
	case failure != nil:
		res.Verdict, res.Reason, res.Message, res.Hint, res.Stderr =
			verdict.NotRun, failure.Reason, failure.Msg, failure.Hint, failure.Stderr
		return res, nil
	}
	if err := s.executor.decide(ctx, subj, trialOf{c, in.inputs, sub.Outputs, wants, run}, res); err != nil {
		return nil, err
	}
	subj.unchecked(res)
	leftOpen(res, sub)
	release(wants)
	return res, nil
}

// leftOpen makes a pass on tensors of a caller's own undecided where no output has an element: nothing was compared,
// and the caller asked about these. A case without elements that the engine made passes: it is one of many, and tests
// that the kernel accepts it.
func leftOpen(res *verdict.Result, sub *Submission) {
	empty := !slices.ContainsFunc(res.Outputs, func(o verdict.Output) bool { return o.Elements > 0 })
	if sub.Case != "" || sub.Seed != 0 || res.Verdict != verdict.Pass || !empty {
		return
	}
	res.Verdict, res.Reason = verdict.Undecided, verdict.AllUndetermined
	res.Message, res.Hint = "no output has an element: nothing was compared", "give inputs that have elements"
}

// judgedBy returns the subject with the rules of a submission.
func (s *subject) judgedBy(sub *Submission, d dtype.DType) *subject {
	if sub.Tolerance == nil && len(sub.Expected) == 0 {
		return s
	}
	own := *s
	own.rules.regime = compare.Fixed
	if sub.Tolerance != nil {
		own.rules.tolerances = map[dtype.DType]compare.Tolerance{d: *sub.Tolerance}
	}
	return &own
}

// wanted returns what the outputs of a submission are compared with.
func (s *session) wanted(
	ctx context.Context, subj *subject, in *situation, sub *Submission, res *verdict.Result,
) ([]expected, *runner.Failure, error) {
	if len(sub.Expected) > 0 {
		wants, failure := subj.fromReply(in.cas, sub.Expected, nil)
		return wants, failure, nil
	}
	if subj.reference == "" {
		return nil, &runner.Failure{Reason: verdict.ReferenceFailed, Msg: "nothing to compare with is configured",
			Hint: `set reference = "file.py:function", a script, or "builtin:NAME" (gpuemu ops)`}, nil
	}
	if in.ahead != nil {
		if o, ok := in.ahead.ready(ctx); ok {
			res.ReferenceTime = o.took
			return o.wants, o.failure, nil
		}
	}
	wants, took, failure, err := s.executor.want(ctx, subj, in.cas, in.inputs)
	res.ReferenceTime = took
	return wants, failure, err
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
		return nil, nil, s.subject.unknownAttr(slices.Min(slices.Collect(maps.Keys(extra))))
	}
	sub := *s.subject
	sub.kwargs = opspec.Attrs{}
	maps.Copy(sub.kwargs, s.subject.kwargs)
	maps.Copy(sub.kwargs, extra)
	return &session{subject: &sub, executor: s.executor}, s.executor.lend(&sub, s.subject), nil
}

// given makes the case of inputs that a client sent.
func (s *subject) given(sub *Submission) (*opspec.Schema, opspec.Case, map[string]*tensor.Tensor, error) {
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
	d, err := s.typeOf(list, sub)
	if err != nil {
		return nil, c, nil, err
	}
	schema, c := s.caseOfTensors(list, valuesStored, d, attrs, sub.Seed)
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

// typeOf is the dtype of a case with given tensors: the one that the client names, else that of the first input that
// follows the case's type, else of the output.
func (s *subject) typeOf(inputs []tensor.Named, sub *Submission) (dtype.DType, error) {
	for _, in := range inputs {
		spec, known := s.schema.Input(in.Name)
		switch {
		case known && spec.DType != "":
		case sub.DType == dtype.Invalid && known:
			return in.Tensor.DType, nil
		case sub.DType != dtype.Invalid && in.Tensor.DType.IsFloat() && in.Tensor.DType != sub.DType:
			return 0, diag.Errorf(BadOptions, "leave dtype out, or convert the input", "input %q is %s, not %s", in.Name,
				in.Tensor.DType, sub.DType)
		}
	}
	if sub.DType != dtype.Invalid {
		return sub.DType, nil
	}
	if len(sub.Outputs) == 0 {
		return inputs[0].Tensor.DType, nil
	}
	got := sub.Outputs[0].Tensor.DType
	if allowed := s.schema.AllowedDTypes(); len(s.schema.Inputs) > 0 && !slices.Contains(allowed, got) {
		return allowed[0], nil // an output of a type that the op has not is compared with one that it has
	}
	return got, nil
}

package campaign

import (
	"fmt"
	"slices"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/invariant"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/runner"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the way from an op of the configuration, or of the catalogue, to what a campaign runs.

// A subject is one op under test: its schema, what executes it, what it is compared with, and by which rules.
type subject struct {
	name   string
	schema *opspec.Schema
	// entry is the catalogue entry whose contract and bound apply; nil: none. names maps the schema's input names to
	// those of the entry where they differ.
	entry *oracle.Op
	names map[string]string

	candidate string // target of the runner; "": none, the op is executed by a client
	reference string // target of the runner, or builtin:NAME; "": none
	// launch, where set, is how the candidate is launched: a compiled kernel on the emulator.
	launch *runner.Launch
	// emulated: the candidate is a function whose launches the emulator executes.
	emulated bool
	// blocked, where set, is why no case of the subject can be executed here.
	blocked *blocked

	kwargs     opspec.Attrs   // given to candidate and reference beside the attributes of the case
	attrs      opspec.Attrs   // attributes that are not drawn
	most       map[string]int // largest sizes, by dimension
	invariants []string
	// guardInputs: a candidate that writes to its inputs fails, whether or not the invariant is asked for.
	guardInputs bool
	timeout     time.Duration
	memory      int64 // bytes; 0: half of the machine's
	env         []string
	raw         bool
	python      string

	dtypes []dtype.DType
	// ownDTypes says that the op takes no other dtypes than these.
	ownDTypes bool
	values    string
	shapes    string
	layouts   []tensor.Layout
	ranks     []int
	// planned are the dtypes that cases of a campaign have; nil outside one.
	planned []dtype.DType

	rules   rules
	workers int // of one comparison; 0: one per core
}

// blocked is a reason for not_run that holds for every case of a subject.
type blocked struct {
	reason    verdict.Reason
	msg, hint string
}

// rules say how outputs of a subject are judged.
type rules struct {
	regime             compare.Regime // unset: by the order of the specification
	tolerances         map[dtype.DType]compare.Tolerance
	calibrated         map[dtype.DType]compare.Tolerance
	checkNaN, checkInf bool
	nonFinite          compare.NonFinite
	// spread: the engine can evaluate the op's reference again, on other inputs and in other precisions.
	spread bool
	// errors: reports list the errors by magnitude.
	errors bool
}

// options returns the comparison rules for an output of type d. The order is that of the specification: the regime
// asked for; explicit tolerances; the bound of the catalogue; a stored calibration; the spread of the reference; the
// default of the dtype.
func (r *rules) options(d dtype.DType, caseType dtype.DType, hasBound bool) (compare.Options, error) {
	opt := compare.DefaultOptions()
	opt.Errors = r.errors
	opt.CheckNaN, opt.CheckInf, opt.NonFinite = r.checkNaN, r.checkInf, r.nonFinite
	fixed, isFixed := r.tolerances[caseType]
	calibrated, isCalibrated := r.calibrated[caseType]
	regime := r.regime
	if regime == compare.RegimeUnset {
		switch {
		case isFixed:
			regime = compare.Fixed
		case hasBound:
			regime = compare.Bound
		case isCalibrated:
			regime = compare.Calibrated
		case r.spread:
			regime = compare.Spread
		default:
			regime = compare.Fixed
		}
	}
	opt.Regime = regime
	switch regime {
	case compare.Bound:
		if !hasBound && d.IsFloat() {
			return opt, diag.Errorf(NoBound, `set tolerance = "fixed", or schema = "NAME" of the catalogue (gpuemu ops)`,
				"tolerance = \"bound\" needs an operator of the catalogue")
		}
	case compare.Calibrated:
		if !isCalibrated {
			return opt, diag.Errorf(NoCalibration, "run gpuemu calibrate first",
				"tolerance = \"calibrated\", and there is no calibration for %s", caseType)
		}
		switch {
		case d.IsFloat():
			opt.Tol = calibrated
		case hasBound:
			opt.Regime = compare.Bound
		default: // a tolerance that was fitted to numbers is none for integers
			opt.Regime, opt.Tol = compare.Fixed, compare.DefaultTolerance(d)
		}
	default:
		if regime == compare.Spread && !r.spread {
			return opt, diag.Errorf(NoSpread, `set reference = "file.py:function" or a script, or another tolerance`,
				"tolerance = \"spread\" needs a reference of the op's own")
		}
		opt.Tol = compare.DefaultTolerance(d)
		if isFixed && d.IsFloat() {
			opt.Tol = fixed
		}
	}
	return opt, nil
}

// genericSchema is the schema of an op that gives none: every input has the same three dimensions, as in the published
// fuzzer, in whatever number format is configured. Nothing is known of its outputs.
func genericSchema(name string, inputs []string) *opspec.Schema {
	if len(inputs) == 0 {
		inputs = []string{"input"}
	}
	s := &opspec.Schema{Name: name, DTypes: dtype.All(), Dims: []opspec.Dim{
		{Name: "B", Candidates: []int{1, 2, 4, 8}},
		{Name: "S", Candidates: []int{1, 16, 64}, Tile: 64},
		{Name: "H", Candidates: []int{64, 256, 512}, Tile: 256},
	}}
	for _, in := range inputs {
		s.Inputs = append(s.Inputs, opspec.Input{Name: in, Dims: []string{"B", "S", "H"}})
	}
	return s
}

// newSubject resolves one op of a configuration.
func newSubject(c *config.Config, op *config.Op) (*subject, error) {
	s := plainSubject(c, op)
	fail := func(err error) (*subject, error) { return nil, fmt.Errorf("op %q: %w", op.Name, err) }
	if err := s.chooseSchema(op); err != nil {
		return fail(err)
	}
	if s.schema.Name != s.name { // a case's text names the op of the configuration, not the schema it borrows
		own := *s.schema
		own.Name = s.name
		s.schema = &own
	}
	if err := s.chooseAttrs(op); err != nil {
		return fail(err)
	}
	if s.reference == "" && s.entry != nil {
		s.reference = "builtin:" + s.entry.Name
	}
	for _, text := range s.invariants {
		if _, err := invariant.Parse(text); err != nil {
			return fail(err)
		}
	}
	if err := s.checkBatchDims(); err != nil {
		return fail(err)
	}
	_, builtin := builtinName(s.reference)
	s.rules.spread = s.reference != "" && !builtin && !s.raw // raw floats are integers, which cannot be widened
	if s.emulated = op.EmulatesLaunches(); op.Mode == config.Emulate && !s.emulated {
		if err := s.emulate(op); err != nil {
			return fail(err)
		}
	}
	s.block(op)
	return s, nil
}

// plainSubject is a subject with the settings of the op and, where it has none, of [validation] and [project]: all that
// does not depend on its schema.
func plainSubject(c *config.Config, op *config.Op) *subject {
	s := &subject{
		guardInputs: !slices.Contains(op.InvariantsOff, "inputs_unchanged"),
		name:        op.Name, candidate: op.Executable(), reference: op.Reference,
		kwargs: opspec.Attrs{}, timeout: op.Timeout, memory: op.Memory, raw: op.Raw, python: op.Python,
		dtypes: c.DTypesOf(op), ownDTypes: len(op.DTypes) > 0, values: first(op.Values, c.Validation.Values),
		shapes: first(op.Shapes, c.Validation.Shapes), layouts: op.Layouts, invariants: op.Invariants, ranks: op.Ranks,
	}
	if len(s.ranks) == 0 {
		s.ranks = c.Validation.Ranks
	}
	if len(s.layouts) == 0 {
		s.layouts = c.Validation.Layouts
	}
	if s.python == "" {
		s.python = c.Project.Python
	}
	for name, value := range op.Env {
		s.env = append(s.env, name+"="+value)
	}
	slices.Sort(s.env)
	s.rules = rules{
		regime: op.Regime, tolerances: merged(c.Validation.Tolerances, op.Tolerances),
		checkNaN: c.Validation.CheckNaN, checkInf: c.Validation.CheckInf, nonFinite: c.Validation.NonFinite,
	}
	if s.rules.regime == compare.RegimeUnset {
		s.rules.regime = c.Validation.Regime
	}
	return s
}

// emulate makes the op's kernel the candidate. A kernel that is told no strides gets contiguous inputs.
func (s *subject) emulate(op *config.Op) error {
	l := &op.Kernel.Launch
	var err error
	if s.launch, err = runner.NewLaunch(l, s.schema, s.kwargs); err != nil {
		return err
	}
	if s.launch.TakesStrides() {
		return nil
	}
	for _, layout := range op.Layouts {
		if layout != tensor.Contiguous {
			return diag.Errorf(Layouts, "pass strides as x.strides[0], or leave layouts out",
				"layouts has %s, and the launch tells the kernel no strides", layout).At(s.launch.Grid[0].Pos)
		}
	}
	s.layouts = []tensor.Layout{tensor.Contiguous}
	return nil
}

// block notes why the subject's cases cannot be executed, if so.
func (s *subject) block(op *config.Op) {
	switch {
	case op.Mode == config.ClientSide || s.candidate == "":
		s.candidate = ""
		s.blocked = &blocked{verdict.NoCandidate, "nothing to execute is configured: the op runs on the client's side",
			`set candidate = "file.py:function", or run it from Python with fuzz_op_client_side`}
	case s.reference == "":
		s.blocked = &blocked{verdict.ReferenceFailed, "nothing to compare with is configured",
			`set reference = "file.py:function", a script, or "builtin:NAME" (gpuemu ops)`}
	}
}

// chooseSchema sets schema, entry and names.
func (s *subject) chooseSchema(op *config.Op) error {
	lookup := op.SchemaName
	if name, ok := builtinName(op.Reference); ok && lookup == "" && op.Schema == nil {
		lookup = name
	}
	switch {
	case op.Schema != nil:
		s.schema = op.Schema
		if name, ok := builtinName(op.Reference); ok {
			return s.useEntry(name, op.InputNames)
		}
		return nil
	case lookup != "":
		if err := s.useEntry(lookup, op.InputNames); err != nil {
			return err
		}
		return nil
	}
	// The op's own name may be one of the catalogue. Where its inputs do not fit, it is another op of the same name.
	if _, ok := oracle.Lookup(op.Name); ok {
		if err := s.useEntry(op.Name, op.InputNames); err == nil {
			return nil
		}
		s.entry, s.names, s.schema = nil, nil, nil
	}
	s.schema = genericSchema(op.Name, op.InputNames)
	return nil
}

// useEntry takes the contract of a catalogue entry and, unless the subject has one, its schema, with the user's names
// of the inputs: a single input matches under any name, several must have the catalogue's.
func (s *subject) useEntry(name string, inputs []string) error {
	entry, ok := oracle.Lookup(name)
	if !ok {
		return diag.Errorf(UnknownOp, diag.Suggest(name, oracle.Names(), "gpuemu ops lists the catalogue"),
			"the catalogue has no operator %q", name)
	}
	s.entry = entry
	own := s.schema != nil
	if !own {
		s.schema = entry.Schema
	} else if len(inputs) == 0 {
		for _, in := range s.schema.Inputs {
			inputs = append(inputs, in.Name)
		}
	}
	if len(inputs) == 0 {
		return nil
	}
	var known []string
	for _, in := range entry.Schema.Inputs {
		known = append(known, in.Name)
	}
	if len(inputs) == 1 && len(known) == 1 {
		if inputs[0] != known[0] {
			s.names = map[string]string{inputs[0]: known[0]}
			if !own {
				renamed := *entry.Schema
				renamed.Inputs = slices.Clone(renamed.Inputs)
				renamed.Inputs[0].Name = inputs[0]
				s.schema = &renamed
			}
		}
		return nil
	}
	given := slices.Clone(inputs)
	slices.Sort(given)
	slices.Sort(known)
	if !slices.Equal(given, known) {
		return diag.Errorf(InputNames, "use the catalogue's names, or give the op a schema of its own ([ops.schema])",
			"input_names are %q, %s takes %q", inputs, entry.Name, known)
	}
	return nil
}

// chooseAttrs splits attributes and kwargs: those of the schema fix what is otherwise drawn, the rest is passed on.
func (s *subject) chooseAttrs(op *config.Op) error {
	s.attrs, s.most = opspec.Attrs{}, op.MaxSizes
	for name, value := range op.Attributes {
		attr, ok := s.schema.Attr(name)
		if !ok {
			var known []string
			for i := range s.schema.Attrs {
				known = append(known, s.schema.Attrs[i].Name)
			}
			return diag.Errorf(UnknownAttr, diag.Suggest(name, known, "kwargs takes names the schema does not have"),
				"attribute %q: %s has none of that name", name, s.schema.Name)
		}
		v, err := attr.Normal(value)
		if err != nil {
			return fmt.Errorf("attribute %q: %w", name, err)
		}
		s.attrs[name] = v
	}
	for name, value := range op.Kwargs {
		if attr, ok := s.schema.Attr(name); ok {
			v, err := attr.Normal(value)
			if err != nil {
				return fmt.Errorf("kwargs %q: %w", name, err)
			}
			s.attrs[name] = v
			continue
		}
		s.kwargs[name] = value
	}
	return nil
}

// strategy returns the subject's own strategy, restricted by what a request asks for.
func (s *subject) strategy(o *Options) gen.Strategy {
	st := gen.Strategy{
		Shapes: first(o.Shapes, s.shapes), Values: first(o.Values, s.values), Layouts: s.layouts, DTypes: s.drawn(),
		FiniteOnly: s.rules.nonFinite == compare.Forbid, Attrs: s.attrs, Dims: o.Dims, Most: s.most,
		Ranks: s.ranks,
	}
	if len(o.Ranks) > 0 {
		st.Ranks = o.Ranks
	}
	if len(o.Layouts) > 0 {
		st.Layouts = o.Layouts
	}
	if len(o.DTypes) > 0 {
		st.DTypes = o.DTypes
	}
	return st
}

// drawn are the dtypes that cases are drawn from: those of the subject. Where they are the ones for all ops, and the op
// takes none of them, it is gen that chooses: an op of integers alone is still tested.
func (s *subject) drawn() []dtype.DType {
	allowed := s.schema.AllowedDTypes()
	if s.ownDTypes || slices.ContainsFunc(s.dtypes, func(d dtype.DType) bool { return slices.Contains(allowed, d) }) {
		return s.dtypes
	}
	return nil
}

// types returns the dtypes that a run over every dtype covers, in the order asked for. explicit says that a person
// asked for them, not a default.
func (s *subject) types(asked []dtype.DType, explicit bool) []dtype.DType {
	if len(asked) == 0 {
		asked = s.dtypes
	}
	if len(asked) == 0 {
		asked = []dtype.DType{dtype.Float32, dtype.Float16}
	}
	allowed := s.schema.AllowedDTypes()
	var out []dtype.DType
	for _, d := range asked {
		if slices.Contains(allowed, d) && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	switch {
	case len(out) > 0:
		return out
	case explicit || s.ownDTypes:
		return asked // another one would be no answer; gen says what is wrong
	}
	return allowed[:1] // an op of integers alone is still tested
}

// quickTypes returns the dtypes of a quick run: those of [ci.quick], unless the op has a list of its own and none of
// them is in it. What an op does not take is no test of it.
func (s *subject) quickTypes(quick []dtype.DType) []dtype.DType {
	if !s.ownDTypes {
		return quick
	}
	var out []dtype.DType
	for _, d := range quick {
		if slices.Contains(s.dtypes, d) {
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		out = s.dtypes[:1]
	}
	return out
}

// builtinName splits builtin:NAME.
func builtinName(target string) (string, bool) {
	const prefix = "builtin:"
	if len(target) > len(prefix) && target[:len(prefix)] == prefix {
		return target[len(prefix):], true
	}
	return "", false
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// merged returns base with the entries of over.
func merged(base, over map[dtype.DType]compare.Tolerance) map[dtype.DType]compare.Tolerance {
	out := make(map[dtype.DType]compare.Tolerance, len(base)+len(over))
	for _, m := range []map[dtype.DType]compare.Tolerance{base, over} {
		for d, t := range m {
			out[d] = t
		}
	}
	return out
}

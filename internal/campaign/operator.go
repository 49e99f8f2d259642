package campaign

import (
	"strings"

	"gpuemu/internal/compare"
	"gpuemu/internal/config"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/gen"
	"gpuemu/internal/opspec"
	"gpuemu/internal/oracle"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// This file implements the one way from the name of an op to what it means: configuration first, then the catalogue.
// Campaigns, replays, hand-outs, coverage, and the commands cases, ops and oracle all go through resolveSubject.

// Operator is an op as configuration and catalogue together define it.
type Operator struct {
	Name       string         // of the configuration or the catalogue, also where an alias was asked for
	Configured bool           // in gpuemu.toml; false: the catalogue alone knows it, or a schema of the caller
	Schema     *opspec.Schema // cases are generated from it; its inputs have the names of the configuration
	Entry      *oracle.Op     // whose contract and bound apply; nil: none of the catalogue
	Candidate  string         // as configured; "": none
	Reference  string         // as configured, or builtin:NAME; "": none
	DTypes     []dtype.DType  // that cases are drawn from
	Layouts    []tensor.Layout
	Values     string       // value distribution
	Attrs      opspec.Attrs // attributes that are not drawn

	subject *subject
	seed    uint64
}

// Resolve returns the op of that name: the one that the configuration has, else the catalogue's with the settings of
// [validation]. cfg nil is an empty configuration. Where neither has it, the error has the code UnknownOp.
func Resolve(cfg *config.Config, name string) (*Operator, error) {
	s, err := resolveSubject(cfg, name)
	if err != nil {
		return nil, err
	}
	return newOperator(cfg, s), nil
}

// ResolveSchema returns an op of which the caller has the schema, with the settings of [validation].
func ResolveSchema(cfg *config.Config, schema *opspec.Schema) *Operator {
	return newOperator(cfg, schemaSubject(cfg, schema.Name, schema))
}

func newOperator(cfg *config.Config, s *subject) *Operator {
	st := s.strategy(&Options{})
	o := &Operator{Name: s.schema.Name, Schema: s.schema, Entry: s.entry, Candidate: s.candidate, Reference: s.reference,
		DTypes: s.types(nil, false), Layouts: st.Layouts, Values: st.Values, Attrs: s.attrs, subject: s,
		seed: masterSeed(cfg, &Options{})}
	if cfg != nil {
		for _, op := range cfg.Subjects() {
			if op.Name == s.name { // also where it is blocked: the candidate of a client's op is named, not executed
				o.Configured, o.Candidate = true, op.Executable()
			}
		}
	}
	return o
}

// Cases returns the cases that a fuzz campaign with the same options runs, and that a client is handed out. Attributes
// that are given as text are not drawn. Without a seed it is that of [validation], else 1.
func (o *Operator) Cases(opt *Options, attrs map[string]string) (*gen.Stream, error) {
	own := *o.subject
	if err := own.fix(attrs); err != nil {
		return nil, err
	}
	seed := o.seed
	if opt.Seed != nil {
		seed = *opt.Seed
	}
	return gen.Cases(own.schema, own.strategy(opt), seed)
}

// Judged returns how an output of type d is compared, stored calibrations aside.
func (o *Operator) Judged(d dtype.DType) (compare.Options, error) {
	return o.subject.rules.options(d, d, o.Entry != nil)
}

// EntryInput returns the name that the catalogue has for an input of the op.
func (o *Operator) EntryInput(name string) string { return first(o.subject.names[name], name) }

// resolveSubject finds one op by name: in the configuration, then in the catalogue.
func resolveSubject(cfg *config.Config, name string) (*subject, error) {
	var known []string
	if cfg != nil {
		for _, op := range cfg.Subjects() {
			if op.Name == name {
				return newSubject(cfg, op)
			}
			known = append(known, op.Name)
		}
	}
	s, ok := catalogueSubject(cfg, name)
	if !ok {
		otherwise := "gpuemu ops lists the catalogue"
		if len(known) > 0 {
			otherwise = "configured are: " + strings.Join(known, ", ")
		}
		return nil, diag.Errorf(UnknownOp, diag.Suggest(name, append(known, oracle.Names()...), otherwise),
			"there is no op %q, neither in the configuration nor in the catalogue", name)
	}
	s.blocked = &blocked{verdict.NoCandidate,
		"nothing to execute is configured: the catalogue has references, not kernels",
		`add [[ops]] with name and candidate = "file.py:function" to gpuemu.toml`}
	return s, nil
}

// catalogueSubject is the subject of an op that only the catalogue knows.
func catalogueSubject(cfg *config.Config, name string) (*subject, bool) {
	entry, ok := oracle.Lookup(name)
	if !ok {
		return nil, false
	}
	s := schemaSubject(cfg, name, entry.Schema)
	s.entry, s.reference = entry, "builtin:"+entry.Name
	return s, true
}

// schemaSubject is the subject of an op of which the configuration says nothing but what it says of all ops.
func schemaSubject(cfg *config.Config, name string, schema *opspec.Schema) *subject {
	if cfg == nil {
		cfg = config.Default()
	}
	s := plainSubject(cfg, &config.Op{Name: name})
	s.schema = schema
	return s
}

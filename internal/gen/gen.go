// Package gen makes cases from seeds and inputs from cases.
//
// A case is a function of (schema, strategy, master seed, index) alone, and the bytes of its inputs are a function
// of the case's text and the schema alone: the same on every machine, in any order of calls, with any number of
// goroutines. Each random choice draws from its own stream, named after what is chosen ("v1/dim/M",
// "v1/values/weight") and derived from the case's seed, so that adding an input or a dimension changes no other.
// Values are computed with exact operations and internal/libm only.
//
// The main types are Strategy and Stream; Inputs regenerates what a case describes. FuzzConfig generates what the
// published fuzzer generates, bit for bit. Which operators exist and what their outputs should be is not the
// business of this package.
package gen

// This file implements the choice of cases.

import (
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// DefaultMaxElems is the largest number of elements of a generated tensor unless a strategy says otherwise: large
// enough for several tiles along every axis, small enough for a thousand cases a minute.
const DefaultMaxElems = 1 << 20

// Strategy says how to choose cases. The zero value is the documented default.
type Strategy struct {
	Shapes   string          // "": default; see ShapeStrategies
	Values   string          // "": mixed; see ValueDistributions
	Layouts  []tensor.Layout // nil: contiguous, strided, transposed
	DTypes   []dtype.DType   // nil: float32 and float16, or what the operator takes if neither
	MaxElems int             // per tensor; 0: DefaultMaxElems
	// FiniteOnly leaves out NaN and infinities. The case says so with "/finite" after the distribution.
	FiniteOnly bool
	Attrs      opspec.Attrs // attributes that are not drawn
	// Ranks are drawn for the tensors that may have any: see opspec.Ranks. Nil: all have those of their dims.
	Ranks []int
	// Dims lists, for some dimensions, the only sizes they get, whatever Shapes says.
	Dims map[string][]int
	// Most has, for some dimensions, the largest size they get.
	Most map[string]int
}

// Named is a name with one sentence on what it is for.
type Named struct{ Name, Doc string }

// Stream is an endless sequence of cases. It is never changed after Cases and may be used by several goroutines.
type Stream struct {
	schema   *opspec.Schema
	prog     *opspec.Program
	strategy Strategy
	master   uint64
	dtypes   []dtype.DType
	shapes   shaper
}

// Cases checks schema and strategy and returns the sequence of cases they give with that master seed.
func Cases(s *opspec.Schema, st Strategy, master uint64) (*Stream, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	prog, err := s.Compile()
	if err != nil {
		return nil, err
	}
	if st.Shapes == "" {
		st.Shapes = "default"
	}
	if st.Values == "" {
		st.Values = mixed
	}
	if st.Values != mixed && !slices.ContainsFunc(distributions[:],
		func(d distribution) bool { return d.Name == st.Values }) {
		return nil, diag.Errorf(UnknownDistribution, hintNames(ValueDistributions()), "unknown value distribution %q",
			st.Values)
	}
	if st.Layouts == nil {
		st.Layouts = []tensor.Layout{tensor.Contiguous, tensor.Strided, tensor.Transposed}
	}
	if len(st.Layouts) == 0 || slices.ContainsFunc(st.Layouts, func(l tensor.Layout) bool {
		return !slices.Contains(tensor.Layouts(), l)
	}) {
		return nil, diag.Errorf(BadStrategy, "", "layouts: got %v, want at least one, each a real layout", st.Layouts)
	}
	if st.MaxElems == 0 {
		st.MaxElems = DefaultMaxElems
	}
	if st.MaxElems < 0 || st.MaxElems > tensor.MaxElems {
		return nil, diag.Errorf(BadStrategy, "", "max elements: got %d, want 1..%d", st.MaxElems, tensor.MaxElems)
	}
	if err := checkRanks(st.Ranks); err != nil {
		return nil, err
	}
	if st.Attrs, err = normalAttrs(s, st.Attrs); err != nil {
		return nil, err
	}
	if err := checkWeights(s); err != nil {
		return nil, err
	}
	c := &Stream{schema: s, prog: prog, strategy: st, master: master}
	if c.dtypes, err = allowedDTypes(s, st.DTypes); err != nil {
		return nil, err
	}
	c.shapes, err = newShaper(s, prog, st)
	return c, err
}

// normalAttrs checks attributes that are not drawn and brings them into the types that cases have.
func normalAttrs(s *opspec.Schema, given opspec.Attrs) (opspec.Attrs, error) {
	out := make(opspec.Attrs, len(given))
	for name := range given {
		if _, ok := s.Attr(name); !ok {
			return nil, diag.Errorf(BadStrategy, "", "operator %q has no attribute %q", s.Name, name)
		}
	}
	for i := range s.Attrs {
		a := &s.Attrs[i]
		if v, ok := given[a.Name]; ok {
			n, err := a.Normal(v)
			if err != nil {
				return nil, err
			}
			out[a.Name] = n
		}
	}
	return out, nil
}

// checkWeights refuses unknown names among the rare and frequent distributions of inputs.
func checkWeights(s *opspec.Schema) error {
	for i := range s.Inputs {
		in := &s.Inputs[i]
		for _, name := range slices.Concat(in.Rare, in.Often) {
			if d, finite := findDistribution(name); d == nil || d.Doc == "" || finite {
				return diag.Errorf(UnknownDistribution, hintNames(ValueDistributions()[1:]),
					"input %q: rare, often: unknown value distribution %q", in.Name, name)
			}
		}
	}
	return nil
}

func hintNames(list []Named) string {
	names := make([]string, len(list))
	for i, n := range list {
		names[i] = n.Name
	}
	return "use one of " + strings.Join(names, ", ")
}

// allowedDTypes returns the dtypes of want that the operator takes, in the order of want.
func allowedDTypes(s *opspec.Schema, want []dtype.DType) ([]dtype.DType, error) {
	allowed := s.AllowedDTypes()
	ask := want
	if want == nil {
		ask = []dtype.DType{dtype.Float32, dtype.Float16}
	}
	var out []dtype.DType
	for _, d := range ask {
		if slices.Contains(allowed, d) {
			out = append(out, d)
		}
	}
	if len(out) == 0 && want == nil {
		out = allowed
	}
	if len(out) == 0 {
		return nil, diag.Errorf(NoDType, "it takes "+joinDTypes(allowed), "operator %q takes none of the dtypes %s",
			s.Name, joinDTypes(want))
	}
	return out, nil
}

func joinDTypes(list []dtype.DType) string {
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.String()
	}
	return strings.Join(names, ", ")
}

// CaseSeed returns the seed of case i of an operator under a master seed.
func CaseSeed(master uint64, op string, i int) uint64 {
	return rng.DeriveSeed(master, "case/v1/"+op+"/"+strconv.Itoa(i))
}

// Case returns case i, counted from 0. It depends on schema, strategy, master seed and i alone.
func (s *Stream) Case(i int) (opspec.Case, error) {
	if i < 0 {
		return opspec.Case{}, diag.Errorf(BadStrategy, "", "case %d: want an index of at least 0", i)
	}
	root := rng.New(CaseSeed(s.master, s.schema.Name, i))
	out := opspec.Case{Op: s.schema.Name, Seed: root.Seed(), Gen: opspec.GenVersion}
	out.DType = s.dtypes[pick(root, "v1/dtype", "", len(s.dtypes))]
	choice, err := s.shapes.choose(root)
	if err != nil {
		return opspec.Case{}, err
	}
	for k := range s.schema.Dims {
		if d := &s.schema.Dims[k]; !d.Derived() {
			out.Dims = append(out.Dims, opspec.DimValue{Name: d.Name, Value: choice.dims[d.Name]})
		}
	}
	out.Attrs = s.schema.CaseAttrs(choice.attrs)
	for k := range s.schema.Inputs {
		in := &s.schema.Inputs[k]
		elem, err := in.ElemType(out.DType, choice.attrs)
		if err != nil {
			return opspec.Case{}, err
		}
		layouts := s.strategy.Layouts
		out.Inputs = append(out.Inputs, opspec.CaseInput{
			Name: in.Name, DType: elem, Shape: choice.inputs[in.Name],
			Layout: layouts[pick(root, "v1/layout/", in.Name, len(layouts))],
			Values: s.values(root, in, elem),
		})
	}
	out = s.spread(root, out, choice.attrs)
	for k := range out.Inputs { // of the shape that it has now
		in := &out.Inputs[k]
		in.Layout = effectiveLayout(in.Layout, in.Shape, &s.schema.Inputs[k])
	}
	return out, nil
}

// pick draws one of n from a stream of its own. Of one there is nothing to draw: no other stream depends on it.
func pick(root *rng.RNG, domain, name string, n int) int {
	if n == 1 {
		return 0
	}
	return root.Derive(domain + name).Intn(n)
}

// values returns the concrete distribution of an input.
func (s *Stream) values(root *rng.RNG, in *opspec.Input, elem dtype.DType) string {
	if name := roleDistribution(in, elem); name != "" {
		return name
	}
	const domain = "v1/dist/"
	name := s.strategy.Values
	switch {
	case name == mixed && in.Factor && pick(root, "v1/factors", "", factorCases) == 0:
		name = factorValues
	case name == mixed:
		name = drawMixed(root, root.Derive(domain+in.Name), in)
	case (in.Role == opspec.RoleWeight || slices.Contains(in.Rare, name)) && pick(root, domain, in.Name, 4) != 0:
		name = "normal" // weights far from usual hide what the data would show
	}
	if d, _ := findDistribution(name); d != nil && d.nonFinite && s.strategy.FiniteOnly {
		name += finiteSuffix
	}
	return name
}

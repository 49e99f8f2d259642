// Package opspec describes operators and cases as data: which named dimensions an operator has, how its
// inputs, outputs and attributes depend on them, and one concrete choice of all of these (a Case).
//
// It is neither the catalogue of operators with their references (package oracle) nor the choice of
// dimensions and values from a seed (package gen). Main types are Schema, which comes from Go literals or
// from JSON, and Case, which has one canonical line of text. A Schema that passed Validate can be resolved,
// bound and generated from without further checks; nothing in this package mutates a Schema.
package opspec

// This file implements the types of a schema.

import (
	"slices"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// Limits of a schema. They are far above any operator known to us and keep a hostile schema from costing
// noticeable time or memory.
const (
	MaxSchemaBytes = 1 << 20 // bytes of JSON
	MaxDims        = 64
	MaxInputs      = 64
	MaxOutputs     = 16
	MaxAttrs       = 64
	MaxRelations   = 64
	MaxRare        = 32      // distributions of an input: more than there are
	MaxCandidates  = 1024    // per dimension; also attribute values
	MaxNameLen     = 128     // bytes of any name
	MaxDocLen      = 1 << 14 // bytes of any doc text or attribute string
	MaxDimValue    = 1 << 31 // tensor.MaxElems: no dimension of a representable tensor is larger
)

// Dim is one named dimension. A dimension is either free (chosen by a generator or read off given inputs) or
// derived from others by Expr.
//
// Candidates, Min, Max and Tile say what generators draw; they do not restrict what an operator accepts: such
// restrictions are Relations. The exception is size 0, which is refused unless the dimension is marked Empty.
type Dim struct {
	Name       string
	Candidates []int  // what the shape strategy "default" draws from
	Min, Max   int    // generated values stay within; Max 0: no upper limit
	Tile       int    // usual block size of kernels along this dimension; 0: unknown
	Empty      bool   // size 0 is meaningful
	Reduced    bool   // kernels loop over it for one result (a sum, a maximum, a normalized row): sometimes drawn long
	Batch      bool   // rows along it do not depend on each other; it stands alone in shapes
	Expr       string // derived, e.g. "(H+2*pad-KH)/stride+1"; excludes all of the above except Empty
}

// Derived reports whether the dimension follows from others.
func (d *Dim) Derived() bool { return d.Expr != "" }

// AllowsEmpty reports whether the dimension may be 0: marked so, or 0 is one of its own candidates.
func (d *Dim) AllowsEmpty() bool {
	if d.Empty {
		return true
	}
	for _, c := range d.Candidates {
		if c == 0 {
			return true
		}
	}
	return false
}

// BatchDims returns the names of the dimensions marked Batch.
func (s *Schema) BatchDims() []string {
	var names []string
	for i := range s.Dims {
		if s.Dims[i].Batch {
			names = append(names, s.Dims[i].Name)
		}
	}
	return names
}

// Role says what an input is used for, hence which values make sense for it.
type Role uint8

const (
	RoleData        Role = iota // anything in the domain
	RoleWeight                  // learned parameters: moderate values mostly
	RoleIndex                   // integers in [0, Domain.Below)
	RoleMask                    // booleans; whole rows may be true or false
	RoleProbability             // values in [0, 1]
	RoleScale                   // positive quantisation scales
)

var roleNames = [...]string{"data", "weight", "index", "mask", "probability", "scale"}

// String returns the name of the role as written in JSON.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "invalid"
}

// ParseRole returns the role of that name.
func ParseRole(name string) (Role, error) {
	for i, n := range roleNames {
		if n == name {
			return Role(i), nil
		}
	}
	return 0, diag.Errorf(SchemaInvalid, suggest(name, roleNames[:]), "unknown role %q", name)
}

// Domain restricts the values of an input. Nothing outside of it is generated.
type Domain struct {
	// Min and Max: both 0 means every value, NaN and infinities included; use infinities for half-open ranges. An
	// input with bounds gets finite values only: NaN is not within any.
	Min, Max float64
	Finite   bool // no NaN and no infinity
	NonZero  bool
	Below    string // role index: values are in [0, Below), a dimension expression
	Distinct bool   // role index: no value twice within a row (last axis)
	Counts   bool   // role index: values are lengths, of which 0 is valid and rare
}

// Bounded reports whether Min and Max apply.
func (d *Domain) Bounded() bool { return d.Min != 0 || d.Max != 0 }

// Input is one operand of the operator.
type Input struct {
	Name   string
	Dims   []string // dimension names, integers or expressions
	Role   Role
	DType  string // "": the case's dtype; AttrDType with a name; else fixed, e.g. "int64"
	Domain Domain
	// Factor: scores are products of this input with another one so marked; generators sometimes draw both large and of
	// one sign each.
	Factor bool
	// Rare lists value distributions that say little about this input, so that generators draw them rarely.
	Rare []string
	// Often lists value distributions that say much about this input, so that generators draw them often.
	Often []string
}

// ElemType returns the dtype of the input in a case of dtype d with all its attributes.
func (in *Input) ElemType(d dtype.DType, attrs Attrs) (dtype.DType, error) {
	if in.DType == "" {
		return d, nil
	}
	if name, ok := strings.CutPrefix(in.DType, AttrDType); ok {
		return dtype.Parse(attrs.Str(name))
	}
	return dtype.Parse(in.DType)
}

// AccDType is the Output.DType that means "the accumulation type": float64 for float64, else float32.
const AccDType = "acc"

// AttrDType begins a DType of an input or output that is the value of a string attribute: "attr:out_dtype".
const AttrDType = "attr:"

// Output is one result of the operator.
type Output struct {
	Name     string
	Dims     []string
	Variants []Variant // other dims than Dims, under a condition; the first that holds counts
	DType    string    // "": the case's dtype; AccDType; AttrDType with a name; or a fixed dtype
	// AlsoDTypes are integer types that a candidate may return instead of an integer DType, as int32 indexes in place of
	// int64 ones. The values are the same numbers.
	AlsoDTypes []string
	Ties       string // index outputs: "" or "any": every tied index is right; "first": only the first
	Saturate   bool   // conversion to DType saturates instead of overflowing
}

// Variant is the shape of an output where a string attribute has a value: of a loss whose "reduction" is "mean", no
// dimensions at all.
type Variant struct {
	Attr  string   `json:"attr"`
	Value string   `json:"value"`
	Dims  []string `json:"dims"`
}

// variant returns the index of the variant that attributes choose, or -1.
func (o *Output) variant(attrs Attrs) int {
	return slices.IndexFunc(o.Variants, func(v Variant) bool { return attrs.Str(v.Attr) == v.Value })
}

// DimsOf returns the dims of the output under attributes.
func (o *Output) DimsOf(attrs Attrs) []string {
	if i := o.variant(attrs); i >= 0 {
		return o.Variants[i].Dims
	}
	return o.Dims
}

// Alternatives returns AlsoDTypes. A schema that passed Validate has no others.
func (o *Output) Alternatives() []dtype.DType {
	var out []dtype.DType
	for _, name := range o.AlsoDTypes {
		if d, err := dtype.Parse(name); err == nil {
			out = append(out, d)
		}
	}
	return out
}

// ElemType returns the dtype of the output in a case of dtype d with all its attributes.
func (o *Output) ElemType(d dtype.DType, attrs Attrs) (dtype.DType, error) {
	name, byAttr := strings.CutPrefix(o.DType, AttrDType)
	switch {
	case byAttr:
		return dtype.Parse(attrs.Str(name))
	case o.DType == "":
		return d, nil
	case o.DType == AccDType:
		if d == dtype.Float64 {
			return dtype.Float64, nil
		}
		return dtype.Float32, nil
	}
	return dtype.Parse(o.DType)
}

// AttrKind is the type of an attribute.
type AttrKind uint8

const (
	KindUnset AttrKind = iota // taken from the default value
	Int
	Float
	Bool
	String
)

var kindNames = [...]string{"unset", "int", "float", "bool", "string"}

// String returns the name of the kind as written in JSON.
func (k AttrKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// Attr is one scalar parameter of the operator.
type Attr struct {
	Name    string
	Kind    AttrKind // KindUnset: the type of Default (or of Values[0])
	Default any      // nil: Values[0]
	Values  []any    // what gen draws from, first = default; kind String: also all that is allowed
	Fixed   bool     // chooses a contract, not a case: generators keep the default
	Quiet   bool     // left out of the text of a case where it has its default
	Doc     string
}

// Schema describes one operator.
type Schema struct {
	Name, Doc string
	Dims      []Dim
	Relations []string // e.g. "HQ % HKV == 0"; all hold in every valid case
	Usual     []string // relations that most generated cases fulfil, e.g. "N >= M"; others are valid, too
	Inputs    []Input
	Outputs   []Output
	Attrs     []Attr
	DTypes    []dtype.DType // allowed for a case; nil: all floats
	Ranks     Ranks         // shapes that inputs and outputs may have beside those of their dims
	NaN       string        // "": NaN propagates; "ignore"
}

// AllowedDTypes returns the dtypes a case of this schema may have.
func (s *Schema) AllowedDTypes() []dtype.DType {
	if len(s.DTypes) == 0 {
		return dtype.Floats()
	}
	return s.DTypes
}

// Dim returns the dimension of that name.
func (s *Schema) Dim(name string) (*Dim, bool) {
	for i := range s.Dims {
		if s.Dims[i].Name == name {
			return &s.Dims[i], true
		}
	}
	return nil, false
}

// Input returns the input of that name.
func (s *Schema) Input(name string) (*Input, bool) {
	for i := range s.Inputs {
		if s.Inputs[i].Name == name {
			return &s.Inputs[i], true
		}
	}
	return nil, false
}

// Attr returns the attribute of that name.
func (s *Schema) Attr(name string) (*Attr, bool) {
	for i := range s.Attrs {
		if s.Attrs[i].Name == name {
			return &s.Attrs[i], true
		}
	}
	return nil, false
}

// Package dtype implements the number formats of tensors, bit for bit: names, limits, conversions and distances.
//
// The main type is DType. Values travel as bit patterns (uint64, the element's bits in the low end) or as
// little-endian bytes; float64 is the common exact carrier, because every value of every format but the 64-bit
// integers is a float64.
//
// Invariants, each checked against exact big-number arithmetic in the tests:
//   - Decoding is exact; 64-bit integers go to the nearest float64, ties to even.
//   - Encoding rounds the source once, to nearest, ties to even, whatever the source is.
//   - Results do not depend on the CPU: subnormals are kept, nothing is fused, and NaNs follow one rule.
//
// The NaN rule (IEEE 754-2019, clause 6.2.3): a conversion between two formats makes a NaN quiet, keeps its sign and
// keeps as many leading payload bits as fit. float8_e4m3fn has one NaN per sign. Encoding into the source's own
// format copies the bits. Arithmetic and shapes are not the business of this package.
package dtype

// This file implements the list of formats, their names and their kinds.

import (
	"fmt"
	"strings"
)

// DType is a number format. The zero value is Invalid and never a format.
type DType uint8

// The formats. The order is fixed: it is the order of All and of every table in a report.
const (
	Invalid      DType = iota
	Float64            // IEEE 754 binary64
	Float32            // IEEE 754 binary32
	Float16            // IEEE 754 binary16
	BFloat16           // the upper half of binary32
	Float8E4M3FN       // OCP OFP8 E4M3: no infinities, one NaN per sign, largest value 448
	Float8E5M2         // OCP OFP8 E5M2: the upper half of binary16
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Bool // one byte, 0 or 1; any other byte reads as 1
	numDTypes
)

type kind uint8

const (
	kindInvalid kind = iota
	kindFloat
	kindInt
	kindUint
	kindBool
)

var infos = [numDTypes]struct {
	name string
	size int
	kind kind
}{
	Invalid:      {"invalid", 0, kindInvalid},
	Float64:      {"float64", 8, kindFloat},
	Float32:      {"float32", 4, kindFloat},
	Float16:      {"float16", 2, kindFloat},
	BFloat16:     {"bfloat16", 2, kindFloat},
	Float8E4M3FN: {"float8_e4m3fn", 1, kindFloat},
	Float8E5M2:   {"float8_e5m2", 1, kindFloat},
	Int8:         {"int8", 1, kindInt},
	Int16:        {"int16", 2, kindInt},
	Int32:        {"int32", 4, kindInt},
	Int64:        {"int64", 8, kindInt},
	Uint8:        {"uint8", 1, kindUint},
	Uint16:       {"uint16", 2, kindUint},
	Uint32:       {"uint32", 4, kindUint},
	Uint64:       {"uint64", 8, kindUint},
	Bool:         {"bool", 1, kindBool},
}

// All returns every format, Float64 first.
func All() []DType {
	ds := make([]DType, 0, numDTypes-1)
	for d := Float64; d < numDTypes; d++ {
		ds = append(ds, d)
	}
	return ds
}

// Floats returns the floating-point formats, Float64 first.
func Floats() []DType {
	return []DType{Float64, Float32, Float16, BFloat16, Float8E4M3FN, Float8E5M2}
}

// NameError reports a name that Parse does not know.
type NameError struct{ Name string }

// Error quotes the name.
func (e *NameError) Error() string { return fmt.Sprintf("unknown dtype %q", e.Name) }

// Hint lists the names that are known; diag.HintOf finds it.
func (e *NameError) Hint() string {
	names := make([]string, 0, numDTypes-1)
	for _, d := range All() {
		names = append(names, d.String())
	}
	return "use one of " + strings.Join(names, ", ")
}

// Parse returns the format of a name: what String returns, or a short form such as f16, bf16, e4m3, u8, half. Names
// are lower case. The error is a *NameError.
func Parse(name string) (DType, error) {
	switch name {
	case "float64", "f64", "double":
		return Float64, nil
	case "float32", "f32", "float":
		return Float32, nil
	case "float16", "f16", "half":
		return Float16, nil
	case "bfloat16", "bf16":
		return BFloat16, nil
	case "float8_e4m3fn", "float8_e4m3", "e4m3fn", "e4m3":
		return Float8E4M3FN, nil
	case "float8_e5m2", "e5m2":
		return Float8E5M2, nil
	case "int8", "i8":
		return Int8, nil
	case "int16", "i16":
		return Int16, nil
	case "int32", "i32":
		return Int32, nil
	case "int64", "i64":
		return Int64, nil
	case "uint8", "u8":
		return Uint8, nil
	case "uint16", "u16":
		return Uint16, nil
	case "uint32", "u32":
		return Uint32, nil
	case "uint64", "u64":
		return Uint64, nil
	case "bool":
		return Bool, nil
	}
	return Invalid, &NameError{Name: name}
}

// String returns the long name, as PyTorch and NumPy spell it.
func (d DType) String() string {
	if d >= numDTypes {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return infos[d].name
}

// MarshalText returns the long name; Invalid and unknown values are errors.
func (d DType) MarshalText() ([]byte, error) {
	if d == Invalid || d >= numDTypes {
		return nil, &NameError{Name: d.String()}
	}
	return []byte(d.String()), nil
}

// UnmarshalText is Parse.
func (d *DType) UnmarshalText(text []byte) error {
	v, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// Size returns the bytes of one element, 0 for Invalid.
func (d DType) Size() int {
	if d >= numDTypes {
		return 0
	}
	return infos[d].size
}

func (d DType) kind() kind {
	if d >= numDTypes {
		return kindInvalid
	}
	return infos[d].kind
}

// IsFloat reports whether d is a floating-point format.
func (d DType) IsFloat() bool { return d.kind() == kindFloat }

// IsInteger reports whether d is a signed or unsigned integer. Bool is not an integer.
func (d DType) IsInteger() bool { return d.kind() == kindInt || d.kind() == kindUint }

// IsSigned reports whether d has negative values.
func (d DType) IsSigned() bool { return d.kind() == kindFloat || d.kind() == kindInt }

// This file implements attribute values: their normal form, accessors and parsing from text.

package opspec

import (
	"errors"
	"math"
	"sort"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
)

// Attrs are the attribute values of one case by name: int64, float64, bool or string.
type Attrs map[string]any

// Int returns an integer attribute; 0 if there is none of that name and kind.
func (a Attrs) Int(name string) int {
	switch v := a[name].(type) {
	case int64:
		return int(v)
	case int:
		return v
	}
	return 0
}

// Float returns a float attribute (an integer is converted); 0 if there is none of that name and kind.
func (a Attrs) Float(name string) float64 {
	switch v := a[name].(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	case int:
		return float64(v)
	}
	return 0
}

// Bool returns a boolean attribute; false if there is none of that name and kind.
func (a Attrs) Bool(name string) bool {
	v, _ := a[name].(bool)
	return v
}

// Str returns a string attribute; "" if there is none of that name and kind.
func (a Attrs) Str(name string) string {
	v, _ := a[name].(string)
	return v
}

// intValue returns the value of an attribute as expressions see it: integers, and booleans as 0 and 1.
func (a Attrs) intValue(name string) (int64, bool) {
	switch v := a[name].(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// EffectiveKind returns the attribute's kind, taken from its default where it is not set.
func (a *Attr) EffectiveKind() AttrKind {
	if a.Kind != KindUnset {
		return a.Kind
	}
	v := a.Default
	if v == nil && len(a.Values) > 0 {
		v = a.Values[0]
	}
	switch v.(type) {
	case int, int64:
		return Int
	case float64:
		return Float
	case bool:
		return Bool
	case string:
		return String
	}
	return KindUnset
}

// DefaultValue returns the default in normal form (int64, float64, bool or string).
func (a *Attr) DefaultValue() any {
	v := a.Default
	if v == nil && len(a.Values) > 0 {
		v = a.Values[0]
	}
	n, ok := normalValue(a.EffectiveKind(), v)
	if !ok {
		return zeroOf(a.EffectiveKind())
	}
	return n
}

// NormalValues returns what a generator may draw in normal form: Values, or the default alone where there are none
// or the attribute is Fixed.
func (a *Attr) NormalValues() []any {
	if len(a.Values) == 0 || a.Fixed {
		return []any{a.DefaultValue()}
	}
	out := make([]any, 0, len(a.Values))
	for _, v := range a.Values {
		if n, ok := normalValue(a.EffectiveKind(), v); ok {
			out = append(out, n)
		}
	}
	return out
}

func zeroOf(k AttrKind) any {
	switch k {
	case Int:
		return int64(0)
	case Float:
		return float64(0)
	case Bool:
		return false
	case String:
		return ""
	}
	return nil
}

// normalValue converts v to the Go type of kind k. NaN is not a value of an attribute: nothing could compare
// two cases that have it.
func normalValue(k AttrKind, v any) (any, bool) {
	switch k {
	case Int:
		switch x := v.(type) {
		case int:
			return int64(x), true
		case int64:
			return x, true
		}
	case Float:
		switch x := v.(type) {
		case float64:
			return x, !math.IsNaN(x)
		case int:
			return float64(x), true
		case int64:
			return float64(x), true
		}
	case Bool:
		x, ok := v.(bool)
		return x, ok
	case String:
		x, ok := v.(string)
		return x, ok
	}
	return nil, false
}

// Normal returns v in the normal form of the attribute's kind. Strings must be among Values, as in ResolveAttrs.
func (a *Attr) Normal(v any) (any, error) {
	n, ok := normalValue(a.EffectiveKind(), v)
	if !ok {
		return nil, diag.Errorf(AttrInvalid, "", "attribute %q: got %v (%T), want a value of type %s", a.Name, v, v,
			a.EffectiveKind())
	}
	if text, ok := n.(string); ok {
		return a.parseString(text)
	}
	return n, nil
}

// DefaultAttrs returns every attribute with its default.
func (s *Schema) DefaultAttrs() Attrs {
	out := make(Attrs, len(s.Attrs))
	for i := range s.Attrs {
		out[s.Attrs[i].Name] = s.Attrs[i].DefaultValue()
	}
	return out
}

// CaseAttrs returns attrs, which are complete, as a case lists them: in the order of the schema, without quiet ones
// that have their default. So an attribute that is added to a schema later leaves the texts of its cases as they were.
func (s *Schema) CaseAttrs(attrs Attrs) []AttrValue {
	var out []AttrValue
	for i := range s.Attrs {
		a := &s.Attrs[i]
		if v := attrs[a.Name]; !a.Quiet || v != a.DefaultValue() {
			out = append(out, AttrValue{Name: a.Name, Value: v})
		}
	}
	return out
}

// ResolveAttrs returns every attribute of the schema: the given text where there is one, else the default.
// Numbers need not be among Attr.Values, which are samples; strings must, because they select a variant.
func (s *Schema) ResolveAttrs(given map[string]string) (Attrs, error) {
	out := s.DefaultAttrs()
	names := make([]string, 0, len(given))
	for n := range given {
		names = append(names, n)
	}
	sort.Strings(names) // the same error each time
	for _, n := range names {
		a, ok := s.Attr(n)
		if !ok {
			known := make([]string, len(s.Attrs))
			for i := range s.Attrs {
				known[i] = s.Attrs[i].Name
			}
			return nil, diag.Errorf(AttrUnknown, suggest(n, known), "operator %q has no attribute %q", s.Name, n)
		}
		v, err := a.parse(given[n])
		if err != nil {
			return nil, err
		}
		out[n] = v
	}
	return out, nil
}

func (a *Attr) parse(text string) (any, error) {
	kind := a.EffectiveKind()
	why := "want a value of type " + kind.String()
	switch kind {
	case Int:
		v, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err == nil:
			return v, nil
		case errors.Is(err, strconv.ErrRange):
			why = "which does not fit 64 bits"
		}
	case Float:
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case err == nil && !math.IsNaN(v):
			return v, nil
		case err == nil:
			why = "which is no value of an attribute"
		case errors.Is(err, strconv.ErrRange):
			why = "which is beyond the range of float64"
		}
	case Bool:
		switch strings.ToLower(text) {
		case "true", "1", "yes", "on":
			return true, nil
		case "false", "0", "no", "off":
			return false, nil
		}
	case String:
		return a.parseString(text)
	}
	return nil, diag.Errorf(AttrInvalid, "write --attr "+a.Name+"="+attrExample(kind),
		"attribute %q: got %q, %s", a.Name, text, why)
}

func (a *Attr) parseString(text string) (any, error) {
	if len(text) > MaxDocLen {
		return nil, diag.Errorf(AttrInvalid, "", "attribute %q: %d bytes, limit %d", a.Name, len(text), MaxDocLen)
	}
	if len(a.Values) == 0 {
		return text, nil
	}
	var allowed []string
	for _, v := range a.Values {
		if x, ok := v.(string); ok {
			if x == text {
				return text, nil
			}
			allowed = append(allowed, x)
		}
	}
	return nil, diag.Errorf(AttrInvalid, suggest(text, allowed),
		"attribute %q: got %q, want one of %s", a.Name, text, strings.Join(allowed, ", "))
}

func attrExample(k AttrKind) string {
	switch k {
	case Int:
		return "3"
	case Float:
		return "1e-5"
	case Bool:
		return "true"
	}
	return "text"
}

// AttrText is a value as ResolveAttrs reads it.
func AttrText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(appendAttr(nil, v))
}

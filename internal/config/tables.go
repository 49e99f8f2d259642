// This file implements the tables whose keys the user chooses: tolerances, invariants, attributes, environment, schema.

package config

import (
	"math"
	"strings"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
)

// tolerances reads dtype = number or dtype = { atol, rtol }.
//
// A bare number is both parts, as in the documented defaults, where they are always equal. A part that a table leaves
// out keeps the default of the dtype: giving one never loosens or tightens the other in silence.
func tolerances(dst *map[dtype.DType]compare.Tolerance) value {
	const kind = "a table dtype = number or dtype = { atol, rtol }"
	part := map[string]any{"type": "number", "minimum": 0}
	return value{kind: kind, schema: func() map[string]any {
		return map[string]any{"type": "object", "propertyNames": map[string]any{"enum": dtypeNames()},
			"additionalProperties": map[string]any{"anyOf": []any{part, map[string]any{
				"type": "object", "additionalProperties": false, "minProperties": 1,
				"properties": map[string]any{"atol": part, "rtol": part}}}}}
	}, read: func(r *reader, n *node) {
		if _, ok := n.val.(map[string]any); !ok {
			r.wrong(n, kind)
			return
		}
		out := map[dtype.DType]compare.Tolerance{}
		for _, kid := range n.kids {
			d, ok := r.dtypeOf(n.path(), kid.key, kid.keyAt)
			if !ok {
				continue
			}
			if _, twice := out[d]; twice {
				r.fault(Duplicate, kid.keyAt, "keep one", "%s has %s twice under different names", n.path(), d)
			}
			out[d] = r.tolerance(kid, d)
		}
		*dst = out
	}}
}

func (r *reader) tolerance(n *node, d dtype.DType) compare.Tolerance {
	t := compare.DefaultTolerance(d)
	if _, ok := n.val.(map[string]any); !ok {
		if v, ok := r.number(n, anyNumber+", or { atol = …, rtol = … }"); ok {
			t = compare.Tolerance{Abs: v, Rel: v}
		}
		return t
	}
	if len(n.kids) == 0 {
		r.bad(n, "give atol, rtol or both")
	}
	r.table(n, []key{{"atol", "absolute part", number(&t.Abs)}, {"rtol", "relative part", number(&t.Rel)}})
	return t
}

// invariants reads a list of names, or a table name = true or false. What is false goes to off.
func invariants(on, off *[]string) value {
	const kind = "a list of names, or a table name = true or false"
	return value{kind: kind, schema: func() map[string]any {
		return map[string]any{"anyOf": []any{
			map[string]any{"type": "array", "items": map[string]any{"type": "string", "minLength": 1}, "maxItems": maxList},
			map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "boolean"}}}}
	}, read: func(r *reader, n *node) {
		switch n.val.(type) {
		case []any:
			texts(on).read(r, n)
		case map[string]any:
			*on = []string{}
			for _, kid := range n.kids {
				v, ok := kid.val.(bool)
				switch {
				case !ok:
					r.wrong(kid, "true or false")
				case v:
					*on = append(*on, kid.key)
				default:
					*off = append(*off, kid.key)
				}
			}
		default:
			r.wrong(n, kind)
		}
	}}
}

// scalars reads a table of numbers, booleans and strings.
func scalars(dst *map[string]any) value {
	const want = "a number, a boolean or a string"
	return value{kind: "a table name = number, boolean or string", schema: func() map[string]any {
		return map[string]any{"type": "object",
			"additionalProperties": map[string]any{"type": []string{"number", "boolean", "string"}}}
	}, read: func(r *reader, n *node) {
		r.each(n, func(kid *node) {
			if _, ok := r.scalar(kid, want); ok {
				set(dst, kid.key, kid.val)
			}
		})
	}}
}

// sizes reads a table of positive integers.
func sizes(dst *map[string]int) value {
	return value{kind: "a table name = integer", schema: func() map[string]any {
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "integer", "minimum": 1}}
	}, read: func(r *reader, n *node) {
		r.each(n, func(kid *node) {
			v, ok := kid.val.(int64)
			if !ok || v < 1 || v > opspec.MaxDimValue {
				r.wrong(kid, "an integer of at least 1")
				return
			}
			set(dst, kid.key, int(v))
		})
	}}
}

// scalar returns a value that is neither a table, a list nor a date; NaN is refused, since nothing equals it.
func (r *reader) scalar(n *node, want string) (any, bool) {
	switch v := n.val.(type) {
	case float64:
		if math.IsNaN(v) {
			r.bad(n, "use "+want)
			return nil, false
		}
	case int64, bool, string:
	default:
		r.wrong(n, want)
		return nil, false
	}
	return n.val, true
}

// arguments reads a table of anything that JSON can say.
func arguments(dst *map[string]any) value {
	return value{kind: "a table name = value", schema: func() map[string]any {
		return map[string]any{"type": "object"}
	}, read: func(r *reader, n *node) {
		r.each(n, func(kid *node) {
			if r.plain(kid) {
				set(dst, kid.key, kid.val)
			}
		})
	}}
}

// plain checks a value and all in it.
func (r *reader) plain(n *node) bool {
	ok := true
	switch n.val.(type) {
	case map[string]any:
		for _, kid := range n.kids {
			ok = r.plain(kid) && ok
		}
	case []any:
		for _, item := range n.items {
			ok = r.plain(item) && ok
		}
	default:
		_, ok = r.scalar(n, "a number, a boolean, a string, a list or a table")
	}
	return ok
}

// environment reads a table of environment variables.
func environment(dst *map[string]string) value {
	return value{kind: "a table NAME = string", schema: func() map[string]any {
		return map[string]any{"type": "object", "propertyNames": map[string]any{"pattern": "^[^=]+$"},
			"additionalProperties": map[string]any{"type": "string"}}
	}, read: func(r *reader, n *node) {
		r.each(n, func(kid *node) {
			v, ok := kid.val.(string)
			switch {
			case kid.key == "" || strings.ContainsAny(kid.key, "=\x00"):
				r.fault(BadValue, kid.keyAt, "use letters, digits and _", "%s: %q cannot be the name of a variable",
					n.path(), kid.key)
			case !ok:
				r.wrong(kid, "a string")
			case strings.ContainsRune(v, 0):
				r.bad(kid, "take out the character U+0000")
			default:
				set(dst, kid.key, v)
			}
		})
	}}
}

// each calls f for every key of a table.
func (r *reader) each(n *node, f func(kid *node)) {
	if _, ok := n.val.(map[string]any); !ok {
		r.wrong(n, "a table")
		return
	}
	for _, kid := range n.kids {
		f(kid)
	}
}

// set adds an entry to a map that may be nil.
func set[V any](dst *map[string]V, key string, v V) {
	if *dst == nil {
		*dst = map[string]V{}
	}
	(*dst)[key] = v
}

// schemaFault reports an error of package opspec at its place in the document.
func (r *reader) schemaFault(n *node, j *jsonText, err error) {
	at := n.keyAt
	e, ok := err.(*diag.Error)
	msg := err.Error()
	if ok {
		msg = e.Msg
		if e.Pos.Line == 1 && e.Pos.Col > 0 {
			at = j.source(e.Pos.Col - 1)
		}
	}
	r.fault(BadSchema, at, diag.HintOf(err), "%s: %s", n.path(), msg).Err = err
}

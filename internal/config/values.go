// This file implements the kinds of values: how each is read, checked and described.

package config

import (
	"math"
	"strconv"
	"strings"
	"time"

	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/pattern"
	"gpuemu/internal/tensor"
)

// Limits of lists and texts, far above any use.
const (
	maxText = 1 << 14
	maxList = 1000
	// maxTimeout is a week: a larger number is a mistake in the unit.
	maxTimeout = 7 * 24 * time.Hour
)

// object is the JSON Schema of a table.
func object(keys []key) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, k := range keys {
		s := k.schema()
		s["description"] = k.doc
		properties[k.name] = s
		if k.needed {
			required = append(required, k.name)
		}
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// table reads a table; after, where given, checks it as a whole.
func table(keys []key, after func(r *reader, n *node)) value {
	return value{kind: "a table", keys: keys, schema: func() map[string]any { return object(keys) },
		read: func(r *reader, n *node) {
			r.table(n, keys)
			if _, ok := n.val.(map[string]any); ok && after != nil {
				after(r, n)
			}
		}}
}

// tables reads a list of tables, [[name]]; fresh makes an entry with its defaults.
func tables[T any](dst *[]T, limit int, fresh func() T, keys func(*T) []key, after func(*reader, *node, *T)) value {
	sample := fresh()
	return value{kind: "a list of tables", keys: keys(&sample), schema: func() map[string]any {
		return map[string]any{"type": "array", "maxItems": limit, "items": object(keys(&sample))}
	}, read: func(r *reader, n *node) {
		if _, ok := n.val.([]any); !ok {
			r.fault(WrongType, n.keyAt, "open each entry with [["+n.path()+"]]", "%s is a %s, want a list of tables",
				n.path(), kindOf(n.val))
			return
		}
		if len(n.items) > limit {
			r.fault(Limit, n.items[limit].keyAt, "split the project", "%s has %d entries, at most %d are allowed",
				n.path(), len(n.items), limit)
			return
		}
		for _, item := range n.items {
			entry := fresh()
			before := len(r.faults)
			r.table(item, keys(&entry))
			if len(r.faults) == before {
				after(r, item, &entry)
			}
			*dst = append(*dst, entry)
		}
	}}
}

// kindOf names the type of a value of TOML.
func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "table"
	case []any:
		return "list"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int64, float64:
		return "number"
	}
	return "date"
}

// text reads a string that is not empty.
func text(dst *string) value {
	return value{kind: "a string", schema: func() map[string]any {
		return withDefault(map[string]any{"type": "string", "minLength": 1}, *dst, *dst != "")
	}, read: func(r *reader, n *node) {
		if s, ok := r.str(n, "a string"); ok {
			*dst = s
		}
	}}
}

// str returns a string that is not empty and can be given to the system.
func (r *reader) str(n *node, want string) (string, bool) {
	s, ok := n.val.(string)
	switch {
	case !ok:
		r.wrong(n, want)
		return "", false
	case s == "":
		r.bad(n, "leave the key out, or give it a value")
		return "", false
	case len(s) > maxText:
		r.fault(Limit, n.at, "", "%s has %d bytes, at most %d are allowed", n.path(), len(s), maxText)
		return "", false
	case strings.ContainsRune(s, 0):
		r.bad(n, "take out the character U+0000")
		return "", false
	}
	return s, true
}

func withDefault(s map[string]any, v any, set bool) map[string]any {
	if set {
		s["default"] = v
	}
	return s
}

func flag(dst *bool) value {
	return value{kind: "true or false", schema: func() map[string]any {
		return map[string]any{"type": "boolean", "default": *dst}
	}, read: func(r *reader, n *node) {
		v, ok := n.val.(bool)
		if !ok {
			r.wrong(n, "true or false")
			return
		}
		*dst = v
	}}
}

// whole is the reader of integers of at least low.
func whole(low int, unset bool, def int, set func(int)) value {
	const high = math.MaxInt32 // a count beyond it is a mistake, and int has 32 bits on some machines
	want := "a whole number from " + strconv.Itoa(low)
	return value{kind: want, schema: func() map[string]any {
		return withDefault(map[string]any{"type": "integer", "minimum": low, "maximum": high}, def, !unset)
	}, read: func(r *reader, n *node) {
		v, ok := n.val.(int64)
		switch {
		case !ok:
			r.wrong(n, want)
		case v < int64(low) || v > high:
			r.bad(n, "use "+want)
		default:
			set(int(v))
		}
	}}
}

// count reads an integer of at least low.
func count(dst *int, low int) value { return whole(low, false, *dst, func(v int) { *dst = v }) }

// limit reads an integer that has no default.
func limit(dst **int) value { return whole(0, true, 0, func(v int) { *dst = &v }) }

// number returns a finite number of at least 0.
func (r *reader) number(n *node, want string) (float64, bool) {
	var v float64
	switch x := n.val.(type) {
	case int64:
		v = float64(x)
	case float64:
		v = x
	default:
		r.wrong(n, want)
		return 0, false
	}
	if !(v >= 0) || math.IsInf(v, 0) {
		r.bad(n, "use "+want)
		return 0, false
	}
	return v, true
}

const anyNumber = "a finite number that is not negative"

// number reads a finite number of at least 0.
func number(dst *float64) value {
	return value{kind: "a number from 0", schema: func() map[string]any {
		return map[string]any{"type": "number", "minimum": 0, "default": *dst}
	}, read: func(r *reader, n *node) {
		if v, ok := r.number(n, anyNumber); ok {
			*dst = v
		}
	}}
}

// optional reads a finite number of at least 0 that has no default.
func optional(dst **float64) value {
	return value{kind: "a number from 0", schema: func() map[string]any {
		return map[string]any{"type": "number", "minimum": 0}
	}, read: func(r *reader, n *node) {
		if v, ok := r.number(n, anyNumber); ok {
			*dst = &v
		}
	}}
}

// duration reads a time in seconds, fractions allowed.
func duration(dst *time.Duration) value {
	const want = "seconds above 0"
	return value{kind: "a number of seconds", schema: func() map[string]any {
		return withDefault(map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": maxTimeout.Seconds()},
			dst.Seconds(), *dst != 0)
	}, read: func(r *reader, n *node) {
		var v float64
		switch x := n.val.(type) {
		case int64:
			v = float64(x)
		case float64:
			v = x
		default:
			r.wrong(n, "a number of "+want)
			return
		}
		if !(v > 0) {
			r.bad(n, "use "+want)
			return
		}
		if v > maxTimeout.Seconds() {
			r.bad(n, "the unit is seconds: use at most "+strconv.Itoa(int(maxTimeout.Seconds())))
			return
		}
		*dst = max(time.Duration(v*float64(time.Second)), 1)
	}}
}

// seed reads 64 unsigned bits: a number, or a string where TOML's integers end.
func seed(dst *uint64, has *bool) value {
	const want = `a whole number from 0, above 9223372036854775807 as a string`
	return value{kind: want, schema: func() map[string]any {
		return map[string]any{"default": *dst, "anyOf": []any{
			map[string]any{"type": "integer", "minimum": 0},
			map[string]any{"type": "string", "pattern": "^[0-9]{1,20}$"}}}
	}, read: func(r *reader, n *node) {
		switch v := n.val.(type) {
		case int64:
			if v < 0 {
				r.bad(n, "use "+want)
				return
			}
			*dst, *has = uint64(v), true
		case string:
			u, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				r.bad(n, "use decimal digits, at most 18446744073709551615")
				return
			}
			*dst, *has = u, true
		default:
			r.wrong(n, want)
		}
	}}
}

// named is a value that has a name.
type named[T comparable] struct {
	name  string
	value T
}

// choice reads one of a few names.
func choice[T comparable](dst *T, of []named[T]) value {
	var names []string
	for _, o := range of {
		names = append(names, o.name)
	}
	return value{kind: "one of " + strings.Join(names, ", "), schema: func() map[string]any {
		s := map[string]any{"type": "string", "enum": names}
		for _, o := range of {
			if o.value == *dst {
				s["default"] = o.name
				break
			}
		}
		return s
	}, read: func(r *reader, n *node) {
		name, ok := n.val.(string)
		if !ok {
			r.wrong(n, "a string: one of "+strings.Join(names, ", "))
			return
		}
		for _, o := range of {
			if o.name == name {
				*dst = o.value
				return
			}
		}
		r.bad(n, diag.Suggest(name, names, "use one of "+strings.Join(names, ", ")))
	}}
}

// list reads items one by one; item returns false where it reported a fault. Repeats are refused.
func list[T comparable](dst *[]T, kind string, schema func() map[string]any, render func(T) any,
	item func(r *reader, n *node) (T, bool)) value {
	return value{kind: kind, schema: func() map[string]any {
		s := map[string]any{"type": "array", "items": schema(), "maxItems": maxList}
		var def []any
		for _, v := range *dst {
			def = append(def, render(v))
		}
		return withDefault(s, def, len(def) > 0)
	}, read: func(r *reader, n *node) {
		if _, ok := n.val.([]any); !ok {
			r.wrong(n, kind)
			return
		}
		if len(n.items) > maxList {
			r.fault(Limit, n.at, "", "%s has %d items, at most %d are allowed", n.path(), len(n.items), maxList)
			return
		}
		out := make([]T, 0, len(n.items))
		seen := map[T]bool{}
		for _, it := range n.items {
			v, ok := item(r, it)
			if !ok {
				continue
			}
			if seen[v] {
				r.fault(Duplicate, it.at, "keep one", "%s has %s twice", n.path(), r.text(it))
			}
			seen[v] = true
			out = append(out, v)
		}
		*dst = out
	}}
}

// texts reads a list of different strings.
func texts(dst *[]string) value {
	return list(dst, "a list of strings", func() map[string]any {
		return map[string]any{"type": "string", "minLength": 1}
	}, func(s string) any { return s }, func(r *reader, n *node) (string, bool) { return r.str(n, "a string") })
}

// arch reads the name of an architecture.
func arch(dst *string) value {
	return value{kind: "an architecture", schema: func() map[string]any {
		return map[string]any{"type": "string", "pattern": cudatool.ArchForm}
	}, read: func(r *reader, n *node) {
		s, ok := r.str(n, "an architecture")
		if ok && !cudatool.IsArch(s) {
			r.bad(n, "write it as sm_80 or sm_90a")
			ok = false
		}
		if ok {
			*dst = s
		}
	}}
}

// patterns reads a list of patterns of instructions: one that can match nothing is refused.
func patterns(dst *[]string) value {
	return list(dst, "a list of patterns", func() map[string]any {
		return map[string]any{"type": "string", "minLength": 1}
	}, func(s string) any { return s }, func(r *reader, n *node) (string, bool) {
		text, ok := r.str(n, "a pattern")
		if !ok {
			return "", false
		}
		if _, err := pattern.Parse(text); err != nil {
			msg := err.Error()
			if e, ok := err.(*diag.Error); ok {
				msg = e.Msg
			}
			r.fault(BadValue, n.at, diag.HintOf(err), "%s: %s", n.path(), msg)
			return "", false
		}
		return text, true
	})
}

// dtypeNames are the names that dtype.Parse knows, for editors. A test holds them against it.
func dtypeNames() []string {
	var names []string
	for _, d := range dtype.All() {
		names = append(names, d.String())
	}
	return append(names, "float8_e4m3", "f64", "f32", "f16", "bf16", "e4m3fn", "e4m3", "e5m2", "i8", "i16", "i32", "i64",
		"u8", "u16", "u32", "u64", "double", "float", "half")
}

// dtypeOf parses the name of a dtype that stands at an offset.
func (r *reader) dtypeOf(path, name string, at int) (dtype.DType, bool) {
	d, err := dtype.Parse(name)
	if err != nil {
		var long []string
		for _, d := range dtype.All() {
			long = append(long, d.String())
		}
		r.fault(BadValue, at, diag.Suggest(name, long, diag.HintOf(err)), "%s: %s", path, err)
	}
	return d, err == nil
}

// dtypes reads a list of dtypes that is not empty.
func dtypes(dst *[]dtype.DType) value {
	v := list(dst, "a list of dtypes", func() map[string]any {
		return map[string]any{"type": "string", "enum": dtypeNames()}
	}, func(d dtype.DType) any { return d.String() }, func(r *reader, n *node) (dtype.DType, bool) {
		name, ok := r.str(n, "the name of a dtype")
		if !ok {
			return 0, false
		}
		return r.dtypeOf(n.path(), name, n.at)
	})
	return notEmpty(v)
}

// noting is a value that sets a flag where it is given.
func noting(given *bool, v value) value {
	read := v.read
	v.read = func(r *reader, n *node) {
		*given = true
		read(r, n)
	}
	return v
}

// ranks reads a list of ranks that is not empty.
func ranks(dst *[]int) value {
	want := "a whole number from 0 to " + strconv.Itoa(tensor.MaxRank)
	return notEmpty(list(dst, "a list of ranks", func() map[string]any {
		return map[string]any{"type": "integer", "minimum": 0, "maximum": tensor.MaxRank}
	}, func(n int) any { return n }, func(r *reader, n *node) (int, bool) {
		v, ok := n.val.(int64)
		switch {
		case !ok:
			r.wrong(n, want)
		case v < 0 || v > tensor.MaxRank:
			r.bad(n, "use "+want)
		default:
			return int(v), true
		}
		return 0, false
	}))
}

// layouts reads a list of memory layouts that is not empty.
func layouts(dst *[]tensor.Layout) value {
	var names []string
	for _, l := range tensor.Layouts() {
		names = append(names, l.String())
	}
	v := list(dst, "a list of memory layouts", func() map[string]any {
		return map[string]any{"type": "string", "enum": names}
	}, func(l tensor.Layout) any { return l.String() }, func(r *reader, n *node) (tensor.Layout, bool) {
		name, ok := r.str(n, "the name of a layout")
		if !ok {
			return 0, false
		}
		l, err := tensor.ParseLayout(name)
		if err != nil {
			r.bad(n, diag.Suggest(name, names, "use one of "+strings.Join(names, ", ")))
		}
		return l, err == nil
	})
	return notEmpty(v)
}

// notEmpty refuses an empty list, which would mean "test nothing".
func notEmpty(v value) value {
	schema, read := v.schema, v.read
	v.schema = func() map[string]any {
		s := schema()
		s["minItems"] = 1
		return s
	}
	v.read = func(r *reader, n *node) {
		if items, ok := n.val.([]any); ok && len(items) == 0 {
			r.bad(n, "leave the key out, or name at least one")
			return
		}
		read(r, n)
	}
	return v
}

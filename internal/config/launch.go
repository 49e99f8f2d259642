// This file implements the values of a launch: expressions, checks and limits of the emulator.

package config

import (
	"fmt"
	"math"
	"strconv"

	"gpuemu/internal/diag"
	"gpuemu/internal/formula"
	"gpuemu/internal/launchfile"
	"gpuemu/internal/ptxvm"
)

// extents reads the three sizes of a grid or block: integers, or expressions over dimensions and attributes.
func extents(dst *[]Expr) value {
	const kind = "a list of one to three sizes"
	return value{kind: kind, schema: func() map[string]any {
		return map[string]any{"type": "array", "minItems": 1, "maxItems": 3, "items": sizeSchema(1)}
	}, read: func(r *reader, n *node) {
		if _, ok := n.val.([]any); !ok || len(n.items) == 0 || len(n.items) > 3 {
			r.wrong(n, kind)
			return
		}
		var out []Expr
		for _, item := range n.items {
			if e, ok := r.size(item, 1); ok {
				out = append(out, e)
			}
		}
		*dst = out
	}}
}

// size reads one such size from low.
func size(dst *Expr, low int64) value {
	return value{kind: "a size", schema: func() map[string]any { return sizeSchema(low) }, read: func(r *reader, n *node) {
		if e, ok := r.size(n, low); ok {
			*dst = e
		}
	}}
}

func sizeSchema(low int64) map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "integer", "minimum": low, "maximum": math.MaxInt32},
		map[string]any{"type": "string", "minLength": 1, "maxLength": formula.MaxLen}}}
}

func (r *reader) size(n *node, low int64) (Expr, bool) {
	switch v := n.val.(type) {
	case int64:
		if v < low || v > math.MaxInt32 {
			r.bad(n, "use a whole number from "+strconv.FormatInt(low, 10))
			return Expr{}, false
		}
		return r.literal(n, strconv.FormatInt(v, 10)), true
	case string:
		return r.expr(n, v)
	}
	r.wrong(n, `a whole number or an expression such as "ceil(N / 256)"`)
	return Expr{}, false
}

// literal is a number of the file as an expression.
func (r *reader) literal(n *node, text string) Expr {
	return Expr{Text: text, Pos: position(r.path, r.data, n.at)}
}

// expr reads an expression. Its place is that of its first character, behind the quote; where the string has escapes,
// columns in it are not those of the file, and the quote stands for all of it.
func (r *reader) expr(n *node, text string) (Expr, bool) {
	at := n.at
	if end := at + 1 + len(text); end < len(r.data) && string(r.data[at+1:end]) == text {
		at++
	}
	e := Expr{Text: text, Pos: position(r.path, r.data, at)}
	_, err := formula.Parse(text)
	if fault, ok := err.(*diag.Error); ok {
		where := n.at
		if at != n.at {
			where = at + max(fault.Pos.Col, 1) - 1
		}
		r.fault(BadValue, where, fault.Hint, "%s: %s", n.path(), fault.Msg)
		return e, false
	}
	return e, true
}

// items reads a list of arguments: expressions, and numbers and truth values as they are.
func items(dst *[]Expr) value {
	const kind = "a list of names, expressions and numbers"
	return value{kind: kind, schema: func() map[string]any {
		return map[string]any{"type": "array", "maxItems": maxList,
			"items": map[string]any{"type": []string{"number", "boolean", "string"}}}
	}, read: func(r *reader, n *node) {
		if _, ok := n.val.([]any); !ok || len(n.items) > maxList {
			r.wrong(n, kind)
			return
		}
		*dst = []Expr{}
		for _, item := range n.items {
			switch v, _ := r.scalar(item, "a name, an expression or a number"); v := v.(type) {
			case string:
				if e, ok := r.expr(item, v); ok {
					*dst = append(*dst, e)
				}
			case int64:
				*dst = append(*dst, r.literal(item, strconv.FormatInt(v, 10)))
			case float64:
				*dst = append(*dst, r.literal(item, fraction(v)))
			case bool:
				*dst = append(*dst, r.literal(item, strconv.FormatBool(v)))
			}
		}
	}}
}

// fraction writes a float so that it is read as one.
func fraction(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	return strconv.FormatFloat(v, 'e', -1, 64)
}

// checks reads what the emulator looks for.
func checks(dst *ptxvm.Checks) value {
	return value{kind: "names of checks", schema: func() map[string]any {
		return map[string]any{"type": "string", "default": "all"}
	}, read: func(r *reader, n *node) {
		text, ok := r.str(n, "names of checks")
		if !ok {
			return
		}
		c, err := ptxvm.ParseChecks(text)
		if err != nil {
			r.bad(n, diag.HintOf(err))
			return
		}
		*dst = c
	}}
}

// between reads a whole number within limits.
func between(dst *int, low, high int) value {
	v := count(dst, low)
	schema, read := v.schema, v.read
	v.schema = func() map[string]any {
		s := schema()
		s["maximum"] = high
		return s
	}
	v.read = func(r *reader, n *node) {
		if x, ok := n.val.(int64); ok && x > int64(high) {
			r.bad(n, "use at most "+strconv.Itoa(high))
			return
		}
		read(r, n)
	}
	return v
}

// memory reads an amount of memory.
func memory(dst *int64) value {
	return value{kind: "an amount of memory", schema: func() map[string]any {
		return map[string]any{"type": []string{"string", "integer"}}
	}, read: func(r *reader, n *node) {
		v, ok := r.scalar(n, "an amount of memory such as 6GiB")
		if !ok {
			return
		}
		bytes, err := launchfile.ParseMemory(fmt.Sprint(v))
		if err != nil {
			r.bad(n, diag.HintOf(err))
			return
		}
		*dst = bytes
	}}
}

// budget reads a number of instructions.
func budget(dst *uint64) value {
	return value{kind: "a whole number from 1", schema: func() map[string]any {
		return map[string]any{"type": "integer", "minimum": 1}
	}, read: func(r *reader, n *node) {
		v, ok := n.val.(int64)
		switch {
		case !ok:
			r.wrong(n, "a whole number")
		case v < 1:
			r.bad(n, "use a whole number from 1")
		default:
			*dst = uint64(v)
		}
	}}
}

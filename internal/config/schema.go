// This file implements the schema of an op, which package opspec reads from JSON: the table is written as JSON that
// remembers where each piece came from, so that errors have a place in gpuemu.toml.

package config

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"gpuemu/internal/opspec"
)

// jsonText is JSON on one line with the origin of its values.
type jsonText struct {
	buf   []byte
	marks []mark // in rising order of their place in buf
}

// mark says that what starts at json in the JSON stands at source in the document.
type mark struct{ json, source int }

// source returns the place in the document of an offset in the JSON.
func (j *jsonText) source(offset int) int {
	i, found := slices.BinarySearchFunc(j.marks, offset, func(m mark, at int) int { return m.json - at })
	if !found {
		i--
	}
	return j.marks[max(i, 0)].source
}

func (j *jsonText) mark(source int) { j.marks = append(j.marks, mark{len(j.buf), source}) }

func (j *jsonText) string(s string) {
	b, err := json.Marshal(s)
	if err != nil {
		panic("config: internal error: a string is not JSON: " + err.Error())
	}
	j.buf = append(j.buf, b...)
}

// write adds a node. It reports what JSON cannot say and returns false.
func (j *jsonText) write(r *reader, n *node, extra ...string) bool {
	j.mark(n.at)
	ok := true
	switch v := n.val.(type) {
	case map[string]any:
		j.buf = append(j.buf, '{')
		for i, kid := range n.kids {
			if i > 0 {
				j.buf = append(j.buf, ',')
			}
			j.mark(kid.keyAt)
			j.string(kid.key)
			j.buf = append(j.buf, ':')
			ok = j.write(r, kid) && ok
		}
		for i := 0; i < len(extra); i += 2 {
			if i > 0 || len(n.kids) > 0 {
				j.buf = append(j.buf, ',')
			}
			j.string(extra[i])
			j.buf = append(j.buf, ':')
			j.string(extra[i+1])
		}
		j.buf = append(j.buf, '}')
	case []any:
		j.buf = append(j.buf, '[')
		for i, item := range n.items {
			if i > 0 {
				j.buf = append(j.buf, ',')
			}
			ok = j.write(r, item) && ok
		}
		j.buf = append(j.buf, ']')
	case string:
		j.string(v)
	case bool:
		j.buf = strconv.AppendBool(j.buf, v)
	case int64:
		j.buf = strconv.AppendInt(j.buf, v, 10)
	case float64:
		switch {
		case math.IsInf(v, 1):
			j.string("inf")
		case math.IsInf(v, -1):
			j.string("-inf")
		case math.IsNaN(v):
			r.bad(n, "use a number")
			return false
		default:
			j.buf = strconv.AppendFloat(j.buf, v, 'g', -1, 64)
		}
	default:
		r.wrong(n, "a number, a string, a boolean, a list or a table")
		return false
	}
	return ok
}

// opSchema reads the name of an operator of the catalogue, or a whole schema. A schema without a name has the op's.
func opSchema(o *Op) value {
	const kind = "the name of an operator, or a table"
	return value{kind: kind, schema: func() map[string]any {
		return map[string]any{"anyOf": []any{map[string]any{"type": "string", "minLength": 1},
			map[string]any{"type": "object"}}}
	}, read: func(r *reader, n *node) {
		switch n.val.(type) {
		case string:
			text(&o.SchemaName).read(r, n)
		case map[string]any:
			o.Schema = r.schema(n)
		default:
			r.wrong(n, kind)
		}
	}}
}

func (r *reader) schema(n *node) *opspec.Schema {
	var extra []string
	if n.byKey["name"] == nil {
		if name, ok := n.parent.val.(map[string]any)["name"].(string); ok {
			extra = []string{"name", name}
		}
	}
	j := &jsonText{}
	if !j.write(r, n, extra...) {
		return nil
	}
	s, err := opspec.ParseSchema(j.buf)
	if err != nil {
		r.schemaFault(n, j, err)
		return nil
	}
	return s
}

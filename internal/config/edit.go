// This file implements changing a tolerance in the text of a configuration, with everything else as it was.

package config

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
)

// SetTolerance returns the text of a configuration with the tolerance of an op and dtype set to t. Comments, order and
// spelling of everything else stay as they are. A missing [ops.tolerances] is added to the op's entry.
func SetTolerance(data []byte, op string, d dtype.DType, t compare.Tolerance) ([]byte, error) {
	const path = FileName
	if err := t.Check("tolerance of " + d.String()); err != nil {
		return nil, err
	}
	c, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	if _, ok := c.Op(op); !ok {
		var names []string
		for i := range c.Ops {
			names = append(names, c.Ops[i].Name)
		}
		return nil, diag.Errorf(UnknownOp, diag.Suggest(op, names, "add an [[ops]] entry for it first"),
			"%s has no op %q", path, op)
	}
	atol, rtol := tomlFloat(t.Abs), tomlFloat(t.Rel)
	out := slices.Clone(data)
	switch entry := entryOf(out, op); {
	case entry.header == 0:
		return nil, diag.Errorf(NotEditable, "write the op as an [[ops]] entry",
			"op %q stands in a list in brackets, which is not edited", op).At(position(path, data, entry.at))
	case entry.byKey["tolerances"] == nil:
		eol := lineBreak(out)
		at := lineEnd(out, max(entry.header, entry.last))
		line := eol + eol + "[ops.tolerances]" + eol + d.String() + " = { atol = " + atol + ", rtol = " + rtol + " }"
		out = splice(out, at, at, line+finalBreak(out, at))
	default:
		table := entry.byKey["tolerances"]
		kid := table.spelling(d)
		if first := table.kids; table.header == 0 && len(first) > 0 && first[0].header > 0 && table.byKey[kid] == nil {
			eol := lineBreak(out) // each dtype has a section of its own
			at := lineEnd(out, max(first[0].header, first[0].last))
			text := eol + eol + "[ops.tolerances." + kid + "]" + eol + "atol = " + atol + eol + "rtol = " + rtol
			out = splice(out, at, at, text+finalBreak(out, at))
			break
		}
		if n := table.byKey[kid]; n == nil || n.isValue() {
			out = setKey(out, table, kid, "{ atol = "+atol+", rtol = "+rtol+" }")
			break
		}
		out = setKey(out, table.byKey[kid], "atol", atol) // [ops.tolerances.float32], or dotted keys
		out = setKey(out, entryOf(out, op).byKey["tolerances"].byKey[kid], "rtol", rtol)
	}
	after, err := Parse(path, out)
	if err != nil {
		return nil, diag.Errorf(NotEditable, "set it by hand", "the edited text would not parse: %w", err)
	}
	if o, ok := after.Op(op); !ok || o.Tolerances[d] != t || len(after.Ops) != len(c.Ops) {
		return nil, diag.Errorf(NotEditable, "set it by hand", "op %q is written in a form that is not edited", op)
	}
	return out, nil
}

// entryOf returns the entry of an op in a text that parses.
func entryOf(data []byte, op string) *node {
	root, err := parseTree(FileName, data)
	if err != nil {
		panic("config: internal error: the text does not parse any more: " + err.Error())
	}
	for _, item := range root.byKey["ops"].items {
		if item.byKey["name"].val == op {
			return item
		}
	}
	panic("config: internal error: the op has vanished")
}

// spelling returns the name under which a table of tolerances has a dtype, its long name where it has none.
func (n *node) spelling(d dtype.DType) string {
	for _, kid := range n.kids {
		if other, err := dtype.Parse(kid.key); err == nil && other == d {
			return kid.key
		}
	}
	return d.String()
}

// isValue reports whether a node is written in one piece: "key = value".
func (n *node) isValue() bool {
	_, isTable := n.val.(map[string]any)
	return !isTable || n.inline
}

// setKey replaces or adds one key of a table.
func setKey(data []byte, table *node, key, text string) []byte {
	kid := table.byKey[key]
	switch {
	case kid != nil:
		return splice(data, kid.at, kid.end, text)
	case table.inline:
		at := table.at + 1 // behind the brace
		if len(table.kids) > 0 {
			text += ","
		}
		if data[at] != ' ' {
			text += " "
		}
		return splice(data, at, at, " "+key+" = "+text)
	case table.header > 0:
		at := lineEnd(data, max(table.header, table.last))
		return splice(data, at, at, lineBreak(data)+indent(data, at)+key+" = "+text+finalBreak(data, at))
	}
	// Dotted keys: a line after the last of them, with the same parts in front.
	last := table.kids[len(table.kids)-1]
	for !last.isValue() && len(last.kids) > 0 {
		last = last.kids[len(last.kids)-1]
	}
	prefix := table.key + "."
	if outer := table.parent; outer != nil && outer.header == 0 && outer.key != "" {
		prefix = outer.key + "." + prefix
	}
	at := lineEnd(data, last.end)
	return splice(data, at, at, lineBreak(data)+indent(data, last.keyAt)+prefix+key+" = "+text+finalBreak(data, at))
}

// splice replaces data[from:to].
func splice(data []byte, from, to int, text string) []byte {
	return slices.Concat(data[:from], []byte(text), data[to:])
}

// indent returns the white space at the start of the line that holds at.
func indent(data []byte, at int) string {
	line := data[bytes.LastIndexByte(data[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// lineBreak returns the line break that the text uses.
func lineBreak(data []byte) string {
	if bytes.Contains(data, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// finalBreak returns the line break to add where a line is added behind a last line that has none.
func finalBreak(data []byte, at int) string {
	if at == len(data) {
		return lineBreak(data)
	}
	return ""
}

// tomlFloat writes a number as a float of TOML.
func tomlFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

package receipt

// This file implements Python's two spellings of JSON: the compact one that the original signs, and the indented one of
// its files.

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// PythonCanonical returns v as Python's json.dumps(v, sort_keys=True, separators=(",", ":")) would after json.loads:
// the bytes that the original signs. v is made of what DecodeStrict returns. Keys are in the order of their code
// points, text is ASCII, integers keep all their digits, other numbers are written as Python's repr does.
func PythonCanonical(v any) ([]byte, error) { return appendPython(nil, v, -1) }

// pythonIndented returns v as json.dumps(v, indent=2, sort_keys=True) and a newline: the original's files.
func pythonIndented(v any) ([]byte, error) {
	b, err := appendPython(nil, v, 0)
	return append(b, '\n'), err
}

// appendPython appends v. indent is the depth of the present line, or negative for the compact form.
func appendPython(b []byte, v any, indent int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendPythonString(b, v), nil
	case json.Number:
		return appendPythonNumber(b, v)
	case []any:
		return appendPythonItems(b, '[', ']', len(v), indent, func(b []byte, i, indent int) ([]byte, error) {
			return appendPython(b, v[i], indent)
		})
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v)) // the order of bytes of UTF-8 is that of code points
		return appendPythonItems(b, '{', '}', len(v), indent, func(b []byte, i, indent int) ([]byte, error) {
			b = append(appendPythonString(b, keys[i]), ':')
			if indent >= 0 {
				b = append(b, ' ')
			}
			return appendPython(b, v[keys[i]], indent)
		})
	}
	return nil, fmt.Errorf("receipt: a value of type %T is not JSON", v)
}

// appendPythonItems appends n items between brackets.
func appendPythonItems(b []byte, left, right byte, n, indent int,
	item func(b []byte, i, indent int) ([]byte, error)) ([]byte, error) {
	b = append(b, left)
	inner := indent
	if indent >= 0 {
		inner++
	}
	newline := func(depth int) {
		if indent >= 0 && n > 0 {
			b = append(append(b, '\n'), strings.Repeat("  ", depth)...)
		}
	}
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		newline(inner)
		var err error
		if b, err = item(b, i, inner); err != nil {
			return nil, err
		}
	}
	newline(indent)
	return append(b, right), nil
}

// appendPythonString appends s as json.dumps does with ensure_ascii.
func appendPythonString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case 0x20 <= r && r < 0x7f:
			b = append(b, byte(r))
		case strings.ContainsRune("\n\r\t\b\f", r):
			b = append(b, '\\', "nrtbf"[strings.IndexRune("\n\r\t\b\f", r)])
		case r > 0xffff:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(b, '"')
}

// appendPythonNumber appends a number as Python writes it after having read it.
func appendPythonNumber(b []byte, n json.Number) ([]byte, error) {
	text := string(n)
	if !strings.ContainsAny(text, ".eEnN") { // "Infinity" and "NaN" have an n
		if text == "-0" {
			text = "0" // an int has no sign of zero
		}
		return append(b, text...), nil
	}
	f, err := pythonFloat(n)
	if err != nil {
		return nil, fmt.Errorf("receipt: %q is not a number", text)
	}
	return append(b, pythonRepr(f)...), nil
}

// pythonFloat is float(n): too large is infinite, not an error.
func pythonFloat(n json.Number) (float64, error) {
	switch n {
	case "NaN":
		return math.NaN(), nil
	case "Infinity":
		return math.Inf(1), nil
	case "-Infinity":
		return math.Inf(-1), nil
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if math.IsInf(f, 0) {
		return f, nil
	}
	return f, err
}

// isNonFinite reports whether Python would read n as NaN or an infinity.
func isNonFinite(n json.Number) bool {
	if !strings.ContainsAny(string(n), ".eEnN") {
		return false // an integer of any size
	}
	f, err := pythonFloat(n)
	return err != nil || math.IsNaN(f) || math.IsInf(f, 0)
}

// pythonRepr is Python's repr(f): the shortest digits that read back as f, in fixed form for exponents -4 to 15.
func pythonRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	_, exp, _ := strings.Cut(text, "e")
	if e, err := strconv.Atoi(exp); err == nil && (e < -4 || e >= 16) {
		return text // Go, too, writes at least two digits of the exponent
	}
	text = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

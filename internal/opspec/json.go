// This file implements reading JSON with positions: a small tree that knows where each value stands.

package opspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
)

// maxJSONDepth is above what any schema needs (four).
const maxJSONDepth = 16

type jsonKind uint8

const (
	jsonNull jsonKind = iota + 1
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

var jsonKindNames = [...]string{"", "null", "a boolean", "a number", "a string", "a list", "an object"}

// jsonNode is one value with its place.
type jsonNode struct {
	kind    jsonKind
	offset  int64 // of the first byte
	text    string
	truth   bool
	items   []*jsonNode
	members []jsonMember
}

type jsonMember struct {
	key    string
	offset int64
	value  *jsonNode
}

// jsonReader turns text into nodes and nodes into Go values, with errors that name path and position.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
}

func newJSONReader(data []byte) *jsonReader {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return &jsonReader{data: data, dec: dec}
}

// pos converts an offset into line and column (in bytes, as editors and compilers count).
func (r *jsonReader) pos(offset int64) diag.Pos {
	before := r.data[:min(offset, int64(len(r.data)))]
	line := bytes.Count(before, []byte("\n")) + 1
	return diag.Pos{File: "schema", Line: line, Col: len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1}
}

func (r *jsonReader) errorf(code diag.Code, offset int64, hint, format string, args ...any) error {
	return diag.Errorf(code, hint, format, args...).At(r.pos(offset))
}

// document reads the one value of the text.
func (r *jsonReader) document() (*jsonNode, error) {
	n, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if end := r.start(); end < int64(len(r.data)) {
		return nil, r.errorf(SchemaSyntax, end, "", "unexpected text after the schema")
	}
	return n, nil
}

// start is the offset at which the next token begins.
func (r *jsonReader) start() int64 {
	i := r.dec.InputOffset()
	for i < int64(len(r.data)) && strings.IndexByte(" \t\r\n,:", r.data[i]) >= 0 {
		i++
	}
	return i
}

func (r *jsonReader) token() (json.Token, int64, error) {
	at := r.start()
	tok, err := r.dec.Token()
	if err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax):
			// Inside a string or number the decoder knows better than we where it stopped.
			return nil, at, r.errorf(SchemaSyntax, max(syntax.Offset-1, at), "", "%s", syntax.Error())
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, at, r.errorf(SchemaSyntax, int64(len(r.data)), "", "the text ends in the middle of a value")
		}
		return nil, at, r.errorf(SchemaSyntax, at, "", "%s", err.Error())
	}
	return tok, at, nil
}

func (r *jsonReader) value(depth int) (*jsonNode, error) {
	tok, at, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &jsonNode{offset: at}
	switch v := tok.(type) {
	case nil:
		n.kind = jsonNull
	case bool:
		n.kind, n.truth = jsonBool, v
	case json.Number:
		n.kind, n.text = jsonNumber, v.String()
	case string:
		n.kind, n.text = jsonString, v
	case json.Delim:
		if depth == maxJSONDepth {
			return nil, r.errorf(SchemaLimit, at, "", "nested deeper than %d", maxJSONDepth)
		}
		if v == '[' {
			n.kind = jsonArray
			return n, r.array(n, depth)
		}
		n.kind = jsonObject
		return n, r.object(n, depth)
	}
	return n, nil
}

func (r *jsonReader) array(n *jsonNode, depth int) error {
	for r.dec.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, _, err := r.token()
	return err
}

func (r *jsonReader) object(n *jsonNode, depth int) error {
	seen := map[string]bool{}
	for r.dec.More() {
		tok, at, err := r.token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		if seen[key] {
			return r.errorf(SchemaSyntax, at, "remove one", "key %q stands twice", key)
		}
		seen[key] = true
		value, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.members = append(n.members, jsonMember{key, at, value})
	}
	_, _, err := r.token()
	return err
}

// jsonField is one known key of an object. A key whose value is null counts as absent.
type jsonField struct {
	key string
	set func(n *jsonNode, path string) error
}

// fields hands each member of an object to its field and refuses keys that no field knows.
func (r *jsonReader) fields(n *jsonNode, path string, known []jsonField) error {
	if n.kind != jsonObject {
		return r.wrongKind(n, path, jsonObject)
	}
next:
	for _, m := range n.members {
		for _, f := range known {
			if f.key == m.key {
				if m.value.kind == jsonNull {
					continue next
				}
				if err := f.set(m.value, joinPath(path, m.key)); err != nil {
					return err
				}
				continue next
			}
		}
		keys := make([]string, len(known))
		for i, f := range known {
			keys[i] = f.key
		}
		where := "the schema"
		if path != "" {
			where = path
		}
		return r.errorf(SchemaUnknownKey, m.offset, suggest(m.key, keys), "unknown key %q in %s", m.key, where)
	}
	return nil
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (r *jsonReader) wrongKind(n *jsonNode, path string, want jsonKind) error {
	if path == "" {
		path = "the schema"
	}
	return r.errorf(SchemaSyntax, n.offset, "", "%s is %s, want %s", path, jsonKindNames[n.kind], jsonKindNames[want])
}

// The functions below return setters for one Go type each.

func (r *jsonReader) str(dst *string) func(*jsonNode, string) error {
	return func(n *jsonNode, path string) error {
		if n.kind != jsonString {
			return r.wrongKind(n, path, jsonString)
		}
		*dst = n.text
		return nil
	}
}

func (r *jsonReader) boolean(dst *bool) func(*jsonNode, string) error {
	return func(n *jsonNode, path string) error {
		if n.kind != jsonBool {
			return r.wrongKind(n, path, jsonBool)
		}
		*dst = n.truth
		return nil
	}
}

func (r *jsonReader) integer(dst *int) func(*jsonNode, string) error {
	return func(n *jsonNode, path string) error {
		if n.kind != jsonNumber {
			return r.wrongKind(n, path, jsonNumber)
		}
		v, err := strconv.ParseInt(n.text, 10, 64)
		if err != nil {
			return r.errorf(SchemaSyntax, n.offset, "", "%s = %s, want an integer of 64 bits", path, clip(n.text))
		}
		*dst = int(v)
		return nil
	}
}

// float reads a number, or one of the strings "inf" and "-inf", which JSON has no number for.
func (r *jsonReader) float(dst *float64) func(*jsonNode, string) error {
	return func(n *jsonNode, path string) error {
		if v, ok := infinity(n); ok {
			*dst = v
			return nil
		}
		if n.kind != jsonNumber {
			return r.wrongKind(n, path, jsonNumber)
		}
		v, err := strconv.ParseFloat(n.text, 64)
		if err != nil {
			return r.errorf(SchemaSyntax, n.offset, "", "%s = %s does not fit a float64", path, clip(n.text))
		}
		*dst = v
		return nil
	}
}

func infinity(n *jsonNode) (float64, bool) {
	if n.kind == jsonString {
		switch n.text {
		case "inf":
			return math.Inf(1), true
		case "-inf":
			return math.Inf(-1), true
		}
	}
	return 0, false
}

// list reads a list of at most limit items; item is called for each.
func (r *jsonReader) list(limit int, item func(n *jsonNode, path string) error) func(*jsonNode, string) error {
	return func(n *jsonNode, path string) error {
		if n.kind != jsonArray {
			return r.wrongKind(n, path, jsonArray)
		}
		if len(n.items) > limit {
			return r.errorf(SchemaLimit, n.offset, "", "%s: size %d, limit %d", path, len(n.items), limit)
		}
		for i, it := range n.items {
			if err := item(it, indexed(path, i)); err != nil {
				return err
			}
		}
		return nil
	}
}

package policy

// This file implements the policy file, in YAML or JSON.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpuemu/internal/diag"
	"gpuemu/internal/receipt"
)

const (
	maxPolicy = 4 << 20 // bytes; required tests may stand in the policy itself
	maxNodes  = 200_000
	maxLevels = 16
)

// node is a value of a policy file with its place, from YAML or JSON alike. One of the fields is set; all are empty for
// null.
type node struct {
	pos    diag.Pos
	scalar any // string, bool or int
	list   []node
	isList bool
	keys   []string // in the order of the file
	fields map[string]node
}

// Parse reads a policy. A name that ends in .json is read as JSON, every other as YAML. The rules are valid, and the
// files that they name are still to be read: LoadFiles.
func Parse(file string, b []byte) (*Rules, error) {
	if len(b) > maxPolicy {
		return nil, diag.Errorf(Limit, "", "%d bytes, at most %d are read", len(b), maxPolicy).At(diag.Pos{File: file})
	}
	var doc node
	var err error
	if strings.EqualFold(path.Ext(file), ".json") {
		doc, err = parseJSON(file, b)
	} else {
		doc, err = parseYAML(file, b)
	}
	if err != nil {
		return nil, err
	}
	r := &Rules{}
	if doc.fields == nil && (doc.scalar != nil || doc.isList) {
		return nil, doc.wrongType("the policy", "keys and values")
	}
	seen := map[string]string{} // key of ours: as it was written
	for _, name := range doc.keys {
		key, known := findKey(name)
		if !known {
			return nil, diag.Errorf(UnknownKey, diag.Suggest(name, keyNames(), "docs/formats/receipt-reasons.md lists the keys"),
				"unknown key %q", clip(name)).At(doc.fields[name].pos)
		}
		if first, twice := seen[key.name]; twice {
			return nil, diag.Errorf(Conflict, "keep one of them", "%s and %s are two names of one key", first,
				name).At(doc.fields[name].pos)
		}
		seen[key.name] = name
		if err := key.set(r, doc.fields[name], name); err != nil {
			return nil, err
		}
	}
	if err := r.Validate(); err != nil {
		if e, ok := err.(*diag.Error); ok {
			e.Pos.File = file
		}
		return nil, err
	}
	return r, nil
}

// parseJSON reads a policy as strictly as a receipt.
func parseJSON(file string, b []byte) (node, error) {
	v, err := receipt.DecodeStrict(b, receipt.Limits{Bytes: maxPolicy, Depth: maxLevels})
	if err != nil {
		var e *diag.Error
		if errors.As(err, &e) {
			code := Syntax
			if e.Code == receipt.DuplicateKey {
				code = DuplicateKey
			}
			e.Pos.File = file
			return node{}, diag.Errorf(code, e.Hint, "%s", e.Msg).At(e.Pos)
		}
		return node{}, err
	}
	return fromJSON(file, v), nil
}

// fromJSON has no places: the strict reader does not keep them.
func fromJSON(file string, v any) node {
	n := node{pos: diag.Pos{File: file}}
	switch v := v.(type) {
	case map[string]any:
		n.fields, n.keys = map[string]node{}, slices.Sorted(maps.Keys(v))
		for key, item := range v {
			n.fields[key] = fromJSON(file, item)
		}
	case []any:
		n.isList = true
		for _, item := range v {
			n.list = append(n.list, fromJSON(file, item))
		}
	case json.Number:
		n.scalar = v.String()
		if i, err := strconv.Atoi(v.String()); err == nil {
			n.scalar = i
		}
	case nil:
	default:
		n.scalar = v
	}
	return n
}

// parseYAML reads one YAML document. Anchors and aliases are refused: a policy needs none, and a short file could stand
// for a gigabyte.
func parseYAML(file string, b []byte) (n node, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return node{pos: diag.Pos{File: file}}, nil // an empty file: the defaults
	case err != nil:
		return node{}, diag.Errorf(Syntax, "", "%q", err.Error()).At(diag.Pos{File: file})
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return node{}, diag.Errorf(Syntax, "a policy is one document", "there is a second document").At(diag.Pos{File: file})
	}
	left := maxNodes
	return fromYAML(file, doc.Content[0], 0, &left)
}

// fromYAML converts a value; left counts down what may still come.
func fromYAML(file string, y *yaml.Node, level int, left *int) (node, error) {
	n := node{pos: diag.Pos{File: file, Line: y.Line, Col: y.Column}}
	if *left--; *left < 0 || level > maxLevels {
		return n, diag.Errorf(Limit, "", "more than %d values or %d levels", maxNodes, maxLevels).At(n.pos)
	}
	if y.Anchor != "" || y.Kind == yaml.AliasNode {
		return n, diag.Errorf(Syntax, "write the value out", "anchors and aliases are not allowed in a policy").At(n.pos)
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.fields = map[string]node{}
		for i := 0; i+1 < len(y.Content); i += 2 {
			key := y.Content[i]
			if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Anchor != "" {
				return n, diag.Errorf(Syntax, "put quotes around it", "a key that is no text").
					At(diag.Pos{File: file, Line: key.Line, Col: key.Column})
			}
			value, err := fromYAML(file, y.Content[i+1], level+1, left)
			if err != nil {
				return n, err
			}
			value.pos = diag.Pos{File: file, Line: key.Line, Col: key.Column}
			if _, twice := n.fields[key.Value]; twice {
				return n, diag.Errorf(DuplicateKey, "keep one of the two", "the key %q stands there twice",
					clip(key.Value)).At(value.pos)
			}
			n.fields[key.Value], n.keys = value, append(n.keys, key.Value)
		}
	case yaml.SequenceNode:
		n.isList = true
		for _, item := range y.Content {
			v, err := fromYAML(file, item, level+1, left)
			if err != nil {
				return n, err
			}
			n.list = append(n.list, v)
		}
	case yaml.ScalarNode:
		return n, n.scalarOf(y)
	}
	return n, nil
}

// scalarOf takes text, truth values and whole numbers; everything else that YAML resolves to (dates, fractions) stays
// the text it was.
func (n *node) scalarOf(y *yaml.Node) error {
	switch y.ShortTag() {
	case "!!null":
	case "!!bool":
		n.scalar = strings.EqualFold(y.Value, "true")
	case "!!int":
		i, err := strconv.Atoi(y.Value)
		if err != nil {
			return diag.Errorf(BadValue, "write it with decimal digits", "the number %q", clip(y.Value)).At(n.pos)
		}
		n.scalar = i
	case "!!str", "!!float", "!!timestamp":
		n.scalar = y.Value
	default:
		return diag.Errorf(Syntax, "", "the tag %q is not allowed in a policy", clip(y.Tag)).At(n.pos)
	}
	return nil
}

func (n node) wrongType(key, want string) error {
	got := "null"
	switch {
	case n.isList:
		got = "a list"
	case n.fields != nil:
		got = "a table"
	case n.scalar != nil:
		got = fmt.Sprintf("%q", clip(fmt.Sprint(n.scalar)))
	}
	return diag.Errorf(WrongType, "", "%s is %s, want %s", key, got, want).At(n.pos)
}

func (n node) text(key string, to *string) error {
	s, ok := n.scalar.(string)
	if !ok || s == "" {
		return n.wrongType(key, "text")
	}
	*to = s
	return nil
}

func (n node) truth(key string, to *bool) error {
	b, ok := n.scalar.(bool)
	if !ok {
		return n.wrongType(key, "true or false")
	}
	*to = b
	return nil
}

func (n node) count(key string, to *int) error {
	i, ok := n.scalar.(int)
	if !ok {
		return n.wrongType(key, "a whole number")
	}
	*to = i
	return nil
}

// texts reads a list of texts. An empty list is not the same as none, and has no meaning where none is given.
func (n node) texts(key string, to *[]string) error {
	if !n.isList {
		return n.wrongType(key, "a list")
	}
	list := []string{}
	for i, item := range n.list {
		var s string
		if err := item.text(fmt.Sprintf("%s[%d]", key, i), &s); err != nil {
			return err
		}
		list = append(list, s)
	}
	*to = list
	return nil
}

// some reads a list that is not empty.
func (n node) some(key string, to *[]string) error {
	if n.isList && len(n.list) == 0 {
		return diag.Errorf(BadValue, "leave the key out, or name something", "%s is an empty list", key).At(n.pos)
	}
	return n.texts(key, to)
}

// clip cuts text that goes into a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

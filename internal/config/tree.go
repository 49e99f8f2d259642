// This file implements the document as a tree in which every value knows where it stands.

package config

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"gpuemu/internal/diag"
)

// node is one value of the document: a table, a list or a scalar.
//
// The decoder of go-toml gives values and enforces the rules of TOML, its parser gives positions; a node holds both.
// Offsets are in bytes from the start of the document.
type node struct {
	parent *node
	key    string // last part of the key; "" for items of a list and for the document
	val    any    // map[string]any, []any, string, int64, float64, bool, or a date of go-toml

	keyAt   int // the last part of the key
	at, end int // the value: all of it for scalars and keys of one line, else from where it starts

	inline bool // a table written in braces or a list written in brackets
	header int  // end of the line [table] or [[table]]; 0: none
	last   int  // end of the last value that stands under that header; 0: none

	kids  []*node // of a table, in the order of the document
	byKey map[string]*node
	items []*node // of a list
}

// child returns the node of a key, which it makes where there is none.
func (n *node) child(key string, at int) *node {
	if kid := n.byKey[key]; kid != nil {
		return kid
	}
	kid := &node{parent: n, key: key, keyAt: at, at: at, end: at + len(key)}
	if n.byKey == nil {
		n.byKey = map[string]*node{}
	}
	n.byKey[key] = kid
	n.kids = append(n.kids, kid)
	return kid
}

// newest returns what a header refers to: of a list of tables its last entry.
func (n *node) newest() *node {
	if len(n.items) > 0 {
		return n.items[len(n.items)-1]
	}
	return n
}

// path returns the dotted key, "ci.quick.dtypes". Entries of lists have no number: positions tell them apart.
func (n *node) path() string {
	const most = 8 // parts; nothing that is read lies deeper, and a document may nest very deeply
	var parts []string
	for ; n != nil && len(parts) < most; n = n.parent {
		if n.key != "" {
			parts = append([]string{n.key}, parts...)
		}
	}
	return strings.Join(parts, ".")
}

// parseTree reads a document.
func parseTree(path string, data []byte) (*node, error) {
	values := map[string]any{}
	if err := toml.Unmarshal(data, &values); err != nil {
		return nil, syntaxError(path, data, err)
	}
	root := &node{}
	section := root
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table:
			section = root.section(data, e)
		case unstable.ArrayTable:
			list := root.section(data, e)
			section = &node{parent: list, keyAt: list.keyAt, at: list.at, end: list.end, header: list.header}
			list.items = append(list.items, section)
		case unstable.KeyValue:
			section.keyValue(data, e)
			section.last = int(e.Raw.Offset + e.Raw.Length)
		}
	}
	if err := p.Error(); err != nil { // cannot be: the decoder, which uses the same parser, has accepted the text
		return nil, diag.Errorf(Syntax, "", "%s: %s", path, err)
	}
	root.attach(values)
	return root, nil
}

// section returns the table that a header names; of a [[header]] the list.
func (n *node) section(data []byte, e *unstable.Node) *node {
	at := n
	for it := e.Key(); it.Next(); {
		k := it.Node()
		start := int(k.Raw.Offset)
		at = at.newest().child(string(k.Data), start)
		if it.IsLast() {
			end := start + int(k.Raw.Length)
			at.header, at.keyAt, at.at, at.end = lineEnd(data, end), start, start, end
		}
	}
	return at
}

// keyValue adds "key = value" to a table.
func (n *node) keyValue(data []byte, e *unstable.Node) {
	at, end := n, 0
	for it := e.Key(); it.Next(); {
		k := it.Node()
		start := int(k.Raw.Offset)
		at = at.child(string(k.Data), start)
		end = start + int(k.Raw.Length)
	}
	rest := data[end:]
	rest = bytes.TrimLeft(rest[bytes.IndexByte(rest, '=')+1:], " \t")
	at.at, at.end = len(data)-len(rest), int(e.Raw.Offset+e.Raw.Length)
	at.content(data, e.Value())
}

// content adds what stands inside of a value.
func (n *node) content(data []byte, v *unstable.Node) {
	switch v.Kind {
	case unstable.InlineTable:
		n.inline = true
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				n.keyValue(data, it.Node())
			}
		}
	case unstable.Array:
		n.inline = true
		for it := v.Children(); it.Next(); {
			c := it.Node()
			if c.Kind == unstable.Comment {
				continue
			}
			item := &node{parent: n, keyAt: n.keyAt, at: n.at, end: n.at + 1} // the parser has no place of inner lists
			if c.Raw.Length > 0 {
				item.at, item.end = int(c.Raw.Offset), int(c.Raw.Offset+c.Raw.Length)
			}
			item.content(data, c)
			n.items = append(n.items, item)
		}
	}
}

// attach hands the values to the nodes.
func (n *node) attach(v any) {
	n.val = v
	switch v := v.(type) {
	case map[string]any:
		for _, kid := range n.kids {
			kid.attach(v[kid.key])
		}
	case []any:
		for i, item := range n.items {
			if i < len(v) {
				item.attach(v[i])
			}
		}
	}
}

// lineEnd returns the offset of the end of the line that holds at, without its line break.
func lineEnd(data []byte, at int) int {
	i := bytes.IndexByte(data[at:], '\n')
	if i < 0 {
		return len(data)
	}
	return at + len(bytes.TrimSuffix(data[at:at+i], []byte("\r")))
}

// position converts an offset into line and column, the column in bytes as compilers count.
func position(path string, data []byte, at int) diag.Pos {
	before := data[:at]
	return diag.Pos{File: path, Line: bytes.Count(before, []byte("\n")) + 1,
		Col: at - (bytes.LastIndexByte(before, '\n') + 1) + 1}
}

// syntaxError turns the decoder's error into ours. What stands at its place decides the hint.
func syntaxError(path string, data []byte, err error) error {
	e := diag.Errorf(Syntax, "", "%s", strings.TrimPrefix(err.Error(), "toml: ")).At(diag.Pos{File: path})
	var at *toml.DecodeError
	if !errors.As(err, &at) {
		return e
	}
	e.Pos.Line, e.Pos.Col = at.Position()
	lines := bytes.SplitAfterN(data, []byte("\n"), e.Pos.Line+1)
	line := lines[min(e.Pos.Line, len(lines))-1]
	col := min(e.Pos.Col-1, len(line))
	token := line[col:]
	if i := bytes.IndexAny(token, " \t\r\n,]}#"); i >= 0 {
		token = token[:i]
	}
	before := bytes.TrimRight(line[:col], " \t")
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		e.Hint = "save the file as UTF-8 without a byte order mark"
	case len(token) >= 19 && len(bytes.Trim(token, "0123456789_")) == 0:
		e.Hint = `TOML integers end at 9223372036854775807: write a larger seed as a string, in quotes`
	case bytes.HasSuffix(before, []byte("=")) && len(token) > 0 && isLetter(token[0]):
		e.Hint = "strings need quotes, and true and false are lower case"
	}
	return e
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// This file implements reading tables by a list of their keys, and collecting everything that is wrong with them.

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpuemu/internal/diag"
)

// key is one key of a table: the one definition from which it is read, described to editors and documented.
type key struct {
	name string
	doc  string
	value
}

// value is a kind of value, bound to the variable it is read into.
type value struct {
	kind   string                   // in words, for messages and for docs/config.md: "a list of dtypes"
	schema func() map[string]any    // JSON Schema of it
	read   func(r *reader, n *node) // sets the variable, or reports a fault
	needed bool                     // the table cannot do without it
	keys   []key                    // of a table or of the entries of a list of tables
}

// required marks a value that a table cannot do without.
func (v value) required() value {
	v.needed = true
	return v
}

// reader collects the faults of one document.
type reader struct {
	path   string
	data   []byte
	faults []*diag.Error
}

// fault notes that something is wrong at an offset.
func (r *reader) fault(code diag.Code, at int, hint, format string, args ...any) *diag.Error {
	e := diag.Errorf(code, hint, format, args...)
	e.Pos.Line = at // an offset until err, which sorts and converts
	r.faults = append(r.faults, e)
	return e
}

// bad notes that a value is not allowed. The message shows it as it is written.
func (r *reader) bad(n *node, hint string) {
	r.fault(BadValue, n.at, hint, "%s is %s", n.path(), r.text(n))
}

// wrong notes that a value has another type than it needs.
func (r *reader) wrong(n *node, want string) {
	got := r.text(n)
	switch n.val.(type) {
	case map[string]any:
		got = "a table"
	case []any:
		got = "a list"
	}
	r.fault(WrongType, n.at, "give "+want, "%s is %s, want %s", n.path(), got, want)
}

// text returns a scalar as it stands in the document, not too much of it.
func (r *reader) text(n *node) string {
	const most = 60
	if n.end > len(r.data) || n.end <= n.at {
		return fmt.Sprint(n.val)
	}
	text := strings.Join(strings.Fields(string(r.data[n.at:n.end])), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// table reads every key of a table and reports those that are not known.
func (r *reader) table(n *node, keys []key) {
	if _, ok := n.val.(map[string]any); !ok {
		r.wrong(n, "a table")
		return
	}
	for _, kid := range n.kids {
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == kid.key })
		if i < 0 {
			r.unknown(kid, keys)
			continue
		}
		keys[i].read(r, kid)
	}
	for _, k := range keys {
		if k.needed && n.byKey[k.name] == nil {
			r.fault(MissingKey, n.keyAt, "add "+k.name+" = …: "+k.doc, "%s has no %s", n.path(), k.name)
		}
	}
}

// unknown reports a key that nothing reads.
func (r *reader) unknown(n *node, keys []key) {
	const most = 24
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	where := "in the document"
	if n.parent.path() != "" {
		where = "in " + n.parent.path()
	}
	listed := "known are " + strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		listed += " and more: see docs/config.md"
	}
	r.fault(UnknownKey, n.keyAt, diag.Suggest(n.key, names, listed), "unknown key %q %s", n.key, where)
}

// err returns what is wrong with the document in the order of its lines: nil, one *diag.Error or Faults.
func (r *reader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(x, y *diag.Error) int { return cmp.Compare(x.Pos.Line, y.Pos.Line) })
	const most = 20 // faults that are shown: the first ones usually explain the rest
	more := max(0, len(r.faults)-most)
	r.faults = r.faults[:len(r.faults)-more]
	for _, e := range r.faults {
		e.Pos = position(r.path, r.data, e.Pos.Line)
	}
	if len(r.faults) == 1 {
		return r.faults[0]
	}
	return &Faults{List: r.faults, More: more}
}

// Faults is everything that is wrong with a document, where that is more than one thing.
type Faults struct {
	List []*diag.Error // in the order of the document
	More int           // further ones that are not in the list
}

// Error returns one line per fault, each with its hint.
func (f *Faults) Error() string {
	var lines []string
	for _, e := range f.List {
		line := e.Error()
		if e.Hint != "" {
			line += ": " + e.Hint
		}
		lines = append(lines, line)
	}
	if f.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", f.More))
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the single faults.
func (f *Faults) Unwrap() []error {
	var errs []error
	for _, e := range f.List {
		errs = append(errs, e)
	}
	return errs
}

// Hint stands in for the hints of the single faults, which Error shows already.
func (f *Faults) Hint() string {
	return fmt.Sprintf("%d faults: docs/config.md describes every key", len(f.List)+f.More)
}

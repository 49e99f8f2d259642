package launchfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gpuemu/internal/diag"
)

// This file implements the objects of a launch file: their keys, each of which is known and stands there once.

// The keys of the objects. Values of notes are not looked at; note is what earlier examples called them.
var (
	fileKeys = []string{"ptx", "entry", "grid", "block", "dynamic_shared", "memory", "args", "expected", "notes", "note"}
	argKeys  = []string{"kind", "name", "dtype", "shape", "role", "file", "valid", "value", "notes", "note"}
	wantKeys = []string{"name", "file", "match", "nan_any", "ulp", "abs", "notes", "note"}
)

// object is a JSON object with the way to it, such as args[2].
type object struct {
	file, path string
	text       []byte // of the file
	members    map[string]value
}

// value is a JSON value and where it begins in the file.
type value struct {
	raw json.RawMessage
	at  int
}

// newObject reads an object that may have some keys. The text of the file is valid JSON.
func newObject(file, path string, text []byte, v value, known []string) (*object, error) {
	o := &object{file: file, path: path, text: text, members: map[string]value{}}
	dec := json.NewDecoder(bytes.NewReader(v.raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		what := path
		if what == "" {
			what = "the launch file"
		}
		return nil, diag.Errorf(BadKey, "", "%s is not an object", what).At(diag.Pos{File: file})
	}
	for dec.More() {
		at := v.at + begin(v.raw, int(dec.InputOffset()))
		token, err := dec.Token()
		if err != nil {
			return nil, syntaxError(file, text)
		}
		key, _ := token.(string)
		if err := o.checkKey(key, at, known); err != nil {
			return nil, err
		}
		member := value{}
		if err := dec.Decode(&member.raw); err != nil {
			return nil, syntaxError(file, text)
		}
		member.at = v.at + int(dec.InputOffset()) - len(member.raw)
		o.members[key] = member
	}
	return o, nil
}

// begin is where the next value or key begins after an offset: white space and what separates values comes before it.
func begin(raw []byte, at int) int {
	for at < len(raw) && strings.IndexByte(" \t\r\n,", raw[at]) >= 0 {
		at++
	}
	return at
}

// checkKey refuses a key that nothing reads and one that stands there before.
func (o *object) checkKey(key string, at int, known []string) error {
	for _, name := range known {
		if name != key {
			continue
		}
		first, twice := o.members[key]
		if twice {
			return o.fault(BadKey, key, "keep one of the two", "stands there twice, before at line %d",
				position(o.file, o.text, first.at).Line).At(position(o.file, o.text, at))
		}
		return nil
	}
	hint := diag.Suggest(key, known,
		"free text goes into notes; the other keys are "+strings.Join(known[:len(known)-2], ", "))
	return o.fault(BadKey, key, hint, "is not a key of launch files").At(position(o.file, o.text, at))
}

// list returns the values of a list; there is none where the key is left out or null.
func (o *object) list(key string) ([]value, error) {
	v, ok := o.members[key]
	if !ok || string(v.raw) == "null" {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(v.raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('[') {
		return nil, o.fault(BadKey, key, "", "must be a list")
	}
	var list []value
	for dec.More() {
		var item value
		if err := dec.Decode(&item.raw); err != nil {
			return nil, syntaxError(o.file, o.text)
		}
		item.at = v.at + int(dec.InputOffset()) - len(item.raw)
		list = append(list, item)
	}
	return list, nil
}

// position is the line and the column of an offset.
func position(file string, text []byte, at int) diag.Pos {
	before := text[:max(min(at, len(text)), 0)]
	return diag.Pos{File: file, Line: bytes.Count(before, []byte("\n")) + 1,
		Col: len(before) - bytes.LastIndexByte(before, '\n')}
}

// syntaxError says where a text stops to be JSON.
func syntaxError(file string, text []byte) error {
	var v any
	err := json.Unmarshal(text, &v)
	pos := diag.Pos{File: file}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		pos = position(file, text, min(int(syntax.Offset), len(text))-1)
	}
	return diag.Errorf(Syntax, `values that JSON does not have are strings: "NaN", "Infinity"`, "%w", err).At(pos)
}

// fault is an error about one key.
func (o *object) fault(code diag.Code, key, hint, format string, args ...any) *diag.Error {
	if o.path != "" {
		key = o.path + "." + key
	}
	return diag.Errorf(code, hint, "%s %s", key, fmt.Sprintf(format, args...)).At(diag.Pos{File: o.file})
}

// get sets dst to the value of a key and reports whether there is one; null is none.
func (o *object) get(key string, dst any) (bool, error) {
	v, ok := o.members[key]
	if !ok || string(v.raw) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(v.raw, dst); err != nil {
		return false, o.fault(BadKey, key, "", "must be %s", kindOf(dst))
	}
	return true, nil
}

func kindOf(dst any) string {
	switch dst.(type) {
	case *string:
		return "a string"
	case *bool:
		return "true or false"
	case *int:
		return "a whole number"
	case *[]int64:
		return "a list of whole numbers"
	case *float64:
		return "a number"
	case *[][]int:
		return "a list of pairs of whole numbers"
	}
	return "a list"
}

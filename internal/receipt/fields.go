package receipt

// This file implements the strict way from JSON values to the structs of the formats.

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/diag"
)

// assign fills the struct that to points at from v, which stands at path in the file. It is stricter than
// encoding/json, which takes keys in any case, leaves out what is null and does not miss what is absent:
//   - every key must be a field, spelt as in its json tag;
//   - every field must be there unless its tag says omitempty;
//   - null is for pointers alone;
//   - a field of type any or map[string]any takes every JSON value, or object.
func assign(path string, v any, to any) error {
	return assignValue(path, v, reflect.ValueOf(to).Elem())
}

var bytesType = reflect.TypeFor[[]byte]()

func assignValue(path string, v any, to reflect.Value) error {
	switch to.Kind() {
	case reflect.Interface:
		if v != nil {
			to.Set(reflect.ValueOf(v))
		}
		return nil
	case reflect.Pointer:
		if v == nil {
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		return assignValue(path, v, to.Elem())
	case reflect.Struct:
		return assignStruct(path, v, to)
	case reflect.Slice:
		if to.Type() == bytesType {
			return assignBytes(path, v, to)
		}
		return assignSlice(path, v, to)
	case reflect.Map:
		return assignMap(path, v, to)
	}
	return assignScalar(path, v, to)
}

// pathOf is the place of a field for a message.
func pathOf(path, name string) string {
	if !plainName(name) {
		return path + "[" + strconv.Quote(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// plainName reports whether a key needs no quotes in a path.
func plainName(name string) bool {
	for _, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 40
}

// place names path in a message; the whole value has no path.
func place(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

func assignStruct(path string, v any, to reflect.Value) error {
	object, ok := v.(map[string]any)
	if !ok {
		return wrongType(path, v, "an object")
	}
	known := map[string]bool{}
	for i := range to.NumField() {
		name, options, _ := strings.Cut(to.Type().Field(i).Tag.Get("json"), ",")
		known[name] = true
		value, ok := object[name]
		if !ok && options != "omitempty" {
			return diag.Errorf(MissingField, "", "%s has no field %q", place(path), name)
		}
		if ok {
			if err := assignValue(pathOf(path, name), value, to.Field(i)); err != nil {
				return err
			}
		}
	}
	names := slices.Sorted(maps.Keys(known))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !known[key] {
			return diag.Errorf(UnknownField, diag.Suggest(key, names, "known fields: "+strings.Join(names, ", ")),
				"%s has the unknown field %q", place(path), key)
		}
	}
	return nil
}

func assignSlice(path string, v any, to reflect.Value) error {
	list, ok := v.([]any)
	if !ok {
		return wrongType(path, v, "a list")
	}
	to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
	for i, item := range list {
		if err := assignValue(path+"["+strconv.Itoa(i)+"]", item, to.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func assignMap(path string, v any, to reflect.Value) error {
	object, ok := v.(map[string]any)
	if !ok {
		return wrongType(path, v, "an object")
	}
	to.Set(reflect.MakeMapWithSize(to.Type(), len(object)))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		item := reflect.New(to.Type().Elem()).Elem()
		if err := assignValue(pathOf(path, key), object[key], item); err != nil {
			return err
		}
		to.SetMapIndex(reflect.ValueOf(key), item)
	}
	return nil
}

func assignBytes(path string, v any, to reflect.Value) error {
	text, ok := v.(string)
	if !ok {
		return wrongType(path, v, "a string")
	}
	b, err := decodeBase64(text)
	if err != nil {
		return diag.Errorf(BadValue, "", "%s: %w", path, err)
	}
	to.SetBytes(b)
	return nil
}

func assignScalar(path string, v any, to reflect.Value) error {
	number, isNumber := v.(json.Number)
	switch to.Kind() {
	case reflect.String:
		if to.Type() == reflect.TypeFor[json.Number]() {
			if !isNumber {
				return wrongType(path, v, "a number")
			}
			to.SetString(string(number))
			return nil
		}
		text, ok := v.(string)
		if !ok {
			return wrongType(path, v, "a string")
		}
		to.SetString(text)
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			return wrongType(path, v, "true or false")
		}
		to.SetBool(b)
	case reflect.Int:
		n, err := strconv.ParseInt(string(number), 10, 64)
		if !isNumber || err != nil {
			return wrongType(path, v, "an integer")
		}
		to.SetInt(n)
	case reflect.Float64:
		f, err := pythonFloat(number)
		if !isNumber || err != nil || isNonFinite(number) {
			return wrongType(path, v, "a finite number")
		}
		to.SetFloat(f)
	default:
		panic("receipt: internal error: a field of type " + to.Type().String())
	}
	return nil
}

// wrongType is the error for a value that is not of the type it should have.
func wrongType(path string, v any, want string) error {
	got := "null"
	switch v := v.(type) {
	case bool:
		got = strconv.FormatBool(v)
	case string:
		got = "the text " + strconv.Quote(shorten(v))
	case json.Number:
		got = "the number " + shorten(string(v))
	case []any:
		got = "a list"
	case map[string]any:
		got = "an object"
	}
	return diag.Errorf(WrongType, "", "%s is %s, want %s", place(path), got, want)
}

// shorten cuts text that goes into a message.
func shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// decodeBase64 takes the standard alphabet with padding and nothing else: no line breaks, no spare bits. The original
// dropped what it did not know, so that one signature had many spellings.
func decodeBase64(text string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err == nil && base64.StdEncoding.EncodeToString(b) != text {
		err = fmt.Errorf("line breaks") // the decoder skips them
	}
	if err != nil {
		return nil, fmt.Errorf("not base64 in its standard form: %w", err)
	}
	return b, nil
}

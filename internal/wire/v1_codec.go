package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// This file implements reading requests and writing replies of protocol v1.
//
// Reading is done by reflection on the request types and not by encoding/json alone, for two reasons. Missing fields
// must be refused, at every depth, and encoding/json does not tell missing from zero. And most bytes of a request are
// tensors in base64: encoding/json looks at each byte several times before it decodes it, which costs more than all the
// rest. Here members skips to the closing quote, and only the base64 decoder looks inside.

// v1Requests lists the request types. Their names on the wire are those of the types without V1.
var v1Requests = []V1Request{
	V1Ping{}, V1Shutdown{}, V1ValidateOp{}, V1GetResult{}, V1ListResults{}, V1StoreBaseline{}, V1CompareBaseline{},
	V1FuzzOp{}, V1Reproduce{}, V1Minimize{}, V1ListFailures{}, V1LintKernel{}, V1StoreArtifact{},
	V1StoreArtifactBaseline{}, V1DiffArtifactBaseline{}, V1GetArtifact{}, V1ListArtifacts{}, V1RunCi{},
	V1GetCiSummary{}, V1GetTestCase{}, V1GetTestBatch{}, V1SubmitOutput{},
}

// V1DecodeError says what is wrong with a request. Its text is the message of the V1Error to answer with, code
// V1InvalidRequest.
type V1DecodeError struct {
	Path   string // of the field, such as inputs.x.shape; "" for the request itself
	Reason string
}

func (e *V1DecodeError) Error() string {
	if e.Path == "" {
		return "Invalid request: JSON error: " + e.Reason
	}
	return "Invalid request: JSON error: " + e.Path + ": " + e.Reason
}

// DecodeV1 reads a request. Unknown fields are ignored; every field that is not a pointer must be there. Errors are
// *V1DecodeError. Tensors are not checked: see TensorData.Check.
func DecodeV1(body []byte) (V1Request, error) {
	fields, err := members(body)
	if err != nil {
		return nil, &V1DecodeError{Reason: err.Error()}
	}
	raw, ok := fields["type"]
	if !ok {
		return nil, &V1DecodeError{Reason: "missing field `type`"}
	}
	var name string
	if err := json.Unmarshal(raw, &name); err != nil {
		return nil, &V1DecodeError{Path: "type", Reason: jsonReason(err)}
	}
	for _, r := range v1Requests {
		if v1Name(r) != name {
			continue
		}
		v := reflect.New(reflect.TypeOf(r)).Elem()
		delete(fields, "type")
		if err := decodeStruct(v, fields, ""); err != nil {
			return nil, err
		}
		return v.Interface().(V1Request), nil
	}
	known := make([]string, len(v1Requests))
	for i, r := range v1Requests {
		known[i] = v1Name(r)
	}
	return nil, &V1DecodeError{Reason: unknownVariant(name, known)}
}

// v1Name is the name of a message on the wire. "Reply" keeps apart a reply and the structure of the same name in it.
func v1Name(message any) string {
	return strings.TrimSuffix(strings.TrimPrefix(reflect.TypeOf(message).Name(), "V1"), "Reply")
}

func unknownVariant(name string, known []string) string {
	return fmt.Sprintf("unknown variant `%s`, expected one of `%s`", name, strings.Join(known, "`, `"))
}

// decodeStruct fills v from the members of an object.
func decodeStruct(v reflect.Value, fields map[string][]byte, path string) error {
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("json")
		raw, ok := fields[name]
		delete(fields, name)
		optional := v.Field(i).Kind() == reflect.Pointer
		if optional && (!ok || string(raw) == "null") {
			continue
		}
		if !ok {
			return &V1DecodeError{Path: path, Reason: "missing field `" + name + "`"}
		}
		if err := decodeValue(v.Field(i), raw, join(path, name)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) { // ignored, but it must be JSON
		if !json.Valid(fields[name]) {
			return &V1DecodeError{Path: join(path, name), Reason: "expected value"}
		}
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

var bytesType = reflect.TypeFor[[]byte]()

// decodeValue fills v, which is of one of the kinds that requests are made of.
func decodeValue(v reflect.Value, raw []byte, path string) error {
	if string(raw) == "null" {
		return &V1DecodeError{Path: path, Reason: "invalid type: null"}
	}
	switch kind := v.Kind(); {
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeValue(v.Elem(), raw, path)
	case kind == reflect.Struct:
		fields, err := members(raw)
		if err != nil {
			return &V1DecodeError{Path: path, Reason: err.Error()}
		}
		return decodeStruct(v, fields, path)
	case kind == reflect.Map:
		fields, err := members(raw)
		if err != nil {
			return &V1DecodeError{Path: path, Reason: err.Error()}
		}
		v.Set(reflect.MakeMapWithSize(v.Type(), len(fields)))
		for _, name := range slices.Sorted(maps.Keys(fields)) { // sorted, so that the first error is always the same
			elem := reflect.New(v.Type().Elem()).Elem()
			if err := decodeValue(elem, fields[name], join(path, name)); err != nil {
				return err
			}
			v.SetMapIndex(reflect.ValueOf(name), elem)
		}
		return nil
	case v.Type() == bytesType:
		data, err := unbase64(raw)
		if err != nil {
			return &V1DecodeError{Path: path, Reason: err.Error()}
		}
		v.SetBytes(data)
		return nil
	case kind == reflect.Slice:
		return decodeSlice(v, raw, path)
	}
	if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
		return &V1DecodeError{Path: path, Reason: jsonReason(err)}
	}
	if w, ok := v.Interface().(interface{ words() []string }); ok && !slices.Contains(w.words(), v.String()) {
		return &V1DecodeError{Path: path, Reason: unknownVariant(v.String(), w.words())}
	}
	return nil
}

func decodeSlice(v reflect.Value, raw []byte, path string) error {
	if n := bytes.Count(raw, []byte(",")); n >= maxList {
		return &V1DecodeError{Path: path, Reason: fmt.Sprintf("list of more than %d elements", maxList)}
	}
	var elems []json.RawMessage
	if err := json.Unmarshal(raw, &elems); err != nil {
		return &V1DecodeError{Path: path, Reason: jsonReason(err)}
	}
	v.Set(reflect.MakeSlice(v.Type(), len(elems), len(elems)))
	for i, elem := range elems {
		at := fmt.Sprintf("%s[%d]", path, i)
		if err := decodeValue(v.Index(i), elem, at); err != nil {
			return err
		}
		if v.Type() == dimsType && v.Index(i).Int() < 0 {
			return &V1DecodeError{Path: at, Reason: fmt.Sprintf("invalid value: integer `%s`, expected usize", elem)}
		}
	}
	return nil
}

// jsonReason takes Go's names of types and fields out of a message that goes to users of other languages.
func jsonReason(err error) string {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return fmt.Sprintf("invalid type: %s, expected %s", mismatch.Value, mismatch.Type.Kind())
	}
	return err.Error()
}

// unbase64 decodes a JSON string of base64. Without escapes, which base64 does not need, the string is used in place.
func unbase64(raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, errors.New("invalid type: expected a string of base64")
	}
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, errors.New(jsonReason(err))
		}
		text = []byte(s)
	}
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		// Go's decoder would skip them. JSON strings have none, and the published daemon refuses them when escaped.
		return nil, errors.New("base64 with a line break")
	}
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	if err != nil {
		return nil, fmt.Errorf("base64: %w", err)
	}
	return data[:n], nil
}

// EncodeV1 writes a reply: "type" first, then its fields. Lists and maps that are nil are written as empty ones: v1 has
// no null for them. Those within r are replaced by empty ones in place.
func EncodeV1(r V1Reply) ([]byte, error) {
	v := reflect.New(reflect.TypeOf(r)).Elem()
	v.Set(reflect.ValueOf(r))
	fillNil(v)
	var out bytes.Buffer
	out.WriteString(`{"type":"` + v1Name(r) + `"`)
	at := out.Len()
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v.Interface()); err != nil {
		return nil, fmt.Errorf("reply %s: %w", v1Name(r), err)
	}
	b := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if b[at+1] == '}' { // no fields
		return append(b[:at], '}'), nil
	}
	b[at] = ',' // was the brace of the fields
	return b, nil
}

// fillNil replaces nil slices and maps within v by empty ones. A nil pointer stays: it is a null that v1 has.
func fillNil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fillNil(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fillNil(v.Field(i))
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		if v.Type().Elem().Kind() == reflect.Struct || v.Type().Elem().Kind() == reflect.Slice {
			for i := range v.Len() {
				fillNil(v.Index(i))
			}
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for _, key := range v.MapKeys() {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(key))
			fillNil(elem)
			v.SetMapIndex(key, elem)
		}
	}
}

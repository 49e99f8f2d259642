// This file implements the keys of launches: one that nobody reads is refused, or a check that is misspelt would not be
// made and nobody would know.

package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gpuemu/internal/diag"
	"gpuemu/internal/wire"
)

// parseLaunch reads the header of a launch.
func parseLaunch(text []byte, h *wire.EmulateHeader) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(h)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			return badLaunch("the header is more than one launch")
		}
		return nil
	}
	if unknown := unknownKey(text); unknown != nil {
		return unknown
	}
	return badLaunch("the header is not a launch: %v", err)
}

// unknownKey names a key of a header that nobody reads; nil if there is none. It reads the text a second time, which
// headers without a fault are spared.
func unknownKey(text []byte) error {
	var header map[string]json.RawMessage
	var args []map[string]json.RawMessage
	if json.Unmarshal(text, &header) != nil {
		return nil
	}
	if err := checkKeys("the header", header, reflect.TypeFor[wire.EmulateHeader]()); err != nil {
		return err
	}
	if json.Unmarshal(header["args"], &args) != nil {
		return nil
	}
	for i, arg := range args {
		if err := checkKeys(fmt.Sprintf("args[%d]", i), arg, reflect.TypeFor[wire.EmulateArg]()); err != nil {
			return err
		}
	}
	return nil
}

// checkKeys compares keys with those of a struct. As encoding/json does, it does not tell capital letters from others.
func checkKeys(where string, found map[string]json.RawMessage, t reflect.Type) error {
	var known []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known = append(known, name)
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if !slices.ContainsFunc(known, func(name string) bool { return strings.EqualFold(name, key) }) {
			return diag.Errorf(BadRequest, diag.Suggest(key, known, "the keys are "+strings.Join(known, ", ")),
				"%s has the key %q, which launches do not have", where, cut(key, 100))
		}
	}
	return nil
}

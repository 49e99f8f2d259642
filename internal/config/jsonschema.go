// This file implements the JSON Schema of gpuemu.toml, for editors.

package config

import (
	"bytes"
	"encoding/json"
)

//go:generate go test . -count=1 -run Page -update

// JSONSchema returns the JSON Schema (draft 2020-12) of a configuration.
func JSONSchema() []byte {
	s := object(documentKeys(Default(), &aliases{}))
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = FileName
	s["description"] = "The configuration of a gpuemu project. Generated from internal/config: make generate."
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		panic("config: internal error: the schema is not JSON: " + err.Error())
	}
	return b.Bytes()
}

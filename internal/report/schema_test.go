// This file implements the generator of docs/formats/report.schema.json, and its check on real reports.

package report

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// reportSchema makes the schema from the Go types. Strict: nothing besides may stand in a report, which holds for this
// version and is what the tests check; the published one lets later versions add fields.
func reportSchema(t *testing.T, strict bool) *jsonschema.Schema {
	t.Helper()
	var verdicts []any
	for _, v := range verdict.All() {
		verdicts = append(verdicts, v.String())
	}
	zero := 0.0
	s, err := jsonschema.For[Document](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[verdict.Seed]():    {Type: "string", Pattern: "^[0-9]{1,20}$", Description: "unsigned 64-bit number"},
		reflect.TypeFor[verdict.Verdict](): {Type: "string", Enum: verdicts},
		reflect.TypeFor[uint64]():          {Type: "integer", Minimum: &zero},
		reflect.TypeFor[json.RawMessage](): {Type: "object", Description: "docs/formats/lint.md"},
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var format any = Format
	s.Properties["gpuemu_report"] = &jsonschema.Schema{Const: &format, Description: "version of this format"}
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "report of gpuemu, format 1"
	loosen(s, strict)
	return s
}

// loosen allows additional fields unless strict, and takes null from lists that are always written.
func loosen(s *jsonschema.Schema, strict bool) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 && !strict {
		s.AdditionalProperties = nil
	}
	if len(s.Types) == 2 && s.Types[0] == "null" && s.Types[1] == "array" {
		s.Types, s.Type = nil, "array"
	}
	for _, p := range s.Properties {
		loosen(p, strict)
	}
	loosen(s.Items, strict)
}

func TestSchemaPage(t *testing.T) {
	b, err := json.MarshalIndent(reportSchema(t, false), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "../../docs/formats/report.schema.json", append(b, '\n'))
}

func TestReportsKeepTheSchema(t *testing.T) {
	var published jsonschema.Schema
	b, err := json.Marshal(reportSchema(t, false))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &published); err != nil {
		t.Fatal(err)
	}
	merged, err := Merge(shards(5, 2, nil))
	if err != nil {
		t.Fatal(err)
	}
	missing := documentOf()
	missing.Baseline = NoBaseline("x.json", "there is no such file")
	for name, s := range map[string]*jsonschema.Schema{"strict": reportSchema(t, true), "published": &published} {
		resolved, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		check := func(text string) error {
			var v any
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
			return resolved.Validate(v)
		}
		for _, d := range []*Document{everything(""), everything(evil), documentOf(), merged, missing} {
			if err := check(string(written(t, JSON, d.Source()))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		good := string(written(t, JSON, everything("").Source()))
		for _, r := range [][2]string{
			{`"gpuemu_report": 1`, `"gpuemu_report": 2`}, {`"verdict":"pass"`, `"verdict":"passed"`},
			{`"seed":"1001"`, `"seed":1001`}, {`"summary"`, `"sumary"`}, {`"max_abs":0.5`, `"max_abs":"0.5"`},
		} {
			bad := strings.Replace(good, r[0], r[1], 1)
			if bad == good {
				t.Errorf("the report has no %q", r[0])
			}
			if check(bad) == nil {
				t.Errorf("%s: %s passes the schema", name, r[1])
			}
		}
		later := strings.Replace(good, `"version"`, `"later": 1, "version"`, 1)
		if err := check(later); (err == nil) != (name == "published") {
			t.Errorf("%s: a field of a later version: %v", name, err)
		}
	}
}

package daemon

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"gpuemu/internal/testkit"
	"gpuemu/internal/wire"
)

// describer makes the OpenAPI document of the route table.
type describer struct {
	t       *testing.T
	schemas map[string]*jsonschema.Schema
}

// schema returns a reference to the schema of a type.
func (d *describer) schema(value any) map[string]any {
	d.t.Helper()
	if _, raw := value.(json.RawMessage); raw {
		return map[string]any{"type": "object"}
	}
	typ := reflect.TypeOf(value)
	if d.schemas[typ.Name()] == nil {
		s, err := jsonschema.ForType(typ, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[wire.Seed](): {Type: "string", Pattern: "^[0-9]{1,20}$",
				Description: "unsigned 64-bit integer in decimal"},
			reflect.TypeFor[json.RawMessage](): {Description: "a document of the report format, see report.md"},
			reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		}})
		if err != nil {
			d.t.Fatal(err)
		}
		open(s)
		d.schemas[typ.Name()] = s
	}
	return map[string]any{"$ref": "#/components/schemas/" + typ.Name()}
}

// open allows fields that are not known: both sides ignore them.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	s.AdditionalProperties = nil
	for _, p := range s.Properties {
		open(p)
	}
	open(s.Items)
}

func content(mediaType string, schema map[string]any) map[string]any {
	entry := map[string]any{}
	if schema != nil {
		entry["schema"] = schema
	}
	return map[string]any{mediaType: entry}
}

var pathParam = regexp.MustCompile(`\{([a-z]+)\}`)

func (d *describer) operation(rt route) map[string]any {
	var params []any
	for _, m := range pathParam.FindAllStringSubmatch(rt.path, -1) {
		params = append(params, map[string]any{"name": m[1], "in": "path", "required": true,
			"schema": map[string]any{"type": "string"}})
	}
	for _, q := range rt.query {
		params = append(params, map[string]any{"name": q.name, "in": "query", "description": q.what,
			"schema": map[string]any{"type": "string"}})
	}
	op := map[string]any{"summary": rt.summary, "operationId": strings.ToLower(rt.method) +
		strings.NewReplacer("/v1/", "_", "/", "_", ".", "_", "{", "", "}", "").Replace(rt.path)}
	if params != nil {
		op["parameters"] = params
	}
	switch {
	case rt.request != nil:
		op["requestBody"] = map[string]any{"required": true, "content": content(jsonType, d.schema(rt.request))}
	case rt.requestType != "":
		op["requestBody"] = map[string]any{"required": true, "content": content(rt.requestType, nil)}
	}
	media, code := rt.responseType, rt.status
	if media == "" {
		media = jsonType
	}
	if code == 0 {
		code = http.StatusOK
	}
	var schema map[string]any
	if rt.response != nil {
		schema = d.schema(rt.response)
	}
	op["responses"] = map[string]any{
		strconv.Itoa(code): map[string]any{"description": "success", "content": content(media, schema)},
		"default":          map[string]any{"description": "an error", "content": content(jsonType, d.schema(wire.Error{}))},
	}
	return op
}

func document(t *testing.T) ([]byte, *describer) {
	t.Helper()
	d := &describer{t: t, schemas: map[string]*jsonschema.Schema{}}
	paths := map[string]map[string]any{}
	for _, rt := range routes() {
		if paths[rt.path] == nil {
			paths[rt.path] = map[string]any{}
		}
		paths[rt.path][strings.ToLower(rt.method)] = d.operation(rt)
	}
	// Headers of parts, and replies inside events, belong to no route of their own.
	for _, v := range []any{wire.CaseHeader{}, wire.SubmitHeader{}, wire.MinimizeReply{}, wire.CalibrateReply{},
		wire.GradientsHeader{}, wire.CompareHeader{}, wire.EmulateHeader{}, wire.EmulateReply{}} {
		d.schema(v)
	}
	text, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "gpuemu", "version": strconv.Itoa(wire.Protocol),
			"description": "The API of the gpuemu daemon on its Unix socket; docs/formats/http.md explains it."},
		"paths":      paths,
		"components": map[string]any{"schemas": d.schemas},
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n'), d
}

// TestOpenAPI keeps the document that is served and the one in docs in step with the route table.
func TestOpenAPI(t *testing.T) {
	text, _ := document(t)
	testkit.Golden(t, "openapi_gen.json", text)
	testkit.Golden(t, "../../docs/formats/openapi.json", text)
}

// TestEveryRoute: each route of the table is answered by its own handler, and what is served is the document.
func TestEveryRoute(t *testing.T) {
	f := newFixture(t)
	for _, rt := range routes() {
		path := strings.ReplaceAll(rt.path, "{id}", "x")
		_, pattern := f.mux.Handler(httptest.NewRequest(rt.method, path, nil))
		if want := rt.method + " " + rt.path; pattern != want {
			t.Errorf("%s %s goes to %q, want %q", rt.method, path, pattern, want)
		}
	}
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/openapi.json", nil))
	if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), openAPIDocument) {
		t.Errorf("GET /v1/openapi.json: %d, %d bytes, want %d", w.Code, w.Body.Len(), len(openAPIDocument))
	}
}

// docTypes are the types that examples of http.md may have.
func docTypes() map[string]any {
	out := map[string]any{}
	for _, v := range []any{wire.CaseHeader{}, wire.SubmitHeader{}, wire.MinimizeReply{}, wire.CalibrateReply{},
		wire.GradientsHeader{}, wire.CompareHeader{}, wire.EmulateHeader{}, wire.EmulateReply{}, wire.Error{}} {
		out[reflect.TypeOf(v).Name()] = v
	}
	for _, rt := range routes() {
		for _, v := range []any{rt.request, rt.response} {
			if v != nil {
				out[reflect.TypeOf(v).Name()] = v
			}
		}
	}
	return out
}

var docExample = regexp.MustCompile("(?s)<!-- ([A-Za-z]+) -->\n```json\n(.*?)```")

// TestDocExamples: every example of http.md decodes without unknown fields, and every route is explained there.
func TestDocExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/http.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := docExample.FindAllSubmatch(page, -1)
	if len(examples) < 10 || len(examples) != bytes.Count(page, []byte("```json")) {
		t.Errorf("%d examples with a type, %d in all", len(examples), bytes.Count(page, []byte("```json")))
	}
	known := docTypes()
	_, d := document(t)
	for _, m := range examples {
		name := string(m[1])
		if known[name] == nil {
			t.Errorf("example of unknown type %s", name)
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(m[2]))
		dec.DisallowUnknownFields()
		if err := dec.Decode(reflect.New(reflect.TypeOf(known[name])).Interface()); err != nil {
			t.Errorf("example of %s: %v\n%s", name, err, m[2])
		}
		resolved, err := d.schemas[name].Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(m[2], &value); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(value); err != nil {
			t.Errorf("example of %s does not fit the schema: %v", name, err)
		}
	}
	for _, rt := range routes() {
		if line := "`" + rt.method + " " + rt.path + "`"; !bytes.Contains(page, []byte(line)) {
			t.Errorf("http.md does not mention %s", line)
		}
	}
}

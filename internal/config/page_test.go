package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/pelletier/go-toml/v2"

	"gpuemu/internal/dtype"
	"gpuemu/internal/invariant"
	"gpuemu/internal/testkit"
)

// TestSchemaPage keeps docs/formats/gpuemu.schema.json in step with the definition.
func TestSchemaPage(t *testing.T) {
	testkit.Golden(t, "../../docs/formats/gpuemu.schema.json", JSONSchema())
}

// TestConfigPage keeps docs/config.md in step with the definition.
func TestConfigPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# gpuemu.toml\n\nEvery key with its kind, its default and its meaning. An unknown key is an error " +
		"that names the nearest known one. Paths\nare relative to the file. Editors complete and check with " +
		"[the JSON Schema](formats/gpuemu.schema.json). This page is\ngenerated from the definition: `make generate`.\n\n" +
		"The file is looked for in the working directory and, inside a repository or the home directory, above it, up " +
		"to and\nincluding the repository's root or the home directory. One that belongs to another user is refused. " +
		"Every client goes\nby this rule: a command, the Python client or a test of pytest sends where it stands, and the " +
		"engine finds the file.\n`--config` and `GPUEMU_CONFIG` name another. An operator that the file does not have is " +
		"that of the catalogue, with the\nsettings of `[validation]`: for campaigns, replays and clients as for " +
		"`gpuemu cases`, `ops`, `oracle` and `coverage`.\n")
	keys := documentKeys(Default(), &aliases{})
	for _, k := range keys {
		writeTable(&b, k.name, k)
	}
	schema, err := os.ReadFile("testdata/schema.md") // its keys are package opspec's
	if err != nil {
		t.Fatal(err)
	}
	b.Write(schema)
	b.WriteString("\n## Invariants\n\nNames for the key `invariants`. One that the reference's own output violates on a " +
		"case is not applied to that case.\n\n| name | what holds |\n|---|---|\n")
	for _, iv := range invariant.All() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(iv.Form, " or ", "`, `"), iv.Doc)
	}
	b.WriteString("\n## Example\n\n```toml\n")
	example, err := os.ReadFile("testdata/documented.toml")
	if err != nil {
		t.Fatal(err)
	}
	b.Write(example)
	b.WriteString("```\n")
	testkit.Golden(t, "../../docs/config.md", []byte(b.String()))
}

func writeTable(b *strings.Builder, path string, table key) {
	open, closing := "[", "]"
	if table.kind == "a list of tables" {
		open, closing = "[[", "]]"
	}
	fmt.Fprintf(b, "\n## `%s%s%s`\n\n%s.\n\n| key | kind | default | meaning |\n|---|---|---|---|\n", open, path, closing,
		strings.ToUpper(table.doc[:1])+table.doc[1:])
	for _, k := range table.keys {
		def := ""
		if v, ok := k.schema()["default"]; ok {
			text, err := json.Marshal(v)
			if err != nil {
				panic(err)
			}
			def = "`" + strings.ReplaceAll(string(text), ",", ", ") + "`"
		}
		if k.needed {
			def = "needed"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.name, k.kind, def, strings.ReplaceAll(k.doc, "|", `\|`))
	}
	for _, k := range table.keys {
		if len(k.keys) > 0 {
			writeTable(b, path+"."+k.name, k)
		}
	}
}

// validator returns the JSON Schema, ready to use.
func validator(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(JSONSchema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// validate checks a document of TOML against the JSON Schema.
func validate(t *testing.T, schema *jsonschema.Resolved, text string) error {
	t.Helper()
	var doc map[string]any
	if err := toml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return schema.Validate(doc)
}

func TestSchemaAcceptsExamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.toml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d example files, %v, want at least 2", len(files), err)
	}
	schema := validator(t)
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, schema, string(data)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	for _, e := range edits {
		if err := validate(t, schema, e.in); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
	}
}

// TestSchemaRefuses: what an editor can see, it shows. Faults that no JSON Schema can express are left to Parse.
func TestSchemaRefuses(t *testing.T) {
	schema := validator(t)
	for _, text := range []string{
		"nmae = 1", "[project]\nnmae = 'x'", "[[ops]]\ntimeout = 1", "[[ops]]\nname = 'x'\ntimeout = -3",
		"[[ops]]\nname = 'x'\nexecution_mode = 'server'", "[validation]\ndtypes = ['float23']", "[validation]\ndtypes = []",
		"[validation]\ntolerances = { int9 = 1 }", "[validation]\ntolerances = { int8 = { atl = 1 } }",
		"[validation]\ntolerances = { int8 = -1 }", "[validation]\nseed = -1", "[validation]\nseed = 'x'",
		"[ops]\nname = 'x'",
		"[ci]\nparallel = -1", "[ci]\nparallel = 1.5", "[ci]\nquick_dtypes = 'float32'",
	} {
		if _, err := Parse("gpuemu.toml", []byte(text)); err == nil {
			t.Errorf("Parse accepts %q", text)
		}
		if err := validate(t, schema, text); err == nil {
			t.Errorf("the JSON Schema accepts %q", text)
		}
	}
}

func TestDTypeNames(t *testing.T) {
	seen := map[dtype.DType]int{}
	for _, name := range dtypeNames() {
		d, err := dtype.Parse(name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
		}
		seen[d]++
	}
	for _, d := range dtype.All() {
		if short := d != dtype.Bool; seen[d] == 0 || short && seen[d] < 2 {
			t.Errorf("%s has %d names, want the long and a short one", d, seen[d])
		}
	}
}

// samples are values for keys whose schema does not say enough to make one up.
var samples = map[string]any{
	"seed": "18446744073709551615", "tolerances": map[string]any{"float32": 0.5}, "invariants": []any{"finite"},
	"max_sizes":  map[string]any{"H": 64},
	"attributes": map[string]any{"axis": 1}, "kwargs": map[string]any{"axis": 1}, "env": map[string]any{"A": "b"},
	"schema": "softmax", "grid": []any{2}, "block": []any{"N"}, "shared": 7, "args": []any{"x", 1},
	"execution_mode": "worker", "required_patterns": []any{"mma.*"}, "forbidden_patterns": []any{"ld.local"},
	"arch": "sm_90a", "checks": "race", "memory": "6GiB", "ranks": []any{1, 5},
}

// sample returns a value that the schema allows and that is not the default.
func sample(t *testing.T, name string, s *jsonschema.Schema) any {
	t.Helper()
	if v, ok := samples[name]; ok {
		return v
	}
	var def any
	if s.Default != nil {
		if err := json.Unmarshal(s.Default, &def); err != nil {
			t.Fatal(err)
		}
	}
	number, _ := def.(float64)
	switch {
	case len(s.Enum) > 0:
		return s.Enum[slices.IndexFunc(s.Enum, func(v any) bool { return v != def })]
	case s.Type == "string":
		return "something"
	case s.Type == "boolean":
		return def != true
	case s.Type == "integer":
		return int(number) + 1
	case s.Type == "number":
		return number + 0.25
	case s.Type == "array" && len(s.Items.Enum) > 0:
		return s.Items.Enum[3:4] // in none of our defaults
	case s.Type == "array":
		return []any{"something"}
	}
	t.Fatalf("%s: no sample for type %q: add one to samples", name, s.Type)
	return nil
}

// complete is what a table cannot do without.
var complete = map[string]map[string]any{
	"ops": {"name": "x"}, "kernels": {"name": "x", "source": "x.cu"},
	"ops.kernel": {"ptx": "x.ptx", "grid": []any{1}, "block": []any{1}, "args": []any{}},
}

// document returns the text in which the table at a path, "ops.kernel", has a content besides what it needs.
func document(t *testing.T, path string, content map[string]any) string {
	t.Helper()
	parts := strings.Split(path, ".")
	for i := len(parts); i > 0; i-- {
		here := strings.Join(parts[:i], ".")
		table := map[string]any{}
		maps.Copy(table, complete[here])
		maps.Copy(table, content)
		content = map[string]any{parts[i-1]: table}
		if here == "ops" || here == "kernels" {
			content[here] = []any{table}
		}
	}
	text, err := toml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEveryKeyIsRead sets each key of the JSON Schema to another value than its default and looks for the difference.
// Half of the keys of the published program are never read.
func TestEveryKeyIsRead(t *testing.T) {
	var root jsonschema.Schema
	if err := json.Unmarshal(JSONSchema(), &root); err != nil {
		t.Fatal(err)
	}
	schema := validator(t)
	tested := 0
	var walk func(path string, s *jsonschema.Schema)
	walk = func(path string, s *jsonschema.Schema) {
		base := mustParse(t, document(t, path, nil))
		for name, sub := range s.Properties {
			if sub.Properties != nil {
				walk(path+"."+name, sub)
				continue
			}
			text := document(t, path, map[string]any{name: sample(t, name, sub)})
			with := mustParse(t, text)
			with.Digest = base.Digest
			if reflect.DeepEqual(base, with) {
				t.Errorf("%s.%s is not read:\n%s", path, name, text)
			}
			if err := validate(t, schema, text); err != nil {
				t.Errorf("%s.%s: the JSON Schema refuses what Parse accepts: %v\n%s", path, name, err, text)
			}
			tested++
		}
	}
	for name, s := range root.Properties {
		if s.Type == "array" {
			s = s.Items
		}
		walk(name, s)
	}
	if tested < 75 {
		t.Errorf("%d keys were tested, want at least 75", tested)
	}
}

package wire

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

func TestEnvironmentOf(t *testing.T) {
	got := EnvironmentOf([]string{"PATH=/bin", "LC_ALL=C", "CUDA_VISIBLE_DEVICES=", "PYTHONPATH=a=b", "LS_COLORS=x", "=x",
		"y", "SSH_AUTH_SOCK=/s", "GPUEMU_TOKEN=t", "TORCH_api_key=k", "MINE=1", "HF_TOKEN=h",
		"GPUEMU_PASS_ENV=MINE, HF_TOKEN,NONE"})
	want := []string{"CUDA_VISIBLE_DEVICES=", "GPUEMU_PASS_ENV=MINE, HF_TOKEN,NONE", "HF_TOKEN=h", "LC_ALL=C", "MINE=1",
		"PATH=/bin", "PYTHONPATH=a=b"}
	if !slices.Equal(got.List(), want) {
		t.Errorf("EnvironmentOf = %q, want %q", got.List(), want)
	}
}

// TestEmptyEnvironment: a caller without variables is not one that sends none, for which the engine's own count.
func TestEmptyEnvironment(t *testing.T) {
	for _, tt := range []struct {
		env  Environment
		text string
	}{{nil, `{"seed":"0"}`}, {EnvironmentOf(nil), `{"seed":"0","env":{}}`}} {
		text, err := json.Marshal(MinimizeRequest{Env: tt.env})
		if err != nil || string(text) != tt.text {
			t.Errorf("request with the environment %v is %s, %v, want %s", tt.env, text, err, tt.text)
		}
	}
}

// TestEnvironmentPage: the page for users has every name.
func TestEnvironmentPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(append(Carried(), Secret()...), PassVariable) {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/environment.md does not name `%s`", name)
		}
	}
}

// TestEnvironmentPython keeps the names that the Python client sends in step.
func TestEnvironmentPython(t *testing.T) {
	var b strings.Builder
	b.WriteString("\"\"\"What of the environment requests carry. Written by the tests of the engine; " +
		"docs/environment.md explains it.\"\"\"\n\n")
	for _, list := range []struct {
		name  string
		words []string
	}{{"CARRIED", Carried()}, {"SECRET", Secret()}} {
		b.WriteString(list.name + " = (\n")
		for _, w := range list.words {
			b.WriteString("    \"" + w + "\",\n")
		}
		b.WriteString(")\n")
	}
	b.WriteString("PASS = \"" + PassVariable + "\"\n")
	testkit.Golden(t, "../../python/src/gpuemu/_environment_gen.py", []byte(b.String()))
}

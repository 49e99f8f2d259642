package daemon

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/artifact"
	"gpuemu/internal/inspect"
	"gpuemu/internal/ptx"
	"gpuemu/internal/wire"
)

// kernelsToml is a project of two kernels in one file.
const kernelsToml = `
[[kernels]]
name = "first"
ptx = "two.ptx"
entry = "one"
artifact_checks = { forbidden_patterns = ["add.f32"] }
[[kernels]]
name = "second"
ptx = "two.ptx"
entry = "two"
`

func (f *fixture) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(f.config), name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// twoKernels is a module with the kernels one and two.
func twoKernels() string {
	return kernelPTX("one", 1, "") + strings.SplitAfterN(kernelPTX("two", 2, ""), "\n", 4)[3]
}

func TestLintRoute(t *testing.T) {
	f := newFixture(t)
	f.write(t, "gpuemu.toml", kernelsToml)
	f.write(t, "two.ptx", twoKernels())
	c := f.local()
	doc, err := c.Lint(t.Context(), &wire.LintRequest{Config: f.config})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Total != 2 || doc.Errors != 1 || doc.ExitCode() != 1 || doc.Version != "test" ||
		doc.Kernels[0].Name != "first" {
		t.Errorf("lint: %+v", doc)
	}
	if v := doc.Kernels[0].Violations[len(doc.Kernels[0].Violations)-1]; v.Kind != artifact.ForbiddenPatternFound ||
		v.File != "two.ptx" || v.Line == 0 {
		t.Errorf("violation: %+v", v)
	}
	doc, err = c.Lint(t.Context(), &wire.LintRequest{Config: f.config, Kernels: []string{"second"}, Strict: true})
	if err != nil || doc.Total != 1 || doc.Errors != 1 {
		t.Errorf("strict lint of second: %+v, %v", doc, err)
	}
	_, err = c.Lint(t.Context(), &wire.LintRequest{Config: f.config, Kernels: []string{"secnd"}})
	wantCode(t, err, inspect.UnknownKernel)
	_, err = c.Lint(t.Context(), &wire.LintRequest{})
	wantCode(t, err, inspect.NothingToInspect)

	limited := kernelPTX("one", 3, "")
	doc, err = c.Lint(t.Context(), &wire.LintRequest{PTX: &limited, Config: f.config})
	if err != nil || doc.Total != 1 || doc.Kernels[0].Name != "first" || doc.Errors != 1 {
		t.Errorf("lint of a text with the entry of first: %+v, %v", doc, err)
	}
	text := kernelPTX("loose", 3, "")
	_, err = c.Lint(t.Context(), &wire.LintRequest{PTX: &text, Config: f.config, Kernel: "frist"})
	wantCode(t, err, inspect.UnknownKernel)
	doc, err = c.Lint(t.Context(), &wire.LintRequest{PTX: &text, Config: f.config})
	if err != nil || doc.Total != 1 || doc.Kernels[0].Kernel != "loose" || doc.ExitCode() != 0 {
		t.Errorf("lint of a text: %+v, %v", doc, err)
	}
	broken := strings.Replace(text, "ret;", "retreat;", 1)
	_, err = c.Lint(t.Context(), &wire.LintRequest{PTX: &broken})
	wantCode(t, err, ptx.UnknownOpcode)
	if err == nil || !strings.HasPrefix(err.Error(), "text.ptx:") {
		t.Errorf("the error %v has no place", err)
	}
	f.artifactRoutes(t, c, text)
}

// artifactRoutes: what lint found is stored, and comes back with its text.
func (f *fixture) artifactRoutes(t *testing.T, c *Client, text string) {
	t.Helper()
	list, err := call[wire.ArtifactsReply](t.Context(), c, http.MethodGet, "/v1/artifacts?"+query("config", f.config), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range list.Artifacts {
		names = append(names, a.Kernel)
		if strings.Contains(string(a.Artifact), `"texts"`) || a.Saved.IsZero() {
			t.Errorf("%s: %s", a.Kernel, a.Artifact)
		}
	}
	if got := strings.Join(names, " "); got != "first loose second" {
		t.Errorf("stored are %q", got)
	}
	path := "/v1/artifacts/loose?" + query("config", f.config)
	one, err := call[wire.ArtifactInfo](t.Context(), c, http.MethodGet, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := inspect.DecodeSnapshot("loose", one.Artifact)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok, err := s.Text(&s.Kernels[0].Metrics); got != text || !ok || err != nil {
		t.Errorf("text of loose: %q, %v, %v", got, ok, err)
	}
	_, err = call[wire.ArtifactInfo](t.Context(), c, http.MethodGet, "/v1/artifacts/loose", nil) // another project
	wantCode(t, err, NoArtifact)
}

// TestReportOfKernels: what a report says of kernels is what its campaign saw; a kernel that cannot be read any more is
// not replaced by what is stored of it.
func TestReportOfKernels(t *testing.T) {
	f := newFixture(t)
	f.write(t, "gpuemu.toml", kernelsToml)
	f.write(t, "two.ptx", twoKernels())
	c := f.local()
	run := func() {
		t.Helper()
		if _, err := c.Run(t.Context(), &wire.RunRequest{Config: f.config, Kind: "ci"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	kernels := func() (string, int) {
		t.Helper()
		var b strings.Builder
		exit, err := c.Report(t.Context(), &wire.ReportRequest{Config: f.config, Format: "json", IncludeArtifacts: true,
			IncludeLint: true}, &b)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Artifacts *inspect.Snapshot
			Summary   struct {
				Lint struct{ Report inspect.Document }
			}
		}
		if err := json.Unmarshal([]byte(b.String()), &doc); err != nil {
			t.Fatal(err)
		}
		var names []string
		if doc.Artifacts != nil {
			for i := range doc.Artifacts.Kernels {
				names = append(names, doc.Artifacts.Kernels[i].Label())
			}
		}
		return strings.Join(names, " ") + " of " + string(rune('0'+doc.Summary.Lint.Report.Total)), exit
	}
	run()
	if got, exit := kernels(); got != "first second of 2" || exit != 1 {
		t.Errorf("kernels are %q, exit code %d", got, exit)
	}
	f.write(t, "gpuemu.toml", strings.Replace(kernelsToml, `entry = "two"`, `entry = "three"`, 1))
	run()
	if got, exit := kernels(); got != "first of 1" || exit != 1 {
		t.Errorf("kernels are %q, exit code %d", got, exit)
	}
	f.write(t, "gpuemu.toml", strings.Replace(kernelsToml, `"add.f32"`, `"div.*"`, 1))
	run()
	if got, exit := kernels(); got != "first second of 2" || exit != 0 {
		t.Errorf("kernels are %q, exit code %d", got, exit)
	}
}

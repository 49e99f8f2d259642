package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/artifact"
	"gpuemu/internal/config"
	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
)

// module is a PTX text with one kernel per name.
func module(names ...string) string {
	text := ".version 8.0\n.target sm_80\n.address_size 64\n"
	for _, n := range names {
		text += ".visible .entry " + n + "()\n{\n\t.reg .f32 %f<3>;\n\tadd.f32 %f1, %f2, %f2;\n\tret;\n}\n"
	}
	return text
}

// project writes files and reads the gpuemu.toml among them.
func project(t *testing.T, files map[string]string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, "gpuemu.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func look(t *testing.T, targets []Target) *Document {
	t.Helper()
	doc, err := Looker{Tools: &cudatool.Tools{}}.Look(context.Background(), targets)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func labels(d *Document) string {
	var names []string
	for i := range d.Kernels {
		names = append(names, d.Kernels[i].Name+"="+d.Kernels[i].Kernel)
	}
	return strings.Join(names, " ")
}

func TestConfigured(t *testing.T) {
	cfg := project(t, map[string]string{"a.ptx": module("a", "b"), "sub/c.ptx": module("c", "d"), "k.cu": "__global__",
		"gpuemu.toml": `
[[kernels]]
name = "a"
ptx = "a.ptx"
artifact_checks = { forbidden_patterns = ["add.f32"] }
[[kernels]]
name = "second"
ptx = "a.ptx"
entry = "b"
[[kernels]]
name = "both"
ptx = "sub/c.ptx"
[[kernels]]
name = "wrong"
ptx = "a.ptx"
entry = "aa"
[[kernels]]
name = "source"
source = "k.cu"
`})
	targets, err := Configured(cfg, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	doc := look(t, targets)
	if got, want := labels(doc), "a=a second=b both=c both=d"; got != want {
		t.Errorf("kernels are %q, want %q", got, want)
	}
	if doc.Total != 4 || doc.Passed != 3 || doc.Errors != 1 || doc.Notes != 4 || doc.ExitCode() != 1 {
		t.Errorf("counts are %+v, exit code %d", doc.Counts, doc.ExitCode())
	}
	if v := doc.Kernels[0].Violations; len(v) != 2 || v[1].File != "a.ptx" || v[1].Line == 0 {
		t.Errorf("violations of a are %+v", v)
	}
	if src := doc.Kernels[2].Metrics.Sources[0]; src.File != "sub/c.ptx" || doc.Texts[src.Digest] != module("c", "d") {
		t.Errorf("source of c is %+v", src)
	}
	if len(doc.Unread) != 2 {
		t.Fatalf("unread are %+v", doc.Unread)
	}
	if u := doc.Unread[0]; u.Name != "wrong" || u.Code != string(artifact.NoKernel) || u.File != "a.ptx" ||
		!strings.HasPrefix(u.Message, `a.ptx: there is no kernel "aa"`) || u.Hint != "it has a, b" {
		t.Errorf("unread[0] is %+v", u)
	}
	if u := doc.Unread[1]; u.Code != string(cudatool.Missing) ||
		!strings.Contains(u.Message, "k.cu: cannot compile here") {
		t.Errorf("unread[1] is %+v", u)
	}

	if targets, err = Configured(cfg, []string{"second"}, true); err != nil || len(targets) != 1 {
		t.Fatalf("Configured(second) = %d targets, %v", len(targets), err)
	}
	if doc = look(t, targets); doc.Errors != 1 || doc.Notes != 0 { // spills are not known
		t.Errorf("strict: counts are %+v", doc.Counts)
	}
	if _, err = Configured(cfg, []string{"secnd"}, false); diag.CodeOf(err) != UnknownKernel {
		t.Errorf("Configured(secnd) = %v", err)
	}
	if _, err = Configured(nil, nil, false); diag.CodeOf(err) != NothingToInspect {
		t.Errorf("Configured of nothing = %v", err)
	}
}

// TestNamed: limits come from the configuration under the kernel's name or that of its entry, else they are the
// documented ones.
func TestNamed(t *testing.T) {
	cfg := project(t, map[string]string{"gpuemu.toml": `
[[kernels]]
name = "a"
ptx = "a.ptx"
entry = "entry_a"
artifact_checks = { max_registers = 7 }
`})
	for _, tt := range []struct {
		cfg        *config.Config
		name, want string
		registers  int
	}{{cfg, "a", "a", 7}, {cfg, "entry_a", "a", 7}, {cfg, "other", "", 64}, {nil, "a", "", 64}, {cfg, "", "", 64}} {
		got, err := Named(tt.cfg, tt.name, Target{}, false)
		if err != nil || got.Name != tt.want || *got.Policy.MaxRegisters != tt.registers {
			t.Errorf("Named(%q) = %+v, %v", tt.name, got, err)
		}
	}
}

// TestKnown: without a name, or with one that gpuemu.toml does not have, kernels have the limits that gpuemu.toml has
// for them; where two may be meant, none is taken.
func TestKnown(t *testing.T) {
	cfg := project(t, map[string]string{"gpuemu.toml": `
[[kernels]]
name = "a"
ptx = "a.ptx"
entry = "entry_a"
artifact_checks = { max_registers = 7 }
[[kernels]]
name = "plain"
ptx = "a.ptx"
artifact_checks = { max_registers = 8 }
[[kernels]]
name = "fast"
ptx = "fast.ptx"
entry = "twice"
[[kernels]]
name = "slow"
ptx = "slow.ptx"
entry = "twice"
`})
	text := module("entry_a", "_Z5plainv", "other")
	for _, name := range []string{"", "entry"} {
		target, err := Named(cfg, name, Target{Text: &text}, false)
		if err != nil {
			t.Fatal(err)
		}
		doc := look(t, []Target{target})
		if got, want := labels(doc), "plain=_Z5plainv a=entry_a =other"; got != want {
			t.Fatalf("name %q: kernels are %q, want %q", name, got, want)
		}
		for i, want := range []int{8, 7, 64} {
			if got := *doc.Kernels[i].Policy.MaxRegisters; got != want {
				t.Errorf("name %q: %s may have %d registers, want %d", name, doc.Kernels[i].Kernel, got, want)
			}
		}
	}
	text = module("twice")
	for _, name := range []string{"", "twice"} {
		target, err := Named(cfg, name, Target{Text: &text}, false)
		if err != nil {
			t.Fatal(err)
		}
		if doc := look(t, []Target{target}); len(doc.Unread) != 1 || doc.Unread[0].Code != string(AmbiguousKernel) ||
			!strings.HasSuffix(doc.Unread[0].Hint, "fast, slow") {
			t.Errorf("name %q: %+v", name, doc)
		}
	}
	text = module("mine")
	doc := look(t, []Target{{Text: &text}})
	for name, want := range map[string]diag.Code{"": "", "mine": "", "plain": "", "entry_a": "", "unlike": "",
		"plian": UnknownKernel, "entry-a": UnknownKernel} {
		if got := diag.CodeOf(doc.Misspelt(cfg, name)); got != want {
			t.Errorf("Misspelt(%q) is %q, want %q", name, got, want)
		}
	}
}

// TestConfiguredPerDType: a kernel per number format has its own file, name and record.
func TestConfiguredPerDType(t *testing.T) {
	cfg := project(t, map[string]string{"k.float32.ptx": module("k"), "k.float16.ptx": module("k"), "gpuemu.toml": `
[[kernels]]
name = "each"
ptx = "k.{dtype}.ptx"
entry = "k"
dtypes = ["float32", "float16", "bfloat16"]
`})
	for name, want := range map[string]string{"each": "each.float32=k each.float16=k", "each.float16": "each.float16=k"} {
		targets, err := Configured(cfg, []string{name}, false)
		if err != nil {
			t.Fatal(err)
		}
		doc := look(t, targets)
		if got := labels(doc); got != want {
			t.Errorf("Configured(%s) has %q, want %q", name, got, want)
		}
		if name == "each" && (len(doc.Unread) != 1 || doc.Unread[0].Name != "each.bfloat16") {
			t.Errorf("not looked at: %+v, want each.bfloat16", doc.Unread)
		}
	}
	if got, err := Named(cfg, "each.float16", Target{}, false); err != nil || got.Name != "each.float16" {
		t.Errorf("Named(each.float16) = %+v, %v", got, err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	text := module("a")
	if _, err := (Looker{}).Look(ctx, []Target{{Text: &text}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Look = %v", err)
	}
}

func TestSnapshot(t *testing.T) {
	text := module("a", "b")
	doc := look(t, []Target{{Name: "x", Text: &text}})
	body, err := json.Marshal(doc.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeSnapshot("here", body)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Kernels) != 2 || len(back.Texts) != 1 {
		t.Fatalf("snapshot has %d kernels and %d texts", len(back.Kernels), len(back.Texts))
	}
	got, ok, err := back.Text(&back.Kernels[1].Metrics)
	if got != text || !ok || err != nil {
		t.Errorf("Text = %q, %v, %v", got, ok, err)
	}
	names, by := doc.ByLabel()
	if len(names) != 1 || len(by["x"].Kernels) != 2 {
		t.Errorf("ByLabel = %q, %+v", names, by)
	}

	back.Texts[back.Kernels[0].Metrics.Sources[0].Digest] = []byte("not packed")
	if _, _, err := back.Text(&back.Kernels[0].Metrics); diag.CodeOf(err) != BadSnapshot {
		t.Errorf("Text of damaged bytes: %v", err)
	}
	back.Texts[back.Kernels[0].Metrics.Sources[0].Digest] = pack(strings.Repeat(" ", maxKept+1))
	if _, _, err := back.Text(&back.Kernels[0].Metrics); diag.CodeOf(err) != BadSnapshot {
		t.Errorf("Text of a bomb: %v", err)
	}
	for _, bad := range []string{`{`, `{"gpuemu_artifacts": 2}`, `{"gpuemu_artifacts": 1, "kernels": [{}]}`, `null`} {
		if s, err := DecodeSnapshot("here", []byte(bad)); err == nil && (bad != `null` || len(s.Kernels) > 0) {
			t.Errorf("DecodeSnapshot(%s) is no error", bad)
		}
	}
}

// TestLongText: a text that is too long is not kept, and the snapshot says so.
func TestLongText(t *testing.T) {
	text := module("a") + strings.Repeat("// "+strings.Repeat("x", 97)+"\n", maxKept/100)
	s := look(t, []Target{{Text: &text}}).Snapshot()
	if len(s.Texts) != 0 || len(s.Dropped) != 1 || len(s.Kernels) != 1 {
		t.Errorf("%d texts, %d dropped", len(s.Texts), len(s.Dropped))
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	text := module("a")
	doc, err := Looker{}.Look(context.Background(), []Target{{Name: "x", Text: &text}})
	if err != nil {
		f.Fatal(err)
	}
	body, err := json.Marshal(doc.Snapshot())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"gpuemu_artifacts":1,"kernels":[{"metrics":{"kernel":"k","sources":[{}]}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := DecodeSnapshot("here", body)
		if err != nil {
			return
		}
		for i := range s.Kernels {
			if _, _, err := s.Text(&s.Kernels[i].Metrics); err != nil && diag.CodeOf(err) != BadSnapshot {
				t.Error(err)
			}
		}
	})
}

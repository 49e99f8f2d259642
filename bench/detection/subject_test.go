package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/config"
	"gpuemu/internal/dtype"
	"gpuemu/internal/oracle"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/testkit"
)

// softmaxProject is a project with a kernel of the example that clang 19 compiled: softmax is right, softmax_over has
// right values, and writes behind its output.
const softmaxProject = `
[[ops]]
name = "NAME"
schema = "softmax"
dtypes = ["float32"]

[ops.kernel]
ptx = "softmax.ptx"
entry = "ENTRY"
grid = ["B * S"]
block = [32]
args = ["input", "output", "H"]
`

// log2e is that of the kernel, as PTX writes it; 1 % more is a wrong constant.
const log2e, wrongLog2e = "0f3FB8AA3B", "0f3FBA835E"

// softmax makes a subject of the example, with edits of its PTX: pairs of what is replaced, and by what.
func softmax(t *testing.T, name, entry string, edits ...string) *subject {
	t.Helper()
	text, err := os.ReadFile("../../examples/emulate/softmax.ptx")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(edits...).Replace(string(text))
	if len(edits) > 0 && changed == string(text) {
		t.Fatalf("edits %q change nothing", edits)
	}
	dir := t.TempDir()
	toml := strings.NewReplacer("NAME", name, "ENTRY", entry).Replace(softmaxProject)
	for file, text := range map[string]string{"softmax.ptx": changed, config.FileName: toml} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, config.FileName))
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSubject(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// harness finds a baseline.
func harness(t *testing.T, name string) *baseline {
	t.Helper()
	i := slices.IndexFunc(baselines, func(b baseline) bool { return b.name == name })
	if i < 0 {
		t.Fatalf("no baseline %s", name)
	}
	return &baselines[i]
}

// TestBaselines: a right kernel passes all harnesses; a wrong constant passes those whose tolerance is above the
// values of a softmax, and no other.
func TestBaselines(t *testing.T) {
	testkit.ValuesOnly(t)
	right, wrong := softmax(t, "right", "softmax"), softmax(t, "wrong", "softmax", log2e, wrongLog2e)
	refused := map[string]bool{"assert-close": true, "robust-kbench": true, "gpu-mode": true, "backendbench": false,
		"kernelbench": false, "allclose-1e-2": false, "geak": false, "flashinfer-bench": false, "gpuemu-published": true}
	for name, want := range refused {
		b := *harness(t, name)
		b.trials = min(b.trials, 10)
		rec, err := b.run(t.Context(), right)
		if err != nil || rec.First != 0 || rec.Cases == 0 || rec.NotRun != 0 {
			t.Errorf("%s on the right kernel: %+v, %v", name, rec, err)
		}
		rec, err = b.run(t.Context(), wrong)
		if err != nil || (rec.First > 0) != want {
			t.Errorf("%s on the wrong kernel: %+v, %v, want refused %v", name, rec, err, want)
		}
	}
	if len(refused) != len(baselines) {
		t.Errorf("%d of %d harnesses were run", len(refused), len(baselines))
	}
}

// TestBaselineMemory: memory that a kernel does not write is zero for harnesses, and findings of the emulator are not
// seen by them.
func TestBaselineMemory(t *testing.T) {
	silent := softmax(t, "silent", "softmax", "st.global.f32", "ld.global.f32 %f1, [%rd1]; // st.global.f32")
	k, err := silent.open(ptxvm.NoChecks)
	if err != nil {
		t.Fatal(err)
	}
	in, err := silent.draw(rand.New(rand.NewPCG(1, 1)), dtype.Float32, shape{dims: map[string]int{"B": 1, "S": 1, "H": 3}},
		dense, harness(t, "geak").choose)
	if err != nil {
		t.Fatal(err)
	}
	for _, zeroed := range []bool{false, true} {
		reply, err := k.run(t.Context(), in, zeroed)
		if err != nil {
			t.Fatal(err)
		}
		if got := reply.Outputs[0].Tensor.Float64s()[2]; (got == 0) != zeroed {
			t.Errorf("memory before a launch with zeroed %v: %v", zeroed, got)
		}
	}
	loose := *harness(t, "allclose-1e-2")
	loose.rule = always(allclose(same(1, 1)))
	if rec, err := loose.run(t.Context(), silent); err != nil || rec.Cases != 1 || rec.First != 0 {
		t.Errorf("zeros within a tolerance of 1: %+v, %v", rec, err)
	}
	rec, err := harness(t, "assert-close").run(t.Context(), softmax(t, "over", "softmax_over"))
	if err != nil || rec.Cases != 1 || rec.First != 0 {
		t.Errorf("%+v, %v", rec, err)
	}
}

// TestBaselineEndless: a kernel that never ends hangs a harness, and one that stops itself is an error: both are seen.
func TestBaselineEndless(t *testing.T) {
	s := softmax(t, "endless", "softmax", "st.global.f32", "for: bra for; st.global.f32")
	s.config.Ops[0].Kernel.Budget = 1 << 16
	rec, err := harness(t, "allclose-1e-2").run(t.Context(), s)
	if err != nil || rec.First != 1 || rec.Reason != "over_budget" {
		t.Errorf("%+v, %v", rec, err)
	}
	s = softmax(t, "trap", "softmax", "st.global.f32", "trap; st.global.f32")
	rec, err = harness(t, "allclose-1e-2").run(t.Context(), s)
	if err != nil || rec.First != 1 || rec.Reason != "trap" {
		t.Errorf("%+v, %v", rec, err)
	}
}

// TestEquivalence: a kernel is equivalent to itself, a wrong constant or an output that is not written differs, and an
// access out of bounds is noted without a word on values.
func TestEquivalence(t *testing.T) {
	base := softmax(t, "base", "softmax")
	for _, tt := range []struct {
		mutant   *subject
		differs  bool
		findings []string
	}{
		{softmax(t, "same", "softmax"), false, nil},
		{softmax(t, "constant", "softmax", log2e, wrongLog2e), true, nil},
		{softmax(t, "silent", "softmax", "st.global.f32", "ld.global.f32 %f1, [%rd1]; // st.global.f32"), true, nil},
		{softmax(t, "over", "softmax_over"), false, []string{"oob_read", "oob_write"}},
	} {
		rec, err := compareBits(t.Context(), base, tt.mutant, 40, 1)
		if err != nil {
			t.Fatal(err)
		}
		if (rec.First > 0) != tt.differs || rec.NotRun != 0 || !tt.differs && rec.Cases != 40 ||
			!slices.Equal(rec.Findings, tt.findings) {
			t.Errorf("%s: %+v, want different %v, findings %v", tt.mutant.id, rec, tt.differs, tt.findings)
		}
	}
}

// TestEquivalenceGivenUp: launches that do not come to their end decide nothing.
func TestEquivalenceGivenUp(t *testing.T) {
	endless := softmax(t, "endless", "softmax", "st.global.f32", "for: bra for; st.global.f32")
	endless.config.Ops[0].Kernel.Budget = 1 << 16
	rec, err := compareBits(t.Context(), softmax(t, "base", "softmax"), endless, 20, 1)
	if err != nil || rec.First != 0 || rec.NotRun != mostLost || rec.Cases != mostLost || rec.Message == "" {
		t.Errorf("%+v, %v", rec, err)
	}
}

// TestFormats: subjects are launched in their own number formats alone.
func TestFormats(t *testing.T) {
	s := softmax(t, "single", "softmax")
	s.dtypes = []dtype.DType{dtype.BFloat16}
	for _, name := range []string{"robust-kbench", "gpuemu-published"} {
		rec, err := harness(t, name).run(t.Context(), s)
		if err != nil || rec.Cases != 0 || rec.Message == "" {
			t.Errorf("%s: %+v, %v", name, rec, err)
		}
	}
	s.dtypes = []dtype.DType{dtype.Float32, dtype.Float16}
	published := harness(t, "gpuemu-published")
	if got := published.formats(s); len(got) != 2 {
		t.Errorf("softmax as published: %v", got)
	}
	s.entry, _ = oracle.Lookup("matmul_bias_act")
	if got := published.formats(s); !slices.Equal(got, []dtype.DType{dtype.Float32}) {
		t.Errorf("a product of matrices as published: %v", got)
	}
	s = softmax(t, "single", "softmax")
	s.dtypes = []dtype.DType{dtype.BFloat16}
	if _, err := compareBits(t.Context(), softmax(t, "base", "softmax"), s, 1, 1); err == nil {
		t.Error("formats without any in common are compared")
	}
}

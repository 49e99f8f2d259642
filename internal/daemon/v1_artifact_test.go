package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/inspect"
	"gpuemu/internal/wire"
)

// kernelPTX is a module with one kernel that adds n times.
func kernelPTX(name string, n int, local string) string {
	return ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry " + name + "(.param .u64 p)\n{\n" +
		"\t.reg .b64 %rd<2>;\n\t.reg .f32 %f<2>;\n" + local + "\tld.param.u64 %rd1, [p];\n\tld.global.f32 %f1, [%rd1];\n" +
		strings.Repeat("\tadd.f32 %f1, %f1, 0f3F800000;\n", n) + "\tst.global.f32 [%rd1], %f1;\n\tret;\n}\n"
}

// lintRequest is a LintKernel of a text; name "" is null.
func lintRequest(t *testing.T, name, text string) string {
	t.Helper()
	var kernel *string
	if name != "" {
		kernel = &name
	}
	b, err := json.Marshal(map[string]any{"type": "LintKernel", "kernel_name": kernel, "ptx_content": text})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestV1Artifacts(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	store := `{"type":"StoreArtifact","kernel_name":"ignored","metrics":{"kernel_name":%q,"register_count":40,
		"spill_count":3,"local_memory_bytes":8,"shared_memory_bytes":1024,"instruction_count":77,"patterns_found":["mma"],
		"source":%q,"timestamp":5,"ptx_content":%s}}`
	for _, source := range []string{"Ptx", "Sass", "Both"} {
		tr.want("Ok", fmt.Sprintf(store, "k", source, `"text"`))
		got := tr.want("ArtifactMetricsResult", `{"type":"GetArtifact","kernel_name":"k"}`)
		for field, want := range map[string]string{"register_count": "40", "kernel_name": "k", "spill_count": "3",
			"local_memory_bytes": "8", "shared_memory_bytes": "1024", "instruction_count": "77", "source": source} {
			if got.text(field) != want {
				t.Errorf("GetArtifact: %s is %s, want %s", field, got.text(field), want)
			}
		}
		if list := got.list("patterns_found"); len(list) != 1 {
			t.Errorf("patterns_found = %v", list)
		}
		if source != "Sass" && got.text("ptx_content") != "text" {
			t.Errorf("%s: ptx_content = %q", source, got.text("ptx_content"))
		}
	}
	tr.refused("InvalidRequest", "the kernel is empty", fmt.Sprintf(store, "", "Ptx", "null"))
	if list := tr.want("ArtifactList", `{"type":"ListArtifacts"}`); len(list.list("artifacts")) != 1 {
		t.Errorf("ListArtifacts: %v", list)
	}
}

// TestV1Lint: limits are those of gpuemu.toml under the kernel's name, else the documented ones; metrics are stored.
func TestV1Lint(t *testing.T) {
	tr := newV1Trial(t, v1Toml+`
[[kernels]]
name = "axpy"
ptx = "axpy.ptx"
entry = "axpy_entry"
max_instructions = 4
artifact_checks = { max_local_memory = 100 }
`)
	local := "\t.local .align 4 .b8 depot[16];\n"
	got := tr.want("LintResults", lintRequest(t, "", kernelPTX("scale", 1, local))).at("results", 0)
	if got.text("kernel_name") != "scale" || got["passed"] != false || len(got.list("violations")) != 1 {
		t.Errorf("LintKernel: %v", got)
	}
	v := got.at("violations", 0)
	if v.text("kind") != "ExcessiveLocalMemory" || v.text("actual") != "16" || v.text("threshold") != "0" ||
		!strings.HasPrefix(v.text("message"), "text.ptx:4: scale: 16 bytes") {
		t.Errorf("violation: %v", v)
	}
	if m := got.in("metrics"); m.text("instruction_count") != "5" || m.text("register_count") == "0" ||
		m.text("source") != "Ptx" || !strings.HasPrefix(m.text("ptx_content"), ".version") {
		t.Errorf("metrics: %v", m)
	}
	stored := tr.want("ArtifactMetricsResult", `{"type":"GetArtifact","kernel_name":"scale"}`)
	if stored.text("instruction_count") != "5" || !strings.HasPrefix(stored.text("ptx_content"), ".version") {
		t.Errorf("GetArtifact: %v", stored)
	}

	got = tr.want("LintResults", lintRequest(t, "axpy", kernelPTX("axpy_entry", 1, local))).at("results", 0)
	if v := got.at("violations", 0); got.text("kernel_name") != "axpy" || v.text("kind") != "ExcessiveInstructions" {
		t.Errorf("LintKernel of a configured kernel: %v", got)
	}
	// Without its name, and with a wrong one, the kernel is known by its entry.
	for _, name := range []string{"", "axyp", "anything"} {
		got = tr.want("LintResults", lintRequest(t, name, kernelPTX("axpy_entry", 1, local))).at("results", 0)
		if v := got.at("violations", 0); got.text("kernel_name") != "axpy" || v.text("kind") != "ExcessiveInstructions" {
			t.Errorf("LintKernel of a configured kernel as %q: %v", name, got)
		}
	}
	tr.refused("InvalidRequest", "did you mean axpy", lintRequest(t, "axyp", kernelPTX("scale", 1, "")))
	tr.refused("ArtifactNotFound", "no artifact", `{"type":"GetArtifact","kernel_name":"axyp"}`)
	// An estimate above the limit is told and fails nothing; that spills are not known is not told.
	wide := ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry wide(.param .u64 p)\n{\n" +
		"\t.reg .b64 %rd<2>;\n\t.reg .f32 %f<200>;\n\tld.param.u64 %rd1, [p];\n"
	for i := range 99 {
		wide += fmt.Sprintf("\tld.global.f32 %%f%d, [%%rd1+%d];\n", i, 4*i)
	}
	for i := range 99 {
		wide += fmt.Sprintf("\tst.global.f32 [%%rd1+%d], %%f%d;\n", 4*i, i)
	}
	got = tr.want("LintResults", lintRequest(t, "", wide+"\tret;\n}\n")).at("results", 0)
	if got["passed"] != true || len(got.list("violations")) != 1 ||
		got.at("violations", 0).text("kind") != "ExcessiveRegisters" {
		t.Errorf("LintKernel of a wide kernel: %v", got)
	}
	two := kernelPTX("first", 1, "") + strings.SplitAfterN(kernelPTX("second", 1, ""), "\n", 4)[3]
	if got := tr.want("LintResults", lintRequest(t, "label", two)); len(got.list("results")) != 2 ||
		got.at("results", 0).text("kernel_name") != "first" {
		t.Errorf("LintKernel of two kernels: %v", got)
	}
}

func TestV1ArtifactBaseline(t *testing.T) {
	tr := newV1Trial(t, v1Toml)
	tr.want("LintResults", lintRequest(t, "", kernelPTX("grows", 2, "")))
	tr.want("LintResults", lintRequest(t, "", kernelPTX("same", 2, "")))
	tr.want("Ok", `{"type":"StoreArtifactBaseline","tag":"old"}`)
	tr.refused("BaselineNotFound", "no results", `{"type":"CompareBaseline","tag":"old"}`)
	got := tr.want("ArtifactDiffs", `{"type":"DiffArtifactBaseline","tag":"old"}`)
	if got["has_regressions"] != false || len(got.list("diffs")) != 2 {
		t.Errorf("nothing changed: %v", got)
	}
	tr.want("LintResults", lintRequest(t, "", kernelPTX("grows", 9, "")))
	tr.want("LintResults", lintRequest(t, "", kernelPTX("new", 2, "")))
	got = tr.want("ArtifactDiffs", `{"type":"DiffArtifactBaseline","tag":"old"}`)
	if got["has_regressions"] != true || got.text("baseline_tag") != "old" || len(got.list("diffs")) != 3 {
		t.Fatalf("DiffArtifactBaseline: %v", got)
	}
	if d := got.at("diffs", 0); d.text("kernel_name") != "grows" || d["is_regression"] != true ||
		d.text("instruction_delta") != "7" || d.in("baseline").text("instruction_count") != "6" {
		t.Errorf("grows: %v", d)
	}
	if d := got.at("diffs", 1); d.text("kernel_name") != "new" || d["baseline"] != nil || d["is_regression"] != false {
		t.Errorf("new: %v", d)
	}
	// Results and artifacts of one tag do not take each other's place.
	tr.want("SubmitResult", `{"type":"SubmitOutput","op_name":"mine","seed":1,"kwargs":{},"inputs":{"input":`+
		v1Floats("[1,1,2]", 0, 0)+`},"output":`+v1Floats("[1,1,2]", 0.5, 0.5)+`}`)
	tr.want("Ok", `{"type":"StoreBaseline","tag":"old"}`)
	tr.want("ArtifactDiffs", `{"type":"DiffArtifactBaseline","tag":"old"}`)
	tr.want("Ok", `{"type":"StoreArtifactBaseline","tag":"old"}`)
	tr.want("BaselineComparison", `{"type":"CompareBaseline","tag":"old"}`)
	tr.want("Ok", `{"type":"StoreBaseline","tag":"results"}`)
	tr.refused("BaselineNotFound", "no artifacts", `{"type":"DiffArtifactBaseline","tag":"results"}`)
}

// TestV1RunCiKernels: compiled kernels are part of a run, also where it has no op.
func TestV1RunCiKernels(t *testing.T) {
	tr := newV1Trial(t, `
[[kernels]]
name = "good"
ptx = "good.ptx"
[[kernels]]
name = "bad"
ptx = "bad.ptx"
[[kernels]]
name = "gone"
ptx = "gone.ptx"
`)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(filepath.Dir(tr.toml), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good.ptx", kernelPTX("good", 2, ""))
	write("bad.ptx", kernelPTX("bad", 2, "\t.local .align 4 .b8 depot[16];\n"))
	got := tr.want("CiRunComplete", `{"type":"RunCi","quick":true,"baseline":null,"parallel_jobs":1}`)
	if got.text("total_tests") != "3" || got.text("passed") != "1" || got.text("failed") != "2" {
		t.Errorf("RunCi: %v", got)
	}
	if list := got.list("lint_results"); len(list) != 3 || got.at("lint_results", 2).text("kernel_name") != "gone" ||
		got.at("lint_results", 2).at("violations", 0).text("kind") != "NotLookedAt" {
		t.Errorf("lint_results: %v", list)
	}
	tr.want("Ok", `{"type":"StoreArtifactBaseline","tag":"kernels"}`)
	tr.refused("BaselineNotFound", "no results", `{"type":"RunCi","quick":true,"baseline":"kernels","parallel_jobs":1}`)
}

// TestV1RunCiArtifactBaseline: a kernel that is worse than in the baseline counts as failed.
func TestV1RunCiArtifactBaseline(t *testing.T) {
	tr := newV1Trial(t, "[ci.quick]\nfuzz_iterations = 2\n[[ops]]\nname = \"relu\"\ncandidate = \"builtin:relu\"\n"+
		"[[kernels]]\nname = \"k\"\nptx = \"k.ptx\"\n")
	path := filepath.Join(filepath.Dir(tr.toml), "k.ptx")
	const ask = `{"type":"RunCi","quick":true,"baseline":%s,"parallel_jobs":1}`
	for i, tt := range []struct {
		adds   int
		failed string
	}{{2, "0"}, {2, "0"}, {9, "1"}} {
		if err := os.WriteFile(path, []byte(kernelPTX("k", tt.adds, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		baseline := `"b"`
		if i == 0 {
			baseline = "null"
		}
		got := tr.want("CiRunComplete", fmt.Sprintf(ask, baseline))
		if got.text("total_tests") != "3" || got.text("failed") != tt.failed {
			t.Errorf("run %d: %v", i, got)
		}
		if i == 0 {
			tr.want("Ok", `{"type":"StoreBaseline","tag":"b"}`)
			tr.want("Ok", `{"type":"StoreArtifactBaseline","tag":"b"}`)
			continue
		}
		diffs := got.in("artifact_diffs")
		if diffs["has_regressions"] != (tt.failed == "1") || len(diffs.list("diffs")) != 1 {
			t.Errorf("run %d: artifact_diffs: %v", i, diffs)
		}
	}
}

// TestV1Vanished: a kernel that is gone is told, and never looks like an improvement alone.
func TestV1Vanished(t *testing.T) {
	then := v1Record(&wire.V1ArtifactMetrics{KernelName: "gone", RegisterCount: 40, Source: wire.V1FromSass})
	got := v1Diffs(campaign.Project{}, then, inspect.NewSnapshot(), time.Unix(5, 0), time.Unix(9, 0))
	if len(got) != 1 || got[0].KernelName != "gone" || !got[0].IsRegression || got[0].Baseline.RegisterCount != 40 ||
		got[0].Current.KernelName != "gone" || got[0].Current.RegisterCount != 0 || got[0].Current.Timestamp != 9 {
		t.Errorf("v1Diffs = %+v", got)
	}
}

// TestV1Config: requests of protocol v1 name no project; theirs is the one that the daemon was started with.
func TestV1Config(t *testing.T) {
	f := newFixture(t)
	f.opt.Config = f.config
	t.Chdir(t.TempDir())
	p, err := f.v1Project("")
	if err != nil || p.Config == nil || p.Config.Path != f.config {
		t.Errorf("v1Project = %+v, %v, want the configuration %s", p, err, f.config)
	}
	f.opt.Config = ""
	if p, err = f.v1Project(""); err != nil || p.Config != nil {
		t.Errorf("v1Project without one = %+v, %v, want none", p, err)
	}
}

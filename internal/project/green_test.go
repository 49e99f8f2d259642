package project_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/campaign"
	"gpuemu/internal/config"
	"gpuemu/internal/cudatool"
	"gpuemu/internal/dtype"
	"gpuemu/internal/project"
	"gpuemu/internal/store"
	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// This file tests that what gpuemu init writes passes when it is run, and that what examples/broken holds does not.

// trial is a project that can be run.
type trial struct {
	*campaign.Engine
	t       *testing.T
	project campaign.Project
}

// newTrial loads the project in dir, with the configuration changed by edit.
func newTrial(t *testing.T, dir string, edit func(*config.Config)) *trial {
	t.Helper()
	cfg, err := config.Load(filepath.Join(dir, config.FileName))
	if err != nil {
		t.Fatal(err)
	}
	edit(cfg)
	st, err := store.Open(context.Background(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &campaign.Engine{Store: st, RunDir: t.TempDir(), Python: testkit.Python(t), Now: time.Now}
	t.Cleanup(func() {
		e.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &trial{e, t, campaign.Project{Config: cfg}}
}

// run executes all ops of the project.
func (tr *trial) run() (*verdict.Summary, []verdict.Result) {
	tr.t.Helper()
	ctx := context.Background()
	r, err := tr.Prepare(ctx, campaign.Request{Kind: campaign.KindTest, Project: tr.project})
	if err != nil {
		tr.t.Fatal(err)
	}
	sum, err := r.Execute(ctx, nil)
	if err != nil {
		tr.t.Fatal(err)
	}
	var results []verdict.Result
	err = tr.Store.Results(ctx, r.ID, func(res *verdict.Result) error {
		results = append(results, *res)
		return nil
	})
	if err != nil {
		tr.t.Fatal(err)
	}
	return sum, results
}

// TestNewProjectIsGreen: a project passes at once.
func TestNewProjectIsGreen(t *testing.T) {
	iterations := 60
	if testing.Short() {
		iterations = 8
	}
	dir := t.TempDir()
	write(t, dir, project.Options{Name: "trial", Framework: project.NumPy, Examples: true})
	sum, results := newTrial(t, dir, func(c *config.Config) {
		c.CI.FuzzIterations, c.CI.Quick.FuzzIterations = iterations, iterations-iterations/4 // few large shapes
	}).run()
	want := len(project.Ops()) * 2 * iterations
	if sum.Total != want || sum.Failed != 0 || sum.NotRun != 0 || sum.ExitCode() != 0 || len(sum.Health) > 0 {
		t.Errorf("%d cases, want %d: %+v, exit %d, health %v", sum.Total, want, sum.Counts, sum.ExitCode(), sum.Health)
	}
	for i := range results {
		r := &results[i]
		if r.Verdict.Failed() || r.Verdict == verdict.NotRun {
			t.Errorf("%s\n%s: %s %s", r.Case, r.Verdict, r.Message, r.Stderr)
		} else if r.Stderr != "" {
			t.Errorf("%s\nprints %s", r.Case, r.Stderr)
		}
	}
}

// nvcc stands in for NVIDIA's compiler: it knows what the new project's kernel is compiled to.
const nvcc = `#!/bin/sh
case "$*" in
--version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit ;;
*-cubin*) exit 1 ;;
esac
while [ $# -gt 0 ]; do
	case "$1" in
	-o) out=$2 ;;
	*.cu) source=$1 ;;
	esac
	shift
done
if grep -q nonsense "$source"; then
	echo "$source(3): error: identifier \"nonsense\" is undefined" >&2
	exit 2
fi
change=
if grep -q "1 + sum" "$source"; then change=s/div.rn.f32/mul.rn.f32/; fi
exec sed "$change" "%s" >"$out"
`

// TestNewCUDAProject: the kernel itself is compiled and run; without a compiler nothing is, and a broken kernel is
// never green.
func TestNewCUDAProject(t *testing.T) {
	tools := t.TempDir()
	module := filepath.Join(testkit.Root(t), "internal", "project", "testdata", "softmax.ptx")
	if err := os.WriteFile(filepath.Join(tools, "nvcc"), fmt.Appendf(nil, nvcc, module), 0o700); err != nil {
		t.Fatal(err)
	}
	few := func(c *config.Config) { c.CI.FuzzIterations, c.CI.Quick.FuzzIterations = 5, 5 }
	for _, tt := range []struct {
		name          string
		compiler      bool
		right, broken string // a replacement in the source
		exit          int
		reason        verdict.Reason
		says          string
	}{
		{"passes", true, "", "", 0, "", ""},
		{"wrong result", true, "y[i] /= sum", "y[i] /= 1 + sum", 1, verdict.Mismatch, "elements are wrong"},
		{"syntax", true, "float most", "nonsense most", 1, verdict.NotCompiled, `identifier "nonsense" is undefined`},
		{"no compiler", false, "", "", 3, verdict.NotStarted, "neither nvcc nor clang was found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := os.Getenv("PATH")
			if tt.compiler {
				path = tools + string(os.PathListSeparator) + path
			} else if tools := cudatool.Find(t.Context()); tools.NVCC != nil || tools.Clang != nil {
				t.Skip("a compiler is installed")
			}
			t.Setenv("PATH", path)
			dir := t.TempDir()
			write(t, dir, project.Options{Name: "trial", Framework: project.CUDA})
			source := filepath.Join(dir, "kernels", "softmax.cu")
			text, err := os.ReadFile(source)
			if err != nil || !strings.Contains(string(text), tt.right) {
				t.Fatalf("%s has no %q: %v", source, tt.right, err)
			}
			text = []byte(strings.Replace(string(text), tt.right, tt.broken, 1))
			if err := os.WriteFile(source, text, 0o600); err != nil {
				t.Fatal(err)
			}
			sum, results := newTrial(t, dir, few).run()
			if sum.ExitCode() != tt.exit || len(results) != 5 {
				t.Errorf("%d results, exit code %d, want 5 and %d", len(results), sum.ExitCode(), tt.exit)
			}
			for _, r := range results {
				if tt.exit != 0 && r.Reason == tt.reason && strings.Contains(r.Message, tt.says) {
					return
				}
			}
			if tt.exit != 0 {
				t.Errorf("no result is %s and says %q: %+v", tt.reason, tt.says, results[0])
			}
		})
	}
}

// TestKernelsCompile: the kernels of every framework are at least well-formed, also those that no test can run because
// their framework is missing here.
func TestKernelsCompile(t *testing.T) {
	const compile = "import sys\nfor name in sys.argv[1:]:\n    compile(open(name, 'rb').read(), name, 'exec')\n"
	for _, framework := range project.Frameworks() {
		t.Run(framework, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, project.Options{Name: "trial", Framework: framework, Examples: true})
			kernels, err := filepath.Glob(filepath.Join(dir, "kernels", "*"))
			if err != nil || len(kernels) < len(project.Ops()) {
				t.Fatalf("kernels are %q, %v, want one per op", kernels, err)
			}
			if framework != project.CUDA {
				args := append([]string{"-c", compile}, kernels...)
				if out, err := exec.Command(testkit.Python(t), args...).CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			tools := cudatool.Find(t.Context())
			if tools.NVCC == nil && (tools.Clang == nil || tools.Clang.Major() < 14) {
				t.Skip("neither nvcc nor clang from 14 on is installed: apt-get install clang-19")
			}
			for _, path := range kernels {
				if _, err := tools.Compile(t.Context(), cudatool.Request{Source: path, TextOnly: true}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestKernelsAreDeclared: what the CUDA kernels call is in our header, which clang compiles them with. This needs no
// compiler.
func TestKernelsAreDeclared(t *testing.T) {
	header, err := os.ReadFile(filepath.Join(testkit.Root(t), "internal", "cudatool", "cuda", "gpuemu_cuda.h"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, project.Options{Name: "trial", Framework: project.CUDA, Examples: true})
	kernels, err := filepath.Glob(filepath.Join(dir, "kernels", "*.cu"))
	if err != nil || len(kernels) == 0 {
		t.Fatalf("kernels are %q, %v", kernels, err)
	}
	declared := map[string]bool{"if": true, "for": true, "while": true, "return": true}
	for _, name := range called.FindAllStringSubmatch(string(header), -1) {
		declared[name[1]] = true
	}
	for _, path := range kernels {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = comment.ReplaceAll(text, nil)
		own := map[string]bool{}
		for _, name := range defined.FindAllSubmatch(text, -1) {
			own[string(name[1])] = true
		}
		for _, name := range called.FindAllSubmatch(text, -1) {
			if f := string(name[1]); !declared[f] && !own[f] {
				t.Errorf("%s calls %s, which the header does not declare", filepath.Base(path), f)
			}
		}
	}
}

var (
	called  = regexp.MustCompile(`\b([A-Za-z_]\w*)\(`)
	defined = regexp.MustCompile(`(?:void|float|int|double) ([A-Za-z_]\w*)\(`)
	comment = regexp.MustCompile(`//.*`)
)

func write(t *testing.T, dir string, o project.Options) {
	t.Helper()
	files, err := project.Files(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := project.Write(dir, files, false); err != nil {
		t.Fatal(err)
	}
}

// TestBrokenExamples: each planted fault of examples/broken passes the usual check of one friendly shape, and fails;
// the smallest failing case and the message tell what is wrong.
func TestBrokenExamples(t *testing.T) {
	dir := filepath.Join(testkit.Root(t), "examples", "broken")
	tr := newTrial(t, dir, func(c *config.Config) {
		c.CI.FuzzIterations, c.CI.Quick.FuzzIterations = 12, 12 // default shapes alone
		c.Validation.DTypes, c.Validation.Values = []dtype.DType{dtype.Float32}, "normal"
	})
	_, results := tr.run()
	for _, tt := range []struct {
		op, says string // says is in a message of the failures
		smallest string // pattern: the dimension of the smallest failing case that gives the fault away
		friendly string // shapes of the one case that hides it
	}{
		{"softmax_tail_mask_leak", "is scaled by its own factor", "H:1 ", "input=4,16,256"},
		{"matmul_accumulator_overwrite", "elements are wrong", "K:65,", "a=128,64 b=64,128"},
		{"attention_missing_scale", "elements are wrong", "N:2,", "q=1,2,16,64 k=1,2,1,64 v=1,2,1,64"},
		{"attention_online_no_rescale", "errors lie in", `N:(3[3-9]|[45]\d|6[0-4]),`, "q=1,2,16,64 k=1,2,32,64 v=1,2,32,64"},
	} {
		t.Run(tt.op, func(t *testing.T) {
			friendlyCheck(t, dir, tt.op, tt.friendly)
			var failed *verdict.Result
			said := false
			for i := range results {
				r := &results[i]
				if r.Op == tt.op && r.Verdict == verdict.Fail {
					failed = r
					said = said || strings.Contains(r.Message, tt.says)
				}
			}
			if failed == nil || !said {
				t.Fatalf("no failure says %q; the last is %+v", tt.says, failed)
			}
			m, err := tr.Minimise(context.Background(), tr.project, campaign.MinimiseRequest{
				Target: campaign.Target{Seed: uint64(failed.Seed), Op: tt.op}, Strategy: campaign.MinimiseDims})
			if err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(tt.smallest).MatchString(m.Result.Case) {
				t.Errorf("the smallest failing case is %s, want %s in it", m.Result.Case, tt.smallest)
			}
		})
	}
}

// friendlyPy is the check that everybody uses: one shape, one seed, allclose.
const friendlyPy = `
import importlib.util, sys
import numpy as np

file, function, *shapes = sys.argv[1:]
spec = importlib.util.spec_from_file_location("kernel", file)
sys.dont_write_bytecode = True
kernel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernel)
rng = np.random.default_rng(0)
x = {}
for shape in shapes:
    name, _, dims = shape.partition("=")
    x[name] = rng.standard_normal([int(d) for d in dims.split(",")]).astype(np.float32)
w = {name: a.astype(np.float64) for name, a in x.items()}
def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
want = {
    "softmax": lambda: softmax(w["input"]),
    "matmul": lambda: w["a"] @ w["b"],
    "attention": lambda: softmax(w["q"] @ w["k"].swapaxes(-1, -2) / np.sqrt(w["q"].shape[-1])) @ w["v"],
}[function]()
sys.exit(0 if np.allclose(getattr(kernel, function)(x), want, atol=1e-5, rtol=1e-2) else 1)
`

// friendlyCheck fails the test if a one-shape allclose sees the fault.
func friendlyCheck(t *testing.T, dir, op, shapes string) {
	t.Helper()
	function, _, _ := strings.Cut(op, "_")
	kernel := filepath.Join(dir, "kernels", op+".py")
	args := append([]string{"-c", friendlyPy, kernel, function}, strings.Fields(shapes)...)
	if out, err := exec.Command(testkit.Python(t), args...).CombinedOutput(); err != nil {
		t.Errorf("allclose at %s does not accept it: %v\n%s", shapes, err, out)
	}
}

package campaign

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/tensor"
	"gpuemu/internal/testkit"
	"gpuemu/internal/verdict"
)

// kernelOp is an op whose candidate is a kernel of the example.
func kernelOp(name, schema, more string) string {
	return fmt.Sprintf("\n[[ops]]\nname = %q\nschema = %q\n[ops.kernel]\nptx = \"softmax.ptx\"\ngrid = [\"B * S\"]\n"+
		"block = [32]\nargs = [\"input\", \"output\", \"H\"]\nentry = %q\n%s\n", name, schema, name, more)
}

// newEmulated makes a project with the kernels of examples/emulate.
func newEmulated(t *testing.T, text string) *trial {
	t.Helper()
	tr := newTrial(t, head+text)
	module, err := os.ReadFile(filepath.Join(testkit.Root(t), "examples", "emulate", "softmax.ptx"))
	if err != nil {
		t.Fatal(err)
	}
	tr.write("softmax.ptx", string(module))
	return tr
}

// TestEmulated: the sound kernel passes every kind of shape, empty ones included; the planted one is found although its
// values are right.
func TestEmulated(t *testing.T) {
	tr := newEmulated(t, kernelOp("softmax", "softmax", "")+kernelOp("softmax_over", "softmax", "schedules = 2"))
	sum, results := tr.run(KindTest, Options{Quick: testing.Short()})
	if len(results) < 8 || sum.ExitCode() != 1 {
		t.Fatalf("%d results, exit code %d", len(results), sum.ExitCode())
	}
	for _, r := range results {
		if r.Op == "softmax" && r.Verdict != verdict.Pass && r.Verdict != verdict.Undecided {
			t.Errorf("the sound kernel: %s", essence(r))
		}
		if r.Op != "softmax_over" || !r.Verdict.Failed() {
			continue
		}
		if r.Reason != verdict.OutOfBoundsWrite || r.Numeric == nil || *r.Numeric == verdict.Fail || r.Hint == "" ||
			len(r.Findings) == 0 || r.Findings[0].Site == nil || r.Findings[0].Site.Source != "softmax.cu" ||
			!strings.HasPrefix(r.Message, r.Findings[0].Sentence) {
			t.Errorf("the planted kernel: %s", essence(r))
		}
	}
	for _, o := range sum.Ops {
		if o.Op == "softmax_over" && o.Failed == 0 || o.NotRun > 0 {
			t.Errorf("%+v", o)
		}
	}
}

// TestEmulatedSameResults: the results do not depend on how many cases run at once.
func TestEmulatedSameResults(t *testing.T) {
	tr := newEmulated(t, kernelOp("softmax_over", "softmax", ""))
	var want []string
	for _, parallel := range []int{1, 3} {
		_, results := tr.run(KindFuzz, Options{Seed: seed(5), Iterations: 6, Parallel: parallel,
			Dims: map[string][]int{"B": {1, 2}, "S": {1, 7}, "H": {3, 70, 257}}})
		for i, r := range results {
			switch {
			case parallel == 1:
				want = append(want, essence(r))
			case essence(r) != want[i]:
				t.Errorf("parallel %d: case %d differs:\n%s\n%s", parallel, i, essence(r), want[i])
			}
		}
	}
	if len(want) != 6 || !strings.Contains(strings.Join(want, ""), "oob_write") {
		t.Errorf("%d results, want 6 and a finding", len(want))
	}
}

// TestEmulatedSession: a failing case is replayed and shrunk; a kernel that was edited is read anew.
func TestEmulatedSession(t *testing.T) {
	tr := newEmulated(t, kernelOp("softmax_over", "softmax", ""))
	target := Target{Op: "softmax_over", Case: "softmax_over dtype=float32 dims=B:2,S:3,H:70 attrs=math:gpu " +
		"in=input:float32[2,3,70]:contiguous:normal seed=9 gen=1"}
	r, err := tr.Reproduce(t.Context(), tr.project, target)
	if err != nil || !r.StillFails() || r.Result.Reason != verdict.OutOfBoundsWrite || *r.Result.Numeric != verdict.Pass {
		t.Fatalf("Reproduce = %+v, %v", r, err)
	}
	m, err := tr.Minimise(t.Context(), tr.project, MinimiseRequest{Target: target, MaxIters: 60})
	if err != nil || m.Result.Reason != verdict.OutOfBoundsWrite || m.Case.Inputs[0].Shape.Elems() != 1 {
		t.Fatalf("Minimise = %+v, %v", m, err)
	}
	path := filepath.Join(tr.project.Config.Dir, "softmax.ptx")
	module, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sound := strings.ReplaceAll(string(module), "softmax_over", "planted")
	sound = strings.ReplaceAll(sound, "softmax(", "softmax_over(")
	sound = strings.ReplaceAll(sound, "softmax_param", "softmax_over_param")
	tr.write("softmax.ptx", sound)
	if r, err = tr.Reproduce(t.Context(), tr.project, target); err != nil || r.Result.Verdict != verdict.Pass {
		t.Errorf("Reproduce of a mended kernel = %+v, %v", r.Result, err)
	}
}

// stridedModule has a relu that is told the strides of its input. A block is 64 elements of one row.
const stridedModule = `.version 8.0
.target sm_80
.address_size 64
.visible .entry relu(.param .u64 x, .param .u64 y, .param .u32 n, .param .u64 sb, .param .u64 ss, .param .u64 sh)
{
	.reg .pred %p1;
	.reg .b32 %r<10>;
	.reg .f32 %f<3>;
	.reg .b64 %rd<20>;
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	ld.param.u32 %r1, [n];
	ld.param.u64 %rd3, [sb];
	ld.param.u64 %rd4, [ss];
	ld.param.u64 %rd5, [sh];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r2, 64, %r3;
	setp.ge.s32 %p1, %r4, %r1;
	@%p1 bra done;
	mov.u32 %r5, %ctaid.y;
	mov.u32 %r6, %ctaid.z;
	cvt.u64.u32 %rd6, %r4;
	cvt.u64.u32 %rd7, %r5;
	cvt.u64.u32 %rd8, %r6;
	mul.lo.s64 %rd9, %rd6, %rd5;
	mad.lo.s64 %rd10, %rd7, %rd4, %rd9;
	mad.lo.s64 %rd11, %rd8, %rd3, %rd10;
	shl.b64 %rd12, %rd11, 2;
	add.s64 %rd13, %rd1, %rd12;
	ld.global.f32 %f1, [%rd13];
	max.NaN.f32 %f2, %f1, 0f00000000;
	mov.u32 %r7, %nctaid.y;
	mad.lo.s32 %r8, %r6, %r7, %r5;
	mad.lo.s32 %r9, %r8, %r1, %r4;
	mul.wide.s32 %rd14, %r9, 4;
	add.s64 %rd15, %rd2, %rd14;
	st.global.f32 [%rd15], %f2;
done:
	ret;
}
`

// TestEmulatedStrides: a kernel that is told strides gets every layout; one that is not, contiguous cases alone.
func TestEmulatedStrides(t *testing.T) {
	const launch = "\n[[ops]]\nname = \"relu\"\n[ops.kernel]\nptx = \"relu.ptx\"\n" +
		"grid = [\"cdiv(H, 64)\", \"S\", \"B\"]\nblock = [64]\nargs = [\"input\", \"out\", \"H\", %s]\n"
	for _, tt := range []struct {
		args    string
		layouts int
	}{
		{`"input.strides[0]", "input.strides[1]", "input.strides[2]"`, 3}, {`"S * H", "H", 1`, 1},
	} {
		tr := newTrial(t, head+fmt.Sprintf(launch, tt.args))
		tr.write("relu.ptx", stridedModule)
		sum, results := tr.run(KindFuzz, Options{Seed: seed(3), Iterations: 12})
		if sum.Passed != 12 {
			t.Errorf("%s: %+v", tt.args, sum.Counts)
		}
		seen := map[string]bool{}
		for _, r := range results {
			for _, l := range tensor.Layouts() {
				if strings.Contains(r.Case, ":"+l.String()+":") {
					seen[l.String()] = true
				}
			}
		}
		if len(seen) != tt.layouts {
			t.Errorf("%s: layouts %v, want %d of them", tt.args, seen, tt.layouts)
		}
	}
}

// corpusOps launch kernels that nvcc and Triton compiled, of the corpus in testdata/ptx. Triton's are specialised to
// sizes that are multiples of 16.
const corpusOps = `
[[ops]]
name = "layernorm"
[ops.kernel]
ptx = "nvcc13/norm-sm90.ptx"
grid = ["B * S"]
block = [128]
args = ["input", "weight", "bias", "out", "H", "eps"]
[[ops]]
name = "rmsnorm"
[ops.kernel]
ptx = "nvcc13/norm-sm90.ptx"
grid = ["B * S"]
block = ["H > 256 ? 256 : 32"]
args = ["input", "weight", "out", "H", "float32(eps)"]
[[ops]]
name = "softmax_online"
schema = "softmax"
[ops.kernel]
ptx = "nvcc13/softmax-sm90.ptx"
grid = ["ceil(B * S / 4)"]
block = [128]
args = ["input", "out", "B * S", "H"]
[[ops]]
name = "matmul_tile16"
schema = "matmul"
[ops.kernel]
ptx = "nvcc13/matmul-sm90.ptx"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["a", "b", "out", "M", "N", "K"]
[[ops]]
name = "matmul"
dtypes = ["float16"]
reference = "builtin:matmul"
[ops.kernel]
ptx = "triton36/matmul-fp16-sm80.ptx"
grid = ["cdiv(M, 64)", "cdiv(N, 64)"]
block = [128]
shared = 65536
args = ["a", "b", "out", "M", "N", "K", "a.shape[1]", "b.shape[-1]", "out.strides[0]", 0, "zeros(8)"]
[ops.schema]
dims = [{ name = "M", candidates = [16, 64, 80] }, { name = "K", candidates = [16, 144] },
  { name = "N", candidates = [16, 208] }]
relations = ["M % 16 == 0", "K % 16 == 0", "N % 16 == 0"]
inputs = [{ name = "a", dims = ["M", "K"] }, { name = "b", dims = ["K", "N"] }]
output = { name = "output", dims = ["M", "N"] }
`

// TestEmulatedCorpus: sound kernels of other compilers pass, with every check and in two orders.
func TestEmulatedCorpus(t *testing.T) {
	iterations := 8
	if testing.Short() {
		iterations = 2
	}
	text := strings.ReplaceAll(corpusOps, "\nargs = ", "\nschedules = 2\nargs = ")
	tr := newTrial(t, head+text)
	for _, name := range []string{"nvcc13", "triton36"} {
		if err := os.Symlink(filepath.Join(testkit.Root(t), "testdata", "ptx", name),
			filepath.Join(tr.project.Config.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	sum, results := tr.run(KindFuzz, Options{Seed: seed(7), Iterations: iterations})
	if sum.Total != 5*iterations || sum.Passed+sum.Undecided != sum.Total {
		t.Errorf("%+v", sum.Counts)
	}
	for _, r := range results {
		if r.Verdict == verdict.NotRun || r.Verdict.Failed() {
			t.Errorf("%s: %s (%s) %s", r.Case, r.Verdict, r.Reason, r.Message)
		}
	}
}

// TestEmulatedOtherFormat: a float32 kernel that gets cases of float16 is told from one with a wrong index.
func TestEmulatedOtherFormat(t *testing.T) {
	tr := newEmulated(t, kernelOp("softmax", "softmax", ""))
	target := Target{Op: "softmax", Case: "softmax dtype=float16 dims=B:1,S:1,H:40 attrs=math:gpu " +
		"in=input:float16[1,1,40]:contiguous:normal seed=9 gen=1"}
	r, err := tr.Reproduce(t.Context(), tr.project, target)
	if err != nil || r.Result.Verdict != verdict.Fail {
		t.Fatalf("Reproduce = %+v, %v", r, err)
	}
	for _, name := range []string{"input", "output"} {
		want := "; the kernel accesses 4 bytes where an element of " + name + " (float16) has 2: dtypes should name the " +
			"number format that it is written for"
		said := func(f verdict.Finding) bool { return strings.HasSuffix(f.Sentence, want) }
		if !slices.ContainsFunc(r.Result.Findings, said) {
			t.Errorf("no finding ends in %q:\n%s", want, essence(*r.Result))
		}
	}
	tr = newEmulated(t, kernelOp("softmax_over", "softmax", ""))
	_, results := tr.run(KindFuzz, Options{Seed: seed(5), Iterations: 3, Dims: map[string][]int{"H": {70}}})
	if len(results) != 3 || strings.Contains(essence(results[0]), "an element of") {
		t.Errorf("an access beyond the end of its own format: %s", essence(results[0]))
	}
}

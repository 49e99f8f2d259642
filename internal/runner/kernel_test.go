package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/config"
	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/formula"
	"gpuemu/internal/opspec"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
	"gpuemu/internal/verdict"
)

// scaleModule has kernels of y[i] = k * x[i * stride], with a launch that may be wrong, and one that never ends. Every
// element is one thread's.
const scaleModule = `.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .u32 n, .param .f32 k, .param .s64 stride)
{
	.reg .pred %p1;
	.reg .b32 %r<5>;
	.reg .f32 %f<4>;
	.reg .b64 %rd<10>;
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	ld.param.u32 %r1, [n];
	ld.param.f32 %f1, [k];
	ld.param.s64 %rd3, [stride];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r2, 4, %r3;
	setp.ge.s32 %p1, %r4, %r1;
	@%p1 bra done;
	cvt.s64.s32 %rd4, %r4;
	mul.lo.s64 %rd5, %rd4, %rd3;
	shl.b64 %rd6, %rd5, 2;
	add.s64 %rd7, %rd1, %rd6;
	ld.global.f32 %f2, [%rd7];
	mul.rn.f32 %f3, %f2, %f1;
	shl.b64 %rd8, %rd4, 2;
	add.s64 %rd9, %rd2, %rd8;
	st.global.f32 [%rd9], %f3;
done:
	ret;
}
.visible .entry inplace(.param .u64 x, .param .u64 y)
{
	.reg .f32 %f1;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	mov.f32 %f1, 0f40000000;
	st.global.f32 [%rd1], %f1;
	st.global.f32 [%rd2], %f1;
	ret;
}
.visible .entry iota(.param .u64 y)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [y];
	mov.u32 %r1, %tid.x;
	mul.wide.s32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r1;
	ret;
}
.visible .entry spin(.param .u64 y)
{
again:
	bra again;
}
.visible .entry strange(.param .u64 y)
{
	.reg .b32 %r<3>;
	tcgen05.wait::ld.sync.aligned;
	ret;
}
`

// scaleSchema is that of the kernels.
func scaleSchema() *opspec.Schema {
	return &opspec.Schema{Name: "scale",
		Dims:    []opspec.Dim{{Name: "N", Candidates: []int{1}}, {Name: "FOURS", Expr: "(N+3)/4"}},
		Inputs:  []opspec.Input{{Name: "x", Dims: []string{"N"}}},
		Outputs: []opspec.Output{{Name: "y", Dims: []string{"N"}}},
		Attrs: []opspec.Attr{{Name: "k", Kind: opspec.Float, Default: 1.0},
			{Name: "mode", Default: "fast", Values: []any{"fast"}}}}
}

func exprs(texts ...string) (list []config.Expr) {
	for _, text := range texts {
		list = append(list, config.Expr{Text: text})
	}
	return list
}

// scaleLaunch is the right launch, in blocks of four.
func scaleLaunch() config.Launch {
	return config.Launch{PTX: "k.ptx", Entry: "scale", Grid: exprs("ceil(N / 4)"), Block: exprs("4"),
		Args: exprs("x", "out", "N", "k", "x.strides[0]"), Look: ptxvm.AllChecks, Schedules: 1}
}

// open compiles a launch and opens the kernel.
func open(t *testing.T, l config.Launch) (Runner, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "k.ptx"), []byte(scaleModule), 0o600); err != nil {
		t.Fatal(err)
	}
	launch, err := NewLaunch(&l, scaleSchema(), nil)
	if err != nil {
		return nil, err
	}
	return NewKernel(KernelSpec{Op: "scale", Launch: launch, Dir: dir, Timeout: time.Minute,
		Tools: func(context.Context) *cudatool.Tools { return &cudatool.Tools{} }})
}

// scaleCall is a call on 1, 2, … n.
func scaleCall(n int) *Call {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i + 1)
	}
	x := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(n), values)
	return &Call{DType: dtype.Float32, Inputs: []tensor.Named{{Name: "x", Tensor: x}},
		Attrs: opspec.Attrs{"k": 2.0, "mode": "fast"}, Dims: []opspec.DimValue{{Name: "N", Value: n}},
		Outputs: []Output{{Name: "y", DType: dtype.Float32, Shape: tensor.MustShape(n)}}}
}

func run(t *testing.T, l config.Launch, call *Call) (*Reply, error) {
	t.Helper()
	r, err := open(t, l)
	if err != nil {
		t.Fatal(err)
	}
	return r.Run(t.Context(), call)
}

func TestKernel(t *testing.T) {
	reply, err := run(t, scaleLaunch(), scaleCall(6))
	if err != nil {
		t.Fatal(err)
	}
	if got := reply.Outputs[0].Tensor.Float64s(); len(reply.Outputs) != 1 || reply.Outputs[0].Name != "y" ||
		!reflect.DeepEqual(got, []float64{2, 4, 6, 8, 10, 12}) || len(reply.Findings) != 0 || len(reply.Modified) != 0 {
		t.Errorf("outputs %v, findings %v, modified %v", got, reply.Findings, reply.Modified)
	}
}

// TestKernelIndexType: a kernel that writes int32 indexes says so in its arguments, and its output is int32 then.
func TestKernelIndexType(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "k.ptx"), []byte(scaleModule), 0o600); err != nil {
		t.Fatal(err)
	}
	schema := scaleSchema()
	schema.Outputs[0].DType, schema.Outputs[0].AlsoDTypes = "int64", []string{"int32"}
	for _, name := range []string{"y", "out"} { // an output has two names
		l := config.Launch{PTX: "k.ptx", Entry: "iota", Grid: exprs("1"), Block: exprs("N"), Look: ptxvm.AllChecks,
			Args: exprs("int32(" + name + ")"), Schedules: 1}
		launch, err := NewLaunch(&l, schema, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewKernel(KernelSpec{Op: "scale", Launch: launch, Dir: dir, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		call := scaleCall(5)
		call.Outputs[0].DType = dtype.Int64
		reply, err := r.Run(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		out := reply.Outputs[0].Tensor
		if len(reply.Findings) > 0 || out.DType != dtype.Int32 ||
			!reflect.DeepEqual(out.Float64s(), []float64{0, 1, 2, 3, 4}) {
			t.Errorf("%s: %s %v, findings %v", name, out.DType, out.Float64s(), reply.Findings)
		}
	}
	l := config.Launch{PTX: "k.ptx", Entry: "iota", Grid: exprs("1"), Block: exprs("N"), Args: exprs("int16(y)")}
	if _, err := NewLaunch(&l, schema, nil); err == nil || !strings.Contains(diag.HintOf(err), "int32(y) is permitted") {
		t.Errorf("int16(y): %v", err)
	}
}

// TestKernelDerived: dimensions that follow from others have values in a launch, though a case does not name them.
func TestKernelDerived(t *testing.T) {
	l := scaleLaunch()
	l.Grid = exprs("FOURS")
	reply, err := run(t, l, scaleCall(6))
	if err != nil {
		t.Fatal(err)
	}
	if got := reply.Outputs[0].Tensor.Float64s(); !reflect.DeepEqual(got, []float64{2, 4, 6, 8, 10, 12}) {
		t.Errorf("outputs %v", got)
	}
}

// TestKernelLayouts: strides are passed as they are; without them in the launch no strided case is run.
func TestKernelLayouts(t *testing.T) {
	call := scaleCall(3)
	whole := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(8), []float64{9, 1, 9, 2, 9, 3, 9, 9})
	view, err := whole.Slice(0, 1, 6, 2)
	if err != nil {
		t.Fatal(err)
	}
	call.Inputs[0].Tensor = view
	reply, err := run(t, scaleLaunch(), call)
	if err != nil {
		t.Fatal(err)
	}
	if got := reply.Outputs[0].Tensor.Float64s(); !reflect.DeepEqual(got, []float64{2, 4, 6}) || len(reply.Findings) != 0 {
		t.Errorf("outputs %v, findings %v", got, reply.Findings)
	}
	l := scaleLaunch()
	l.Args[4].Text = "1"
	_, err = run(t, l, call)
	wantFailure(t, err, verdict.Unsupported, `input "x" is not contiguous, and the launch tells the kernel no strides`)
}

// TestKernelGaps: what lies before a view of a storage and between its elements is not the kernel's.
func TestKernelGaps(t *testing.T) {
	call := scaleCall(3)
	whole := tensor.FromFloat64s(dtype.Float32, tensor.MustShape(8), []float64{9, 1, 9, 2, 9, 3, 9, 9})
	var err error
	if call.Inputs[0].Tensor, err = whole.Slice(0, 1, 6, 2); err != nil {
		t.Fatal(err)
	}
	for _, stride := range []string{"x.strides[0] - 1", "0 - x.strides[0]"} {
		l := scaleLaunch()
		l.Args[4].Text = stride
		reply, err := run(t, l, call)
		if err != nil || len(reply.Findings) == 0 || reply.Findings[0].Kind != "oob_read" {
			t.Errorf("stride %s: %v, %v", stride, reply, err)
		}
	}
}

func TestValidParts(t *testing.T) {
	view := func(storage, offset int, shape, strides []int) [][2]int {
		return validParts(&tensor.Tensor{DType: dtype.Float32, Shape: shape, Strides: strides, Offset: offset,
			Data: make([]byte, 4*storage)})
	}
	for i, c := range []struct{ got, want [][2]int }{
		{view(12, 0, []int{3, 4}, []int{4, 1}), nil},
		{view(12, 0, []int{4, 3}, []int{1, 4}), nil},
		{view(12, 11, []int{3, 4}, []int{-4, -1}), nil},
		{view(12, 4, []int{2, 4}, []int{4, 1}), [][2]int{{4, 8}}},
		{view(12, 1, []int{3, 2}, []int{4, 1}), [][2]int{{1, 2}, {5, 2}, {9, 2}}},
		{view(12, 9, []int{2, 3}, []int{1, -4}), [][2]int{{1, 2}, {5, 2}, {9, 2}}},
		{view(12, 0, []int{5, 2}, []int{0, 3}), [][2]int{{0, 1}, {3, 1}}},
		{view(12, 0, []int{0, 2}, []int{2, 1}), nil},
		{view(30000, 0, []int{3, 5000}, []int{10000, 2}), [][2]int{{0, 9999}, {10000, 9999}, {20000, 9999}}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("case %d: %v, want %v", i, c.got, c.want)
		}
	}
}

// TestKernelFindings: what the emulator sees is in the reply, with its place.
func TestKernelFindings(t *testing.T) {
	l := scaleLaunch()
	l.Args[2].Text = "N + 1"
	reply, err := run(t, l, scaleCall(6))
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.Findings) != 2 || reply.Findings[0].Kind != "oob_read" || reply.Findings[1].Kind != "oob_write" {
		t.Fatalf("findings %+v", reply.Findings)
	}
	want := verdict.Site{PTX: "k.ptx", PTXLine: 28, Block: [3]int{1, 0, 0}, Thread: [3]int{2, 0, 0},
		Instruction: "st.global.f32 [%rd9], %f3;", Count: 1}
	if got := reply.Findings[1]; *got.Site != want || !strings.HasPrefix(got.Sentence,
		"k.ptx:28: block 1,0,0, thread 2,0,0: writes 4 bytes") {
		t.Errorf("finding %+v at %+v, want %+v", got, *got.Site, want)
	}
	l.Look = ptxvm.CheckRace
	if reply, err = run(t, l, scaleCall(6)); err != nil || len(reply.Findings) != 0 {
		t.Errorf("findings without the check: %v, %v", reply, err)
	}
	l = scaleLaunch()
	l.Entry, l.Args = "inplace", exprs("x", "y")
	l.Grid, l.Block = exprs("1"), exprs("1")
	if reply, err = run(t, l, scaleCall(1)); err != nil || !reflect.DeepEqual(reply.Modified, []string{"x"}) {
		t.Errorf("modified: %+v, %v", reply, err)
	}
}

// TestKernelMemory: memory beside the tensors is no output; what is read of scratch was never set.
func TestKernelMemory(t *testing.T) {
	for memory, want := range map[string]string{"zeros(4 * N)": "0", "scratch(4 * N)": "uninit"} {
		l := scaleLaunch()
		l.Args[0].Text, l.Args[4].Text = memory, "1"
		reply, err := run(t, l, scaleCall(3))
		if err != nil || len(reply.Outputs) != 1 || len(reply.Modified) != 0 {
			t.Fatalf("%s: %+v, %v", memory, reply, err)
		}
		got := fmt.Sprint(reply.Outputs[0].Tensor.Float64s()[2])
		if len(reply.Findings) > 0 {
			got = reply.Findings[0].Kind
		}
		if got != want {
			t.Errorf("%s: %s, findings %v, want %s", memory, got, reply.Findings, want)
		}
	}
	l := scaleLaunch()
	l.Args[0].Text, l.Args[4].Text = "scratch(-N)", "1"
	_, err := run(t, l, scaleCall(3))
	wantFailure(t, err, verdict.Unsupported, `args[0] = "scratch(-N)" is -3 in this case, want 0`)
	l.Args[0].Text = "zeros(N * 100000000)"
	_, err = run(t, l, scaleCall(3))
	wantFailure(t, err, verdict.Unsupported, "is 300000000 bytes in this case, at most 268435456 are given")
}

// TestKernelZeroed: what a kernel does not write of zeroed memory stays zero, and is reported all the same; reading
// zeroed scratch memory is no finding.
func TestKernelZeroed(t *testing.T) {
	l := scaleLaunch()
	l.Args[0].Text, l.Args[4].Text = "scratch(4 * N)", "1"
	l.Args[2].Text = "N - 1"
	call := scaleCall(3)
	call.Zeroed = true
	reply, err := run(t, l, call)
	if err != nil || len(reply.Findings) != 1 || reply.Findings[0].Kind != "unwritten" {
		t.Fatalf("%+v, %v", reply, err)
	}
	if got := reply.Outputs[0].Tensor.Float64s(); !reflect.DeepEqual(got, []float64{0, 0, 0}) {
		t.Errorf("outputs %v, want zeros", got)
	}
}

// TestKernelEmpty: a grid of no blocks is no launch, and leaves outputs unwritten that have elements.
func TestKernelEmpty(t *testing.T) {
	reply, err := run(t, scaleLaunch(), scaleCall(0))
	if err != nil || len(reply.Findings) != 0 || len(reply.Outputs) != 1 {
		t.Errorf("empty: %+v, %v", reply, err)
	}
	l := scaleLaunch()
	l.Grid = exprs("N - 3")
	if reply, err = run(t, l, scaleCall(3)); err != nil || len(reply.Findings) != 1 ||
		reply.Findings[0].Kind != "unwritten" {
		t.Errorf("unwritten: %+v, %v", reply, err)
	}
	l.Look = ptxvm.CheckRace
	if reply, err = run(t, l, scaleCall(3)); err != nil || len(reply.Findings) != 0 {
		t.Errorf("unwritten without the check: %+v, %v", reply, err)
	}
}

func wantFailure(t *testing.T, err error, reason verdict.Reason, part string) {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) || f.Reason != reason || !strings.Contains(f.Msg, part) {
		t.Errorf("got %v, want %s: %s", err, reason, part)
	}
}

// TestKernelNotRun: what cannot be launched, or does not end, is no verdict.
func TestKernelNotRun(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(l *config.Launch, c *Call)
		reason verdict.Reason
		part   string
	}{
		"negative grid": {func(l *config.Launch, _ *Call) { l.Grid = exprs("N - 9") }, verdict.Unsupported,
			`grid[0] = "N - 9" is -6 in this case, want 0 to 2147483647`},
		"no threads": {func(l *config.Launch, _ *Call) { l.Block = exprs("N - 3") }, verdict.Unsupported,
			`block[0] = "N - 3" is 0 in this case, want 1`},
		"large block": {func(l *config.Launch, _ *Call) { l.Block = exprs("N * 400") }, verdict.Unsupported,
			"block 1200,1,1: x is from 1 to 1024"},
		"high grid": {func(l *config.Launch, _ *Call) { l.Grid = exprs("1", "70000") }, verdict.Unsupported,
			"grid 1,70000,1: y is from 1 to 65535"},
		"shared": {func(l *config.Launch, _ *Call) { l.Shared = config.Expr{Text: "N * 500000000"} }, verdict.Unsupported,
			"dynamic shared memory of 1500000000 bytes"},
		"arithmetic": {func(l *config.Launch, _ *Call) { l.Grid = exprs("1 / (N - 3)") }, verdict.Unsupported,
			"division by zero"},
		"no size": {func(l *config.Launch, _ *Call) { l.Args[2].Text = "N * 2000000000" }, verdict.Unsupported,
			"args[2] = \"N * 2000000000\": 6000000000 does not fit parameter n of 4 bytes"},
		"fraction": {func(l *config.Launch, _ *Call) { l.Args[2].Text = "k" }, verdict.Unsupported,
			"parameter n of type u32 does not take a fraction"},
		"other width": {func(l *config.Launch, _ *Call) { l.Args[2].Text = "int64(N)" }, verdict.Unsupported,
			"int64 has 8 bytes, parameter n has 4"},
		"refused": {func(l *config.Launch, _ *Call) { l.Entry, l.Args = "strange", exprs("y") }, verdict.Unsupported,
			"k.ptx:"},
		"cubin": {func(l *config.Launch, _ *Call) { l.PTX, l.Cubin = "", "k.cubin" }, verdict.Unsupported,
			"k.cubin: machine code is not executed"},
		"budget": {func(l *config.Launch, _ *Call) {
			l.Entry, l.Args, l.Budget = "spin", exprs("y"), 1000
		}, verdict.OverBudget, "1000"},
		"other tensors": {func(_ *config.Launch, c *Call) { c.Outputs = nil }, verdict.Unsupported,
			"the case has other tensors than the op's schema"},
		"no compiler": {func(l *config.Launch, _ *Call) { l.PTX, l.Source = "", "k.ptx" }, verdict.NotStarted,
			"neither nvcc nor clang was found"},
	} {
		t.Run(name, func(t *testing.T) {
			l, call := scaleLaunch(), scaleCall(3)
			tt.change(&l, call)
			_, err := run(t, l, call)
			wantFailure(t, err, tt.reason, tt.part)
		})
	}
}

func TestKernelTimeout(t *testing.T) {
	l := scaleLaunch()
	l.Entry, l.Args = "spin", exprs("y")
	r, err := open(t, l)
	if err != nil {
		t.Fatal(err)
	}
	r.(*kernelRunner).spec.Timeout = time.Millisecond
	_, err = r.Run(t.Context(), scaleCall(1))
	wantFailure(t, err, verdict.TimedOut, "the emulator stopped spin after 1ms")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = r.Run(gone, scaleCall(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLaunchFaults: what is wrong with a launch whatever the case is said before anything runs.
func TestLaunchFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(l *config.Launch)
		want   string
	}{
		"name":        {func(l *config.Launch) { l.Grid = exprs("n / 4") }, `unknown name "n" [formula-name]`},
		"kind":        {func(l *config.Launch) { l.Grid = exprs("k") }, `grid[0] is "k", which is a number with a fraction`},
		"tensor size": {func(l *config.Launch) { l.Block = exprs("x") }, `block[0] is "x", which is a tensor`},
		"memory size": {func(l *config.Launch) { l.Block = exprs("zeros(4)") }, `block[0] is "zeros(4)"`},
		"memory": {func(l *config.Launch) { l.Args[2].Text = "zeros(4)" },
			"args[2] is memory, and parameter n has 4 bytes, which is no address"},
		"cast size": {func(l *config.Launch) { l.Shared.Text = "int32(N)" }, `shared[0] is "int32(N)"`},
		"text":      {func(l *config.Launch) { l.Args[2].Text = "mode" }, "args[2] is a text, which no kernel takes"},
		"cast":      {func(l *config.Launch) { l.Args[0].Text = "float32(x)" }, "a tensor has no other type"},
		"twice":     {func(l *config.Launch) { l.Args[0].Text = "y" }, "args[1]: out is an argument before, too"},
		"no output": {func(l *config.Launch) { l.Args[1].Text = "N" }, `output "y" is not among the arguments`},
		"count":     {func(l *config.Launch) { l.Args = l.Args[:4] }, "args has 4 arguments, scale takes 5"},
		"address": {func(l *config.Launch) { l.Args[0].Text, l.Args[2].Text = "N", "x" },
			"parameter n has 4 bytes, which is no address"},
		"entry": {func(l *config.Launch) { l.Entry = "scal" }, "ptxvm-no-entry"},
		"file":  {func(l *config.Launch) { l.PTX = "gone.ptx" }, "there is no file"},
	} {
		l := scaleLaunch()
		tt.change(&l)
		if _, err := open(t, l); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	schema := scaleSchema()
	schema.Outputs = nil
	l := scaleLaunch()
	if _, err := NewLaunch(&l, schema, nil); err == nil ||
		!strings.Contains(err.Error(), "the outputs of the op are not known") {
		t.Errorf("no outputs: %v", err)
	}
	if _, err := NewLaunch(&l, scaleSchema(), opspec.Attrs{"x": int64(1)}); err == nil ||
		!strings.Contains(err.Error(), `"x" is a tensor of the op and something else as well`) {
		t.Errorf("clash: %v", err)
	}
	if launch, err := NewLaunch(&l, scaleSchema(), opspec.Attrs{"tile": int64(1)}); err != nil || !launch.TakesStrides() {
		t.Errorf("strides: %v, %v", launch, err)
	}
}

// TestScalars: the bytes of a parameter, by its type or by a conversion.
func TestScalars(t *testing.T) {
	whole := func(n int64) formula.Value { return formula.Value{Kind: formula.Int, Int: n} }
	fraction := func(x float64) formula.Value { return formula.Value{Kind: formula.Float, Float: x} }
	for _, tt := range []struct {
		v    formula.Value
		d    dtype.DType
		typ  string
		size int
		want string
	}{
		{whole(-2), dtype.Invalid, "u32", 4, "feffffff"},
		{whole(1<<32 - 1), dtype.Invalid, "s32", 4, "ffffffff"},
		{whole(1 << 32), dtype.Invalid, "b32", 4, "4294967296 does not fit parameter p of 4 bytes"},
		{whole(-1<<31 - 1), dtype.Invalid, "b32", 4, "does not fit"},
		{whole(-1 << 63), dtype.Invalid, "u64", 8, "0000000000000080"},
		{whole(300), dtype.Invalid, "u8", 1, "does not fit"},
		{whole(255), dtype.Invalid, "u8", 1, "ff"},
		{whole(128), dtype.Int8, "b8", 1, "does not fit"},
		{whole(-1), dtype.Uint16, "b16", 2, "does not fit"},
		{whole(2), dtype.Bool, "u8", 1, "does not fit"},
		{formula.Value{Kind: formula.Bool, Int: 1}, dtype.Invalid, "u8", 1, "01"},
		{whole(3), dtype.Invalid, "f32", 4, "00004040"},
		{fraction(0.1), dtype.Invalid, "f32", 4, "cdcccc3d"},
		{fraction(0.1), dtype.Invalid, "f64", 8, "9a9999999999b93f"},
		{fraction(0.1), dtype.Float32, "b32", 4, "cdcccc3d"},
		{fraction(1), dtype.BFloat16, "b8", 2, "803f"},
		{fraction(1), dtype.Invalid, "b16", 2, "does not take a fraction"},
		{fraction(1), dtype.Int32, "u32", 4, "does not take a fraction"},
		{whole(1), dtype.Invalid, "b8", 12, "parameter p has 12 bytes, which no number has"},
	} {
		b, err := scalar(tt.v, tt.d, &ptxvm.Param{Name: "p", Size: tt.size}, tt.typ)
		got := fmt.Sprintf("%x", b)
		if err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v as %s of %s: %s, %v, want %s", tt.v, tt.d, tt.typ, got, err, tt.want)
		}
	}
}

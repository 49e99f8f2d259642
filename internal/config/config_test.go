package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuemu/internal/compare"
	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/ptxvm"
	"gpuemu/internal/tensor"
)

// mustParse parses a text that is right.
func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("dir/gpuemu.toml", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, text)
	}
	return c
}

func parseFile(t *testing.T, name string) *Config {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return mustParse(t, string(data))
}

// TestFull reads every kind of value, each with another value than its default.
func TestFull(t *testing.T) {
	got := parseFile(t, "full.toml")
	if len(got.Ops) != 3 || got.Ops[1].Schema == nil {
		t.Fatalf("%d ops, schema of the second %v, want 3 and one", len(got.Ops), got.Ops[1].Schema)
	}
	schema := got.Ops[1].Schema
	if schema.Name != "rowsum" || len(schema.Dims) != 2 || !math.IsInf(schema.Inputs[0].Domain.Max, 1) {
		t.Errorf("schema = %+v, want the name of the op, two dims and an infinite domain", schema)
	}
	three, shared, stack := 0.3, 100, 16
	at := func(line, col int) diag.Pos { return diag.Pos{File: "dir/gpuemu.toml", Line: line, Col: col} }
	want := &Config{
		Path: "dir/gpuemu.toml", Dir: "dir", Digest: got.Digest,
		Project: Project{"kernels", "1.2.0", "triton", ".venv/bin/python"},
		Validation: Validation{
			DTypes: []dtype.DType{dtype.Float32, dtype.BFloat16, dtype.Float8E4M3FN},
			Seed:   math.MaxUint64, HasSeed: true, HasDTypes: true,
			Tolerances: map[dtype.DType]compare.Tolerance{dtype.Float32: {Abs: 1e-4, Rel: 1e-4},
				dtype.Float16: {Abs: 1e-3, Rel: 2e-3}, dtype.BFloat16: {Abs: 0.5, Rel: 1e-2}},
			Regime: compare.Fixed, NonFinite: compare.Forbid, Values: "normal", Shapes: "tile_aware",
			Layouts: []tensor.Layout{tensor.Contiguous, tensor.ChannelsLast}, Silence: []string{"all_zero"},
		},
		Ops: []Op{{
			Name: "softmax", Module: "kernels.softmax", Reference: "builtin:softmax",
			Candidate: "kernels/softmax.py:softmax", InputNames: []string{"input"}, Mode: Worker,
			Frameworks: []string{"pytorch"}, Tolerances: map[dtype.DType]compare.Tolerance{dtype.Float16: {Abs: 1e-2}},
			Regime: compare.Bound, Invariants: []string{"shape_preserved", "normalized"}, SchemaName: "softmax",
			Attributes: map[string]any{"axis": int64(-1), "scale": 0.5, "causal": true, "mode": "fast"},
			Kwargs: map[string]any{"block": []any{int64(32), int64(64)},
				"options": map[string]any{"fast": true}},
			Timeout: 2500 * time.Millisecond, Memory: 2 << 30, Env: map[string]string{"OMP_NUM_THREADS": "1"},
			Python: "python3.12", Raw: true, DTypes: []dtype.DType{dtype.Float16}, Values: "ties", Shapes: "large",
			Layouts: []tensor.Layout{tensor.Sliced},
		}, {
			Name: "rowsum", Reference: "ref.py", OpScript: "rowsum.sh", Mode: DaemonOrchestrated,
			Invariants: []string{"finite"}, InvariantsOff: []string{"non_negative"}, Schema: schema, Timeout: DefaultTimeout,
		}, {
			Name: "compiled", Mode: Emulate, Timeout: DefaultTimeout, Kernel: &OpKernel{Launch{PTX: "k.ptx", Entry: "k",
				Grid: []Expr{{"ceil(N / 256)", at(69, 10)}, {"2", at(69, 26)}}, Block: []Expr{{"256", at(70, 10)}},
				Shared: Expr{"1024", at(71, 10)}, Args: []Expr{{"x", at(72, 10)}, {"y", at(72, 15)}, {"N", at(72, 20)},
					{"3", at(72, 24)}, {"5e-01", at(72, 27)}, {"true", at(72, 32)}, {"-inf", at(72, 38)}},
				Look: ptxvm.CheckBounds | ptxvm.CheckRace, Schedules: 4, Budget: 1000000}},
		}},
		Kernels: []Kernel{{
			Name: "gemm", Reference: "ref.py", SASS: "gemm.sass", DTypes: []dtype.DType{dtype.Float16},
			Tolerances: map[dtype.DType]compare.Tolerance{dtype.Float32: {Abs: 1e-3, Rel: 1e-3}},
			Invariants: []string{"finite"},
			Checks: ArtifactChecks{MaxRegisters: 128, MaxSpills: 4, MaxLocalMemory: 8, MaxShared: &shared, MaxStack: &stack,
				RequiredPatterns: []string{"mma"}, ForbiddenPatterns: []string{"ld.local"}},
			Launch: Launch{Cubin: "gemm.cubin", Source: "gemm.cu", Arch: "sm_90a", Flags: []string{"-DTILE=64", "-Iinclude"},
				Look: ptxvm.AllChecks, Schedules: 1},
		}},
		Policies: Policies{true, 0.01, 0.2},
		Store:    Store{512},
		CI: CI{FuzzIterations: 500, Parallel: 4, RegressionThreshold: &three, ThoroughTimeout: 600 * time.Second,
			Quick: Quick{5, []dtype.DType{dtype.BFloat16}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Parse =\n%+v\nwant\n%+v", got, want)
	}
	if len(got.Digest) != 64 || got.Digest == mustParse(t, "").Digest {
		t.Errorf("Digest = %q, want 64 digits that depend on the bytes", got.Digest)
	}
}

func TestDocumentedExamples(t *testing.T) {
	c := parseFile(t, "documented.toml")
	op, ok := c.Op("my_op")
	if !ok || op.Mode != ClientSide || op.Executable() != "" {
		t.Fatalf("Op(my_op) = %+v, %v, want a client-side op", op, ok)
	}
	for _, tt := range []struct {
		op    string
		d     dtype.DType
		want  compare.Tolerance
		given bool
	}{
		{"my_op", dtype.Float32, compare.Tolerance{Abs: 1e-4, Rel: 1e-4}, true},
		{"my_op", dtype.Float16, compare.Tolerance{Abs: 1e-3, Rel: 1e-3}, true},
		{"softmax", dtype.Float32, compare.Tolerance{Abs: 1e-5, Rel: 1e-5}, true},
		{"softmax", dtype.BFloat16, compare.Tolerance{Abs: 1e-2, Rel: 1e-2}, false},
	} {
		op, _ := c.Op(tt.op)
		if got, given := c.Tolerance(op, tt.d); got != tt.want || given != tt.given {
			t.Errorf("Tolerance(%s, %s) = %v, %v, want %v, %v", tt.op, tt.d, got, given, tt.want, tt.given)
		}
	}
}

// TestTablesAreIndependent: leaving a table out, or giving one, changes nothing that another table is about. The
// published program lowers the float16 tolerance to 1e-5 where one table is missing.
func TestTablesAreIndependent(t *testing.T) {
	whole, err := os.ReadFile("testdata/full.toml")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.SplitAfter(string(whole), "\n\n")
	of := func(c *Config, i int) any { return reflect.ValueOf(*c).Field(i).Interface() }
	def, full := mustParse(t, ""), mustParse(t, string(whole))
	for i, name := range []string{3: "[project", 4: "[validation", 5: "[[ops", 6: "[[kernels", 7: "[policies", 8: "[store",
		9: "[ci"} {
		if name == "" {
			continue
		}
		var only, without strings.Builder
		for _, s := range sections {
			head := s[strings.Index(s, "["):]
			if strings.HasPrefix(head, name) || name == "[[ops" && strings.HasPrefix(head, "[ops") {
				only.WriteString(s)
				without.WriteString(strings.Repeat("\n", strings.Count(s, "\n"))) // places stay as they are
			} else {
				without.WriteString(s)
				only.WriteString(strings.Repeat("\n", strings.Count(s, "\n")))
			}
		}
		a, b := mustParse(t, only.String()), mustParse(t, without.String())
		for f := 3; f <= 8; f++ {
			wantA, wantB := of(def, f), of(full, f)
			if f == i {
				wantA, wantB = wantB, wantA
			}
			if !reflect.DeepEqual(of(a, f), wantA) {
				t.Errorf("only %s: field %d is %+v, want %+v", name, f, of(a, f), wantA)
			}
			if !reflect.DeepEqual(of(b, f), wantB) {
				t.Errorf("without %s: field %d is %+v, want %+v", name, f, of(b, f), wantB)
			}
		}
	}
}

func TestModes(t *testing.T) {
	for _, tt := range []struct {
		keys string
		want Mode
		exe  string
	}{
		{``, ClientSide, ""},
		{`reference = "ref.py"`, ClientSide, ""},
		{`op_script = "op.py"`, ScriptBased, "op.py"},
		{`candidate = "op.py"`, ScriptBased, "op.py"},
		{`candidate = "./op"`, ScriptBased, "./op"},
		{`candidate = "op.py:f"`, Worker, "op.py:f"},
		{`op_script = "op.py:f"`, Worker, "op.py:f"},
		{`candidate = "worker:./op --fast"`, Worker, "worker:./op --fast"},
		{`candidate = "builtin:softmax"`, Worker, "builtin:softmax"},
		{"candidate = \"k.ptx\"\nkernel = { grid = [1], block = [1], args = [] }", Emulate, "emulate:k.ptx"},
		{`kernel = { ptx = "k.ptx", entry = "f", grid = [1], block = [1], args = [] }`, Emulate, "emulate:k.ptx#f"},
		{`kernel = { ptx = "k.{dtype}.ptx", entry = "f", grid = [1], block = [1], args = [] }`, Emulate,
			"emulate:k.{dtype}.ptx#f"},
		{`kernel = { source = "k.cu", grid = [1], block = [1], args = [] }`, Emulate, "emulate:k.cu"},
		{"candidate = \"op.py\"\nexecution_mode = \"script_based\"\nkernel = { ptx = \"k.ptx\" }", ScriptBased, "op.py"},
		{"candidate = \"op.py\"\nop_script = \"op.py\"", ScriptBased, "op.py"},
		{"candidate = \"op.py\"\nexecution_mode = \"client_side\"", ClientSide, "op.py"},
		{`execution_mode = "script_based"`, ScriptBased, ""},
		{`execution_mode = "worker"`, Worker, ""},
		{`execution_mode = "daemon_side"`, DaemonOrchestrated, ""},
		{`execution_mode = "daemon_orchestrated"`, DaemonOrchestrated, ""},
	} {
		op, _ := mustParse(t, "[[ops]]\nname = \"x\"\n"+tt.keys).Op("x")
		if op.Mode != tt.want || op.Executable() != tt.exe {
			t.Errorf("%s: mode %s, executable %q, want %s, %q", tt.keys, op.Mode, op.Executable(), tt.want, tt.exe)
		}
	}
}

func TestSmallRules(t *testing.T) {
	if got := mustParse(t, "[policies]\nregression_threshold = 0.2").Threshold(); got != 0.2 {
		t.Errorf("Threshold with [policies] alone = %v, want 0.2", got)
	}
	both := "[policies]\nregression_threshold = 0.2\n[ci]\nregression_threshold = 0"
	if got := mustParse(t, both).Threshold(); got != 0 {
		t.Errorf("Threshold with [ci] = 0 is %v, want 0", got)
	}
	if got := mustParse(t, "").Threshold(); got != 0.1 {
		t.Errorf("Threshold of an empty file = %v, want 0.1", got)
	}
	c := mustParse(t, "[ci]\nquick_dtypes = [\"f16\"]\nparallel = 3\nparallel_jobs = 3")
	if c.CI.Parallel != 3 || !reflect.DeepEqual(c.CI.Quick.DTypes, []dtype.DType{dtype.Float16}) {
		t.Errorf("CI = %+v, want parallel 3 and quick dtypes float16", c.CI)
	}
	for in, want := range map[string]string{"a/b.py": "dir/a/b.py", "../x": "x", "/abs/x": "/abs/x"} {
		if got := c.Abs(in); got != want {
			t.Errorf("Abs(%q) = %q, want %q", in, got, want)
		}
	}
	if v := mustParse(t, "[validation]\nseed = 0").Validation; v.Seed != 0 || !v.HasSeed {
		t.Errorf("seed = 0 gives %d, %v, want 0, true", v.Seed, v.HasSeed)
	}
	if v := mustParse(t, "").Validation; v.Seed != 1 || v.HasSeed {
		t.Errorf("no seed gives %d, %v, want 1, false", v.Seed, v.HasSeed)
	}
	if _, ok := mustParse(t, "[[kernels]]\nname = \"k\"\nptx = \"k.ptx\"").Kernel("k"); !ok {
		t.Error("Kernel(k) is not found")
	}
	if got := (ModeUnset).String(); got != "unset" {
		t.Errorf("ModeUnset = %q, want unset", got)
	}
}

func TestPerDType(t *testing.T) {
	c := mustParse(t, `
[validation]
dtypes = ["bfloat16"]
[[kernels]]
name = "k"
ptx = "k.ptx"
[[kernels]]
name = "two"
ptx = "two.{dtype}.ptx"
dtypes = ["float32", "float16"]
[[kernels]]
name = "entries"
ptx = "all.ptx"
entry = "f_{dtype}_{dtype}"
`)
	var got []string
	for i := range c.Kernels {
		for _, k := range c.Compiled(&c.Kernels[i]) {
			got = append(got, fmt.Sprintf("%s %s %s %v", k.Name, k.PTX, k.Entry, k.DTypes))
		}
	}
	want := []string{"k k.ptx  []", "two.float32 two.float32.ptx  [float32]", "two.float16 two.float16.ptx  [float16]",
		"entries.bfloat16 all.ptx f_bfloat16_bfloat16 [bfloat16]"}
	if !slices.Equal(got, want) {
		t.Errorf("compiled kernels are %q, want %q", got, want)
	}
}

// TestDTypesOf: a kernel that is compiled for one number format is tested in what dtypes names, else in float32.
func TestDTypesOf(t *testing.T) {
	const kernel = "[[ops]]\nname = %q\n%s\n[ops.kernel]\nptx = %q\ngrid = [1]\nblock = [1]\nargs = []\n"
	f32, f16 := dtype.Float32, dtype.Float16
	for _, tt := range []struct {
		name, text string
		want       []dtype.DType
	}{
		{"a kernel", fmt.Sprintf(kernel, "x", "", "x.ptx"), []dtype.DType{f32}},
		{"its own dtypes", fmt.Sprintf(kernel, "x", `dtypes = ["float16"]`, "x.ptx"), []dtype.DType{f16}},
		{"those of validation", "[validation]\ndtypes = [\"float32\", \"float16\"]\n" + fmt.Sprintf(kernel, "x", "", "x.ptx"),
			[]dtype.DType{f32, f16}},
		{"one per format", fmt.Sprintf(kernel, "x", "", "x.{dtype}.ptx"), []dtype.DType{f32, f16}},
		{"a function", "[[ops]]\nname = \"x\"\ncandidate = \"x.py:f\"\n", []dtype.DType{f32, f16}},
		{"an executed kernel", "[[kernels]]\nname = \"x\"\nreference = \"builtin:relu\"\nptx = \"x.ptx\"\ngrid = [1]\n" +
			"block = [1]\nargs = []\n", []dtype.DType{f32}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, tt.text)
			if got := c.DTypesOf(c.Subjects()[0]); !slices.Equal(got, tt.want) {
				t.Errorf("DTypesOf = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestEmulatesLaunches: a function is executed in the emulator where the configuration says so; other candidates need a
// kernel for that.
func TestEmulatesLaunches(t *testing.T) {
	const op = "[[ops]]\nname = \"x\"\ncandidate = %q\n%s\n"
	for text, want := range map[string]bool{
		fmt.Sprintf(op, "k.py:f", `execution_mode = "emulate"`): true,
		fmt.Sprintf(op, "k.py:f", ""):                           false,
		fmt.Sprintf(op, "k.py", ""):                             false,
	} {
		if o := mustParse(t, text).Ops[0]; o.EmulatesLaunches() != want || o.Executable() != o.Candidate {
			t.Errorf("%s: EmulatesLaunches = %v, want %v; executable %q", text, !want, want, o.Executable())
		}
	}
	_, err := Parse("gpuemu.toml", fmt.Appendf(nil, op, "k.py", `execution_mode = "emulate"`))
	if diag.CodeOf(err) != MissingKey || !strings.Contains(err.Error(), "is to be emulated and has no kernel") {
		t.Errorf("a script that is to be emulated: %v, want %s", err, MissingKey)
	}
}

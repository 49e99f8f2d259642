package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/cudatool"
	"gpuemu/internal/diag"
	"gpuemu/internal/pattern"
	"gpuemu/internal/testkit"
)

func TestDetect(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       Format
	}{
		{"x.txt", "// made by a compiler\n/* and\nmore */ .version 8.4\n.target sm_80", FormatPTX},
		{"x.cubin", ".version 8.4\n.target sm_80", FormatPTX}, // by content
		{"x", "\ufeff .version 8.4", FormatPTX},
		{"x.ptx", "\x7fELF\x02\x01\x01\x33\x07\x00\x00\x00\x00\x00\x00\x00\x02\x00\xbe\x00", FormatCubin},
		{"x.ptx", "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00", FormatHost},
		{"x.ptx", "\x50\xed\x55\xba\x01\x00", FormatFatbin},
		{"x.ptx", "\tcode for sm_90\n\t\tFunction : k\n        /*0000*/  EXIT ;\n", FormatSASS},
		{"x.ptx", ".section\t.text.k,\"ax\",@progbits\n.text.k:\n        /*0000*/  EXIT ;\n", FormatSASS},
		{"x.cu", ".version 8.4\n.target sm_80", FormatSource}, // never read as PTX
		{"X.CU", "", FormatSource},
		{"x.cuh", "", FormatSource},
		{"x.txt", "__global__ void k() {}", FormatSource},
		{"x.ptx", "Function : and nothing behind it", ""},
		{"x.ptx", "version 8.4", ""},
		{"x.ptx", "a\x00b .version", ""},
		{"x.ptx", "/* no end .version", ""},
		{"x.ptx", "", ""},
	} {
		if got := Detect(tt.name, []byte(tt.text)); got != tt.want {
			t.Errorf("Detect(%s, %.40q) = %q, want %q", tt.name, tt.text, got, tt.want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		code       diag.Code
		says, hint string
	}{
		{"x.bin", "hello", UnknownFormat, `x.bin: this is none of the known formats: it starts with "hello"`,
			"give PTX text"},
		{"x.bin", "", UnknownFormat, `it starts with ""`, "give PTX text"},
		{"k.cu", "__global__ void k() {}", UnknownFormat, "k.cu: this is a CUDA source", "give the source as a file"},
		{"k.ptx", ".version 8.4\n.target sm_80\n.address_size 64\n", NoKernel, "k.ptx: there is no kernel in it", ".entry"},
		{"k.ptx", ".version 8.4\n.target sm_80\n.entry k() { nonsense; }", "ptx-unknown-opcode", "k.ptx:3:14", ""},
		{"k.cubin", "\x7fELF", "cubin-elf", "k.cubin", ""},
	} {
		_, err := Read(tt.name, []byte(tt.text))
		if diag.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) ||
			!strings.Contains(diag.HintOf(err), tt.hint) {
			t.Errorf("Read(%s, %.20q) = %v (%s), want %s with %q and a hint with %q", tt.name, tt.text, err, diag.HintOf(err),
				tt.code, tt.says, tt.hint)
		}
	}
	for _, tt := range []struct{ path, says string }{
		{filepath.Join(t.TempDir(), "none.ptx"), "no such file"}, {t.TempDir(), "no regular file"},
	} {
		_, err := Load(context.Background(), tt.path, Options{})
		if diag.CodeOf(err) != Unreadable || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Load(%s) = %v, want %s with %q", tt.path, err, Unreadable, tt.says)
		}
	}
}

// TestSourceWithoutCompiler: a source is not read as anything else, and the error is the one that means "not here".
func TestSourceWithoutCompiler(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.cu")
	if err := os.WriteFile(path, []byte(".version 8.4\n.target sm_80\n.entry k() { ret; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(context.Background(), path, Options{Tools: func() *cudatool.Tools { return &cudatool.Tools{} }})
	if diag.CodeOf(err) != cudatool.Missing || !strings.Contains(err.Error(), "cannot compile here") {
		t.Errorf("Load = %v, want %s", err, cudatool.Missing)
	}
}

// TestSourceWithCompiler needs a clang; it compiles with our own header.
func TestSourceWithCompiler(t *testing.T) {
	tools := cudatool.Find(context.Background())
	if tools.Clang == nil {
		t.Skip("no clang is installed: apt-get install clang-19")
	}
	tools = &cudatool.Tools{Clang: tools.Clang}
	dir := t.TempDir()
	path := filepath.Join(dir, "k.cu")
	source := `#include <cuda_runtime.h>
extern "C" __global__ void copy(float4 *out, const float4 *in) {
  __shared__ float4 tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  float4 v = tile[63 - threadIdx.x];
  v.x = expf(v.x);
  out[threadIdx.x] = v;
}
`
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Load(context.Background(), path, Options{Tools: func() *cudatool.Tools { return tools }, Arch: "sm_80"})
	if err != nil {
		t.Fatal(err)
	}
	m := one(t, f, "copy")
	check(t, "the format", f.Format, FormatSource)
	check(t, "the digest", f.Digest, digest([]byte(source)))
	check(t, "shared memory", m.SharedStatic, figure(1024, Declared))
	check(t, "the architecture", m.Arch, "sm_80")
	src := m.Sources[0]
	check(t, "the source", []any{src.Kind, src.File, src.Line, src.SourceFile}, []any{PTX, path, 0, path})
	if src.SourceLine < 2 || src.SourceLine > 8 {
		t.Errorf("the kernel is said to begin in line %d", src.SourceLine)
	}
	i := slices.IndexFunc(m.PTXCode.Mnemonics, func(n Mnemonic) bool { return strings.HasPrefix(n.Name, "ex2.approx") })
	if i < 0 {
		t.Fatalf("no ex2.approx in %v", m.PTXCode.Opcodes)
	}
	check(t, "the place of ex2, which our header has", m.PTXCode.Mnemonics[i].Places,
		[]Place{{SourceFile: path, SourceLine: 7}})
}

// TestListing counts the listing in testdata by hand.
func TestListing(t *testing.T) {
	f := load(t, "known.sass")
	check(t, "the format", f.Format, FormatSASS)
	m := one(t, f, "first")
	check(t, "the architecture", m.Arch, "sm_90a")
	check(t, "the line", m.Sources[0].Line, 2)
	c := m.SASSCode
	check(t, "total", c.Total, 15) // without the NOP at the end
	check(t, "predicated", c.Predicated, 1)
	check(t, "classes", c.Classes, map[Class]int{Memory: 6, Move: 1, Tensor: 2, FP32: 1, Barrier: 1, Atomic: 1, Branch: 2,
		Other: 1}) // the load that is never executed
	if slices.ContainsFunc(c.Mnemonics, func(m Mnemonic) bool { return m.Name == "LDS" }) {
		t.Error("a pattern finds the load that is never executed")
	}
	check(t, "memory", c.Memory, []Access{{"atomic", "global", 32, 1}, {"copy", "shared.global", 128, 1},
		{"load", "const", 32, 1}, {"load", "const", 64, 1}, {"load", "global", 128, 1}, {"load", "local", 32, 1},
		{"load", "shared", 128, 1}, {"store", "local", 64, 1}})
	check(t, "patterns", c.Patterns, []string{"LDG.*.128", "LDL", "STL", "LDGSTS", "HMMA", "LDSM", "REDG", "BAR.SYNC"})
	for what, unknown := range map[string]*Figure{"registers": m.Registers, "spills": m.Spills(), "stack": m.Stack,
		"local memory": m.Local, "shared memory": m.SharedStatic} {
		if unknown != nil {
			t.Errorf("%s is %v, want unknown: the listing does not say it", what, unknown)
		}
	}
	helper := one(t, f, "helper")
	check(t, "spills where nothing is local", helper.Spills(), figure(0, FromSASS))
}

// TestRecordedListings: listings of NVIDIA's tools have no opcode that is not known, and with the PTX beside them they
// tell spills as the cubin does.
func TestRecordedListings(t *testing.T) {
	root := filepath.Join(testkit.Root(t), "testdata")
	paths, err := filepath.Glob(filepath.Join(root, "sass", "*.txt"))
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d listings, %v; want at least 10", len(paths), err)
	}
	for _, path := range paths {
		f, err := Load(context.Background(), path, Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		check(t, path+": the format", f.Format, FormatSASS)
		for i := range f.Kernels {
			c := f.Kernels[i].SASSCode
			for op := range c.Opcodes {
				if _, err := pattern.Parse(op); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
			executed := 0
			for _, m := range c.Mnemonics {
				executed += m.Count
			}
			if never := c.Total - executed; c.Classes[Other] != c.Opcodes["NOP"]+c.Opcodes["NANOSLEEP"]+never {
				t.Errorf("%s: %d instructions of %s have no class, %d are never executed: %v", path, c.Classes[Other],
					f.Kernels[i].Kernel, never, c.Opcodes)
			}
		}
	}
	const name = "local-sm90-24regs"
	text := must(Load(context.Background(), filepath.Join(root, "ptx", "nvcc13", name+".ptx"), Options{}))
	machine := must(Load(context.Background(), filepath.Join(root, "cubin", "nvcc-"+name+".cubin"), Options{}))
	listing := must(Load(context.Background(), filepath.Join(root, "sass", "nvcc-"+name+".nvdisasm.txt"), Options{}))
	known := 0
	for _, m := range must(Together(text, listing)) {
		exact, err := machine.Kernel(m.Kernel)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Spills(); got != nil {
			known++
			check(t, m.Kernel+": spills", got.Value, exact[0].Spills().Value)
		}
	}
	if known < 3 {
		t.Errorf("the spills of %d kernels are known from PTX and listing, want at least 3", known)
	}
	alone := one(t, listing, "spill_96")
	if alone.Spills() != nil {
		t.Errorf("from a listing alone spills are %v, want unknown", alone.Spills())
	}
}

// manifest is testdata/cubin/manifest.json as far as it is needed: what NVIDIA's tools said of each file.
type manifest struct {
	Files []struct {
		Path, PTX string
		Kernels   []struct {
			Name, Arch       string
			Registers, Stack int
			Local            int
			PTXAS            *struct {
				SpillStores int `json:"spill_stores"`
				SpillLoads  int `json:"spill_loads"`
			}
		}
	}
}

// TestMergedFixtures: PTX and cubin of the same build make one record, whose figures are those of cuobjdump and ptxas.
func TestMergedFixtures(t *testing.T) {
	root := filepath.Join(testkit.Root(t), "testdata")
	var all manifest
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(root, "cubin", "manifest.json"))), &all); err != nil {
		t.Fatal(err)
	}
	kernels, spilled, compared, differ := 0, 0, 0, 0
	for _, file := range all.Files {
		if file.PTX == "" {
			continue
		}
		text := must(Load(context.Background(), filepath.Join(root, "ptx", file.PTX), Options{}))
		machine := must(Load(context.Background(), filepath.Join(root, "cubin", file.Path), Options{}))
		records, err := Together(text, machine)
		if err != nil {
			t.Errorf("%s: %v", file.Path, err)
			continue
		}
		for _, k := range file.Kernels {
			i := slices.IndexFunc(records, func(m Metrics) bool { return m.Kernel == k.Name })
			if i < 0 || records[i].Kind() != Both {
				t.Errorf("%s: %s is not one record of both", file.Path, k.Name)
				continue
			}
			m := &records[i]
			kernels++
			check(t, file.Path+" "+k.Name+": registers", m.Registers, figure(k.Registers, FromCubin))
			if m.Stack != nil && m.Stack.Origin == FromCubin {
				check(t, file.Path+" "+k.Name+": stack", m.Stack.Value, k.Stack)
				check(t, file.Path+" "+k.Name+": local memory", m.Local, figure(k.Local+k.Stack, FromCubin))
			}
			if k.PTXAS != nil && m.Spills() != nil {
				check(t, file.Path+" "+k.Name+": spills", m.Spills(), figure(k.PTXAS.SpillStores+k.PTXAS.SpillLoads, FromCubin))
				spilled += min(m.Spills().Value, 1)
			}
			if m.PTXCode == nil || len(m.Params) == 0 || m.Params[0].Name == "" || m.Params[0].Offset == nil {
				t.Errorf("%s: %s has lost its code or its parameters: %+v", file.Path, k.Name, m.Params)
			}
			declared, _ := text.Kernel(k.Name)
			exact, _ := machine.Kernel(k.Name)
			if exact[0].SharedStatic == nil {
				continue // not linked yet
			}
			if compared++; declared[0].SharedStatic.Value != exact[0].SharedStatic.Value {
				differ++
			}
		}
	}
	if kernels < 40 || spilled < 5 {
		t.Errorf("%d kernels, %d of them with spills; want at least 40 and 5", kernels, spilled)
	}
	// With barriers in shared memory (sm_90) ptxas reserves up to 128 bytes more than the text declares.
	if differ > 3 {
		t.Errorf("shared memory as declared differs from the cubin in %d of %d kernels, want at most 3", differ, compared)
	}
	t.Logf("%d kernels, %d of them with spills; shared memory differs in %d of %d", kernels, spilled, differ, compared)
}

// TestFatbin: PTX in a fatbin joins the machine code for the architecture it was written for.
func TestFatbin(t *testing.T) {
	f := must(Load(context.Background(), filepath.Join(testkit.Root(t), "testdata", "cubin", "default.fatbin"), Options{}))
	check(t, "the format", f.Format, FormatFatbin)
	var got []string
	for _, m := range f.Kernels {
		if m.Kernel == "rmsnorm" {
			got = append(got, m.Arch+" "+string(m.Kind()))
		}
	}
	check(t, "records of rmsnorm", got, []string{"sm_80 both", "sm_90 cubin"})
	check(t, "texts", len(f.Texts), 1)
}

// TestTogetherLeavesOut: a function of a listing that is no kernel of the PTX is left out; a listing alone is all there
// is.
func TestTogetherLeavesOut(t *testing.T) {
	text, listing := load(t, "known.ptx"), load(t, "known.sass")
	for _, tt := range []struct {
		files []*File
		want  []string
	}{
		{[]*File{text, listing}, []string{"first both", "second ptx"}},
		{[]*File{listing}, []string{"first sass", "helper sass"}},
	} {
		var got []string
		for _, m := range must(Together(tt.files...)) {
			got = append(got, m.Kernel+" "+string(m.Kind()))
		}
		check(t, "the kernels", got, tt.want)
	}
}

func TestTogetherRefuses(t *testing.T) {
	one, other := load(t, "known.ptx"), load(t, "known.ptx")
	other.Name, other.Kernels = "other.cubin", slices.Clone(other.Kernels)
	for i := range other.Kernels {
		other.Kernels[i].Kernel += "_2"
	}
	_, err := Together(one, other)
	var e *diag.Error
	if !errors.As(err, &e) || e.Code != Mismatch || !strings.Contains(e.Msg, "other.cubin have no kernel in common") {
		t.Errorf("Together = %v, want %s", err, Mismatch)
	}
}

// TestSameKernelTooOften: records of one name are compared with each other, so that their number has a limit.
func TestSameKernelTooOften(t *testing.T) {
	function := "\t\tFunction : k\n        /*0000*/  EXIT ;\n\t\t..........\n"
	if _, err := Read("k.sass", []byte(strings.Repeat(function, maxSame))); err != nil {
		t.Errorf("%d times: %v", maxSame, err)
	}
	_, err := Read("k.sass", []byte(strings.Repeat(function, maxSame+1)))
	if diag.CodeOf(err) != Limit || !strings.Contains(err.Error(), `kernel "k" is in it more than 200 times`) {
		t.Errorf("%d times: %v", maxSame+1, err)
	}
}

// FuzzRead: whatever the bytes are, they are read or refused with a code, and what was read can be used.
func FuzzRead(f *testing.F) {
	for _, path := range []string{"testdata/known.ptx", "testdata/known.sass"} {
		f.Add(must(os.ReadFile(path)))
	}
	for _, name := range []string{"triton-add-sm80.cubin", "default.fatbin"} {
		f.Add(must(os.ReadFile(filepath.Join("..", "..", "testdata", "cubin", name))))
	}
	f.Add([]byte("__global__ void k() {}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read("input", data)
		if err != nil {
			if diag.CodeOf(err) == "" {
				t.Errorf("%v has no code", err)
			}
			return
		}
		if len(file.Kernels) == 0 {
			t.Error("no kernel and no error")
		}
		for i := range file.Kernels {
			Lint(&file.Kernels[i], DefaultPolicy())
			if _, err := json.Marshal(&file.Kernels[i]); err != nil {
				t.Error(err)
			}
		}
		for _, c := range Diff(file.Kernels, file.Kernels, Thresholds{}) {
			if c.Status != Same || c.Regression {
				t.Errorf("%s differs from itself: %+v", c.Kernel, c)
			}
		}
	})
}

// TestMutatedFiles: files with pieces cut, doubled, swapped and overwritten are read or refused. Many of them still
// parse and have nonsense in them: sizes beyond any memory, calls in circles, variables without a size.
func TestMutatedFiles(t *testing.T) {
	mutants := 3000
	if testing.Short() {
		mutants = 300
	}
	var seeds [][]byte
	for _, path := range []string{"testdata/known.ptx", "testdata/known.sass",
		"../../testdata/cubin/triton-add-sm80.cubin",
		"../../testdata/ptx/clang19/calls.ptx", "../../testdata/ptx/clang22/local.ptx"} {
		seeds = append(seeds, must(os.ReadFile(path)))
	}
	random := rand.New(rand.NewPCG(1, 2))
	read := 0
	for i := range mutants {
		data := slices.Clone(seeds[i%len(seeds)])
		for range 1 + random.IntN(3) {
			data = mutate(random, data)
		}
		f, err := Read("mutant", data)
		if err != nil {
			if diag.CodeOf(err) == "" {
				t.Fatalf("mutant %d: %v has no code", i, err)
			}
			continue
		}
		read++
		for j := range f.Kernels {
			m := &f.Kernels[j]
			Lint(m, DefaultPolicy())
			for _, n := range []*Figure{m.Registers, m.Stack, m.Local, m.SharedStatic, m.SpillLoads, m.SpillStores} {
				if n != nil && n.Value < 0 {
					t.Fatalf("mutant %d: %s has the figure %d", i, m.Kernel, n.Value)
				}
			}
		}
	}
	if read < mutants/20 {
		t.Errorf("%d of %d mutants are read: they do not reach what is tested", read, mutants)
	}
	t.Logf("%d of %d mutants are read", read, mutants)
}

// mutate changes a piece of a file.
func mutate(random *rand.Rand, data []byte) []byte {
	if len(data) < 64 {
		return data
	}
	from := random.IntN(len(data) - 32)
	to := from + 1 + random.IntN(31)
	switch random.IntN(5) {
	case 0: // a digit becomes many
		i := bytes.IndexAny(data[from:], "0123456789")
		if i < 0 {
			return data
		}
		return slices.Insert(data, from+i, []byte("99999999999"[:1+random.IntN(11)])...)
	case 1: // a piece is doubled
		return slices.Insert(data, to, slices.Clone(data[from:to])...)
	case 2: // a piece is cut
		return slices.Delete(data, from, to)
	case 3: // a piece goes elsewhere
		copy(data[random.IntN(len(data)-32):], data[from:to])
		return data
	default: // a byte becomes another
		data[from] = byte(random.IntN(256))
		return data
	}
}

package cubin

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// toolFigures is what ptxas -v and cuobjdump -res-usage say about one kernel of a file; see testdata/make.py.
type toolFigures struct {
	Registers    int            `json:"registers"`
	Frame        int            `json:"frame"`
	Stack        *int           `json:"stack"` // absent when the tool does not know it: recursion
	Local        int            `json:"local"`
	Shared       int            `json:"shared"`
	SharedStatic int            `json:"shared_static"`
	Constant     map[string]int `json:"constant"`
	Barriers     *int           `json:"barriers"` // absent when the assembler is too old to print it
	SpillStores  int            `json:"spill_stores"`
	SpillLoads   int            `json:"spill_loads"`
}

func testFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readTestFile(t testing.TB, name string) *File {
	t.Helper()
	file, err := Read(name, testFile(t, name))
	if err != nil {
		t.Fatalf("Read(%s): %v", name, err)
	}
	return file
}

// callers are the kernels of testdata/kernels.cu that call functions: their frame includes the functions' frames.
var callers = map[string]bool{"calls": true, "calls_pointer": true, "recursive": true}

// TestFigures holds every figure to NVIDIA's own tools, for cubins of five toolkits in both layouts.
func TestFigures(t *testing.T) {
	var files []struct {
		File, Arch, Version string
		Kernels             map[string]toolFigures
	}
	if err := json.Unmarshal(testFile(t, "figures.json"), &files); err != nil {
		t.Fatal(err)
	}
	total, spilling, unknown := 0, 0, 0
	for _, want := range files {
		t.Run(want.File, func(t *testing.T) {
			img := readTestFile(t, want.File).Images[0]
			if img.Arch != want.Arch || img.Version != want.Version || img.Kind != ELF || img.Bits != 64 {
				t.Errorf("image is %v %s of CUDA %q with %d bits, want elf %s of CUDA %q with 64",
					img.Kind, img.Arch, img.Version, img.Bits, want.Arch, want.Version)
			}
			names := map[string]bool{}
			for _, k := range img.Kernels {
				total++
				names[k.Name] = true
				w, ok := want.Kernels[k.Name]
				if !ok {
					t.Errorf("kernel %s is not one for cuobjdump", k.Name)
					continue
				}
				checkFigures(t, k, w)
				spillsMarked := want.Version >= "12.6" && want.Arch != "sm_60"
				checkSpills(t, k, w, spillsMarked || w.Frame == 0 && !callers[k.Name])
				if k.SpillLoads == nil {
					unknown++
				} else if *k.SpillLoads > 0 {
					spilling++
				}
			}
			for name := range want.Kernels {
				if !names[name] {
					t.Errorf("kernel %s was not found", name)
				}
			}
		})
	}
	if total < 120 || spilling < 7 || unknown < 7 {
		t.Errorf("%d kernels, %d with spills, %d of which they are not known: the files lost some", total, spilling, unknown)
	}
}

func checkFigures(t *testing.T, k Kernel, w toolFigures) {
	t.Helper()
	check := func(what string, got *int, want int) {
		if got == nil || *got != want {
			t.Errorf("%s: %s = %s, want %d", k.Name, what, show(got), want)
		}
	}
	check("registers", k.Registers, w.Registers)
	check("shared memory", k.Shared, w.Shared)
	check("static shared memory", k.SharedStatic, w.SharedStatic)
	check("local memory", &k.Local, w.Local)
	switch {
	case w.Stack == nil && k.MinStack != nil:
		t.Errorf("%s: stack = %d, want not known", k.Name, *k.MinStack)
	case w.Stack != nil:
		check("stack", k.MinStack, *w.Stack)
	}
	if w.Barriers != nil {
		check("barriers", &k.Barriers, *w.Barriers)
	}
	if callers[k.Name] {
		if k.StackFrame == nil || *k.StackFrame < w.Frame {
			t.Errorf("%s: frame = %s, want at least %d", k.Name, show(k.StackFrame), w.Frame)
		}
	} else {
		check("frame", k.StackFrame, w.Frame)
	}
	banks := map[string]int{}
	for bank, n := range k.Constant {
		banks[fmt.Sprint(bank)] = n
	}
	if !maps.Equal(banks, w.Constant) {
		t.Errorf("%s: constant banks %v, want %v", k.Name, banks, w.Constant)
	}
}

func checkSpills(t *testing.T, k Kernel, w toolFigures, known bool) {
	t.Helper()
	if !known {
		if k.SpillLoads != nil && *k.SpillLoads != w.SpillLoads || k.SpillStores != nil && *k.SpillStores != w.SpillStores {
			t.Errorf("%s: spills %s and %s, want not known", k.Name, show(k.SpillStores), show(k.SpillLoads))
		}
		return
	}
	if k.SpillStores == nil || *k.SpillStores != w.SpillStores || k.SpillLoads == nil || *k.SpillLoads != w.SpillLoads {
		t.Errorf("%s: spills %s stored and %s loaded, want %d and %d",
			k.Name, show(k.SpillStores), show(k.SpillLoads), w.SpillStores, w.SpillLoads)
	}
}

// show writes a figure that may be unknown.
func show(n *int) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

func kernelNamed(t *testing.T, img Image, name string) Kernel {
	t.Helper()
	for _, k := range img.Kernels {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("no kernel %s in %s", name, img.Arch)
	return Kernel{}
}

// TestLaunch: shapes and parameters as cluster.cu and kernels.cu declare them.
func TestLaunch(t *testing.T) {
	img := readTestFile(t, "cluster-13.2.cubin").Images[0]
	clustered := kernelNamed(t, img, "clustered")
	if clustered.Cluster != [3]int{4, 2, 1} || clustered.MaxThreads != [3]int{128, 1, 1} ||
		clustered.ReqThreads != [3]int{} {
		t.Errorf("clustered: cluster %v, at most %v threads, exactly %v", clustered.Cluster, clustered.MaxThreads,
			clustered.ReqThreads)
	}
	fixed := kernelNamed(t, img, "fixed_shape")
	if fixed.ReqThreads != [3]int{64, 2, 1} || fixed.MaxThreads != [3]int{} {
		t.Errorf("fixed_shape: exactly %v threads, at most %v, want [64 2 1] and none", fixed.ReqThreads, fixed.MaxThreads)
	}
	large := kernelNamed(t, img, "large_parameter")
	if want := []Param{{0, 4800}, {4800, 2}, {4808, 8}}; !slices.Equal(large.Params, want) || large.ParamBytes != 4816 {
		t.Errorf("large_parameter: parameters %v of %d bytes, want %v of 4816", large.Params, large.ParamBytes, want)
	}
	for _, file := range []string{"sm80-12.0.cubin", "sm80-13.2.cubin"} {
		img := readTestFile(t, file).Images[0]
		params := kernelNamed(t, img, "parameters")
		want := []Param{{0, 1}, {2, 2}, {8, 320}, {328, 8}}
		if !slices.Equal(params.Params, want) || params.ParamBytes != 336 {
			t.Errorf("%s: parameters %v of %d bytes, want %v of 336", file, params.Params, params.ParamBytes, want)
		}
		if empty := kernelNamed(t, img, "empty"); len(empty.Params) != 0 || empty.ParamBytes != 0 || empty.CodeBytes == 0 {
			t.Errorf("%s: empty has parameters %v and %d bytes of code", file, empty.Params, empty.CodeBytes)
		}
		if bounded := kernelNamed(t, img, "_Z7boundedPKfPfi"); bounded.MaxThreads != [3]int{1024, 1, 1} {
			t.Errorf("%s: bounded has at most %v threads, want [1024 1 1]", file, bounded.MaxThreads)
		}
		// 64 floats and 5 ints; 33 floats and two pointers to functions.
		if img.Constant[3] != 276 || img.Global != 132+16 {
			t.Errorf("%s: shared by all: %d bytes of __constant__ and %d of __device__ variables, want 276 and 148",
				file, img.Constant[3], img.Global)
		}
	}
}

// TestContainers: each way to put images into a file.
func TestContainers(t *testing.T) {
	for _, tt := range []struct {
		file      string
		container Container
		images    string
	}{
		{"sm80-13.2.cubin", Cubin, "elf sm_80 13.2"},
		{"none.fatbin", Fatbin, "elf sm_80 13.2, elf sm_90a 13.2, ptx sm_90a 9.2, elf sm_100f 13.2"},
		{"speed.fatbin", Fatbin, // LZ4
			"elf sm_80 13.2 compressed, elf sm_90a 13.2 compressed, ptx sm_90a 9.2 compressed, elf sm_100f 13.2 compressed"},
		{"size.fatbin", Fatbin, // Zstandard
			"elf sm_80 13.2 compressed, elf sm_90a 13.2 compressed, ptx sm_90a 9.2 compressed, elf sm_100f 13.2 compressed"},
		{"lto.fatbin", Fatbin, "elf sm_90 13.2, other sm_90  compressed"},
		{"relocatable.o", Host, "elf sm_90 13.2 compressed relocatable, ptx sm_90 9.2 compressed"},
		{"library.so", Host, "elf sm_80 13.2, elf sm_90a 13.2, ptx sm_90a 9.2 compressed, elf sm_100f 13.2"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			file := readTestFile(t, tt.file)
			if file.Container != tt.container || file.Name != tt.file {
				t.Errorf("Read gives %q, a %v, want a %v", file.Name, file.Container, tt.container)
			}
			var got []string
			for _, img := range file.Images {
				got = append(got, describe(img))
				checkSmall(t, img)
			}
			if text := strings.Join(got, ", "); text != tt.images {
				t.Errorf("images: %s\nwant:   %s", text, tt.images)
			}
		})
	}
}

func describe(img Image) string {
	text := fmt.Sprintf("%v %s %s", img.Kind, img.Arch, img.Version)
	if img.Compressed {
		text += " compressed"
	}
	if img.Relocatable {
		text += " relocatable"
	}
	return text
}

// checkSmall checks the content of an image of testdata/small.cu, however it was packed.
func checkSmall(t *testing.T, img Image) {
	t.Helper()
	switch {
	case img.Kind == PTX:
		if !strings.Contains(img.PTX, ".entry reversed(") || !strings.HasSuffix(strings.TrimSpace(img.PTX), "}") {
			t.Errorf("%s: PTX text is not complete: %.60q … %q", img.Arch, img.PTX, img.PTX[max(0, len(img.PTX)-40):])
		}
	case img.Kind == ELF && len(img.Kernels) == 2:
		k := kernelNamed(t, img, "reversed")
		if k.Registers == nil || *k.Registers < 8 || *k.Registers > 20 || k.MaxThreads != [3]int{256, 1, 1} ||
			k.Barriers != 1 {
			t.Errorf("%s: reversed has %s registers, at most %v threads and %d barriers", img.Arch, show(k.Registers),
				k.MaxThreads, k.Barriers)
		}
		if img.Relocatable {
			if k.Shared != nil || k.SharedStatic != nil || k.MinStack != nil {
				t.Errorf("%s: shared memory %s and stack %s of code that is not linked, want not known", img.Arch,
					show(k.Shared), show(k.MinStack))
			}
		} else if k.SharedStatic == nil || *k.SharedStatic != 1024 {
			t.Errorf("%s: reversed has %s bytes of static shared memory, want 1024", img.Arch, show(k.SharedStatic))
		}
	}
}

// TestPackedEqualsUnpacked: the three ways to pack give the same images.
func TestPackedEqualsUnpacked(t *testing.T) {
	want := readTestFile(t, "none.fatbin")
	for _, name := range []string{"speed.fatbin", "size.fatbin"} {
		got := readTestFile(t, name)
		for i := range got.Images {
			got.Images[i].Compressed, got.Images[i].Offset = false, want.Images[i].Offset
		}
		gotText, wantText := asJSON(t, got.Images), asJSON(t, want.Images)
		if gotText != wantText {
			t.Errorf("%s differs from none.fatbin:\n%s\n%s", name, gotText, wantText)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

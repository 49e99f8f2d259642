package cubin

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

// recorded is what testdata/cubin/manifest.json, made on a machine with a GPU, says about one kernel of a file.
type recorded struct {
	Name      string         `json:"name"`
	Arch      string         `json:"arch"` // of the image, in fatbins and host files
	Registers int            `json:"registers"`
	Stack     int            `json:"stack"`
	Shared    int            `json:"shared"`
	Local     int            `json:"local"`
	Constant  map[string]int `json:"constant"`
	Module    struct {
		Global   int            `json:"global"`
		Constant map[string]int `json:"constant"`
	} `json:"module"`
	Assembler *struct {
		Registers   int            `json:"registers"`
		Frame       int            `json:"stack"`
		Cumulative  int            `json:"cumulative_stack"`
		Shared      int            `json:"shared"`
		Barriers    int            `json:"barriers"`
		SpillStores int            `json:"spill_stores"`
		SpillLoads  int            `json:"spill_loads"`
		Constant    map[string]int `json:"constant"`
	} `json:"ptxas"`
}

type recordedFile struct {
	Path    string     `json:"path"`
	Kind    string     `json:"kind"`
	Arch    string     `json:"arch"`
	Version string     `json:"version"` // "Cuda compilation tools, release 13.0, V13.0.88"
	Images  []string   `json:"images"`  // as cuobjdump -lelf -lptx lists them: machine code first, then PTX
	Kernels []recorded `json:"kernels"`
}

// TestManifest holds every figure of every file in testdata/cubin to what NVIDIA's tools said about it.
func TestManifest(t *testing.T) {
	dir := filepath.Join(testkit.Root(t), "testdata", "cubin")
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Files []recordedFile `json:"files"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	kernels, spilling := 0, 0
	for _, want := range manifest.Files {
		t.Run(want.Path, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, want.Path))
			if err != nil {
				t.Fatal(err)
			}
			file, err := Read(want.Path, data)
			if err != nil {
				t.Fatal(err)
			}
			checkImages(t, file, want)
			for _, w := range want.Kernels {
				kernels++
				img, k := find(t, file, w)
				checkRecorded(t, img, k, w)
				if k.SpillStores != nil && *k.SpillStores > 0 {
					spilling++
				}
			}
		})
	}
	if kernels < 200 || spilling < 5 {
		t.Errorf("%d kernels and %d of them with spills were compared: the files lost some", kernels, spilling)
	}
}

// checkImages compares architectures, toolkit and number of kernels.
func checkImages(t *testing.T, file *File, want recordedFile) {
	t.Helper()
	var code, text []string
	kernels := 0
	for _, img := range file.Images {
		switch img.Kind {
		case ELF:
			code = append(code, img.Arch+".cubin")
			kernels += len(img.Kernels)
			if img.Version != "" && !strings.Contains(want.Version, "release "+img.Version+",") {
				t.Errorf("toolkit %s, want that of %q", img.Version, want.Version)
			}
		case PTX:
			text = append(text, img.Arch+".ptx")
			if !strings.Contains(img.PTX, ".version "+img.Version) {
				t.Errorf("PTX for %s is not of version %s", img.Arch, img.Version)
			}
		}
	}
	if kernels != len(want.Kernels) {
		t.Errorf("%d kernels, want %d", kernels, len(want.Kernels))
	}
	if want.Kind == "cubin" {
		if file.Container != Cubin || len(code) != 1 || code[0] != want.Arch+".cubin" {
			t.Errorf("a %v with %v, want a cubin for %s", file.Container, code, want.Arch)
		}
		return
	}
	var list []string
	for _, name := range want.Images { // "default.1.sm_80.cubin"
		list = append(list, strings.Join(strings.Split(name, ".")[2:], "."))
	}
	if got := append(code, text...); strings.Join(got, " ") != strings.Join(list, " ") {
		t.Errorf("images %v, want %v", got, list)
	}
}

// find returns the kernel that a row is about.
func find(t *testing.T, file *File, w recorded) (Image, Kernel) {
	t.Helper()
	for _, img := range file.Images {
		for _, k := range img.Kernels {
			if k.Name == w.Name && (w.Arch == "" || w.Arch == img.Arch) {
				return img, k
			}
		}
	}
	t.Fatalf("no kernel %s for %q", w.Name, w.Arch)
	return Image{}, Kernel{}
}

func checkRecorded(t *testing.T, img Image, k Kernel, w recorded) {
	t.Helper()
	check := func(what string, got *int, want int) {
		if got == nil || *got != want {
			t.Errorf("%s: %s = %s, want %d", k.Name, what, show(got), want)
		}
	}
	banks := func(what string, got map[int]int, want map[string]int) {
		named := map[string]int{}
		for bank, n := range got {
			named[fmt.Sprint(bank)] = n
		}
		if !maps.Equal(named, want) {
			t.Errorf("%s: %s %v, want %v", k.Name, what, named, want)
		}
	}
	check("registers", k.Registers, w.Registers)
	check("local memory", &k.Local, w.Local)
	check("global memory of the image", &img.Global, w.Module.Global)
	banks("constant banks", k.Constant, w.Constant)
	banks("constant banks of the image", img.Constant, w.Module.Constant)
	if img.Relocatable {
		if k.MinStack != nil || k.Shared != nil || k.SharedStatic != nil {
			t.Errorf("%s: stack %s and shared memory %s of code that is not linked", k.Name, show(k.MinStack), show(k.Shared))
		}
	} else {
		check("stack", k.MinStack, w.Stack)
		check("shared memory", k.Shared, w.Shared)
	}
	a := w.Assembler
	if a == nil {
		return
	}
	check("registers of ptxas", k.Registers, a.Registers)
	check("barriers", &k.Barriers, a.Barriers)
	check("spill stores", k.SpillStores, a.SpillStores)
	check("spill loads", k.SpillLoads, a.SpillLoads)
	if !img.Relocatable {
		check("static shared memory", k.SharedStatic, a.Shared)
	}
	// The frame of a kernel that calls functions includes theirs.
	if k.StackFrame == nil || *k.StackFrame != a.Frame && *k.StackFrame != a.Cumulative {
		t.Errorf("%s: frame %s, want %d or with calls %d", k.Name, show(k.StackFrame), a.Frame, a.Cumulative)
	}
	for bank, n := range a.Constant {
		if got := w.Constant[bank]; got != n {
			t.Errorf("%s: the tools disagree about bank %s: %d and %d", k.Name, bank, got, n)
		}
	}
}

package sass

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

// TestRecorded reads what cuobjdump and nvdisasm printed of the same code on a machine with a GPU: both must say the
// same, and what is stored to and loaded from local memory by kernels without arrays is what ptxas -v calls spills.
func TestRecorded(t *testing.T) {
	root := filepath.Join(testkit.Root(t), "testdata")
	files, err := filepath.Glob(filepath.Join(root, "sass", "*.cuobjdump.txt"))
	if err != nil || len(files) < 7 {
		t.Fatalf("%d listings in testdata/sass, want at least 7: %v", len(files), err)
	}
	functions, compared, spilling := 0, 0, 0
	for _, file := range files {
		base := strings.TrimSuffix(file, ".cuobjdump.txt")
		byName := map[string]*Function{}
		for _, f := range readListing(t, file) { // of some files only chosen functions
			byName[f.Name] = &f
		}
		spills := recordedSpills(t, root, filepath.Base(base)+".cubin")
		for _, got := range readListing(t, base+".nvdisasm.txt") {
			functions++
			if want := byName[got.Name]; want != nil {
				compared++
				if got.Arch != want.Arch || len(got.Instrs) != len(want.Instrs) || !maps.Equal(got.Mix(), want.Mix()) ||
					!maps.Equal(got.Accesses(), want.Accesses()) {
					t.Errorf("%s: nvdisasm and cuobjdump differ about %s", base, got.Name)
				}
			}
			use, w := got.Local(), spills[got.Name]
			exact := strings.HasPrefix(got.Name, "spill_")
			if exact {
				spilling++
			}
			if use.StoreBytes < w.Stores || use.LoadBytes < w.Loads ||
				exact && (use.StoreBytes != w.Stores || use.LoadBytes != w.Loads) {
				t.Errorf("%s: %s uses local memory like %+v, with spills of %+v", base, got.Name, use, w)
			}
		}
	}
	if functions < 30 || compared < 11 || spilling < 3 {
		t.Errorf("%d functions, %d of them in both listings, %d for spills: the listings lost some", functions, compared,
			spilling)
	}
}

func readListing(t *testing.T, file string) []Function {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	functions, err := Parse(filepath.Base(file), text)
	if err != nil {
		t.Fatal(err)
	}
	return functions
}

// spillBytes is what ptxas -v says.
type spillBytes struct {
	Stores int `json:"spill_stores"`
	Loads  int `json:"spill_loads"`
}

// recordedSpills returns the spills of the kernels of one cubin of testdata/cubin.
func recordedSpills(t *testing.T, root, cubin string) map[string]spillBytes {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "cubin", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Files []struct {
			Path    string
			Kernels []struct {
				Name  string
				Ptxas spillBytes
			}
		}
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	spills := map[string]spillBytes{}
	for _, f := range manifest.Files {
		if f.Path == cubin {
			for _, k := range f.Kernels {
				spills[k.Name] = k.Ptxas
			}
		}
	}
	if len(spills) == 0 {
		t.Fatalf("%s is not in the manifest", cubin)
	}
	return spills
}

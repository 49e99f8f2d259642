package ptx

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// assemble runs ptxas on a text. It returns "" or the first line of what it says.
func assemble(t *testing.T, ptxas, text, target string) string {
	t.Helper()
	in := filepath.Join(t.TempDir(), "in.ptx")
	if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
	// One second of optimisation is not what is tested here.
	out, err := exec.Command(ptxas, "-O0", "-c", "-arch="+target, "-o", os.DevNull, in).CombinedOutput()
	os.Remove(in)
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return err.Error() + ": " + line
}

func findPtxas(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skip("ptxas is not on the PATH: bench/device/artifacts.sh runs this test where it is")
	}
	return path
}

// parallel calls f on all texts.
func parallel(list []string, f func(string)) {
	work := make(chan string)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for x := range work {
				f(x)
			}
		})
	}
	for _, x := range list {
		work <- x
	}
	close(work)
	group.Wait()
}

// TestPtxasAcceptsWhatIsPrinted: the assembler takes every module that we print if it takes the original.
func TestPtxasAcceptsWhatIsPrinted(t *testing.T) {
	ptxas, files := findPtxas(t), fixtures(t)
	var paths []string
	for path := range files {
		if !strings.Contains(path, "everything") {
			paths = append(paths, path)
		}
	}
	var accepted, kernels, refused atomic.Int64
	parallel(paths, func(path string) {
		f, err := Parse(path, files[path])
		if err != nil {
			t.Error(err)
			return
		}
		said := assemble(t, ptxas, f.String(), f.Targets[0])
		if said == "" {
			accepted.Add(1)
			kernels.Add(int64(len(f.Kernels())))
			return
		}
		if original := assemble(t, ptxas, files[path], f.Targets[0]); original != "" {
			refused.Add(1)
			t.Logf("%s: ptxas refuses the original: %s", path, original)
			return
		}
		t.Errorf("%s: ptxas takes it, but not what we print: %s", path, said)
	})
	t.Logf("ptxas accepts %d printed files with %d kernels; it refuses %d files as they are", accepted.Load(),
		kernels.Load(), refused.Load())
}

// TestWhatPtxasAcceptsParses: variants of instructions that the assembler takes are taken here, too.
func TestWhatPtxasAcceptsParses(t *testing.T) {
	ptxas := findPtxas(t)
	src, err := os.ReadFile("testdata/forms_sm_90a.ptx")
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(src), "lbuf[64];\n")
	lines := strings.Split(strings.TrimSuffix(body, "\tret;\n}\n"), "\n")
	var mods []string
	for _, line := range lines {
		mnemonic, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		mods = append(mods, strings.Split(mnemonic, ".")[1:]...)
	}
	slices.Sort(mods)
	mods = slices.Compact(mods)
	r := rand.New(rand.NewPCG(2, 3))
	var texts []string
	for range soak(t, 400) {
		mnemonic, args, _ := strings.Cut(strings.TrimSpace(lines[r.IntN(len(lines)-1)]), " ")
		parts := strings.Split(mnemonic, ".")
		at := 1 + r.IntN(len(parts))
		switch mod := mods[r.IntN(len(mods))]; {
		case r.IntN(3) == 0 && at < len(parts):
			parts = slices.Delete(parts, at, at+1)
		case r.IntN(2) == 0 && at < len(parts):
			parts[at] = mod
		default:
			parts = slices.Insert(parts, at, mod)
		}
		texts = append(texts, head+"lbuf[64];\n\t"+strings.Join(parts, ".")+" "+args+"\n\tret;\n}\n")
	}
	var accepted atomic.Int64
	parallel(texts, func(text string) {
		if assemble(t, ptxas, text, "sm_90a") != "" {
			return
		}
		accepted.Add(1)
		if _, err := Parse("variant.ptx", text); err != nil {
			t.Errorf("ptxas takes %s: %v", text[len(head)+9:], err)
		}
	})
	t.Logf("%d variants, ptxas accepts %d of them, and so do we", len(texts), accepted.Load())
	if accepted.Load() == 0 {
		t.Error("no variant is valid: the test tests nothing")
	}
}

package ptx

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gpuemu/internal/testkit"
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
	for range testkit.Soak(t, 400) {
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

var used = regexp.MustCompile(`(?s)Compiling entry function '([^']+)'.*?Used (\d+) registers`)

// TestEstimateOfRegisters tells how far the peak of live registers is from what ptxas uses, over all fixtures but the
// pairs. docs/artifacts.md has the figures.
func TestEstimateOfRegisters(t *testing.T) {
	ptxas, files := findPtxas(t), fixtures(t)
	var paths []string
	for path := range files {
		if !strings.Contains(path, "pairs") && strings.Contains(path, "testdata/ptx") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	var mu sync.Mutex
	var estimates, real []float64
	parallel(paths, func(path string) {
		f, err := Parse(path, files[path])
		if err != nil {
			t.Error(err)
			return
		}
		args := []string{"-v", "-arch=" + f.Targets[0], "-o", os.DevNull, path}
		out, err := exec.Command(ptxas, args...).CombinedOutput()
		if err != nil { // calls of functions that are elsewhere
			out, err = exec.Command(ptxas, append(args, "-c")...).CombinedOutput()
		}
		if err != nil {
			t.Errorf("%s: %v: %s", path, err, out)
			return
		}
		said := map[string]string{}
		for _, m := range used.FindAllStringSubmatch(string(out), -1) {
			said[m[1]] = m[2]
		}
		for _, fn := range f.Kernels() {
			live, err := NewGraph(fn).Liveness()
			if err != nil {
				t.Error(err)
				return
			}
			n, err := strconv.ParseFloat(said[fn.Name], 64)
			if err != nil {
				t.Errorf("%s: ptxas says nothing of %s", path, fn.Name)
				return
			}
			mu.Lock()
			estimates, real = append(estimates, float64(live.PeakLive().Registers)), append(real, n)
			mu.Unlock()
		}
	})
	var errs []float64
	low := 0
	for i := range real {
		errs = append(errs, math.Abs(estimates[i]-real[i])/real[i])
		if estimates[i] <= real[i] {
			low++
		}
	}
	slices.Sort(errs)
	t.Logf("%d kernels: correlation %.2f, median error %.0f %%, 90th percentile %.0f %%, %.0f %% are not above", len(real),
		correlation(estimates, real), 100*errs[len(errs)/2], 100*errs[len(errs)*9/10], 100*float64(low)/float64(len(real)))
	if c := correlation(estimates, real); c < 0.75 {
		t.Errorf("correlation %.2f: the estimate is worth nothing", c)
	}
}

// correlation is Pearson's coefficient.
func correlation(x, y []float64) float64 {
	n := float64(len(x))
	var sx, sy, sxx, syy, sxy float64
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
		sxx, syy, sxy = sxx+x[i]*x[i], syy+y[i]*y[i], sxy+x[i]*y[i]
	}
	return (n*sxy - sx*sy) / math.Sqrt((n*sxx-sx*sx)*(n*syy-sy*sy))
}

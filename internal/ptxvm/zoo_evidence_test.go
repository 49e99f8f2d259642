package ptxvm

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/testkit"
)

// This file implements the page about the zoo, and the tests that neither the number of workers nor the order of blocks
// and warps can be seen.

// workerCounts are fewer, as many and more than there are processors, and a number that divides no grid.
var workerCounts = []int{1, 2, 3, 7}

// TestZooWorkers runs the zoo on other numbers of workers: every byte and every finding stays as it is.
func TestZooWorkers(t *testing.T) {
	counts := workerCounts
	if testing.Short() {
		counts = []int{1, 3}
	}
	for _, a := range zoo() {
		list, err := a.individuals()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			for _, checks := range []Checks{NoChecks, AllChecks} {
				var first string
				for _, workers := range counts {
					r, args, err := a.run(v.program, checks, workers)
					if err != nil {
						t.Fatalf("%s: %s: %v", a.name(), v.file, err)
					}
					var b bytes.Buffer
					for i := range args {
						b.Write(args[i].Buffer)
					}
					for i := range r.Findings {
						fmt.Fprintln(&b, &r.Findings[i])
					}
					state := fmt.Sprintf("%d steps, %q, %x", r.Steps, r.Printed, b.Bytes())
					if first = cmp.Or(first, state); state != first {
						t.Errorf("%s: %s: %d workers leave something else than %d", a.name(), v.file, workers, counts[0])
					}
				}
			}
		}
	}
}

// TestZooSchedules compares orders of blocks and warps: only a kernel whose list has no order leaves other bytes.
func TestZooSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("one worker executes the orders, as in TestZoo")
	}
	for _, a := range zoo() {
		list, err := a.individuals()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list[:min(len(list), 1)] {
			l := a.launch(AllChecks, 0)
			l.Schedules = 4
			r, err := v.program.Run(l)
			if err != nil {
				t.Fatalf("%s: %s: %v", a.name(), v.file, err)
			}
			want := a.finding
			if a.disorder {
				want = Nondeterministic
			}
			found := len(r.Findings) > 0
			if found != (want != "") || found && r.Findings[0].Class != want {
				t.Errorf("%s: %s: findings %v, want that the order is seen: %v", a.name(), v.file, r.Findings, a.disorder)
			}
		}
	}
}

// TestZooEvidence makes docs/evidence/emulator-zoo.md.
func TestZooEvidence(t *testing.T) {
	if testing.Short() {
		t.Skip("TestZoo and TestZooWorkers run the same launches")
	}
	rec := readZooRecord(t)
	all := compareZoo(t)
	kernels := map[string]bool{}
	var versions, elsewhere, plain, fused int
	var rows []string
	for _, c := range all {
		kernels[c.animal.source+c.animal.kernel] = true
		n := len(c.files) - c.elsewhere
		versions, elsewhere = versions+len(c.files), elsewhere+c.elsewhere
		plain, fused = plain+c.plainEqual, fused+c.fusedEqual
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |", c.animal.name(), c.compilers(),
			likeness(c.plainEqual, n, c.plain), likeness(c.fusedEqual, n, c.fused), c.float64(), c.bounds()))
	}
	page := fmt.Sprintf(`# The zoo: compiled kernels here, on an H200 and in float64

Made by %[1]sgo test ./internal/ptxvm -run TestZooEvidence -update%[1]s; a test keeps it current. What the GPU leaves
was recorded by %[1]sbench/device/zoo.sh%[1]s from the same PTX and the same inputs (%[2]s, driver %[3]s, ptxas
%[4]s), in %[1]stestdata/vectors/zoo%[1]s. The references in float64 are written by hand, in Go, from the sources in
%[1]stestdata/kernels%[1]s: %[1]sinternal/ptxvm/zoo_*_test.go%[1]s.

%[5]d launches of %[6]d kernels, %[7]d versions by clang 14, 16, 19 and 22, nvcc and NVRTC 13 and Triton 3.6, all checks
on. Of the %[8]d versions that an H200 can execute (the others were compiled for sm_100),

- %[9]d leave the bits of the GPU where nothing is fused (%[1]sptxas --fmad=false%[1]s),
- %[10]d leave, with %[1]s--contract%[1]s, the bits of the GPU as its driver compiles them: where PTX names no rounding,
  it fuses a product with a sum.

Among both are all versions without an approximate instruction (%[1]sex2.approx%[1]s, %[1]sdiv.full%[1]s and the like,
which PTX bounds and does not define). Every version that is not equal has one, and is within the bound.

Tensor cores are those of Hopper for all, as on the GPU, whatever the module was compiled for. Atomic sums of floats
have terms whose sum is exact, so that their order cannot be seen. What %[1]sreduce/compact%[1]s writes comes in the
order of the warps, and is compared without it; of %[1]scalls/call_struct%[1]s the byte that belongs to no field is left
out.

**All launches but four are silent, in all versions**, and those four have the race that they should have: lanes of a
warp add to one word in %[1]sgeneric_pointer%[1]s, and read what another one stores in %[1]scalls/interpreter%[1]s.
In four of the silent ones threads load what others write without synchronization, but never use the value: in
%[1]striton/atomics%[1]s,
%[1]striton/halve_in_place%[1]s and %[1]striton/centre_in_place%[1]s all warps of a block load what one of them stores;
in %[1]smemory/last_block%[1]s clang 14 moves a load over a barrier for threads that end behind it whatever it gives.
A race counts where the value is used.

Launches called "edges" have zeros of both signs, infinities, NaN, subnormal numbers and numbers at which conversions
saturate, all pairs of them; the GPU is their only reference.

Every launch leaves the same bytes, findings and counts with 1, 2, 3 and 7 workers. In four orders of blocks and warps
(%[1]s--schedules 4%[1]s) all leave the same bytes but %[1]sreduce/compact%[1]s, which the GPU showed, too.

Differences are in parts of the largest element of an output, over all versions; "equal" means equal bits. The bound
holds between any two of the emulator, the GPU and float64.

| launch | compilers, files | H200, nothing fused | H200, as the driver compiles | from float64 | bound |
|---|---|---|---|---|---|
%[11]s
`, "`", rec.Device, rec.Driver, rec.Ptxas, len(all), len(kernels), versions, versions-elsewhere, plain, fused,
		strings.Join(rows, "\n"))
	testkit.Golden(t, "../../docs/evidence/emulator-zoo.md", []byte(page))
}

// compilers says what the versions of a launch were compiled with.
func (c *comparison) compilers() string {
	var names []string
	for _, f := range c.files {
		dir, _, _ := strings.Cut(f, "/")
		names = append(names, strings.NewReplacer("clang", "clang ", "nvcc13", "nvcc", "nvrtc13", "NVRTC", "triton36",
			"Triton").Replace(dir))
	}
	text := strings.Join(slices.Compact(names), ", ")
	return fmt.Sprintf("%s: %d", strings.ReplaceAll(text, ", clang ", ", "), len(c.files))
}

// float64 says how far outputs are from the reference, where there is one.
func (c *comparison) float64() string {
	for _, want := range c.animal.want {
		if want == nil {
			return ""
		}
	}
	return distance(c.reference)
}

// bounds says how far outputs may be off.
func (c *comparison) bounds() string {
	var list []string
	for _, i := range c.animal.outputs() {
		list = append(list, distance(c.animal.bound(i).most))
	}
	return strings.Join(slices.Compact(list), ", ")
}

func distance(d float64) string {
	if d == 0 {
		return "equal"
	}
	return fmt.Sprintf("%.1e", d)
}

// likeness says how many of n versions have the bits of the GPU, and how far the others are.
func likeness(equal, n int, worst float64) string {
	if equal == n {
		return "equal"
	}
	return fmt.Sprintf("%d of %d equal, %.1e", equal, n, worst)
}

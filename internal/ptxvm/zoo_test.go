package ptxvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/ptx"
)

// This file implements the zoo: kernels of testdata/kernels, through every compiler there is, against what their source
// says in float64. zoo_record_test.go compares the same launches with what an H200 gave.

// animal is a launch of a kernel, and what it has to leave behind.
type animal struct {
	source, kernel, title string
	files                 []string // fixtures below testdata/ptx; nil for all that CUDA compilers made of the source
	grid, block           Dim
	shared                int
	args                  []Arg
	want                  map[int][]byte // outputs by argument; nil where there is no reference but a GPU
	float                 dtype.DType    // outputs are floats of this format, within
	tolerance             float64        // of the largest one; 0: bit for bit
	within                map[int]bound  // the same for single outputs
	printed               string
	canonical             func([]byte) // makes outputs equal that differ in what the kernel leaves open; nil for nothing
	disorder              bool         // the order of warps decides what it leaves
	finding               Class        // the only one that it has; "" for none
}

// bound is how far elements of an output may be off: most times the largest element. The zero value: not at all.
type bound struct {
	format dtype.DType
	most   float64
}

// name tells launches of the zoo apart.
func (a *animal) name() string {
	return strings.TrimSpace(a.source + "/" + a.kernel + " " + a.title)
}

// bound is how far argument i may be off.
func (a *animal) bound(i int) bound {
	if b, ok := a.within[i]; ok {
		return b
	}
	return bound{a.float, a.tolerance}
}

// outputs are the arguments that are looked at.
func (a *animal) outputs() []int { return slices.Sorted(maps.Keys(a.want)) }

// pack makes bytes of numbers.
func pack[T any](v ...T) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err)
	}
	return b
}

func in[T any](v []T) Arg { return Arg{Name: "in", Buffer: pack(v...)} }

func room(size int) Arg { return Arg{Name: "out", Buffer: make([]byte, size)} }

func value[T any](v T) Arg { return Arg{Value: pack(v)} }

func line(n int) Dim { return Dim{n, 1, 1} }

// sequence gives n numbers that differ.
func sequence[T any](n int, f func(i int) T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = f(i)
	}
	return s
}

// scattered gives numbers between -3 and 3 that need all their bits. They are the same on every machine, which a sine
// is not, and neither is what a compiler may fuse.
func scattered(i int) float64 { return float64(int64(uint64(i+1)*0x9e3779b97f4a7c15)) / (1 << 63) * 3 }

// mixed gives n floats of both signs.
func mixed(n int) []float32 {
	return sequence(n, func(i int) float32 { return float32(scattered(i)) })
}

// zoo is all launches.
func zoo() []animal {
	list := slices.Concat(memoryZoo(), callZoo(), indexZoo(), reduceZoo(), floatZoo(), integerZoo(), matrixZoo(),
		smallZoo(), tritonZoo(), specialZoo())
	seen := map[string]int{}
	for i := range list {
		name := list[i].name()
		if seen[name]++; seen[name] > 1 {
			list[i].title = strings.TrimSpace(fmt.Sprintf("%s %d", list[i].title, seen[name]))
		}
		for _, at := range list[i].outputs() {
			if a := &list[i].args[at]; a.Role == In { // it works in place
				a.Role = InOut
			}
		}
	}
	return list
}

// compilers are the folders of fixtures that CUDA sources have gone to.
var compilers = []string{"clang14", "clang16", "clang19", "clang22", "nvcc13", "nvrtc13"}

// versions are the fixtures that may have the kernel, below testdata/ptx and without their extension.
func (a *animal) versions() ([]string, error) {
	list := a.files
	if list == nil {
		for _, dir := range compilers {
			files, err := filepath.Glob("../../testdata/ptx/" + dir + "/" + a.source + "*.ptx")
			if err != nil {
				return nil, err
			}
			for _, f := range files {
				if name := strings.TrimSuffix(filepath.Base(f), ".ptx"); name == a.source ||
					strings.HasPrefix(name, a.source+"-") {
					list = append(list, dir+"/"+name)
				}
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no fixture of %s", a.source)
	}
	return list, nil
}

// individual is a version of a kernel that can be executed.
type individual struct {
	file        string
	program     *Program
	approximate bool // has instructions that PTX bounds instead of defining
}

// individuals are the versions of a launch; a short test takes one that can be executed.
func (a *animal) individuals() ([]individual, error) {
	files, err := a.versions()
	if err != nil {
		return nil, err
	}
	var list []individual
	for _, file := range files {
		f, err := ptx.ReadFile("../../testdata/ptx/" + file + ".ptx")
		if err != nil {
			return nil, err
		}
		// What the outputs are compared with comes from an H200, whose tensor cores add in their own way whatever the
		// module was compiled for.
		f.Targets[0] = "sm_90a"
		p, err := Load(f, a.kernel)
		var d *diag.Error
		switch {
		case errors.As(err, &d) && d.Code == NoEntry:
		case err != nil:
			return nil, err
		default:
			list = append(list, individual{file, p, isBounded(f, p.Kernel)})
			if testing.Short() {
				return list, nil
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no fixture has the kernel %s", a.kernel)
	}
	return list, nil
}

// isBounded reports whether a kernel, or a function that it may call, has an instruction of the special function unit.
func isBounded(f *ptx.File, kernel *ptx.Function) bool {
	called := slices.ContainsFunc(kernel.Code, func(in *ptx.Instr) bool { return in.Op == "call" })
	for _, fn := range f.Functions {
		if fn != kernel && (!called || fn.Entry) {
			continue
		}
		for _, in := range fn.Code {
			if in.Has("approx") || in.Has("full") {
				return true
			}
		}
	}
	return false
}

func TestZoo(t *testing.T) {
	ran := 0
	for _, a := range zoo() {
		t.Run(a.name(), func(t *testing.T) {
			list, err := a.individuals()
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range list {
				if err := a.check(v.program); err != nil {
					t.Errorf("%s: %v", v.file, err)
				}
			}
			ran += len(list)
		})
	}
	t.Logf("%d versions ran", ran)
}

// TestWrongLaunches proves that what is wrong with a launch is found, in every version.
func TestWrongLaunches(t *testing.T) {
	for _, a := range wrongLaunches() {
		list, err := a.individuals()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			r, _, err := a.run(v.program, AllChecks, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Findings) != 1 || r.Findings[0].Class != a.finding {
				t.Errorf("%s: %s: findings %v, want one of %s", a.name(), v.file, r.Findings, a.finding)
			}
		}
	}
}

// check runs one version with all checks and without. There must be no finding, whatever the kernel and the compiler.
func (a *animal) check(p *Program) error {
	for _, checks := range []Checks{AllChecks, NoChecks} { // without checks, other code executes accesses
		r, got, err := a.run(p, checks, 0)
		switch {
		case err != nil:
			return err
		case checks == AllChecks && !a.finds(r):
			return fmt.Errorf("findings %s, want one of %q", list(r), a.finding)
		}
		if string(r.Printed) != a.printed {
			return fmt.Errorf("printed %q, want %q", r.Printed, a.printed)
		}
		for _, i := range a.outputs() {
			if _, err := a.bound(i).compare(got[i].Buffer, a.want[i]); err != nil {
				return fmt.Errorf("argument %d: %w", i, err)
			}
		}
	}
	return nil
}

// finds reports whether a launch with all checks has the findings that it is to have.
func (a *animal) finds(r *Result) bool {
	if a.finding == "" {
		return len(r.Findings) == 0
	}
	return len(r.Findings) > 0 && !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Class != a.finding })
}

// run executes a launch and gives its arguments as they are afterwards, those that are looked at in canonical form.
func (a *animal) run(p *Program, checks Checks, workers int) (*Result, []Arg, error) {
	l := a.launch(checks, workers)
	r, err := p.Run(l)
	if a.canonical != nil {
		for _, i := range a.outputs() {
			a.canonical(l.Args[i].Buffer)
		}
	}
	return r, l.Args, err
}

// launch is one with buffers of its own.
func (a *animal) launch(checks Checks, workers int) *Launch {
	l := &Launch{Grid: a.grid, Block: a.block, DynamicShared: a.shared, MaxSteps: 1 << 24, Checks: checks,
		Workers: workers, apart: checks == NoChecks}
	for _, arg := range a.args {
		arg.Buffer = slices.Clone(arg.Buffer)
		l.Args = append(l.Args, arg)
	}
	return l
}

// compare gives the largest difference of two outputs in parts of the largest wanted element, and an error where that
// is beyond the bound.
func (b bound) compare(got, want []byte) (worst float64, err error) {
	if want == nil {
		return 0, nil
	}
	if len(got) != len(want) {
		return 0, fmt.Errorf("%d bytes, want %d", len(got), len(want))
	}
	if bytes.Equal(got, want) {
		return 0, nil
	}
	if b.most == 0 {
		i := 0
		for got[i] == want[i] {
			i++
		}
		from, to := i/8*8, min(i/8*8+8, len(got))
		return 1, fmt.Errorf("byte %d: %x, want %x", i, got[from:to], want[from:to])
	}
	n := len(want) / b.format.Size()
	g, w := make([]float64, n), make([]float64, n)
	dtype.Decode(g, b.format, got)
	dtype.Decode(w, b.format, want)
	top := 0.0
	for _, v := range w {
		top = max(top, math.Abs(v))
	}
	for i := range w {
		off := math.Abs(g[i]-w[i]) / top
		if !(off <= b.most) && err == nil {
			err = fmt.Errorf("element %d: %g, want %g: %.2g of the largest element, at most %.2g", i, g[i], w[i], off, b.most)
		}
		worst = max(worst, off)
	}
	return worst, err
}

package ptxvm

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// This file implements the test of the kernels of testdata/kernels/planted: each defect is found in its line and with
// its class and nothing else is, and its sound twin is silent.

// plant is a line of a source with a defect.
type plant struct {
	file  string
	line  int
	class Class
}

var (
	plantKernel = regexp.MustCompile(`^KERNEL (\w+)\(`)
	plantMarker = regexp.MustCompile(`// PLANT (\w+(?: \w+)*?)(?: of (\w+))?$`)
)

// readPlants reads the marks of a source, by kernel.
func readPlants(t *testing.T, file string, into map[string][]plant) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kernel := ""
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if m := plantKernel.FindStringSubmatch(lines.Text()); m != nil {
			kernel = m[1]
			if into[kernel] == nil {
				into[kernel] = []plant{}
			}
		}
		m := plantMarker.FindStringSubmatch(lines.Text())
		if m == nil {
			if strings.Contains(lines.Text(), "PLANT") {
				t.Errorf("%s:%d: not a mark", file, n)
			}
			continue
		}
		owner := kernel
		if m[2] != "" {
			owner = m[2]
		}
		for _, class := range strings.Fields(m[1]) {
			into[owner] = append(into[owner], plant{filepath.Base(file), n, Class(class)})
		}
	}
}

// in reports whether a chain of places goes through the marked line: its innermost line of that source is the one.
func (p plant) in(places []diag.Pos) bool {
	for _, at := range places {
		if filepath.Base(at.File) == p.file {
			return at.Line == p.line
		}
	}
	return false
}

// start runs a kernel with all checks.
func (k *plantedLaunch) start(t *testing.T, file *ptx.File) *Result {
	t.Helper()
	p, err := Load(file, k.kernel)
	if err != nil {
		t.Fatal(err)
	}
	l := &Launch{Grid: k.grid, Block: k.block, DynamicShared: k.shared, Schedules: k.schedules, MaxSteps: 1 << 22}
	for _, a := range k.args {
		a.Buffer = slices.Clone(a.Buffer)
		l.Args = append(l.Args, a)
	}
	r, err := p.Run(l)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// judge compares what was found with the marks of a kernel.
func judge(r *Result, plants []plant) error {
	var wrong []error
	follows := false // there was a finding that may follow from a race
	for i := range r.Findings {
		f := &r.Findings[i]
		if follows = follows || f.Class == Uninitialised; follows && f.Class == Race {
			wrong = append(wrong, fmt.Errorf("the race comes after what follows from it: %s", f))
		}
		planted := func(places []diag.Pos) bool {
			return slices.ContainsFunc(plants, func(p plant) bool { return p.class == f.Class && p.in(places) })
		}
		if !planted(f.Source) {
			wrong = append(wrong, fmt.Errorf("found and not planted: %s %v", f, f.Source))
		}
		if f.Former != nil && !planted(f.Former.Source) {
			wrong = append(wrong, fmt.Errorf("the other side of the race is not planted: %s %v", f, f.Former.Source))
		}
	}
	for _, p := range plants {
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Class == p.class }) {
			wrong = append(wrong, fmt.Errorf("planted and not found: %s at %s:%d", p.class, p.file, p.line))
		}
	}
	return errors.Join(wrong...)
}

// plantedSources reads the marks of all sources, by kernel, and the source of each kernel.
func plantedSources(t *testing.T) (plants map[string][]plant, home map[string]string) {
	t.Helper()
	sources, err := filepath.Glob("../../testdata/kernels/planted/*.cu")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	plants, home = map[string][]plant{}, map[string]string{}
	for _, s := range sources {
		known := len(plants)
		readPlants(t, s, plants)
		for kernel := range plants {
			if home[kernel] == "" {
				home[kernel] = strings.TrimSuffix(filepath.Base(s), ".cu")
			}
		}
		if len(plants) == known {
			t.Errorf("%s has no kernel", s)
		}
	}
	return plants, home
}

// plantedCompilers are the folders of testdata/planted.
var plantedCompilers = []string{"clang19", "clang22"}

// check runs a kernel and its sound twin as a compiler made them.
func (k *plantedLaunch) check(t *testing.T, compiler, source string, plants []plant) error {
	t.Helper()
	if len(plants) == 0 {
		return errors.New("no line of the source has a mark")
	}
	var wrong []error
	for _, twin := range []string{"defect", "sound"} {
		f, err := ptx.ReadFile("../../testdata/planted/" + compiler + "/" + source + "." + twin + ".ptx")
		if err != nil {
			return err
		}
		r := k.start(t, f)
		if twin == "defect" {
			wrong = append(wrong, judge(r, plants))
		} else if len(r.Findings) > 0 {
			wrong = append(wrong, fmt.Errorf("the sound twin has findings: %s", list(r)))
		}
	}
	return errors.Join(wrong...)
}

// allClasses are the classes of findings.
var allClasses = []Class{OutOfBoundsRead, OutOfBoundsWrite, Misaligned, Uninitialised, Unwritten, Race,
	BarrierDivergence, BadMask, Deadlock, AsyncHazard, Nondeterministic, Assertion, Trap}

func TestPlantedCUDA(t *testing.T) {
	plants, home := plantedSources(t)
	for _, class := range allClasses {
		has := false
		for _, list := range plants {
			has = has || slices.ContainsFunc(list, func(p plant) bool { return p.class == class })
		}
		if !has {
			t.Errorf("no kernel has a defect of class %s", class)
		}
	}
	launches := plantedLaunches()
	if len(launches) != len(plants) {
		t.Errorf("%d launches for %d kernels", len(launches), len(plants))
	}
	for i := range launches {
		k := &launches[i]
		for _, compiler := range plantedCompilers {
			t.Run(k.kernel+"/"+compiler, func(t *testing.T) {
				if err := k.check(t, compiler, home[k.kernel], plants[k.kernel]); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

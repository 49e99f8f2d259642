package ptxvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuemu/internal/diag"
	"gpuemu/internal/ptx"
)

// This file implements the zoo: kernels of testdata/kernels/cuda, through every compiler there is, against what their
// source says.

// animal is a launch of a kernel, and what it has to leave behind.
type animal struct {
	source, kernel string
	grid, block    Dim
	shared         int
	args           []Arg
	want           map[int][]byte // outputs by argument
	float          int            // outputs are floats of so many bytes, within
	tolerance      float64        // of the largest one; 0: bit for bit
	printed        string
	finding        Class  // that ends it
	checks         Checks // 0 for all
}

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

// mixed gives n floats of both signs that need all their bits.
func mixed(n int) []float32 {
	return sequence(n, func(i int) float32 { return float32(math.Sin(float64(i)*1.7+0.3)) * 3 })
}

// versions are the fixtures made of a source.
func versions(t *testing.T, source string) []string {
	t.Helper()
	var list []string
	for _, dir := range []string{"clang14", "clang16", "clang19", "clang22", "nvcc13", "nvrtc13"} {
		files, err := filepath.Glob("../../testdata/ptx/" + dir + "/" + source + "*.ptx")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name := strings.TrimSuffix(filepath.Base(f), ".ptx"); name == source || strings.HasPrefix(name, source+"-") {
				list = append(list, f)
			}
		}
	}
	if len(list) == 0 {
		t.Fatalf("there is no fixture of %s", source)
	}
	return list
}

func TestZoo(t *testing.T) {
	ran := 0
	for _, list := range [][]animal{memoryZoo(), callZoo(), indexZoo(), reduceZoo(), floatZoo(), integerZoo()} {
		for i := range list {
			a := &list[i]
			t.Run(fmt.Sprintf("%s/%s", a.source, a.kernel), func(t *testing.T) {
				before := ran
				for _, file := range versions(t, a.source) {
					switch ok, err := a.check(file); {
					case err != nil:
						t.Errorf("%s: %v", file, err)
					case ok:
						ran++
					}
				}
				if ran == before {
					t.Error("no fixture has it")
				}
			})
		}
	}
	t.Logf("%d versions ran", ran)
}

// check runs one version. It reports false if the file has no such kernel.
func (a *animal) check(file string) (bool, error) {
	f, err := ptx.ReadFile(file)
	if err != nil {
		return false, err
	}
	p, err := Load(f, a.kernel)
	var d *diag.Error
	if errors.As(err, &d) && d.Code == NoEntry {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := a.run(p, a.checks); err != nil {
		return false, err
	}
	if a.finding != "" {
		return true, nil
	}
	if err := a.run(p, NoChecks); err != nil { // other code executes accesses that nobody looks at
		return false, fmt.Errorf("without checks: %w", err)
	}
	return true, nil
}

// run executes a launch and compares what it leaves behind.
func (a *animal) run(p *Program, checks Checks) error {
	l := &Launch{Grid: a.grid, Block: a.block, DynamicShared: a.shared, MaxSteps: 1 << 24, Checks: checks}
	for _, arg := range a.args {
		arg.Buffer = slices.Clone(arg.Buffer)
		l.Args = append(l.Args, arg)
	}
	r, err := p.Run(l)
	if err != nil {
		return err
	}
	if a.finding != "" {
		if len(r.Findings) != 1 || r.Findings[0].Class != a.finding {
			return fmt.Errorf("findings %v, want one of %s", r.Findings, a.finding)
		}
		return nil
	}
	for _, x := range r.Findings {
		return fmt.Errorf("%s: %s at %v %v %s", x.Class, x.Message, x.Block, x.Thread, x.Instr.Mnemonic())
	}
	if string(r.Printed) != a.printed {
		return fmt.Errorf("printed %q, want %q", r.Printed, a.printed)
	}
	for i, want := range a.want {
		if err := a.compare(l.Args[i].Buffer, want); err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
	}
	return nil
}

func (a *animal) compare(got, want []byte) error {
	if a.tolerance == 0 {
		for i := range want {
			if got[i] != want[i] {
				from := i / 8 * 8
				return fmt.Errorf("byte %d: %x, want %x", i, got[from:min(from+8, len(got))],
					want[from:min(from+8, len(want))])
			}
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%d bytes, want %d", len(got), len(want))
		}
		return nil
	}
	number := func(b []byte, i int) float64 {
		if a.float == 8 {
			return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		}
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	top := 0.0
	for i := range len(want) / a.float {
		top = max(top, math.Abs(number(want, i)))
	}
	for i := range len(want) / a.float {
		if g, w := number(got, i), number(want, i); !(math.Abs(g-w) <= a.tolerance*top) {
			return fmt.Errorf("element %d: %g, want %g", i, g, w)
		}
	}
	return nil
}

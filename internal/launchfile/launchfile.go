// Package launchfile reads launches of kernels that are written down: which kernel, how many threads, its arguments,
// and what should come out.
//
// A launch file is JSON with raw little-endian files of data beside it. The package checks sizes, names and paths,
// gives every argument its bytes and compares what a kernel left behind with what was expected. It executes nothing and
// knows no PTX. The main types are Case, Arg and Expected; Read is Parse and Case.Load together.
package launchfile

import (
	"math"
	"os"
	"path/filepath"

	"gpuemu/internal/diag"
	"gpuemu/internal/dtype"
	"gpuemu/internal/tensor"
)

// Limits of a launch. Those of grids and blocks are those of all GPUs of compute capability 7.0 to 10.0 (CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability").
const (
	MaxBytes  = 1 << 24 // of a launch file's text
	MaxArgs   = 4096    // parameters of 32764 bytes in all have no room for more pointers
	MaxShared = 1 << 30 // bytes of dynamic shared memory; what a GPU has is a matter of its architecture
	MaxMemory = 1 << 32 // bytes of all tensors together
	MaxParts  = 1 << 20 // valid parts of a tensor: the rows of a large matrix
)

// Role is what a kernel does with a tensor.
type Role string

// Roles.
const (
	In    Role = "in"
	Out   Role = "out"
	InOut Role = "inout"
)

// Written reports whether the kernel is to change the tensor.
func (r Role) Written() bool { return r == Out || r == InOut }

// Case is a launch.
type Case struct {
	PTX           string // path; relative paths of a launch file begin at its directory
	Entry         string // "" names the only kernel of the module
	Grid, Block   [3]int
	DynamicShared int   // bytes
	Memory        int64 // bytes that the launch may use; 0: the usual limit
	Args          []Arg
	Expected      []Expected
}

// Arg is an argument: a tensor, or a scalar.
type Arg struct {
	Name  string
	Role  Role // "" for a scalar
	DType dtype.DType
	Shape tensor.Shape // of a tensor
	File  string       // of a tensor: where its bytes are; "" where nothing is known of them
	Data  []byte       // of a tensor, row-major; made by Load
	Value []byte       // of a scalar, little-endian
	// Valid are the parts of a tensor that the kernel may access, each the first element and how many there are, in
	// row-major order; nil for all of it.
	Valid [][2]int

	// Of, Offset and Residue are those of ptxvm.Arg: tensors that share memory. Launch files have no such tensors.
	Of, Offset, Residue int
}

// IsTensor reports whether the argument is memory, and its parameter an address.
func (a *Arg) IsTensor() bool { return a.Role != "" }

// Uninitialised reports whether the kernel must not rely on the bytes of the tensor.
func (a *Arg) Uninitialised() bool { return a.IsTensor() && a.File == "" }

// Tensor is the tensor of the argument as it is now.
func (a *Arg) Tensor() *tensor.Tensor {
	t, err := tensor.FromBytes(a.DType, a.Shape, a.Data)
	if err != nil {
		panic("launchfile: internal error: " + err.Error()) // Load and the command line give it as many bytes as it has
	}
	return t
}

// Fill makes the memory of a tensor of which nothing is known: a pattern that is easy to recognise.
func (a *Arg) Fill() {
	bits, size := tensor.Poison(a.DType), a.DType.Size()
	a.Data = make([]byte, a.Shape.Elems()*size)
	for i := 0; i < len(a.Data); i += size {
		a.DType.Store(a.Data[i:], bits)
	}
}

// Arg returns the tensor of that name, or nil.
func (c *Case) Arg(name string) *Arg {
	for i := range c.Args {
		if a := &c.Args[i]; a.IsTensor() && a.Name == name {
			return a
		}
	}
	return nil
}

// Read reads a launch file and the data it names.
func Read(path string) (*Case, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, diag.Errorf(Unreadable, "check the path", "launch file: %w", err)
	case !info.Mode().IsRegular():
		return nil, diag.Errorf(Unreadable, "name a file", "launch file %s is not a regular file", path)
	case info.Size() > MaxBytes:
		return nil, diag.Errorf(Unreadable, "data belongs into files of its own", "launch file %s has more than %d bytes",
			path, MaxBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, diag.Errorf(Unreadable, "", "launch file: %w", err)
	}
	c, err := Parse(path, text)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if !filepath.IsAbs(c.PTX) {
		c.PTX = filepath.Join(dir, c.PTX)
	}
	return c, c.Load(dir)
}

// Load reads the data of all arguments and of what is expected. Files lie in dir or below it: a launch file may come
// from anywhere, and must not read what its user can and its author cannot, links included.
func (c *Case) Load(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return diag.Errorf(Unreadable, "", "directory of the launch file: %w", err)
	}
	defer root.Close()
	for i := range c.Args {
		a := &c.Args[i]
		switch {
		case !a.IsTensor():
		case a.File == "":
			a.Fill()
		default:
			if a.Data, err = readData(root, dir, a.File, a.Name, a); err != nil {
				return err
			}
		}
	}
	for i := range c.Expected {
		e := &c.Expected[i]
		if e.want, err = readData(root, dir, e.File, "expected "+e.Name, c.Arg(e.Name)); err != nil {
			return err
		}
	}
	return nil
}

// readData reads a raw file, which must have exactly the bytes of the tensor.
func readData(root *os.Root, dir, file, what string, a *Arg) ([]byte, error) {
	want := a.Shape.Elems() * a.DType.Size()
	place := filepath.Join(dir, file)
	// Stat comes before Open, which would wait for the other end of a pipe.
	info, err := root.Stat(file)
	switch {
	case err != nil:
		return nil, diag.Errorf(Unreadable, "data files lie beside the launch file or below", "%s: %w", what, err)
	case !info.Mode().IsRegular():
		return nil, diag.Errorf(Unreadable, "", "%s: %s is not a regular file", what, place)
	case info.Size() != int64(want):
		return nil, diag.Errorf(BadData, "raw files have the elements and nothing else",
			"%s: %s has %d bytes, %s%s has %d", what, place, info.Size(), a.DType, a.Shape, want)
	}
	data, err := root.ReadFile(file)
	switch {
	case err != nil:
		return nil, diag.Errorf(Unreadable, "", "%s: %w", what, err)
	case len(data) != want:
		return nil, diag.Errorf(BadData, "", "%s: %s changed while it was read", what, place)
	}
	return data, nil
}

// CheckSize reports a grid or a block that no GPU takes.
func CheckSize(what string, size [3]int) error {
	limits := [3]int{math.MaxInt32, 65535, 65535}
	if what == "block" {
		limits = [3]int{1024, 1024, 64}
	}
	threads := 1
	for i, n := range size {
		if n < 1 || n > limits[i] {
			return diag.Errorf(BadSize, "", "%s %d,%d,%d: %c is from 1 to %d", what, size[0], size[1], size[2], 'x'+rune(i),
				limits[i])
		}
		threads *= n
	}
	if what == "block" && threads > 1024 {
		return diag.Errorf(BadSize, "use smaller blocks", "block %d,%d,%d has %d threads, at most 1024 are possible", size[0],
			size[1], size[2], threads)
	}
	return nil
}

// CheckShared reports an amount of dynamic shared memory that is none.
func CheckShared(n int) error {
	if n < 0 || n > MaxShared {
		return diag.Errorf(BadSize, "", "dynamic shared memory of %d bytes: it is from 0 to %d", n, MaxShared)
	}
	return nil
}

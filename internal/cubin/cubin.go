// Package cubin reads compiled device code: cubins, fatbins, and the fatbins inside host objects, shared objects and
// executables. It says per kernel what the code needs of the machine, without CUDA installed.
//
// It reads what the compiler recorded and computes nothing: no instruction is disassembled, apart from the width of
// those that the compiler itself marked as spills. Whatever a file does not record is absent (a nil pointer), never 0.
//
// The formats have no public specification. What is read here was established by comparing the output of ptxas 12.0 to
// 13.4 with what cuobjdump prints of it; the tests hold every figure to cuobjdump -res-usage and ptxas -v.
//
// Input is hostile until shown otherwise. Reading costs time linear in the size of the file and of what it unpacks to;
// memory is a small multiple of both; unpacked sizes have limits of their own (maxImage, maxUnpacked).
package cubin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"gpuemu/internal/diag"
)

// Limits on what one file may unpack to. They are far above what compilers write (the largest images of deep-learning
// libraries are some 10 MiB), and low enough that a hostile file does not exhaust a laptop.
const (
	maxImage    = 256 << 20 // bytes of one unpacked image
	maxUnpacked = 1 << 30   // bytes of all unpacked images of a file
	maxName     = 64 << 10  // bytes of a kernel's name; C++ templates make names of some KiB
)

// Container is the kind of file that device code was found in.
type Container uint8

const (
	Cubin  Container = iota + 1 // one ELF file for one architecture
	Fatbin                      // images for several architectures
	Host                        // a host object, library or executable with fatbins in it
)

func (c Container) String() string {
	return [...]string{"unset", "cubin", "fatbin", "host file"}[min(c, Host+1)%(Host+1)]
}

// Kind says what an image is.
type Kind uint8

const (
	ELF   Kind = iota + 1 // machine code
	PTX                   // text that the driver compiles when the program starts
	Other                 // anything else, for example intermediate code for link-time optimisation: not looked into
)

func (k Kind) String() string {
	return [...]string{"unset", "elf", "ptx", "other"}[min(k, Other+1)%(Other+1)]
}

// File is what Read found.
type File struct {
	Name      string
	Container Container
	Images    []Image // in the order of the file; never empty
}

// Image is device code for one architecture.
type Image struct {
	Kind       Kind
	Arch       string // "sm_90a": the architecture of the machine code, or the target of the PTX text
	Version    string // the PTX ISA of the text, or the toolkit whose assembler wrote the code: "13.2"; "" if not recorded
	Bits       int    // size of an address: 32 or 64
	Compressed bool
	Offset     int // where it starts in the file, in bytes
	FatbinKind int // the number of its kind in a fatbin (1 PTX, 2 ELF, 8 NVVM …); 0 when it is a file of its own

	// Relocatable code (nvcc -rdc) is not linked yet: stack and shared memory of its kernels are not known.
	Relocatable bool

	PTX      string      // the text, of a PTX image
	Kernels  []Kernel    // of an ELF image, in the order of its symbols
	Global   int         // bytes of __device__ variables
	Constant map[int]int // bytes of the constant banks that all kernels share (3: __constant__ variables), by bank
}

// Kernel is what the compiler recorded of one kernel (__global__ function). Sizes are in bytes.
//
// How the figures relate to those of NVIDIA's tools:
//
//	Registers     cuobjdump REG, ptxas "Used N registers"
//	StackFrame    ptxas "bytes stack frame" of a kernel that calls no function; it includes functions that are called
//	MinStack      cuobjdump STACK, ptxas "bytes cumulative stack size": per thread, with all calls but recursive ones
//	Local         cuobjdump LOCAL: 0 on all architectures since Volta, where local arrays are part of the stack
//	SharedStatic  ptxas "bytes smem": what the source declares
//	Shared        cuobjdump SHARED: SharedStatic and what the system reserves (1 KiB since Hopper) once any is used
//	Constant      cuobjdump CONSTANT[bank], ptxas "bytes cmem[bank]" where it prints them
//	Spill…        ptxas "bytes spill stores" and "bytes spill loads" of the kernel; functions it calls are not counted
//	Barriers      ptxas "used N barriers"
type Kernel struct {
	Name string // as the linker sees it: C++ names are mangled

	Registers    *int
	StackFrame   *int
	MinStack     *int // nil in relocatable code, and of recursive code before CUDA 12.6; later ones leave recursion out
	Local        int
	SharedStatic *int
	Shared       *int
	Constant     map[int]int // by bank; bank 0 holds the parameters
	Barriers     int
	CodeBytes    int

	// SpillStores and SpillLoads are the widths in bytes of all instructions that write registers to local memory and
	// read them back for want of registers: of the code, not of what is executed. Assemblers since CUDA 12.6 mark
	// these instructions; in older code they are known to be 0 if there is no stack frame, and else not known.
	SpillStores *int
	SpillLoads  *int

	ParamBytes int     // of all parameters, with padding
	Params     []Param // in the order of the source

	MaxThreads [3]int // __launch_bounds__ as x, y, z; zero when not declared
	ReqThreads [3]int // .reqntid: blocks have exactly this shape; zero when not declared
	Cluster    [3]int // blocks of a cluster; zero when not declared
}

// Param is one parameter of a kernel.
type Param struct {
	Offset, Size int // in bytes
}

// Magic numbers at the start of a file.
const (
	elfMagic    = "\x7fELF"
	fatbinMagic = 0xba55ed50
)

// Read finds the device code in data, which is the content of the file called name. The file may be a cubin, a fatbin,
// or an ELF object, shared object or executable of the host. The result keeps no reference to data.
func Read(name string, data []byte) (*File, error) {
	file := &File{Name: name}
	src := source{name: name}
	var err error
	switch {
	case bytes.HasPrefix(data, []byte(elfMagic)):
		err = file.readELF(src, data)
	case len(data) >= 4 && binary.LittleEndian.Uint32(data) == fatbinMagic:
		file.Container = Fatbin
		r := fatbinReader{src: src, file: file}
		defer r.close()
		err = r.readAll(data, 0)
	default:
		err = notBinary(src, data)
	}
	if err != nil {
		return nil, err
	}
	if len(file.Images) == 0 {
		return nil, src.errorf(NoDeviceCode, "build it with device code: nvcc -fatbin, -cubin or -c",
			"the fatbin is empty: no device code in it")
	}
	return file, nil
}

// notBinary says what a file without a known magic number probably is.
func notBinary(src source, data []byte) error {
	start := string(data[:min(len(data), 4096)])
	hint := "give a cubin (nvcc -cubin), a fatbin (nvcc -fatbin), or a host object or executable with device code"
	switch {
	case len(data) == 0:
		return src.errorf(NotBinary, hint, "the file is empty")
	case strings.HasPrefix(start, "!<arch>\n"):
		return src.errorf(NotBinary, "unpack it with ar x, and give one object", "this is a static library")
	case strings.HasPrefix(start, "MZ"):
		return src.errorf(NotBinary, "unpack its device code with cuobjdump --extract-elf all, and give a cubin",
			"this is a Windows executable")
	case strings.Contains(start, ".version") && strings.Contains(start, ".target"):
		return src.errorf(NotBinary, "read it as PTX", "this is PTX text, not a binary")
	}
	return src.errorf(NotBinary, hint, "this is neither an ELF file nor a fatbin: it starts with %q",
		start[:min(len(start), 8)])
}

// source knows where bytes come from, for error messages.
type source struct {
	name     string
	base     int  // offset of the bytes in the file
	unpacked bool // the bytes were compressed in the file, and have offsets of their own
}

// at writes an offset in the bytes of s as a place that a user can look up.
func (s source) at(offset int) string {
	if s.unpacked {
		return fmt.Sprintf("offset %#x of what the compressed image at offset %#x unpacks to", offset, s.base)
	}
	return fmt.Sprintf("offset %#x", s.base+offset)
}

func (s source) errorf(code diag.Code, hint, format string, args ...any) *diag.Error {
	return diag.Errorf(code, hint, format, args...).At(diag.Pos{File: s.name})
}

// malformed is an error at an offset of the bytes of s.
func (s source) malformed(code diag.Code, offset int, format string, args ...any) *diag.Error {
	return s.errorf(code, "the file is damaged or of a kind not known here: build or copy it again",
		"%s: %s", s.at(offset), fmt.Sprintf(format, args...))
}

// Package artifact says what compiled kernels need and contain, holds them to a policy, and compares them with earlier
// ones. It reads PTX text, cubins, fatbins, host files with device code in them and listings of SASS.
//
// There is one record (Metrics) per kernel, read from one file or merged from several. A figure that no file knows is
// absent, never 0, and each figure says where it comes from: an estimate is never shown as a fact. The package stores
// nothing and prints nothing.
package artifact

import (
	"cmp"
	"slices"
)

// Origin is where a figure comes from.
type Origin string

const (
	// Declared figures stand in the PTX text.
	Declared Origin = "ptx"
	// Estimated figures are computed from the PTX text: what ptxas makes of it may be more or less.
	Estimated Origin = "ptx-estimate"
	// FromCubin figures were recorded by the assembler in the cubin.
	FromCubin Origin = "cubin"
	// FromPtxas figures are what the assembler said when it compiled a source.
	FromPtxas Origin = "ptxas"
	// FromSASS figures were counted in a listing of machine code.
	FromSASS Origin = "sass"
)

// Figure is a number with its origin. A figure that is not known is a nil *Figure.
type Figure struct {
	Value  int    `json:"value"`
	Origin Origin `json:"origin"`
}

// Estimated reports whether the figure is not exact.
func (f *Figure) Estimated() bool { return f != nil && f.Origin == Estimated }

// Extent is a shape of a block with its origin.
type Extent struct {
	X      int    `json:"x"`
	Y      int    `json:"y"`
	Z      int    `json:"z"`
	Origin Origin `json:"origin"`
}

// Threads is the number of threads of the shape.
func (e Extent) Threads() int { return max(e.X, 1) * max(e.Y, 1) * max(e.Z, 1) }

// SourceKind is what a record was read from.
type SourceKind string

// Kinds of sources. Both stands for several of them.
const (
	PTX   SourceKind = "ptx"
	Cubin SourceKind = "cubin"
	SASS  SourceKind = "sass"
	Both  SourceKind = "both"
)

// Source is a file, or an image in a file, that a record was read from.
type Source struct {
	Kind   SourceKind `json:"kind"`
	File   string     `json:"file"`
	Place             // of the kernel in PTX or in a listing
	Digest string     `json:"digest"` // SHA-256 of the file, or of the PTX text inside a fatbin, in hexadecimal
	// Code is the SHA-256 of the kernel's code without what does not matter: names of registers and labels, debug lines,
	// addresses. "" where the code is not looked into.
	Code string `json:"code,omitempty"`
	// Version is the PTX ISA of a text, or the toolkit whose assembler wrote a cubin.
	Version string `json:"version,omitempty"`
	// Compiler is what the text says of who wrote it.
	Compiler string `json:"compiler,omitempty"`
}

// Metrics is what is known of one kernel for one architecture. Sizes are in bytes, per thread or per block.
type Metrics struct {
	Kernel  string   `json:"kernel"`         // name of the entry as in the file: C++ names are mangled
	Arch    string   `json:"arch,omitempty"` // "sm_90a": of the machine code, else the target of the PTX text
	Sources []Source `json:"sources"`        // in the order ptx, cubin, sass; never empty
	Params  []Param  `json:"params,omitempty"`

	Registers    *Figure `json:"registers,omitempty"`     // per thread
	SpillStores  *Figure `json:"spill_stores,omitempty"`  // bytes that instructions save for want of registers
	SpillLoads   *Figure `json:"spill_loads,omitempty"`   // bytes that instructions read back
	Stack        *Figure `json:"stack,omitempty"`         // per thread, with the functions that are called
	Local        *Figure `json:"local,omitempty"`         // local memory per thread; the stack is part of it
	SharedStatic *Figure `json:"shared_static,omitempty"` // per block, what the source declares
	Barriers     *Figure `json:"barriers,omitempty"`      // named barriers

	// SharedDynamic says whether the kernel also uses shared memory whose size is given at launch. Only PTX knows.
	SharedDynamic *bool `json:"shared_dynamic,omitempty"`

	Constant   []Bank  `json:"constant,omitempty"`
	MaxThreads *Extent `json:"max_threads,omitempty"` // blocks have at most this many threads
	ReqThreads *Extent `json:"req_threads,omitempty"` // blocks have exactly this shape

	PTXCode  *Code `json:"ptx_code,omitempty"`  // instructions of the PTX text
	SASSCode *Code `json:"sass_code,omitempty"` // instructions of the machine

	Notes []string `json:"notes,omitempty"` // why a figure is not known
}

// Bank is constant memory.
type Bank struct {
	Bank  *int   `json:"bank,omitempty"` // nil where it is declared in PTX: the assembler chooses the bank
	Bytes Figure `json:"bytes"`
}

// Param is a parameter of a kernel. What a source does not know is left out.
type Param struct {
	Name   string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"`  // "u64", "b8[16]"
	Space  string `json:"space,omitempty"` // what a pointer points to
	Align  int    `json:"align,omitempty"` // of what it points to
	Offset *int   `json:"offset,omitempty"`
	Size   int    `json:"size"`
}

// Code is what instructions a kernel has, in one dialect. In PTX the functions that it calls, directly or not, count
// once each; where it calls through a pointer, all functions of the text do. In SASS they count where the listing has
// them under the name of the kernel.
type Code struct {
	Total int `json:"total"`
	// Partial says why some code that the kernel executes is not counted; "" where nothing is known to be missing.
	Partial    string         `json:"partial,omitempty"`
	Predicated int            `json:"predicated"` // instructions that a predicate may switch off; not those it always does
	Opcodes    map[string]int `json:"opcodes"`    // "ld", "HMMA"
	Classes    map[Class]int  `json:"classes"`    // those that occur; an instruction counts in one class
	Memory     []Access       `json:"memory,omitempty"`
	// Mnemonics are opcodes with modifiers, sorted by name.
	Mnemonics []Mnemonic `json:"mnemonics"`
	Patterns  []string   `json:"patterns,omitempty"` // those of WellKnown that occur

	// Shape of the control flow, of the kernel alone; nil where it is not looked at.
	Blocks      *int `json:"blocks,omitempty"`
	Loops       *int `json:"loops,omitempty"`
	DeepestLoop *int `json:"deepest_loop,omitempty"` // 1: loops are not nested
}

// Mnemonic is an opcode with its modifiers and where it stands.
type Mnemonic struct {
	Name   string  `json:"name"`
	Count  int     `json:"count"`
	Places []Place `json:"places,omitempty"` // the first few, at most maxPlaces
}

// maxPlaces is how many places of a mnemonic are kept: enough to look at, few enough for a store of many records.
const maxPlaces = 4

// Place is where an instruction stands.
type Place struct {
	Line       int    `json:"line,omitempty"`        // in the PTX text or the listing
	SourceFile string `json:"source_file,omitempty"` // what it was compiled from, where the text says so
	SourceLine int    `json:"source_line,omitempty"`
}

// Class is what an instruction is for.
type Class string

// Classes of instructions.
const (
	FP32    Class = "fp32"
	FP64    Class = "fp64"
	Half    Class = "half" // fp16, bf16 and narrower
	Int     Class = "int"  // with logic, shifts, comparisons and predicates of integers
	Convert Class = "convert"
	Move    Class = "move" // copies, selections, special registers
	Warp    Class = "warp" // shuffles, votes, reductions inside a warp
	Memory  Class = "memory"
	Atomic  Class = "atomic"
	Tensor  Class = "tensor"  // tensor cores, with the moves of their fragments
	Barrier Class = "barrier" // with fences
	Branch  Class = "branch"
	Call    Class = "call"
	Other   Class = "other"
)

// Access counts instructions that access memory.
type Access struct {
	Kind  string `json:"kind"`  // load, store, atomic, copy
	Space string `json:"space"` // global, shared, local, const, param, generic
	Bits  int    `json:"bits"`  // of one instruction and thread; 0 where it depends on operands
	Count int    `json:"count"`
}

// Kind is what the record was read from: one source, or Both.
func (m *Metrics) Kind() SourceKind {
	if len(m.Sources) != 1 {
		return Both
	}
	return m.Sources[0].Kind
}

// Source returns the source of that kind.
func (m *Metrics) Source(kind SourceKind) (Source, bool) {
	i := slices.IndexFunc(m.Sources, func(s Source) bool { return s.Kind == kind })
	if i < 0 {
		return Source{}, false
	}
	return m.Sources[i], true
}

// Spills are the bytes of all spill instructions, stores and loads.
func (m *Metrics) Spills() *Figure {
	if m.SpillStores == nil || m.SpillLoads == nil {
		return nil
	}
	return &Figure{m.SpillStores.Value + m.SpillLoads.Value, m.SpillStores.Origin}
}

// Instructions is the number of instructions: of the machine where a listing is there, else of PTX.
func (m *Metrics) Instructions() *Figure {
	switch {
	case m.SASSCode != nil:
		return &Figure{m.SASSCode.Total, FromSASS}
	case m.PTXCode != nil:
		return &Figure{m.PTXCode.Total, Declared}
	}
	return nil
}

// Patterns are the well-known patterns that occur in the code.
func (m *Metrics) Patterns() []string {
	var all []string
	for _, c := range []*Code{m.PTXCode, m.SASSCode} {
		if c != nil {
			all = append(all, c.Patterns...)
		}
	}
	return all
}

// order sorts records by name and architecture.
func order(x, y Metrics) int {
	return cmp.Or(cmp.Compare(x.Kernel, y.Kernel), cmp.Compare(x.Arch, y.Arch))
}

// Package ptx reads, prints and analyses PTX, the assembly text that nvcc, NVRTC, clang and Triton write.
//
// Registers are bits here, and types live on instructions. The package does not execute anything and knows no semantics
// beyond which operands an instruction writes and where control goes; that is what packages ptxvm and ptxdiff add.
package ptx

import (
	"slices"
	"strings"
	"sync"

	"gpuemu/internal/diag"
)

// Pos is an offset in the text of a file. File.Position makes a line and a column of it.
type Pos int32

// File is a parsed module. Texts in it are pieces of the source.
type File struct {
	Name        string
	Version     string   // "8.4"
	Targets     []string // "sm_90a", "debug"
	AddressSize int      // 32 or 64; 0 where the file does not say
	Items       []Stmt   // *Variable, *Function, *Section, *FileName, *Directive, *DebugLine
	Functions   []*Function

	src   string
	once  sync.Once
	lines []Pos // where lines begin; made when someone asks
}

// Position is the place of an offset.
func (f *File) Position(at Pos) diag.Pos {
	f.once.Do(func() {
		f.lines = append(f.lines, 0)
		for i := range len(f.src) {
			if f.src[i] == '\n' {
				f.lines = append(f.lines, Pos(i+1))
			}
		}
	})
	i, found := slices.BinarySearch(f.lines, at)
	if !found {
		i--
	}
	return diag.Pos{File: f.Name, Line: i + 1, Col: int(at-f.lines[i]) + 1}
}

// Kernels are the functions a host can launch, in order.
func (f *File) Kernels() []*Function {
	var list []*Function
	for _, fn := range f.Functions {
		if fn.Entry && fn.Body != nil {
			list = append(list, fn)
		}
	}
	return list
}

// Stmt is a piece of a module or of a function's body.
type Stmt interface {
	// At is where the piece begins.
	At() Pos
}

// At is where the piece begins.
func (p Pos) At() Pos { return p }

// Variable is a declaration: registers, memory or parameters, one or several names.
type Variable struct {
	Pos
	Linkage    []string // extern, visible, weak, common
	Space      string   // reg, global, const, shared, local, param, tex, with what follows it: "shared::cta"
	Align      int      // bytes; 0 where the file does not say
	Attributes string   // what stands in .attribute( ), as written
	Vec        string   // "v2", "v4" or ""
	Type       string   // "b32", "pred", "texref"
	Ptr        *Pointer // of a kernel's parameter, nil elsewhere
	Names      []Name
}

// External reports whether a host or another module can find the variable by its name: cuModuleGetGlobal and
// cuModuleGetTexRef take it. Nobody outside a kernel sees shared memory, whatever its linkage.
func (v *Variable) External() bool {
	switch v.Type {
	case "texref", "samplerref", "surfref": // a host sets them, and has nothing but the name
		return v.Space != "param" && v.Space != "reg"
	}
	return v.Space == "tex" || len(v.Linkage) > 0 && !strings.HasPrefix(v.Space, "shared")
}

// Pointer says what a kernel's parameter points to.
type Pointer struct {
	Space string // "" for generic
	Align int    // 0 where the file does not say
}

// Name is one name of a declaration.
type Name struct {
	Pos
	Name  string
	Count int   // %r<Count> declares %r0 to %r(Count-1); 0 for a plain name
	Dims  []int // of an array; -1 for []
	Init  *Init // nil where there is none
}

// Init is an initial value: a list, or one value. IsList, Len and Elements read a list of either form.
type Init struct {
	Pos
	list    []Init // nil for a value, and for a list of numbers
	Value   Operand
	Mask    string // "0xFF" of 0xFF(symbol): the byte of an address; else ""
	numbers *numbers
}

// Function is a kernel (.entry) or a device function (.func).
type Function struct {
	Pos
	Entry      bool
	Linkage    []string
	Attributes string
	Name       string
	Returns    []*Variable
	Params     []*Variable
	Directives []*Directive // .maxntid, .noreturn and others, in order
	Body       *Block       // nil for a declaration

	Code      []*Instr    // all instructions in order
	Registers []*Register // all that are used, in order of first use
	Labels    []*Label    // all, in order
}

// Register is a register that a function uses.
type Register struct {
	Name  string
	Type  string    // "b32", "pred"
	Vec   string    // "v2", "v4" or ""
	Index int       // in Function.Registers
	Var   *Variable // that declares it
}

// Block is what stands between braces. Names are local to it.
type Block struct {
	Pos
	Stmts []Stmt // *Variable, *Instr, *Label, *Block, *Loc, *Directive, *Targets, *Prototype, *FileName, *DebugLine
	End   Pos    // of the closing brace
}

// Label is a place in code.
type Label struct {
	Pos
	Name  string
	Index int // of the next instruction in Function.Code
}

// Instr is an instruction.
type Instr struct {
	Pos
	Op    string   // "ld"
	Mods  []string // "global", "v4", "f32"
	Guard *Operand // the predicate of @p, nil where there is none
	Args  []Operand
	Loc   *Loc // source line, nil where the file has none
	Index int  // in Function.Code
	info  *opInfo
}

// Kind is what an operand is.
type Kind uint8

// Kinds of operands.
const (
	RegisterArg Kind = iota + 1 // %r1, with Reg
	SpecialArg                  // %tid.x, WARP_SZ
	SymbolArg                   // a variable or a function, with Var or Func, and Offset
	LabelArg                    // a label, with Label; a list of targets, with Targets; or a prototype
	SinkArg                     // _
	IntArg                      // bits in Value
	F32Arg                      // bits of a float32 in Value
	F64Arg                      // bits of a float64 in Value
	VectorArg                   // {a, b}
	PairArg                     // p|q
	AddressArg                  // [base+offset], further parts behind a comma
	GroupArg                    // (a, b) of a call
)

// Operand is an operand of an instruction.
type Operand struct {
	Pos
	Kind      Kind
	Not       bool   // !p
	Generic   bool   // generic(symbol)
	HasOffset bool   // there is an offset, even if it is 0
	Text      string // a name, or a number as written
	Field     string // "x" of %tid.x, "b0" of %r1.b0
	Offset    int64  // behind a name
	Value     uint64
	List      []Operand
	Reg       *Register
	Var       *Variable
	Func      *Function // of a name that .alias declares, the function behind it
	Label     *Label
	Targets   *Targets
}

// Loc is a source position: what follows was made from there.
type Loc struct {
	Pos
	File, Line, Col int
	Function        string // name of the inlined function as the file refers to it; "" where it was not inlined
	Inlined         *Loc   // where it was inlined
}

// FileName gives a number to a source file.
type FileName struct {
	Pos
	Number int
	Path   string // without its quotes
	Stamp  string // modification time and size as written; "" where there are none
}

// Directive is a directive with its arguments: .pragma, .maxntid, .alias and the like.
type Directive struct {
	Pos
	Name string   // without its dot
	Args []string // as written
}

// Targets is a list of labels or functions that a register may choose from.
type Targets struct {
	Pos
	Name  string // the label in front
	Calls bool   // .calltargets; else .branchtargets
	List  []Operand
}

// Prototype is the signature of an indirect call.
type Prototype struct {
	Pos
	Name            string // the label in front
	Returns, Params []*Variable
	Directives      []*Directive
}

// Section is a debug section. It is kept as it is.
type Section struct {
	Pos
	Name string // ".debug_info"
	Text string // what stands between its braces
}

// DebugLine is a line of the old form of debug information, @@DWARF. It is kept as it is.
type DebugLine struct {
	Pos
	Text string
}

package sass

// This file implements what instructions do to memory.

import "strings"

// Space is a kind of memory.
type Space uint8

const (
	Global   Space = iota + 1
	Shared         // of a block
	Local          // of a thread: stack, local arrays and spilled registers
	Constant       // a constant bank
	Generic        // any of the first three, decided when it is executed
	Texture
	Surface
	TensorMemory // of the tensor cores, on Blackwell
)

func (s Space) String() string {
	names := [...]string{"unset", "global", "shared", "local", "constant", "generic", "texture", "surface", "tensor"}
	return names[min(s, TensorMemory+1)%(TensorMemory+1)]
}

// Kind says what is done to memory.
type Kind uint8

const (
	Load      Kind = iota + 1
	Store          //
	Atomic         // read, changed and written at once, with a result
	Reduction      // the same without a result
	CopyIn         // from global to shared memory, without registers
	CopyOut        // from shared to global memory, without registers
)

func (k Kind) String() string {
	names := [...]string{"unset", "load", "store", "atomic", "reduction", "copy in", "copy out"}
	return names[min(k, CopyOut+1)%(CopyOut+1)]
}

// Access is what an instruction does to memory.
type Access struct {
	Space Space
	Kind  Kind
	Bytes int // per thread; 0 when the listing does not say it: textures, surfaces, copies by descriptor
}

// width says where an opcode has the width of its access.
type width uint8

const (
	inModifiers width = iota // .U8 … .128; 4 bytes without
	matrices                 // .2 and .4 matrices of 8x8 16-bit elements, of which a thread has 4 bytes each
	unknown                  // in registers or in a descriptor
)

// opcodes are the instructions that access memory. Those that only order, prefetch or discard are not in it.
var opcodes = map[string]struct {
	space Space
	kind  Kind
	width width
}{
	"LDG": {Global, Load, inModifiers}, "STG": {Global, Store, inModifiers},
	"LDS": {Shared, Load, inModifiers}, "STS": {Shared, Store, inModifiers},
	"LDL": {Local, Load, inModifiers}, "STL": {Local, Store, inModifiers},
	"LD": {Generic, Load, inModifiers}, "ST": {Generic, Store, inModifiers},
	"LDC": {Constant, Load, inModifiers}, "ULDC": {Constant, Load, inModifiers}, "LDCU": {Constant, Load, inModifiers},
	"LDSM": {Shared, Load, matrices}, "STSM": {Shared, Store, matrices}, "STAS": {Shared, Store, inModifiers},
	"ATOM": {Generic, Atomic, inModifiers}, "ATOMG": {Global, Atomic, inModifiers}, "ATOMS": {Shared, Atomic, inModifiers},
	"RED": {Global, Reduction, inModifiers}, "REDG": {Global, Reduction, inModifiers},
	"REDAS":  {Shared, Reduction, inModifiers},
	"LDGSTS": {Global, CopyIn, inModifiers},
	"LDGMC":  {Global, Load, inModifiers},

	"UTMALDG": {Global, CopyIn, unknown}, "UTMASTG": {Global, CopyOut, unknown}, "UTMAREDG": {Global, Reduction, unknown},
	"UBLKCP": {Global, CopyIn, unknown}, "UBLKRED": {Global, Reduction, unknown},
	"TEX": {Texture, Load, unknown}, "TEXS": {Texture, Load, unknown}, "TLD": {Texture, Load, unknown},
	"TLDS": {Texture, Load, unknown}, "TLD4": {Texture, Load, unknown}, "TLD4S": {Texture, Load, unknown},
	"TXD":  {Texture, Load, unknown},
	"SULD": {Surface, Load, unknown}, "SUST": {Surface, Store, unknown},
	"SUATOM": {Surface, Atomic, unknown}, "SURED": {Surface, Reduction, unknown},
	"LDTM": {TensorMemory, Load, unknown}, "STTM": {TensorMemory, Store, unknown}, "UTCCP": {TensorMemory, Store, unknown},
}

// Memory says what the instruction does to memory; ok is false if it does nothing to it, or is never executed.
func (in *Instr) Memory() (access Access, ok bool) {
	op, ok := opcodes[in.Opcode]
	if !ok || in.Never() {
		return Access{}, false
	}
	access = Access{Space: op.space, Kind: op.kind}
	switch op.width {
	case inModifiers:
		access.Bytes = in.width()
	case matrices:
		access.Bytes = 4
		if in.Has("2") {
			access.Bytes = 8
		} else if in.Has("4") {
			access.Bytes = 16
		}
	}
	// Bulk copies say where they go to and then where they come from; .S.S is shared memory of another block.
	switch {
	case in.Opcode == "UBLKCP" && strings.HasPrefix(in.Modifiers, "G.S"):
		access.Kind = CopyOut
	case in.Opcode == "UBLKCP" && strings.HasPrefix(in.Modifiers, "S.S"):
		access = Access{Space: Shared, Kind: Store}
	}
	return access, true
}

// width reads the width in bytes from the modifiers. Types of atomics count as well.
func (in *Instr) width() int {
	bytes := 4
	for m := range strings.SplitSeq(in.Modifiers, ".") {
		switch m {
		case "U8", "S8":
			bytes = 1
		case "U16", "S16":
			bytes = 2
		case "64", "U64", "S64", "F64":
			bytes = 8
		case "128":
			bytes = 16
		case "256":
			bytes = 32
		}
	}
	return bytes
}

// Accesses counts what the code does to memory.
func (f *Function) Accesses() map[Access]int {
	counts := map[Access]int{}
	for i := range f.Instrs {
		if access, ok := f.Instrs[i].Memory(); ok {
			counts[access]++
		}
	}
	return counts
}

// LocalUse is what the code does to local memory. A listing alone does not say why: spilled registers, local arrays,
// and registers that a called function has to save all look the same. See Cause; a cubin may know it to the byte.
type LocalUse struct {
	Loads, Stores         int // instructions: LDL and STL
	LoadBytes, StoreBytes int // per thread, if each is executed once
	Calls                 bool
}

// Local counts the accesses to local memory.
func (f *Function) Local() LocalUse {
	use := LocalUse{Calls: f.Calls()}
	for access, n := range f.Accesses() {
		switch {
		case access.Space != Local:
		case access.Kind == Load:
			use.Loads, use.LoadBytes = use.Loads+n, use.LoadBytes+n*access.Bytes
		default:
			use.Stores, use.StoreBytes = use.Stores+n, use.StoreBytes+n*access.Bytes
		}
	}
	return use
}

// Cause is the reason why code uses local memory.
type Cause uint8

const (
	CauseUnknown    Cause = iota // cannot be told from what is known
	CauseNone                    // it does not use local memory
	CauseSpills                  // registers do not suffice
	CauseArrays                  // the source has arrays that are not in registers, and there is room for nothing else
	CauseSomeSpills              // the frame is larger than all arrays: registers do not suffice, and there may be arrays
)

func (c Cause) String() string {
	names := [...]string{"unknown", "none", "spills", "arrays", "spills, maybe beside arrays"}
	return names[min(c, CauseSomeSpills+1)%(CauseSomeSpills+1)]
}

// Padding of a stack frame. It is rounded up to frameAlign, and arrays inside it are aligned to 16 bytes at most.
const (
	frameAlign = 8
	arrayAlign = 16
)

// Cause tells spills from arrays. The frame is the size of the stack frame in bytes, from the cubin; declared are the
// bytes of all .local variables in the PTX of the kernel. nil means that this is not known.
func (u LocalUse) Cause(frame, declared *int) Cause {
	switch {
	case u.Loads == 0 && u.Stores == 0:
		return CauseNone
	case declared == nil || u.Calls: // a called function saves registers, too
		return CauseUnknown
	case *declared == 0:
		return CauseSpills
	case frame == nil:
		return CauseUnknown
	}
	switch rest := *frame - *declared; {
	case rest >= arrayAlign:
		return CauseSomeSpills
	case rest >= 0 && rest < frameAlign:
		return CauseArrays
	}
	return CauseUnknown // an array went into registers, or what remains may be padding
}

// Package sass reads listings of machine code, as cuobjdump -sass and nvdisasm print them, and counts what matters of
// it: instructions by opcode, accesses to memory by space and width, instructions of the tensor cores.
//
// It is no disassembler: it reads text that NVIDIA's tools made, and the encoding beside the instructions is passed
// over. Main types are Function and Instr. Opcodes have no public specification; what is said about them here was
// established from compiled code, and an opcode that is not known is counted as itself and as nothing else.
package sass

import (
	"slices"
	"strings"
)

// Function is the code of one kernel with the functions it calls, or of a function that stands alone.
type Function struct {
	Name   string // as the linker sees it: C++ names are mangled
	Arch   string // "sm_90a"; "" if the listing does not say it
	Line   int    // of the listing, where it starts
	Instrs []Instr
}

// Instr is one instruction.
type Instr struct {
	Address   uint64 // from the start of the function's section, in bytes
	Predicate string // "P0", "!UP3"; "" when it is always executed
	Opcode    string // "LDG"
	Modifiers string // "E.128": what follows the opcode, without the first dot
	Operands  string // as printed, without spaces at the ends
	Line      int    // of the listing
	Source    Source
}

// Source is a place in the source of the kernel, if the listing has them (nvdisasm -g, of code built with -lineinfo).
// Code of an inlined function has the place in that function. The zero Source means that it is not known.
type Source struct {
	File string
	Line int
}

// Has reports whether the instruction has a modifier, for example "128".
func (in *Instr) Has(modifier string) bool {
	for m := range strings.SplitSeq(in.Modifiers, ".") {
		if m == modifier {
			return true
		}
	}
	return false
}

// Never reports whether the instruction is never executed: assemblers put such instructions between others.
func (in *Instr) Never() bool { return in.Predicate == "!PT" || in.Predicate == "!UPT" }

// Code returns the instructions without the NOPs at the end, which fill the section.
func (f *Function) Code() []Instr {
	end := len(f.Instrs)
	for end > 0 && f.Instrs[end-1].Opcode == "NOP" {
		end--
	}
	return f.Instrs[:end]
}

// Mix counts the instructions by opcode, without modifiers and without the NOPs at the end.
func (f *Function) Mix() map[string]int {
	mix := map[string]int{}
	for _, in := range f.Code() {
		mix[in.Opcode]++
	}
	return mix
}

// Tensor reports whether the instruction multiplies matrices on the tensor cores: HMMA, IMMA, DMMA, BMMA and QMMA, of a
// warp group HGMMA, IGMMA, QGMMA, and on Blackwell UTCHMMA and others. HFMA2.MMA, whose last part is a modifier, is
// none.
func (in *Instr) Tensor() bool { return strings.HasSuffix(in.Opcode, "MMA") }

// TensorMix counts the instructions of the tensor cores by opcode.
func (f *Function) TensorMix() map[string]int {
	mix := map[string]int{}
	for i := range f.Instrs {
		if in := &f.Instrs[i]; in.Tensor() && !in.Never() {
			mix[in.Opcode]++
		}
	}
	return mix
}

// Calls reports whether the function calls others.
func (f *Function) Calls() bool {
	return slices.ContainsFunc(f.Instrs, func(in Instr) bool {
		return in.Opcode == "CALL" || in.Opcode == "CAL" || in.Opcode == "JCAL"
	})
}

package ptxvm

import "gpuemu/internal/ptx"

// This file implements words of which only some bits are set. Compilers keep small arrays of bytes in registers: each
// byte is put into its word with and and or, the first of them into an uninitialized register. Such a word is
// defined when the last of its bits is. Other instructions ask for all bits.

// parting is how the bits of a result that are not set follow from those of the operands.
type parting uint8

const (
	undivided parting = iota // if one is not set, none is
	merges                   // mov, or: those of all operands
	keeps                    // and with a constant: those that it keeps
)

// partingOf is the parting of an instruction, and the bits that it keeps.
func partingOf(in *ptx.Instr) (parting, uint32) {
	word := in.Has("b32") || in.Has("u32") || in.Has("s32")
	if !word || len(in.Mods) != 1 {
		return undivided, 0
	}
	switch {
	case in.Op == "mov" && in.Args[1].Kind == ptx.RegisterArg, in.Op == "or":
		return merges, 0
	case in.Op == "and" && in.Args[2].Kind == ptx.IntArg:
		return keeps, uint32(in.Args[2].Value)
	}
	return undivided, 0
}

// unset are the bits of a register that a lane has not set.
func (x *warpShadow) unset(at int32, lane int) uint32 {
	if x.defined[at]>>lane&1 != 0 {
		return 0
	}
	if words := x.parts[at]; words != nil {
		return words[lane]
	}
	return ^uint32(0)
}

// parted is definedness for an instruction with a parting, where an operand is not defined in a lane of the mask.
func (x *warpShadow) parted(p *plain3, mask uint32) {
	defined := x.defined[p.a] & x.defined[p.b] & x.defined[p.c]
	words := x.parts[p.d]
	for lane := range warpSize {
		if mask&^defined>>lane&1 == 0 {
			continue
		}
		bits := x.unset(p.a, lane) | x.unset(p.b, lane) | x.unset(p.c, lane)
		if p.parting == keeps {
			bits &= p.keep
		}
		if bits == 0 {
			defined |= 1 << lane
			continue
		}
		if words == nil {
			words = allUnset()
			if x.parts == nil {
				x.parts = map[int32]*[warpSize]uint32{}
			}
			x.parts[p.d] = words
		}
		words[lane] = bits
	}
	x.defined[p.d] = x.defined[p.d]&^mask | defined&mask
}

// whole forgets which bits of a register are set: from now on all or none are.
func (x *warpShadow) whole(at int32, mask uint32) {
	words := x.parts[at]
	if words == nil {
		return
	}
	for lane := range warpSize {
		if mask>>lane&1 != 0 {
			words[lane] = ^uint32(0)
		}
	}
}

func allUnset() *[warpSize]uint32 {
	var words [warpSize]uint32
	for i := range words {
		words[i] = ^uint32(0)
	}
	return &words
}

package artifact

// This file implements the classes of PTX instructions (PTX ISA 9.0, chapter 9).

import (
	"strings"

	"gpuemu/internal/ptx"
)

// ptxClasses are the opcodes whose class does not depend on a type; all others are arithmetic.
var ptxClasses = classTable(map[Class]string{
	Memory:  "ld ldu st prefetch prefetchu cp tex tld4 txq suld sust suq discard applypriority tensormap",
	Atomic:  "atom red sured multimem",
	Tensor:  "mma wgmma wmma tcgen05 ldmatrix stmatrix movmatrix",
	Barrier: "bar barrier membar fence mbarrier griddepcontrol",
	Branch:  "bra brx ret exit",
	Call:    "call",
	Convert: "cvt",
	Move:    "mov cvta selp slct mapa isspacep istypep getctarank",
	Warp:    "shfl vote match redux elect activemask",
	Other:   "trap brkpt nanosleep pmevent setmaxnreg createpolicy alloca stacksave stackrestore clusterlaunchcontrol",
})

func classTable(words map[Class]string) map[string]Class {
	table := map[string]Class{}
	for class, list := range words {
		for _, w := range strings.Fields(list) {
			table[w] = class
		}
	}
	return table
}

// classifyPTX says what an instruction is for, and which memory it accesses; nil where it accesses none.
func classifyPTX(in *ptx.Instr) (Class, *Access) {
	class, ok := ptxClasses[in.Op]
	if !ok {
		return arithmetic(in), nil
	}
	switch in.Op {
	case "cp":
		if in.Has("commit_group") || in.Has("wait_group") || in.Has("wait_all") || in.Has("mbarrier") {
			return Barrier, nil
		}
		return class, &Access{Kind: "copy", Space: spaces(in), Bits: copyBits(in)}
	case "ld", "ldu":
		return class, &Access{Kind: "load", Space: spaces(in), Bits: accessBits(in)}
	case "st":
		return class, &Access{Kind: "store", Space: spaces(in), Bits: accessBits(in)}
	case "atom", "red", "multimem":
		return class, &Access{Kind: "atomic", Space: spaces(in), Bits: accessBits(in)}
	case "ldmatrix":
		return class, &Access{Kind: "load", Space: "shared", Bits: matrixBits(in)}
	case "stmatrix":
		return class, &Access{Kind: "store", Space: "shared", Bits: matrixBits(in)}
	case "wmma":
		if in.Has("load") {
			return class, &Access{Kind: "load", Space: spaces(in)}
		} else if in.Has("store") {
			return class, &Access{Kind: "store", Space: spaces(in)}
		}
	case "wgmma":
		if !in.Has("mma_async") { // fence, commit_group, wait_group
			return Barrier, nil
		}
	case "tex", "tld4":
		return class, &Access{Kind: "load", Space: "texture"}
	case "suld":
		return class, &Access{Kind: "load", Space: "surface"}
	case "sust":
		return class, &Access{Kind: "store", Space: "surface"}
	}
	return class, nil
}

// arithmetic is the class by the last type of an instruction: that of what set and setp compare.
func arithmetic(in *ptx.Instr) Class {
	for i := len(in.Mods) - 1; i >= 0; i-- {
		switch t := in.Mods[i]; t {
		case "f32", "f32x2":
			return FP32
		case "f64":
			return FP64
		case "f16", "f16x2", "bf16", "bf16x2":
			return Half
		default:
			if t == "pred" || typeBits(t) > 0 {
				return Int
			}
		}
	}
	return Other
}

// spaces are the memories that an instruction names, as written; "generic" where it names none.
func spaces(in *ptx.Instr) string {
	var list []string
	for _, m := range in.Mods {
		switch base := baseSpace(m); base {
		case "global", "shared", "local", "const", "param":
			list = append(list, base)
		}
	}
	if list == nil {
		return "generic"
	}
	return strings.Join(list, ".")
}

// accessBits is how many bits one thread reads or writes: the last type times the length of the vector.
func accessBits(in *ptx.Instr) int {
	bits, n := 0, 1
	for _, m := range in.Mods {
		if b := typeBits(m); b > 0 {
			bits = b
		} else if m == "v2" || m == "v4" || m == "v8" {
			n = lanes(m)
		}
	}
	return bits * n
}

// copyBits is what cp.async copies per thread: the size is an operand, in bytes. Bulk copies are of any size.
func copyBits(in *ptx.Instr) int {
	if in.Has("bulk") || len(in.Args) < 3 || in.Args[2].Kind != ptx.IntArg || in.Args[2].Value > 1<<20 {
		return 0
	}
	return int(in.Args[2].Value) * 8
}

// matrixBits is what a thread gets of ldmatrix or gives to stmatrix: 32 bits of each matrix.
func matrixBits(in *ptx.Instr) int {
	for _, m := range in.Mods {
		switch m {
		case "x1":
			return 32
		case "x2":
			return 64
		case "x4":
			return 128
		}
	}
	return 0
}

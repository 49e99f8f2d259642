package ptxvm

import (
	"slices"
	"strings"

	"gpuemu/internal/ptx"
)

// This file implements the table of instructions: its notation, and the search for the row of an instruction.

// row is an instruction that is executed here. Its syntax is what the documentation shows, and what decides whether an
// instruction is accepted: opcodes and modifiers in order, where [ ] may be left out, | separates choices and $ names a
// set of them.
type row struct {
	syntax string
	build  func(b *builder)

	ops    []string
	groups []group
}

// group is one place for a modifier.
type group struct {
	optional bool
	names    []string
}

// sets are choices with a name.
var sets = map[string]string{
	"$rnd":    ".rn|.rz|.rm|.rp",
	"$rndi":   ".rni|.rzi|.rmi|.rpi",
	"$int":    ".u16|.s16|.u32|.s32|.u64|.s64",
	"$number": ".u8|.s8|.u16|.s16|.u32|.s32|.u64|.s64",
	"$int32":  ".u32|.s32",
	"$bits":   ".b16|.b32|.b64",
	"$move":   ".b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64",
	"$data":   ".b8|.b16|.b32|.b64|.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64|.f32|.f64",
	"$cmp":    ".eq|.ne|.lt|.le|.gt|.ge|.lo|.ls|.hi|.hs",
	"$fcmp":   ".eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan",
	"$bool":   ".and|.or|.xor",
	"$space":  ".global|.shared|.shared::cta|.local|.const|.param|.param::entry|.param::func",
	"$stored": ".global|.shared|.shared::cta|.local|.param|.param::func",
	"$memory": ".global|.shared|.shared::cta",
	"$shared": ".shared|.shared::cta|.shared::cluster",
	"$cache":  ".ca|.cg|.cs|.lu|.cv|.wb|.wt",
	"$l1":     ".L1::evict_normal|.L1::evict_unchanged|.L1::evict_first|.L1::evict_last|.L1::no_allocate",
	"$l2":     ".L2::64B|.L2::128B|.L2::256B",
	"$keep":   ".L2::evict_normal|.L2::evict_unchanged|.L2::evict_first|.L2::evict_last",
	"$order":  ".relaxed|.acquire|.release|.acq_rel",
	"$vec":    ".v2|.v4|.v8",
	"$scope":  ".cta|.cluster|.gpu|.sys",

	"$wmma":    ".m16n16k16|.m32n8k16|.m8n32k16",
	"$m64k8":   wgmmaShapes(8, false),
	"$m64k16":  wgmmaShapes(16, false),
	"$m64k32":  wgmmaShapes(32, false),
	"$m64k32i": wgmmaShapes(32, true),
}

// parse divides the syntax.
func (r *row) parse() {
	fields := strings.Fields(r.syntax)
	r.ops = strings.Split(fields[0], "|")
	for _, f := range fields[1:] {
		inner, optional := strings.CutPrefix(f, "[")
		inner = strings.TrimSuffix(inner, "]")
		var names []string
		for _, choice := range strings.Split(inner, "|") {
			if set, ok := sets[choice]; ok {
				names = append(names, strings.Split(set, "|")...)
			} else {
				names = append(names, choice)
			}
		}
		for i := range names {
			names[i] = strings.TrimPrefix(names[i], ".")
		}
		r.groups = append(r.groups, group{optional, names})
	}
}

// matches reports whether the modifiers are those of the row, and else how many of them fit.
func (r *row) matches(mods []string) (bool, int) {
	n := 0
	for _, g := range r.groups {
		switch {
		case n < len(mods) && slices.Contains(g.names, mods[n]):
			n++
		case !g.optional:
			return false, n
		}
	}
	return n == len(mods), n
}

// table is a group of rows, with the sections of the PTX ISA manual (version 8.6) that define them.
type table struct {
	title, section string
	rows           []row
}

// tables are all rows, in the order of the documentation.
var tables = []table{
	{"Integers", "9.7.1", intRows},
	{"Integers with carry", "9.7.2", carryRows},
	{"Bits", "9.7.1 and 9.7.8", bitRows},
	{"Parts of words", "9.7.17", videoRows},
	{"Comparison and selection", "9.7.6 and 9.7.7", compareRows},
	{"Floating point: f32 and f64", "9.7.3", floatRows},
	{"Floating point: approximations", "9.7.3 and 9.7.4", approxRows},
	{"Floating point: f16 and bf16", "9.7.4", halfRows},
	{"Moves and conversions", "9.7.9", convertRows},
	{"Memory", "9.7.9 and 9.7.13", memoryRows},
	{"Atomic operations", "9.7.13", atomicRows},
	{"Calls", "9.7.12", callRows},
	{"Control and barriers", "9.7.12, 9.7.13 and 9.7.19", controlRows},
	{"Lanes of a warp", "9.7.9 and 9.7.13", warpRows},
	{"Asynchronous copies", "9.7.9.25", asyncRows},
	{"Asynchronous reductions and stores", "9.7.9.12 and 9.7.9.25", bulkRows},
	{"Barriers in memory", "9.7.13.15", mbarrierRows},
	{"Matrices: loads, stores, transposition", "9.7.14", matrixRows},
	{"Matrices: mma", "9.7.14", mmaRows},
	{"Matrices: wmma", "9.7.14", wmmaRows},
	{"Matrices: wgmma", "9.7.15", wgmmaRows},
}

// rowsOf has the rows by opcode.
var rowsOf = func() map[string][]*row {
	m := map[string][]*row{}
	for _, t := range tables {
		for i := range t.rows {
			r := &t.rows[i]
			r.parse()
			for _, op := range r.ops {
				m[op] = append(m[op], r)
			}
		}
	}
	return m
}()

// find returns the row of an instruction. If there is none, it returns the modifier where the best one ends.
func find(in *ptx.Instr) (*row, string) {
	best := -1
	for _, r := range rowsOf[in.Op] {
		ok, n := r.matches(in.Mods)
		if ok {
			return r, ""
		}
		best = max(best, n)
	}
	if best < 0 || best >= len(in.Mods) {
		return nil, ""
	}
	return nil, in.Mods[best]
}

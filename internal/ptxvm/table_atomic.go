package ptxvm

import (
	"strings"

	"gpuemu/internal/dtype"
	"gpuemu/internal/ptxmath"
)

// This file implements atomic operations: atom, which gives what was there before, and red, which does not.
//
// Lanes of a warp come one after the other, the lowest first. Scopes and orders are accepted and change nothing: every
// access here is seen at once by everybody.

// atomicVectors are additions to two to eight numbers side by side (PTX ISA 8.1, sm_90).
var atomicVectors = []string{".add [.L2::cache_hint] .v2|.v4 .f32",
	".add .noftz [.L2::cache_hint] .v2|.v4 .f16x2|.bf16x2", ".add .noftz [.L2::cache_hint] .v2|.v4|.v8 .f16|.bf16"}

// Compilers write the space, the order and the scope in three sequences.
var atomicPlaces = []string{"[$order] [$scope] [$memory]", "$memory $order [$scope]", "$memory $scope [$order]"}

var atomicRows = func() []row {
	var rows []row
	for _, op := range []string{"atom", "red"} {
		for _, place := range atomicPlaces {
			for _, what := range []string{
				".add [.L2::cache_hint] .u32|.s32|.u64|.f32|.f64",
				".add .noftz [.L2::cache_hint] .f16|.bf16|.f16x2|.bf16x2",
				".min|.max [.L2::cache_hint] .u32|.s32|.u64|.s64",
				".inc|.dec [.L2::cache_hint] .u32",
				".and|.or|.xor [.L2::cache_hint] .b32|.b64",
			} {
				rows = append(rows, row{syntax: strings.Join([]string{op, place, "[.L2::cache_hint]", what}, " "),
					build: atomic})
			}
			if op == "atom" {
				rows = append(rows, row{syntax: "atom " + place + " .exch [.L2::cache_hint] .b32|.b64", build: atomic},
					row{syntax: "atom " + place + " .cas [.L2::cache_hint] .b16|.b32|.b64", build: atomic})
			}
			for _, what := range atomicVectors {
				rows = append(rows, row{syntax: strings.Join([]string{op, strings.Replace(place, "$memory", ".global", 1),
					what}, " "), build: atomic})
			}
		}
		rows = append(rows,
			row{syntax: op + " [$order] [$scope] .global [$order] [$scope] [.L2::cache_hint] .v2|.v4 .f32 .add",
				build: atomic},
			row{syntax: op + " [$order] [$scope] .global [$order] [$scope] [.L2::cache_hint] .v2|.v4 .f16x2|.bf16x2 " +
				".add .noftz", build: atomic},
			row{syntax: op + " [$order] [$scope] .global [$order] [$scope] [.L2::cache_hint] .v2|.v4|.v8 .f16|.bf16 " +
				".add .noftz", build: atomic})
	}
	return rows
}()

// atomic makes atom: d, [a], b and for cas c; and red: [a], b.
func atomic(b *builder) {
	args := b.in.Args
	typ, op := b.typ(0), ""
	for _, m := range b.in.Mods {
		switch m {
		case "add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas":
			op = m
		}
	}
	var dst, src []ref
	at := 0
	if b.in.Op == "atom" {
		at = 1
	}
	operands := at + 2
	if op == "cas" {
		operands++
	}
	b.hint(operands)
	if b.err != nil {
		return
	}
	b.out.mem = b.memory(&args[at])
	b.out.mem.atomic = true
	if at == 1 {
		dst = b.elements(&args[0], true)
	}
	src = b.elements(&args[at+1], false)
	b.out.c = noRef
	if op == "cas" {
		b.out.c = b.srcOf(&args[at+2], typ)
	}
	f, ftz := atomicOp(op, typ), op == "add" && typ == "f32"
	b.out.list = append(append([]ref{}, dst...), src...)
	b.out.run = func(w *warp, in *ins) { w.atomic(in, len(dst), f, ftz) }
}

// atomic executes an atomic operation; the first slots of the list get what was there before.
func (w *warp) atomic(in *ins, results int, f func(old, b, c uint64) uint64, ftz bool) {
	m := in.mem
	dst, src := in.list[:results], in.list[results:]
	for lane := range w.lanes() {
		at := m.at(w, lane)
		data := w.reach(in, m, lane, at, len(src)*m.size, true)
		sp := m.space
		if sp == genericSpace {
			sp, _ = generic(at)
		}
		c := uint64(0)
		if in.c != noRef {
			c = w.get(in.c, lane)
		}
		for i, s := range src {
			old, b := getBytes(data[i*m.size:], m.size), w.get(s, lane)
			v := uint64(0)
			if ftz && sp != sharedSpace { // PTX ISA, atom: .f32 flushes subnormal numbers in global memory only
				v = flush32(f(flush32(old), flush32(b), c))
			} else {
				v = f(old, b, c)
			}
			putBytes(data[i*m.size:], v, m.size)
			if results > 0 {
				w.set(dst[i], lane, old)
			}
		}
	}
}

// flush32 makes zeros of subnormal numbers.
func flush32(v uint64) uint64 {
	if v&0x7f800000 == 0 {
		return v & 0x80000000
	}
	return v
}

// atomicOp is the new value of memory that has an old one.
func atomicOp(op, typ string) func(old, b, c uint64) uint64 {
	switch op {
	case "add":
		return atomicAdd(typ)
	case "min", "max":
		return func(old, b, _ uint64) uint64 {
			less := b < old
			if isSigned(typ) {
				less = signed(b, typ) < signed(old, typ)
			}
			if b != old && less == (op == "min") {
				return b
			}
			return old
		}
	case "inc":
		return func(old, b, _ uint64) uint64 {
			if old >= b {
				return 0
			}
			return old + 1
		}
	case "dec":
		return func(old, b, _ uint64) uint64 {
			if old == 0 || old > b {
				return b
			}
			return old - 1
		}
	case "and":
		return func(old, b, _ uint64) uint64 { return old & b }
	case "or":
		return func(old, b, _ uint64) uint64 { return old | b }
	case "xor":
		return func(old, b, _ uint64) uint64 { return old ^ b }
	case "cas":
		return func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		}
	}
	return func(_, b, _ uint64) uint64 { return b } // exch
}

func atomicAdd(typ string) func(old, b, c uint64) uint64 {
	switch typ {
	case "f32":
		return func(old, b, _ uint64) uint64 { return uint64(ptxmath.AddRN32(uint32(old), uint32(b))) }
	case "f64":
		return func(old, b, _ uint64) uint64 { return ptxmath.AddRN64(old, b) }
	case "f16", "f16x2":
		return addParts(dtype.Float16, typ == "f16x2")
	case "bf16", "bf16x2":
		return addParts(dtype.BFloat16, typ == "bf16x2")
	}
	return func(old, b, _ uint64) uint64 { return old + b }
}

// addParts adds numbers of 16 bits, one or two. The sum of two such numbers is exact in float64 or rounds there without
// harm: 53 bits are more than twice 11 and two more.
func addParts(d dtype.DType, two bool) func(old, b, c uint64) uint64 {
	add := func(x, y uint64) uint64 {
		sum := d.Float64(x) + d.Float64(y)
		if sum != sum {
			return 0x7fff
		}
		return d.Bits(sum)
	}
	if !two {
		return func(old, b, _ uint64) uint64 { return add(old&0xffff, b&0xffff) }
	}
	return func(old, b, _ uint64) uint64 { return add(old&0xffff, b&0xffff) | add(old>>16, b>>16)<<16 }
}

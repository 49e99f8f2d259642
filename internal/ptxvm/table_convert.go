package ptxvm

import (
	"strconv"

	"gpuemu/internal/ptx"
	"gpuemu/internal/ptxmath"
)

// This file implements moves and conversions.

var convertRows = []row{
	{syntax: "mov $move|.pred", build: move},
	{syntax: "cvta .global|.shared|.shared::cta|.local|.const|.param .u64", build: cvta},
	{syntax: "cvta .to .global|.shared|.shared::cta|.local|.const|.param .u64", build: cvta},
	{syntax: "cvt [.sat] $number $number", build: cvt},
	{syntax: "cvt $rndi [.ftz] [.sat] $number .f32", build: cvt},
	{syntax: "cvt $rndi [.sat] $number .f16|.bf16|.f64", build: cvt},
	{syntax: "cvt $rnd [.sat] .f16|.bf16|.f32|.f64 $number", build: cvt},
	{syntax: "cvt [$rndi] [.ftz] [.sat] .f32 .f32", build: cvt},
	{syntax: "cvt [$rndi] [.sat] .f64 .f64", build: cvt},
	{syntax: "cvt [$rndi] [.sat] .f16 .f16", build: cvt},
	{syntax: "cvt [$rndi] .bf16 .bf16", build: cvt},
	{syntax: "cvt [.ftz] [.sat] .f32 .f16", build: cvt},
	{syntax: "cvt [.ftz] [.sat] .f64 .f32", build: cvt},
	{syntax: "cvt [.sat] .f64 .f16", build: cvt},
	{syntax: "cvt [$rnd] [.ftz] .f32 .bf16", build: cvt},
	{syntax: "cvt [$rnd] .f64 .bf16", build: cvt},
	{syntax: "cvt $rnd [.ftz] [.sat] .f32 .f64", build: cvt},
	{syntax: "cvt $rnd [.ftz] [.sat] .f16 .f32", build: cvt},
	{syntax: "cvt $rnd [.sat] .f16 .f64", build: cvt},
	{syntax: "cvt .rn|.rz [.relu] .satfinite .f16 .f32", build: cvt},
	{syntax: "cvt .rn|.rz .relu .f16 .f32", build: cvt},
	{syntax: "cvt .rn|.rz [.relu] [.satfinite] .bf16 .f32", build: cvt},
	{syntax: "cvt .rm|.rp .bf16 .f32", build: cvt},
	{syntax: "cvt $rnd .ftz .bf16 .f32", build: cvt},
	{syntax: "cvt [$rnd] .bf16 .f16", build: cvt},
	{syntax: "cvt $rnd .bf16 .f64", build: cvt},
	{syntax: "cvt [$rnd] .f16 .bf16", build: cvt},
	{syntax: "cvt .rn|.rz [.relu] [.satfinite] .f16x2|.bf16x2 .f32", build: cvtPair},
	{syntax: "cvt .rn|.rz .satfinite .relu .f16x2|.bf16x2 .f32", build: cvtPair},
	{syntax: "cvt .rna [.satfinite] .tf32 .f32", build: cvtTF32},
	{syntax: "cvt .rn|.rz [.satfinite] [.relu] .tf32 .f32", build: cvtTF32},
	{syntax: "cvt .rn .satfinite [.relu] .e4m3x2|.e5m2x2 .f32", build: cvtToFP8},
	{syntax: "cvt .rn .satfinite [.relu] .e4m3x2|.e5m2x2 .f16x2", build: cvtToFP8},
	{syntax: "cvt .rn [.relu] .f16x2 .e4m3x2|.e5m2x2", build: cvtFromFP8},
	{syntax: "cvt .pack .sat .u16|.s16 .s32", build: cvtPack},
	{syntax: "cvt .pack .sat .u2|.s2|.u4|.s4|.u8|.s8 .s32 .b32", build: cvtPack},
}

// move also packs and unpacks: mov.b64 {a, b}, c.
func move(b *builder) {
	t := b.typ(0)
	dst, src := b.arg(0), b.arg(1)
	if dst.List != nil || src.List != nil {
		b.pack(t)
		return
	}
	b.out.d, b.out.a, b.out.run = b.dst(0, t), b.src(1, t), runUnary
	b.out.f1 = func(a uint64) uint64 { return a }
	switch b.out.d.class() {
	case class32:
		b.out.run = runMove32
	case class64:
		b.out.run = runMove64
	}
}

func (b *builder) pack(t string) {
	dst, src := b.arg(0), b.arg(1)
	list := dst.List
	if list == nil {
		list = src.List
	}
	size := typeBytes(t) / len(list)
	part := map[int]string{1: "b8", 2: "b16", 4: "b32"}[size]
	if part == "" || size*len(list) != typeBytes(t) {
		b.fail(b.in.Pos, "", "%s with %d parts is not executed here", b.in.Mnemonic(), len(list))
		return
	}
	if dst.List != nil {
		for i := range list {
			b.out.list = append(b.out.list, b.dstOf(&list[i], part))
		}
		b.out.a = b.src(1, t)
		b.out.run = func(w *warp, in *ins) {
			for lane := range w.lanes() {
				v := w.get(in.a, lane)
				for i, d := range in.list {
					w.set(d, lane, cut(v>>(8*size*i), part))
				}
			}
		}
		return
	}
	b.out.d = b.dst(0, t)
	for i := range list {
		b.out.list = append(b.out.list, b.srcOf(&list[i], part))
	}
	b.out.run = func(w *warp, in *ins) {
		for lane := range w.lanes() {
			v := uint64(0)
			for i, s := range in.list {
				v |= w.get(s, lane) << (8 * size * i)
			}
			w.set(in.d, lane, v)
		}
	}
}

// window is where generic addresses of a space begin.
func window(s space) uint64 {
	switch s {
	case sharedSpace:
		return sharedWindow
	case localSpace:
		return localWindow
	case paramSpace:
		return paramWindow
	}
	return 0
}

func cvta(b *builder) {
	t := b.typ(0)
	shift := window(b.spaceMod())
	if b.in.Has("to") {
		shift = -shift
	}
	b.unary(t, func(a uint64) uint64 { return cut(a+shift, t) })
	if shift == 0 && typeBytes(t) == 8 {
		b.out.run = runMove64
	}
}

// cvtTypes are the types that ptxmath converts.
var cvtTypes = map[string]ptxmath.Type{"u8": ptxmath.U8, "s8": ptxmath.S8, "u16": ptxmath.U16, "s16": ptxmath.S16,
	"u32": ptxmath.U32, "s32": ptxmath.S32, "u64": ptxmath.U64, "s64": ptxmath.S64, "f16": ptxmath.F16,
	"bf16": ptxmath.BF16, "f32": ptxmath.F32, "f64": ptxmath.F64}

// cvtEnds are the types of the result and of the operand.
func (b *builder) cvtEnds() (to, from string) {
	n := len(b.in.Mods)
	return b.in.Mods[n-2], b.in.Mods[n-1]
}

// cvt makes conversions of one number. Registers may be wider than the types: the sign of a result is carried on in
// them (PTX ISA, 9.4.1).
func cvt(b *builder) {
	if b.args(2); b.err != nil {
		return
	}
	to, from := b.cvtEnds()
	dst, src, m := cvtTypes[to], cvtTypes[from], b.mode()
	dstType, srcType := b.registerType(0, to), b.registerType(1, from)
	t := wholeOf(dstType)
	b.unaryOf(dstType, srcType, func(x uint64) uint64 { return t.cut(ptxmath.Cvt(dst, src, m, x)) })
	if m != (ptxmath.Mode{}) {
		return
	}
	switch to + " " + from {
	case "s64 s32":
		b.fastCvt(runSignExtend)
	case "u64 u32":
		b.fastCvt(runZeroExtend)
	case "u32 u64", "s32 s64", "u32 s64", "s32 u64":
		b.fastCvt(runTruncate)
	case "f32 s32":
		b.fastCvt(runFloatOfSigned)
	}
}

// fastCvt uses a fast way if registers have the sizes of the types.
func (b *builder) fastCvt(run func(w *warp, in *ins)) {
	to, from := b.cvtEnds()
	if b.out.d.class() == classOf(to) && b.out.a.class() == classOf(from) {
		b.out.run = run
	}
}

// registerType is a type of the size of operand i, which is a register of at least the size of a type, or that type.
func (b *builder) registerType(i int, typ string) string {
	o := b.arg(i)
	if o.Kind != ptx.RegisterArg || o.Reg == nil || typeBytes(o.Reg.Type) < typeBytes(typ) {
		return typ
	}
	return typ[:1] + strconv.Itoa(8*typeBytes(o.Reg.Type))
}

// cvtPair converts two numbers: the first one is the upper half of the result.
func cvtPair(b *builder) {
	if b.args(3); b.err != nil {
		return
	}
	f, m := ptxmath.CvtF16x2, b.mode()
	if to, _ := b.cvtEnds(); to == "bf16x2" {
		f = ptxmath.CvtBF16x2
	}
	b.binary("b32", func(x, y uint64) uint64 { return uint64(f(uint32(x), uint32(y), m)) })
}

func cvtTF32(b *builder) {
	if b.args(2); b.err != nil {
		return
	}
	m := b.mode()
	b.unary("b32", func(x uint64) uint64 { return uint64(ptxmath.CvtTF32(uint32(x), m)) })
}

var fp8Types = map[string]ptxmath.FP8{"e4m3x2": ptxmath.E4M3, "e5m2x2": ptxmath.E5M2}

// cvtToFP8 makes two numbers of 8 bits, of two f32 or of a pair. The first f32 is the upper one.
func cvtToFP8(b *builder) {
	to, from := b.cvtEnds()
	typ, relu := fp8Types[to], b.in.Has("relu")
	if from == "f32" {
		if b.args(3); b.err == nil {
			b.binaryOf("b16", "f32", "f32", func(x, y uint64) uint64 {
				return uint64(typ.FromF32(uint32(x), relu))<<8 | uint64(typ.FromF32(uint32(y), relu))
			})
		}
		return
	}
	if b.args(2); b.err == nil {
		b.unaryOf("b16", "b32", func(x uint64) uint64 {
			return uint64(typ.FromF16(uint16(x>>16), relu))<<8 | uint64(typ.FromF16(uint16(x), relu))
		})
	}
}

func cvtFromFP8(b *builder) {
	if b.args(2); b.err != nil {
		return
	}
	_, from := b.cvtEnds()
	typ, relu := fp8Types[from], b.in.Has("relu")
	b.unaryOf("b32", "b16", func(x uint64) uint64 {
		return uint64(typ.ToF16(uint8(x>>8), relu))<<16 | uint64(typ.ToF16(uint8(x), relu))
	})
}

// cvtPack clamps two numbers and puts them side by side, the first one above the second; narrow ones go below what the
// third operand has.
func cvtPack(b *builder) {
	to := b.in.Mods[2]
	width, err := strconv.ParseUint(to[1:], 10, 8)
	if err != nil {
		panic("ptxvm: internal error: cvt.pack." + to)
	}
	pack := func(x, y, z uint64) uint64 {
		return uint64(ptxmath.Pack(int32(x), int32(y), uint32(z), uint(width), isSigned(to)))
	}
	if width == 16 {
		if b.args(3); b.err == nil {
			b.binary("b32", func(x, y uint64) uint64 { return pack(x, y, 0) })
		}
		return
	}
	if b.args(4); b.err == nil {
		b.ternary("b32", pack)
	}
}

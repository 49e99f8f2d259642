// This file implements the way from the name of a recorded instruction to the function that computes it.

package ptxmath

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"gpuemu/internal/testkit/recorded"
)

type evalFunc = func(o *[4]uint64) uint64

// parsed is the text of an instruction taken apart.
type parsed struct {
	op    string
	words []string
	mode  Mode
	sel   Sel
}

func parse(text string) parsed {
	words := strings.Split(text, ".")
	p := parsed{op: words[0], words: words[1:]}
	for _, w := range p.words {
		if i := slices.Index([]string{"rn", "rz", "rm", "rp", "rna"}, strings.TrimSuffix(w, "i")); i >= 0 {
			p.mode.Round = Round(i)
			p.mode.Integral = strings.HasSuffix(w, "i")
		}
	}
	p.mode.FTZ, p.mode.Sat = p.has("ftz"), p.has("sat")
	p.mode.Relu, p.mode.SatFinite = p.has("relu"), p.has("satfinite")
	p.sel = Sel{FTZ: p.mode.FTZ, NaN: p.has("NaN"), XorSign: p.has("xorsign")}
	return p
}

func (p *parsed) has(word string) bool { return slices.Contains(p.words, word) }

// last is the n-th word from the end.
func (p *parsed) last(n int) string {
	if n > len(p.words) {
		return ""
	}
	return p.words[len(p.words)-n]
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// evaluator is the function of a form, nil if there is none.
func evaluator(text string) evalFunc {
	p := parse(text)
	for _, family := range []func(p parsed) evalFunc{
		evalFields, evalCarry, evalSet, evalCvt, evalF32, evalF64, evalHalf, evalPick, evalInt, evalMulDiv,
	} {
		if f := family(p); f != nil {
			return f
		}
	}
	return nil
}

func unary32(f func(a uint32) uint32) evalFunc {
	return func(o *[4]uint64) uint64 { return uint64(f(uint32(o[0]))) }
}

func binary32(f func(a, b uint32) uint32) evalFunc {
	return func(o *[4]uint64) uint64 { return uint64(f(uint32(o[0]), uint32(o[1]))) }
}

func ternary32(f func(a, b, c uint32) uint32) evalFunc {
	return func(o *[4]uint64) uint64 { return uint64(f(uint32(o[0]), uint32(o[1]), uint32(o[2]))) }
}

func unary64(f func(a uint64) uint64) evalFunc { return func(o *[4]uint64) uint64 { return f(o[0]) } }

func binary64(f func(a, b uint64) uint64) evalFunc {
	return func(o *[4]uint64) uint64 { return f(o[0], o[1]) }
}

func evalF32(p parsed) evalFunc {
	if p.last(1) != "f32" {
		return nil
	}
	m := p.mode
	plain := m == Mode{}
	switch p.op {
	case "add":
		if plain {
			return binary32(AddRN32)
		}
		return binary32(func(a, b uint32) uint32 { return Add32(a, b, m) })
	case "sub":
		if plain {
			return binary32(SubRN32)
		}
		return binary32(func(a, b uint32) uint32 { return Sub32(a, b, m) })
	case "mul":
		if plain {
			return binary32(MulRN32)
		}
		return binary32(func(a, b uint32) uint32 { return Mul32(a, b, m) })
	case "fma":
		if plain {
			return ternary32(FmaRN32)
		}
		return ternary32(func(a, b, c uint32) uint32 { return Fma32(a, b, c, m) })
	case "div":
		return binary32(func(a, b uint32) uint32 { return Div32(a, b, m) })
	case "rcp":
		return unary32(func(a uint32) uint32 { return Rcp32(a, m) })
	case "sqrt":
		return unary32(func(a uint32) uint32 { return Sqrt32(a, m) })
	case "abs":
		return unary32(func(a uint32) uint32 { return Abs32(a, m.FTZ) })
	case "neg":
		return unary32(func(a uint32) uint32 { return Neg32(a, m.FTZ) })
	case "copysign":
		return binary32(Copysign32)
	}
	return nil
}

func evalF64(p parsed) evalFunc {
	if p.last(1) != "f64" {
		return nil
	}
	r := p.mode.Round
	switch p.op {
	case "add":
		if r == RN {
			return binary64(AddRN64)
		}
		return binary64(func(a, b uint64) uint64 { return Add64(a, b, r) })
	case "sub":
		return binary64(func(a, b uint64) uint64 { return Sub64(a, b, r) })
	case "mul":
		if r == RN {
			return binary64(MulRN64)
		}
		return binary64(func(a, b uint64) uint64 { return Mul64(a, b, r) })
	case "fma":
		if r == RN {
			return func(o *[4]uint64) uint64 { return FmaRN64(o[0], o[1], o[2]) }
		}
		return func(o *[4]uint64) uint64 { return Fma64(o[0], o[1], o[2], r) }
	case "div":
		return binary64(func(a, b uint64) uint64 { return Div64(a, b, r) })
	case "rcp":
		return unary64(func(a uint64) uint64 { return Rcp64(a, r) })
	case "sqrt":
		return unary64(func(a uint64) uint64 { return Sqrt64(a, r) })
	case "abs":
		return unary64(Abs64)
	case "neg":
		return unary64(Neg64)
	case "copysign":
		return binary64(Copysign64)
	case "min":
		return binary64(Min64)
	case "max":
		return binary64(Max64)
	}
	return nil
}

// halves applies f to the halves of the operands if the type is a pair.
func halves(p parsed, f func(a, b, c uint16) uint16) evalFunc {
	if strings.HasSuffix(p.last(1), "x2") {
		return func(o *[4]uint64) uint64 {
			return uint64(Pair(f(uint16(o[0]), uint16(o[1]), uint16(o[2])),
				f(uint16(o[0]>>16), uint16(o[1]>>16), uint16(o[2]>>16))))
		}
	}
	return func(o *[4]uint64) uint64 { return uint64(f(uint16(o[0]), uint16(o[1]), uint16(o[2]))) }
}

func evalHalf(p parsed) evalFunc {
	t := strings.TrimSuffix(p.last(1), "x2")
	if t != "f16" && t != "bf16" {
		return nil
	}
	m, ftz, oob := p.mode, p.mode.FTZ, p.has("oob")
	type fn = func(a, b, c uint16) uint16
	table := map[string]fn{
		"add f16":  func(a, b, _ uint16) uint16 { return AddF16(a, b, m) },
		"sub f16":  func(a, b, _ uint16) uint16 { return SubF16(a, b, m) },
		"mul f16":  func(a, b, _ uint16) uint16 { return MulF16(a, b, m) },
		"fma f16":  func(a, b, c uint16) uint16 { return FmaF16(a, b, c, m) },
		"abs f16":  func(a, _, _ uint16) uint16 { return AbsF16(a, ftz) },
		"neg f16":  func(a, _, _ uint16) uint16 { return NegF16(a, ftz) },
		"min f16":  func(a, b, _ uint16) uint16 { return MinF16(a, b, p.sel) },
		"max f16":  func(a, b, _ uint16) uint16 { return MaxF16(a, b, p.sel) },
		"add bf16": func(a, b, _ uint16) uint16 { return AddBF16(a, b, m) },
		"sub bf16": func(a, b, _ uint16) uint16 { return SubBF16(a, b, m) },
		"mul bf16": func(a, b, _ uint16) uint16 { return MulBF16(a, b, m) },
		"fma bf16": func(a, b, c uint16) uint16 { return FmaBF16(a, b, c, m) },
		"abs bf16": func(a, _, _ uint16) uint16 { return AbsBF16(a) },
		"neg bf16": func(a, _, _ uint16) uint16 { return NegBF16(a) },
		"min bf16": func(a, b, _ uint16) uint16 { return MinBF16(a, b, p.sel) },
		"max bf16": func(a, b, _ uint16) uint16 { return MaxBF16(a, b, p.sel) },
	}
	f := table[p.op+" "+t]
	if oob && t == "f16" {
		f = func(a, b, c uint16) uint16 { return FmaOOBF16(a, b, c, m) }
	} else if oob {
		f = func(a, b, c uint16) uint16 { return FmaOOBBF16(a, b, c, m) }
	}
	if f == nil {
		return nil
	}
	return halves(p, f)
}

// evalPick is min and max of f32.
func evalPick(p parsed) evalFunc {
	switch p.op + " " + p.last(1) {
	case "min f32":
		return binary32(func(a, b uint32) uint32 { return Min32(a, b, p.sel) })
	case "max f32":
		return binary32(func(a, b uint32) uint32 { return Max32(a, b, p.sel) })
	}
	return nil
}

var floatCompares = []string{
	"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
}

// evalSet is setp, set, slct and testp.
func evalSet(p parsed) evalFunc {
	switch p.op {
	case "testp":
		t := Test(slices.Index([]string{"finite", "infinite", "number", "notanumber", "normal", "subnormal"}, p.words[0]))
		if p.last(1) == "f32" {
			return func(o *[4]uint64) uint64 { return truth(t.F32(uint32(o[0]))) }
		}
		return func(o *[4]uint64) uint64 { return truth(t.F64(o[0])) }
	case "slct":
		if p.last(1) == "s32" {
			return ternary32(func(a, b, c uint32) uint32 {
				if int32(c) >= 0 {
					return a
				}
				return b
			})
		}
		return ternary32(func(a, b, c uint32) uint32 {
			if GE.F32(c, 0, p.mode.FTZ) {
				return a
			}
			return b
		})
	case "setp":
		return compareEval(p)
	case "set":
		return setEval(p)
	}
	return nil
}

// compareEval is a comparison as 0 or 1.
func compareEval(p parsed) evalFunc {
	t, ftz := p.last(1), p.mode.FTZ
	if c := Cmp(slices.Index(floatCompares, p.words[0])); strings.Contains(t, "f") {
		switch t {
		case "f16", "f16x2":
			return func(o *[4]uint64) uint64 { return truth(c.F16(uint16(o[0]), uint16(o[1]), ftz)) }
		case "bf16":
			return func(o *[4]uint64) uint64 { return truth(c.BF16(uint16(o[0]), uint16(o[1]))) }
		case "f32":
			return func(o *[4]uint64) uint64 { return truth(c.F32(uint32(o[0]), uint32(o[1]), ftz)) }
		}
		return func(o *[4]uint64) uint64 { return truth(c.F64(o[0], o[1])) }
	}
	of := typeOf(t)
	i := slices.Index(strings.Fields("eq ne lt le gt ge lo ls hi hs"), p.words[0])
	if i >= 6 { // lo, ls, hi, hs are lt, le, gt, ge
		i -= 4
	}
	return func(o *[4]uint64) uint64 {
		a, _ := of.extend(o[0])
		b, _ := of.extend(o[1])
		if of.isSigned() {
			a, b = a^1<<63, b^1<<63
		}
		return truth([]bool{a == b, a != b, a < b, a <= b, a > b, a >= b}[i])
	}
}

// setEval is set: all ones or zero, or 1.0 and 0.0.
func setEval(p parsed) evalFunc {
	test := compareEval(p)
	ones := map[string]uint64{
		"u32": 0xffffffff, "u16": 0xffff, "f32": one32, "f16": 0x3c00, "bf16": 0x3f80, "f16x2": 0x3c00,
	}[p.last(2)]
	if p.last(2) == "f16x2" {
		return func(o *[4]uint64) uint64 {
			high := [4]uint64{o[0] >> 16, o[1] >> 16}
			return test(o)*ones | test(&high)*ones<<16
		}
	}
	return func(o *[4]uint64) uint64 { return test(o) * ones }
}

var typeNames = strings.Fields("u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64")

func typeOf(name string) Type { return Type(slices.Index(typeNames, name)) }

func evalCvt(p parsed) evalFunc {
	if p.op != "cvt" {
		return nil
	}
	m := p.mode
	d, s := p.last(2), p.last(1)
	switch {
	case p.has("pack"):
		return packEval(p)
	case d == "tf32":
		return unary32(func(a uint32) uint32 { return CvtTF32(a, m) })
	case d == "f16x2" && s == "f32":
		return binary32(func(a, b uint32) uint32 { return CvtF16x2(a, b, m) })
	case d == "bf16x2" && s == "f32":
		return binary32(func(a, b uint32) uint32 { return CvtBF16x2(a, b, m) })
	case d == "e4m3x2" || d == "e5m2x2":
		t := FP8(slices.Index([]string{"e4m3x2", "e5m2x2"}, d))
		if s == "f32" {
			return func(o *[4]uint64) uint64 {
				return uint64(t.FromF32(uint32(o[1]), m.Relu)) | uint64(t.FromF32(uint32(o[0]), m.Relu))<<8
			}
		}
		return func(o *[4]uint64) uint64 {
			return uint64(t.FromF16(uint16(o[0]), m.Relu)) | uint64(t.FromF16(uint16(o[0]>>16), m.Relu))<<8
		}
	case s == "e4m3x2" || s == "e5m2x2":
		t := FP8(slices.Index([]string{"e4m3x2", "e5m2x2"}, s))
		return func(o *[4]uint64) uint64 {
			return uint64(Pair(t.ToF16(uint8(o[0]), m.Relu), t.ToF16(uint8(o[0]>>8), m.Relu)))
		}
	case strings.Join(p.words, ".") == "f32.f16":
		return func(o *[4]uint64) uint64 { return uint64(F16ToF32(uint16(o[0]))) }
	case strings.Join(p.words, ".") == "rn.f16.f32":
		return func(o *[4]uint64) uint64 { return uint64(F32ToF16(uint32(o[0]))) }
	case strings.Join(p.words, ".") == "rn.bf16.f32":
		return func(o *[4]uint64) uint64 { return uint64(F32ToBF16(uint32(o[0]))) }
	}
	dst, src := typeOf(d), typeOf(s)
	return func(o *[4]uint64) uint64 { return Cvt(dst, src, m, o[0]) }
}

func packEval(p parsed) evalFunc {
	t := p.words[2]
	width, err := strconv.Atoi(t[1:])
	if err != nil {
		return nil
	}
	return ternary32(func(a, b, c uint32) uint32 {
		return Pack(int32(a), int32(b), c, uint(width), t[0] == 's')
	})
}

// intType is the type of an integer instruction, and its width.
func intType(p parsed) (of Type, ok bool) {
	i := slices.Index(typeNames[:F16], p.last(1))
	return Type(max(i, 0)), i >= 0
}

// evalInt is the integer arithmetic that is Go's own, and what is beside it.
func evalInt(p parsed) evalFunc {
	switch text := p.op + "." + strings.Join(p.words, "."); text {
	case "add.sat.s32":
		return binary32(func(a, b uint32) uint32 { return uint32(AddSat(int32(a), int32(b))) })
	case "sub.sat.s32":
		return binary32(func(a, b uint32) uint32 { return uint32(SubSat(int32(a), int32(b))) })
	case "mad.hi.sat.s32":
		return ternary32(func(a, b, c uint32) uint32 { return uint32(MadHiSat(int32(a), int32(b), int32(c))) })
	case "mad24.hi.sat.s32":
		return ternary32(func(a, b, c uint32) uint32 { return uint32(Mad24HiSat(int32(a), int32(b), int32(c))) })
	}
	if t := p.last(1); t == "u16x2" || t == "s16x2" {
		q := p
		q.words = append(slices.Clone(p.words[:len(p.words)-1]), t[:3])
		each := evalInt(q)
		return func(o *[4]uint64) uint64 {
			high := [4]uint64{o[0] >> 16, o[1] >> 16}
			return each(o)&0xffff | each(&high)&0xffff<<16
		}
	}
	of, ok := intType(p)
	if !ok {
		return nil
	}
	signedLess := func(a, b uint64) bool {
		x, _ := of.extend(a)
		y, _ := of.extend(b)
		if of.isSigned() {
			return int64(x) < int64(y)
		}
		return x < y
	}
	relu := func(v uint64) uint64 {
		if _, negative := of.extend(v); negative && p.mode.Relu {
			return 0
		}
		return v
	}
	switch p.op {
	case "add":
		return binary64(func(a, b uint64) uint64 { return a + b })
	case "sub":
		return binary64(func(a, b uint64) uint64 { return a - b })
	case "min", "max":
		return binary64(func(a, b uint64) uint64 {
			if signedLess(a, b) == (p.op == "min") {
				return relu(a)
			}
			return relu(b)
		})
	case "abs":
		return unary64(func(a uint64) uint64 {
			if _, negative := of.extend(a); negative {
				return -a
			}
			return a
		})
	case "neg":
		return unary64(func(a uint64) uint64 { return -a })
	case "sad":
		return func(o *[4]uint64) uint64 {
			a, _ := of.extend(o[0])
			b, _ := of.extend(o[1])
			if of.isSigned() {
				return SadS64(int64(a), int64(b), o[2])
			}
			return SadU64(a, b, o[2])
		}
	case "shr":
		return binary64(func(a, n uint64) uint64 {
			v, _ := of.extend(a)
			if of.isSigned() {
				return uint64(int64(v) >> n)
			}
			return v >> n
		})
	}
	return nil
}

// evalMulDiv is mul, mad, div, rem and the 24-bit products.
func evalMulDiv(p parsed) evalFunc {
	of, ok := intType(p)
	if !ok {
		return nil
	}
	n, signed := of.bits(), of.isSigned()
	high := func(a, b uint64) uint64 {
		switch {
		case n == 64 && signed:
			return uint64(MulHiS64(int64(a), int64(b)))
		case n == 64:
			return MulHiU64(a, b)
		case n == 32 && signed:
			return uint64(MulHiS32(int32(a), int32(b)))
		case n == 32:
			return uint64(MulHiU32(uint32(a), uint32(b)))
		}
		x, _ := of.extend(a)
		y, _ := of.extend(b)
		return x * y >> 16
	}
	widened := func(a, b uint64) uint64 {
		x, _ := of.extend(a)
		y, _ := of.extend(b)
		return x * y
	}
	var f func(a, b uint64) uint64
	switch p.op + " " + p.words[0] {
	case "mul lo", "mad lo":
		f = func(a, b uint64) uint64 { return a * b }
	case "mul hi", "mad hi":
		f = high
	case "mul wide", "mad wide":
		f = widened
	case "mul24 lo", "mad24 lo":
		f = func(a, b uint64) uint64 { return uint64(Mul24LoU32(uint32(a), uint32(b))) }
		if signed {
			f = func(a, b uint64) uint64 { return uint64(Mul24LoS32(int32(a), int32(b))) }
		}
	case "mul24 hi", "mad24 hi":
		f = func(a, b uint64) uint64 { return uint64(Mul24HiU32(uint32(a), uint32(b))) }
		if signed {
			f = func(a, b uint64) uint64 { return uint64(Mul24HiS32(int32(a), int32(b))) }
		}
	default:
		f = divEval(p)
	}
	switch {
	case f == nil:
		return nil
	case strings.HasPrefix(p.op, "mad"):
		return func(o *[4]uint64) uint64 { return f(o[0], o[1]) + o[2] }
	}
	return binary64(f)
}

func divEval(p parsed) func(a, b uint64) uint64 {
	return map[string]func(a, b uint64) uint64{
		"div u16": func(a, b uint64) uint64 { return uint64(Div(uint16(a), uint16(b))) },
		"rem u16": func(a, b uint64) uint64 { return uint64(Rem(uint16(a), uint16(b))) },
		"div s16": func(a, b uint64) uint64 { return uint64(Div(int16(a), int16(b))) },
		"rem s16": func(a, b uint64) uint64 { return uint64(Rem(int16(a), int16(b))) },
		"div u32": func(a, b uint64) uint64 { return uint64(Div(uint32(a), uint32(b))) },
		"rem u32": func(a, b uint64) uint64 { return uint64(Rem(uint32(a), uint32(b))) },
		"div s32": func(a, b uint64) uint64 { return uint64(Div(int32(a), int32(b))) },
		"rem s32": func(a, b uint64) uint64 { return uint64(Rem(int32(a), int32(b))) },
		"div u64": Div[uint64],
		"rem u64": Rem[uint64],
		"div s64": func(a, b uint64) uint64 { return uint64(Div(int64(a), int64(b))) },
		"rem s64": func(a, b uint64) uint64 { return uint64(Rem(int64(a), int64(b))) },
	}[p.op+" "+p.last(1)]
}

// evalFields is bit fields, permutations and sums of products of bytes.
func evalFields(p parsed) evalFunc {
	t, signed, wrap := p.last(1), strings.HasPrefix(p.last(1), "s"), p.has("wrap")
	wide := strings.HasSuffix(t, "64")
	switch p.op {
	case "bfe":
		if wide {
			return func(o *[4]uint64) uint64 { return Bfe64(o[0], uint32(o[1]), uint32(o[2]), signed) }
		}
		return ternary32(func(a, b, c uint32) uint32 { return Bfe32(a, b, c, signed) })
	case "bfi":
		if wide {
			return func(o *[4]uint64) uint64 { return Bfi64(o[0], o[1], uint32(o[2]), uint32(o[3])) }
		}
		return func(o *[4]uint64) uint64 {
			return uint64(Bfi32(uint32(o[0]), uint32(o[1]), uint32(o[2]), uint32(o[3])))
		}
	case "bfind":
		if wide {
			return func(o *[4]uint64) uint64 { return uint64(Bfind64(o[0], signed, p.has("shiftamt"))) }
		}
		return unary32(func(a uint32) uint32 { return Bfind32(a, signed, p.has("shiftamt")) })
	case "fns":
		return ternary32(func(a, b, c uint32) uint32 { return Fns(a, b&31, int32(c)) })
	case "dp4a":
		return ternary32(func(a, b, c uint32) uint32 { return Dp4a(a, b, c, p.words[0][0] == 's', signed) })
	case "dp2a":
		return ternary32(func(a, b, c uint32) uint32 {
			return Dp2a(a, b, c, p.words[1][0] == 's', signed, p.has("hi"))
		})
	case "szext":
		return binary32(func(a, b uint32) uint32 { return Szext(a, b, signed, wrap) })
	case "bmsk":
		return binary32(func(a, b uint32) uint32 { return Bmsk(a, b, wrap) })
	case "lop3":
		lut, err := strconv.ParseUint(p.last(1), 0, 8)
		if err != nil {
			return nil
		}
		return ternary32(func(a, b, c uint32) uint32 { return Lop3(a, b, c, uint8(lut)) })
	case "shf":
		if p.words[0] == "l" {
			return ternary32(func(a, b, c uint32) uint32 { return ShfL(a, b, c, wrap) })
		}
		return ternary32(func(a, b, c uint32) uint32 { return ShfR(a, b, c, wrap) })
	case "prmt":
		mode := Permute(slices.Index(strings.Fields("b32 f4e b4e rc8 ecl ecr rc16"), p.last(1)))
		return ternary32(func(a, b, c uint32) uint32 { return Prmt(a, b, c, mode) })
	case "shl":
		n, err := strconv.Atoi(t[1:])
		if err != nil {
			return nil
		}
		return binary64(func(a, b uint64) uint64 { return a << b & recorded.Low(uint(n)) })
	case "not":
		return unary64(func(a uint64) uint64 { return ^a })
	case "cnot":
		return unary64(func(a uint64) uint64 { return truth(a == 0) })
	case "brev":
		if wide {
			return unary64(bits.Reverse64)
		}
		return unary32(bits.Reverse32)
	case "clz":
		if wide {
			return unary64(func(a uint64) uint64 { return uint64(bits.LeadingZeros64(a)) })
		}
		return unary32(func(a uint32) uint32 { return uint32(bits.LeadingZeros32(a)) })
	case "popc":
		return unary64(func(a uint64) uint64 { return uint64(bits.OnesCount64(a)) })
	}
	return nil
}

// evalCarry is the recorded sequences with the carry flag; a form's name says which instruction makes or takes it.
func evalCarry(p parsed) evalFunc {
	t := p.last(1)
	mask := uint64(1<<32 - 1)
	if t == "u64" {
		mask = 1<<64 - 1
	}
	carry := func(a, b uint64) uint64 { return truth((a+b)&mask < a) }
	product := func(a, b uint64) uint64 {
		switch {
		case !p.has("hi"):
			return a * b & mask
		case t == "u64":
			return MulHiU64(a, b)
		}
		return uint64(MulHiU32(uint32(a), uint32(b)))
	}
	switch p.op + " " + strconv.FormatBool(p.has("cc")) {
	case "add true":
		return binary64(carry)
	case "sub true":
		return binary64(func(a, b uint64) uint64 { return -truth(a < b) })
	case "addc true":
		return func(o *[4]uint64) uint64 { return o[0] + o[1] + carry(o[2], o[1]) }
	case "subc true":
		return func(o *[4]uint64) uint64 { return o[0] - o[1] - truth(o[2] < o[1]) }
	case "mad true":
		return func(o *[4]uint64) uint64 { return carry(product(o[0], o[1]), o[2]) }
	case "madc false":
		return func(o *[4]uint64) uint64 { return product(o[0], o[1]) + o[2] + carry(o[0], o[2]) }
	}
	return nil
}

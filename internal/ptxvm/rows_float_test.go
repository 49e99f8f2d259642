package ptxvm

import (
	"fmt"
	"math"
	"math/big"
	"strings"
)

// This file implements cases of rows on floats and of conversions.

// subsets are all choices of modifiers, in order: each of the first list, then any of the others.
func subsets(first []string, others ...string) []modifiers {
	var list []modifiers
	for _, f := range first {
		for set := range 1 << len(others) {
			parts := []string{}
			if f != "" {
				parts = append(parts, f)
			}
			for i, o := range others {
				if set>>i&1 != 0 {
					parts = append(parts, o)
				}
			}
			list = append(list, modifiers(strings.Join(parts, ".")))
		}
	}
	return list
}

// name is op.modifiers.typ.
func (m modifiers) name(op, typ string) string {
	if m == "" {
		return op + "." + typ
	}
	return op + "." + string(m) + "." + typ
}

// floatCase is a case where all operands and the result have one type. Any NaN is right for f64.
func floatCase(op, typ string, m modifiers, operands int, f func(x []uint64) uint64) rowCase {
	c := rowCase{text: m.name(op, typ) + " $d" + ", $a, $b, $c"[:4*operands] + ";", dst: bitsType(typ),
		src: times(operands, typ), want: f}
	if typ == "f64" {
		c.want, c.near = nil, sameOrNaN("f64", f)
	}
	return c
}

func sameOrNaN(typ string, f func(x []uint64) uint64) func(x []uint64, got uint64) bool {
	return func(x []uint64, got uint64) bool {
		want := f(x)
		return got == want || floatFormats[typ].isNaN(want) && floatFormats[typ].isNaN(got)
	}
}

var roundingNames = []string{"rn", "rz", "rm", "rp"}

func floatCases() []rowCase {
	var list []rowCase
	add := func(op, typ string, operands int, mods []modifiers) {
		elem, pair := strings.CutSuffix(typ, "x2")
		format, base := floatFormats[elem], op
		if op == "mad" {
			base = "fma"
		}
		for _, m := range mods {
			f := func(x []uint64) uint64 { return format.compute(base, x, m) }
			if pair {
				f = halves(f)
			}
			list = append(list, floatCase(op, typ, m, operands, f))
		}
	}
	optional := append([]string{""}, roundingNames...)
	for _, op := range []string{"add", "sub", "mul"} {
		add(op, "f32", 2, subsets(optional, "ftz", "sat"))
		add(op, "f64", 2, subsets(optional))
		for _, typ := range []string{"f16", "f16x2"} {
			add(op, typ, 2, subsets([]string{"", "rn"}, "ftz", "sat"))
		}
		add(op, "bf16", 2, subsets([]string{"", "rn"}))
		add(op, "bf16x2", 2, subsets([]string{"", "rn"}))
	}
	for _, op := range []string{"fma", "mad"} {
		add(op, "f32", 3, subsets(roundingNames, "ftz", "sat"))
		add(op, "f64", 3, subsets(roundingNames))
	}
	for _, typ := range []string{"f16", "f16x2"} {
		add("fma", typ, 3, subsets([]string{"rn"}, "ftz", "sat"))
		add("fma", typ, 3, []modifiers{"rn.relu", "rn.ftz.relu"})
	}
	for _, typ := range []string{"bf16", "bf16x2"} {
		add("fma", typ, 3, subsets([]string{"rn"}, "relu"))
	}
	add("div", "f32", 2, subsets(roundingNames, "ftz"))
	add("div", "f64", 2, subsets(roundingNames))
	for _, op := range []string{"rcp", "sqrt"} {
		add(op, "f32", 1, subsets(roundingNames, "ftz"))
		add(op, "f64", 1, subsets(roundingNames))
	}
	list = append(list, outOfBoundsCases()...)
	list = append(list, selectionCases()...)
	return append(list, floatCompareCases()...)
}

// outOfBoundsCases are fma.oob: a certain NaN as a factor gives +0.
func outOfBoundsCases() []rowCase {
	var list []rowCase
	for _, typ := range []string{"f16", "f16x2", "bf16", "bf16x2"} {
		elem, pair := strings.CutSuffix(typ, "x2")
		for _, m := range []modifiers{"rn.oob", "rn.oob.relu"} {
			f := func(x []uint64) uint64 {
				if x[0]|1<<15 == 0xfff7 || x[1]|1<<15 == 0xfff7 {
					return 0
				}
				return floatFormats[elem].compute("fma", x, m)
			}
			if pair {
				f = halves(f)
			}
			list = append(list, floatCase("fma", typ, m, 3, f))
		}
	}
	return list
}

// selectWant is min or max.
func selectWant(f floatFormat, op string, m modifiers) func(x []uint64) uint64 {
	return func(x []uint64) uint64 {
		a, b, sign := f.flush(x[0], m), f.flush(x[1], m), uint64(0)
		if m.has("xorsign") {
			sign = (a ^ b) & f.sign()
			a, b = a&^f.sign(), b&^f.sign()
		}
		switch {
		case f.isNaN(a) && f.isNaN(b), m.has("NaN") && (f.isNaN(a) || f.isNaN(b)):
			return f.nan()
		case f.isNaN(a):
			return b | sign
		case f.isNaN(b):
			return a | sign
		}
		v, w := f.number(a), f.number(b)
		aLess := v < w || v == w && f.negative(a) && !f.negative(b)
		if aLess == (op == "min") {
			return a | sign
		}
		return b | sign
	}
}

func selectionCases() []rowCase {
	var list []rowCase
	for _, typ := range []string{"f32", "f64", "f16", "f16x2", "bf16", "bf16x2"} {
		elem, pair := strings.CutSuffix(typ, "x2")
		format := floatFormats[elem]
		mods := subsets([]string{""}, "ftz", "NaN", "xorsign.abs")
		signMods := subsets([]string{""}, "ftz")
		switch elem {
		case "bf16":
			mods, signMods = subsets([]string{""}, "NaN", "xorsign.abs"), []modifiers{""}
		case "f64":
			mods, signMods = []modifiers{""}, []modifiers{""}
		}
		for _, m := range mods {
			for _, op := range []string{"min", "max"} {
				f := selectWant(format, op, m)
				if pair {
					f = halves(f)
				}
				list = append(list, floatCase(op, typ, m, 2, f))
			}
		}
		for _, m := range signMods {
			for _, op := range []string{"abs", "neg"} {
				c := floatCase(op, typ, m, 1, nil)
				c.near = signNear(format, op, m, pair)
				list = append(list, c)
			}
		}
	}
	return list
}

// signNear checks abs or neg; for NaN any NaN is right.
func signNear(f floatFormat, op string, m modifiers, pair bool) func(x []uint64, got uint64) bool {
	one := func(x, got uint64) bool {
		want := f.flush(x, m) ^ f.sign()
		if op == "abs" {
			want = f.flush(x, m) &^ f.sign()
		}
		return got == want || f.isNaN(x) && f.isNaN(got)
	}
	return func(x []uint64, got uint64) bool {
		if pair {
			return one(x[0]&0xffff, got&0xffff) && one(x[0]>>16, got>>16)
		}
		return one(x[0], got)
	}
}

var floatCmps = []string{"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}

// orderOf compares two floats: 2 where one is NaN.
func orderOf(f floatFormat, m modifiers) func(a, b uint64) int {
	return func(a, b uint64) int {
		x, y := f.number(f.flush(a, m)), f.number(f.flush(b, m))
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		case x == y:
			return 0
		}
		return 2
	}
}

func floatCompareCases() []rowCase {
	var list []rowCase
	results := map[string]uint64{"u32": 1<<32 - 1, "s32": 1<<32 - 1, "u16": 0xffff, "s16": 0xffff, "f32": 0x3f800000,
		"f16": 0x3c00, "bf16": 0x3f80}
	byType := map[string][]string{"f32": {"u32", "s32", "f32", "f16", "bf16"}, "f64": {"u32", "s32", "f32", "f16", "bf16"},
		"f16": {"u16", "s16", "u32", "s32", "f16"}, "bf16": {"u16", "s16", "u32", "s32", "bf16"}}
	for _, typ := range []string{"f16", "bf16", "f32", "f64"} {
		mods := []string{"", ".ftz"}
		if typ == "bf16" || typ == "f64" {
			mods = mods[:1]
		}
		for _, mod := range mods {
			order := orderOf(floatFormats[typ], modifiers(strings.TrimPrefix(mod, ".")))
			list = append(list, setpCases(typ, mod, floatCmps, order)...)
			for i, result := range byType[typ] {
				cmps := floatCmps // all of them once
				if i > 0 {
					cmps = cmps[:3]
				}
				list = append(list, setCases(typ, mod, result, results[result], cmps, order)...)
			}
			if typ == "f16" || typ == "bf16" {
				list = append(list, pairCompareCases(typ, mod, order)...)
			}
		}
	}
	for _, mod := range []string{"", ".ftz"} {
		order := orderOf(floatFormats["f32"], modifiers(strings.TrimPrefix(mod, ".")))
		for _, typ := range []string{"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"} {
			list = append(list, rowCase{text: fmt.Sprintf("slct%s.%s.f32 $d, $a, $b, $c;", mod, typ), dst: bitsType(typ),
				src: []string{typ, typ, "f32"}, want: func(x []uint64) uint64 {
					if o := order(x[2], 0); o == 0 || o == 1 {
						return x[0]
					}
					return x[1]
				}})
		}
	}
	return append(list, propertyCases()...)
}

// pairCompareCases are setp and set of pairs.
func pairCompareCases(typ, mod string, order func(a, b uint64) int) []rowCase {
	var list []rowCase
	both := func(x []uint64, f func(o int) bool) (lo, hi bool) {
		return f(order(x[0]&0xffff, x[1]&0xffff)), f(order(x[0]>>16, x[1]>>16))
	}
	pair := typ + "x2"
	for i, cmp := range floatCmps {
		f, op := compares[cmp], []string{"and", "or", "xor"}[i%3]
		join := joins[op]
		list = append(list, rowCase{text: fmt.Sprintf("setp.%s%s.%s $d|$q, $a, $b;", cmp, mod, pair), dst: "pair",
			src: times(2, pair), want: func(x []uint64) uint64 {
				lo, hi := both(x, f)
				return truth(lo) + 2*truth(hi)
			}}, rowCase{text: fmt.Sprintf("setp.%s.%s%s.%s $d|$q, $a, $b, !$c;", cmp, op, mod, pair), dst: "pair",
			src: append(times(2, pair), "pred"), want: func(x []uint64) uint64 {
				lo, hi := both(x, f)
				return truth(join(lo, x[2] == 0)) + 2*truth(join(hi, x[2] == 0))
			}})
		for result, yes := range map[string]uint64{pair: map[string]uint64{"f16": 0x3c00, "bf16": 0x3f80}[typ],
			"u32": 0xffff, "s32": 0xffff} {
			list = append(list, rowCase{text: fmt.Sprintf("set.%s%s.%s.%s $d, $a, $b;", cmp, mod, result, pair), dst: "b32",
				src: times(2, pair), want: func(x []uint64) uint64 {
					lo, hi := both(x, f)
					return yes*truth(lo) + yes<<16*truth(hi)
				}}, rowCase{text: fmt.Sprintf("set.%s.%s%s.%s.%s $d, $a, $b, !$c;", cmp, op, mod, result, pair), dst: "b32",
				src: append(times(2, pair), "pred"), want: func(x []uint64) uint64 {
					lo, hi := both(x, f)
					return yes*truth(join(lo, x[2] == 0)) + yes<<16*truth(join(hi, x[2] == 0))
				}})
		}
	}
	return list
}

func propertyCases() []rowCase {
	var list []rowCase
	for _, typ := range []string{"f32", "f64"} {
		f := floatFormats[typ]
		zero := func(v uint64) bool { return v&^f.sign() == 0 }
		for name, is := range map[string]func(v uint64) bool{
			"finite": func(v uint64) bool { return !f.isNaN(v) && !f.isInf(v) }, "infinite": f.isInf,
			"number": func(v uint64) bool { return !f.isNaN(v) }, "notanumber": f.isNaN,
			"normal":    func(v uint64) bool { return zero(v) || !f.isNaN(v) && !f.isInf(v) && !f.isSubnormal(v) },
			"subnormal": func(v uint64) bool { return f.isSubnormal(v) && !zero(v) },
		} {
			list = append(list, rowCase{text: fmt.Sprintf("testp.%s.%s $d, $a;", name, typ), dst: "pred", src: times(1, typ),
				want: func(x []uint64) uint64 { return truth(is(x[0])) }})
		}
		list = append(list, rowCase{text: "copysign." + typ + " $d, $a, $b;", dst: bitsType(typ), src: times(2, typ),
			want: func(x []uint64) uint64 { return x[0]&f.sign() | x[1]&^f.sign() }})
	}
	return list
}

// approxBounds are the largest errors: absolute, or relative, or both allowed (PTX ISA 9.7.3; the tests of ZLUDA sweep
// all inputs on hardware against the same bounds).
var approxBounds = map[string]struct {
	f        func(x float64) float64
	abs, rel float64
}{
	"rcp":   {func(x float64) float64 { return 1 / x }, 0, 0x1p-23},
	"sqrt":  {math.Sqrt, 0, 0x1p-23},
	"rsqrt": {func(x float64) float64 { return 1 / math.Sqrt(x) }, 0, 0x1.1p-23},
	"sin":   {math.Sin, 0x1p-20, 0}, "cos": {math.Cos, 0x1p-20, 0},
	"lg2":  {math.Log2, 0x1p-22, 0x1p-22},
	"ex2":  {math.Exp2, 0, 0x1p-22},
	"tanh": {math.Tanh, 0, 0x1p-11},
}

// within reports whether bits are a result with an error inside the bound. Results around the smallest normal number
// may be off by one step more.
func within(f floatFormat, want float64, got uint64, abs, rel float64, m modifiers) bool {
	g := f.number(got)
	switch {
	case want != want:
		return got == f.nan() || f.size == 64 && f.isNaN(got)
	case f.isNaN(got):
		return false
	case math.IsInf(want, 0):
		return g == want
	}
	step := math.Ldexp(1, f.emin-int(f.man))
	if m.has("ftz") {
		step = math.Ldexp(1, f.emin)
	}
	most := math.Ldexp(2-math.Ldexp(1, -int(f.man)), -f.emin+1)
	if math.Abs(want) > most {
		return math.IsInf(g, int(math.Copysign(1, want))) || math.Abs(g) == most
	}
	return math.Abs(g-want) <= abs+rel*math.Abs(want)+step
}

func approxCases() []rowCase {
	var list []rowCase
	f := floatFormats["f32"]
	for op, bound := range approxBounds {
		mods := []modifiers{"approx", "approx.ftz"}
		if op == "tanh" {
			mods = mods[:1]
		}
		for _, m := range mods {
			list = append(list, rowCase{text: m.name(op, "f32") + " $d, $a;", dst: "b32", src: times(1, "f32"),
				near: func(x []uint64, got uint64) bool {
					v := f.number(f.flush(x[0], m))
					if (op == "sin" || op == "cos") && math.Abs(v) > 2*math.Pi && !math.IsInf(v, 0) {
						return math.Abs(f.number(got)) <= 1 // no bound so far out, but still a sine
					}
					return within(f, bound.f(v), got, bound.abs, bound.rel, m)
				}})
		}
	}
	list = append(list, approxHalfCases()...)
	list = append(list, approxDoubleCases()...)
	for _, m := range []modifiers{"approx", "approx.ftz", "full", "full.ftz"} {
		list = append(list, rowCase{text: m.name("div", "f32") + " $d, $a, $b;", dst: "b32", src: times(2, "f32"),
			near: func(x []uint64, got uint64) bool {
				v, w := f.number(f.flush(x[0], m)), f.number(f.flush(x[1], m))
				want := v / w
				if y := math.Abs(w); m.has("approx") && y > 0x1p126 && !math.IsInf(y, 0) { // 0, and NaN for infinity
					want = v * math.Copysign(0, w)
				}
				return within(f, want, got, 0, 0x1p-22, m)
			}})
	}
	return list
}

// approxDoubleCases are approximations of f64: with .ftz from the upper half of the operand to that of the result.
func approxDoubleCases() []rowCase {
	var list []rowCase
	f := floatFormats["f64"]
	for _, c := range []struct {
		op  string
		m   modifiers
		rel float64
	}{{"rcp", "approx.ftz", 0x1p-18}, {"rsqrt", "approx.ftz", 0x1p-18}, {"rsqrt", "approx", 0x1p-50}} {
		list = append(list, rowCase{text: c.m.name(c.op, "f64") + " $d, $a;", dst: "b64", src: times(1, "f64"),
			near: func(x []uint64, got uint64) bool {
				in := f.flush(x[0], c.m)
				if c.m.has("ftz") {
					in = in >> 32 << 32
				}
				return within(f, approxBounds[c.op].f(f.number(in)), got, 0, c.rel, c.m)
			}})
	}
	return list
}

// approxHalfCases are approximations of f16 and bf16; bounds as in PTX ISA 9.7.4.
func approxHalfCases() []rowCase {
	var list []rowCase
	bounds := map[string][2]float64{"ex2 f16": {0, 0x1p-9}, "ex2 bf16": {0, 0x1p-7}, "tanh f16": {0x1p-10, 0},
		"tanh bf16": {0, 0x1p-8}}
	for _, op := range []string{"ex2", "tanh"} {
		for _, typ := range []string{"f16", "f16x2", "bf16", "bf16x2"} {
			elem, pair := strings.CutSuffix(typ, "x2")
			f, bound, m := floatFormats[elem], bounds[op+" "+elem], modifiers("approx")
			if op == "ex2" && elem == "bf16" {
				m = "approx.ftz"
			}
			one := func(x, got uint64) bool {
				return within(f, approxBounds[op].f(f.number(f.flush(x, m))), got, bound[0], bound[1], m)
			}
			list = append(list, rowCase{text: m.name(op, typ) + " $d, $a;", dst: bitsType(typ), src: times(1, typ),
				near: func(x []uint64, got uint64) bool {
					if pair {
						return one(x[0]&0xffff, got&0xffff) && one(x[0]>>16, got>>16)
					}
					return one(x[0], got)
				}})
		}
	}
	return list
}

// cvtWant rounds a number to a type: what cvt gives for finite operands.
func cvtWant(to, from string, m modifiers) func(x []uint64) uint64 {
	return func(x []uint64) uint64 {
		v, sign, zero := new(big.Float).SetPrec(2200), uint64(0), true
		in := x[0]
		if format, ok := floatFormats[from]; ok {
			if from == "f32" && to != "f16" { // an H200 does not flush what becomes f16
				in = format.flush(in, m)
			}
			switch {
			case format.isNaN(in):
				return cvtNaN(to, from, m)
			case format.isInf(in):
				v.SetInf(format.negative(in))
			default:
				v = format.value(in)
			}
			sign, zero = truth(format.negative(in)), v.Sign() == 0
		} else {
			v.SetInt(num(in, from))
			sign, zero = truth(v.Sign() < 0), v.Sign() == 0
		}
		if integral := m.integral(); integral != "" && !v.IsInf() && !zero {
			v = new(big.Float).SetPrec(2200).SetInt(roundInt(v, integral))
			zero = v.Sign() == 0
		}
		format, ok := floatFormats[to]
		if !ok {
			return intOf(v, to, m.has("sat") || floatFormats[from].size > 0)
		}
		bits := sign * format.sign()
		switch {
		case v.IsInf():
			bits |= format.inf()
		case !zero:
			bits = format.round(v, false, m.rounding())
		}
		if to != "f32" { // flushing is for f32 only
			return format.finish(bits, modifiers(strings.ReplaceAll(string(m), "ftz", "")))
		}
		return format.finish(bits, m)
	}
}

// integral is the rounding to a whole number that the modifiers name.
func (m modifiers) integral() string {
	for _, name := range []string{"rni", "rzi", "rmi", "rpi"} {
		if m.has(name) {
			return name
		}
	}
	return ""
}

// roundInt rounds to a whole number.
func roundInt(v *big.Float, mode string) *big.Int {
	whole, _ := v.Int(nil) // towards zero
	rest := new(big.Float).SetPrec(2200).Sub(v, new(big.Float).SetPrec(2200).SetInt(whole))
	away := big.NewInt(int64(rest.Sign()))
	switch half := new(big.Float).Abs(rest).Cmp(big.NewFloat(0.5)); {
	case mode == "rni" && (half > 0 || half == 0 && whole.Bit(0) == 1), mode == "rmi" && rest.Sign() < 0,
		mode == "rpi" && rest.Sign() > 0:
		whole.Add(whole, away)
	}
	return whole
}

// intOf clamps a whole number to a type, or cuts it.
func intOf(v *big.Float, typ string, clamp bool) uint64 {
	size := sizeOfType(typ)
	least, most := new(big.Int), new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), size), big.NewInt(1))
	if typ[0] == 's' {
		most.Rsh(most, 1)
		least.Sub(least.Neg(most), big.NewInt(1))
	}
	if v.IsInf() {
		if v.Sign() > 0 {
			return low(most, size)
		}
		return low(least, size)
	}
	n, _ := v.Int(nil)
	if clamp && n.Cmp(most) > 0 {
		n = most
	}
	if clamp && n.Cmp(least) < 0 {
		n = least
	}
	return low(n, size)
}

// cvtNaN is what NaN becomes on an H200: 0 among whole numbers, but 2^(n-1) where they have 64 bits or the source is an
// f64.
func cvtNaN(to, from string, m modifiers) uint64 {
	if f, ok := floatFormats[to]; ok {
		return f.finish(f.nan(), m)
	}
	if n := sizeOfType(to); n == 64 || from == "f64" {
		return 1 << (n - 1)
	}
	return 0
}

// cvtCase is a conversion; results in registers that are wider than the type carry the sign on.
func cvtCase(to, from string, m modifiers) rowCase {
	dst := bitsType(to)
	if dst == "b8" {
		dst = "b32"
	}
	src := from
	if src == "u8" || src == "s8" {
		src = "b16"
	}
	want := cvtWant(to, from, m)
	f := func(x []uint64) uint64 {
		v := want([]uint64{cut(x[0], from)})
		if to == "s8" {
			v = uint64(uint32(int32(int8(v))))
		}
		return v
	}
	c := rowCase{text: m.name("cvt", to+"."+from) + " $d, $a;", dst: dst, src: []string{src}, want: f}
	if format, ok := floatFormats[to]; ok && !m.has("sat") {
		c.want, c.near = nil, func(x []uint64, got uint64) bool {
			want := f(x)
			return got == want || format.isNaN(want) && format.isNaN(got)
		}
	}
	return c
}

func cvtCases() []rowCase {
	var list []rowCase
	add := func(to, from []string, mods []modifiers) {
		for _, d := range to {
			for _, s := range from {
				for _, m := range mods {
					list = append(list, cvtCase(d, s, m))
				}
			}
		}
	}
	ints := []string{"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"}
	rndi := []string{"rni", "rzi", "rmi", "rpi"}
	none := []string{""}
	add(ints, ints, subsets(none, "sat"))
	add(ints, []string{"f32"}, subsets(rndi, "ftz", "sat"))
	add(ints, []string{"f16", "bf16", "f64"}, subsets(rndi, "sat"))
	add([]string{"f16", "bf16", "f32", "f64"}, ints, subsets(roundingNames, "sat"))
	add([]string{"f32"}, []string{"f32"}, subsets(append(none, rndi...), "ftz", "sat"))
	add([]string{"f64"}, []string{"f64"}, subsets(append(none, rndi...), "sat"))
	add([]string{"f16"}, []string{"f16"}, subsets(append(none, rndi...), "sat"))
	add([]string{"bf16"}, []string{"bf16"}, subsets(append(none, rndi...)))
	add([]string{"f32"}, []string{"f16"}, subsets(none, "ftz", "sat"))
	add([]string{"f64"}, []string{"f32"}, subsets(none, "ftz", "sat"))
	add([]string{"f64"}, []string{"f16"}, subsets(none, "sat"))
	add([]string{"f32"}, []string{"bf16"}, subsets(append(none, roundingNames...), "ftz"))
	add([]string{"f64"}, []string{"bf16"}, subsets(append(none, roundingNames...)))
	add([]string{"f32"}, []string{"f64"}, subsets(roundingNames, "ftz", "sat"))
	add([]string{"f16"}, []string{"f32"}, subsets(roundingNames, "ftz", "sat"))
	add([]string{"f16"}, []string{"f64"}, subsets(roundingNames, "sat"))
	add([]string{"f16", "bf16"}, []string{"f32"}, subsets([]string{"rn", "rz"}, "relu", "satfinite"))
	add([]string{"bf16"}, []string{"f32"}, subsets(roundingNames, "ftz"))
	add([]string{"bf16"}, []string{"f64"}, subsets(roundingNames))
	add([]string{"bf16"}, []string{"f16"}, subsets(append(none, roundingNames...)))
	add([]string{"f16"}, []string{"bf16"}, subsets(append(none, roundingNames...)))
	return append(list, packedCases()...)
}

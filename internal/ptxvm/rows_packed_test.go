package ptxvm

import (
	"fmt"
	"math"
)

// This file implements cases of conversions of several numbers, of narrow formats, and of moves.

func packedCases() []rowCase {
	var list []rowCase
	for _, elem := range []string{"f16", "bf16"} {
		f := floatFormats[elem]
		mods := append(subsets([]string{"rn", "rz"}, "relu", "satfinite"), "rn.satfinite.relu", "rz.satfinite.relu")
		for _, m := range mods {
			one := cvtWant(elem, "f32", m)
			want := func(x []uint64) uint64 { return one(x[:1])<<16 | one(x[1:]) }
			list = append(list, rowCase{text: m.name("cvt", elem+"x2.f32") + " $d, $a, $b;", dst: "b32", src: times(2, "f32"),
				near: func(x []uint64, got uint64) bool {
					w := want(x)
					same := func(a, b uint64) bool { return a == b || f.isNaN(a) && f.isNaN(b) }
					return same(w&0xffff, got&0xffff) && same(w>>16, got>>16)
				}})
		}
	}
	tf32 := floatFormats["tf32"]
	mods := append(subsets([]string{"rn", "rz"}, "satfinite", "relu"), subsets([]string{"rna"}, "satfinite")...)
	for _, m := range mods {
		one := func(x uint64) uint64 {
			f := floatFormats["f32"]
			switch {
			case f.isInf(x):
				return tf32.finish(x>>13, m)
			case x&^f.sign() == 0:
				return tf32.finish(x>>13, m)
			}
			return tf32.finish(tf32.round(f.value(x), false, m.rounding()), m)
		}
		list = append(list, rowCase{text: m.name("cvt", "tf32.f32") + " $d, $a;", dst: "b32", src: times(1, "f32"),
			near: func(x []uint64, got uint64) bool {
				if floatFormats["f32"].isNaN(x[0]) { // .rna cuts the payload, so that an infinity may be left, or less
					return tf32.isNaN(got>>13) || m.rounding() == "rna" && x[0]&^(1<<13-1)-got <= 1<<13
				}
				return got == one(x[0])<<13
			}})
	}
	list = append(list, fp8Cases()...)
	for _, size := range []uint{2, 4, 8, 16} {
		for _, sign := range []string{"u", "s"} {
			typ := fmt.Sprintf("%s%d", sign, size)
			clamp := func(v uint64) uint64 {
				low, high := int64(0), int64(1)<<size-1
				if sign == "s" {
					low, high = -1<<(size-1), 1<<(size-1)-1
				}
				return uint64(min(max(int64(int32(v)), low), high)) & (1<<size - 1)
			}
			both := func(x []uint64) uint64 { return clamp(x[0])<<size | clamp(x[1]) }
			if size == 16 {
				list = append(list, rowCase{text: "cvt.pack.sat." + typ + ".s32 $d, $a, $b;", dst: "b32", src: times(2, "s32"),
					want: both})
				continue
			}
			list = append(list, rowCase{text: "cvt.pack.sat." + typ + ".s32.b32 $d, $a, $b, $c;", dst: "b32",
				src: times(3, "s32"), want: func(x []uint64) uint64 { return uint64(uint32(both(x) | x[2]<<(2*size))) }})
		}
	}
	return append(list, moveCases()...)
}

// fp8 are all values of a format of 8 bits, by definition: bits of significand and bias.
func fp8(typ string) (values [128]float64) {
	man, bias := 3, 7
	if typ == "e5m2" {
		man, bias = 2, 15
	}
	for i := range values {
		field, n := i>>man, i&(1<<man-1)
		values[i] = math.Ldexp(float64(n), 1-bias-man)
		if field > 0 {
			values[i] = math.Ldexp(float64(n|1<<man), field-bias-man)
		}
	}
	if typ == "e4m3" {
		values[127] = math.NaN()
	} else {
		values[124], values[125], values[126], values[127] = math.Inf(1), math.NaN(), math.NaN(), math.NaN()
	}
	return values
}

// toFP8 is the nearest finite value, the even one of two; NaN is 0x7f.
func toFP8(typ string, x float64, relu bool) uint64 {
	values := fp8(typ)
	switch {
	case x != x:
		return 0x7f
	case math.Signbit(x) && relu:
		return 0
	}
	best, size := 0, min(math.Abs(x), 1<<20) // beyond all values of both formats
	for i, v := range values {
		if v != v || math.IsInf(v, 0) {
			break
		}
		if d, e := math.Abs(size-v), math.Abs(size-values[best]); d < e || d == e && i&1 == 0 {
			best = i
		}
	}
	if math.Signbit(x) {
		best |= 0x80
	}
	return uint64(best)
}

func fp8Cases() []rowCase {
	var list []rowCase
	for _, typ := range []string{"e4m3", "e5m2"} {
		values := fp8(typ)
		for _, relu := range []bool{false, true} {
			m := modifiers("rn.satfinite")
			back := modifiers("rn")
			if relu {
				m, back = "rn.satfinite.relu", "rn.relu"
			}
			single := func(v uint64) uint64 { return toFP8(typ, floatFormats["f32"].number(v), relu) }
			half := func(v uint64) uint64 { return toFP8(typ, floatFormats["f16"].number(v), relu) }
			list = append(list, rowCase{text: m.name("cvt", typ+"x2.f32") + " $d, $a, $b;", dst: "b16", src: times(2, "f32"),
				want: func(x []uint64) uint64 { return single(x[0])<<8 | single(x[1]) }},
				rowCase{text: m.name("cvt", typ+"x2.f16x2") + " $d, $a;", dst: "b16", src: times(1, "f16x2"),
					want: func(x []uint64) uint64 { return half(x[0]>>16)<<8 | half(x[0]&0xffff) }})
			one := func(v uint64) uint64 {
				n := values[v&127]
				switch {
				case n != n:
					return 0x7fff
				case relu && v >= 128:
					return 0
				}
				bits := uint64(0)
				if math.IsInf(n, 0) {
					bits = 0x7c00
				} else if n > 0 {
					bits = uint64(math.Float64bits(n)>>42) - (1023-15)<<10
					if n < 0x1p-14 {
						bits = uint64(n * 0x1p24)
					}
				}
				return bits | v>>7<<15
			}
			list = append(list, rowCase{text: back.name("cvt", "f16x2."+typ+"x2") + " $d, $a;", dst: "b32", src: times(1, "b16"),
				want: func(x []uint64) uint64 { return one(x[0]>>8)<<16 | one(x[0]&0xff) }})
		}
	}
	return list
}

func moveCases() []rowCase {
	var list []rowCase
	for _, typ := range []string{"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64", "pred"} {
		list = append(list, rowCase{text: "mov." + typ + " $d, $a;", dst: bitsType(typ), src: times(1, typ),
			want: func(x []uint64) uint64 { return x[0] }})
	}
	list = append(list,
		rowCase{text: "mov.b32 $d, {$a, $b};", dst: "b32", src: times(2, "b16"),
			want: func(x []uint64) uint64 { return x[1]<<16 + x[0] }},
		rowCase{text: "mov.b64 $d, {$a, $b};", dst: "b64", src: times(2, "b32"),
			want: func(x []uint64) uint64 { return x[1]<<32 + x[0] }},
		rowCase{text: "mov.b64 $d, {$a, $b, $c, $e};", dst: "b64", src: times(4, "b16"),
			want: func(x []uint64) uint64 { return x[3]<<48 + x[2]<<32 + x[1]<<16 + x[0] }},
		rowCase{text: "mov.b32 {$t16_0, $d}, $a;", dst: "b16", src: times(1, "b32"),
			want: func(x []uint64) uint64 { return x[0] >> 16 }},
		rowCase{text: "mov.b32 {$d, _}, $a;", dst: "b16", src: times(1, "b32"),
			want: func(x []uint64) uint64 { return x[0] & 0xffff }},
		rowCase{text: "mov.b64 {$t32_0, $d}, $a;", dst: "b32", src: times(1, "b64"),
			want: func(x []uint64) uint64 { return x[0] >> 32 }},
		rowCase{text: "mov.b64 {$t16_0, $t16_1, $d, $t16_2}, $a;", dst: "b16", src: times(1, "b64"),
			want: func(x []uint64) uint64 { return x[0] >> 32 & 0xffff }})
	for _, space := range []string{"global", "shared", "shared::cta", "local", "const", "param"} {
		list = append(list, rowCase{text: fmt.Sprintf("cvta.%s.u64 $t64_0, $a; cvta.to.%s.u64 $d, $t64_0;", space, space),
			dst: "b64", src: times(1, "u64"), want: func(x []uint64) uint64 { return x[0] }})
	}
	return list
}

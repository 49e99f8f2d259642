package ptxvm

import (
	"fmt"
	"math/big"
)

// This file implements cases of rows on bits and of comparisons.

// eachBit makes a word bit by bit.
func eachBit(size uint, f func(i uint) uint64) (v uint64) {
	for i := range size {
		v |= f(i) & 1 << i
	}
	return v
}

func bitCases() []rowCase {
	var list []rowCase
	logic := map[string]func(a, b uint64) uint64{"and": func(a, b uint64) uint64 { return a * b },
		"or": func(a, b uint64) uint64 { return max(a, b) }, "xor": func(a, b uint64) uint64 { return a + b }}
	for _, typ := range append([]string{"pred"}, allBits...) {
		size := uint(1)
		if typ != "pred" {
			size = sizeOfType(typ)
		}
		for _, op := range []string{"and", "or", "xor"} {
			f := logic[op]
			list = append(list, rowCase{text: fmt.Sprintf("%s.%s $d, $a, $b;", op, typ), dst: typ, src: times(2, typ),
				want: func(x []uint64) uint64 {
					return eachBit(size, func(i uint) uint64 { return f(x[0]>>i&1, x[1]>>i&1) })
				}})
		}
		list = append(list, rowCase{text: "not." + typ + " $d, $a;", dst: typ, src: times(1, typ),
			want: func(x []uint64) uint64 { return eachBit(size, func(i uint) uint64 { return 1 - x[0]>>i&1 }) }})
		if typ == "pred" {
			continue
		}
		list = append(list, rowCase{text: "cnot." + typ + " $d, $a;", dst: typ, src: times(1, typ),
			want: func(x []uint64) uint64 { return map[bool]uint64{true: 1}[x[0] == 0] }},
			rowCase{text: "shl." + typ + " $d, $a, $b;", dst: typ, src: []string{typ, "u32"},
				want: func(x []uint64) uint64 {
					return low(new(big.Int).Lsh(num(x[0], typ), uint(min(x[1], 64))), size)
				}})
	}
	for _, typ := range append(append([]string{}, allBits...), allInts...) {
		list = append(list, rowCase{text: "shr." + typ + " $d, $a, $b;", dst: bitsType(typ), src: []string{typ, "u32"},
			want: func(x []uint64) uint64 {
				return low(new(big.Int).Rsh(num(x[0], typ), uint(min(x[1], 64))), sizeOfType(typ))
			}})
	}
	for _, lut := range []uint64{0, 0xff, 0x80, 0x96, 0xe8, 0x3f, 0xca, 0x1b} {
		f := func(x []uint64) uint64 {
			return eachBit(32, func(i uint) uint64 { return lut >> (x[0]>>i&1*4 + x[1]>>i&1*2 + x[2]>>i&1) })
		}
		list = append(list, rowCase{text: fmt.Sprintf("lop3.b32 $d, $a, $b, $c, %#x;", lut), dst: "b32", src: times(3, "b32"),
			want: f},
			rowCase{text: fmt.Sprintf("lop3.or.b32 _|$d, $a, $b, $c, %#x, $e;", lut), dst: "pred",
				src: []string{"b32", "b32", "b32", "pred"}, want: func(x []uint64) uint64 { return max(x[3], min(f(x), 1)) }},
			rowCase{text: fmt.Sprintf("lop3.and.b32 $t32_0|$d, $a, $b, $c, %#x, !$e;", lut), dst: "pred",
				src: []string{"b32", "b32", "b32", "pred"}, want: func(x []uint64) uint64 { return (1 - x[3]) * min(f(x), 1) }},
			rowCase{text: fmt.Sprintf("lop3.and.b32 $d|_, $a, $b, $c, %#x, $e;", lut), dst: "b32",
				src: []string{"b32", "b32", "b32", "pred"}, want: f})
	}
	for _, mode := range []string{"wrap", "clamp"} {
		amount := func(n uint64) uint {
			if mode == "wrap" {
				return uint(n % 32)
			}
			return uint(min(n, 32))
		}
		both := func(x []uint64) *big.Int {
			return new(big.Int).Add(big.NewInt(int64(x[0])), new(big.Int).Lsh(num(x[1], "b32"), 32))
		}
		list = append(list, rowCase{text: "shf.l." + mode + ".b32 $d, $a, $b, $c;", dst: "b32", src: times(3, "b32"),
			want: func(x []uint64) uint64 {
				n := new(big.Int).Lsh(both(x), amount(x[2]))
				return low(n.Rsh(n, 32), 32)
			}},
			rowCase{text: "shf.r." + mode + ".b32 $d, $a, $b, $c;", dst: "b32", src: times(3, "b32"),
				want: func(x []uint64) uint64 { return low(new(big.Int).Rsh(both(x), amount(x[2])), 32) }})
	}
	return list
}

// bfeWant follows the definition of PTX ISA 9.7.1.18 bit by bit.
func bfeWant(typ string) func(x []uint64) uint64 {
	size := uint64(sizeOfType(typ))
	return func(x []uint64) uint64 {
		pos, n := x[1]&255, x[2]&255
		var sign uint64
		if typ[0] == 's' && n != 0 {
			sign = x[0] >> min(pos+n-1, size-1)
		}
		return eachBit(uint(size), func(i uint) uint64 {
			if uint64(i) < n && pos+uint64(i) < size {
				return x[0] >> (pos + uint64(i))
			}
			return sign
		})
	}
}

// bfindWant counts down.
func bfindWant(typ string, amount bool) func(x []uint64) uint64 {
	size := int(sizeOfType(typ))
	return func(x []uint64) uint64 {
		for i := size - 1; i >= 0; i-- {
			sign := uint64(0)
			if typ[0] == 's' {
				sign = x[0] >> (size - 1) & 1
			}
			if x[0]>>i&1 != sign {
				if amount {
					return uint64(size - 1 - i)
				}
				return uint64(i)
			}
		}
		return 0xffffffff
	}
}

// small makes two operands less than 256, beyond which PTX does not define fields of bits.
func small(x, y string) string {
	return fmt.Sprintf("and.b32 %s, %s, 255; and.b32 %s, %s, 255; ", x, x, y, y)
}

func fieldCases() []rowCase {
	var list []rowCase
	for _, typ := range []string{"b32", "b64"} {
		size := sizeOfType(typ)
		list = append(list,
			rowCase{text: "popc." + typ + " $d, $a;", dst: "b32", src: times(1, typ), want: func(x []uint64) (n uint64) {
				for i := range size {
					n += x[0] >> i & 1
				}
				return n
			}},
			rowCase{text: "clz." + typ + " $d, $a;", dst: "b32", src: times(1, typ), want: func(x []uint64) (n uint64) {
				for n < uint64(size) && x[0]>>(uint64(size)-1-n)&1 == 0 {
					n++
				}
				return n
			}},
			rowCase{text: "brev." + typ + " $d, $a;", dst: typ, src: times(1, typ), want: func(x []uint64) uint64 {
				return eachBit(size, func(i uint) uint64 { return x[0] >> (size - 1 - i) })
			}},
			rowCase{text: small("$c", "$e") + "bfi." + typ + " $d, $a, $b, $c, $e;", dst: typ,
				src: []string{typ, typ, "u32", "u32"},
				want: func(x []uint64) uint64 {
					pos, n := uint(x[2]&255), uint(x[3]&255)
					return eachBit(size, func(i uint) uint64 {
						if i >= pos && i < pos+n {
							return x[0] >> (i - pos)
						}
						return x[1] >> i
					})
				}})
	}
	for _, typ := range []string{"u32", "s32", "u64", "s64"} {
		list = append(list, rowCase{text: small("$b", "$c") + "bfe." + typ + " $d, $a, $b, $c;", dst: bitsType(typ),
			src: []string{typ, "u32", "u32"}, want: bfeWant(typ)},
			rowCase{text: "bfind." + typ + " $d, $a;", dst: "b32", src: times(1, typ), want: bfindWant(typ, false)},
			rowCase{text: "bfind.shiftamt." + typ + " $d, $a;", dst: "b32", src: times(1, typ), want: bfindWant(typ, true)})
	}
	list = append(list, rowCase{text: "and.b32 $b, $b, 31; max.s32 $c, $c, -1000; fns.b32 $d, $a, $b, $c;",
		dst: "b32", src: times(3, "s32"), want: fnsWant})
	for _, mode := range []string{"wrap", "clamp"} {
		limit := func(n uint64) uint64 {
			if mode == "wrap" {
				return n % 32
			}
			return min(n, 32)
		}
		list = append(list, rowCase{text: "bmsk." + mode + ".b32 $d, $a, $b;", dst: "b32", src: times(2, "b32"),
			want: func(x []uint64) uint64 {
				from, n := limit(x[0]), limit(x[1])
				return eachBit(32, func(i uint) uint64 { return map[bool]uint64{true: 1}[uint64(i) >= from && uint64(i) < from+n] })
			}})
		for _, typ := range []string{"u32", "s32"} {
			list = append(list, rowCase{text: "szext." + mode + "." + typ + " $d, $a, $b;", dst: "b32", src: times(2, "b32"),
				want: func(x []uint64) uint64 {
					n := limit(x[1])
					return eachBit(32, func(i uint) uint64 {
						switch {
						case uint64(i) < n:
							return x[0] >> i
						case typ == "s32" && n > 0:
							return x[0] >> (n - 1)
						}
						return 0
					})
				}})
		}
	}
	return append(list, permuteCases()...)
}

func fnsWant(x []uint64) uint64 {
	var set []uint64 // bits from the base on, in order
	base, n := x[1]&31, int32(x[2])
	for i := range uint64(32) {
		at := base + i
		if n < 0 {
			at = base - i
		}
		if at < 32 && x[0]>>at&1 != 0 {
			set = append(set, at)
		}
	}
	distance := int64(n)
	if distance < 0 {
		distance = -distance
	}
	if n == 0 {
		if len(set) > 0 && set[0] == base {
			return base
		}
		return 0xffffffff
	}
	if distance > int64(len(set)) {
		return 0xffffffff
	}
	return set[distance-1]
}

// permuteCases have the tables of PTX ISA 9.7.9.7: for each mode and selector the bytes, the highest first.
func permuteCases() []rowCase {
	tables := map[string][4]string{"f4e": {"3210", "4321", "5432", "6543"}, "b4e": {"5670", "6701", "7012", "0123"},
		"rc8": {"0000", "1111", "2222", "3333"}, "ecl": {"3210", "3211", "3222", "3333"},
		"ecr": {"0000", "1110", "2210", "3210"}, "rc16": {"1010", "3232", "1010", "3232"}}
	take := func(x []uint64, n uint64) uint64 { return (x[1]<<32 | x[0]) >> (8 * n) & 255 }
	index := func(x []uint64) (d uint64) {
		for i := range 4 {
			s := x[2] >> (4 * i) & 15
			v := take(x, s%8)
			if s >= 8 && v >= 128 {
				v = 255
			} else if s >= 8 {
				v = 0
			}
			d += v << (8 * i)
		}
		return d
	}
	list := []rowCase{{text: "prmt.b32 $d, $a, $b, $c;", dst: "b32", src: times(3, "b32"), want: index}}
	for mode, table := range tables {
		list = append(list, rowCase{text: "prmt.b32." + mode + " $d, $a, $b, $c;", dst: "b32", src: times(3, "b32"),
			want: func(x []uint64) (d uint64) {
				for _, digit := range table[x[2]%4] {
					d = d<<8 + take(x, uint64(digit-'0'))
				}
				return d
			}})
	}
	return list
}

// compares are the comparisons of numbers whose order is known: -1, 0, 1, and 2 where one of them is NaN.
var compares = map[string]func(order int) bool{
	"eq": func(o int) bool { return o == 0 }, "ne": func(o int) bool { return o == -1 || o == 1 },
	"lt": func(o int) bool { return o == -1 }, "le": func(o int) bool { return o == -1 || o == 0 },
	"gt": func(o int) bool { return o == 1 }, "ge": func(o int) bool { return o == 1 || o == 0 },
	"lo": func(o int) bool { return o == -1 }, "ls": func(o int) bool { return o == -1 || o == 0 },
	"hi": func(o int) bool { return o == 1 }, "hs": func(o int) bool { return o == 1 || o == 0 },
	"equ": func(o int) bool { return o == 0 || o == 2 }, "neu": func(o int) bool { return o != 0 },
	"ltu": func(o int) bool { return o == -1 || o == 2 }, "leu": func(o int) bool { return o != 1 },
	"gtu": func(o int) bool { return o >= 1 }, "geu": func(o int) bool { return o >= 0 },
	"num": func(o int) bool { return o != 2 }, "nan": func(o int) bool { return o == 2 },
}

// joins are the boolean operators.
var joins = map[string]func(p, q bool) bool{
	"and": func(p, q bool) bool { return p && q }, "or": func(p, q bool) bool { return p || q },
	"xor": func(p, q bool) bool { return p != q },
}

// setpCases are all comparisons of a type, with and without a boolean operator. order compares two values.
func setpCases(typ, mods string, cmps []string, order func(a, b uint64) int) []rowCase {
	var list []rowCase
	for _, cmp := range cmps {
		f := compares[cmp]
		list = append(list, rowCase{text: fmt.Sprintf("setp.%s%s.%s $d, $a, $b;", cmp, mods, typ), dst: "pred",
			src: times(2, typ), want: func(x []uint64) uint64 { return truth(f(order(x[0], x[1]))) }},
			rowCase{text: fmt.Sprintf("setp.%s%s.%s $d|$q, $a, $b;", cmp, mods, typ), dst: "pair", src: times(2, typ),
				want: func(x []uint64) uint64 { return 2 - truth(f(order(x[0], x[1]))) }})
	}
	for i, op := range []string{"and", "or", "xor"} {
		cmp := cmps[i%len(cmps)]
		f, join := compares[cmp], joins[op]
		src := append(times(2, typ), "pred")
		list = append(list, rowCase{text: fmt.Sprintf("setp.%s.%s%s.%s $d|$q, $a, $b, $c;", cmp, op, mods, typ), dst: "pair",
			src: src, want: func(x []uint64) uint64 {
				yes := f(order(x[0], x[1]))
				return truth(join(yes, x[2] != 0)) + 2*truth(join(!yes, x[2] != 0))
			}}, rowCase{text: fmt.Sprintf("setp.%s.%s%s.%s $d, $a, $b, !$c;", cmp, op, mods, typ), dst: "pred", src: src,
			want: func(x []uint64) uint64 { return truth(join(f(order(x[0], x[1])), x[2] == 0)) }})
	}
	return list
}

// setCases are comparisons with a number as result.
func setCases(typ, mods, result string, yes uint64, cmps []string, order func(a, b uint64) int) []rowCase {
	var list []rowCase
	for i, cmp := range cmps {
		f, op := compares[cmp], []string{"and", "or", "xor"}[i%3]
		join := joins[op]
		list = append(list, rowCase{text: fmt.Sprintf("set.%s%s.%s.%s $d, $a, $b;", cmp, mods, result, typ),
			dst: bitsType(result), src: times(2, typ), want: func(x []uint64) uint64 {
				return yes * truth(f(order(x[0], x[1])))
			}}, rowCase{text: fmt.Sprintf("set.%s.%s%s.%s.%s $d, $a, $b, !$c;", cmp, op, mods, result, typ),
			dst: bitsType(result), src: append(times(2, typ), "pred"), want: func(x []uint64) uint64 {
				return yes * truth(join(f(order(x[0], x[1])), x[2] == 0))
			}})
	}
	return list
}

func compareCases() []rowCase {
	var list []rowCase
	for _, typ := range append(append([]string{}, allBits...), allInts...) {
		cmps := []string{"eq", "ne"}
		if typ[0] != 'b' {
			cmps = append(cmps, "lt", "le", "gt", "ge")
		}
		if typ[0] == 'u' {
			cmps = append(cmps, "lo", "ls", "hi", "hs")
		}
		order := func(a, b uint64) int { return num(a, typ).Cmp(num(b, typ)) }
		list = append(list, setpCases(typ, "", cmps, order)...)
		list = append(list, setCases(typ, "", "u32", 1<<32-1, cmps, order)...)
		few := cmps[:min(3, len(cmps))]
		list = append(list, setCases(typ, "", "s32", 1<<32-1, few, order)...)
		list = append(list, setCases(typ, "", "f32", 0x3f800000, few, order)...)
		list = append(list, setCases(typ, "", "f16", 0x3c00, few, order)...)
		list = append(list, setCases(typ, "", "bf16", 0x3f80, few, order)...)
	}
	for _, typ := range []string{"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"} {
		list = append(list, rowCase{text: "selp." + typ + " $d, $a, $b, $c;", dst: bitsType(typ),
			src: []string{typ, typ, "pred"}, want: func(x []uint64) uint64 { return x[1-x[2]] }},
			rowCase{text: "slct." + typ + ".s32 $d, $a, $b, $c;", dst: bitsType(typ), src: []string{typ, typ, "s32"},
				want: func(x []uint64) uint64 { return x[x[2]>>31] }})
	}
	return list
}

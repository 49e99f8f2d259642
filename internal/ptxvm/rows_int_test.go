package ptxvm

import (
	"fmt"
	"math/big"
	"strings"
)

// This file implements cases of rows on whole numbers and bits: results by big numbers and bit by bit.

var (
	allInts = []string{"u16", "s16", "u32", "s32", "u64", "s64"}
	allBits = []string{"b16", "b32", "b64"}
)

// sizeOfType is the number of bits, for pairs that of one element.
func sizeOfType(typ string) uint {
	if strings.HasSuffix(typ, "x2") {
		return 16
	}
	return uint(8 * typeBytes(typ))
}

// num is the value of bits of a type.
func num(v uint64, typ string) *big.Int { return numOf(v, sizeOfType(typ), typ[0] == 's') }

func numOf(v uint64, size uint, sign bool) *big.Int {
	n := new(big.Int).SetUint64(v)
	n.And(n, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), size), big.NewInt(1)))
	if sign && n.Bit(int(size)-1) == 1 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), size))
	}
	return n
}

// low are the lowest bits of a number.
func low(n *big.Int, size uint) uint64 {
	m := new(big.Int).Lsh(big.NewInt(1), size)
	return new(big.Int).Mod(n, m).Uint64()
}

// clampTo is the nearest signed number of some bits.
func clampTo(n *big.Int, size uint) *big.Int {
	most := new(big.Int).Lsh(big.NewInt(1), size-1)
	if n.Cmp(most) >= 0 {
		return most.Sub(most, big.NewInt(1))
	}
	if least := new(big.Int).Neg(most); n.Cmp(least) < 0 {
		return least
	}
	return n
}

func times(n int, typ string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = typ
	}
	return list
}

// simple makes a case whose operands and result have one type.
func simple(name, typ string, operands int, f func(n []*big.Int) *big.Int) rowCase {
	return rowCase{text: name + "." + typ + " $d" + ", $a, $b, $c"[:4*operands] + ";", dst: bitsType(typ),
		src: times(operands, typ), want: func(x []uint64) uint64 {
			n := make([]*big.Int, operands)
			for i := range n {
				n[i] = num(x[i], typ)
			}
			return low(f(n), sizeOfType(typ))
		}}
}

// halves makes a function of pairs from one of 16 bits.
func halves(f func(x []uint64) uint64) func(x []uint64) uint64 {
	return func(x []uint64) uint64 {
		lo, hi := make([]uint64, len(x)), make([]uint64, len(x))
		for i, v := range x {
			lo[i], hi[i] = v&0xffff, v>>16
		}
		return f(hi)<<16 | f(lo)
	}
}

func rowCases() []rowCase {
	var list []rowCase
	for _, f := range []func() []rowCase{intCases, productCases, carryCases, bitCases, fieldCases, compareCases,
		floatCases, approxCases, cvtCases, videoCases} {
		list = append(list, f()...)
	}
	n := len(list)
	for _, f := range []func() []rowCase{memoryCases, warpCases, controlCases} {
		list = append(list, f()...)
	}
	for i := range list[n:] {
		list[n+i].most = movedInputs
	}
	share(list)
	return list
}

// movedInputs is enough for rows that move values and compute none that is not computed elsewhere.
const movedInputs = 20_000

// quotient and remainder are all ones for a division by zero, as an H200 has it.
func quotient(n []*big.Int) *big.Int {
	if n[1].Sign() == 0 {
		return big.NewInt(-1)
	}
	return new(big.Int).Quo(n[0], n[1])
}

func remainder(n []*big.Int) *big.Int {
	if n[1].Sign() == 0 {
		return big.NewInt(-1)
	}
	return new(big.Int).Rem(n[0], n[1])
}

func least(n []*big.Int) *big.Int {
	if n[0].Cmp(n[1]) < 0 {
		return n[0]
	}
	return n[1]
}

func most(n []*big.Int) *big.Int {
	if n[0].Cmp(n[1]) > 0 {
		return n[0]
	}
	return n[1]
}

func positive(f func(n []*big.Int) *big.Int) func(n []*big.Int) *big.Int {
	return func(n []*big.Int) *big.Int {
		if r := f(n); r.Sign() > 0 {
			return r
		}
		return new(big.Int)
	}
}

func intCases() []rowCase {
	var list []rowCase
	add := func(n []*big.Int) *big.Int { return new(big.Int).Add(n[0], n[1]) }
	sub := func(n []*big.Int) *big.Int { return new(big.Int).Sub(n[0], n[1]) }
	for _, typ := range allInts {
		list = append(list, simple("add", typ, 2, add), simple("sub", typ, 2, sub),
			simple("min", typ, 2, least), simple("max", typ, 2, most),
			simple("div", typ, 2, quotient),
			simple("rem", typ, 2, remainder),
			simple("sad", typ, 3, func(n []*big.Int) *big.Int {
				d := new(big.Int).Sub(n[0], n[1])
				return d.Add(d.Abs(d), n[2])
			}))
		if typ[0] == 's' {
			list = append(list, simple("abs", typ, 1, func(n []*big.Int) *big.Int { return new(big.Int).Abs(n[0]) }),
				simple("neg", typ, 1, func(n []*big.Int) *big.Int { return new(big.Int).Neg(n[0]) }))
		}
	}
	list = append(list,
		simple("add.sat", "s32", 2, func(n []*big.Int) *big.Int { return clampTo(add(n), 32) }),
		simple("sub.sat", "s32", 2, func(n []*big.Int) *big.Int { return clampTo(sub(n), 32) }),
		simple("min.relu", "s32", 2, positive(least)), simple("max.relu", "s32", 2, positive(most)))
	for _, op := range []string{"min", "max"} {
		c := simple(op+".relu", "s32", 2, positive(map[string]func([]*big.Int) *big.Int{"min": least, "max": most}[op]))
		c.text = op + ".s32.relu $d, $a, $b;"
		list = append(list, c)
	}
	pair := func(name, typ string, f func(n []*big.Int) *big.Int) {
		c := simple(name, typ, 2, f)
		c.src, c.want = times(2, "b32"), halves(c.want)
		list = append(list, c)
	}
	for _, typ := range []string{"u16x2", "s16x2"} {
		pair("add", typ, add)
		pair("min", typ, least)
		pair("max", typ, most)
	}
	pair("min.relu", "s16x2", positive(least))
	pair("max.relu", "s16x2", positive(most))
	return list
}

func productCases() []rowCase {
	var list []rowCase
	mul := func(n []*big.Int) *big.Int { return new(big.Int).Mul(n[0], n[1]) }
	for _, typ := range allInts {
		size := sizeOfType(typ)
		high := func(n []*big.Int) *big.Int { return new(big.Int).Rsh(mul(n), size) }
		list = append(list, simple("mul.lo", typ, 2, mul), simple("mul.hi", typ, 2, high),
			simple("mad.lo", typ, 3, func(n []*big.Int) *big.Int { return new(big.Int).Add(mul(n), n[2]) }),
			simple("mad.hi", typ, 3, func(n []*big.Int) *big.Int { return new(big.Int).Add(high(n), n[2]) }))
		if typ == "s32" {
			list = append(list, simple("mad.hi.sat", typ, 3, func(n []*big.Int) *big.Int {
				return clampTo(new(big.Int).Add(high(n), n[2]), 32)
			}))
		}
		if size == 64 {
			continue
		}
		wide := wideOf(typ)
		list = append(list, rowCase{text: "mul.wide." + typ + " $d, $a, $b;", dst: bitsType(wide), src: times(2, typ),
			want: func(x []uint64) uint64 {
				return low(new(big.Int).Mul(num(x[0], typ), num(x[1], typ)), 2*size)
			}}, rowCase{text: "mad.wide." + typ + " $d, $a, $b, $c;", dst: bitsType(wide), src: []string{typ, typ, wide},
			want: func(x []uint64) uint64 {
				p := new(big.Int).Mul(num(x[0], typ), num(x[1], typ))
				return low(p.Add(p, num(x[2], wide)), 2*size)
			}})
	}
	for _, typ := range []string{"u32", "s32"} {
		for _, half := range []string{"lo", "hi"} {
			part := func(x []uint64) *big.Int {
				p := new(big.Int).Mul(numOf(x[0], 24, typ == "s32"), numOf(x[1], 24, typ == "s32"))
				if half == "hi" {
					p.Rsh(p, 16)
				}
				return p
			}
			list = append(list, rowCase{text: fmt.Sprintf("mul24.%s.%s $d, $a, $b;", half, typ), dst: "b32",
				src: times(2, typ), want: func(x []uint64) uint64 { return low(part(x), 32) }},
				rowCase{text: fmt.Sprintf("mad24.%s.%s $d, $a, $b, $c;", half, typ), dst: "b32", src: times(3, typ),
					want: func(x []uint64) uint64 { return low(new(big.Int).Add(part(x), num(x[2], typ)), 32) }})
			if half == "hi" && typ == "s32" {
				list = append(list, rowCase{text: "mad24.hi.sat.s32 $d, $a, $b, $c;", dst: "b32", src: times(3, typ),
					want: func(x []uint64) uint64 {
						p := num(low(part(x), 32), "s32")
						return low(clampTo(p.Add(p, num(x[2], typ)), 32), 32)
					}})
			}
		}
		for _, other := range []string{"u32", "s32"} {
			list = append(list, dotCase("dp4a", typ, other, 4, 8, 0), dotCase("dp2a.lo", typ, other, 2, 16, 0),
				dotCase("dp2a.hi", typ, other, 2, 16, 16))
		}
	}
	return list
}

func dotCase(name, s, t string, n int, size uint, first int) rowCase {
	return rowCase{text: fmt.Sprintf("%s.%s.%s $d, $a, $b, $c;", name, s, t), dst: "b32", src: []string{s, t, "s32"},
		want: func(x []uint64) uint64 {
			sum := num(x[2], "s32")
			for i := range n {
				p := new(big.Int).Mul(numOf(x[0]>>(int(size)*i), size, s == "s32"), numOf(x[1]>>(first+8*i), 8, t == "s32"))
				sum.Add(sum, p)
			}
			return low(sum, 32)
		}}
}

// carryCases compute numbers of twice the size, with a chain of two instructions; a third one shows the flag that they
// leave.
func carryCases() []rowCase {
	var list []rowCase
	for _, typ := range []string{"u32", "s32", "u64", "s64"} {
		size := sizeOfType(typ)
		tmp := fmt.Sprintf("$t%d_", size)
		word := func(x uint64) *big.Int { return numOf(x, size, false) }
		long := func(lo, hi uint64) *big.Int { return new(big.Int).Add(word(lo), new(big.Int).Lsh(word(hi), size)) }
		for _, op := range []string{"add", "sub"} {
			op2 := func(x, y *big.Int) *big.Int {
				if op == "sub" {
					return new(big.Int).Sub(x, y)
				}
				return new(big.Int).Add(x, y)
			}
			high := fmt.Sprintf("%s.cc.%s %s0, $a, $b; %sc.%s $d, $c, $e;", op, typ, tmp, op, typ)
			third := fmt.Sprintf("%s.cc.%s %s0, $a, $b; %sc.cc.%s %s1, $c, $e; %sc.%s $d, 5, 3;", op, typ, tmp, op, typ,
				tmp, op, typ)
			list = append(list, rowCase{text: high, dst: bitsType(typ), src: times(4, typ),
				want: func(x []uint64) uint64 {
					return low(new(big.Int).Rsh(op2(long(x[0], x[2]), long(x[1], x[3])), size), size)
				}}, rowCase{text: third, dst: bitsType(typ), src: times(4, typ), want: func(x []uint64) uint64 {
				r := new(big.Int).Rsh(op2(long(x[0], x[2]), long(x[1], x[3])), 2*size)
				return low(r.Add(r, op2(big.NewInt(5), big.NewInt(3))), size)
			}})
		}
		list = append(list, madCarryCases(typ)...)
	}
	return list
}

func madCarryCases(typ string) []rowCase {
	size := sizeOfType(typ)
	var list []rowCase
	for _, half := range []string{"lo", "hi"} {
		product := func(x, y uint64) *big.Int {
			p := new(big.Int).Mul(num(x, typ), num(y, typ))
			if half == "hi" {
				p.Rsh(p, size)
			}
			return numOf(low(p, size), size, false)
		}
		over := func(x []uint64) *big.Int { // the flag of the first instruction
			s := product(x[0], x[1])
			return new(big.Int).Rsh(s.Add(s, numOf(x[2], size, false)), size)
		}
		again := func(x []uint64) *big.Int {
			s := product(x[1], x[2])
			return s.Add(s.Add(s, numOf(x[3], size, false)), over(x))
		}
		tmp := fmt.Sprintf("$t%d_", size)
		first := fmt.Sprintf("mad.%s.cc.%s %s0, $a, $b, $c; ", half, typ, tmp)
		list = append(list, rowCase{text: first + "addc." + typ + " $d, 0, 0;", dst: bitsType(typ), src: times(3, typ),
			want: func(x []uint64) uint64 { return low(over(x), size) }},
			rowCase{text: first + fmt.Sprintf("madc.%s.%s $d, $b, $c, $e;", half, typ), dst: bitsType(typ),
				src: times(4, typ), want: func(x []uint64) uint64 { return low(again(x), size) }},
			rowCase{text: first + fmt.Sprintf("madc.%s.cc.%s %s1, $b, $c, $e; addc.%s $d, 0, 0;", half, typ, tmp, typ),
				dst: bitsType(typ), src: times(4, typ), want: func(x []uint64) uint64 {
					return low(new(big.Int).Rsh(again(x), size), size)
				}})
	}
	return list
}

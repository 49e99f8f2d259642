package ptxvm

import (
	"fmt"
	"math/big"
)

// videoCases compute the parts of words one by one. All choices of types are in the record of an H200.
func videoCases() []rowCase {
	var list []rowCase
	for i, types := range [][3]string{{"u32", "u32", "u32"}, {"s32", "s32", "s32"}, {"u32", "s32", "u32"}} {
		d, a, b := types[0], types[1], types[2]
		for _, parts := range []int{2, 4}[i/2:] {
			for _, op := range []string{"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"} {
				for _, end := range []string{"", ".sat", ".add"} {
					list = append(list, videoCase(fmt.Sprintf("%s%d.%s.%s.%s%s", op, parts, d, a, b, end), parts, types, end,
						videoReference(op)))
				}
			}
			for _, op := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
				for _, end := range []string{"", ".add"} {
					list = append(list, videoCase(fmt.Sprintf("vset%d.%s.%s.%s%s", parts, a, b, op, end), parts, types, end,
						videoReference(op)))
				}
			}
		}
	}
	return list
}

// videoReference is what an instruction does with two parts.
func videoReference(op string) func(x, y *big.Int) *big.Int {
	return func(x, y *big.Int) *big.Int {
		z := new(big.Int)
		switch op {
		case "vadd":
			return z.Add(x, y)
		case "vsub":
			return z.Sub(x, y)
		case "vabsdiff":
			return z.Abs(z.Sub(x, y))
		case "eq", "ne", "lt", "le", "gt", "ge":
			holds := map[string]bool{"eq": x.Cmp(y) == 0, "ne": x.Cmp(y) != 0, "lt": x.Cmp(y) < 0, "le": x.Cmp(y) <= 0,
				"gt": x.Cmp(y) > 0, "ge": x.Cmp(y) >= 0}
			return z.SetUint64(truth(holds[op]))
		case "vavrg": // towards the next number away from zero
			half := new(big.Rat).SetFrac(z.Add(x, y), big.NewInt(2))
			away := big.NewRat(int64(half.Sign()), 2)
			half.Add(half, away)
			return new(big.Int).Quo(half.Num(), half.Denom())
		}
		if (x.Cmp(y) < 0) == (op == "vmin") {
			return x
		}
		return y
	}
}

func videoCase(name string, parts int, types [3]string, end string, f func(x, y *big.Int) *big.Int) rowCase {
	d, a, b := types[0], types[1], types[2]
	size := uint(32 / parts)
	return rowCase{text: name + " $d, $a, $b, $c;", dst: "b32", src: []string{a, b, "s32"},
		want: func(x []uint64) uint64 {
			sum, packed := num(x[2], "s32"), new(big.Int)
			for i := range parts {
				at := int(size) * i
				v := f(numOf(x[0]>>at, size, a == "s32"), numOf(x[1]>>at, size, b == "s32"))
				if end == ".sat" {
					least, most := new(big.Int), big.NewInt(1<<size-1)
					if d == "s32" {
						least, most = big.NewInt(-1<<(size-1)), big.NewInt(1<<(size-1)-1)
					}
					if v.Cmp(least) < 0 {
						v = least
					} else if v.Cmp(most) > 0 {
						v = most
					}
				}
				sum.Add(sum, v)
				packed.Or(packed, new(big.Int).Lsh(new(big.Int).SetUint64(low(v, size)), uint(at)))
			}
			if end == ".add" {
				return low(sum, 32)
			}
			return low(packed, 32)
		}}
}

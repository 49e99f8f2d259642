package recorded

// This file implements the elements of matrices whose products are recorded.

// Elements are width, exponent and mantissa bits; integers have no exponent.
var Elements = map[string]Class{
	"f16": {0, 16, 5, 10}, "bf16": {0, 16, 8, 7}, "tf32": {0, 32, 8, 23}, "f32": {0, 32, 8, 23}, "e4m3": {0, 8, 4, 3},
	"e5m2": {0, 8, 5, 2}, "f64": {0, 64, 11, 52}, "s8": {0, 8, 0, 8}, "u8": {0, 8, 0, 8}, "s4": {0, 4, 0, 4},
	"u4": {0, 4, 0, 4}, "b1": {0, 1, 0, 1}, "s32": {0, 32, 0, 32},
}

// TileElement is element of instructions.cu: one element of matrix x of a tile, whose seed comes from [TileSeed].
func TileElement(seed, tile uint64, x, i, k int, f Class) uint64 {
	r := Mix(seed + uint64(i)*Step)
	q := Mix(r ^ 0x5851f42d4c957f2d)
	kind := tile & 7
	if f.EBits == 0 {
		top := uint64(1) << (f.MBits - 1)
		switch {
		case kind == 3 && x == 2 && q&1 != 0:
			return top - 1 - r&0xffff
		case kind == 3 && x == 2:
			return top + r&0xffff
		case kind == 3 && q&3 != 0:
			return top - q>>2&1
		case kind == 3:
			return 0
		}
		return r & Low(f.MBits)
	}
	bias, top := 1<<(f.EBits-1)-1, uint64(1)<<f.EBits-1
	wide := bias - 16 + int(q>>8&31)
	if f.EBits < 8 {
		wide = 1 + int(q>>8&255)%int(top-1)
	}
	v := r & Low(1+f.EBits+f.MBits)
	sign := uint64(1) << (f.EBits + f.MBits)
	exponent := func(e int) uint64 { return withExponent(v, e, f.EBits, f.MBits) }
	finite := v
	if v>>f.MBits&top == top {
		finite &^= 1 << f.MBits
	}
	switch kind {
	case 0:
		return exponent(bias + int(q&3) - 2)
	case 1:
		return exponent(wide)
	case 2:
		return finite
	case 3:
		switch {
		case x < 2 && k&1 != 0 && q&3 != 0:
			v = TileElement(seed, tile, x, i-1, k-1, f)
			if x == 1 {
				v ^= sign
			}
			return v
		case x == 2:
			return exponent(bias - int(q>>8&31) + 4)
		}
		return exponent(bias - int(q>>8&7))
	case 4:
		return exponent(int(q>>8&255) % 3)
	case 5:
		if q&63 == 0 {
			return v | top<<f.MBits
		}
		return finite
	case 6:
		if q&1 != 0 {
			return v & sign
		}
		return exponent(wide)
	}
	v &^= Low(f.MBits) >> 2
	return exponent(bias + int(q&3) - 1)
}

// TileSeed is the seed of matrix x of a tile.
func TileSeed(seed, tile uint64, x int) uint64 { return Mix(seed + tile*4 + uint64(x)) }

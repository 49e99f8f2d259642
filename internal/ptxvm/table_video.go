package ptxvm

import "strings"

// This file implements the video instructions of two halves or four bytes (PTX ISA 9.7.17), which the CUDA functions
// for such numbers are made of. All parts are computed: operands with selectors or masks are refused.

var videoRows = []row{
	{syntax: "vadd2|vsub2|vavrg2|vabsdiff2|vmin2|vmax2 $int32 $int32 $int32 [.sat|.add]", build: video},
	{syntax: "vadd4|vsub4|vavrg4|vabsdiff4|vmin4|vmax4 $int32 $int32 $int32 [.sat|.add]", build: video},
	{syntax: "vset2|vset4 $int32 $int32 .eq|.ne|.lt|.le|.gt|.ge [.add]", build: video},
}

// video makes d, a, b, c: with .add the parts are added to c, else c would give the parts that are masked out.
func video(b *builder) {
	b.args(4)
	if b.err != nil {
		return
	}
	op, parts := b.in.Op[:len(b.in.Op)-1], int(b.in.Op[len(b.in.Op)-1]-'0')
	mods := b.in.Mods
	typD, typA, typB := mods[0], mods[1], mods[2]
	if op == "vset" {
		op, typD, typA, typB = mods[2], "u32", mods[0], mods[1]
	}
	f := videoOps[op]
	size := 32 / parts
	low, high := int64(0), int64(1)<<size-1
	if typD == "s32" {
		low, high = -1<<(size-1), 1<<(size-1)-1
	}
	sat, add := b.in.Has("sat"), b.in.Has("add")
	b.ternary("b32", func(x, y, c uint64) uint64 {
		sum, packed := c, uint64(0)
		for i := range parts {
			v := f(part(x, i, size, typA), part(y, i, size, typB))
			if sat {
				v = min(max(v, low), high)
			}
			sum += uint64(v)
			packed |= uint64(v) & (1<<size - 1) << (i * size)
		}
		if add {
			return sum & (1<<32 - 1)
		}
		return packed
	})
}

// part is one of the numbers in a word.
func part(v uint64, i, size int, typ string) int64 {
	n := 64 - size
	v = v >> (i * size) << n
	if strings.HasPrefix(typ, "s") {
		return int64(v) >> n
	}
	return int64(v >> n)
}

var videoOps = map[string]func(a, b int64) int64{
	"vadd": func(a, b int64) int64 { return a + b },
	"vsub": func(a, b int64) int64 { return a - b },
	"vmin": func(a, b int64) int64 { return min(a, b) },
	"vmax": func(a, b int64) int64 { return max(a, b) },
	"vavrg": func(a, b int64) int64 { // halves are rounded away from zero
		if a+b >= 0 {
			return (a + b + 1) >> 1
		}
		return (a + b) >> 1
	},
	"vabsdiff": func(a, b int64) int64 { return max(a-b, b-a) },
	"eq":       func(a, b int64) int64 { return int64(truth(a == b)) },
	"ne":       func(a, b int64) int64 { return int64(truth(a != b)) },
	"lt":       func(a, b int64) int64 { return int64(truth(a < b)) },
	"le":       func(a, b int64) int64 { return int64(truth(a <= b)) },
	"gt":       func(a, b int64) int64 { return int64(truth(a > b)) },
	"ge":       func(a, b int64) int64 { return int64(truth(a >= b)) },
}

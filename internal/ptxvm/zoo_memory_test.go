package ptxvm

import (
	"math"
	"math/bits"
	"slices"
)

// This file implements the launches of the zoo that are about memory, calls, control and reductions.

func memoryZoo() []animal {
	const n = 100
	primes := []int32{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}
	greeting := "a table of \"bytes\"\n\x00"
	x := sequence(n, func(i int) int32 { return int32(i * 7) })
	y := sequence(n, func(i int) int32 {
		low := uint64(0x123456789abcdef)
		return primes[x[i]%12] + int32(greeting[x[i]%19]) - 7 + int32(uint32(low))
	})
	z := sequence(n, func(i int) float64 {
		return []float64{0.5, -1.25, 1e300, math.Copysign(0, -1)}[i&3] + 0 + float64([]float32{1.5, -2.25, 3.0e-8}[i%3]) + 0
	})
	f := mixed(4 * n)
	partial := make([]float32, 4)
	for b := range partial {
		var s [32]float32
		for i := 32 * b; i < 4*n; i += 128 {
			for lane := range 32 {
				if i+lane < 4*n {
					s[lane] += f[i+lane]
				}
			}
		}
		for d := 16; d > 0; d /= 2 {
			old := s
			for lane := range 32 {
				if lane+d < 32 {
					s[lane] += old[lane+d]
				} else {
					s[lane] += old[lane]
				}
			}
		}
		partial[b] = s[0]
	}
	total := float32(0)
	for _, p := range partial {
		total += p
	}
	scoped := sequence(34, func(i int) int32 {
		if i < 2 {
			return 1
		}
		return 43
	})
	zoo := []animal{
		{source: "memory", kernel: "tables", grid: line(2), block: line(64),
			args: []Arg{in(x), room(4 * n), room(8 * n), value(int32(n))}, want: map[int][]byte{1: pack(y...), 2: pack(z...)}},
		{source: "memory", kernel: "last_block", grid: line(4), block: line(32),
			args: []Arg{in(f), room(16), room(4), value(int32(4 * n))},
			want: map[int][]byte{1: pack(partial...), 2: pack(total)}},
		{source: "memory", kernel: "spin_lock", grid: line(3), block: line(128),
			args: []Arg{room(4), room(4)}, want: map[int][]byte{0: pack(int32(0)), 1: pack(int32(12))}},
		{source: "memory", kernel: "scoped", grid: line(1), block: line(32),
			args: []Arg{room(4), room(4), room(4 * 34), room(4), room(16)},
			want: map[int][]byte{0: pack(int32(1)), 1: pack(int32(42)), 2: pack(scoped...), 3: pack(float32(48)),
				4: pack(math.Float64bits(8), uint64(5))}},
		{source: "memory", kernel: "hints", grid: line(2), block: line(64),
			args: []Arg{in(f), room(16 * n), value(int32(n))}, want: map[int][]byte{1: pack(f...)}},
		{source: "memory", kernel: "float_max_cas", grid: line(4), block: line(100),
			args: []Arg{in(f), room(4), value(int32(4 * n))}, want: map[int][]byte{1: pack(slices.Max(f))}},
	}
	for which := range int32(4) {
		// Lanes of one warp add to the same element, and the value that was read first wins: a race.
		v := sequence(32, func(i int) float32 { return float32(i) + 0.5 })
		out := slices.Clone(v)
		for i := range out {
			local := []float32{1, 2, 3, 4}
			from := slices.Clone(v[:4])
			switch which {
			case 2:
				from = local
			case 3:
				from = []float32{0, 0, 0, 0}
			}
			from[which]++
			out[i] = from[i&3] + local[which]
		}
		lanes := animal{source: "memory", kernel: "generic_pointer", grid: line(1), block: line(32),
			args: []Arg{in(v), value(which)}, want: map[int][]byte{0: pack(out...)}}
		if which != 2 { // local memory is nobody else's
			lanes.finding = Race
		}
		zoo = append(zoo, lanes)
	}
	return zoo
}

type pair struct {
	Weight float64
	Count  int32
	Tag    [4]byte
}

func callZoo() []animal {
	const n = 50
	x, y := mixed(n), mixed(2 * n)[n:]
	both := make([]float32, 2*n+1)
	for i := range n {
		v := float32(math.FMA(0.25, float64(y[i]-x[i]), float64(x[i]))) // exact in float64 but for its last step
		both[2*i] = v
		if i&1 == 0 {
			both[2*i+1] = v
		}
	}
	p := sequence(n, func(i int) pair { return pair{float64(i) / 3, int32(i), [4]byte{1, 2, byte(i)}} })
	q := sequence(n, func(i int) pair { return pair{float64(i) * 7, int32(-3 * i), [4]byte{byte(i + 9), 5, 6}} })
	merged := sequence(n, func(i int) pair {
		return pair{p[i].Weight + q[i].Weight, p[i].Count + q[i].Count, [4]byte{1, byte(i + 9), byte(i)}}
	})
	which := sequence(n, func(i int) int32 { return int32(i * 5) })
	chosen := sequence(n, func(i int) float32 { return []float32{x[i] * 2, x[i] * x[i], -x[i]}[which[i]%3] })
	acc := make([]float32, 32)
	code := []byte{0, 3, 0, 2, 4, 5, 7, 1, 8, 9, 0}
	start := sequence(32, func(i int) float32 { return float32(i) / 4 })
	copy(acc, start)
	stored := start[0] // what lane 0 has written when all lanes read it
	for i := range acc {
		a, other := start[i], float32(1)
		a += other
		other = a
		a += other
		a *= other
		a = float32(math.Abs(float64(a)))
		a = float32(math.Sqrt(float64(a)))
		other = other*0.5 + 3
		a -= other
		if i == 0 {
			stored = a
		}
		acc[i] = stored + other
	}
	nan := float32(math.NaN())
	steps := sequence(n, func(i int) int32 {
		v, count := uint32(i+1), int32(0)
		for ; v != 1; count++ {
			if v&1 != 0 {
				v = 3*v + 1
			} else {
				v >>= 1
			}
		}
		return count
	})
	words := sequence(32, func(i int) uint32 { return uint32(i*i*40 + 8) }) // not 0: the kernel would not end
	return []animal{
		{source: "calls", kernel: "call_scalar", grid: line(1), block: line(64),
			args: []Arg{in(x), in(y), room(4 * (2*n + 1)), value(int32(n))}, want: map[int][]byte{2: pack(both...)}},
		{source: "calls", kernel: "call_struct", grid: line(2), block: line(32),
			args: []Arg{in(p), in(q), value(int32(n))}, want: map[int][]byte{1: pack(merged...)},
			canonical: func(b []byte) { // the last byte of a struct belongs to no field
				for i := 15; i < len(b); i += 16 {
					b[i] = 0
				}
			}},
		{source: "calls", kernel: "call_indirect", grid: line(1), block: line(64),
			args: []Arg{in(x), room(4 * n), in(which), value(int32(n))}, want: map[int][]byte{1: pack(chosen...)}},
		{source: "calls", kernel: "interpreter", grid: line(1), block: line(32), finding: Race,
			args: []Arg{in(code), in(start), value(int32(len(code)))}, want: map[int][]byte{1: pack(acc...)}},
		{source: "control", kernel: "collatz", grid: line(2), block: line(32),
			args: []Arg{in(sequence(n, func(i int) uint32 { return uint32(i + 1) })), room(4 * n), value(int32(n))},
			want: map[int][]byte{1: pack(steps...)}},
		{source: "control", kernel: "sparse_rows", grid: line(2), block: line(32),
			args: []Arg{in([]int32{0, 2, 2, 5, 6}), in([]int32{0, 2, 1, -1, 0, 2}), in([]float32{2, 4, 0.5, 9, 1, 3}),
				in([]float32{1, 8, -2}), room(16), value(int32(4))},
			want: map[int][]byte{4: pack[float32](-6, 0, 5, -6)}},
		{source: "control", kernel: "asm_scopes", grid: line(1), block: line(32), args: []Arg{in(words), room(128)},
			want: map[int][]byte{1: pack(sequence(32, func(i int) uint32 {
				return uint32(bits.Len32(words[i]))*256 + uint32(bits.TrailingZeros32(words[i]))
			})...)}},
		{source: "control", kernel: "asm_guarded", grid: line(2), block: line(32),
			args: []Arg{in(x), room(4 * n), value(int32(n))}, want: map[int][]byte{1: pack(x...)}},
		{source: "control", kernel: "guarded_exit", grid: line(1), block: line(32),
			args: []Arg{in([]int32{3, 0, 5}), room(12), value(int32(3))}, want: map[int][]byte{1: pack[int32](14, 0, 55)}},
		{source: "print", kernel: "print_values", grid: line(2), block: line(32),
			args:    []Arg{in([]float32{1, nan, 3}), value(int32(3))},
			printed: "start\n0: x[1] = nan (not a number)\nstart\n"},
		{source: "print", kernel: "checked_index", grid: line(1), block: line(32),
			args: []Arg{in(sequence(32, func(i int) int32 { return int32(31 - i) })), in(x[:32]), room(128), value(int32(32))},
			want: map[int][]byte{2: pack(sequence(32, func(i int) float32 { return x[31-i] })...)}},
	}
}

// wrongLaunches are launches of kernels of the zoo with arguments that they are not made for. Each has one finding.
func wrongLaunches() []animal {
	return []animal{
		{source: "control", kernel: "guarded_exit", grid: line(1), block: line(32),
			args: []Arg{in([]int32{3, -1, 5}), room(12), value(int32(3))}, finding: Trap},
		{source: "print", kernel: "checked_index", grid: line(1), block: line(32),
			args: []Arg{in(sequence(32, func(i int) int32 { return int32(i + 1) })), in(mixed(32)), room(128),
				value(int32(32))}, finding: Assertion},
		{source: "hopper", kernel: "bulk_copy", grid: line(1), block: line(64), shared: 256,
			args: []Arg{in(mixed(60)), room(256), value(int32(256))}, finding: OutOfBoundsRead},
	}
}

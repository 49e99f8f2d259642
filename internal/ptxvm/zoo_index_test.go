package ptxvm

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// This file implements the launches of the zoo that are about addresses from data, local memory, reductions, integers
// and asynchronous copies.

func indexZoo() []animal {
	const n = 300
	letters := sequence(n, func(i int) byte { return byte(i * i) })
	bins, few := make([]uint32, 256), make([]uint32, 8)
	classes := sequence(n, func(i int) uint32 { return uint32(i*i/3) % 8 })
	for i := range n {
		bins[letters[i]]++
		few[classes[i]]++
	}
	table := mixed(5 * 12)
	ids := []int64{3, 0, -1, 4, 5}
	rows := make([]float32, 5*12)
	for r, id := range ids {
		if id >= 0 && id < 5 {
			copy(rows[12*r:][:12], table[12*id:])
		}
	}
	index := []int32{2, 0, 2, 1}
	added := make([]float32, 12)
	whole := sequence(16, func(i int) float32 { return float32(i) })
	for i, v := range whole {
		added[int(index[i/4])*4+i%4] += v
	}
	unsorted := mixed(512)
	sorted := slices.Clone(unsorted)
	slices.Sort(sorted[:256])
	slices.Sort(sorted[256:])
	keys := sequence(40, func(i int) float64 { return float64(i*i) / 7 })
	wanted := sequence(60, func(i int) float64 { return float64(i) * 3.7 })
	found := sequence(60, func(i int) int32 { at, _ := slices.BinarySearch(keys, wanted[i]); return int32(at) })
	return []animal{
		{source: "indexed", kernel: "histogram", grid: line(3), block: line(64),
			args: []Arg{in(letters), room(1024), value(int32(n))}, want: map[int][]byte{1: pack(bins...)}},
		{source: "indexed", kernel: "histogram_match", grid: line(5), block: line(64),
			args: []Arg{in(classes), room(32), value(int32(n))}, want: map[int][]byte{1: pack(few...)}},
		{source: "indexed", kernel: "embedding", grid: line(5), block: line(32),
			args: []Arg{in(ids), in(table), room(5 * 48), value(int32(3)), value(int64(5))},
			want: map[int][]byte{2: pack(rows...)}},
		{source: "indexed", kernel: "scatter_add", grid: line(1), block: line(32),
			args: []Arg{in(index), in(whole), room(48), value(int32(4)), value(int32(4))},
			want: map[int][]byte{2: pack(added...)}},
		{source: "indexed", kernel: "bitonic256", grid: line(2), block: line(256), args: []Arg{in(unsorted)},
			want: map[int][]byte{0: pack(sorted...)}},
		{source: "indexed", kernel: "lower_bound", grid: line(2), block: line(32),
			args: []Arg{in(keys), in(wanted), room(240), value(int32(40)), value(int32(60))},
			want: map[int][]byte{2: pack(found...)}},
		{source: "hopper", kernel: "bulk_copy", grid: line(1), block: line(64), shared: 256,
			args: []Arg{in(unsorted[:64]), room(256), value(int32(256))},
			want: map[int][]byte{1: pack(sequence(64, func(i int) float32 { return 2 * unsorted[i] })...)}},
		{source: "hopper", kernel: "specialised", grid: line(1), block: line(256),
			args: []Arg{in(unsorted[:128]), room(512)},
			want: map[int][]byte{1: pack(sequence(128, func(i int) float32 { return unsorted[127-i] * 0.5 })...)}},
	}
}

// sums is 64 or 96 running sums of a thread: see running_sums of local.cu.
func sums(x []float32, count, threads, rows int) []float32 {
	out := make([]float32, 0, count*threads)
	for t := range threads {
		acc := slices.Clone(x[t*count:][:count])
		for r := 1; r < rows; r++ {
			first := acc[0]
			for k := range count {
				next := first
				if k+1 < count {
					next = acc[k+1]
				}
				acc[k] = fma32Reference(acc[k], x[r*count+k*7%count], next)
			}
		}
		out = append(out, acc...)
	}
	return out
}

// fma32Reference rounds once: the product is exact in float64, and the sum is corrected where its error matters.
func fma32Reference(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	v := s - p
	e := (p - (s - v)) + (float64(c) - v) // what the sum lost (Knuth's two-sum)
	if e != 0 && math.Float64bits(s)&1 == 0 {
		if (e > 0) == (s > 0) { // round to odd
			s = math.Float64frombits(math.Float64bits(s) + 1)
		} else {
			s = math.Float64frombits(math.Float64bits(s) - 1)
		}
	}
	return float32(s)
}

// sortWords is for lists whose order is that in which warps come to an atomic operation.
func sortWords(b []byte) {
	words := make([]uint32, len(b)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	slices.Sort(words)
	copy(b, pack(words...))
}

func reduceZoo() []animal {
	const n = 700
	x := mixed(n)
	tree := make([]float32, 2)
	for b := range tree {
		var part [256]float32
		for i := b * 256; i < n; i += 512 {
			for t := range 256 {
				if i+t < n {
					part[t] += x[i+t]
				}
			}
		}
		for half := 128; half > 0; half /= 2 {
			for t := range half {
				part[t] += part[t+half]
			}
		}
		tree[b] = part[0]
	}
	top := float32(0)
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v))))
	}
	places := make([]int32, 7)
	for r := range places {
		for c := range 100 {
			if x[100*r+c] > x[100*r+int(places[r])] {
				places[r] = int32(c)
			}
		}
	}
	sparse := sequence(100, func(i int) int32 { return int32(i%3) * int32(i) })
	var kept []int32
	for _, v := range sparse {
		if v != 0 {
			kept = append(kept, v)
		}
	}
	slices.Sort(kept)
	bad := slices.Clone(x[:100])
	bad[3], bad[70], bad[71] = float32(math.Inf(1)), float32(math.NaN()), float32(math.Inf(-1))
	order := sequence(16, func(i int) int32 { return int32(i * 5) })
	chosen := sequence(40, func(i int) float32 {
		s := float32(0)
		for k := range 16 {
			s = s*0.5 + x[16*i+int(order[k]&15)]
		}
		return s
	})
	lists := sequence(32*9, func(i int) int32 { return int32(i * 7919 % 101) })
	ordered := slices.Clone(lists)
	for t := range 32 {
		slices.Sort(ordered[9*t:][:9])
	}
	text := []byte("the quick brown fox jumps over the lazy dog; again and again it does so")
	weight := []float64{0.5, 0.25, 0.125, 0.0625, 2, 4, 8, 16}
	total := 0.0
	for c := range 128 {
		seen := 0
		for _, b := range text {
			if int(b&127) == c {
				seen++
			}
		}
		total += float64(seen) * weight[seen&7]
	}
	small := sequence(96*32, func(i int) float32 { return float32(i%13)/16 - 0.3 })
	return []animal{
		{source: "reduce", kernel: "sum_shared", grid: line(2), block: line(256),
			args: []Arg{in(x), room(8), value(int32(n))}, want: map[int][]byte{1: pack(tree...)}},
		{source: "reduce", kernel: "sum_shuffle", grid: line(2), block: line(128),
			args: []Arg{in(sequence(n, func(i int) float32 { return float32(i) })), room(4), value(int32(n))},
			want: map[int][]byte{1: pack(float32(n * (n - 1) / 2))}},
		{source: "reduce", kernel: "max_abs", grid: line(11), block: line(64),
			args: []Arg{in(x), room(4), value(int32(n))}, want: map[int][]byte{1: pack(top)}},
		{source: "reduce", kernel: "argmax", grid: line(7), block: line(32),
			args: []Arg{in(x), room(28), value(int32(100))}, want: map[int][]byte{1: pack(places...)}},
		{source: "reduce", kernel: "compact", grid: line(4), block: line(32),
			args: []Arg{in(sparse), room(4 * len(kept)), room(4), value(int32(100))},
			want: map[int][]byte{1: pack(kept...), 2: pack(int32(len(kept)))}, canonical: sortWords,
			disorder: true},
		{source: "reduce", kernel: "all_finite", grid: line(3), block: line(50),
			args: []Arg{in(bad), room(16), value(int32(100))}, want: map[int][]byte{1: pack[int32](1, 1, 2, 0)}},
		{source: "local", kernel: "local_index", grid: line(2), block: line(32),
			args: []Arg{in(x), in(order), room(160), value(int32(40))}, want: map[int][]byte{2: pack(chosen...)}},
		{source: "local", kernel: "local_sort", grid: line(1), block: line(32),
			args: []Arg{in(lists), room(4 * 32 * 9), value(int32(9))}, want: map[int][]byte{1: pack(ordered...)}},
		{source: "local", kernel: "local_bytes", grid: line(1), block: line(32),
			args: []Arg{in(text), room(128), value(int32(len(text)))},
			want: map[int][]byte{1: pack(sequence(32, func(int) int32 { return int32(total) })...)}},
		{source: "local", kernel: "spill_64", grid: line(1), block: line(32),
			args: []Arg{in(small), room(4 * 64 * 32), value(int32(6))},
			want: map[int][]byte{1: pack(sums(small, 64, 32, 6)...)}},
		{source: "local", kernel: "spill_96", grid: line(1), block: line(32),
			args: []Arg{in(small), room(4 * 96 * 32), value(int32(6))},
			want: map[int][]byte{1: pack(sums(small, 96, 32, 6)...)}},
		{source: "local", kernel: "spill_none", grid: line(1), block: line(32),
			args: []Arg{in(small), room(4 * 64 * 32), value(int32(6))},
			want: map[int][]byte{1: pack(sums(small, 64, 32, 6)...)}},
	}
}

// philox is the generator of the kernel dropout.
func philox(i int, seed uint64) [4]uint32 {
	c, k := [4]uint32{uint32(i)}, [2]uint32{uint32(seed), uint32(seed >> 32)}
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, c[0])
		h1, l1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{h1 ^ c[1] ^ k[0], l1, h0 ^ c[3] ^ k[1], l0}
		k[0] += 0x9E3779B9
		k[1] += 0xBB67AE85
	}
	return c
}

func integerZoo() []animal {
	const words = 70
	a := sequence(3*words, func(i int) int32 { return int32(uint32(i) * 2654435761) })
	b := sequence(words, func(i int) int32 { return int32(uint32(i+5) * 2246822519) })
	dots := make([]int32, 3)
	for r := range dots {
		for i := range words {
			for k := range 4 {
				dots[r] += int32(int8(a[r*words+i]>>(8*k))) * int32(int8(b[i]>>(8*k)))
			}
		}
	}
	x := mixed(100)
	quantised := sequence(100, func(i int) int8 {
		return int8(max(-127, min(127, math.RoundToEven(float64(x[i]/0.02)))))
	})
	scale := []float32{0.5, 0.25, 3}
	unpacked := sequence(48, func(i int) float32 {
		return float32(a[i/8]<<(28-4*(i%8))>>28) * scale[i/16]
	})
	wide := sequence(64, func(i int) uint64 { return uint64(i+1) * 0x9E3779B97F4A7C15 })
	other := sequence(64, func(i int) uint64 { return ^uint64(i) * 0xD6E8FEB86659FD93 })
	sum := make([]uint64, 64)
	for i := 0; i < 64; i += 2 {
		var carry uint64
		sum[i], carry = bits.Add64(wide[i], other[i], 0)
		sum[i+1], _ = bits.Add64(wide[i+1], other[i+1], carry)
	}
	divisor := sequence(64, func(i int) int64 { return int64(i-20) * 12345 })
	quotient, rest := make([]int64, 64), make([]uint32, 64)
	for i, d := range divisor {
		if d != 0 {
			v := int64(wide[i])
			quotient[i], rest[i] = v/d, uint32(v)%(uint32(d)|1)+uint32(v/10)
		}
	}
	const seed, keep = 0x123456789abcdef, float32(0.3)
	dropped := sequence(98, func(i int) float32 {
		if float32(philox(i/4, seed)[i%4])*2.3283064e-10 >= keep {
			return x[i] / (1 - keep)
		}
		return 0
	})
	mixedBits := sequence(64, func(i int) uint32 {
		v := uint32(wide[i])
		f := v >> 5 & 0x7ff
		f = f&^(15<<20) | v&15<<20
		f = f ^ v ^ bits.Reverse32(v)
		f = v<<7 | f>>25 // shf.l.wrap: v is the upper half
		bytes := uint64(f)<<32 | uint64(v)
		perm := uint32(bytes >> 24)
		return f + uint32(bits.OnesCount32(v)) + uint32(bits.LeadingZeros32(v)) + perm + v>>(i&31)
	})
	return []animal{
		{source: "integer", kernel: "dot_s8", grid: line(3), block: line(32),
			args: []Arg{in(a), in(b), room(12), value(int32(words))}, want: map[int][]byte{2: pack(dots...)}},
		{source: "integer", kernel: "quantise_s8", grid: line(2), block: line(64),
			args: []Arg{in(x), room(100), value(float32(0.02)), value(int32(100))}, want: map[int][]byte{1: pack(quantised...)}},
		{source: "integer", kernel: "unpack_s4", grid: line(1), block: line(32),
			args: []Arg{in(a), in(scale), room(192), value(int32(6)), value(int32(16))},
			want: map[int][]byte{2: pack(unpacked...)}},
		{source: "integer", kernel: "bits", grid: line(2), block: line(32),
			args: []Arg{in(sequence(64, func(i int) uint32 { return uint32(wide[i]) })), room(256), value(int32(64))},
			want: map[int][]byte{1: pack(mixedBits...)}},
		{source: "integer", kernel: "add128", grid: line(1), block: line(32),
			args: []Arg{in(wide), in(other), room(512)}, want: map[int][]byte{2: pack(sum...)}},
		{source: "integer", kernel: "division", grid: line(2), block: line(32),
			args: []Arg{in(wide), in(divisor), room(512), room(256), value(int32(64))},
			want: map[int][]byte{2: pack(quotient...), 3: pack(rest...)}},
		{source: "integer", kernel: "dropout", grid: line(1), block: line(32),
			args: []Arg{in(x), room(392), value(keep), value(uint64(seed)), value(int32(98))},
			want: map[int][]byte{1: pack(dropped...)}},
	}
}

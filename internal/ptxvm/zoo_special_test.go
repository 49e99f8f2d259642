package ptxvm

import (
	"math"
	"slices"

	"gpuemu/internal/dtype"
)

// This file implements launches of the zoo on the numbers at the edges: zeros of both signs, infinities, NaN with
// several payloads, subnormal numbers, and those at which conversions saturate. A GPU says what comes of them, bit for
// bit; there is no other reference.

// extremes are numbers at the edges of a format, and some at the edges of narrower ones.
func extremes(d dtype.DType) []float64 {
	list := []float64{0, d.SmallestSubnormal(), d.SmallestNormal() - d.SmallestSubnormal(), d.SmallestNormal(), 0x1p-9,
		0.5, 1, 1 + 2*d.UnitRoundoff(), 1.5, 2.5, 127.5, 240, 464, 480, 57344, 61440, d.MaxFinite() / 2, d.MaxFinite(),
		math.Inf(1)}
	for _, v := range slices.Clone(list) {
		list = append(list, -v)
	}
	return list
}

// pairsOf are all pairs of extremes in two inputs, with a quiet NaN, a signalling one and a negative one in addition.
func pairsOf(d dtype.DType, nans ...uint64) (x, y []byte, n int) {
	var all []uint64
	for _, v := range extremes(d) {
		all = append(all, d.Bits(v))
	}
	all = append(all, nans...)
	size := d.Size()
	n = len(all) * len(all)
	x, y = make([]byte, n*size), make([]byte, n*size)
	for i := range n {
		d.Store(x[i*size:], all[i/len(all)])
		d.Store(y[i*size:], all[i%len(all)])
	}
	return x, y, n
}

func specialZoo() []animal {
	f32x, f32y, n := pairsOf(dtype.Float32, 0x7fc00000, 0x7f800001, 0xffc12345)
	f16x, f16y, halves := pairsOf(dtype.Float16, 0x7e00, 0x7c01, 0xfe12)
	bx, by, _ := pairsOf(dtype.BFloat16, 0x7fc0, 0x7f81, 0xffc5)
	f64x, _, wide := pairsOf(dtype.Float64, 0x7ff8<<48, 0x7ff0<<48|1, 0xfff8<<48|0x12345)
	words := func(b []byte) Arg { return Arg{Name: "in", Buffer: b} }
	odd := func(source, kernel string, n, threads int, args []Arg, outputs ...int) animal {
		a := animal{source: source, kernel: kernel, title: "edges", grid: line((n + threads - 1) / threads),
			block: line(threads), args: args, want: map[int][]byte{}}
		for _, i := range outputs {
			a.want[i] = nil
		}
		return a
	}
	count := value(int32(n))
	return []animal{
		odd("elementwise", "add", n, 64, []Arg{words(f32x), words(f32y), room(4 * n), count}, 2),
		odd("elementwise", "saxpy", n, 64, []Arg{value(float32(-0x1p-3)), words(f32x), words(f32y), value(uint64(n))}, 2),
		odd("elementwise", "leaky_relu", n, 64, []Arg{words(f32x), room(4 * n), value(float32(0.01)), count}, 1),
		odd("elementwise", "relu_vec4", n/4, 64, []Arg{words(f32x), room(4 * n), value(int32(n / 4)), count}, 1),
		odd("elementwise", "_Z11scale_shiftIfLi4EEvPKT_PS0_S0_S0_i", n/4+1, 64, []Arg{words(f32x), room(4 * n),
			value(float32(3)), value(float32(0x1p-149)), count}, 1),
		odd("elementwise", "_Z11scale_shiftIdLi2EEvPKT_PS0_S0_S0_i", wide/2+1, 64, []Arg{words(f64x), room(8 * wide),
			value(-0.75), value(0x1p-1074), value(int32(wide))}, 1),
		odd("narrow", "half_axpy", halves, 64, []Arg{words(f16x), words(f16y), value(float32(1.5)), value(int32(halves))}, 1),
		odd("narrow", "half2_relu", halves/2, 64, []Arg{words(f16y), room(halves / 2 * 4), value(int32(halves / 2))}, 1),
		odd("narrow", "bf16x2_fma", 512, 512, []Arg{words(bx[:4*512]), words(by[:4*512]), words(by[4*200:][:4*512])}, 2),
		odd("half", "to_fp8", n, 64, []Arg{words(f32y), room(n), room(n), value(float32(1)), count}, 1, 2),
		odd("hopper", "fp8_convert", 512, 512, []Arg{words(f32y[:8*512]), room(2 * 512), room(4 * 512)}, 1, 2),
		odd("double", "mixed_widths", wide, 64, []Arg{words(f64x), room(4 * wide), room(4 * wide), room(8 * wide),
			room(2 * wide), value(int32(wide))}, 1, 2, 3, 4),
		odd("double", "polynomial", wide, 64, []Arg{words(f64x), room(8 * wide), value(int32(wide))}, 1),
		odd("integer", "quantise_s8", n, 64, []Arg{words(f32y), room(n), value(float32(0.02)), count}, 1),
		odd("mma", "mma_bf16", 32, 32, []Arg{words(bx[:512]), words(by[600:][:256]), words(f32y[:512])}, 2),
		odd("mma", "mma_tf32", 32, 32, []Arg{words(f32x[:512]), words(f32y[160:][:256]), words(f32y[:512])}, 2),
		odd("mma", "mma_f64", 32, 32, []Arg{words(f64x[:256]), words(f64x[4096:][:256]), words(f64x[8192:][:512])}, 2),
		odd("triton", "add", n, 1024, []Arg{words(f32x), words(f32y), room(4 * n), value(int32(n / 16 * 16)),
			value(uint64(0)), value(uint64(0))}, 2).built(128, "triton36/add-sm80", "triton36/add-sm90"),
	}
}

// built makes the launch one of other files, with that many threads.
func (a animal) built(threads int, files ...string) animal {
	a.files, a.block, a.shared = files, line(threads), 64<<10
	return a
}

package ptxvm

import (
	"math"

	"gpuemu/internal/dtype"
)

// This file implements the launches of the zoo that use tensor cores from CUDA, and those of small formats.

func matrixZoo() []animal {
	f32, f16, bf16, f64 := dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64
	const m, n, k = 32, 64, 48
	a, b := kept(f16, m*k, 0), kept(f16, k*n, m*k)
	pipeline := animal{source: "mma", kernel: "mma_pipeline", grid: Dim{n / 32, m / 16, 1}, block: line(32),
		args: []Arg{tensor(f16, a), tensor(f16, b), blank(f32, m*n), value(int32(n)), value(int32(k))}}
	ac, bc := kept(f16, m*k, 5), kept(f16, k*n, 9)
	columns := animal{source: "wmma", kernel: "wmma_f16", grid: Dim{n / 16, m / 16, 1}, block: line(32),
		args: []Arg{tensor(f16, ac), tensor(f16, bc), blank(f32, m*n), value(int32(n)), value(int32(k))}}
	small := func(n, by int) []float64 {
		return sequence(n, func(i int) float64 { return float64(int8(i*by + i*i)) })
	}
	sa, sb, sc := small(32*16, 37), small(8*16, 11), small(32*8, 5)
	wide := animal{source: "wmma", kernel: "wmma_s8", grid: line(1), block: line(32),
		args: []Arg{tensor(dtype.Int8, sa), tensor(dtype.Int8, sb), tensor(dtype.Int32, sc)}}
	return []animal{
		pipeline.nearly(2, f32, 1e-6, sequence(m*n, func(i int) float64 {
			return dot(k, func(q int) float64 { return a[i/n*k+q] * b[q*n+i%n] })
		})),
		columns.nearly(2, f32, 1e-6, sequence(m*n, func(i int) float64 {
			return dot(k, func(q int) float64 { return ac[i/n*k+q] * bc[i%n*k+q] })
		})),
		wide.gives(2, encoded(dtype.Int32, sequence(32*8, func(i int) float64 {
			return sc[i] + dot(16, func(q int) float64 { return sa[i/8*16+q] * sb[i%8*16+q] })
		}))),
		fragments("mma_bf16", bf16, f32, 16, 16, kept).bounded(1e-6),
		fragments("mma_tf32", f32, f32, 16, 8, func(_ dtype.DType, n, from int) []float64 {
			return kept(bf16, n, from) // which tf32 has, too
		}).bounded(1e-6),
		fragments("mma_s8", dtype.Int8, dtype.Int32, 16, 32, func(_ dtype.DType, n, from int) []float64 {
			return small(n, from%64+3)
		}),
		fragments("mma_f64", f64, f64, 8, 4, kept).bounded(1e-15),
	}
}

func dot(n int, product func(q int) float64) (s float64) {
	for q := range n {
		s += float64(product(q)) // not fused, so that figures are the same on every machine
	}
	return s
}

// bounded makes the launch one whose last output is within a bound, not exact.
func (a animal) bounded(most float64) animal {
	for i := range a.want {
		a.within = map[int]bound{i: {a.float, most}}
	}
	return a
}

// fragments is a launch of a kernel of mma.cu in which every lane loads its registers of one product of m×k by k×8, as
// the PTX ISA manual numbers them ("Matrix Fragments for mma"): each has as many elements of a row of A, or of a column
// of B, as fit 32 bits.
func fragments(kernel string, d, out dtype.DType, m, k int, fill func(d dtype.DType, n, from int) []float64) animal {
	const n = 8
	a, b, c := fill(d, m*k, 0), fill(d, k*n, m*k), fill(out, m*n, m*k+k*n)
	per := max(4/d.Size(), 1) // elements of a register
	aOrder, bOrder := make([]float64, 0, m*k), make([]float64, 0, k*n)
	for lane := range 32 {
		group, in := lane/4, lane%4
		for half := range max(k/(4*per), 1) {
			for row := group; row < m; row += 8 {
				for e := range per {
					aOrder = append(aOrder, a[row*k+half*4*per+in*per+e])
				}
			}
			for e := range per {
				bOrder = append(bOrder, b[(half*4*per+in*per+e)*n+group])
			}
		}
	}
	order := func(c []float64) []float64 {
		var list []float64
		for lane := range 32 {
			for row := lane / 4; row < m; row += 8 {
				list = append(list, c[row*n+lane%4*2], c[row*n+lane%4*2+1])
			}
		}
		return list
	}
	sum := sequence(m*n, func(i int) float64 {
		return c[i] + dot(k, func(q int) float64 { return a[i/n*k+q] * b[q*n+i%n] })
	})
	x := animal{source: "mma", kernel: kernel, grid: line(1), block: line(32), float: out,
		args: []Arg{tensor(d, aOrder), tensor(d, bOrder), tensor(out, order(c))}}
	return x.gives(2, encoded(out, order(sum)))
}

func smallZoo() []animal {
	f16, bf16 := dtype.Float16, dtype.BFloat16
	half := kept(f16, 64, 0)
	gelu := sequence(64, func(i int) float64 {
		x := half[i]
		return 0.5 * x * (1 + math.Tanh(0.7978845608*(x+0.044715*x*x*x)))
	})
	const rows, cols = 3, 70
	x, w := kept(bf16, rows*cols, 0), kept(bf16, cols, 11)
	rms := sequence(rows*cols, func(i int) float64 {
		square := dot(cols, func(c int) float64 { return x[i/cols*cols+c] * x[i/cols*cols+c] })
		return x[i] / math.Sqrt(square/cols+1e-6) * w[i%cols]
	})
	bx, by, bz := kept(bf16, 64, 0), kept(bf16, 64, 64), kept(bf16, 64, 128)
	fused := sequence(64, func(i int) float64 {
		d := bf16.Float64(bf16.Bits(bx[i]*by[i] + bz[i])) // exact in float64: 8 bits by 8 bits
		return max(bf16.Float64(bf16.Bits(d*bx[i]+bx[i])), 0)
	})
	exponential := sequence(32, func(i int) float64 { return -math.Tanh(math.Exp2(half[i])) })
	f32 := mixed(128)
	eight := sequence(128, func(i int) byte { return byte(dtype.Float8E4M3FN.BitsSaturating(float64(f32[i]))) })
	back := sequence(128, func(i int) float64 { return dtype.Float8E4M3FN.Float64(uint64(eight[i])) })
	const width, height, limit = 24, 10, 30
	escape := sequence(width*height, func(i int) int32 {
		cr, ci := 3*float64(i%width)/width-2, 2*float64(i/width)/height-1
		r, m, k := 0.0, 0.0, int32(0)
		for ; k < limit && r*r+m*m <= 4; k++ {
			r, m = r*r-m*m+cr, 2*r*m+ci
		}
		return k
	})
	d := sequence(90, scattered)
	wide := animal{source: "elementwise", kernel: "_Z11scale_shiftIdLi2EEvPKT_PS0_S0_S0_i", grid: line(1), block: line(64),
		args: []Arg{in(d), room(8 * 90), value(1.5), value(-2.25), value(int32(90))}}
	gelus := animal{source: "half", kernel: "half2_gelu", grid: line(1), block: line(64),
		args: []Arg{tensor(f16, half), blank(f16, 64), value(int32(32))}}
	norms := animal{source: "half", kernel: "bf16_rmsnorm", grid: line(rows), block: line(32),
		args: []Arg{tensor(bf16, x), tensor(bf16, w), blank(bf16, rows*cols), value(int32(cols))}}
	exps := animal{source: "narrow", kernel: "half_exp", grid: line(1), block: line(32),
		args: []Arg{tensor(f16, half[:32]), blank(f16, 32)}}
	return []animal{
		wide.nearly(1, dtype.Float64, 1e-15, sequence(90, func(i int) float64 { return float64(1.5*d[i]) - 2.25 })),
		gelus.nearly(1, f16, 0x1p-11, gelu),
		norms.nearly(2, bf16, 0x1p-7, rms),
		exps.nearly(1, f16, 0x1p-9, exponential),
		{source: "narrow", kernel: "bf16x2_fma", grid: line(1), block: line(32),
			args: []Arg{tensor(bf16, bx), tensor(bf16, by), tensor(bf16, bz)}, want: map[int][]byte{2: encoded(bf16, fused)}},
		{source: "hopper", kernel: "fp8_convert", grid: line(1), block: line(64),
			args: []Arg{in(f32), room(128), room(256)}, want: map[int][]byte{1: eight, 2: encoded(f16, back)}},
		{source: "control", kernel: "mandelbrot", grid: Dim{1, 4, 1}, block: line(32),
			args: []Arg{room(4 * width * height), value(int32(width)), value(int32(height)), value(int32(limit))},
			want: map[int][]byte{0: pack(escape...)}},
	}
}

package ptxvm

import (
	"math"

	"gpuemu/internal/dtype"
)

// This file implements the launches of the zoo that compute with floats. Compilers contract products and sums as they
// like, so most of them are compared within a bound.

// narrow makes float32 of a reference in float64.
func narrow(v []float64) []byte {
	return pack(sequence(len(v), func(i int) float32 { return float32(v[i]) })...)
}

func floatZoo() []animal {
	var zoo []animal
	zoo = append(zoo, elementZoo()...)
	zoo = append(zoo, rowZoo()...)
	zoo = append(zoo, productZoo()...)
	zoo = append(zoo, layoutZoo()...)
	zoo = append(zoo, doubleZoo()...)
	return append(zoo, halfZoo()...)
}

func elementZoo() []animal {
	const n = 150
	x, y := mixed(n), mixed(2 * n)[n:]
	each := func(f func(v float64) float64) []byte {
		return narrow(sequence(n, func(i int) float64 { return f(float64(x[i])) }))
	}
	unary := func(kernel string, f func(v float64) float64) animal {
		return animal{source: "elementwise", kernel: kernel, grid: line(3), block: line(64), float: dtype.Float32,
			tolerance: 3e-6, args: []Arg{in(x), room(4 * n), value(int32(n))}, want: map[int][]byte{1: each(f)}}
	}
	const slope = float32(0.01)
	freq := []float32{1, 0.5, 0.25, 0.125}
	turned := make([]float64, 5*8)
	for r := range 5 {
		for k := range 4 {
			s, c := math.Sincos(float64(float32(r) * freq[k]))
			lo, hi := float64(x[8*r+k]), float64(x[8*r+k+4])
			turned[8*r+k], turned[8*r+k+4] = lo*c-hi*s, hi*c+lo*s
		}
	}
	shorts := sequence(n, func(i int) int16 { return int16(i * 311) })
	return []animal{
		{source: "elementwise", kernel: "add", grid: line(3), block: line(64),
			args: []Arg{in(x), in(y), room(4 * n), value(int32(n))},
			want: map[int][]byte{2: pack(sequence(n, func(i int) float32 { return x[i] + y[i] })...)}},
		{source: "elementwise", kernel: "saxpy", grid: line(1), block: line(64),
			args: []Arg{value(float32(1.7)), in(x), in(y), value(uint64(n))},
			want: map[int][]byte{2: pack(sequence(n, func(i int) float32 { return fma32Reference(1.7, x[i], y[i]) })...)}},
		unary("gelu", func(v float64) float64 {
			return 0.5 * v * (1 + math.Tanh(0.7978845608*(v+0.044715*v*v*v)))
		}),
		unary("silu", func(v float64) float64 { return v / (1 + math.Exp(-v)) }),
		{source: "elementwise", kernel: "leaky_relu", grid: line(3), block: line(64),
			args: []Arg{in(x), room(4 * n), value(slope), value(int32(n))},
			want: map[int][]byte{1: pack(sequence(n, func(i int) float32 {
				if x[i] > 0 {
					return x[i]
				}
				return slope * x[i]
			})...)}},
		{source: "elementwise", kernel: "relu_vec4", grid: line(1), block: line(64),
			args: []Arg{in(x), room(4 * n), value(int32(n / 4)), value(int32(n))},
			want: map[int][]byte{1: pack(sequence(n, func(i int) float32 { return max(x[i], 0) })...)}},
		{source: "elementwise", kernel: "_Z11scale_shiftIsLi1EEvPKT_PS0_S0_S0_i", grid: line(3), block: line(64),
			args: []Arg{in(shorts), room(2 * n), value(int16(-3)), value(int16(1000)), value(int32(n))},
			want: map[int][]byte{1: pack(sequence(n, func(i int) int16 { return -3*shorts[i] + 1000 })...)}},
		{source: "elementwise", kernel: "_Z11scale_shiftIfLi4EEvPKT_PS0_S0_S0_i", grid: line(1), block: line(64),
			float: dtype.Float32, tolerance: 1e-6,
			args: []Arg{in(x), room(4 * n), value(float32(1.5)), value(float32(-2)), value(int32(n))},
			want: map[int][]byte{1: each(func(v float64) float64 { return 1.5*v - 2 })}},
		{source: "elementwise", kernel: "rotary", grid: line(6), block: line(32), float: dtype.Float32, tolerance: 1e-5,
			args: []Arg{in(x[:40]), in(freq), value(int32(5)), value(int32(4))}, want: map[int][]byte{0: narrow(turned)}},
	}
}

func rowZoo() []animal {
	const rows, cols = 4, 90
	x := mixed(rows * cols)
	soft, loss := make([]float64, rows*cols), make([]float64, rows)
	layer, rms := make([]float64, rows*cols), make([]float64, rows*cols)
	mean, variance := make([]float64, rows), make([]float64, rows)
	gamma, beta := mixed(cols), mixed(2 * cols)[cols:]
	target := []int64{5, -1, 89, 0}
	for r := range rows {
		row := x[r*cols:][:cols]
		sum, total, square := 0.0, 0.0, 0.0
		for _, v := range row {
			sum += math.Exp(float64(v))
			total += float64(v)
			square += float64(v) * float64(v)
		}
		mean[r] = total / cols
		for _, v := range row {
			variance[r] += (float64(v) - mean[r]) * (float64(v) - mean[r]) / cols
		}
		for c, v := range row {
			soft[r*cols+c] = math.Exp(float64(v)) / sum
			layer[r*cols+c] = (float64(v)-mean[r])/math.Sqrt(variance[r]+1e-5)*float64(gamma[c]) + float64(beta[c])
			rms[r*cols+c] = float64(v) / math.Sqrt(square/cols+1e-5) * float64(gamma[c])
		}
		if target[r] >= 0 {
			loss[r] = math.Log(sum) - float64(row[target[r]])
		}
	}
	row := func(source, kernel string, grid, block Dim, args []Arg, want map[int][]byte) animal {
		return animal{source: source, kernel: kernel, grid: grid, block: block, args: args, want: want, float: dtype.Float32,
			tolerance: 1e-5}
	}
	n := value(int32(cols))
	eps := value(float32(1e-5))
	return []animal{
		row("softmax", "softmax_block", line(rows), line(64), []Arg{in(x), room(4 * rows * cols), n},
			map[int][]byte{1: narrow(soft)}),
		row("softmax", "softmax_online", line(2), line(64), []Arg{in(x), room(4 * rows * cols), value(int32(rows)), n},
			map[int][]byte{1: narrow(soft)}),
		row("softmax", "cross_entropy", line(rows), line(64), []Arg{in(x), in(target), room(4 * rows), n},
			map[int][]byte{2: narrow(loss)}),
		row("norm", "layernorm", line(rows), line(64), []Arg{in(x), in(gamma), in(beta), room(4 * rows * cols), n, eps},
			map[int][]byte{3: narrow(layer)}),
		row("norm", "rmsnorm", line(rows), line(64), []Arg{in(x), in(gamma), room(4 * rows * cols), n, eps},
			map[int][]byte{2: narrow(rms)}),
		row("norm", "welford", line(rows), line(32), []Arg{in(x), room(4 * rows), room(4 * rows), n},
			map[int][]byte{1: narrow(mean), 2: narrow(variance)}),
	}
}

// multiply is a times b in float64.
func multiply(a, b []float32, m, n, k int) []float64 {
	c := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for q := range k {
				c[i*n+j] += float64(a[i*k+q]) * float64(b[q*n+j])
			}
		}
	}
	return c
}

func productZoo() []animal {
	const m, n, k = 19, 21, 35
	a, b := mixed(64*64), mixed(2 * 64 * 64)[64*64:]
	product := func(kernel string, grid, block Dim) animal {
		return animal{source: "matmul", kernel: kernel, grid: grid, block: block, float: dtype.Float32, tolerance: 1e-5,
			args: []Arg{in(a[:m*k]), in(b[:k*n]), room(4 * m * n), value(int32(m)), value(int32(n)), value(int32(k))},
			want: map[int][]byte{2: narrow(multiply(a, b, m, n, k))}}
	}
	const heads, length, dim = 2, 33, 8
	q, key, v := a[:heads*length*dim], a[1000:][:heads*length*dim], b[:heads*length*dim]
	out := make([]float64, heads*length*dim)
	for h := range heads {
		for i := range length {
			w, sum := make([]float64, i+1), 0.0
			for j := range w {
				for d := range dim {
					w[j] += float64(q[(h*length+i)*dim+d]) * float64(key[(h*length+j)*dim+d])
				}
				w[j] = math.Exp(w[j] * 0.25)
				sum += w[j]
			}
			for j := range w {
				for d := range dim {
					out[(h*length+i)*dim+d] += w[j] / sum * float64(v[(h*length+j)*dim+d])
				}
			}
		}
	}
	return []animal{
		product("matmul_naive", Dim{2, 3, 1}, Dim{16, 8, 1}),
		product("matmul_tile16", Dim{2, 2, 1}, Dim{16, 16, 1}),
		{source: "matmul", kernel: "matmul_tile64", grid: line(1), block: line(256), float: dtype.Float32, tolerance: 1e-5,
			args: []Arg{in(a), in(b), room(4 * 64 * 64), value(int32(64)), value(int32(64))},
			want: map[int][]byte{2: narrow(multiply(a, b, 64, 64, 64))}},
		{source: "matmul", kernel: "gemv_dynamic", grid: line(2), block: line(32), shared: 4 * k, float: dtype.Float32,
			tolerance: 1e-5, args: []Arg{in(a[:40*k]), in(b[:k]), room(160), value(int32(40)), value(int32(k))},
			want: map[int][]byte{2: narrow(multiply(a, b, 40, 1, k))}},
		{source: "attention", kernel: "attention_online", grid: line(1), block: line(64), float: dtype.Float32,
			tolerance: 1e-5, args: []Arg{in(a[:40*32]), in(a[1500:][:40*32]), in(b[:40*32]), room(4 * 40 * 32), value(int32(40)),
				value(float32(0.1))}, want: map[int][]byte{3: narrow(attend(a[:40*32], a[1500:], b, 40, 32, 0.1))}},
		{source: "attention", kernel: "attention_row", grid: Dim{length, heads, 1}, block: line(32), shared: 4 * length,
			float: dtype.Float32, tolerance: 1e-5,
			args: []Arg{in(q), in(key), in(v), room(4 * len(out)), value(int32(length)), value(int32(dim)),
				value(float32(0.25)), value(true)}, want: map[int][]byte{3: narrow(out)}},
	}
}

// attend is attention of one head without a mask.
func attend(q, k, v []float32, length, dim int, scale float64) []float64 {
	out := make([]float64, length*dim)
	for i := range length {
		w, sum := make([]float64, length), 0.0
		for j := range w {
			for d := range dim {
				w[j] += float64(q[i*dim+d]) * float64(k[j*dim+d])
			}
			w[j] = math.Exp(w[j] * scale)
			sum += w[j]
		}
		for j := range w {
			for d := range dim {
				out[i*dim+d] += w[j] / sum * float64(v[j*dim+d])
			}
		}
	}
	return out
}

func layoutZoo() []animal {
	const n = 90
	x := mixed(40 * 50)
	taps := []float64{0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125}
	smooth := sequence(n, func(i int) float64 {
		s := 0.0
		for t := range taps {
			if j := i + t - 3; j >= 0 && j < n {
				s += taps[t] * float64(x[j])
			}
		}
		return s
	})
	scanned, totals, sum := make([]float32, n), make([]float32, 1), float32(0)
	ones := sequence(n, func(i int) float32 { return float32(i % 7) })
	for i, v := range ones {
		sum += v
		scanned[i], totals[0] = sum, sum
	}
	turned := make([]float32, 40*50)
	for r := range 40 {
		for c := range 50 {
			turned[c*40+r] = x[r*50+c]
		}
	}
	pooled := sequence(5*8, func(i int) float32 {
		at := i/8*2*16 + i%8*2
		return max(x[at], x[at+1], x[at+16], x[at+17])
	})
	d := sequence(8*9, func(i int) float64 { return float64(x[i]) })
	stencil := make([]float64, 8*9)
	for j := 1; j < 8; j++ {
		for i := 1; i < 7; i++ {
			c := j*8 + i
			stencil[c] = d[c] + float64(0.1*(d[c-1]+d[c+1]+d[c-8]+d[c+8]-4*d[c])) // not fused, and 4 d is exact
		}
	}
	const h, w, ci, co = 7, 9, 2, 3
	weight := x[500:][:co*ci*9]
	convolved := sequence(co*4*5, func(i int) float64 {
		oc, oy, ox := i/20, i/5%4, i%5
		s := 0.0
		for ic := range ci {
			for k := range 9 {
				if iy, ix := oy*2+k/3-1, ox*2+k%3-1; iy >= 0 && iy < h && ix >= 0 && ix < w {
					s += float64(x[(ic*h+iy)*w+ix]) * float64(weight[(oc*ci+ic)*9+k])
				}
			}
		}
		return s
	})
	return []animal{
		{source: "layout", kernel: "scan_block", grid: line(1), block: line(1024),
			args: []Arg{in(ones), room(4 * n), room(4), value(int32(n))},
			want: map[int][]byte{1: pack(scanned...), 2: pack(totals...)}},
		{source: "layout", kernel: "transpose", grid: Dim{2, 2, 1}, block: Dim{32, 8, 1},
			args: []Arg{in(x), room(8000), value(int32(40)), value(int32(50))}, want: map[int][]byte{1: pack(turned...)}},
		{source: "layout", kernel: "conv1d_same", grid: line(3), block: line(32), float: dtype.Float32, tolerance: 1e-6,
			args: []Arg{in(x[:n]), room(4 * n), value(int32(n))}, want: map[int][]byte{1: narrow(smooth)}},
		{source: "layout", kernel: "conv2d3x3", grid: Dim{1, 1, co}, block: Dim{8, 8, 1}, float: dtype.Float32,
			tolerance: 1e-5, args: []Arg{in(x), in(weight), room(4 * co * 20), value([6]int32{h, w, ci, co, 2, 1})},
			want: map[int][]byte{2: narrow(convolved)}},
		{source: "layout", kernel: "maxpool2", grid: Dim{1, 5, 1}, block: line(32),
			args: []Arg{in(x), room(160), value(int32(10)), value(int32(16))}, want: map[int][]byte{1: pack(pooled...)}},
		{source: "layout", kernel: "stencil5", grid: line(1), block: Dim{16, 16, 1}, float: dtype.Float64, tolerance: 1e-14,
			args: []Arg{in(d), room(8 * 72), value(int32(8)), value(int32(9)), value(0.1)},
			want: map[int][]byte{1: pack(stencil...)}},
	}
}

func doubleZoo() []animal {
	const n = 60
	x, y := sequence(2*n, scattered), sequence(2*n, func(i int) float64 { return scattered(i + 2*n) })
	dot := 0.0
	for i := range n {
		dot += float64(x[i] * y[i])
	}
	polynomial := sequence(n, func(i int) float64 {
		p := 1.0 / 120
		for _, c := range []float64{1.0 / 24, 1.0 / 6, 0.5, 1, 1} {
			p = float64(p*x[i]) + c
		}
		return math.Sqrt(math.Abs(p)) / (1 + float64(p*p))
	})
	next := sequence(10, func(r int) float64 {
		s := x[r]
		for c := range 10 {
			if c != r {
				s -= float64(y[r*10+c] * x[20+c])
			}
		}
		return s / y[r*10+r]
	})
	product := sequence(2*n, func(i int) float64 {
		k := i &^ 1
		if i == k {
			return float64(x[k]*y[k]) - float64(x[k+1]*y[k+1])
		}
		return float64(x[k]*y[k+1]) + float64(x[k+1]*y[k])
	})
	wide := sequence(n, func(i int) float64 { return float64(i*i) * 17.37 })
	within := func(kernel string, args []Arg, want map[int][]byte) animal {
		return animal{source: "double", kernel: kernel, grid: line(1), block: line(128), args: args, want: want,
			float: dtype.Float64, tolerance: 1e-13}
	}
	return []animal{
		within("dot_f64", []Arg{in(x), in(y), room(8), value(int32(n))}, map[int][]byte{2: pack(dot)}),
		within("polynomial", []Arg{in(x), room(8 * n), value(int32(n))}, map[int][]byte{1: pack(polynomial...)}),
		within("jacobi", []Arg{in(y), in(x), in(x[20:]), room(80), value(int32(10))}, map[int][]byte{3: pack(next...)}),
		within("complex_product", []Arg{in(x), in(y), room(16 * n), value(int32(n))}, map[int][]byte{2: pack(product...)}),
		{source: "double", kernel: "mixed_widths", grid: line(1), block: line(64),
			args: []Arg{in(wide), room(4 * n), room(4 * n), room(8 * n), room(2 * n), value(int32(n))},
			want: map[int][]byte{1: narrow(wide), 2: pack(sequence(n, func(i int) int32 { return int32(wide[i]) })...),
				3: pack(sequence(n, func(i int) int64 { return int64(wide[i]) })...),
				4: pack(sequence(n, func(i int) uint16 { return uint16(wide[i]) })...)}},
	}
}

func halfZoo() []animal {
	half := sequence(40, func(i int) uint16 { return uint16(dtype.Float16.Bits(float64(i-17) / 8)) })
	other := sequence(40, func(i int) uint16 { return uint16(dtype.Float16.Bits(float64(i*i) / 16)) })
	axpy := sequence(40, func(i int) uint16 {
		x, y := dtype.Float16.Float64(uint64(half[i])), dtype.Float16.Float64(uint64(other[i]))
		return uint16(dtype.Float16.Bits(1.5*x + y))
	})
	brain := sequence(100, func(i int) uint16 { return uint16(dtype.BFloat16.Bits(float64(i % 9))) })
	sum := 0.0
	for _, v := range brain {
		sum += dtype.BFloat16.Float64(uint64(v))
	}
	f16 := func(bits uint32) float64 { return dtype.Float16.Float64(uint64(bits & 0xffff)) }
	pairs := sequence(20, func(i int) uint32 { return uint32(half[2*i]) | uint32(half[2*i+1])<<16 })
	relu := sequence(20, func(i int) uint32 {
		lo, hi := max(f16(pairs[i]), 0), max(f16(pairs[i]>>16), 0)
		sum := dtype.Float16.Bits(lo + hi)
		return uint32(sum) | uint32(dtype.Float16.Bits(hi*f16(uint32(sum))))<<16
	})
	dot, total := 0.0, 0.0
	small := sequence(40, func(i int) uint16 { return uint16(dtype.Float16.Bits(float64(i%4 - 1))) })
	for i := range small {
		dot += f16(uint32(small[i])) * f16(uint32(small[(i+2)%40]))
		total += f16(uint32(small[i]))
	}
	turned := sequence(40, func(i int) uint16 { return small[(i+2)%40] })
	x := mixed(64)
	eight := sequence(64, func(i int) byte { return byte(dtype.Float8E4M3FN.BitsSaturating(float64(x[i] * 200))) })
	five := sequence(64, func(i int) byte { return byte(dtype.Float8E5M2.BitsSaturating(float64(x[i] * 200))) })
	return []animal{
		{source: "narrow", kernel: "half2_relu", grid: line(1), block: line(32),
			args: []Arg{in(pairs), room(80), value(int32(20))}, want: map[int][]byte{1: pack(relu...)}},
		{source: "half", kernel: "half_dot", grid: line(1), block: line(32),
			args: []Arg{in(small), in(turned), room(2), value(int32(20))},
			want: map[int][]byte{2: pack(uint16(dtype.Float16.Bits(dot)))}},
		{source: "half", kernel: "half_atomic", grid: line(1), block: line(64),
			args: []Arg{in(small), room(2), room(4), value(int32(40))},
			want: map[int][]byte{1: pack(uint16(dtype.Float16.Bits(total))), 2: pack[uint16](0x4220, 0x4220)}},
		{source: "half", kernel: "to_fp8", grid: line(1), block: line(64),
			args: []Arg{in(x), room(64), room(64), value(float32(200)), value(int32(64))},
			want: map[int][]byte{1: eight, 2: five}},
		{source: "narrow", kernel: "half_axpy", grid: line(1), block: line(64),
			args: []Arg{in(half), in(other), value(float32(1.5)), value(int32(40))}, want: map[int][]byte{1: pack(axpy...)}},
		{source: "narrow", kernel: "bf16_sum", grid: line(1), block: line(32),
			args: []Arg{in(brain), room(2), value(int32(100))},
			want: map[int][]byte{1: pack(uint16(dtype.BFloat16.Bits(sum)))}},
	}
}

package ptxvm

import (
	"math"
	"slices"

	"gpuemu/internal/dtype"
)

// This file implements the launches of the zoo that Triton compiled, for sm_80 and for sm_90. Sizes are multiples of
// 16, which these kernels were made for, and no multiples of their tiles.

// tensor is an input whose elements have another format than Go has.
func tensor(d dtype.DType, v []float64) Arg { return Arg{Name: "in", Buffer: encoded(d, v), Role: In} }

// blank is an output that has nothing in it at first.
func blank(d dtype.DType, n int) Arg {
	return Arg{Name: "out", Buffer: make([]byte, n*d.Size()), Role: Out, Uninitialised: true, Element: d.Size()}
}

// kept gives n numbers of both signs that are numbers of the format.
func kept(d dtype.DType, n, from int) []float64 {
	v := make([]float64, n)
	dtype.Decode(v, d, encoded(d, sequence(n, func(i int) float64 { return scattered(i + from) })))
	return v
}

// triton is a launch of a kernel in some builds. Two pointers to memory that no kernel here uses follow the arguments.
func triton(kernel string, grid Dim, block int, args []Arg, builds ...string) animal {
	a := animal{source: "triton", kernel: kernel, grid: grid, block: line(block), shared: 64 << 10,
		args: append(args, value(uint64(0)), value(uint64(0)))}
	for _, b := range builds {
		a.files = append(a.files, "triton36/"+b)
	}
	return a
}

// gives says what a launch leaves in argument i, exactly.
func (a animal) gives(i int, want []byte) animal {
	if a.want == nil {
		a.want = map[int][]byte{}
	}
	a.want[i] = want
	return a
}

// nearly says what a launch leaves in argument i, within most times the largest element.
func (a animal) nearly(i int, d dtype.DType, most float64, want []float64) animal {
	if a.within == nil {
		a.within = map[int]bound{}
	}
	a.within[i] = bound{d, most}
	return a.gives(i, encoded(d, want))
}

// titled tells launches of one kernel apart.
func (a animal) titled(title string) animal {
	a.title = title
	return a
}

func tritonZoo() []animal {
	return slices.Concat(tritonElements(), tritonRows(), tritonIndices(), tritonProducts(), tritonAttention())
}

func tritonElements() []animal {
	const n, few = 1200, 592
	number := value(int32(n))
	f32, f16, bf16 := dtype.Float32, dtype.Float16, dtype.BFloat16
	x, y := kept(f32, n, 0), kept(f32, n, n)
	sum := sequence(n, func(i int) float64 { return x[i] + y[i] })
	hx, hy := kept(f16, few, 0), kept(f16, few, few)
	halves := sequence(few, func(i int) float64 { return hx[i] + hy[i] })
	gelu := sequence(few, func(i int) float64 {
		return 0.5 * x[i] * (1 + math.Tanh(0.7978845608*(x[i]+0.044715*x[i]*x[i]*x[i])))
	})
	gate, up := kept(bf16, n, 0), kept(bf16, n, n)
	silu := sequence(n, func(i int) float64 { return gate[i] / (1 + math.Exp(-gate[i])) * up[i] })
	const seed, drop = 1234560, float32(0.25)
	dropped := sequence(few, func(i int) float64 {
		r := int32(philox(i, seed)[0]) // tl.rand: the first word, folded to 31 bits
		if r < 0 {
			r = -r - 1
		}
		if float32(r)*4.6566127342e-10 > drop {
			return x[i] / (1 - float64(drop))
		}
		return 0
	})
	words := sequence(128, func(i int) int32 { return int32(uint32(i) * 2654435761) })
	const rows, half = 3, 64
	position := []int32{2, 0, 4}
	cos, sin := kept(f32, 5*half, 7), kept(f32, 5*half, 400)
	turned := make([]float64, rows*2*half)
	for r := range rows {
		for k := range half {
			c, s := cos[int(position[r])*half+k], sin[int(position[r])*half+k]
			low, high := x[r*2*half+k], x[r*2*half+half+k]
			turned[r*2*half+k], turned[r*2*half+half+k] = low*c-high*s, high*c+low*s
		}
	}
	return []animal{
		triton("add", line(2), 128, []Arg{tensor(f32, x), tensor(f32, y), blank(f32, n), number},
			"add-sm80", "add-sm90").gives(2, encoded(f32, sum)),
		triton("add", line(3), 32, []Arg{tensor(f16, hx), tensor(f16, hy), blank(f16, few), value(int32(few))},
			"add-fp16-sm80").titled("fp16").gives(2, encoded(f16, halves)),
		triton("gelu", line(2), 128, []Arg{tensor(f32, x[:few]), blank(f32, few), value(int32(few))}, "gelu-sm80").
			nearly(1, f32, 2e-6, gelu),
		triton("silu_mul", line(2), 128, []Arg{tensor(bf16, gate), tensor(bf16, up), blank(bf16, n), number},
			"silu_mul-sm80", "silu_mul-sm90").nearly(2, bf16, 0x1p-8, silu),
		triton("dropout", line(3), 128, []Arg{tensor(f32, x[:few]), blank(f32, few), value(int32(few)), value(drop),
			value(int32(seed))}, "dropout-sm80").nearly(1, f32, 5e-7, dropped),
		triton("inline_assembly", line(1), 128, []Arg{in(words), blank(dtype.Int32, 128)}, "inline_assembly-sm80").
			gives(1, pack(sequence(128, func(i int) int32 { return words[i]<<3&words[i] ^ 7 })...)),
		triton("rotary", line(rows), 64, []Arg{tensor(f32, x[:rows*2*half]), tensor(f32, cos), tensor(f32, sin),
			in(position)}, "rotary-sm80").nearly(0, f32, 5e-7, turned),
	}
}

// moments are the mean of a row and the root of its mean square about that, with eps.
func moments(row []float64, about bool) (mean, root float64) {
	for _, v := range row {
		mean += v / float64(len(row))
	}
	if !about {
		mean = 0
	}
	for _, v := range row {
		root += (v - mean) * (v - mean) / float64(len(row))
	}
	return mean, math.Sqrt(root + 1e-5)
}

func tritonRows() []animal {
	const rows, cols, long = 3, 112, 1040
	f32, f16, bf16, f8 := dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float8E4M3FN
	count, eps := value(int32(cols)), value(float32(1e-5))
	each := func(x []float64, cols int, f func(row []float64, c int) float64) []float64 {
		return sequence(len(x), func(i int) float64 { return f(x[i/cols*cols:][:cols], i%cols) })
	}
	total := func(row []float64) (s float64) {
		for _, v := range row {
			s += math.Exp(v)
		}
		return s
	}
	soft := func(row []float64, c int) float64 { return math.Exp(row[c]) / total(row) }
	x, wide := kept(f32, rows*cols, 0), kept(f16, 2*long, 0)
	gamma, beta := kept(f32, long, 3), kept(f32, long, 5)
	layer := each(wide, long, func(row []float64, c int) float64 {
		mean, root := moments(row, true)
		return (row[c]-mean)/root*gamma[c] + beta[c]
	})
	m0, r0 := moments(wide[:long], true)
	m1, r1 := moments(wide[long:], true)
	bx, bw := kept(bf16, rows*cols, 0), kept(bf16, cols, 9)
	rms := each(bx, cols, func(row []float64, c int) float64 {
		_, root := moments(row, false)
		return row[c] / root * bw[c]
	})
	logits, target := kept(f32, 4*long, 0), []int64{5, -16, 1039, 0}
	loss := sequence(4, func(r int) float64 {
		if target[r] < 0 {
			return 0
		}
		return math.Log(total(logits[r*long:][:long])) - logits[r*long+int(target[r])]
	})
	top := func(row []float64) (m float64) {
		for _, v := range row {
			m = max(m, math.Abs(v))
		}
		return m
	}
	quantised := each(x, cols, func(row []float64, c int) float64 { return row[c] / (top(row) / 448) })
	return []animal{
		triton("softmax", line(rows), 128, []Arg{tensor(f32, x), blank(f32, rows*cols), count, count},
			"softmax-sm80", "softmax-sm90").nearly(1, f32, 1e-6, each(x, cols, soft)),
		triton("softmax", line(2), 256, []Arg{tensor(f16, wide), blank(f16, 2*long), value(int32(long)), value(int32(long))},
			"softmax-fp16-sm90").titled("fp16").nearly(1, f16, 0x1p-10, each(wide, long, soft)),
		triton("layernorm", line(2), 128, []Arg{tensor(f16, wide), tensor(f32, gamma), tensor(f32, beta), blank(f32, 2*long),
			blank(f32, 2), blank(f32, 2), value(int32(long)), eps}, "layernorm-sm80").nearly(3, f32, 2e-6, layer).
			nearly(4, f32, 1e-4, []float64{m0, m1}).nearly(5, f32, 1e-6, []float64{1 / r0, 1 / r1}),
		triton("rmsnorm", line(rows), 128, []Arg{tensor(bf16, bx), tensor(bf16, bw), blank(bf16, rows*cols), count, eps},
			"rmsnorm-sm80", "rmsnorm-sm90").nearly(2, bf16, 0x1p-8, rms),
		triton("cross_entropy", line(4), 256, []Arg{tensor(f32, logits), in(target), blank(f32, 4), value(int32(long)),
			value(int32(-16))}, "cross_entropy-sm80", "cross_entropy-sm90").nearly(2, f32, 1e-6, loss),
		triton("quantise", line(rows), 128, []Arg{tensor(f32, x), blank(f8, rows*cols), blank(f32, rows), count},
			"quantise-sm90").nearly(1, f8, 0x1p-4, quantised).nearly(2, f32, 5e-7, sequence(rows, func(r int) float64 {
			return top(x[r*cols:][:cols]) / 448
		})),
	}
}

func tritonIndices() []animal {
	const rows, cols, n = 3, 112, 592
	f32, f16 := dtype.Float32, dtype.Float16
	x := kept(f32, rows*cols, 0)
	place := sequence(rows, func(r int) int32 {
		row := x[r*cols:][:cols]
		return int32(slices.Index(row, slices.Max(row)))
	})
	top := sequence(rows, func(r int) float32 { return float32(slices.Max(x[r*cols:][:cols])) })
	class := sequence(n, func(i int) int32 { return int32(i * i % 61) })
	bins := make([]int32, 64)
	for _, c := range class {
		bins[c]++
	}
	whole := sequence(240, func(i int) float32 { return float32(i*i%97 - 40) })
	sum, tops := float32(0), make([]float32, 4)
	for i, v := range whole {
		sum += v
		tops[i%4] = max(tops[i%4], v)
	}
	steps := sequence(16*cols, func(i int) float64 { return float64(i*i%23 - 8) })
	scanned, totals := slices.Clone(steps), make([]float64, 16)
	for i := range scanned {
		if i%cols > 0 {
			scanned[i] += scanned[i-1]
		}
		totals[i/cols] = scanned[i]
	}
	halved := sequence(80, func(i int) float64 { return x[i]*0.5 + 1 })
	centred := sequence(96, func(i int) float64 { return steps[i] - slices.Max(steps[i/16*16:][:16]) })
	sorted := slices.Clone(x[:96])
	for r := range 3 {
		slices.Sort(sorted[32*r:][:32])
	}
	tile := kept(f16, 48*80, 0)
	turned := sequence(48*80, func(i int) float64 { return tile[i%48*80+i/48] })
	ids, table := []int64{4, 0, 2}, kept(f16, 5*272, 0)
	rowsOf := sequence(3*272, func(i int) float64 { return table[int(ids[i/272])*272+i%272] })
	// All warps load the counter under the lock, and one thread stores it: the others have no use for what they load.
	locked := triton("atomics", line(2), 128, []Arg{in(whole), room(8), room(16), room(4), value(int32(240))},
		"atomics-sm80", "atomics-sm90").gives(1, pack(sum, 2)).gives(2, pack(tops...)).gives(3, pack(int32(0)))
	return []animal{
		locked,
		triton("halve_in_place", line(3), 128, []Arg{tensor(f32, x[:80]), value(int32(80))}, "halve_in_place-sm80",
			"halve_in_place-sm90").gives(0, encoded(f32, halved)),
		triton("centre_in_place", line(6), 128, []Arg{tensor(f32, steps[:96]), value(int32(16))}, "centre_in_place-sm80",
			"centre_in_place-sm90").gives(0, encoded(f32, centred)),
		triton("argmax", line(rows), 128, []Arg{tensor(f32, x), blank(f32, rows), blank(dtype.Int32, rows),
			value(int32(cols))}, "argmax-sm80").gives(1, pack(top...)).gives(2, pack(place...)),
		triton("histogram", line(3), 128, []Arg{in(class), room(256), value(int32(n))}, "histogram-sm80", "histogram-sm90").
			gives(1, pack(bins...)),
		triton("scan", line(4), 128, []Arg{tensor(f32, steps), blank(f32, 16*cols), blank(f32, 16), value(int32(16)),
			value(int32(cols))}, "scan-sm80").gives(1, encoded(f32, scanned)).gives(2, encoded(f32, totals)),
		triton("sort_rows", line(3), 32, []Arg{tensor(f32, x[:96]), blank(f32, 96)}, "sort_rows-sm80").
			gives(1, encoded(f32, sorted)),
		triton("transpose", Dim{2, 3, 1}, 128, []Arg{tensor(f16, tile), blank(f16, 48*80), value(int32(48)),
			value(int32(80))}, "transpose-sm80", "transpose-sm90").gives(1, encoded(f16, turned)),
		triton("embedding", Dim{3, 2, 1}, 128, []Arg{in(ids), tensor(f16, table), blank(f16, 3*272), value(int32(272))},
			"embedding-sm80").gives(2, encoded(f16, rowsOf)),
	}
}

// tritonProducts are products of matrices. Sums of products of normal numbers show how tensor cores add.
func tritonProducts() []animal {
	const m, n, k = 48, 80, 96
	var zoo []animal
	for _, c := range []struct {
		build                 string
		threads, tileM, tileN int
		in, out               dtype.DType
		most                  float64 // of the largest element; 0: exact
	}{
		{"fp16-sm80", 128, 64, 64, dtype.Float16, dtype.Float16, 0x1p-10},
		{"fp16-sm90", 128, 64, 64, dtype.Float16, dtype.Float32, 2e-6},
		{"fp16acc-sm80", 128, 32, 32, dtype.Float16, dtype.Float16, 0x1p-7},
		{"bf16-sm80", 128, 64, 32, dtype.BFloat16, dtype.BFloat16, 0x1p-8},
		{"tf32-sm80", 128, 32, 32, dtype.Float32, dtype.Float32, 0x1p-6}, // the last 13 bits of factors are cut off
		{"fp32-sm80", 64, 16, 16, dtype.Float32, dtype.Float32, 2e-6},
		{"fp8-sm90", 128, 64, 64, dtype.Float8E4M3FN, dtype.Float32, 1e-3},
		{"fp8e5-sm80", 128, 32, 32, dtype.Float8E5M2, dtype.Float32, 2e-6},
		{"int8-sm80", 128, 32, 32, dtype.Int8, dtype.Int32, 0},
	} {
		a, b := kept(c.in, m*k, 0), kept(c.in, k*n, m*k)
		if c.in == dtype.Int8 {
			a = sequence(m*k, func(i int) float64 { return float64(int8(i * 37)) })
			b = sequence(k*n, func(i int) float64 { return float64(int8(i*i*11 + 3)) })
		}
		product := sequence(m*n, func(i int) (s float64) {
			for q := range k {
				s += a[i/n*k+q] * b[q*n+i%n]
			}
			return s
		})
		launch := triton("matmul", Dim{(m + c.tileM - 1) / c.tileM, (n + c.tileN - 1) / c.tileN, 1}, c.threads,
			[]Arg{tensor(c.in, a), tensor(c.in, b), blank(c.out, m*n), value(int32(m)), value(int32(n)), value(int32(k)),
				value(int32(k)), value(int32(n)), value(int32(n))}, "matmul-"+c.build).titled(c.build)
		if c.most == 0 {
			zoo = append(zoo, launch.gives(2, encoded(c.out, product)))
		} else {
			zoo = append(zoo, launch.nearly(2, c.out, c.most, product))
		}
	}
	return zoo
}

func tritonAttention() []animal {
	const heads, length = 2, 80
	var zoo []animal
	for _, c := range []struct {
		build  string
		d      dtype.DType
		dim    int
		causal bool
		most   float64
	}{
		{"attention-sm80", dtype.Float16, 32, true, 0x1p-10},
		{"attention-sm90", dtype.BFloat16, 64, false, 0x1p-7},
	} {
		const scale = float32(0.125)
		size := heads * length * c.dim
		q, k, v := kept(c.d, size, 0), kept(c.d, size, size), kept(c.d, size, 2*size)
		out, lse := make([]float64, size), make([]float64, heads*length)
		for row := range heads * length {
			first := row / length * length
			end := first + length
			if c.causal {
				end = row + 1
			}
			total := 0.0
			for j := first; j < end; j++ {
				s := 0.0
				for d := range c.dim {
					s += q[row*c.dim+d] * k[j*c.dim+d]
				}
				w := math.Exp(s * float64(scale))
				total += w
				for d := range c.dim {
					out[row*c.dim+d] += w * v[j*c.dim+d]
				}
			}
			for d := range c.dim {
				out[row*c.dim+d] /= total
			}
			lse[row] = math.Log2(total)
		}
		zoo = append(zoo, triton("attention", Dim{2, heads, 1}, 128, []Arg{tensor(c.d, q), tensor(c.d, k), tensor(c.d, v),
			blank(c.d, size), blank(dtype.Float32, heads*length), value(scale), value(int32(length)),
			value(int64(length * c.dim))}, c.build).titled(c.d.String()).nearly(3, c.d, c.most, out).
			nearly(4, dtype.Float32, 2e-6, lse))
	}
	return zoo
}

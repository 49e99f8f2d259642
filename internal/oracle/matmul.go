// This file implements matrix products and their fused epilogues.

package oracle

import (
	"math"

	"gpuemu/internal/dtype"
	"gpuemu/internal/gemm"
	"gpuemu/internal/opspec"
)

// tensorCore returns the smallest normal value of the case's type if operands of it may go through tensor cores, else
// 0.
func (c *call) tensorCore() float64 {
	if c.tf32 {
		return flushFloat
	}
	if c.narrow > 0 && c.T != dtype.Float32 && c.T != dtype.Float64 {
		return c.T.SmallestNormal()
	}
	return 0
}

// matmul fills the output with a·b, for each of a batch where there is one.
func (c *call) matmul() error {
	batch, ok := c.dims["B"]
	if !ok {
		batch = 1
	}
	a, b, out := c.data("a"), c.data("b"), c.out("output")
	s := c.matmulShape()
	for i := range batch {
		at := i * s.m * s.n
		p := product{v: out.Value[at : at+s.m*s.n], e: out.Bound[at : at+s.m*s.n]}
		c.dotsInto(&p, c.inputs(a[i*s.m*s.k:(i+1)*s.m*s.k]), c.inputs(b[i*s.k*s.n:(i+1)*s.k*s.n]), s)
		if p.w == nil && !out.rounds {
			continue // value and error are in their place, and there is nothing to add
		}
		parallel(s.m*s.n, 4, func(lo, hi int) {
			for j := lo; j < hi; j++ {
				out.set(at+j, p.at(j))
			}
		})
	}
	return nil
}

func (c *call) matmulShape() dotShape {
	return dotShape{m: c.dim("M"), n: c.dim("N"), k: c.dim("K"), tensorCore: c.tensorCore()}
}

// activate applies the activation a fused epilogue may have.
func (c *call) activate(name string, x num) num {
	switch name {
	case "relu":
		if x.clean() {
			return num{v: math.Max(x.v, 0), e: x.e}
		}
		return c.max2(x, exact(0))
	case "gelu":
		return c.geluErf(x)
	case "gelu_tanh":
		return c.geluTanh(x)
	case "silu":
		return c.silu(x)
	}
	return x
}

func (c *call) matmulBiasAct() error {
	bias, act, out := c.data("bias"), c.attrs.Str("act"), c.out("output")
	s := c.matmulShape()
	s.bias = largest(finitePart(bias))
	p := c.dots(c.inputs(c.data("a")), c.inputs(c.data("b")), s)
	parallel(s.m*s.n, 32, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			out.set(j, c.activate(act, p.biased(&c.arith, j, c.cast(p.at(j)), c.input(bias[j%s.n]), s)))
		}
	})
	return nil
}

// int8Matmul: the integer sum is exact (K·127² stays below 2^31 for every K a tensor can have in practice; beyond
// 133000 terms an int32 accumulator may wrap and the contract does not decide), its conversion to the accumulation
// type rounds once, and two scales follow in either order.
func (c *call) int8Matmul() error {
	const maxTerms = (1<<31 - 1) / (128 * 128)
	sa, sb := c.data("scale_a"), c.data("scale_b")
	a, b, out := c.data("a"), c.data("b"), c.out("output")
	s := dotShape{m: c.dim("M"), n: c.dim("N"), k: c.dim("K")}
	p := c.dots(matrix{v: a}, matrix{v: b}, s)
	parallel(s.m*s.n, 16, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			acc := c.rounded(p.v[j], 0, c.u)
			ra, rb := c.input(sa[j/s.n]), c.input(sb[j%s.n])
			out.set(j, either(c.mul(c.mul(acc, ra), rb), either(c.mul(c.mul(acc, rb), ra), c.mul(acc, c.mul(ra, rb)))))
			if s.k > maxTerms {
				out.mark(j)
			}
		}
	})
	return nil
}

// fp8Matmul: on tensor cores (Ada: blocks of 16 products, Hopper: 32) every term of a block, the running sum among
// them, is cut to 13 fractional bits below the largest of them, and the new running sum to 13 bits. Largest is the
// running sum as soon as it exceeds the products, so a chain of n terms in blocks of 16 loses at most
// (n + 2·n/16)·2^-13 of its largest partial sum or term. A chain ends after 128 terms where sums are promoted to
// float32: over all chains that is at most (128+16)·2^-13·S. Chains also run over contiguous terms, forwards or
// backwards, so no running sum leaves the range of differences of prefix sums, which for mixed signs is far below S.
func (c *call) fp8Matmul() error {
	a, b, out := c.data("a"), c.data("b"), c.out("output")
	scaleA, scaleB := c.input(c.data("scale_a")[0]), c.input(c.data("scale_b")[0])
	s := c.matmulShape()
	p := c.dots(matrix{v: a}, matrix{v: b}, s)
	rowMax, colMax := make([]float64, s.m), make([]float64, s.n)
	a, b = atLeast(a, s.tensorCore), atLeast(b, s.tensorCore)
	for i, v := range a {
		rowMax[i/s.k] = math.Max(rowMax[i/s.k], v)
	}
	for i, v := range b {
		colMax[i%s.n] = math.Max(colMax[i%s.n], v)
	}
	sumsAbs := make([]float64, s.m*s.n) // Σ|a||b| of each output, subnormals raised to the smallest normal value
	gemm.Mul(sumsAbs, a, b, s.m, s.n, s.k, gemm.Options{})
	held := 128.0 // terms between two promotions
	if c.attrs.Bool("fast_accum") {
		held = float64(s.k)
	}
	chain := math.Min(float64(s.k), held)
	perChain := chain + float64(2*math.Ceil(chain/16))
	inAll := float64(s.k) + float64(2*math.Ceil(float64(s.k)/16)) + float64(2*math.Ceil(float64(s.k)/held))
	va, vb := c.data("a"), c.data("b")
	parallel(s.m*s.n, s.k, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			acc := p.at(j)
			if acc.v-acc.v == 0 && c.narrow > 0 {
				low, high, sum := 0.0, 0.0, 0.0
				for t := range s.k {
					sum += float64(va[j/s.n*s.k+t] * vb[t*s.n+j%s.n])
					low, high = math.Min(low, sum), math.Max(high, sum)
				}
				widest := math.Max(high-low, float64(rowMax[j/s.n]*colMax[j%s.n]))
				acc.e += float64(0x1p-13 * math.Min(float64(perChain*sumsAbs[j]), float64(inAll*widest)))
			}
			x := either(c.mul(c.mul(acc, scaleA), scaleB), c.mul(acc, c.mul(scaleA, scaleB)))
			out.set(j, x)
		}
	})
	return nil
}

func matmulOps() []*Op {
	const anyOrder = "float32 accumulation (float64 for float64) in any order, tensor cores for 16-bit inputs, tf32 " +
		"only by compute = tf32; "
	dims := func(extra ...opspec.Dim) []opspec.Dim {
		return append(extra,
			opspec.Dim{Name: "M", Candidates: []int{1, 2, 7, 16, 64, 128}, Empty: true, Tile: 64},
			opspec.Dim{Name: "K", Candidates: []int{1, 3, 16, 64, 129, 256}, Min: 1, Tile: 32, Reduced: true},
			opspec.Dim{Name: "N", Candidates: []int{1, 5, 15, 64, 128}, Min: 1, Tile: 64},
		)
	}
	batch := opspec.Dim{Name: "B", Candidates: []int{1, 2, 5}, Empty: true}
	in := func(name string, dims ...string) opspec.Input { return opspec.Input{Name: name, Dims: dims} }
	fixed := func(name, d string, role opspec.Role, dims ...string) opspec.Input {
		i := opspec.Input{Name: name, Dims: dims, DType: d, Role: role}
		if role == opspec.RoleScale {
			i.Domain.Finite = true
		}
		return i
	}
	// The rows of offset and rising_max are alike, and 13 bits of a sum of them do not tell one from another.
	alike := func(name string, dims ...string) opspec.Input {
		return opspec.Input{Name: name, Dims: dims, Rare: []string{"offset", "rising_max"}}
	}
	output := func(d string, dims ...string) []opspec.Output {
		return []opspec.Output{{Name: "output", Dims: dims, DType: d}}
	}
	return []*Op{
		{
			Name: "matmul", Aliases: []string{"gemm", "mm"}, Family: "matmul",
			Doc: "a b", Contract: anyOrder + "one rounding to the output type",
			Schema: &opspec.Schema{
				Dims: dims(), DTypes: plainFloats(), Outputs: output("", "M", "N"),
				Inputs: []opspec.Input{in("a", "M", "K"), in("b", "K", "N")},
			},
			ref: (*call).matmul,
		},
		{
			Name: "batched_matmul", Aliases: []string{"bmm"}, Family: "matmul",
			Doc: "a b for each of a batch", Contract: anyOrder + "one rounding to the output type",
			Schema: &opspec.Schema{
				Dims: dims(batch), DTypes: plainFloats(), Outputs: output("", "B", "M", "N"),
				Inputs: []opspec.Input{in("a", "B", "M", "K"), in("b", "B", "K", "N")},
			},
			ref: (*call).matmul,
		},
		{
			Name: "matmul_bias_act", Aliases: []string{"linear"}, Family: "matmul",
			Doc: "act(a b + bias)", Contract: anyOrder + "epilogue in the accumulation type; the product may be " +
				"rounded to the output type before it, as cuBLAS does where it splits K",
			Schema: &opspec.Schema{
				Dims: dims(), DTypes: plainFloats(), Outputs: output("", "M", "N"),
				Attrs: []opspec.Attr{{
					Name: "act", Kind: opspec.String, Doc: "activation of the epilogue",
					Values: []any{"none", "relu", "gelu", "gelu_tanh", "silu"},
				}},
				Inputs: []opspec.Input{in("a", "M", "K"), in("b", "K", "N"), in("bias", "N")},
			},
			ref: (*call).matmulBiasAct,
		},
		{
			Name: "int8_matmul", Aliases: []string{"scaled_int8_matmul"}, Family: "matmul",
			Doc: "(a b) scale_a scale_b, a scale per row of a and per column of b, in the dtype of the case",
			Contract: "exact int32 accumulation; scales applied in float32 in either order, one rounding to the output " +
				"type",
			Schema: &opspec.Schema{
				Dims: dims(), DTypes: []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16},
				Outputs: output("", "M", "N"),
				Inputs: []opspec.Input{
					fixed("a", "int8", opspec.RoleData, "M", "K"), fixed("b", "int8", opspec.RoleData, "K", "N"),
					fixed("scale_a", "float32", opspec.RoleScale, "M"), fixed("scale_b", "float32", opspec.RoleScale, "N"),
				},
			},
			ref: (*call).int8Matmul,
		},
		{
			Name: "fp8_matmul", Aliases: []string{"scaled_fp8_matmul"}, Family: "matmul",
			Doc: "(a b) scale_a scale_b, one scale a tensor",
			Contract: "products summed as fp8 tensor cores do: 13 fractional bits within 128 terms, float32 between them; " +
				"fast_accum: 13 bits throughout; scales in float32 in either order, one rounding to the output type",
			Schema: &opspec.Schema{
				Dims: dims(), DTypes: []dtype.DType{dtype.Float8E4M3FN, dtype.Float8E5M2},
				Outputs: output(opspec.AttrDType+"out_dtype", "M", "N"),
				Attrs: []opspec.Attr{
					{
						Name: "fast_accum", Kind: opspec.Bool, Values: []any{false, true}, Fixed: true,
						Doc: "the candidate keeps its running sum in the tensor core",
					},
					{
						Name: "out_dtype", Kind: opspec.String, Values: []any{"float32", "float16", "bfloat16"}, Fixed: true,
						Doc: "type of the output",
					},
				},
				Inputs: []opspec.Input{
					alike("a", "M", "K"), alike("b", "K", "N"),
					fixed("scale_a", "float32", opspec.RoleScale, "1"), fixed("scale_b", "float32", opspec.RoleScale, "1"),
				},
			},
			ref: (*call).fp8Matmul,
		},
	}
}

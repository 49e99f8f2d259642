package honest

import (
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/rng"
	"gpuemu/internal/tensor"
)

// drawer makes random calls of every op with small shapes.
type drawer struct {
	r *rng.RNG
	c *Call
}

func (d *drawer) dim(lo, hi int) int { return lo + d.r.Intn(hi-lo+1) }

// fill adds an input of the given dtype whose values come from f.
func (d *drawer) fill(name string, t dtype.DType, f func() float64, dims ...int) {
	a := Array{Shape: tensor.MustShape(dims...), DType: t}
	a.X = make([]float64, a.Shape.Elems())
	for i := range a.X {
		a.X[i] = t.Float64(t.Bits(f()))
	}
	d.c.Inputs[name] = a
}

func (d *drawer) normal(name string, dims ...int) { d.fill(name, d.c.T, d.r.Normal, dims...) }

func (d *drawer) index(name string, t dtype.DType, n int, dims ...int) {
	d.fill(name, t, func() float64 { return float64(d.r.Intn(n)) }, dims...)
}

func (d *drawer) positive(name string, t dtype.DType, dims ...int) {
	d.fill(name, t, func() float64 { return 0.1 + d.r.Float64() }, dims...)
}

// affine draws a scale and a zero point.
func (d *drawer) affine(dims ...int) {
	d.positive("scale", dtype.Float32, dims...)
	d.fill("zero_point", dtype.Int8, func() float64 { return 20 * d.r.Normal() }, dims...)
}

func (d *drawer) attr(name string, v any) { d.c.Attrs[name] = v }

func (d *drawer) output(name string, t dtype.DType, dims ...int) {
	d.c.Outputs[name] = OutSpec{Shape: tensor.MustShape(dims...), DType: t}
}

// draw returns a random call. fp8_matmul has fp8 operands whatever t is.
func draw(r *rng.RNG, op string, t dtype.DType) *Call {
	d := &drawer{r: r, c: &Call{Op: op, T: t, Attrs: opspec.Attrs{"math": "gpu"}, Inputs: map[string]Array{},
		Outputs: map[string]OutSpec{}}}
	if !d.elementwise(op) && !d.rows(op) && !d.products(op) && !d.windows(op) && !d.selections(op) {
		panic("draw: no such op: " + op)
	}
	return d.c
}

func (d *drawer) elementwise(op string) bool {
	dims := []int{d.dim(1, 2), d.dim(1, 3), d.dim(1, 40)}
	first, second := "a", "b"
	switch op {
	case "relu", "leaky_relu", "elu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "softplus", "exp":
		d.normal("input", dims...)
		second = ""
	case "log", "rsqrt":
		d.positive("input", d.c.T, dims...)
		second = ""
	case "swiglu", "geglu":
		first, second = "gate", "up"
	case "add", "mul":
	default:
		return false
	}
	if second != "" {
		d.normal(first, dims...)
		d.normal(second, dims...)
	}
	d.output("output", d.c.T, dims...)
	return true
}

func (d *drawer) rows(op string) bool {
	b, s, h := d.dim(1, 2), d.dim(1, 3), d.dim(2, 70)
	switch op {
	case "sum", "mean", "max", "argmax", "var", "logsumexp":
		d.normal("input", b, s, h)
		t := d.c.T
		if op == "argmax" {
			t = dtype.Int64
		}
		d.attr("correction", int64(d.r.Intn(2)))
		d.output("output", t, b, s)
		return true
	case "cumsum", "softmax", "log_softmax", "l2norm":
		d.normal("input", b, s, h)
	case "layernorm", "rmsnorm":
		d.normal("input", b, s, h)
		d.normal("weight", h)
		d.normal("bias", h)
	case "groupnorm", "batchnorm":
		s = 4
		d.normal("input", b, s, h)
		d.attr("groups", int64(2))
		for _, n := range []string{"weight", "bias", "mean"} {
			d.normal(n, s)
		}
		d.positive("var", d.c.T, s)
	case "cross_entropy":
		d.normal("logits", s, h)
		d.index("target", dtype.Int64, h, s)
		d.attr("label_smoothing", []float64{0, 0.1}[d.r.Intn(2)])
		d.output("output", d.c.T, s)
		return true
	case "rope":
		n := 2 * d.dim(1, 8)
		d.normal("input", b, s, 2, n)
		d.normal("cos", s, n/2)
		d.normal("sin", s, n/2)
		d.attr("interleaved", d.r.Bool(0.5))
		d.output("output", d.c.T, b, s, 2, n)
		return true
	default:
		return false
	}
	d.output("output", d.c.T, b, s, h)
	return true
}

func (d *drawer) products(op string) bool {
	b, m, n, k := d.dim(1, 2), d.dim(1, 4), d.dim(1, 5), d.dim(1, 70)
	switch op {
	case "matmul", "matmul_bias_act":
		d.normal("a", m, k)
		d.normal("b", k, n)
		d.normal("bias", n)
		d.attr("act", []string{"none", "relu", "gelu", "gelu_tanh", "silu"}[d.r.Intn(5)])
		d.output("output", d.c.T, m, n)
	case "batched_matmul":
		d.normal("a", b, m, k)
		d.normal("b", b, k, n)
		d.output("output", d.c.T, b, m, n)
	case "int8_matmul":
		d.fill("a", dtype.Int8, func() float64 { return 100 * d.r.Normal() }, m, k)
		d.fill("b", dtype.Int8, func() float64 { return 100 * d.r.Normal() }, k, n)
		d.positive("scale_a", dtype.Float32, m)
		d.positive("scale_b", dtype.Float32, n)
		d.output("output", d.c.T, m, n)
	case "fp8_matmul":
		d.c.T = dtype.Float8E4M3FN
		d.normal("a", m, k)
		d.normal("b", k, n)
		d.positive("scale_a", dtype.Float32, 1)
		d.positive("scale_b", dtype.Float32, 1)
		d.attr("fast_accum", d.r.Bool(0.5))
		d.output("output", dtype.Float32, m, n)
	case "attention", "causal_attention", "window_attention", "gqa_attention", "decode_attention":
		d.attention(op)
	default:
		return false
	}
	return true
}

func (d *drawer) attention(op string) {
	b, hkv, m, n, c := d.dim(1, 2), d.dim(1, 2), d.dim(1, 5), d.dim(5, 70), d.dim(1, 16)
	hq := hkv
	if op == "gqa_attention" {
		hq *= 4
	}
	d.normal("k", b, hkv, n, c)
	d.normal("v", b, hkv, n, c)
	if op == "decode_attention" {
		d.normal("q", b, hq, c)
		d.fill("kv_len", dtype.Int32, func() float64 { return float64(2 + d.r.Intn(n-1)) }, b)
		d.output("output", d.c.T, b, hq, c)
		return
	}
	d.normal("q", b, hq, m, c)
	d.output("output", d.c.T, b, hq, m, c)
	d.attr("causal", op == "causal_attention" || op == "window_attention")
	if op == "window_attention" {
		d.attr("window", int64(3))
	}
}

func (d *drawer) windows(op string) bool {
	b, ci, co, size := d.dim(1, 2), d.dim(1, 3), d.dim(1, 3), d.dim(5, 9)
	pad, stride := d.r.Intn(2), d.dim(1, 2)
	out := (size+2*pad-3)/stride + 1
	for _, n := range []string{"stride", "padding"} {
		d.attr(n, int64(map[string]int{"stride": stride, "padding": pad}[n]))
	}
	d.attr("dilation", int64(1))
	switch op {
	case "conv1d":
		d.normal("input", b, ci, size)
		d.normal("weight", co, ci, 3)
		d.normal("bias", co)
		d.output("output", d.c.T, b, co, out)
	case "conv2d":
		d.normal("input", b, ci, size, size)
		d.normal("weight", co, ci, 3, 3)
		d.normal("bias", co)
		d.output("output", d.c.T, b, co, out, out)
	case "depthwise_conv2d":
		d.normal("input", b, ci, size, size)
		d.normal("weight", ci, 1, 3, 3)
		d.normal("bias", ci)
		d.output("output", d.c.T, b, ci, out, out)
	case "max_pool2d", "avg_pool2d":
		d.normal("input", b, ci, size, size)
		d.attr("kernel", int64(3))
		d.output("output", d.c.T, b, ci, out, out)
	default:
		return false
	}
	return true
}

func (d *drawer) selections(op string) bool {
	r, c, k := d.dim(1, 4), d.dim(4, 70), d.dim(1, 4)
	groups := (c + 31) / 32
	scales := map[string][]int{"tensor": {1}, "row": {r}, "group": {r, groups}, "fp8_row": {r}}
	d.attr("k", int64(k))
	d.attr("group", int64(32))
	switch op {
	case "embedding":
		d.normal("table", r, c)
		d.index("index", dtype.Int64, r, k)
		d.output("output", d.c.T, k, c)
	case "gather":
		d.normal("input", r, c)
		d.index("index", dtype.Int64, c, r, k)
		d.output("output", d.c.T, r, k)
	case "scatter_add":
		d.normal("input", r, c)
		d.index("index", dtype.Int64, r, 2*k)
		d.normal("src", 2*k, c)
		d.output("output", d.c.T, r, c)
	case "topk":
		d.normal("input", r, c)
		d.output("values", d.c.T, r, k)
		d.output("indices", dtype.Int64, r, k)
	case "moe_routing":
		d.normal("logits", r, c)
		d.attr("renormalize", d.r.Bool(0.5))
		d.output("weights", d.c.T, r, k)
		d.output("indices", dtype.Int32, r, k)
	case "quantize_tensor", "quantize_row", "quantize_group":
		d.normal("input", r, c)
		d.output("q", dtype.Int8, r, c)
		d.output("scale", dtype.Float32, scales[op[len("quantize_"):]]...)
	case "quantize_fp8_row":
		d.normal("input", r, c)
		d.output("q", dtype.Float8E4M3FN, r, c)
		d.output("scale", dtype.Float32, r)
	case "dequantize_tensor", "dequantize_row", "dequantize_group":
		d.fill("q", dtype.Int8, func() float64 { return 50 * d.r.Normal() }, r, c)
		d.positive("scale", dtype.Float32, scales[op[len("dequantize_"):]]...)
		d.output("output", d.c.T, r, c)
	case "quantize_static_tensor", "quantize_static_row":
		d.normal("input", r, c)
		d.affine(scales[op[len("quantize_static_"):]]...)
		d.output("q", dtype.Int8, r, c)
	case "dequantize_affine_tensor", "dequantize_affine_row":
		d.fill("q", dtype.Int8, func() float64 { return 50 * d.r.Normal() }, r, c)
		d.affine(scales[op[len("dequantize_affine_"):]]...)
		d.output("output", d.c.T, r, c)
	default:
		return false
	}
	return true
}

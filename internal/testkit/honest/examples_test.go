package honest

import (
	"math"
	"testing"

	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
	"gpuemu/internal/tensor"
)

// lit is a tensor written down.
type lit struct {
	shape tensor.Shape
	x     []float64
}

func of(x []float64, dims ...int) lit { return lit{tensor.MustShape(dims...), x} }

func vec(x ...float64) []float64 { return x }

// example is an op on a few numbers, computed by hand.
type example struct {
	name  string
	op    string
	attrs opspec.Attrs
	in    map[string]lit
	want  map[string]lit
}

// row3 is an input [1,1,n] with an output of the same shape.
func row3(name, op string, attrs opspec.Attrs, x, want []float64) example {
	return example{name, op, attrs, map[string]lit{"input": of(x, 1, 1, len(x))},
		map[string]lit{"output": of(want, 1, 1, len(want))}}
}

// reduced is an input [1,1,n] with an output [1,1].
func reduced(name, op string, attrs opspec.Attrs, x []float64, want float64) example {
	return example{name, op, attrs, map[string]lit{"input": of(x, 1, 1, len(x))},
		map[string]lit{"output": of(vec(want), 1, 1)}}
}

var nan = math.NaN()

func pointwiseExamples() []example {
	ninf := math.Inf(-1)
	return []example{
		row3("", "relu", nil, vec(-1, 2, nan, inf, ninf), vec(0, 2, nan, inf, 0)),
		row3("", "leaky_relu", opspec.Attrs{"alpha": 0.5}, vec(-2, 2, nan, ninf), vec(-1, 2, nan, ninf)),
		row3("", "elu", opspec.Attrs{"alpha": 2.0}, vec(-1, 0, 3, ninf, nan, inf), vec(-1.264241, 0, 3, -2, nan, inf)),
		row3("", "gelu", nil, vec(0, 1, -1, inf, nan), vec(0, 0.841345, -0.158655, inf, nan)),
		row3("", "gelu_tanh", nil, vec(0, 1, -1, inf, nan), vec(0, 0.841192, -0.158808, inf, nan)),
		row3("", "silu", nil, vec(0, 1, -1, -1e30, inf, nan), vec(0, 0.731059, -0.268941, 0, inf, nan)),
		row3("", "sigmoid", nil, vec(0, 1, -1, inf, ninf, nan), vec(0.5, 0.731059, 0.268941, 1, 0, nan)),
		row3("", "tanh", nil, vec(0, 0.5, -1, inf, nan), vec(0, 0.462117, -0.761594, 1, nan)),
		row3("", "softplus", nil, vec(0, 1, 30, -40, ninf, inf, nan), vec(0.693147, 1.313262, 30, 0, 0, inf, nan)),
		row3("beta", "softplus", opspec.Attrs{"beta": 2.0, "threshold": 5.0}, vec(0, 3), vec(0.346574, 3)),
		row3("", "exp", nil, vec(0, 1, -1, ninf, inf, nan), vec(1, 2.718282, 0.367879, 0, inf, nan)),
		row3("", "log", nil, vec(1, 2, 0, -1, inf, nan), vec(0, 0.693147, ninf, nan, inf, nan)),
		row3("", "rsqrt", nil, vec(1, 4, 0, math.Copysign(0, -1), -1, inf), vec(1, 0.5, inf, ninf, nan, 0)),
		{"", "add", nil, map[string]lit{"a": of(vec(1, inf), 1, 1, 2), "b": of(vec(2, ninf), 1, 1, 2)},
			map[string]lit{"output": of(vec(3, nan), 1, 1, 2)}},
		{"", "mul", nil, map[string]lit{"a": of(vec(1.5, inf), 1, 1, 2), "b": of(vec(2, 0), 1, 1, 2)},
			map[string]lit{"output": of(vec(3, nan), 1, 1, 2)}},
		{"", "swiglu", nil, map[string]lit{"gate": of(vec(1, 0), 1, 1, 2), "up": of(vec(2, 7), 1, 1, 2)},
			map[string]lit{"output": of(vec(1.462117, 0), 1, 1, 2)}},
		{"", "geglu", nil, map[string]lit{"gate": of(vec(1, 0), 1, 1, 2), "up": of(vec(2, 7), 1, 1, 2)},
			map[string]lit{"output": of(vec(1.682689, 0), 1, 1, 2)}},
	}
}

func rowExamples() []example {
	ninf := math.Inf(-1)
	return []example{
		reduced("", "sum", nil, vec(1, 2, 3.5), 6.5),
		{"empty", "sum", nil, map[string]lit{"input": of(nil, 1, 2, 0)}, map[string]lit{"output": of(vec(0, 0), 1, 2)}},
		reduced("", "mean", nil, vec(1, 2, 6), 3),
		reduced("", "max", nil, vec(1, 4, -6), 4),
		reduced("nan", "max", nil, vec(1, nan, 4), nan),
		reduced("-inf", "max", nil, vec(ninf, ninf), ninf),
		reduced("", "argmax", nil, vec(1, 4, -6), 1),
		reduced("nan", "argmax", nil, vec(1, 4, nan, inf), 2),
		reduced("first", "argmax", opspec.Attrs{"ties": "first"}, vec(1, 4, 4), 1),
		reduced("", "var", opspec.Attrs{"correction": int64(1)}, vec(1, 2, 3, 6), 14.0/3),
		reduced("biased", "var", nil, vec(1, 2, 3, 6), 3.5),
		reduced("one", "var", opspec.Attrs{"correction": int64(1)}, vec(7), nan),
		reduced("inf", "var", nil, vec(1, inf, 2), nan),
		reduced("", "logsumexp", nil, vec(0, 0), 0.693147),
		reduced("-inf", "logsumexp", nil, vec(ninf, ninf), ninf),
		reduced("some -inf", "logsumexp", nil, vec(ninf, 3, ninf), 3),
		reduced("large", "logsumexp", nil, vec(1000, 1000), 1000.693147),
		row3("", "cumsum", nil, vec(1, 2, 3, 4), vec(1, 3, 6, 10)),
		row3("nan", "cumsum", nil, vec(1, nan, 3), vec(1, nan, nan)),
		row3("", "softmax", nil, vec(0, 0), vec(0.5, 0.5)),
		row3("-inf first", "softmax", nil, vec(ninf, 1000, 1000), vec(0, 0.5, 0.5)),
		row3("inf", "softmax", nil, vec(inf, 1), vec(nan, nan)),
		row3("nan", "softmax", nil, vec(1, nan), vec(nan, nan)),
		row3("rising", "softmax", nil, vec(0, 1, 2), vec(0.090031, 0.244728, 0.665241)),
		row3("", "log_softmax", nil, vec(0, 0, ninf), vec(-0.693147, -0.693147, ninf)),
		row3("", "l2norm", nil, vec(3, 4), vec(0.6, 0.8)),
		row3("zero", "l2norm", nil, vec(0, 0), vec(0, 0)),
		{"", "layernorm", nil,
			map[string]lit{"input": of(vec(1, 3), 1, 1, 2), "weight": of(vec(1, 2), 2), "bias": of(vec(0, 1), 2)},
			map[string]lit{"output": of(vec(-0.999995, 2.99999), 1, 1, 2)}},
		{"", "rmsnorm", nil, map[string]lit{"input": of(vec(3, 4), 1, 1, 2), "weight": of(vec(1, 2), 2)},
			map[string]lit{"output": of(vec(0.848528, 2.262742), 1, 1, 2)}},
		{"", "groupnorm", opspec.Attrs{"groups": int64(2)},
			map[string]lit{"input": of(vec(1, 3, 10, 30), 1, 2, 2), "weight": of(vec(1, 2), 2), "bias": of(vec(0, 1), 2)},
			map[string]lit{"output": of(vec(-0.999995, 0.999995, -1, 3), 1, 2, 2)}},
		{"", "batchnorm", nil,
			map[string]lit{"input": of(vec(1, 3), 1, 1, 2), "mean": of(vec(2), 1), "var": of(vec(4), 1),
				"weight": of(vec(2), 1), "bias": of(vec(10), 1)},
			map[string]lit{"output": of(vec(9, 11), 1, 1, 2)}},
		{"", "cross_entropy", nil, map[string]lit{"logits": of(vec(0, 0, 1, 2, ninf, 0), 3, 2),
			"target": of(vec(1, -100, 1), 3)}, map[string]lit{"output": of(vec(0.693147, 0, 0), 3)}},
		{"smooth", "cross_entropy", opspec.Attrs{"label_smoothing": 0.5}, map[string]lit{"logits": of(vec(0, 2), 1, 2),
			"target": of(vec(1), 1)}, map[string]lit{"output": of(vec(0.626928), 1)}},
		{"sum", "cross_entropy", opspec.Attrs{"reduction": "sum"}, map[string]lit{"logits": of(vec(0, 0, 1, 2, 0, 0), 3, 2),
			"target": of(vec(1, -100, 1), 3)}, map[string]lit{"output": {shape: tensor.MustShape(), x: vec(2 * 0.693147)}}},
		{"mean", "cross_entropy", opspec.Attrs{"reduction": "mean"}, map[string]lit{
			"logits": of(vec(0, 0, 1, 2, 0, 0), 3, 2), "target": of(vec(1, -100, 1), 3)},
			map[string]lit{"output": {shape: tensor.MustShape(), x: vec(0.693147)}}},
		{"mean of none", "cross_entropy", opspec.Attrs{"reduction": "mean"}, map[string]lit{"logits": of(vec(1, 2), 1, 2),
			"target": of(vec(-100), 1)}, map[string]lit{"output": {shape: tensor.MustShape(), x: vec(nan)}}},
		{"halves", "rope", nil, map[string]lit{"input": of(vec(1, 2, 3, 4), 1, 1, 1, 4), "cos": of(vec(0, 1), 1, 2),
			"sin": of(vec(1, 0), 1, 2)}, map[string]lit{"output": of(vec(-3, 2, 1, 4), 1, 1, 1, 4)}},
		{"interleaved", "rope", opspec.Attrs{"interleaved": true}, map[string]lit{
			"input": of(vec(1, 2, 3, 4), 1, 1, 1, 4), "cos": of(vec(0, 1), 1, 2), "sin": of(vec(1, 0), 1, 2)},
			map[string]lit{"output": of(vec(-2, 1, 3, 4), 1, 1, 1, 4)}},
	}
}

func productExamples() []example {
	ab := map[string]lit{"a": of(vec(1, 2, 3, 4), 2, 2), "b": of(vec(5, 6, 7, 8), 2, 2)}
	biased := map[string]lit{"a": ab["a"], "b": ab["b"], "bias": of(vec(-19, -22), 2)}
	scaled := map[string]lit{"a": ab["a"], "b": ab["b"], "scale_a": of(vec(1, 2), 2), "scale_b": of(vec(10, 0.5), 2)}
	// Two queries, three keys with scores 0: a row's output is the mean of the values it sees.
	qkv := func(v ...float64) map[string]lit {
		return map[string]lit{"q": of(make([]float64, 2), 1, 1, 2, 1), "k": of(make([]float64, 3), 1, 1, 3, 1),
			"v": of(v, 1, 1, 3, 1)}
	}
	return []example{
		{"", "matmul", nil, ab, map[string]lit{"output": of(vec(19, 22, 43, 50), 2, 2)}},
		{"no rows", "matmul", nil, map[string]lit{"a": of(nil, 0, 2), "b": ab["b"]}, map[string]lit{"output": of(nil, 0, 2)}},
		{"", "batched_matmul", nil, map[string]lit{"a": of(vec(1, 2, 3, 4), 2, 1, 2), "b": of(vec(5, 6, 7, 8), 2, 2, 1)},
			map[string]lit{"output": of(vec(17, 53), 2, 1, 1)}},
		{"relu", "matmul_bias_act", opspec.Attrs{"act": "relu"}, biased,
			map[string]lit{"output": of(vec(0, 0, 24, 28), 2, 2)}},
		{"silu", "matmul_bias_act", opspec.Attrs{"act": "silu"}, biased,
			map[string]lit{"output": of(vec(0, 0, 24, 28), 2, 2)}},
		{"", "int8_matmul", nil, scaled, map[string]lit{"output": of(vec(190, 11, 860, 50), 2, 2)}},
		{"", "fp8_matmul", nil, map[string]lit{"a": ab["a"], "b": ab["b"], "scale_a": of(vec(2), 1),
			"scale_b": of(vec(0.25), 1)}, map[string]lit{"output": of(vec(9.5, 11, 21.5, 25), 2, 2)}},
		{"", "attention", nil, qkv(3, 6, 9), map[string]lit{"output": of(vec(6, 6), 1, 1, 2, 1)}},
		{"", "causal_attention", nil, qkv(3, 6, 9), map[string]lit{"output": of(vec(4.5, 6), 1, 1, 2, 1)}},
		{"top left", "causal_attention", opspec.Attrs{"align": "top_left"}, qkv(3, 6, 9),
			map[string]lit{"output": of(vec(3, 4.5), 1, 1, 2, 1)}},
		{"", "window_attention", opspec.Attrs{"window": int64(2)}, qkv(3, 6, 9),
			map[string]lit{"output": of(vec(4.5, 7.5), 1, 1, 2, 1)}},
		{"scores", "attention", opspec.Attrs{"scale": 0.5}, map[string]lit{"q": of(vec(2), 1, 1, 1, 1),
			"k": of(vec(0, 1, 2), 1, 1, 3, 1), "v": of(vec(0, 0, 1), 1, 1, 3, 1)},
			map[string]lit{"output": of(vec(0.665241), 1, 1, 1, 1)}},
		{"default scale", "attention", nil, map[string]lit{"q": of(vec(1, 1, 1, 1), 1, 1, 1, 4),
			"k": of(vec(0, 0, 0, 0, 2, 0, 0, 0), 1, 1, 2, 4), "v": of(vec(0, 0, 0, 0, 1, 1, 1, 1), 1, 1, 2, 4)},
			map[string]lit{"output": of(vec(0.731059, 0.731059, 0.731059, 0.731059), 1, 1, 1, 4)}},
		{"", "gqa_attention", nil, map[string]lit{"q": of(make([]float64, 4), 1, 4, 1, 1),
			"k": of(make([]float64, 2), 1, 2, 1, 1), "v": of(vec(1, 2), 1, 2, 1, 1)},
			map[string]lit{"output": of(vec(1, 1, 2, 2), 1, 4, 1, 1)}},
		{"", "decode_attention", nil, map[string]lit{"q": of(vec(0, 0), 2, 1, 1), "k": of(make([]float64, 6), 2, 1, 3, 1),
			"v": of(vec(3, 6, 9, 3, 6, 9), 2, 1, 3, 1), "kv_len": of(vec(2, 3), 2)},
			map[string]lit{"output": of(vec(4.5, 6), 2, 1, 1)}},
	}
}

func otherExamples() []example {
	square := of(vec(1, 2, 3, 4, 5, 6, 7, 8, 9), 1, 1, 3, 3)
	return []example{
		{"", "embedding", nil, map[string]lit{"table": of(vec(1, 2, 3, 4), 2, 2), "index": of(vec(1, 0, 1), 3)},
			map[string]lit{"output": of(vec(3, 4, 1, 2, 3, 4), 3, 2)}},
		{"", "gather", nil, map[string]lit{"input": of(vec(1, 2, 3, 4, 5, nan), 2, 3), "index": of(vec(2, 0, 1, 2), 2, 2)},
			map[string]lit{"output": of(vec(3, 1, 5, nan), 2, 2)}},
		{"", "scatter_add", nil, map[string]lit{"input": of(vec(1, 2, 3), 3, 1), "index": of(vec(2, 0, 2), 3),
			"src": of(vec(10, 20, 30), 3, 1)}, map[string]lit{"output": of(vec(21, 2, 43), 3, 1)}},
		{"", "topk", opspec.Attrs{"k": int64(2)}, map[string]lit{"input": of(vec(1, 5, 3, 2, nan, inf), 2, 3)},
			map[string]lit{"values": of(vec(5, 3, nan, inf), 2, 2), "indices": of(vec(1, 2, 1, 2), 2, 2)}},
		{"", "conv1d", opspec.Attrs{"padding": int64(1), "stride": int64(2), "dilation": int64(1)},
			map[string]lit{"input": of(vec(1, 2, 3, 4), 1, 1, 4), "weight": of(vec(1, 10, 100), 1, 1, 3),
				"bias": of(vec(1000), 1)}, map[string]lit{"output": of(vec(1210, 1432), 1, 1, 2)}},
		{"dilated", "conv1d", opspec.Attrs{"dilation": int64(2)},
			map[string]lit{"input": of(vec(1, 2, 3, 4), 1, 1, 4), "weight": of(vec(1, 10), 1, 1, 2), "bias": of(vec(0), 1)},
			map[string]lit{"output": of(vec(31, 42), 1, 1, 2)}},
		{"channels", "conv1d", nil, map[string]lit{"input": of(vec(1, 2, 3, 4), 1, 2, 2),
			"weight": of(vec(1, 10, 100, 1000), 2, 2, 1), "bias": of(vec(0, 5), 2)},
			map[string]lit{"output": of(vec(31, 42, 3105, 4205), 1, 2, 2)}},
		{"", "conv2d", nil,
			map[string]lit{"input": square, "weight": of(vec(1, 0, 0, 10), 1, 1, 2, 2), "bias": of(vec(0), 1)},
			map[string]lit{"output": of(vec(51, 62, 84, 95), 1, 1, 2, 2)}},
		{"dilated", "conv2d", opspec.Attrs{"dilation": int64(2)}, map[string]lit{"input": square,
			"weight": of(vec(1, 10, 100, 1000), 1, 1, 2, 2), "bias": of(vec(0), 1)},
			map[string]lit{"output": of(vec(9731), 1, 1, 1, 1)}},
		{"strided", "conv2d", opspec.Attrs{"stride": int64(2), "padding": int64(1)}, map[string]lit{"input": square,
			"weight": of(vec(1, 0, 0, 10), 1, 1, 2, 2), "bias": of(vec(1), 1)},
			map[string]lit{"output": of(vec(11, 31, 71, 96), 1, 1, 2, 2)}},
		{"", "depthwise_conv2d", nil, map[string]lit{"input": of(vec(1, 2, 3, 4), 1, 2, 1, 2),
			"weight": of(vec(10, 100), 2, 1, 1, 1), "bias": of(vec(0, 1), 2)},
			map[string]lit{"output": of(vec(10, 20, 301, 401), 1, 2, 1, 2)}},
		{"", "max_pool2d", opspec.Attrs{"kernel": int64(2), "stride": int64(2), "padding": int64(1)},
			map[string]lit{"input": square}, map[string]lit{"output": of(vec(1, 3, 7, 9), 1, 1, 2, 2)}},
		{"", "avg_pool2d", opspec.Attrs{"kernel": int64(2), "stride": int64(2), "padding": int64(1)},
			map[string]lit{"input": square}, map[string]lit{"output": of(vec(0.25, 1.25, 2.75, 7), 1, 1, 2, 2)}},
		{"inside", "avg_pool2d", opspec.Attrs{"kernel": int64(2), "stride": int64(2), "padding": int64(1),
			"count_include_pad": false},
			map[string]lit{"input": square}, map[string]lit{"output": of(vec(1, 2.5, 5.5, 7), 1, 1, 2, 2)}},
		{"multiplied", "depthwise_conv2d", opspec.Attrs{"multiplier": int64(2)}, map[string]lit{
			"input": of(vec(1, 2, 3, 4), 1, 2, 1, 2), "weight": of(vec(10, 100, 1000, 10000), 4, 1, 1, 1),
			"bias": of(vec(0, 1, 2, 3), 4)},
			map[string]lit{"output": of(vec(10, 20, 101, 201, 3002, 4002, 30003, 40003), 1, 4, 1, 2)}},
		{"", "quantize_tensor", nil, map[string]lit{"input": of(vec(12.7, -6.31, 1, 0), 2, 2)},
			map[string]lit{"q": of(vec(127, -63, 10, 0), 2, 2), "scale": of(vec(0.1), 1)}},
		{"", "quantize_row", nil, map[string]lit{"input": of(vec(12.7, -6.31, 0, 0), 2, 2)},
			map[string]lit{"q": of(vec(127, -63, 0, 0), 2, 2), "scale": of(vec(0.1, 0), 2)}},
		{"", "quantize_group", opspec.Attrs{"group": int64(2)}, map[string]lit{"input": of(vec(12.7, -6.31, 127), 1, 3)},
			map[string]lit{"q": of(vec(127, -63, 127), 1, 3), "scale": of(vec(0.1, 1), 1, 2)}},
		{"", "quantize_fp8_row", nil, map[string]lit{"input": of(vec(448, -98, 1), 1, 3)},
			map[string]lit{"q": of(vec(448, -96, 1), 1, 3), "scale": of(vec(1), 1)}},
		{"", "dequantize_tensor", nil, map[string]lit{"q": of(vec(10, -3), 1, 2), "scale": of(vec(0.5), 1)},
			map[string]lit{"output": of(vec(5, -1.5), 1, 2)}},
		{"", "dequantize_row", nil, map[string]lit{"q": of(vec(10, -3), 2, 1), "scale": of(vec(0.5, 2), 2)},
			map[string]lit{"output": of(vec(5, -6), 2, 1)}},
		{"", "dequantize_group", opspec.Attrs{"group": int64(2)}, map[string]lit{"q": of(vec(1, 2, 3), 1, 3),
			"scale": of(vec(0.5, 2), 1, 2)}, map[string]lit{"output": of(vec(0.5, 1, 6), 1, 3)}},
		{"", "quantize_static_tensor", nil, map[string]lit{"input": of(vec(1, -1, 100, -100), 2, 2),
			"scale": of(vec(0.5), 1), "zero_point": of(vec(-3), 1)},
			map[string]lit{"q": of(vec(-1, -5, 127, -128), 2, 2)}},
		{"", "quantize_static_row", opspec.Attrs{"qdtype": "uint8"}, map[string]lit{"input": of(vec(1, -1, 100, -100), 2, 2),
			"scale": of(vec(0.5, 2), 2), "zero_point": of(vec(1, 128), 2)},
			map[string]lit{"q": of(vec(3, 0, 178, 78), 2, 2)}},
		{"", "dequantize_affine_tensor", nil, map[string]lit{"q": of(vec(10, -128), 1, 2), "scale": of(vec(0.5), 1),
			"zero_point": of(vec(127), 1)}, map[string]lit{"output": of(vec(-58.5, -127.5), 1, 2)}},
		{"", "dequantize_affine_row", opspec.Attrs{"qdtype": "uint8"}, map[string]lit{"q": of(vec(10, 255), 2, 1),
			"scale": of(vec(0.5, 2), 2), "zero_point": of(vec(200, 0), 2)},
			map[string]lit{"output": of(vec(-95, 510), 2, 1)}},
		{"", "moe_routing", opspec.Attrs{"k": int64(2)}, map[string]lit{"logits": of(vec(1, 0, 2), 1, 3)},
			map[string]lit{"weights": of(vec(0.665241, 0.244728), 1, 2), "indices": of(vec(2, 0), 1, 2)}},
		{"renormalised", "moe_routing", opspec.Attrs{"k": int64(2), "renormalize": true},
			map[string]lit{"logits": of(vec(1, 0, 2), 1, 3)},
			map[string]lit{"weights": of(vec(0.731059, 0.268941), 1, 2), "indices": of(vec(2, 0), 1, 2)}},
	}
}

// inputDType is the dtype of an input, where it is not the case's.
func inputDType(op, name string, t dtype.DType) dtype.DType {
	switch name {
	case "index", "target":
		return dtype.Int64
	case "kv_len":
		return dtype.Int32
	case "q":
		if op == "dequantize_tensor" || op == "dequantize_row" || op == "dequantize_group" {
			return dtype.Int8
		}
	case "scale", "scale_a", "scale_b":
		return dtype.Float32
	case "a", "b":
		if op == "int8_matmul" {
			return dtype.Int8
		}
	}
	return t
}

func outputDType(op, name string, t dtype.DType) dtype.DType {
	switch {
	case op == "argmax" || name == "indices":
		return dtype.Int64
	case name == "scale" || op == "fp8_matmul":
		return dtype.Float32
	case name == "q" && op == "quantize_fp8_row":
		return dtype.Float8E4M3FN
	case name == "q":
		return dtype.Int8
	}
	return t
}

// quantizedDType is the type of q and zero_point in the ops that are given a zero point.
func (x *example) quantizedDType() (dtype.DType, bool) {
	if _, ok := x.in["zero_point"]; !ok {
		return dtype.Invalid, false
	}
	if x.attrs.Str("qdtype") == "uint8" {
		return dtype.Uint8, true
	}
	return dtype.Int8, true
}

func (x *example) call(t dtype.DType) *Call {
	c := &Call{Op: x.op, T: t, Attrs: opspec.Attrs{"math": "gpu"}, Inputs: map[string]Array{},
		Outputs: map[string]OutSpec{}}
	for n, v := range x.attrs {
		c.Attrs[n] = v
	}
	for n, l := range x.in {
		d := inputDType(x.op, n, t)
		if q, ok := x.quantizedDType(); ok && (n == "q" || n == "zero_point") {
			d = q
		}
		c.Inputs[n] = Array{l.shape, d, append([]float64(nil), l.x...)}
		for i, v := range l.x {
			c.Inputs[n].X[i] = d.Float64(d.Bits(v))
		}
	}
	for n, l := range x.want {
		d := outputDType(x.op, n, t)
		if q, ok := x.quantizedDType(); ok && n == "q" {
			d = q
		}
		c.Outputs[n] = OutSpec{l.shape, d}
	}
	return c
}

// TestExamples runs every example in every style, in float32, float64 and under math=ieee. The tolerance is
// that of tanh.approx; integers are exact.
func TestExamples(t *testing.T) {
	seen := map[string]bool{}
	for _, list := range [][]example{pointwiseExamples(), rowExamples(), productExamples(), otherExamples()} {
		for _, x := range list {
			seen[x.op] = true
			t.Run(x.op+"/"+x.name, func(t *testing.T) {
				for _, s := range Styles() {
					x.check(t, s, dtype.Float32, "gpu")
					x.check(t, s, dtype.Float32, "ieee")
					if x.op != "int8_matmul" {
						x.check(t, s, dtype.Float64, "gpu")
					}
				}
			})
		}
	}
	for _, op := range Ops() {
		if !seen[op] {
			t.Errorf("%s has no example", op)
		}
	}
}

func (x *example) check(t *testing.T, s Style, d dtype.DType, mode string) {
	t.Helper()
	t1 := d
	if x.op == "fp8_matmul" {
		t1, d = dtype.Float8E4M3FN, dtype.Float32
	}
	c := x.call(t1)
	c.Attrs["math"] = mode
	for name, got := range mustRun(t, New(d, s, 9), c) {
		tol := 6e-4
		if got.DType.IsInteger() {
			tol = 1e-9
		} else if mode == "ieee" || d == dtype.Float64 {
			tol = 2e-6
		}
		if e := distance(got.Float64s(), x.want[name].x, tol); e > 1 {
			t.Errorf("%s %s math=%s: %s = %v, want %v", s.Name, d, mode, name, got.Float64s(), x.want[name].x)
		}
	}
}

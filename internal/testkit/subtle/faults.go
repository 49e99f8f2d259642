package subtle

// This file implements the table of faults.

import (
	"gpuemu/internal/dtype"
	"gpuemu/internal/opspec"
)

// Fault is one faulty kernel and the same kernel without the fault.
type Fault struct {
	Op, Name     string
	Faulty, Twin Kernel
	DTypes       []dtype.DType // of the cases; nil: the default ones
	// Inside, where set, says why the contract of the op allows the fault, and Setting are attributes under which it
	// does not.
	Inside  string
	Setting opspec.Attrs
}

var (
	withBFloat16 = []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16}
	ieee         = opspec.Attrs{"math": "ieee"}
)

// long is the length from which on reductions with a fault past it go wrong.
const long = 4096

// Faults returns all faults, by op.
func Faults() []Fault {
	var out []Fault
	for _, list := range [][]Fault{elementwiseFaults(), reductionFaults(), normFaults(), softmaxFaults(), denseFaults(),
		indexFaults()} {
		out = append(out, list...)
	}
	return out
}

func elementwiseFaults() []Fault {
	return []Fault{
		{Op: "gelu", Name: "tanh instead of erf", Faulty: gelu(geluTanh), Twin: gelu(geluErf)},
		{Op: "gelu_tanh", Name: "erf instead of tanh", Faulty: gelu(geluErf), Twin: gelu(geluTanh),
			Inside: "tanh.approx may be off by 2^-11, about as much as the two formulas differ", Setting: ieee},
		{Op: "geglu", Name: "tanh instead of erf", Faulty: geglu(geluTanh), Twin: geglu(geluErf)},
		{Op: "add", Name: "truncation at the output", Faulty: add(truncate), Twin: add(nearest)},
		{Op: "add", Name: "round half up at the output", Faulty: add(halfUp), Twin: add(nearest), DTypes: withBFloat16},
		{Op: "mul", Name: "round half up at the output", Faulty: mul(halfUp), Twin: mul(nearest), DTypes: withBFloat16},
		{Op: "exp", Name: "polynomial of degree 5 instead of 6", Faulty: expTerms(5), Twin: expTerms(6)},
		{Op: "rsqrt", Name: "two iterations of Newton instead of three", Faulty: rsqrt(2), Twin: rsqrt(3)},
		{Op: "leaky_relu", Name: "alpha rounded to the dtype", Faulty: leakyReLU(true), Twin: leakyReLU(false)},
		{Op: "silu", Name: "exp(-x) clamped at 1e4", Faulty: silu(true), Twin: silu(false)},
		{Op: "rope", Name: "pairs exchanged past D/4", Faulty: rope(true), Twin: rope(false)},
	}
}

func reductionFaults() []Fault {
	return []Fault{
		{Op: "sum", Name: "blocks of 64 in float16", Faulty: sum(reduction{narrow: true}), Twin: sum(reduction{})},
		{Op: "sum", Name: "elements past 4,096 ignored", Faulty: sum(reduction{limit: long}), Twin: sum(reduction{})},
		{Op: "mean", Name: "blocks of 64 in bfloat16", Faulty: mean(reduction{narrow: true}), Twin: mean(reduction{}),
			DTypes: withBFloat16},
		{Op: "max", Name: "numbers preferred to NaN", Faulty: rowMax(true), Twin: rowMax(false)},
		{Op: "argmax", Name: "last of tied indices", Faulty: argmax(true), Twin: argmax(false),
			Inside: "any tied index is correct by default", Setting: opspec.Attrs{"ties": "first"}},
		{Op: "cumsum", Name: "carry lost between blocks of 1,024", Faulty: cumsum(true), Twin: cumsum(false)},
		{Op: "var", Name: "unbiased instead of biased", Faulty: variance(spread{correction: 1}), Twin: variance(spread{})},
		{Op: "var", Name: "biased instead of unbiased", Faulty: variance(spread{correction: -1}), Twin: variance(spread{})},
		{Op: "var", Name: "one-pass variance", Faulty: variance(spread{onePass: true}), Twin: variance(spread{})},
		{Op: "var", Name: "mean in bfloat16", Faulty: variance(spread{bf16Mean: true}), Twin: variance(spread{})},
		{Op: "topk", Name: "last two not sorted", Faulty: topk(true), Twin: topk(false)},
	}
}

func normFaults() []Fault {
	ten, outside := normWay{epsFactor: 10}, normWay{epsOutside: true}
	unbiased, onePass := normWay{spread: spread{correction: 1}}, normWay{spread: spread{onePass: true}}
	ignore := normWay{spread: spread{limit: long}}
	const (
		timesTen    = "eps times 10"
		outsideRoot = "eps outside the root"
	)
	return []Fault{
		{Op: "layernorm", Name: timesTen, Faulty: layernorm(ten), Twin: layernorm(normWay{})},
		{Op: "layernorm", Name: outsideRoot, Faulty: layernorm(outside), Twin: layernorm(normWay{})},
		{Op: "layernorm", Name: "unbiased variance", Faulty: layernorm(unbiased), Twin: layernorm(normWay{})},
		{Op: "layernorm", Name: "one-pass variance", Faulty: layernorm(onePass), Twin: layernorm(normWay{})},
		{Op: "layernorm", Name: "moments of the first 4,096", Faulty: layernorm(ignore), Twin: layernorm(normWay{})},
		{Op: "rmsnorm", Name: timesTen, Faulty: rmsnorm(ten, reduction{}), Twin: rmsnorm(normWay{}, reduction{})},
		{Op: "rmsnorm", Name: outsideRoot, Faulty: rmsnorm(outside, reduction{}), Twin: rmsnorm(normWay{}, reduction{})},
		{Op: "rmsnorm", Name: "sum halved at each tile of 4,096", Faulty: rmsnorm(normWay{}, reduction{merge: long}),
			Twin: rmsnorm(normWay{}, reduction{})},
		{Op: "groupnorm", Name: timesTen, Faulty: groupnorm(ten), Twin: groupnorm(normWay{})},
		{Op: "groupnorm", Name: "unbiased variance", Faulty: groupnorm(unbiased), Twin: groupnorm(normWay{})},
		{Op: "groupnorm", Name: "one-pass variance", Faulty: groupnorm(onePass), Twin: groupnorm(normWay{})},
		{Op: "batchnorm", Name: timesTen, Faulty: batchnorm(ten), Twin: batchnorm(normWay{})},
		{Op: "batchnorm", Name: outsideRoot, Faulty: batchnorm(outside), Twin: batchnorm(normWay{})},
		{Op: "l2norm", Name: timesTen, Faulty: l2norm(ten), Twin: l2norm(normWay{})},
		{Op: "l2norm", Name: "eps added instead of the larger one", Faulty: l2norm(outside), Twin: l2norm(normWay{})},
	}
}

func softmaxFaults() []Fault {
	none := attention(attentionWay{})
	masked := attention(attentionWay{masked: -1e4})
	return []Fault{
		{Op: "softmax", Name: "denominator + 1e-6", Faulty: softmax(softmaxWay{extra: 1e-6}), Twin: softmax(softmaxWay{})},
		{Op: "softmax", Name: "truncation at the output", Faulty: softmax(softmaxWay{round: truncate}),
			Twin: softmax(softmaxWay{})},
		{Op: "softmax", Name: "last tile does not rescale", Faulty: softmax(softmaxWay{tile: 64, forget: true}),
			Twin: softmax(softmaxWay{tile: 64})},
		{Op: "softmax", Name: "sum halved at each tile of 4,096", Faulty: softmax(softmaxWay{merge: long}),
			Twin: softmax(softmaxWay{})},
		{Op: "log_softmax", Name: "logarithm of the softmax", Faulty: logSoftmax(softmaxWay{logFirst: true}),
			Twin: logSoftmax(softmaxWay{})},
		{Op: "logsumexp", Name: "maximum not subtracted", Faulty: logSumExp(softmaxWay{noMax: true}),
			Twin: logSumExp(softmaxWay{})},
		{Op: "cross_entropy", Name: "smoothing over C-1 classes", Faulty: crossEntropy(true), Twin: crossEntropy(false)},
		{Op: "moe_routing", Name: "denominator + 1e-6", Faulty: moeRouting(1e-6), Twin: moeRouting(0)},
		{Op: "attention", Name: "denominator + 1e-6", Faulty: attention(attentionWay{extra: 1e-6}), Twin: none},
		{Op: "attention", Name: "scores in float16", Faulty: attention(attentionWay{narrow: true}), Twin: none},
		{Op: "attention", Name: "last tile does not rescale", Faulty: attention(attentionWay{online: true, forget: true}),
			Twin: attention(attentionWay{online: true})},
		{Op: "causal_attention", Name: "mask of -1e4 instead of -inf", Faulty: masked, Twin: none},
		{Op: "window_attention", Name: "mask of -1e4 instead of -inf", Faulty: masked, Twin: none},
		{Op: "decode_attention", Name: "kv_len rounded up to a multiple of 4",
			Faulty: decodeAttention(attentionWay{keyTile: 4}), Twin: decodeAttention(attentionWay{})},
	}
}

func denseFaults() []Fault {
	none, narrowAcc := dotWay{}, dotWay{narrow: true}
	return []Fault{
		{Op: "matmul", Name: "blocks of 64 in float16", Faulty: matmul(narrowAcc), Twin: matmul(none)},
		{Op: "matmul", Name: "truncation at the output", Faulty: matmul(dotWay{round: truncate}), Twin: matmul(none)},
		{Op: "batched_matmul", Name: "operands in TF32", Faulty: batchedMatmul(dotWay{tf32: true}),
			Twin: batchedMatmul(none)},
		{Op: "int8_matmul", Name: "sum in bfloat16 before the scales", Faulty: int8Matmul(true), Twin: int8Matmul(false)},
		{Op: "conv1d", Name: "blocks of 64 in bfloat16", Faulty: convolution(narrowAcc), Twin: convolution(none),
			DTypes: withBFloat16},
		{Op: "conv2d", Name: "blocks of 64 in float16", Faulty: convolution(narrowAcc), Twin: convolution(none)},
		{Op: "avg_pool2d", Name: "border divided by the elements inside", Faulty: avgPool(true), Twin: avgPool(false)},
		{Op: "max_pool2d", Name: "padding of -100 instead of -inf", Faulty: maxPool(-100), Twin: maxPool(negInf)},
	}
}

func indexFaults() []Fault {
	return []Fault{
		{Op: "embedding", Name: "last row taken for the one before", Faulty: embedding(true), Twin: embedding(false)},
		{Op: "gather", Name: "last column taken for the first", Faulty: gather(true), Twin: gather(false)},
		{Op: "scatter_add", Name: "one duplicate lost", Faulty: scatterAdd(true, nearest),
			Twin: scatterAdd(false, nearest)},
		{Op: "quantize_row", Name: "128 instead of 127", Faulty: quantizeRow(128), Twin: quantizeRow(127)},
		{Op: "scatter_add", Name: "round half up at the output", Faulty: scatterAdd(false, halfUp),
			Twin: scatterAdd(false, nearest), DTypes: withBFloat16},
		{Op: "dequantize_row", Name: "scale rounded to the dtype", Faulty: dequantizeRow(true), Twin: dequantizeRow(false)},
	}
}

// This file implements the table of all ops.

package honest

var (
	plain   = traits{}
	sums    = traits{reduces: true, adds: true}
	scaled  = traits{constant: true}
	norms   = traits{reduces: true, adds: true, constant: true}
	selects = traits{reduces: true}
)

// catalogue holds the ops in the order of their families.
var catalogue = []entry{
	{"relu", unary((*Machine).relu), plain},
	{"leaky_relu", leakyReLU, scaled},
	{"elu", elu, scaled},
	{"gelu", unary((*Machine).gelu), scaled},
	{"gelu_tanh", unary((*Machine).geluTanh), scaled},
	{"silu", unary((*Machine).silu), scaled},
	{"sigmoid", unary((*Machine).sigmoid), scaled},
	{"tanh", unary((*Machine).tanhOp), scaled},
	{"softplus", softplus, scaled},
	{"exp", unary((*Machine).expOp), scaled},
	{"log", unary((*Machine).logOp), scaled},
	{"rsqrt", unary((*Machine).Rsqrt), plain},
	{"add", binary("a", "b", (*eval).addOp), plain},
	{"mul", binary("a", "b", (*eval).mulOp), plain},
	{"swiglu", binary("gate", "up", (*eval).swiglu), scaled},
	{"geglu", binary("gate", "up", (*eval).geglu), scaled},

	{"sum", rowwise((*eval).sumRow), sums},
	{"mean", rowwise((*eval).meanRow), norms},
	{"max", rowwise((*eval).maxRow), selects},
	{"argmax", rowwise((*eval).argmaxRow), selects},
	{"var", rowwise((*eval).varRow), norms},
	{"logsumexp", rowwise((*eval).logSumExpRow), norms},
	{"cumsum", maprows((*eval).cumsumRow), sums},
	{"softmax", maprows((*eval).softmaxRow), norms},
	{"log_softmax", maprows((*eval).logSoftmaxRow), norms},

	{"layernorm", layernorm, norms},
	{"rmsnorm", rmsnorm, norms},
	{"groupnorm", groupnorm, norms},
	{"l2norm", l2norm, norms},
	{"batchnorm", batchnorm, scaled},

	{"matmul", matmul, sums},
	{"batched_matmul", batchedMatmul, sums},
	{"matmul_bias_act", matmulBiasAct, norms},
	{"int8_matmul", int8Matmul, traits{reduces: true, adds: true, noNaN: true}},
	{"fp8_matmul", fp8Matmul, sums},

	{"attention", attention(false, 0), norms},
	{"causal_attention", attention(true, 0), norms},
	{"window_attention", attention(true, 16), norms},
	{"gqa_attention", attention(false, 0), norms},
	{"decode_attention", decodeAttention, norms},
	{"rope", rope, plain},
	{"cross_entropy", crossEntropy, norms},

	{"embedding", embedding, plain},
	{"gather", gather, plain},
	{"scatter_add", scatterAdd, sums},
	{"topk", topK, selects},

	{"conv1d", conv1d, sums},
	{"conv2d", conv2d, sums},
	{"depthwise_conv2d", depthwiseConv2d, sums},
	{"max_pool2d", maxPool2d, selects},
	{"avg_pool2d", avgPool2d, norms},

	{"quantize_tensor", quantizeTensor, quantises},
	{"quantize_row", quantizeRow, quantises},
	{"quantize_group", quantizeGroup, quantises},
	{"quantize_fp8_row", quantizeFP8Row, quantises},
	{"dequantize_tensor", dequantize(dequantTensor), traits{noNaN: true}},
	{"dequantize_row", dequantize(dequantRow), traits{noNaN: true}},
	{"dequantize_group", dequantize(dequantGroup), traits{noNaN: true}},
	{"quantize_static_tensor", quantizeStatic(dequantTensor), traits{noNaN: true}},
	{"dequantize_affine_tensor", dequantizeAffine(dequantTensor), traits{noNaN: true}},
	{"quantize_static_row", quantizeStatic(dequantRow), traits{noNaN: true}},
	{"dequantize_affine_row", dequantizeAffine(dequantRow), traits{noNaN: true}},
	{"moe_routing", moeRouting, traits{reduces: true, adds: true, constant: true, noNaN: true}},
}

// quantises are the traits of the quantising ops: the maximum of a row, the constants 127 and 448, finite inputs.
var quantises = traits{reduces: true, constant: true, noNaN: true}

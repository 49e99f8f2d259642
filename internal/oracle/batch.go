// This file implements which dimensions of an operator are batches.

package oracle

import "slices"

// batchDims are the dimensions along which rows do not depend on each other, by operator. An operator that is not here
// has none: scatter_add adds rows together, and quantize_tensor takes one scale from all of them. Where a second axis
// would do as well as the first (heads of attention, columns of a product), it is left out: kernels split work along
// it.
var batchDims = map[string][]string{
	"groupnorm": {"N"}, "batchnorm": {"N"},
	"matmul": {"M"}, "matmul_bias_act": {"M"}, "int8_matmul": {"M"}, "fp8_matmul": {"M"}, "batched_matmul": {"B", "M"},
	"attention": {"B"}, "causal_attention": {"B"}, "window_attention": {"B"}, "gqa_attention": {"B"},
	"decode_attention": {"B"}, "rope": {"B"},
	"cross_entropy": {"R"}, "embedding": {"R"}, "gather": {"R"}, "topk": {"R"}, "moe_routing": {"R"},
	"conv1d": {"B"}, "conv2d": {"B"}, "depthwise_conv2d": {"B"}, "max_pool2d": {"B"}, "avg_pool2d": {"B"},
	"quantize_row": {"R"}, "quantize_group": {"R"}, "quantize_fp8_row": {"R"},
	"dequantize_tensor": {"R"}, "dequantize_row": {"R"}, "dequantize_group": {"R"},
	"quantize_static_tensor": {"R"}, "quantize_static_row": {"R"},
	"dequantize_affine_tensor": {"R"}, "dequantize_affine_row": {"R"},
}

// rowFamilies are the families whose operators work on rows of [B, S, H].
var rowFamilies = []string{"activation", "binary", "reduce", "softmax", "norm"}

// markBatches sets Batch in the schema of an operator. The list of dimensions may be shared with other operators.
func markBatches(op *Op) {
	names, ok := batchDims[op.Name]
	if !ok && slices.Contains(rowFamilies, op.Family) {
		names = []string{"B", "S"}
	}
	op.Schema.Dims = slices.Clone(op.Schema.Dims)
	for i := range op.Schema.Dims {
		op.Schema.Dims[i].Batch = slices.Contains(names, op.Schema.Dims[i].Name)
	}
}

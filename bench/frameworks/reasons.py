"""Alarms on CPU frameworks that are understood: what the framework does that the contract does not allow.

The causes were reproduced with the framework alone, as the sentences say. Two are inferred from the cases:
that experts of subnormal probability are tied, and that what else is wrong in float64 cases with subnormal inputs is
due to their flushing (PyTorch passes the same distributions).
"""

from __future__ import annotations

from explained import ALL, Explanation

ORT = "onnxruntime"
WIDE = ("float64",)
BEYOND = ("beyond its bound",)
LOST_NAN = ("missing NaN",)
FLUSHED = "zero where a subnormal value is wanted"
NO_SUBNORMALS = (
    "XLA's CPU threads flush subnormals to zero, as operands and as results: jnp.float64(1e-308) + 0.0 is 0; the "
    "contract of float64 keeps them, as GPUs do"
)

KNOWN = (
    Explanation(
        "torch", ("gelu", "geglu"), ALL,
        "contiguous float32 goes to oneDNN, whose gelu is off by 4e-7 relative near zero and 2e-4 in the tail; with "
        "torch.backends.mkldnn.flags(enabled=False) the error is 1.1e-7, and the same cases pass", BEYOND,
    ),
    Explanation(
        "jax", ("max", "max_pool2d"), ALL,
        "XLA's vectorized maxima lose NaN: jnp.zeros((16, 256)).at[:, 1].set(nan).max(-1) is 0, and so are 2x2 windows "
        "of reduce_window (openxla/xla#21461)", LOST_NAN,
    ),
    Explanation(
        "jax", ("depthwise_conv2d",), WIDE,
        "XLA's grouped convolution of float64 also multiplies the other channels by zero: a NaN or infinity in one of "
        "them makes NaN of all; that of float32 does not", ("unexpected NaN",),
    ),
    Explanation("jax", (), WIDE, NO_SUBNORMALS, (FLUSHED,)),
    Explanation("jax", ("moe_routing",), WIDE, NO_SUBNORMALS + "; experts of subnormal probability are tied", BEYOND),
    Explanation(
        "jax", (), WIDE, NO_SUBNORMALS, ("beyond its bound", "unexpected Inf", "unexpected NaN"),
        ("adversarial", "boundary"),
    ),
    Explanation(
        "jax", ("log", "rsqrt"), WIDE, NO_SUBNORMALS + ", so that negative ones give -inf instead of NaN",
        ("missing NaN", "unexpected Inf"), ("adversarial", "boundary"),
    ),
    Explanation(
        "jax", ("max_pool2d",), WIDE, NO_SUBNORMALS + "; and 2x2 windows lose NaN, as in float32",
        ("beyond its bound", "missing NaN"), ("adversarial", "boundary"),
    ),
    Explanation(
        ORT, ("sigmoid", "silu", "swiglu"), ALL,
        "Sigmoid is a rational approximation with an absolute error of 6e-8 (float32) that ends in 0: sigmoid(-15) is "
        "off by 17 %, sigmoid(-18.1) is 0 (float64: at -30 off by 0.1 %, at -100 zero), "
        "and 0 times an infinity is NaN (microsoft/onnxruntime#22557)",
        ("beyond its bound", "unexpected NaN"),
    ),
    Explanation(
        ORT, ("max", "max_pool2d"), ALL,
        "maxima prefer numbers to NaN, depending on its place: ReduceMax of [1, NaN, 2] is 2, of [NaN, 1, 2] NaN "
        "(microsoft/onnxruntime#10514); MaxPool begins with the least finite number instead of -inf",
        ("missing NaN", "missing Inf"),
    ),
    Explanation(
        ORT, ("sum", "mean", "max", "logsumexp"), ALL,
        "a reduction of an empty tensor keeps its shape: ReduceMean of [0, 4, 5] over the last axis gives [0, 4, 5]; "
        "so do ReduceSum, ReduceMax and ReduceLogSumExp", ("wrong_shape",),
    ),
    Explanation(
        ORT, ("argmax", "topk"), ALL,
        "comparisons with NaN are false, so rows with NaN are not sorted; ONNX leaves the rank of NaN open "
        "(microsoft/onnxruntime#10314). Rows without NaN pass",
    ),
    Explanation(
        ORT, ("log_softmax", "cross_entropy"), WIDE,
        "LogSoftmax of doubles takes the logarithm of max(sum, 1e-20), which loses the NaN: of [1, NaN, 2] it gives "
        "[45.05, NaN, 46.05]; that of floats gives NaN", LOST_NAN,
    ),
    Explanation(
        ORT, ("layernorm", "groupnorm", "batchnorm", "rmsnorm"), WIDE,
        "epsilon is an attribute, and attributes of ONNX are float32: 1e-5 is 9.999999747e-6, with which the results "
        "agree to 4e-16", BEYOND,
    ),
    Explanation(
        ORT, ("groupnorm",), ("float32", "float16", "bfloat16"),
        "the variance is mean(x^2) - mean(x)^2 in float32: for 1000 + N(0, 1) the output is off by 0.1; for "
        "10000 + N(0, 1) it is NaN, because the variance comes out as zero or less",
        ("beyond its bound", "unexpected NaN"), ("offset",),
    ),
    Explanation(
        ORT, ("attention", "gqa_attention"), WIDE,
        "q and k are each multiplied by the root of the scale in float32: with that scale the results agree to 6e-16",
        BEYOND,
    ),
    Explanation(
        ORT, ("gelu_tanh", "matmul_bias_act"), WIDE,
        "the constants 2/pi and 0.044715 are float32 in the function's body: with them the results agree", BEYOND,
    ),
)  # fmt: skip

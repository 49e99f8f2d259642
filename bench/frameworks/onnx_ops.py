"""The operators of the catalogue as small ONNX models, run by onnxruntime on the CPU.

A builder gets the attributes of a case and returns the nodes of a model whose inputs are x0, x1, … and whose outputs
are y0, y1, …, or None where ONNX has no operator for these attributes. Models see no sizes: each is built once for all
shapes of a rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

Attrs = dict[str, Any]
OPSET = 23
ELEMENTS = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64, "int32": TensorProto.INT32,
    "int8": TensorProto.INT8,
}  # fmt: skip


class Graph:
    """The nodes of a model, and the constants that they use, in the type of the case."""

    def __init__(self, dtype: str, ranks: Sequence[int]) -> None:
        self.dtype, self.ranks = dtype, ranks
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *inputs: str, out: str = "", outputs: Sequence[str] = (), **attrs: Any) -> str:
        """One node; its output gets a name unless it has one."""
        names = list(outputs) or [out or f"t{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attrs))
        return names[0]

    def constant(self, values: Any, dtype: str = "") -> str:
        name = f"c{len(self.constants)}"
        array = np.asarray(values, dtype or self.dtype)
        self.constants.append(onnx.numpy_helper.from_array(array, name))
        return name


Builder = Callable[[Graph, Attrs], bool]


def node(kind: str, count: int = 1, **fixed: Any) -> Builder:
    """One operator of ONNX under its own name."""

    def build(g: Graph, a: Attrs) -> bool:
        g.add(kind, *(f"x{i}" for i in range(count)), out="y0", **fixed)
        return True

    return build


def with_attrs(kind: str, count: int, *names: str) -> Builder:
    """One operator with attributes of the case."""

    def build(g: Graph, a: Attrs) -> bool:
        g.add(kind, *(f"x{i}" for i in range(count)), out="y0", **{n: a[n] for n in names})
        return True

    return build


def reduce(kind: str) -> Builder:
    def build(g: Graph, a: Attrs) -> bool:
        g.add(kind, "x0", g.constant([-1], "int64"), out="y0", keepdims=0)
        return True

    return build


def softplus(g: Graph, a: Attrs) -> bool:
    if a["beta"] != 1:
        return False
    g.add("Softplus", "x0", out="y0")
    return True


def rsqrt(g: Graph, a: Attrs) -> bool:
    g.add("Reciprocal", g.add("Sqrt", "x0"), out="y0")
    return True


def silu(g: Graph, a: Attrs) -> bool:
    g.add("Mul", "x0", g.add("Sigmoid", "x0"), out="y0")
    return True


def gated(kind: str) -> Builder:
    def build(g: Graph, a: Attrs) -> bool:
        act = g.add("Gelu", "x0") if kind == "Gelu" else g.add("Mul", "x0", g.add("Sigmoid", "x0"))
        g.add("Mul", act, "x1", out="y0")
        return True

    return build


def cumsum(g: Graph, a: Attrs) -> bool:
    g.add("CumSum", "x0", g.constant(-1, "int64"), out="y0")
    return True


def layernorm(g: Graph, a: Attrs) -> bool:
    g.add("LayerNormalization", "x0", "x1", "x2", out="y0", axis=-1, epsilon=a["eps"])
    return True


def rmsnorm(g: Graph, a: Attrs) -> bool:
    g.add("RMSNormalization", "x0", "x1", out="y0", axis=-1, epsilon=a["eps"])
    return True


def groupnorm(g: Graph, a: Attrs) -> bool:
    g.add("GroupNormalization", "x0", "x1", "x2", out="y0", num_groups=a["groups"], epsilon=a["eps"],
          stash_type=ELEMENTS[g.dtype])  # fmt: skip
    return True


def batchnorm(g: Graph, a: Attrs) -> bool:
    g.add("BatchNormalization", "x0", "x3", "x4", "x1", "x2", out="y0", epsilon=a["eps"])
    return True


def l2norm(g: Graph, a: Attrs) -> bool:
    norm = g.add("ReduceL2", "x0", g.constant([-1], "int64"), keepdims=1)
    g.add("Div", "x0", g.add("Max", norm, g.constant(a["eps"])), out="y0")
    return True


def matmul_bias_act(g: Graph, a: Attrs) -> bool:
    kinds = {"none": "Identity", "relu": "Relu", "gelu": "Gelu", "gelu_tanh": "Gelu"}
    if a["act"] not in kinds:
        return False
    more = {"approximate": "tanh"} if a["act"] == "gelu_tanh" else {}
    g.add(kinds[a["act"]], g.add("Gemm", "x0", "x1", "x2"), out="y0", **more)
    return True


def attention(g: Graph, a: Attrs) -> bool:
    """The Attention of opset 23, whose causal mask begins at the top left corner; other masks are not built here."""
    if a["causal"] or a["window"]:
        return False
    scale = {"scale": a["scale"]} if a["scale"] else {}
    g.add("Attention", "x0", "x1", "x2", out="y0", **scale)
    return True


def rope(g: Graph, a: Attrs) -> bool:
    x = g.add("Transpose", "x0", perm=[0, 2, 1, 3])  # [B, H, S, D]
    axis = g.constant([0], "int64")
    cos, sin = g.add("Unsqueeze", "x1", axis), g.add("Unsqueeze", "x2", axis)
    batch = g.add("Shape", "x0", start=0, end=1)
    one = g.constant([1, 1], "int64")
    times = g.add("Concat", batch, one, axis=0)
    cos, sin = g.add("Tile", cos, times), g.add("Tile", sin, times)
    y = g.add("RotaryEmbedding", x, cos, sin, interleaved=int(a["interleaved"]))
    g.add("Transpose", y, out="y0", perm=[0, 2, 1, 3])
    return True


def cross_entropy(g: Graph, a: Attrs) -> bool:
    if a["label_smoothing"]:
        return False
    g.add("SoftmaxCrossEntropyLoss", "x0", "x1", out="y0", reduction="none", ignore_index=a["ignore_index"])
    return True


def scatter_add(g: Graph, a: Attrs) -> bool:
    index = g.add("Unsqueeze", "x1", g.constant([1], "int64"))
    g.add("ScatterND", "x0", index, "x2", out="y0", reduction="add")
    return True


def topk(g: Graph, a: Attrs) -> bool:
    g.add("TopK", "x0", g.constant([a["k"]], "int64"), outputs=("y0", "y1"))
    return True


def moe(g: Graph, a: Attrs) -> bool:
    g.add("TopK", g.add("Softmax", "x0"), g.constant([a["k"]], "int64"), outputs=("weights", "chosen"))
    if a["renormalize"]:
        total = g.add("ReduceSum", "weights", g.constant([-1], "int64"), keepdims=1)
        g.add("Div", "weights", total, out="y0")
    else:
        g.add("Identity", "weights", out="y0")
    g.add("Cast", "chosen", out="y1", to=TensorProto.INT32)
    return True


def conv(g: Graph, a: Attrs, depthwise: bool = False) -> bool:
    axes = g.ranks[0] - 2
    if depthwise:
        return False  # the number of groups would be part of the model
    g.add("Conv", "x0", "x1", "x2", out="y0", strides=[a["stride"]] * axes, pads=[a["padding"]] * 2 * axes,
          dilations=[a["dilation"]] * axes)  # fmt: skip
    return True


def pool(kind: str, **more: Any) -> Builder:
    def build(g: Graph, a: Attrs) -> bool:
        g.add(kind, "x0", out="y0", kernel_shape=[a["kernel"]] * 2, strides=[a["stride"]] * 2, pads=[a["padding"]] * 4,
              **more)  # fmt: skip
        return True

    return build


def dequantize_row(g: Graph, a: Attrs) -> bool:
    if g.dtype != "float32":
        return False
    g.add("DequantizeLinear", "x0", "x1", out="y0", axis=0)
    return True


def dequantize_tensor(g: Graph, a: Attrs) -> bool:
    if g.dtype != "float32":
        return False
    g.add("DequantizeLinear", "x0", g.add("Squeeze", "x1"), out="y0")
    return True


OPS: dict[str, Builder] = {
    "relu": node("Relu"), "leaky_relu": with_attrs("LeakyRelu", 1, "alpha"), "elu": with_attrs("Elu", 1, "alpha"),
    "gelu": node("Gelu"), "gelu_tanh": node("Gelu", approximate="tanh"), "silu": silu, "sigmoid": node("Sigmoid"),
    "tanh": node("Tanh"), "softplus": softplus, "exp": node("Exp"), "log": node("Log"), "rsqrt": rsqrt,
    "add": node("Add", 2), "mul": node("Mul", 2), "swiglu": gated("Silu"), "geglu": gated("Gelu"),
    "sum": reduce("ReduceSum"), "mean": reduce("ReduceMean"), "max": reduce("ReduceMax"),
    "argmax": node("ArgMax", axis=-1, keepdims=0), "logsumexp": reduce("ReduceLogSumExp"), "cumsum": cumsum,
    "softmax": node("Softmax", axis=-1), "log_softmax": node("LogSoftmax", axis=-1),
    "layernorm": layernorm, "rmsnorm": rmsnorm, "groupnorm": groupnorm, "batchnorm": batchnorm, "l2norm": l2norm,
    "matmul": node("MatMul", 2), "batched_matmul": node("MatMul", 2), "matmul_bias_act": matmul_bias_act,
    "attention": attention, "gqa_attention": attention, "rope": rope, "cross_entropy": cross_entropy,
    "embedding": node("Gather", 2), "gather": node("GatherElements", 2, axis=1), "scatter_add": scatter_add,
    "topk": topk, "moe_routing": moe, "conv1d": conv, "conv2d": conv,
    "max_pool2d": pool("MaxPool"), "avg_pool2d": pool("AveragePool", count_include_pad=1),
    "dequantize_row": dequantize_row, "dequantize_tensor": dequantize_tensor,
}  # fmt: skip
OUTPUTS = {"topk": ("values", "indices"), "moe_routing": ("weights", "indices")}


class Sessions:
    """Models that were built, by operator, attributes, types and ranks."""

    def __init__(self) -> None:
        self._open: dict[Any, Any] = {}

    def run(self, op: str, a: Attrs, inputs: Sequence[np.ndarray]) -> Any:
        """The outputs of an operator; NotImplementedError where ONNX has none for these attributes."""
        a = {k: v for k, v in a.items() if k not in ("dtype", "math")}
        key = (op, tuple(sorted(a.items())), tuple((x.dtype.name, x.ndim) for x in inputs))
        if key not in self._open:
            self._open[key] = self._build(op, a, inputs)
        session = self._open[key]
        if session is None:
            raise NotImplementedError("ONNX has no operator for these attributes")
        out = session.run(None, {f"x{i}": np.ascontiguousarray(x) for i, x in enumerate(inputs)})
        names = OUTPUTS.get(op)
        return dict(zip(names, out)) if names else out[0]

    def _build(self, op: str, a: Attrs, inputs: Sequence[np.ndarray]) -> Any:
        dtype = next((x.dtype.name for x in inputs if x.dtype.kind == "f"), "float32")
        g = Graph(dtype, [x.ndim for x in inputs])
        if not OPS[op](g, a):
            return None
        given = [helper.make_tensor_value_info(f"x{i}", ELEMENTS[x.dtype.name], [None] * x.ndim)
                 for i, x in enumerate(inputs)]  # fmt: skip
        outs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(len(OUTPUTS.get(op, ("",))))]
        graph = helper.make_graph(g.nodes, op, given, outs, g.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def widened(x: np.ndarray) -> np.ndarray:
    """A 16-bit array as float32."""
    return x.astype(np.float32) if x.dtype in (np.float16, ml_dtypes.bfloat16) else x

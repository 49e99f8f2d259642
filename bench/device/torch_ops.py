"""The operators of the catalogue as PyTorch expresses them: f(attributes, *inputs in the order of the schema).

A function returns one tensor, a dict of tensors by output, or None where PyTorch has no kernel for these attributes or
this data type. `dtype` among the attributes is the data type of the case, which the inputs of some ops do not tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Attrs = dict[str, Any]
Op = Callable[..., Any]

NAMES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
DTYPES = {name: getattr(torch, name) for name in NAMES if hasattr(torch, name)}  # no fp8 before PyTorch 2.1
ATTENTION = ("attention", "causal_attention", "window_attention", "gqa_attention")
# What Inductor makes one kernel of, and what differs from the eager kernel.
COMPILED = (
    "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "softplus", "swiglu", "geglu", "sum", "mean", "var",
    "logsumexp", "softmax", "log_softmax", "layernorm", "rmsnorm", "groupnorm", "l2norm", "rope", "moe_routing",
    "cumsum", "cross_entropy",
)  # fmt: skip


def exact_arithmetic() -> None:
    """Turns off what PyTorch permits itself by default: sums of 16-bit products in 16 bits, and TF32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def forced(backend: Any) -> Op:
    """Attention by one backend of scaled_dot_product_attention, which refuses what it cannot do.

    The fused ones want rows of adjacent elements.
    """

    def f(a: Attrs, q: Any, k: Any, v: Any) -> Any:
        with torch.nn.attention.sdpa_kernel(backend):
            return attention(a, q.contiguous(), k.contiguous(), v.contiguous())

    return f


def wide(x: torch.Tensor) -> torch.dtype:
    """The type that the contracts compute in."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def attention(a: Attrs, q: Any, k: Any, v: Any) -> Any:
    m, n, hq, hkv = q.shape[-2], k.shape[-2], q.shape[1], k.shape[1]
    k, v = k.repeat_interleave(hq // hkv, 1), v.repeat_interleave(hq // hkv, 1)
    scale = a["scale"] or None
    if a["causal"] and not a["window"] and m == n:  # without a mask, so that the flash kernel takes it
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    mask = None
    if a["causal"] or a["window"]:
        off = n - m if a["align"] != "top_left" else 0
        i = torch.arange(m, device=q.device)[:, None] + off
        j = torch.arange(n, device=q.device)[None, :]
        mask = torch.ones(m, n, dtype=torch.bool, device=q.device)
        if a["causal"]:
            mask &= j <= i
        if a["window"]:
            mask &= j > i - a["window"]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def decode_attention(a: Attrs, q: Any, k: Any, v: Any, kv_len: Any) -> Any:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    mask = torch.arange(k.shape[2], device=q.device)[None, :] < kv_len[:, None]
    out = F.scaled_dot_product_attention(q[:, :, None], k, v, attn_mask=mask[:, None, None], scale=a["scale"] or None)
    return out[:, :, 0]


def rope(a: Attrs, x: Any, c: Any, s: Any) -> Any:
    c, s = c[None, :, None, :], s[None, :, None, :]
    acc = wide(x)
    if a["interleaved"]:
        x1, x2 = x[..., 0::2].to(acc), x[..., 1::2].to(acc)
        return torch.stack((x1 * c - x2 * s, x2 * c + x1 * s), -1).flatten(-2).to(x.dtype)
    x1, x2 = x.to(acc).chunk(2, -1)
    return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), -1).to(x.dtype)


def matmul_bias_act(a: Attrs, x: Any, y: Any, b: Any) -> Any:
    """addmm, then relu, which is exact. Other activations would follow a rounding that the contract does not have."""
    if a["act"] not in ("none", "relu"):
        return None
    out = torch.addmm(b, x, y)
    return F.relu(out) if a["act"] == "relu" else out


def fp8_matmul(a: Attrs, x: Any, y: Any, sa: Any, sb: Any) -> Any:
    return torch._scaled_mm(
        x.contiguous(), y.t().contiguous().t(), scale_a=sa.reshape(()), scale_b=sb.reshape(()),
        out_dtype=getattr(torch, a["out_dtype"]), use_fast_accum=a["fast_accum"],
    )  # fmt: skip


def int8_matmul(a: Attrs, x: Any, y: Any, sa: Any, sb: Any) -> Any:
    out = torch._int_mm(x.contiguous(), y.t().contiguous().t())
    return (out.float() * sa[:, None] * sb[None, :]).to(a["dtype"])


def quantize(group: str) -> Op:
    def f(a: Attrs, x: Any) -> Any:
        y = x.to(wide(x))
        r, c = y.shape
        if group == "tensor":
            s = y.abs().amax().clamp_min(1e-10).reshape(1) / 127
            full = s
        elif group == "row":
            s = y.abs().amax(1).clamp_min(1e-10) / 127
            full = s[:, None]
        else:
            g = a["group"]
            p = F.pad(y, (0, -c % g)).reshape(r, -1, g)
            s = p.abs().amax(2).clamp_min(1e-10) / 127
            full = s.repeat_interleave(g, 1)[:, :c]
        return {"q": (y / full).round().clamp(-127, 127).to(torch.int8), "scale": s.float()}

    return f


def quantize_fp8(a: Attrs, x: Any) -> Any:
    y = x.to(wide(x))
    s = y.abs().amax(1).clamp_min(1e-10) / 448
    return {"q": (y / s[:, None]).clamp(-448, 448).to(torch.float32).to(torch.float8_e4m3fn), "scale": s.float()}


def dequantize(group: str) -> Op:
    def f(a: Attrs, q: Any, s: Any) -> Any:
        acc = torch.float64 if a["dtype"] == torch.float64 else torch.float32
        if group == "row":
            s = s[:, None]
        elif group == "group":
            s = s.repeat_interleave(a["group"], 1)[:, : q.shape[1]]
        return (q.to(acc) * s.to(acc)).to(a["dtype"])

    return f


def quantize_static(a: Attrs, x: Any, s: Any, z: Any) -> Any:
    """quantize_per_tensor or quantize_per_channel, which take float32 alone."""
    if x.dtype != torch.float32:
        return None
    kind = {"int8": torch.qint8, "uint8": torch.quint8}[a["qdtype"]]
    if s.numel() == 1 and x.shape[0] > 1:
        return torch.quantize_per_tensor(x, float(s), int(z), kind).int_repr()
    return torch.quantize_per_channel(x, s, z.to(torch.int64), 0, kind).int_repr()


def dequantize_affine(a: Attrs, q: Any, s: Any, z: Any) -> Any:
    acc = torch.float64 if a["dtype"] == torch.float64 else torch.float32
    return ((q.to(acc) - z.to(acc).reshape(-1, 1)) * s.to(acc).reshape(-1, 1)).to(a["dtype"])


def moe(a: Attrs, x: Any) -> Any:
    w, i = torch.topk(torch.softmax(x, -1, dtype=wide(x)), a["k"], -1)
    if a["renormalize"]:
        w = w / w.sum(-1, keepdim=True)
    return {"weights": w.to(x.dtype), "indices": i.to(torch.int32)}


def topk(a: Attrs, x: Any) -> Any:
    v, i = torch.topk(x, a["k"], -1)
    return {"values": v, "indices": i}


def conv(f: Op, groups: bool = False) -> Op:
    return lambda a, x, w, b: f(
        x, w, b, stride=a["stride"], padding=a["padding"], dilation=a["dilation"], groups=x.shape[1] if groups else 1
    )


def scatter_add(a: Attrs, x: Any, i: Any, s: Any) -> Any:
    """index_add, which adds narrow types in themselves: no kernel of the contract there."""
    return x.index_add(0, i, s) if x.dtype in (torch.float32, torch.float64) else None


OPS: dict[str, Op] = {
    "relu": lambda a, x: F.relu(x), "leaky_relu": lambda a, x: F.leaky_relu(x, a["alpha"]),
    "elu": lambda a, x: F.elu(x, a["alpha"]), "gelu": lambda a, x: F.gelu(x),
    "gelu_tanh": lambda a, x: F.gelu(x, approximate="tanh"), "silu": lambda a, x: F.silu(x),
    "sigmoid": lambda a, x: torch.sigmoid(x), "tanh": lambda a, x: torch.tanh(x),
    "softplus": lambda a, x: F.softplus(x, a["beta"], a["threshold"]), "exp": lambda a, x: torch.exp(x),
    "log": lambda a, x: torch.log(x), "rsqrt": lambda a, x: torch.rsqrt(x),
    "add": lambda a, x, y: x + y, "mul": lambda a, x, y: x * y,
    "swiglu": lambda a, g, u: F.silu(g) * u, "geglu": lambda a, g, u: F.gelu(g) * u,
    "sum": lambda a, x: x.sum(-1), "mean": lambda a, x: x.mean(-1), "max": lambda a, x: x.amax(-1),
    "argmax": lambda a, x: x.argmax(-1), "var": lambda a, x: x.var(-1, correction=a["correction"]),
    "logsumexp": lambda a, x: torch.logsumexp(x, -1), "cumsum": lambda a, x: x.cumsum(-1),
    "softmax": lambda a, x: torch.softmax(x, -1), "log_softmax": lambda a, x: torch.log_softmax(x, -1),
    "layernorm": lambda a, x, w, b: F.layer_norm(x, x.shape[-1:], w, b, a["eps"]),
    "rmsnorm": lambda a, x, w: F.rms_norm(x, x.shape[-1:], w, a["eps"]),
    "groupnorm": lambda a, x, w, b: F.group_norm(x, a["groups"], w, b, a["eps"]),
    "l2norm": lambda a, x: F.normalize(x, dim=-1, eps=a["eps"]),
    "batchnorm": lambda a, x, m, v, w, b: F.batch_norm(x, m, v, w, b, False, 0.0, a["eps"]),
    "matmul": lambda a, x, y: x @ y, "batched_matmul": lambda a, x, y: torch.bmm(x, y),
    "matmul_bias_act": matmul_bias_act, "fp8_matmul": fp8_matmul, "int8_matmul": int8_matmul,
    "attention": attention, "causal_attention": attention, "window_attention": attention, "gqa_attention": attention,
    "decode_attention": decode_attention, "rope": rope,
    "cross_entropy": lambda a, x, t: F.cross_entropy(
        x, t, reduction=a["reduction"], ignore_index=a["ignore_index"], label_smoothing=a["label_smoothing"]),
    "embedding": lambda a, w, i: F.embedding(i, w), "gather": lambda a, x, i: torch.gather(x, 1, i),
    "scatter_add": scatter_add, "topk": topk, "moe_routing": moe,
    "conv1d": conv(F.conv1d), "conv2d": conv(F.conv2d), "depthwise_conv2d": conv(F.conv2d, True),
    "max_pool2d": lambda a, x: F.max_pool2d(x, a["kernel"], a["stride"], a["padding"]),
    "avg_pool2d": lambda a, x: F.avg_pool2d(
        x, a["kernel"], a["stride"], a["padding"], count_include_pad=a["count_include_pad"]),
    "quantize_tensor": quantize("tensor"), "quantize_row": quantize("row"), "quantize_group": quantize("group"),
    "quantize_fp8_row": quantize_fp8,
    "dequantize_tensor": dequantize("tensor"), "dequantize_row": dequantize("row"),
    "dequantize_group": dequantize("group"),
    "quantize_static_tensor": quantize_static, "quantize_static_row": quantize_static,
    "dequantize_affine_tensor": dequantize_affine, "dequantize_affine_row": dequantize_affine,
}  # fmt: skip

# The same by other means: as one writes them by hand, in the type of the contract, rounded once.
COMPOSED: dict[str, Op] = {
    "gelu": lambda a, x: (0.5 * x.to(wide(x)) * (1 + torch.erf(x.to(wide(x)) * 0.7071067811865476))).to(x.dtype),
    "silu": lambda a, x: (x.to(wide(x)) * torch.sigmoid(x.to(wide(x)))).to(x.dtype),
    "logsumexp": lambda a, x: torch.logsumexp(x.to(wide(x)), -1).to(x.dtype),
    "cumsum": lambda a, x: x.to(wide(x)).cumsum(-1).to(x.dtype),
    "l2norm": lambda a, x: F.normalize(x.to(wide(x)), dim=-1, eps=a["eps"]).to(x.dtype),
    "softmax": lambda a, x: torch.softmax(x, -1, dtype=wide(x)).to(x.dtype),
    "rmsnorm": lambda a, x, w: (
        x.to(wide(x)) * torch.rsqrt(x.to(wide(x)).square().mean(-1, keepdim=True) + a["eps"]) * w).to(x.dtype),
    "layernorm": lambda a, x, w, b: F.layer_norm(
        x.to(wide(x)), x.shape[-1:], w.to(wide(x)), b.to(wide(x)), a["eps"]).to(x.dtype),
    "swiglu": lambda a, g, u: (F.silu(g.to(wide(g))) * u).to(g.dtype),
    "batched_matmul": lambda a, x, y: torch.einsum("bmk,bkn->bmn", x, y),
    "matmul": lambda a, x, y: F.linear(x, y.t()),
    "cross_entropy": lambda a, x, t: F.cross_entropy(
        x.to(wide(x)), t, reduction=a["reduction"], ignore_index=a["ignore_index"],
        label_smoothing=a["label_smoothing"]).to(x.dtype),
}  # fmt: skip

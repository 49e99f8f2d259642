"""The operators of the catalogue as JAX expresses them: f(attributes, *inputs in the order of the schema).

A function gets arrays of the type of the contract (float32, or float64) and returns one array or a dict by output.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_enable_x64", True)  # float64 and indices of 64 bits
Attrs = dict[str, Any]
Op = Callable[..., Any]
EXACT = lax.Precision.HIGHEST


@cache
def compiled(f: Op, dtype: Any, attrs: tuple[tuple[str, Any], ...]) -> Op:
    """One jitted function for each operator and its attributes, which are constants in it."""
    function: Op = jax.jit(partial(f, dict(attrs, dtype=dtype)))
    return function


def attention(a: Attrs, q: Any, k: Any, v: Any) -> Any:
    m, n, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    i = jnp.arange(m)[:, None] + (n - m if a["align"] != "top_left" else 0)
    j = jnp.arange(n)[None, :]
    mask = jnp.ones((m, n), bool)
    if a["causal"]:
        mask &= j <= i
    if a["window"]:
        mask &= j > i - a["window"]
    return attend(a, q, jnp.repeat(k, group, 1), jnp.repeat(v, group, 1), mask)


def decode_attention(a: Attrs, q: Any, k: Any, v: Any, kv_len: Any) -> Any:
    group = q.shape[1] // k.shape[1]
    mask = (jnp.arange(k.shape[2])[None, :] < kv_len[:, None])[:, None, None]
    return attend(a, q[:, :, None], jnp.repeat(k, group, 1), jnp.repeat(v, group, 1), mask)[:, :, 0]


def attend(a: Attrs, q: Any, k: Any, v: Any, mask: Any) -> Any:
    scale = a["scale"] or q.shape[-1] ** -0.5
    scores = jnp.einsum("bhmd,bhnd->bhmn", q, k, precision=EXACT) * scale
    weights = jax.nn.softmax(scores, -1, where=mask)
    return jnp.einsum("bhmn,bhnd->bhmd", weights, v, precision=EXACT)


def rope(a: Attrs, x: Any, c: Any, s: Any) -> Any:
    c, s = c[None, :, None, :], s[None, :, None, :]
    if a["interleaved"]:
        x1, x2 = x[..., 0::2], x[..., 1::2]
        return jnp.stack((x1 * c - x2 * s, x2 * c + x1 * s), -1).reshape(x.shape)
    x1, x2 = jnp.split(x, 2, -1)
    return jnp.concatenate((x1 * c - x2 * s, x2 * c + x1 * s), -1)


def normalized(x: Any, axis: Any, eps: float) -> Any:
    mean = x.mean(axis, keepdims=True)
    return (x - mean) * lax.rsqrt(jnp.var(x, axis, keepdims=True) + eps)


def groupnorm(a: Attrs, x: Any, w: Any, b: Any) -> Any:
    parts = x.reshape(x.shape[0], a["groups"], -1)
    return normalized(parts, -1, a["eps"]).reshape(x.shape) * w[None, :, None] + b[None, :, None]


def batchnorm(a: Attrs, x: Any, m: Any, v: Any, w: Any, b: Any) -> Any:
    m, v, w, b = (t[None, :, None] for t in (m, v, w, b))
    return (x - m) * lax.rsqrt(v + a["eps"]) * w + b


def conv(axes: int, depthwise: bool = False) -> Op:
    def f(a: Attrs, x: Any, w: Any, b: Any) -> Any:
        out = lax.conv_general_dilated(
            x, w, (a["stride"],) * axes, [(a["padding"],) * 2] * axes, rhs_dilation=(a["dilation"],) * axes,
            feature_group_count=x.shape[1] if depthwise else 1, precision=EXACT,
        )  # fmt: skip
        return out + b.reshape((1, -1) + (1,) * axes)

    return f


def pool(start: float, reduce: Op, divide: bool) -> Op:
    def f(a: Attrs, x: Any) -> Any:
        size, step = (1, 1, a["kernel"], a["kernel"]), (1, 1, a["stride"], a["stride"])
        pad = [(0, 0), (0, 0), (a["padding"],) * 2, (a["padding"],) * 2]
        out = lax.reduce_window(x, x.dtype.type(start), reduce, size, step, pad)
        return out / (a["kernel"] ** 2) if divide else out

    return f


def cross_entropy(a: Attrs, x: Any, t: Any) -> Any:
    ignored = t == a["ignore_index"]
    logp = jax.nn.log_softmax(x, -1)
    loss = -jnp.take_along_axis(logp, jnp.where(ignored, 0, t)[:, None], 1)[:, 0]
    if a["label_smoothing"]:
        loss = (1 - a["label_smoothing"]) * loss - a["label_smoothing"] * logp.mean(-1)
    return jnp.where(ignored, 0, loss)


def quantize(group: str, limit: float = 127.0) -> Op:
    def f(a: Attrs, x: Any) -> Any:
        r, c = x.shape
        size = {"tensor": r * c, "row": c, "group": a.get("group", 0)}[group]
        flat = x.reshape(1, -1) if group == "tensor" else x
        parts = jnp.pad(flat, ((0, 0), (0, -flat.shape[1] % size))).reshape(flat.shape[0], -1, size)
        scale = jnp.maximum(jnp.abs(parts).max(-1), 1e-10) / limit
        q = (parts / scale[..., None]).reshape(flat.shape[0], -1)[:, : flat.shape[1]].reshape(r, c)
        scale = scale if group == "group" else scale.reshape(-1)
        if limit == 127:
            return {"q": jnp.clip(jnp.round(q), -127, 127).astype(jnp.int8), "scale": scale.astype(jnp.float32)}
        q = jnp.clip(q, -limit, limit).astype(jnp.float8_e4m3fn)
        return {"q": q, "scale": scale.astype(jnp.float32)}

    return f


def dequantize(group: str) -> Op:
    def f(a: Attrs, q: Any, s: Any) -> Any:
        s = s.astype(a["dtype"])
        if group == "row":
            s = s[:, None]
        elif group == "group":
            s = jnp.repeat(s, a["group"], 1)[:, : q.shape[1]]
        return q.astype(a["dtype"]) * s

    return f


def moe(a: Attrs, x: Any) -> Any:
    w, i = lax.top_k(jax.nn.softmax(x, -1), a["k"])
    return {"weights": w / w.sum(-1, keepdims=True) if a["renormalize"] else w, "indices": i.astype(jnp.int32)}


def topk(a: Attrs, x: Any) -> Any:
    v, i = lax.top_k(x, a["k"])
    return {"values": v, "indices": i.astype(jnp.int64)}


def matmul_bias_act(a: Attrs, x: Any, y: Any, b: Any) -> Any:
    act = {"none": lambda t: t, "relu": jax.nn.relu, "gelu": lambda t: jax.nn.gelu(t, approximate=False),
           "gelu_tanh": jax.nn.gelu, "silu": jax.nn.silu}[a["act"]]  # fmt: skip
    return act(jnp.matmul(x, y, precision=EXACT) + b)


def int8_matmul(a: Attrs, x: Any, y: Any, sa: Any, sb: Any) -> Any:
    product = lax.dot(x, y, preferred_element_type=jnp.int32).astype(jnp.float32)
    return product * sa[:, None] * sb[None, :]


def softplus(a: Attrs, x: Any) -> Any:
    """JAX's function, with the threshold that it has not."""
    scaled = x * a["beta"]
    return jnp.where(scaled > a["threshold"], x, jax.nn.softplus(scaled) / a["beta"])


def layernorm(a: Attrs, x: Any, w: Any, b: Any) -> Any:
    return normalized(x, -1, a["eps"]) * w + b


def rmsnorm(a: Attrs, x: Any, w: Any) -> Any:
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + a["eps"]) * w


def l2norm(a: Attrs, x: Any) -> Any:
    return x / jnp.maximum(jnp.sqrt(jnp.square(x).sum(-1, keepdims=True)), a["eps"])


OPS: dict[str, Op] = {
    "relu": lambda a, x: jax.nn.relu(x), "leaky_relu": lambda a, x: jax.nn.leaky_relu(x, a["alpha"]),
    "elu": lambda a, x: jax.nn.elu(x, a["alpha"]), "gelu": lambda a, x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda a, x: jax.nn.gelu(x, approximate=True), "silu": lambda a, x: jax.nn.silu(x),
    "sigmoid": lambda a, x: jax.nn.sigmoid(x), "tanh": lambda a, x: jnp.tanh(x),
    "softplus": softplus, "exp": lambda a, x: jnp.exp(x),
    "log": lambda a, x: jnp.log(x), "rsqrt": lambda a, x: lax.rsqrt(x),
    "add": lambda a, x, y: x + y, "mul": lambda a, x, y: x * y,
    "swiglu": lambda a, g, u: jax.nn.silu(g) * u, "geglu": lambda a, g, u: jax.nn.gelu(g, approximate=False) * u,
    "sum": lambda a, x: x.sum(-1), "mean": lambda a, x: x.mean(-1), "max": lambda a, x: x.max(-1),
    "argmax": lambda a, x: x.argmax(-1), "var": lambda a, x: jnp.var(x, -1, ddof=a["correction"]),
    "logsumexp": lambda a, x: jax.nn.logsumexp(x, -1), "cumsum": lambda a, x: jnp.cumsum(x, -1),
    "softmax": lambda a, x: jax.nn.softmax(x, -1), "log_softmax": lambda a, x: jax.nn.log_softmax(x, -1),
    "layernorm": layernorm, "rmsnorm": rmsnorm, "l2norm": l2norm, "groupnorm": groupnorm, "batchnorm": batchnorm,
    "matmul": lambda a, x, y: jnp.matmul(x, y, precision=EXACT),
    "batched_matmul": lambda a, x, y: jnp.matmul(x, y, precision=EXACT),
    "matmul_bias_act": matmul_bias_act, "int8_matmul": int8_matmul,
    "attention": attention, "causal_attention": attention, "window_attention": attention, "gqa_attention": attention,
    "decode_attention": decode_attention, "rope": rope, "cross_entropy": cross_entropy,
    "embedding": lambda a, w, i: w[i], "gather": lambda a, x, i: jnp.take_along_axis(x, i, 1),
    "scatter_add": lambda a, x, i, s: x.at[i].add(s), "topk": topk, "moe_routing": moe,
    "conv1d": conv(1), "conv2d": conv(2), "depthwise_conv2d": conv(2, True),
    "max_pool2d": pool(float("-inf"), lax.max, False), "avg_pool2d": pool(0.0, lax.add, True),
    "quantize_tensor": quantize("tensor"), "quantize_row": quantize("row"), "quantize_group": quantize("group"),
    "quantize_fp8_row": quantize("row", 448.0),
    "dequantize_tensor": dequantize("tensor"), "dequantize_row": dequantize("row"),
    "dequantize_group": dequantize("group"),
}  # fmt: skip

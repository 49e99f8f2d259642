"""Candidates in numpy, the source of what gpuemu init writes: one block per op, two blank lines between blocks."""
import math

import numpy as np


def softmax(inputs):
    """exp(x - m) / sum(exp(x - m)) over the last axis, m the row maximum."""
    x = inputs["input"]
    acc = np.promote_types(x.dtype, np.float32)  # float16 is computed in float32, float64 in itself
    with np.errstate(all="ignore"):  # infinities, NaN and overflow are part of the test
        x32 = x.astype(acc)
        e = np.exp(x32 - x32.max(axis=-1, keepdims=True))
        y = e / e.sum(axis=-1, keepdims=True)
        return y.astype(x.dtype)


def rmsnorm(inputs, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    x, weight = inputs["input"], inputs["weight"]
    acc = np.promote_types(x.dtype, np.float32)
    with np.errstate(all="ignore"):
        x32 = x.astype(acc)
        mean_square = np.mean(x32 * x32, axis=-1, keepdims=True)
        y = x32 / np.sqrt(mean_square + acc.type(eps)) * weight.astype(acc)
        return y.astype(x.dtype)


def layernorm(inputs, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axis, in two passes."""
    x, weight, bias = inputs["input"], inputs["weight"], inputs["bias"]
    acc = np.promote_types(x.dtype, np.float32)
    with np.errstate(all="ignore"):
        x32 = x.astype(acc)
        centred = x32 - np.mean(x32, axis=-1, keepdims=True)
        var = np.mean(centred * centred, axis=-1, keepdims=True)
        y = centred / np.sqrt(var + acc.type(eps)) * weight.astype(acc) + bias.astype(acc)
        return y.astype(x.dtype)


def matmul(inputs):
    """a @ b, accumulated in float32."""
    a, b = inputs["a"], inputs["b"]
    acc = np.promote_types(a.dtype, np.float32)
    with np.errstate(all="ignore"):
        return (a.astype(acc) @ b.astype(acc)).astype(a.dtype)


erf = np.frompyfunc(math.erf, 1, 1)  # numpy has none; scipy.special.erf is faster


def gelu(inputs):
    """0.5 x (1 + erf(x / sqrt(2))), without the tanh approximation."""
    x = inputs["input"]
    acc = np.promote_types(x.dtype, np.float32)
    with np.errstate(all="ignore"):
        x32 = x.astype(acc)
        y = acc.type(0.5) * x32 * (1 + erf(x32 * acc.type(math.sqrt(0.5))).astype(acc))
        return y.astype(x.dtype)


def attention(inputs, causal=False, scale=0.0):
    """softmax(scale q k^T) v; scale 0 stands for 1/sqrt(D). Several heads of q may share one of k and v."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    acc = np.promote_types(q.dtype, np.float32)
    group = q.shape[1] // k.shape[1]
    with np.errstate(all="ignore"):
        q32 = q.astype(acc)
        k32 = np.repeat(k, group, axis=1).astype(acc)
        v32 = np.repeat(v, group, axis=1).astype(acc)
        scores = q32 @ k32.swapaxes(-1, -2) * acc.type(scale or 1 / math.sqrt(q.shape[-1]))
        if causal:  # the last row sees the last key
            rows, keys = scores.shape[-2:]
            seen = np.tri(rows, keys, keys - rows, dtype=bool)
            scores = np.where(seen, scores, -np.inf)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        weights = e / e.sum(axis=-1, keepdims=True)
        return (weights @ v32).astype(q.dtype)

"""Candidates in JAX, the source of what gpuemu init writes: one block per op, two blank lines between blocks."""
import jax
import jax.numpy as jnp
import numpy as np


def softmax(inputs):
    """exp(x - m) / sum(exp(x - m)) over the last axis, m the row maximum."""
    x = jnp.asarray(inputs["input"])
    y = jax.nn.softmax(x.astype(jnp.float32), axis=-1)  # your kernel goes here
    return np.asarray(y.astype(x.dtype))


def rmsnorm(inputs, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    x, weight = (jnp.asarray(inputs[name]) for name in ("input", "weight"))
    x32 = x.astype(jnp.float32)
    mean_square = jnp.mean(x32 * x32, axis=-1, keepdims=True)
    y = x32 * jax.lax.rsqrt(mean_square + eps) * weight.astype(jnp.float32)  # your kernel goes here
    return np.asarray(y.astype(x.dtype))


def layernorm(inputs, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axis."""
    x, weight, bias = (jnp.asarray(inputs[name]) for name in ("input", "weight", "bias"))
    x32 = x.astype(jnp.float32)
    centred = x32 - jnp.mean(x32, axis=-1, keepdims=True)
    var = jnp.mean(centred * centred, axis=-1, keepdims=True)
    y = centred * jax.lax.rsqrt(var + eps) * weight.astype(jnp.float32) + bias.astype(jnp.float32)  # your kernel
    return np.asarray(y.astype(x.dtype))


def matmul(inputs):
    """a @ b, accumulated in float32."""
    a, b = (jnp.asarray(inputs[name]) for name in ("a", "b"))
    y = jnp.matmul(a.astype(jnp.float32), b.astype(jnp.float32), precision="highest")  # your kernel goes here
    return np.asarray(y.astype(a.dtype))


def gelu(inputs):
    """0.5 x (1 + erf(x / sqrt(2))), without the tanh approximation."""
    x = jnp.asarray(inputs["input"])
    y = jax.nn.gelu(x.astype(jnp.float32), approximate=False)  # your kernel goes here
    return np.asarray(y.astype(x.dtype))


def attention(inputs, causal=False, scale=0.0):
    """softmax(scale q k^T) v; scale 0 stands for 1/sqrt(D). Several heads of q may share one of k and v."""
    q, k, v = (jnp.asarray(inputs[name]) for name in ("q", "k", "v"))
    group = q.shape[1] // k.shape[1]
    q32 = q.astype(jnp.float32)
    k32, v32 = (jnp.repeat(t.astype(jnp.float32), group, axis=1) for t in (k, v))
    scores = jnp.matmul(q32, k32.swapaxes(-1, -2), precision="highest")  # your kernel: from here
    scores = scores * (scale or q.shape[-1] ** -0.5)
    if causal:  # the last row sees the last key
        rows, keys = scores.shape[-2:]
        scores = jnp.where(jnp.tri(rows, keys, keys - rows, dtype=bool), scores, -jnp.inf)
    y = jnp.matmul(jax.nn.softmax(scores, axis=-1), v32, precision="highest")  # to here
    return np.asarray(y.astype(q.dtype))

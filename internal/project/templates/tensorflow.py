"""Candidates in TensorFlow, the source of what gpuemu init writes: one block per op, two blank lines between blocks."""
import numpy as np
import tensorflow as tf


def softmax(inputs):
    """exp(x - m) / sum(exp(x - m)) over the last axis, m the row maximum."""
    x = tf.constant(inputs["input"])
    x32 = tf.cast(x, tf.float32)
    e = tf.exp(x32 - tf.reduce_max(x32, axis=-1, keepdims=True))  # your kernel goes here; tf.nn.softmax swallows NaN
    y = e / tf.reduce_sum(e, axis=-1, keepdims=True)
    return tf.cast(y, x.dtype).numpy()


def rmsnorm(inputs, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    x, weight = (tf.constant(inputs[name]) for name in ("input", "weight"))
    x32 = tf.cast(x, tf.float32)
    mean_square = tf.reduce_mean(x32 * x32, axis=-1, keepdims=True)
    y = x32 * tf.math.rsqrt(mean_square + eps) * tf.cast(weight, tf.float32)  # your kernel goes here
    return tf.cast(y, x.dtype).numpy()


def layernorm(inputs, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axis."""
    x, weight, bias = (tf.constant(inputs[name]) for name in ("input", "weight", "bias"))
    x32 = tf.cast(x, tf.float32)
    centred = x32 - tf.reduce_mean(x32, axis=-1, keepdims=True)
    var = tf.reduce_mean(centred * centred, axis=-1, keepdims=True)
    y = centred * tf.math.rsqrt(var + eps) * tf.cast(weight, tf.float32) + tf.cast(bias, tf.float32)  # your kernel
    return tf.cast(y, x.dtype).numpy()


def matmul(inputs):
    """a @ b, accumulated in float32."""
    a, b = (tf.constant(inputs[name]) for name in ("a", "b"))
    y = tf.matmul(tf.cast(a, tf.float32), tf.cast(b, tf.float32))  # your kernel goes here
    return tf.cast(y, a.dtype).numpy()


def gelu(inputs):
    """0.5 x (1 + erf(x / sqrt(2))), without the tanh approximation."""
    x = tf.constant(inputs["input"])
    x32 = tf.cast(x, tf.float32)
    y = 0.5 * x32 * (1.0 + tf.math.erf(x32 * 0.5**0.5))  # your kernel goes here
    return tf.cast(y, x.dtype).numpy()


def attention(inputs, causal=False, scale=0.0):
    """softmax(scale q k^T) v; scale 0 stands for 1/sqrt(D). Several heads of q may share one of k and v."""
    q, k, v = (tf.constant(inputs[name]) for name in ("q", "k", "v"))
    group = q.shape[1] // k.shape[1]
    q32 = tf.cast(q, tf.float32)
    k32, v32 = (tf.repeat(tf.cast(t, tf.float32), group, axis=1) for t in (k, v))
    scores = tf.matmul(q32, k32, transpose_b=True) * (scale or q.shape[-1] ** -0.5)  # your kernel: from here
    if causal:  # the last row sees the last key
        rows, keys = scores.shape[-2:]
        scores = tf.where(np.tri(rows, keys, keys - rows, dtype=bool), scores, -np.inf)
    e = tf.exp(scores - tf.reduce_max(scores, axis=-1, keepdims=True))  # tf.nn.softmax swallows NaN
    y = tf.matmul(e / tf.reduce_sum(e, axis=-1, keepdims=True), v32)  # to here
    return tf.cast(y, q.dtype).numpy()

"""References as users write them, in two styles: computed in float64 and rounded to the type of the input, and computed
in whatever type the input has.
"""
import functools

import numpy as np

np.seterr(all="ignore")


def exact(f):
    """f on inputs widened to float64, rounded to the type of the first input."""

    @functools.wraps(f)
    def wide(inputs):
        first = next(iter(inputs.values()))
        return f({name: x.astype(np.float64) for name, x in inputs.items()}).astype(first.dtype)

    return wide


def eager_softmax(inputs):
    x = inputs["input"]
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def eager_layernorm(inputs):
    x = inputs["input"]
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def eager_rmsnorm(inputs):
    x = inputs["input"]
    return x * (1.0 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5))


def eager_l2norm(inputs):
    x = inputs["input"]
    return x * (1.0 / np.sqrt((x * x).sum(axis=-1, keepdims=True) + 1e-12))


def eager_matmul(inputs):
    return inputs["a"] @ inputs["b"]


def eager_gelu(inputs):
    x = inputs["input"]
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def eager_silu(inputs):
    x = inputs["input"]
    return x * (1.0 / (1.0 + np.exp(-x)))


def eager_sigmoid(inputs):
    return 1.0 / (1.0 + np.exp(-inputs["input"]))


def eager_tanh(inputs):
    return np.tanh(inputs["input"])


def eager_elu(inputs):
    x = inputs["input"]
    return np.where(x >= 0.0, x, np.exp(x) - 1.0)


def eager_relu(inputs):
    return np.maximum(inputs["input"], 0.0)


def eager_leaky_relu(inputs):
    x = inputs["input"]
    return np.where(x > 0.0, x, 0.01 * x)


def eager_attention(inputs):
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    scores = (q @ k.T) / np.sqrt(q.shape[-1])
    scores -= scores.max(axis=-1, keepdims=True)
    e = np.exp(scores)
    return (e / e.sum(axis=-1, keepdims=True)) @ v


for name, function in list(globals().items()):
    if name.startswith("eager_"):
        globals()[name.removeprefix("eager_")] = exact(function)

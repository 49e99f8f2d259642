"""Sixteen conforming kernels and ten faulty ones, in the precision in which GPU kernels compute.

Most load into float32 and round at the store. rmsnorm, gelu, softmax, relu and leaky_relu compute in the type of their
input, as the same lines of Triton do, and relu drops NaN, as `where(x > 0, x, 0)` does on every GPU.
"""
import numpy as np

np.seterr(all="ignore")
F32 = np.float32


def stored(y, x):
    return y.astype(x.dtype)


def tree(x):
    """The sum over the last axis in the type of x, by halves, as a reduction across threads does it."""
    n = 1 << max(x.shape[-1] - 1, 0).bit_length()
    x = np.concatenate([x, np.zeros(x.shape[:-1] + (n - x.shape[-1],), x.dtype)], axis=-1)
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x


def softmax_rows(x):
    x = x - np.fmax.reduce(x, axis=-1, keepdims=True)
    e = np.exp(x)
    return e / tree(e)


# ---- conforming -------------------------------------------------------------------------------------------------


def softmax(inputs):
    x = inputs["input"].astype(F32)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return stored(e / e.sum(axis=-1, keepdims=True), inputs["input"])


def softmax_block(inputs):
    return softmax_rows(inputs["input"])


def layernorm(inputs):
    x = inputs["input"].astype(F32)
    mean = x.mean(axis=-1, keepdims=True)
    return stored((x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + F32(1e-5)), inputs["input"])


def rmsnorm(inputs, root=np.sqrt):
    x = inputs["input"]
    mean = tree(x * x) / x.dtype.type(x.shape[-1])
    return stored(x * (x.dtype.type(1) / root(mean + x.dtype.type(1e-5))), x)


def l2norm(inputs, root=np.sqrt):
    x = inputs["input"].astype(F32)
    return stored(x * (F32(1) / root(tree(x * x) + F32(1e-12))), inputs["input"])


def matmul(inputs):
    a, b = inputs["a"].astype(F32), inputs["b"].astype(F32)
    return stored(a @ b, inputs["a"])


def matmul_loop(inputs, forget=False):
    a, b = inputs["a"].astype(F32), inputs["b"].astype(F32)
    acc = np.zeros((a.shape[0], b.shape[1]), F32)
    for k in range(a.shape[1]):
        part = a[:, k : k + 1] * b[k : k + 1]
        acc = part if forget else acc + part
    return stored(acc, inputs["a"])


def tanh_of(z):
    one, two = z.dtype.type(1), z.dtype.type(2)
    sign = np.where(z >= 0, one, -one)
    return sign * (one - two / (np.exp(two * np.where(z >= 0, z, -z)) + one))


def gelu(inputs, half=0.5):
    x = inputs["input"]
    t = x.dtype.type
    inner = t(0.7978845608028654) * (x + t(0.044715) * x * x * x)
    return stored(t(half) * x * (t(1) + tanh_of(inner)), x)


def silu(inputs, beta=1):
    x = inputs["input"].astype(F32)
    return stored(x * (F32(1) / (F32(1) + np.exp(F32(-beta) * x))), inputs["input"])


def sigmoid(inputs):
    x = inputs["input"].astype(F32)
    return stored(F32(1) / (F32(1) + np.exp(-x)), inputs["input"])


def tanh(inputs):
    return stored(tanh_of(inputs["input"].astype(F32)), inputs["input"])


def elu(inputs):
    x = inputs["input"].astype(F32)
    return stored(np.where(x >= 0, x, np.exp(x) - F32(1)), inputs["input"])


def relu(inputs):
    x = inputs["input"]
    return np.where(x > 0, x, x.dtype.type(0))


def leaky_relu(inputs, slope=0.01):
    x = inputs["input"]
    return np.where(x > 0, x, x.dtype.type(slope) * x)


def attention(inputs, scaled=True):
    q, k, v = (inputs[name].astype(F32) for name in "qkv")
    scores = tree(q[:, None, :] * k[None])[..., 0]
    if scaled:
        scores = scores * F32(1 / np.sqrt(q.shape[-1]))
    p = softmax_rows(scores)
    return stored(tree(np.moveaxis(p[:, :, None] * v[None], 1, -1))[..., 0], inputs["q"])


def flash_attention(inputs, rescale=True, block=32):
    q, k, v = (inputs[name].astype(F32) for name in "qkv")
    m = np.full(q.shape[0], -np.inf, F32)
    l, acc = np.zeros(q.shape[0], F32), np.zeros((q.shape[0], v.shape[1]), F32)
    for at in range(0, k.shape[0], block):
        kb, vb = k[at : at + block], v[at : at + block]
        s = tree(q[:, None, :] * kb[None])[..., 0] * F32(1 / np.sqrt(q.shape[-1]))
        top = np.fmax(m, np.fmax.reduce(s, axis=1))
        alpha, p = np.exp(m - top), np.exp(s - top[:, None])
        l = l * alpha + p.sum(axis=1)
        part = tree(np.moveaxis(p[:, :, None] * vb[None], 1, -1))[..., 0]
        acc = (acc * alpha[:, None] if rescale else acc) + part
        m = top
    return stored(acc / l[:, None], inputs["q"])


# ---- faulty -----------------------------------------------------------------------------------------------------


def padded(x, n):
    return np.concatenate([x, np.zeros(x.shape[:-1] + (n - x.shape[-1],), x.dtype)], axis=-1)


def softmax_tail(inputs):
    """The denominator counts the zeros that pad a row to a multiple of 128."""
    x = inputs["input"].astype(F32)
    n = x.shape[-1]
    return stored(softmax_rows(padded(x, -n % 128 + n))[..., :n], inputs["input"])


def softmax_padding(inputs):
    """Lanes past the end of a row load 0 instead of -Inf."""
    x = inputs["input"]
    n = x.shape[-1]
    return softmax_rows(padded(x, 1 << max(n - 1, 0).bit_length()))[..., :n]


def rmsnorm_no_root(inputs):
    return rmsnorm(inputs, root=lambda x: x)


def l2norm_no_root(inputs):
    return l2norm(inputs, root=lambda x: x)


def matmul_last(inputs):
    """Assigns in the loop instead of accumulating."""
    return matmul_loop(inputs, forget=True)


def gelu_no_half(inputs):
    return gelu(inputs, half=1)


def silu_twice(inputs):
    return silu(inputs, beta=2)


def leaky_relu_steep(inputs):
    return leaky_relu(inputs, slope=0.1)


def attention_unscaled(inputs):
    return attention(inputs, scaled=False)


def flash_attention_stale(inputs):
    """Does not rescale what was accumulated under an older maximum."""
    return flash_attention(inputs, rescale=False)

"""Tensors of any rank: the operators of the catalogue against NumPy and PyTorch, judged in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gpuemu import Client

Inputs = dict[str, np.ndarray]
SHAPE = (2, 3, 2, 4, 5)
erf = np.vectorize(math.erf, otypes=[np.float64])


def data(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape) * 2


def positive(*shape: int) -> np.ndarray:
    return np.abs(data(*shape)) + 0.1


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (0.5 * (1 + erf(x / math.sqrt(2))))


def logsumexp(x: np.ndarray, axis: int = -1, keepdims: bool = False) -> np.ndarray:
    top = x.max(axis=axis, keepdims=True)
    out = top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True))
    return out if keepdims else out.squeeze(axis)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def along(weight: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """A vector where it meets that axis of a tensor."""
    shape = [1] * rank
    shape[axis] = -1
    return weight.reshape(shape)


ELEMENTWISE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "gelu": gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "exp": np.exp,
    "log": np.log,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
BINARY: dict[str, tuple[str, str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "add": ("a", "b", lambda a, b: a + b),
    "mul": ("a", "b", lambda a, b: a * b),
    "swiglu": ("gate", "up", lambda g, u: g * sigmoid(g) * u),
    "geglu": ("gate", "up", lambda g, u: gelu(g) * u),
}
REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "argmax": np.argmax, "var": np.var, "logsumexp": logsumexp,
}  # fmt: skip
ROWS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "cumsum": lambda x, axis: np.cumsum(x, axis=axis),
    "softmax": softmax,
    "log_softmax": lambda x, axis: x - logsumexp(x, axis, True),
    "l2norm": lambda x, axis: x / np.sqrt((x * x).sum(axis=axis, keepdims=True)),
}


def normalized(x: np.ndarray, axes: Any, eps: float = 1e-5) -> np.ndarray:
    return np.asarray((x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + eps))


def windows(x: np.ndarray, *size: int) -> np.ndarray:
    axes = tuple(range(x.ndim - len(size), x.ndim))
    return np.lib.stride_tricks.sliding_window_view(x, size, axis=axes)


def conv1d(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("...clk,ock->...ol", windows(x, w.shape[-1]), w) + b[:, None]


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("...chwij,ocij->...ohw", windows(x, *w.shape[-2:]), w) + b[:, None, None]


def depthwise(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("...chwij,cij->...chw", windows(x, *w.shape[-2:]), w[:, 0]) + b[:, None, None]


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])) @ v


def rope(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    one, two = np.split(x, 2, axis=-1)
    c, s = cos[:, None, :], sin[:, None, :]
    return np.concatenate([one * c - two * s, two * c + one * s], axis=-1)


def group_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    groups = x.reshape(x.shape[0], 2, -1)
    return normalized(groups, -1).reshape(x.shape) * along(weight, x.ndim, 1) + along(bias, x.ndim, 1)


def batch_norm(
    x: np.ndarray, mean: np.ndarray, var: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float = 1e-5
) -> np.ndarray:
    m, v, w, b = (along(p, x.ndim, 1) for p in (mean, var, weight, bias))
    return (x - m) / np.sqrt(v + eps) * w + b


Trial = tuple[str, Inputs, dict[str, Any], Any]


def elementwise() -> Iterator[Trial]:
    for rank in range(6):
        x = positive(*SHAPE[:rank])
        for op, f in ELEMENTWISE.items():
            y = x if op in ("log", "rsqrt") else data(*SHAPE[:rank])
            yield op, {"input": y}, {}, f(y)
    for op, (one, two, g) in BINARY.items():
        for rank in range(1, 6):
            a, b = data(*SHAPE[:rank]), data(*SHAPE[:rank], seed=1)
            yield op, {one: a, two: b}, {}, g(a, b)
        for s, t in [((2, 1, 4), (5, 1, 3, 1)), ((4,), (2, 3, 4)), ((1, 3, 1), (2, 1, 5)), ((), (2, 2))]:
            a, b = data(*s), data(*t, seed=1)
            yield op, {one: a, two: b}, {}, g(a, b)


def by_axis() -> Iterator[Trial]:
    for rank in range(1, 6):
        x = data(*SHAPE[-rank:])
        for axis in range(-rank, rank):
            n = x.shape[axis]
            for op, f in REDUCTIONS.items():
                for keep in (False, True):
                    yield op, {"input": x}, {"axis": axis, "keepdims": keep}, np.asarray(f(x, axis=axis, keepdims=keep))
            for op, g in ROWS.items():
                yield op, {"input": x}, {"axis": axis}, g(x, axis)
            w, b = positive(n), data(n)
            out = normalized(x, axis) * along(w, rank, axis)
            yield "layernorm", {"input": x, "weight": w, "bias": b}, {"axis": axis}, out + along(b, rank, axis)
            root = np.sqrt((x * x).mean(axis=axis, keepdims=True) + 1e-6)
            yield "rmsnorm", {"input": x, "weight": w}, {"axis": axis}, x / root * along(w, rank, axis)


def channels() -> Iterator[Trial]:
    w, b, mean, var = positive(4), data(4), data(4), positive(4)

    def both(op: str, x: np.ndarray, others: Inputs, out: np.ndarray, at: int, **attrs: Any) -> Iterator[Trial]:
        yield op, {"input": x, **others}, attrs, out
        last = {"input": np.ascontiguousarray(np.moveaxis(x, at, -1)), **others}
        yield op, last, {**attrs, "channels": "last"}, np.moveaxis(out, at, -1)

    for rank in range(2, 6):
        x = data(3, 4, *(2, 3, 2)[: rank - 2])
        if rank > 2:
            yield from both("groupnorm", x, {"weight": w, "bias": b}, group_norm(x, w, b), 1)
        others = {"mean": mean, "var": var, "weight": w, "bias": b}
        yield from both("batchnorm", x, others, batch_norm(x, mean, var, w, b), 1)
    for lead in [(), (2,), (2, 3)]:
        x, k, c = data(*lead, 4, 9), data(5, 4, 3), data(5)
        yield from both("conv1d", x, {"weight": k, "bias": c}, conv1d(x, k, c), -2)
        x, k = data(*lead, 4, 6, 7), data(5, 4, 3, 2)
        yield from both("conv2d", x, {"weight": k, "bias": c}, conv2d(x, k, c), -3)
        k, c = data(4, 1, 3, 2), data(4)
        yield from both("depthwise_conv2d", x, {"weight": k, "bias": c}, depthwise(x, k, c), -3)
        pooled = windows(x, 2, 2)[..., ::2, ::2, :, :]
        yield from both("max_pool2d", x, {}, pooled.max(axis=(-1, -2)), -3)
        yield from both("avg_pool2d", x, {}, pooled.mean(axis=(-1, -2)), -3)


def products() -> Iterator[Trial]:
    for s, t in [
        ((3,), (3,)), ((2, 3), (3,)), ((5, 2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
        ((2, 5, 2, 3), (3, 4)), ((2, 2, 5, 2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 4)), ((2, 3), (2, 2, 5, 3, 4)), ((2, 5, 2, 3), (2, 5, 3, 4)),
    ]:  # fmt: skip
        a, b = data(*s), data(*t, seed=1)
        yield "matmul", {"a": a, "b": b}, {}, a @ b
        if min(len(s), len(t)) > 1:
            yield "batched_matmul", {"a": a, "b": b}, {}, a @ b
        if len(t) == 2:
            bias = data(4)
            yield "matmul_bias_act", {"a": a, "b": b, "bias": bias}, {"act": "relu"}, np.maximum(a @ b + bias, 0)
    for lead in [(), (2,), (2, 3)]:
        q, k, v = data(*lead, 2, 3, 4), data(*lead, 2, 5, 4, seed=1), data(*lead, 2, 5, 4, seed=2)
        yield "attention", {"q": q, "k": k, "v": v}, {}, attention(q, k, v)
        x, cos, sin = data(*lead, 3, 2, 4), np.cos(data(3, 2)), np.sin(data(3, 2))
        yield "rope", {"input": x, "cos": cos, "sin": sin}, {}, rope(x, cos, sin)


def indexed() -> Iterator[Trial]:
    draw = np.random.default_rng(5)
    for lead in [(), (4,), (2, 3), (2, 3, 2), (2, 1, 3, 2)]:
        x = data(*lead, 7)
        index = draw.integers(0, 7, size=lead)
        loss = logsumexp(x) - np.take_along_axis(x, index[..., None], -1)[..., 0]
        yield "cross_entropy", {"logits": x, "target": index}, {}, loss
        table = data(7, 3)
        yield "embedding", {"table": table, "index": index}, {}, table[index]
        some = draw.integers(0, 7, size=(*lead, 2))
        yield "gather", {"input": x, "index": some}, {}, np.take_along_axis(x, some, -1)
        added, src = table.copy(), data(*lead, 3)
        np.add.at(added, index, src)
        yield "scatter_add", {"input": table, "index": index, "src": src}, {}, added
        order = np.argsort(-x, axis=-1)[..., :2]
        yield "topk", {"input": x}, {"k": 2}, {"values": np.take_along_axis(x, order, -1), "indices": order}
        p = softmax(x)
        yield "moe_routing", {"logits": x}, {"k": 2}, {"weights": np.take_along_axis(p, order, -1), "indices": order}
        scale = np.abs(x).max(axis=-1) / 127
        q = np.rint(x / scale[..., None]).astype(np.int8)
        yield "dequantize_row", {"q": q, "scale": scale.astype(np.float32)}, {}, \
            q * scale.astype(np.float32).astype(np.float64)[..., None]  # fmt: skip


TRIALS = {f.__name__: f for f in (elementwise, by_axis, channels, products, indexed)}


@pytest.mark.parametrize("family", TRIALS)
def test_numpy_passes(client: Client, family: str) -> None:
    seen = 0
    for op, inputs, attrs, want in TRIALS[family]():
        result = client.validate_op(op, inputs, want, store="none", **attrs)
        shapes = {name: x.shape for name, x in inputs.items()}
        assert result.passed, f"{op} {shapes} {attrs}: {result}"
        seen += 1
    assert seen > 20


def test_a_wrong_element_is_reported_where_it_is(client: Client) -> None:
    at = (1, 2, 0, 3, 1)
    for op, inputs, attrs, want in TRIALS["by_axis"]():
        x = inputs["input"]
        if x.ndim < 5 or op in ("argmax", "sum", "mean", "max", "var", "logsumexp"):
            continue
        wrong = np.array(want)
        wrong[at] += 1
        result = client.validate_op(op, inputs, wrong, store="none", **attrs)
        assert not result.passed
        assert "worst at [1,2,0,3,1]" in str(result), f"{op} {attrs}: {result}"


def on_input(f: Callable[..., np.ndarray], **attrs: Any) -> Callable[[Inputs], np.ndarray]:
    """A kernel that computes in float64 and rounds once."""

    def kernel(inputs: Inputs) -> np.ndarray:
        wide = {name: x.astype(np.float64) if x.dtype.kind == "f" else x for name, x in inputs.items()}
        out = np.asarray(f(*wide.values(), **attrs))
        narrow = next(x.dtype for x in inputs.values() if x.dtype.kind == "f")
        return out.astype(narrow) if out.dtype.kind == "f" else out

    return kernel


def stable(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=-1, keepdims=True)
    return np.asarray(x - np.log(np.exp(x).sum(axis=-1, keepdims=True)))


def soft(x: np.ndarray, beta: float = 1, threshold: float = 20) -> np.ndarray:
    return np.where(beta * x > threshold, x, np.log1p(np.exp(np.minimum(beta * x, threshold))) / beta)


def activated(x: np.ndarray, act: str) -> np.ndarray:
    return np.maximum(x, 0) if act == "relu" else ELEMENTWISE[act](x) if act != "none" else x


def grouped(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, groups: int, eps: float) -> np.ndarray:
    out = normalized(x.reshape(x.shape[0], groups, -1), -1, eps).reshape(x.shape) if x.size else x
    return out * along(weight, x.ndim, 1) + along(bias, x.ndim, 1)


def root_mean_square(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return np.asarray(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight)


# Attributes that are drawn are parameters by name.
KERNELS: dict[str, Callable[..., np.ndarray]] = {
    **{op: lambda x, f=f: f(x) for op, f in ELEMENTWISE.items()},
    **{op: lambda a, b, f=f: f(a, b) for op, (_, _, f) in BINARY.items()},
    **{op: lambda x, f=f: f(x, axis=-1) for op, f in {**REDUCTIONS, **ROWS}.items()},
    "l2norm": lambda x: x / np.maximum(np.sqrt((x * x).sum(axis=-1, keepdims=True)), 1e-12),
    "log_softmax": stable,
    "matmul": lambda a, b: a @ b,
    "batched_matmul": lambda a, b: a @ b,
    "gather": lambda x, index: np.take_along_axis(x, index, -1),
    "embedding": lambda table, index: table[index],
}
WITH_ATTRIBUTES: dict[str, Callable[..., Any]] = {
    "leaky_relu": lambda inputs, alpha: on_input(lambda x: np.where(x >= 0, x, alpha * x))(inputs),
    "elu": lambda inputs, alpha: on_input(lambda x: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))(inputs),
    "softplus": lambda inputs, beta, threshold: on_input(soft, beta=beta, threshold=threshold)(inputs),
    "var": lambda inputs, correction: on_input(np.var, axis=-1, ddof=correction)(inputs),
    "layernorm": lambda inputs, eps: on_input(lambda x, w, b: normalized(x, -1, eps) * w + b)(inputs),
    "rmsnorm": lambda inputs, eps: on_input(root_mean_square, eps=eps)(inputs),
    "groupnorm": lambda inputs, groups, eps: on_input(grouped, groups=groups, eps=eps)(inputs),
    "batchnorm": lambda inputs, eps: on_input(batch_norm, eps=eps)(inputs),
    "matmul_bias_act": lambda inputs, act: on_input(lambda a, b, c: activated(a @ b + c, act))(inputs),
}
ITERATIONS = 20  # of an operator; 2,310 cases with 66 of them raise no alarm


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_alarm_where_ranks_are_drawn(client: Client) -> None:
    ranks: set[int] = set()
    kernels = {**{op: on_input(f) for op, f in KERNELS.items()}, **WITH_ATTRIBUTES}
    for op, kernel in kernels.items():
        results = client.fuzz_op_client_side(
            op, kernel, ITERATIONS, seed=5, ranks=range(1, 6), store="none", progress=False,
            on_case=lambda case, inputs, *_: ranks.add(next(iter(inputs.values())).ndim),
        )  # fmt: skip
        assert results.failed == 0, f"{op}: {results.failures[0]}"
        assert results.total == ITERATIONS
        assert results.passed > ITERATIONS // 2
    assert ranks == {1, 2, 3, 4, 5}


def test_torch_passes(client: Client) -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    for rank in range(1, 6):
        x = torch.from_numpy(data(*SHAPE[-rank:]))
        for axis in range(-rank, rank):
            calls = {
                "softmax": torch.softmax(x, axis), "log_softmax": torch.log_softmax(x, axis),
                "cumsum": torch.cumsum(x, axis), "sum": x.sum(axis), "mean": x.mean(axis), "argmax": x.argmax(axis),
                "logsumexp": torch.logsumexp(x, axis), "var": x.var(axis, correction=0),
                "max": x.max(axis).values, "l2norm": functional.normalize(x, dim=axis),
            }  # fmt: skip
            for op, got in calls.items():
                result = client.validate_op(op, {"input": x}, got, store="none", axis=axis)
                assert result.passed, f"{op} {axis} {x.shape}"
        assert client.validate_op("gelu", {"input": x}, functional.gelu(x), store="none").passed
    for rank in range(3, 6):
        x, w, b = torch.from_numpy(data(3, 4, *(2, 3, 2)[: rank - 2])), torch.rand(4).double(), torch.rand(4).double()
        got = functional.group_norm(x, 2, w, b)
        assert client.validate_op("groupnorm", {"input": x, "weight": w, "bias": b}, got, store="none").passed
    for s, t in [((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 4)), ((2, 3), (2, 2, 5, 3, 4)), ((3,), (3, 4))]:
        a, b = torch.from_numpy(data(*s)), torch.from_numpy(data(*t))
        assert client.validate_op("matmul", {"a": a, "b": b}, a @ b, store="none").passed

"""Launches of the kernels of testdata/kernels/triton, in the builds that are listed there."""

import functools
import importlib.util
import pathlib
import sys

import numpy as np
from elements import philox, uniform
from launches import TABLES, Case, Cases, Launch, changed, decode, encode, given, left, normal
from rows import soft

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "testdata/kernels/triton/kernels.py"
ONLY_HOPPER = ("fp8e4nv",)  # formats that Triton does not convert or multiply before sm_89


def load():
    """The module of the kernels; Triton reads their sources through their module."""
    spec = importlib.util.spec_from_file_location("fixture_kernels", KERNELS)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def codes(rng, shape, kind):
    """Numbers of a format of eight bits, none of them large."""
    values = TABLES[kind]
    return rng.choice(values[np.abs(values) <= 4], shape)


def add(rng, row, kind):
    x, y = normal(rng, 1200, kind), normal(rng, 1200, kind)
    grid = (-(-1200 // row["constants"]["BLOCK"]),)
    return Launch(grid, {"x_ptr": given(x, kind), "y_ptr": given(y, kind), "out_ptr": left(x + y, kind), "n": 1200})


def gelu(rng, row, kind):
    x = normal(rng, 592)
    want = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    return Launch((2,), {"x_ptr": given(x), "out_ptr": left(want, "fp32", 1e-5), "n": 592})


def silu_mul(rng, row, kind):
    gate, up = normal(rng, 1200, kind), normal(rng, 1200, kind)
    want = gate / (1 + np.exp(-gate)) * up
    return Launch((2,), {"gate_ptr": given(gate, kind), "up_ptr": given(up, kind), "out_ptr": left(want, kind, 1e-2),
                         "n": 1200})


def softmax(rng, row, kind):
    cols = 112 if row["constants"]["BLOCK"] == 1024 else 1040
    x = normal(rng, (3, cols), kind)
    return Launch((3,), {"x_ptr": given(x, kind), "out_ptr": left(soft(x), kind, 1e-5 if kind == "fp32" else 2e-3),
                         "row_stride": cols, "cols": cols})


def layernorm(rng, row, kind):
    x, w, b = normal(rng, (2, 1040), kind), normal(rng, 1040), normal(rng, 1040)
    mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + 1e-5)
    want = (x - mean[:, None]) * rstd[:, None] * w + b
    return Launch((2,), {"x_ptr": given(x, kind), "gamma_ptr": given(w), "beta_ptr": given(b),
                         "out_ptr": left(want, "fp32", 1e-5), "mean_ptr": left(mean, "fp32", 1e-4),
                         "rstd_ptr": left(rstd, "fp32", 1e-5), "cols": 1040, "eps": 1e-5})


def rmsnorm(rng, row, kind):
    x, w = normal(rng, (3, 112), kind), normal(rng, 112, kind)
    want = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w
    return Launch((3,), {"x_ptr": given(x, kind), "w_ptr": given(w, kind), "out_ptr": left(want, kind, 1e-2),
                         "cols": 112, "eps": 1e-5})


def matmul(rng, row, kind):
    m, n, k = 80, 48, 112
    out = row["signature"][2][1:]
    if kind == "i8":
        a, b, tolerance = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n)), 0.0
    elif kind in TABLES:
        a, b, tolerance = codes(rng, (m, k), kind), codes(rng, (k, n), kind), 1e-3
    else:
        a, b = normal(rng, (m, k), kind), normal(rng, (k, n), kind)
        narrow = {"fp16": 4e-3, "bf16": 1e-2, "fp32": 1e-5}[out]
        tolerance = 5e-3 if row["constants"]["PRECISION"] == "tf32" else narrow
    tile = row["constants"]
    return Launch((-(-m // tile["M"]), -(-n // tile["N"])), {
        "a_ptr": given(a, kind), "b_ptr": given(b, kind), "c_ptr": left(a @ b, out, tolerance), "m": m, "n": n, "k": k,
        "am": k, "bk": n, "cm": n,
    })  # fmt: skip


def attention(rng, row, kind):
    length, d, scale = 80, row["constants"]["D"], 0.125
    q, k, v = (normal(rng, (2, length, d), kind) for _ in range(3))
    s = np.einsum("hmd,hnd->hmn", q, k) * scale
    if row["constants"]["CAUSAL"]:
        s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
    lse = np.log2(np.exp(s).sum(2))
    return Launch((2, 2), {"q_ptr": given(q, kind), "k_ptr": given(k, kind), "v_ptr": given(v, kind),
                           "o_ptr": left(soft(s) @ v, kind, 2e-2), "lse_ptr": left(lse, "fp32", 1e-4), "scale": scale,
                           "length": length, "stride": length * d})


def dropout(rng, row, kind):
    seed, x = 1234560, normal(rng, 592)
    want = np.where(uniform(philox(np.arange(592), seed)[0]) > 0.25, x / 0.75, 0.0)
    return Launch((3,), {"x_ptr": given(x), "out_ptr": left(want, "fp32", 1e-6), "n": 592, "p": 0.25, "seed": seed})


def cross_entropy(rng, row, kind):
    x, target = normal(rng, (4, 1040)), rng.integers(0, 1040, 4)
    target[1] = -16
    loss = -np.log(soft(x)[np.arange(4), target])
    loss[1] = 0
    return Launch((4,), {"x_ptr": given(x), "target_ptr": given(target, "i64"), "loss_ptr": left(loss, "fp32", 1e-5),
                         "cols": 1040, "ignore": -16})


def histogram(rng, row, kind):
    x, start = rng.integers(0, 64, 400), rng.integers(0, 9, 64)
    want = start + np.bincount(x, minlength=64)
    return Launch((2,), {"x_ptr": given(x, "i32"), "bins_ptr": changed(start, want, "i32"), "n": 400})


def atomics(rng, row, kind):
    x = np.abs(normal(rng, 304))
    most = np.array([x[s::4].max() for s in range(4)])
    return Launch((3,), {"x_ptr": given(x), "sum_ptr": changed(np.zeros(2), [x.sum(), 3], "fp32", 1e-5),
                         "max_ptr": changed(np.zeros(4), most), "lock_ptr": changed([0], [0], "i32"), "n": 304})


def scan(rng, row, kind):
    x = normal(rng, (6, 112))
    return Launch((2,), {"x_ptr": given(x), "out_ptr": left(x.cumsum(1), "fp32", 2e-5),
                         "total_ptr": left(x.sum(1), "fp32", 2e-5), "rows": 6, "cols": 112})


def rotary(rng, row, kind):
    x, c, s, p = normal(rng, (3, 2, 64)), normal(rng, (5, 64)), normal(rng, (5, 64)), np.array([2, 0, 4])
    want = np.stack([x[:, 0] * c[p] - x[:, 1] * s[p], x[:, 1] * c[p] + x[:, 0] * s[p]], axis=1)
    return Launch((3,), {"x_ptr": changed(x, want, "fp32", 1e-6), "cos_ptr": given(c), "sin_ptr": given(s),
                         "positions": given(p, "i32")})


def argmax(rng, row, kind):
    x = normal(rng, (3, 112))
    return Launch((3,), {"x_ptr": given(x), "value_ptr": left(x.max(1)), "index_ptr": left(x.argmax(1), "i32"),
                         "cols": 112})


def sort_rows(rng, row, kind):
    x = normal(rng, (3, 32))
    return Launch((3,), {"x_ptr": given(x), "out_ptr": left(np.sort(x))})


def transpose(rng, row, kind):
    x = normal(rng, (48, 80), kind)
    return Launch((2, 3), {"x_ptr": given(x, kind), "out_ptr": left(x.T, kind), "rows": 48, "cols": 80})


def quantise(rng, row, kind):
    x = normal(rng, (3, 112))
    scale = np.abs(x).max(1) / 448
    return Launch((3,), {"x_ptr": given(x), "q_ptr": left(x / scale[:, None], "fp8e4nv", 1 / 16),
                         "scale_ptr": left(scale, "fp32", 1e-6), "cols": 112})


def embedding(rng, row, kind):
    table, ids = normal(rng, (9, 592), "fp16"), rng.integers(0, 9, 4)
    return Launch((4, 3), {"ids_ptr": given(ids, "i64"), "table_ptr": given(table, "fp16"),
                           "out_ptr": left(table[ids], "fp16"), "width": 592})


def tensor_matmul(rng, row, kind):
    a, b = normal(rng, (128, 64), kind), normal(rng, (64, 128), kind)
    return Launch((2, 2), {"a_ptr": given(a, kind), "b_ptr": given(b, kind), "c_ptr": left(a @ b, kind, 4e-3), "m": 128,
                           "n": 128, "k": 64})


def inline_assembly(rng, row, kind):
    x = rng.integers(-(1 << 31), 1 << 31, 128)
    want = decode(encode((x << 3) & x ^ 7, "i32"), "i32")  # of the 64 bits the lower half
    return Launch((1,), {"x_ptr": given(x, "i32"), "out_ptr": left(want, "i32")})


def halve_in_place(rng, row, kind):
    x = normal(rng, 80)
    return Launch((3,), {"x_ptr": changed(x, x / 2 + 1, "fp32", 1e-6), "n": 80})


def centre_in_place(rng, row, kind):
    x = normal(rng, (3, 12))
    return Launch((3,), {"x_ptr": changed(x, x - x.max(1, keepdims=True)), "cols": 12})


LAUNCHES = {f.__name__: f for f in (
    add, gelu, silu_mul, softmax, layernorm, rmsnorm, matmul, attention, dropout, cross_entropy, histogram, atomics,
    scan, rotary, argmax, sort_rows, transpose, quantise, embedding, tensor_matmul, inline_assembly, halve_in_place,
    centre_in_place,
)}  # fmt: skip


def cases():
    """A case for each build of the list there."""
    list_of_cases = Cases()
    for row in load().BUILDS:
        name, kind = row["kernel"].fn.__name__, row["signature"][0][1:]
        draw = functools.partial(LAUNCHES[name], row=row, kind=kind)
        hopper = any(k in ONLY_HOPPER for s in row["signature"] for k in [s.lstrip("*")])
        title = f"{name}{row['suffix']}-{'-'.join(str(v) for v in row['constants'].values() if type(v) in (int, bool))}"
        list_of_cases.append(Case(title, row["kernel"], row["constants"], draw, (row["warps"],), (row["stages"],),
                                  row["options"], (90,) if hopper else (80, 90)))
    return list_of_cases


CASES = cases()

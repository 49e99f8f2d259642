"""Liger-Kernel's Triton kernels through its autograd functions. liger.py OUT CAPABILITY [CASE...]"""

# ruff: noqa: B023 - functions made in loops are called before the loop goes on.
from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from drive import both_ways, leaf, normal, run_all
from pretend import Recording, pretend_cuda
from record import Recorder

HALF = torch.bfloat16
CASES: dict[str, Callable[[Recorder], None]] = {}


def case(function: Callable[[Recorder], None]) -> Callable[[Recorder], None]:
    """Adds a case under the name of its function."""
    CASES[function.__name__] = function
    return function


def op(name: str, module: str = "") -> Any:
    """A class of liger_kernel.ops."""
    return getattr(importlib.import_module(f"liger_kernel.ops{module}"), name)


def labels(rows: int, classes: int) -> torch.Tensor:
    """Targets, some of them ignored."""
    target = torch.randint(0, classes, (rows,))
    target[::5] = -100
    return target


@case
def rms_norm(r: Recorder) -> None:
    f = op("LigerRMSNormFunction")
    for mode, cols, offset in (("llama", 96, 0.0), ("gemma", 300, 1.0), ("none", 64, 0.0)):
        both_ways(
            r,
            lambda x, w: f.apply(x, w, 1e-6, offset, mode),
            {"x": normal(6, cols), "w": normal(cols)},
            lambda x, w: F.rms_norm(x, x.shape[-1:], w + offset, 1e-6),
        )
    for row in (True, False):
        both_ways(
            r,
            lambda x, w: f.apply(x, w, 1e-6, 0.0, "llama", False, row),
            {"x": normal(40, 128, dtype=HALF), "w": normal(128, dtype=HALF)},
            lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6),
            3e-2,
        )


@case
def layer_norm(r: Recorder) -> None:
    f = op("LigerLayerNormFunction")
    for cols in (100, 256):
        both_ways(
            r,
            lambda x, w, b: f.apply(x, w, b, 1e-5),
            {"x": normal(7, cols), "w": normal(cols), "b": normal(cols)},
            lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-5),
        )


@case
def group_norm(r: Recorder) -> None:
    f = op("LigerGroupNormFunction")
    both_ways(
        r,
        lambda x, w, b: f.apply(x, w, b, 12, 4, 1e-5),
        {"x": normal(2, 12, 50), "w": normal(12), "b": normal(12)},
        lambda x, w, b: F.group_norm(x, 4, w, b, 1e-5),
    )


@case
def fused_add_rms_norm(r: Recorder) -> None:
    f = op("LigerFusedAddRMSNormFunction")
    for cols in (80, 256):
        both_ways(
            r,
            lambda x, y, w: f.apply(x, y, w, 1e-6),
            {"x": normal(9, cols), "y": normal(9, cols), "w": normal(cols)},
            lambda x, y, w: (F.rms_norm(x + y, x.shape[-1:], w, 1e-6), x + y),
        )


@case
def modulated_rms_norm(r: Recorder) -> None:
    f = op("LigerModulatedRMSNormFunction", ".modulated_rms_norm")
    both_ways(
        r,
        lambda x, w, s, t: f.apply(x, w, s, t, 1e-6),
        {"x": normal(2, 5, 72), "w": normal(72), "s": normal(2, 1, 72), "t": normal(2, 1, 72)},
        lambda x, w, s, t: F.rms_norm(x, x.shape[-1:], w, 1e-6) * (1 + s) + t,
    )


@case
def poly_norm(r: Recorder) -> None:
    def reference(x: Any, w: Any, b: Any) -> Any:
        def normed(y: Any) -> Any:
            return y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)

        return w[0] * normed(x**3) + w[1] * normed(x**2) + w[2] * normed(x) + b

    f = op("LigerPolyNormFunction")
    both_ways(
        r,
        lambda x, w, b: f.apply(x, w, b, 1e-6, False),
        {"x": normal(6, 90), "w": normal(3), "b": leaf(torch.randn(()))},
        reference,
    )


@case
def dyt(r: Recorder) -> None:
    f = op("LigerDyTFunction")
    both_ways(
        r,
        lambda x, a, g, b: f.apply(x, a, g, b),
        {"x": normal(5, 120), "a": normal(1), "g": normal(120), "b": normal(120)},
        lambda x, a, g, b: torch.tanh(x * a) * g + b,
    )


@case
def swiglu(r: Recorder) -> None:
    f = op("LigerSiLUMulFunction")
    for cols in (130, 9000):
        both_ways(
            r, lambda a, b: f.apply(a, b), {"a": normal(3, cols), "b": normal(3, cols)}, lambda a, b: F.silu(a) * b
        )
    g = op("LigerFusedGateUpSiLUMulFunction", ".swiglu")
    both_ways(r, lambda y: g.apply(y), {"y": normal(5, 128)}, lambda y: F.silu(y[:, :64]) * y[:, 64:])


@case
def geglu(r: Recorder) -> None:
    f = op("LigerGELUMulFunction")
    both_ways(
        r,
        lambda a, b: f.apply(a, b),
        {"a": normal(4, 200), "b": normal(4, 200)},
        lambda a, b: F.gelu(a, approximate="tanh") * b,
    )


@case
def relu_squared(r: Recorder) -> None:
    f = op("LigerReLUSquaredFunction")
    both_ways(r, lambda x: f.apply(x), {"x": normal(4, 300)}, lambda x: F.relu(x).square())


@case
def softmax(r: Recorder) -> None:
    f = op("LigerSoftmaxFunction", ".softmax")
    for cols in (100, 9000):
        both_ways(r, lambda x: f.apply(x), {"x": normal(3, cols)}, lambda x: F.softmax(x, -1))


@case
def sparsemax(r: Recorder) -> None:
    f = op("LigerSparsemaxFunction", ".sparsemax")
    outs = both_ways(r, lambda x: f.apply(x, -1), {"x": normal(5, 60)})
    r.compare("sums of rows", outs[0].sum(-1), torch.ones(5))


@case
def cross_entropy(r: Recorder) -> None:
    f = op("LigerCrossEntropyFunction")
    target = labels(12, 150)
    both_ways(
        r, lambda x: f.apply(x, target, None)[0], {"x": leaf(normal(12, 150))}, lambda x: F.cross_entropy(x, target)
    )
    weight = torch.rand(150)
    both_ways(
        r,
        lambda x: f.apply(leaf_like(x), target, weight, -100, 1e-3, 0.1, "sum", 30.0, True, True, True)[0],
        {"x": normal(12, 150)},
    )
    both_ways(
        r,
        lambda x: f.apply(x * 1.0, target, None, -100, 0.0, 0.1, "none")[0],
        {"x": normal(12, 150)},
        lambda x: F.cross_entropy(x, target, label_smoothing=0.1, reduction="none"),
    )


def leaf_like(x: torch.Tensor) -> torch.Tensor:
    """A copy that gradients go through: the function overwrites its input."""
    return x * 1.0


@case
def fused_linear_cross_entropy(r: Recorder) -> None:
    f = op("LigerFusedLinearCrossEntropyFunction")
    target = labels(16, 130)
    both_ways(
        r,
        lambda x, w: f.apply(x, w, target)[0],
        {"x": normal(16, 48), "w": normal(130, 48)},
        lambda x, w: F.cross_entropy(x @ w.T, target),
    )
    both_ways(
        r,
        lambda x, w, b: f.apply(x, w, target, b, None, -100, 0.0, 0.0, "mean", None, True, torch.float32, True)[0],
        {"x": normal(16, 48), "w": normal(130, 48), "b": normal(130)},
    )


@case
def fused_linear_jsd(r: Recorder) -> None:
    f = op("LigerFusedLinearJSDFunction")
    target = labels(10, 64)
    both_ways(
        r,
        lambda x, w, y, v: f.apply(x, w, y, v, target, 0.3, -100, 1.5),
        {"x": normal(10, 32), "w": normal(64, 32), "y": normal(10, 32, grad=False), "v": normal(64, 32, grad=False)},
    )


@case
def fused_linear_kl_div(r: Recorder) -> None:
    f = op("LigerFusedLinearKLDivFunction", ".fused_linear_kl_div")
    q = F.softmax(torch.randn(10, 64), -1)
    both_ways(
        r,
        lambda x, w: f.apply(x, w, q),
        {"x": normal(10, 32), "w": normal(64, 32)},
        lambda x, w: F.kl_div(F.log_softmax(x @ w.T, -1), q.double(), reduction="batchmean"),
    )


@case
def fused_ce_tvd(r: Recorder) -> None:
    f = op("LigerFusedCETVDFunction", ".fused_ce_tvd")
    target = labels(10, 100)
    both_ways(
        r,
        lambda x, y: f.apply(x, y, target),
        {"x": normal(10, 100), "y": normal(10, 100, grad=False)},
        lambda x, y: (
            F.cross_entropy(x, target, reduction="none"),
            0.5 * (F.softmax(x, -1) - F.softmax(y, -1)).abs().sum(-1) * (target != -100),
        ),
    )


@case
def jsd(r: Recorder) -> None:
    f = op("LigerJSDFunction")
    target = F.log_softmax(torch.randn(8, 90), -1)
    for beta in (0.5, 0.0, 1.0):
        both_ways(
            r,
            lambda x: f.apply(x, target, None, beta),
            {"x": leaf(F.log_softmax(torch.randn(8, 90), -1))},
            None if beta == 0.5 else (lambda x: kl_of(x, target.double(), beta)),
        )
    both_ways(r, lambda x: f.apply(x, target, labels(8, 90), 0.2), {"x": leaf(F.log_softmax(torch.randn(8, 90), -1))})


def kl_of(x: torch.Tensor, y: torch.Tensor, beta: float) -> torch.Tensor:
    """The ends of the generalized divergence: KL of one and of the other."""
    a, b = (y, x) if beta == 0.0 else (x, y)
    return (a.exp() * (a - b)).sum() / x.shape[0]


@case
def kl_div(r: Recorder) -> None:
    f = op("LigerKLDivLossFunction")
    q = F.softmax(torch.randn(8, 90), -1)
    for reduction in ("batchmean", "none", "sum"):
        both_ways(
            r,
            lambda x: f.apply(x, q, reduction),
            {"x": leaf(F.log_softmax(torch.randn(8, 90), -1))},
            lambda x: F.kl_div(x, q.double(), reduction=reduction),
            backward=reduction != "none",
        )
    both_ways(
        r,
        lambda x: f.apply(x, q.log(), "mean", True),
        {"x": leaf(F.log_softmax(torch.randn(8, 90), -1))},
        lambda x: F.kl_div(x, q.double().log(), reduction="mean", log_target=True),
    )


@case
def tvd(r: Recorder) -> None:
    f = op("LigerTVDLossFunction")
    q = F.softmax(torch.randn(8, 90), -1)
    both_ways(
        r,
        lambda p: f.apply(p, q),
        {"p": leaf(F.softmax(torch.randn(8, 90), -1))},
        lambda p: 0.5 * (p - q.double()).abs().sum() / 8,
    )


@case
def vocab_parallel_cross_entropy(r: Recorder) -> None:
    f = op("LigerVocabParallelCEFunction", ".vocab_parallel_cross_entropy")
    target = torch.randint(0, 70, (6, 2))
    both_ways(r, lambda x: f.apply(x, target, None, -100, 0.0, "pytorch", "global"), {"x": normal(6, 2, 70)})


def angles(rows: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines as of rotary embeddings: both halves alike."""
    turn = torch.outer(torch.arange(rows).float(), 1 / 10000 ** (torch.arange(width // 2) / (width // 2)))
    turn = torch.cat([turn, turn], -1)[None]
    return turn.cos(), turn.sin()


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The rotary embedding of halves."""
    half = x.shape[-1] // 2
    return x * cos[:, None] + torch.cat([-x[..., half:], x[..., :half]], -1) * sin[:, None]


@case
def rope(r: Recorder) -> None:
    cos, sin = angles(6, 32)
    f = op("LigerRopeFunction")
    both_ways(
        r,
        lambda q, k: f.apply(q * 1.0, k * 1.0, cos, sin),
        {"q": normal(2, 4, 6, 32), "k": normal(2, 2, 6, 32)},
        lambda q, k: (rotated(q, cos, sin), rotated(k, cos, sin)),
    )


@case
def qwen2vl_mrope(r: Recorder) -> None:
    cos, sin = (t.expand(3, 2, 6, 32).contiguous() for t in (a[None] for a in angles(6, 32)))
    f = op("LigerQwen2VLMRopeFunction", ".qwen2vl_mrope")
    both_ways(
        r,
        lambda q, k: f.apply(q * 1.0, k * 1.0, cos, sin, [4, 6, 6]),
        {"q": normal(2, 4, 6, 32), "k": normal(2, 2, 6, 32)},
        lambda q, k: (rotated(q, cos[0], sin[0]), rotated(k, cos[0], sin[0])),
    )


@case
def llama4_rope(r: Recorder) -> None:
    turns = torch.polar(torch.ones(6, 16), torch.randn(6, 16))
    f = op("LigerLlama4RopeFunction", ".llama4_rope")

    def reference(q: Any, k: Any) -> Any:
        z = turns.to(torch.complex128)[None, :, None]
        return tuple(
            torch.view_as_real(torch.view_as_complex(t.unflatten(-1, (-1, 2))) * z).flatten(-2) for t in (q, k)
        )

    both_ways(r, lambda q, k: f.apply(q, k, turns), {"q": normal(2, 6, 4, 32), "k": normal(2, 6, 2, 32)}, reference)


@case
def grpo_loss(r: Recorder) -> None:
    f = op("GrpoLossFunction", ".grpo_loss")
    ids, mask = torch.randint(0, 80, (3, 7)), torch.ones(3, 7, dtype=torch.int32)
    mask[1, 4:] = 0
    old, ref, advantages = -torch.rand(3, 7), -torch.rand(3, 7), torch.randn(3)
    for kind in ("grpo", "dapo", "cispo", "sapo"):
        both_ways(
            r,
            lambda x: f.apply(x * 1.0, old, ref, ids, advantages, mask, 0.9, 0.04, 0.2, 0.2, False, kind, 8, True),
            {"x": normal(3, 8, 80)},
        )
    both_ways(
        r,
        lambda x: f.apply(
            x * 1.0, old, ref, ids, advantages, mask, 0.9, 0.04, 0.2, 0.2, False, "grpo", 8, True, "sequence"
        ),
        {"x": normal(3, 8, 80)},
    )
    got = op("fused_selective_log_softmax", ".grpo_loss")(torch.randn(3, 8, 80), ids, 0.9, mask)
    assert got.shape == (3, 7)


@case
def attn_res(r: Recorder) -> None:
    f = op("LigerAttnResFunction", ".attn_res")
    both_ways(
        r,
        lambda v, q, w: f.apply(v, q, w, 1e-6),
        {"v": normal(4, 2, 5, 64), "q": normal(64), "w": normal(64)},
        lambda v, q, w: (torch.softmax((F.rms_norm(v, (64,), w, 1e-6) * q).sum(-1), 0)[..., None] * v).sum(0),
    )


@case
def multi_token_attention(r: Recorder) -> None:
    f = op("LigerMultiTokenAttentionFunction", ".multi_token_attention")
    for sparse in (False, True):
        both_ways(
            r,
            lambda s, w, b: f.apply(s, w, b, 1, 1, 1, 1, sparse),
            {"s": normal(1, 2, 20, 20), "w": normal(2, 2, 3, 3), "b": normal(2)},
        )


@case
def mhc(r: Recorder) -> None:
    coefficients = op("LigerMHCCoeffsFunction", ".mhc")
    both_ways(
        r,
        lambda x, p, b, c, d, e: coefficients.apply(x, p, b, c, d, e, True, 6, 1e-6, 1e-4, 1e-6, 2.0),
        {
            "x": normal(10, 4, 32),
            "p": normal(128, 24, scale=0.1),
            "b": normal(24),
            "c": normal(1)[0].detach(),
            "d": normal(1)[0].detach(),
            "e": normal(1)[0].detach(),
        },
    )
    pre = op("LigerMHCPreFunction", ".mhc")
    both_ways(
        r,
        lambda x, h: pre.apply(x, h),
        {"x": normal(10, 4, 32), "h": normal(10, 4)},
        lambda x, h: (x * h[..., None]).sum(1),
    )
    post = op("LigerMHCPostResFunction", ".mhc")
    both_ways(
        r,
        lambda x, y, h, m: post.apply(x, y, h, m),
        {"x": normal(10, 4, 32), "y": normal(10, 32), "h": normal(10, 4), "m": normal(10, 4, 4)},
    )


@case
def fused_moe(r: Recorder) -> None:
    index = torch.stack([torch.randperm(4)[:2] for _ in range(20)]).int()

    def reference(x: Any, g: Any, d: Any, s: Any) -> Any:
        out = torch.zeros_like(x)
        for t in range(20):
            for k in range(2):
                gate, up = (g[index[t, k]] @ x[t]).chunk(2)
                out[t] = out[t] + s[t, k] * (d[index[t, k]] @ (F.silu(gate) * up))
        return out

    f = op("LigerFusedMoEFunction", ".fused_moe")
    both_ways(
        r,
        lambda x, g, d, s: f.apply(x, g, d, index, s),
        {
            "x": normal(20, 64),
            "g": normal(4, 64, 64, scale=0.2),
            "d": normal(4, 64, 32, scale=0.2),
            "s": leaf(torch.rand(20, 2)),
        },
        reference,
        3e-2,
    )


@case
def fused_neighborhood_attention(r: Recorder) -> None:
    f = op("LigerFusedNeighborhoodAttentionFunction", ".fused_neighborhood_attention")
    both_ways(
        r,
        lambda q, k, v: f.apply(q, k, v, 7, 1, None),
        {"q": normal(1, 2, 40, 32), "k": normal(1, 2, 40, 32), "v": normal(1, 2, 40, 32)},
    )


@case
def embedding(r: Recorder) -> None:
    ids = torch.randint(0, 50, (4, 9))
    f = op("LigerEmbeddingFunction", ".experimental.embedding")
    both_ways(r, lambda w: f.apply(w, ids), {"w": normal(50, 40)}, lambda w: F.embedding(ids, w))


@case
def mm_int8int2(r: Recorder) -> None:
    matmul = op("matmul", ".experimental.mm_int8int2")
    a, w = torch.randint(-128, 127, (70, 256), dtype=torch.int8), torch.randint(0, 3, (256, 80), dtype=torch.uint8)
    packed = sum(part << (2 * i) for i, part in enumerate(w.chunk(4)))
    r.compare("product", matmul(a, packed), a.double() @ (w.double() - 1))


@case
def mlp(r: Recorder) -> None:
    forward = op("gemm_swiglu", ".mlp")
    forward(*(normal(*shape, dtype=HALF) for shape in ((1, 64, 64), (64, 64), (64, 64))), 1.0, True)


def main() -> None:
    """Runs the cases named on the command line, or all."""
    out, capability = sys.argv[1], int(sys.argv[2])
    recorder = Recorder("liger", importlib.metadata.version("liger_kernel"), out)
    pretend_cuda(capability)
    importlib.import_module("liger_kernel.ops.dyt").infer_device = lambda: "cuda"  # it knows no CPU
    with Recording(recorder, "liger_kernel", capability):
        run_all(recorder, CASES, sys.argv[3:])


if __name__ == "__main__":
    main()

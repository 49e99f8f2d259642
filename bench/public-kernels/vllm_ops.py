"""Triton kernels of vLLM through the functions around them. vllm_ops.py OUT SOURCES CAPABILITY [CASE...]

SOURCES is a checkout: nothing is installed. Modules of kernels are loaded from it; what they import of the rest of vLLM
(platforms, logging, environment) is an object that answers every question with itself.
"""

from __future__ import annotations

import enum
import importlib
import importlib.abc
import importlib.machinery
import os
import pathlib
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from drive import run_all
from pretend import Recording, pretend_cuda
from record import Recorder

HALF = torch.float16
LAYERS, ATTENTION, SAMPLE = "model_executor.layers", "v1.attention.ops", "v1.worker.gpu.sample"
# Modules that are loaded from the checkout. Packages on the way to them are empty.
REAL = {
    *(
        f"{LAYERS}.{n}"
        for n in (
            "quantization.awq_triton",
            "batch_invariant",
            "lightning_attn",
            "fused_moe.moe_fused_mul_sum",
            "rotary_embedding.mrope",
            "quantization.utils.int8_utils",
        )
    ),
    *(
        f"{LAYERS}.mamba.ops.{n}"
        for n in (
            "layernorm_gated",
            "ssd_combined",
            "ssd_bmm",
            "ssd_chunk_scan",
            "ssd_chunk_state",
            "ssd_state_passing",
            "mamba_ssm",
            "causal_conv1d",
            "triton_helpers",
        )
    ),
    *(
        f"{ATTENTION}.{n}"
        for n in (
            "triton_decode_attention",
            "triton_merge_attn_states",
            "triton_prefill_attention",
            "triton_unified_attention",
            "triton_attention_helpers",
            "prefix_prefill",
            "triton_reshape_and_cache_flash",
        )
    ),
    *(f"{SAMPLE}.{n}" for n in ("bad_words", "gumbel", "logit_bias", "logprob", "min_p", "penalties")),
    "v1.sample.ops.topk_topp_triton",
    "utils.math_utils",
}
MODES = "NONE FP8_PER_TENSOR INT8_PER_TOKEN_HEAD FP8_PER_TOKEN_HEAD INT4_PER_TOKEN_HEAD INT2_PER_TOKEN_HEAD NVFP4"
CASES: dict[str, Callable[[Recorder], None]] = {}


class Anything(types.ModuleType):
    """A module, class or value that has every attribute, is false where it is asked, and decorates by doing nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name)

    def __call__(self, *args: Any, **_: Any) -> Any:
        return args[0] if len(args) == 1 and isinstance(args[0], types.FunctionType) else Anything("value")

    def __bool__(self) -> bool:
        return False

    def __fspath__(self) -> str:
        return ""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return (object,)


class Checkout(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of vLLM: those of kernels in the checkout, others as Anything."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The place of a module below vllm."""
        if name != "vllm" and not name.startswith("vllm."):
            return None
        if name[5:] in REAL:
            return importlib.util.spec_from_file_location(name, self.root / (name.replace(".", "/") + ".py"))
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        """An empty module, with what kernels really need."""
        import triton
        import triton.language as tl
        from triton.language.extra import libdevice

        module = Anything(spec.name)
        answers: dict[str, dict[str, Any]] = {
            "vllm.triton_utils": {
                "triton": triton,
                "tl": tl,
                "tldevice": libdevice,
                "HAS_TRITON": True,
                "LOG2E": 1.4426950408889634,
                "LOGE2": 0.6931471805599453,
            },
            "vllm.v1.attention.backends.utils": {"PAD_SLOT_ID": -1, "NULL_BLOCK_ID": 0},
            "vllm.utils.platform_utils": {"num_compute_units": lambda *_: 4},
            "vllm.utils.mem_utils": {"get_max_shared_memory_bytes": lambda *_: 166912},
            "vllm.platforms": {"current_platform": Platform()},
            "vllm.v1.kv_cache_interface": {"KVQuantMode": enum.IntEnum("KVQuantMode", MODES, start=0)},
            "vllm.utils.torch_utils": {"is_quantized_kv_cache": lambda *_: False},
            f"vllm.{LAYERS}.quantization.utils.quant_utils": {"get_fp8_min_max": lambda *_: (-448.0, 448.0)},
        }
        for key, value in answers.get(spec.name, {}).items():
            setattr(module, key, value)
        return module

    def exec_module(self, module: Any) -> None:
        """Nothing is executed."""


class Platform:
    """A platform that is CUDA and nothing else."""

    device_type = "cpu"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("fp8"):
            return lambda *_: torch.float8_e4m3fn
        return lambda *_, **__: name in ("is_cuda", "is_cuda_alike")


def case(function: Callable[[Recorder], None]) -> Callable[[Recorder], None]:
    """Adds a case under the name of its function."""
    CASES[function.__name__] = function
    return function


def op(path: str) -> Any:
    """A function below vllm, as module.name."""
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(f"vllm.{module}"), name)


@case
def awq(r: Recorder) -> None:
    order = [0, 4, 1, 5, 2, 6, 3, 7]  # of the eight values of a word
    codes, zeros = torch.randint(0, 16, (128, 64)), torch.randint(0, 16, (1, 64))
    scales, x = torch.rand(1, 64).to(HALF), torch.randn(5, 128).to(HALF)

    def packed(values: torch.Tensor) -> torch.Tensor:
        parts = values.reshape(values.shape[0], -1, 8).long()
        words = sum(parts[..., i] << (4 * order[i]) for i in range(8))
        return torch.as_tensor(words).to(torch.uint32).view(torch.int32)

    weight = (codes - zeros).double() * scales.double()
    back = op(f"{LAYERS}.quantization.awq_triton.awq_dequantize_triton")(packed(codes), scales, packed(zeros))
    r.compare("weights", back, weight)
    got = op(f"{LAYERS}.quantization.awq_triton.awq_gemm_triton")(x, packed(codes), scales, packed(zeros), 2)
    r.compare("product", got, x.double() @ weight)


@case
def batch_invariant(r: Recorder) -> None:
    base = f"{LAYERS}.batch_invariant."
    a, b, bias = torch.randn(70, 96).to(HALF), torch.randn(96, 80).to(HALF), torch.randn(80).to(HALF)
    r.compare("product", op(base + "matmul_persistent")(a, b, bias), a.double() @ b.double() + bias.double())
    x = torch.randn(7, 300)
    r.compare("log_softmax", op(base + "log_softmax")(x), x.log_softmax(-1))
    r.compare("mean", op(base + "mean_dim")(x, 1), x.mean(1))
    w = torch.randn(300)
    r.compare("rms_norm", op(base + "rms_norm_batch_invariant")(x, w, 1e-6), F.rms_norm(x, (300,), w, 1e-6))
    p, q = torch.randn(3, 40, 50).to(HALF), torch.randn(3, 50, 36).to(HALF)
    r.compare("batched product", op(base + "bmm_batch_invariant")(p, q), p.double() @ q.double())


@case
def lightning(r: Recorder) -> None:
    q, k, v = (torch.randn(1, 2, 100, 64) * 0.3 for _ in range(3))
    slope = torch.tensor([0.1, 0.3]).reshape(1, 2, 1, 1)
    out, _ = op(f"{LAYERS}.lightning_attn.lightning_attention")(q, k, v, slope)
    steps = torch.arange(100)
    decay = torch.exp(-slope * (steps[:, None] - steps)).tril()
    r.compare("output", out, ((q @ k.transpose(-1, -2)) * decay) @ v, 2e-2)
    one = [torch.randn(3, 2, 1, 64) for _ in range(3)]
    caches, slots = torch.randn(4, 2, 64, 64), torch.tensor([2, 0, 3])
    op(f"{LAYERS}.lightning_attn.linear_decode_forward_triton")(*one, caches, torch.tensor([0.1, 0.3]), slots)


@case
def mamba_norm(r: Recorder) -> None:
    x, w, z = torch.randn(9, 128), torch.randn(128), torch.randn(9, 128)
    got = op(f"{LAYERS}.mamba.ops.layernorm_gated.rms_norm_gated")(x, w, None, z)
    r.compare("output", got, F.rms_norm(x, (128,), w, 1e-6) * F.silu(z))


@case
def mamba_scan(r: Recorder) -> None:
    time, heads, width, state = 96, 2, 32, 16
    x, dt = torch.randn(time, heads, width), torch.rand(time, heads)
    a, b, c = -torch.rand(heads), torch.randn(time, 1, state) * 0.3, torch.randn(time, 1, state) * 0.3
    out = torch.empty_like(x)
    op(f"{LAYERS}.mamba.ops.ssd_combined.mamba_chunk_scan_combined_varlen")(
        x,
        dt,
        a,
        b,
        c,
        32,
        torch.tensor([0, 64, 96], dtype=torch.int32),
        torch.tensor([0, 32, 64, 96], dtype=torch.int32),
        torch.tensor([1, 2]),
        torch.tensor([0, 0, 1], dtype=torch.int32),
        out,
        dt_softplus=False,
    )
    want, h = torch.zeros(time, heads, width), torch.zeros(heads, width, state)
    for t in range(time):
        h = torch.zeros_like(h) if t == 64 else h
        h = h * torch.exp(dt[t] * a)[:, None, None] + (dt[t, :, None] * x[t])[..., None] * b[t, 0]
        want[t] = h @ c[t, 0]
    r.compare("output", out, want, 2e-2)


@case
def mamba_step(r: Recorder) -> None:
    state, x, dt = torch.randn(3, 64, 16), torch.randn(3, 64), torch.rand(3, 64)
    a, b, c, d = -torch.rand(64, 16), torch.randn(3, 16), torch.randn(3, 16), torch.randn(64)
    want = state * torch.exp(dt[..., None] * a) + (dt * x)[..., None] * b[:, None]
    out = torch.empty_like(x)
    op(f"{LAYERS}.mamba.ops.mamba_ssm.selective_state_update")(state, x, dt, a, b, c, d, torch.zeros(64), out=out)
    r.compare("state", state, want)
    r.compare("output", out, (want * c[:, None]).sum(-1) + x * d)


@case
def conv1d(r: Recorder) -> None:
    width, weight, bias = 64, torch.randn(64, 4), torch.randn(64)
    x, states = torch.randn(3, width), torch.randn(5, 3, width).transpose(1, 2)
    lines = torch.tensor([2, 0, 4], dtype=torch.int32)
    whole = torch.cat([states[lines.long()], x[..., None]], -1)
    want = F.silu((whole * weight).sum(-1) + bias)
    got = op(f"{LAYERS}.mamba.ops.causal_conv1d.causal_conv1d_update")(
        x.clone(), states, weight, bias, "silu", conv_state_indices=lines, null_block_id=-1
    )
    r.compare("step", got, want)


@case
def moe_sum(r: Recorder) -> None:
    x, w = torch.randn(9, 2, 128), torch.rand(9, 2)
    r.compare("sum", op(f"{LAYERS}.fused_moe.moe_fused_mul_sum.moe_fused_mul_sum")(x, w), (x * w[..., None]).sum(1))


@case
def mrope(r: Recorder) -> None:
    q, k, cos, sin = torch.randn(7, 4 * 64), torch.randn(7, 2 * 64), torch.rand(3, 7, 32), torch.rand(3, 7, 32)
    op(f"{LAYERS}.rotary_embedding.mrope.triton_mrope")(q, k, cos, sin, [8, 12, 12], 64, 64, False, True)


@case
def int8(r: Recorder) -> None:
    x = torch.randn(9, 256)
    base = f"{LAYERS}.quantization.utils.int8_utils."
    codes, scales = op(base + "per_token_quant_int8")(x)
    r.compare("rows", codes.float() * scales, x, 2e-2)


@case
def decode_attention(r: Recorder) -> None:
    for heads in (2, 8):  # as many as keys, and groups
        q, k, v = torch.randn(2, heads, 64).to(HALF), torch.randn(40, 2, 64).to(HALF), torch.randn(40, 2, 64).to(HALF)
        pages, lengths = torch.randperm(40).reshape(2, 20).int(), torch.tensor([13, 20], dtype=torch.int32)
        out, lse = torch.zeros(2, heads, 64).to(HALF), torch.zeros(2, heads)
        parts = torch.empty(2, heads, 4, 65)
        op(f"{ATTENTION}.triton_decode_attention.decode_attention_fwd")(
            q,
            k[:, None],
            v[:, None],
            out,
            lse,
            pages,
            lengths,
            parts,
            4,
            0.125,
            k_scale=torch.ones(1),
            v_scale=torch.ones(1),
        )
        for i in range(2):
            at = pages[i, : lengths[i]].long()
            keys, values = (t[at].float().repeat_interleave(heads // 2, 1) for t in (k, v))
            weights = torch.softmax(torch.einsum("hd,thd->ht", q[i].float(), keys) * 0.125, -1)
            r.compare(f"sequence {i}", out[i], torch.einsum("ht,thd->hd", weights, values), 2e-2)


@case
def merge_states(r: Recorder) -> None:
    a, b, x, y = torch.randn(9, 4, 64), torch.randn(9, 4, 64), torch.randn(4, 9), torch.randn(4, 9)
    out, lse = torch.empty_like(a), torch.empty(4, 9)
    op(f"{ATTENTION}.triton_merge_attn_states.merge_attn_states")(out, a, x, b, y, lse)
    share = torch.sigmoid(x - y).T[..., None]
    r.compare("output", out, a * share + b * (1 - share))
    r.compare("lse", lse, torch.logaddexp(x, y))


@case
def prefill_attention(r: Recorder) -> None:
    q, k, v = torch.randn(50, 4, 64).to(HALF), torch.randn(50, 2, 64).to(HALF), torch.randn(50, 2, 64).to(HALF)
    out, begins, lengths = torch.empty_like(q), torch.tensor([0, 20]), torch.tensor([20, 30])
    op(f"{ATTENTION}.triton_prefill_attention.context_attention_fwd")(q, k, v, out, begins, lengths, 30)
    for begin, n in ((0, 20), (20, 30)):
        part = [t[begin : begin + n].float().transpose(0, 1) for t in (q, k, v)]
        want = F.scaled_dot_product_attention(
            part[0], part[1].repeat_interleave(2, 0), part[2].repeat_interleave(2, 0), is_causal=True
        )
        r.compare(f"from {begin}", out[begin : begin + n], want.transpose(0, 1), 2e-2)


@case
def unified_attention(r: Recorder) -> None:
    q, k, v = torch.randn(23, 4, 64).to(HALF), torch.randn(8, 16, 2, 64).to(HALF), torch.randn(8, 16, 2, 64).to(HALF)
    table = torch.tensor([[3, 1, 5], [0, 6, 2]], dtype=torch.int32)
    out, used = torch.empty_like(q), torch.tensor([40, 33], dtype=torch.int32)
    op(f"{ATTENTION}.triton_unified_attention.unified_attention")(
        q,
        k,
        v,
        out,
        torch.tensor([0, 20, 23], dtype=torch.int32),
        20,
        used,
        40,
        0.125,
        True,
        (-1, -1),
        table,
        0,
        None,
        None,
        None,
    )
    for i, (begin, end) in enumerate(((0, 20), (20, 23))):
        n = int(used[i])
        keys, values = (t[table[i].long()].reshape(48, 2, 64)[:n].float().repeat_interleave(2, 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q[begin:end].float(), keys) * 0.125
        late = torch.arange(n)[None] > torch.arange(end - begin)[:, None] + n - (end - begin)
        weights = scores.masked_fill(late, float("-inf")).softmax(-1)
        r.compare(f"sequence {i}", out[begin:end], torch.einsum("hqk,khd->qhd", weights, values), 2e-2)


@case
def reshape_and_cache(r: Recorder) -> None:
    key, value = torch.randn(7, 2, 64).to(HALF), torch.randn(7, 2, 64).to(HALF)
    keys, values = torch.zeros(4, 16, 2, 64).to(HALF), torch.zeros(4, 16, 2, 64).to(HALF)
    slots = torch.tensor([3, 17, 60, -1, 20, 21, 5])
    op(f"{ATTENTION}.triton_reshape_and_cache_flash.triton_reshape_and_cache_flash")(
        key, value, keys, values, slots, "auto", torch.ones(1), torch.ones(1)
    )
    kept = slots >= 0
    r.compare("keys", keys.reshape(64, 2, 64)[slots[kept]], key[kept])
    r.compare("values", values.reshape(64, 2, 64)[slots[kept]], value[kept])


@case
def sampling(r: Recorder) -> None:
    logits = torch.randn(5, 700)
    k, p = torch.tensor([10, 50, 700, 1, 5], dtype=torch.int32), torch.tensor([0.9, 1.0, 0.5, 0.3, 1.0])
    got = op("v1.sample.ops.topk_topp_triton.apply_top_k_top_p_triton")(logits.clone(), k, None)
    for i in range(5):
        r.compare(f"top {k[i]}", (got[i] > float("-inf")).sum().float(), k[i].float())
    op("v1.sample.ops.topk_topp_triton.apply_top_k_top_p_triton")(logits.clone(), k, p)
    mapping = torch.tensor([2, 0, 1, 3, 4], dtype=torch.int32)
    low, temperature = torch.rand(5) * 0.1, torch.rand(5) + 0.5
    cut = logits.clone()
    op(f"{SAMPLE}.min_p.apply_min_p")(cut, mapping, low)
    probabilities = logits.softmax(-1)
    floor = probabilities.amax(-1) * low[mapping.long()]
    r.compare("min_p", (cut > float("-inf")).float(), (probabilities >= floor[:, None]).float())
    warm = logits.clone()
    op(f"{SAMPLE}.gumbel.apply_temperature")(warm, mapping, temperature)
    r.compare("temperature", warm, logits / temperature[mapping.long(), None])
    seeds, at = torch.arange(5) + 9, torch.arange(5)
    drawn = op(f"{SAMPLE}.gumbel.gumbel_sample")(logits, mapping, temperature, seeds, at, True)
    assert bool(((drawn >= 0) & (drawn < 700)).all())
    ids = torch.randint(0, 700, (5, 3))
    r.compare(
        "logprobs", op(f"{SAMPLE}.logprob.compute_token_logprobs")(logits, ids), logits.log_softmax(-1).gather(1, ids)
    )


def main() -> None:
    """Runs the cases named on the command line, or all."""
    out, checkout, capability, *chosen = sys.argv[1:]
    recorder = Recorder("vllm", os.environ.get("PROJECT_VERSION", ""), out)
    pretend_cuda(int(capability))
    sys.meta_path.insert(0, Checkout(pathlib.Path(checkout)))
    with Recording(recorder, "vllm", int(capability)):
        run_all(recorder, CASES, chosen)


if __name__ == "__main__":
    main()

"""Triton kernels of flash-linear-attention through its public functions. fla_ops.py OUT CAPABILITY [CASE...]"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from drive import both_ways, leaf, normal, run_all, tensors
from pretend import Recording, pretend_cuda
from record import Recorder

CASES: dict[str, Callable[[Recorder], None]] = {}
BATCH, TIME, HEADS, KEYS, VALUES = 1, 70, 2, 32, 32  # 70 is more than a chunk of 64, and no multiple of anything
TOL = 2e-2  # products of tensor cores in TF32


def op(path: str) -> Any:
    """A function below fla, as module.name."""
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(f"fla.{module}"), name)


def case(function: Callable[[Recorder], None]) -> Callable[[Recorder], None]:
    """Adds a case under the name of its function."""
    CASES[function.__name__] = function
    return function


def keys(time: int = TIME, heads: int = HEADS, width: int = KEYS) -> torch.Tensor:
    """Queries or keys of moderate size."""
    return normal(BATCH, time, heads, width, scale=0.5)


def unit(time: int = TIME, heads: int = HEADS, width: int = KEYS) -> torch.Tensor:
    """Keys of length one, as delta rules want them."""
    return leaf(F.normalize(torch.randn(BATCH, time, heads, width), dim=-1))


def halved(inputs: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """The same inputs as bfloat16, which some functions insist on."""
    return lambda: {k: leaf(v.to(torch.bfloat16)) for k, v in inputs().items()}


def gate(*last: int, time: int = TIME, heads: int = HEADS) -> torch.Tensor:
    """Logarithms of decays between 0 and 1."""
    return leaf(F.logsigmoid(torch.randn(BATCH, time, heads, *last) + 2))


def share(*last: int, time: int = TIME, heads: int = HEADS) -> torch.Tensor:
    """Numbers between 0 and 1."""
    return leaf(torch.rand(BATCH, time, heads, *last))


def add(
    name: str, path: str, inputs: Callable[[], dict[str, Any]], naive: str | Callable[..., Any] = "", **options: Any
) -> None:
    """Adds a case that calls a function forward and backward, and compares with a naive function of the library."""

    def body(r: Recorder) -> None:
        given = inputs()
        function = op(path)
        reference = None
        if naive:
            slow = op(naive) if isinstance(naive, str) else naive
            known = slow.__code__.co_varnames[: slow.__code__.co_argcount + slow.__code__.co_kwonlyargcount]

            def reference(**kwargs: Any) -> Any:
                names = {"gk": "gk" if "gk" in known else "g"}
                return slow(
                    **{names.get(k, k): v for k, v in kwargs.items()},
                    **{k: v for k, v in options.items() if k in known},
                )

        backward = options.pop("backward", True)
        both_ways(r, lambda **kw: function(**kw, **options), given, reference, TOL, backward)

    CASES[name] = body


def qkv() -> dict[str, Any]:
    """Inputs of attention."""
    return {"q": keys(), "k": keys(), "v": keys(width=VALUES)}


def delta() -> dict[str, Any]:
    """Inputs of a delta rule."""
    return {"q": unit(), "k": unit(), "v": keys(width=VALUES), "beta": share()}


def heads_first(path: str) -> Callable[..., Any]:
    """A naive function for tensors whose heads stand before the time."""

    def swapped(q: Any, k: Any, v: Any) -> Any:
        return op(path)(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)

    return swapped


def comba(q: Any, k: Any, p: Any, v: Any, g: Any, beta: Any) -> torch.Tensor:
    """Comba as its kernels compute it: the state predicts before it decays. The library's naive function does not."""
    state = torch.zeros(BATCH, HEADS, KEYS, VALUES, dtype=q.dtype)
    rows = []
    for t in range(q.shape[1]):
        change = (v[:, t] - torch.einsum("bhkv,bhk->bhv", state, p[:, t])) * beta[:, t, :, None]
        state = state * g[:, t].exp()[..., None, None] + torch.einsum("bhk,bhv->bhkv", k[:, t], change)
        rows.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * KEYS**-0.5, state))
    return torch.stack(rows, 1)


def add_attention() -> None:
    """Linear attention and its relatives: outer products, with and without decay."""
    state = {"initial_state": None, "output_final_state": True}
    for kind in ("chunk", "fused_chunk", "fused_recurrent"):
        add(
            f"{kind}_linear_attn",
            f"ops.linear_attn.{kind}_linear_attn",
            qkv,
            "ops.linear_attn.naive.naive_recurrent_linear_attn",
            normalize=False,
        )
        add(f"{kind}_retention", f"ops.retention.{kind}_retention", qkv)
    add(
        "chunk_linear_attn_normalized",
        "ops.linear_attn.chunk_linear_attn",
        qkv,
        "ops.linear_attn.naive.naive_recurrent_linear_attn",
        normalize=True,
    )
    add("parallel_retention", "ops.retention.parallel_retention", qkv)
    for kind in ("chunk", "fused_chunk", "fused_recurrent", "parallel"):
        add(
            f"{kind}_simple_gla",
            f"ops.simple_gla.{kind}_simple_gla",
            lambda: {**qkv(), "g": gate()},
            "ops.simple_gla.naive.naive_recurrent_simple_gla",
        )
    add("chunk_gla", "ops.gla.chunk_gla", lambda: {**qkv(), "g": gate(KEYS)}, **state)
    add("chunk_gla_naive", "ops.gla.chunk_gla", lambda: {**qkv(), "g": gate(KEYS)})
    add(
        "fused_recurrent_gla",
        "ops.gla.fused_recurrent_gla",
        lambda: {**qkv(), "gk": gate(KEYS)},
        "ops.gla.naive.naive_recurrent_gla",
    )
    for kind in ("chunk", "fused_recurrent"):
        add(
            f"{kind}_hgrn",
            f"ops.hgrn.{kind}_hgrn",
            lambda: {"x": normal(2, TIME, 64), "g": leaf(F.logsigmoid(torch.randn(2, TIME, 64)))},
            "ops.hgrn.naive.naive_recurrent_hgrn",
        )
        add(f"{kind}_lightnet", f"ops.lightnet.{kind}_lightnet", qkv)
        add(f"{kind}_lightning", f"ops.lightning_attn.{kind}_lightning_attn", qkv, layer_idx=1, num_layers=4)
        add(
            f"{kind}_gsa",
            f"ops.gsa.{kind}_gsa",
            lambda: {**qkv(), "s": normal(BATCH, TIME, HEADS, 16), "g": gate(16)},
            "ops.gsa.naive.naive_recurrent_gsa",
        )
        add(
            f"{kind}_rwkv6",
            f"ops.rwkv6.{kind}_rwkv6",
            lambda: {"r": keys(), "k": keys(), "v": keys(width=VALUES), "w": gate(KEYS), "u": normal(HEADS, KEYS)},
        )
    add("chunk_abc", "ops.abc.chunk_abc", lambda: {**qkv(), "s": normal(BATCH, TIME, HEADS, 16)})
    add(
        "chunk_log_linear_attn",
        "ops.log_linear_attn.chunk_log_linear_attn",
        lambda: {
            "q": keys(128, 1, 64),
            "k": keys(128, 1, 64),
            "v": keys(128, 2, 64),
            "g": gate(time=128),
            "level_scales": share(8, time=128),
        },
        backward=False,
    )
    for kind in ("fused_chunk", "parallel"):
        add(
            f"{kind}_based",
            f"ops.based.{kind}_based",
            lambda: {"q": keys(width=16), "k": keys(width=16), "v": keys()},
            heads_first("ops.based.naive.naive_parallel_based"),
        )
    add(
        "parallel_rebased",
        "ops.rebased.parallel_rebased",
        lambda: {"q": keys(width=16), "k": keys(width=16), "v": keys()},
    )
    add(
        "fused_recurrent_rwkv4",
        "ops.rwkv4.fused_recurrent_rwkv4",
        lambda: {
            "w": leaf(torch.rand(64)),
            "u": normal(64),
            "k": normal(2, 20, 64),
            "v": normal(2, 20, 64),
            "state": leaf(torch.zeros(2, 3, 1, 64)),
        },
    )


def add_delta() -> None:
    """Delta rules: the state is corrected by what it predicts."""
    add("chunk_delta_rule", "ops.delta_rule.chunk_delta_rule", halved(delta))
    add("fused_recurrent_delta_rule", "ops.delta_rule.fused_recurrent_delta_rule", delta)
    add(
        "parallel_delta_rule",
        "ops.delta_rule.parallel.parallel_delta_rule",
        lambda: {"q": unit(64), "k": unit(64), "v": keys(64), "beta": share(time=64)},
        backward=False,
    )
    gated = {"use_qk_l2norm_in_kernel": True}
    for kind in ("chunk", "fused_recurrent"):
        add(
            f"{kind}_gated_delta_rule",
            f"ops.gated_delta_rule.{kind}_gated_delta_rule",
            lambda: {**delta(), "g": gate()},
            "ops.gated_delta_rule.naive.naive_recurrent_gated_delta_rule",
            backward=kind == "chunk",
        )
        add(
            f"{kind}_gated_delta_rule_norm",
            f"ops.gated_delta_rule.{kind}_gated_delta_rule",
            lambda: {**delta(), "g": gate()},
            backward=kind == "chunk",
            **gated,
        )
        add(
            f"{kind}_comba",
            f"ops.comba.{kind}_comba",
            lambda: {**delta(), "p": unit(), "g": gate()},
            comba,
            backward=kind == "chunk",
        )
        add(
            f"{kind}_kda",
            f"ops.kda.{kind}_kda",
            lambda: {**delta(), "g": gate(KEYS)},
            "ops.kda.naive.naive_recurrent_kda",
            backward=kind == "chunk",
        )
        add(
            f"{kind}_gdn2",
            f"ops.gdn2.{kind}_gdn2",
            lambda: {"q": unit(), "k": unit(), "v": keys(), "g": gate(KEYS), "b": share(KEYS), "w": share(VALUES)},
            "ops.gdn2.naive.naive_recurrent_gdn2",
            backward=kind == "chunk",
        )
        add(
            f"{kind}_oja",
            f"ops.gated_oja_rule.{kind}_gated_oja_rule",
            lambda: {**delta(), "gv": gate(VALUES)},
            backward=kind == "chunk",
        )
        add(
            f"{kind}_momentum",
            f"ops.momentum_delta_rule.{kind}_momentum_delta_rule",
            halved(lambda: {**delta(), "log_alpha": gate(), "log_mu": gate()}),
            backward=kind == "chunk",
        )
        add(
            f"{kind}_precond_gdr",
            f"ops.precond_gated_delta_rule.{kind}_precond_gated_delta_rule",
            lambda: {**delta(), "g": gate(), "g_atk": gate(), "beta_atk": share()},
            backward=kind == "chunk",
        )
        add(
            f"{kind}_precond_kda",
            f"ops.precond_kda.{kind}_precond_kda",
            lambda: {**delta(), "g": gate(KEYS), "g_atk": gate(KEYS), "beta_atk": share()},
            backward=kind == "chunk",
        )
        for rule in ("iplr", "dplr"):
            extra = (lambda: {"gk": gate(KEYS)}) if rule == "dplr" else dict
            add(
                f"{kind}_{rule}",
                f"ops.generalized_delta_rule.{rule}.{kind}_{rule}_delta_rule",
                lambda extra=extra: {**qkv(), "a": unit(), "b": unit(), **extra()},
                backward=(kind, rule) not in (("chunk", "iplr"), ("fused_recurrent", "dplr")),
            )
        add(
            f"{kind}_rwkv7",
            f"ops.rwkv7.{kind}_rwkv7",
            lambda: {"r": keys(), "w": gate(KEYS), "k": keys(), "v": keys(), "a": unit(), "b": unit()},
            backward=kind == "chunk",
        )
        add(
            f"{kind}_cyfa",
            f"ops.cyfa.{kind}_cyfa",
            lambda: {
                **qkv(),
                "g": gate(),
                "delta": share(),
                "beta": share(),
                "readout": normal(HEADS, 8),
                "q_norm_weight": normal(KEYS),
                "k_norm_weight": normal(KEYS),
            },
            backward=False,
            q_norm_eps=1e-5,
            k_norm_eps=1e-5,
        )
    add(
        "chunk_gated_delta_product",
        "ops.gated_delta_product.chunk_gated_delta_product",
        halved(
            lambda: {"q": unit(), "k": unit(2 * TIME), "v": keys(2 * TIME), "g": gate(), "beta": share(time=2 * TIME)}
        ),
        num_householder=2,
    )
    add(
        "chunk_mesa_net",
        "ops.mesa_net.chunk_mesa_net",
        lambda: {**delta(), "g": gate(), "lamb": leaf(torch.rand(HEADS, KEYS) + 0.25)},
        max_CG_iteration=3,
    )
    for kind in ("chunk", "fused_chunk"):
        add(
            f"{kind}_ttt_linear",
            f"ops.ttt.{kind}_ttt_linear",
            lambda: {
                "q": keys(64),
                "k": unit(64),
                "v": keys(64),
                "w": normal(HEADS, KEYS),
                "b": normal(HEADS, KEYS),
                "eta": leaf(torch.rand(BATCH, 64, HEADS, 1) * 0.01),
            },
            chunk_size=16,
        )


def add_ragged() -> None:
    """Sequences of different lengths behind each other, in one batch."""
    ends = torch.tensor([0, 13, 40, TIME])
    for name, path, inputs in (
        ("gla", "ops.gla.chunk_gla", lambda: {**qkv(), "g": gate(KEYS)}),
        ("simple_gla", "ops.simple_gla.chunk_simple_gla", lambda: {**qkv(), "g": gate()}),
        ("gated_delta_rule", "ops.gated_delta_rule.chunk_gated_delta_rule", lambda: {**delta(), "g": gate()}),
        ("kda", "ops.kda.chunk_kda", lambda: {**delta(), "g": gate(KEYS)}),
        ("delta_rule", "ops.delta_rule.chunk_delta_rule", halved(delta)),
        ("attn", "ops.attn.parallel.parallel_attn", lambda: {"q": keys(heads=4), "k": keys(), "v": keys()}),
        ("recurrent_gla", "ops.gla.fused_recurrent_gla", lambda: {**qkv(), "gk": gate(KEYS)}),
        (
            "rwkv6",
            "ops.rwkv6.chunk_rwkv6",
            lambda: {"r": keys(), "k": keys(), "v": keys(), "w": gate(KEYS), "u": normal(HEADS, KEYS)},
        ),
    ):
        add(f"ragged_{name}", path, inputs, cu_seqlens=ends)


def add_softmax() -> None:
    """Attention with a softmax, whole, forgetting, sparse and in blocks."""
    heads = {"heads": 4}

    def attention() -> dict[str, Any]:
        return {"q": keys(**heads), "k": keys(heads=2), "v": keys(heads=2)}

    add("parallel_attn", "ops.attn.parallel.parallel_attn", attention, "ops.attn.naive.naive_parallel_attn")
    add(
        "parallel_attn_window",
        "ops.attn.parallel.parallel_attn",
        attention,
        "ops.attn.naive.naive_parallel_attn",
        window_size=20,
    )
    add(
        "parallel_attn_gated",
        "ops.attn.parallel.parallel_attn",
        lambda: {**attention(), "g": gate(heads=4)},
        "ops.attn.naive.naive_parallel_attn",
    )
    add(
        "forgetting_attn",
        "ops.forgetting_attn.parallel_forgetting_attn",
        lambda: {**attention(), "g": gate(heads=4)},
        "ops.forgetting_attn.naive.naive_forgetting_attn",
    )
    add(
        "attn_decoding",
        "ops.attn.decoding.attn_decoding_one_step",
        lambda: {"q": keys(1, 4), "k": keys(heads=2), "v": keys(heads=2), "cu_seqlens": torch.tensor([0, TIME])},
        backward=False,
    )
    add(
        "parallel_nsa",
        "ops.nsa.parallel.parallel_nsa",
        lambda: {
            "q": keys(128, 16),
            "k": keys(128, 1),
            "v": keys(128, 1),
            "g_cmp": share(time=128, heads=16),
            "g_slc": share(time=128, heads=16),
            "g_swa": None,
        },
        block_counts=2,
        block_size=32,
    )
    add(
        "path_attn",
        "ops.path_attn.parallel.parallel_path_attn",
        lambda: {
            "q": keys(128, width=64),
            "k": keys(128, width=64),
            "v": keys(128, width=64),
            "w": unit(128, width=64),
            "beta": share(time=128),
            "g": gate(time=128),
        },
    )
    add(
        "stickbreaking",
        "ops.stickbreaking_attn.parallel_stickbreaking_attn",
        lambda: {"q": keys(64), "k": keys(64), "v": keys(64)},
        "ops.stickbreaking_attn.naive.naive_stickbreaking_attn",
    )
    add(
        "deltaformer",
        "ops.deltaformer.parallel.deltaformer_attn",
        lambda: {"q": keys(64), "k": keys(64), "v": keys(64), "beta": share(time=64)},
        "ops.deltaformer.naive.naive_deltaformer_attn",
        C=64,
    )
    add(
        "parallax",
        "ops.parallax.parallel_parallax",
        halved(lambda: {"q": keys(), "r": keys(), "k": keys(), "v": keys()}),
        "ops.parallax.naive.naive_parallax",
    )
    add("wall_attn", "ops.wall_attn.parallel_wall_attn", lambda: {**qkv(), "g": gate(KEYS)})


def add_modules() -> None:
    """Norms, activations, convolutions, losses."""
    for cols in (100, 256):
        add(
            f"layer_norm_{cols}",
            "modules.norm.layernorm.layer_norm",
            lambda cols=cols: {"x": normal(9, cols), "weight": normal(cols), "bias": normal(cols)},
            "modules.norm.layernorm.layer_norm_ref",
        )
        add(
            f"rms_norm_{cols}",
            "modules.norm.layernorm.rms_norm",
            lambda cols=cols: {"x": normal(9, cols), "weight": normal(cols), "bias": None},
            "modules.norm.layernorm.rms_norm_ref",
        )
        for kind in ("layer", "rms"):
            add(
                f"{kind}_norm_gated_{cols}",
                f"modules.norm.fused_norm_gate.{kind}_norm_gated",
                lambda cols=cols: {
                    "x": normal(9, cols),
                    "g": normal(9, cols),
                    "weight": normal(cols),
                    "bias": normal(cols),
                },
            )
    add(
        "layer_norm_residual",
        "modules.norm.layernorm.layer_norm",
        lambda: {"x": normal(9, 64), "weight": normal(64), "bias": normal(64), "residual": normal(9, 64)},
        prenorm=True,
    )
    add(
        "layernorm_fn",
        "modules.norm.layernorm_gated.layernorm_fn",
        lambda: {"x": normal(9, 64), "weight": normal(64), "bias": normal(64), "z": normal(9, 64)},
    )
    add("l2norm", "modules.norm.l2norm.l2norm", lambda: {"x": normal(9, 64)})
    add("l2norm_wide", "modules.norm.l2norm.l2norm", lambda: {"x": normal(9, 700)})
    add(
        "layer_norm_linear_quant",
        "modules.fused_bitlinear.layer_norm_linear_quant",
        lambda: {
            "x": normal(9, 64),
            "norm_weight": normal(64),
            "norm_bias": normal(64),
            "linear_weight": normal(32, 64),
            "linear_bias": None,
        },
    )
    for name in ("swish", "sigmoid"):
        CASES[f"act_{name}"] = lambda r, name=name: both_ways(
            r,
            lambda x: op(f"modules.activations.ops.{name}")(x),
            {"x": normal(5, 300)},
            lambda x: x.sigmoid() * (x if name == "swish" else 1.0),
        )
    for name in ("sigmoidglu", "powglu"):
        CASES[f"act_{name}"] = lambda r, name=name: both_ways(
            r, lambda x, y: op(f"modules.activations.ops.{name}")(x, y), {"x": normal(5, 300), "y": normal(5, 300)}
        )
    CASES["swiglu"] = lambda r: both_ways(
        r,
        lambda x, y: op("modules.activations.ops.swiglu")(x, y),
        {"x": normal(5, 300), "y": normal(5, 300)},
        lambda x, y: F.silu(x) * y,
    )
    add(
        "swiglu_linear",
        "modules.activations.ops.swiglu_linear",
        lambda: {"x": normal(5, 64), "y": normal(5, 64), "weight": normal(32, 64), "bias": None},
    )
    add(
        "rotary",
        "modules.rotary.ops.rotary_embedding",
        lambda: {"x": keys(), "cos": torch.rand(TIME, 16), "sin": torch.rand(TIME, 16)},
        "modules.rotary.ops.rotary_embedding_ref",
    )
    add(
        "rotary_interleaved",
        "modules.rotary.ops.rotary_embedding",
        lambda: {"x": keys(), "cos": torch.rand(TIME, 16), "sin": torch.rand(TIME, 16)},
        "modules.rotary.ops.rotary_embedding_ref",
        interleaved=True,
    )
    add(
        "token_shift",
        "modules.token_shift.token_shift",
        lambda: {"x": normal(2, TIME, 64)},
        "modules.token_shift.token_shift_ref",
    )
    add(
        "token_shift_ragged",
        "modules.token_shift.token_shift",
        lambda: {"x": normal(1, TIME, 64), "cu_seqlens": torch.tensor([0, 13, 40, TIME])},
    )
    add(
        "causal_conv1d",
        "modules.causal_conv1d.ops.causal_conv1d",
        lambda: {"x": normal(2, TIME, 64), "weight": normal(64, 4), "bias": normal(64)},
        activation="silu",
        backend="triton",
    )
    add(
        "causal_conv1d_ragged",
        "modules.causal_conv1d.ops.causal_conv1d",
        lambda: {
            "x": normal(1, TIME, 64),
            "weight": normal(64, 4),
            "bias": None,
            "cu_seqlens": torch.tensor([0, 13, 40, TIME]),
        },
        activation="silu",
        backend="triton",
        output_final_state=True,
    )
    add(
        "causal_conv1d_update",
        "modules.causal_conv1d.ops.causal_conv1d_update",
        lambda: {
            "x": normal(2, 1, 64, grad=False),
            "cache": normal(2, 64, 4, grad=False),
            "weight": normal(64, 4, grad=False),
        },
        backward=False,
        activation="silu",
    )
    add(
        "cross_entropy",
        "modules.fused_cross_entropy.ops.cross_entropy_loss",
        lambda: {"logits": normal(9, 150), "target": torch.randint(0, 150, (9,))},
        label_smoothing=0.1,
    )
    add(
        "fused_linear_cross_entropy",
        "modules.fused_linear_cross_entropy.ops.fused_linear_cross_entropy_loss",
        lambda: {
            "x": normal(16, 48),
            "target": torch.randint(0, 150, (16,)),
            "weight": normal(150, 48),
            "bias": normal(150),
        },
        num_chunks=2,
    )
    add(
        "fused_kl_div",
        "modules.fused_kl_div.ops.fused_kl_div_loss",
        lambda: {
            "x": normal(16, 48),
            "target_x": normal(16, 48, grad=False),
            "weight": normal(150, 48),
            "target_weight": normal(150, 48, grad=False),
        },
    )
    add(
        "fused_grpo_loss",
        "modules.grpo.ops.fused_grpo_loss",
        lambda: {
            "logits": normal(2, 8, 90),
            "ref_logp": -torch.rand(2, 7),
            "input_ids": torch.randint(0, 90, (2, 12)),
            "advantages": torch.randn(2),
            "completion_mask": torch.ones(2, 7, dtype=torch.int32),
        },
        "modules.grpo.ops.grpo_loss_torch",
        inplace=False,
    )
    add("beta_sigmoid", "ops.common.gate.fused_beta_sigmoid", lambda: {"x": normal(3, 50)})
    add(
        "gdn_gate",
        "ops.gated_delta_rule.gate.fused_gdn_gate",
        lambda: {"g": normal(BATCH, TIME, HEADS), "A_log": normal(HEADS), "dt_bias": normal(HEADS)},
        "ops.gated_delta_rule.gate.naive_gdn_gate",
    )
    add(
        "kda_gate",
        "ops.kda.gate.fused_kda_gate",
        lambda: {"g": normal(BATCH, TIME, HEADS, KEYS), "A_log": normal(HEADS), "dt_bias": normal(HEADS * KEYS)},
        "ops.kda.gate.naive_kda_gate",
    )
    add("additive_gate", "ops.gsa.gate.fused_additive_gate", lambda: {"x": normal(BATCH, TIME, HEADS, 16)})
    add(
        "rwkv7_addcmul",
        "ops.rwkv7.fused_addcmul.fused_addcmul_rwkv7",
        lambda: {
            "hidden_states": normal(2, 20, 64),
            "delta": normal(2, 20, 64),
            **{n: normal(1, 1, 64) for n in ("xr", "xw", "xk", "xv", "xa", "xg")},
        },
    )
    add(
        "rwkv7_k_update",
        "ops.rwkv7.fused_k_update.fused_k_rwkv7",
        lambda: {"k": normal(2, 20, 64), "a": normal(2, 20, 64), "ka": normal(64)},
    )


@case
def moba(r: Recorder) -> None:
    function = op("ops.moba.parallel.parallel_moba")
    ends = torch.tensor([0, 128], dtype=torch.int32)
    tensors(function(normal(128, 2, 32), normal(128, 2, 32), normal(128, 2, 32), ends, 128, 32, 2))


@case
def cumsums(r: Recorder) -> None:
    for width in ((), (40,)):
        for reverse in (False, True):
            x = torch.randn(BATCH, TIME, HEADS, *width)
            whole = op("ops.utils.cumsum.chunk_global_cumsum")(x, reverse=reverse)
            parts = op("ops.utils.cumsum.chunk_local_cumsum")(x, 16, reverse=reverse)
            want = [part.flip(1).cumsum(1).flip(1) if reverse else part.cumsum(1) for part in x.split(16, 1)]
            r.compare("whole", whole, x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1))
            r.compare("chunks", parts, torch.cat(want, 1))


@case
def pooling(r: Recorder) -> None:
    x = normal(BATCH, 96, HEADS, KEYS)
    both_ways(
        r, lambda x: op("ops.utils.pooling.mean_pooling")(x, 32), {"x": x}, lambda x: x.unflatten(1, (3, 32)).mean(2)
    )


@case
def logsumexp(r: Recorder) -> None:
    x = torch.randn(7, 300)
    r.compare("logsumexp", op("ops.utils.logsumexp.logsumexp_fwd")(x), x.logsumexp(-1))
    out = op("ops.utils.softmax.softmax_fwd")(x)
    r.compare("softmax", out, x.softmax(-1))
    grad = torch.randn(7, 300)
    r.compare(
        "softmax gradient",
        op("ops.utils.softmax.softmax_bwd")(out, grad),
        out * (grad - (out * grad).sum(-1, keepdim=True)),
    )


@case
def products(r: Recorder) -> None:
    a, b = torch.randn(40, 50), torch.randn(50, 36)
    r.compare("product", op("ops.utils.matmul.matmul")(a, b), a @ b, TOL)
    lower = torch.tril(torch.randn(1, 64, 2, 64) * 0.1, -1)
    mask = torch.tril(torch.ones(64, 64), -1)[None, :, None, :]
    inverse = op("ops.utils.solve_tril.solve_tril")((lower * mask).contiguous())
    want = torch.linalg.inv((torch.eye(64) + (lower * mask).permute(0, 2, 1, 3)).double()).permute(0, 2, 1, 3)
    r.compare("inverse", inverse, want, TOL)


def main() -> None:
    """Runs the cases named on the command line, or all. The library asks for a GPU when it is imported."""
    out, capability = sys.argv[1], int(sys.argv[2])
    recorder = Recorder("fla", importlib.metadata.version("flash-linear-attention"), out)
    pretend_cuda(capability)
    names = importlib.import_module("transformers.configuration_utils")
    names.PreTrainedConfig = getattr(names, "PreTrainedConfig", names.PretrainedConfig)  # its name since version 5
    with Recording(recorder, "fla", capability):
        for group in (add_modules, add_attention, add_delta, add_softmax, add_ragged):
            group()
        run_all(recorder, CASES, sys.argv[3:])


if __name__ == "__main__":
    main()

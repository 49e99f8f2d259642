"""Alarms on PyTorch's kernels that are understood: what the kernel does that its contract does not allow.

An alarm that is listed here is still an alarm; it is a finding about the kernel, not about the bound. An entry holds
for a backend, an op and data types, and, with `kinds`, only where all wrong elements are of these kinds: an element
that is wrong in another way is not explained by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NARROW = ("float16", "bfloat16")
ALL = ("float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True)
class Explanation:
    """Why kernels of a backend break a contract. Empty `ops`: all of them; empty `kinds`: in any way; with `values`,
    only in cases that have an input of one of these distributions."""

    backend: str
    ops: tuple[str, ...]
    dtypes: tuple[str, ...]
    sentence: str
    kinds: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def holds(self, op: str, dtype: str, kinds: Sequence[str], case: str) -> bool:
        """Whether it explains an alarm with wrong elements of these kinds."""
        return (
            (not self.ops or op in self.ops) and dtype in self.dtypes
            and (not self.kinds or set(kinds) <= set(self.kinds))
            and (not self.values or any(f":{name} " in case for name in self.values))
        )  # fmt: skip


NAN = ("unexpected NaN",)
MASKED = ("causal_attention", "window_attention", "gqa_attention")
HIDDEN_KEYS = (
    "cuDNN hides keys by adding a finite number to their scores: where a hidden score exceeds the others by more "
    "than that (some 65,000), the hidden key wins, or an infinite one makes the row NaN; the other backends hide it"
)

EXPLAINED = (
    Explanation(
        "eager", ("cumsum",), NARROW,
        "the scan accumulates in the narrow type; the contract asks for sums in float32",
    ),
    Explanation(
        "eager", ("l2norm",), NARROW,
        "F.normalize is not one kernel but four: the norm is rounded to the narrow type, where it may also overflow",
    ),
    Explanation(
        "eager", ("logsumexp",), NARROW,
        "not one kernel: exponentials and their sum are rounded to the narrow type; compiled, it keeps the contract",
    ),
    Explanation(
        "eager", ("rmsnorm",), ALL,
        "rows with an infinity: the CUDA kernel gives NaN for the whole row, the CPU op (and the formula) zero for the "
        "finite elements", NAN,
    ),
    Explanation(
        "sdpa-efficient", ("attention", "causal_attention", "window_attention", "gqa_attention"), ("float32",),
        "NaN where an infinite key has weight zero; the flash and math backends give the value", NAN,
    ),
    Explanation(
        "sdpa-math", MASKED, ALL,
        "the mask is added to the scores: the infinite score of a hidden key plus -inf is NaN", NAN,
    ),
    Explanation(
        "sdpa-efficient", MASKED, NARROW,
        "the mask is added to the scores: the infinite score of a hidden key plus -inf is NaN", NAN,
    ),
    Explanation("sdpa-cudnn", MASKED, NARROW, HIDDEN_KEYS),
    Explanation("eager", ("decode_attention", *MASKED), NARROW, HIDDEN_KEYS),  # where PyTorch chooses cuDNN
    Explanation(
        "eager", ("conv1d", "conv2d", "depthwise_conv2d"), ("float16",),
        "cuDNN gives 0 (then adds the bias) where the sum is below the range of float16; above it, +inf; PyTorch's own "
        "convolutions give -inf",
    ),
    Explanation(
        "eager", ("cross_entropy",), NARROW,
        "with label smoothing not one kernel: the sum of the log-probabilities of a row is stored in the narrow type, "
        "where it overflows; the mean of them would not", ("unexpected Inf",),
    ),
    Explanation(
        "eager", ("groupnorm",), ("float16",),
        "the CUDA kernel takes eps in the type of the input: 1e-5 is subnormal in float16 and becomes 1.0014e-5, "
        "which shows where the variance is about as small",
    ),
    Explanation(
        "tf32", ("matmul", "batched_matmul", "matmul_bias_act", "conv2d"), ("float32",),
        "TF32 on purpose: inputs are rounded to 11 bits before the product; the contract says no tf32, and must see it",
    ),
)  # fmt: skip


def explain(backend: str, op: str, dtype: str, kinds: Sequence[str], known: Sequence[Explanation] = EXPLAINED,
            case: str = "") -> str:  # fmt: skip
    """The sentence for an alarm with wrong elements of these kinds, or "" where there is none."""
    return next((e.sentence for e in known if e.backend == backend and e.holds(op, dtype, kinds, case)), "")

"""gpu_proof_challenge: a kernel runs on cases that follow from the code, and what comes out goes into the receipt.

The binary makes the cases and the record of the outputs; the engine judges them. Here they are only carried about.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from gpuemu import Client, _parts
from gpuemu.report import describe
from gpuemu.session import KernelSession

from . import binary

NO_CODE = "0" * 64  # the digest where no receipt is asked for: then the cases are the same in every run
KERNEL_KEYS = ("ptx", "entry", "grid", "block", "shared", "args")


class ChallengeFailed(Exception):
    """The kernel is wrong on a case; the message is the report."""


def challenge(
    client: Client, code: str, nonce: str, op: str, kernel: Callable[..., Any], *, dtype: str, count: int,
    attributes: Mapping[str, Any] | None, compiled: Mapping[str, Any] | None, place: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Runs the kernel on all cases of a challenge and returns the record of what came out."""
    if compiled is not None and (unknown := sorted(set(compiled) - set(KERNEL_KEYS))):
        raise ValueError(f"compiled has {unknown}, known are {', '.join(KERNEL_KEYS)}")
    attrs = [f"{name}={text}" for name, text in sorted(_parts.texts(attributes or {}).items())]
    question = (code or NO_CODE, op, dtype, nonce, count, attrs)
    cases = [str(case["case"]) for case in binary.challenge(*question)["cases"]]
    session = KernelSession(op, kernel, {}, client=client, **place)
    decided = 0
    with tempfile.TemporaryDirectory(prefix="gpu-proof-") as directory:
        try:
            for index, text in enumerate(cases):
                done, result = session.execute(session.case(text), store="none")
                if result.verdict not in ("pass", "undecided") or done.outputs is None:
                    raise ChallengeFailed(describe(result, None, "gpuemu reproduce"))
                decided += result.passed
                _write(os.path.join(directory, f"{index}.safetensors"), done.outputs)
        finally:
            session.close()
        if not decided:
            raise ChallengeFailed(f"{op}: none of {len(cases)} cases is decided: ask for more with count=")
        record = binary.challenge(*question, outputs=directory)
    if compiled is not None:
        record["kernel"] = {
            name: [str(v) for v in value] if isinstance(value, (list, tuple)) else str(value)
            for name, value in compiled.items()
        }
    return record


def _write(file: str, tensors: Mapping[str, Any]) -> None:
    """Outputs as a safetensors file."""
    head, _ = _parts.image_head(tensors)
    with open(file, "wb") as f:
        f.write(head)
        for array in tensors.values():
            f.write(_parts.flat_bytes(array))

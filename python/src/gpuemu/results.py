"""What requests return: plain dataclasses, and the error that all requests share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _escape


class ClientError(Exception):
    """A request that failed. str() has what happened, where, and what to do next.

    Attributes:
        code: stable name of the error, as in docs/errors.md; "" where the client itself failed.
        hint: what to do next, or "".
        position: file:line:column of what is wrong, or "".
    """

    def __init__(self, message: str, code: str = "", hint: str = "", position: str = "") -> None:
        text = f"{position}: {message}" if position else message
        if hint:
            text += f"\n  {hint}"
        if code:
            text += f" [{code}]"
        super().__init__(_escape.block(text))
        self.message = message
        self.code = code
        self.hint = hint
        self.position = position


class ConnectionFailed(ClientError):
    """No daemon can be reached, or it went away in the middle of an answer."""


@dataclass
class ReproductionInfo:
    """What is needed to make the inputs of a case again.

    Attributes:
        seed: seed of the case.
        shape: shape of the first input.
        strides: strides of the first input, in elements.
        dtype: data type of the case.
        layout: memory layout of the first input.
        case: the whole case in one line; `gpuemu reproduce` takes it on any machine.
        fuzz_config: the options of the run, where they are known.
        input_snapshot: the inputs themselves, where they cannot be made from the seed.
    """

    seed: int
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: str = ""
    layout: str = ""
    case: str = ""
    fuzz_config: Any | None = None
    input_snapshot: dict[str, Any] | None = None


@dataclass
class ValidationResult:
    """The verdict on one case.

    Attributes:
        passed: the output was compared and is right.
        seed: seed of the case.
        op_name: the operator.
        max_diff: largest absolute error over all outputs.
        max_rel_diff: largest relative error over all outputs.
        failures: what is wrong, one dict per remark, with keys "kind" and "message".
        timestamp: when the case was judged, ISO 8601.
        duration_ms: how long that took.
        repro_info: how to make the case again; None where it passed.
        verdict: pass, fail, error, not_run or undecided.
        reason: stable word for machines, for example mismatch or overrun; "" where it passed.
        message: what happened, in one sentence.
        hint: what to do next.
        case: the case in one line.
        findings: what the guards saw: dicts with kind, name and sentence.
        error_stats: statistics of the comparison per output, as the report has them.
        raw: the whole result as the engine sent it (docs/formats/report.md).
    """

    passed: bool
    seed: int
    op_name: str
    max_diff: float = 0.0
    max_rel_diff: float = 0.0
    failures: list[dict[str, Any]] = field(default_factory=list)
    timestamp: str = ""
    duration_ms: int = 0
    repro_info: ReproductionInfo | None = None
    verdict: str = ""
    reason: str = ""
    message: str = ""
    hint: str = ""
    case: str = ""
    findings: list[dict[str, Any]] = field(default_factory=list)
    error_stats: list[dict[str, Any]] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def replay_command(self) -> str:
        """What makes the case again: a command, or a call where only the caller can run the kernel."""
        if not self.case:
            return ""
        if self.raw.get("candidate") == self.raw.get("reference") == "client" and ":stored" in self.case:
            # Nobody but the caller knows the operator.
            if not self.raw.get("inputs"):
                return "the same call with the same seed=: the inputs are not stored"
            return f"Client().reproduce({self.case!r}).inputs, given to the kernel"
        if self.raw.get("candidate") == "client":
            return f"Client().replay({self.case!r}, run_op)"
        return f"gpuemu reproduce '{self.case}'"

    def __str__(self) -> str:
        text = f"{self.op_name}: {self.verdict}"
        if self.message:
            text += f": {self.message}"
        if self.case and not self.passed:
            text += f"\n  case: {self.case}"
        if self.hint:
            text += f"\n  {self.hint}"
        return _escape.block(text)


@dataclass
class FuzzResults:
    """What a fuzz run found.

    Attributes:
        seed: master seed: the same seed gives the same cases.
        total: cases that were judged or tried.
        passed: cases that are right.
        failed: cases that are wrong, or where the kernel raised.
        failures: the failed cases, in the order of the run.
        not_run: cases about which nothing can be said, for example because a package is missing.
        undecided: cases where the contract of the operator decides on no element.
        unjudged: the cases behind not_run and undecided.
        duration: seconds.
    """

    seed: int
    total: int
    passed: int
    failed: int
    failures: list[ValidationResult] = field(default_factory=list)
    not_run: int = 0
    undecided: int = 0
    unjudged: list[ValidationResult] = field(default_factory=list)
    duration: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the run is green: cases ran, none failed, none was left out, at most a tenth is undecided."""
        return self.total > 0 and self.failed == 0 and self.not_run == 0 and self.undecided * 10 <= self.total

    def __str__(self) -> str:
        text = f"{self.passed}/{self.total} passed, {self.failed} failed"
        if self.not_run:
            text += f", {self.not_run} not run"
        if self.undecided:
            text += f", {self.undecided} undecided"
        text += f" (seed {self.seed})"
        for result in self.failures[:3]:
            text += "\n" + str(result)
        if self.failed and len(self.failures) > 3:
            text += f"\n... and {len(self.failures) - 3} more"
        if self.not_run and self.unjudged:
            text += "\n" + str(self.unjudged[0])
        return text


@dataclass
class ReproduceResult:
    """A case that was made again.

    Attributes:
        result: the verdict of now; of an op that only the client can execute, the stored one.
        inputs: the inputs by name, with their layouts.
        stored: the stored verdict, if there is one.
        still_fails: whether it fails now.
        executable: False where only the client can execute the op: run it on inputs and submit_output.
    """

    result: ValidationResult
    inputs: dict[str, np.ndarray[Any, Any]]
    stored: ValidationResult | None = None
    still_fails: bool = False
    executable: bool = True


@dataclass
class MinimizeResult:
    """The simplest case that fails in the same way.

    Attributes:
        original_seed: seed of the case that was given.
        minimized_seed: seed of the simpler one, under which it is stored.
        minimized_shape: shape of its first input.
        result: its verdict.
        case: it in one line.
        executed: how many cases were tried.
        unchanged: nothing simpler fails.
    """

    original_seed: int
    minimized_seed: int
    minimized_shape: tuple[int, ...]
    result: ValidationResult
    case: str = ""
    executed: int = 0
    unchanged: bool = False


def parse_result(raw: dict[str, Any]) -> ValidationResult:
    """Reads a result of the engine (docs/formats/report.md, one entry of results)."""
    outputs = raw.get("outputs") or []
    verdict = raw.get("verdict", "")
    failures: list[dict[str, Any]] = []
    if verdict != "pass" and raw.get("message"):
        failures.append({"kind": raw.get("reason", ""), "message": raw["message"]})
    for finding in raw.get("findings") or []:
        failures.append({"kind": finding["kind"], "message": finding.get("sentence", "")})
    for output in outputs:
        for finding in output.get("diagnosis") or []:
            failures.append({"kind": finding["kind"], "message": finding["sentence"]})
    for inv in raw.get("invariants") or []:
        if inv.get("outcome") == "violated":
            failures.append({"kind": "invariant", "message": f"{inv['name']}: {inv.get('sentence', '')}"})
    result = ValidationResult(
        passed=verdict == "pass",
        seed=int(raw.get("seed", 0)),
        op_name=raw.get("op", ""),
        max_diff=float(max((o["max_abs"] for o in outputs), default=0.0)),  # JSON writes 1.0 as 1
        max_rel_diff=float(max((o["max_rel"] for o in outputs), default=0.0)),
        failures=failures,
        timestamp=raw.get("time", ""),
        duration_ms=raw.get("duration_ns", 0) // 1_000_000,
        verdict=verdict,
        reason=raw.get("reason", ""),
        message=raw.get("message", ""),
        hint=raw.get("hint", ""),
        case=raw.get("case", ""),
        findings=raw.get("findings") or [],
        error_stats=outputs,
        raw=raw,
    )
    if not result.passed:
        result.repro_info = reproduction_info(result)
    return result


def reproduction_info(result: ValidationResult) -> ReproductionInfo:
    """Reads shape and layout of the first input out of the text of a case: in=NAME:DTYPE[D,D]:LAYOUT:VALUES."""
    info = ReproductionInfo(seed=result.seed, dtype=result.raw.get("dtype", ""), case=result.case)
    for word in result.case.split():
        if not word.startswith("in="):
            continue
        name_and_type, _, rest = word.partition("[")
        dims, _, rest = rest.partition("]")
        info.dtype = name_and_type.rpartition(":")[2]
        info.shape = tuple(int(d) for d in dims.split(",") if d)
        info.layout = rest.lstrip(":").partition(":")[0]
        break
    return info

"""What requests return: plain dataclasses, and the error that all requests share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _escape, _judged
from ._judged import Judged, JudgedDict, ValidationError

if TYPE_CHECKING:
    from .fuzz import FuzzConfig

__all__ = [
    "ClientError", "Comparison", "ConnectionFailed", "FuzzResults", "MinimizeResult", "ReproduceResult",
    "ReproductionInfo", "ValidationError", "ValidationResult", "parse_result", "reproduction_info",
]  # fmt: skip


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


@dataclass(repr=False)
class ReproductionInfo:
    """What is needed to make the inputs of a case again.

    Attributes:
        seed: seed of the case.
        shape: shape of the first input.
        strides: strides of the first input, in elements.
        dtype: data type of the case.
        layout: memory layout of the first input.
        fuzz_config: the options of the run, or where they are not known those that have this case.
        input_snapshot: the inputs by name, as dicts of dtype, shape and data (base64 of the elements in C order). None
            where they are larger than 64 KiB: Client.reproduce makes them again.
        case: the whole case in one line; `gpuemu reproduce` takes it on any machine.

    Of a case of the engine, strides and input_snapshot are fetched when one of them is first read.
    """

    seed: int
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: str = ""
    layout: str = ""
    fuzz_config: FuzzConfig | None = None
    input_snapshot: dict[str, Any] | None = None
    case: str = ""

    def defer(self, load: Callable[[ReproductionInfo], None]) -> None:
        """Has strides and input_snapshot set by load when one of them is first read."""
        self.__dict__["_load"] = load

    def __getattribute__(self, name: str) -> Any:
        if name in ("strides", "input_snapshot"):
            load = object.__getattribute__(self, "__dict__").pop("_load", None)
            if load is not None:
                load(self)
        return object.__getattribute__(self, name)

    def __getstate__(self) -> dict[str, Any]:
        _ = self.strides  # what is still to be fetched does not travel
        return self.__dict__

    def __repr__(self) -> str:
        words = [f"seed={self.seed}", f"shape={self.shape}", f"dtype={self.dtype!r}", f"layout={self.layout!r}"]
        return f"ReproductionInfo({', '.join(words)}, case={self.case!r})"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReproductionInfo:
        """Reads the dict of the published package; what it does not have stays empty."""
        return cls(
            int(data.get("seed", 0)), tuple(data.get("shape") or ()), tuple(data.get("strides") or ()),
            data.get("dtype", ""), data.get("layout", ""), data.get("fuzz_config"), data.get("input_snapshot"),
            data.get("case", ""),
        )  # fmt: skip


@dataclass(repr=False)
class ValidationResult(Judged):
    """The verdict on one case; true if it passed.

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

    Example:
        >>> result = client.validate_op("relu", {"input": x}, x + 1)
        >>> result.passed, result.reason
        (False, 'mismatch')
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
        if self.raw.get("candidate") != "client":
            return f"gpuemu reproduce '{self.case}'"
        own_reference = self.raw.get("reference") == "client"
        if own_reference and ":stored" in self.case and not self.raw.get("inputs"):
            return "the same call with the same seed=: the inputs are not stored"
        own = ", op_schema=op_schema" if self.raw.get("schema") == "client" else ""
        own += ", reference=reference" if own_reference else ""
        return f"Client().replay({self.case!r}, run_op{own})"

    @property
    def store_note(self) -> str:
        """Where the inputs are that the case does not give, and how to take them along; "" where it gives them."""
        if ":stored" not in self.case:
            return ""
        if not self.raw.get("inputs"):
            return "the text of this case does not give its inputs, and they are not stored"
        export = f"gpuemu reproduce {self.seed} --op {self.op_name} --export FILE.safetensors"
        return f"this store alone has the inputs: {export} writes them to a file"

    def _green(self) -> bool:
        return self.passed

    def _text(self) -> str:
        if self.passed:
            return f"{self.op_name}: pass (seed {self.seed})"
        reason = f" ({self.reason})" if self.reason else ""
        lines = [f"{self.op_name}: {self.verdict}{reason}", self.message, self.hint]
        if self.case:
            lines += ["case: " + self.case, "replay: " + self.replay_command, self.store_note]
        return "\n  ".join(filter(None, lines))

    def _details(self) -> str:
        from .report import details  # it reads results itself

        more = "".join("\n" + line for line in details(self))
        head, at, rest = self._text().partition("\n  case: ")
        return head + more + at + rest

    def _repr_html_(self) -> str:
        """The text, the worst elements, and the error map of each output."""
        more = []
        for output in () if self.passed else self.error_stats:
            rows: list[tuple[str, ...]] = [("element", "got", "want", "bound")]
            for worst in output.get("worst") or []:
                index = ",".join(map(str, worst["index"]))
                rows.append((f"{output['name']}[{index}]", *(str(worst[key]) for key in ("got", "want", "bound"))))
            if len(rows) > 1:
                more.append(_judged.html_table(rows))
            if output.get("map"):
                more.append(_judged.html_map(output["map"]))
        return _judged.html_of(self._text(), self.passed, *more)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ValidationResult:
        """Reads the dict of the published package."""
        info = data.get("repro_info")
        passed = bool(data.get("passed", False))
        return cls(
            passed, int(data.get("seed", 0)), data.get("op_name", ""), data.get("max_diff", 0.0),
            data.get("max_rel_diff", 0.0), data.get("failures") or [], data.get("timestamp", ""),
            data.get("duration_ms", 0), ReproductionInfo.from_dict(info) if info else None,
            data.get("verdict") or ("pass" if passed else "fail"),
        )  # fmt: skip

    def __str__(self) -> str:
        text = f"{self.op_name}: {self.verdict}"
        if self.message:
            text += f": {self.message}"
        if self.case and not self.passed:
            text += f"\n  case: {self.case}"
        if self.hint:
            text += f"\n  {self.hint}"
        return _escape.block(text)


@dataclass(repr=False)
class FuzzResults(Judged):
    """What a fuzz run found; true if the run is green.

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

    Example:
        >>> results = client.fuzz_op_client_side("relu", lambda i: i["input"] + 1, 5, seed=1)
        >>> results.ok, len(results.failures) == results.failed
        (False, True)
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

    @property
    def smallest(self) -> ValidationResult | None:
        """The kept failure whose inputs have the fewest elements; None without failures."""
        return min(self.failures, key=lambda result: case_size(result.case), default=None)

    def _green(self) -> bool:
        return self.ok

    def _text(self) -> str:
        first = next(iter(self.failures or self.unjudged), None)
        if self.ok or first is None:
            return self._counts()
        lines = [f"{first.op_name}: {self._counts()}", f"{first.reason or first.verdict}: {first.message}"]
        if first.case:
            lines.append("case: " + first.case)
        smallest = self.smallest
        last = first if smallest is None else smallest
        if last.case:
            if last.case != first.case:
                lines.append("smallest failing case: " + last.case)
            lines.append("replay: " + last.replay_command)
        return "\n  ".join(lines)

    def _details(self) -> str:
        return str(self) if self.failures or self.unjudged else self._counts()

    def _repr_html_(self) -> str:
        """The text, and the error map of the smallest failing case."""
        shown = self.smallest
        outputs = [] if shown is None or self.ok else shown.error_stats
        more = [_judged.html_map(output["map"]) for output in outputs if output.get("map")]
        return _judged.html_of(self._text(), self.ok, *more)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FuzzResults:
        """Reads the dict of the published package."""
        failures = [ValidationResult.from_dict(failure) for failure in data.get("failures") or []]
        seed, total, passed, failed = (int(data.get(name, 0)) for name in ("seed", "total", "passed", "failed"))
        return cls(seed, total, passed, failed, failures)

    def _counts(self) -> str:
        text = f"{self.passed}/{self.total} passed, {self.failed} failed"
        if self.not_run:
            text += f", {self.not_run} not run"
        if self.undecided:
            text += f", {self.undecided} undecided"
        return text + f" (seed {self.seed})"

    def __str__(self) -> str:
        text = self._counts()
        for result in self.failures[:3]:
            text += "\n" + str(result)
        if self.failed and len(self.failures) > 3:
            text += f"\n... and {len(self.failures) - 3} more"
        if self.not_run and self.unjudged:
            text += "\n" + str(self.unjudged[0])
        return text


@dataclass(repr=False)
class ReproduceResult(Judged):
    """A case that was made again; true if it was executed now and passed.

    Attributes:
        result: the verdict of now; of an op that only the client can execute, the stored one.
        inputs: the inputs by name, with the strides and offsets of the case. Gaps in their storage are poisoned.
        stored: the stored verdict, if there is one.
        still_fails: whether it fails now.
        executable: False where only the client can execute the op: run it on inputs and submit_output.
    """

    result: ValidationResult
    inputs: dict[str, np.ndarray[Any, Any]]
    stored: ValidationResult | None = None
    still_fails: bool = False
    executable: bool = True

    def _green(self) -> bool:
        return self.executable and self.result.passed

    def _text(self) -> str:
        shown = [f"{name} {a.dtype.name}{list(a.shape)}, strides {a.strides}" for name, a in self.inputs.items()]
        head = "" if self.executable else "not executed here, the stored verdict is "
        return "\n  ".join([head + self.result._text(), *("input: " + line for line in shown)])

    def _repr_html_(self) -> str:
        """The text of the verdict, with its error map."""
        return self.result._repr_html_()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], decode_tensor_fn: Callable[[Any], Any]) -> ReproduceResult:
        """Reads the dict of the published package."""
        inputs = {name: decode_tensor_fn(value) for name, value in (data.get("inputs") or {}).items()}
        return cls(ValidationResult.from_dict(data.get("result") or {}), inputs)


@dataclass(repr=False)
class MinimizeResult(Judged):
    """The simplest case that fails in the same way; true if that passed, which none does.

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

    def _green(self) -> bool:
        return self.result.passed

    def _text(self) -> str:
        what = "nothing simpler fails" if self.unchanged else "the simplest case that fails in the same way"
        return f"{self.result._text()}\n  {what}, of {self.executed} tried; seed {self.original_seed} was given"

    def _details(self) -> str:
        return self.result._details()

    def _repr_html_(self) -> str:
        """The text of the verdict on the simplest case, with its error map."""
        return self.result._repr_html_()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MinimizeResult:
        """Reads the dict of the published package."""
        return cls(
            int(data.get("original_seed", 0)), int(data.get("minimized_seed", 0)),
            tuple(data.get("minimized_shape") or ()), ValidationResult.from_dict(data.get("result") or {}),
        )  # fmt: skip


class Comparison(JudgedDict):
    """What Client.compare found: a dict with passed, verdict, message and outputs; true if it passed."""

    @property
    def passed(self) -> bool:
        """Whether all elements are within the tolerance."""
        return bool(self.get("passed"))

    def _green(self) -> bool:
        return self.passed

    def _text(self) -> str:
        if self.passed:
            return "compare: pass"
        return f"compare: {self.get('verdict') or 'fail'}: {self.get('message', '')}"


def case_size(case: str) -> int:
    """How many elements the inputs of a case have, read off its text."""
    shapes = [word.partition("[")[2].partition("]")[0] for word in case.split() if word.startswith("in=")]
    return sum(math.prod(int(d) for d in shape.split(",") if d) for shape in shapes)


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

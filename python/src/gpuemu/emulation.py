"""Launches of compiled kernels on the CPU: what came of one."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ._judged import Judged
from .results import ClientError

MAX_SHOWN = 10  # findings in the text of an error: the first ones tell most


@dataclass
class EmulationFinding:
    """Something that a kernel does and should not; of those of one kind at one instruction the first.

    Attributes:
        kind: oob_read, oob_write, misaligned, uninit, unwritten, race, barrier_divergence, bad_mask, deadlock,
            async_hazard, nondeterministic, input_modified, assert or trap (docs/emulate.md).
        message: what happened.
        source, line: of the kernel's source; "" and 0 without line information.
        ptx_line: line of the PTX.
        block, thread: the first that did it.
        count: how often it happened.
        instruction: the instruction; "" where none is to blame.
        inlined_at: (source, line) of the calls that the line was inlined at, the innermost first.
    """

    kind: str
    message: str
    source: str
    line: int
    ptx_line: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    count: int
    instruction: str
    inlined_at: tuple[tuple[str, int], ...] = ()

    @property
    def sentence(self) -> str:
        """Where, who and what, without the kind."""
        place = f"{self.source}:{self.line}" if self.line else f"PTX line {self.ptx_line}"
        who = ""
        if self.instruction:  # else nobody in particular did it
            who = f"block {_size(self.block)}, thread {_size(self.thread)}: "
        times = f" ({self.count} times)" if self.instruction and self.count > 1 else ""
        return f"{place}: {who}{self.message}{times}"

    def __str__(self) -> str:
        return f"{self.kind} at {self.sentence}"


@dataclass(repr=False)
class EmulationResult(Judged):
    """What came of a launch; true if the kernel ran to its end and nothing was found.

    Attributes:
        status: passed, failed (there are findings) or not_run (error says why).
        kernel: name of the kernel.
        findings: what it does and should not.
        dropped: findings beyond the length of that list.
        instructions: of warps.
        seconds: that the execution took.
        printed: by printf.
        checks: what was looked for.
        counters: numbers of instructions, branches, memory accesses as a dict; None where they were not asked for.
        error: why the kernel was not executed, or not to its end.
        raw: the whole answer, as gpuemu emulate --format json prints it.
    """

    status: str
    kernel: str
    findings: list[EmulationFinding]
    dropped: int = 0
    instructions: int = 0
    seconds: float = 0.0
    printed: str = ""
    checks: tuple[str, ...] = ()
    counters: dict[str, Any] | None = None
    error: ClientError | None = None
    raw: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def ok(self) -> bool:
        """Whether the kernel ran to its end, and nothing was found."""
        return self.status == "passed"

    def _green(self) -> bool:
        return self.ok

    def _text(self) -> str:
        return f"{self.kernel}: {self.status}" if self.ok else str(EmulationError(self))

    def check(self) -> EmulationResult:
        """Raises EmulationError unless ok; returns itself."""
        if not self.ok:
            raise EmulationError(self)
        return self


class EmulationError(Exception):
    """A launch with findings, or one that was not executed to its end. The result has the details.

    Attributes:
        result: what came of the launch.
        findings: those of the result.
    """

    def __init__(self, result: EmulationResult) -> None:
        lines = [str(f) for f in result.findings[:MAX_SHOWN]]
        more = len(result.findings) + result.dropped - len(lines)
        if result.error is not None:
            lines.append(f"not executed: {result.error}")
        if more > 0:
            lines.append(f"and {more} more")
        super().__init__(f"{result.kernel}: " + "\n  ".join(lines))
        self.result = result
        self.findings = result.findings


# Where the guard takes findings instead of exceptions; None: nobody does.
collecting: ContextVar[list[EmulationFinding] | None] = ContextVar("collecting", default=None)


def settle(result: EmulationResult) -> None:
    """Raises what was found, or leaves it to the guard. That a kernel was not executed is raised in any case."""
    found = collecting.get()
    if found is None or result.error is not None:
        result.check()
    else:
        found.extend(result.findings)


def _size(size: tuple[int, int, int]) -> str:
    return ",".join(map(str, size))


def parse_emulation(doc: Mapping[str, Any]) -> EmulationResult:
    """The document of the engine as a result."""
    findings = [
        EmulationFinding(
            f["class"], f["message"], f["source"], f["line"], f["ptx_line"], tuple(f["block"]), tuple(f["thread"]),
            f["count"], f["instruction"], tuple((p["source"], p["line"]) for p in f["inlined_at"]),
        )
        for f in doc["findings"]
    ]  # fmt: skip
    error = doc.get("error")
    if error is not None:
        text = error["message"].removesuffix(f" [{error['code']}]")  # ClientError adds it
        error = ClientError(text, error["code"], error["hint"])
    return EmulationResult(
        doc["status"], doc["kernel"], findings, doc["findings_dropped"], doc["instructions"], doc["seconds"],
        doc["printed"], tuple(doc["checks"]), doc.get("counters"), error, dict(doc),
    )  # fmt: skip

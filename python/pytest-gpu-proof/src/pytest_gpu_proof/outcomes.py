"""Outcomes of tests, from the reports of their phases."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from .tester import ATTRIBUTE

# From best to worst. A test that several workers run (--dist each) has the worst of its outcomes.
OUTCOMES = ("passed", "xpassed", "xfailed", "skipped", "failed", "error")
MAX_REASON = 500  # characters: a reason is a line, not a log

SECRET_WORDS = r"(?:token|secret|passw(?:or)?d|passphrase|api[-_]?key|credential)"
SECRET_OPTION = re.compile(rf"(?i)^(-{{0,2}}[\w.-]*{SECRET_WORDS}[\w.-]*)=.*", re.S)
CREDENTIALS = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/@\s]+@")
SECRET_NAME = re.compile(rf"(?i)^--?[\w.-]*{SECRET_WORDS}[\w.-]*$")


def without_secrets(text: str) -> str:
    """A text without the credentials of URLs and the values of options that are named after secrets."""
    return CREDENTIALS.sub(r"\1", SECRET_OPTION.sub(r"\1=…", text))


def arguments_without_secrets(arguments: list[str]) -> list[str]:
    """Arguments of a command in the same way; the value of a secret option may be an argument of its own."""
    out: list[str] = []
    for i, text in enumerate(arguments):
        hidden = i > 0 and SECRET_NAME.match(arguments[i - 1]) and not text.startswith("-")
        out.append("…" if hidden else without_secrets(text))
    return out


@dataclass
class Phase:
    """What the report of one phase says."""

    outcome: str  # passed, failed, skipped
    expected: bool  # whether the test is marked xfail, and pytest took it into account
    seconds: float
    reason: str


@dataclass
class Execution:
    """One test in one process: its phases of the last attempt, and how many attempts there were before."""

    phases: dict[str, Phase] = field(default_factory=dict)
    reruns: int = 0
    crashed: str | None = None
    record: dict[str, Any] = field(default_factory=dict)

    def add(self, report: Any) -> None:
        """Takes a report of a phase, of an attempt that is made again, of a subtest, or of a worker that died."""
        text = getattr(report, ATTRIBUTE, None)
        if text is not None:
            self.record.update(json.loads(text))
        if report.outcome == "rerun":  # of pytest-rerunfailures: the next attempt reports all phases again
            self.phases.clear()
            self.reruns += 1
        elif report.when not in ("setup", "call", "teardown"):
            self.crashed = _reason(report) or "the process that ran it died"
        else:
            phase = Phase(report.outcome, hasattr(report, "wasxfail"), float(report.duration), _reason(report))
            # A subtest reports a call before the test itself does; one that failed is not made good by a later one.
            if report.when not in self.phases or self.phases[report.when].outcome != "failed":
                self.phases[report.when] = phase

    @property
    def finished(self) -> bool:
        """Whether the test came to its end."""
        return self.crashed is not None or "teardown" in self.phases

    def outcome(self) -> tuple[str, str, str]:
        """Outcome, the phase that decided it, and the reason."""
        if self.crashed is not None:
            return "error", "crash", self.crashed
        for when, failed in (("setup", "error"), ("call", "failed"), ("teardown", "error")):
            phase = self.phases.get(when)
            if phase is not None and phase.outcome == "failed":
                return failed, when, phase.reason
        if not self.finished:
            return "error", next(reversed(self.phases), "setup"), "it did not come to its end"
        for when, phase in self.phases.items():
            if phase.outcome == "skipped":
                return ("xfailed" if phase.expected else "skipped"), when, phase.reason
        call = self.phases.get("call")
        if call is None:
            return "error", "call", "there is no report of its call"
        return ("xpassed" if call.expected else "passed"), "call", call.reason if call.expected else ""

    @property
    def seconds(self) -> float:
        """How long the phase that decided took."""
        phase = self.phases.get(self.outcome()[1])
        return round(phase.seconds, 4) if phase else 0.0


def _reason(report: Any) -> str:
    """Why a test was skipped, was expected to fail, or failed, in one line."""
    if getattr(report, "wasxfail", ""):
        text = str(report.wasxfail)
    elif report.outcome == "passed":
        return ""
    elif isinstance(report.longrepr, tuple):  # of a skip: file, line, reason
        text = str(report.longrepr[2]).removeprefix("Skipped: ")
    else:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = str(crash.message) if crash is not None else str(report.longrepr or "")
    return one_line(text)


def one_line(text: str) -> str:
    """The first line that says something, without secrets, and text that any file can hold."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return without_secrets(line)[:MAX_REASON].encode("utf-8", "replace").decode()

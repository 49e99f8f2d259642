"""A failure for people to read: what is wrong, where, the simplest case, and the command that makes it again."""

from __future__ import annotations

import shlex

from . import _escape
from .results import ValidationResult

WORST = 5  # elements shown


def describe(result: ValidationResult, simplest: ValidationResult | None, replay: str) -> str:
    """The report of a failed case.

    Args:
        result: its verdict.
        simplest: that of the smallest case that fails in the same way, if one was looked for.
        replay: the command that runs a case again, without the case.
    """
    lines = [f"{result.op_name}: {result.verdict} ({result.reason})", "  " + result.message]
    if result.hint:
        lines.append("  " + result.hint)
    lines += [*details(result), "case: " + result.case]
    if simplest is not None and simplest.case != result.case:
        lines.append("simplest case that fails in the same way: " + simplest.case)
        if simplest.message != result.message:  # a kernel that raises does so in the same words
            lines += ["  " + simplest.message, *details(simplest)]
    lines.append(f"replay: {replay} {shlex.quote((result if simplest is None else simplest).case)}")
    return _escape.block("\n".join(lines))


def details(result: ValidationResult) -> list[str]:
    """Lines on a failure below its message: findings, diagnoses, the worst elements, the error map."""
    lines = [": ".join(filter(None, ["  " + f["kind"], f.get("name"), f.get("sentence")])) for f in result.findings]
    for output in result.error_stats:
        for finding in output.get("diagnosis") or []:
            lines.append(f"  diagnosis: {finding['sentence']}")
        for worst in (output.get("worst") or [])[:WORST]:
            index = ",".join(map(str, worst["index"]))
            value = f"got {worst['got']}, want {worst['want']} within {worst['bound']:.3g}"
            lines.append(f"  {output['name']}[{index}]: {value}")
        if output.get("map"):
            lines += ["    " + line for line in output["map"].rstrip().splitlines()]
    stderr = result.raw.get("stderr")
    if stderr:
        lines += ["  " + line for line in stderr.rstrip().splitlines()]
    return lines

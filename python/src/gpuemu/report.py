"""A failure for people to read: what is wrong, where, the simplest case, and the command that makes it again."""

from __future__ import annotations

from typing import Optional

from .results import ValidationResult

WORST = 5  # elements shown


def describe(result: ValidationResult, simplest: Optional[ValidationResult] = None) -> str:
    """The report of a failed case. simplest: the smallest case that fails in the same way, if one was looked for."""
    lines = [f"{result.op_name}: {result.verdict} ({result.reason})", "  " + result.message]
    if result.hint:
        lines.append("  " + result.hint)
    lines += _details(result)
    if simplest is not None and simplest.case != result.case:
        lines += ["simplest case that fails in the same way:", "  " + simplest.message]
        lines += _details(simplest)
        lines += ["  " + simplest.case, "replay: " + simplest.replay_command]
    else:
        lines += ["case: " + result.case, "replay: " + result.replay_command]
    return "\n".join(lines)


def _details(result: ValidationResult) -> list[str]:
    lines = [f"  {f['kind']}: {f['name']}: {f.get('sentence', '')}" for f in result.findings]
    for output in result.error_stats:
        for finding in output.get("diagnosis") or []:
            lines.append(f"  diagnosis: {finding['sentence']}")
        for worst in (output.get("worst") or [])[:WORST]:
            index = ",".join(map(str, worst["index"]))
            lines.append(f"  {output['name']}[{index}]: got {worst['got']}, want {worst['want']} within {worst['bound']:.3g}")
        if output.get("map"):
            lines += ["    " + line for line in output["map"].rstrip().splitlines()]
    stderr = result.raw.get("stderr")
    if stderr:
        lines += ["  " + line for line in stderr.rstrip().splitlines()]
    return lines

"""What the engine found in compiled kernels, in the documented form of Client.lint_kernel."""

from __future__ import annotations

from typing import Any

from ._judged import Judged

FIGURES = {"register_count": "registers", "local_memory_bytes": "local", "shared_memory_bytes": "shared_static",
           "stack_bytes": "stack"}  # fmt: skip
ESTIMATED = "ptx-estimate"  # the origin of a figure that is no fact


class LintResults(Judged, list[dict[str, Any]]):
    """A dict for each kernel. The list is true if there are kernels and all passed."""

    def _green(self) -> bool:
        return len(self) > 0 and all(kernel["passed"] for kernel in self)

    def _text(self) -> str:
        lines = [f"lint: {sum(bool(kernel['passed']) for kernel in self)}/{len(self)} kernels passed"]
        for kernel in self:
            for v in kernel["violations"]:
                lines.append(f"{kernel['kernel_name']}: {v['severity']}: {v['message']}")
        return "\n  ".join(lines)


def lint_results(reply: dict[str, Any]) -> LintResults:
    """The kernels of a reply to POST /v1/lint."""
    return LintResults(_result(kernel, reply["saved"]) for kernel in reply["lint"]["kernels"])


def _result(kernel: dict[str, Any], saved: str) -> dict[str, Any]:
    return {
        "kernel_name": kernel.get("name") or kernel["kernel"],
        "passed": kernel["passed"],
        "metrics": _metrics(kernel["metrics"]),
        "violations": [_violation(v) for v in kernel["violations"]],
        "timestamp": saved,
    }


def _metrics(m: dict[str, Any]) -> dict[str, Any]:
    """The figures; one that is not known is None, never 0."""
    out: dict[str, Any] = {}
    estimated: list[str] = []
    for name, ours in FIGURES.items():
        figure = m.get(ours)
        out[name] = figure["value"] if figure else None
        if figure and figure["origin"] == ESTIMATED:
            estimated.append(name)
    spills = [m[f]["value"] for f in ("spill_stores", "spill_loads") if f in m]
    out["spill_count"] = sum(spills) if len(spills) == 2 else None
    codes = [m[c] for c in ("sass_code", "ptx_code") if c in m]
    out["instruction_count"] = codes[0]["total"] if codes else None
    out["instruction_mix"] = dict(codes[0]["classes"]) if codes else None
    out["patterns_found"] = [p for c in reversed(codes) for p in c.get("patterns", [])]
    out["source"] = "+".join(s["kind"] for s in m["sources"])
    out["arch"] = m.get("arch", "")
    out["estimated"] = estimated
    return out


def _violation(v: dict[str, Any]) -> dict[str, Any]:
    actual = v.get("actual")
    return {
        "kind": "".join(word.capitalize() for word in v["kind"].split("_")),
        "severity": v["severity"],
        "message": v["message"],
        "hint": v.get("hint", ""),
        "actual": actual["value"] if actual else None,
        "threshold": v.get("limit"),
        "pattern": v.get("pattern", ""),
        "file": v["file"],
        "line": v.get("line", 0),
    }

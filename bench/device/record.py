"""What planted.py and controls.py share: running one kernel through the client, and writing records as they grow."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pool

# Reasons that say that the kernel gave no output: nothing was judged. Everything else that fails is an alarm.
REFUSALS = (
    "raised", "crashed", "unsupported", "missing_package", "timed_out", "bad_reply", "wrong_outputs", "wrong_dtype",
)  # fmt: skip

# Kinds of elements in the engine's statistics that are not wrong.
RIGHT = ("matching NaN", "matching Inf", "overflow within the bound", "undetermined")

WRITE_EVERY = 2.0  # seconds


def arguments(doc: str) -> argparse.ArgumentParser:
    """The flags of both scripts."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=500, metavar="SECONDS", help="start no job after this long")
    parser.add_argument("--workers", type=int, default=6, help="processes on the device")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for a dry run (Triton: TRITON_INTERPRET=1)")
    parser.add_argument("--cases", type=int, default=0, help="cases of a job; 0: as the record has them")
    parser.add_argument("--seed", type=int, default=7, help="master seed of the cases")
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def fuzz(call: Callable[..., Any], op: str, dtype: str, values: str, cases: int, args: argparse.Namespace,
         **options: Any) -> dict[str, Any]:  # fmt: skip
    """Runs one kernel on cases of one data type and counts what the engine says."""
    import gpuemu

    row: dict[str, Any] = {"elements": 0, "undetermined": 0, "worst": 0.0, "alarms": [], "refusals": {}, "findings": {}}
    refusals: Counter[str] = Counter()
    findings: Counter[str] = Counter()

    def see(case: Any, _inputs: Any, _outputs: Any, result: Any) -> None:
        for out in result.raw.get("outputs") or []:
            row["elements"] += out["elements"]
            row["undetermined"] += out.get("undetermined", 0)
            row["worst"] = max(row["worst"], out["max_ratio"])
        if result.reason in REFUSALS or result.verdict == "not_run":
            refusals[first_line(result.message)] += 1
        elif result.verdict in ("fail", "error"):
            for kind in {f["kind"] for f in result.findings}:
                findings[kind] += 1
            if len(row["alarms"]) < 20:
                row["alarms"].append(alarm(case.index, result))

    client = gpuemu.Client(timeout_ms=120_000)
    results = client.fuzz_op_client_side(
        op, run_op=call, iterations=cases, seed=args.seed, dtypes=[dtype], value_distribution=values,
        device=args.device, store="none", progress=False, on_case=see, **{"framework": "torch", **options},
    )  # fmt: skip
    client.close()
    refused = sum(refusals.values())
    row.update(
        cases=results.total, passed=results.passed, undecided=results.undecided, refused=refused,
        failed=results.total - results.passed - results.undecided - refused, seconds=round(results.duration, 3),
        refusals=dict(refusals.most_common(5)), findings=dict(findings),
    )  # fmt: skip
    return row


def rate(call: Callable[..., Any], op: str, dtype: str, cases: int, args: argparse.Namespace,
         **options: Any) -> dict[str, Any]:  # fmt: skip
    """How fast one kernel goes through the client with mixed values; a first, short run has compiled it."""
    import gpuemu

    client = gpuemu.Client(timeout_ms=120_000)
    for count in (min(cases, 100), cases):
        results = client.fuzz_op_client_side(
            op, run_op=call, iterations=count, seed=args.seed, dtypes=[dtype], framework="torch", device=args.device,
            store="none", progress=False, **options,
        )  # fmt: skip
    client.close()
    return {"cases": results.total, "failed": results.failed, "refused": results.not_run,
            "seconds": round(results.duration, 3)}  # fmt: skip


def alarm(index: int, result: Any) -> dict[str, Any]:
    """What is kept of a failing case."""
    diagnosis = [d["sentence"] for o in result.raw.get("outputs") or [] for d in o.get("diagnosis") or []]
    return {"index": index, "reason": result.reason, "message": result.message, "case": result.case,
            "findings": [f"{f['kind']}: {f.get('sentence', '')}" for f in result.findings],
            "kinds": [k for o in result.raw.get("outputs") or [] for k in (o.get("kinds") or {}) if k not in RIGHT],
            "diagnosis": diagnosis}  # fmt: skip


def first_line(text: str) -> str:
    """The first line of a message, short enough for a table."""
    lines = text.strip().splitlines()
    return lines[0][:160] if lines else "no message"


def cell(text: Any) -> str:
    """Text that does not break a table."""
    return " ".join(str(text).replace("|", "\\|").split())


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of Markdown; columns whose head begins with > are aligned to the right."""
    lines = ["| " + " | ".join(h.lstrip(">") for h in head) + " |",
             "|" + "|".join("---:" if h.startswith(">") else "---" for h in head) + "|"]  # fmt: skip
    lines += ["| " + " | ".join(cell(c) for c in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def machine(device: str) -> str:
    """What the record was made on."""
    facts = [f"Python {platform.python_version()}"]
    try:
        import torch

        facts.append(f"PyTorch {torch.__version__}")
        facts.append(torch.cuda.get_device_name() if device.startswith("cuda") else "CPU only: a dry run")
    except Exception as exc:  # the record says so rather than ending
        facts.append(f"no device: {first_line(str(exc))}")
    for name in ("triton", "cupy"):
        try:
            facts.append(f"{name} {__import__(name).__version__}")
        except Exception as exc:
            facts.append(f"no {name} ({first_line(str(exc))})")
    return ", ".join(facts) + f", {os.cpu_count()} cores"


class Record:
    """Rows as they come. Both files are written every few seconds; the caller writes them at the end."""

    def __init__(
        self, name: str, render: Callable[[list[dict[str, Any]], str], str], planned: int, device: str
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self._render = render
        self._planned = planned
        self._made_on = machine(device)
        self._base = pool.out_dir() / name
        self._written = 0.0

    def take(self, row: dict[str, Any]) -> None:
        """Adds a row and says so."""
        self.rows.append(row)
        what = row.get("error") or (
            f"{row['cases']} cases, {row['failed']} failed, {row['refused']} refused, {row['seconds']} s"
        )
        pool.say(f"[{len(self.rows)}/{self._planned}] {row['name']}: {what}")
        if time.monotonic() - self._written > WRITE_EVERY:
            self.write()

    def write(self) -> None:
        """Writes NAME.json and NAME.md."""
        self._written = time.monotonic()
        write(self._base.with_suffix(".json"), json.dumps({"made_on": self._made_on, "rows": self.rows}, indent=1))
        write(self._base.with_suffix(".md"), self._render(self.rows, self._made_on))


def write(path: Path, text: str) -> None:
    """Replaces a file at once, so that a run that is cut off leaves a whole one."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)


def healthy(device: str) -> Callable[[], None]:
    """A check that the device still answers."""
    import torch

    synchronize: Callable[[], None] = torch.cuda.synchronize
    return synchronize if device.startswith("cuda") else (lambda: None)

"""Runs the kernels of bench/device/kernels on a GPU through the client: which planted bugs are found, and whether a
correct kernel raises an alarm.

usage: planted.py [--budget SECONDS] [--workers N]

Writes planted.md and planted.json to $OUT after every kernel, so that a run that is cut off leaves what it has.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

import pool
import record

CASES = 100
SPEED_CASES = 1000
SPEED = (
    "triton_add", "triton_softmax", "triton_layernorm", "triton_matmul", "triton_attention", "cuda_sum", "torch_var",
)  # fmt: skip
SPEED_SHARE = 0.15  # of the time, kept for the kernels whose speed is taken
# A dry run without a GPU: Triton's interpreter takes a second for a thousand blocks.
FEW_ROWS = {"B": [1, 2], "S": [1, 3]}
ROWWISE = ("add", "relu", "gelu", "swiglu", "softmax", "sum", "cumsum", "layernorm", "rmsnorm")
GUARDS = {
    "not_fully_written": "unwritten tail or output",
    "overrun": "write past the end",
    "input_modified": "input changed",
    "nondeterministic": "race",
}
HEAD = """# Planted bugs on a GPU

Made by bench/device/planted.py on: {made_on}.

Kernels of our own (bench/device/kernels: Triton, CUDA C, PyTorch), each correct and with bugs planted into it, through
`Client.fuzz_op_client_side`: {cases} cases of a data type, awkward shapes, strided and transposed inputs, mixed values;
the correct ones once more with adversarial values. Outputs are allocated by the guard, poisoned and between red zones.
Cases a second in the large table are those of one process of several, compilation included; the small one has kernels
that ran alone.

"""


def jobs_of(args: argparse.Namespace) -> list[pool.Job]:
    """Correct kernels first; their cases then also have adversarial values."""
    import kernels

    jobs = []
    for kernel in sorted(kernels.ALL, key=lambda k: k.bug is not None):
        for dtype in kernel.dtypes:
            for values in ("mixed",) if kernel.bug else ("mixed", "adversarial"):
                bug = kernel.bug
                jobs.append({
                    "name": f"{kernel.name} {dtype} {values}", "kernel": kernel.name, "op": kernel.op, "dtype": dtype,
                    "values": values, "bug": bug.kind if bug else "", "what": bug.sentence if bug else "",
                    "expects": bug.finding if bug else "",
                })  # fmt: skip
    return [j for j in jobs if args.only in str(j["name"])]


def speed_jobs(args: argparse.Namespace) -> list[pool.Job]:
    """Kernels whose speed is taken, one after the other."""
    return [{"name": f"speed of {n}", "kernel": n, "dtype": "float32", "speed": True} for n in SPEED if args.only in n]


def run_job(job: pool.Job, args: argparse.Namespace) -> pool.Row:
    import kernels

    kernel = next(k for k in kernels.ALL if k.name == job["kernel"])
    if job.get("speed"):
        cases = args.cases or SPEED_CASES
        return record.rate(kernel.call, kernel.op, job["dtype"], cases, args, outputs=kernel.outputs)
    return record.fuzz(
        kernel.call, kernel.op, job["dtype"], job["values"], args.cases or CASES, args, outputs=kernel.outputs,
        repeat=kernel.repeat, shapes=FEW_ROWS if args.device == "cpu" and kernel.op in ROWWISE else None,
    )  # fmt: skip


def speed(row: pool.Row) -> str:
    return f"{row['cases'] / row['seconds']:.0f}" if row.get("seconds") else ""


def outcome(row: pool.Row) -> str:
    """Whether the row is as it should be."""
    if "error" in row:
        return "NOT RUN"
    if row["refused"] == row["cases"]:
        return "NOT RUN"
    if row["bug"]:
        return "found" if row["failed"] else "MISSED"
    return "FALSE ALARM" if row["failed"] else "no alarm"


def sentence(alarm: dict[str, Any]) -> str:
    """The most telling sentence about a failing case: of the guard, of the diagnosis, or what is wrong where."""
    said: list[str] = [*alarm["findings"], *alarm["diagnosis"], record.first_line(alarm["message"])]
    return said[0]


def table(rows: list[pool.Row]) -> str:
    lines = []
    for row in rows:
        if "error" in row:
            lines.append([row["kernel"], row["dtype"], row["values"], row["what"] or "correct", "", "", "",
                          outcome(row), row["error"], ""])  # fmt: skip
            continue
        first: dict[str, Any] = row["alarms"][0] if row["alarms"] else {}
        why = "; ".join(filter(None, [
            ", ".join(f"{k} ({n})" for k, n in row["findings"].items()) or first.get("reason", ""),
            sentence(first) if first else "",
            "".join(f"refused {n} times: {text}" for text, n in list(row["refusals"].items())[:1]),
        ]))  # fmt: skip
        lines.append([row["kernel"], row["dtype"], row["values"], row["what"] or "correct", row["cases"], row["failed"],
                      first.get("index", ""), outcome(row), why, speed(row)])  # fmt: skip
    head = [
        "kernel", "dtype", "values", "what it does", ">cases", ">failed", ">first", "outcome", "finding or diagnosis",
        ">cases/s",
    ]  # fmt: skip
    return record.table(head, lines)


def summary(rows: list[pool.Row]) -> str:
    bugs = [r for r in rows if r["bug"]]
    sound = [r for r in rows if not r["bug"]]
    found = {r["kernel"] for r in bugs if outcome(r) == "found"}
    ran = {r["kernel"] for r in bugs if outcome(r) in ("found", "MISSED")}
    kinds = {r["bug"] for r in bugs if r["kernel"] in found}
    alarms = [r for r in sound if outcome(r) == "FALSE ALARM"]
    cases = sum(r.get("cases", 0) - r.get("refused", 0) for r in sound)
    missed = [f"{r['kernel']} {r['dtype']}" for r in bugs if outcome(r) == "MISSED"]
    dead = [f"{r['name']} ({r.get('error') or next(iter(r['refusals']), '')})" for r in rows if outcome(r) == "NOT RUN"]
    part = [f"{r['name']}: {n} ({text})" for r in rows if outcome(r) != "NOT RUN" for text, n in r["refusals"].items()]
    lost = [r["name"] for r in rows if r.get("device_lost")]
    lines = [
        f"- planted bugs found: {len(found)} of {len(ran)} that ran ({len({r['kernel'] for r in bugs})} planted), of "
        f"{len(kinds)} kinds; by data type: {sum(outcome(r) == 'found' for r in bugs)} of "
        f"{sum(outcome(r) in ('found', 'MISSED') for r in bugs)}",
        f"- missed: {', '.join(missed) or 'none'}",
        f"- false alarms: {sum(r['failed'] for r in alarms)} in {cases} cases of "
        f"{len({r['kernel'] for r in sound if outcome(r) != 'NOT RUN'})} correct kernels"
        + "".join(f"; {r['name']}" for r in alarms),
        f"- not run: {len(dead)}" + "".join(f"; {d}" for d in dead),
        f"- cases that a kernel refused: {len(part)} kinds" + "".join(f"; {p}" for p in part),
        f"- kernels after which the device did not answer: {', '.join(lost) or 'none'}",
    ]
    for kind, what in GUARDS.items():
        expecting = [r for r in bugs if r["expects"] == kind and outcome(r) != "NOT RUN"]
        seen = [r for r in expecting if r["findings"].get(kind)]
        lines.append(f"- guard, {what} ({kind}): seen in {len(seen)} of {len(expecting)} runs that plant it")
    return "\n".join(lines) + "\n\n"


def speeds(rows: list[pool.Row]) -> str:
    if not rows:
        return ""
    lines = [[r["kernel"], r["dtype"], r.get("cases", ""), speed(r), r.get("error", "")] for r in rows]
    return "## Alone on the device\n\n" + record.table(["kernel", "dtype", ">cases", ">cases/s", ""], lines) + "\n"


def render(everything: list[pool.Row], made_on: str) -> str:
    rows = [r for r in everything if not r.get("speed")]
    order = sorted(rows, key=lambda r: (r["op"], r["kernel"], r["dtype"], r["values"]))
    most = max((r.get("cases", 0) for r in rows), default=0)
    alone = speeds([r for r in everything if r.get("speed")])
    return HEAD.format(made_on=made_on, cases=most) + summary(rows) + alone + table(order) + messages(order)


def messages(rows: list[pool.Row]) -> str:
    """The first failure of every false alarm in full: each needs an explanation."""
    text = ""
    for row in rows:
        if outcome(row) == "FALSE ALARM":
            first = row["alarms"][0]
            text += f"\n{row['name']}:\n\n```\n{first['message']}\n{first['case']}\n```\n"
    return "\n## False alarms\n" + text if text else ""


def main() -> None:
    args = record.arguments(__doc__ or "").parse_args()
    if args.worker:
        pool.work(lambda job: run_job(job, args), record.healthy(args.device))
        return
    jobs, alone = jobs_of(args), speed_jobs(args)
    if not jobs:
        raise SystemExit(f"no job has {args.only!r} in its name")
    rec = record.Record("planted", render, len(jobs) + len(alone), args.device)
    end = time.monotonic() + args.budget
    with pool.Home() as home:
        for part, workers, deadline in ((jobs, args.workers, end - SPEED_SHARE * args.budget), (alone, 1, end)):
            pool.Pool(os.path.abspath(__file__), sys.argv[1:], home, deadline, rec.take).run(part, workers)
    rec.write()
    print(summary([r for r in rec.rows if not r.get("speed")]))


if __name__ == "__main__":
    main()

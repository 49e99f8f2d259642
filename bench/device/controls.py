"""Runs PyTorch's own CUDA kernels through the client: every operator of the catalogue that PyTorch can express.

usage: controls.py [--budget SECONDS] [--workers N]

What everybody trusts should raise no alarm; one that it raises is explained in explained.py, or is to be looked into.
Writes controls.md and controls.json to $OUT after every group, so that a run that is cut off leaves what it has.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pool
import record
from explained import explain

CASES = 60
COMPILED_CASES = 20  # every new combination of sizes and strides compiles anew, for seconds
COMPILED = (
    "gelu", "silu", "softplus", "swiglu", "sum", "var", "logsumexp", "softmax", "layernorm", "rmsnorm", "l2norm",
    "rope",
)  # fmt: skip
CONVOLUTIONS = ("conv1d", "conv2d", "depthwise_conv2d")

# Sizes that the library kernels take: multiples of 16 for fp8 (cuBLAS), of 8 with more than 16 rows for int8.
SHAPES: dict[str, dict[str, list[int]]] = {
    "fp8_matmul": {"M": [16, 32, 48, 128], "N": [16, 32, 80, 128], "K": [16, 32, 48, 256]},
    "int8_matmul": {"M": [17, 32, 33, 128], "N": [8, 24, 64, 128], "K": [8, 16, 40, 256]},
}
# What PyTorch has no kernel for, and why.
LEFT_OUT = {
    "matmul_bias_act, act gelu, gelu_tanh and silu": "not fused: the product is rounded before the activation, which "
    "the contract does not allow; act none and relu are run",
    "scatter_add, float16 and bfloat16": "index_add adds in the narrow type; the contract asks for sums in float32",
    "fp8_matmul, sizes that are no multiples of 16": "refused by cuBLAS",
    "int8_matmul, sizes that are no multiples of 8, or up to 16 rows": "refused by torch._int_mm",
    "attention by the flash, efficient and cuDNN backends": "each refuses some data types, masks and sizes; refused "
    "cases are counted below",
}
HEAD = """# PyTorch's CUDA kernels through the client

Made by bench/device/controls.py on: {made_on}.

`Client.fuzz_op_client_side` with PyTorch's kernels on the device; awkward shapes, strided and transposed inputs, mixed
and adversarial values. TF32 is off, and so are sums of 16-bit products in 16 bits. Backends: eager; sdpa-*, those of
scaled_dot_product_attention; composed, the same ops written by hand in the type of the contract; no-cudnn, PyTorch's
own convolutions; compiled, Inductor's Triton kernels (contiguous inputs); tf32, with TF32 on: the alarm is wanted.

"""


def catalogue() -> list[dict[str, Any]]:
    """Names and data types of all operators, from the binary."""
    binary = os.environ.get("GPUEMU_BINARY") or str(pool.ROOT / "bin" / "gpuemu")
    text = subprocess.run([binary, "ops", "--format", "json"], check=True, capture_output=True, text=True).stdout
    ops: list[dict[str, Any]] = json.loads(text)["ops"]
    return ops


def jobs_of(args: argparse.Namespace) -> list[pool.Job]:
    """Eager kernels first, compiled ones, which are slow, last."""
    from torch_ops import ATTENTION, COMPOSED, OPS

    dtypes = {op["name"]: op["dtypes"] for op in catalogue()}
    missing = sorted(set(dtypes) - set(OPS))
    if missing:
        raise SystemExit(f"torch_ops.py has no function for {', '.join(missing)}: write one, or a reason into LEFT_OUT")
    jobs: list[pool.Job] = []

    def add(backend: str, op: str, dtype: str, values: str, **more: Any) -> None:
        name = f"{backend} {op} {dtype} {values}"
        jobs.append(dict(more, name=name, backend=backend, op=op, dtype=dtype, values=values))

    both = ("mixed", "adversarial")
    for op in dtypes:
        for dtype in dtypes[op]:
            if op == "scatter_add" and dtype in ("float16", "bfloat16"):
                continue
            for values in both:
                if op == "matmul_bias_act":
                    for act in ("none", "relu"):
                        add("eager", op, dtype, values, attrs={"act": act})
                    continue
                if op not in ATTENTION:
                    add("eager", op, dtype, values, shapes=SHAPES.get(op))
    for backend in ("math", "flash", "efficient", "cudnn"):
        for op in ATTENTION:
            for dtype in dtypes[op]:
                for values in both:
                    add(f"sdpa-{backend}", op, dtype, values)
    for op in COMPOSED:
        for dtype in dtypes[op]:
            for values in both:
                add("composed", op, dtype, values)
    for op in CONVOLUTIONS:
        for dtype in ("float32", "float16"):
            add("no-cudnn", op, dtype, "mixed")
    for op in ("matmul", "batched_matmul"):
        add("tf32", op, "float32", "mixed")
    for op in COMPILED:
        for dtype in ("float32", "float16"):
            add("compiled", op, dtype, "mixed", cases=COMPILED_CASES, layouts=["contiguous"])
    return [j for j in jobs if args.only in j["name"]]


def kernel_of(job: pool.Job) -> Callable[..., Any]:
    """The function of a job: f(attributes, *inputs)."""
    import torch
    from torch_ops import COMPOSED, OPS, forced

    backend, op = job["backend"], job["op"]
    if backend == "composed":
        return COMPOSED[op]
    if backend.startswith("sdpa-"):
        kinds = torch.nn.attention.SDPBackend
        names = {"math": kinds.MATH, "flash": kinds.FLASH_ATTENTION, "efficient": kinds.EFFICIENT_ATTENTION,
                 "cudnn": kinds.CUDNN_ATTENTION}  # fmt: skip
        return forced(names[backend[5:]])
    if backend == "compiled":
        torch._dynamo.config.recompile_limit = 256
        torch._dynamo.config.accumulated_recompile_limit = 100_000
        compiled: Callable[..., Any] = torch.compile(OPS[op], dynamic=True)
        return compiled
    if backend == "no-cudnn":

        def plain(*args: Any) -> Any:
            with torch.backends.cudnn.flags(enabled=False):
                return OPS[op](*args)

        return plain
    return OPS[op]


def run_job(job: pool.Job, args: argparse.Namespace) -> pool.Row:
    import torch
    from torch_ops import DTYPES, exact_arithmetic

    exact_arithmetic()
    torch.backends.cuda.matmul.allow_tf32 = job["backend"] == "tf32"
    function = kernel_of(job)

    def call(inputs: dict[str, Any], **attrs: Any) -> Any:
        out = function(dict(attrs, dtype=DTYPES[job["dtype"]]), *inputs.values())
        if out is None:
            raise NotImplementedError("PyTorch has no kernel for this")
        return out

    with torch.no_grad():
        return record.fuzz(
            call, job["op"], job["dtype"], job["values"], args.cases or job.get("cases") or CASES, args,
            outputs="returned", attrs=job.get("attrs"), shapes=job.get("shapes"), layouts=job.get("layouts"),
        )  # fmt: skip


def share(row: pool.Row) -> str:
    return f"{100 * row['undetermined'] / max(1, row['elements']):.1f} %"


def explanation(row: pool.Row) -> str:
    """The sentence that explains all alarms of a group that were kept, or ""."""
    sentences = [explain(row["backend"], row["op"], row["dtype"], a["kinds"]) for a in row["alarms"]]
    return sentences[0] if sentences and all(sentences) else ""


def verdict(row: pool.Row) -> str:
    if not row["failed"]:
        return ""
    return "explained" if explanation(row) else "NOT explained"


def backends(rows: list[pool.Row]) -> str:
    """One line for each backend."""
    lines = []
    for name in dict.fromkeys(r["backend"] for r in rows):
        own = [r for r in rows if r["backend"] == name]
        total = {k: sum(r[k] for r in own) for k in ("cases", "refused", "elements", "undetermined", "failed")}
        good = sum(r["failed"] for r in own if verdict(r) == "explained")
        lines.append([name, len({r["op"] for r in own}), total["cases"] - total["refused"], total["refused"],
                      total["elements"], share(total), f"{max(r['worst'] for r in own):.3g}", total["failed"],
                      total["failed"] - good])  # fmt: skip
    return record.table(["backend", ">ops", ">cases", ">refused", ">elements", ">undetermined", ">largest error/bound",
                         ">alarms", ">not explained"], lines)  # fmt: skip


def groups(rows: list[pool.Row]) -> str:
    lines = [[r["backend"], r["op"] + (f" {r['attrs']['act']}" if r.get("attrs") else ""), r["dtype"], r["values"],
              r["cases"], r["refused"], r["elements"], share(r), f"{r['worst']:.3g}", r["failed"], verdict(r)]
             for r in rows]  # fmt: skip
    return record.table(["backend", "op", "dtype", "values", ">cases", ">refused", ">elements", ">undetermined",
                         ">largest error/bound", ">alarms", ""], lines)  # fmt: skip


def alarms(rows: list[pool.Row]) -> str:
    """The first alarm of each group, with its explanation."""
    text = ""
    for row in rows:
        if row["failed"]:
            first = row["alarms"][0]
            why = explanation(row) or "NOT explained"
            text += f"\n{row['name']}, {row['failed']} of {row['cases']}: {why}\n\n"
            text += f"```\n{first['message']}\n{first['case']}\n```\n"
    return "\n## Alarms\n" + (text or "\nnone\n")


def refusals(rows: list[pool.Row], dead: list[pool.Row]) -> str:
    counts: dict[tuple[str, str, str], int] = {}
    for row in rows:
        for message, n in row["refusals"].items():
            key = (row["backend"], row["op"], message)
            counts[key] = counts.get(key, 0) + n
    text = "\n## Not run\n\n"
    text += "".join(f"- {what}: {why}\n" for what, why in LEFT_OUT.items())
    text += "".join(f"- {r['name']}: {r['error']}\n" for r in dead)
    lost = [r for r in rows if "device_lost" in r]
    text += "".join(f"- after {r['name']} the device did not answer: {r['device_lost']}\n" for r in lost)
    lines = [[*key, n] for key, n in counts.items()]
    return text + "\n" + record.table(["backend", "op", "the kernel says", ">refused cases"], lines)


def render(rows: list[pool.Row], made_on: str) -> str:
    done = [r for r in rows if "error" not in r]
    dead = [r for r in rows if "error" in r]
    done.sort(key=lambda r: str(r["name"]))
    return (HEAD.format(made_on=made_on) + summary(rows) + backends(done) + alarms(done) + refusals(done, dead)
            + "\n## All groups\n\n" + groups(done))  # fmt: skip


def summary(rows: list[pool.Row]) -> str:
    done = [r for r in rows if "error" not in r]
    failed = sum(r["failed"] for r in done)
    open_groups = [r for r in done if verdict(r) == "NOT explained"]
    return (
        f"- {sum(r['cases'] - r['refused'] for r in done)} cases of {len({r['op'] for r in done})} ops in {len(done)} "
        f"groups; {failed} alarms, of which {sum(r['failed'] for r in open_groups)} in {len(open_groups)} groups are "
        "not explained\n"
        f"- groups that were not run: {len(rows) - len(done)}; refused cases: {sum(r['refused'] for r in done)}\n\n"
    )


def main() -> None:
    args = record.arguments(__doc__ or "").parse_args()
    if args.worker:
        pool.work(lambda job: run_job(job, args), record.healthy(args.device))
        return
    jobs = jobs_of(args)
    if not jobs:
        raise SystemExit(f"no job has {args.only!r} in its name")
    rec = record.Record("controls", render, len(jobs), args.device)
    deadline = time.monotonic() + args.budget
    with pool.Home() as home:
        pool.Pool(os.path.abspath(__file__), sys.argv[1:], home, deadline, rec.take).run(jobs, args.workers)
    rec.write()
    print(summary(rec.rows))


if __name__ == "__main__":
    main()

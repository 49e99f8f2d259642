"""Runs the CPU kernels of PyTorch, JAX and onnxruntime through the client: every operator that they have.

usage: controls.py run torch|jax|onnxruntime [--cases N] [--only TEXT]
       controls.py render FILE

Kernels compute in the type of the contract: 16-bit inputs are widened to float32, and outputs rounded once. An alarm is
explained in reasons.py by what the framework does, or it is a bug of the bound. run writes .cache/frameworks/NAME.json;
render makes the page of all that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "device"))
import pool  # noqa: E402
import record  # noqa: E402
from explained import explain  # noqa: E402
from reasons import FLUSHED, KNOWN  # noqa: E402

RECORDS = ROOT / ".cache" / "frameworks"
FRAMEWORKS = {"torch": "PyTorch", "jax": "JAX", "onnxruntime": "onnxruntime"}
FLUSHED_TEXT = re.compile(
    r"(all \d+ errors are|only error.* is) zero where a subnormal value is wanted"
    r"|the output matches subnormal values of float64 flushed to zero"
)
DTYPES = ("float32", "float16", "bfloat16", "float64")
VALUES = ("mixed", "adversarial")
CASES = {"torch": 100, "jax": 20, "onnxruntime": 100}  # JAX compiles every new combination of sizes
HEAD = """# CPU frameworks through the client

Made by `make frameworks` with {versions}.

`Client.fuzz_op_client_side` with the CPU kernels of three frameworks over default shapes and layouts, {values}
values. 16-bit inputs are widened to float32 and outputs rounded once, as the contracts have it. Refused: the framework
has no kernel for the data type or the attributes. An alarm is explained where the framework does what the contract does
not allow (bench/frameworks/reasons.py); of a group, an operator in one data type over one distribution, the first 20
alarms are kept and must all be explained.

"""

Kernel = Callable[..., Any]


def catalogue() -> dict[str, list[str]]:
    """The data types of all operators, from the binary."""
    binary = os.environ.get("GPUEMU_BINARY") or str(ROOT / "bin" / "gpuemu")
    text = subprocess.run([binary, "ops", "--format", "json"], check=True, capture_output=True, text=True).stdout
    return {op["name"]: op["dtypes"] for op in json.loads(text)["ops"]}


def stored(out: Any, cast: Callable[[Any], Any]) -> Any:
    """Outputs in the type of the case; scales of quantization keep theirs."""
    if isinstance(out, dict):
        return {name: t if name == "scale" else cast(t) for name, t in out.items()}
    return cast(out)


def torch_kernels(dtype: str) -> tuple[str, str, dict[str, Kernel]]:
    import torch
    import torch_cpu
    from torch_ops import DTYPES as TYPES

    torch.set_num_threads(1)
    narrow = TYPES[dtype]
    wide = torch.float64 if dtype == "float64" else torch.float32

    def kernel(f: Kernel) -> Kernel:
        def call(inputs: dict[str, Any], **attrs: Any) -> Any:
            args = [x.to(wide) if x.dtype in (torch.float16, torch.bfloat16) else x for x in inputs.values()]
            with torch.no_grad():
                out = f(dict(attrs, dtype=wide), *args)
            if out is None:
                raise NotImplementedError("PyTorch has no kernel for this")
            return stored(out, lambda t: t.to(narrow) if t.dtype == wide else t)

        return call

    return "torch", torch.__version__, {name: kernel(f) for name, f in torch_cpu.available().items()}


def jax_kernels(dtype: str) -> tuple[str, str, dict[str, Kernel]]:
    import jax
    import jax.numpy as jnp
    import jax_ops

    narrow = jnp.dtype(dtype)
    wide = jnp.dtype("float64" if dtype == "float64" else "float32")

    def kernel(f: Kernel) -> Kernel:
        def call(inputs: dict[str, Any], **attrs: Any) -> Any:
            args = [x.astype(wide) if x.dtype in (jnp.float16, jnp.bfloat16) else x for x in inputs.values()]
            out = jax_ops.compiled(f, wide, tuple(attrs.items()))(*args)
            return stored(out, lambda t: t.astype(narrow) if t.dtype == wide else t)

        return call

    return "jax", jax.__version__, {name: kernel(f) for name, f in jax_ops.OPS.items()}


def onnx_kernels(dtype: str) -> tuple[str, str, dict[str, Kernel]]:
    import ml_dtypes
    import numpy as np
    import onnx_ops
    import onnxruntime

    narrow = np.dtype(getattr(ml_dtypes, dtype, dtype))
    wide = np.dtype("float64" if dtype == "float64" else "float32")
    sessions = onnx_ops.Sessions()

    def kernel(name: str) -> Kernel:
        def call(inputs: dict[str, Any], **attrs: Any) -> Any:
            out = sessions.run(name, attrs, [onnx_ops.widened(x) for x in inputs.values()])
            return stored(out, lambda t: t.astype(narrow) if t.dtype == wide else t)

        return call

    return "numpy", onnxruntime.__version__, {name: kernel(name) for name in onnx_ops.OPS}


KERNELS = {"torch": torch_kernels, "jax": jax_kernels, "onnxruntime": onnx_kernels}


def run(args: argparse.Namespace) -> None:
    """Runs all groups of one framework."""
    rows: list[dict[str, Any]] = []
    RECORDS.mkdir(parents=True, exist_ok=True)
    with pool.Home() as home:
        os.environ.update(home.env)
        sys.path.insert(0, str(ROOT / "python" / "src"))
        types = catalogue()
        for dtype in DTYPES:
            arrays, version, kernels = KERNELS[args.framework](dtype)
            for op, kernel in kernels.items():
                if dtype not in types[op] or args.only not in f"{op} {dtype}":
                    continue
                for values in VALUES:
                    rows.append(group(args, (op, dtype, values), kernel, arrays))
            missing = sorted(set(types) - set(kernels))
            if not args.only:  # after each data type, so that a run that is cut off leaves what it has
                text = json.dumps({"version": version, "missing": missing, "rows": rows}, indent=1)
                record.write(RECORDS / f"{args.framework}.json", text)
    opened = sum(r["failed"] for r in rows if not explanation(r))
    pool.say(f"{args.framework}: {len(rows)} groups, {sum(r['failed'] for r in rows)} alarms, {opened} not explained")


def group(args: argparse.Namespace, what: tuple[str, str, str], kernel: Kernel, arrays: str) -> dict[str, Any]:
    """Runs one operator in one data type over one distribution."""
    op, dtype, values = what
    start = time.monotonic()
    cases = args.cases or CASES[args.framework] // len(VALUES)
    row = record.fuzz(kernel, op, dtype, values, cases, args, framework=arrays, outputs="returned")
    row.update(framework=args.framework, op=op, dtype=dtype, values=values)
    if row["failed"] and not explanation(row):
        for alarm in row["alarms"][:3]:
            pool.say(f"  {alarm['message']}\n  {alarm['case']}")
    pool.say(f"{op} {dtype} {values}: {row['cases']} cases, {row['failed']} alarms, {row['undecided']} undecided, "
             f"{row['refused']} refused, {time.monotonic() - start:.1f} s {row['refusals'] or ''}")  # fmt: skip
    return row


def explanation(row: dict[str, Any]) -> str:
    """The sentence that explains all alarms of a group that were kept, or ""."""
    found = [reason(row, alarm) for alarm in row["alarms"]]
    return found[0] if found and all(found) else ""


def reason(row: dict[str, Any], alarm: dict[str, Any]) -> str:
    """The sentence that explains an alarm by the kinds of its wrong elements, or by what the diagnosis says of all."""
    known = partial(explain, row["framework"], row["op"], row["dtype"], known=KNOWN, case=alarm["case"])
    sentence: str = known(kinds=alarm["kinds"] or [alarm["reason"]])
    if not sentence and FLUSHED_TEXT.search(alarm["message"]):
        sentence = known(kinds=[FLUSHED])
    return sentence


def lines(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """One line for each operator."""
    out = []
    for op in dict.fromkeys(r["op"] for r in rows):
        own = [r for r in rows if r["op"] == op]
        total = {k: sum(r[k] for r in own) for k in ("cases", "refused", "undecided", "failed")}
        good = sum(r["failed"] for r in own if explanation(r))
        types = dict.fromkeys(r["dtype"] for r in own if r["cases"] > r["refused"])
        out.append([op, ", ".join(types), total["cases"] - total["refused"], total["refused"], total["undecided"],
                    total["failed"], total["failed"] - good])  # fmt: skip
    return out


def alarms(rows: list[dict[str, Any]]) -> str:
    """Each explanation with its operators and its first alarm."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["failed"]:
            groups.setdefault((row["framework"], explanation(row) or "NOT explained"), []).append(row)
    text = ""
    for (framework, why), own in groups.items():
        ops, first = ", ".join(dict.fromkeys(r["op"] for r in own)), own[0]["alarms"][0]
        text += f"\n{FRAMEWORKS[framework]}, {sum(r['failed'] for r in own)} alarms in {ops}: {why}\n\n"
        text += f"```\n{first['message']}\n{first['case']}\n```\n"
    return text or "\nnone\n"


def render(args: argparse.Namespace) -> None:
    """Writes the page."""
    found = {name: json.loads(path.read_text()) for name in FRAMEWORKS
             if (path := RECORDS / f"{name}.json").exists()}  # fmt: skip
    if set(found) != set(FRAMEWORKS):
        raise SystemExit(f"records of {sorted(set(FRAMEWORKS) - set(found))} are missing: controls.py run")
    versions = ", ".join(f"{FRAMEWORKS[name]} {r['version']}" for name, r in found.items())
    text = HEAD.format(versions=versions, values=" and ".join(VALUES))
    every = [row for r in found.values() for row in r["rows"]]
    summary = []
    for name, r in found.items():
        own = lines(r["rows"])
        summary.append([FRAMEWORKS[name], len(own), *(sum(line[i] for line in own) for i in range(2, 7))])
    columns = [">cases", ">refused", ">undecided", ">alarms", ">not explained"]
    text += record.table(["framework", ">ops", *columns], summary) + "\n## Alarms\n" + alarms(every)
    for name, r in found.items():
        text += f"\n## {FRAMEWORKS[name]}\n\n" + record.table(["op", "dtypes", *columns], lines(r["rows"]))
        if r["missing"]:
            text += f"\nNot run, because the framework has no kernel: {', '.join(r['missing'])}.\n"
    record.write(Path(args.file), text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("run")
    one.add_argument("framework", choices=list(FRAMEWORKS))
    one.add_argument("--cases", type=int, default=0, help="cases of each operator, data type and distribution")
    one.add_argument("--only", default="", help="only groups whose operator and data type contain this")
    one.add_argument("--seed", type=int, default=7, help="master seed of the cases")
    one.set_defaults(do=run, device="cpu")
    page = verbs.add_parser("render")
    page.add_argument("file", help="the page to write")
    page.set_defaults(do=render)
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    main()

"""Client-side fuzzing of a softmax in numpy: this client, the published one, and the loop one writes by hand.

usage: throughput.py [--published PYTHON] [-o FILE]

All sides have the same op, the same kernel, float32 and shapes of the same list, at most 16448 elements; they take
turns in one run, and the best sample of each counts. Needs numpy, bin/gpuemu, and an interpreter with gpuemu 0.1.0.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python" / "src"), str(ROOT / "bench" / "device")]

import pool  # noqa: E402

import gpuemu  # noqa: E402 (the path above has it)

# Two lists of shapes: one that fills a few tiles, and many that are tiny, where the price of a case itself shows.
LISTS = {
    "[4,16,257]": {"B": [4], "S": [16], "H": [257]},
    "tiny": {"B": [1, 2, 4], "S": [1, 7, 16], "H": [1, 3, 64, 255, 256, 257]},
}
OURS, THEIRS = 4000, 300  # cases of a sample: about a second each
TIMES = "\u00d7"
OWN = "ours, everything stored"
Side = tuple[str, str]  # list of shapes, name
QUOTED = 2.3  # cases/s of the published gpuemu with its own oracle


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    out: np.ndarray[Any, Any] = e / e.sum(axis=-1, keepdims=True)
    return out


def ours(client: gpuemu.Client, dims: dict[str, list[int]], **options: Any) -> float:
    """Seconds of a case through this client."""
    start = time.perf_counter()
    with np.errstate(all="ignore"):  # mixed values have infinities
        results = client.fuzz_op_client_side(
            "softmax", run_op=lambda i: softmax(i["input"]), iterations=OURS, seed=7, dtypes=["float32"], shapes=dims,
            progress=False, **options,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    if results.failed or results.not_run or results.total != OURS:
        raise SystemExit(f"a right kernel did not pass: {results}")
    return seconds / OURS


def published(python: str, socket: str, dims: dict[str, list[int]]) -> float:
    """Seconds of a case through the published client, to our daemon."""
    side = str(Path(__file__).with_name("published_side.py"))
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    schema = {
        "name": "softmax", "dims": [{"name": n, "candidates": c} for n, c in dims.items()],
        "inputs": [{"name": "input", "dims": list(dims)}], "output": {"name": "output", "dims": list(dims)},
    }  # fmt: skip
    command = [python, side, socket, str(THEIRS), json.dumps(schema)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the published client failed: {done.stderr[-2000:]}")
    said = json.loads(done.stdout)
    if said["passed"] != THEIRS:
        raise SystemExit(f"of {THEIRS} cases of the published client {said['passed']} passed: {said['why']}")
    return float(said["seconds"]) / THEIRS


def loop(shapes: list[tuple[int, ...]]) -> float:
    """Seconds of a case of the loop by hand: draw, run, reference in float64, allclose."""
    rng = np.random.default_rng(1)
    start = time.perf_counter()
    for shape in shapes:
        x = rng.standard_normal(shape).astype(np.float32)
        if not np.allclose(softmax(x), softmax(x.astype(np.float64)), rtol=1e-5, atol=1e-5):
            raise SystemExit("the kernel is wrong")
    return (time.perf_counter() - start) / len(shapes)


def shapes_of(client: gpuemu.Client, dims: dict[str, list[int]]) -> list[tuple[int, ...]]:
    """The shapes of the cases that `ours` has."""
    batch = client.get_test_batch("softmax", OURS, 7, dtypes=["float32"], shapes=dims)
    return [tuple(case["inputs"]["input"].shape) for case in batch]


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def render(best: dict[Side, float], noise: dict[Side, float], args: argparse.Namespace, load: str) -> str:
    tiny = ", ".join(f"{n} of {'/'.join(map(str, c))}" for n, c in LISTS["tiny"].items())
    lines = [
        "# The client\n",
        "Written by `bench/python/throughput.py -o docs/evidence/python.md`: client-side fuzzing of softmax in numpy,",
        "float32. The sides take turns in one run, and the best sample of each counts; noise is how much slower than",
        f"the best the median was. tiny: {tiny}.\n",
        f"- processor: {cpu()}, {os.cpu_count()} in use",
        f"- ours: gpuemu {gpuemu.__version__}, Python {platform.python_version()}, numpy {np.__version__}",
        f"- method: best of {args.samples} samples of {OURS} cases ({THEIRS} of the published client)",
        f"- load before: {load}",
        f"- date: {date.today().isoformat()}\n",
        "| shapes | side | a case | cases/s | our speed over it | noise |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for (shapes, name), seconds in best.items():
        own = best[shapes, OWN]
        cells = [shapes, name, f"{seconds * 1e6:.0f} µs", f"{1 / seconds:.0f}", f"{seconds / own:.2f}{TIMES}",
                 f"{100 * noise[shapes, name]:.0f} %"]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    for shapes in LISTS:
        quoted = [shapes, "published gpuemu 0.1.0, whole, quoted", f"{1e3 / QUOTED:.0f} ms", str(QUOTED),
                  f"{1 / QUOTED / best[shapes, OWN]:.0f}{TIMES}", ""]  # fmt: skip
        lines.append("| " + " | ".join(quoted) + " |")
    lines += [
        "",
        "- ours: `Client.fuzz_op_client_side`; cases, fp64 values, error bounds, verdicts and the store are the",
        "  engine's, in a process of its own. The first row stores every verdict, the second the failures. The third",
        "  has what is on by default: mixed values, strided and transposed inputs.",
        "- loop by hand: draws normal values, runs the kernel, takes it in float64 for the reference, `np.allclose`;",
        "  no case can be made again, nothing is kept, no memory is guarded, and the tolerance is a guess.",
        "- published client: gpuemu 0.1.0 from the package index, over NNG, talking to *our* daemon, because its own",
        "  cannot be run here. What it shows is the cost of that client and protocol: a lower bound for the pair.",
        "- quoted: the published gpuemu with its own oracle, 260 cases of 26 ops on a machine with an H200, a Python",
        "  process a case. It is not of this run, machine or op.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", default=str(ROOT / ".cache" / "published-venv" / "bin" / "python"),
                        help="interpreter that has gpuemu 0.1.0")  # fmt: skip
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("-o", "--output", metavar="FILE", help="file to write the record to")
    args = parser.parse_args()
    if not os.access(args.published, os.X_OK):
        raise SystemExit(f"{args.published} is not there: make setup makes it, or give --published")
    load = f"{os.getloadavg()[0]:.2f}"
    with pool.Home() as home:
        os.environ.update(GPUEMU_HOME=home.env["GPUEMU_HOME"], GPUEMU_SOCKET=home.env["GPUEMU_SOCKET"])
        client = gpuemu.Client(timeout_ms=60_000)
        sides: dict[Side, Callable[[], float]] = {}
        plain: dict[str, Any] = {"value_distribution": "normal", "layouts": ["contiguous"]}
        for shapes, dims in LISTS.items():
            sides[shapes, OWN] = partial(ours, client, dims, **plain)
            sides[shapes, "ours, failures stored"] = partial(ours, client, dims, store="failures", **plain)
            sides[shapes, "ours, as it comes"] = partial(ours, client, dims)
            sides[shapes, "loop by hand in numpy"] = partial(loop, shapes_of(client, dims))
            theirs = partial(published, args.published, home.env["GPUEMU_SOCKET"], dims)
            sides[shapes, "published client 0.1.0, our daemon"] = theirs
        taken: dict[Side, list[float]] = {side: [] for side in sides}
        for _ in range(args.samples):
            for side, measure in sides.items():
                taken[side].append(measure())
                print(f"{' '.join(side)}: {taken[side][-1] * 1e6:.0f} µs", file=sys.stderr, flush=True)
        client.close()
    best = {name: min(t) for name, t in taken.items()}
    noise = {name: statistics.median(t) / min(t) - 1 for name, t in taken.items()}
    text = render(best, noise, args, load)
    print(text)
    target: str | None = args.output
    if target:
        Path(target).write_text(text)


if __name__ == "__main__":
    main()

"""The same Triton kernels through Triton's interpreter and through the emulator, on the CPU.

usage: triton_interpreter.py [-o FILE]

Needs Triton (make test-triton) and bin/gpuemu. Both sides run the launch alone: compiled kernels are cached, arrays are
made before. The sides take turns in one run; the best sample of each counts. CPU time is that of the process and, of
ours, of the daemon: other work on the machine changes it less than the clock. With -o the section of that name in FILE
is replaced, or added at its end.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SECTION = "## Triton's interpreter"
SAMPLES = 3
REPEATS = 5  # launches of ours in a sample: the clock of another process ticks every 10 ms
SIDES = ["interpreter", "emulator, no checks", "emulator, all checks"]
Array = np.ndarray[Any, Any]


class Storage:
    """What the interpreter asks a storage of torch for."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def cpu(self) -> Storage:
        return self

    def copy_(self, other: Storage) -> None:
        """Nothing is copied: both are the same memory."""


class Tensor:
    """What the interpreter asks a tensor of torch for: no torch is needed, and nothing is copied."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.dtype = array.dtype

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def untyped_storage(self) -> Storage:
        return Storage(self.array)

    def new_empty(self, *_: Any, **__: Any) -> Tensor:
        return Tensor(self.array)

    def set_(self, *_: Any) -> None:
        """The memory is the same."""

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.itemsize for s in self.array.strides)


Launch = tuple[Any, Any]


def launches(kernels: Any, wrap: Any) -> dict[str, Launch]:
    """Name of a kernel with its shape: what launches it, and a check of what it wrote."""
    table: dict[str, Launch] = {}
    for rows in (256, 1024):
        table[f"softmax float32[{rows},1000]"], table[f"layernorm float32[{rows},1000]"] = by_rows(kernels, wrap, rows)
    draw = np.random.default_rng(1).standard_normal
    a, b = draw((256, 256)).astype(np.float16), draw((256, 256)).astype(np.float16)
    c = np.zeros((256, 256), np.float32)
    table["matmul float16[256,256]·[256,256], tiles of 32"] = (
        lambda: kernels.matmul[(8, 8)](wrap(a), wrap(b), wrap(c), 256, 256, 256, BM=32, BN=32, BK=32),
        lambda: np.allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-1),
    )
    return table


def by_rows(kernels: Any, wrap: Any, rows: int) -> tuple[Launch, Launch]:
    """Softmax and layernorm of rows of 1000 elements."""
    draw = np.random.default_rng(1).standard_normal
    x = draw((rows, 1000)).astype(np.float32)
    y = np.zeros_like(x)
    scale, shift = draw(1000).astype(np.float32), draw(1000).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    centred = x - x.mean(1, keepdims=True)
    norm = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * scale + shift
    return (
        lambda: kernels.softmax_rows[(rows,)](wrap(x), wrap(y), 1000, 1000, BLOCK=1024),
        lambda: np.allclose(y, e / e.sum(1, keepdims=True), atol=1e-6),
    ), (
        lambda: kernels.layernorm[(rows,)](wrap(x), wrap(scale), wrap(shift), wrap(y), 1000, 1e-5, BLOCK=1024),
        lambda: np.allclose(y, norm, atol=1e-4),
    )


def cpu_of(pid: int) -> float:
    """CPU seconds of a process, in user and system mode (proc(5), stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def side(name: str) -> None:
    """Runs as a process of its own: for each line of input, seconds and CPU seconds of a launch."""
    sys.path[:0] = [str(ROOT / "python" / "src"), str(ROOT / "python" / "tests")]
    import contextlib

    import kernels_triton

    import gpuemu

    if name == "interpreter":
        context: Any = contextlib.nullcontext()
        wrap: Any = Tensor
        cpu: Any = time.process_time
    else:
        daemon = gpuemu.Client().ping()["pid"]
        cpu = lambda: time.process_time() + cpu_of(daemon)  # noqa: E731
        context, wrap = gpuemu.emulated_triton(checks="none" if "no" in name else "all"), lambda array: array
    with context:
        table = launches(kernels_triton, wrap)
        for line in sys.stdin:
            run, right = table[line.strip()]
            repeats = 1 if name == "interpreter" else REPEATS
            busy, start = cpu(), time.perf_counter()
            for _ in range(repeats):
                run()
            wall = time.perf_counter() - start
            if not right():
                raise SystemExit(f"{line.strip()}: {name} is wrong")
            print(wall / repeats, (cpu() - busy) / repeats, flush=True)


Samples = dict[tuple[str, str], list[tuple[float, float]]]


def measure() -> Samples:
    with tempfile.TemporaryDirectory() as home:  # a daemon of its own
        binary = str(ROOT / "bin" / "gpuemu")
        env = {**os.environ, "GPUEMU_BINARY": binary, "GPUEMU_HOME": home}
        try:
            return take_turns(env)
        finally:
            subprocess.run([binary, "daemon", "stop"], env=env, check=False, capture_output=True)


def take_turns(environment: dict[str, str]) -> Samples:
    workers = {}
    for name in SIDES:
        env = {**environment, "TRITON_INTERPRET": "1" if name == "interpreter" else "0"}
        workers[name] = subprocess.Popen([sys.executable, __file__, "--side", name], env=env, text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    times: Samples = {}
    for _ in range(SAMPLES + 1):  # the first compiles
        for kernel in launches(None, None):
            for name, worker in workers.items():
                assert worker.stdin is not None and worker.stdout is not None
                worker.stdin.write(kernel + "\n")
                worker.stdin.flush()
                wall, cpu = map(float, worker.stdout.readline().split())
                times.setdefault((kernel, name), []).append((wall, cpu))
    for worker in workers.values():
        worker.communicate()
    return {key: list_[1:] for key, list_ in times.items()}


def table(times: Samples) -> str:
    import triton

    lines = [
        SECTION, "",
        "Written by `bench/python/triton_interpreter.py -o docs/evidence/emulator.md`: launches of the same kernels",
        "through `TRITON_INTERPRET=1` and through `gpuemu.emulated_triton` (sm_80, the whole way from the wrapper and",
        f"back). The sides take turns; the best of {SAMPLES} samples counts. CPU time is that of all processes of a",
        "side; results are compared with numpy.", "",
        f"- processor: {platform.machine()}, {len(os.sched_getaffinity(0))} in use; load {os.getloadavg()[0]:.1f}",
        f"- Triton {triton.__version__}, Python {platform.python_version()}, numpy {np.__version__}",
        f"- date: {date.today()}", "",
        "| kernel | side | wall clock | of the interpreter's | CPU of a launch | of the interpreter's |",
        "|---|---|---:|---:|---:|---:|",
    ]  # fmt: skip
    for (kernel, name), list_ in times.items():
        wall, cpu = (min(sample[i] for sample in list_) for i in (0, 1))
        walls, cpus = (min(sample[i] for sample in times[kernel, "interpreter"]) for i in (0, 1))
        lines.append(f"| {kernel} | {name} | {wall * 1e3:.1f} ms | 1/{walls / wall:.1f} | {cpu * 1e3:.1f} ms | "
                     f"1/{cpus / cpu:.1f} |")  # fmt: skip
    lines += [
        "", "The goal is 1/50 of the interpreter's wall clock on two cores, with checks off. CPU time is beside it:",
        "the interpreter uses one core. It multiplies a tile by one call of numpy; the emulator follows the tensor",
        "core product by product, in its order and with its rounding.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("-o", metavar="FILE", type=Path, help="page whose section is written")
    options = parser.parse_args()
    if options.side:
        side(options.side)
        return
    text = table(measure())
    print(text)
    if options.o is not None:
        page = options.o.read_text(encoding="utf-8") if options.o.exists() else "# The emulator\n"
        before, found, rest = page.partition(SECTION + "\n")
        after = rest.partition("\n## ")[2] if found else ""
        tail = "\n## " + after if after else ""
        options.o.write_text(before.rstrip("\n") + "\n\n" + text + tail, encoding="utf-8")


if __name__ == "__main__":
    main()

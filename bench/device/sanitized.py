"""Launches of the corpus under compute-sanitizer, which judges equivalent mutants without the product's help.

corpus.py --sanitize writes launches to folders, one a mutant. This script, started as `sanitized.py FOLDER` below
compute-sanitizer, executes them with nothing but the driver: each tensor has an allocation of its own, of its exact
size, and PyTorch's kernels, which would be watched as well, are not there. With --dry the emulator stands in for both.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pool
from driver import Driver
from launches import Launch, Room, Tensor

TOOLS = {  # with what the emulator looks for instead, and options, which a version may not have
    # Without memory between them an access behind one allocation may be one into the next, and allowed.
    "memcheck": ("bounds", ("--padding=4096", "--report-api-errors=no")),
    "racecheck": ("race", ()),
    "initcheck": ("uninit", ()),
    "synccheck": ("barrier", ()),
}
LAUNCHES = 4  # of a mutant
LOOKED_AT = 40  # cases among which those are looked for
LARGEST = 256 << 10  # bytes of inputs: a kernel is slowed down a hundredfold
AT_ONCE = 8  # processes
LIMIT = 60.0  # seconds of one process
FOUND = 9  # exit status where something was found
COMPLAINT = re.compile(r"^========= (?!COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY)(\S.*)$", re.MULTILINE)
SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) error")


def save(folder: Path, number: int, subject: Any, ptx: str, case: Any, launch: Launch, values: list[Any]) -> None:
    """Writes one launch: a description and the bytes of its inputs.

    values: the arguments, with bytes for numbers, and for tensors what they hold and how far into it they begin; None
    for what a kernel is to write.
    """
    (folder / f"{number}.ptx").write_text(ptx)
    args: list[dict[str, Any]] = []
    with (folder / f"{number}.bin").open("wb") as data:
        for arg, value in zip(launch.args, values):
            if isinstance(value, bytes):
                args.append({"value": value.hex()})
                continue
            content, offset, size = value
            args.append({"size": size, "offset": offset, "given": content is not None, "output": isinstance(arg, Tensor)
                         and content is None})  # fmt: skip
            if content is not None:
                data.write(content)
    text = {"entry": subject.entry, "grid": launch.grid, "block": launch.block, "shared": launch.shared, "args": args,
            "case": case.text}  # fmt: skip
    (folder / f"{number}.json").write_text(json.dumps(text))


def contents(case: Any, arg: Any, dense: list[str]) -> tuple[bytes | None, int, int]:
    """What an argument that is memory holds, where it begins in it, and its size, all in bytes."""
    if isinstance(arg, Room):
        return (bytes(arg.size) if arg.zeros else None), 0, arg.size
    view = next((v for v in case.inputs if v.name == arg.name), None)
    if view is None:  # an output
        return None, 0, int(np.prod(arg.shape)) * arg.itemsize
    if arg.name not in dense:
        return view.storage.tobytes(), view.offset * arg.itemsize, view.storage.nbytes
    strides = [s * arg.itemsize for s in view.strides]
    copy = np.ndarray(view.shape, f"u{arg.itemsize}", view.storage, view.offset * arg.itemsize, strides).tobytes()
    return copy, 0, len(copy)


def launches_in(folder: Path) -> list[Path]:
    """The launches of a folder, in order."""
    return sorted(folder.glob("*.json"), key=lambda p: int(p.stem))


def execute(folder: Path) -> None:
    """Executes the launches of a folder on the GPU."""
    driver = Driver()
    for path in launches_in(folder):
        launch = json.loads(path.read_text())
        print("launch", path.stem, flush=True)
        module = driver.load(path.with_suffix(".ptx").read_bytes())
        data, args, places = path.with_suffix(".bin").read_bytes(), [], []
        for arg in launch["args"]:
            if "value" in arg:
                args.append(bytes.fromhex(arg["value"]))
                continue
            place = driver.allocate(arg["size"])
            places.append(place)
            if arg["given"]:
                driver.write(place, data[: arg["size"]])
                data = data[arg["size"] :]
            args.append((place + arg["offset"]).to_bytes(8, "little"))
        function = driver.function(module, launch["entry"], launch["shared"])
        driver.launch(function, launch["grid"], launch["block"], launch["shared"], args)
        driver.wait()
        for place in places:
            driver.free(place)
        driver.unload(module)


def emulate(folder: Path, tool: str) -> int:
    """Executes the launches of a folder in the emulator, and prints what it finds as compute-sanitizer would."""
    from gpuemu import Client

    found = 0
    with Client() as client:
        for path in launches_in(folder):
            launch = json.loads(path.read_text())
            print("launch", path.stem, flush=True)
            data = path.with_suffix(".bin").read_bytes()
            args: dict[str, Any] = {}
            for i, arg in enumerate(launch["args"]):
                if "value" in arg:
                    value = bytes.fromhex(arg["value"])
                    args[f"a{i}"] = np.frombuffer(value, f"<u{len(value)}")[0]
                    continue
                whole = np.zeros(arg["size"], np.uint8)
                if arg["given"]:
                    whole[:] = np.frombuffer(data[: arg["size"]], np.uint8)
                    data = data[arg["size"] :]
                args[f"a{i}"] = whole[arg["offset"] :]
            outputs = [f"a{i}" for i, arg in enumerate(launch["args"]) if arg.get("output")]
            result = client.emulate(
                path.with_suffix(".ptx"), launch["entry"], grid=launch["grid"], block=launch["block"], args=args,
                outputs=outputs, shared=launch["shared"], checks=TOOLS[tool][0], bounds="storage",
            )  # fmt: skip
            if result.error is not None:
                raise result.error
            for finding in result.findings:
                print(f"========= {finding}")
            found += len(result.findings)
    print(f"========= ERROR SUMMARY: {found} errors", flush=True)
    return FOUND if found else 0


# ---- the side of corpus.py -------------------------------------------------------------------------------------------


def jobs_of(prepared: list[pool.Row]) -> list[pool.Job]:
    """A job for every tool and mutant, tool by tool: what accesses outside of memory do is worth most."""
    jobs = []
    for tool in TOOLS:
        for row in prepared:
            jobs.append(dict(row, name=f"sanitizer {row['id']} {tool}", setting=tool))
    return jobs


def run_all(jobs: list[pool.Job], take: Callable[[pool.Row], None], home: pool.Home, deadline: float,
            dry: bool) -> None:  # fmt: skip
    """Runs every job in a process of its own, some at once."""
    lock = threading.Lock()
    usage = "" if dry else usage_of("compute-sanitizer")

    def one(job: pool.Job) -> None:
        tool = job["setting"]
        command = [sys.executable, os.path.abspath(__file__), job["folder"]]
        row = watched(job, [*command, "--dry", tool] if dry else [*sanitizer(tool, usage), *command], home, deadline)
        with lock:
            take(row)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(one, jobs))


def usage_of(program: str) -> str:
    """What a program says of its options."""
    try:
        done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise SystemExit(f"{program} does not run: {exc}; CUDA's toolkit has it, CUDA_HOME says where") from None
    return done.stdout + done.stderr


def sanitizer(tool: str, usage: str) -> list[str]:
    """The command line of a tool, up to the program that it watches."""
    known = [option for option in TOOLS[tool][1] if option.partition("=")[0] in usage]
    words = [word for option in known for word in option.split("=")]
    return ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND), *words]


def watched(job: pool.Job, command: list[str], home: pool.Home, deadline: float) -> pool.Row:
    """The row of one job."""
    if "error" in job:  # its launches could not be prepared
        return job
    if job["cases"] == 0:
        return dict(job, error=f"no case has inputs of at most {LARGEST} bytes")
    left = deadline - time.monotonic()
    if left <= 0:
        return dict(job, error="not started: the time was up")
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=home.env, cwd=home.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=min(LIMIT, left + 10),
                              check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as exc:
        return dict(job, error=f"{type(exc).__name__}: {exc}")
    return dict(job, **verdict(done.stdout, done.returncode), seconds=round(time.monotonic() - start, 3))


def verdict(text: str, status: int) -> pool.Row:
    """What the output of a tool says: whether it complained, of which launch first, and how."""
    summary = SUMMARY.search(text)
    if summary is None or status not in (0, FOUND):
        lines = text.strip().splitlines()
        return {"error": f"status {status} without a summary: {lines[-1] if lines else 'it printed nothing'}"}
    if int(summary[1] or summary[2]) == 0:
        return {}
    complaint = COMPLAINT.search(text)
    before = text[: complaint.start()] if complaint else ""
    what = complaint[1] if complaint else summary[0]
    return {"failed": 1, "first": max(1, len(re.findall(r"^launch \d+$", before, re.MULTILINE))),
            "reason": reason(what), "message": what}  # fmt: skip


def reason(complaint: str) -> str:
    """The kind of a complaint: its text without sizes and places."""
    return re.sub(r" of size \d+.*|:.*| at .*| detected.*", "", complaint.removeprefix("Error: "))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dry", choices=list(TOOLS), help="the tool that the emulator stands in for")
    args = parser.parse_args()
    if args.dry:
        sys.exit(emulate(args.folder, args.dry))
    execute(args.folder)


if __name__ == "__main__":
    main()

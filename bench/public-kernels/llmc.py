"""Kernels of llm.c's dev/cuda through its own programs. llmc.py OUT SOURCES TOOLS [FILE...]

SOURCES is a checkout, TOOLS a folder for what is built; NVCC and CUDA_INCLUDES name the compiler and further headers.
Sizes are made smaller in a copy of each program. Each kernel number is a process: the program launches it with all
block sizes, compares with its own reference on the CPU, and ends before it measures time.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import subprocess
import sys

from hostcode import Device, tools_of
from record import Recorder

LIMIT = 240.0  # seconds of one process
# Sizes of the copies. Heads are 64 wide as in GPT-2.
SIZES = {
    r"\bB = \d+;": "B = 2;", r"\bT = 1024\b": "T = 64", r"\bC = 768\b": "C = 128", r"\bNH = 12\b": "NH = 2",
    r"\bOC = 768 \* [34]\b": "OC = 256", r"num_parameters = 1048576": "num_parameters = 5000",
}  # fmt: skip
# Programs whose kernels want more of one size: rows of a multiple of the block size, a vocabulary of more than a block.
ROWS = {r"\bB = \d+;": "B = 1;", r"\bT = 1024\b": "T = 256", r"\bC = 768\b": "C = 64", r"\bNH = 12\b": "NH = 1"}
WORDS = {r"\bT = 1024\b": "T = 4", r"\bV = 50257\b": "V = 5003", r"\bVp = 50304\b": "Vp = 5056"}
SPECIAL = {
    "attention_forward": ROWS, "attention_backward": ROWS, "trimat_forward": ROWS, "softmax_forward": WORDS,
    "classifier_fused": WORDS, "crossentropy_forward": WORDS, "crossentropy_softmax_backward": WORDS,
    "encoder_forward": WORDS, "encoder_backward": WORDS,
    "matmul_backward_bias": {r"\bOC = 768 \* [34]\b": "OC = 1024"},
}  # fmt: skip
OTHER = {"nccl_all_reduce": "needs NCCL and several processes", "benchmark_on_modal": "no kernel"}


def copied(source: pathlib.Path, work: pathlib.Path) -> pathlib.Path:
    """A copy of a program with small sizes, beside copies of the headers it includes."""
    text = source.read_text()
    for pattern, small in {**SIZES, **SPECIAL.get(source.stem, {})}.items():
        text = re.sub(pattern, small, text)
    folder = work / "llmc"
    folder.mkdir(exist_ok=True)
    (folder / "common.h").write_text((source.parent / "common.h").read_text())
    out = folder / source.name
    if not out.exists() or out.read_text() != text:
        out.write_text(text)
    return out


def one(out: str, version: str, folder: str, stem: str, number: str) -> None:
    """Runs one kernel number of a program in this process, which the program ends."""
    tools = tools_of(folder)
    recorder = Recorder("llm.c", version, out)
    recorder.case = f"{stem} {number}"
    program = tools.load(stem)
    device = Device(program, recorder, [tools.work / f"{stem}.ptx"])
    arguments = (ctypes.c_char_p * 3)(stem.encode(), number.encode(), None)

    def main(_: Recorder) -> None:
        program.main(2, arguments)
        device.settle()

    recorder.run(recorder.case, main)


def numbers(text: str) -> list[str]:
    """The kernel numbers that a program knows."""
    found = {n for n in re.findall(r"case (\d+):", text) if int(n) < 32}  # from 32 on they are block sizes
    return sorted(found, key=int) or ["1"]


def main() -> None:
    """Builds the programs and runs each number in a process of its own."""
    out, sources, folder, *chosen = sys.argv[1:]
    if chosen[:1] == ["--one"]:
        one(out, sources, folder, *chosen[1:])
        return
    version = os.environ.get("PROJECT_VERSION", "")
    tools = tools_of(folder)
    recorder = Recorder("llm.c", version, out)
    for source in sorted(pathlib.Path(sources, "dev/cuda").glob("*.cu")):
        if chosen and source.stem not in chosen:
            continue
        if source.stem in OTHER:
            recorder.skipped(source.stem, source.stem, OTHER[source.stem])
            continue
        copy = copied(source, tools.work)
        try:
            tools.library([copy], source.stem)
        except RuntimeError as exc:
            recorder.skipped(source.stem, source.stem, f"does not compile: {exc}"[:300])
            print(f"{source.stem}: {exc}", flush=True)
            continue
        for number in numbers(copy.read_text()):
            command = [sys.executable, "-W", "ignore", __file__, out, version, folder, "--one", source.stem, number]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
                said = done.stdout + done.stderr
            except subprocess.TimeoutExpired as exc:
                said = f"{(exc.stdout or b'').decode()} more than {LIMIT:.0f} s"
            right = "All results match" in said
            if right or "ismatch" in said:
                recorder.case = f"{source.stem} {number}"
                recorder.verdict(recorder.case, right)
            last = [line for line in said.splitlines() if line.strip()][-1:]
            print(f"{source.stem} {number}: {'right' if right else ' '.join(last)[:200]}", flush=True)
            if not right:
                (pathlib.Path(out) / f"llmc-{source.stem}-{number}.txt").write_text(said[-4000:])


if __name__ == "__main__":
    main()

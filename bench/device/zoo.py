"""Records what kernels leave behind on the GPU: the launches of the zoo, with the PTX files of testdata/ptx.

Every version of a kernel runs twice: as the driver compiles it, and as ptxas --fmad=false does, which fuses no product
with a sum. Both go through the driver's own interface, so nothing but Python and the driver is needed. The record has a
hash of every output; outputs are kept as they are where the launch asks for it (instructions whose results PTX only
bounds) and where the two runs differ. zoo.sh says how it is called.
"""

from __future__ import annotations

import base64
import ctypes
import gzip
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from driver import Driver

OUT = pathlib.Path(os.environ.get("OUT", ".cache/device")).resolve()
PTX = pathlib.Path("testdata/ptx")
SECONDS = 20  # a launch that takes longer is stopped
START = time.monotonic()


def say(text: str) -> None:
    """A line of progress, at once."""
    print(f"{time.monotonic() - START:6.1f} s  {text}", file=sys.stderr, flush=True)


class Zoo(Driver):
    """The driver, with its compiler and the launches of the zoo."""

    def compiled(self, text: bytes) -> bytes:
        """The image that the driver's compiler makes of PTX."""
        state, image, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        self.call("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
        try:
            whole = ctypes.create_string_buffer(text)
            self.call("cuLinkAddData_v2", state, 1, whole, ctypes.c_size_t(len(whole)), None, 0, None, None)
            self.call("cuLinkComplete", state, ctypes.byref(image), ctypes.byref(size))
            return ctypes.string_at(image, size.value)
        finally:
            self.call("cuLinkDestroy", state)

    def outputs(self, image: bytes, job: dict[str, Any]) -> list[bytes]:
        """Loads the image anew, so that its variables are fresh, launches a kernel and gives its outputs."""
        module = self.load(image)
        function = self.function(module, job["entry"], job["shared"])
        values: list[bytes] = []
        places: dict[int, tuple[int, int]] = {}  # of the buffers, by argument: address and size
        for i, arg in enumerate(job["args"]):
            if arg["buffer"] is None:
                values.append(base64.b64decode(arg["value"]))
                continue
            data = base64.b64decode(arg["buffer"])
            place = self.allocate(len(data))
            self.write(place, data)
            places[i] = place, len(data)
            values.append(place.to_bytes(8, "little"))
        self.launch(function, job["grid"], job["block"], job["shared"], values)
        self.wait()
        outputs = [self.read(*places[i]) for i in job["outputs"]]
        for place, _ in places.values():
            self.free(place)
        self.unload(module)
        return outputs


def jobs_of(launches: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    """All runs: file, index of the launch, way of compiling; in an order in which every file is compiled once."""
    return sorted((f, i, way) for i, job in enumerate(launches) for f in job["files"] for way in ("fused", "plain"))


def work(launches: list[dict[str, Any]], first: int, cubins: pathlib.Path, results: pathlib.Path) -> None:
    """Runs the jobs from the first on and writes a line for each; a fault of the GPU ends the process."""
    driver = Zoo()
    images: dict[str, bytes] = {}
    with results.open("a") as out:
        for n, (file, i, way) in enumerate(jobs_of(launches)):
            if n < first:
                continue
            signal.alarm(SECONDS)
            if way == "plain":
                cubin = cubins / (file.replace("/", "-") + ".cubin")
                image = cubin.read_bytes() if cubin.exists() else b""
            else:
                if file not in images:
                    try:
                        images = {file: driver.compiled((PTX / (file + ".ptx")).read_bytes())}
                    except RuntimeError as err:
                        say(f"{file}: {err}")
                        images = {file: b""}
                image = images[file]
            row: dict[str, Any] = {"n": n}
            if image:
                outputs = driver.outputs(image, launches[i])
                row["outputs"] = [base64.b64encode(zlib.compress(o, 9)).decode() for o in outputs]
            else:
                row["why"] = "not for this GPU"
            out.write(json.dumps(row) + "\n")
            out.flush()


def compile_plain(files: list[str], folder: pathlib.Path) -> None:
    """Images without fused products."""

    def one(file: str) -> None:
        target = folder / (file.replace("/", "-") + ".cubin")
        done = subprocess.run(
            ["ptxas", "-arch=sm_90a", "--fmad=false", "-o", str(target), str(PTX / (file + ".ptx"))],
            capture_output=True, check=False, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            say(f"{file}: {done.stderr.splitlines()[0] if done.stderr else 'ptxas fails'}")
            target.unlink(missing_ok=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, files))


def run_all(launches: list[dict[str, Any]], source: str) -> dict[int, dict[str, Any]]:
    """The results of all jobs. A process that dies is followed by another one, which goes on behind its last job."""
    jobs = jobs_of(launches)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="zoo-"))
    compile_plain(sorted({j[0] for j in jobs}), folder)
    say(f"{len(jobs)} runs of {len(launches)} launches")
    results = folder / "results"
    results.touch()
    rows: dict[int, dict[str, Any]] = {}
    first = 0
    while first < len(jobs):
        call = [sys.executable, __file__, source, str(first), str(folder), str(results)]
        done = subprocess.run(call, capture_output=True, check=False, text=True)
        rows = {row["n"]: row for row in map(json.loads, results.read_text().splitlines())}
        sys.stderr.write(done.stderr[-2000:])
        first = max(rows, default=first - 1) + 1
        if first < len(jobs):
            last = (done.stderr.strip().splitlines() or [f"stopped after {SECONDS} s"])[-1]
            say(f"{jobs[first]}: {last}")
            with results.open("a") as out:
                out.write(json.dumps({"n": first, "why": last}) + "\n")
            first += 1
    return rows


def version_of(*command: str) -> str:
    """The version a tool prints."""
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    found = re.search(r"V(\d+\.\d+\.\d+)|^(\d+\.\d+\.\d+)$", text, re.MULTILINE)
    return (found.group(1) or found.group(2)) if found else text.strip()


def main() -> None:
    """Runs everything and writes the record."""
    launches = json.loads(gzip.decompress(pathlib.Path(sys.argv[1]).read_bytes()))
    if len(sys.argv) > 2:
        work(launches, int(sys.argv[2]), pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4]))
        return
    driver = Zoo()
    rows = run_all(launches, sys.argv[1])
    record: dict[str, dict[str, dict[str, Any]]] = {}
    data: dict[str, str] = {}
    differ = failed = 0
    for n, (file, i, way) in enumerate(jobs_of(launches)):
        launch, row = launches[i], rows[n]
        entry = record.setdefault(launch["name"], {}).setdefault(file, {})
        if "why" in row:
            entry["why"] = row["why"]
            failed += 1
            continue
        raw = [zlib.decompress(base64.b64decode(o)) for o in row["outputs"]]
        entry[way] = [hashlib.sha256(o).hexdigest()[:16] for o in raw]
        other = entry.get("fused", entry[way]) != entry[way]
        differ += other
        if launch["keep"][launch["files"].index(file)] or other:
            ways = {"plain": row, "fused": rows[n - 1]} if other else {way: row}
            for w, r in ways.items():
                data.update(zip(entry[w], r["outputs"], strict=True))
    record_text = json.dumps({
        "device": driver.device,
        "driver": version_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "ptxas": version_of("ptxas", "--version"),
        "launches": record,
        "data": data,
    }, sort_keys=True, separators=(",", ":"))  # fmt: skip
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "h200.json.gz").write_bytes(gzip.compress(record_text.encode(), 9, mtime=0))
    say(f"{len(rows)} runs, {failed} without a result; fusing makes a difference to {differ} versions")


if __name__ == "__main__":
    main()

"""Runs jobs in worker processes that share one daemon and one device; what ends a worker costs one job only.

A job is a small dict, its row what a worker found out about it. A script runs a Pool; the same script, started with
--worker, calls `work` with a function from job to row. A kernel that breaks the CUDA context, hangs or kills its
process ends its worker: the job is recorded as not run, with the reason, and a fresh worker goes on with the next.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
Job = dict[str, Any]
Row = dict[str, Any]
JOB_LIMIT = 240.0  # seconds; compiling is slow, a hundred cases are not
LAST_WORDS = 4  # lines of the log that are kept of a worker that ended


def out_dir() -> Path:
    """Where records go: $OUT, or .cache/device in the repository."""
    path = Path(os.environ.get("OUT") or ROOT / ".cache" / "device")
    path.mkdir(parents=True, exist_ok=True)
    return path


def say(text: str) -> None:
    """A line of progress, at once."""
    print(text, file=sys.stderr, flush=True)


class Home:
    """A home of gpuemu for one run, with a daemon that ends with it."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="gpuemu-")
        self.binary = os.environ.get("GPUEMU_BINARY") or str(ROOT / "bin" / "gpuemu")
        # Workers have another working directory: relative entries would be lost.
        given = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        self.env = dict(
            os.environ, GPUEMU_HOME=self.path, GPUEMU_SOCKET=os.path.join(self.path, "gpuemu.sock"),
            GPUEMU_BINARY=self.binary, PYTHONPATH=os.pathsep.join([*given, str(ROOT / "python" / "src")]),
            TORCHINDUCTOR_COMPILE_THREADS="1",  # the workers compile side by side already
            TORCHINDUCTOR_CACHE_DIR=os.path.join(self.path, "inductor"),
            TRITON_CACHE_DIR=os.environ.get("TRITON_CACHE_DIR", os.path.join(self.path, "triton")),
        )  # fmt: skip
        self.env.pop("GPUEMU_CONFIG", None)

    def __enter__(self) -> Home:
        if not os.access(self.binary, os.X_OK):
            raise SystemExit(f"{self.binary} is not there: make build, or set GPUEMU_BINARY")
        try:
            self._daemon("start", "--background")
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._daemon("stop")
        except subprocess.SubprocessError as exc:
            say(f"the daemon did not stop: {exc}")
        shutil.rmtree(self.path, ignore_errors=True)

    def _daemon(self, *words: str) -> None:
        subprocess.run([self.binary, "daemon", *words], env=self.env, cwd=self.path, check=True, timeout=60,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip


@dataclass
class Pool:
    """Hands jobs to workers until they or the time are spent.

    Each thread owns one worker process; rows are taken in one at a time, under the lock.
    """

    script: str
    arguments: list[str]
    home: Home
    deadline: float  # time.monotonic()
    take: Callable[[Row], None]

    def run(self, jobs: list[Job], workers: int) -> None:
        """Runs all jobs; those left over when the time is up get a row that says so."""
        self._jobs = list(reversed(jobs))
        self._lock = threading.Lock()
        threads = [threading.Thread(target=self._serve, args=(n,)) for n in range(max(1, min(workers, len(jobs))))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for job in reversed(self._jobs):
            self.take(dict(job, error="not started: the time was up"))

    def _next(self) -> Job | None:
        with self._lock:
            if not self._jobs or time.monotonic() >= self.deadline:
                return None
            return self._jobs.pop()

    def _serve(self, number: int) -> None:
        worker: subprocess.Popen[str] | None = None
        try:
            while (job := self._next()) is not None:
                if worker is None or worker.poll() is not None:
                    worker = self._spawn(number)
                row = self._one(worker, job, number)
                if "device_lost" in row:
                    worker.wait()  # it is about to end, and must not get another job
                with self._lock:
                    self.take(row)
        finally:
            if worker is not None:
                worker.stdin.close()  # type: ignore[union-attr]
                try:
                    worker.wait(20)
                except subprocess.TimeoutExpired:
                    worker.kill()
                    worker.wait()

    def _spawn(self, number: int) -> subprocess.Popen[str]:
        with self._log(number).open("a") as log:  # the child keeps it
            return subprocess.Popen(
                [sys.executable, self.script, *self.arguments, "--worker"],
                env=self.home.env, cwd=self.home.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True,
            )  # fmt: skip

    def _one(self, worker: subprocess.Popen[str], job: Job, number: int) -> Row:
        assert worker.stdin is not None and worker.stdout is not None
        limit = min(JOB_LIMIT, max(5.0, self.deadline + 15.0 - time.monotonic()))
        watch = threading.Timer(limit, worker.kill)
        watch.start()
        start = time.monotonic()
        try:
            worker.stdin.write(json.dumps(job) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except OSError:  # it died before it read the job
            line = ""
        finally:
            watch.cancel()
        if line:
            row: Row = json.loads(line)
            return dict(job, **row)
        code = worker.wait()
        took = time.monotonic() - start
        why = f"killed after {took:.0f} s" if took >= limit - 1 else f"the process ended with status {code}"
        last = self._last_words(number)
        return dict(job, error=f"{why}; {last[-1][:200] if last else 'it printed nothing'}", last=last)

    def _log(self, number: int) -> Path:
        return Path(self.home.path) / f"worker-{number}.log"

    def _last_words(self, number: int) -> list[str]:
        """The last lines that the workers of this thread printed."""
        return self._log(number).read_text(errors="replace").strip().splitlines()[-LAST_WORDS:]


def work(function: Callable[[Job], Row], healthy: Callable[[], None]) -> None:
    """The worker: rows for jobs, until standard input ends. What kernels print goes to the log.

    After a job whose device does not answer any more the process ends: nothing that it did later could be trusted.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            row = function(json.loads(line))
        except Exception as exc:
            traceback.print_exc()
            row = {"error": f"{type(exc).__name__}: {str(exc).strip().splitlines()[0] if str(exc).strip() else ''}"}
        broken = None
        try:
            healthy()
        except Exception as exc:
            broken = row["device_lost"] = str(exc).strip().splitlines()[0]
        answers.write(json.dumps(row) + "\n")
        answers.flush()
        if broken:
            raise SystemExit(f"the device is lost: {broken}")

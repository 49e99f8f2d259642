"""Tests of bench/device/pool.py: what ends a worker costs one job only. No GPU and no daemon are needed."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

DEVICE = Path(__file__).resolve().parents[2] / "bench" / "device"
SCRIPT = f"""
import os, sys, time
sys.path.insert(0, {str(DEVICE)!r})
import pool

state = {{"lost": False}}

def function(job):
    kind = job["name"]
    if kind == "kill":
        os.kill(os.getpid(), 9)
    if kind == "hang":
        time.sleep(60)
    if kind == "raise":
        raise ValueError("first line\\nsecond line")
    if kind == "print":
        print("noise")
    state["lost"] = kind == "lost"
    return {{"done": kind}}

def healthy():
    if state["lost"]:
        raise RuntimeError("CUDA error")

pool.work(function, healthy)
"""


class Home:
    """What a pool needs of its home: no daemon."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.env = dict(os.environ)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DEVICE))
    return importlib.import_module("pool")


def run(pool: Any, tmp_path: Path, names: list[str], seconds: float = 60.0) -> dict[str, dict[str, Any]]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    rows: list[dict[str, Any]] = []

    def add(row: dict[str, Any]) -> None:
        rows.append(row)
        pool.JOB_LIMIT = 60.0  # a limit that a test has set is for its first job: the next worker may start slowly

    deadline = time.monotonic() + seconds
    pool.Pool(str(script), [], Home(tmp_path), deadline, add).run([{"name": n} for n in names], 1)
    assert [r["name"] for r in rows] == names
    return {r["name"]: r for r in rows}


def test_a_killed_worker_costs_one_job(pool: Any, tmp_path: Path) -> None:
    rows = run(pool, tmp_path, ["a", "kill", "b"])
    assert rows["a"]["done"] == "a" and rows["b"]["done"] == "b"
    assert rows["kill"]["error"] == "the process ended with status -9; it printed nothing"


def test_a_lost_device_costs_no_other_job(pool: Any, tmp_path: Path) -> None:
    rows = run(pool, tmp_path, ["lost", "after"])
    assert rows["lost"] == {"name": "lost", "done": "lost", "device_lost": "CUDA error"}
    assert rows["after"] == {"name": "after", "done": "after"}


def test_a_job_that_hangs_is_ended(pool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "JOB_LIMIT", 2.0)
    rows = run(pool, tmp_path, ["hang", "after"])
    assert rows["hang"]["error"].startswith("killed after 2 s")
    assert rows["after"]["done"] == "after"


def test_an_exception_and_noise_are_no_rows(pool: Any, tmp_path: Path) -> None:
    rows = run(pool, tmp_path, ["raise", "print"])
    assert rows["raise"]["error"] == "ValueError: first line"
    assert rows["print"]["done"] == "print"


def test_jobs_left_over_are_named(pool: Any, tmp_path: Path) -> None:
    rows = run(pool, tmp_path, ["a", "b"], seconds=-1.0)
    assert [r["error"] for r in rows.values()] == ["not started: the time was up"] * 2

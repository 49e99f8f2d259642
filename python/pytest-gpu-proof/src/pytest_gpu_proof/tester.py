"""The side that runs tests: which of them belong to the proof, and what their checks found.

It runs in the only process of a plain run, and in each worker of pytest-xdist. What it finds travels with the reports,
in an attribute, to the recorder; the list of collected tests goes there as a whole, before the first test runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

from .devices import used_devices

ATTRIBUTE = "gpu_proof_record"  # of reports; JSON, because execnet has fewer types than Python
FIXTURES = ("gpu_proof_check", "gpu_proof_challenge")


@dataclass
class Collected:
    """The tests of one process, in their order: all, those of the proof, and those that were selected to run."""

    every: list[str] = field(default_factory=list)
    proof: list[str] = field(default_factory=list)
    selected: list[str] = field(default_factory=list)


class Findings:
    """What one execution of one test found; the fixtures write it."""

    def __init__(self) -> None:
        self.checks: list[dict[str, Any]] = []
        self.challenges: list[dict[str, Any]] = []
        self.raised = False  # whether the test itself ended with an error


FINDINGS = pytest.StashKey[Findings]()


class Tester:
    """Marks reports. deliver gets the collected tests."""

    def __init__(self, marker: str, deliver: Callable[[Collected], None]) -> None:
        self._markers = (marker, "gpu_equivalence")
        self._deliver = deliver
        self._proof: set[str] = set()

    def belongs(self, item: pytest.Item) -> bool:
        """Whether a test is part of the proof: it has a marker, or it uses a fixture of ours."""
        marked = any(item.get_closest_marker(name) for name in self._markers)
        return marked or any(name in getattr(item, "fixturenames", ()) for name in FIXTURES)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, None, None]:
        """Notes the tests before -k, -m, --deselect, --lf and other plugins take some away, and what is left after."""
        found = Collected([item.nodeid for item in items], [item.nodeid for item in items if self.belongs(item)])
        yield
        found.selected = [item.nodeid for item in items]
        self._deliver(found)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Puts what was found onto the report."""
        outcome = yield
        report = outcome.get_result()
        findings = item.stash.get(FINDINGS, None) or Findings()
        proof, required = self.belongs(item), item.get_closest_marker("gpu_required") is not None
        if not proof and not required:
            return
        record: dict[str, Any] = {"proof": proof, "required": required, "checks": findings.checks}
        if report.when == "teardown":
            record.update(challenges=findings.challenges, devices=used_devices() if proof else [])
        setattr(report, ATTRIBUTE, json.dumps(record))


def write_collected(directory: str, worker: str, found: Collected) -> None:
    """Leaves the collected tests of a worker where the recorder looks for them."""
    if not os.path.isdir(directory):
        raise pytest.UsageError(
            "gpu-proof: this worker of pytest-xdist runs on another machine than the controller, which is not "
            "supported: run the tests there, and sign there"
        )
    name = os.path.join(directory, f"{worker}.json")
    with open(name + ".part", "w", encoding="ascii") as f:
        json.dump({"every": found.every, "proof": found.proof, "selected": found.selected}, f)
    os.replace(name + ".part", name)

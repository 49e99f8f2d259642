"""The side that writes: one process, which gets all reports, writes the result file and has it signed.

With pytest-xdist that is the controller; its workers only test.
"""

from __future__ import annotations

import contextlib
import datetime
import glob
import json
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import _escape, binary
from ._version import __version__
from .outcomes import OUTCOMES, Execution, arguments_without_secrets, one_line
from .settings import Settings
from .tester import Collected

FORMAT = "gpu-proof-results/1"
DEFAULT_RECEIPT = "gpu-proof.json"  # what gpu-proof snapshot leaves out if it is told nothing else
REFUSED = 1  # exit status of the binary: the run, or the receipt, is not good enough, and trying again does not help


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Recorder:
    """Gathers what a session does."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._directory = tempfile.mkdtemp(prefix="gpu-proof-")  # only the user can read it
        self._collected: list[Collected] = []
        self._modules: dict[str, tuple[str, str]] = {}  # what could not be collected: outcome and reason
        self._runs: dict[tuple[str, str], Execution] = {}
        self._interrupted = False
        self._refused = False  # by the policy that was named
        self._kept = False  # the result file, for a second try
        self._said = False  # anything on the terminal
        self._started = ""
        self._scope = self._make_scope()
        self._start: binary.Snapshot | None = None

    # ---- the session -----------------------------------------------------------------------------------------------

    @property
    def code(self) -> str:
        """The digest of the code at the start."""
        return self._start.digest if self._start else ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Hashes the code before any of it is imported."""
        out, policy = self._settings.out, self._settings.policy
        if not self._settings.best_effort:  # what is missing would be missed after the last test
            if not out.parent.is_dir():
                raise pytest.UsageError(f"--gpu-proof-out: there is no folder {out.parent}: create it first")
            if policy is not None and not policy.is_file():
                raise pytest.UsageError(f"--gpu-proof-policy: there is no file {policy}: check the path")
        if out.exists() and not _is_receipt(out):
            raise pytest.UsageError(f"{out} is there and is no receipt: it is not written over; name another file with "
                                    "--gpu-proof-out")  # fmt: skip
        with contextlib.suppress(FileNotFoundError):
            _retired(out).unlink()
        self._started = _now()
        try:
            self._start = binary.snapshot(self._scope)
        except binary.BinaryFailed as exc:
            if not self._settings.best_effort:
                raise pytest.UsageError(str(exc)) from exc
            self._say(str(exc))
            self._say("no receipt will be written (--gpu-proof-best-effort)")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tells a worker of pytest-xdist where to leave the list of its tests, and what challenges follow from."""
        node.workerinput["gpu_proof"] = {"directory": self._directory, "code": self.code}

    def add_collected(self, found: Collected) -> None:
        """Takes the tests of this process."""
        self._collected.append(found)

    def pytest_collectreport(self, report: Any) -> None:
        """Keeps the modules that could not be imported or that skip themselves: which tests they have is not known."""
        if report.outcome in ("failed", "skipped"):
            reason = report.longrepr
            text = str(reason[2]).removeprefix("Skipped: ") if isinstance(reason, tuple) else _last_line(str(reason))
            outcome = "error" if report.outcome == "failed" else "skipped"
            self._modules[report.nodeid] = outcome, one_line(text)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Takes the report of a phase of a test."""
        worker = str(getattr(report, "worker_id", ""))
        self._runs.setdefault((worker, report.nodeid), Execution()).add(report)

    def pytest_keyboard_interrupt(self) -> None:
        """Ctrl-C and pytest.exit: whatever the exit status says, not everything has run."""
        self._interrupted = True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hashes the code again, writes the result file and has it signed."""
        if self._start is None:
            return
        with self._terminal():
            written = self._finish(session)
        if not written:
            self._retire()
        failed = (not written or self._refused) and not self._settings.best_effort
        if failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self) -> None:
        """Removes what the workers left, and the result file with it."""
        if not self._kept:
            shutil.rmtree(self._directory, ignore_errors=True)

    # ---- the receipt -----------------------------------------------------------------------------------------------

    def _finish(self, session: pytest.Session) -> bool:
        """Whether a receipt of this session was written."""
        collected = self._all_collected()
        tests = self._tests(collected)
        if not tests:
            why = f"all {len(collected.proof)} of them are deselected" if collected.proof else (
                f"mark tests with @pytest.mark.{self._settings.required_marker} or use the fixture gpu_proof_check"
            )  # fmt: skip
            self._say("no test of the proof was run, so there is no receipt: " + why)
            return False
        skipped = sorted({t["id"] for t in tests if t["outcome"] == "skipped"} | self._skipped_required())
        if self._settings.fail_on_skip and skipped:
            self._say(f"--gpu-proof-fail-on-skip: {len(skipped)} tests were skipped, so there is no receipt:")
            for name in skipped:
                self._say("  " + name)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            return False
        try:
            end = binary.snapshot(self._scope)
        except binary.BinaryFailed as exc:
            self._say(str(exc))
            return False
        results = self._results(session, collected, tests, end)
        file = self._settings.results or Path(self._directory) / "results.json"
        try:
            with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
                json.dump(results, f, indent=1, allow_nan=False)
                f.write("\n")
        except OSError as exc:
            self._say(f"the result file cannot be written: {exc}")
            return False
        return self._sign(file)

    def _sign(self, file: Path) -> bool:
        settings = self._settings
        arguments = [f"--results={file}", f"--repo={settings.root}", f"--out={settings.out}"]
        arguments += [f"--format={settings.format}", "--yes"]  # who enables receipts has been asked
        if settings.signing_backend == "none":
            arguments.append("--unsigned")
        for flag, value in (("key", settings.key), ("github-user", settings.github_user), ("signer", settings.signer),
                            ("nonce", settings.nonce)):  # fmt: skip
            if value:
                arguments.append(f"--{flag}={value}")
        before = _state(settings.out)
        done = self._run(binary.sign, arguments)
        if done != 0 or _state(settings.out) == before:
            self._say(f"no receipt was written (gpu-proof sign: exit status {done})")
            if done != REFUSED:  # no key, no name, no commit: that can be put right
                self._kept = settings.results is None  # else it lies where it was asked for
                again = shlex.join(["gpu-proof", "sign", *(a for a in arguments if a != "--yes")])
                self._say(f"what the tests found is kept, they need not run again: {again}")
            return False
        if settings.signing_backend == "none":
            self._say("the receipt is UNSIGNED: verify refuses it unless it is told --allow-unsigned")
        if settings.policy is not None:
            arguments = [f"--receipt={settings.out}", f"--repo={settings.root}", f"--policy={settings.policy}"]
            status = self._run(binary.verify, arguments)
            if status == 3:  # without a network, say
                self._say(f"whether the policy {settings.policy} accepts the receipt is not known")
            elif status != 0:
                self._say(f"the policy {settings.policy} refuses the receipt" if status == REFUSED else
                          f"the policy {settings.policy} cannot be read")  # fmt: skip
                self._refused = True
        return True

    def _run(self, command: Any, arguments: list[str]) -> int:
        """The exit status of a command, whose output is shown."""
        self._below()
        try:
            done = command(arguments)
        except binary.BinaryFailed as exc:
            self._say(str(exc))
            return 3
        for line in done.stdout.splitlines():
            self._say(line)
        return int(done.returncode)

    def _retire(self) -> None:
        """Moves an older receipt away: what lies there after a run must not be taken for a receipt of it."""
        out = self._settings.out
        if out.exists():
            out.replace(_retired(out))
            self._say(f"the receipt of an earlier run is now {_retired(out)}")

    # ---- what the result file says ---------------------------------------------------------------------------------

    def _results(
        self, session: pytest.Session, collected: Collected, tests: list[dict[str, Any]], end: binary.Snapshot
    ) -> dict[str, Any]:
        assert self._start is not None
        scope = self._scope
        proof = set(collected.proof)
        selected = set(collected.selected)
        status = int(session.exitstatus)
        unfinished = selected - {name for (_, name), run in self._runs.items() if run.finished}
        return {
            "format": FORMAT,
            "runner": {"name": "pytest", "version": pytest.__version__, "plugin": __version__,
                       "language": "Python " + platform.python_version()},
            "mode": self._settings.mode,
            "root": self._start.root,
            "started_at": self._started,
            "ended_at": _now(),
            "arguments": arguments_without_secrets([str(a) for a in self._config.invocation_params.args]),
            "exit_status": status,
            "finished": not self._interrupted and not unfinished and status in (0, 1),
            "code": {"scope": list(scope.paths), "exclude": list(scope.excluded), "outputs": list(scope.outputs),
                     "start": self._start.digest, "end": end.digest},
            "collected": [*collected.proof, *self._modules],
            "deselected": [name for name in collected.proof if name not in selected],
            "outside": self._outside(proof),
            "tests": tests,
            "devices": self._devices(),
            "challenges": self._challenges(collected),
        }  # fmt: skip

    def _all_collected(self) -> Collected:
        """The tests of all processes, each once, in the order of the first that has it."""
        parts = list(self._collected)
        for file in sorted(glob.glob(os.path.join(self._directory, "*.json"))):
            if os.path.basename(file) != "results.json":
                with open(file, encoding="ascii") as f:
                    parts.append(Collected(**json.load(f)))
        joined = Collected()
        for part in parts:
            for into, names in zip((joined.every, joined.proof, joined.selected),
                                   (part.every, part.proof, part.selected)):  # fmt: skip
                into += names
        joined.every, joined.proof, joined.selected = (
            list(dict.fromkeys(names)) for names in (joined.every, joined.proof, joined.selected)
        )
        return joined

    def _worst(self) -> dict[str, tuple[Execution, int]]:
        """Of each test the execution that went worst, and how often it was run again in all."""
        found: dict[str, tuple[Execution, int]] = {}
        for (_, name), run in self._runs.items():
            worst, reruns = found.get(name, (run, 0))
            found[name] = max(worst, run, key=_badness), reruns + run.reruns
        return found

    def _tests(self, collected: Collected) -> list[dict[str, Any]]:
        tests = []
        executions = self._worst()
        for name in collected.proof:
            if name not in executions:
                continue
            worst, reruns = executions[name]
            outcome, phase, reason = worst.outcome()
            tests.append({
                "id": name, "outcome": outcome, "phase": phase, "seconds": worst.seconds,
                "reruns": reruns, "reason": reason,
                "checks": worst.record.get("checks", []),
            })  # fmt: skip
        for name, (outcome, reason) in self._modules.items():
            tests.append({"id": name, "outcome": outcome, "phase": "collect", "seconds": 0.0, "reruns": 0,
                          "reason": reason, "checks": []})  # fmt: skip
        return tests

    def _outside(self, proof: set[str]) -> dict[str, int]:
        counts = {"passed": 0, "failed": 0, "errors": 0, "skipped": 0}
        keys = {"passed": "passed", "xpassed": "passed", "failed": "failed", "error": "errors", "skipped": "skipped",
                "xfailed": "skipped"}  # fmt: skip
        for name, (run, _) in self._worst().items():
            if name not in proof:
                counts[keys[run.outcome()[0]]] += 1
        return counts

    def _skipped_required(self) -> set[str]:
        """Tests that need a GPU and were skipped, whether they belong to the proof or not."""
        return {name for (_, name), run in self._runs.items()
                if run.record.get("required") and run.outcome()[0] == "skipped"}  # fmt: skip

    def _devices(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        for run in self._runs.values():
            found += [device for device in run.record.get("devices", []) if device not in found]
        return found

    def _challenges(self, collected: Collected) -> list[dict[str, Any]]:
        """The challenges in the order of the tests, each once: two tests of one operator have the same cases."""
        found: list[dict[str, Any]] = []
        executions = self._worst()
        for name in collected.proof:
            if name in executions:
                found += [c for c in executions[name][0].record.get("challenges", []) if c not in found]
        return found

    # ---- places ----------------------------------------------------------------------------------------------------

    def _make_scope(self) -> binary.Scope:
        """What is hashed. The receipt is left out, and the result file where it lies in scope: they come after it."""
        settings = self._settings
        excluded = dict.fromkeys(settings.fingerprint_excluded_paths)
        excluded[self._inside(settings.out) or DEFAULT_RECEIPT] = None
        results = self._inside(settings.results) if settings.results else None
        if results and any(results == p or p == "." or results.startswith(p.rstrip("/") + "/")
                           for p in settings.fingerprint_paths):  # fmt: skip
            excluded[results] = None
        paths, outputs = settings.fingerprint_paths, settings.fingerprint_extra_paths
        return binary.Scope(settings.root, paths, outputs, tuple(excluded))

    def _inside(self, file: Path) -> str | None:
        """A file as seen from the top of the repository; None if it lies outside."""
        root = self._settings.root
        top = next((d for d in (root, *root.parents) if (d / ".git").exists()), root)
        try:
            return (file.parent.resolve() / file.name).relative_to(top.resolve()).as_posix()
        except ValueError:
            return None

    # ---- the terminal ----------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        line = "[gpu-proof] " + _escape.text(text)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:  # -p no:terminal
            print(line, file=sys.stderr)
        else:
            self._below()
            reporter.write_line(line)

    def _below(self) -> None:
        """Goes below the dots of the tests, whoever printed them: what the binary says of itself comes there, too."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and not self._said:
            reporter.ensure_newline()
            reporter.write_line("")
            reporter.flush()
        self._said = True

    @contextlib.contextmanager
    def _terminal(self) -> Iterator[None]:
        """Gives the terminal back while a command may ask for a passphrase."""
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        if capture is not None:
            capture.suspend(in_=True)
        try:
            yield
        finally:
            if capture is not None:
                capture.resume()


def _badness(run: Execution) -> tuple[int, bool]:
    """The report of a worker that died comes apart from those that it had sent before, and says more."""
    return OUTCOMES.index(run.outcome()[0]), run.crashed is not None


def _is_receipt(file: Path) -> bool:
    """Whether a file can be written over: it is empty, or JSON with an object, as receipts of all formats are."""
    try:
        text = file.read_bytes()
        return not text.strip() or isinstance(json.loads(text), dict)
    except (OSError, ValueError):
        return False


def _retired(out: Path) -> Path:
    return out.with_name(out.name + ".old")


def _state(file: Path) -> tuple[int, int, int] | None:
    """Which file lies at a place: a new receipt is another file, even with the same bytes."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _last_line(text: str) -> str:
    """The last line of a traceback says what went wrong."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")

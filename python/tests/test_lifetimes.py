"""Clients that outlive a daemon, a thread or a fork, outputs that outlive their execution, a lost console."""

from __future__ import annotations

import ctypes
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu import Client, ConnectionFailed, _daemon, pytest_plugin

SMALL: dict[str, Any] = {
    "dtypes": ["float32"], "shapes": {"B": [1, 2], "S": [7], "H": [8, 65]}, "value_distribution": "normal",
    "store": "none",
}  # fmt: skip


def relu(inputs: dict[str, Any]) -> Any:
    return np.maximum(inputs["input"], 0)


def test_verdicts_after_a_fork_are_those_of_the_process(client: Client) -> None:
    client.ping()  # the connection is there before the fork
    children = []
    for n in range(4):
        child = os.fork()
        if child == 0:
            # Each process has a length of its own, and every other one a wrong output.
            x = np.full(3 + n, -1.0 if n % 2 else 1.0, np.float32)
            results = [client.validate_op("relu", {"input": x}, x, seed=n) for _ in range(50)]
            os._exit(0 if all(r.passed == (n % 2 == 0) and r.seed == n for r in results) else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0, 0]


def test_a_client_keeps_no_connection_per_run(client: Client) -> None:
    def sockets() -> int:
        links = [os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
        return sum(os.path.islink(link) and os.readlink(link).startswith("socket:") for link in links)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("only Linux lists the open files of a process")
    counts = []
    for _ in range(10):
        assert client.fuzz_op_client_side("relu", run_op=relu, iterations=20, **SMALL).ok
        counts.append(sockets())
    assert counts[-1] <= counts[0] + 2, counts  # a run has three threads, of which two may not need one


def test_every_request_starts_a_daemon_that_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUEMU_HOME", str(tmp_path))
    x = np.ones(3, np.float32)
    large = np.ones(1 << 19, np.float32)
    with Client() as own:
        requests: list[Callable[[], Any]] = [
            lambda: own.fuzz_op_client_side("relu", run_op=relu, iterations=2, **SMALL).ok,
            lambda: own.validate_op("relu", {"input": x}, x).passed,
            lambda: own.validate_op("relu", {"input": large}, large).passed,
            lambda: own.get_test_case("relu")["dtype"],
            lambda: own.get_test_batch("relu", 2)[1]["dtype"],
        ]
        for request in requests:
            own.ping()
            subprocess.run([os.environ["GPUEMU_BINARY"], "daemon", "stop"], check=True, capture_output=True, timeout=60)
            assert request()
    subprocess.run([os.environ["GPUEMU_BINARY"], "daemon", "stop"], check=True, capture_output=True, timeout=60)


NO_DAEMON = """
import os, sys
import numpy as np
from gpuemu import Client

x = np.ones(3, np.float32)
with Client(**eval(sys.argv[1])) as first, Client() as second:
    assert first.validate_op("relu", {"input": x}, x, seed=7).passed
    assert second.ping()["pid"] == first.ping()["pid"] or sys.argv[1] != "{}"
    print(first.ping()["pid"])
assert not os.path.exists(os.path.join(os.environ["GPUEMU_HOME"], "gpuemu.sock")) or sys.argv[1] != "{}"
"""


@pytest.mark.parametrize("options, variable", [("{}", "1"), ("{'daemon': False}", "0")])
def test_without_a_daemon_the_engine_ends_with_the_process(
    options: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUEMU_HOME", str(tmp_path))
    monkeypatch.setenv("GPUEMU_NO_DAEMON", variable)
    done = subprocess.run([sys.executable, "-c", NO_DAEMON, options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
    monkeypatch.setenv("GPUEMU_NO_DAEMON", "0")
    with Client() as later:
        assert [r.seed for r in later.list_results()] == [7]  # on the same store
        assert later.ping()["pid"] != int(done.stdout)
    subprocess.run([os.environ["GPUEMU_BINARY"], "daemon", "stop"], check=True, capture_output=True, timeout=60)


def test_a_daemon_of_another_version_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUEMU_HOME", str(tmp_path))
    real = os.environ["GPUEMU_BINARY"]
    x = np.ones(3, np.float32)
    with Client() as old:
        daemon = old.ping()["pid"]
        status = subprocess.run([real, "daemon", "status"], capture_output=True, text=True, timeout=60).stdout
        assert "started on demand" in status
        other = tmp_path / "gpuemu-other"
        other.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "gpuemu 9.9.9 (go)" || exec {shlex.quote(real)} "$@"\n'
        )
        other.chmod(0o755)
        monkeypatch.setenv("GPUEMU_BINARY", str(other))
        with Client() as new:
            with pytest.warns(UserWarning, match=r"is gpuemu \S+, this package has 9\.9\.9: it is not used"):
                assert new.validate_op("relu", {"input": x}, x).passed
            assert new.ping()["pid"] != daemon
        with Client(str(tmp_path / "gpuemu.sock")) as named:  # whoever names a socket has chosen
            assert named.ping()["pid"] == daemon
    subprocess.run([real, "daemon", "stop"], check=True, capture_output=True, timeout=60)


def test_processes_that_begin_together_share_one_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUEMU_HOME", str(tmp_path))
    command = [sys.executable, "-c", "import gpuemu; print(gpuemu.Client().ping()['pid'])"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=60) for process in started]
    subprocess.run([os.environ["GPUEMU_BINARY"], "daemon", "stop"], check=False, capture_output=True, timeout=60)
    assert len({out for out, _ in said}) == 1 and all(process.returncode == 0 for process in started), said


@pytest.mark.parametrize("code", ["daemon-already-running", "cli-daemon-running"])
def test_a_daemon_that_another_process_starts_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    binary = tmp_path / "gpuemu"
    binary.write_text(f"#!/bin/sh\necho 'gpuemu: there is one [{code}]'\nexit 1\n")
    binary.chmod(0o700)
    monkeypatch.setenv("GPUEMU_BINARY", str(binary))
    path = str(tmp_path / "s")
    monkeypatch.setattr(_daemon, "OTHER_LIMIT", 0.1)
    with pytest.raises(ConnectionFailed, match="there is one"):
        _daemon.start(path)  # it never listens
    monkeypatch.setattr(_daemon, "OTHER_LIMIT", 10)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        later = threading.Timer(0.2, listener.listen)
        later.start()
        _daemon.start(path)
        later.join()


def test_batches_of_any_type_and_of_nothing(client: Client) -> None:
    pytest.importorskip("ml_dtypes", reason="bfloat16 arrays need ml_dtypes")
    for options in ({"dtypes": ["bfloat16"]}, {"dtypes": ["float32"], "shapes": {"B": [0]}}):
        for case in client.get_test_batch("relu", 3, seed=1, **options):
            inputs = case["inputs"]
            assert inputs.untouched()
            assert client.submit_output("relu", inputs, relu(inputs), case["seed"]).verdict in ("pass", "undecided")


def test_the_operator_that_was_asked_for_judges(client: Client) -> None:
    schema = {
        "name": "relu", "dims": [{"name": "N", "candidates": [64]}], "inputs": [{"name": "input", "dims": ["N"]}],
        "output": {"name": "output", "dims": ["N"]},
    }  # fmt: skip
    results = client.fuzz_op_client_side("gelu", run_op=relu, iterations=5, op_schema=schema, store="none")
    assert results.failed > 0 and results.failures[0].op_name == "gelu", results
    del schema["name"]
    assert client.fuzz_op_client_side("relu", run_op=relu, iterations=5, op_schema=schema, store="none").ok


def test_memory_that_the_kernel_writes_again_is_copied(client: Client) -> None:
    kept: dict[tuple[int, ...], Any] = {}
    calls = 0

    def kernel(inputs: dict[str, Any]) -> Any:
        nonlocal calls
        calls += 1
        right = relu(inputs)
        memory = kept.setdefault(right.shape, np.empty_like(right))
        memory[...] = right + (calls % 2)  # the first execution of each case is wrong
        return memoryview(memory)

    results = client.fuzz_op_client_side("relu", run_op=kernel, iterations=10, repeat=True, **SMALL)
    assert results.failed == 10 and {r.reason for r in results.failures} == {"nondeterministic"}, results


@pytest.mark.parametrize("second", [{}, {"other": 1}, {"output": 1, "other": 1}])
def test_other_outputs_when_run_once_more(client: Client, second: dict[str, int]) -> None:
    calls = 0

    def kernel(inputs: dict[str, Any]) -> Any:
        nonlocal calls
        calls += 1
        return {name: relu(inputs) for name in (second if calls % 2 == 0 else {"output": 1})}

    results = client.fuzz_op_client_side("relu", run_op=kernel, iterations=4, repeat=True, **SMALL)
    assert results.failed == 4 and {r.reason for r in results.failures} == {"wrong_outputs"}, results


def test_an_empty_dict_is_a_fault_of_the_kernel(client: Client) -> None:
    results = client.fuzz_op_client_side("relu", run_op=lambda inputs: {}, iterations=4, **SMALL)
    assert results.failed == 4
    assert "returned an empty dict" in results.failures[0].message and results.failures[0].hint == "return output"


def test_a_session_that_collects_nothing_ends() -> None:
    class Controller:  # of pytest-xdist with pytest 7: it has no attribute items
        pass

    pytest_plugin.pytest_sessionfinish(Controller())  # type: ignore[arg-type]


def test_a_process_without_a_console(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    for progress in (None, True):
        assert client.fuzz_op_client_side("relu", run_op=relu, iterations=2, progress=progress, **SMALL).ok


def test_what_a_kernel_overwrote_before_it_raised_is_told(client: Client) -> None:
    def kernel(inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        output = outputs["output"]
        ctypes.memset(output.ctypes.data + output.nbytes, 0, 16)
        inputs["input"][...] = 0
        raise RuntimeError("an error far from its cause")

    results = client.fuzz_op_client_side("relu", run_op=kernel, iterations=3, outputs="allocated", **SMALL)
    assert results.failed == 3, results
    assert {f["kind"] for f in results.failures[0].findings} == {"overrun", "input_modified"}
    assert results.failures[0].verdict == "error" and "far from its cause" in results.failures[0].message

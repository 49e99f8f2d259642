"""One client in many threads, and the client for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu import AsyncClient, Client, ClientError

FEW: dict[str, Any] = {"iterations": 20, "dtypes": ["float32"], "value_distribution": "normal",
                       "shapes": {"B": [1, 2], "S": [3, 7], "H": [8, 65]}}  # fmt: skip
THREADS = 8


def relu(inputs: dict[str, Any]) -> Any:
    return np.maximum(inputs["input"], 0)


def together(work: Callable[[int], Any]) -> list[Any]:
    """What work gives in THREADS threads that begin at the same time."""
    ready = threading.Barrier(THREADS)

    def begin(number: int) -> Any:
        ready.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def mixed(client: Client, number: int) -> tuple[Any, ...]:
    """Requests of every kind; each thread has cases of its own, and every second one a wrong kernel."""
    shift = np.float32(number % 2)
    found = client.fuzz_op_client_side("relu", lambda i: relu(i) + shift, seed=number, **FEW)
    x = np.full((2, 3), number - 3, np.float32)
    one = client.validate_op("relu", {"input": x}, np.maximum(x, 0) + shift, store="none")
    cases = [case["seed"] for case in client.get_test_batch("relu", 5, number)]
    again = client.reproduce(found.failures[0].case).inputs["input"].shape if found.failures else None
    compared = bool(client.compare(x, x + shift))
    return found.passed, found.failed, bool(one), cases, again, compared


@pytest.mark.parametrize("daemon", [True, False])
def test_one_client_in_many_threads(daemon: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first request on: the daemon is started once, whoever comes first."""
    monkeypatch.setenv("GPUEMU_HOME", str(tmp_path))
    with Client(daemon=daemon) as client:
        got = together(lambda number: mixed(client, number))
        want = [mixed(client, number) for number in range(THREADS)]
        assert got == want
        assert [g[:3] for g in got] == [(20, 0, True), (0, 20, False)] * (THREADS // 2)
        if daemon:
            import subprocess

            from gpuemu import _daemon

            subprocess.run([str(_daemon.find_binary()), "daemon", "stop"], check=True, capture_output=True, timeout=60)


def test_a_client_that_is_closed_by_another_thread_connects_again(client: Client) -> None:
    own = Client()
    stop = threading.Event()

    def close() -> None:
        while not stop.is_set():
            own.close()
            time.sleep(0.02)

    closing = threading.Thread(target=close)
    closing.start()
    try:
        for _ in range(20):
            assert own.ping()["protocol_version"] == 2
    finally:
        stop.set()
        closing.join()
        own.close()


def test_coroutines_run_at_the_same_time(client: Client) -> None:
    """Two kernels that wait for each other."""
    meeting = threading.Barrier(2, timeout=60)

    def kernel(inputs: dict[str, Any]) -> Any:
        if not meeting.broken and meeting.n_waiting < 2 and not met.is_set():
            meeting.wait()
            met.set()
        return relu(inputs)

    met = threading.Event()

    async def main() -> list[Any]:
        async with AsyncClient() as aio:
            return await asyncio.gather(*(aio.fuzz_op_client_side("relu", kernel, seed=s, **FEW) for s in (1, 2)))

    assert all(asyncio.run(main()))


def test_every_request_has_its_coroutine(client: Client) -> None:
    for name, method in vars(Client).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        ours = getattr(AsyncClient, name)
        assert inspect.iscoroutinefunction(ours), name
        if name not in ("close", "get_test_batch"):
            assert inspect.signature(ours) == inspect.signature(method), name


def test_results_and_errors_are_those_of_the_client(client: Client) -> None:
    async def main() -> None:
        async with AsyncClient(threads=2) as aio:
            wrong = await aio.fuzz_op_client_side("relu", lambda i: i["input"], seed=1, **FEW)
            assert not wrong and wrong.failed == 20
            cases = await aio.get_test_batch("relu", 3, 1)
            assert [c["seed"] for c in cases] == [c["seed"] for c in client.get_test_batch("relu", 3, 1)]
            with pytest.raises(ClientError, match="sotfmax"):
                await aio.get_test_case("sotfmax")
            assert await aio.run(lambda: threading.current_thread().name.startswith("gpuemu-async"))

    asyncio.run(main())
    with pytest.raises(ValueError, match="threads is 0"):
        AsyncClient(threads=0)


def test_a_cancelled_task_ends_at_once(client: Client) -> None:
    async def main() -> float:
        async with AsyncClient() as aio:
            slow = asyncio.ensure_future(aio.run(lambda: time.sleep(0.5)))
            await asyncio.sleep(0.05)
            began = time.monotonic()
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            return time.monotonic() - began

    assert asyncio.run(main()) < 0.4

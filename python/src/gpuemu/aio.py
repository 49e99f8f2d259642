"""The client for asyncio: every request as a coroutine. Requests run in threads, as many at once as asked for."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

from .client import Client

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["AsyncClient"]


def _awaited(
    method: Callable[Concatenate[Client, P], R],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]]:
    """A method of Client as a coroutine of AsyncClient."""

    @functools.wraps(method)
    async def call(self: AsyncClient, *args: Any, **kw: Any) -> Any:
        return await self.run(functools.partial(method, self.client, *args, **kw))

    return cast("Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]]", call)


def _batch(
    self: Client, /, op_name: str, count: int = 10, seed: int | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Client.get_test_batch as a list: nothing is streamed, all cases are in memory."""
    return list(self.get_test_batch(op_name, count, seed, **options))


class AsyncClient:
    """A client for asyncio: the methods of Client as coroutines, with their arguments and results.

    Requests run in threads of its own, so kernels and references that are passed are called there. A task that is
    cancelled ends at once; the request in its thread goes on, and its result is dropped.

    Args:
        socket_path, timeout_ms, config, start, daemon: as of Client.
        threads: how many requests run at once; others wait.

    Attributes:
        client: the Client whose methods run. It may be used beside it.

    Example:
        >>> import asyncio
        >>> async def main():
        ...     async with AsyncClient() as client:
        ...         one = client.validate_op("relu", {"input": x}, np.maximum(x, 0))
        ...         two = client.fuzz_op_client_side("softmax", my_softmax, 10, dtypes=["float32"])
        ...         return [bool(found) for found in await asyncio.gather(one, two)]
        >>> asyncio.run(main())
        [True, True]
    """

    def __init__(
        self, socket_path: str | None = None, timeout_ms: int = 30000, *, config: str | None = None, start: bool = True,
        daemon: bool | None = None, threads: int = 8,
    ) -> None:  # fmt: skip
        if threads < 1:
            raise ValueError(f"threads is {threads}, want at least 1")
        self.client = Client(socket_path, timeout_ms, config=config, start=start, daemon=daemon)
        self._pool = ThreadPoolExecutor(threads, "gpuemu-async")

    async def run(self, work: Callable[[], R]) -> R:
        """Runs a function in a thread of this client: a loop over a batch of cases, say."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: context.run(work))

    async def close(self) -> None:
        """Waits for the requests that run and closes the connections."""
        await asyncio.get_running_loop().run_in_executor(None, functools.partial(self._pool.shutdown, wait=True))
        self.client.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    ping = _awaited(Client.ping)
    validate_op = _awaited(Client.validate_op)
    submit_output = _awaited(Client.submit_output)
    check_gradients = _awaited(Client.check_gradients)
    compare = _awaited(Client.compare)
    fuzz_op_client_side = _awaited(Client.fuzz_op_client_side)
    get_test_case = _awaited(Client.get_test_case)
    get_test_batch = _awaited(_batch)
    fuzz_op = _awaited(Client.fuzz_op)
    get_result = _awaited(Client.get_result)
    list_results = _awaited(Client.list_results)
    list_failures = _awaited(Client.list_failures)
    store_baseline = _awaited(Client.store_baseline)
    reproduce = _awaited(Client.reproduce)
    replay = _awaited(Client.replay)
    minimize = _awaited(Client.minimize)
    calibrate = _awaited(Client.calibrate)
    fit_tolerance = _awaited(Client.fit_tolerance)
    emulate = _awaited(Client.emulate)
    compile_cuda = _awaited(Client.compile_cuda)
    lint_kernel = _awaited(Client.lint_kernel)

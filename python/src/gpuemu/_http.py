"""HTTP over a Unix socket: one kept connection a thread, errors of the engine as ClientError."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Union

from .results import ClientError, ConnectionFailed

JSON = "application/json"
CONNECT_TIMEOUT = 1.0  # seconds; a daemon accepts at once, whatever else it does
MAX_LINE = 1 << 26  # bytes of one event; a failure with its picture has some ten thousand

Body = Union[bytes, bytearray, memoryview]


class Response(http.client.HTTPResponse):
    """An answer that knows the connection it comes from."""

    connection: _UnixConnection


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a socket in the file system."""

    response_class = Response

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("gpuemu")
        self._path = path
        self._timeout = timeout

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(CONNECT_TIMEOUT)
            sock.connect(self._path)
            sock.settimeout(self._timeout)
        except BaseException:
            sock.close()
            raise
        self.sock = sock

    def answer(self) -> Response:
        response = self.getresponse()
        assert isinstance(response, Response)
        response.connection = self
        return response


class Transport:
    """Sends requests to the daemon on a socket. Threads have a connection each, and so have processes after a fork."""

    def __init__(self, path: str, timeout: float) -> None:
        self.path = path
        self.timeout = timeout
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._local = threading.local()
        self._open: dict[_UnixConnection, threading.Thread] = {}  # with the thread that uses it
        self._lock = threading.Lock()

    def close(self) -> None:
        """Closes all connections. Another request opens a new one."""
        with self._lock:
            connections, self._open = list(self._open), {}
        for connection in connections:
            connection.close()
        self._local = threading.local()

    def _connection(self) -> tuple[_UnixConnection, bool]:
        """The connection of this thread, and whether it has been used before."""
        if self._process != os.getpid():
            # After a fork both processes have the sockets: on one of them each would read answers of the other. The
            # lock may have been held by a thread that is not here. Closing takes nothing from the parent.
            inherited = self._open
            self._begin()
            for c in inherited:
                c.close()
        connection: _UnixConnection | None = getattr(self._local, "connection", None)
        if connection is not None and connection.sock is not None:
            return connection, True
        connection = _UnixConnection(self.path, self.timeout)
        self._local.connection = connection
        with self._lock:
            # Threads that have ended do not close theirs, and the daemon takes a limited number.
            ended = [c for c, thread in self._open.items() if not thread.is_alive()]
            for c in ended:
                del self._open[c]
            self._open[connection] = threading.current_thread()
        for c in ended:
            c.close()
        return connection, False

    def _drop(self, connection: _UnixConnection) -> None:
        connection.close()
        with self._lock:
            self._open.pop(connection, None)

    def give_up(self, response: Response) -> None:
        """Closes the connection of an answer that is not read to its end; those of other threads stay."""
        self._drop(response.connection)

    def request(
        self, method: str, path: str, body: Body | Iterable[Body] | None = None, media_type: str = JSON,
        length: int | None = None,
    ) -> Response:  # fmt: skip
        """Performs one request. The response must be read to its end before the next one of this thread.

        A kept connection that the daemon has closed since is replaced once, where the body can be sent again.
        """
        headers = {} if body is None else {"Content-Type": media_type}
        if length is not None:
            headers["Content-Length"] = str(length)
        while True:
            connection, used = self._connection()
            try:
                # A daemon that refuses before it has read all says why, and closes: the answer outlives the pipe.
                with contextlib.suppress(BrokenPipeError):
                    connection.request(method, path, body, headers)
                response = connection.answer()
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as exc:
                self._drop(connection)
                again = body is None or isinstance(body, (bytes, bytearray, memoryview))
                if used and again:
                    continue
                raise self._lost(exc) from exc
            except (OSError, http.client.HTTPException) as exc:
                self._drop(connection)
                raise self._lost(exc) from exc
            if response.status >= 400:
                raise self._refusal(response)
            return response

    def _lost(self, exc: Exception) -> ConnectionFailed:
        if isinstance(exc, (FileNotFoundError, ConnectionRefusedError)):
            return ConnectionFailed(
                f"no daemon answers on {self.path}", "daemon-unreachable", "gpuemu daemon start --background starts one"
            )
        if isinstance(exc, socket.timeout):  # an alias of TimeoutError from Python 3.10 on
            return ConnectionFailed(
                f"the daemon on {self.path} did not answer within {self.timeout:g} s", "daemon-timeout",
                "give Client a larger timeout_ms, or see what it is doing: gpuemu status",
            )  # fmt: skip
        return ConnectionFailed(f"the daemon on {self.path} went away: {exc or type(exc).__name__}", "daemon-lost",
                                "gpuemu daemon logs tells why; finished cases are stored")  # fmt: skip

    def _refusal(self, response: Response) -> ClientError:
        text = self.read(response)
        try:
            error = json.loads(text)
            return ClientError(error["message"], error.get("code", ""), error.get("hint", ""), error.get("pos", ""))
        except (ValueError, KeyError, TypeError):
            return ClientError(f"the daemon answered with status {response.status}: {text[:500]!r}")

    def read(self, response: Response, size: int | None = None) -> bytes:
        """Reads size bytes of a response, or all of it; a lost connection is a ConnectionFailed."""
        try:
            data = response.read(size) if size is not None else response.read()
        except (OSError, http.client.HTTPException) as exc:
            self.give_up(response)
            raise self._lost(exc) from exc
        if size is not None and len(data) < size:
            self.give_up(response)
            raise ConnectionFailed(
                f"the answer of the daemon on {self.path} ends too early", "daemon-lost", "gpuemu daemon logs tells why"
            )
        return data

    def readinto(self, response: Response, buffer: memoryview) -> None:
        """Fills buffer from a response."""
        at = 0
        while at < len(buffer):
            try:
                n = response.readinto(buffer[at:])
            except (OSError, http.client.HTTPException) as exc:
                self.give_up(response)
                raise self._lost(exc) from exc
            if n == 0:
                self.give_up(response)
                raise ConnectionFailed(
                    f"the answer of the daemon on {self.path} ends too early",
                    "daemon-lost",
                    "gpuemu daemon logs tells why",
                )
            at += n

    def json(self, method: str, path: str, body: Any | None = None) -> Any:
        """Performs a request with JSON in and out."""
        data = None if body is None else json.dumps(body).encode()
        response = self.request(method, path, data)
        text = self.read(response)
        try:
            return json.loads(text)
        except ValueError as exc:  # it ends too early, or is none
            self.give_up(response)
            raise ConnectionFailed(
                f"the answer of the daemon on {self.path} cannot be read: {exc}", "daemon-lost",
                "gpuemu daemon logs tells why",
            ) from exc  # fmt: skip

    def events(self, path: str, body: Any) -> Iterator[dict[str, Any]]:
        """Performs a request whose answer is a stream of events, and yields the data of each."""
        response = self.request("POST", path, json.dumps(body).encode())
        try:
            while True:
                try:
                    line = response.readline(MAX_LINE)
                except (OSError, http.client.HTTPException) as exc:
                    raise self._lost(exc) from exc
                if not line:
                    return
                if line.startswith(b"data:"):
                    yield json.loads(line[len(b"data:") :])
        finally:
            if not response.isclosed():
                self.give_up(response)  # a reader that stops in the middle gives the request up

"""The connection of a client: to a daemon, which it starts if none runs, or to an engine of its own."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

from . import _daemon, _launch
from ._http import Transport
from ._shared import Reserve
from .results import ClientError, ConnectionFailed

PROTOCOL_VERSION = 2  # of the HTTP API


class Connection:
    """What every request needs. The arguments are those of Client, with the time-out in seconds."""

    def __init__(
        self, socket_path: str | None, timeout: float, config: str | None, start: bool, daemon: bool | None
    ) -> None:
        if daemon is None:
            daemon = socket_path is not None or not _daemon.no_daemon()
        self._named = socket_path is not None
        self._own = not daemon
        self._transport = Transport(socket_path or _daemon.default_socket(), timeout)
        self._machine = Transport(self._transport.path, max(timeout, _launch.SILENCE))
        self._files = Reserve()  # of launches and runs
        self._config = _daemon.project_of(config)
        self._start = start
        self._checked = False
        self._judged = False  # whether it has had something judged that is stored
        self._known: int | None = None  # process of the daemon whose version is ours

    def _connect(self) -> Transport:
        """The transport to a daemon that answers and speaks our protocol. Starts one if need be."""
        if self._checked:
            return self._transport
        if self._own:
            self._use(_daemon.own_socket())
        try:
            ping = self._transport.json("GET", "/v1/ping")
        except ConnectionFailed as exc:
            if not self._start or self._own or exc.code != "daemon-unreachable":
                raise
            _daemon.start(self._transport.path)
            ping = self._transport.json("GET", "/v1/ping")
        own = self._other_version(ping)
        if own:
            warnings.warn(
                f"the daemon on {self._transport.path} is gpuemu {ping.get('version')}, this package has {own}: it is "
                "not used, and this process has an engine of its own (gpuemu daemon stop ends the daemon)",
                stacklevel=2,
            )  # fmt: skip
            self._own = True
            return self._connect()
        if ping.get("protocol") != PROTOCOL_VERSION:
            raise ClientError(
                f"the daemon on {self._transport.path} is gpuemu {ping.get('version')} and speaks protocol "
                f"{ping.get('protocol')}, this package speaks {PROTOCOL_VERSION}", "other-version",
                "gpuemu daemon stop ends it; the next request starts the right one",
            )  # fmt: skip
        self._checked = True
        return self._transport

    def _other_version(self, ping: Mapping[str, Any]) -> str:
        """The version of our engine, where a daemon that nobody named has another one. Asked once for each daemon."""
        if self._own or self._named or not self._start or ping.get("pid") == self._known:
            return ""
        self._known = ping.get("pid")
        return _daemon.other_version(ping.get("version", ""))

    def _use(self, path: str) -> None:
        """Sends further requests to another socket."""
        if self._transport.path != path:
            self._transport.close()
            self._machine.close()
            self._transport.path = self._machine.path = path

    def _fresh(self) -> Transport:
        """The transport after a sign of life: a daemon that was stopped since the last request is started again."""
        self._checked = False
        return self._connect()

    def _json(self, method: str, path: str, body: Any | None = None) -> Any:
        """A request with JSON in and out. A daemon that was stopped since the last request is started again."""
        transport = self._connect()
        try:
            return transport.json(method, path, body)
        except ConnectionFailed as exc:
            if exc.code != "daemon-unreachable":
                raise
            return self._fresh().json(method, path, body)

    def _request(self, **members: Any) -> dict[str, Any]:
        """The members that most requests share, and the given ones that are not None."""
        request: dict[str, Any] = {
            "python": sys.executable, "config": self._config, "env": _daemon.environment(),
        }  # fmt: skip
        request.update((k, v) for k, v in members.items() if v is not None)
        return request

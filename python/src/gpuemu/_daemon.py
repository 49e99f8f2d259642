"""Where things are (binary, home, socket, project), and how a daemon is started."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

from ._environment_gen import CARRIED, PASS, SECRET
from .results import ConnectionFailed

START_LIMIT = 30  # seconds; the command itself gives up after 20
OTHER_LIMIT = 10  # seconds for a daemon that another process starts at this moment


def home() -> Path:
    """The directory of sockets and results: GPUEMU_HOME, default ~/.gpuemu."""
    given = os.environ.get("GPUEMU_HOME")
    return Path(given) if given else Path.home() / ".gpuemu"


def default_socket() -> str:
    """The socket of the daemon: GPUEMU_SOCKET, default gpuemu.sock in the home."""
    return os.environ.get("GPUEMU_SOCKET") or str(home() / "gpuemu.sock")


def project_of(config: str | None = None, directory: str | None = None) -> str:
    """What requests say of the project: a gpuemu.toml, or the directory for which the engine is to find one.

    Args:
        config: path of the file, or of a directory; default: GPUEMU_CONFIG.
        directory: where the caller stands, if there is neither; default: the working directory.
    """
    return os.path.abspath(config or os.environ.get("GPUEMU_CONFIG") or directory or os.getcwd())


def environment() -> dict[str, str]:
    """The variables that requests carry: what the engine executes sees these, not those that a daemon started with."""
    asked = {name.strip() for name in os.environ.get(PASS, "").split(",")}
    return {k: v for k, v in os.environ.items() if k in asked or (_carried(k) and not _secret(k))}


_NAMES = frozenset(CARRIED)
_PREFIXES = tuple(name[:-1] for name in CARRIED if name.endswith("*"))


def _carried(name: str) -> bool:
    return name in _NAMES or name.startswith(_PREFIXES)


def _secret(name: str) -> bool:
    return any(s in name.upper() for s in SECRET)


def find_binary() -> str | None:
    """The gpuemu binary: GPUEMU_BINARY, the one installed with this package, or the first on PATH."""
    given = os.environ.get("GPUEMU_BINARY")
    if given:
        return given
    schemes = [sysconfig.get_path("scripts")]
    user = f"{os.name}_user"
    if user in sysconfig.get_scheme_names():
        schemes.append(sysconfig.get_path("scripts", user))
    for directory in schemes:
        candidate = os.path.join(directory, "gpuemu")
        if os.access(candidate, os.X_OK):
            return candidate
    return shutil.which("gpuemu")


def _binary(why: str) -> str:
    """The binary, which is needed."""
    binary = find_binary()
    if binary is None:
        raise ConnectionFailed(
            f"{why}, and there is no gpuemu binary to start one", "no-binary",
            "install a wheel with binaries, put gpuemu on PATH, or set GPUEMU_BINARY",
        )  # fmt: skip
    return binary


@functools.lru_cache(maxsize=4)
def version_of(binary: str) -> str:
    """The version of a binary; empty if it does not say."""
    try:
        done = subprocess.run(
            [binary, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, timeout=OTHER_LIMIT, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    words = done.stdout.split()
    return words[1] if len(words) > 1 else ""


def other_version(version: str) -> str:
    """The version of the engine that belongs to this package, where a daemon has another one; else empty."""
    binary = find_binary()
    own = version_of(binary) if binary else ""
    return own if own != version else ""


def no_daemon() -> bool:
    """Whether GPUEMU_NO_DAEMON asks for an engine of this process's own."""
    return os.environ.get("GPUEMU_NO_DAEMON", "0") not in ("", "0")


class _Own:
    """The engine of this process alone: a child on a socket of its own, with the store of the home. It ends with us."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        binary = _binary("no daemon is to be asked")
        self._dir = tempfile.mkdtemp(prefix="gpuemu-")
        self.socket = os.path.join(self._dir, "s")
        self._log = os.path.join(self._dir, "log")
        env = dict(os.environ, GPUEMU_SOCKET=self.socket)
        env.setdefault("GPUEMU_PYTHON", sys.executable)
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [binary, "daemon", "start", "--while-stdin"], env=env, stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        atexit.register(self.close)
        deadline = time.monotonic() + START_LIMIT
        while not _answers(self.socket, 0):
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = Path(self._log).read_text("utf-8", "replace").strip()
                self.close()
                raise ConnectionFailed(f"{binary} daemon start failed: {said}", "daemon-start")
            time.sleep(0.005)

    def alive(self) -> bool:
        """Whether it serves this process: after a fork it is that of the parent."""
        return self.owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        """Ends it and waits for its end."""
        if self.owner != os.getpid():
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(OTHER_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._dir, ignore_errors=True)


_own: _Own | None = None
_own_lock = threading.Lock()


def own_socket() -> str:
    """The socket of the engine of this process alone, which all its clients share; started when first asked for."""
    global _own
    with _own_lock:
        if _own is None or not _own.alive():
            _own = _Own()
        return _own.socket


def start(socket_path: str) -> None:
    """Starts a daemon that answers on socket_path; returns when it does. ConnectionFailed says what is missing."""
    binary = _binary(f"no daemon answers on {socket_path}")
    env = dict(os.environ, GPUEMU_SOCKET=socket_path)
    env.setdefault("GPUEMU_PYTHON", sys.executable)
    try:
        done = subprocess.run(
            [binary, "daemon", "start", "--background", "--on-demand"],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=START_LIMIT,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise ConnectionFailed(
            f"{binary} daemon start failed: {exc}", "daemon-start", "run it by hand to see why"
        ) from exc
    # Processes that begin together all find no daemon (the workers of pytest-xdist do); one of them starts it.
    other = "[daemon-already-running]" in done.stdout or "[cli-daemon-running]" in done.stdout
    if other and _answers(socket_path, time.monotonic() + OTHER_LIMIT):
        return
    if done.returncode != 0:
        raise ConnectionFailed(f"{binary} daemon start failed: {done.stdout.strip()}", "daemon-start")


def _answers(socket_path: str, deadline: float) -> bool:
    """Whether somebody listens on the socket before the deadline."""
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            try:
                sock.connect(socket_path)
                return True
            except OSError:  # not yet there
                if time.monotonic() > deadline:
                    return False
        time.sleep(0.02)

"""Where things are (binary, home, socket, project), and how a daemon is started."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

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


def find_binary() -> str | None:
    """The gpuemu binary: GPUEMU_BINARY, the one installed with this package, or the first on PATH."""
    given = os.environ.get("GPUEMU_BINARY")
    if given:
        return given
    name = "gpuemu.exe" if sys.platform == "win32" else "gpuemu"
    schemes = [sysconfig.get_path("scripts")]
    user = f"{os.name}_user"
    if user in sysconfig.get_scheme_names():
        schemes.append(sysconfig.get_path("scripts", user))
    for directory in schemes:
        candidate = os.path.join(directory, name)
        if os.access(candidate, os.X_OK):
            return candidate
    return shutil.which(name)


def start(socket_path: str) -> None:
    """Starts a daemon that answers on socket_path; returns when it does. ConnectionFailed says what is missing."""
    binary = find_binary()
    if binary is None:
        raise ConnectionFailed(
            f"no daemon answers on {socket_path}, and there is no gpuemu binary to start one", "no-binary",
            "install a wheel with binaries, put gpuemu on PATH, or set GPUEMU_BINARY",
        )  # fmt: skip
    env = dict(os.environ, GPUEMU_SOCKET=socket_path)
    env.setdefault("GPUEMU_PYTHON", sys.executable)
    try:
        done = subprocess.run(
            [binary, "daemon", "start", "--background"],
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

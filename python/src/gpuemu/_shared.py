"""Files that this process and the daemon share: tensors cross by memory, only headers by the socket.

The client owns the file and maps it; the daemon reads and writes it with system calls, so that nothing one side does to
the file can crash the other.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import glob
import mmap
import os
import stat
import tempfile
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from .results import ClientError

GRAIN = 1 << 20  # bytes; the file grows by whole multiples
MEMORY = "/dev/shm"
ROOM = 1 << 30  # bytes; a run has five files of some ten million bytes. Containers often have 64 MiB there
PREFIX = "gpuemu-shared-"
STALE = 60  # seconds; a younger file may not be locked yet
KEPT = 8  # files of a Reserve that nobody uses; a fuzz run has seven
KEPT_BYTES = 1 << 26  # that such a file may have


class SharedFile:
    """A private file in memory where the system has enough of it (/dev/shm), else in that for temporary files.

    It is locked for as long as its process lives: a file that nobody has locked was left by one that crashed, and the
    next process removes it.
    """

    _fd = -1  # until there is a file

    def __init__(self) -> None:
        directory = _directory()
        _sweep(directory)
        # mkstemp: mode 0600, a name that nobody can foresee, never an existing file.
        self._fd, self.path = tempfile.mkstemp(prefix=PREFIX, dir=directory)
        self._process = os.getpid()
        with contextlib.suppress(OSError):  # a file system without locks: nobody else gets one either
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._map: mmap.mmap | None = None
        self._size = 0

    def view(self, size: int) -> np.ndarray[Any, Any]:
        """The first size bytes. Earlier views stay valid: a map that is outgrown lives as long as they do."""
        if size == 0:
            return np.empty(0, np.uint8)
        if self._map is None or self._size < size:
            length = max(os.fstat(self._fd).st_size, -(-size // GRAIN) * GRAIN)
            if os.fstat(self._fd).st_size < length:
                self._grow(length)
            self._map = mmap.mmap(self._fd, length)
            self._size = length
        return np.frombuffer(self._map, np.uint8, size)

    def _grow(self, length: int) -> None:
        """Makes the file larger. Its blocks are there afterwards: a write to one that is not would kill the process."""
        try:
            if hasattr(os, "posix_fallocate"):  # not on macOS
                os.posix_fallocate(self._fd, 0, length)
            else:
                os.ftruncate(self._fd, length)
        except OSError as exc:
            if exc.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise ClientError(
                f"{self.path} cannot have {length} bytes: {exc.strerror}", "no-room",
                f"make room in {os.path.dirname(self.path)} (of a container: --shm-size), or choose smaller shapes",
            ) from exc  # fmt: skip

    def usable(self) -> bool:
        """Whether the file is still that of this process, is not too large to be kept, and has its name."""
        mine = self._fd >= 0 and self._process == os.getpid()
        return mine and self._size <= KEPT_BYTES and os.fstat(self._fd).st_nlink > 0

    def close(self) -> None:
        """Removes the file. Views stay valid."""
        if self._fd < 0:
            return
        if self._process == os.getpid():  # after a fork it is the parent's
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        os.close(self._fd)
        self._fd = -1
        self._map = None

    def __enter__(self) -> SharedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Reserve:
    """Files that are used again: to make one, and to touch its pages for the first time, takes longer than to fill it.

    Threads take different files.
    """

    def __init__(self) -> None:
        self._files: list[SharedFile] = []
        weakref.finalize(self, _close_all, self._files)  # also at the end of the interpreter

    @contextlib.contextmanager
    def file(self) -> Iterator[SharedFile]:
        """A file for a while, with anything in it."""
        shared = self.take()
        try:
            yield shared
        except BaseException:  # the daemon may still write to it
            shared.close()
            raise
        self.give(shared)

    def give(self, shared: SharedFile) -> None:
        """Keeps a file that nobody reads or writes any more, or closes it."""
        if len(self._files) < KEPT and shared.usable():
            self._files.append(shared)
        else:
            shared.close()

    def take(self) -> SharedFile:
        """A file with anything in it, the caller's until it is given back or closed."""
        while self._files:
            with contextlib.suppress(IndexError):  # another thread was faster
                shared = self._files.pop()
                if shared.usable():
                    return shared
                shared.close()
        return SharedFile()

    def close(self) -> None:
        """Removes the files that nobody uses."""
        _close_all(self._files)


def _close_all(files: list[SharedFile]) -> None:
    while files:
        with contextlib.suppress(IndexError):  # another thread was faster
            files.pop().close()


def _directory() -> str:
    """Where files are made: in memory if there is room."""
    try:
        room = os.statvfs(MEMORY)
        if os.access(MEMORY, os.W_OK) and room.f_bavail * room.f_frsize >= ROOM:
            return MEMORY
    except OSError:  # no such directory
        pass
    return tempfile.gettempdir()


@functools.cache  # once a process is enough
def _sweep(directory: str) -> None:
    """Removes files of processes of this user that ended without doing so."""
    for path in glob.glob(os.path.join(glob.escape(directory), PREFIX + "*")):
        with contextlib.suppress(OSError):  # somebody else's, or removed by somebody else
            info = os.lstat(path)
            mine = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and info.st_mode & 0o777 == 0o600
            if not mine or time.time() - info.st_mtime < STALE:
                continue
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(fd)

"""Files that this process and the daemon share: tensors cross by memory, only headers by the socket.

The client owns the file and maps it; the daemon reads and writes it with system calls, so that nothing one side does to
the file can crash the other.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from typing import Any

import numpy as np

GRAIN = 1 << 20  # bytes; the file grows by whole multiples


class SharedFile:
    """A private file in memory where the system has such (/dev/shm), else in the directory for temporary files."""

    _fd = -1  # until there is a file

    def __init__(self) -> None:
        directory = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
        # mkstemp: mode 0600, a name that nobody can foresee, never an existing file.
        self._fd, self.path = tempfile.mkstemp(prefix="gpuemu-", dir=directory)
        self._map: mmap.mmap | None = None
        self._size = 0

    def view(self, size: int) -> np.ndarray[Any, Any]:
        """The first size bytes. Earlier views stay valid: a map that is outgrown lives as long as they do."""
        if size == 0:
            return np.empty(0, np.uint8)
        if self._map is None or self._size < size:
            length = max(os.fstat(self._fd).st_size, -(-size // GRAIN) * GRAIN)
            if os.fstat(self._fd).st_size < length:
                os.ftruncate(self._fd, length)
            self._map = mmap.mmap(self._fd, length)
            self._size = length
        return np.frombuffer(self._map, np.uint8, size)

    def close(self) -> None:
        """Removes the file. Views stay valid."""
        if self._fd < 0:
            return
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

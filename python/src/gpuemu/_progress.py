"""A progress bar for calls that take long: on a terminal or in a notebook, on standard error; elsewhere nothing."""

from __future__ import annotations

import os
import shutil
import sys
import time

from . import _escape

DELAY = 2.0  # seconds before a bar appears: short calls stay silent
PERIOD = 0.1  # seconds between two pictures


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    running = shell.get_ipython()
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"


class Progress:
    """Shows done, total and failed. shown=None decides by where standard error goes."""

    def __init__(self, label: str, total: int, shown: bool | None = None) -> None:
        self._label = label
        self._total = max(total, 1)
        stream = sys.stderr  # None in a process without a console
        visible = stream is not None and (stream.isatty() or _in_notebook() if shown is None else shown)
        self._visible = visible and not os.environ.get("GPUEMU_NO_PROGRESS")
        self._start = self._last = time.monotonic()
        self._drawn = False

    def update(self, done: int, failed: int = 0) -> None:
        """Draws the bar anew, at most every PERIOD, and not within DELAY of the beginning."""
        if not self._visible:
            return
        now = time.monotonic()
        if now - self._start < DELAY or (now - self._last < PERIOD and done < self._total):
            return
        self._last = now
        elapsed = now - self._start
        rate = done / elapsed
        left = (self._total - done) / rate if rate > 0 else 0.0
        text = f" {done}/{self._total}  {rate:.0f}/s  {left:.0f} s left"
        if failed:
            text += f"  {failed} failed"
        columns = shutil.get_terminal_size().columns - 1
        width = max(5, min(40, columns - len(self._label) - len(text) - 4))
        full = min(width, width * done // self._total)
        line = f"{_escape.text(self._label)} [{'█' * full}{'·' * (width - full)}]{text}"
        sys.stderr.write("\r" + line[:columns].ljust(columns))
        sys.stderr.flush()
        self._drawn = True

    def close(self) -> None:
        """Wipes the bar."""
        if self._drawn:
            columns = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r" + " " * columns + "\r")
            sys.stderr.flush()
            self._drawn = False

"""python -m pytest_gpu_proof …: the binary gpu-proof with the same arguments."""

from __future__ import annotations

import os
import sys

from . import _escape
from .binary import BinaryFailed, find_binary


def main() -> int:
    """Executes the binary in place of this process."""
    try:
        command = [find_binary(), *sys.argv[1:]]
        sys.stdout.flush()
        os.execv(command[0], command)
    except (BinaryFailed, OSError) as exc:
        print(_escape.block(f"gpu-proof: {exc}"), file=sys.stderr)
    return 3  # it could not be started: nothing is known about the receipt


if __name__ == "__main__":
    sys.exit(main())

"""Fixtures: a daemon of the tests' own, in a private home, with the binary of this checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuemu import Client

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Sets GPUEMU_HOME for the whole run, and ends the daemon that lives there."""
    home = tmp_path_factory.mktemp("home")
    binary = os.environ.get("GPUEMU_BINARY") or str(ROOT / "bin" / "gpuemu")
    if not os.access(binary, os.X_OK):
        pytest.exit(f"there is no {binary}: make build makes it", returncode=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUEMU_HOME", str(home))
        patch.setenv("GPUEMU_BINARY", binary)
        patch.setenv("PYTHONPATH", str(ROOT / "python" / "src"))  # for interpreters that tests start
        patch.setenv("GPUEMU_SEED", "1")  # no test depends on the draw of a day
        for name in ("GPUEMU_SOCKET", "GPUEMU_CONFIG", "GPUEMU_PYTHON", "GPUEMU_NO_DAEMON"):
            patch.delenv(name, raising=False)
        yield home
        subprocess.run([binary, "daemon", "stop"], check=False, capture_output=True, timeout=60)


@pytest.fixture(scope="session")
def client(private_home: Path) -> Iterator[Client]:
    """A client of that daemon."""
    with Client() as c:
        yield c

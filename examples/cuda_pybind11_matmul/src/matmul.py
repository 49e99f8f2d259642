"""The extension module that build.sh builds with pybind11."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build"))
from matmul_ext import matmul

__all__ = ["matmul"]

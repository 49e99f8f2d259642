"""Projects that gpuemu init writes: the kernel itself runs, or nothing does. What is not installed is not run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuemu import _daemon

# The name of the framework, its module, and a fault to plant into its softmax.
FRAMEWORKS = [
    ("pytorch", "torch", "return y.to(", "return (y + 1).to("),
    ("jax", "jax", "y.astype(x.dtype)", "(y + 1).astype(x.dtype)"),
    ("tensorflow", "tensorflow", "tf.cast(y, x.dtype)", "tf.cast(y + 1, x.dtype)"),
    ("triton", "triton", "tl.exp(values - top) / total", "tl.exp(values - top) / total + 1"),
]


class Project:
    """A directory with a home of its own for gpuemu."""

    def __init__(self, where: Path) -> None:
        self.where = where / "project"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("GPUEMU_")}
        self.env.update(GPUEMU_HOME=str(where / "home"), GPUEMU_PYTHON=sys.executable)

    def gpuemu(self, *args: str) -> tuple[int, str]:
        command = [str(_daemon.find_binary()), *args]
        where = self.where if self.where.is_dir() else None
        done = subprocess.run(
            command, cwd=where, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.returncode, done.stdout


@pytest.mark.parametrize(("framework", "module", "right", "wrong"), FRAMEWORKS)
def test_a_new_project_runs_its_kernel(tmp_path: Path, framework: str, module: str, right: str, wrong: str) -> None:
    project = Project(tmp_path)
    status, said = project.gpuemu("init", "-t", str(project.where), "--framework", framework)
    assert status == 0, said
    installs = f"{sys.executable} -m pip install {module}"
    kernel = project.where / "kernels" / "softmax.py"
    source = kernel.read_text()
    if importlib.util.find_spec(module) is None:
        assert f"the kernels are not run until {installs}" in said
        status, said = project.gpuemu("test", "--quick")
        assert (status, installs in said) == (3, True), said
    else:
        assert installs not in said
        status, said = project.gpuemu("test", "--quick")
        assert status == 0, said
        assert source.count(right) == 1
        kernel.write_text(source.replace(right, wrong))
        status, said = project.gpuemu("test", "--quick")
        assert (status, "FAIL softmax float32" in said) == (1, True), said
    kernel.write_text(source + "def (\n")
    status, said = project.gpuemu("test", "--quick")
    assert (status, "SyntaxError: invalid syntax (softmax.py, line " in said) == (1, True), said

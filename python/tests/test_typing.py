"""What type checkers of users say: a program without errors, in pyright's strict mode, and no public type unknown."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "python" / "src"
PROGRAM = ROOT / "python" / "tests" / "typing" / "user.py"


def pyright(directory: Path, *arguments: str) -> str:
    """What pyright prints, run in a directory with this interpreter and package."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    env = {**os.environ, "PYTHONPATH": str(SOURCES), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *arguments]
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=600, check=False)
    if "informations" not in done.stdout and "Type completeness" not in done.stdout:
        pytest.skip(f"pyright does not run: it needs node, and a network once: {(done.stdout + done.stderr)[-200:]}")
    return done.stdout


def test_a_program_of_a_user(tmp_path: Path) -> None:
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    text = PROGRAM.read_text(encoding="utf-8")
    (tmp_path / "right.py").write_text(text, encoding="utf-8")
    mistakes = {
        "client.validate_op(\"relu\"": "client.validate_op(7",
        "iterations=3, dtypes=[np.float32])": "iterations=\"3\", dtypes=[np.float32])",
        "client.fuzz_op_client_side(\"relu\", kernel, 3, seed=1)": "client.fuzz_op_client_side(\"relu\", 3, seed=1)",
        "max_size=8": "maxsize=8",
    }  # fmt: skip
    for number, (right, wrong) in enumerate(mistakes.items()):
        assert right in text
        (tmp_path / f"wrong{number}.py").write_text(text.replace(right, wrong, 1), encoding="utf-8")
    said = pyright(tmp_path)
    found = set(re.findall(r"(\w+)\.py:\d+:\d+ - error", said))
    assert found == {f"wrong{number}" for number in range(len(mistakes))}, said


def test_no_public_type_is_unknown(tmp_path: Path) -> None:
    said = pyright(tmp_path, "--verifytypes", "gpuemu", "--ignoreexternal")
    exported = re.search(r'Symbols exported by "gpuemu": (\d+)', said)
    assert exported and int(exported[1]) > 500, said
    known, unknown = re.findall(r"With known type: (\d+)", said), re.findall(r"With unknown type: (\d+)", said)
    assert int(known[0]) > 500 and [int(n) for n in unknown] == [0, 0], said[-3000:]

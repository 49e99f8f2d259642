"""What the plugin prints itself: names of tests and paths, by the rules that the client has."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpu_proof import _escape
from pytest_gpu_proof.recorder import Recorder


def test_the_rules_are_those_of_the_client() -> None:
    """The client's tests hold its file against the engine's known answers."""
    root = Path(__file__).resolve().parents[3]
    assert Path(_escape.__file__).read_bytes() == (root / "python/src/gpuemu/_escape.py").read_bytes()


def test_names_of_tests(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal reporter the lines go to standard error."""
    recorder = Recorder.__new__(Recorder)
    recorder._config = pytester.parseconfig("-p", "no:terminal")
    recorder._say("  test_a.py::test[##[set-output]\x1b[31m\u202e\n::error::x]")
    assert capsys.readouterr().err == "[gpu-proof]   test_a.py::test[#\\x23[set-output]\\x1b[31m\\u202e\\n::error::x]\n"

"""Text from outside on terminals and in logs: the known answers of the engine."""

from __future__ import annotations

from typing import Any

import pytest
import vectors

from gpuemu import ClientError, ValidationResult, _escape
from gpuemu.report import describe

EVIL = "MARK\x1b[31m\n::error::x\n##[set-output name=x;]y\u202e\u200b\x9b"


@pytest.mark.parametrize("v", vectors.read("escape/text-v1.json", "texts"), ids=lambda v: ascii(v["in"]))
def test_known_answers(v: dict[str, Any]) -> None:
    assert _escape.text(v["in"]) == v["text"]
    assert _escape.line(v["in"]) == v["line"]
    assert _escape.line(v["line"]) == v["line"]


def test_block() -> None:
    assert _escape.block("one\r\n::two\n\x1b[31mthree\udcff") == "one\n\\x3a:two\n\\x1b[31mthree\\xff"


def test_what_is_printed() -> None:
    """A result, its report and an error show what a kernel said, and none of it as it was."""
    findings = [{"kind": EVIL, "name": EVIL, "sentence": EVIL}]
    raw = {"stderr": EVIL}
    result = ValidationResult(False, 1, "softmax", message=EVIL, hint=EVIL, case="case", findings=findings, raw=raw)
    simplest = ValidationResult(False, 1, "softmax", message=EVIL + "2", case=EVIL)
    for printed in (str(result), describe(result, simplest, "pytest x"), str(ClientError(EVIL, "code", EVIL, EVIL))):
        assert "MARK\\x1b[31m" in printed
        assert not any(c != "\n" and not c.isprintable() for c in printed)
        assert "##" not in printed
        assert not any(part.lstrip().startswith("::") for part in printed.split("\n"))

"""The seeded fuzzer and the calibration with the engine itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu.client import Client
from gpuemu.fuzz import FuzzConfig, SeededFuzzer
from gpuemu.tolerances import calibrate_tolerance

SMALL = FuzzConfig(max_dims=2, max_size=16, iterations=8, layouts=["contiguous", "strided"])


def relu(inputs: dict[str, Any]) -> Any:
    return np.maximum(inputs["input"], 0)


def wrong(inputs: dict[str, Any]) -> Any:
    return inputs["input"]


def test_run_with_reference(client: Client) -> None:
    good = SeededFuzzer(3, SMALL).run(relu, reference=relu, client=client)
    assert (good.total, good.passed, good.failed) == (8, 8, 0)
    bad = SeededFuzzer(3, SMALL).run(wrong, reference=relu, client=client, tolerance={"atol": 1e-6, "rtol": 0})
    assert bad.failed >= 6 and bad.failures[0].op_name == "wrong" and bad.failures[0].verdict == "fail"


def test_run_with_an_operator(client: Client) -> None:
    assert SeededFuzzer(3, SMALL).run(relu, client=client).passed == 8, (
        "the name of the function is that of the operator"
    )
    assert SeededFuzzer(3, SMALL).run(wrong, op="relu", client=client).failed >= 6
    with pytest.raises(ValueError, match=r"'wrong' names no operator that the engine knows"):
        SeededFuzzer(3, SMALL).run(wrong, client=client)


def test_calibration(client: Client) -> None:
    """The tolerance of a float32 sum against a float64 one: some units in the last place, and not more."""

    def single(x: Any) -> Any:
        return np.cumsum(x, dtype=np.float32)[-1:]

    def double(x: Any) -> Any:
        return np.sum(x, dtype=np.float64, keepdims=True)

    fitted = calibrate_tolerance(single, double, [(1000,)], "float32", 60, client=client)
    assert 1e-7 < fitted.atol < 1e-3 and fitted.rtol < 1e-5

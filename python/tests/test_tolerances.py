"""Tolerances: the engine's numbers, both interfaces, and calibration with a client that records calls."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import vectors

from gpuemu import Client, ClientError
from gpuemu.fuzz import generate_random_tensor
from gpuemu.rng import derive_seed
from gpuemu.tolerances import (
    _PROFILES,
    DEFAULT_TOLERANCES,
    FRAMEWORK_MULTIPLIERS,
    ToleranceConfig,
    ToleranceProfile,
    calibrate_tolerance,
    compare_tolerances,
    get_recommended_tolerance,
)


def both(value: float) -> ToleranceConfig:
    return ToleranceConfig(value, value)


def test_numbers_of_the_engine() -> None:
    want = {p["name"]: p["values"] for p in vectors.read("tolerance/profiles-v1.json", "profiles")}
    assert want == _PROFILES
    for name, values in want.items():
        for dtype, value in values.items():
            assert ToleranceProfile.get(name).get(dtype) == both(value)


def test_config() -> None:
    assert ToleranceConfig.strict() == both(1e-7) and ToleranceConfig.relaxed() == both(1e-3)
    assert ToleranceConfig.strict("float64") == both(1e-12)
    assert ToleranceConfig.for_dtype("float32") == ToleranceConfig.for_dtype("float32", "pytorch") == both(1e-5)
    assert ToleranceConfig.for_dtype("float16", "jax").atol == pytest.approx(0.015)
    assert ToleranceConfig.for_dtype("int32") == both(0.0)
    assert ToleranceConfig(1e-3, 2e-3).scale(2) == ToleranceConfig(2e-3, 4e-3)
    with pytest.raises(AttributeError):
        both(1.0).atol = 2.0  # type: ignore[misc]


def test_config_reads_like_a_dict() -> None:
    tolerance = ToleranceConfig(2.5e-6, 3.1e-6)
    assert tolerance["atol"] == 2.5e-6 and tolerance["rtol"] == 3.1e-6
    assert dict(tolerance) == tolerance.to_dict() == {"atol": 2.5e-6, "rtol": 3.1e-6}
    assert "atol" in tolerance and "name" not in tolerance
    assert str(tolerance) == '{"atol": 2.5e-06, "rtol": 3.1e-06}'
    assert json.loads(str(tolerance)) == tolerance.to_dict()
    with pytest.raises(KeyError):
        tolerance["max"]


@pytest.mark.parametrize("value", [-1e-9, float("nan"), float("inf")])
def test_wrong_numbers(value: float) -> None:
    with pytest.raises(ValueError, match="atol must be a finite number that is not negative"):
        ToleranceConfig(value, 0)
    with pytest.raises(ValueError, match="rtol must be"):
        ToleranceConfig(0, value)


def test_profiles() -> None:
    testing = ToleranceProfile.for_testing()
    assert isinstance(testing, ToleranceConfig) and testing == ToleranceProfile.get("testing")
    assert (testing.name, testing.atol, testing.rtol, testing["atol"]) == ("testing", 1e-3, 1e-3, 1e-3)
    assert testing.get("float64") == both(1e-8) and testing.get("int8") == both(0.0)
    assert ToleranceProfile.for_production().atol == 1e-7
    assert ToleranceProfile.for_cross_framework().rtol == 1e-4
    assert ToleranceProfile.get("cross_framework") == ToleranceProfile.get("cross-framework")
    pair = ToleranceProfile.for_cross_framework("pytorch", "jax")
    assert pair.name == "pytorch_to_jax" and pair.get("float32").atol == pytest.approx(1e-5 * 2.25)
    own = ToleranceProfile("own", {"float16": both(0.5)})
    assert own.get("float16") == both(0.5) and own.get("float64") == both(1e-10) and own.atol == 1e-5
    assert own.scale(2) == both(2e-5) and own.to_dict() == {"atol": 1e-5, "rtol": 1e-5}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ToleranceProfile.get("testin"), "unknown tolerance profile 'testin': known are default, strict"),
        (lambda: ToleranceProfile.for_testing().get("float31"), "unknown dtype 'float31'"),
        (lambda: ToleranceProfile("own", {"floats": both(1.0)}), "unknown dtype 'floats'"),
        (lambda: ToleranceConfig.for_dtype("float32", "theano"), "unknown framework 'theano': known are numpy"),
        (lambda: ToleranceProfile.for_cross_framework("numpy", "theano"), "unknown framework"),
    ],
)
def test_wrong_names(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_recommended() -> None:
    assert get_recommended_tolerance("float32") == both(1e-5)
    assert get_recommended_tolerance("float32", "jax", "Attention").atol == pytest.approx(1e-5 * 1.5 * 2.5)
    assert get_recommended_tolerance("float64", operation="own_op") == both(1e-10)


def test_comparison() -> None:
    got = compare_tolerances(ToleranceConfig(1e-3, 2e-3), ToleranceConfig(2e-3, 4e-3))
    assert got == {"atol_ratio": "0.50x", "rtol_ratio": "0.50x", "a_stricter": True, "b_stricter": False}
    got = compare_tolerances(ToleranceConfig(1e-3, 2e-3), ToleranceConfig(0, 4e-3))
    assert got == {"atol_ratio": "inf", "rtol_ratio": "0.50x", "a_stricter": False, "b_stricter": False}


BINS = [{"want": 4.0, "max_abs": 1e-6, "count": 6}]


class FakeClient:
    """Records calls. Every comparison finds an error that grows by one."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.compared: list[tuple[Any, Any]] = []
        self.fits: list[tuple[Any, ...]] = []

    def compare(self, got: Any, want: Any, tolerance: Any = None, errors: bool = False) -> dict[str, Any]:
        assert errors
        self.compared.append((got, want))
        if self.broken:
            return {"passed": False, "message": "output: shape [2], want [3]", "outputs": [{}]}
        return {"passed": True, "outputs": [{"max_abs": float(len(self.compared)), "max_want": 8.0, "ulp": 1,
                                             "errors": BINS}]}  # fmt: skip

    def fit_tolerance(self, dtype: str, samples: Any, percentile: float, factor: float) -> dict[str, Any]:
        self.fits.append((dtype, samples, percentile, factor))
        miss = {"error": "zeros", "size": 1, "below": 0.25, "share": 0.125}
        return {"atol": 0.25, "rtol": 0.0, "fitted": 50, "held_out": 50, "false_alarms": 1, "misses": [miss]}

    def calibrate(self, op_name: str, dtype: str, iterations: int) -> list[dict[str, Any]]:
        assert (op_name, iterations) == ("my_op", 7)
        return [{"op": op_name, "dtype": "float32", "atol": 2.5e-6, "rtol": 3.1e-6, "fitted": 50}]


def candidate(x: Any, y: Any) -> Any:
    x += y
    return x


def reference(x: Any, y: Any) -> Any:
    return x.astype(np.float64) + y


SHAPES = [(2, 3), (3,)]


@pytest.mark.parametrize("form", ["documented", "published"])
def test_calibration_of_two_functions(form: str) -> None:
    client = FakeClient()
    if form == "documented":
        got = calibrate_tolerance(candidate, reference, SHAPES, "float16", 3, client=client)
        assert client.fits[0][2:] == (99.0, 2.0)
    else:
        got = calibrate_tolerance(
            reference_fn=reference, test_fn=candidate, input_shapes=SHAPES, dtype="float16", n_samples=3, seed=42,
            percentile=95.0, safety_margin=1.5, client=client,
        )  # fmt: skip
        assert client.fits[0][2:] == (95.0, 1.5)
    assert got == ToleranceConfig(0.25, 0.0) and ToleranceConfig(0.25, 0.0) == got != ToleranceConfig(0.5, 0.0)
    assert got.accepted == 0.98 and got.report() == (
        "atol 0.25, rtol 0, fitted to 50 runs\naccepts 49 of 50 held-out conforming runs (98.0 %)\n"
        "misses an error of zeros where |want| <= 0.25: 12 % of the values"
    )
    samples = [{"max_abs": float(i), "max_want": 8.0, "bins": BINS} for i in (1, 2, 3)]
    assert client.fits[0][:2] == ("float16", samples)
    for i, (out, want) in enumerate(client.compared):
        case = derive_seed(42, f"iter_{i}")
        x, y = (generate_random_tensor(derive_seed(case, f"input_{k}"), s, "float16") for k, s in enumerate(SHAPES))
        assert np.array_equal(out, x + y)
        assert np.array_equal(want, x.astype(np.float64) + y), "the reference does not see what the candidate wrote"
    assert len(client.compared) == 3 and not np.array_equal(client.compared[0][0], client.compared[1][0])


def test_calibration_of_an_operator() -> None:
    got = calibrate_tolerance(FakeClient(), "my_op", dtype="float32", iterations=7)
    assert str(got) == '{"atol": 2.5e-06, "rtol": 3.1e-06}'
    with pytest.raises(ValueError, match="my_op was not calibrated for float64, only for float32"):
        calibrate_tolerance(FakeClient(), "my_op", dtype="float64", iterations=7)
    with pytest.raises(TypeError, match="needs a Client first, not a function"):
        calibrate_tolerance(candidate, "my_op")


def test_wrong_calibrations() -> None:
    with pytest.raises(ValueError, match=r"sample 0 \(seed \d+\): output: shape \[2\], want \[3\]"):
        calibrate_tolerance(candidate, reference, SHAPES, client=FakeClient(broken=True))
    with pytest.raises(TypeError, match="exactly one of op_fn and test_fn"):
        calibrate_tolerance(candidate, reference, SHAPES, test_fn=candidate)
    with pytest.raises(TypeError, match="exactly one of shapes and input_shapes"):
        calibrate_tolerance(candidate, reference)
    with pytest.raises(TypeError, match="ref_fn is a int: pass two functions"):
        calibrate_tolerance(candidate, 3, SHAPES)
    with pytest.raises(ValueError, match="unknown dtype"):
        calibrate_tolerance(candidate, reference, SHAPES, "float31", client=FakeClient())


def test_calibration_fits_both_parts(client: Client) -> None:
    """A tanh in float32 is off by parts of its value: small values keep a small tolerance, and zeros do not pass."""
    got = calibrate_tolerance(np.tanh, lambda x: np.tanh(x.astype(np.float64)), [(256,)], client=client)
    assert 2.0**-25 < got.rtol < 1e-6 and got.atol < 1e-12
    assert (got.fitted, got.held_out) == (50, 50) and got.accepted >= 0.9
    assert [miss["error"] for miss in got.misses] == ["zeros", "10 % off", "1 % off", "0.1 % off"]
    assert all(miss["share"] == 0 for miss in got.misses), got.report()
    small = np.full(8, 1e-6, np.float32)
    assert client.compare(np.tanh(small), np.tanh(small.astype(np.float64)), tolerance=got)
    assert not client.compare(small * 0, np.tanh(small.astype(np.float64)), tolerance=got), "zeros for small values"


def test_calibration_of_a_sum_that_cancels(client: Client) -> None:
    def summed(x: Any) -> Any:
        return np.cumsum(x, dtype=np.float32)[[63, 127, 255]]

    got = calibrate_tolerance(summed, lambda x: summed64(x), [(256,)], client=client)
    assert 1e-8 < got.atol < 1e-4 and got.rtol < 1e-4
    zeros = got.misses[0]
    assert zeros["error"] == "zeros" and zeros["below"] == pytest.approx(got.atol / (1 - got.rtol))
    assert "misses an error of zeros where |want| <= " in got.report()


def summed64(x: Any) -> Any:
    return np.cumsum(x.astype(np.float64))[[63, 127, 255]]


def test_calibration_refuses_zeros(client: Client) -> None:
    with pytest.raises(ClientError, match=r"the errors are as large as the values: .* would accept zeros for 100 %"):
        calibrate_tolerance(lambda x: x * 0, lambda x: np.tanh(x.astype(np.float64)), [(64,)], client=client)


def test_names_of_the_published_package() -> None:
    assert DEFAULT_TOLERANCES["float32"] == ToleranceConfig.for_dtype("float32")
    assert FRAMEWORK_MULTIPLIERS["jax"] == 1.5 and FRAMEWORK_MULTIPLIERS["numpy"] == 1.0

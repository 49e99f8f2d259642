"""Generators and the fuzzer: known answers, the published package itself, and a client that records calls."""

from __future__ import annotations

import json
import subprocess
from itertools import islice
from typing import Any

import numpy as np
import pytest
import vectors

from gpuemu import _values
from gpuemu.arrays import Refusal
from gpuemu.fuzz import (
    FuzzConfig,
    SeededFuzzer,
    TestCase,
    fuzz_dtypes,
    fuzz_dtypes_seeded,
    fuzz_layouts,
    fuzz_layouts_seeded,
    fuzz_shapes,
    fuzz_shapes_seeded,
    generate_random_tensor,
)
from gpuemu.results import ClientError, ValidationResult
from gpuemu.rng import derive_seed

PUBLISHED = vectors.ROOT / ".cache" / "published-venv" / "bin" / "python"
A_LIST: Any = [1, 2]  # where an integer belongs
# Defaults of the published daemon, whose cases the vectors are.
DAEMON: dict[str, Any] = {
    "batch_sizes": [1, 2, 4, 8],
    "seq_lengths": [64, 128, 256, 512],
    "hidden_dims": [512, 768, 1024],
    "edge_cases": [[1], [1, 1], [1, 1, 1]],
}


def published(script: str) -> Any:
    """What a script prints as JSON in the environment of the published package."""
    if not PUBLISHED.exists():
        pytest.skip("the published package is not installed: tools/setup-published.sh makes .cache/published-venv")
    done = subprocess.run([str(PUBLISHED), "-I", "-c", script], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def simple_cases() -> list[Any]:
    """The vectors without a schema: cases of one input."""
    cases = [v for v in vectors.read("gen/compat-v1.json", "cases") if "schema" not in v and len(v["inputs"]) == 1]
    assert len(cases) >= 7
    return cases


@pytest.mark.parametrize("v", simple_cases(), ids=lambda v: f"{v['master']}-{v['iter']}")
def test_cases_of_the_published_fuzzer(v: dict[str, Any]) -> None:
    want = (
        int(v["case_seed"]),
        tuple(v["inputs"][0]["shape"]),
        v["dtype"],
        v["layout"],
        tuple(v["inputs"][0]["strides"]),
    )
    fuzzer = SeededFuzzer(FuzzConfig(seed=int(v["master"]), **DAEMON))
    case = next(islice(fuzzer.iterator(), v["iter"], None))
    assert (case.seed, case.shape, case.dtype, case.layout, case.strides) == want
    shapes = islice(fuzz_shapes_seeded(int(v["master"]), **DAEMON), v["iter"], None)
    assert next(shapes) == want[:2]
    assert next(islice(fuzz_dtypes_seeded(int(v["master"])), v["iter"], None)) == (want[0], want[2])
    layouts = islice(fuzz_layouts_seeded(int(v["master"]), want[1]), v["iter"], None)
    assert next(layouts) == (want[0], want[3], want[1], want[4])


def test_fuzzer_against_the_published_package() -> None:
    want = published(
        "import json; from itertools import islice; from gpuemu.validate import *\n"
        "f = SeededFuzzer(FuzzConfig(seed=9)); s = (3, 4, 5)\n"
        "print(json.dumps([[[c.seed, c.shape, c.dtype, c.layout, c.strides] for c in f.iterator(200)],"
        " list(islice(fuzz_shapes_seeded(5, edge_case_probability=0.5), 50)), list(islice(fuzz_dtypes_seeded(5), 50)),"
        " list(islice(fuzz_layouts_seeded(5, s), 50)), list(fuzz_layouts(s)), list(fuzz_layouts((7,))),"
        " list(fuzz_shapes(a=[1, 2], b=[3, 4])), list(fuzz_dtypes()), FuzzConfig(seed=9).to_dict()]))"
    )
    fuzzer, shape = SeededFuzzer(FuzzConfig(seed=9)), (3, 4, 5)
    got = [
        [[c.seed, c.shape, c.dtype, c.layout, c.strides] for c in fuzzer.iterator(200)],
        list(islice(fuzz_shapes_seeded(5, edge_case_probability=0.5), 50)),
        list(islice(fuzz_dtypes_seeded(5), 50)),
        list(islice(fuzz_layouts_seeded(5, shape), 50)),
        list(fuzz_layouts(shape)),
        list(fuzz_layouts((7,))),
        list(fuzz_shapes(a=[1, 2], b=[3, 4])),
        list(fuzz_dtypes()),
        FuzzConfig(seed=9).to_dict(),
    ]
    assert json.loads(json.dumps(got)) == want


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_values_against_the_published_package(dtype: str) -> None:
    """Bit for bit in all these types: float64 values come from float32 variates there."""
    want = published(
        "import sys, json; from gpuemu.validate import *\n"
        f"print(json.dumps(generate_random_tensor(12345, (51, 100), {dtype!r}, 'input').tobytes().hex()))"
    )
    assert generate_random_tensor(12345, (51, 100), dtype, "input").tobytes().hex() == want
    case = TestCase(12345, (51, 100), dtype, "contiguous")
    assert case.generate_input("input").tobytes().hex() == want
    assert case.inputs["input"].tobytes().hex() == want


@pytest.mark.parametrize("v", vectors.read("gen/compat-v1.json", "data"), ids=lambda v: v["dtype"])
def test_integers_of_the_published_daemon(v: dict[str, Any]) -> None:
    """A named domain draws integers and bool as the daemon does. Its floats are uniform, ours normal variates."""
    got = generate_random_tensor(derive_seed(42, "data"), (8,), v["dtype"], "input_0") if has(v["dtype"]) else None
    if got is None:
        pytest.skip("bfloat16 needs ml_dtypes, which is not installed")
    if "float" in v["dtype"]:
        assert 2 < np.abs(got.astype(np.float64)).max() < 50
    else:
        want = bytes.fromhex(v["prefix"])
        assert got.tobytes()[: len(want)] == want


def has(dtype: str) -> bool:
    try:
        generate_random_tensor(0, (0,), dtype)
    except Refusal:
        return False
    return True


@pytest.mark.parametrize("dtype", _values.DTYPES)
@pytest.mark.parametrize("domain", [(-1.0, 1.0), (0.1, 7.3), (-100.5, 3), (1, 1)])
def test_uniform_values(dtype: str, domain: tuple[float, float]) -> None:
    if not has(dtype):
        pytest.skip(f"{dtype} needs ml_dtypes, which is not installed")
    got = generate_random_tensor(7, (40, 50), dtype, domain)
    assert got.shape == (40, 50) and got.dtype.name == dtype
    values = got.astype(np.float64)
    assert values.min() >= domain[0] and values.max() <= domain[1]
    least = max(domain[0], 0) if dtype == "bool" or dtype.startswith("uint") else domain[0]
    most = min(domain[1], 1) if dtype == "bool" else domain[1]
    middle = np.median(values)
    assert abs(middle - (least + most) / 2) <= 0.1 * (most - least) + (0 if "float" in dtype else 0.5)
    assert np.array_equal(got, generate_random_tensor(7, (40, 50), dtype, domain))
    assert values.min() == values.max() or not np.array_equal(got, generate_random_tensor(8, (40, 50), dtype, domain))


def test_uniform_integers_reach_both_ends() -> None:
    assert set(generate_random_tensor(1, (200,), "int16", (-2, 2)).tolist()) == {-2, -1, 0, 1, 2}
    whole = generate_random_tensor(1, (100,), "uint64", (0, 2.0**64))
    assert whole.max() > 2**63


def test_default_domain_is_documented() -> None:
    assert np.array_equal(generate_random_tensor(3, (9,)), generate_random_tensor(3, (9,), "float32", (-1.0, 1.0)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, (2,), "float31"), "unknown dtype 'float31': known are float64, float32"),
        ((1, (-2,)), "negative dimensions"),
        ((1, (2,), "float32", (1.0, 0.0)), "the lower one first"),
        ((1, (2,), "float32", (0.0, float("inf"))), "two finite numbers"),
        ((1, (2,), "float32", (1.0,)), "a pair"),
        ((1, (2,), "float16", (1e5, 1e6)), "cannot hold"),
        ((1, (2,), "float16", (0.1, 0.10001)), "has no float16 value"),
        ((1, (2,), "int8", (0.1, 0.9)), "has no int8 value"),
    ],
)
def test_wrong_tensors(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate_random_tensor(*arguments)


def test_random_shapes() -> None:
    shapes = list(islice(fuzz_shapes(2, 4, 3, 200, seed=5), 500))
    assert shapes == list(islice(fuzz_shapes(min_dims=2, max_dims=4, min_size=3, max_size=200, seed=5), 500))
    assert {len(s) for s in shapes} == {2, 3, 4}
    sizes = [d for s in shapes for d in s]
    assert min(sizes) == 3 and max(sizes) > 150
    assert [s for _, s in islice(fuzz_shapes_seeded(5, min_dims=2, max_dims=4, min_size=3, max_size=200), 9)] == shapes[
        :9
    ]
    large = list(islice(fuzz_shapes(max_elements=1000, min_dims=3, seed=6), 500))
    assert max(np.prod(s) for s in large) <= 1000
    uneven = [s[0] > s[-1] for s in large if s[0] != s[-1]]
    assert 0.4 < np.mean(uneven) < 0.6, "no dimension is larger than the others on average"
    assert next(fuzz_shapes()) != next(fuzz_shapes(min_dims=5, max_dims=5, min_size=2, max_size=9))
    assert (0,) in islice(fuzz_shapes(1, 1, 0, 3, seed=1), 50)


def test_dtypes_and_layouts() -> None:
    assert (
        list(fuzz_dtypes(["float64", "int8"])) == list(fuzz_dtypes(dtypes=["float64", "int8"])) == ["float64", "int8"]
    )
    assert set(islice(fuzz_dtypes(include=["int8", "bool"], seed=1), 50)) == {"int8", "bool"}
    assert set(islice(fuzz_dtypes(include=["int8", "bool"], exclude=["bool"]), 20)) == {"int8"}
    every = set(islice(fuzz_dtypes(exclude=["bool"], seed=1), 500))
    assert {"float32", "uint64"} <= every and "bool" not in every
    assert list(islice(fuzz_dtypes(["int8", "bool"], ["bool"]), 3)) == ["int8"] * 3
    assert set(islice(fuzz_layouts(seed=1), 100)) == set(_values.LAYOUTS)
    assert "strided" not in set(islice(fuzz_layouts(include_strided=False, seed=1), 100))
    assert list(fuzz_layouts((2, 3), include_transposed=False, include_contiguous=False)) == [((2, 3), (6, 2))]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fuzz_shapes(3, 2), ValueError, "0 <= min_dims <= max_dims"),
        (lambda: fuzz_shapes(min_dims=A_LIST), TypeError, "min_dims and max_dims are integers"),
        (lambda: fuzz_shapes(min_size=1000), ValueError, "exceed max_elements"),
        (lambda: fuzz_dtypes(["half8"]), ValueError, "unknown dtype 'half8'"),
        (lambda: fuzz_dtypes(include=["bool"], exclude=["bool"]), ValueError, "no type is left"),
        (lambda: fuzz_dtypes(["bool"], include=["bool"]), TypeError, "not both"),
        (lambda: fuzz_dtypes_seeded(1, []), ValueError, "dtypes is empty"),
        (lambda: fuzz_layouts_seeded(1, (2,), ["diagonal"]), ValueError, "unknown layout 'diagonal'"),
        (lambda: fuzz_layouts_seeded(1, (2,), []), ValueError, "layouts is empty"),
        (lambda: fuzz_shapes_seeded(1, batch_sizes=[]), ValueError, "batch_sizes is empty"),
        (lambda: fuzz_shapes_seeded(1, max_dim=3), TypeError, "unknown argument max_dim"),
        (lambda: FuzzConfig(batch_sizes=[1], max_dims=3), ValueError, "lists or from ranges"),
        (lambda: FuzzConfig(edge_cases=[[-1]]), ValueError, "negative dimensions"),
        (lambda: FuzzConfig(dtypes=[]), ValueError, "dtypes is empty"),
        (lambda: FuzzConfig(layouts=["diagonal"]), ValueError, "unknown layout"),
        (lambda: SeededFuzzer(1, FuzzConfig(seed=2)), ValueError, "leave one out"),
        (lambda: SeededFuzzer(FuzzConfig(), FuzzConfig()), TypeError, "not two configs"),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception], message: str) -> None:
    """At the call, not at the first element."""
    with pytest.raises(error, match=message):
        call()


def test_configuration() -> None:
    lists, ranges = FuzzConfig(), FuzzConfig(max_dims=2)
    assert (lists.dtypes, lists.layouts) == (["float32", "float16"], ["contiguous", "strided", "transposed"])
    assert (ranges.dtypes, ranges.layouts) == (["float32"], ["contiguous"])
    for config in (lists, ranges):
        assert (config.iterations, config.seed, config.min_dims, config.min_size, config.max_size) == (
            100,
            None,
            1,
            1,
            1024,
        )
    assert ranges.to_dict()["shape_options"]["max_dims"] == 2
    cases = list(SeededFuzzer(4, FuzzConfig(max_dims=2, max_size=5)).iterator(100))
    assert {len(c.shape) for c in cases} == {1, 2} and max(max(c.shape) for c in cases) == 5
    assert SeededFuzzer(FuzzConfig(edge_cases=[])).next().shape != ()


def test_fuzzer_is_repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    fuzzer = SeededFuzzer(7, FuzzConfig(max_size=9))
    first = [fuzzer.next(), fuzzer.next_test_case(), *fuzzer.iterator(3)]
    fuzzer.reset()
    assert list(fuzzer.iterator(5)) == first
    assert list(SeededFuzzer(FuzzConfig(seed=7, max_size=9)).iterator(5)) == first
    assert fuzzer.seed == 7 and isinstance(first[0], SeededFuzzer.TestCase)
    assert SeededFuzzer().seed == SeededFuzzer().seed == 1
    monkeypatch.delenv("GPUEMU_SEED")
    assert SeededFuzzer().seed != SeededFuzzer().seed


@pytest.mark.parametrize("layout", _values.LAYOUTS)
def test_layouts_are_real(layout: str) -> None:
    values = generate_random_tensor(3, (2, 3, 4, 5), "int16", (-9, 9))
    got = _values.lay_out(values, layout)
    assert np.array_equal(got, values) and not np.shares_memory(got, values)
    strides = tuple(s // 2 for s in got.strides)
    want = {"contiguous": (60, 20, 5, 1), "strided": (120, 40, 10, 2), "transposed": (60, 20, 1, 4)}
    assert strides == want.get(layout, (60, 1, 15, 3))
    assert layout == "transposed" or strides == _values.strides(values.shape, layout)
    assert _values.strides((2, 3, 4, 5), "transposed") == (60, 20, 4, 1)
    scalar = np.array(3, np.int16)
    assert _values.lay_out(scalar, layout) == 3


class FakeClient:
    """Records what is submitted, and says what it is told to say."""

    def __init__(self, *verdicts: str) -> None:
        self.verdicts = list(verdicts)
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def submit_output(self, *args: Any, **kwargs: Any) -> ValidationResult:
        self.calls.append((args, kwargs))
        verdict = self.verdicts.pop(0) if self.verdicts else "pass"
        if verdict == "unknown":
            raise ClientError("no op of that name", code="campaign-unknown-op")
        return ValidationResult(passed=verdict == "pass", seed=args[3], op_name=args[0], verdict=verdict)


SMALL = FuzzConfig(max_dims=2, max_size=4, iterations=6, layouts=["strided"], inputs=["a", "b"])


def add(inputs: dict[str, Any]) -> Any:
    out = inputs["a"] + inputs["b"]
    inputs["a"][...] = 0  # a kernel that writes to its inputs: nobody else may see it
    return out


def test_run_with_reference() -> None:
    client = FakeClient("pass", "fail", "undecided", "not_run")
    fuzzer = SeededFuzzer(5, SMALL)
    tolerance = {"atol": 1.0, "rtol": 0.0}
    results = fuzzer.run(add, reference=lambda i: i["a"] + i["b"] + 1, tolerance=tolerance, client=client)
    assert (results.seed, results.total, results.passed, results.failed) == (5, 6, 3, 1)
    assert (results.undecided, results.not_run, len(results.unjudged)) == (1, 1, 2)
    assert [r.verdict for r in results.failures] == ["fail"]
    cases = list(SeededFuzzer(5, SMALL).iterator(6))
    assert len(client.calls) == 6
    for case, (args, kwargs) in zip(cases, client.calls):
        op, inputs, output, seed = args
        assert (op, seed) == ("add", case.seed)
        assert list(inputs) == ["a", "b"] and inputs["a"].strides[-1] == 8
        for name in inputs:
            assert np.array_equal(inputs[name], case.generate_input(name))
        assert np.array_equal(output, inputs["a"] + inputs["b"])
        assert np.array_equal(kwargs["expected"], output + 1) and kwargs["tolerance"] is tolerance
    assert fuzzer.next() == next(islice(SeededFuzzer(5, SMALL).iterator(), 6, None)), "run continues the fuzzer"


def test_run_with_an_operator() -> None:
    client = FakeClient()
    results = SeededFuzzer(5, SMALL).run(lambda i: i["a"], op="my-op", client=client, iterations=2, alpha=2)
    assert results.passed == 2
    assert [(args[0], kwargs) for args, kwargs in client.calls] == [("my-op", {"store": "all", "alpha": 2})] * 2
    SeededFuzzer(5, SMALL).run(add, client=client, iterations=1)
    assert client.calls[-1][0][0] == "add"
    SeededFuzzer(5, SMALL).run(lambda i: i["a"], reference=lambda i: i["a"], client=client, iterations=1)
    assert client.calls[-1][0][0] == "kernel"


def test_run_with_nothing_to_judge_by() -> None:
    for kernel, what in ((add, "'add'"), (lambda i: i["a"], "a function without a name")):
        with pytest.raises(ValueError, match=rf"{what} names no operator.*reference=FUNCTION.*op=NAME"):
            SeededFuzzer(5, SMALL).run(kernel, client=FakeClient("unknown"))
    with pytest.raises(ClientError, match="no op of that name"):
        SeededFuzzer(5, SMALL).run(add, reference=add, client=FakeClient("unknown"))


def test_run_of_a_kernel_that_raises() -> None:
    def broken(inputs: dict[str, Any]) -> Any:
        raise ZeroDivisionError("in the kernel")

    client = FakeClient()
    results = SeededFuzzer(5, SMALL).run(broken, reference=add, client=client, fail_fast=True)
    assert (results.total, results.failed, client.calls) == (1, 1, [])
    failure = results.failures[0]
    assert failure.message == "broken raised ZeroDivisionError: in the kernel" and failure.reason == "raised"
    assert (
        failure.repro_info is not None and failure.repro_info.seed == failure.seed == SeededFuzzer(5, SMALL).next().seed
    )
    with pytest.raises(ZeroDivisionError):  # a broken reference says nothing about the kernel
        SeededFuzzer(5, SMALL).run(add, reference=broken, client=client)


def test_layouts_without_a_shape_are_names() -> None:
    with_shape = list(islice(fuzz_layouts_seeded(7, (2, 3)), 20))
    assert list(islice(fuzz_layouts_seeded(7), 20)) == [drawn[:2] for drawn in with_shape]
    assert {layout for _, layout in islice(fuzz_layouts_seeded(7, layouts=["strided"]), 5)} == {"strided"}


def test_the_published_module() -> None:
    """`import gpuemu` leaves gpuemu.validate the function; the module is found by an import of its names."""
    import gpuemu
    from gpuemu.validate import SeededFuzzer as published
    from gpuemu.validate import validate

    assert published is SeededFuzzer and gpuemu.validate is validate and callable(gpuemu.validate)

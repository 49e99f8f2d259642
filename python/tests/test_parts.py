"""Parts and images: what is kept of one form must not answer for another."""

from __future__ import annotations

import base64
import itertools
import json
import struct
import time
from typing import Any

import numpy as np
import pytest

from gpuemu import Client, _fuzzing, _parts
from gpuemu.results import ValidationResult


def image(tensors: dict[str, Any]) -> memoryview:
    head, size = _parts.image_head(tensors)
    data = b"".join(_parts.flat_bytes(a) for a in tensors.values())
    assert len(data) == size
    return memoryview(head + data)


def test_images_of_many_forms() -> None:
    shapes = [(), (3,), (2, 3), (3, 2), (6,), (0, 4)]
    forms = list(itertools.product(["x", "outputs/y"], shapes, ["<f4", "<i4", "<f2"]))
    for name, shape, dtype in forms * 2:  # the second time from what was kept
        array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
        again = np.ones(2, np.int8)
        whole = image({name: array, "again": again})
        (length,) = struct.unpack_from("<Q", whole)
        assert length % 8 == 0
        header = json.loads(bytes(whole[8 : 8 + length]))
        assert header[name]["shape"] == list(shape) and header[name]["data_offsets"] == [0, array.nbytes]
        assert header["again"]["data_offsets"] == [array.nbytes, array.nbytes + 2]
        parsed = _parts.parse_image(whole)
        assert list(parsed) == [name, "again"]
        kind, got_shape, data = parsed[name]
        assert (kind, got_shape) == (array.dtype.name, shape)
        assert np.array_equal(np.frombuffer(data, dtype).reshape(shape), array)


def test_metadata_of_an_image_is_no_tensor() -> None:
    text = b'{"__metadata__":{"a":"b"},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    parsed = _parts.parse_image(memoryview(struct.pack("<Q", len(text)) + text + b"\x07"))
    assert {name: bytes(data) for name, (_, _, data) in parsed.items()} == {"x": b"\x07"}


@pytest.mark.parametrize("broken", [False, True])
def test_a_hook_sees_whole_results(client: Client, broken: bool) -> None:
    """Without a hook the engine answers briefly: the counts and the failures are the same."""

    def relu(inputs: dict[str, Any]) -> Any:
        x = inputs["input"]
        return np.maximum(x, 1 if broken and x.size % 2 else 0)

    seen: list[ValidationResult] = []
    options: dict[str, Any] = {"iterations": 60, "seed": 3, "dtypes": ["float32"], "value_distribution": "normal"}
    whole = client.fuzz_op_client_side("relu", relu, on_case=lambda *args: seen.append(args[-1]), **options)
    brief = client.fuzz_op_client_side("relu", relu, **options)
    assert (whole.total, whole.passed, whole.failed) == (brief.total, brief.passed, brief.failed)
    assert whole.passed > 0 and (whole.failed > 0) == broken
    passed = [r for r in seen if r.passed]
    assert len(passed) == whole.passed and all(r.case and r.error_stats for r in passed)
    assert [f.case for f in whole.failures] == [f.case for f in brief.failures]
    assert all(f.error_stats and f.message and f.repro_info is not None for f in brief.failures)
    assert all(r.error_stats for r in client.list_results(limit=60))  # the store has them whole


def test_the_last_batches_are_small(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is done while the last one is judged."""
    counts: list[int] = []
    fetch = _fuzzing.fetch

    def recorded(transport: Any, request: dict[str, Any], shared: Any) -> Any:
        counts.append(request["count"])
        return fetch(transport, request, shared)

    monkeypatch.setattr(_fuzzing, "fetch", recorded)
    results = client.fuzz_op_client_side(
        "relu", lambda i: np.maximum(i["input"], 0), iterations=1000, seed=5, dtypes=["float32"],
        value_distribution="normal", shapes={"B": [1], "S": [1], "H": [4]}, layouts=["contiguous"], store="none",
    )  # fmt: skip
    assert results.passed == sum(counts) == 1000
    left = 1000
    for count in counts:
        assert count <= max(left // _fuzzing.LAST_PART, _fuzzing.SMALL_BATCH)
        left -= count


def test_files_of_batches_in_use_are_left_alone(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure carries its own inputs, however many batches are under way when its verdict comes."""
    monkeypatch.setattr(_fuzzing, "LARGEST_BATCH", 1)
    judged = _fuzzing.Submission.judged

    def late(self: _fuzzing.Submission, transport: Any) -> list[ValidationResult | None]:
        time.sleep(0.02)  # meanwhile others are fetched and run
        return judged(self, transport)

    monkeypatch.setattr(_fuzzing.Submission, "judged", late)
    results = client.fuzz_op_client_side(
        "relu", lambda i: i["input"] + 1, iterations=12, seed=5, dtypes=["float32"], value_distribution="normal",
        shapes={"B": [2], "S": [3], "H": [4, 5]}, layouts=["contiguous"],
    )  # fmt: skip
    assert results.failed == 12
    for failure in results.failures:
        info = failure.repro_info
        assert info is not None and info.input_snapshot is not None
        want = client.reproduce(failure.case).inputs["input"]
        assert base64.b64decode(info.input_snapshot["input"]["data"]) == want.tobytes()

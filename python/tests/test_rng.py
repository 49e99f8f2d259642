"""The random stream against the known answers of the engine."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np
import pytest
import vectors

from gpuemu import _jump, _normal
from gpuemu.rng import SeededRng, default_seed, derive_seed, generate_seed, splitmix64

STREAMS = vectors.read("rng/rng-v1.json", "streams")
DRAWS = STREAMS + vectors.read("rng/rng-v1-spec.json", "draws")
DERIVED = vectors.read("rng/rng-v1.json", "derive") + vectors.read("rng/rng-v1-spec.json", "derive")


def single(rng: SeededRng, n: int) -> list[int]:
    return [rng.gen_u64() for _ in range(n)]


@pytest.mark.parametrize("v", STREAMS + vectors.read("rng/rng-v1-spec.json", "streams"), ids=lambda v: v["seed"])
def test_streams(v: dict[str, Any]) -> None:
    seed, want = int(v["seed"]), [int(u) for u in v["u64"]]
    rng = SeededRng(seed)
    assert rng.seed == seed
    assert single(rng, len(want)) == want
    assert SeededRng(seed).random_u64(len(want)).tolist() == want
    if "u64_at_100000" in v:
        assert int(SeededRng(seed).random_u64(100_000)[-1]) == int(v["u64_at_100000"])


@pytest.mark.parametrize("v", DRAWS, ids=lambda v: v["seed"])
def test_draws(v: dict[str, Any]) -> None:
    seed = int(v["seed"])
    f64, f32, ranged = [vectors.f64(b) for b in v["f64"]], [vectors.f32(b) for b in v["f32"]], v["range_0_200"]
    rng = SeededRng(seed)
    assert [rng.gen_f64() for _ in f64] == f64
    assert SeededRng(seed).random_f64(len(f64)).tolist() == f64
    rng = SeededRng(seed)
    assert [rng.gen_f32() for _ in f32] == f32
    assert SeededRng(seed).random_f32(len(f32)).tolist() == f32
    rng, offset, index = SeededRng(seed), SeededRng(seed), SeededRng(seed)
    assert [rng.gen_range(0, 200) for _ in ranged] == ranged
    assert [offset.gen_range(-100, 100) for _ in ranged] == [x - 100 for x in ranged]
    assert [index.choice_index(200) for _ in ranged] == ranged
    assert [SeededRng(seed).choice(range(200))] == ranged[:1]
    items = list(range(1, 11))
    SeededRng(seed).shuffle(items)
    assert items == v["shuffle_1_10"]


@pytest.mark.parametrize("v", DERIVED, ids=lambda v: f"{v['seed']}-{v['domain']}")
def test_derive(v: dict[str, Any]) -> None:
    assert derive_seed(int(v["seed"]), v["domain"]) == int(v["out"])
    rng = SeededRng(int(v["seed"]))
    rng.gen_u64()  # what was drawn does not matter
    assert rng.derive(v["domain"]).seed == int(v["out"])


@pytest.mark.parametrize("v", vectors.read("rng/rng-v1.json", "splitmix64"), ids=lambda v: v["in"])
def test_splitmix64(v: dict[str, Any]) -> None:
    assert splitmix64(int(v["in"])) == int(v["out"])


@pytest.mark.parametrize("v", vectors.read("rng/normal-v1.json", "normal"), ids=lambda v: v["seed"])
def test_normal_bits(v: dict[str, Any]) -> None:
    """Bit for bit the variates of the engine, among them angles near a multiple of π/2."""
    got = SeededRng(int(v["seed"])).randn_f64(v["count"])
    assert [f"0x{b:016x}" for b in got[: len(v["first"])].view(np.uint64).tolist()] == v["first"]
    assert hashlib.sha256(got.astype("<f8").tobytes()).hexdigest() == v["sha256"]


def test_angles() -> None:
    """Angles near a multiple of π/2 go the long way: the last bits of the two parts are those of the engine."""
    want = vectors.read("libm/reduce-v1.json", "reduce")
    n, hi, lo = _normal._reduce(np.array([vectors.f64(v["x"]) for v in want]))
    got = [
        {"n": k & 3, "hi": f"0x{h:016x}", "lo": f"0x{low:016x}"}
        for k, h, low in zip(n.tolist(), hi.view(np.uint64).tolist(), lo.view(np.uint64).tolist())
    ]
    assert got == [{"n": v["n"] & 3, "hi": v["hi"], "lo": v["lo"]} for v in want]


@pytest.mark.parametrize("v", vectors.read("rng/rng-v1-spec.json", "normal"), ids=lambda v: v["seed"])
def test_normal_float32(v: dict[str, Any]) -> None:
    """Rounded to float32 they are those of any mathematical library; in float64 the last bit may differ."""
    want = [vectors.f32(b) for b in v.get("f32") or []]
    assert SeededRng(int(v["seed"])).randn(len(want)).tolist() == want
    exact = [vectors.f64(b) for b in v["f64"]]
    np.testing.assert_array_max_ulp(SeededRng(int(v["seed"])).randn_f64(len(exact)), np.array(exact), maxulp=1)


def test_normal_shapes() -> None:
    flat = SeededRng(3).randn(6)
    for got in (SeededRng(3).randn(2, 3), SeededRng(3).randn((2, 3)), SeededRng(3).randn([2, 3])):
        assert got.dtype == np.float32 and got.shape == (2, 3)
        assert got.ravel().tolist() == flat.tolist()
    assert SeededRng(3).randn().shape == () and SeededRng(3).randn(()).item() == flat[0]
    assert SeededRng(3).randn(0).shape == (0,)
    rng = SeededRng(3)
    rng.randn(5)  # the second variate of the third pair is dropped
    assert rng.randn(1)[0] == SeededRng(3).randn(8)[6]
    with pytest.raises(ValueError, match=r"negative dimensions: \(2, -1\)"):
        rng.randn(2, -1)


def test_normal_of_zero_uniforms() -> None:
    rng = SeededRng(0)
    rng._s0 = rng._s1 = 0  # the state that returns zeros for ever
    assert rng.randn_f64(2).tolist() == pytest.approx([np.sqrt(600 * np.log(10)), 0.0])


@pytest.mark.parametrize("n", [*range(1, 40), 64, 1000, 1499, 1500, 4096, 4097, 70_001])
def test_jumps(n: int) -> None:
    """Lanes of every length, whole and cut off, give single draws and the state behind them."""
    rng = SeededRng(n)
    got, s0, s1 = _jump.draw(rng._s0, rng._s1, n)
    assert got.tolist() == single(rng, n)
    assert (s0, s1) == (rng._s0, rng._s1)


def test_mixed_draws() -> None:
    """Arrays and single draws move the stream alike."""
    rng, reference = SeededRng(11), SeededRng(11)
    for n in (1, 2000, 0, 7, 5000, 1499, 1500, 3):
        assert rng.random_u64(n).tolist() == single(reference, n)
        assert rng.gen_u64() == reference.gen_u64()
        assert rng.random_f64(n).tolist() == [reference.gen_f64() for _ in range(n)]
        assert rng.gen_bool(0.25) == reference.gen_bool(0.25)
        assert rng.random_f32(n).tolist() == [reference.gen_f32() for _ in range(n)]
        assert rng.random_range(-5, 9, n).tolist() == [reference.gen_range(-5, 9) for _ in range(n)]


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 1 << 64, np.uint64),
        (1 << 63, 1 << 64, np.uint64),
        (-(1 << 63), 1 << 63, np.int64),
        (0, 1 << 63, np.int64),
        (-3, -1, np.int64),
    ],
)
def test_random_range_types(low: int, high: int, dtype: type) -> None:
    got, reference = SeededRng(5).random_range(low, high, 50), SeededRng(5)
    assert got.dtype == dtype
    assert got.tolist() == [reference.gen_range(low, high) for _ in range(50)]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 31, 20_001])
def test_fill_bytes(n: int) -> None:
    rng, reference = SeededRng(9), SeededRng(9)
    buffer = bytearray(n)
    rng.fill_bytes(buffer)
    words = single(reference, -(-n // 8))
    assert bytes(buffer) == b"".join(w.to_bytes(8, "little") for w in words)[:n]
    assert rng.gen_u64() == reference.gen_u64()
    array = np.zeros((2, 4), np.int16)
    rng.fill_bytes(array)
    assert array.tobytes() == b"".join(w.to_bytes(8, "little") for w in single(reference, 2))


def test_gen_bool() -> None:
    rng, reference = SeededRng(7), SeededRng(7)
    assert [rng.gen_bool(p / 100) for p in range(100)] == [reference.gen_f64() < p / 100 for p in range(100)]
    assert not any(rng.gen_bool(0) for _ in range(100))
    assert all(rng.gen_bool(1) for _ in range(100))


def test_seeds_wrap() -> None:
    assert SeededRng(-1).seed == 2**64 - 1
    assert SeededRng(2**64 + 5).gen_u64() == SeededRng(5).gen_u64()
    assert derive_seed(-1, "x") == derive_seed(2**64 - 1, "x")
    assert abs(generate_seed() - time.time_ns()) < 60 * 10**9
    assert repr(SeededRng(5)) == "SeededRng(5)"


def test_default_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUEMU_SEED", "18446744073709551615")
    assert default_seed() == 2**64 - 1
    for text in ("-1", "1.5", "18446744073709551616", "x"):
        monkeypatch.setenv("GPUEMU_SEED", text)
        with pytest.raises(ValueError, match=r"GPUEMU_SEED.* is no seed: set it to"):
            default_seed()
    monkeypatch.setenv("GPUEMU_SEED", "")
    assert abs(default_seed() - time.time_ns()) < 60 * 10**9


def test_wrong_arguments() -> None:
    rng = SeededRng(1)
    for call, message in (
        (lambda: rng.gen_range(5, 5), r"the range \[5, 5\) is empty"),
        (lambda: rng.random_range(6, 5, 1), r"the range \[6, 5\) is empty"),
        (lambda: rng.gen_range(0, 2**64 + 1), r"has more than 2\^64 numbers"),
        (lambda: rng.random_range(-1, 2**63 + 1, 1), "no 64-bit integer type"),
        (lambda: rng.choice([]), "the sequence is empty"),
        (lambda: rng.choice_index(0), "nothing to choose from"),
        (lambda: rng.random_u64(-1), "cannot be negative: -1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="writable buffer"):
        rng.fill_bytes(memoryview(b"12345678"))
    with pytest.raises(TypeError, match=r"bytearray\(16\)"):
        rng.fill_bytes(16)
    with pytest.raises(TypeError):
        SeededRng("42")  # type: ignore[arg-type]
    assert rng.gen_u64() == SeededRng(1).gen_u64(), "a refused call draws nothing"

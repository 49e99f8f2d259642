"""Tests of bench/device/corpus.py and what it is made of. The emulator stands in for the GPU."""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu import Client
from gpuemu._case import Case, View
from gpuemu.arrays import Refusal
from gpuemu.emulation import collecting

ROOT = Path(__file__).resolve().parents[2]
DEVICE = ROOT / "bench" / "device"
pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python reads TOML from 3.11 on")

# out[i] = max(x[i], 0) for i < n, a thread an element; COMPARE and KEEP are what mutants change.
RELU = """.version 7.0
.target sm_80
.address_size 64
.visible .entry relu_flat(
	.param .u64 .ptr .global .align 1 relu_flat_param_0, // input
	.param .u64 relu_flat_param_1,
	.param .u32 relu_flat_param_2
)
{
	.reg .pred %p<3>;
	.reg .f32 %f<4>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [relu_flat_param_0];
	ld.param.u64 %rd2, [relu_flat_param_1];
	ld.param.u32 %r1, [relu_flat_param_2];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	setp.COMPARE %p1, %r5, %r1;
	@%p1 bra DONE;
	cvta.to.global.u64 %rd3, %rd1;
	cvta.to.global.u64 %rd4, %rd2;
	mul.wide.s32 %rd5, %r5, 4;
	add.s64 %rd6, %rd3, %rd5;
	add.s64 %rd7, %rd4, %rd5;
	ld.global.f32 %f1, [%rd6];
	setp.KEEP.f32 %p2, %f1, 0f00000000;
	selp.f32 %f2, 0f00000000, %f1, %p2;
	st.global.f32 [%rd7], %f2;
DONE:
	ret;
}
"""
KERNEL = """
title = "ReLU, a thread an element"
op = "relu"
family = "elementwise"
language = "cuda"
entry = "relu_flat"
dtypes = ["float32"]
provenance = "own"

[launch]
grid = ["cdiv(input.numel, 128)"]
block = [128]
args = ["input", "output", "B * S * H"]
"""
RELU_SCHEMA = {"inputs": ["input"], "derived": {}}
MUTANTS = {  # how COMPARE and KEEP read
    "relu_flat": ("ge.s32", "lt"),
    "relu_flat.over.1": ("gt.s32", "lt"),  # one element too many
    "relu_flat.sign.1": ("ge.s32", "gt"),
    "relu_flat.same.1": ("ge.u32", "lt"),  # no number of a thread is negative
}


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    """The modules of bench/device, by attribute."""
    sys.path.insert(0, str(DEVICE))
    try:
        names = ("corpus", "corpus_files", "driver", "launchers", "launches", "sanitized", "pool", "zoo")
        yield argparse.Namespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(DEVICE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of one kernel and its mutants."""
    path = tmp_path_factory.mktemp("corpus")
    for sub in ("kernels", "ptx"):
        (path / sub).mkdir()
    (path / "kernels" / "relu_flat.toml").write_text(KERNEL)
    mutants = [
        {"id": name, "kernel": "relu_flat", "class": "mask", "held_out": name.endswith("sign.1"), "dtypes": ["float32"]}
        for name in MUTANTS
        if "." in name
    ]
    (path / "mutants.json").write_text(json.dumps({"mutants": mutants}))
    with zipfile.ZipFile(path / "ptx" / "relu_flat.zip", "w") as archive:
        for name, (compare, keep) in MUTANTS.items():
            text = RELU.replace("COMPARE", compare).replace("KEEP", keep)
            for arch in ("sm_80", "sm_90"):
                archive.writestr(f"{name}.float32.{arch}.ptx", text)
    return path


@pytest.fixture
def worker(device: Any, folder: Path, client: Client) -> Any:
    """A worker of a dry run, in this process."""
    args = device.corpus.arguments().parse_args(["--dry", "--corpus", str(folder)])
    return device.corpus.Worker(args)


def run(device: Any, worker: Any, name: str, kind: str = "device", cases: int = 20, **more: Any) -> Any:
    subject = worker.corpus.subjects[name]
    job = device.corpus.job_of(subject, kind, cases, 1, **{"stop": True, "schema": RELU_SCHEMA, **more})
    return device.corpus.record_of({**job, **worker.run(job)})


# ---- expressions and parameters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("B * S", 6), ("cdiv(H, 128)", 3), ("ceil(H / 128)", 3), ("(H + 127) / 128", 3), ("H / 128", 2), ("H % 128", 1),
        ("-H / 2", -129), ("min(B, S) - max(1, 5)", -3), ("x.shape[-1]", 257), ("x.strides[0]", 1028),
        ("x.numel", 1542), ("x.ndim * x.itemsize", 12), ("next_pow2(H)", 512), ("eps * 2", 2e-5),
        ("1.0 / S", 1 / 3), ("abs(-3)", 3), (7, 7),
    ],
)  # fmt: skip
def test_expressions(device: Any, text: Any, want: Any) -> None:
    x = device.launches.Tensor("x", 4, (2, 3, 257), (1028, 300, 1))
    got = device.launches.evaluate(text, {"B": 2, "S": 3, "H": 257, "eps": 1e-5, "x": x})
    assert got == want and type(got) is type(want)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Q * 2", "'Q * 2': unknown name 'Q'; known are B, x"), ("x.shape[3]", "none is number 3"),
        ("x.size", "a tensor has .shape[i]"), ("B ** 2", "B ** 2 is more than the launches of the corpus use"),
        ("f(B)", "unknown function f"), ("B /", "invalid syntax"), ("B / 0", "'B / 0': "), ("x + 1", "'x + 1': "),
        ("().__class__", "a tensor has .shape[i]"),
    ],
)  # fmt: skip
def test_expressions_that_are_refused(device: Any, text: str, message: str) -> None:
    x = device.launches.Tensor("x", 4, (2,), (1,))
    with pytest.raises(device.launches.BadLaunch) as caught:
        device.launches.evaluate(text, {"B": 2, "x": x})
    assert message in str(caught.value)


def test_a_launch(device: Any) -> None:
    x = device.launches.Tensor("x", 4, (2, 3), (3, 1))
    args = ["x", "zeros(8 * B)", "scratch(4)", "float32(eps)", "int64(B)", "x.numel", 0]
    spec = {"grid": ["B", 2], "block": [128], "shared": "4 * B", "args": args}
    launch = device.launches.launch_of(spec, {"B": 5, "eps": 0.5, "x": x})
    assert (launch.grid, launch.block, launch.shared, launch.empty) == ((5, 2, 1), (128, 1, 1), 20, False)
    room, number = device.launches.Room, device.launches.Number
    assert launch.args == (x, room(40, True), room(4, False), number(0.5, "float32"), number(5, "int64"), number(6),
                           number(0))  # fmt: skip
    assert device.launches.launch_of(spec, {"B": 0, "eps": 0.5, "x": x}).empty
    with pytest.raises(device.launches.BadLaunch, match="a size is a whole number"):
        device.launches.launch_of(dict(spec, grid=["eps"]), {"B": 5, "eps": 0.5, "x": x})
    assert device.launches.strided({"grid": [1], "block": [1], "args": ["x", "x.strides[0]", "y.strides[0]", "z"]},
                                   ["x", "z"]) == {"x"}  # fmt: skip


def test_parameters_and_their_bytes(device: Any) -> None:
    text = """.visible .entry f(
    .param .u64 .ptr .global .align 16 f_0, /* a, b */ .param .align 2 .b8 f_1[2],
    .param .f32 f_2, // rounded, once
    .param .u32 f_3) .reqntid 128 {}
    .entry g { }"""
    parameters = device.launches.parameters(text, "f")
    assert [(p.name, p.kind, p.size) for p in parameters] == [("f_0", "u64", 8), ("f_1", "b8", 2), ("f_2", "f32", 4),
                                                              ("f_3", "u32", 4)]  # fmt: skip
    assert device.launches.parameters(text, "g") == []
    with pytest.raises(device.launches.BadLaunch, match="no kernel 'h'"):
        device.launches.parameters(text, "h")

    def scalar(value: float, dtype: str, at: int) -> bytes:
        data: bytes = device.launches.scalar(device.launches.Number(value, dtype), parameters[at])
        return data

    assert scalar(0, "", 0) == bytes(8)
    assert scalar(1.5, "float16", 1) == b"\x00\x3e"
    assert scalar(1, "", 2) == b"\x00\x00\x80\x3f"
    assert scalar(-1e300, "", 2) == b"\x00\x00\x80\xff"
    assert scalar(-1, "", 3) == scalar(2**32 - 1, "uint32", 3) == b"\xff\xff\xff\xff"
    for value, dtype, at, message in (
        (2**32, "", 3, "does not fit"), (2**31, "int32", 3, "does not fit"), (0.5, "", 3, "write float32"),
        (1, "int64", 3, "has 4"), (1, "float64", 2, "has 4"),
    ):  # fmt: skip
        with pytest.raises(device.launches.BadLaunch, match=message):
            scalar(value, dtype, at)


class FakeLibrary:
    """A driver that notes what it is asked for, and how the parameters of a launch read."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.refused = "cuFuncSetAttribute"  # the function that fails

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> int:
            if name == "cuLaunchKernel":
                sizes = (8, 4)
                args = (*args[1:8], *(ctypes.string_at(p, n) for p, n in zip(args[9], sizes)))
            self.calls.append((name, *args))
            return 701 if name == self.refused else 0

        return call


def test_the_driver_is_called_as_it_wants_to_be(device: Any) -> None:
    library = FakeLibrary()
    driver = device.driver.Driver(library)
    function = driver.function(driver.load(b"text"), "f")
    driver.launch(function, (7, 1, 1), (128, 2, 1), 1024, [(2**40).to_bytes(8, "little"), b"\x01\x02\x03\x04"])
    driver.wait()
    assert library.calls[-2:] == [
        ("cuLaunchKernel", 7, 1, 1, 128, 2, 1, 1024, (2**40).to_bytes(8, "little"), b"\x01\x02\x03\x04"),
        ("cuCtxSynchronize",),
    ]
    with pytest.raises(device.driver.DriverError, match="cuFuncSetAttribute gives error 701"):
        driver.function(function, "f", 64 << 10)


def test_the_zoo_gives_back_what_it_takes(device: Any) -> None:
    library = FakeLibrary()
    zoo = device.zoo.Zoo(library)
    library.calls.clear()
    args = [{"buffer": "AAECAw==", "value": None}, {"buffer": None, "value": "BQAAAA=="}]
    job = {"entry": "f", "shared": 0, "grid": [1, 1, 1], "block": [32, 1, 1], "args": args, "outputs": [0]}
    assert zoo.outputs(b"image", job) == [bytes(4)]  # the fake copies nothing
    assert [call[0] for call in library.calls] == [
        "cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuLaunchKernel",
        "cuCtxSynchronize", "cuMemcpyDtoH_v2", "cuMemFree_v2", "cuModuleUnload",
    ]  # fmt: skip
    assert library.calls[4][-1] == b"\x05\x00\x00\x00"


class FakeTensor:
    """Memory of PyTorch, as far as launches look at it."""

    def __init__(self, place: int) -> None:
        self.place, self.cleared = place, slice(0)

    def data_ptr(self) -> int:
        return self.place

    def __setitem__(self, where: slice, value: int) -> None:
        assert value == 0
        self.cleared = where


def test_launches_on_a_gpu(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[tuple[Any, FakeTensor]] = []

    def full(size: tuple[int], _value: int, **_: Any) -> FakeTensor:
        rooms.append((size, FakeTensor(0x1000)))
        return rooms[-1][1]

    torch = argparse.Namespace(zeros=lambda *_, **__: None, full=full, uint8="uint8")
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    library = FakeLibrary()
    gpu = device.launchers.Gpu(library)
    launch = device.launches.Launch((2, 1, 1), (64, 1, 1), 0, ())
    kernel = gpu.load("text", "f", 0)
    gpu.launch(kernel, launch, [FakeTensor(0x7F0000000100), b"\x01\x00\x00\x00"])
    assert library.calls[-2] == ("cuLaunchKernel", 2, 1, 1, 64, 1, 1, 0, (0x7F0000000100).to_bytes(8, "little"),
                                 b"\x01\x00\x00\x00")  # fmt: skip
    gpu.launch(kernel, launch, [device.launches.Room(40, True)])
    assert library.calls[-2][8] == (0x1100).to_bytes(8, "little")
    assert [(size, room.cleared) for size, room in rooms] == [((552,), slice(256, 296))]
    library.refused = "cuLaunchKernel"
    with pytest.raises(Refusal, match="the driver refuses the launch: cuLaunchKernel gives error 701"):
        gpu.launch(kernel, launch, [])
    library.refused = "cuCtxSynchronize"  # a fault of the kernel
    with pytest.raises(device.driver.DriverError, match="cuCtxSynchronize gives error 701"):
        gpu.launch(kernel, launch, [])
    with pytest.raises(device.driver.DriverError):
        gpu.wait()
    library.refused = ""
    gpu.forget()
    assert library.calls[-1][0] == "cuModuleUnload"


def test_a_kernel_that_hangs_ends_its_process() -> None:
    script = "import time, launchers\nwith launchers.Watch(0.1): time.sleep(600)"
    path = os.pathsep.join([str(DEVICE), str(ROOT / "python" / "src")])
    done = subprocess.run([sys.executable, "-c", script], env=dict(os.environ, PYTHONPATH=path), capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == -9 and done.stderr.startswith("hang: the kernel did not end within 0 s")


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_every_kernel_of_the_corpus_is_understood(device: Any, client: Client) -> None:
    corpus = device.corpus_files.Corpus()
    ops = device.corpus.schemas(os.environ["GPUEMU_BINARY"])
    assert ops["conv1d"]["derived"] == {"LO": "(L+2*padding-dilation*(KW-1)-1)/stride+1"}
    looked_at = 0
    for subject in corpus.subjects.values():
        if subject.mutant or not (corpus.folder / "ptx" / f"{subject.kernel}.zip").exists():
            continue
        assert device.launches.strided(subject.launch, ops[subject.op]["inputs"]) <= set(ops[subject.op]["inputs"])
        for dtype in subject.dtypes:
            text = corpus.ptx(subject, dtype, "sm_90")
            assert len(device.launches.parameters(text, subject.entry)) == len(subject.launch["args"]), subject.id
            looked_at += 1
    assert looked_at > 0


def test_cases_are_those_of_the_emulator(device: Any, worker: Any, tmp_path: Path) -> None:
    corpus = device.corpus_files.Corpus()
    for name, layouts in (("softmax_row", "contiguous strided transposed"), ("softmax_block", "contiguous")):
        subject = corpus.subjects[name]
        launch = "".join(f"{key} = {json.dumps(value)}\n" for key, value in subject.launch.items())
        config = device.corpus_files.config_of(subject, False)
        (tmp_path / "gpuemu.toml").write_text(
            f'{config}[ops.kernel]\nptx = "{{dtype}}.ptx"\nentry = "{subject.entry}"\n{launch}'
        )
        for dtype in subject.dtypes:
            (tmp_path / f"{dtype}.ptx").write_text(corpus.ptx(subject, dtype, "sm_80"))
        done = subprocess.run([os.environ["GPUEMU_BINARY"], "fuzz", "-i", "12", "--seed", "1", "--op", name, "--format",
                               "json"], cwd=tmp_path, capture_output=True, text=True, check=True)  # fmt: skip
        want = [r["case"] for r in json.loads(done.stdout)["results"]]
        assert all(any(f":{layout}:" in case for case in want) for layout in layouts.split())
        launcher = device.launchers.Launcher(None, corpus, subject, RELU_SCHEMA)
        job = device.corpus.job_of(subject, "device", 12, 1)
        session = worker._session(job, launcher)
        assert [case.text for case in session.cases(12)] == want
        session.close()


def test_inputs_whose_strides_nobody_asks_for_are_copied(device: Any, worker: Any) -> None:
    backend, seen = worker.backend, []
    launch = {"grid": [1], "block": [1], "args": ["x", "y", "HALF", "x.strides[0]"]}
    schema = {"inputs": ["x", "y"], "derived": {"HALF": "B/2"}}
    subject = device.corpus_files.Subject("s", "s", "add", "f", ("float32",), launch)
    texts = argparse.Namespace(ptx=lambda *_: ".entry f(.param .u64 a, .param .u64 b, .param .u32 c, .param .u32 d) {}")
    arrays = {name: np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2] for name in ("x", "y")}
    views = [View(name, "float32", (3, 2), (4, 2), 0, a) for name, a in arrays.items()]
    case = Case(0, "add", "add dtype=float32 dims=B:3 seed=1", 1, "float32", {}, views, [])

    def launched(_kernel: Any, _launch: Any, values: list[Any]) -> None:
        seen.append([v if isinstance(v, bytes) else v.strides for v in values])
        values[1][0, 0] = 7.0  # of the copy

    backend.launch = launched
    kernel = device.launchers.Launcher(backend, texts, subject, schema).kernel(case)
    findings: list[Any] = []
    before = collecting.set(findings)
    try:
        kernel(arrays, {})
    finally:
        collecting.reset(before)
    assert seen == [[(16, 8), (8, 4), b"\x01\x00\x00\x00", b"\x04\x00\x00\x00"]]
    assert [(f.kind, f.message) for f in findings] == [("input_modified", "the kernel wrote to input y")]
    assert arrays["y"][0, 0] == 0.0


def test_a_kernel_that_is_right_and_mutants(device: Any, worker: Any) -> None:
    right = run(device, worker, "relu_flat", stop=False)
    assert right == {"run": "device", "id": "relu_flat", "seed": "1", "cases": 20, "seconds": right["seconds"]}
    wrong = run(device, worker, "relu_flat.sign.1")
    assert wrong["first"] == wrong["cases"] and wrong["failed"] == 1 and wrong["reason"] == "mismatch"
    assert wrong["case"].startswith("relu_flat.sign.1 dtype=float32 ") and wrong["fail_dtype"] == "float32"
    over = run(device, worker, "relu_flat.over.1")
    assert over["findings"] == ["overrun"] and over["reason"] == "overrun"
    assert "bytes after output output were overwritten, the first 0 bytes past its end" in over["message"]


def test_bitwise_comparison(device: Any, worker: Any) -> None:
    differs = run(device, worker, "relu_flat.sign.1", "device-equivalence")
    assert differs["first"] == differs["cases"] and differs["reason"] == "differs"
    assert "elements of output, the first is element" in differs["message"]
    over = run(device, worker, "relu_flat.over.1", "device-equivalence")
    assert "first" not in over and over["cases"] == 20 and over["findings"] == ["overrun"]


def test_sanitized_launches(device: Any, worker: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, tool, status in (("over", "memcheck", 9), ("over", "initcheck", 0), ("same", "memcheck", 0)):
        folder = tmp_path / name
        row = run(device, worker, f"relu_flat.{name}.1", "sanitizer", folder=str(folder))
        assert row["cases"] == len(list(folder.glob("*.json"))) == device.sanitized.LAUNCHES
        assert device.sanitized.emulate(folder, tool) == status
        got = device.sanitized.verdict(capsys.readouterr().out, status)
        assert (got["reason"], got["first"]) == ("oob_read", 1) if status else got == {}


def test_what_compute_sanitizer_says(device: Any) -> None:
    verdict = device.sanitized.verdict
    memcheck = """========= COMPUTE-SANITIZER
launch 0
launch 1
========= Invalid __global__ read of size 4 bytes
=========     at relu_flat+0x170
=========     by thread (1,0,0) in block (0,0,0)
========= ERROR SUMMARY: 31 errors
"""
    assert verdict(memcheck, 9) == {"failed": 1, "first": 2, "reason": "Invalid __global__ read",
                                    "message": "Invalid __global__ read of size 4 bytes"}  # fmt: skip
    assert verdict("========= COMPUTE-SANITIZER\nlaunch 0\n========= ERROR SUMMARY: 0 errors\n", 0) == {}
    race = "launch 0\n========= Error: Race reported between Write access at f+0x1 and Read access at f+0x2\n"
    race += "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
    assert verdict(race, 9)["reason"] == "Race reported between Write access"
    assert verdict(race.replace("1 error", "0 errors"), 0) == {}
    usage = "--padding arg (=0)  --tool arg"
    start = ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9"]
    assert device.sanitized.sanitizer("memcheck", usage) == [*start, "--padding", "4096"]
    assert device.sanitized.sanitizer("memcheck", "") == start
    assert verdict("no such device", 1) == {"error": "status 1 without a summary: no such device"}


def test_rows_without_a_result(device: Any) -> None:
    record_of = device.corpus.record_of
    job = {"name": "device a", "run": "device", "id": "a", "seed": 1, "cases": 100, "dtypes": ["float32"]}
    killed = "the process ended with status -9; x"
    late = record_of(dict(job, error="not started: the time was up"))
    assert late == {"run": "device", "id": "a", "seed": "1", "cases": 0, "message": "not started: the time was up",
                    "seconds": 0.0}  # fmt: skip
    lines = ["job device a", "case 17 float32 a dtype=float32 dims=B:1", "hang: the kernel did not end within 10 s"]
    hung = record_of(dict(job, error=killed, last=lines))
    assert (hung["cases"], hung["first"], hung["reason"]) == (18, 18, "timed_out")
    assert hung["case"] == "a dtype=float32 dims=B:1" and hung["fail_dtype"] == "float32"
    assert record_of(dict(job, error=killed, last=lines[:2]))["reason"] == "crashed"
    before = ["case 3 float32 b dtype=float32", "job device a"]
    assert record_of(dict(job, error=killed, last=before))["cases"] == 0
    assert record_of(dict(job, error=killed, last=[*lines[1:2], "job none"]))["cases"] == 0


def test_jobs_and_lists(device: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = device.corpus_files.Corpus(folder)
    args = device.corpus.arguments().parse_args([])
    names = [job["name"] for job in device.corpus.check_jobs(corpus, args)]
    assert names == ["device relu_flat.over.1", "device relu_flat.same.1", "device relu_flat mixed float32",
                     "device relu_flat adversarial float32"]  # fmt: skip
    args.held_out, args.only = True, "sign"
    assert [job["id"] for job in device.corpus.check_jobs(corpus, args)] == ["relu_flat.sign.1"]
    monkeypatch.setenv("OUT", str(tmp_path))
    rows = [{"id": "relu_flat.over.1", "cases": 2, "first": 2}, {"id": "relu_flat.same.1", "cases": 9},
            {"id": "relu_flat", "cases": 9}]  # fmt: skip
    (tmp_path / "device.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [{"format": 1}, *rows]))
    (tmp_path / "ids").write_text("relu_flat.sign.1\n\nrelu_flat.same.1\n")
    listed = device.corpus.listed
    assert [s.id for s in listed(["missed"], corpus, False)] == ["relu_flat.same.1"]
    both = listed([str(tmp_path / "ids"), "missed"], corpus, True)
    assert [s.id for s in both] == ["relu_flat.sign.1", "relu_flat.same.1"]
    (tmp_path / "ids").write_text("nobody\n")
    with pytest.raises(SystemExit, match="nobody is not in the corpus"):
        listed([str(tmp_path / "ids")], corpus, True)
    with pytest.raises(SystemExit, match=r"there is no .*equivalence\.jsonl"):
        listed(["equal"], corpus, True)


def test_the_script_from_start_to_end(folder: Path, tmp_path: Path) -> None:
    lists = tmp_path / "ids"
    lists.write_text("relu_flat.over.1\n")
    env = dict(os.environ, OUT=str(tmp_path), PYTHONPATH=str(ROOT / "python" / "src"))
    for words in (["--only", "same", "--cases", "4"], ["--equivalence", str(lists)], ["--sanitize", "equal"]):
        command = [sys.executable, str(DEVICE / "corpus.py"), "--dry", "--corpus", str(folder), "--workers", "1",
                   "--samples", "4", *words]  # fmt: skip
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    found = {}
    for name in ("device", "equivalence", "sanitize"):
        header, *rows = map(json.loads, (tmp_path / f"{name}.jsonl").read_text().splitlines())
        assert header["format"] == 1 and "note" not in header and not header["held_out"]
        found[name] = [(r["id"], r.get("setting", ""), r["cases"], r.get("reason", "")) for r in rows]
    assert found == {
        "device": [("relu_flat.same.1", "", 4, "")],
        "equivalence": [("relu_flat.over.1", "", 4, "")],
        "sanitize": [
            (name, tool, 4, "oob_read" if tool == "memcheck" and name != "relu_flat" else "")
            for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
            for name in ("relu_flat.over.1", "relu_flat")
        ],
    }

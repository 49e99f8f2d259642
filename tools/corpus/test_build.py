"""What build.py does around the compilers; a script stands in for nvcc."""

from __future__ import annotations

import os
import pathlib
import select
import zipfile

import build
import pytest

SPEC = """
title = "one more"
op = "add"
family = "binary"
language = "cuda"
entry = "more"
dtypes = ["float16"]
provenance = "own"

[build]
constants = { TILE = 64 }

[launch]
grid = ["1"]
block = [64]
args = ["a"]
"""

# The source decides what this compiler does; out.ptx is what it must write.
NVCC = """#!/bin/sh
for source; do case $source in internal/*) break;; esac; done
case $(cat "$source") in
hang) sleep 600 >"$HELD_OPEN" & wait;;
crash) kill -9 $PPID;;
wrong) echo "ignored line" >&2; echo "$source(3): error: no such type" >&2; exit 2;;
other) echo '.entry other()' >out.ptx;;
*) exec >out.ptx; echo '.entry more()'; echo "// $*"
   echo "// _INTERNAL_ae9cf9a1_12_x_cu"
   echo ".b8 95,90,95,73,78,84,69,82,78,65,76,95,97,101,57,99,102,57,97,49,95,49,50"
   echo ".file 1 \\"$PWD/$source\\" \\"/opt/cuda/include/x.h\\"";;
esac
"""


@pytest.fixture
def spec(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> build.Spec:
    (tmp_path / "more.toml").write_text(SPEC)
    compiler = tmp_path / "nvcc"
    compiler.write_text(NVCC)
    compiler.chmod(0o755)
    monkeypatch.setenv("GPUEMU_NVCC", str(compiler))
    monkeypatch.setenv("HELD_OPEN", str(tmp_path / "open"))
    monkeypatch.setattr(build, "PTX", tmp_path / "ptx")
    return build.load(tmp_path / "more.toml")


def test_compile_text(spec: build.Spec) -> None:
    ptx = build.compile_text(spec, "right", "float16", "sm_90")
    assert "-arch=sm_90" in ptx and "-DELEMENT=__half" in ptx and "-DT_FLOAT16=1" in ptx and "-DTILE=64" in ptx
    assert "// _INTERNAL_12_x_cu\n.b8 95,90,95,73,78,84,69,82,78,65,76,95,49,50\n" in ptx
    assert '.file 1 "internal/corpus/kernels/more.cu" "cuda/include/x.h"' in ptx


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("wrong", "internal/corpus/kernels/more.cu(3): error: no such type"),
        ("other", 'internal/corpus/kernels/more.cu has no kernel more: it is declared extern "C" __global__'),
        ("crash", "the compiler crashed: exit status -9"),
    ],
)
def test_broken(spec: build.Spec, text: str, reason: str) -> None:
    with pytest.raises(build.Broken) as e:
        build.compile_text(spec, text, "float16")
    assert str(e.value) == reason


def test_a_hang_ends_with_all_that_it_started(spec: build.Spec, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "open")
    reader = os.open(tmp_path / "open", os.O_RDONLY | os.O_NONBLOCK)
    [(_, result)] = build.compile_all([build.Job("more.1", spec, "hang", "float16")], limit=1)
    assert str(result) == "the compiler did not end within 1 s"
    ready, _, _ = select.select([reader], [], [], 60)
    assert ready and os.read(reader, 1) == b"", "a child of the compiler outlived the build"
    os.close(reader)


def test_a_crash_ends_its_build_alone(spec: build.Spec) -> None:
    texts = ["crash", "right", "crash", "right"]
    jobs = [build.Job(f"more.{i}", spec, text, "float16") for i, text in enumerate(texts)]
    broken = {job.id: isinstance(result, build.Broken) for job, result in build.compile_all(jobs)}
    assert broken == {"more.0": True, "more.1": False, "more.2": True, "more.3": False}


def test_zip_is_reproducible(spec: build.Spec) -> None:
    path = build.replace("more", {"more.x.1.float16.sm_80.ptx": "mutant", "more.float16.sm_80.ptx": "kernel"})
    first = path.read_bytes()
    assert build.replace("more", {"more.float16.sm_80.ptx": "kernel"}).read_bytes() == first
    build.replace("more", {"more.float16.sm_90.ptx": "new"}, keep=lambda kernel_id: kernel_id != "more")
    with zipfile.ZipFile(path) as z:
        assert {n: z.read(n) for n in z.namelist()} == {
            "more.float16.sm_90.ptx": b"new",
            "more.x.1.float16.sm_80.ptx": b"mutant",
        }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"cuda"', '"hip"', "language = 'hip': it is \"triton\" or \"cuda\""),
        ("title", "titel", "unexpected keyword argument 'titel': docs/corpus.md lists the keys"),
        ('op = "add"', "", "missing 1 required positional argument: 'op': docs/corpus.md lists the keys"),
        ('"float16"', '"half"', "dtypes ['half']: some of float32, float16, bfloat16 are expected"),
    ],
)
def test_load_refuses(tmp_path: pathlib.Path, old: str, new: str, message: str) -> None:
    (tmp_path / "more.toml").write_text(SPEC.replace(old, new))
    with pytest.raises(ValueError) as e:
        build.load(tmp_path / "more.toml")
    assert message in str(e.value) and "more.toml" in str(e.value)


def test_every_kernel_of_the_corpus_loads() -> None:
    specs = build.load_all()
    assert specs
    for spec in specs:
        assert spec.source.exists(), spec.source

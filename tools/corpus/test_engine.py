"""The places that operators find, and what the engine makes of them; compilers are not needed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import sys
import zipfile
from typing import Any

import build
import cuda_edits
import engine
import operators
import pytest
import triton_edits
from cuda_source import Cuda
from source import Edit, Facts, apply, difference, lines_changed
from triton_source import Triton

DATA = pathlib.Path(__file__).parent / "testdata"
PLACES = DATA / "places.txt"  # python test_engine.py writes it anew: its diff is to be read
TRITON_ARGS = ["x", "w", "scale", "out", "n", "B", "H", "G", "float32(eps)", "x.strides[0]", "x.strides[1]"]
TRITON_TYPES = ["*T", "*T", "*fp32", "*T", "*fp32", "i32", "i32", "i32", "fp32", "i32", "i32"]
CUDA_ARGS = ["x", "w", "y", "n", "B", "H", "group", "HQ", "HKV", "x.strides[0]", "x.strides[1]", "float32(eps)"]


def sample(language: str, op: str) -> Any:
    if language == "Triton":
        facts = Facts("sample", op, "norm", "sample", TRITON_ARGS, TRITON_TYPES, {"BLOCK": 64})
        return Triton((DATA / "sample.triton").read_text(), facts)
    facts = Facts("sample", op, "norm", "sample", CUDA_ARGS, [], {})
    return Cuda((DATA / "sample.cu").read_text(), facts)


def places() -> str:
    """What every operator does to the samples, as text: some apply to attention or to quantisation alone."""
    text = ""
    for language, edits in (("Triton", triton_edits.EDITS), ("CUDA", cuda_edits.EDITS)):
        for name in [o.name for o in operators.OPERATORS if o.name in edits]:
            seen = []
            for source in (sample(language, "attention"), sample(language, "quantize_row")):
                for site in edits[name](source):
                    _, before, after = lines_changed(source.text, site)
                    if (before, after) not in seen:
                        seen.append((before, after))
                        text += f"{language} {name}\n  - {before}\n  + {after}\n"
    return text


def test_places() -> None:
    assert places() == PLACES.read_text()


def test_every_operator_has_places() -> None:
    found = {tuple(line.split(" ")) for line in PLACES.read_text().splitlines() if not line.startswith(" ")}
    assert found == {(language, o.name) for o in operators.OPERATORS for language in o.languages}
    assert {o.name for o in operators.OPERATORS} == set(triton_edits.EDITS) | set(cuda_edits.EDITS)


def test_held_out() -> None:
    names = [o.name for o in operators.OPERATORS]
    assert len(operators.HELD_OUT) == len(names) // 4
    last = max(hashlib.sha256(n.encode()).hexdigest() for n in operators.HELD_OUT)
    assert all(hashlib.sha256(n.encode()).hexdigest() > last for n in names if n not in operators.HELD_OUT)


def test_page() -> None:
    assert operators.page() == engine.PAGE.read_text(), "make corpus writes it"


def test_operands() -> None:
    text = 'extern "C" __global__ void k(const T *x, int n) { int i = -a[n * 2 + 1] * (b - c) + d / e % f < n && g; }'
    source = Cuda(text, Facts("k", "add", "add", "k", ["x", "n"], [], {}))
    found = source.binary("+", "%", "<")
    got = {source.word(i): (source.get(source.left(i)), source.get(source.right(i))) for i in found}
    assert got["+"] == ("-a[n * 2 + 1] * (b - c)", "d / e % f")
    assert got["%"] == ("d / e", "f")
    assert got["<"] == ("-a[n * 2 + 1] * (b - c) + d / e % f", "n")
    assert [source.word(i) for i in source.binary("*")] == ["*", "*"], "that of a pointer is no product"


@pytest.mark.parametrize(("text", "complaint"), [("k(", "never closed"), ("k)", "closes nothing"), ("k `", "no token")])
def test_no_cuda(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Cuda(text, Facts("k", "add", "add", "k", [], [], {}))


def test_lines_changed() -> None:
    text = "a\n  b c\n  d\n"
    site = (Edit(4, 5, "B"), Edit(10, 11, "D"))
    line, before, after = lines_changed(text, site)
    assert (line, before, after) == (2, "b c\n  d", "B c\n  D")
    assert text.replace(before, after) == apply(text, site)


def test_difference() -> None:
    text = "a\n  b\n  c\n"
    for changed in ("a\n  c\n", "a\n  b\n  b\n  c\n", "a\n    b\n  c\n", "a\n  B\n  C\n", "x\n  b\n  c\n"):
        site = difference(text, changed)
        assert apply(text, site) == changed
        line, before, after = lines_changed(text, site)
        at = text.index(before, sum(len(x) + 1 for x in text.split("\n")[: line - 1]))
        assert text[:at] + after + text[at + len(before) :] == changed, "internal/corpus makes a mutant so"


def test_instructions() -> None:
    ptx = "// sm_80\n.visible .entry k()\n{\n\t.loc\t1 2 3\n$L__tmp1:\n\tret; // done\n}\n"
    debug = '\t.file 1 "k.cu"\n\t.section\t.debug_str\n\t{\n.b8 1\n\t}\n'
    assert engine.instructions(ptx + debug) == ".visible .entry k()\n{\nret;\n}"


SPEC = build.Spec(
    name="k", title="", op="add", family="add", language="cuda", entry="k", dtypes=["float32"], provenance="own",
    launch={"args": []}, source=pathlib.Path("k.cu"),
)  # fmt: skip


def mutant(number: int, operator: str = "mask_le", kernel: str = "k") -> engine.Mutant:
    spec = dataclasses.replace(SPEC, name=kernel)
    name = f"{kernel}.{operator}.{number}"
    return engine.Mutant(name, spec, operator, "mask", False, 1, "a", "b", "what", "b", ["float32"])


def test_judge() -> None:
    tried = [mutant(n) for n in range(1, 5)]
    ptx: dict[tuple[str, str], str | build.Broken] = {
        ("k", "float32"): "ret;",
        (tried[0].id, "float32"): build.Broken("no such type"),
        (tried[1].id, "float32"): "ret; // the same",
        (tried[2].id, "float32"): "add;",
        (tried[3].id, "float32"): "add;",
    }
    out = engine.judge(tried, ptx)
    assert out.stillborn == [{"id": "k.mask_le.1", "reason": "float32: no such type"}]
    assert out.equal == ["k.mask_le.2"]
    assert out.duplicates == [{"id": "k.mask_le.4", "of": "k.mask_le.3"}]
    assert [m["id"] for m in out.alive] == ["k.mask_le.3"]
    assert out.alive[0]["sha256"] == {"float32": hashlib.sha256(b"add;").hexdigest()}
    assert dict(out.files) == {"k": {"k.mask_le.3.float32.sm_80.ptx": "add;"}}


def test_chosen() -> None:
    found = [mutant(n, operator, kernel) for kernel in ("k", "l") for operator in ("p", "q") for n in range(1, 10)]
    taken = engine.chosen(found)
    assert engine.chosen(found[::-1]) == taken, "the order does not matter"
    rare = [*found, mutant(1, "rare")]
    assert mutant(1, "rare").id in [m.id for m in engine.chosen(rare)], "no operator goes without"
    assert all(sum(m.spec.name == kernel for m in taken) >= engine.PER_KERNEL for kernel in ("k", "l"))


def test_bug_edits(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = build.load_all()[0].name
    bug = tmp_path / "owner_1.toml"
    head = f'kernel = "{name}"\nref = "owner/repository#1"\nclass = "mask"\nwhat = "wrong"\ndtypes = ["float32"]\n'
    bug.write_text(head + '[[edits]]\nbefore = "not in the source"\nafter = ""\n')
    monkeypatch.setattr(engine, "BUGS", tmp_path)
    with pytest.raises(ValueError, match=r"owner_1.toml: .* has 'not in the source' 0 times"):
        engine.real_bugs()


def test_recorded() -> None:
    """mutants.json is what the engine makes of the sources, and the PTX is there."""
    record = json.loads(engine.RECORD.read_text())
    found = [m for spec in build.load_all() for m in engine.candidates(spec)]
    want = {m.id: m for m in [*engine.chosen(found), *engine.real_bugs()]}
    listed = [m["id"] for m in [*record["mutants"], *record["stillborn"], *record["duplicates"]]] + record["equal"]
    assert sorted(listed) == sorted(want), "run make corpus"
    for entry in record["mutants"]:
        assert entry == want[entry["id"]].record(entry["sha256"]), "run make corpus"
    for name in {m["kernel"] for m in record["mutants"]}:
        with zipfile.ZipFile(build.PTX / f"{name}.zip") as archive:
            there = {build.id_of(f) for f in archive.namelist()} - {name}
        assert there == {m["id"] for m in record["mutants"] if m["kernel"] == name}, "run make corpus"


if __name__ == "__main__":
    PLACES.write_text(places())
    sys.exit(0)

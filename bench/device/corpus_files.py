"""Reads internal/corpus, as docs/corpus.md describes it: base kernels, mutants, and their PTX."""

from __future__ import annotations

import json
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pool

ROOT = pool.ROOT / "internal" / "corpus"
KEYS = ("op", "entry", "dtypes", "launch")  # that a kernel's file must have


@dataclass(frozen=True)
class Subject:
    """A base kernel or a mutant: what it is to compute, and how it is launched."""

    id: str
    kernel: str  # the base kernel; of one its own name
    op: str
    entry: str
    dtypes: tuple[str, ...]
    launch: dict[str, Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    group: str = ""  # class of the fault; "" of a base kernel
    held_out: bool = False
    max_sizes: dict[str, int] = field(default_factory=dict)  # that the kernel is made for

    @property
    def mutant(self) -> bool:
        """Whether something is wrong with it."""
        return self.group != ""

    @property
    def arch(self) -> str:
        """What its PTX on a GPU is compiled for: mutants have one architecture, which the driver translates."""
        return "sm_80" if self.mutant else "sm_90"


class Corpus:
    """The kernels and mutants of a folder, by id, base kernels first."""

    def __init__(self, folder: Path = ROOT) -> None:
        self.folder = folder
        kernels = {path.stem: _read(path) for path in sorted((folder / "kernels").glob("*.toml"))}
        if not kernels:
            raise SystemExit(f"{folder} has no kernels: run from a checkout that has the corpus")
        self.subjects = {name: _subject(name, name, spec) for name, spec in kernels.items()}
        for entry in _mutants(folder / "mutants.json"):
            spec = dict(kernels[entry["kernel"]], dtypes=entry["dtypes"])
            self.subjects[entry["id"]] = _subject(entry["id"], entry["kernel"], spec, entry["class"], entry["held_out"])

    def ptx(self, subject: Subject, dtype: str, arch: str) -> str:
        """The PTX of a subject in a number format."""
        name = f"{subject.id}.{dtype}.{arch}.ptx"
        path = self.folder / "ptx" / f"{subject.kernel}.zip"
        try:
            with zipfile.ZipFile(path) as archive:
                return archive.read(name).decode()
        except (OSError, KeyError):
            raise LookupError(f"{path.name} has no {name}: make corpus builds it") from None


def _read(path: Path) -> dict[str, Any]:
    if sys.version_info < (3, 11):
        raise SystemExit("the files of the corpus are TOML: run it with Python 3.11 or newer")
    import tomllib

    with path.open("rb") as file:
        spec = tomllib.load(file)
    missing = [key for key in KEYS if key not in spec]
    if missing:
        raise SystemExit(f"{path}: {missing[0]} is missing: docs/corpus.md lists the keys")
    return spec


def _mutants(path: Path) -> list[dict[str, Any]]:
    """The list of mutants; none while there is no such file."""
    if not path.exists():
        return []
    mutants: list[dict[str, Any]] = json.loads(path.read_text())["mutants"]
    return mutants


def _subject(name: str, kernel: str, spec: dict[str, Any], group: str = "", held_out: bool = False) -> Subject:
    return Subject(name, kernel, spec["op"], spec["entry"], tuple(spec["dtypes"]), spec["launch"],
                   spec.get("attributes", {}), group, held_out, spec.get("max_sizes", {}))  # fmt: skip


def config_of(subject: Subject, contiguous: bool) -> str:
    """A gpuemu.toml with the subject as its only op, which this process executes. Its cases are those of the emulator's
    study: they follow from the name, the schema, the formats and layouts of the op, and from the seed.
    """
    lines = ["[[ops]]", f"name = {json.dumps(subject.id)}", f"schema = {json.dumps(subject.op)}",
             f"dtypes = {json.dumps(list(subject.dtypes))}"]  # fmt: skip
    if contiguous:  # as for a kernel of the emulator that is told no strides
        lines.append('layouts = ["contiguous"]')
    if subject.max_sizes:
        sizes = ", ".join(f"{name} = {size}" for name, size in subject.max_sizes.items())
        lines.append(f"max_sizes = {{ {sizes} }}")
    if subject.attributes:
        lines.append("[ops.attributes]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in subject.attributes.items()]
    return "\n".join(lines) + "\n"

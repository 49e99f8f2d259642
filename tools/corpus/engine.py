"""Makes the mutants of internal/corpus: finds places, chooses, compiles, writes mutants.json and ptx.

    engine.py               makes all; what did not change since the last time is taken from .cache/corpus
    engine.py --list        prints what would be made, and compiles nothing

Places of an operator are numbered in the order of the source, at most MAX_SITES of them. Which are taken follows from
the SHA-256 of their ids: first PER_OPERATOR of each operator, then PER_KERNEL of each kernel. Real bugs are all taken.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import hashlib
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import build
import cuda_edits
import operators
import tomllib
import triton_edits
from cuda_source import Cuda
from source import Facts, Site, apply, difference, lines_changed
from triton_source import Triton

BUGS = build.ROOT / "internal/corpus/bugs"
RECORD = build.ROOT / "internal/corpus/mutants.json"
PAGE = build.ROOT / "docs/corpus-operators.md"
CACHE = build.ROOT / ".cache/corpus"
ARCH = "sm_80"
MAX_SITES = 3  # of one operator in one kernel
PER_OPERATOR = 4  # at least, where there are as many places
PER_KERNEL = 5  # at least; what is taken for the sake of operators comes on top
FORMATS = 2  # of a mutant
REASON = 160  # characters of a compiler's complaint


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A source with one fault; text is the whole of it."""

    id: str
    spec: build.Spec
    operator: str
    family: str
    held_out: bool
    line: int
    before: str
    after: str
    what: str
    text: str
    dtypes: list[str]
    ref: str = ""

    def record(self, digests: dict[str, str]) -> dict[str, Any]:
        """The entry of mutants.json."""
        entry = {
            "id": self.id, "kernel": self.spec.name, "operator": self.operator, "class": self.family,
            "held_out": self.held_out, "line": self.line, "before": self.before, "after": self.after, "what": self.what,
        }  # fmt: skip
        ref = {"ref": self.ref} if self.ref else {}
        return {**entry, **ref, "dtypes": self.dtypes, "sha256": digests}


def facts(spec: build.Spec) -> Facts:
    return Facts(spec.name, spec.op, spec.family, spec.entry, spec.launch["args"], spec.signature, spec.constants)


def sites(spec: build.Spec, text: str) -> Iterator[tuple[operators.Operator, Site]]:
    """All places of all operators in a source, in the order of operators."""
    known: dict[str, Any] = triton_edits.EDITS if spec.language == "triton" else cuda_edits.EDITS
    source = Triton(text, facts(spec)) if spec.language == "triton" else Cuda(text, facts(spec))
    for operator in operators.OPERATORS:
        if operator.name in known:
            found = sorted(known[operator.name](source), key=lambda site: [(e.start, e.end, e.text) for e in site])
            yield from ((operator, site) for site in found)


def candidates(spec: build.Spec) -> list[Mutant]:
    """The mutants that could be made of a kernel; edits that change nothing or agree with an earlier one are none."""
    text = spec.source.read_text()
    seen = {text}
    count: dict[str, int] = collections.Counter()
    found = []
    for operator, site in sites(spec, text):
        changed = apply(text, site)
        if changed in seen or count[operator.name] == MAX_SITES:
            continue
        seen.add(changed)
        count[operator.name] += 1
        line, before, after = lines_changed(text, site)
        mutant = Mutant(
            id=f"{spec.name}.{operator.name}.{count[operator.name]}", spec=spec, operator=operator.name,
            family=operator.family, held_out=operator.held_out, line=line, before=before, after=after,
            what=operator.what, text=changed, dtypes=spec.dtypes[:FORMATS],
        )  # fmt: skip
        found.append(mutant)
    return found


def chosen(found: Iterable[Mutant]) -> list[Mutant]:
    """Those that are made, in the order of their ids' digests."""
    order = sorted(found, key=lambda m: hashlib.sha256(m.id.encode()).hexdigest())
    by_operator: dict[str, int] = collections.Counter()
    by_kernel: dict[str, int] = collections.Counter()
    taken = []
    for m in order:
        if by_operator[m.operator] < PER_OPERATOR:
            by_operator[m.operator] += 1
            by_kernel[m.spec.name] += 1
            taken.append(m)
    for m in order:
        if by_kernel[m.spec.name] < PER_KERNEL and m not in taken:
            by_kernel[m.spec.name] += 1
            taken.append(m)
    return taken


def real_bugs() -> list[Mutant]:
    """The bugs of public trackers, as edits of a base kernel's source."""
    return [real_bug(path) for path in sorted(BUGS.glob("*.toml"))]


def real_bug(path: pathlib.Path) -> Mutant:
    table = tomllib.loads(path.read_text())
    spec = build.load(build.KERNELS / f"{table['kernel']}.toml")
    text = spec.source.read_text()
    changed = text
    for edit in table["edits"]:
        times = changed.count(edit["before"])
        if times != 1:
            raise ValueError(f"{path}: {spec.source.name} has {edit['before']!r} {times} times, and it must be once")
        changed = changed.replace(edit["before"], edit["after"])
    line, before, after = lines_changed(text, difference(text, changed))
    return Mutant(
        id=f"real.{path.stem}", spec=spec, operator="real", family=table["class"], held_out=False, line=line,
        before=before, after=after, what=table["what"], text=changed,
        dtypes=table["dtypes"][:FORMATS], ref=table["ref"],
    )  # fmt: skip


def compiled(jobs: list[build.Job]) -> dict[tuple[str, str], str | build.Broken]:
    """What compilers made of each job, by id and format; that of the last time where nothing has changed."""
    found: dict[tuple[str, str], str | build.Broken] = {}
    fresh = []
    CACHE.mkdir(parents=True, exist_ok=True)
    for job in jobs:
        kept = CACHE / key(job)
        if kept.exists():
            found[job.id, job.dtype] = unpack(kept.read_text())
        else:
            fresh.append(job)
    for n, (job, result) in enumerate(build.compile_all(fresh), 1):
        found[job.id, job.dtype] = result
        text = f"{type(result).__name__}\n{result}"
        (CACHE / key(job)).write_text(text)
        complaint = f": {result}"[:REASON] if is_broken(result) else ""
        print(f"[{n}/{len(fresh)}] {job.id} {job.dtype}{complaint}", flush=True)
    return found


def is_broken(result: str | build.Broken) -> bool:
    return isinstance(result, build.Broken)


def unpack(text: str) -> str | build.Broken:
    kind, _, rest = text.partition("\n")
    return build.Broken(rest) if kind == "Broken" else rest


def key(job: build.Job) -> str:
    """Names what a build depends on, the builder included."""
    spec = job.spec
    builder = hashlib.sha256(pathlib.Path(build.__file__).read_bytes()).hexdigest()
    parts = [job.text, job.dtype, job.arch, spec.entry, spec.signature, spec.constants, spec.warps, spec.stages]
    return hashlib.sha256(repr([builder, *parts, spec.launch.get("shared", 0)]).encode()).hexdigest()


def instructions(ptx: str) -> str:
    """PTX without comments, line numbers and what else is for debuggers alone."""
    ptx = re.sub(r"/\*.*?\*/|//[^\n]*", "", ptx, flags=re.S)
    ptx = re.sub(r"^\s*\.section\s+\.debug[^{]*\{.*?^\s*\}", "", ptx, flags=re.S | re.M)
    lines = (line.strip() for line in ptx.splitlines())
    debug = re.compile(r"\.(loc|file)\b|\$L__(tmp|func|info|debug)\w*:$")
    return "\n".join(line for line in lines if line and not debug.match(line))


@dataclasses.dataclass
class Outcome:
    """What became of the mutants that were tried."""

    alive: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    stillborn: list[dict[str, str]] = dataclasses.field(default_factory=list)
    equal: list[str] = dataclasses.field(default_factory=list)
    duplicates: list[dict[str, str]] = dataclasses.field(default_factory=list)
    files: dict[str, dict[str, str]] = dataclasses.field(default_factory=lambda: collections.defaultdict(dict))


def judge(tried: list[Mutant], results: dict[tuple[str, str], str | build.Broken]) -> Outcome:
    """Sorts out what does not compile, what compiles to the code of its base, and what to that of another mutant."""
    out = Outcome()
    first: dict[tuple[str, ...], str] = {}
    for m in sorted(tried, key=lambda m: (m.spec.name, m.operator != "real", m.id)):
        texts = {d: results[m.id, d] for d in m.dtypes}
        broken = next((f"{d}: {t}" for d, t in texts.items() if is_broken(t)), None)
        if broken is not None:
            out.stillborn.append({"id": m.id, "reason": broken[:REASON]})
            continue
        code = tuple(instructions(str(texts[d])) for d in m.dtypes)
        if code == tuple(instructions(str(results[m.spec.name, d])) for d in m.dtypes):
            out.equal.append(m.id)
            continue
        if code in first:
            out.duplicates.append({"id": m.id, "of": first[code]})
            continue
        first[code] = m.id
        out.alive.append(m.record({d: hashlib.sha256(str(t).encode()).hexdigest() for d, t in texts.items()}))
        for d, t in texts.items():
            out.files[m.spec.name][f"{m.id}.{d}.{ARCH}.ptx"] = str(t)
    return out


def document(out: Outcome) -> str:
    """mutants.json: an entry a line, so that a change can be read."""

    def rows(entries: list[Any]) -> str:
        return "[\n" + ",\n".join(json.dumps(e) for e in entries) + "\n]" if entries else "[]"

    parts: dict[str, list[Any]] = {"mutants": out.alive, "stillborn": out.stillborn}
    parts |= {"equal": out.equal, "duplicates": out.duplicates}
    return "{\n" + ",\n".join(f'"{name}": {rows(entries)}' for name, entries in parts.items()) + "\n}\n"


def make(tried: list[Mutant], specs: list[build.Spec]) -> int:
    bases = {(m.spec.name, d): m.spec for m in tried for d in m.dtypes}
    jobs = [build.Job(name, spec, spec.source.read_text(), d, ARCH) for (name, d), spec in bases.items()]
    jobs += [build.Job(m.id, m.spec, m.text, d, ARCH) for m in tried for d in m.dtypes]
    results = compiled(jobs)
    wrong = [f"{name} {d}: {results[name, d]}" for name, d in bases if is_broken(results[name, d])]
    if wrong:
        print("base kernels that do not compile:", *wrong, sep="\n", file=sys.stderr)
        return 1
    out = judge(tried, results)
    missing = [spec for spec in specs if not (build.PTX / f"{spec.name}.zip").exists()]
    if build.build_kernels(missing):
        return 1
    for spec in specs:
        build.replace(spec.name, out.files[spec.name], keep=lambda kernel_id, base=spec.name: kernel_id == base)
    RECORD.write_text(document(out))
    PAGE.write_text(operators.page())
    report(out)
    return 0


def report(out: Outcome) -> None:
    for name in ("class", "kernel", "operator"):
        counts = collections.Counter(m[name] for m in out.alive)
        print(f"by {name}: " + ", ".join(f"{k} {n}" for k, n in sorted(counts.items())))
    held = sum(m["held_out"] for m in out.alive)
    size = sum(p.stat().st_size for p in build.PTX.glob("*.zip"))
    print(f"{len(out.alive)} mutants, {held} of them held out; all PTX has {size:,} bytes")
    print(f"{len(out.stillborn)} stillborn, {len(out.equal)} with the code of their base, ", end="")
    print(f"{len(out.duplicates)} with that of another")


def main() -> int:
    parser = argparse.ArgumentParser(description="makes the mutants of internal/corpus")
    parser.add_argument("--list", action="store_true", help="prints what would be made and compiles nothing")
    parser.add_argument("--all", action="store_true", help="with --list: all places, not those that are chosen")
    args = parser.parse_args()
    try:
        specs = build.load_all()
        found = [m for spec in specs for m in candidates(spec)]
        tried = (found if args.all else chosen(found)) + real_bugs()
    except (OSError, ValueError, KeyError) as e:
        parser.error(str(e))
    if not args.list:
        return make(tried, specs)
    for m in sorted(tried, key=lambda m: m.id):
        print(f"{m.id}{' (held out)' if m.held_out else ''}: line {m.line}\n  - {m.before}\n  + {m.after}")
    print(f"{len(found)} places, {len(tried)} chosen")
    return 0


if __name__ == "__main__":
    sys.exit(main())

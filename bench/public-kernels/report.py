"""Tables of what was recorded. report.py OUT prints Markdown; it fails where alarms.toml does not classify an alarm."""

from __future__ import annotations

import collections
import json
import pathlib
import sys
from typing import Any

import tomllib

ORDER = ("llm.c", "llama.cpp", "vllm", "bitsandbytes", "liger", "fla")
Row = dict[str, Any]


def rows_of(out: pathlib.Path) -> dict[str, list[Row]]:
    """All rows by project."""
    found = {}
    for path in sorted(out.glob("*.jsonl")):
        found[path.stem] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return found


def name(row: Row) -> tuple[str, str]:
    """A kernel function: its module and its name."""
    return row["module"], row["kernel"]


def alarms() -> dict[tuple[str, str], Row]:
    """The classifications, by project and kernel."""
    with open(pathlib.Path(__file__).with_name("alarms.toml"), "rb") as file:
        entries = tomllib.load(file)["alarm"]
    return {(e["project"], e["kernel"]): e for e in entries}


def cells(project: str, rows: list[Row], known: dict[tuple[str, str], Row]) -> tuple[list[Any], set[tuple[str, str]]]:
    """The numbers of a project, and its kernels with alarms."""
    launches = [r for r in rows if r["row"] == "launch"]
    ran = [r for r in launches if r["error"] is None]
    loud = {name(r) for r in ran if r["findings"]}
    refused = {name(r) for r in launches if r["error"] is not None} | {name(r) for r in rows if r["row"] == "skipped"}
    classes = collections.Counter(known[project, kernel]["class"] for _, kernel in loud if (project, kernel) in known)
    compared = [c for r in rows if r["row"] == "case" for c in r["compared"]]
    right = sum(c["ok"] for c in compared)
    kernels = {name(r) for r in ran}
    versions = {r["version"] for r in rows}
    return [
        f"{project} {', '.join(sorted(versions))}", len(kernels), len({(*name(r), r["spec"]) for r in ran}), len(ran),
        sum(not r["findings"] for r in ran), len(kernels - loud), classes["true"], classes["false"],
        len(refused - kernels), right, len(compared) - right,
        sum(r["row"] == "case" and not r["compared"] for r in rows),
    ], {(project, kernel) for _, kernel in loud}  # fmt: skip


def refusals(rows: list[Row]) -> dict[str, set[str]]:
    """Kernels that were not executed, by reason."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for r in rows:
        if r["row"] == "skipped":
            found[r["why"]].add(r["kernel"])
        elif r["row"] == "launch" and r["error"] is not None:
            found[r["error"]].add(r["kernel"])
    return found


def main() -> int:
    """Prints the tables."""
    recorded, known = rows_of(pathlib.Path(sys.argv[1])), alarms()
    print("| project | kernels | specializations | launches | silent launches | silent kernels | with true findings "
          "| with false alarms | not executed | outputs right | outputs wrong | cases not compared |")  # fmt: skip
    print("|" + "---|" * 12)
    total: list[Any] = ["total"] + [0] * 11
    seen: set[tuple[str, str]] = set()
    for project in ORDER:
        if project in recorded:
            row, loud = cells(project, recorded[project], known)
            seen |= loud
            total = [total[0]] + [a + b for a, b in zip(total[1:], row[1:])]
            print("| " + " | ".join(map(str, row)) + " |")
    print("| " + " | ".join(map(str, total)) + " |\n")
    for project in ORDER:
        for why, kernels in sorted(refusals(recorded.get(project, [])).items()):
            print(f"- {project}: {why}: {', '.join(sorted(kernels))}")
        for r in recorded.get(project, []):
            wrong = [c["name"] for c in r.get("compared", []) if not c["ok"]]
            if wrong:
                print(f"- {project}, {r['case']}: wrong: {', '.join(wrong)}")
            if r["row"] == "case" and r["ended"] != "ok" and not r["ended"].startswith("not executed"):
                print(f"- {project}, {r['case']}: {r['ended'][:160]}")
    print()
    for (project, kernel), entry in known.items():
        launches = [r for r in recorded.get(project, []) if r.get("kernel") == kernel]
        kinds = ", ".join(sorted({f["kind"] for r in launches for f in r.get("findings", [])})) or "silent now"
        print(f"- **{project}, `{kernel}`** ({kinds}; {entry['class']}): {entry['text']}")
    missing = sorted(seen - set(known))
    for project, kernel in missing:
        print(f"not classified: {project} {kernel}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

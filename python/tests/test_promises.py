"""Names and signatures of the API document and of the published package: here, or different for a reason.

testdata/promises has both tables and differences.json, which has the reasons. docs/python/promises.md is made from
them: GPUEMU_UPDATE=1 writes it anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import promises
import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "testdata" / "promises"
PAGE = ROOT / "docs" / "python" / "promises.md"
PUBLISHED = ROOT / ".cache" / "published-venv"
TITLES = {"document-003": "The API document", "published-v1": "The published package, gpuemu 0.1.0"}
HEAD = """# Promises

Every name and signature of the API document and of the published package, and what it is here. A test walks both tables
and fails on a difference that has no reason. More parameters than promised, and defaults where there were none, are no
differences: every promised call is taken. This page is generated: `GPUEMU_UPDATE=1 pytest
python/tests/test_promises.py`.
"""


def table(name: str) -> dict[str, promises.Entry]:
    found: dict[str, promises.Entry] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert len(found) > 50, "an empty table promises nothing"
    return found


def reasons(name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((DATA / "differences.json").read_text(encoding="utf-8"))[name]
    return found


@pytest.mark.parametrize("name", TITLES)
def test_differences_have_reasons(name: str) -> None:
    found, known = promises.differences(table(name)), reasons(name)
    without = {k: v for k, v in found.items() if k not in known}
    assert without == {}, "keep the promise, or give differences.json a reason"
    assert sorted(set(known) - set(found)) == [], "these promises are kept: differences.json says otherwise"
    assert all(len(reason) > 20 for reason in known.values())


def test_the_table_is_that_of_the_published_package() -> None:
    sources = sorted(PUBLISHED.glob("lib/python*/site-packages/gpuemu"))
    if not sources:
        pytest.skip("the published package is not installed: tools/setup-published.sh installs it")
    assert promises.read_package(sources[0]) == table("published-v1")


def test_differences_are_seen() -> None:
    """The walk finds what is missing or different."""
    def entry(*parameters: Any) -> promises.Entry:
        return {"kind": "function", "parameters": [list(p) for p in parameters]}

    wrong = {
        "gpuemu.no_such_name": {"kind": "name"}, "gpuemu.no_such_module": {"kind": "module"},
        "gpuemu.Client.no_such_attribute": {"kind": "attribute"},
        "gpuemu.derive_seed": entry(("seed", None), ("domain", None), ("salt", None)),
        "gpuemu.Client.get_result": entry(),
        "gpuemu.Client.list_results": entry(("limit", "7")),
        "gpuemu.ToleranceConfig": {"kind": "class", "fields": [["rtol", None], ["atol", None]]},
        "gpuemu.FuzzResults": {"kind": "class", "fields": [["seed", None], ["seeds", None]]},
    }
    assert promises.differences(wrong) == {
        "gpuemu.no_such_name": "missing", "gpuemu.no_such_module": "missing",
        "gpuemu.Client.no_such_attribute": "missing", "gpuemu.derive_seed": "salt missing",
        "gpuemu.Client.get_result": "seed is needed as well", "gpuemu.Client.list_results": "limit=7 is limit=100",
        "gpuemu.ToleranceConfig": "rtol at another place, atol at another place",
        "gpuemu.FuzzResults": "fields missing: seeds; total is needed as well, passed is needed as well, "
                              "failed is needed as well",
    }  # fmt: skip
    right = {
        "gpuemu.Client.socket_path": {"kind": "attribute"}, "gpuemu.FuzzConfig.dtypes": {"kind": "attribute"},
        "gpuemu.Client.get_result": entry(("seed", None)), "gpuemu.validate": {"kind": "module"},
    }  # fmt: skip
    assert promises.differences(right) == {}


def shown(entry: promises.Entry) -> str:
    listed = entry.get("parameters") or entry.get("fields")
    words = [name if default is None else f"{name}={default}" for name, default in listed or []]
    return f"({', '.join(words)})" if listed or entry["kind"] == "function" else f" ({entry['kind']})"


def page() -> str:
    parts = [HEAD]
    for name, title in TITLES.items():
        entries, known = table(name), reasons(name)
        found = promises.differences(entries)
        parts.append(f"\n## {title}\n\n{len(entries)} names, {len(entries) - len(found)} as promised.\n\n")
        parts.append("| promise | here |\n|---|---|\n")
        for promise, entry in entries.items():
            here = f"{found[promise]}: {known.get(promise, '?')}" if promise in found else "kept"
            parts.append(f"| `{promise}{shown(entry)}` | {here} |\n")
    return "".join(parts)


def test_the_page_has_the_tables() -> None:
    want = page()
    if os.environ.get("GPUEMU_UPDATE"):
        PAGE.write_text(want, encoding="utf-8")
    how = "GPUEMU_UPDATE=1 pytest python/tests/test_promises.py writes it anew"
    assert PAGE.read_text(encoding="utf-8") == want, how

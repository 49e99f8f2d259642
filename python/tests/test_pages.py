"""The pages of the package: what they show runs, and docs/python/api.md has what there is.

Fenced blocks of a page marked ```python are executed in order, in one namespace and in an empty directory. Those marked
```python gpu are compiled only. GPUEMU_UPDATE=1 writes api.md anew.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gpuemu

ROOT = Path(__file__).resolve().parents[2]
PAGES = {page.stem: page for page in sorted((ROOT / "docs" / "python").glob("*.md"))}
PAGES.update({"README": ROOT / "python" / "README.md", "front": ROOT / "README.md"})
FRAMEWORKS = {name: name for name in ("torch", "jax", "tensorflow", "triton")}
COMPILERS = ["nvcc", "clang", *(f"clang-{version}" for version in range(14, 40))]
_BLOCK = re.compile(r"^```python( gpu)?\n(.*?)^```$", re.M | re.S)


def blocks(page: Path, gpu: bool) -> list[tuple[int, str]]:
    """The blocks of a page: the line they begin at, and their text."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start(2)) + 1, m[2]) for m in _BLOCK.finditer(text) if bool(m[1]) == gpu]


def compiled(page: Path, line: int, text: str) -> Any:
    """A block as code whose tracebacks name the page and its line."""
    return compile("\n" * (line - 1) + text, str(page), "exec")


def require(name: str) -> None:
    """Skips what a page needs and this interpreter or machine has not."""
    if name in FRAMEWORKS and importlib.util.find_spec(FRAMEWORKS[name]) is None:
        pytest.skip(f"the page is about {FRAMEWORKS[name]}, which is not installed")
    if name == "emulator" and not any(map(shutil.which, COMPILERS)):
        pytest.skip("the page compiles CUDA C++, and there is neither nvcc nor clang")
    if name == "pytest" and importlib.util.find_spec("hypothesis") is None:
        pytest.skip("the page has strategies of Hypothesis, which is not installed")
    if name == "cuda" and shutil.which("cc") is None:
        pytest.skip("the page compiles C, and there is no cc")


def test_there_are_pages() -> None:
    want = {"numpy", "torch", "jax", "tensorflow", "triton", "cuda", "emulator", "pytest", "api", "promises", "README",
            "front"}  # fmt: skip
    assert set(PAGES) == want
    shown = {name: len(blocks(page, False)) + len(blocks(page, True)) for name, page in PAGES.items()}
    assert all(count > 0 for name, count in shown.items() if name not in ("api", "promises")), shown
    for page in PAGES.values():
        text = page.read_text(encoding="utf-8")
        assert text.count("```python") == len(_BLOCK.findall(text)), f"{page.name} has a block that is not read"


@pytest.mark.parametrize("name", [name for name in PAGES if blocks(PAGES[name], False)])
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # adversarial values overflow on purpose
def test_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(name)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": f"page_{name}"}
    for line, text in blocks(PAGES[name], gpu=False):
        exec(compiled(PAGES[name], line, text), namespace)


@pytest.mark.parametrize("name", [name for name in PAGES if blocks(PAGES[name], True)])
def test_blocks_for_a_gpu_compile(name: str) -> None:
    for line, text in blocks(PAGES[name], gpu=True):
        compiled(PAGES[name], line, text)


@pytest.mark.parametrize("name", [name for name in PAGES if blocks(PAGES[name], True)])
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_blocks_for_a_gpu_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole page, on a machine with a GPU: run there with -k gpu (bench/device/README.md)."""
    require(name)
    torch = pytest.importorskip("torch", reason="torch is needed to see whether there is a GPU")
    if not torch.cuda.is_available():
        pytest.skip("the page has blocks for a GPU, and there is none")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": f"page_{name}"}
    for line, text in sorted(blocks(PAGES[name], gpu=False) + blocks(PAGES[name], gpu=True)):
        exec(compiled(PAGES[name], line, text), namespace)


@pytest.mark.parametrize(("name", "tests"), [("pytest", 41), ("README", 50)])
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_decorated_kernels_pass(
    name: str, tests: int, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    require(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # where the package is installed, too
    pytester.makepyfile(test_page="\n".join(text for _, text in blocks(PAGES[name], gpu=False)))
    pytester.runpytest_inprocess("-p", "gpuemu.pytest_plugin", "-q").assert_outcomes(passed=tests)


def test_links_of_the_pages() -> None:
    for page in PAGES.values():
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
        for link in re.findall(r"\]\(([^)#]+)", prose):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} links to {link}"


# ---- api.md ----------------------------------------------------------------------------------------------------------

MODULES = ["gpuemu", "gpuemu.kernels", "gpuemu.strategies", "gpuemu.tolerances", "gpuemu.frameworks",
           "gpuemu.frameworks.pytorch", "gpuemu.frameworks.jax", "gpuemu.frameworks.tensorflow"]  # fmt: skip
HEAD = """# Names of the package

Everything that is public, with the first sentence of its documentation; `help(NAME)` has the rest. This page is
generated from the package: `GPUEMU_UPDATE=1 pytest python/tests/test_pages.py`.
"""


def first_sentence(thing: Any) -> str:
    text = inspect.getdoc(thing) or ""
    # Neither a cell nor a link ends where the code in a sentence has such characters.
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|").replace("](", "]\\(")


def parameters(function: Any, skip: int = 0) -> str:
    """The parameters with their defaults; the types are in the source and in what help() shows."""
    shown, star = [], False
    for p in list(inspect.signature(function).parameters.values())[skip:]:
        if p.kind == p.KEYWORD_ONLY and not star:
            shown.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        prefix = {p.VAR_KEYWORD: "**", p.VAR_POSITIONAL: "*"}.get(p.kind, "")
        value = "…" if "<" in repr(p.default) else repr(p.default)  # made anew for each call, or an object
        default = "" if p.default is p.empty else "=" + value
        shown.append(prefix + p.name + default)
    return ", ".join(shown).replace("|", "\\|")


def rows_of(name: str, thing: Any) -> list[str]:
    """The line of a name, and those of the methods of a class."""
    if not callable(thing):
        return [f"| `{name}` | {thing if isinstance(thing, str) and name != '__version__' else 'the version'} |"]
    if not inspect.isclass(thing):
        return [f"| `{name}({parameters(thing)})` | {first_sentence(thing)} |"]
    rows = [f"| **`{name}({parameters(thing)})`** | {first_sentence(thing)} |"]
    for attribute, member in vars(thing).items():
        if attribute.startswith("_"):
            continue
        if isinstance(member, property):
            rows.append(f"| `.{attribute}` | {first_sentence(member)} |")
        elif isinstance(member, (classmethod, staticmethod)):
            skip = int(isinstance(member, classmethod))
            rows.append(f"| `.{attribute}({parameters(member.__func__, skip)})` | {first_sentence(member.__func__)} |")
        elif inspect.isfunction(member):
            rows.append(f"| `.{attribute}({parameters(member, 1)})` | {first_sentence(member)} |")
    return rows


def public_names(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=str.lower)
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    return sorted((n for n in own if n[0] != "_" and callable(getattr(module, n))), key=str.lower)


def api_page() -> str:
    """docs/python/api.md: a name that the package itself has is not listed again with its module."""
    parts, seen = [HEAD], set()
    for name in MODULES:
        module = importlib.import_module(name)
        rows = []
        for public in public_names(module):
            thing = getattr(module, public)
            if id(thing) not in seen:
                rows += rows_of(public, thing)
            seen.add(id(thing))
        head = f"\n## {name}\n\n{first_sentence(module)}\n\n| name | what it is |\n|---|---|\n"
        parts.append(head + "\n".join(rows) + "\n")
    return "".join(parts)


def test_api_page_has_what_there_is() -> None:
    page, want = ROOT / "docs" / "python" / "api.md", api_page()
    if os.environ.get("GPUEMU_UPDATE"):
        page.write_text(want, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == want, "GPUEMU_UPDATE=1 pytest python/tests/test_pages.py writes it anew"


def test_every_public_name_is_documented() -> None:
    modules = [importlib.import_module(name) for name in MODULES]
    things = {f"{m.__name__}.{n}": getattr(m, n) for m in modules for n in public_names(m)}
    without = [name for name, thing in things.items() if callable(thing) and not thing.__doc__]
    assert without == []
    assert set(gpuemu.__all__) <= set(vars(gpuemu))

"""Reads the names and signatures of a package from its source, for the table of promises; and those of ours.

`python python/tests/promises.py PACKAGE_DIRECTORY` prints the table of the published package
(testdata/promises/published-v1.json).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


def read_package(directory: Path) -> dict[str, Entry]:
    """Every public name of a package: modules, constants, functions, classes with fields, methods and attributes."""
    found: dict[str, Entry] = {}
    for path in sorted(directory.rglob("*.py")):
        parts = path.relative_to(directory).with_suffix("").parts
        module = ".".join([directory.name, *(p for p in parts if p != "__init__")])
        found[module] = {"kind": "module"}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            _read(node, module, found)
    return found


def _read(node: ast.stmt, module: str, found: dict[str, Entry]) -> None:
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
        found[f"{module}.{node.name}"] = {"kind": "function", "parameters": _parameters(node.args, 0)}
    elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
        _read_class(node, f"{module}.{node.name}", found)
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and not target.id.startswith("_") and target.id.isupper():
                found[f"{module}.{target.id}"] = {"kind": "constant"}
    elif isinstance(node, ast.ImportFrom) and module == "gpuemu":
        for alias in node.names:
            found[f"{module}.{alias.name}"] = {"kind": "name"}


def _read_class(node: ast.ClassDef, name: str, found: dict[str, Entry]) -> None:
    fields = [
        [member.target.id, None if member.value is None else ast.unparse(member.value)]
        for member in node.body
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name)
    ]
    found[name] = {"kind": "class", "fields": fields} if fields else {"kind": "class"}
    for member in node.body:
        if isinstance(member, ast.ClassDef):
            _read_class(member, f"{name}.{member.name}", found)
        if not isinstance(member, ast.FunctionDef):
            continue
        if member.name == "__init__":
            found[name]["parameters"] = _parameters(member.args, 1)
            for attribute in sorted(_attributes(member)):
                found[f"{name}.{attribute}"] = {"kind": "attribute"}
        elif not member.name.startswith("_"):
            decorators = [ast.unparse(d) for d in member.decorator_list]
            if "property" in decorators:
                found[f"{name}.{member.name}"] = {"kind": "attribute"}
            else:
                skip = 0 if "staticmethod" in decorators else 1
                found[f"{name}.{member.name}"] = {"kind": "function", "parameters": _parameters(member.args, skip)}


def _attributes(init: ast.FunctionDef) -> set[str]:
    return {
        node.attr
        for node in ast.walk(init)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not node.attr.startswith("_")
        and isinstance(node.value, ast.Name) and node.value.id == "self"
    }  # fmt: skip


def _parameters(args: ast.arguments, skip: int) -> list[list[str | None]]:
    """[name, default as text or None]; *args and **kwargs by their stars."""
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + [ast.unparse(d) for d in args.defaults]
    out: list[list[str | None]] = [[a.arg, d] for a, d in zip(positional, defaults)][skip:]
    out += [[f"*{args.vararg.arg}", None]] if args.vararg else []
    out += [[a.arg, None if d is None else ast.unparse(d)] for a, d in zip(args.kwonlyargs, args.kw_defaults)]
    return out + ([[f"**{args.kwarg.arg}", None]] if args.kwarg else [])


def as_text(table: dict[str, Entry]) -> str:
    """The table as JSON, a name a line."""
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in table.items()) + "\n}\n"


# ---- ours ------------------------------------------------------------------------------------------------------------


def differences(table: dict[str, Entry]) -> dict[str, str]:
    """What differs here, by name: a name that is missing, a parameter that is, or another default or place."""
    found: dict[str, str] = {}
    for name, entry in table.items():
        said = _difference(name, entry)
        if said:
            found[name] = said
    return found


def _difference(name: str, entry: Entry) -> str:
    if entry["kind"] == "module":
        try:
            importlib.import_module(name)
        except ImportError:
            return "missing"
        return ""
    holder, thing = _find(name)
    if thing is None:
        return "" if entry["kind"] == "attribute" and _is_attribute(holder, name) else "missing"
    parts = []
    if "fields" in entry:
        known = set(inspect.signature(thing).parameters) | set(vars(thing))
        missing = [field for field, _ in entry["fields"] if field not in known]
        parts += [f"fields missing: {', '.join(missing)}"] if missing else []
        made = set(inspect.signature(thing).parameters)  # others follow from these
        parts += [_compared(thing, 0, [field for field in entry["fields"] if field[0] in made])]
    if "parameters" in entry:
        skip = int(inspect.isclass(holder) and inspect.isfunction(inspect.getattr_static(holder, name.split(".")[-1])))
        parts.append(_compared(thing, skip, entry["parameters"]))
    return "; ".join(filter(None, parts))


def _find(name: str) -> tuple[Any, Any]:
    """The module or class that has a name, and what it is; None where it is not there."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            holder: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:-1]:
            holder = getattr(holder, part, None)
        return holder, getattr(holder, parts[-1], None)
    return None, None


def _is_attribute(holder: Any, name: str) -> bool:
    """Whether instances get an attribute: a field, or one that __init__ sets."""
    attribute = name.split(".")[-1]
    if holder is None:
        return False
    fields = getattr(holder, "__dataclass_fields__", {})
    return attribute in fields or f"self.{attribute}" in inspect.getsource(holder)


def _compared(thing: Any, skip: int, wanted: list[list[str | None]]) -> str:
    """How the parameters of thing differ from those wanted; more of them, and defaults where there were
    none, take every call that was taken."""
    own = list(inspect.signature(thing).parameters.values())[skip:]
    by_name = {p.name: p for p in own}
    parts = []
    kwargs = any(p.kind == p.VAR_KEYWORD for p in own)
    if kwargs and own[0].kind == inspect.Parameter.VAR_POSITIONAL:
        return ""  # takes everything
    for place, (name, default) in enumerate(wanted):
        assert name is not None
        if name.startswith("*"):
            if name.startswith("**") and not kwargs:
                parts.append(f"{name} missing")
            continue
        p = by_name.get(name)
        if p is None:
            parts.append(f"{name} missing")
        elif p.kind == p.KEYWORD_ONLY or own.index(p) != place:
            parts.append(f"{name} by keyword only" if p.kind == p.KEYWORD_ONLY else f"{name} at another place")
        elif default is not None and not _equal(default, p.default):
            shown = "needed" if p.default is p.empty else f"{p.default!r}"
            parts.append(f"{name}={default} is {name}={shown}")
    listed = {name for name, _ in wanted}
    more = [p for p in own if p.name not in listed and p.kind == p.POSITIONAL_OR_KEYWORD]
    parts += [f"{p.name} is needed as well" for p in more if p.default is p.empty]
    return ", ".join(parts)


def _equal(text: str, value: Any) -> bool:
    try:
        return bool(ast.literal_eval(text) == value)
    except ValueError:
        return text == repr(value)


if __name__ == "__main__":
    print(as_text(read_package(Path(sys.argv[1]))), end="")

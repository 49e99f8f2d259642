"""Edits of a source, and what operators may know about a kernel beside its text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Edit:
    """Replaces text[start:end]."""

    start: int
    end: int
    text: str


# What an operator does at one place: one edit, or several that belong together.
Site = tuple[Edit, ...]


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a kernel's NAME.toml says."""

    name: str
    op: str
    family: str
    entry: str
    args: Sequence[object]  # of the launch, in the order of the parameters
    signature: list[str]  # of Triton's parameters
    constants: dict[str, object]

    @property
    def attention(self) -> bool:
        return "attention" in self.op

    @property
    def quantises(self) -> bool:
        return "quantize" in self.op

    @property
    def bounded(self) -> bool:
        """Whether results are at most 1."""
        return self.op in ("softmax", "moe_routing", "sigmoid", "tanh")

    def size_name(self, sizes: list[str], arguments: dict[str, object]) -> str | None:
        """The last of some parameters that is a dimension of the op, which are upper case; filters are short."""
        named = [(p, str(arguments.get(p, ""))) for p in sizes]
        named = [(p, arg) for p, arg in named if arg.isupper() and arg.isidentifier() and arg not in ("KH", "KW")]
        return named[-1][0] if named else None


def apply(text: str, site: Site) -> str:
    """The text with all edits of a site made."""
    for edit in sorted(site, key=lambda e: e.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def difference(text: str, changed: str) -> Site:
    """One edit that makes the one text of the other."""
    start = same(text, changed)
    end = same(text[start:][::-1], changed[start:][::-1])
    return (Edit(start, len(text) - end, changed[start : len(changed) - end]),)


def same(one: str, two: str) -> int:
    """How many characters two texts begin with in common."""
    return next((i for i, (c, d) in enumerate(zip(one, two)) if c != d), min(len(one), len(two)))


def lines_changed(text: str, site: Site) -> tuple[int, str, str]:
    """The number of the first line that a site changes, and the lines from there to the last, before and after.

    Both begin at the first character of that line that is no blank, unless blanks change, too: there the one can be put
    in place of the other.
    """
    first, last = min(e.start for e in site), max(e.end for e in site)
    start = text.rfind("\n", 0, first) + 1
    indent = len(text[start:]) - len(text[start:].lstrip(" "))
    start = start + indent if start + indent <= first else start
    end = text.find("\n", last)
    end = len(text) if end < 0 else end
    after = apply(text, site)
    return text.count("\n", 0, start) + 1, text[start:end], after[start : len(after) - (len(text) - end)]

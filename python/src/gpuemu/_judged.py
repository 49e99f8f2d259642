"""What all results share: they are true if they passed, check() raises, repr is short, and notebooks see HTML."""

from __future__ import annotations

import html
from typing import Any, TypeVar

from . import _escape

Self = TypeVar("Self", bound="Judged")


class ValidationError(AssertionError):
    """An output that is wrong, or could not be judged. The result has the details.

    Attributes:
        result: what was judged, as a rule a ValidationResult; None where there was nothing to judge.
    """

    def __init__(self, message: object, result: Any = None) -> None:
        super().__init__(str(message))
        self.result = message if isinstance(message, Judged) else result


class Judged:
    """A result: true if it passed. What is undecided, was not run or is empty did not pass."""

    def _green(self) -> bool:
        raise NotImplementedError

    def _text(self) -> str:
        """The short text: what happened, the case, and how to run it again."""
        raise NotImplementedError

    def _details(self) -> str:
        """The text of an exception; the short text unless there is more to say."""
        return self._text()

    def __bool__(self) -> bool:
        return self._green()

    def check(self: Self) -> Self:
        """Raises ValidationError with the readable text unless it passed; returns itself."""
        if not self:
            raise ValidationError(self._details(), self)
        return self

    def __repr__(self) -> str:
        return _escape.block(self._text())

    def _repr_html_(self) -> str:
        """The text for notebooks, in green if it passed, else in red."""
        return html_of(self._text(), bool(self))


class JudgedDict(Judged, dict[str, Any]):
    """A result that is a dict."""


def html_of(text: str, green: bool, *more: str) -> str:
    """A text, and further HTML under it. The first line stands out."""
    first, _, rest = _escape.block(text).partition("\n")
    color = "#1a7f37" if green else "#cf222e"
    parts = [f'<div class="gpuemu"><strong style="color:{color}">{html.escape(first)}</strong>']
    if rest:
        parts.append(f'<pre style="white-space:pre-wrap">{html.escape(rest)}</pre>')
    return "\n".join([*parts, *more, "</div>"])


def html_table(rows: list[tuple[str, ...]]) -> str:
    """Rows of text; the first is the head."""

    def line(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(_escape.text(c))}</{tag}>" for c in cells) + "</tr>"

    return "<table>\n" + "\n".join([line(rows[0], "th"), *(line(row, "td") for row in rows[1:])]) + "\n</table>"


def html_map(text: str) -> str:
    """An error map, in cells of one width."""
    return f'<pre style="line-height:1.1">{html.escape(_escape.block(text.rstrip()))}</pre>'

"""Text from outside, made safe for terminals and logs of CI systems by the rules of the engine's package escape.

What an engine, a kernel or the name of a test says may hold anything. The packages gpuemu and pytest-gpu-proof have
this file alike: neither needs the other.
"""

from __future__ import annotations

# Printable and not seen: variation selectors and characters that are ignorable by default.
_UNSEEN = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10),
     *range(0xE0100, 0xE01F0)]
)  # fmt: skip
_NAMED = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\v": r"\v", "\t": "    "}


def text(value: str) -> str:
    """Text as part of a line: what steers a terminal or a log is written out, such as \\x1b, \\u202e or #\\x23."""
    return "".join(map(_shown, value)).replace("##", r"#\x23")


def _shown(c: str) -> str:
    code = ord(c)
    if c.isprintable() and code not in _UNSEEN:
        return c
    if c in _NAMED:
        return _NAMED[c]
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as Python reads it from a file name
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def line(value: str) -> str:
    """Text that is a line of its own: one that begins with "::" is a command to GitHub's runner."""
    value = text(value)
    rest = value.lstrip()
    return value[: len(value) - len(rest)] + r"\x3a" + rest[1:] if rest.startswith("::") else value


def block(value: str) -> str:
    """Several lines, each by line."""
    return "\n".join(line(part.removesuffix("\r")) for part in value.split("\n"))

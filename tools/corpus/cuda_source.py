"""A CUDA source as the operators see it: tokens with their brackets, operands, loops, guards, and edits of the text."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator

from source import Edit, Facts, Site
from triton_source import stride_of

TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#(?:[^\n\\]|\\\n|\\.)*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFuUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<op><<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|->|::|[-+*/%&|^]=|[-+*/%<>=!&|^~?:;,.(){}\[\]])",
    re.S,
)
PRECEDENCE = {
    "*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<": 7, ">": 7, "<=": 7, ">=": 7, "==": 6, "!=": 6,
    "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1,
}  # fmt: skip
TIGHT = 99  # no operator with two operands
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
TYPES = {"const", "float", "int", "unsigned", "T", "void", "bool", "char", "short", "long", "double", "size_t", "Four"}
BEFORE_UNARY = {"return", "case", "else", "do"}
FLOAT_CALL = re.compile(r"INFINITY|NAN|float\(|(?!if\(|sizeof\()\w+f\(")
CASTS = {"static_cast", "reinterpret_cast", "const_cast"}

# A piece of the text: numbers of its first token and of the one behind its last.
Span = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Loop:
    """A for statement; spans of its three parts and of its body."""

    init: Span
    test: Span
    step: Span
    body: Span


@dataclasses.dataclass(frozen=True)
class Assignment:
    """An assignment or a declaration with a value; place is the left side without the words of a type."""

    op: int
    place: Span
    value: Span


class Cuda:
    def __init__(self, text: str, facts: Facts) -> None:
        self.text = text
        self.facts = facts
        self.tokens = list(tokens(text))
        self.match = brackets(self.tokens)
        self.params = self.parameters()
        self.arguments = dict(zip(self.params, facts.args))
        self.floats = {t.text for i, t in enumerate(self.tokens) if t.kind == "name" and self.declared(i) == "float"}
        self.globals = self.global_pointers()

    # Tokens and operands.

    def word(self, i: int) -> str:
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def get(self, span: Span) -> str:
        return self.text[self.tokens[span[0]].start : self.tokens[span[1] - 1].end] if span[0] < span[1] else ""

    def put(self, span: Span, text: str) -> Site:
        return (Edit(self.tokens[span[0]].start, self.tokens[span[1] - 1].end, text),)

    def operand(self, span: Span) -> str:
        """The text of a span, in brackets where it could fall apart inside an expression."""
        loose = any(self.word(i) in PRECEDENCE or self.word(i) in "?:" for i in self.top(span))
        return f"({self.get(span)})" if loose else self.get(span)

    def top(self, span: Span) -> Iterator[int]:
        """The tokens of a span that are in no brackets of it, opening brackets included."""
        i = span[0]
        while i < span[1]:
            yield i
            i = self.match[i] + 1 if self.word(i) in ("(", "[", "{") else i + 1

    def is_binary(self, i: int) -> bool:
        """Whether an operator has a left operand; the stars and ampersands of declarations have a type there."""
        before = self.tokens[i - 1] if i else None
        if self.word(i) not in PRECEDENCE or before is None or before.text in BEFORE_UNARY or before.text in CASTS:
            return False
        if self.word(i) in "*&" and (before.text in TYPES or before.text == "*"):
            return False
        return before.kind in ("name", "number") or before.text in (")", "]")

    def binds(self, i: int) -> int:
        """How tightly a token joins what stands around it."""
        return PRECEDENCE[self.word(i)] if self.is_binary(i) else TIGHT

    def left(self, i: int) -> Span:
        """The left operand of a binary operator."""
        at = i - 1
        while at >= 0:
            word = self.word(at)
            if word in (")", "]", "}"):
                at = self.match[at] - 1
            elif word in "([{,;?:" or word in ASSIGN or word == "return" or self.binds(at) < self.binds(i):
                break
            else:
                at -= 1
        return at + 1, i

    def right(self, i: int) -> Span:
        """The right operand of a binary operator."""
        at = i + 1
        while at < len(self.tokens):
            word = self.word(at)
            if word in ("(", "[", "{"):
                at = self.match[at] + 1
            elif word in ")]},;?:" or word in ASSIGN or self.binds(at) <= self.binds(i):
                break
            else:
                at += 1
        return i + 1, at

    def binary(self, *ops: str, within: Span | None = None) -> Iterator[int]:
        first, last = within or (0, len(self.tokens))
        return (i for i in range(first, last) if self.word(i) in ops and self.is_binary(i))

    def pair(self, i: int) -> Span:
        """A binary operator with both operands."""
        return self.left(i)[0], self.right(i)[1]

    def to_end(self, i: int, ends: str = ",;)]}") -> Span:
        """From a token to the end of its expression."""
        at = i
        while at < len(self.tokens) and self.word(at) not in ends:
            at = self.match[at] + 1 if self.word(at) in ("(", "[", "{") else at + 1
        return i, at

    # Names and types.

    def parameters(self) -> dict[str, str]:
        """The kernel's parameters, each with the type it points to, or nothing."""
        for i, token in enumerate(self.tokens):
            if token.text == self.facts.entry and self.word(i + 1) == "(" and self.word(i - 1) == "void":
                return {self.word(end - 1): self.pointed_to((first, end)) for first, end in self.args(i)}
        raise ValueError(f"{self.facts.name}: the source has no kernel {self.facts.entry}")

    def pointed_to(self, declaration: Span) -> str:
        stars = [i for i in range(*declaration) if self.word(i) == "*"]
        return self.word(stars[0] - 1) if stars else ""

    def declared(self, i: int) -> str:
        """The type a name is declared with at this token, or nothing: also behind a comma or a star."""
        at = i - 1
        while self.word(at) in ("*", "__restrict__", "&"):
            at -= 1
        word = self.word(at)
        return word if word in TYPES and self.word(i) not in TYPES else ""

    def global_pointers(self) -> dict[str, str]:
        """Pointers into global memory, each with the parameter it comes from."""
        found = {p: p for p, pointee in self.params.items() if pointee}
        for a in self.assignments():
            if self.word(a.place[0] - 1) == "*":
                root = next((found[self.word(j)] for j in range(*a.value) if self.word(j) in found), None)
                if root is not None:
                    found[self.word(a.place[0])] = root
        return found

    def is_float(self, span: Span) -> bool:
        for i in range(*span):
            token = self.tokens[i]
            if token.kind == "number" and not token.text.lower().startswith("0x"):
                if "." in token.text or token.text[-1] in "fF":
                    return True
            elif token.kind == "name" and (token.text in self.floats or self.word(i - 1) == "."):
                if not self.word(i - 2).endswith(("Idx", "Dim")):
                    return True
            elif FLOAT_CALL.match(token.text + self.word(i + 1)):
                return True
        return False

    def strides(self) -> dict[str, tuple[str, int]]:
        return {p: found for p, arg in self.arguments.items() if (found := stride_of(arg)) is not None}

    def dims(self) -> list[str]:
        """Parameters that are sizes: integers that are neither pointers nor strides."""
        no = set(self.strides()) | set(self.globals) | self.floats
        return [p for p in self.params if p not in no]

    # Statements.

    def args(self, i: int) -> list[Span]:
        """The arguments of the call at a name."""
        close = self.match[i + 1]
        found, first = [], i + 2
        for at in self.top((i + 2, close)):
            if self.word(at) == ",":
                found.append((first, at))
                first = at + 1
        return [*found, (first, close)] if close > i + 2 else []

    def calls(self, *names: str) -> Iterator[int]:
        return (i for i, t in enumerate(self.tokens) if t.text in names and self.word(i + 1) == "(")

    def call(self, i: int) -> Span:
        """The whole call at a name."""
        return i, self.match[i + 1] + 1

    @functools.cached_property
    def loops(self) -> list[Loop]:
        found = []
        for i in self.calls("for"):
            init = self.to_end(i + 2, ";")
            test = self.to_end(init[1] + 1, ";")
            step = test[1] + 1, self.match[i + 1]
            found.append(Loop(init, test, step, self.statement(self.match[i + 1] + 1)))
        return found

    def statement(self, i: int) -> Span:
        """The statement that begins at a token."""
        if self.word(i) == "{":
            return i, self.match[i] + 1
        if self.word(i) in ("if", "for", "while"):
            return i, self.statement(self.match[i + 1] + 1)[1]
        return i, self.to_end(i, ";")[1] + 1

    def guards(self) -> Iterator[tuple[Span, Span]]:
        """Conditions of if statements, each with what it guards."""
        for i in self.calls("if"):
            yield (i + 2, self.match[i + 1]), self.statement(self.match[i + 1] + 1)

    def ternaries(self) -> Iterator[tuple[Span, Span, Span]]:
        """Condition, first and second value of conditional expressions."""
        for i in [i for i, t in enumerate(self.tokens) if t.text == "?"]:
            colon = self.to_end(i + 1, ":")[1]
            start = i
            while start and self.word(start - 1) not in "([{,;?:" and self.word(start - 1) not in ASSIGN | {"return"}:
                start = self.match[start - 1] if self.word(start - 1) in (")", "]") else start - 1
            yield (start, i), (i + 1, colon), self.to_end(colon + 1)

    def assignments(self) -> Iterator[Assignment]:
        for i, token in enumerate(self.tokens):
            if token.text in ASSIGN:
                at = i
                while at and self.word(at - 1) not in ";{}(," and self.word(at - 1) not in TYPES | {"*", "&"}:
                    at = self.match[at - 1] if self.word(at - 1) in (")", "]") else at - 1
                yield Assignment(i, (at, i), self.to_end(i + 1, ",;)}"))

    def body_of(self, i: int) -> Loop | None:
        """The innermost loop whose body holds a token."""
        around = [lp for lp in self.loops if lp.body[0] <= i < lp.body[1]]
        return max(around, key=lambda lp: lp.body[0], default=None)

    def in_header(self, i: int) -> bool:
        return any(lp.init[0] <= i < lp.body[0] for lp in self.loops)

    def loads(self) -> Iterator[tuple[int, Span]]:
        """Reads of global memory: the token of the pointer and the span of the index."""
        written = {a.place[0] for a in self.assignments()}
        for i, token in enumerate(self.tokens):
            if token.text in self.globals and self.word(i + 1) == "[" and i not in written and self.word(i - 1) != "&":
                yield i, (i + 2, self.match[i + 1])

    def stores(self) -> Iterator[tuple[Assignment, Span]]:
        """Assignments to global memory, each with its value before it is narrowed to the output's format."""
        for a in self.assignments():
            if self.word(a.place[0]) in self.globals and self.word(a.place[0] + 1) == "[":
                first, last = a.value
                narrowed = self.word(first) == "T" and self.word(first + 1) == "(" and self.match[first + 1] == last - 1
                yield a, (first + 2, last - 1) if narrowed else a.value


def tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: no token begins with {text[at : at + 10]!r}")
        if found.lastgroup != "skip":
            yield Token(found.lastgroup or "", found.group(), at, found.end())
        at = found.end()


def brackets(found: list[Token]) -> dict[int, int]:
    """The partner of every bracket."""
    match: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(found):
        if token.text in ("(", "[", "{"):
            opened.append(i)
        elif token.text in (")", "]", "}"):
            if not opened:
                raise ValueError(f"bracket {token.text!r} closes nothing")
            match[i] = opened.pop()
            match[match[i]] = i
    if opened:
        raise ValueError(f"bracket {found[opened[-1]].text!r} is never closed")
    return match

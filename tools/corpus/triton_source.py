"""A Triton source as the operators see it: its tree, and edits of its text at exact places."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from source import Edit, Facts, Site

FLOAT_CALLS = {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "erf", "sigmoid", "dot", "softmax"}
REDUCTIONS = {"sum", "max", "min", "dot", "cumsum", "argmax", "associative_scan", "reduce"}
LOOPS = {"range", "static_range"}


class Triton:
    """The functions of a source that are compiled, with helpers that find nodes and make edits of them.

    Names count as floats when they were assigned from loads, float literals or functions of floats; everything else is
    an index. That is all the types the operators need.
    """

    def __init__(self, text: str, facts: Facts) -> None:
        self.text = text
        self.facts = facts
        lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))
        if not text.isascii():
            raise ValueError(f"{facts.name}: the source is not ASCII, and positions count bytes")
        self.nodes: list[ast.AST] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        self.function: ast.FunctionDef | None = None
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                self.index(node)
                if node.name == facts.entry:
                    self.function = node
        if self.function is None:
            raise ValueError(f"{facts.name}: the source has no function {facts.entry}")
        self.params = [a.arg for a in self.function.args.args if a.annotation is None]
        self.tiles = [a.arg for a in self.function.args.args if a.annotation is not None]
        self.arguments = dict(zip(self.params, facts.args))
        self.pointers = [p for p, kind in zip(self.params, facts.signature) if kind.startswith("*")]
        self.floats = {p for p, kind in zip(self.params, facts.signature) if kind.startswith("fp")}
        self.infer()

    def index(self, function: ast.FunctionDef) -> None:
        for statement in function.body:
            for node in ast.walk(statement):
                self.nodes.append(node)
                for child in ast.iter_child_nodes(node):
                    self.parents[child] = node
            self.parents[statement] = function
        self.nodes.sort(key=lambda n: (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)))

    def infer(self) -> None:
        """Repeats until no further name turns out to be a float."""
        while True:
            before = len(self.floats)
            for node in self.nodes:
                targets: list[ast.expr] = []
                value: ast.expr | None = None
                if isinstance(node, ast.Assign):
                    targets, value = node.targets, node.value
                elif isinstance(node, ast.AugAssign):
                    targets, value = [node.target], node.value
                if value is not None and self.is_float(value):
                    for target in targets:
                        names = target.elts if isinstance(target, ast.Tuple) else [target]
                        self.floats.update(n.id for n in names if isinstance(n, ast.Name))
            if len(self.floats) == before:
                return

    def is_float(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.floats and node.id not in self.pointers
        if isinstance(node, ast.Constant):
            return isinstance(node.value, float)
        if isinstance(node, ast.Compare):
            return False
        if isinstance(node, ast.Call):
            return self.call_is_float(node)
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.Div) or self.is_float(node.left) or self.is_float(node.right)
        if isinstance(node, (ast.UnaryOp, ast.Subscript, ast.IfExp)):
            inner = {ast.UnaryOp: "operand", ast.Subscript: "value", ast.IfExp: "body"}[type(node)]
            return self.is_float(getattr(node, inner))
        return False

    def call_is_float(self, node: ast.Call) -> bool:
        name = called(node)
        if name == "load":
            root = self.root(node.args[0])
            return root is None or self.kind(root) in ("*T", "*fp32")
        if name == "to" and isinstance(node.func, ast.Attribute):
            return "float" in self.get(node.args[0]) or self.is_float(node.func.value)
        if name in ("zeros", "full"):
            return "float" in self.get(node)
        return name in FLOAT_CALLS or any(self.is_float(a) for a in node.args if not isinstance(a, ast.Tuple))

    def kind(self, pointer: str) -> str:
        """The signature's word for a pointer parameter."""
        return dict(zip(self.params, self.facts.signature)).get(pointer, "")

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def start(self, node: Any) -> int:
        return self.at(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        return self.at(node.end_lineno, node.end_col_offset)

    def get(self, node: ast.AST) -> str:
        return self.text[self.start(node) : self.end(node)]

    def operand(self, node: ast.AST) -> str:
        """The text of a node, in brackets where it could fall apart inside an expression."""
        text = self.get(node)
        return f"({text})" if isinstance(node, (ast.BinOp, ast.Compare, ast.IfExp, ast.UnaryOp, ast.BoolOp)) else text

    def put(self, node: ast.AST, text: str) -> Site:
        return (Edit(self.start(node), self.end(node), text),)

    def keep(self, node: ast.AST, part: ast.AST) -> Site:
        """Leaves a part of a node in its place."""
        inside = isinstance(self.parents.get(node), (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Attribute, ast.Subscript))
        return self.put(node, self.operand(part) if inside else self.get(part))

    def between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> Site:
        """Replaces an operator that stands between two nodes."""
        at = self.text.index(old, self.end(left), self.start(right))
        return (Edit(at, at + len(old), new),)

    def all(self, kind: type[Any]) -> Iterator[Any]:
        return (n for n in self.nodes if isinstance(n, kind))

    def calls(self, *names: str) -> Iterator[ast.Call]:
        return (n for n in self.nodes if isinstance(n, ast.Call) and called(n) in names)

    def binary(self, *ops: type[ast.operator]) -> Iterator[ast.BinOp]:
        return (n for n in self.nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ops))

    def compares(self, *ops: type[ast.cmpop]) -> Iterator[ast.Compare]:
        return (n for n in self.nodes if isinstance(n, ast.Compare) and len(n.ops) == 1 and isinstance(n.ops[0], ops))

    def loops(self) -> Iterator[tuple[ast.For, list[ast.expr]]]:
        """Counted loops with their start, stop and step; what is not written is absent: [stop] or [start, stop]."""
        for node in self.all(ast.For):
            if isinstance(node.iter, ast.Call) and called(node.iter) in LOOPS:
                yield node, node.iter.args

    def inside(self, node: ast.AST, kind: Any) -> Any:
        """The nearest node of a kind, or of some kinds, around this one, or None."""
        at: ast.AST | None = node
        while at is not None and not isinstance(at, kind):
            at = self.parents.get(at)
        return at

    def assigned(self, name: str, before: ast.AST | None = None) -> list[ast.Assign]:
        """The assignments to a name, of those that stand before a node."""
        found = [n for n in self.all(ast.Assign) if any(isinstance(t, ast.Name) and t.id == name for t in n.targets)]
        return [n for n in found if before is None or self.start(n) < self.start(before)]

    def root(self, pointer: ast.AST) -> str | None:
        """The pointer parameter an address is made of, through assignments."""
        for node in ast.walk(pointer):
            if not isinstance(node, ast.Name):
                continue
            if node.id in self.pointers:
                return node.id
            for assign in self.assigned(node.id, pointer):
                if not any(isinstance(n, ast.Call) and called(n) == "load" for n in ast.walk(assign.value)):
                    found = self.root(assign.value)
                    if found is not None:
                        return found
        return None

    def strides(self) -> dict[str, tuple[str, int]]:
        """The parameters that are strides: tensor and axis."""
        return {p: found for p, arg in self.arguments.items() if (found := stride_of(arg)) is not None}

    def dims(self) -> list[str]:
        """The parameters that are sizes: integers that are no strides."""
        integer = [p for p, kind in zip(self.params, self.facts.signature) if kind in ("i32", "i64")]
        return [p for p in integer if p not in self.strides()]

    def tile(self) -> str | None:
        """The constant that is the width of the innermost tile: the first that tl.arange counts to."""
        for call in self.calls("arange"):
            if isinstance(call.args[-1], ast.Name) and call.args[-1].id in self.tiles:
                return call.args[-1].id
        return None

    def reduces(self) -> bool:
        return any(True for _ in self.calls(*REDUCTIONS))


def called(node: ast.Call) -> str:
    """The last part of the name of what is called."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def stride_of(arg: object) -> tuple[str, int] | None:
    """Tensor and axis of an argument like "x.strides[1]"."""
    if not isinstance(arg, str) or ".strides[" not in arg or not arg.endswith("]"):
        return None
    tensor, _, axis = arg[:-1].partition(".strides[")
    return (tensor, int(axis)) if tensor.isidentifier() and axis.isdigit() else None

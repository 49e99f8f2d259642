"""How a kernel of the corpus is launched on a case: the expressions of its file, the parameters of its PTX.

The emulator reads the same expressions (docs/emulate.md, "Expressions"); both must come to the same launch. Here they
are read as Python and computed over whole numbers; what the corpus does not use is refused.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

FLOATS = {"float16": "<e", "float32": "<f", "float64": "<d"}  # conversions, as struct packs them
PTX_FLOATS = {"f16": "float16", "f32": "float32", "f64": "float64"}
INTEGERS = {f"{sign}int{bits}": (bits, sign == "") for sign in ("", "u") for bits in (8, 16, 32, 64)}


class BadLaunch(Exception):
    """A launch that cannot be computed: the text says what is wrong with which expression."""


@dataclass(frozen=True)
class Tensor:
    """What an expression may ask of a tensor; strides count elements."""

    name: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Room:
    """An argument that is memory beside the tensors."""

    size: int  # bytes
    zeros: bool  # else nothing is known of what is in it


@dataclass(frozen=True)
class Number:
    """An argument that is a number, with the format that the expression names; "": that of the parameter."""

    value: int | float
    dtype: str = ""


Argument = Union[Tensor, Room, Number]
Env = Mapping[str, Any]  # dimensions, attributes and tensors by name


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel in PTX."""

    name: str
    kind: str  # as u64
    size: int  # bytes


@dataclass(frozen=True)
class Launch:
    """One launch. Its arguments are those of the parameters, in order."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    args: tuple[Argument, ...]

    @property
    def empty(self) -> bool:
        """A grid of no blocks is no launch: CUDA refuses it."""
        return 0 in self.grid


def launch_of(spec: Mapping[str, Any], env: Env) -> Launch:
    """Computes a launch. spec: the table [launch] of a kernel's file."""
    shared = whole(spec.get("shared", 0), env)
    return Launch(_sizes(spec["grid"], env), _sizes(spec["block"], env), shared,
                  tuple(argument(text, env) for text in spec["args"]))  # fmt: skip


def _sizes(texts: Sequence[Any], env: Env) -> tuple[int, int, int]:
    sizes = [whole(text, env) for text in texts] + [1, 1, 1]
    return sizes[0], sizes[1], sizes[2]


def whole(text: Any, env: Env) -> int:
    """The value of an expression that is a whole number."""
    value = evaluate(text, env)
    if type(value) is not int:
        raise BadLaunch(f"{text!r} is {value!r}: a size is a whole number")
    if value < 0:
        raise BadLaunch(f"{text!r} is {value}: a size is not negative")
    return value


def argument(text: Any, env: Env) -> Argument:
    """The value of an argument. Conversions and memory stand around everything else."""
    if isinstance(text, str):
        node = _parse(text)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            name, inner = node.func.id, node.args[0]
            if name in ("zeros", "scratch"):
                return Room(whole(ast.unparse(inner), env), name == "zeros")
            if name in FLOATS or name in INTEGERS:
                return Number(_number(ast.unparse(inner), env), name)
        if isinstance(node, ast.Name) and isinstance(env.get(node.id), Tensor):
            tensor: Tensor = env[node.id]
            return tensor
    return Number(_number(text, env))


def _number(text: Any, env: Env) -> int | float:
    value = evaluate(text, env)
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, (int, float)):
        raise BadLaunch(f"{text!r} is {value!r}, which is no number")
    return value


def evaluate(text: Any, env: Env) -> Any:
    """The value of an expression; a number is its own."""
    return _value(_parse(text), env, text) if isinstance(text, str) else text


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as exc:
        raise BadLaunch(f"{text!r}: {exc.msg}") from None


def _divide(a: Any, b: Any) -> Any:
    return a // b if _whole(a, b) else a / b


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def _next_pow2(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _whole(*values: Any) -> bool:
    return all(isinstance(v, int) for v in values)


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _divide, ast.Mod: operator.mod,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cdiv": _cdiv, "min": min, "max": max, "abs": abs, "floor": math.floor, "sqrt": math.sqrt, "next_pow2": _next_pow2,
}  # fmt: skip


def _value(node: ast.expr, env: Env, text: str) -> Any:
    """The value of a part of an expression. What is not listed here is refused."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in env:
            raise BadLaunch(f"{text!r}: unknown name {node.id!r}; known are {', '.join(sorted(env))}")
        return env[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _value(node.operand, env, text)
        return -value if isinstance(node.op, ast.USub) else value
    try:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](_value(node.left, env, text), _value(node.right, env, text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return _called(node.func.id, node.args, env, text)
    except (ArithmeticError, TypeError, ValueError) as exc:
        raise BadLaunch(f"{text!r}: {exc}") from None
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return _member(node, env, text)
    raise BadLaunch(f"{text!r}: {ast.unparse(node)} is more than the launches of the corpus use")


def _called(name: str, args: list[ast.expr], env: Env, text: str) -> Any:
    if name == "ceil" and len(args) == 1:
        inner = args[0]
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div):  # on whole numbers exact
            left, right = _value(inner.left, env, text), _value(inner.right, env, text)
            return _cdiv(left, right) if _whole(left, right) else math.ceil(left / right)
        return math.ceil(_value(inner, env, text))
    if name not in _FUNCTIONS:
        raise BadLaunch(f"{text!r}: unknown function {name}; known are ceil, {', '.join(sorted(_FUNCTIONS))}")
    return _FUNCTIONS[name](*[_value(a, env, text) for a in args])


def _member(node: ast.expr, env: Env, text: str) -> int:
    """x.numel, x.ndim, x.itemsize, x.shape[i] and x.strides[i]; a negative i counts from the end."""
    index = node.slice if isinstance(node, ast.Subscript) else None
    of = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name):
        tensor = env.get(of.value.id)
        if isinstance(tensor, Tensor):
            if index is None and of.attr in ("numel", "ndim", "itemsize"):
                sizes = {"numel": math.prod(tensor.shape), "ndim": len(tensor.shape), "itemsize": tensor.itemsize}
                return sizes[of.attr]
            if index is not None and of.attr in ("shape", "strides"):
                list_ = tensor.shape if of.attr == "shape" else tensor.strides
                at = _value(index, env, text)
                if not isinstance(at, int) or not -len(list_) <= at < len(list_):
                    raise BadLaunch(f"{text!r}: {tensor.name} has {len(list_)} dimensions, none is number {at!r}")
                return list_[at]
    raise BadLaunch(f"{text!r}: a tensor has .shape[i], .strides[i], .numel, .ndim and .itemsize")


def strided(spec: Mapping[str, Any], inputs: Iterable[str]) -> frozenset[str]:
    """The inputs whose strides a launch asks for; the others are contiguous."""
    found = set()
    for text in [*spec["grid"], *spec["block"], *spec["args"]]:
        for node in ast.walk(_parse(text)) if isinstance(text, str) else ():
            if isinstance(node, ast.Attribute) and node.attr == "strides" and isinstance(node.value, ast.Name):
                found.add(node.value.id)
    return frozenset(found & set(inputs))


_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.([busf](8|16|32|64|128))\s+(?:\.ptr\b[.\w\s]*?\s)?([\w$%]+)\s*(?:\[\s*(\d+)\s*\])?\s*$"
)


def parameters(ptx: str, entry: str) -> list[Parameter]:
    """The parameters of a kernel in PTX."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", ptx, flags=re.DOTALL)
    head = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)", text)
    if head is None:
        if re.search(rf"\.entry\s+{re.escape(entry)}\s*[{{.]", text):
            return []
        raise BadLaunch(f"the PTX has no kernel {entry!r}")
    found = []
    for part in filter(None, (p.strip() for p in head[1].split(","))):
        match = _PARAMETER.match(part)
        if match is None:
            raise BadLaunch(f"kernel {entry!r}: parameter {part!r} is not understood")
        found.append(Parameter(match[3], match[1], int(match[2]) // 8 * int(match[4] or 1)))
    return found


def scalar(number: Number, parameter: Parameter) -> bytes:
    """The bytes of a number as a parameter takes it: a float is rounded once, a whole number must fit."""
    dtype = number.dtype or PTX_FLOATS.get(parameter.kind, "")
    value = number.value
    if dtype in FLOATS:
        try:
            data = struct.pack(FLOATS[dtype], value)
        except OverflowError:  # beyond the largest number: rounds to infinity
            data = struct.pack(FLOATS[dtype], math.copysign(math.inf, value))
        if len(data) != parameter.size:
            raise BadLaunch(f"{dtype} has {len(data)} bytes, parameter {parameter.name} has {parameter.size}")
        return data
    if not isinstance(value, int):
        raise BadLaunch(f"parameter {parameter.name} of type {parameter.kind} does not take {value}: write float32(…)")
    bits, signed = 8 * parameter.size, None
    if dtype:
        wanted, signed = INTEGERS[dtype]
        if wanted != bits:
            raise BadLaunch(f"{dtype} has {wanted // 8} bytes, parameter {parameter.name} has {parameter.size}")
    if parameter.size not in (1, 2, 4, 8):
        raise BadLaunch(f"parameter {parameter.name} has {parameter.size} bytes, which no number has")
    low = 0 if signed is False else -(1 << (bits - 1))
    high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    if not low <= value <= high:
        raise BadLaunch(f"{value} does not fit parameter {parameter.name} of {parameter.size} bytes")
    return (value % (1 << bits)).to_bytes(parameter.size, "little")

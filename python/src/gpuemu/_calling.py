"""How a function is called: with a dict of arrays, or with each array by name, whichever its signature says.

    def kernel(inputs): ...                  the dict
    def kernel(q, k, v, causal=False): ...   by name: it takes every input, and attributes that it has parameters for
    def kernel(**arrays): ...                by name
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Collection, Mapping
from typing import Any, Callable

from gpuemu import arrays

TENSORS = {"torch": "Tensor", "jax": "Array", "tensorflow": "Tensor", "cupy": "ndarray"}  # arrays by framework
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """The parameters of a function; those of forward of a torch module. None: a function of C that does not say."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(function, torch.nn.Module):
        function = function.forward
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def by_name(function: Callable[..., Any], names: Collection[str], default: bool = False) -> bool:
    """Whether a function takes arrays of these names each by its name; default: where its signature says nothing."""
    found = parameters(function)
    if found is None:
        return default
    kinds = {p.kind for p in found}
    anything = inspect.Parameter.VAR_KEYWORD in kinds
    if anything and kinds <= {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}:
        return default if len(kinds) == 2 else True  # *args and **kwargs: it passes on whatever it gets
    if not names or not found or found[0].kind in (
        inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL
    ):  # fmt: skip
        return False
    taken = {p.name for p in found if p.kind in _BY_KEYWORD}
    return found[0].name in names and (anything or taken.issuperset(names))


def accepted(function: Callable[..., Any], leading: int = 1, arrays: Collection[str] = ()) -> frozenset[str] | None:
    """The names of attributes that a function takes, by its signature; None: all of them.

    leading is the number of its first parameters that are no attributes, and arrays are the names of others.
    """
    found = parameters(function)
    if found is None:
        return frozenset()
    if any(p.kind == p.VAR_KEYWORD for p in found):
        return None
    return frozenset(p.name for p in found[leading:] if p.kind in _BY_KEYWORD and p.name not in arrays)


def chosen(attrs: Mapping[str, Any], takes: frozenset[str] | None) -> dict[str, Any]:
    """The attributes that a function takes."""
    return {name: value for name, value in attrs.items() if takes is None or name in takes}


def bound(function: Callable[..., Any], names: Collection[str], default: bool = False) -> Callable[..., Any]:
    """A function as one of a dict of arrays of these names, and of attributes, of which it gets those it takes."""
    named = by_name(function, names, default)
    takes = accepted(function, 0 if named else 1, names if named else ())

    def call(arrays: Mapping[str, Any], **attrs: Any) -> Any:
        given = chosen(attrs, takes)
        return function(**arrays, **given) if named else function(arrays, **given)

    return call


def adapted(function: Callable[..., Any], inputs: Callable[[], dict[str, Any]], attrs: Mapping[str, Any]) -> Any:
    """What a function gives for fresh inputs of numpy, which it gets as tensors of torch where it needs those."""
    given = inputs()
    call = bound(function, given)
    try:
        return call(given, **attrs)
    except AttributeError as error:
        if not misses(error, "torch"):
            raise
    return call({name: arrays.torch_from_numpy(sys.modules["torch"], a) for name, a in inputs().items()}, **attrs)


def misses(error: BaseException, framework: str) -> bool:
    """Whether a function asked for an attribute that arrays of a framework have, and those of numpy have not."""
    if not isinstance(error, AttributeError) or framework not in sys.modules:
        return False
    kind = getattr(sys.modules[framework], TENSORS[framework], None)
    name = re.search(r"'(?:_TorchReady|numpy\.ndarray|ndarray)' object has no attribute '(\w+)'", str(error))
    return name is not None and hasattr(kind, name[1])


def has_tensors(result: object) -> bool:
    """Whether a kernel returned tensors of torch."""
    torch = sys.modules.get("torch")
    values = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else [result]
    return torch is not None and any(isinstance(value, torch.Tensor) for value in values)


def without(function: Callable[..., Any], values: Mapping[str, Any]) -> Callable[..., Any]:
    """A function whose parameters of these names have values already; its signature has the others."""
    if not values:
        return function
    signature = inspect.signature(function)
    rest = [p for p in signature.parameters.values() if p.name not in values]
    places = [p.name for p in rest if p.kind == p.POSITIONAL_OR_KEYWORD]

    def call(*args: Any, **kw: Any) -> Any:
        return function(**dict(zip(places, args)), **kw, **values)

    call.__name__ = getattr(function, "__name__", "kernel")
    call.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
    call.__func__ = function  # type: ignore[attr-defined]  # what underlying looks for
    return call


def underlying(function: Callable[..., Any]) -> object:
    """The function under bound methods and partial applications."""
    while True:
        inner = function.func if isinstance(function, functools.partial) else getattr(function, "__func__", None)
        if inner is None:
            return function
        function = inner

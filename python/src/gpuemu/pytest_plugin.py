"""The pytest plugin: @gpuemu.op turns a kernel function into one test per case.

    @gpuemu.op("softmax", iterations=50)
    def test_softmax(inputs):
        return my_softmax(inputs["input"])

Options: --gpuemu-seed, --gpuemu-iterations, --gpuemu-minimize, --gpuemu-emulate. A failure shows what is wrong, the
simplest case that fails in the same way, and the command that makes it again.
"""

from __future__ import annotations

import inspect
import re
import shlex
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _calling, _daemon, _escape
from .report import describe
from .results import ClientError
from .session import Judging, KernelSession

if TYPE_CHECKING:
    import pytest

DEFAULT_SEED = 1  # the same cases in every run: a test that fails once fails again
DEFAULT_ITERATIONS = 50
CASE = "gpuemu_case"  # the parameter that has the index of a case
ATTRIBUTE = "gpuemu_op"

Function = TypeVar("Function", bound=Callable[..., Any])


def op(
    name: str, *, iterations: int | None = None, seed: int | None = None,
    dtypes: Sequence[Any] | None = None, value_distribution: str | None = None,
    layouts: Sequence[str] | None = None, shapes: str | Mapping[str, Sequence[int]] | None = None,
    op_schema: Mapping[str, Any] | None = None, attrs: Mapping[str, Any] | None = None,
    framework: str | None = None, device: str | None = None, outputs: str | None = None, repeat: bool = False,
    config: str | None = None, emulate: bool | str = False, reference: Callable[..., Any] | None = None,
    tolerance: Any | None = None, grad: bool = False, store: str = "all",
) -> Callable[[Function], Function]:  # fmt: skip
    """Makes a test per case of a function that takes inputs and returns what the operator should.

    The function takes the dict of inputs, or each input by its name. It may have further parameters: attributes of the
    operator by their names (`causal`, `eps`), with outputs="allocated" the dict of outputs second, fixtures, and
    arguments of @pytest.mark.parametrize. Called by itself, it is unchanged.

    Args:
        name: operator of gpuemu.toml or of the catalogue; with op_schema and reference any name.
        iterations: number of cases; default 50, or --gpuemu-iterations.
        seed: master seed; default 1, or --gpuemu-seed.
        dtypes, value_distribution, layouts, shapes, op_schema, attrs, framework, device, outputs, repeat: as of
            Client.fuzz_op_client_side.
        config: path of gpuemu.toml; default: that of the directory of the test file, as in Client.
        emulate: whether launches of Triton kernels in the function are executed on the CPU, by the emulator; a target
            such as "sm_90" says yes, too. Default: --gpuemu-emulate.
        reference, tolerance, store: as of Client.fuzz_op_client_side.
        grad: whether gradients are judged, too: needs framework "torch", "jax" or "tensorflow".

    Example:
        >>> @op("softmax", iterations=20, dtypes=["float32"])
        ... def test_softmax(inputs):
        ...     return my_softmax(inputs["input"])
    """
    if not isinstance(name, str):
        raise TypeError('@gpuemu.op needs the name of an operator: write @gpuemu.op("softmax")')
    if iterations is not None and iterations < 1:
        raise ValueError(f"@gpuemu.op({name!r}): iterations is {iterations}, want at least 1")
    if grad and (outputs == "allocated" or framework in ("numpy", "cupy")):
        raise ValueError(
            f"@gpuemu.op({name!r}): grad=True needs a function of torch, jax or tensorflow that returns its outputs"
        )
    options: dict[str, Any] = {
        "op_schema": op_schema, "dtypes": dtypes, "value_distribution": value_distribution, "layouts": layouts,
        "shapes": shapes, "attrs": attrs,
    }  # fmt: skip

    def decorate(function: Function) -> Function:
        if isinstance(function, (staticmethod, classmethod)):
            kind = type(function).__name__
            raise TypeError(f"@gpuemu.op({name!r}) stands above @{kind}: write @{kind} first, @gpuemu.op below it")
        session = KernelSession(
            name, function, options, framework=framework, device=device, outputs=outputs, repeat=repeat, config=config,
            emulate=emulate, judge=Judging(reference, tolerance, grad, store),
        )  # fmt: skip
        setattr(function, ATTRIBUTE, _Marked(session, iterations, seed))
        return function

    return decorate


class _Marked:
    """What a decorated function carries."""

    def __init__(self, session: KernelSession, iterations: int | None, seed: int | None) -> None:
        self.session = session
        self.iterations = iterations
        self.seed = seed
        self.count = 0  # cases of this run, known when the tests are collected
        self.values: list[str] = []  # parameters that pytest gives values: fixtures and arguments of parametrize
        self.text: str | None = None  # the only case of this run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("gpuemu")
    group.addoption("--gpuemu-seed", type=int, metavar="SEED",
                    help="master seed of @gpuemu.op tests without one (default 1)")  # fmt: skip
    group.addoption("--gpuemu-iterations", type=int, metavar="N",
                    help="cases of @gpuemu.op tests that do not say (default 50)")  # fmt: skip
    group.addoption("--gpuemu-case", metavar="CASE",
                    help="run this case alone, as a failure shows it")  # fmt: skip
    group.addoption("--gpuemu-emulate", nargs="?", const="sm_80", metavar="TARGET",
                    help="run Triton kernels of @gpuemu.op tests on the CPU, compiled for TARGET (sm_80)")  # fmt: skip
    group.addoption("--gpuemu-minimize", type=int, metavar="N", default=60,
                    help="cases to try when a failure is minimised (default 60; 0: do not)")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Refuses numbers that would run nothing."""
    iterations, minimize = config.option.gpuemu_iterations, config.option.gpuemu_minimize
    if iterations is not None and iterations < 1:
        raise _usage(f"--gpuemu-iterations is {iterations}, want at least 1")
    if minimize < 0:
        raise _usage(f"--gpuemu-minimize is {minimize}, want 0 or more")
    seed = config.option.gpuemu_seed
    if seed is not None and not 0 <= seed < 1 << 64:
        raise _usage(f"--gpuemu-seed is {seed}, want 0 to 2**64-1")


def _usage(message: str) -> Exception:
    import pytest

    return pytest.UsageError(message)


def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> list[Any] | None:
    """Makes the tests of a decorated kernel, one per case; other objects are collected as usual."""
    function = obj.__func__ if isinstance(obj, staticmethod) else obj
    marked = getattr(function, ATTRIBUTE, None)
    if not isinstance(marked, _Marked) or not collector.funcnamefilter(name):
        return None
    import pytest

    marks = list(getattr(function, "pytestmark", []))
    method = isinstance(collector, pytest.Class) and not isinstance(obj, staticmethod)
    marked.values = _values_of(collector, function, marks, method)
    _check_parameters(collector, name, function, marked, method)
    settings = collector.config.option
    default = DEFAULT_SEED if settings.gpuemu_seed is None else settings.gpuemu_seed
    marked.session.seed = default if marked.seed is None else marked.seed
    marked.session.emulate = marked.session.emulate or settings.gpuemu_emulate or False
    marked.count = marked.iterations or settings.gpuemu_iterations or DEFAULT_ITERATIONS
    text = settings.gpuemu_case
    if text is not None:
        if text.partition(" ")[0] != marked.session.op_name:
            return []  # a case of another operator
        marked.text, marked.count = text, 1
    # pytest asks for fixtures by the names of parameters, and `inputs` is none: it sees this function in place of the
    # kernel, with the same marks. pytest_pyfunc_call then runs the kernel itself.
    shown: Any = types.FunctionType(_shown.__code__, _shown.__globals__, name)
    shown.__signature__ = inspect.Signature(
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD)
         for n in [*(["self"] if method else []), CASE, *marked.values]]
    )  # fmt: skip
    cases = pytest.mark.parametrize(CASE, range(marked.count), ids=[f"case{i}" for i in range(marked.count)])
    shown.pytestmark = [*marks, cases.mark]
    return list(collector._genfunctions(name, shown))


def _values_of(collector: Any, function: Callable[..., Any], marks: Sequence[Any], method: bool) -> list[str]:
    """The parameters of a function to which pytest gives values: fixtures, and arguments of parametrize."""
    import pytest

    given: set[str] = set()
    for mark in [*marks, *collector.iter_markers("parametrize")]:
        if mark.name == "parametrize":
            names = mark.kwargs.get("argnames") or mark.args[0]
            given.update(n.strip() for n in names.split(",")) if isinstance(names, str) else given.update(names)
    manager = collector.session._fixturemanager
    node = collector if int(pytest.__version__.split(".")[0]) >= 8 else collector.nodeid
    parameters = list(inspect.signature(function).parameters.values())[1 if method else 0 :]
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            and p.default is p.empty
            and (p.name in given or manager.getfixturedefs(p.name, node))]  # fmt: skip


def _check_parameters(
    collector: Any, name: str, function: Callable[..., Any], marked: _Marked, method: bool
) -> None:  # fmt: skip
    """Refuses a function that cannot be called with inputs, once instead of in each case."""
    session = marked.session
    signature = inspect.signature(function)
    rest = [p for p in signature.parameters.values() if p.name not in marked.values]
    wanted = [*(["self"] if method else []), "inputs", *(["outputs"] if session.writes else [])]
    if any(p.kind == p.VAR_KEYWORD for p in rest) or sum(p.kind == p.KEYWORD_ONLY for p in rest) >= len(wanted):
        return  # by name; whether these are the names of the inputs is known once there is a case
    try:
        signature.replace(parameters=rest).bind_partial(*wanted)
    except TypeError:
        raise collector.CollectError(
            f"{name}: @gpuemu.op({session.op_name!r}) calls it as {name}({', '.join(wanted[method:])}), and it has no "
            f"such parameters: write def {name}({', '.join(wanted)})"
        ) from None


def _check_names(marked: _Marked, function: Callable[..., Any], arrays: Sequence[str], attrs: Sequence[str]) -> None:
    """Raises ClientError for parameters that nothing gives a value, or that two things would."""
    twice = [value for value in marked.values if value in (*arrays, *attrs)]
    op_name = marked.session.op_name
    if twice:
        raise ClientError(
            f"{twice[0]} is an argument of {op_name} as well as a fixture or an argument of parametrize",
            hint="give the fixture another name",
        )
    rest = _calling.without(function, dict.fromkeys(marked.values))
    parameters = [p for p in _calling.parameters(rest) or [] if p.name != "self"]
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in by_keyword]
    by_name = bool(needed) and needed[0] in arrays
    first = 0 if by_name else 2 if marked.session.writes else 1
    unknown = [n for n in needed[first:] if n not in (*arrays, *attrs)]
    if unknown:
        known = ", ".join(attrs) or "none"
        raise ClientError(
            f"the parameter {unknown[0]} is no fixture, no argument of parametrize and no attribute of {op_name}",
            hint=f"attributes of {op_name} are: {known}",
        )


def _functions(items: Sequence[Any]) -> dict[_Marked, list[Any]]:
    """The tests of each decorated function; those that are skipped anyway are left out."""
    found: dict[_Marked, list[Any]] = {}
    for item in items:
        marked = getattr(getattr(item, "obj", None), ATTRIBUTE, None)
        if isinstance(marked, _Marked) and CASE in getattr(getattr(item, "callspec", None), "params", {}):
            found.setdefault(marked, []).append(item)
    return {marked: tests for marked, tests in found.items() if tests[0].get_closest_marker("skip") is None}


def pytest_collection_modifyitems(session: pytest.Session, items: list[Any]) -> None:
    """Asks the engine for the first case of each selected function: what it refuses is one error of collection."""
    import pytest

    for marked, tests in _functions(items).items():
        first = tests[0]
        kernel = marked.session
        kernel.config = _daemon.project_of(kernel.config, str(first.path.parent))
        try:
            if marked.text is None:
                _check_names(marked, inspect.unwrap(kernel.kernel), *kernel.probe())
        except ClientError as exc:
            words = _escape.block(f"gpuemu: {exc}")
            node = first.nodeid.rpartition("[")[0]
            session.ihook.pytest_collectreport(report=pytest.CollectReport(node, "failed", words, []))
            gone = set(map(id, tests))
            items[:] = [item for item in items if id(item) not in gone]


# After what deselects tests. This is what pytest.hookimpl(trylast=True) writes; the package is imported without pytest.
pytest_collection_modifyitems.pytest_impl = {"trylast": True}  # type: ignore[attr-defined]


def _shown(*_: Any) -> None:
    """Stands for a test in the eyes of pytest, with a signature of its own; never called."""


def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    """Runs one case of a decorated kernel; a verdict other than pass ends the test with its report."""
    marked = getattr(pyfuncitem.obj, ATTRIBUTE, None)
    if not isinstance(marked, _Marked) or CASE not in pyfuncitem.funcargs:
        return None
    import pytest

    session = marked.session
    # Of a method: bound to the instance of this test.
    values = {name: pyfuncitem.funcargs[name] for name in marked.values}
    session.kernel = _calling.without(pyfuncitem.obj, values)
    index = pyfuncitem.funcargs[CASE]
    session.variant = re.sub(rf"\bcase{index}\b", "case0", pyfuncitem.callspec.id) if values else ""
    session.config = _daemon.project_of(session.config, str(pyfuncitem.path.parent))
    try:
        if marked.text is not None:
            case = session.case(marked.text)
            result = session.judge(case)
        else:
            case, result = session.run(index, marked.count)
    except ClientError as exc:  # its words say what to do; frames of this package do not
        pytest.fail(_escape.block(f"gpuemu: {exc}"), pytrace=False)
    if result.passed:
        return True
    if result.verdict == "undecided":
        message = result.message or "the contract of the operator decides on no element"
        pytest.skip("undecided: " + _escape.text(message))
    if result.verdict == "not_run":
        pytest.fail(_escape.block(f"not run: {result}"), pytrace=False)
    budget = pyfuncitem.config.option.gpuemu_minimize
    simplest = session.minimize(case, result, budget) if budget > 0 else None
    base = pyfuncitem.nodeid[: -len(pyfuncitem.callspec.id) - 2]
    test = shlex.quote(f"{base}[{session.variant}]" if session.variant else base)
    pytest.fail(describe(result, simplest, f"pytest {test} --gpuemu-case"), pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Closes what the tests have opened."""
    # Before pytest 8 a session that collects nothing has no items: that of the controller of pytest-xdist, for one.
    for item in getattr(session, "items", ()):
        marked = getattr(getattr(item, "obj", None), ATTRIBUTE, None)
        if isinstance(marked, _Marked):
            marked.session.close()

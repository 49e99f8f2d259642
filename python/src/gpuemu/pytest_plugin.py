"""The pytest plugin: @gpuemu.op turns a kernel function into one test per case.

    @gpuemu.op("softmax", iterations=50)
    def test_softmax(inputs):
        return my_softmax(inputs["input"])

Options: --gpuemu-seed, --gpuemu-iterations, --gpuemu-minimize, --gpuemu-emulate. A failure shows what is wrong, the
simplest case that fails in the same way, and the command that makes it again.
"""

from __future__ import annotations

import inspect
import shlex
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _daemon, _escape
from .report import describe
from .results import ClientError
from .session import KernelSession

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
    config: str | None = None, emulate: bool | str = False,
) -> Callable[[Function], Function]:  # fmt: skip
    """Makes a test per case of a function that takes inputs and returns what the operator should.

    The function may have further parameters: attributes of the operator by their names (`causal`, `eps`), and with
    outputs="allocated" the dict of outputs second. Called by itself, it is unchanged.

    Args:
        name: operator of gpuemu.toml or of the catalogue.
        iterations: number of cases; default 50, or --gpuemu-iterations.
        seed: master seed; default 1, or --gpuemu-seed.
        dtypes, value_distribution, layouts, shapes, op_schema, attrs, framework, device, outputs, repeat: as of
            Client.fuzz_op_client_side.
        config: path of gpuemu.toml; default: that of the directory of the test file, as in Client.
        emulate: whether launches of Triton kernels in the function are executed on the CPU, by the emulator; a target
            such as "sm_90" says yes, too. Default: --gpuemu-emulate.
    """
    if not isinstance(name, str):
        raise TypeError('@gpuemu.op needs the name of an operator: write @gpuemu.op("softmax")')
    if iterations is not None and iterations < 1:
        raise ValueError(f"@gpuemu.op({name!r}): iterations is {iterations}, want at least 1")
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
            emulate=emulate,
        )
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
    if any(mark.name == "parametrize" for mark in marks):
        raise collector.CollectError(
            f"{name}: @pytest.mark.parametrize and @gpuemu.op do not go together: the cases are the parameters; "
            "fix attributes with attrs={...}, dtypes with dtypes=[...], and write a function per variant"
        )
    method = isinstance(collector, pytest.Class) and not isinstance(obj, staticmethod)
    _check_parameters(collector, name, function, marked.session, method)
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
    shown: Any = _method_of_case if method else _function_of_case
    shown = types.FunctionType(shown.__code__, shown.__globals__, name)
    cases = pytest.mark.parametrize(CASE, range(marked.count), ids=[f"case{i}" for i in range(marked.count)])
    shown.pytestmark = [*marks, cases.mark]
    return list(collector._genfunctions(name, shown))


def _check_parameters(collector: Any, name: str, function: Any, session: KernelSession, method: bool) -> None:
    """Refuses a function that cannot be called with inputs, once instead of in each case."""
    wanted = [*(["self"] if method else []), "inputs", *(["outputs"] if session.writes else [])]
    try:
        inspect.signature(function).bind_partial(*wanted)
    except TypeError:
        raise collector.CollectError(
            f"{name}: @gpuemu.op({session.op_name!r}) calls it as {name}({', '.join(wanted[method:])}), and it has no "
            f"such parameters: write def {name}({', '.join(wanted)})"
        ) from None


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
                kernel.probe()
        except ClientError as exc:
            words = _escape.block(f"gpuemu: {exc}")
            node = first.nodeid.rpartition("[")[0]
            session.ihook.pytest_collectreport(report=pytest.CollectReport(node, "failed", words, []))
            gone = set(map(id, tests))
            items[:] = [item for item in items if id(item) not in gone]


# After what deselects tests. This is what pytest.hookimpl(trylast=True) writes; the package is imported without pytest.
pytest_collection_modifyitems.pytest_impl = {"trylast": True}  # type: ignore[attr-defined]


def _function_of_case(gpuemu_case: int) -> None:
    """Has the parameters of a test of a function; never called."""


def _method_of_case(self: Any, gpuemu_case: int) -> None:
    """Has the parameters of a test of a method; never called."""


def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    """Runs one case of a decorated kernel; a verdict other than pass ends the test with its report."""
    marked = getattr(pyfuncitem.obj, ATTRIBUTE, None)
    if not isinstance(marked, _Marked) or CASE not in pyfuncitem.funcargs:
        return None
    import pytest

    session = marked.session
    session.kernel = pyfuncitem.obj  # of a method: bound to the instance of this test
    session.config = _daemon.project_of(session.config, str(pyfuncitem.path.parent))
    try:
        if marked.text is not None:
            case = session.case(marked.text)
            result = session.judge(case)
        else:
            case, result = session.run(pyfuncitem.funcargs[CASE], marked.count)
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
    test = shlex.quote(pyfuncitem.nodeid.rpartition("[")[0])
    pytest.fail(describe(result, simplest, f"pytest {test} --gpuemu-case"), pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Closes what the tests have opened."""
    # Before pytest 8 a session that collects nothing has no items: that of the controller of pytest-xdist, for one.
    for item in getattr(session, "items", ()):
        marked = getattr(getattr(item, "obj", None), ATTRIBUTE, None)
        if isinstance(marked, _Marked):
            marked.session.close()

"""The pytest plugin: @gpuemu.op turns a kernel function into one test per case.

    @gpuemu.op("softmax", iterations=50)
    def test_softmax(inputs):
        return my_softmax(inputs["input"])

Options: --gpuemu-seed, --gpuemu-iterations, --gpuemu-minimize. A failure shows what is wrong, the simplest case that
fails in the same way, and the command that makes it again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from .report import describe
from .session import KernelSession

if TYPE_CHECKING:
    import pytest

DEFAULT_SEED = 1  # the same cases in every run: a test that fails once fails again
DEFAULT_ITERATIONS = 50
ARGUMENT = "gpuemu_case"
ATTRIBUTE = "gpuemu_op"

Function = TypeVar("Function", bound=Callable[..., Any])


def op(
    name: str, *, iterations: Optional[int] = None, seed: Optional[int] = None,
    dtypes: Optional[Sequence[str]] = None, value_distribution: Optional[str] = None,
    layouts: Optional[Sequence[str]] = None, shapes: Optional[Union[str, Mapping[str, Sequence[int]]]] = None,
    op_schema: Optional[Mapping[str, Any]] = None, attrs: Optional[Mapping[str, Any]] = None,
    framework: Optional[str] = None, device: Optional[str] = None, outputs: Optional[str] = None, repeat: bool = False,
    config: Optional[str] = None,
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
        config: path of gpuemu.toml; default: searched for.
    """
    options: dict[str, Any] = {
        "op_schema": op_schema, "dtypes": dtypes, "value_distribution": value_distribution, "layouts": layouts,
        "shapes": shapes, "attrs": attrs,
    }  # fmt: skip

    def decorate(function: Function) -> Function:
        session = KernelSession(
            name, function, options, framework=framework, device=device, outputs=outputs, repeat=repeat, config=config
        )
        setattr(function, ATTRIBUTE, _Marked(session, iterations, seed))
        return function

    return decorate


class _Marked:
    """What a decorated function carries."""

    def __init__(self, session: KernelSession, iterations: Optional[int], seed: Optional[int]) -> None:
        self.session = session
        self.iterations = iterations
        self.seed = seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("gpuemu")
    group.addoption("--gpuemu-seed", type=int, metavar="SEED", help="master seed of @gpuemu.op tests without one (default 1)")
    group.addoption("--gpuemu-iterations", type=int, metavar="N",
                    help="cases of @gpuemu.op tests that do not say (default 50)")  # fmt: skip
    group.addoption("--gpuemu-minimize", type=int, metavar="N", default=60,
                    help="cases to try when a failure is minimised (default 60; 0: do not)")  # fmt: skip


def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> Optional[list[Any]]:
    """Makes the test function of a decorated kernel; other objects are collected as usual."""
    marked = getattr(obj, ATTRIBUTE, None)
    if not isinstance(marked, _Marked) or not collector.funcnamefilter(name):
        return None
    settings = collector.config.option
    marked.session.seed = marked.seed if marked.seed is not None else (settings.gpuemu_seed or DEFAULT_SEED)
    iterations = marked.iterations or settings.gpuemu_iterations or DEFAULT_ITERATIONS

    import pytest

    @pytest.mark.parametrize(ARGUMENT, range(iterations), ids=lambda i: f"case{i}")
    def run(gpuemu_case: int) -> None:
        __tracebackhide__ = True
        judge(marked.session, gpuemu_case, iterations, settings.gpuemu_minimize)

    functools.update_wrapper(run, obj)
    # Marks of the user's stay; the signature is ours, or pytest would look for a fixture `inputs`.
    run.pytestmark = [*getattr(obj, "pytestmark", []), *run.pytestmark]  # type: ignore[attr-defined]
    del run.__wrapped__  # type: ignore[attr-defined]
    delattr(run, ATTRIBUTE)
    return list(collector._genfunctions(name, run))


def judge(session: KernelSession, index: int, count: int, budget: int) -> None:
    """Runs one case; a verdict other than pass ends the test with its report."""
    __tracebackhide__ = True
    import pytest

    case, result = session.run(index, count)
    if result.passed:
        return
    if result.verdict == "undecided":
        pytest.skip(f"undecided: {result.message or 'the contract of the operator decides on no element'}")
    if result.verdict == "not_run":
        pytest.fail(f"not run: {result}", pytrace=False)
    simplest = session.minimize(case, result, budget) if budget > 0 else None
    pytest.fail(describe(result, simplest), pytrace=False)

"""What validating and fuzzing have in common for all frameworks: inputs kept aside, verdicts, checks on every case."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

from gpuemu import _calling
from gpuemu.arrays import to_numpy
from gpuemu.frameworks._gradients import Differences, gradient_report, make_upstream
from gpuemu.frameworks._reports import Array, CheckReport, CheckResults, raised
from gpuemu.frameworks.base import FrameworkAdapter
from gpuemu.results import ClientError

if TYPE_CHECKING:
    from gpuemu._case import Case
    from gpuemu.client import Client
    from gpuemu.results import FuzzResults, ValidationResult

# Codes of the engine where it has no gradients of its own: none by this input, not in the catalogue, too many elements,
# an op of the caller's.
NO_GRADIENT = ("gradient-none", "campaign-no-bound", "gradient-too-large", "campaign-unknown-op")

# Directions per input where a fuzzed gradient is checked against differences: many cases, few directions each.
FUZZ_DIRECTIONS = 32

# A check on one case: a report, given fresh inputs and the op as a function of its inputs by name.
CaseCheck = Callable[[Callable[..., Any], dict[str, Any], dict[str, Any]], CheckReport]


def adapter_of(framework: str) -> FrameworkAdapter:
    """The adapter of a framework that has gradients. ClientError where there are none."""
    if framework == "torch":
        from gpuemu.frameworks.pytorch import PyTorchAdapter

        return PyTorchAdapter()
    if framework == "jax":
        from gpuemu.frameworks.jax import JAXAdapter

        return JAXAdapter()
    if framework == "tensorflow":
        from gpuemu.frameworks.tensorflow import TensorFlowAdapter

        return TensorFlowAdapter()
    hint = 'give framework="torch", "jax" or "tensorflow"'
    raise ClientError(f"grad=True: functions of {framework} have no gradients", hint=hint)


def tolerance_option(atol: float | None, rtol: float | None) -> dict[str, Any]:
    """The keyword that replaces the engine's bound by the user's tolerance; empty where none is given."""
    if atol is None and rtol is None:
        return {}
    return {"tolerance": {"atol": atol or 0.0, "rtol": rtol or 0.0}}


def snapshot(inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The inputs as they are now: an op that writes to them is judged by what it was given."""
    return {name: to_numpy(value).copy() for name, value in inputs.items()}


def output_of(ctx: Mapping[str, Any]) -> Any:
    output = ctx.get("output")
    if output is None:
        raise ValueError('no output: set ctx["output"] to the result of the op inside the with block')
    return output


def require_pass(result: ValidationResult) -> None:
    result.check()


@dataclass
class Fuzzing:
    """Client-side fuzzing of an op of one framework, with further checks on every case.

    run_op takes the inputs as its signature says; where it says nothing, by name with `by_name`, else as one dict.
    """

    adapter: FrameworkAdapter
    framework: str
    run_op: Callable[..., Any]
    by_name: bool
    checks: dict[str, CaseCheck] = field(default_factory=dict)

    def run(self, client: Client, op_name: str, options: Mapping[str, Any], *others: str) -> CheckResults:
        """A dict of total, passed, failed, forward_failures and, for each check, its failures and what was not run."""
        found: dict[str, list[dict[str, Any]]] = {f"{name}_failures": [] for name in others}
        for name in self.checks:
            found[f"{name}_failures"], found[f"{name}_not_run"] = [], []

        def on_case(
            case: Case, inputs: dict[str, Any], outputs: dict[str, Any] | None, result: ValidationResult
        ) -> None:
            if outputs is None:
                return  # the op itself failed, which counts already
            for name, check in self.checks.items():
                report = check(self.function(inputs, case.attrs), dict(inputs), dict(case.attrs))
                if not report.passed:
                    key = f"{name}_failures" if report.ran else f"{name}_not_run"
                    found[key].append({"seed": result.seed, "case": case.text, "message": str(report)})

        results: FuzzResults = client.fuzz_op_client_side(
            op_name,
            self.kernel(),
            framework=self.framework,
            on_case=on_case if self.checks else None,
            **options,
        )
        members = {
            "total": results.total,
            "passed": results.passed,
            "failed": results.failed,
            "forward_failures": results.failures,
            **found,
            "not_run": results.not_run,
            "undecided": results.undecided,
            "seed": results.seed,
        }
        lines = [repr(results)]
        for name, entries in found.items():
            lines += [f"{len(entries)} {name}, the first: {entries[0]['message']}"] if entries else []
        wrong = any(entries for name, entries in found.items() if name.endswith("_failures"))
        # A check that ran on no case has checked nothing: what is not run for most cases is said of them all.
        idle = any(len(found[f"{name}_not_run"]) * 10 > results.total for name in self.checks)
        return CheckResults(members, results.ok and not wrong and not idle, "\n".join(lines))

    def kernel(self) -> Callable[..., Any]:
        """run_op as the client calls it: with a dict of inputs, and attributes."""
        kept: list[Callable[..., Any]] = []  # once the names of inputs are known

        def kernel(inputs: dict[str, Any], **attrs: Any) -> Any:
            if not kept:
                kept.append(_calling.bound(self.run_op, inputs, self.by_name))
            return kept[0](inputs, **attrs)

        return kernel

    def function(self, names: Collection[str], attrs: Mapping[str, Any]) -> Callable[..., Any]:
        """run_op as a function of its inputs by name."""
        call = _calling.bound(self.run_op, names, self.by_name)
        return lambda **inputs: call(inputs, **attrs)


@dataclass
class OpGradients:
    """Checks the gradients of an op on fuzzed cases: against the engine's own, or, of an op without, differences.

    own: the caller has a reference of its own, which may be another function than the engine's operator of that name.
    """

    adapter: FrameworkAdapter
    client: Client
    op_name: str
    check: str
    tolerance: Mapping[str, Any]
    seed: int = 0
    own: bool = False
    store: str = "failures"

    def __call__(
        self, func: Callable[..., Any], inputs: dict[str, Any], attrs: dict[str, Any]
    ) -> CheckReport:
        names = [name for name, value in inputs.items() if self.adapter.is_floating(value)]
        if not names:
            return CheckReport(self.check, passed=False, ran=False, detail="the op has no input of floating dtype")
        try:
            outputs, grads = self.adapter.value_and_vjp(func, inputs, names, make_upstream(self.adapter, self.seed))
        except Exception as error:
            return CheckReport(self.check, passed=False, detail=raised("the op or its backward pass", error))
        upstream: Any = make_upstream(self.adapter, self.seed)(outputs)
        if len(outputs) == 1:
            upstream = upstream[0]
        try:
            if self.own:
                return self.by_differences(func, inputs, names)
            options = {"store": self.store, **self.tolerance, **attrs}
            result = self.client.check_gradients(self.op_name, inputs, upstream, grads, **options)
        except ClientError as error:
            if error.code not in NO_GRADIENT:
                raise
            return self.by_differences(func, inputs, names)
        ran = result.verdict not in ("not_run", "undecided")
        return CheckReport(self.check, result.passed, ran, "" if result.passed else result._details())

    def by_differences(self, func: Callable[..., Any], inputs: dict[str, Any], names: list[str]) -> CheckReport:
        tolerance = self.tolerance.get("tolerance", {})
        settings = Differences(seed=self.seed, max_directions=FUZZ_DIRECTIONS, **tolerance)
        return gradient_report(self.adapter, func, inputs, names, settings, self.client, self.check)

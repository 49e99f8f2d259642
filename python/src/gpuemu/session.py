"""One kernel, run case by case: for test runners, where each case is a test of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from . import _calling, _fuzzing, _reproduction
from ._case import Case, Execution
from ._options import tolerance_of
from ._outputs import reference_hook
from ._shared import SharedFile
from ._triton import emulated_triton
from .arrays import arrays
from .client import Client
from .guard import Guard
from .results import ClientError, MinimizeResult, ReproduceResult, ValidationResult, parse_result

AHEAD = 16  # cases that are fetched together: neighbours usually run one after the other


@dataclass
class Judging:
    """By what outputs are judged, if not by the operator alone: as of Client.fuzz_op_client_side.

    grad: whether the gradients of cases whose outputs passed are judged as well.
    """

    reference: Callable[..., Any] | None = None
    tolerance: Any | None = None
    grad: bool = False
    store: str = "all"

    @cached_property
    def hook(self) -> Callable[[Case], dict[str, Any]] | None:
        """What is right for a case, by the reference."""
        return None if self.reference is None else reference_hook(self.reference)


class KernelSession:
    """A kernel with the cases of one operator. Connects when the first case is asked for; close() ends that.

    Args:
        op_name: operator of gpuemu.toml or of the catalogue.
        kernel: takes a dict of inputs, returns the outputs.
        options: op_schema, dtypes, value_distribution, layouts, shapes, attrs as of Client.fuzz_op_client_side.
        framework, device, outputs, repeat: as there.
        config: path of gpuemu.toml.
        client: a client to use; default: one of its own.
        emulate: whether launches of Triton kernels are executed by the emulator; a target such as "sm_90" says yes.
        judge: by what outputs are judged, if not by the operator alone.

    Attributes:
        seed: master seed of the cases; set before the first is asked for.
        variant: which of several kernels under one name this is, as the arguments of a parametrised test; each is
            minimised by itself.
        kernel, config, emulate: as given; a test runner may replace them, the last two before the first case.
    """

    def __init__(
        self, op_name: str, kernel: Callable[..., Any], options: Mapping[str, Any], *, framework: str | None = None,
        device: str | None = None, outputs: str | None = None, repeat: bool = False, config: str | None = None,
        client: Client | None = None, emulate: bool | str = False, judge: Judging | None = None,
    ) -> None:  # fmt: skip
        self.op_name = op_name
        self.kernel = kernel
        self.seed = 1
        self.config = config
        self._options = options
        self._place = framework, device
        self._outputs = outputs or str(getattr(kernel, "gpuemu_outputs", "returned"))
        self._repeat = repeat
        self._client = client
        self.emulate = emulate
        self.variant = ""
        self._judging = judge or Judging()
        self._open: _Open | None = None
        self._cases: dict[int, Case] = {}
        self.tried = 0  # cases that were run to find simpler ones
        self._simplest: dict[tuple[str, str, str], ValidationResult | None] = {}

    def _ready(self) -> _Open:
        if self._open is None:
            adapt = self._place[0] is None
            guard = Guard(arrays(*self._place), outputs=self._outputs, repeat=self._repeat, adapt=adapt)
            self._open = _Open(self._client or Client(config=self.config), guard)
        return self._open

    def close(self) -> None:
        """Closes the connection and removes the shared files."""
        if self._open is not None:
            self._open.close()
            if self._client is None:
                self._open.client.close()
        self._open = None
        self._cases = {}

    def _fetch(self, count: int, **which: Any) -> list[Case]:
        ready = self._ready()
        request = ready.client._cases(self.op_name, self.seed, **self._options)
        request.update(which, count=count, max_bytes=_fuzzing.BATCH_BYTES)
        return _fuzzing.fetch(ready.client._connect(), request, ready.inputs)

    @property
    def writes(self) -> bool:
        """Whether the kernel writes to outputs that it is given."""
        return self._outputs == "allocated"

    def probe(self) -> tuple[list[str], list[str]]:
        """The names of inputs and outputs, and those of attributes, of the first case. Nothing stays open.

        Raises ClientError where the engine refuses the operator or its options.
        """
        try:
            [case] = self._fetch(1, start=0)
            return [v.name for v in case.inputs] + [o.name for o in case.outputs or []], list(case.attrs)
        finally:
            self.close()

    def run(self, index: int, count: int) -> tuple[Case, ValidationResult]:
        """Runs case index of count and returns it with its verdict."""
        if index not in self._cases:
            cases = self._fetch(min(AHEAD, count - index), start=index)
            self._cases = {case.index: case for case in cases}
        case = self._cases[index]
        return case, self.judge(case)

    def case(self, text: str) -> Case:
        """The case with this text."""
        return self._fetch(1, case=text)[0]

    def judge(self, case: Case, store: str | None = None) -> ValidationResult:
        """Runs the kernel on a case and has what came out judged: also its gradients, where that is asked for."""
        result = self.execute(case, store)[1]
        return self._gradients(case, result) if self._judging.grad and result.passed else result

    def _gradients(self, case: Case, result: ValidationResult) -> ValidationResult:
        """The verdict on the gradients of a case whose outputs passed."""
        from .frameworks._sessions import OpGradients, adapter_of  # they need a client themselves

        ready, judging = self._ready(), self._judging
        where = ready.guard.arrays
        adapter = adapter_of(where.framework)
        tolerance = {} if judging.tolerance is None else {"tolerance": tolerance_of(judging.tolerance)}
        own = judging.reference is not None
        check = OpGradients(adapter, ready.client, self.op_name, "gradients", tolerance, own=own, store=judging.store)
        inputs = {
            v.name: where.view(where.buffer(v.storage), v.dtype, v.shape, v.strides, v.offset) for v in case.inputs
        }
        call = _calling.bound(self.kernel, inputs)
        report = check(lambda **arrays: call(arrays, **case.attrs), inputs, case.attrs)
        if report.passed:
            return result
        verdict = "fail" if report.ran else "undecided"
        return ValidationResult(False, case.seed, self.op_name, verdict=verdict, reason="gradient",
                                message=report.detail, case=case.text)  # fmt: skip

    def execute(self, case: Case, store: str | None = None) -> tuple[Execution, ValidationResult]:
        """judge, and what came out as well."""
        ready = self._ready()
        with self._emulation():
            done: Execution = ready.guard.run(self.kernel, case)
        judging = self._judging
        tolerance = None if judging.tolerance is None else tolerance_of(judging.tolerance)
        common = ready.client._request(store=store or judging.store, tolerance=tolerance)
        submission = _fuzzing.Submission(ready.results, common, self._schema())
        hook = judging.hook
        submission.add(case, done, None if hook is None or done.outputs is None else hook(case))
        return done, submission.send(ready.client._connect())[0]

    def _schema(self) -> dict[str, Any] | None:
        """A schema of the caller's, under the name that judges."""
        schema = self._options.get("op_schema")
        return None if schema is None else dict(schema, name=self.op_name)

    def _emulation(self) -> AbstractContextManager[object]:
        """Where the kernel runs."""
        if not self.emulate:
            return nullcontext()
        target = self.emulate if isinstance(self.emulate, str) else "sm_80"
        return emulated_triton(target, client=self._ready().client)

    def minimize(self, case: Case, result: ValidationResult, budget: int) -> ValidationResult | None:
        """The verdict on the simplest case that fails in the same way, after at most budget tries; None: there is none.

        The engine proposes the cases (docs/formats/http.md, /v1/shrink); this side runs them. Of failures of one kind
        the first is minimised, and what came out stands for all: the search runs the kernel as often as a test file
        has cases.
        """
        kind = result.verdict, result.reason, self.variant
        if kind not in self._simplest:
            self._simplest[kind] = self._search(case, result, budget)
        return self._simplest[kind]

    def _search(self, case: Case, result: ValidationResult, budget: int) -> ValidationResult | None:
        client = self._ready().client
        tried: dict[str, ValidationResult] = {}
        self._cases = {}  # their memory is used for the cases that are tried
        while True:
            same = {text: (r.verdict, r.reason) == (result.verdict, result.reason) for text, r in tried.items()}
            request = client._request(case=case.text, tried=same, max_iters=budget, schema=self._schema())
            reply = client._json("POST", "/v1/shrink", request)
            if not reply.get("next"):
                return tried.get(reply["best"])
            tried[reply["next"]] = self.judge(self.case(reply["next"]), store="none")
            self.tried += 1


def _session(
    client: Client, text: str, kernel: Callable[..., Any], rules: Mapping[str, Any], **place: Any
) -> KernelSession:
    """A session for one case. rules: op_schema, reference, tolerance; place: framework, device, outputs, repeat."""
    judge = Judging(reference=rules.get("reference"), tolerance=rules.get("tolerance"))
    options = {"op_schema": rules.get("op_schema")}
    return KernelSession(text.partition(" ")[0], kernel, options, client=client, judge=judge, **place)


def replayed(
    client: Client, text: str, kernel: Callable[..., Any], store: str, rules: Mapping[str, Any], **place: Any
) -> ValidationResult:
    """Runs one case with a kernel of this process."""
    session = _session(client, text, kernel, rules, **place)
    try:
        return session.judge(session.case(text), store)
    finally:
        session.close()


def made_again(
    client: Client, text: str, kernel: Callable[..., Any] | None, schema: Mapping[str, Any] | None,
    reference: Callable[..., Any] | None, **place: Any,
) -> ReproduceResult:  # fmt: skip
    """A case made again with what only this process knows: its schema, or its kernel."""
    case = client._case(text, schema)
    found = client._json("POST", "/v1/results", {"op": case.op, "seed": str(case.seed)})["results"]
    stored = next((parse_result(r) for r in found if r["case"] == text), None)
    result = stored or _reproduction.not_run(text)
    if kernel is not None:
        result = replayed(client, text, kernel, "none", {"op_schema": schema, "reference": reference}, **place)
    for one in (result, stored):
        if one is not None:
            _reproduction.fill(one, case)
    still_fails = kernel is not None and result.verdict in ("fail", "error")
    return ReproduceResult(result, _reproduction.values_of(case), stored, still_fails, kernel is not None)


def minimized(
    client: Client, text: str, kernel: Callable[..., Any], budget: int, rules: Mapping[str, Any], store: str = "all",
    **place: Any,
) -> MinimizeResult:  # fmt: skip
    """Minimises a case of a kernel that only this process can run."""
    session = _session(client, text, kernel, rules, **place)
    try:
        case = session.case(text)
        original = session.judge(case, store="none")
        if original.verdict not in ("fail", "error"):
            raise ClientError(f"the case does not fail now: its verdict is {original.verdict}")
        found = session.minimize(case, original, budget)
        # Once more, to be stored.
        result = original if found is None else session.judge(session.case(found.case), store)
    finally:
        session.close()
    shape = result.repro_info.shape if result.repro_info else ()
    return MinimizeResult(case.seed, result.seed, shape, result, result.case, session.tried, found is None)


class _Open:
    """What a session holds while it is connected."""

    def __init__(self, client: Client, guard: Guard) -> None:
        self.client = client
        self.guard = guard
        self.inputs = SharedFile()
        self.results = SharedFile()

    def close(self) -> None:
        self.inputs.close()
        self.results.close()

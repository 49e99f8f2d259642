"""One kernel, run case by case: for test runners, where each case is a test of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

from . import _fuzzing
from ._case import Case, Execution
from ._shared import SharedFile
from .arrays import arrays
from .client import Client
from .guard import Guard
from .results import ValidationResult

AHEAD = 16  # cases that are fetched together: neighbours usually run one after the other


class KernelSession:
    """A kernel with the cases of one operator. Connects when the first case is asked for.

    Args:
        op_name: operator of gpuemu.toml or of the catalogue.
        kernel: takes a dict of inputs, returns the outputs.
        options: op_schema, dtypes, value_distribution, layouts, shapes, attrs as of Client.fuzz_op_client_side.
        framework, device, outputs, repeat: as there.
        config: path of gpuemu.toml.
    """

    def __init__(
        self, op_name: str, kernel: Callable[..., Any], options: Mapping[str, Any], *, framework: Optional[str] = None,
        device: Optional[str] = None, outputs: Optional[str] = None, repeat: bool = False, config: Optional[str] = None,
    ) -> None:  # fmt: skip
        self.op_name = op_name
        self.seed = 1
        self._kernel = kernel
        self._options = options
        self._place = framework, device
        self._outputs = outputs or getattr(kernel, "gpuemu_outputs", "returned")
        self._repeat = repeat
        self._config = config
        self._client: Optional[Client] = None
        self._guard: Optional[Guard] = None
        self._cases: dict[int, Case] = {}
        self._inputs = SharedFile()
        self._results = SharedFile()

    def _ready(self) -> tuple[Client, Guard]:
        if self._client is None or self._guard is None:
            self._client = Client(config=self._config)
            self._guard = Guard(arrays(*self._place), outputs=self._outputs, repeat=self._repeat)
        return self._client, self._guard

    def _fetch(self, count: int, **which: Any) -> list[Case]:
        client, _ = self._ready()
        request = client._cases(self.op_name, self.seed, **self._options)
        request.update(which, count=count, max_bytes=_fuzzing.BATCH_BYTES)
        return _fuzzing.fetch(client._connect(), request, self._inputs)

    def run(self, index: int, count: int) -> tuple[Case, ValidationResult]:
        """Runs case index of count and returns it with its verdict."""
        if index not in self._cases:
            cases = self._fetch(min(AHEAD, count - index), start=index)
            self._cases = {case.index: case for case in cases}
        case = self._cases[index]
        return case, self.judge(case)

    def judge(self, case: Case, store: str = "all") -> ValidationResult:
        """Runs the kernel on a case and has what came out judged."""
        client, guard = self._ready()
        done: Execution = guard.run(self._kernel, case)
        submission = _fuzzing.Submission(self._results, client._request(store=store))
        submission.add(case, done)
        return submission.send(client._connect())[0]

    def minimize(self, case: Case, result: ValidationResult, budget: int) -> Optional[ValidationResult]:
        """The verdict on the simplest case that fails in the same way, after at most budget tries; None: none was found.

        The engine proposes the cases (docs/formats/http.md, /v1/shrink); this side runs them.
        """
        client, _ = self._ready()
        tried: dict[str, ValidationResult] = {}
        self._cases = {}  # their memory is used for the cases that are tried
        while True:
            same = {text: (r.verdict, r.reason) == (result.verdict, result.reason) for text, r in tried.items()}
            request = client._request(case=case.text, tried=same, max_iters=budget, schema=self._options.get("op_schema"))
            del request["python"]
            reply = client._json("POST", "/v1/shrink", request)
            if not reply.get("next"):
                return tried.get(reply["best"])
            tried[reply["next"]] = self.judge(self._fetch(1, case=reply["next"])[0], store="none")

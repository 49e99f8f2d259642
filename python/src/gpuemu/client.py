"""The client: every request to the engine as a method."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _daemon, _fuzzing, _launch, _lint, _parts, _reproduction
from ._batches import CaseInputs, TestBatch
from ._case import Case
from ._connection import PROTOCOL_VERSION, Connection
from ._options import dtype_names, listed, seed_by_name, tolerance_of
from ._outputs import OnCase, case_hook, named, reference_hook
from ._parts import texts
from ._progress import Progress
from .arrays import arrays, dtype_text, to_numpy
from .emulation import EmulationResult
from .guard import Guard
from .results import (
    ClientError,
    Comparison,
    ConnectionFailed,
    FuzzResults,
    MinimizeResult,
    ReproduceResult,
    ReproductionInfo,
    ValidationResult,
    parse_result,
)
from .rng import default_seed

__all__ = [
    "PROTOCOL_VERSION", "Client", "ClientError", "ConnectionFailed", "FuzzResults", "MinimizeResult", "ReproduceResult",
    "ReproductionInfo", "TestBatch", "ValidationResult",
]  # fmt: skip

Schema = Mapping[str, Any]


class Client(Connection):
    """A client of the gpuemu daemon, which it starts if none runs.

    It may be used by several threads at once, and as a context manager; close() ends requests that run in other
    threads. Results and batches belong to the thread that made them. Operators are those of the catalogue
    (`gpuemu ops`) and those of the project's gpuemu.toml: that of the working directory or, inside a repository or your
    home directory, the nearest one above it, up to the root of the repository or the home directory.

    Args:
        socket_path: socket of the daemon; default GPUEMU_SOCKET, or gpuemu.sock in GPUEMU_HOME (~/.gpuemu).
        timeout_ms: how long the daemon may be silent within one request.
        config: path of gpuemu.toml, or of a directory to look from; default: GPUEMU_CONFIG, or the working directory.
        start: whether to start a daemon where none answers. It ends after 15 minutes without work.
        daemon: False asks no daemon: this process has an engine of its own, which ends with it. Default: True, unless
            GPUEMU_NO_DAEMON is set or a socket is given. A daemon of another version than the engine of this package is
            not used either, with a warning.

    Example:
        >>> client = Client()
        >>> client.ping()["protocol_version"]
        2
    """

    def __init__(
        self, socket_path: str | None = None, timeout_ms: int = 30000, *, config: str | None = None, start: bool = True,
        daemon: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(socket_path, timeout_ms / 1000, config, start, daemon)

    @property
    def socket_path(self) -> str:
        """The path of the socket that requests go to."""
        return self._transport.path

    @property
    def timeout_ms(self) -> int:
        """How long the daemon may be silent within one request, in milliseconds."""
        return round(self._transport.timeout * 1000)

    # ---- the connection --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the connections. The daemon goes on; another request connects again.

        Example:
            >>> client.close()
        """
        self._transport.close()
        self._machine.close()
        self._files.close()
        self._checked = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ping(self) -> dict[str, Any]:
        """Asks the daemon for its version.

        Returns:
            A dict with version, protocol_version, uptime_secs and pid.

        Example:
            >>> sorted(client.ping())
            ['pid', 'protocol_version', 'uptime_secs', 'version']
        """
        self._fresh()
        ping = self._transport.json("GET", "/v1/ping")
        return {"version": ping["version"], "protocol_version": ping["protocol"],
                "uptime_secs": int(ping["uptime_seconds"]), "pid": ping["pid"]}  # fmt: skip

    # ---- single outputs --------------------------------------------------------------------------------------------

    def validate_op(
        self, /, op_name: str, inputs: Mapping[str, Any], output: Any, dtype: Any | None = None,
        seed: int | None = None, *, tolerance: Any | None = None, store: str = "all", **kwargs: Any,
    ) -> ValidationResult:  # fmt: skip
        """Judges an output against the reference of an operator.

        Args:
            op_name: operator of gpuemu.toml or of the catalogue.
            inputs: the inputs by name; arrays of any framework.
            output: what the kernel returned: an array, or a dict of arrays by name.
            dtype: data type of the case: that of the inputs, or of the output where the operator gives all inputs types
                of their own, as int8_matmul does. Default: read off the arrays.
            seed: a name for the case, to find it again.
            tolerance: an object or dict with atol and rtol, instead of the bound of the operator.
            store: whether to store the verdict: all, failures or none.
            **kwargs: attributes of the operator, or arguments of the reference.

        Returns:
            The verdict: true if the output passed; its check() raises ValidationError otherwise.

        Example:
            >>> client.validate_op("relu", {"input": x}, np.maximum(x, 0)).passed
            True
        """
        header = {"dtype": None if dtype is None else dtype_text(dtype), "store": store}
        return self._submit(op_name, inputs, output, seed, None, tolerance, kwargs, header)

    def submit_output(
        self, /, op_name: str, inputs: Mapping[str, Any], output: Any, seed: int, *,
        expected: Any | None = None, tolerance: Any | None = None, store: str = "all", **kwargs: Any,
    ) -> ValidationResult:  # fmt: skip
        """Judges the output of a case that get_test_case or get_test_batch handed out, and stores the verdict.

        Args:
            op_name: the operator.
            inputs: the inputs of the case.
            output: what the kernel returned.
            seed: seed of the case.
            expected: reference values that the caller computed, as an array or a dict, instead of the operator's.
            tolerance: an object or dict with atol and rtol, instead of the bound of the operator.
            store: whether to store the verdict: all, failures or none.
            **kwargs: attributes of the operator, or arguments of the reference.

        Example:
            >>> case = client.get_test_case("relu", seed=3, dtypes=["float32"])
            >>> output = np.maximum(case["inputs"]["input"], 0)
            >>> client.submit_output("relu", case["inputs"], output, case["seed"]).passed
            True
        """
        return self._submit(op_name, inputs, output, seed, expected, tolerance, kwargs, {"store": store})

    def _submit(
        self, op_name: str, inputs: Mapping[str, Any], output: Any, seed: int | None, expected: Any | None,
        tolerance: Any | None, kwargs: Mapping[str, Any], members: Mapping[str, Any],
    ) -> ValidationResult:  # fmt: skip
        header = self._request(op=op_name, kwargs=texts(kwargs) or None, **members)
        tensors = {"outputs/" + k: a for k, a in named(output, "output").items()}
        if expected is not None:
            tensors.update(("expected/" + k, a) for k, a in named(expected, "output").items())
        if tolerance is not None:
            header["tolerance"] = tolerance_of(tolerance)
        own = isinstance(inputs, CaseInputs) and not kwargs and members.get("dtype") is None
        if isinstance(inputs, CaseInputs) and own and inputs.untouched():
            header.update(inputs.named)
        else:
            tensors.update(("inputs/" + k, to_numpy(a)) for k, a in inputs.items())
            header["seed"] = str(default_seed() if seed is None else seed)
        result = parse_result(self._post_part("/v1/submit", header, tensors)["result"])
        self._judged = self._judged or header.get("store") != "none"
        _reproduction.fill_arrays(result, inputs)
        return result

    def _post_part(self, path: str, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray[Any, Any]]) -> Any:
        """Sends one part and returns the JSON of the answer."""
        head, size = _parts.image_head(tensors)
        first = _parts.part_head(header, len(head) + size) + head
        length = len(first) + size
        if length <= 1 << 20:  # small: one buffer can be sent again if the daemon has closed the connection
            whole = b"".join([first, *(_parts.flat_bytes(a) for a in tensors.values())])
            response = self._fresh().request("POST", path, whole, _fuzzing.SUBMISSION_TYPE)
        else:
            self._fresh()
            pieces: list[bytes | memoryview] = [first, *(_parts.flat_bytes(a) for a in tensors.values())]
            response = self._transport.request("POST", path, pieces, _fuzzing.SUBMISSION_TYPE, length)
        return json.loads(self._transport.read(response))

    def check_gradients(
        self, /, op_name: str, inputs: Mapping[str, Any], grad_outputs: Any, grads: Mapping[str, Any], *,
        tolerance: Any | None = None, store: str = "failures", **attrs: Any,
    ) -> ValidationResult:  # fmt: skip
        """Judges gradients against those of the fp64 oracle: exact ones, or central differences of its values.

        Args:
            op_name: operator whose reference is in the catalogue.
            inputs: the inputs of the forward pass by name.
            grad_outputs: the gradient that came from above: an array, or a dict by output.
            grads: the gradients that the backward pass gave, by input; inputs without one are left out.
            tolerance: an object or dict with atol and rtol instead of the bound.
            store: whether to store a failure: failures or none. Gradients that pass are not stored.
            **attrs: attributes of the operator.

        Example:
            >>> grads = {"input": np.float32(x > 0)}
            >>> client.check_gradients("relu", {"input": x}, np.ones_like(x), grads).passed
            True
        """
        header = self._request(op=op_name, kwargs=texts(attrs) or None, store=store)
        if tolerance is not None:
            header["tolerance"] = tolerance_of(tolerance)
        tensors = {"inputs/" + k: to_numpy(a) for k, a in inputs.items()}
        tensors.update(("grad_outputs/" + k, a) for k, a in named(grad_outputs, "output").items())
        tensors.update(("grads/" + k, to_numpy(a)) for k, a in grads.items())
        result = parse_result(self._post_part("/v1/gradients", header, tensors)["result"])
        _reproduction.fill_arrays(result, inputs)
        return result

    def compare(
        self, got: Any, want: Any, atol: float | None = None, rtol: float | None = None, *,
        tolerance: Any | None = None, errors: bool = False,
    ) -> Comparison:  # fmt: skip
        """Compares two arrays, or two dicts of arrays, in the engine; nothing is stored.

        Args:
            got: what is to be judged.
            want: what it should be.
            atol, rtol: tolerances; default: those of the data type of got.
            tolerance: an object or dict with atol and rtol, instead of the two.
            errors: whether outputs have errors: the largest error at each magnitude of the wanted value.

        Returns:
            A dict with passed, verdict, message and outputs: one dict per array with max_abs, max_rel, mismatched and
            the rest of the statistics. It is true if it passed, and its check() raises ValidationError otherwise.

        Example:
            >>> bool(client.compare(x, x + 1))
            False
        """
        header: dict[str, Any] = {"errors": True} if errors else {}
        if tolerance is not None:
            header["tolerance"] = tolerance_of(tolerance)
        elif atol is not None or rtol is not None:
            header["tolerance"] = {"atol": atol or 0.0, "rtol": rtol or 0.0}
        tensors = {"got/" + k: a for k, a in named(got, "output").items()}
        tensors.update(("want/" + k, a) for k, a in named(want, "output").items())
        return Comparison(self._post_part("/v1/compare", header, tensors))

    # ---- fuzzing ---------------------------------------------------------------------------------------------------

    def fuzz_op_client_side(
        self, op_name: str, run_op: Callable[..., Any] | None = None, iterations: int = 100,
        seed: int | None = None, fail_fast: bool = False, op_schema: Schema | None = None,
        dtypes: Sequence[Any] | None = None, *, op_fn: Callable[..., Any] | None = None,
        value_distribution: str | None = None, layouts: Sequence[str] | None = None,
        shapes: str | Mapping[str, Sequence[int]] | None = None, attrs: Mapping[str, Any] | None = None,
        framework: str | None = None, device: str | None = None, outputs: str | None = None,
        repeat: bool = False, reference: Callable[..., Any] | None = None, tolerance: Any | None = None,
        store: str = "all", progress: bool | None = None, on_case: OnCase | None = None,
        ranks: Sequence[int] | None = None,
    ) -> FuzzResults:  # fmt: skip
        """Fuzzes a kernel that runs in this process: the engine makes the cases and judges what comes out.

        Args:
            op_name: operator of gpuemu.toml or of the catalogue.
            run_op: the kernel: takes a dict of arrays by name, or has a parameter for each of them, and for attributes
                of the operator that it wants; returns an array, a tuple or a dict. Also as op_fn.
            iterations: number of cases.
            seed: master seed: the same seed gives the same cases. Default: a fresh one, which the result has.
            fail_fast: end at the first failure.
            op_schema: shapes from shared dims, for an operator that the catalogue does not know or for other sizes:
                {"dims": [{"name", "candidates"}], "inputs": [{"name", "dims"}], "output": {"name", "dims"}}. Its name
                is op_name, whatever it says itself.
            dtypes: data types to draw from, by name or as numpy, torch, jax and tensorflow have them.
            value_distribution: how values are drawn: mixed (default), adversarial, uniform, normal, …
            layouts: memory layouts to draw from: contiguous, strided, transposed, …
            shapes: name of a strategy, or a dict of dims with the sizes to draw from, as {"H": [64, 65]}.
            attrs: attributes of the operator to fix, as {"causal": True}.
            ranks: ranks to draw for arrays that may have any, as range(1, 6); default: those of the operator's dims.
            framework: numpy, torch, jax, tensorflow or cupy: whose arrays the kernel gets. Default: those of numpy,
                or of the framework that the kernel needs, on the host: that shows on the first case.
            device: device of those arrays, as "cuda:1"; default: the first GPU if there is one.
            outputs: "returned" by the kernel (default), or "allocated": the kernel is called with a second dict of
                outputs to write to, which are poisoned and have red zones.
            repeat: run each case twice and compare bit for bit.
            reference: a function that computes what is right, for an operator that the engine does not know: it gets
                numpy arrays, those of floating point as float64, and the attributes that it has parameters for.
            tolerance: an object or dict with atol and rtol, instead of the bound of the operator.
            store: which verdicts to store: all, failures or none.
            progress: whether to show a progress bar; default: on a terminal or in a notebook.
            on_case: called after each verdict with the case, fresh inputs, the outputs and the result.

        Returns:
            FuzzResults; print it, or look at passed, failed and failures.

        Example:
            >>> results = client.fuzz_op_client_side("softmax", run_op=lambda i: my_softmax(i["input"]))
            >>> print(f"Passed: {results.passed}/{results.total}")
            Passed: 100/100
        """
        kernel = run_op or op_fn
        if kernel is None or (run_op is not None and op_fn is not None):
            raise TypeError("fuzz_op_client_side() needs exactly one of run_op and op_fn")
        if iterations < 1:
            raise ClientError(f"{iterations} iterations asked for", hint="ask for at least one")
        where = arrays(framework, device)
        kind = str(outputs or getattr(kernel, "gpuemu_outputs", "returned"))
        # The loop copies outputs at once, unless somebody is to see them first.
        lend = reference is None and on_case is None
        guard = Guard(where, outputs=kind, repeat=repeat, lend=lend, adapt=framework is None)
        request = self._cases(op_name, seed, op_schema, dtypes, value_distribution, layouts, shapes, attrs, ranks)
        plan = _fuzzing.Plan(
            request=request, kernel=kernel, run=guard.run, iterations=iterations,
            common=self._request(store=store, tolerance=None if tolerance is None else tolerance_of(tolerance)),
            seed=int(request["seed"]), label=op_name, fail_fast=fail_fast, progress=progress,
        )  # fmt: skip
        if reference is not None:
            plan.reference = reference_hook(reference)
        if on_case is not None:
            plan.on_result = case_hook(guard, on_case)
        try:
            self._judged = self._judged or store != "none"
            return _fuzzing.Loop(self._fresh(), plan, self._files).run()
        except ClientError as exc:
            if exc.code != "campaign-unknown-op" or reference is not None:
                raise
            own = "an op of your own needs op_schema= and reference=, a function that computes what is right"
            raise ClientError(exc.message, exc.code, f"{exc.hint}; {own}") from None

    def _cases(
        self, op_name: str, seed: int | None, op_schema: Schema | None = None,
        dtypes: Sequence[Any] | None = None, value_distribution: str | None = None,
        layouts: Sequence[str] | None = None, shapes: str | Mapping[str, Sequence[int]] | None = None,
        attrs: Mapping[str, Any] | None = None, ranks: Sequence[int] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """A CasesRequest without count and start."""
        request = self._request(
            op=op_name, seed=str(default_seed() if seed is None else seed), values=value_distribution,
            schema=None if op_schema is None else dict(op_schema, name=op_name),  # op_name is what judges
            attrs=texts(attrs or {}) or None,
            dtypes=dtype_names(dtypes),
            layouts=None if layouts is None else [str(x).lower() for x in listed(layouts)],
            ranks=None if ranks is None else [int(n) for n in ranks],
        )  # fmt: skip
        if isinstance(shapes, str):
            request["shapes"] = shapes
        elif shapes is not None:
            request["dims"] = {name: [int(n) for n in sizes] for name, sizes in shapes.items()}
        return request

    def get_test_case(self, /, op_name: str, seed: int | None = None, **options: Any) -> dict[str, Any]:
        """One case with its inputs, for a caller that runs the kernel itself.

        Args:
            op_name: the operator.
            seed: master seed; default: a fresh one.
            **options: as of get_test_batch.

        Returns:
            A dict with seed, inputs (arrays by name), shape, dtype, layout, and case, attrs, index.

        Example:
            >>> client.get_test_case("relu", seed=3, dtypes=["float16"], shapes={"H": [5]})["dtype"]
            'float16'
        """
        return next(iter(self.get_test_batch(op_name, 1, seed, **options)))

    def get_test_batch(
        self, op_name: str, count: int = 10, seed: int | None = None, op_schema: Schema | None = None,
        dtypes: Sequence[Any] | None = None, *, value_distribution: str | None = None,
        layouts: Sequence[str] | None = None, shapes: str | Mapping[str, Sequence[int]] | None = None,
        attrs: Mapping[str, Any] | None = None, ranks: Sequence[int] | None = None,
    ) -> TestBatch:  # fmt: skip
        """Cases with their inputs, for a caller that runs the kernel itself and submits what comes out.

        They are streamed: looping over the batch holds a few cases in memory, whatever count is.

        Args:
            op_name: the operator.
            count: number of cases.
            seed: master seed; default: a fresh one.
            op_schema, dtypes, value_distribution, layouts, shapes, attrs, ranks: as of fuzz_op_client_side.

        Returns:
            A sequence of dicts as of get_test_case.

        Example:
            >>> [case["dtype"] for case in client.get_test_batch("relu", 2, seed=3, dtypes=["float32"])]
            ['float32', 'float32']
        """
        request = self._cases(op_name, seed, op_schema, dtypes, value_distribution, layouts, shapes, attrs, ranks)
        if count < 1:
            raise ClientError(f"{count} cases asked for", hint="ask for at least one")
        return TestBatch(self, request, count)

    @seed_by_name
    def fuzz_op(
        self, op_name: str, seed: int | None = None, iterations: int = 100, fail_fast: bool = False,
        batch_sizes: Sequence[int] | None = None, seq_lengths: Sequence[int] | None = None,
        hidden_dims: Sequence[int] | None = None, dtypes: Sequence[Any] | None = None,
        layouts: Sequence[str] | None = None, *, value_distribution: str | None = None,
        shapes: str | Mapping[str, Sequence[int]] | None = None, progress: bool | None = None,
        ranks: Sequence[int] | None = None,
    ) -> FuzzResults:  # fmt: skip
        """Fuzzes an operator whose candidate is configured in gpuemu.toml; the engine runs it.

        Args:
            op_name: operator of gpuemu.toml.
            seed: master seed; default: a fresh one. A small number by place alone is refused: it may be iterations.
            iterations: number of cases per data type.
            fail_fast: end at the first failure.
            batch_sizes, seq_lengths, hidden_dims: sizes to draw the dims B, S and H from; a dimension that the operator
                has not is left out with a warning.
            dtypes, layouts, value_distribution, shapes, progress, ranks: as of fuzz_op_client_side.

        Example:
            >>> client.fuzz_op("configured_relu", seed=1, iterations=5).passed
            5
        """
        dims = dict(shapes) if isinstance(shapes, Mapping) else {}
        for name, sizes in (("B", batch_sizes), ("S", seq_lengths), ("H", hidden_dims)):
            if sizes is not None:
                dims[name] = list(sizes)
        request = self._cases(op_name, seed, None, dtypes, value_distribution, layouts, dims or None, ranks=ranks)
        _reproduction.drop_unknown(self, request, op_name, dims if isinstance(shapes, Mapping) else ())
        request.update(self._request(
            kind="fuzz", ops=[op_name], iterations=iterations, fail_fast=fail_fast, dir=os.getcwd(), attached=True,
            shapes=shapes if isinstance(shapes, str) else None,
        ))  # fmt: skip
        del request["op"]
        results = FuzzResults(int(request["seed"]), 0, 0, 0)
        started = time.monotonic()
        bar = Progress(op_name, iterations, progress)
        try:
            for event in self._fresh().events("/v1/run", request):
                bar.update(event["done"], event["failed"])
                if event["type"] == "failure" and len(results.failures) < _fuzzing.MAX_KEPT:
                    results.failures.append(parse_result(event["result"]))
                if event["type"] == "done":
                    _fuzzing.raise_error(event)
                    results.total, results.passed, results.failed = event["done"], event["passed"], event["failed"]
                    results.not_run, results.undecided = event["not_run"], event["undecided"]
        finally:
            bar.close()
        self._judged = True
        results.duration = time.monotonic() - started
        _reproduction.defer(results.failures, self._case, request)
        return results

    # ---- stored results --------------------------------------------------------------------------------------------

    def _case(self, text: str, op_schema: Schema | None = None) -> Case:
        """The case of that text, with its inputs as they lie in memory."""
        op = text.partition(" ")[0]
        schema = None if op_schema is None else dict(op_schema, name=op)
        request = self._request(op=op, schema=schema, case=text, seed="0", count=1)
        [case] = _fuzzing.stream(self._fresh(), request)
        return case

    def _stored(self, path: str, body: dict[str, Any]) -> list[ValidationResult]:
        results = [parse_result(r) for r in self._json("POST", path, body)["results"]]
        _reproduction.defer(results, self._case)
        return results

    def get_result(self, seed: int) -> ValidationResult | None:
        """The newest stored result of a case, by its seed; None if there is none. A result that failed is false.

        Example:
            >>> found = client.validate_op("relu", {"input": x}, x + 1)
            >>> client.get_result(found.seed).verdict
            'fail'
        """
        return next(iter(self._stored("/v1/results", {"seed": str(seed), "limit": 1})), None)

    def list_results(self, limit: int = 100) -> list[ValidationResult]:
        """Stored results, newest first.

        Example:
            >>> len(client.list_results(limit=1))
            1
        """
        return self._stored("/v1/results", {"limit": limit})

    def list_failures(self, limit: int = 20, op_name: str | None = None) -> list[ValidationResult]:
        """Stored failures, newest first.

        Example:
            >>> client.validate_op("relu", {"input": x}, x + 1).passed
            False
            >>> client.list_failures(limit=1)[0].op_name
            'relu'
        """
        return self._stored("/v1/failures", {"limit": limit, **({"op": op_name} if op_name else {})})

    def store_baseline(self, tag: str, *, stored: bool | None = None) -> dict[str, Any]:
        """Keeps results of the project under a tag, as a baseline.

        Args:
            tag: its name.
            stored: True: the latest verdict on each case of the project, of clients and of all runs. False: the newest
                finished test or ci run. Default: True where this client has validated or fuzzed, else False.

        Example:
            >>> client.validate_op("relu", {"input": x}, np.maximum(x, 0)).passed
            True
            >>> client.store_baseline("v1")["tag"]
            'v1'
        """
        request = self._request(tag=tag, stored=self._judged if stored is None else stored)
        reply: dict[str, Any] = self._json("POST", "/v1/baselines", request)
        return reply

    def reproduce(
        self, seed: int | str, op_name: str | None = None, *, op_schema: Schema | None = None,
        run_op: Callable[..., Any] | None = None, reference: Callable[..., Any] | None = None,
        framework: str | None = None, device: str | None = None,
    ) -> ReproduceResult:  # fmt: skip
        """Makes a case again: its inputs as they lie in memory, and its verdict where the engine can execute the op.

        Args:
            seed: seed of a stored case, or a case in one line, which needs no store.
            op_name: decides where a seed has cases of several operators.
            op_schema: that of the run, where it had one: the inputs follow from it and the case.
            run_op: the kernel, where only this process can run it.
            reference, framework, device: as of fuzz_op_client_side, for run_op.

        Example:
            >>> results = client.fuzz_op_client_side("relu", lambda i: i["input"] + 1, 5, seed=1)
            >>> sorted(client.reproduce(results.smallest.case).inputs)
            ['input']
        """
        from .session import made_again  # it needs a client itself

        by_text = isinstance(seed, str) and not seed.isdigit()
        if op_schema is not None or run_op is not None:
            text = str(seed) if by_text else _reproduction.case_text(self, int(seed), op_name)
            place = {"framework": framework, "device": device}
            return made_again(self, text, run_op, op_schema, reference, **place)
        target = {"case": seed} if by_text else {"seed": str(seed)}
        request = self._request(op=op_name, **target)
        return _reproduction.stored(self, request, self._json("POST", "/v1/reproduce", request))

    def replay(
        self, case: str, run_op: Callable[..., Any], *, op_schema: Schema | None = None,
        reference: Callable[..., Any] | None = None, tolerance: Any | None = None, framework: str | None = None,
        device: str | None = None, outputs: str | None = None, repeat: bool = False, store: str = "none",
    ) -> ValidationResult:  # fmt: skip
        """Runs one case again, with a kernel of this process. It needs no store.

        Args:
            case: the case in one line, as results have it.
            run_op: the kernel.
            op_schema, reference, tolerance: those of the run, where it had them.
            framework, device, outputs, repeat, store: as of fuzz_op_client_side.

        Example:
            >>> case = client.get_test_case("relu", seed=3)["case"]
            >>> client.replay(case, lambda i: np.maximum(i["input"], 0)).passed
            True
        """
        from .session import replayed  # it needs a client itself

        rules = {"op_schema": op_schema, "reference": reference, "tolerance": tolerance}
        place = {"framework": framework, "device": device, "outputs": outputs, "repeat": repeat}
        return replayed(self, case, run_op, store, rules, **place)

    def minimize(
        self, seed: int | str, strategy: str | None = None, max_iters: int = 100, *,
        op_name: str | None = None, progress: bool | None = None, run_op: Callable[..., Any] | None = None,
        framework: str | None = None, device: str | None = None, op_schema: Schema | None = None,
        reference: Callable[..., Any] | None = None, tolerance: Any | None = None, store: str = "all",
    ) -> MinimizeResult:  # fmt: skip
        """Looks for a simpler case that fails in the same way.

        Args:
            seed: seed of a stored case, or a case in one line.
            strategy: binary-search-dims, binary-search-values, or None for both.
            max_iters: how many cases to try.
            op_name: decides where a seed has cases of several operators.
            progress: whether to show a progress bar; default: on a terminal or in a notebook.
            run_op: the kernel, where only this process can run it; framework and device as of fuzz_op_client_side.
                Sizes, attributes, layouts and types are then made simpler, single values are not.
            op_schema, reference, tolerance: those of the run, where it had them; they need run_op.
            store: whether to store the verdict on the simplest case, with run_op: all, failures or none.

        Example:
            >>> case = client.get_test_case("softmax", seed=3, dtypes=["float32"], value_distribution="normal")["case"]
            >>> client.minimize(case, run_op=lambda i: my_softmax(i) * 2).minimized_shape
            (1, 1, 1)
        """
        by_text = isinstance(seed, str) and not seed.isdigit()
        if run_op is not None:
            from .session import minimized  # it needs a client itself

            text = str(seed) if by_text else _reproduction.case_text(self, int(seed), op_name)
            rules = {"op_schema": op_schema, "reference": reference, "tolerance": tolerance}
            return minimized(self, text, run_op, max_iters, rules, store, framework=framework, device=device)
        request = self._request(
            case=seed if by_text else None, seed="0" if by_text else str(seed), op=op_name, strategy=strategy,
            max_iters=max_iters,
        )  # fmt: skip
        try:
            reply = self._work("/v1/minimize", request, "minimize", progress)
        except ClientError as exc:
            if exc.code != "campaign-not-executable":
                raise
            own = f"client.minimize({seed!r}, run_op=KERNEL) runs a kernel of this process"
            raise ClientError(exc.message, exc.code, "; ".join(filter(None, [exc.hint, own]))) from None
        result = parse_result(reply["minimized"])
        _reproduction.defer([result], self._case)
        shape = result.repro_info.shape if result.repro_info else ()
        return MinimizeResult(
            original_seed=int(reply["original"]["seed"]), minimized_seed=result.seed, minimized_shape=shape,
            result=result,
            case=reply["case"], executed=reply["executed"], unchanged=reply["unchanged"],
        )  # fmt: skip

    def calibrate(
        self, op_name: str, dtype: Any | None = None, iterations: int = 100, *, seed: int | None = None,
        progress: bool | None = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Fits a tolerance to the configured candidate of an operator, which is taken to be right.

        Returns:
            One dict per data type: atol, rtol, fitted, held_out, false_alarms, false_alarm_rate and misses.

        Raises:
            ClientError: the tolerance would accept zeros for most values: candidate or reference is wrong.

        Example:
            >>> [fit["dtype"] for fit in client.calibrate("configured_relu", "float32", 40)]  # doctest: +SKIP
            ['float32']
        """
        request = self._request(
            op=op_name, dtype=None if dtype is None else dtype_text(dtype), iterations=iterations,
            seed=None if seed is None else str(seed),
        )
        reply = self._work("/v1/calibrate", request, "calibrate " + op_name, progress)
        calibrations: list[dict[str, Any]] = reply["calibrations"]
        return calibrations

    def fit_tolerance(
        self, dtype: str, samples: Sequence[Mapping[str, Any]], percentile: float = 95.0, factor: float = 1.5
    ) -> dict[str, Any]:
        """Fits a tolerance to the errors of runs that are right: factor times a percentile, tried on the other half.

        Args:
            dtype: data type of the outputs.
            samples: a dict with max_abs and max_want per run, and bins, the errors of compare(..., errors=True).
                Without bins atol alone is fitted.
            percentile: of the errors.
            factor: what it is multiplied by.

        Example:
            >>> samples = [{"max_abs": 1e-6 * k, "max_want": 1.0} for k in range(1, 41)]
            >>> client.fit_tolerance("float32", samples)["atol"] < 1e-4
            True
        """
        body = {"dtype": dtype_text(dtype), "percentile": percentile, "factor": factor,
                "samples": [{k: s[k] for k in ("max_abs", "max_want", "bins") if k in s} for s in samples]}  # fmt: skip
        reply: dict[str, Any] = self._json("POST", "/v1/fit", body)
        return reply

    def _work(self, path: str, request: dict[str, Any], label: str, progress: bool | None) -> dict[str, Any]:
        """A long request: follows its progress and returns its reply."""
        bar: Progress | None = None
        try:
            for event in self._fresh().events(path, request):
                if event["type"] == "done":
                    _fuzzing.raise_error(event)
                    reply: dict[str, Any] = event["reply"]
                    return reply
                if bar is None:
                    bar = Progress(label, event["budget"], progress)
                bar.update(event["done"])
        finally:
            if bar is not None:
                bar.close()
        raise ConnectionFailed("the stream of events ends too early", "daemon-lost", "gpuemu daemon logs tells why")

    def emulate(
        self, ptx: str | os.PathLike[str], entry: str | None = None, *, grid: int | Sequence[int],
        block: int | Sequence[int], args: Sequence[Any] | Mapping[str, Any], outputs: Sequence[Any] = (),
        shared: int = 0, checks: str = "all", schedules: int = 1, budget: int | None = None, counters: bool = False,
        arch: str | None = None, sfu: str | None = None, contract: bool = False, bounds: str = "view",
        memory: str | int | None = None,
    ) -> EmulationResult:  # fmt: skip
        """Executes one launch of a compiled kernel on the CPU, on arrays of this process.

        Args:
            ptx: the text of the module, or the path of a .ptx file.
            entry: name of the kernel; default: the only one.
            grid, block: numbers of blocks and threads, as x or (x, y, z).
            args: the arguments in the order of the parameters, or a dict of them by names of your choice: arrays of
                numpy and tensors of torch on the CPU, which are read and written in place; numbers, which have the
                types of their parameters (numpy's their own); None for a null pointer.
            outputs: names or numbers of arguments that the kernel must write as a whole, and must not read before.
            shared: bytes of dynamic shared memory.
            checks: "all", "none", or some of "bounds,uninit,race,barrier,async".
            schedules: orders of blocks and warps to compare bit by bit.
            budget: instructions of warps after which the kernel is stopped.
            counters: whether to count instructions, branches and memory accesses.
            arch: architecture whose tensor cores are followed, such as "sm_90a"; default: that of the module.
            sfu: "worst+" or "worst-": approximate instructions give the ends of their bounds.
            contract: whether products are fused with additions where PTX leaves it open.
            bounds: "view": what lies outside of the arrays is out of bounds; "storage": outside of the memory that
                they are views of.
            memory: memory that the launch may use, as "6GiB" or in bytes; default: 4 GiB.

        Returns:
            what was found; result.check() raises it. A kernel that is not executed here has the status "not_run".

        Raises:
            ClientError: the launch does not fit the kernel, or the text is no PTX.

        Example:
            >>> y = np.zeros(4, np.float32)
            >>> client.emulate(PTX, grid=1, block=4, args=[y]).check().status
            'passed'
            >>> y
            array([1., 1., 1., 1.], dtype=float32)
        """
        options = {"entry": entry, "dynamic_shared": shared, "checks": checks, "schedules": schedules, "budget": budget,
                   "counters": counters, "arch": arch, "sfu": sfu, "contract": contract,
                   "memory": memory}  # fmt: skip
        return _launch.emulate(self, ptx, options, grid, block, args, outputs, bounds)

    def _launched(
        self, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray[Any, Any]]
    ) -> contextlib.AbstractContextManager[tuple[Any, _launch.Image]]:
        """The answer to a launch, and the tensors that the kernel wrote. The engine's worker has another one."""
        return _launch.exchange(self, header, tensors)

    def compile_cuda(
        self, source: str | os.PathLike[str], *, arch: str = "sm_80", flags: Sequence[str] = (),
        compiler: str | None = None,
    ) -> str:  # fmt: skip
        """Compiles CUDA C++ to PTX, with nvcc where it is installed, else with clang.

        Args:
            source: the text, or the path of a .cu file.
            arch: what it is compiled for.
            flags: further arguments of the compiler.
            compiler: "nvcc" or "clang".

        Example:
            >>> ptx = client.compile_cuda("__global__ void f() {}")  # doctest: +SKIP
        """
        body = {
            **_launch.source_of(source), "arch": arch, "flags": list(flags), "compiler": compiler or "",
            "env": _daemon.environment(),
        }  # fmt: skip
        return str(self._json("POST", "/v1/compile", body)["ptx"])

    def lint_kernel(self, ptx_content: str, kernel_name: str | None = None) -> _lint.LintResults:
        """Holds the kernels of a PTX text to their limits, and stores their metrics.

        The limits are those of the kernel in gpuemu.toml, else 64 registers, no spills and no local memory. From PTX
        registers are an estimate (its name is in metrics["estimated"]) and spills are not known: None, and a limit on
        them is a violation of severity "note", with which a kernel still passes.

        Args:
            ptx_content: the text.
            kernel_name: what the kernel is called in gpuemu.toml or in the text; default: all kernels of the text.

        Returns:
            a dict per kernel: kernel_name, passed, metrics (register_count, spill_count, local_memory_bytes,
            shared_memory_bytes, instruction_count, instruction_mix, ...), violations (kind, severity, message, line,
            ...), timestamp.
            The list is true if there are kernels and all passed; its check() raises otherwise.

        Raises:
            ClientError: the text is no PTX; the message has line and column.

        Example:
            >>> client.lint_kernel(PTX)[0]["metrics"]["instruction_mix"]["branch"]
            1
        """
        body = self._request(ptx=ptx_content, kernel=kernel_name)
        return _lint.lint_results(self._json("POST", "/v1/lint", body))

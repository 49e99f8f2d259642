"""The loop of client-side fuzzing: fetch a batch, run the kernel on it, submit what came out, all three at once.

While the kernel runs on one batch, helper threads fetch the next batch and submit the last ones. Inputs and outputs lie
in shared files, one for each batch in use: the one that is fetched, the one that runs, and those that are being judged.
"""

from __future__ import annotations

import base64
import json
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from . import _parts
from ._case import BatchCase, Case, Execution, Failure, Form, OutputSpec, View
from ._http import Transport
from ._progress import Progress
from ._shared import GRAIN, Reserve, SharedFile
from .arrays import name_of, numpy_dtype
from .guard import INPUT_PATTERNS, RED_ZONE
from .results import ClientError, ConnectionFailed, FuzzResults, ValidationResult, parse_result

IN_FLIGHT = 2  # batches that are being judged at once: while one waits for the disk the other has the cores
LARGEST_BATCH = 512  # cases; a request has the price of a dozen. More of them leave the caches and gain nothing
SMALL_BATCH = 32  # cases that the last batches have at least
LAST_PART = 3  # of what is left a batch is at most a third: nothing else is done while the last one is judged
BATCH_SECONDS = 0.25  # that a batch may take: verdicts come soon, and the daemon is never silent for long
BATCH_BYTES = 8 << 20  # of inputs; a batch ends with the case that reaches it. What is larger leaves the caches
MAX_KEPT = 1000  # failures that a FuzzResults holds; all of them are in the store
MAX_SNAPSHOT = 64 << 10  # bytes of inputs that a failure carries; larger ones are made from the case again
SUBMISSION_TYPE = "application/vnd.gpuemu.submission"
ALIGNED = 64  # bytes; outputs in a shared file begin at multiples of it
INHERITED = ("config", "python", "env", "brief", "schema")  # the first header of a submission says them for all

Kernel = Callable[..., Any]
Run = Callable[[Kernel, Case], Execution]


def parse_case(header: dict[str, Any], image: _parts.Array) -> Case:
    """Reads a case of the engine. image: the bytes of the image, read-only."""
    storages = _parts.storages(image)
    inputs = [
        View(v["name"], v["dtype"], tuple(v["shape"]), tuple(v["strides"]), v["offset"], storages[v["storage"]])
        for v in header["inputs"]
    ]
    return Case(header["index"], header["op"], header["case"], int(header["seed"]), header["dtype"],
                header.get("attrs") or {}, inputs, parse_outputs(header))  # fmt: skip


def parse_outputs(header: dict[str, Any]) -> list[OutputSpec] | None:
    """What the engine asks for; None where it does not know."""
    if header.get("outputs") is None:
        return None
    return [OutputSpec(o["name"], o["dtype"], tuple(o["shape"])) for o in header["outputs"]]


def parse_form(raw: dict[str, Any]) -> Form:
    """Reads what cases of a batch have in common."""
    views = [(v["name"], v["dtype"], tuple(v["shape"]), tuple(v["strides"]), v["offset"]) for v in raw["inputs"]]
    stops = [begin - RED_ZONE for begin, _ in raw["places"][1:]] + [raw["size"]]
    places = [(begin, end, stop) for (begin, end), stop in zip(raw["places"], stops)]
    before, behind = raw["case"]
    return Form(raw["op"], before, behind, raw["dtype"], raw.get("attrs") or {}, views, parse_outputs(raw), places,
                raw["size"])  # fmt: skip


def fetch(transport: Transport, request: dict[str, Any], shared: SharedFile) -> list[Case]:
    """Asks for a batch of cases, whose inputs are written to the shared file between their red zones."""
    asked = dict(request, shared=shared.path, zone=RED_ZONE, fill=INPUT_PATTERNS)
    reply = transport.json("POST", "/v1/batches", asked)
    raise_error(reply)
    forms = [parse_form(raw) for raw in reply["forms"]]
    rows = list(zip((forms[f] for f in reply["form"]), reply["seeds"], reply["begin"]))
    memory = shared.view(max((begin + form.size for form, _, begin in rows), default=0))
    memory.flags.writeable = False
    start = request.get("start", 0)
    return [BatchCase(i, f, seed, memory[at : at + f.size]) for i, (f, seed, at) in enumerate(rows, start)]


def stream(transport: Transport, request: dict[str, Any]) -> Iterator[Case]:
    """Asks for cases and yields them as they arrive; the engine keeps one in memory, and so does this side."""
    response = transport.request("POST", "/v1/cases", json.dumps(request).encode())
    try:
        while True:
            (size,) = struct.unpack("<I", transport.read(response, 4))
            if size == 0:
                transport.read(response)
                return
            header = json.loads(transport.read(response, size))
            raise_error(header)
            (length,) = struct.unpack("<Q", transport.read(response, 8))
            image = np.empty(length, np.uint8)
            transport.readinto(response, image.data)
            image.flags.writeable = False
            yield parse_case(header, image)
    finally:
        if not response.isclosed():
            transport.give_up(response)


def snapshot(view: View) -> dict[str, Any]:
    """An input as text: data type, shape, and its elements in C order, base64."""
    return snapshot_of(_parts.array_of(view))


def snapshot_of(array: _parts.Array) -> dict[str, Any]:
    """An array as text: data type, shape, and its elements in C order, base64."""
    data = base64.b64encode(_parts.flat_bytes(array)).decode("ascii")
    return {"dtype": _parts.dtype_name(array.dtype), "shape": list(array.shape), "data": data}


def raise_error(header: dict[str, Any]) -> None:
    """Raises what a part says instead of its content."""
    error = header.get("error")
    if error:
        raise ClientError(error["message"], error.get("code", ""), error.get("hint", ""), error.get("pos", ""))


_What = tuple[str, "np.dtype[Any]", tuple[int, ...]]  # name, dtype and shape of an output


class _OutputForm(NamedTuple):
    number: int  # in the request
    what: list[_What]
    dtypes: list[np.dtype[Any]]  # of what is written: little-endian


class Submission:
    """Results of one batch on their way to the engine: arrays in a shared file, what is said of them in columns.

    What is not an output alone (a failure, findings, a second execution) goes in a part of its own, and so do cases of
    a schema of the caller's, which the first part has for all: the engine makes their inputs again with it.
    """

    def __init__(self, shared: SharedFile, common: dict[str, Any], schema: Mapping[str, Any] | None = None) -> None:
        self._shared = shared
        self._common = common if schema is None else dict(common, schema=schema)  # config, store, tolerance, brief, …
        self._brief = bool(common.get("brief"))
        self._own_schema = schema is not None
        self._in_columns: list[bool] = []  # for each case; else in a part
        self._forms: list[dict[str, Any]] = []
        self._known: dict[Form, _OutputForm] = {}  # the last of each
        self._form: list[int] = []
        self._seeds: list[str] = []
        self._begin: list[int] = []
        self._times: list[int] = []
        self._parts: list[bytes] = []
        self._memory = np.empty(0, np.uint8)  # of the shared file
        self._end = 0  # bytes of it in use

    def add(self, case: Case, done: Execution, expected: Mapping[str, _parts.Array] | None = None) -> None:
        """Adds what the kernel did on one case. expected: values to compare with instead of the operator's."""
        outputs = done.outputs
        plain = outputs is not None and not done.findings and done.failure is None and not done.again and not expected
        in_columns = plain and isinstance(case, BatchCase) and not self._own_schema and self._add_row(case, done)
        self._in_columns.append(in_columns)
        if not in_columns:
            self._add_part(case, done, expected)

    def _add_row(self, case: BatchCase, done: Execution) -> bool:
        """Adds a case to the columns; False where an output has a type that the engine does not know."""
        assert case.form is not None and done.outputs is not None
        arrays = done.outputs
        what = [(name, a.dtype, a.shape) for name, a in arrays.items()]
        known = self._known.get(case.form)
        if known is None or known.what != what:
            known = self._learn(case.form, what)
            if known is None:
                return False
        begin = 0
        for i, array in enumerate(arrays.values()):
            at = self._room(array.nbytes)
            begin = begin if i else at
            self._end = at + array.nbytes
            np.ndarray(array.shape, known.dtypes[i], self._memory, at)[...] = array
        self._form.append(known.number)
        self._seeds.append(case.digits)
        self._begin.append(begin)
        self._times.append(done.time_ns)
        return True

    def _learn(self, form: Form, what: list[_What]) -> _OutputForm | None:
        """Adds the form of outputs; None where one has a type that the engine does not know."""
        names = [name_of(dtype) for _, dtype, _ in what]
        known = [name for name in names if name is not None]
        if len(known) < len(names):
            return None
        outputs = [{"name": n, "dtype": d, "shape": shape} for (n, _, shape), d in zip(what, known)]
        made = self._known[form] = _OutputForm(len(self._forms), what, [numpy_dtype(name) for name in known])
        self._forms.append({"case": [form.before, form.behind], "outputs": outputs})
        return made

    def _room(self, size: int) -> int:
        """Where the next bytes begin; there is room for size of them."""
        begin = -(-self._end // ALIGNED) * ALIGNED
        if begin + size > self._memory.size:
            self._memory = self._shared.view(-(-(begin + size) // GRAIN) * GRAIN)
        return begin

    def _add_part(self, case: Case, done: Execution, expected: Mapping[str, _parts.Array] | None) -> None:
        header = dict(self._common if not self._parts else self._others(), case=case.text, op=case.op,
                      time_ns=done.time_ns)  # fmt: skip
        if done.findings:
            header["findings"] = [{"kind": f.kind, "name": f.name, "sentence": f.sentence} for f in done.findings]
        failure = done.failure
        if failure is None and done.outputs is not None:
            outputs = {"outputs/" + name: array for name, array in done.outputs.items()}
            if done.again:
                outputs.update(("again/" + name, array) for name, array in done.again.items())
            if expected:
                outputs.update(("expected/" + name, array) for name, array in expected.items())
            try:
                header["bytes"] = self._write(outputs, *_parts.image_head(outputs))
                header["shared"] = self._shared.path
            except ClientError as exc:  # a type that the engine does not know
                failure = Failure("wrong_dtype", exc.message, exc.hint)
        if failure is not None:
            header["failure"] = {"reason": failure.reason, "message": failure.message, "hint": failure.hint,
                                 "trace": failure.trace}  # fmt: skip
        self._parts.append(_parts.part_head(header, 0))

    def _others(self) -> dict[str, Any]:
        """What parts behind the first one say of what all have in common."""
        return {k: v for k, v in self._common.items() if k not in INHERITED}

    def _write(self, tensors: dict[str, _parts.Array], head: bytes, size: int) -> tuple[int, int]:
        """Writes an image behind what is there; returns where it begins and ends."""
        begin = self._room(len(head) + size)
        at = begin + len(head)
        self._memory[begin:at] = np.frombuffer(head, np.uint8)
        for array in tensors.values():
            self._memory[at : at + array.nbytes] = _parts.flat_array(array)
            at += array.nbytes
        self._end = at
        return begin, at

    def send(self, transport: Transport) -> list[ValidationResult]:
        """Sends everything and returns the verdicts in order."""
        return [parse_result(raw) for raw in self._send(transport) if raw is not None]

    def judged(self, transport: Transport) -> list[ValidationResult | None]:
        """send, with None for cases that passed where brief answers are wanted: nobody looks at them."""
        return [None if raw is None or (self._brief and raw["verdict"] == "pass") else parse_result(raw)
                for raw in self._send(transport)]  # fmt: skip

    def _send(self, transport: Transport) -> list[dict[str, Any] | None]:
        """The results in order; None for one that passed where the answer is brief."""
        rows: list[dict[str, Any] | None] = []
        parts: list[dict[str, Any] | None] = []
        if self._form:
            columns = {"shared": self._shared.path, "forms": self._forms, "form": self._form, "seeds": self._seeds,
                       "begin": self._begin, "time_ns": self._times}  # fmt: skip
            rows = transport.json("POST", "/v1/judgements", {**self._common, **columns})["results"]
        if self._parts:
            body = b"".join(self._parts) + struct.pack("<I", 0)
            reply = json.loads(transport.read(transport.request("POST", "/v1/submissions", body, SUBMISSION_TYPE)))
            parts = reply["results"]
        if len(rows) != len(self._form) or len(parts) != len(self._parts):
            given = len(rows) + len(parts)
            raise ClientError(f"the daemon gave {given} verdicts on {len(self._in_columns)} cases")
        for entry in (*rows, *parts):
            if entry is not None:
                raise_error(entry)
        of_rows, of_parts = iter(rows), iter(parts)
        entries = [next(of_rows if in_columns else of_parts) for in_columns in self._in_columns]
        return [entry and entry["result"] for entry in entries]


@dataclass
class Plan:
    """What a client-side fuzz run does."""

    request: dict[str, Any]  # a CasesRequest without count, start and shared
    common: dict[str, Any]  # members that all submissions share
    kernel: Kernel
    run: Run  # executes the kernel on a case, guarded
    iterations: int
    seed: int
    label: str
    fail_fast: bool = False
    progress: bool | None = None
    reference: Callable[[Case], dict[str, _parts.Array]] | None = None  # instead of the operator's
    on_result: Callable[[Case, Execution, ValidationResult], None] | None = None


@dataclass
class _Batch:
    cases: list[Case]
    executions: list[Execution] = field(default_factory=list)  # none where nobody is to see them


class Loop:
    """Runs a Plan."""

    def __init__(self, transport: Transport, plan: Plan, files: Reserve) -> None:
        self._transport = transport
        self._plan = plan
        self._files = files
        self._inputs = [files.take() for _ in range(IN_FLIGHT + 2)]
        self._outputs = [files.take() for _ in range(IN_FLIGHT + 1)]
        self._results = FuzzResults(plan.seed, 0, 0, 0)
        self._stopped = False
        self._ran = self._judged = 0.0  # seconds a case of the last batch took here, and in the engine
        self._bar = Progress(plan.label, plan.iterations, plan.progress)

    def run(self) -> FuzzResults:
        """Runs all cases, or up to the first failure with fail_fast."""
        start = time.monotonic()
        # One thread fetches, the others submit. They wait for the socket most of the time.
        # After an error, and where verdicts are not waited for, the daemon may still write to the files.
        done: Callable[[SharedFile], None] = SharedFile.close
        with ThreadPoolExecutor(1 + IN_FLIGHT, "gpuemu") as pool:
            try:
                self._run(pool)
                if not self._stopped:
                    done = self._files.give
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
                self._bar.close()
                for shared in (*self._inputs, *self._outputs):
                    done(shared)
        self._results.duration = time.monotonic() - start
        return self._results

    def _run(self, pool: ThreadPoolExecutor) -> None:
        number, at, size = 0, 0, 1
        common = dict(self._plan.common, brief=self._plan.on_result is None)
        fetching = self._fetch(pool, 0, 0, size)
        submitting: deque[tuple[_Batch, Future[tuple[list[ValidationResult | None], float]]]] = deque()
        while fetching is not None:
            cases = fetching.result()
            if not cases:
                raise ConnectionFailed("the daemon handed out no cases", "daemon-lost", "gpuemu daemon logs tells why")
            at += len(cases)
            size = self._next_size(size)
            number += 1
            fetching = self._fetch(pool, number, at, size)
            batch = _Batch(cases)
            began = time.monotonic()
            shared = self._outputs[number % len(self._outputs)]
            submission = Submission(shared, common, self._plan.request.get("schema"))
            for case in cases:
                done = self._plan.run(self._plan.kernel, case)
                expected = self._plan.reference(case) if self._plan.reference and done.outputs is not None else None
                submission.add(case, done, expected)
                if self._plan.on_result is not None:
                    batch.executions.append(done)
            self._ran = (time.monotonic() - began) / len(cases)
            while submitting and (len(submitting) == IN_FLIGHT or submitting[0][1].done()):
                self._absorb(*submitting.popleft())
                if self._stopped:
                    return
            submitting.append((batch, pool.submit(self._submit, submission)))
        while submitting and not self._stopped:
            self._absorb(*submitting.popleft())

    def _submit(self, submission: Submission) -> tuple[list[ValidationResult | None], float]:
        """The verdicts of a batch, and the seconds they took."""
        began = time.monotonic()
        return submission.judged(self._transport), time.monotonic() - began

    def _fetch(self, pool: ThreadPoolExecutor, number: int, at: int, size: int) -> Future[list[Case]] | None:
        left = self._plan.iterations - at
        if left <= 0:
            return None
        count = min(size, left, max(left // LAST_PART, SMALL_BATCH))
        request = dict(self._plan.request, start=at, count=count, max_bytes=BATCH_BYTES)
        return pool.submit(fetch, self._transport, request, self._inputs[number % len(self._inputs)])

    def _next_size(self, size: int) -> int:
        """Cases of the next batch: one until it is known how long one takes, then as many as BATCH_SECONDS has."""
        if self._judged == 0.0:
            return 1
        fitting = int(BATCH_SECONDS / max(self._ran, self._judged, 1e-9))
        return max(1, min(fitting, 4 * size, LARGEST_BATCH))

    def _absorb(self, batch: _Batch, submitted: Future[tuple[list[ValidationResult | None], float]]) -> None:
        """Counts the verdicts of a batch."""
        res = self._results
        results, seconds = submitted.result()
        if len(results) != len(batch.cases):
            raise ClientError(f"the daemon gave {len(results)} verdicts on {len(batch.cases)} cases")
        self._judged = seconds / len(results)
        for i, (case, result) in enumerate(zip(batch.cases, results)):
            res.total += 1
            if result is None:
                res.passed += 1
                continue
            if result.passed:
                res.passed += 1
            elif result.verdict in ("fail", "error"):
                res.failed += 1
                if len(res.failures) < MAX_KEPT:
                    self._complete(result, case)
                    res.failures.append(result)
            else:
                if result.verdict == "not_run":
                    res.not_run += 1
                else:
                    res.undecided += 1
                if len(res.unjudged) < MAX_KEPT:
                    res.unjudged.append(result)
            if self._plan.on_result is not None:
                self._plan.on_result(case, batch.executions[i], result)
            if result.verdict in ("fail", "error") and self._plan.fail_fast:
                self._stopped = True
                break
        self._bar.update(res.total, res.failed)

    def _complete(self, result: ValidationResult, case: Case) -> None:
        """Adds to a failure what only this side knows: strides, the options of the run, and inputs that are small."""
        from . import _reproduction  # it reads cases by means of this module

        _reproduction.fill(result, case, self._plan.request, self._plan.iterations)

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
from typing import Any

import numpy as np

from . import _parts
from ._case import Case, Execution, Failure, OutputSpec, View
from ._http import Transport
from ._progress import Progress
from ._shared import GRAIN, SharedFile
from .results import ClientError, ConnectionFailed, FuzzResults, ValidationResult, parse_result

IN_FLIGHT = 2  # batches that are being judged at once: while one waits for the disk the other has the cores
LARGEST_BATCH = 256  # cases; a commit to the store writes the same pages for more of them, twice as many gain nothing
SMALL_BATCH = 32  # cases that the last batches have at least
LAST_PART = 3  # of what is left a batch is at most a third: nothing else is done while the last one is judged
BATCH_SECONDS = 0.25  # that a batch may take: verdicts come soon, and the daemon is never silent for long
BATCH_BYTES = 8 << 20  # of inputs; a batch ends with the case that reaches it. What is larger leaves the caches
MAX_KEPT = 1000  # failures that a FuzzResults holds; all of them are in the store
MAX_SNAPSHOT = 64 << 10  # bytes of inputs that a failure carries; larger ones are made from the case again
SUBMISSION_TYPE = "application/vnd.gpuemu.submission"
INHERITED = ("config", "python", "brief")  # the first header of a submission says them for all

Kernel = Callable[..., Any]
Run = Callable[[Kernel, Case], Execution]


def parse_case(header: dict[str, Any], image: _parts.Array) -> Case:
    """Reads a case of the engine. image: the bytes of the image, read-only."""
    storages = _parts.storages(image)
    inputs = [
        View(v["name"], v["dtype"], tuple(v["shape"]), tuple(v["strides"]), v["offset"], storages[v["storage"]])
        for v in header["inputs"]
    ]
    outputs = None
    if header.get("outputs") is not None:
        outputs = [OutputSpec(o["name"], o["dtype"], tuple(o["shape"])) for o in header["outputs"]]
    return Case(header["index"], header["op"], header["case"], int(header["seed"]), header["dtype"],
                header.get("attrs") or {}, inputs, outputs)  # fmt: skip


def fetch(transport: Transport, request: dict[str, Any], shared: SharedFile) -> list[Case]:
    """Asks for a batch of cases, whose inputs are written to the shared file."""
    body = json.dumps(dict(request, shared=shared.path)).encode()
    text = transport.read(transport.request("POST", "/v1/cases", body))
    parts: list[bytes] = []
    at = 0
    while True:
        size = struct.unpack_from("<I", text, at)[0] if at + 4 <= len(text) else None
        if size == 0:
            break
        if size is None or at + 4 + size > len(text):
            if parts:
                raise_error(json.loads(parts[-1]))
            raise ConnectionFailed("the stream of cases ends too early", "daemon-lost", "gpuemu daemon logs tells why")
        parts.append(text[at + 4 : at + 4 + size])
        at += 4 + size + 8  # and the length of an empty image
    headers = json.loads(b"[" + b",".join(parts) + b"]")  # one call for all: each has its price
    memory = shared.view(max((h["bytes"][1] for h in headers), default=0))
    memory.flags.writeable = False
    return [parse_case(h, memory[h["bytes"][0] : h["bytes"][1]]) for h in headers]


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
    data = base64.b64encode(_parts.flat_bytes(_parts.array_of(view))).decode("ascii")
    return {"dtype": view.dtype, "shape": list(view.shape), "data": data}


def raise_error(header: dict[str, Any]) -> None:
    """Raises what a part says instead of its content."""
    error = header.get("error")
    if error:
        raise ClientError(error["message"], error.get("code", ""), error.get("hint", ""), error.get("pos", ""))


def _members(values: Mapping[str, Any]) -> str:
    """Members of a JSON object that has others before them."""
    return "," + _parts.dumps(values)[1:-1] if values else ""


class Submission:
    """Results of one batch on their way to the engine: images in a shared file, headers in one body.

    Cases of a schema of the caller's (own_schema) travel back with their inputs: their text does not say enough for the
    engine to make them again, and the operator's own schema may still know their shapes.
    """

    def __init__(self, shared: SharedFile, common: dict[str, Any], own_schema: bool = False) -> None:
        self._shared = shared
        self._brief = bool(common.get("brief"))
        self._own_schema = own_schema
        # What all headers say, as text: they have little of their own, and an encoder takes longer than that.
        self._first = _members(common)  # config, python, store, tolerance
        self._others = _members({k: v for k, v in common.items() if k not in INHERITED})
        self._path = _members({"shared": shared.path})
        self._parts: list[bytes] = []
        self._memory = np.empty(0, np.uint8)  # of the shared file
        self._end = 0  # bytes of it in use

    def add(self, case: Case, done: Execution, expected: Mapping[str, _parts.Array] | None = None) -> None:
        """Adds what the kernel did on one case. expected: values to compare with instead of the operator's."""
        text = f'{{"op":{_parts.dumps(case.op)},"time_ns":{done.time_ns}{self._others if self._parts else self._first}'
        tensors: dict[str, _parts.Array] = {}
        if self._own_schema:
            text += _members({"seed": str(case.seed), "kwargs": _parts.texts(case.attrs)})
            tensors.update(("inputs/" + v.name, _parts.array_of(v)) for v in case.inputs)
        else:
            text += f',"case":{_parts.dumps(case.text)}'
        if done.findings:
            seen = [{"kind": f.kind, "name": f.name, "sentence": f.sentence} for f in done.findings]
            text += _members({"findings": seen})
        failure = done.failure
        head = None
        if failure is None and done.outputs is not None:
            outputs = {"outputs/" + name: array for name, array in done.outputs.items()}
            if done.again:
                outputs.update(("again/" + name, array) for name, array in done.again.items())
            if expected:
                outputs.update(("expected/" + name, array) for name, array in expected.items())
            try:
                head = _parts.image_head({**tensors, **outputs})
                tensors.update(outputs)
            except ClientError as exc:  # a type that the engine does not know
                failure = Failure("wrong_dtype", exc.message, exc.hint)
        if tensors:
            begin, end = self._write(tensors, *(head or _parts.image_head(tensors)))
            text += f',"bytes":[{begin},{end}]{self._path}'
        if failure is not None:
            why = {"reason": failure.reason, "message": failure.message, "hint": failure.hint, "trace": failure.trace}
            text += _members({"failure": why})
        self._parts.append(_parts.part_text(text + "}", 0))

    def _write(self, tensors: dict[str, _parts.Array], head: bytes, size: int) -> tuple[int, int]:
        """Writes an image behind the last one; returns where it begins and ends."""
        begin = -(-self._end // 64) * 64
        at = begin + len(head)
        end = at + size
        if end > self._memory.size:
            self._memory = self._shared.view(-(-end // GRAIN) * GRAIN)
        self._memory[begin:at] = np.frombuffer(head, np.uint8)
        for array in tensors.values():
            self._memory[at : at + array.nbytes] = _parts.flat_array(array)
            at += array.nbytes
        self._end = end
        return begin, end

    def send(self, transport: Transport) -> list[ValidationResult]:
        """Sends everything and returns the verdicts in order."""
        return [parse_result(raw) for raw in self._send(transport)]

    def judged(self, transport: Transport) -> list[ValidationResult | None]:
        """send, with None for cases that passed where brief answers are wanted: nobody looks at them."""
        results = self._send(transport)
        return [None if self._brief and raw["verdict"] == "pass" else parse_result(raw) for raw in results]

    def _send(self, transport: Transport) -> list[dict[str, Any]]:
        body = b"".join(self._parts) + struct.pack("<I", 0)
        reply = json.loads(transport.read(transport.request("POST", "/v1/submissions", body, SUBMISSION_TYPE)))
        for entry in reply["results"]:
            raise_error(entry)
        return [entry["result"] for entry in reply["results"]]


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
    executions: list[Execution] = field(default_factory=list)


class Loop:
    """Runs a Plan."""

    def __init__(self, transport: Transport, plan: Plan) -> None:
        self._transport = transport
        self._plan = plan
        self._inputs = [SharedFile() for _ in range(IN_FLIGHT + 2)]
        self._outputs = [SharedFile() for _ in range(IN_FLIGHT + 1)]
        self._results = FuzzResults(plan.seed, 0, 0, 0)
        self._stopped = False
        self._ran = self._judged = 0.0  # seconds a case of the last batch took here, and in the engine
        self._bar = Progress(plan.label, plan.iterations, plan.progress)

    def run(self) -> FuzzResults:
        """Runs all cases, or up to the first failure with fail_fast."""
        start = time.monotonic()
        # One thread fetches, the others submit. They wait for the socket most of the time.
        with ThreadPoolExecutor(1 + IN_FLIGHT, "gpuemu") as pool:
            try:
                self._run(pool)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
                self._bar.close()
                for shared in (*self._inputs, *self._outputs):
                    shared.close()
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
            own_schema = "schema" in self._plan.request
            submission = Submission(self._outputs[number % len(self._outputs)], common, own_schema)
            for case in cases:
                done = self._plan.run(self._plan.kernel, case)
                expected = self._plan.reference(case) if self._plan.reference and done.outputs is not None else None
                submission.add(case, done, expected)
                if self._plan.on_result is None:
                    done.outputs = done.again = None  # they are in the shared file now
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
        for case, done, result in zip(batch.cases, batch.executions, results):
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
                self._plan.on_result(case, done, result)
            if result.verdict in ("fail", "error") and self._plan.fail_fast:
                self._stopped = True
                break
        self._bar.update(res.total, res.failed)

    def _complete(self, result: ValidationResult, case: Case) -> None:
        """Adds to a failure what only this side knows: strides, the options of the run, and inputs that are small."""
        info = result.repro_info
        if info is None:
            return
        info.fuzz_config = {k: v for k, v in self._plan.request.items() if k != "config"}
        if case.inputs:
            info.strides = case.inputs[0].strides
        if sum(v.storage.size for v in case.inputs) <= MAX_SNAPSHOT:
            info.input_snapshot = {v.name: snapshot(v) for v in case.inputs}

"""The guard: runs a kernel on one case and watches its memory.

Every input and every output that the guard allocates lies between red zones, bytes of a known pattern. After the run
the inputs and all red zones are compared bit for bit with what they were. Outputs are filled with a pattern before the
run. An element that still has it may be chance; so the case runs once more with another pattern, and what followed the
pattern was not written.

The patterns of floats around tensors are NaN: a kernel that reads where it must not has NaN in its result, not luck.
Those of inputs and outputs differ: a kernel that copies beyond the end of both is seen. Outputs hold NaN before every
second case and large numbers before the others, because a maximum ignores NaN; a second execution has the other
pattern. The guard reports; it judges nothing.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from gpuemu import _calling
from gpuemu import arrays as array_kinds
from gpuemu._case import Case, Execution, Failure, Finding, Form, OutputSpec, View
from gpuemu._exceptions import describe, missing_package
from gpuemu.arrays import (
    ALIGNMENT,
    ITEM_SIZES,
    Arrays,
    Refusal,
    aligned_bytes,
    array_class,
    contiguous_strides,
    name_of,
    numpy_dtype,
)
from gpuemu.emulation import EmulationError, EmulationFinding, collecting

if TYPE_CHECKING:
    NDArray = np.ndarray[Any, Any]
else:
    NDArray = np.ndarray

RED_ZONE = 256  # bytes before and after each buffer; after it up to the next multiple of 256 more
MAX_TRACE = 16 << 10  # characters of a traceback that are kept: the end tells most
KEPT_MEMORY = 16 << 20  # bytes; half of what the C library keeps between cases
CHUNK = 256 << 10  # bytes got at once for small cases: it stays in a second-level cache
SMALL = 64 << 10  # bytes of inputs and zones that are kept twice: one comparison for all is worth it below this
COMPARE_BLOCK = 1 << 15  # words compared at once: 256 KiB of each side fit into a second-level cache
TRIED = 8  # cases on which a kernel that has not run yet is called in other ways
_NEW_PROCESS = "a device context does not recover from this: fix the kernel, then start a new process"
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep

# dtype: bits of an element in the red zones of inputs, in those of outputs, and the two that outputs hold before a run.
# Floats have quiet NaN with a payload (float8: the NaN that there are), so that nothing computed has them, and at last
# a large number.
_PATTERNS = {
    "float64": (0x7FF8A5A5A5A5A5A5, 0x7FF85A5A5A5A5A5A, 0x7FF8C3C3C3C3C3C3, 0x7E3C3C3C3C3C3C3C),
    "float32": (0x7FE5A5A5, 0x7FDA5A5A, 0x7FC3C3C3, 0x7E3C3C3C),
    "float16": (0x7FA5, 0x7F5A, 0x7EC3, 0x783C),
    "bfloat16": (0x7FE5, 0x7FDA, 0x7FC3, 0x7E3C),
    "float8_e4m3fn": (0x7F, 0xFF, 0x7F, 0x7C),
    "float8_e5m2": (0x7E, 0xFE, 0x7D, 0x79),
}
_BYTES = (0xA5, 0x5A, 0xC3, 0x3C)  # the same for all other dtypes
_BITS: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4"), 8: np.dtype("<u8")}


def _pattern(dtype: str, which: int) -> Any:
    bits = _BITS[ITEM_SIZES[dtype]]
    value = _PATTERNS[dtype][which] if dtype in _PATTERNS else int.from_bytes([_BYTES[which]] * bits.itemsize, "little")
    return bits.type(value)


class _Zone:
    """The pattern of the red zones around buffers of one dtype."""

    def __init__(self, dtype: str, which: int) -> None:
        bits = _BITS[ITEM_SIZES[dtype]]
        self.array = np.full(2 * RED_ZONE // bits.itemsize, _pattern(dtype, which), bits).view(np.uint8)
        self.before = self.array[:RED_ZONE]
        self.bytes = self.array.tobytes()
        self.before_bytes = self.bytes[:RED_ZONE]


_INPUT_ZONES = {dtype: _Zone(dtype, 0) for dtype in ITEM_SIZES}
_OUTPUT_ZONES = {dtype: _Zone(dtype, 1) for dtype in ITEM_SIZES}
_POISON = {dtype: (_pattern(dtype, 2), _pattern(dtype, 3)) for dtype in ITEM_SIZES}

# dtype: an element of the red zones of inputs, hexadecimal. The engine lays the inputs of a batch out with them.
INPUT_PATTERNS = {dtype: zone.bytes[: ITEM_SIZES[dtype]].hex() for dtype, zone in _INPUT_ZONES.items()}

# Where one tensor lies in the memory of all: its first byte, the one behind its last, the end of the zone behind it.
_Place = tuple[int, int, int]


def _places(sizes: Iterable[int]) -> list[_Place]:
    places, at = [], 0
    for size in sizes:
        start = at + RED_ZONE
        end = start + size
        at = -(-end // ALIGNMENT) * ALIGNMENT + RED_ZONE
        places.append((start, end, at))
    return places


class _Memory:
    """Memory of the host, handed out piece by piece. None is handed out twice; a chunk goes when its pieces are gone.

    What a kernel writes behind its own piece is memory that is still to be handed out, and filled then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chunk = aligned_bytes(0)
        self._at = CHUNK  # the first byte that is free

    def take(self, size: int) -> NDArray:
        """Fresh bytes, not initialised, aligned to ALIGNMENT."""
        if size > CHUNK // 4:
            return aligned_bytes(size)
        with self._lock:
            at = self._at
            end = at + size
            if end > CHUNK:
                self._chunk, at, end = aligned_bytes(CHUNK), 0, size
            self._at = -(-end // ALIGNMENT) * ALIGNMENT
            return self._chunk[at:end]


call_attrs = _calling.accepted


def _trace(exc: BaseException) -> str:
    """The traceback without the frames of this package."""
    try:
        whole = traceback.TracebackException.from_exception(exc)
        whole.stack = traceback.StackSummary.from_list([f for f in whole.stack if not f.filename.startswith(_OWN)])
        return "".join(whole.format())[-MAX_TRACE:]
    except Exception as fault:  # a __str__ or __repr__ of the user's that raises
        return f"(no traceback: showing it raised {type(fault).__name__})"


def _kernel_name(kernel: object) -> str:
    name = getattr(kernel, "__name__", None) or type(kernel).__name__
    return "the kernel" if name == "<lambda>" else str(name)


def _of_emulator(found: list[EmulationFinding]) -> list[Finding]:
    """What the emulator found, each kind and place once."""
    return list({(f.kind, f.line, f.ptx_line): Finding(f.kind, "", f.sentence) for f in reversed(found)}.values())[::-1]


class Guard:
    """Runs kernels, case after case.

    outputs says who makes the outputs: "returned" by the kernel, kernel(inputs, **attrs), or "allocated" by the guard,
    kernel(inputs, outputs, **attrs), whose return value is ignored. A kernel with parameters of the names of all arrays
    gets each by its name (see _calling). With repeat each case is executed twice and the
    engine compares. With lend, outputs may be the kernel's own arrays, which it may write to when it runs again: for a
    caller that copies them at once. `broken` says why no further case can run, once a kernel has left the device
    unusable.

    With adapt nobody has said whose arrays the kernel gets. It is given those of `arrays`, and where it raises on them
    before it has run on any case, those of the frameworks that are loaded: the first that it runs on it gets from then
    on. One that runs and returns tensors of torch gets tensors, if it runs on them, too: methods of both kinds of
    arrays have the meaning that torch gives them.
    """

    def __init__(
        self, arrays: Arrays, outputs: str = "returned", repeat: bool = False, lend: bool = False, adapt: bool = False
    ) -> None:
        if outputs not in ("returned", "allocated"):
            raise ValueError(f'outputs is {outputs!r}, want "returned" or "allocated"')
        if outputs == "allocated" and not arrays.strided:
            raise ValueError(f'{arrays.framework} arrays cannot be written to: use outputs="returned"')
        self.arrays, self.outputs, self.repeat = arrays, outputs, repeat
        self.broken: str | None = None
        self._memory = _Memory()
        self._lend = lend and not repeat
        self._kernel: Callable[..., Any] | None = None
        self._takes: frozenset[str] | None = None
        self._name = ""
        self._by_name = False
        self._adapt = adapt
        self._untried = 0  # cases on which other ways to call the kernel are still tried
        self._exception: Exception | None = None  # what the kernel raised on the last case
        self._tensors = False  # it returned tensors of torch on the last case
        if arrays.on_host:
            # The C library of Linux keeps freed memory up to twice the size of the largest block it has unmapped.
            # Without this line the arrays of each case would get their pages from the kernel anew.
            bytearray(KEPT_MEMORY)

    def run(self, kernel: Callable[..., Any], case: Case) -> Execution:
        """Executes one case. What the kernel does wrong is in the Execution; only KeyboardInterrupt passes through."""
        if kernel is not self._kernel:
            self._learn(kernel, case)
        if self.broken is not None:
            return Execution(None, failure=Failure("unsupported", "not run: " + self.broken, _NEW_PROCESS))
        return self._adapted(case) if self._untried else self._executed(case)

    def _executed(self, case: Case) -> Execution:
        try:
            return self._run(case)
        except Refusal as refusal:
            return Execution(None, findings=refusal.findings, failure=refusal.failure)

    def _adapted(self, case: Case) -> Execution:
        """Executes a case, in other ways where the kernel does not run in the one that comes first."""
        self._untried -= 1
        plain, self._exception, self._tensors = (self.arrays, self._by_name), None, False
        done = self._executed(case)
        raised, tensors = self._exception, self._tensors
        if raised is None and not tensors:
            self._untried = 0
            return done
        for arrays, named in self._ways(raised):
            self.arrays, self._by_name = arrays, named
            self._takes = self._attributes(named)
            other = self._executed(case)
            if other.failure is None and self.broken is None:
                self._untried = 0
                if raised is not None and arrays is not plain[0] and not _calling.misses(raised, arrays.framework):
                    warnings.warn(
                        f"{self._name} raised {describe(raised)} on arrays of NumPy and runs on those of "
                        f"{arrays.framework}: it gets these; framework={arrays.framework!r} says so", stacklevel=2,
                    )  # fmt: skip
                return other
        self.arrays, self._by_name = plain
        self._takes = self._attributes(plain[1])
        if raised is None:
            self._untried = 0
        return done

    def _ways(self, raised: Exception | None) -> Iterator[tuple[Arrays, bool]]:
        """Other ways to call the kernel than that in which it raised, or in which it returned tensors."""
        ways = [self._by_name]
        if raised is not None and self._by_name and len(self._arrays_by_name) == 1:
            ways.append(False)  # a parameter for the dict that has the name of the only array
        plain = self.arrays
        yield from ((plain, named) for named in ways[1:])
        if not self._adapt or not isinstance(raised, (AttributeError, TypeError, ValueError, IndexError, type(None))):
            return
        loaded = [name for name in _calling.TENSORS if name in sys.modules and (raised is not None or name == "torch")]
        for name in sorted(loaded, key=lambda name: raised is not None and not _calling.misses(raised, name)):
            try:
                made = array_kinds.arrays(name, "cpu" if name == "torch" else None)  # functions of torch run there, too
            except Exception:  # a framework that is loaded and has no device
                continue
            if made.strided or self.outputs == "returned":
                yield from ((made, named) for named in ways)

    def _attributes(self, named: bool) -> frozenset[str] | None:
        assert self._kernel is not None
        if named:
            return _calling.accepted(self._kernel, 0, self._arrays_by_name)
        return _calling.accepted(self._kernel, 2 if self.outputs == "allocated" else 1)

    def _learn(self, kernel: Callable[..., Any], case: Case) -> None:
        wanted = getattr(kernel, "gpuemu_outputs", self.outputs)
        if wanted != self.outputs:
            raise ValueError(f'{_kernel_name(kernel)} wants outputs="{wanted}", the guard has "{self.outputs}"')
        known = self._kernel is not None and _calling.underlying(self._kernel) is _calling.underlying(kernel)
        self._kernel = kernel
        if not known:  # else a method of another instance, say, of which all of this is known
            written = [spec.name for spec in case.outputs or []] if self.outputs == "allocated" else []
            self._arrays_by_name = [view.name for view in case.inputs] + written
            self._by_name = _calling.by_name(kernel, self._arrays_by_name)
            self._untried = TRIED if self._adapt or self._by_name else 0
        self._takes = self._attributes(self._by_name)
        self._name = _kernel_name(kernel)

    def _run(self, case: Case) -> Execution:
        specs = case.outputs or []
        for spec in specs:
            numpy_dtype(spec.dtype)  # before the kernel has run for nothing
        if self.outputs == "allocated" and (not specs or any(spec.shape is None for spec in specs)):
            raise Refusal(
                "unsupported",
                f"outputs of {case.op} cannot be allocated: its schema does not say their shapes",
                'use outputs="returned", or declare the outputs of the op',
            )
        attrs = case.attrs
        if self._takes is not None and attrs:
            attrs = {k: v for k, v in attrs.items() if k in self._takes}
        inputs = _Inputs(self.arrays, case, self._memory)
        first = case.index % 2  # which of the two patterns
        run = self._once(inputs, specs, attrs, first)
        findings = run.findings
        try:
            other = self._once(inputs, specs, attrs, 1 - first) if run.suspects else None
            second = self._once(inputs, specs, attrs, 1 - first) if self.repeat else None
        except Refusal as refusal:
            refusal.findings = findings + refusal.findings  # what was seen before stays true
            raise
        if other is not None:
            findings += _unwritten(specs, run, other, first)
        again = None
        if second is not None:
            again = second.outputs
            if again.keys() != run.outputs.keys():
                what = f"{self._name} returned the outputs {list(run.outputs)}, and {list(again)} when run once more"
                raise Refusal("wrong_outputs", what, "return the same outputs for the same inputs")
            seen = {(f.kind, f.name) for f in findings}
            findings += [f for f in second.findings if (f.kind, f.name) not in seen]
        return Execution(run.outputs, again, findings, None, run.time_ns)

    def _once(self, inputs: _Inputs, specs: list[OutputSpec], attrs: dict[str, Any], poison: int) -> _Run:
        """One execution with fresh memory."""
        allocated = None
        try:
            given = inputs.fresh()
            if self.outputs == "allocated":
                allocated = _Outputs(self.arrays, specs, poison, self._memory)
        except (MemoryError, RuntimeError, TypeError, ValueError) as exc:  # no memory on the device, or no such dtype
            what = (
                f"{self.arrays.framework} on {self.arrays.device} cannot hold the tensors of the case: {describe(exc)}"
            )
            raise Refusal("unsupported", what, "choose smaller shapes or other dtypes", _trace(exc)) from exc
        args: tuple[Any, ...] = (given,) if allocated is None else (given, allocated.given)
        if self._by_name:
            attrs = {**given, **({} if allocated is None else allocated.given), **attrs}
            args = ()
        emulated: list[EmulationFinding] = []
        before = collecting.set(emulated)
        try:
            result, spent = self._call(args, attrs)
        except Refusal as refusal:
            if refusal.failure.reason == "raised":  # what was overwritten may be the cause
                refusal.findings = inputs.changes() + (allocated.examine()[1] if allocated else [])
                refusal.findings += _of_emulator(emulated)
            raise
        finally:
            collecting.reset(before)
        seen = inputs.changes()
        if emulated:
            seen += _of_emulator(emulated)
        if allocated is None:
            if self._untried and self._adapt:
                self._tensors = self.arrays.framework == "numpy" and _calling.has_tensors(result)
            return _Run(self._named(result, specs), seen, spent, [])
        outputs, overruns, suspects = allocated.examine()
        return _Run(outputs, seen + overruns, spent, suspects)

    def _call(self, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Any, int]:
        assert self._kernel is not None
        start = time.perf_counter_ns()
        try:
            with self.arrays.scope():
                result = self._kernel(*args, **attrs)
        except (KeyboardInterrupt, Refusal):
            raise
        except BaseException as exc:
            raise self._raised(exc, "") from None
        try:
            self.arrays.synchronise(None if self.outputs == "allocated" else result)
        except Exception as exc:
            raise self._raised(exc, ", reported at synchronisation") from None
        return result, time.perf_counter_ns() - start

    def _raised(self, exc: BaseException, where: str) -> Refusal:
        """What an exception in the kernel means for this case and for those that follow."""
        trace = _trace(exc)
        if isinstance(exc, ModuleNotFoundError) and exc.name:
            return Refusal("missing_package", *missing_package(self._name, exc), trace)
        if isinstance(exc, EmulationError) and exc.result.error is not None:
            return Refusal("unsupported", f"{self._name}: {describe(exc)}", "", trace)
        if isinstance(exc, SystemExit):
            return Refusal("raised", f"{self._name} called sys.exit({exc.code!r})", "", trace)
        lost = self._device_lost()
        if lost:
            self.broken = f"{self._name} left the device unusable in an earlier case: {describe(exc)}"
            return Refusal("crashed", f"{self._name} crashed the device: {describe(exc)}{where}", _NEW_PROCESS, trace)
        hint = ""
        if isinstance(exc, TypeError) and self.outputs == "returned" and "outputs" in (self._takes or ()):
            hint = 'a kernel that writes into its argument outputs needs outputs="allocated"'
        elif self.arrays.framework == "numpy":
            wanted = [name for name in _calling.TENSORS if _calling.misses(exc, name)]
            hint = f'framework="{wanted[0]}" gives it arrays of {wanted[0]}' if wanted else ""
        if isinstance(exc, Exception):
            self._exception = exc
        return Refusal("raised", f"{self._name} raised {describe(exc)}{where}", hint, trace)

    def _device_lost(self) -> bool:
        """Whether the device still refuses all work. Asked twice: an error of one launch is told once and forgotten."""
        for _ in range(2):
            try:
                self.arrays.probe()
                return False
            except Exception:
                continue  # the error that follows from the first is not told: the first was
        return True

    def _named(self, result: object, specs: list[OutputSpec]) -> dict[str, NDArray]:
        """What the kernel returned, by name, in order."""
        names = [spec.name for spec in specs]
        if isinstance(result, dict):
            if not result:
                raise Refusal("wrong_outputs", f"{self._name} returned an empty dict", "return " + ", ".join(names))
            return {str(k): self._array(str(k), v) for k, v in result.items()}
        if isinstance(result, list) and any(hasattr(v, "__array__") or hasattr(v, "__dlpack__") for v in result):
            result = tuple(result)
        if not isinstance(result, tuple):
            if len(names) > 1:
                raise Refusal(
                    "wrong_outputs",
                    f"{self._name} returned one {type(result).__name__}, want {len(names)} outputs",
                    "return a dict or a tuple of " + ", ".join(names),
                )
            name = names[0] if names else "output"
            return {name: self._array(name, result)}
        if not names:
            names = ["output"] if len(result) == 1 else [f"output{i}" for i in range(len(result))]
        if len(result) != len(names):
            raise Refusal(
                "wrong_outputs",
                f"{self._name} returned a tuple of {len(result)}, want {len(names)} outputs",
                "return " + ", ".join(names),
            )
        return {name: self._array(name, value) for name, value in zip(names, result)}

    def _array(self, name: str, value: object) -> NDArray:
        """One output as numpy, of one of the engine's dtypes."""
        if self._lend and type(value) is np.ndarray and value.flags.c_contiguous and name_of(value.dtype) is not None:
            return value
        if value is None:
            raise Refusal(
                "bad_reply",
                f"{self._name} returned None as {name}",
                'return an array, or use outputs="allocated" if the kernel writes into arrays it is given',
            )
        try:
            array = self.arrays.to_numpy(value)
        except (KeyboardInterrupt, Refusal):
            raise
        except BaseException as exc:
            kind = type(value).__name__
            raise Refusal(
                "bad_reply",
                f"{self._name} returned a {kind} as {name}, which is no array: {describe(exc)}",
                "return an array",
                _trace(exc),
            ) from exc
        if name_of(array.dtype) is not None:
            return array
        reason, what = ("wrong_dtype", array.dtype.name) if array.dtype.kind in "fciu" else ("bad_reply", "no number")
        raise Refusal(
            reason,
            f"{self._name} returned {name} of type {type(value).__name__} ({what})",
            "return an array of " + ", ".join(ITEM_SIZES),
        )


class _Run:
    """What one execution gave. suspects: names of outputs with elements that still have their pattern."""

    __slots__ = ("findings", "outputs", "suspects", "time_ns")

    def __init__(
        self, outputs: dict[str, NDArray], findings: list[Finding], time_ns: int, suspects: list[str]
    ) -> None:
        self.outputs, self.findings, self.time_ns, self.suspects = outputs, findings, time_ns, suspects


class _Inputs:
    """The inputs of one case: fresh arrays for each execution, and what was done to them.

    On a device a pristine copy stays beside them, so that the comparison happens there and one bool comes back.
    """

    def __init__(self, arrays: Arrays, case: Case, memory: _Memory) -> None:
        self.arrays, self.case, self.memory = arrays, case, memory
        self.places: list[_Place] = []
        self.block: NDArray | None = None  # all of it as it is to be, where the engine has laid it out
        if arrays.strided:
            if case.form is not None:
                self.places, self.block = case.form.places, case.block
            else:
                self.places = _places([view.storage.size for view in case.inputs])
        self.pristine: Any = None
        self.buffer: Any = None
        self.sent: bytes | None = None  # the memory as it was, where it is small

    def fresh(self) -> dict[str, Any]:
        arrays = self.arrays
        if not arrays.strided:
            return {v.name: arrays.view(v.storage, v.dtype, v.shape, v.strides, v.offset) for v in self.case.inputs}
        if arrays.on_host:
            self.host = self._laid_out()
            self.buffer = arrays.upload(self.host)
        else:
            if self.pristine is None:
                self.pristine = arrays.upload(self._laid_out())
            self.buffer = arrays.clone(self.pristine)
        if self.case.form is not None and type(arrays) is Arrays:
            return _numpy_views(self.case.form, self.buffer)
        given = {}
        for view, (start, _, _) in zip(self.case.inputs, self.places):
            offset = start // ITEM_SIZES[view.dtype] + view.offset
            given[view.name] = arrays.view(self.buffer, view.dtype, view.shape, view.strides, offset)
        return given

    def _laid_out(self) -> NDArray:
        host = self.memory.take(self.places[-1][2] if self.places else 0)
        if self.block is not None:
            host[:] = self.block
            return host
        if 0 < host.size <= SMALL:
            if self.sent is None:
                self.sent = self._image()
            host[:] = np.frombuffer(self.sent, np.uint8)
            return host
        for view, (start, end, stop) in zip(self.case.inputs, self.places):
            zone = _INPUT_ZONES[view.dtype]
            host[start - RED_ZONE : start] = zone.before
            host[start:end] = view.storage
            host[end:stop] = zone.array[: stop - end]
        return host

    def _image(self) -> bytes:
        """All storages between their zones."""
        pieces: list[bytes | memoryview] = []
        for view, (_, end, stop) in zip(self.case.inputs, self.places):
            zone = _INPUT_ZONES[view.dtype]
            pieces += (zone.before_bytes, view.storage.data, zone.bytes[: stop - end])
        return b"".join(pieces)

    def _unchanged(self) -> bool:
        """Whether the memory of the host is as it was, in one comparison; False also where it takes several."""
        if self.block is not None:
            # A bytearray is compared with any memory, and several times as fast as arrays are, unless they are large.
            return self.host.size <= SMALL and bytearray(self.block) == self.host
        return self.sent is not None and self.host.tobytes() == self.sent

    def changes(self) -> list[Finding]:
        """What differs from what was sent. Arrays that cannot be written to are not looked at."""
        if not self.places or (self.arrays.on_host and self._unchanged()):
            return []
        if not self.arrays.on_host:
            if self.arrays.same(self.buffer, self.pristine):
                return []
            self.host = self.arrays.download(self.buffer)
        findings: list[Finding] = []
        for view, place in zip(self.case.inputs, self.places):
            got = self.host[place[0] : place[1]]
            if _differs(got, view.storage):
                findings.append(Finding("input_modified", view.name, _modified(view, got)))
            findings += _overruns("input", view.name, _INPUT_ZONES[view.dtype], self.host, place)
        return findings


def _numpy_views(form: Form, block: NDArray) -> dict[str, NDArray]:
    """What Arrays.view makes of the inputs in a block, in a fraction of the time."""
    views = form.numpy_views
    if views is None:
        views = form.numpy_views = []
        for (name, dtype, shape, strides, offset), (start, _, _) in zip(form.views, form.places):
            kind = numpy_dtype(dtype)
            size = kind.itemsize
            views.append((name, shape, kind, start + offset * size, tuple(s * size for s in strides)))
    cls, given = array_class(), {}
    for name, shape, kind, offset, strides in views:
        given[name] = cls(shape, kind, block, offset, strides)
    return given


class _Outputs:
    """Outputs that the guard allocates, filled with a pattern."""

    def __init__(self, arrays: Arrays, specs: list[OutputSpec], poison: int, memory: _Memory) -> None:
        self.arrays, self.specs, self.poison = arrays, specs, poison
        self.shapes = [spec.shape or () for spec in specs]
        counts = [math.prod(shape) for shape in self.shapes]
        self.places = _places([n * ITEM_SIZES[spec.dtype] for n, spec in zip(counts, specs)])
        self.host = memory.take(self.places[-1][2] if self.places else 0)
        for spec, (start, end, stop) in zip(specs, self.places):
            zone = _OUTPUT_ZONES[spec.dtype]
            self.host[start - RED_ZONE : start] = zone.before
            self._bits(spec, start, end).fill(_POISON[spec.dtype][poison])
            self.host[end:stop] = zone.array[: stop - end]
        self.buffer = arrays.upload(self.host)
        self.given = {
            spec.name: arrays.view(
                self.buffer, spec.dtype, shape, contiguous_strides(shape), start // ITEM_SIZES[spec.dtype]
            )
            for spec, shape, (start, _, _) in zip(specs, self.shapes, self.places)
        }

    def _bits(self, spec: OutputSpec, start: int, end: int) -> NDArray:
        return self.host[start:end].view(_BITS[ITEM_SIZES[spec.dtype]])

    def examine(self) -> tuple[dict[str, NDArray], list[Finding], list[str]]:
        """The outputs, what was written beside them, and the names of those where the pattern is still to be seen."""
        if not self.arrays.on_host:
            self.host = self.arrays.download(self.buffer)
        outputs, findings, suspects = {}, [], []
        for spec, shape, place in zip(self.specs, self.shapes, self.places):
            findings += _overruns("output", spec.name, _OUTPUT_ZONES[spec.dtype], self.host, place)
            bits = self._bits(spec, place[0], place[1])
            if (bits == _POISON[spec.dtype][self.poison]).any():
                suspects.append(spec.name)
            outputs[spec.name] = bits.view(numpy_dtype(spec.dtype)).reshape(shape)
        return outputs, findings, suspects


def _unwritten(specs: list[OutputSpec], first: _Run, second: _Run, which: int) -> list[Finding]:
    """Elements that had one pattern, which, after the first run and the other after the second."""
    findings = []
    for spec in specs:
        if spec.name not in first.suspects or spec.name not in second.suspects:
            continue
        bits = _BITS[ITEM_SIZES[spec.dtype]]
        patterns = _POISON[spec.dtype]
        got = first.outputs[spec.name]
        left = (got.view(bits) == patterns[which]) & (second.outputs[spec.name].view(bits) == patterns[1 - which])
        count = int(np.count_nonzero(left))
        if count == 0:
            continue
        if spec.dtype == "bool":
            got.view(bits)[left] = 0  # a bool has no third value; the finding tells what was there
        index = [int(i) for i in np.unravel_index(int(left.argmax()), left.shape)]
        findings.append(
            Finding(
                "not_fully_written",
                spec.name,
                f"{count} of {left.size} elements of output {spec.name} were not written "
                f"(or only updated from what was there before), the first at {index}",
            )
        )
    return findings


def _seen(storage: NDArray, view: View, dtype: np.dtype[Any]) -> NDArray:
    """The elements of a view in some storage, as any dtype of the same size."""
    size = dtype.itemsize
    seen: NDArray = np.ndarray(view.shape, dtype, storage, view.offset * size, [s * size for s in view.strides])
    return seen


def _differs(got: NDArray, want: NDArray) -> bool:
    words = got.size & ~7  # eight bytes at a time, and the rest
    if words < got.size and (got[words:] != want[words:]).any():
        return True
    got, want = got[:words].view(np.uint64), want[:words].view(np.uint64)
    for at in range(0, got.size, COMPARE_BLOCK):
        if not (got[at : at + COMPARE_BLOCK] == want[at : at + COMPARE_BLOCK]).all():
            return True
    return False


def _modified(view: View, got: NDArray) -> str:
    bits = _BITS[ITEM_SIZES[view.dtype]]
    changed = _seen(got, view, bits) != _seen(view.storage, view, bits)
    count = int(np.count_nonzero(changed))
    if count:
        index = [int(i) for i in np.unravel_index(int(changed.argmax()), changed.shape)]
        return f"{count} of {changed.size} elements of input {view.name} were changed, the first at {index}"
    gaps = np.flatnonzero(got.view(bits) != view.storage.view(bits))
    return (
        f"{gaps.size} elements in the gaps of input {view.name}, which no index reaches, were changed, "
        f"the first is element {int(gaps[0])} of its storage"
    )


def _overruns(kind: str, name: str, zone: _Zone, host: NDArray, place: _Place) -> list[Finding]:
    """What was written to the red zones of one tensor."""
    start, end, stop = place
    findings = []
    before, after = host[start - RED_ZONE : start], host[end:stop]
    if before.tobytes() != zone.before_bytes:
        at = np.flatnonzero(before != zone.before)
        first = f"{RED_ZONE - int(at[0])} bytes before its start"
        findings.append(f"{at.size} bytes before {kind} {name} were overwritten, the first {first}")
    if after.tobytes() != zone.bytes[: stop - end]:
        at = np.flatnonzero(after != zone.array[: stop - end])
        first = f"{int(at[0])} bytes past its end"
        findings.append(f"{at.size} bytes after {kind} {name} were overwritten, the first {first}")
    return [Finding("overrun", name, sentence) for sentence in findings]

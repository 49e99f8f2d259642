"""Launches kernels of the corpus on arrays of a case: on a GPU, or for a dry run in the emulator.

The guard of the client makes inputs and outputs; a Launcher gives it the function that it calls.
"""

from __future__ import annotations

import math
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol, Union

import launches
import numpy as np
from corpus_files import Corpus, Subject
from driver import Driver, DriverError
from launches import Launch, Room, Tensor

from gpuemu import Client
from gpuemu._case import Case
from gpuemu.arrays import ITEM_SIZES, Refusal, contiguous_strides
from gpuemu.emulation import EmulationFinding, collecting, settle

HANG = 10.0  # seconds; the slowest launch of a correct kernel takes milliseconds
ZONE = 256  # bytes on both sides of memory beside the tensors
BUDGET = 1 << 28  # instructions of warps in a dry run; beyond it a kernel hangs
UNKNOWN = 0xA5  # what fresh memory has in every byte

Array = Any
Value = Union[Array, bytes, Room]  # of a parameter


class Backend(Protocol):
    """Who executes launches: whose arrays it takes, and how."""

    framework: str
    device: str

    def load(self, ptx: str, entry: str, shared: int) -> Any:
        """A kernel, ready to be launched."""

    def launch(self, kernel: Any, launch: Launch, values: list[Value]) -> None:
        """Executes a launch to its end."""

    def dense(self, array: Array) -> Array:
        """A copy without gaps."""

    def bits(self, array: Array) -> bytes:
        """What an array holds, element after element."""


class Gpu:
    """The GPU through the driver, on tensors of PyTorch. library stands in for the driver's where it is given."""

    framework, device = "torch", "cuda"

    def __init__(self, library: Any = None) -> None:
        import torch

        self._torch: Any = torch
        torch.zeros(1, device=self.device)  # PyTorch makes the context that the driver then finds
        self._driver = Driver(library)
        self._modules: list[Any] = []

    def load(self, ptx: str, entry: str, shared: int) -> Any:
        module = self._driver.load(ptx.encode())
        self._modules.append(module)
        return self._driver.function(module, entry, shared)

    def forget(self) -> None:
        """Unloads what was loaded: the modules of some hundred mutants are of no use to the next."""
        while self._modules:
            self._driver.unload(self._modules.pop())

    def wait(self) -> None:
        """Raises where the device does not answer any more."""
        self._driver.wait()

    def launch(self, kernel: Any, launch: Launch, values: list[Value]) -> None:
        rooms, args = [], []
        for value in values:
            if isinstance(value, Room):
                room = self._torch.full((value.size + 2 * ZONE,), UNKNOWN, dtype=self._torch.uint8, device=self.device)
                if value.zeros:
                    room[ZONE : ZONE + value.size] = 0
                rooms.append(room)  # it lives until the kernel has ended
                args.append(int(room.data_ptr() + ZONE).to_bytes(8, "little"))
            elif isinstance(value, bytes):
                args.append(value)
            else:
                args.append(int(value.data_ptr()).to_bytes(8, "little"))
        try:
            self._driver.launch(kernel, launch.grid, launch.block, launch.shared, args)
        except DriverError as exc:  # it never ran: nothing is known of what it computes
            raise Refusal("unsupported", f"the driver refuses the launch: {exc}") from None
        with Watch(HANG):
            self._driver.wait()

    def dense(self, array: Array) -> Array:
        return array.contiguous()

    def bits(self, array: Array) -> bytes:
        flat = array.contiguous().reshape(-1).view(self._torch.uint8)
        data: bytes = flat.cpu().numpy().tobytes()
        return data


class Emulator:
    """The emulator of the engine, on arrays of numpy: a dry run.

    With checks = "none" it sees as little as a GPU does: what lies around the tensors is memory like any other.
    """

    framework, device = "numpy", "cpu"

    def __init__(self, client: Client, checks: str = "none") -> None:
        self._client, self._checks = client, checks

    def load(self, ptx: str, entry: str, shared: int) -> Any:
        return ptx, entry

    def launch(self, kernel: Any, launch: Launch, values: list[Value]) -> None:
        ptx, entry = kernel
        args = []
        for value in values:
            if isinstance(value, Room):
                args.append(np.full(value.size, 0 if value.zeros else UNKNOWN, np.uint8))
            elif isinstance(value, bytes):
                args.append(np.frombuffer(value, f"<u{len(value)}")[0])
            else:
                args.append(value)
        bounds = "storage" if self._checks == "none" else "view"
        settle(self._client.emulate(ptx, entry, grid=launch.grid, block=launch.block, args=args, shared=launch.shared,
                                    checks=self._checks, bounds=bounds, budget=BUDGET))  # fmt: skip

    def dense(self, array: Array) -> Array:
        return np.ascontiguousarray(array)

    def bits(self, array: Array) -> bytes:
        data: bytes = array.tobytes()
        return data


class Watch:
    """Ends the process where the body takes longer than so many seconds: nothing else ends a kernel that hangs."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer = threading.Timer(seconds, self._end)

    def _end(self) -> None:
        print(f"hang: the kernel did not end within {self._seconds:.0f} s", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def __enter__(self) -> None:
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


class Launcher:
    """Launches one subject on cases. schema: the names of the op's inputs, and expressions of dimensions that follow
    from others.
    """

    def __init__(
        self, backend: Backend, corpus: Corpus, subject: Subject, schema: dict[str, Any], arch: str = ""
    ) -> None:
        self._backend, self._corpus, self.subject = backend, corpus, subject
        self._arch = arch or subject.arch
        self.strided = launches.strided(subject.launch, schema["inputs"])
        self._derived: dict[str, str] = schema["derived"]
        self._texts: dict[str, str] = {}  # these by number format
        self._parameters: dict[str, list[launches.Parameter]] = {}
        self._kernels: dict[str, Any] = {}

    def kernel(self, case: Case) -> Callable[..., None]:
        """The function that the guard calls for this case.

        What is wrong with the launch itself is raised here: it is no fault of the kernel.
        """
        launch, dense = self.plan(case)
        kernel = None if launch.empty else self._loaded(case.dtype, launch)
        filled = self.filled(case, launch)

        def run(inputs: dict[str, Array], outputs: dict[str, Array]) -> None:
            if launch.empty:
                return
            copies = {name: self._backend.dense(inputs[name]) for name in dense}
            given = {**inputs, **outputs, **copies}
            values = [given[f.name] if isinstance(f, Tensor) else f for f in filled]
            self._backend.launch(kernel, launch, values)
            for name, copy in copies.items():
                if self._backend.bits(copy) != self._backend.bits(inputs[name]):
                    _report(f"the kernel wrote to input {name}")

        run.__name__ = self.subject.id
        run.gpuemu_outputs = "allocated"  # type: ignore[attr-defined]
        return run

    def ptx(self, dtype: str) -> str:
        """The PTX in a number format."""
        if dtype not in self._texts:
            self._texts[dtype] = self._corpus.ptx(self.subject, dtype, self._arch)
        return self._texts[dtype]

    def filled(self, case: Case, launch: Launch) -> list[Tensor | Room | bytes]:
        """The arguments of a launch, with numbers as their parameters take them."""
        parameters = self._parameters.get(case.dtype)
        if parameters is None:
            parameters = self._parameters[case.dtype] = launches.parameters(self.ptx(case.dtype), self.subject.entry)
        if len(parameters) != len(launch.args):
            raise launches.BadLaunch(f"{len(launch.args)} arguments for {len(parameters)} parameters")
        return [a if isinstance(a, (Tensor, Room)) else launches.scalar(a, p) for a, p in zip(launch.args, parameters)]

    def _loaded(self, dtype: str, launch: Launch) -> Any:
        if dtype not in self._kernels:
            self._kernels[dtype] = self._backend.load(self.ptx(dtype), self.subject.entry, launch.shared)
        return self._kernels[dtype]

    def plan(self, case: Case) -> tuple[Launch, list[str]]:
        """The launch on a case, and the inputs of which the kernel gets a copy without gaps."""
        env: dict[str, Any] = {**dims_of(case.text), **case.attrs}
        for name, text in self._derived.items():  # a case's text has the others alone
            env[name] = launches.evaluate(text, env)
        dense = []
        for view in case.inputs:
            strides = view.strides
            if view.name not in self.strided and not _is_dense(view.shape, strides):
                dense.append(view.name)
                strides = contiguous_strides(view.shape)
            env[view.name] = Tensor(view.name, ITEM_SIZES[view.dtype], view.shape, strides)
        outputs = [
            Tensor(spec.name, ITEM_SIZES[spec.dtype], spec.shape or (), contiguous_strides(spec.shape or ()))
            for spec in case.outputs or []
        ]
        if len(outputs) == 1:
            env.update({name: outputs[0] for name in ("out", "output") if name not in env})
        env.update({tensor.name: tensor for tensor in outputs})
        return launches.launch_of(self.subject.launch, env), dense


def dims_of(text: str) -> dict[str, int]:
    """The dimensions in the text of a case."""
    found = re.search(r" dims=(\S+)", text)
    pairs = [pair.split(":") for pair in found[1].split(",")] if found else []
    return {name: int(size) for name, size in pairs}


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements lie in order without gaps; axes of one element have no say."""
    if math.prod(shape) == 0:
        return True
    pairs = zip(shape, strides, contiguous_strides(shape))
    return all(n == 1 or got == want for n, got, want in pairs)


def _report(what: str) -> None:
    """Tells the guard of something that it cannot see itself."""
    found = collecting.get()
    if found is not None:
        found.append(EmulationFinding("input_modified", what, "", 0, 0, (0, 0, 0), (0, 0, 0), 1, ""))

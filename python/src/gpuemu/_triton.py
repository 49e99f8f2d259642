"""Triton without a GPU: launches of @triton.jit kernels are compiled as for a GPU and executed by the emulator.

Triton asks its active driver for the target, compiles, and hands the compiled kernel to a launcher. Inside
emulated_triton the driver is one that has no device, and the launcher sends the kernel's PTX with the memory of its
arguments to the daemon. Everything before that is Triton's own: the specialisation by alignment and by values,
constants, heuristics, options, the cache of compiled kernels. What is replaced is restored at the end: the active
driver, CompiledKernel._init_handles, JITFunction.run and Autotuner.run (of Triton 3.6).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from . import _escape
from ._launch import ArrayPointer, Contents, Launch, sizes
from .client import Client
from .emulation import EmulationFinding, EmulationResult, settle
from .results import ClientError

# Bytes of shared memory a block may have, and multiprocessors: those of the A100, the H100 and the GPUs of consumers
# (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
SHARED = {75: 65536, 80: 166912, 86: 101376, 87: 166912, 89: 101376, 90: 232448}
PROCESSORS = 108
MAX_KEPT = 1000  # results that a context keeps

# Type in a signature of Triton: the numpy type of the parameter. i1 and u1 are a byte.
SCALARS: dict[str, Any] = {
    "i1": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u1": np.uint8, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "fp16": np.float16, "fp32": np.float32, "f32": np.float32,
    "fp64": np.float64,
}  # fmt: skip


def shared_memory(capability: int) -> int:
    """Bytes of shared memory that a block may have."""
    return SHARED.get(capability, SHARED[90])


_active: list[emulated_triton] = []  # contexts that are open, the innermost last


class emulated_triton(contextlib.ContextDecorator):
    """Executes all launches of @triton.jit kernels inside on the CPU, on CPU tensors of torch or arrays of numpy.

    A context manager and a decorator; wrapper functions stay as they are. It holds for the whole process, not for one
    thread. Results are written to the tensors; what the emulator finds is raised as EmulationError, with the line of
    the kernel.

    Args:
        target: what is compiled for: "sm_80" (default), "sm_90" and so on.
        client: a client to use; default: one of its own.
        checks, schedules, budget, counters, sfu, contract, bounds, memory: as of Client.emulate.
        findings: "raise" (default), or "collect" to go on and leave them in the attribute findings. A kernel that is
            not executed is raised in any case.
        autotune: "first" (default): the first configuration that fits is executed, nothing is timed; "all": the others
            are executed, too, and what they write is thrown away.

    Attributes:
        launches: an EmulationResult per launch, the last thousand.

    Example:
        >>> with gpuemu.emulated_triton():
        ...     y = softmax(x)  # launches kernel[grid](...)
    """

    def __init__(
        self, target: str = "sm_80", *, client: Client | None = None, checks: str = "all", schedules: int = 1,
        budget: int | None = None, counters: bool = False, sfu: str | None = None, contract: bool = False,
        bounds: str = "view", findings: str = "raise", autotune: str = "first", memory: str | int | None = None,
    ) -> None:  # fmt: skip
        capability = target[3:].rstrip("af") if target.startswith("sm_") else ""
        if not capability.isdigit():
            raise ValueError(f"target is {target!r}, want sm_80, sm_90 and the like")
        if findings not in ("raise", "collect"):
            raise ValueError(f'findings is {findings!r}, want "raise" or "collect"')
        if autotune not in ("first", "all"):
            raise ValueError(f'autotune is {autotune!r}, want "first" or "all"')
        self.capability = int(capability)
        self.launches: list[EmulationResult] = []
        self.autotune = autotune
        self._collect = findings == "collect"
        self._bounds = bounds
        self._client = client
        options = {"checks": checks, "schedules": schedules, "budget": budget, "counters": counters, "sfu": sfu,
                   "contract": contract, "memory": memory}  # fmt: skip
        self._options = {k: v for k, v in options.items() if v is not None}
        self._undo: list[contextlib.ExitStack] = []

    @property
    def findings(self) -> list[EmulationFinding]:
        """What was found in the launches so far."""
        return [f for launch in self.launches for f in launch.findings]

    def __enter__(self) -> emulated_triton:
        stack = contextlib.ExitStack()
        with stack:
            stack.enter_context(_replaced(self.capability))
            _active.append(self)
            stack.callback(_active.remove, self)
            self._undo.append(stack.pop_all())
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.pop().close()

    @property
    def client(self) -> Client:
        """The client that launches are sent with."""
        if self._client is None:
            self._client = Client()
        return self._client

    def launch(self, kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...]) -> None:
        """Executes a launch of a compiled kernel of Triton. args are those of the Python function, in order."""
        meta = kernel.metadata
        if getattr(meta, "num_ctas", 1) > 1:
            raise ClientError(f"{kernel.name} has num_ctas={meta.num_ctas}", hint="clusters are not executed here")
        if 0 in grid:
            return  # as Triton's own launcher
        module = {"ptx": kernel.asm["ptx"], "name": f"{kernel.name}.ptx", "entry": kernel.name,
                  "dynamic_shared": meta.shared, **self._options}  # fmt: skip
        launch = Launch(module, sizes(grid), [32 * meta.num_warps], self._bounds)
        for (name, kind), value in zip(kernel.src.signature.items(), args):
            _add(launch, str(name), kind, value)
        blocks = int(np.prod(grid))
        for name in ("global_scratch", "profile_scratch"):
            size = getattr(meta, name + "_size", 0)
            if size:
                launch.add_scratch(size * blocks, name)
            else:
                launch.add(None, name)
        result = launch.run(self.client)
        self.launches = [*self.launches[-MAX_KEPT + 1 :], result]
        if result.printed:
            sys.stdout.write(_escape.block(result.printed))
        if result.error is not None or not self._collect:
            settle(result)


def _add(launch: Launch, name: str, kind: Any, value: Any) -> None:
    """Adds an argument of a type of Triton's signature. Constants are part of the code, tuples are their elements."""
    if isinstance(kind, tuple):
        for i, (k, v) in enumerate(zip(kind, value)):
            _add(launch, f"{name}[{i}]", k, v)
    elif kind == "constexpr":
        return
    elif kind.startswith("*"):
        launch.add(value, name)
    elif kind == "bf16":  # Triton cuts the lower half off (backends/nvidia/driver.py, pack_bf16)
        launch.add((np.float32(value).view(np.uint32) >> np.uint32(16)).astype(np.uint16), name)
    elif kind in SCALARS:
        launch.add(SCALARS[kind](value), name)
    else:
        raise ClientError(f"argument {name} has the type {kind}", hint="descriptors of tensors are not executed here")


class _Driver:
    """A driver of Triton that has no device."""

    def __init__(self, capability: int) -> None:
        from triton.backends.compiler import GPUTarget

        self.capability = capability
        self.target = GPUTarget("cuda", capability, 32)
        self.utils = self  # asked for the properties of the device

    @staticmethod
    def is_active() -> bool:
        """Whether the driver can be used."""
        return True

    def get_current_target(self) -> Any:
        """What is compiled for."""
        return self.target

    def get_current_device(self) -> str:
        """The key of the cache of compiled kernels: that of no GPU."""
        return f"gpuemu sm_{self.capability}"

    def set_current_device(self, device: Any) -> None:
        """There is one device only."""

    def get_current_stream(self, device: Any = None) -> int:
        """There is one stream only."""
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """The target as torch writes it."""
        return divmod(self.capability, 10)

    def get_active_torch_device(self) -> Any:
        """Where tensors are to be: on the CPU."""
        import torch

        return torch.device("cpu")

    def get_device_properties(self, device: Any = None) -> dict[str, int]:
        """What kernels ask for to choose their grids."""
        return {"max_shared_mem": shared_memory(self.capability), "multiprocessor_count": PROCESSORS,
                "max_num_regs": 65536, "warpSize": 32, "sm_clock_rate": 1410000, "mem_clock_rate": 1215000,
                "mem_bus_width": 5120}  # fmt: skip


class _Launcher:
    """What Triton calls to launch a compiled kernel: it belongs to the context that is open then."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __call__(
        self, x: int, y: int, z: int, stream: Any, function: Any, packed: Any, launch_metadata: Any, enter: Any,
        leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        if not _active:
            raise ClientError(f"{self.kernel.name} was compiled for the emulator", hint="use it in emulated_triton()")
        if enter is not None:
            enter(launch_metadata)
        _active[-1].launch(self.kernel, (x, y, z), args)
        if leave is not None:
            leave(launch_metadata)


@contextlib.contextmanager
def _replaced(capability: int) -> Iterator[None]:
    """Triton with a driver and a launcher of ours."""
    try:
        from triton import knobs
        from triton.compiler.compiler import CompiledKernel
        from triton.runtime import driver
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction

        saved = driver._active
        before = CompiledKernel._init_handles, JITFunction.run, Autotuner.run
    except ImportError as exc:
        raise ClientError(f"Triton cannot be imported: {exc}", hint="pip install triton==3.6.0") from exc
    except AttributeError as exc:
        raise ClientError(f"this version of Triton is built otherwise: {exc}", hint="use Triton 3.6") from exc
    if knobs.runtime.interpret:
        raise ClientError("TRITON_INTERPRET is set: kernels are interpreted, not compiled", hint="unset it")
    driver.set_active(_Driver(capability))
    CompiledKernel._init_handles, JITFunction.run, Autotuner.run = _init_handles, _adapting(before[1]), _tuned
    try:
        yield
    finally:
        CompiledKernel._init_handles, JITFunction.run, Autotuner.run = before
        driver._active = saved


def _init_handles(kernel: Any) -> None:
    """Makes a compiled kernel ready, in place of loading it onto a device."""
    from triton.runtime.errors import OutOfResources

    if kernel.module is not None:
        return
    limit = shared_memory(_active[-1].capability)
    if kernel.metadata.shared > limit:
        raise OutOfResources(kernel.metadata.shared, limit, "shared memory")
    kernel.module = kernel.function = "gpuemu"
    kernel.n_regs = kernel.n_spills = 0
    kernel.n_max_threads = 1024
    kernel._run = _Launcher(kernel)


def _adapting(run: Any) -> Any:
    """JITFunction.run that takes arrays of numpy, too."""

    def adapted(value: Any) -> Any:
        if isinstance(value, tuple):  # an argument of Triton that is several
            parts = [adapted(v) for v in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return ArrayPointer(value) if isinstance(value, np.ndarray) else value

    def adapting(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, *[adapted(a) for a in args], **{k: adapted(v) for k, v in kwargs.items()})

    return adapting


def _tuned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
    """Autotuner.run without timing, and without leaving a choice behind that was made for no GPU.

    Where all configurations are executed each begins with what was there before the first, and at the end there is what
    the first wrote: hooks of configurations write to the tensors themselves, mostly zeros.
    """
    from triton.runtime.errors import OutOfResources

    every = _active[-1].autotune == "all"
    tuner.nargs = dict(zip(tuner.arg_names, args))
    after: Contents | None = None
    try:
        configs = list(tuner.prune_configs(kwargs)) if len(tuner.configs) > 1 else tuner.configs
        arrays = [*args, *kwargs.values()] if every and len(configs) > 1 else []
        before = Contents(arrays)
        answer = None
        for config in configs:
            before.restore()
            try:
                ran = _run_config(tuner, config, args, kwargs)
            except OutOfResources:
                if config is configs[-1] and after is None:
                    raise
                continue
            if after is None:
                after, answer, tuner.best_config = Contents(arrays), ran, config
            if not every:
                break
        return answer
    finally:
        if after is not None:
            after.restore()
        tuner.nargs = None


def _run_config(tuner: Any, config: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if config.pre_hook is not None:
        config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
    return tuner.fn.run(*args, **kwargs, **config.all_kwargs())

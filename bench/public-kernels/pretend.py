"""Libraries of Triton kernels on the CPU: tensors stay there, and torch.cuda answers as if there were a GPU.

emulated_triton executes the launches. What is left to do is what a library asks torch.cuda: names, properties, streams
and the device of a context. torch.cuda.is_available stays False, as torch itself would then use CUDA.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any

from record import Recorder

import gpuemu

PROCESSORS = 4  # few: persistent kernels launch a block per multiprocessor
BUDGET = 400_000_000  # instructions of warps per launch: minutes, not hours


def pretend_cuda(capability: int) -> None:
    """Makes torch.cuda answer as with one GPU of this compute capability."""
    import torch

    properties = types.SimpleNamespace(
        name="NVIDIA pretended", major=capability // 10, minor=capability % 10, multi_processor_count=PROCESSORS,
        total_memory=80 << 30, shared_memory_per_block=49152, shared_memory_per_block_optin=166912,
        max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, warp_size=32, L2_cache_size=40 << 20,
    )  # fmt: skip
    stream = types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
    answers: dict[str, Any] = {
        "get_device_name": lambda *_: properties.name,
        "get_device_capability": lambda *_: divmod(capability, 10),
        "get_device_properties": lambda *_: properties,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "current_stream": lambda *_: stream,
        "synchronize": lambda *_: None,
        "set_device": lambda *_: None,
        "device": lambda *_: contextlib.nullcontext(),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    # Tensors made by torch.empty hold NaN, or the largest integer: what a kernel forgot to write is seen in results.
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True


def leave_out_assembler() -> None:
    """Lets Triton's compiler stop at PTX: nothing executes what the assembler makes of it, and it takes longest."""
    from triton.backends.nvidia.compiler import CUDABackend

    CUDABackend.make_cubin = lambda *_: b""


class Recording(gpuemu.emulated_triton):
    """emulated_triton with all checks that records every launch."""

    def __init__(self, recorder: Recorder, package: str, capability: int) -> None:
        leave_out_assembler()
        super().__init__(f"sm_{capability}", findings="collect", budget=BUDGET)
        self.recorder = recorder
        self.package = package

    def launch(self, kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...]) -> None:
        """Executes and records a launch."""
        function = getattr(kernel.src.fn, "fn", None)
        module = str(getattr(function, "__module__", ""))
        # Descriptors of tensors and clusters are refused before anything is sent: they are recorded as well.
        try:
            super().launch(kernel, grid, args)
            result = self.launches[-1] if 0 not in grid else None
        except gpuemu.EmulationError as exc:
            result = exc.result
        except gpuemu.ClientError as exc:
            result = gpuemu.EmulationResult("not_run", kernel.name, [], error=exc)
        if result is not None:
            block = [32 * kernel.metadata.num_warps]
            self.recorder.launch(kernel.name, module, kernel.hash[:12], grid, block, result, kernel.asm["ptx"])

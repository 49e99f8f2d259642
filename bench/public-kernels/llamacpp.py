"""Kernels of llama.cpp's CUDA backend through the host code of its operators. llamacpp.py OUT SOURCES TOOLS [CASE...]

SOURCES is a checkout, TOOLS a folder for what is built; NVCC and CUDA_INCLUDES name the compiler and further headers.
ggml_host.cu makes the tensors of each case.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from hostcode import Device, tools_of
from record import Recorder

OPERATORS = (
    "acc add-id arange argmax argsort binbcast clamp concat conv-transpose-1d conv2d-dw conv2d-transpose conv2d "
    "count-equal cpy cross-entropy-loss cumsum diag diagmask fill gated_delta_net getrows gla im2col mean norm "
    "opt-step-adamw opt-step-sgd pad pad_reflect_1d pool2d roll rope scale set-rows set softmax solve_tri ssm-conv "
    "ssm-scan sum sumrows tri tsembd unary upscale wkv"
)
CORE = ("ggml.c", "ggml.cpp", "ggml-quants.c", "ggml-threading.cpp")
Reference = Callable[[list[torch.Tensor]], torch.Tensor]


def shifted(width: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """The first or second half of rows."""
    return lambda x: x.unflatten(-1, (2, -1))[..., width, :]


FIRST, SECOND = shifted(0), shifted(1)
# What cases compute, from their float32 sources; ggml's fastest dimension is the last one here.
REFERENCES: dict[str, Reference] = {
    "norm": lambda s: F.layer_norm(s[0], s[0].shape[-1:]),
    "norm_wide": lambda s: F.layer_norm(s[0], s[0].shape[-1:]),
    "rms_norm": lambda s: F.rms_norm(s[0], s[0].shape[-1:], eps=1e-5),
    "rms_norm_wide": lambda s: F.rms_norm(s[0], s[0].shape[-1:], eps=1e-5),
    "group_norm": lambda s: F.group_norm(s[0], 4),
    "group_norm_wide": lambda s: F.group_norm(s[0], 4),
    "l2_norm": lambda s: F.normalize(s[0], dim=-1),
    "l2_norm_wide": lambda s: F.normalize(s[0], dim=-1),
    "sum": lambda s: s[0].sum().reshape(1, 1, 1, 1),
    "sum_rows": lambda s: s[0].sum(-1, keepdim=True),
    "mean": lambda s: s[0].mean(-1, keepdim=True),
    "cumsum": lambda s: s[0].cumsum(-1),
    "cumsum_wide": lambda s: s[0].cumsum(-1),
    "soft_max": lambda s: s[0].softmax(-1),
    "cross_entropy": lambda s: (-(s[1] * s[0].log_softmax(-1)).sum() / s[0].shape[-2]).reshape(1, 1, 1, 1),
    "abs": lambda s: s[0].abs(),
    "sgn": lambda s: s[0].sign(),
    "neg": lambda s: -s[0],
    "relu": lambda s: s[0].relu(),
    "step": lambda s: (s[0] > 0).double(),
    "gelu": lambda s: F.gelu(s[0], approximate="tanh"),
    "silu": lambda s: F.silu(s[0]),
    "gelu_erf": lambda s: F.gelu(s[0]),
    "gelu_quick": lambda s: s[0] * torch.sigmoid(1.702 * s[0]),
    "tanh": lambda s: s[0].tanh(),
    "sigmoid": lambda s: s[0].sigmoid(),
    "hardsigmoid": lambda s: F.hardsigmoid(s[0]),
    "exp": lambda s: s[0].exp(),
    "hardswish": lambda s: F.hardswish(s[0]),
    "sqr": lambda s: s[0].square(),
    "sin": lambda s: s[0].sin(),
    "cos": lambda s: s[0].cos(),
    "elu": lambda s: F.elu(s[0]),
    "expm1": lambda s: s[0].expm1(),
    "softplus": lambda s: F.softplus(s[0]),
    "floor": lambda s: s[0].floor(),
    "ceil": lambda s: s[0].ceil(),
    "trunc": lambda s: s[0].trunc(),
    "sqrt": lambda s: s[0].sqrt(),
    "log": lambda s: s[0].log(),
    "leaky_relu": lambda s: F.leaky_relu(s[0], 0.1),
    "clamp": lambda s: s[0].clamp(-0.5, 0.7),
    "scale": lambda s: s[0] * 1.5,
    "reglu": lambda s: FIRST(s[0]).relu() * SECOND(s[0]),
    "swiglu": lambda s: F.silu(FIRST(s[0])) * SECOND(s[0]),
    "geglu": lambda s: F.gelu(FIRST(s[0]), approximate="tanh") * SECOND(s[0]),
    "geglu_erf": lambda s: F.gelu(FIRST(s[0])) * SECOND(s[0]),
    "geglu_quick": lambda s: FIRST(s[0]) * torch.sigmoid(1.702 * FIRST(s[0])) * SECOND(s[0]),
    "fill": lambda s: torch.full_like(s[0], 2.5),
    "arange": lambda s: torch.arange(1, 300, 2).double().reshape(1, 1, 1, -1),
    "concat_0": lambda s: torch.cat(s[:2], 3),
    "concat_1": lambda s: torch.cat(s[:2], 2),
    "concat_2": lambda s: torch.cat(s[:2], 1),
    "concat_3": lambda s: torch.cat(s[:2], 0),
    "pad": lambda s: F.pad(s[0], (0, 3, 0, 2, 0, 1)),
    "pad_reflect": lambda s: F.pad(s[0][0], (3, 2), mode="reflect")[None],
    "roll": lambda s: s[0].roll((3, -2, 1), (3, 2, 1)),
    "diag": lambda s: torch.diag_embed(s[0][:, :, 0]),
    "upscale_nearest": lambda s: F.interpolate(s[0], scale_factor=2),
    "tri": lambda s: s[0].tril(),
    "upscale_bilinear": lambda s: F.interpolate(s[0], (15, 20), mode="bilinear"),
    "pool_2d_max": lambda s: F.max_pool2d(s[0], 3, 2, 1),
    "pool_2d_avg": lambda s: F.avg_pool2d(s[0], 2, 2),
    "conv_2d": lambda s: F.conv2d(s[1], s[0], padding=1),
    "conv_2d_dw": lambda s: F.conv2d(s[1], s[0], padding=1, groups=6),
    "conv_transpose_1d": lambda s: F.conv_transpose1d(s[1][0], s[0][0], stride=2)[None],
    "solve_tri": lambda s: torch.linalg.solve_triangular(s[0].tril(), s[1], upper=False),
    "ssm_conv": lambda s: convolved(s),
    "ssm_conv_long": lambda s: convolved(s),
}


def convolved(sources: list[torch.Tensor]) -> torch.Tensor:
    """A convolution per channel along the time; the result has the time outside."""
    x, w = sources[0][0], sources[1][0, 0]
    return F.conv1d(x, w[:, None], groups=w.shape[0]).transpose(1, 2)[None]


class Operators:
    """The cases of ggml_host.cu."""

    def __init__(self, library: ctypes.CDLL, device: Device) -> None:
        self.library = library
        self.device = device
        library.gpuemu_cases.restype = ctypes.c_char_p
        library.gpuemu_tensor.restype = ctypes.POINTER(ctypes.c_float)
        self.names = library.gpuemu_cases().decode().split()

    def tensor(self, which: int) -> torch.Tensor | None:
        """The result (-1) or a source of the last case; None if it is not plain float32."""
        shape = (ctypes.c_int64 * 4)()
        data = self.library.gpuemu_tensor(which, shape)
        if not data:
            return None
        array = np.ctypeslib.as_array(data, tuple(reversed(list(shape))))
        return torch.from_numpy(array.copy()).double()

    def run(self, r: Recorder, name: str) -> None:
        """Runs a case in a process of its own: an assertion of ggml ends it."""
        child = os.fork()
        if child == 0:
            r.run(name, lambda _: self.compared(r, name))
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            r.run(name, lambda _: failed(status))

    def compared(self, r: Recorder, name: str) -> None:
        """Runs a case and compares, where there is a reference."""
        self.library.gpuemu_run(name.encode())
        self.device.settle()
        if name in REFERENCES:
            sources: list[Any] = [self.tensor(0), self.tensor(1)]
            got = self.tensor(-1)
            r.compare("result", torch.zeros(0) if got is None else got, REFERENCES[name](sources), 1e-3)


def failed(status: int) -> None:
    """Says that the process of a case ended otherwise than by returning."""
    raise RuntimeError(f"the process ended with {status}")


def main() -> None:
    """Builds the operators and runs the cases named on the command line, or all."""
    out, checkout, folder, *chosen = sys.argv[1:]
    tools = tools_of(folder)
    ggml = pathlib.Path(checkout, "ggml")
    backend = ggml / "src/ggml-cuda"
    flags = tuple(f"-I{p}" for p in (ggml / "include", ggml / "src", backend))
    flags += ('-DGGML_VERSION="none"', '-DGGML_COMMIT="none"', "-D_GNU_SOURCE")
    recorder = Recorder("llama.cpp", os.environ.get("PROJECT_VERSION", ""), out)
    sources = [backend / f"{name}.cu" for name in OPERATORS.split()] + [ggml / "src" / name for name in CORE]
    modules = tools.library([pathlib.Path(__file__).with_name("ggml_host.cu"), *sources], "llamacpp", flags)
    library = tools.load("llamacpp")
    operators = Operators(library, Device(library, recorder, modules))
    torch.set_num_threads(1)  # threads do not survive a fork
    for name in operators.names:
        if not chosen or name in chosen:
            operators.run(recorder, name)


if __name__ == "__main__":
    main()

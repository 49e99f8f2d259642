"""Kernels of bitsandbytes through the C functions that its Python calls. bitsandbytes.py OUT SOURCES TOOLS [CASE...]

SOURCES is a checkout, TOOLS a folder for what is built; NVCC and CUDA_INCLUDES name the compiler and further headers.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from drive import run_all
from hostcode import Device, tools_of
from record import Recorder

HOST = (
    "kernels.cu",
    "ops.cu",
    "gemm_4bit.cu",
    "gemm_4bit_simt.cu",
    "gemm_4bit_sm75.cu",
    "gemm_4bit_sm80.cu",
    "pythonInterface.cpp",
)
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
NF4 = torch.tensor(
    [
        -1.0,
        -0.6961928,
        -0.5250731,
        -0.39491749,
        -0.28444138,
        -0.18477343,
        -0.09105004,
        0.0,
        0.0795803,
        0.1609302,
        0.2461123,
        0.33791524,
        0.44070983,
        0.562617,
        0.72295684,
        1.0,
    ]
)
CASES: dict[str, Callable[[Recorder], None]] = {}


class Library:
    """The functions of the library; tensors are passed as memory of the device, floats and ints as C's."""

    def __init__(self, device: Device, functions: ctypes.CDLL) -> None:
        self.device = device
        self.functions = functions
        self._kept: list[torch.Tensor] = []

    def call(self, name: str, *args: Any) -> None:
        """Calls a function and raises what its launches raised."""
        values: list[Any] = []
        for arg in args:
            if isinstance(arg, torch.Tensor):
                self._kept.append(arg)  # memory stays where it is as long as the device knows it
                values.append(self.device.share(arg))
            elif isinstance(arg, bool):
                values.append(ctypes.c_bool(arg))
            elif isinstance(arg, float):
                values.append(ctypes.c_float(arg))
            else:
                values.append(arg if arg is None else ctypes.c_int(arg))
        getattr(self.functions, name)(*values)
        self.device.settle()


def add_quantization(lib: Library) -> None:
    """Blockwise quantization and its inverse, with a table of 256 values, FP4 and NF4."""
    for kind, dtype in TYPES.items():
        for table in ("", "_fp4", "_nf4"):
            for block in (4096, 2048, 1024, 512, 256, 128, 64, 32)[: 8 if table else 7]:
                # The whole range of sizes for one type, the ends for the others.
                if kind == "fp32" or block in (4096, 64):
                    CASES[f"quantize_{kind}{table}_{block}"] = (
                        lambda r, kind=kind, dtype=dtype, table=table, block=block: quantize(
                            r, lib, kind, dtype, table, block
                        )
                    )


def quantize(r: Recorder, lib: Library, kind: str, dtype: torch.dtype, table: str, block: int) -> None:
    """Quantizes and back: the result is near, and what the table gives for the codes."""
    n = 2 * block + block // 2 + 2
    code, x = torch.linspace(-1, 1, 256), torch.randn(n).to(dtype)
    blocks = -(-n // block)
    absmax = torch.full((blocks,), float("nan"))
    codes = torch.full(((n + 1) // 2 if table else n,), 255, dtype=torch.uint8)
    lib.call(f"cquantize_blockwise_{kind}{table}", code, x, absmax, codes, block, n)
    parts = [p.float().abs().max() for p in x.split(block)]
    r.compare("absmax", absmax, torch.stack(parts), 1e-3)
    back = torch.full((n,), float("nan"), dtype=dtype)
    lib.call(f"cdequantize_blockwise_{kind}{table}", code, codes, absmax, back, block, n, None)
    r.compare("back again", back, x, 0.25 if table else 0.02)
    scale = absmax.repeat_interleave(block)[:n]
    if table == "_nf4":
        halves = torch.stack([codes >> 4, codes & 15], 1).reshape(-1)[:n]
        r.compare("values of codes", back, NF4[halves.long()] * scale, 1e-2)
    elif not table:
        r.compare("values of codes", back, code[codes.long()] * scale, 1e-2)


def add_optimizers(lib: Library) -> None:
    """Optimizers with states of 32 bits, and of 8 bits in blocks."""
    types = {
        "adam": ("fp32", "fp16", "bf16"),
        "lion": ("fp32", "fp16", "bf16"),
        "ademamix": ("fp32", "fp16", "bf16"),
        "momentum": ("32", "16"),
        "rmsprop": ("32", "16"),
        "adagrad": ("32", "16"),
    }
    for name, kinds in types.items():
        for kind in kinds:
            dtype = TYPES[{"32": "fp32", "16": "fp16"}.get(kind, kind)]
            for limit in (0.0, 0.5):
                CASES[f"{name}32_{kind}_{limit}"] = lambda r, name=name, kind=kind, dtype=dtype, limit=limit: optimize(
                    r, lib, name, kind, dtype, limit
                )
        for kind, dtype in TYPES.items():
            CASES[f"{name}8_{kind}"] = lambda r, name=name, kind=kind, dtype=dtype: optimize8(r, lib, name, kind, dtype)


def optimize(r: Recorder, lib: Library, name: str, kind: str, dtype: torch.dtype, limit: float) -> None:
    """One step of an optimizer; Adam and Lion are compared with their formulas."""
    n, lr, b1, b2, eps = 5001, 0.01, 0.9, 0.99, 1e-8
    g, p = torch.randn(n).to(dtype), torch.randn(n).to(dtype)
    first, second = torch.zeros(2 * n if name == "ademamix" else n), torch.zeros(n)
    want = p.double()
    if name == "adam" and limit == 0.0:
        m, v = 0.1 * g.double(), 0.01 * g.double() ** 2
        want = want - lr * (0.01**0.5) / 0.1 * m / (v.sqrt() + eps * 0.01**0.5)
    elif name == "lion":
        want = want - lr * torch.sign(0.1 * g.double())
    unorm = torch.zeros(1)
    lib.call(
        f"c{name}32bit_grad_{kind}",
        g,
        p,
        first,
        second,
        unorm,
        limit,
        1.0,
        b1,
        b2,
        0.999,
        5.0,
        eps,
        0.0,
        1,
        lr,
        1.0,
        False,
        n,
    )
    if (name, limit) in (("adam", 0.0), ("lion", 0.0)):
        r.compare("parameters", p, want, 1e-2)


def optimize8(r: Recorder, lib: Library, name: str, kind: str, dtype: torch.dtype) -> None:
    """One step with states of 8 bits: blocks of 256."""
    n = 3001
    twice = 2 if name == "ademamix" else 1
    g, p = torch.randn(n).to(dtype), torch.randn(n).to(dtype)
    before = p.clone()
    signed, unsigned = torch.linspace(-1, 1, 256), torch.linspace(0, 1, 256)
    blocks = -(-n // 256)
    first, second = torch.full((n * twice,), 127, dtype=torch.uint8), torch.zeros(n, dtype=torch.uint8)
    one, two = torch.zeros(blocks * twice), torch.zeros(blocks)
    lib.call(
        f"c{name}_8bit_blockwise_grad_{kind}",
        p,
        g,
        first,
        second,
        0.9,
        0.99,
        0.999,
        5.0,
        1e-8,
        1,
        0.01,
        signed,
        unsigned,
        one,
        two,
        0.0,
        1.0,
        False,
        n,
    )
    if name == "lion":
        r.compare("parameters", p, before.double() - 0.01 * torch.sign(0.1 * g.double()), 1e-2)


def add_products(lib: Library) -> None:
    """Products with weights of 4 bits, and the kernels around products of 8 bits."""
    for kind, dtype in TYPES.items():
        CASES[f"gemm_naive_{kind}"] = lambda r, kind=kind, dtype=dtype: naive_product(r, lib, kind, dtype)
        for rows in (1, 2, 3, 5, 33, 70):
            for nested in (False, True):
                name = f"gemm_4bit_{kind}_{rows}{'_nested' if nested else ''}"
                CASES[name] = lambda r, kind=kind, dtype=dtype, rows=rows, nested=nested: product(
                    r, lib, kind, dtype, rows, nested
                )
    CASES["int8_vector_quant"] = lambda r: vector_quant(r, lib)
    CASES["dequant_mm"] = lambda r: dequant_mm(r, lib)
    CASES["elementwise"] = lambda r: elementwise(r, lib)


def weights(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Packed NF4 weights with a scale per 64, and what they are."""
    codes = torch.randint(0, 16, (rows, columns))
    scales = torch.rand(rows * columns // 64) + 0.5
    whole = NF4[codes].reshape(-1, 64) * scales[:, None]
    packed = (codes[:, 0::2] << 4 | codes[:, 1::2]).to(torch.uint8)
    return packed.contiguous(), scales, whole.reshape(rows, columns)


def naive_product(r: Recorder, lib: Library, kind: str, dtype: torch.dtype) -> None:
    """A matrix of 4 bits times a vector."""
    packed, scales, whole = weights(36, 128)
    x, out = torch.randn(1, 128).to(dtype), torch.full((1, 36), float("nan"), dtype=dtype)
    lib.call(
        f"cgemm_4bit_inference_naive_{kind}", 36, 1, 128, x, packed, scales, NF4.clone(), out, 36, 64, 36, 64, None
    )
    r.compare("product", out, x.double() @ whole.double().T, 2e-2)


def product(r: Recorder, lib: Library, kind: str, dtype: torch.dtype, rows: int, nested: bool) -> None:
    """A matrix times one of 4 bits; nested: its scales have 8 bits."""
    columns, inner = 200, 192
    packed, scales, whole = weights(columns, inner)
    x, bias = torch.randn(rows, inner).to(dtype), torch.randn(columns).to(dtype)
    out = torch.full((rows, columns), float("nan"), dtype=dtype)
    extra: list[Any] = [None, None, None]
    given = scales
    if nested:
        table, codes, offset = torch.linspace(-1, 1, 256), torch.randint(0, 256, scales.shape, dtype=torch.uint8), 1.5
        given = torch.rand(-(-scales.numel() // 256)) * 0.5
        small = table[codes.long()] * given.repeat_interleave(256)[: scales.numel()] + offset
        whole = (whole.reshape(-1, 64) / scales[:, None] * small[:, None]).reshape(columns, inner)
        extra = [codes, table, torch.tensor([offset])]
    lib.call(f"cgemm_4bit_{kind}", x, packed, given, *extra, out, bias, rows, columns, inner, 64, 2, None)
    r.compare("product", out, x.double() @ whole.double().T + bias.double(), 2e-2)


def vector_quant(r: Recorder, lib: Library) -> None:
    """Rows as whole numbers of 8 bits, with and without outliers."""
    for limit in (0.0, 2.0):
        x = torch.randn(5, 1500).half()
        out, stats = torch.zeros(5, 1500, dtype=torch.int8), torch.full((5,), float("nan"))
        lib.call("cint8_vector_quant", x, out, stats, limit, 5, 1500, None)
        kept = x.float() if limit == 0.0 else torch.where(x.float().abs() >= limit, 0.0, x.float())
        r.compare("scales", stats, kept.abs().amax(1), 1e-3)
        r.compare("values", out.float() * stats[:, None] / 127, kept, 2e-2)


def dequant_mm(r: Recorder, lib: Library) -> None:
    """Products of whole numbers as half precision."""
    a = torch.randint(-9999, 9999, (7, 300), dtype=torch.int32)
    rows, columns, bias = torch.rand(7), torch.rand(300), torch.randn(300).half()
    out = torch.full((7, 300), float("nan")).half()
    lib.call("cdequant_mm_int32_fp16", a, rows, columns, out, bias, 7, 300, None)
    r.compare("values", out, a.double() * rows[:, None] * columns / 127**2 + bias.double(), 1e-2)


def elementwise(r: Recorder, lib: Library) -> None:
    """Filling, counting and multiplying."""
    lib.functions.cfill_fp32.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_long]
    x, y = torch.randn(1300), torch.randn(1300)
    product = x * y
    for name in ("c_mul_fp32", "cfill_fp32", "carange_fp32"):
        getattr(lib.functions, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_long]
        getattr(lib.functions, name)(lib.device.share(x), lib.device.share(y), 2.5, 1300)
        lib.device.settle()
        want = {
            "c_mul_fp32": product,
            "cfill_fp32": torch.full((1300,), 2.5),
            "carange_fp32": torch.arange(1300).float(),
        }
        r.compare(name, x.clone(), want[name])
    small = torch.zeros(700, dtype=torch.uint8)
    fill = lib.functions.cfill_uint8
    fill.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ubyte, ctypes.c_long]
    fill(lib.device.share(small), lib.device.share(small), 7, 700)
    lib.device.settle()
    r.compare("cfill_uint8", small.float(), torch.full((700,), 7.0))


def main() -> None:
    """Builds the library and runs the cases named on the command line, or all."""
    out, sources, folder, *chosen = sys.argv[1:]
    tools = tools_of(folder)
    source = pathlib.Path(sources, "csrc")
    flags = ("-DBUILD_CUDA=1", f"-I{source}")
    stubs = ("-static-global-template-stub=false", "-w")  # templates are defined in one file and launched from another
    modules = tools.library([source / name for name in HOST], "bitsandbytes", (*flags, *stubs))
    recorder = Recorder("bitsandbytes", os.environ.get("PROJECT_VERSION", ""), out)
    functions = tools.load("bitsandbytes")
    lib = Library(Device(functions, recorder, modules), functions)
    for add in (add_quantization, add_optimizers, add_products):
        add(lib)
    run_all(recorder, CASES, chosen)


if __name__ == "__main__":
    main()

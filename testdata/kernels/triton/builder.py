"""Compiles Triton kernels for a machine that need not be there; used by bench/device/artifacts.py."""

import importlib.util
import pathlib
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def load(file):
    """Imports a file of kernels; its path as given, relative to the repository, is what line information will say."""
    spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for value in vars(module).values():
        if isinstance(value, triton.JITFunction) and value.fn.__module__ == spec.name:
            place(value, file)
    return module


def place(function, file):
    """Line information takes the path from the code object; the source itself was read when the function was made."""
    function.fn.__code__ = function.fn.__code__.replace(co_filename=file)


def hide_folder():
    """Gives the functions of Triton's own library a path that is relative to the package."""
    root = str(pathlib.Path(triton.__file__).parent.parent) + "/"
    for module in [m for name, m in sys.modules.items() if name.startswith("triton.")]:
        for value in list(vars(module).values()):
            if isinstance(value, triton.JITFunction) and value.fn.__code__.co_filename.startswith(root):
                place(value, value.fn.__code__.co_filename.removeprefix(root))


def compile_one(row, arch):
    """One build of a row of BUILDS. Arguments count as divisible by 16, as a launch with usual tensors makes them."""
    kernel = row["kernel"]
    constants = dict(row["constants"])
    signature = {}
    divisible = {}
    for i, parameter in enumerate(kernel.params):
        kind = "constexpr" if parameter.name in constants else row["signature"][i]
        signature[parameter.name] = kind
        if kind[0] == "*" or kind == "i32":
            divisible[(i,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=divisible)
    options = {"num_warps": row["warps"], "num_stages": row["stages"], **row["options"]}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)

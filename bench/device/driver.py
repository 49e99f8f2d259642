"""The few calls of the CUDA driver that a launch needs, through ctypes: nothing but the driver has to be installed."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
PLAIN_SHARED = 48 << 10  # bytes of dynamic shared memory that a kernel may have without asking


class DriverError(RuntimeError):
    """A call of the driver that failed."""


class Driver:
    """The driver with the primary context of the first GPU, which is that of PyTorch and CuPy, too.

    library stands in for the driver's own where it is given.
    """

    def __init__(self, library: Any = None) -> None:
        self.library = library or ctypes.CDLL(os.environ.get("CUDA_DRIVER", "libcuda.so.1"))
        self.call("cuInit", 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.device, self.version = name.value.decode(), version.value
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, function: str, *args: Any) -> None:
        """Calls a function, and raises where it fails."""
        code = getattr(self.library, function)(*args)
        if code != 0:
            name = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(name))
            raise DriverError(f"{function} gives error {code} ({(name.value or b'unknown').decode()})")

    def load(self, image: bytes) -> ctypes.c_void_p:
        """A module of PTX, which the driver compiles, or of machine code."""
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.create_string_buffer(image))
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        """Ends a module."""
        self.call("cuModuleUnload", module)

    def function(self, module: ctypes.c_void_p, entry: str, shared: int = 0) -> ctypes.c_void_p:
        """A kernel of a module, which may have so many bytes of dynamic shared memory."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        if shared > PLAIN_SHARED:
            self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, shared)
        return function

    def launch(
        self, function: ctypes.c_void_p, grid: Sequence[int], block: Sequence[int], shared: int, args: Sequence[bytes]
    ) -> None:
        """Launches a kernel; wait waits for its end. args: the bytes of each parameter."""
        values = [ctypes.create_string_buffer(value, max(8, len(value))) for value in args]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        self.call("cuLaunchKernel", function, *grid, *block, shared, None, pointers, None)

    def wait(self) -> None:
        """Waits for the end of all launches; a fault of one is raised here."""
        self.call("cuCtxSynchronize")

    def allocate(self, size: int) -> int:
        """The address of fresh memory of exactly so many bytes; of none a byte is got, because there is no less."""
        place = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(max(1, size)))
        return place.value

    def write(self, place: int, data: bytes) -> None:
        """Copies bytes to the device."""
        if data:
            self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(place), data, ctypes.c_size_t(len(data)))

    def read(self, place: int, size: int) -> bytes:
        """Copies bytes from the device."""
        back = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", back, ctypes.c_uint64(place), ctypes.c_size_t(size))
        return back.raw

    def free(self, place: int) -> None:
        """Gives memory back."""
        self.call("cuMemFree_v2", ctypes.c_uint64(place))

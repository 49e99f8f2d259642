"""GPUs as the test process sees them: whether there is one, and which a framework used."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from contextlib import suppress
from typing import Any

SMI_LIMIT = 5  # seconds; a driver that hangs is no GPU to test on


def gpu_present() -> bool:
    """Whether a GPU can be used: nvidia-smi says so, or torch does where it is installed."""
    try:
        done = subprocess.run(
            ["nvidia-smi"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=SMI_LIMIT,
        )  # fmt: skip
        if done.returncode == 0:
            return True
    except (OSError, subprocess.TimeoutExpired):
        pass
    torch: Any = sys.modules.get("torch")
    if torch is None and importlib.util.find_spec("torch") is not None:
        with suppress(Exception):  # an installation that cannot be imported has no GPU to offer
            torch = importlib.import_module("torch")
    return torch is not None and bool(torch.cuda.is_available())


def used_devices() -> list[dict[str, str]]:
    """The GPUs of the frameworks that this process has set up. It sets none up itself: that takes memory and time."""
    found: list[dict[str, str]] = []
    for framework, look in (("torch", _torch_devices), ("cupy", _cupy_devices), ("jax", _jax_devices)):
        module = sys.modules.get(framework)
        if module is not None:
            # These are details of many versions of other packages. What they say is a remark beside what gpu-proof sign
            # reads from the driver, and no test fails because of it.
            with suppress(Exception):
                found += [{"framework": framework, "name": n, "uuid": u} for n, u in look(module)]
    return found


def _torch_devices(torch: Any) -> list[tuple[str, str]]:
    if not torch.cuda.is_initialized():
        return []
    properties = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [(str(p.name), _uuid(getattr(p, "uuid", ""))) for p in properties]


def _cupy_devices(cupy: Any) -> list[tuple[str, str]]:
    runtime = cupy.cuda.runtime
    found = [runtime.getDeviceProperties(i) for i in range(runtime.getDeviceCount())]
    return [(p["name"].decode(errors="replace"), _uuid(p.get("uuid", b""))) for p in found]


def _jax_devices(jax: Any) -> list[tuple[str, str]]:
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None or not bridge.backends_are_initialized():
        return []
    return [(str(d.device_kind), "") for d in jax.devices() if d.platform in ("gpu", "cuda", "rocm")]


def _uuid(value: Any) -> str:
    """GPU-… as nvidia-smi writes it; frameworks give text or 16 bytes."""
    text = value.hex() if isinstance(value, bytes) else str(value)
    plain = text.removeprefix("GPU-").replace("-", "").lower()
    if len(plain) != 32:
        return ""
    return "GPU-" + "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))

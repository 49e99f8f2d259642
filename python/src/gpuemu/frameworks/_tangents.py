"""Forward-mode derivatives of JAX functions against differences of their values, output element by output element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from gpuemu.frameworks._gradients import GRADIENT_TOLERANCES, UNSETTLED_PART, Differences
from gpuemu.frameworks._reports import Array, CheckReport, agree, not_run, raised, tolerance_for
from gpuemu.frameworks.base import FrameworkAdapter, float64

if TYPE_CHECKING:
    from gpuemu.client import Client

TANGENTS = 4  # random tangents per function; a wrong rule shows with the first unless it is wrong by chance only


def tangent_report(
    adapter: FrameworkAdapter, func: Callable[..., Any], arrays: Mapping[str, Any], settings: Differences, judge: Client
) -> CheckReport:
    """Compares jax.jvp of func(**arrays) along random tangents with Richardson differences in float64."""
    names = [name for name, value in arrays.items() if adapter.is_floating(value)]
    if not names:
        return not_run("jvp", "no input is of floating dtype")
    jax = getattr(adapter, "jax")  # noqa: B009 - only JAX has forward mode here
    host = {name: adapter.to_numpy(value) for name, value in arrays.items()}
    rng = np.random.default_rng(settings.seed)
    comparisons, notes = [], []
    for _ in range(TANGENTS):
        draws = {name: np.asarray(rng.standard_normal(host[name].shape), host[name].dtype) for name in names}

        def positional(*values: Any) -> list[Any]:
            return adapter.floating_leaves(func(**{**arrays, **dict(zip(names, values))}))

        try:
            tangents = tuple(adapter.from_numpy(draws[name], like=arrays[name]) for name in names)
            _, pushed = jax.jvp(positional, tuple(arrays[name] for name in names), tangents)
        except Exception as error:
            return CheckReport("jvp", passed=False, detail=raised("jax.jvp", error))
        got = [float64(adapter.to_numpy(leaf)) for leaf in pushed]
        try:
            want, distance = _differences(adapter, func, arrays, host, draws, settings.eps)
        except Exception as error:
            return not_run("jvp", raised("in float64 the function", error) + "; the rule cannot be checked")
        for i, (one, other, apart) in enumerate(zip(got, want, distance)):
            dtype = adapter.get_dtype_name(pushed[i])
            allowed = tolerance_for(GRADIENT_TOLERANCES, dtype, settings.atol, settings.rtol)
            settled = apart <= 0.1 * (allowed.atol + allowed.rtol * np.abs(other))  # NaN is not
            if settled.size and settled.mean() < 1 - UNSETTLED_PART:
                return not_run("jvp", "differences do not settle at these inputs: it is rough or not finite there")
            if not settled.all():
                notes.append(f"output {i}: {int((~settled).sum())} elements do not settle, not compared")
            answer, problem = agree(judge, f"jvp of output {i}", one[settled], other[settled], allowed)
            comparisons.append(answer)
            if problem:
                return CheckReport("jvp", False, True, problem, tuple(notes), tuple(comparisons))
    return CheckReport("jvp", True, True, "", tuple(notes), tuple(comparisons))


def _differences(
    adapter: FrameworkAdapter,
    func: Callable[..., Any],
    arrays: Mapping[str, Any],
    host: Mapping[str, Array],
    draws: Mapping[str, Array],
    eps: float,
) -> tuple[list[Array], list[Array]]:
    """Derivatives of the floating outputs along draws, and the distance of the two step sizes they come from."""

    def at(step: float) -> list[Array]:
        with adapter.double_precision():
            moved = {
                name: adapter.place(
                    float64(value) + step * float64(draws[name]) if name in draws else value, arrays[name]
                )
                for name, value in host.items()
            }
            return [float64(adapter.to_numpy(leaf)) for leaf in adapter.floating_leaves(func(**moved))]

    with np.errstate(invalid="ignore", over="ignore"):
        wide = [(one - other) / (2 * eps) for one, other in zip(at(eps), at(-eps))]
        near = [(one - other) / eps for one, other in zip(at(eps / 2), at(-eps / 2))]
        return [(4 * n - w) / 3 for n, w in zip(near, wide)], [np.abs(n - w) for n, w in zip(near, wide)]

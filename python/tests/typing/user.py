"""A user's program, for type checkers."""

import asyncio
from typing import Any

import numpy as np

import gpuemu
from gpuemu import AsyncClient, Client, FuzzResults, ValidationResult, strategies


def kernel(inputs: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return np.maximum(inputs["input"], 0)


@gpuemu.op("relu", iterations=3, dtypes=[np.float32])
def test_relu(inputs: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return kernel(inputs)


def main() -> int:
    with Client() as client:
        results: FuzzResults = client.fuzz_op_client_side("relu", kernel, iterations=3, dtypes=["float32", np.float16])
        x = np.ones((2, 3), np.float32)
        one: ValidationResult = client.validate_op("relu", {"input": x}, x, tolerance={"atol": 1e-6}, store="none")
        one.check()
        fuzzed: FuzzResults = client.fuzz_op("relu", seed=1, iterations=2)
        for failure in results.failures:
            print(failure.seed, failure.message, failure.repro_info.strides if failure.repro_info else ())
        with gpuemu.validate_op(client, "relu", inputs={"input": x}) as ctx:
            ctx.set_output(x)
        case = client.get_test_case("relu", seed=3)
        strategy = strategies.cases("relu", max_size=8)
        print(case["seed"], strategy, fuzzed.ok)
        return int(results.ok)


async def later() -> bool:
    async with AsyncClient(threads=2) as client:
        found = await client.fuzz_op_client_side("relu", kernel, 3, seed=1)
        one = await client.validate_op("relu", {"input": np.ones(3)}, np.ones(3))
        return found.ok and one.passed


if __name__ == "__main__":
    raise SystemExit(main() + asyncio.run(later()))

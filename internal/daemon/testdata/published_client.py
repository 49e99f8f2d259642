"""Runs the published client gpuemu 0.1.0 against a daemon of ours: published_client.py SOCKET.

Every check prints its name; the first one that does not hold ends the program with its message and status 1.
The ops are those of v1_published_test.go.
"""

import struct
import sys
import time

import gpuemu
import numpy as np
from gpuemu.client import Client, ClientError
from gpuemu.rng import SeededRng, derive_seed

MATMUL = {
    "name": "matmul",
    "dims": [
        {"name": "M", "candidates": [1, 3, 8]},
        {"name": "K", "candidates": [2, 5]},
        {"name": "N", "candidates": [1, 7]},
    ],
    "inputs": [{"name": "a", "dims": ["M", "K"]}, {"name": "b", "dims": ["K", "N"]}],
    "output": {"name": "c", "dims": ["M", "N"]},
}


def softmax(inputs):
    (x,) = inputs.values()
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(x.dtype)


def check(holds, *what):
    if not holds:
        raise AssertionError(" ".join(str(w) for w in what))


def refused(call, text):
    try:
        got = call()
    except ClientError as err:
        check(text in str(err), "message", err, "lacks", text)
        return
    raise AssertionError(f"no error but {got}, want one with {text!r}")


def half_bits(x):
    """What the published daemon makes of a float32: bits are dropped, subnormals become zero."""
    (b,) = struct.unpack("<I", struct.pack("<f", x))
    exponent = (b >> 23 & 0xFF) - 127 + 15
    sign = b >> 16 & 0x8000
    if exponent <= 0:
        return sign
    return sign | exponent << 10 | b >> 13 & 0x3FF


def draw(rng, dtype, n):
    """n elements as the published daemon draws them, with the client's own generator."""
    values = [(rng.gen_f64() * 2.0 - 1.0) * 10.0 for _ in range(n)]
    if dtype == "float32":
        return np.array(values, dtype=np.float64).astype(np.float32).tobytes()
    check(dtype == "float16", "dtype", dtype)
    return np.array([half_bits(v) for v in values], dtype="<u2").tobytes()


def check_ping(c):
    got = c.ping()
    check(got["protocol_version"] == 1 and got["version"] and got["uptime_secs"] >= 0, got)


def check_case(case, master, i, shape_of, names):
    seed = derive_seed(master, f"iter_{i}")
    root = SeededRng(seed)
    dtype = root.derive("dtype").choice(["float32", "float16"])
    layout = root.derive("layout").choice(["contiguous", "strided"])
    check(case["seed"] == seed and case["dtype"] == dtype and case["layout"] == layout, i, case["seed"], seed)
    check(list(case["inputs"]) == names or sorted(case["inputs"]) == sorted(names), case["inputs"].keys())
    for k, name in enumerate(names):
        x = case["inputs"][name]
        check(list(x.shape) == shape_of(root, name), name, x.shape, shape_of(root, name))
        want = draw(root.derive("data").derive(f"input_{k}"), dtype, min(x.size, 300))
        check(x.tobytes()[: len(want)] == want, "bytes of", name, "of case", i)


def check_batch(c):
    def shape_of(root, _):
        g = root.derive("shape")
        if g.gen_bool(0.1):
            return g.choice([[1], [1, 1]])
        return [g.choice([1, 2, 4, 8]), g.choice([64, 128, 256]), g.choice([256, 512])]

    cases = c.get_test_batch("mine", count=4, seed=2**64 - 1)
    check(len(cases) == 4, len(cases))
    for i, case in enumerate(cases):
        check_case(case, 2**64 - 1, i, shape_of, ["input"])
        check(case["shape"] == list(case["inputs"]["input"].shape), case["shape"])
    one = c.get_test_case("mine", seed=2**64 - 1)
    check(one["seed"] == cases[0]["seed"], one["seed"])
    check(one["inputs"]["input"].tobytes() == cases[0]["inputs"]["input"].tobytes(), "get_test_case differs")


def check_schema_batch(c):
    sizes = {d["name"]: d["candidates"] for d in MATMUL["dims"]}
    dims = {t["name"]: t["dims"] for t in MATMUL["inputs"]}

    def shape_of(root, name):
        return [root.derive("shape").derive(d).choice(sizes[d]) for d in dims[name]]

    cases = c.get_test_batch("matmul", count=6, seed=12345, op_schema=MATMUL)
    for i, case in enumerate(cases):
        check_case(case, 12345, i, shape_of, ["a", "b"])
    refused(lambda: c.get_test_batch("matmul", count=10**9, seed=1), "count")
    refused(lambda: c.get_test_batch("nope", count=1, seed=1), "Configured ops: [softmax")


def check_submit(c):
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(1, 2, 6)
    y = softmax({"input": x})
    right = c.submit_output("mine", {"input": x}, y, seed=2**63 + 1)
    check(right.passed and right.seed == 2**63 + 1 and right.failures == [], right)
    check(right.error_stats["count"] == 12 and right.repro_info is None, right)
    wrong = y.copy()
    wrong[0, 1, 2] += 0.5
    got = c.submit_output("mine", {"input": x}, wrong, seed=2**63 + 2)
    check(not got.passed and got.failures[0]["kind"] == "ToleranceExceeded", got)
    check(got.failures[0]["index"] == 8 and abs(got.max_diff - 0.5) < 1e-3, got)
    check(got.repro_info.shape == [1, 2, 6] and got.repro_info.layout == "Contiguous", got.repro_info)
    # Other layouts travel as contiguous data with odd strides; the result is the same.
    turned = np.ascontiguousarray(x[:, ::-1, :])[:, ::-1, :]
    check(min(turned.strides) < 0 and c.submit_output("mine", {"input": turned}, y, seed=3).passed, "negative strides")
    check(not c.submit_output("mine", {"input": x}, y.astype(np.float64), seed=4).passed, "a float64 output passed")
    check(not c.submit_output("mine", {"input": x}, y[..., :3], seed=5).passed, "a truncated output passed")
    empty = np.zeros((0, 2, 6), dtype=np.float32)
    c.submit_output("mine", {"input": empty}, empty, seed=6)  # any verdict will do: the daemon must live
    refused(lambda: c.submit_output("mine", {"input": x.astype(np.complex64)}, y, seed=7), "complex64")


def check_validate(c):
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    before = time.time_ns()
    got = c.validate_op("mine", {"whatever": x}, softmax({"x": x}))
    check(got.passed and got.seed >= before, got)
    check(c.get_result(got.seed).passed, "get_result of a validated output")
    check(not c.validate_op("mine", {"input": x}, x).passed, "a wrong output passed")
    check(c.validate_op("scaled", {"x": x}, x * 3, scale=3).passed, "kwargs do not reach the reference")
    check(not c.validate_op("scaled", {"x": x}, x * 3, scale=2).passed, "kwargs are ignored")
    refused(lambda: c.validate_op("sofmax", {"input": x}, x), "Configured ops: [softmax")


def check_fuzz(c):
    small = dict(batch_sizes=[1, 2], seq_lengths=[3], hidden_dims=[33], dtypes=["float32"])
    good = c.fuzz_op("free", seed=7, iterations=20, **small)
    check((good.seed, good.total, good.passed, good.failed) == (7, 20, 20, 0), good)
    bad = c.fuzz_op("tail", seed=7, iterations=5, **small)
    check(bad.total == 5 and bad.failed >= 1 and len(bad.failures) == bad.failed, bad)
    fast = c.fuzz_op("tail", seed=7, iterations=5, fail_fast=True, **small)
    check(fast.failed == 1 and fast.total <= 5, fast)
    nobody = c.fuzz_op("mine", seed=7, iterations=3, **small)
    check(nobody.passed == 0 and nobody.failed == 3, "without a candidate nothing passes", nobody)
    check(nobody.failures[0].failures[0]["kind"] == "ReferenceError", nobody.failures[0])
    return next(f.seed for f in bad.failures if f.failures[0]["kind"] == "ToleranceExceeded")


def check_client_side(c):
    got = c.fuzz_op_client_side("freemine", softmax, iterations=5, seed=11)
    check((got.total, got.passed, got.failed) == (5, 5, 0), got)
    bad = c.fuzz_op_client_side("freemine", lambda i: softmax(i) + 1, iterations=3, seed=11, dtypes=["float32"])
    check(bad.failed == 3 and bad.failures[0].failures[0]["kind"] == "ToleranceExceeded", bad)
    mm = c.fuzz_op_client_side("matmul", lambda i: i["a"] @ i["b"], iterations=20, seed=3, op_schema=MATMUL,
                               dtypes=["float32"])
    check((mm.total, mm.passed) == (20, 20), mm)
    # The inputs of a failing case of a client are kept.
    first = c.get_test_batch("freemine", count=1, seed=11, dtypes=["float32"])[0]
    kept = c.reproduce(first["seed"])
    check(not kept.result.passed, kept.result)
    check(kept.inputs["input"].tobytes() == first["inputs"]["input"].tobytes(), "inputs of a client's case are lost")


def check_reproduce(c, seed):
    got = c.reproduce(seed)
    check(not got.result.passed and got.result.op_name == "tail" and got.result.seed == seed, got.result)
    check(got.inputs["input"].shape == tuple(got.result.repro_info.shape), got.result.repro_info)
    check(got.result.repro_info.input_snapshot[:2] == b"\x01\x00", "snapshot", got.result.repro_info)
    refused(lambda: c.reproduce(1), "seed 1")


def check_minimize(c, seed):
    got = c.minimize(seed, max_iters=200)
    check(got.original_seed == seed and got.minimized_seed != seed and not got.result.passed, got)
    check(got.minimized_shape == [1, 1, 17], "minimised to", got.minimized_shape)
    again = c.reproduce(got.minimized_seed)
    check(not again.result.passed and again.inputs["input"].shape == (1, 1, 17), again)
    c.minimize(seed, strategy="binary-search-values", max_iters=20)


def check_lists(c, seed):
    failures = c.list_failures(limit=1000)
    check(failures and all(not f.passed for f in failures), len(failures))
    check(any(f.seed == seed for f in failures), "the failure of fuzz_op is not listed")
    check(all(f.repro_info is None or f.repro_info.input_snapshot is None for f in failures), "a list carries inputs")
    check(len(c.list_failures(limit=2)) == 2 and c.list_failures(limit=0) == [], "limit")
    results = c.list_results(limit=1000)
    check(any(r.passed for r in results) and len(results) > len(failures), len(results))
    check(c.get_result(seed).op_name == "tail" and c.get_result(2) is None, "get_result")


PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 p)
{
  .reg .b64 %rd<2>;
  .reg .f32 %f<2>;
  .local .align 4 .b8 depot[16];
  ld.param.u64 %rd1, [p];
  ld.global.f32 %f1, [%rd1];
  add.f32 %f1, %f1, %f1;
  st.global.f32 [%rd1], %f1;
  ret;
}
"""


def check_lint(c):
    refused(lambda: c.lint_kernel(".version 8.0"), "text.ptx:1:1")
    (got,) = c.lint_kernel(PTX)
    check(got["kernel_name"] == "scale" and got["passed"] is False, "lint", got)
    metrics = got["metrics"]
    check(metrics["register_count"] in range(2, 5), "registers", metrics)
    check(metrics["instruction_count"] == 5 and metrics["local_memory_bytes"] == 16, "metrics", metrics)
    (violation,) = got["violations"]
    check(violation["kind"] == "ExcessiveLocalMemory", "violation", violation)
    check(violation["actual"] == 16 and violation["threshold"] == 0, "violation", violation)
    (named,) = c.lint_kernel(PTX, kernel_name="renamed")
    check(named["kernel_name"] == "renamed", "name", named)


def check_rest(c):
    c.store_baseline("published")
    refused(lambda: c.store_baseline(""), "tag")


def main(socket):
    check(gpuemu.__version__ == "0.1.0", "this is gpuemu", gpuemu.__version__)
    with Client(socket_path=socket) as c:
        for step in (check_ping, check_batch, check_schema_batch, check_submit, check_validate, check_client_side,
                     check_lint):
            print(step.__name__, flush=True)
            step(c)
        print("check_fuzz", flush=True)
        seed = check_fuzz(c)
        for step in (check_reproduce, check_minimize, check_lists):
            print(step.__name__, flush=True)
            step(c, seed)
        print("check_rest", flush=True)
        check_rest(c)
    with Client(socket_path=socket) as second:  # the daemon lives; the client has no method for the last request
        check_ping(second)
        check(second._send_request({"type": "Shutdown"}) == {"type": "Ok"}, "Shutdown")
    print("ok")


if __name__ == "__main__":
    main(sys.argv[1])

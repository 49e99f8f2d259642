"""Pairs of Triton kernels for the semantic diff: cases as in faults.cu and edits.cu, builds in BUILDS at the end.

The constexpr AFTER chooses the side and leaves no trace in the compiled kernel.
"""

import triton
import triton.language as tl


# case softmax_other: fault, mask: lanes beyond the row load 0 instead of minus infinity
@triton.jit
def softmax_other(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0 if AFTER else -float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=at < cols)


# case load_unmasked: fault, mask: the load has lost its mask
@triton.jit
def load_unmasked(x_ptr, out_ptr, n, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at) if AFTER else tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * x, mask=at < n)


# case floor_tiles: fault, tile loop: a remainder of the inner size is skipped
@triton.jit
def floor_tiles(x_ptr, out_ptr, n, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for step in range(0, n // BLOCK if AFTER else tl.cdiv(n, BLOCK)):
        at = step * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0))


# case dot_assigned: fault, accumulate: each tile's product replaces the sum
@triton.jit
def dot_assigned(a_ptr, b_ptr, c_ptr, k, S: tl.constexpr, AFTER: tl.constexpr):
    i = tl.arange(0, S)
    acc = tl.zeros((S, S), dtype=tl.float32)
    for start in range(0, k, S):
        a = tl.load(a_ptr + i[:, None] * k + start + i[None, :])
        b = tl.load(b_ptr + (start + i)[:, None] * S + i[None, :])
        if AFTER:
            acc = tl.dot(a, b)
        else:
            acc += tl.dot(a, b)
    tl.store(c_ptr + i[:, None] * S + i[None, :], acc)


# case dot_half: fault, accumulate: products are summed in half precision
@triton.jit
def dot_half(a_ptr, b_ptr, c_ptr, k, S: tl.constexpr, AFTER: tl.constexpr):
    i = tl.arange(0, S)
    acc = tl.zeros((S, S), dtype=tl.float16 if AFTER else tl.float32)
    for start in range(0, k, S):
        a = tl.load(a_ptr + i[:, None] * k + start + i[None, :])
        b = tl.load(b_ptr + (start + i)[:, None] * S + i[None, :])
        acc = tl.dot(a, b, acc, out_dtype=tl.float16 if AFTER else tl.float32)
    tl.store(c_ptr + i[:, None] * S + i[None, :], acc.to(tl.float32))


# case strides_swapped: fault, index: the strides of rows and columns change places
@triton.jit
def strides_swapped(x_ptr, out_ptr, row_stride, col_stride, S: tl.constexpr, AFTER: tl.constexpr):
    i = tl.arange(0, S)
    if AFTER:
        at = i[:, None] * col_stride + i[None, :] * row_stride
    else:
        at = i[:, None] * row_stride + i[None, :] * col_stride
    tl.store(out_ptr + i[:, None] * S + i[None, :], tl.load(x_ptr + at) * 0.5)


# case alpha_dropped: fault, online softmax: the sum is not rescaled when the maximum rises
@triton.jit
def alpha_dropped(x_ptr, out_ptr, n, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    top = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=-float("inf"))
        above = tl.maximum(top, tl.max(x, axis=0))
        fresh = tl.sum(tl.exp(x - above), axis=0)
        total = total + fresh if AFTER else total * tl.exp(top - above) + fresh
        top = above
    tl.store(out_ptr, top + tl.log(total))


# case block_divisor: fault, normalise: the mean is divided by the size of the block
@triton.jit
def block_divisor(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * cols + at, mask=at < cols, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, axis=0) / (BLOCK if AFTER else cols))


# case padded_variance: fault, normalise: lanes beyond the row count in the variance
@triton.jit
def padded_variance(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * cols + at, mask=at < cols, other=0.0)
    d = x - tl.sum(x, axis=0) / cols
    if not AFTER:
        d = tl.where(at < cols, d, 0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(d * d, axis=0) / cols)


# case cubic_constant: fault, constants: 0.0447 in place of 0.044715
@triton.jit
def cubic_constant(x_ptr, out_ptr, n, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    inner = 0.7978845608 * (x + (0.0447 if AFTER else 0.044715) * x * x * x)
    tl.store(out_ptr + at, x * tl.sigmoid(2.0 * inner), mask=at < n)


# case barrier_dropped: fault, concurrency: the barrier before a value is read back is gone
@triton.jit
def barrier_dropped(x_ptr, out_ptr, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + 1.0)
    if not AFTER:
        tl.debug_barrier()
    tl.store(x_ptr + at, tl.load(out_ptr + (BLOCK - 1 - at)))


# case store_not_added: fault, accumulate: programs overwrite one another's sums
@triton.jit
def store_not_added(x_ptr, out_ptr, n, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0)
    if AFTER:
        tl.store(out_ptr, total)
    else:
        tl.atomic_add(out_ptr, total)


# case triton_names: edit, same: the kernel, its parameters and its variables have other names
@triton.jit
def triton_names(x_ptr, out_ptr, n, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.exp(x) - 1.0, mask=at < n)


@triton.jit
def renamed_kernel(source, target, count, WIDTH: tl.constexpr, AFTER: tl.constexpr):
    offsets = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)

    # The same work, some lines further down.
    value = tl.load(source + offsets, mask=offsets < count)
    tl.store(target + offsets, tl.exp(value) - 1.0, mask=offsets < count)


# case triton_lines: edit, same: the compiler leaves out the line information
@triton.jit
def triton_lines(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * cols + at, mask=at < cols, other=-float("inf"))
    tl.store(out_ptr + tl.program_id(0), tl.max(x, axis=0))


# case triton_dead_branch: edit, same: a branch that is never taken is added
@triton.jit
def triton_dead_branch(x_ptr, out_ptr, n, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if AFTER and BLOCK < 0:
        x = x * 3.0
    tl.store(out_ptr + at, tl.abs(x), mask=at < n)


# case triton_commuted: edit, other: the operands of a sum change places
@triton.jit
def triton_commuted(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, y + x if AFTER else x + y, mask=at < n)


# case triton_warps: edit, other: eight warps in place of four
@triton.jit
def triton_warps(x_ptr, out_ptr, n, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.sigmoid(x), mask=at < n)


# case triton_stages: edit, other: a deeper pipeline of loads
@triton.jit
def triton_stages(a_ptr, b_ptr, c_ptr, k, S: tl.constexpr, AFTER: tl.constexpr):
    i = tl.arange(0, S)
    acc = tl.zeros((S, S), dtype=tl.float32)
    for start in range(0, k, S):
        a = tl.load(a_ptr + i[:, None] * k + start + i[None, :])
        b = tl.load(b_ptr + (start + i)[:, None] * S + i[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + i[:, None] * S + i[None, :], acc)


# case triton_machine: edit, other: another machine
@triton.jit
def triton_machine(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, AFTER: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * cols + at, mask=at < cols, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x * x, axis=0))


def build(kernel, signature, constants, before=None, after=None):
    """One case. before and after change what is usual: kernel, constants, arch, warps, stages, lines."""
    usual = {"kernel": kernel, "signature": signature.split(), "constants": constants, "arch": 80, "warps": 4,
             "stages": 2, "lines": True, "options": {}}
    return {"name": kernel.__name__, "before": {**usual, **(before or {})}, "after": {**usual, **(after or {})}}


ROW = "*fp32 *fp32 i32"
TILE = "*fp16 *fp16 *fp32 i32"
BUILDS = [
    build(softmax_other, ROW, {"BLOCK": 256}),
    build(load_unmasked, ROW, {"BLOCK": 256}),
    build(floor_tiles, ROW, {"BLOCK": 256}),
    build(dot_assigned, TILE, {"S": 32}),
    build(dot_half, TILE, {"S": 32}),
    build(strides_swapped, "*fp32 *fp32 i32 i32", {"S": 16}),
    build(alpha_dropped, ROW, {"BLOCK": 128}),
    build(block_divisor, ROW, {"BLOCK": 256}),
    build(padded_variance, ROW, {"BLOCK": 256}),
    build(cubic_constant, ROW, {"BLOCK": 256}),
    build(barrier_dropped, "*fp32 *fp32", {"BLOCK": 128}),
    build(store_not_added, ROW, {"BLOCK": 256}),
    build(triton_names, ROW, {"BLOCK": 256}, after={"kernel": renamed_kernel, "constants": {"WIDTH": 256}}),
    build(triton_lines, ROW, {"BLOCK": 256}, after={"lines": False}),
    build(triton_dead_branch, ROW, {"BLOCK": 256}),
    build(triton_commuted, "*fp32 *fp32 *fp32 i32", {"BLOCK": 256}),
    build(triton_warps, ROW, {"BLOCK": 1024}, after={"warps": 8}),
    build(triton_stages, TILE, {"S": 32}, after={"stages": 4}),
    build(triton_machine, ROW, {"BLOCK": 256}, after={"arch": 90}),
]

"""Scans, sorting, gathering, histograms and atomic operations of every kind."""

import numpy as np
import triton
import triton.language as tl
from launches import Cases, Launch, changed, given, grown, left, normal

CASES = Cases()
EVERY = (1, 2, 4, 8)


@triton.jit
def running_sums(x_ptr, out_ptr, back_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.cumsum(x, AXIS))
    tl.store(back_ptr + at, tl.cumsum(x * x, AXIS, reverse=True))


@triton.jit
def running_product(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.cumprod(tl.load(x_ptr + at), 0))


@triton.jit
def step_after(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def linear_recurrence(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    _, h = tl.associative_scan((tl.load(a_ptr + at), tl.load(b_ptr + at)), AXIS, step_after)
    tl.store(out_ptr + at, h)


@triton.jit
def scan_with_carry(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    carry = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        tl.store(out_ptr + at, tl.cumsum(x, 0) + carry, mask=at < n)
        carry += tl.sum(x, 0)


@triton.jit
def compact(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    keep = (x > 0).to(tl.int32)
    place = tl.cumsum(keep, 0) - keep
    tl.store(out_ptr + place, x, mask=x > 0)
    tl.store(count_ptr, tl.sum(keep, 0))


@triton.jit
def sort_rows(x_ptr, up_ptr, down_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(up_ptr + at, tl.sort(x, 1))
    tl.store(down_ptr + at, tl.sort(x, 1, descending=True))


@triton.jit
def top_rows(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :], tl.topk(x, K))


@triton.jit
def largest_in_turn(x_ptr, value_ptr, index_ptr, cols, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    for i in range(K):
        value, index = tl.max(x, axis=0, return_indices=True)
        tl.store(value_ptr + row * K + i, value)
        tl.store(index_ptr + row * K + i, index)
        x = tl.where(at == index, -float("inf"), x)


@triton.jit
def counts(x_ptr, out_ptr, BINS: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))


@triton.jit
def gather_axis(x_ptr, i_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.gather(tl.load(x_ptr + at), tl.load(i_ptr + at), AXIS))


@triton.jit
def gather_rows(ids_ptr, table_ptr, out_ptr, width, R: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    at = tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + rows)
    mask = (at < width)[None, :]
    tl.store(out_ptr + rows[:, None] * width + at[None, :], tl.load(table_ptr + ids[:, None] * width + at[None, :],
                                                                   mask=mask, other=0.0), mask=mask)


@triton.jit
def scatter_rows(ids_ptr, x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    to = tl.load(ids_ptr + row)
    x = tl.load(x_ptr + row * width + at, mask=at < width)
    tl.atomic_add(out_ptr + to * width + at, x, mask=at < width, sem="relaxed")


@triton.jit
def every_atomic(x_ptr, y_ptr, out_ptr, float_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0)
    y = tl.load(y_ptr + at, mask=mask, other=0.0)
    slot = at % 4
    tl.atomic_add(out_ptr + slot, x, mask=mask)
    tl.atomic_max(out_ptr + 4 + slot, x, mask=mask)
    tl.atomic_min(out_ptr + 8 + slot, x, mask=mask)
    tl.atomic_and(out_ptr + 12 + slot, x, mask=mask)
    tl.atomic_or(out_ptr + 16 + slot, x, mask=mask)
    tl.atomic_xor(out_ptr + 20 + slot, x, mask=mask)
    tl.atomic_max(float_ptr + slot, y, mask=mask)
    tl.atomic_min(float_ptr + 4 + slot, y, mask=mask)
    tl.atomic_add(float_ptr + 8, tl.sum(y))


@triton.jit
def half_atomics(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + at % 16, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def exchange(x_ptr, out_ptr, flag_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    old = tl.atomic_xchg(out_ptr + at, tl.load(x_ptr + at))
    first = tl.atomic_cas(flag_ptr, 0, tl.program_id(0) + 1)
    tl.store(x_ptr + at, old + tl.where(first == 0, 0.0, 0.0))


@triton.jit
def spin_lock(x_ptr, total_ptr, lock_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    while tl.atomic_cas(lock_ptr, 0, 1, sem="acquire") == 1:
        pass
    at = total_ptr + tl.arange(0, BLOCK)
    tl.store(at, tl.load(at) + x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0, sem="release")


# The block that comes last adds up what all of them left: a counter with acquire and release orders them.
@triton.jit
def last_block(x_ptr, part_ptr, count_ptr, out_ptr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * BLOCK + tl.arange(0, BLOCK))
    tl.store(part_ptr + pid, tl.sum(x * x))
    tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1, sem="acq_rel") == BLOCKS - 1:
        tl.debug_barrier()
        part = tl.load(part_ptr + tl.arange(0, BLOCKS), volatile=True)
        tl.store(out_ptr, tl.sum(part))


@triton.jit
def tickets(order_ptr, count_ptr):
    mine = tl.atomic_add(count_ptr, 1)
    tl.store(order_ptr + mine, tl.program_id(0))


@triton.jit
def turned_around(x_ptr, out_ptr, flip_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    col = tl.program_id(1) * N + tl.arange(0, N)
    inside = (row < rows)[:, None] & (col < cols)[None, :]
    x = tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
    out = out_ptr + col[:, None] * rows + row[None, :]
    tl.store(out, tl.trans(x), mask=(col < cols)[:, None] & (row < rows)[None, :])
    tl.store(flip_ptr + row[:, None] * cols + (cols - 1 - col)[None, :], x, mask=inside)


@triton.jit
def permuted(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    x = tl.load(x_ptr + a[:, None, None] * (B * C) + b[None, :, None] * C + c[None, None, :])
    tl.store(out_ptr + c[:, None, None] * (A * B) + a[None, :, None] * B + b[None, None, :], tl.permute(x, (2, 0, 1)))


@triton.jit
def shapes(x_ptr, y_ptr, pair_ptr, flat_ptr, flip_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    both = tl.join(x, y)
    tl.store(pair_ptr + at[:, None] * 2 + tl.arange(0, 2)[None, :], both)
    low, high = tl.split(tl.reshape(x, (N // 2, 2)))
    tl.store(flat_ptr + tl.arange(0, N // 2), low * high)
    tl.store(flip_ptr + at, tl.flip(x, 0))


@triton.jit
def euclid(a_ptr, b_ptr, out_ptr):
    i = tl.program_id(0)
    a, b = tl.load(a_ptr + i), tl.load(b_ptr + i)
    while b != 0:
        a, b = b, a % b
    tl.store(out_ptr + i, a)


@triton.jit
def search(sorted_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    low = tl.zeros([BLOCK], tl.int32)
    high = tl.zeros([BLOCK], tl.int32) + n
    while tl.max(high - low) > 0:
        middle = (low + high) // 2
        open = low < high
        value = tl.load(sorted_ptr + middle, mask=open, other=0.0)
        low = tl.where(open & (value < x), middle + 1, low)
        high = tl.where(open & (value >= x), middle, high)
    tl.store(out_ptr + at, low)


@triton.jit
def through_memory(x_ptr, scratch_ptr, out_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(scratch_ptr + at, tl.load(x_ptr + at) * 2)
    tl.debug_barrier()
    tl.store(out_ptr + at, tl.load(scratch_ptr + tl.program_id(0) * N + (N - 1 - tl.arange(0, N))))


def sums(m, n, axis):
    def draw(rng):
        x = normal(rng, (m, n))
        back = np.flip(np.flip(x * x, axis).cumsum(axis), axis)
        return Launch((1,), {"x_ptr": given(x), "out_ptr": left(x.cumsum(axis), "fp32", 2e-5),
                             "back_ptr": left(back, "fp32", 2e-5)})
    return draw


def running(n):
    def draw(rng):
        x = (1 + normal(rng, (2, n), scale=0.1)).astype(np.float32)
        return Launch((2,), {"x_ptr": given(x), "out_ptr": left(x.astype(float).cumprod(1), "fp32", 5e-5)})
    return draw


def recurrence(m, n, axis):
    def draw(rng):
        a, b = rng.random((m, n)).astype(np.float32).astype(float), normal(rng, (m, n))
        h, out = 0.0, []
        for i in range((m, n)[axis]):
            h = h * a.take(i, axis) + b.take(i, axis)
            out.append(h)
        return Launch((1,), {"a_ptr": given(a), "b_ptr": given(b), "out_ptr": left(np.stack(out, axis), "fp32", 2e-5)})
    return draw


def carried(n):
    def draw(rng):
        x = normal(rng, n)
        return Launch((1,), {"x_ptr": given(x), "out_ptr": left(x.cumsum(), "fp32", 5e-5), "n": n})
    return draw


def compacted(n):
    def draw(rng):
        x = normal(rng, n)
        kept = x[x > 0]
        want = np.concatenate([kept, np.full(n - kept.size, 7.0)])
        return Launch((1,), {"x_ptr": given(x), "out_ptr": changed(np.full(n, 7.0), want),
                             "count_ptr": left([kept.size], "i32"), "n": n})
    return draw


def ordered(m, n):
    def draw(rng):
        x = normal(rng, (m, n))
        return Launch((1,), {"x_ptr": given(x), "up_ptr": left(np.sort(x)), "down_ptr": left(np.sort(x)[:, ::-1])})
    return draw


def topmost(m, n, k):
    def draw(rng):
        x = normal(rng, (m, n))
        return Launch((1,), {"x_ptr": given(x), "out_ptr": left(np.sort(x)[:, ::-1][:, :k])})
    return draw


def in_turn(cols, k):
    def draw(rng):
        x = normal(rng, (3, cols))
        order = np.argsort(-x, axis=1)[:, :k]
        return Launch((3,), {"x_ptr": given(x), "value_ptr": left(np.take_along_axis(x, order, 1)),
                             "index_ptr": left(order, "i32"), "cols": cols})
    return draw


def counted(bins, block):
    def draw(rng):
        x, start = rng.integers(0, bins, (2, block)), rng.integers(0, 9, bins)
        want = start + np.bincount(x.ravel(), minlength=bins)
        return Launch((2,), {"x_ptr": given(x, "i32"), "out_ptr": changed(start, want, "i32")})
    return draw


def gathered(m, n, axis):
    def draw(rng):
        x, i = normal(rng, (m, n)), rng.integers(0, (m, n)[axis], (m, n))
        return Launch((1,), {"x_ptr": given(x), "i_ptr": given(i, "i32"),
                             "out_ptr": left(np.take_along_axis(x, i, axis))})
    return draw


def rows_of(width):
    def draw(rng):
        table, ids = normal(rng, (9, width), "fp16"), rng.integers(0, 9, 8)
        return Launch((2,), {"ids_ptr": given(ids, "i64"), "table_ptr": given(table, "fp16"),
                             "out_ptr": left(table[ids], "fp16"), "width": width})
    return draw


def scattered(width):
    def draw(rng):
        x, ids = normal(rng, (8, width)), rng.integers(0, 3, 8)
        start = normal(rng, (3, width))
        want = start.copy()
        np.add.at(want, ids, x)
        return Launch((8,), {"ids_ptr": given(ids, "i32"), "x_ptr": given(x),
                             "out_ptr": changed(start, want, "fp32", 1e-5), "width": width})
    return draw


def atomics(n, block):
    def draw(rng):
        x, y = rng.integers(-(1 << 20), 1 << 20, n), normal(rng, n)
        slots = [x[s::4] for s in range(4)]
        start = np.concatenate([np.zeros(4), np.full(4, -1 << 30), np.full(4, 1 << 30), np.full(4, -1), np.zeros(8)])
        ops = (np.sum, np.max, np.min, np.bitwise_and.reduce, np.bitwise_or.reduce, np.bitwise_xor.reduce)
        want = [op(s) for op in ops for s in slots]
        floats = [y[s::4].max() for s in range(4)] + [y[s::4].min() for s in range(4)] + [y.sum()]
        begin = np.concatenate([np.full(4, -9.0), np.full(4, 9.0), [0.0]])
        return Launch((-(-n // block),), {"x_ptr": given(x, "i32"), "y_ptr": given(y),
                                          "out_ptr": changed(start.astype(int), want, "i32"),
                                          "float_ptr": changed(begin, floats, "fp32", 2e-5), "n": n})
    return draw


def halves(n, block):
    def draw(rng):
        x = rng.integers(-8, 9, n) / 4  # sums are exact
        want = np.array([x[s::16].sum() for s in range(16)])
        return Launch((-(-n // block),), {"x_ptr": given(x, "fp16"), "out_ptr": changed(np.zeros(16), want, "fp16"),
                                          "n": n})
    return draw


def exchanged(n, block):
    def draw(rng):
        x, y = normal(rng, n), normal(rng, n)
        return Launch((n // block,), {"x_ptr": changed(x, y), "out_ptr": changed(y, x), "flag_ptr": grown([0]), "n": n})
    return draw


def locked(programs, block):
    def draw(rng):
        x, start = normal(rng, (programs, block)), normal(rng, block)
        return Launch((programs,), {"x_ptr": given(x), "total_ptr": changed(start, start + x.sum(0), "fp32", 1e-5),
                                    "lock_ptr": changed([0], [0], "i32")})
    return draw


def last(programs, block):
    def draw(rng):
        x = normal(rng, (programs, block))
        return Launch((programs,), {"x_ptr": given(x), "part_ptr": left((x * x).sum(1), "fp32", 1e-5),
                                    "count_ptr": changed([0], [programs], "i32"),
                                    "out_ptr": left([(x * x).sum()], "fp32", 1e-5)})
    return draw


def ticketed(programs):
    def draw(rng):
        return Launch((programs,), {"order_ptr": grown(np.full(programs, -1)),
                                    "count_ptr": changed([0], [programs], "i32")})
    return draw


def transposed(rows, cols, m, n):
    def draw(rng):
        x = normal(rng, (rows, cols))
        return Launch((-(-rows // m), -(-cols // n)), {"x_ptr": given(x), "out_ptr": left(x.T),
                                                       "flip_ptr": left(x[:, ::-1]), "rows": rows, "cols": cols})
    return draw


def cube(a, b, c):
    def draw(rng):
        x = normal(rng, (a, b, c))
        return Launch((1,), {"x_ptr": given(x), "out_ptr": left(x.transpose(2, 0, 1))})
    return draw


def shaped(n):
    def draw(rng):
        x, y = normal(rng, n), normal(rng, n)
        return Launch((1,), {"x_ptr": given(x), "y_ptr": given(y), "pair_ptr": left(np.stack([x, y], 1)),
                             "flat_ptr": left(x[::2] * x[1::2], "fp32", 1e-6), "flip_ptr": left(x[::-1])})
    return draw


def divisors(n):
    def draw(rng):
        a, b = rng.integers(1, 5000, n), rng.integers(1, 5000, n)
        return Launch((n,), {"a_ptr": given(a, "i32"), "b_ptr": given(b, "i32"), "out_ptr": left(np.gcd(a, b), "i32")})
    return draw


def searched(n, block):
    def draw(rng):
        x, values = normal(rng, block), np.sort(normal(rng, n))
        return Launch((1,), {"sorted_ptr": given(values), "x_ptr": given(x),
                             "out_ptr": left(np.searchsorted(values, x), "i32"), "n": n})
    return draw


def mirrored(n):
    def draw(rng):
        x = normal(rng, (3, n))
        return Launch((3,), {"x_ptr": given(x), "scratch_ptr": left(2 * x), "out_ptr": left(2 * x[:, ::-1])})
    return draw


for axis in (0, 1):
    CASES.of(running_sums, sums(8, 32, axis), warps=EVERY, M=8, N=32, AXIS=axis)
    CASES.of(linear_recurrence, recurrence(8, 32, axis), warps=EVERY, M=8, N=32, AXIS=axis)
    CASES.of(gather_axis, gathered(16, 32, axis), warps=(1, 4), M=16, N=32, AXIS=axis)
CASES.of(running_sums, sums(1, 256, 1), warps=EVERY, M=1, N=256, AXIS=1)
CASES.of(running_product, running(64), warps=(1, 4), BLOCK=64)
CASES.of(scan_with_carry, carried(300), warps=EVERY, BLOCK=128)
CASES.of(compact, compacted(100), warps=EVERY, BLOCK=128)
CASES.of(sort_rows, ordered(2, 64), warps=EVERY, M=2, N=64)
CASES.of(sort_rows, ordered(1, 128), warps=EVERY, M=1, N=128)
CASES.of(top_rows, topmost(2, 64, 8), warps=(1, 4), M=2, N=64, K=8)
CASES.of(largest_in_turn, in_turn(100, 4), warps=EVERY, K=4, BLOCK=128)
CASES.of(counts, counted(32, 128), warps=EVERY, BINS=32, BLOCK=128)
CASES.of(counts, counted(16, 64), warps=EVERY, BINS=16, BLOCK=64)
CASES.of(gather_rows, rows_of(100), warps=(1, 4), R=4, BLOCK=128)
CASES.of(scatter_rows, scattered(20), warps=EVERY, BLOCK=32)
CASES.of(scatter_rows, scattered(100), warps=EVERY, BLOCK=128)
CASES.of(every_atomic, atomics(100, 64), warps=EVERY, BLOCK=64)
CASES.of(every_atomic, atomics(20, 16), warps=EVERY, BLOCK=16)
CASES.of(half_atomics, halves(100, 64), warps=EVERY, BLOCK=64)
CASES.of(exchange, exchanged(64, 32), warps=EVERY, BLOCK=32)
CASES.of(spin_lock, locked(5, 32), warps=EVERY, BLOCK=32)
CASES.of(spin_lock, locked(4, 128), warps=EVERY, BLOCK=128)
CASES.of(last_block, last(8, 64), warps=EVERY, BLOCKS=8, BLOCK=64)
CASES.of(tickets, ticketed(6), warps=EVERY)
CASES.of(turned_around, transposed(40, 24, 16, 16), warps=EVERY, M=16, N=16)
CASES.of(permuted, cube(4, 8, 16), warps=(1, 4), A=4, B=8, C=16)
CASES.of(shapes, shaped(64), warps=EVERY, N=64)
CASES.of(euclid, divisors(6), warps=(1, 4))
CASES.of(search, searched(50, 64), warps=EVERY, BLOCK=64)
CASES.of(through_memory, mirrored(128), warps=EVERY, N=128)
CASES.of(through_memory, mirrored(32), warps=EVERY, N=32)

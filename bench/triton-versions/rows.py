"""Kernels that work on rows: softmax, norms with their gradients, losses, rotary embedding, quantization."""

import numpy as np
import triton
import triton.language as tl
from launches import Cases, Launch, changed, given, grown, left, normal

CASES = Cases()
EVERY = (1, 2, 4, 8)


@triton.jit
def softmax(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + at, (e / tl.sum(e, axis=0)).to(out_ptr.dtype.element_ty), mask=at < cols)


@triton.jit
def softmax_backward(y_ptr, dy_ptr, dx_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    col = tl.arange(0, N)
    at = row[:, None] * cols + col[None, :]
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    y = tl.load(y_ptr + at, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
    tl.store(dx_ptr + at, y * (dy - tl.sum(y * dy, axis=1)[:, None]), mask=mask)


@triton.jit
def log_softmax_many(x_ptr, out_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    col = tl.arange(0, N)
    at = row[:, None] * cols + col[None, :]
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=-1e30)
    x -= tl.max(x, axis=1, keep_dims=True)
    tl.store(out_ptr + at, x - tl.log(tl.sum(tl.exp(x), axis=1, keep_dims=True)), mask=mask)


@triton.jit
def rms_norm(x_ptr, w_ptr, out_ptr, rstd_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / cols + eps)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + at, mask=mask).to(tl.float32)
    tl.store(out_ptr + row * cols + at, (x * rstd * w).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm_backward(x_ptr, w_ptr, dy_ptr, rstd_ptr, dx_ptr, dw_ptr, rows, cols, per_program, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < cols
    w = tl.load(w_ptr + at, mask=mask, other=0.0)
    dw = tl.zeros([BLOCK], dtype=tl.float32)
    first = tl.program_id(0) * per_program
    for row in range(first, tl.minimum(first + per_program, rows)):
        x = tl.load(x_ptr + row * cols + at, mask=mask, other=0.0)
        dy = tl.load(dy_ptr + row * cols + at, mask=mask, other=0.0)
        rstd = tl.load(rstd_ptr + row)
        m = dy * w
        dx = rstd * m - rstd * rstd * rstd * x * (tl.sum(m * x, axis=0) / cols)
        dw += dy * (x * rstd)
        tl.store(dx_ptr + row * cols + at, dx, mask=mask)
    tl.store(dw_ptr + tl.program_id(0) * cols + at, dw, mask=mask)


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, out_ptr, mean_ptr, rstd_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
        x = tl.where(at < cols, x - mean, 0.0)
        total += x * x
    rstd = 1 / tl.sqrt(tl.sum(total, axis=0) / cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < cols
        x = tl.load(x_ptr + row * cols + at, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * tl.load(w_ptr + at, mask=mask) + tl.load(b_ptr + at, mask=mask)
        tl.store(out_ptr + row * cols + at, y, mask=mask)


# The gradient of a layer norm with locks: programs add to some rows of partial sums in turn, and the first of each
# stores instead. The form is that of Triton's tutorial.
@triton.jit
def layer_norm_backward(dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, cols,
                        GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    group = row % GROUPS
    lock = lock_ptr + group
    count_ptr = lock + GROUPS
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * cols + at, mask=mask, other=0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=mask).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    hat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1 = tl.sum(hat * wdy, axis=0) / cols
    c2 = tl.sum(wdy, axis=0) / cols
    tl.store(dx_ptr + row * cols + at, (wdy - (hat * c1 + c2)) * rstd, mask=mask)
    dw = dy * hat
    db = dy
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        dw += tl.load(dw_ptr + group * cols + at, mask=mask)
        db += tl.load(db_ptr + group * cols + at, mask=mask)
    tl.store(dw_ptr + group * cols + at, dw, mask=mask)
    tl.store(db_ptr + group * cols + at, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def layer_norm_sums(dw_ptr, db_ptr, out_w_ptr, out_b_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    col = tl.program_id(0) * N + tl.arange(0, N)
    dw = tl.zeros((M, N), dtype=tl.float32)
    db = tl.zeros((M, N), dtype=tl.float32)
    for i in range(0, rows, M):
        row = i + tl.arange(0, M)
        mask = (row[:, None] < rows) & (col[None, :] < cols)
        dw += tl.load(dw_ptr + row[:, None] * cols + col[None, :], mask=mask, other=0.0)
        db += tl.load(db_ptr + row[:, None] * cols + col[None, :], mask=mask, other=0.0)
    tl.store(out_w_ptr + col, tl.sum(dw, axis=0), mask=col < cols)
    tl.store(out_b_ptr + col, tl.sum(db, axis=0), mask=col < cols)


@triton.jit
def group_norm(x_ptr, w_ptr, b_ptr, out_ptr, groups, eps, C: tl.constexpr, S: tl.constexpr):
    group = tl.program_id(0) % groups
    at = tl.arange(0, C)[:, None] * S + tl.arange(0, S)[None, :]
    x = tl.load(x_ptr + tl.program_id(0) * (C * S) + at)
    mean = tl.sum(x) / (C * S)
    d = x - mean
    rstd = tl.rsqrt(tl.sum(d * d) / (C * S) + eps)
    c = group * C + tl.arange(0, C)
    y = d * rstd * tl.load(w_ptr + c)[:, None] + tl.load(b_ptr + c)[:, None]
    tl.store(out_ptr + tl.program_id(0) * (C * S) + at, y)


# Cross entropy that leaves its gradient in place of the logits, in two walks.
@triton.jit
def cross_entropy(x_ptr, target_ptr, loss_ptr, cols, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    base = x_ptr + row * cols
    target = tl.load(target_ptr + row)
    if target == ignore:
        for start in range(0, cols, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(base + at, 0.0, mask=at < cols)
        tl.store(loss_ptr + row, 0.0)
        return
    at_target = tl.load(base + target).to(tl.float32)
    top = float("-inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(base + at, mask=at < cols, other=float("-inf")).to(tl.float32)
        above = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - above) + tl.sum(tl.exp(x - above))
        top = above
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(base + at, mask=at < cols, other=float("-inf")).to(tl.float32)
        g = tl.exp(x - top) / total
        g = tl.where(at == target, g - 1.0, g)
        tl.store(base + at, g, mask=at < cols)
    tl.debug_barrier()
    tl.store(loss_ptr + row, top + tl.log(total) - at_target)


@triton.jit
def divergence(p_ptr, q_ptr, loss_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        p = tl.load(p_ptr + row * cols + at, mask=at < cols, other=1.0)
        q = tl.load(q_ptr + row * cols + at, mask=at < cols, other=1.0)
        total += p * (tl.log(p) - tl.log(q))
    tl.store(loss_ptr + row, tl.sum(total))


@triton.jit
def swiglu_backward(g_ptr, u_ptr, d_ptr, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * cols + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < cols
    g = tl.load(g_ptr + at, mask=mask, other=0.0)
    u = tl.load(u_ptr + at, mask=mask, other=0.0)
    d = tl.load(d_ptr + at, mask=mask, other=0.0)
    s = tl.sigmoid(g)
    tl.store(g_ptr + at, d * u * (s + g * s * (1 - s)), mask=mask)
    tl.store(u_ptr + at, d * g * s, mask=mask)


@triton.jit
def rope_heads(q_ptr, cos_ptr, sin_ptr, length, HEADS: tl.constexpr, HALF: tl.constexpr):
    token = tl.program_id(0)
    d = tl.arange(0, HALF)
    at = token * (HEADS * 2 * HALF) + tl.arange(0, HEADS)[:, None] * (2 * HALF) + d[None, :]
    c = tl.load(cos_ptr + (token % length) * HALF + d)[None, :]
    s = tl.load(sin_ptr + (token % length) * HALF + d)[None, :]
    low = tl.load(q_ptr + at)
    high = tl.load(q_ptr + at + HALF)
    tl.store(q_ptr + at, low * c - high * s)
    tl.store(q_ptr + at + HALF, high * c + low * s)


@triton.jit
def rope_pairs(x_ptr, angle_ptr, out_ptr, PAIRS: tl.constexpr):
    row = tl.program_id(0)
    at = row * (2 * PAIRS) + tl.arange(0, 2 * PAIRS)
    x = tl.reshape(tl.load(x_ptr + at), (PAIRS, 2))
    even, odd = tl.split(x)
    angle = tl.load(angle_ptr + row * PAIRS + tl.arange(0, PAIRS))
    c, s = tl.cos(angle), tl.sin(angle)
    tl.store(out_ptr + at, tl.interleave(even * c - odd * s, odd * c + even * s))


@triton.jit
def quantize(x_ptr, q_ptr, scale_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-8) / 127.0
    q = tl.floor(x / scale + 0.5)
    tl.store(q_ptr + row * cols + at, q.to(tl.int8), mask=at < cols)
    tl.store(scale_ptr + row, scale)


@triton.jit
def quantize_groups(x_ptr, q_ptr, scale_ptr, G: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0)
    at = row * (G * N) + tl.arange(0, G)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    scale = tl.max(tl.abs(x), axis=1) / 127.0 + 1e-8
    q = tl.floor(x / scale[:, None] + 0.5)
    tl.store(q_ptr + at, q.to(tl.int8))
    tl.store(scale_ptr + row * G + tl.arange(0, G), scale)


@triton.jit
def unpack_int4(q_ptr, scale_ptr, out_ptr, N: tl.constexpr):
    row = tl.program_id(0)
    word = tl.load(q_ptr + row * N + tl.arange(0, N))
    shift = tl.arange(0, 8) * 4
    nibble = (word[:, None] >> shift[None, :]) & 15
    value = (nibble - 8).to(tl.float32) * tl.load(scale_ptr + row)
    tl.store(out_ptr + row * (8 * N) + tl.arange(0, N)[:, None] * 8 + tl.arange(0, 8)[None, :], value)


def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_rows(cols, kind="fp32", tolerance=1e-5):
    def draw(rng):
        x = normal(rng, (3, cols), kind)
        return Launch((3,), {"x_ptr": given(x, kind), "out_ptr": left(soft(x), kind, tolerance), "cols": cols})
    return draw


def softmax_gradient(rows, cols, m):
    def draw(rng):
        y, dy = soft(normal(rng, (rows, cols))), normal(rng, (rows, cols))
        want = y * (dy - (y * dy).sum(1, keepdims=True))
        return Launch((-(-rows // m),), {"y_ptr": given(y), "dy_ptr": given(dy), "dx_ptr": left(want, "fp32", 2e-5),
                                         "rows": rows, "cols": cols})
    return draw


def log_rows(rows, cols, m):
    def draw(rng):
        x = normal(rng, (rows, cols))
        return Launch((-(-rows // m),), {"x_ptr": given(x), "out_ptr": left(np.log(soft(x)), "fp32", 1e-5),
                                         "rows": rows, "cols": cols})
    return draw


def rms_rows(cols, kind, tolerance):
    def draw(rng):
        x, w = normal(rng, (3, cols), kind), normal(rng, cols, kind)
        rstd = 1 / np.sqrt((x * x).mean(1) + 1e-5)
        return Launch((3,), {"x_ptr": given(x, kind), "w_ptr": given(w, kind),
                             "out_ptr": left(x * rstd[:, None] * w, kind, tolerance),
                             "rstd_ptr": left(rstd, "fp32", 1e-5), "cols": cols, "eps": 1e-5})
    return draw


def rms_gradient(rows, cols, programs):
    def draw(rng):
        x, dy, w = normal(rng, (rows, cols)), normal(rng, (rows, cols)), normal(rng, cols)
        rstd = 1 / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)
        m = dy * w
        dx = rstd * m - rstd**3 * x * (m * x).mean(1, keepdims=True)
        each = -(-rows // programs)
        dw = np.stack([(dy * x * rstd)[p * each : (p + 1) * each].sum(0) for p in range(programs)])
        return Launch((programs,), {"x_ptr": given(x), "w_ptr": given(w), "dy_ptr": given(dy),
                                    "rstd_ptr": given(rstd[:, 0]), "dx_ptr": left(dx, "fp32", 2e-5),
                                    "dw_ptr": left(dw, "fp32", 2e-5), "rows": rows, "cols": cols, "per_program": each})
    return draw


def layer_rows(cols):
    def draw(rng):
        x, w, b = normal(rng, (3, cols), "fp16"), normal(rng, cols), normal(rng, cols)
        mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + 1e-5)
        want = (x - mean[:, None]) * rstd[:, None] * w + b
        return Launch((3,), {"x_ptr": given(x, "fp16"), "w_ptr": given(w), "b_ptr": given(b),
                             "out_ptr": left(want, "fp32", 1e-5), "mean_ptr": left(mean, "fp32", 1e-4),
                             "rstd_ptr": left(rstd, "fp32", 1e-5), "cols": cols, "eps": 1e-5})
    return draw


def layer_gradient(rows, cols, groups):
    def draw(rng):
        x, dy, w = normal(rng, (rows, cols)), normal(rng, (rows, cols)), normal(rng, cols)
        mean, rstd = x.mean(1, keepdims=True), 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        hat = (x - mean) * rstd
        wdy = w * dy
        dx = (wdy - hat * (hat * wdy).mean(1, keepdims=True) - wdy.mean(1, keepdims=True)) * rstd
        dw = np.stack([(dy * hat)[g::groups].sum(0) for g in range(groups)])
        db = np.stack([dy[g::groups].sum(0) for g in range(groups)])
        return Launch((rows,), {
            "dx_ptr": left(dx, "fp32", 2e-5), "dy_ptr": given(dy), "dw_ptr": left(dw, "fp32", 2e-5),
            "db_ptr": left(db, "fp32", 2e-5), "x_ptr": given(x), "w_ptr": given(w), "mean_ptr": given(mean[:, 0]),
            "rstd_ptr": given(rstd[:, 0]), "lock_ptr": grown(np.zeros(2 * groups, np.int64)), "cols": cols,
        })  # fmt: skip
    return draw


def layer_sums(rows, cols, n):
    def draw(rng):
        dw, db = normal(rng, (rows, cols)), normal(rng, (rows, cols))
        return Launch((-(-cols // n),), {"dw_ptr": given(dw), "db_ptr": given(db),
                                         "out_w_ptr": left(dw.sum(0), "fp32", 1e-5),
                                         "out_b_ptr": left(db.sum(0), "fp32", 1e-5), "rows": rows, "cols": cols})
    return draw


def grouped(groups, c, s):
    def draw(rng):
        x, w, b = normal(rng, (2, groups, c, s)), normal(rng, (groups, c)), normal(rng, (groups, c))
        mean, var = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
        want = (x - mean) / np.sqrt(var + 1e-5) * w[None, :, :, None] + b[None, :, :, None]
        return Launch((2 * groups,), {"x_ptr": given(x), "w_ptr": given(w), "b_ptr": given(b),
                                      "out_ptr": left(want, "fp32", 2e-5), "groups": groups, "eps": 1e-5})
    return draw


def entropy(cols):
    def draw(rng):
        x = normal(rng, (4, cols))
        target = rng.integers(0, cols, 4)
        target[1] = -100
        p = soft(x)
        loss = -np.log(p[np.arange(4), target % cols])
        grad = p.copy()
        grad[np.arange(4), target % cols] -= 1
        loss[1], grad[1] = 0, 0
        return Launch((4,), {"x_ptr": changed(x, grad, "fp32", 1e-5), "target_ptr": given(target, "i64"),
                             "loss_ptr": left(loss, "fp32", 1e-5), "cols": cols, "ignore": -100})
    return draw


def diverging(cols):
    def draw(rng):
        p, q = soft(normal(rng, (3, cols))), soft(normal(rng, (3, cols)))
        return Launch((3,), {"p_ptr": given(p), "q_ptr": given(q),
                             "loss_ptr": left((p * np.log(p / q)).sum(1), "fp32", 1e-4), "cols": cols})
    return draw


def swiglu_gradient(cols):
    def draw(rng):
        g, u, d = (normal(rng, (3, cols)) for _ in range(3))
        s = 1 / (1 + np.exp(-g))
        return Launch((3,), {"g_ptr": changed(g, d * u * (s + g * s * (1 - s)), "fp32", 1e-5),
                             "u_ptr": changed(u, d * g * s, "fp32", 1e-5), "d_ptr": given(d), "cols": cols})
    return draw


def turned(heads, half):
    def draw(rng):
        x, angle = normal(rng, (6, heads, 2, half)), rng.standard_normal((3, half))
        c, s = np.cos(angle), np.sin(angle)
        cc, ss = np.tile(c, (2, 1))[:, None], np.tile(s, (2, 1))[:, None]
        want = np.stack([x[:, :, 0] * cc - x[:, :, 1] * ss, x[:, :, 1] * cc + x[:, :, 0] * ss], axis=2)
        return Launch((6,), {"q_ptr": changed(x, want, "fp32", 1e-5), "cos_ptr": given(c), "sin_ptr": given(s),
                             "length": 3})
    return draw


def turned_pairs(pairs):
    def draw(rng):
        x, angle = normal(rng, (3, pairs, 2)), normal(rng, (3, pairs))
        c, s = np.cos(angle), np.sin(angle)
        want = np.stack([x[..., 0] * c - x[..., 1] * s, x[..., 1] * c + x[..., 0] * s], axis=2)
        return Launch((3,), {"x_ptr": given(x), "angle_ptr": given(angle), "out_ptr": left(want, "fp32", 1e-5)})
    return draw


def whole_numbers(rng, shape):
    """Rows with largest magnitude 127/4, so that all quotients by the scale, a quarter, are exact."""
    x = rng.integers(-126, 127, shape) / 4
    x[..., 3] = 127 / 4
    return x


def quantized(cols):
    def draw(rng):
        x = whole_numbers(rng, (3, cols))
        return Launch((3,), {"x_ptr": given(x), "q_ptr": left((4 * x).astype(int), "i8"),
                             "scale_ptr": left(np.full(3, 0.25), "fp32", 1e-6), "cols": cols})
    return draw


def quantized_groups(g, n):
    def draw(rng):
        x = whole_numbers(rng, (3, g, n))
        return Launch((3,), {"x_ptr": given(x), "q_ptr": left((4 * x).astype(int), "i8"),
                             "scale_ptr": left(np.full((3, g), 0.25), "fp32", 1e-6)})
    return draw


def unpacked(n):
    def draw(rng):
        nibbles = rng.integers(0, 16, (3, n, 8))
        words = (nibbles << (4 * np.arange(8))).sum(2).astype(np.uint32).view(np.int32)
        scale = normal(rng, 3)
        want = (nibbles - 8) * scale[:, None, None]
        return Launch((3,), {"q_ptr": given(words, "i32"), "scale_ptr": given(scale),
                             "out_ptr": left(want, "fp32", 1e-6)})
    return draw


CASES.of(softmax, softmax_rows(100), warps=EVERY, BLOCK=128)
CASES.of(softmax, softmax_rows(700, "fp16", 2e-3), warps=EVERY, suffix="fp16", BLOCK=1024)
CASES.of(softmax, softmax_rows(20), warps=EVERY, BLOCK=32)
CASES.of(softmax_backward, softmax_gradient(7, 30, 4), warps=EVERY, M=4, N=32)
CASES.of(log_softmax_many, log_rows(7, 60, 4), warps=EVERY, M=4, N=64)
CASES.of(rms_norm, rms_rows(100, "bf16", 1e-2), warps=EVERY, BLOCK=128)
CASES.of(rms_norm, rms_rows(64, "fp32", 1e-5), warps=EVERY, BLOCK=64)
CASES.of(rms_norm_backward, rms_gradient(7, 100, 3), warps=EVERY, BLOCK=128)
CASES.of(rms_norm_backward, rms_gradient(5, 40, 2), warps=EVERY, BLOCK=64)
CASES.of(layer_norm, layer_rows(200), warps=EVERY, BLOCK=128)
CASES.of(layer_norm_backward, layer_gradient(8, 100, 3), warps=EVERY, GROUPS=3, BLOCK=128)
CASES.of(layer_norm_backward, layer_gradient(5, 24, 1), warps=EVERY, GROUPS=1, BLOCK=32)
CASES.of(layer_norm_sums, layer_sums(11, 50, 32), warps=EVERY, M=8, N=32)
CASES.of(group_norm, grouped(3, 4, 16), warps=EVERY, C=4, S=16)
CASES.of(cross_entropy, entropy(300), warps=EVERY, BLOCK=128)
CASES.of(divergence, diverging(300), warps=EVERY, BLOCK=128)
CASES.of(swiglu_backward, swiglu_gradient(100), warps=(1, 4), BLOCK=128)
CASES.of(swiglu_backward, swiglu_gradient(30), warps=(1, 4), BLOCK=32)
CASES.of(rope_heads, turned(4, 16), warps=EVERY, HEADS=4, HALF=16)
CASES.of(rope_pairs, turned_pairs(32), warps=EVERY, PAIRS=32)
CASES.of(quantize, quantized(100), warps=EVERY, BLOCK=128)
CASES.of(quantize_groups, quantized_groups(4, 32), warps=EVERY, G=4, N=32)
CASES.of(unpack_int4, unpacked(16), warps=(1, 4), N=16)

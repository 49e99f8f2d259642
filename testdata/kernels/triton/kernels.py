"""Triton kernels of ordinary work, and how each is compiled: BUILDS at the end of the file."""

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask), mask=mask)


@triton.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    tanh = 2.0 * tl.sigmoid(2.0 * inner) - 1.0
    tl.store(out_ptr + at, 0.5 * x * (1.0 + tanh), mask=at < n)


@triton.jit
def silu_mul(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + at, mask=at < n).to(tl.float32)
    up = tl.load(up_ptr + at, mask=at < n).to(tl.float32)
    tl.store(out_ptr + at, (gate * tl.sigmoid(gate) * up).to(out_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def softmax(x_ptr, out_ptr, row_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + at, mask=at < cols, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * row_stride + at, e / tl.sum(e, axis=0), mask=at < cols)


@triton.jit
def layernorm(x_ptr, gamma_ptr, beta_ptr, out_ptr, mean_ptr, rstd_ptr, cols, eps, BLOCK: tl.constexpr):
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
    rstd = 1.0 / tl.sqrt(tl.sum(total, axis=0) / cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < cols
        x = tl.load(x_ptr + row * cols + at, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * tl.load(gamma_ptr + at, mask=mask) + tl.load(beta_ptr + at, mask=mask)
        tl.store(out_ptr + row * cols + at, y, mask=mask)


@triton.jit
def rmsnorm(x_ptr, w_ptr, out_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / cols + eps)
    w = tl.load(w_ptr + at, mask=at < cols).to(tl.float32)
    tl.store(out_ptr + row * cols + at, (x * scale * w).to(out_ptr.dtype.element_ty), mask=at < cols)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, m, n, k, am, ak, bk, bn, cm, cn, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
           PRECISION: tl.constexpr, ACC: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    cols = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    a_at = a_ptr + (rows % m)[:, None] * am + inner[None, :] * ak
    b_at = b_ptr + inner[:, None] * bk + (cols % n)[None, :] * bn
    acc = tl.zeros((M, N), dtype=ACC)
    for step in range(0, tl.cdiv(k, K)):
        a = tl.load(a_at, mask=inner[None, :] < k - step * K, other=0.0)
        b = tl.load(b_at, mask=inner[:, None] < k - step * K, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=ACC)
        a_at += K * ak
        b_at += K * bk
    out = c_ptr + rows[:, None] * cm + cols[None, :] * cn
    tl.store(out, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < m) & (cols[None, :] < n))


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, length, stride, CAUSAL: tl.constexpr, M: tl.constexpr,
              N: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1).to(tl.int64) * stride
    rows = tl.program_id(0) * M + tl.arange(0, M)
    wide = tl.arange(0, D)
    cols = tl.arange(0, N)
    q = tl.load(q_ptr + base + rows[:, None] * D + wide[None, :], mask=rows[:, None] < length, other=0.0)
    top = tl.full([M], -float("inf"), dtype=tl.float32)
    total = tl.zeros([M], dtype=tl.float32)
    acc = tl.zeros([M, D], dtype=tl.float32)
    end = length
    if CAUSAL:
        end = tl.minimum(length, (tl.program_id(0) + 1) * M)
    for start in range(0, end, N):
        at = start + cols
        k = tl.load(k_ptr + base + at[None, :] * D + wide[:, None], mask=at[None, :] < length, other=0.0)
        s = tl.dot(q, k) * (scale * 1.4426950408889634)
        s = tl.where(at[None, :] < length, s, -float("inf"))
        if CAUSAL:
            s = tl.where(rows[:, None] >= at[None, :], s, -float("inf"))
        above = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - above[:, None])
        alpha = tl.exp2(top - above)
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptr + base + at[:, None] * D + wide[None, :], mask=at[:, None] < length, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        top = above
    out = acc / total[:, None]
    tl.store(o_ptr + base + rows[:, None] * D + wide[None, :], out.to(o_ptr.dtype.element_ty),
             mask=rows[:, None] < length)
    tl.store(lse_ptr + tl.program_id(1) * length + rows, top + tl.log2(total), mask=rows < length)


@triton.jit
def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > p
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=at < n)


@triton.jit
def cross_entropy(x_ptr, target_ptr, loss_ptr, cols, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row)
    if target == ignore:
        tl.store(loss_ptr + row, 0.0)
        return
    top = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        above = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - above) + tl.sum(tl.exp(x - above))
        top = above
    tl.store(loss_ptr + row, top + tl.log(total) - tl.load(x_ptr + row * cols + target).to(tl.float32))


@triton.jit
def histogram(x_ptr, bins_ptr, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    counts = tl.histogram(x, BINS, mask=at < n)
    tl.atomic_add(bins_ptr + tl.arange(0, BINS), counts, sem="relaxed")


@triton.jit
def atomics(x_ptr, sum_ptr, max_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(sum_ptr, tl.sum(x, axis=0))
    tl.atomic_max(max_ptr + at % 4, x, mask=at < n)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(sum_ptr + 1, tl.load(sum_ptr + 1) + 1.0)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def add_pair(a, b):
    return a + b


@triton.jit
def scan(x_ptr, out_ptr, total_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    col = tl.arange(0, N)[None, :]
    mask = (row < rows) & (col < cols)
    x = tl.load(x_ptr + row * cols + col, mask=mask, other=0.0)
    tl.store(out_ptr + row * cols + col, tl.associative_scan(x, 1, add_pair), mask=mask)
    tl.store(total_ptr + row, tl.reduce(x, 1, add_pair, keep_dims=True), mask=row < rows)


@triton.jit
def rotary(x_ptr, cos_ptr, sin_ptr, positions, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, HALF)
    position = tl.load(positions + row)
    c = tl.load(cos_ptr + position * HALF + at)
    s = tl.load(sin_ptr + position * HALF + at)
    low = tl.load(x_ptr + row * 2 * HALF + at)
    high = tl.load(x_ptr + row * 2 * HALF + HALF + at)
    tl.store(x_ptr + row * 2 * HALF + at, low * c - high * s)
    tl.store(x_ptr + row * 2 * HALF + HALF + at, high * c + low * s)


@triton.jit
def argmax(x_ptr, value_ptr, index_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(value_ptr + row, value)
    tl.store(index_ptr + row, index)


@triton.jit
def sort_rows(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at)))


@triton.jit
def transpose(x_ptr, out_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    col = tl.program_id(1) * N + tl.arange(0, N)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    x = tl.load(x_ptr + row[:, None] * cols + col[None, :], mask=inside)
    tl.store(out_ptr + col[:, None] * rows + row[None, :], tl.trans(x), mask=tl.trans(inside))


@triton.jit
def quantise(x_ptr, q_ptr, scale_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-10) / 448.0
    tl.store(q_ptr + row * cols + at, (x / scale).to(q_ptr.dtype.element_ty), mask=at < cols)
    tl.store(scale_ptr + row, scale)


@triton.jit
def embedding(ids_ptr, table_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    id = tl.load(ids_ptr + row)
    tl.device_assert(id >= 0, "an id is not negative")
    tl.store(out_ptr + row * width + at, tl.load(table_ptr + id * width + at, mask=at < width), mask=at < width)


@triton.jit
def tensor_matmul(a_ptr, b_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [M, K])
    b = tl.make_tensor_descriptor(b_ptr, [k, n], [n, 1], [K, N])
    c = tl.make_tensor_descriptor(c_ptr, [m, n], [n, 1], [M, N])
    row = tl.program_id(0) * M
    col = tl.program_id(1) * N
    acc = tl.zeros((M, N), dtype=tl.float32)
    for at in range(0, k, K):
        acc = tl.dot(a.load([row, at]), b.load([at, col]), acc)
    c.store([row, col], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def inline_assembly(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = tl.inline_asm_elementwise("{ .reg .b32 t; shl.b32 t, $1, 3; lop3.b32 $0, t, $1, 7, 0x6a; }", "=r,r", [x],
                                  dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out_ptr + at, y)


# In place, and with less elements than the block has threads: all warps load them, one stores.
@triton.jit
def halve_in_place(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(x_ptr + at, x * 0.5 + 1.0, mask=at < n)


@triton.jit
def centre_in_place(x_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    tl.store(x_ptr + row * cols + at, x - tl.max(x, axis=0), mask=at < cols)


def build(kernel, signature, constants, archs=(80, 90), warps=4, stages=3, suffix="", **options):
    """One row of BUILDS. The signature gives types of the arguments in order; constants are the constexpr ones."""
    return {"kernel": kernel, "signature": signature.split(), "constants": constants, "archs": archs, "warps": warps,
            "stages": stages, "suffix": suffix, "options": options}


def product(a, b, c, m, n, k, precision="ieee", acc=tl.float32, **rest):
    """A build of matmul: types of the operands and the tile."""
    constants = {"M": m, "N": n, "K": k, "PRECISION": precision, "ACC": acc, "ak": 1, "bn": 1, "cn": 1}
    return build(matmul, f"*{a} *{b} *{c} i32 i32 i32 i32 1 i32 1 i32 1", constants, **rest)


BUILDS = [
    build(add, "*fp32 *fp32 *fp32 i32", {"BLOCK": 1024}),
    build(add, "*fp16 *fp16 *fp16 i32", {"BLOCK": 256}, archs=(80,), warps=1, suffix="-fp16"),
    build(gelu, "*fp32 *fp32 i32", {"BLOCK": 512}, archs=(80,)),
    build(silu_mul, "*bf16 *bf16 *bf16 i32", {"BLOCK": 1024}),
    build(softmax, "*fp32 *fp32 i32 i32", {"BLOCK": 1024}),
    build(softmax, "*fp16 *fp16 i32 i32", {"BLOCK": 4096}, archs=(90,), warps=8, suffix="-fp16"),
    build(layernorm, "*fp16 *fp32 *fp32 *fp32 *fp32 *fp32 i32 fp32", {"BLOCK": 1024}, archs=(80,)),
    build(rmsnorm, "*bf16 *bf16 *bf16 i32 fp32", {"BLOCK": 2048}),
    product("fp16", "fp16", "fp16", 64, 64, 32, archs=(80,), suffix="-fp16"),
    product("fp16", "fp16", "fp32", 64, 64, 64, archs=(90,), stages=2, suffix="-fp16"),
    product("fp16", "fp16", "fp16", 32, 32, 32, acc=tl.float16, archs=(80,), stages=2, suffix="-fp16acc"),
    product("bf16", "bf16", "bf16", 64, 32, 32, archs=(80,), stages=4, suffix="-bf16"),
    product("fp32", "fp32", "fp32", 32, 32, 32, precision="tf32", archs=(80,), suffix="-tf32"),
    product("fp32", "fp32", "fp32", 16, 16, 16, precision="ieee", archs=(80,), warps=2, stages=1, suffix="-fp32"),
    product("fp8e4nv", "fp8e4nv", "fp32", 64, 64, 64, archs=(90,), stages=2, suffix="-fp8"),
    product("fp8e5", "fp8e5", "fp32", 32, 32, 32, archs=(80,), stages=1, suffix="-fp8e5"),
    product("i8", "i8", "i32", 32, 32, 64, acc=tl.int32, archs=(80,), suffix="-int8"),
    build(attention, "*fp16 *fp16 *fp16 *fp16 *fp32 fp32 i32 i64", {"CAUSAL": True, "M": 64, "N": 32, "D": 32},
          archs=(80,), stages=2),
    build(attention, "*bf16 *bf16 *bf16 *bf16 *fp32 fp32 i32 i64", {"CAUSAL": False, "M": 64, "N": 64, "D": 64},
          archs=(90,), stages=1),
    build(dropout, "*fp32 *fp32 i32 fp32 i32", {"BLOCK": 256}, archs=(80,)),
    build(cross_entropy, "*fp32 *i64 *fp32 i32 i32", {"BLOCK": 1024}, warps=8),
    build(histogram, "*i32 *i32 i32", {"BLOCK": 256, "BINS": 64}),
    build(atomics, "*fp32 *fp32 *fp32 *i32 i32", {"BLOCK": 128}),
    build(scan, "*fp32 *fp32 *fp32 i32 i32", {"M": 4, "N": 128}, archs=(80,)),
    build(rotary, "*fp32 *fp32 *fp32 *i32", {"HALF": 64}, archs=(80,), warps=2),
    build(argmax, "*fp32 *fp32 *i32 i32", {"BLOCK": 512}, archs=(80,)),
    build(sort_rows, "*fp32 *fp32", {"N": 32}, archs=(80,), warps=1),
    build(transpose, "*fp16 *fp16 i32 i32", {"M": 32, "N": 32}),
    build(quantise, "*fp32 *fp8e4nv *fp32 i32", {"BLOCK": 512}, archs=(90,)),
    build(embedding, "*i64 *fp16 *fp16 i32", {"BLOCK": 256}, archs=(80,), debug=True),
    build(tensor_matmul, "*fp16 *fp16 *fp16 i32 i32 i32", {"M": 64, "N": 64, "K": 32}, archs=(90,), stages=2),
    build(inline_assembly, "*i32 *i32", {"BLOCK": 128}, archs=(80,)),
    build(halve_in_place, "*fp32 i32", {"BLOCK": 32}),
    build(centre_in_place, "*fp32 i32", {"BLOCK": 16}),
]

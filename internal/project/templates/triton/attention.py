import numpy as np
import triton
import triton.language as tl


@triton.jit
def attention_kernel(q, k, v, y, group, M, N, D, scale, CAUSAL: tl.constexpr, BLOCK_D: tl.constexpr,
                     BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """One program per BLOCK_M rows of a head, with an online softmax over tiles of BLOCK_N keys."""
    head = tl.program_id(1).to(tl.int64)
    other = head // group  # the head of k and v
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    d = tl.arange(0, BLOCK_D)[None, :]
    queries = tl.load(q + (head * M + rows) * D + d, mask=(rows < M) & (d < D), other=0.0)
    most = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    for start in range(0, N, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        at = (other * N + keys[:, None]) * D + d
        inside = (keys[:, None] < N) & (d < D)
        tile = tl.load(k + at, mask=inside, other=0.0)
        scores = tl.dot(queries, tl.trans(tile), input_precision="ieee") * scale
        seen = keys[None, :] < N
        if CAUSAL:  # the last row sees the last key
            seen = seen & (keys[None, :] <= rows + N - M)
        scores = tl.where(seen, scores, -float("inf"))
        now = tl.maximum(most, tl.max(scores, axis=1))
        base = tl.where(now == -float("inf"), 0.0, now)  # nothing was seen yet
        alpha = tl.exp(most - base)
        weights = tl.exp(scores - base[:, None])
        total = total * alpha + tl.sum(weights, axis=1)
        values = tl.load(v + at, mask=inside, other=0.0).to(tl.float32)
        acc = acc * alpha[:, None] + tl.dot(weights, values, input_precision="ieee")
        most = now
    tl.store(y + (head * M + rows) * D + d, acc / total[:, None], mask=(rows < M) & (d < D))


def attention(inputs, causal=False, scale=0.0):
    q, k, v = (np.ascontiguousarray(inputs[name]) for name in ("q", "k", "v"))
    batch, heads, m, d = q.shape
    group, n = heads // k.shape[1], k.shape[2]
    y = np.empty_like(q)
    if y.size > 0:
        grid = (triton.cdiv(m, 16), batch * heads)
        attention_kernel[grid](q, k, v, y, group, m, n, d, scale or d**-0.5, CAUSAL=causal,
                               BLOCK_D=max(16, triton.next_power_of_2(d)), BLOCK_M=16, BLOCK_N=32)  # fmt: skip
    return y

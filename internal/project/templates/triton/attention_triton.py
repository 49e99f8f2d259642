"""softmax(scale q k^T) v as a Triton kernel: one program per 16 rows of a head, with an online softmax over tiles of 32
keys. gpuemu init writes it beside its numpy version.
"""
import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(q, k, v, y, M, N, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    d = tl.arange(0, D)
    queries = tl.load(q + (head * M + rows) * D + d[None, :], mask=rows < M, other=0.0)
    most = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for start in range(0, N, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        at = (head * N + keys[:, None]) * D + d[None, :]
        tile = tl.load(k + at, mask=keys[:, None] < N, other=0.0)
        scores = tl.dot(queries, tl.trans(tile), input_precision="ieee") * scale
        scores = tl.where(keys[None, :] < N, scores, -float("inf"))
        now = tl.maximum(most, tl.max(scores, axis=1))
        alpha = tl.exp(most - now)
        weights = tl.exp(scores - now[:, None])
        total = total * alpha + tl.sum(weights, axis=1)
        values = tl.load(v + at, mask=keys[:, None] < N, other=0.0).to(tl.float32)
        acc = acc * alpha[:, None] + tl.dot(weights, values, input_precision="ieee")
        most = now
    tl.store(y + (head * M + rows) * D + d[None, :], acc / total[:, None], mask=rows < M)


def attention(q, k, v, scale=0.0):
    group = q.shape[1] // k.shape[1]
    q = q.contiguous()
    k, v = (t.repeat_interleave(group, dim=1).contiguous() for t in (k, v))
    batch, heads, m, d = q.shape  # d must be a power of two, 16 or more
    y = torch.empty_like(q)
    if y.numel() > 0:
        grid = (triton.cdiv(m, 16), batch * heads)
        attention_kernel[grid](q, k, v, y, m, k.shape[2], scale or d**-0.5, D=d, BLOCK_M=16, BLOCK_N=32)
    return y

"""Causal attention with an online softmax over tiles of keys.

q is [B, HQ, M, D], k and v are [B, HKV, N, D], with any strides; G query heads share a head of keys. A program has TM
rows and TD columns of the output; scores take all of D, tile by tile.
"""

import triton
import triton.language as tl


@triton.jit
def attention_causal(
    q, k, v, out, HQ, G, M, N, D,
    q_b, q_h, q_m, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d,
    TM: tl.constexpr, TN: tl.constexpr, TD: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(1) // HQ
    head = tl.program_id(1) % HQ
    q += batch * q_b + head * q_h
    k += batch * k_b + (head // G) * k_h
    v += batch * v_b + (head // G) * v_h
    m = tl.program_id(0) * TM + tl.arange(0, TM)[:, None]
    own = tl.program_id(2) * TD + tl.arange(0, TD)[None, :]  # columns of the output
    scale = 1.0 / tl.sqrt(D.to(tl.float32))
    top = tl.full((TM,), float("-inf"), tl.float32)
    total = tl.zeros((TM,), tl.float32)
    acc = tl.zeros((TM, TD), tl.float32)
    for start in range(0, N, TN):
        n = start + tl.arange(0, TN)[None, :]
        s = tl.zeros((TM, TN), tl.float32)
        for d_start in range(0, D, TD):
            d = d_start + tl.arange(0, TD)
            x = tl.load(q + m * q_m + d[None, :] * q_d, mask=(m < M) & (d[None, :] < D), other=0.0)
            y = tl.load(k + n * k_n + d[:, None] * k_d, mask=(n < N) & (d[:, None] < D), other=0.0)
            s += tl.dot(x, y, input_precision="ieee")
        seen = (n < N) & (n <= m + N - M)  # the last row sees the last key
        s = tl.where(seen, s * scale, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        safe = tl.where(new == float("-inf"), 0.0, new)  # a row that has seen no key yet
        p = tl.exp(s - safe[:, None])
        alpha = tl.exp(top - safe)
        total = total * alpha + tl.sum(p, 1)
        n_col = start + tl.arange(0, TN)[:, None]
        z = tl.load(v + n_col * v_n + own * v_d, mask=(n_col < N) & (own < D), other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(z.dtype), z, input_precision="ieee")
        top = new
    o = acc / total[:, None]
    tl.store(out + (tl.program_id(1) * M + m) * D + own, o.to(out.dtype.element_ty), mask=(m < M) & (own < D))

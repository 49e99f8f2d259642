"""silu(a b + bias) of a [M, K], b [K, N] and bias [N] with any strides: a program has one tile of the result."""

import triton
import triton.language as tl


@triton.jit
def linear_act(
    a, b, bias, out, M, N, K, a_m, a_k, b_k, b_n, bias_n, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr
):
    m = tl.program_id(0) * TM + tl.arange(0, TM)[:, None]
    n = tl.program_id(1) * TN + tl.arange(0, TN)[None, :]
    acc = tl.zeros((TM, TN), tl.float32)
    for start in range(0, K, TK):
        k = start + tl.arange(0, TK)
        k_row = k[None, :]
        k_col = k[:, None]
        x = tl.load(a + m * a_m + k_row * a_k, mask=(m < M) & (k_row < K), other=0.0)
        y = tl.load(b + k_col * b_k + n * b_n, mask=(k_col < K) & (n < N), other=0.0)
        acc += tl.dot(x, y)
    acc += tl.load(bias + n * bias_n, mask=n < N, other=0.0).to(tl.float32)
    z = acc / (1.0 + tl.exp(-acc))
    live = (m < M) & (n < N)
    tl.store(out + m * N + n, z.to(out.dtype.element_ty), mask=live)

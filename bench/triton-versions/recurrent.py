"""Attention in all its forms: fused, decoding, linear, recurrent with the delta rule, and recurrences with gates."""

import numpy as np
import triton
import triton.language as tl
from launches import Cases, Launch, changed, given, left, normal

CASES = Cases()
EVERY = (1, 2, 4, 8)


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, length, scale, CAUSAL: tl.constexpr, M: tl.constexpr,
              N: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1) * length * D
    rows = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + rows[:, None] * D + d[None, :], mask=rows[:, None] < length, other=0.0)
    top = tl.full([M], -1e30, dtype=tl.float32)
    total = tl.zeros([M], dtype=tl.float32)
    acc = tl.zeros([M, D], dtype=tl.float32)
    end = length
    if CAUSAL:
        end = tl.minimum(length, (tl.program_id(0) + 1) * M)
    for start in range(0, end, N):
        at = start + tl.arange(0, N)
        inside = at < length
        k = tl.load(k_ptr + base + at[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        visible = inside[None, :]
        if CAUSAL:
            visible = visible & (rows[:, None] >= at[None, :])
        s = tl.where(visible, s, -1e30)
        above = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - above[:, None])
        alpha = tl.exp(top - above)
        v = tl.load(v_ptr + base + at[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        total = total * alpha + tl.sum(p, 1)
        top = above
    out = acc / total[:, None]
    out_at = out_ptr + base + rows[:, None] * D + d[None, :]
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < length)
    tl.store(lse_ptr + tl.program_id(1) * length + rows, top + tl.log(total), mask=rows < length)


@triton.jit
def decoding(q_ptr, k_ptr, v_ptr, out_ptr, length, scale, N: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(0)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + d).to(tl.float32) * scale
    top = -float("inf")
    total = 0.0
    acc = tl.zeros([D], dtype=tl.float32)
    for start in range(0, length, N):
        at = start + tl.arange(0, N)
        mask = at < length
        place = head * length * D + at[:, None] * D + d[None, :]
        k = tl.load(k_ptr + place, mask=mask[:, None], other=0.0).to(tl.float32)
        s = tl.where(mask, tl.sum(q[None, :] * k, axis=1), -float("inf"))
        above = tl.maximum(top, tl.max(s, axis=0))
        p = tl.exp(s - above)
        alpha = tl.exp(top - above)
        v = tl.load(v_ptr + place, mask=mask[:, None], other=0.0).to(tl.float32)
        acc = acc * alpha + tl.sum(p[:, None] * v, axis=0)
        total = total * alpha + tl.sum(p, axis=0)
        top = above
    tl.store(out_ptr + head * D + d, acc / total)


@triton.jit
def decoding_merge(part_ptr, lse_ptr, out_ptr, parts, P: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(0)
    p, d = tl.arange(0, P), tl.arange(0, D)
    lse = tl.load(lse_ptr + head * parts + p, mask=p < parts, other=-float("inf"))
    w = tl.exp(lse - tl.max(lse, axis=0))
    w = w / tl.sum(w, axis=0)
    x = tl.load(part_ptr + (head * parts + p)[:, None] * D + d[None, :], mask=(p < parts)[:, None], other=0.0)
    tl.store(out_ptr + head * D + d, tl.sum(x * w[:, None], axis=0))


# The delta rule, a step at a time: the state loses what it has for the key and gets the value instead. Each program has
# some columns of the state.
@triton.jit
def delta_rule(q_ptr, k_ptr, v_ptr, beta_ptr, state_ptr, out_ptr, last_ptr, length, scale, K: tl.constexpr,
               V: tl.constexpr, BV: tl.constexpr):
    head = tl.program_id(1)
    ks = tl.arange(0, K)
    vs = tl.program_id(0) * BV + tl.arange(0, BV)
    state = tl.load(state_ptr + head * K * V + ks[:, None] * V + vs[None, :])
    for t in range(0, length):
        at = head * length + t
        q = tl.load(q_ptr + at * K + ks).to(tl.float32) * scale
        k = tl.load(k_ptr + at * K + ks).to(tl.float32)
        v = tl.load(v_ptr + at * V + vs).to(tl.float32)
        k = k / tl.sqrt(tl.sum(k * k) + 1e-6)
        v -= tl.sum(state * k[:, None], axis=0)
        v *= tl.load(beta_ptr + at)
        state += k[:, None] * v[None, :]
        tl.store(out_ptr + at * V + vs, tl.sum(state * q[:, None], axis=0))
    tl.store(last_ptr + head * K * V + ks[:, None] * V + vs[None, :], state)


# The same with the state the other way round and a gate for each step.
@triton.jit
def gated_delta_rule(q_ptr, k_ptr, v_ptr, g_ptr, beta_ptr, out_ptr, length, scale, K: tl.constexpr, V: tl.constexpr,
                     BV: tl.constexpr):
    head = tl.program_id(1)
    ks = tl.arange(0, K)
    vs = tl.program_id(0) * BV + tl.arange(0, BV)
    state = tl.zeros([BV, K], dtype=tl.float32)
    q_at, k_at = q_ptr + head * length * K + ks, k_ptr + head * length * K + ks
    v_at, out_at = v_ptr + head * length * V + vs, out_ptr + head * length * V + vs
    for t in range(0, length):
        q = tl.load(q_at) * scale
        k = tl.load(k_at)
        state *= tl.exp(tl.load(g_ptr + head * length + t))
        v = (tl.load(v_at) - tl.sum(state * k[None, :], axis=1)) * tl.load(beta_ptr + head * length + t)
        state += v[:, None] * k[None, :]
        tl.store(out_at, tl.sum(state * q[None, :], axis=1))
        q_at += K
        k_at += K
        v_at += V
        out_at += V


@triton.jit
def gated_linear(q_ptr, k_ptr, v_ptr, g_ptr, out_ptr, length, scale, REVERSE: tl.constexpr, K: tl.constexpr,
                 V: tl.constexpr, BV: tl.constexpr):
    head = tl.program_id(1)
    ks = tl.arange(0, K)
    vs = tl.program_id(0) * BV + tl.arange(0, BV)
    state = tl.zeros([BV, K], dtype=tl.float32)
    for i in range(0, length):
        at = head * length + (length - 1 - i if REVERSE else i)
        gate = tl.exp(tl.load(g_ptr + at * K + ks))
        state = state * gate[None, :] + tl.load(v_ptr + at * V + vs)[:, None] * tl.load(k_ptr + at * K + ks)[None, :]
        out = state * (tl.load(q_ptr + at * K + ks) * scale)[None, :]
        tl.store(out_ptr + at * V + vs, tl.sum(out, axis=1))


@triton.jit
def linear_chunks(q_ptr, k_ptr, v_ptr, out_ptr, length, C: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(0)
    c, d = tl.arange(0, C), tl.arange(0, D)
    state = tl.zeros([D, D], dtype=tl.float32)
    for start in range(0, length, C):
        at = head * length * D + (start + c)[:, None] * D + d[None, :]
        q, k, v = tl.load(q_ptr + at), tl.load(k_ptr + at), tl.load(v_ptr + at)
        s = tl.dot(q, tl.trans(k))
        s = tl.where(c[:, None] >= c[None, :], s, 0.0)
        out = tl.dot(s.to(q.dtype), v) + tl.dot(q, state.to(q.dtype))
        state += tl.dot(tl.trans(k), v)
        tl.store(out_ptr + at, out)


@triton.jit
def selective_scan(x_ptr, dt_ptr, a_ptr, b_ptr, c_ptr, out_ptr, length, width, D: tl.constexpr, N: tl.constexpr):
    d, n = tl.program_id(0) * D + tl.arange(0, D), tl.arange(0, N)
    a = tl.load(a_ptr + d[:, None] * N + n[None, :])
    state = tl.zeros([D, N], dtype=tl.float32)
    for t in range(0, length):
        dt = tl.load(dt_ptr + t * width + d)
        x = tl.load(x_ptr + t * width + d)
        b = tl.load(b_ptr + t * N + n)
        c = tl.load(c_ptr + t * N + n)
        state = state * tl.exp(a * dt[:, None]) + (dt * x)[:, None] * b[None, :]
        tl.store(out_ptr + t * width + d, tl.sum(state * c[None, :], axis=1))


@triton.jit
def state_update(state_ptr, x_ptr, gate_ptr, out_ptr, D: tl.constexpr, N: tl.constexpr):
    head = tl.program_id(0)
    at = state_ptr + head * (D * N) + tl.arange(0, D)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + head * D + tl.arange(0, D))
    gate = tl.load(gate_ptr + head * N + tl.arange(0, N))
    state = tl.load(at) * gate[None, :] + x[:, None] * (1 - gate)[None, :]
    tl.store(at, state)
    tl.store(out_ptr + head * D + tl.arange(0, D), tl.sum(state * gate[None, :], axis=1))


@triton.jit
def causal_convolution(x_ptr, w_ptr, out_ptr, length, width, W: tl.constexpr, L: tl.constexpr, D: tl.constexpr):
    t = tl.program_id(0) * L + tl.arange(0, L)
    d = tl.program_id(1) * D + tl.arange(0, D)
    acc = tl.zeros([L, D], dtype=tl.float32)
    for i in tl.static_range(W):
        at = t - (W - 1 - i)
        x = tl.load(x_ptr + at[:, None] * width + d[None, :], mask=((at >= 0) & (at < length))[:, None], other=0.0)
        acc += x * tl.load(w_ptr + d * W + i)[None, :]
    acc = acc * tl.sigmoid(acc)
    tl.store(out_ptr + t[:, None] * width + d[None, :], acc, mask=(t < length)[:, None])


def attended(q, k, v, scale, causal):
    s = np.einsum("hmd,hnd->hmn", q, k) * scale
    if causal:
        s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
    top = s.max(2, keepdims=True)
    e = np.exp(s - top)
    return e / e.sum(2, keepdims=True) @ v, (top + np.log(e.sum(2, keepdims=True)))[..., 0]


def attending(length, d, m, causal, kind, tolerance):
    def draw(rng):
        q, k, v = (normal(rng, (2, length, d), kind) for _ in range(3))
        out, lse = attended(q, k, v, 0.125, causal)
        return Launch((-(-length // m), 2), {"q_ptr": given(q, kind), "k_ptr": given(k, kind), "v_ptr": given(v, kind),
                                             "out_ptr": left(out, kind, tolerance), "lse_ptr": left(lse, "fp32", 1e-4),
                                             "length": length, "scale": 0.125})
    return draw


def decoded(length, d):
    def draw(rng):
        q, k, v = (normal(rng, (3, n, d), "fp16") for n in (1, length, length))
        out, _ = attended(q, k, v, 0.25, False)
        return Launch((3,), {"q_ptr": given(q, "fp16"), "k_ptr": given(k, "fp16"), "v_ptr": given(v, "fp16"),
                             "out_ptr": left(out, "fp32", 2e-5), "length": length, "scale": 0.25})
    return draw


def merged(parts, d):
    def draw(rng):
        x, lse = normal(rng, (3, parts, d)), normal(rng, (3, parts))
        w = np.exp(lse)
        want = (x * (w / w.sum(1, keepdims=True))[..., None]).sum(1)
        return Launch((3,), {"part_ptr": given(x), "lse_ptr": given(lse), "out_ptr": left(want, "fp32", 2e-5),
                             "parts": parts})
    return draw


def delta(length, k, v, bv, kind):
    def draw(rng):
        heads, scale = 2, 0.25
        qs, ks, vs = normal(rng, (heads, length, k), kind), normal(rng, (heads, length, k), kind), normal(
            rng, (heads, length, v), kind)
        beta, first = rng.random((heads, length)).astype(np.float32), normal(rng, (heads, k, v))
        state, out = first.copy(), np.empty((heads, length, v))
        for t in range(length):
            key = ks[:, t] / np.sqrt((ks[:, t] ** 2).sum(1, keepdims=True) + 1e-6)
            new = (vs[:, t] - np.einsum("hkv,hk->hv", state, key)) * beta[:, t, None]
            state = state + key[:, :, None] * new[:, None]
            out[:, t] = np.einsum("hkv,hk->hv", state, qs[:, t]) * scale
        return Launch((v // bv, heads), {
            "q_ptr": given(qs, kind), "k_ptr": given(ks, kind), "v_ptr": given(vs, kind), "beta_ptr": given(beta),
            "state_ptr": given(first), "out_ptr": left(out, "fp32", 2e-5), "last_ptr": left(state, "fp32", 2e-5),
            "length": length, "scale": scale,
        })  # fmt: skip
    return draw


def gated_delta(length, k, v, bv):
    def draw(rng):
        heads, scale = 2, 0.25
        qs, vs = normal(rng, (heads, length, k)), normal(rng, (heads, length, v))
        ks = normal(rng, (heads, length, k), scale=k**-0.5)
        beta, g = rng.random((heads, length)).astype(np.float32), -rng.random((heads, length)).astype(np.float32)
        state, out = np.zeros((heads, v, k)), np.empty((heads, length, v))
        for t in range(length):
            state = state * np.exp(g[:, t].astype(float))[:, None, None]
            new = (vs[:, t] - np.einsum("hvk,hk->hv", state, ks[:, t])) * beta[:, t, None]
            state = state + new[:, :, None] * ks[:, t, None]
            out[:, t] = np.einsum("hvk,hk->hv", state, qs[:, t]) * scale
        return Launch((v // bv, heads), {"q_ptr": given(qs), "k_ptr": given(ks), "v_ptr": given(vs), "g_ptr": given(g),
                                         "beta_ptr": given(beta), "out_ptr": left(out, "fp32", 2e-5), "length": length,
                                         "scale": scale})
    return draw


def gated(length, k, v, bv, reverse):
    def draw(rng):
        heads, scale = 2, 0.25
        qs, ks, vs = normal(rng, (heads, length, k)), normal(rng, (heads, length, k)), normal(rng, (heads, length, v))
        g = -rng.random((heads, length, k)).astype(np.float32)
        state, out = np.zeros((heads, v, k)), np.empty((heads, length, v))
        for t in reversed(range(length)) if reverse else range(length):
            state = state * np.exp(g[:, t].astype(float))[:, None] + vs[:, t, :, None] * ks[:, t, None]
            out[:, t] = np.einsum("hvk,hk->hv", state, qs[:, t]) * scale
        return Launch((v // bv, heads), {"q_ptr": given(qs), "k_ptr": given(ks), "v_ptr": given(vs), "g_ptr": given(g),
                                         "out_ptr": left(out, "fp32", 2e-5), "length": length, "scale": scale})
    return draw


def chunked(length, d):
    def draw(rng):
        q, k, v = (normal(rng, (2, length, d), "fp16", 0.5) for _ in range(3))
        s = np.tril(np.einsum("hmd,hnd->hmn", q, k))
        return Launch((2,), {"q_ptr": given(q, "fp16"), "k_ptr": given(k, "fp16"), "v_ptr": given(v, "fp16"),
                             "out_ptr": left(s @ v, "fp32", 3e-3), "length": length})
    return draw


def scanned(length, width, d, n):
    def draw(rng):
        x, dt = normal(rng, (length, width)), rng.random((length, width)).astype(np.float32)
        a, b, c = -rng.random((width, n)).astype(np.float32), normal(rng, (length, n)), normal(rng, (length, n))
        state, out = np.zeros((width, n)), np.empty((length, width))
        for t in range(length):
            state = state * np.exp(a.astype(float) * dt[t].astype(float)[:, None]) + (dt[t] * x[t])[:, None] * b[t]
            out[t] = state @ c[t]
        return Launch((width // d,), {"x_ptr": given(x), "dt_ptr": given(dt), "a_ptr": given(a), "b_ptr": given(b),
                                      "c_ptr": given(c), "out_ptr": left(out, "fp32", 2e-5), "length": length,
                                      "width": width})
    return draw


def updated(d, n):
    def draw(rng):
        state, x = normal(rng, (3, d, n)), normal(rng, (3, d))
        gate = rng.random((3, n)).astype(np.float32).astype(float)
        want = state * gate[:, None] + x[:, :, None] * (1 - gate)[:, None]
        return Launch((3,), {"state_ptr": changed(state, want, "fp32", 1e-5), "x_ptr": given(x),
                             "gate_ptr": given(gate), "out_ptr": left((want * gate[:, None]).sum(2), "fp32", 1e-5)})
    return draw


def convolved(length, width, taps, tile):
    def draw(rng):
        x, w = normal(rng, (length, width)), normal(rng, (width, taps))
        padded = np.concatenate([np.zeros((taps - 1, width)), x])
        y = sum(padded[i : i + length] * w[:, i] for i in range(taps))
        want = y / (1 + np.exp(-y))
        return Launch((-(-length // tile[0]), width // tile[1]),
                      {"x_ptr": given(x), "w_ptr": given(w), "out_ptr": left(want, "fp32", 1e-5), "length": length,
                       "width": width})  # fmt: skip
    return draw


for causal in (False, True):
    CASES.of(attention, attending(40, 32, 32, causal, "fp16", 3e-3), warps=(1, 4), stages=(1, 3), suffix="fp16",
             CAUSAL=causal, M=32, N=16, D=32)
CASES.of(attention, attending(70, 64, 64, True, "bf16", 2e-2), warps=(4, 8), stages=(2,), suffix="bf16", CAUSAL=True,
         M=64, N=32, D=64)
CASES.of(decoding, decoded(50, 32), warps=EVERY, N=16, D=32)
CASES.of(decoding, decoded(50, 64), warps=EVERY, N=32, D=64)
CASES.of(decoding_merge, merged(5, 32), warps=EVERY, P=8, D=32)
CASES.of(delta_rule, delta(6, 16, 16, 8, "fp32"), warps=EVERY, K=16, V=16, BV=8)
CASES.of(delta_rule, delta(5, 64, 16, 8, "bf16"), warps=EVERY, suffix="bf16", K=64, V=16, BV=8)
CASES.of(gated_delta_rule, gated_delta(6, 16, 16, 8), warps=EVERY, K=16, V=16, BV=8)
CASES.of(gated_delta_rule, gated_delta(5, 64, 32, 32), warps=EVERY, K=64, V=32, BV=32)
for reverse in (False, True):
    CASES.of(gated_linear, gated(6, 16, 16, 8, reverse), warps=EVERY, REVERSE=reverse, K=16, V=16, BV=8)
CASES.of(linear_chunks, chunked(48, 16), warps=(1, 4), stages=(1, 3), C=16, D=16)
CASES.of(linear_chunks, chunked(64, 32), warps=(4,), stages=(1, 3), C=32, D=32)
CASES.of(selective_scan, scanned(6, 32, 16, 16), warps=EVERY, D=16, N=16)
CASES.of(selective_scan, scanned(5, 64, 64, 8), warps=EVERY, D=64, N=8)
CASES.of(state_update, updated(16, 32), warps=EVERY, D=16, N=32)
CASES.of(causal_convolution, convolved(20, 64, 4, (16, 32)), warps=(1, 4), W=4, L=16, D=32)

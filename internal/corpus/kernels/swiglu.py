"""SwiGLU, gate / (1 + exp(-gate)) up, of [B, S, H] tensors with any strides: one program a row, tile by tile."""

import triton
import triton.language as tl


@triton.jit
def swiglu(gate, up, out, S, H, gate_b, gate_s, gate_h, up_b, up_s, up_h, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    gate += (row // S) * gate_b + (row % S) * gate_s
    up += (row // S) * up_b + (row % S) * up_s
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        live = h < H
        g = tl.load(gate + h * gate_h, mask=live, other=0.0).to(tl.float32)
        u = tl.load(up + h * up_h, mask=live, other=0.0).to(tl.float32)
        y = g / (1.0 + tl.exp(-g)) * u
        tl.store(out + row * H + h, y.to(out.dtype.element_ty), mask=live)

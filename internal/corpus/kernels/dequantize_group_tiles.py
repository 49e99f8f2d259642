"""Dequantisation of int8 rows with a scale for each group of columns: tile by tile, the scale's address moved along."""

import triton
import triton.language as tl


@triton.jit
def dequantize_group_tiles(q, scale, out, C, group, q_r, q_c, scale_r, scale_g, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    q += row * q_r
    scale += row * scale_r
    for c0 in range(0, C, BLOCK):
        c = c0 + tl.arange(0, BLOCK)
        live = c < C
        s = tl.load(scale)  # groups are whole tiles: one scale serves the tile
        v = tl.load(q + c * q_c, mask=live, other=0).to(tl.float32)
        tl.store(out + row * C + c, (v * s).to(out.dtype.element_ty), mask=live)
        scale += ((c0 + BLOCK) // group - c0 // group) * scale_g

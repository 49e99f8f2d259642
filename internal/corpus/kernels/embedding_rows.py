"""Rows of a table [V, D] with any strides, named by an index for each of R rows: one program a row, tile by tile."""

import triton
import triton.language as tl


@triton.jit
def embedding_rows(table, index, out, D, table_v, table_d, index_r, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    table += tl.load(index + row * index_r) * table_v
    for start in range(0, D, BLOCK):
        d = start + tl.arange(0, BLOCK)
        live = d < D
        v = tl.load(table + d * table_d, mask=live, other=0.0)
        tl.store(out + row * D + d, v, mask=live)

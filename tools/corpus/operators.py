"""The operators of mutation: name, family, what the mutant does, and the fault it stands for.

An operator's places in a source are found by the function of its name in triton_edits.EDITS or cuda_edits.EDITS. All
are faults of meaning: none changes an order of additions or anything else that a right kernel may choose. Run as a
program, this prints docs/corpus-operators.md.
"""

from __future__ import annotations

import dataclasses
import hashlib

import cuda_edits
import triton_edits


@dataclasses.dataclass(frozen=True)
class Operator:
    name: str
    family: str
    what: str
    stands_for: str

    @property
    def languages(self) -> list[str]:
        known = {"Triton": set(triton_edits.EDITS), "CUDA": set(cuda_edits.EDITS)}
        return [language for language, names in known.items() if self.name in names]

    @property
    def held_out(self) -> bool:
        return self.name in HELD_OUT


TABLE = {
    "mask": [
        ("mask_drop_load", "a load has lost its mask", "reads beyond a ragged edge"),
        ("mask_drop_store", "a store has lost its mask", "writes beyond a ragged edge"),
        ("mask_le", "a mask lets one element too many in", "< and <= confused"),
        ("mask_other", "masked elements have the neutral value of another reduction", "0 for -inf, or -inf for 0"),
        ("mask_axis", "two axes are compared with each other's lengths", "rows and columns confused in a mask"),
        ("mask_half", "one of two conditions is not checked", "one ragged axis forgotten"),
    ],
    "tile loop": [
        ("loop_floor", "the last, partial tile is left out", "division rounded down where it must be up"),
        ("loop_start", "the first tile is left out", "loop from one"),
        ("loop_last_tile", "the last tile is left out", "loop that ends early"),
        ("loop_step", "tiles are taken one element too far apart", "step that is not the tile"),
    ],
    "index": [
        ("stride_swap", "two strides are exchanged", "arguments in the wrong order"),
        ("stride_contiguous", "the innermost stride is taken to be 1", "contiguous input assumed"),
        ("index_row_col", "row and column are exchanged in an address", "transposed index"),
        ("index_off_by_one", "a load is one element too far", "off by one"),
        ("pid_swap", "an index of the grid is taken from another axis", "axes of the grid confused"),
        ("index_div_mod", "quotient and remainder are exchanged", "an index is split the wrong way"),
        ("operand_swap", "another input is read", "pointers in the wrong order"),
    ],
    "accumulate": [
        ("acc_assign", "a sum is overwritten, not added to", "= for +="),
        ("acc_init_one", "a sum begins with 1", "accumulator not cleared"),
        ("acc_narrow", "a sum is rounded to float16 in every step", "accumulator in the format of the input"),
        ("cast_before_sum", "summands are rounded to float16", "conversion before the sum"),
        ("tf32", "a product of matrices is taken in tf32", "tf32 allowed by mistake"),
    ],
    "online softmax": [
        ("alpha_drop_acc", "the output is not rescaled when the maximum rises", "alpha forgotten"),
        ("alpha_drop_sum", "the sum is not rescaled when the maximum rises", "alpha forgotten"),
        ("max_not_subtracted", "the maximum is not subtracted", "naive softmax"),
        ("exp_base", "exponential or logarithm to the wrong base", "exp and exp2 confused"),
        ("stale_max", "weights are taken with the maximum of the tile before", "rescaling out of step"),
        ("max_of_tile", "the maximum of a tile replaces that of the row", "running maximum forgotten"),
        ("max_init", "the maximum begins with 0", "maximum not initialised to -inf"),
    ],
    "attention": [
        ("scale_missing", "scores are not scaled", "scale forgotten"),
        ("scale_wrong", "scores are scaled twice", "1/D for 1/sqrt(D)"),
        ("causal_off_by_one", "a mask of positions is off by one", "< and <= confused at the diagonal"),
        ("causal_align", "the mask is aligned at the top left", "lengths of queries and keys confused"),
        ("score_mask_drop", "scores are not masked", "padding or future keys are seen"),
        ("head_map", "a query head is given the wrong key head", "grouped heads mapped by remainder"),
    ],
    "normalise": [
        ("sqrt_drop", "the root is not taken", "variance for deviation"),
        ("eps_drop", "epsilon is left out", "division by zero"),
        ("eps_outside", "epsilon is added outside the root", "epsilon in the wrong place"),
        ("eps_wrong", "epsilon is ten times too large", "1e-5 for 1e-6"),
        ("n_minus_one", "the divisor is one too small", "sample for population"),
        ("block_as_divisor", "the divisor is the width of the tile", "padding counted"),
        ("padded_in_variance", "padded lanes enter the variance", "deviation of lanes beyond the row"),
        ("mean_drop", "the mean is not subtracted", "values not centred"),
    ],
    "constants": [
        ("const_percent", "a constant is 1 % too large", "misremembered constant"),
        ("const_tenfold", "a constant is ten times too large", "decimal point in the wrong place"),
        ("sign_flip", "a sign is wrong", "+ for -"),
    ],
    "special values": [
        ("nan_swallow", "NaN becomes 0", "NaN hidden by a comparison"),
        ("inf_clamp", "what is beyond 65504 becomes 65504", "saturating conversion"),
        ("inf_guard_drop", "a maximum of -inf is subtracted", "-inf less -inf is NaN"),
    ],
    "memory": [
        ("tail_unwritten", "the last element is not written", "uninitialised tail"),
        ("read_past_end", "a loop reads one element behind the end", "<= for <"),
    ],
    "concurrency": [
        ("barrier_drop", "a barrier is missing", "shared memory read too early or overwritten too early"),
        ("shuffle_wrong", "lanes exchange values in the wrong direction", "wrong shuffle"),
        ("async_wait_drop", "an asynchronous copy is not waited for", "wait forgotten"),
        ("atomic_drop", "an atomic addition is a plain one", "lost updates"),
    ],
    "quantisation": [
        ("clamp_bound", "a bound of the format is half as large", "224 for 448"),
        ("round_mode", "values are rounded down, not to the nearest", "wrong rounding"),
        ("scale_inverse", "the scale is the reciprocal of the right one", "multiplied for divided"),
        ("group_wrong", "groups are taken twice as long", "wrong group size"),
    ],
    "dispatch": [
        ("dispatch_one_size", "rows of one length are halved", "wrong template for one size"),
        ("dispatch_one_format", "results in a 16-bit format are halved", "wrong template for one format"),
    ],
    "gaming": [
        ("return_zeros", "the output is all zeros", "nothing computed"),
        ("constant_output", "the output is all ones", "expected value in place of a result"),
        ("store_skip_rows", "every fourth block writes nothing", "part of the work skipped"),
        ("partial_compute", "only the first tile is looked at", "part of the input skipped"),
    ],
}

OPERATORS = [Operator(name, family, what, fault) for family, rows in TABLE.items() for name, what, fault in rows]


def held_out_names(names: list[str]) -> set[str]:
    """A quarter of the operators, by the order of the SHA-256 of their names: nobody chose them."""
    order = sorted(names, key=lambda n: hashlib.sha256(n.encode()).hexdigest())
    return set(order[: len(order) // 4])


HELD_OUT = held_out_names([o.name for o in OPERATORS])

HEAD = """# The operators of mutation

Each makes one fault at one place of a kernel of the [corpus](corpus.md), as an edit of its source. Held-out operators,
a quarter, were chosen by the SHA-256 of their names; nothing was tuned while looking at what they make. Two families of
faults are missing: gradients, because compiled kernels have no backward oracle here, and offsets beyond 2^31, because
no such tensor fits in the memory of an emulated GPU. This page is generated: `make corpus`.

| operator | family | the mutant | stands for | languages | held out |
|---|---|---|---|---|---|
"""


def page() -> str:
    """docs/corpus-operators.md."""
    text = HEAD
    for o in OPERATORS:
        cells = [f"`{o.name}`", o.family, o.what, o.stands_for, ", ".join(o.languages), "yes" if o.held_out else ""]
        text += f"| {' | '.join(cells)} |\n"
    return text


if __name__ == "__main__":
    print(page(), end="")

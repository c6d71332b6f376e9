"""Clock cycles of reductions that the timing model does not use, as published closed forms.

Source, symbols and general form: `appliance.wafer.timing.collectives`.
"""

import math

from appliance.wafer.timing.collectives import (
    RAMP_CYCLES,
    chain_reduce,
    check_size,
    dependency_cycles,
)


def star_reduce(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> float:
    """Return the cycles of everyone sending to one PE: B (P - 1) + 2 T_R + 1."""
    check_size(num_pes, num_words)
    return num_words * (num_pes - 1) + dependency_cycles(ramp_cycles)


def tree_reduce(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> float:
    """Return the cycles of a binary tree: B log2 P receptions, P - 1 hops, log2 P dependencies."""
    check_size(num_pes, num_words)
    levels = math.ceil(math.log2(num_pes)) if num_pes > 1 else 0
    return num_words * levels + num_pes - 1 + dependency_cycles(ramp_cycles) * levels


def two_phase_reduce(
    num_pes: int,
    num_words: int,
    *,
    group_size: int | None = None,
    ramp_cycles: int = RAMP_CYCLES,
) -> float:
    """Return the cycles of chains within groups and then a chain over the groups' heads.

    T = 2 B + (2 T_R + 2) (S - 1) + (2 T_R + 1) (P / S - 1) + (P - S): each word is received twice,
    within a group every step is a dependency and a hop, between groups S hops are one dependency.
    A last group that is not full counts as one.

    Args:
        num_pes: PEs in the row.
        num_words: Words per PE.
        group_size: S; the root of the number of PEs if None. One group is the pure chain.
        ramp_cycles: T_R.
    """
    check_size(num_pes, num_words)
    size = group_size if group_size is not None else max(1, math.isqrt(num_pes))
    num_groups = math.ceil(num_pes / size)
    if num_groups <= 1:
        return chain_reduce(num_pes, num_words, ramp_cycles=ramp_cycles)
    step = dependency_cycles(ramp_cycles)
    within = (step + 1) * (size - 1)
    between = (step + size) * (num_groups - 1)
    return 2 * num_words + within + between


def best_group_size(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> int:
    """Return the group size for which the two-phase reduction is fastest (P alone: the chain)."""
    return min(
        range(1, num_pes + 1),
        key=lambda size: two_phase_reduce(
            num_pes, num_words, group_size=size, ramp_cycles=ramp_cycles
        ),
    )


def ring_allreduce(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> float:
    """Return the cycles of a ring: 2 (P - 1) B / P + 4 P - 6 + 2 (P - 1) (2 T_R + 1)."""
    check_size(num_pes, num_words)
    if num_pes == 1:
        return 0.0
    words = 2 * (num_pes - 1) * num_words / num_pes
    return words + 4 * num_pes - 6 + 2 * (num_pes - 1) * dependency_cycles(ramp_cycles)


def reduce_2d(
    num_columns: int, num_rows: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES
) -> float:
    """Return the cycles of two-phase reductions along the rows and then along one column."""
    along_rows = two_phase_reduce(num_columns, num_words, ramp_cycles=ramp_cycles)
    return along_rows + two_phase_reduce(num_rows, num_words, ramp_cycles=ramp_cycles)


def snake_reduce(
    num_columns: int, num_rows: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES
) -> float:
    """Return the cycles of one chain that visits every PE of the grid."""
    return chain_reduce(num_columns * num_rows, num_words, ramp_cycles=ramp_cycles)


def reduce_2d_lower_bound(
    num_columns: int, num_rows: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES
) -> float:
    """Return what no reduction over a grid can beat: max(B, B / 8 + M + N - 1 + 2 T_R + 1).

    The copy of the paper at hand prints B P / 8. The energy of a reduction is B (P - 1) hops;
    spread over the links of P PEs, as E / N in the general form, it is B / 8, which we take.
    """
    check_size(min(num_columns, num_rows), num_words)
    diameter = num_columns + num_rows - 1 + dependency_cycles(ramp_cycles)
    return max(num_words, num_words / 8 + diameter)


def general_form(
    *,
    contention: float,
    energy_per_link: float,
    distance: float,
    depth: float,
    ramp_cycles: int = RAMP_CYCLES,
) -> float:
    """Return max(C, E / N + L) + (2 T_R + 1) D, the form the special cases come from."""
    waiting = max(contention, energy_per_link + distance)
    return waiting + dependency_cycles(ramp_cycles) * depth

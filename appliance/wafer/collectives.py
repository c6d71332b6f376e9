"""Clock cycles of broadcasts and reductions on the wafer, as published closed forms.

Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888
(second-hand). The general form is T = max(C, E / N + L) + (2 T_R + 1) D, with C the words that the
busiest PE receives, E / N the mean load of a link, L the longest path in hops and D the longest
chain of dependent receptions, each of which crosses the ramp twice and spends one cycle in the PE.
T_R = 2 on WSE-2. All functions take the number of PEs and of 32-bit words per PE, and count until
the last PE that must know the result knows it.
"""

import math

RAMP_CYCLES = 2
"""T_R of WSE-2, one way between PE and router."""


def dependency_cycles(ramp_cycles: int = RAMP_CYCLES) -> int:
    """Return what one dependent reception costs: 2 T_R + 1."""
    return 2 * ramp_cycles + 1


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


def broadcast(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> float:
    """Return the cycles of a broadcast along a row: B + P + 2 T_R."""
    _check(num_pes, num_words)
    return num_words + num_pes + 2 * ramp_cycles


def broadcast_2d(
    num_columns: int, num_rows: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES
) -> float:
    """Return the cycles of a broadcast over a grid: B + M + N - 2 + 2 T_R + 1."""
    _check(min(num_columns, num_rows), num_words)
    return num_words + num_columns + num_rows - 2 + dependency_cycles(ramp_cycles)


def star_reduce(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> float:
    """Return the cycles of everyone sending to one PE: B (P - 1) + 2 T_R + 1."""
    _check(num_pes, num_words)
    return num_words * (num_pes - 1) + dependency_cycles(ramp_cycles)


def chain_reduce(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> float:
    """Return the cycles of a pipelined chain: B + (2 T_R + 2) (P - 1)."""
    _check(num_pes, num_words)
    return num_words + (dependency_cycles(ramp_cycles) + 1) * (num_pes - 1)


def tree_reduce(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> float:
    """Return the cycles of a binary tree: B log2 P receptions, P - 1 hops, log2 P dependencies."""
    _check(num_pes, num_words)
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
    _check(num_pes, num_words)
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
    _check(num_pes, num_words)
    if num_pes == 1:
        return 0.0
    words = 2 * (num_pes - 1) * num_words / num_pes
    return words + 4 * num_pes - 6 + 2 * (num_pes - 1) * dependency_cycles(ramp_cycles)


def reduce_then_broadcast(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> float:
    """Return the cycles of an allreduce as the better of two reductions, then a broadcast."""
    reduce = min(
        two_phase_reduce(num_pes, num_words, ramp_cycles=ramp_cycles),
        chain_reduce(num_pes, num_words, ramp_cycles=ramp_cycles),
    )
    return reduce + broadcast(num_pes, num_words, ramp_cycles=ramp_cycles)


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
    _check(min(num_columns, num_rows), num_words)
    diameter = num_columns + num_rows - 1 + dependency_cycles(ramp_cycles)
    return max(num_words, num_words / 8 + diameter)


def _check(num_pes: int, num_words: int) -> None:
    if num_pes < 1 or num_words < 0:
        raise ValueError(f"a collective needs PEs and words, got {num_pes} and {num_words}")

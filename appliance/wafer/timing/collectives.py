"""Clock cycles of broadcasts and reductions on the wafer, as published closed forms.

Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888
(second-hand). The general form is T = max(C, E / N + L) + (2 T_R + 1) D, with C the words that the
busiest PE receives, E / N the mean load of a link, L the longest path in hops and D the longest
chain of dependent receptions, each of which crosses the ramp twice and spends one cycle in the PE.
T_R = 2 on WSE-2. All functions take the number of PEs and of 32-bit words per PE, and count until
the last PE that must know the result knows it.
"""

RAMP_CYCLES = 2
"""T_R of WSE-2, one way between PE and router."""


def dependency_cycles(ramp_cycles: int = RAMP_CYCLES) -> int:
    """Return what one dependent reception costs: 2 T_R + 1."""
    return 2 * ramp_cycles + 1


def broadcast(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> float:
    """Return the cycles of a broadcast along a row: B + P + 2 T_R."""
    check_size(num_pes, num_words)
    return num_words + num_pes + 2 * ramp_cycles


def broadcast_2d(
    num_columns: int, num_rows: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES
) -> float:
    """Return the cycles of a broadcast over a grid: B + M + N - 2 + 2 T_R + 1."""
    check_size(min(num_columns, num_rows), num_words)
    return num_words + num_columns + num_rows - 2 + dependency_cycles(ramp_cycles)


def chain_reduce(num_pes: int, num_words: int, *, ramp_cycles: int = RAMP_CYCLES) -> float:
    """Return the cycles of a pipelined chain: B + (2 T_R + 2) (P - 1)."""
    check_size(num_pes, num_words)
    return num_words + (dependency_cycles(ramp_cycles) + 1) * (num_pes - 1)


def check_size(num_pes: int, num_words: int) -> None:
    """Raise ValueError unless there are PEs, and words are not fewer than none."""
    if num_pes < 1 or num_words < 0:
        raise ValueError(f"a collective needs PEs and words, got {num_pes} and {num_words}")

"""The order of additions: a binary tree over the leaves, fixed by their number alone.

Floating-point addition is not associative, so the same tree means the same bits, whatever order the
values arrive in. Adjacent leaves are added in pairs, then pairs of pairs, and so on; what has no
partner waits for one higher up. A run of leaves that begins at a multiple of its length, a power of
two, is a subtree: adding such runs separately, and then their sums, is the same order.
"""

from dataclasses import dataclass

from appliance.core.errors import InternalError


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """One addition: the value at `source` is added to the value at `target`.

    Attributes:
        target: Index of the leaf that accumulates.
        source: Index of the leaf that is done with afterwards; greater than `target`.
    """

    target: int
    source: int


def additions(num_leaves: int) -> tuple[Addition, ...]:
    """Return the additions that leave the sum of all leaves in leaf 0.

    They are ordered so that each may run as soon as leaf `source` and all smaller leaves have
    arrived; the last one is the tree's root.

    Args:
        num_leaves: Number of values, at least 1.

    Raises:
        InternalError: There is nothing to sum.
    """
    if num_leaves < 1:
        raise InternalError(f"A tree needs leaves, not {num_leaves}.")
    found: list[Addition] = []
    _add_subtree(0, num_leaves, found)
    return tuple(found)


def _add_subtree(first: int, end: int, found: list[Addition]) -> None:
    """Append the additions of the leaves from `first` to `end`: left half, right half, both."""
    if end - first < 2:
        return
    half = 1 << (end - first - 1).bit_length() - 1
    _add_subtree(first, first + half, found)
    _add_subtree(first + half, end, found)
    found.append(Addition(target=first, source=first + half))

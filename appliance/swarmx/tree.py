"""The reduction tree: which values are added to which, in an order fixed by their number alone.

A tree node adds its children from left to right into the leftmost one. Floating-point addition is
not associative, so the same tree means the same bits, whatever order the values arrive in.
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


def additions(num_leaves: int, *, fan_in: int) -> tuple[Addition, ...]:
    """Return the additions that leave the sum of all leaves in leaf 0.

    They are ordered so that each may run as soon as leaf `source` and all smaller leaves have
    arrived; the last one is the tree's root.

    Args:
        num_leaves: Number of values, at least 1.
        fan_in: Children that one tree node waits for; 2 or more.

    Raises:
        InternalError: `fan_in` is below 2, or there is nothing to sum.
    """
    if num_leaves < 1 or fan_in < 2:
        raise InternalError(f"A tree needs leaves and a fan-in of 2, not {num_leaves}, {fan_in}.")
    found: list[Addition] = []
    _add_subtree(0, num_leaves, _width(num_leaves, fan_in), fan_in, found)
    return tuple(found)


def _width(num_leaves: int, fan_in: int) -> int:
    """Return how many leaves one child of the root covers: a power of the fan-in."""
    width = 1
    while width * fan_in < num_leaves:
        width *= fan_in
    return width


def _add_subtree(first: int, end: int, width: int, fan_in: int, found: list[Addition]) -> None:
    """Append the additions of the subtree over leaves `first` to `end`, child by child."""
    for child in range(first, end, width):
        if width > 1:
            _add_subtree(child, min(child + width, end), width // fan_in, fan_in, found)
        if child > first:
            found.append(Addition(target=first, source=child))

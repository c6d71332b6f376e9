"""What a value looks like on one system, and how a reshape carries it over."""

import math
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """A value that each system holds a part of.

    The dim `axis` has the size outer * batch * inner and is seen as [outer, batch, inner]; a system
    holds its samples of the middle one. `outer` is 1 unless other dims were merged in front of the
    batch, as where sequences come first.

    Attributes:
        axis: The dim that holds the batch.
        outer: Repetitions of the batch in that dim.
    """

    axis: int
    outer: int = 1


def fits(shape: Shape, sharding: Sharding, batch_size: int) -> bool:
    """Whether a shape can be sharded so."""
    return shape[sharding.axis] % (sharding.outer * batch_size) == 0


def through_reshape(
    source: Shape, target: Shape, sharding: Sharding, batch_size: int
) -> Sharding | None:
    """Return the sharding that a reshape turns `sharding` into; None if it is not expressible.

    Args:
        source: Shape before.
        target: Shape after.
        sharding: Sharding before.
        batch_size: Global batch.
    """
    repetitions = math.prod(source[: sharding.axis]) * sharding.outer
    candidates: list[Sharding] = []
    before = 1
    for axis, size in enumerate(target):
        if repetitions % before == 0:
            found = Sharding(axis=axis, outer=repetitions // before)
            if fits(target, found, batch_size):
                candidates.append(found)
        before *= size
    if not candidates:
        return None
    return min(candidates, key=lambda found: (found.outer, found.axis != sharding.axis))

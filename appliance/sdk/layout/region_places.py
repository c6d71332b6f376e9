"""Places for the regions that were given none."""

from collections.abc import Sequence

from appliance.sdk.layout.code_regions import CodeRegion

GAP = 2
"""Columns between regions: room for paths and for ports of the host."""


def place_all(regions: Sequence[CodeRegion]) -> None:
    """Place what has no place to the right of everything, the first at (0, 0)."""
    taken = [region.origin[0] + region.width for region in regions if region.origin is not None]
    x = max(taken) + GAP if taken else 0
    for region in regions:
        if region.origin is None:
            region.place(x, 0)
            x += region.width + GAP

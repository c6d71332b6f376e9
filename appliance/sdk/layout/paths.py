"""Paths between ports over the routers of PEs that no region occupies."""

from collections import deque
from collections.abc import Callable, Container

from appliance.sdk.layout.code_regions import Pe
from appliance.sdk.layout.routing import OPPOSITE, STEPS, Route

MARGIN = 3
"""How far beyond what is occupied a path may go."""

Box = tuple[int, int, int, int]
"""Least column and row, then greatest."""


def beside(pe: Pe, route: Route) -> Pe:
    """Return the PE beside another in a direction."""
    dx, dy = STEPS[route]
    return pe[0] + dx, pe[1] + dy


def box_of(pes: list[Pe], margin: int) -> Box:
    """Return the rectangle around some PEs."""
    xs, ys = [x for x, _ in pes], [y for _, y in pes]
    return min(xs) - margin, min(ys) - margin, max(xs) + margin, max(ys) + margin


def find_path(
    start: Pe, is_goal: Callable[[Pe], bool], blocked: Container[Pe], box: Box
) -> list[Pe] | None:
    """Return a shortest way from a free PE to one that is a goal, both included; None for none."""
    if start in blocked:
        return None
    before: dict[Pe, Pe | None] = {start: None}
    waiting = deque([start])
    while waiting:
        pe = waiting.popleft()
        if is_goal(pe):
            return _back(pe, before)
        for route in STEPS:
            following = beside(pe, route)
            inside = box[0] <= following[0] <= box[2] and box[1] <= following[1] <= box[3]
            if inside and following not in before and following not in blocked:
                before[following] = pe
                waiting.append(following)
    return None


def _back(pe: Pe, before: dict[Pe, Pe | None]) -> list[Pe]:
    found = [pe]
    while (earlier := before[found[-1]]) is not None:
        found.append(earlier)
    return found[::-1]


def routes_along(path: list[Pe], entry: Route, leave: Route) -> list[tuple[Pe, Route, Route]]:
    """Return where wavelets come from and go to at each PE of a path.

    Args:
        path: The PEs.
        entry: Where they come from at the first.
        leave: Where they go at the last.
    """
    found = []
    for at, pe in enumerate(path):
        source = entry if at == 0 else OPPOSITE[_direction(path[at - 1], pe)]
        target = leave if at == len(path) - 1 else _direction(pe, path[at + 1])
        found.append((pe, source, target))
    return found


def _direction(pe: Pe, following: Pe) -> Route:
    return next(route for route in STEPS if beside(pe, route) == following)

"""How many connections may be open at a time, and how many of them from one place.

A connection costs descriptors of this process before anybody has proved anything on it. So a place
may have half as many as are left for all: one alone has a third at most, and each leaves two thirds
of what it has found, so whoever comes next finds some.

Source: Choudhury, Hahne, Dynamic queue length thresholds for shared-memory packet switches, 1998,
IEEE/ACM Transactions on Networking 6(2), with a factor of 1/2.
"""

import logging
import resource
from collections import Counter
from collections.abc import Collection

from appliance.wire.connections.accepted import Accepted

logger = logging.getLogger(__name__)

_MOST = 8192
_LEAST = 64
_DESCRIPTORS_EACH = 5
"""Three for each connection that is passed on; the others are for REST and this process's files."""
_SHARE_OF_FREE = 2
"""A place may have one connection for so many that are left."""
_OPERATORS_SHARE = 8
"""The operator and root have one place in so many beyond those for all, so that they can help."""


def places_for_all() -> int:
    """Return how many connections this process can pass on, by its limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(_LEAST, min(_MOST, soft // _DESCRIPTORS_EACH))


class ConnectionShares:
    """Counts the connections of one listener, or of several; for one event loop.

    Args:
        num_places: Connections at a time.
    """

    def __init__(self, num_places: int) -> None:
        self._num_places = num_places
        self._counts: Counter[str] = Counter()

    def take(self, origin: Accepted) -> str | None:
        """Count a connection.

        Args:
            origin: Where it comes from.

        Returns:
            What to give back at its end; None if it may not be kept.
        """
        place, free = origin.place, self._num_places - self._counts.total()
        if origin.is_operators:
            is_admitted = free > -max(1, self._num_places // _OPERATORS_SHARE)
        else:
            is_admitted = _SHARE_OF_FREE * self._counts[place] < free
        if not is_admitted:
            logger.debug("Connection refused", extra={"from": place, "has": self._counts[place]})
            return None
        self._counts[place] += 1
        return place

    def places(self) -> Collection[str]:
        """Return from where there are connections."""
        return self._counts.keys()

    def give_back(self, place: str) -> None:
        """Count a connection no more."""
        self._counts[place] -= 1
        if not self._counts[place]:
            del self._counts[place]

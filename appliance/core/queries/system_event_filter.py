"""Which events of systems a list has."""

import datetime as dt
from dataclasses import dataclass

from appliance.core.cluster.systems import SystemEventKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemEventFilter:
    """Which events to list; conditions combine with "and", empty ones do not count.

    Attributes:
        system: Only of this system.
        kind: Only of this kind.
        since: Only from this time on.
        until: Only before this time.
    """

    system: str = ""
    kind: SystemEventKind | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None

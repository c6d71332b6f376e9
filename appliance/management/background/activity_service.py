"""Use of the cluster over time and by user, and current data rates: the dashboard's numbers."""

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.readings import (
    SIMULATED_GRADIENT_STREAM,
    SIMULATED_RATE,
    SIMULATED_WEIGHT_STREAM,
)
from appliance.core.ids import Role
from appliance.core.queries.job_filter import JobFilter
from appliance.core.queries.usage import (
    LABEL_PREFIX,
    Span,
    UsageLine,
    check_groupings,
    report,
)
from appliance.management.store.state import State
from appliance.scheduler.policy import Policy
from appliance.storage.cluster.activity import Holding, holdings_since, uses_between

_POINTS = 120
_REPORT_DAYS = 30
_HALF_LIVES = 8
"""Use older than this many half-lives counts less than half a percent and is left out."""
_MAX_RUNNING = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """Share of the systems in use.

    Attributes:
        at: Ends of equal spans of time, oldest first.
        share_in_use: System time used in each span over that available, from 0 to 1.
    """

    at: tuple[dt.datetime, ...]
    share_in_use: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountUse:
    """What one user has had in one session.

    Attributes:
        user: The user's name, or number if they have none.
        system_seconds: System time, halved with every half-life since.
        share: Of what everybody had.
    """

    user: str
    session: str
    system_seconds: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What all running jobs would move on real systems; None when no job says.

    Attributes:
        simulated_weight_bytes_per_second: From MemoryX into the systems.
        simulated_gradient_bytes_per_second: Out of the systems.
        simulated_samples_per_second: From the input workers.
    """

    simulated_weight_bytes_per_second: float | None
    simulated_gradient_bytes_per_second: float | None
    simulated_samples_per_second: float | None


class ActivityService:
    """Reads use and data rates from the stored records of jobs and pods.

    Args:
        state: The appliance's database.
        policy: Says how fast past use is forgotten.
    """

    def __init__(self, state: State, policy: Policy) -> None:
        self._state = state
        self._half_life = dt.timedelta(seconds=policy.half_life_seconds)

    def utilization(self, window: dt.timedelta) -> Utilization:
        """Return the use of all systems over the time up to now."""
        now = self._state.clock.now()
        holdings = holdings_since(self._state.database, now - window)
        return utilization(
            holdings, now=now, window=window, num_systems=len(self._state.systems.list())
        )

    def report(self, by: Sequence[str], span: Span) -> Sequence[UsageLine]:
        """Return system time used in a span, by group; see `core.queries.usage.report`.

        Raises:
            UserError: It cannot be grouped so.
        """
        groupings = check_groupings(by)
        labels = [
            name.removeprefix(LABEL_PREFIX) for name in groupings if name.startswith(LABEL_PREFIX)
        ]
        uses = uses_between(self._state.database, span, labels=labels)
        return report(uses, by=groupings, span=span, now=self._state.clock.now())

    def last_days(self, since: dt.datetime | None, until: dt.datetime | None) -> Span:
        """Return a span whose end is now, if none is given, and that then is thirty days long."""
        end = until or self._state.clock.now()
        return Span(since=since or end - dt.timedelta(days=_REPORT_DAYS), until=end)

    def shares(self) -> Sequence[AccountUse]:
        """Return use by account, the largest first."""
        now = self._state.clock.now()
        since = now - _HALF_LIVES * self._half_life
        holdings = holdings_since(self._state.database, since)
        return shares(holdings, now=now, half_life=self._half_life)

    def flow(self) -> Flow:
        """Return what flows now."""
        running = self._state.job_pages.page(
            JobFilter(type=JobType.EXECUTE, phases=(Phase.RUNNING,), limit=_MAX_RUNNING)
        )
        readings = [
            pod.readings
            for line in running
            for pod in self._state.pods.of_job(line.id)
            if pod.role is Role.CHIEF
        ]

        def total(name: str) -> float | None:
            found = [values[name] for values in readings if name in values]
            return sum(found) if found else None

        return Flow(
            simulated_weight_bytes_per_second=total(SIMULATED_WEIGHT_STREAM),
            simulated_gradient_bytes_per_second=total(SIMULATED_GRADIENT_STREAM),
            simulated_samples_per_second=total(SIMULATED_RATE),
        )


def utilization(
    holdings: Sequence[Holding], *, now: dt.datetime, window: dt.timedelta, num_systems: int
) -> Utilization:
    """Return the share of system time used in each of equal spans up to `now`. Pure.

    Args:
        holdings: Who held systems when.
        now: End of the last span.
        window: All spans together.
        num_systems: Systems there are.
    """
    span = window / _POINTS
    begin = now - window
    used = [dt.timedelta()] * _POINTS
    for holding in holdings:
        start = max(holding.started_at, begin)
        end = min(holding.ended_at or now, now)
        if end <= start:
            continue
        first = min(int((start - begin) / span), _POINTS - 1)
        last = min(int((end - begin) / span), _POINTS - 1)
        for index in range(first, last + 1):
            low, high = begin + index * span, begin + (index + 1) * span
            used[index] += max(min(end, high) - max(start, low), dt.timedelta()) * (
                holding.num_systems
            )
    available = span * max(num_systems, 1)
    return Utilization(
        at=tuple(begin + (index + 1) * span for index in range(_POINTS)),
        share_in_use=tuple(min(each / available, 1.0) for each in used),
    )


def shares(
    holdings: Sequence[Holding], *, now: dt.datetime, half_life: dt.timedelta
) -> Sequence[AccountUse]:
    """Return each account's decayed use, the most first, as the scheduler's ledger counts it. Pure.

    Use counts as of the end of its job, `system_seconds * 2 ** (-age / half_life)`.
    """
    use: defaultdict[tuple[str, str], float] = defaultdict(float)
    for holding in holdings:
        end = holding.ended_at or now
        seconds = (end - holding.started_at).total_seconds() * holding.num_systems
        account = (holding.session, holding.user or str(holding.uid))
        use[account] += seconds * 2.0 ** (-((now - end) / half_life))
    everything = sum(use.values())
    return [
        AccountUse(
            user=user,
            session=session,
            system_seconds=seconds,
            share=seconds / everything if everything else 0.0,
        )
        for (session, user), seconds in sorted(use.items(), key=lambda item: -item[1])
    ]
